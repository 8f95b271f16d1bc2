/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests: how an operation is given to the device.
 *
 *   write up to the inline size   with its data; done when posted
 *   write up to a block           copied to a buffer; done when posted
 *   read up to a block, atomic    into a buffer that is copied out on completion
 *   place                         a read of nothing
 *   longer write or read          long.c */

#include "config.h"

#include <errno.h>
#include <string.h>

#include "../shm/shm.h"
#include "verbs.h"

/* ---- room ---- */

bool loci_verbs_has_room(const struct verbs_lane *l)
{
    return l->depth != l->posted - l->retired && l->thread->entries != l->thread->outstanding;
}

/* From half of any room on, so that what was posted without holds one half at most. */
static bool should_ask(const struct verbs_lane *l)
{
    const struct verbs_thread *t = l->thread;

    return l->posted + 1 - l->asked >= l->depth / 2 || t->outstanding >= t->entries / 2
           || t->free_blocks < VERBS_BLOCKS / 2 || t->free_words < VERBS_WORDS / 2;
}

/* ---- one request ---- */

/* What is common to all that follows; the caller fills in the data. */
static void begin(const struct loci_op *op, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    memset(wr, 0, sizeof *wr);
    memset(sge, 0, sizeof *sge);
    wr->sg_list = sge;
    if (op->mem == NULL)
        return;
    wr->wr.rdma.remote_addr = op->mem->key.base + op->offset;
    wr->wr.rdma.rkey = (uint32_t)op->mem->key.device;
}

int loci_verbs_give(struct verbs_lane *l, struct ibv_send_wr *wr,
                    const struct verbs_request *what, bool ask)
{
    struct verbs_request *r = &l->ring[l->posted % l->depth];
    struct ibv_send_wr *bad;
    int error;

    *r = *what;
    r->lane = l;
    wr->wr_id = (uintptr_t)r;
    if (ask || what->slot != NULL || should_ask(l))
        wr->send_flags |= IBV_SEND_SIGNALED;
    error = ibv_post_send(l->qp, wr, &bad);
    if (error == ENOMEM)
        return LOCO_ERR_AGAIN;
    if (error != 0) {
        errno = error;
        LOCI_LOG(l->lane->thread->rt, LOCO_LOG_ERROR, "%s takes no request: %m",
                 l->thread->fabric->port.device);
        return LOCO_ERR_SYSTEM;
    }
    l->posted++;
    l->thread->outstanding++;
    if (wr->send_flags & IBV_SEND_SIGNALED)
        l->asked = l->posted;
    return LOCO_OK;
}

/* ---- kinds ---- */

/* Up to a block, done when posted. */
static int write_copied(struct verbs_lane *l, const struct loci_op *op)
{
    struct verbs_request what = { .kind = LOCI_WRITE, .len = op->len };
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int status;

    begin(op, &wr, &sge);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.num_sge = 1;
    sge.length = (uint32_t)op->len;
    if (op->len <= l->max_inline) {
        sge.addr = (uintptr_t)op->local;
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        what.buffer = loci_verbs_buffer_take(l->thread, op->len);
        if (what.buffer == NULL)
            return LOCO_ERR_AGAIN;
        memcpy(what.buffer->base, op->local, op->len);
        sge.addr = (uintptr_t)what.buffer->base;
        sge.lkey = l->thread->mr->lkey;
    }
    status = loci_verbs_give(l, &wr, &what, false);
    if (status != LOCO_OK && what.buffer != NULL)
        loci_verbs_buffer_give(l->thread, what.buffer);
    return status;
}

/* Into a buffer, whose contents go where they belong on completion. */
static int fetch_copied(struct verbs_lane *l, const struct loci_op *op)
{
    struct verbs_request what = {
        .slot = op->slot, .kind = op->kind, .len = op->len, .to = op->local,
    };
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int status;

    begin(op, &wr, &sge);
    wr.opcode = IBV_WR_RDMA_READ;
    if (op->kind != LOCI_READ) {
        wr.opcode = op->kind == LOCI_FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                               : IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.remote_addr = op->mem->key.base + op->offset;
        wr.wr.atomic.rkey = (uint32_t)op->mem->key.device;
        wr.wr.atomic.compare_add = op->kind == LOCI_FETCH_ADD ? op->operand : op->compare;
        wr.wr.atomic.swap = op->operand;
        what.to = op->result;
        what.len = sizeof(uint64_t);
    }
    what.buffer = loci_verbs_buffer_take(l->thread, what.len);
    if (what.buffer == NULL)
        return LOCO_ERR_AGAIN;
    wr.num_sge = 1;
    sge.addr = (uintptr_t)what.buffer->base;
    sge.length = (uint32_t)what.len;
    sge.lkey = l->thread->mr->lkey;
    status = loci_verbs_give(l, &wr, &what, true);
    if (status != LOCO_OK)
        loci_verbs_buffer_give(l->thread, what.buffer);
    return status == LOCO_OK ? LOCO_IN_PROGRESS : status;
}

static int place(struct verbs_lane *l, const struct loci_op *op)
{
    const struct verbs_request what = { .slot = op->slot, .kind = LOCI_PLACE };
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int status;

    memset(&sge, 0, sizeof sge);
    memset(&wr, 0, sizeof wr);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = l->anchor;
    wr.wr.rdma.rkey = l->anchor_key;
    status = loci_verbs_give(l, &wr, &what, true);
    return status == LOCO_OK ? LOCO_IN_PROGRESS : status;
}

/* ---- chains ---- */

/* A word of the cpu domain whose page could not be mapped: its owner's CPU does it. */
static bool is_owners(const struct loci_op *op)
{
    return (op->kind == LOCI_FETCH_ADD || op->kind == LOCI_COMPARE_SWAP)
           && op->mem->domain == LOCI_DOMAIN_CPU;
}

static int post_one(struct verbs_lane *l, struct loci_op *op)
{
    int posted;

    if (!loci_verbs_long_posted(l))
        return LOCO_ERR_AGAIN;      /* in order */
    if (l->broken)
        return LOCO_ERR_PEER_DEAD;
    if (op->kind == LOCI_PLACE || (op->kind == LOCI_READ && op->len == 0))
        return loci_verbs_has_room(l) ? place(l, op) : LOCO_ERR_AGAIN;
    if (op->kind == LOCI_WRITE && op->len == 0)
        return LOCO_OK;
    if (is_owners(op))
        return loci_shm_post((struct loci_fabric *)l->thread->fabric->shm, l->lane, op, 1,
                             &posted);
    if ((op->mem->key.device & VERBS_REGISTERED) == 0)
        return LOCO_ERR_RANGE;      /* its owner could not register it */
    if (!loci_verbs_has_room(l))
        return LOCO_ERR_AGAIN;
    switch (op->kind) {
    case LOCI_FETCH_ADD:
    case LOCI_COMPARE_SWAP:
        return (op->mem->key.base + op->offset) % 8 == 0 ? fetch_copied(l, op) : LOCO_ERR_ARG;
    case LOCI_READ: return op->len <= VERBS_BLOCK ? fetch_copied(l, op) : loci_verbs_long(l, op);
    default:
        return op->len <= VERBS_BLOCK || op->len <= l->max_inline ? write_copied(l, op)
                                                                  : loci_verbs_long(l, op);
    }
}

int loci_verbs_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                    int *posted)
{
    struct verbs_lane *l = lane->fabric_data;
    int status = LOCO_OK;

    (void)fabric;
    for (*posted = 0; *posted < n; (*posted)++) {
        status = post_one(l, &ops[*posted]);
        if (status < 0)
            break;
    }
    return status;
}
