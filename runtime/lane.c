/* SPDX-License-Identifier: BSD-3-Clause */

/* Lanes and slots: posting operations and being told of their completion.
 *
 * Who writes what. `written` and `placing` of a lane are written under its thread's lock by
 * whoever posts on it; `placed` only grows, by whoever's poll finds the completion. A slot's
 * `seq` goes from 0 to a number by its owning thread before the post and back to 0, with release,
 * by loci_slot_done(); everything that the operation wrote for its poster happens before that.
 *
 * Invariant: placed <= placing <= written. If a peer dies, its lanes fail: `failed` is set, every
 * slot on it is told, and nothing more is posted on it. */

#include "config.h"

#include <stdlib.h>

#include "runtime.h"
#include "wait.h"

/* `word` becomes at least `value`. */
static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    while (old < value
           && !atomic_compare_exchange_weak_explicit(word, &old, value, memory_order_release,
                                                     memory_order_relaxed))
        ;
}

/* ---- lanes ---- */

static struct loci_lane *open_lane(struct loci_thread *thread, int peer, int *status)
{
    struct loco_runtime *rt = thread->rt;
    struct loci_lane *lane = calloc(1, sizeof *lane);

    if (lane == NULL) {
        *status = LOCO_ERR_NO_MEMORY;
        return NULL;
    }
    lane->thread = thread;
    lane->peer = loci_peer(rt, peer);
    if (rt->ops->lane_open != NULL) {
        *status = rt->ops->lane_open(rt->fabric, lane);
        if (*status != LOCO_OK) {
            free(lane);
            return NULL;
        }
    }
    /* Pairs with the loads of fences and waits in other threads. */
    atomic_store_explicit(&thread->lanes[peer], lane, memory_order_release);
    if (atomic_load_explicit(&thread->lane_peers, memory_order_relaxed) <= peer)
        atomic_store_explicit(&thread->lane_peers, peer + 1, memory_order_release);
    return lane;
}

struct loci_lane *loci_lane(struct loci_thread *thread, int peer, int *status)
{
    struct loci_lane *lane = atomic_load_explicit(&thread->lanes[peer], memory_order_relaxed);

    return lane != NULL ? lane : open_lane(thread, peer, status);
}

int loci_lane_poll(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;
    int n;

    if (rt->ops->synchronous || rt->ops->poll == NULL)
        return 0;
    pthread_mutex_lock(&lane->thread->lock);
    n = rt->ops->poll(rt->fabric, lane);
    pthread_mutex_unlock(&lane->thread->lock);
    return n;
}

/* ---- slots ---- */

static struct loci_slot *free_slot(struct loci_thread *thread)
{
    for (unsigned i = 0; i < LOCI_SLOTS; i++) {
        unsigned at = (thread->next_slot + i) % LOCI_SLOTS;

        if (atomic_load_explicit(&thread->slot[at].seq, memory_order_acquire) == 0) {
            thread->next_slot = at + 1;
            return &thread->slot[at];
        }
    }
    return NULL;
}

struct loci_slot *loci_slot_take(struct loci_thread *thread, struct loci_lane *lane)
{
    struct loci_slot *slot;
    unsigned rounds = 0;

    while ((slot = free_slot(thread)) == NULL) {
        /* A fence of the process fills slots of ours on lanes of other threads. */
        loci_lane_poll(thread->slot[rounds % LOCI_SLOTS].lane);
        loci_wait_round(thread->rt, &rounds);
    }
    slot->lane = lane;
    slot->places = 0;
    atomic_store_explicit(&slot->seq, ++thread->seq, memory_order_relaxed);
    return slot;
}

void loci_slot_done(struct loci_slot *slot, int status)
{
    uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);

    if (status == LOCO_OK) {
        raise_to(&slot->lane->placed, slot->places);
    } else {
        int none = LOCO_OK;

        atomic_compare_exchange_strong(&slot->lane->failed, &none, status);
        atomic_store_explicit(&slot->status, status, memory_order_relaxed);
        atomic_store_explicit(&slot->failed_seq, seq, memory_order_relaxed);
    }
    /* Release: pairs with the acquire of whoever tests the ack or reuses the slot. */
    atomic_store_explicit(&slot->seq, 0, memory_order_release);
}

/* ---- posting ---- */

static void ack_add(loco_ack_t *ack, struct loci_thread *thread, struct loci_slot *slot,
                    uint64_t seq)
{
    size_t at = (size_t)(slot - thread->slot);

    ack->thread = thread;
    ack->slots[at / 64] |= UINT64_C(1) << at % 64;
    if (ack->seq < seq)
        ack->seq = seq;
}

/* Under the lock of the lane's thread. */
static void count_before_post(struct loci_lane *lane, const struct loci_op *op)
{
    uint64_t written = atomic_load_explicit(&lane->written, memory_order_relaxed);

    if (op->kind == LOCI_WRITE) {
        atomic_store_explicit(&lane->written, written + 1, memory_order_release);
    } else {
        op->slot->places = written;
    }
}

static int try_post(struct loci_lane *lane, struct loci_op *op)
{
    struct loco_runtime *rt = lane->thread->rt;
    int posted = 0, status;

    pthread_mutex_lock(&lane->thread->lock);
    status = atomic_load_explicit(&lane->failed, memory_order_relaxed);
    if (status == LOCO_OK) {
        count_before_post(lane, op);
        status = rt->ops->post(rt->fabric, lane, op, 1, &posted);
        if (posted == 1 && op->kind != LOCI_WRITE)
            raise_to(&lane->placing, op->slot->places);
    }
    pthread_mutex_unlock(&lane->thread->lock);
    return status;
}

int loci_lane_post(struct loci_lane *lane, struct loci_op *op, loco_ack_t *ack)
{
    struct loco_runtime *rt = lane->thread->rt;
    struct loci_thread *self = loci_self(rt);
    unsigned rounds = 0;
    uint64_t seq;
    int status;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    op->slot = loci_slot_take(self, lane);
    seq = self->seq;
    do {
        status = loci_peer_alive(rt, lane->peer->index) ? try_post(lane, op)
                                                        : LOCO_ERR_PEER_DEAD;
        if (status == LOCO_ERR_AGAIN) {
            /* It may be full of what a thread that has gone did not poll. */
            loci_lane_poll(lane);
            loci_wait_round(rt, &rounds);
        }
    } while (status == LOCO_ERR_AGAIN);
    if (status == LOCO_IN_PROGRESS) {
        ack_add(ack, self, op->slot, seq);
        return status;
    }
    if (status == LOCO_OK)
        raise_to(&lane->placed, op->slot->places);
    atomic_store_explicit(&op->slot->seq, 0, memory_order_release);
    return status;
}
