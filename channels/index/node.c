/* SPDX-License-Identifier: BSD-3-Clause */

/* See node.h. */

#include "config.h"

#include "node.h"

#define APART LOCI_NODE_APART

/* ---- reading ---- */

static size_t begin_of(const struct loci_node *node, unsigned i)
{
    return i > 0 ? node->end[i - 1] : loci_node_fences(node);
}

static unsigned key_word(const struct loci_node *node, unsigned i)
{
    uint16_t word;

    memcpy(&word, loci_node_heap(node) + begin_of(node, i), sizeof word);
    return word;
}

loco_bytes_t loci_node_key(const struct loci_node *node, unsigned i)
{
    return loco_bytes(loci_node_heap(node) + begin_of(node, i) + 2, key_word(node, i) & ~APART);
}

loco_bytes_t loci_node_value(const struct loci_node *node, unsigned i)
{
    size_t at = begin_of(node, i) + 2 + (key_word(node, i) & ~APART);

    return loco_bytes(loci_node_heap(node) + at, node->end[i] - at);
}

bool loci_node_is_apart(const struct loci_node *node, unsigned i)
{
    return (key_word(node, i) & APART) != 0;
}

uint64_t loci_node_handle(const struct loci_node *node, unsigned i)
{
    loco_bytes_t value = loci_node_value(node, i);
    uint64_t handle = 0;

    if (value.len == sizeof handle)
        memcpy(&handle, value.data, sizeof handle);
    return handle;
}

static bool are_entries(const struct loci_node *node)
{
    const unsigned char *heap = loci_node_heap(node);
    size_t begin = begin_of(node, 0);

    for (unsigned i = 0; i < node->n; i++) {
        size_t end = node->end[i], key_len;
        uint16_t word;

        if (end > node->heap || begin + 2 > end)
            return false;
        memcpy(&word, heap + begin, sizeof word);
        key_len = word & ~APART;
        if (key_len > LOCI_NODE_KEY_MAX || begin + 2 + key_len > end)
            return false;
        begin = end;
    }
    return begin == node->heap;
}

bool loci_node_is(const struct loci_node *node, size_t len, uint64_t tree)
{
    return len >= sizeof *node && node->magic == LOCI_NODE_MAGIC && node->tree == tree
           && len <= LOCI_NODE_BYTES_LAST && loci_node_bytes(node) == len
           && node->low <= LOCI_NODE_KEY_MAX
           && (node->high <= LOCI_NODE_KEY_MAX || !loci_node_has_high(node))
           && begin_of(node, 0) <= node->heap && are_entries(node);
}

bool loci_node_is_sound(const struct loci_node *node)
{
    if (loci_node_has_high(node)
        && loci_bytes_compare(loci_node_low(node), loci_node_high(node)) >= 0)
        return false;
    for (unsigned i = 0; i < node->n; i++)
        if (loci_node_side(node, loci_node_key(node, i)) != 0
            || (i > 0 && loci_bytes_compare(loci_node_key(node, i - 1),
                                            loci_node_key(node, i)) >= 0))
            return false;
    return node->level == 0 || (node->n > 0 && loci_bytes_compare(loci_node_low(node),
                                                                  loci_node_key(node, 0)) == 0);
}

/* ---- searching ---- */

unsigned loci_node_find(const struct loci_node *node, loco_bytes_t key, bool *found)
{
    unsigned from = 0, to = node->n;

    *found = false;
    while (from < to) {
        unsigned middle = (from + to) / 2;
        int order = loci_bytes_compare(loci_node_key(node, middle), key);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

unsigned loci_node_floor(const struct loci_node *node, loco_bytes_t key)
{
    bool found;
    unsigned i = loci_node_find(node, key, &found);

    return found ? i : i > 0 ? i - 1 : node->n;
}

/* ---- changing ---- */

static unsigned char *heap_of(struct loci_node *node)
{
    return (unsigned char *)(node->end + node->n);
}

static void put(unsigned char *to, loco_bytes_t bytes)
{
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
}

void loci_node_make(struct loci_node *node, uint64_t tree, unsigned level, loco_bytes_t low,
                    const loco_bytes_t *high, uint64_t right)
{
    *node = (struct loci_node){
        .tree = tree, .right = right, .magic = LOCI_NODE_MAGIC, .level = (uint16_t)level,
        .low = (uint16_t)low.len, .high = high == NULL ? LOCI_NODE_NO_HIGH : (uint16_t)high->len,
        .heap = (uint16_t)(low.len + (high == NULL ? 0 : high->len)),
    };
    put(heap_of(node), low);
    if (high != NULL)
        put(heap_of(node) + low.len, *high);
}

static void write_word(unsigned char *at, size_t key_len, bool apart)
{
    uint16_t word = (uint16_t)(key_len | (apart ? APART : 0));

    memcpy(at, &word, sizeof word);
}

void loci_node_insert(struct loci_node *node, unsigned i, loco_bytes_t key, loco_bytes_t value,
                      bool apart)
{
    size_t begin = begin_of(node, i), bytes = 2 + key.len + value.len;
    unsigned char *heap = heap_of(node);

    /* The heap moves by one end; what is behind the entry by that, too. */
    memmove(heap + 2 + begin + bytes, heap + begin, node->heap - begin);
    memmove(heap + 2, heap, begin);
    for (unsigned k = node->n; k > i; k--)
        node->end[k] = (uint16_t)(node->end[k - 1] + bytes);
    node->end[i] = (uint16_t)(begin + bytes);
    node->n++;
    node->heap = (uint16_t)(node->heap + bytes);
    heap = heap_of(node) + begin;
    write_word(heap, key.len, apart);
    put(heap + 2, key);
    put(heap + 2 + key.len, value);
}

void loci_node_remove(struct loci_node *node, unsigned i)
{
    size_t begin = begin_of(node, i), end = node->end[i];
    unsigned char *heap = heap_of(node);

    for (unsigned k = i; k + 1 < node->n; k++)
        node->end[k] = (uint16_t)(node->end[k + 1] - (end - begin));
    memmove(heap - 2, heap, begin);
    memmove(heap - 2 + begin, heap + end, node->heap - end);
    node->n--;
    node->heap = (uint16_t)(node->heap - (end - begin));
}

void loci_node_replace(struct loci_node *node, unsigned i, loco_bytes_t value, bool apart)
{
    size_t begin = begin_of(node, i), end = node->end[i], key_len = key_word(node, i) & ~APART;
    size_t new_end = begin + 2 + key_len + value.len;
    unsigned char *heap = heap_of(node);

    memmove(heap + new_end, heap + end, node->heap - end);
    for (unsigned k = i; k < node->n; k++)
        node->end[k] = (uint16_t)(node->end[k] + new_end - end);
    node->heap = (uint16_t)(node->heap + new_end - end);
    write_word(heap + begin, key_len, apart);
    put(heap + begin + 2 + key_len, value);
}

/* ---- halves ---- */

unsigned loci_node_split_point(const struct loci_node *node, unsigned changed)
{
    size_t first = begin_of(node, 0), half = first + (node->heap - first) / 2;
    unsigned at = node->level > 0 && node->n > 2 ? 2 : 1;     /* index_remove.c says why */

    /* Keys that come in their order leave full nodes behind. */
    if (!loci_node_has_high(node) && changed + 1 == node->n)
        return node->n - 1u;
    while (at + 1 < node->n && node->end[at] <= half)
        at++;
    return at;
}

/* The shortest key that is above the one before `at`, and not above that; above the leaves, the
 * fence that a child has. */
static loco_bytes_t separator(const struct loci_node *node, unsigned at)
{
    loco_bytes_t before = loci_node_key(node, at - 1), key = loci_node_key(node, at);
    size_t same = 0;

    while (same < before.len && same < key.len
           && ((const unsigned char *)before.data)[same] == ((const unsigned char *)key.data)[same])
        same++;
    return node->level > 0 || same == key.len ? key : loco_bytes(key.data, same + 1);
}

static void append(struct loci_node *to, const struct loci_node *from, unsigned first)
{
    for (unsigned i = first; i < from->n; i++)
        loci_node_insert(to, to->n, loci_node_key(from, i), loci_node_value(from, i),
                         loci_node_is_apart(from, i));
}

/* Another high fence, which is not bytes of that node; NULL: none. */
static void set_high(struct loci_node *node, const loco_bytes_t *high)
{
    size_t begin = begin_of(node, 0), new_begin = node->low + (high == NULL ? 0 : high->len);
    unsigned char *heap = heap_of(node);

    memmove(heap + new_begin, heap + begin, node->heap - begin);
    if (high != NULL)
        put(heap + node->low, *high);
    for (unsigned i = 0; i < node->n; i++)
        node->end[i] = (uint16_t)(node->end[i] + new_begin - begin);
    node->heap = (uint16_t)(node->heap + new_begin - begin);
    node->high = high == NULL ? LOCI_NODE_NO_HIGH : (uint16_t)high->len;
}

/* The first `n` entries stay. */
static void cut(struct loci_node *node, unsigned n)
{
    const unsigned char *heap = loci_node_heap(node);
    size_t end = node->end[n - 1];

    node->n = (uint16_t)n;
    node->heap = (uint16_t)end;
    memmove(heap_of(node), heap, end);
}

void loci_node_split_at(struct loci_node *node, unsigned at, loco_bytes_t fence,
                        struct loci_node *right)
{
    loco_bytes_t high = loci_node_has_high(node) ? loci_node_high(node) : loco_bytes(NULL, 0);

    loci_node_make(right, node->tree, node->level, fence,
                   loci_node_has_high(node) ? &high : NULL, node->right);
    append(right, node, at);
    cut(node, at);
    high = loci_node_low(right);
    set_high(node, &high);
}

void loci_node_split(struct loci_node *node, unsigned at, struct loci_node *right)
{
    loci_node_split_at(node, at, separator(node, at), right);
}

void loci_node_extend(struct loci_node *node, const struct loci_node *right, uint64_t link)
{
    loco_bytes_t high = loci_node_has_high(right) ? loci_node_high(right) : loco_bytes(NULL, 0);

    set_high(node, loci_node_has_high(right) ? &high : NULL);
    node->right = link;
}
