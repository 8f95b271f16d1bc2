/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls with a limit of time: they end, leave nothing behind that keeps others out, and lose
 * nothing that reaches them as they give up. Over shared memory and over a fabric that maps
 * nothing. */

#include <criterion/criterion.h>
#include <unistd.h>

#include <loco/loco.h>

#include "locks/ticket_lock.h"
#include "run.h"

#define SECOND INT64_C(1000000000)
#define SOON INT64_C(2000000)           /* ns; a limit that is over while another holds it */
#define MANY 300                        /* rounds of giving up */
#define ALL loco_everyone(rt)

static int ready(loco_runtime_t *rt)
{
    return loco_runtime_wait_ready(rt, run_limit(30 * SECOND));
}

/* ---- locks ---- */

/* Rank 0 holds it; the others give up; then each can have it. */
static int ticket_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *lock;
    int64_t start;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "t", ALL, 0, &lock));
    CHECK_OK(ready(rt));
    CHECK_EQ(loco_ticket_lock_acquire_timed(lock, -2), LOCO_ERR_ARG);
    if (rank == 0)
        CHECK_OK(loco_ticket_lock_acquire_timed(lock, 0));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 3 && rank != 0; i++) {
        start = run_now();
        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, SOON), LOCO_ERR_TIMEOUT);
        CHECK(run_now() - start >= SOON);
        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, 0), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    /* What was left in line is in nobody's way: by one alone, then by all. */
    if (rank == 0) {
        CHECK_OK(loco_ticket_lock_try_acquire(lock));
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 10; i++) {
        CHECK_OK(loco_ticket_lock_acquire_timed(lock, LOCO_FOREVER));
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(lock);
    return 0;
}

Test(timed, a_ticket_that_is_left_keeps_nobody_out)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, ticket_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 4, 1, NULL, ticket_body, NULL), 0);
}

/* A place in line that was left is the same when its process comes back. */
static int place_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *lock;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "t", ALL, 0, &lock));
    CHECK_OK(ready(rt));
    if (rank == 0)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        unsigned ticket;

        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, SOON), LOCO_ERR_TIMEOUT);
        CHECK(lock->left);
        ticket = lock->ticket;
        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, SOON), LOCO_ERR_TIMEOUT);
        CHECK(lock->left && lock->ticket == ticket);
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(lock);
    return 0;
}

Test(timed, a_process_that_comes_back_has_its_place)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, place_body, NULL), 0);
}

/* Threads of all processes with limits short and long: nobody is in it beside another. */
struct crowd {
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_region_t *region;
};

static int add_under_lock(struct crowd *c)
{
    uint64_t value;

    CHECK_OK(loco_region_read64(c->region, 0, 0, &value));
    return loco_region_write64(c->region, 0, 0, value + 1) == LOCO_OK ? 0 : 1;
}

static int one_of_crowd(void *arg, int thread)
{
    struct crowd *c = arg;
    int had = 0, rounds = run_rounds(MANY);

    for (int i = 0; i < rounds; i++) {
        int64_t limit = (thread + i) % 4 == 0 ? LOCO_FOREVER : (int64_t)(i % 50) * 1000;
        int status = c->ticket != NULL ? loco_ticket_lock_acquire_timed(c->ticket, limit)
                                       : loco_rw_lock_acquire_exclusive_timed(c->rw, limit);

        if (status == LOCO_ERR_TIMEOUT)
            continue;
        CHECK_OK(status);
        CHECK_EQ(add_under_lock(c), 0);
        had++;
        CHECK_OK(c->ticket != NULL
                 ? loco_ticket_lock_release(c->ticket, LOCO_FENCE_THREAD, LOCO_ALL_PEERS)
                 : loco_rw_lock_release_exclusive(c->rw, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    }
    return loco_region_fetch_add(c->region, 0, 8, (uint64_t)had, NULL) == LOCO_OK ? 0 : 1;
}

static int crowd_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct crowd c = { NULL, NULL, NULL };
    uint64_t added, had;

    (void)rank;
    if (*(bool *)arg)
        CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", ALL, 0, &c.ticket));
    else
        CHECK_OK(loco_rw_lock_create(rt, NULL, "l", ALL, 0, &c.rw));
    CHECK_OK(loco_region_create(rt, NULL, "r", ALL, 64, &c.region));
    CHECK_OK(ready(rt));
    CHECK_OK(run_meet(rt));
    CHECK_EQ(run_threads(3, one_of_crowd, &c), 0);
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_region_read64(c.region, 0, 0, &added));
    CHECK_OK(loco_region_read64(c.region, 0, 8, &had));
    CHECK(had > 0 && added == had);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(c.region);
    loco_ticket_lock_destroy(c.ticket);
    loco_rw_lock_destroy(c.rw);
    return 0;
}

Test(timed, of_a_crowd_that_gives_up_one_is_in_the_lock, .timeout = 300)
{
    for (int ticket = 0; ticket < 2; ticket++) {
        bool which = ticket == 1;

        cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, crowd_body, &which), 0);
        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, crowd_body, &which), 0);
    }
}

static int rw_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_rw_lock_t *lock;
    loco_rw_group_t *locks;

    (void)arg;
    CHECK_OK(loco_rw_lock_create(rt, NULL, "w", ALL, 0, &lock));
    CHECK_OK(loco_rw_group_create(rt, NULL, "g", ALL, 2, &locks));
    CHECK_OK(ready(rt));
    if (rank == 0) {
        CHECK_OK(loco_rw_lock_acquire_exclusive_timed(lock, SOON));
        CHECK_OK(loco_rw_group_acquire_exclusive_timed(locks, 1, false, SOON));
    }
    CHECK_OK(run_meet(rt));
    if (rank != 0) {
        CHECK_EQ(loco_rw_lock_acquire_shared_timed(lock, 2 * SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_lock_acquire_exclusive_timed(lock, 2 * SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_lock_acquire_exclusive_timed(lock, 0), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_group_acquire_shared_timed(locks, 1, false, SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_group_acquire_exclusive_timed(locks, 1, false, SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_group_acquire_all_timed(locks, false, SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_rw_group_release_all(locks, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
        /* Another member is another lock. */
        CHECK_OK(loco_rw_group_acquire_shared_timed(locks, 0, false, run_limit(10 * SECOND)));
        CHECK_OK(loco_rw_group_release_shared(locks, 0, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
        CHECK_OK(loco_rw_group_release_exclusive(locks, 1, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_rw_lock_acquire_shared_timed(lock, run_limit(10 * SECOND)));
    CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(loco_rw_group_acquire_all_timed(locks, false, run_limit(10 * SECOND)));
    CHECK_OK(loco_rw_group_release_all(locks, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    loco_rw_group_destroy(locks);
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(timed, reader_writer_locks)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, rw_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, rw_body, NULL), 0);
}

/* ---- queues ---- */

static int queue_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_queue_t *queue;
    uint64_t entry = 7, size;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "q", ALL, 8, 2, 0, &queue));
    CHECK_OK(ready(rt));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(loco_queue_pop_timed(queue, &entry, SOON), LOCO_ERR_TIMEOUT);
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        for (entry = 1; entry <= 2; entry++)
            CHECK_OK(loco_queue_push_timed(queue, &entry, 0));
        CHECK_EQ(loco_queue_push_timed(queue, &entry, SOON), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_queue_push_timed(queue, &entry, 0), LOCO_ERR_TIMEOUT);
        CHECK_OK(loco_queue_size(queue, &size));
        CHECK_EQ(size, 2);
        for (uint64_t i = 1; i <= 2; i++) {
            CHECK_OK(loco_queue_pop_timed(queue, &entry, 0));
            CHECK_EQ(entry, i);
        }
    }
    CHECK_OK(run_meet(rt));
    /* One waits, the other pushes. */
    if (rank == 0)
        CHECK_OK(loco_queue_pop_timed(queue, &entry, run_limit(10 * SECOND)));
    if (rank == 1) {
        usleep(2000);
        CHECK_OK(loco_queue_push_timed(queue, &entry, run_limit(10 * SECOND)));
    }
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_queue_close(queue));
    CHECK_EQ(loco_queue_pop_timed(queue, &entry, SECOND), LOCO_ERR_CLOSED);
    CHECK_EQ(loco_queue_push_timed(queue, &entry, SECOND), LOCO_ERR_CLOSED);
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(queue);
    return 0;
}

Test(timed, queues)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, queue_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, queue_body, NULL), 0);
}

/* ---- barriers ---- */

static int barrier_body(loco_runtime_t *rt, int rank, void *arg)
{
    int last = loco_group_size(ALL) - 1;
    loco_barrier_t *barrier;
    loco_region_t *region;
    uint64_t word = 0;

    (void)arg;
    CHECK_OK(loco_barrier_create(rt, NULL, "b", ALL, &barrier));
    CHECK_OK(loco_region_create(rt, NULL, "r", ALL, 64, &region));
    CHECK_OK(ready(rt));
    for (uint64_t round = 1; round <= 3; round++) {
        CHECK_OK(run_meet(rt));
        if (rank != last)
            CHECK_EQ(loco_barrier_wait_timed(barrier, 0), LOCO_ERR_TIMEOUT);
        CHECK_OK(run_meet(rt));
        if (rank == last)
            CHECK_OK(loco_region_write64(region, 0, 0, round));
        /* Those who had arrived go on with the same round. */
        CHECK_OK(round == 2 ? loco_barrier_wait(barrier)
                            : loco_barrier_wait_timed(barrier, run_limit(20 * SECOND)));
        CHECK_OK(loco_region_read64(region, 0, 0, &word));
        CHECK_EQ(word, round);
    }
    CHECK_OK(run_meet(rt));
    loco_region_destroy(region);
    loco_barrier_destroy(barrier);
    return 0;
}

Test(timed, a_barrier_goes_on_with_its_round)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, barrier_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, barrier_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, LOCO_BARRIER_DIRECT + 2, 1, NULL, barrier_body, NULL), 0);
}
