/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_APPLY_H
#define LOCI_GATHER_APPLY_H

/* What a batch (gather_record.h) does to the memory of its target.
 *
 * The records are applied as if one after the other. Where the CPU may touch the memory they are
 * (gather_in_place.h). Else the elements of some hundred records are read at once, combined in a
 * copy, where those of the same element share its place, and exactly their bytes are written.
 * Elements that overlap in part are not in one such chunk. */

#include "gather_record.h"

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
    /* Nullable. Whether plain loads and stores reach all bytes of n pieces, as located, from now on
     * to `reached`, which follows just then. */
    bool (*reach)(const struct loci_gather_way *way, const struct loci_piece *pieces, int n);
    void (*reached)(const struct loci_gather_way *way);
};
size_t loci_gather_chunk_size(void);

/* For an origin that applies batches: `locate`, and pieces as spans of the target's part, whose
 * bytes lie packed. */
int loci_gather_locate_there(const struct loci_gather_way *way, uint64_t offset, size_t len,
                             uint64_t *at);
void loci_gather_spans(const struct loci_piece *pieces, int n, unsigned char *packed,
                       struct loco_span span[LOCI_GATHER_CHUNK]);

/* Apply some batches: begin, add one after the other, end. All that can be done is done, whatever
 * becomes of one record; the end says LOCO_OK, or why the first of those was not that could not.
 * Batches may be a peer's: whatever they say, nothing outside the target's memory is touched, nor
 * outside the batch. */
void loci_gather_apply_begin(const struct loci_gather_way *way);
void loci_gather_apply(const struct loci_gather_way *way, const unsigned char *batch);
int loci_gather_apply_end(const struct loci_gather_way *way);

#endif
