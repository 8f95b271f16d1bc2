/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies of nodes above the leaves, or of parts of a directory, as they were at some time: hints,
 * see index.h. Of one handle, that is of one thread. A copy is in the set of its object, or in
 * none.
 *
 * Keys are searched for by eight bytes of each, their heads, which are numbers in an array: those
 * behind what all keys of the node share, with zeros where a key ends. Of two keys with different
 * heads that with the lower one is the lower. Where the head is the same, the keys themselves are
 * compared. The first key is left out: it is the low fence, so not above any key that is looked for
 * here. A search takes every eighth head first (the samples), then eight in a line:
 *
 *   samples | heads, to a whole line | handles, likewise | the node
 *
 * so that it waits for memory twice at most, and never depends on a branch that was guessed. */

#include "config.h"

#include <stdlib.h>

#include "index.h"

#define WAYS 4u
#define LINE 64u
#define LINE_WORDS (LINE / 8u)

/* From the next line on. */
static void *in_line(void *memory)
{
    return (void *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
}

int loci_index_cache_open(struct loci_index *ix, size_t nodes)
{
    ix->sets = 1;
    while (ix->sets * WAYS < nodes)
        ix->sets *= 2;
    /* Zeros that have not been touched take no memory. */
    ix->cache = calloc(ix->sets * WAYS + 1, sizeof *ix->cached);
    if (ix->cache == NULL)
        return LOCO_ERR_NO_MEMORY;
    ix->cached = in_line(ix->cache);
    return LOCO_OK;
}

void loci_index_cache_close(struct loci_index *ix)
{
    for (size_t i = 0; ix->cached != NULL && i < ix->sets * WAYS; i++)
        free(ix->cached[i].value);
    free(ix->cache);
    free(ix->way);
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

static size_t shared(loco_bytes_t a, loco_bytes_t b)
{
    const unsigned char *p = a.data, *q = b.data;
    size_t n = 0;

    while (n < a.len && n < b.len && p[n] == q[n])
        n++;
    return n;
}

static unsigned in_lines(unsigned n)
{
    return (n + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS;
}

static const uint64_t *samples_of(const struct loci_cached *c)
{
    return c->head - in_lines(in_lines(c->n) / LINE_WORDS);
}

static const loco_object_t *children_of(const struct loci_cached *c)
{
    return c->head + in_lines(c->n);
}

/* What the heads stand for. Heads behind the last are the highest. */
static void make_heads(struct loci_cached *c)
{
    const struct loci_node *node = c->node;
    uint64_t *head = (uint64_t *)(uintptr_t)c->head, *sample = (uint64_t *)(uintptr_t)samples_of(c);
    loco_object_t *child = (loco_object_t *)(uintptr_t)children_of(c);
    loco_bytes_t last = node->n < 2 ? loco_bytes(NULL, 0) : loci_node_key(node, node->n - 1u);

    c->skip = (uint16_t)(node->n < 2 ? 0 : shared(loci_node_key(node, 1), last));
    c->prefix = loci_bytes_padded(loco_bytes(last.data, c->skip), 0);
    for (unsigned i = 0; i < in_lines(node->n); i++) {
        head[i] = i == 0 ? 0 : i < node->n ? loci_bytes_padded(loci_node_key(node, i), c->skip)
                  : UINT64_MAX;
        child[i] = i < node->n ? loci_node_handle(node, i) : 0;
        if (i % LINE_WORDS == 0)
            sample[i / LINE_WORDS] = head[i];
    }
    c->high = UINT64_MAX;
    if (loci_node_has_high(node) && shared(loci_node_high(node), last) >= c->skip)
        c->high = loci_bytes_padded(loci_node_high(node), c->skip);
}

/* The last entry whose head is not above that one. */
static unsigned floor_of_head(const struct loci_cached *c, uint64_t head)
{
    const uint64_t *sample = samples_of(c), *line;
    unsigned at = 0, n = 0;

    for (unsigned left = in_lines(c->n) / LINE_WORDS; left > 1;) {
        unsigned half = left / 2;

        at = sample[at + half] <= head ? at + half : at;
        left -= half;
    }
    at *= LINE_WORDS;
    line = c->head + at;
    __builtin_prefetch(children_of(c) + at);
    for (unsigned i = 1; i < LINE_WORDS; i++)
        n += line[i] <= head;
    at += n;
    return at < c->n ? at : c->n - 1u;
}

/* Whether a key has what all keys but the first share, as far as that can be told at once. */
static bool has_prefix(const struct loci_cached *c, loco_bytes_t key)
{
    return c->skip <= 8 && key.len >= c->skip
           && loci_bytes_padded(loco_bytes(key.data, c->skip), 0) == c->prefix;
}

/* The last entry of two or more whose key is not above that one. */
static unsigned floor_of(const struct loci_cached *c, loco_bytes_t key)
{
    size_t n = key.len < c->skip ? key.len : c->skip;
    int order = n == 0 || has_prefix(c, key) ? 0
                : loci_bytes_compare(loco_bytes(key.data, n),
                                     loco_bytes(loci_node_key(c->node, 1).data, n));
    unsigned at;
    uint64_t head;

    if (order != 0 || key.len < c->skip)
        return order <= 0 ? 0 : c->n - 1u;
    head = loci_bytes_padded(key, c->skip);
    at = floor_of_head(c, head);
    return at > 0 && c->head[at] == head ? loci_node_floor(c->node, key) : at;
}

loco_object_t loci_cached_child(const struct loci_cached *c, loco_bytes_t key)
{
    if (c->n < 2)
        return c->n == 0 ? 0 : children_of(c)[0];
    return children_of(c)[floor_of(c, key)];
}

/* The copy that names the leaf, and its entry that does. Fences are looked at by heads alone, and
 * the low one not at all: what comes is a hint. */
static const struct loci_cached *lead(struct loci_index *ix, loco_bytes_t key, unsigned *at)
{
    loco_object_t object = ix->root;
    unsigned level = 0;

    for (;;) {
        const struct loci_cached *c = find(ix, object);
        uint64_t head;

        if (c == NULL || c->n < 2 || (level > 0 && c->level != level - 1) || !has_prefix(c, key))
            return NULL;
        level = c->level;
        head = loci_bytes_padded(key, c->skip);
        *at = floor_of_head(c, head);
        if (head >= c->high || (*at > 0 && c->head[*at] == head))
            return NULL;
        if (level <= 1)
            return c;
        object = children_of(c)[*at];
    }
}

loco_object_t loci_index_lead(struct loci_index *ix, loco_bytes_t key)
{
    unsigned at;
    const struct loci_cached *c = lead(ix, key, &at);

    if (c == NULL)
        return 0;
    ix->parent = c->object;
    return children_of(c)[at];
}

loco_object_t loci_index_lead_on(struct loci_index *ix, loco_bytes_t key, unsigned *more)
{
    unsigned at;
    const struct loci_cached *c = lead(ix, key, &at);

    if (c == NULL)
        return 0;
    ix->parent = c->object;
    *more = *more < c->n - at - 1 ? *more : c->n - at - 1;
    for (unsigned i = 0; i <= *more; i++)
        loci_tx_expect_cell(ix->tx, children_of(c)[at + i]);
    return children_of(c)[at];
}

/* ---- keeping ---- */

/* Words before the node. */
static size_t words_before(unsigned n)
{
    return in_lines(in_lines(n) / LINE_WORDS) + 2 * (size_t)in_lines(n);
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
    size_t words = words_before(node->n);
    struct loci_cached *c = reserve(ix, object, LINE + 8 * words + loci_node_bytes(node));
    uint64_t *at;

    if (c == NULL)
        return;
    at = in_line(c->value);
    c->n = node->n;
    c->level = node->level;
    c->head = at + in_lines(in_lines(c->n) / LINE_WORDS);
    c->node = (struct loci_node *)(void *)(at + words);
    memcpy((void *)(at + words), node, loci_node_bytes(node));
    make_heads(c);
}

/* ---- ways ---- */

#define WAY_BITS 16             /* so many are kept: memory is touched as far as they are used */

struct loci_leaf_way *loci_index_way(struct loci_index *ix, loco_bytes_t key, uint32_t *tag)
{
    uint64_t hash = key.len;

    if (ix->way == NULL)
        ix->way = loci_index_is_far(ix) ? NULL : calloc((size_t)1 << WAY_BITS, sizeof *ix->way);
    if (ix->way == NULL)
        return NULL;
    for (size_t i = 0; i < key.len; i += 8) {
        hash = (hash ^ loci_bytes_padded(key, i)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    *tag = (uint32_t)hash | 1;
    return &ix->way[hash >> (64 - WAY_BITS)];
}
