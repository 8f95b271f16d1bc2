/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_H
#define LOCI_WINDOW_H

/* A window as its own files see it, and the inline paths that the component takes.
 *
 * Every member has a control block in pool memory, apart from the window's memory: locks,
 * counters, and for DYNAMIC the way to the attached regions. Its layout (all at multiples of a
 * cache line; words of 8 bytes):
 *
 *   LOCI_WINDOW_LOCK     this target's lock                      rw_word.h
 *   LOCI_WINDOW_GROUP    the window's lock, used at rank 0       rw_word.h, window_gate.h
 *   LOCI_WINDOW_ATOMICS  lock of this target's accumulates       window_acc.c
 *   LOCI_WINDOW_SINGLES  whether they may be atomics             window_acc_way.h
 *   LOCI_WINDOW_VECTORS  with several nodes: lock in place of the
 *                        device's atomics                        window_acc_right.h
 *   LOCI_WINDOW_YIELD    whose such lock this member is to give
 *                        back                                    window_acc_right.h
 *   LOCI_WINDOW_ASKED    who asks the holder of that lock         window_flat.c
 *   LOCI_WINDOW_INSIDE   where this member is at atomics         window_acc_way.h
 *   LOCI_WINDOW_REGIONS  head of the tree of attached regions    window_tree.h
 *   LOCI_WINDOW_ROWS     arrived[], posted[rank], completed[rank]  window_active.c
 *   request_at           what this member asks of others         window_flat.c
 *   gather_at            what others gather for this member      gather/gather.h
 *
 * In the nic domain this target's lock and the window's are in the device's own memory where there
 * is some: at the same offsets of a range of their own. Locks of accumulates are not: data and lock
 * are at one peer, so an atomic in host memory that follows the writes is their fence, too.
 *
 * Epochs. What this process may do is in private words: `state` of the window and `epoch` of each
 * target. A target may be accessed if either has LOCI_EPOCH_ACCESS. `state` also counts the locks
 * on single targets. A fence opens an epoch that has no access bit yet: the first operation sets
 * it, on the slow path, and from then on a lock is an error until the next fence. */

#include <loco/region.h>
#include <loco/window.h>

#include "base/reduce.h"
#include "living.h"
#include "locks/rw_word.h"
#include "move/asymmetric.h"
#include "move/rma.h"
#include "runtime.h"

#define LOCI_WINDOW_LOCK 0
#define LOCI_WINDOW_GROUP 64
#define LOCI_WINDOW_LOCKS_END 72    /* of the locks in a range of their own */
#define LOCI_WINDOW_ATOMICS 128
#define LOCI_WINDOW_SINGLES 136
#define LOCI_WINDOW_VECTORS 144
#define LOCI_WINDOW_ASKED 152
#define LOCI_WINDOW_YIELD 160
#define LOCI_WINDOW_REGIONS 192
#define LOCI_WINDOW_INSIDE 256
#define LOCI_WINDOW_ROWS 320
#define LOCI_WINDOW_FLAT 16         /* members up to which a barrier is one round of all to all */
#define LOCI_WINDOW_ROUNDS 16       /* of a barrier above that: 2^16 members */
#define LOCI_WINDOW_MAX LOCI_RW_MAX    /* members */

enum loci_epoch {
    LOCI_EPOCH_ACCESS = 1,          /* in both words: operations are allowed */
    LOCI_EPOCH_PASSIVE = 2,         /* in both words: flushes are allowed */
    LOCI_EPOCH_BUSY = 4,            /* in both words: a lock is being acquired or given back */
    LOCI_EPOCH_NOCHECK = 8,         /* in both words: locked without taking the lock */
    LOCI_EPOCH_EXCLUSIVE = 16,      /* target: mode of its lock */
    LOCI_EPOCH_FENCE = 32,          /* window: a fence has opened an epoch */
    LOCI_EPOCH_START = 64,          /* both: access epoch of start/complete */
    LOCI_EPOCH_EXPOSED = 128,       /* window: exposure epoch of post/wait */
    LOCI_EPOCH_QUICK = 512,         /* target: exclusive without a part of the window's lock */
    LOCI_EPOCH_ONE_LOCK = 256       /* window: unit of the count of locked targets */
};
#define LOCI_EPOCH_LOCKS (~(uint64_t)(LOCI_EPOCH_ONE_LOCK - 1))     /* the count */

/* The words of a member that are taken exclusive. */
enum loci_window_word {
    LOCI_WINDOW_LOCK_WORD, LOCI_WINDOW_ATOMICS_WORD, LOCI_WINDOW_VECTORS_WORD, LOCI_WINDOW_WORDS
};

/* One member's part, and what this process may do there. */
struct loci_target {
    struct loci_mem mem;            /* kind NONE, len 0 where it has none, and for DYNAMIC */
    _Atomic uint32_t epoch;         /* enum loci_epoch */
    uint32_t disp_unit;
    unsigned char *control;         /* its control block, with mapped_by_all; else NULL */
};

/* This member's attached regions, and what is known of another's: window_tree.h,
 * window_search.c. */
struct loci_tree;
struct loci_regions_view;

/* State of post/start/complete/wait, made on first use; window_active.c. */
struct loci_pscw;

/* Short puts and gets that wait to be sent together; window_deferred.c. */
struct loci_deferred;

/* Accumulates that are gathered; gather/gather.h. */
struct loci_gather;

/* What this process knows of the lock in place of the device's atomics; window_acc_right.c. */
struct loci_acc_right {
    _Atomic uint32_t state;         /* whether it holds it for them, and how many threads do */
    _Atomic uint32_t vectors;       /* elements of vectors that these did, since it has it */
    _Atomic uint32_t left;          /* single elements to take the lock until it has it again */
    _Atomic uint32_t done;          /* elements of vectors that took the lock since then */
    _Atomic uint32_t backoff;
    _Atomic uint32_t brief;         /* not 0: it is given back at once, and `left` becomes this */
};

struct loco_window {
    /* What the inline paths look at, a cache line. */
    struct loco_runtime *rt;
    struct loci_mem *control;           /* [group.size]: control blocks */
    _Atomic uint64_t state;             /* enum loci_epoch */
    _Atomic unsigned deaths;            /* rt->deaths when all members were last seen alive */
    int deferred_runs;                  /* in `deferred`, not sent yet; only with one_thread */
    int gathering;                      /* targets that something is gathered for; the same */
    bool one_thread;
    bool synchronous;                   /* of the fabric: writes are visible when they return */
    bool notes_stores;                  /* a flush fences if there were any */
    bool mapped_by_all;                 /* control blocks: each member has mapped each */
    bool atomics;                       /* accumulates may be CPU atomics where elements allow it */
    _Atomic bool singles;               /* and all members know that they are, for good */
    bool device_atomics;                /* the same by atomics of the fabric, of 8 bytes */
    bool merges;                        /* those without a result unanswered: window_acc_merge.c */
    const struct loci_thread *merger;   /* the thread that did the last of them; NULL: none */
    bool no_locks;
    bool quick_locks;                   /* one_thread, mapped_by_all, not no_locks */
    const unsigned char *gate;          /* with mapped_by_all; window_gate.c */
    _Atomic uint64_t *inside;           /* LOCI_WINDOW_INSIDE of this member, where its atomics may
                                           be revoked; NULL: or it is not known yet */
    struct loco_group group;            /* group.peer is in this allocation */

    enum loco_window_kind kind;
    enum loci_domain domain;            /* of the words in all blocks and parts */
    _Atomic uint64_t gate_seen;         /* window_gate.c: when exclusive locks were counted, */
    _Atomic int64_t gate_passed;        /* and how many */
    _Atomic bool grouped;               /* window_gate_far.c: all targets are known to be, */
    _Atomic bool pairs;                 /* or some: exclusive locks take both words */
    _Atomic int parts;                  /* struct loci_rw */

    size_t request_at;                  /* window_flat.c: offset of each member's request, */
    _Atomic bool asking;                /* and this process's is in use */
    _Atomic int crowded;                /* accumulates until it is expected that nobody asks */

    uint32_t *atomic_vectors;           /* [group.size]: window_acc_way.c: elements of vectors that
                                           this process's atomics did, since it last asked */
    struct loci_mem *locks;             /* [group.size]: where the locks are, mostly `control` */

    /* With members on several nodes. */
    _Atomic uint64_t *free_words;       /* [group.size][LOCI_WINDOW_WORDS]: see struct loci_rw */
    struct loci_acc_right *rights;      /* [group.size] */

    void *memory;                       /* all this is in */
    struct loci_living living;
    bool contiguous;                    /* all parts are in the memory of rank 0 */
    _Atomic bool queried;               /* the program has pointers to parts of others */
    struct loci_mem own;                /* local handles of what this member gave */
    struct loci_mem own_control;
    void *base;

    size_t gather_at;                   /* gather/gather.h: offset in control blocks, 0: none */
    bool gathers;                       /* accumulates of this process may be gathered */
    struct loci_gather *gather;         /* NULL: nothing is, here */
    struct loci_deferred *deferred;     /* made on first use */
    int under_way;                      /* with one_thread: whom the last operation put into, or
                                           gets from until a flush; -1: it was another call */
    uint64_t round;                     /* barriers so far */
    struct loci_thread *arriver;        /* the thread that was in the last of them */
    _Atomic(struct loci_pscw *) pscw;

    pthread_mutex_t regions_lock;       /* DYNAMIC: all below */
    struct loci_tree *tree;             /* of this member */
    const void **nothing;               /* where this member attached no bytes; nobody else asks */
    int nothing_count;
    struct loci_regions_view **views;   /* [group.size]; NULL: none of its regions was used yet */

    struct loci_target target[];        /* [group.size] */
};

/* ---- shared by the window's files ---- */

static inline uint64_t loci_window_arrived(int rank_or_round)
{
    return LOCI_WINDOW_ROWS + 8 * (uint64_t)rank_or_round;
}

static inline uint64_t loci_window_posted(int rank)
{
    return LOCI_WINDOW_ROWS + 8 * (uint64_t)(LOCI_WINDOW_FLAT + rank);
}

static inline uint64_t loci_window_completed(const struct loco_window *win, int rank)
{
    return loci_window_posted(win->group.size + rank);
}

static inline bool loci_window_has(const struct loco_window *win, int rank)
{
    return (unsigned)rank < (unsigned)win->group.size;
}

/* The access and passive bits in force towards a target. */
static inline uint64_t loci_window_epoch(const struct loco_window *win, int rank)
{
    return atomic_load_explicit(&win->target[rank].epoch, memory_order_relaxed)
           | atomic_load_explicit(&win->state, memory_order_relaxed);
}

/* No member is lost: no peer was, since all members were last seen alive. */
static inline bool loci_window_calm(const struct loco_window *win)
{
    return atomic_load_explicit(&win->rt->deaths, memory_order_relaxed)
           == atomic_load_explicit(&win->deaths, memory_order_relaxed);
}

/* window.c: loco_window_create and _destroy for a host whose own struct lies directly before the
 * window: `before` bytes of it, zero at first, a multiple of a cache line. The host's calls then
 * know where the window is without a load. Both are free after loci_window_free(). */
struct loci_window_room {       /* what a member needs before it can take part */
    unsigned char *memory;      /* the host's struct and the window */
    void *records;              /* what the members tell each other */
};
/* Members that lack it say so to the others, which may have it: they all come to
 * loci_window_create_behind, which frees it if it fails, or all call loci_window_room_free. */
int loci_window_room(const struct loco_exchange *exchange, size_t before,
                     struct loci_window_room *room);
void loci_window_room_free(struct loci_window_room *room);
int loci_window_create_behind(loco_runtime_t *rt, const struct loco_exchange *exchange,
                              const struct loco_window_spec *spec, size_t before,
                              struct loci_window_room *room, loco_window_t **out);
int loci_window_end(struct loco_window *win);
void loci_window_free(struct loco_window *win);

/* window.c: LOCO_OK, or LOCO_ERR_ARG, _STATE, _PEER_DEAD: whether an operation on that target is
 * allowed now. Turns an unused fence epoch into a used one. */
int loci_window_check_slow(struct loco_window *win, int rank);
static inline int loci_window_check(struct loco_window *win, int rank)
{
    return loci_window_has(win, rank) && loci_window_calm(win)
           && (loci_window_epoch(win, rank) & LOCI_EPOCH_ACCESS) != 0
           ? LOCO_OK : loci_window_check_slow(win, rank);
}
/* LOCO_ERR_PEER_DEAD where that member is dead. */
int loci_window_check_alive_slow(struct loco_window *win, int rank);
static inline int loci_window_check_alive(struct loco_window *win, int rank)
{
    return loci_window_calm(win) ? LOCO_OK : loci_window_check_alive_slow(win, rank);
}

/* Take and add bits of `state` if `forbidden` are absent and `needed` present: LOCO_OK, or
 * LOCO_ERR_STATE and nothing is changed. */
static inline int loci_window_change(struct loco_window *win, uint64_t forbidden, uint64_t needed,
                                     uint64_t take, uint64_t add)
{
    uint64_t old = atomic_load_explicit(&win->state, memory_order_relaxed);

    do {
        if ((old & forbidden) != 0 || (old & needed) != needed)
            return LOCO_ERR_STATE;
        if (win->one_thread) {
            atomic_store_explicit(&win->state, (old & ~take) + add, memory_order_relaxed);
            return LOCO_OK;
        }
    } while (!atomic_compare_exchange_weak_explicit(&win->state, &old, (old & ~take) + add,
                                                    memory_order_acq_rel,
                                                    memory_order_relaxed));
    return LOCO_OK;
}

/* window_data.c: where bytes of a target are. One piece of a span: `*len` is shortened to what is
 * contiguous there. LOCO_ERR_RANGE. For DYNAMIC `*mem` is written to *room. */
int loci_window_locate(struct loco_window *win, int rank, uint64_t offset, size_t *len,
                       struct loci_mem **mem, uint64_t *mem_offset, struct loci_mem *room);
int loci_window_check_spans(struct loco_window *win, int rank, const struct loco_span *spans,
                            size_t n);
int loci_window_move(struct loco_window *win, int rank, enum loci_op_kind kind,
                     const struct loco_span *spans, size_t n, loco_ack_t *ack);
/* What loco_window_put and _get do for memory that is not mapped here. */
int loci_window_put_or_get(struct loco_window *win, int rank, enum loci_op_kind kind,
                           const struct loco_span *spans, size_t n, loco_ack_t *ack);

/* window_strips.c: put or get strips whose bytes lie packed; for windows that take them. Within the
 * limits of LOCI_STRIDED_STRIPS and _BYTES, `bytes` in all. Checks epoch and bounds; it is done
 * when the call returns. */
static inline bool loci_window_takes_strips(const struct loco_window *win)
{
    return win->rt->ops->strided != NULL && win->kind >= LOCO_WINDOW_CREATE;
}
int loci_window_move_strips(struct loco_window *win, int rank, enum loci_op_kind kind,
                            const struct loci_strip *strips, int n, unsigned char *packed,
                            size_t bytes);

/* The same for spans whose bytes lie packed, one behind the other, no span of more than
 * LOCI_STRIDED_BYTES; of every window. Epoch and bounds were checked. */
int loci_window_move_packed(struct loco_window *win, int rank, enum loci_op_kind kind,
                            const struct loco_span *spans, size_t n);

/* Where the strips are, if that is one piece of memory: LOCO_OK, and *p is where byte 0 of them is
 * mapped, or 0. LOCO_ERR_AGAIN. */
int loci_window_locate_strips(struct loco_window *win, int rank, struct loci_strided *op,
                              struct loci_mem *room, uint64_t *p);
/* Make the span one more block of the strip, if it is. */
bool loci_window_add_block(struct loci_strip *strip, const struct loco_span *span);

/* window_combine.c: leave an accumulate to the target, if it happens to be waiting; under the lock.
 * LOCO_ERR_AGAIN: it is not, nothing was done. And what the target then does. */
int loci_window_combine_by_target(struct loco_window *win, int rank,
                                  const struct loco_accumulate *acc);
bool loci_window_combine_offered(uint32_t what, void *target, void *operand, size_t len);

/* window_acc_merge.c: what a target does for those who merge. */
bool loci_window_merge_offered(uint32_t how, void *words, const void *operands, size_t n);

/* window_deferred.c: whether a put or get of one run may be deferred, after all checks; to do that;
 * and to send all that was: before anything that touches the same memory in another way, and in
 * each synchronization call. */
bool loci_window_may_defer(const struct loco_window *win, int rank, enum loci_op_kind kind,
                           size_t len, const loco_ack_t *ack);
int loci_window_defer(struct loco_window *win, int rank, enum loci_op_kind kind,
                      const struct loco_span *span);
void loci_window_deferred_free(struct loco_window *win);
int loci_window_send_deferred(struct loco_window *win);
static inline int loci_window_send(struct loco_window *win)
{
    if (win->under_way >= 0)
        win->under_way = -1;
    return win->deferred_runs == 0 ? LOCO_OK : loci_window_send_deferred(win);
}

/* In each synchronization call: the same, and what was gathered (gather/gather.c) is applied. */
int loci_gather_settle_slow(struct loco_window *win, bool meeting);
static inline int loci_window_settle_as(struct loco_window *win, bool meeting)
{
    int status = loci_window_send(win), gathered;

    if (win->gathering == 0)
        return status;
    gathered = loci_gather_settle_slow(win, meeting);
    return status == LOCO_OK ? gathered : status;
}
static inline int loci_window_settle(struct loco_window *win)
{
    return loci_window_settle_as(win, false);
}
/* Before all members meet: targets are waited for in any case. */
static inline int loci_window_settle_to_meet(struct loco_window *win)
{
    return loci_window_settle_as(win, true);
}

/* gather/gather.c: an accumulate of one span without result, as loco_window_accumulate; for windows
 * that are gathering. LOCO_ERR_AGAIN: that one does it. */
int loci_window_gather(struct loco_window *win, int rank, enum loco_type type, enum loco_op op,
                       uint64_t offset, const void *operand, size_t len);

/* window_active.c */
enum loci_barrier { LOCI_BARRIER_ALL, LOCI_BARRIER_SURVIVORS };
int loci_window_barrier(struct loco_window *win, enum loci_barrier who);
void loci_window_pscw_free(struct loco_window *win);

/* window_dynamic.c */
int loci_regions_open(struct loco_window *win);
void loci_regions_close(struct loco_window *win);
/* window_search.c: the region of that member that contains the address, and how much of *len from
 * there on is in it. LOCO_ERR_RANGE. `again`: the caller has asked before, since when it may have
 * been detached. And to forget all that is known of regions. */
void loci_regions_forget(struct loco_window *win);
int loci_regions_find(struct loco_window *win, int rank, uint64_t address, size_t *len, bool again,
                      struct loci_mem *mem);
/* Where one thread calls: all of it is in the region that was found last, which is attached still.
 * False: ask the former. */
bool loci_regions_is_last(const struct loco_window *win, int rank, uint64_t address, size_t len);

/* ---- stores, flushes and the loads behind them ---- */

/* A put into mapped memory is a store, and a CPU may do later loads of its own before others see
 * it. A flush forbids that: of two processes that each put, flush and then read what the other
 * puts, one sees the other's. That takes a full fence between store and load, as dear as an atomic.
 * So where one thread calls, stores are noted (`stored` of the runtime), and a flush behind nothing
 * but gets, or atomics that are full fences themselves, does without: it is an acquire and release
 * fence then. The fence is the flush's own, and not left to the next call that reads: the program
 * may look at its own part by plain loads, which are no calls.
 *
 * Where several threads call, the flush always fences: another thread may have noted the stores. So
 * it does on SHARED windows, where the program stores in the memory of others itself. */

/* This process has stored in mapped memory of a window. */
static inline void loci_window_stored(const struct loco_window *win)
{
    /* Mostly set: threads need not take the cache line from each other. */
    if (!atomic_load_explicit(&win->rt->stored, memory_order_relaxed))
        atomic_store_explicit(&win->rt->stored, true, memory_order_relaxed);
}

/* The same by an atomic, which some CPUs do not let later loads pass in any case. */
static inline void loci_window_updated(const struct loco_window *win)
{
    if (!LOCI_ATOMICS_FENCE)
        loci_window_stored(win);
}

/* ---- inline paths ---- */

/* Where `len` bytes at `offset` of that member's part can be read and written here and now, or
 * NULL: then the function of the public header does it, or says why not. `t` is that of `rank`. */
static inline unsigned char *loci_window_direct_at(const struct loco_window *win, int rank,
                                                   const struct loci_target *t, uint64_t offset,
                                                   size_t len)
{
    uint64_t epoch, room;

    if (!loci_window_has(win, rank) || !loci_window_calm(win))
        return NULL;
    epoch = atomic_load_explicit(&t->epoch, memory_order_relaxed)
            | atomic_load_explicit(&win->state, memory_order_relaxed);
    if ((epoch & LOCI_EPOCH_ACCESS) == 0)
        return NULL;
    room = t->mem.key.len;
    if (len > room || offset > room - len)
        return NULL;
    /* Last, for the compiler may not keep what it has loaded across an acquire. */
    unsigned char *p = loci_mem_ptr(&t->mem);

    return p != NULL ? p + offset : NULL;
}

static inline unsigned char *loci_window_direct(const struct loco_window *win, int rank,
                                                uint64_t offset, size_t len)
{
    return loci_window_direct_at(win, rank, &win->target[rank], offset, len);
}

/* To write there. */
static inline unsigned char *loci_window_direct_put(const struct loco_window *win, int rank,
                                                    uint64_t offset, size_t len)
{
    unsigned char *p = loci_window_direct(win, rank, offset, len);

    if (p != NULL)
        loci_window_stored(win);
    return p;
}

/* loco_window_flush where nothing is in flight but stores. False: nothing was done. */
static inline bool loci_window_flush_now(const struct loco_window *win, int rank)
{
    if ((win->deferred_runs | win->gathering) != 0 || !loci_window_has(win, rank)
        || !loci_window_calm(win) || (loci_window_epoch(win, rank) & LOCI_EPOCH_PASSIVE) == 0)
        return false;
    if (!win->notes_stores) {
        if (win->synchronous)
            atomic_thread_fence(memory_order_seq_cst);
        return win->synchronous;
    }
    if (atomic_load_explicit(&win->rt->stored, memory_order_relaxed))
        loci_fence_and_clear(&win->rt->stored);
    else
        atomic_thread_fence(memory_order_acq_rel);
    return true;
}

/* Locks of this process alone, with one thread and no other epoch, where they are free and nothing
 * is unusual: what loco_window_lock and its like in window_lock.c come to, inline. False: nothing
 * has changed, those functions do it. */
#define LOCI_EPOCH_LOCKED (LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE)
#define LOCI_EPOCH_LOCKED_QUICK (LOCI_EPOCH_LOCKED | LOCI_EPOCH_EXCLUSIVE | LOCI_EPOCH_QUICK)

/* `mem`: of that member, where the word is. */
static inline struct loci_rw loci_window_rw(struct loco_window *win, int rank, struct loci_mem *mem,
                                            uint64_t offset, enum loci_window_word which,
                                            const char *what)
{
    return (struct loci_rw){ mem, offset, &win->group, what,
                             &win->free_words[LOCI_WINDOW_WORDS * rank + (int)which], NULL, NULL,
                             LOCI_FOR_WORDS };
}

static inline struct loci_rw loci_window_lock_of(struct loco_window *win, int rank)
{
    return loci_window_rw(win, rank, &win->locks[rank], LOCI_WINDOW_LOCK, LOCI_WINDOW_LOCK_WORD,
                          "the lock of a window's member");
}

/* Of a target's accumulates. */
static inline struct loci_rw loci_window_acc_lock(struct loco_window *win, int rank)
{
    return loci_window_rw(win, rank, &win->control[rank], LOCI_WINDOW_ATOMICS,
                          LOCI_WINDOW_ATOMICS_WORD, "the accumulates of a window's member");
}

static inline struct loci_rw loci_window_lock_of_group(struct loco_window *win)
{
    return (struct loci_rw){ &win->locks[0], LOCI_WINDOW_GROUP, &win->group,
                             "the lock of a window", NULL, &win->parts, NULL, LOCI_FOR_WORDS };
}

static inline bool loci_window_is_in(const struct loco_window *win, uint64_t state)
{
    return win->quick_locks && loci_window_calm(win)
           && atomic_load_explicit(&win->state, memory_order_relaxed) == state;
}

/* The gate of exclusive locks, in the block of rank 0 beside the window's lock. Where all have it
 * mapped (window_gate.c): its state in the lower two bits, above them how often it was opened
 * again; else as window_gate_far.c says. */
#define LOCI_WINDOW_GATE (LOCI_WINDOW_GROUP + 8)
#define LOCI_WINDOW_CLOSERS (LOCI_WINDOW_GROUP + 16)    /* who is on the way to lock all */
enum { LOCI_GATE_OPEN, LOCI_GATE_CLOSING, LOCI_GATE_CLOSED, LOCI_GATE_STATE };

static inline uint64_t loci_gate_state(const struct loco_window *win)
{
    return loci_load64_total(win->gate) & LOCI_GATE_STATE;
}

/* loci_gate_enter, where the target is free. */
static inline bool loci_window_lock_now(struct loco_window *win, int rank)
{
    struct loci_rw target;
    unsigned char *word;

    if (!loci_window_is_in(win, 0) || !loci_window_has(win, rank)
        || loci_gate_state(win) != LOCI_GATE_OPEN)
        return false;
    target = loci_window_lock_of(win, rank);
    word = win->target[rank].control + target.offset;
    if (!loci_rw_take_alone(win->rt, word, &target, LOCI_RW_QUICK))
        return false;
    if (loci_gate_state(win) != LOCI_GATE_OPEN) {
        loci_rw_give_mapped(win->rt, word, &target, LOCI_RW_QUICK);
        return false;
    }
    atomic_store_explicit(&win->target[rank].epoch, LOCI_EPOCH_LOCKED_QUICK, memory_order_relaxed);
    atomic_store_explicit(&win->state, LOCI_EPOCH_ONE_LOCK, memory_order_relaxed);
    return true;
}

static inline bool loci_window_unlock_now(struct loco_window *win, int rank)
{
    struct loci_rw target;

    if (!loci_window_is_in(win, LOCI_EPOCH_ONE_LOCK) || !loci_window_has(win, rank)
        || (win->deferred_runs | win->gathering) != 0
        || atomic_load_explicit(&win->target[rank].epoch, memory_order_relaxed)
           != LOCI_EPOCH_LOCKED_QUICK)
        return false;
    target = loci_window_lock_of(win, rank);
    loci_rw_give_mapped(win->rt, win->target[rank].control + target.offset, &target,
                        LOCI_RW_QUICK);
    atomic_store_explicit(&win->target[rank].epoch, 0, memory_order_relaxed);
    atomic_store_explicit(&win->state, 0, memory_order_relaxed);
    return true;
}

/* loci_gate_take_all, where the gate is closed already. */
static inline bool loci_window_lock_all_now(struct loco_window *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    unsigned char *word;

    if (!loci_window_is_in(win, 0) || loci_gate_state(win) != LOCI_GATE_CLOSED)
        return false;
    word = win->target[0].control + group.offset;
    if (!loci_rw_take_mapped(win->rt, word, &group, LOCI_RW_ALL))
        return false;
    if (loci_gate_state(win) != LOCI_GATE_CLOSED) {
        loci_rw_give_mapped(win->rt, word, &group, LOCI_RW_ALL);
        return false;
    }
    atomic_store_explicit(&win->state, LOCI_EPOCH_LOCKED, memory_order_relaxed);
    return true;
}

static inline bool loci_window_unlock_all_now(struct loco_window *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);

    if (!loci_window_is_in(win, LOCI_EPOCH_LOCKED)
        || (win->deferred_runs | win->gathering) != 0)
        return false;
    loci_rw_give_mapped(win->rt, win->target[0].control + group.offset, &group, LOCI_RW_ALL);
    atomic_store_explicit(&win->state, 0, memory_order_relaxed);
    return true;
}

/* What LOCI_WINDOW_SINGLES says in its lowest bits of the accumulates at that member, for elements
 * that may be atomics: the rest of it, and the changes, are in window_acc_way.h. */
enum loci_singles {
    LOCI_SINGLES_LOCK,                  /* they take the lock */
    LOCI_SINGLES_ATOMICS,               /* atomics, until they are revoked */
    LOCI_SINGLES_ALWAYS,                /* atomics, for good */
    LOCI_SINGLES_WAY = 3                /* mask */
};

static inline enum loci_singles loci_singles_way(uint64_t word)
{
    return (enum loci_singles)(word & LOCI_SINGLES_WAY);
}

#define LOCI_WINDOW_LONG 8          /* elements of a vector for which the lock is faster */
#define LOCI_SINGLES_BACKOFF 8      /* shift of a byte, */
#define LOCI_SINGLES_LEFT 16        /* of two bytes, */
#define LOCI_SINGLES_DONE 32        /* and of four */

/* How the word goes on after a vector of n elements under the lock. */
static inline uint64_t loci_singles_after_vector(const struct loco_runtime *rt, uint64_t word,
                                                 size_t n)
{
    uint64_t done = (word >> LOCI_SINGLES_DONE) + n;

    done = done < UINT32_MAX ? done : UINT32_MAX;
    return (word & 0xffff) | (uint64_t)rt->tunables.acc_singles << LOCI_SINGLES_LEFT
           | done << LOCI_SINGLES_DONE;
}

/* Whether n elements can go by the lock, and leave it the way: then *next is what the word
 * becomes. Of a new window, and when the last of the singles that have to come has, they do not. */
static inline bool loci_singles_go_on(const struct loco_runtime *rt, uint64_t word, size_t n,
                                      uint64_t *next)
{
    *next = word;
    if (loci_singles_way(word) != LOCI_SINGLES_LOCK)
        return false;
    if (n >= LOCI_WINDOW_LONG) {
        if (word != 0)
            *next = loci_singles_after_vector(rt, word, n);
        return true;
    }
    *next = word - (UINT64_C(1) << LOCI_SINGLES_LEFT);
    return (word >> LOCI_SINGLES_LEFT & 0xffff) > 1;
}

static inline uint64_t loci_window_singles(const struct loco_window *win, int rank)
{
    /* Pairs with the release that lets atomics be: all that was done under the lock is seen. */
    return loci_load64(win->target[rank].control + LOCI_WINDOW_SINGLES);
}

/* Whether atomics are the way at that member, which is valid, and will stay so until
 * loci_window_atomics_end(): no call in between. False: the slow path finds out. Implies
 * win->atomics. No call in here, either: what is kept across one would be stored, and the atomic
 * waits for stores. */
static inline __attribute__((always_inline)) bool
loci_window_atomics_begin(struct loco_window *win, int rank, _Atomic uint64_t **inside)
{
    *inside = win->inside;
    if (__builtin_expect(*inside == NULL, false))
        /* Pairs with the release that sets it: the words of all members, then this. */
        return atomic_load_explicit(&win->singles, memory_order_acquire);
    loci_store_frequent(win->rt, *inside, (uint64_t)rank + 1);
    if (loci_singles_way(loci_window_singles(win, rank)) == LOCI_SINGLES_LOCK) {
        atomic_store_explicit(*inside, 0, memory_order_relaxed);
        return false;
    }
    return true;
}

static inline void loci_window_atomics_end(_Atomic uint64_t *inside)
{
    /* Pairs with the acquire of who revokes: he sees what the atomics did. */
    if (inside != NULL)
        atomic_store_explicit(inside, 0, memory_order_release);
}

/* Whether an atomic of the CPU does an element of that type there, where atomics are in force. */
static inline bool loci_window_is_atomic(const struct loco_window *win,
                                         const struct loci_type *type, uint64_t address)
{
    return win->atomics && type->plain && type->extent <= 8
           && (address & (type->extent - 1u)) == 0;
}

/* window_acc.c: loco_window_accumulate of one run of n elements of mapped memory, where nobody is
 * in the way. LOCO_ERR_AGAIN: nothing was done, that function does it, or says why not. `type` and
 * `op` are known to be in their ranges. */
int loci_window_accumulate_run(struct loco_window *win, int rank, enum loco_type type,
                               enum loco_op op, uint64_t offset, size_t n, const void *operand,
                               void *result);

/* Where the lock is the way, and is free: take it; false: nothing was done. `single`: the elements
 * could be atomics, n of them. Only where all have mapped all, and one thread calls. From here to
 * loci_window_combine_end() others wait, so all that the operation needs is to be at hand
 * before. */
static inline __attribute__((always_inline)) bool
loci_window_combine_begin(struct loco_window *win, int rank, bool single, size_t n,
                          unsigned char **word)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    unsigned char *control = win->target[rank].control;
    uint64_t singles, next;

    if (control == NULL)
        return false;
    *word = control + lock.offset;
    if (single && !loci_singles_go_on(win->rt, loci_window_singles(win, rank), n, &next))
        return false;
    if (!loci_rw_take_alone(win->rt, *word, &lock, LOCI_RW_EXCLUSIVE))
        return false;
    if (single) {
        singles = loci_window_singles(win, rank);
        if (!loci_singles_go_on(win->rt, singles, n, &next)) {
            loci_rw_give_mapped(win->rt, *word, &lock, LOCI_RW_EXCLUSIVE);
            return false;
        }
        if (next != singles)
            loci_store64(control + LOCI_WINDOW_SINGLES, next);
    }
    /* loci_window_stored(), without a look: it mostly is not set, for a flush has cleared it. */
    atomic_store_explicit(&win->rt->stored, true, memory_order_relaxed);
    return true;
}

static inline void loci_window_combine_end(struct loco_window *win, int rank, unsigned char *word)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);

    loci_rw_give_mapped(win->rt, word, &lock, LOCI_RW_EXCLUSIVE);
}

/* One element or more that are nobody else's meanwhile, in mapped memory. */
static inline void loci_window_reduce(loci_reduce_fn *reduce, size_t extent, unsigned char *p,
                                      const void *operand, size_t n)
{
#ifdef LOCO_SIM
    /* Others may come between the loads and the stores, if they should not. */
    unsigned char copy[256];
    const unsigned char *from = operand;

    for (size_t some; n > 0; n -= some, p += some * extent, from += some * extent) {
        some = n * extent <= sizeof copy ? n : sizeof copy / extent;
        loci_copy_out(copy, p, some * extent);
        reduce(copy, from, some);
        loci_copy_in(p, copy, some * extent);
    }
#else
    (void)extent;
    reduce(p, operand, n);
#endif
}

/* How one operation combines elements of one type in a window: what is looked up once for the
 * accumulates that repeat it. */
struct loci_combine {
    loci_reduce_fn *reduce[LOCI_REDUCE_LENGTHS];    /* with the lock */
    loci_atomic_fn *atomic;         /* without, where such elements may be atomics; else NULL */
    unsigned char shift;            /* their extent is 1 << shift */
    bool counts;                    /* atomic adds to an integer of 8 bytes, as counters do */
};

/* window_acc.c. False: not in this window, or not this operation on this type. */
bool loci_window_combine_open(const struct loco_window *win, enum loco_type type, enum loco_op op,
                              struct loci_combine *how);

/* loco_window_accumulate of one run of n elements, inline. False: nothing was done. */
static inline __attribute__((always_inline)) bool
loci_window_combine(struct loco_window *win, int rank, const struct loci_combine *how,
                    uint64_t offset, size_t n, const void *operand)
{
    unsigned char *p = loci_window_direct(win, rank, offset, n << how->shift), *word;
    loci_reduce_fn *reduce;
    _Atomic uint64_t *inside;
    uint64_t value;
    bool single;

    if (p == NULL)
        return false;
    single = how->atomic != NULL && ((uintptr_t)p & ((1u << how->shift) - 1)) == 0;
    if (single && n < LOCI_WINDOW_LONG && n != 1)
        return false;
    if (single && n == 1 && loci_window_atomics_begin(win, rank, &inside)) {
        if (how->counts) {
            memcpy(&value, operand, sizeof value);
            atomic_fetch_add_explicit((_Atomic uint64_t *)(void *)p, value, memory_order_acq_rel);
        } else {
            how->atomic(p, operand, NULL, 1);
        }
        loci_window_atomics_end(inside);
        loci_window_updated(win);
        return true;
    }
    reduce = loci_reduce_for(how->reduce, n);
    if (!loci_window_combine_begin(win, rank, single, n, &word))
        return false;
    loci_window_reduce(reduce, (size_t)1 << how->shift, p, operand, n);
    loci_window_combine_end(win, rank, word);
    return true;
}

/* A word of 8 bytes that is aligned; else NULL. */
static inline _Atomic uint64_t *loci_window_word(const struct loco_window *win, int rank,
                                                 uint64_t offset)
{
    unsigned char *p = loci_window_direct(win, rank, offset, sizeof(uint64_t));

    return ((uintptr_t)p & 7) == 0 ? (_Atomic uint64_t *)(void *)p : NULL;
}

/* One integer of 8 bytes and the operations that counters and tickets are made of: the atomic that
 * window_acc.c would choose, inline. False: nothing was done, loco_window_accumulate does it. */
static inline __attribute__((always_inline)) bool
loci_window_fetch_word(struct loco_window *win, int rank, enum loco_op op, uint64_t offset,
                       const void *operand, void *result)
{
    _Atomic uint64_t *word, *inside;
    uint64_t value, old;

    if (op != LOCO_OP_SUM && op != LOCO_OP_REPLACE && op != LOCO_OP_NO_OP)
        return false;
    word = loci_window_word(win, rank, offset);
    if (word == NULL || !loci_window_atomics_begin(win, rank, &inside))
        return false;
    if (op == LOCO_OP_NO_OP) {
        old = atomic_load_explicit(word, memory_order_acquire);
    } else {
        memcpy(&value, operand, sizeof value);
        old = op == LOCO_OP_SUM ? atomic_fetch_add_explicit(word, value, memory_order_acq_rel)
                                : atomic_exchange_explicit(word, value, memory_order_acq_rel);
        loci_window_updated(win);
    }
    loci_window_atomics_end(inside);
    if (result != NULL)
        memcpy(result, &old, sizeof old);
    return true;
}

/* The same of loco_window_compare_swap. */
static inline bool loci_window_swap_word(struct loco_window *win, int rank, uint64_t offset,
                                         const void *expected, const void *desired, void *result)
{
    _Atomic uint64_t *word = loci_window_word(win, rank, offset), *inside;
    uint64_t old, new;

    if (word == NULL || !loci_window_atomics_begin(win, rank, &inside))
        return false;
    memcpy(&old, expected, sizeof old);
    memcpy(&new, desired, sizeof new);
    atomic_compare_exchange_strong_explicit(word, &old, new, memory_order_acq_rel,
                                            memory_order_acquire);
    loci_window_atomics_end(inside);
    loci_window_updated(win);
    memcpy(result, &old, sizeof old);
    return true;
}

/* window_region.c: the window's memory as a region, which must not outlive it; local. LOCO_ERR_ARG
 * for a dynamic one, LOCO_ERR_NO_MEMORY. */
int loci_window_region(struct loco_window *win, loco_region_t **region);

#endif
