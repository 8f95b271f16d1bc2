/* SPDX-License-Identifier: BSD-3-Clause */

/* Element operations of accumulates: which are defined, and what they compute. */

#include <complex.h>
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/reduce.h"

/* One element: *target op= operand. */
static void apply(enum loco_op op, enum loco_type type, void *target, const void *operand)
{
    loci_reduce_fn *fn = loci_reduce(op, type);

    cr_assert_not_null(fn);
    fn(target, operand, 1);
}

#define EXPECT(op, type, ctype, a, b, want)                                         \
    do {                                                                            \
        ctype t = (ctype)(a), o = (ctype)(b), w = (ctype)(want);                    \
        apply(LOCO_OP_##op, LOCO_TYPE_##type, &t, &o);                              \
        cr_assert(t == w, "%s on %s: wrong result at line %d", #op, #type, __LINE__); \
    } while (0)

#define EXPECT_INTEGER(type, ctype)                     \
    do {                                                \
        EXPECT(SUM, type, ctype, 3, 4, 7);              \
        EXPECT(PROD, type, ctype, 5, 6, 30);            \
        EXPECT(MAX, type, ctype, 3, 9, 9);              \
        EXPECT(MIN, type, ctype, 3, 9, 3);              \
        EXPECT(BAND, type, ctype, 12, 10, 8);           \
        EXPECT(BOR, type, ctype, 12, 10, 14);           \
        EXPECT(BXOR, type, ctype, 12, 10, 6);           \
        EXPECT(LAND, type, ctype, 12, 1, 1);            \
        EXPECT(LAND, type, ctype, 12, 0, 0);            \
        EXPECT(LOR, type, ctype, 0, 10, 1);             \
        EXPECT(LXOR, type, ctype, 12, 10, 0);           \
        EXPECT(LXOR, type, ctype, 12, 0, 1);            \
        EXPECT(REPLACE, type, ctype, 12, 10, 10);       \
        EXPECT(NO_OP, type, ctype, 12, 10, 12);         \
    } while (0)

Test(reduce, integers)
{
    EXPECT_INTEGER(I8, int8_t);
    EXPECT_INTEGER(I16, int16_t);
    EXPECT_INTEGER(I32, int32_t);
    EXPECT_INTEGER(I64, int64_t);
    EXPECT_INTEGER(U8, uint8_t);
    EXPECT_INTEGER(U16, uint16_t);
    EXPECT_INTEGER(U32, uint32_t);
    EXPECT_INTEGER(U64, uint64_t);
}

Test(reduce, integers_keep_their_sign_and_wrap)
{
    EXPECT(MAX, I8, int8_t, -3, 2, 2);
    EXPECT(MAX, U8, uint8_t, 253, 2, 253);
    EXPECT(MIN, I64, int64_t, -3, 2, -3);
    EXPECT(MIN, U64, uint64_t, UINT64_MAX, 2, 2);
    EXPECT(SUM, I32, int32_t, INT32_MAX, 1, INT32_MIN);
    EXPECT(SUM, I64, int64_t, INT64_MAX, 1, INT64_MIN);
    EXPECT(PROD, I16, int16_t, -300, 5, -1500);
    EXPECT(SUM, U16, uint16_t, 65535, 2, 1);
}

Test(reduce, floating_point)
{
    EXPECT(SUM, F32, float, 1.5, 2.25, 3.75);
    EXPECT(PROD, F64, double, 1.5, -2.0, -3.0);
    EXPECT(MAX, F64, double, -1.5, -2.0, -1.5);
    EXPECT(MIN, F32, float, -1.5, -2.0, -2.0);
    EXPECT(SUM, LONG_DOUBLE, long double, 1.5L, 2.25L, 3.75L);
    EXPECT(PROD, LONG_DOUBLE, long double, 1.5L, 2.0L, 3.0L);
    EXPECT(MAX, LONG_DOUBLE, long double, 1.5L, 2.0L, 2.0L);
    EXPECT(REPLACE, LONG_DOUBLE, long double, 1.5L, 2.0L, 2.0L);
}

Test(reduce, complex_numbers)
{
    EXPECT(SUM, C32, float complex, 1 + 2 * I, 3 + 4 * I, 4 + 6 * I);
    EXPECT(PROD, C32, float complex, 1 + 2 * I, 3 + 4 * I, -5 + 10 * I);
    EXPECT(PROD, C64, double complex, 1 + 2 * I, 3 + 4 * I, -5 + 10 * I);
    EXPECT(PROD, C_LONG_DOUBLE, long double complex, 2 * I, 3 * I, -6);
    EXPECT(REPLACE, C64, double complex, 1, 3 + 4 * I, 3 + 4 * I);
}

Test(reduce, logical_and_byte)
{
    EXPECT(LAND, BOOL8, uint8_t, 1, 1, 1);
    EXPECT(LXOR, BOOL8, uint8_t, 1, 1, 0);
    EXPECT(LOR, LOGICAL32, int32_t, 0, -1, 1);
    EXPECT(BXOR, BYTE, uint8_t, 0xf0, 0xff, 0x0f);
}

#define EXPECT_PAIR(op, type, vtype, itype, av, ai, bv, bi, wv, wi)                         \
    do {                                                                                    \
        struct pair {                                                                       \
            vtype v;                                                                        \
            itype i;                                                                        \
        } t, o, image;                                                                      \
        unsigned char *bytes = (unsigned char *)&t, *was = (unsigned char *)&image;         \
        size_t value_end = sizeof t.v, index = offsetof(struct pair, i);                    \
                                                                                            \
        cr_assert_eq(loco_type_extent(LOCO_TYPE_##type), sizeof t);                         \
        memset(&t, 0xa5, sizeof t);                                                         \
        memset(&o, 0x5a, sizeof o);                                                         \
        t.v = (vtype)(av), t.i = (itype)(ai), o.v = (vtype)(bv), o.i = (itype)(bi);         \
        memcpy(&image, &t, sizeof t);                                                       \
        apply(LOCO_OP_##op, LOCO_TYPE_##type, &t, &o);                                      \
        cr_assert(t.v == (vtype)(wv) && t.i == (itype)(wi), "%s on %s", #op, #type);        \
        for (size_t k = 0; k < sizeof t; k++)                                               \
            if ((k >= value_end && k < index) || k >= index + sizeof t.i)                   \
                cr_assert_eq(bytes[k], was[k], "%s on %s wrote padding", #op, #type);       \
    } while (0)

#define EXPECT_PAIRS(type, vtype, itype)                                                \
    do {                                                                                \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, 3, 5, 4, 9, 4, 9);                      \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, 4, 5, 3, 1, 4, 5);                      \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, 4, 5, 4, 1, 4, 1);                      \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, 4, 1, 4, 5, 4, 1);                      \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 3, 5, 4, 9, 3, 5);                      \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 4, 5, 3, 9, 3, 9);                      \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 4, 5, 4, 2, 4, 2);                      \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, -4, 1, 3, 5, 3, 5);                     \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, -4, 1, -3, 5, -3, 5);                   \
        EXPECT_PAIR(MAXLOC, type, vtype, itype, -4, 1, -4, -5, -4, -5);                 \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 4, 1, -3, 5, -3, 5);                    \
        EXPECT_PAIR(MINLOC, type, vtype, itype, -3, 1, -4, 5, -4, 5);                   \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 4, 1, 4, -5, 4, -5);                    \
        EXPECT_PAIR(MINLOC, type, vtype, itype, 4, -6, 4, -5, 4, -6);                   \
        EXPECT_PAIR(REPLACE, type, vtype, itype, 4, 5, 7, 8, 7, 8);                     \
        EXPECT_PAIR(NO_OP, type, vtype, itype, 4, 5, 7, 8, 4, 5);                       \
    } while (0)

Test(reduce, pairs_and_their_padding)
{
    EXPECT_PAIRS(I16_INT, int16_t, int);
    EXPECT_PAIRS(I32_INT, int32_t, int);
    EXPECT_PAIRS(I64_INT, int64_t, int);
    EXPECT_PAIRS(F32_INT, float, int);
    EXPECT_PAIRS(F64_INT, double, int);
    EXPECT_PAIRS(LONG_DOUBLE_INT, long double, int);
    EXPECT_PAIR(MAXLOC, I32_INT, int32_t, int, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MIN,
                INT32_MAX, INT32_MIN);
    EXPECT_PAIR(MAXLOC, I32_INT, int32_t, int, INT32_MIN, 0, INT32_MAX, 7, INT32_MAX, 7);
    EXPECT_PAIR(MINLOC, I32_INT, int32_t, int, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MIN,
                INT32_MIN, INT32_MIN);
    EXPECT_PAIR(MINLOC, I32_INT, int32_t, int, INT32_MAX, 0, INT32_MIN, 7, INT32_MIN, 7);
    EXPECT_PAIRS(F32_F32, float, float);
    EXPECT_PAIRS(F64_F64, double, double);
}

/* MPI 3.1, section 5.9.2: by classes of types. */
Test(reduce, only_what_the_standard_defines)
{
    for (int type = 0; type < LOCO_TYPE_COUNT; type++) {
        bool integer = type <= LOCO_TYPE_U64;
        bool real = type >= LOCO_TYPE_F32 && type <= LOCO_TYPE_LONG_DOUBLE;
        bool cplx = type >= LOCO_TYPE_C32 && type <= LOCO_TYPE_C_LONG_DOUBLE;
        bool logical = type == LOCO_TYPE_BOOL8 || type == LOCO_TYPE_LOGICAL32;
        bool pair = type >= LOCO_TYPE_I16_INT;
        bool want[LOCO_OP_COUNT] = {
            [LOCO_OP_SUM] = integer || real || cplx, [LOCO_OP_PROD] = integer || real || cplx,
            [LOCO_OP_MAX] = integer || real, [LOCO_OP_MIN] = integer || real,
            [LOCO_OP_BAND] = integer || type == LOCO_TYPE_BYTE,
            [LOCO_OP_BOR] = integer || type == LOCO_TYPE_BYTE,
            [LOCO_OP_BXOR] = integer || type == LOCO_TYPE_BYTE,
            [LOCO_OP_LAND] = integer || logical, [LOCO_OP_LOR] = integer || logical,
            [LOCO_OP_LXOR] = integer || logical,
            [LOCO_OP_MINLOC] = pair, [LOCO_OP_MAXLOC] = pair,
            [LOCO_OP_REPLACE] = true, [LOCO_OP_NO_OP] = true,
        };

        for (int op = 0; op < LOCO_OP_COUNT; op++)
            cr_assert_eq(loco_op_allowed((enum loco_op)op, (enum loco_type)type), want[op],
                         "op %d on type %d", op, type);
    }
    cr_assert_not(loco_op_allowed(LOCO_OP_COUNT, LOCO_TYPE_I8));
    cr_assert_not(loco_op_allowed(LOCO_OP_SUM, LOCO_TYPE_COUNT));
    cr_assert_eq(loco_type_extent(LOCO_TYPE_COUNT), 0);
}

/* Vectors, and elements at odd addresses. */
Test(reduce, vectors_need_no_alignment)
{
    unsigned char target[1 + 100 * sizeof(double)], operand[3 + 100 * sizeof(double)];

    for (int i = 0; i < 100; i++) {
        double t = i, o = 2 * i;

        memcpy(target + 1 + (size_t)i * sizeof t, &t, sizeof t);
        memcpy(operand + 3 + (size_t)i * sizeof o, &o, sizeof o);
    }
    loci_reduce(LOCO_OP_SUM, LOCO_TYPE_F64)(target + 1, operand + 3, 100);
    for (int i = 0; i < 100; i++) {
        double t;

        memcpy(&t, target + 1 + (size_t)i * sizeof t, sizeof t);
        cr_assert_eq(t, 3.0 * i);
    }
}

/* ---- many elements, and the same by atomics ---- */

#define MOST 149             /* all widths of vectors, and what is left of each */
#define LONGEST 32      /* bytes of an element */

/* Small numbers of each type, so that no bit pattern is special. */
static void fill(enum loco_type type, unsigned char *to, size_t n, unsigned seed)
{
    const struct loci_type *t = loci_type(type);

    memset(to, 0, n * t->extent);
    for (size_t k = 0; k < n; k++, to += t->extent) {
        int number = (int)((seed + k * 2654435761u) >> 7 & 7);

        switch (type) {
        case LOCO_TYPE_F32: case LOCO_TYPE_C32: case LOCO_TYPE_F32_INT: case LOCO_TYPE_F32_F32:
            memcpy(to, &(float){ (float)number }, sizeof(float));
            break;
        case LOCO_TYPE_F64: case LOCO_TYPE_C64: case LOCO_TYPE_F64_INT: case LOCO_TYPE_F64_F64:
            memcpy(to, &(double){ number }, sizeof(double));
            break;
        case LOCO_TYPE_LONG_DOUBLE: case LOCO_TYPE_C_LONG_DOUBLE: case LOCO_TYPE_LONG_DOUBLE_INT:
            memcpy(to, &(long double){ number }, sizeof(long double));
            break;
        case LOCO_TYPE_BOOL8: *to = (unsigned char)(number & 1); break;
        default: *to = (unsigned char)number;
        }
        if (t->index != 0)
            to[t->index] = 0;
    }
}

/* The target's bytes after n elements, one at a time, from anywhere. */
static void one_by_one(loci_reduce_fn *fn, size_t extent, unsigned char *target,
                       const unsigned char *operand, size_t n)
{
    for (size_t k = 0; k < n; k++)
        fn(target + k * extent, operand + k * extent, 1);
}

static void check_lengths(enum loco_op op, enum loco_type type)
{
    _Alignas(16) unsigned char was[MOST * LONGEST], want[MOST * LONGEST], aligned[MOST * LONGEST];
    unsigned char operand[MOST * LONGEST + 1], loose[MOST * LONGEST + 1], old[MOST * LONGEST];
    loci_reduce_fn *fn = loci_reduce(op, type);
    loci_atomic_fn *atomic = loci_atomic_table[type][op];
    loci_reduce_fn *by_length[LOCI_REDUCE_LENGTHS];
    size_t extent = loci_type(type)->extent;

    loci_reduce_open(op, type, by_length);
    cr_assert_eq(atomic != NULL, loci_type(type)->plain && extent <= 8,
                 "operation %d has an atomic of type %d", op, type);
    for (size_t n = 0; n <= MOST; n++) {
        fill(type, was, MOST, (unsigned)n);
        fill(type, operand + 1, MOST, (unsigned)n * 31 + 1);
        memcpy(want, was, sizeof want);
        one_by_one(fn, extent, want, operand + 1, n);
        memcpy(loose + 1, was, sizeof was);
        fn(loose + 1, operand + 1, n);
        cr_assert_eq(memcmp(loose + 1, want, MOST * extent), 0, "%zu elements", n);
        memcpy(loose + 1, was, sizeof was);
        loci_reduce_for(by_length, n)(loose + 1, operand + 1, n);
        cr_assert_eq(memcmp(loose + 1, want, MOST * extent), 0, "%zu by their number", n);
        if (atomic == NULL)
            continue;
        memcpy(aligned, was, sizeof was);
        atomic(aligned, operand + 1, NULL, n);
        cr_assert_eq(memcmp(aligned, want, MOST * extent), 0, "%zu by atomics", n);
        memcpy(aligned, was, sizeof was);
        memset(old, 0xff, sizeof old);
        atomic(aligned, operand + 1, old, n);
        cr_assert_eq(memcmp(aligned, want, MOST * extent), 0, "%zu fetched", n);
        cr_assert_eq(memcmp(old, was, n * extent), 0, "what was there");
    }
}

Test(reduce, any_length_and_by_atomics)
{
    for (int type = 0; type < LOCO_TYPE_COUNT; type++)
        for (int op = 0; op < LOCO_OP_COUNT; op++)
            if (loci_reduce((enum loco_op)op, (enum loco_type)type) != NULL)
                check_lengths((enum loco_op)op, (enum loco_type)type);
}

/* An origin may be the target itself: each element is combined with itself, once. */
Test(reduce, with_itself)
{
    int64_t both[MOST];

    for (int k = 0; k < MOST; k++)
        both[k] = k;
    loci_reduce(LOCO_OP_SUM, LOCO_TYPE_I64)(both, both, MOST);
    for (int k = 0; k < MOST; k++)
        cr_assert_eq(both[k], 2 * k);
}
