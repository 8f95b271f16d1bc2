/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_FORK_H
#define LOCO_FORK_H

#include <sys/types.h>

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup fork Bootstrap for processes of one node without MPI
 *
 * loco_fork_start forks processes, the members, each of which gets a bootstrap to open its runtime
 * from. Use it for programs on one machine that do not use MPI. The parent itself is not a member.
 * The kernel kills the members if the thread that started them ends first.
 *
 * | call              | by whom                                             |
 * |-------------------|-----------------------------------------------------|
 * | loco_fork_start   | any thread; only it survives in the members, as after every fork, so no runtime may be open then |
 * | loco_fork_pid     | the parent, any thread                              |
 * | loco_fork_wait    | the parent, once                                    |
 *
 * \see loco_runtime(3)
 * @{ */
typedef struct loco_fork loco_fork_t;

/** What a member does. Its return value, 0 to 255, is its exit code. */
typedef int loco_fork_fn(const struct loco_bootstrap *boot, void *arg);

/** Fork `n` members that call fn(boot, arg), where boot->exchange.rank is the member's rank, and
 * return. An allgather among them returns LOCO_ERR_PEER_DEAD if one of them has ended without it.
 * Errors: LOCO_ERR_ARG, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (a process could not be created; none
 * is left then). */
int loco_fork_start(int n, loco_fork_fn *fn, void *arg, loco_fork_t **job);

/** The process id of a member, valid until loco_fork_wait: a signal sent to it reaches no other
 * process. -1 if there is no such member. */
pid_t loco_fork_pid(const loco_fork_t *job, int rank);

/** Wait until all members have ended, and free the job. `statuses` (n ints, or NULL) receives
 * for each its exit code, or minus the number of the signal that killed it.
 * LOCO_OK if all returned 0, else LOCO_ERR_PEER_DEAD. */
int loco_fork_wait(loco_fork_t *job, int *statuses);

/** loco_fork_start and loco_fork_wait in one call, with the errors of both. */
int loco_fork_run(int n, loco_fork_fn *fn, void *arg, int *statuses);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
