/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MISTAKE_H
#define LOCI_MISTAKE_H

#include "runtime.h"

/* The caller's mistakes, in one form each: the function that recognises one tells the log, at
 * error, and returns the status; its callers pass it on. `call` is the public function, `name` the
 * channel's name as the caller gave it, or NULL. None is reached on the good path. `rt` may be
 * NULL, where there is none yet: the line goes to stderr, unless LOCO_LOG is none. */

/* loco_queue_create(jobs): entry_bytes is 0; allowed is at least 1. LOCO_ERR_ARG. */
__attribute__((format(printf, 6, 7), cold, noinline))
int loci_bad_arg(const struct loco_runtime *rt, const char *call, const char *name,
                 const char *argument, long long value, const char *allowed, ...);

/* loco_queue_create(jobs): group is NULL. LOCO_ERR_ARG. */
__attribute__((cold, noinline))
int loci_null_arg(const struct loco_runtime *rt, const char *call, const char *name,
                  const char *argument);

/* loco_queue_create(jobs): this process is not in the group. Any status; what is wrong in words. */
__attribute__((format(printf, 5, 6), cold, noinline))
int loci_mistake(const struct loco_runtime *rt, int status, const char *call, const char *name,
                 const char *what, ...);

/* ---- checks that many calls make ---- */

/* A group that a channel is made over: it is there, and this process is in it. */
int loci_check_group(const struct loco_runtime *rt, const char *call, const char *name,
                     const struct loco_group *group);

/* A rank of `size` processes. */
static inline int loci_check_rank(const struct loco_runtime *rt, const char *call,
                                  const char *name, const char *argument, int rank, int size)
{
    if (rank >= 0 && rank < size)
        return LOCO_OK;
    return loci_bad_arg(rt, call, name, argument, rank, "0 to %d", size - 1);
}

/* A scope and a peer of loco_everyone(), as releases take them. */
int loci_refuse_scope(const struct loco_runtime *rt, const char *call, const char *name,
                      enum loco_fence_scope scope, int peer);
static inline int loci_check_scope(const struct loco_runtime *rt, const char *call,
                                   const char *name, enum loco_fence_scope scope, int peer)
{
    if ((unsigned)scope <= LOCO_FENCE_PROCESS && peer < rt->everyone->size
        && (peer >= 0 || (peer == LOCO_ALL_PEERS && scope != LOCO_FENCE_PAIR)))
        return LOCO_OK;
    return loci_refuse_scope(rt, call, name, scope, peer);
}

/* Nanoseconds, or LOCO_FOREVER. */
static inline int loci_check_timeout(const struct loco_runtime *rt, const char *call,
                                     const char *name, int64_t timeout_ns)
{
    if (timeout_ns >= 0 || timeout_ns == LOCO_FOREVER)
        return LOCO_OK;
    return loci_bad_arg(rt, call, name, "timeout_ns", timeout_ns, "0 or more, or LOCO_FOREVER");
}

#endif
