/* SPDX-License-Identifier: BSD-3-Clause */

/* Credits for outstanding requests: who may post, who asks for completions, and what is tried with
 * LOCO_RDMA_OUTSTANDING=auto. That nobody waits for ever is the simulator's part, too
 * (tools/sim/scenario_credits.c); there every request asks for its completion, here some do not. */

#include <criterion/criterion.h>
#include <string.h>

#include "runtime.h"

static int64_t clock_ns;

static int64_t now(void *ctx)
{
    (void)ctx;
    return clock_ns;
}

static struct loco_runtime rt;
static struct loci_thread threads[2];

static void open_credits(int64_t requests, int64_t bytes)
{
    memset(&rt, 0, sizeof rt);
    memset(threads, 0, sizeof threads);
    clock_ns = 1;
    rt.host.now = now;
    rt.tunables.rdma_outstanding = requests;
    rt.tunables.rdma_outstanding_bytes = bytes;
    rt.tunables.rdma_outstanding_epoch = 1000;
    threads[0].rt = threads[1].rt = &rt;
    threads[0].next = &threads[1];
    atomic_store(&rt.threads, &threads[0]);
    loci_credits_open(&rt, LOCI_CREDIT_NO_BYTES);
}

/* How many a thread may post now, all of so many bytes, asking or not. */
static unsigned take_all(struct loci_thread *t, uint64_t bytes, bool asked, unsigned most)
{
    unsigned n = 0;

    for (; n < most && loci_credit_may(t, bytes); n++)
        loci_credit_take(t, bytes, asked);
    return n;
}

static void give_all(struct loci_thread *t, uint64_t bytes, bool asked, unsigned n)
{
    while (n-- > 0)
        loci_credit_give(t, bytes, asked, false);
}

Test(credit, bounds_requests)
{
    open_credits(8, LOCI_INFINITE);
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 8);
    cr_assert(loci_credit_is_short(&threads[0]));
    loci_credit_give(&threads[0], 8, true, false);
    cr_assert_not(loci_credit_is_short(&threads[0]));
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 1);
    cr_assert_eq(loci_stats_get(rt.stats, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND_WAITS), 2);
}

Test(credit, bounds_bytes)
{
    open_credits(LOCI_INFINITE, 10000);
    cr_assert_eq(take_all(&threads[0], 4096, true, 100), 2);
    give_all(&threads[0], 4096, true, 2);
    cr_assert_eq(take_all(&threads[0], 65536, true, 100), 1, "longer than all: alone");
    cr_assert_not(loci_credit_may(&threads[0], 1));
}

Test(credit, is_divided)
{
    open_credits(8, LOCI_INFINITE);
    cr_assert_eq(take_all(&threads[0], 8, true, 2), 2);
    cr_assert_eq(take_all(&threads[1], 8, true, 100), 4);
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 2);
}

Test(credit, goes_back_to_who_is_left)
{
    open_credits(64, LOCI_INFINITE);
    cr_assert_eq(take_all(&threads[1], 8, true, 10), 10);
    give_all(&threads[1], 8, true, 10);
    for (int i = 0; i < 3; i++) {       /* one epoch in which it still had something, one more */
        clock_ns += 2000;
        cr_assert_eq(take_all(&threads[0], 8, true, 32), 32);
        give_all(&threads[0], 8, true, 32);
    }
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 64);
}

/* A share that has become smaller is full of requests that nobody asks for. */
Test(credit, lets_one_through_that_asks)
{
    open_credits(100, LOCI_INFINITE);
    cr_assert_eq(take_all(&threads[0], 8, false, 49), 49);
    atomic_store(&rt.credits.share, 4);
    cr_assert(loci_credit_may(&threads[0], 8));
    cr_assert(loci_credit_asks(&threads[0]));
    loci_credit_take(&threads[0], 8, true);
    cr_assert_not(loci_credit_may(&threads[0], 8));
    loci_credit_give(&threads[0], 8, true, false);
    /* What was posted before it counts no more, whenever it is retired. */
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 4);
    give_all(&threads[0], 8, false, 49);
    give_all(&threads[0], 8, true, 4);
    cr_assert_eq(threads[0].credit.held, 0);
    cr_assert_eq(threads[0].credit.fresh, 0);
    cr_assert_eq(take_all(&threads[0], 8, true, 100), 4);
}

Test(credit, counts_what_nobody_asks_for)
{
    open_credits(8, LOCI_INFINITE);
    loci_credit_take(&threads[0], 8, true);
    cr_assert_eq(take_all(&threads[0], 8, false, 100), 7);
    cr_assert(loci_credit_asks(&threads[0]));
    loci_credit_give(&threads[0], 8, false, false);     /* retired by a later one of its lane */
    cr_assert(loci_credit_may(&threads[0], 8));
}

/* A device does not have what it has refused. */
Test(credit, takes_back)
{
    open_credits(8, LOCI_INFINITE);
    cr_assert_eq(take_all(&threads[0], 8, false, 3), 3);
    loci_credit_take(&threads[0], 8, true);
    loci_credit_give(&threads[0], 8, true, true);
    cr_assert_eq(threads[0].credit.fresh, 3);
}

/* ---- tuning ---- */

/* A thread posts up to 3000, in an epoch of which a device completes `rate(bound)`. */
static void run_epochs(int n, unsigned (*rate)(uint32_t bound))
{
    for (int i = 0; i < n; i++) {
        uint32_t bound = atomic_load(&rt.credits.bound), left = rate(bound);

        while (left > 0) {
            unsigned took = take_all(&threads[0], 8, true, left < 3000 ? left : 3000);

            give_all(&threads[0], 8, true, took - 1);
            left -= took < left ? took : left;
            clock_ns = left == 0 ? atomic_load(&rt.credits.next) : clock_ns;
            give_all(&threads[0], 8, true, 1);
        }
        for (int k = 0; k < 64; k++) {  /* one of them looks */
            loci_credit_take(&threads[0], 8, true);
            loci_credit_give(&threads[0], 8, true, false);
        }
    }
}

static unsigned best_at_1024(uint32_t bound)
{
    return bound == 1024 ? 64000 : bound == LOCI_CREDIT_NO_BOUND ? 32000 : 48000;
}

static unsigned hardly_better(uint32_t bound)
{
    return bound == 1024 ? 33000 : 32000;
}

static unsigned few(uint32_t bound)
{
    (void)bound;
    return 400;
}

Test(credit, finds_the_best_bound)
{
    open_credits(LOCI_AUTO, LOCI_INFINITE);
    run_epochs(16, best_at_1024);
    cr_assert_eq(atomic_load(&rt.credits.bound), 1024);
    cr_assert_eq(rt.credits.trial, -1);
    run_epochs(50, best_at_1024);
    cr_assert_eq(rt.credits.trial, -1, "it stays for 60 epochs");
}

Test(credit, stays_without_bound_where_that_is_as_good)
{
    open_credits(LOCI_AUTO, LOCI_INFINITE);
    run_epochs(16, hardly_better);
    cr_assert_eq(atomic_load(&rt.credits.bound), LOCI_CREDIT_NO_BOUND);
}

Test(credit, tries_nothing_where_little_is_outstanding)
{
    open_credits(LOCI_AUTO, LOCI_INFINITE);
    for (int i = 0; i < 16; i++) {
        run_epochs(1, few);
        cr_assert_eq(rt.credits.trial, -1);
    }
}
