/* SPDX-License-Identifier: BSD-3-Clause */

/* Passive target: mutual exclusion of all kinds of locks, fairness, threads, deaths. */

#include <criterion/criterion.h>
#include <loco/fork.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "window/window.h"

#define SECOND INT64_C(1000000000)

/* ---- mutual exclusion ---- */

/* Two words of rank 0 that are equal whenever nobody writes: an exclusive holder makes them differ
 * for a while, a shared one must never see that. Not by atomics: only the lock orders it. */
static int pair_body(struct member *m)
{
    const int *options = m->arg;
    int rounds = options[0];
    bool use_all = options[1] != 0;
    uint64_t pair[2], written = 0;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 16, &win));
    for (int i = 0; i < rounds; i++) {
        int what = rand_r(&m->seed) >> 4;

        if (what % 3 == 0) {
            CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 0, 0));
            CHECK_OK(member_get(win, 0, 0, pair, 16));
            CHECK_EQ(pair[0], pair[1]);
            pair[0]++;
            CHECK_OK(member_put(win, 0, 0, &pair[0], 8));
            if (what % 7 == 0)
                sched_yield();
            CHECK_OK(loco_window_flush(win, 0));
            CHECK_OK(member_put(win, 0, 8, &pair[0], 8));
            CHECK_OK(loco_window_unlock(win, 0));
            written++;
        } else if (use_all && what % 3 == 1) {
            CHECK_OK(loco_window_lock_all(win, 0));
            CHECK_OK(member_get(win, 0, 0, pair, 16));
            CHECK_OK(loco_window_unlock_all(win));
            CHECK_EQ(pair[0], pair[1]);
        } else {
            CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, 0, 0));
            CHECK_OK(member_get(win, 0, 0, pair, 16));
            CHECK_OK(loco_window_unlock(win, 0));
            CHECK_EQ(pair[0], pair[1]);
        }
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_lock_all(win, 0));
    CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 8, &(uint64_t){ 0 - written },
                               NULL, 1));
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    if (m->rank == 0)
        CHECK_EQ(((uint64_t *)loco_window_base(win))[1], 0);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_lock, exclusive_shared_and_all_exclude_each_other, .timeout = RUN_SECONDS)
{
    for (int n = 2; n <= 8; n *= 2) {
        for (int use_all = 0; use_all < 2; use_all++) {
            int options[2] = { run_rounds(20000) / n, use_all };

            cr_assert_eq(member_run(RUN_SHM, n, pair_body, options, NULL), 0);
            options[0] = 300 / n;
            cr_assert_eq(member_run(RUN_WEAK, n, pair_body, options, NULL), 0);
        }
    }
}

/* All targets at once by lock_all against exclusive locks on each. */
static int all_targets_body(struct member *m)
{
    int rounds = *(int *)m->arg;
    uint64_t value, *memory = calloc(2, 8);
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_CREATE, memory, 16, &win));
    for (int i = 0; i < rounds; i++) {
        int target = rand_r(&m->seed) / 16 % m->n;
        uint64_t pair[2];

        if (i % 4 != 0) {
            CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, target, 0));
            CHECK_OK(member_get(win, target, 0, &value, 8));
            value++;
            CHECK_OK(member_put(win, target, 0, &value, 8));
            CHECK_OK(loco_window_flush(win, target));
            CHECK_OK(member_put(win, target, 8, &value, 8));
            CHECK_OK(loco_window_unlock(win, target));
            continue;
        }
        CHECK_OK(loco_window_lock_all(win, 0));
        for (int r = 0; r < m->n; r++) {
            CHECK_OK(member_get(win, r, 0, pair, 16));
            CHECK_EQ(pair[0], pair[1]);
        }
        CHECK_OK(loco_window_unlock_all(win));
    }
    CHECK_OK(loco_window_fence(win, 0));
    value = 0;
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int r = 0; r < m->n; r++) {
        uint64_t one;

        CHECK_OK(member_get(win, r, 0, &one, 8));
        value += one;
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_EQ(value, (uint64_t)m->n * (uint64_t)(rounds - (rounds + 3) / 4));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_lock, all_targets_at_once, .timeout = RUN_SECONDS)
{
    for (int n = 2; n <= 8; n *= 2) {
        int rounds = run_rounds(4000) / n;

        cr_assert_eq(member_run(RUN_SHM, n, all_targets_body, &rounds, NULL), 0);
        rounds = 200 / n;
        cr_assert_eq(member_run(RUN_WEAK, n, all_targets_body, &rounds, NULL), 0);
    }
}

/* Several locks at a time in rank order, while others lock all: nobody deadlocks. */
static int nested_body(struct member *m)
{
    int rounds = run_rounds(300);
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win));
    for (int i = 0; i < rounds; i++) {
        if (rand_r(&m->seed) / 16 % 4 == 0) {
            CHECK_OK(loco_window_lock_all(win, 0));
            CHECK_OK(loco_window_unlock_all(win));
            continue;
        }
        for (int r = 0; r < m->n; r++)
            CHECK_OK(loco_window_lock(win, r % 2 == 0 ? LOCO_LOCK_EXCLUSIVE : LOCO_LOCK_SHARED,
                                      r, 0));
        for (int r = 0; r < m->n; r++)
            CHECK_OK(loco_window_unlock(win, r));
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_lock, several_at_a_time, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 4, nested_body, NULL, NULL), 0);
    cr_assert_eq(member_run(RUN_WEAK, 3, nested_body, NULL, NULL), 0);
}

/* NOCHECK takes no lock: it is granted beside an exclusive one. */
static int nocheck_body(struct member *m)
{
    uint64_t x = 5;
    char mine = 0, all[2];
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win));
    if (m->rank == 0)
        CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 0, 0));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    if (m->rank == 1) {
        CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 0, LOCO_ASSERT_NOCHECK));
        CHECK_OK(member_put(win, 0, 0, &x, 8));
        CHECK_OK(loco_window_unlock(win, 0));
        CHECK_OK(loco_window_lock_all(win, LOCO_ASSERT_NOCHECK));
        CHECK_OK(member_put(win, 0, 0, &x, 8));
        CHECK_OK(loco_window_unlock_all(win));
    }
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    if (m->rank == 0) {
        CHECK_EQ(*(uint64_t *)loco_window_base(win), 5);
        CHECK_OK(loco_window_unlock(win, 0));
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_lock, nocheck)
{
    cr_assert_eq(member_run(RUN_SHM, 2, nocheck_body, NULL, NULL), 0);
    cr_assert_eq(member_run(RUN_WEAK, 2, nocheck_body, NULL, NULL), 0);
}

/* ---- fairness ---- */

/* All but one hammer the lock in one way, without a pause and overlapping each other; the last
 * one gets its turns all the same. */
static int fair_body(struct member *m)
{
    const int *kinds = m->arg;      /* of the many, of the one: 0 lock_all, else loco_lock_kind */
    bool is_one = m->rank == m->n - 1;
    int kind = kinds[is_one], turns = 0;
    uint64_t stop = 0;
    int64_t end = run_now() + run_limit(20 * SECOND);
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 16, &win));
    CHECK_OK(loco_window_fence(win, 0));
    while (stop == 0 && run_now() < end) {
        CHECK_OK(kind == 0 ? loco_window_lock_all(win, 0)
                           : loco_window_lock(win, (enum loco_lock_kind)kind, 0, 0));
        CHECK_OK(member_get(win, 0, 0, &stop, 8));
        sched_yield();
        if (is_one && ++turns == 20)
            CHECK_OK(member_put(win, 0, 0, &(uint64_t){ 1 }, 8));
        CHECK_OK(kind == 0 ? loco_window_unlock_all(win) : loco_window_unlock(win, 0));
        stop = is_one ? turns == 20 : stop;
    }
    CHECK(stop != 0);
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_lock, nobody_starves, .timeout = RUN_SECONDS)
{
    static const int kinds[][2] = {
        { LOCO_LOCK_SHARED, LOCO_LOCK_EXCLUSIVE }, { LOCO_LOCK_EXCLUSIVE, LOCO_LOCK_SHARED },
        { 0, LOCO_LOCK_EXCLUSIVE }, { LOCO_LOCK_EXCLUSIVE, 0 },
        { LOCO_LOCK_EXCLUSIVE, LOCO_LOCK_EXCLUSIVE },
    };

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        cr_assert_eq(member_run(RUN_SHM, 6, fair_body, (void *)kinds[k], NULL), 0, "case %zu", k);
}

/* ---- threads ---- */

struct pack {
    loco_window_t *win;
    struct member *m;
    int target, rounds, failed;
};

static void *lock_thread(void *arg)
{
    struct pack *p = arg;
    uint64_t value;

    for (int i = 0; i < p->rounds; i++) {
        p->failed |= loco_window_lock(p->win, LOCO_LOCK_EXCLUSIVE, p->target, 0);
        p->failed |= member_get(p->win, p->target, 0, &value, 8);
        value++;
        p->failed |= member_put(p->win, p->target, 0, &value, 8);
        p->failed |= loco_window_unlock(p->win, p->target);
    }
    return NULL;
}

/* Each thread of a process locks another target, at the same time. */
static int threads_body(struct member *m)
{
    int rounds = run_rounds(300);
    pthread_t thread[4];
    struct pack pack[4];
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win));
    for (int i = 0; i < m->n; i++) {
        pack[i] = (struct pack){ win, m, i, rounds, 0 };
        CHECK_EQ(pthread_create(&thread[i], NULL, lock_thread, &pack[i]), 0);
    }
    for (int i = 0; i < m->n; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < m->n; i++)
        CHECK_OK(pack[i].failed);
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_EQ(*(uint64_t *)loco_window_base(win), rounds * m->n);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_lock, threads_on_different_targets, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 4, threads_body, NULL, NULL), 0);
}

static void *lock_again(void *arg)
{
    struct pack *p = arg;

    p->failed = loco_window_lock(p->win, LOCO_LOCK_SHARED, p->target, 0);
    return NULL;
}

static int same_target_body(struct member *m)
{
    pthread_t thread;
    struct pack pack = { .m = m };

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &pack.win));
    CHECK_OK(loco_window_lock(pack.win, LOCO_LOCK_SHARED, 0, 0));
    CHECK_EQ(pthread_create(&thread, NULL, lock_again, &pack), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(pack.failed, LOCO_ERR_STATE);
    CHECK_OK(loco_window_unlock(pack.win, 0));
    CHECK_OK(loco_window_destroy(pack.win));
    return 0;
}

Test(window_lock, two_threads_on_one_target_lock_it_twice)
{
    cr_assert_eq(member_run(RUN_SHM, 2, same_target_body, NULL, NULL), 0);
}

/* ---- deaths ---- */

/* Rank 1 is killed while it holds a lock. Who needs that lock is told within a second, over a
 * network within two; the locks of others, and what is not rank 1's, go on. */
static int killed_body(struct member *m)
{
    int kind = *(int *)m->arg;      /* 0 lock_all, else loco_lock_kind */
    char mine = 0, all[4];
    int64_t begin;
    uint64_t x = 1;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win));
    if (m->rank == 1)
        CHECK_OK(kind == 0 ? loco_window_lock_all(win, 0)
                           : loco_window_lock(win, (enum loco_lock_kind)kind, 2, 0));
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    if (m->rank == 1)
        raise(SIGKILL);
    begin = run_now();
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 2, 0), LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - begin < run_limit(run_shares() ? SECOND : 2 * SECOND));
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, 1, 0), LOCO_ERR_PEER_DEAD);
    /* Shared locks elsewhere do not need the dead; nor, after a mere shared lock, do exclusive
     * ones elsewhere and lock_all. */
    CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, 3, 0));
    CHECK_OK(member_put(win, 3, 0, &x, 8));
    CHECK_EQ(member_put(win, 1, 0, &x, 8), LOCO_ERR_STATE);
    CHECK_OK(loco_window_unlock(win, 3));
    if (kind == LOCO_LOCK_SHARED) {
        CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, 0, 0));
        CHECK_OK(member_put(win, 0, 0, &x, 8));
        CHECK_OK(loco_window_unlock(win, 0));
        CHECK_OK(loco_window_lock_all(win, 0));
        CHECK_EQ(member_put(win, 1, 0, &x, 8), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_window_flush(win, 1), LOCO_ERR_PEER_DEAD);
        CHECK_OK(member_put(win, 3, 0, &x, 8));
        CHECK_OK(loco_window_unlock_all(win));
    }
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    return 0;
}

Test(window_lock, a_killed_holder_is_reported, .timeout = RUN_SECONDS)
{
    for (int kind = 0; kind <= LOCO_LOCK_EXCLUSIVE; kind++) {
        int statuses[4];

        member_run(RUN_SHM, 4, killed_body, &kind, statuses);
        for (int r = 0; r < 4; r++)
            cr_assert_eq(statuses[r], r == 1 ? -SIGKILL : 0, "kind %d, rank %d", kind, r);
    }
}
