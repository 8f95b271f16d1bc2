/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "rw_pair.h"
#include "wait.h"

static bool are_far(const struct loci_rw *group, const struct loci_rw *member)
{
    return loci_mem_word(group->mem) == NULL && loci_mem_word(member->mem) == NULL;
}

/* Of two atomics in flight, the group's is executed after what the member's is executed after. */
static bool is_ordered(const struct loci_rw *group, const struct loci_rw *member)
{
    return group->mem->peer == member->mem->peer && loci_mem_orders(group->mem);
}

/* One attempt at both in one round trip: what came of each. After an error what was got has been
 * given back. */
static int try_both(struct loco_runtime *rt, const struct loci_rw *group,
                    const struct loci_rw *member, bool *part, bool *alone)
{
    uint64_t unit = loci_rw_unit(group, LOCI_RW_PART);
    uint64_t name = loci_rw_unit(member, LOCI_RW_EXCLUSIVE);
    uint64_t group_old = 0, member_old = 0, old, guess = loci_rw_guess(member);
    loco_ack_t first = LOCO_ACK_INIT, second = LOCO_ACK_INIT;
    int status = loci_fetch_add(rt, group->mem, group->offset, unit, &group_old, &first), swapped;

    swapped = status != LOCO_OK ? status
              : loci_compare_swap(rt, member->mem, member->offset, guess, guess + name, &member_old,
                                  &second);
    if (status == LOCO_OK)
        status = loco_ack_wait(rt, &first);
    if (swapped == LOCO_OK)
        swapped = loco_ack_wait(rt, &second);
    *alone = swapped == LOCO_OK && member_old == guess;
    if (swapped == LOCO_OK && loci_rw_is_free(member_old, LOCI_RW_EXCLUSIVE))
        loci_rw_found_free(member, member_old);
    *part = status == LOCO_OK && loci_rw_is_free(group_old, LOCI_RW_PART);
    if (status == LOCO_OK && (!*part || swapped != LOCO_OK)) {
        status = loci_add(rt, group->mem, group->offset, 0 - unit, &old, NULL);
        *part = false;
    }
    status = status == LOCO_OK ? swapped : status;
    if (*alone && !*part) {
        int released = loci_rw_release(rt, member, LOCI_RW_EXCLUSIVE);

        *alone = false;
        status = status == LOCO_OK ? released : status;
    }
    return status;
}

static int acquire_both(struct loco_runtime *rt, const struct loci_rw *group,
                        const struct loci_rw *member, unsigned flags, int64_t deadline)
{
    bool inside = atomic_load_explicit(group->parts, memory_order_relaxed) > 0;
    bool part = false, alone = false;
    int status = LOCO_OK;

    if (are_far(group, member))
        status = try_both(rt, group, member, &part, &alone);
    if (status == LOCO_OK && !part)
        status = loci_rw_acquire_until(rt, group, LOCI_RW_PART,
                                       inside ? flags | LOCI_RW_INSIDE : flags, deadline);
    if (status != LOCO_OK || alone)
        return status;
    status = loci_rw_acquire_until(rt, member, LOCI_RW_EXCLUSIVE, flags, deadline);
    if (status != LOCO_OK)
        loci_rw_release(rt, group, LOCI_RW_PART);
    return status;
}

int loci_rw_pair_acquire(struct loco_runtime *rt, const struct loci_rw *group,
                         const struct loci_rw *member, unsigned flags)
{
    return loci_rw_pair_acquire_until(rt, group, member, flags, LOCI_NEVER);
}

int loci_rw_pair_acquire_until(struct loco_runtime *rt, const struct loci_rw *group,
                               const struct loci_rw *member, unsigned flags, int64_t deadline)
{
    int status = acquire_both(rt, group, member, flags, deadline);

    if (status == LOCO_OK)
        atomic_fetch_add_explicit(group->parts, 1, memory_order_relaxed);
    return status;
}

int loci_rw_pair_release(struct loco_runtime *rt, const struct loci_rw *group,
                         const struct loci_rw *member, bool placed)
{
    uint64_t unit = loci_rw_unit(group, LOCI_RW_PART);
    uint64_t name = loci_rw_unit(member, LOCI_RW_EXCLUSIVE);
    loco_ack_t one = LOCO_ACK_INIT, other = LOCO_ACK_INIT;
    int first, second, lost = LOCO_OK;
    uint64_t old[2];

    atomic_fetch_sub_explicit(group->parts, 1, memory_order_relaxed);
    if (!are_far(group, member) || (!placed && !is_ordered(group, member))) {
        first = loci_rw_release(rt, member, LOCI_RW_EXCLUSIVE);
        second = loci_rw_release(rt, group, LOCI_RW_PART);
        return first != LOCO_OK ? first : second;
    }
    first = loci_add(rt, member->mem, member->offset, 0 - name, &old[0], &one);
    second = loci_add(rt, group->mem, group->offset, 0 - unit, &old[1], &other);
    first = first >= 0 ? loco_ack_wait(rt, &one) : first;
    second = second >= 0 ? loco_ack_wait(rt, &other) : second;
    first = loci_add_again(rt, member->mem, member->offset, 0 - name, &old[0], first, &lost);
    second = loci_add_again(rt, group->mem, group->offset, 0 - unit, &old[1], second, &lost);
    return first != LOCO_OK ? first : second != LOCO_OK ? second : lost;
}
