/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw limit of an ordered map: a B+ tree in one process's own memory, which nobody else uses,
 * with no lock, check or copy of a node. Nodes are split on the way down; nothing is removed.
 */
#include "kv_rivals.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };         /* keys of a node */

struct node {
    bool is_leaf;
    unsigned n;
    struct node *next;      /* of leaves: in the order of keys */
    struct node *child[MOST + 1];
    unsigned char bytes[];  /* keys, and in a leaf values behind them */
};

struct btree {
    size_t key_bytes, value_bytes;
    struct node *root;
};

static struct node *make(const struct btree *t, bool is_leaf)
{
    struct node *node = malloc(sizeof(*node) + (MOST + 1)
                               * (t->key_bytes + (is_leaf ? t->value_bytes : 0)));

    if (node == NULL)
        ex_abort("no memory for a node");
    node->is_leaf = is_leaf;
    node->n = 0;
    node->next = NULL;
    return node;
}

static unsigned char *key_of(const struct btree *t, struct node *node, unsigned i)
{
    return node->bytes + i * t->key_bytes;
}

static unsigned char *value_of(const struct btree *t, struct node *node, unsigned i)
{
    return node->bytes + (MOST + 1) * t->key_bytes + i * t->value_bytes;
}

static uint64_t number_of(const unsigned char *key)
{
    uint64_t number;

    kv_key_read(key, KV_NUMBER_KEY, &number);
    return number;
}

/* The first key that is not below that one; *found: it is that one. */
static unsigned find_number(const struct btree *t, struct node *node, uint64_t key, bool *found)
{
    unsigned from = 0, n = node->n;

    while (n > 0) {
        unsigned half = n / 2;
        bool below = number_of(key_of(t, node, from + half)) < key;

        from = below ? from + half + 1 : from;
        n = below ? n - half - 1 : half;
    }
    *found = from < node->n && number_of(key_of(t, node, from)) == key;
    return from;
}

static unsigned find(const struct btree *t, struct node *node, const unsigned char *key,
                     bool *found)
{
    unsigned from = 0, to = node->n;

    if (t->key_bytes == KV_NUMBER_KEY)
        return find_number(t, node, number_of(key), found);
    *found = false;
    while (from < to) {
        unsigned middle = (from + to) / 2;
        int order = memcmp(key_of(t, node, middle), key, t->key_bytes);

        if (order < 0)
            from = middle + 1;
        else
            to = middle;
        *found = *found || order == 0;
    }
    return from;
}

/* The leaf that has the key, or would have it. */
static struct node *leaf_of(const struct btree *t, const unsigned char *key)
{
    struct node *node = t->root;
    bool found;

    while (!node->is_leaf) {
        unsigned i = find(t, node, key, &found);

        node = node->child[i + found];
    }
    return node;
}

/* ---- Inserting ---- */

static void open_gap(const struct btree *t, struct node *node, unsigned i)
{
    memmove(key_of(t, node, i + 1), key_of(t, node, i), (node->n - i) * t->key_bytes);
    if (node->is_leaf)
        memmove(value_of(t, node, i + 1), value_of(t, node, i), (node->n - i) * t->value_bytes);
    else
        memmove(node->child + i + 2, node->child + i + 1, (node->n - i) * sizeof(node->child[0]));
    node->n++;
}

/* Child number `i` of `parent`, which is full: its upper half becomes a node of its own. */
static void split(const struct btree *t, struct node *parent, unsigned i)
{
    struct node *left = parent->child[i], *right = make(t, left->is_leaf);
    unsigned at = left->n / 2, skip = left->is_leaf ? 0 : 1;

    right->n = left->n - at - skip;
    memcpy(key_of(t, right, 0), key_of(t, left, at + skip), right->n * t->key_bytes);
    if (left->is_leaf) {
        memcpy(value_of(t, right, 0), value_of(t, left, at), right->n * t->value_bytes);
        right->next = left->next;
        left->next = right;
    } else {
        memcpy(right->child, left->child + at + 1, (right->n + 1) * sizeof(right->child[0]));
    }
    open_gap(t, parent, i);
    memcpy(key_of(t, parent, i), key_of(t, left, at), t->key_bytes);
    parent->child[i + 1] = right;
    left->n = at;
}

static void insert(struct btree *t, struct kv_op *op)
{
    struct node *node = t->root, *root;
    unsigned i;
    bool found;

    if (node->n == MOST) {
        root = make(t, false);
        root->child[0] = node;
        split(t, root, 0);
        t->root = node = root;
    }
    while (!node->is_leaf) {
        i = find(t, node, op->name, &found) + found;
        if (node->child[i]->n == MOST) {
            split(t, node, i);
            i = find(t, node, op->name, &found) + found;
        }
        node = node->child[i];
    }
    i = find(t, node, op->name, &found);
    op->result = found ? KV_EXISTS : KV_DONE;
    if (found)
        return;
    open_gap(t, node, i);
    memcpy(key_of(t, node, i), op->name, t->key_bytes);
    memcpy(value_of(t, node, i), op->value, t->value_bytes);
}

/* ---- The others ---- */

static void scan(const struct btree *t, struct kv_op *op)
{
    struct node *leaf = leaf_of(t, op->name);
    uint64_t n = 0;
    bool found;

    for (unsigned i = find(t, leaf, op->name, &found); leaf != NULL; leaf = leaf->next, i = 0)
        for (; i < leaf->n; i++) {
            kv_found(op, key_of(t, leaf, i), t->key_bytes, value_of(t, leaf, i), t->value_bytes);
            if (++n == op->limit)
                return;
        }
}

static bool start(void *session, struct kv_op *op)
{
    struct btree *t = session;
    struct node *leaf;
    unsigned i;
    bool found;

    if (op->kind == KV_INSERT || op->kind == KV_SCAN) {
        if (op->kind == KV_INSERT)
            insert(t, op);
        else
            scan(t, op);
        return true;
    }
    leaf = leaf_of(t, op->name);
    i = find(t, leaf, op->name, &found);
    op->result = found ? KV_DONE : KV_MISSING;
    if (found && op->kind == KV_READ)
        memcpy(op->value, value_of(t, leaf, i), t->value_bytes);
    else if (found)
        memcpy(value_of(t, leaf, i), op->value, t->value_bytes);
    return true;
}

static void *open_tree(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct btree *t = calloc(1, sizeof(*t));

    (void)most;
    (void)all;
    if (t == NULL)
        ex_abort("no memory for a tree");
    t->key_bytes = (size_t)o->key_bytes;
    t->value_bytes = (size_t)o->value_bytes;
    t->root = make(t, true);
    return t;
}

static void release(struct node *node)
{
    for (unsigned i = 0; !node->is_leaf && i <= node->n; i++)
        release(node->child[i]);
    free(node);
}

static void close_tree(void *store)
{
    struct btree *t = store;

    release(t->root);
    free(t);
}

static void *attach(void *store, int window)
{
    (void)window;
    return store;
}

static void detach(void *session)
{
    (void)session;
}

const struct kv_backend kv_btree = {
    .name = "private-tree",
    .text = "the raw limit of trees: each rank has a B+ tree of its own, in private memory",
    .alone = true,
    .one_thread = true,
    .names = true,
    .ordered = true,
    .open = open_tree,
    .close = close_tree,
    .attach = attach,
    .detach = detach,
    .start = start,
};
