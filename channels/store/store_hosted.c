/* SPDX-License-Identifier: BSD-3-Clause */

/* Hosted stores: members come and go, and take each other's places.
 *
 * A member is a rank, for as long as its process has it. What belongs to the rank lies at the
 * hosts, its stocks too, and goes on to the next one: log slots with the number of their last
 * transaction, which never comes twice; the blocks and cells of the stocks; the number of stamps
 * that were written. So a process that leaves gives nothing back, and one that dies leaves its
 * place in one of two states:
 *
 *   - between two turns of its stocks (store_memory.c): all is in order. A log slot may be
 *     undecided, of a transaction that was about to own its first cell, and owns none: the next one
 *     decides it, for it looks at the status before it writes to the slot
 *   - within a turn: cells may be owned by its slots, and blocks be in no stock. That is what
 *     scavenging is for: it settles the cells, and finds the blocks. Then the stocks are made
 *     empty. It looks at all of the store, so it is done once for all who are known to have gone
 *     (loci_store_gone), however many.
 *
 * The rank is given to another only after that. Those who meet a cell of the gone in the meantime
 * wait for their patience and undo it, as of somebody who is slow: they do not know who has
 * died.
 *
 * A host may also withdraw the store from under its users, to use its memory for something else
 * (runtime/fabric/port/lease.h says when). Then what matters is that no call is within that memory,
 * nor comes to be. A call says so in its handle's word `inside`, and looks at the store's `ended`
 * then; who withdraws writes `ended`, and looks at `inside` of each handle then. The calls are the
 * frequent side of an asymmetric fence. Who sees no call inside has seen all that it has stored in
 * memory that is mapped here. What it has posted is executed before a zero-length read behind it on
 * the same lane, so one on each lane to the host is what is waited for.
 *
 * A process that is stopped within a call has its word set, so its memory waits for it; it cannot
 * be otherwise where it is mapped. Where it is not, the host has means of its own to keep late
 * operations out, and `until` says from when on a call has to ask before it posts anything: then
 * who was stopped between two calls finds out by the next. */

#include "config.h"

#include "move/asymmetric.h"
#include "store_cell.h"
#include "store_life.h"
#include "store_memory.h"
#include "tx.h"

/* Whether it has died within a turn; or an error. */
static int is_in_turn(struct loco_store *s, int rank)
{
    for (int thread = 0; thread < s->threads; thread++) {
        uint64_t at, turn;
        struct loci_mem *mem = loci_stock_mem(s, rank, thread, &at);
        int status = loci_read64(s->rt, mem, at + offsetof(struct loci_stock, turn), &turn, NULL);

        if (status != LOCO_OK)
            return status;
        if (turn % 2 != 0)
            return 1;
    }
    return 0;
}

static int empty_stocks(struct loco_store *s, int rank)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    for (int thread = 0; thread < s->threads && status == LOCO_OK; thread++) {
        uint64_t at, turn;
        struct loci_mem *mem = loci_stock_mem(s, rank, thread, &at);

        status = loci_read64(s->rt, mem, at + offsetof(struct loci_stock, turn), &turn, NULL);
        for (unsigned i = 0; i < LOCI_STOCK_ENTRIES && status == LOCO_OK; i++)
            status = loci_write64(s->rt, mem, at + offsetof(struct loci_stock, entry) + 8 * i, 0,
                                  &ack);
        if (status == LOCO_OK && turn % 2 != 0)
            status = loci_write64(s->rt, mem, at + offsetof(struct loci_stock, turn), turn + 1,
                                  &ack);
    }
    done = loco_ack_wait(s->rt, &ack);
    return status != LOCO_OK ? status : done;
}

/* Whether it died within a turn, and counts as dead from here on; or an error, or LOCO_ERR_AGAIN:
 * its end is not known yet, or it goes on. */
static int count_as_dead(struct loco_store *s, int rank, int peer)
{
    int status = is_in_turn(s, rank);

    if (status <= 0)
        return status;
    if (loci_peer_alive(s->rt, peer))
        return LOCO_ERR_AGAIN;
    if (s->ep->group.peer[rank] == LOCI_VACANT)
        loci_hosted_set_member(s->ep, rank, peer);
    return 1;
}

void loci_store_gone(struct loco_store *s, int rank, int peer)
{
    (void)count_as_dead(s, rank, peer);     /* an error is told by loci_store_vacate() */
}

/* What all have had that count as dead is found. It is in pools then, and their stocks must not be
 * used any more; each is made empty before its rank is vacant. If two have died within turns,
 * neither is sure of the other's stock before both count as dead. */
static int sweep(struct loco_store *s)
{
    loco_store_scavenged_t found;
    int status = loco_store_scavenge(s, &found);

    if (status != LOCO_OK || found.left > 0)
        return status != LOCO_OK ? status : LOCO_ERR_AGAIN;
    for (int rank = 0; rank < s->ep->group.size; rank++)
        s->swept[rank] = !s->is_host[rank] && s->ep->group.peer[rank] != LOCI_VACANT;
    return LOCO_OK;
}

static int clean_up(struct loco_store *s, int rank, int peer, bool *cleaned)
{
    int status = count_as_dead(s, rank, peer);

    if (status <= 0)
        return status;
    status = s->swept[rank] ? LOCO_OK : sweep(s);
    if (status == LOCO_OK)
        status = empty_stocks(s, rank);
    if (status == LOCO_OK && cleaned != NULL)
        *cleaned = true;
    return status;
}

/* Of one on another machine that has died, what it wrote last may come later than that is known: it
 * must not come into what the next one has. One that lives has seen to that before it said that it
 * leaves. */
static bool is_over(const struct loco_store *s, int peer)
{
    return !s->sums || loci_peer_alive(s->rt, peer)
           || loci_peer_is_silent(s->rt, peer);
}

int loci_store_vacate(struct loco_store *s, int rank, int peer, bool *cleaned)
{
    int status = is_over(s, peer) ? clean_up(s, rank, peer, cleaned) : LOCO_ERR_AGAIN;

    if (status == LOCO_OK && s->ep->group.peer[rank] != LOCI_VACANT)
        loci_hosted_set_member(s->ep, rank, LOCI_VACANT);
    if (status == LOCO_OK)
        s->swept[rank] = false;
    return status;
}

/* ---- withdrawing, at a user ---- */

static void step_out(struct loco_tx *tx)
{
    /* Release: what the call has done, then that it is over. Pairs with is_outside(). */
    if (--tx->depth == 0)
        atomic_store_explicit(&tx->inside, 0, memory_order_release);
}

/* Whether the store's user has to ask if it is there still. */
static bool is_overdue(struct loco_store *s)
{
    int64_t until = atomic_load_explicit(&s->until, memory_order_relaxed);

    return until != 0 && loci_now(s->rt) >= until;
}

int loci_tx_begin_call(struct loco_tx *tx)
{
    struct loco_store *s = tx->s;
    int status = LOCO_OK;

    /* Not within: who is asked waits for those who are. */
    if (tx->depth == 0 && s->ask != NULL && is_overdue(s))
        status = s->ask(s->ask_ctx);
    if (status != LOCO_OK)
        return status;
    if (tx->depth++ == 0)
        loci_store_frequent(s->rt, &tx->inside, 1);
    if (atomic_load_explicit(&s->ended, memory_order_acquire) == 0)
        return LOCO_OK;
    step_out(tx);
    return LOCO_ERR_STATE;
}

void loci_tx_end_call(struct loco_tx *tx)
{
    step_out(tx);
}

void loci_store_may_end(struct loco_store *s, int (*ask)(void *ctx), void *ctx)
{
    s->ends = true;
    s->ask = ask;
    s->ask_ctx = ctx;
}

/* Handles are opened and closed under the lock, and none is opened once it has ended. */
static int is_outside(void *arg)
{
    struct loco_store *s = arg;
    bool inside = false;

    pthread_mutex_lock(&s->lock);
    for (struct loco_tx *tx = s->open; tx != NULL && !inside; tx = tx->next)
        inside = atomic_load_explicit(&tx->inside, memory_order_acquire) != 0;
    pthread_mutex_unlock(&s->lock);
    return !inside;
}

int loci_store_withdraw(struct loco_store *s)
{
    const struct loci_reason why = {
        .what = "calls on a store that was removed", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_SYNC,
    };
    int status;

    (void)atomic_exchange_explicit(&s->ended, 1, memory_order_seq_cst);
    if (!loci_fence_heavy(s->rt))
        atomic_thread_fence(memory_order_seq_cst);
    status = loci_wait(s->rt, &why, is_outside, s);
    for (int host = 0; host < s->nhosts && status == LOCO_OK; host++)
        status = loci_place_peer(s->rt, s->ep->group.peer[s->host[host]]);
    return status;
}
