/* SPDX-License-Identifier: BSD-3-Clause */

/* What clients may reach. A grant has its own handle on the memory, as a window of it: what a
 * device would let through by the key may be more. */

#include "config.h"

#include <stdlib.h>

#include "ports.h"
#include "memory/memory.h"

static struct port_target *find_target(const struct loci_ports *ports, int peer)
{
    struct port_target *t = ports->targets;

    while (t != NULL && (t->peer != peer || t->lost))
        t = t->next;
    return t;
}

static struct port_target *target_of(struct loci_ports *ports, int peer)
{
    struct port_target *t = find_target(ports, peer);

    if (t != NULL)
        return t;
    t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    loci_peers_use(ports->rt, &peer, 1);
    t->peer = peer;
    t->next = ports->targets;
    ports->targets = t;
    return t;
}

static void drop(struct loci_ports *ports, struct port_grant *g)
{
    if (g->target == NULL)
        return;
    loci_mem_drop(ports->rt, &g->mem);
    *g = (struct port_grant){ .target = NULL, .lost = g->lost,
                              .turn = (g->turn + 1) & (UINT32_MAX >> PORT_GRANT_BITS) };
}

void loci_port_drop_grants(struct loci_ports *ports, struct port_client *c)
{
    for (uint32_t i = 0; i < c->grants; i++)
        drop(ports, &c->grant[i]);
    for (uint32_t i = 0; i < c->grants; i++)
        c->grant[i].lost = false;
    c->grants = 0;
}

void loci_port_drop_targets(struct loci_ports *ports)
{
    while (ports->targets != NULL) {
        struct port_target *t = ports->targets;

        ports->targets = t->next;
        loci_peers_end_use(ports->rt, &t->peer, 1);
        free(t);
    }
}

/* ---- targets that are lost ---- */

static bool is_granted(const struct loci_ports *ports, const struct port_target *t)
{
    for (int i = 0; i < ports->clients; i++)
        for (uint32_t k = 0; k < ports->client[i].grants; k++)
            if (ports->client[i].grant[k].target == t)
                return true;
    return false;
}

static void drop_lost_grants(struct loci_ports *ports, const struct port_target *t)
{
    for (int i = 0; i < ports->clients; i++)
        for (uint32_t k = 0; k < ports->client[i].grants; k++) {
            struct port_grant *g = &ports->client[i].grant[k];

            if (g->target == t && g->under_way == 0)
                drop(ports, g);
        }
}

static void unbind(struct loci_ports *ports, const struct port_target *t)
{
    for (int i = 0; i < ports->clients; i++)
        for (uint32_t j = 0; j < ports->shape.ports; j++)
            if (ports->client[i].port[j].target == t)
                ports->client[i].port[j].target = NULL;
}

void loci_port_drop_lost(struct loci_ports *ports)
{
    struct port_target **at = &ports->targets, *t;

    while ((t = *at) != NULL) {
        if (t->lost)
            drop_lost_grants(ports, t);
        if (!t->lost || t->from != t->to || is_granted(ports, t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        unbind(ports, t);
        loci_peers_end_use(ports->rt, &t->peer, 1);
        free(t);
    }
}

int loci_ports_reach(struct loci_ports *ports, int peer)
{
    struct port_target *t;

    port_lock(ports);
    t = target_of(ports, peer);
    if (t != NULL) {
        t->early = true;
        /* Release, as the next: pairs with the poller's look, which takes no lock. */
        atomic_store_explicit(&ports->asked, true, memory_order_release);
    }
    pthread_mutex_unlock(&ports->lock);
    if (t != NULL)
        loci_polled_call(ports->polled);
    return t != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;
}

void loci_ports_lose(struct loci_ports *ports, int peer)
{
    struct port_target *t;

    port_lock(ports);
    t = find_target(ports, peer);
    for (int i = 0; t != NULL && i < ports->clients; i++)
        for (uint32_t k = 0; k < ports->client[i].grants; k++) {
            struct port_grant *g = &ports->client[i].grant[k];

            if (g->target != t)
                continue;
            g->may = 0;
            g->lost = true;
        }
    if (t != NULL) {
        t->lost = true;
        atomic_store_explicit(&ports->asked, true, memory_order_release);
    }
    pthread_mutex_unlock(&ports->lock);
    if (t != NULL)
        loci_polled_call(ports->polled);
}

/* ---- granting ---- */

/* Of a target that is lost nothing arrives, since both ends are cut off from each other. */
bool loci_port_is_over(struct port_grant *g)
{
    bool placed = g->target == NULL || g->target->lost || g->wrote <= g->target->placed;

    if (!placed)
        g->target->awaited = true;
    return placed && g->under_way == 0;
}

/* A number that is free, or -1. One that was revoked is free when nothing uses it. */
static int free_grant(struct loci_ports *ports, struct port_client *c)
{
    for (uint32_t i = 0; i < c->grants; i++) {
        struct port_grant *g = &c->grant[i];

        if (g->target != NULL && g->may == 0 && !g->lost && loci_port_is_over(g))
            drop(ports, g);
        if (g->target == NULL && !g->lost)
            return (int)i;
    }
    return c->grants < LOCI_PORT_GRANTS ? (int)c->grants++ : -1;
}

static int fill(struct loci_ports *ports, struct port_grant *g, int peer,
                const struct loci_memkey *key)
{
    struct port_target *t = target_of(ports, peer);
    int status;

    if (t == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_mem_import(ports->rt, peer, key, &g->mem);
    if (status != LOCO_OK)
        return status;
    loci_mem_set_domain(&g->mem, ports->rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER
                                                               : LOCI_DOMAIN_NIC);
    g->target = t;
    return LOCO_OK;
}

static int grant(struct loci_ports *ports, struct port_client *c, int peer,
                 const struct loci_memkey *key, const struct port_grant *what, uint32_t *number)
{
    int n = free_grant(ports, c), status;
    struct port_grant *g;

    if (n < 0)
        return LOCO_ERR_FULL;
    g = &c->grant[n];
    status = fill(ports, g, peer, key);
    if (status != LOCO_OK)
        return status;
    g->base = what->base;
    g->len = what->len;
    g->may = what->may;
    *number = g->turn << PORT_GRANT_BITS | (uint32_t)n;
    return LOCO_OK;
}

int loci_ports_grant(struct loci_ports *ports, int client, int peer,
                     const struct loci_memkey *key, uint64_t base, uint64_t len, unsigned may,
                     uint32_t *number)
{
    const struct port_grant what = { .base = base, .len = len, .may = may };
    int status;

    if (key->kind != LOCI_MEM_POOL && key->kind != LOCI_MEM_USER)
        return LOCO_ERR_UNSUPPORTED;
    if (base > key->len || len > key->len - base)
        return LOCO_ERR_RANGE;
    port_lock(ports);
    status = grant(ports, &ports->client[client], peer, key, &what, number);
    pthread_mutex_unlock(&ports->lock);
    return status;
}

/* Nothing of it is posted any more, since the poller checks under the lock. */
int loci_ports_revoke(struct loci_ports *ports, int client, uint32_t number)
{
    struct port_client *c = &ports->client[client];
    struct port_grant *g = &c->grant[port_grant_place(number)];
    int status = LOCO_ERR_RANGE;

    port_lock(ports);
    if (port_grant_place(number) < c->grants && g->target != NULL
        && g->turn == port_grant_turn(number)) {
        g->may = 0;
        status = loci_port_is_over(g) ? LOCO_OK : LOCO_ERR_AGAIN;
        if (status == LOCO_OK)
            drop(ports, g);
        else
            atomic_store_explicit(&ports->asked, true, memory_order_release);
    }
    pthread_mutex_unlock(&ports->lock);
    if (status == LOCO_ERR_AGAIN)
        loci_polled_call(ports->polled);
    return status;
}
