/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TREE_H
#define LOCO_TREE_H

#include <loco/bytes.h>
#include <loco/tx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup tree Trees: ordered maps in a store
 *
 * A tree is a map from keys to values, ordered by its keys. Keys and values are byte strings (\ref
 * bytes). Use it for ranges, prefixes, and the next or the first key.
 *
 *     loco_tx_open(store, &tx);
 *     loco_tree_open(tx, loco_store_root(store, 1), NULL, &tree);
 *     loco_tree_put(tree, loco_text("apples"), loco_text("12"));
 *     loco_tx_begin(tx);
 *     loco_tree_get(tree, loco_text("apples"), text, sizeof text, &len);
 *     loco_tree_delete(tree, loco_text("pears"));
 *     status = loco_tx_commit(tx);
 *
 * A tree is stored in the objects of a store (\ref store) and is found through one of them, a root
 * of the store. Any number of trees share a store, and a transaction may change several of them,
 * and other objects.
 *
 * A call is part of the open transaction of the tree's transaction handle. If there is none, the
 * call is a transaction by itself, which is repeated after conflicts until it succeeds.
 *
 * Cost: a get is one read of a leaf. A change is one compare-and-swap of a new copy of the leaf. A
 * scan is one read for each leaf.
 *
 * | call                     | concurrent | blocks | when it has returned LOCO_OK |
 * |--------------------------|------------|--------|------------------------------|
 * | _open, _close            | the handle belongs to one thread, that of its transactions | open: reads | |
 * | _get                     | the same   | a read, and one per level that is not cached | the value at some time during the call |
 * | _put, _insert, _update, _delete, _compare_set, _add | the same | a read and a commit | every later get sees it |
 * | _get_many, _put_many     | the same   | the same, once for up to 64 leaves | all of them at one instant |
 * | _scan, _cursor_...       | the same   | a read for up to 16 leaves | see below |
 *
 * Order: a tree is linearizable. Each call that is a transaction by itself takes effect at one
 * instant between its begin and its return. Within a transaction all calls take effect with its
 * commit, and return LOCO_ERR_CONFLICT after a conflict (\ref tx). A key that the transaction
 * looked up without finding it, or that a scan did not meet, still does not exist when the
 * transaction commits. An error of a change leaves the transaction unchanged, except for conflicts
 * and dead hosts. This includes LOCO_ERR_FULL in the middle of a leaf's split.
 *
 * Process failures: every change, including the split of a leaf, is one transaction. A process
 * that dies therefore leaves a complete tree. LOCO_ERR_PEER_DEAD: a host of the store is dead, and
 * it stored the leaf of that key, or a node above it.
 *
 * Memory: a leaf is one object of about `leaf_bytes`, for 10 to 20 entries of 16 bytes. A value of
 * more than 104 bytes has its own object. Changing such a value changes that object only, so it
 * does not conflict with changes of neighbours. A short value also gets its own object when it is
 * updated by a handle whose commits conflict at this leaf more than once in three. It keeps this
 * object until the key is deleted. A leaf that loses its last entry is removed in the same
 * transaction, unless it is the first of several below its parent; its parents are removed when
 * nothing is below them. A tree that is used as a queue, with inserts at one end and deletes at
 * the other, stays as small as its content.
 *
 * Source: B-link trees (Lehman and Yao 1981), for readers with old copies of the upper nodes;
 * nodes are copied, never changed in place, and each change is a transaction of the store.
 *
 * \see loco_bytes(3), loco_hash(3), loco_store(3), loco_tx(3)
 * @{ */
typedef struct loco_tree loco_tree_t;

#define LOCO_TREE_KEY_MAX 1024          /**< bytes of a key, at most */
#define LOCO_TREE_VALUE_MAX 64000       /**< bytes of a value, at most */

/** How this handle uses a tree. Zero selects the default. Handles may have different options. */
typedef struct loco_tree_options {
    size_t leaf_bytes;      /**< a leaf with more is split: 64 to 16,384; 0: 1,024 */
    size_t inner_bytes;     /**< and a node above the leaves; 0: 2048 */
    size_t cached;          /**< nodes above the leaves that this handle keeps copies of, at least;
                                 0: 4096 */
} loco_tree_options_t;

/** Open the tree of that root; create it if the root has no value. The handle belongs to the thread
 * of `tx`, and takes part in that handle's transactions. Close it before `tx`; NULL is allowed.
 * `options` may be NULL. Errors: LOCO_ERR_ARG (the options, or no object of the store),
 * LOCO_ERR_STATE (a transaction is open), LOCO_ERR_MISMATCH (the root's value is not a tree),
 * LOCO_ERR_FULL, LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD. */
int loco_tree_open(loco_tx_t *tx, loco_object_t root, const loco_tree_options_t *options,
                   loco_tree_t **tree);
void loco_tree_close(loco_tree_t *tree);

/** Copy the value of a key: at most `room` bytes; `*len` is its size. If the value is longer than
 * `room`, the call still returns LOCO_OK, and the copy is truncated: compare `*len` with `room`.
 * Errors: LOCO_ERR_NOT_FOUND,
 * LOCO_ERR_SIZE (the key is longer than LOCO_TREE_KEY_MAX), LOCO_ERR_PEER_DEAD; within a
 * transaction those of loco_tx_read_some. */
int loco_tree_get(loco_tree_t *tree, loco_bytes_t key, void *value, size_t room, size_t *len);

/** Set the value of a key, whether it exists or not. Errors: LOCO_ERR_SIZE (of key or value),
 * LOCO_ERR_FULL (no memory left at the hosts; within a transaction also LOCO_TX_WRITES_MAX: a
 * change writes 1 object, and some more if a leaf splits), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD.
 * A change that is a transaction by itself returns LOCO_ERR_FULL only for lack of memory. */
int loco_tree_put(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value);

/** Like loco_tree_put for a key that does not exist: else LOCO_ERR_EXISTS. */
int loco_tree_insert(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value);

/** Like loco_tree_put for a key that exists: else LOCO_ERR_NOT_FOUND. */
int loco_tree_update(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t value);

/** Remove a key. Errors: LOCO_ERR_NOT_FOUND, and those of loco_tree_put. */
int loco_tree_delete(loco_tree_t *tree, loco_bytes_t key);

/** Set the value of a key to `desired` if and only if it is `expected`. Errors: LOCO_ERR_DIFFERS,
 * LOCO_ERR_NOT_FOUND, and those of loco_tree_put. */
int loco_tree_compare_set(loco_tree_t *tree, loco_bytes_t key, loco_bytes_t expected,
                          loco_bytes_t desired);

/** Add to a number: a value of 8 bytes in the processor's byte order. A key that does not exist
 * gets the value `by`. `*before` is the old number, 0 if there was none; `before` may be NULL.
 * Errors: LOCO_ERR_SIZE (its value has another size), and those of loco_tree_put. */
int loco_tree_add(loco_tree_t *tree, loco_bytes_t key, uint64_t by, uint64_t *before);

/** Get `n` keys together, all at one instant. At most `room` bytes of the value of keys[i] are
 * copied to `values` + i * `room`. Its size goes to lens[i], and the result that loco_tree_get
 * would have returned to statuses[i]. Returns LOCO_OK even if some keys do not exist; after
 * another error all results are undefined. This is faster than `n` calls: over a network up to 64
 * leaves are read in one round trip if they were read before, else in two. Errors: those of
 * loco_tree_get except LOCO_ERR_NOT_FOUND, and LOCO_ERR_FULL of its transaction
 * (LOCO_TX_READS_MAX: leaves, and values with their own objects). */
int loco_tree_get_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys, void *values,
                       size_t room, size_t *lens, int *statuses);

/** Set the values of `n` keys, all at one instant or none; by itself the call is one transaction. A
 * key may occur twice; the later value stays. After an error nothing was changed, and an open
 * transaction is as it was before the call. The leaves are read together, as in
 * loco_tree_get_many. Errors: those of loco_tree_put; LOCO_ERR_FULL if the keys are in more leaves
 * than one transaction writes (LOCO_TX_WRITES_MAX, splits included): put them in parts. */
int loco_tree_put_many(loco_tree_t *tree, size_t n, const loco_bytes_t *keys,
                       const loco_bytes_t *values);

/** A function that is called with an entry; both strings are valid until it returns. It returns 0
 * to continue. It may call all functions on trees. */
typedef int loco_tree_visit_fn(void *ctx, loco_bytes_t key, loco_bytes_t value);

/** Call visit(ctx, key, value) for the entries from key `*from` (included) to `*to` (excluded), in
 * the order of their keys, for at most `limit` of them, until it returns a number other than 0,
 * which is then returned. NULL means from the first, or to the last. `limit` 0 means all. For the
 * keys that begin with a string, `to` is its loco_prefix_end.
 *
 * Outside a transaction the scan sees the entries of each leaf at one instant during the call, and
 * different leaves at different instants. A value with its own object is read after its leaf. A
 * key that exists all the time is seen, once. Changes that `visit` makes beyond the current leaf
 * are seen. Within a transaction the scan and all other reads see one instant, and such changes
 * are seen, too.
 *
 * Over a network up to 16 following leaves are read in one round trip, and so are up to 64 values
 * with their own objects. Leaves beyond `*to` are not read, and fewer are read if `limit` is
 * small. If `visit` ends a scan within a transaction early, some leaves may have been read
 * needlessly, and changes of these by others are conflicts.
 *
 * Errors: LOCO_ERR_SIZE (of a key), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD; within a transaction
 * those of loco_tx_read_some. */
int loco_tree_scan(loco_tree_t *tree, const loco_bytes_t *from, const loco_bytes_t *to,
                   uint64_t limit, loco_tree_visit_fn *visit, void *ctx);

/** A place in a tree, between two entries, or before or behind all: what a scan does, step by step,
 * in both directions.
 *
 *     loco_tree_cursor_seek_last(cursor);
 *     while ((status = loco_tree_cursor_prev(cursor, &key, &value)) == LOCO_OK)
 *         print(key, value);                                  (from the last key down)
 */
typedef struct loco_tree_cursor loco_tree_cursor_t;

/** Create a cursor before key `*from`; NULL: before the first. It reads nothing yet. Close it
 * before the tree; NULL is allowed. Errors: LOCO_ERR_SIZE, LOCO_ERR_NO_MEMORY. */
int loco_tree_cursor_open(loco_tree_t *tree, const loco_bytes_t *from,
                          loco_tree_cursor_t **cursor);
void loco_tree_cursor_close(loco_tree_cursor_t *cursor);

/** Move the cursor before that key; NULL: before the first. Errors: LOCO_ERR_SIZE. */
int loco_tree_cursor_seek(loco_tree_cursor_t *cursor, const loco_bytes_t *from);
/** Move the cursor behind the last entry. */
void loco_tree_cursor_seek_last(loco_tree_cursor_t *cursor);

/** Return the next entry, and move the cursor behind it. Its strings are valid until the next call
 * with this cursor. Errors: LOCO_ERR_NOT_FOUND (there is none), and those of loco_tree_scan.
 *
 * Within a transaction the cursor sees what loco_tree_scan sees; call seek in each transaction
 * that uses the cursor. Outside a transaction it sees each leaf at one instant since the seek.
 * Other calls on the tree discard the leaves that it has read ahead. */
int loco_tree_cursor_next(loco_tree_cursor_t *cursor, loco_bytes_t *key, loco_bytes_t *value);
/** Return the previous entry, and move the cursor before it. After loco_tree_cursor_next this is
 * the same entry again. In all else it is like loco_tree_cursor_next. */
int loco_tree_cursor_prev(loco_tree_cursor_t *cursor, loco_bytes_t *key, loco_bytes_t *value);

/** Statistics of this handle. Changes that were repeated after conflicts count each time. */
typedef struct {
    uint64_t lookups;       /**< leaves that were looked up by a key, */
    uint64_t stale;         /**< times that what was known of upper nodes led to no such leaf, */
    uint64_t walked_right;  /**< and steps from a leaf or node to its right neighbour */
    uint64_t ahead;         /**< leaves that were read together with others, over a network */
    uint64_t splits;        /**< nodes that were split, */
    uint64_t removed;       /**< and that were taken out, being empty */
    uint64_t hot;           /**< entries that got their own object, because their leaf was hot */
} loco_tree_stats_t;

/** Fill in `*stats`. Local; by the thread of the handle. */
void loco_tree_stats(const loco_tree_t *tree, loco_tree_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
