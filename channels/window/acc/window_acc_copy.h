/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_COPY_H
#define LOCI_WINDOW_ACC_COPY_H

/* The lock's way of accumulates (window_acc.c) through a copy: some elements at a time are read,
 * combined with the operands, and exactly their bytes are written. */

#include "window/window.h"

/* Bytes of an element behind its last member: the last element of a window may lack them. */
static inline size_t loci_acc_padding(const struct loci_type *type)
{
    return type->index != 0 ? (size_t)type->extent - type->index - type->index_len : 0;
}

/* The caller holds the lock. What was written is complete here, and not yet placed. */
int loci_acc_by_copy(struct loco_window *win, int rank, const struct loco_accumulate *acc);

/* The same, and the lock is taken and given back meanwhile, in two round trips in all
 * (window_acc_chain.h, also for `held`: if that is not EXCLUSIVE then nothing was done but that the
 * lock is held so). LOCO_ERR_AGAIN: not in this way, nothing was done. */
int loci_acc_by_chain(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                      const struct loci_rw *lock, enum loci_rw_mode *held);

#endif
