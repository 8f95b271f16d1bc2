/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RUNTIME_H
#define LOCI_RUNTIME_H

/* The runtime as its own files and the channels see it. Nothing here is static or global: all
 * hangs off a struct loco_runtime, one per process in production, hundreds in a simulation. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/ack.h>
#include <loco/fence.h>
#include <loco/runtime.h>
#include <loco/status.h>

#include "fabric/fabric.h"
#include "lock.h"
#include "move/credit.h"
#include "observe/calls.h"
#include "observe/counters.h"
#include "observe/log.h"
#include "observe/stats.h"
#include "observe/tunables.h"
#include "rung.h"

#ifdef LOCO_DEBUG
#include <assert.h>
#define LOCO_ASSERT(condition) assert(condition)
#else
#define LOCO_ASSERT(condition) ((void)0)
#endif

#define LOCI_CACHE_LINE 64
#define LOCI_SLOTS (64 * LOCO_ACK_WORDS)    /* operations in flight per thread */
#define LOCI_CHAIN 16                       /* operations that fabrics are given at once */
#ifdef LOCO_SIM
#define LOCI_MAX_PEERS 2048                 /* hundreds of runtimes share this memory */
#else
#define LOCI_MAX_PEERS 65536
#endif
#define LOCI_SELF 0                         /* index of this process in its table of peers */

/* ---- the host: what differs between production, MPI and simulation (wait.c) ---- */

/* `len` bytes from `base` on are going. Called inside allocators: it takes no lock, and allocates
 * nothing. */
typedef void loci_released_fn(void *arg, const void *base, size_t len);

struct loci_host {
    void *ctx;
    int64_t (*now)(void *ctx);                      /* nanoseconds, monotonic */
    uint64_t (*random)(void *ctx);
    /* A waiter has polled `rounds` times in vain since it last made progress. */
    void (*idle)(void *ctx, unsigned rounds);
    struct loci_thread *(*self)(void *ctx);         /* NULL: thread-local in self.c */
    /* Nullable: nobody sleeps then. Sleep while `*word` is `seen`, until a wake of that word by
     * any process, for at most `ns` (or LOCO_FOREVER); may return before. */
    void (*sleep)(void *ctx, _Atomic uint32_t *word, uint32_t seen, int64_t ns);
    void (*wake)(void *ctx, _Atomic uint32_t *word);
    /* Nullable. A wait begins that is not over at the first look: for this. */
    void (*waits)(void *ctx, const char *what);
    /* Which of the job's processes on this node this is, from 1: they take devices in turn. 0: not
     * known, and its number in the job has to do. */
    unsigned place;
    /* Nullable. From now on say when memory of this process is about to be given back to the
     * system, or be replaced: before it is, in the thread that does it; with `released` NULL: no
     * more, and none is under way. LOCO_OK, or nobody can tell. */
    int (*watch_memory)(void *ctx, loci_released_fn *released, void *arg);
};

/* ---- bells (wait.c, bell.h) ---- */

/* What a waiter sleeps for. Who may end such a wait rings that bell of its process, if there is a
 * sleeper; nobody's sleep is disturbed by what others wait for. */
enum loci_bell_kind {
    LOCI_BELL_ANY,                  /* rung by name, not for sleepers that it finds: loci_ring() */
    LOCI_BELL_SST, LOCI_BELL_QUEUE, LOCI_BELL_TICKET, LOCI_BELL_WORD, LOCI_BELL_WINDOW,
    LOCI_BELL_READY,
    LOCI_BELL_ACK,                  /* of operations in flight: fabrics that say `completes` */
    LOCI_BELL_POLLER,               /* for the channels that `rung` says */
    LOCI_BELLS
};

struct loci_bell {
    _Atomic uint32_t rings;         /* grows: a futex */
    _Atomic uint32_t asleep;        /* threads of its process that sleep by it, or are about to */
};

/* A process's, in memory that the peers of its node map. A process that is killed while it watches
 * stays counted, which makes those who change such words look for sleepers that are not there. */
struct loci_bells {
    struct loci_bell bell[LOCI_BELLS];
    /* Threads of any process that sleep until somebody changes a word in this one's memory: those
     * who do so do not know whom to ring, so they look at all that it may be. */
    _Alignas(64) _Atomic uint32_t watchers[LOCI_BELLS];
    _Alignas(64) struct loci_rung rung;
};

/* ---- peers (peer.c) ---- */

enum loci_peer_state { LOCI_PEER_ALIVE, LOCI_PEER_LEFT, LOCI_PEER_DEAD };

/* Why the service thread is to see a peer as gone. */
enum loci_unwelcome { LOCI_WELCOME, LOCI_STOPPED_TOO_LONG, LOCI_SAID_LEFT, LOCI_SAID_DEAD };

/* When members of endpoints there are asked again (names/ask.c); under the lock of the names. */
struct loci_asking {
    int64_t at, after;              /* the next time, and how long after it the one after that */
    int64_t asked;                  /* the last time; or when it was first expected to answer */
    int left;                       /* questions of the round under way */
    bool heard;                     /* something came from there since */
    uint64_t words;                 /* that ever came from there */
};

struct loci_peer {
    int index;                      /* in this runtime's table; differs between processes */
    struct loci_address address;
    /* This, and device_data, of a peer that was noted come when it is met, while threads already
     * use it by another way. */
    _Atomic bool reachable;         /* the fabric carries data to it */
    _Atomic int introduced;         /* LOCO_OK, or why not reachable; under peers_lock */
    _Atomic int state;              /* enum loci_peer_state; set by loci_peer_gone() */
    _Atomic int rank;               /* 1 + its rank in loco_everyone(); 0: not known; for the log */
    _Atomic bool silent;            /* it has gone; nothing that it had posted arrives any more */
    void *fabric_data;              /* the fabric's own; NULL: nothing, or no more */
    void *_Atomic device_data;      /* of verbs and tcp, beside shm's */
    _Atomic(struct loci_bells *) bells; /* mapped here; NULL: not yet; rt->no_bells: of one that
                                     * does not rely on our ringing */
    struct loci_asking asking;
    _Atomic int holders;            /* of its place in the table, */
    _Atomic int users;              /* and those of them who use what the fabric has: forget.c */
    _Atomic int unwelcome;          /* enum loci_unwelcome: the service thread is to cut it off */
    _Atomic bool noted;             /* nothing is connected to it: loci_peer_note() */
    bool in_table;                  /* peers_lock, as the next: its place is not free; */
    bool listed;                    /* it is in rt->unused */
    struct loci_peer *next_unused, *next_free;
};

struct loco_group {
    struct loco_runtime *rt;        /* NULL: that has closed */
    int size;
    int rank;                       /* this process's, or -1 */
    int *peer;                      /* rank -> index of peer */
    bool open;                      /* some are for processes that come later (names/seats.c) */
    struct loco_group *before, *after;  /* in rt->groups, of those that group.c makes */
};

/* Of a group that may be open: the index of the peer of that rank. */
static inline int loci_group_peer(const struct loco_group *group, int rank)
{
    /* Acquire: pairs with the release in loci_endpoint_seat(). */
    return __atomic_load_n(&group->peer[rank], __ATOMIC_ACQUIRE);
}

/* ---- threads, lanes and slots (self.c, lane.c, ack.c) ---- */

/* An operation in flight. Written by the thread that owns the slot before the post, and by
 * loci_slot_done() after. */
struct loci_slot {
    _Atomic uint64_t seq;           /* operation in flight here, 0: free */
    _Atomic uint64_t first_failed;  /* oldest operation that failed here, 0: none, */
    _Atomic uint64_t failed_seq;    /* the youngest, */
    _Atomic int status;             /* and why that did */
    struct loci_lane *lane;         /* where it was posted */
    uint64_t places;                /* its completion places the lane's writes up to here, or 0 */
    bool awaited, untold;           /* as the operation is */
    int64_t began;                  /* of an atomic whose time is measured; 0: it is not */
};

/* Who was told that writes are lost on a lane that has failed: nobody who counts; another thread
 * than the lane's, by a fence of the process; all who have to be (lane.c). */
enum loci_loss { LOCI_LOSS_UNTOLD, LOCI_LOSS_TOLD_OTHERS, LOCI_LOSS_TOLD };

/* written, placing and placed count the lane's writes: writes up to `placed` are placed, those
 * up to `placing` will be when an operation in flight completes; a lane with placed < written is
 * dirty. */
struct loci_lane {
    struct loci_thread *thread;
    struct loci_peer *peer;
    /* The runtime's own, or its detour's; changed under its thread's lock, while nothing is in
     * flight: lane.c. */
    _Atomic(const struct loci_way *) way;
    const struct loci_way *behind;  /* of a lane that moves, under that lock: where it comes from */
    _Atomic bool mending;           /* somebody is at it: lane.c */
    _Atomic bool acks_place;        /* a write's completion says that it is placed; by the fabric */
    _Atomic bool synchronous;       /* by the fabric, in lane_open: as the whole of one may be */
    _Atomic uint64_t written;       /* writes posted; by the lane's thread */
    _Atomic uint64_t placing;
    _Atomic uint64_t placed;
    _Atomic uint64_t told;          /* writes up to here are placed, or counts; by its thread */
    _Atomic int failed;             /* status of the first operation that failed, or LOCO_OK */
    _Atomic int loss;               /* enum loci_loss; only where it has failed */
    _Atomic uint64_t reads;         /* posted, of those that are awaited; and complete. They come */
    _Atomic uint64_t reads_done;    /* in the order of their posts */
    _Atomic int read_lost;          /* status of one that was untold, until its thread is told */
    _Atomic int64_t round_trip;     /* ns, of an atomic; 0: not measured; by whoever polls */
    void *fabric_data;
    struct loci_lane *next_retired; /* in the thread's list */
};

struct loci_thread {
    struct loco_runtime *rt;
    struct loci_thread *next;       /* list of all, never shortened while the runtime is open */
    _Atomic bool in_use;            /* a thread that has gone leaves this to the next new one */
    struct loci_lock lock;          /* posts and polls of these lanes; unused where synchronous */
    struct loci_credit credit;      /* under that lock */
    uint64_t seq;                   /* last operation posted */
    unsigned next_slot;             /* where to look for a free one first */
    struct loci_slot slot[LOCI_SLOTS];
    _Atomic(struct loci_lane *) *lanes;   /* by peer index; reserved address space */
    _Atomic int lane_peers;         /* indices from here on were never opened */
    struct loci_lane *retired;      /* peers_lock: lanes of places that were given back; lane.c */
    struct loci_block *blocks;      /* free memref blocks */
    void *fabric_data;              /* the fabric's own, freed when that closes */
    int number;                     /* in the order they were made */
    struct loci_call call;          /* of a channel, if that is observed */
    uint64_t nowhere;               /* where results of atomics go that nobody waits for */
};

/* ---- memory (memory.c) ---- */

struct loci_extent {
    uint64_t number;                /* never used twice in a process's life */
    size_t len;                     /* of the address range */
    size_t committed;               /* bytes known to be there; at first, from base on */
    struct loci_extent_step *piece; /* of 2 MiB each */
    unsigned char *base;            /* mapped here, aligned to 2 MiB */
    uint64_t rkey;
    uint64_t device;                /* as in struct loci_memkey */
    void *fabric_data;
    void *device_data;              /* of verbs, which leaves the memory itself to shm */
    struct loci_range *free;        /* free sub-ranges in order of their offsets */
    size_t used;                    /* bytes handed out */
    bool alone;                     /* made for one range, larger than the next extent */
    size_t touched;                 /* bytes from base that were ever handed out: not zero */
    struct loci_extent *next;
};

/* ---- the runtime ---- */

/* What peers have left for this process's channels; inbox.h. */
#define LOCI_INBOX_BITS 64
struct loci_inbox_part;
struct loci_inbox {
    _Atomic(unsigned char *) word;  /* NULL: there is none yet, or no more */
    _Atomic uint64_t again;         /* bits of parts that could not do all */
    pthread_mutex_t lock;           /* all that follows; held while parts are asked */
    struct loci_mem mem;
    uint64_t made;                  /* parts so far */
    struct loci_inbox_part *parts[LOCI_INBOX_BITS];
    void *room;                     /* loci_inbox_room(), */
    size_t room_len;
};

struct loco_runtime {
    struct loci_host host;
    struct loci_credits credits;
    struct loci_log log;
    struct loci_log_seldom dropped; /* lines about control messages that were */
    struct loci_tunables tunables;
    const struct loci_fabric_ops *ops;
    struct loci_fabric *fabric;
    struct loci_way way;            /* these two, */
    _Atomic(const struct loci_detour *) detour; /* and what takes lanes in their place; NULL: none;
                                                 * closed with the runtime */
    struct loci_address address;    /* mine */

    pthread_mutex_t peers_lock;     /* who is in the table; who holds a place needs none */
    struct loci_peer **peers;       /* LOCI_MAX_PEERS pointers of reserved address space */
    int *peer_hash;                 /* open addressing by identity: index + 1, 0 empty */
    _Atomic bool cutting;           /* some peer is unwelcome */
    _Atomic int peer_count;         /* places that were ever in use */
    struct loci_peer *nobody;       /* seats.c: the place of those who are not there; NULL: none */
    struct loci_peer *free_peers;   /* places that are not, */
    struct loci_peer *unused;       /* and those of the gone, to be looked at (forget.c) */
    bool parting;                   /* the runtime closes: all is kept from now on */
    struct loco_group *groups;      /* made by group.c and not destroyed */
    _Atomic unsigned deaths;        /* grows around every loss of a peer: waiters look again */
    _Atomic int asymmetric;         /* enum loci_asymmetric; on a line with what locks read */
    struct loci_bells *bells;       /* sleepers' (bell.h) */
    struct loci_bells own_bells;    /* where the fabric has none that peers reach */
    struct loci_bells no_bells;     /* nobody sleeps by them */
    _Atomic bool unheard;           /* there is a process here or elsewhere that rings none */
    bool expects_machines;          /* processes of other machines will be met */
    _Atomic bool stored;            /* window.h: in mapped memory, since the last flush */
    struct loco_group *everyone;
    _Atomic(loci_combine_fn *) combine;     /* what channels do for peers; set by who knows it */
    _Atomic(loci_merge_fn *) merge;         /* the same */
    struct loci_inbox inbox;

    pthread_mutex_t threads_lock;
    _Atomic(struct loci_thread *) threads;
    pthread_key_t thread_key;
    uint64_t cookie;                /* tells this runtime from an earlier one at its address */

    pthread_mutex_t memory_lock;
    struct loci_extent *extents;
    uint64_t extents_made;
    size_t next_extent;             /* bytes of the next one; doubles */
    bool roomy;                     /* address space costs nothing, and pieces can be given back */
    size_t memory_used;             /* bytes committed in all extents */
    _Atomic size_t memory_owed;     /* bytes that come back when members have left (names/) */
    _Atomic unsigned memory_returns;    /* how often some did */
    _Atomic(struct loci_gift *) gifts;  /* to be freed by the next who has the lock */

    struct loci_worker *enroller;   /* asymmetric.c: the thread that registers, or NULL */

    pthread_mutex_t living_lock;    /* living.c */
    struct loci_living *oldest, *youngest;

    pthread_mutex_t poller_lock;    /* threads/poller.c */
    struct loci_poller *poller;     /* NULL: no channel needs one */
    _Atomic(struct loci_thread *) poller_self;  /* its thread, while it runs */

    struct loci_service *service;   /* service.c */
    /* By which attaching asked an agent, for whoever opens that pool first; -1. */
    _Atomic int agent_fd;
    char agent_pool[64];
    struct loci_names *names;       /* names.c */
#ifdef LOCO_COUNTERS
    struct loci_counters counters;
#endif
    _Atomic unsigned observed;      /* enum loci_observe */
    loci_counter stats[LOCI_STAT_COUNT];
    struct loci_trace *trace;       /* NULL: none */
    pthread_mutex_t calls_lock;     /* observe/calls.c */
    struct loci_calls *calls;       /* of channels, if somebody observes */
    int calls_made;
};

/* Log a line; see log.h for levels. */
#define LOCI_LOG(rt, level, ...) loci_log(&(rt)->log, level, __VA_ARGS__)

/* runtime.c. `host` and `ops` NULL: the production ones; tests and the simulation bring theirs. */
int loci_runtime_open(const struct loco_bootstrap *boot, const struct loci_host *host,
                      const struct loci_fabric_ops *ops, loco_runtime_t **rt);

/* peer.c */
static inline struct loci_peer *loci_peer(const struct loco_runtime *rt, int index)
{
    return rt->peers[index];
}
/* Find or make the entry for an address; index out, of which the caller is a holder then. */
int loci_peer_meet(struct loco_runtime *rt, const struct loci_address *address, int *index);
/* The same of one to which nothing is connected: it is reached by a detour (fabric.h), or not at
 * all. Nobody notices its end: who has noted it says it (loci_peer_say_gone). Whoever meets it
 * later has it connected. One that was met before stays as it is. */
int loci_peer_note(struct loco_runtime *rt, const struct loci_address *address, int *index);
static inline bool loci_peer_is_noted(const struct loco_runtime *rt, int index);
/* One that was noted, and not met since, has left, or is dead: it is gone soon. Any thread. */
void loci_peer_say_gone(struct loco_runtime *rt, int index, bool dead);
/* Whether it has gone, or is to be seen as gone soon: it is met anew when all have let go of it. */
bool loci_peer_goes(struct loco_runtime *rt, int index);
/* The peer with that identity, or -1. */
int loci_peer_find(struct loco_runtime *rt, uint64_t identity);
/* Called once by the fabric (service thread) when a process has ended or said goodbye. */
void loci_peer_gone(struct loco_runtime *rt, struct loci_peer *peer, enum loci_peer_state state,
                    const char *how);
/* ", rank 3", or nothing if that is not known: in `text`. */
#define LOCI_RANK_TEXT 24
const char *loci_peer_rank_text(const struct loci_peer *peer, char *text);
/* Called by the fabric, by any thread, once it has cut off a peer that has gone. */
void loci_peer_silent(struct loco_runtime *rt, struct loci_peer *peer);
/* Cut off a peer of another machine as one that is dead, soon: its connections end, so that what it
 * posts later fails, and it is told that this process is gone. For who is stopped for too long. A
 * peer of this machine maps memory, and stays what it is. Any thread. */
void loci_peer_cut(struct loco_runtime *rt, int index);
/* By the service thread: those are gone. */
void loci_peers_cut(struct loco_runtime *rt);
/* An empty table, before any other thread may look for a sender in it. */
int loci_peers_open(struct loco_runtime *rt);
/* The first entry, LOCI_SELF, once the fabric has completed the address. */
int loci_peers_enter_self(struct loco_runtime *rt);
/* Tell the fabric to forget them; then, once nothing runs any more, free them. */
void loci_peers_part(struct loco_runtime *rt);
void loci_peers_close(struct loco_runtime *rt);
static inline bool loci_peer_alive(const struct loco_runtime *rt, int index)
{
    return atomic_load_explicit(&rt->peers[index]->state, memory_order_acquire)
           == LOCI_PEER_ALIVE;
}
static inline bool loci_peer_is_noted(const struct loco_runtime *rt, int index)
{
    return atomic_load_explicit(&rt->peers[index]->noted, memory_order_acquire);
}
/* Whether nothing of one that has gone arrives here any more. */
static inline bool loci_peer_is_silent(const struct loco_runtime *rt, int index)
{
    /* Pairs with the exchange in loci_peer_silent(). */
    return atomic_load_explicit(&loci_peer(rt, index)->silent, memory_order_acquire);
}

/* forget.c: whose places in the table are kept for how long. A holder keeps the place: the index
 * leads to the same process until it lets go. A user is a holder who also needs what the fabric has
 * for that process, alive or gone: memory that is mapped, descriptors, lanes. Peers are given by
 * their indices, and need not differ; LOCI_SELF may be among them. To begin, the caller holds them,
 * or is the service thread, in the middle of something that the peer has sent. */
void loci_peers_hold(struct loco_runtime *rt, const int *peers, int n);
void loci_peers_let_go(struct loco_runtime *rt, const int *peers, int n);
void loci_peers_use(struct loco_runtime *rt, const int *peers, int n);
void loci_peers_end_use(struct loco_runtime *rt, const int *peers, int n);
/* Service thread: give back what is left of the gone that nobody uses, or holds. */
void loci_peers_tidy(struct loco_runtime *rt);
/* Of somebody who has gone: the service thread looks whether anybody uses it. */
void loci_peer_is_unused(struct loco_runtime *rt, struct loci_peer *peer);
/* The runtime closes: nobody is forgotten any more. */
void loci_peers_keep(struct loco_runtime *rt);
/* peer.c, under peers_lock: a place that is free, or a new one; NULL: there is none. */
struct loci_peer *loci_peer_take_place(struct loco_runtime *rt);
/* For it, out of the table. */
void loci_peer_leave_table(struct loco_runtime *rt, struct loci_peer *peer);

/* Make `group` the runtime's loco_everyone(), which owns it from then on. */
int loci_runtime_set_everyone(struct loco_runtime *rt, struct loco_group *group);
/* From now on the log names these peers by their ranks in this group, too. */
void loci_group_name_ranks(const struct loco_group *group);

/* group.c: a group of these peers, in this order; the array is copied. */
int loci_group_of(struct loco_runtime *rt, int size, const int *peers, struct loco_group **group);
/* LOCO_OK, or LOCO_ERR_UNSUPPORTED when a fabric does not reach all members: the log names one. */
int loci_group_reached(const struct loco_group *group);
/* A round in which each member tells its status: LOCO_OK if all are, else this member's own or the
 * first one's. It needs no memory, so that who has none can say so. loco_group_meet begins with
 * one: who cannot come to the rest of it takes part in this. */
int loci_exchange_status(const struct loco_exchange *exchange, int status);
/* The runtime has closed: groups that a program has not destroyed hold nothing of it. */
void loci_groups_close(struct loco_runtime *rt);
/* Which member a peer is; -1: none. */
int loci_group_rank_of(const struct loco_group *group, int peer);

/* self.c: this thread's context; made on its first call. NULL only when memory is exhausted. */
struct loci_thread *loci_self(struct loco_runtime *rt);
/* A context for a thread that has none: one that was left, or a new one. NULL without memory. For
 * hosts that know their threads themselves. */
struct loci_thread *loci_thread_attach(struct loco_runtime *rt);
int loci_threads_open(struct loco_runtime *rt);
void loci_threads_close(struct loco_runtime *rt);

/* lane.c. `loci_lane` opens the lane on first use; NULL with *status set when it cannot. */
struct loci_lane *loci_lane_open(struct loci_thread *thread, int peer, int *status);
static inline struct loci_lane *loci_lane(struct loci_thread *thread, int peer, int *status)
{
    struct loci_lane *lane = atomic_load_explicit(&thread->lanes[peer], memory_order_relaxed);

    return lane != NULL ? lane : loci_lane_open(thread, peer, status);
}
/* forget.c, under peers_lock: nobody uses that place. False: something is in flight there still. */
bool loci_lanes_retire(struct loco_runtime *rt, const struct loci_peer *peer);
/* A fence that covers the lane returns its failure to the calling thread. */
void loci_lane_told(struct loci_lane *lane);
/* Poll one lane under its thread's lock. Any thread. */
int loci_lane_poll(struct loci_lane *lane);
/* A free slot of this thread, polling until there is one; marked with the next sequence number. */
struct loci_slot *loci_slot_take(struct loci_thread *thread, struct loci_lane *lane);
/* Fabrics: the operation of this slot is complete (LOCO_OK) or has failed. Any thread. */
void loci_slot_done(struct loci_slot *slot, int status);
/* By the fabric, too: all of the lane's writes up to this number are placed. */
void loci_lane_placed(struct loci_lane *lane, uint64_t places);
/* Post one write that is done when this returns: it takes no slot. LOCO_ERR_AGAIN: it is not one,
 * or not now; it is to be posted as any operation. */
int loci_lane_write(struct loci_lane *lane, struct loci_op *op);
static inline const struct loci_way *loci_lane_way(const struct loci_lane *lane)
{
    /* Pairs with the release of who has made it. */
    return atomic_load_explicit(&lane->way, memory_order_acquire);
}
/* Go another way from now on. What is in flight is waited for, and placed; who posts meanwhile
 * waits. Any thread. LOCO_ERR_STATE: it has failed, or another moves or mends it; or why it stays
 * as it is. A lane on which writes merge goes no way that does not take them. */
int loci_lane_move(struct loci_lane *lane, const struct loci_way *way);
/* Whether what the lane has is that way's: it goes there, or is about to leave. Under its thread's
 * lock. */
bool loci_lane_is_on(const struct loci_lane *lane, const struct loci_way *way);
/* All lanes that go that way are closed: what is in flight there is told by the fabric, and posting
 * fails with LOCO_ERR_STATE. Those that come to it meanwhile are missed. Any thread. */
void loci_lanes_leave(struct loco_runtime *rt, const struct loci_way *way);
/* Post one operation with a slot of the caller's, whose `lane` and `seq` are set; wait for nothing.
 * What post of a fabric returns; LOCO_ERR_AGAIN, too, where the lane has failed and is to be mended
 * (loci_lane_try_mend). */
int loci_lane_try(struct loci_lane *lane, struct loci_op *op);
/* Make a lane that has failed as if it were new, by who has told of its loss himself. LOCO_OK,
 * LOCO_ERR_AGAIN: something is in flight still, or another is at it; or why it cannot be. */
int loci_lane_try_mend(struct loci_lane *lane);
/* Post one operation. Returns LOCO_OK, LOCO_IN_PROGRESS (slot in *ack) or an error. */
int loci_lane_post(struct loci_lane *lane, struct loci_op *op, loco_ack_t *ack);
/* Post a chain of any length, in order. LOCO_OK: all are done, or in flight and in *ack; or an
 * error: what was posted before it is, all the same. */
int loci_lane_post_chain(struct loci_lane *lane, struct loci_op *ops, int n, loco_ack_t *ack);

#endif
