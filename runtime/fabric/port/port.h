/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PORT_H
#define LOCI_PORT_H

#include "runtime.h"

/* Ports: lanes by way of this machine's agent.
 *
 * A process that comes for a moment has no time to connect to other machines. The agent of its
 * machine (channels/pool/) has connections to them already. A port lets a client use those: it is a
 * lane of the contract, whose other end is the agent. After the virtual queue pairs of KRCore (Wei
 * et al., USENIX ATC 2022, section 4), whose place is the kernel; here it is a process, and what a
 * system call was is a ring in memory that both have mapped. The paper leaves open what becomes of
 * a queue pair that fails under several users, and of a request that is refused in the middle of a
 * list; both are said below.
 *
 * Memory. A client is given a slab: memory of the agent's, which is registered since before the
 * client came, and which the client maps. It has a header and some ports. A lane takes a port that
 * is free, without asking anybody, so that opening one costs no message.
 *
 *   word            written by   says
 *   header.asleep   agent        not 0: ring its poller for this, once for each value; it sleeps,
 *                                or is about to
 *   header.turns    agent        grows whenever it has looked at the client's ports
 *   header.opened   client       ports from this number on were never used
 *   port.posted     client       so many requests are there; only grows
 *   port.finished   agent        so many are finished, in the order of their posts; only grows
 *   request[i]      client       request number i modulo the depth
 *   completion[i]   agent        what became of it, and the old value of an atomic
 *   arena           both         bytes of writes, by the client; of reads, by the agent's device
 *
 * Publication. The client fills in the request and its bytes of the arena, and then stores
 * `posted` by an atomic in total order; then it looks at `asleep`, and rings. The agent announces
 * `asleep` by such an atomic, and then looks at `posted`: one of the two sees the other. Each
 * announcement is another number. One ring is enough for each: the agent, which is rung after it
 * has announced, takes the announcement back, or has done so, before it looks again. So what was
 * posted by who still saw that number is there when it looks. The agent copies a request once, and
 * checks and uses the copy. It writes the completion, and stores `finished` with release after it.
 * The client takes completions before it uses their places, or their bytes of the arena, again. So
 * no word has two writers, and nobody waits for the other's CPU while it holds something.
 *
 * What is checked, by the agent, before it posts (check.c): that the kind exists; that the grant is
 * one of this client's, and stands; that it allows the operation; that the range lies in what was
 * granted, and, for an atomic, is 8 aligned bytes; that the bytes lie in the port's own arena. A
 * request names a grant by its number: the client never says a key. Who does not count right (more
 * posted than the ring has) loses the port.
 *
 * Order. Requests of a port are taken in order, and posted in order on the agent's one lane to that
 * target, which all ports to it share. So they are ordered among themselves as on a lane of their
 * own, and a place of any of them places the writes of all. A lane is to one target, so a port is,
 * too, until it is another lane's. `finished` is in the order of the ring, though short writes are
 * done when they are posted.
 *
 * Room. A target has so many requests under way at most (an option), each with a slot of the
 * agent's; where there is none, or the fabric says LOCO_ERR_AGAIN, requests stay in their rings.
 * Ports take turns, a few requests each, and one whose target has no room holds up no other.
 *
 * Failure.
 *   - A request is refused: it is told so, and what was posted behind it is flushed with the same
 *     status, as on a queue pair: a flag must not be written where its data was refused. The client
 *     mends its lane by the next epoch, which its requests say. Other ports see nothing of it.
 *   - The agent's lane to a target fails. What was in flight on it is told what became of it, and
 *     fails its ports. So do ports that have written what is not known to be placed: they are told
 *     that it is lost with what they post next. Others go on when the agent has mended its lane.
 *   - A client dies, at any step: what it has not published was never there, and what it has is
 *     not taken any more. What is under way uses its arena: the slab is given to another client
 *     when that is finished, and its writes are placed: nothing of it arrives any more.
 *   - The agent dies, at any step: what is not finished ends with LOCO_ERR_PEER_DEAD, and so does
 *     all that is posted later; the log says once what to do. Writes may be placed, or not. It is
 *     the same when the agent is stopped, and has not looked at what a client waits for in the time
 *     that another machine may be silent (LOCO_PEER_TIMEOUT).
 *   - A target dies: the same for those who use it. It may come back, as the same process whose
 *     connection has broken: so what was granted of it is lost then (loci_ports_lose), and its
 *     requests are refused with LOCO_ERR_PEER_DEAD whatever becomes of it.
 *
 * Trust. Client and agent are of one user. The checks keep a client's mistakes, and its forged
 * requests, from others; but it maps the agent's memory, as it does for stores of its own machine,
 * and who writes there at random is stopped by nobody.
 *
 * Algorithmic cost: a request is one line of the ring and one atomic for each chain; opening a lane
 * is a search for a free port. */

#define LOCI_PORT_ROOM_MOST 64
#define LOCI_PORT_DEPTH_MOST 256
#define LOCI_PORT_GRANTS 256        /* of a client */
#define LOCI_PORT_NO_ARENA UINT32_MAX

enum loci_port_may { LOCI_PORT_MAY_READ = 1, LOCI_PORT_MAY_WRITE = 2, LOCI_PORT_MAY_ATOMIC = 4 };

/* ---- what both have mapped ---- */

struct loci_port_header {
    _Alignas(LOCI_CACHE_LINE) _Atomic uint64_t asleep;
    _Alignas(LOCI_CACHE_LINE) _Atomic uint64_t turns;
    _Alignas(LOCI_CACHE_LINE) _Atomic uint64_t opened;
};

struct loci_port_words {
    _Alignas(LOCI_CACHE_LINE) _Atomic uint64_t posted;
    _Alignas(LOCI_CACHE_LINE) _Atomic uint64_t finished;
};

struct loci_port_request {
    uint8_t kind;                   /* enum loci_op_kind */
    uint8_t unused;
    uint16_t epoch;
    uint32_t grant;
    uint64_t offset;                /* in the memory of that key */
    uint32_t len;
    uint32_t arena;                 /* where its bytes are; NO_ARENA: a write of at most 8, which */
    uint64_t operand;               /* are here */
    uint64_t compare;
    uint64_t room[3];
};
_Static_assert(sizeof(struct loci_port_request) == LOCI_CACHE_LINE, "one line each");

#define LOCI_PORT_LOST UINT64_C(0x100000000)   /* writes that were told done are lost */
struct loci_port_completion {
    uint64_t status;                /* its low half an int; and LOCI_PORT_LOST */
    uint64_t value;
};

/* All that a client is told when it comes. */
struct loci_port_welcome {
    struct loci_memkey slab;
    uint32_t number;                /* for loci_ring_for() */
    uint32_t ports;
    uint32_t depth;                 /* of a ring; a power of two */
    uint32_t arena;                 /* bytes of each port; a multiple of 64 */
    uint64_t label;                 /* of the agent's runtime */
};

/* Where they are in a slab. */
static inline size_t loci_port_bytes(const struct loci_port_welcome *w)
{
    return sizeof(struct loci_port_words)
           + w->depth * (sizeof(struct loci_port_request) + sizeof(struct loci_port_completion))
           + w->arena;
}

static inline size_t loci_port_slab_bytes(const struct loci_port_welcome *w)
{
    return sizeof(struct loci_port_header) + w->ports * loci_port_bytes(w);
}

struct loci_port_at {
    struct loci_port_words *words;
    struct loci_port_request *request;
    struct loci_port_completion *completion;
    unsigned char *arena;
};

static inline struct loci_port_at loci_port_at(const struct loci_port_welcome *w,
                                               unsigned char *slab, uint32_t port)
{
    unsigned char *p = slab + sizeof(struct loci_port_header) + port * loci_port_bytes(w);
    struct loci_port_at at = { .words = (struct loci_port_words *)(void *)p };

    p += sizeof *at.words;
    at.request = (struct loci_port_request *)(void *)p;
    p += w->depth * sizeof *at.request;
    at.completion = (struct loci_port_completion *)(void *)p;
    at.arena = p + w->depth * sizeof *at.completion;
    return at;
}

/* ---- a client (client.c, lane.c) ---- */

/* Lanes of `rt` that are opened from now on to the peers of loci_port_granted() go by the agent, an
 * index of this runtime's table that the caller uses (loci_peers_use) until the runtime closes. One
 * agent at a time for each runtime. LOCO_ERR_STATE: it has one. LOCO_ERR_SHARED: its memory cannot
 * be mapped. LOCO_ERR_UNSUPPORTED: the runtime's fabric is of one node alone. */
int loci_port_attach(struct loco_runtime *rt, int agent, const struct loci_port_welcome *welcome);
/* What the agent has granted, under that number: a part of the memory of that key, of `peer`, of
 * whose table this process is a user as above. LOCO_ERR_FULL. Any thread. */
int loci_port_granted(struct loco_runtime *rt, int peer, const struct loci_memkey *key,
                      uint64_t base, uint64_t len, uint32_t grant);

/* That grant of that peer's memory, or each, is not used any more, before the caller ends its use
 * of the peer or gives the grant back. Any thread. */
#define LOCI_PORT_ALL_GRANTS UINT32_MAX
void loci_port_ungranted(struct loco_runtime *rt, int peer, uint32_t grant);
/* Whether there is an agent to go by. */
bool loci_port_is_attached(struct loco_runtime *rt);

/* Whoever goes on is to have connections of its own: lanes that have posted at least `many`
 * requests since the call before move over to those of the runtime (loci_lane_move), of which each
 * makes its thread wait for as long as one is made. To be called now and then, by one thread at a
 * time, which may be any. Returns how many have moved. */
int loci_port_move_over(struct loco_runtime *rt, uint64_t many);
/* How many requests lanes to that peer have posted since this was asked last; by one thread at a
 * time. */
uint64_t loci_port_posted(struct loco_runtime *rt, int peer);
/* All lanes to that peer, which this process has met, move over; none goes there by the agent any
 * more from now on. The calling thread connects first, so that others stand still for as long only
 * as a lane of theirs takes. Returns how many have. */
int loci_port_leave_peer(struct loco_runtime *rt, int peer);
/* Go by it no more, so that the client may tell the agent that it leaves: what lanes have posted is
 * finished, for as long as the agent lives, and within loci_grace(); then they are closed, and what
 * is posted on them fails with LOCO_ERR_STATE. Another attach is possible then; the lanes that were
 * closed stay so until their peers have gone. A runtime that closes does
 * it by itself. Whoever wants to know that writes are placed fences first. Any thread. */
void loci_port_detach(struct loco_runtime *rt);

extern const struct loci_fabric_ops loci_fabric_port;

/* ---- the agent (agent.c, grant.c, serve.c) ---- */

struct loci_ports;

struct loci_port_options {
    int clients;                    /* at once */
    uint32_t ports, depth, arena;   /* of each, as in the welcome */
    uint32_t room;                  /* requests under way to one target, LOCI_PORT_ROOM_MOST at
                                     * most */
    void (*freed)(void *ctx);       /* nullable: a client's slab is free; by the poller, which holds
                                     * a lock: it calls nothing of this file */
    void *freed_ctx;
};

struct loci_port_stats {
    uint64_t taken, refused, posted;    /* requests */
    uint64_t failed;                /* posted, or checked and then refused by the fabric */
    uint64_t misused;               /* ports that were taken away */
    uint64_t clients, leaving;      /* slabs in use; and whose client has gone, not finished yet */
};

/* Memory for all of them is taken now. LOCO_ERR_NO_MEMORY, LOCO_ERR_ARG. */
int loci_ports_open(struct loco_runtime *rt, const struct loci_port_options *options,
                    struct loci_ports **out);
/* Waits until what is under way is finished. No client uses it any more. NULL is allowed. */
void loci_ports_close(struct loci_ports *ports);
/* A client has come; index of peer, which the caller uses until loci_ports_leave(). `client` out, a
 * number of this call's. LOCO_ERR_FULL. */
int loci_ports_enter(struct loci_ports *ports, int peer, int *client,
                     struct loci_port_welcome *welcome);
/* It has left, or died: nothing more of it is taken. */
void loci_ports_leave(struct loci_ports *ports, int client);
/* Whether what it had under way is over, too, and its slab is free: of who has left, before the
 * next one enters. */
bool loci_ports_is_free(const struct loci_ports *ports, int client);
/* Have a lane to that peer, of which the caller is a user, before anybody wants it: soon. And no
 * more: what was granted of its memory is lost. The peer is used until that is over.
 * LOCO_ERR_NO_MEMORY. */
int loci_ports_reach(struct loci_ports *ports, int peer);
void loci_ports_lose(struct loci_ports *ports, int peer);
/* It may do that (enum loci_port_may) to [base, base + len) of the memory of that key, of `peer`.
 * LOCO_ERR_RANGE: it is not in it; LOCO_ERR_FULL; LOCO_ERR_NO_MEMORY. */
int loci_ports_grant(struct loci_ports *ports, int client, int peer,
                     const struct loci_memkey *key, uint64_t base, uint64_t len, unsigned may,
                     uint32_t *grant);
/* It may no more: its requests are refused with LOCO_ERR_STATE. LOCO_OK: nothing that it has posted
 * there arrives any more; LOCO_ERR_AGAIN: it may; call again. LOCO_ERR_RANGE: there is no such
 * grant, or none any more. */
int loci_ports_revoke(struct loci_ports *ports, int client, uint32_t grant);
void loci_ports_stats(struct loci_ports *ports, struct loci_port_stats *stats);

#endif
