/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transactions on rows, without MPI: what workloads (smallbank_workload.c, tatp.c) and those who
 * keep rows for them have in common. A workload has tables of rows, which are numbered from 0, and
 * kinds of transactions over them; a backend keeps the rows and makes the transactions atomic.
 *
 * A transaction is a call whose arguments are drawn before (struct tx_call) and a body, which reads
 * and writes rows. A body may be run many times for one call, so it changes nothing but rows, and
 * what it says of the call it sets anew each time. It returns TX_AGAIN at once where a read or
 * write has, else TX_DONE.
 */
#ifndef MPI_EXAMPLES_TX_WORKLOAD_H
#define MPI_EXAMPLES_TX_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TX_MOST_CLIENTS = 64,   /* of a rank */
    TX_MOST_TABLES = 5,
    TX_MOST_KINDS = 7,
    TX_MOST_BYTES = 40,     /* of a row */
    TX_MOST_DEPTH = 64,     /* calls that a backend takes at once */
    TX_SUMS = 4
};

enum tx_status {
    TX_DONE,
    TX_NO_ROW,
    TX_AGAIN    /* another transaction was in the way */
};

struct tx_options {
    const struct tx_backend *backend;
    int64_t size;           /* accounts, or subscribers */
    int64_t hot;            /* accounts that most transactions use */
    int64_t clients;        /* threads of each rank */
    int64_t ops;            /* calls of each; 0: as many as there is time for */
    double seconds;
    int64_t seed;
    const char *path;       /* where the backend is, if it needs to be told */
    bool json;
    bool progress;
};

struct tx_table {
    const char *name;
    uint64_t rows_each;     /* for each account or subscriber */
    size_t bytes;           /* of a row, at most TX_MOST_BYTES */
};

struct tx_call {
    int kind;
    uint64_t key[2];
    int64_t argument[2];
    /* What the body says. */
    int64_t added[TX_SUMS];
    bool in_vain;           /* declined, or found nothing: that happens */
    bool wrong;             /* a row is not what it must be */
    const struct tx_workload *workload;     /* where rows are loaded or checked */
};

/* A transaction under way. */
struct tx {
    const struct tx_backend *backend;
    void *session;
};

typedef int tx_body_fn(struct tx *tx, struct tx_call *call);

struct tx_kind {
    const char *name;
    int percent;
    bool only_reads;
    tx_body_fn *body;
};

struct tx_workload {
    const char *name;
    const char *text;           /* a line of --help */
    const char *size_name;      /* its option, and what it counts */
    bool has_hot;
    int tables, kinds, sums;
    struct tx_table table[TX_MOST_TABLES];
    struct tx_kind kind[TX_MOST_KINDS];
    const char *sum_name[TX_SUMS];

    /* The row that is there at the beginning; false: there is none. */
    bool (*initial)(int table, uint64_t key, void *row);

    /* Add a row that is there to the sums; false: it is not what it must be. */
    bool (*add)(int table, uint64_t key, const void *row, int64_t sums[TX_SUMS]);

    /* The arguments of a call, whose kind is set. */
    void (*draw)(const struct tx_options *o, uint64_t *random, struct tx_call *call);
};

/* Where rows are kept. Every call ends the program if it fails. */
struct tx_backend {
    const char *name;
    const char *text;
    bool one_process;           /* its clients are threads of one rank */
    bool in_order;              /* load neighbours by one rank, not in turn by all */
    int rows_at_once;           /* that it loads in one transaction; 0: 32 */
    const char *path;           /* what --at is to be, or NULL */
    const char *only;           /* the workload that it is for, or NULL */

    /* Collective: all tables are there, with no rows. */
    void *(*open)(const struct tx_options *o, const struct tx_workload *w);
    void (*close)(void *store);

    /* Optional: transactions of this rank that others have undone so far. */
    int64_t (*undone)(void *store);

    /* A session is of the thread that makes it; a rank has as many as clients, at most. */
    void *(*attach)(void *store);
    void (*detach)(void *session);

    /* Begin, body, commit; again until it has committed. Returns how often it began again. */
    uint64_t (*run)(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call);

    /* Of a body. `to_write`: it will be written, too. A row that is written need not be there; one
     * that is erased is. */
    int (*read)(void *session, int table, uint64_t key, void *row, bool to_write);
    int (*write)(void *session, int table, uint64_t key, const void *row);
    int (*erase)(void *session, int table, uint64_t key);

    /* For those who do better with many calls at once, instead of run, which then serves for
     * loading and checking alone: up to so many. */
    int depth;
    void (*run_many)(void *session, int n, struct tx_call *calls);

    /* CPU seconds of a server, so far; NULL: there is none. Called by rank 0. */
    double (*server_cpu)(void *session);
};

/* What a backend's run does between begin and commit. */
static inline int tx_call_body(struct tx *tx, tx_body_fn *body, struct tx_call *call)
{
    memset(call->added, 0, sizeof(call->added));
    call->in_vain = call->wrong = false;
    return body(tx, call);
}

static inline uint64_t tx_rows(const struct tx_options *o, const struct tx_table *t)
{
    return (uint64_t)o->size * t->rows_each;
}

static inline int tx_read(struct tx *tx, int table, uint64_t key, void *row)
{
    return tx->backend->read(tx->session, table, key, row, false);
}

static inline int tx_read_to_write(struct tx *tx, int table, uint64_t key, void *row)
{
    return tx->backend->read(tx->session, table, key, row, true);
}

static inline int tx_write(struct tx *tx, int table, uint64_t key, const void *row)
{
    return tx->backend->write(tx->session, table, key, row);
}

static inline int tx_erase(struct tx *tx, int table, uint64_t key)
{
    return tx->backend->erase(tx->session, table, key);
}

/* xorshift64*, and its high half times the range, which is below 2^32. */
static inline uint64_t tx_below(uint64_t *random, uint64_t range)
{
    uint64_t x = *random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *random = x;
    x = (x * UINT64_C(0x2545f4914f6cdd1d)) >> 32;
    return (x * range) >> 32;
}

/* Steele, Lea and Flood's mixing function ("Fast splittable pseudorandom number generators",
 * OOPSLA 2014): what rows are there at the beginning. */
static inline uint64_t tx_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
