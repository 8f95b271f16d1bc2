/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_HASH_H
#define LOCO_HASH_H

#include <loco/bytes.h>
#include <loco/tx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup hash Hash tables: maps in a store, in no order
 *
 * A hash table is a map from keys to values, both byte strings (\ref bytes). Use it for keys that
 * are looked up one by one; use a tree (\ref tree) if you need keys in order, or ranges of them.
 *
 *     loco_tx_open(store, &tx);
 *     loco_hash_open(tx, loco_store_root(store, 2), NULL, &hash);
 *     loco_hash_put(hash, loco_text("ada"), loco_text("+44 20 7946 0018"));
 *     loco_tx_begin(tx);
 *     loco_hash_get(hash, loco_text("ada"), text, sizeof text, &len);
 *     loco_hash_delete(hash, loco_text("bob"));
 *     status = loco_tx_commit(tx);
 *
 * A table is stored in a store (\ref store) and is found through one of its objects, a root of the
 * store. Any number of tables and trees share a store, and a transaction may change several of
 * them, and other objects.
 *
 * A call is part of the open transaction of the table's transaction handle. If there is none, the
 * call is a transaction by itself, which is repeated after conflicts until it succeeds.
 *
 * Cost: a get is one read of a leaf, whatever the number of entries, once the handle has cached
 * the part of the directory that leads there. The directory is small: 8 bytes per leaf, or a few
 * times that. A change is one compare-and-swap of a new copy of the leaf.
 *
 * | call                     | concurrent | blocks | when it has returned LOCO_OK |
 * |--------------------------|------------|--------|------------------------------|
 * | _open, _close            | the handle belongs to one thread, that of its transactions | open: reads | |
 * | _get                     | the same   | a read, and one more if nothing is cached | the value at some time during the call |
 * | _put, _insert, _update, _delete, _compare_set, _add | the same | a read and a commit | every later get sees it |
 * | _get_many, _put_many     | the same   | the same, once for up to 64 leaves | all of them at one instant |
 * | _scan                    | the same   | a read for up to 16 leaves, and for up to 64 values that have their own objects | see below |
 *
 * Order: a table is linearizable. Each call that is a transaction by itself takes effect at one
 * instant between its begin and its return. Within a transaction all calls take effect with its
 * commit, and return LOCO_ERR_CONFLICT after a conflict (\ref tx). A key that the transaction
 * looked up without finding it, or that a scan did not meet, still does not exist when the
 * transaction commits. An error of a change leaves the transaction unchanged, except for conflicts
 * and dead hosts. This includes LOCO_ERR_FULL in the middle of a leaf's split.
 *
 * Growth: a table grows one leaf at a time. There is no rehashing, and no call waits for growth.
 * If a call finds a leaf that is missing in the directory, it enters the leaf with one more short
 * transaction, after the call or after the commit of its transaction. The numbers of loco_tx_stats
 * include these. The directory does not shrink.
 *
 * Process failures: every change, including the split of a leaf, is one transaction, and leaves
 * that are missing in the directory are still found. A process that dies therefore leaves a
 * complete table. LOCO_ERR_PEER_DEAD: a host of the store is dead, and it stored the leaf of that
 * key, or an object that leads to it.
 *
 * Keys may be of any kind, for example consecutive numbers. SipHash spreads them, with a random
 * secret for each table, so an attacker who chooses keys cannot make them collide.
 *
 * Memory: a leaf is one object of about `leaf_bytes`, for 17 to 34 entries of 16 bytes. A value of
 * more than 104 bytes has its own object. Changing such a value changes that object only, so it
 * does not conflict with changes of neighbours. Leaves that lose their last entry are removed. The
 * directory distinguishes 16 million leaves. Lookups in a table with many more leaves read several
 * of them, so give such a table a larger `leaf_bytes`.
 *
 * Source: a chain of leaves with links to the right (Lehman and Yao 1981) in the order of hashes,
 * as in split-ordered lists (Shalev and Shavit 2006); its directory is that of extendible hashing
 * (Fagin, Nievergelt, Pippenger, Strong 1979), used as a hint. Its purpose is that of RACE (Zuo et
 * al., ATC 2021), which moves a part of its table at a time, under a lock.
 *
 * \see loco_bytes(3), loco_store(3), loco_tree(3), loco_tx(3)
 * @{ */
typedef struct loco_hash loco_hash_t;

#define LOCO_HASH_KEY_MAX 1024          /**< bytes of a key, at most */
#define LOCO_HASH_VALUE_MAX 64000       /**< bytes of a value, at most */

/** How this handle uses a table. Zero selects the default. Handles may have different options. */
typedef struct loco_hash_options {
    size_t leaf_bytes;      /**< a leaf with more is split: 64 to 16,384; 0: 1024 */
    size_t cached;          /**< parts of the directory that this handle keeps copies of, at least;
                                 each leads to up to 256 leaves, and takes up to 2 KiB; 0: 1024 */
} loco_hash_options_t;

/** Open the table of that root; create it if the root has no value. The handle belongs to the
 * thread of `tx`, and takes part in that handle's transactions. Close it before `tx`; NULL is
 * allowed. `options` may be NULL. Errors: LOCO_ERR_ARG (the options, or no object of the store),
 * LOCO_ERR_STATE (a transaction is open), LOCO_ERR_MISMATCH (the root's value is not a table),
 * LOCO_ERR_FULL, LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD. */
int loco_hash_open(loco_tx_t *tx, loco_object_t root, const loco_hash_options_t *options,
                   loco_hash_t **hash);
void loco_hash_close(loco_hash_t *hash);

/** Copy the value of a key: at most `room` bytes; `*len` is its size. If the value is longer than
 * `room`, the call still returns LOCO_OK, and the copy is truncated: compare `*len` with `room`.
 * Errors: LOCO_ERR_NOT_FOUND,
 * LOCO_ERR_SIZE (the key is longer than LOCO_HASH_KEY_MAX), LOCO_ERR_PEER_DEAD; within a
 * transaction those of loco_tx_read_some. */
int loco_hash_get(loco_hash_t *hash, loco_bytes_t key, void *value, size_t room, size_t *len);

/** Set the value of a key, whether it exists or not. Errors: LOCO_ERR_SIZE (of key or value),
 * LOCO_ERR_FULL (no memory left at the hosts; within a transaction also LOCO_TX_WRITES_MAX: a
 * change writes 1 object, and one more if a leaf is split or removed, or a value has its own
 * object), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD. */
int loco_hash_put(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value);

/** Like loco_hash_put for a key that does not exist: else LOCO_ERR_EXISTS. */
int loco_hash_insert(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value);

/** Like loco_hash_put for a key that exists: else LOCO_ERR_NOT_FOUND. */
int loco_hash_update(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t value);

/** Remove a key. Errors: LOCO_ERR_NOT_FOUND, and those of loco_hash_put. */
int loco_hash_delete(loco_hash_t *hash, loco_bytes_t key);

/** Set the value of a key to `desired` if and only if it is `expected`. Errors: LOCO_ERR_DIFFERS,
 * LOCO_ERR_NOT_FOUND, and those of loco_hash_put. */
int loco_hash_compare_set(loco_hash_t *hash, loco_bytes_t key, loco_bytes_t expected,
                          loco_bytes_t desired);

/** Add to a number: a value of 8 bytes in the processor's byte order. A key that does not exist
 * gets the value `by`. `*before` is the old number, 0 if there was none; `before` may be NULL.
 * Errors: LOCO_ERR_SIZE (its value has another size), and those of loco_hash_put. */
int loco_hash_add(loco_hash_t *hash, loco_bytes_t key, uint64_t by, uint64_t *before);

/** Get `n` keys together, all at one instant. At most `room` bytes of the value of keys[i] are
 * copied to `values` + i * `room`. Its size goes to lens[i], and the result that loco_hash_get
 * would have returned to statuses[i]. Returns LOCO_OK even if some keys do not exist; after
 * another error all results are undefined. This is faster than `n` calls: over a network up to 64
 * leaves are read in one round trip if they were read before, else in two. Errors: those of
 * loco_hash_get except LOCO_ERR_NOT_FOUND, and LOCO_ERR_FULL of its transaction
 * (LOCO_TX_READS_MAX: leaves, and values with their own objects). */
int loco_hash_get_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys, void *values,
                       size_t room, size_t *lens, int *statuses);

/** Set the values of `n` keys, all at one instant or none; by itself the call is one transaction. A
 * key may occur twice; the later value stays. After an error nothing was changed, and an open
 * transaction is as it was before the call. The leaves are read together, as in
 * loco_hash_get_many. Errors: those of loco_hash_put; LOCO_ERR_FULL if the keys are in more leaves
 * than one transaction writes (LOCO_TX_WRITES_MAX, splits included): put them in parts. */
int loco_hash_put_many(loco_hash_t *hash, size_t n, const loco_bytes_t *keys,
                       const loco_bytes_t *values);

/** A function that is called with an entry; both strings are valid until it returns. It returns 0
 * to continue. It may call all functions on tables. */
typedef int loco_hash_visit_fn(void *ctx, loco_bytes_t key, loco_bytes_t value);

/** Call visit(ctx, key, value) for all entries, in no particular order, until it returns a number
 * other than 0, which is then returned.
 *
 * Outside a transaction the scan sees the entries of one leaf at one instant during the call, and
 * different leaves at different instants. A value with its own object is read after its leaf. A
 * key that exists all the time is seen, once. Within a transaction the scan and all other reads
 * see one instant. Changes that `visit` makes may be seen or not.
 *
 * Over a network up to 16 following leaves are read in one round trip, and so are values with
 * their own objects. If `visit` ends a scan within a transaction early, some leaves may have been
 * read needlessly, and changes of these by others are conflicts.
 *
 * Errors: LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD; within a transaction those of loco_tx_read_some.
 */
int loco_hash_scan(loco_hash_t *hash, loco_hash_visit_fn *visit, void *ctx);

/** Statistics of this handle. Changes that were repeated after conflicts count each time. */
typedef struct {
    uint64_t lookups;       /**< leaves that were looked up by a key, */
    uint64_t stale;         /**< times that what was known of the directory led to no such leaf, */
    uint64_t walked_right;  /**< and steps from a leaf to its right neighbour */
    uint64_t ahead;         /**< leaves that were read together with others, over a network */
    uint64_t splits;        /**< leaves that were split, */
    uint64_t removed;       /**< and that were taken out, being empty */
    uint64_t hot;           /**< entries that got their own object, because their leaf was hot */
} loco_hash_stats_t;

/** Fill in `*stats`. Local; by the thread of the handle. */
void loco_hash_stats(const loco_hash_t *hash, loco_hash_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
