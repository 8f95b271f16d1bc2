/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_H
#define LOCI_WINDOW_ACC_H

/* What compare_swap (window_swap.c) shares with accumulates (window_acc.c): the lock, the target's
 * help, the way to the device's atomics. */

#include <string.h>

#include "base/reduce.h"
#include "window_flat.h"

/* Whether the lock is worth trying to take by a chain. */
bool loci_acc_may_chain(const struct loco_window *win, int rank, const struct loci_rw *lock);
/* Whether somebody else may be at that target's memory. */
bool loci_acc_needs_lock(const struct loco_window *win, int rank);
/* Where members are on several nodes: nobody else can be there, so that elements may be read and
 * written instead of being atomics. What came before and comes after, atomics of the device as
 * well, is ordered: by the lane here, by the fence of the unlock at others. But in the nic domain
 * other members of this node are read by the CPU, which the atomics of their devices need not be
 * visible to yet: there it is false. */
bool loci_acc_is_alone(const struct loco_window *win, int rank);
/* Take the lock if it is needed, *locked. */
int loci_acc_enter(struct loco_window *win, int rank, bool *locked);
/* Take the lock if it is needed, *locked, or have it done by who has it, *done. */
int loci_acc_enter_or_ask(struct loco_window *win, int rank, const struct loci_flat *op,
                          bool *locked, bool *done);
/* Do what others ask for, and give the lock back, if it was taken. */
int loci_acc_leave(struct loco_window *win, int rank, bool locked);
/* Under the lock, one element of at most 8 bytes. LOCO_ERR_AGAIN: the target is not waiting. */
int loci_acc_update_by_target(struct loco_window *win, int rank, uint64_t offset, size_t size,
                              struct loci_op *op, uint64_t *old);
/* Give back one of a target's locks of accumulates, behind what was written under it. */
int loci_acc_give_back(struct loco_window *win, int rank, const struct loci_rw *lock);

static inline bool loci_acc_is_for_device(const struct loco_window *win,
                                          const struct loci_type *type)
{
    return win->device_atomics && type->plain && type->extent == 8;
}

/* An element of 1, 2, 4 or 8 bytes as a word, and back. */
static inline uint64_t loci_acc_to_word(const void *p, size_t size)
{
    uint8_t one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    switch (size) {
    case 1: memcpy(&one, p, 1); return one;
    case 2: memcpy(&two, p, 2); return two;
    case 4: memcpy(&four, p, 4); return four;
    default: memcpy(&eight, p, 8); return eight;
    }
}

static inline void loci_acc_from_word(void *p, size_t size, uint64_t word)
{
    const uint8_t one = (uint8_t)word;
    const uint16_t two = (uint16_t)word;
    const uint32_t four = (uint32_t)word;

    switch (size) {
    case 1: memcpy(p, &one, 1); break;
    case 2: memcpy(p, &two, 2); break;
    case 4: memcpy(p, &four, 4); break;
    default: memcpy(p, &word, 8);
    }
}

#endif
