/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serial model: predefined datatypes and what each predefined operation makes of two elements
 * of one, computed here without MPI; and derived datatypes built beside a list of their elements.
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

/* ---- derived datatypes with their typemap ---- */

struct tm_elem {
    ptrdiff_t at;
    const struct el_type *el;
};

struct tm {
    MPI_Datatype type;
    size_t n;
    struct tm_elem *elem;
    ptrdiff_t lb, ub;
};

/* Each constructor takes over the type it is given; tm_free when done, tm_commit before use. */
struct tm tm_basic(const struct el_type *t);
struct tm tm_copy(const struct tm *t);
struct tm tm_contiguous(struct tm t, int count);
struct tm tm_vector(struct tm t, int count, int length, int stride);
struct tm tm_hvector(struct tm t, int count, int length, ptrdiff_t stride);
struct tm tm_indexed(struct tm t, int count, const int *length, const int *at);
struct tm tm_hindexed(struct tm t, int count, const int *length, const MPI_Aint *at);
struct tm tm_indexed_block(struct tm t, int count, int length, const int *at);
struct tm tm_hindexed_block(struct tm t, int count, int length, const MPI_Aint *at);
struct tm tm_struct(int count, const int *length, const MPI_Aint *at, struct tm *parts);
struct tm tm_subarray(struct tm t, int dims, const int *sizes, const int *part, const int *start,
                      int order);
/* Two dimensions, the first dealt out in blocks of `deal`, the second in one block each, over
 * 2 x 2 processes. */
struct tm tm_darray(struct tm t, int rank, int rows, int columns, int deal, int order);
struct tm tm_resized(struct tm t, ptrdiff_t lb, ptrdiff_t extent);
void tm_commit(struct tm *t);
void tm_free(struct tm *t);
ptrdiff_t tm_extent(const struct tm *t);
/* Does MPI agree on size and extent with the model? */
int tm_agrees(const struct tm *t);
/* Where element k of `count` copies of t lies, relative to the buffer's address. */
ptrdiff_t tm_at(const struct tm *t, size_t k);
/* The span [*low, *high) of bytes that `count` copies touch. */
void tm_span(const struct tm *t, size_t count, ptrdiff_t *low, ptrdiff_t *high);

/* A family of layouts of `TM_SIGNATURE` elements each, all with the same signature. */
enum { TM_SIGNATURE = 24, TM_LAYOUTS = 21 };
const char *tm_layout_name(int layout);
/* *count copies of the result hold TM_SIGNATURE elements of el. */
struct tm tm_layout(int layout, const struct el_type *el, uint64_t seed, int *count);
/* The same for a signature of mixed types: TM_MIXED layouts. */
enum { TM_MIXED = 5 };
struct tm tm_mixed(int layout, const struct el_type *const *signature, int n, uint64_t seed);

#endif
