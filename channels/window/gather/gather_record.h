/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_RECORD_H
#define LOCI_GATHER_RECORD_H

/* A batch of accumulates and puts, as it lies in its origin's memory.
 *
 *   word 0     bytes that follow
 *   record     where it goes: an offset in the target's part, or for DYNAMIC an address there
 *              type, operation << 8, bytes of the operand << 16
 *              operand, padded to 8 bytes
 *
 * A put is LOCO_OP_REPLACE of bytes. Others may write to a batch while it is read: each word of a
 * record is loaded once, and what was loaded is checked and used. */

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

/* What a record is, but for where it goes and what it brings. */
struct loci_gather_what {
    uint64_t word;              /* of the record; 0: none */
    size_t len;
    size_t n;                   /* elements */
    loci_reduce_fn *reduce;     /* NULL: it replaces what was there */
};

/* Whether that word makes sense. */
static inline bool loci_gather_understand(uint64_t word, struct loci_gather_what *what)
{
    enum loco_type type_id = (enum loco_type)(word & 0xff);
    enum loco_op op = (enum loco_op)(word >> 8 & 0xff);
    const struct loci_type *type = loci_type(type_id);
    size_t len = (size_t)(word >> 16);

    what->word = 0;
    if (len == 0 || len > LOCI_GATHER_MOST || type == NULL || !type->plain
        || len % type->extent != 0 || op == LOCO_OP_NO_OP || loci_reduce(op, type_id) == NULL)
        return false;
    *what = (struct loci_gather_what){
        word, len, len / type->extent, op == LOCO_OP_REPLACE ? NULL : loci_reduce(op, type_id),
    };
    return true;
}

/* Whether a record that makes sense is in the next `left` bytes. Most are as the one before. */
static inline bool loci_gather_next(const unsigned char *record, size_t left,
                                    struct loci_gather_what *what)
{
    uint64_t word;

    if (left < 16)
        return false;
    word = loci_load64(record + 8);
    return ((word == what->word && word != 0) || loci_gather_understand(word, what))
           && LOCI_GATHER_RECORD(what->len) <= left;
}

#endif
