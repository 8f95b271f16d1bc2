/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_H
#define PERF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/runtime.h>

/* What loco-perf measures, by two processes: rank 0 works, on memory of rank 1. Either the same
 * rows on two sides, libloco's and the raw operation's (rows.c), or one operation of libloco by
 * size (sweep.c), also between two machines (wire.c). */

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

/* What sizes are swept of. */
enum perf_op { PERF_OP_PUT, PERF_OP_GET, PERF_OP_FETCH_ADD, PERF_OP_COMPARE_SWAP, PERF_OPS };

#define PERF_ROUNDS_MAX 99
#define PERF_SIZE_MAX ((uint64_t)1 << 30)
#define PERF_OUTSTANDING_MAX 256        /* what a thread has slots for */

struct perf_options {
    double seconds, gate;
    int rounds;
    bool wanted[PERF_ROWS], rows_given, json;
    int op;                     /* enum perf_op; PERF_OPS: rows are measured */
    uint64_t least, most;       /* bytes; powers of two between them */
    int outstanding;
    bool listen;
    const char *host, *port;    /* host NULL: this machine alone */
    void *shared;
};

struct perf_row_name {
    const char *name, *what;
};
extern const struct perf_row_name perf_rows[PERF_ROWS];
extern const char *const perf_op_names[PERF_OPS];

/* Seconds. */
double perf_now(void);
/* qsort's, of doubles. */
int perf_by_size(const void *a, const void *b);
bool perf_over_device(void);

/* What a process does; `arg` is a struct perf_options, of which rank 0's count. The exit status of
 * it. */
int perf_rows_member(const struct loco_bootstrap *boot, void *arg);
int perf_sweep_member(const struct loco_bootstrap *boot, void *arg);

/* The same between two machines: listen for the other one, or call it. */
int perf_wire_run(const struct perf_options *o);

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
