/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_RACE_TABLE_H
#define BENCH_RACE_TABLE_H

/* A hash table after RACE (Zuo and others, ATC 2021), to compare hash tables on stores with: its
 * words, its look-ups and its growing by one subtable at a time under a lock. It is for 8-byte keys
 * and values at one host, over a simulated network, and has what the comparison needs: get, update,
 * insert. Whoever dies while he grows a subtable leaves it locked for ever. */

#include <stdbool.h>

#include <loco/loco.h>

#include "names/endpoint.h"

struct race_options {
    int host, clients;
    unsigned bits;              /* of hashes, that the directory has at first, */
    unsigned most_bits;         /* and at most: that large it is from the start */
    unsigned buckets;           /* of a subtable: a power of two */
    uint64_t blocks;            /* that each client may write */
};

struct race_stats {
    uint64_t grown, moved;      /* subtables, and pairs that were moved */
    int64_t longest;            /* ns: to grow one */
};

struct race_table {
    loco_runtime_t *rt;
    struct race_options o;
    struct loci_endpoint *ep;
    bool *givers;
    int client;
    uint64_t *directory;        /* a copy */
    uint64_t next_block;
    bool grows;                 /* it grows a subtable, and has its lock */
    struct race_stats stats;
};

/* client: -1 at the host, else which of them. Collective; loco_runtime_wait_ready() after it; then
 * race_open(). */
int race_create(loco_runtime_t *rt, const struct race_options *options, int client,
                struct race_table **out);
int race_open(struct race_table *t);
void race_destroy(struct race_table *t);

/* LOCO_OK, LOCO_ERR_NOT_FOUND, LOCO_ERR_EXISTS, LOCO_ERR_FULL. */
int race_get(struct race_table *t, uint64_t key, uint64_t *value);
int race_add(struct race_table *t, uint64_t key, uint64_t by);
int race_insert(struct race_table *t, uint64_t key, uint64_t value);

#endif
