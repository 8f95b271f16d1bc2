/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_INDEX_MAPS_H
#define BENCH_INDEX_MAPS_H

/* Indexes for simulated clients, all with the same few calls: trees and hash tables on a store, and
 * what they are compared with. Some processes, the hosts, keep them and do nothing else. */

#include <stdbool.h>

#include <loco/loco.h>
#include <loco/hash.h>
#include <loco/tree.h>

#include "race_table.h"
#include "store/tx.h"

enum map_kind { MAP_TREE, MAP_HASH, MAP_RACE };

/* How leaves are changed: by whole transactions; under their cell as a lock, without a log; or the
 * same with a log of values (store/tx_parts.h). */
enum map_way { MAP_OURS, MAP_IN_PLACE, MAP_VALUES };

/* Of a look-up: what was seen last of a leaf is used, as always; it is not; or each value has an
 * object of its own, which is all that is read. */
enum map_look { MAP_SPECULATIVE, MAP_BLIND, MAP_APART };

struct map_options {
    enum map_kind kind;
    enum map_way way;
    enum map_look look;
    int hosts, clients;
    int bytes;                  /* of a leaf */
    uint64_t keys;              /* in the end, about */
    int hot;                    /* conflicts until an entry gets its own object (tx.h); 0: never */
    unsigned race_bits, race_buckets;           /* see race_table.h; 0: enough for all keys */
};

struct map {
    const struct map_options *o;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    loco_hash_t *hash;
    struct race_table *race;
    struct loci_hint *hint;     /* taken from the handle while it is to do without */
};

/* "tree", "hash", "race"; "ours", "in-place", "values"; "speculative", "blind", "apart". */
bool map_kind_named(const char *name, enum map_kind *kind);
bool map_way_named(const char *name, enum map_way *way);
bool map_look_named(const char *name, enum map_look *look);
/* Whether there is such a one: only trees are changed in place, for example. */
bool map_is_possible(const struct map_options *o);

/* Before the simulation, and what clients go on with once all keys are there: loci_tx_parts. */
void map_prepare(const struct map_options *o);
unsigned map_parts(const struct map_options *o);

/* Collective: hosts are the first ranks. Then each client opens it. */
int map_create(struct map *m, const struct map_options *o, loco_runtime_t *rt, int rank);
int map_open(struct map *m);
/* From now on look-ups are as options.look says. */
void map_begin(struct map *m);
void map_end(struct map *m);
void map_close(struct map *m);
void map_destroy(struct map *m);

/* A key is the number of a record (kv_key() of it is the key itself), a value a number. */
int map_get(struct map *m, uint64_t key, uint64_t *value);
int map_add(struct map *m, uint64_t key);
int map_insert(struct map *m, uint64_t key);
/* From that key on: so many entries. */
int map_scan(struct map *m, uint64_t key, uint64_t n);

#endif
