/* SPDX-License-Identifier: BSD-3-Clause */

/* See tree_survey.h. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/tree.h"
#include "tree_survey.h"

#define NODES_MAX 512                   /* of a level */
#define KEY_BYTES 16                    /* of the keys that the scenario has */

/* What a level says of the one below: keys and handles, and whether a node may be bare. */
struct named {
    size_t n;
    bool may_be_bare[NODES_MAX];
    loco_object_t object[NODES_MAX];
    unsigned char key[NODES_MAX][KEY_BYTES];
    size_t len[NODES_MAX];
};

struct survey {
    struct loci_index *ix;
    struct named here, below;
    uint64_t objects;                   /* nodes, and values with their own */
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

static bool is(loco_bytes_t a, loco_bytes_t b)
{
    return loci_bytes_compare(a, b) == 0;
}

static int note_entries(struct survey *v, bool may_be_bare)
{
    const struct loci_node *node = &v->node.node;

    WHOLE(v, node->n > 0 || may_be_bare, "an empty leaf has not been taken out");
    WHOLE(v, node->level < 2 || v->here.n > 1 || node->n > 1, "one node alone is below the root");

    for (unsigned i = 0; i < node->n; i++) {
        loco_bytes_t key = loci_node_key(node, i), value;
        struct named *b = &v->below;

        if (node->level == 0) {
            int status = !loci_node_is_apart(node, i) ? LOCO_OK
                         : loci_apart_read(v->ix, LOCI_INDEX_PEEK, loci_node_handle(node, i), key,
                                           &value);

            v->objects += loci_node_is_apart(node, i);
            WHOLE(v, status != LOCO_ERR_NOT_FOUND, "a leaf names a value that is not there");
            if (status != LOCO_OK)
                return status;
            continue;
        }
        WHOLE(v, b->n < NODES_MAX && key.len <= KEY_BYTES, "too much of it");
        b->object[b->n] = loci_node_handle(node, i);
        b->may_be_bare[b->n] = i == 0 && (node->n > 1 || may_be_bare);
        memcpy(b->key[b->n], key.data, key.len);
        b->len[b->n++] = key.len;
    }
    return LOCO_OK;
}

/* Number `i` of a level, from the left. */
static int look_at(struct survey *v, size_t i, unsigned level)
{
    const struct loci_node *node = &v->node.node;
    struct named *h = &v->here;
    int status = loci_index_read_node(v->ix, LOCI_INDEX_PEEK, h->object[i], 512, &v->node);
    bool last = i + 1 == h->n;

    WHOLE(v, status != LOCO_ERR_NOT_FOUND, "node %zu of level %u is not there", i, level);
    if (status != LOCO_OK)
        return status;
    v->objects++;
    WHOLE(v, node->level == level && loci_node_is_sound(node), "node %zu of level %u is none", i,
          level);
    WHOLE(v, is(loci_node_low(node), loco_bytes(h->key[i], h->len[i])),
          "node %zu of level %u begins elsewhere than is said above", i, level);
    WHOLE(v, loci_node_has_high(node) != last && node->right == (last ? 0 : h->object[i + 1])
          && (last || is(loci_node_high(node), loco_bytes(h->key[i + 1], h->len[i + 1]))),
          "node %zu of level %u does not end where the next one begins", i, level);
    return note_entries(v, h->may_be_bare[i]);
}

static int look_at_level(struct survey *v, unsigned level)
{
    int status = LOCO_OK;

    v->below.n = 0;
    for (size_t i = 0; i < v->here.n && status == LOCO_OK && v->why[0] == '\0'; i++)
        status = look_at(v, i, level);
    v->here = v->below;
    return status;
}

static int look(struct survey *v)
{
    int status = loci_index_read_node(v->ix, LOCI_INDEX_PEEK, v->ix->root, 512, &v->node);
    int level = v->node.node.level;

    v->objects = 0;
    v->why[0] = '\0';
    v->here.n = 1;
    v->here.object[0] = v->ix->root;
    v->here.len[0] = 0;
    v->here.may_be_bare[0] = true;
    for (; level >= 0 && status == LOCO_OK && v->why[0] == '\0'; level--)
        status = look_at_level(v, (unsigned)level);
    return status;
}

int sim_tree_survey(loco_tree_t *tree, uint64_t *objects, char why[SIM_TREE_WHY])
{
    struct survey *v = calloc(1, sizeof *v);
    int status;

    if (v == NULL)
        return LOCO_ERR_NO_MEMORY;
    v->ix = &tree->index;
    status = look(v);
    *objects = v->objects;
    memcpy(why, v->why, SIM_TREE_WHY);
    free(v);
    return status;
}
