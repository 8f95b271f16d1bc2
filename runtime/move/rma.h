/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RMA_H
#define LOCI_RMA_H

/* Operations on network memory as channels call them. Where the target is mapped (same node, or
 * this process's own) they are a copy or a CPU atomic here and now; else they are posted on this
 * thread's lane to the peer. Bounds are the caller's business.
 *
 * Words that are updated by atomics (DESIGN 7). Who shares a range says its domain once, on every
 * handle at every member (loci_endpoint_create and windows do); loci_fetch_add and
 * loci_compare_swap then do what the domain wants, also for one's own memory. What remains for a
 * channel's author:
 *   - loci_cpu_* only where loci_mem_word() gives a pointer; loci_mem_ptr() is for plain data;
 *   - no plain store (loci_write64, loci_store64, a copy) to such a word, one's own included,
 *     while others may update it: it may fall between the read and the write of a device's
 *     atomic, and is lost. Swap the value in, or store where the protocol has everybody else
 *     done with the word; where loci_mem_word() gives a pointer a store is fine, too;
 *   - in the owner domain a pointer here says nothing of other members: some have one, and some
 *     post. The CPU's atomics and stores are not on any lane: what this thread has posted to
 *     others before is not placed by them, nor before them;
 *   - plain loads of 8 bytes are fine anywhere but in the device's own memory, so a waiter polls
 *     its own word by the CPU.
 * A lane orders what was written on it; stores of the CPU come before all that is posted after
 * them. So LOCO_ORDER holds for data beside a lock word of one's own as it does for others'. Words
 * in the device's own memory are the exception: loci_mem_orders.
 *
 * `ack` gathers what is in flight; with ack NULL the call blocks until complete. Completion of a
 * write is not visibility: loco_fence, or a later read or atomic on the same lane, is. */

#include "access.h"
#include "memory/memory.h"
#include "runtime.h"

int loci_post_write(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                    const void *source, size_t len, loco_ack_t *ack);
int loci_post_write64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                      uint64_t value, loco_ack_t *ack);
int loci_post_read(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, void *result,
                   size_t len, loco_ack_t *ack);
int loci_post_fetch_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                        uint64_t add, uint64_t *old, loco_ack_t *ack);
int loci_post_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t add,
                  uint64_t *room, loco_ack_t *ack);
int loci_post_compare_swap(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                           uint64_t expected, uint64_t desired, uint64_t *old, loco_ack_t *ack);
/* Of a word that is posted to, where nobody looks at the old value, nor need wait: loci_finish()
 * waits for it, so that it comes before the word that this process uses that memory no more. */
int loci_post_swap_unwaited(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                            uint64_t expected, uint64_t desired, loco_ack_t *ack);

/* Memory of a member that has not joined yet, as far as is known here: LOCO_ERR_STATE, told. */
int loci_not_ready(struct loco_runtime *rt);

/* A chain of n operations on memory of one peer: writes and reads of what is not mapped, atomics on
 * words that are posted to (loci_mem_is_posted_to). They are handed over together, as many as the
 * fabric takes at once, where it is synchronous all of them. On an error what was posted before is
 * in the ack. */
int loci_post_spans(struct loco_runtime *rt, struct loci_op *ops, int n, loco_ack_t *ack);

/* Merge n words, at most LOCI_MERGE_WORDS, with those at `operands`, as fabric.h says: as a write.
 * Only if loci_merges(): the fabric takes that to the owner of these words, which are posted to. */
int loci_merge(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint32_t how,
               const void *operands, size_t n, loco_ack_t *ack);
bool loci_merges(struct loco_runtime *rt, const struct loci_mem *mem);

/* A LOCI_FETCH_ADD or LOCI_COMPARE_SWAP of op->len bytes of user memory by its owner, if that
 * happens to be waiting; under the caller's lock on those bytes. LOCO_ERR_AGAIN: it is not. */
int loci_try_update(struct loco_runtime *rt, const struct loci_op *op);

/* A write or read of strips by a fabric that has a way for that. LOCO_ERR_AGAIN: it has none, or
 * not here; post the blocks. */
int loci_try_strided(struct loco_runtime *rt, const struct loci_strided *op);

/* The same for combining by the owner, if it happens to be waiting; under the caller's lock. */
int loci_try_combine(struct loco_runtime *rt, const struct loci_strided *op);

/* The runtime's fence with an index of the table of peers instead of a rank; -1: all. */
int loci_fence_peer(struct loco_runtime *rt, enum loco_fence_scope scope, int peer);

/* The same of scope LOCO_FENCE_PROCESS, for the members of a group: of others who are gone it tells
 * nothing. */
int loci_fence_process(struct loco_runtime *rt, int peer, const struct loco_group *group);

/* A write of a count, which only grows: its reader waits for it, or for one beyond, so nobody who
 * sees what was written later relies on its being there. The next is to go by the same lane, or
 * after a fence of all. */
int loci_tell64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t count,
                loco_ack_t *ack);

/* A fence of this process that does not place counts: those of the last round would make each
 * member's way dirty for the next. Of `group`, as above. */
int loci_fence_data(struct loco_runtime *rt, int peer, const struct loco_group *group);

/* Wait until the reads that are awaited (struct loci_op) and that any thread of this process has
 * posted before, to the peer of that index or to all (-1), are complete. Nothing is posted. Or how
 * one failed whose ack nobody has. Of `group`, as above. */
int loci_finish_reads(struct loco_runtime *rt, int peer, const struct loco_group *group);
/* All that any thread of this process had posted to that peer before the call, writes, reads and
 * atomics, has been executed there. */
int loci_place_peer(struct loco_runtime *rt, int peer);

/* loci_fence_process() and then loci_finish_reads(); of two errors the former's. */
int loci_finish(struct loco_runtime *rt, int peer, const struct loco_group *group);

/* Whether an atomic there is executed after this lane's earlier writes to other memory of that
 * peer, and has placed them when it is complete: host memory. The device's own it changes by
 * itself, while those writes are on their way through the bus. */
static inline bool loci_mem_orders(const struct loci_mem *mem)
{
    return mem->key.kind != LOCI_MEM_DEVICE;
}

/* Before a release by an atomic on `mem` that is to be its own fence towards its peer (LOCO_ORDER):
 * the fence that it needs all the same, where it orders nothing. */
static inline int loci_order(struct loco_runtime *rt, const struct loci_mem *mem)
{
    return loci_mem_orders(mem) ? LOCO_OK : loci_fence_peer(rt, LOCO_FENCE_PAIR, mem->peer);
}

/* Whether this thread's next atomic on `mem` is that fence towards its peer, too (LOCO_ORDER): all
 * that such a fence would place has been written on the lane that the atomic takes. It is executed
 * after that, and has placed it when it is acknowledged. False: nothing is to be placed, or other
 * threads have written, or it is not posted, or orders nothing; make a fence. */
bool loci_can_order(struct loco_runtime *rt, const struct loci_mem *mem);

/* A plain pointer to that memory where it is mapped already, else NULL. */
static inline unsigned char *loci_mem_ptr(const struct loci_mem *mem)
{
    /* Pairs with the release in loci_mem_map(): the mapping, then its address. */
    return atomic_load_explicit(&mem->ptr, memory_order_acquire);
}

/* A pointer for the CPU's atomics on that memory, where that is how its words are updated and it
 * is mapped already; else NULL. */
static inline unsigned char *loci_mem_word(const struct loci_mem *mem)
{
    /* Pairs with the release in loci_mem_map(). */
    return atomic_load_explicit(&mem->word, memory_order_acquire);
}

/* Whether atomics on those words go by the lane to their owner. In the owner domain memory of a
 * process of this node may be mapped in the next call; but to such a peer nothing is in flight. */
static inline bool loci_mem_is_posted_to(const struct loci_mem *mem)
{
    return mem->domain == LOCI_DOMAIN_NIC
           || (mem->domain == LOCI_DOMAIN_OWNER && loci_mem_word(mem) == NULL);
}

/* Whether its owner has gone, and with it the way of those who post to these words: whoever holds
 * something there may not be able to give it back. So who has the words mapped must not wait. */
static inline bool loci_mem_is_orphaned(const struct loco_runtime *rt, const struct loci_mem *mem)
{
    return mem->domain == LOCI_DOMAIN_OWNER && !loci_peer_alive(rt, mem->peer);
}

static inline int loci_write(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                             const void *source, size_t len, loco_ack_t *ack)
{
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_write(rt, mem, offset, source, len, ack);
    LOCI_COUNT_MEM(rt, writes, mem);
    loci_copy_in(p + offset, source, len);
    return LOCO_OK;
}

static inline int loci_read(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                            void *result, size_t len, loco_ack_t *ack)
{
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_read(rt, mem, offset, result, len, ack);
    LOCI_COUNT_MEM(rt, reads, mem);
    loci_copy_out(result, p + offset, len);
    return LOCO_OK;
}

/* One aligned word, never torn, with release order where mapped. */
static inline int loci_write64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                               uint64_t value, loco_ack_t *ack)
{
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_write64(rt, mem, offset, value, ack);
    LOCI_COUNT_MEM(rt, writes, mem);
    loci_store64(p + offset, value);
    return LOCO_OK;
}

static inline int loci_read64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                              uint64_t *value, loco_ack_t *ack)
{
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_read(rt, mem, offset, value, sizeof *value, ack);
    LOCI_COUNT_MEM(rt, reads, mem);
    *value = loci_load64(p + offset);
    return LOCO_OK;
}

static inline int loci_fetch_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                                 uint64_t add, uint64_t *old, loco_ack_t *ack)
{
    unsigned char *p = loci_mem_word(mem);

    if (p == NULL)
        return loci_post_fetch_add(rt, mem, offset, add, old, ack);
    LOCI_COUNT_MEM(rt, atomics, mem);
    *old = loci_cpu_fetch_add(p + offset, add);
    return LOCO_OK;
}

/* The same, and nobody looks at what was there: `room` is for fabrics that bring it all the same.
 */
static inline int loci_add(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                           uint64_t add, uint64_t *room, loco_ack_t *ack)
{
    return loci_mem_word(mem) == NULL ? loci_post_add(rt, mem, offset, add, room, ack)
                                      : loci_fetch_add(rt, mem, offset, add, room, ack);
}

/* An addition that others wait for, as that a lock is given back, came to `status`. Where it was
 * not done, flushed behind what the peer refused, it is done again, for the others are not to wait
 * for ever; before that this thread is told what it has lost there, *lost. Returns what became of
 * the addition. */
int loci_add_again(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t add,
                   uint64_t *old, int status, int *lost);

static inline int loci_compare_swap(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset,
                                    uint64_t expected, uint64_t desired, uint64_t *old,
                                    loco_ack_t *ack)
{
    unsigned char *p = loci_mem_word(mem);

    if (p == NULL)
        return loci_post_compare_swap(rt, mem, offset, expected, desired, old, ack);
    LOCI_COUNT_MEM(rt, atomics, mem);
    *old = loci_cpu_compare_swap(p + offset, expected, desired);
    return LOCO_OK;
}

#endif
