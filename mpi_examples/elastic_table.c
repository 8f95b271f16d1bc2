/* SPDX-License-Identifier: BSD-3-Clause */
/* The table: a tree in a store of the pool. */
#include "elastic_kv.h"

#include <string.h>

#define VALUE_MAX 1000

/* Room for all keys in leaves that are half full, twice while they are copied, and some. */
static loco_store_options_t store_options(const struct elastic_options *o)
{
    uint64_t entry = 24 + o->value_bytes + (o->value_bytes > 104 ? 64 : 0);

    return (loco_store_options_t){
        .bytes = (o->keys * entry * 3 + (UINT64_C(64) << 20)) / 4096 * 4096,
        .objects = o->keys / (o->value_bytes > 104 ? 1 : 4) + 65536, .threads = 1,
    };
}

int elastic_open(loco_runtime_t *rt, const struct elastic_options *o, struct elastic_table *t)
{
    const loco_store_options_t options = store_options(o);
    int status;

    *t = (struct elastic_table){ NULL, NULL, NULL, NULL };
    status = loco_pool_open(rt, o->pool, &t->pool);
    if (status == LOCO_OK)
        status = loco_store_open(t->pool, ELASTIC_STORE, &options, &t->store);
    if (status == LOCO_OK)
        status = loco_tx_open(t->store, &t->tx);
    if (status == LOCO_OK)
        status = loco_tree_open(t->tx, loco_store_root(t->store, 0), NULL, &t->tree);
    if (status != LOCO_OK)
        elastic_close(t);
    return status;
}

void elastic_close(struct elastic_table *t)
{
    loco_tree_close(t->tree);
    loco_tx_close(t->tx);
    loco_store_destroy(t->store);
    loco_pool_close(t->pool);
}

/* The first word is the version; each byte after that follows from key and version. */
static void fill(unsigned char *value, size_t len, uint64_t i, uint64_t version)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ version << 32;

    x ^= x >> 29;
    memcpy(value, &version, 4);
    memcpy(value + 4, &x, 4);
    for (size_t at = 8; at < len; at++)
        value[at] = (unsigned char)(x >> at % 57);
}

int elastic_put(struct elastic_table *t, const struct elastic_options *o, uint64_t i,
                uint64_t version)
{
    unsigned char key[8], value[VALUE_MAX];

    fill(value, o->value_bytes, i, version & UINT32_MAX);
    return loco_tree_put(t->tree, loco_key64(i, key), loco_bytes(value, o->value_bytes));
}

int elastic_check(struct elastic_table *t, const struct elastic_options *o, uint64_t i)
{
    unsigned char key[8], value[VALUE_MAX], wanted[VALUE_MAX];
    uint32_t version;
    size_t len;
    int status = loco_tree_get(t->tree, loco_key64(i, key), value, sizeof value, &len);

    if (status != LOCO_OK)
        return status;
    memcpy(&version, value, sizeof version);
    fill(wanted, o->value_bytes, i, version);
    return len == o->value_bytes && memcmp(value, wanted, len) == 0 ? LOCO_OK : LOCO_ERR_DIFFERS;
}
