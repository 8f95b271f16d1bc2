/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_VIEW_H
#define LOCO_VIEW_H

#include <loco/multicast.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup view Views: multicasts that continue when members die
 *
 * A view is a number and the members of a group that are present. View 0 has all of them, except
 * those that are `outside`. When members die, close their runtime or destroy their view, the others
 * agree on the next view, without these. Multicasts that are created on a view
 * (loco_view_multicast) continue with it, with the same handles: the calls of loco_multicast(3)
 * work on them as on any other.
 *
 *     loco_view_create(rt, NULL, "replicas", loco_everyone(rt), &(loco_view_options_t){
 *                          .changed = print_members }, &view);
 *     loco_view_multicast(view, "log", &(loco_multicast_options_t){
 *                             .handler = apply, .arg = state }, &log);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_multicast_post(log, "deposit 5", 9, &number);
 *
 * | call             | concurrent | blocks | when it returns LOCO_OK |
 * |------------------|------------|--------|--------------------------|
 * | _create          | of other names | no | |
 * | _multicast       | yes        | no     | it is usable once the runtime is ready |
 * | _members, _of    | yes        | no     | |
 * | _wait            | yes        | until then | the view has that number, or a higher one |
 * | _join, _leave    | yes        | until then | this process is, or is not, a member |
 * | _admit           | yes        | until all know it | that process has a rank |
 * | _enter           | of other views | no | as _create |
 * | _destroy         | with nothing | until the others can be told | this process has left |
 *
 * Guarantees for each multicast of a view (virtual synchrony), among members that continue from one
 * view to the next:
 *   - in each view, all of them deliver the same messages in the same order;
 *   - a message that any member delivered, even one that has since died, is delivered by all of
 *     them; so is a message that loco_multicast_is_delivered has reported as delivered;
 *   - each of their own messages is delivered once, in the order in which it was sent. Messages
 *     that could not be delivered everywhere before the view ended are resent automatically in the
 *     next view, before newer ones. Reserved slots stay reserved;
 *   - of a dead member's messages, all survivors deliver the same ones: those up to a certain
 *     message.
 * A message is delivered in the view in which it gets its number. That is not always the view in
 * which it was sent: see loco_view_of(). Delivery numbers increase from view to view.
 *
 * Duration: on one machine, a change takes some scheduling delays after the kernel has reported the
 * death. Between machines it begins when the runtime has noticed the death. A member whose program
 * is stopped delays the change, as it delays a multicast. So does a handler that does not return,
 * because each member's handlers receive all messages of a view before its `changed` is called.
 *
 * Majorities: on one machine the kernel knows who is dead, and any survivors continue. Between
 * machines, a member that is only unreachable may be taken for dead. So there a view continues only
 * with more than half of the members of the previous view. (Members that leave, by _leave, _destroy
 * or loco_runtime_close, do not count.) Members in a minority get LOCO_ERR_PARTITIONED.
 * LOCO_VIEW_MINORITY lets a minority continue. Then two views with the same number may exist that
 * do not know of each other. LOCO_VIEW_MAJORITY requires a majority on one machine, too.
 * A living member that the others took for dead gets LOCO_ERR_PARTITIONED as well. The suspicion of
 * one member is enough: if two members reach all others but not each other, the one that is
 * suspected first stops. If they suspect each other at the same moment, both stop.
 *
 * End: when a view ends for this process, all calls on its multicasts return its status from then
 * on. Their handlers are called a last time, with n = 0, and so is `changed`. Messages that _poll
 * or _next returned earlier may then be overwritten.
 * If a member dies before loco_runtime_wait_ready has returned LOCO_OK, that call returns
 * LOCO_ERR_PEER_DEAD, and so do the calls on the view. Members that were ready already continue
 * without this one. An MPI program needs `mpirun --enable-recovery`, and must not use collective
 * calls of MPI, or a loco_barrier of the group, after a death.
 *
 * Joining: all members of the group create the view and its multicasts at the beginning, but some
 * of them may be outside at first (`outside`). They join later (loco_view_join), can leave
 * (loco_view_leave), and can join again. A joining member starts with the state after the last
 * message of the previous view. Another member passes it on with the callbacks `save` and `load`,
 * one chunk at a time. Until the joining member has the state, nothing new is delivered in the
 * view, because every member has to receive a message first. Programs that poll continue to poll
 * meanwhile. If members die during the transfer, the state is transferred again, as of the next
 * view.
 *
 * Processes that come later: with the option `seats` a view has more ranks than the group has
 * members. A process that did not exist at the beginning gets the next of them: it writes its
 * address (loco_runtime_address), any member admits it and returns a ticket, and with that it
 * creates its part of the view, outside at first:
 *
 *     newcomer: loco_runtime_address(rt, address, &bytes);            (send it to a member)
 *     member:   loco_view_admit(view, address, bytes, ticket, &ticket_bytes, LOCO_FOREVER);
 *     newcomer: loco_view_enter(rt, ticket, ticket_bytes, &(loco_view_options_t){
 *                                   .changed = print_members }, &view);
 *               loco_view_multicast(view, "log", &(loco_multicast_options_t){
 *                                       .handler = apply, .arg = state }, &log);
 *               loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *               loco_view_join(view, LOCO_FOREVER);
 *
 * How the program transfers the address and the ticket is its own affair: a socket, a file, a
 * message of MPI. The members do not wait for a process that they have admitted until it joins. A
 * process that was taken for dead (LOCO_ERR_PARTITIONED) comes back the same way: it destroys the
 * view, closes its runtime, opens another one, and gets a new rank. Each rank is used once, so with
 * `seats` = 64 and 5 members at the beginning, 59 processes can come in the life of the view.
 *
 * Restrictions: at most 64 members; multicasts of views are ordered ones.
 * Source: Jha and others, "Derecho: fast state machine replication for cloud services" (TOCS 2019),
 * after Birman and Joseph, "Exploiting virtual synchrony in distributed systems" (SOSP 1987). That
 * multicasts keep their memory and continue with new numbers is our own: channels/view/view.c.
 *
 * \see loco_multicast(3), loco_topic(3)
 * @{ */
typedef struct loco_view loco_view_t;

/** Called by the view's own thread when view `number` begins. It has `n` members, whose ranks in
 * the group are in `members`, in ascending order. The handlers of its multicasts have received all
 * messages of the previous view, and receive those of this view after `changed` returns. It may
 * send. A call that would have to wait for a delivery, a slot or a later view returns
 * LOCO_ERR_AGAIN there. It must not destroy the view (the log reports this, and nothing happens),
 * nor close the runtime. The last call has n = 0: the view has ended for this process. Not called
 * for view 0. */
typedef void loco_view_changed_t(void *arg, uint64_t number, const int *members, int n);

/** Copy a part of the state to a joining member: the state that the messages up to the last one of
 * a view have made. Called by the view's thread of one member, while no handler of the view's
 * multicasts runs there. Write what follows the first `at` bytes of the state to `chunk`, at most
 * `room` bytes, and return their number; 0 means that the state is complete. It may start again
 * with at = 0, for another joining member or because a member died meanwhile. The restrictions are
 * those of loco_view_changed_t. */
typedef size_t loco_view_save_t(void *arg, uint64_t at, void *chunk, size_t room);

/** Receive the state at the joining member, before its `changed` is called for the view. at = 0
 * begins a transfer, and invalidates what was loaded before; bytes = 0 means that the state is
 * complete. */
typedef void loco_view_load_t(void *arg, uint64_t at, const void *chunk, size_t bytes);

enum loco_view_flags {
    LOCO_VIEW_MINORITY = 1,     /**< continue without a majority; the default on one machine */
    LOCO_VIEW_MAJORITY = 2      /**< only with a majority; the default between machines */
};

/** Options of a view. All members pass the same ones, except the callbacks and `arg`. A zero stands
 * for the default. */
typedef struct loco_view_options {
    int flags;                  /**< one of enum loco_view_flags, or 0 */
    int multicasts;             /**< that can be created on it: 1 to 64; 0: 8 */
    loco_view_changed_t *changed;   /**< of this member; NULL: none */
    void *arg;                  /**< for the callbacks */
    uint64_t outside;           /**< members that are not in view 0: a bit for each rank */
    loco_view_save_t *save;     /**< either all members have both of these, or none has any */
    loco_view_load_t *load;     /**< of them: then a joining member starts without a state */
    size_t chunk;               /**< bytes of state that are transferred at a time; 0: 256 KiB */
    int seats;                  /**< ranks in all, up to 64: those of the group, and behind them
                                     ranks for processes that come later (loco_view_admit); 0: those
                                     of the group only */
} loco_view_options_t;

/** Create a view. All members of `group`, at most 64, call it with the same arguments (`parent` and
 * `name`: loco(3)); if `options` is NULL, all are defaults. The call is local, and the view is
 * usable once the runtime is ready (loco_runtime_wait_ready). It starts a thread, which sleeps
 * while nothing changes. Errors: LOCO_ERR_ARG (the log says which argument), LOCO_ERR_NAME,
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (no thread), LOCO_ERR_STATE (in a handler). */
int loco_view_create(loco_runtime_t *rt, const char *parent, const char *name,
                     const loco_group_t *group, const loco_view_options_t *options,
                     loco_view_t **view);

/** Leave the view for good, and destroy its multicasts here. The others continue. Messages of this
 * process that are not delivered yet may be lost (loco_multicast_wait_delivered). A process that
 * was not ready when a member died has to close its runtime, too, because otherwise some members
 * may not learn of it. Do not call it in a handler or in `changed`. NULL is allowed. */
void loco_view_destroy(loco_view_t *view);

/** Create a multicast on a view, like loco_multicast_create(), over all members of the view's
 * group. All members create the same ones, in the same order. It is destroyed with the view: do not
 * call loco_multicast_destroy(). Errors: those of loco_multicast_create; LOCO_ERR_ARG for
 * LOCO_MULTICAST_UNORDERED; LOCO_ERR_FULL (the view has as many as its options say);
 * LOCO_ERR_PEER_DEAD (a member is dead: multicasts are created while all are there); the status
 * that ended the view. */
int loco_view_multicast(loco_view_t *view, const char *name,
                        const loco_multicast_options_t *options, loco_multicast_t **m);

/** The current view: its number; the ranks of its members in ascending order, written to `members`,
 * which has room for all members of the group; and how many they are. Each pointer may be NULL. If
 * the view has ended, returns the status that ended it. */
int loco_view_members(loco_view_t *view, uint64_t *number, int *members, int *n);

/** The number of the view in which a message of its multicast `m` was delivered. `number` is that
 * of the loco_delivery_t. */
uint64_t loco_view_of(loco_view_t *view, const loco_multicast_t *m, uint64_t number);

/** Become a member, or go outside, from where this process can join again. Wait until this is so,
 * for at most `timeout_ns` nanoseconds (LOCO_FOREVER: without limit; 0: only ask). Messages that
 * this process sends while it is outside wait until it is a member. The last member that has the
 * state does not go outside before another one has it. LOCO_ERR_TIMEOUT: the process has asked, and
 * it will happen later. LOCO_ERR_AGAIN: the same, in a handler or in `changed`, where the call
 * would have to wait. If the view has ended, returns the status that ended it: LOCO_ERR_PEER_DEAD
 * if all members, or all that had the state, are dead; LOCO_ERR_PARTITIONED if the members have
 * stopped because they are a minority, or this process is a member by then and stops with them. */
int loco_view_join(loco_view_t *view, int64_t timeout_ns);
int loco_view_leave(loco_view_t *view, int64_t timeout_ns);

#define LOCO_VIEW_TICKET_MAX 32768      /**< bytes of a ticket */

/** Give the process with that address (`bytes` bytes, from loco_runtime_address there) the next
 * vacant rank, at all members, and write a ticket for it: at most LOCO_VIEW_TICKET_MAX bytes, the
 * room that `ticket` must have and `*ticket_bytes` must say; it becomes the ticket's length. Called
 * by one member. If that process has a rank already, nothing changes, and the ticket is as of now.
 * Keep both from other users: who knows them can talk to the members. Wait for at most `timeout_ns`
 * nanoseconds (LOCO_FOREVER: without limit). Errors: LOCO_ERR_FULL (no rank is left),
 * LOCO_ERR_STATE (the view was created without `seats`), LOCO_ERR_ARG (this is no address),
 * LOCO_ERR_AGAIN (in a handler or in `changed`), LOCO_ERR_TIMEOUT (it may have a rank later: call
 * again), LOCO_ERR_NO_MEMORY; if the view has ended, the status that ended it. */
int loco_view_admit(loco_view_t *view, const void *address, size_t bytes, void *ticket,
                    size_t *ticket_bytes, int64_t timeout_ns);

/** Create this process's part of a view that has admitted it, with the same name: `ticket` has
 * `bytes` bytes. Create the multicasts that the members have, in the same order, wait until the
 * runtime is ready, then join (loco_view_join). Of `options` only the callbacks and `arg` are
 * needed; what else is not zero must equal what the members have. Use a ticket soon, and once: if
 * members have come or died since, the process finds that out itself, unless none of the members of
 * that time is left. Then LOCO_ERR_PEER_DEAD ends the view here, and a new ticket is needed.
 * Members that left at just that time may not have heard of this process, and do not tell it. So
 * call loco_runtime_wait_ready and loco_view_join with a timeout; if that passes, a new runtime and
 * a new ticket are needed.
 * Errors: those of loco_view_create; LOCO_ERR_ARG (this is no ticket, or it is for another
 * process), LOCO_ERR_MISMATCH (an option, or `save` and `load`, or `other_machines` of the
 * bootstrap), LOCO_ERR_PROTOCOL (another version of the library), LOCO_ERR_UNSUPPORTED (a member
 * cannot be reached from here; the log says which). */
int loco_view_enter(loco_runtime_t *rt, const void *ticket, size_t bytes,
                    const loco_view_options_t *options, loco_view_t **view);

/** Wait until view `number` or a later one is installed here, for at most `timeout_ns` nanoseconds
 * (LOCO_FOREVER: without limit), then return LOCO_ERR_TIMEOUT. If the view has ended, returns the
 * status that ended it. LOCO_ERR_AGAIN: in a handler or in `changed`, where the call would have to
 * wait. */
int loco_view_wait(loco_view_t *view, uint64_t number, int64_t timeout_ns);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
