/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_ACC_WAY_H
#define LOCI_WINDOW_ACC_WAY_H

/* The lock or atomics: for elements that may be atomics of the CPU, at one member of a window that
 * all members have mapped. Few elements are faster by atomics, many with the lock. At no time are
 * both ways in use at one member, and the word LOCI_WINDOW_SINGLES of its control block says which
 * is:
 *
 *   63      32 31     16 15       8 7   2 1  0
 *   done       left      backoff    0     way
 *
 *   way        enum loci_singles: LOCK, ATOMICS, ALWAYS
 *   left       LOCK: accumulates of less than LOCI_WINDOW_LONG elements until it is ATOMICS, unless
 *              a vector comes between
 *   done       LOCK: elements of vectors since the way became LOCK
 *   backoff    how many changes in a row to LOCK were not worth it
 *
 * The word is written under the lock of the member's accumulates alone, by any process. It is 0 at
 * first, which is LOCK, and vectors leave it so; the first single changes it to ATOMICS.
 *
 * LOCK -> ATOMICS. Who has the lock stores it. Whoever has the lock next looks, and takes atomics.
 *
 * ATOMICS -> LOCK, by revoking. Each process has a word of its own, LOCI_WINDOW_INSIDE in its
 * control block:
 *
 *   to use atomics                           to revoke, under the lock
 *     1. inside = rank of the member + 1       1. word = LOCK
 *     2. is the word ATOMICS or ALWAYS?        2. fence of all processes
 *     3. the atomics                           3. wait until no process's `inside` is the member's
 *     4. inside = 0, release                      rank + 1 (acquire), or it is dead
 *
 * If 2 on the left saw ATOMICS, then 1 on the left is seen by 3 on the right: both sides are those
 * of an asymmetric fence (asymmetric.h), so the frequent one pays for none. While a process has not
 * registered for that yet it takes a full fence. There is nothing between 1 and 4 that could block,
 * so the wait is short, unless that process does not run. It is bounded by REVOKE_WAIT, and by one
 * turn of whoever else has the core of this one: after that
 * the word becomes ATOMICS again, nothing was changed under the lock, and the vector is done by
 * atomics. So a process that is stopped, by a debugger say, holds up nobody.
 *
 * ALWAYS. A process of several threads has one word `inside` for all of them; and some systems
 * refuse the fence. Such a process makes the words of all members ALWAYS when it first needs
 * atomics, and goes by its private flag `singles` from then on, with no store. That is for good.
 *
 * When. The costs of a change are weighed against what was lost for want of it. While atomics are
 * the way, each process counts the elements of its vectors (atomic_vectors[], private), and revokes
 * at LOCO_ACC_VECTORS of them, or at 2, 4, ... 64 times as many, by backoff. While the lock is, it
 * takes LOCO_ACC_SINGLES accumulates of few elements in a row. If the lock has not done as many
 * elements of vectors by then as were waited for, the change to it was not worth it, and the next
 * is waited for twice as long. So a program that takes turns of one single and one vector stays
 * with the lock, which is cheaper for both together; one with a hundred singles to a vector comes
 * to stay with atomics.
 *
 * Death. A process that dies with its word `inside` set is at no atomics any more. One that dies
 * under the lock leaves its name there, also when it was about to revoke: LOCO_ERR_PEER_DEAD for
 * who wants the lock next. */

#include "window/window.h"

/* How an accumulate has entered. */
struct loci_acc_way {
    bool atomics;                   /* else alone: with the lock, or as the target's only user */
    bool locked;
    _Atomic uint64_t *inside;       /* to be given back */
};

/* Of n elements that may be atomics, at a member whose control block is mapped. Until
 * loci_acc_way_leave() no other accumulate. Blocks while others have the lock; LOCO_ERR_PEER_DEAD,
 * and nothing was entered. */
int loci_acc_way_enter(struct loco_window *win, int rank, size_t n, struct loci_acc_way *way);
int loci_acc_way_leave(struct loco_window *win, int rank, const struct loci_acc_way *way);

#endif
