/* SPDX-License-Identifier: BSD-3-Clause */

/* Writing a leaf that has changed, in the transaction at hand, which has read it.
 *
 * A leaf that is too large is cut between two entries, by the fence of the fewest bits that leaves
 * a quarter of it on either side. So leaves begin where slots of a small directory begin, as in
 * extendible hashing (Fagin, Nievergelt, Pippenger, Strong 1979): a look-up finds its leaf at once.
 * Cut in the middle, as those of a tree are, a leaf would nearly always begin within a slot.
 *
 * A leaf that has lost its last entry is taken out: its left neighbour gets its fence and its link,
 * in the same transaction. It has to be that, for a neighbour that ended before would leave keys
 * without a leaf, and one that still named the leaf would lead to whatever its object is next. The
 * first leaf stays. */

#include "config.h"

#include "hash.h"

static int write_leaf(struct loci_index *ix, loco_object_t object, const struct loci_node *leaf)
{
    return loco_tx_write(ix->tx, object, leaf, loci_node_bytes(leaf));
}

/* ---- too large ---- */

/* Bits that are the same at the beginning of two keys of entries, the first of which is less. */
static unsigned same_bits(loco_bytes_t a, loco_bytes_t b)
{
    const unsigned char *x = a.data, *y = b.data;
    size_t i = 0;

    while (i < a.len && x[i] == y[i])
        i++;
    return i == a.len ? 8 * (unsigned)i
           : 8 * (unsigned)i + (unsigned)__builtin_clz((unsigned)(x[i] ^ y[i])) - 24;
}

/* Where to cut; *bits: that the entries on both sides have in common. */
static unsigned cut_of(const struct loci_node *leaf, unsigned *bits)
{
    size_t begin = loci_node_fences(leaf), bytes = leaf->heap - begin;
    unsigned at = loci_node_split_point(leaf, 0);

    *bits = same_bits(loci_node_key(leaf, at - 1), loci_node_key(leaf, at));
    for (unsigned i = 1; i < leaf->n; i++) {
        size_t left = leaf->end[i - 1] - begin;
        unsigned same = same_bits(loci_node_key(leaf, i - 1), loci_node_key(leaf, i));

        if (same < *bits && left >= bytes / 4 && left <= bytes - bytes / 4) {
            *bits = same;
            at = i;
        }
    }
    return at;
}

/* A fence below the key of an entry and above that of the one before: one bit more than these have
 * in common, which is a 1, and zeros up to a byte. */
static loco_bytes_t fence_of(struct loci_index *ix, loco_bytes_t key, unsigned bits)
{
    size_t len = bits / 8 + 1;

    memcpy(ix->fence, key.data, len);
    if (len <= sizeof(uint64_t))
        ix->fence[len - 1] &= (unsigned char)(0xff00 >> (bits % 8 + 1));
    return loco_bytes(ix->fence, len);
}

static int split(struct loci_index *ix, loco_object_t object)
{
    struct loci_node *leaf = &ix->node->node, *right = &ix->right->node;
    loco_object_t new;
    unsigned bits, at = cut_of(leaf, &bits);
    int status;

    loci_index_count(ix, LOCI_STATS_SPLITS, 1);
    loci_node_split_at(leaf, at, fence_of(ix, loci_node_key(leaf, at), bits), right);
    status = loci_index_new(ix, right, loci_node_bytes(right), &new);
    leaf->right = new;
    return status != LOCO_OK ? status : write_leaf(ix, object, leaf);
}

int loci_hash_write(struct loci_index *ix, loco_object_t object, unsigned changed)
{
    const struct loci_node *leaf = &ix->node->node;

    (void)changed;
    return loci_node_is_large(leaf, ix->leaf_bytes) ? split(ix, object)
           : write_leaf(ix, object, leaf);
}

/* ---- empty ---- */

/* A key that is below that fence, and so near to it that but leaves of one hash lie between. */
static loco_bytes_t below(struct loci_index *ix, loco_bytes_t fence)
{
    uint64_t hash = loci_hash_number(fence);

    return loco_key64(fence.len > sizeof hash ? hash : hash - 1, ix->fence);
}

/* The left neighbour of a leaf, to ix->upper. */
static int find_left(struct loci_index *ix, loco_object_t object, loco_bytes_t low,
                     loco_object_t *left)
{
    const struct loci_node *node = &ix->upper->node;
    int status = loci_hash_find(ix, LOCI_INDEX_READ, below(ix, low), ix->upper, left);

    while (status == LOCO_OK && node->right != object) {
        if (loci_node_side(node, low) <= 0)
            return loci_index_broken(ix);
        *left = node->right;
        status = loci_index_read_node(ix, LOCI_INDEX_READ, *left, ix->leaf_bytes, ix->upper);
    }
    return status == LOCO_ERR_NOT_FOUND ? loci_index_broken(ix) : status;
}

int loci_hash_write_less(struct loci_index *ix, loco_object_t object)
{
    const struct loci_node *leaf = &ix->node->node;
    loco_object_t left;
    int status;

    if (leaf->n > 0 || leaf->low == 0)
        return write_leaf(ix, object, leaf);
    status = find_left(ix, object, loci_node_low(leaf), &left);
    if (status != LOCO_OK)
        return status;
    loci_node_extend(&ix->upper->node, leaf, leaf->right);
    status = write_leaf(ix, left, &ix->upper->node);
    if (status == LOCO_OK)
        status = loco_tx_free(ix->tx, object);
    if (status == LOCO_OK)
        loci_hash_of_index(ix)->taken_out++;
    return status;
}
