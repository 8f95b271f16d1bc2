/* SPDX-License-Identifier: BSD-3-Clause */

/* See hash_survey.h. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/hash/hash.h"
#include "hash_survey.h"

#define LEAVES_MAX 512

struct survey {
    struct loco_hash *h;
    bool grows;
    unsigned char fence[LOCI_NODE_KEY_MAX];     /* the high one of the leaf before */
    size_t fence_len;
    uint64_t leaves, objects;
    char why[SIM_TREE_WHY];             /* not whole; "": it is */
    union loci_node_buffer node;
};

#define WHOLE(v, condition, ...)                                                                  \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            snprintf((v)->why, sizeof (v)->why, __VA_ARGS__);                                     \
            return LOCO_OK;                                                                       \
        }                                                                                         \
    } while (0)

void sim_hash_mask(uint64_t mask)
{
    loci_hash_mask = mask;
}

/* ---- the directory ---- */

/* What every slot names begins at or left of it, if it is a leaf for sure. */
static int look_at_slots(struct survey *v, const struct loci_segment *s)
{
    struct loci_index *ix = &v->h->index;

    for (uint64_t slot = 0; slot < UINT64_C(1) << s->bits; slot++) {
        uint64_t start = s->prefix | (s->bits == 0 ? 0 : slot << (64 - loci_segment_depth(s)));
        unsigned char bytes[8];
        int status = loci_index_read_node(ix, LOCI_INDEX_PEEK, s->leaf[slot], 512, &v->node);

        WHOLE(v, status != LOCO_ERR_NOT_FOUND, "slot %llu of %u bits names no leaf",
              (unsigned long long)slot, s->bits);
        if (status != LOCO_OK)
            return status;
        WHOLE(v, loci_node_side(&v->node.node, loco_key64(start, bytes)) >= 0,
              "slot %llu of %u bits names a leaf that begins right of it",
              (unsigned long long)slot, s->bits);
    }
    return LOCO_OK;
}

static int look_at_segment(struct survey *v, unsigned i)
{
    const struct loci_hash_root *root = &v->h->root->root;
    struct loci_segment *s;
    uint64_t hash = root->bits == 0 ? 0 : (uint64_t)i << (64 - root->bits);
    int status = loci_hash_read_segment(v->h, root->segment[i], &s);

    WHOLE(v, status != LOCO_ERR_NOT_FOUND, "segment %u is not there", i);
    if (status != LOCO_OK)
        return status;
    WHOLE(v, s->skip <= root->bits && loci_segment_has(s, hash), "segment %u is of other hashes",
          i);
    if (i > 0 && root->segment[i] == root->segment[i - 1])
        return LOCO_OK;
    v->objects++;
    return v->grows ? look_at_slots(v, s) : LOCO_OK;
}

static int look_at_directory(struct survey *v)
{
    int status = loci_hash_read_root(v->h);

    v->objects = 1;
    for (unsigned i = 0; status == LOCO_OK && v->why[0] == '\0'
                         && i < 1u << v->h->root->root.bits; i++)
        status = look_at_segment(v, i);
    return status;
}

/* Whether it leads to that leaf for that hash, unless the leaf begins within a slot, or the host of
 * a segment has died. */
static bool leads_to(struct survey *v, uint64_t hash, loco_object_t leaf)
{
    struct loco_hash *h = v->h;
    struct loci_range range = loci_range_of(&v->node.node);
    loco_object_t object = loci_root_segment(&h->root->root, hash);
    struct loci_segment *s = loci_index_cached_value(&h->index, object);

    if (s == NULL && loci_hash_read_segment(h, object, &s) != LOCO_OK)
        return true;
    return s->leaf[loci_segment_slot(s, hash)] == leaf || range.bits > LOCI_DIRECTORY_BITS_MAX;
}

/* ---- leaves ---- */

static int look_at_entry(struct survey *v, loco_object_t object, unsigned i)
{
    struct loco_hash *h = v->h;
    const struct loci_node *leaf = &v->node.node;
    loco_bytes_t key = loci_node_key(leaf, i), value;
    uint64_t hash = loci_hash_number(key);
    int status = !loci_node_is_apart(leaf, i) ? LOCO_OK
                 : loci_apart_read(&h->index, LOCI_INDEX_PEEK, loci_node_handle(leaf, i), key,
                                   &value);

    v->objects += loci_node_is_apart(leaf, i);
    WHOLE(v, status != LOCO_ERR_NOT_FOUND, "a leaf names a value that is not there");
    WHOLE(v, key.len >= 8 && hash == loci_hash_of(h->root->root.seed,
                                                  loco_bytes((const char *)key.data + 8,
                                                             key.len - 8)),
          "a key has another hash than its entry says");
    /* A value in its own object is found without the leaf. */
    WHOLE(v, loci_node_is_apart(leaf, i) || leads_to(v, hash, object),
          "the directory does not lead to a leaf of hash %llx", (unsigned long long)hash);
    return status;
}

static int look_at_leaf(struct survey *v, loco_object_t object)
{
    const struct loci_node *leaf = &v->node.node;
    int status = loci_index_read_node(&v->h->index, LOCI_INDEX_PEEK, object, 512, &v->node);

    WHOLE(v, status != LOCO_ERR_NOT_FOUND, "leaf %llu is not there", (unsigned long long)v->leaves);
    if (status != LOCO_OK)
        return status;
    WHOLE(v, leaf->level == 0 && loci_node_is_sound(leaf), "leaf %llu is none",
          (unsigned long long)v->leaves);
    WHOLE(v, loci_bytes_compare(loci_node_low(leaf), loco_bytes(v->fence, v->fence_len)) == 0,
          "leaf %llu does not begin where the one before it ends", (unsigned long long)v->leaves);
    WHOLE(v, leaf->n > 0 || v->leaves == 0, "leaf %llu is empty", (unsigned long long)v->leaves);
    WHOLE(v, loci_node_has_high(leaf) == (leaf->right != 0), "leaf %llu ends too early",
          (unsigned long long)v->leaves);
    v->leaves++;
    v->objects++;
    for (unsigned i = 0; i < leaf->n && status == LOCO_OK && v->why[0] == '\0'; i++)
        status = look_at_entry(v, object, i);
    return status;
}

static int look_at_leaves(struct survey *v)
{
    const struct loci_node *leaf = &v->node.node;
    loco_object_t object = v->h->root->root.first;

    while (object != 0 && v->leaves < LEAVES_MAX) {
        int status = look_at_leaf(v, object);

        if (status != LOCO_OK || v->why[0] != '\0')
            return status;
        object = leaf->right;
        if (object == 0)
            return LOCO_OK;
        v->fence_len = loci_node_high(leaf).len;
        memcpy(v->fence, loci_node_high(leaf).data, v->fence_len);
    }
    WHOLE(v, false, "there is no end to the leaves");
}

int sim_hash_survey(loco_hash_t *hash, bool grows, uint64_t *objects, char why[SIM_TREE_WHY])
{
    struct survey *v = calloc(1, sizeof *v);
    int status;

    if (v == NULL)
        return LOCO_ERR_NO_MEMORY;
    v->h = hash;
    v->grows = grows;
    status = look_at_directory(v);
    if (status == LOCO_OK && v->why[0] == '\0')
        status = look_at_leaves(v);
    *objects = v->objects;
    memcpy(why, v->why, SIM_TREE_WHY);
    free(v);
    return status;
}
