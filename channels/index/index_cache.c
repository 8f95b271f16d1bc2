/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies of nodes above the leaves, as they were at some time: hints, see index.h. Of one handle,
 * that is of one thread. A node is in the set of its object, or in none. */

#include "config.h"

#include <stdlib.h>

#include "index.h"

#define WAYS 4u

int loci_index_cache_open(struct loci_index *ix, size_t nodes)
{
    ix->sets = 1;
    while (ix->sets * WAYS < nodes)
        ix->sets *= 2;
    ix->cached = calloc(ix->sets * WAYS, sizeof *ix->cached);
    return ix->cached == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

void loci_index_cache_close(struct loci_index *ix)
{
    for (size_t i = 0; ix->cached != NULL && i < ix->sets * WAYS; i++)
        free(ix->cached[i].node);
    free(ix->cached);
}

static struct loci_cached *set_of(struct loci_index *ix, loco_object_t object)
{
    uint64_t hash = object * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return &ix->cached[(hash & (ix->sets - 1)) * WAYS];
}

static struct loci_cached *find(struct loci_index *ix, loco_object_t object)
{
    struct loci_cached *set = set_of(ix, object);

    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].object == object)
            return &set[i];
    return NULL;
}

const struct loci_node *loci_index_cached(struct loci_index *ix, loco_object_t object)
{
    const struct loci_cached *c = find(ix, object);

    return c == NULL ? NULL : c->node;
}

void loci_index_forget(struct loci_index *ix, loco_object_t object)
{
    struct loci_cached *c = object == 0 ? NULL : find(ix, object);

    if (c != NULL)
        c->object = 0;
}

/* Where it is, or may be. */
static struct loci_cached *place_for(struct loci_index *ix, loco_object_t object)
{
    struct loci_cached *set = set_of(ix, object), *unused = NULL;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].object == object)
            return &set[i];
        if (set[i].object == 0 && unused == NULL)
            unused = &set[i];
    }
    return unused != NULL ? unused : &set[ix->turn++ % WAYS];
}

void loci_index_keep(struct loci_index *ix, loco_object_t object, const struct loci_node *node)
{
    struct loci_cached *c = place_for(ix, object);
    size_t bytes = loci_node_bytes(node);
    void *copy = c->node != NULL && loci_node_bytes(c->node) >= bytes ? c->node
                 : realloc(c->node, bytes);

    if (copy == NULL)
        return;                 /* it is read again */
    c->node = copy;
    c->object = object;
    memcpy(c->node, node, bytes);
}
