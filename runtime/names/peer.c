/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of peers: every process that this one has met and still has to do with, found by
 * identity. Entry 0 is this process. Readers take no lock: an index reaches them after its entry,
 * and leads to the same process for as long as they hold it. A place that nobody holds any more,
 * of a process that has gone, is the next one's (forget.c).
 *
 * A process that closes its runtime and opens another keeps its identity and has a new label. For
 * those whose own runtime stays open meanwhile it is a new peer: the old entry is of a runtime that
 * has gone, whose groups and endpoints still refer to it, and the identity leads to the new one. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "runtime.h"
#include "service.h"
#include "wait.h"

#define HASH_SIZE (2 * LOCI_MAX_PEERS)

static unsigned hash_of(uint64_t identity)
{
    return (unsigned)((identity * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % HASH_SIZE;
}

/* The position of that identity in the hash, or the empty one where it belongs. */
static unsigned position(const struct loco_runtime *rt, uint64_t identity)
{
    unsigned at = hash_of(identity);

    while (rt->peer_hash[at] != 0
           && rt->peers[rt->peer_hash[at] - 1]->address.identity != identity)
        at = (at + 1) % HASH_SIZE;
    return at;
}

int loci_peer_find(struct loco_runtime *rt, uint64_t identity)
{
    int index;

    pthread_mutex_lock(&rt->peers_lock);
    index = rt->peer_hash[position(rt, identity)] - 1;
    pthread_mutex_unlock(&rt->peers_lock);
    return index;
}

/* A peer that no fabric reaches is kept all the same: channels say so when they need it. For one
 * that cannot be introduced for another reason it is tried again when it is met again. */
static int introduce(struct loco_runtime *rt, struct loci_peer *peer)
{
    int status = LOCO_OK;

    if (peer->index != LOCI_SELF)
        status = rt->ops->peer_add(rt->fabric, peer);
    if (loci_bells_known(rt, peer->index) == &rt->no_bells)
        atomic_store_explicit(&rt->unheard, true, memory_order_release);
    peer->introduced = status;
    peer->reachable = status == LOCO_OK;
    if (!peer->reachable)
        LOCI_LOG(rt, LOCO_LOG_INFO, "process %016llx: %s",
                 (unsigned long long)peer->address.identity, loco_strerror(status));
    return status == LOCO_ERR_UNSUPPORTED ? LOCO_OK : status;
}

/* Of a free one nobody reads anything but its state. */
struct loci_peer *loci_peer_take_place(struct loco_runtime *rt)
{
    struct loci_peer *peer = rt->free_peers;
    int count = atomic_load_explicit(&rt->peer_count, memory_order_relaxed);

    if (peer != NULL) {
        rt->free_peers = peer->next_free;
        return peer;
    }
    if (count == LOCI_MAX_PEERS) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "the table of processes is full: %d others are alive or in "
                 "use, which is the most", count - 1);
        return NULL;
    }
    peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->index = count;
    rt->peers[count] = peer;
    atomic_store_explicit(&rt->peer_count, count + 1, memory_order_release);
    return peer;
}

static int enter(struct loco_runtime *rt, const struct loci_address *address, unsigned at,
                 bool noted, int *index)
{
    struct loci_peer *peer = loci_peer_take_place(rt);

    if (peer == NULL)
        return LOCO_ERR_NO_MEMORY;
    peer->address = *address;
    peer->asking = (struct loci_asking){ .at = 0 };
    peer->in_table = true;
    atomic_store_explicit(&peer->noted, noted, memory_order_relaxed);
    atomic_store_explicit(&peer->silent, false, memory_order_relaxed);
    atomic_store_explicit(&peer->unwelcome, LOCI_WELCOME, memory_order_relaxed);
    atomic_store_explicit(&peer->bells, peer->index == LOCI_SELF ? rt->bells : &rt->no_bells,
                          memory_order_relaxed);
    atomic_store_explicit(&peer->holders, 1, memory_order_relaxed);
    /* Release: who finds it alive finds the rest as it is now. */
    atomic_store_explicit(&peer->state, LOCI_PEER_ALIVE, memory_order_release);
    rt->peer_hash[at] = peer->index + 1;
    *index = peer->index;
    return introduce(rt, peer);
}

/* Its identity may lead to a later runtime of the same process. Those behind it move up, each to
 * where a search from its own position finds it. */
static void leave_hash(struct loco_runtime *rt, const struct loci_peer *peer)
{
    unsigned hole = position(rt, peer->address.identity), at = hole;

    if (rt->peer_hash[hole] != peer->index + 1)
        return;
    while (rt->peer_hash[at = (at + 1) % HASH_SIZE] != 0) {
        unsigned from = hash_of(rt->peers[rt->peer_hash[at] - 1]->address.identity);

        if ((at - from + HASH_SIZE) % HASH_SIZE < (at - hole + HASH_SIZE) % HASH_SIZE)
            continue;
        rt->peer_hash[hole] = rt->peer_hash[at];
        hole = at;
    }
    rt->peer_hash[hole] = 0;
}

void loci_peer_leave_table(struct loco_runtime *rt, struct loci_peer *peer)
{
    leave_hash(rt, peer);
    peer->in_table = false;
    peer->next_free = rt->free_peers;
    rt->free_peers = peer;
}

/* Whether the runtime of that address is the one that its identity leads to. */
static bool is_known(const struct loco_runtime *rt, const struct loci_address *address,
                     unsigned at)
{
    return rt->peer_hash[at] != 0
           && rt->peers[rt->peer_hash[at] - 1]->address.label == address->label;
}

/* It is here again. */
static int meet_again(struct loco_runtime *rt, struct loci_peer *peer,
                      const struct loci_address *address, bool noted)
{
    bool connect = !noted && atomic_load_explicit(&peer->noted, memory_order_relaxed);

    if (connect) {
        /* Nobody has looked at it: who notes a peer may not know it. */
        memcpy(peer->address.secret, address->secret, sizeof peer->address.secret);
        atomic_store_explicit(&peer->noted, false, memory_order_release);
    }
    return connect || peer->introduced != LOCO_OK ? introduce(rt, peer) : LOCO_OK;
}

static int meet(struct loco_runtime *rt, const struct loci_address *address, bool noted,
                int *index)
{
    unsigned at;
    int status = LOCO_OK, found = LOCI_SELF;

    if (address->version != rt->address.version) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "process %016llx speaks version %u of the protocol, this "
                 "one %u: run the same libloco everywhere",
                 (unsigned long long)address->identity, address->version, rt->address.version);
        return LOCO_ERR_PROTOCOL;
    }
    if (address->carrier != rt->address.carrier) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "process %016llx moves data by another fabric than this one "
                 "(%s): set LOCO_FABRIC to the same everywhere",
                 (unsigned long long)address->identity, rt->ops->name);
        return LOCO_ERR_MISMATCH;
    }
    pthread_mutex_lock(&rt->peers_lock);
    at = position(rt, address->identity);
    if (is_known(rt, address, at)) {
        found = rt->peer_hash[at] - 1;
        loci_peers_hold(rt, &found, 1);
        status = meet_again(rt, rt->peers[found], address, noted);
    } else {
        status = enter(rt, address, at, noted, &found);
    }
    pthread_mutex_unlock(&rt->peers_lock);
    if (status == LOCO_OK)
        *index = found;
    else
        loci_peers_let_go(rt, &found, 1);
    return status;
}

int loci_peer_meet(struct loco_runtime *rt, const struct loci_address *address, int *index)
{
    return meet(rt, address, false, index);
}

int loci_peer_note(struct loco_runtime *rt, const struct loci_address *address, int *index)
{
    return meet(rt, address, true, index);
}

const char *loci_peer_rank_text(const struct loci_peer *peer, char *text)
{
    int rank = atomic_load_explicit(&peer->rank, memory_order_relaxed);

    text[0] = '\0';
    if (rank != 0)
        snprintf(text, LOCI_RANK_TEXT, ", rank %d", rank - 1);
    return text;
}

void loci_peer_gone(struct loco_runtime *rt, struct loci_peer *peer, enum loci_peer_state state,
                    const char *how)
{
    char rank[LOCI_RANK_TEXT];
    int alive = LOCI_PEER_ALIVE;

    if (atomic_load_explicit(&peer->state, memory_order_relaxed) != alive)
        return;
    /* Counted on both sides of the state. Before, since many look at peers only where somebody is
     * dead: who sees the state, which is acquired, sees a count that is not 0. After, since waiters
     * look again when it has changed: who sees that count, by the acquire in loci_wait(), sees the
     * state. */
    atomic_fetch_add_explicit(&rt->deaths, 1, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&peer->state, &alive, (int)state))
        return;
    /* Said before waiters are told, who may end the process. */
    LOCI_LOG(rt, state == LOCI_PEER_DEAD ? LOCO_LOG_WARN : LOCO_LOG_DEBUG,
             "process %016llx (pid %d%s) is gone: %s", (unsigned long long)peer->address.identity,
             (int)peer->address.pid, loci_peer_rank_text(peer, rank), how);
    atomic_fetch_add_explicit(&rt->deaths, 1, memory_order_release);
    loci_ring_self(rt);
    loci_names_peer_gone(rt, peer->index);
    if (rt->ops->peer_gone != NULL)
        rt->ops->peer_gone(rt->fabric, peer);
    else
        loci_peer_silent(rt, peer);
    if (atomic_load(&peer->users) == 0)
        loci_peer_is_unused(rt, peer);
}

static void cut(struct loco_runtime *rt, struct loci_peer *peer, enum loci_unwelcome why)
{
    int welcome = LOCI_WELCOME;

    if (!atomic_compare_exchange_strong_explicit(&peer->unwelcome, &welcome, (int)why,
                                                 memory_order_relaxed, memory_order_relaxed))
        return;
    /* Pairs with the exchange of loci_peers_cut(). */
    atomic_store_explicit(&rt->cutting, true, memory_order_release);
    loci_service_tidy(rt);
}

void loci_peer_cut(struct loco_runtime *rt, int index)
{
    struct loci_peer *peer = loci_peer(rt, index);

    if (peer->address.node != rt->address.node)
        cut(rt, peer, LOCI_STOPPED_TOO_LONG);
}

void loci_peer_say_gone(struct loco_runtime *rt, int index, bool dead)
{
    if (loci_peer_is_noted(rt, index))
        cut(rt, loci_peer(rt, index), dead ? LOCI_SAID_DEAD : LOCI_SAID_LEFT);
}

bool loci_peer_goes(struct loco_runtime *rt, int index)
{
    return !loci_peer_alive(rt, index)
           || atomic_load_explicit(&loci_peer(rt, index)->unwelcome, memory_order_relaxed)
              != LOCI_WELCOME;
}

static void cut_off(struct loco_runtime *rt, struct loci_peer *peer)
{
    switch ((enum loci_unwelcome)atomic_load_explicit(&peer->unwelcome, memory_order_relaxed)) {
    case LOCI_WELCOME:
        break;
    case LOCI_STOPPED_TOO_LONG:
        loci_peer_gone(rt, peer, LOCI_PEER_DEAD, "it is cut off, since it was stopped for too "
                       "long");
        break;
    case LOCI_SAID_LEFT:
        loci_peer_gone(rt, peer, LOCI_PEER_LEFT, "as others say, it has left");
        break;
    case LOCI_SAID_DEAD:
        loci_peer_gone(rt, peer, LOCI_PEER_DEAD, "others say so, by whom it was reached");
        break;
    }
}

void loci_peers_cut(struct loco_runtime *rt)
{
    int n = atomic_load_explicit(&rt->peer_count, memory_order_acquire);

    if (!atomic_exchange_explicit(&rt->cutting, false, memory_order_acquire))
        return;
    for (int i = 0; i < n; i++)
        if (rt->peers[i] != NULL)
            cut_off(rt, rt->peers[i]);
}

void loci_peer_silent(struct loco_runtime *rt, struct loci_peer *peer)
{
    if (!atomic_exchange_explicit(&peer->silent, true, memory_order_release))
        loci_names_left_by(rt, peer->index);
}

int loci_peers_open(struct loco_runtime *rt)
{
    pthread_mutex_init(&rt->peers_lock, NULL);
    /* Both are far larger than what is touched of them. */
    rt->peers = calloc(LOCI_MAX_PEERS, sizeof rt->peers[0]);
    rt->peer_hash = calloc(HASH_SIZE, sizeof rt->peer_hash[0]);
    if (rt->peers != NULL && rt->peer_hash != NULL)
        return LOCO_OK;
    loci_peers_close(rt);
    return LOCO_ERR_NO_MEMORY;
}

int loci_peers_enter_self(struct loco_runtime *rt)
{
    int self;

    return loci_peer_meet(rt, &rt->address, &self);
}

void loci_peers_part(struct loco_runtime *rt)
{
    int count = atomic_load_explicit(&rt->peer_count, memory_order_relaxed);

    for (int i = 0; i < count; i++)
        if (i != LOCI_SELF && rt->peers[i] != rt->nobody)
            rt->ops->peer_remove(rt->fabric, rt->peers[i]);
}

void loci_peers_close(struct loco_runtime *rt)
{
    int count = atomic_load_explicit(&rt->peer_count, memory_order_relaxed);

    for (int i = 0; i < count; i++)
        free(rt->peers[i]);
    free(rt->peers);
    free(rt->peer_hash);
    pthread_mutex_destroy(&rt->peers_lock);
}
