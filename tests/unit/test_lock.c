/* SPDX-License-Identifier: BSD-3-Clause */

/* The lock between threads, without a runtime. */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "lock.h"

#define THREADS 4
#define EACH 100000
#define MOST 20                 /* s that a thread may take, on a machine under load */

struct shared {
    struct loci_lock lock;
    long count;
    bool yields;                /* with the lock taken, now and then: the others pile up */
};

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    cr_assert_eq(pthread_create(thread, NULL, run, arg), 0);
}

/* A thread that nobody wakes is a failure, and not a test that hangs. */
static void join(pthread_t thread)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += MOST;
    cr_assert_eq(pthread_timedjoin_np(thread, NULL, &end), 0, "a thread is still waiting");
}

static void *counts(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < EACH; i++) {
        loci_lock_take(&s->lock);
        long seen = *(volatile long *)&s->count;

        if (s->yields && i % 16 == 0)
            sched_yield();
        s->count = seen + 1;
        loci_lock_give(&s->lock);
    }
    return NULL;
}

static void count_together(bool yields)
{
    struct shared s = { .yields = yields };
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        start(&thread[i], counts, &s);
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    cr_assert_eq(s.count, (long)THREADS * EACH);
    cr_assert_eq(s.lock.word, 0);
}

Test(lock, excludes_threads)
{
    count_together(false);
}

/* Each that yields has the others find the lock taken, and sleep: none is left so. */
Test(lock, wakes_who_sleeps)
{
    count_together(true);
}

static void *takes_once(void *arg)
{
    struct shared *s = arg;

    loci_lock_take(&s->lock);
    s->count++;
    loci_lock_give(&s->lock);
    return NULL;
}

static double cpu_seconds(pthread_t thread)
{
    struct timespec used;
    clockid_t clock;

    cr_assert_eq(pthread_getcpuclockid(thread, &clock), 0);
    clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

Test(lock, who_waits_needs_no_cpu)
{
    const struct timespec a_while = { .tv_nsec = 300000000 };
    struct shared s = { .count = 0 };
    pthread_t thread[THREADS];

    loci_lock_take(&s.lock);
    for (int i = 0; i < THREADS; i++)
        start(&thread[i], takes_once, &s);
    nanosleep(&a_while, NULL);
    cr_assert_eq(s.count, 0);
    for (int i = 0; i < THREADS; i++)
        cr_expect_lt(cpu_seconds(thread[i]), 0.05);
    loci_lock_give(&s.lock);
    for (int i = 0; i < THREADS; i++)
        join(thread[i]);
    cr_assert_eq(s.count, THREADS);
}
