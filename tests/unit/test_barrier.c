/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

/* Each round everybody writes its number to everybody, from two threads; after the barrier all
 * are there. */
struct round {
    loco_region_t *region;
    int rank, n;
    uint64_t number;
};

static int write_half(void *arg, int thread)
{
    struct round *r = arg;

    for (int i = thread; i < r->n; i += 2)
        CHECK_OK(loco_region_write64(r->region, i, 8 * (uint64_t)r->rank, r->number));
    return 0;
}

static int rounds_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct round r = { .rank = rank, .n = loco_group_size(loco_everyone(rt)) };
    loco_barrier_t *barrier;
    uint64_t got;

    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 8 * (size_t)r.n, &r.region));
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (r.number = 1; r.number <= *(uint64_t *)arg; r.number++) {
        CHECK_OK(run_threads(2, write_half, &r));
        CHECK_OK(loco_barrier_wait(barrier));
        for (int i = 0; i < r.n; i++) {
            CHECK_OK(loco_region_read64(r.region, rank, 8 * (uint64_t)i, &got));
            CHECK_EQ(got, r.number);
        }
        CHECK_OK(loco_barrier_wait(barrier));
    }
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(barrier);
    loco_region_destroy(r.region);
    return 0;
}

Test(barrier, what_was_written_before_is_seen_after, .timeout = RUN_SECONDS)
{
    uint64_t rounds = 40;

    for (uint64_t seed = 0; seed < 3; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 2 + (int)seed, seed, NULL, rounds_body, &rounds), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, rounds_body, &rounds), 0);
    cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, rounds_body, &rounds), 0);
}

Test(barrier, disseminates_where_there_are_many, .timeout = RUN_SECONDS)
{
    uint64_t rounds = 5;

    cr_assert_eq(run_on(RUN_SHM, LOCO_BARRIER_DIRECT + 5, 0, NULL, rounds_body, &rounds), 0);
}

/* Two threads in one round: one of them is told. */
struct twice {
    loco_barrier_t *barrier;
    _Atomic int passed, *refused;
};

static int wait_once(void *arg, int thread)
{
    struct twice *t = arg;
    int status = loco_barrier_wait(t->barrier);

    (void)thread;
    CHECK(status == LOCO_OK || status == LOCO_ERR_STATE);
    atomic_fetch_add(status == LOCO_OK ? &t->passed : t->refused, 1);
    return 0;
}

static int twice_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct twice t = { .refused = arg };

    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &t.barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0) {
        CHECK_OK(run_threads(2, wait_once, &t));
        CHECK_EQ(atomic_load(&t.passed), 1);
        CHECK_EQ(atomic_load(t.refused), 1);
    } else {
        CHECK_OK(run_await(t.refused, 1));  /* both threads of rank 0 were there */
        CHECK_OK(loco_barrier_wait(t.barrier));
    }
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(t.barrier);
    return 0;
}

Test(barrier, one_thread_of_a_process_at_a_time)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, twice_body, run_counter()), 0);
}

struct death {
    bool weak;
    _Atomic int *past;          /* of the first barrier */
};

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct death *death = arg;
    loco_barrier_t *barrier;
    int64_t start;

    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_barrier_wait(barrier));
    atomic_fetch_add(death->past, 1);
    if (rank == 2) {
        CHECK_OK(run_await(death->past, loco_group_size(loco_everyone(rt))));
        usleep(10000);      /* most often they wait then */
        if (!death->weak)
            kill(getpid(), SIGKILL);
        weak_die(rt);
        loco_barrier_destroy(barrier);
        return 0;
    }
    start = run_now();
    CHECK_EQ(loco_barrier_wait(barrier), LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - start < run_limit(RUN_PATIENCE));
    loco_barrier_destroy(barrier);
    return 0;
}

static int run_with_a_death(enum run_fabric fabric, int n)
{
    struct death death = { .weak = fabric == RUN_WEAK, .past = run_counter() };

    return run_on(fabric, n, 0, NULL, death_body, &death);
}

Test(barrier, a_dead_member_ends_the_wait)
{
    cr_assert_eq(run_with_a_death(RUN_SHM, 4), 0);
    cr_assert_eq(run_with_a_death(RUN_SHM, LOCO_BARRIER_DIRECT + 1), 0);
    cr_assert_eq(run_with_a_death(RUN_WEAK, 4), 0);
}

/* Who is through may close its runtime while others are still inside. */
static int leave_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_barrier_t *barrier;

    (void)arg;
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    usleep((useconds_t)((rank * 7919) % 5000));
    CHECK_OK(loco_barrier_wait(barrier));
    loco_barrier_destroy(barrier);
    return 0;
}

Test(barrier, who_is_through_may_go, .timeout = RUN_SECONDS)
{
    for (int i = 0; i < run_rounds(10); i++) {
        cr_assert_eq(run_on(RUN_SHM, 6, 0, NULL, leave_body, NULL), 0);
        cr_assert_eq(run_on(RUN_SHM, LOCO_BARRIER_DIRECT + 3, 0, NULL, leave_body, NULL), 0);
    }
}
