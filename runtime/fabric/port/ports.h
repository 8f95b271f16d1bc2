/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PORTS_H
#define LOCI_PORTS_H

/* Ports at the agent, for its own files alone. All of it is under `lock`. The poller alone changes
 * ports, entries, `later` and the posts of targets, so it looks at those without.
 *
 * The poller takes the lock again and again, and a mutex is not fair. So whoever else wants it is
 * counted in `waiting` first: the poller lets it go between targets and between ports, and takes it
 * when nobody waits. */

#include "move/access.h"
#include "port.h"
#include "threads/poller.h"

/* A request that is posted and not finished. */
struct port_entry {
    struct loci_slot slot;          /* seq 0: told */
    struct port *port;              /* NULL: a place of the agent's own */
    struct port_grant *grant;
    uint64_t number;                /* of the port's request */
    uint64_t seq;                   /* of the target's posts */
    enum loci_op_kind kind;
    uint64_t value;                 /* old value of an atomic; bytes of a short write */
};

/* A process of another machine, and the agent's lane to it. */
struct port_target {
    struct port_target *next;
    int peer;                       /* of which this is a user */
    bool early;                     /* it is to have a lane before anybody posts */
    bool lost;                      /* nothing is posted any more; freed when all is over */
    struct loci_lane *lane;         /* the poller's thread's; NULL: not yet */
    struct port_entry entry[LOCI_PORT_ROOM_MOST];    /* in the order of their posts: */
    uint64_t from, to;
    uint64_t seq, placed;           /* posts so far; writes up to that one are placed */
    bool awaited;                   /* somebody waits until all of them are */
};

/* A grant's number is its place, and how often that was given back: who says a number of before is
 * told so, whatever has the place since. */
#define PORT_GRANT_BITS 8
_Static_assert(LOCI_PORT_GRANTS == 1 << PORT_GRANT_BITS, "places");

struct port_grant {
    struct port_target *target;     /* NULL: there is none */
    uint32_t turn;                  /* the upper bits of its number */
    struct loci_mem mem;
    uint64_t base, len;             /* in the memory of the key */
    unsigned may;                   /* enum loci_port_may; 0: revoked, */
    bool lost;                      /* since its target is lost: the number is not used again */
    unsigned under_way;             /* requests */
    uint64_t wrote;                 /* seq of its last write; 0: none */
};

struct port {
    struct port_client *client;
    struct loci_port_at at;
    struct port_target *target;     /* that it is bound to */
    uint64_t taken, finished;
    uint64_t done[LOCI_PORT_DEPTH_MOST / 64];   /* of those between, a bit each */
    uint64_t wrote;                 /* seq of its last write; 0: none */
    uint16_t epoch;                 /* of its last request */
    int failed;                     /* why what is of that epoch is flushed; LOCO_OK */
    bool lost;
    uint32_t refusals, rest;        /* in a row; turns before it is looked at again: serve.c */
    bool misused;                   /* nothing is taken from it any more */
};

enum port_client_state { PORT_FREE, PORT_HERE, PORT_LEAVING };

struct port_client {
    _Atomic int state;              /* enum port_client_state */
    int peer;
    struct loci_mem slab;
    unsigned char *base;
    struct port *port;
    struct port_grant grant[LOCI_PORT_GRANTS];
    uint32_t grants;
    bool news;                      /* something of it was finished in this turn */
};

struct loci_ports {
    struct loco_runtime *rt;
    struct loci_polled *polled;
    pthread_mutex_t lock;
    _Atomic int waiting;            /* threads that want it, besides the poller */
    struct loci_port_welcome shape; /* of all slabs */
    uint32_t room;                  /* of each target */
    struct port_client *client;
    int clients;
    struct port_target *targets;
    uint32_t turn;                  /* which client, and port, is first in the next one */
    uint64_t under_way;             /* entries of all targets */
    void (*freed)(void *ctx);
    void *freed_ctx;
    _Atomic bool asked;             /* a target is to be reached, or is lost: by any thread */
    bool later;                     /* something waits for room, or for a lane to be mended */
    uint64_t dozes;                 /* announced to all clients: the number of that, or 0 */
    uint64_t dozed;                 /* how often so far */
    struct loci_port_stats stats;
};

static inline void port_lock(struct loci_ports *ports)
{
    atomic_fetch_add_explicit(&ports->waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(&ports->lock);
    atomic_fetch_sub_explicit(&ports->waiting, 1, memory_order_relaxed);
}

static inline uint32_t port_grant_place(uint32_t number)
{
    return number & (LOCI_PORT_GRANTS - 1);
}

static inline uint32_t port_grant_turn(uint32_t number)
{
    return number >> PORT_GRANT_BITS;
}

static inline struct loci_port_header *port_header(const struct port_client *c)
{
    return (struct loci_port_header *)(void *)c->base;
}

/* Of which ports this is. Only numbers that the client may say. */
static inline uint32_t port_opened(const struct loci_ports *ports, const struct port_client *c)
{
    uint64_t n = loci_load64(&port_header(c)->opened);

    return n < ports->shape.ports ? (uint32_t)n : ports->shape.ports;
}

/* check.c: whether the request may be posted: LOCO_OK, and the operation, its grant and bytes are
 * filled in; or why not. */
int loci_port_check(const struct loci_ports *ports, struct port *port,
                    const struct loci_port_request *request, struct loci_op *op,
                    struct port_grant **grant);

/* grant.c: whether nothing that was posted there arrives any more: it is finished, and writes, of
 * which that says little, are placed. Else the poller is to place them. */
bool loci_port_is_over(struct port_grant *grant);
void loci_port_drop_grants(struct loci_ports *ports, struct port_client *client);
void loci_port_drop_targets(struct loci_ports *ports);
/* Of targets that are lost: what is not under way any more. */
void loci_port_drop_lost(struct loci_ports *ports);

/* serve.c: for the poller. */
enum loci_served loci_port_serve(struct loci_ports *ports);
bool loci_port_is_idle(struct loci_ports *ports, struct port_client *client);
/* Its memory is for the next one. */
void loci_port_free_client(struct loci_ports *ports, struct port_client *client);

#endif
