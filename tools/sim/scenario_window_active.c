/* SPDX-License-Identifier: BSD-3-Clause */

/* Active target: rounds of fences, and rounds of post, start, complete and wait (or test) among
 * groups that change. What was put in an epoch is there at its end, and nothing of a later one. */

#include "config.h"

#include "scenario_util.h"

#define MEMBERS_MAX 64

/* A get that the end of its epoch waits for. */
struct late {
    bool posted;
    uint64_t value;
};

struct state {
    struct sim_state common;
    bool drawn;
    enum loco_window_kind kind;
    uint32_t graph;             /* who accesses whom: drawn once, known to all */
    uint64_t *memory;           /* for a window on the user's memory */
    int *fences;                /* of each: begun */
    struct late *late;          /* of each thread of each */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_window_t *win;
    int rank, n;
    uint64_t *base;             /* a word of each thread of each member */
    int ntargets;               /* of the epoch, and what is put there */
    int target[MEMBERS_MAX];
    uint64_t value;
    bool posts;                 /* the first thread still has to, after it has put */
    int norigins, origin[MEMBERS_MAX];
};

static int slot_of(const struct user *u, int rank, int thread)
{
    return rank * u->run->threads + thread;
}

/* After a death puts may have failed, and what was there before is there still. */
static bool is_right(const struct user *u, uint64_t value, uint64_t want)
{
    return value == want || (value < want && u->run->faults && sim_any_stopped(u->run));
}

/* What this member finds in its own part of another. */
static int check_base(struct user *u, int rank, uint64_t want, const char *after)
{
    for (int t = 0; t < u->run->threads; t++) {
        uint64_t value = sim_peek(&u->base[slot_of(u, rank, t)]);

        WANT(is_right(u, value, want), "p%d, after %s, finds %llu of p%d.t%d; it is %llu",
             u->rank, after, (unsigned long long)value, rank, t, (unsigned long long)want);
    }
    return SIM_FINE;
}

static int post(struct user *u)
{
    u->posts = false;
    TRY(u->run, loco_window_post(u->win, u->norigins, u->origin, 0));
    return SIM_FINE;
}

static int post_of_thread(void *arg, int thread)
{
    return thread == 0 ? post(arg) : SIM_FINE;
}

/* One word of those that others put meanwhile: it is what it was, or is to be. */
static int get_late(struct user *u, int thread)
{
    struct late *late = &u->s->late[slot_of(u, u->rank, thread)];
    int of = (u->rank + 1 + (int)loci_sim_draw((uint32_t)u->n)) % u->n;
    struct loco_span span = { &late->value, 8 * (uint64_t)slot_of(u, of, thread), 8 };

    if (u->ntargets == 0 || of == u->rank)
        return SIM_FINE;
    TRY(u->run, loco_window_get(u->win, u->target[loci_sim_draw((uint32_t)u->ntargets)], &span, 1,
                                LOCO_UNTIL_FLUSH));
    late->posted = true;
    return SIM_FINE;
}

static int check_late(struct user *u, uint64_t before, const char *after)
{
    for (int t = 0; t < u->run->threads; t++) {
        struct late *late = &u->s->late[slot_of(u, u->rank, t)];

        WANT(!late->posted || late->value == before || is_right(u, late->value, u->value),
             "p%d, after %s, has got %llu in it; it was %llu, then %llu", u->rank, after,
             (unsigned long long)late->value, (unsigned long long)before,
             (unsigned long long)u->value);
        late->posted = false;
    }
    return SIM_FINE;
}

/* Each thread puts the epoch's value to its targets. */
static int put_all(void *arg, int thread)
{
    struct user *u = arg;

    for (int i = 0; i < u->ntargets; i++)
        TRY(u->run, sim_put(u->win, u->target[i], 8 * (uint64_t)slot_of(u, u->rank, thread),
                            &u->value, 8));
    if (loci_sim_draw(2) == 0)
        PASS(get_late(u, thread));
    return u->posts && thread == 0 ? post(u) : SIM_FINE;
}

static int put_for_others(void *arg, int thread)
{
    struct user *u = arg;

    for (int t = u->run->threads - 1; t >= 0 && thread == 0; t--)
        PASS(put_all(u, t));
    return SIM_FINE;
}

/* The same, or one thread does it for all, this or another: what is put is on its way alone. */
static int put_by_any(struct user *u)
{
    switch (loci_sim_draw(3)) {
    case 0: return put_for_others(u, 0);
    case 1: return sim_threads(u->rt, u->run->threads, put_for_others, u);
    default: return sim_threads(u->rt, u->run->threads, put_all, u);
    }
}

/* ---- fence ---- */

/* Also what one put at another, seen by a third. */
static int get_any(struct user *u, uint64_t round)
{
    uint32_t n = (uint32_t)u->n;
    int at = (int)loci_sim_draw(n), of = (int)loci_sim_draw(n);
    int slot = slot_of(u, of, (int)loci_sim_draw((uint32_t)u->run->threads));
    uint64_t value = 0;

    TRY(u->run, sim_get(u->win, at, 8 * (uint64_t)slot, &value, 8));
    WANT(is_right(u, value, round),
         "p%d, after a fence, gets %llu, which p%d put at p%d; it is %llu", u->rank,
         (unsigned long long)value, of, at, (unsigned long long)round);
    return SIM_FINE;
}

struct fence_call {
    struct user *u;
    int thread, asserts;
};

static int fence_of_thread(void *arg, int thread)
{
    const struct fence_call *call = arg;

    if (thread == call->thread)
        TRY(call->u->run, loco_window_fence(call->u->win, call->asserts));
    return SIM_FINE;
}

/* By any thread: this one, or another. */
static int fence(struct user *u, int asserts)
{
    struct fence_call call = { u, (int)loci_sim_draw((uint32_t)u->run->threads + 1), asserts };

    if (call.thread == u->run->threads)
        return fence_of_thread(&call, call.thread);
    return sim_threads(u->rt, u->run->threads, fence_of_thread, &call);
}

/* Everybody puts the round's number into everybody's part. */
static int fence_round(struct user *u, uint64_t round)
{
    u->ntargets = u->n;
    u->value = round;
    for (int i = 0; i < u->n; i++)
        u->target[i] = (u->rank + i) % u->n;
    PASS(put_by_any(u));
    u->s->fences[u->rank]++;
    PASS(fence(u, loci_sim_draw(2) == 0 ? LOCO_ASSERT_NOSTORE : 0));
    PASS(check_late(u, round - 1, "a fence"));
    for (int i = 0; i < u->n; i++) {
        WANT(u->s->fences[i] >= (int)round, "p%d leaves fence %llu, which p%d has not entered",
             u->rank, (unsigned long long)round, i);
        PASS(check_base(u, i, round, "a fence"));
    }
    PASS(get_any(u, round));
    PASS(fence(u, LOCO_ASSERT_NOPUT));
    /* Nothing was put: who enters one after the other has no fence of the fabric between. */
    for (uint32_t i = u->s->graph / 2 % 5; i > 0; i--)
        PASS(fence(u, LOCO_ASSERT_NOPRECEDE));
    return SIM_FINE;
}

static int fences(struct user *u)
{
    TRY(u->run, loco_window_fence(u->win, LOCO_ASSERT_NOPRECEDE));
    for (int i = 1; i <= u->run->rounds; i++)
        PASS(fence_round(u, (uint64_t)i));
    TRY(u->run, loco_window_fence(u->win, LOCO_ASSERT_NOSUCCEED));
    WANT(sim_put(u->win, 0, 0, u->base, 8) == LOCO_ERR_STATE, "p%d puts outside an epoch",
         u->rank);
    return SIM_FINE;
}

/* ---- post, start, complete, wait ---- */

static bool edge(const struct user *u, int round, int origin, int target)
{
    uint32_t z = u->s->graph + (uint32_t)(round * 7919 + origin * 104729 + target * 1299709);

    z = (z ^ z >> 16) * UINT32_C(0x45d9f3b);
    return (z ^ z >> 16) % 5 < 2;
}

static int access_epoch(struct user *u)
{
    int result, status;

    if (u->ntargets == 0 && loci_sim_draw(2) == 0)
        return SIM_FINE;
    TRY(u->run, loco_window_start(u->win, u->ntargets, u->target, 0));
    result = put_by_any(u);
    status = loco_window_complete(u->win);
    PASS(sim_first(result, sim_check(u->run, status, "complete")));
    return check_late(u, 0, "complete");
}

/* Over when wait says so, or test. */
static int end_exposure(struct user *u)
{
    bool done = false;

    for (int i = 0; i < 20 && !done && loci_sim_draw(4) != 0; i++)
        TRY(u->run, loco_window_test(u->win, &done));
    if (!done)
        TRY(u->run, loco_window_wait(u->win));
    return SIM_FINE;
}

static int exposure_ends(struct user *u, int round)
{
    PASS(end_exposure(u));
    for (int i = 0; i < u->n; i++)
        PASS(check_base(u, i, edge(u, round, i, u->rank) ? u->value : 0, "wait"));
    return SIM_FINE;
}

static int pscw_round(struct user *u, int round)
{
    bool exposed, early;

    u->ntargets = u->norigins = 0;
    u->value = 1000 + (uint64_t)round;
    for (int i = u->n - 1; i >= 0; i--) {
        if (edge(u, round, i, u->rank))
            u->origin[u->norigins++] = i;
        if (edge(u, round, u->rank, i))
            u->target[u->ntargets++] = i;
    }
    exposed = u->norigins > 0 || loci_sim_draw(2) == 0;
    for (int i = 0; i < u->n * u->run->threads; i++)
        u->base[i] = 0;
    /* One may post within its access epoch: all others post before theirs. */
    u->posts = exposed && u->rank == 0 && u->ntargets > 0 && !edge(u, round, 0, 0)
               && loci_sim_draw(2) == 0;
    if (exposed && !u->posts)
        PASS(sim_threads(u->rt, u->run->threads, post_of_thread, u));
    /* And who is accessed by that one alone may see its epoch's end before it begins its own. */
    early = u->norigins == 1 && u->origin[0] == 0 && u->rank != 0 && loci_sim_draw(2) == 0;
    if (early)
        PASS(exposure_ends(u, round));
    PASS(access_epoch(u));
    return exposed && !early ? exposure_ends(u, round) : SIM_FINE;
}

static int use(struct user *u, struct sim_seat *seat)
{
    bool fenced_first = u->s->graph % 2 == 0;

    u->base = loco_window_base(u->win);
    if (fenced_first)
        PASS(fences(u));
    if (fenced_first)
        TRY(u->run, sim_meet(seat));
    for (int i = 1; i <= u->run->rounds; i++)
        PASS(pscw_round(u, i));
    return SIM_FINE;
}

/* Epochs that a death has left open are closed, or the window cannot be destroyed. */
static void close_epochs(struct user *u)
{
    loco_window_complete(u->win);
    loco_window_wait(u->win);
    loco_window_fence(u->win, LOCO_ASSERT_NOPRECEDE | LOCO_ASSERT_NOSUCCEED);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank,
                      .n = run->processes };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    struct loco_window_spec spec = { .disp_unit = 1 };
    int words = run->processes * run->threads;
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->kind = loci_sim_draw(2) == 0 ? LOCO_WINDOW_ALLOCATE : LOCO_WINDOW_CREATE;
        s->graph = loci_sim_draw(1000000);
    }
    spec.kind = s->kind;
    spec.size = 8 * (size_t)words;
    spec.base = s->memory + rank * words;
    result = sim_check(run, loco_window_create(rt, &exchange, &spec, &u.win), "create");
    if (result == SIM_FINE)
        result = use(&u, &seat);
    if (result == SIM_TOLD && u.win != NULL)
        close_epochs(&u);
    result = sim_part(&seat, result);
    if (u.win != NULL && result == 0)
        result = sim_check(run, loco_window_destroy(u.win), "destroy") == SIM_WRONG;
    return result;
}

static int begin(struct sim_run *run)
{
    size_t n = (size_t)run->processes;
    struct state *s;

    if (n > MEMBERS_MAX || sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->memory = calloc(n * n * (size_t)run->threads, sizeof s->memory[0]);
    s->fences = calloc(n, sizeof s->fences[0]);
    s->late = calloc(n * (size_t)run->threads, sizeof s->late[0]);
    return s->memory == NULL || s->fences == NULL || s->late == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->memory);
        free(s->fences);
        free(s->late);
    }
    sim_state_free(run);
}

/* ---- for `scale`: the fence ---- */

struct scale {
    struct sim_seat seat;
    loco_window_t *win;
};

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    struct scale *scale = calloc(1, sizeof *scale);
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 64,
                                           .disp_unit = 1, .one_thread = true };
    struct loco_exchange exchange;

    if (scale == NULL)
        return NULL;
    exchange = sim_scale_exchange(rt, rank, processes, &scale->seat);
    return loco_window_create(rt, &exchange, &spec, &scale->win) == LOCO_OK ? scale : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    (void)rt;
    (void)rank;
    (void)round;
    return loco_window_fence(((struct scale *)channel)->win, 0);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    struct scale *scale = channel;

    (void)rt;
    loco_window_fence(scale->win, LOCO_ASSERT_NOSUCCEED);
    loco_window_destroy(scale->win);
    sim_scale_leave(&scale->seat);
    free(scale);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_window_active;
const struct sim_scenario sim_scenario_window_active = {
    .name = "window_active",
    .about = "what all threads put before a fence, or complete, is there after the fence, or wait "
             "and test, and nothing later; `scale` measures the fence",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "up to 16: N-1 writes; above: ceil(log2 N); as many places of the last round",
};
