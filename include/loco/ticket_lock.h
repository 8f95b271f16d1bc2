/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TICKET_LOCK_H
#define LOCO_TICKET_LOCK_H

#include <loco/fence.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup ticket_lock Ticket locks
 *
 * Mutual exclusion among all threads of all processes of a group. Processes are served in the
 * order of their tickets. Threads of one process queue among themselves first, in order of
 * arrival, and hand the lock to each other up to LOCO_LOCK_HANDOVERS times before it goes to the
 * next process. A waiter waits on memory of its own, which the releaser writes.
 *
 * | call             | concurrent with itself, other threads, other processes | blocks |
 * |------------------|--------------------------------------------------------|--------|
 * | _acquire         | yes                                                    | yes    |
 * | _acquire_timed   | yes                                                    | as long as told |
 * | _try_acquire     | yes                                                    | 2 operations at most |
 * | _release         | yes (by the holder)                                    | its fence, 1 or 2 operations |
 * | _holder          | yes                                                    | some reads |
 * | _create,_destroy | create: of other names; destroy: with nothing          | no     |
 *
 * Cost at the host: free: 1 atomic each for acquire and release. Contended: acquire 2 atomics,
 * hand-over a fence, 2 atomics and 1 write.
 * Order: all that was visible to the releaser when it released, and its own writes of the scope
 * that it gave, are visible to whoever holds the lock next. Writes outside the scope are not
 * ordered. LOCO_ORDER is for data that lie at the lock's host.
 * Source: Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory
 * multiprocessors", 1991 (tickets; waiting on one's own memory), as the LOCO paper's section 5.4
 * has it; word and slots are our own, see channels/locks/ticket_lock.c.
 *
 * Errors of acquire: LOCO_ERR_PEER_DEAD: the holder, or one with an earlier ticket, is dead. The
 * lock stays lost then. A member that dies without a ticket hurts nobody, but a lock whose host
 * is dead is lost, too. LOCO_ERR_STATE: this thread holds it already. LOCO_ERR_RANGE: the host has
 * refused what this thread wrote there before, and nothing was done; loco_fence tells it, too, and
 * then the lock can be had.
 * Errors of release: LOCO_ERR_STATE: this thread does not hold it; LOCO_ERR_ARG: no such scope or
 * peer, and the lock is still held; else those of loco_fence: the
 * lock is released all the same.
 * @{ */
typedef struct loco_ticket_lock loco_ticket_lock_t;

/** Make one lock; its word is in the memory of rank `host`. All members of `group` make it, with
 * the same arguments (`parent` and `name`: loco(3)). Local; usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (no such host, or more than 65535 members),
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any more; NULL is
 * allowed. */
int loco_ticket_lock_create(loco_runtime_t *rt, const char *parent, const char *name,
                            const loco_group_t *group, int host, loco_ticket_lock_t **lock);
void loco_ticket_lock_destroy(loco_ticket_lock_t *lock);

/** Wait for this thread's turn, and hold the lock. */
int loco_ticket_lock_acquire(loco_ticket_lock_t *lock);

/** The same, for `timeout_ns` nanoseconds at most (LOCO_FOREVER: without limit): LOCO_ERR_TIMEOUT,
 * and the lock is not held. The process keeps its place in line until its turn comes: a later call
 * of this process, if there is one before that, goes on waiting there; else the turn is passed
 * over. Among the threads of one process those with a limit have no place in line: those without go
 * first. If the turn comes just as the time is over, the lock is held, and the call returns
 * LOCO_OK. */
int loco_ticket_lock_acquire_timed(loco_ticket_lock_t *lock, int64_t timeout_ns);

/** Take the lock if that needs no wait; LOCO_ERR_AGAIN where it would. */
int loco_ticket_lock_try_acquire(loco_ticket_lock_t *lock);

/** Fence of that scope (to `peer`, a rank of loco_everyone(), or LOCO_ALL_PEERS), then hand the
 * lock on. */
int loco_ticket_lock_release(loco_ticket_lock_t *lock, enum loco_fence_scope scope, int peer);

/** The rank (in the lock's group) that holds it at this moment, to `*rank`; -1 if none does.
 * LOCO_ERR_AGAIN: it changes hands too fast to tell, or somebody is just coming to wait for it.
 * LOCO_ERR_PROTOCOL: the lock's words name nobody. */
int loco_ticket_lock_holder(loco_ticket_lock_t *lock, int *rank);

/** Many locks under one name: one endpoint, hosts striped over the group (lock i at rank
 * i % size). */
typedef struct loco_ticket_array loco_ticket_array_t;

/** Make `count` locks (at least 1); otherwise as loco_ticket_lock_create. */
int loco_ticket_array_create(loco_runtime_t *rt, const char *parent, const char *name,
                             const loco_group_t *group, int count, loco_ticket_array_t **array);
void loco_ticket_array_destroy(loco_ticket_array_t *array);

/** Lock i, from 0 to count-1, which belongs to the array; NULL: there is none. */
loco_ticket_lock_t *loco_ticket_array_at(loco_ticket_array_t *array, int i);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
