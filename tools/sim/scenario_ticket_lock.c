/* SPDX-License-Identifier: BSD-3-Clause */

/* Threads of all processes take the lock and add one to three copies of a number, which only the
 * lock and its fence keep equal. */

#include "config.h"

#include "scenario_util.h"

#include "locks/ticket_lock.h"

#define HANDOVERS 1             /* as in the settings */
#define LONGEST_LIMIT 20000     /* ns; several turns of others */

struct state {
    struct sim_state common;
    bool drawn;
    bool limits;                /* some give up */
    int host, data_at;
    enum loco_fence_scope scope;
    unsigned char *word;        /* the lock's, at its host */
    int inside, holder;         /* who has the lock, by what its calls returned */
    uint64_t count;             /* what the number is */
    bool broken;                /* who wrote it was told of a death in the middle, and gave up */
    bool other_waited;          /* another process had a ticket when the lock was taken last */
    int last, streak;           /* who took it, so often in a row */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_ticket_lock_t *lock;
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
    s->last = -1;
    s->limits = loci_sim_draw(2) == 0;
    s->scope = scopes[loci_sim_draw(4)];
    s->host = (int)loci_sim_draw((uint32_t)n);
    s->data_at = s->scope == LOCO_ORDER ? s->host : (int)loci_sim_draw((uint32_t)n);
}

/* ---- what the observer sees ---- */

/* While another process has a ticket, the lock stays in one process for so many turns. Where some
 * have limits, the other may have left its ticket meanwhile. */
static int check_streak(struct user *u)
{
    struct state *s = u->s;
    uint64_t word = sim_peek(s->word);

    if (s->limits)
        return SIM_FINE;
    s->streak = s->last == u->rank && s->other_waited ? s->streak + 1 : 1;
    s->last = u->rank;
    s->other_waited = ((loci_ticket_next(word) - loci_ticket_serving(word)) & 0xffff) > 1;
    WANT(s->streak <= HANDOVERS + 1,
         "starvation: p%d takes the lock %d times in a row while another process has a ticket",
         u->rank, s->streak);
    return SIM_FINE;
}

static int now_inside(struct user *u)
{
    struct state *s = u->s;

    WANT(s->inside == 0, "p%d has the lock, and p%d, too", u->rank, s->holder);
    s->inside = 1;
    s->holder = u->rank;
    return check_streak(u);
}

/* ---- under the lock ---- */

static int check_holder(struct user *u)
{
    int holder = -2, status = loco_ticket_lock_holder(u->lock, &holder);

    if (status == LOCO_ERR_AGAIN)
        return SIM_FINE;
    TRY(u->run, status);
    WANT(holder == u->rank, "p%d has the lock, and is told that p%d does", u->rank, holder);
    return SIM_FINE;
}

/* What is on its way to a process that stops may be lost; others of its node still read its
 * memory. */
static bool may_be_lost(const struct state *s)
{
    return s->broken || loci_sim_is_stopped(s->data_at);
}

static int add_one(struct user *u)
{
    struct state *s = u->s;
    loco_ack_t ack = LOCO_ACK_INIT;
    uint64_t value[3];

    TRY(u->run, loco_region_read(u->region, s->data_at, 0, value, sizeof value));
    for (int i = 0; i < 3; i++)
        WANT(may_be_lost(s) || value[i] == s->count,
             "p%d holds the lock and reads copy %d as %llu; it is %llu", u->rank, i,
             (unsigned long long)value[i], (unsigned long long)s->count);
    for (uint64_t i = 0; i < 3; i++)
        TRY(u->run, loco_region_write64_ack(u->region, s->data_at, 8 * i, s->count + 1, &ack));
    s->count++;
    return SIM_FINE;
}

static int one_turn(struct user *u)
{
    struct state *s = u->s;
    int peer = s->scope == LOCO_FENCE_PAIR ? s->data_at : LOCO_ALL_PEERS, status, result;
    uint32_t how = loci_sim_draw(4);

    if (how == 0)
        status = loco_ticket_lock_try_acquire(u->lock);
    else if (how == 1 && u->s->limits)
        status = loco_ticket_lock_acquire_timed(u->lock, loci_sim_draw(LONGEST_LIMIT));
    else
        status = loco_ticket_lock_acquire(u->lock);
    if ((how == 0 && status == LOCO_ERR_AGAIN) || (how == 1 && status == LOCO_ERR_TIMEOUT))
        return SIM_FINE;
    TRY(u->run, status);
    result = now_inside(u);
    if (loci_sim_draw(4) == 0)
        result = sim_first(result, check_holder(u));
    result = sim_first(result, add_one(u));
    s->broken |= result != SIM_FINE;
    s->inside = 0;
    status = loco_ticket_lock_release(u->lock, s->scope, peer);
    return sim_first(result, sim_check(u->run, status, "release"));
}

static int turns(void *arg, int thread)
{
    struct user *u = arg;

    (void)thread;
    for (int i = 0; i < u->run->rounds; i++)
        PASS(one_turn(u));
    return SIM_FINE;
}

/* When all have had it, nobody has to wait: what is left in line was taken over. */
static int leaves_no_trace(struct user *u, struct sim_seat *seat)
{
    TRY(u->run, sim_meet(seat));
    if (u->run->faults || u->rank != u->run->processes - 1)
        return SIM_FINE;
    TRY(u->run, loco_ticket_lock_try_acquire(u->lock));
    TRY(u->run, loco_ticket_lock_release(u->lock, LOCO_FENCE_NONE, 0));
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    struct state *s = u->s;

    PASS(sim_ready(u->run, seat));
    if (u->rank == s->host) {
        s->word = loci_sim_memory(rt, u->lock->mem) + u->lock->record + LOCI_TICKET_WORD;
        /* So that tickets wrap around soon. */
        if (loci_sim_draw(2) == 0)
            *(uint64_t *)s->word = UINT64_C(0xfffdfffd) << LOCI_TICKET_SERVING_SHIFT;
    }
    TRY(u->run, sim_meet(seat));
    WANT(loco_ticket_lock_release(u->lock, LOCO_FENCE_NONE, 0) == LOCO_ERR_STATE,
         "p%d releases what it does not hold", u->rank);
    PASS(sim_threads(rt, u->run->threads, turns, u));
    return leaves_no_trace(u, seat);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    choose(s, run->processes);
    TRY(run, loco_ticket_lock_create(rt, NULL, "lock", all, s->host, &u.lock));
    TRY(run, loco_region_create(rt, NULL, "data", all, 64, &u.region));
    result = sim_part(&seat, use(&u, rt, &seat));
    loco_ticket_lock_destroy(u.lock);
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
    loco_ticket_lock_t *lock;

    (void)rank;
    (void)processes;
    return loco_ticket_lock_create(rt, NULL, "lock", loco_everyone(rt), 0, &lock) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? lock : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    int status = loco_ticket_lock_acquire(channel);

    (void)rt;
    (void)rank;
    (void)round;
    return status != LOCO_OK ? status
           : loco_ticket_lock_release(channel, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_ticket_lock_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_LOCK_HANDOVERS=1", NULL };

extern const struct sim_scenario sim_scenario_ticket_lock;
const struct sim_scenario sim_scenario_ticket_lock = {
    .name = "ticket_lock",
    .about = "three copies of a number kept equal by the lock and a fence of each scope, at the "
             "host and at others; hand-over is bounded; the holder is named",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "contended: 4 atomics, 2 writes per process",
};
