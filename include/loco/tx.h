/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TX_H
#define LOCO_TX_H

#include <loco/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup tx Transactions on the objects of a store
 *
 * A transaction reads objects of a store and changes some of them, atomically. Its changes are
 * private until loco_tx_commit, which applies all of them at one instant, or none.
 *
 *     static int transfer(loco_tx_t *tx, void *arg)
 *     {
 *         struct transfer *t = arg;
 *         int64_t a, b;
 *         int status = loco_tx_read(tx, t->from, &a, sizeof a);
 *
 *         if (status == LOCO_OK)
 *             status = loco_tx_read(tx, t->to, &b, sizeof b);
 *         if (status != LOCO_OK)
 *             return status;
 *         a -= t->amount;
 *         b += t->amount;
 *         status = loco_tx_write(tx, t->from, &a, sizeof a);
 *         return status == LOCO_OK ? loco_tx_write(tx, t->to, &b, sizeof b) : status;
 *     }
 *     ...
 *     status = loco_tx_run(tx, transfer, &args);
 *
 * Cost: a read is one read. A commit is one compare-and-swap if the transaction changes one object
 * and has read no other, else 2n + 2 operations for n changed objects, and one more if it has read
 * others.
 *
 * Order: transactions are strictly serializable. Each takes effect at one instant between its
 * begin and the return of its commit. All reads of a transaction see one instant, even if it can
 * no longer commit, unless it was begun with LOCO_TX_RELAXED.
 *
 * | call                  | concurrent | blocks | when it has returned LOCO_OK |
 * |-----------------------|------------|--------|------------------------------|
 * | _open, _close         | yes        | close: until operations in flight are done | |
 * | _begin, _write, _free, _abort, _stats | the handle belongs to one thread | no | |
 * | _read, _read_some     | the same   | reads; while another commit is decided | all values read so far existed at one instant |
 * | _read_many, _validate | the same   | the same | the same |
 * | _new                  | the same   | sometimes a read | the object exists for this transaction |
 * | _commit               | the same   | until it is decided | transactions that begin later see it |
 * | _run                  | the same   | the same, and pauses | the same |
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_CONFLICT | from a read, a validate or a commit: another transaction conflicted, and nothing was changed. Afterwards only loco_tx_abort and loco_tx_begin have an effect. Begin the transaction again, as loco_tx_run does |
 * | LOCO_ERR_PEER_DEAD | a host that the call needs is dead. From a commit: it is unknown whether the objects at other hosts were changed (all of them or none) |
 * | LOCO_ERR_STATE | the call is outside a transaction |
 *
 * Any other error of a call leaves the transaction unchanged.
 *
 * Waiting: no call waits for a process that is not in a commit. A commit takes a few network
 * operations. A process that meets an object of an unfinished commit waits for it for
 * LOCO_TX_PATIENCE (1 ms) at most, and then undoes that commit. It does not wait if the committing
 * process is known to be dead.
 *
 * \see loco_hash(3), loco_store(3), loco_tree(3)
 * @{ */
typedef struct loco_tx loco_tx_t;

#define LOCO_TX_WRITES_MAX 64           /**< objects that one transaction changes, at most */
#define LOCO_TX_READS_MAX 1024          /**< objects that it reads, those it changes included */
#define LOCO_ANY_HOST (-1)

/** Open a handle for transactions of this thread, which may use it for any number of them. The same
 * thread closes it; NULL is allowed. Errors: LOCO_ERR_STATE (the store's `threads` handles are
 * open here already), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD. */
int loco_tx_open(loco_store_t *store, loco_tx_t **tx);
void loco_tx_close(loco_tx_t *tx);

/** Begin a transaction. Errors: LOCO_ERR_STATE (one is open already). */
int loco_tx_begin(loco_tx_t *tx);

/** Flags of loco_tx_begin_as. */
enum loco_tx_flags {
    LOCO_TX_RELAXED = 1     /**< reads need not see one instant before the commit, which checks
                                 all of them: this saves reads over a network */
};
int loco_tx_begin_as(loco_tx_t *tx, unsigned flags);

/** Copy the value of an object, of exactly `len` bytes, to `value`. The value includes earlier
 * changes of this transaction. Errors: LOCO_ERR_NOT_FOUND (the object does not exist now),
 * LOCO_ERR_SIZE (its value has another size), LOCO_ERR_ARG (not of this store), LOCO_ERR_FULL
 * (LOCO_TX_READS_MAX), LOCO_ERR_CONFLICT, LOCO_ERR_PEER_DEAD. */
int loco_tx_read(loco_tx_t *tx, loco_object_t object, void *value, size_t len);

/** Like loco_tx_read for a value of any size: at most `room` bytes are copied, and `*len` is its
 * size. A value that is longer is truncated, and the call still returns LOCO_OK. */
int loco_tx_read_some(loco_tx_t *tx, loco_object_t object, void *value, size_t room, size_t *len);

/** Read `n` objects together. Their values of `len` bytes each go to `values`, and the results that
 * loco_tx_read would have returned go to `statuses`. Returns the first of these that is neither
 * LOCO_OK nor LOCO_ERR_NOT_FOUND, or LOCO_OK. This is faster than n calls: over a network the
 * reads are in flight together, and on one node the processor's loads are. */
int loco_tx_read_many(loco_tx_t *tx, size_t n, const loco_object_t *objects, void *values,
                      size_t len, int *statuses);

/** Set the value of an object to `len` bytes, 0 to LOCO_STORE_VALUE_MAX; `value` may be reused when
 * the call returns. The transaction need not have read the object; then this call checks that it
 * exists, as a read does. Errors: those of loco_tx_read, where LOCO_ERR_SIZE refers to `len`;
 * LOCO_ERR_FULL (LOCO_TX_WRITES_MAX, or no memory left at its host), LOCO_ERR_NO_MEMORY. */
int loco_tx_write(loco_tx_t *tx, loco_object_t object, const void *value, size_t len);

/** Create an object with that value at a host: a rank, or LOCO_ANY_HOST (this process, if it is
 * one). Others can access it once the transaction is committed and they know its handle. Errors:
 * LOCO_ERR_FULL (LOCO_TX_WRITES_MAX, or no memory or cell left there), LOCO_ERR_SIZE, LOCO_ERR_ARG
 * (no host), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD. */
int loco_tx_new(loco_tx_t *tx, int host, const void *value, size_t len, loco_object_t *object);

/** Remove an object. Its handle may be reused for another object later. Errors: those of
 * loco_tx_write. */
int loco_tx_free(loco_tx_t *tx, loco_object_t object);

/** Apply all changes, or none. Errors: LOCO_ERR_CONFLICT, LOCO_ERR_PEER_DEAD. The transaction has
 * ended, whatever the call returns. */
int loco_tx_commit(loco_tx_t *tx);
/** End the transaction without any change. Allowed if none is open. */
void loco_tx_abort(loco_tx_t *tx);

/** Check whether all values that were read are still current: LOCO_OK, LOCO_ERR_CONFLICT or
 * LOCO_ERR_PEER_DEAD. The commit of a transaction that only reads does the same. */
int loco_tx_validate(loco_tx_t *tx);

/** Begin a transaction, call body(tx, arg), and commit. After LOCO_ERR_CONFLICT, from the body or
 * the commit, repeat this with growing random pauses, until the transaction is committed. If the
 * body returns another error, or a positive number, the transaction is aborted and that value
 * returned. The body may be called many times, so it must not change anything except through `tx`.
 */
typedef int loco_tx_body_fn(loco_tx_t *tx, void *arg);
int loco_tx_run(loco_tx_t *tx, loco_tx_body_fn *body, void *arg);

/** Statistics of this handle (\ref store). Local. */
void loco_tx_stats(const loco_tx_t *tx, loco_store_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
