/* SPDX-License-Identifier: BSD-3-Clause */
#include "typemap.h"

#include "testlib.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model's side of each constructor: copies of the parts' elements, in order ---- */

static struct tm empty(size_t room)
{
    struct tm t = {MPI_DATATYPE_NULL, 0, malloc((room > 0 ? room : 1) * sizeof(struct tm_elem)), 0,
                   0};

    return t;
}

static void append(struct tm *to, const struct tm *part, ptrdiff_t at)
{
    int first = to->n == 0;

    for (size_t k = 0; k < part->n; k++) {
        to->elem[to->n].at = part->elem[k].at + at;
        to->elem[to->n++].el = part->elem[k].el;
    }
    if (part->n == 0)
        return;
    if (first || part->lb + at < to->lb)
        to->lb = part->lb + at;
    if (first || part->ub + at > to->ub)
        to->ub = part->ub + at;
}

static void append_block(struct tm *to, const struct tm *part, ptrdiff_t at, int length)
{
    for (int i = 0; i < length; i++)
        append(to, part, at + i * tm_extent(part));
}

ptrdiff_t tm_extent(const struct tm *t)
{
    return t->ub - t->lb;
}

struct tm tm_basic(const struct el_type *t)
{
    struct tm m = empty(1);

    m.elem[0].at = 0;
    m.elem[0].el = t;
    m.n = 1;
    m.ub = t->extent;
    tl_ok(MPI_Type_dup(t->type, &m.type), "MPI_Type_dup");
    return m;
}

struct tm tm_copy(const struct tm *t)
{
    struct tm m = empty(t->n);

    memcpy(m.elem, t->elem, t->n * sizeof *m.elem);
    m.n = t->n;
    m.lb = t->lb;
    m.ub = t->ub;
    tl_ok(MPI_Type_dup(t->type, &m.type), "MPI_Type_dup");
    return m;
}

struct tm tm_contiguous(struct tm t, int count)
{
    struct tm m = empty(t.n * (size_t)count);

    append_block(&m, &t, 0, count);
    tl_ok(MPI_Type_contiguous(count, t.type, &m.type), "MPI_Type_contiguous");
    tm_free(&t);
    return m;
}

struct tm tm_vector(struct tm t, int count, int length, int stride)
{
    struct tm m = empty(t.n * (size_t)count * (size_t)length);

    for (int i = 0; i < count; i++)
        append_block(&m, &t, (ptrdiff_t)i * stride * tm_extent(&t), length);
    tl_ok(MPI_Type_vector(count, length, stride, t.type, &m.type), "MPI_Type_vector");
    tm_free(&t);
    return m;
}

struct tm tm_hvector(struct tm t, int count, int length, ptrdiff_t stride)
{
    struct tm m = empty(t.n * (size_t)count * (size_t)length);

    for (int i = 0; i < count; i++)
        append_block(&m, &t, i * stride, length);
    tl_ok(MPI_Type_create_hvector(count, length, stride, t.type, &m.type), "hvector");
    tm_free(&t);
    return m;
}

static struct tm indexed_model(struct tm *t, int count, const int *length, const MPI_Aint *at,
                               ptrdiff_t scale)
{
    size_t blocks = 0;
    struct tm m;

    for (int i = 0; i < count; i++)
        blocks += (size_t)length[i];
    m = empty(t->n * blocks);
    for (int i = 0; i < count; i++)
        append_block(&m, t, at[i] * scale, length[i]);
    return m;
}

struct tm tm_hindexed(struct tm t, int count, const int *length, const MPI_Aint *at)
{
    struct tm m = indexed_model(&t, count, length, at, 1);

    tl_ok(MPI_Type_create_hindexed(count, length, at, t.type, &m.type), "hindexed");
    tm_free(&t);
    return m;
}

static MPI_Aint *widened(int count, const int *at)
{
    MPI_Aint *wide = malloc((size_t)count * sizeof *wide);

    for (int i = 0; i < count; i++)
        wide[i] = at[i];
    return wide;
}

struct tm tm_indexed(struct tm t, int count, const int *length, const int *at)
{
    MPI_Aint *wide = widened(count, at);
    struct tm m = indexed_model(&t, count, length, wide, tm_extent(&t));

    tl_ok(MPI_Type_indexed(count, length, at, t.type, &m.type), "MPI_Type_indexed");
    free(wide);
    tm_free(&t);
    return m;
}

static int *repeated(int count, int length)
{
    int *all = malloc((size_t)count * sizeof *all);

    for (int i = 0; i < count; i++)
        all[i] = length;
    return all;
}

struct tm tm_indexed_block(struct tm t, int count, int length, const int *at)
{
    int *all = repeated(count, length);
    MPI_Aint *wide = widened(count, at);
    struct tm m = indexed_model(&t, count, all, wide, tm_extent(&t));

    tl_ok(MPI_Type_create_indexed_block(count, length, at, t.type, &m.type), "indexed_block");
    free(all);
    free(wide);
    tm_free(&t);
    return m;
}

struct tm tm_hindexed_block(struct tm t, int count, int length, const MPI_Aint *at)
{
    int *all = repeated(count, length);
    struct tm m = indexed_model(&t, count, all, at, 1);

    tl_ok(MPI_Type_create_hindexed_block(count, length, at, t.type, &m.type), "hindexed_block");
    free(all);
    tm_free(&t);
    return m;
}

/* MPI may pad a structure's extent: resized to what the model says. */
struct tm tm_struct(int count, const int *length, const MPI_Aint *at, struct tm *parts)
{
    MPI_Datatype *types = calloc((size_t)count, sizeof *types);
    size_t room = 0;
    struct tm m;

    for (int i = 0; i < count; i++)
        room += parts[i].n * (size_t)length[i];
    m = empty(room);
    for (int i = 0; i < count; i++) {
        append_block(&m, &parts[i], at[i], length[i]);
        types[i] = parts[i].type;
    }
    tl_ok(MPI_Type_create_struct(count, length, at, types, &m.type), "MPI_Type_create_struct");
    for (int i = 0; i < count; i++)
        tm_free(&parts[i]);
    free(types);
    return tm_resized(m, m.lb, m.ub - m.lb);
}

struct tm tm_subarray(struct tm t, int dims, const int *sizes, const int *part, const int *start,
                      int order)
{
    size_t total = 1;
    ptrdiff_t whole = tm_extent(&t), index[4] = {0, 0, 0, 0};
    struct tm m;

    for (int d = 0; d < dims; d++) {
        total *= (size_t)part[d];
        whole *= sizes[d];
    }
    m = empty(t.n * total);
    for (size_t k = 0; k < total; k++) {
        size_t rest = k;
        ptrdiff_t at = 0;
        for (int i = 0; i < dims; i++) { /* fastest dimension first */
            int d = order == MPI_ORDER_C ? dims - 1 - i : i;
            index[d] = start[d] + (ptrdiff_t)(rest % (size_t)part[d]);
            rest /= (size_t)part[d];
        }
        for (int i = dims - 1; i >= 0; i--) {
            int d = order == MPI_ORDER_C ? dims - 1 - i : i;
            at = at * sizes[d] + index[d];
        }
        append(&m, &t, at * tm_extent(&t));
    }
    m.lb = 0;
    m.ub = whole;
    tl_ok(MPI_Type_create_subarray(dims, sizes, part, start, order, t.type, &m.type), "subarray");
    tm_free(&t);
    return m;
}

struct tm tm_darray(struct tm t, int rank, int rows, int columns, int deal, int order)
{
    static const int grid[2] = {2, 2};
    int sizes[2] = {rows, columns}, args[2] = {deal, MPI_DISTRIBUTE_DFLT_DARG};
    int how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int mine = rows / 2 * (columns / 2), c = order == MPI_ORDER_C;
    struct tm m = empty(t.n * (size_t)mine);

    for (int k = 0; k < mine; k++) {
        int i = c ? k / (columns / 2) : k % (rows / 2);
        int j = c ? k % (columns / 2) : k / (rows / 2);
        int row = (i / deal * 2 + rank / 2) * deal + i % deal;
        int column = rank % 2 * (columns / 2) + j;
        append(&m, &t, (c ? row * columns + column : column * rows + row) * tm_extent(&t));
    }
    m.lb = 0;
    m.ub = rows * columns * tm_extent(&t);
    tl_ok(MPI_Type_create_darray(4, rank, 2, sizes, how, args, grid, order, t.type, &m.type),
          "MPI_Type_create_darray");
    tm_free(&t);
    return m;
}

struct tm tm_resized(struct tm t, ptrdiff_t lb, ptrdiff_t extent)
{
    MPI_Datatype old = t.type;

    tl_ok(MPI_Type_create_resized(old, lb, extent, &t.type), "MPI_Type_create_resized");
    MPI_Type_free(&old);
    t.lb = lb;
    t.ub = lb + extent;
    return t;
}

void tm_commit(struct tm *t)
{
    tl_ok(MPI_Type_commit(&t->type), "MPI_Type_commit");
}

void tm_free(struct tm *t)
{
    if (t->type != MPI_DATATYPE_NULL)
        MPI_Type_free(&t->type);
    free(t->elem);
    t->elem = NULL;
}

int tm_agrees(const struct tm *t)
{
    MPI_Aint lb, extent;
    int size, wanted = 0;

    MPI_Type_get_extent(t->type, &lb, &extent);
    MPI_Type_size(t->type, &size);
    for (size_t k = 0; k < t->n; k++) {
        int one;
        MPI_Type_size(t->elem[k].el->type, &one);
        wanted += one;
    }
    return lb == t->lb && extent == tm_extent(t) && size == wanted;
}

ptrdiff_t tm_at(const struct tm *t, size_t k)
{
    return t->elem[k % t->n].at + (ptrdiff_t)(k / t->n) * tm_extent(t);
}

void tm_span(const struct tm *t, size_t count, ptrdiff_t *low, ptrdiff_t *high)
{
    *low = PTRDIFF_MAX;
    *high = PTRDIFF_MIN;
    for (size_t k = 0; k < count * t->n; k++) {
        ptrdiff_t at = tm_at(t, k), end = at + t->elem[k % t->n].el->bytes;
        *low = at < *low ? at : *low;
        *high = end > *high ? end : *high;
    }
}

/* ---- a family of layouts with one signature ---- */

static const char *const layout_name[TM_LAYOUTS] = {
    "basic",          "contiguous",      "vector",        "hvector",       "indexed",
    "hindexed",       "indexed_block",   "hindexed_block", "struct",       "subarray C",
    "subarray Fortran", "resized",       "negative lb",   "nested",        "descending",
    "interleaved",    "backwards",       "upwards",       "darray C",      "darray Fortran",
    "empty blocks"};

const char *tm_layout_name(int layout)
{
    return layout_name[layout];
}

/* Blocks that fill `total` elements, at rising places with gaps, in units of one element. */
static int random_blocks(uint64_t *state, int total, int *length, int *at)
{
    int n = 0, place = tl_below(state, 3);

    while (total > 0) {
        length[n] = 1 + tl_below(state, total < 6 ? total : 6);
        at[n] = place;
        place += length[n] + tl_below(state, 4);
        total -= length[n++];
    }
    return n;
}

static struct tm layout_indexed(const struct el_type *el, uint64_t *state, int in_bytes)
{
    int length[TM_SIGNATURE], at[TM_SIGNATURE];
    MPI_Aint bytes[TM_SIGNATURE];
    int n = random_blocks(state, TM_SIGNATURE, length, at);

    if (!in_bytes)
        return tm_indexed(tm_basic(el), n, length, at);
    for (int i = 0; i < n; i++)
        bytes[i] = (MPI_Aint)at[i] * el->extent + i * (el->extent > 8 ? 16 : 8);
    return tm_hindexed(tm_basic(el), n, length, bytes);
}

static struct tm layout_struct(const struct el_type *el, uint64_t *state)
{
    int length[TM_SIGNATURE], at[TM_SIGNATURE];
    MPI_Aint bytes[TM_SIGNATURE];
    struct tm parts[TM_SIGNATURE];
    int n = random_blocks(state, TM_SIGNATURE, length, at);

    for (int i = 0; i < n; i++) {
        bytes[i] = (MPI_Aint)at[i] * el->extent;
        parts[i] = tm_basic(el);
    }
    return tm_struct(n, length, bytes, parts);
}

static struct tm layout_block(const struct el_type *el, int in_bytes)
{
    static const int at[6] = {0, 7, 11, 16, 22, 27};
    MPI_Aint bytes[6];

    if (!in_bytes)
        return tm_indexed_block(tm_basic(el), 6, 4, at);
    for (int i = 0; i < 6; i++)
        bytes[i] = (MPI_Aint)at[5 - i] * el->extent;
    return tm_hindexed_block(tm_basic(el), 6, 4, bytes);
}

static struct tm layout_subarray(const struct el_type *el, int order)
{
    static const int sizes[3] = {3, 5, 6}, part[3] = {2, 3, 4}, start[3] = {1, 1, 2};

    return tm_subarray(tm_basic(el), 3, sizes, part, start, order);
}

static struct tm layout_nested(const struct el_type *el)
{
    static const int length[2] = {2, 1};
    static const int at[2] = {0, 3};
    struct tm inner = tm_indexed(tm_basic(el), 2, length, at);           /* 3 elements in 4 */
    struct tm middle = tm_resized(inner, -el->extent, 6 * el->extent);
    struct tm pair = tm_contiguous(middle, 2);                            /* 6 */

    return tm_hvector(pair, 2, 1, 14 * (ptrdiff_t)el->extent);            /* 12 */
}

static struct tm layout_descending(const struct el_type *el)
{
    MPI_Aint at[TM_SIGNATURE];
    int *one = repeated(TM_SIGNATURE, 1);
    struct tm m;

    for (int i = 0; i < TM_SIGNATURE; i++)
        at[i] = (MPI_Aint)(TM_SIGNATURE - i - 10) * 2 * el->extent;
    m = tm_hindexed(tm_basic(el), TM_SIGNATURE, one, at);
    free(one);
    return m;
}

/* Blocks of a structure and of a list, some of them empty, at places that neither rise nor fall. */
static struct tm layout_empty_blocks(const struct el_type *el)
{
    static const int length[5] = {0, 2, 0, 1, 3}, count[4] = {1, 0, 2, 1};
    ptrdiff_t x = el->extent;
    MPI_Aint at[5] = {-90 * x, 9 * x, 70 * x, 0, 4 * x}, place[4] = {26 * x, 99 * x, 0, 60 * x};
    struct tm parts[4];

    parts[0] = tm_hindexed(tm_basic(el), 5, length, at);                   /* 6 in 11 */
    parts[1] = tm_vector(tm_basic(el), 2, 2, 3);
    parts[2] = tm_resized(tm_copy(&parts[0]), 0, 13 * x);                  /* twice 6 */
    parts[3] = tm_vector(tm_basic(el), 6, 1, -2);                          /* 6 */
    return tm_struct(4, count, place, parts);
}

struct tm tm_layout(int layout, const struct el_type *el, uint64_t seed, int *count)
{
    ptrdiff_t x = el->extent;

    *count = 1;
    switch (layout) {
    case 0:
        *count = TM_SIGNATURE;
        return tm_basic(el);
    case 1:
        *count = 3;
        return tm_contiguous(tm_basic(el), 8);
    case 2:
        *count = 2;
        return tm_vector(tm_basic(el), 4, 3, 5);
    case 3:
        return tm_hvector(tm_basic(el), 8, 3, 4 * x + (x > 8 ? 16 : 8));
    case 4:
        return layout_indexed(el, &seed, 0);
    case 5:
        return layout_indexed(el, &seed, 1);
    case 6:
        return layout_block(el, 0);
    case 7:
        return layout_block(el, 1);
    case 8:
        return layout_struct(el, &seed);
    case 9:
        return layout_subarray(el, MPI_ORDER_C);
    case 10:
        return layout_subarray(el, MPI_ORDER_FORTRAN);
    case 11:
        *count = 8;
        return tm_resized(tm_contiguous(tm_basic(el), 3), 0, 5 * x);
    case 12:
        *count = 6;
        return tm_resized(tm_vector(tm_basic(el), 2, 2, 3), -2 * x, 8 * x);
    case 13:
        *count = 2;
        return layout_nested(el);
    case 14:
        return layout_descending(el);
    case 15: /* copies that lie within one another, touching nothing twice */
        *count = 4;
        return tm_resized(tm_vector(tm_basic(el), 6, 1, 4), 0, x);
    case 16: /* each copy before the last one */
        *count = 8;
        return tm_resized(tm_contiguous(tm_basic(el), 3), 0, -4 * x);
    case 17: /* rows from the last to the first */
        *count = 2;
        return tm_resized(tm_hvector(tm_basic(el), 4, 3, -5 * x), -15 * x, 20 * x);
    case 18:
        return tm_darray(tm_basic(el), (int)(seed % 4), 8, 12, 2, MPI_ORDER_C);
    case 19:
        return tm_darray(tm_basic(el), (int)(seed % 4), 8, 12, 2, MPI_ORDER_FORTRAN);
    default:
        return layout_empty_blocks(el);
    }
}

/* One block per element: at rising or descending places, tight or with gaps. */
static struct tm mixed_blocks(const struct el_type *const *signature, int n, int descending,
                              int gap)
{
    int *one = repeated(n, 1);
    MPI_Aint *at = malloc((size_t)n * sizeof *at), place = 0;
    struct tm *parts = malloc((size_t)n * sizeof *parts), m;

    for (int i = 0; i < n; i++) {
        int k = descending ? n - 1 - i : i;
        at[k] = place;
        place += signature[k]->extent + gap;
    }
    for (int i = 0; i < n; i++)
        parts[i] = tm_basic(signature[i]);
    m = tm_struct(n, one, at, parts);
    free(one);
    free(at);
    free(parts);
    return m;
}

struct tm tm_mixed(int layout, const struct el_type *const *signature, int n, uint64_t seed)
{
    int half = n / 2, one[2] = {1, 1};
    MPI_Aint at[2];
    struct tm parts[2];

    switch (layout) {
    case 0:
        return mixed_blocks(signature, n, 0, 0);
    case 1:
        return mixed_blocks(signature, n, 0, 16);
    case 2:
        return mixed_blocks(signature, n, 1, 0);
    case 3:
        return mixed_blocks(signature, n, 1, 1 + tl_below(&seed, 9));
    default:
        parts[0] = mixed_blocks(signature, half, 0, 3);
        parts[1] = mixed_blocks(signature + half, n - half, 1, 5);
        at[0] = tm_extent(&parts[1]) + 7;
        at[1] = 0;
        return tm_struct(2, one, at, parts);
    }
}
