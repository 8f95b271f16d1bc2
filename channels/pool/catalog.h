/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CATALOG_H
#define LOCI_CATALOG_H

/* The catalog of a pool: which stores there are, how they were made, and where their memory is.
 * It lies in the agent's network memory, and clients read it there: nobody is asked.
 *
 * A table of records, open addressing by the hash of the name. The agent alone writes, one thread
 * of it at a time. A record's version is odd while it is written; a reader takes a record whose
 * version is even and the same before and after, and whose sum fits. A place that was never used
 * has version 0 and ends a search; one whose store was removed has no name, and does not. Each
 * record that is written has a number of its own, so a name that comes again is another
 * store. */

#include <loco/pool.h>

#include "names/endpoint.h"

#define LOCI_CATALOG_NAME 64          /* bytes of a store's name with its end */

struct loci_record {
    uint64_t version;
    uint64_t sum;                       /* of what follows */
    uint64_t number;                    /* of the store, in the life of the pool; from 1 */
    uint64_t members;                   /* of its group: the agent and all places */
    char name[LOCI_CATALOG_NAME];
    uint64_t bytes, objects, roots, threads;    /* its options, with defaults put in */
    struct loci_memkey key[LOCI_REGIONS_MAX];
    uint64_t pad[8];
};
_Static_assert(sizeof(struct loci_record) == 512, "records have lines of their own");

#define LOCI_CATALOG_RECORDS (2 * LOCO_POOL_STORES_MAX)
#define LOCI_CATALOG_BYTES (LOCI_CATALOG_RECORDS * sizeof(struct loci_record))

/* LOCO_ERR_NAME: empty, or too long. `call` is told in the log. */
int loci_catalog_check_name(loco_runtime_t *rt, const char *call, const char *name);

/* The agent's. `table` is its own memory. LOCO_ERR_FULL. */
int loci_catalog_enter(unsigned char *table, const struct loci_record *record);
void loci_catalog_remove(unsigned char *table, const char *name);

/* Anybody's: the record of that name. LOCO_ERR_NOT_FOUND. */
int loci_catalog_find(loco_runtime_t *rt, struct loci_mem *table, const char *name,
                        struct loci_record *record);
/* Record number i of the table. LOCO_ERR_NOT_FOUND: there is no store, but may be behind it;
 * LOCO_ERR_RANGE: there is none behind it that one of this name would be at. */
int loci_catalog_read(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                        struct loci_record *record);

#endif
