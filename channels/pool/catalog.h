/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CATALOG_H
#define LOCI_CATALOG_H

/* What a pool's directory says, as clients read it: which stores there are, how they were made,
 * which agent has them and where its memory is; and which agents there are. Each agent has all of
 * it in its network memory (pool_directory.h), and clients read it there: nobody is asked.
 *
 * A table of agents and one of stores, of published records (published.h). That of stores has open
 * addressing by the hash of the name; a place that was never used ends a search, one whose store
 * was removed has no name and does not.
 *
 * An agent's own table has the truth about its stores; in the others there are copies, which may be
 * old. A copy names the place and the version in the table of the store's own agent. As long as
 * that place has that version, the store is there as the copy says (loci_catalog_is_current). */

#include <loco/pool.h>

#include "names/endpoint.h"
#include "published.h"

enum loci_kept_kind { LOCI_KEPT_STORE, LOCI_KEPT_MAILBOX };

#define LOCI_CATALOG_NAME 64          /* bytes of a store's name with its end */

struct loci_record {
    uint64_t number;                    /* of the store, in its agent's life; from 1. 0: none */
    uint64_t host;                      /* identity of its agent */
    uint64_t at, version;               /* the place in that agent's own table, and its version */
    uint64_t lost;                      /* whether that agent is out of reach for the table's own */
    uint64_t members;                   /* of its group: the agent and all places */
    uint64_t domain;                    /* of its words: enum loci_domain */
    uint64_t bytes, objects, roots, threads;    /* its options, with defaults put in */
    uint64_t kind;                      /* enum loci_kept_kind; of a mailbox bytes is ring_bytes */
    uint64_t lease, lease_version;      /* as it is lent (fabric/port/lease.h); version 0: it is
                                         * not */
    uint64_t unused[2];
    char name[LOCI_CATALOG_NAME];
    struct loci_memkey key[LOCI_REGIONS_MAX];
};
_Static_assert(sizeof(struct loci_record) == 512, "as long as may be published");

/* HEARD: others speak of it, and it was not met yet. */
enum loci_agent_state { LOCI_AGENT_NONE, LOCI_AGENT_UP, LOCI_AGENT_LOST, LOCI_AGENT_HEARD };

#define LOCI_MACHINE_NAME 64

struct loci_agent_record {
    uint64_t identity;                  /* of its process, another one each time it is started */
    uint64_t node;                      /* of its machine */
    uint64_t state;                     /* for the agent whose table it is: enum loci_agent_state */
    uint64_t since;                     /* when that began, by the clock of its runtime */
    uint64_t carrier;                   /* its fabric, as in struct loci_address */
    uint64_t pid;
    uint64_t born;                      /* grows from one agent of a machine to the next */
    uint64_t unused[5];
    char machine[LOCI_MACHINE_NAME];    /* its name */
    struct loci_tcp_place place[LOCI_TCP_PLACES];   /* where it listens */
};
_Static_assert(sizeof(struct loci_agent_record) == 256, "without holes");

#ifdef LOCO_SIM
#define LOCI_AGENTS_MAX 8               /* so that tables are full now and then */
#define LOCI_CATALOG_RECORDS 16
#else
#define LOCI_AGENTS_MAX 64
#define LOCI_CATALOG_RECORDS (2 * LOCO_POOL_STORES_MAX)
#endif

#define LOCI_CATALOG_AGENT LOCI_PUBLISHED(sizeof(struct loci_agent_record))
#define LOCI_CATALOG_STORE LOCI_PUBLISHED(sizeof(struct loci_record))
#define LOCI_CATALOG_BYTES                                                                        \
    (LOCI_AGENTS_MAX * LOCI_CATALOG_AGENT + LOCI_CATALOG_RECORDS * LOCI_CATALOG_STORE)

/* Where a place is in the memory. */
static inline uint64_t loci_catalog_agent_at(uint64_t i)
{
    return i * LOCI_CATALOG_AGENT;
}

static inline uint64_t loci_catalog_store_at(uint64_t i)
{
    return LOCI_AGENTS_MAX * LOCI_CATALOG_AGENT + i % LOCI_CATALOG_RECORDS * LOCI_CATALOG_STORE;
}

/* The place at which the search for a name begins. */
uint64_t loci_catalog_hash(const char *name);
/* Whether programs that look for the name of both find a: if there are two, they were made while
 * their agents did not reach each other. */
bool loci_catalog_is_before(const struct loci_record *a, const struct loci_record *b);

/* LOCO_ERR_NAME: empty, or too long. `call` is told in the log. */
int loci_catalog_check_name(loco_runtime_t *rt, const char *call, const char *name);

/* The record of the store of that name. LOCO_ERR_NOT_FOUND. */
int loci_catalog_find(loco_runtime_t *rt, struct loci_mem *table, const char *name,
                      struct loci_record *record);
/* Store number i of the table. LOCO_ERR_NOT_FOUND: there is none, but may be behind it;
 * LOCO_ERR_RANGE: there is none behind it that one of this name would be at. */
int loci_catalog_read(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                      struct loci_record *record);
/* Whether the store is there still; `table` is its own agent's. 1, 0, or an error. */
int loci_catalog_is_current(loco_runtime_t *rt, struct loci_mem *table,
                            const struct loci_record *record);

/* Agent number i. LOCO_ERR_NOT_FOUND: there is none, but may be behind it. */
int loci_catalog_read_agent(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                            struct loci_agent_record *record);
/* The agent of that identity; or, with 0, that of the machine of that name, which may be short of
 * its domain. LOCO_ERR_NOT_FOUND. */
int loci_catalog_find_agent(loco_runtime_t *rt, struct loci_mem *table, uint64_t identity,
                            const char *machine, struct loci_agent_record *record);

#endif
