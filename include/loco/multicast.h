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
 * Some members of a group send messages. Every member, the senders included, receives all of them
 * in the same order. A message is delivered at a member only when every member has received it, so
 * a message seen by one member will reach every other member as long as all live. If each member
 * changes its state by these messages alone, the state is the same at all members: a replicated
 * log, a replicated table.
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
 * | _send           | senders | yes        | no     | the message has its place in this member's order |
 * | _post           | senders | yes        | as _reserve | the same |
 * | _try_post       | senders | yes        | no     | the same |
 * | _is_delivered   | senders | yes        | no     | it is delivered at every member, as defined below |
 * | _wait_delivered | senders | yes        | until then | the same |
 * | _poll           | all     | no         | no     | messages are in place until the next _poll or _next |
 * | _next           | all     | not with _poll | up to the limit | the same |
 * | _delivered_by   | all     | yes        | no     | |
 * | _sizes, _stats  | all     | yes        | no     | |
 * | _create, _destroy | all   | of other names; with nothing | no   | |
 *
 * Order: message k of the sender with index i of S has number k * S + i in the total order, at
 * every member. A sender that has nothing to send while others do skips its numbers, so it delays
 * nobody. Delivery numbers therefore increase, but have gaps. Messages of one thread keep their
 * order; those of several threads of a sender are in the order of their reservations. With
 * LOCO_MULTICAST_UNORDERED a message is delivered on arrival. Then only the messages of the same
 * sender are ordered.
 * Visibility: a message makes no other data visible. To announce data that was written elsewhere,
 * fence first, then send.
 *
 * Delivered: _is_delivered and _wait_delivered refer to the moment at which each member counts a
 * message as delivered.
 *
 * | this member has | it counts a message as delivered |
 * |-----------------|----------------------------------|
 * | a handler | when the handler has returned from the call that contained the message |
 * | a handler and LOCO_MULTICAST_COPY | when the message is copied out, before the handler is called with it: the handler may still have to run, or be running, when _wait_delivered returns |
 * | no handler | at the next _poll or _next after the one that returned the message |
 * | no handler, and LOCO_MULTICAST_COPY | when _poll or _next returns it |
 *
 * So without LOCO_MULTICAST_COPY, after _wait_delivered(m, number) all handlers have applied this
 * sender's messages up to `number`, and in an ordered multicast all messages that precede them.
 * With LOCO_MULTICAST_COPY let the handler count what it has applied, or post an answer.
 *
 * Many members: if a group has more than 64 members and spans nodes, each member forwards messages
 * along a tree for each sender, so that no member writes to all others. Acknowledgements return
 * along a tree. A message takes at most log2 of the number of members hops. In such a group the
 * poller also works if there is no handler.
 *
 * Progress: with a handler, the runtime's poller does all the work in the background. It is one
 * thread for all multicasts and stores of a process. Without a handler, the calls on this multicast
 * do the work: a member that makes none delays the others, at the latest when slots run out. Such a
 * program needs a thread that calls _next.
 * The handler may make every call on any multicast except _create, _destroy, _poll and _next. A
 * call that would have to wait returns LOCO_ERR_AGAIN there. The handler must not wait for anything
 * else either: while it runs, this process receives nothing, and the slowest member's handler
 * limits the rate of the group. With LOCO_MULTICAST_COPY messages are copied out, and their slots
 * are freed, before the handler is called.
 *
 * Slots: each sender has `slots` slots. A slot is free again when all members have delivered its
 * message. Without a handler, _reserve, _post and _wait_delivered return LOCO_ERR_AGAIN in the
 * polling thread if the wait could end only by its own polling: call _poll, then try again. A
 * thread that polls several multicasts uses the try forms, because while it waits for one it polls
 * none.
 * Memory of a member: if all members are on one node, each sender has slots * (slot_bytes + 16)
 * bytes. Otherwise every member has that much for each sender. 16 + slot_bytes is rounded up to a
 * multiple of 64.
 *
 * Sleep: nobody polls an idle multicast. A member that has found nothing for LOCO_SLEEP_AFTER tells
 * the others and sleeps. They wake it when they have something for it.
 * Process failures: membership is fixed. If a member dies or closes its runtime, the multicast
 * ends: all calls of the others return LOCO_ERR_PEER_DEAD from then on, nothing more is delivered,
 * and the handler is called a last time, with n = 0. _delivered_by shows how far each member had
 * delivered, as far as this process knows. A multicast of a view (loco_view(3)) continues.
 * Errors of all calls except _create: LOCO_ERR_PEER_DEAD (the multicast has ended),
 * LOCO_ERR_PROTOCOL (a slot does not contain a message; the multicast has ended), LOCO_ERR_STATE
 * (this member is not a sender, and the call is for senders), LOCO_ERR_ARG.
 * Source: Jha, Rosa and Birman, "Spindle: techniques for optimizing atomic multicast on RDMA"
 * (ICDCS 2022), after Derecho (TOCS 2019). That a message contains its own number, so that skipped
 * numbers need no slots, and how members sleep, is our own: channels/multicast/multicast.c.
 *
 * \see loco_runtime(3), loco_topic(3), loco_view(3)
 * @{ */
typedef struct loco_multicast loco_multicast_t;

/** A delivered message. */
typedef struct loco_delivery {
    const void *data;           /**< read-only, aligned to 16 bytes */
    size_t bytes;               /**< 0 to slot_bytes */
    int sender;                 /**< its sender's rank in the group */
    uint64_t number;            /**< its place in the total order; unordered: in its sender's */
} loco_delivery_t;

/** Called in the poller with the next `n` messages in order: all that can be delivered now, but at
 * most 128, and at most a quarter of all senders' slots. `arg` is that of the options. The messages
 * are invalid when the handler has returned. The last call has n = 0: a member has died, or the
 * multicast has failed. */
typedef void loco_multicast_handler_t(void *arg, const loco_delivery_t *messages, int n);

enum loco_multicast_flags {
    LOCO_MULTICAST_ORDERED = 0,     /**< one order for all */
    LOCO_MULTICAST_UNORDERED = 1,   /**< delivered on arrival, each sender's in order */
    LOCO_MULTICAST_COPY = 2         /**< messages are copied out and their slots freed before the
                                         handler is called; see "Delivered" */
};

/** Options of a multicast. All members pass the same senders, slots, slot_bytes and ordering. A
 * zero stands for the default. */
typedef struct loco_multicast_options {
    const int *senders;         /**< ranks of the members that send: `nsenders` different
                                     ones. Their order here is that of the messages of one round.
                                     NULL: all members, by rank */
    int nsenders;
    int slots;                  /**< undelivered messages that a sender may have: 1 to 2^20;
                                     0: 100 */
    size_t slot_bytes;          /**< of the largest message; up to 1 GiB; 0: 10 KiB */
    int flags;                  /**< enum loco_multicast_flags, combined */
    loco_multicast_handler_t *handler;  /**< of this member; NULL: it polls */
    void *arg;                  /**< for the handler */
} loco_multicast_options_t;

/** Create a multicast. All members of `group` call it with the same arguments (`parent` and `name`:
 * loco(3)); if `options` is NULL, all are defaults. The call is local, and the multicast is usable
 * once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (the log says which
 * option), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (no thread for the handler),
 * LOCO_ERR_STATE (in a handler). Destroy it when no member needs it any more, that is when all
 * messages are delivered everywhere: each sender calls _wait_delivered, then all meet at a barrier.
 * Do not destroy it in a handler, nor while a handler of another multicast sends to it. NULL is
 * allowed. A multicast of a view is destroyed with the view instead. */
int loco_multicast_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, const loco_multicast_options_t *options,
                          loco_multicast_t **m);
void loco_multicast_destroy(loco_multicast_t *m);

/** The number of senders, the slots of each, and the bytes of the longest message. Each pointer may
 * be NULL. Local. */
void loco_multicast_sizes(const loco_multicast_t *m, int *senders, int *slots, size_t *slot_bytes);

/** For senders: take a slot, wait until one is free. The caller then builds a message of up to
 * slot_bytes bytes at `*slot`, which is aligned to 16 bytes. Several threads may have slots, and a
 * thread may have several. A slot that is never sent blocks all that were taken after it.
 * LOCO_ERR_AGAIN: only this thread could free a slot, because it runs the handler or does the
 * polling. Return from the handler, or call _poll, and try again. _try_reserve returns
 * LOCO_ERR_AGAIN if no slot is free now. */
int loco_multicast_reserve(loco_multicast_t *m, void **slot);
int loco_multicast_try_reserve(loco_multicast_t *m, void **slot);

/** For senders: send the first `bytes` bytes (0 to slot_bytes) of a reserved slot, which no longer
 * belongs to the caller. `*number`, unless `number` is NULL, becomes the message's number among
 * those of this member, from 1 on. Errors: LOCO_ERR_ARG (`slot` is not a slot; or the message is
 * too long: then the slot still belongs to the caller), LOCO_ERR_STATE (the slot was not reserved,
 * or was sent already). */
int loco_multicast_send(loco_multicast_t *m, void *slot, size_t bytes, uint64_t *number);

/** For senders: reserve a slot, copy `bytes` bytes (0 to slot_bytes) from `data` into it and send
 * it. Errors: those of _reserve, and LOCO_ERR_ARG (the message is too long). */
int loco_multicast_post(loco_multicast_t *m, const void *data, size_t bytes, uint64_t *number);
int loco_multicast_try_post(loco_multicast_t *m, const void *data, size_t bytes,
                            uint64_t *number);

/** For senders: whether every member has delivered this member's message `number`, and so all
 * earlier ones of this member: LOCO_OK or LOCO_IN_PROGRESS. The second call waits until they have.
 * "Delivered" is defined above. If `number` is 0, both return LOCO_OK at once. LOCO_ERR_ARG: no
 * message has that number yet. LOCO_ERR_AGAIN: as from _reserve. */
int loco_multicast_is_delivered(loco_multicast_t *m, uint64_t number);
int loco_multicast_wait_delivered(loco_multicast_t *m, uint64_t number);

/** Without a handler: write the next messages, in order, to `messages`: at most `max`, which is at
 * least 1. `*n` becomes their number. They are valid until the next _poll or _next, and count as
 * delivered from then on. LOCO_ERR_AGAIN: there is none now; the call has yielded the core to other
 * threads. LOCO_ERR_STATE: this member has a handler. */
int loco_multicast_poll(loco_multicast_t *m, loco_delivery_t *messages, int max, int *n);

/** Like _poll, but wait for a message for at most `timeout_ns` nanoseconds (LOCO_FOREVER: without
 * limit), then return LOCO_ERR_TIMEOUT. */
int loco_multicast_next(loco_multicast_t *m, int64_t timeout_ns, loco_delivery_t *messages,
                        int max, int *n);

/** How far member `rank` has delivered, as far as this process knows: it has delivered all messages
 * with a number below `*number`. This process's own number is exact. In large groups, other members
 * report the number that all have reached. In an unordered multicast the number counts messages of
 * the sender with index `sender`, which is ignored otherwise. Also works after the multicast has
 * ended. Local. */
int loco_multicast_delivered_by(const loco_multicast_t *m, int rank, int sender,
                                uint64_t *number);

/** Statistics of this process. A batch is what it found at once. */
typedef struct {
    uint64_t sent, send_batches;            /**< messages of this member, and batches of them */
    uint64_t nulls, null_batches;           /**< numbers that it skipped, and batches of them */
    uint64_t receive_batches;               /**< batches of messages from others */
    uint64_t delivered, deliver_batches;    /**< messages delivered here, and batches of them */
    uint64_t pushes;                        /**< of its counters to all others */
    uint64_t full;                          /**< reserves that found no free slot */
    int slowest;                            /**< the member that was the last to deliver at most of
                                                 these; -1: none, or unknown in large groups */
    uint64_t slowest_full;                  /**< at how many of them it was the last */
} loco_multicast_stats_t;

/** Fill in `*stats`. Numbers that change meanwhile are those of some time during the call. Local.
 */
void loco_multicast_stats(const loco_multicast_t *m, loco_multicast_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
