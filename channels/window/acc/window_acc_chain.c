/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "window_acc_chain.h"

#define SWAPS 3         /* until the lock is waited for */

/* Where the spans are, if the lock and all of them are reached by one lane. */
static int aim(struct loci_acc_chain *c, struct loco_window *win, int rank,
               const struct loco_span *spans, size_t n)
{
    if (!loci_acc_is_far(&c->lock) || n > LOCI_ACC_CHAIN_SPANS)
        return LOCO_ERR_AGAIN;
    c->n = (int)n;
    for (size_t i = 0; i < n; i++) {
        struct loci_mem *mem;
        size_t len = spans[i].len;
        uint64_t at;
        int status = loci_window_locate(win, rank, spans[i].offset, &len, &mem, &at, &c->room[i]);

        if (status != LOCO_OK)
            return status;
        if (len != spans[i].len || loci_mem_map(c->rt, mem) != NULL)
            return LOCO_ERR_AGAIN;
        c->move[i] = (struct loci_op){
            .mem = mem, .offset = at, .local = spans[i].local, .len = len,
        };
    }
    return LOCO_OK;
}

static int add_moves(const struct loci_acc_chain *c, enum loci_op_kind kind, struct loci_op *ops)
{
    for (int i = 0; i < c->n; i++) {
        ops[i] = c->move[i];
        ops[i].kind = kind;
    }
    return c->n;
}

/* *posted, unless NULL: all of it was. What was is done when it returns. */
static int run(struct loci_acc_chain *c, struct loci_op *ops, int n, bool *posted)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = loci_post_spans(c->rt, ops, n, &ack), done = loco_ack_wait(c->rt, &ack);

    if (posted != NULL)
        *posted = status == LOCO_OK;
    return status == LOCO_OK ? done : status;
}

/* 1: held, and the spans are read. 0: it has to be waited for. */
static int try_to_take(struct loci_acc_chain *c)
{
    uint64_t unit = loci_rw_unit(&c->lock, LOCI_RW_EXCLUSIVE), seen = loci_rw_guess(&c->lock);

    for (int i = 0; i < SWAPS; i++) {
        struct loci_op ops[1 + LOCI_ACC_CHAIN_SPANS];
        uint64_t old = ~seen;
        int status;

        ops[0] = (struct loci_op){
            .kind = LOCI_COMPARE_SWAP, .mem = c->lock.mem, .offset = c->lock.offset, .len = 8,
            .compare = seen, .operand = seen + unit, .result = &old,
        };
        status = run(c, ops, 1 + add_moves(c, LOCI_READ, &ops[1]), NULL);
        if (status != LOCO_OK) {
            if (old == seen)
                loci_rw_release(c->rt, &c->lock, LOCI_RW_EXCLUSIVE);
            return status;
        }
        if (old == seen)
            return 1;
        if (!loci_rw_is_free(old, LOCI_RW_EXCLUSIVE))
            break;
        seen = old;
        loci_rw_found_free(&c->lock, old);
    }
    return 0;
}

int loci_acc_chain_take(struct loci_acc_chain *c, struct loco_window *win, int rank,
                        const struct loci_rw *lock, const struct loco_span *spans, size_t n,
                        enum loci_rw_mode *held)
{
    const enum loci_rw_mode mode = LOCI_RW_EXCLUSIVE;
    struct loci_op ops[LOCI_ACC_CHAIN_SPANS];
    int status;

    c->rt = win->rt;
    c->lock = *lock;
    status = aim(c, win, rank, spans, n);
    if (status == LOCO_OK)
        status = try_to_take(c);
    if (held != NULL)
        *held = mode;
    if (status != 0)
        return status == 1 ? LOCO_OK : status;
    status = held == NULL
             ? loci_rw_acquire_slow(c->rt, lock, mode, LOCI_RW_ACCUMULATES)
             : loci_rw_acquire_either(c->rt, lock, LOCI_RW_ACCUMULATES, held);
    if (status != LOCO_OK || (held != NULL && *held != mode))
        return status;
    status = run(c, ops, add_moves(c, LOCI_READ, ops), NULL);
    if (status != LOCO_OK)
        loci_rw_release(c->rt, lock, mode);
    return status;
}

int loci_acc_chain_give(struct loci_acc_chain *c, bool writes)
{
    struct loci_op ops[LOCI_ACC_CHAIN_SPANS + 1];
    uint64_t old;
    bool posted;
    int n = writes ? add_moves(c, LOCI_WRITE, ops) : 0, status;

    ops[n++] = (struct loci_op){
        .kind = LOCI_FETCH_ADD, .mem = c->lock.mem, .offset = c->lock.offset, .len = 8,
        .operand = 0 - loci_rw_unit(&c->lock, LOCI_RW_EXCLUSIVE), .result = &old,
        .unwanted = true,
    };
    status = run(c, ops, n, &posted);
    /* The last of them, which frees the lock, was not posted either. */
    if (!posted)
        loci_rw_release(c->rt, &c->lock, LOCI_RW_EXCLUSIVE);
    return status;
}
