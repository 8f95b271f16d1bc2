/* SPDX-License-Identifier: BSD-3-Clause */

/* Put and get. Each member's part is written by whoever puts into it; nothing orders two of them
 * but the epochs. A peer that stops in the middle of a put leaves part of it.
 *
 * Mapped memory is copied to here and now. Memory that cannot be mapped (the user's own, or of
 * another node) is reached by operations on the fabric, chained so that a long list of short runs
 * costs few calls. A span of a dynamic window may lie in several attached regions that adjoin.
 * Short ones may be deferred: window_deferred.c. */

#include "config.h"

#include "gather/gather.h"
#include "window.h"

#define CHAIN 128       /* operations given to the fabric at once */

/* `again`: this call has looked there before, and looks once more when it is done; or it has found
 * the span before this one, and if that is in the same region, nothing has to be asked. */
static int locate(struct loco_window *win, int rank, uint64_t offset, size_t *len, bool again,
                  struct loci_mem **mem, uint64_t *mem_offset, struct loci_mem *room)
{
    struct loci_target *t = &win->target[rank];
    int status;

    if (win->kind != LOCO_WINDOW_DYNAMIC) {
        if (*len > t->mem.key.len || offset > t->mem.key.len - *len)
            return LOCO_ERR_RANGE;
        *mem = &t->mem;
        *mem_offset = offset;
        return LOCO_OK;
    }
    status = loci_regions_find(win, rank, offset, len, again, room);
    if (status != LOCO_OK)
        return status;
    *mem = room;
    *mem_offset = offset - room->key.base;
    return LOCO_OK;
}

int loci_window_locate(struct loco_window *win, int rank, uint64_t offset, size_t *len,
                       struct loci_mem **mem, uint64_t *mem_offset, struct loci_mem *room)
{
    return locate(win, rank, offset, len, false, mem, mem_offset, room);
}

/* All runs are inside before any is moved. Those of one region cost one look at it. */
static __attribute__((noinline)) int check_each(struct loco_window *win, int rank,
                                                const struct loco_span *spans, size_t n)
{
    bool again = false;

    for (size_t i = 0; i < n; i++) {
        uint64_t offset = spans[i].offset, mem_offset;
        struct loci_mem room, *mem;
        size_t left = spans[i].len;

        while (left > 0) {
            size_t len = left;
            int status = locate(win, rank, offset, &len, again, &mem, &mem_offset, &room);

            if (status != LOCO_OK)
                return status;
            again = true;
            offset += len;
            left -= len;
        }
    }
    return LOCO_OK;
}

static bool is_inside(const struct loci_memkey *key, const struct loco_span *span)
{
    return span->len <= key->len && span->offset <= key->len - span->len;
}

int loci_window_check_spans(struct loco_window *win, int rank, const struct loco_span *spans,
                            size_t n)
{
    if (n == 1 && spans->len > 0 && win->kind != LOCO_WINDOW_DYNAMIC)
        return is_inside(&win->target[rank].mem.key, spans) ? LOCO_OK : LOCO_ERR_RANGE;
    return check_each(win, rank, spans, n);
}

/* ---- operations in a chain ---- */

struct chain {
    struct loco_window *win;
    loco_ack_t *ack;
    bool awaited, untold;           /* as of struct loci_op */
    bool looked;                    /* this call has looked at all of it before, or at a part */
    int n;
    struct loci_op op[CHAIN];
    struct loci_mem mem[CHAIN];     /* DYNAMIC: of each operation */
};

static int chain_send(struct chain *c)
{
    int n = c->n;

    c->n = 0;
    return loci_post_spans(c->win->rt, c->op, n, c->ack);
}

/* One contiguous piece: copied at once where it is mapped, else chained. `mem` is the window's
 * own, or in the chain's place for this operation: either way it lives until the chain is sent. */
static int move_piece(struct chain *c, enum loci_op_kind kind, struct loci_mem *mem,
                      uint64_t offset, unsigned char *local, size_t len)
{
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        p = loci_mem_map(c->win->rt, mem);
    if (p != NULL && kind == LOCI_WRITE)
        LOCI_COUNT_MEM(c->win->rt, writes, mem);
    else if (p != NULL)
        LOCI_COUNT_MEM(c->win->rt, reads, mem);
    if (p != NULL) {
        if (kind == LOCI_WRITE)
            loci_copy_in(p + offset, local, len);
        else
            loci_copy_out(local, p + offset, len);
        return LOCO_OK;
    }
    c->op[c->n++] = (struct loci_op){
        .kind = kind, .mem = mem, .offset = offset, .local = local, .len = len,
        .awaited = c->awaited, .untold = c->untold,
    };
    return c->n == CHAIN ? chain_send(c) : LOCO_OK;
}

static int move_spans(struct chain *c, int rank, enum loci_op_kind kind,
                      const struct loco_span *spans, size_t n)
{
    int status = LOCO_OK;

    for (size_t i = 0; status == LOCO_OK && i < n; i++) {
        uint64_t offset = spans[i].offset, mem_offset;
        unsigned char *local = spans[i].local;
        size_t left = spans[i].len;
        struct loci_mem *mem;

        while (status == LOCO_OK && left > 0) {
            size_t len = left;

            status = locate(c->win, rank, offset, &len, c->looked, &mem, &mem_offset,
                            &c->mem[c->n]);
            c->looked = true;
            if (status == LOCO_OK)
                status = move_piece(c, kind, mem, mem_offset, local, len);
            offset += len;
            local += len;
            left -= len;
        }
    }
    return status == LOCO_OK && c->n > 0 ? chain_send(c) : status;
}

/* Whether a member's part is one piece of memory that is not mapped, nor can be. A CREATE window's
 * parts but the own are never mapped. */
static bool is_far_run(struct loco_window *win, int rank)
{
    struct loci_mem *mem = &win->target[rank].mem;

    return win->kind != LOCO_WINDOW_DYNAMIC && loci_mem_ptr(mem) == NULL
           && (win->kind == LOCO_WINDOW_CREATE || loci_mem_map(win->rt, mem) == NULL);
}

/* Whether the end of an epoch, or a flush, has to wait for it: a read that does not block. What is
 * written they place. */
static bool is_awaited(enum loci_op_kind kind, const loco_ack_t *ack)
{
    return kind == LOCI_READ && ack != NULL;
}

/* One run there: no chain. */
static int move_run(struct loco_window *win, int rank, enum loci_op_kind kind,
                    const struct loco_span *span, loco_ack_t *ack)
{
    struct loci_op op = {
        .kind = kind, .mem = &win->target[rank].mem, .offset = span->offset,
        .local = span->local, .len = span->len, .awaited = is_awaited(kind, ack),
        .untold = ack == LOCO_UNTIL_FLUSH,
    };
    loco_ack_t nobodys = LOCO_ACK_INIT;

    if (!is_inside(&op.mem->key, span))
        return LOCO_ERR_RANGE;
    return loci_post_spans(win->rt, &op, 1, op.untold ? &nobodys : ack);
}

/* The chain is large: apart from the short way. */
static int move_chain(struct loco_window *win, int rank, enum loci_op_kind kind,
                      const struct loco_span *spans, size_t n, bool looked, loco_ack_t *ack)
{
    loco_ack_t own = LOCO_ACK_INIT;
    struct chain chain;
    int status;

    if (kind == LOCI_WRITE)
        loci_window_stored(win);
    chain.win = win;
    chain.looked = looked;
    chain.untold = ack == LOCO_UNTIL_FLUSH;
    chain.awaited = is_awaited(kind, ack);
    chain.ack = ack != NULL && !chain.untold ? ack : &own;
    chain.n = 0;
    status = move_spans(&chain, rank, kind, spans, n);
    if (ack == NULL) {
        int done = loco_ack_wait(win->rt, &own);

        status = status == LOCO_OK ? done : status;
    }
    return status;
}

static int move(struct loco_window *win, int rank, enum loci_op_kind kind,
                const struct loco_span *spans, size_t n, bool looked, loco_ack_t *ack)
{
    int status = loci_window_send(win);

    if (status != LOCO_OK)
        return status;
    if (n == 1 && spans->len > 0 && is_far_run(win, rank))
        return move_run(win, rank, kind, spans, ack);
    return move_chain(win, rank, kind, spans, n, looked, ack);
}

int loci_window_move(struct loco_window *win, int rank, enum loci_op_kind kind,
                     const struct loco_span *spans, size_t n, loco_ack_t *ack)
{
    return move(win, rank, kind, spans, n, false, ack);
}

/* ---- the calls ---- */

int loci_window_put_or_get(struct loco_window *win, int rank, enum loci_op_kind kind,
                           const struct loco_span *spans, size_t n, loco_ack_t *ack)
{
    int status = loci_window_check(win, rank);

    /* What is attached there is looked at again when it is done. */
    if (win->kind == LOCO_WINDOW_DYNAMIC && ack == LOCO_UNTIL_FLUSH)
        ack = NULL;
    if (status == LOCO_OK)
        status = loci_window_check_spans(win, rank, spans, n);
    /* By a device what is put does not wait: nothing orders it with accumulates. */
    if (status == LOCO_OK && win->gathering != 0
        && (kind == LOCI_READ || win->domain == LOCI_DOMAIN_CPU)) {
        if (kind == LOCI_WRITE && n == 1 && (ack == NULL || ack == LOCO_UNTIL_FLUSH)) {
            status = loci_gather_put(win, rank, spans->offset, spans->local, spans->len);
            if (status != LOCO_ERR_AGAIN)
                return status;
        }
        status = loci_gather_drain(win, rank);
    }
    if (status == LOCO_OK && n == 1 && loci_window_may_defer(win, rank, kind, spans->len, ack))
        return loci_window_defer(win, rank, kind, spans);
    if (status == LOCO_OK)
        status = move(win, rank, kind, spans, n, true, ack);
    if ((kind == LOCI_WRITE || ack == LOCO_UNTIL_FLUSH) && win->one_thread)
        win->under_way = rank;
    if (status == LOCO_OK && win->kind == LOCO_WINDOW_DYNAMIC)
        status = loci_window_check_spans(win, rank, spans, n);
    return status;
}

int loco_window_put(loco_window_t *win, int rank, const struct loco_span *spans, size_t n,
                    loco_ack_t *ack)
{
    if (n == 1) {
        unsigned char *p = loci_window_direct_put(win, rank, spans->offset, spans->len);

        if (p != NULL) {
            LOCI_COUNT(win->rt, writes, rank == win->group.rank);
            loci_copy_in(p, spans->local, spans->len);
            return LOCO_OK;
        }
    }
    return loci_window_put_or_get(win, rank, LOCI_WRITE, spans, n, ack);
}

int loco_window_get(loco_window_t *win, int rank, const struct loco_span *spans, size_t n,
                    loco_ack_t *ack)
{
    if (n == 1) {
        unsigned char *p = loci_window_direct(win, rank, spans->offset, spans->len);

        if (p != NULL) {
            LOCI_COUNT(win->rt, reads, rank == win->group.rank);
            loci_copy_out(spans->local, p, spans->len);
            return LOCO_OK;
        }
    }
    return loci_window_put_or_get(win, rank, LOCI_READ, spans, n, ack);
}
