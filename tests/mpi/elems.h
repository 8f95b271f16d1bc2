/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serial model: predefined datatypes and what each predefined operation makes of two elements
 * of one, computed here without MPI.
 */
#ifndef LOCO_TESTS_MPI_ELEMS_H
#define LOCO_TESTS_MPI_ELEMS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum el_kind {
    EL_SIGNED,
    EL_UNSIGNED,
    EL_FLOAT,
    EL_COMPLEX,
    EL_LOGICAL,
    EL_BYTE,
    EL_TEXT,       /* characters: only MPI_REPLACE and MPI_NO_OP */
    EL_PAIR_SIGNED, /* a value and an index; `part` is the value's size */
    EL_PAIR_FLOAT,
    EL_PAIR_OF_FLOATS /* Fortran's: the index is a float as well */
};

enum {
    EL_FORTRAN = 1,   /* a Fortran integer: no logical operations */
    EL_ADDRESS = 2    /* MPI_AINT and its like */
};

struct el_type {
    const char *name;
    MPI_Datatype type;
    enum el_kind kind;
    int part;    /* bytes of one value */
    int bytes;   /* from the first to the last byte, padding between included */
    int extent;
    unsigned flags;
};

enum el_op {
    EL_SUM,
    EL_PROD,
    EL_MAX,
    EL_MIN,
    EL_BAND,
    EL_BOR,
    EL_BXOR,
    EL_LAND,
    EL_LOR,
    EL_LXOR,
    EL_REPLACE,
    EL_NO_OP,
    EL_MINLOC,
    EL_MAXLOC,
    EL_OPS
};

extern const struct el_type el_types[];
extern const int el_type_count;

MPI_Op el_op_handle(enum el_op op);
const char *el_op_name(enum el_op op);
/* Is the type there in this MPI? Fortran's may be absent. */
int el_present(const struct el_type *t);
int el_allowed(const struct el_type *t, enum el_op op);
int el_is_pair(const struct el_type *t);
int el_swappable(const struct el_type *t); /* may be given to MPI_Compare_and_swap */
/* Values that `op` can take without overflow or rounding; all bytes of padding are `pad`. */
void el_fill(const struct el_type *t, enum el_op op, void *to, size_t count, uint64_t seed,
             int pad);
/* Integers with all bits in use: sums wrap, unsigned ones exceed the signed range. */
void el_fill_high(const struct el_type *t, void *to, size_t count, uint64_t seed);
/* *to = *to op *from, on values only: padding stays. */
void el_apply(const struct el_type *t, enum el_op op, void *to, const void *from);
int el_same(const struct el_type *t, const void *a, const void *b);
int el_index_offset(const struct el_type *t);

#endif
