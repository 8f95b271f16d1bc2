/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_MULTICAST_H
#define LOCO_MULTICAST_H

#include <stddef.h>
#include <stdint.h>

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup multicast Atomic multicast: all members get the same messages in the same order
 *
 * Some members of a group send messages; every member, the senders included, is given all of them,
 * in one order that is the same at all. A message is delivered at a member only when every member
 * has received it, so what one member has seen no other can miss while all of them live. State that
 * each member changes by these messages alone is the same at all members: a replicated log, a
 * replicated table.
 *
 *     static void apply(void *arg, const loco_delivery_t *messages, int n)
 *     {
 *         for (int i = 0; i < n; i++)
 *             change_state(arg, messages[i].data, messages[i].bytes);
 *     }
 *
 *     loco_multicast_create(rt, NULL, "log", loco_everyone(rt),
 *                           &(loco_multicast_options_t){ .handler = apply, .arg = state }, &m);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_multicast_post(m, "deposit 5", 9, &number);
 *     loco_multicast_wait_delivered(m, number);
 *
 * | call            | by whom | concurrent | blocks | when it returns LOCO_OK |
 * |-----------------|---------|------------|--------|--------------------------|
 * | _reserve        | senders | yes        | until a slot is free | the caller has the slot |
 * | _try_reserve    | senders | yes        | no     | the same |
 * | _send           | senders | yes        | no     | the message has its place among this member's |
 * | _post           | senders | yes        | as _reserve | the same |
 * | _try_post       | senders | yes        | no     | the same |
 * | _is_delivered   | senders | yes        | no     | every member has delivered it |
 * | _wait_delivered | senders | yes        | until then | the same |
 * | _poll           | all     | no         | no     | messages are in place until the next _poll or _next |
 * | _next           | all     | not with _poll | for so long as told | the same |
 * | _delivered_by   | all     | yes        | no     | |
 * | _sizes, _stats  | all     | yes        | no     | |
 * | _create, _destroy | all   | of other names; with nothing | no   | |
 *
 * Order: message k of the sender with index i of S is number k * S + i of the total order, at every
 * member. A sender that has nothing to send while others do gives numbers away as nulls, which
 * nobody is shown, so that it holds up nobody; numbers of deliveries grow, not by 1. Messages of
 * one thread keep their order; those of several threads of a sender are in the order of their
 * reservations. With LOCO_MULTICAST_UNORDERED a message is delivered as soon as it has arrived, in
 * the order of its sender, and nothing is said about messages of two senders.
 * Visibility: a message orders nothing but itself. To tell of data written elsewhere, fence, then
 * send.
 *
 * Many members: of more than 64 that are not all on one node, each hands on what others send, down
 * a tree for each sender, so that none writes to all; and what all have received goes up a tree.
 * A message passes log2 of their number at most. There the poller works also without a handler.
 *
 * Who works: with a handler, the runtime's poller, one thread for all multicasts and stores of a
 * process, does everything, whatever the program does meanwhile. Without one, calls of this
 * multicast do: a member that makes none for a while holds up the others, at the latest when slots
 * run out. Such a program has a thread that calls _next.
 * The handler may call everything of any multicast but _create, _destroy, _poll and _next; a call
 * that would have to wait returns LOCO_ERR_AGAIN there. It must not wait for anything else either:
 * while it runs, this process receives nothing, and the group goes at the pace of its slowest
 * member. With LOCO_MULTICAST_COPY messages are copied out, and their slots given back, before the
 * handler sees them.
 *
 * Slots: each sender has `slots` of them. A slot is free again when all members have delivered its
 * message. Without a handler, _reserve, _post and _wait_delivered return LOCO_ERR_AGAIN to the
 * thread that polls where they would wait for this member to deliver what can be delivered: call
 * _poll, then try again. A thread that polls several multicasts uses the try forms: while it waits
 * for one it polls none.
 * Memory of a member: where all members are on one node, senders have slots * (slot_bytes + 16)
 * bytes; else every member has that for each sender. 16 + slot_bytes is rounded up to 64.
 *
 * Sleep: nobody polls a multicast that is idle. A member that finds nothing for LOCO_SLEEP_AFTER
 * sleeps and has told all others, who ring when they have something.
 * Deaths: membership is fixed, and a member that dies, or closes its runtime, ends the multicast:
 * all calls of the others return LOCO_ERR_PEER_DEAD from then on, nothing more is delivered, and
 * the handler is called a last time, with n = 0. _delivered_by says how far each member had come,
 * as far as this one knows.
 * Errors of all calls but _create: LOCO_ERR_PEER_DEAD (it has ended), LOCO_ERR_PROTOCOL (what is in
 * a slot is no message; it has ended), LOCO_ERR_STATE (a call of senders by another member),
 * LOCO_ERR_ARG.
 * Source: Jha, Rosa and Birman, "Spindle: techniques for optimizing atomic multicast on RDMA"
 * (ICDCS 2022), after Derecho (TOCS 2019). Where a message says its own number, so that nulls need
 * no slots, and how members sleep, is our own; see channels/multicast/multicast.c.
 * @{ */
typedef struct loco_multicast loco_multicast_t;

/** A message as it is delivered. */
typedef struct loco_delivery {
    const void *data;           /**< in place, aligned to 16 bytes; not to be written to */
    size_t bytes;               /**< 0 to slot_bytes */
    int sender;                 /**< its sender's rank in the group */
    uint64_t number;            /**< its place in the total order; unordered: among its sender's */
} loco_delivery_t;

/** Called in the poller with the next `n` messages in order, all that could be delivered at this
 * moment, a quarter of all senders' slots and 128 at most; `arg` is the options'. They are gone
 * when it returns. The last call of all has n = 0: a member has died, or the multicast has failed.
 */
typedef void loco_multicast_handler_t(void *arg, const loco_delivery_t *messages, int n);

enum loco_multicast_flags {
    LOCO_MULTICAST_ORDERED = 0,     /**< one order for all */
    LOCO_MULTICAST_UNORDERED = 1,   /**< delivered on arrival, each sender's in order */
    LOCO_MULTICAST_COPY = 2         /**< messages are copied out before they are handed out, and
                                         their slots are free */
};

/** How a multicast is made; all members give the same senders, slots, slot_bytes and ordering. Zero
 * is the default of what may be zero. */
typedef struct loco_multicast_options {
    const int *senders;         /**< ranks of the members that send, `nsenders` of them, each once;
                                     their order here is that of messages of one round.
                                     NULL: all members, by rank */
    int nsenders;
    int slots;                  /**< messages of a sender that may be under way; 1 to 2^20;
                                     0: 100 */
    size_t slot_bytes;          /**< of the largest message; up to 1 GiB; 0: 10 KiB */
    int flags;                  /**< enum loco_multicast_flags, combined */
    loco_multicast_handler_t *handler;  /**< of this member; NULL: it polls */
    void *arg;                  /**< the handler's */
} loco_multicast_options_t;

/** Make a multicast. All members of `group` make it, with the same arguments (`parent` and `name`:
 * loco(3)); NULL options are all defaults. Local; usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (the log says which option), LOCO_ERR_NAME,
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (no thread for the handler), LOCO_ERR_STATE (in a handler).
 * Destroy it when no member needs this one any more: all its messages are delivered at all
 * (_wait_delivered of each sender, then a barrier). Not in a handler, and not while a handler of
 * another multicast sends to this one; NULL is allowed. */
int loco_multicast_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, const loco_multicast_options_t *options,
                          loco_multicast_t **m);
void loco_multicast_destroy(loco_multicast_t *m);

/** Senders; slots of each; bytes of the largest message. Local; each may be NULL. */
void loco_multicast_sizes(const loco_multicast_t *m, int *senders, int *slots, size_t *slot_bytes);

/** A sender: take a slot, in which the caller then builds a message of up to slot_bytes bytes, at
 * `*slot`, aligned to 16 bytes. Several threads may have slots, and a thread several; a slot that
 * is never sent holds up all that were taken after it. Waits until one is free. LOCO_ERR_AGAIN:
 * that would be for this thread to bring about (in a handler; without one: poll first).
 * _try_reserve: LOCO_ERR_AGAIN where none is free now. */
int loco_multicast_reserve(loco_multicast_t *m, void **slot);
int loco_multicast_try_reserve(loco_multicast_t *m, void **slot);

/** A sender: send the first `bytes` bytes (0 to slot_bytes) of a slot that a reserve gave. The slot
 * is not the caller's any more. `*number`, unless `number` is NULL, becomes the message's number
 * among this member's, from 1 on. Errors: LOCO_ERR_ARG (too long: the slot stays the caller's; or
 * `slot` is none), LOCO_ERR_STATE (it was not reserved, or was sent already). */
int loco_multicast_send(loco_multicast_t *m, void *slot, size_t bytes, uint64_t *number);

/** A sender: reserve a slot, copy `bytes` bytes from `data` there and send it. */
int loco_multicast_post(loco_multicast_t *m, const void *data, size_t bytes, uint64_t *number);
int loco_multicast_try_post(loco_multicast_t *m, const void *data, size_t bytes,
                            uint64_t *number);

/** A sender: whether every member has delivered this member's message `number`, and so all its
 * earlier ones: LOCO_OK or LOCO_IN_PROGRESS. The other waits until they have. LOCO_ERR_ARG: no
 * message has that number yet; 0 is the number of nothing, and delivered. LOCO_ERR_AGAIN: as of
 * _reserve. */
int loco_multicast_is_delivered(loco_multicast_t *m, uint64_t number);
int loco_multicast_wait_delivered(loco_multicast_t *m, uint64_t number);

/** Without a handler: the next messages in order, `max` (at least 1) at most, in `messages`; `*n`
 * is how many. They count as delivered with the next _poll or _next, until which they are in place.
 * LOCO_ERR_AGAIN: there is none now; the call has then given the core to another thread that wants
 * it. LOCO_ERR_STATE: there is a handler. */
int loco_multicast_poll(loco_multicast_t *m, loco_delivery_t *messages, int max, int *n);

/** As _poll, but wait for a message, for `timeout_ns` at most (LOCO_FOREVER: without limit):
 * LOCO_ERR_TIMEOUT. */
int loco_multicast_next(loco_multicast_t *m, int64_t timeout_ns, loco_delivery_t *messages,
                        int max, int *n);

/** How far member `rank` has delivered, as far as this process knows: all messages with a number
 * below `*number`; of itself exactly; of others among many members, what all have. Unordered: of
 * messages of sender index `sender`, which else is not looked at. Also after the end. Local. */
int loco_multicast_delivered_by(const loco_multicast_t *m, int rank, int sender,
                                uint64_t *number);

/** What this process has done. A batch is what one look at a stage found. */
typedef struct {
    uint64_t sent, send_batches;            /**< messages of this member; batches of them */
    uint64_t nulls, null_batches;           /**< numbers that it gave away, likewise */
    uint64_t receive_batches;               /**< looks that found something of others */
    uint64_t delivered, deliver_batches;    /**< messages delivered here */
    uint64_t pushes;                        /**< of its counters, with what was ready, to all */
    uint64_t full;                          /**< reserves that found no slot free, */
    int slowest;                            /**< the member that was behind at most of those; -1:
                                                 none, or not known among many members, */
    uint64_t slowest_full;                  /**< and at how many */
} loco_multicast_stats_t;

/** Fill in `*stats`; numbers that change meanwhile are of some time during the call. Local. */
void loco_multicast_stats(const loco_multicast_t *m, loco_multicast_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
