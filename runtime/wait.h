/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WAIT_H
#define LOCI_WAIT_H

#include "move/bell.h"
#include "inbox.h"
#include "runtime.h"

/* The one place to wait. Polls `ready(arg)`, this thread's lanes between; spins a bounded number
 * of times (tunable LOCO_SPIN), then calls the host's idle hook each round.
 *
 * ready: 0 not yet, 1 done, or a negative status that ends the wait.
 * The wait also ends with LOCO_ERR_PEER_DEAD when a needed peer has gone (checked only after
 * `ready` said 0, so what arrived before the death counts), and LOCO_ERR_TIMEOUT. */
typedef int loci_ready_fn(void *arg);

/* What a wait needs to be whole, such as a key: that takes moments where all is well, so it is said
 * after a second, and as a warning. */
struct loci_torn {
    const char *what;
    uint64_t number;
};

/* What `what` is, for the report: words that need nothing more, or the name of a channel. The text
 * of each is in wait.c. */
enum loci_wait_for {
    LOCI_FOR_WORDS,
    LOCI_FOR_CHANNEL,
    LOCI_FOR_BARRIER,
    LOCI_FOR_KVSTORE,
    LOCI_FOR_TICKET_LOCK,
    LOCI_FOR_RW_LOCK,
    LOCI_FOR_QUEUE_PLACE,           /* and it is worth a warning when it lasts */
    LOCI_FOR_QUEUE_ENTRY,
    LOCI_FOR_RING_MESSAGE,
    LOCI_FOR_RING_READERS,
    LOCI_FOR_MAIL,
    LOCI_FOR_MAILBOX,
    LOCI_FOR_MULTICAST_MESSAGE,
    LOCI_FOR_MULTICAST_SLOT,
    LOCI_FOR_MULTICAST_DELIVERY,
    LOCI_FOR_TRANSACTION,
    LOCI_FOR_DEAD_CLIENT,
    LOCI_FOR_STORE_COUNTS,
    LOCI_FOR_VIEW
};

/* Ten words: more than that gcc clears by a string instruction, which takes longer than all else of
 * an uncontended lock. And it is filled in before the first look. */
struct loci_reason {
    const char *what;                   /* words, or a channel's name, as `what_for` says */
    const struct loci_mem *at;          /* for it, too: memory of whom that is in; nullable */
    const struct loco_group *group;     /* needs all of these, or */
    int peer;                           /* this one (index of peer), where group is NULL; -1 none */
    uint8_t kind;                       /* enum loci_wait_kind, for statistics */
    uint8_t what_for;                   /* enum loci_wait_for */
    uint8_t bell;                       /* enum loci_bell_kind: who ends this wait signals it, of
                                           this process (bell.h); LOCI_BELL_ANY: nobody does */
    int (*broken)(void *arg);           /* or, where given, asked after each death: a status */
    int64_t timeout_ns;                 /* LOCO_FOREVER or nanoseconds */
    const struct loci_torn *torn;       /* nullable */
    /* Nullable: this wait may sleep soon. Say in network memory of this process that one thread
     * more (+1) or less (-1) does; an atomic in one order with what `ready` then loads. Who ends
     * the wait looks there, and calls loci_ring(). */
    void (*announce)(void *arg, int change);
    const struct loci_mem *watched;     /* nullable: they signal all who wait for a change there */
    int64_t (*doze)(void *arg);         /* nullable: how long it may sleep now, ns, after a look */
};
_Static_assert(sizeof(struct loci_reason) <= 80, "cleared by a few stores");

int loci_wait(struct loco_runtime *rt, const struct loci_reason *why, loci_ready_fn *ready,
              void *arg);

/* Sleeping. A wait that has lasted LOCO_NAP_AFTER sleeps until its bell is rung; then it looks, and
 * sleeps again. Where not all that may end it ring (bell.c says who does), and in its first time,
 * it naps: it looks after less than a millisecond all the same. While a device has something to do
 * for the thread it polls on.
 *
 * A wait that announces sleeps by its bell after LOCO_SLEEP_AFTER, and needs no other's
 * ringing. It announces, looks once more, then sleeps. Whoever brings about what it waits for looks
 * at the announcement after that, in one order with both (a full fence between, or on a lane: a
 * read after the write), and rings if there is one. One of the two looks comes after the other's
 * act, so no sleeper is missed. Deaths ring all bells. */

#define LOCI_NAP INT64_C(700000)        /* ns; the longest, 1 ms with timer slack */

/* One round of a loop that cannot be put as a `ready` function: polls and idles.
 * Start with *rounds = 0. */
void loci_wait_round(struct loco_runtime *rt, unsigned *rounds);

/* A wait that was not over at the first look, for who counts and traces: around loops that are no
 * loci_wait. Of `why` the text and the kind count. Begins with all of it 0. */
struct loci_watch {
    bool begun, counted, traced;
    int64_t start;
};
void loci_watch_begin(struct loco_runtime *rt, const struct loci_reason *why,
                      struct loci_watch *watch);
void loci_watch_end(struct loco_runtime *rt, const struct loci_reason *why,
                    const struct loci_watch *watch);

/* Do what peers have left for this process to do if it happens to be waiting (fabric.h, inbox.h).
 */
static inline int loci_help(struct loco_runtime *rt, bool spins)
{
    int helped = rt->ops->help != NULL && rt->fabric != NULL ? rt->ops->help(rt->fabric, spins) : 0;

    return helped + loci_inbox_look(rt);
}

/* What a loop that polls a word of memory does between two looks. */
static inline void loci_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm("yield");
#endif
}

int64_t loci_now(struct loco_runtime *rt);
/* The same, some milliseconds late, at a fraction of its price: for what is measured in seconds. */
int64_t loci_now_roughly(struct loco_runtime *rt);

/* A limit for a call of several waits: when it is over, from the caller's `timeout_ns`; then, for
 * each wait, what is left of it. Without limit the clock is not read. */
#define LOCI_NEVER INT64_MAX
int64_t loci_deadline(struct loco_runtime *rt, int64_t timeout_ns);
int64_t loci_time_left(struct loco_runtime *rt, int64_t deadline);

/* Nanoseconds in which nothing has moved after which it counts as given up, once a process that may
 * have been about to is dead: what the living are about takes less. A device may have to send
 * again what is lost on the way, until it gives up itself. */
int64_t loci_grace(const struct loco_runtime *rt);
uint64_t loci_random(struct loco_runtime *rt);

/* The production host: CLOCK_MONOTONIC, getrandom, sched_yield. */
extern const struct loci_host loci_host_system;

#endif
