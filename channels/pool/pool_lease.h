/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_LEASE_H
#define LOCI_POOL_LEASE_H

/* A client's lease of what an agent keeps (fabric/port/lease.h): for as long as it has stores of
 * that agent open, whichever way it reaches them.
 *
 * The agent lends each store, under a number and a version that its record in the directory says,
 * and withdraws it when it is removed. A client takes the lease before it opens the first store,
 * renews it now and then, and releases it when it has none open. When it finds a store withdrawn it
 * has that end (store/store_hosted.c), and only then says that it has seen it: so the agent uses
 * the memory again when every client has ended the store, or is gone, or cannot reach it any more.
 *
 *   a client that             the agent
 *   runs                      waits for a renewal, a third of a lease
 *   maps the memory and is    waits until it goes on, or dies: nothing keeps a process from memory
 *   stopped                   that it has mapped but itself
 *   has connections of its    cuts it off after two leases: what it posts when it goes on fails,
 *   own and is stopped        and it is told LOCO_ERR_PEER_DEAD
 *   goes by ports and is      has the client's own agent revoke the grant after two leases: what it
 *   stopped                   posts when it goes on is refused, with LOCO_ERR_STATE
 *
 * Who is stopped between two calls, and does not map the memory, learns it by its next call before
 * anything is posted: that finds the lease over, and renews it. */

#include "fabric/port/lease.h"
#include "store/store_life.h"

struct loci_pool_lease;

/* A store that is open. */
struct loci_pool_lent {
    struct loci_pool_lent *next;
    struct loci_pool_lease *lease;      /* NULL: it was not lent */
    loco_store_t *store;
    uint32_t record;
    uint64_t version;
    bool over;                          /* it was withdrawn, and has ended */
};

struct loci_pool_lease {
    struct loco_runtime *rt;
    int peer;                           /* the agent; -1: there is none */
    pthread_mutex_t lock;               /* of what follows */
    struct loci_lease lease;
    bool held;
    bool dropped;                       /* a store was closed since all was known to be placed */
    struct loci_pool_lent *lent;
};

/* The agent is an index of this runtime's table that the caller uses until it is closed. */
int loci_pool_lease_open(struct loco_runtime *rt, int peer, const struct loci_lease_board *board,
                         int holder, struct loci_pool_lease *lease);
/* No store is open. */
void loci_pool_lease_close(struct loci_pool_lease *lease);
/* That store is used from now on, of which no handle is open yet. LOCO_ERR_AGAIN: it was withdrawn
 * since its record was read. */
int loci_pool_lease_use(struct loci_pool_lease *lease, loco_store_t *store, uint32_t record,
                        uint64_t version, struct loci_pool_lent *lent);
/* It is used no more: no handle is open. Nothing, if it was not lent. */
void loci_pool_lease_drop(struct loci_pool_lent *lent);
/* Now and then, at least three times in a lease; any thread that is in no call of a store. */
int loci_pool_lease_renew(struct loci_pool_lease *lease);

#endif
