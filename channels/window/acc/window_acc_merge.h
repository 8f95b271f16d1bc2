/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_MERGE_H
#define LOCI_WINDOW_ACC_MERGE_H

/* Accumulates without a result in the owner domain, of elements of 8 bytes: the owner's CPU does
 * them, and nobody is answered. window_acc_merge.c. */

#include "base/reduce.h"
#include "window/window.h"

/* Of one span that is not empty, of whole elements without padding. LOCO_ERR_AGAIN: nothing is
 * done, it goes another way; nothing that was gathered is in its way. Only where win->merges. */
int loci_acc_merge(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                   const struct loco_span *span, const void *operand);

/* Before this thread posts what has an order with accumulates: what another thread merged is placed
 * when this returns. */
int loci_acc_merged_slow(struct loco_window *win);
static inline int loci_acc_merged(struct loco_window *win)
{
    return win->merger == NULL || win->merger == loci_self(win->rt) ? LOCO_OK
                                                                    : loci_acc_merged_slow(win);
}

#endif
