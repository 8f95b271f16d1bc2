/* SPDX-License-Identifier: BSD-3-Clause */

/* Values in objects of their own. Such an object says which tree and key it is of: who reads it so
 * has read the key's value, for there is no other one in the same committed state (index.h, d). So
 * the handle notes which object a key had, and next time asks that one, and no leaf. */

#include "config.h"

#include <stdlib.h>

#include "index.h"

#define MAGIC UINT32_C(0x4c617061)
#define EXPECTED 512u           /* bytes that are asked for at first */

static int reserve(struct loci_index *ix)
{
    if (ix->apart == NULL)
        ix->apart = malloc(LOCI_APART_MAX);
    return ix->apart == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

/* ---- which object a key had ---- */

#ifndef LOCO_SIM
#define NOTES 1024u             /* a power of two */
#else
size_t loci_apart_notes = 1024; /* for benchmarks */
#define NOTES loci_apart_notes
#endif

static struct loci_apart_note *note_of(struct loci_index *ix, loco_bytes_t key, uint64_t *hash)
{
    const unsigned char *p = key.data;

    *hash = UINT64_C(0xcbf29ce484222325);       /* FNV-1a */
    for (size_t i = 0; i < key.len; i++)
        *hash = (*hash ^ p[i]) * UINT64_C(0x100000001b3);
    return &ix->note[(*hash ^ *hash >> 32) & (NOTES - 1)];
}

loco_object_t loci_apart_recall(struct loci_index *ix, loco_bytes_t key)
{
    const struct loci_apart_note *note;
    uint64_t hash;

    if (ix->note == NULL)
        return 0;
    note = note_of(ix, key, &hash);
    return note->hash == hash ? note->object : 0;
}

void loci_apart_note(struct loci_index *ix, loco_bytes_t key, loco_object_t object)
{
    struct loci_apart_note *note;
    uint64_t hash;

    if (ix->note == NULL)
        ix->note = calloc(NOTES, sizeof *ix->note);
    if (ix->note == NULL)
        return;                 /* the leaf says it */
    note = note_of(ix, key, &hash);
    *note = (struct loci_apart_note){ hash, object };
}

/* ---- values ---- */

int loci_apart_read(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                    loco_bytes_t key, loco_bytes_t *value)
{
    size_t len, begin = sizeof(struct loci_apart) + key.len;
    struct loci_apart head;
    int status = reserve(ix);

    if (status == LOCO_OK)
        status = loci_index_read(ix, how, object, EXPECTED, ix->apart, LOCI_APART_MAX, &len);
    if (status != LOCO_OK)
        return status;
    if (len < begin)
        return LOCO_ERR_NOT_FOUND;
    memcpy(&head, ix->apart, sizeof head);
    if (head.tree != ix->id || head.magic != MAGIC || head.key_len != key.len
        || loci_bytes_compare(loco_bytes(ix->apart + sizeof head, key.len), key) != 0)
        return LOCO_ERR_NOT_FOUND;
    *value = loco_bytes(ix->apart + begin, len - begin);
    return LOCO_OK;
}

/* All of it, to ix->apart. */
static int fill(struct loci_index *ix, loco_bytes_t key, loco_bytes_t value, size_t *len)
{
    struct loci_apart head = { .tree = ix->id, .magic = MAGIC, .key_len = (uint32_t)key.len };
    int status = reserve(ix);

    if (status != LOCO_OK)
        return status;
    memcpy(ix->apart, &head, sizeof head);
    if (key.len > 0)
        memcpy(ix->apart + sizeof head, key.data, key.len);
    if (value.len > 0)
        memcpy(ix->apart + sizeof head + key.len, value.data, value.len);
    *len = sizeof head + key.len + value.len;
    return LOCO_OK;
}

int loci_apart_new(struct loci_index *ix, loco_bytes_t key, loco_bytes_t value,
                   loco_object_t *object)
{
    size_t len;
    int status = fill(ix, key, value, &len);

    return status != LOCO_OK ? status : loci_index_new(ix, ix->apart, len, object);
}

int loci_apart_write(struct loci_index *ix, loco_object_t object, loco_bytes_t key,
                     loco_bytes_t value)
{
    size_t len;
    int status = fill(ix, key, value, &len);

    return status != LOCO_OK ? status : loco_tx_write(ix->tx, object, ix->apart, len);
}
