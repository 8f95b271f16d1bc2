/* SPDX-License-Identifier: BSD-3-Clause */

/* Lanes: requests, and their completions.
 *
 *   write up to TCP_WORDS_MOST    in its frame; done when posted
 *   write up to COPIED            copied behind its frame; done when posted
 *   longer write                  by reference; done when it is sent
 *   write that merges             copied; done when posted
 *   read, atomic, place           done when answered
 *
 * All lanes of a process to one peer share a connection, so what they post is in one order, which
 * is more than a lane has to promise. Requests of a lane complete in their order: who reads the
 * connection marks them, and the lane's poll, under its thread's lock, tells their slots.
 *
 * A lane to a process of this node is shm's, and done when posted. So is one to this process
 * itself, of which nothing but atomics is ever asked. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "../shm/shm.h"
#include "touch.h"
#include "tcp.h"
#include "wait.h"

#define DEPTH 256                       /* of a lane: operations in flight */
#define COPIED ((size_t)32 << 10)       /* longer writes go from where they lie */

/* ---- lanes ---- */

static struct tcp_peer *far_of(const struct loci_lane *lane)
{
    return lane->peer->device_data;
}

/* Under the connection's lock; -1: all are taken. */
static int take_number(struct tcp_conn *c)
{
    for (int i = 0; i < TCP_LANES; i++)
        if ((c->lanes[i / 64] >> i % 64 & 1) == 0) {
            c->lanes[i / 64] |= UINT64_C(1) << i % 64;
            return i;
        }
    return -1;
}

/* The ways of a lane are its thread's and whoever's is to give it back: under the thread's lock. */
int loci_tcp_lane_open(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct tcp_fabric *f = tcp_of(fabric);
    struct tcp_peer *p = far_of(lane);
    struct tcp_lane *l;
    struct tcp_conn *c;
    int number;

    lane->fabric_data = NULL;
    lane->synchronous = p == NULL;      /* shm's, or our own */
    if (p == NULL)
        return LOCO_OK;
    if (loci_peer_is_noted(f->rt, lane->peer->index))
        return LOCO_ERR_UNSUPPORTED;
    c = loci_tcp_conn(p);
    l = calloc(1, sizeof *l);
    if (l != NULL)
        l->ring = calloc(DEPTH, sizeof *l->ring);
    if (c == NULL || l == NULL || l->ring == NULL) {
        if (l != NULL)
            free(l->ring);
        free(l);
        return LOCO_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&c->lock);
    number = take_number(c);
    pthread_mutex_unlock(&c->lock);
    if (number < 0) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "more than %d threads use network memory of process "
                 "%016llx", TCP_LANES, (unsigned long long)lane->peer->address.identity);
        free(l->ring);
        free(l);
        return LOCO_ERR_NO_MEMORY;
    }
    l->lane = lane;
    l->conn = c;
    l->number = (uint16_t)number;
    lane->fabric_data = l;
    return LOCO_OK;
}

static bool is_done(const struct tcp_request *r)
{
    /* Pairs with the release of who finished it. */
    return atomic_load_explicit(&r->done, memory_order_acquire);
}

/* The owner has refused it, or an earlier request, or the connection has ended. What was written
 * before the first that was refused is done; what was written behind it is lost. */
static void note_failure(struct tcp_lane *l, const struct tcp_request *r)
{
    if (!l->broken)
        l->lost = r->behind || l->writes > r->written;
    l->broken = true;
}

/* Tell who waits for what is done, in order; how many. */
static int retire(struct tcp_lane *l)
{
    int n = 0;

    for (; l->retired != l->posted; n++, l->retired++) {
        struct tcp_request *r = &l->ring[l->retired % DEPTH];

        if (!is_done(r))
            break;
        if (r->status != LOCO_OK)
            note_failure(l, r);
        if (r->kind == LOCI_READ && --l->reads == 0)
            l->holds = false;
        loci_slot_done(r->slot, r->status);
    }
    return n;
}

static bool is_of(const struct tcp_lane *l, const struct tcp_request *r)
{
    return r >= l->ring && r < l->ring + DEPTH;
}

/* Under serving and the connection's lock: answers that come find nobody. What is queued by
 * reference cannot be taken back, since half of it may be sent. */
static bool forget_requests(struct tcp_lane *l)
{
    struct tcp_conn *c = l->conn;
    uint32_t at = atomic_load_explicit(&c->pending_from, memory_order_relaxed);
    uint32_t to = atomic_load_explicit(&c->pending_to, memory_order_relaxed);

    for (; at != to; at++)
        if (is_of(l, c->pending[at % TCP_OWED]))
            c->pending[at % TCP_OWED] = &c->nobodys;
    for (at = c->item_from; at != c->item_to; at++) {
        struct tcp_request *r = c->items[at % TCP_ITEMS].request;

        if (r != NULL && is_of(l, r))
            return false;
    }
    c->lanes[l->number / 64] &= ~(UINT64_C(1) << l->number % 64);
    return true;
}

/* What is in flight fails. */
void loci_tcp_lane_close(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct tcp_fabric *f = tcp_of(fabric);
    struct tcp_lane *l = lane->fabric_data;
    bool forgotten;

    if (l == NULL)
        return;
    retire(l);
    pthread_mutex_lock(&f->serving);
    pthread_mutex_lock(&l->conn->lock);
    forgotten = forget_requests(l);
    pthread_mutex_unlock(&l->conn->lock);
    if (!forgotten)
        loci_tcp_conn_end(l->conn, LOCO_ERR_PEER_DEAD, "a long write was given up");
    pthread_mutex_unlock(&f->serving);
    retire(l);
    for (; l->retired != l->posted; l->retired++)
        loci_slot_done(l->ring[l->retired % DEPTH].slot, LOCO_ERR_PEER_DEAD);
    lane->fabric_data = NULL;
    free(l->ring);
    free(l);
}

/* The connection has ended, so that all that was in flight is done. Who opens a lane meanwhile sees
 * that the peer is gone, and calls this, too: the fence pairs with that in look_for_end(). A lane
 * that goes by a detour has nothing of ours. */
void loci_tcp_lanes_empty(struct tcp_fabric *f, const struct loci_peer *peer)
{
    struct loci_thread *t = NULL;

    pthread_mutex_lock(&f->lanes);
    atomic_thread_fence(memory_order_seq_cst);
    if (!f->closing)
        t = atomic_load_explicit(&f->rt->threads, memory_order_acquire);
    for (; t != NULL; t = t->next) {
        struct loci_lane *lane;

        if (peer->index >= atomic_load_explicit(&t->lane_peers, memory_order_acquire))
            continue;
        lane = atomic_load_explicit(&t->lanes[peer->index], memory_order_acquire);
        if (lane == NULL)
            continue;
        loci_lock_take(&t->lock);
        if (loci_lane_is_on(lane, &f->rt->way))
            loci_tcp_lane_close((struct loci_fabric *)f, lane);
        loci_lock_give(&t->lock);
    }
    pthread_mutex_unlock(&f->lanes);
}

/* ---- requests ---- */

struct chain {
    struct tcp_lane *l;
    struct tcp_conn *c;
    bool asks;                          /* something of it is answered: send */
};

static struct tcp_frame frame_of(const struct tcp_lane *l, enum tcp_op op,
                                 const struct loci_op *what)
{
    struct tcp_frame frame = { .op = (uint8_t)op, .lane = l->number };

    if (what->kind == LOCI_PLACE)
        return frame;
    frame.kind = (uint8_t)what->mem->key.kind;
    frame.len = (uint32_t)what->len;
    frame.extent = what->mem->key.extent;
    frame.at = what->mem->key.base + what->offset;
    return frame;
}

/* The lane's next request; NULL: it has no room. */
static struct tcp_request *next_request(struct chain *ch, const struct loci_op *op, void *to)
{
    struct tcp_lane *l = ch->l;
    struct tcp_request *r = &l->ring[l->posted % DEPTH];

    if (l->posted - l->retired == DEPTH)
        return NULL;
    r->slot = op->slot;
    r->kind = op->kind;
    r->to = to;
    r->len = op->kind == LOCI_READ ? op->len : 0;
    r->got = 0;
    r->written = ch->l->writes;
    r->behind = false;
    r->status = LOCO_OK;
    atomic_store_explicit(&r->done, false, memory_order_relaxed);
    return r;
}

/* One that is answered. */
static int ask(struct chain *ch, const struct loci_op *op, struct tcp_frame frame, void *to)
{
    struct tcp_conn *c = ch->c;
    uint32_t at = atomic_load_explicit(&c->pending_to, memory_order_relaxed);
    struct tcp_request *r = next_request(ch, op, to);

    if (r == NULL || !loci_tcp_has_room(c, sizeof frame)
        || at - atomic_load_explicit(&c->pending_from, memory_order_acquire) == TCP_OWED)
        return LOCO_ERR_AGAIN;
    c->pending[at % TCP_OWED] = r;
    /* Pairs with the acquire of who reads its answer. */
    atomic_store_explicit(&c->pending_to, at + 1, memory_order_release);
    loci_tcp_queue(c, &frame, NULL, 0);
    ch->l->posted++;
    ch->l->reads += op->kind == LOCI_READ;
    ch->asks = true;
    return LOCO_IN_PROGRESS;
}

static int write_long(struct chain *ch, const struct loci_op *op)
{
    const struct tcp_frame frame = frame_of(ch->l, TCP_WRITE, op);
    struct tcp_request *r = next_request(ch, op, NULL);

    if (r == NULL || !loci_tcp_has_room(ch->c, 0))
        return LOCO_ERR_AGAIN;
    loci_tcp_queue_long(ch->c, &frame, op->local, op->len, r);
    ch->l->posted++;
    ch->l->writes++;
    ch->asks = true;                    /* its source is waited for */
    return LOCO_IN_PROGRESS;
}

static int queue_write(struct chain *ch, const struct loci_op *op)
{
    struct tcp_frame frame = frame_of(ch->l, TCP_WRITE, op);

    if (loci_tcp_has_room(ch->c, sizeof frame + TCP_WORDS_MOST + op->len)
        && loci_tcp_extend(ch->c, &frame, op->local, op->len))
        return LOCO_OK;
    if (op->len <= TCP_WORDS_MOST) {
        frame.op = TCP_WORDS;
        memcpy(&frame.a, op->local, op->len);
        if (!loci_tcp_has_room(ch->c, sizeof frame))
            return LOCO_ERR_AGAIN;
        loci_tcp_queue(ch->c, &frame, NULL, 0);
        return LOCO_OK;
    }
    if (!loci_tcp_has_room(ch->c, sizeof frame + op->len))
        return LOCO_ERR_AGAIN;
    loci_tcp_queue(ch->c, &frame, op->local, op->len);
    return LOCO_OK;
}

static int queue_merge(struct chain *ch, const struct loci_op *op)
{
    const bool one = op->len == sizeof(uint64_t);
    struct tcp_frame frame = frame_of(ch->l, one ? TCP_MERGE_WORD : TCP_MERGE, op);

    if (frame.at % 8 != 0)
        return LOCO_ERR_ARG;
    if (!loci_tcp_has_room(ch->c, sizeof frame + op->len))
        return LOCO_ERR_AGAIN;
    frame.a = op->merge;
    if (one)
        memcpy(&frame.b, op->local, sizeof frame.b);
    loci_tcp_queue(ch->c, &frame, op->local, one ? 0 : op->len);
    return LOCO_OK;
}

static int write_copied(struct chain *ch, const struct loci_op *op)
{
    int status = op->merge != 0 ? queue_merge(ch, op) : queue_write(ch, op);

    ch->l->writes += status == LOCO_OK;
    return status;
}

static int ask_atomic(struct chain *ch, const struct loci_op *op)
{
    struct tcp_frame frame = frame_of(ch->l, op->kind == LOCI_FETCH_ADD ? TCP_ADD : TCP_SWAP, op);

    if (frame.at % 8 != 0)
        return LOCO_ERR_ARG;
    if (ch->l->holds)
        return LOCO_ERR_AGAIN;
    frame.len = 8;
    frame.a = op->operand;
    frame.b = op->compare;
    return ask(ch, op, frame, op->unwanted ? NULL : op->result);
}

static int ask_read(struct chain *ch, const struct loci_op *op)
{
    struct tcp_frame frame = frame_of(ch->l, TCP_READ, op);
    int status;

    frame.len = 0;
    frame.a = op->len;
    status = ask(ch, op, frame, op->local);
    if (status == LOCO_IN_PROGRESS && op->len > TCP_SHORT)
        ch->l->holds = true;
    return status;
}

static int add(struct chain *ch, struct loci_op *op)
{
    if (ch->l->broken)
        return LOCO_ERR_AGAIN;          /* to be mended */
    switch (op->kind) {
    case LOCI_WRITE:
        if (op->len == 0)
            return LOCO_OK;
        return op->len <= COPIED ? write_copied(ch, op) : write_long(ch, op);
    case LOCI_READ:
        if (op->len > 0)
            return ask_read(ch, op);
        /* It places writes as any other does. */
        /* fall through */
    case LOCI_PLACE:
        return ask(ch, op, frame_of(ch->l, TCP_PLACE, op), NULL);
    default:
        return ask_atomic(ch, op);
    }
}

/* ---- this process's own words ---- */

static int post_own(struct tcp_fabric *f, const struct loci_op *op)
{
    const struct loci_mem *mem = op->mem;
    struct tcp_range range;
    uint64_t old;
    int status;

    if (op->kind == LOCI_PLACE || op->len == 0)
        return LOCO_OK;
    range = (struct tcp_range){ mem->key.kind, mem->key.extent, mem->key.base + op->offset };
    if (op->kind == LOCI_WRITE)
        return loci_tcp_own_write(f->shm, &range, op->local, op->len);
    if (op->kind == LOCI_READ)
        return loci_tcp_own_read(f->shm, &range, op->local, op->len);
    status = loci_tcp_own_atomic(f->shm, &range, op->kind == LOCI_FETCH_ADD, op->operand,
                                 op->compare, &old);
    if (status == LOCO_OK && !op->unwanted)
        *op->result = old;
    return status;
}

/* ---- chains ---- */

static int post_near(struct tcp_fabric *f, struct loci_lane *lane, struct loci_op *ops, int n,
                     int *posted)
{
    int status = LOCO_OK, i;

    for (i = 0; i < n; i++)
        ops[i].in_flight = false;
    if (lane->peer->index != LOCI_SELF)
        return loci_shm_post((struct loci_fabric *)f->shm, lane, ops, n, posted);
    pthread_mutex_lock(&f->shm->lock);
    for (i = 0; i < n && status == LOCO_OK; i++)
        status = post_own(f, &ops[i]);
    pthread_mutex_unlock(&f->shm->lock);
    *posted = status == LOCO_OK ? n : i - 1;
    return status;
}

/* What is queued is on its way, or will be soon. Under the connection's lock. */
static void send_or_leave(struct chain *ch)
{
    struct tcp_conn *c = ch->c;

    if (!ch->asks && !loci_tcp_is_half_full(c)) {
        loci_tcp_tick_soon(c->fabric);
        return;
    }
    /* If it has failed, who reads the connection is told, too, and ends it. */
    (void)loci_tcp_pump(c);
    if (atomic_load_explicit(&c->unsent, memory_order_relaxed))
        loci_tcp_want_room(c, true);
}

int loci_tcp_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                  int *posted)
{
    struct chain ch = { .l = lane->fabric_data };
    int status = LOCO_OK, i;

    *posted = 0;
    if (far_of(lane) == NULL)
        return post_near(tcp_of(fabric), lane, ops, n, posted);
    if (ch.l == NULL)
        return LOCO_ERR_PEER_DEAD;      /* given back */
    retire(ch.l);
    ch.c = ch.l->conn;
    pthread_mutex_lock(&ch.c->lock);
    if (atomic_load_explicit(&ch.c->state, memory_order_relaxed) == TCP_CONN_ENDED)
        status = ch.c->status;
    for (i = 0; i < n && status >= 0; i++) {
        status = add(&ch, &ops[i]);
        if (status < 0)
            break;
        ops[i].in_flight = status == LOCO_IN_PROGRESS;
    }
    ch.asks = ch.asks || status == LOCO_ERR_AGAIN;
    send_or_leave(&ch);
    pthread_mutex_unlock(&ch.c->lock);
    *posted = i;
    return status;
}

int loci_tcp_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op)
{
    struct tcp_lane *l = lane->fabric_data;
    int posted;

    if (l == NULL || op->len > COPIED)
        return LOCO_ERR_AGAIN;
    return loci_tcp_post(fabric, lane, op, 1, &posted);
}

/* ---- completions ---- */

int loci_tcp_poll(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct tcp_fabric *f = tcp_of(fabric);
    struct tcp_lane *l = lane->fabric_data;
    int n;

    if (l == NULL)
        return 0;
    loci_tcp_send_unsent(l->conn);
    if (l->posted == l->retired)
        return 0;
    n = retire(l);
    if (n > 0)
        return n;
    if (pthread_mutex_trylock(&f->serving) == 0) {
        (void)loci_tcp_receive(l->conn);
        f->polled = l->conn;
        pthread_mutex_unlock(&f->serving);
        loci_tcp_tell_sleepers(f);
    }
    return retire(l);
}

/* ---- mending ---- */

/* Under the thread's lock. */
static int mend(struct tcp_lane *l)
{
    struct tcp_frame reset = { .op = TCP_RESET, .lane = l->number };
    int status = LOCO_OK;

    retire(l);
    if (l->lost
        && atomic_load_explicit(&l->lane->loss, memory_order_relaxed) != LOCI_LOSS_TOLD)
        return LOCO_ERR_STATE;
    if (l->posted != l->retired)
        return LOCO_ERR_AGAIN;
    pthread_mutex_lock(&l->conn->lock);
    if (atomic_load_explicit(&l->conn->state, memory_order_relaxed) == TCP_CONN_ENDED)
        status = LOCO_ERR_PEER_DEAD;
    else if (!loci_tcp_has_room(l->conn, sizeof reset))
        status = LOCO_ERR_AGAIN;
    else
        loci_tcp_queue(l->conn, &reset, NULL, 0);
    pthread_mutex_unlock(&l->conn->lock);
    if (status == LOCO_OK)
        l->broken = l->lost = false;
    return status;
}

int loci_tcp_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane)
{
    int status = LOCO_ERR_PEER_DEAD;        /* given back */

    (void)fabric;
    loci_lock_take(&lane->thread->lock);
    if (lane->fabric_data != NULL)
        status = mend(lane->fabric_data);
    loci_lock_give(&lane->thread->lock);
    return status;
}
