/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests: how an operation is given to the device.
 *
 *   write up to the inline size   with its data; done when posted, alone in a short way of its own
 *   write up to a block           copied to a buffer; done when posted
 *   read up to a block, atomic    into a buffer that is copied out on completion
 *   place                         a read of nothing, or of 8 bytes that nobody looks at; or the
 *                                 last request's completion, below
 *   longer write or read          long.c
 *
 * The requests of a chain of operations are made one after the other, and given to the device as
 * one list, BATCH at most: that is one doorbell, or system call.
 *
 * Room. Making a request takes all that it needs: its place in the ring, an entry of the completion
 * queue, its buffer. So for whether there is room for the next, and whether it has to ask for its
 * completion, those before it count as if they were posted, and the device never gets more than
 * what it was made for; a chain that finds no more room ends there, and what is made of it is sent.
 * Nothing of these numbers is seen by anybody else meanwhile: they are under the thread's lock, and
 * completions are taken only by polls, which are under it, too.
 *
 * Places by acknowledgements (LOCO_RDMA_PLACE=ack). Each write asks for its completion, which
 * places it, so that a fence has nothing to post. Where one does all the same, as on a lane that
 * was mended, it waits for the youngest request: no message of its own. The standard does not say
 * that what is acknowledged is placed, so it is for those who know that of their devices; soft-RoCE
 * stores before it acknowledges.
 *
 * Soft-RoCE (Linux 6.1, rxe_comp.c and rxe_resp.c) acknowledges a write that arrives again with
 * the number of the last request that it has done, and takes such an acknowledgement for the answer
 * of a read or an atomic with that number: that is complete then, without its data. So there a lane
 * has two queue pairs: what brings data back, reads and atomics, never shares one with a write.
 * With the writes go places, and additions whose old value nobody looks at: that they were done is
 * all that their callers want to know. What goes by one of them is begun when nothing is in flight
 * on the other, so that the lane keeps its order. All the same a buffer begins with a word that
 * tells that no answer came: should it happen in another way, it is an error, and not wrong data.
 *
 * Order. A list is posted in its order. What does not go by it, long operations and those that the
 * owner's CPU does, is begun when all before it is sent, and while something of a long one is left
 * nothing else is made.
 *
 * Errors. A device takes a list up to a request that it names. The made requests from that one on
 * give back what they took, the youngest first, so that all is as if they had not been made; those
 * before it are posted, with their completions asked for as they would have been alone: nobody who
 * waits for one of them depends on another that was not taken. Which operations were taken goes by
 * the number of the first that was not. */

#include "config.h"

#include <errno.h>
#include <string.h>

#include "../shm/shm.h"
#include "verbs.h"

/* ---- room ---- */

bool loci_verbs_has_room(const struct verbs_lane *l, size_t bytes)
{
    return l->depth != l->posted - l->retired && l->thread->entries != l->thread->outstanding
           && loci_credit_may(l->lane->thread, bytes);
}

/* From half of any room on, so that what was posted without holds one half at most. */
static bool should_ask(const struct verbs_lane *l)
{
    const struct verbs_thread *t = l->thread;

    return l->posted + 1 - l->asked >= l->depth / 2 || t->outstanding >= t->entries / 2
           || t->free_blocks < VERBS_BLOCKS / 2 || t->free_words < VERBS_WORDS / 2
           || loci_credit_asks(l->lane->thread);
}

/* ---- made requests ---- */

#define BATCH LOCI_CHAIN

/* Made, and not given to the device yet: the lane's youngest. */
struct batch {
    struct verbs_lane *l;
    int n;
    uint32_t asked;                 /* the lane's, before the first was made */
    int op[BATCH];                  /* of which operation of the chain each is */
    struct ibv_send_wr wr[BATCH];
    struct ibv_sge sge[BATCH];
};

static void reserve(struct verbs_lane *l, struct ibv_send_wr *wr, const struct verbs_request *what,
                    bool ask)
{
    struct verbs_request *r = &l->ring[l->posted % l->depth];

    *r = *what;
    r->lane = l;
    wr->wr_id = (uintptr_t)r;
    if (ask || what->slot != NULL || should_ask(l))
        wr->send_flags |= IBV_SEND_SIGNALED;
    l->posted++;
    l->thread->outstanding++;
    r->asked = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    if (r->asked)
        l->asked = l->posted;
    loci_credit_take(l->lane->thread, r->len, r->asked);
}

/* The youngest `refused` of the n requests of this list were not taken. */
static void take_back(struct verbs_lane *l, const struct ibv_send_wr *list, int n, int refused,
                      uint32_t asked)
{
    uint32_t first = l->posted - (uint32_t)n;

    for (int i = 0; i < refused; i++) {
        struct verbs_request *r = &l->ring[--l->posted % l->depth];

        l->thread->outstanding--;
        loci_credit_give(l->lane->thread, r->len, r->asked, true);
        if (r->buffer != NULL)
            loci_verbs_buffer_give(l->thread, r->buffer);
    }
    l->asked = asked;
    for (uint32_t at = first; at != l->posted; at++, list = list->next)
        if (list->send_flags & IBV_SEND_SIGNALED)
            l->asked = at + 1;
}

static int why_refused(struct verbs_lane *l, int error, bool named)
{
    if (error == ENOMEM && named)
        return LOCO_ERR_AGAIN;
    errno = error;
    LOCI_LOG(l->lane->thread->rt, LOCO_LOG_ERROR, "%s takes no request: %m",
             l->thread->fabric->port.device);
    /* It may have the list, and was not told to begin: it must not later. */
    if (!named) {
        l->lost = true;
        loci_verbs_flush(l, LOCO_ERR_SYSTEM);
    }
    return LOCO_ERR_SYSTEM;
}

/* Where in a list a request is; -1: it is not. */
static int place_of(const struct ibv_send_wr *bad, const struct ibv_send_wr *list)
{
    for (int at = 0; list != NULL; at++, list = list->next)
        if (list == bad)
            return at;
    return -1;
}

/* Give it a list of n that are made. *taken: how many it has; of the rest nothing is left. */
static int give_list(struct verbs_lane *l, struct ibv_send_wr *list, int n, uint32_t asked,
                     int *taken)
{
    struct ibv_send_wr *bad = NULL;
    int error = loci_verbs_domain_post(l->thread->domain, l->qp, list, &bad), named, status;

    *taken = n;
    if (error == 0)
        return LOCO_OK;
    named = place_of(bad, list);
    *taken = named < 0 ? 0 : named;
    status = why_refused(l, error, named >= 0);
    take_back(l, list, n, n - *taken, asked);
    return status;
}

int loci_verbs_give(struct verbs_lane *l, struct ibv_send_wr *wr,
                    const struct verbs_request *what, bool ask)
{
    uint32_t asked = l->asked;
    int taken;

    reserve(l, wr, what, ask);
    return give_list(l, wr, 1, asked, &taken);
}

/* All of a batch, which is empty then; if the device does not take all, op[0] is the operation of
 * the first that it refused. */
static int batch_send(struct batch *b)
{
    int n = b->n, taken, status;

    b->n = 0;
    if (n == 0)
        return LOCO_OK;
    status = give_list(b->l, b->wr, n, b->asked, &taken);
    if (status != LOCO_OK)
        b->op[0] = b->op[taken];
    return status;
}

/* The next of the batch, with what is common to all; the caller fills in the data. */
static struct ibv_send_wr *begin(struct batch *b, const struct loci_op *op)
{
    struct ibv_send_wr *wr = &b->wr[b->n];
    struct ibv_sge *sge = &b->sge[b->n];

    *wr = (struct ibv_send_wr){ .sg_list = sge };
    *sge = (struct ibv_sge){ .length = 0 };
    if (op->kind == LOCI_PLACE || op->len == 0)
        return wr;
    wr->num_sge = 1;
    wr->wr.rdma.remote_addr = op->mem->key.base + op->offset;
    wr->wr.rdma.rkey = (uint32_t)op->mem->key.device;
    return wr;
}

static void end(struct batch *b, int op, const struct verbs_request *what, bool ask)
{
    if (b->n == 0)
        b->asked = b->l->asked;
    else
        b->wr[b->n - 1].next = &b->wr[b->n];
    b->op[b->n] = op;
    reserve(b->l, &b->wr[b->n++], what, ask);
}

/* ---- kinds ---- */

/* Up to a block, done when posted. */
static int make_write(struct batch *b, const struct loci_op *op, int number)
{
    struct verbs_request what = { .kind = LOCI_WRITE, .len = op->len, .places = op->places };
    struct verbs_lane *l = b->l;
    struct ibv_send_wr *wr = begin(b, op);
    struct ibv_sge *sge = wr->sg_list;

    wr->opcode = IBV_WR_RDMA_WRITE;
    sge->length = (uint32_t)op->len;
    if (op->len <= l->max_inline) {
        sge->addr = (uintptr_t)op->local;
        wr->send_flags = IBV_SEND_INLINE;
    } else {
        what.buffer = loci_verbs_buffer_take(l->thread, op->len);
        if (what.buffer == NULL)
            return LOCO_ERR_AGAIN;
        memcpy(what.buffer->base, op->local, op->len);
        sge->addr = (uintptr_t)what.buffer->base;
        sge->lkey = l->thread->mr->lkey;
    }
    end(b, number, &what, what.places != 0 || l->twin != NULL);
    return LOCO_OK;
}

/* Into a buffer, whose contents go where they belong on completion. */
static int make_fetch(struct batch *b, const struct loci_op *op, int number)
{
    struct verbs_request what = {
        .slot = op->slot, .kind = op->kind, .len = op->len, .to = op->local,
    };
    struct verbs_lane *l = b->l;
    struct ibv_send_wr *wr = begin(b, op);
    struct ibv_sge *sge = wr->sg_list;

    wr->opcode = IBV_WR_RDMA_READ;
    if (op->kind != LOCI_READ) {
        wr->opcode = op->kind == LOCI_FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                                : IBV_WR_ATOMIC_CMP_AND_SWP;
        wr->wr.atomic.remote_addr = op->mem->key.base + op->offset;
        wr->wr.atomic.rkey = (uint32_t)op->mem->key.device;
        wr->wr.atomic.compare_add = op->kind == LOCI_FETCH_ADD ? op->operand : op->compare;
        wr->wr.atomic.swap = op->operand;
        what.to = op->unwanted ? NULL : op->result;
        what.len = sizeof(uint64_t);
    }
    what.buffer = loci_verbs_buffer_take(l->thread, what.len);
    if (what.buffer == NULL)
        return LOCO_ERR_AGAIN;
    if (l->twin != NULL)
        memcpy(what.buffer->base, &l->thread->fabric->no_answer, sizeof(uint64_t));
    sge->addr = (uintptr_t)what.buffer->base;
    sge->length = (uint32_t)what.len;
    sge->lkey = l->thread->mr->lkey;
    end(b, number, &what, true);
    return LOCO_IN_PROGRESS;
}

static int make_place(struct batch *b, const struct loci_op *op, int number)
{
    const struct verbs_request what = { .slot = op->slot, .kind = LOCI_PLACE };
    struct ibv_send_wr *wr = begin(b, op);

    wr->opcode = IBV_WR_RDMA_READ;
    if (b->l->thread->fabric->rt->tunables.rdma_place == LOCI_RDMA_PLACE_READ8) {
        wr->num_sge = 1;
        wr->sg_list->addr = (uintptr_t)b->l->thread->placed;
        wr->sg_list->length = sizeof(uint64_t);
        wr->sg_list->lkey = b->l->thread->mr->lkey;
    } else {
        wr->sg_list = NULL;
    }
    wr->wr.rdma.remote_addr = b->l->anchor;
    wr->wr.rdma.rkey = b->l->anchor_key;
    end(b, number, &what, true);
    return LOCO_IN_PROGRESS;
}

/* The youngest request, made or posted, if its completion is asked for and tells nobody yet. */
static struct verbs_request *youngest_to_ask(struct verbs_lane *l)
{
    struct verbs_request *r = &l->ring[(l->posted - 1) % l->depth];

    return l->asked == l->posted && r->slot == NULL ? r : NULL;
}

static int make_place_by_acks(struct batch *b, const struct loci_op *op, int number)
{
    struct verbs_request *youngest;

    if (b->l->posted == b->l->retired)
        return LOCO_OK;
    youngest = youngest_to_ask(b->l);
    if (youngest == NULL)
        return loci_verbs_has_room(b->l, 0) ? make_place(b, op, number) : LOCO_ERR_AGAIN;
    youngest->slot = op->slot;
    return LOCO_IN_PROGRESS;
}

static bool may_write(const struct loci_memkey *key)
{
    return (key->device & (VERBS_REGISTERED | VERBS_READ_ONLY)) == VERBS_REGISTERED;
}

/* ---- one write ---- */

/* Whatever is not as usual, and all errors but the device's, are the general way's. */
int loci_verbs_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op)
{
    struct verbs_lane *l = lane->fabric_data;   /* there, where it has not failed */
    const struct loci_memkey *key = &op->mem->key;
    const struct verbs_request what = { .kind = LOCI_WRITE, .len = op->len, .places = op->places };
    struct ibv_sge sge = { .addr = (uintptr_t)op->local, .length = (uint32_t)op->len };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
        .wr.rdma = { .remote_addr = key->base + op->offset, .rkey = (uint32_t)key->device },
    };

    (void)fabric;
    if (op->len == 0 || op->len > l->max_inline || !may_write(key) || l->broken
        || l->rest.len != 0 || !loci_verbs_has_room(l, op->len)
        || (l->twin != NULL && !loci_verbs_is_idle(l->twin)))
        return LOCO_ERR_AGAIN;
    return loci_verbs_give(l, &wr, &what, op->places != 0 || l->twin != NULL);
}

/* ---- chains ---- */

/* A word of the cpu domain whose page could not be mapped: its owner's CPU does it. */
static bool is_owners(const struct loci_op *op)
{
    return (op->kind == LOCI_FETCH_ADD || op->kind == LOCI_COMPARE_SWAP)
           && op->mem->domain == LOCI_DOMAIN_CPU;
}

/* Whether it brings data back. */
static bool wants_answer(const struct loci_op *op)
{
    if (op->kind == LOCI_READ)
        return op->len > 0;
    return op->kind != LOCI_WRITE && op->kind != LOCI_PLACE && !op->unwanted;
}

/* The queue pair of a lane that an operation goes by. */
static struct verbs_lane *way_of(struct verbs_lane *l, const struct loci_op *op)
{
    return l->twin != NULL && wants_answer(op) ? l->twin : l;
}

static bool is_long(const struct verbs_lane *l, const struct loci_op *op)
{
    return op->len > VERBS_BLOCK && (op->kind == LOCI_READ
                                     || (op->kind == LOCI_WRITE && op->len > l->max_inline));
}

/* Known here, so that the device need not be refused it, which would end the connection. */
static int is_read_only(const struct verbs_lane *l, const struct loci_op *op)
{
    const struct loci_peer *peer = l->lane->peer;

    LOCI_LOG(l->thread->fabric->rt, LOCO_LOG_ERROR, "nothing of %zu bytes is written to process "
             "%016llx (pid %d), which may only read that memory itself", op->len,
             (unsigned long long)peer->address.identity, (int)peer->address.pid);
    return LOCO_ERR_RANGE;
}

/* One operation: into the batch, which has room for it, or past it, if the batch is empty. Whether
 * it is done or in flight, or why not. */
static int add(struct batch *b, struct loci_op *op, int number)
{
    struct verbs_lane *l = b->l;
    int posted;

    if (l->broken)
        return LOCO_ERR_PEER_DEAD;
    if (!loci_verbs_long_posted(l) || (l->twin != NULL && !loci_verbs_is_idle(l->twin)))
        return LOCO_ERR_AGAIN;      /* in order */
    if (op->kind == LOCI_PLACE && l->lane->acks_place)
        return make_place_by_acks(b, op, number);
    if (op->kind == LOCI_PLACE || (op->kind == LOCI_READ && op->len == 0))
        return loci_verbs_has_room(l, 0) ? make_place(b, op, number) : LOCO_ERR_AGAIN;
    if (op->kind == LOCI_WRITE && op->len == 0) {
        op->places = 0;
        return LOCO_OK;
    }
    if (is_owners(op)) {
        op->slot->places = 0;       /* it does not go by the lane */
        return loci_shm_post((struct loci_fabric *)l->thread->fabric->shm, l->lane, op, 1,
                             &posted);
    }
    if ((op->mem->key.device & VERBS_REGISTERED) == 0)
        return LOCO_ERR_RANGE;      /* its owner could not register it */
    if (op->kind != LOCI_READ && !may_write(&op->mem->key))
        return is_read_only(l, op);
    if (!loci_verbs_has_room(l, is_long(l, op) ? 0 : op->len))
        return LOCO_ERR_AGAIN;
    if (is_long(l, op))
        return loci_verbs_long(l, op);
    if (op->kind == LOCI_WRITE)
        return make_write(b, op, number);
    if (op->kind != LOCI_READ && (op->mem->key.base + op->offset) % 8 != 0)
        return LOCO_ERR_ARG;
    return make_fetch(b, op, number);
}

/* An error of the device's is of an operation before the one that the chain has come to. */
int loci_verbs_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                    int *posted)
{
    int status = LOCO_OK, sent = LOCO_OK, i;
    struct batch b;

    (void)fabric;
    *posted = 0;
    if (lane->fabric_data == NULL)
        return LOCO_ERR_PEER_DEAD;      /* given back */
    b.n = 0;
    for (i = 0; i < n; i++) {
        struct verbs_lane *way = way_of(lane->fabric_data, &ops[i]);

        if (b.n == BATCH
            || (b.n > 0 && (way != b.l || is_owners(&ops[i]) || is_long(way, &ops[i]))))
            sent = batch_send(&b);
        if (sent != LOCO_OK)
            break;
        b.l = way;
        status = add(&b, &ops[i], i);
        if (status < 0)
            break;
        ops[i].in_flight = status == LOCO_IN_PROGRESS;
    }
    if (sent == LOCO_OK)
        sent = batch_send(&b);
    *posted = sent == LOCO_OK ? i : b.op[0];
    return sent == LOCO_OK ? status : sent;
}
