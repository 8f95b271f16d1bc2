/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RW_WORD_H
#define LOCI_RW_WORD_H

/* A fair lock of two classes of holders on one word of network memory: the core of rw_lock and of
 * a window's locks. The word is 8 bytes, aligned, zero at first:
 *
 *   63      48 47      32 31      16    15     14       0
 *   next       serving    second     grouped   first
 *
 * first, second: who holds it, as the mode says. grouped: no holder, see below.
 *
 *   mode               takes              unless there is          in the word as
 *   LOCI_RW_SHARED     the first class    a second                 + 1
 *   LOCI_RW_EXCLUSIVE  the second class   a first or a second      the holder's rank + 1
 *   LOCI_RW_QUICK      the second class   a first or a second      the same + 0x8000
 *   LOCI_RW_ALL        the first class    a second                 + 1
 *   LOCI_RW_PART       the second class   a first                  + 1
 *
 * The first two are a reader-writer lock; the third is the second to those who tell two kinds of
 * exclusive holders apart (window_gate.h). The last two make the word of a group: who locks all
 * members of a group takes ALL on the group's word (1 atomic); who wants one member shared takes
 * SHARED on the member's word (1 atomic); who wants a member exclusive takes PART on the group's
 * word, then EXCLUSIVE on the member's (2 atomics), and gives them back in the other order.
 * SHARED and ALL never conflict. The bit LOCI_RW_GROUPED of a member's word is set by who holds it,
 * and means nothing here (window_gate_far.c).
 *
 * next, serving: tickets of those who have waited longer than LOCO_LOCK_PATIENCE. While there is
 * one, the word is closed: only the ticket's turn takes it, newcomers wait. Those who are not out
 * of patience overtake each other as they come, so that a free lock is not kept for a process
 * which is not running. Nobody waits longer than its patience and then for those before it, unless
 * these are passed:
 *
 *   passing    A ticket's owner may wait for a holder that waits for somebody behind the ticket:
 *              two who may hold the word together, and meet while they do. Who would be let in but
 *              for tickets, the same one being served, for LOCO_LOCK_PASS takes the word, as the
 *              ticket's owner cannot. Modes EXCLUSIVE and QUICK never pass: whoever keeps the
 *              ticket's owner out keeps them out, too. After a tenth of that where the caller
 *              holds another lock of the same family (LOCI_RW_NESTED), which others may wait for.
 *              After a hundredth where this process holds this very word in the same mode
 *              (LOCI_RW_INSIDE): it is in the way itself, by this thread or another. At once where
 *              it has no other (LOCI_RW_ONE_THREAD).
 *   skipping   A ticket may be nobody's: its owner has passed others, failed, or died. Who sees a
 *              word that nobody holds, the same ticket being served, for half of LOCO_LOCK_PASS in
 *              all, 50 ms at most, moves `serving` on. An owner that finds itself skipped draws
 *              another.
 *
 * So tickets give an order, and no more: who is let in is decided by the first and the second class
 * alone. One may wait longer than told above where others overlap which hold the word for longer
 * than they wait to pass, or which never are without it.
 *
 * Limits: 32766 members; 32767 holders of the first class, 65535 of the second and 65535 waiters at
 * a time.
 *
 * Order: acquire is an acquire, release a release of what is in mapped memory. Release gives no
 * fence of writes in flight: the caller's affair (loci_fence_peer). Of modes EXCLUSIVE and QUICK it
 * may be a store, after which a later load may still be done before others see it.
 *
 * Where the word is mapped an exclusive newcomer changes its quarter of it alone.
 *
 * Waiting: a word that is mapped is looked at, at intervals that double from an eighth of a
 * microsecond to 2, or without, by whose turn it is; others are read through the fabric, or swapped
 * by who wants it alone, at intervals that double from 1 to 64 microseconds.
 *
 * Sleeping: who waits long naps (wait.h), since much here is told by time. Where all who give the
 * word back ring (struct loci_rw), one who has a ticket and is kept out by a holder sleeps until
 * that is so: from then on the word is given back by a ring, or an attempt that did not succeed is,
 * before it looks as if it could be had.
 *
 * Death: an exclusive holder has its name in the word: when it is dead, waiters return
 * LOCO_ERR_PEER_DEAD at once. Holders of the other modes and owners of tickets have not: once a
 * member of the group is dead, a waiter before which nothing moves for half a second returns
 * LOCO_ERR_PEER_DEAD. Where it was a holder that died, the word is lost, and its other waiters come
 * to the same end. A dead owner's ticket is skipped. In the owner domain the word is lost with the
 * process that has it, also to those who have it mapped and would see who holds it. */

#include <stdint.h>

#include "move/rma.h"
#include "runtime.h"
#include "wait.h"

enum loci_rw_mode {
    LOCI_RW_SHARED, LOCI_RW_EXCLUSIVE, LOCI_RW_QUICK, LOCI_RW_ALL, LOCI_RW_PART
};

#define LOCI_RW_MAX 32766           /* members */
#define LOCI_RW_QUICK_BIT 0x8000u

#define LOCI_RW_NESTED 1u           /* flag: this caller holds another lock of the family */
#define LOCI_RW_ACCUMULATES 2u      /* flag, for statistics: the lock is not the program's */
#define LOCI_RW_INSIDE 4u           /* flag: this process holds the word, in the same mode */
#define LOCI_RW_ONE_THREAD 8u       /* flag: and this thread is the only one that does */

#define LOCI_RW_FIRST UINT64_C(0x0000000000007fff)
#define LOCI_RW_GROUPED UINT64_C(0x0000000000008000)
#define LOCI_RW_SECOND UINT64_C(0x00000000ffff0000)
#define LOCI_RW_SECOND_SHIFT 16
#define LOCI_RW_SERVING_SHIFT 32
#define LOCI_RW_NEXT_SHIFT 48

/* A word as this process reaches it. Plain data, made by the caller where it likes. */
struct loci_rw {
    struct loci_mem *mem;
    uint64_t offset;                    /* of the word */
    const struct loco_group *group;     /* whose ranks name holders; this process is in it */
    const char *what;                   /* for the report of a wait that is stuck, as in wait.h */
    _Atomic uint64_t *free_word;        /* how it was last found free, zero at first; or NULL */
    _Atomic int *parts;                 /* in mode PART: how often this process holds it */
    /* Wakes those who sleep for it, by whoever gives it back (loci_rw_wake_sleepers); NULL: nobody
     * sleeps. No flag: windows use what is inline here in the component, to which the library does
     * not export how sleepers are woken, and not every compiler sees that they never do. */
    void (*wake)(struct loco_runtime *rt, const struct loci_rw *rw);
    uint8_t what_for;
};

/* What those who try a word have seen of it, for all threads of this process; zero at first. */
struct loci_rw_tries {
    _Atomic uint64_t word;              /* nobody held it, and it was closed, */
    _Atomic int64_t since;              /* at each try since then */
};

/* How the word may look if nobody has it: where it is not mapped, a swap of that is tried before it
 * is looked at. Tickets leave their traces in it. */
static inline uint64_t loci_rw_guess(const struct loci_rw *rw)
{
    return rw->free_word != NULL ? atomic_load_explicit(rw->free_word, memory_order_relaxed) : 0;
}

/* For how long a waiter with those flags waits for tickets alone, ns: see "passing". */
static inline int64_t loci_rw_pass(const struct loco_runtime *rt, unsigned flags)
{
    int64_t pass = rt->tunables.lock_pass;

    if ((flags & LOCI_RW_INSIDE) != 0)
        return (flags & LOCI_RW_ONE_THREAD) != 0 ? 0 : pass / 100;
    return (flags & LOCI_RW_NESTED) != 0 ? pass / 10 : pass;
}

/* As loci_rw_acquire, until `deadline` (wait.h) at most: LOCO_ERR_TIMEOUT. A ticket is given back
 * where it is the first or the last of the line; from the middle it stays behind, to be skipped.
 * What the word gave this waiter just then is not lost: it is held, and LOCO_OK. */
int loci_rw_acquire_until(struct loco_runtime *rt, const struct loci_rw *rw,
                          enum loci_rw_mode mode, unsigned flags, int64_t deadline);

/* The part of rw_word.c that the inline ones fall back on. */
int loci_rw_acquire_slow(struct loco_runtime *rt, const struct loci_rw *rw,
                         enum loci_rw_mode mode, unsigned flags);
int loci_rw_try_slow(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode,
                     struct loci_rw_tries *tries);

/* Block until it is held EXCLUSIVE, or SHARED where somebody has it so, or is about to: *mode says
 * which. For those who take turns until the first comes that lets others in with it, for good. */
int loci_rw_acquire_either(struct loco_runtime *rt, const struct loci_rw *rw, unsigned flags,
                           enum loci_rw_mode *mode);

/* Block until it is held EXCLUSIVE, or `served` says that it is not needed any more: *by_others.
 * Never with a ticket. Where the word is mapped, after an attempt. */
int loci_rw_acquire_unless(struct loco_runtime *rt, const struct loci_rw *rw, unsigned flags,
                           int (*served)(void *arg), void *arg, bool *by_others);

/* What modes EXCLUSIVE and QUICK put into the second class. */
static inline unsigned loci_rw_name(const struct loci_rw *rw, enum loci_rw_mode mode)
{
    return (unsigned)(rw->group->rank + 1) | (mode == LOCI_RW_QUICK ? LOCI_RW_QUICK_BIT : 0);
}

static inline uint64_t loci_rw_unit(const struct loci_rw *rw, enum loci_rw_mode mode)
{
    if (mode == LOCI_RW_EXCLUSIVE || mode == LOCI_RW_QUICK)
        return (uint64_t)loci_rw_name(rw, mode) << LOCI_RW_SECOND_SHIFT;
    return mode == LOCI_RW_PART ? UINT64_C(1) << LOCI_RW_SECOND_SHIFT : 1;
}

/* One holder at a time, which the word names. */
static inline bool loci_rw_is_alone(enum loci_rw_mode mode)
{
    return mode == LOCI_RW_EXCLUSIVE || mode == LOCI_RW_QUICK;
}

static inline uint64_t loci_rw_conflicts(enum loci_rw_mode mode)
{
    if (loci_rw_is_alone(mode))
        return LOCI_RW_FIRST | LOCI_RW_SECOND;
    return mode == LOCI_RW_PART ? LOCI_RW_FIRST : LOCI_RW_SECOND;
}

static inline bool loci_rw_closed(uint64_t word)
{
    return (((word >> LOCI_RW_NEXT_SHIFT) ^ (word >> LOCI_RW_SERVING_SHIFT)) & 0xffff) != 0;
}

/* It was seen so: nobody has it, and there is no ticket. */
static inline void loci_rw_found_free(const struct loci_rw *rw, uint64_t word)
{
    if (rw->free_word != NULL)
        atomic_store_explicit(rw->free_word, word, memory_order_relaxed);
}

/* Whether a newcomer may take a word that looks so. */
static inline bool loci_rw_is_free(uint64_t word, enum loci_rw_mode mode)
{
    return (word & loci_rw_conflicts(mode)) == 0 && !loci_rw_closed(word);
}

void loci_rw_wake_sleepers(struct loco_runtime *rt, const struct loci_rw *rw);

/* It has been given back, or an attempt has: those who saw it held and sleep look again. */
static inline void loci_rw_wake(struct loco_runtime *rt, const struct loci_rw *rw)
{
    if (rw->wake != NULL)
        rw->wake(rt, rw);
}

/* Give it back by the CPU's atomics: on what loci_mem_word() gives. An exclusive holder stores:
 * nobody else changes the field that names it. */
static inline void loci_rw_give_mapped(struct loco_runtime *rt, unsigned char *word,
                                       const struct loci_rw *rw, enum loci_rw_mode mode)
{
    LOCI_COUNT_MEM(rt, atomics, rw->mem);
    if (loci_rw_is_alone(mode))
        loci_cpu_store_quarter(word, LOCI_RW_SECOND_SHIFT, 0);
    else
        loci_cpu_fetch_add(word, 0 - loci_rw_unit(rw, mode));
}

/* Whether neither the first class nor a ticket keeps out who wants it alone. */
static inline bool loci_rw_lets_in(const unsigned char *word)
{
    return (loci_load_quarter(word, 0) & LOCI_RW_FIRST) == 0
           && loci_load_quarter(word, LOCI_RW_NEXT_SHIFT)
              == loci_load_quarter(word, LOCI_RW_SERVING_SHIFT);
}

/* Take it for one alone, unless somebody of the second class has it, in two steps: swap the name
 * into its quarter, which shuts out the rest of that class, then look whether the first class or a
 * ticket is in the way, and if so take the name back. Of two newcomers one of each class, each of
 * which changes the word and then looks, at least one sees the other. Who waits swaps the whole
 * word, and fails if the name came meanwhile.
 * No access is wider than the store that gave the quarter back: one that is would wait until that
 * store has left the CPU, which is most of the time that a lock takes that is free. */
static inline bool loci_rw_take_alone(struct loco_runtime *rt, unsigned char *word,
                                      const struct loci_rw *rw, enum loci_rw_mode mode)
{
    uint16_t name = (uint16_t)loci_rw_name(rw, mode);

    LOCI_COUNT_MEM(rt, atomics, rw->mem);
    if (!loci_cpu_swap_quarter(word, LOCI_RW_SECOND_SHIFT, 0, name))
        return false;
    if (loci_rw_lets_in(word))
        return true;
    loci_rw_give_mapped(rt, word, rw, mode);
    loci_rw_wake(rt, rw);
    return false;
}

/* One attempt by the CPU's atomics. */
static inline bool loci_rw_take_mapped(struct loco_runtime *rt, unsigned char *word,
                                       const struct loci_rw *rw, enum loci_rw_mode mode)
{
    uint64_t unit = loci_rw_unit(rw, mode), old;

    /* Only who finds it free changes it: others would take its line from who has it. */
    if (loci_rw_is_alone(mode))
        return loci_load_quarter(word, LOCI_RW_SECOND_SHIFT) == 0 && loci_rw_lets_in(word)
               && loci_rw_take_alone(rt, word, rw, mode);
    LOCI_COUNT_MEM(rt, atomics, rw->mem);
    old = loci_cpu_fetch_add(word, unit);
    if (loci_rw_is_free(old, mode))
        return true;
    LOCI_COUNT_MEM(rt, atomics, rw->mem);
    loci_cpu_fetch_add(word, 0 - unit);
    loci_rw_wake(rt, rw);
    return false;
}

/* Block until it is held. LOCO_ERR_PEER_DEAD. Any thread; each acquire is a holder of its own. */
static inline int loci_rw_acquire(struct loco_runtime *rt, const struct loci_rw *rw,
                                  enum loci_rw_mode mode, unsigned flags)
{
    unsigned char *p = loci_mem_word(rw->mem);

    if (p != NULL && loci_rw_take_mapped(rt, p + rw->offset, rw, mode))
        return LOCO_OK;
    return loci_rw_acquire_slow(rt, rw, mode, flags);
}

/* The same, and whether the word is GROUPED while it is held. */
int loci_rw_acquire_member(struct loco_runtime *rt, const struct loci_rw *rw,
                           enum loci_rw_mode mode, unsigned flags, bool *grouped);

/* LOCO_OK, or LOCO_ERR_AGAIN where it would have to wait. */
static inline int loci_rw_try(struct loco_runtime *rt, const struct loci_rw *rw,
                              enum loci_rw_mode mode, struct loci_rw_tries *tries)
{
    unsigned char *p = loci_mem_word(rw->mem);

    if (p != NULL && loci_rw_take_mapped(rt, p + rw->offset, rw, mode))
        return LOCO_OK;
    return loci_rw_try_slow(rt, rw, mode, tries);
}

int loci_rw_release_far(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode);
/* Give back what was acquired in that mode. It is given back, too, where what this thread wrote
 * before was refused: LOCO_ERR_RANGE then. */
static inline int loci_rw_release(struct loco_runtime *rt, const struct loci_rw *rw,
                                  enum loci_rw_mode mode)
{
    unsigned char *p = loci_mem_word(rw->mem);

    if (p == NULL)
        return loci_rw_release_far(rt, rw, mode);
    loci_rw_give_mapped(rt, p + rw->offset, rw, mode);
    loci_rw_wake(rt, rw);
    return LOCO_OK;
}

/* The rank that holds a word that looks so in mode QUICK, or -1. */
static inline int loci_rw_quick_holder(uint64_t word)
{
    uint64_t name = (word & LOCI_RW_SECOND) >> LOCI_RW_SECOND_SHIFT;

    return (name & LOCI_RW_QUICK_BIT) != 0 ? (int)(name & ~LOCI_RW_QUICK_BIT) - 1 : -1;
}

/* The rank that holds it in mode EXCLUSIVE or QUICK now, or -1. */
int loci_rw_holder(struct loco_runtime *rt, const struct loci_rw *rw, int *rank);

#endif
