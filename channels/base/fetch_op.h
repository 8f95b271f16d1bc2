/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_FETCH_OP_H
#define LOCI_FETCH_OP_H

#include "move/rma.h"
#include "reduce.h"

/* Atomics on one word of network memory beyond the two that fabrics have (rma.h).
 *
 * Where the CPU swaps the word it is one atomic of the CPU. Elsewhere sums of integers are the
 * fabric's fetch-and-add; all else reads the word, computes, and swaps the result in, again and
 * again with pauses between (backoff.h) until nobody was faster. One of those who try always comes
 * through. An operation that would not change the word takes effect at its read, and swaps nothing.
 */

/* Whether `op` on `type` can be done so: an element is a word. */
bool loci_fetch_op_allowed(enum loco_op op, enum loco_type type);
/* The caller's mistake of another: LOCO_ERR_ARG. */
int loci_no_word_op(const struct loco_runtime *rt, const char *call, const char *name,
                    enum loco_op op, enum loco_type type);
/* Such an operation. The element that was there goes to `*old`, which is not NULL. */
int loci_fetch_op(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, enum loco_op op,
                  enum loco_type type, const void *operand, void *old);
/* Swap a word's value in. */
int loci_exchange(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t value,
                  uint64_t *old);

#endif
