/* SPDX-License-Identifier: BSD-3-Clause */

/* Element operations of accumulates by the CPU's atomics: one table, operation by type, of the
 * lists in reduce_ops.h. Integers are added, and all are combined bit by bit, by an instruction
 * each; what else there is by compare-and-swap, in a loop that has the operation inside. */

#include "config.h"

#include "reduce.h"
#include "reduce_ops.h"

#include <complex.h>
#include <stdatomic.h>
#include <string.h>

/* One loop over n elements, unsigned words `word`; `old` becomes what was there. */
#define LOOP(name, word, update)                                                            \
    static void name(void *target, const void *operand, void *result, size_t n)             \
    {                                                                                       \
        _Atomic word *t = target;                                                           \
        const unsigned char *from = operand;                                                \
        unsigned char *r = result;                                                          \
                                                                                            \
        for (size_t k = 0; k < n; k++) {                                                    \
            word o, old;                                                                    \
                                                                                            \
            memcpy(&o, from + k * sizeof o, sizeof o);                                      \
            update;                                                                         \
            if (r != NULL)                                                                  \
                memcpy(r + k * sizeof old, &old, sizeof old);                               \
        }                                                                                   \
    }

/* ---- one instruction ---- */

#define BY(operation) old = atomic_##operation##_explicit(&t[k], o, memory_order_acq_rel)
#define NATIVE(bits)                                        \
    LOOP(add##bits, uint##bits##_t, BY(fetch_add))          \
    LOOP(and##bits, uint##bits##_t, BY(fetch_and))          \
    LOOP(or##bits, uint##bits##_t, BY(fetch_or))            \
    LOOP(xor##bits, uint##bits##_t, BY(fetch_xor))          \
    LOOP(exchange##bits, uint##bits##_t, BY(exchange))
NATIVE(8)
NATIVE(16)
NATIVE(32)
NATIVE(64)

#define READ(bits)                                                                          \
    static void load##bits(void *target, const void *operand, void *result, size_t n)       \
    {                                                                                       \
        _Atomic uint##bits##_t *t = target;                                                 \
        unsigned char *r = result;                                                          \
                                                                                            \
        (void)operand;                                                                      \
        for (size_t k = 0; r != NULL && k < n; k++) {                                       \
            uint##bits##_t old = atomic_load_explicit(&t[k], memory_order_acquire);         \
                                                                                            \
            memcpy(r + k * sizeof old, &old, sizeof old);                                   \
        }                                                                                   \
    }
READ(8)
READ(16)
READ(32)
READ(64)

/* ---- compare and swap ---- */

/* Swapped in if nobody was faster; nothing is written where nothing changes. */
#define SWAPPED(one, word)                                                                  \
    old = atomic_load_explicit(&t[k], memory_order_acquire);                                \
    for (;;) {                                                                              \
        word new = one(old, o);                                                             \
                                                                                            \
        if (new == old                                                                      \
            || atomic_compare_exchange_weak_explicit(&t[k], &old, new, memory_order_acq_rel, \
                                                     memory_order_acquire))                 \
            break;                                                                          \
    }

/* The word that an element of each type is. */
typedef uint8_t word_i8, word_u8, word_byte, word_bool8;
typedef uint16_t word_i16, word_u16;
typedef uint32_t word_i32, word_u32, word_f32;
typedef uint64_t word_i64, word_u64, word_f64, word_c32, word_i32_int, word_f32_int, word_f32_f32;

#define SWAP(op, name, type, work, expression)                                              \
    static inline word_##name op##_##name##_one(word_##name target, word_##name operand)    \
    {                                                                                       \
        type x, y;                                                                          \
        work a, b;                                                                          \
                                                                                            \
        memcpy(&x, &target, sizeof x);                                                      \
        memcpy(&y, &operand, sizeof y);                                                     \
        a = (work)x;                                                                        \
        b = (work)y;                                                                        \
        x = (type)(expression);                                                             \
        memcpy(&target, &x, sizeof x);                                                      \
        return target;                                                                      \
    }                                                                                       \
    LOOP(op##_##name, word_##name, SWAPPED(op##_##name##_one, word_##name))

#define SWAP_INTEGER(t, type)               \
    LOCI_PROD(SWAP, t, type, uint64_t)      \
    LOCI_ORDERED(SWAP, t, type)             \
    LOCI_LOGICAL(SWAP, t, type)
SWAP_INTEGER(i8, int8_t)
SWAP_INTEGER(i16, int16_t)
SWAP_INTEGER(i32, int32_t)
SWAP_INTEGER(i64, int64_t)
SWAP_INTEGER(u8, uint8_t)
SWAP_INTEGER(u16, uint16_t)
SWAP_INTEGER(u32, uint32_t)
SWAP_INTEGER(u64, uint64_t)
LOCI_REAL(SWAP, f32, float)
LOCI_REAL(SWAP, f64, double)
LOCI_ARITHMETIC(SWAP, c32, float complex, float complex)
LOCI_LOGICAL(SWAP, bool8, uint8_t)

#define LOCATE(op, pair, better)                                                            \
    static inline word_##pair op##_##pair##_one(word_##pair target, word_##pair operand)    \
    {                                                                                       \
        struct pair a, b;                                                                   \
                                                                                            \
        memcpy(&a, &target, sizeof a);                                                      \
        memcpy(&b, &operand, sizeof b);                                                     \
        return LOCI_IS_BETTER(better, a, b) ? operand : target;                             \
    }                                                                                       \
    LOOP(op##_##pair, word_##pair, SWAPPED(op##_##pair##_one, word_##pair))
#define LOCATIONS(pair)         \
    LOCATE(maxloc, pair, >)     \
    LOCATE(minloc, pair, <)
LOCATIONS(i32_int)
LOCATIONS(f32_int)
LOCATIONS(f32_f32)

/* ---- the table ---- */

#define ANY(bits) [LOCO_OP_REPLACE] = exchange##bits, [LOCO_OP_NO_OP] = load##bits
#define BITS(bits) \
    [LOCO_OP_BAND] = and##bits, [LOCO_OP_BOR] = or##bits, [LOCO_OP_BXOR] = xor##bits
#define INTEGER_ROW(t, bits) \
    { [LOCO_OP_SUM] = add##bits, [LOCO_OP_PROD] = prod_##t, LOCI_ORDERED_ROW(LOCI_FUNCTION, t), \
      LOCI_LOGICAL_ROW(LOCI_FUNCTION, t), BITS(bits), ANY(bits) }
#define REAL_ROW(t, bits) \
    { LOCI_ARITHMETIC_ROW(LOCI_FUNCTION, t), LOCI_ORDERED_ROW(LOCI_FUNCTION, t), ANY(bits) }
#define PAIR_ROW(t) { LOCI_LOCATION_ROW(LOCI_FUNCTION, t), ANY(64) }

loci_atomic_fn *const loci_atomic_table[LOCO_TYPE_COUNT][LOCO_OP_COUNT] = {
    [LOCO_TYPE_I8] = INTEGER_ROW(i8, 8),
    [LOCO_TYPE_I16] = INTEGER_ROW(i16, 16),
    [LOCO_TYPE_I32] = INTEGER_ROW(i32, 32),
    [LOCO_TYPE_I64] = INTEGER_ROW(i64, 64),
    [LOCO_TYPE_U8] = INTEGER_ROW(u8, 8),
    [LOCO_TYPE_U16] = INTEGER_ROW(u16, 16),
    [LOCO_TYPE_U32] = INTEGER_ROW(u32, 32),
    [LOCO_TYPE_U64] = INTEGER_ROW(u64, 64),
    [LOCO_TYPE_F32] = REAL_ROW(f32, 32),
    [LOCO_TYPE_F64] = REAL_ROW(f64, 64),
    [LOCO_TYPE_C32] = { LOCI_ARITHMETIC_ROW(LOCI_FUNCTION, c32), ANY(64) },
    [LOCO_TYPE_BYTE] = { BITS(8), ANY(8) },
    [LOCO_TYPE_BOOL8] = { LOCI_LOGICAL_ROW(LOCI_FUNCTION, bool8), ANY(8) },
    [LOCO_TYPE_LOGICAL32] = { LOCI_LOGICAL_ROW(LOCI_FUNCTION, i32), ANY(32) },
    [LOCO_TYPE_I32_INT] = PAIR_ROW(i32_int),
    [LOCO_TYPE_F32_INT] = PAIR_ROW(f32_int),
    [LOCO_TYPE_F32_F32] = PAIR_ROW(f32_f32),
};
