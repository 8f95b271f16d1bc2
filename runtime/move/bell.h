/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_BELL_H
#define LOCI_BELL_H

/* Waking those who sleep in loci_wait(): see bell.c. */

#include "asymmetric.h"
#include "move/rma.h"
#include "runtime.h"

void loci_before_signal_slow(struct loco_runtime *rt);
void loci_signal_slow(struct loco_runtime *rt, int peer, enum loci_bell_kind kind);
void loci_signal_watchers_slow(struct loco_runtime *rt, const struct loco_group *group,
                               enum loci_bell_kind kind);

/* Where a peer's bells are mapped here, or NULL. */
static inline struct loci_bells *loci_bells_known(const struct loco_runtime *rt, int peer)
{
    /* Pairs with the release of who has mapped them. */
    return atomic_load_explicit(&rt->peers[peer]->bells, memory_order_acquire);
}

/* The same, mapped now where that has not been done; NULL: it cannot be. */
struct loci_bells *loci_bells_of(struct loco_runtime *rt, int peer);

/* Between such a store and the look at who sleeps: the sleeper's affair, once this process takes
 * part in its fence. */
static inline void loci_before_signal(struct loco_runtime *rt)
{
    if (atomic_load_explicit(&rt->asymmetric, memory_order_relaxed) == LOCI_ASYMMETRIC_READY)
        atomic_signal_fence(memory_order_seq_cst);
    else
        loci_before_signal_slow(rt);
}

/* After a store or an atomic that may end a wait of that peer's process (its index; LOCI_SELF: of
 * another thread), for those who wait with that kind of bell. Costs a load where nobody sleeps; no
 * fence (bell.c). */
static inline void loci_signal(struct loco_runtime *rt, int peer, enum loci_bell_kind kind)
{
    struct loci_bells *bells = loci_bells_known(rt, peer);

    loci_before_signal(rt);
    if (bells == NULL || atomic_load_explicit(&bells->bell[kind].asleep, memory_order_relaxed) != 0)
        loci_signal_slow(rt, peer, kind);
}

/* Store a word that somebody may sleep for, with release order; a signal follows. In simulation
 * others may see it as late as on a CPU with a store buffer. */
static inline void loci_store64_signalled(struct loco_runtime *rt, void *word, uint64_t value)
{
#ifdef LOCO_SIM
    if (atomic_load_explicit(&rt->asymmetric, memory_order_relaxed) == LOCI_ASYMMETRIC_READY) {
        loci_store_light(word, value);
        return;
    }
#endif
    (void)rt;
    loci_store64(word, value);
}

/* loci_write64(), and then the signal to the process whose memory that is. */
static inline int loci_write64_signalled(struct loco_runtime *rt, struct loci_mem *mem,
                                         uint64_t offset, uint64_t value, loco_ack_t *ack,
                                         enum loci_bell_kind kind)
{
    unsigned char *p = loci_mem_ptr(mem);
    int status = LOCO_OK;

    if (p != NULL) {
        LOCI_COUNT_MEM(rt, writes, mem);
        loci_store64_signalled(rt, p + offset, value);
    } else {
        status = loci_post_write64(rt, mem, offset, value, ack);
    }
    loci_signal(rt, mem->peer, kind);
    return status;
}

/* The same for whichever members of `group` wait for a change of words in the memory of `host`,
 * index of a peer: those whose waits say so (struct loci_reason, `watched`). */
static inline void loci_signal_watchers(struct loco_runtime *rt, int host,
                                        const struct loco_group *group, enum loci_bell_kind kind)
{
    struct loci_bells *bells = loci_bells_known(rt, host);

    loci_before_signal(rt);
    if (bells == NULL)
        bells = loci_bells_of(rt, host);
    if (bells == NULL || atomic_load_explicit(&bells->watchers[kind], memory_order_relaxed) != 0)
        loci_signal_watchers_slow(rt, group, kind);
}

/* Wake all sleepers of that peer's process (index of peer) by LOCI_BELL_ANY. LOCO_ERR_PEER_DEAD:
 * they need not. */
int loci_ring(struct loco_runtime *rt, int peer);
/* Its poller (threads/poller.h), for the channel of that number there; 0: as loci_ring. */
int loci_ring_for(struct loco_runtime *rt, int peer, uint32_t number);
/* Those of this one, whatever they sleep for. */
void loci_ring_self(struct loco_runtime *rt);
void loci_ring_bell(struct loco_runtime *rt, struct loci_bell *bell);
/* With the bells of the process that has the poller, and a number that is not 0. */
void loci_ring_poller(struct loco_runtime *rt, struct loci_bells *bells, uint32_t number);

#endif
