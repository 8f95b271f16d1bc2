/* SPDX-License-Identifier: BSD-3-Clause */

/* Writing a node that has changed, and what else has to be written so that the tree is whole: all
 * of it in the transaction at hand, which has read the node.
 *
 * A node that is too large: its right half becomes a new node, and the level above gets an entry
 * for that, so that it may have to be split as well. A root that is too large: both halves become
 * new nodes, and the root is the only node of a new level. */

#include "config.h"

#include "index.h"

/* ---- objects ---- */

int loci_index_new(struct loci_index *ix, const void *value, size_t len, loco_object_t *object)
{
    const struct loco_store *s = ix->tx->s;
    int first = (int)(loci_random(s->rt) % (uint64_t)s->nhosts), status = LOCO_ERR_FULL;

    for (int i = 0; i < s->nhosts; i++) {
        status = loco_tx_new(ix->tx, s->host[(first + i) % s->nhosts], value, len, object);
        if (status != LOCO_ERR_FULL && status != LOCO_ERR_PEER_DEAD)
            break;
    }
    return status;
}

static int new_node(struct loci_index *ix, const struct loci_node *node, loco_object_t *object)
{
    return loci_index_new(ix, node, loci_node_bytes(node), object);
}

int loci_index_write_node(struct loci_index *ix, loco_object_t object,
                          const struct loci_node *node)
{
    if (node->level > 0)
        loci_index_forget(ix, object);
    return loco_tx_write(ix->tx, object, node, loci_node_bytes(node));
}

/* A key that outlives the buffer that it lies in. */
static loco_bytes_t keep_fence(struct loci_index *ix, loco_bytes_t fence)
{
    if (fence.len > 0)
        memcpy(ix->fence, fence.data, fence.len);
    return loco_bytes(ix->fence, fence.len);
}

static loco_bytes_t handle_as_value(const loco_object_t *object)
{
    return loco_bytes(object, sizeof *object);
}

/* ---- too large ---- */

/* ix->node in two; the fence between them, and the object of the right one. */
static int split(struct loci_index *ix, unsigned changed, loco_bytes_t *fence,
                 loco_object_t *right)
{
    struct loci_node *node = &ix->node->node;
    int status;

    loci_index_count(ix, LOCI_STATS_SPLITS, 1);
    loci_node_split(node, loci_node_split_point(node, changed), &ix->right->node);
    *fence = keep_fence(ix, loci_node_low(&ix->right->node));
    status = new_node(ix, &ix->right->node, right);
    node->right = *right;
    return status;
}

/* The root, with what ix->node has: one level higher. */
static int grow(struct loci_index *ix, unsigned changed)
{
    struct loci_node *root = &ix->right->node;
    loco_object_t left, right;
    loco_bytes_t fence;
    int status = split(ix, changed, &fence, &right);

    if (status == LOCO_OK)
        status = new_node(ix, &ix->node->node, &left);
    if (status != LOCO_OK)
        return status;
    loci_node_make(root, ix->id, ix->node->node.level + 1u, loco_bytes(NULL, 0), NULL, 0);
    loci_node_insert(root, 0, loco_bytes(NULL, 0), handle_as_value(&left), false);
    loci_node_insert(root, 1, fence, handle_as_value(&right), false);
    return loci_index_write_node(ix, ix->root, root);
}

int loci_index_write(struct loci_index *ix, loco_object_t object, unsigned changed)
{
    struct loci_node *node = &ix->node->node;
    int status = LOCO_OK;

    while (status == LOCO_OK) {
        unsigned level = node->level;
        loco_object_t right;
        loco_bytes_t fence;
        bool found;

        if (!loci_node_is_large(node, loci_index_limit(ix, node->level)))
            return loci_index_write_node(ix, object, node);
        if (object == ix->root)
            return grow(ix, changed);
        status = split(ix, changed, &fence, &right);
        if (status == LOCO_OK)
            status = loci_index_write_node(ix, object, node);
        if (status == LOCO_OK)
            status = loci_index_find(ix, LOCI_INDEX_READ, fence, level + 1, ix->node, &object);
        if (status != LOCO_OK)
            return status;
        changed = loci_node_find(node, fence, &found);
        if (found)
            return loci_index_broken(ix);
        loci_node_insert(node, changed, fence, handle_as_value(&right), false);
    }
    return status;
}
