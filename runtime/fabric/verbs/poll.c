/* SPDX-License-Identifier: BSD-3-Clause */

/* Completions and failures.
 *
 * A completion retires its request and all before it on its queue pair. The first that failed says
 * why; what comes after it on that queue pair is flushed by the device, and its slots are told the
 * same. Of an older failure nothing is guessed: requests before the failed one did complete.
 *
 * When the device has given up on a peer, the service thread is told, and tells all waiters. When
 * the peer is known to be gone before that, its lanes' queue pairs are put into the error state,
 * which flushes them at once. */

#include "config.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs.h"
#include "wait.h"

#define BATCH 16
#define GOES_DOWN 200           /* ms */

/* ---- retiring ---- */

static const char *kind_name(enum loci_op_kind kind)
{
    static const char *const names[] = {
        [LOCI_WRITE] = "write", [LOCI_READ] = "read", [LOCI_FETCH_ADD] = "fetch-and-add",
        [LOCI_COMPARE_SWAP] = "compare-and-swap", [LOCI_PLACE] = "fence",
    };

    return names[kind];
}

/* Soft-RoCE may complete without data what shares a queue pair with writes: post.c. */
static bool has_no_answer(const struct verbs_lane *l, const struct verbs_request *r)
{
    const struct verbs_fabric *f = l->thread->fabric;

    return l->twin != NULL && r->buffer != NULL && r->to != NULL
           && r->len >= sizeof f->no_answer
           && memcmp(r->buffer->base, &f->no_answer, sizeof f->no_answer) == 0;
}

static void retire(struct verbs_lane *l, int status)
{
    struct verbs_request *r = &l->ring[l->retired % l->depth];

    if (status == LOCO_OK && has_no_answer(l, r)) {
        LOCI_LOG(l->thread->fabric->rt, LOCO_LOG_ERROR, "%s of %zu bytes through %s is complete "
                 "without its answer, as soft-RoCE's are at times where packets are lost or change "
                 "their order", kind_name(r->kind), r->len, l->thread->fabric->port.device);
        status = LOCO_ERR_SYSTEM;
        loci_verbs_flush(l, status);
    }
    if (r->buffer != NULL) {
        if (status == LOCO_OK && r->to != NULL)
            memcpy(r->to, r->buffer->base, r->len);
        loci_verbs_buffer_give(l->thread, r->buffer);
    }
    if (status != LOCO_OK && r->kind == LOCI_WRITE)
        l->lost = true;
    if (status == LOCO_OK && r->places != 0)
        loci_lane_placed(l->lane, r->places);
    if (r->user != NULL)
        loci_verbs_unregister(l->thread->fabric, r->user);
    l->unanswered -= r->answer;
    l->retired++;
    l->thread->outstanding--;
    loci_credit_give(l->lane->thread, r->len, r->asked, false);
    if (r->slot != NULL)
        loci_slot_done(r->slot, status);
}

void loci_verbs_retire_all(struct verbs_lane *l, int status)
{
    while (l->retired != l->posted)
        retire(l, status);
}

/* ---- failures ---- */

void loci_verbs_break(struct verbs_lane *l, int status)
{
    struct loco_runtime *rt = l->thread->fabric->rt;
    int none = LOCO_OK;

    l->broken = true;
    l->silent_after = loci_now(rt) + loci_grace(rt);
    atomic_compare_exchange_strong(&l->lane->failed, &none, status);
    loci_verbs_long_fail(l, status);
    if (l->twin != NULL && !l->twin->broken)
        loci_verbs_break(l->twin, status);
}

void loci_verbs_flush(struct verbs_lane *l, int status)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

    if (l->qp != NULL)
        ibv_modify_qp(l->qp, &attr, IBV_QP_STATE);
    if (l->twin != NULL && l->twin->qp != NULL)
        ibv_modify_qp(l->twin->qp, &attr, IBV_QP_STATE);
    loci_verbs_break(l, status);
}

static bool port_is_up(const struct verbs_fabric *f)
{
    struct ibv_port_attr attr;

    return ibv_query_port(f->context, (uint8_t)f->port.port, &attr) == 0
           && attr.state == IBV_PORT_ACTIVE;
}

/* Soft-RoCE may hear that its interface is down a little later than its packets do. */
static bool port_goes_down(const struct verbs_fabric *f)
{
    const struct timespec a_moment = { .tv_nsec = 1000000 };
    bool up = port_is_up(f);

    for (int i = 0; i < GOES_DOWN && up; i++) {
        nanosleep(&a_moment, NULL);
        up = port_is_up(f);
    }
    return !up;
}

static int status_of(const struct verbs_fabric *f, enum ibv_wc_status what)
{
    switch (what) {
    case IBV_WC_REM_ACCESS_ERR: return LOCO_ERR_RANGE;
    /* Soft-RoCE says this of a packet that there is no interface for, at once. */
    case IBV_WC_LOC_QP_OP_ERR:
        return port_goes_down(f) ? LOCO_ERR_PEER_DEAD : LOCO_ERR_SYSTEM;
    /* Whether it is the peer, the network or this side's link: there is no way to the peer. */
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR: return LOCO_ERR_PEER_DEAD;
    /* This queue pair is of no use any more, which says nothing of the peer. */
    default: return LOCO_ERR_SYSTEM;
    }
}

static void tell_service(struct verbs_fabric *f, struct loci_peer *peer)
{
    struct verbs_peer *p = peer->device_data;
    const uint64_t one = 1;

    if (p == NULL)
        return;         /* this process itself */
    atomic_store_explicit(&p->lost, true, memory_order_release);
    if (write(f->news_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "the service thread cannot be told: %m");
}

/* The first failure of a lane. */
static void fail(struct verbs_lane *l, const struct verbs_request *r, enum ibv_wc_status what)
{
    struct verbs_fabric *f = l->thread->fabric;
    struct loci_peer *peer = l->lane->peer;
    bool known = !loci_peer_alive(f->rt, peer->index);
    int status = known ? LOCO_ERR_PEER_DEAD : status_of(f, what);

    LOCI_LOG(f->rt, known ? LOCO_LOG_DEBUG : LOCO_LOG_ERROR, "%s of %zu bytes to process %016llx "
             "(pid %d) through %s failed: %s", kind_name(r->kind), r->len,
             (unsigned long long)peer->address.identity, (int)peer->address.pid, f->port.device,
             ibv_wc_status_str(what));
    loci_verbs_break(l, status);
    if (!known && status == LOCO_ERR_PEER_DEAD)
        tell_service(f, peer);
}

static void complete(const struct ibv_wc *wc)
{
    struct verbs_request *r = (struct verbs_request *)(uintptr_t)wc->wr_id;
    struct verbs_lane *l = r->lane;
    uint32_t at = (uint32_t)(r - l->ring);
    int status = LOCO_OK;

    if (wc->status != IBV_WC_SUCCESS) {
        if (!l->broken)
            fail(l, r, wc->status);
        status = atomic_load_explicit(&l->lane->failed, memory_order_relaxed);
    }
    /* Requests before it did complete, unless the lane was broken before. */
    while (l->retired != l->posted && l->retired % l->depth != at)
        retire(l, l->broken && wc->status == IBV_WC_WR_FLUSH_ERR ? status : LOCO_OK);
    if (l->retired != l->posted)
        retire(l, status);
    if (l->rest.len != 0)
        loci_verbs_long_posted(l);
}

/* ---- polling ---- */

/* What the thread's queue has, of whatever lane. */
static int take_completions(struct verbs_thread *t)
{
    struct ibv_wc wc[BATCH];
    int n = ibv_poll_cq(t->cq, BATCH, wc);

    for (int i = 0; i < n; i++)
        complete(&wc[i]);
    return n;
}

/* The device lets go of all buffers with the queue pair, and completes nothing of it any more. What
 * it has completed before may be in the queue still and is taken now, while its requests are
 * there. */
void loci_verbs_end_way(struct verbs_lane *l)
{
    if (l->qp == NULL)
        return;
    ibv_destroy_qp(l->qp);
    l->qp = NULL;
    while (!loci_verbs_is_idle(l) && take_completions(l->thread) > 0)
        ;
}

/* What is in flight on a queue pair that is broken comes back flushed, at once. Where it does not,
 * the device is of no use any more, and nobody must wait for it. Should its queue say something one
 * day all the same, that finds the ring, which is freed after it. */
static void give_up(struct verbs_lane *l)
{
    struct verbs_fabric *f = l->thread->fabric;

    LOCI_LOG(f->rt, LOCO_LOG_ERROR, "%s gives no completions of a connection that has failed; it "
             "is given up", f->port.device);
    l->silent = true;
    loci_verbs_end_way(l);
    loci_verbs_retire_all(l, atomic_load_explicit(&l->lane->failed, memory_order_relaxed));
}

int loci_verbs_poll(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct verbs_lane *l = lane->fabric_data;
    int n;

    if (l != NULL && l->twin != NULL && loci_verbs_is_idle(l))
        l = l->twin;                /* one of them is idle, at least */
    if (l == NULL)
        return 0;
    if (loci_verbs_is_idle(l)) {
        /* Other lanes' operations may leave no room to post on this one, and its thread be away. */
        n = l->thread->outstanding < l->thread->entries && !loci_credit_is_short(lane->thread)
            ? 0 : take_completions(l->thread);
        return n > 0 ? n : 0;
    }
    loci_verbs_long_posted(l);      /* where the device took no more of it at the last completion */
    n = take_completions(l->thread);
    /* The peer is gone, and the device has not noticed. */
    if (n == 0 && !l->broken && !loci_peer_alive(verbs_of(fabric)->rt, lane->peer->index))
        loci_verbs_flush(l, LOCO_ERR_PEER_DEAD);
    if (n < 0 && !l->broken) {
        LOCI_LOG(verbs_of(fabric)->rt, LOCO_LOG_ERROR, "the completions of %s cannot be read",
                 verbs_of(fabric)->port.device);
        loci_verbs_flush(l, LOCO_ERR_SYSTEM);
    }
    if (n <= 0 && l->broken && !l->silent && loci_now(verbs_of(fabric)->rt) > l->silent_after)
        give_up(l);
    return n > 0 ? n : 0;
}
