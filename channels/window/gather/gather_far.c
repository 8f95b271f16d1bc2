/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "gather_far.h"

#include <stdlib.h>
#include <string.h>

#include "gather_apply.h"
#include "gather_words.h"
#include "window/acc/window_acc.h"
#include "window/acc/window_acc_chain.h"
#include "window/acc/window_acc_merge.h"

/* Of words of memory, some bits each. */
struct marks {
    uint64_t bits[16];
};

struct loci_far {
    struct marks in_words, in_batch;
    struct loci_words words;
    size_t bytes;                       /* of records in the batch */
    _Alignas(8) unsigned char batch[LOCI_GATHER_BATCH];
    unsigned char room[LOCI_GATHER_ROOM];
    _Alignas(16) unsigned char chunk[];
};

/* ---- what is in a list ---- */

static uint64_t bit_of(uint64_t word, size_t *at)
{
    uint64_t hash = word * UINT64_C(0x9e3779b97f4a7c15);

    *at = hash >> 60;
    return UINT64_C(1) << (hash >> 54 & 63);
}

static void mark(struct marks *m, uint64_t address, size_t len)
{
    for (uint64_t word = address / 8; word <= (address + len - 1) / 8; word++) {
        size_t at;
        uint64_t bit = bit_of(word, &at);

        m->bits[at] |= bit;
    }
}

static bool is_marked(const struct marks *m, uint64_t address, size_t len)
{
    for (uint64_t word = address / 8; word <= (address + len - 1) / 8; word++) {
        size_t at;
        uint64_t bit = bit_of(word, &at);

        if ((m->bits[at] & bit) != 0)
            return true;
    }
    return false;
}

/* ---- the lock's exchange ---- */

struct exchange {
    struct loco_window *win;
    int rank;
    bool inside, locked;                /* it may read and write; and has the lock by itself, */
    bool chained;                       /* or by the chain */
    bool whole;                         /* which has read just what is in the copy */
    int failed;                         /* why nothing more can be done */
    struct loci_acc_chain chain;
};

struct exchange_way {
    struct loci_gather_way way;
    struct exchange *exchange;
};

/* *n of the spans are read meanwhile. */
static int enter(struct exchange *x, const struct loco_span *spans, size_t *n)
{
    struct loci_rw lock = loci_window_acc_lock(x->win, x->rank);
    size_t most = *n < LOCI_ACC_CHAIN_SPANS ? *n : LOCI_ACC_CHAIN_SPANS;

    x->chained = loci_acc_may_chain(x->win, x->rank, &lock)
                 && loci_acc_chain_take(&x->chain, x->win, x->rank, &lock, spans, most, NULL)
                    == LOCO_OK;
    x->whole = x->chained && *n > 0 && most == *n;
    *n = x->chained ? most : 0;
    /* Where not all can be read, each will be by itself. */
    if (!x->chained)
        x->failed = loci_acc_enter(x->win, x->rank, &x->locked);
    x->inside = x->failed == LOCO_OK;
    return x->failed;
}

static int leave(struct exchange *x, bool writes)
{
    x->inside = false;
    return x->chained ? loci_acc_chain_give(&x->chain, writes)
                      : loci_acc_leave(x->win, x->rank, x->locked);
}

static int read_spans(struct exchange *x, const struct loco_span *spans, size_t n)
{
    size_t have = x->inside ? 0 : n;
    int status = x->inside ? LOCO_OK : enter(x, spans, &have);

    if (status != LOCO_OK || have == n)
        return status;
    return loci_window_move(x->win, x->rank, LOCI_READ, spans + have, n - have, NULL);
}

/* A chain that has read all writes all, and gives the lock back: what fails then must not be
 * written again. */
static int write_spans(struct exchange *x, const struct loco_span *spans, size_t n)
{
    size_t none = 0;
    int status = x->inside ? LOCO_OK : enter(x, NULL, &none);

    if (status != LOCO_OK)
        return status;
    if (!x->whole)
        return loci_window_move(x->win, x->rank, LOCI_WRITE, spans, n, NULL);
    x->failed = leave(x, true);
    return LOCO_OK;
}

static int move(const struct loci_gather_way *way, enum loci_op_kind kind,
                const struct loci_piece *pieces, int n, unsigned char *packed)
{
    struct exchange *x = ((const struct exchange_way *)way)->exchange;
    struct loco_span span[LOCI_GATHER_CHUNK];

    if (x->failed != LOCO_OK)
        return x->failed;
    loci_gather_spans(pieces, n, packed, span);
    return kind == LOCI_READ ? read_spans(x, span, (size_t)n) : write_spans(x, span, (size_t)n);
}

static int send_batch(struct loco_window *win, int rank, struct loci_far *far)
{
    struct exchange x = { .win = win, .rank = rank };
    const struct exchange_way way = {
        .way = {
            .win = win, .rank = rank, .room = far->room,
            .chunk = (struct loci_gather_chunk *)(void *)far->chunk,
            .locate = loci_gather_locate_there, .move = move,
        },
        .exchange = &x,
    };
    int status, left = LOCO_OK;

    if (far->bytes == 0)
        return LOCO_OK;
    status = loci_acc_merged(win);
    if (status != LOCO_OK)
        return status;
    loci_store64(far->batch, far->bytes);
    far->bytes = 0;
    far->in_batch = (struct marks){ { 0 } };
    loci_gather_apply_begin(&way.way);
    loci_gather_apply(&way.way, far->batch);
    status = loci_gather_apply_end(&way.way);
    if (x.inside)
        left = leave(&x, false);
    return x.failed != LOCO_OK ? x.failed : status != LOCO_OK ? status : left;
}

/* ---- the lists ---- */

static int send_words(struct loco_window *win, int rank, struct loci_far *far)
{
    far->in_words = (struct marks){ { 0 } };
    return far->words.ops > 0 ? loci_words_send(win, rank, &far->words) : LOCO_OK;
}

int loci_far_send(struct loco_window *win, int rank, struct loci_far *far)
{
    int status = send_words(win, rank, far), batch = send_batch(win, rank, far);

    return status == LOCO_OK ? batch : status;
}

/* An address, as far as which word it is in goes. */
static uint64_t address_of(const struct loco_window *win, int rank, uint64_t offset)
{
    return win->kind == LOCO_WINDOW_DYNAMIC ? offset : win->target[rank].mem.key.base + offset;
}

int loci_far_send_before(struct loco_window *win, int rank, struct loci_far *far, uint64_t offset,
                         size_t len)
{
    uint64_t address = address_of(win, rank, offset);
    int words = is_marked(&far->in_words, address, len) ? send_words(win, rank, far) : LOCO_OK;
    int batch = is_marked(&far->in_batch, address, len) ? send_batch(win, rank, far) : LOCO_OK;

    return words == LOCO_OK ? batch : words;
}

/* An element that adjoining regions share has the lock for its way, by whomever: they know that. */
static bool is_one_piece(struct loco_window *win, int rank, uint64_t offset, size_t len)
{
    struct loci_mem room, *mem;
    size_t found = len;
    uint64_t at;

    return win->kind != LOCO_WINDOW_DYNAMIC
           || (loci_window_locate(win, rank, offset, &found, &mem, &at, &room) == LOCO_OK
               && found == len);
}

static int add_words(struct loco_window *win, int rank, struct loci_far *far, enum loco_type type,
                     enum loco_op op, uint64_t offset, const unsigned char *operand, size_t len)
{
    uint64_t address = address_of(win, rank, offset);
    int status = is_marked(&far->in_batch, address, len) ? send_batch(win, rank, far) : LOCO_OK;

    for (size_t at = 0; status == LOCO_OK && at < len; at += 8) {
        if (loci_words_full(&far->words))
            status = send_words(win, rank, far);
        if (status == LOCO_OK)
            loci_words_add(&far->words, type, op, offset + at, operand + at);
    }
    mark(&far->in_words, address, len);
    return status;
}

static int add_record(struct loco_window *win, int rank, struct loci_far *far, enum loco_type type,
                      enum loco_op op, uint64_t offset, const unsigned char *operand, size_t len)
{
    uint64_t address = address_of(win, rank, offset);
    int status = is_marked(&far->in_words, address, len) ? send_words(win, rank, far) : LOCO_OK;

    if (status == LOCO_OK && 8 + far->bytes + LOCI_GATHER_RECORD(len) > LOCI_GATHER_BATCH)
        status = send_batch(win, rank, far);
    if (status != LOCO_OK)
        return status;
    loci_gather_record(far->batch + 8 + far->bytes, type, op, offset, operand, len);
    far->bytes += LOCI_GATHER_RECORD(len);
    mark(&far->in_batch, address, len);
    return LOCO_OK;
}

/* Each takes the way that it has alone: by another one it would not be atomic. */
static int add_each(struct loco_window *win, int rank, struct loci_far *far, enum loco_type type,
                    enum loco_op op, uint64_t offset, const unsigned char *operand, size_t len)
{
    int status = LOCO_OK;

    for (size_t at = 0; status == LOCO_OK && at < len; at += 8)
        status = (is_one_piece(win, rank, offset + at, 8) ? add_words : add_record)
                 (win, rank, far, type, op, offset + at, operand + at, 8);
    return status;
}

struct loci_far *loci_far_new(void)
{
    return calloc(1, sizeof(struct loci_far) + loci_gather_chunk_size());
}

int loci_far_add(struct loco_window *win, int rank, struct loci_far *far, enum loco_type type,
                 enum loco_op op, uint64_t offset, const void *operand, size_t len)
{
    if (!loci_acc_is_for_device(win, loci_type(type)) || loci_acc_is_alone(win, rank)
        || (address_of(win, rank, offset) & 7) != 0)
        return add_record(win, rank, far, type, op, offset, operand, len);
    if (is_one_piece(win, rank, offset, len))
        return add_words(win, rank, far, type, op, offset, operand, len);
    return add_each(win, rank, far, type, op, offset, operand, len);
}
