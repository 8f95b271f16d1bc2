/* SPDX-License-Identifier: BSD-3-Clause */
#include "elems.h"

#include "testlib.h"

#include <complex.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>

/* Layouts of the pair types, which the standard defines as these structures. */
struct short_int {
    short value;
    int index;
};
struct long_int {
    long value;
    int index;
};
struct float_int {
    float value;
    int index;
};
struct double_int {
    double value;
    int index;
};
struct long_double_int {
    long double value;
    int index;
};

#define PLAIN(mpi, kind, ctype) {#mpi, mpi, kind, sizeof(ctype), sizeof(ctype), sizeof(ctype), 0}
#define FLAGGED(mpi, kind, size, flags) {#mpi, mpi, kind, size, size, size, flags}
#define PAIR(mpi, kind, ctype)                                                                    \
    {#mpi, mpi, kind, sizeof(((ctype *)0)->value), offsetof(ctype, index) + (int)sizeof(int),      \
     sizeof(ctype), 0}

const struct el_type el_types[] = {
    PLAIN(MPI_SIGNED_CHAR, EL_SIGNED, signed char),
    PLAIN(MPI_UNSIGNED_CHAR, EL_UNSIGNED, unsigned char),
    PLAIN(MPI_SHORT, EL_SIGNED, short),
    PLAIN(MPI_UNSIGNED_SHORT, EL_UNSIGNED, unsigned short),
    PLAIN(MPI_INT, EL_SIGNED, int),
    PLAIN(MPI_UNSIGNED, EL_UNSIGNED, unsigned),
    PLAIN(MPI_LONG, EL_SIGNED, long),
    PLAIN(MPI_UNSIGNED_LONG, EL_UNSIGNED, unsigned long),
    PLAIN(MPI_LONG_LONG, EL_SIGNED, long long),
    PLAIN(MPI_UNSIGNED_LONG_LONG, EL_UNSIGNED, unsigned long long),
    PLAIN(MPI_INT8_T, EL_SIGNED, int8_t),
    PLAIN(MPI_UINT8_T, EL_UNSIGNED, uint8_t),
    PLAIN(MPI_INT16_T, EL_SIGNED, int16_t),
    PLAIN(MPI_UINT16_T, EL_UNSIGNED, uint16_t),
    PLAIN(MPI_INT32_T, EL_SIGNED, int32_t),
    PLAIN(MPI_UINT32_T, EL_UNSIGNED, uint32_t),
    PLAIN(MPI_INT64_T, EL_SIGNED, int64_t),
    PLAIN(MPI_UINT64_T, EL_UNSIGNED, uint64_t),
    FLAGGED(MPI_AINT, EL_SIGNED, sizeof(MPI_Aint), EL_ADDRESS),
    FLAGGED(MPI_OFFSET, EL_SIGNED, sizeof(MPI_Offset), EL_ADDRESS),
    FLAGGED(MPI_COUNT, EL_SIGNED, sizeof(MPI_Count), EL_ADDRESS),
    FLAGGED(MPI_INTEGER, EL_SIGNED, sizeof(MPI_Fint), EL_FORTRAN),
    FLAGGED(MPI_INTEGER1, EL_SIGNED, 1, EL_FORTRAN),
    FLAGGED(MPI_INTEGER2, EL_SIGNED, 2, EL_FORTRAN),
    FLAGGED(MPI_INTEGER4, EL_SIGNED, 4, EL_FORTRAN),
    FLAGGED(MPI_INTEGER8, EL_SIGNED, 8, EL_FORTRAN),
    PLAIN(MPI_FLOAT, EL_FLOAT, float),
    PLAIN(MPI_DOUBLE, EL_FLOAT, double),
    PLAIN(MPI_LONG_DOUBLE, EL_FLOAT, long double),
    FLAGGED(MPI_REAL, EL_FLOAT, 4, 0),
    FLAGGED(MPI_DOUBLE_PRECISION, EL_FLOAT, 8, 0),
    FLAGGED(MPI_REAL4, EL_FLOAT, 4, 0),
    FLAGGED(MPI_REAL8, EL_FLOAT, 8, 0),
    PLAIN(MPI_C_FLOAT_COMPLEX, EL_COMPLEX, float _Complex),
    PLAIN(MPI_C_DOUBLE_COMPLEX, EL_COMPLEX, double _Complex),
    PLAIN(MPI_C_LONG_DOUBLE_COMPLEX, EL_COMPLEX, long double _Complex),
    FLAGGED(MPI_COMPLEX, EL_COMPLEX, 8, 0),
    FLAGGED(MPI_DOUBLE_COMPLEX, EL_COMPLEX, 16, 0),
    FLAGGED(MPI_COMPLEX8, EL_COMPLEX, 8, 0),
    FLAGGED(MPI_COMPLEX16, EL_COMPLEX, 16, 0),
    PLAIN(MPI_C_BOOL, EL_LOGICAL, bool),
    FLAGGED(MPI_LOGICAL, EL_LOGICAL, sizeof(MPI_Fint), 0),
    PLAIN(MPI_BYTE, EL_BYTE, unsigned char),
    PLAIN(MPI_CHAR, EL_TEXT, char),
    PLAIN(MPI_WCHAR, EL_TEXT, wchar_t),
    PLAIN(MPI_CHARACTER, EL_TEXT, char),
    {"MPI_2INT", MPI_2INT, EL_PAIR_SIGNED, 4, 8, 8, 0},
    PAIR(MPI_SHORT_INT, EL_PAIR_SIGNED, struct short_int),
    PAIR(MPI_LONG_INT, EL_PAIR_SIGNED, struct long_int),
    PAIR(MPI_FLOAT_INT, EL_PAIR_FLOAT, struct float_int),
    PAIR(MPI_DOUBLE_INT, EL_PAIR_FLOAT, struct double_int),
    PAIR(MPI_LONG_DOUBLE_INT, EL_PAIR_FLOAT, struct long_double_int),
    {"MPI_2INTEGER", MPI_2INTEGER, EL_PAIR_SIGNED, 4, 8, 8, 0},
    {"MPI_2REAL", MPI_2REAL, EL_PAIR_OF_FLOATS, 4, 8, 8, 0},
    {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, EL_PAIR_OF_FLOATS, 8, 16, 16, 0},
};

const int el_type_count = (int)(sizeof el_types / sizeof el_types[0]);

MPI_Op el_op_handle(enum el_op op)
{
    static const MPI_Op handle[EL_OPS] = {
        MPI_SUM,  MPI_PROD, MPI_MAX,  MPI_MIN,     MPI_BAND,  MPI_BOR,    MPI_BXOR,
        MPI_LAND, MPI_LOR,  MPI_LXOR, MPI_REPLACE, MPI_NO_OP, MPI_MINLOC, MPI_MAXLOC};

    return handle[op];
}

const char *el_op_name(enum el_op op)
{
    static const char *const name[EL_OPS] = {
        "MPI_SUM",  "MPI_PROD", "MPI_MAX",  "MPI_MIN",     "MPI_BAND",  "MPI_BOR",    "MPI_BXOR",
        "MPI_LAND", "MPI_LOR",  "MPI_LXOR", "MPI_REPLACE", "MPI_NO_OP", "MPI_MINLOC", "MPI_MAXLOC"};

    return name[op];
}

int el_is_pair(const struct el_type *t)
{
    return t->kind >= EL_PAIR_SIGNED;
}

int el_present(const struct el_type *t)
{
    MPI_Aint lb, extent;
    int size;

    if (t->type == MPI_DATATYPE_NULL || MPI_Type_size(t->type, &size) != MPI_SUCCESS || size == 0)
        return 0;
    MPI_Type_get_extent(t->type, &lb, &extent);
    return extent == t->extent;
}

int el_allowed(const struct el_type *t, enum el_op op)
{
    int integer = t->kind == EL_SIGNED || t->kind == EL_UNSIGNED;

    switch (op) {
    case EL_REPLACE:
    case EL_NO_OP:
        return 1;
    case EL_MINLOC:
    case EL_MAXLOC:
        return el_is_pair(t);
    case EL_MAX:
    case EL_MIN:
        return integer || t->kind == EL_FLOAT;
    case EL_SUM:
    case EL_PROD:
        return integer || t->kind == EL_FLOAT || t->kind == EL_COMPLEX;
    case EL_BAND:
    case EL_BOR:
    case EL_BXOR:
        return integer || t->kind == EL_BYTE;
    default:
        return t->kind == EL_LOGICAL || (integer && t->flags == 0);
    }
}

int el_swappable(const struct el_type *t)
{
    return t->kind == EL_SIGNED || t->kind == EL_UNSIGNED || t->kind == EL_LOGICAL ||
           t->kind == EL_BYTE;
}

int el_index_offset(const struct el_type *t)
{
    return t->bytes - (t->kind == EL_PAIR_OF_FLOATS ? t->part : (int)sizeof(int));
}

/* ---- reading and writing one value in its widest type ---- */

static uint64_t load_int(const void *from, int bytes, int is_signed)
{
    uint64_t v = 0;
    int shift = 64 - 8 * bytes;

    memcpy(&v, from, (size_t)bytes); /* little endian */
    if (is_signed && shift > 0)
        v = (uint64_t)((int64_t)(v << shift) >> shift);
    return v;
}

static void store_int(void *to, int bytes, uint64_t v)
{
    memcpy(to, &v, (size_t)bytes);
}

static long double load_float(const void *from, int bytes)
{
    float f;
    double d;
    long double l;

    if (bytes == sizeof f) {
        memcpy(&f, from, sizeof f);
        return (long double)f;
    }
    if (bytes == sizeof d) {
        memcpy(&d, from, sizeof d);
        return (long double)d;
    }
    memcpy(&l, from, sizeof l);
    return l;
}

static void store_float(void *to, int bytes, long double v)
{
    float f = (float)v;
    double d = (double)v;

    if (bytes == sizeof f)
        memcpy(to, &f, sizeof f);
    else if (bytes == sizeof d)
        memcpy(to, &d, sizeof d);
    else
        memcpy(to, &v, sizeof v);
}

static uint64_t apply_int(enum el_op op, uint64_t a, uint64_t b, int is_signed)
{
    int less = is_signed ? (int64_t)a < (int64_t)b : a < b;

    switch (op) {
    case EL_SUM:
        return a + b;
    case EL_PROD:
        return a * b;
    case EL_MAX:
        return less ? b : a;
    case EL_MIN:
        return less ? a : b;
    case EL_BAND:
        return a & b;
    case EL_BOR:
        return a | b;
    case EL_BXOR:
        return a ^ b;
    case EL_LAND:
        return a != 0 && b != 0;
    case EL_LOR:
        return a != 0 || b != 0;
    case EL_LXOR:
        return (a != 0) != (b != 0);
    case EL_REPLACE:
        return b;
    default:
        return a;
    }
}

static long double apply_float(enum el_op op, long double a, long double b)
{
    switch (op) {
    case EL_SUM:
        return a + b;
    case EL_PROD:
        return a * b;
    case EL_MAX:
        return a < b ? b : a;
    case EL_MIN:
        return a < b ? a : b;
    case EL_REPLACE:
        return b;
    default:
        return a;
    }
}

static void apply_complex(enum el_op op, unsigned char *to, const unsigned char *from, int part)
{
    int half = part / 2;
    long double ar = load_float(to, half), ai = load_float(to + half, half);
    long double br = load_float(from, half), bi = load_float(from + half, half);

    if (op == EL_PROD) {
        store_float(to, half, ar * br - ai * bi);
        store_float(to + half, half, ar * bi + ai * br);
        return;
    }
    store_float(to, half, apply_float(op, ar, br));
    store_float(to + half, half, apply_float(op, ai, bi));
}

static void copy_pair(const struct el_type *t, unsigned char *to, const unsigned char *from)
{
    int at = el_index_offset(t);

    memcpy(to, from, (size_t)t->part);
    memcpy(to + at, from + at, (size_t)(t->bytes - at));
}

/* Equal values: the lower index, for MINLOC and MAXLOC alike. */
static int pair_wins(const struct el_type *t, enum el_op op, const unsigned char *a,
                     const unsigned char *b)
{
    int at = el_index_offset(t), less, more;

    if (t->kind == EL_PAIR_SIGNED) {
        int64_t x = (int64_t)load_int(a, t->part, 1), y = (int64_t)load_int(b, t->part, 1);
        less = y < x;
        more = y > x;
    } else {
        long double x = load_float(a, t->part), y = load_float(b, t->part);
        less = y < x;
        more = y > x;
    }
    if (less || more)
        return op == EL_MINLOC ? less : more;
    if (t->kind == EL_PAIR_OF_FLOATS)
        return load_float(b + at, t->part) < load_float(a + at, t->part);
    return (int32_t)load_int(b + at, 4, 1) < (int32_t)load_int(a + at, 4, 1);
}

void el_apply(const struct el_type *t, enum el_op op, void *to, const void *from)
{
    int is_signed = t->kind == EL_SIGNED;

    if (op == EL_NO_OP)
        return;
    if (el_is_pair(t)) {
        if (op == EL_REPLACE || pair_wins(t, op, to, from))
            copy_pair(t, to, from);
    } else if (op == EL_REPLACE) {
        memcpy(to, from, (size_t)t->part);
    } else if (t->kind == EL_COMPLEX) {
        apply_complex(op, to, from, t->part);
    } else if (t->kind == EL_FLOAT) {
        store_float(to, t->part, apply_float(op, load_float(to, t->part),
                                             load_float(from, t->part)));
    } else {
        store_int(to, t->part, apply_int(op, load_int(to, t->part, is_signed),
                                         load_int(from, t->part, is_signed), is_signed));
    }
}

/*
 * All bits where the operation cannot overflow, two bits less for a sum, few for a product.
 * Unsigned values that look negative, and negative addresses, are el_fill_high()'s matter.
 */
static uint64_t integer_value(const struct el_type *t, enum el_op op, uint64_t *state)
{
    uint64_t r = tl_random(state);
    int order = op == EL_MAX || op == EL_MIN;
    int positive = t->kind == EL_UNSIGNED || (order && (t->flags & EL_ADDRESS) != 0);
    int drop = 64 - 8 * t->part + (op == EL_SUM ? 2 : order && positive);

    if (op == EL_PROD)
        return t->kind == EL_UNSIGNED ? r % 8 : (uint64_t)((int64_t)(r % 8) - 3);
    if (op >= EL_LAND && op <= EL_LXOR && (r & 1) != 0)
        return 0;
    return positive ? r >> drop : (uint64_t)((int64_t)r >> drop);
}

static void fill_one(const struct el_type *t, enum el_op op, unsigned char *to, uint64_t *state)
{
    uint64_t r = tl_random(state);
    int small = (int)(r >> 32 & 7) - 3;
    int half = t->part / 2;

    switch (t->kind) {
    case EL_SIGNED:
    case EL_UNSIGNED:
        store_int(to, t->part, integer_value(t, op, state));
        break;
    case EL_BYTE:
    case EL_TEXT:
        store_int(to, t->part, t->part == 1 ? r >> 8 : (r >> 8 & 0xffff));
        break;
    case EL_LOGICAL:
        store_int(to, t->part, r >> 9 & 1);
        break;
    case EL_FLOAT:
        store_float(to, t->part, (long double)small);
        break;
    case EL_COMPLEX:
        store_float(to, half, (long double)small);
        store_float(to + half, half, (long double)((int)(r >> 40 & 7) - 4));
        break;
    case EL_PAIR_SIGNED:
        store_int(to, t->part, (uint64_t)(int64_t)small);
        store_int(to + el_index_offset(t), 4, r >> 16 & 0xff);
        break;
    case EL_PAIR_FLOAT:
        store_float(to, t->part, (long double)small);
        store_int(to + el_index_offset(t), 4, r >> 16 & 0xff);
        break;
    case EL_PAIR_OF_FLOATS:
        store_float(to, t->part, (long double)small);
        store_float(to + t->part, t->part, (long double)(r >> 16 & 0xff));
        break;
    }
}

void el_fill(const struct el_type *t, enum el_op op, void *to, size_t count, uint64_t seed,
             int pad)
{
    unsigned char *p = to;

    memset(to, pad, count * (size_t)t->extent);
    for (size_t i = 0; i < count; i++)
        fill_one(t, op, p + i * (size_t)t->extent, &seed);
}

void el_fill_high(const struct el_type *t, void *to, size_t count, uint64_t seed)
{
    unsigned char *p = to;

    for (size_t i = 0; i < count; i++)
        store_int(p + i * (size_t)t->extent, t->part, tl_random(&seed) >> (64 - 8 * t->part));
}

static int same_part(int is_float, int part, const unsigned char *a, const unsigned char *b)
{
    if (is_float)
        return load_float(a, part) == load_float(b, part);
    return memcmp(a, b, (size_t)part) == 0;
}

int el_same(const struct el_type *t, const void *a, const void *b)
{
    const unsigned char *x = a, *y = b;
    int half = t->part / 2, at;

    switch (t->kind) {
    case EL_FLOAT:
        return same_part(1, t->part, x, y);
    case EL_COMPLEX:
        return same_part(1, half, x, y) && same_part(1, half, x + half, y + half);
    case EL_PAIR_SIGNED:
    case EL_PAIR_FLOAT:
    case EL_PAIR_OF_FLOATS:
        at = el_index_offset(t);
        return same_part(t->kind != EL_PAIR_SIGNED, t->part, x, y) &&
               same_part(t->kind == EL_PAIR_OF_FLOATS, t->bytes - at, x + at, y + at);
    default:
        return memcmp(x, y, (size_t)t->part) == 0;
    }
}
