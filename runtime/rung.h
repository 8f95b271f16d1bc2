/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RUNG_H
#define LOCI_RUNG_H

#include <stdatomic.h>
#include <stdint.h>

/* For which channels of a process its poller (threads/poller.h) was rung. Beside its bells, in
 * memory that peers map, so no more than atomics.
 *
 * Who rings sets the channel's bit, then rings. The poller reads `rings`, then takes the bits;
 * before it sleeps by its bell it has taken all bits that were set before `rings` became what it
 * read. Channels whose numbers are alike modulo LOCI_RUNG_BITS share a bit, and
 * a bit that nobody should have set costs a look. */

#define LOCI_RUNG_WORDS 16
#define LOCI_RUNG_BITS (64u * LOCI_RUNG_WORDS)

struct loci_rung {
    _Atomic uint64_t word[LOCI_RUNG_WORDS];
};

/* Before its bell is rung. */
static inline void loci_rung_mark(struct loci_rung *rung, uint32_t number)
{
    uint32_t bit = number % LOCI_RUNG_BITS;

    atomic_fetch_or_explicit(&rung->word[bit / 64], UINT64_C(1) << bit % 64, memory_order_release);
}

/* The marks of that word, which are no more. */
static inline uint64_t loci_rung_take(struct loci_rung *rung, unsigned word)
{
    return atomic_load_explicit(&rung->word[word], memory_order_relaxed) == 0 ? 0
           : atomic_exchange_explicit(&rung->word[word], 0, memory_order_acquire);
}

#endif
