/* SPDX-License-Identifier: BSD-3-Clause */

/* Readers and writers of a pair of words; who has lost patience is not overtaken, but by one that
 * has waited for LOCO_LOCK_PASS. */

#include "config.h"

#include "scenario_util.h"

#include "locks/rw_lock.h"
#include "wait.h"

struct state {
    struct sim_state common;
    bool drawn;
    int host, data_at;
    enum loco_fence_scope scope;
    const unsigned char *word;  /* the lock's, at its host */
    int readers, writers, writer;
    uint64_t count;             /* what the words are */
    bool broken;                /* who wrote it was told of a death in the middle, and gave up */
};

extern const struct sim_scenario sim_scenario_rw_lock, sim_scenario_rw_lock_hasty;

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    loco_rw_lock_t *lock;
    loco_region_t *region;
    int rank;
};

static void choose(struct state *s, int n)
{
    static const enum loco_fence_scope scopes[] = {
        LOCO_ORDER, LOCO_FENCE_PAIR, LOCO_FENCE_THREAD, LOCO_FENCE_PROCESS,
    };

    if (s->drawn)
        return;
    s->drawn = true;
    s->scope = scopes[loci_sim_draw(4)];
    s->host = (int)loci_sim_draw((uint32_t)n);
    s->data_at = s->scope == LOCO_ORDER ? s->host : (int)loci_sim_draw((uint32_t)n);
}

/* ---- with the lock ---- */

/* What is on its way to a process that stops may be lost; others of its node still read its
 * memory. */
static bool may_be_lost(const struct state *s)
{
    return s->broken || loci_sim_is_stopped(s->data_at);
}

static int read_pair(struct user *u)
{
    struct state *s = u->s;
    uint64_t pair[2];

    TRY(u->run, loco_region_read(u->region, s->data_at, 0, pair, sizeof pair));
    WANT(may_be_lost(s) || (pair[0] == s->count && pair[1] == s->count),
         "p%d holds the lock and reads %llu and %llu; both are %llu", u->rank,
         (unsigned long long)pair[0], (unsigned long long)pair[1], (unsigned long long)s->count);
    return SIM_FINE;
}

static int write_pair(struct user *u)
{
    struct state *s = u->s;
    loco_ack_t ack = LOCO_ACK_INIT;
    int holder = -2;

    PASS(read_pair(u));
    if (loci_sim_draw(4) == 0) {
        TRY(u->run, loco_rw_lock_holder(u->lock, &holder));
        WANT(holder == u->rank, "p%d holds the lock and is told that p%d does", u->rank, holder);
    }
    for (uint64_t i = 0; i < 2; i++)
        TRY(u->run, loco_region_write64_ack(u->region, s->data_at, 8 * i, s->count + 1, &ack));
    s->count++;
    return SIM_FINE;
}

static int shared(struct user *u)
{
    struct state *s = u->s;
    int result, status;

    WANT(s->writers == 0, "p%d has the lock shared, and p%d exclusive", u->rank, s->writer);
    s->readers++;
    result = read_pair(u);
    s->readers--;
    status = loco_rw_lock_release_shared(u->lock, LOCO_FENCE_NONE, 0);
    return sim_first(result, sim_check(u->run, status, "release shared"));
}

static int exclusive(struct user *u)
{
    struct state *s = u->s;
    int peer = s->scope == LOCO_FENCE_PAIR ? s->data_at : LOCO_ALL_PEERS;
    int result, status;

    WANT(s->writers == 0, "p%d has the lock exclusive, and p%d, too", u->rank, s->writer);
    WANT(s->readers == 0, "p%d has the lock exclusive, and %d have it shared", u->rank,
         s->readers);
    s->writers = 1;
    s->writer = u->rank;
    result = write_pair(u);
    s->broken |= result != SIM_FINE;
    s->writers = 0;
    status = loco_rw_lock_release_exclusive(u->lock, s->scope, peer);
    return sim_first(result, sim_check(u->run, status, "release exclusive"));
}

/* ---- turns ---- */

#define LONGEST_LIMIT 20000     /* ns; several turns of others */

static int acquire(struct user *u, bool writes)
{
    /* A ticket that was left in the middle of the line is skipped after half of LOCO_LOCK_PASS:
     * with slow links that is more than a run has. */
    bool may_leave = !u->run->faults || u->run->scenario == &sim_scenario_rw_lock_hasty;
    int64_t limit = may_leave && loci_sim_draw(3) == 0 ? (int64_t)loci_sim_draw(LONGEST_LIMIT)
                                                       : LOCO_FOREVER;

    if (limit == LOCO_FOREVER)
        return writes ? loco_rw_lock_acquire_exclusive(u->lock)
                      : loco_rw_lock_acquire_shared(u->lock);
    return writes ? loco_rw_lock_acquire_exclusive_timed(u->lock, limit)
                  : loco_rw_lock_acquire_shared_timed(u->lock, limit);
}

static int one_turn(struct user *u)
{
    bool writes = loci_sim_draw(2) == 0, tries = loci_sim_draw(4) == 0;
    uint64_t before = u->s->word != NULL ? sim_peek(u->s->word) : 0;
    int64_t start = loci_now(u->rt);
    int status;

    if (tries)
        status = writes ? loco_rw_lock_try_exclusive(u->lock) : loco_rw_lock_try_shared(u->lock);
    else
        status = acquire(u, writes);
    if (status == (tries ? LOCO_ERR_AGAIN : LOCO_ERR_TIMEOUT))
        return SIM_FINE;
    TRY(u->run, status);
    /* The ticket that was served before the call is not ours, and is served still; or, where nobody
     * has patience, its owner passed others, and has given it back. */
    WANT(u->run->scenario == &sim_scenario_rw_lock_hasty || !loci_rw_closed(before)
         || loci_now(u->rt) - start > loci_rw_pass(u->rt, 0)
         || ((sim_peek(u->s->word) ^ before) >> LOCI_RW_SERVING_SHIFT & 0xffff) != 0,
         "starvation: p%d overtakes ticket %llu", u->rank,
         (unsigned long long)(before >> LOCI_RW_SERVING_SHIFT & 0xffff));
    return writes ? exclusive(u) : shared(u);
}

static int turns(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++)
        PASS(one_turn(u));
    return SIM_FINE;
}

/* When all have had it, it can be had without waiting: whatever is left in line is nobody's. */
static int try_alone(struct user *u, struct sim_seat *seat)
{
    int status = LOCO_ERR_AGAIN;

    TRY(u->run, sim_meet(seat));
    if (u->run->faults || u->rank != u->run->processes - 1)
        return SIM_FINE;
    for (int i = 0; i < 1000 && status == LOCO_ERR_AGAIN; i++) {
        status = loco_rw_lock_try_exclusive(u->lock);
        loci_sim_sleep(u->rt->tunables.lock_pass / 100);
    }
    WANT(status != LOCO_ERR_AGAIN, "p%d tries the lock in vain, and nobody has it", u->rank);
    TRY(u->run, status);
    TRY(u->run, loco_rw_lock_release_exclusive(u->lock, LOCO_FENCE_NONE, 0));
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    struct state *s = u->s;

    PASS(sim_ready(u->run, seat));
    if (u->rank == s->host)
        s->word = loci_sim_memory(u->rt, loci_rw_lock_mem(u->lock));
    TRY(u->run, sim_meet(seat));
    WANT(loco_rw_lock_release_shared(u->lock, LOCO_FENCE_NONE, 0) == LOCO_ERR_STATE,
         "p%d releases what it does not hold", u->rank);
    PASS(sim_threads(rt, u->run->threads, turns, u));
    return try_alone(u, seat);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    choose(s, run->processes);
    TRY(run, loco_rw_lock_create(rt, NULL, "lock", all, s->host, &u.lock));
    TRY(run, loco_region_create(rt, NULL, "data", all, 64, &u.region));
    result = sim_part(&seat, use(&u, rt, &seat));
    loco_rw_lock_destroy(u.lock);
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_rw_lock_t *lock;

    (void)rank;
    (void)processes;
    return loco_rw_lock_create(rt, NULL, "lock", loco_everyone(rt), 0, &lock) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? lock : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    int status = loco_rw_lock_acquire_shared(channel);

    (void)rt;
    (void)rank;
    (void)round;
    return status != LOCO_OK ? status
           : loco_rw_lock_release_shared(channel, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_rw_lock_destroy(channel);
}

/* A ticket left behind is skipped after 5 ms: after 50, a run of several such ends by its steps. */
static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=500ns",
                                        "LOCO_LOCK_PASS=10ms", NULL };

/* As good as no patience: tickets are passed and skipped all the time. */
static const char *const hasty[] = { "LOCO_SPIN=0", "LOCO_LOCK_PATIENCE=3us", "LOCO_LOCK_PASS=2us",
                                     NULL };

const struct sim_scenario sim_scenario_rw_lock = {
    .name = "rw_lock",
    .about = "readers and writers of a pair of words, at the host and at others, with a fence of "
             "each scope; who is out of patience is not overtaken",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "shared: 2 atomics per process",
};

const struct sim_scenario sim_scenario_rw_lock_hasty = {
    .name = "rw_lock_hasty",
    .about = "the same where who waits in line is passed, and skipped, after a moment",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = hasty,
    .begin = begin, .body = body, .free = sim_state_free,
};
