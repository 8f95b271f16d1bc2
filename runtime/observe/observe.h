/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_OBSERVE_H
#define LOCI_OBSERVE_H

/* Whether somebody counts (stats.h) or traces (trace.h), for places that are long anyway. A
 * simulation has its own trace and counters: nothing here is a step of it. */

#include "runtime.h"
#include "stats.h"
#include "trace.h"

enum loci_observe { LOCI_OBSERVE_STATS = 1, LOCI_OBSERVE_TRACE = 2 };

#ifdef LOCO_SIM
static inline unsigned loci_observed(const struct loco_runtime *rt)
{
    (void)rt;
    return 0;
}
#else
static inline unsigned loci_observed(const struct loco_runtime *rt)
{
    return atomic_load_explicit(&rt->observed, memory_order_relaxed);
}
#endif

/* Add to one of the runtime's own numbers if they are wanted. */
static inline void loci_stat(struct loco_runtime *rt, int which, uint64_t n)
{
    if ((loci_observed(rt) & LOCI_OBSERVE_STATS) != 0)
        loci_stats_add(rt->stats, which, n);
}

/* stats.c: begin or end to count; any thread. */
void loci_observe_stats(struct loco_runtime *rt, bool on);

#endif
