/* SPDX-License-Identifier: BSD-3-Clause */

/* Looking a key up in a leaf as it lies in mapped memory, without copying the leaf.
 *
 *   copies of upper nodes -> leaf -> cell -> block | fences, search, value | the block again
 *
 * Others may write to the block at any time, once no cell names it (store_value.c). So whatever is
 * read there is checked to lie within the node before it leads anywhere, each byte is loaded once,
 * and nothing counts unless the block is found afterwards to be what it was: then all that was read
 * is of the leaf as it was when its cell was read. What is not plain (another leaf than the copies
 * say, an owned cell, a value in an object of its own, keys that differ late) is left to those who
 * copy.
 *
 * Keys are compared by eight bytes, from those on in which the fences differ: all keys of the leaf
 * share what the fences share. The search has no branch that depends on keys. */

#include "config.h"

#include "index.h"

#define HEADER sizeof(struct loci_node)

struct here {
    const unsigned char *node;
    size_t bytes;               /* of the node: nothing behind them is read */
    size_t heap;                /* where fences and entries begin */
    struct loci_node head;      /* a copy; last, as node.h says */
};

/* ---- bytes of the node ---- */

static unsigned short_at(const struct here *h, size_t at)
{
    uint16_t word = 0;

    if (at + sizeof word <= h->bytes)
        loci_look(&word, h->node + at, sizeof word);
    return word;
}

/* As loci_bytes_padded(), of `len` bytes there. */
static uint64_t padded(const struct here *h, size_t at, size_t len)
{
    unsigned char bytes[8] = { 0 };

    if (at + sizeof bytes <= h->bytes) {
        uint64_t head;

        loci_look(bytes, h->node + at, sizeof bytes);
        head = loci_bytes_head(bytes);
        return len >= 8 ? head : len == 0 ? 0 : head & ~(UINT64_MAX >> 8 * len);
    }
    if (at < h->bytes)
        loci_look(bytes, h->node + at, h->bytes - at < len ? h->bytes - at : len);
    return loci_bytes_head(bytes);
}

static int compare(const struct here *h, loco_bytes_t key, size_t at, size_t len)
{
    for (size_t i = 0; i < key.len || i < len; i += 8) {
        uint64_t x = loci_bytes_padded(key, i), y = i < len ? padded(h, at + i, len - i) : 0;

        if (x != y)
            return x < y ? -1 : 1;
    }
    return key.len < len ? -1 : key.len > len;
}

/* ---- fences ---- */

/* Whether the key lies between them. */
static bool has(const struct here *h, loco_bytes_t key)
{
    return compare(h, key, h->heap, h->head.low) >= 0
           && (!loci_node_has_high(&h->head)
               || compare(h, key, h->heap + h->head.low, h->head.high) < 0);
}

/* Bytes that both begin with. */
static size_t shared(const struct here *h)
{
    size_t low = h->head.low, high = h->head.high, least = low < high ? low : high, n = 0;

    if (!loci_node_has_high(&h->head))
        return 0;
    while (n < least) {
        uint64_t differ = padded(h, h->heap + n, low - n) ^ padded(h, h->heap + low + n, high - n);

        if (differ != 0) {
            n += (size_t)__builtin_clzll(differ) / 8;
            break;
        }
        n += 8;
    }
    return n < least ? n : least;
}

/* ---- entries ---- */

/* Where an entry begins, from the node's begin. */
static size_t begin_of(const struct here *h, unsigned i)
{
    return h->heap + (i > 0 ? short_at(h, HEADER + 2 * ((size_t)i - 1))
                      : loci_node_fences(&h->head));
}

static uint64_t head_of(const struct here *h, unsigned i, size_t skip)
{
    size_t begin = begin_of(h, i), len = short_at(h, begin) & ~LOCI_NODE_APART;

    return len <= skip ? 0 : padded(h, begin + 2 + skip, len - skip);
}

/* The last entry whose head is not above that one; the first, if all are. */
static unsigned floor_of(const struct here *h, uint64_t head, size_t skip)
{
    unsigned at = 0;

    for (unsigned left = h->head.n; left > 1;) {
        unsigned half = left / 2;

        at = head_of(h, at + half, skip) <= head ? at + half : at;
        left -= half;
    }
    return at;
}

/* The value of entry `i`, if that has the key, to `to`. */
static int take(const struct here *h, unsigned i, loco_bytes_t key, unsigned char *to, size_t *len)
{
    size_t begin = begin_of(h, i), end = h->heap + short_at(h, HEADER + 2 * (size_t)i);
    unsigned word = short_at(h, begin);
    size_t value = begin + 2 + key.len;

    if (word != key.len || end > h->bytes || value > end || end - value > LOCI_NODE_INLINE_MAX
        || compare(h, key, begin + 2, key.len) != 0)
        return LOCO_ERR_AGAIN;
    *len = end - value;
    if (*len == 8)
        loci_look(to, h->node + value, 8);
    else
        loci_copy_out_raced(to, h->node + value, *len);
    return LOCO_OK;
}

static int search(const struct here *h, loco_bytes_t key, unsigned char *to, size_t *len)
{
    size_t skip = shared(h);
    uint64_t head = loci_bytes_padded(key, skip);
    unsigned at;

    if (h->head.n == 0)
        return LOCO_ERR_NOT_FOUND;
    at = floor_of(h, head, skip);
    return head_of(h, at, skip) == head ? take(h, at, key, to, len) : LOCO_ERR_NOT_FOUND;
}

/* ---- the leaf ---- */

static bool is_leaf(struct here *h, uint64_t tree, const unsigned char *bytes, size_t len)
{
    const struct loci_node *head = &h->head;

    if (len < HEADER || len > LOCI_NODE_BYTES_LAST)
        return false;
    h->node = bytes;
    h->bytes = len;
    loci_copy_out_raced(&h->head, bytes, HEADER);
    h->heap = HEADER + 2u * head->n;
    return head->magic == LOCI_NODE_MAGIC && head->tree == tree && head->level == 0
           && loci_node_bytes(head) == len && loci_node_fences(head) <= head->heap;
}

int loci_leaf_look(uint64_t tree, const void *bytes, size_t len, loco_bytes_t key,
                   unsigned char *value, size_t *value_len)
{
    struct here h;

    return is_leaf(&h, tree, bytes, len) && has(&h, key) ? search(&h, key, value, value_len)
           : LOCO_ERR_AGAIN;
}

/* By that hint, of a leaf and its block. */
static int get(struct loci_index *ix, struct loci_leaf_way *way, loco_bytes_t key, size_t *len)
{
    struct loci_glance g;
    int status;

    if (!loci_tx_glance(ix->tx, way->leaf, ix->leaf_bytes, &way->block, &g))
        return LOCO_ERR_AGAIN;
    status = loci_leaf_look(ix->id, g.value, g.len, key, ix->in_place, len);
    return loci_glance_holds(&g) ? status : LOCO_ERR_AGAIN;
}

int loci_index_get_in_place(struct loci_index *ix, loco_bytes_t key, loco_bytes_t *value)
{
    struct loci_leaf_way way, *known;
    int status = LOCO_ERR_AGAIN;
    uint32_t tag;
    size_t len = 0;

    known = loci_index_way(ix, key, &tag);
    if (known == NULL)
        return LOCO_ERR_AGAIN;
    if (known->tag == tag) {
        way = *known;
        status = get(ix, &way, key, &len);
        known->tag = status == LOCO_ERR_AGAIN ? 0 : tag;
    }
    if (status == LOCO_ERR_AGAIN) {
        way = (struct loci_leaf_way){ .tag = tag, .leaf = ix->kind->lead(ix, key) };
        status = way.leaf == 0 ? LOCO_ERR_AGAIN : get(ix, &way, key, &len);
    }
    if (status == LOCO_ERR_AGAIN)
        return status;
    if (known->tag != tag || known->leaf != way.leaf || known->block != way.block)
        *known = way;
    loci_index_count(ix, LOCI_STATS_LOOKUPS, 1);
    *value = loco_bytes(ix->in_place, len);
    return status;
}
