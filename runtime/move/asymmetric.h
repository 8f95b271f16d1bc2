/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_ASYMMETRIC_H
#define LOCI_ASYMMETRIC_H

/* A fence between two sides of which one goes often and the other seldom. Each writes a word and
 * then reads the other's, and one of them has to see what the other wrote. With two full fences
 * both pay. Here the frequent side pays nothing at run time: it keeps the compiler from changing
 * the order of its store and its load. The rare side has the kernel interrupt every CPU that runs a
 * process which has registered, with a full fence in the handler; a process that does not run has
 * had one when it was switched out.
 *
 *   frequent: loci_store_light(mine); load theirs       rare: store theirs; loci_fence_heavy();
 *                                                             load mine
 *
 * If the load of the frequent side was before the interrupt, so was its store, and the rare side
 * sees that. If it was after the interrupt, it sees what the rare side stored. A process that has
 * not registered yet fences itself.
 *
 * Linux: membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED. It covers all processes that registered
 * for it, whoever calls, so the rare side needs nobody's help: well under a microsecond for two
 * CPUs. To register takes a grace period of the kernel, about 20 ms, once; a thread of its own
 * waits for that. It is refused by kernels before 4.16 and by some seccomp filters. */

#include "access.h"
#include "runtime.h"

enum loci_asymmetric {
    LOCI_ASYMMETRIC_UNTRIED,
    LOCI_ASYMMETRIC_TRYING,
    LOCI_ASYMMETRIC_READY,      /* this process has registered */
    LOCI_ASYMMETRIC_REFUSED     /* the system has none */
};

/* Whether this process has registered, or can. Begins to where that was not tried; any thread, and
 * it does not block where a thread can be started. */
enum loci_asymmetric loci_asymmetric_state(struct loco_runtime *rt);
/* The runtime closes. */
void loci_asymmetric_close(struct loco_runtime *rt);

/* Make all registered processes fence. False: the system does not, and nothing is promised. */
bool loci_fence_heavy(struct loco_runtime *rt);

/* Of a process that has registered. */
#ifdef LOCO_SIM
/* The simulated CPU has a store buffer for this one: others may see the store late. */
void loci_store_light(_Atomic uint64_t *word, uint64_t value);
static inline void loci_release_light(_Atomic uint64_t *word, uint64_t value)
{
    loci_store_light(word, value);
}
#else
static inline void loci_store_light(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* The same behind all that this thread has stored before. */
static inline void loci_release_light(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}
#endif

/* The frequent side's, with what it needs: until this process has registered, a full fence. */
static inline void loci_store_frequent(struct loco_runtime *rt, _Atomic uint64_t *word,
                                       uint64_t value)
{
    int state = atomic_load_explicit(&rt->asymmetric, memory_order_relaxed);

    if (__builtin_expect(state == LOCI_ASYMMETRIC_READY, true)) {
        loci_store_light(word, value);
        return;
    }
    (void)atomic_exchange_explicit(word, value, memory_order_seq_cst);
    if (!LOCI_ATOMICS_FENCE)
        atomic_thread_fence(memory_order_seq_cst);
}

#endif
