/* SPDX-License-Identifier: BSD-3-Clause */

/* Acks: see include/loco/ack.h. A bit of the set is pending while its slot holds an operation
 * that is not younger than the set's youngest. A younger one means that ours was over before. */

#include "config.h"

#include "runtime.h"
#include "wait.h"

void loco_ack_join(loco_ack_t *ack, const loco_ack_t *other)
{
    if (other->thread == NULL)
        return;
    LOCO_ASSERT(ack->thread == NULL || ack->thread == other->thread);
    if (ack->thread == NULL || ack->oldest > other->oldest)
        ack->oldest = other->oldest;
    ack->thread = other->thread;
    if (ack->seq < other->seq)
        ack->seq = other->seq;
    for (int i = 0; i < LOCO_ACK_WORDS; i++)
        ack->slots[i] |= other->slots[i];
}

/* LOCO_IN_PROGRESS, LOCO_OK, or how the slot's operation failed. Where a set has grown for so long
 * that somebody else's operation had its slot meanwhile, and failed, that is not told apart; nor is
 * what became of one between the first and the last that failed there: it counts as failed, for
 * one that did must not be taken for done. */
static int slot_state(struct loci_slot *slot, const loco_ack_t *ack)
{
    uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire), first, last;

    if (seq != 0 && seq <= ack->seq)
        return LOCO_IN_PROGRESS;
    first = atomic_load_explicit(&slot->first_failed, memory_order_relaxed);
    last = atomic_load_explicit(&slot->failed_seq, memory_order_relaxed);
    if (first != 0 && first <= ack->seq && last >= ack->oldest)
        return atomic_load_explicit(&slot->status, memory_order_relaxed);
    return LOCO_OK;
}

int loco_ack_test(loco_runtime_t *rt, loco_ack_t *ack)
{
    struct loci_thread *thread = ack->thread;
    int result = LOCO_OK;

    (void)rt;
    if (thread == NULL)
        return LOCO_OK;
    for (int i = 0; i < LOCO_ACK_WORDS; i++) {
        for (uint64_t left = ack->slots[i]; left != 0; left &= left - 1) {
            struct loci_slot *slot = &thread->slot[i * 64 + __builtin_ctzll(left)];
            int state = slot_state(slot, ack);

            if (state == LOCO_IN_PROGRESS) {
                loci_lane_poll(slot->lane);
                state = slot_state(slot, ack);
            }
            if (state == LOCO_IN_PROGRESS)
                return state;
            if (result == LOCO_OK)
                result = state;
        }
    }
    return result;
}

struct ack_wait {
    struct loco_runtime *rt;
    loco_ack_t *ack;
    int result;
};

static int ack_is_complete(void *arg)
{
    struct ack_wait *wait = arg;

    wait->result = loco_ack_test(wait->rt, wait->ack);
    return wait->result != LOCO_IN_PROGRESS;
}

int loco_ack_wait(loco_runtime_t *rt, loco_ack_t *ack)
{
    /* Needs no peer by name: when one dies its fabric fails what is in flight to it. */
    const struct loci_reason why = {
        .what = "operations in flight", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_FENCE, .bell = LOCI_BELL_ACK,
    };
    struct ack_wait wait = { rt, ack, LOCO_OK };
    int status;

    if (ack->thread == NULL)
        return LOCO_OK;
    LOCI_COUNT_SIMPLE(rt, waits);
    status = loci_wait(rt, &why, ack_is_complete, &wait);
    return status == LOCO_OK ? wait.result : status;
}
