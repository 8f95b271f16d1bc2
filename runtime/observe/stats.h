/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STATS_H
#define LOCI_STATS_H

/* What a process did, in numbers, for its user: LOCO_STATS prints them when the runtime closes, and
 * the component gives them to tools as performance variables of MPI_T. Unlike counters.h, which
 * counts every operation of the network at its price, these are in every build: nothing of a short
 * path counts; whoever wants the calls of a window puts functions that count before the real ones
 * (osc_loco/osc_loco_observe.c), and what is counted here is long anyway: waits, posts, fences.
 *
 * The numbers are one array, which a window may have as well, as far as LOCI_STATS_OF_WINDOW. Any
 * thread adds; each number is exact by itself, no two are of one moment. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"

/* Operations of windows. */
enum loci_stats_op {
    LOCI_STATS_PUT, LOCI_STATS_GET, LOCI_STATS_ACCUMULATE, LOCI_STATS_GET_ACCUMULATE,
    LOCI_STATS_FETCH_AND_OP, LOCI_STATS_COMPARE_AND_SWAP, LOCI_STATS_RPUT, LOCI_STATS_RGET,
    LOCI_STATS_RACCUMULATE, LOCI_STATS_RGET_ACCUMULATE, LOCI_STATS_OPS
};

/* Synchronisation of windows. LOCK_NOCHECK is one of the other locks, too. */
enum loci_stats_sync {
    LOCI_STATS_FENCE, LOCI_STATS_START, LOCI_STATS_COMPLETE, LOCI_STATS_POST, LOCI_STATS_WAIT,
    LOCI_STATS_TEST, LOCI_STATS_LOCK_SHARED, LOCI_STATS_LOCK_EXCLUSIVE, LOCI_STATS_LOCK_ALL,
    LOCI_STATS_LOCK_NOCHECK, LOCI_STATS_UNLOCK, LOCI_STATS_UNLOCK_ALL, LOCI_STATS_FLUSH,
    LOCI_STATS_FLUSH_ALL, LOCI_STATS_FLUSH_LOCAL, LOCI_STATS_FLUSH_LOCAL_ALL, LOCI_STATS_SYNC,
    LOCI_STATS_ATTACH, LOCI_STATS_DETACH, LOCI_STATS_SYNCS
};

/* Operations that have a short way: one copy or one atomic inside the call. */
enum loci_stats_path {
    LOCI_STATS_PATH_PUT,            /* put, rput */
    LOCI_STATS_PATH_GET,            /* get, rget */
    LOCI_STATS_PATH_ACCUMULATE,     /* the four accumulates, fetch_and_op */
    LOCI_STATS_PATH_SWAP,           /* compare_and_swap */
    LOCI_STATS_PATHS
};

/* What a wait that was not over at the first look is for. */
enum loci_wait_kind {
    LOCI_WAIT_OTHER,
    LOCI_WAIT_LOCK,         /* a lock of a window or of the native API */
    LOCI_WAIT_ACCUMULATE,   /* the lock around accumulates that no atomic does */
    LOCI_WAIT_SYNC,         /* the other members: fences, barriers, post and complete */
    LOCI_WAIT_FENCE,        /* the network: writes placed, operations complete */
    LOCI_WAIT_COPY,         /* a peer that copies its user memory for this process */
    LOCI_WAIT_TRANSACTION,  /* another's transaction on a store, or a pause before the next try */
    LOCI_WAIT_RETRY,        /* a pause before a word is swapped again that others have changed */
    LOCI_WAIT_ROOM,         /* room for a request: on its connection, or LOCO_RDMA_OUTSTANDING */
    LOCI_WAIT_KINDS
};

/* What a fence of the runtime (loco_fence) had to do at most. */
enum loci_stats_fence { LOCI_STATS_NOTHING, LOCI_STATS_ACK, LOCI_STATS_PLACE, LOCI_STATS_FENCES };

/* Operations that were not done by the CPU here and now but given to the fabric. */
enum loci_stats_posted {
    LOCI_STATS_WRITES, LOCI_STATS_READS, LOCI_STATS_ATOMICS, LOCI_STATS_POSTS
};

/* Connections for data with processes of other machines, over TCP. Always counted, once for each
 * system call. */
enum loci_stats_tcp {
    LOCI_STATS_TCP_CONNECTIONS,     /* made, by whichever of the two */
    LOCI_STATS_TCP_BYTES_OUT,       /* sent */
    LOCI_STATS_TCP_BYTES_IN,        /* received */
    LOCI_STATS_TCP_SERVED,          /* requests of peers; of a long write, each piece */
    LOCI_STATS_TCP_BY_SERVICE,      /* of these, by the service thread; else by who waits */
    LOCI_STATS_TCPS
};

/* Ports, by which processes go by an agent of their machine (fabric/port/). */
enum loci_stats_port {
    LOCI_STATS_PORT_REQUESTS,       /* posted to the agent */
    LOCI_STATS_PORT_REFUSED,        /* of these, that failed, or were flushed since one had */
    LOCI_STATS_PORT_RINGS,          /* times the agent had to be woken */
    LOCI_STATS_PORT_LOOKUPS,        /* records looked up in directories of other agents */
    LOCI_STATS_PORT_MOVED,          /* lanes, to connections of this process's own */
    LOCI_STATS_PORT_SERVED,         /* as an agent: requests that were taken from clients */
    LOCI_STATS_PORT_SERVED_REFUSED, /* of these, for what was not granted */
    LOCI_STATS_PORTS
};

/* Outstanding requests at a device (move/credit.c). Always counted. */
enum loci_stats_outstanding {
    LOCI_STATS_BOUND,               /* of the process, now; 0: none */
    LOCI_STATS_BOUND_WAITS,         /* posts that were not let through at first */
    LOCI_STATS_BOUND_TRIALS,        /* bounds that LOCO_RDMA_OUTSTANDING=auto has tried */
    LOCI_STATS_OUTSTANDINGS
};

/* Transactions on stores: first what loco_store_stats_t has (loco/store.h), in its order, then what
 * loco_store_scavenge found. */
enum loci_stats_store {
    LOCI_STATS_COMMITS, LOCI_STATS_SINGLE, LOCI_STATS_READ_ONLY, LOCI_STATS_CONFLICTS,
    LOCI_STATS_ABORTED_BY_OTHERS, LOCI_STATS_HELPED, LOCI_STATS_SUSPECTED, LOCI_STATS_RETRIES,
    LOCI_STATS_SCAVENGED_UNDONE, LOCI_STATS_SCAVENGED_BLOCKS, LOCI_STATS_SCAVENGED_BYTES,
    LOCI_STATS_SCAVENGED_CELLS, LOCI_STATS_STORES
};

/* Indexes on stores: what loco_tree_stats_t has (loco/tree.h), in its order. */
enum loci_stats_index {
    LOCI_STATS_LOOKUPS, LOCI_STATS_STALE, LOCI_STATS_WALKED_RIGHT, LOCI_STATS_AHEAD,
    LOCI_STATS_SPLITS, LOCI_STATS_REMOVED, LOCI_STATS_HOT, LOCI_STATS_INDEXES
};

/* Multicasts, all together, added when one is destroyed: as loco_multicast_stats_t has them
 * (loco/multicast.h). */
enum loci_stats_multicast {
    LOCI_STATS_SENT, LOCI_STATS_SEND_BATCHES, LOCI_STATS_NULLS, LOCI_STATS_NULL_BATCHES,
    LOCI_STATS_RECEIVE_BATCHES, LOCI_STATS_DELIVERED, LOCI_STATS_DELIVER_BATCHES,
    LOCI_STATS_PUSHES, LOCI_STATS_SLOTS_FULL, LOCI_STATS_MULTICASTS
};

/* Indices of the numbers; each block is indexed by the enum of its name. */
enum loci_stat {
    LOCI_STAT_CALLS = 0,                                            /* that succeeded */
    LOCI_STAT_BYTES_OUT = LOCI_STAT_CALLS + LOCI_STATS_OPS,         /* to the target */
    LOCI_STAT_BYTES_IN = LOCI_STAT_BYTES_OUT + LOCI_STATS_OPS,      /* from it */
    LOCI_STAT_SYNC = LOCI_STAT_BYTES_IN + LOCI_STATS_OPS,
    LOCI_STAT_SLOW = LOCI_STAT_SYNC + LOCI_STATS_SYNCS,             /* not the short way */
    LOCI_STAT_ERRORS = LOCI_STAT_SLOW + LOCI_STATS_PATHS,           /* calls that failed */
    LOCI_STATS_OF_WINDOW,
    LOCI_STAT_WAITS = LOCI_STATS_OF_WINDOW,
    LOCI_STAT_WAIT_NS = LOCI_STAT_WAITS + LOCI_WAIT_KINDS,
    LOCI_STAT_FENCES = LOCI_STAT_WAIT_NS + LOCI_WAIT_KINDS,
    LOCI_STAT_POSTED = LOCI_STAT_FENCES + LOCI_STATS_FENCES,
    LOCI_STAT_POSTED_BYTES = LOCI_STAT_POSTED + LOCI_STATS_POSTS,
    LOCI_STAT_WINDOWS_MADE = LOCI_STAT_POSTED_BYTES + LOCI_STATS_POSTS,     /* always counted */
    LOCI_STAT_WINDOWS_FREED,
    LOCI_STAT_REGISTRATIONS,        /* of the program's memory with a device; always counted */
    LOCI_STAT_REGISTRATIONS_KEPT,   /* needed, and there already */
    LOCI_STAT_OUTSTANDING,
    LOCI_STAT_TCP = LOCI_STAT_OUTSTANDING + LOCI_STATS_OUTSTANDINGS,
    LOCI_STAT_STORE = LOCI_STAT_TCP + LOCI_STATS_TCPS,
    LOCI_STAT_INDEX = LOCI_STAT_STORE + LOCI_STATS_STORES,
    LOCI_STAT_MULTICAST = LOCI_STAT_INDEX + LOCI_STATS_INDEXES,
    LOCI_STAT_PORT = LOCI_STAT_MULTICAST + LOCI_STATS_MULTICASTS,
    LOCI_STAT_COUNT = LOCI_STAT_PORT + LOCI_STATS_PORTS
};

/* "put", "flush_local_all", "lock"...: for tables, traces and names of variables. */
extern const char *const loci_stats_op_names[LOCI_STATS_OPS];
extern const char *const loci_stats_sync_names[LOCI_STATS_SYNCS];
extern const char *const loci_stats_path_names[LOCI_STATS_PATHS];
extern const char *const loci_wait_kind_names[LOCI_WAIT_KINDS];
extern const char *const loci_stats_fence_names[LOCI_STATS_FENCES];

static inline void loci_stats_add(loci_counter *stats, int which, uint64_t n)
{
    LOCI_COUNT_MANY(stats[which], n);
}

/* Of a number that is no count, but a state. */
static inline void loci_stats_set(loci_counter *stats, int which, uint64_t value)
{
    LOCI_COUNT_IS(stats[which], value);
}

static inline uint64_t loci_stats_get(const loci_counter *stats, int which)
{
    return LOCI_COUNTED(stats[which]);
}

/* Calls of the operations of a path. */
uint64_t loci_stats_path_calls(const loci_counter *stats, enum loci_stats_path path);

struct loco_runtime;

/* As text, for people; returns its length, cut to size - 1. */
size_t loci_stats_text(const struct loco_runtime *rt, char *buf, size_t size);
/* LOCO_STATS: begin to count, and at the end write what there is to where it says, or to stderr
 * where that is not possible. */
void loci_stats_open(struct loco_runtime *rt);
void loci_stats_report(struct loco_runtime *rt);

/* The number that %r stands for in file names: the rank in loco_everyone() where it has several,
 * else in MPI_COMM_WORLD. */
unsigned loci_rank(const struct loco_runtime *rt);
/* A file name from a pattern: %r the rank, %p the process's id, %% a %. Without %r and %p each
 * rank gets a file of its own all the same: ".RANK" goes before the last dot of the name. False:
 * no room, or another letter behind a %. */
bool loci_file_name(const struct loco_runtime *rt, const char *pattern, char *name, size_t size);

#endif
