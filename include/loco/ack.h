/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_ACK_H
#define LOCO_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup ack Acks: completion of operations that do not block
 *
 * An ack represents operations in flight. Use it to start several operations, and to wait for all
 * of them together:
 *
 *     loco_ack_t ack = LOCO_ACK_INIT;
 *
 *     loco_region_read_ack(region, 1, 0, &a, sizeof a, &ack);
 *     loco_region_read_ack(region, 2, 0, &b, sizeof b, &ack);
 *     status = loco_ack_wait(rt, &ack);
 *
 * "Complete" means that local buffers may be reused and that results are available. It says
 * nothing about visibility at the target, for which fences exist.
 *
 * An ack is a value: a set of operations of one thread, with one bit for each of the thread's
 * slots (the LOCO paper's ack_key, its section 5.2 and appendix A.1), and the sequence numbers of
 * the youngest and the oldest operation. A slot with a younger operation has been reused, so an
 * old ack is simply complete. A failure in a slot before the oldest operation does not belong to
 * the ack, either.
 *
 * | call                 | by other threads than the one that posted |
 * |----------------------|-------------------------------------------|
 * | loco_ack_test, _wait | yes                                       |
 * | loco_ack_join        | no: both acks must be of this thread      |
 *
 * \see loco_fence(3), loco_region(3)
 * @{ */
#define LOCO_ACK_WORDS 4

/** An ack can be copied and stored like any value, and need not be freed. */
typedef struct loco_ack {
    void *thread;                    /* whose slots; NULL: nothing in flight */
    uint64_t seq;                    /* youngest operation in the set */
    uint64_t oldest;                 /* and oldest */
    uint64_t slots[LOCO_ACK_WORDS];  /* a bit per slot */
} loco_ack_t;

/** An ack without operations, which is complete. Every non-blocking call adds its operation to the
 * ack that it is given, so initialise an ack with this value. */
#define LOCO_ACK_INIT { 0, 0, 0, { 0, 0, 0, 0 } }

/** Add the operations of `other` to `*ack`; both then complete together. `other` stays as it is.
 * Cannot fail. */
void loco_ack_join(loco_ack_t *ack, const loco_ack_t *other);

/** Check whether all operations of the set are complete. LOCO_OK if they are, LOCO_IN_PROGRESS if
 * not, or the error of a failed one (LOCO_ERR_PEER_DEAD...). Polls; does not block. */
int loco_ack_test(loco_runtime_t *rt, loco_ack_t *ack);

/** Wait until all operations of the set are complete. LOCO_OK, or the error of a failed one: the
 * death of a peer fails what is in flight to it, so this ends. */
int loco_ack_wait(loco_runtime_t *rt, loco_ack_t *ack);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
