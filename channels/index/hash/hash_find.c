/* SPDX-License-Identifier: BSD-3-Clause */

/* The way to a key's leaf: a hint, then reading leaves until one has the key. See hash.h for why
 * that is right.
 *
 * A copy of the directory's segment gives the first hint: one wait, for the leaf. The next one
 * comes from the segment as it is now. If that leads nowhere, too, the leaf has been taken out, and
 * nobody has told the directory, or the transaction at hand has: the next hints are those of hashes
 * further below, by twice as much each time, and the last is the first leaf. Each such way may be
 * as much longer. */

#include "config.h"

#include "hash.h"

#define TRIES 1000u             /* hints that lead nowhere, one after the other, of what others are
                                   changing all the time: more are a broken table */
#define STEPS_OLD 4u            /* from leaf to leaf, by a copy's hint; */
#define STEPS 64u               /* by one that is as of now; */
#define STEPS_ANY (1u << 24)    /* from the first leaf on */
#define COPY 0u                 /* turns: */
#define FRESH 1u
#define BELOW 2u
#define FIRST (BELOW + LOCI_DIRECTORY_BITS_MAX)
#define SEGMENT_EXPECTED (sizeof(struct loci_segment) + (sizeof(uint64_t) << LOCI_SEGMENT_BITS))

/* ---- the directory ---- */

int loci_hash_read_root(struct loco_hash *h)
{
    struct loci_index *ix = &h->index;
    size_t len;
    int status = loci_index_read(ix, LOCI_INDEX_PEEK, ix->root, loci_root_bytes(&h->root->root),
                                 h->root, sizeof *h->root, &len);

    if (status == LOCO_OK && loci_root_is(&h->root->root, len) && h->root->root.id == ix->id)
        return LOCO_OK;
    return status == LOCO_OK || status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_PROTOCOL : status;
}

int loci_hash_read_segment(struct loco_hash *h, loco_object_t object, struct loci_segment **out)
{
    struct loci_index *ix = &h->index;
    struct loci_segment *segment = &h->segment->segment;
    size_t len;
    int status = loci_index_read(ix, LOCI_INDEX_PEEK, object, SEGMENT_EXPECTED, segment,
                                 sizeof *h->segment, &len);

    if (status == LOCO_OK && !loci_segment_is(segment, len, ix->id))
        status = LOCO_ERR_NOT_FOUND;
    if (status != LOCO_OK)
        return status;
    loci_index_keep_value(ix, object, segment, len);
    *out = segment;
    return LOCO_OK;
}

/* The leaf that the directory names for a hash. LOCO_ERR_AGAIN: none. */
static int hint(struct loco_hash *h, uint64_t hash, bool fresh, loco_object_t *leaf)
{
    for (int i = 0; i < 3; i++, fresh = true) {
        loco_object_t object = loci_root_segment(&h->root->root, hash);
        struct loci_segment *s = fresh ? NULL : loci_index_cached_value(&h->index, object);
        int status = s != NULL ? LOCO_OK : loci_hash_read_segment(h, object, &s);

        if (status == LOCO_OK && loci_segment_has(s, hash)) {
            *leaf = s->leaf[loci_segment_slot(s, hash)];
            if (fresh)
                h->depth = loci_segment_depth(s);
            return LOCO_OK;
        }
        /* The copy of the root is too old. */
        if (status == LOCO_OK || status == LOCO_ERR_NOT_FOUND)
            status = loci_hash_read_root(h);
        if (status != LOCO_OK)
            return status;
    }
    return LOCO_ERR_AGAIN;
}

loco_object_t loci_hash_guess(struct loco_hash *h, uint64_t hash)
{
    loco_object_t segment = loci_root_segment(&h->root->root, hash);
    const struct loci_segment *s = loci_index_cached_value(&h->index, segment);

    return s != NULL && loci_segment_has(s, hash) ? s->leaf[loci_segment_slot(s, hash)] : 0;
}

/* NULL: none, or none any more. */
static struct loci_segment *segment_of(struct loco_hash *h, uint64_t hash)
{
    loco_object_t object = loci_root_segment(&h->root->root, hash);
    struct loci_segment *s = loci_index_cached_value(&h->index, object);

    if (s == NULL && loci_hash_read_segment(h, object, &s) != LOCO_OK)
        return NULL;
    return loci_segment_has(s, hash) ? s : NULL;
}

unsigned loci_hash_name(struct loco_hash *h, uint64_t hash, loco_object_t *leaves, unsigned n,
                        unsigned most)
{
    struct loci_segment *s = segment_of(h, hash);

    while (s != NULL && n < most) {
        unsigned depth = loci_segment_depth(s);
        uint64_t next = loci_first_bits(hash, depth) + 1;
        loco_object_t leaf;

        if (next >> depth != 0)         /* behind the last slot of all */
            break;
        hash = next << (64 - depth);
        if (!loci_segment_has(s, hash) && (s = segment_of(h, hash)) == NULL)
            break;
        leaf = s->leaf[loci_segment_slot(s, hash)];
        if (leaf != leaves[n - 1])
            leaves[n++] = leaf;
    }
    return n;
}

/* A leaf at or left of that of the hash: probably; in the end, certainly. */
static int lead(struct loco_hash *h, uint64_t hash, unsigned turn, loco_object_t *leaf)
{
    unsigned shift = 64 - h->depth + turn - BELOW;

    if (turn <= FRESH)
        return hint(h, hash, turn == FRESH, leaf);
    if (turn < FIRST && shift < 64 && UINT64_C(1) << shift <= hash)
        return hint(h, hash - (UINT64_C(1) << shift), false, leaf);
    *leaf = h->root->root.first;
    return LOCO_OK;
}

/* ---- what the directory does not know ---- */

/* What a transaction has written itself is not there for others, and may never be. */
static bool is_own(const struct loci_index *ix, loco_object_t leaf)
{
    const struct loci_item *item = ix->own ? NULL : loci_tx_find(ix->tx, leaf);

    return item != NULL && (item->flags & LOCI_ITEM_WRITE) != 0;
}

static void keep(struct loco_hash *h, const struct loci_hash_found *found)
{
    for (unsigned i = 0; i < h->nfound; i++)
        if (h->found[i].leaf == found->leaf) {
            h->found[i] = *found;
            return;
        }
    if (h->nfound < LOCI_HASH_FINDS)
        h->found[h->nfound++] = *found;
}

/* A leaf was come across on the way to that hash, not by its first hint. The copy gets to know of
 * it now. */
static void note(struct loco_hash *h, uint64_t hash, const struct loci_node *leaf,
                 loco_object_t object)
{
    struct loci_hash_found found = { .hash = hash, .leaf = object };
    loco_object_t segment = loci_root_segment(&h->root->root, hash);
    struct loci_segment *s = loci_index_cached_value(&h->index, segment);

    if (s == NULL || !loci_segment_has(s, hash))
        return;
    found.range = loci_range_of(leaf);
    if (!loci_segment_lacks(s, &found.range, object) || is_own(&h->index, object))
        return;
    loci_segment_set(s, &found.range, object);
    keep(h, &found);
}

/* ---- leaves ---- */

static unsigned limit_of(unsigned turn)
{
    return turn == COPY ? STEPS_OLD : turn < FIRST ? STEPS << (turn - FRESH) : STEPS_ANY;
}

/* What reading a leaf comes to. A hint may name one that was taken out, at a host that has died
 * since; the link of a leaf that is there does not. */
static int judge(int status, unsigned turn, unsigned steps)
{
    if (status == LOCO_ERR_PEER_DEAD && steps == 0 && turn != FIRST)
        return LOCO_ERR_AGAIN;
    return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_AGAIN : status;
}

/* LOCO_ERR_AGAIN: by that hint it is not found. */
static int walk(struct loco_hash *h, enum loci_index_how how, loco_bytes_t key, unsigned turn,
                union loci_node_buffer *to, loco_object_t *object)
{
    struct loci_index *ix = &h->index;
    unsigned limit = limit_of(turn);

    for (unsigned steps = 0; steps < limit; steps++) {
        int status = loci_index_read_node(ix, how, *object, ix->leaf_bytes, to), side;

        if (status != LOCO_OK)
            return judge(status, turn, steps);
        side = loci_node_side(&to->node, key);
        if (side < 0)
            return LOCO_ERR_AGAIN;
        if (side > 0 || steps > 0 || turn != COPY)
            note(h, loci_hash_number(key), &to->node, *object);
        if (side == 0)
            return LOCO_OK;
        loci_index_count(ix, LOCI_STATS_WALKED_RIGHT, 1);
        *object = to->node.right;
    }
    return LOCO_ERR_AGAIN;
}

int loci_hash_find(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                   union loci_node_buffer *to, loco_object_t *leaf)
{
    struct loco_hash *h = loci_hash_of_index(ix);

    loci_index_count(ix, LOCI_STATS_LOOKUPS, 1);
    for (unsigned tries = 0; tries < TRIES; tries++) {
        unsigned turn = tries % (FIRST + 1);
        int status = lead(h, loci_hash_number(key), turn, leaf);

        if (status == LOCO_OK)
            status = walk(h, how, key, turn, to, leaf);
        if (status != LOCO_ERR_AGAIN)
            return status;
        loci_index_count(ix, LOCI_STATS_STALE, 1);
    }
    return loci_index_broken(ix);
}
