/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_POOL_H
#define LOCO_POOL_H

#include <loco/mailbox.h>
#include <loco/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup pool Pools: memory that outlives programs
 *
 * A pool is memory that an agent keeps, a process of its own. Programs that come and go find stores
 * in it by name, and in these stores trees, hashes and objects. What one program has committed, the
 * next one finds.
 *
 *     $ loco-agent start --pool demo --memory 1G
 *
 *     loco_runtime_attach("demo", NULL, &rt);             (a program without MPI)
 *     loco_pool_open(rt, "demo", &pool);
 *     loco_store_open(pool, "accounts", &(loco_store_options_t){ .bytes = 1 << 28 }, &store);
 *     loco_tx_open(store, &tx);
 *     loco_tree_open(tx, loco_store_root(store, 0), NULL, &tree);
 *     loco_tree_put(tree, loco_text("apples"), loco_text("12"));
 *
 * An MPI program has a runtime already (loco_runtime_open_mpi), and opens the pool on that. Nothing
 * is collective: each process opens the pool and its stores by itself, at any time, and closes them
 * or dies without a word to the others.
 *
 * A pool is of one machine, or has an agent on each of several (loco_agent_options_t.join). A store
 * is kept by one of them, and found by its name from all machines. A program has a place at the
 * agent of its machine, and one at each other whose stores it opens, until it closes the pool. All
 * run as the same user: on a machine the socket is in a folder of that user alone, and both sides
 * ask the kernel who the other one is; between machines both prove that they know the pool's
 * secret.
 *
 * | call                 | concurrent | blocks                  | when it has returned LOCO_OK |
 * |----------------------|------------|-------------------------|------------------------------|
 * | loco_runtime_attach  | yes        | a question to the agent | |
 * | loco_pool_open       | yes        | a question to the agent | this process has a place |
 * | loco_pool_close      | with nothing of the pool | no        | its place is for others |
 * | loco_store_open, loco_mailbox_open | yes | where it is made: a question | it is there |
 * | loco_pool_remove     | yes        | a question to the agent | no program finds it any more |
 * | loco_pool_list, _alive, _places | yes | no                  | |
 *
 * A client that dies in the middle of a commit leaves nothing half done: others undo it, and the
 * agent gives its place to another once it has cleaned up. When the agent dies, the pool and all
 * that is in it has gone: calls that need it return LOCO_ERR_PEER_DEAD.
 *
 * Memory at the agent: what the stores have (\ref store), 18 KiB for each place and transaction
 * handle that a store may have, and 1.7 MiB for the directory of names.
 *
 * Source: KRCore (USENIX ATC 2022) wants connections that are there before the program is, and a
 * directory that is read without its server. Here both are an agent in user space.
 * @{ */
typedef struct loco_pool loco_pool_t;
typedef struct loco_agent loco_agent_t;

#define LOCO_POOL_NAME_MAX 64           /**< bytes of the name of a pool, with its end */
#define LOCO_POOL_STORES_MAX 512        /**< stores in a pool */

/** How a program without MPI gets its runtime. Zero is the default. */
typedef struct loco_attach_options {
    loco_log_fn *log;               /**< hears what goes wrong (log.h); NULL: stderr */
    void *log_ctx;
    const char *const *settings;    /**< tunables, "LOCO_SPIN=50"..., ended by NULL; NULL: none */
} loco_attach_options_t;

/** Open a runtime for this process alone, such as the agent of that pool can meet. Close it with
 * loco_runtime_close, after the pool. `options` may be NULL. Errors: LOCO_ERR_NOT_FOUND (no agent
 * of that pool runs on this machine for this user; the log says how to start one),
 * LOCO_ERR_NAME, and those of loco_runtime_open. */
int loco_runtime_attach(const char *pool, const loco_attach_options_t *options,
                        loco_runtime_t **rt);

/** Get a place in a pool. Errors: LOCO_ERR_NOT_FOUND and LOCO_ERR_NAME (as above), LOCO_ERR_FULL
 * (all places are taken: the agent's option `places`; of those that a process has left it waits up
 * to 10 seconds for one to be cleaned up), LOCO_ERR_UNSUPPORTED (the agent runs as
 * another user, or cannot be reached from here), LOCO_ERR_PEER_DEAD (it has ended, or is of another
 * version and so closes the connection), LOCO_ERR_MISMATCH (it moves data by another fabric),
 * LOCO_ERR_NO_MEMORY. */
int loco_pool_open(loco_runtime_t *rt, const char *name, loco_pool_t **pool);
/** Leave it: after its stores are destroyed. NULL is allowed. */
void loco_pool_close(loco_pool_t *pool);

/** LOCO_OK while the agent runs, LOCO_ERR_PEER_DEAD once its end has been noticed. Local. */
int loco_pool_alive(const loco_pool_t *pool);
/** How many processes the pool has room for at a time; the place of this one, from 0. Local. */
int loco_pool_places(const loco_pool_t *pool);
int loco_pool_place(const loco_pool_t *pool);

/** Use the store of that name, and make it if it is not there, at the agent of this machine or of
 * `options->host`. `options` (\ref store; `hosts` and `nhosts` are not looked at) say how. Of one
 * that is there they may be NULL, and what is not zero in them must be as it was made. The
 * store is used like any other, but only its agent scavenges it. A process has it open once at a
 * time. Destroy it before the pool is closed: the objects in it stay.
 * Errors: LOCO_ERR_NOT_FOUND (it is not there, and `options` is NULL), LOCO_ERR_MISMATCH (it was
 * made otherwise; the log says in what), LOCO_ERR_ARG (the options), LOCO_ERR_NAME (empty, longer
 * than 63 bytes, or this process has it open), LOCO_ERR_FULL (there are LOCO_POOL_STORES_MAX),
 * LOCO_ERR_NO_MEMORY (the agent has not so much left of its option `memory`, or the machine),
 * LOCO_ERR_PEER_DEAD (the agent that keeps it has died or is out of reach), LOCO_ERR_AGAIN (others
 * make and remove it all the time). */
int loco_store_open(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                    loco_store_t **store);

/** As a flag of loco_mailbox_open: this process receives. */
#define LOCO_MAILBOX_RECEIVE 1

/** Use the mailbox of that name (\ref mailbox), and make it if it is not there: as loco_store_open.
 * `flags`: LOCO_MAILBOX_RECEIVE for the process that receives, one at a time, which has to run on
 * the machine of the agent that keeps it; 0 to send. Close it by loco_mailbox_destroy: messages in
 * it stay, for who receives next. Errors: those of loco_store_open, LOCO_ERR_STATE (another process
 * receives), LOCO_ERR_UNSUPPORTED (who receives is on another machine). */
int loco_mailbox_open(loco_pool_t *pool, const char *name,
                      const loco_mailbox_options_t *options, int flags, loco_mailbox_t **box);

/** Remove a store, or a mailbox, and all that is in it. A process that has the store open is told
 * within LOCO_KEY_LEASE: calls on the store, its transactions, trees and hashes return
 * LOCO_ERR_STATE from then on, and a transaction that is under way is not committed. The store's
 * memory is used for others when every process that had it open has been told, has closed it, has
 * ended, or cannot reach it any more. A process that is stopped (SIGSTOP) on the machine of the
 * store holds up its memory until it goes on or ends. One of another machine is kept out after two
 * leases: by the agent of its machine, and calls return LOCO_ERR_STATE when it goes on; or, if it
 * has connections of its own, by the store's agent, which takes it for dead: then all calls on
 * stores of that agent return LOCO_ERR_PEER_DEAD. Who has a mailbox open goes on with what was
 * there; its memory is given back when all processes have left that were in the pool at the time.
 * One whose agent is out of reach is forgotten, and its name is free; when the agent is back, so is
 * the store. Errors: LOCO_ERR_NOT_FOUND, LOCO_ERR_PEER_DEAD. */
int loco_pool_remove(loco_pool_t *pool, const char *name);

/** Called with a store's name and options. Returns 0 to go on. */
typedef int loco_pool_visit_fn(void *ctx, const char *name, const loco_store_options_t *options);
/** Call visit(ctx, name, options) for the stores that are there, in no order, until it returns
 * another number than 0, which is returned then. It is read without the agent's help. Errors:
 * LOCO_ERR_PEER_DEAD. */
int loco_pool_list(loco_pool_t *pool, loco_pool_visit_fn *visit, void *ctx);
/** @} */

/** \defgroup agent Agents: who keeps a pool
 *
 * What the tool loco-agent(1) is made of, for programs that keep a pool themselves. The agent's
 * runtime is opened for itself alone (a bootstrap with an exchange of size 1), and serves nothing
 * else.
 *
 * | call             | concurrent   | blocks                                   |
 * |------------------|--------------|------------------------------------------|
 * | loco_agent_start | of other names | no                                     |
 * | loco_agent_stop  | with nothing | until its threads have ended             |
 * | loco_agent_stats | yes          | no                                       |
 * @{ */

/** How a pool is kept. Zero is the default of what may be zero. */
typedef struct loco_agent_options {
    const char *pool;       /**< letters, digits, '.', '_' and '-', at most 63 bytes */
    uint64_t memory;        /**< bytes that all stores may take together; 0: what there is */
    int places;             /**< processes that may be in it at a time: 1 to 1,024; 0: 64 */
    const char *join;       /**< NULL: a pool of this machine alone. Else "HOST", "HOST:PORT" or
                                 "[ADDRESS]:PORT" of any agent of a pool of several machines; the
                                 first one joins its own machine. The runtime is opened with
                                 `other_machines` */
    int port;               /**< where other machines connect; 0: by the pool's name, from 20000 to
                                 29999 */
    const char *secret;     /**< the file with the secret of a pool of several machines; NULL:
                                 ~/.loco/POOL.secret. Made if it is not there */
    int ports;              /**< of a pool of several machines: processes of this machine that may
                                 at a time reach the others by way of this agent, 340 KiB each: 1
                                 to 1,024; 0: as many as places, but at most 64; -1: none, each
                                 connects by itself */
} loco_agent_options_t;

/** Keep a pool: clients may come from when on this returns. Errors: LOCO_ERR_ARG (the options; the
 * log says which), LOCO_ERR_NAME (an agent of that pool runs), LOCO_ERR_SYSTEM (the folder or the
 * socket; the log says why), LOCO_ERR_NO_MEMORY. */
int loco_agent_start(loco_runtime_t *rt, const loco_agent_options_t *options,
                     loco_agent_t **agent);
/** End it: what was in the pool has gone. NULL is allowed. */
void loco_agent_stop(loco_agent_t *agent);

/** What an agent has, and what it has done. */
typedef struct {
    uint64_t clients;       /**< processes that are in the pool */
    uint64_t attached;      /**< that ever were */
    uint64_t died;          /**< of those that left, the ones that did not say so */
    uint64_t cleaned;       /**< places that were left in the middle of something */
    uint64_t leaving;       /**< places that were left, and are not for others yet */
    uint64_t stores;        /**< that are there */
    uint64_t removed;       /**< stores that were removed, whose memory somebody may still use */
    uint64_t memory;        /**< bytes that stores take, the removed among them */
    uint64_t refused;       /**< connections and requests that were not what they should be */
    uint64_t ports;         /**< processes that reach other machines by way of this agent */
    uint64_t port_requests; /**< requests that came by that way */
    uint64_t port_refused;  /**< of these, the ones that were not allowed or made no sense */
    uint64_t port_failed;   /**< and those that failed, as when the other machine was lost */
} loco_agent_stats_t;
void loco_agent_stats(loco_agent_t *agent, loco_agent_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
