/* SPDX-License-Identifier: BSD-3-Clause */

/* A client of ports: what it was given. See port.h. */

#include "config.h"

#include <stdlib.h>

#include "client.h"
#include "memory/memory.h"
#include "observe/observe.h"
#include "wait.h"

static struct port_client *client_of(struct loci_fabric *fabric)
{
    return (struct port_client *)(void *)fabric;
}

bool loci_port_agent_lives(struct port_client *c)
{
    if (loci_peer_alive(c->rt, c->agent)
        && !atomic_load_explicit(&c->stuck, memory_order_relaxed))
        return true;
    if (!atomic_exchange(&c->mourned, true))
        LOCI_LOG(c->rt, LOCO_LOG_ERROR, "the agent of this machine has ended, or is stopped: "
                 "what was reached by way of it fails from now on. Start it again, and attach "
                 "anew");
    return false;
}

/* ---- ports ---- */

/* A lane that was closed may have left requests behind, which the agent finishes. */
static bool is_free(const struct port_client *c, uint32_t port)
{
    struct loci_port_at at = loci_port_at(&c->welcome, c->base, port);

    return !c->mine[port].taken
           && loci_load64(&at.words->posted) == loci_load64(&at.words->finished);
}

int loci_port_take(struct port_client *c, struct port_lane *l)
{
    uint32_t i = 0;
    bool left;

    pthread_mutex_lock(&c->lock);
    left = c->left;
    if (left)
        i = c->welcome.ports;
    while (i < c->welcome.ports && !is_free(c, i))
        i++;
    if (i < c->welcome.ports) {
        c->mine[i].taken = true;
        l->port = i;
        l->at = loci_port_at(&c->welcome, c->base, i);
        l->posted = l->published = l->retired = l->looked = loci_load64(&l->at.words->posted);
        l->epoch = ++c->mine[i].epoch;
        if (i >= c->opened)
            loci_store64(&((struct loci_port_header *)(void *)c->base)->opened, ++c->opened);
    }
    pthread_mutex_unlock(&c->lock);
    if (i < c->welcome.ports)
        return LOCO_OK;
    if (left)
        return LOCO_ERR_STATE;
    LOCI_LOG(c->rt, LOCO_LOG_ERROR, "all %u ports to other machines are taken: a port is one "
             "thread's way to one of them. Let fewer threads reach fewer machines at once",
             c->welcome.ports);
    return LOCO_ERR_FULL;
}

void loci_port_give(struct port_client *c, const struct port_lane *l)
{
    pthread_mutex_lock(&c->lock);
    c->mine[l->port].taken = false;
    c->mine[l->port].epoch = l->epoch;
    pthread_mutex_unlock(&c->lock);
}

/* ---- grants ---- */

static bool is_of(const struct port_told *t, const struct loci_mem *mem)
{
    /* Pairs with the release of who has filled it in. */
    return atomic_load_explicit(&t->peer, memory_order_acquire) == mem->peer
           && t->extent == mem->key.extent && t->kind == mem->key.kind;
}

/* How far the operation's bytes are from those that were granted. */
static uint64_t distance(const struct port_told *t, uint64_t at, uint64_t len)
{
    uint64_t begin = t->key_base + t->base, end = begin + t->len;

    return at < begin ? begin - at : at + len > end ? at + len - end : 0;
}

uint32_t loci_port_grant_of(struct port_client *c, const struct loci_op *op)
{
    /* Pairs with the release of who has added them. */
    uint32_t n = atomic_load_explicit(&c->tolds, memory_order_acquire), best = PORT_NO_GRANT;
    uint64_t at = op->mem->key.base + op->offset, nearest = UINT64_MAX;

    for (uint32_t i = 0; i < n && nearest > 0; i++) {
        const struct port_told *t = &c->told[i];

        if (!is_of(t, op->mem) || distance(t, at, op->len) >= nearest)
            continue;
        nearest = distance(t, at, op->len);
        best = i;
    }
    return best;
}

/* Under the lock. */
static bool is_straight(const struct port_client *c, int peer)
{
    uint32_t n = atomic_load_explicit(&c->tolds, memory_order_relaxed);

    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&c->told[i].peer, memory_order_relaxed) == peer)
            return atomic_load_explicit(&c->told[i].straight, memory_order_relaxed);
    return false;
}

int loci_port_granted(struct loco_runtime *rt, int peer, const struct loci_memkey *key,
                      uint64_t base, uint64_t len, uint32_t grant)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    struct port_client *c = client_of(detour->way.fabric);
    uint32_t n = 0, tolds;

    pthread_mutex_lock(&c->lock);
    tolds = atomic_load_explicit(&c->tolds, memory_order_relaxed);
    while (n < tolds && atomic_load_explicit(&c->told[n].peer, memory_order_relaxed) >= 0)
        n++;
    if (n < LOCI_PORT_GRANTS) {
        struct port_told *t = &c->told[n];

        t->extent = key->extent;
        t->kind = key->kind;
        t->key_base = key->base;
        t->base = base;
        t->len = len;
        t->grant = grant;
        atomic_store_explicit(&t->straight, is_straight(c, peer), memory_order_relaxed);
        atomic_store_explicit(&t->peer, peer, memory_order_release);
        if (n == tolds)
            atomic_store_explicit(&c->tolds, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&c->lock);
    return n < LOCI_PORT_GRANTS ? LOCO_OK : LOCO_ERR_FULL;
}

void loci_port_ungranted(struct loco_runtime *rt, int peer, uint32_t grant)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    struct port_client *c;

    if (detour == NULL)
        return;
    c = client_of(detour->way.fabric);
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < atomic_load_explicit(&c->tolds, memory_order_relaxed); i++)
        if (atomic_load_explicit(&c->told[i].peer, memory_order_relaxed) == peer
            && (grant == LOCI_PORT_ALL_GRANTS || c->told[i].grant == grant))
            atomic_store_explicit(&c->told[i].peer, -1, memory_order_relaxed);
    pthread_mutex_unlock(&c->lock);
}

bool loci_port_is_attached(struct loco_runtime *rt)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);

    return detour != NULL
           && !atomic_load_explicit(&client_of(detour->way.fabric)->left, memory_order_acquire);
}

/* ---- life ---- */

static bool takes(struct loci_fabric *fabric, const struct loci_peer *peer)
{
    struct port_client *c = client_of(fabric);
    uint32_t n = atomic_load_explicit(&c->tolds, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&c->told[i].peer, memory_order_acquire) == peer->index)
            return !atomic_load_explicit(&c->left, memory_order_acquire)
                   && !atomic_load_explicit(&c->told[i].straight, memory_order_acquire);
    return false;
}

/* ---- moving over ---- */

/* Whether it goes by a port, and has posted that much since this was asked last. */
static bool is_busy(struct loci_lane *lane, const struct loci_way *way, uint64_t many)
{
    bool busy = false;

    loci_lock_take(&lane->thread->lock);
    if (loci_lane_way(lane) == way) {
        struct port_lane *l = lane->fabric_data;

        busy = l != NULL && l->posted - l->looked >= many;
        if (l != NULL)
            l->looked = l->posted;
    }
    loci_lock_give(&lane->thread->lock);
    return busy;
}

/* How many have: 1 or 0. */
static int move(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;

    if (loci_lane_move(lane, &rt->way) != LOCO_OK)
        return 0;
    loci_stat(rt, LOCI_STAT_PORT + LOCI_STATS_PORT_MOVED, 1);
    return 1;
}

static int move_thread(struct loci_thread *t, const struct loci_way *way, uint64_t many)
{
    int lanes = atomic_load_explicit(&t->lane_peers, memory_order_acquire), moved = 0;

    for (int i = 0; i < lanes; i++) {
        struct loci_lane *lane = atomic_load_explicit(&t->lanes[i], memory_order_acquire);

        if (lane != NULL && is_busy(lane, way, many))
            moved += move(lane);
    }
    return moved;
}

int loci_port_move_over(struct loco_runtime *rt, uint64_t many)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    int moved = 0;

    for (; detour != NULL && t != NULL; t = t->next)
        moved += move_thread(t, &detour->way, many);
    return moved;
}

/* All that are told before, so that lanes which are opened from now on go by themselves. */
static void set_straight(struct port_client *c, int peer)
{
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < atomic_load_explicit(&c->tolds, memory_order_relaxed); i++)
        if (atomic_load_explicit(&c->told[i].peer, memory_order_relaxed) == peer)
            atomic_store_explicit(&c->told[i].straight, true, memory_order_release);
    pthread_mutex_unlock(&c->lock);
}

static struct loci_lane *lane_to(struct loci_thread *t, int peer)
{
    return peer < atomic_load_explicit(&t->lane_peers, memory_order_acquire)
           ? atomic_load_explicit(&t->lanes[peer], memory_order_acquire) : NULL;
}

/* The calling thread connects first: the way to the other machine is found then (links, neighbours,
 * whatever else is of processes), which may take much longer than what is each lane's own, for
 * which its thread stands still. A lane of its own that goes by the agent is moved before all
 * others. */
static int go_ahead(struct loco_runtime *rt, int peer, const struct loci_way *detour)
{
    struct loci_thread *self = loci_self(rt);
    struct loci_lane *lane = self == NULL ? NULL : lane_to(self, peer);
    int status;

    if (lane != NULL)
        return loci_lane_way(lane) == detour ? move(lane) : 0;
    if (self != NULL)
        (void)loci_lane(self, peer, &status);   /* if it cannot be, the others hear why */
    return 0;
}

int loci_port_leave_peer(struct loco_runtime *rt, int peer)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    int moved = 0;

    if (detour == NULL)
        return 0;
    set_straight(client_of(detour->way.fabric), peer);
    moved = go_ahead(rt, peer, &detour->way);
    for (; t != NULL; t = t->next) {
        struct loci_lane *lane = lane_to(t, peer);

        if (lane != NULL && loci_lane_way(lane) == &detour->way)
            moved += move(lane);
    }
    return moved;
}

/* What it has posted since it was asked last. */
static uint64_t posted_on(struct loci_lane *lane, const struct loci_way *way)
{
    uint64_t n = 0;

    loci_lock_take(&lane->thread->lock);
    if (loci_lane_way(lane) == way && lane->fabric_data != NULL) {
        struct port_lane *l = lane->fabric_data;

        n = l->posted - l->looked;
        l->looked = l->posted;
    }
    loci_lock_give(&lane->thread->lock);
    return n;
}

uint64_t loci_port_posted(struct loco_runtime *rt, int peer)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    uint64_t n = 0;

    for (; detour != NULL && t != NULL; t = t->next) {
        struct loci_lane *lane = lane_to(t, peer);

        n += lane != NULL ? posted_on(lane, &detour->way) : 0;
    }
    return n;
}

/* ---- leaving ---- */

static bool is_finished(struct port_client *c, uint32_t port)
{
    struct loci_port_at at = loci_port_at(&c->welcome, c->base, port);

    return loci_load64(&at.words->posted) == loci_load64(&at.words->finished);
}

/* 1 where the agent has finished what lanes have posted. */
static int all_finished(void *arg)
{
    struct port_client *c = arg;
    uint32_t i = 0;

    if (!loci_port_agent_lives(c))
        return 1;
    while (i < c->opened && is_finished(c, i))
        i++;
    return i == c->opened;
}

/* 1 where no lane has a port. */
static int all_given(void *arg)
{
    struct port_client *c = arg;
    uint32_t i = 0;

    loci_lanes_leave(c->rt, &c->detour.way);
    pthread_mutex_lock(&c->lock);
    while (i < c->welcome.ports && !c->mine[i].taken)
        i++;
    pthread_mutex_unlock(&c->lock);
    return i == c->welcome.ports;
}

static void leave(struct loci_fabric *fabric)
{
    struct port_client *c = client_of(fabric);
    const struct loci_reason why = { .what = "the agent to finish what ports have posted",
                                     .peer = -1, .timeout_ns = loci_grace(c->rt),
                                     .kind = LOCI_WAIT_SYNC };
    bool before;

    pthread_mutex_lock(&c->lock);
    before = c->left;
    c->left = true;
    pthread_mutex_unlock(&c->lock);
    if (before)
        return;
    (void)loci_wait(c->rt, &why, all_finished, c);
    if (loci_wait(c->rt, &why, all_given, c) == LOCO_OK)
        loci_mem_drop(c->rt, &c->slab);
}

void loci_port_detach(struct loco_runtime *rt)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);

    if (detour != NULL)
        leave(detour->way.fabric);
}

static void close_client(struct loci_fabric *fabric)
{
    struct port_client *c = client_of(fabric);

    while (c != NULL) {
        struct port_client *before = c->before;

        loci_peers_end_use(c->rt, &c->agent, 1);
        pthread_mutex_destroy(&c->lock);
        free(c->mine);
        free(c);
        c = before;
    }
}

const struct loci_fabric_ops loci_fabric_port = {
    .name = "port",
    .close = close_client,
    .lane_open = loci_port_lane_open,
    .lane_close = loci_port_lane_close,
    .lane_mend = loci_port_lane_mend,
    .post = loci_port_post,
    .write = loci_port_write,
    .poll = loci_port_poll,
};

static int map_slab(struct port_client *c)
{
    int status = loci_mem_import(c->rt, c->agent, &c->welcome.slab, &c->slab);

    if (status != LOCO_OK)
        return status;
    if (c->welcome.slab.len < loci_port_slab_bytes(&c->welcome))
        return LOCO_ERR_PROTOCOL;
    c->base = loci_mem_map(c->rt, &c->slab);
    return c->base != NULL ? LOCO_OK : LOCO_ERR_SHARED;
}

int loci_port_attach(struct loco_runtime *rt, int agent, const struct loci_port_welcome *welcome)
{
    const struct loci_detour *before = atomic_load_explicit(&rt->detour, memory_order_relaxed);
    struct port_client *c;
    int status;

    if (rt->ops->synchronous)
        return LOCO_ERR_UNSUPPORTED;    /* it never looks for what is under way */
    if (loci_port_is_attached(rt))
        return LOCO_ERR_STATE;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return LOCO_ERR_NO_MEMORY;
    *c = (struct port_client){ .rt = rt, .agent = agent, .welcome = *welcome,
                               .mine = calloc(welcome->ports, sizeof c->mine[0]) };
    c->detour = (struct loci_detour){ { &loci_fabric_port, (struct loci_fabric *)(void *)c },
                                      takes, leave };
    pthread_mutex_init(&c->lock, NULL);
    loci_peers_use(rt, &agent, 1);
    status = c->mine != NULL ? map_slab(c) : LOCO_ERR_NO_MEMORY;
    if (status != LOCO_OK) {
        loci_mem_drop(c->rt, &c->slab);
        close_client((struct loci_fabric *)(void *)c);
        return status;
    }
    c->before = before != NULL ? client_of(before->way.fabric) : NULL;
    atomic_store_explicit(&rt->detour, &c->detour, memory_order_release);
    return LOCO_OK;
}
