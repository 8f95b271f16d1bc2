/* SPDX-License-Identifier: BSD-3-Clause */

/* Trees in the order of their keys: cursors and scans.
 *
 * A cursor has a copy of a leaf, as it was at one instant, and goes on at that leaf's high fence.
 * Its link there is a hint, as all links are: the leaf that has the fence's key comes next. By
 * then others may have split the copied one, or taken out what follows; its fence is the end of
 * what was seen all the same, so nothing is seen twice or left out. */

#include "config.h"

#include <stdlib.h>

#include "tree.h"

int loci_tree_cursor_init(struct loco_tree_cursor *c, struct loci_index *ix)
{
    *c = (struct loco_tree_cursor){ .ix = ix, .leaf = malloc(sizeof *c->leaf) };
    return c->leaf == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

void loci_tree_cursor_fini(struct loco_tree_cursor *c)
{
    free(c->leaf);
    free(c->apart);
}

int loco_tree_cursor_open(loco_tree_t *tree, const loco_bytes_t *from, loco_tree_cursor_t **out)
{
    struct loco_tree_cursor *c = malloc(sizeof *c);
    int status = c == NULL ? LOCO_ERR_NO_MEMORY : loci_tree_cursor_init(c, &tree->index);

    if (status == LOCO_OK)
        status = loco_tree_cursor_seek(c, from);
    if (status != LOCO_OK) {
        loco_tree_cursor_close(c);
        return status;
    }
    *out = c;
    return LOCO_OK;
}

void loco_tree_cursor_close(loco_tree_cursor_t *c)
{
    if (c == NULL)
        return;
    loci_tree_cursor_fini(c);
    free(c);
}

/* ---- leaves ---- */

static void go_on_at(struct loco_tree_cursor *c, loco_bytes_t key, loco_object_t next)
{
    if (key.len > 0)
        memmove(c->key, key.data, key.len);
    c->key_len = key.len;
    c->next = next;
    c->loaded = false;
}

int loco_tree_cursor_seek(loco_tree_cursor_t *c, const loco_bytes_t *from)
{
    loco_bytes_t key = from == NULL ? loco_bytes(NULL, 0) : *from;
    int status = loci_index_check_key(c->ix, key);

    if (status == LOCO_OK)
        go_on_at(c, key, 0);
    return status;
}

/* The leaf of the key at which to go on. */
static int load(struct loco_tree_cursor *c, enum loci_index_how how)
{
    struct loci_index *ix = c->ix;
    loco_bytes_t key = loco_bytes(c->key, c->key_len);
    loco_object_t object;
    bool found;
    int status = LOCO_ERR_NOT_FOUND;

    if (c->next != 0)
        status = loci_index_read_node(ix, how, c->next, ix->leaf_bytes, c->leaf);
    if (status == LOCO_OK && (c->leaf->node.level != 0 || loci_node_side(&c->leaf->node, key) != 0))
        status = LOCO_ERR_NOT_FOUND;
    if (status == LOCO_ERR_NOT_FOUND)
        status = loci_index_find(ix, how, key, 0, c->leaf, &object);
    if (status != LOCO_OK)
        return status;
    c->at = loci_node_find(&c->leaf->node, key, &found);
    c->loaded = true;
    return LOCO_OK;
}

/* A value that other calls on the tree leave alone. */
static void hold_apart(struct loco_tree_cursor *c)
{
    unsigned char *apart = c->apart;

    c->apart = c->ix->apart;
    c->ix->apart = apart;
}

/* An entry of the copy. LOCO_ERR_AGAIN: a value in its own object has gone since that was made. */
static int take(struct loco_tree_cursor *c, enum loci_index_how how, loco_bytes_t *key,
                loco_bytes_t *value)
{
    const struct loci_node *leaf = &c->leaf->node;
    unsigned i = c->at;
    int status = LOCO_OK;

    *key = loci_node_key(leaf, i);
    *value = loci_node_value(leaf, i);
    if (loci_node_is_apart(leaf, i))
        status = loci_apart_read(c->ix, how, loci_node_handle(leaf, i), *key, value);
    if (status == LOCO_ERR_NOT_FOUND) {
        go_on_at(c, *key, 0);
        return LOCO_ERR_AGAIN;
    }
    if (status != LOCO_OK)
        return status;
    if (loci_node_is_apart(leaf, i))
        hold_apart(c);
    c->at++;
    return LOCO_OK;
}

static int next(struct loco_tree_cursor *c, enum loci_index_how how, loco_bytes_t *key,
                loco_bytes_t *value)
{
    for (;;) {
        const struct loci_node *leaf = &c->leaf->node;
        int status = c->loaded ? LOCO_OK : load(c, how);

        if (status != LOCO_OK)
            return status;
        if (c->at < leaf->n) {
            status = take(c, how, key, value);
            if (status != LOCO_ERR_AGAIN)
                return status;
        } else if (loci_node_has_high(leaf)) {
            go_on_at(c, loci_node_high(leaf), leaf->right);
        } else {
            return LOCO_ERR_NOT_FOUND;
        }
    }
}

int loco_tree_cursor_next(loco_tree_cursor_t *c, loco_bytes_t *key, loco_bytes_t *value)
{
    int status = loci_index_enter(c->ix);

    return status != LOCO_OK ? status
           : next(c, c->ix->own ? LOCI_INDEX_PEEK : LOCI_INDEX_READ, key, value);
}

/* ---- scans ---- */

static int scan(struct loco_tree_cursor *c, const loco_bytes_t *to, uint64_t limit,
                loco_tree_visit_fn *visit, void *ctx)
{
    int status = LOCO_OK;

    for (uint64_t n = 0; status == LOCO_OK && (limit == 0 || n < limit); n++) {
        loco_bytes_t key, value;

        status = loco_tree_cursor_next(c, &key, &value);
        if (status == LOCO_ERR_NOT_FOUND)
            return LOCO_OK;
        if (status != LOCO_OK)
            return status;
        if (to != NULL && loci_bytes_compare(key, *to) >= 0)
            return LOCO_OK;
        status = visit(ctx, key, value);
    }
    return status;
}

/* One after the other uses the tree's cursor. */
int loco_tree_scan(loco_tree_t *tree, const loco_bytes_t *from, const loco_bytes_t *to,
                   uint64_t limit, loco_tree_visit_fn *visit, void *ctx)
{
    struct loco_tree_cursor *c = &tree->scan;
    bool nested = tree->scanning;
    int status = nested ? loco_tree_cursor_open(tree, from, &c) : loco_tree_cursor_seek(c, from);

    if (status != LOCO_OK)
        return status;
    tree->scanning = true;
    status = scan(c, to, limit, visit, ctx);
    tree->scanning = nested;
    if (nested)
        loco_tree_cursor_close(c);
    return status;
}
