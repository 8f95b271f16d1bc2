/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_QUEUE_H
#define LOCI_QUEUE_H

/* Shared by queue.c (tickets: the calls), queue_slot.c (one place of the ring) and queue_lost.c
 * (what a dead process left).
 *
 * A push draws a ticket from `tail`, a pop from `head`, by fetch-and-add; the two with the same
 * ticket meet at its slot. Ticket t is of slot t mod N, round t / N, N the capacity; slot s is in
 * the memory of member s mod P. A slot is a word and an entry:
 *
 *   FREE r     -> WRITING r    by the push of round r, with its name (swap)
 *   WRITING r  -> FULL r       by the same, once the entry is written (swap; on cpu a store)
 *   FULL r     -> TAKING r     by the pop of round r, with its name (swap)
 *   TAKING r   -> FREE r+1     by the same, once the entry is read (swap; on cpu a store)
 *
 * So no two processes touch an entry at once: it is written while WRITING and read while TAKING,
 * and each of these states has one owner, as each ticket does. The entry is written and the word
 * swapped on one lane, and the swap, an atomic, is executed after all writes before it are placed;
 * the entry is read and the word swapped on one lane, which executes both in this order.
 *
 * Linearization: a push at its fetch-and-add, or when the pop of ticket t - N draws its own, if
 * that is later (until then the queue is full); a pop at its fetch-and-add, or when its push takes
 * effect, if that is later (until then it is empty). Both are in the order of tickets. A try form
 * reads both counters before it draws by compare-and-swap: pop reads head h, then tail <= h, so
 * tail was not above head when head was read; push reads tail t, then head <= t - N, so the queue
 * was full when head was read. A ticket whose slot was passed over (below) has no effect on either
 * side: both who have it draw again, and that draw counts.
 *
 * Waiting. A pop that finds FREE r puts its name and the number of one of its process's wake words
 * into the slot; so does a push that finds FULL r-1, where it does not see the memory. Who comes
 * next has to swap these out to go on, and then writes ticket + 1 of the waiter to that wake word.
 * From there on the other side is in the middle of its call, and the waiter looks at growing
 * intervals. In all other cases it does so from the beginning.
 *
 * Closing adds 2^48 to the tail; the first who does so knows the end, the ticket at which pushes
 * ended. `end` at the tail's host has it + 1, once; so has each member's own `closed`, which
 * waiters see. Pushes refused after that leave the tail higher than the end.
 *
 * If a process stops (queue_lost.c; always after loci_grace() in which the slot has not changed and
 * only once some member is dead, so that the living are not hurried; and none of this loses an
 * entry of theirs, should one of them be so late):
 *   - with a push's ticket, before its swap: the pop of that ticket swaps FREE r -> FREE r+1, and
 *     both who have it, if they live, draw again;
 *   - WRITING: -> LOST, for ever; what is still on its way in the network may land there;
 *   - with a pop's ticket, before its swap: FULL r -> FULL_LOST r; all other tickets of this slot
 *     pass on; the pop of round r, should it live, takes it: -> TAKING s -> FREE s+1, where the
 *     tickets of round s+1 were not drawn yet when it looked;
 *   - waiting for an entry: its name is in the slot: the push does not give it its entry, but
 *     swaps FREE r -> FREE r+1;
 *   - TAKING: -> FREE r+1, by whoever waits. Its own late swap would find another word;
 *   - a slot in the memory of the dead: passed over by all;
 *   - closing: who waits, and sees the tail closed, swaps what the tail shows + 1 into `end`. */

#include <pthread.h>

#include <loco/atomic_var.h>
#include <loco/queue.h>

#include "move/rma.h"
#include "names/endpoint.h"
#include "runtime.h"

/* ---- a slot's word: round | who | state ---- */

enum loci_queue_state {
    LOCI_QUEUE_FREE,            /* memory that is zero: free, round 0 */
    LOCI_QUEUE_WRITING,
    LOCI_QUEUE_FULL,
    LOCI_QUEUE_TAKING,
    LOCI_QUEUE_LOST,
    LOCI_QUEUE_FULL_LOST
};

#define LOCI_QUEUE_WHO_SHIFT 3
#define LOCI_QUEUE_WHO_MASK UINT64_C(0xffffff)
#define LOCI_QUEUE_ROUND_SHIFT 27
#define LOCI_QUEUE_MEMBERS_MAX 65535

static inline uint64_t loci_queue_word(uint64_t round, uint64_t who, enum loci_queue_state state)
{
    return round << LOCI_QUEUE_ROUND_SHIFT | who << LOCI_QUEUE_WHO_SHIFT | (uint64_t)state;
}

static inline enum loci_queue_state loci_queue_state(uint64_t word)
{
    return (enum loci_queue_state)(word & 7);
}

/* Who owns the slot (WRITING, TAKING) or waits (FREE, FULL): 0, or (rank + 1) * 256 + wake, where
 * wake is 0 (none) or the number of a wake word + 1. */
static inline uint64_t loci_queue_who(uint64_t word)
{
    return word >> LOCI_QUEUE_WHO_SHIFT & LOCI_QUEUE_WHO_MASK;
}

static inline int loci_queue_who_rank(uint64_t who)
{
    return (int)(who >> 8) - 1;
}

/* How many rounds the word is ahead of `round`; rounds are modulo 2^37. */
static inline int64_t loci_queue_ahead(uint64_t word, uint64_t round)
{
    return (int64_t)(word - (round << LOCI_QUEUE_ROUND_SHIFT)) >> LOCI_QUEUE_ROUND_SHIFT;
}

static inline uint64_t loci_queue_without_who(uint64_t word)
{
    return word & ~(LOCI_QUEUE_WHO_MASK << LOCI_QUEUE_WHO_SHIFT);
}

/* ---- the tail: times closed | next ticket ---- */

#define LOCI_QUEUE_CLOSED (UINT64_C(1) << 48)
#define LOCI_QUEUE_TICKET (LOCI_QUEUE_CLOSED - 1)

/* ---- the queue ---- */

enum { LOCI_QUEUE_SLOTS, LOCI_QUEUE_MEMBER };           /* regions */

/* A member's own words: CLOSED, plain, the same value whoever writes it; END, of rank 0 only, by
 * swap; then wake words, a cache line each. */
#define LOCI_QUEUE_CLOSED_AT 0
#define LOCI_QUEUE_END_AT LOCI_CACHE_LINE
#define LOCI_QUEUE_WAKE_AT (2 * LOCI_CACHE_LINE)
#define LOCI_QUEUE_WAKES 64

#define LOCI_QUEUE_HOST 0               /* rank with head, tail and end */
#define LOCI_QUEUE_ENTRY_AT 8           /* in a slot, behind its word */

struct loco_queue {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    loco_atomic_var_t *head, *tail;
    size_t entry_bytes, stride;
    uint64_t capacity, size;            /* places, members... */
    int capacity_shift, size_shift;     /* ...are 1 << shift, or -1: divide */
    uint64_t name;                      /* (rank + 1) * 256 */
    int flags;
    unsigned char *mine;                /* own words of this member */
    _Atomic uint64_t wakes;             /* bit i: wake word i is in use */
    pthread_mutex_t closing;
    bool closed_here;                   /* under `closing` */
};

/* A call at the slot of its ticket. */
struct loci_queue_turn {
    struct loco_queue *q;
    bool push;
    uint64_t ticket, round;
    struct loci_mem *mem;               /* of the slot's member */
    uint64_t offset;                    /* of the slot */
    int host;                           /* its peer */
    uint64_t word;                      /* of the slot, as last seen */
    /* While it waits. */
    int wake;                           /* own wake word, or -1 */
    bool registered;                    /* its number is in the slot */
    bool passed;                        /* the slot was passed over */
    int64_t delay, next_look;           /* ns between looks; when the next one is */
    int64_t next_check, still_since;    /* once a member is dead */
    uint64_t still;
    int lost;                           /* LOCO_ERR_RANGE: a write from before was refused, and this
                                           call tells it */
    int named;                          /* rank whose name was in the slot when it was taken, or
                                           -1: it may sleep */
    uint64_t woken;                     /* who waited and was told, or is to be; 0: nobody */
    int wake_status;                    /* of the write that tells it, in flight by this... */
    loco_ack_t wake_ack;                /* ...ack */
};

/* An operation came behind a write of this thread, of before the call, that a member's device has
 * refused, and nothing of it was done. But a ticket is out whose other half waits, or all wait to
 * be told of the end: so here is the fence that ends such a failure (lane.c), then the operation
 * again, and the call is carried out and returns this: LOCO_ERR_RANGE. */
static inline int loci_queue_be_told(struct loco_queue *q)
{
    loci_fence_peer(q->rt, LOCO_FENCE_THREAD, -1);
    return LOCO_ERR_RANGE;
}

/* Positive: the turn's slot was passed over, so that another ticket is to be drawn. */
#define LOCI_QUEUE_PASSED 2

/* What an operation at the slot comes to: with its member dead, another ticket is to be drawn. */
static inline int loci_queue_pass_if_dead(int status)
{
    return status == LOCO_ERR_PEER_DEAD ? LOCI_QUEUE_PASSED : status;
}

/* queue_slot.c. begin: nothing but arithmetic. claim: wait until the slot is this turn's, and take
 * it: LOCO_OK, LOCI_QUEUE_PASSED, or an error; LOCO_ERR_CLOSED where a pop's ticket is behind the
 * end. publish and release: give it on; post, and wait for nothing. */
void loci_queue_turn_begin(struct loci_queue_turn *turn, struct loco_queue *q, bool push,
                           uint64_t ticket);
int loci_queue_claim(struct loci_queue_turn *turn);
int loci_queue_publish(struct loci_queue_turn *turn, loco_ack_t *ack);
int loci_queue_release(struct loci_queue_turn *turn, loco_ack_t *ack);
/* Then: the waiter whose name was in the slot has been told. */
int loci_queue_woken(struct loci_queue_turn *turn);

/* The turn's word := desired, if it is what was seen last; what it is now goes into turn->word, so
 * that equal to `desired` says it was done. */
int loci_queue_swap(struct loci_queue_turn *turn, uint64_t desired, bool *done);

/* queue_lost.c. For who waits, now and then once a member is dead: LOCO_OK to go on (turn->word is
 * what the slot has now), LOCI_QUEUE_PASSED or an error. */
int loci_queue_check(struct loci_queue_turn *turn);
/* Whether nobody else is left who would bring a waiter on. */
bool loci_queue_are_others_dead(const struct loco_queue *q);

/* LOCO_ERR_PEER_DEAD where no call can succeed any more. */
static inline int loci_queue_alive(const struct loco_queue *q)
{
    if (atomic_load_explicit(&q->rt->deaths, memory_order_relaxed) == 0
        || loci_peer_alive(q->rt, q->ep->group.peer[LOCI_QUEUE_HOST]))
        return LOCO_OK;
    return LOCO_ERR_PEER_DEAD;
}

/* The end + 1, once it is known here, or 0. */
static inline uint64_t loci_queue_closed(const struct loco_queue *q)
{
    return loci_load64(q->mine + LOCI_QUEUE_CLOSED_AT);
}

/* Whether no push has this ticket, nor will have. */
static inline bool loci_queue_is_behind_end(const struct loco_queue *q, uint64_t ticket)
{
    uint64_t closed = loci_queue_closed(q);

    return closed != 0 && ticket >= closed - 1;
}

/* Make `end` + 1 known to the host, unless another value is; *closed: the one that is. */
int loci_queue_settle_end(struct loco_queue *q, uint64_t *closed);

#endif
