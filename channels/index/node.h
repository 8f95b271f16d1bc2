/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_INDEX_NODE_H
#define LOCI_INDEX_NODE_H

/* The bytes of a node: a leaf, or one of the nodes above the leaves. Nothing here touches a store.
 *
 *   header | end of each entry, 16 bits each | low fence, high fence, entries in the order of keys
 *
 * An entry is the length of its key with a flag, the key, the value. A node has the keys from its
 * low fence on and below its high one, and `right` has those from there on. Above the leaves a
 * value is the handle of a node one level below, whose low fence the key is; the first key is the
 * node's own low fence.
 *
 * All but loci_node_is() and loci_node_is_sound() are of nodes that the former has found to be
 * one: they stay inside of such, whatever its keys are. */

#include <stdbool.h>
#include <string.h>

#include <loco/bytes.h>

#define LOCI_NODE_MAGIC UINT32_C(0x4c6e6f64)
#define LOCI_NODE_KEY_MAX 1032u         /* bytes of a key */
#define LOCI_NODE_INLINE_MAX 104u       /* and of a value in a leaf: others have their own object */
#define LOCI_NODE_BYTES_MAX 16384u      /* that one may have before it is split, */
#define LOCI_NODE_ENTRIES_MIN 4         /* and entries that it may have in any case, less one */
/* One that was extended has the longest fence in place of its own. */
#define LOCI_NODE_BYTES_LAST (LOCI_NODE_BYTES_MAX + LOCI_NODE_KEY_MAX)
#define LOCI_NODE_ROOM (LOCI_NODE_BYTES_MAX + 4096u)    /* bytes with one entry more */
#define LOCI_NODE_NO_HIGH UINT16_MAX
#define LOCI_NODE_APART 0x8000u         /* in the length of a key: the value has its own object */

struct loci_node {
    uint64_t tree;              /* the number that the tree's creator drew */
    uint64_t right;             /* 0: none */
    uint32_t magic;
    uint16_t level;             /* 0: a leaf */
    uint16_t n;                 /* entries */
    uint16_t low, high;         /* lengths of fences; LOCI_NODE_NO_HIGH: there is no end */
    uint16_t heap;              /* bytes of fences and entries */
    uint16_t zero;
    uint16_t end[];             /* of the entries, from the heap's begin */
};
_Static_assert(sizeof(struct loci_node) == 32, "ends are aligned");

/* One with room for what a node may come to. Where it is a member it is the last one: clang takes a
 * type that ends with an array of any length nowhere else. */
union loci_node_buffer {
    struct loci_node node;
    unsigned char bytes[LOCI_NODE_ROOM];
};

/* Whether `len` bytes are a node of that tree: all lengths fit in each other. */
bool loci_node_is(const struct loci_node *node, size_t len, uint64_t tree);
/* And its keys are in order, and between its fences. For tests: a read gives whole nodes. */
bool loci_node_is_sound(const struct loci_node *node);

static inline size_t loci_node_bytes(const struct loci_node *node)
{
    return sizeof *node + 2u * node->n + node->heap;
}

static inline const unsigned char *loci_node_heap(const struct loci_node *node)
{
    return (const unsigned char *)(node->end + node->n);
}

static inline bool loci_node_has_high(const struct loci_node *node)
{
    return node->high != LOCI_NODE_NO_HIGH;
}

/* Bytes of both. */
static inline size_t loci_node_fences(const struct loci_node *node)
{
    return node->low + (loci_node_has_high(node) ? node->high : 0u);
}

static inline loco_bytes_t loci_node_low(const struct loci_node *node)
{
    return loco_bytes(loci_node_heap(node), node->low);
}

/* Of one that has it. */
static inline loco_bytes_t loci_node_high(const struct loci_node *node)
{
    return loco_bytes(loci_node_heap(node) + node->low, node->high);
}

/* Eight bytes as a number: in the order of the bytes. */
static inline uint64_t loci_bytes_head(const unsigned char *p)
{
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40
           | (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16
           | (uint64_t)p[6] << 8 | p[7];
}

/* The same of eight bytes from number `skip` on, with zeros behind the last one. Of two keys that
 * agree in what is skipped the one with the lower number is the lower. */
static inline uint64_t loci_bytes_padded(loco_bytes_t bytes, size_t skip)
{
    const unsigned char *from = (const unsigned char *)bytes.data;
    uint64_t head = 0;

    if (bytes.len >= skip + 8)
        return loci_bytes_head(from + skip);
    if (bytes.len <= skip)
        return 0;
    if (bytes.len >= 8)                 /* the last eight, without those before `skip` */
        return loci_bytes_head(from + bytes.len - 8) << 8 * (skip + 8 - bytes.len);
    for (size_t i = skip; i < bytes.len; i++)
        head |= (uint64_t)from[i] << 8 * (7 - (i - skip));
    return head;
}

/* As memcmp() and then by length, without a call: most keys are short, or differ soon. */
static inline int loci_bytes_compare(loco_bytes_t a, loco_bytes_t b)
{
    const unsigned char *p = (const unsigned char *)a.data, *q = (const unsigned char *)b.data;
    size_t n = a.len < b.len ? a.len : b.len;

    for (; n >= 8; n -= 8, p += 8, q += 8) {
        uint64_t x = loci_bytes_head(p), y = loci_bytes_head(q);

        if (x != y)
            return x < y ? -1 : 1;
    }
    for (; n > 0; n--, p++, q++)
        if (*p != *q)
            return *p < *q ? -1 : 1;
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Where the key lies: below the low fence -1, from the high one on 1, between them 0. */
static inline int loci_node_side(const struct loci_node *node, loco_bytes_t key)
{
    if (loci_bytes_compare(key, loci_node_low(node)) < 0)
        return -1;
    return loci_node_has_high(node) && loci_bytes_compare(key, loci_node_high(node)) >= 0;
}

loco_bytes_t loci_node_key(const struct loci_node *node, unsigned i);
/* The value of an entry; what is in an object of its own: that one's handle. */
loco_bytes_t loci_node_value(const struct loci_node *node, unsigned i);
bool loci_node_is_apart(const struct loci_node *node, unsigned i);
/* All three: whether it is apart. */
static inline bool loci_node_entry(const struct loci_node *node, unsigned i, loco_bytes_t *key,
                                   loco_bytes_t *value)
{
    size_t begin = i > 0 ? node->end[i - 1] : loci_node_fences(node), end = node->end[i], len;
    const unsigned char *at = loci_node_heap(node) + begin;
    uint16_t word;

    memcpy(&word, at, sizeof word);
    len = word & ~LOCI_NODE_APART;
    *key = loco_bytes(at + 2, len);
    *value = loco_bytes(at + 2 + len, end - begin - 2 - len);
    return (word & LOCI_NODE_APART) != 0;
}

/* A value that is a handle; 0: it has not its length. */
uint64_t loci_node_handle(const struct loci_node *node, unsigned i);

/* The first entry whose key is not below that one. */
unsigned loci_node_find(const struct loci_node *node, loco_bytes_t key, bool *found);
/* The last whose key is not above it: node->n if there is none. */
unsigned loci_node_floor(const struct loci_node *node, loco_bytes_t key);

/* ---- making and changing: in buffers ---- */

/* An empty one; high NULL: none. */
void loci_node_make(struct loci_node *node, uint64_t tree, unsigned level, loco_bytes_t low,
                    const loco_bytes_t *high, uint64_t right);
/* An entry before number `i`, which is the place of its key; the node was not too large before.
 * Neither key nor value are bytes of that node. */
void loci_node_insert(struct loci_node *node, unsigned i, loco_bytes_t key, loco_bytes_t value,
                      bool apart);
void loci_node_remove(struct loci_node *node, unsigned i);
/* Another value; a node may be too large after it, as after an insert. */
void loci_node_replace(struct loci_node *node, unsigned i, loco_bytes_t value, bool apart);

/* Whether it has to be split before it is written, where one may have `limit` bytes. */
static inline bool loci_node_is_large(const struct loci_node *node, size_t limit)
{
    return node->n >= LOCI_NODE_ENTRIES_MIN && loci_node_bytes(node) > limit;
}

/* Entries that stay in the left half; `changed`: the entry that made it large. */
unsigned loci_node_split_point(const struct loci_node *node, unsigned changed);
/* Those from number `at` on, 1 or above, go to a new node `right`. The caller puts its handle into
 * the link of the old one. */
void loci_node_split(struct loci_node *node, unsigned at, struct loci_node *right);
/* The same, with that fence between them. */
void loci_node_split_at(struct loci_node *node, unsigned at, loco_bytes_t fence,
                        struct loci_node *right);
/* It ends where `right` ends, and has that link: its right neighbour, with no entries that are to
 * stay, is taken out. */
void loci_node_extend(struct loci_node *node, const struct loci_node *right, uint64_t link);

#endif
