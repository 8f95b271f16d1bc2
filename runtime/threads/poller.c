/* SPDX-License-Identifier: BSD-3-Clause */

/* The poller. See poller.h.
 *
 * Who writes what. A place is made by whoever adds a channel, is used again by later ones, and is
 * freed with the poller, so the poller may look at it at any time. Its `channel` is of who adds and
 * removes that; `announced` is the poller's while there is a channel. The list of those that are
 * awake is the poller's own. Who makes and frees places has the runtime's poller_lock, which the
 * poller never takes: who has it may wait for the poller's end.
 *
 * Removal. The poller loads `channel` and uses it within one round. Who removes it clears it, then
 * asks. The poller answers at the beginning of a round: all rounds that may have seen the channel
 * are over then. Or it is `away`, which it says as the last thing before it sleeps, and takes back
 * before it looks at anything again. In total order: either it finds the channel cleared then, or
 * who has cleared it does not find the poller away.
 *
 * No ring is missed. A channel that is not in the list has announced that, and was looked at after
 * that (visit, with `doze`). Who sends looks at the announcement after what was sent is there, and
 * rings if it finds one: so one of the two looks finds the other's act. A ring is a bit and then
 * the bell; before it sleeps the poller reads the bell, then takes the bits (rung.h).
 *
 * Who has claimed a channel may leave something of what the poller has seen there. So one that the
 * poller cannot claim, and has something to do, keeps it awake.
 *
 * The poller waits for no channel, and a turn does a bounded part of what there is: a channel with
 * much to do, or whose peer is slow, takes turns with the others. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "poller.h"
#include "wait.h"
#include "worker.h"

#define CLOCK_EVERY 64          /* rounds between looks at the clock */

struct loci_polled {
    struct loci_poller *poller;
    struct loci_polled *next;           /* with the same bit */
    struct loci_polled *next_unused;    /* under the lock */
    uint32_t number;
    _Atomic bool claimed;
    const struct loci_polled_ops *ops;
    void *added;                        /* the channel, until it begins */
    _Atomic(void *) channel;            /* NULL: none, or not begun */
    /* The poller's. */
    bool announced;
    _Atomic bool rung;                  /* since its last visit; after it is removed, too: then what
                                           has its number next is announced anew once too often */
    bool awake;                         /* in its list */
    bool calm;                          /* has announced, and there was nothing to do then */
    unsigned period;                    /* in which there was something the last time */
    struct loci_polled *next_awake;
};

struct loci_poller {
    struct loco_runtime *rt;
    struct loci_worker *worker;
    int users;                          /* under the lock, as the next two */
    struct loci_polled *unused;
    uint32_t numbers;                   /* given so far */
    _Atomic(struct loci_polled *) of_bit[LOCI_RUNG_BITS];
    _Atomic bool stops, away;
    _Atomic uint32_t asked, answered;   /* by who removes channels; by the poller */
    /* The thread's own. */
    struct loci_polled *awake;
    uint32_t heard;                     /* the bell, when the bits were taken the last time */
    unsigned deaths;                    /* of the runtime, when all were looked at */
    bool dozes;                         /* has announced that it sleeps, or is about to */
    bool found;                         /* something to do */
    unsigned rounds, period;            /* periods are of LOCO_SLEEP_AFTER or more */
    int64_t period_began;
};

/* ---- claims ---- */

bool loci_polled_claim(struct loci_polled *e)
{
    return !atomic_exchange(&e->claimed, true);
}

void loci_polled_free(struct loci_polled *e)
{
    /* In total order: who counts itself and then finds this free is counted (kv_tracker.c). */
    atomic_store(&e->claimed, false);
}

bool loci_polled_is_claimed(const struct loci_polled *e)
{
    return atomic_load(&e->claimed);
}

/* ---- the thread: one channel ---- */

enum visit { GONE, TAKEN, NOTHING, SOME, LATER };

static enum visit serve(struct loci_polled *e, void *channel)
{
    enum loci_served served;

    if (!loci_polled_claim(e))
        return TAKEN;
    served = e->ops->serve(channel);
    loci_polled_free(e);
    return served == LOCI_SERVED_NOTHING ? NOTHING : served == LOCI_SERVED_SOME ? SOME : LATER;
}

/* With `doze` it is to be rung for from then on, unless there is something. */
static enum visit visit(struct loci_polled *e, bool doze)
{
    void *channel = atomic_load(&e->channel);

    if (channel == NULL)
        return GONE;
    /* A ring may come before what it is for. So whoever is rung while it is announced is announced
     * anew, which looks for what is on its way (multicast.c, "Sleep"). */
    if (atomic_load_explicit(&e->rung, memory_order_relaxed) && e->announced) {
        e->announced = false;
        e->ops->announce(channel, -1);
    }
    atomic_store_explicit(&e->rung, false, memory_order_relaxed);
    if (e->announced != doze) {
        e->announced = doze;
        e->ops->announce(channel, doze ? 1 : -1);
    }
    return e->ops->look(channel) ? serve(e, channel) : NOTHING;
}

static void wake(struct loci_poller *p, struct loci_polled *e)
{
    e->period = p->period;
    e->calm = false;
    if (e->awake)
        return;
    e->awake = true;
    e->next_awake = p->awake;
    p->awake = e;
}

/* ---- the thread: all that are awake ---- */

static bool is_over(enum visit result, bool doze)
{
    return result == GONE || (result == NOTHING && doze);
}

/* One turn for each. Who had nothing to do for a whole period is told to ring, so that channels
 * that were busy once do not cost those that are. Whether the poller has to stay awake. */
static bool serve_awake(struct loci_poller *p)
{
    struct loci_polled **at = &p->awake, *e;
    bool busy = false;

    while ((e = *at) != NULL) {
        bool old = p->period - e->period >= 2, doze = p->dozes || old;
        enum visit result = visit(e, doze);

        e->calm = is_over(result, doze);
        if (result != NOTHING && result != GONE) {
            e->period = p->period;
            busy = true;
            p->found = p->found || result == SOME;
        }
        if (e->calm && !p->dozes) {
            *at = e->next_awake;
            e->awake = false;
        } else {
            at = &e->next_awake;
        }
    }
    return busy;
}

static void forget_calm(struct loci_poller *p)
{
    struct loci_polled **at = &p->awake, *e;

    while ((e = *at) != NULL) {
        if (e->calm) {
            *at = e->next_awake;
            e->awake = false;
        } else {
            at = &e->next_awake;
        }
    }
}

/* ---- the thread: who is to be woken ---- */

static void wake_bit(struct loci_poller *p, unsigned bit)
{
    struct loci_polled *e = atomic_load_explicit(&p->of_bit[bit], memory_order_acquire);

    for (; e != NULL; e = e->next) {
        atomic_store_explicit(&e->rung, true, memory_order_relaxed);
        wake(p, e);
    }
}

static void wake_rung(struct loci_poller *p)
{
    struct loci_bells *bells = p->rt->bells;
    uint32_t rings = atomic_load_explicit(&bells->bell[LOCI_BELL_POLLER].rings,
                                          memory_order_acquire);

    if (rings == p->heard)
        return;
    p->heard = rings;
    for (unsigned word = 0; word < LOCI_RUNG_WORDS; word++)
        for (uint64_t bits = loci_rung_take(&bells->rung, word); bits != 0; bits &= bits - 1)
            wake_bit(p, word * 64 + (unsigned)__builtin_ctzll(bits));
}

/* The dead ring for nobody. */
static void wake_all_if_death(struct loci_poller *p)
{
    unsigned deaths = atomic_load_explicit(&p->rt->deaths, memory_order_acquire);

    if (deaths == p->deaths)
        return;
    p->deaths = deaths;
    for (unsigned bit = 0; bit < LOCI_RUNG_BITS; bit++)
        wake_bit(p, bit);
}

static void look_at_clock(struct loci_poller *p)
{
    int64_t now;

    if (p->rounds++ % CLOCK_EVERY != 0)
        return;
    now = loci_now(p->rt);
    if (now - p->period_began < p->rt->tunables.sleep_after)
        return;
    p->period_began = now;
    p->period++;
}

/* ---- the thread's loop ---- */

static void answer(struct loci_poller *p)
{
    uint32_t asked = atomic_load(&p->asked);

    if (asked != atomic_load_explicit(&p->answered, memory_order_relaxed))
        atomic_store(&p->answered, asked);
}

/* A round. As loci_wait wants it: 0 if there was nothing to do. */
static int has_served(void *arg)
{
    struct loci_poller *p = arg;
    bool busy;

    answer(p);
    look_at_clock(p);
    wake_rung(p);
    wake_all_if_death(p);
    busy = serve_awake(p) || atomic_load_explicit(&p->stops, memory_order_acquire);
    if (p->dozes && !busy)
        atomic_store(&p->away, true);
    return busy;
}

/* It looks again after this, at all, and each then announces that it is to be rung for. */
static void announce(void *arg, int change)
{
    struct loci_poller *p = arg;

    p->dozes = change > 0;
    if (p->dozes)
        return;
    if (atomic_load_explicit(&p->away, memory_order_relaxed))
        atomic_store(&p->away, false);
    forget_calm(p);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

static void poll(void *arg)
{
    struct loci_poller *p = arg;
    const struct loci_reason why = {
        .what = "news of channels", .peer = -1, .broken = whoever_dies,
        .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_SYNC, .announce = announce,
        .bell = LOCI_BELL_POLLER,
    };
    unsigned rounds = 0;

    atomic_store_explicit(&p->rt->poller_self, loci_self(p->rt), memory_order_relaxed);
    while (!atomic_load_explicit(&p->stops, memory_order_acquire)) {
        p->found = false;
        loci_wait(p->rt, &why, has_served, p);
        if (p->found)
            rounds = 0;
        else
            loci_wait_round(p->rt, &rounds);
    }
    atomic_store_explicit(&p->rt->poller_self, NULL, memory_order_relaxed);
}

/* ---- its life, under the lock ---- */

static int start(struct loco_runtime *rt)
{
    struct loci_poller *p = calloc(1, sizeof *p);
    int status;

    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->rt = rt;
    p->heard = atomic_load_explicit(&rt->bells->bell[LOCI_BELL_POLLER].rings,
                                    memory_order_relaxed);
    p->deaths = atomic_load_explicit(&rt->deaths, memory_order_acquire);
    status = loci_worker_start(rt, "loco-poller", poll, p, &p->worker);
    if (status != LOCO_OK) {
        free(p);
        return status;
    }
    rt->poller = p;
    return LOCO_OK;
}

static void stop(struct loco_runtime *rt)
{
    struct loci_poller *p = rt->poller;

    atomic_store_explicit(&p->stops, true, memory_order_release);
    loci_ring_bell(rt, &rt->bells->bell[LOCI_BELL_POLLER]);
    loci_worker_join(p->worker);
    for (unsigned bit = 0; bit < LOCI_RUNG_BITS; bit++) {
        struct loci_polled *e = atomic_load_explicit(&p->of_bit[bit], memory_order_relaxed), *next;

        for (; e != NULL; e = next) {
            next = e->next;
            free(e);
        }
    }
    free(p);
    rt->poller = NULL;
}

/* ---- places, under the lock ---- */

static struct loci_polled *new_place(struct loci_poller *p)
{
    struct loci_polled *e = calloc(1, sizeof *e);
    _Atomic(struct loci_polled *) *first;

    if (e == NULL)
        return NULL;
    e->poller = p;
    e->number = ++p->numbers;
    first = &p->of_bit[e->number % LOCI_RUNG_BITS];
    e->next = atomic_load_explicit(first, memory_order_relaxed);
    /* Pairs with the acquire in wake_bit(). */
    atomic_store_explicit(first, e, memory_order_release);
    return e;
}

static struct loci_polled *take_place(struct loci_poller *p)
{
    struct loci_polled *e = p->unused;

    if (e == NULL)
        return new_place(p);
    p->unused = e->next_unused;
    return e;
}

int loci_poller_add(struct loco_runtime *rt, const struct loci_polled_ops *ops, void *channel,
                    struct loci_polled **out)
{
    struct loci_polled *e = NULL;
    int status = LOCO_OK;

    pthread_mutex_lock(&rt->poller_lock);
    if (rt->poller == NULL)
        status = start(rt);
    if (status == LOCO_OK) {
        e = take_place(rt->poller);
        if (e != NULL)
            rt->poller->users++;
        else if (rt->poller->users == 0)
            stop(rt);
    }
    pthread_mutex_unlock(&rt->poller_lock);
    if (status != LOCO_OK)
        return status;
    if (e == NULL)
        return LOCO_ERR_NO_MEMORY;
    e->ops = ops;
    e->added = channel;
    *out = e;
    return LOCO_OK;
}

/* Until no round is under way that began before this call. */
static void wait_for_round(struct loci_poller *p)
{
    uint32_t mine = atomic_fetch_add(&p->asked, 1) + 1;
    unsigned rounds = 0;

    while (!atomic_load(&p->away) && (int32_t)(atomic_load(&p->answered) - mine) < 0)
        loci_wait_round(p->rt, &rounds);
}

void loci_poller_remove(struct loci_polled *e)
{
    struct loci_poller *p;
    struct loco_runtime *rt;

    if (e == NULL)
        return;
    p = e->poller;
    rt = p->rt;
    atomic_store(&e->channel, NULL);
    wait_for_round(p);
    e->announced = false;
    atomic_store_explicit(&e->rung, false, memory_order_relaxed);
    pthread_mutex_lock(&rt->poller_lock);
    e->next_unused = p->unused;
    p->unused = e;
    if (--p->users == 0)
        stop(rt);
    pthread_mutex_unlock(&rt->poller_lock);
}

/* ---- for channels ---- */

bool loci_poller_is_self(struct loco_runtime *rt)
{
    struct loci_thread *poller = atomic_load_explicit(&rt->poller_self, memory_order_relaxed);

    return poller != NULL && poller == loci_self(rt);
}

int loci_poller_refuse_self(struct loco_runtime *rt, const char *call, const char *name)
{
    return !loci_poller_is_self(rt) ? LOCO_OK
           : loci_mistake(rt, LOCO_ERR_STATE, call, name, "not in a handler, which it would wait "
                          "for: another thread has to do it");
}

uint32_t loci_polled_number(const struct loci_polled *e)
{
    return e->number;
}

void loci_polled_begin(struct loci_polled *e)
{
    atomic_store(&e->channel, e->added);
    loci_polled_call(e);
}

void loci_polled_call(struct loci_polled *e)
{
    struct loco_runtime *rt = e->poller->rt;

    loci_ring_poller(rt, rt->bells, e->number);
}
