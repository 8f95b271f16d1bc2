/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_KVSTORE_H
#define LOCO_KVSTORE_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup kvstore Key-value stores
 *
 * A key-value store is a map from 64-bit keys to values of one size, distributed over the memory
 * of a group. Use it for values that are looked up by number, read often, and changed one at a
 * time.
 *
 *     loco_kvstore_create(rt, NULL, "votes", loco_everyone(rt),
 *                         &(loco_kvstore_options_t){ .value_bytes = 8, .capacity = 1000 }, &kv);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     status = loco_kvstore_insert(kv, 17, &count, sizeof count);
 *     if (status == LOCO_OK)
 *         status = loco_kvstore_get(kv, 17, &count, sizeof count);
 *
 * The member that inserts a value stores it. Every member has an index of all keys in its own
 * memory. A lookup therefore takes no lock and waits for no other process: it finds the location
 * of the value in the index, and reads the value there once. Insert, update, delete and
 * compare_set take one of the store's ticket locks, that with number key % locks.
 *
 * Cost: a get is one read. An update is the lock and one write. An insert or a delete also sends a
 * message to all members and waits for their acknowledgements.
 *
 * | call               | concurrent | blocks | when it has returned LOCO_OK |
 * |--------------------|------------|--------|------------------------------|
 * | _get, _get_many    | yes        | one read per value, more while it is being written | the value at some time during the call |
 * | _insert            | yes        | lock; until all members know the key | every later get finds it |
 * | _insert_many       | yes        | the same once for all, with their locks | the same |
 * | _update            | yes        | lock; until the value is placed | every later get finds this value, or a later one |
 * | _delete            | yes        | lock; until all members know it | no later get finds the key |
 * | _compare_set       | yes        | lock; a read; as _update | as _update |
 * | _get_ack, _update_ack | a window belongs to one thread | while it is full; update: lock | begun; the status says when it is done |
 * | _window_...        | the same   | close, wait: until all calls are done | |
 * | _iterate, _stats   | yes        | iterate blocks inserts and deletes | |
 * | _create            | of other names | no | |
 * | _destroy           | with nothing | briefly, until messages in flight are read | |
 *
 * Order: the store is linearizable. Every call takes effect at one instant between its begin and
 * its return. For insert_many and get_many this holds for each value, not for the call as a whole.
 * Calls order nothing else: an update does not make visible what was written elsewhere in network
 * memory before it. To publish such data, fence before the update.
 *
 * These results of calls on keys change nothing:
 *
 * | result | meaning |
 * |--------|---------|
 * | LOCO_ERR_NOT_FOUND | the key does not exist |
 * | LOCO_ERR_EXISTS | insert: the key exists |
 * | LOCO_ERR_FULL | insert: this member cannot store another value |
 * | LOCO_ERR_SIZE | `len` is not the value size of the store |
 * | LOCO_ERR_DIFFERS | compare_set: the value is another one |
 *
 * Process failures: inserts and deletes do not wait for dead members. A call returns
 * LOCO_ERR_PEER_DEAD, in bounded time, in three cases: the value is stored at a dead member; a
 * dead member holds, waits for or hosts the key's lock (lock i is hosted at rank i % size); or a
 * dead member left the value half written. Values stored at live members can still be read. If an
 * insert, update, delete or compare_set returns LOCO_ERR_PEER_DEAD, it is unknown whether it took
 * effect. If a process dies while it inserts or deletes a key, the space of that value is lost.
 *
 * Memory: let K be the number of all keys, and C the capacity of a member. Each member uses C *
 * (16 + size, rounded up to 8; above 8 bytes 24 + size) bytes of network memory for values. Its
 * index uses 16 bytes / 0.75 for each key of the total capacity, and its pages are touched as K
 * grows. All stores of a process share one thread, which handles the messages of other members. It
 * sleeps while there are none, and never calls MPI.
 *
 * Source: LOCO paper, section 6 and appendix C; index, layout of values and batches are our own
 * (channels/kvstore/kvstore.c, kv_index.c).
 *
 * \see loco_hash(3), loco_owned_var(3), loco_ticket_lock(3)
 * @{ */
typedef struct loco_kvstore loco_kvstore_t;

#define LOCO_KVSTORE_VALUE_MAX 65536    /**< bytes of a value, at most */
#define LOCO_KVSTORE_WINDOW_MAX 128     /**< calls outstanding in a window, at most */

/** Options of a store, the same at all members. Zero selects the default, where zero is allowed. */
typedef struct loco_kvstore_options {
    size_t value_bytes;     /**< size of every value, 1 to LOCO_KVSTORE_VALUE_MAX */
    uint64_t capacity;      /**< values that each member can store, at least 1; the sum over
                                 all members is at most 2^40 */
    int locks;              /**< 0: 256 */
    size_t tracker_bytes;   /**< of each member's ring of messages about keys; 0: 16 KiB; at least
                                 4 KiB */
} loco_kvstore_options_t;

/** Create a store. All members of `group` call it with the same arguments (`parent` and `name`:
 * loco(3)). The call is local, and the store is usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (the options), LOCO_ERR_NAME,
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (no thread). Destroy it when no member uses it any more,
 * after closing its windows; NULL is allowed. */
int loco_kvstore_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, const loco_kvstore_options_t *options,
                        loco_kvstore_t **kv);
void loco_kvstore_destroy(loco_kvstore_t *kv);

/** The size of the store's values, in bytes. Local. */
size_t loco_kvstore_value_bytes(const loco_kvstore_t *kv);

/** Copy the value of `key` to `value` (`len` bytes, the store's value size). Errors:
 * LOCO_ERR_NOT_FOUND, LOCO_ERR_SIZE, LOCO_ERR_PEER_DEAD. */
int loco_kvstore_get(loco_kvstore_t *kv, uint64_t key, void *value, size_t len);

/** Get `n` keys together. The values go to `values` (n times `len` bytes), and the results that
 * loco_kvstore_get would have returned go to `statuses` (n of them). Returns the first of these
 * that is neither LOCO_OK nor LOCO_ERR_NOT_FOUND, or LOCO_OK. This is faster than n calls, because
 * many reads are in flight together. The contents of `values` are undefined for keys without
 * LOCO_OK. */
int loco_kvstore_get_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys, void *values,
                          size_t len, int *statuses);

/** Insert a key that does not exist, with its value, which is stored in this member's memory.
 * Errors: LOCO_ERR_EXISTS, LOCO_ERR_FULL, LOCO_ERR_SIZE, LOCO_ERR_PEER_DEAD. LOCO_ERR_FULL refers
 * to this member only. After another member has deleted a value that is stored here, the space may
 * become free only a little after that delete has returned. */
int loco_kvstore_insert(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len);

/** Insert `n` keys (no key twice) with `values` (n times `len` bytes). The effect is that of n
 * calls of loco_kvstore_insert, whose results go to `statuses`, with one exchange with the other
 * members for every 250 keys. Use it to load a store. It holds the locks of these keys meanwhile.
 * Returns the first result that is neither LOCO_OK nor LOCO_ERR_EXISTS, or LOCO_OK. */
int loco_kvstore_insert_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys,
                             const void *values, size_t len, int *statuses);

/** Replace the value of a key. Errors: LOCO_ERR_NOT_FOUND, LOCO_ERR_SIZE, LOCO_ERR_PEER_DEAD. */
int loco_kvstore_update(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len);

/** Remove a key. Errors: LOCO_ERR_NOT_FOUND, LOCO_ERR_PEER_DEAD. */
int loco_kvstore_delete(loco_kvstore_t *kv, uint64_t key);

/** Replace the value of a key by `desired` if and only if it equals `expected`, byte by byte. With
 * LOCO_OK and with LOCO_ERR_DIFFERS the old value goes to `found`, unless that is NULL. All three
 * have `len` bytes. Errors: LOCO_ERR_DIFFERS, and those of loco_kvstore_update. */
int loco_kvstore_compare_set(loco_kvstore_t *kv, uint64_t key, const void *expected,
                             const void *desired, size_t len, void *found);

/** A window: several calls of one thread in flight together. */
typedef struct loco_kvstore_window loco_kvstore_window_t;

/** Open a window for `size` calls, 1 to LOCO_KVSTORE_WINDOW_MAX. It belongs to the thread that
 * opens it, and the same thread must close it. Closing waits for the calls in flight; NULL is
 * allowed. Errors: LOCO_ERR_ARG, LOCO_ERR_NO_MEMORY. */
int loco_kvstore_window_open(loco_kvstore_t *kv, int size, loco_kvstore_window_t **window);
void loco_kvstore_window_close(loco_kvstore_window_t *window);

/** Begin a get. `*status` is LOCO_IN_PROGRESS until the get is done; then it is the result that
 * loco_kvstore_get would have returned. _window_poll, _window_wait and further calls on the window
 * update it. The get may be done at once. `value` and `status` belong to the call until then. If
 * the window is full, the call first waits for one of its calls. Returns LOCO_OK (begun), or
 * LOCO_ERR_SIZE or LOCO_ERR_NO_MEMORY, which `*status` is then, too. */
int loco_kvstore_get_ack(loco_kvstore_window_t *window, uint64_t key, void *value, size_t len,
                         int *status);

/** Begin an update; see loco_kvstore_get_ack. `value` may be reused when the call returns. */
int loco_kvstore_update_ack(loco_kvstore_window_t *window, uint64_t key, const void *value,
                            size_t len, int *status);

/** Complete the calls that are done, and return the number of calls still in flight. Does not
 * block. */
int loco_kvstore_window_poll(loco_kvstore_window_t *window);

/** Wait until all calls of the window are done. After LOCO_OK, each status holds the result of its
 * call. */
int loco_kvstore_window_wait(loco_kvstore_window_t *window);

/** A function that is called with a key; it returns 0 to continue. It may call loco_kvstore_get and
 * _get_many on the store, nothing else. */
typedef int loco_kvstore_visit_fn(void *ctx, uint64_t key);

/** Call visit(ctx, key) once for each key of this member's index, in no order, until it returns a
 * number other than 0, which is then returned. Local. The iteration includes all keys whose insert
 * had returned before the call, except those whose delete had begun. It may include keys that are
 * being inserted or deleted. */
int loco_kvstore_iterate(loco_kvstore_t *kv, loco_kvstore_visit_fn *visit, void *ctx);

/** Statistics of a store, as this member sees it. */
typedef struct {
    uint64_t keys;              /**< keys of all members, in the index */
    uint64_t kept;              /**< values that this member stores */
    uint64_t capacity;          /**< values that this member can store */
    uint64_t index_bytes;       /**< of its index, when it is full */
    uint64_t value_bytes;       /**< of network memory for its values and their metadata */
    uint64_t retries;           /**< times that a get of this process read a half-written value */
} loco_kvstore_stats_t;

/** Fill in `*stats`. Numbers that change meanwhile are those of some time during the call. Local.
 */
void loco_kvstore_stats(loco_kvstore_t *kv, loco_kvstore_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
