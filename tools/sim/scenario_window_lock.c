/* SPDX-License-Identifier: BSD-3-Clause */

/* Locks of a window's targets, shared and exclusive, several at a time, and lock_all; each target
 * has a pair of words. Who is out of patience is not overtaken, but by those who have waited long
 * enough to pass (rw_word.h). What is read under a lock is here when that is given back, as it was
 * then. */

#include "config.h"

#include "scenario_util.h"

#include "wait.h"
#include "window/window.h"

struct target {
    int readers, writers;       /* who has it, by what its calls returned; all counts as a reader */
    int writer;
    uint64_t count;             /* what its words are */
    bool broken;                /* who wrote it was told of a death in the middle, and gave up */
    uint64_t memory[3];         /* for a window on the user's memory: the pair, and any value */
    const unsigned char *locks;
};

/* A get that nobody waits for before the lock is given back. */
struct late {
    bool posted, by_ack;
    loco_ack_t ack;
    uint64_t pair[2], count;
};

#define LATE 2                  /* locks that a process has at a time */

struct state {
    struct sim_state common;
    bool drawn;
    enum loco_window_kind kind;
    struct target *target;
    struct late *late;          /* here until all is over, should its origin be told of a death */
};

extern const struct sim_scenario sim_scenario_window_lock, sim_scenario_window_lock_single;

struct user {
    struct sim_run *run;
    struct state *s;
    loco_window_t *win;
    int rank;
};

/* ---- fairness ---- */

/* Tickets served of the words that a lock may take. */
struct words {
    uint64_t all, target;
    int64_t time;
};

static struct words look(const struct user *u, int target)
{
    const struct target *t = u->s->target;

    return (struct words){ sim_peek(t[0].locks + LOCI_WINDOW_GROUP),
                           sim_peek(t[target].locks + LOCI_WINDOW_LOCK), loci_now(u->win->rt) };
}

static bool overtaken(uint64_t before, uint64_t now)
{
    return loci_rw_closed(before) && ((before ^ now) >> LOCI_RW_SERVING_SHIFT & 0xffff) == 0;
}

/* A ticket that was served before the call is not ours, and is served still. */
static int check_fair(struct user *u, const struct words *before, int target, bool all, bool one,
                      bool nested)
{
    unsigned flags = nested ? LOCI_RW_NESTED : 0;
    struct words now = look(u, target);
    int64_t took = now.time - before->time;

    all &= took < loci_rw_pass(u->win->rt, nested ? flags | LOCI_RW_INSIDE : 0)
           && !(nested && u->win->one_thread);
    one &= took < loci_rw_pass(u->win->rt, flags);
    WANT(!all || !overtaken(before->all, now.all),
         "starvation: p%d overtakes ticket %llu of the window's lock", u->rank,
         (unsigned long long)(before->all >> LOCI_RW_SERVING_SHIFT & 0xffff));
    WANT(!one || !overtaken(before->target, now.target),
         "starvation: p%d overtakes ticket %llu of p%d's lock", u->rank,
         (unsigned long long)(before->target >> LOCI_RW_SERVING_SHIFT & 0xffff), target);
    return SIM_FINE;
}

/* ---- with a lock ---- */

static int read_pair(struct user *u, int target)
{
    uint64_t pair[2] = { 0 }, count = u->s->target[target].count;

    TRY(u->run, sim_get(u->win, target, 0, pair, sizeof pair));
    /* What was put to a process that has stopped since may be lost: its unlock says so. */
    WANT(u->s->target[target].broken || loci_sim_is_stopped(target)
         || (pair[0] == count && pair[1] == count),
         "p%d has p%d locked and reads %llu and %llu; both are %llu", u->rank, target,
         (unsigned long long)pair[0], (unsigned long long)pair[1], (unsigned long long)count);
    return SIM_FINE;
}

/* `exclusive`: something is written beside it. */
static int read_late(struct user *u, int target, struct late *late, bool exclusive)
{
    struct loco_span span = { late->pair, 0, sizeof late->pair };

    *late = (struct late){ .by_ack = loci_sim_draw(2) == 0, .ack = LOCO_ACK_INIT,
                           .count = u->s->target[target].count };
    TRY(u->run, loco_window_get(u->win, target, &span, 1,
                                late->by_ack ? &late->ack : LOCO_UNTIL_FLUSH));
    late->posted = true;
    if (exclusive)
        TRY(u->run, sim_put(u->win, target, 16, &late->count, 8));
    return SIM_FINE;
}

/* By now it is over, and was before anybody else could write there. */
static int check_late(struct user *u, int target, struct late *late)
{
    bool lost = u->s->target[target].broken || loci_sim_is_stopped(target);

    if (!late->posted)
        return SIM_FINE;
    late->posted = false;
    WANT(lost || (late->pair[0] == late->count && late->pair[1] == late->count),
         "p%d gets %llu and %llu of p%d under a lock; both were %llu", u->rank,
         (unsigned long long)late->pair[0], (unsigned long long)late->pair[1], target,
         (unsigned long long)late->count);
    if (late->by_ack)
        WANT(lost || loco_ack_test(u->win->rt, &late->ack) == LOCO_OK,
             "p%d has given p%d's lock back, and a get is in flight", u->rank, target);
    return SIM_FINE;
}

static int write_pair(struct user *u, int target)
{
    struct target *t = &u->s->target[target];
    uint64_t value = t->count + 1;

    PASS(read_pair(u, target));
    TRY(u->run, sim_put(u->win, target, 0, &value, 8));
    if (loci_sim_draw(3) == 0)
        TRY(u->run, loco_window_flush(u->win, target));
    TRY(u->run, sim_put(u->win, target, 8, &value, 8));
    t->count = value;
    return SIM_FINE;
}

static int enter(struct user *u, int target, bool exclusive)
{
    struct target *t = &u->s->target[target];
    bool lost = loci_sim_is_stopped(target);    /* its lock is nobody's any more */

    WANT(lost || t->writers == 0, "p%d has p%d locked %s, p%d exclusive", u->rank, target,
         exclusive ? "exclusive" : "shared", t->writer);
    WANT(lost || !exclusive || t->readers == 0,
         "p%d has p%d locked exclusive, %d have it shared or all", u->rank, target, t->readers);
    if (exclusive) {
        t->writers = 1;
        t->writer = u->rank;
    } else {
        t->readers++;
    }
    return SIM_FINE;
}

static void leave(struct user *u, int target, bool exclusive)
{
    struct target *t = &u->s->target[target];

    t->writers -= exclusive;
    t->readers -= !exclusive;
}

/* Has not asked for the window's lock. */
static bool is_quick(const struct user *u, int target)
{
    return (atomic_load(&u->win->target[target].epoch) & LOCI_EPOCH_QUICK) != 0;
}

/* As the component calls them: inline where nothing is unusual. */
static int lock(struct user *u, int target, bool exclusive)
{
    if (exclusive && loci_window_lock_now(u->win, target))
        return LOCO_OK;
    return loco_window_lock(u->win, exclusive ? LOCO_LOCK_EXCLUSIVE : LOCO_LOCK_SHARED, target, 0);
}

static int unlock(struct user *u, int target)
{
    return loci_window_unlock_now(u->win, target) ? LOCO_OK : loco_window_unlock(u->win, target);
}

static int lock_one(struct user *u, int target, bool exclusive, bool nested)
{
    struct words before = look(u, target);
    struct late *late = &u->s->late[LATE * u->rank + nested];
    bool late_only = loci_sim_draw(4) == 0;
    int result, status;

    TRY(u->run, lock(u, target, exclusive));
    PASS(check_fair(u, &before, target, exclusive && !is_quick(u, target), true, nested));
    PASS(enter(u, target, exclusive));
    result = late_only ? read_late(u, target, late, exclusive)
             : exclusive ? write_pair(u, target) : read_pair(u, target);
    u->s->target[target].broken |= exclusive && result != SIM_FINE;
    /* A second one, upwards. */
    if (result == SIM_FINE && !nested && u->run->scenario != &sim_scenario_window_lock_single
        && target + 1 < u->run->processes && loci_sim_draw(3) == 0)
        result = lock_one(u, target + 1, loci_sim_draw(2) == 0, true);
    leave(u, target, exclusive);
    status = unlock(u, target);
    PASS(sim_first(result, sim_check(u->run, status, "unlock")));
    return check_late(u, target, late);
}

static int lock_all(struct user *u)
{
    struct words before = look(u, 0);
    struct late *late = &u->s->late[LATE * u->rank];
    int n = u->run->processes, result, status, target = (int)loci_sim_draw((uint32_t)n);

    TRY(u->run, loci_window_lock_all_now(u->win) ? LOCO_OK : loco_window_lock_all(u->win, 0));
    PASS(check_fair(u, &before, 0, true, false, false));
    for (int i = 0; i < n; i++)
        PASS(enter(u, i, false));
    result = loci_sim_draw(2) == 0 ? read_pair(u, target) : read_late(u, target, late, false);
    for (int i = 0; i < n; i++)
        leave(u, i, false);
    status = loci_window_unlock_all_now(u->win) ? LOCO_OK : loco_window_unlock_all(u->win);
    PASS(sim_first(result, sim_check(u->run, status, "unlock_all")));
    return check_late(u, target, late);
}

/* ---- the body ---- */

static int use(struct user *u, struct sim_seat *seat)
{
    uint64_t none = 0;

    u->s->target[u->rank].locks = loci_sim_memory(u->win->rt, &u->win->locks[u->rank]);
    TRY(u->run, sim_meet(seat));
    WANT(sim_put(u->win, 0, 0, &none, 8) == LOCO_ERR_STATE, "p%d puts without a lock", u->rank);
    WANT(loco_window_unlock(u->win, 0) == LOCO_ERR_STATE, "p%d unlocks what it has not locked",
         u->rank);
    for (int i = 0; i < u->run->rounds; i++) {
        int target = (int)loci_sim_draw((uint32_t)u->run->processes);

        switch (loci_sim_draw(4)) {
        case 0: PASS(lock_all(u)); break;
        case 1: PASS(lock_one(u, target, false, false)); break;
        default: PASS(lock_one(u, target, true, false));
        }
    }
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    struct loco_exchange exchange = sim_exchange(&seat);
    struct loco_window_spec spec = {
        .base = s->target[rank].memory, .size = sizeof s->target[rank].memory, .disp_unit = 1,
    };
    int result;

    if (!s->drawn) {
        s->drawn = true;
        s->kind = loci_sim_draw(2) == 0 ? LOCO_WINDOW_ALLOCATE : LOCO_WINDOW_CREATE;
    }
    spec.kind = s->kind;
    spec.one_thread = loci_sim_draw(2) == 0;
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
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->target = calloc((size_t)run->processes, sizeof s->target[0]);
    s->late = calloc(LATE * (size_t)run->processes, sizeof s->late[0]);
    return s->target == NULL || s->late == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL) {
        free(s->target);
        free(s->late);
    }
    sim_state_free(run);
}

/* ---- for `scale` ---- */

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
    struct scale *scale = channel;
    int status = loco_window_lock(scale->win, LOCO_LOCK_SHARED, 0, 0);

    (void)rt;
    (void)rank;
    (void)round;
    return status != LOCO_OK ? status : loco_window_unlock(scale->win, 0);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    struct scale *scale = channel;

    (void)rt;
    loco_window_destroy(scale->win);
    sim_scale_leave(&scale->seat);
    free(scale);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=500ns",
                                        "LOCO_LOCK_REOPEN=1", NULL };

/* Nobody passes: who takes one lock at a time never has to. */
static const char *const never_pass[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=500ns",
                                          "LOCO_LOCK_REOPEN=1", "LOCO_LOCK_PASS=inf", NULL };

const struct sim_scenario sim_scenario_window_lock = {
    .name = "window_lock",
    .about = "targets locked shared, exclusive, two at a time, and lock_all: nobody is where he "
             "must not be, nor overtakes who is out of patience; a pair of words at each target",
    .processes = 3, .threads = 1, .rounds = 4, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "shared: 2 atomics per process",
};

const struct sim_scenario sim_scenario_window_lock_single = {
    .name = "window_lock_single",
    .about = "the same one at a time, where nobody may pass who waits in line: nobody needs to",
    .processes = 3, .threads = 1, .rounds = 4, .processes_min = 1,
    .settings = never_pass,
    .begin = begin, .body = body, .free = drop,
};
