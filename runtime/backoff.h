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
 * (loci_round_trip). The paper takes 4096 cycles, which is its network's, and moves the limit by
 * how many tries fail; in simulations of its benchmark that gained nothing over a limit that stays
 * (bench/README.md). */
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
