/* SPDX-License-Identifier: BSD-3-Clause */

/* Rounds of a barrier: what any thread of any process has written to any process before it, also
 * what is still in flight, is seen by all after it. */

#include "config.h"

#include "scenario_util.h"

struct state {
    struct sim_state common;
    int *entered;               /* of each: rounds begun */
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_barrier_t *barrier;
    loco_region_t *region;      /* a word of each thread of each process */
    int rank;
    uint64_t round;
};

static uint64_t word_of(const struct user *u, int rank, int thread)
{
    return 8 * (uint64_t)(rank * u->run->threads + thread);
}

/* Each thread writes the round to all; its acks are not waited for. */
static int write_all(void *arg, int thread)
{
    struct user *u = arg;
    loco_ack_t ack = LOCO_ACK_INIT;
    int n = u->run->processes;

    for (int i = 1; i <= n; i++)
        TRY(u->run, loco_region_write64_ack(u->region, (u->rank + i) % n,
                                            word_of(u, u->rank, thread), u->round, &ack));
    return SIM_FINE;
}

static int check_word(struct user *u, int at, int of, int thread)
{
    uint64_t value = 0;

    TRY(u->run, loco_region_read64(u->region, at, word_of(u, of, thread), &value));
    WANT(value == u->round, "p%d, after barrier %llu, reads at p%d what p%d.t%d wrote before it "
         "as %llu", u->rank, (unsigned long long)u->round, at, of, thread,
         (unsigned long long)value);
    return SIM_FINE;
}

/* All that was written here, and some of what was written elsewhere. */
static int check_all(struct user *u)
{
    uint32_t n = (uint32_t)u->run->processes, threads = (uint32_t)u->run->threads;

    for (int i = 0; i < u->run->processes; i++) {
        WANT(u->s->entered[i] >= (int)u->round,
             "p%d leaves barrier %llu, which p%d has not entered", u->rank,
             (unsigned long long)u->round, i);
        for (int t = 0; t < u->run->threads; t++)
            PASS(check_word(u, u->rank, i, t));
    }
    for (int i = 0; i < 3; i++) {
        /* One draw after the other: compilers evaluate arguments in orders of their own. */
        int at = (int)loci_sim_draw(n), from = (int)loci_sim_draw(n);

        PASS(check_word(u, at, from, (int)loci_sim_draw(threads)));
    }
    return SIM_FINE;
}

/* Now and then in several calls. */
static int wait(struct user *u)
{
    int status = LOCO_ERR_TIMEOUT;

    for (uint32_t limits = loci_sim_draw(3); limits > 0 && status == LOCO_ERR_TIMEOUT; limits--)
        status = loco_barrier_wait_timed(u->barrier, loci_sim_draw(10000));
    return status == LOCO_ERR_TIMEOUT ? loco_barrier_wait(u->barrier) : status;
}

static int one_round(struct user *u, loco_runtime_t *rt)
{
    PASS(sim_threads(rt, u->run->threads, write_all, u));
    u->s->entered[u->rank] = (int)u->round;
    TRY(u->run, wait(u));
    PASS(check_all(u));
    TRY(u->run, wait(u));       /* before it is written again */
    return SIM_FINE;
}

static int use(struct user *u, loco_runtime_t *rt, struct sim_seat *seat)
{
    PASS(sim_ready(u->run, seat));
    for (u->round = 1; u->round <= (uint64_t)u->run->rounds; u->round++)
        PASS(one_round(u, rt));
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    const loco_group_t *all = loco_everyone(rt);
    int result;

    TRY(run, loco_barrier_create(rt, NULL, "barrier", all, &u.barrier));
    TRY(run, loco_region_create(rt, NULL, "data", all,
                                8 * (size_t)(run->processes * run->threads), &u.region));
    result = sim_part(&seat, use(&u, rt, &seat));
    loco_barrier_destroy(u.barrier);
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    struct state *s;

    if (sim_state_begin(run, sizeof(struct state)) != 0)
        return -1;
    s = run->state;
    s->entered = calloc((size_t)run->processes, sizeof s->entered[0]);
    return s->entered == NULL ? -1 : 0;
}

static void drop(struct sim_run *run)
{
    struct state *s = run->state;

    if (s != NULL)
        free(s->entered);
    sim_state_free(run);
}

/* ---- for `scale` ---- */

static void *scale_setup(loco_runtime_t *rt, int rank, int processes)
{
    loco_barrier_t *barrier;

    (void)rank;
    (void)processes;
    return loco_barrier_create(rt, NULL, "barrier", loco_everyone(rt), &barrier) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK ? barrier : NULL;
}

static int scale_once(loco_runtime_t *rt, void *channel, int rank, int round)
{
    (void)rt;
    (void)rank;
    (void)round;
    return loco_barrier_wait(channel);
}

static void scale_done(loco_runtime_t *rt, void *channel)
{
    (void)rt;
    loco_barrier_destroy(channel);
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_barrier, sim_scenario_barrier_many;
const struct sim_scenario sim_scenario_barrier = {
    .name = "barrier",
    .about = "what all threads wrote to all before the barrier, in flight or not, all see after "
             "it; nobody leaves before all have come",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
    .scale_setup = scale_setup, .scale_once = scale_once, .scale_done = scale_done,
    .scale_theory = "up to 16: N-1 writes; above: ceil(log2 N); as many places of the last round",
};

const struct sim_scenario sim_scenario_barrier_many = {
    .name = "barrier_many",
    .about = "the same with so many processes that they meet by dissemination",
    .processes = LOCO_BARRIER_DIRECT + 2, .threads = 1, .rounds = 1,
    .processes_min = LOCO_BARRIER_DIRECT + 1,
    .settings = settings,
    .begin = begin, .body = body, .free = drop,
};
