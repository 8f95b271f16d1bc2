/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_VALUE_H
#define LOCI_STORE_VALUE_H

/* Blocks: values in the memory of hosts, and what tells that they are whole; see store_value.c. */

#include "store.h"

/* A block's first words; then the value, to a whole word with zeros. */
struct loci_block_header {
    uint64_t stamp;             /* of this writing: no two are the same (store_scavenge.c) */
    uint64_t object;
    uint64_t what;              /* version << 32 | length in bytes */
    uint64_t sum;               /* of all the rest, where the store has sums */
};
_Static_assert(sizeof(struct loci_block_header) == LOCI_STORE_HEADER, "header");

#define LOCI_IMAGE_MAX (LOCI_STORE_HEADER + LOCO_STORE_VALUE_MAX)

static inline size_t loci_image_len(size_t len)
{
    return LOCI_STORE_HEADER + (len + 7) / 8 * 8;
}

/* Classes of blocks: bytes of one, and the smallest that a value of `len` bytes fits. */
size_t loci_class_bytes(int class);
int loci_class_for(size_t len);

/* Fill in the header of an image of `len` bytes, which lie behind it already. `word`: the plain one
 * that the object will have. */
void loci_image_seal(const struct loco_store *s, struct loci_block_header *image, uint64_t stamp,
                     loco_object_t object, uint64_t word, size_t len);
/* Write it where `word` says; placed before whatever is done on that lane after it. */
int loci_image_write(struct loco_store *s, const struct loci_block_header *image,
                     loco_object_t object, uint64_t word, loco_ack_t *ack);

/* Begin to read what `word` names, of `len` bytes if that is known, else at least so many; `image`
 * has room for LOCI_IMAGE_MAX. */
int loci_image_read(struct loco_store *s, loco_object_t object, uint64_t word, size_t len,
                    struct loci_block_header *image, loco_ack_t *ack);
/* Once that has come: LOCO_OK, *len is its length; LOCO_ERR_AGAIN: it is not that value, or torn;
 * LOCO_IN_PROGRESS: it is longer than what was read: read *len. */
int loci_image_check(const struct loco_store *s, loco_object_t object, uint64_t word,
                     const struct loci_block_header *image, size_t read, size_t *len);

/* The value from mapped memory of a store without sums: at most `room` bytes. LOCO_OK, *len is its
 * length; LOCO_ERR_AGAIN. */
int loci_block_copy(const struct loco_store *s, const unsigned char *blocks, loco_object_t object,
                    uint64_t word, void *value, size_t room, size_t *len);

/* A value that is read in place, by loci_look(): nothing that was seen of it counts before
 * loci_glance_holds() says so. */
struct loci_glance {
    const unsigned char *block, *value;
    size_t len;
    uint64_t object, what;
};
/* In mapped memory of a store without sums. False: the block is not that value any more. */
bool loci_block_glance(const struct loco_store *s, const unsigned char *blocks,
                       loco_object_t object, uint64_t word, struct loci_glance *g);
bool loci_glance_holds(const struct loci_glance *g);

/* About so many bytes of a value in a block that there is will be looked at: they come nearer. */
static inline void loci_block_expect(const unsigned char *blocks, uint64_t block, size_t bytes)
{
    const unsigned char *p = blocks + loci_block_at(block);

    for (size_t at = 0; at < bytes + LOCI_STORE_HEADER; at += LOCI_STORE_UNIT)
        __builtin_prefetch(p + at);
}

/* Whether a plain word names a block that there is. */
static inline bool loci_block_is(const struct loco_store *s, uint64_t word, size_t bytes)
{
    uint64_t block = loci_cell_block(word);

    return block >= 1 && block <= s->blocks
           && bytes <= (s->blocks - block + 1) * LOCI_STORE_UNIT;
}

#endif
