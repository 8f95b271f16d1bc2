/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_AGENT_H
#define LOCI_AGENT_H

/* An agent, for its own files alone.
 *
 * Two threads. The first, "loco-agent", has the sockets: it answers what takes no time, and gives
 * places away. What takes longer are errands (threads/errand.h), which a second thread runs:
 * making and removing stores, and cleaning up places. So nobody waits for a place because somebody
 * else has a store of 100 GiB made.
 *
 * Who writes what: the list of stores and all in it is the errands' thread's; the seats are under
 * `lock`; connections are the first thread's. An errand that answers a client puts the answer into
 * the list `done`, under the lock, and the first thread sends it, if the client is still there. */

#include <pthread.h>
#include <stdatomic.h>

#include "pool_directory.h"
#include "messages.h"
#include "pool.h"
#include "store/store_life.h"
#include "threads/errand.h"

#define LOCI_AGENT_PLACES 64
#define LOCI_AGENT_PLACES_MOST 1024

enum loci_seat_state { LOCI_SEAT_VACANT, LOCI_SEAT_TAKEN, LOCI_SEAT_LEFT };

struct loci_seat {
    enum loci_seat_state state;
    uint64_t number;                    /* of who has it, or had it last; from 1 */
    int peer;                           /* of which the seat is a holder, unless vacant */
};

struct loci_kept {                      /* a store */
    struct loci_kept *next;
    loco_store_t *store;
    char name[LOCI_CATALOG_NAME];
    uint64_t bytes;                     /* of all its memory */
    uint64_t *users;                    /* once it is removed, by place: who may use it still; 0:
                                           nobody */
};

/* A question that an errand answers. */
struct loci_agent_job {
    struct loci_errand errand;          /* first */
    struct loco_agent *agent;
    uint64_t client;                    /* its number */
    struct loci_pool_request request;
    struct loci_pool_reply reply;
    struct loci_agent_job *next;        /* in `done` */
};

struct loco_agent {
    loco_runtime_t *rt;
    char pool[LOCO_POOL_NAME_MAX];
    uint64_t memory;                    /* the option */
    int places;
    struct loci_pool_path path;
    int lock_fd, listen_fd, epoll_fd, event_fd;
    struct loci_mem table;              /* the directory's, */
    struct loci_directory directory;    /* which is the errands' thread's */
    struct loci_worker *worker;
    struct loci_errands errands;
    struct loci_agent_client *clients;  /* the first thread's, as the next */
    uint64_t connections;               /* so far */

    pthread_mutex_t lock;               /* what follows, up to the blank line */
    bool stops;
    struct loci_seat *seat;
    uint64_t attached;                  /* numbers of seats so far */
    struct loci_agent_job *done;
    void (*asked_to_stop)(void *ctx);   /* nullable: LOCI_POOL_STOP came */
    void *stop_ctx;

    _Atomic uint64_t clients_now, leaving, died, cleaned, stores, removed, bytes, refused;

    struct loci_kept *kept;             /* the errands' thread's */
};

/* agent.c: wake the first thread. */
void loci_agent_wake(struct loco_agent *a);
/* An errand has its answer. */
void loci_agent_done(struct loci_agent_job *job);

/* For the tool: somebody asks the agent to stop. In its first thread. */
void loci_agent_on_stop(loco_agent_t *a, void (*asked)(void *ctx), void *ctx);

/* agent_stores.c: errands. Each is freed when it is over. */
void loci_agent_send_job(struct loco_agent *a, uint64_t client,
                         const struct loci_pool_request *request);
/* The seat was left: it is vacant when that is over. LOCO_ERR_NO_MEMORY. */
int loci_agent_send_left(struct loco_agent *a, int place);
/* All stores, with the agent. */
void loci_agent_free_stores(struct loco_agent *a);

#endif
