/* SPDX-License-Identifier: BSD-3-Clause */

/* Put and get of strips, in memory that the members brought: a column, a face. What they hold lies
 * packed here. The fabric moves them together if it has a way for that; else they become a list of
 * spans. All is done when the call returns, so nothing is to be flushed. */

#include "config.h"

#include "move/strip.h"
#include "gather/gather.h"
#include "window.h"

#define SPANS 128
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

int loci_window_locate_strips(struct loco_window *win, int rank, struct loci_strided *op,
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
    int status = loci_window_locate_strips(win, rank, op, &room, &p);

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

    if (status == LOCO_OK)
        status = loci_gather_drain(win, rank);
    return status != LOCO_OK ? status : move_strips(win, rank, kind, strips, n, packed, bytes);
}

/* ---- spans as strips ---- */

bool loci_window_add_block(struct loci_strip *strip, const struct loco_span *span)
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

        if (fits && count > 0 && loci_window_add_block(&strips[count - 1], &spans[i])) {
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
