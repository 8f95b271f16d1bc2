/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_TREE_H
#define SIM_SCENARIO_TREE_H

#include "scenario_util.h"

#include <loco/hash.h>
#include <loco/tree.h>

#include "linear.h"

/* Between scenario_tree.c, which says what threads do, scenario_tree_calls.c, which calls the tree
 * and keeps the history, and scenario_tree_end.c, which looks at all nodes at the end. All of them
 * do the same with hash tables; scenario_tree_map.c calls either.
 *
 * A value is a number that no other value in the run has, and as many bytes more as it says. Some
 * keys are twins: transactions alone change them, both at once and to the same value. */

#define TREE_PROCESSES_MAX 16
#define TREE_THREADS_MAX 4
#define TREE_PLAIN_MAX 24               /* keys */
#define TREE_TWINS 2
#define TREE_KEYS_MAX (TREE_PLAIN_MAX + 2 * TREE_TWINS)
#define TREE_KEY_BYTES 16
#define TREE_VALUE_BYTES 200

struct tree_state {
    struct sim_state common;
    bool drawn;
    bool ready[TREE_PROCESSES_MAX];     /* a process: it takes part */
    bool opened;                        /* somebody has: the tree is there */
    uint64_t plain;                     /* keys 0 to plain - 1; then the twins, first ones first */
    int host[2];
    loco_store_options_t options;
    loco_tree_options_t tree;
    bool hashed;                        /* all of it is about a hash table; */
    loco_hash_options_t hash;
    bool grows;                         /* nothing is removed from it */
    struct loci_history history;
};

struct tree_user {
    struct sim_run *run;
    struct tree_state *s;
    loco_runtime_t *rt;
    loco_store_t *store;
    int rank;
};

/* A thread with its handles. */
struct tree_client {
    struct tree_user *u;
    int name;                           /* in the history */
    loco_tx_t *tx;
    loco_tree_t *tree;                  /* or */
    loco_hash_t *hash;
    uint64_t made;                      /* values so far */
    uint64_t seen[TREE_KEYS_MAX];       /* that a key had when it was looked at last */
};

/* A key as bytes, and back; its place in the order of keys is its number's but for the first twins,
 * which come before all others. */
loco_bytes_t tree_key(const struct tree_state *s, uint64_t number,
                      unsigned char bytes[TREE_KEY_BYTES]);
bool tree_key_number(const struct tree_state *s, loco_bytes_t key, uint64_t *number);
static inline uint64_t tree_keys(const struct tree_state *s)
{
    return s->plain + 2 * TREE_TWINS;
}
static inline uint64_t tree_twin(const struct tree_state *s, unsigned pair, unsigned which)
{
    return s->plain + which * TREE_TWINS + pair;
}

uint64_t tree_make(struct tree_client *c);
loco_bytes_t tree_value(uint64_t number, unsigned char bytes[TREE_VALUE_BYTES]);
int tree_number(const struct tree_client *c, loco_bytes_t value, uint64_t *number);

/* Handles; SIM_TOLD: a host has died. */
bool tree_host_died(const struct tree_user *u);
int tree_open(struct tree_user *u, int thread, struct tree_client *c);
void tree_close(struct tree_client *c);

/* Calls by themselves, as the history has them. SIM_FINE also where they were told of a death that
 * there was. */
int tree_insert(struct tree_client *c, uint64_t key);
int tree_put(struct tree_client *c, uint64_t key);
int tree_update(struct tree_client *c, uint64_t key);
int tree_delete(struct tree_client *c, uint64_t key);
int tree_compare_set(struct tree_client *c, uint64_t key);
int tree_get(struct tree_client *c, uint64_t key);
int tree_get_many(struct tree_client *c);
int tree_put_many(struct tree_client *c);
/* From one place in their order to another, with a limit or 0: each key between is looked up. */
int tree_scan(struct tree_client *c, uint64_t from, uint64_t to, uint64_t limit);

/* Transactions. */
int tree_tx_twins(struct tree_client *c);
int tree_tx_look(struct tree_client *c);
int tree_tx_many(struct tree_client *c);

/* ---- scenario_tree_map.c: the client's tree or table ---- */

int map_open(struct tree_client *c);
void map_close(struct tree_client *c);
int map_get(struct tree_client *c, loco_bytes_t key, void *value, size_t room, size_t *len);
int map_put(struct tree_client *c, loco_bytes_t key, loco_bytes_t value);
int map_insert(struct tree_client *c, loco_bytes_t key, loco_bytes_t value);
int map_update(struct tree_client *c, loco_bytes_t key, loco_bytes_t value);
int map_delete(struct tree_client *c, loco_bytes_t key);
int map_compare_set(struct tree_client *c, loco_bytes_t key, loco_bytes_t expected,
                    loco_bytes_t desired);
int map_get_many(struct tree_client *c, size_t n, const loco_bytes_t *keys, void *values,
                 size_t room, size_t *lens, int *statuses);
int map_put_many(struct tree_client *c, size_t n, const loco_bytes_t *keys,
                 const loco_bytes_t *values);
/* Of a table, all: `from`, `to` and `limit` are for trees. */
int map_scan(struct tree_client *c, const loco_bytes_t *from, const loco_bytes_t *to,
             uint64_t limit, loco_tree_visit_fn *visit, void *ctx);

/* What the last of those that live finds: by one of them. */
int tree_end(struct tree_user *u);

#endif
