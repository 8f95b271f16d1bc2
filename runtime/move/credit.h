/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CREDIT_H
#define LOCI_CREDIT_H

/* How much a process has outstanding at its device, over all its threads (credit.c).
 *
 * A fabric asks before it gives a request to the device (loci_credit_may), says that it does
 * (loci_credit_take) and that the request is retired (loci_credit_give): all under the lock of the
 * lane's thread. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loci_thread;
struct loco_runtime;

#define LOCI_CREDIT_NO_BOUND UINT32_MAX
#define LOCI_CREDIT_NO_BYTES UINT64_MAX

/* A thread's part. Written under its lock; the atomics are read by whoever tunes. */
struct loci_credit {
    uint32_t asked, fresh;              /* requests that count: credit.c */
    uint64_t asked_bytes, fresh_bytes;
    uint32_t held;                      /* all that are not retired */
    _Atomic uint32_t most;              /* asked + fresh, at most, since the last look */
    _Atomic uint64_t taken, given;      /* requests, since ever */
    _Atomic bool busy;                  /* counted in the process's `busy` */
    bool waiting;                       /* the last post found no credit */
    uint64_t seen;                      /* the tuner's: `taken` at its last look */
};

/* The process's part. */
struct loci_credits {
    bool on;                            /* the fabric has a device */
    _Atomic uint32_t share;             /* requests of a thread, */
    _Atomic uint64_t share_bytes;       /* and their bytes */
    _Atomic uint32_t bound;             /* the process's, now */
    uint64_t bytes;                     /* the same in bytes; for good */
    _Atomic int busy;                   /* threads */
    _Atomic int64_t next;               /* when the tuner looks again; runtime's clock */
    _Atomic bool looking;               /* somebody is the tuner: all that follows is its own */
    int64_t epoch;                      /* ns */
    bool tuned;                         /* else the bound is the user's */
    int trial;                          /* candidate that is tried; -1: none is */
    bool settles;                       /* what was outstanding before it still is */
    int left;                           /* looks until the next trial */
    uint64_t done, best_done;           /* retired, at the last look; in the best trial */
    uint32_t best, peak;
};

/* By a fabric that has a device, when it opens: `bytes` is what LOCO_RDMA_OUTSTANDING_BYTES=auto
 * stands for there. */
void loci_credits_open(struct loco_runtime *rt, uint64_t bytes);

/* Whether one more request of `bytes` may be given to the device. */
bool loci_credit_may(struct loci_thread *thread, uint64_t bytes);
/* Whether the next should ask for its completion, since credits run short. */
bool loci_credit_asks(const struct loci_thread *thread);
void loci_credit_take(struct loci_thread *thread, uint64_t bytes, bool asked);
/* With what it was taken with. `taken_back`: the device has refused it. */
void loci_credit_give(struct loci_thread *thread, uint64_t bytes, bool asked, bool taken_back);
/* Whether completions of any lane of the thread make room: its polls take them all. */
bool loci_credit_is_short(const struct loci_thread *thread);

#endif
