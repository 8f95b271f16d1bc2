/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_CHAIN_H
#define LOCI_WINDOW_ACC_CHAIN_H

/* A lock of a target's accumulates and some of its bytes, in two round trips instead of one for
 * each operation: where neither can be reached by the CPU, one lane executes in order
 *
 *   to take      compare-and-swap on the lock's word, then the reads
 *   to give      the writes, then the atomic that frees the word
 *
 * What was read while somebody else had the lock is read again. What the holder before wrote is
 * read: its writes were executed before the atomic that freed the word, that one before the swap
 * which found it free, and this before the reads (an atomic and a read of one queue pair are
 * always in order; LOCO_ORDER for the writes). */

#include "window/window.h"

#define LOCI_ACC_CHAIN_SPANS 15

/* Made by loci_acc_chain_take; plain data, the caller's. */
struct loci_acc_chain {
    struct loco_runtime *rt;
    struct loci_rw lock;
    int n;
    struct loci_op move[LOCI_ACC_CHAIN_SPANS];      /* of the spans; reads, then writes */
    struct loci_mem room[LOCI_ACC_CHAIN_SPANS];     /* DYNAMIC: their ranges */
};

/* A lane reaches the lock's word, and the CPU does not. */
static inline bool loci_acc_is_far(const struct loci_rw *lock)
{
    return loci_mem_is_posted_to(lock->mem) && loci_mem_ptr(lock->mem) == NULL;
}

/* Take `lock` EXCLUSIVE and read the spans, whose bounds were checked. With `held` not NULL it may
 * become SHARED instead, if others have that: *held says which, and nothing was read. Nothing is in
 * flight when it returns. LOCO_ERR_AGAIN: not in this way, nothing was done; or an error, and the
 * lock is not held. */
int loci_acc_chain_take(struct loci_acc_chain *c, struct loco_window *win, int rank,
                        const struct loci_rw *lock, const struct loco_span *spans, size_t n,
                        enum loci_rw_mode *held);

/* Write the same spans, or nothing, and give the lock back. */
int loci_acc_chain_give(struct loci_acc_chain *c, bool writes);

#endif
