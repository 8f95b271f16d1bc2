/* SPDX-License-Identifier: BSD-3-Clause */

/* Long writes and reads: to and from the user's own memory, registered (cache.c) until the last
 * piece is done, at least. What cannot be (there is no more memory that may be locked; a file that
 * is mapped to be read) goes block by block through the thread's buffers, as short ones do. A piece
 * is within the device's longest message, and
 *
 *   of a write    within LOCO_RDMA_WRITE_PIECE: a device tries a message again a few times, however
 *                 much of it has arrived, so that of long ones a network that loses packets lets
 *                 none through
 *   of a read     so short that the bytes that were asked for and have not come are within
 *                 LOCO_RDMA_READ_AHEAD: the answer is one burst, which the queues of a network
 *                 without flow control, and of soft-RoCE, do not take at any length
 *
 * What does not go at once is left in the lane, and goes when completions have made room; until
 * then nothing else is posted there, so that order is kept. */

#include "config.h"

#include <errno.h>
#include <string.h>

#include "memory/protection.h"
#include "verbs.h"

#define PIECE_MAX ((size_t)1 << 30)
#define READS_AHEAD 4           /* pieces of a read in flight */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t piece_of(const struct verbs_fabric *f, const struct verbs_long *m)
{
    size_t most = least(f->port.max_message, m->user != NULL ? PIECE_MAX : VERBS_BLOCK);

    return least(most, m->kind == LOCI_WRITE
                       ? (size_t)f->rt->tunables.rdma_write_piece
                       : (size_t)f->rt->tunables.rdma_read_ahead / READS_AHEAD);
}

/* A buffer for the piece at `m->at`, with its data, if it is one of a write. */
static bool take_buffer(struct verbs_lane *l, size_t len, struct verbs_request *what,
                        struct ibv_sge *sge)
{
    const struct verbs_long *m = &l->rest;

    what->buffer = loci_verbs_buffer_take(l->thread, len);
    if (what->buffer == NULL)
        return false;
    if (m->kind == LOCI_WRITE)
        memcpy(what->buffer->base, m->local + m->at, len);
    else
        what->to = m->local + m->at;
    if (l->twin != NULL && m->kind == LOCI_READ && len >= sizeof l->thread->fabric->no_answer)
        memcpy(what->buffer->base, &l->thread->fabric->no_answer, sizeof(uint64_t));
    sge->addr = (uintptr_t)what->buffer->base;
    sge->lkey = l->thread->mr->lkey;
    return true;
}

/* The next piece; the last tells the slot and lets the registration go. */
static int give_piece(struct verbs_lane *l, size_t len)
{
    const struct verbs_long *m = &l->rest;
    bool last = m->at + len == m->len;
    struct verbs_request what = {
        .slot = last ? m->slot : NULL, .kind = m->kind, .len = len,
        .user = last ? m->user : NULL, .answer = m->kind == LOCI_READ ? len : 0,
        .places = last ? m->places : 0,
    };
    struct ibv_sge sge = {
        .addr = (uintptr_t)m->local + m->at, .length = (uint32_t)len,
        .lkey = m->user != NULL ? m->user->mr->lkey : 0,
    };
    struct ibv_send_wr wr;
    int status;

    if (m->user == NULL && !take_buffer(l, len, &what, &sge))
        return LOCO_ERR_AGAIN;
    memset(&wr, 0, sizeof wr);
    wr.opcode = m->kind == LOCI_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = m->remote + m->at;
    wr.wr.rdma.rkey = m->rkey;
    status = loci_verbs_give(l, &wr, &what, last || m->kind == LOCI_READ);
    if (status == LOCO_OK)
        l->unanswered += what.answer;
    return status;
}

/* As many pieces as there is room for; LOCO_ERR_AGAIN: there are more. */
static int push(struct verbs_lane *l)
{
    const struct verbs_fabric *f = l->thread->fabric;
    size_t ahead = (size_t)f->rt->tunables.rdma_read_ahead;

    while (l->rest.at < l->rest.len) {
        size_t len = least(piece_of(f, &l->rest), l->rest.len - l->rest.at);
        int status = LOCO_ERR_AGAIN;

        if (loci_verbs_has_room(l, len)
            && (l->rest.kind == LOCI_WRITE || l->unanswered == 0 || l->unanswered + len <= ahead))
            status = give_piece(l, len);
        if (status != LOCO_OK)
            return status;
        l->rest.at += len;
    }
    l->rest.len = 0;
    return LOCO_OK;
}

/* Its memory is not registered: copied instead, unless that is no way either. */
static int copy_instead(struct verbs_fabric *f, const struct loci_op *op)
{
    int error = errno;
    struct loci_protection p;

    if (op->kind == LOCI_READ && loci_protection_of(op->local, op->len, &p) && !p.all_write) {
        char why[128];

        loci_protection_text(&p, why, sizeof why);
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "nothing is read into a buffer of %zu bytes: %s", op->len,
                 why);
        return LOCO_ERR_ARG;
    }
    errno = error;
    if (!atomic_exchange_explicit(&f->copies, true, memory_order_relaxed))
        LOCI_LOG(f->rt, LOCO_LOG_WARN, "a buffer of %zu bytes cannot be registered with %s: %m%s; "
                 "it is copied, and so are others of which nothing is said", op->len,
                 f->port.device, loci_verbs_remedy(error));
    return LOCO_OK;
}

int loci_verbs_long(struct verbs_lane *l, const struct loci_op *op)
{
    struct verbs_fabric *f = l->thread->fabric;
    int status;

    l->rest = (struct verbs_long){
        .kind = op->kind, .local = op->local, .remote = op->mem->key.base + op->offset,
        .rkey = (uint32_t)op->mem->key.device, .len = op->len, .slot = op->slot,
        .places = op->kind == LOCI_WRITE ? op->places : 0,
        .user = loci_verbs_register(f, op->local, op->len, IBV_ACCESS_LOCAL_WRITE,
                                    op->kind == LOCI_READ ? IBV_ACCESS_LOCAL_WRITE : 0),
    };
    status = l->rest.user != NULL ? LOCO_OK : copy_instead(f, op);
    if (status != LOCO_OK) {
        l->rest.len = 0;
        return status;
    }
    status = push(l);
    /* A list that the device may or may not have taken breaks the lane, which has told the slot. */
    if (status == LOCO_OK || l->rest.at > 0 || l->broken) {
        if (status != LOCO_OK && status != LOCO_ERR_AGAIN)
            loci_verbs_flush(l, status);
        return LOCO_IN_PROGRESS;
    }
    if (l->rest.user != NULL)       /* nothing of it was taken */
        loci_verbs_unregister(f, l->rest.user);
    l->rest.len = 0;
    return status;
}

bool loci_verbs_long_posted(struct verbs_lane *l)
{
    int status = l->rest.len == 0 ? LOCO_OK : push(l);

    if (status != LOCO_OK && status != LOCO_ERR_AGAIN)
        loci_verbs_flush(l, status);
    return status != LOCO_ERR_AGAIN;
}

/* Pieces of a read that is copied: nobody copies out what still comes. */
static void forget_pieces(struct verbs_lane *l)
{
    const unsigned char *local = l->rest.local, *end = local + l->rest.at;

    for (uint32_t at = l->retired; at != l->posted; at++) {
        struct verbs_request *r = &l->ring[at % l->depth];
        unsigned char *to = r->to;

        if (r->kind == LOCI_READ && r->slot == NULL && to >= local && to < end)
            r->to = NULL;
    }
}

/* Before anybody is told, no piece in flight may touch memory any more that is the user's again:
 * the queue pair is in the error state, and the registration goes, unless something else needs
 * it. */
void loci_verbs_long_fail(struct verbs_lane *l, int status)
{
    if (l->rest.len == 0)
        return;
    l->lost = l->lost || l->rest.kind == LOCI_WRITE;
    l->rest.len = 0;
    if (l->rest.user != NULL) {
        atomic_store(&l->rest.user->stale, true);
        loci_verbs_unregister(l->thread->fabric, l->rest.user);
    } else if (l->rest.kind == LOCI_READ) {
        forget_pieces(l);
    }
    loci_slot_done(l->rest.slot, status);
}
