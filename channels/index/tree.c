/* SPDX-License-Identifier: BSD-3-Clause */

/* Trees: opening them, and the calls on one key, which index_calls.c makes. See loco/tree.h;
 * index.h tells what a tree is. */

#include "config.h"

#include <stdlib.h>

#include "tree.h"

#define LEAF_BYTES 1024u
#define INNER_BYTES 2048u
#define CACHED 4096u

_Static_assert(LOCO_TREE_KEY_MAX == LOCI_INDEX_KEY_MAX, "keys");
_Static_assert(LOCO_TREE_VALUE_MAX == LOCI_INDEX_VALUE_MAX, "values");

static int find(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                union loci_node_buffer *to, loco_object_t *leaf)
{
    return loci_index_find(ix, how, key, 0, to, leaf);
}

static loco_object_t guess(struct loci_index *ix, loco_bytes_t key)
{
    loco_object_t leaf;

    return loci_index_name(ix, &(struct loci_place){ LOCI_AT, key }, NULL, &leaf, 1) > 0 ? leaf : 0;
}

static const struct loci_index_kind tree_kind = {
    .name = "loco_tree", .find = find, .write = loci_index_write,
    .write_less = loci_index_write_less, .guess = guess, .lead = loci_index_lead,
};

/* ---- opening ---- */

/* A root, and one leaf. */
static int make(struct loci_index *ix)
{
    struct loci_node *node = &ix->node->node;
    loco_object_t leaf;
    int status;

    ix->id = loci_random(ix->tx->s->rt);
    loci_node_make(node, ix->id, 0, loco_bytes(NULL, 0), NULL, 0);
    status = loci_index_new(ix, node, loci_node_bytes(node), &leaf);
    if (status != LOCO_OK)
        return status;
    loci_node_make(node, ix->id, 1, loco_bytes(NULL, 0), NULL, 0);
    loci_node_insert(node, 0, loco_bytes(NULL, 0), loco_bytes(&leaf, sizeof leaf), false);
    return loco_tx_write(ix->tx, ix->root, node, loci_node_bytes(node));
}

/* Any tree's root will do: it says which tree it is. */
static int look_or_make(loco_tx_t *tx, void *arg)
{
    struct loci_index *ix = arg;
    struct loci_node *node = &ix->node->node;
    size_t len;
    int status = loco_tx_read_some(tx, ix->root, node, sizeof *ix->node, &len);

    if (status == LOCO_ERR_NOT_FOUND)
        return make(ix);
    if (status != LOCO_OK)
        return status;
    ix->id = len >= sizeof *node ? node->tree : 0;
    return loci_node_is(node, len, ix->id) && node->level > 0
           ? LOCO_OK : loci_index_is_none(ix, "loco_tree_open", "tree");
}

static int init(struct loco_tree *tree, loco_tx_t *tx, loco_object_t root,
                const loco_tree_options_t *o)
{
    size_t leaf_bytes = o->leaf_bytes == 0 ? LEAF_BYTES : o->leaf_bytes;
    size_t inner_bytes = o->inner_bytes == 0 ? INNER_BYTES : o->inner_bytes;
    int status = loci_index_check_bytes(tx, "loco_tree_open", "leaf_bytes", leaf_bytes);

    if (status == LOCO_OK)
        status = loci_index_check_bytes(tx, "loco_tree_open", "inner_bytes", inner_bytes);
    if (status == LOCO_OK)
        status = loci_index_open(&tree->index, &tree_kind, tx, root, leaf_bytes, inner_bytes,
                                 o->cached == 0 ? CACHED : o->cached);
    return status != LOCO_OK ? status : loci_tree_cursor_init(&tree->scan, &tree->index);
}

int loco_tree_open(loco_tx_t *tx, loco_object_t root, const loco_tree_options_t *options,
                   loco_tree_t **out)
{
    const loco_tree_options_t none = { 0 };
    struct loco_tree *tree = calloc(1, sizeof *tree);
    int status;

    if (tree == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = init(tree, tx, root, options == NULL ? &none : options);
    if (status == LOCO_OK)
        status = loci_tx_enter(tx);
    if (status == LOCO_OK)
        status = loci_tx_leave(tx, loco_tx_run(tx, look_or_make, &tree->index));
    if (status != LOCO_OK) {
        loco_tree_close(tree);
        return status;
    }
    *out = tree;
    return LOCO_OK;
}

void loco_tree_close(loco_tree_t *tree)
{
    if (tree == NULL)
        return;
    loci_tree_cursor_fini(&tree->scan);
    loci_index_close(&tree->index);
    free(tree);
}

void loco_tree_stats(const loco_tree_t *tree, loco_tree_stats_t *stats)
{
    *stats = tree->index.stats;
}

/* ---- calls ---- */

int loco_tree_get(loco_tree_t *tree, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_GET, 0);

    return loci_call_end(self, loci_index_get(&tree->index, key, value, room, len));
}

static int change(loco_tree_t *tree, struct loci_change *c)
{
    return loci_index_change(&tree->index, c);
}

int loco_tree_put(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_PUT,
                                               value.len);

    return loci_call_end(self, change(tree, &(struct loci_change){ .change = LOCI_PUT, .key = key,
                                      .value = value }));
}

int loco_tree_insert(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_INSERT,
                                               value.len);

    return loci_call_end(self, change(tree, &(struct loci_change){ .change = LOCI_INSERT,
                                      .key = key, .value = value }));
}

int loco_tree_update(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_UPDATE,
                                               value.len);

    return loci_call_end(self, change(tree, &(struct loci_change){ .change = LOCI_UPDATE,
                                      .key = key, .value = value }));
}

int loco_tree_delete(loco_tree_t *tree, loco_bytes_t key)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_DELETE, 0);

    return loci_call_end(self, change(tree, &(struct loci_change){ .change = LOCI_DELETE,
                                      .key = key }));
}

int loco_tree_compare_set(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t expected,
                          loco_bytes_t desired)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index),
                                               LOCI_CALL_COMPARE_SET, desired.len);

    return loci_call_end(self, change(tree, &(struct loci_change){ .change = LOCI_COMPARE_SET,
                                      .key = key, .value = desired, .expected = expected }));
}

static int add(loco_tree_t *tree, loco_bytes_t key, uint64_t by, uint64_t *before)
{
    struct loci_change c = { .change = LOCI_ADD, .key = key, .by = by };
    int status = change(tree, &c);

    if (status == LOCO_OK && before != NULL)
        *before = c.before;
    return status;
}

int loco_tree_add(loco_tree_t *tree, loco_bytes_t key, uint64_t by, uint64_t *before)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_ADD, 8);

    return loci_call_end(self, add(tree, key, by, before));
}

static int get_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys, void *values,
                    size_t room, size_t *lens, int *statuses)
{
    return loci_index_get_many(&tree->index, &(struct loci_many){
        .n = n, .keys = keys, .to = values, .room = room, .lens = lens, .statuses = statuses,
    });
}

int loco_tree_get_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys, void *values,
                       size_t room, size_t *lens, int *statuses)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_GET, 0);

    return loci_call_end(self, get_many(tree, n, keys, values, room, lens, statuses));
}

static int put_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys,
                    const loco_bytes_t *values)
{
    return loci_index_put_many(&tree->index, &(struct loci_many){
        .n = n, .keys = keys, .values = values,
    });
}

int loco_tree_put_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys,
                       const loco_bytes_t *values)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&tree->index), LOCI_CALL_PUT, 0);

    return loci_call_end(self, put_many(tree, n, keys, values));
}
