/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies of nodes above the leaves, or of parts of a directory, as they were at some time: hints,
 * see index.h. Of one handle, that is of one thread. A copy is in the set of its object, or in
 * none.
 *
 * Keys are searched for by eight bytes of each, which are numbers in an array: those behind what
 * all keys of the node share, with zeros where a key ends. Of two keys with different numbers that
 * with the lower one is the lower. Where the number is the same, the keys themselves are compared.
 * The first key is left out: it is the low fence, so not above any key that is looked for here. */

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
        free(ix->cached[i].value);
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

const struct loci_cached *loci_index_cached(struct loci_index *ix, loco_object_t object)
{
    return find(ix, object);
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

/* ---- searching ---- */

/* What follows the bytes that are skipped. */
static uint64_t head_of(loco_bytes_t key, size_t skip)
{
    unsigned char padded[8] = { 0 };
    const unsigned char *from = key.data;

    if (key.len >= skip + sizeof padded)
        return loci_bytes_head(from + skip);
    for (size_t i = skip; i < key.len; i++)
        padded[i - skip] = from[i];
    return loci_bytes_head(padded);
}

static size_t shared(loco_bytes_t a, loco_bytes_t b)
{
    const unsigned char *p = a.data, *q = b.data;
    size_t n = 0;

    while (n < a.len && n < b.len && p[n] == q[n])
        n++;
    return n;
}

static void make_heads(struct loci_cached *c)
{
    const struct loci_node *node = c->node;
    uint64_t *head = (uint64_t *)(uintptr_t)c->head;
    loco_object_t *child = (loco_object_t *)(uintptr_t)c->child;

    c->skip = node->n < 2 ? 0 : shared(loci_node_key(node, 1), loci_node_key(node, node->n - 1u));
    for (unsigned i = 0; i < node->n; i++) {
        head[i] = i == 0 ? 0 : head_of(loci_node_key(node, i), c->skip);
        child[i] = loci_node_handle(node, i);
    }
}

/* The last entry of two or more whose key is not above that one. */
static unsigned floor_of(const struct loci_cached *c, loco_bytes_t key)
{
    size_t n = key.len < c->skip ? key.len : c->skip;
    int order = n == 0 ? 0 : loci_bytes_compare(loco_bytes(key.data, n),
                                                loco_bytes(loci_node_key(c->node, 1).data, n));
    unsigned at = 0;
    uint64_t head;

    if (order != 0 || key.len < c->skip)
        return order <= 0 ? 0 : c->node->n - 1u;
    head = head_of(key, c->skip);
    for (unsigned left = c->node->n; left > 1;) {
        unsigned half = left / 2;

        at = c->head[at + half] <= head ? at + half : at;
        left -= half;
    }
    return at > 0 && c->head[at] == head ? loci_node_floor(c->node, key) : at;
}

loco_object_t loci_cached_child(const struct loci_cached *c, loco_bytes_t key)
{
    if (c->node->n < 2)
        return c->node->n == 0 ? 0 : c->child[0];
    return c->child[floor_of(c, key)];
}

/* ---- keeping ---- */

static size_t bytes_kept(const struct loci_node *node)
{
    size_t bytes = (loci_node_bytes(node) + 7) / 8 * 8;

    return bytes + node->n * (sizeof(uint64_t) + sizeof(loco_object_t));
}

/* A place for so many bytes. NULL: there is none, and it is read again. */
static struct loci_cached *reserve(struct loci_index *ix, loco_object_t object, size_t bytes)
{
    struct loci_cached *c = place_for(ix, object);
    void *copy = c->room >= bytes ? c->value : realloc(c->value, bytes);

    if (copy == NULL)
        return NULL;
    c->room = c->room >= bytes ? c->room : bytes;
    c->value = copy;
    c->object = object;
    return c;
}

void *loci_index_cached_value(struct loci_index *ix, loco_object_t object)
{
    const struct loci_cached *c = find(ix, object);

    return c == NULL ? NULL : c->value;
}

void loci_index_keep_value(struct loci_index *ix, loco_object_t object, const void *value,
                           size_t len)
{
    struct loci_cached *c = reserve(ix, object, len);

    if (c != NULL)
        memcpy(c->value, value, len);
}

void loci_index_keep(struct loci_index *ix, loco_object_t object, const struct loci_node *node)
{
    size_t bytes = bytes_kept(node);
    struct loci_cached *c = reserve(ix, object, bytes);
    uint64_t *head;

    if (c == NULL)
        return;
    memcpy(c->node, node, loci_node_bytes(node));
    head = (uint64_t *)(uintptr_t)((unsigned char *)c->value + bytes) - 2 * (size_t)node->n;
    c->head = head;
    c->child = head + node->n;
    make_heads(c);
}
