/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_BACKOFF_H
#define LOCI_BACKOFF_H

#include <stdint.h>

struct loci_mem;
struct loco_runtime;

/* Pauses of a loop around a compare-and-swap that others were ahead of, again and again: truncated
 * exponential backoff (SMART, ASPLOS 2024, section 3.3). After failure i, from 0, it is
 *
 *   min(unit * 2^i, unit * 1024) + random(unit)
 *
 * where the unit is about what the word's round trip takes: who comes back sooner is in the way of
 * the one that is ahead. For a word that is posted to that is measured, of the lane's atomics
 * (loci_round_trip). Where the CPU swaps, the first pause is none: who is late there comes through
 * at once mostly, and a pause takes as long as a whole try.
 *
 * The paper takes 4096 cycles, which is its network's, and moves the limit by how many tries fail;
 * in simulations of its benchmark that gained nothing over a limit that stays (bench/README.md).
 *
 * Without a pause are swaps that are no such loop, or in which one would only cost:
 *
 *   tries of a ticket lock    one swap; that it failed is the answer
 *   words of rw locks         a few swaps at most, then looks at intervals that double
 *                             (locks/rw_word.c); who leaves the line has to be quick, since others
 *                             wait for its ticket
 *   kvstore's compare_set     under the key's lock, so that nobody is ahead
 *   tickets of queues         where the CPU swaps: a try is two loads and a swap, and one of those
 *                             who try always comes through
 *   accumulates' requests     the same (window/acc/window_flat.c): a stack, in memory that all
 *                             have mapped */
struct loci_backoff {
    struct loco_runtime *rt;
    const struct loci_mem *mem;     /* of the word */
    int64_t unit;                   /* ns; from the first failure on */
    unsigned failures;
};

#define LOCI_BACKOFF_NEAR INT64_C(250)      /* ns: the unit of words that the CPU swaps */

static inline void loci_backoff_begin(struct loci_backoff *b, struct loco_runtime *rt,
                                      const struct loci_mem *mem)
{
    b->rt = rt;
    b->mem = mem;
    b->failures = 0;
}

/* After a failure: how long to pause, in ns. */
int64_t loci_backoff_next(struct loci_backoff *b);
/* The same, and pause. Polls the thread's lanes meanwhile. */
void loci_backoff_pause(struct loci_backoff *b);
/* Let so many ns pass, for statistics and reports as what is said. */
void loci_pause(struct loco_runtime *rt, const char *what, int kind, int64_t ns);

/* What an atomic on that memory takes, there and back, as this thread has last measured it. */
int64_t loci_round_trip(struct loco_runtime *rt, const struct loci_mem *mem);

#endif
