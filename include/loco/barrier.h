/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_BARRIER_H
#define LOCO_BARRIER_H

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup barrier Barriers
 *
 * A barrier lets all processes of a group wait for each other. Use it between phases of a program.
 *
 *     loco_barrier_create(rt, NULL, "step", loco_everyone(rt), &barrier);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     write_my_part();
 *     status = loco_barrier_wait(barrier);
 *     read_all_parts();
 *
 * When wait returns, all processes of the group have called it. Everything that any thread of
 * these processes wrote before, as far as it happened before the call, is then visible everywhere.
 *
 * Cost: with up to LOCO_BARRIER_DIRECT processes each writes to all others, with all writes in
 * flight together. Larger groups use rounds of dissemination: log2 of the size, with 1 write each.
 *
 * | call              | concurrent                                   | blocks |
 * |-------------------|----------------------------------------------|--------|
 * | _wait, _wait_timed | one thread per process and round; a second one at the same time gets LOCO_ERR_STATE | yes |
 * | _create, _destroy | of other names; with nothing                 | no     |
 *
 * Errors: LOCO_ERR_PEER_DEAD: a member is dead, and the barrier is unusable from then on.
 * Source: Gupta and others, "Efficient barrier using remote memory operations", 2002, as the LOCO
 * paper's figure 1; dissemination: Hensgen, Finkel and Manber, 1988.
 *
 * \see loco_fence(3), loco_runtime(3), loco_sst(3)
 * @{ */
typedef struct loco_barrier loco_barrier_t;

#define LOCO_BARRIER_DIRECT 16

/** Create a barrier for the processes of `group`. All members of `group` call it with the same
 * arguments (`parent` and `name`: loco(3)). The call is local, and the barrier is usable once the
 * runtime is ready (loco_runtime_wait_ready). Errors: LOCO_ERR_ARG, LOCO_ERR_NAME,
 * LOCO_ERR_NO_MEMORY. Destroy it when no thread of this process waits in it. Each process destroys
 * its own handle; a member that has left the barrier may destroy it before others have left. NULL
 * is allowed. */
int loco_barrier_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, loco_barrier_t **barrier);
void loco_barrier_destroy(loco_barrier_t *barrier);

/** Wait until all processes of the group have called it as often as this one; one thread of each
 * process calls. It begins with a fence of LOCO_FENCE_PROCESS to all peers, so no other fence is
 * needed. The death of a process outside the group is not an error of this fence.
 *
 * LOCO_ERR_RANGE: a peer has refused an earlier write of this process, for example because its
 * memory was freed; all processes have met nevertheless.
 *
 * LOCO_ERR_STATE: another thread of this process is in it; nothing was done.
 *
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM: some of the other processes may not have been notified. The
 * next call continues this round. */
int loco_barrier_wait(loco_barrier_t *barrier);

/** Like loco_barrier_wait, but wait for `timeout_ns` nanoseconds at most (LOCO_FOREVER: without
 * limit). After LOCO_ERR_TIMEOUT this process counts as arrived: the others may leave the barrier.
 * Call it, or loco_barrier_wait, again to continue to wait for the same round. That round does not
 * order what was written between the calls. */
int loco_barrier_wait_timed(loco_barrier_t *barrier, int64_t timeout_ns);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
