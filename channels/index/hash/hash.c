/* SPDX-License-Identifier: BSD-3-Clause */

/* Hash tables: opening them, and the calls on keys, which index_calls.c makes. See loco/hash.h;
 * hash.h tells what a table is. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define LEAF_BYTES 1024u
#define CACHED 1024u
#define HASH_BYTES sizeof(uint64_t)     /* before the key of an entry */

_Static_assert(LOCO_HASH_KEY_MAX == LOCI_INDEX_KEY_MAX
               && LOCO_HASH_KEY_MAX + HASH_BYTES == LOCI_NODE_KEY_MAX, "keys");
_Static_assert(LOCO_HASH_VALUE_MAX == LOCI_INDEX_VALUE_MAX, "values");

/* ---- opening ---- */

/* One leaf, one segment that names it, and the root. */
static int make(struct loco_hash *h)
{
    struct loci_index *ix = &h->index;
    struct loci_hash_root *root = &h->root->root;
    struct loci_segment *segment = &h->segment->segment;
    struct loci_node *leaf = &ix->node->node;
    struct loco_runtime *rt = ix->tx->s->rt;
    loco_object_t first, object;
    int status;

    ix->id = loci_random(rt);
    loci_node_make(leaf, ix->id, 0, loco_bytes(NULL, 0), NULL, 0);
    status = loci_index_new(ix, leaf, loci_node_bytes(leaf), &first);
    if (status != LOCO_OK)
        return status;
    loci_segment_make(segment, ix->id, first);
    status = loci_index_new(ix, segment, loci_segment_bytes(segment), &object);
    if (status != LOCO_OK)
        return status;
    loci_root_make(root, ix->id, (uint64_t[]){ loci_random(rt), loci_random(rt) }, first, object);
    return loco_tx_write(ix->tx, ix->root, root, loci_root_bytes(root));
}

static int look_or_make(loco_tx_t *tx, void *arg)
{
    struct loco_hash *h = arg;
    size_t len;
    int status = loco_tx_read_some(tx, h->index.root, h->root, sizeof *h->root, &len);

    if (status == LOCO_ERR_NOT_FOUND)
        return make(h);
    if (status == LOCO_OK && !loci_root_is(&h->root->root, len))
        status = loci_index_is_none(&h->index, "loco_hash_open", "hash table");
    h->index.id = h->root->root.id;
    return status;
}

/* ---- what is different from other indexes ---- */

static loco_bytes_t place(struct loci_index *ix, loco_bytes_t key)
{
    struct loco_hash *h = loci_hash_of_index(ix);

    loco_key64(loci_hash_of(h->root->root.seed, key), h->key);
    if (key.len > 0)
        memcpy(h->key + HASH_BYTES, key.data, key.len);
    return loco_bytes(h->key, HASH_BYTES + key.len);
}

static loco_object_t guess(struct loci_index *ix, loco_bytes_t key)
{
    struct loco_hash *h = loci_hash_of_index(ix);

    return loci_hash_guess(h, loci_hash_of(h->root->root.seed, key));
}

static loco_object_t lead(struct loci_index *ix, loco_bytes_t key)
{
    return loci_hash_guess(loci_hash_of_index(ix), loci_hash_number(key));
}

static const struct loci_index_kind hash_kind = {
    .name = "loco_hash", .place = place, .find = loci_hash_find, .write = loci_hash_write,
    .write_less = loci_hash_write_less, .guess = guess, .lead = lead,
};

static void repair(struct loci_sequel *sequel)
{
    struct loco_hash *h = sequel->arg;

    if (h->nfound > 0)
        loci_hash_repair(h);
}

static int init(struct loco_hash *h, loco_tx_t *tx, loco_object_t root,
                const loco_hash_options_t *o)
{
    size_t leaf_bytes = o->leaf_bytes == 0 ? LEAF_BYTES : o->leaf_bytes;
    int status = loci_index_check_bytes(tx, "loco_hash_open", "leaf_bytes", leaf_bytes);

    h->sequel = (struct loci_sequel){ .run = repair, .arg = h };
    h->root = malloc(sizeof *h->root);
    h->segment = malloc(sizeof *h->segment);
    h->upper = malloc(sizeof *h->upper);
    if (h->root == NULL || h->segment == NULL || h->upper == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (status == LOCO_OK)
        status = loci_index_open(&h->index, &hash_kind, tx, root, leaf_bytes, 0,
                                 o->cached == 0 ? CACHED : o->cached);
    return status;
}

int loco_hash_open(loco_tx_t *tx, loco_object_t root, const loco_hash_options_t *options,
                   loco_hash_t **out)
{
    const loco_hash_options_t none = { 0 };
    struct loco_hash *h = calloc(1, sizeof *h);
    int status;

    if (h == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = init(h, tx, root, options == NULL ? &none : options);
    if (status == LOCO_OK)
        status = loci_tx_enter(tx);
    if (status == LOCO_OK)
        status = loci_tx_leave(tx, loco_tx_run(tx, look_or_make, h));
    if (status != LOCO_OK) {
        loco_hash_close(h);
        return status;
    }
    loci_tx_add_sequel(tx, &h->sequel);
    *out = h;
    return LOCO_OK;
}

void loco_hash_close(loco_hash_t *hash)
{
    if (hash == NULL)
        return;
    if (hash->index.tx != NULL)
        loci_tx_remove_sequel(hash->index.tx, &hash->sequel);
    loci_hash_scan_free(hash->scan);
    loci_index_close(&hash->index);
    free(hash->root);
    free(hash->segment);
    free(hash->upper);
    free(hash);
}

void loco_hash_stats(const loco_hash_t *hash, loco_hash_stats_t *stats)
{
    _Static_assert(sizeof *stats == sizeof hash->index.stats
                   && offsetof(loco_hash_stats_t, hot) == offsetof(loco_tree_stats_t, hot),
                   "the numbers of a tree, in the same order");
    memcpy(stats, &hash->index.stats, sizeof *stats);
}

/* ---- calls ---- */

int loco_hash_get(loco_hash_t *hash, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_GET, 0);

    return loci_call_end(self, loci_hash_done(hash, loci_index_get(&hash->index, key, value, room,
                                              len)));
}

static int change(loco_hash_t *hash, struct loci_change *c)
{
    return loci_index_change(&hash->index, c);
}

int loco_hash_put(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_PUT,
                                               value.len);

    return loci_call_end(self, change(hash, &(struct loci_change){ .change = LOCI_PUT, .key = key,
                                      .value = value }));
}

int loco_hash_insert(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_INSERT,
                                               value.len);

    return loci_call_end(self, change(hash, &(struct loci_change){ .change = LOCI_INSERT,
                                      .key = key, .value = value }));
}

int loco_hash_update(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_UPDATE,
                                               value.len);

    return loci_call_end(self, change(hash, &(struct loci_change){ .change = LOCI_UPDATE,
                                      .key = key, .value = value }));
}

int loco_hash_delete(loco_hash_t *hash, loco_bytes_t key)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_DELETE, 0);

    return loci_call_end(self, change(hash, &(struct loci_change){ .change = LOCI_DELETE,
                                      .key = key }));
}

int loco_hash_compare_set(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t expected,
                          loco_bytes_t desired)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index),
                                               LOCI_CALL_COMPARE_SET, desired.len);

    return loci_call_end(self, change(hash, &(struct loci_change){ .change = LOCI_COMPARE_SET,
                                      .key = key, .value = desired, .expected = expected }));
}

static int add(loco_hash_t *hash, loco_bytes_t key, uint64_t by, uint64_t *before)
{
    struct loci_change c = { .change = LOCI_ADD, .key = key, .by = by };
    int status = change(hash, &c);

    if (status == LOCO_OK && before != NULL)
        *before = c.before;
    return status;
}

int loco_hash_add(loco_hash_t *hash, loco_bytes_t key, uint64_t by, uint64_t *before)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_ADD, 8);

    return loci_call_end(self, add(hash, key, by, before));
}

static int get_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys, void *values,
                    size_t room, size_t *lens, int *statuses)
{
    struct loci_many m = { .n = n, .keys = keys, .to = values, .room = room, .lens = lens,
                           .statuses = statuses };

    return loci_index_get_many(&hash->index, &m);
}

int loco_hash_get_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys, void *values,
                       size_t room, size_t *lens, int *statuses)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_GET, 0);

    return loci_call_end(self, get_many(hash, n, keys, values, room, lens, statuses));
}

static int put_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys,
                    const loco_bytes_t *values)
{
    struct loci_many m = { .n = n, .keys = keys, .values = values };

    return loci_index_put_many(&hash->index, &m);
}

int loco_hash_put_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys,
                       const loco_bytes_t *values)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_PUT, 0);

    return loci_call_end(self, put_many(hash, n, keys, values));
}
