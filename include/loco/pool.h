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
 * A pool is memory that a separate process, its agent, keeps. Programs that come and go find stores
 * in it by name, and in these stores trees, hash tables and objects. What one program has
 * committed, the next one finds.
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
 * An MPI program already has a runtime (loco_runtime_open_mpi), and opens the pool on it. Nothing
 * is collective: each process opens the pool and its stores at any time, and closes them or dies
 * independently of the others.
 *
 * A pool belongs to one machine, or has an agent on each of several (loco_agent_options_t.join).
 * One of the agents keeps a store, and programs on all machines find it by its name. A program has
 * a place at the agent of its machine, and at each other agent whose stores it opens, until it
 * closes the pool. All run as the same user. On one machine the socket is in a folder of that user,
 * and both sides ask the kernel for the other's user. Between machines both prove that they know
 * the pool's secret.
 *
 * | call                 | concurrent | blocks                  | when it returns LOCO_OK      |
 * |----------------------|------------|-------------------------|------------------------------|
 * | loco_runtime_attach  | yes        | a request to the agent | |
 * | loco_pool_open       | yes        | a request to the agent | this process has a place |
 * | loco_pool_close      | with nothing of the pool | no        | its place is free for others |
 * | loco_store_open, loco_mailbox_open | yes | a request to the agent if it is created | it exists |
 * | loco_pool_remove     | yes        | a request to the agent | no program finds it any more |
 * | loco_pool_list, _alive, _places | yes | no                  | |
 *
 * Process failures: if a client dies in the middle of a commit, others undo it, and the agent
 * cleans up its place before it gives that to another client. When the agent dies, the pool and its
 * contents are lost: calls that need it return LOCO_ERR_PEER_DEAD.
 *
 * Clients are not told of each other's deaths, and no call asks for them. If a program must take
 * over the work of a client that died, use a lease: a record of the store with an owner and an
 * expiry time. The owner renews it before it expires. Any other client takes it by a transaction
 * once it has expired:
 *
 *     struct lease { uint64_t owner, until; };            // until: seconds, time(NULL)
 *
 *     static int take(loco_tx_t *tx, void *arg)           // for loco_tx_run; arg: this client
 *     {
 *         struct client *c = arg;
 *         struct lease lease;
 *         int status = loco_tx_read(tx, c->lease, &lease, sizeof lease);
 *
 *         if (status != LOCO_OK)
 *             return status;
 *         if (lease.owner != c->number && lease.until >= (uint64_t)time(NULL))
 *             return LOCO_ERR_AGAIN;                      // somebody else has it
 *         lease = (struct lease){ c->number, (uint64_t)time(NULL) + 10 };
 *         return loco_tx_write(tx, c->lease, &lease, sizeof lease);
 *     }
 *
 * `number` is a random number that the client draws at its start; a place is reused. An owner that
 * was stopped may wake up after its lease has expired. So each transaction that does its work also
 * reads the lease, and ends without a change if the owner is another: then a late owner cannot
 * change anything. Between machines the clocks must agree to within the margin of the expiry time.
 *
 * Memory at the agent: a store takes its `bytes`, 16 bytes for each of its `objects`, and 18 KiB
 * for each transaction handle: (places + 1) * `threads`, which is 9 MiB for 64 places and 8
 * threads. All of this counts against the agent's option `memory`. The directory of names, 1.7 MiB,
 * and the ports do not.
 *
 * Source: from KRCore (USENIX ATC 2022) come connections that exist before the program starts, and
 * a directory that is read without help of its server. Here an agent in user space has both.
 *
 * \see loco_agent(3), loco_mailbox(3), loco_store(3), loco-agent(1)
 * @{ */
typedef struct loco_pool loco_pool_t;
typedef struct loco_agent loco_agent_t;

#define LOCO_POOL_NAME_MAX 64           /**< bytes of the name of a pool, with the final zero */
#define LOCO_POOL_STORES_MAX 512        /**< stores in a pool */

/** Options of loco_runtime_attach. A zero stands for the default. */
typedef struct loco_attach_options {
    loco_log_fn *log;               /**< receives messages (log.h); NULL: stderr */
    void *log_ctx;
    const char *const *settings;    /**< tunables, "LOCO_SPIN=50"..., the last is NULL; or NULL */
} loco_attach_options_t;

/** Open a runtime for this process alone that can connect to that pool's agent. Close it with
 * loco_runtime_close, after the pool. `options` may be NULL. Errors: LOCO_ERR_NOT_FOUND (no agent
 * of that pool runs on this machine for this user; the log says how to start one),
 * LOCO_ERR_NAME, and those of loco_runtime_open. */
int loco_runtime_attach(const char *pool, const loco_attach_options_t *options,
                        loco_runtime_t **rt);

/** Get a place in a pool. Errors: LOCO_ERR_NOT_FOUND and LOCO_ERR_NAME (as above), LOCO_ERR_FULL
 * (all places are taken: the agent's option `places`; if a place is still being cleaned up after a
 * client left, the call waits up to 10 s for it), LOCO_ERR_UNSUPPORTED (the agent runs as another
 * user, or cannot be reached from here), LOCO_ERR_PEER_DEAD (the agent has ended, or has closed the
 * connection because it has another version), LOCO_ERR_MISMATCH (it moves data by another fabric),
 * LOCO_ERR_NO_MEMORY. */
int loco_pool_open(loco_runtime_t *rt, const char *name, loco_pool_t **pool);
/** Leave the pool, after its stores are destroyed here. NULL is allowed. */
void loco_pool_close(loco_pool_t *pool);

/** LOCO_OK while the agent runs, LOCO_ERR_PEER_DEAD once this process has noticed its end. Says
 * nothing about other clients. Local. */
int loco_pool_alive(const loco_pool_t *pool);
/** How many processes can be in the pool at a time, and the place of this one, from 0. Local. */
int loco_pool_places(const loco_pool_t *pool);
int loco_pool_place(const loco_pool_t *pool);

/** Open the store of that name. If it does not exist, create it with `options` (\ref store; `hosts`
 * and `nhosts` are ignored), at the agent of this machine or of `options->host`. If the store
 * exists, options may be NULL; every non-zero option must equal the one it was created with. The
 * store is used like any other, but only its agent scavenges it. A process can have it open once at
 * a time. Destroy it before the pool is closed; its objects stay in the pool.
 * Errors: LOCO_ERR_NOT_FOUND (it does not exist, and `options` is NULL), LOCO_ERR_MISMATCH (it was
 * created with other options; the log says which), LOCO_ERR_ARG (the options), LOCO_ERR_NAME (the
 * name is empty or longer than 63 bytes, or this process has the store open), LOCO_ERR_FULL (the
 * pool has LOCO_POOL_STORES_MAX stores), LOCO_ERR_NO_MEMORY (the store does not fit into the
 * agent's option `memory`, or into the machine), LOCO_ERR_PEER_DEAD (the agent that keeps it is
 * dead or out of reach), LOCO_ERR_AGAIN (others keep creating and removing it). */
int loco_store_open(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                    loco_store_t **store);

/** A flag of loco_mailbox_open: this process receives. */
#define LOCO_MAILBOX_RECEIVE 1

/** Open the mailbox of that name (\ref mailbox), or create it, as loco_store_open does. `flags` is
 * LOCO_MAILBOX_RECEIVE for the receiver, or 0 for a sender. There is one receiver at a time, and it
 * runs on the machine of the agent that keeps the mailbox. Close it with loco_mailbox_destroy:
 * messages in it stay for the next receiver. Errors: those of loco_store_open, LOCO_ERR_STATE
 * (another process receives), LOCO_ERR_UNSUPPORTED (a receiver on another machine). */
int loco_mailbox_open(loco_pool_t *pool, const char *name,
                      const loco_mailbox_options_t *options, int flags, loco_mailbox_t **box);

/** Remove a store or a mailbox with its contents. A process that has the store open is told within
 * LOCO_KEY_LEASE: from then on calls on the store, its transactions, trees and hash tables return
 * LOCO_ERR_STATE, and an open transaction is not committed. The store's memory is freed when every
 * process that had it open has been told, has closed it, has ended, or can no longer reach it.
 *   A process that is stopped (SIGSTOP) on the machine of the store keeps the memory until it
 * continues or ends. One on another machine is locked out after two leases. If it uses the ports of
 * its machine's agent, that agent locks it out, and its calls return LOCO_ERR_STATE when it
 * continues. If it has its own connections, the store's agent takes it for dead, and all its calls
 * on stores of that agent return LOCO_ERR_PEER_DEAD.
 *   Processes that have a mailbox open can still use it. Its memory is freed when all processes
 * that were in the pool at that time have left.
 *   If the agent of the store is out of reach, the name becomes free; when that agent returns, so
 * does the store. Errors: LOCO_ERR_NOT_FOUND, LOCO_ERR_PEER_DEAD. */
int loco_pool_remove(loco_pool_t *pool, const char *name);

/** Called with a store's name and options. Returns 0 to go on. */
typedef int loco_pool_visit_fn(void *ctx, const char *name, const loco_store_options_t *options);
/** Call visit(ctx, name, options) for each store, in no particular order. If it returns a number
 * other than 0, loco_pool_list ends and returns that number. The agent takes no part in this.
 * Errors: LOCO_ERR_PEER_DEAD. */
int loco_pool_list(loco_pool_t *pool, loco_pool_visit_fn *visit, void *ctx);
/** @} */

/** \defgroup agent Agents: processes that keep a pool
 *
 * The calls that loco-agent(1) uses, for programs that keep a pool themselves. The agent's runtime
 * is opened for this process alone (a bootstrap with an exchange of size 1) and is used for nothing
 * else.
 *
 * | call             | concurrent   | blocks                                   |
 * |------------------|--------------|------------------------------------------|
 * | loco_agent_start | of other names | no                                     |
 * | loco_agent_stop  | with nothing | until its threads have ended             |
 * | loco_agent_stats | yes          | no                                       |
 *
 * \see loco_pool(3), loco-agent(1)
 * @{ */

/** Options of an agent. A zero stands for the default. */
typedef struct loco_agent_options {
    const char *pool;       /**< letters, digits, '.', '_' and '-', at most 63 bytes */
    uint64_t memory;        /**< bytes that all stores and mailboxes together may use at
                                 this agent; 0: no limit */
    int places;             /**< processes that can be in the pool at a time: 1 to 1,024;
                                 0: 64 */
    const char *join;       /**< NULL: a pool of this machine alone. Otherwise "HOST",
                                 "HOST:PORT" or "[ADDRESS]:PORT" of any agent of a pool of several
                                 machines; the first agent joins its own machine. The runtime is
                                 opened with `other_machines` */
    int port;               /**< where other machines connect; 0: depends on the pool's name, from
                                 20000 to 29999 */
    const char *secret;     /**< the file with the secret of a pool of several machines; NULL:
                                 ~/.loco/POOL.secret. It is created if it does not exist */
    int ports;              /**< in a pool of several machines: how many processes of this machine
                                 can reach the other machines through this agent at a time, for
                                 340 KiB each: 1 to 1,024; 0: as many as places, but at most 64;
                                 -1: none, each process connects by itself */
} loco_agent_options_t;

/** Start to keep a pool. When the call returns, clients can open the pool. Errors: LOCO_ERR_ARG
 * (the options; the log says which), LOCO_ERR_NAME (an agent of that pool is running),
 * LOCO_ERR_SYSTEM (the folder or the socket; the log says why), LOCO_ERR_NO_MEMORY. */
int loco_agent_start(loco_runtime_t *rt, const loco_agent_options_t *options,
                     loco_agent_t **agent);
/** Stop the agent: the contents of the pool are lost. NULL is allowed. */
void loco_agent_stop(loco_agent_t *agent);

/** Statistics of an agent. */
typedef struct {
    uint64_t clients;       /**< processes that are in the pool now */
    uint64_t attached;      /**< processes that ever were in the pool */
    uint64_t died;          /**< processes that left without loco_pool_close */
    uint64_t cleaned;       /**< places that had to be cleaned up after a process */
    uint64_t leaving;       /**< places that are being cleaned up */
    uint64_t stores;        /**< stores that exist */
    uint64_t removed;       /**< removed stores whose memory may still be in use */
    uint64_t memory;        /**< bytes that stores use, including removed ones */
    uint64_t refused;       /**< malformed connections and requests */
    uint64_t ports;         /**< processes that reach other machines through this agent */
    uint64_t port_requests; /**< requests that these have made through it */
    uint64_t port_refused;  /**< of these, requests that were not allowed or malformed */
    uint64_t port_failed;   /**< of these, requests that failed: a lost machine, say */
} loco_agent_stats_t;
void loco_agent_stats(loco_agent_t *agent, loco_agent_stats_t *stats);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
