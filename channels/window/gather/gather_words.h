/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_WORDS_H
#define LOCI_GATHER_WORDS_H

/* Accumulates of single elements of 8 bytes, gathered for the device's atomics.
 *
 * All that goes to one word is done by one atomic, as if nobody came between: sums are added up
 * here, and of other operations, or different ones, all are applied to what was read before that is
 * swapped in. So the order of one origin's operations on a word does not depend on which of several
 * atomics on it finds the word changed. Different words have no order among each other. */

#include "window/window.h"

/* Operations; in simulation so few that all of them are soon full. */
#ifdef LOCO_SIM
#define LOCI_WORDS_MOST 4
#define LOCI_WORDS_BITS 2
#else
#define LOCI_WORDS_MOST 256
#define LOCI_WORDS_BITS 8
#endif
_Static_assert(LOCI_WORDS_MOST == 1 << LOCI_WORDS_BITS, "their hash has as many bits");

struct loci_word {
    uint64_t offset;                /* of the target's part */
    uint16_t first, last;           /* operations, in order */
    uint16_t next;                  /* of the same hash; index + 1, or 0 */
};

struct loci_word_op {
    enum loco_type type;
    enum loco_op op;
    uint64_t operand;
    uint16_t next;                  /* on the same word; index + 1, or 0 */
};

struct loci_words {
    uint16_t n, ops;
    uint16_t head[LOCI_WORDS_MOST]; /* by hash; index + 1 of a word, or 0 */
    struct loci_word word[LOCI_WORDS_MOST];
    struct loci_word_op op[LOCI_WORDS_MOST];
};

void loci_words_clear(struct loci_words *w);
static inline bool loci_words_full(const struct loci_words *w)
{
    return w->ops == LOCI_WORDS_MOST;
}

/* Not where they are full. The element is of 8 bytes without padding, its bounds were checked. */
void loci_words_add(struct loci_words *w, enum loco_type type, enum loco_op op, uint64_t offset,
                    const void *operand);

/* Do all of them, and leave none: chains of additions, then of reads and of compare-and-swaps. Done
 * when it returns; or an error, of which some were done. */
int loci_words_send(struct loco_window *win, int rank, struct loci_words *w);

#endif
