/* SPDX-License-Identifier: BSD-3-Clause */

/* Taking out nodes that are empty, in the transaction that removes the last entry.
 *
 *             P                     P          A leaf has lost its last entry. It goes: its left
 *          /  |  \                /   \        neighbour gets its high fence and its link, and its
 *       [ab] [ ] [xy]    ->    [ab]   [xy]     entry in P goes.
 *
 *             G                     G          Where the leaf is the only one below its parent, the
 *          /     \                  |          parent goes with it, and so on: a branch of nodes,
 *         P       Q      ->         P          all with the same fences. On each level the left
 *        / \      |                / \         neighbour gets the high fence. Those are the last
 *     [ab] [cd]  [ ]            [ab] [cd]      nodes on each level below the left neighbour of the
 *                                              branch's top.
 *
 * A branch whose top is the first of several below its parent stays, for the parent's low fence is
 * its own: a node's low fence never changes (index.h, c). It goes later, with its parent, when the
 * others below that parent have gone. So after each branch that is taken out, the parent may have
 * one entry left, and that may be a bare branch. A tree used as a queue thus keeps one empty leaf.
 *
 * Only the last removal below a node makes a bare branch of it: a node above the leaves is never
 * split so that one entry alone stays (loci_node_split_point).
 *
 * A root with one node alone below it gets what that node has, and the node goes: the tree is one
 * level lower. The lowest root has leaves below it.
 *
 * Source: free-at-empty (Johnson and Shasha, "B-trees with inserts and deletes: why free-at-empty
 * is better than merge-at-half", 1993): nodes are not merged while they have entries. */

#include "config.h"

#include "index.h"

#define LEVELS 32u              /* of a branch: a higher one stays */

/* From the leaf up. Their fences are those of ix->right. */
struct branch {
    unsigned n;
    loco_object_t object[LEVELS], right[LEVELS];        /* the nodes, and their links */
};

static void push(struct branch *b, loco_object_t object, const struct loci_node *node)
{
    b->object[b->n] = object;
    b->right[b->n++] = node->right;
}

/* The node above the branch to ix->node, and its entry that names it. Nodes that name nothing else
 * belong to the branch. */
static int climb(struct loci_index *ix, struct branch *b, loco_object_t *above, unsigned *i)
{
    const struct loci_node *node = &ix->node->node;
    loco_bytes_t low = loci_node_low(&ix->right->node);

    for (;;) {
        int status = loci_index_find(ix, LOCI_INDEX_READ, low, b->n, ix->node, above);
        bool found;

        if (status != LOCO_OK)
            return status;
        *i = loci_node_find(node, low, &found);
        if (!found || loci_node_handle(node, *i) != b->object[b->n - 1])
            return loci_index_broken(ix);
        if (node->n > 1 || b->n == LEVELS)
            return LOCO_OK;
        push(b, *above, node);
    }
}

/* The branch's node of that level goes to its left neighbour `left`, which takes its place in the
 * branch and in ix->upper. *below: what the neighbour names last; *bare: no entries are in it but
 * one to a bare node. */
static int extend(struct loci_index *ix, struct branch *b, unsigned level, loco_object_t left,
                  loco_object_t *below, bool *bare)
{
    struct loci_node *node = &ix->upper->node;
    int status = loci_index_read_node(ix, LOCI_INDEX_READ, left, loci_index_limit(ix, level),
                                      ix->upper);

    if (status == LOCO_ERR_NOT_FOUND
        || (status == LOCO_OK && (node->level != level || node->right != b->object[level]
                                  || (level > 0 && node->n == 0))))
        return loci_index_broken(ix);
    if (status != LOCO_OK)
        return status;
    *below = level > 0 ? loci_node_handle(node, node->n - 1u) : 0;
    *bare = *bare && node->n == (level > 0 ? 1 : 0);
    loci_node_extend(node, &ix->right->node, b->right[level]);
    status = loci_index_write_node(ix, left, node);
    if (status == LOCO_OK)
        status = loco_tx_free(ix->tx, b->object[level]);
    loci_index_forget(ix, b->object[level]);
    loci_index_count(ix, LOCI_STATS_REMOVED, 1);
    b->object[level] = left;
    return status;
}

/* The root, ix->node, as long as it names one node alone. */
static int shrink(struct loci_index *ix)
{
    const struct loci_node *root = &ix->node->node;

    while (root->n == 1 && root->level > 1) {
        unsigned level = root->level - 1u;
        loco_object_t only = loci_node_handle(root, 0);
        int status = loci_index_read_node(ix, LOCI_INDEX_READ, only, ix->inner_bytes, ix->node);

        if (status == LOCO_ERR_NOT_FOUND
            || (status == LOCO_OK && (root->level != level || root->low != 0 || root->right != 0)))
            return loci_index_broken(ix);
        if (status == LOCO_OK)
            status = loco_tx_free(ix->tx, only);
        if (status != LOCO_OK)
            return status;
        loci_index_forget(ix, only);
        loci_index_count(ix, LOCI_STATS_REMOVED, 1);
    }
    return loci_index_write_node(ix, ix->root, root);
}

/* Entry `i` of ix->node names the branch. It is the left neighbours' branch after that; *bare: that
 * is one to be taken out, too, if it has a place above it. */
static int take_out(struct loci_index *ix, struct branch *b, loco_object_t above, unsigned i,
                    bool *bare)
{
    struct loci_node *node = &ix->node->node;
    union loci_node_buffer *leaf = ix->right;
    loco_object_t left = loci_node_handle(node, i - 1);
    int status = LOCO_OK;

    *bare = true;
    for (unsigned level = b->n; level-- > 0 && status == LOCO_OK;)
        status = extend(ix, b, level, left, &left, bare);
    if (status != LOCO_OK)
        return status;
    ix->right = ix->upper;
    ix->upper = leaf;
    loci_node_remove(node, i);
    if (above == ix->root) {
        *bare = false;
        return shrink(ix);
    }
    *bare = *bare && node->n == 1 && ix->right->node.low > 0 && b->n < LEVELS;
    if (*bare)
        push(b, above, node);
    return loci_index_write_node(ix, above, node);
}

int loci_index_write_less(struct loci_index *ix, loco_object_t object)
{
    union loci_node_buffer *leaf = ix->node;
    struct branch b = { .n = 0 };
    loco_object_t above;
    bool bare = true;
    unsigned i;
    int status;

    if (leaf->node.n > 0 || leaf->node.low == 0)
        return loci_index_write_node(ix, object, &leaf->node);
    push(&b, object, &leaf->node);
    ix->node = ix->right;
    ix->right = leaf;
    status = climb(ix, &b, &above, &i);
    if (status == LOCO_OK && i == 0)
        return loci_index_write_node(ix, object, &leaf->node);
    while (status == LOCO_OK && i > 0 && bare) {
        status = take_out(ix, &b, above, i, &bare);
        if (status == LOCO_OK && bare)
            status = climb(ix, &b, &above, &i);
    }
    return status;
}
