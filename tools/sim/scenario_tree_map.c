/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_tree.h. */

#include "config.h"

#include "scenario_tree.h"

int map_open(struct tree_client *c)
{
    const struct tree_state *s = c->u->s;
    loco_object_t root = loco_store_root(c->u->store, 1);

    return s->hashed ? loco_hash_open(c->tx, root, &s->hash, &c->hash)
           : loco_tree_open(c->tx, root, &s->tree, &c->tree);
}

void map_close(struct tree_client *c)
{
    loco_hash_close(c->hash);
    loco_tree_close(c->tree);
}

int map_get(struct tree_client *c, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    return c->hash != NULL ? loco_hash_get(c->hash, key, value, room, len)
           : loco_tree_get(c->tree, key, value, room, len);
}

int map_put(struct tree_client *c, loco_bytes_t key, loco_bytes_t value)
{
    return c->hash != NULL ? loco_hash_put(c->hash, key, value)
           : loco_tree_put(c->tree, key, value);
}

int map_insert(struct tree_client *c, loco_bytes_t key, loco_bytes_t value)
{
    return c->hash != NULL ? loco_hash_insert(c->hash, key, value)
           : loco_tree_insert(c->tree, key, value);
}

int map_update(struct tree_client *c, loco_bytes_t key, loco_bytes_t value)
{
    return c->hash != NULL ? loco_hash_update(c->hash, key, value)
           : loco_tree_update(c->tree, key, value);
}

int map_delete(struct tree_client *c, loco_bytes_t key)
{
    return c->hash != NULL ? loco_hash_delete(c->hash, key) : loco_tree_delete(c->tree, key);
}

int map_compare_set(struct tree_client *c, loco_bytes_t key, loco_bytes_t expected,
                    loco_bytes_t desired)
{
    return c->hash != NULL ? loco_hash_compare_set(c->hash, key, expected, desired)
           : loco_tree_compare_set(c->tree, key, expected, desired);
}

int map_get_many(struct tree_client *c, size_t n, const loco_bytes_t *keys, void *values,
                 size_t room, size_t *lens, int *statuses)
{
    return c->hash != NULL
           ? loco_hash_get_many(c->hash, n, keys, values, room, lens, statuses)
           : loco_tree_get_many(c->tree, n, keys, values, room, lens, statuses);
}

int map_put_many(struct tree_client *c, size_t n, const loco_bytes_t *keys,
                 const loco_bytes_t *values)
{
    return c->hash != NULL ? loco_hash_put_many(c->hash, n, keys, values)
           : loco_tree_put_many(c->tree, n, keys, values);
}

int map_scan(struct tree_client *c, const loco_bytes_t *from, const loco_bytes_t *to,
             uint64_t limit, loco_tree_visit_fn *visit, void *ctx)
{
    return c->hash != NULL ? loco_hash_scan(c->hash, visit, ctx)
           : loco_tree_scan(c->tree, from, to, limit, visit, ctx);
}
