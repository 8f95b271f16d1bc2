/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_FENCE_H
#define LOCO_FENCE_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup fence Fences of three scopes
 *
 * A fence makes earlier writes visible at other processes. Use it between writing data and
 * announcing them, for example by a flag:
 *
 *     loco_region_write(region, peer, 0, data, sizeof data);
 *     loco_fence(rt, LOCO_FENCE_PAIR, peer);
 *     loco_region_write64(region, peer, flag_offset, 1);
 *
 * Cost: nothing if no write needs it, else a wait for an operation in flight, or one round trip to
 * all peers that were written to, together.
 *
 * Source: LOCO paper, section 5.3.
 *
 * \see loco_ack(3), loco_region(3), loco_runtime(3)
 * @{ */
enum loco_fence_scope {
    LOCO_FENCE_NONE,     /**< no order; for calls that take a scope */
    LOCO_ORDER,          /**< only for release calls whose own atomic goes to the peer that holds
                              the data, on the same lane: the atomic itself is the fence (a real
                              one comes before it where the lock is in an RDMA device's memory) */
    LOCO_FENCE_PAIR,     /**< this thread's writes to that peer */
    LOCO_FENCE_THREAD,   /**< this thread's writes to all peers */
    LOCO_FENCE_PROCESS   /**< all threads' writes that happened before the call, to all peers */
};

/** As `peer` (a rank of loco_everyone()): all peers. */
#define LOCO_ALL_PEERS (-1)

/** When it returns, all earlier writes of the scope are placed, and visible to every process before
 * any later operation of the scope. Any scope may be restricted to one peer. It takes the cheapest
 * sufficient step: nothing, a wait for an ack, or one zero-length read per lane with unplaced
 * writes, all in flight together. Blocks. Thread-safe.
 *
 * | error | meaning |
 * |-------|---------|
 * | LOCO_ERR_PEER_DEAD | a peer with unplaced writes is dead; the writes to all others are placed. With all peers, a peer that has closed its runtime does not count |
 * | LOCO_ERR_ARG | no such scope or peer, or LOCO_FENCE_PAIR with all peers; nothing is done |
 * | LOCO_ERR_RANGE, LOCO_ERR_SYSTEM | over a network: a peer or its device has refused an operation, and writes are lost. The thread that made them can access that peer again after one of its own fences has returned this error |
 */
int loco_fence(loco_runtime_t *rt, enum loco_fence_scope scope, int peer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
