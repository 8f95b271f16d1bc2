/* SPDX-License-Identifier: BSD-3-Clause */

/* The slow ways of lock.h: somebody else has it, or somebody sleeps. */

#include "config.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"

/* The kernel looks at the word once more before it lets this thread sleep, so that a lock given
 * back meanwhile is not slept through. What ends a sleep early, a signal say, only ends it. */
void loci_lock_wait(struct loci_lock *lock)
{
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void loci_lock_wake(struct loci_lock *lock)
{
    syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
