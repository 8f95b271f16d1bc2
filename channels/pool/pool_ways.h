/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_WAYS_H
#define LOCI_POOL_WAYS_H

/* A client of a pool: which agents it has a place at, and how it reaches their memory.
 *
 * That of another machine is reached by ports, if the agent of this machine has some for this
 * process: then that asks for the place, and this process neither connects nor is connected to.
 * Else the process calls the other agent and has connections of its own, as it has from the
 * beginning to an agent of whose mailboxes it opens one: those ring. To have something made or
 * removed there it calls that agent for as long as it asks. */

#include <pthread.h>

#include "catalog.h"
#include "messages.h"
#include "net.h"
#include "pool.h"
#include "pool_lease.h"

/* Memory of a store at another agent that this process may reach by its ports. */
struct loci_pool_grant {
    struct loci_pool_grant *next;
    uint64_t number;            /* of the store */
    int users;                  /* who has it open, or opens it; 0: may be given back */
    uint32_t grant[LOCI_REGIONS_MAX];   /* with 1 added; 0: none */
};

/* An agent that this process has a place at: that of its machine, or one of another machine that it
 * has stores of. */
struct loci_pool_host {
    struct loci_pool_host *next;
    struct loci_agent_record agent;     /* of another machine */
    bool by_port;               /* it has the place by way of its own agent, and no connection: */
    struct loci_pool_grant *grants;
    int ngrants;
    uint64_t identity;
    int fd;                     /* the agent sees by its end that the place is free; -1: none */
    int peer;                   /* of which this is a holder and a user; -1: not met yet */
    int place, places;
    struct loci_mem table;      /* its directory */
    struct loci_pool_lease lease;       /* of the stores that it keeps */
    uint64_t posted;            /* by port, so far */
    bool stays;                 /* it does not move over */
    struct loci_pool_session session;   /* of another machine */
};

struct loci_pool_opened;

struct loco_pool {
    loco_runtime_t *rt;
    char name[LOCO_POOL_NAME_MAX];
    struct loci_pool_host own;            /* the agent of this machine */
    bool several;               /* there are others, */
    uint64_t secret[2];         /* and what they want to be told */
    pthread_mutex_t asking;     /* one question at a time; and the list of hosts: */
    struct loci_pool_host *far;
    bool ports;                 /* the runtime's are this pool's */
    struct loci_worker *mover;  /* NULL: nobody goes by them */
    pthread_cond_t ends;        /* with `asking`: the mover is to end, */
    bool closes;                /* for the pool is closed */
    struct loci_worker *renewer;        /* NULL: no store was opened yet */
    pthread_mutex_t renewing;   /* of who is added to `far`, too; and of the next: */
    pthread_cond_t renewer_ends;
    bool renewed_enough;        /* the pool is closed */
    pthread_mutex_t lock;       /* of the list */
    struct loci_pool_opened *opened;
};

/* What the agent of this machine has said of itself when it gave a place. */
int loci_pool_meet(loco_pool_t *pool, struct loci_pool_host *h,
                   const struct loci_pool_reply *reply);
/* Nothing there is open any more. */
void loci_pool_leave_host(loco_pool_t *pool, struct loci_pool_host *h);
/* Whether a place is vacant soon, for the agent is cleaning up after those who had it: then ask
 * again. Waits a moment. */
bool loci_pool_comes_free(loco_pool_t *pool, const struct loci_pool_reply *reply, int64_t begun,
                          bool *told);
/* Under `asking`: that agent, at which the process has a place then. `wanted`: what is about to be
 * opened there, nullable. LOCO_ERR_PEER_DEAD, and what is told in the log. */
int loci_pool_host_of(loco_pool_t *pool, const struct loci_agent_record *agent,
                      const struct loci_record *wanted, struct loci_pool_host **out);
/* A question to it, under `asking`. */
int loci_pool_ask_host(loco_pool_t *pool, struct loci_pool_host *h,
                       struct loci_pool_request *request, struct loci_pool_reply *reply);

/* What is to be opened there can be reached: *grant is to be given back then, and NULL where
 * nothing had to be granted. LOCO_ERR_AGAIN: the agent of this machine does not know it yet, or
 * what is known of it is old. */
int loci_pool_grant(loco_pool_t *pool, struct loci_pool_host *h, const struct loci_record *record,
                    struct loci_pool_grant **grant);
void loci_pool_ungrant(loco_pool_t *pool, struct loci_pool_grant *grant);
/* The process has connections of its own to it from now on. */
int loci_pool_go_straight(loco_pool_t *pool, struct loci_pool_host *h);
/* Leases are renewed from now on, until the pool is closed: no store is open any more. */
void loci_pool_start_renewer(loco_pool_t *pool);
void loci_pool_stop_renewer(loco_pool_t *pool);
/* The pool is closed: nobody moves over any more. */
void loci_pool_stop_mover(loco_pool_t *pool);

#endif
