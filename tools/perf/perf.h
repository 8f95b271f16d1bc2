/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_H
#define PERF_H

#include <stdatomic.h>
#include <stdint.h>

#include <loco/runtime.h>

/* What loco-perf measures: the same rows on two sides, libloco's and the raw operation's, by two
 * processes. Rank 0 works, on memory of rank 1; only in PERF_HAND_OVER both do. */

enum perf_row {
    PERF_PUT,               /* 8 bytes and a flush */
    PERF_GET,               /* the same */
    PERF_FETCH_ADD,
    PERF_COMPARE_SWAP,
    PERF_FENCE,             /* 8 bytes and a fence of the process to everybody */
    PERF_PUT_RATE,          /* 8 bytes, a flush after each PERF_BATCH */
    PERF_PUT_LARGE,         /* PERF_LARGE bytes, a flush after each PERF_STREAM */
    PERF_GET_LARGE,
    PERF_HAND_OVER,         /* of a lock that both want; raw: of a word, from one to the other */
    PERF_ROWS
};

#define PERF_BATCH 64
#define PERF_STREAM 16
#define PERF_LARGE ((uint64_t)64 << 10)

/* How many operations of a row go before its flush. */
static inline uint64_t perf_batch(enum perf_row row)
{
    return row == PERF_PUT_RATE ? PERF_BATCH
           : row == PERF_PUT_LARGE || row == PERF_GET_LARGE ? PERF_STREAM : 1;
}

struct perf_member {
    const struct loco_bootstrap *boot;
    int rank;
    void *shared;           /* PERF_SHARED bytes of memory that both have mapped, zero */
};

#define PERF_SHARED (2 * PERF_LARGE)

struct perf_side {
    /* Both processes, together. 0, or a line on stderr said why not. */
    int (*open)(const struct perf_member *m, void **state);
    /* `n` operations, a multiple of perf_batch(row). 0, or a line was said. */
    int (*run)(void *state, enum perf_row row, uint64_t n);
    void (*close)(void *state);
};

/* Raw sides, in PERF_HAND_OVER: until the word is `mine`. Yields; 0, or a line was said, since the
 * other process has not answered for PERF_PATIENCE. */
int perf_wait_turn(const _Atomic uint64_t *word, uint64_t mine);

#define PERF_PATIENCE 30.0      /* seconds */

extern const struct perf_side perf_libloco, perf_memory, perf_verbs;

#endif
