/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: the lock of a process's pass.
 *
 * Most programs use a multicast by one thread. An atomic would have each of its messages wait until
 * the other cores have given up the lines of the one before. So the first thread that comes is the
 * only one until another does, and takes the lock by two stores:
 *
 *   the only thread   `inside` = 1; look whether it is the only one still; ... ; `inside` = 0
 *   another           `only` = ending; have all threads fence (asymmetric.h); wait for `inside` ==
 *                     0; `only` = many: from then on all take the lock by an exchange
 *
 * Of the two looks one comes after the other's store, so they are never both at it. Nobody becomes
 * the only thread again: the way back would need more than it gains.
 * Who takes a slot without the lock (multicast_send.c) says that it comes, too, for the only thread
 * takes slots by a plain store. */

#include "config.h"

#include "multicast.h"
#include "wait.h"

#ifdef LOCO_SIM
#define LOOKS 1
#else
#define LOOKS 64            /* at a lock that is taken, before who has it is left to it */
#endif

/* ---- the only thread ---- */

static struct loci_thread *only_of(const struct loco_multicast *m)
{
    return atomic_load_explicit(&m->only, memory_order_acquire);
}

/* Or nobody. */
static bool is_one(const struct loci_thread *only)
{
    return only != LOCI_MC_ENDING && only != LOCI_MC_MANY;
}

/* By another, who found `only` to be that thread. Who comes meanwhile waits, too: the only thread
 * may be at it still. */
static void end_only(struct loco_multicast *m, struct loci_thread *only)
{
    unsigned rounds = 0;

    if (is_one(only)
        && atomic_compare_exchange_strong(&m->only, &only, LOCI_MC_ENDING)) {
        loci_mc_make_all_fence(m);
        /* Acquire: pairs with the release in loci_mc_unlock(). */
        while (loci_load64(&m->inside) != 0)
            loci_wait_round(m->rt, &rounds);
        atomic_store_explicit(&m->only, LOCI_MC_MANY, memory_order_release);
    }
    while (only_of(m) != LOCI_MC_MANY)
        loci_wait_round(m->rt, &rounds);
}

static bool become_only(struct loco_multicast *m, struct loci_thread *self)
{
    struct loci_thread *nobody = NULL;

    return self != NULL && atomic_compare_exchange_strong(&m->only, &nobody, self);
}

bool loci_mc_come(struct loco_multicast *m)
{
    struct loci_thread *only = only_of(m), *self;

    if (only == LOCI_MC_MANY)
        return false;
    self = loci_self(m->rt);
    if (only == NULL && become_only(m, self))
        only = self;
    if (only == self && self != NULL)
        return loci_mc_is_light(m);
    end_only(m, only_of(m));
    return false;
}

/* The lock, if this is the only thread. */
static bool enter_only(struct loco_multicast *m)
{
    if (!loci_mc_come(m))
        return false;
    loci_store_light(&m->inside, 1);
    if (!is_one(only_of(m))) {
        loci_release_light(&m->inside, 0);
        return false;
    }
    m->by_only = true;
    return true;
}

/* ---- all others ---- */

static bool exchange(struct loco_multicast *m)
{
    if (atomic_exchange(&m->locked, 1) != 0)
        return false;
    m->by_only = false;
    return true;
}

bool loci_mc_take_if_free(struct loco_multicast *m)
{
    return enter_only(m)
           || (atomic_load_explicit(&m->locked, memory_order_relaxed) == 0 && exchange(m));
}

bool loci_mc_try_lock(struct loco_multicast *m)
{
    if (enter_only(m))
        return true;
    for (int i = 0; i < LOOKS; i++)
        if (atomic_load_explicit(&m->locked, memory_order_relaxed) == 0 && exchange(m))
            return true;
    loci_mc_make_all_fence(m);
    return exchange(m);
}

void loci_mc_lock(struct loco_multicast *m)
{
    unsigned rounds = 0;

    if (enter_only(m))
        return;
    while (!exchange(m))
        loci_wait_round(m->rt, &rounds);
}

void loci_mc_make_all_fence(struct loco_multicast *m)
{
    if (!m->fences || !loci_fence_heavy(m->rt))
        atomic_thread_fence(memory_order_seq_cst);
}

/* A full fence, of which it is the store that who looks for it meets, but in place: there whoever
 * finds the lock taken, or goes to sleep, makes this thread fence between this store, with all that
 * were before it, and its next load. A message then costs no fence; with one, each would wait until
 * the caches of the others have given up the lines of its slot. */
void loci_mc_unlock(struct loco_multicast *m)
{
    if (m->by_only) {
        loci_release_light(&m->inside, 0);
        return;
    }
    if (loci_mc_is_light(m)) {
        loci_mc_store_last(m, &m->locked, 0);
        return;
    }
    atomic_exchange(&m->locked, 0);
    if (!LOCI_ATOMICS_FENCE)
        atomic_thread_fence(memory_order_seq_cst);
}
