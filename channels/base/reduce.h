/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_REDUCE_H
#define LOCI_REDUCE_H

#include <stddef.h>

#include <loco/op.h>

/* Element operations of accumulates: target[i] = target[i] op operand[i] for n elements, one
 * type extent apart; neither need be aligned. Of types with padding only the members are written.
 * NULL where the operation is not defined on the type; NO_OP is a function that does nothing. */
typedef void loci_reduce_fn(void *target, const void *operand, size_t n);
extern loci_reduce_fn *const loci_reduce_table[LOCO_TYPE_COUNT][LOCO_OP_COUNT];
static inline loci_reduce_fn *loci_reduce(enum loco_op op, enum loco_type type)
{
    if ((unsigned)type >= LOCO_TYPE_COUNT || (unsigned)op >= LOCO_OP_COUNT)
        return NULL;
    return loci_reduce_table[type][op];
}

/* For who repeats an operation: how this CPU does it to fewer than LOCI_REDUCE_WIDE elements, to
 * that many, to LOCI_REDUCE_WIDEST or more, which the table's functions find out in each call. `op`
 * is defined on `type`. */
enum { LOCI_REDUCE_WIDE = 16, LOCI_REDUCE_WIDEST = 64, LOCI_REDUCE_LENGTHS = 3 };
void loci_reduce_open(enum loco_op op, enum loco_type type,
                      loci_reduce_fn *by_length[LOCI_REDUCE_LENGTHS]);
static inline loci_reduce_fn *loci_reduce_for(loci_reduce_fn *const *by_length, size_t n)
{
    return by_length[(n >= LOCI_REDUCE_WIDE) + (n >= LOCI_REDUCE_WIDEST)];
}

/* The same by the CPU's atomics, one element after the other, for types of at most 8 bytes without
 * padding; `target` is a multiple of their size. NULL where there is none. `result`, if not NULL,
 * becomes what was there. An element that the operation does not change is only read. */
typedef void loci_atomic_fn(void *target, const void *operand, void *result, size_t n);
extern loci_atomic_fn *const loci_atomic_table[LOCO_TYPE_COUNT][LOCO_OP_COUNT];

/* A type as accumulates must know it. */
struct loci_type {
    unsigned char extent;       /* bytes from one element to the next */
    unsigned char value;        /* bytes of the first member; extent where there is one only */
    unsigned char index;        /* offset of the second member, 0 where there is none */
    unsigned char index_len;
    unsigned char shift;        /* extent is 1 << shift */
    bool plain;                 /* no byte of the extent is padding */
    bool swappable;             /* for compare_swap: integer, logical or byte, at most 8 bytes */
};
extern const struct loci_type loci_type_table[LOCO_TYPE_COUNT];
/* NULL where there is no such type. */
static inline const struct loci_type *loci_type(enum loco_type type)
{
    return (unsigned)type < LOCO_TYPE_COUNT ? &loci_type_table[type] : NULL;
}

/* Copy members only. */
void loci_type_copy(const struct loci_type *type, void *to, const void *from, size_t n);

#endif
