/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_VIEW_H
#define LOCO_VIEW_H

#include <loco/multicast.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup view Views: multicasts that go on when members die
 *
 * A view is a number and the members of a group that are in it. View 0 has all. When members die,
 * close their runtime or destroy their view, the others agree on the next one, without these.
 * Multicasts that are made on a view (loco_view_multicast) go on with it, by the same handles: the
 * calls of multicast.h are used on them as on any other.
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
 * | _multicast       | yes        | no     | it is used once the runtime is ready |
 * | _members, _of    | yes        | no     | |
 * | _wait            | yes        | until then | the view has that number, or a higher one |
 * | _destroy         | with nothing | until the others can be told | this process has left |
 *
 * What is promised of each multicast of a view (virtual synchrony), among members that go on from
 * one view to the next:
 *   - in each view all of them deliver the same messages in the same order;
 *   - whatever any member has delivered, also one that died, or has been told to be delivered
 *     (loco_multicast_is_delivered), they deliver, too;
 *   - each message of theirs is delivered once, in the order in which they sent it. What was under
 *     way when the view ended, and could not be delivered everywhere, is sent again in the next
 *     one, before what is newer; its sender need not do anything. Slots that are reserved stay so;
 *   - of a member that died, messages up to some one are delivered, the same at all.
 * Messages are delivered in the view in which they get their number, which is not always the one in
 * which they were sent: loco_view_of() says which. Numbers of deliveries grow from view to view.
 *
 * How long it takes: of one machine, some turns of the processor after the kernel has told of the
 * death. Between machines, after the runtime has noticed it. A member whose program is stopped
 * holds up the change, as it holds up a multicast. So does a handler that does not return: the
 * handler of each member has been given all messages of a view before its `changed` is called.
 *
 * Majorities. Of one machine the kernel knows who is dead, and whoever is left goes on. Between
 * machines a member may be taken for dead that only cannot be reached. So there a view goes on only
 * with more than half of the members of the view before (members that leave, by _destroy or
 * loco_runtime_close, do not count); those who are fewer stop with LOCO_ERR_PARTITIONED.
 * LOCO_VIEW_MINORITY lets them go on; then there may be two views that do not know of each other,
 * with the same number. LOCO_VIEW_MAJORITY asks for more than half on one machine, too.
 * A member that the others took for dead, and that lives, stops with LOCO_ERR_PARTITIONED as well.
 * One member's suspicion is enough: of two that reach all others but not each other, the one that
 * is suspected first stops, and both do if they suspect each other at the same moment.
 *
 * Ends. When a view ends for this process, all calls of its multicasts return its status from then
 * on, their handlers are called a last time with n = 0, and so is `changed`. What _poll or _next
 * has handed out before may change then.
 * A death before loco_runtime_wait_ready has returned LOCO_OK makes it return LOCO_ERR_PEER_DEAD,
 * and so do the view's calls; members that are ready go on without this one.
 *
 * Joining. The members are those of the group, all of which make the view and its multicasts at the
 * beginning; but some may be outside at first (`outside`), and come later (loco_view_join), go out
 * and come again (loco_view_leave). Who comes begins with the state after the last message of the
 * view before, which a member gives it by two callbacks, a chunk at a time (`save`, `load`); until
 * it has it, that member begins nothing, and so nobody delivers anything new where all have to
 * receive a message first. Programs that poll go on to poll meanwhile. If members die in between,
 * the state is given again, as of the next view. Who dies, or is taken for dead, does not come
 * again; nor does a process come that was not there when the view was made.
 *
 * Restrictions: at most 64 members; multicasts of views are ordered ones.
 * Source: Jha and others, "Derecho: fast state machine replication for cloud services" (TOCS 2019),
 * after Birman and Joseph, "Exploiting virtual synchrony in distributed systems" (SOSP 1987). That
 * multicasts keep their memory, and begin new numbers, is our own; see channels/view/view.c.
 *
 * \see loco_multicast(3), loco_topic(3)
 * @{ */
typedef struct loco_view loco_view_t;

/** Called by a thread of the view's own when view `number` begins: it has the `n` members whose
 * ranks in the group are in `members`, ascending. Handlers of its multicasts have been given all
 * messages of the view before, and are given those of this one after it returns. So it may send,
 * but what would have to wait for a delivery, a slot or a later view returns LOCO_ERR_AGAIN there.
 * It must not destroy the view (the log says so, and nothing happens), nor close the runtime. The
 * last call of all has n = 0: the view has ended for this process. Not called for view 0. */
typedef void loco_view_changed_t(void *arg, uint64_t number, const int *members, int n);

/** The state that messages have made, as it is after the last message of a view, for members that
 * come. Called by the view's thread of one member, while no handler of the view's multicasts runs
 * there: put what follows the first `at` bytes into `chunk`, `room` at most, and return how many; 0
 * says that there is no more. It may be called with at = 0 again, for another member that comes or
 * because somebody died meanwhile. Restrictions are those of loco_view_changed_t. */
typedef size_t loco_view_save_t(void *arg, uint64_t at, void *chunk, size_t room);

/** The same at the member that comes, before its `changed` is told of the view: with at = 0 it
 * begins, and whatever was loaded before is void; bytes = 0 says that it is complete. */
typedef void loco_view_load_t(void *arg, uint64_t at, const void *chunk, size_t bytes);

enum loco_view_flags {
    LOCO_VIEW_MINORITY = 1,     /**< go on without a majority; the default on one machine */
    LOCO_VIEW_MAJORITY = 2      /**< not without; the default between machines */
};

/** How a view is made; all members give the same but `changed` and `arg`. Zero is the default. */
typedef struct loco_view_options {
    int flags;                  /**< one of enum loco_view_flags, or 0 */
    int multicasts;             /**< that can be made on it; 1 to 64; 0: 8 */
    loco_view_changed_t *changed;   /**< of this member; NULL: not told */
    void *arg;                  /**< the callbacks' */
    uint64_t outside;           /**< members that are not in view 0, bit by rank: loco_view_join */
    loco_view_save_t *save;     /**< all members have both of these, or none has: then who comes */
    loco_view_load_t *load;     /**< begins with the messages of its first view */
    size_t chunk;               /**< bytes of state that are carried at a time; 0: 256 KiB */
} loco_view_options_t;

/** Make a view. All members of `group`, 64 at most, make it, with the same arguments (`parent` and
 * `name`: loco(3)); NULL options are all defaults. Local; usable once the runtime is ready
 * (loco_runtime_wait_ready). Starts a thread, which sleeps while nothing changes. Errors:
 * LOCO_ERR_ARG (the log says which argument), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM
 * (no thread), LOCO_ERR_STATE (in a handler). */
int loco_view_create(loco_runtime_t *rt, const char *parent, const char *name,
                     const loco_group_t *group, const loco_view_options_t *options,
                     loco_view_t **view);

/** Leave it: the others go on without this process. Its multicasts are destroyed with it; what this
 * process sent and was not delivered yet may be lost (loco_multicast_wait_delivered). Who was not
 * ready when a member died closes its runtime, too: some may not hear of it otherwise. Not in a
 * handler or in `changed`; NULL is allowed. */
void loco_view_destroy(loco_view_t *view);

/** Make a multicast on a view, as loco_multicast_create() does, of all members of the view's group:
 * all make the same ones, in the same order. It is destroyed with the view, not by
 * loco_multicast_destroy(). Errors: those of loco_multicast_create; LOCO_ERR_ARG for
 * LOCO_MULTICAST_UNORDERED; LOCO_ERR_FULL (there are as many as the options say);
 * LOCO_ERR_PEER_DEAD (a member has gone: they are made while all are there); what ended the
 * view. */
int loco_view_multicast(loco_view_t *view, const char *name,
                        const loco_multicast_options_t *options, loco_multicast_t **m);

/** The present view: its number; the ranks of its members, ascending, into `members`, which has
 * room for those of the group, and how many. Each may be NULL. Or what has ended it. */
int loco_view_members(loco_view_t *view, uint64_t *number, int *members, int *n);

/** The number of the view in which a message of multicast `m` of this view was delivered: by
 * loco_delivery_t's `number`. */
uint64_t loco_view_of(loco_view_t *view, const loco_multicast_t *m, uint64_t number);

/** Become a member, or go outside, where this process is none but may come again: for `timeout_ns`
 * at most (LOCO_FOREVER: without limit; 0: only ask). What this process sends while it is outside
 * waits until it is a member. Of those that have the state the last does not go out before another
 * has it. Concurrent. LOCO_OK: it is so. LOCO_ERR_TIMEOUT: it has asked, and it will be so later.
 * LOCO_ERR_AGAIN: the same, in a handler or in `changed`, where it would have to wait. Or what has
 * ended the view: LOCO_ERR_PEER_DEAD if all members, or all that had the state, are gone. */
int loco_view_join(loco_view_t *view, int64_t timeout_ns);
int loco_view_leave(loco_view_t *view, int64_t timeout_ns);

/** Wait until view `number` or a later one is installed here: for `timeout_ns` at most
 * (LOCO_FOREVER: without limit). LOCO_ERR_TIMEOUT, or what has ended it. LOCO_ERR_AGAIN: in a
 * handler or in `changed`, where it would have to wait. */
int loco_view_wait(loco_view_t *view, uint64_t number, int64_t timeout_ns);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
