/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_MESSAGES_H
#define LOCI_POOL_MESSAGES_H

/* What clients and the agent say to each other: on one machine over a local socket that keeps
 * messages apart (SOCK_SEQPACKET), between two by a connection as net.h has it. A client asks one
 * thing at a time, and gets one answer. The local socket is in a folder of its user alone, and each
 * side asks the kernel for the other's user: what comes is of a process that could do as much by a
 * debugger. All of it is checked all the same. */

#include <stdbool.h>

#include <loco/pool.h>

#include "catalog.h"
#include "fabric/port/lease.h"
#include "fabric/port/port.h"
#include "net.h"

#define LOCI_POOL_MAGIC UINT32_C(0x6c6f6367)
#define LOCI_POOL_VERSION 5u
#define LOCI_POOL_TEXT 256

enum loci_pool_ask {
    LOCI_POOL_HELLO = 1,        /* by which fabric does it move data? */
    LOCI_POOL_ENTER,            /* a place, for the process of `address` */
    LOCI_POOL_MAKE,             /* a store or a mailbox, unless it is there */
    LOCI_POOL_REMOVE,           /* the same */
    LOCI_POOL_LEAVE,            /* the process leaves its place; there is no answer */
    LOCI_POOL_MEET,             /* the process of `address` has a place by way of its own agent,
                                 * and is about to connect */
    LOCI_POOL_STATUS,           /* statistics */
    LOCI_POOL_STOP,             /* the agent is to end */
    LOCI_POOL_AGENTS,           /* agent number `bytes` of those there are, and how many stores it
                                 * has; LOCO_ERR_NOT_FOUND: none, LOCO_ERR_RANGE: nor behind it */
    LOCI_POOL_REACH,            /* a place at the agent of identity `bytes`, by way of this one, and
                                 * its directory; and with a name what GRANT gives, if that can be
                                 * had now. LOCO_ERR_UNSUPPORTED: there are no ports;
                                 * LOCO_ERR_AGAIN: not yet */
    LOCI_POOL_GRANT             /* the memory of the store `name`, number `objects`, of the agent of
                                 * identity `bytes`, by the same way. LOCO_ERR_AGAIN: it is not
                                 * known here yet */
};

struct loci_pool_request {
    uint32_t magic, version;
    uint32_t ask;
    uint32_t kind;              /* what is made: enum loci_kept_kind */
    uint64_t bytes, objects, roots, threads;
    char name[64];
    struct loci_address address;
    uint32_t give[LOCI_REGIONS_MAX];    /* of GRANT: what is not wanted any more, with 1 added */
};

struct loci_pool_reply {
    uint32_t magic, version;
    int32_t status;             /* loco_status */
    int32_t place, places;
    int32_t pid;
    char fabric[32];
    struct loci_address address;
    struct loci_memkey directory;
    struct loci_lease_board board;      /* of which the client is holder `place` */
    uint64_t identity;          /* the agent's */
    uint64_t secret[2];         /* the pool's, of several machines; for local clients alone */
    int32_t several;            /* machines */
    int32_t near;               /* clients need no device: they go by ports */
    loco_agent_stats_t stats;
    struct loci_agent_record agent;
    uint64_t agent_stores;
    struct loci_port_welcome ports;     /* of REACH; */
    uint32_t grant[LOCI_REGIONS_MAX];   /* of the directory, the board, and the own line there; or
                                         * of each region of the store */
    uint32_t store[LOCI_REGIONS_MAX];   /* of REACH, the same of the store, */
    int32_t has_store;                  /* if that was granted, too */
    char text[LOCI_POOL_TEXT];  /* why not, in words */
};

/* Where the agent of that pool listens. Its folder is made where `make` says so, for this user
 * alone. LOCO_ERR_NAME, LOCO_ERR_SYSTEM (the log says why). */
struct loci_pool_path {
    char socket[108], lock[112];
};
int loci_pool_path(loco_runtime_t *rt, const char *call, const char *pool, bool make,
                   struct loci_pool_path *path);

/* What LOCI_POOL_HELLO asks for, as the agent has written it into its lock's file. So who comes
 * need not wait for an answer. It is of the agent that listens now if that has the pid. */
struct loci_pool_sign {
    uint32_t magic, version;
    int32_t pid;
    int32_t several, near;
    char fabric[32];
    uint32_t end;               /* the magic again */
};
bool loci_pool_put_sign(int lock_fd, const struct loci_pool_reply *hello);
/* False: there is none of who is at the other end: ask. */
bool loci_pool_read_sign(const char *lock, int fd, struct loci_pool_reply *hello);

/* A connection to the agent: its descriptor, or LOCO_ERR_NOT_FOUND, LOCO_ERR_UNSUPPORTED,
 * LOCO_ERR_SYSTEM; the log says why. `rt` may be NULL. */
int loci_pool_connect(loco_runtime_t *rt, const char *call, const char *pool);
/* The same, and where that is. */
int loci_pool_connect_by(loco_runtime_t *rt, const char *call, const char *pool,
                         struct loci_pool_path *path);
/* Whether the process at the other end is of this user. */
bool loci_pool_is_own(int fd);
/* Say that the process leaves. */
void loci_pool_leave(int fd);
/* Ask, and wait for the answer. LOCO_ERR_PEER_DEAD: the agent has ended. Its own status is in the
 * reply. */
int loci_pool_ask(loco_runtime_t *rt, int fd, struct loci_pool_request *request,
                  struct loci_pool_reply *reply);
/* The same of an agent of another machine, which may be cut off: its answer comes while
 * is_there(ctx), which is asked each second. */
int loci_pool_ask_far(loco_runtime_t *rt, int fd, const struct loci_pool_session *session,
                      struct loci_pool_request *request, struct loci_pool_reply *reply,
                      bool (*is_there)(void *ctx), void *ctx);

#endif
