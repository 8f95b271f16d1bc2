/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_QUEUE_H
#define LOCO_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <loco/ack.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup queue Queues: first in, first out, for all members
 *
 * A queue passes entries of one size between all threads of all members. Use it to distribute
 * work: each entry is taken exactly once, in the order of the pushes.
 *
 *     loco_queue_create(rt, NULL, "work", loco_everyone(rt), sizeof item, 1000, 0, &queue);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     if (rank == 0) {
 *         status = loco_queue_push(queue, &item);
 *         loco_queue_close(queue);
 *     } else
 *         while ((status = loco_queue_pop(queue, &item)) == LOCO_OK)
 *             work_on(&item);             // ends with LOCO_ERR_CLOSED
 *
 * A queue holds up to `capacity` entries, which are stored round-robin in the memory of its
 * members. A push to a full queue waits. A queue can be closed: later pushes fail, and pops fail
 * once the queue is empty.
 *
 * Work that creates work: if the processes that pop also push, they must not use loco_queue_push
 * or a timed push without limit. As soon as the queue is full and all of them push, each waits for
 * a free place that only the others could make, and all wait for ever. (After 10 s the log warns.)
 * Use loco_queue_try_push, and when the queue is full, do the item yourself. Count the open items
 * in an atomic variable; whoever ends the last one closes the queue:
 *
 *     loco_atomic_var_fetch_add(open, 1, NULL);           // before the push; at first 1, the root
 *     if (loco_queue_try_push(queue, &child) == LOCO_ERR_AGAIN)
 *         work_on(&child);                                // and then end it, as below
 *     ...
 *     loco_atomic_var_fetch_add(open, (uint64_t)-1, &before);     // this item is done
 *     if (before == 1)
 *         loco_queue_close(queue);
 *
 * Cost without waiting: a push takes 2 atomics, then a write and an atomic in flight together (on
 * one node the last atomic is a store). A pop takes 2 atomics and a read, then an atomic without
 * waiting for its result. A waiter that cannot map the memory of its entry waits on its own
 * memory, up to 64 threads of a process at once. Other waiters, and calls that wait for another
 * process's call to end, poll at intervals that grow to half a millisecond.
 *
 * | call                | concurrent | blocks | when it returns LOCO_OK |
 * |---------------------|------------|--------|--------------------------|
 * | _push               | yes        | while it is full | the entry has its place in the order |
 * | _try_push           | yes        | some operations  | the same |
 * | _push_ack           | yes        | while it is full | the same; source reusable when the ack is complete |
 * | _push_timed         | yes        | while it is full, up to the limit | as _push |
 * | _pop_timed          | yes        | while it is empty, up to the limit | as _pop |
 * | _pop                | yes        | while it is empty | the entry is local, and no longer in the queue |
 * | _try_pop            | yes        | some operations  | the same |
 * | _pop_ack            | yes        | while it is empty | the entry is taken; local when the ack is complete |
 * | _wait_any           | yes        | until one has an entry, up to the limit | one had an entry, or a pop would fail |
 * | _close              | yes        | some operations  | no later push succeeds |
 * | _size               | yes        | 2 operations     | the approximate number of entries |
 * | _create, _destroy   | of other names; with nothing | no | |
 *
 * Order: the queue is linearizable. Entries come out in the order of their pushes, and each call
 * takes effect at one instant between its begin and its return. The try calls return
 * LOCO_ERR_AGAIN only if the queue was full, or empty, at some instant during the call. They do
 * not wait for entries or free space, but may wait for calls of other processes that have begun. A
 * push that waits for free space, and a pop that waits for an entry, have their place in the order
 * from the moment they began to wait.
 *
 * Visibility: a process that has popped an entry sees its contents. It sees other data that the
 * pusher wrote only if the pusher fenced it before the push (loco_fence), or if the queue was
 * created with LOCO_QUEUE_FENCE.
 *
 * Errors of all calls except _create and _size:
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_CLOSED | the queue was closed (pop: and is empty) |
 * | LOCO_ERR_PEER_DEAD | rank 0, which stores head and tail, is dead; or the call would have to wait and all other members are dead; or no usable place is left |
 * | LOCO_ERR_RANGE | the target, or its device, has refused an earlier write of this thread, to any object; loco_fence reports this too. A push to a queue with LOCO_QUEUE_FENCE has added nothing then. All other calls have taken effect: the entry is added, or taken and in `entry`, or the queue is closed |
 * | LOCO_ERR_PROTOCOL | a stray write has corrupted the queue's memory; the log says where |
 *
 * Process failures: except for rank 0, a queue survives the death of its members, with these
 * losses. The entries in the memory of a dead member are lost, which is one of `size` in turn.
 * Each pop that a dead member had in progress may take one entry with it. A push that it had in
 * progress may or may not have taken effect. Places where a process died in the middle of a call
 * may be given up, so that the capacity shrinks. Other calls may wait up to half a second for the
 * unfinished work of a dead process, between nodes 8 times LOCO_RDMA_TIMEOUT longer.
 *
 * Source: LOCO paper, section 5.4; the ring in which tickets are drawn by fetch-and-add, and a
 * ticket whose place was skipped is drawn again: Morrison and Afek, "Fast concurrent queues for
 * x86 processors", PPoPP 2013 (LCRQ). In-place writes of entries of any size, sleeping waiters and
 * the handling of process failures are our own: channels/streams/queue.h.
 *
 * \see loco_atomic_var(3), loco_mailbox(3), loco_ringbuffer(3)
 * @{ */
typedef struct loco_queue loco_queue_t;

/** A flag of loco_queue_create: each push first fences the writes of its thread to all peers
 * (LOCO_FENCE_THREAD), so that the process that pops the entry sees them. */
#define LOCO_QUEUE_FENCE 1

/** Create a queue for entries of `entry_bytes` bytes (at least 1) with `capacity` places (at least
 * 1). A place takes its entry and 8 bytes, rounded up to a multiple of 64. All members of `group`
 * call it with the same arguments (`parent` and `name`: loco(3)). The call is local, and the queue
 * is usable once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (also: more
 * than 65535 members, or unknown flags), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no
 * member uses it any more; its entries are lost. NULL is allowed. */
int loco_queue_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, size_t entry_bytes, uint64_t capacity, int flags,
                      loco_queue_t **queue);
void loco_queue_destroy(loco_queue_t *queue);

/** Add the entry of entry_bytes bytes at `entry`; wait while the queue is full. Processes that also
 * pop use loco_queue_try_push: see "Work that creates work" above. */
int loco_queue_push(loco_queue_t *queue, const void *entry);

/** Add the entry if the queue is not full, else return LOCO_ERR_AGAIN. */
int loco_queue_try_push(loco_queue_t *queue, const void *entry);

/** Like loco_queue_push, but the entry belongs to the call until the ack is complete (ack.h). Its
 * place in the order is fixed when the call returns. */
int loco_queue_push_ack(loco_queue_t *queue, const void *entry, loco_ack_t *ack);

/** Like loco_queue_push and loco_queue_pop, but wait for `timeout_ns` nanoseconds at most
 * (LOCO_FOREVER: without limit). After LOCO_ERR_TIMEOUT no entry was added or removed. These calls
 * have no place in the order while they wait: they poll at intervals that grow to half a
 * millisecond, and waiting calls without a limit come first. */
int loco_queue_push_timed(loco_queue_t *queue, const void *entry, int64_t timeout_ns);
int loco_queue_pop_timed(loco_queue_t *queue, void *entry, int64_t timeout_ns);

/** Remove the first entry and copy it to `entry`, which has space for entry_bytes bytes; wait while
 * the queue is empty. */
int loco_queue_pop(loco_queue_t *queue, void *entry);

/** Remove the first entry if there is one, else return LOCO_ERR_AGAIN. */
int loco_queue_try_pop(loco_queue_t *queue, void *entry);

/** Like loco_queue_pop, but `entry` belongs to the call until the ack is complete, and has its
 * contents only then. */
int loco_queue_pop_ack(loco_queue_t *queue, void *entry, loco_ack_t *ack);

/** Close the queue. Pushes that began before, including those that wait for free space, still take
 * effect; later pushes return LOCO_ERR_CLOSED. Pops, including waiting ones, return the remaining
 * entries and then LOCO_ERR_CLOSED. Any member may close the queue, also more than one. */
int loco_queue_close(loco_queue_t *queue);

/** Wait until one of `n` queues (at least 1, of one runtime) has an entry or is closed, or a pop
 * from it would fail; at most `timeout_ns` nanoseconds (LOCO_FOREVER: without limit). `*which`
 * becomes its index. The search begins behind the old `*which` (-1: with the first), so that no
 * queue is always the last. No entry is taken: pop it with loco_queue_try_pop, which may return
 * LOCO_ERR_AGAIN if another thread or process was faster. The call looks at the queues, with 2
 * operations each, at intervals that grow to half a millisecond, and sleeps between.
 *
 *     int which = -1;
 *     while (loco_queue_wait_any(queues, 2, LOCO_FOREVER, &which) == LOCO_OK)
 *         if (loco_queue_try_pop(queues[which], &item) == LOCO_OK)
 *             work_on(&item);
 *
 * LOCO_ERR_ARG: n or `*which` is outside its range. LOCO_ERR_PEER_DEAD: all queues are empty, and
 * all other members of all of them are dead. After an error `*which` is unchanged. */
int loco_queue_wait_any(loco_queue_t *const *queues, int n, int64_t timeout_ns, int *which);

/** The approximate number of entries, from 0 to the capacity, to `*entries`: pushes that have a
 * place minus pops that have theirs. */
int loco_queue_size(loco_queue_t *queue, uint64_t *entries);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
