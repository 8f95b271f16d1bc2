/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue under load: nothing is lost or doubled, each producer's entries come to each consumer in
 * their order, and never more are in it than it has places. */

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "stress.h"

#define PRODUCERS_MAX 64
#define NUMBERS_MAX (UINT64_C(1) << 32)     /* sums do not overflow */

struct entry {
    uint64_t producer, number, sum;     /* sum: that it is whole */
};

struct load {
    loco_runtime_t *rt;
    loco_queue_t *q;
    int rank, n, threads;
    uint64_t capacity;
    int64_t start;
    _Atomic uint64_t pushed, popped, sum_in, sum_out;
    _Atomic int pushing;
};

static int push_some(struct load *l, uint64_t producer, unsigned seed)
{
    struct entry e = { .producer = producer };

    while (stress_goes_on(l->start) && e.number < NUMBERS_MAX) {
        int status = LOCO_ERR_AGAIN;

        e.number++;
        e.sum = e.producer * 31 + e.number;
        if (rand_r(&seed) % 4 == 0)
            status = loco_queue_try_push(l->q, &e);
        if (status == LOCO_ERR_AGAIN)
            status = loco_queue_push(l->q, &e);
        CHECK_OK(status);
        atomic_fetch_add_explicit(&l->pushed, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->sum_in, e.number * (producer + 1), memory_order_relaxed);
    }
    return 0;
}

static int pop_some(struct load *l, unsigned seed)
{
    uint64_t last[PRODUCERS_MAX] = { 0 }, size;
    struct entry e;

    for (;;) {
        int status = LOCO_ERR_AGAIN;

        if (rand_r(&seed) % 4 == 0)
            status = loco_queue_try_pop(l->q, &e);
        if (status == LOCO_ERR_AGAIN)
            status = loco_queue_pop(l->q, &e);
        if (status == LOCO_ERR_CLOSED)
            return 0;
        CHECK_OK(status);
        CHECK(e.producer < PRODUCERS_MAX);
        CHECK_EQ(e.sum, e.producer * 31 + e.number);
        CHECK(e.number > last[e.producer]);
        last[e.producer] = e.number;
        atomic_fetch_add_explicit(&l->popped, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->sum_out, e.number * (e.producer + 1),
                                  memory_order_relaxed);
        if (rand_r(&seed) % 256 == 0) {
            CHECK_OK(loco_queue_size(l->q, &size));
            CHECK(size <= l->capacity);
        }
    }
}

/* With one thread, even ranks push and odd ones pop; else even threads push, odd ones pop. */
static int load_thread(void *arg, int thread)
{
    struct load *l = arg;
    int at = l->threads == 1 ? l->rank : thread;
    unsigned seed = (unsigned)(l->rank * 64 + thread + 1);

    if (at % 2 == 1)
        return pop_some(l, seed);
    CHECK_OK(push_some(l, (uint64_t)(l->rank * l->threads + thread), seed));
    atomic_fetch_sub(&l->pushing, 1);
    return 0;
}

/* The last thread of each process: whoever has pushed last in all of them closes the queue. */
static int load_or_close(void *arg, int thread)
{
    struct load *l = arg;
    loco_barrier_t *done;

    if (thread < l->threads)
        return load_thread(arg, thread);
    CHECK_OK(loco_barrier_create(l->rt, NULL, "done", loco_everyone(l->rt), &done));
    CHECK_OK(loco_runtime_wait_ready(l->rt, LOCO_FOREVER));
    while (atomic_load(&l->pushing) > 0) {
        const struct timespec nap = { 0, 1000000 };

        nanosleep(&nap, NULL);
    }
    CHECK_OK(loco_barrier_wait(done));
    CHECK_OK(loco_queue_close(l->q));
    loco_barrier_destroy(done);
    return 0;
}

/* arg: threads + 16 * capacity. */
static int queue_body(loco_runtime_t *rt, int rank, void *arg)
{
    int threads = *(int *)arg % 16;
    struct load l = {
        .rt = rt, .rank = rank, .n = loco_group_size(loco_everyone(rt)), .threads = threads,
        .capacity = (uint64_t)(*(int *)arg / 16),
    };
    uint64_t pushed, popped, in, out;

    atomic_store(&l.pushing, threads == 1 ? 1 - rank % 2 : (threads + 1) / 2);
    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), sizeof(struct entry),
                               l.capacity, 0, &l.q));
    CHECK_OK(run_meet(rt));
    l.start = run_now();
    CHECK_OK(run_threads(threads + 1, load_or_close, &l));
    CHECK_OK(stress_sum(rt, atomic_load(&l.pushed), &pushed));
    CHECK_OK(stress_sum(rt, atomic_load(&l.popped), &popped));
    CHECK_OK(stress_sum(rt, atomic_load(&l.sum_in), &in));
    CHECK_OK(stress_sum(rt, atomic_load(&l.sum_out), &out));
    CHECK_EQ(pushed, popped);
    CHECK_EQ(in, out);
    CHECK(pushed > 0);
    if (rank == 0)
        printf("# %llu entries\n", (unsigned long long)pushed);
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(l.q);
    return 0;
}

int main(void)
{
    static const struct stress_case cases[] = {
        { "queue of 1 place", 2, queue_body, 1 + 16 * 1 },
        { "queue of 64 places", 2, queue_body, 1 + 16 * 64 },
        { "queue of 5 places", 8, queue_body, 1 + 16 * 5 },
        { "queue of 1024 places", 8, queue_body, 1 + 16 * 1024 },
        { "queue of 16 places, 4 threads each", 3, queue_body, 4 + 16 * 16 },
    };

    return stress_run(cases, sizeof cases / sizeof cases[0]);
}
