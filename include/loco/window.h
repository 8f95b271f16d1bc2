/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_WINDOW_H
#define LOCO_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/ack.h>
#include <loco/op.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup window Windows: what an MPI window does, without MPI
 *
 * A window is memory of one of four kinds at every member of a group. Put, get and accumulate
 * access it inside epochs, which fence, post/start/complete/wait, or locks open.
 *
 * Its semantics are those of the MPI standard's one-sided chapter (MPI 3.1, chapter 11). Statuses
 * stand for its error classes: LOCO_ERR_RANGE (MPI_ERR_RMA_RANGE), LOCO_ERR_STATE
 * (MPI_ERR_RMA_SYNC), LOCO_ERR_ATTACH, LOCO_ERR_SHARED, LOCO_ERR_ARG. An erroneous call writes
 * nothing. Calls that need a dead member return LOCO_ERR_PEER_DEAD, and no call waits for it for
 * ever. A window has no name and is not an endpoint: its members meet over the exchange.
 *
 * | call                       | concurrent with the others, other threads | blocks |
 * |----------------------------|-------------------------------------------|--------|
 * | _create, _destroy          | create: of other windows, with separate exchanges; destroy: with nothing | until all members call it |
 * | _put, _get, _accumulate    | yes                                       | until local buffers may be reused |
 * | the same with an ack       | yes                                       | no |
 * | _put, _get, LOCO_UNTIL_FLUSH | yes                                     | no |
 * | _compare_swap              | yes                                       | until the result is available |
 * | _lock, _lock_all           | yes, to other targets                     | until it is granted |
 * | _unlock..., _flush...      | yes                                       | until its writes are placed and its gets are complete |
 * | _flush_local..., _sync     | yes                                       | until local buffers may be reused |
 * | _fence, _wait, _start      | not with calls that open or end epochs of this process | until the others arrive |
 * | _post, _complete, _test    | the same                                  | no (complete: its writes) |
 * | _attach, _detach           | yes                                       | no |
 *
 * With one_thread in the specification, no calls may be concurrent in this process.
 * Source: lock words and counters are our own (channels/window/window_lock.c, window_active.c),
 * the barrier above 16 members Hensgen, Finkel and Manber, 1988.
 *
 * \see loco_mpi(3), loco_op(3), loco_rw_lock(3)
 * @{ */
typedef struct loco_window loco_window_t;

/** Whose memory it is, and how it is reached. */
enum loco_window_kind {
    LOCO_WINDOW_ALLOCATE,   /**< pool memory */
    LOCO_WINDOW_SHARED,     /**< pool memory; all members' parts contiguous in one extent */
    LOCO_WINDOW_CREATE,     /**< the caller's memory */
    LOCO_WINDOW_DYNAMIC     /**< memory attached and detached later; offsets are addresses */
};

/** What one member makes a window from. Zero is the usual choice of what is not named. */
struct loco_window_spec {
    enum loco_window_kind kind;
    void *base;                 /**< CREATE: the caller's memory */
    size_t size;                /**< bytes of this member's part; members may differ */
    size_t disp_unit;           /**< passed to the other members, not used here */
    size_t align;               /**< ALLOCATE, SHARED: of the base; 0: a cache line */
    bool noncontiguous;         /**< SHARED: parts need not be contiguous (page aligned) */
    bool no_locks;              /**< lock and lock_all are errors (LOCO_ERR_STATE) */
    bool bulk_accumulate;       /**< accumulates take the target's lock, whatever the type */
    bool one_thread;            /**< this process calls from one thread at a time: cheaper */
};

/** Create a window. The call is collective over `exchange`, whose members become the window's
 * members in rank order. All members pass the same kind, noncontiguous, no_locks and
 * bulk_accumulate; the other fields of the specification may differ. If any member fails, all
 * calls fail; a member whose own part succeeded returns the status of the failed one. Errors:
 * LOCO_ERR_ARG (an invalid kind, unit, alignment or base), LOCO_ERR_MISMATCH (members differ; the
 * log of each says in what), LOCO_ERR_NO_MEMORY, LOCO_ERR_SHARED (SHARED, and a member cannot map
 * it), LOCO_ERR_UNSUPPORTED (no fabric reaches a member), those of the exchange. */
int loco_window_create(loco_runtime_t *rt, const struct loco_exchange *exchange,
                       const struct loco_window_spec *spec, loco_window_t **win);
/** Destroy a window. The call is collective over the members, and a barrier: afterwards no member
 * accesses the memory through the window. The memory of CREATE stays the caller's. LOCO_ERR_STATE:
 * called inside an epoch; the window stays. */
int loco_window_destroy(loco_window_t *win);

/** The number of members, and this process's rank among them. Local. */
int loco_window_members(const loco_window_t *win);
int loco_window_rank(const loco_window_t *win);

/** The base of this member's part; NULL for DYNAMIC and for size 0. Local. */
void *loco_window_base(const loco_window_t *win);

/** The bytes of a member's part, and its displacement unit; 0 if there is no such rank. Local. */
size_t loco_window_size(const loco_window_t *win, int rank);
size_t loco_window_disp_unit(const loco_window_t *win, int rank);

/** The address at which `rank`'s part is mapped in this process. LOCO_ERR_SHARED: it cannot be
 * mapped. Any of the outputs may be NULL. */
int loco_window_query(loco_window_t *win, int rank, size_t *size, size_t *disp_unit, void **base);

/** The group of members, in rank order. It lives as long as the window. */
const loco_group_t *loco_window_group(const loco_window_t *win);

/** One run of bytes: local memory against the target's part at `offset` bytes (DYNAMIC: at that
 * address in the target). */
struct loco_span {
    void *local;
    uint64_t offset;
    size_t len;
};

/** Passed instead of an ack: the call completes with its epoch or with a flush. */
#define LOCO_UNTIL_FLUSH ((loco_ack_t *)-1)

/** Put or get a list of `n` runs, to or from member `rank`. Nothing is moved unless every run is
 * inside the target's part and the target is in an access epoch. With `ack` NULL the call returns
 * when local buffers may be reused, otherwise when the operations are posted. Flush, unlock,
 * complete and fence, by any thread, complete them at the target; they also wait for gets.
 *
 * In a window with `one_thread`, short puts without their own ack may be delayed until the next
 * call below that synchronizes, including sync and flush_local. A target may poll for the data
 * after that call.
 *
 * With LOCO_UNTIL_FLUSH local buffers are in use until one of those calls, or flush_local, which
 * then also reports a failure. These are the semantics of MPI_Put and MPI_Get. (Within a node, and
 * for DYNAMIC windows, the operation may be done when the call returns.) */
int loco_window_put(loco_window_t *win, int rank, const struct loco_span *spans, size_t n,
                    loco_ack_t *ack);
int loco_window_get(loco_window_t *win, int rank, const struct loco_span *spans, size_t n,
                    loco_ack_t *ack);

/** An accumulate combines elements of `type`, which are contiguous in `operand` (not read for
 * NO_OP), into the target's elements. The old elements go to `result` unless it is NULL. `spans`
 * gives the locations of the target's elements, in order (offset and len in whole elements;
 * `local` is not used; the padding behind the last element may lie outside). It is atomic per
 * element with every other accumulate, fetch_and_op and compare_and_swap of that type on this
 * window. Accumulates of one origin to one location happen in order. */
struct loco_accumulate {
    enum loco_type type;
    enum loco_op op;
    const void *operand;
    void *result;
    const struct loco_span *spans;
    size_t nspans;
};

/** Accumulate at member `rank`. With `ack` NULL the call returns when operand and result may be
 * used, otherwise when the operation is posted. LOCO_ERR_ARG: the operation is not defined on the
 * type.
 *
 * With one_thread, short accumulates without result and ack, into memory of CREATE or DYNAMIC on
 * one node, may be aggregated behind the first one since the last synchronization. The next call
 * that synchronizes, including sync and flush_local, or any other operation to that member
 * completes them. If their memory is no longer accessible then, that call returns the error.
 *
 * To a member of another machine over TCP, accumulates of 8-byte elements without result are like
 * puts: they are executed there in their order, before any later operation of this process, and
 * complete with the next flush. */
int loco_window_accumulate(loco_window_t *win, int rank, const struct loco_accumulate *acc,
                           loco_ack_t *ack);

/** Replace one element by `desired` if it equals `expected`; the old element goes to `result`.
 * `type` is an integer, logical or byte type of at most 8 bytes. The element is at `offset`, as in
 * a span. */
int loco_window_compare_swap(loco_window_t *win, int rank, enum loco_type type, uint64_t offset,
                             const void *expected, const void *desired, void *result);

/** Active target. Flags are hints of the standard's asserts; a wrong hint is an error of the
 * program. Fence is collective. `ranks` of post and start are n distinct members. Once start, wait
 * or test has returned LOCO_ERR_PEER_DEAD, post and start return it, too, because it is unknown
 * whose posts will still arrive. */
enum loco_window_assert {
    LOCO_ASSERT_NOCHECK = 1, LOCO_ASSERT_NOSTORE = 2, LOCO_ASSERT_NOPUT = 4,
    LOCO_ASSERT_NOPRECEDE = 8, LOCO_ASSERT_NOSUCCEED = 16
};

/** End the epoch, wait for all members, and begin the next epoch. Collective. When it returns, all
 * earlier puts, gets and accumulates of the members are complete everywhere. */
int loco_window_fence(loco_window_t *win, int asserts);

/** Expose this member's part to the `n` members of `ranks`, until loco_window_wait. The call does
 * not wait for them. */
int loco_window_post(loco_window_t *win, int n, const int *ranks, int asserts);

/** Begin an access epoch to the `n` members of `ranks`: wait for their posts (with
 * LOCO_ASSERT_NOCHECK the program guarantees that they have posted). */
int loco_window_start(loco_window_t *win, int n, const int *ranks, int asserts);

/** End the access epoch of start: all puts are complete at the targets. The call does not wait for
 * the targets. */
int loco_window_complete(loco_window_t *win);

/** End the exposure epoch of post: wait until all members in its `ranks` have completed. */
int loco_window_wait(loco_window_t *win);

/** Like loco_window_wait, but return at once; `*done` says whether the exposure epoch is over. */
int loco_window_test(loco_window_t *win, bool *done);

/** Passive target. Locks are fair: neither shared nor exclusive, neither lock nor lock_all requests
 * starve. A lock costs 1 atomic. An exclusive lock costs 2 in a window that members also lock as a
 * whole: on one node while they do, between nodes from then on. */
enum loco_lock_kind { LOCO_LOCK_SHARED = 1, LOCO_LOCK_EXCLUSIVE = 2 };

/** Open an epoch to member `rank`: wait for its lock, shared or exclusive. Locks of this process
 * belong to the process, not to a thread. With LOCO_ASSERT_NOCHECK no lock is taken.
 * LOCO_ERR_STATE: this process has locked it, or all, already; the window has no locks; or
 * another kind of epoch is open. */
int loco_window_lock(loco_window_t *win, enum loco_lock_kind kind, int rank, int asserts);

/** End that epoch: all puts of any thread of this process are complete at the target. */
int loco_window_unlock(loco_window_t *win, int rank);

/** Open an epoch to all members, shared, with one lock for all. Between nodes the first such call
 * of a window takes the shared lock of each member in turn. */
int loco_window_lock_all(loco_window_t *win, int asserts);

/** End that epoch, like loco_window_unlock for all members. */
int loco_window_unlock_all(loco_window_t *win);

/** Complete, at the target, all operations of any thread of this process to member `rank`; or to
 * all members. The epoch stays open. LOCO_ERR_STATE: no lock epoch is open. */
int loco_window_flush(loco_window_t *win, int rank);
int loco_window_flush_all(loco_window_t *win);

/** The same, but only until local buffers may be reused and results are available. The operations
 * then arrive even if this process makes no further call. */
int loco_window_flush_local(loco_window_t *win, int rank);
int loco_window_flush_local_all(loco_window_t *win);

/** Make the stores of this process to its own part and those of other processes visible to each
 * other (a memory barrier). It waits for no other process. It sends puts that were delayed, and
 * returns their status. */
int loco_window_sync(loco_window_t *win);

/** DYNAMIC only: make `len` bytes at `base` accessible, or no longer accessible. Both calls are
 * local and notify no member. An access to bytes that are not attached returns LOCO_ERR_RANGE; an
 * access during a detach may still succeed. The cost grows with the logarithm of the number of
 * attached regions. Errors, after which nothing has changed: LOCO_ERR_ATTACH (it overlaps attached
 * memory; no attached region begins there), LOCO_ERR_ARG, LOCO_ERR_STATE (the window is of another
 * kind), LOCO_ERR_NO_MEMORY (of attach; over RDMA also if no more memory can be pinned). */
int loco_window_attach(loco_window_t *win, void *base, size_t len);
int loco_window_detach(loco_window_t *win, const void *base);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
