/* SPDX-License-Identifier: BSD-3-Clause */

/* The slow paths of rw_word.h, where the protocol is described.
 *
 * Who writes what: everybody everything, by atomics on the one word, or on the second class'
 * quarter of it. A newcomer adds its unit and takes it back where it must wait (fields may show it
 * for a moment: that can make another's attempt fail, never succeed). A waiter takes the word by
 * compare-and-swap only, so that waiters do not disturb each other; one out of patience adds 1 to
 * `next` and has the ticket that was there, and moves `serving` on in the swap that takes the word.
 * If it does not, or its process stops, see "skipping". */

#include "config.h"

#include "move/bell.h"
#include "rw_word.h"
#include "wait.h"

#define LOOK_SOONEST INT64_C(1000)      /* ns between looks at a word that is not mapped */
#define LOOK_LATEST INT64_C(64000)
#define GLANCE_SOONEST INT64_C(125)     /* the same for one that is mapped */
#define GLANCE_LATEST INT64_C(2000)
#define SKIP_LATEST INT64_C(50000000)
#define LINE_OF_SILENT 8                /* once one was skipped, the next are so much sooner */
#define STUCK INT64_C(1000000)          /* so long barred, there is no hurry */
#define SWAPS_PER_POLL 8

struct rw_wait {
    struct loco_runtime *rt;
    const struct loci_rw *rw;
    enum loci_rw_mode mode;
    bool either;                        /* mode becomes what the word allows */
    unsigned flags;
    loci_ready_fn *served;              /* it is not needed any more; NULL: it is */
    void *served_arg;
    bool by_others;
    int64_t patient_until;
    bool has_ticket;
    unsigned ticket;
    int64_t barred_since;               /* nothing but tickets has been in the way, the same one */
    int64_t barred;                     /* being served, for so long; since 0: it is not so */
    int64_t looked, silent;             /* the word was free then; and so for that time in all */
    unsigned served_ticket;             /* meanwhile */
    /* looking at a word that is not mapped */
    bool looking, swapping;
    loco_ack_t ack;
    uint64_t read, expected;
    uint64_t last;                      /* as it was seen last; ~0: not yet */
    uint64_t taken;                     /* as it was when it was taken */
    uint64_t seen;                      /* as it was at the last look, */
    bool fresh;                         /* and that was the last time it was to look */
    int64_t next_look, interval;
    /* once somebody is dead */
    unsigned deaths;
    bool member_dead;
    int64_t moved;                      /* when something moved last */
    unsigned moved_serving;
};

void loci_rw_wake_sleepers(struct loco_runtime *rt, const struct loci_rw *rw)
{
    loci_signal_watchers(rt, rw->mem->peer, rw->group, LOCI_BELL_WORD);
}

static unsigned serving_of(uint64_t word)
{
    return (unsigned)(word >> LOCI_RW_SERVING_SHIFT) & 0xffff;
}

static unsigned next_of(uint64_t word)
{
    return (unsigned)(word >> LOCI_RW_NEXT_SHIFT) & 0xffff;
}

/* What to add so that `serving` goes one on from this ticket and never carries into `next`. */
static uint64_t serving_step(unsigned ticket)
{
    uint64_t one = UINT64_C(1) << LOCI_RW_SERVING_SHIFT;

    return ticket == 0xffff ? 0 - one * 0xffff : one;
}

/* ---- one attempt through the fabric ---- */

/* Exclusive: the swap doubles as the read. *last: as it was found, had or not. */
static int swap_in(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode,
                   uint64_t *last)
{
    uint64_t unit = loci_rw_unit(rw, mode), seen = loci_rw_guess(rw), old = 0;

    for (int i = 0; i < SWAPS_PER_POLL; i++) {
        int status = loci_compare_swap(rt, rw->mem, rw->offset, seen, seen + unit, &old, NULL);

        if (status != LOCO_OK)
            return status;
        *last = old;
        if (old == seen)
            return LOCO_OK;
        if (!loci_rw_is_free(old, mode))
            break;
        seen = old;
        loci_rw_found_free(rw, old);
    }
    return LOCO_ERR_AGAIN;
}

static int try_once(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode,
                    uint64_t *last)
{
    uint64_t unit = loci_rw_unit(rw, mode), old;
    int status;

    if (loci_rw_is_alone(mode))
        return swap_in(rt, rw, mode, last);
    status = loci_fetch_add(rt, rw->mem, rw->offset, unit, &old, NULL);
    if (status != LOCO_OK)
        return status;
    *last = old;
    if (loci_rw_is_free(old, mode))
        return LOCO_OK;
    status = loci_add(rt, rw->mem, rw->offset, 0 - unit, &old, NULL);
    loci_rw_wake(rt, rw);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

/* ---- who is dead ---- */

static bool any_dead(struct loco_runtime *rt, const struct loco_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (!loci_peer_alive(rt, group->peer[i]))
            return true;
    return false;
}

/* The holder that the word names, or -1. */
static int named_holder(const struct loci_rw *rw, enum loci_rw_mode mode, uint64_t word)
{
    uint64_t name = (word & LOCI_RW_SECOND) >> LOCI_RW_SECOND_SHIFT;
    int rank = (int)(name & ~LOCI_RW_QUICK_BIT) - 1;

    return mode <= LOCI_RW_QUICK && rank < rw->group->size ? rank : -1;
}

/* LOCO_ERR_PEER_DEAD when the word will not come to us any more. `deaths` was read before the
 * word was. */
static int check_deaths(struct rw_wait *w, unsigned deaths, uint64_t word)
{
    int holder = named_holder(w->rw, w->mode, word);
    int64_t now;

    if (deaths == 0)
        return LOCO_OK;
    if (deaths != w->deaths) {
        w->deaths = deaths;
        w->member_dead = any_dead(w->rt, w->rw->group);
        w->moved = loci_now(w->rt);
    }
    if (!w->member_dead)
        return LOCO_OK;
    if (loci_mem_is_orphaned(w->rt, w->rw->mem))
        return LOCO_ERR_PEER_DEAD;
    if (holder >= 0 && !loci_peer_alive(w->rt, w->rw->group->peer[holder]))
        return LOCO_ERR_PEER_DEAD;
    now = loci_now(w->rt);
    if (holder >= 0 || serving_of(word) != w->moved_serving) {
        w->moved = now;
        w->moved_serving = serving_of(word);
    }
    return now - w->moved > loci_grace(w->rt) ? LOCO_ERR_PEER_DEAD : LOCO_OK;
}

/* ---- waiting ---- */

/* Whether it has a ticket that has not been skipped. */
static bool is_in_line(const struct rw_wait *w, uint64_t word)
{
    unsigned serving = serving_of(word);

    return w->has_ticket
           && ((w->ticket - serving) & 0xffff) < ((next_of(word) - serving) & 0xffff);
}

static bool is_turn(const struct rw_wait *w, uint64_t word)
{
    return is_in_line(w, word) && serving_of(word) == w->ticket;
}

/* What to add to tickets in the swap that takes such a word: its turn, or, from the end of the
 * line, the ticket back. From its middle it stays behind, to be skipped. */
static uint64_t step_of(const struct rw_wait *w, uint64_t word)
{
    if (is_turn(w, word))
        return serving_step(w->ticket);
    return is_in_line(w, word) && next_of(word) == ((w->ticket + 1) & 0xffff)
           ? 0 - (UINT64_C(1) << LOCI_RW_NEXT_SHIFT) : 0;
}

static bool is_held(uint64_t word)
{
    return (word & (LOCI_RW_FIRST | LOCI_RW_SECOND)) != 0;
}

/* How long nothing but tickets has been in the way of this waiter, without a break; and for how
 * long in all nobody has held the word, though a ticket was served. What passes between two looks
 * counts little in that: this process may not have been running, nor the ticket's owner. */
static void measure_silence(struct rw_wait *w, uint64_t word)
{
    enum loci_rw_mode mode = w->either ? LOCI_RW_SHARED : w->mode;
    bool barred = (word & loci_rw_conflicts(mode)) == 0 && loci_rw_closed(word);
    int64_t now = barred ? loci_now(w->rt) : 0;

    if (serving_of(word) != w->served_ticket)
        w->barred_since = w->looked = w->silent = 0;
    w->served_ticket = serving_of(word);
    if (!barred || w->barred_since == 0)
        w->barred_since = now;
    w->barred = now - w->barred_since;
    if (!barred || is_held(word)) {
        w->looked = 0;
        return;
    }
    if (w->looked != 0)
        w->silent += now - w->looked < STUCK ? now - w->looked : STUCK;
    w->looked = now;
}

/* Whether it takes such a word before the ticket that is served. */
static bool may_pass(const struct rw_wait *w, uint64_t word)
{
    return !loci_rw_is_alone(w->mode) && serving_of(word) == w->served_ticket
           && w->barred_since != 0 && w->barred >= loci_rw_pass(w->rt, w->flags);
}

static bool may_take(const struct rw_wait *w, uint64_t word)
{
    bool first = is_turn(w, word) || may_pass(w, word);

    return (word & loci_rw_conflicts(w->mode)) == 0 && (first || !loci_rw_closed(word));
}

static int64_t skip_after(const struct loco_runtime *rt)
{
    int64_t half = rt->tunables.lock_pass / 2;

    return half < SKIP_LATEST ? half : SKIP_LATEST;
}

/* Move on from a ticket whose owner does not come for a word that is free. */
static int skip_ticket(struct loco_runtime *rt, const struct loci_rw *rw, uint64_t word)
{
    uint64_t old;

    return loci_compare_swap(rt, rw->mem, rw->offset, word, word + serving_step(serving_of(word)),
                             &old, NULL);
}

static int skip_silent(struct rw_wait *w, uint64_t word)
{
    int64_t after = skip_after(w->rt);
    int status;

    if (w->silent <= after || is_held(word) || !loci_rw_closed(word)
        || serving_of(word) != w->served_ticket || is_turn(w, word))
        return LOCO_OK;
    status = skip_ticket(w->rt, w->rw, word);
    /* The next has as long as that only if it is the first of them that nobody comes for. */
    w->served_ticket = (w->served_ticket + 1) & 0xffff;
    w->barred_since = w->looked = 0;
    w->silent = after - after / LINE_OF_SILENT;
    return status;
}

/* A ticket, once out of patience; another where it was skipped. Who may pass draws none where
 * nothing but tickets is in its way: it would leave it behind when it does. */
static int draw_ticket(struct rw_wait *w, uint64_t word)
{
    uint64_t old;
    int status;

    if (is_in_line(w, word))
        return LOCO_OK;
    w->has_ticket = false;
    if (!loci_rw_is_alone(w->mode) && w->barred_since != 0)
        return LOCO_OK;
    if (w->served != NULL || loci_now(w->rt) < w->patient_until)
        return LOCO_OK;
    status = loci_fetch_add(w->rt, w->rw->mem, w->rw->offset, UINT64_C(1) << LOCI_RW_NEXT_SHIFT,
                            &old, NULL);
    if (status == LOCO_OK) {
        w->has_ticket = true;
        w->ticket = next_of(old);
    }
    return status;
}

/* Read the word; who wants it for himself swaps, in case that it has become free since, which tells
 * as much and spares the swap after the read. */
static int start_looking(struct rw_wait *w)
{
    uint64_t free = w->last & ~(LOCI_RW_FIRST | LOCI_RW_SECOND);

    if (w->either)
        w->mode = LOCI_RW_EXCLUSIVE;
    w->swapping = w->last != ~UINT64_C(0) && loci_rw_is_alone(w->mode) && may_take(w, free);
    if (!w->swapping)
        return loci_read64(w->rt, w->rw->mem, w->rw->offset, &w->read, &w->ack);
    w->expected = free;
    return loci_compare_swap(w->rt, w->rw->mem, w->rw->offset, free,
                             free + loci_rw_unit(w->rw, w->mode) + step_of(w, free), &w->read,
                             &w->ack);
}

static bool is_time_to_look(struct rw_wait *w, int64_t latest)
{
    int64_t now = loci_now(w->rt);

    if (now < w->next_look)
        return false;
    w->interval = w->interval * 2 < latest ? w->interval * 2 : latest;
    w->next_look = now + w->interval;
    return true;
}

/* 1 with the word in *word, 0 where it is still on its way (or not to be looked at yet), or an
 * error. A look at a mapped word takes its line from who has the lock, and will soon write to it;
 * only whose turn it is is waited for. */
static int look(struct rw_wait *w, uint64_t *word)
{
    unsigned char *p = loci_mem_ptr(w->rw->mem);
    bool stuck = w->barred > STUCK;
    int status;

    if (p != NULL) {
        if ((!w->has_ticket || stuck) && !is_time_to_look(w, stuck ? LOOK_LATEST : GLANCE_LATEST))
            return 0;
        *word = loci_load64(p + w->rw->offset);
        return 1;
    }
    if (!w->looking) {
        if (!is_time_to_look(w, LOOK_LATEST))
            return 0;
        w->ack = (loco_ack_t)LOCO_ACK_INIT;
        status = start_looking(w);
        if (status < 0)
            return status;
        w->looking = true;
    }
    status = loco_ack_test(w->rt, &w->ack);
    if (status == LOCO_IN_PROGRESS)
        return 0;
    w->looking = false;
    *word = w->last = w->read;
    return status < 0 ? status : 1;
}

/* The look itself has taken it. */
static bool swapped_in(const struct rw_wait *w)
{
    return w->swapping && w->read == w->expected;
}

/* Take the word while it looks right. 1, 0 or an error; *word becomes what it was at last. */
static int take(struct rw_wait *w, uint64_t *word)
{
    uint64_t old;

    for (int i = 0; i < SWAPS_PER_POLL; i++) {
        int status;

        if (w->either)
            w->mode = (*word & LOCI_RW_FIRST) != 0 ? LOCI_RW_SHARED : LOCI_RW_EXCLUSIVE;
        if (!may_take(w, *word))
            return 0;
        status = loci_compare_swap(w->rt, w->rw->mem, w->rw->offset, *word,
                                   *word + loci_rw_unit(w->rw, w->mode) + step_of(w, *word), &old,
                                   NULL);
        if (status != LOCO_OK)
            return status;
        if (old == *word)
            return 1;
        *word = old;
    }
    return 0;
}

/* Naps, unless whoever is in the way rings when it goes, as a look has just shown: one from before
 * a ring says nothing, the ring is spent, so another look follows soon. */
static int64_t doze(void *arg)
{
    const struct rw_wait *w = arg;

    if (w->rw->wake == NULL)
        return LOCI_NAP;
    if (!w->fresh)
        return LOOK_LATEST;
    return w->has_ticket && (w->seen & loci_rw_conflicts(w->mode)) != 0 ? LOCO_FOREVER : LOCI_NAP;
}

static int is_ours(void *arg)
{
    struct rw_wait *w = arg;
    unsigned deaths = atomic_load_explicit(&w->rt->deaths, memory_order_acquire);
    uint64_t word;
    int status;

    if (w->served != NULL && w->served(w->served_arg)) {
        w->by_others = true;
        return 1;
    }
    status = look(w, &word);
    w->fresh = status == 1;
    if (status != 1)
        return status;
    if (!swapped_in(w)) {
        measure_silence(w, word);
        status = take(w, &word);
    }
    w->taken = w->seen = word;
    if (status == 0)
        status = skip_silent(w, word);
    if (status == 0)
        status = draw_ticket(w, word);
    if (status != 0)
        return status;
    return check_deaths(w, deaths, word);
}

/* This waiter goes, and has not taken the word. */
static void leave_line(struct rw_wait *w)
{
    uint64_t word, old;
    int status = w->has_ticket ? loci_read64(w->rt, w->rw->mem, w->rw->offset, &word, NULL)
                               : LOCO_ERR_AGAIN;

    while (status == LOCO_OK && step_of(w, word) != 0) {
        status = loci_compare_swap(w->rt, w->rw->mem, w->rw->offset, word,
                                   word + step_of(w, word), &old, NULL);
        if (old == word)
            return;
        word = old;
    }
}

static int wait_until(struct loco_runtime *rt, struct rw_wait *w, int64_t deadline)
{
    const struct loci_reason why = {
        .what = w->rw->what, .at = w->rw->mem, .peer = -1,
        .timeout_ns = loci_time_left(rt, deadline),
        .kind = (w->flags & LOCI_RW_ACCUMULATES) != 0 ? LOCI_WAIT_ACCUMULATE : LOCI_WAIT_LOCK,
        .bell = w->rw->wake != NULL && loci_mem_word(w->rw->mem) != NULL ? LOCI_BELL_WORD
                                                                        : LOCI_BELL_ANY,
        .watched = w->rw->mem, .what_for = w->rw->what_for, .doze = doze,
    };
    int64_t patience = rt->tunables.lock_patience;
    int status;

    w->rt = rt;
    w->interval = (loci_mem_ptr(w->rw->mem) != NULL ? GLANCE_SOONEST : LOOK_SOONEST) / 2;
    w->patient_until = patience == LOCI_INFINITE ? INT64_MAX : loci_now(rt) + patience;
    status = loci_wait(rt, &why, is_ours, w);
    if (w->looking) {   /* its result goes into the caller's frame */
        int looked = loco_ack_wait(rt, &w->ack);

        if (looked == LOCO_OK && swapped_in(w)) {
            w->taken = w->read;
            if (status == LOCO_ERR_TIMEOUT)
                return LOCO_OK;
            loci_rw_release(rt, w->rw, w->mode);
            return status;
        }
    }
    if (status == LOCO_ERR_TIMEOUT)
        leave_line(w);
    return status;
}

static int wait_for(struct loco_runtime *rt, struct rw_wait *w)
{
    return wait_until(rt, w, LOCI_NEVER);
}

/* *word: as it was when it was taken. */
static int acquire(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode,
                   unsigned flags, int64_t deadline, uint64_t *word)
{
    struct rw_wait w = { .rw = rw, .mode = mode, .flags = flags, .last = ~UINT64_C(0) };
    int status;

    if (loci_mem_word(rw->mem) == NULL) {       /* else the inline attempt was made */
        status = try_once(rt, rw, mode, &w.last);
        if (status != LOCO_ERR_AGAIN) {
            *word = w.last;
            return status;
        }
    }
    status = wait_until(rt, &w, deadline);
    *word = w.taken;
    return status;
}

/* ---- release ---- */

int loci_rw_release_far(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode)
{
    uint64_t unit = 0 - loci_rw_unit(rw, mode), old;
    int status = loci_add(rt, rw->mem, rw->offset, unit, &old, NULL), lost = LOCO_OK;

    status = loci_add_again(rt, rw->mem, rw->offset, unit, &old, status, &lost);
    loci_rw_wake(rt, rw);
    return status != LOCO_OK ? status : lost;
}

/* ---- trying ---- */

/* Who tries does not wait: what he saw last is where he sees it the next time. */
static int skip_between_tries(struct loco_runtime *rt, const struct loci_rw *rw, uint64_t word,
                              struct loci_rw_tries *tries)
{
    int64_t now = loci_now(rt), after = skip_after(rt);

    if (is_held(word) || !loci_rw_closed(word))
        return LOCO_OK;
    if (atomic_exchange_explicit(&tries->word, word, memory_order_relaxed) != word)
        atomic_store_explicit(&tries->since, now, memory_order_relaxed);
    else if (now - atomic_load_explicit(&tries->since, memory_order_relaxed) > after)
        return skip_ticket(rt, rw, word);
    return LOCO_OK;
}

int loci_rw_try_slow(struct loco_runtime *rt, const struct loci_rw *rw, enum loci_rw_mode mode,
                     struct loci_rw_tries *tries)
{
    const unsigned char *p = loci_mem_word(rw->mem);
    int status = LOCO_ERR_AGAIN, skipped;
    uint64_t last;

    if (p != NULL)      /* the inline attempt was made */
        last = loci_load64(p + rw->offset);
    else
        status = try_once(rt, rw, mode, &last);
    if (status != LOCO_ERR_AGAIN)
        return status;
    skipped = skip_between_tries(rt, rw, last, tries);
    return skipped == LOCO_OK ? status : skipped;
}

/* ---- acquiring ---- */

int loci_rw_acquire_slow(struct loco_runtime *rt, const struct loci_rw *rw,
                         enum loci_rw_mode mode, unsigned flags)
{
    uint64_t word;

    return acquire(rt, rw, mode, flags, LOCI_NEVER, &word);
}

int loci_rw_acquire_until(struct loco_runtime *rt, const struct loci_rw *rw,
                          enum loci_rw_mode mode, unsigned flags, int64_t deadline)
{
    unsigned char *p = loci_mem_word(rw->mem);
    uint64_t word;

    if (p != NULL && loci_rw_take_mapped(rt, p + rw->offset, rw, mode))
        return LOCO_OK;
    return acquire(rt, rw, mode, flags, deadline, &word);
}

int loci_rw_acquire_unless(struct loco_runtime *rt, const struct loci_rw *rw, unsigned flags,
                           int (*served)(void *arg), void *arg, bool *by_others)
{
    struct rw_wait w = {
        .rw = rw, .mode = LOCI_RW_EXCLUSIVE, .flags = flags, .last = ~UINT64_C(0),
        .served = served, .served_arg = arg,
    };
    int status = wait_for(rt, &w);

    *by_others = w.by_others;
    return status;
}

int loci_rw_acquire_member(struct loco_runtime *rt, const struct loci_rw *rw,
                           enum loci_rw_mode mode, unsigned flags, bool *grouped)
{
    unsigned char *p = loci_mem_word(rw->mem);
    int status = LOCO_OK;
    uint64_t word;

    if (p != NULL && loci_rw_take_mapped(rt, p + rw->offset, rw, mode))
        word = loci_load64(p + rw->offset);
    else
        status = acquire(rt, rw, mode, flags, LOCI_NEVER, &word);
    *grouped = status == LOCO_OK && (word & LOCI_RW_GROUPED) != 0;
    return status;
}

int loci_rw_acquire_either(struct loco_runtime *rt, const struct loci_rw *rw, unsigned flags,
                           enum loci_rw_mode *mode)
{
    struct rw_wait w = { .rw = rw, .mode = LOCI_RW_EXCLUSIVE, .either = true, .flags = flags,
                         .last = ~UINT64_C(0) };
    int status = wait_for(rt, &w);

    *mode = w.mode;
    return status;
}

int loci_rw_holder(struct loco_runtime *rt, const struct loci_rw *rw, int *rank)
{
    uint64_t word;
    int status = loci_read64(rt, rw->mem, rw->offset, &word, NULL);

    if (status == LOCO_OK)
        *rank = named_holder(rw, LOCI_RW_EXCLUSIVE, word);
    return status;
}
