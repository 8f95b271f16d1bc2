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

/* Bytes of a batch, word 0 included; batches that one target has at most; elements that are read or
 * written at once. In simulation few, so that all of them are soon full. */
#ifdef LOCO_SIM
#define LOCI_GATHER_BATCH 128
#define LOCI_GATHER_DEPTH 2
#define LOCI_GATHER_CHUNK 3
#else
#define LOCI_GATHER_BATCH 8192
#define LOCI_GATHER_DEPTH 4
#define LOCI_GATHER_CHUNK 256
#endif
#define LOCI_GATHER_ROOM ((size_t)LOCI_GATHER_CHUNK * LOCI_GATHER_MOST)

/* How whoever applies a batch reaches the memory, under the lock of the target's accumulates. */
struct loci_gather_way {
    struct loco_window *win;
    int rank;                                   /* the target */
    unsigned char *room;                        /* LOCI_GATHER_ROOM bytes */
    /* Where that is, as `move` wants it: LOCO_OK, LOCO_ERR_RANGE. */
    int (*locate)(const struct loci_gather_way *way, uint64_t offset, size_t len, uint64_t *at);
    /* Between n pieces, as located, and the bytes at `packed` in the room. */
    int (*move)(const struct loci_gather_way *way, enum loci_op_kind kind,
                const struct loci_piece *pieces, int n, unsigned char *packed);
};

/* All that can be done is done, whatever becomes of one record: LOCO_OK, or why the first of those
 * was not that could not. The batch may be a peer's: whatever it says, nothing outside the target's
 * memory is touched, nor outside the batch. */
int loci_gather_apply(const struct loci_gather_way *way, const unsigned char *batch);

#endif
