/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_STORE_H
#define LOCO_STORE_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup store Stores: objects that transactions read and change
 *
 * A store keeps objects, which are values of up to 64 KiB, in the memory of some members of a
 * group, its hosts. Use it for data whose parts change together, or that refer to each other, and
 * for programs that must survive the death of a process. Any member reads and changes objects by
 * transactions (\ref tx). A transaction changes many objects at once, all or none of them.
 *
 *     loco_store_create(rt, NULL, "accounts", loco_everyone(rt),
 *                       &(loco_store_options_t){ .bytes = 1 << 30 }, &store);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_tx_open(store, &tx);
 *     loco_tx_begin(tx);
 *     loco_tx_new(tx, LOCO_ANY_HOST, &value, sizeof value, &object);
 *     loco_tx_write(tx, loco_store_root(store, 0), &object, sizeof object);
 *     status = loco_tx_commit(tx);
 *
 * Cost: a read of an object is one read. A commit is one compare-and-swap if the transaction
 * changes one object and has read no other, else 2n + 2 operations for n changed objects, and one
 * more if it has read others.
 *
 * | call                | concurrent | blocks | when it has returned LOCO_OK |
 * |---------------------|------------|--------|------------------------------|
 * | _create             | of other names | no | |
 * | _destroy            | with nothing | no   | |
 * | _root, _host_of, _stats | yes    | no     | |
 * | _room               | yes        | yes    | |
 * | _scavenge           | yes, one after the other | yes | the free memory of dead members is recovered |
 *
 * Remote heap: a store is also a heap of blocks of any size with global pointers. A loco_object_t
 * is such a pointer, with the same meaning at all members. loco_tx_new allocates a block at a
 * chosen host or at any, loco_tx_free frees it, loco_store_host_of says where it is, and lists and
 * graphs are objects that contain handles of others. What differs from a raw heap: a block is read
 * and written as a whole, in a transaction, and a handle of a freed object is told (loco_tx(3)).
 * For bytes at addresses that the program computes use loco_region(3).
 *
 * Process failures: a member that dies in the middle of a transaction leaves nothing half done,
 * and delays others only briefly. Its transaction has taken effect completely or not at all; the
 * first process that meets its unfinished work decides this and continues. If the dead member is
 * not a host, nothing else is lost. If it is a host on another node, its objects are lost: calls
 * that need them return LOCO_ERR_PEER_DEAD. A decided transaction over several hosts then takes
 * effect at the live ones. On one node the memory of a dead host remains, and its objects can
 * still be used. Choose as hosts processes that are expected to live.
 *
 * Memory: a host uses a cell of 8 bytes for each possible object, and a block for each existing
 * one. A block has 32 bytes and the value, rounded up to 64, 128, 192, 256 bytes and so on in
 * steps of a quarter to a half. Each member uses 8 KiB for each transaction handle that it may
 * have open. If hosts are accessed over a network, it also uses 24 bytes for each object that an
 * open handle has seen, at most 1.5 MiB; these let it find values in one round trip.
 *
 * Source: the design is ours; an object is one word, and a commit is the multi-word
 * compare-and-swap of Harris, Fraser and Pratt (DISC 2002) over such words, with copies of the
 * values and helping (Fraser, "Practical lock-freedom", 2004). Its purpose is that of rTX (arXiv
 * 2308.02501).
 *
 * \see loco_hash(3), loco_pool(3), loco_tree(3), loco_tx(3)
 * @{ */
typedef struct loco_store loco_store_t;

/** A handle of an object. Any member may store it anywhere, also in other objects. 0 means no
 * object. */
typedef uint64_t loco_object_t;

#define LOCO_OBJECT_NONE 0              /**< no object */
#define LOCO_STORE_VALUE_MAX 65536      /**< bytes of a value, at most */

/** Options of a store, the same at all members. Zero selects the default, where zero is allowed. */
typedef struct loco_store_options {
    uint64_t bytes;         /**< of memory for values, at each host; 64 KiB to 256 GiB. For N
                                 keys of a tree or a hash table: N * (1.4 * (bytes of key and
                                 value) + 40) over all hosts (loco_store_room) */
    uint64_t objects;       /**< maximum number of objects at each host, including the roots;
                                 0: bytes / 64; below 2^32 */
    uint64_t roots;         /**< objects that exist from the start, in total; 0: 64 */
    const int *hosts;       /**< ranks of the members that store objects, `nhosts` of them, each
                                 once; NULL: all members */
    int nhosts;
    int threads;            /**< transaction handles that a member may have open at a time; 0: 8.
                                 members * threads * hosts is at most 65,536 */
    const char *host;       /**< in a pool: the machine whose agent creates and keeps the store;
                                 NULL: this one's. Ignored otherwise */
} loco_store_options_t;

/** Create a store. All members of `group` call it with the same arguments (`parent` and `name`:
 * loco(3)). The call is local, and the store is usable once the runtime is ready
 * (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG (the options; the log says which),
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it after its transaction handles, when no member uses
 * it any more; NULL is allowed. */
int loco_store_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, const loco_store_options_t *options,
                      loco_store_t **store);
void loco_store_destroy(loco_store_t *store);

/** Root number `i` (0 to roots - 1). A process that joins finds all other objects through the
 * roots. A root has no value until a transaction writes it: reading it returns LOCO_ERR_NOT_FOUND
 * until then, and again after loco_tx_free. Returns LOCO_OBJECT_NONE if there is no such root.
 * Local. */
loco_object_t loco_store_root(const loco_store_t *store, uint64_t i);

/** The rank that stores an object, or -1 if it is not an object of this store. Local. */
int loco_store_host_of(const loco_store_t *store, loco_object_t object);

/** How full a host is. Memory that was used becomes free for values of about the same size (the
 * classes of sizes above), so `bytes_taken` never decreases. Cells of objects become free for any
 * object. */
typedef struct {
    uint64_t bytes;         /**< of memory for values, rounded up to pages of 4 KiB */
    uint64_t bytes_taken;   /**< of these, for values that are or were there */
    uint64_t objects;       /**< places for objects, the roots' among them */
    uint64_t objects_taken; /**< of these, for objects that are or were there */
} loco_store_room_t;

/** Fill in `*room` for the host of that rank, by two consecutive reads of its memory. Errors:
 * LOCO_ERR_ARG (`rank` is no host), LOCO_ERR_PEER_DEAD. */
int loco_store_room(loco_store_t *store, int rank, loco_store_room_t *room);

/** What loco_store_scavenge found at all live hosts. */
typedef struct loco_store_scavenged {
    uint64_t undone;        /**< transactions of dead members that were undone */
    uint64_t objects;       /**< objects that are there */
    uint64_t blocks;        /**< blocks of dead members that are free memory now, */
    uint64_t bytes;         /**< and their size */
    uint64_t cells;         /**< places for objects, likewise */
    uint64_t left;          /**< blocks and places that may belong to a member that has been in one
                                 transaction all the time: scavenge again */
} loco_store_scavenged_t;

/** Recover the free memory and the free cells that dead members had reserved. Objects themselves
 * stay. Any member may call it while others use the store. It reads the cells and the headers of
 * all blocks at all hosts. `found` may be NULL. Errors: LOCO_ERR_AGAIN (another member is
 * scavenging), LOCO_ERR_NO_MEMORY, LOCO_ERR_PEER_DEAD (a host died meanwhile). */
int loco_store_scavenge(loco_store_t *store, loco_store_scavenged_t *found);

/** Statistics of this process's use of a store, over all its handles. */
typedef struct {
    uint64_t commits;       /**< transactions that were committed, of any kind, */
    uint64_t single;        /**< of which of one object, without a log, */
    uint64_t read_only;     /**< and that wrote nothing */
    uint64_t conflicts;     /**< that ended with LOCO_ERR_CONFLICT, */
    uint64_t aborted_by_others;     /**< of these because another process undid them */
    uint64_t helped;        /**< words of others' transactions that were completed */
    uint64_t suspected;     /**< transactions of others that were undone, because they took too
                                 long or their process had died */
    uint64_t retries;       /**< values that were read again, because they were being replaced */
} loco_store_stats_t;

/** Fill in `*stats`. Numbers that change meanwhile are those of some time during the call. Local.
 */
void loco_store_stats(loco_store_t *store, loco_store_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
