/* SPDX-License-Identifier: BSD-3-Clause */

/* Outstanding requests of a process at its device: credits.
 *
 * A device keeps the state of so many requests; that of more it fetches again, so that more
 * outstanding make fewer done (SMART, ASPLOS 2024, section 3.2). What counts is the process's sum,
 * so the bound is the process's; a thread has a share of it, the bound divided by the threads that
 * post, so that no post touches a word that other threads write.
 *
 * No thread waits for another's credits. Whatever the bound, and however long a request is, one is
 * let through where the thread has none whose completion is asked for. So who waits, waits for
 * completions of its own requests, and these come: they were asked for, and whoever polls one of
 * its lanes while it is short takes them from all. That goes for a fence of another thread, too,
 * which posts on this thread's lane with this thread's credit: it polls that lane.
 *
 * What counts. Writes whose source was copied are posted without asking for a completion, and are
 * retired by a later one of their lane. `asked` are requests whose completion is asked for. `fresh`
 * are others, posted after the last time that `asked` came down to 0: those before that were given
 * to the device a round trip ago, and there may be no reason ever to post on their lane again, so
 * they do not count. If they did, a share that has become smaller could be full of requests that
 * nobody asks for. The one that is let through then asks for its own, since the thread is short.
 *
 * The bound is kept as well as the shares know who posts: a thread that begins counts itself at
 * once, one that has stopped is found at the next look. What was taken by an older, larger share
 * stays until it is complete.
 *
 * Looks. Each `epoch` whoever takes a completion looks: counts the threads that posted, and, with
 * LOCO_RDMA_OUTSTANDING=auto, tunes, by the paper's algorithm 1, with two differences. Its measure
 * is what the whole process has completed, for a thread's own grows with a bound that makes all
 * together slower. And none is among the candidates: it is tried first, tells how much there
 * would be outstanding, and stays unless another does 5 % more; candidates above that peak would
 * change nothing. Before a candidate is measured it has a quarter of an epoch to settle, for what
 * was outstanding with the one before it is completed first. Where the peak is below the least
 * candidate there is nothing to try. */

#include "config.h"

#include "observe/observe.h"
#include "runtime.h"
#include "wait.h"

enum { LOOK_EVERY = 32, STABLE = 60, GAIN_PERCENT = 5, SETTLE_PART = 4 };

/* Of a process. What is published of devices' caches is that some thousand requests fit. */
static const uint32_t candidates[] = { LOCI_CREDIT_NO_BOUND, 512, 768, 1024, 1536, 2048 };
#define CANDIDATES ((int)(sizeof candidates / sizeof candidates[0]))

static uint32_t load32(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint64_t load64(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* ---- shares ---- */

static void share(struct loci_credits *c, uint32_t threads)
{
    uint32_t bound = load32(&c->bound);

    atomic_store_explicit(&c->share, bound == LOCI_CREDIT_NO_BOUND ? bound : bound / threads,
                          memory_order_relaxed);
    atomic_store_explicit(&c->share_bytes, c->bytes == LOCI_CREDIT_NO_BYTES ? c->bytes
                                           : c->bytes / threads, memory_order_relaxed);
}

/* By whoever has changed `busy` or the bound. Of two, one sees the other's change, so the last word
 * is not the older one's. */
static void divide(struct loci_credits *c)
{
    int busy = atomic_load_explicit(&c->busy, memory_order_relaxed), before;

    do {
        before = busy;
        share(c, busy > 0 ? (uint32_t)busy : 1);
        atomic_thread_fence(memory_order_seq_cst);
        busy = atomic_load_explicit(&c->busy, memory_order_relaxed);
    } while (busy != before);
}

static void set_bound(struct loco_runtime *rt, uint32_t bound)
{
    uint64_t told = bound == LOCI_CREDIT_NO_BOUND ? 0 : bound;
    const struct loci_trace_arg arg = { "requests", (int64_t)told, NULL };

    atomic_store_explicit(&rt->credits.bound, bound, memory_order_relaxed);
    loci_stats_set(rt->stats, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND, told);
    if ((loci_observed(rt) & LOCI_OBSERVE_TRACE) != 0)
        loci_trace_mark(rt, "device", "bound of outstanding requests", &arg, 1);
}

void loci_credits_open(struct loco_runtime *rt, uint64_t bytes)
{
    const struct loci_tunables *t = &rt->tunables;
    struct loci_credits *c = &rt->credits;

    c->tuned = t->rdma_outstanding == LOCI_AUTO;
    set_bound(rt, c->tuned || t->rdma_outstanding == LOCI_INFINITE
                  || t->rdma_outstanding >= LOCI_CREDIT_NO_BOUND
                  ? LOCI_CREDIT_NO_BOUND : (uint32_t)t->rdma_outstanding);
    c->bytes = t->rdma_outstanding_bytes == LOCI_AUTO ? bytes
               : t->rdma_outstanding_bytes == LOCI_INFINITE ? LOCI_CREDIT_NO_BYTES
               : (uint64_t)t->rdma_outstanding_bytes;
    c->epoch = t->rdma_outstanding_epoch;
    c->trial = -1;
    c->left = 1;
    atomic_store_explicit(&c->next, loci_now(rt) + c->epoch, memory_order_relaxed);
    divide(c);
    c->on = c->tuned || load32(&c->bound) != LOCI_CREDIT_NO_BOUND
            || c->bytes != LOCI_CREDIT_NO_BYTES;
}

/* ---- looks ---- */

/* Threads that have posted nothing since the last look, and have nothing outstanding, do not share
 * any more. One that begins just now may be missed for a request. */
static uint64_t look_at_threads(struct loco_runtime *rt)
{
    struct loci_credits *c = &rt->credits;
    uint64_t done = 0;
    uint32_t peak = 0;

    for (struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
         t != NULL; t = t->next) {
        struct loci_credit *own = &t->credit;
        uint64_t taken = load64(&own->taken), given = load64(&own->given);
        bool busy = true;

        if (taken == own->seen && taken == given
            && atomic_compare_exchange_strong_explicit(&own->busy, &busy, false,
                                                       memory_order_relaxed,
                                                       memory_order_relaxed))
            atomic_fetch_sub_explicit(&c->busy, 1, memory_order_relaxed);
        own->seen = taken;
        done += given;
        peak += atomic_exchange_explicit(&own->most, 0, memory_order_relaxed);
    }
    c->peak = peak > c->peak || (c->trial == 0 && c->settles) ? peak : c->peak;
    return done;
}

static void try_candidate(struct loco_runtime *rt, int which)
{
    rt->credits.trial = which;
    rt->credits.settles = true;
    set_bound(rt, candidates[which]);
    loci_stats_add(rt->stats, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND_TRIALS, 1);
}

static void end_trials(struct loco_runtime *rt)
{
    struct loci_credits *c = &rt->credits;

    c->trial = -1;
    c->left = STABLE;
    c->peak = 0;
    set_bound(rt, c->best);
    if (c->best == LOCI_CREDIT_NO_BOUND)
        LOCI_LOG(rt, LOCO_LOG_DEBUG, "outstanding requests are not bounded");
    else
        LOCI_LOG(rt, LOCO_LOG_DEBUG, "at most %u requests are outstanding", c->best);
}

/* `done` were completed with the candidate that was tried. */
static void tune(struct loco_runtime *rt, uint64_t done)
{
    struct loci_credits *c = &rt->credits;
    int next = c->trial + 1;

    if (c->settles) {
        c->settles = false;
        return;
    }
    if (c->trial < 0) {
        bool bounded = load32(&c->bound) != LOCI_CREDIT_NO_BOUND;

        if (--c->left <= 0 && (bounded || c->peak > candidates[1]))
            try_candidate(rt, 0);
        else if (c->left <= 0)
            c->left = 1;
        return;
    }
    if (c->trial == 0)
        done += done * GAIN_PERCENT / 100;
    if (c->trial == 0 || done > c->best_done) {
        c->best = candidates[c->trial];
        c->best_done = done;
    }
    if (next < CANDIDATES && candidates[next] < c->peak)
        try_candidate(rt, next);
    else
        end_trials(rt);
}

static void look(struct loco_runtime *rt)
{
    struct loci_credits *c = &rt->credits;
    int64_t now = loci_now(rt);
    bool nobody = false;
    uint64_t done;

    if (now < atomic_load_explicit(&c->next, memory_order_relaxed)
        || !atomic_compare_exchange_strong_explicit(&c->looking, &nobody, true,
                                                    memory_order_acquire, memory_order_relaxed))
        return;
    if (now >= atomic_load_explicit(&c->next, memory_order_relaxed)) {
        done = look_at_threads(rt);
        if (c->tuned)
            tune(rt, done - c->done);
        c->done = done;
        divide(c);
        atomic_store_explicit(&c->next, now + (c->settles ? c->epoch / SETTLE_PART : c->epoch),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&c->looking, false, memory_order_release);
}

/* ---- a thread's ---- */

static bool is_over(const struct loci_credits *c, const struct loci_credit *own, uint64_t bytes)
{
    uint32_t counted = own->asked + own->fresh;

    return counted >= load32(&c->share)
           || (counted > 0 && own->asked_bytes + own->fresh_bytes + bytes
                              > load64(&c->share_bytes));
}

bool loci_credit_may(struct loci_thread *thread, uint64_t bytes)
{
    const struct loci_credits *c = &thread->rt->credits;
    struct loci_credit *own = &thread->credit;

    if (!c->on || own->asked == 0 || !is_over(c, own, bytes)) {
        own->waiting = false;
        return true;
    }
    if (!own->waiting)
        loci_stats_add(thread->rt->stats, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND_WAITS, 1);
    own->waiting = true;
    return false;
}

bool loci_credit_asks(const struct loci_thread *thread)
{
    const struct loci_credits *c = &thread->rt->credits;
    const struct loci_credit *own = &thread->credit;

    return c->on && (own->asked + own->fresh + 1 >= load32(&c->share) / 2
                     || own->asked_bytes + own->fresh_bytes >= load64(&c->share_bytes) / 2);
}

bool loci_credit_is_short(const struct loci_thread *thread)
{
    const struct loci_credits *c = &thread->rt->credits;

    return c->on && thread->credit.asked > 0 && is_over(c, &thread->credit, 1);
}

static void count_busy(struct loci_credits *c, struct loci_credit *own)
{
    atomic_store_explicit(&own->busy, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->busy, 1, memory_order_relaxed);
    divide(c);
}

void loci_credit_take(struct loci_thread *thread, uint64_t bytes, bool asked)
{
    struct loci_credits *c = &thread->rt->credits;
    struct loci_credit *own = &thread->credit;

    if (!c->on)
        return;
    if (!atomic_load_explicit(&own->busy, memory_order_relaxed))
        count_busy(c, own);
    own->held++;
    own->asked += asked;
    own->fresh += !asked;
    own->asked_bytes += asked ? bytes : 0;
    own->fresh_bytes += asked ? 0 : bytes;
    if (own->asked + own->fresh > load32(&own->most))
        atomic_store_explicit(&own->most, own->asked + own->fresh, memory_order_relaxed);
    atomic_store_explicit(&own->taken, load64(&own->taken) + 1, memory_order_relaxed);
}

/* Of those that were not asked for it is not known which are fresh: the oldest are retired
 * first. */
static void give_unasked(struct loci_credit *own, uint64_t bytes)
{
    uint32_t unasked = own->held - own->asked;

    if (own->fresh <= unasked)
        return;
    own->fresh = unasked;
    own->fresh_bytes -= bytes < own->fresh_bytes ? bytes : own->fresh_bytes;
}

void loci_credit_give(struct loci_thread *thread, uint64_t bytes, bool asked, bool taken_back)
{
    struct loci_credit *own = &thread->credit;
    uint64_t given = load64(&own->given) + 1;

    if (!thread->rt->credits.on)
        return;
    own->held--;
    own->asked -= asked;
    own->asked_bytes -= asked ? bytes : 0;
    if (!asked)
        give_unasked(own, bytes);
    if (own->asked == 0 && !taken_back)
        own->fresh = 0;
    if (own->fresh == 0)
        own->fresh_bytes = 0;
    atomic_store_explicit(&own->given, given, memory_order_relaxed);
    if (given % LOOK_EVERY == 0)
        look(thread->rt);
}
