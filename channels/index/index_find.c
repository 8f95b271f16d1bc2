/* SPDX-License-Identifier: BSD-3-Clause */

/* The way to a key's node: hints down to its level, by copies of upper nodes or by reading them;
 * then reading nodes until one has the key. See index.h for why that is right. */

#include "config.h"

#include "index.h"

#define TRIES 1000u             /* hints that lead nowhere, one after the other, of what others are
                                   changing all the time: more are a broken tree */
#define STEPS 64u               /* from node to node, by one hint; */
#define STEPS_OLD 4u            /* by one of copies */

/* ---- places ---- */

int loci_place_side(const struct loci_node *node, const struct loci_place *place)
{
    bool has_high = loci_node_has_high(node);

    switch (place->toward) {
    case LOCI_LAST:
        return has_high;
    case LOCI_BELOW:
        if (loci_bytes_compare(loci_node_low(node), place->key) >= 0)
            return -1;
        return has_high && loci_bytes_compare(loci_node_high(node), place->key) < 0;
    default:
        return loci_node_side(node, place->key);
    }
}

/* The last entry whose key is not above it: node->n if there is none. */
static unsigned floor_of(const struct loci_node *node, const struct loci_place *place)
{
    bool found;
    unsigned i;

    if (place->toward == LOCI_AT)
        return loci_node_floor(node, place->key);
    i = place->toward == LOCI_LAST ? node->n : loci_node_find(node, place->key, &found);
    return i > 0 ? i - 1 : node->n;
}

/* ---- hints ---- */

/* A node above the leaves: *copy, or as it is. It is valid until the next call. */
static int inner(struct loci_index *ix, loco_object_t object, bool fresh,
                 const struct loci_cached **copy, const struct loci_node **node)
{
    int status;

    *copy = fresh ? NULL : loci_index_cached(ix, object);
    if (*copy != NULL) {
        *node = (*copy)->node;
        return LOCO_OK;
    }
    status = loci_index_read_node(ix, LOCI_INDEX_PEEK, object, ix->inner_bytes, ix->upper);
    if (status != LOCO_OK)
        return status;
    if (ix->upper->node.level > 0)
        loci_index_keep(ix, object, &ix->upper->node);
    *node = &ix->upper->node;
    return LOCO_OK;
}

/* Where to go from a node that is on the way to `level`, or 0. */
static loco_object_t next_of(const struct loci_node *node, const struct loci_place *place,
                             int side)
{
    unsigned i;

    if (side > 0)
        return node->right;
    i = floor_of(node, place);
    return i < node->n ? loci_node_handle(node, i) : 0;
}

/* A node of that level, or of one above it, which is or was on the way to the place.
 * LOCO_ERR_AGAIN: copies, or nodes that change meanwhile, lead to none. */
static int hint(struct loci_index *ix, const struct loci_place *place, unsigned level, bool fresh,
                loco_object_t *object)
{
    const struct loci_cached *copy;
    const struct loci_node *node;
    int want = -1;

    *object = level > 0 || fresh || place->toward != LOCI_AT ? 0 : loci_index_lead(ix, place->key);
    if (*object != 0)
        return LOCO_OK;
    *object = ix->root;
    ix->parent = 0;
    for (unsigned steps = 0; steps < STEPS && *object != 0; steps++) {
        int status = inner(ix, *object, fresh, &copy, &node), side;
        loco_object_t at = *object;

        if (status != LOCO_OK)
            return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_AGAIN : status;
        side = loci_place_side(node, place);
        if ((want >= 0 && node->level != want) || side < 0)
            return LOCO_ERR_AGAIN;
        if (side <= 0 && node->level <= level)
            return LOCO_OK;
        want = side > 0 ? node->level : node->level - 1;
        *object = copy != NULL && side == 0 && place->toward == LOCI_AT
                  ? loci_cached_child(copy, place->key) : next_of(node, place, side);
        if (side > 0) {
            loci_index_forget(ix, ix->parent);
        } else {
            ix->parent = at;
            if (want == (int)level)
                return *object != 0 ? LOCO_OK : LOCO_ERR_AGAIN;
        }
    }
    return LOCO_ERR_AGAIN;
}

/* ---- the nodes themselves ---- */

static int walk(struct loci_index *ix, enum loci_index_how how, const struct loci_place *place,
                unsigned level, unsigned limit, union loci_node_buffer *to, loco_object_t *object)
{
    size_t expected = loci_index_limit(ix, level);

    for (unsigned steps = 0; steps < limit; steps++) {
        int status = loci_index_read_node(ix, how, *object, expected, to), side;

        if (status != LOCO_OK)
            return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_AGAIN : status;
        side = loci_place_side(&to->node, place);
        if (side < 0 || to->node.level < level)
            return LOCO_ERR_AGAIN;
        if (side == 0 && to->node.level == level)
            return LOCO_OK;
        if (side > 0) {
            loci_index_forget(ix, ix->parent);
            loci_index_count(ix, LOCI_STATS_WALKED_RIGHT, 1);
        }
        *object = next_of(&to->node, place, side);
        if (*object == 0)
            return LOCO_ERR_AGAIN;
    }
    return LOCO_ERR_AGAIN;
}

/* What is committed does not lead to a node that this transaction has taken out: then all nodes on
 * the way are read as it has them. */
static int from_root(struct loci_index *ix, loco_object_t *object)
{
    *object = ix->root;
    ix->parent = 0;
    return LOCO_OK;
}

/* By the way that was gone before, if it is known. */
static int find_again(struct loci_index *ix, enum loci_index_how how,
                      const struct loci_place *place, struct loci_leaf_way *way, uint32_t tag,
                      union loci_node_buffer *to, loco_object_t *object)
{
    int status;

    if (way == NULL || way->tag != tag)
        return LOCO_ERR_AGAIN;
    *object = way->leaf;
    ix->parent = 0;
    loci_tx_expect_block(ix->tx, way->leaf, way->block, ix->leaf_bytes);
    status = walk(ix, how, place, 0, STEPS_OLD, to, object);
    way->leaf = *object;
    if (status == LOCO_ERR_AGAIN)
        way->tag = 0;
    return status;
}

static int find(struct loci_index *ix, enum loci_index_how how, const struct loci_place *place,
                unsigned level, union loci_node_buffer *to, loco_object_t *object)
{
    bool others_write = how == LOCI_INDEX_PEEK || (how == LOCI_INDEX_ALONE && ix->own);
    uint32_t tag;
    struct loci_leaf_way *way = level > 0 || place->toward != LOCI_AT ? NULL
                           : loci_index_way(ix, place->key, &tag);

    loci_index_count(ix, LOCI_STATS_LOOKUPS, level == 0);
    if (way != NULL) {
        int status = find_again(ix, how, place, way, tag, to, object);

        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    for (unsigned tries = 0; tries < TRIES; tries++) {
        int status = tries > 1 && !others_write ? from_root(ix, object)
                     : hint(ix, place, level, tries > 0, object);

        if (status == LOCO_OK)
            status = walk(ix, how, place, level, tries > 0 ? STEPS : STEPS_OLD, to, object);
        if (status == LOCO_OK && way != NULL)
            *way = (struct loci_leaf_way){ tag, 0, *object };
        if (status != LOCO_ERR_AGAIN)
            return status;
        loci_index_count(ix, LOCI_STATS_STALE, 1);
    }
    return loci_index_broken(ix);
}

int loci_index_find(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                    unsigned level, union loci_node_buffer *to, loco_object_t *object)
{
    return find(ix, how, &(struct loci_place){ LOCI_AT, key }, level, to, object);
}

int loci_index_find_place(struct loci_index *ix, enum loci_index_how how,
                          const struct loci_place *place, union loci_node_buffer *to)
{
    loco_object_t object;

    return find(ix, how, place, 0, to, &object);
}

/* ---- several leaves ---- */

unsigned loci_index_name(struct loci_index *ix, const struct loci_place *place,
                         const loco_bytes_t *end, loco_object_t *leaves, unsigned most)
{
    const struct loci_cached *copy;
    const struct loci_node *parent;
    int step = place->toward == LOCI_AT ? 1 : -1;
    unsigned n = 0;

    if (hint(ix, place, 0, false, &leaves[0]) != LOCO_OK)
        return 0;
    copy = most > 1 ? loci_index_cached(ix, ix->parent) : NULL;
    if (copy == NULL)
        return 1;
    parent = copy->node;
    for (int i = (int)floor_of(parent, place); i >= 0 && i < parent->n && n < most; i += step) {
        loco_bytes_t low = loci_node_key(parent, (unsigned)i);

        if (n > 0 && end != NULL && loci_bytes_compare(low, *end) >= 0)
            break;
        leaves[n++] = loci_node_handle(parent, (unsigned)i);
    }
    return n;
}
