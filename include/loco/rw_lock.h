/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_RW_LOCK_H
#define LOCO_RW_LOCK_H

#include <loco/fence.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup rw_lock Reader-writer locks
 *
 * A reader-writer lock has many shared holders or one exclusive holder. Use it for data that are
 * read more often than changed.
 *
 *     loco_rw_lock_create(rt, NULL, "table", loco_everyone(rt), 0, &lock);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     status = loco_rw_lock_acquire_shared(lock);
 *     if (status == LOCO_OK) {
 *         read_table();
 *         status = loco_rw_lock_release_shared(lock, LOCO_FENCE_THREAD, LOCO_ALL_PEERS);
 *     }
 *
 * The lock is one word at its host. All processes of the group may use it, with many threads each,
 * and each acquire is a separate holder. It is fair to readers and writers: a waiter that has
 * waited longer than LOCO_LOCK_PATIENCE is served next, in order; before that, later requests may
 * overtake it. While the lock is held shared, a shared request waits behind queued writers for
 * LOCO_LOCK_PASS at most, because the holders may be waiting for it.
 *
 * The lock is not recursive: a thread that acquires it shared twice waits for LOCO_LOCK_PASS if a
 * writer was queued in between. It has at most 32767 shared holders and 65535 waiters at a time.
 * The word counts no further, and this is not checked.
 *
 * Cost without contention: 1 atomic at the host each for acquire and release.
 *
 * | call             | concurrent with itself, other threads, other processes | blocks |
 * |------------------|--------------------------------------------------------|--------|
 * | _acquire_*       | yes                                                    | yes    |
 * | _try_*           | yes                                                    | no     |
 * | _release_*       | yes                                                    | its fence and 1 atomic |
 * | _holder          | yes                                                    | 1 read |
 * | _create,_destroy | create: of other names; destroy: with nothing          | no     |
 *
 * Order: a process that acquires the lock sees what was visible to earlier releasers, and their
 * writes in the scope of their release.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_PEER_DEAD | the holder is dead; or a member is dead and the lock has not changed for half a second, between nodes 8 times LOCO_RDMA_TIMEOUT longer. If the dead member held the lock, it is lost to all |
 * | LOCO_ERR_STATE | released by a process that does not hold it in this mode |
 * | LOCO_ERR_AGAIN | a try call would have to wait |
 *
 * Source: own; the two classes are room synchronisation, with tickets for waiters that have waited
 * longer than LOCO_LOCK_PATIENCE.
 *
 * \see loco_ticket_lock(3), loco_window(3)
 * @{ */
typedef struct loco_rw_lock loco_rw_lock_t;

/** Create a lock whose word is in the memory of rank `host`. All members of `group` call it with
 * the same arguments (`parent` and `name`: loco(3)). The call is local, and the lock is usable
 * once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (no such host),
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any more; NULL is allowed.
 */
int loco_rw_lock_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, int host, loco_rw_lock_t **lock);
void loco_rw_lock_destroy(loco_rw_lock_t *lock);

/** Wait for the lock and acquire it: shared, together with other shared holders; or exclusive. */
int loco_rw_lock_acquire_shared(loco_rw_lock_t *lock);
int loco_rw_lock_acquire_exclusive(loco_rw_lock_t *lock);

/** The same calls, but wait for `timeout_ns` nanoseconds at most (LOCO_FOREVER: without limit).
 * After LOCO_ERR_TIMEOUT nothing is held. A waiter that gives up from the middle of the queue may
 * delay those behind it once by half of LOCO_LOCK_PASS, when its turn comes. */
int loco_rw_lock_acquire_shared_timed(loco_rw_lock_t *lock, int64_t timeout_ns);
int loco_rw_lock_acquire_exclusive_timed(loco_rw_lock_t *lock, int64_t timeout_ns);

/** Acquire the lock if that needs no waiting, else return LOCO_ERR_AGAIN. */
int loco_rw_lock_try_shared(loco_rw_lock_t *lock);
int loco_rw_lock_try_exclusive(loco_rw_lock_t *lock);

/** Execute a fence of that scope (to `peer`, a rank of loco_everyone(), or LOCO_ALL_PEERS), then
 * release the lock. LOCO_ERR_ARG: no such scope or peer; the lock is still held. After any other
 * error of the fence the lock is released nevertheless. Use LOCO_ORDER if the data are stored at
 * the host. */
int loco_rw_lock_release_shared(loco_rw_lock_t *lock, enum loco_fence_scope scope, int peer);
int loco_rw_lock_release_exclusive(loco_rw_lock_t *lock, enum loco_fence_scope scope, int peer);

/** The rank that holds the lock exclusively at this moment, or -1, to `*rank`. This is for
 * messages: it may have changed when the call returns. */
int loco_rw_lock_holder(loco_rw_lock_t *lock, int *rank);

/** A group of locks with two levels. Each of the `count` members can be locked shared (1 atomic) or
 * exclusive (2 atomics), and all of them together shared (1 atomic). Members are striped over the
 * processes.
 *
 * `nested`: this thread already holds another lock of this group. If only queued requests block
 * it, it waits for them for a tenth of LOCO_LOCK_PASS, because they may wait for a lock that it
 * holds. */
typedef struct loco_rw_group loco_rw_group_t;

/** Create a group of `count` locks (at least 1). Member i is in the memory of rank i % size, and
 * the lock of all members in that of rank 0. See loco_rw_lock_create. */
int loco_rw_group_create(loco_runtime_t *rt, const char *parent, const char *name,
                         const loco_group_t *group, int count, loco_rw_group_t **locks);
void loco_rw_group_destroy(loco_rw_group_t *locks);

/** Wait for member `member` and acquire it: shared, or exclusive. LOCO_ERR_ARG: there is no such
 * member. */
int loco_rw_group_acquire_shared(loco_rw_group_t *locks, int member, bool nested);
int loco_rw_group_acquire_exclusive(loco_rw_group_t *locks, int member, bool nested);

/** Acquire all members shared, at the cost of one lock. */
int loco_rw_group_acquire_all(loco_rw_group_t *locks, bool nested);

/** The same three calls with a limit of `timeout_ns` nanoseconds; see
 * loco_rw_lock_acquire_shared_timed. */
int loco_rw_group_acquire_shared_timed(loco_rw_group_t *locks, int member, bool nested,
                                       int64_t timeout_ns);
int loco_rw_group_acquire_exclusive_timed(loco_rw_group_t *locks, int member, bool nested,
                                          int64_t timeout_ns);
int loco_rw_group_acquire_all_timed(loco_rw_group_t *locks, bool nested, int64_t timeout_ns);

/** Execute a fence of that scope, then release what the acquire call of the same ending acquired;
 * see loco_rw_lock_release_shared. Use LOCO_ORDER if the data are stored at the member's host; for
 * release_all: at rank 0. */
int loco_rw_group_release_shared(loco_rw_group_t *locks, int member, enum loco_fence_scope scope,
                                 int peer);
int loco_rw_group_release_exclusive(loco_rw_group_t *locks, int member,
                                    enum loco_fence_scope scope, int peer);
int loco_rw_group_release_all(loco_rw_group_t *locks, enum loco_fence_scope scope, int peer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
