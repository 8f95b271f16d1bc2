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
 * A ticket lock gives mutual exclusion among all threads of all processes of a group. It is fair.
 *
 *     loco_ticket_lock_create(rt, NULL, "account", loco_everyone(rt), 0, &lock);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     status = loco_ticket_lock_acquire(lock);
 *     if (status == LOCO_OK) {
 *         change_shared_data();
 *         status = loco_ticket_lock_release(lock, LOCO_FENCE_THREAD, LOCO_ALL_PEERS);
 *     }
 *
 * Processes are served in the order of their tickets. Threads of one process first queue among
 * themselves, in order of arrival. They pass the lock to each other up to LOCO_LOCK_HANDOVERS
 * times before it goes to the next process. A waiter waits on its own memory, which the releaser
 * writes.
 *
 * Cost at the host: without contention, acquire and release take 1 atomic each. Under contention,
 * acquire takes 2 atomics, and a hand-over takes a fence, 2 atomics and 1 write.
 *
 * | call             | concurrent with itself, other threads, other processes | blocks |
 * |------------------|--------------------------------------------------------|--------|
 * | _acquire         | yes                                                    | yes    |
 * | _acquire_timed   | yes                                                    | up to the limit |
 * | _try_acquire     | yes                                                    | 2 operations at most |
 * | _release         | yes (by the holder)                                    | its fence, 1 or 2 operations |
 * | _holder          | yes                                                    | some reads |
 * | _create,_destroy | create: of other names; destroy: with nothing          | no     |
 *
 * Order: the next holder sees everything that was visible to the releaser when it released, and
 * the releaser's own writes in the scope of its release. Writes outside the scope are not ordered.
 * Use LOCO_ORDER if the data are stored at the lock's host.
 * Source: Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory
 * multiprocessors", 1991 (tickets; waiting on the waiter's own memory), as in the LOCO paper,
 * section 5.4; word and slots are our own, see channels/locks/ticket_lock.c.
 *
 * | error of acquire | meaning |
 * |------------------|---------|
 * | LOCO_ERR_PEER_DEAD | the holder, a process with an earlier ticket, or the host is dead. The lock stays lost. A member that dies without a ticket has no effect, unless it is the host |
 * | LOCO_ERR_STATE | this thread already holds the lock |
 * | LOCO_ERR_RANGE | the host has refused an earlier write of this thread, and nothing was done. loco_fence reports this as well, and then the lock can be acquired |
 *
 * | error of release | meaning |
 * |------------------|---------|
 * | LOCO_ERR_STATE | this thread does not hold the lock |
 * | LOCO_ERR_ARG | no such scope or peer; the lock is still held |
 * | others | those of loco_fence; the lock is released nevertheless |
 *
 * \see loco_queue(3), loco_rw_lock(3)
 * @{ */
typedef struct loco_ticket_lock loco_ticket_lock_t;

/** Create one lock; its word is in the memory of rank `host`. All members of `group` call it with
 * the same arguments (`parent` and `name`: loco(3)). The call is local, and the lock is usable
 * once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (no such host, or more
 * than 65535 members), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any
 * more; NULL is allowed. */
int loco_ticket_lock_create(loco_runtime_t *rt, const char *parent, const char *name,
                            const loco_group_t *group, int host, loco_ticket_lock_t **lock);
void loco_ticket_lock_destroy(loco_ticket_lock_t *lock);

/** Wait for this thread's turn, and hold the lock. */
int loco_ticket_lock_acquire(loco_ticket_lock_t *lock);

/** Like loco_ticket_lock_acquire, but wait for `timeout_ns` nanoseconds at most (LOCO_FOREVER:
 * without limit). After LOCO_ERR_TIMEOUT the lock is not held. The process keeps its place in the
 * queue: a later call of this process continues to wait there. If its turn comes before such a
 * call, the turn is skipped. Among the threads of one process, those with a limit have no place in
 * the queue, and those without a limit come first. If the turn comes just when the time is over,
 * the call returns LOCO_OK and the lock is held. */
int loco_ticket_lock_acquire_timed(loco_ticket_lock_t *lock, int64_t timeout_ns);

/** Acquire the lock if that needs no waiting, else return LOCO_ERR_AGAIN. */
int loco_ticket_lock_try_acquire(loco_ticket_lock_t *lock);

/** Execute a fence of that scope (to `peer`, a rank of loco_everyone(), or LOCO_ALL_PEERS), then
 * release the lock. */
int loco_ticket_lock_release(loco_ticket_lock_t *lock, enum loco_fence_scope scope, int peer);

/** The rank (in the lock's group) that holds the lock at this moment, to `*rank`; -1 if none does.
 * LOCO_ERR_AGAIN: the lock changes hands too fast to tell, or a process is just starting to wait
 * for it. LOCO_ERR_PROTOCOL: the lock's words name no process. */
int loco_ticket_lock_holder(loco_ticket_lock_t *lock, int *rank);

/** Many locks under one name: one endpoint, with hosts striped over the group (lock i at rank i %
 * size). */
typedef struct loco_ticket_array loco_ticket_array_t;

/** Create `count` locks (at least 1); see loco_ticket_lock_create. */
int loco_ticket_array_create(loco_runtime_t *rt, const char *parent, const char *name,
                             const loco_group_t *group, int count, loco_ticket_array_t **array);
void loco_ticket_array_destroy(loco_ticket_array_t *array);

/** Lock i, from 0 to count-1, which belongs to the array. NULL: there is no such lock. */
loco_ticket_lock_t *loco_ticket_array_at(loco_ticket_array_t *array, int i);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
