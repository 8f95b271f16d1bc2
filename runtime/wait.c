/* SPDX-License-Identifier: BSD-3-Clause */

/* The one place to wait, and the production host: clock, random numbers, idling, sleep. */

#include "config.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "move/asymmetric.h"
#include "observe/observe.h"
#include "runtime.h"
#include "wait.h"

#define GRACE INT64_C(500000000)            /* ns; of a few instructions, on a machine under load */
#define SENT_AGAIN 8                        /* times at most, and the last is waited for */
#define STUCK_AFTER INT64_C(1000000000)     /* ns until a wait is worth a line in the log */
#define WARN_AFTER INT64_C(10000000000)     /* ns; and one that may last for ever, a warning */
#define NAP_PART 32                         /* of the time that was waited, and this, is */
#define NAP_LEAST INT64_C(20000)            /* a nap; ns */
#define CLOCK_EVERY 64                      /* rounds between looks at the clock */
#define FENCE_AFTER 10                      /* times LOCO_NAP_AFTER: a wait that is worth one */

/* ---- the production host ---- */

static int64_t system_now(void *ctx)
{
    struct timespec t;

    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t system_random(void *ctx)
{
    uint64_t value = 0;

    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != (ssize_t)sizeof value)
        value = (uint64_t)system_now(ctx) * UINT64_C(0x9e3779b97f4a7c15);
    return value;
}

/* Ranks outnumber cores: whoever waits gives its core away each round. */
static void system_idle(void *ctx, unsigned rounds)
{
    (void)ctx;
    (void)rounds;
    sched_yield();
}

/* The word may be in memory that processes share. What ends it early ends it: a signal, a word
 * that is another one already. */
static void system_sleep(void *ctx, _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct timespec most = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    (void)ctx;
    syscall(SYS_futex, word, FUTEX_WAIT, seen, ns == LOCO_FOREVER ? NULL : &most, NULL, 0);
}

static void system_wake(void *ctx, _Atomic uint32_t *word)
{
    (void)ctx;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

const struct loci_host loci_host_system = {
    .now = system_now,
    .random = system_random,
    .idle = system_idle,
    .sleep = system_sleep,
    .wake = system_wake,
};

int64_t loci_now_roughly(struct loco_runtime *rt)
{
    struct timespec t;

    if (rt->host.now != system_now)     /* simulated time */
        return loci_now(rt);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t loci_now(struct loco_runtime *rt)
{
    return rt->host.now(rt->host.ctx);
}

int64_t loci_deadline(struct loco_runtime *rt, int64_t timeout_ns)
{
    int64_t now;

    if (timeout_ns == LOCO_FOREVER)
        return LOCI_NEVER;
    now = loci_now(rt);
    return timeout_ns < LOCI_NEVER - now ? now + timeout_ns : LOCI_NEVER;
}

int64_t loci_time_left(struct loco_runtime *rt, int64_t deadline)
{
    int64_t left;

    if (deadline == LOCI_NEVER)
        return LOCO_FOREVER;
    left = deadline - loci_now(rt);
    return left > 0 ? left : 0;
}

int64_t loci_grace(const struct loco_runtime *rt)
{
    return GRACE + (rt->ops->synchronous ? 0 : SENT_AGAIN * rt->tunables.rdma_timeout);
}

uint64_t loci_random(struct loco_runtime *rt)
{
    return rt->host.random(rt->host.ctx);
}

/* ---- waiting ---- */

/* Poll all lanes of this thread: completions free slots and end waits. */
static void poll_own_lanes(struct loco_runtime *rt)
{
    struct loci_thread *thread;
    int lanes;

    if (atomic_load_explicit(&rt->threads, memory_order_relaxed) == NULL)
        return;         /* no thread has lanes yet, or any more */
    thread = loci_self(rt);
    if (thread == NULL)
        return;
    lanes = atomic_load_explicit(&thread->lane_peers, memory_order_relaxed);
    for (int i = 0; i < lanes; i++) {
        struct loci_lane *lane = atomic_load_explicit(&thread->lanes[i], memory_order_relaxed);

        if (lane != NULL)
            loci_lane_poll(lane);
    }
}

/* What a waiter does between two looks, beside resting. */
static void poll_and_help(struct loco_runtime *rt, bool spins)
{
    if (!rt->ops->synchronous)
        poll_own_lanes(rt);
    loci_help(rt, spins);
}

void loci_wait_round(struct loco_runtime *rt, unsigned *rounds)
{
    poll_and_help(rt, true);
    if ((*rounds)++ < (unsigned)rt->tunables.spin)
        loci_cpu_relax();
    else
        rt->host.idle(rt->host.ctx, *rounds);
}

/* A status if somebody that this wait needs is dead. */
static int needed_are_alive(struct loco_runtime *rt, const struct loci_reason *why, void *arg)
{
    if (why->broken != NULL)
        return why->broken(arg);
    if (why->group != NULL) {
        for (int i = 0; i < why->group->size; i++)
            if (!loci_peer_alive(rt, why->group->peer[i]))
                return LOCO_ERR_PEER_DEAD;
        return LOCO_OK;
    }
    return why->peer < 0 || loci_peer_alive(rt, why->peer) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

struct clock {
    int64_t start;              /* 0: not looked at yet */
    int64_t waited;             /* when last looked at */
    bool told, warned;
    bool announced;             /* up to the end of the wait */
    bool fenced;                /* since then: it cannot be missed */
    struct loci_bells *watched; /* whose watchers it is among */
};

/* In the order of enum loci_wait_for. */
static const char *const waits_for[] = {
    [LOCI_FOR_WORDS] = "%s",
    [LOCI_FOR_CHANNEL] = "channel \"%s\"",
    [LOCI_FOR_BARRIER] = "the others at barrier \"%s\"",
    [LOCI_FOR_KVSTORE] = "key-value store \"%s\"",
    [LOCI_FOR_TICKET_LOCK] = "ticket lock \"%s\"",
    [LOCI_FOR_RW_LOCK] = "reader-writer lock \"%s\"",
    [LOCI_FOR_QUEUE_PLACE] = "a free place: queue \"%s\" is full",
    [LOCI_FOR_QUEUE_ENTRY] = "an entry of queue \"%s\"",
    [LOCI_FOR_RING_MESSAGE] = "a message of ring buffer \"%s\"",
    [LOCI_FOR_RING_READERS] = "the readers of ring buffer \"%s\" to release messages",
    [LOCI_FOR_MAIL] = "a message in mailbox \"%s\"",
    [LOCI_FOR_MAILBOX] = "the receiver of mailbox \"%s\"",
    [LOCI_FOR_MULTICAST_MESSAGE] = "a message of multicast \"%s\"",
    [LOCI_FOR_MULTICAST_SLOT] = "a free slot of multicast \"%s\"",
    [LOCI_FOR_MULTICAST_DELIVERY] = "the others to deliver a message of multicast \"%s\"",
    [LOCI_FOR_TRANSACTION] = "a transaction that commits in store \"%s\"",
    [LOCI_FOR_DEAD_CLIENT] = "the last writes of a dead process to store \"%s\"",
    [LOCI_FOR_STORE_COUNTS] = "the counts of store \"%s\"",
    [LOCI_FOR_VIEW] = "a change of view \"%s\"",
};

#define REASON_TEXT 256     /* bytes */

static void write_reason(char *text, const struct loci_reason *why)
{
    snprintf(text, REASON_TEXT, waits_for[why->what_for], why->what);
}

/* Somebody stopped while writing it, or it was written astray. */
static void tell_torn(struct loco_runtime *rt, const struct loci_reason *why, int whose)
{
    const struct loci_address *who = &loci_peer(rt, whose)->address;
    char text[REASON_TEXT], rank[LOCI_RANK_TEXT];

    write_reason(text, why);
    LOCI_LOG(rt, LOCO_LOG_WARN, "has waited 1 s for %s, whose %s %llu is not whole, at process "
             "%016llx (pid %d%s)", text, why->torn->what, (unsigned long long)why->torn->number,
             (unsigned long long)who->identity, (int)who->pid,
             loci_peer_rank_text(loci_peer(rt, whose), rank));
}

static void tell_stuck(struct loco_runtime *rt, const struct loci_reason *why)
{
    int whose = why->at != NULL ? why->at->peer : why->group == NULL ? why->peer : -1;
    const struct loci_address *who = whose > LOCI_SELF ? &loci_peer(rt, whose)->address : NULL;
    char text[REASON_TEXT], rank[LOCI_RANK_TEXT];

    write_reason(text, why);
    if (why->torn != NULL)
        tell_torn(rt, why, whose < 0 ? LOCI_SELF : whose);
    else if (who == NULL)
        LOCI_LOG(rt, LOCO_LOG_INFO, "has waited 1 s for %s", text);
    else
        LOCI_LOG(rt, LOCO_LOG_INFO, "has waited 1 s for %s, at process %016llx (pid %d%s)", text,
                 (unsigned long long)who->identity, (int)who->pid,
                 loci_peer_rank_text(loci_peer(rt, whose), rank));
}

/* Consumers that all push to their own full queue wait for ever, and nothing is wrong with any of
 * them alone. */
static bool may_warn(const struct loci_reason *why)
{
    return why->what_for == LOCI_FOR_QUEUE_PLACE && why->timeout_ns == LOCO_FOREVER;
}

static void warn(struct loco_runtime *rt, const struct loci_reason *why)
{
    LOCI_LOG(rt, LOCO_LOG_WARN, "queue \"%s\" is full: a push has waited 10 s for a free place",
             why->what);
}

/* LOCO_ERR_TIMEOUT, or LOCO_OK. */
static int look_at_clock(struct loco_runtime *rt, const struct loci_reason *why,
                         struct clock *clock)
{
    int64_t now = loci_now(rt);

    if (clock->start == 0)
        clock->start = now;
    clock->waited = now - clock->start;
    if (why->timeout_ns != LOCO_FOREVER && clock->waited >= why->timeout_ns)
        return LOCO_ERR_TIMEOUT;
    if (!clock->told && clock->waited >= STUCK_AFTER) {
        clock->told = true;
        tell_stuck(rt, why);
    }
    if (!clock->warned && clock->waited >= WARN_AFTER && may_warn(why)) {
        clock->warned = true;
        warn(rt, why);
    }
    return LOCO_OK;
}

/* ---- sleeping ---- */

static bool may_sleep(const struct loco_runtime *rt, const struct loci_reason *why,
                      const struct clock *clock)
{
    return rt->host.sleep != NULL
           && clock->waited >= (why->announce != NULL ? rt->tunables.sleep_after
                                                      : rt->tunables.nap_after);
}

/* Whether a device has something to do for this thread: its completion rings no bell. */
static bool is_in_flight(struct loco_runtime *rt)
{
    struct loci_thread *thread;

    if (rt->ops->synchronous || rt->ops->completes
        || atomic_load_explicit(&rt->threads, memory_order_relaxed) == NULL)
        return false;
    thread = loci_self(rt);
    for (int i = 0; thread != NULL && i < LOCI_SLOTS; i++)
        if (atomic_load_explicit(&thread->slot[i].seq, memory_order_relaxed) != 0)
            return true;
    return false;
}

/* Who ends it finds a sleeper from now on. */
static void announce(struct loco_runtime *rt, const struct loci_reason *why, struct clock *clock)
{
    clock->announced = true;
    loci_asymmetric_state(rt);          /* in case those who end it are threads of this process */
    atomic_fetch_add_explicit(&rt->bells->bell[why->bell].asleep, 1, memory_order_seq_cst);
    if (why->watched == NULL)
        return;
    clock->watched = loci_bells_of(rt, why->watched->peer);
    if (clock->watched != NULL)
        atomic_fetch_add_explicit(&clock->watched->watchers[why->bell], 1, memory_order_seq_cst);
}

static void withdraw(struct loco_runtime *rt, const struct loci_reason *why,
                     const struct clock *clock)
{
    if (clock->watched != NULL)
        atomic_fetch_sub_explicit(&clock->watched->watchers[why->bell], 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&rt->bells->bell[why->bell].asleep, 1, memory_order_relaxed);
}

/* Whether all who may end the wait ring. */
static bool all_ring(const struct loco_runtime *rt, const struct loci_reason *why,
                     const struct clock *clock, unsigned deaths)
{
    return why->bell != LOCI_BELL_ANY && rt->ops->synchronous && deaths == 0
           && !atomic_load_explicit(&rt->unheard, memory_order_acquire)
           && (why->watched == NULL || clock->watched != NULL);
}

/* Whether it is certain to be rung: the fence, once, if the wait has lasted long enough. */
static bool is_fenced(struct loco_runtime *rt, struct clock *clock)
{
    if (!clock->fenced && clock->waited >= FENCE_AFTER * rt->tunables.nap_after)
        clock->fenced = loci_fence_heavy(rt);
    return clock->fenced;
}

static int64_t least(int64_t a, int64_t b)
{
    return a == LOCO_FOREVER || (b != LOCO_FOREVER && b < a) ? b : a;
}

/* For how long at most. `certain`: it is rung when the wait is over. */
static int64_t sleep_for(const struct loco_runtime *rt, const struct loci_reason *why, void *arg,
                         bool certain, const struct clock *clock)
{
    /* A part of what it has waited: in a line whose members nap, each would else wait for the naps
     * of all in front of it, long after the line had been short. */
    int64_t ns = certain ? LOCO_FOREVER
                 : least(LOCI_NAP, NAP_LEAST + clock->waited / NAP_PART);

    if (why->doze != NULL)
        ns = least(ns, why->doze(arg));
    if (!clock->told && rt->log.level >= LOCO_LOG_INFO)
        ns = least(ns, STUCK_AFTER - clock->waited);
    if (!clock->warned && rt->log.level >= LOCO_LOG_WARN && may_warn(why))
        ns = least(ns, WARN_AFTER - clock->waited);
    return why->timeout_ns == LOCO_FOREVER ? ns : least(ns, why->timeout_ns - clock->waited);
}

/* Sleep, unless `ready` says something now, or somebody has died since `deaths` was read. The bell
 * is read first: who rings after the announcement changes it. */
static int sleep_once(struct loco_runtime *rt, const struct loci_reason *why, loci_ready_fn *ready,
                      void *arg, unsigned deaths, struct clock *clock)
{
    _Atomic uint32_t *bell = &rt->bells->bell[why->bell].rings;
    uint32_t rings = atomic_load_explicit(bell, memory_order_acquire);
    bool certain = why->announce != NULL;
    int status;

    if (why->announce != NULL)
        why->announce(arg, 1);
    else if (why->bell != LOCI_BELL_ANY && !clock->announced)
        announce(rt, why, clock);
    if (why->announce == NULL && all_ring(rt, why, clock, deaths))
        certain = is_fenced(rt, clock);
    status = ready(arg);
    if (status == 0 && atomic_load_explicit(&rt->deaths, memory_order_acquire) == deaths)
        rt->host.sleep(rt->host.ctx, bell, rings, sleep_for(rt, why, arg, certain, clock));
    if (why->announce != NULL)
        why->announce(arg, -1);
    return status;
}

void loci_watch_begin(struct loco_runtime *rt, const struct loci_reason *why,
                      struct loci_watch *watch)
{
    unsigned observed = loci_observed(rt);

    watch->begun = true;
    if (rt->host.waits != NULL)
        rt->host.waits(rt->host.ctx, why->what);
    if (observed == 0)
        return;
    watch->counted = (observed & LOCI_OBSERVE_STATS) != 0;
    if ((observed & LOCI_OBSERVE_TRACE) != 0)
        watch->traced = loci_trace_begin(rt, "wait", why->what, NULL, 0);
    watch->start = loci_now(rt);
}

void loci_watch_end(struct loco_runtime *rt, const struct loci_reason *why,
                    const struct loci_watch *watch)
{
    if (watch->counted) {
        int64_t ns = loci_now(rt) - watch->start;

        loci_stats_add(rt->stats, LOCI_STAT_WAITS + (int)why->kind, 1);
        loci_stats_add(rt->stats, LOCI_STAT_WAIT_NS + (int)why->kind, (uint64_t)ns);
        loci_call_waited(rt, ns);
    }
    if (watch->traced)
        loci_trace_end(rt, NULL, 0);
}

/* Now and then only, to look for what is told after a while. But where others have this core a
 * round takes as long as they like: a wait that ends by time looks each time that it has given the
 * core away. */
static bool is_time_to_look(const struct loco_runtime *rt, const struct loci_reason *why,
                            const struct clock *clock, unsigned rounds)
{
    return rounds % CLOCK_EVERY == 0 || why->timeout_ns == 0 || may_sleep(rt, why, clock)
           || (why->timeout_ns != LOCO_FOREVER && rounds > (unsigned)rt->tunables.spin);
}

/* It was not over at the first look, before which that many had died. */
static __attribute__((noinline)) int wait_on(struct loco_runtime *rt,
                                             const struct loci_reason *why, loci_ready_fn *ready,
                                             void *arg, unsigned deaths)
{
    unsigned rounds = 0, deaths_seen = 0;
    struct loci_watch watch = { .begun = false };
    struct clock clock = { .start = 0 };
    int status;

    for (;;) {
        if (deaths != deaths_seen) {
            status = needed_are_alive(rt, why, arg);
            if (status != LOCO_OK)
                break;
            deaths_seen = deaths;
        }
        if (is_time_to_look(rt, why, &clock, rounds)) {
            status = look_at_clock(rt, why, &clock);
            if (status != LOCO_OK)
                break;
        }
        if (!watch.begun)
            loci_watch_begin(rt, why, &watch);
        if (may_sleep(rt, why, &clock) && (why->announce != NULL || !is_in_flight(rt))) {
            poll_and_help(rt, false);
            status = sleep_once(rt, why, ready, arg, deaths, &clock);
            if (status != 0)
                break;
        } else {
            loci_wait_round(rt, &rounds);
        }
        deaths = atomic_load_explicit(&rt->deaths, memory_order_acquire);
        status = ready(arg);
        if (status != 0)
            break;
    }
    if (clock.announced)
        withdraw(rt, why, &clock);
    loci_watch_end(rt, why, &watch);
    return status;
}

int loci_wait(struct loco_runtime *rt, const struct loci_reason *why, loci_ready_fn *ready,
              void *arg)
{
    /* Deaths are read before `ready` is asked, here and above, so that what a peer wrote before it
     * died and was noticed still counts. */
    unsigned deaths = atomic_load_explicit(&rt->deaths, memory_order_acquire);
    int status = ready(arg);

    if (status == 0)
        status = wait_on(rt, why, ready, arg, deaths);
    return status < 0 ? status : LOCO_OK;
}
