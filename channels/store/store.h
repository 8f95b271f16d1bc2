/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_H
#define LOCI_STORE_H

/* Stores: what their parts share. An object is one word, its cell, and a commit is Harris and
 * Fraser's multi-word compare-and-swap over cells, with values that are copied, never changed.
 *
 *   store_life.c     making and destroying them         store_hosted.c   whose members change
 *   store_cell.c     what an object's word says; deciding and helping the transactions of others
 *   store_log.c      log slots: what a transaction is about, and whether it is decided
 *   store_value.c    blocks: values with what tells that they are whole
 *   store_memory.c   who has which block and which cell: stock, pools, fresh memory
 *   store_scavenge.c, store_survey.c   what the dead have had
 *   store_trace.c    what traces show of them
 *   tx.c             a transaction until its commit          tx_commit.c   and that
 *   tx_item.c        the objects of a transaction; looking at them: tx_look.c, many: tx_many.c
 *   tx_parts.h       what benchmarks leave out of one
 *   tx_wait.c        its waits for the network
 *
 * Words. All are changed by atomics of the endpoint's one domain, but for those told below.
 *
 *   cell     {0, version 31, block 32}   plain: the object is what is in that block of its host;
 *                                        block 0: there is no object
 *            {1, slot 16, seq 47}        owned by transaction `seq` of that log slot
 *            A cell is owned once for each (slot, seq), and a version goes up by one at each change
 *            and goes on when the cell is used again: no word comes twice within 2^31 changes.
 *   status   {seq 62, state 2}           of a slot's youngest transaction
 *
 * Who writes what. Anybody swaps cells: from plain to owned only the owner of that transaction
 * does; from owned to plain anybody, as the status says. A status is moved to another state by
 * anybody who suspects (ABORTED alone), to another seq by its owner alone, once all its swaps have
 * come back and no cell names the old seq. A block is written by who has it (store_memory.c) and by
 * nobody while a cell names it. The entries of a log slot are written by its owner while it is
 * decided. */

#include <pthread.h>
#include <stddef.h>

#include <loco/store.h>
#include <loco/tx.h>

#include "move/rma.h"
#include "names/hosted.h"
#include "observe/observe.h"
#include "wait.h"

/* ---- regions: at each host, and the last at each member ---- */

enum { LOCI_STORE_HEAD, LOCI_STORE_CELLS, LOCI_STORE_PAGES, LOCI_STORE_BLOCKS, LOCI_STORE_LINKS,
       LOCI_STORE_CLIENTS,
       LOCI_STORE_REGIONS };

#define LOCI_STORE_UNIT 64u             /* bytes; blocks are numbered by units, from 1 */
#define LOCI_STORE_PAGE 4096u
#define LOCI_STORE_CLASSES 24
#define LOCI_STORE_HEADER 32u           /* bytes of a block before the value */

/* The head: counters, and the first of each pool (store_memory.c). Then the log slots, and a word
 * for each rank: its process has gone, and nothing that it has posted arrives here any more. */
#define LOCI_STORE_NEXT_PAGE 0u
#define LOCI_STORE_NEXT_CELL 64u
#define LOCI_STORE_SCAVENGER 128u       /* rank + 1 of who scavenges here */
#define LOCI_STORE_POOLS 192u           /* a word for each class, and one for cells */
#define LOCI_STORE_SLOTS 448u
_Static_assert(LOCI_STORE_POOLS + 8 * (LOCI_STORE_CLASSES + 1) <= LOCI_STORE_SLOTS, "pools");

/* ---- words ---- */

#define LOCI_CELL_OWNED (UINT64_C(1) << 63)
#define LOCI_CELL_SEQ_BITS 47
#define LOCI_CELL_SEQ ((UINT64_C(1) << LOCI_CELL_SEQ_BITS) - 1)
#define LOCI_CELL_VERSIONS (UINT64_C(1) << 31)

static inline bool loci_cell_is_owned(uint64_t word)
{
    return (word & LOCI_CELL_OWNED) != 0;
}

static inline uint64_t loci_cell_owned(uint64_t slot, uint64_t seq)
{
    return LOCI_CELL_OWNED | slot << LOCI_CELL_SEQ_BITS | seq;
}

static inline uint64_t loci_cell_slot(uint64_t word)
{
    return (word & ~LOCI_CELL_OWNED) >> LOCI_CELL_SEQ_BITS;
}

static inline uint64_t loci_cell_seq(uint64_t word)
{
    return word & LOCI_CELL_SEQ;
}

static inline uint64_t loci_cell_block(uint64_t word)
{
    return word & UINT32_MAX;
}

static inline uint64_t loci_cell_version(uint64_t word)
{
    return word >> 32 & (LOCI_CELL_VERSIONS - 1);
}

/* What comes after a plain word, with that block. */
static inline uint64_t loci_cell_next(uint64_t word, uint64_t block)
{
    return (loci_cell_version(word) + 1) % LOCI_CELL_VERSIONS << 32 | block;
}

/* States of a transaction. A slot that was never used is decided: of transaction 0. */
enum loci_tx_state { LOCI_TX_ABORTED, LOCI_TX_ACTIVE, LOCI_TX_CHECKING, LOCI_TX_COMMITTED };

static inline uint64_t loci_status(uint64_t seq, enum loci_tx_state state)
{
    return seq << 2 | (uint64_t)state;
}

static inline uint64_t loci_status_seq(uint64_t status)
{
    return status >> 2;
}

static inline enum loci_tx_state loci_status_state(uint64_t status)
{
    return (enum loci_tx_state)(status & 3);
}

/* ---- log slots ---- */

struct loci_log_entry {
    loco_object_t object;
    uint64_t old, new;                  /* plain words of its cell */
};

/* As it lies at its host. The sum covers seq and entries: who reads them while they are written for
 * another seq sees that it does not fit. */
struct loci_log_slot {
    uint64_t status;
    uint64_t n;
    uint64_t sum;
    uint64_t heartbeat;                 /* suspicion begins anew when it changes */
    struct loci_log_entry entry[LOCO_TX_WRITES_MAX];
    uint64_t pad[4];                    /* to a line */
};
_Static_assert(sizeof(struct loci_log_slot) % 64 == 0, "slots have lines of their own");

/* ---- the store ---- */

struct loci_client;

struct loco_store {
    /* Nobody changes these. */
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int nhosts;
    int *host;                          /* ranks, by number of host */
    int *number;                        /* numbers of hosts, by rank; -1: it is none */
    bool *is_host;                      /* by rank: the endpoint's givers */
    uint64_t cells, pages, blocks;      /* at each host; blocks: the units */
    uint64_t roots, roots_here;         /* in all; at each host, rounded up: the first cells */
    uint64_t chunk;                     /* pages that are taken at once, at most */
    int threads;
    bool sums;                          /* blocks may be written by a network: they have sums */
    bool hosted;                        /* store_hosted.c: members come and go */
    bool *swept;                        /* by rank, at a host: what it left is in pools */
    void (*gone)(void *ctx);            /* nullable: nothing reaches its memory any more */
    void *gone_ctx;
    /* Of one that may be withdrawn (store_hosted.c); constant once a handle is open, but for the
     * words: */
    bool ends;
    _Atomic uint64_t ended;             /* no call begins any more */
    _Atomic int64_t until;              /* loci_now(): then ask whether it has ended; 0: never */
    int (*ask)(void *ctx);              /* for longer: sets `ended` or `until`, or an error */
    void *ask_ctx;

    pthread_mutex_t scavenging;         /* of the next; held while this process does */
    struct loci_client *scavenger;      /* without a stock; NULL: it never did */
    pthread_mutex_t lock;               /* of the rest */
    struct loci_client **client;        /* by thread; NULL: never used */
    loco_store_stats_t closed;          /* what handles have done that are closed */
    loco_tx_t *open;                    /* handles, for the statistics */
    _Atomic uint8_t **page_class;       /* by host: class + 1 of its pages, as far as known here */
    _Atomic unsigned told_full;         /* bits: 1 of memory for values, 2 of places for objects */
};

/* ---- statistics: counted by one thread, read by others ---- */

/* The runtime's number of it (LOCO_STATS), too, if that is wanted. */
static inline void loci_store_count(struct loco_store *s, loco_store_stats_t *stats,
                                    enum loci_stats_store which)
{
    uint64_t *number = (uint64_t *)(void *)stats + which;

    atomic_store_explicit((_Atomic uint64_t *)number, *number + 1, memory_order_relaxed);
    loci_stat(s->rt, LOCI_STAT_STORE + (int)which, 1);
}
_Static_assert(offsetof(loco_store_stats_t, retries) == 8 * LOCI_STATS_RETRIES
               && sizeof(loco_store_stats_t) == 8 * LOCI_STATS_SCAVENGED_UNDONE,
               "numbers of the same order");

/* ---- objects ---- */

/* {host's number + 1, cell}: never 0. */
#define LOCI_OBJECT_CELL_BITS 40

static inline loco_object_t loci_object(int host, uint64_t cell)
{
    return (uint64_t)(host + 1) << LOCI_OBJECT_CELL_BITS | cell;
}

static inline int loci_object_host(loco_object_t object)
{
    return (int)(object >> LOCI_OBJECT_CELL_BITS) - 1;
}

static inline uint64_t loci_object_cell(loco_object_t object)
{
    return object & ((UINT64_C(1) << LOCI_OBJECT_CELL_BITS) - 1);
}

static inline bool loci_object_is(const struct loco_store *s, loco_object_t object)
{
    return object >> LOCI_OBJECT_CELL_BITS <= (uint64_t)s->nhosts && loci_object_host(object) >= 0
           && loci_object_cell(object) < s->cells;
}

/* Roots come first at each host, by turns. */
static inline bool loci_object_is_root(const struct loco_store *s, loco_object_t object)
{
    return loci_object_cell(object) * (uint64_t)s->nhosts + (uint64_t)loci_object_host(object)
           < s->roots;
}

static inline struct loci_mem *loci_store_mem(const struct loco_store *s, int host, int region)
{
    return loci_endpoint_mem(s->ep, s->host[host], region);
}

static inline struct loci_mem *loci_cell_mem(const struct loco_store *s, loco_object_t object)
{
    return loci_store_mem(s, loci_object_host(object), LOCI_STORE_CELLS);
}

static inline uint64_t loci_cell_at(loco_object_t object)
{
    return 8 * loci_object_cell(object);
}

static inline uint64_t loci_block_at(uint64_t block)
{
    return (block - 1) * LOCI_STORE_UNIT;
}

/* The slot of a client at a host: of its number and that of the host. */
static inline uint64_t loci_slot_of(const struct loco_store *s, int client, int host)
{
    return (uint64_t)client * (uint64_t)s->nhosts + (uint64_t)host;
}

static inline int loci_slot_host(const struct loco_store *s, uint64_t slot)
{
    return (int)(slot % (uint64_t)s->nhosts);
}

static inline int loci_slot_client(const struct loco_store *s, uint64_t slot)
{
    return (int)(slot / (uint64_t)s->nhosts);
}

/* The rank whose client has it: its group's size at least, if there is no such slot. */
static inline int loci_slot_rank(const struct loco_store *s, uint64_t slot)
{
    return loci_slot_client(s, slot) / s->threads;
}

static inline uint64_t loci_slot_at(const struct loco_store *s, uint64_t slot)
{
    return LOCI_STORE_SLOTS
           + (uint64_t)loci_slot_client(s, slot) * sizeof(struct loci_log_slot);
}

static inline uint64_t loci_gone_at(const struct loco_store *s, int members, int rank)
{
    return LOCI_STORE_SLOTS
           + (uint64_t)members * (uint64_t)s->threads * sizeof(struct loci_log_slot)
           + 8 * (uint64_t)rank;
}

/* Of a hosted store: of a rank whose process is not known here nobody says that. */
static inline bool loci_rank_is_dead(const struct loco_store *s, int rank)
{
    return atomic_load_explicit(&s->rt->deaths, memory_order_relaxed) != 0
           && s->ep->group.peer[rank] != LOCI_VACANT
           && !loci_peer_alive(s->rt, s->ep->group.peer[rank]);
}

/* Where a host has died its memory cannot be reached any more, unless all members have mapped it.
 * If only some had, they would decide what others cannot see. Of a hosted store nobody knows who
 * they are. */
static inline bool loci_host_is_lost(const struct loco_store *s, int host)
{
    return loci_rank_is_dead(s, s->host[host])
           && (s->sums || s->hosted
               || loci_mem_ptr(loci_store_mem(s, host, LOCI_STORE_CELLS)) == NULL);
}

#endif
