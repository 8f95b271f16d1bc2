/* SPDX-License-Identifier: BSD-3-Clause */

/* Compare and swap, atomic with the accumulates of the same elements: by whichever of their ways an
 * element takes (window_acc.c). */

#include "config.h"

#include <string.h>

#include "window/gather/gather.h"
#include "window/window.h"
#include "window_acc.h"
#include "window_acc_chain.h"
#include "window_acc_merge.h"
#include "window_acc_right.h"
#include "window_acc_run.h"
#include "window_acc_way.h"
#include "window_flat.h"

#define SWAP_IF(bits, type)                                                                 \
    static void swap_if##bits(unsigned char *p, const void *expected, const void *desired,  \
                              void *result)                                                 \
    {                                                                                       \
        type e, d;                                                                          \
                                                                                            \
        memcpy(&e, expected, sizeof e);                                                     \
        memcpy(&d, desired, sizeof d);                                                      \
        atomic_compare_exchange_strong_explicit((_Atomic type *)p, &e, d,                   \
                                                memory_order_acq_rel,                       \
                                                memory_order_acquire);                      \
        memcpy(result, &e, sizeof e);                                                       \
    }
SWAP_IF(8, uint8_t)
SWAP_IF(16, uint16_t)
SWAP_IF(32, uint32_t)
SWAP_IF(64, uint64_t)

static void swap_if(size_t size, unsigned char *p, const void *expected, const void *desired,
                    void *result)
{
    switch (size) {
    case 1: swap_if8(p, expected, desired, result); break;
    case 2: swap_if16(p, expected, desired, result); break;
    case 4: swap_if32(p, expected, desired, result); break;
    default: swap_if64(p, expected, desired, result); break;
    }
}

/* `old` was read with the lock. */
static int swap_if_held(struct loci_acc_chain *chain, size_t size, const void *expected,
                        const void *desired, unsigned char *old, void *result)
{
    bool equal = memcmp(old, expected, size) == 0;

    memcpy(result, old, size);
    if (equal)
        memcpy(old, desired, size);     /* where it was read to is what is written */
    return loci_acc_chain_give(chain, equal);
}

/* Under the lock, this one and the next. */
static int swap_by_target(struct loco_window *win, int rank, uint64_t offset, size_t size,
                          const void *expected, const void *desired, unsigned char *result)
{
    struct loci_op op = {
        .kind = LOCI_COMPARE_SWAP, .operand = loci_acc_to_word(desired, size),
        .compare = loci_acc_to_word(expected, size),
    };
    uint64_t old;
    int status = loci_acc_update_by_target(win, rank, offset, size, &op, &old);

    if (status == LOCO_OK)
        loci_acc_from_word(result, size, old);
    return status;
}

static int swap_by_copy(struct loco_window *win, int rank, uint64_t offset, size_t size,
                        const void *expected, const void *desired, unsigned char *old)
{
    struct loco_span read = { old, offset, size };
    struct loco_span write = { (void *)desired, offset, size };
    int status = loci_window_move(win, rank, LOCI_READ, &read, 1, NULL);

    return status == LOCO_OK && memcmp(old, expected, size) == 0
           ? loci_window_move(win, rank, LOCI_WRITE, &write, 1, NULL) : status;
}

static int swap_if_locked(struct loco_window *win, int rank, uint64_t offset, size_t size,
                          const void *expected, const void *desired, void *result)
{
    unsigned char old[8];
    struct loco_span read = { old, offset, size };
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    const struct loci_flat op = {
        .type = LOCO_TYPE_BYTE, .op = LOCI_FLAT_SWAP, .offset = offset, .len = size,
        .operand = desired, .expected = expected, .result = result,
    };
    struct loci_acc_chain chain;
    bool locked, done;
    int status = loci_acc_may_chain(win, rank, &lock)
                 ? loci_acc_chain_take(&chain, win, rank, &lock, &read, 1, NULL) : LOCO_ERR_AGAIN;
    int left;

    if (status == LOCO_OK)
        return swap_if_held(&chain, size, expected, desired, old, result);
    if (status != LOCO_ERR_AGAIN)
        return status;
    status = loci_acc_enter_or_ask(win, rank, &op, &locked, &done);
    if (status != LOCO_OK || done)
        return status;
    status = swap_by_target(win, rank, offset, size, expected, desired, old);
    if (status == LOCO_ERR_AGAIN)
        status = swap_by_copy(win, rank, offset, size, expected, desired, old);
    left = loci_acc_leave(win, rank, locked);
    if (status == LOCO_OK)
        status = left;
    if (status == LOCO_OK)
        memcpy(result, old, size);
    return status;
}

/* ---- where members are on several nodes ---- */

static int swap_if_by_device(struct loco_window *win, int rank, uint64_t offset,
                             const void *expected, const void *desired, void *result)
{
    struct loci_acc_run run;
    size_t len = 8;
    int status;

    loci_acc_run_open(win, &run);
    status = loci_acc_run_add(win, rank, offset, &len, &run);
    if (status == 0)
        return swap_if_locked(win, rank, offset, len, expected, desired, result);
    if (status < 0)
        return status;
    status = loci_compare_swap(run.rt, run.mem, run.offset[0], loci_acc_to_word(expected, 8),
                               loci_acc_to_word(desired, 8), &run.old[0], NULL);
    if (status == LOCO_OK)
        memcpy(result, run.old, 8);
    return status;
}

/* By the lock that excludes the device's atomics, *done; or it has become the right to these. */
static int swap_word_locked(struct loco_window *win, int rank, uint64_t offset,
                            const void *expected, const void *desired, void *result, bool *done)
{
    struct loci_rw lock = loci_acc_vectors_lock(win, rank);
    unsigned char old[8];
    struct loco_span read = { old, offset, 8 };
    struct loci_acc_chain chain;
    enum loci_rw_mode held;
    int status = loci_acc_is_far(&lock)
                 ? loci_acc_chain_take(&chain, win, rank, &lock, &read, 1, &held) : LOCO_ERR_AGAIN;
    bool by_chain = status == LOCO_OK;
    int left;

    if (status == LOCO_ERR_AGAIN)
        status = loci_rw_acquire_either(win->rt, &lock, LOCI_RW_ACCUMULATES, &held);
    if (status != LOCO_OK)
        return status;
    if (held != LOCI_RW_EXCLUSIVE)
        return loci_acc_right_keep(win, rank, 1);
    *done = true;
    loci_acc_right_locked(win, rank, 1);
    if (by_chain)
        return swap_if_held(&chain, 8, expected, desired, old, result);
    status = swap_by_copy(win, rank, offset, 8, expected, desired, old);
    left = loci_acc_give_back(win, rank, &lock);
    if (status == LOCO_OK)
        memcpy(result, old, 8);
    return status == LOCO_OK ? left : status;
}

/* The caller has checked the element. */
static int swap_word(struct loco_window *win, int rank, uint64_t offset, const void *expected,
                     const void *desired, void *result)
{
    bool aligned = win->kind != LOCO_WINDOW_DYNAMIC
                   && ((win->target[rank].mem.key.base + offset) & 7) == 0;
    bool locks, done = false;
    int status = loci_window_send(win), ended;

    if (status == LOCO_OK)
        status = loci_acc_right_begin(win, rank, 1, &locks);
    if (status == LOCO_ERR_AGAIN)
        status = locks && aligned
                 ? swap_word_locked(win, rank, offset, expected, desired, result, &done)
                 : loci_acc_right_take(win, rank);
    if (status != LOCO_OK || done)
        return status;
    status = swap_if_by_device(win, rank, offset, expected, desired, result);
    ended = loci_acc_right_end(win, rank);
    return status == LOCO_OK ? ended : status;
}

int loco_window_compare_swap(loco_window_t *win, int rank, enum loco_type type_id,
                             uint64_t offset, const void *expected, const void *desired,
                             void *result)
{
    const struct loci_type *type = loci_type(type_id);
    struct loco_span span = { NULL, offset, type != NULL ? type->extent : 0 };
    struct loci_acc_way way;
    unsigned char *p;
    int status;

    if (type == NULL || !type->swappable)
        return LOCO_ERR_ARG;
    p = win->atomics ? loci_window_direct(win, rank, offset, span.len) : NULL;
    if (p == NULL) {
        status = loci_window_check(win, rank);
        if (status == LOCO_OK)
            status = loci_window_check_spans(win, rank, &span, 1);
        if (status == LOCO_OK)
            status = loci_window_send(win);
        if (status == LOCO_OK)
            status = loci_acc_merged(win);
        if (status == LOCO_OK)
            status = loci_gather_drain(win, rank);
        if (status != LOCO_OK)
            return status;
        if (loci_acc_is_for_device(win, type))
            return swap_word(win, rank, offset, expected, desired, result);
        if (win->mapped_by_all)
            p = loci_mem_map(win->rt, &win->target[rank].mem);
        if (p == NULL && win->atomics)
            return LOCO_ERR_UNSUPPORTED;
        p = p != NULL ? p + offset : NULL;
    }
    if (p == NULL || !loci_window_is_atomic(win, type, (uintptr_t)p))
        return swap_if_locked(win, rank, offset, span.len, expected, desired, result);
    LOCI_COUNT(win->rt, atomics, rank == win->group.rank);
    status = loci_acc_way_enter(win, rank, 1, &way);
    if (status != LOCO_OK)
        return status;
    swap_if(span.len, p, expected, desired, result);    /* with the lock it is as good */
    loci_window_updated(win);
    return loci_acc_way_leave(win, rank, &way);
}
