/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_RUN_H
#define LOCI_WINDOW_ACC_RUN_H

/* The device's way of accumulates (window_acc.c): elements of 8 bytes, each an atomic of the
 * fabric, so many of them handed over, and in flight, together. */

#include "base/reduce.h"
#include "window/window.h"

#define LOCI_ACC_RUN_WORDS 64   /* bits of a word */

/* Elements of one call, all in one range of memory, and neighbours in the operands. */
struct loci_acc_run {
    struct loco_runtime *rt;
    struct loci_mem *mem;
    struct loci_mem room;                   /* DYNAMIC: that range */
    size_t n;                               /* at most LOCI_ACC_RUN_WORDS */
    uint64_t offset[LOCI_ACC_RUN_WORDS];    /* in the range */
    uint64_t old[LOCI_ACC_RUN_WORDS];       /* what was there */
    loco_ack_t ack;                         /* of sums that are in flight */
};

/* No elements yet, and nothing in flight. */
void loci_acc_run_open(struct loco_window *win, struct loci_acc_run *r);

/* Add elements at `offset`: *len bytes of them, which becomes how many that is. 1: they are added;
 * 0: those *len bytes are for the lock (no multiple of 8, or where two attached regions adjoin);
 * LOCO_ERR_AGAIN: they are for another run, this one is full or in another range; or an error. */
int loci_acc_run_add(struct loco_window *win, int rank, uint64_t offset, size_t *len,
                     struct loci_acc_run *r);

/* What becomes of the run's k-th word. */
typedef void loci_acc_change_fn(const void *how, size_t k, uint64_t *word);

/* Add operand[k] to each, whatever was there: they may still be in flight. Then, and after the next
 * two, the run has no elements, and takes others. */
int loci_acc_run_sum(struct loci_acc_run *r, const uint64_t *operand);
/* Each becomes what `change` makes of it; that may be asked more than once. */
int loci_acc_run_change(struct loci_acc_run *r, loci_acc_change_fn *change, const void *how);
/* Combine them with the operands; what was there is in `result`, unless that is NULL. Sums
 * whose results nobody wants may still be in flight. */
int loci_acc_run_combine(struct loci_acc_run *r, const struct loco_accumulate *acc,
                         const unsigned char *operand, unsigned char *result);

/* Wait for what is in flight. Before the run goes out of scope, whatever was told of it. */
int loci_acc_run_close(struct loci_acc_run *r);

#endif
