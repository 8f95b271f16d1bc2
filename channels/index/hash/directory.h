/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_HASH_DIRECTORY_H
#define LOCI_HASH_DIRECTORY_H

/* The bytes above a hash table's leaves: the root and the segments of its directory. Nothing here
 * touches a store.
 *
 * The first bits of a hash choose an entry of the root, which is a segment's handle; the next ones
 * an entry of that segment, its slot, which is the handle of a leaf. That leaf has the least hash
 * of the slot, or lies left of that one that has: so much for what the directory should say, which
 * readers do not rely on.
 *
 *   root      bits 2     [ S | S | T | U ]          S skips 1 bit of each hash, T and U skip 2
 *   S         bits 3     [ a | a | b | c | c | c | c | d ]
 *
 * A segment with too few slots is doubled, until it has 2^LOCI_SEGMENT_BITS; then it is divided in
 * two, of which one is new, and the root doubled where it has but one entry for both; where the
 * root cannot grow any more, segments are doubled further. */

#include <stdbool.h>

#include <loco/bytes.h>

#include "index/node.h"

#ifndef LOCO_SIM
#define LOCI_ROOT_BITS_MAX 12u
#define LOCI_SEGMENT_BITS 8u            /* that it has before it is divided; */
#define LOCI_SEGMENT_BITS_MAX 12u       /* or at most */
#define LOCI_ROOT_BITS_ROOM LOCI_ROOT_BITS_MAX
#define LOCI_SEGMENT_BITS_ROOM LOCI_SEGMENT_BITS_MAX
#else
/* 2, 2 and 3: all that happens to a directory happens to small ones. But those of benchmarks. */
extern unsigned loci_hash_bits[3];
#define LOCI_ROOT_BITS_MAX (loci_hash_bits[0])
#define LOCI_SEGMENT_BITS (loci_hash_bits[1])
#define LOCI_SEGMENT_BITS_MAX (loci_hash_bits[2])
#define LOCI_ROOT_BITS_ROOM 12u
#define LOCI_SEGMENT_BITS_ROOM 12u
#endif
#define LOCI_DIRECTORY_BITS_MAX (LOCI_ROOT_BITS_MAX + LOCI_SEGMENT_BITS_MAX)

#define LOCI_ROOT_MAGIC UINT32_C(0x4c687274)
#define LOCI_SEGMENT_MAGIC UINT32_C(0x4c687367)

/* The hash of a key: any bit of it is as good as another. */
uint64_t loci_hash_of(const uint64_t seed[2], loco_bytes_t key);
#ifdef LOCO_SIM
extern uint64_t loci_hash_mask;         /* those bits of it alone are not zero */
#endif

struct loci_hash_root {
    uint64_t id;                        /* of the table: in all that is of it */
    uint64_t seed[2];
    uint64_t first;                     /* the leaf of the least hashes: it is never taken out */
    uint32_t magic, bits;
    uint64_t segment[];
};

struct loci_segment {
    uint64_t id;
    uint64_t prefix;                    /* the first bits of its hashes, and zeros */
    uint32_t magic;
    uint16_t skip, bits;                /* how many these are, and the next ones, for slots */
    uint64_t leaf[];
};

/* With room for the largest. */
union loci_root_buffer {
    struct loci_hash_root root;
    unsigned char bytes[sizeof(struct loci_hash_root) + (8u << LOCI_ROOT_BITS_ROOM)];
};
union loci_segment_buffer {
    struct loci_segment segment;
    unsigned char bytes[sizeof(struct loci_segment) + (8u << LOCI_SEGMENT_BITS_ROOM)];
};

static inline size_t loci_root_bytes(const struct loci_hash_root *root)
{
    return sizeof *root + (sizeof root->segment[0] << root->bits);
}

static inline size_t loci_segment_bytes(const struct loci_segment *segment)
{
    return sizeof *segment + (sizeof segment->leaf[0] << segment->bits);
}

/* Whether `len` bytes are a root, of any table, or a segment of that one. All else here is of such,
 * and stays inside of them. */
bool loci_root_is(const struct loci_hash_root *root, size_t len);
bool loci_segment_is(const struct loci_segment *segment, size_t len, uint64_t id);

/* The first `n` bits of a hash, as a number. */
static inline uint64_t loci_first_bits(uint64_t hash, unsigned n)
{
    return n == 0 ? 0 : hash >> (64 - n);
}

static inline uint64_t loci_root_segment(const struct loci_hash_root *root, uint64_t hash)
{
    return root->segment[loci_first_bits(hash, root->bits)];
}

/* Whether a hash is one of that segment. */
static inline bool loci_segment_has(const struct loci_segment *segment, uint64_t hash)
{
    return loci_first_bits(hash ^ segment->prefix, segment->skip) == 0;
}

static inline size_t loci_segment_slot(const struct loci_segment *segment, uint64_t hash)
{
    return loci_first_bits(hash << segment->skip, segment->bits);
}

/* Bits that tell its slots from all others'. */
static inline unsigned loci_segment_depth(const struct loci_segment *segment)
{
    return (unsigned)segment->skip + segment->bits;
}

/* ---- leaves ---- */

/* The first 8 bytes of a key of leaves, or of a fence, as a number: its hash. */
uint64_t loci_hash_number(loco_bytes_t key);

/* What the directory has to know of a leaf: the first and last of the hashes whose least key it
 * has, and how many bits the first one has before the zeros at its end. Of a leaf that begins in
 * the middle of one hash these are 65. */
struct loci_range {
    uint64_t first, last;
    unsigned bits;
    bool none;                          /* there is no such hash */
};
struct loci_range loci_range_of(const struct loci_node *leaf);

/* Whether a segment does not say of a leaf what it could: not now, or not with more slots. */
bool loci_segment_lacks(const struct loci_segment *segment, const struct loci_range *range,
                        uint64_t leaf);
/* Slots that begin in that range get that leaf. Whether one had another. */
bool loci_segment_set(struct loci_segment *segment, const struct loci_range *range, uint64_t leaf);

/* ---- growing: in buffers ---- */

void loci_root_make(struct loci_hash_root *root, uint64_t id, const uint64_t seed[2],
                    uint64_t first, uint64_t segment);
void loci_segment_make(struct loci_segment *segment, uint64_t id, uint64_t leaf);
/* A slot for each of that range that there may be, if that can be done here: a segment that has to
 * be divided before is as large as it may be then. */
void loci_segment_grow(struct loci_segment *segment, const struct loci_range *range);
/* Whether that is so. */
bool loci_segment_is_full(const struct loci_segment *segment, const struct loci_range *range);
/* The upper half of its hashes goes to `upper`, with one bit at least. */
void loci_segment_divide(struct loci_segment *segment, struct loci_segment *upper);
/* `object` is the segment of those hashes. The root is doubled if it has to. */
void loci_root_enter(struct loci_hash_root *root, const struct loci_segment *segment,
                     uint64_t object);

#endif
