/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_KV_VALUE_H
#define LOCI_KV_VALUE_H

/* Values in their places: kv_value.c. */

#include <stdlib.h>
#include <string.h>

#include "kvstore.h"

/* What a try to read a value may come to, beside statuses. */
#define LOCI_KV_TORN LOCO_ERR_AGAIN

/* ---- buffers that live as long as a call ---- */

#define LOCI_KV_SCRATCH_WORDS 64

struct loci_kv_scratch {
    uint64_t *words;
    uint64_t few[LOCI_KV_SCRATCH_WORDS];
};

static inline int loci_kv_scratch_open(struct loci_kv_scratch *scratch, size_t bytes)
{
    scratch->words = bytes <= sizeof scratch->few ? scratch->few : malloc(bytes);
    return scratch->words == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

static inline void loci_kv_scratch_close(struct loci_kv_scratch *scratch)
{
    if (scratch->words != scratch->few)
        free(scratch->words);
}

/* ---- reading ---- */

/* Where the place of this word is mapped here, or NULL; maps on first use. */
static inline unsigned char *loci_kv_mapped(struct loco_kvstore *kv, uint64_t word)
{
    struct loci_mem *mem = loci_kv_mem(kv, word);
    unsigned char *base = loci_mem_ptr(mem);

    if (base == NULL)
        base = loci_mem_map(kv->rt, mem);
    return base == NULL ? NULL : base + loci_kv_offset(kv, word);
}

int loci_kv_copy_by_sum(const struct loco_kvstore *kv, const unsigned char *place, uint64_t word,
                        void *value);

static inline int loci_kv_copy_by_version(const struct loco_kvstore *kv,
                                          const unsigned char *place, uint64_t word, void *value)
{
    uint64_t version = loci_load64(place);

    loci_copy_out_raced(value, place + 16, kv->value_bytes);
    if (loci_load64(place + 8) != word)
        return LOCO_ERR_NOT_FOUND;
    return (version & LOCI_KV_BUSY) != 0 || loci_load64(place) != version ? LOCI_KV_TORN
           : LOCO_OK;
}

/* The value of this word from memory that is mapped here: LOCO_OK, LOCO_ERR_NOT_FOUND (it is not
 * valid, or another one by now) or LOCI_KV_TORN. */
static inline int loci_kv_copy_value(const struct loco_kvstore *kv, const unsigned char *place,
                                     uint64_t word, void *value)
{
    uint64_t one;

    if (!kv->small)
        return kv->versions ? loci_kv_copy_by_version(kv, place, word, value)
               : loci_kv_copy_by_sum(kv, place, word, value);
    /* First the value, then what says whose it is: see kvstore.c. */
    one = loci_load64(place + 8);
    if (loci_load64(place) != word)
        return LOCO_ERR_NOT_FOUND;
    if (kv->value_bytes == sizeof one)
        memcpy(value, &one, sizeof one);
    else
        memcpy(value, &one, kv->value_bytes);
    return LOCO_OK;
}

/* One try of what the index says to be there: LOCI_KV_TORN also where it is not mapped here. */
static inline int loci_kv_get_mapped(struct loco_kvstore *kv, uint64_t word, void *value)
{
    const unsigned char *base = loci_mem_ptr(loci_kv_mem(kv, word));

    if (base == NULL || loci_kv_is_lost(kv, word))
        return LOCI_KV_TORN;
    LOCI_COUNT_MEM(kv->rt, reads, loci_kv_mem(kv, word));
    return loci_kv_copy_value(kv, base + loci_kv_offset(kv, word), word, value);
}

/* Bytes of a place from its meta word to its sum: what is read over a lane. */
static inline size_t loci_kv_image_bytes(const struct loco_kvstore *kv)
{
    return (kv->words + 2) * sizeof(uint64_t);
}

/* Start to read that; `ack` as in rma.h. */
int loci_kv_read_image(struct loco_kvstore *kv, uint64_t word, uint64_t *image, loco_ack_t *ack);
/* The value in it: as loci_kv_copy_value. */
int loci_kv_parse_image(const struct loco_kvstore *kv, const uint64_t *image, uint64_t word,
                        void *value);

/* Read a value that the index says to be there, until it is not torn. */
int loci_kv_read_value(struct loco_kvstore *kv, uint64_t key, uint64_t word, void *value);

/* ---- writing ---- */

/* A new value, under the lock. Placed after a fence to its rank. */
int loci_kv_write_value(struct loco_kvstore *kv, uint64_t word, const void *value);
/* Valid: of our own places. Not any more: placed when it returns. */
void loci_kv_set_valid(struct loco_kvstore *kv, uint64_t word);
int loci_kv_set_invalid(struct loco_kvstore *kv, uint64_t word);

/* ---- places of our own ---- */

/* A free one; LOCO_ERR_FULL. And back. */
int loci_kv_take_place(struct loco_kvstore *kv, uint64_t *place);
void loci_kv_give_place(struct loco_kvstore *kv, uint64_t place);
/* The first value of one that was taken, not valid yet. The word that it will have. */
uint64_t loci_kv_fill_place(struct loco_kvstore *kv, uint64_t place, const void *value);

#endif
