/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_RUN_H
#define LOCI_WINDOW_ACC_RUN_H

/* The device's way of accumulates (window_acc.c): some neighbouring elements of 8 bytes, each an
 * atomic of the fabric, so many of them in flight together. */

#include "reduce.h"
#include "window.h"

#define LOCI_ACC_RUN_WORDS 64   /* bits of a word */

/* Elements of one call, all in one range of memory. */
struct loci_acc_run {
    struct loco_runtime *rt;
    struct loci_mem *mem;
    uint64_t offset;
    size_t n;                           /* at most LOCI_ACC_RUN_WORDS */
    uint64_t old[LOCI_ACC_RUN_WORDS];   /* what was there */
    loco_ack_t ack;
};

/* Elements at `offset`: *len bytes of them, which becomes how many are reached in one run. 1: by
 * the device; 0: those *len bytes are for the lock (no multiple of 8, or where two attached
 * regions adjoin); or an error. The run may use `room` for as long as it is there. */
int loci_acc_run_find(struct loco_window *win, int rank, uint64_t offset, size_t *len,
                      struct loci_acc_run *r, struct loci_mem *room);

/* Combine them with the operands; what was there is in `result`, unless that is NULL, and in
 * old[]. Nothing is in flight when it returns. */
int loci_acc_run_combine(struct loci_acc_run *r, const struct loco_accumulate *acc,
                         const unsigned char *operand, unsigned char *result);

#endif
