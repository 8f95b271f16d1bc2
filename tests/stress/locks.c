/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutual exclusion under load: counters behind ticket locks and reader-writer locks. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"

#define WORDS 8

struct guarded {
    loco_runtime_t *rt;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_region_t *region;      /* WORDS equal words at the last rank */
    int rank, at;
    int64_t start;
    _Atomic uint64_t changes, looks;
};

/* Word by word, so that whoever intrudes is noticed. */
static int change(struct guarded *g)
{
    uint64_t value[WORDS];

    for (uint64_t w = 0; w < WORDS; w++)
        CHECK_OK(loco_region_read64(g->region, g->at, 8 * w, &value[w]));
    for (uint64_t w = 0; w < WORDS; w++) {
        CHECK_EQ(value[w], value[0]);
        CHECK_OK(loco_region_write64(g->region, g->at, 8 * w, value[w] + 1));
    }
    atomic_fetch_add_explicit(&g->changes, 1, memory_order_relaxed);
    return 0;
}

static int look(struct guarded *g)
{
    uint64_t first, value;

    CHECK_OK(loco_region_read64(g->region, g->at, 0, &first));
    for (uint64_t w = 1; w < WORDS; w++) {
        CHECK_OK(loco_region_read64(g->region, g->at, 8 * w, &value));
        CHECK_EQ(value, first);
    }
    atomic_fetch_add_explicit(&g->looks, 1, memory_order_relaxed);
    return 0;
}

static int ticket_thread(void *arg, int thread)
{
    struct guarded *g = arg;

    (void)thread;
    while (stress_goes_on(g->start)) {
        CHECK_OK(loco_ticket_lock_acquire(g->ticket));
        if (change(g) != 0)
            return 1;
        CHECK_OK(loco_ticket_lock_release(g->ticket, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    }
    return 0;
}

static int rw_thread(void *arg, int thread)
{
    struct guarded *g = arg;
    unsigned seed = (unsigned)(g->rank * 32 + thread + 1);

    while (stress_goes_on(g->start)) {
        if (rand_r(&seed) % 4 == 0) {
            CHECK_OK(loco_rw_lock_acquire_exclusive(g->rw));
            if (change(g) != 0)
                return 1;
            CHECK_OK(loco_rw_lock_release_exclusive(g->rw, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
        } else {
            CHECK_OK(loco_rw_lock_acquire_shared(g->rw));
            if (look(g) != 0)
                return 1;
            CHECK_OK(loco_rw_lock_release_shared(g->rw, LOCO_FENCE_NONE, 0));
        }
    }
    return 0;
}

static int guarded_body(loco_runtime_t *rt, int rank, void *arg, run_thread_fn *fn)
{
    int n = loco_group_size(loco_everyone(rt));
    struct guarded g = { .rt = rt, .rank = rank, .at = n - 1 };
    uint64_t all, counted;

    CHECK_OK(loco_ticket_lock_create(rt, NULL, "ticket", loco_everyone(rt), 0, &g.ticket));
    CHECK_OK(loco_rw_lock_create(rt, NULL, "rw", loco_everyone(rt), 0, &g.rw));
    CHECK_OK(loco_region_create(rt, NULL, "data", loco_everyone(rt), 8 * WORDS, &g.region));
    CHECK_OK(run_meet(rt));
    g.start = run_now();
    CHECK_OK(run_threads(*(int *)arg, fn, &g));
    CHECK_OK(stress_sum(rt, atomic_load(&g.changes), &all));
    CHECK_OK(loco_region_read64(g.region, g.at, 0, &counted));
    CHECK_EQ(counted, all);
    CHECK(atomic_load(&g.changes) > 0);
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(g.ticket);
    loco_rw_lock_destroy(g.rw);
    loco_region_destroy(g.region);
    return 0;
}

static int ticket_body(loco_runtime_t *rt, int rank, void *arg)
{
    return guarded_body(rt, rank, arg, ticket_thread);
}

static int rw_body(loco_runtime_t *rt, int rank, void *arg)
{
    return guarded_body(rt, rank, arg, rw_thread);
}

int main(void)
{
    static const struct stress_case cases[] = {
        { "ticket lock", 2, ticket_body, 1 },
        { "ticket lock, 3 threads each", 2, ticket_body, 3 },
        { "ticket lock", 8, ticket_body, 1 },
        { "rw lock", 2, rw_body, 1 },
        { "rw lock, 3 threads each", 3, rw_body, 3 },
        { "rw lock", 8, rw_body, 1 },
    };

    return stress_run(cases, sizeof cases / sizeof cases[0]);
}
