/* SPDX-License-Identifier: BSD-3-Clause */

/* Pauses between tries of a swap: how long they are. That they gain something where many want one
 * word is shown in virtual time (bench/smart_figures). */

#include <criterion/criterion.h>

#include "backoff.h"
#include "move/rma.h"
#include "runtime.h"

enum { ROUNDS = 200 };

static uint64_t state = 1;

static uint64_t random_word(void *ctx)
{
    (void)ctx;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return state >> 20;
}

static struct loci_thread self;
static struct loci_lane lane;
static _Atomic(struct loci_lane *) lanes[1] = { &lane };

static struct loci_thread *the_self(void *ctx)
{
    (void)ctx;
    return &self;
}

static void check_pauses(struct loco_runtime *rt, const struct loci_mem *mem, int64_t unit,
                         bool first_is_none)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct loci_backoff b;

        loci_backoff_begin(&b, rt, mem);
        for (int i = 0; i < 20; i++) {
            int64_t least = unit << (i < 10 ? i : 10), ns = loci_backoff_next(&b);

            if (i == 0 && first_is_none) {
                cr_assert_eq(ns, 0);
                continue;
            }
            cr_assert(ns >= least && ns < least + unit, "pause %d: %lld ns of %lld", i,
                      (long long)ns, (long long)least);
        }
    }
}

Test(backoff, doubles_the_round_trip_of_the_lane)
{
    struct loco_runtime rt = { .host = { .random = random_word, .self = the_self } };
    struct loci_mem mem = { .peer = 0 };

    self.lanes = lanes;
    atomic_store(&lane.round_trip, 70000);
    cr_assert_eq(loci_round_trip(&rt, &mem), 70000);
    check_pauses(&rt, &mem, 70000, false);
}

Test(backoff, is_short_where_the_cpu_swaps)
{
    struct loco_runtime rt = { .host = { .random = random_word } };
    unsigned char word[8];
    struct loci_mem mem = { .peer = 0 };

    atomic_store(&mem.word, word);
    check_pauses(&rt, &mem, LOCI_BACKOFF_NEAR, true);
}
