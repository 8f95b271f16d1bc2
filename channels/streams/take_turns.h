/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TAKE_TURNS_H
#define LOCI_TAKE_TURNS_H

/* Threads of one process that take turns, first come, first served. Who has the turn may wait for
 * others with loci_wait(), which it may not within a mutex: in simulation all threads of all
 * processes are fibers of one. */

#include "wait.h"

struct loci_turns {
    _Atomic uint32_t next, serving;
};

struct loci_taken_turn {
    struct loci_turns *turns;
    uint32_t number;
};

static inline int loci_turns_is_mine(void *arg)
{
    const struct loci_taken_turn *turn = arg;

    /* Acquire: pairs with the release in loci_turns_leave(). */
    return atomic_load_explicit(&turn->turns->serving, memory_order_acquire) == turn->number;
}

/* `what` is told where the wait lasts. */
static inline int loci_turns_enter(struct loco_runtime *rt, struct loci_turns *turns,
                                  const char *what)
{
    const struct loci_reason why = { .what = what, .peer = -1, .timeout_ns = LOCO_FOREVER };
    struct loci_taken_turn turn = { turns, atomic_fetch_add_explicit(&turns->next, 1,
                                                               memory_order_acquire) };

    return loci_turns_is_mine(&turn) ? LOCO_OK : loci_wait(rt, &why, loci_turns_is_mine, &turn);
}

static inline bool loci_turns_try(struct loci_turns *turns)
{
    uint32_t number = atomic_load_explicit(&turns->serving, memory_order_acquire);

    return atomic_compare_exchange_strong_explicit(&turns->next, &number, number + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void loci_turns_leave(struct loci_turns *turns)
{
    uint32_t number = atomic_load_explicit(&turns->serving, memory_order_relaxed);

    atomic_store_explicit(&turns->serving, number + 1, memory_order_release);
}

#endif
