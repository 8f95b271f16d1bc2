/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CALLS_H
#define LOCI_CALLS_H

/* The calls that a program makes of its channels, by the channel's name: how many, their bytes,
 * their time, and how much of it they waited. LOCO_STATS prints them, and LOCO_TRACE has an event
 * for each.
 *
 * A channel's endpoint has `calls`, NULL unless somebody observes: that is the one test that a call
 * makes where nobody does. What the library itself calls inside of a call is part of it, and is not
 * counted by itself: each thread has one call at a time (loci_thread.call). Names that are made
 * again are the same; from LOCI_CALLS_NAMES on, all others are one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"

#define LOCI_CALLS_NAMES 1000

enum loci_call_kind {
    LOCI_CALL_READ, LOCI_CALL_WRITE, LOCI_CALL_ATOMIC, LOCI_CALL_LOAD, LOCI_CALL_STORE,
    LOCI_CALL_PUSH, LOCI_CALL_PULL, LOCI_CALL_POP, LOCI_CALL_SEND, LOCI_CALL_RECEIVE,
    LOCI_CALL_WAIT, LOCI_CALL_ACQUIRE, LOCI_CALL_RELEASE, LOCI_CALL_BROADCAST, LOCI_CALL_REDUCE,
    LOCI_CALL_ALLREDUCE, LOCI_CALL_GET, LOCI_CALL_PUT, LOCI_CALL_INSERT, LOCI_CALL_UPDATE,
    LOCI_CALL_DELETE, LOCI_CALL_COMPARE_SET, LOCI_CALL_ADD, LOCI_CALL_SCAN, LOCI_CALL_COMMIT,
    LOCI_CALL_JOIN, LOCI_CALL_LEAVE, LOCI_CALL_KINDS
};

struct loco_runtime;
struct loci_thread;
struct loci_calls;          /* of one channel */

/* The one of a thread that is under way. */
struct loci_call {
    struct loci_calls *of;  /* NULL: there is none, or it is not observed */
    enum loci_call_kind kind;
    size_t bytes;
    int64_t start;
    uint64_t waits, wait_ns;
    bool counted, traced;
};

/* Those of a channel; NULL if nobody observes, or there is no memory. They live as long as the
 * runtime. */
struct loci_calls *loci_calls_of(struct loco_runtime *rt, const char *type, const char *name);
void loci_calls_free(struct loco_runtime *rt);

/* For the two below. */
struct loci_thread *loci_call_observed_begin(struct loci_calls *calls, enum loci_call_kind kind,
                                             size_t bytes);
void loci_call_observed_end(struct loci_thread *self, int status);

/* Returns what its end wants: NULL where the call is not observed. */
static inline struct loci_thread *loci_call_begin(struct loci_calls *calls,
                                                  enum loci_call_kind kind, size_t bytes)
{
    return __builtin_expect(calls == NULL, 1) ? NULL
           : loci_call_observed_begin(calls, kind, bytes);
}

/* Returns the call's status. */
static inline int loci_call_end(struct loci_thread *self, int status)
{
    if (__builtin_expect(self != NULL, 0))
        loci_call_observed_end(self, status);
    return status;
}

/* A wait of this thread is over (wait.c). */
void loci_call_waited(struct loco_runtime *rt, int64_t ns);

/* The table, as text; returns its length, cut to size - 1. */
size_t loci_calls_text(struct loco_runtime *rt, char *buf, size_t size);
/* Bytes that it takes at most. */
size_t loci_calls_room(struct loco_runtime *rt);

#endif
