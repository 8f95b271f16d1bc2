/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serial model: derived datatypes built beside a list of their elements. (Not for sources that
 * use the system's calendar, which has a struct tm as well.)
 */
#ifndef LOCO_TESTS_MPI_TYPEMAP_H
#define LOCO_TESTS_MPI_TYPEMAP_H

#include "elems.h"

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
