/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates of vectors, each followed by a flush. What is accumulated makes every element change
 * every time. The limit of those element by element is an atomic of the CPU each, of those at once
 * a lock around a loop, and on memory of the program a lock around a read and a write through the
 * kernel.
 */
#include "rows.h"

#include <string.h>

enum { MOST = 128 };

struct pair {
    int value, index;
};

/* Operands that change the target are made anew for each call, and cost the limits as much. */
static void next_sum(struct bench *b, int n)
{
    (void)b;
    (void)n;
}

/* Greater than all before. */
static void next_max(struct bench *b, int n)
{
    double *operand = (double *)(void *)b->local;

    b->old++;
    for (int k = 0; k < n; k++)
        operand[k] = (double)b->old;
}

/* Less than all before, until there is no less. */
static void next_minloc(struct bench *b, int n)
{
    struct pair *operand = (struct pair *)(void *)b->local;

    b->old++;
    for (int k = 0; k < n; k++)
        operand[k] = (struct pair){ -(int)(b->old & 0x7fffffff), k };
}

static void accumulate(struct bench *b, int n, MPI_Datatype type, MPI_Op op)
{
    bench_note(b, MPI_Accumulate(b->local, n, type, b->target, 0, n, type, op, b->win));
    bench_note(b, MPI_Win_flush(b->target, b->win));
}

static void accumulate_null(struct bench *b, int n, MPI_Datatype type, MPI_Op op)
{
    MPI_Accumulate(b->local, n, type, MPI_PROC_NULL, 0, n, type, op, b->win);
}

/* ---- limits ---- */

static uint64_t sum_word(uint64_t target, uint64_t operand)
{
    return target + operand;
}

static uint64_t max_word(uint64_t target, uint64_t operand)
{
    double a, b;

    memcpy(&a, &target, 8);
    memcpy(&b, &operand, 8);
    return a > b ? target : operand;
}

static uint64_t minloc_word(uint64_t target, uint64_t operand)
{
    struct pair a, b;

    memcpy(&a, &target, 8);
    memcpy(&b, &operand, 8);
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? operand : target;
}

typedef uint64_t word_op(uint64_t target, uint64_t operand);

static inline void by_loop(uint64_t *target, const unsigned char *operand, int n, word_op *op)
{
    for (int k = 0; k < n; k++) {
        uint64_t word;

        memcpy(&word, operand + 8 * k, 8);
        target[k] = op(target[k], word);
    }
}

static inline void through_kernel(struct bench *b, int n, word_op *op)
{
    uint64_t copy[MOST];

    raw_lock(&b->raw);
    raw_kernel_read(&b->raw, copy, b->raw.peer_bytes, 8 * (size_t)n);
    by_loop(copy, b->local, n, op);
    raw_kernel_write(&b->raw, copy, b->raw.peer_bytes, 8 * (size_t)n);
    raw_unlock(&b->raw);
}

static inline void by_atomics(struct bench *b, int n, word_op *op)
{
    _Atomic uint64_t *target = (_Atomic uint64_t *)(void *)b->raw.far;

    for (int k = 0; k < n; k++) {
        uint64_t old = atomic_load_explicit(&target[k], memory_order_relaxed), word;

        memcpy(&word, b->local + 8 * k, 8);
        if (op == sum_word)
            atomic_fetch_add_explicit(&target[k], word, memory_order_acq_rel);
        else
            while (!atomic_compare_exchange_weak_explicit(&target[k], &old, op(old, word),
                                                          memory_order_acq_rel,
                                                          memory_order_relaxed))
                ;
    }
}

static inline void at_once(struct bench *b, int n, word_op *op)
{
    raw_lock(&b->raw);
    by_loop((uint64_t *)(void *)b->raw.far, b->local, n, op);
    raw_unlock(&b->raw);
}

/* ---- the rows' operations ---- */

#define OPERATIONS(op, n, type, mpi_op)                                                     \
    void op##_##n(struct bench *b, long count)                                              \
    {                                                                                       \
        for (long i = 0; i < count; i++) {                                                  \
            next_##op(b, n);                                                                \
            accumulate(b, n, type, mpi_op);                                                 \
        }                                                                                   \
    }                                                                                       \
    void op##_null_##n(struct bench *b, long count)                                         \
    {                                                                                       \
        for (long i = 0; i < count; i++)                                                    \
            accumulate_null(b, n, type, mpi_op);                                            \
    }                                                                                       \
    void op##_raw_##n(struct bench *b, long count)                                          \
    {                                                                                       \
        for (long i = 0; i < count; i++) {                                                  \
            next_##op(b, n);                                                                \
            if (b->flavor == CREATE)                                                        \
                through_kernel(b, n, op##_word);                                            \
            else                                                                            \
                by_atomics(b, n, op##_word);                                                \
        }                                                                                   \
    }                                                                                       \
    void op##_bulk_raw_##n(struct bench *b, long count)                                     \
    {                                                                                       \
        for (long i = 0; i < count; i++) {                                                  \
            next_##op(b, n);                                                                \
            if (b->flavor == CREATE)                                                        \
                through_kernel(b, n, op##_word);                                            \
            else                                                                            \
                at_once(b, n, op##_word);                                                   \
            bench_flush_raw(b);                                                             \
        }                                                                                   \
    }
#define OPERATIONS_OF_LENGTH(n)                     \
    OPERATIONS(sum, n, MPI_LONG, MPI_SUM)           \
    OPERATIONS(max, n, MPI_DOUBLE, MPI_MAX)         \
    OPERATIONS(minloc, n, MPI_2INT, MPI_MINLOC)
BENCH_LENGTHS(OPERATIONS_OF_LENGTH)
