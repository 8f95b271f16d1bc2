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
 * | loco_runtime_address      | yes                        | no                 |
 * | loco_runtime_close        | no                         | -                  |
 * | loco_api_version          | yes                        | yes                |
 *
 * \see loco_group(3), loco_log(3), loco_mpi(3), loco_pool(3), loco_status(3)
 * @{ */
typedef struct loco_runtime loco_runtime_t;

/** Version of the programming interface: (major << 16) + (minor << 8) + patch. */
#define LOCO_API_VERSION 0x000200
/** The version of the library in use, to be compared with the version compiled against. */
unsigned loco_api_version(void);

/** Times are in nanoseconds. As a timeout, LOCO_FOREVER means: until done, or until a needed peer
 * is dead. */
#define LOCO_FOREVER INT64_C(-1)

/** How a set of processes exchanges small records when they meet. `allgather` is collective over
 * `size` processes: each passes `len` bytes, and `all` receives size * len bytes in rank order. It
 * returns 0, or a negative loco_status. The records include secrets with which processes of the
 * job authenticate each other. An exchange through files, for example, must protect them from
 * other users. */
struct loco_exchange {
    void *ctx;
    int rank;                   /**< mine in this exchange, 0 to size-1 */
    int size;
    int (*allgather)(void *ctx, const void *mine, size_t len, void *all);
};

/** Parameters for opening a runtime. `identity` is unique in the job and constant. */
struct loco_bootstrap {
    uint64_t identity;
    struct loco_exchange exchange;
    loco_log_fn *log;               /**< receives errors and warnings (log.h); NULL: stderr */
    void *log_ctx;
    const char *const *settings;    /**< tunables, "LOCO_SPIN=50"..., ended by NULL: they override
                                         the environment; NULL: none */
    bool other_machines;            /**< the job has processes on other machines. Unless LOCO_FABRIC
                                         says otherwise, data between machines moves through an
                                         RDMA device, or over TCP if there is none. The same at all
                                         processes of the exchange */
};

/** Open this process's runtime. The call is collective over the bootstrap's exchange; afterwards
 * its members are loco_everyone(). It starts one service thread, which sleeps while there is no
 * work. Errors: LOCO_ERR_ARG (a tunable in the environment is invalid; the log names it),
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (descriptors: the log names the limit). If one member fails,
 * all calls fail with its status. */
int loco_runtime_open(const struct loco_bootstrap *boot, loco_runtime_t **rt);

/** Close the runtime. Destroy its channels and windows first; the remaining ones are destroyed
 * here, with a warning that names them, and their handles become invalid. Not collective. NULL is
 * allowed. */
void loco_runtime_close(loco_runtime_t *rt);

#define LOCO_ADDRESS_MAX 512            /**< bytes of an address */

/** Write this process's address to `address`, which has room for `*bytes` bytes, and set `*bytes`
 * to its length, at most LOCO_ADDRESS_MAX. The program passes it on, by any means, to a process
 * that admits this one (loco_view_admit). It is valid until the runtime closes. Whoever knows it
 * can talk to this process, so keep it from other users. Local. LOCO_ERR_SIZE: there is too little
 * room. */
int loco_runtime_address(loco_runtime_t *rt, void *address, size_t *bytes);

/** Wait until all members have created every channel that this process has created so far, for at
 * most `timeout_ns` nanoseconds (LOCO_FOREVER: without limit). After LOCO_OK all these channels
 * are usable. If a channel lacks members for a second, the log (`warn`) names the channel, the
 * ranks that have not created it, and similar names for which these ranks wait.
 *
 * Errors: LOCO_ERR_TIMEOUT, LOCO_ERR_MISMATCH (a channel differs from a member's channel of the
 * same name; the log names both sides), LOCO_ERR_PEER_DEAD, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM.
 * The last two concern this process only: it lacks a resource for accessing the members' memory,
 * such as descriptors or address space. The other members may be ready; the program has to tell
 * them. */
int loco_runtime_wait_ready(loco_runtime_t *rt, int64_t timeout_ns);

/** The same for some of this process's channels: the one with the full name `name`, and all whose
 * full names begin with `name` and a slash or a full stop. A library that creates its channels
 * with the parent "libB", or under names like "libB.table", thus waits only for its own channels:
 * those of other libraries neither delay this wait nor make it fail. Returns LOCO_OK at once if
 * there is no such channel. Errors: those of loco_runtime_wait_ready, and LOCO_ERR_NAME (`name` is
 * NULL, empty or too long). */
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
 *
 * \see loco_mpi(3), loco_runtime(3)
 * @{ */
typedef struct loco_group loco_group_t;

/** The processes of the bootstrap, in its order. Owned by the runtime. */
const loco_group_t *loco_everyone(const loco_runtime_t *rt);
/** Collective over `exchange`: meet its members, including unknown ones, and create a group of them
 * in rank order. Errors: those of the exchange; LOCO_ERR_ARG (its rank or size),
 * LOCO_ERR_NO_MEMORY, LOCO_ERR_PROTOCOL (a member runs another version of the library). If one
 * member fails, all fail. */
int loco_group_meet(loco_runtime_t *rt, const struct loco_exchange *exchange,
                    loco_group_t **group);
/** Create a group of the `n` members of `group` named by `ranks` (n ranks of `group`, each once),
 * in that order. Local. This process need not be a member, but it can create channels only on
 * groups that include it. Errors: LOCO_ERR_ARG (a rank that does not exist, or occurs twice),
 * LOCO_ERR_NO_MEMORY. */
int loco_group_subset(const loco_group_t *group, int n, const int *ranks, loco_group_t **subset);
/** Destroy a group that was created by loco_group_meet or loco_group_subset; NULL is allowed. */
void loco_group_destroy(loco_group_t *group);

/** The number of members; this process's rank in the group, or -1. */
int loco_group_size(const loco_group_t *group);
int loco_group_rank(const loco_group_t *group);

/** LOCO_OK while member `rank` runs, LOCO_ERR_PEER_DEAD once its end has been detected,
 * LOCO_ERR_ARG if there is no such rank. */
int loco_group_alive(const loco_group_t *group, int rank);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
