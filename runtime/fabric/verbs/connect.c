/* SPDX-License-Identifier: BSD-3-Clause */

/* Queue pairs. A thread's first word to a peer opens one: it sends `connect` with where its queue
 * pair is; the peer makes the other end, ready to answer, and sends `accept` with where that is, or
 * `refuse`. The thread waits for it; then its queue pair is ready to send. Both ends of a lane to
 * this process itself are made in place.
 *
 * To make an end ready may take the kernel seconds, in which it asks the network for the peer's
 * address, so it is an errand (errand.h): the service thread, which hears of it, only checks what
 * the peer says. So is to forget a peer, since what is in flight to it is flushed first. The
 * errands are stopped while the runtime still has its threads and lanes (verbs_drain).
 *
 * An end stays until its peer replaces it, drops it or is gone, or the runtime closes: at most one
 * (of soft-RoCE two, post.c) per thread of each peer that has spoken to us. A peer drops an end
 * that it has no use for: the accept came too late, or it failed to go on with it. One queue pair
 * has one end, however often its peer asks. Ends are under the fabric's lock. Who makes one looks
 * under it whether the peer is still alive, and who takes a peer's ends away does so after the
 * peer's state has changed: so none is left.
 *
 * A lane to a peer that is gone is emptied, and its queue pairs are given back; the lane itself
 * stays, since any thread may be looking at it, and says why it takes nothing. That is an errand of
 * the peer's, as are its questions, and what refers to a peer is not forgotten before they are over
 * (verbs_peer_forget): its place may be another process's then.
 *
 * A lane that has failed is replaced by a new one, when all its requests are retired: what a device
 * completes of a queue pair in the error state ends with the last that was posted, so nobody asks
 * for the old one's requests any more. It is not where that cannot be known, nor where writes are
 * lost and who wrote them does not know yet (move/lane.c). */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "wait.h"
#include "connect.h"

#define PATIENCE INT64_C(60000000000)   /* ns for a peer to make its end */
#define ASKED_MANY 16384                /* ends that one peer may wait for at once, */
#define ENDS_MANY 32768                 /* and may have: two for each of very many threads */

struct verbs_call {
    uint64_t id;
    struct loci_peer *peer;
    _Atomic int done;
    struct verbs_message answer;
    struct verbs_call *next;
};

static uint32_t new_psn(struct verbs_fabric *f)
{
    return (uint32_t)loci_random(f->rt) & 0xffffff;
}

/* ---- ends: they answer ---- */

static void end_free(struct verbs_end *end)
{
    if (end != NULL && end->qp != NULL)
        ibv_destroy_qp(end->qp);
    free(end);
}

/* Under the lock. NULL: there was no memory to know that peer. */
static struct verbs_end **ends_of(struct verbs_fabric *f, const struct loci_peer *peer)
{
    struct verbs_peer *p = peer->device_data;

    if (peer->index == LOCI_SELF)
        return &f->own_ends;
    return p != NULL ? &p->ends : NULL;
}

/* The end of that number, and the one of that queue pair of the peer's; 0: of none. */
static void drop_end(struct verbs_fabric *f, const struct loci_peer *peer, uint32_t number,
                     uint32_t of)
{
    struct verbs_end **at, *end, *dropped = NULL;
    struct verbs_peer *p = peer->device_data;

    pthread_mutex_lock(&f->lock);
    at = ends_of(f, peer);
    while (at != NULL && (end = *at) != NULL) {
        if (end->qp->qp_num != number && (of == 0 || end->of != of)) {
            at = &end->next;
            continue;
        }
        if (p != NULL)
            p->nends--;
        *at = end->next;
        end->next = dropped;
        dropped = end;
    }
    pthread_mutex_unlock(&f->lock);
    while ((end = dropped) != NULL) {
        dropped = end->next;
        end_free(end);
    }
}

/* An end that may be made ready, for that queue pair of the peer's; in place of that number, unless
 * it is 0. NULL: errno says why. */
static struct verbs_end *new_end(struct verbs_fabric *f, struct loci_peer *peer, uint32_t replaced,
                                 uint32_t of)
{
    struct ibv_qp_init_attr init = {
        .send_cq = f->end_cq, .recv_cq = f->end_cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct verbs_end *end = calloc(1, sizeof *end);
    int error;

    if (replaced != 0)
        drop_end(f, peer, replaced, 0);
    if (end == NULL)
        return NULL;
    end->of = of;
    end->qp = ibv_create_qp(f->pd, &init);
    error = end->qp == NULL ? errno
            : loci_qp_to_init(end->qp, &f->port, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                                                 | IBV_ACCESS_REMOTE_ATOMIC);
    if (error == 0)
        return end;
    end_free(end);
    errno = error;
    return NULL;
}

/* It is ready to answer, it alone of its queue pair. False: the peer has gone, and the end with
 * it. */
static bool keep_end(struct verbs_fabric *f, struct loci_peer *peer, struct verbs_end *end,
                     struct loci_qp_place *mine)
{
    bool alive;

    loci_qp_fill_place(&f->port, &f->gid, end->qp->qp_num, new_psn(f), mine);
    drop_end(f, peer, 0, end->of);
    pthread_mutex_lock(&f->lock);
    alive = loci_peer_alive(f->rt, peer->index);
    if (alive) {
        struct verbs_end **ends = ends_of(f, peer);
        struct verbs_peer *p = peer->device_data;

        end->next = *ends;
        *ends = end;
        if (p != NULL)
            p->nends++;
    }
    pthread_mutex_unlock(&f->lock);
    if (!alive)
        end_free(end);
    return alive;
}

/* Of this process to itself. */
static int make_own_end(struct verbs_fabric *f, struct loci_peer *self, uint32_t replaced,
                        const struct loci_qp_place *to, struct loci_qp_place *mine)
{
    struct verbs_end *end = new_end(f, self, replaced, to->qpn);
    int error = end == NULL ? errno : loci_qp_to_receive(end->qp, &f->port, to);

    if (error == 0)
        keep_end(f, self, end, mine);
    else
        end_free(end);
    return error;
}

void loci_verbs_ends_drop(struct verbs_fabric *f, const struct loci_peer *peer)
{
    struct verbs_end *gone = NULL, *end, **ends;
    struct verbs_peer *p = peer->device_data;

    pthread_mutex_lock(&f->lock);
    ends = ends_of(f, peer);
    if (ends != NULL) {
        gone = *ends;
        *ends = NULL;
    }
    if (p != NULL)
        p->nends = 0;
    pthread_mutex_unlock(&f->lock);
    while ((end = gone) != NULL) {
        gone = end->next;
        end_free(end);
    }
}

/* ---- messages ---- */

/* Numbers 0 and 1 are the device's own. */
static bool number_is_sound(uint32_t number)
{
    return number > 1 && number <= 0xffffff;
}

static bool place_is_sound(const struct verbs_fabric *f, const struct loci_qp_place *place)
{
    return place->mtu >= IBV_MTU_256 && place->mtu <= IBV_MTU_4096 && place->read_depth > 0
           && place->ethernet == f->port.ethernet && number_is_sound(place->qpn)
           && place->psn <= 0xffffff;
}

static void answer(struct verbs_fabric *f, struct loci_peer *peer, const struct verbs_message *m,
                   const struct loci_qp_place *mine, int error)
{
    struct verbs_message told = {
        .kind = error == 0 ? VERBS_ACCEPT : VERBS_REFUSE, .call = m->call,
        .anchor = (uintptr_t)f->anchor, .anchor_key = f->anchor_mr->rkey, .place = *mine,
    };
    char address[LOCI_GID_TEXT];
    uint64_t number;

    if (error != 0 && (number = loci_log_seldom(&f->refused, loci_now(f->rt))) > 0) {
        loci_gid_text(m->place.gid, address);
        errno = error;
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no end on %s for process %016llx at %s: %m%s (number %llu "
                 "since the last such line)", f->port.device,
                 (unsigned long long)peer->address.identity, address, loci_verbs_remedy(error),
                 (unsigned long long)number);
    }
    loci_verbs_tell(peer, &told, sizeof told);
}

/* The end of our queue pair of that number is not needed. */
static void drop_other_end(struct verbs_fabric *f, struct loci_peer *peer, uint32_t number)
{
    const struct verbs_message told = { .kind = VERBS_DROP, .place = { .qpn = number } };

    if (peer->index == LOCI_SELF)
        drop_end(f, peer, 0, number);
    else if (loci_peer_alive(f->rt, peer->index))
        loci_verbs_tell(peer, &told, sizeof told);
}

/* An errand: a peer has asked for an end, or is gone. The end is the errand's until it is ready. */
struct verbs_errand {
    struct loci_errand errand;          /* first */
    struct verbs_fabric *fabric;
    struct loci_peer *peer;
    struct verbs_message asked;
    struct verbs_end *end;
    int tries;
};

static bool has_many(struct verbs_fabric *f, const struct loci_peer *peer)
{
    const struct verbs_peer *p = peer->device_data;
    bool many;

    pthread_mutex_lock(&f->lock);
    many = p->nends >= ENDS_MANY;
    pthread_mutex_unlock(&f->lock);
    return many;
}

/* One question for the peer's address; without an answer it is asked again. */
static bool accept_step(struct loci_errand *errand)
{
    struct verbs_errand *e = (struct verbs_errand *)errand;
    struct verbs_fabric *f = e->fabric;
    struct loci_qp_place mine = { .qpn = 0 };
    int error;

    if (!loci_peer_alive(f->rt, e->peer->index))
        return true;
    if (has_many(f, e->peer)) {
        answer(f, e->peer, &e->asked, &mine, EUSERS);
        return true;
    }
    if (e->end == NULL)
        e->end = new_end(f, e->peer, e->asked.replaced, e->asked.place.qpn);
    error = e->end == NULL ? errno
            : loci_qp_try_to_receive(e->end->qp, &f->port, &e->asked.place);
    if (error == ETIMEDOUT && ++e->tries < LOCI_QP_ASKED)
        return false;
    if (error == 0) {
        bool kept = keep_end(f, e->peer, e->end, &mine);

        e->end = NULL;
        if (!kept)
            return true;
    }
    answer(f, e->peer, &e->asked, &mine, error);
    return true;
}

static bool drop_step(struct loci_errand *errand)
{
    const struct verbs_errand *e = (struct verbs_errand *)errand;

    drop_end(e->fabric, e->peer, 0, e->asked.place.qpn);
    return true;
}

static void errand_end(struct loci_errand *errand)
{
    struct verbs_errand *e = (struct verbs_errand *)errand;
    struct verbs_peer *p = e->peer->device_data;
    struct loco_runtime *rt = e->fabric->rt;

    end_free(e->end);
    /* First the count, then the state; who notices the end writes the state and then looks at the
     * count (verbs_peer_forget), and waits for this. After it the place may be another's. */
    atomic_fetch_sub(&p->errands, 1);
    if (atomic_load(&e->peer->state) != LOCI_PEER_ALIVE)
        loci_peer_is_unused(rt, e->peer);
    free(e);
}

/* Without memory nothing is done: who asks in vain is told after a time, and what is left of a peer
 * goes when it is forgotten or the runtime closes. */
static bool send_errand(struct verbs_fabric *f, struct loci_peer *peer,
                        bool (*step)(struct loci_errand *), const struct verbs_message *asked)
{
    struct verbs_peer *p = peer->device_data;
    struct verbs_errand *e = p != NULL ? calloc(1, sizeof *e) : NULL;

    if (e == NULL)
        return false;
    atomic_fetch_add_explicit(&p->errands, 1, memory_order_relaxed);
    e->errand = (struct loci_errand){ .step = step, .end = errand_end };
    e->fabric = f;
    e->peer = peer;
    if (asked != NULL)
        e->asked = *asked;
    loci_errands_send(&f->errands, &e->errand);
    return true;
}

static void answered(struct verbs_fabric *f, struct loci_peer *peer, const struct verbs_message *m)
{
    struct verbs_call *call;

    pthread_mutex_lock(&f->lock);
    call = f->calls;
    while (call != NULL && (call->id != m->call || call->peer != peer))
        call = call->next;
    if (call != NULL && atomic_load_explicit(&call->done, memory_order_relaxed) == 0) {
        call->answer = *m;
        /* Pairs with the acquire in is_answered(). */
        atomic_store_explicit(&call->done, 1, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
}

/* NULL where it makes sense, and a copy in *m; else what is wrong. A question for an end that does
 * not is answered all the same. */
static const char *message_error(const struct verbs_fabric *f, const void *message, size_t len,
                                 struct verbs_message *m)
{
    if (len != sizeof *m)
        return "wrong length";
    memcpy(m, message, sizeof *m);
    switch (m->kind) {
    case VERBS_CONNECT: case VERBS_REFUSE:
        return NULL;
    case VERBS_ACCEPT:
        return place_is_sound(f, &m->place) ? NULL : "it leads nowhere";
    case VERBS_DROP:
        return number_is_sound(m->place.qpn) ? NULL : "it is about no queue pair";
    default:
        return "unknown kind";
    }
}

static void asked(struct verbs_fabric *f, struct loci_peer *peer, const struct verbs_message *m)
{
    const struct loci_qp_place none = { .qpn = 0 };
    const struct verbs_peer *p = peer->device_data;

    if (!place_is_sound(f, &m->place))
        answer(f, peer, m, &none, EPROTO);
    else if (p != NULL && atomic_load_explicit(&p->errands, memory_order_relaxed) >= ASKED_MANY)
        answer(f, peer, m, &none, EAGAIN);
    else
        send_errand(f, peer, accept_step, m);
}

void loci_verbs_receive(void *fabric, struct loci_peer *peer, const void *message, size_t len)
{
    struct verbs_fabric *f = fabric;
    struct verbs_message m;
    const char *error = message_error(f, message, len, &m);
    uint64_t number;

    if (error == NULL && m.kind == VERBS_CONNECT)
        asked(f, peer, &m);
    else if (error == NULL && m.kind == VERBS_DROP)
        send_errand(f, peer, drop_step, &m);
    else if (error == NULL)
        answered(f, peer, &m);
    else if ((number = loci_log_seldom(&f->dropped, loci_now(f->rt))) > 0)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "message of %zu bytes about connections, from process "
                 "%016llx, dropped: %s (number %llu since the last such line)", len,
                 (unsigned long long)peer->address.identity, error, (unsigned long long)number);
}

static int is_answered(void *arg)
{
    return atomic_load_explicit(&((struct verbs_call *)arg)->done, memory_order_acquire);
}

static void leave_call(struct verbs_fabric *f, struct verbs_call *call)
{
    struct verbs_call **at = &f->calls;

    pthread_mutex_lock(&f->lock);
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&f->lock);
}

/* Have the peer make the other end. */
static int ask(struct verbs_fabric *f, struct loci_peer *peer, struct verbs_message *m)
{
    const struct loci_reason why = {
        .what = "a peer to accept an RDMA connection", .peer = peer->index,
        .timeout_ns = PATIENCE,
    };
    struct verbs_call call = { .peer = peer };
    int status;

    /* It would wait for what it has to receive itself. */
    if (loci_service_is_self(f->rt))
        return LOCO_ERR_STATE;
    pthread_mutex_lock(&f->lock);
    m->call = call.id = ++f->calls_made;
    call.next = f->calls;
    f->calls = &call;
    pthread_mutex_unlock(&f->lock);
    status = loci_verbs_tell(peer, m, sizeof *m);
    if (status == LOCO_OK)
        status = loci_wait(f->rt, &why, is_answered, &call);
    leave_call(f, &call);
    if (status == LOCO_OK && call.answer.kind != VERBS_ACCEPT) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "process %016llx refused a connection from %s: its log "
                 "says why", (unsigned long long)peer->address.identity, f->port.device);
        status = LOCO_ERR_UNSUPPORTED;
    }
    if (status == LOCO_OK)
        *m = call.answer;
    return status;
}

/* ---- lanes ---- */

/* A power of two, so that a request's place in the ring goes on where its 32-bit number wraps. */
static uint32_t depth_of(const struct verbs_fabric *f)
{
    uint32_t depth = (uint32_t)f->rt->tunables.rdma_depth;

    if (depth > (uint32_t)f->port.max_requests)
        depth = (uint32_t)f->port.max_requests;
    while ((depth & (depth - 1)) != 0)
        depth &= depth - 1;
    return depth;
}

static struct ibv_qp *make_qp(struct verbs_fabric *f, struct verbs_lane *l)
{
    uint32_t depth = depth_of(f);
    uint32_t inline_bytes = (uint32_t)f->rt->tunables.rdma_inline;
    struct ibv_qp *qp;

    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = l->thread->cq, .recv_cq = l->thread->cq, .qp_type = IBV_QPT_RC,
            .cap = { .max_send_wr = depth, .max_recv_wr = 1,
                     .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = inline_bytes },
        };

        qp = ibv_create_qp(l->thread->pd, &init);
        if (qp != NULL) {
            l->depth = depth;
            l->max_inline = init.cap.max_inline_data;
            return qp;
        }
        if (inline_bytes == 0)
            return NULL;
        inline_bytes /= 2;          /* more than the device can */
    }
}

/* The other end, at the peer or here; *m says how to reach it. */
static int other_end(struct verbs_fabric *f, struct loci_peer *peer, struct verbs_message *m)
{
    struct loci_qp_place mine = m->place;

    if (peer->index != LOCI_SELF)
        return ask(f, peer, m);
    errno = make_own_end(f, peer, m->replaced, &mine, &m->place);
    m->anchor = (uintptr_t)f->anchor;
    m->anchor_key = f->anchor_mr->rkey;
    return errno == 0 ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static int connect_lane(struct verbs_fabric *f, struct verbs_lane *l, uint32_t replaced)
{
    struct verbs_message m = { .kind = VERBS_CONNECT, .replaced = replaced };
    uint32_t psn = new_psn(f);
    int status;

    l->qp = make_qp(f, l);
    if (l->qp == NULL)
        return LOCO_ERR_SYSTEM;
    errno = loci_qp_to_init(l->qp, &f->port, 0);
    if (errno != 0)
        return LOCO_ERR_SYSTEM;
    loci_qp_fill_place(&f->port, &f->gid, l->qp->qp_num, psn, &m.place);
    status = other_end(f, l->lane->peer, &m);
    if (status != LOCO_OK)
        return status;
    l->end = m.place.qpn;
    l->anchor = m.anchor;
    l->anchor_key = m.anchor_key;
    errno = loci_qp_to_receive(l->qp, &f->port, &m.place);
    if (errno == 0)
        errno = loci_qp_to_send(l->qp, &f->port, psn, &m.place, f->rt->tunables.rdma_timeout);
    return errno == 0 ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static void free_lane(struct verbs_lane *l)
{
    struct verbs_fabric *f = l->thread->fabric;

    if (l->qp != NULL)
        ibv_destroy_qp(l->qp);
    if (l->silent) {    /* poll.c: give_up() */
        pthread_mutex_lock(&f->lock);
        l->next = f->silent;
        f->silent = l;
        pthread_mutex_unlock(&f->lock);
        return;
    }
    free(l->ring);
    free(l);
}

/* A queue pair of the lane, ready to send. `old`: the one that it is to replace, or NULL. */
static int open_way(struct verbs_fabric *f, struct loci_lane *lane, struct verbs_lane *old,
                    struct verbs_lane **out)
{
    struct verbs_lane *l = calloc(1, sizeof *l);
    uint32_t replaced = old != NULL ? old->end : 0;
    int status;

    if (l == NULL)
        return LOCO_ERR_NO_MEMORY;
    l->lane = lane;
    l->thread = loci_verbs_thread(f, lane->thread);
    if (l->thread == NULL) {
        free(l);
        return LOCO_ERR_NO_MEMORY;
    }
    status = connect_lane(f, l, replaced);
    /* Should this be tried again, the end that was made is to be dropped; the number of the one
     * before may be another's by then. */
    if (old != NULL)
        old->end = l->end;
    if (status == LOCO_ERR_SYSTEM)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no queue pair on %s to process %016llx: %m%s",
                 f->port.device, (unsigned long long)lane->peer->address.identity,
                 loci_verbs_remedy(errno));
    if (status == LOCO_OK) {
        l->ring = calloc(l->depth, sizeof l->ring[0]);
        status = l->ring != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;
    }
    if (status != LOCO_OK && l->qp != NULL)
        drop_other_end(f, lane->peer, l->qp->qp_num);
    if (status != LOCO_OK)
        free_lane(l);
    else
        *out = l;
    return status;
}

/* All queue pairs of a lane. */
static int open_ways(struct verbs_fabric *f, struct loci_lane *lane, struct verbs_lane *old,
                     struct verbs_lane **out)
{
    int status = open_way(f, lane, old, out);

    if (status != LOCO_OK || !f->port.loses_answers)
        return status;
    status = open_way(f, lane, old != NULL ? old->twin : NULL, &(*out)->twin);
    if (status == LOCO_OK) {
        (*out)->twin->twin = *out;
        return LOCO_OK;
    }
    drop_other_end(f, lane->peer, (*out)->qp->qp_num);
    free_lane(*out);
    return status;
}

int loci_verbs_lane_open(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct verbs_lane *l;
    int status = loci_peer_is_noted(verbs_of(fabric)->rt, lane->peer->index)
                 ? LOCO_ERR_UNSUPPORTED : open_ways(verbs_of(fabric), lane, NULL, &l);

    lane->acks_place = verbs_of(fabric)->rt->tunables.rdma_place == LOCI_RDMA_PLACE_ACK;
    if (status == LOCO_OK)
        lane->fabric_data = l;
    return status;
}

static bool is_retired(const struct verbs_lane *l)
{
    return loci_verbs_is_idle(l) && (l->twin == NULL || loci_verbs_is_idle(l->twin));
}

static void close_way(struct verbs_lane *l)
{
    loci_verbs_end_way(l);
    loci_verbs_retire_all(l, LOCO_ERR_PEER_DEAD);
}

/* Under the thread's lock, unless all is retired or nobody else is there. */
static void close_ways(struct verbs_lane *l)
{
    struct verbs_lane *twin = l->twin;

    if (!is_retired(l) && !l->broken)
        loci_verbs_break(l, LOCO_ERR_PEER_DEAD);
    close_way(l);
    if (twin != NULL)
        close_way(twin);
    /* Now that none of them is in the thread's queue. */
    free_lane(l);
    if (twin != NULL)
        free_lane(twin);
}

static bool has_lost(const struct verbs_lane *l)
{
    return l->lost || (l->twin != NULL && l->twin->lost);
}

int loci_verbs_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane)
{
    struct verbs_lane *old = lane->fabric_data, *l;     /* none but who mends changes it */
    struct verbs_fabric *f = verbs_of(fabric);
    bool retired, lost;
    int status;

    if (old == NULL)
        return LOCO_ERR_PEER_DEAD;

    loci_lock_take(&lane->thread->lock);
    retired = is_retired(old);
    lost = has_lost(old)
           && atomic_load_explicit(&lane->loss, memory_order_relaxed) != LOCI_LOSS_TOLD;
    loci_lock_give(&lane->thread->lock);
    if (lost)
        return LOCO_ERR_STATE;
    if (!retired)
        return LOCO_ERR_AGAIN;
    status = open_ways(f, lane, old, &l);
    if (status != LOCO_OK)
        return status;
    LOCI_LOG(f->rt, LOCO_LOG_INFO, "the connection to process %016llx (pid %d) is made anew",
             (unsigned long long)lane->peer->address.identity, (int)lane->peer->address.pid);
    /* Others look at the lane under the lock alone. */
    loci_lock_take(&lane->thread->lock);
    lane->fabric_data = l;
    loci_lock_give(&lane->thread->lock);
    close_ways(old);
    return LOCO_OK;
}

/* Nobody posts on it any more. What is in flight fails; its thread's other lanes go on. */
void loci_verbs_lane_close(struct loci_fabric *fabric, struct loci_lane *lane)
{
    (void)fabric;
    if (lane->fabric_data != NULL)
        close_ways(lane->fabric_data);
    lane->fabric_data = NULL;
}

/* ---- peers that are gone ---- */

/* Whether its queue pairs are given back; else something is in flight still, or somebody mends it.
 * Whoever mends or moves a lane changes what this changes, so it is one at a time. A lane that goes
 * by a detour has none. */
static bool empty_lane(struct verbs_fabric *f, struct loci_lane *lane)
{
    struct verbs_lane *l;
    bool none = false, idle = true;

    if (!atomic_compare_exchange_strong_explicit(&lane->mending, &none, true, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    loci_lock_take(&lane->thread->lock);
    l = loci_lane_is_on(lane, &f->rt->way) ? lane->fabric_data : NULL;
    if (l != NULL) {
        if (!l->broken)
            loci_verbs_flush(l, LOCO_ERR_PEER_DEAD);
        while (loci_verbs_poll((struct loci_fabric *)f, lane) > 0)
            ;
        idle = is_retired(l);
        if (idle)
            lane->fabric_data = NULL;
    }
    loci_lock_give(&lane->thread->lock);
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    if (l != NULL && idle)
        close_ways(l);
    return idle;
}

/* Without its ends nothing that it has posted arrives any more. */
static void cut_off(struct verbs_fabric *f, struct loci_peer *peer)
{
    loci_verbs_ends_drop(f, peer);
    loci_peer_silent(f->rt, peer);
}

/* Whether it has nothing any more. */
static bool forget_step(struct loci_errand *errand)
{
    struct verbs_fabric *f = ((struct verbs_errand *)errand)->fabric;
    struct loci_peer *peer = ((struct verbs_errand *)errand)->peer;
    struct loci_thread *t;
    bool all = true;

    cut_off(f, peer);
    atomic_thread_fence(memory_order_seq_cst);      /* pairs with that in look_for_end() */
    for (t = atomic_load_explicit(&f->rt->threads, memory_order_acquire); t != NULL; t = t->next) {
        struct loci_lane *lane;

        if (peer->index >= atomic_load_explicit(&t->lane_peers, memory_order_acquire))
            continue;
        lane = atomic_load_explicit(&t->lanes[peer->index], memory_order_acquire);
        if (lane != NULL && !empty_lane(f, lane))
            all = false;
    }
    return all;
}

void loci_verbs_peer_gone(struct loci_fabric *fabric, struct loci_peer *peer)
{
    if (!send_errand(verbs_of(fabric), peer, forget_step, NULL))
        cut_off(verbs_of(fabric), peer);
}
