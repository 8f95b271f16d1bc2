/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_MEMORY_H
#define LOCI_STORE_MEMORY_H

/* Who has which block and which cell: see store_memory.c. */

#include "store_value.h"

/* What a client has, as it lies in its process's network memory, for who looks for what nobody has
 * (store_scavenge.c). An entry: {kind 2, class 6, host 16, count 8, first 32}; 0: none. */
#define LOCI_STOCK_ENTRIES 1015u
struct loci_stock {
    uint64_t turn;                      /* odd: what it has changes */
    uint64_t stamps;                    /* of a hosted store: as in struct loci_client; */
    uint64_t ask;                       /* and a question of whoever scavenges: loci_stock_show() */
    uint64_t pad[5];
    uint64_t entry[LOCI_STOCK_ENTRIES];
    uint64_t end;
};
_Static_assert(sizeof(struct loci_stock) == 8192, "8 KiB a client, as store.h says");

enum loci_stock_kind { LOCI_STOCK_NONE, LOCI_STOCK_BLOCKS, LOCI_STOCK_CELLS };

static inline uint64_t loci_stock_entry(enum loci_stock_kind kind, int class, int host,
                                        uint64_t count, uint64_t first)
{
    return (uint64_t)kind << 62 | (uint64_t)class << 56 | (uint64_t)host << 40 | count << 32
           | first;
}

static inline enum loci_stock_kind loci_stock_kind(uint64_t entry)
{
    return (enum loci_stock_kind)(entry >> 62);
}

static inline int loci_stock_class(uint64_t entry)
{
    return (int)(entry >> 56 & 63);
}

static inline int loci_stock_host(uint64_t entry)
{
    return (int)(entry >> 40 & 0xffff);
}

static inline uint64_t loci_stock_count(uint64_t entry)
{
    return entry >> 32 & 0xff;
}

static inline uint64_t loci_stock_first(uint64_t entry)
{
    return entry & UINT32_MAX;
}

/* Where the stock of that thread of a member is. In its own memory; but of a hosted store at a
 * host, so that it is there for who takes the member's place; and behind it a copy, for who cannot
 * read the stock in order since its client always is within a turn. */
static inline struct loci_mem *loci_stock_mem(const struct loco_store *s, int rank, int thread,
                                              uint64_t *at)
{
    uint64_t number = s->hosted ? (uint64_t)rank * (uint64_t)s->threads : 0;

    *at = (number + (uint64_t)thread) * (s->hosted ? 2 : 1) * sizeof(struct loci_stock);
    return loci_endpoint_mem(s->ep, s->hosted ? s->host[rank % s->nhosts] : rank,
                             LOCI_STORE_CLIENTS);
}

/* In the link of what is in a pool, beside the next one: no block of an object has it there. */
#define LOCI_IN_POOL (UINT64_C(1) << 63)

#define LOCI_STOCK_RUN 255u             /* blocks or cells of an entry, at most */

/* A client: what stays of a handle when it is closed, for the next one. */
struct loci_client {
    struct loco_store *s;
    int number;                         /* of all clients of the store */
    bool in_use;
    struct loci_stock *stock;           /* its own, mapped; */
    struct loci_mem *far;               /* or of another machine: a copy of what is there, */
    uint64_t far_at;
    loco_ack_t told;                    /* to which this has gone */
    const void *teller;                 /* by that thread */
    uint64_t turn;                      /* as in the stock */
    uint64_t answered;                  /* the last of its questions */
    uint64_t stamps;                    /* written so far */
    uint64_t *status;                   /* by host: of its log slot there, as it left it, */
    bool *knows_status;                 /* once it has looked */
    /* Lists of entries, by host and class (the last: cells); an index + 1, or 0. */
    uint16_t *list;
    uint16_t next[LOCI_STOCK_ENTRIES];
    uint16_t unused;                    /* entries that are none */
    uint16_t in_stock;                  /* entries that are some */
};

/* Of one of this process's threads; -1: of none, and without a stock, for loci_pool_push. */
int loci_client_open(struct loco_store *s, int thread, struct loci_client **client);
void loci_client_free(struct loci_client *client);

/* Of a hosted store: a copy of the stock, for whoever has asked since the last one. */
void loci_stock_show(struct loci_client *c);

/* Of a stock on another machine. What changes in it is written there as well, by the lane that the
 * client's other operations take: so there it is as it was here at some time, together with all
 * that the client has done until then, and nothing waits for that. */
void loci_stock_tell(struct loci_client *c, uint64_t at, uint64_t word);
void loci_stock_begin_far(struct loci_client *c);
void loci_stock_end_far(struct loci_client *c);

/* Around whatever changes who has what. */
static inline void loci_stock_begin(struct loci_client *c)
{
    loci_store64(&c->stock->turn, ++c->turn);
    if (c->far != NULL)
        loci_stock_begin_far(c);
}

static inline void loci_stock_end(struct loci_client *c)
{
    loci_store64(&c->stock->turn, ++c->turn);
    if (c->far != NULL)
        loci_stock_end_far(c);
    if (c->s->hosted && loci_load64(&c->stock->ask) != c->answered)
        loci_stock_show(c);
}

/* No two are the same in the life of the store: who takes the place of another goes on where that
 * has stopped. */
static inline uint64_t loci_client_stamp(struct loci_client *c)
{
    uint64_t stamp = (uint64_t)(c->number + 1) << 46 | ++c->stamps;

    if (c->s->hosted && c->stock != NULL)
        loci_store64(&c->stock->stamps, c->stamps);
    if (c->far != NULL)
        loci_stock_tell(c, offsetof(struct loci_stock, stamps), c->stamps);
    return stamp;
}

/* Take a block of that class, or a cell, at a host: it stays in the stock, in entry *at by itself,
 * until it is given away. Between begin and end. LOCO_ERR_FULL, LOCO_ERR_PEER_DEAD. */
int loci_block_take(struct loci_client *c, int host, int class, unsigned *at, uint64_t *block);
int loci_cell_take(struct loci_client *c, int host, unsigned *at, uint64_t *cell);
/* It was not used: free again. */
void loci_stock_put_back(struct loci_client *c, unsigned at);
/* What is in that entry is an object's now; the entry is free. */
void loci_stock_give(struct loci_client *c, unsigned at);
/* The block of a plain word, which this client's transaction has moved on from; or a cell that is
 * no object's. Between begin and end. LOCO_ERR_PEER_DEAD: it is lost with its host. */
int loci_block_gain(struct loci_client *c, loco_object_t object, uint64_t word);
int loci_cell_gain(struct loci_client *c, loco_object_t object);

/* Of what nobody has: a block, or a cell's number + 1 with list LOCI_STORE_CLASSES, into the pool
 * of its host. */
int loci_pool_push(struct loci_client *c, int host, int list, uint64_t number);
/* Pages have blocks of that class from now on. */
int loci_pages_say_class(struct loco_store *s, int host, uint64_t page, uint64_t n, int class);

#endif
