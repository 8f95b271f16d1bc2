/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_REDUCE_OPS_H
#define LOCI_REDUCE_OPS_H

/* What each operation makes of `a`, the target's element, and `b`, the operand's, for each type
 * that has it: a list for the files that make functions of it. EACH(operation, name of the type,
 * type, work, expression): computed in `work`, an unsigned type for sums and products of
 * integers, which then wrap around. */

#include <stdint.h>

#define LOCI_PROD(EACH, t, type, work)                  \
    EACH(prod, t, type, work, a * b)
#define LOCI_ARITHMETIC(EACH, t, type, work)            \
    EACH(sum, t, type, work, a + b)                     \
    LOCI_PROD(EACH, t, type, work)
#define LOCI_ORDERED(EACH, t, type)                     \
    EACH(max, t, type, type, a > b ? a : b)             \
    EACH(min, t, type, type, a < b ? a : b)
#define LOCI_LOGICAL(EACH, t, type)                     \
    EACH(land, t, type, type, (a != 0) & (b != 0))      \
    EACH(lor, t, type, type, (a != 0) | (b != 0))       \
    EACH(lxor, t, type, type, (a != 0) ^ (b != 0))
#define LOCI_BITWISE(EACH, t, type)                     \
    EACH(band, t, type, type, a & b)                    \
    EACH(bor, t, type, type, a | b)                     \
    EACH(bxor, t, type, type, a ^ b)
#define LOCI_REAL(EACH, t, type)                        \
    LOCI_ARITHMETIC(EACH, t, type, type)                \
    LOCI_ORDERED(EACH, t, type)

/* The extreme value and its index; of equal values the lower index (MPI 3.1, 5.9.4): whether the
 * pair `b` takes the place of `a`. */
#define LOCI_IS_BETTER(better, a, b) ((b).v better (a).v || ((b).v == (a).v && (b).i < (a).i))

/* The C layouts that MPI gives its pair types. */
#define LOCI_PAIR(name, value_type, index_type) \
    struct name {                               \
        value_type v;                           \
        index_type i;                           \
    }
LOCI_PAIR(i16_int, int16_t, int);
LOCI_PAIR(i32_int, int32_t, int);
LOCI_PAIR(i64_int, int64_t, int);
LOCI_PAIR(f32_int, float, int);
LOCI_PAIR(f64_int, double, int);
LOCI_PAIR(ld_int, long double, int);
LOCI_PAIR(f32_f32, float, float);
LOCI_PAIR(f64_f64, double, double);

/* ---- rows of a table by operation, of what F(operation, t) makes of those names ---- */

#define LOCI_FUNCTION(op, t) op##_##t

#define LOCI_ARITHMETIC_ROW(F, t) [LOCO_OP_SUM] = F(sum, t), [LOCO_OP_PROD] = F(prod, t)
#define LOCI_ORDERED_ROW(F, t) [LOCO_OP_MAX] = F(max, t), [LOCO_OP_MIN] = F(min, t)
#define LOCI_LOGICAL_ROW(F, t) \
    [LOCO_OP_LAND] = F(land, t), [LOCO_OP_LOR] = F(lor, t), [LOCO_OP_LXOR] = F(lxor, t)
#define LOCI_BITWISE_ROW(F, t) \
    [LOCO_OP_BAND] = F(band, t), [LOCO_OP_BOR] = F(bor, t), [LOCO_OP_BXOR] = F(bxor, t)
#define LOCI_LOCATION_ROW(F, t) [LOCO_OP_MINLOC] = F(minloc, t), [LOCO_OP_MAXLOC] = F(maxloc, t)

#endif
