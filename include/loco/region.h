/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_REGION_H
#define LOCO_REGION_H

#include <loco/ack.h>
#include <loco/op.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup region Regions: symmetric network memory
 *
 * A region gives each process of a group a part of `len` bytes, initially zero. Every process
 * reads and writes all parts by rank and offset. Use it for arrays whose layout the program
 * chooses.
 *
 *     loco_region_create(rt, NULL, "grid", loco_everyone(rt), 4096, &region);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_region_write(region, right, 0, row, sizeof row);
 *     loco_fence(rt, LOCO_FENCE_PAIR, right);         // now visible at `right`
 *
 * A region is not consistent by itself. Order and visibility come from fences, and from the
 * channels that use it.
 *
 * Cost: each call is one operation (_fetch_op: one or two, more under contention); a fence costs
 * at most one more for each rank that was written to.
 *
 * | call                       | concurrent | blocks | when it returns LOCO_OK |
 * |----------------------------|------------|--------|--------------------------|
 * | _write, _write64, _write_blocks | yes   | until local buffers are reusable | not placed |
 * | _read, _read64, _read_blocks | yes      | yes    | data local; this thread's earlier writes to that rank placed |
 * | _fetch_add, _compare_swap  | yes        | yes    | old value local; done at the target; earlier writes placed |
 * | _fetch_op                  | yes        | yes    | the same |
 * | the same, _ack             | yes        | no     | posted; the ack says when the above holds |
 * | _local, _len               | yes        | no     | |
 * | _create, _destroy          | of other names; with nothing | no | |
 *
 * Concurrent: with itself and the other calls, by threads of this and other processes. The program
 * must order accesses to the same bytes. The calls _read64, _write64 and the atomics never tear an
 * aligned word of 8 bytes; other transfers may be torn anywhere. A write is visible everywhere
 * after a fence that covers it (fence.h).
 *
 * Own part: a process also accesses its part through the pointer of _local. Words that it polls
 * while others write them must be read with loco_region_read64, or C11 atomics with acquire.
 *
 * Atomics are atomic to each other. If processes are on different nodes, a network device may
 * execute all atomics, including the owner's. A plain write to such a word, or a C11 atomic
 * through the pointer of _local, is not atomic to those, and may be lost or undo one. Plain loads
 * are safe.
 *
 * Errors of all calls:
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_RANGE | the access is outside the part; nothing is moved |
 * | LOCO_ERR_ARG | no such rank, or a word that is not aligned |
 * | LOCO_ERR_STATE | that rank has not created the region yet, as far as this process knows |
 * | LOCO_ERR_PEER_DEAD | that rank is dead. (On one node, a part that this process has accessed before stays usable) |
 *
 * Source: LOCO paper, section 5.1.1 (shared_region).
 *
 * \see loco_ack(3), loco_fence(3), loco_window(3)
 * @{ */
typedef struct loco_region loco_region_t;

/** Create a region with a part of `len` bytes at each member of `group`. All members call it with
 * the same arguments (`parent` and `name`: loco(3)). The call is local. The process's own part is
 * usable at once, those of others once the runtime is ready (loco_runtime_wait_ready). Errors:
 * LOCO_ERR_ARG, LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Destroy it when no member accesses it any more;
 * NULL is allowed. */
int loco_region_create(loco_runtime_t *rt, const char *parent, const char *name,
                       const loco_group_t *group, size_t len, loco_region_t **region);
void loco_region_destroy(loco_region_t *region);

/** The address of this process's part, and its length in bytes. */
void *loco_region_local(const loco_region_t *region);
size_t loco_region_len(const loco_region_t *region);

/** Write `len` bytes from `source` to `rank`'s part at `offset`; read from there to `result`. `len`
 * may be 0. */
int loco_region_write(loco_region_t *region, int rank, uint64_t offset, const void *source,
                      size_t len);
int loco_region_read(loco_region_t *region, int rank, uint64_t offset, void *result, size_t len);

/** Blocks of bytes at regular distances, such as a column of a matrix. A stride is the number of
 * bytes from the beginning of one block to that of the next. It may be negative, and 0 repeats the
 * same bytes. */
typedef struct loco_blocks {
    size_t count;           /**< of blocks; 0: there are none */
    size_t len;             /**< bytes of each block */
    int64_t stride;         /**< in the part of the member */
    int64_t local_stride;   /**< in this process's memory */
} loco_blocks_t;

/** Write blocks from this process's memory to `rank`'s part, or read them from there: the first
 * block is at `source` (`result`) here and at `offset` there. Nothing is moved unless all blocks
 * are inside the part (LOCO_ERR_RANGE). Blocks that overlap where they are written to have
 * unspecified contents. Completion and order are those of loco_region_write and loco_region_read.
 *
 *     loco_blocks_t column = { rows, sizeof(double), row_bytes, sizeof(double) };
 *     loco_region_read_blocks(matrix, rank, 8 * j, values, &column);
 *
 * Cost: 1 operation if the blocks are contiguous on both sides; otherwise 1 operation for each
 * block, posted in chains and in flight together. Short blocks take fewer: blocks of up to 512
 * bytes that are contiguous in the part are copied together, 8 KiB to an operation. Reads do so,
 * too, if the gaps between the blocks are up to 512 bytes: they read the gaps as well. Memory that
 * is mapped (that of the same node) is copied block by block. */
int loco_region_write_blocks(loco_region_t *region, int rank, uint64_t offset, const void *source,
                             const loco_blocks_t *blocks);
int loco_region_read_blocks(loco_region_t *region, int rank, uint64_t offset, void *result,
                            const loco_blocks_t *blocks);

/** Write or read one word of 8 bytes; `offset` is a multiple of 8. */
int loco_region_write64(loco_region_t *region, int rank, uint64_t offset, uint64_t value);
int loco_region_read64(loco_region_t *region, int rank, uint64_t offset, uint64_t *value);

/** Add to a word (modulo 2^64). The old value goes to `*old`, unless that is NULL. `offset` is a
 * multiple of 8. */
int loco_region_fetch_add(loco_region_t *region, int rank, uint64_t offset, uint64_t add,
                          uint64_t *old);

/** Replace a word by `desired` if and only if it is `expected`. The old value goes to `*old`,
 * unless that is NULL. */
int loco_region_compare_swap(loco_region_t *region, int rank, uint64_t offset, uint64_t expected,
                             uint64_t desired, uint64_t *old);

/** Replace the element of 8 bytes at `offset`, a multiple of 8, by what `op` makes of it and of
 * `operand`; the old element goes to `*old`, unless that is NULL. Types, operations, costs and
 * errors are those of loco_atomic_var_fetch_op. It is atomic with loco_region_fetch_add and
 * loco_region_compare_swap on the same word. */
int loco_region_fetch_op(loco_region_t *region, int rank, uint64_t offset, enum loco_op op,
                         enum loco_type type, const void *operand, void *old);

/** The same calls without waiting: the operation is added to `*ack` (ack.h). `source`, `result`,
 * `value` and `old` (which may not be NULL) belong to the operation until the ack is complete. The
 * value of write64 is taken at once, and so is `*blocks`. The calls with blocks post one operation
 * for each block unless they are contiguous on both sides; after an error the blocks that were
 * posted before are in the ack. */
int loco_region_write_ack(loco_region_t *region, int rank, uint64_t offset, const void *source,
                          size_t len, loco_ack_t *ack);
int loco_region_read_ack(loco_region_t *region, int rank, uint64_t offset, void *result,
                         size_t len, loco_ack_t *ack);
int loco_region_write_blocks_ack(loco_region_t *region, int rank, uint64_t offset,
                                 const void *source, const loco_blocks_t *blocks,
                                 loco_ack_t *ack);
int loco_region_read_blocks_ack(loco_region_t *region, int rank, uint64_t offset, void *result,
                                const loco_blocks_t *blocks, loco_ack_t *ack);
int loco_region_write64_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t value,
                            loco_ack_t *ack);
int loco_region_read64_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t *value,
                           loco_ack_t *ack);
int loco_region_fetch_add_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t add,
                              uint64_t *old, loco_ack_t *ack);
int loco_region_compare_swap_ack(loco_region_t *region, int rank, uint64_t offset,
                                 uint64_t expected, uint64_t desired, uint64_t *old,
                                 loco_ack_t *ack);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
