/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_FENCE_H
#define LOCO_FENCE_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup fence Fences of three scopes (LOCO paper, section 5.3)
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

/** After it returns, all earlier writes of the scope are placed and visible to every process
 * before any later operation of the scope. Does the least that gives this: nothing, a wait for an
 * ack, or one zero-length read per lane with unplaced writes, all in flight together.
 * Any scope may be narrowed to one peer. Blocks. Thread-safe.
 * Errors: LOCO_ERR_PEER_DEAD (a peer with unplaced writes is dead; the others' are placed; of all
 * peers, one that has closed its runtime is none),
 * LOCO_ERR_ARG (no such scope or peer, or LOCO_FENCE_PAIR with all peers; nothing is done); over a
 * network LOCO_ERR_RANGE or LOCO_ERR_SYSTEM (a peer or its device has refused something: writes are
 * lost. The thread that wrote them reaches that peer again once a fence of its own has said so). */
int loco_fence(loco_runtime_t *rt, enum loco_fence_scope scope, int peer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
