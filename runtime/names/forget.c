/* SPDX-License-Identifier: BSD-3-Clause */

/* What is kept of processes that have gone, and until when.
 *
 * A long-lived process may meet any number of others: workers that come, share a channel and leave.
 * Two counts of each say what is still needed of it:
 *
 *   holders   groups, endpoints, windows, and whoever else keeps its index: the place in the table
 *   users     those of them who reach it: endpoints, windows, letters, errands. A group alone
 *             is no user
 *
 * Once it has gone, the last user's end gives back what the fabric has for it (descriptors, areas,
 * what is mapped and was not dropped before) and retires the lanes to it; the last holder's end
 * gives back its place, for the next process that is met. A group that a program never destroys
 * keeps the place, some hundred bytes, and nothing else.
 *
 * Who writes what. The counts: anybody, by atomics. The lists, the table and what the fabric has:
 * under peers_lock; and nobody takes anything back but the service thread, in loci_peers_tidy(),
 * which handles all that comes from a peer, too. So whoever is in the middle of something with a
 * peer is one of its users, or is this thread.
 *
 * Nobody is forgotten too early: a count of users leaves 0 under peers_lock alone, or inside the
 * fabric, which looks at it again in peer_forget; a count of holders under peers_lock, by another
 * holder, or inside the fabric as well (the users that it counts are holders, too). Nobody is
 * forgotten too late: who ends as the last one takes its count down, then looks at the state; who
 * notices the end writes the state, then looks at the counts. One of the two finds both, and puts
 * the peer into the list.
 *
 * The structs of peers and lanes are never freed while the runtime is open, but used again for the
 * same place: who walks through all lanes of all threads without a lock (fence.c) may come upon one
 * that is being retired, and finds counts that only grow, and nothing to wait for. */

#include "config.h"

#include "runtime.h"
#include "service.h"

/* ---- holders and users ---- */

void loci_peers_hold(struct loco_runtime *rt, const int *peers, int n)
{
    for (int i = 0; i < n; i++)
        if (peers[i] != LOCI_SELF)
            atomic_fetch_add(&loci_peer(rt, peers[i])->holders, 1);
}

/* The lock: not while what the fabric has is given back. */
void loci_peers_use(struct loco_runtime *rt, const int *peers, int n)
{
    pthread_mutex_lock(&rt->peers_lock);
    for (int i = 0; i < n; i++)
        if (peers[i] != LOCI_SELF) {
            atomic_fetch_add(&loci_peer(rt, peers[i])->holders, 1);
            atomic_fetch_add(&loci_peer(rt, peers[i])->users, 1);
        }
    pthread_mutex_unlock(&rt->peers_lock);
}

/* Of one that could not be introduced nobody tells when it goes. */
static bool has_gone(const struct loci_peer *peer)
{
    return atomic_load(&peer->state) != LOCI_PEER_ALIVE
           || atomic_load(&peer->introduced) != LOCO_OK;
}

/* By now it may have been forgotten by another, and the place be somebody else's: no harm. */
static void look_at(struct loco_runtime *rt, struct loci_peer *peer)
{
    if (has_gone(peer))
        loci_peer_is_unused(rt, peer);
}

void loci_peers_let_go(struct loco_runtime *rt, const int *peers, int n)
{
    for (int i = 0; i < n; i++) {
        struct loci_peer *peer = loci_peer(rt, peers[i]);

        if (peers[i] != LOCI_SELF && atomic_fetch_sub(&peer->holders, 1) == 1)
            look_at(rt, peer);
    }
}

void loci_peers_end_use(struct loco_runtime *rt, const int *peers, int n)
{
    for (int i = 0; i < n; i++) {
        struct loci_peer *peer = loci_peer(rt, peers[i]);

        if (peers[i] == LOCI_SELF)
            continue;
        /* A holder still while it looks. */
        if (atomic_fetch_sub(&peer->users, 1) == 1)
            look_at(rt, peer);
        loci_peers_let_go(rt, &peers[i], 1);
    }
}

void loci_peer_is_unused(struct loco_runtime *rt, struct loci_peer *peer)
{
    pthread_mutex_lock(&rt->peers_lock);
    if (!peer->listed && !rt->parting) {
        peer->listed = true;
        peer->next_unused = rt->unused;
        rt->unused = peer;
    }
    pthread_mutex_unlock(&rt->peers_lock);
    loci_service_tidy(rt);
}

/* ---- lanes ---- */

/* Whether an operation of that thread is in flight on it. */
static bool is_awaited_by(struct loci_thread *thread, const struct loci_lane *lane)
{
    for (int i = 0; i < LOCI_SLOTS; i++)
        if (atomic_load_explicit(&thread->slot[i].seq, memory_order_acquire) != 0
            && thread->slot[i].lane == lane)
            return true;
    return false;
}

/* Its peer has gone, so whatever is in flight fails as soon as somebody looks. */
static bool is_calm(struct loco_runtime *rt, struct loci_lane *lane)
{
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);

    if (rt->ops->synchronous)
        return true;
    loci_lane_poll(lane);
    for (; t != NULL; t = t->next)
        if (is_awaited_by(t, lane))
            return false;
    return true;
}

static struct loci_lane *lane_of(struct loci_thread *thread, const struct loci_peer *peer)
{
    if (peer->index >= atomic_load_explicit(&thread->lane_peers, memory_order_acquire))
        return NULL;
    return atomic_load_explicit(&thread->lanes[peer->index], memory_order_acquire);
}

/* For who looks at it still: all is placed and read, and nothing more is posted. */
static void retire(struct loci_lane *lane)
{
    struct loci_thread *thread = lane->thread;
    const struct loci_way *way;
    uint64_t written;

    loci_lock_take(&thread->lock);
    way = loci_lane_way(lane);
    if (way->ops->lane_close != NULL && lane->fabric_data != NULL)
        way->ops->lane_close(way->fabric, lane);
    lane->fabric_data = NULL;
    written = atomic_load_explicit(&lane->written, memory_order_relaxed);
    atomic_store_explicit(&lane->placing, written, memory_order_relaxed);
    atomic_store_explicit(&lane->told, written, memory_order_relaxed);
    atomic_store_explicit(&lane->placed, written, memory_order_release);
    atomic_store_explicit(&lane->reads_done,
                          atomic_load_explicit(&lane->reads, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&lane->read_lost, LOCO_OK, memory_order_relaxed);
    atomic_store_explicit(&lane->failed, LOCO_ERR_PEER_DEAD, memory_order_relaxed);
    loci_lock_give(&thread->lock);
    atomic_store_explicit(&thread->lanes[lane->peer->index], NULL, memory_order_release);
    lane->next_retired = thread->retired;
    thread->retired = lane;
}

/* Who mends a lane (move/lane.c), maybe another thread that fences for all and is no user of its
 * peer, works on what is given back here: so it is one at a time. False: not now. */
static bool try_retire(struct loco_runtime *rt, struct loci_lane *lane)
{
    bool none = false, calm;

    if (!atomic_compare_exchange_strong_explicit(&lane->mending, &none, true, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    calm = is_calm(rt, lane);
    if (calm)
        retire(lane);
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    return calm;
}

bool loci_lanes_retire(struct loco_runtime *rt, const struct loci_peer *peer)
{
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    struct loci_lane *lane;
    bool all = true;

    for (; t != NULL; t = t->next)
        if ((lane = lane_of(t, peer)) != NULL && !try_retire(rt, lane))
            all = false;
    return all;
}

/* ---- forgetting ---- */

/* Under the lock. Whether there is nothing more to be done for now: who begins to use it, or holds
 * it, looks again in the end. */
static bool forget(struct loco_runtime *rt, struct loci_peer *peer)
{
    if (!peer->in_table || !has_gone(peer) || atomic_load(&peer->users) > 0)
        return true;
    if (rt->ops->peer_forget == NULL)
        return true;
    if (!loci_lanes_retire(rt, peer))
        return false;
    if ((peer->fabric_data != NULL || peer->device_data != NULL)
        && !rt->ops->peer_forget(rt->fabric, peer))
        return false;
    if (atomic_load(&peer->holders) == 0)
        loci_peer_leave_table(rt, peer);
    return true;
}

void loci_peers_tidy(struct loco_runtime *rt)
{
    struct loci_peer **at = &rt->unused, *peer;

    loci_peers_cut(rt);
    pthread_mutex_lock(&rt->peers_lock);
    while ((peer = *at) != NULL) {
        if (!rt->parting && !forget(rt, peer)) {
            at = &peer->next_unused;
            continue;
        }
        *at = peer->next_unused;
        peer->listed = false;
    }
    pthread_mutex_unlock(&rt->peers_lock);
}

void loci_peers_keep(struct loco_runtime *rt)
{
    pthread_mutex_lock(&rt->peers_lock);
    rt->parting = true;
    pthread_mutex_unlock(&rt->peers_lock);
}
