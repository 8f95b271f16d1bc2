/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_RIGHT_H
#define LOCI_WINDOW_ACC_RIGHT_H

/* The lock or atomics of the device: for elements of 8 bytes at multiples of 8, where members are
 * on several nodes. The lock is a word of each member, LOCI_WINDOW_VECTORS (rw_word.h). A process
 * that combines by read and write holds it EXCLUSIVE; one that takes atomics holds it SHARED, which
 * is the right to do so. The two never meet, for the lock does not let them.
 *
 * To take the right costs a round trip, as much as an atomic. So a process keeps it: its threads
 * have it together (struct loci_acc_right, private), and count themselves in while they are at
 * atomics. All of these are complete when a thread counts itself out, or are writes that merge, in
 * front of whatever it posts next (window_acc_merge.c). So the right may be given back when nobody
 * is counted. It is given back
 *
 *   by its own vectors   when atomics have done elements of LOCO_ACC_VECTORS / FAR_SHARE of them,
 *                        or 2, 4, ... 64 times as many, by backoff as in window_acc_way.h
 *   on request           another process, whose vector found the lock SHARED after it had given its
 *                        own right back, writes the target's rank + 1 into LOCI_WINDOW_YIELD of the
 *                        others' control blocks; each looks at its own at its next accumulate
 *
 * and from then on the process takes the lock EXCLUSIVE for single elements, too, until it has done
 * LOCO_ACC_SINGLES of them in a row; where others have it SHARED, it takes the right for each and
 * gives it back at once. Then it takes the right again, and keeps it.
 *
 * Nobody waits for a right to be given back: a vector that finds the lock SHARED takes the right
 * itself, and goes by atomics. So a process that computes, or has stopped, with a right in hand
 * makes the vectors of others slow, and no more; so does one that died. A request that is
 * overwritten by one for another target is made again, by the count of the next vectors. */

#include "window/window.h"

/* The lock. */
static inline struct loci_rw loci_acc_vectors_lock(struct loco_window *win, int rank)
{
    return loci_window_rw(win, rank, &win->control[rank], LOCI_WINDOW_VECTORS,
                          LOCI_WINDOW_VECTORS_WORD,
                          "the accumulates of vectors at a window's member");
}

/* Before an accumulate of n elements. LOCO_OK: the right is held, and the caller is counted in.
 * LOCO_ERR_AGAIN: it is not, and *locks says whether the lock is worth trying. */
int loci_acc_right_begin(struct loco_window *win, int rank, size_t n, bool *locks);
/* Take the right, and count in. */
int loci_acc_right_take(struct loco_window *win, int rank);
/* The lock was just taken SHARED for n elements, which is the right: count in. */
int loci_acc_right_keep(struct loco_window *win, int rank, size_t n);
/* Count out: no atomic of the caller's is in flight, but for writes that merge. */
int loci_acc_right_end(struct loco_window *win, int rank);
/* n elements went by the lock. */
void loci_acc_right_locked(struct loco_window *win, int rank, size_t n);

#endif
