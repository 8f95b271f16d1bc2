/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_MAILBOX_H
#define LOCO_MAILBOX_H

#include <stddef.h>
#include <stdint.h>

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup mailbox Mailboxes: messages of many processes to one
 *
 * A mailbox carries messages of any length from any thread of any member to one member, the
 * receiver. Use it for requests to a server, or for results to a collector.
 *
 *     loco_mailbox_create(rt, NULL, "requests", loco_everyone(rt), 0, NULL, &box);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     if (rank == 0)
 *         status = loco_mailbox_receive(box, LOCO_FOREVER, buffer, sizeof buffer, &from, &bytes);
 *     else
 *         status = loco_mailbox_send(box, "hello", 5);
 *
 * A short message is copied into the mailbox, and the sender continues. A long message is only
 * announced in the mailbox: the receiver reads it directly into its own buffer, and the sender
 * waits until it has.
 *
 * Cost: a short message is copied twice, into the mailbox and out of it. Between nodes, sending it
 * takes some writes and, on the same lane, two small reads of the receiver's position: one round
 * trip. A long message is copied once, by the receiver, while its sender waits. On one node, two
 * copies that two processes make at the same time are faster than that (bench/README.md), so by
 * default only messages that do not fit into the mailbox are long.
 *
 * Memory, at the receiver: `ring_bytes` and 256 bytes for each member.
 *
 * | call                | concurrent | blocks | when it returns LOCO_OK |
 * |---------------------|------------|--------|-------------------------|
 * | _send               | yes        | until there is free space; long: until it is read | it is in the mailbox, or was read; `data` is reusable |
 * | _send_timed         | yes        | the same; for free space up to the limit | the same |
 * | _try_send           | yes        | some operations  | it is in the mailbox |
 * | _receive            | yes        | while there is none, up to the limit | the message is in `buffer`, and out of the mailbox |
 * | _try_receive        | yes        | some operations  | the same |
 * | _stats              | yes        | no | |
 * | _create, _destroy   | of other names; with nothing | no | |
 *
 * Order: messages of one thread are received in the order in which it sent them, each once.
 * Messages of different processes are received in any order, round-robin if several wait. The
 * receiver sees the contents of a message. It sees other data that the sender wrote only if the
 * sender fenced it before (loco_fence).
 *
 * Process failures: messages that a process sent before it died are received, except a long
 * message that was not read yet. Sending returns LOCO_ERR_PEER_DEAD once the receiver is dead.
 * Receiving returns it once all other members are dead and no message is left.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_SYSTEM | the memory of a long message is unmapped or not readable at its sender. The message is lost, and the log names the sender, whose send returns LOCO_OK |
 * | LOCO_ERR_PROTOCOL | a stray write has corrupted the mailbox's memory; the log says where |
 *
 * In a pool (\ref pool) a mailbox is found by its name, and an agent owns its memory. Senders may
 * come and go, and so may the receiver, which has to run on that agent's machine. A death is not
 * reported to the others. Long messages are sent in pieces there. If a receiver leaves after it
 * has taken some pieces of a message, that message is lost. Waiting calls poll at intervals of up
 * to a millisecond.
 *
 * Source: the messages of KRCore (USENIX ATC 2022), which copies the short ones and has the
 * receiver read the long ones; the rings, one for each sender, are our own.
 *
 * \see loco_pool(3), loco_queue(3), loco_ringbuffer(3)
 * @{ */
typedef struct loco_mailbox loco_mailbox_t;

#define LOCO_MAILBOX_COPY_ALL SIZE_MAX      /**< as `straight`: no message is read straight; long
                                                 ones are copied in pieces */

/** Options of a mailbox, the same at all members. Zero selects the default. */
typedef struct loco_mailbox_options {
    size_t ring_bytes;      /**< bytes that a sender may have in the mailbox: a power of two
                                 from 512 to 1 GiB; 0: 64 KiB */
    size_t straight;        /**< size in bytes from which a message is long; 0: messages of more
                                 than ring_bytes / 2 - 16 bytes, which are always long because
                                 they cannot be copied. Ignored in a pool */
    const char *host;       /**< in a pool (loco_mailbox_open): name of the machine whose agent
                                 keeps it; NULL: this one's */
} loco_mailbox_options_t;

/** Create a mailbox from which member `receiver` (a rank) receives. All members of `group`, at
 * least two, call it with the same arguments (`parent` and `name`: loco(3)); `options` may be
 * NULL. The call is local, and the mailbox is usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (the log says which), LOCO_ERR_NAME,
 * LOCO_ERR_NO_MEMORY. Destroy it when no member uses it any more; its messages are lost. NULL is
 * allowed. */
int loco_mailbox_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, int receiver,
                        const loco_mailbox_options_t *options, loco_mailbox_t **box);
void loco_mailbox_destroy(loco_mailbox_t *box);

/** Send `bytes` bytes at `data` (which may be NULL if that is 0). Other threads of this process
 * that send wait meanwhile. The receiver sends to itself by copies only, and needs another thread
 * that receives if there may be no free space. Errors: LOCO_ERR_PEER_DEAD (the receiver is dead;
 * it is unknown whether it has received the message), LOCO_ERR_RANGE (more than ring_bytes / 2 -
 * 16 bytes in _try_send, or from the receiver to itself), LOCO_ERR_ARG (NULL, or 2^56 bytes and
 * more). */
int loco_mailbox_send(loco_mailbox_t *box, const void *data, size_t bytes);

/** Like loco_mailbox_send, but wait for free space for `timeout_ns` nanoseconds at most
 * (LOCO_FOREVER: without limit). After LOCO_ERR_TIMEOUT the message is not delivered. The call
 * waits without limit for other threads that send, and for a long message to be read. */
int loco_mailbox_send_timed(loco_mailbox_t *box, int64_t timeout_ns, const void *data,
                            size_t bytes);

/** Send by a copy, whatever the length, if there is free space. LOCO_ERR_AGAIN: there is none, or
 * another thread of this process is sending. */
int loco_mailbox_try_send(loco_mailbox_t *box, const void *data, size_t bytes);

/** Receive a message into `buffer`, of `room` bytes; wait for `timeout_ns` nanoseconds at most
 * (LOCO_FOREVER: without limit). `from` (the sender's rank) and `bytes` (its length) may be NULL.
 * Errors: LOCO_ERR_STATE (this member is not the receiver), LOCO_ERR_TIMEOUT, LOCO_ERR_RANGE (the
 * message is longer than `room`: it stays, `from` and `bytes` are filled in, and the next call
 * finds it again), LOCO_ERR_PEER_DEAD. */
int loco_mailbox_receive(loco_mailbox_t *box, int64_t timeout_ns, void *buffer, size_t room,
                         int *from, size_t *bytes);

/** Receive a message if there is one, else return LOCO_ERR_AGAIN. */
int loco_mailbox_try_receive(loco_mailbox_t *box, void *buffer, size_t room, int *from,
                             size_t *bytes);

/** Statistics of this process's use of a mailbox. */
typedef struct {
    uint64_t sent;          /**< messages; */
    uint64_t told;          /**< of these long ones */
    uint64_t full;          /**< times that a message found no free space */
    uint64_t received;      /**< messages; */
    uint64_t read;          /**< of these read directly from their senders */
    uint64_t lost;          /**< long ones that could not be read: their sender has died */
} loco_mailbox_stats_t;

/** Fill in `*stats`. Numbers that change meanwhile are those of some time during the call. Local.
 */
void loco_mailbox_stats(const loco_mailbox_t *box, loco_mailbox_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
