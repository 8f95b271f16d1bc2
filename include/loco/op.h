/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_OP_H
#define LOCO_OP_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup op Types and operations of elements
 *
 * An operation combines two elements of a type. Accumulates of windows (loco_window(3)), atomics
 * on variables, arrays and regions (loco_atomic_var_fetch_op, loco_region_fetch_op) and reductions
 * use the same types and operations.
 *
 *     double x = 1.5, before;
 *     loco_atomic_var_fetch_op(sum, LOCO_OP_SUM, LOCO_TYPE_F64, &x, &before);
 *
 * | operation                | types |
 * |--------------------------|-------|
 * | LOCO_OP_SUM, _PROD       | integers (which wrap around), floating point, complex |
 * | LOCO_OP_MAX, _MIN        | integers, floating point |
 * | LOCO_OP_BAND, _BOR, _BXOR | integers, LOCO_TYPE_BYTE: bit by bit |
 * | LOCO_OP_LAND, _LOR, _LXOR | integers, logical types: the result is 0 or 1 |
 * | LOCO_OP_MINLOC, _MAXLOC  | pairs of a value and an index: the pair with the lower or higher value; of equal values, the lower index |
 * | LOCO_OP_REPLACE          | all: the result is the operand |
 * | LOCO_OP_NO_OP            | all: the result is the old element |
 *
 * LOCO_OP_MAX and LOCO_OP_MIN of a number and a NaN give the operand.
 *
 * All calls are local, may be made from any thread, and cannot fail.
 * Source: MPI 3.1, sections 5.9.2, 5.9.4 and 11.3.
 *
 * \see loco_atomic_var(3), loco_window(3)
 * @{ */

/** The types, by what the C memory holds. */
enum loco_type {
    LOCO_TYPE_I8, LOCO_TYPE_I16, LOCO_TYPE_I32, LOCO_TYPE_I64,
    LOCO_TYPE_U8, LOCO_TYPE_U16, LOCO_TYPE_U32, LOCO_TYPE_U64,
    LOCO_TYPE_F32, LOCO_TYPE_F64, LOCO_TYPE_LONG_DOUBLE,
    LOCO_TYPE_C32, LOCO_TYPE_C64, LOCO_TYPE_C_LONG_DOUBLE,  /* complex of those parts */
    LOCO_TYPE_BYTE,
    LOCO_TYPE_BOOL8, LOCO_TYPE_LOGICAL32,   /* C _Bool; Fortran LOGICAL of 4 bytes */
    /* value, index: MINLOC and MAXLOC, in the C layout of struct { T v; int i; } */
    LOCO_TYPE_I16_INT, LOCO_TYPE_I32_INT, LOCO_TYPE_I64_INT, LOCO_TYPE_F32_INT,
    LOCO_TYPE_F64_INT, LOCO_TYPE_LONG_DOUBLE_INT,
    LOCO_TYPE_F32_F32, LOCO_TYPE_F64_F64,   /* Fortran's 2REAL, 2DOUBLE PRECISION */
    LOCO_TYPE_COUNT
};

enum loco_op {
    LOCO_OP_SUM, LOCO_OP_PROD, LOCO_OP_MAX, LOCO_OP_MIN,
    LOCO_OP_BAND, LOCO_OP_BOR, LOCO_OP_BXOR, LOCO_OP_LAND, LOCO_OP_LOR, LOCO_OP_LXOR,
    LOCO_OP_MINLOC, LOCO_OP_MAXLOC, LOCO_OP_REPLACE, LOCO_OP_NO_OP,
    LOCO_OP_COUNT
};

/** The number of bytes from one element to the next (the C sizeof; pairs include their padding).
 * 0: there is no such type. */
size_t loco_type_extent(enum loco_type type);

/** Whether the operation is defined on the type. */
bool loco_op_allowed(enum loco_op op, enum loco_type type);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
