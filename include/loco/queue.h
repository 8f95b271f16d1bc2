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
 * Any thread of any member puts entries of one size in and takes them out; all see one order, and
 * each entry is taken once. A queue has `capacity` places, which lie in turn in the memory of its
 * members; who finds all of them taken waits for room. It can be closed: then nothing more comes
 * in, and who takes is told once all is out.
 *
 * | call                | concurrent | blocks | when it returns LOCO_OK |
 * |---------------------|------------|--------|--------------------------|
 * | _push               | yes        | while it is full | the entry is in its place in the order |
 * | _try_push           | yes        | some operations  | the same |
 * | _push_ack           | yes        | while it is full | the same; source reusable when the ack is complete |
 * | _push_timed         | yes        | as long as told, while it is full | as _push |
 * | _pop_timed          | yes        | as long as told, while it is empty | as _pop |
 * | _pop                | yes        | while it is empty | the entry is local, and no longer in the queue |
 * | _try_pop            | yes        | some operations  | the same |
 * | _pop_ack            | yes        | while it is empty | the entry is taken; local when the ack is complete |
 * | _close              | yes        | some operations  | no later push succeeds |
 * | _size               | yes        | 2 operations     | how many there were at about this time |
 * | _create, _destroy   | of other names; with nothing | no | |
 *
 * Order: linearizable. Entries come out in the order of their pushes, and there is one moment
 * within each call at which it takes effect. The try forms say LOCO_ERR_AGAIN only if at a moment
 * within the call the queue was full, or empty. They wait for no entry and for no room, but may
 * wait for calls of others that have begun. A push that waits for room, and a pop that waits for an
 * entry, have their place in the order from the moment they began to wait.
 * Visibility: who has popped an entry sees what is in it. What else the pusher has written he sees
 * if the pusher fenced it before (loco_fence), or if the queue was made with LOCO_QUEUE_FENCE.
 *
 * Cost with no wait: push 2 atomics, then a write and an atomic in flight together (on one node the
 * last one is a store); pop 2 atomics and a read, then an atomic that nobody waits for. A waiter
 * that cannot map the memory where its entry will come waits on memory of its own, up to 64 threads
 * of a process at once; others, and who waits for a call of another to end, look at intervals that
 * grow to half a millisecond.
 *
 * Errors of all but _create, _size: LOCO_ERR_CLOSED: it was closed (pop: and is empty).
 * LOCO_ERR_PEER_DEAD: rank 0, in whose memory head and tail are, is dead; or the call would have to
 * wait and all other members are dead; or no place is left. Else a queue outlives its members, with
 * these losses: the entries in the memory of the dead, which are one of `size` in turn; an entry
 * for each pop that the dead had under way; and its own push that was under way may be in or not.
 * Places where a dead process was in the middle of a call may be given up: the queue holds less
 * then. What a dead process leaves half done others wait for up to half a second,
 * between nodes 8 times LOCO_RDMA_TIMEOUT longer.
 * LOCO_ERR_RANGE: the target, or its device, has refused a write that this thread began before, to
 * whatever object, as a fence would tell (loco_fence). A push into a queue made with
 * LOCO_QUEUE_FENCE has put nothing in then. All other calls have done their work all the same: the
 * entry is in, or taken and in `entry`, or the queue is closed.
 * LOCO_ERR_PROTOCOL: something has written astray into the queue's memory; the log says where.
 * Source: LOCO paper, section 5.4; the ring in which tickets are drawn by fetch-and-add, and a
 * ticket that finds its place passed over is drawn again: Morrison and Afek, "Fast concurrent
 * queues for x86 processors", PPoPP 2013 (LCRQ). That entries of any size are written in place, how
 * waiters sleep and what becomes of the dead is our own: channels/streams/queue.h.
 * @{ */
typedef struct loco_queue loco_queue_t;

/** As flags of loco_queue_create: each push fences the writes of its thread to all peers first
 * (LOCO_FENCE_THREAD), so that who pops sees them. */
#define LOCO_QUEUE_FENCE 1

/** Make a queue for entries of `entry_bytes` bytes (at least 1) with `capacity` places (at least
 * 1). A place takes its entry and 8 bytes, rounded up to a multiple of 64. All members of `group`
 * make it, with the same arguments (`parent` and `name`: loco(3)). Local; usable once the runtime
 * is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (also: more than 65535 members, or
 * flags that are not there), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member uses it
 * any more; entries in it are gone. NULL is allowed. */
int loco_queue_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, size_t entry_bytes, uint64_t capacity, int flags,
                      loco_queue_t **queue);
void loco_queue_destroy(loco_queue_t *queue);

/** Put the entry in, waiting for room. `entry` has entry_bytes bytes. */
int loco_queue_push(loco_queue_t *queue, const void *entry);

/** Put it in if there is room; LOCO_ERR_AGAIN where the queue is full. */
int loco_queue_try_push(loco_queue_t *queue, const void *entry);

/** As loco_queue_push, but the entry belongs to the call until the ack is complete (ack.h). Its
 * place in the order is settled when this returns. */
int loco_queue_push_ack(loco_queue_t *queue, const void *entry, loco_ack_t *ack);

/** As loco_queue_push and loco_queue_pop, waiting for `timeout_ns` nanoseconds at most
 * (LOCO_FOREVER: without limit): LOCO_ERR_TIMEOUT, and nothing was put in or taken out. While they
 * wait they have no place in the order: they look at intervals that grow to half a millisecond, and
 * calls without a limit that wait go first. */
int loco_queue_push_timed(loco_queue_t *queue, const void *entry, int64_t timeout_ns);
int loco_queue_pop_timed(loco_queue_t *queue, void *entry, int64_t timeout_ns);

/** Take the first entry out, waiting for one. `entry` has room for entry_bytes bytes. */
int loco_queue_pop(loco_queue_t *queue, void *entry);

/** Take the first entry out if there is one; LOCO_ERR_AGAIN where the queue is empty. */
int loco_queue_try_pop(loco_queue_t *queue, void *entry);

/** As loco_queue_pop, but `entry` belongs to the call until the ack is complete, and has its
 * contents only then. */
int loco_queue_pop_ack(loco_queue_t *queue, void *entry, loco_ack_t *ack);

/** Let nothing more in. Pushes that began before, those that wait for room included, are still
 * taken; later ones get LOCO_ERR_CLOSED. Pops get what is left, then LOCO_ERR_CLOSED, those that
 * wait already, too. Any member may close, more than one as well. */
int loco_queue_close(loco_queue_t *queue);

/** About how many entries are in the queue: pushes that have a place less pops that have theirs,
 * from 0 to the capacity, to `*entries`. */
int loco_queue_size(loco_queue_t *queue, uint64_t *entries);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
