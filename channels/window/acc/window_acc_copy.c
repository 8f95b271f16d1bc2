/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "window_acc_copy.h"

#include "window_acc_chain.h"

#define BATCH_BYTES 16384       /* of target memory in the local copy */
#define BATCH_SPANS 512

/* Some of a call's elements: where they are, and their bytes. */
struct batch {
    struct loco_window *win;
    int rank;
    const struct loci_type *type;
    size_t n;                           /* spans */
    size_t bytes;
    struct loco_span span[BATCH_SPANS];
    unsigned char data[BATCH_BYTES];
};

/* Take elements of the span at *at, from its byte *from on, while there is room. False: full. */
static bool batch_add(struct batch *b, const struct loco_span *span, size_t *from)
{
    size_t room = (BATCH_BYTES - b->bytes) / b->type->extent * b->type->extent;
    size_t len = span->len - *from < room ? span->len - *from : room;

    if (len == 0 || b->n == BATCH_SPANS)
        return false;
    b->span[b->n++] = (struct loco_span){ b->data + b->bytes, span->offset + *from,
                                          len - loci_acc_padding(b->type) };
    b->bytes += len;
    *from += len;
    return *from == span->len;
}

static int write_runs(struct batch *b, struct loco_span *runs, size_t n)
{
    return loci_window_move(b->win, b->rank, LOCI_WRITE, runs, n, NULL);
}

/* Of types with padding, write the members only. */
static int write_members(struct batch *b)
{
    const struct loci_type *type = b->type;
    struct loco_span run[BATCH_SPANS];
    size_t n = 0;
    int status = LOCO_OK;

    for (size_t i = 0; i < b->n; i++) {
        for (size_t at = 0; status == LOCO_OK && at < b->span[i].len; at += type->extent) {
            unsigned char *local = (unsigned char *)b->span[i].local + at;
            uint64_t offset = b->span[i].offset + at;

            run[n++] = (struct loco_span){ local, offset, type->value };
            run[n++] = (struct loco_span){ local + type->index, offset + type->index,
                                           type->index_len };
            if (n == BATCH_SPANS) {
                status = write_runs(b, run, n);
                n = 0;
            }
        }
    }
    return status == LOCO_OK && n > 0 ? write_runs(b, run, n) : status;
}

static int batch_read(struct batch *b)
{
    if (b->type->plain)
        return loci_window_move_packed(b->win, b->rank, LOCI_READ, b->span, b->n);
    return loci_window_move(b->win, b->rank, LOCI_READ, b->span, b->n, NULL);
}

static int batch_write(struct batch *b)
{
    if (b->type->plain)
        return loci_window_move_packed(b->win, b->rank, LOCI_WRITE, b->span, b->n);
    return write_members(b);
}

static void combine(struct batch *b, const struct loco_accumulate *acc,
                    const unsigned char *operand, unsigned char *result)
{
    size_t n = b->bytes / b->type->extent;

    if (result != NULL)
        loci_type_copy(b->type, result, b->data, n);
    loci_reduce(acc->op, acc->type)(b->data, operand, n);
}

/* Take what there is room for, from byte *from of span *at on: they become where the next
 * begins. */
static void batch_fill(struct batch *b, struct loco_window *win, int rank,
                       const struct loco_accumulate *acc, size_t *at, size_t *from)
{
    b->win = win;
    b->rank = rank;
    b->type = loci_type(acc->type);
    b->n = b->bytes = 0;
    while (*at < acc->nspans) {
        if (acc->spans[*at].len > 0 && !batch_add(b, &acc->spans[*at], from))
            break;
        (*at)++;
        *from = 0;
    }
}

int loci_acc_by_copy(struct loco_window *win, int rank, const struct loco_accumulate *acc)
{
    bool writes = acc->op != LOCO_OP_NO_OP;
    const unsigned char *operand = acc->operand;
    unsigned char *result = acc->result;
    size_t at = 0, from = 0;
    int status = LOCO_OK;
    struct batch b;

    while (status == LOCO_OK && at < acc->nspans) {
        batch_fill(&b, win, rank, acc, &at, &from);
        if (b.n > 0)
            status = batch_read(&b);
        if (status == LOCO_OK && b.n > 0)
            combine(&b, acc, operand, result);
        if (status == LOCO_OK && b.n > 0 && writes)
            status = batch_write(&b);
        operand = writes ? operand + b.bytes : operand;
        result = result != NULL ? result + b.bytes : NULL;
    }
    return status;
}

int loci_acc_by_chain(struct loco_window *win, int rank, const struct loco_accumulate *acc,
                      const struct loci_rw *lock, enum loci_rw_mode *held)
{
    struct loci_acc_chain chain;
    size_t at = 0, from = 0;
    struct batch b;
    int status;

    if (!loci_type(acc->type)->plain)
        return LOCO_ERR_AGAIN;
    batch_fill(&b, win, rank, acc, &at, &from);
    if (at < acc->nspans)
        return LOCO_ERR_AGAIN;
    status = loci_acc_chain_take(&chain, win, rank, lock, b.span, b.n, held);
    if (status != LOCO_OK || (held != NULL && *held != LOCI_RW_EXCLUSIVE))
        return status;
    combine(&b, acc, acc->operand, acc->result);
    return loci_acc_chain_give(&chain, acc->op != LOCO_OP_NO_OP);
}
