/* SPDX-License-Identifier: BSD-3-Clause */

/* Element operations of accumulates: one table, operation by type. The functions are made by
 * macros, one line of the table's type each; elements are loaded and stored by memcpy, since
 * neither side need be aligned. Integers wrap around. */

#include "config.h"

#include "reduce.h"

#include <complex.h>
#include <string.h>

/* The C layouts that MPI gives its pair types. */
#define PAIR(name, value_type, index_type) \
    struct name {                          \
        value_type v;                      \
        index_type i;                      \
    }
PAIR(i16_int, int16_t, int);
PAIR(i32_int, int32_t, int);
PAIR(i64_int, int64_t, int);
PAIR(f32_int, float, int);
PAIR(f64_int, double, int);
PAIR(ld_int, long double, int);
PAIR(f32_f32, float, float);
PAIR(f64_f64, double, double);

/* ---- types ---- */

#define SHIFT(size) ((size) == 1 ? 0 : (size) == 2 ? 1 : (size) == 4 ? 2 : (size) == 8 ? 3 \
                     : (size) == 16 ? 4 : 5)
#define ONE(t, swap) { sizeof(t), sizeof(t), 0, 0, SHIFT(sizeof(t)), true, swap }
#define TWO(t, full)                                                                            \
    { sizeof(struct t), sizeof(((struct t *)0)->v), offsetof(struct t, i),                      \
      sizeof(((struct t *)0)->i), SHIFT(sizeof(struct t)), full, false }

const struct loci_type loci_type_table[LOCO_TYPE_COUNT] = {
    [LOCO_TYPE_I8] = ONE(int8_t, true),
    [LOCO_TYPE_I16] = ONE(int16_t, true),
    [LOCO_TYPE_I32] = ONE(int32_t, true),
    [LOCO_TYPE_I64] = ONE(int64_t, true),
    [LOCO_TYPE_U8] = ONE(uint8_t, true),
    [LOCO_TYPE_U16] = ONE(uint16_t, true),
    [LOCO_TYPE_U32] = ONE(uint32_t, true),
    [LOCO_TYPE_U64] = ONE(uint64_t, true),
    [LOCO_TYPE_F32] = ONE(float, false),
    [LOCO_TYPE_F64] = ONE(double, false),
    [LOCO_TYPE_LONG_DOUBLE] = ONE(long double, false),
    [LOCO_TYPE_C32] = ONE(float complex, false),
    [LOCO_TYPE_C64] = ONE(double complex, false),
    [LOCO_TYPE_C_LONG_DOUBLE] = ONE(long double complex, false),
    [LOCO_TYPE_BYTE] = ONE(unsigned char, true),
    [LOCO_TYPE_BOOL8] = ONE(_Bool, true),
    [LOCO_TYPE_LOGICAL32] = ONE(int32_t, true),
    [LOCO_TYPE_I16_INT] = TWO(i16_int, false),
    [LOCO_TYPE_I32_INT] = TWO(i32_int, true),
    [LOCO_TYPE_I64_INT] = TWO(i64_int, false),
    [LOCO_TYPE_F32_INT] = TWO(f32_int, true),
    [LOCO_TYPE_F64_INT] = TWO(f64_int, false),
    [LOCO_TYPE_LONG_DOUBLE_INT] = TWO(ld_int, false),
    [LOCO_TYPE_F32_F32] = TWO(f32_f32, true),
    [LOCO_TYPE_F64_F64] = TWO(f64_f64, true),
};

size_t loco_type_extent(enum loco_type type)
{
    return (unsigned)type < LOCO_TYPE_COUNT ? loci_type_table[type].extent : 0;
}

void loci_type_copy(const struct loci_type *type, void *to, const void *from, size_t n)
{
    if (type->plain) {
        memcpy(to, from, n * type->extent);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        unsigned char *t = (unsigned char *)to + k * type->extent;
        const unsigned char *f = (const unsigned char *)from + k * type->extent;

        memcpy(t, f, type->value);
        memcpy(t + type->index, f + type->index, type->index_len);
    }
}

/* ---- operations ---- */

/* `a` is the target's element, `b` the operand's; `expression` is the new one. Computed in
 * `work`: an unsigned type for sums and products of integers, which then wrap around. */
#define REDUCE(name, type, work, expression)                              \
    static void name(void *target, const void *operand, size_t n)         \
    {                                                                     \
        unsigned char *t = target;                                        \
        const unsigned char *o = operand;                                 \
                                                                          \
        for (size_t k = 0; k < n; k++) {                                  \
            type x, y;                                                    \
            work a, b;                                                    \
                                                                          \
            memcpy(&x, t + k * sizeof x, sizeof x);                       \
            memcpy(&y, o + k * sizeof y, sizeof y);                       \
            a = (work)x;                                                  \
            b = (work)y;                                                  \
            x = (type)(expression);                                       \
            memcpy(t + k * sizeof x, &x, sizeof x);                       \
        }                                                                 \
    }

#define ARITHMETIC(t, type, work)                    \
    REDUCE(sum_##t, type, work, a + b)               \
    REDUCE(prod_##t, type, work, a * b)
#define ORDERED(t, type)                             \
    REDUCE(max_##t, type, type, a > b ? a : b)       \
    REDUCE(min_##t, type, type, a < b ? a : b)
#define LOGICAL(t, type)                             \
    REDUCE(land_##t, type, type, (a != 0) & (b != 0)) \
    REDUCE(lor_##t, type, type, (a != 0) | (b != 0))  \
    REDUCE(lxor_##t, type, type, (a != 0) ^ (b != 0))
#define BITWISE(t, type)                             \
    REDUCE(band_##t, type, type, a & b)              \
    REDUCE(bor_##t, type, type, a | b)               \
    REDUCE(bxor_##t, type, type, a ^ b)
#define INTEGER(t, type)        \
    ARITHMETIC(t, type, uint64_t) \
    ORDERED(t, type)            \
    LOGICAL(t, type)            \
    BITWISE(t, type)

INTEGER(i8, int8_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(u8, uint8_t)
INTEGER(u16, uint16_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)
ARITHMETIC(f32, float, float)
ORDERED(f32, float)
ARITHMETIC(f64, double, double)
ORDERED(f64, double)
ARITHMETIC(ld, long double, long double)
ORDERED(ld, long double)
ARITHMETIC(c32, float complex, float complex)
ARITHMETIC(c64, double complex, double complex)
ARITHMETIC(cld, long double complex, long double complex)
LOGICAL(bool8, uint8_t)
BITWISE(byte, uint8_t)

/* The extreme value and its index; of equal values the lower index (MPI 3.1, 5.9.4). Members are
 * stored one by one: padding is not ours. */
#define LOCATE(name, pair, better)                                            \
    static void name(void *target, const void *operand, size_t n)             \
    {                                                                         \
        unsigned char *t = target;                                            \
        const unsigned char *o = operand;                                     \
                                                                              \
        for (size_t k = 0; k < n; k++, t += sizeof(struct pair),              \
                                       o += sizeof(struct pair)) {            \
            struct pair a, b;                                                 \
                                                                              \
            memcpy(&a, t, sizeof a);                                          \
            memcpy(&b, o, sizeof b);                                          \
            if (b.v better a.v || (b.v == a.v && b.i < a.i)) {                \
                memcpy(t, &b.v, sizeof b.v);                                  \
                memcpy(t + offsetof(struct pair, i), &b.i, sizeof b.i);       \
            }                                                                 \
        }                                                                     \
    }
#define LOCATIONS(pair)             \
    LOCATE(maxloc_##pair, pair, >)  \
    LOCATE(minloc_##pair, pair, <)

LOCATIONS(i16_int)
LOCATIONS(i32_int)
LOCATIONS(i64_int)
LOCATIONS(f32_int)
LOCATIONS(f64_int)
LOCATIONS(ld_int)
LOCATIONS(f32_f32)
LOCATIONS(f64_f64)

static void keep(void *target, const void *operand, size_t n)
{
    (void)target;
    (void)operand;
    (void)n;
}

_Static_assert(sizeof(long double) == 16 && sizeof(struct ld_int) == 32,
               "extents are powers of two");
#define REPLACE(t, type)                                                      \
    static void replace_##t(void *target, const void *operand, size_t n)      \
    {                                                                         \
        loci_type_copy(&loci_type_table[type], target, operand, n);                     \
    }
REPLACE(1, LOCO_TYPE_BYTE)
REPLACE(2, LOCO_TYPE_I16)
REPLACE(4, LOCO_TYPE_I32)
REPLACE(8, LOCO_TYPE_I64)
REPLACE(16, LOCO_TYPE_C64)
REPLACE(ld, LOCO_TYPE_LONG_DOUBLE)
REPLACE(cld, LOCO_TYPE_C_LONG_DOUBLE)
REPLACE(i16_int, LOCO_TYPE_I16_INT)
REPLACE(i64_int, LOCO_TYPE_I64_INT)
REPLACE(f64_int, LOCO_TYPE_F64_INT)
REPLACE(ld_int, LOCO_TYPE_LONG_DOUBLE_INT)

/* ---- the table ---- */

#define ANY(copy) [LOCO_OP_REPLACE] = replace_##copy, [LOCO_OP_NO_OP] = keep
#define ARITHMETIC_ROW(t) [LOCO_OP_SUM] = sum_##t, [LOCO_OP_PROD] = prod_##t
#define ORDERED_ROW(t) [LOCO_OP_MAX] = max_##t, [LOCO_OP_MIN] = min_##t
#define LOGICAL_ROW(t) \
    [LOCO_OP_LAND] = land_##t, [LOCO_OP_LOR] = lor_##t, [LOCO_OP_LXOR] = lxor_##t
#define BITWISE_ROW(t) \
    [LOCO_OP_BAND] = band_##t, [LOCO_OP_BOR] = bor_##t, [LOCO_OP_BXOR] = bxor_##t
#define INTEGER_ROW(t, copy) \
    { ARITHMETIC_ROW(t), ORDERED_ROW(t), LOGICAL_ROW(t), BITWISE_ROW(t), ANY(copy) }
#define PAIR_ROW(t, copy) \
    { [LOCO_OP_MINLOC] = minloc_##t, [LOCO_OP_MAXLOC] = maxloc_##t, ANY(copy) }

loci_reduce_fn *const loci_reduce_table[LOCO_TYPE_COUNT][LOCO_OP_COUNT] = {
    [LOCO_TYPE_I8] = INTEGER_ROW(i8, 1),
    [LOCO_TYPE_I16] = INTEGER_ROW(i16, 2),
    [LOCO_TYPE_I32] = INTEGER_ROW(i32, 4),
    [LOCO_TYPE_I64] = INTEGER_ROW(i64, 8),
    [LOCO_TYPE_U8] = INTEGER_ROW(u8, 1),
    [LOCO_TYPE_U16] = INTEGER_ROW(u16, 2),
    [LOCO_TYPE_U32] = INTEGER_ROW(u32, 4),
    [LOCO_TYPE_U64] = INTEGER_ROW(u64, 8),
    [LOCO_TYPE_F32] = { ARITHMETIC_ROW(f32), ORDERED_ROW(f32), ANY(4) },
    [LOCO_TYPE_F64] = { ARITHMETIC_ROW(f64), ORDERED_ROW(f64), ANY(8) },
    [LOCO_TYPE_LONG_DOUBLE] = { ARITHMETIC_ROW(ld), ORDERED_ROW(ld), ANY(ld) },
    [LOCO_TYPE_C32] = { ARITHMETIC_ROW(c32), ANY(8) },
    [LOCO_TYPE_C64] = { ARITHMETIC_ROW(c64), ANY(16) },
    [LOCO_TYPE_C_LONG_DOUBLE] = { ARITHMETIC_ROW(cld), ANY(cld) },
    [LOCO_TYPE_BYTE] = { BITWISE_ROW(byte), ANY(1) },
    [LOCO_TYPE_BOOL8] = { LOGICAL_ROW(bool8), ANY(1) },
    [LOCO_TYPE_LOGICAL32] = { LOGICAL_ROW(i32), ANY(4) },
    [LOCO_TYPE_I16_INT] = PAIR_ROW(i16_int, i16_int),
    [LOCO_TYPE_I32_INT] = PAIR_ROW(i32_int, 8),
    [LOCO_TYPE_I64_INT] = PAIR_ROW(i64_int, i64_int),
    [LOCO_TYPE_F32_INT] = PAIR_ROW(f32_int, 8),
    [LOCO_TYPE_F64_INT] = PAIR_ROW(f64_int, f64_int),
    [LOCO_TYPE_LONG_DOUBLE_INT] = PAIR_ROW(ld_int, ld_int),
    [LOCO_TYPE_F32_F32] = PAIR_ROW(f32_f32, 8),
    [LOCO_TYPE_F64_F64] = PAIR_ROW(f64_f64, 16),
};

bool loco_op_allowed(enum loco_op op, enum loco_type type)
{
    return loci_reduce(op, type) != NULL;
}
