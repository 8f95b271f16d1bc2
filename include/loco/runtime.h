/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_RUNTIME_H
#define LOCO_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/log.h>
#include <loco/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup runtime The runtime: one process's place in the network memory
 *
 * A process opens one runtime, and creates its channels on it. An MPI program opens it from a
 * communicator with loco_runtime_open_mpi; processes of one node without MPI open it from
 * loco_fork_start.
 *
 * A thread gets its slots and lanes at its first call. Other threads reuse them when it ends.
 *
 * | call                      | with itself, other threads | with destroy/close |
 * |---------------------------|----------------------------|--------------------|
 * | loco_runtime_open         | yes (separate runtimes)    | -                  |
 * | loco_runtime_wait_ready   | yes                        | no                 |
 * | loco_runtime_wait_ready_below | yes                    | no                 |
 * | loco_runtime_close        | no                         | -                  |
 * | loco_api_version          | yes                        | yes                |
 * @{ */
typedef struct loco_runtime loco_runtime_t;

/** Version of the programming interface: (major << 16) + (minor << 8) + patch. */
#define LOCO_API_VERSION 0x000200
/** The same number of the library in use, to be compared with the one compiled against. */
unsigned loco_api_version(void);

/** Time in nanoseconds; as a timeout, LOCO_FOREVER waits until done or a needed peer is dead. */
#define LOCO_FOREVER INT64_C(-1)

/** How a set of processes exchanges small records while it gets to know each other.
 * `allgather` is collective over `size` processes: each gives `len` bytes, `all` receives
 * size * len bytes in rank order. It returns 0, or a negative loco_status. What goes over it
 * includes secrets by which processes of the job know each other: an exchange by files, say, keeps
 * them from other users. */
struct loco_exchange {
    void *ctx;
    int rank;                   /**< mine in this exchange, 0 to size-1 */
    int size;
    int (*allgather)(void *ctx, const void *mine, size_t len, void *all);
};

/** What a runtime is started from. `identity` is unique in the job and kept for life. */
struct loco_bootstrap {
    uint64_t identity;
    struct loco_exchange exchange;
    loco_log_fn *log;               /**< hears what goes wrong (log.h); NULL: stderr */
    void *log_ctx;
    const char *const *settings;    /**< tunables, "LOCO_SPIN=50"..., ended by NULL: stronger than
                                         the environment; NULL: none */
    bool other_machines;            /**< processes of other machines will be met: where LOCO_FABRIC
                                         does not say otherwise, data between machines goes through
                                         an RDMA device, or over TCP where there is none. The same
                                         at all who meet */
};

/** Open this process's runtime. Collective over the bootstrap's exchange; afterwards its
 * members are loco_everyone(). Starts one service thread, which sleeps while there is nothing
 * to do. Errors: LOCO_ERR_ARG (a tunable in the environment is wrong; the log names it),
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (descriptors: the log names the limit). A member that fails
 * makes it fail in all, with its status. */
int loco_runtime_open(const struct loco_bootstrap *boot, loco_runtime_t **rt);

/** Close it. Channels and windows made from it should be destroyed before: those that are not are
 * destroyed here, with a warning that names them, and their handles are valid no more. Not
 * collective. NULL is allowed. */
void loco_runtime_close(loco_runtime_t *rt);

/** Wait until every channel that this process has made so far is made by all its members, at most
 * `timeout_ns` nanoseconds (LOCO_FOREVER: without limit). Channels made before it are usable
 * when it returns LOCO_OK. A channel that lacks members for a second is named in the log (`warn`),
 * with the ranks that have not made it, and similar names that these ranks wait with.
 * Errors: LOCO_ERR_TIMEOUT, LOCO_ERR_MISMATCH (a channel differs from a member's of the same name;
 * the log names both sides), LOCO_ERR_PEER_DEAD, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM. The last two
 * are of this process alone: it lacks what reaching the members' memory takes, descriptors or
 * address space say; the others may be ready, and hear of it from the program. */
int loco_runtime_wait_ready(loco_runtime_t *rt, int64_t timeout_ns);

/** The same for a part of this process's channels: the one with the full name `name`, and all
 * whose full names begin with `name` and a slash or a full stop. A library that makes its channels
 * with the parent "libB", or under names like "libB.table", so waits for its own alone: channels
 * of other libraries neither delay this wait nor make it fail. LOCO_OK at once where there is no
 * such channel. Errors: those of loco_runtime_wait_ready, and LOCO_ERR_NAME (`name` is NULL, empty
 * or too long). */
int loco_runtime_wait_ready_below(loco_runtime_t *rt, const char *name, int64_t timeout_ns);
/** @} */

/** \defgroup group Groups: ordered sets of processes
 *
 * Every channel is created over a group, and names its members by their ranks in it. Every member
 * must list the same members in the same order; a member's index is its rank. Channels copy the
 * group that they are given, so it may be destroyed after that.
 *
 * Processes may join and leave while a runtime is open. The resources that are held for a process
 * that has ended are freed with the last channel or window that refers to it: descriptors,
 * connections, and the mapping of its memory, which is freed with the last channel that uses it. A
 * group keeps the entries of its members in the table of processes, so destroy groups that are no
 * longer needed. A group may outlive the runtime.
 *
 * | call                  | with itself, other threads | blocks                     |
 * |-----------------------|----------------------------|----------------------------|
 * | loco_group_meet       | yes, with different exchanges | until all members call it |
 * | loco_group_destroy    | with no other use of the group | no                    |
 * | the others            | yes                        | no                         |
 * @{ */
typedef struct loco_group loco_group_t;

/** The processes of the bootstrap, in its order. Owned by the runtime. */
const loco_group_t *loco_everyone(const loco_runtime_t *rt);
/** Collective over `exchange`: meet its members, the unknown ones included, and make a group of
 * them in rank order. Errors: those of the exchange; LOCO_ERR_ARG (its rank or size),
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_PROTOCOL (a member runs another version of the library). Where one
 * member fails, all do. */
int loco_group_meet(loco_runtime_t *rt, const struct loco_exchange *exchange,
                    loco_group_t **group);
/** Local: the `n` members of `group` named by `ranks` (n ranks of `group`, each once), in that
 * order. This process need not be one of them, but a group on which it makes channels must have
 * it. Errors: LOCO_ERR_ARG (a rank that is not there, or twice), LOCO_ERR_NO_MEMORY. */
int loco_group_subset(const loco_group_t *group, int n, const int *ranks, loco_group_t **subset);
/** Forget a group made by loco_group_meet or loco_group_subset; NULL is allowed. */
void loco_group_destroy(loco_group_t *group);

/** How many members it has; this process's rank in it, or -1. */
int loco_group_size(const loco_group_t *group);
int loco_group_rank(const loco_group_t *group);

/** LOCO_OK while member `rank` runs, LOCO_ERR_PEER_DEAD once its end has been noticed, LOCO_ERR_ARG
 * if there is no such rank. */
int loco_group_alive(const loco_group_t *group, int rank);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
