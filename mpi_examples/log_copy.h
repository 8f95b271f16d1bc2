/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's copy of the accounts of replicated_log, and what the entries of the journal do to it.
 */
#ifndef MPI_EXAMPLES_LOG_COPY_H
#define MPI_EXAMPLES_LOG_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/multicast.h>

enum { LOG_START = 100, LOG_MARK = 1000 };

/* What a copy does wrong, once, to see that it is noticed. */
enum log_spoil { LOG_RIGHT, LOG_ORDER, LOG_LOST, LOG_AMOUNT };

/* The rest of a message are bytes that count for the hash alone. */
struct log_entry {
    uint64_t serial;            /* among its sender's, from 0 */
    uint32_t from;
    uint32_t to;
    uint32_t amount;            /* 0: the sender has ended */
    uint32_t unused;
};

/* One rank's. Only the handler writes to it. */
struct log_copy {
    int64_t *balance;           /* LOG_START at first */
    uint64_t *next_serial;      /* of each rank */
    uint64_t hash;              /* of all entries so far, */
    uint64_t mark[2];           /* and at the last multiple of LOG_MARK, and before */
    uint64_t refused;
    uint64_t misplaced;         /* entries that were not the next of their sender */
    enum log_spoil spoil;       /* what is still to be done wrong */
    unsigned char *held;        /* LOG_ORDER: an entry that waits for the next */
    size_t held_bytes;
    int held_sender;
    _Atomic uint64_t applied;   /* entries, with those that say that a sender has ended */
    atomic_int ends;
    atomic_bool died;
};

/* `bytes`: of a message at most. */
void log_copy_open(struct log_copy *c, int64_t accounts, int64_t bytes, enum log_spoil spoil);
void log_copy_close(struct log_copy *c);

/* The handler of the multicast; `arg` is the copy. */
void log_deliver(void *arg, const loco_delivery_t *messages, int n);

#endif
