/* SPDX-License-Identifier: BSD-3-Clause */

/* Elements of 8 bytes, accumulated without a result, as writes that merge (fabric.h): each element
 * becomes what an atomic of its owner's CPU makes of it. No answer is waited for; what fences puts
 * fences them. Where the memory is mapped here, the same atomic is done here.
 *
 * Why that is the same as an atomic of the fabric with an answer:
 *
 *   atomicity   In the owner domain a word is changed by CPUs alone: its owner's for those who post
 *               to it, their own for those who have it mapped. One more atomic of the owner's is
 *               atomic to MPI_Fetch_and_op and compare_and_swap of others by the same rule.
 *   order       What a thread posts to a target goes on one lane. So what is merged is placed in
 *               the order of the calls, and a later read or atomic comes after it. Where another
 *               thread calls next, it fences first (loci_acc_merged). A process whose threads call
 *               at the same time does not merge.
 *   the lock    Who combines vectors by read and write excludes atomics by LOCI_WINDOW_VECTORS
 *               (window_acc_right.h). Merges are sent under the right, and may be on their way when
 *               their thread counts itself out, and when the right is given back. That is an atomic
 *               at the same target, behind them on their lane.
 *   alone       At a target that is locked exclusively nobody else is. What comes before and after
 *               is ordered by the lane, and at others by the fence of the unlock.
 *   gathered    Elements that the lock is for wait in a batch (gather_far.h). One that has bytes of
 *               these goes first. What is put into a batch later goes by the same lane.
 *
 * So a vector is merged, too, however long: reading and writing it under a lock takes two transfers
 * and two round trips at least.
 *
 * What a target refuses is told by the next fence, as of a put. */

#include "config.h"

#include "window_acc_merge.h"

#include "window/gather/gather.h"
#include "window_acc.h"
#include "window_acc_right.h"

#define MERGES 0x10000u         /* a merge is not 0 */

/* ---- target ---- */

bool loci_window_merge_offered(uint32_t how, void *words, const void *operands, size_t n)
{
    enum loco_type type_id = (enum loco_type)(how & 0xff);
    enum loco_op op = (enum loco_op)(how >> 8 & 0xff);
    const struct loci_type *type = loci_type(type_id);

    if (how >> 16 != MERGES >> 16 || type == NULL || !type->plain || type->extent != 8
        || op >= LOCO_OP_COUNT || op == LOCO_OP_NO_OP || loci_atomic_table[type_id][op] == NULL)
        return false;
    loci_atomic_table[type_id][op](words, operands, NULL, n);
    return true;
}

/* ---- origin ---- */

static int post(struct loco_window *win, int rank, uint32_t how, const struct loco_span *span,
                const unsigned char *operand)
{
    struct loci_mem *mem = &win->target[rank].mem;
    loco_ack_t ack = LOCO_ACK_INIT;
    size_t words = (size_t)span->len / 8;
    int status = LOCO_OK;

    for (size_t at = 0, n; status == LOCO_OK && at < words; at += n) {
        n = words - at < LOCI_MERGE_WORDS ? words - at : LOCI_MERGE_WORDS;
        status = loci_merge(win->rt, mem, span->offset + 8 * at, how, operand + 8 * at, n, &ack);
    }
    return status;
}

int loci_acc_merged_slow(struct loco_window *win)
{
    win->merger = NULL;
    return loci_fence_peer(win->rt, LOCO_FENCE_PROCESS, -1);
}

/* However many elements they are, they are as cheap as one to whoever weighs atomics against the
 * lock. */
static int enter(struct loco_window *win, int rank)
{
    bool locks;
    int status = loci_acc_right_begin(win, rank, 1, &locks);

    return status == LOCO_ERR_AGAIN ? loci_acc_right_take(win, rank) : status;
}

static int merge(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                 const struct loco_span *span, const void *operand)
{
    struct loci_mem *mem = &win->target[rank].mem;
    unsigned char *word = loci_mem_word(mem);
    bool alone = loci_acc_is_alone(win, rank);
    int status = alone ? LOCO_OK : enter(win, rank), ended;

    if (status != LOCO_OK)
        return status;
    if (word == NULL) {
        win->merger = loci_self(win->rt);
        status = post(win, rank, MERGES | (uint32_t)type | (uint32_t)op << 8, span, operand);
    } else {
        LOCI_COUNT_MEM(win->rt, atomics, mem);
        loci_atomic_table[type][op](word + span->offset, operand, NULL, (size_t)span->len / 8);
    }
    ended = alone ? LOCO_OK : loci_acc_right_end(win, rank);
    return status == LOCO_OK ? ended : status;
}

int loci_acc_merge(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                   const struct loco_span *span, const void *operand)
{
    struct loci_mem *mem;
    int status = loci_window_check(win, rank);

    if (status == LOCO_OK)
        status = loci_window_check_spans(win, rank, span, 1);
    if (status != LOCO_OK)
        return status;
    mem = &win->target[rank].mem;
    if (((mem->key.base + span->offset) & 7) != 0 || op == LOCO_OP_NO_OP
        || loci_atomic_table[type][op] == NULL
        || (loci_mem_word(mem) == NULL && !loci_merges(win->rt, mem)
            && loci_mem_map(win->rt, mem) == NULL))
        return LOCO_ERR_AGAIN;
    status = loci_gather_before(win, rank, span->offset, (size_t)span->len);
    return status == LOCO_OK ? merge(win, rank, type, op, span, operand) : status;
}
