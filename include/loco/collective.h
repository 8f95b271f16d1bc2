/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_COLLECTIVE_H
#define LOCO_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include <loco/op.h>
#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup collective Broadcasts and reductions
 *
 * A collective channel copies data from one process of a group to all others (broadcast), or
 * combines the elements of all processes into one result (reduce, allreduce), without MPI. Use it
 * for parameters that one process reads, for sums, residuals and votes.
 *
 *     loco_collective_create(rt, NULL, "sums", loco_everyone(rt), 0, &sums);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_collective_broadcast(sums, 0, &input, sizeof input);
 *     loco_collective_allreduce(sums, LOCO_OP_SUM, LOCO_TYPE_F64, &part, &sum, 1);
 *
 * All members make the same calls on a channel, in the same order and with the same root, length,
 * operation, type and count. Data of any length are allowed: they are cut into pieces, which are
 * pipelined through the tree.
 *
 * Cost: with n members, a process waits for at most log2(n) messages one after the other in
 * broadcast and reduce, and for 2 log2(n) in allreduce. For each piece, a process sends and
 * receives at most log2(n) messages, and n - 1 messages are sent in all. A message is a write of
 * the piece, a write of 8 bytes and, from its receiver, another write of 8 bytes. Memory: 8 log2(n)
 * pieces at each member. Reductions add one copy of each piece that is received.
 *
 * | call                       | concurrent                   | blocks | when it returns LOCO_OK |
 * |----------------------------|------------------------------|--------|--------------------------|
 * | _broadcast                 | one thread per process; a second one at the same time gets LOCO_ERR_STATE | root: until its pieces are on their way; others: until the data have come | `data` is the root's; the root may change it |
 * | _reduce                    | the same                     | root: until all members have called; others: until their parts are on their way | root: `result` is complete; `operand` may be changed |
 * | _allreduce                 | the same                     | until all members have called | `result` is complete |
 * | the same, _timed           | the same                     | up to the limit | the same |
 * | _create, _destroy          | of other names; with nothing | no     | |
 *
 * Order: a call orders and publishes nothing but its data. What a process wrote before by other
 * channels needs a fence, as ever. A broadcast or reduce is no barrier: the root of a broadcast,
 * and the others in a reduce, return before all members have called.
 *
 * Results: the order in which elements are combined depends on the number of members and on the
 * root alone. So a floating-point sum is the same in each run, and allreduce gives all members
 * identical bits.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_ARG | no such root; the operation is not defined on the type, or is LOCO_OP_REPLACE or _NO_OP; nothing was done |
 * | LOCO_ERR_STATE | another thread of this process is in a call; or the call that ran out of time is not repeated with the same arguments; nothing was done |
 * | LOCO_ERR_PEER_DEAD | a member is dead, and this call may have needed it. The channel is unusable from then on; what the call has written to `data` or `result` is unspecified |
 * | LOCO_ERR_MISMATCH | members have called with different arguments; the log says so. The members that wait are told, and the channel is unusable from then on |
 * | LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM | the next call, with the same arguments, continues this one |
 *
 * Source: binomial trees as in Thakur, Rabenseifner and Gropp, "Optimization of collective
 * communication operations in MPICH", IJHPCA 2005; slots of one writer and one reader, with
 * acknowledgements, are our own: channels/base/collective.c.
 * @{ */
typedef struct loco_collective loco_collective_t;

#define LOCO_COLLECTIVE_PIECE 8192      /**< bytes of a piece, unless the program says otherwise */

/** Create a channel whose messages are pieces of up to `piece_bytes` bytes, rounded up to a
 * multiple of 64 (0: LOCO_COLLECTIVE_PIECE; at most 16 MiB). Longer pieces cost fewer messages,
 * shorter ones let the members work on different pieces at the same time. All members of `group`
 * call it with the same arguments (`parent` and `name`: loco(3)). The call is local, and the
 * channel is usable once the runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG,
 * LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. Each process destroys its own handle when its last call has
 * returned; others may still be in theirs. NULL is allowed. */
int loco_collective_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, size_t piece_bytes,
                           loco_collective_t **collective);
void loco_collective_destroy(loco_collective_t *collective);

/** Copy `len` bytes at `data` of rank `root` to `data` of all others. With `len` 0 the call does
 * nothing. */
int loco_collective_broadcast(loco_collective_t *collective, int root, void *data, size_t len);

/** Combine `count` elements of each member, one by one, into `count` elements at `result` of rank
 * `root`. `result` is not used at the other members, and may be NULL there; `operand` and `result`
 * may be the same, but may not overlap otherwise. With `count` 0 the call does nothing. */
int loco_collective_reduce(loco_collective_t *collective, int root, enum loco_op op,
                           enum loco_type type, const void *operand, void *result, size_t count);

/** Like loco_collective_reduce, with the result at all members. */
int loco_collective_allreduce(loco_collective_t *collective, enum loco_op op, enum loco_type type,
                              const void *operand, void *result, size_t count);

/** The same calls, which wait for `timeout_ns` nanoseconds at most (LOCO_FOREVER: without limit).
 * After LOCO_ERR_TIMEOUT the call is unfinished: repeat it with the same arguments to continue it,
 * and leave `data`, `operand` and `result` unchanged until then. */
int loco_collective_broadcast_timed(loco_collective_t *collective, int root, void *data,
                                    size_t len, int64_t timeout_ns);
int loco_collective_reduce_timed(loco_collective_t *collective, int root, enum loco_op op,
                                 enum loco_type type, const void *operand, void *result,
                                 size_t count, int64_t timeout_ns);
int loco_collective_allreduce_timed(loco_collective_t *collective, enum loco_op op,
                                    enum loco_type type, const void *operand, void *result,
                                    size_t count, int64_t timeout_ns);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
