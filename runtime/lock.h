/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_LOCK_H
#define LOCI_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* A lock between threads of this process, for what every operation on a lane takes twice: in line,
 * an atomic to take it and one to give it back, where a pthread mutex is two calls, of sixty
 * instructions together. Who finds it taken sleeps until it is given back. It knows no owner, is
 * not recursive and not fair. All zero is a lock that is free.
 *
 * Algorithm: U. Drepper, "Futexes Are Tricky", 2011, mutex 2. The word says 0 free, 1 taken, 2
 * taken, and somebody may sleep. Who has slept takes it as 2, for there may be others: a wake too
 * many, and none too few. */
#ifndef LOCO_SIM
struct loci_lock {
    _Atomic uint32_t word;
};

void loci_lock_wait(struct loci_lock *lock);
void loci_lock_wake(struct loci_lock *lock);

/* Acquire: what was done under it before is seen. */
static inline void loci_lock_take(struct loci_lock *lock)
{
    uint32_t nobodys = 0;

    if (!atomic_compare_exchange_strong_explicit(&lock->word, &nobodys, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        loci_lock_wait(lock);
}

/* Release. By the thread that has it. */
static inline void loci_lock_give(struct loci_lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        loci_lock_wake(lock);
}
#else
/* Who has to wait lets other fibers run. */
struct loci_lock {
    pthread_mutex_t mutex;
};

static inline void loci_lock_take(struct loci_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void loci_lock_give(struct loci_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
#endif

#endif
