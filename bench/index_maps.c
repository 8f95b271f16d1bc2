/* SPDX-License-Identifier: BSD-3-Clause */

/* See index_maps.h. */

#include "config.h"

#include "index_maps.h"

#include <limits.h>
#include <string.h>

#include "../mpi_examples/kv_workload.h"
#include "index/hash/directory.h"
#include "index/index.h"
#include "index/tree.h"
#include "store/tx_parts.h"

enum { MOST_HOSTS = 64, INNER_BYTES = 2048 };

static bool named(const char *const names[], int n, const char *name, int *is)
{
    for (*is = 0; *is < n; ++*is)
        if (strcmp(names[*is], name) == 0)
            return true;
    return false;
}

bool map_kind_named(const char *name, enum map_kind *kind)
{
    static const char *const names[] = { "tree", "hash", "race" };
    int is;
    bool found = named(names, 3, name, &is);

    *kind = (enum map_kind)is;
    return found;
}

bool map_way_named(const char *name, enum map_way *way)
{
    static const char *const names[] = { "ours", "in-place", "values" };
    int is;
    bool found = named(names, 3, name, &is);

    *way = (enum map_way)is;
    return found;
}

bool map_look_named(const char *name, enum map_look *look)
{
    static const char *const names[] = { "speculative", "blind", "apart" };
    int is;
    bool found = named(names, 3, name, &is);

    *look = (enum map_look)is;
    return found;
}

bool map_is_possible(const struct map_options *o)
{
    return (o->way == MAP_OURS || (o->kind == MAP_TREE && o->look != MAP_APART))
           && (o->look == MAP_SPECULATIVE || o->kind != MAP_RACE)
           && (o->look != MAP_APART || o->kind == MAP_TREE);
}

/* ---- parts of transactions ---- */

unsigned map_parts(const struct map_options *o)
{
    return o->way == MAP_OURS ? LOCI_TX_ALL
           : o->way == MAP_IN_PLACE ? LOCI_TX_CHECK | LOCI_TX_CHAINS
           : LOCI_TX_CHECK | LOCI_TX_CHAINS | LOCI_TX_VALUES;
}

/* All is loaded with whole transactions; nodes get blocks in which they can grow. Directories of
 * hash tables are as large as outside of the simulator. Where values are read alone, clients know
 * where all of them are, as in SMART. */
void map_prepare(const struct map_options *o)
{
    loci_tx_parts = LOCI_TX_ALL;
    loci_tx_hot = o->hot == 0 ? UINT_MAX : (unsigned)o->hot;
    loci_apart_notes = o->look == MAP_APART ? 1 << 18 : 1024;
    memcpy(loci_hash_bits, (const unsigned[]){ 12, 8, 12 }, sizeof loci_hash_bits);
    loci_tx_room = o->way == MAP_OURS ? 0 : (size_t)(o->bytes > INNER_BYTES ? o->bytes
                                                                           : INNER_BYTES);
}

/* ---- life ---- */

static int create_store(struct map *m)
{
    const struct map_options *o = m->o;
    uint64_t key_bytes = o->way == MAP_OURS && o->look != MAP_APART ? 256 : 512;
    int hosts[MOST_HOSTS];
    const loco_store_options_t options = {
        .bytes = o->keys * key_bytes / (uint64_t)o->hosts
                 + (uint64_t)o->clients * 512 * 1024 + (UINT64_C(16) << 20),
        .hosts = hosts, .nhosts = o->hosts, .threads = 1,
    };

    for (int i = 0; i < o->hosts; i++)
        hosts[i] = i;
    return loco_store_create(m->rt, NULL, "map", loco_everyone(m->rt), &options, &m->store);
}

/* Slots for half as many keys again as there are. */
static int create_race(struct map *m, int rank)
{
    const struct map_options *o = m->o;
    struct race_options options = { .host = 0, .clients = o->clients, .bits = o->race_bits,
                                    .buckets = o->race_buckets,
                                    .blocks = o->keys + 100000 };

    if (options.buckets == 0) {
        options.buckets = 64;
        while ((options.buckets * UINT64_C(7) << options.bits) * 2 < o->keys * 3)
            options.bits++;
    }
    options.most_bits = options.bits + 4;
    return race_create(m->rt, &options, rank - o->hosts, &m->race);
}

int map_create(struct map *m, const struct map_options *o, loco_runtime_t *rt, int rank)
{
    int status;

    *m = (struct map){ .o = o, .rt = rt };
    status = o->kind == MAP_RACE ? create_race(m, rank) : create_store(m);
    return status == LOCO_OK ? loco_runtime_wait_ready(rt, LOCO_FOREVER) : status;
}

int map_open(struct map *m)
{
    const loco_tree_options_t tree = { .leaf_bytes = (size_t)m->o->bytes };
    const loco_hash_options_t hash = { .leaf_bytes = (size_t)m->o->bytes };
    loco_object_t root;
    int status;

    if (m->o->kind == MAP_RACE)
        return race_open(m->race);
    status = loco_tx_open(m->store, &m->tx);
    if (status != LOCO_OK)
        return status;
    root = loco_store_root(m->store, 0);
    status = m->o->kind == MAP_TREE ? loco_tree_open(m->tx, root, &tree, &m->tree)
             : loco_hash_open(m->tx, root, &hash, &m->hash);
    if (status == LOCO_OK && m->o->look == MAP_APART)
        m->tree->index.inline_bytes = 0;
    return status;
}

void map_begin(struct map *m)
{
    if (m->o->look != MAP_BLIND)
        return;
    m->hint = m->tx->hint;
    m->tx->hint = NULL;
}

void map_end(struct map *m)
{
    if (m->hint != NULL)
        m->tx->hint = m->hint;
    m->hint = NULL;
}

void map_close(struct map *m)
{
    map_end(m);
    loco_tree_close(m->tree);
    loco_hash_close(m->hash);
    loco_tx_close(m->tx);
}

void map_destroy(struct map *m)
{
    loco_store_destroy(m->store);
    if (m->race != NULL)
        race_destroy(m->race);
}

/* ---- calls ---- */

static loco_bytes_t key_of(uint64_t index, unsigned char *bytes)
{
    kv_key_make(bytes, KV_NUMBER_KEY, kv_key(index));
    return loco_bytes(bytes, KV_NUMBER_KEY);
}

int map_get(struct map *m, uint64_t key, uint64_t *value)
{
    unsigned char bytes[KV_NUMBER_KEY];
    size_t len;

    switch (m->o->kind) {
    case MAP_TREE:
        return loco_tree_get(m->tree, key_of(key, bytes), value, sizeof *value, &len);
    case MAP_HASH:
        return loco_hash_get(m->hash, key_of(key, bytes), value, sizeof *value, &len);
    default:
        return race_get(m->race, kv_key(key), value);
    }
}

int map_add(struct map *m, uint64_t key)
{
    unsigned char bytes[KV_NUMBER_KEY];

    switch (m->o->kind) {
    case MAP_TREE: return loco_tree_add(m->tree, key_of(key, bytes), 1, NULL);
    case MAP_HASH: return loco_hash_add(m->hash, key_of(key, bytes), 1, NULL);
    default: return race_add(m->race, kv_key(key), 1);
    }
}

int map_insert(struct map *m, uint64_t key)
{
    unsigned char bytes[KV_NUMBER_KEY];
    const uint64_t none = 0;
    loco_bytes_t value = loco_bytes(&none, sizeof none);

    switch (m->o->kind) {
    case MAP_TREE: return loco_tree_insert(m->tree, key_of(key, bytes), value);
    case MAP_HASH: return loco_hash_insert(m->hash, key_of(key, bytes), value);
    default: return race_insert(m->race, kv_key(key), 0);
    }
}

static int visit(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    (void)ctx;
    (void)key;
    (void)value;
    return 0;
}

int map_scan(struct map *m, uint64_t key, uint64_t n)
{
    unsigned char bytes[KV_NUMBER_KEY];
    loco_bytes_t from = key_of(key, bytes);

    return loco_tree_scan(m->tree, &from, NULL, n, visit, NULL);
}
