/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates on memory that the members brought, by the target if it happens to be waiting:
 * where they go is told as strips (window_strips.c), the operands lie packed. The origin holds the
 * lock of the target's part, so nobody else is at it; what the target does need not be atomic. */

#include "config.h"

#include <string.h>

#include "window/window.h"

#define FETCH 0x10000u          /* of what the owner is told: old values, too */
#define OLD_BYTES 512           /* that are kept at a time */
#define COMBINE_BYTES 8192      /* of an accumulate that is left to the target */

/* ---- target ---- */

/* Of types without padding only, so that operands and elements are alike. */
bool loci_window_combine_offered(uint32_t what, void *target, void *operand, size_t len)
{
    enum loco_type type_id = (enum loco_type)(what & 0xff);
    enum loco_op op = (enum loco_op)(what >> 8 & 0xff);
    const struct loci_type *type = loci_type(type_id);
    loci_reduce_fn *reduce = loci_reduce(op, type_id);
    unsigned char *to = target, *from = operand, old[OLD_BYTES];

    if (type == NULL || reduce == NULL || !type->plain || len % type->extent != 0)
        return false;
    if (target == NULL)
        return true;
    if ((what & FETCH) == 0) {
        reduce(to, from, len / type->extent);
        return true;
    }
    for (size_t part; len > 0; len -= part, to += part, from += part) {
        part = len < OLD_BYTES ? len : OLD_BYTES;
        memcpy(old, to, part);
        reduce(to, from, part / type->extent);
        memcpy(from, old, part);
    }
    return true;
}

/* ---- origin ---- */

int loci_window_combine_by_target(struct loco_window *win, int rank,
                                  const struct loco_accumulate *acc)
{
    struct loci_strip strips[LOCI_STRIDED_STRIPS];
    struct loci_strided op = {
        .kind = LOCI_WRITE, .strips = strips, .packed = (unsigned char *)(uintptr_t)acc->operand,
        .what = (uint32_t)acc->type | (uint32_t)acc->op << 8 | (acc->result != NULL ? FETCH : 0),
        .old = acc->result,
    };
    struct loci_mem room;
    uint64_t p;
    int status;

    if (win->rt->ops->combine == NULL || acc->op == LOCO_OP_NO_OP || !loci_type(acc->type)->plain)
        return LOCO_ERR_AGAIN;
    for (size_t i = 0; i < acc->nspans; i++) {
        const struct loco_span *span = &acc->spans[i];

        op.bytes += span->len;
        if (op.bytes > COMBINE_BYTES)
            return LOCO_ERR_AGAIN;
        if (span->len == 0 || (op.n > 0 && loci_window_add_block(&strips[op.n - 1], span)))
            continue;
        if (op.n == LOCI_STRIDED_STRIPS)
            return LOCO_ERR_AGAIN;
        strips[op.n++] = (struct loci_strip){ span->offset, span->len, 0, 1 };
    }
    status = loci_window_send(win);
    if (status == LOCO_OK)
        status = loci_window_locate_strips(win, rank, &op, &room, &p);
    return status != LOCO_OK ? status : p != 0 ? LOCO_ERR_AGAIN : loci_try_combine(win->rt, &op);
}
