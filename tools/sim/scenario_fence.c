/* SPDX-License-Identifier: BSD-3-Clause */

/* Message passing over two queue pairs: data to one process, a fence of each scope that covers it,
 * then a flag to another, who reads the data where it lies. */

#include "config.h"

#include "scenario_util.h"

#define WORDS 3                 /* of data */
#define SLOT (8 * (WORDS + 1))  /* data, then the flag, of each thread of each process */

struct state {
    struct sim_state common;
};

struct user {
    struct sim_run *run;
    loco_runtime_t *rt;
    loco_region_t *region;
    loco_rw_lock_t *lock;       /* of nothing */
    int rank;
};

static uint64_t slot_of(const struct user *u, int rank, int thread)
{
    return SLOT * (uint64_t)(rank * u->run->threads + thread);
}

/* Number `number`, whose source is used again when the ack says so. */
static int write_data(struct user *u, int thread, int at, uint64_t number)
{
    uint64_t data[WORDS] = { number, number, number };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    TRY(u->run, loco_region_write_ack(u->region, at, slot_of(u, u->rank, thread), data,
                                      sizeof data, &ack));
    while ((status = loco_ack_test(u->rt, &ack)) == LOCO_IN_PROGRESS && loci_sim_draw(3) != 0)
        ;
    status = loco_ack_wait(u->rt, &ack);
    memset(data, 0xee, sizeof data);
    TRY(u->run, status);
    return SIM_FINE;
}

/* Where each number's data are: known to all. */
static int place_of(const struct user *u, int rank, int thread, uint64_t number)
{
    return (rank + thread + (int)number) % u->run->processes;
}

/* A lock in between, whose atomics may have placed what was written to its host, or not. */
static int pass_lock(struct user *u)
{
    if (loci_sim_draw(4) != 0)
        return SIM_FINE;
    TRY(u->run, loco_rw_lock_acquire_shared(u->lock));
    TRY(u->run, loco_rw_lock_release_shared(u->lock, LOCO_FENCE_NONE, 0));
    return SIM_FINE;
}

static int send(struct user *u, int thread, uint64_t number)
{
    static const enum loco_fence_scope scopes[] = {
        LOCO_FENCE_PAIR, LOCO_FENCE_THREAD, LOCO_FENCE_THREAD, LOCO_FENCE_PROCESS,
        LOCO_FENCE_PROCESS,
    };
    int n = u->run->processes, at = place_of(u, u->rank, thread, number);
    uint32_t which = loci_sim_draw(5);
    loco_ack_t flags = LOCO_ACK_INIT;

    PASS(write_data(u, thread, at, number));
    PASS(pass_lock(u));
    TRY(u->run, loco_fence(u->rt, scopes[which], which % 2 == 0 ? at : LOCO_ALL_PEERS));
    for (int i = 0; i < n; i++)
        TRY(u->run, loco_region_write64_ack(u->region, i, slot_of(u, u->rank, thread) + 8 * WORDS,
                                            number, &flags));
    TRY(u->run, loco_ack_wait(u->rt, &flags));
    return SIM_FINE;
}

/* The flag of another, in this process's memory; then its data. Those of an earlier number may
 * have been overwritten by a later one at the same place. */
static int look(struct user *u, int of, int thread)
{
    uint64_t flag = 0, data[WORDS] = { 0 };

    TRY(u->run, loco_region_read64(u->region, u->rank, slot_of(u, of, thread) + 8 * WORDS,
                                   &flag));
    if (flag == 0)
        return SIM_FINE;
    WANT(flag <= (uint64_t)u->run->rounds, "p%d reads flag %llu of p%d.t%d, never written",
         u->rank, (unsigned long long)flag, of, thread);
    TRY(u->run, loco_region_read(u->region, place_of(u, of, thread, flag), slot_of(u, of, thread),
                                 data, sizeof data));
    for (int i = 0; i < WORDS; i++)
        WANT(data[i] >= flag && data[i] <= (uint64_t)u->run->rounds,
             "p%d sees flag %llu of p%d.t%d, fenced, and data word %d is %llu", u->rank,
             (unsigned long long)flag, of, thread, i, (unsigned long long)data[i]);
    return SIM_FINE;
}

static int thread_main(void *arg, int thread)
{
    struct user *u = arg;
    uint32_t n = (uint32_t)u->run->processes;

    for (int i = 1; i <= u->run->rounds; i++) {
        int rank, other;

        PASS(send(u, thread, (uint64_t)i));
        /* One draw after the other: compilers evaluate arguments in orders of their own. */
        rank = (int)loci_sim_draw(n);
        other = (int)loci_sim_draw((uint32_t)u->run->threads);
        PASS(look(u, rank, other));
        PASS(look(u, (u->rank + 1) % (int)n, thread));
    }
    return SIM_FINE;
}

/* What all threads wrote without a fence, one thread fences for all of them. */
static int write_unfenced(void *arg, int thread)
{
    struct user *u = arg;

    return write_data(u, thread, (u->rank + 1) % u->run->processes,
                      (uint64_t)u->run->rounds + 1);
}

static int use(struct user *u, struct sim_seat *seat)
{
    int n = u->run->processes, before = (u->rank + n - 1) % n;

    PASS(sim_ready(u->run, seat));
    WANT(loco_fence(u->rt, LOCO_FENCE_PAIR, LOCO_ALL_PEERS) == LOCO_ERR_ARG,
         "a pair is all peers");
    PASS(sim_threads(u->rt, u->run->threads, thread_main, u));
    TRY(u->run, sim_meet(seat));
    PASS(sim_threads(u->rt, u->run->threads, write_unfenced, u));
    TRY(u->run, loco_fence(u->rt, LOCO_FENCE_PROCESS, (u->rank + 1) % n));
    TRY(u->run, sim_meet(seat));
    for (int t = 0; t < u->run->threads; t++) {
        uint64_t value = 0;

        TRY(u->run, loco_region_read64(u->region, u->rank, slot_of(u, before, t), &value));
        WANT(value == (uint64_t)u->run->rounds + 1,
             "p%d.t%d wrote before a fence of its process, and p%d reads %llu", before, t, u->rank,
             (unsigned long long)value);
    }
    return SIM_FINE;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    TRY(run, loco_region_create(rt, NULL, "data", loco_everyone(rt),
                                SLOT * (size_t)(run->processes * run->threads), &u.region));
    TRY(run, loco_rw_lock_create(rt, NULL, "lock", loco_everyone(rt), 0, &u.lock));
    result = sim_part(&seat, use(&u, &seat));
    loco_rw_lock_destroy(u.lock);
    loco_region_destroy(u.region);
    return result;
}

static int begin(struct sim_run *run)
{
    return sim_state_begin(run, sizeof(struct state));
}

static const char *const settings[] = { "LOCO_SPIN=0", NULL };

extern const struct sim_scenario sim_scenario_fence;
const struct sim_scenario sim_scenario_fence = {
    .name = "fence",
    .about = "who sees a flag that was written after a fence, of each scope, sees the data at a "
             "third process; sources are free after their acks",
    .processes = 3, .threads = 2, .rounds = 3, .processes_min = 1,
    .settings = settings,
    .begin = begin, .body = body, .free = sim_state_free,
};
