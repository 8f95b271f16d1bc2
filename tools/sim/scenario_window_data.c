/* SPDX-License-Identifier: BSD-3-Clause */

/* Puts and gets of one span or many inside lock_all. What any thread of a process has put before
 * one of them flushes, everybody gets afterwards; sources are free after acks and local flushes,
 * and what was to be got is there. */

#include "config.h"

#include "scenario_util.h"

#define WORDS 3                 /* that a thread owns at each target: two spans */
#define SLOT (8 * (WORDS + 1))

/* A get that the end of the epoch waits for, whichever thread ends it. */
struct late {
    bool posted;
    int slot, target;
    uint64_t words[WORDS], least;
};

struct state {
    struct sim_state common;
    bool drawn, one_thread;
    enum loco_window_kind kind;
    uint64_t *memory;           /* of each process, for a window on the user's memory */
    uint64_t *put, *flushed;    /* by slot and target: numbers whose puts have returned; visible */
    uint64_t *begun;
    uint64_t *snapshots;        /* by slot: what its process had put when it began to flush */
    struct late *late;          /* by slot */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_window_t *win;
    int rank;
};

/* Of a process: its threads, and the one that makes them and ends the epoch. */
static int putters(const struct sim_run *run)
{
    return run->threads + 1;
}

static int slots(const struct sim_run *run)
{
    return run->processes * putters(run);
}

static int slot_of(const struct user *u, int rank, int thread)
{
    return rank * putters(u->run) + thread;
}

static size_t at(const struct user *u, int slot, int target)
{
    return (size_t)(slot * u->run->processes + target);
}

/* Words 0 and 2, and word 3, in the caller's frame. */
static void fill(struct loco_span span[3], uint64_t *words, uint64_t offset)
{
    span[0] = (struct loco_span){ &words[0], offset, 8 };
    span[1] = (struct loco_span){ &words[1], offset + 16, 8 };
    span[2] = (struct loco_span){ &words[2], offset + 24, 8 };
}

/* Short ones, which may wait for each other where one thread calls. */
static int put_singly(struct user *u, int target, const struct loco_span span[3])
{
    for (int i = 0; i < 3; i++)
        TRY(u->run, loco_window_put(u->win, target, &span[i], 1, NULL));
    return SIM_FINE;
}

static int put_once(struct user *u, int thread, int target, uint64_t number)
{
    struct state *s = u->s;
    int slot = slot_of(u, u->rank, thread), status;
    uint64_t words[WORDS] = { number, number, number };
    loco_ack_t ack = LOCO_ACK_INIT;
    struct loco_span span[3];

    fill(span, words, SLOT * (uint64_t)slot);
    s->begun[at(u, slot, target)] = number;
    if (s->one_thread && loci_sim_draw(3) != 0) {
        PASS(put_singly(u, target, span));
    } else if (loci_sim_draw(2) == 0) {
        TRY(u->run, loco_window_put(u->win, target, span, 3, NULL));
    } else if (loci_sim_draw(2) == 0) {
        status = loco_window_put(u->win, target, span, 3, LOCO_UNTIL_FLUSH);
        status = sim_first(loco_window_flush_local(u->win, target), status);
        TRY(u->run, status);
    } else {
        status = loco_window_put(u->win, target, span, 3, &ack);
        status = sim_first(loco_ack_wait(u->rt, &ack), status);
        TRY(u->run, status);
    }
    memset(words, 0xee, sizeof words);
    s->put[at(u, slot, target)] = number;
    return SIM_FINE;
}

/* Covers what all threads of the process have put before the call. */
static int flush(struct user *u, int thread, int target, bool all)
{
    struct state *s = u->s;
    int n = u->run->processes, threads = putters(u->run);
    uint64_t *put = s->snapshots + slot_of(u, u->rank, thread) * slots(u->run);

    for (int i = 0; i < n; i++)
        for (int t = 0; t < threads; t++)
            put[i * threads + t] = s->put[at(u, slot_of(u, u->rank, t), i)];
    TRY(u->run, all ? loco_window_flush_all(u->win) : loco_window_flush(u->win, target));
    for (int i = 0; i < n; i++)
        for (int t = 0; t < threads; t++) {
            uint64_t *flushed = &s->flushed[at(u, slot_of(u, u->rank, t), i)];

            if ((all || i == target) && *flushed < put[i * threads + t])
                *flushed = put[i * threads + t];
        }
    return SIM_FINE;
}

static int check_got(struct user *u, const uint64_t words[WORDS], int slot, int target,
                     uint64_t least)
{
    uint64_t begun = u->s->begun[at(u, slot, target)];

    for (int i = 0; i < WORDS; i++)
        WANT(words[i] >= least && words[i] <= begun,
             "p%d gets %llu of slot %d at p%d; flushed is %llu, put %llu", u->rank,
             (unsigned long long)words[i], slot, target, (unsigned long long)least,
             (unsigned long long)begun);
    return SIM_FINE;
}

static int finish_get(struct user *u, int target)
{
    switch (loci_sim_draw(3)) {
    case 0: return loco_window_flush(u->win, target);
    case 1: return loco_window_flush_local(u->win, target);
    default: return loco_window_flush_all(u->win);
    }
}

/* Short ones, too, which may wait for each other. */
static int get_until_flush(struct user *u, int target, const struct loco_span span[3])
{
    int status = LOCO_OK;

    if (loci_sim_draw(2) == 0)
        return loco_window_get(u->win, target, span, 3, LOCO_UNTIL_FLUSH);
    for (int i = 0; status == LOCO_OK && i < 3; i++)
        status = loco_window_get(u->win, target, &span[i], 1, LOCO_UNTIL_FLUSH);
    return status;
}

/* `flushes`: inside the epoch. */
static int get_once(struct user *u, int slot, int target, bool flushes)
{
    uint64_t words[WORDS] = { 0 }, least = u->s->flushed[at(u, slot, target)];
    loco_ack_t ack = LOCO_ACK_INIT;
    struct loco_span span[3];
    int status;

    fill(span, words, SLOT * (uint64_t)slot);
    if (flushes && loci_sim_draw(2) == 0) {
        status = get_until_flush(u, target, span);
        status = sim_first(finish_get(u, target), status);
    } else if (loci_sim_draw(2) == 0) {
        status = loco_window_get(u->win, target, span, 3, &ack);
        status = sim_first(loco_ack_wait(u->rt, &ack), status);
    } else {
        status = loco_window_get(u->win, target, span, 3, NULL);
    }
    TRY(u->run, status);
    return check_got(u, words, slot, target, least);
}

static int get_late(struct user *u, int thread)
{
    struct late *late = &u->s->late[slot_of(u, u->rank, thread)];
    struct loco_span span[3];

    late->slot = (int)loci_sim_draw((uint32_t)slots(u->run));
    late->target = (int)loci_sim_draw((uint32_t)u->run->processes);
    late->least = u->s->flushed[at(u, late->slot, late->target)];
    fill(span, late->words, SLOT * (uint64_t)late->slot);
    TRY(u->run, get_until_flush(u, late->target, span));
    late->posted = true;
    return SIM_FINE;
}

static int check_late(struct user *u)
{
    for (int t = 0; t < u->run->threads; t++) {
        const struct late *late = &u->s->late[slot_of(u, u->rank, t)];

        if (late->posted)
            PASS(check_got(u, late->words, late->slot, late->target, late->least));
    }
    return SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;
    uint32_t n = (uint32_t)u->run->processes;

    for (int i = 1; i <= u->run->rounds; i++) {
        int target = (int)loci_sim_draw(n), slot;

        PASS(put_once(u, thread, target, (uint64_t)i));
        if (loci_sim_draw(3) == 0)
            TRY(u->run, loco_window_flush_local(u->win, target));
        /* One draw after the other: compilers evaluate arguments in orders of their own. */
        if (loci_sim_draw(3) != 0) {
            bool all = loci_sim_draw(4) == 0;

            PASS(flush(u, thread, loci_sim_draw(2) == 0 ? target : (int)loci_sim_draw(n), all));
        }
        slot = (int)loci_sim_draw((uint32_t)slots(u->run));
        PASS(get_once(u, slot, (int)loci_sim_draw(n), true));
    }
    return loci_sim_draw(2) == 0 ? get_late(u, thread) : SIM_FINE;
}

static int refused(struct user *u)
{
    uint64_t word = 7, size = SLOT * (uint64_t)slots(u->run);
    struct loco_span span[2] = { { &word, 0, 8 }, { &word, size - 4, 8 } };

    int status = loco_window_put(u->win, 0, span, 2, NULL);

    if (status != LOCO_ERR_RANGE)
        TRY(u->run, status);
    WANT(status == LOCO_ERR_RANGE, "p%d puts beyond the end", u->rank);
    WANT(sim_put(u->win, u->run->processes, 0, &word, 8) == LOCO_ERR_ARG,
         "p%d puts to no such rank", u->rank);
    return SIM_FINE;
}

/* Who ends the epoch may have put something itself, which the unlock may place, while what others
 * get is in flight. */
static int in_epoch(struct user *u)
{
    PASS(refused(u));
    PASS(u->s->one_thread ? thread_main(u, 0)
                          : sim_threads(u->rt, u->run->threads, thread_main, u));
    if (loci_sim_draw(2) == 0)
        return SIM_FINE;
    return put_once(u, u->run->threads, (int)loci_sim_draw((uint32_t)u->run->processes), 1);
}

/* All targets locked, at once or one after the other; `n` of them in that case. */
static int unlock(struct user *u, bool each, int n)
{
    int result = SIM_FINE;

    if (!each)
        return sim_check(u->run, loco_window_unlock_all(u->win), "unlock_all");
    for (int i = 0; i < n; i++)
        result = sim_first(result, sim_check(u->run, loco_window_unlock(u->win, i), "unlock"));
    return result;
}

static int lock(struct user *u, bool each)
{
    if (!each)
        return sim_check(u->run, loco_window_lock_all(u->win, 0), "lock_all");
    for (int i = 0; i < u->run->processes; i++) {
        int status = loco_window_lock(u->win, LOCO_LOCK_SHARED, i, 0);

        if (status != LOCO_OK)
            return sim_first(sim_check(u->run, status, "lock"), unlock(u, each, i));
    }
    return SIM_FINE;
}

/* By the lane of the thread that ended the epoch: others' puts there have to be placed by now. */
static int get_own(struct user *u)
{
    int target = (int)loci_sim_draw((uint32_t)u->run->processes), result, status;
    int slot = slot_of(u, u->rank, (int)loci_sim_draw((uint32_t)putters(u->run)));

    TRY(u->run, loco_window_lock(u->win, LOCO_LOCK_SHARED, target, 0));
    result = get_once(u, slot, target, false);
    status = loco_window_unlock(u->win, target);
    return sim_first(result, sim_check(u->run, status, "unlock"));
}

/* Unlock and unlock_all are a flush of everything, whichever thread has put it. */
static int use(struct user *u, struct sim_seat *seat)
{
    struct state *s = u->s;
    int result, status;
    bool each;

    each = loci_sim_draw(2) == 0;
    PASS(lock(u, each));
    result = in_epoch(u);
    PASS(sim_first(result, unlock(u, each, u->run->processes)));
    PASS(check_late(u));
    for (int i = 0; i < u->run->processes; i++)
        for (int t = 0; t < putters(u->run); t++) {
            size_t k = at(u, slot_of(u, u->rank, t), i);

            s->flushed[k] = s->put[k];
        }
    PASS(get_own(u));
    TRY(u->run, sim_meet(seat));
    TRY(u->run, loco_window_lock(u->win, LOCO_LOCK_SHARED, u->rank, 0));
    result = SIM_FINE;
    for (int i = 0; i < slots(u->run); i++)
        result = sim_first(result, get_once(u, i, u->rank, false));
    status = loco_window_unlock(u->win, u->rank);
    return sim_first(result, sim_check(u->run, status, "unlock"));
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    struct loco_window_spec spec = { .size = SLOT * (size_t)slots(run), .disp_unit = 1 };
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->kind = loci_sim_draw(2) == 0 ? LOCO_WINDOW_ALLOCATE : LOCO_WINDOW_CREATE;
        s->one_thread = loci_sim_draw(2) == 0;
    }
    spec.kind = s->kind;
    spec.one_thread = s->one_thread;
    spec.base = (unsigned char *)s->memory + (size_t)rank * spec.size;
    result = sim_check(run, loco_window_create(rt, &exchange, &spec, &u.win), "create");
    if (result == SIM_FINE)
        result = use(&u, &seat);
    result = sim_part(&seat, result);
    if (u.win != NULL && result == 0)
        result = sim_check(run, loco_window_destroy(u.win), "destroy") == SIM_WRONG;
    return result;
}

static int begin(struct sim_run *run)
{
    size_t n = (size_t)run->processes, cells = (size_t)slots(run) * n;
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->memory = calloc(cells, SLOT);
    s->put = calloc(3 * cells + (size_t)(slots(run) * slots(run)), sizeof s->put[0]);
    if (s->memory == NULL || s->put == NULL)
        return -1;
    s->flushed = s->put + cells;
    s->begun = s->flushed + cells;
    s->snapshots = s->begun + cells;
    s->late = calloc((size_t)slots(run), sizeof s->late[0]);
    return s->late == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->memory);
        free(s->put);
        free(s->late);
    }
    sim_state_free(run);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_window_data;
const struct sim_scenario sim_scenario_window_data = {
    .name = "window_data",
    .about = "what any thread put before one of its process flushed or unlocked, all get; what was "
             "never put, nobody; sources are free after acks and local flushes",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};
