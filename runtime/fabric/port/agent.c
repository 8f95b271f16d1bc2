/* SPDX-License-Identifier: BSD-3-Clause */

/* Slabs for clients, and who has them. See port.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "ports.h"
#include "memory/memory.h"
#include "wait.h"

#define ARENA_MOST (UINT32_C(1) << 30)

/* ---- for the poller ---- */

static bool has_posted(const struct loci_ports *ports, const struct port_client *c)
{
    uint32_t opened = port_opened(ports, c);

    for (uint32_t i = 0; i < opened; i++)
        if (!c->port[i].misused
            && loci_load64_total(&c->port[i].at.words->posted) != c->port[i].taken)
            return true;
    return false;
}

static bool look(void *channel)
{
    const struct loci_ports *ports = channel;

    if (ports->under_way > 0 || ports->later
        || atomic_load_explicit(&ports->asked, memory_order_acquire))
        return true;
    for (int i = 0; i < ports->clients; i++) {
        const struct port_client *c = &ports->client[i];
        int state = atomic_load_explicit(&c->state, memory_order_acquire);

        if (state == PORT_LEAVING || (state == PORT_HERE && has_posted(ports, c)))
            return true;
    }
    return false;
}

static enum loci_served serve(void *channel)
{
    return loci_port_serve(channel);
}

/* In one order with what `look` then loads, as a client's post and its look at this are. */
static void announce(void *channel, int change)
{
    struct loci_ports *ports = channel;

    pthread_mutex_lock(&ports->lock);
    ports->dozes = change > 0 ? ++ports->dozed : 0;
    for (int i = 0; i < ports->clients; i++)
        if (atomic_load_explicit(&ports->client[i].state, memory_order_relaxed) == PORT_HERE)
            (void)loci_cpu_exchange(&port_header(&ports->client[i])->asleep, ports->dozes);
    pthread_mutex_unlock(&ports->lock);
}

static const struct loci_polled_ops polled_ops = { look, serve, announce };

/* ---- slabs ---- */

static int make_client(struct loci_ports *ports, struct port_client *c)
{
    int status;

    c->port = calloc(ports->shape.ports, sizeof c->port[0]);
    if (c->port == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_alloc(ports->rt, loci_port_slab_bytes(&ports->shape), LOCI_CACHE_LINE, &c->slab);
    if (status != LOCO_OK)
        return status;
    c->base = loci_mem_ptr(&c->slab);
    for (uint32_t i = 0; i < ports->shape.ports; i++)
        c->port[i] = (struct port){ .client = c,
                                    .at = loci_port_at(&ports->shape, c->base, i) };
    return LOCO_OK;
}

void loci_port_free_client(struct loci_ports *ports, struct port_client *c)
{
    loci_port_drop_grants(ports, c);
    loci_peers_end_use(ports->rt, &c->peer, 1);
    ports->stats.leaving--;
    atomic_store_explicit(&c->state, PORT_FREE, memory_order_release);
    if (ports->freed != NULL)
        ports->freed(ports->freed_ctx);
}

/* Not when the one before leaves: if that is attached still, as clients of an agent that is stopped
 * are, it must not take a new count for its own. */
static void renew(const struct loci_ports *ports, struct port_client *c)
{
    for (uint32_t i = 0; i < ports->shape.ports; i++) {
        struct port *p = &c->port[i];

        *p = (struct port){ .client = c, .at = p->at };
        loci_store64(&p->at.words->posted, 0);
        loci_store64(&p->at.words->finished, 0);
    }
    loci_store64(&port_header(c)->opened, 0);
    loci_store64(&port_header(c)->asleep, ports->dozes);
}

int loci_ports_enter(struct loci_ports *ports, int peer, int *client,
                     struct loci_port_welcome *welcome)
{
    int n = -1;

    port_lock(ports);
    for (int i = 0; i < ports->clients && n < 0; i++)
        if (atomic_load_explicit(&ports->client[i].state, memory_order_acquire) == PORT_FREE)
            n = i;
    if (n >= 0) {
        struct port_client *c = &ports->client[n];

        c->peer = peer;
        loci_peers_use(ports->rt, &peer, 1);
        renew(ports, c);
        *welcome = ports->shape;
        welcome->slab = c->slab.key;
        ports->stats.clients++;
        *client = n;
        atomic_store_explicit(&c->state, PORT_HERE, memory_order_release);
    }
    pthread_mutex_unlock(&ports->lock);
    return n >= 0 ? LOCO_OK : LOCO_ERR_FULL;
}

void loci_ports_leave(struct loci_ports *ports, int client)
{
    port_lock(ports);
    ports->stats.clients--;
    ports->stats.leaving++;
    atomic_store_explicit(&ports->client[client].state, PORT_LEAVING, memory_order_release);
    pthread_mutex_unlock(&ports->lock);
    loci_polled_call(ports->polled);
}

bool loci_ports_is_free(const struct loci_ports *ports, int client)
{
    /* Pairs with the release of the poller. */
    return atomic_load_explicit(&ports->client[client].state, memory_order_acquire) == PORT_FREE;
}

void loci_ports_stats(struct loci_ports *ports, struct loci_port_stats *stats)
{
    port_lock(ports);
    *stats = ports->stats;
    pthread_mutex_unlock(&ports->lock);
}

/* ---- life ---- */

static bool is_shape(const struct loci_port_options *o)
{
    return o->clients > 0 && o->ports > 0 && o->depth > 0 && o->depth <= LOCI_PORT_DEPTH_MOST
           && (o->depth & (o->depth - 1)) == 0 && o->arena > 0 && o->arena <= ARENA_MOST
           && o->arena % LOCI_CACHE_LINE == 0 && o->room > 0 && o->room <= LOCI_PORT_ROOM_MOST;
}

static void free_all(struct loci_ports *ports)
{
    loci_port_drop_targets(ports);
    for (int i = 0; ports->client != NULL && i < ports->clients; i++) {
        if (ports->client[i].base != NULL)
            loci_free(ports->rt, &ports->client[i].slab);
        free(ports->client[i].port);
    }
    free(ports->client);
    pthread_mutex_destroy(&ports->lock);
    free(ports);
}

static int make_all(struct loci_ports *ports)
{
    int status = LOCO_OK;

    ports->client = calloc((size_t)ports->clients, sizeof ports->client[0]);
    if (ports->client == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int i = 0; i < ports->clients && status == LOCO_OK; i++)
        status = make_client(ports, &ports->client[i]);
    if (status == LOCO_OK)
        status = loci_poller_add(ports->rt, &polled_ops, ports, &ports->polled);
    return status;
}

int loci_ports_open(struct loco_runtime *rt, const struct loci_port_options *o,
                    struct loci_ports **out)
{
    struct loci_ports *ports;
    int status;

    if (!is_shape(o))
        return LOCO_ERR_ARG;
    ports = calloc(1, sizeof *ports);
    if (ports == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_init(&ports->lock, NULL);
    ports->rt = rt;
    ports->clients = o->clients;
    ports->room = o->room;
    ports->freed = o->freed;
    ports->freed_ctx = o->freed_ctx;
    ports->shape = (struct loci_port_welcome){ .ports = o->ports, .depth = o->depth,
                                               .arena = o->arena, .label = rt->address.label };
    status = make_all(ports);
    if (status != LOCO_OK) {
        free_all(ports);
        return status;
    }
    ports->shape.number = loci_polled_number(ports->polled);
    loci_polled_begin(ports->polled);
    *out = ports;
    return LOCO_OK;
}

static int all_free(void *arg)
{
    struct loci_ports *ports = arg;

    for (int i = 0; i < ports->clients; i++)
        if (atomic_load_explicit(&ports->client[i].state, memory_order_acquire) != PORT_FREE)
            return 0;
    return 1;
}

void loci_ports_close(struct loci_ports *ports)
{
    const struct loci_reason why = { .what = "requests of ports that are under way", .peer = -1,
                                     .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_SYNC };

    if (ports == NULL)
        return;
    for (int i = 0; i < ports->clients; i++)
        if (atomic_load_explicit(&ports->client[i].state, memory_order_acquire) == PORT_HERE)
            loci_ports_leave(ports, i);
    (void)loci_wait(ports->rt, &why, all_free, ports);
    loci_poller_remove(ports->polled);
    free_all(ports);
}
