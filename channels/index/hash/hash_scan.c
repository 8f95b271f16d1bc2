/* SPDX-License-Identifier: BSD-3-Clause */

/* All entries of a hash table: its leaves from the first one to the last.
 *
 * A scan has a copy of a leaf, as it was at one instant, and goes on at that leaf's high fence: the
 * copy's link is a hint, as all links are, and the leaf that has the fence comes next. By then
 * others may have split the copied one, or taken out what follows; its fence is the end of what was
 * seen all the same, so nothing is seen twice or left out.
 *
 * Over a network the leaves that come next, as the directory names them, are read together: 4, 8,
 * 16 of them; and so are the values that have objects of their own. */

#include "config.h"

#include <stdlib.h>

#include "hash.h"

#define HASH_BYTES sizeof(uint64_t)     /* before the key of an entry */
#define AHEAD_FIRST 4u                  /* leaves, */
#define AHEAD_MOST 16u
#define VALUES 4u                       /* and values for each of these */

void loci_hash_scan_free(struct loci_hash_scan *scan)
{
    if (scan != NULL)
        free(scan->apart);
    free(scan);
}

static void go_on_at(struct loci_hash_scan *scan, loco_bytes_t key)
{
    if (key.len > 0)
        memmove(scan->key, key.data, key.len);
    scan->key_len = key.len;
}

/* That leaf, and those behind it, unless it is there already. */
static int read_ahead(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                      loco_object_t right)
{
    struct loci_index *ix = &h->index;
    loco_object_t leaves[AHEAD_MOST] = { right };
    loco_bytes_t key = loco_bytes(scan->key, scan->key_len);
    unsigned n;

    if (!loci_index_is_far(ix) || loci_index_ahead_find(ix, how, right) != NULL
        || !loci_object_is(ix->tx->s, right) || !loci_tx_is_far(ix->tx, right))
        return LOCO_OK;
    n = loci_hash_name(h, loci_hash_number(key), leaves, 1, scan->ahead);
    scan->ahead = scan->ahead * 2 < AHEAD_MOST ? scan->ahead * 2 : AHEAD_MOST;
    return n > 1 ? loci_index_ahead(ix, how, leaves, n) : LOCO_OK;
}

/* The leaf of the key at which to go on: `right` is it, probably. */
static int load(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                loco_object_t right)
{
    struct loci_index *ix = &h->index;
    loco_bytes_t key = loco_bytes(scan->key, scan->key_len);
    int status = right == 0 ? LOCO_ERR_NOT_FOUND : read_ahead(h, scan, how, right);
    bool found;

    if (status == LOCO_OK)
        status = loci_index_read_node(ix, how, right, ix->leaf_bytes, &scan->leaf);
    if (status == LOCO_OK && loci_node_side(&scan->leaf.node, key) != 0)
        status = LOCO_ERR_NOT_FOUND;
    if (status == LOCO_ERR_NOT_FOUND)
        status = loci_hash_find(ix, how, key, &scan->leaf, &right);
    if (status == LOCO_OK)
        scan->at = loci_node_find(&scan->leaf.node, key, &found);
    return status;
}

/* The next entry. LOCO_ERR_AGAIN: its value, in an object of its own, has gone since the leaf was
 * read. */
static int take(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                loco_bytes_t *key, loco_bytes_t *value)
{
    const struct loci_node *leaf = &scan->leaf.node;
    struct loci_index *ix = &h->index;
    unsigned char *apart = scan->apart;
    unsigned i = scan->at++;
    int status = LOCO_OK;

    *key = loci_node_key(leaf, i);
    *value = loci_node_value(leaf, i);
    if (key->len < HASH_BYTES)
        return LOCO_ERR_PROTOCOL;
    if (!loci_node_is_apart(leaf, i))
        return LOCO_OK;
    if (loci_index_is_far(ix))
        status = loci_index_ahead_values_of(ix, how, leaf, i, 1, NULL, VALUES * scan->ahead);
    if (status == LOCO_OK)
        status = loci_apart_read(ix, how, loci_node_handle(leaf, i), *key, value);
    if (status == LOCO_ERR_NOT_FOUND)
        return LOCO_ERR_AGAIN;
    /* Other calls leave it alone. */
    scan->apart = ix->apart;
    ix->apart = apart;
    return status;
}

/* Within a call: the visitor is outside. */
static int load_leaf(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                     loco_object_t right)
{
    int status = loci_tx_enter(h->index.tx);

    return status != LOCO_OK ? status : loci_tx_leave(h->index.tx, load(h, scan, how, right));
}

static int take_entry(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                      loco_bytes_t *key, loco_bytes_t *value)
{
    int status = loci_tx_enter(h->index.tx);

    return status != LOCO_OK ? status : loci_tx_leave(h->index.tx, take(h, scan, how, key, value));
}

/* The rest of the leaf. */
static int visit_leaf(struct loco_hash *h, struct loci_hash_scan *scan, enum loci_index_how how,
                      loco_hash_visit_fn *visit, void *ctx)
{
    int status = LOCO_OK;

    while (status == LOCO_OK && scan->at < scan->leaf.node.n) {
        loco_bytes_t key, value;

        status = take_entry(h, scan, how, &key, &value);
        if (status == LOCO_ERR_AGAIN) {
            go_on_at(scan, key);
            status = load_leaf(h, scan, how, 0);
        } else if (status == LOCO_OK) {
            status = visit(ctx, loco_bytes((const unsigned char *)key.data + HASH_BYTES,
                                           key.len - HASH_BYTES), value);
        }
    }
    return status;
}

/* visit() may make other calls, so that each leaf is begun as a call is. */
static int visit_all(struct loco_hash *h, struct loci_hash_scan *scan, loco_hash_visit_fn *visit,
                     void *ctx)
{
    const struct loci_node *leaf = &scan->leaf.node;
    loco_object_t next = h->root->root.first;

    go_on_at(scan, loco_bytes(NULL, 0));
    scan->ahead = AHEAD_FIRST;
    loci_index_ahead_end(&h->index);
    for (;;) {
        int status = loci_index_enter_again(&h->index);
        enum loci_index_how how = h->index.own ? LOCI_INDEX_PEEK : LOCI_INDEX_READ;

        if (status == LOCO_OK)
            status = load_leaf(h, scan, how, next);
        if (status == LOCO_OK)
            status = visit_leaf(h, scan, how, visit, ctx);
        if (status != LOCO_OK || !loci_node_has_high(leaf))
            return status;
        go_on_at(scan, loci_node_high(leaf));
        next = leaf->right;
    }
}

/* One after the other uses the same memory. */
static int scan_all(loco_hash_t *hash, loco_hash_visit_fn *visit, void *ctx)
{
    struct loci_hash_scan *scan = hash->scan != NULL ? hash->scan : calloc(1, sizeof *scan);
    int status;

    if (scan == NULL)
        return LOCO_ERR_NO_MEMORY;
    hash->scan = NULL;
    status = visit_all(hash, scan, visit, ctx);
    if (hash->scan != NULL)
        loci_hash_scan_free(scan);
    else
        hash->scan = scan;
    return loci_hash_done(hash, status);
}

int loco_hash_scan(loco_hash_t *hash, loco_hash_visit_fn *visit, void *ctx)
{
    struct loci_thread *self = loci_call_begin(loci_index_calls(&hash->index), LOCI_CALL_SCAN, 0);

    return loci_call_end(self, scan_all(hash, visit, ctx));
}
