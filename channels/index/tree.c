/* SPDX-License-Identifier: BSD-3-Clause */

/* Trees: opening them, and the calls on one key. See loco/tree.h; index.h tells what a tree is.
 *
 * A call that is a transaction by itself reads the leaf, and if it changes that alone, its commit
 * is one compare-and-swap. A get does not even begin a transaction: to have read the leaf is
 * enough. Of a value in its own object the leaf only tells the handle: it is not in the read set
 * then. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "tree.h"

#define LEAF_BYTES 512u
#define INNER_BYTES 2048u
#define CACHED 4096u
#define BYTES_MIN 64u

_Static_assert(LOCO_TREE_KEY_MAX == LOCI_NODE_KEY_MAX, "keys");
_Static_assert(sizeof(struct loci_apart) + LOCO_TREE_KEY_MAX + LOCO_TREE_VALUE_MAX
               <= LOCI_APART_MAX, "values");

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
    return loci_node_is(node, len, ix->id) && node->level > 0 ? LOCO_OK : LOCO_ERR_MISMATCH;
}

static int check_bytes(const struct loco_store *s, const char *name, size_t bytes)
{
    return bytes >= BYTES_MIN && bytes <= LOCI_NODE_BYTES_MAX ? LOCO_OK
           : loci_bad_arg(s->rt, "loco_tree_open", s->ep->name, name, (long long)bytes,
                          "%u to %u", BYTES_MIN, LOCI_NODE_BYTES_MAX);
}

static int init(struct loco_tree *tree, loco_tx_t *tx, loco_object_t root,
                const loco_tree_options_t *o)
{
    size_t leaf_bytes = o->leaf_bytes == 0 ? LEAF_BYTES : o->leaf_bytes;
    size_t inner_bytes = o->inner_bytes == 0 ? INNER_BYTES : o->inner_bytes;
    int status = check_bytes(tx->s, "leaf_bytes", leaf_bytes);

    if (status == LOCO_OK)
        status = check_bytes(tx->s, "inner_bytes", inner_bytes);
    if (status == LOCO_OK)
        status = loci_index_open(&tree->index, tx, root, leaf_bytes, inner_bytes,
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
        status = loco_tx_run(tx, look_or_make, &tree->index);
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

/* ---- what all calls do ---- */

int loci_tree_enter(struct loci_index *ix)
{
    int status = loci_tx_check_open(ix->tx);

    ix->own = status == LOCO_ERR_STATE;
    return ix->own ? LOCO_OK : status;
}

int loci_tree_check_key(const struct loci_index *ix, const char *call, loco_bytes_t key)
{
    const struct loco_store *s = ix->tx->s;

    return key.len <= LOCO_TREE_KEY_MAX ? LOCO_OK
           : loci_mistake(s->rt, LOCO_ERR_SIZE, call, s->ep->name,
                          "%zu bytes are more than the %d of a key", key.len, LOCO_TREE_KEY_MAX);
}

static int check_value(const struct loci_index *ix, loco_bytes_t value)
{
    const struct loco_store *s = ix->tx->s;

    return value.len <= LOCO_TREE_VALUE_MAX ? LOCO_OK
           : loci_mistake(s->rt, LOCO_ERR_SIZE, "loco_tree", s->ep->name,
                          "%zu bytes are more than the %d of a value", value.len,
                          LOCO_TREE_VALUE_MAX);
}

/* ---- get ---- */

/* LOCO_ERR_AGAIN: a value's object is of another key by now. */
static int get_once(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                    loco_bytes_t *value)
{
    const struct loci_node *leaf = &ix->node->node;
    loco_object_t object;
    bool found;
    int status = loci_index_find(ix, how, key, 0, ix->node, &object);
    unsigned i;

    if (status != LOCO_OK)
        return status;
    i = loci_node_find(leaf, key, &found);
    if (!found)
        return LOCO_ERR_NOT_FOUND;
    if (!loci_node_is_apart(leaf, i)) {
        *value = loci_node_value(leaf, i);
        return LOCO_OK;
    }
    status = loci_apart_read(ix, how, loci_node_handle(leaf, i), key, value);
    return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_AGAIN : status;
}

int loco_tree_get(loco_tree_t *tree, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    struct loci_index *ix = &tree->index;
    loco_bytes_t found;
    int status = loci_tree_check_key(ix, "loco_tree_get", key);

    if (status == LOCO_OK)
        status = loci_tree_enter(ix);
    if (status != LOCO_OK)
        return status;
    do
        status = get_once(ix, ix->own ? LOCI_INDEX_PEEK : LOCI_INDEX_READ, key, &found);
    while (status == LOCO_ERR_AGAIN && ix->own);
    if (status != LOCO_OK)
        return status == LOCO_ERR_AGAIN ? loci_index_broken(ix) : status;
    if (room > 0 && found.len > 0)
        memcpy(value, found.data, found.len < room ? found.len : room);
    *len = found.len;
    return LOCO_OK;
}

/* ---- changes ---- */

enum kind { PUT, INSERT, UPDATE, DELETE, COMPARE_SET, ADD };

struct change {
    struct loci_index *ix;
    enum kind kind;
    loco_bytes_t key, value;            /* the new one */
    loco_bytes_t expected;
    uint64_t by, before, number;        /* of ADD: and the number that the value is */
};

static int add(struct change *c, const loco_bytes_t *old)
{
    c->before = 0;
    if (old != NULL && old->len != sizeof c->before)
        return LOCO_ERR_SIZE;
    if (old != NULL)
        memcpy(&c->before, old->data, sizeof c->before);
    c->number = c->before + c->by;
    c->value = loco_bytes(&c->number, sizeof c->number);
    return LOCO_OK;
}

/* What comes of it where the key has that value; NULL: none. */
static int decide(struct change *c, const loco_bytes_t *old)
{
    switch (c->kind) {
    case INSERT:
        return old == NULL ? LOCO_OK : LOCO_ERR_EXISTS;
    case UPDATE: case DELETE:
        return old != NULL ? LOCO_OK : LOCO_ERR_NOT_FOUND;
    case COMPARE_SET:
        if (old == NULL)
            return LOCO_ERR_NOT_FOUND;
        return loci_bytes_compare(*old, c->expected) == 0 ? LOCO_OK : LOCO_ERR_DIFFERS;
    case ADD:
        return add(c, old);
    default:
        return LOCO_OK;
    }
}

/* A value in its own object changes without its leaf. What was read of the leaf is forgotten, so
 * that the commit is of this object alone. */
static int change_apart(struct change *c, loco_object_t object)
{
    struct loci_index *ix = c->ix;
    loco_bytes_t old;
    int status = loci_apart_read(ix, LOCI_INDEX_ALONE, object, c->key, &old);

    if (status == LOCO_ERR_NOT_FOUND)
        return ix->own ? LOCO_ERR_CONFLICT : loci_index_broken(ix);
    if (status == LOCO_OK)
        status = decide(c, &old);
    return status != LOCO_OK ? status : loci_apart_write(ix, object, c->key, c->value);
}

static int remove_entry(struct change *c, loco_object_t leaf, unsigned i)
{
    struct loci_index *ix = c->ix;
    int status = LOCO_OK;

    if (loci_node_is_apart(&ix->node->node, i))
        status = loco_tx_free(ix->tx, loci_node_handle(&ix->node->node, i));
    if (status != LOCO_OK)
        return status == LOCO_ERR_NOT_FOUND ? loci_index_broken(ix) : status;
    loci_node_remove(&ix->node->node, i);
    return loci_index_write_less(ix, leaf);
}

/* The new value in the leaf: itself, or the handle of its object. */
static int set_entry(struct change *c, loco_object_t leaf, unsigned i, bool found)
{
    struct loci_index *ix = c->ix;
    bool apart = c->value.len > ix->inline_bytes;
    loco_bytes_t value = c->value;
    loco_object_t object;
    int status = LOCO_OK;

    if (apart) {
        status = loci_apart_new(ix, c->key, c->value, &object);
        value = loco_bytes(&object, sizeof object);
    }
    if (status != LOCO_OK)
        return status;
    if (found)
        loci_node_replace(&ix->node->node, i, value, apart);
    else
        loci_node_insert(&ix->node->node, i, c->key, value, apart);
    return loci_index_write(ix, leaf, i);
}

static int change_in(struct change *c)
{
    struct loci_index *ix = c->ix;
    const struct loci_node *leaf = &ix->node->node;
    loco_object_t object;
    loco_bytes_t old;
    bool found;
    int status = loci_index_find(ix, LOCI_INDEX_ALONE, c->key, 0, ix->node, &object);
    unsigned i;

    if (status != LOCO_OK)
        return status;
    i = loci_node_find(leaf, c->key, &found);
    if (found && loci_node_is_apart(leaf, i) && c->kind != DELETE && c->kind != INSERT)
        return change_apart(c, loci_node_handle(leaf, i));
    if (found)
        old = loci_node_value(leaf, i);
    status = decide(c, found ? &old : NULL);
    if (status != LOCO_OK)
        return status;
    return c->kind == DELETE ? remove_entry(c, object, i) : set_entry(c, object, i, found);
}

/* Within a transaction, or again and again in one of its own. */
static int change(loco_tree_t *tree, struct change *c)
{
    struct loci_index *ix = &tree->index;
    int status = loci_tree_check_key(ix, "loco_tree", c->key);

    c->ix = ix;
    if (status == LOCO_OK)
        status = check_value(ix, c->value);
    if (status == LOCO_OK)
        status = loci_tree_enter(ix);
    if (status != LOCO_OK || !ix->own)
        return status != LOCO_OK ? status : change_in(c);
    for (int64_t limit = LOCI_TX_PAUSE_FIRST;; loci_tx_back_off(ix->tx, &limit)) {
        status = loco_tx_begin(ix->tx);
        if (status == LOCO_OK)
            status = change_in(c);
        if (status == LOCO_OK)
            status = loco_tx_commit(ix->tx);
        else
            loco_tx_abort(ix->tx);
        if (status != LOCO_ERR_CONFLICT)
            return status;
    }
}

int loco_tree_put(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    return change(tree, &(struct change){ .kind = PUT, .key = key, .value = value });
}

int loco_tree_insert(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    return change(tree, &(struct change){ .kind = INSERT, .key = key, .value = value });
}

int loco_tree_update(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value)
{
    return change(tree, &(struct change){ .kind = UPDATE, .key = key, .value = value });
}

int loco_tree_delete(loco_tree_t *tree, loco_bytes_t key)
{
    return change(tree, &(struct change){ .kind = DELETE, .key = key });
}

int loco_tree_compare_set(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t expected,
                          loco_bytes_t desired)
{
    return change(tree, &(struct change){ .kind = COMPARE_SET, .key = key, .value = desired,
                                          .expected = expected });
}

int loco_tree_add(loco_tree_t *tree, loco_bytes_t key, uint64_t by, uint64_t *before)
{
    struct change c = { .kind = ADD, .key = key, .by = by };
    int status = change(tree, &c);

    if (status == LOCO_OK && before != NULL)
        *before = c.before;
    return status;
}
