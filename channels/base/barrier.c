/* SPDX-License-Identifier: BSD-3-Clause */

/* Barriers: each process counts its rounds in its row of an SST and waits until the rows that
 * matter have come as far. Direct: one column, pushed to all, all rows matter. Dissemination: a
 * column per step; step k tells the process 2^k further on, and needs the one 2^k back. Counts
 * only grow, so nobody who is a round ahead is mistaken.
 *
 * A wait that runs out of time leaves this process arrived: its count is with the others, which may
 * go on, and cannot be taken back. The next call goes on waiting in that round, from the step where
 * the last one stopped.
 *
 * If a process stops, the others wait for its count until its death is noticed. One that has left
 * the barrier may close its runtime before others have: only who has yet to come is needed. But of
 * the dead each may have heard another count, and who we wait for may have been told and given up:
 * then no death lets anybody wait on. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <loco/barrier.h>

#include "move/rma.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "sst.h"
#include "wait.h"

struct loco_barrier {
    struct loco_runtime *rt;
    struct loco_group *group;   /* a copy: the caller's may go */
    loco_sst_t *arrived;
    int steps;                  /* 0: direct */
    uint64_t round;
    bool begun;                 /* a call for this round has failed, in this step: the next call */
    int step;                   /* goes on there */
    bool told;                  /* it ran out of time, and the others were told of the step */
    int lost;                   /* LOCO_ERR_RANGE: what the fence of this round was told */
    atomic_flag busy;
};

static int steps_for(int size)
{
    int steps = 0;

    if (size <= LOCO_BARRIER_DIRECT)
        return 0;
    while (1 << steps < size)
        steps++;
    return steps;
}

static void destroy_forgotten(void *barrier)
{
    loco_barrier_destroy(barrier);
}

int loco_barrier_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, loco_barrier_t **out)
{
    loco_barrier_t *barrier;
    int status;

    status = loci_check_group(rt, "loco_barrier_create", name, group);
    if (status != LOCO_OK)
        return status;
    barrier = calloc(1, sizeof *barrier);
    if (barrier == NULL)
        return LOCO_ERR_NO_MEMORY;
    barrier->rt = rt;
    status = loci_group_of(rt, group->size, group->peer, &barrier->group);
    if (status != LOCO_OK) {
        free(barrier);
        return status;
    }
    barrier->steps = steps_for(loco_group_size(group));
    atomic_flag_clear(&barrier->busy);
    status = loci_sst_create(rt, "barrier", parent, name, group,
                             barrier->steps > 0 ? barrier->steps : 1, LOCO_SST_COLUMNS, true,
                             &barrier->arrived);
    if (status != LOCO_OK) {
        loco_group_destroy(barrier->group);
        free(barrier);
        return status;
    }
    loci_sst_is_of(barrier->arrived, destroy_forgotten, barrier);
    *out = barrier;
    return LOCO_OK;
}

void loco_barrier_destroy(loco_barrier_t *barrier)
{
    if (barrier == NULL)
        return;
    loco_sst_destroy(barrier->arrived);
    loco_group_destroy(barrier->group);
    free(barrier);
}

struct arrival {
    struct loco_barrier *barrier;
    int rank, column;           /* wait for this rank; direct: from it on */
};

static bool has_arrived(const struct loco_barrier *barrier, int rank, int column)
{
    uint64_t round = 0;

    loco_sst_get(barrier->arrived, rank, column, &round);
    return round >= barrier->round;
}

static int all_arrived(void *arg)
{
    struct arrival *wait = arg;

    while (wait->rank < wait->barrier->group->size && has_arrived(wait->barrier, wait->rank, 0))
        wait->rank++;
    return wait->rank == wait->barrier->group->size;
}

static int one_arrived(void *arg)
{
    struct arrival *wait = arg;

    return has_arrived(wait->barrier, wait->rank, wait->column);
}

static bool is_alive(const struct loco_barrier *barrier, int rank)
{
    return loci_peer_alive(barrier->rt, barrier->group->peer[rank]);
}

static bool is_dead(const struct loco_barrier *barrier, int rank)
{
    const struct loci_peer *peer = loci_peer(barrier->rt, barrier->group->peer[rank]);

    return atomic_load_explicit(&peer->state, memory_order_acquire) == LOCI_PEER_DEAD;
}

static int all_may_come(void *arg)
{
    const struct arrival *wait = arg;
    const struct loco_barrier *barrier = wait->barrier;

    for (int i = 0; i < barrier->group->size; i++)
        if (is_dead(barrier, i) || (!is_alive(barrier, i) && !has_arrived(barrier, i, 0)))
            return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

static int one_may_come(void *arg)
{
    const struct arrival *wait = arg;
    const struct loco_barrier *barrier = wait->barrier;

    if (!is_alive(barrier, wait->rank) && !has_arrived(barrier, wait->rank, wait->column))
        return LOCO_ERR_PEER_DEAD;
    for (int i = 0; i < barrier->group->size; i++)
        if (is_dead(barrier, i))
            return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

static int wait_for(struct arrival *wait, loci_ready_fn *ready, int (*broken)(void *),
                    int64_t deadline)
{
    const struct loci_reason why = {
        .what = loci_sst_name(wait->barrier->arrived), .peer = -1, .broken = broken,
        .timeout_ns = loci_time_left(wait->barrier->rt, deadline),
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_BARRIER, .bell = LOCI_BELL_SST,
    };

    return loci_wait(wait->barrier->rt, &why, ready, wait);
}

static int meet_directly(struct loco_barrier *barrier, bool told, int64_t deadline)
{
    struct arrival wait = { barrier, 0, 0 };
    int status = LOCO_OK;

    if (!told) {
        status = loco_sst_set(barrier->arrived, 0, barrier->round);
        if (status == LOCO_OK)
            status = loco_sst_push_all(barrier->arrived, 0, 1);
    }
    return status == LOCO_OK ? wait_for(&wait, all_arrived, all_may_come, deadline) : status;
}

/* One step: tell one member, and wait for another. */
static int take_step(struct loco_barrier *barrier, bool told, int64_t deadline)
{
    int size = barrier->group->size, rank = barrier->group->rank, status = LOCO_OK;
    int step = barrier->step, far = 1 << step;
    struct arrival wait = { barrier, (rank - far + size) % size, step };

    if (!told) {
        status = loco_sst_set(barrier->arrived, step, barrier->round);
        if (status == LOCO_OK)
            status = loco_sst_push(barrier->arrived, step, 1, (rank + far) % size);
    }
    return status == LOCO_OK ? wait_for(&wait, one_arrived, one_may_come, deadline) : status;
}

static int disseminate(struct loco_barrier *barrier, bool told, int64_t deadline)
{
    while (barrier->step < barrier->steps) {
        int status = take_step(barrier, told, deadline);

        if (status != LOCO_OK)
            return status;
        barrier->step++;
        told = false;
    }
    return LOCO_OK;
}

/* Fence, and count the round, unless a call that failed has. Writes that were refused are told to
 * this process alone, and hold up nobody: it arrives. */
static int begin(struct loco_barrier *barrier)
{
    int status = loci_fence_process(barrier->rt, -1, barrier->group);

    if (status == LOCO_ERR_RANGE)
        barrier->lost = status;
    else if (status != LOCO_OK)
        return status;
    if (!barrier->begun) {
        barrier->round++;
        barrier->step = 0;
        barrier->begun = true;
    }
    return LOCO_OK;
}

/* A call that fails, for want of memory say, may have told some of the others, and tells them the
 * same when it is made again. */
static int meet(struct loco_barrier *barrier, int64_t deadline)
{
    bool told = barrier->told;
    int status = told ? LOCO_OK : begin(barrier);

    if (status == LOCO_OK)
        status = barrier->steps == 0 ? meet_directly(barrier, told, deadline)
                                     : disseminate(barrier, told, deadline);
    barrier->told = status == LOCO_ERR_TIMEOUT;
    if (status != LOCO_OK)
        return status;
    status = barrier->lost;
    barrier->begun = false;
    barrier->lost = LOCO_OK;
    return status;
}

static int wait_until(struct loco_barrier *barrier, const char *call, int64_t deadline)
{
    int status;

    if (atomic_flag_test_and_set_explicit(&barrier->busy, memory_order_acquire))
        return loci_mistake(barrier->rt, LOCO_ERR_STATE, call, loci_sst_name(barrier->arrived),
                            "another thread of this process is in it");
    status = meet(barrier, deadline);
    atomic_flag_clear_explicit(&barrier->busy, memory_order_release);
    return status;
}

int loco_barrier_wait(loco_barrier_t *barrier)
{
    struct loci_thread *self = loci_call_begin(loci_sst_calls(barrier->arrived), LOCI_CALL_WAIT, 0);

    return loci_call_end(self, wait_until(barrier, "loco_barrier_wait", LOCI_NEVER));
}

int loco_barrier_wait_timed(loco_barrier_t *barrier, int64_t timeout_ns)
{
    const char *call = "loco_barrier_wait_timed";
    int status = loci_check_timeout(barrier->rt, call, loci_sst_name(barrier->arrived), timeout_ns);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(loci_sst_calls(barrier->arrived), LOCI_CALL_WAIT, 0);
    return loci_call_end(self, wait_until(barrier, call, loci_deadline(barrier->rt, timeout_ns)));
}
