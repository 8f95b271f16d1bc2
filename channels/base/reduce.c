/* SPDX-License-Identifier: BSD-3-Clause */

/* Element operations of accumulates: one table, operation by type, of the lists in reduce_ops.h.
 * Neither side need be aligned. */

#include "config.h"

#include "reduce.h"
#include "reduce_ops.h"

#include <complex.h>
#include <string.h>

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

/* Loops of a fixed length become vector instructions without further advice; the operand is not
 * memory that an element before it is written to, save where both are the same. */
enum { STRETCH = 8, WIDE_STRETCH = LOCI_REDUCE_WIDE, WIDEST_STRETCH = LOCI_REDUCE_WIDEST };
#ifdef __clang__
#define NO_OVERLAP      /* it looks for overlap itself, and warns of loops that it cannot do so */
#else
#define NO_OVERLAP _Pragma("GCC ivdep")
#endif

/* Compiled for any processor of its kind, and on x86 once more for those with vectors of 32 bytes,
 * which most have, and of 64: that much fewer instructions, and fewer yet where the vectors of a
 * stretch follow each other without a loop, for which compilers have to be asked, as they have for
 * the widest. None of them makes one rounding of two. */
#ifndef __x86_64__
#define IS_WIDE false
#define IS_WIDEST false
#define WIDE
#define WIDEST
#elif defined(__clang__)
#define WIDE __attribute__((target("avx2")))
#define WIDEST __attribute__((target("avx512f,avx512dq"), min_vector_width(512)))
#else
#define WIDE __attribute__((target("avx2"), optimize("O3")))
#define WIDEST                                                                           \
    __attribute__((target("avx512f,avx512dq,prefer-vector-width=512"), optimize("O3")))
#endif

/* AMD's family 19h (Zen 4) does vectors of 64 bytes in halves, which is slower by a tenth. */
#ifdef __x86_64__
#define IS_WIDE __builtin_cpu_supports("avx2")
#define IS_WIDEST (__builtin_cpu_supports("avx512dq") && !__builtin_cpu_is("amdfam19h"))
#endif

#define COMBINE(k, type, work, expression)    \
    do {                                      \
        work a = (work)t[k], b = (work)o[k];  \
                                              \
        t[k] = (type)(expression);            \
    } while (0)

#define LOOP(attributes, stretch, function, type, work, expression)               \
    attributes static void function(void *target, const void *operand, size_t n)  \
    {                                                                             \
        typedef type __attribute__((aligned(1), may_alias)) loose;                \
        loose *t = target;                                                        \
        const loose *o = operand;                                                 \
                                                                                  \
        for (; n >= stretch; n -= stretch, t += stretch, o += stretch) {          \
            NO_OVERLAP                                                            \
            for (int k = 0; k < stretch; k++)                                     \
                COMBINE(k, type, work, expression);                               \
        }                                                                         \
        for (size_t k = 0; k < n; k++)                                            \
            COMBINE(k, type, work, expression);                                   \
    }
#define REDUCE(op, name, type, work, expression)  \
    LOOP(, STRETCH, op##_##name, type, work, expression)
#define REDUCE_WIDE(op, name, type, work, expression)                           \
    LOOP(, STRETCH, op##_##name##_narrow, type, work, expression)               \
    LOOP(WIDE, WIDE_STRETCH, op##_##name##_wide, type, work, expression)        \
    LOOP(WIDEST, WIDEST_STRETCH, op##_##name##_widest, type, work, expression)  \
    static void op##_##name(void *target, const void *operand, size_t n)        \
    {                                                                           \
        if (n >= WIDEST_STRETCH && IS_WIDEST)                                   \
            op##_##name##_widest(target, operand, n);                           \
        else if (n >= WIDE_STRETCH && IS_WIDE)                                  \
            op##_##name##_wide(target, operand, n);                             \
        else                                                                    \
            op##_##name##_narrow(target, operand, n);                           \
    }

#define INTEGER(EACH, t, type)                \
    LOCI_ARITHMETIC(EACH, t, type, uint64_t)  \
    LOCI_ORDERED(EACH, t, type)               \
    LOCI_BITWISE(EACH, t, type)               \
    LOCI_LOGICAL(REDUCE, t, type)
INTEGER(REDUCE, i8, int8_t)
INTEGER(REDUCE, i16, int16_t)
INTEGER(REDUCE_WIDE, i32, int32_t)
INTEGER(REDUCE_WIDE, i64, int64_t)
INTEGER(REDUCE, u8, uint8_t)
INTEGER(REDUCE, u16, uint16_t)
INTEGER(REDUCE_WIDE, u32, uint32_t)
INTEGER(REDUCE_WIDE, u64, uint64_t)
LOCI_REAL(REDUCE_WIDE, f32, float)
LOCI_REAL(REDUCE_WIDE, f64, double)
LOCI_REAL(REDUCE, ld, long double)
LOCI_ARITHMETIC(REDUCE, c32, float complex, float complex)
LOCI_ARITHMETIC(REDUCE, c64, double complex, double complex)
LOCI_ARITHMETIC(REDUCE, cld, long double complex, long double complex)
LOCI_LOGICAL(REDUCE, bool8, uint8_t)
LOCI_BITWISE(REDUCE, byte, uint8_t)

/* Members are stored one by one: padding is not ours. */
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
            if (LOCI_IS_BETTER(better, a, b)) {                               \
                memcpy(t, &b.v, sizeof b.v);                                  \
                memcpy(t + offsetof(struct pair, i), &b.i, sizeof b.i);       \
            }                                                                 \
        }                                                                     \
    }
#define LOCATIONS(pair)             \
    LOCATE(maxloc_##pair, pair, >)  \
    LOCATE(minloc_##pair, pair, <)

LOCATIONS(i16_int)
LOCATIONS(i64_int)
LOCATIONS(f32_int)
LOCATIONS(f64_int)
LOCATIONS(ld_int)
LOCATIONS(f32_f32)
LOCATIONS(f64_f64)

/* A pair of two ints is a word whose order as an integer is that of the pairs, but for where its
 * halves are and which index is the better one: thus a loop without branches, as for integers. */
static inline int64_t in_order(uint64_t pair, uint32_t index_bits)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        pair = pair << 32 | pair >> 32;
    return (int64_t)(pair ^ index_bits);
}
REDUCE_WIDE(minloc, i32_int, uint64_t, uint64_t,
            in_order(b, UINT32_C(1) << 31) < in_order(a, UINT32_C(1) << 31) ? b : a)
REDUCE_WIDE(maxloc, i32_int, uint64_t, uint64_t,
            in_order(b, UINT32_MAX >> 1) > in_order(a, UINT32_MAX >> 1) ? b : a)
_Static_assert(sizeof(struct i32_int) == sizeof(uint64_t), "no padding");

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
#define NUMBER_ROW(F, t) LOCI_ARITHMETIC_ROW(F, t), LOCI_ORDERED_ROW(F, t)
#define INTEGER_ROW(t, copy) \
    { NUMBER_ROW(LOCI_FUNCTION, t), LOCI_BITWISE_ROW(LOCI_FUNCTION, t), \
      LOCI_LOGICAL_ROW(LOCI_FUNCTION, t), ANY(copy) }
#define PAIR_ROW(t, copy) { LOCI_LOCATION_ROW(LOCI_FUNCTION, t), ANY(copy) }

loci_reduce_fn *const loci_reduce_table[LOCO_TYPE_COUNT][LOCO_OP_COUNT] = {
    [LOCO_TYPE_I8] = INTEGER_ROW(i8, 1),
    [LOCO_TYPE_I16] = INTEGER_ROW(i16, 2),
    [LOCO_TYPE_I32] = INTEGER_ROW(i32, 4),
    [LOCO_TYPE_I64] = INTEGER_ROW(i64, 8),
    [LOCO_TYPE_U8] = INTEGER_ROW(u8, 1),
    [LOCO_TYPE_U16] = INTEGER_ROW(u16, 2),
    [LOCO_TYPE_U32] = INTEGER_ROW(u32, 4),
    [LOCO_TYPE_U64] = INTEGER_ROW(u64, 8),
    [LOCO_TYPE_F32] = { NUMBER_ROW(LOCI_FUNCTION, f32), ANY(4) },
    [LOCO_TYPE_F64] = { NUMBER_ROW(LOCI_FUNCTION, f64), ANY(8) },
    [LOCO_TYPE_LONG_DOUBLE] = { NUMBER_ROW(LOCI_FUNCTION, ld), ANY(ld) },
    [LOCO_TYPE_C32] = { LOCI_ARITHMETIC_ROW(LOCI_FUNCTION, c32), ANY(8) },
    [LOCO_TYPE_C64] = { LOCI_ARITHMETIC_ROW(LOCI_FUNCTION, c64), ANY(16) },
    [LOCO_TYPE_C_LONG_DOUBLE] = { LOCI_ARITHMETIC_ROW(LOCI_FUNCTION, cld), ANY(cld) },
    [LOCO_TYPE_BYTE] = { LOCI_BITWISE_ROW(LOCI_FUNCTION, byte), ANY(1) },
    [LOCO_TYPE_BOOL8] = { LOCI_LOGICAL_ROW(LOCI_FUNCTION, bool8), ANY(1) },
    [LOCO_TYPE_LOGICAL32] = { LOCI_LOGICAL_ROW(LOCI_FUNCTION, i32), ANY(4) },
    [LOCO_TYPE_I16_INT] = PAIR_ROW(i16_int, i16_int),
    [LOCO_TYPE_I32_INT] = PAIR_ROW(i32_int, 8),
    [LOCO_TYPE_I64_INT] = PAIR_ROW(i64_int, i64_int),
    [LOCO_TYPE_F32_INT] = PAIR_ROW(f32_int, 8),
    [LOCO_TYPE_F64_INT] = PAIR_ROW(f64_int, f64_int),
    [LOCO_TYPE_LONG_DOUBLE_INT] = PAIR_ROW(ld_int, ld_int),
    [LOCO_TYPE_F32_F32] = PAIR_ROW(f32_f32, 8),
    [LOCO_TYPE_F64_F64] = PAIR_ROW(f64_f64, 16),
};

/* ---- by length ---- */

#define VERSIONS(op, t) { op##_##t##_narrow, op##_##t##_wide, op##_##t##_widest }
#define VECTOR_ROW(t) { NUMBER_ROW(VERSIONS, t), LOCI_BITWISE_ROW(VERSIONS, t) }

static loci_reduce_fn *const in_vectors[LOCO_TYPE_COUNT][LOCO_OP_COUNT][LOCI_REDUCE_LENGTHS] = {
    [LOCO_TYPE_I32] = VECTOR_ROW(i32),
    [LOCO_TYPE_I64] = VECTOR_ROW(i64),
    [LOCO_TYPE_U32] = VECTOR_ROW(u32),
    [LOCO_TYPE_U64] = VECTOR_ROW(u64),
    [LOCO_TYPE_F32] = { NUMBER_ROW(VERSIONS, f32) },
    [LOCO_TYPE_F64] = { NUMBER_ROW(VERSIONS, f64) },
    [LOCO_TYPE_I32_INT] = { LOCI_LOCATION_ROW(VERSIONS, i32_int) },
};

void loci_reduce_open(enum loco_op op, enum loco_type type,
                      loci_reduce_fn *by_length[LOCI_REDUCE_LENGTHS])
{
    loci_reduce_fn *const *versions = in_vectors[type][op];

    by_length[0] = versions[0] != NULL ? versions[0] : loci_reduce_table[type][op];
    by_length[1] = versions[1] != NULL && IS_WIDE ? versions[1] : by_length[0];
    by_length[2] = versions[2] != NULL && IS_WIDEST ? versions[2] : by_length[1];
}

bool loco_op_allowed(enum loco_op op, enum loco_type type)
{
    return loci_reduce(op, type) != NULL;
}
