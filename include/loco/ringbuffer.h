/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_RINGBUFFER_H
#define LOCO_RINGBUFFER_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup ringbuffer Ring buffers: one writer, many readers
 *
 * A ring buffer carries messages of any size from one process of a group to all others. Every
 * reader receives all messages, whole and in the order in which they were sent. Use it to
 * broadcast a stream.
 *
 *     loco_ringbuffer_create(rt, NULL, "news", loco_everyone(rt), 0, 65536, LOCO_RINGBUFFER_SLEEP,
 *                            &rb);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     if (rank == 0)
 *         status = loco_ringbuffer_send(rb, "hello", 5, NULL);
 *     else
 *         status = loco_ringbuffer_receive(rb, LOCO_FOREVER, buffer, sizeof buffer, &bytes);
 *
 * Readers can also read messages in place, without a copy, and then release them. The writer
 * reuses the space of a message when all live readers have released it. It waits for them when the
 * buffer is full; no message is dropped.
 *
 * Cost: a send is 1 write to each reader. On a network without shared memory, each send also asks
 * whether readers sleep, which takes one round trip to all of them together, unless the ring is
 * created with LOCO_RINGBUFFER_AWAKE. _send_many asks once for all messages that fit into the free
 * space.
 *
 * | call                 | by whom | concurrent                 | blocks | when it returns LOCO_OK |
 * |----------------------|---------|----------------------------|--------|--------------------------|
 * | _send, _send_many    | writer  | yes, in turn | until there is free space | on its way: it arrives without the writer |
 * | _try_send            | writer  | yes                        | no (may wake a reader) | the same |
 * | _acknowledged        | writer  | yes                        | no     | all live readers have released it |
 * | _wait_acknowledged   | writer  | yes                        | until then | the same |
 * | _receive             | readers | yes: each message goes to one thread | up to the limit | the message belongs to the caller |
 * | _peek, _peek_many    | readers | with no reader call except _wait_any | no | the messages stay in place until they are released |
 * | _next                | readers | the same                   | up to the limit | the same |
 * | _wait_any            | readers | yes                        | up to the limit | one of them has a message, or ends |
 * | _release             | readers | as _peek                   | no     | the writer may reuse the space |
 * | _create, _destroy    | all     | of other names; with nothing | no   | |
 *
 * Order: a reader sees messages in the order of the calls that sent them. A message orders nothing
 * else: to announce data that were written elsewhere, fence, then send. If the writer knows that a
 * message is acknowledged, everything that the reader did before it released the message has
 * happened, as long as the reader fenced its own writes before.
 *
 * Sleeping: a reader's thread that finds no message polls for LOCO_SLEEP_AFTER, then sleeps. It
 * uses no CPU until the writer wakes it. With LOCO_RINGBUFFER_AWAKE readers keep polling.
 *
 * Acknowledgements: a reader acknowledges released messages when it finds no further message, when
 * they fill a quarter of the buffer, or at once if the writer waits. So a writer never waits for a
 * batch to fill.
 *
 * Process failures: a dead reader delays no other process, and messages still reach the others.
 * Calls of the writer return LOCO_ERR_PEER_DEAD if no reader is alive. _acknowledged and
 * _wait_acknowledged also return it if all live readers have released the message and a dead one
 * had not. After the writer has died, its readers still receive the messages that had arrived
 * completely, and then LOCO_ERR_PEER_DEAD.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_STATE | a writer's call by a reader, or a reader's call by the writer |
 * | LOCO_ERR_ARG | an argument is invalid |
 * | LOCO_ERR_PROTOCOL | the buffer contains something that is not a message |
 *
 * Source: LOCO paper, section 5.4, after Dragojevic and others, "FaRM: fast remote memory", 2014.
 * Batches are as in Jha and others, "Spindle", 2021: all messages that are ready are sent at once,
 * and none waits for more. How a message becomes visible and how readers sleep is our own, see
 * channels/streams/ringbuffer.c.
 *
 * \see loco_mailbox(3), loco_multicast(3), loco_queue(3)
 * @{ */
typedef struct loco_ringbuffer loco_ringbuffer_t;

enum loco_ringbuffer_flags {
    LOCO_RINGBUFFER_SLEEP = 0,      /**< readers that wait long enough sleep */
    LOCO_RINGBUFFER_AWAKE = 1       /**< readers keep polling, and the writer does not check */
};

/** A message among several: to be sent, or in place at a reader. */
typedef struct loco_ringbuffer_part {
    const void *data;
    size_t bytes;
} loco_ringbuffer_part_t;

/** Create a ring buffer that rank `writer` of `group` writes, for messages of at most `capacity`
 * bytes (1 to 1 GiB). A message of that size never waits when all earlier ones are released. Of
 * smaller messages, each of which takes 8 bytes more and is rounded up to 8, up to twice the
 * capacity may be unreleased. Each member provides memory for twice `capacity`. `flags`: enum
 * loco_ringbuffer_flags. All members of `group` call it with the same arguments (`parent` and
 * `name`: loco(3)). The call is local, and the ring buffer is usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG, LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it
 * when no member uses it any more, since readers on its node read the writer's memory in place;
 * NULL is allowed. */
int loco_ringbuffer_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, int writer, size_t capacity, int flags,
                           loco_ringbuffer_t **rb);
void loco_ringbuffer_destroy(loco_ringbuffer_t *rb);

/** The size of the largest message in bytes; the rank of the writer. Local. */
size_t loco_ringbuffer_capacity(const loco_ringbuffer_t *rb);
int loco_ringbuffer_writer(const loco_ringbuffer_t *rb);

/** Writer: send a message of `bytes` bytes (0 to the capacity) from `message`, which may be reused
 * when the call returns. Unless `number` is NULL, `*number` becomes the message's number. Numbers
 * increase, but not by 1. Errors: LOCO_ERR_ARG (too long), LOCO_ERR_PEER_DEAD (no reader is
 * alive). _try_send also returns LOCO_ERR_AGAIN if there is no free space now, or another thread
 * is sending. */
int loco_ringbuffer_send(loco_ringbuffer_t *rb, const void *message, size_t bytes,
                         uint64_t *number);
int loco_ringbuffer_try_send(loco_ringbuffer_t *rb, const void *message, size_t bytes,
                             uint64_t *number);

/** Writer: send `n` messages, without messages of other threads between them. `*number` becomes
 * that of the last. All messages that fit into the free space become visible together; the others
 * follow as space becomes free. If one of them is too long, nothing is sent. */
int loco_ringbuffer_send_many(loco_ringbuffer_t *rb, const loco_ringbuffer_part_t *messages, int n,
                              uint64_t *number);

/** Writer: whether every live reader has released message `number`, and thus all earlier ones:
 * LOCO_OK, LOCO_IN_PROGRESS, or LOCO_ERR_PEER_DEAD (all live readers have, and a dead one had
 * not). The second call waits until they have. Number 0 is that of no message, and counts as
 * acknowledged. LOCO_ERR_ARG: no message has that number yet. */
int loco_ringbuffer_acknowledged(loco_ringbuffer_t *rb, uint64_t number);
int loco_ringbuffer_wait_acknowledged(loco_ringbuffer_t *rb, uint64_t number);

/** Reader: the oldest message that it has not released, in place, aligned to 8 bytes. The call
 * returns the same message until it is released. The message must not be written to.
 * LOCO_ERR_AGAIN: there is none now. */
int loco_ringbuffer_peek(loco_ringbuffer_t *rb, const void **message, size_t *bytes);

/** The same for up to `max` messages, in order, all in place; `*n` is their number. */
int loco_ringbuffer_peek_many(loco_ringbuffer_t *rb, loco_ringbuffer_part_t *messages, int max,
                              int *n);

/** Like _peek, but wait for a message for `timeout_ns` at most (LOCO_FOREVER: without limit):
 * LOCO_ERR_TIMEOUT. */
int loco_ringbuffer_next(loco_ringbuffer_t *rb, int64_t timeout_ns, const void **message,
                         size_t *bytes);

/** Reader: release the `n` oldest messages, which must not be accessed any more. LOCO_ERR_STATE:
 * fewer than `n` messages have been returned by a peek or a next. */
int loco_ringbuffer_release(loco_ringbuffer_t *rb, int n);

/** Reader: wait like _next, copy the message to `buffer` of `size` bytes, and release it. Unless
 * `bytes` is NULL, `*bytes` becomes its length. LOCO_ERR_RANGE: the message is longer; it stays. */
int loco_ringbuffer_receive(loco_ringbuffer_t *rb, int64_t timeout_ns, void *buffer, size_t size,
                            size_t *bytes);

/** Reader of the `n` ring buffers `rbs`, all of one runtime: wait, for `timeout_ns` at most, until
 * one of them has an unreleased message, or will never have one because its writer has ended and
 * all messages are read (then _peek returns LOCO_ERR_PEER_DEAD). `*which` is its index. Ring
 * buffers after the old value of `*which`, which must be from -1 to n-1, are checked first. */
int loco_ringbuffer_wait_any(loco_ringbuffer_t *const *rbs, int n, int64_t timeout_ns, int *which);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
