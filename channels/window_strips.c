/* SPDX-License-Identifier: BSD-3-Clause */

/* Put and get of strips, in memory that the members brought: a column, a face. What they hold lies
 * packed here. The fabric moves them together if it has a way for that; else they become a list of
 * spans. All is done when the call returns, so nothing is to be flushed. */

#include "config.h"

#include <string.h>

#include "strip.h"
#include "window.h"

#define SPANS 128
#define COMBINE_BYTES 8192  /* of an accumulate that is left to the target */
#define FEW 4               /* spans that are as fast one by one */

static int check_and_move(struct loco_window *win, int rank, enum loci_op_kind kind,
                          const struct loco_span *spans, size_t n)
{
    int status = loci_window_check_spans(win, rank, spans, n);

    if (status == LOCO_OK)
        status = loci_window_move(win, rank, kind, spans, n, NULL);
    if (status == LOCO_OK && win->kind == LOCO_WINDOW_DYNAMIC)
        status = loci_window_check_spans(win, rank, spans, n);
    return status;
}

static int move_singly(struct loco_window *win, int rank, enum loci_op_kind kind,
                       const struct loci_strip *strips, int n, unsigned char *packed)
{
    struct loco_span span[SPANS];
    int status = LOCO_OK;
    size_t spans = 0;

    for (int i = 0; i < n; i++) {
        uint64_t at = strips[i].at;

        for (uint64_t k = 0; status == LOCO_OK && k < strips[i].blocks; k++) {
            span[spans++] = (struct loco_span){ packed, at, strips[i].len };
            packed += strips[i].len;
            at += (uint64_t)strips[i].stride;
            if (spans < SPANS)
                continue;
            status = check_and_move(win, rank, kind, span, spans);
            spans = 0;
        }
    }
    return status == LOCO_OK && spans > 0 ? check_and_move(win, rank, kind, span, spans) : status;
}

/* All that is touched is *low to *high. */
static bool extent_of(const struct loci_strip *strips, int n, uint64_t *low, uint64_t *high)
{
    *low = UINT64_MAX;
    *high = 0;
    for (int i = 0; i < n; i++) {
        uint64_t from, to;

        if (!loci_strip_extent(&strips[i], &from, &to))
            return false;
        *low = from < *low ? from : *low;
        *high = to > *high ? to : *high;
    }
    return n > 0;
}

/* Where the strips are, if that is one piece of memory: LOCO_OK, and *p is where byte 0 of them is
 * mapped, or 0. LOCO_ERR_AGAIN. */
static int locate(struct loco_window *win, int rank, struct loci_strided *op,
                  struct loci_mem *room, uint64_t *p)
{
    uint64_t low, high, offset;
    struct loci_mem *mem;
    unsigned char *mapped;
    size_t len;
    int status;

    if (!extent_of(op->strips, op->n, &low, &high))
        return LOCO_ERR_AGAIN;
    len = high - low;
    status = loci_window_locate(win, rank, low, &len, &mem, &offset, room);
    if (status != LOCO_OK || len != high - low)
        return LOCO_ERR_AGAIN;
    op->mem = mem;
    op->shift = mem->key.base + offset - low;
    mapped = loci_mem_map(win->rt, mem);
    *p = mapped != NULL ? (uint64_t)(uintptr_t)mapped + offset - low : 0;
    return LOCO_OK;
}

static int move_together(struct loco_window *win, int rank, struct loci_strided *op)
{
    struct loci_mem room;
    uint64_t p;
    int status = locate(win, rank, op, &room, &p);

    if (status != LOCO_OK)
        return status;
    if (p == 0)
        return loci_try_strided(win->rt, op);
    for (int i = 0; i < op->n; i++)
        op->packed = loci_strip_copy(&op->strips[i],
                                     (unsigned char *)(uintptr_t)(p + op->strips[i].at),
                                     op->packed, op->kind == LOCI_WRITE);
    return LOCO_OK;
}

static int move_strips(struct loco_window *win, int rank, enum loci_op_kind kind,
                       const struct loci_strip *strips, int n, unsigned char *packed, size_t bytes)
{
    struct loci_strided op = {
        .kind = kind, .strips = strips, .n = n, .packed = packed, .bytes = bytes,
    };
    struct loco_span all = { NULL, 0, 0 };
    int status = loci_window_send(win);

    if (status != LOCO_OK)
        return status;
    status = move_together(win, rank, &op);
    if (status == LOCO_ERR_AGAIN)
        return move_singly(win, rank, kind, strips, n, packed);
    /* A region may have been detached meanwhile. */
    if (status == LOCO_OK && win->kind == LOCO_WINDOW_DYNAMIC
        && extent_of(strips, n, &all.offset, &all.len)) {
        all.len -= all.offset;
        status = loci_window_check_spans(win, rank, &all, 1);
    }
    return status;
}

int loci_window_move_strips(struct loco_window *win, int rank, enum loci_op_kind kind,
                            const struct loci_strip *strips, int n, unsigned char *packed,
                            size_t bytes)
{
    int status = loci_window_check(win, rank);

    return status != LOCO_OK ? status : move_strips(win, rank, kind, strips, n, packed, bytes);
}

/* ---- spans as strips ---- */

/* Make the span one more block of the strip, if it is. */
static bool add_block(struct loci_strip *strip, const struct loco_span *span)
{
    int64_t step = (int64_t)(span->offset - strip->at);

    if (span->len != strip->len)
        return false;
    if (strip->blocks == 1)
        strip->stride = step;
    else if (step != strip->stride * (int64_t)strip->blocks)
        return false;
    strip->blocks++;
    return true;
}

int loci_window_move_packed(struct loco_window *win, int rank, enum loci_op_kind kind,
                            const struct loco_span *spans, size_t n)
{
    struct loci_strip strips[LOCI_STRIDED_STRIPS];
    unsigned char *packed = n > 0 ? spans->local : NULL;
    size_t bytes = 0;
    int count = 0, status = LOCO_OK;

    if (n < FEW || !loci_window_takes_strips(win))
        return loci_window_move(win, rank, kind, spans, n, NULL);
    for (size_t i = 0; status == LOCO_OK && i < n; i++) {
        bool fits = bytes + spans[i].len <= LOCI_STRIDED_BYTES;

        if (fits && count > 0 && add_block(&strips[count - 1], &spans[i])) {
            bytes += spans[i].len;
            continue;
        }
        if (count == LOCI_STRIDED_STRIPS || (count > 0 && !fits)) {
            status = move_strips(win, rank, kind, strips, count, packed, bytes);
            packed += bytes;
            bytes = 0;
            count = 0;
        }
        strips[count++] = (struct loci_strip){ spans[i].offset, spans[i].len, 0, 1 };
        bytes += spans[i].len;
    }
    return status == LOCO_OK
           ? move_strips(win, rank, kind, strips, count, packed, bytes) : status;
}

/* ---- accumulates ---- */

#define FETCH 0x10000u          /* of what the owner is told: old values, too */
#define OLD_BYTES 512

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
        if (span->len == 0 || (op.n > 0 && add_block(&strips[op.n - 1], span)))
            continue;
        if (op.n == LOCI_STRIDED_STRIPS)
            return LOCO_ERR_AGAIN;
        strips[op.n++] = (struct loci_strip){ span->offset, span->len, 0, 1 };
    }
    status = loci_window_send(win);
    if (status == LOCO_OK)
        status = locate(win, rank, &op, &room, &p);
    return status != LOCO_OK ? status : p != 0 ? LOCO_ERR_AGAIN : loci_try_combine(win->rt, &op);
}
