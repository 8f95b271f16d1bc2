/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_COUNTERS_H
#define LOCI_COUNTERS_H

/* What a runtime did to network memory, in numbers: for tests, which compare them with the
 * simulator's, and for who tunes a channel. Nothing of it is compiled but with LOCO_COUNTERS
 * (configure --enable-counters), since the shortest paths are a few instructions long. What every
 * build can count is in stats.h, whose table shows these, too, where they are.
 *
 * Index 0: memory of other processes, 1: this process's own, as far as it goes through rma.h (a
 * store of one's own part to be read by others is no operation). An operation counts once, when it
 * is posted or done at once. */

#include <stdatomic.h>
#include <stdint.h>

#ifdef LOCO_SIM
typedef uint64_t loci_counter;      /* no step of the simulation */
#define LOCI_COUNT_MANY(counter, n) ((void)((counter) += (n)))
#define LOCI_COUNT_IS(counter, n) ((void)((counter) = (n)))
#define LOCI_COUNTED(counter) (counter)
#else
typedef _Atomic uint64_t loci_counter;
#define LOCI_COUNT_MANY(counter, n)                                                               \
    ((void)atomic_fetch_add_explicit(&(counter), (n), memory_order_relaxed))
#define LOCI_COUNT_IS(counter, n)                                                                 \
    atomic_store_explicit(&(counter), (n), memory_order_relaxed)
#define LOCI_COUNTED(counter) atomic_load_explicit(&(counter), memory_order_relaxed)
#endif
#define LOCI_COUNT_ONE(counter) LOCI_COUNT_MANY(counter, 1)

struct loci_counters {
    loci_counter writes[2], reads[2], atomics[2];
    loci_counter places;                /* fences: lanes that were dirty */
    loci_counter messages;              /* of control */
    loci_counter waits;                 /* for operations that were not done at once */
};

/* `what` is writes, reads or atomics. */
#ifdef LOCO_COUNTERS
#define LOCI_COUNT(rt, what, own) LOCI_COUNT_ONE((rt)->counters.what[(own) ? 1 : 0])
#define LOCI_COUNT_SIMPLE(rt, what) LOCI_COUNT_ONE((rt)->counters.what)
#else
#define LOCI_COUNT(rt, what, own) ((void)(rt))
#define LOCI_COUNT_SIMPLE(rt, what) ((void)(rt))
#endif
#define LOCI_COUNT_MEM(rt, what, mem) LOCI_COUNT(rt, what, (mem)->peer == LOCI_SELF)

#endif
