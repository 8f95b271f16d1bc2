/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_FAR_H
#define LOCI_GATHER_FAR_H

/* Accumulates without a result that go through a device, gathered for one target by one process
 * (gather.h has those of one node).
 *
 * A device takes several operations for one doorbell, and has as many under way as it can. So the
 * first accumulate after a synchronization goes at once, and those behind it wait to be sent
 * together: what the device's atomics serve as chains of them (gather_words.h), and what the lock
 * of the target's accumulates serves in one exchange: the lock is taken, all elements are read, all
 * are written, and the lock is given back, in two round trips where they are few, in five where
 * they are many. At a target that is locked exclusively all is read and written, and nothing is
 * locked.
 *
 * Order. An element may be in one of the two lists: before another that has bytes of it is put into
 * the other one, the first is sent. Which elements those are is kept in few bits, so that a list is
 * sent too often now and then.
 *
 * Where the owner's CPU does the atomics, most elements of 8 bytes do not wait here: they are sent
 * at once, without an answer (window_acc_merge.c), after what is in the lists that has bytes of
 * them.
 *
 * Puts have a list of their own (window_deferred.c): nothing orders them with accumulates. */

#include "window/window.h"

struct loci_far;

/* Empty lists, to be given to free(); NULL without memory. */
struct loci_far *loci_far_new(void);

/* One of one span that is not empty, to which nothing objects. An error is of those before it. */
int loci_far_add(struct loco_window *win, int rank, struct loci_far *far, enum loco_type type,
                 enum loco_op op, uint64_t offset, const void *operand, size_t len);

/* Words go to that target, whose bytes no list may have any more: those lists are sent. */
int loci_far_send_before(struct loco_window *win, int rank, struct loci_far *far, uint64_t offset,
                         size_t len);

/* All of them are done when it returns, or will never be: the first error. */
int loci_far_send(struct loco_window *win, int rank, struct loci_far *far);

#endif
