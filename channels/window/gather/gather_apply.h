/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_APPLY_H
#define LOCI_GATHER_APPLY_H

/* A batch of accumulates and puts, and what it does to the memory of its target.
 *
 *   word 0     bytes that follow
 *   record     where it goes: an offset in the target's part, or for DYNAMIC an address there
 *              type, operation << 8, bytes of the operand << 16
 *              operand, padded to 8 bytes
 *
 * A put is LOCO_OP_REPLACE of bytes. The records are applied as if one after the other: the
 * elements of some hundred records are read at once, combined in a copy, where those of the same
 * element share its place, and exactly their bytes are written. Elements that overlap in part are
 * not in one such chunk. */

#include "window/window.h"

#define LOCI_GATHER_MOST 64                     /* bytes of an operand */
#define LOCI_GATHER_RECORD(len) (16 + (((len) + 7) & ~(size_t)7))

static inline void loci_gather_record(unsigned char *record, enum loco_type type, enum loco_op op,
                                      uint64_t offset, const void *operand, size_t len)
{
    loci_store64(record, offset);
    loci_store64(record + 8, (uint64_t)type | (uint64_t)op << 8 | (uint64_t)len << 16);
    if (len == 8)
        loci_copy_in(record + 16, operand, 8);
    else
        loci_copy_in(record + 16, operand, len);
}

/* Bytes of a batch, word 0 included; elements that are read or written at once, for a call of the
 * system costs as much as some dozen of them. In simulation few, so that all are soon full. */
#ifdef LOCO_SIM
#define LOCI_GATHER_BATCH 96
#define LOCI_GATHER_CHUNK 3
#else
#define LOCI_GATHER_BATCH 16384
#define LOCI_GATHER_CHUNK 1024
#endif
#define LOCI_GATHER_ROOM ((size_t)LOCI_GATHER_CHUNK * LOCI_GATHER_MOST)

/* How whoever applies batches reaches the memory, under the lock of the target's accumulates. */
struct loci_gather_way {
    struct loco_window *win;
    int rank;                                   /* the target */
    unsigned char *room;                        /* LOCI_GATHER_ROOM bytes */
    struct loci_gather_chunk *chunk;            /* loci_gather_chunk_size() bytes */
    /* Where that is, as `move` wants it: LOCO_OK, LOCO_ERR_RANGE. */
    int (*locate)(const struct loci_gather_way *way, uint64_t offset, size_t len, uint64_t *at);
    /* Between n pieces, as located, and the bytes at `packed` in the room. */
    int (*move)(const struct loci_gather_way *way, enum loci_op_kind kind,
                const struct loci_piece *pieces, int n, unsigned char *packed);
};
size_t loci_gather_chunk_size(void);

/* Apply some batches: begin, add one after the other, end. All that can be done is done, whatever
 * becomes of one record; the end says LOCO_OK, or why the first of those was not that could not.
 * Batches may be a peer's: whatever they say, nothing outside the target's memory is touched, nor
 * outside the batch. */
void loci_gather_apply_begin(const struct loci_gather_way *way);
void loci_gather_apply(const struct loci_gather_way *way, const unsigned char *batch);
int loci_gather_apply_end(const struct loci_gather_way *way);

#endif
