/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: the view's thread; who is there, who is suspected; the beginning of multicasts, and the
 * end of a view. See view.c. */

#include "config.h"

#include <stdlib.h>

#include "move/bell.h"
#include "observe/log.h"
#include "view.h"
#include "wait.h"

#define AGAIN INT64_C(2000000)          /* ns in a change after which those who are awaited are
                                           rung, */
#define AGAIN_MOST INT64_C(1000000000)  /* first, and later */

void loci_view_wake(struct loco_view *v)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&v->waiters, memory_order_relaxed) > 0)
        loci_ring_self(v->rt);
}

/* ---- leaving ---- */

static bool must_stop(struct loco_view *v)
{
    return atomic_load_explicit(&v->stops, memory_order_acquire);
}

/* Before the others hear of it, nothing is given by this process any more. Without the lock: it
 * waits for handlers, which may ask the view. None is made meanwhile: there is a status. */
static void end_multicasts(struct loco_view *v, int status)
{
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_end(v->multicast[k].m, status);
}

/* By who has stopped all its multicasts. */
static void leave(struct loco_view *v)
{
    loci_view_tell(v, LOCI_VIEW_SUSPECTED,
                   v->own[LOCI_VIEW_SUSPECTED] | loci_view_bit(v->rank));
}

static void stop(struct loco_view *v)
{
    loci_view_tell_new(v);
    /* All before one is stopped, which waits for the poller: that may be at another, and wait for
     * what members that have wedged do not send. */
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_wedge(v->multicast[k].m);
    for (int k = 0; k < loci_view_multicasts(v); k++)
        loci_mc_stop(v->multicast[k].m);
    loci_view_tell(v, LOCI_VIEW_LEFT, v->own[LOCI_VIEW_LEFT] | loci_view_bit(v->rank));
    leave(v);
    v->over = true;
}

void loci_view_end(struct loco_view *v, int status)
{
    pthread_mutex_lock(&v->lock);
    v->status = status;
    pthread_mutex_unlock(&v->lock);
    end_multicasts(v, status);
    if (v->seats.open)
        loci_view_abandon(v, status);
    loci_view_tell(v, LOCI_VIEW_ENDED, (uint64_t)-status);
    leave(v);
    v->ended = true;
    loci_view_wake(v);
    if (v->changed != NULL)
        v->changed(v->changed_arg, v->view, NULL, 0);
}

/* ---- suspicion ---- */

/* Members that the runtime has lost, and those that have said goodbye. */
static uint64_t gone(const struct loco_view *v, uint64_t *left)
{
    uint64_t found = 0;

    for (int rank = 0; rank < v->size; rank++) {
        if (!loci_view_has(loci_view_all(v), rank))
            continue;
        const struct loci_peer *peer = loci_peer(v->rt, loci_group_peer(&v->ep->group, rank));
        int state = atomic_load_explicit(&peer->state, memory_order_acquire);

        if (state != LOCI_PEER_ALIVE)
            found |= loci_view_bit(rank);
        if (state == LOCI_PEER_LEFT)
            *left |= loci_view_bit(rank);
    }
    return found;
}

/* What is known of it by now: from the runtime, and from the rows of those who are not suspected
 * themselves. */
static uint64_t suspected(const struct loco_view *v, uint64_t *left)
{
    uint64_t found = v->own[LOCI_VIEW_SUSPECTED];
    uint64_t living = v->stage == LOCI_VIEW_OUT ? ~found : loci_view_living(v);

    *left = v->own[LOCI_VIEW_LEFT];
    found |= atomic_load_explicit(&v->hinted, memory_order_relaxed) | gone(v, left);
    for (int rank = 0; rank < v->size; rank++) {
        /* Those outside are believed what they say of themselves. */
        uint64_t of = loci_view_has(living, rank) ? UINT64_MAX : loci_view_bit(rank);

        if (rank != v->rank && !loci_view_has(v->own[LOCI_VIEW_SUSPECTED], rank)) {
            found |= loci_view_see(v, rank, LOCI_VIEW_SUSPECTED) & of;
            *left |= loci_view_see(v, rank, LOCI_VIEW_LEFT) & of;
        }
    }
    return found;
}

static bool suspect_holds(struct loco_view *v)
{
    uint64_t left;

    return suspected(v, &left) != v->own[LOCI_VIEW_SUSPECTED];
}

/* From here on their rows are not looked at. */
static void suspect(struct loco_view *v)
{
    uint64_t left, found = suspected(v, &left);

    if (left != v->own[LOCI_VIEW_LEFT])
        loci_view_tell(v, LOCI_VIEW_LEFT, left);
    LOCI_LOG(v->rt, LOCO_LOG_DEBUG, "view %s: members %#llx of view %llu are gone, or suspected",
             v->ep->name, (unsigned long long)(found & v->members), (unsigned long long)v->view);
    if (v->seats.late)
        loci_view_give_up(v, found & loci_view_all(v));
    loci_view_tell(v, LOCI_VIEW_SUSPECTED, found);
}

static int count_of(uint64_t set)
{
    return __builtin_popcountll(set);
}

static bool lacks_majority(const struct loco_view *v)
{
    uint64_t living = loci_view_living(v);

    return v->needs_majority && v->stage != LOCI_VIEW_OUT
           && 2 * count_of(living) <= count_of(v->members
                                               & (living | ~v->own[LOCI_VIEW_LEFT]));
}

/* An endpoint that missed somebody when a member died connects to nobody any more: then this member
 * leaves. So does whoever it cannot tell, for that one missed it. */
static int failed_part(const struct loco_view *v)
{
    int status = atomic_load_explicit(&v->ep->failed, memory_order_acquire);

    if (status != LOCO_OK)
        return status;
    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (loci_mc_has_failed(v->multicast[k].m) != LOCO_OK)
            return loci_mc_has_failed(v->multicast[k].m);
    return LOCO_OK;
}

/* Of the last view that is known outside. Also rows of those who are gone say which that was. */
static uint64_t last_members(const struct loco_view *v)
{
    uint64_t newest = v->view, members = v->members;

    for (int rank = 0; rank < v->size; rank++) {
        uint64_t number = rank == v->rank ? 0 : loci_view_last(v, rank);

        if (number <= newest || !loci_view_is_whole(v, rank, number))
            continue;
        newest = number;
        members = loci_view_see_data(v, rank, number - 1, LOCI_VIEW_NEXT);
    }
    return members & ~loci_view_bit(v->rank);
}

/* Outside, and nobody is left that could take it in: of others that came late this process has not
 * heard, and will not. */
static bool is_alone(const struct loco_view *v)
{
    return v->stage == LOCI_VIEW_OUT
           && (last_members(v) & loci_view_all(v) & ~v->own[LOCI_VIEW_SUSPECTED]) == 0;
}

/* What has ended the view that it is outside of: those who stop say why before they leave. */
static int end_outside(const struct loco_view *v)
{
    uint64_t members = last_members(v);

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(members, rank)
            && loci_view_see(v, rank, LOCI_VIEW_ENDED) == -(uint64_t)LOCO_ERR_PARTITIONED)
            return LOCO_ERR_PARTITIONED;
    return LOCO_ERR_PEER_DEAD;
}

static bool fail_holds(struct loco_view *v)
{
    return is_alone(v) || loci_view_has(v->own[LOCI_VIEW_SUSPECTED], v->rank) || lacks_majority(v)
           || failed_part(v) != LOCO_OK;
}

static int fail_outside(struct loco_view *v)
{
    int status = end_outside(v);

    if (status == LOCO_ERR_PARTITIONED)
        LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: the members have stopped without a majority "
                 "while this process was outside", v->ep->name);
    else
        LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: all members are gone while this process was "
                 "outside", v->ep->name);
    return status;
}

static void fail(struct loco_view *v)
{
    int status = failed_part(v);

    if (loci_view_has(v->own[LOCI_VIEW_SUSPECTED], v->rank))
        LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: the others take this process for dead, and go on "
                 "without it", v->ep->name);
    else if (is_alone(v))
        status = fail_outside(v);
    else if (status == LOCO_OK)
        LOCI_LOG(v->rt, LOCO_LOG_ERROR, "view %s: %d members of %d are left, which is no majority",
                 v->ep->name, count_of(loci_view_living(v)), count_of(v->members));
    loci_view_end(v, status == LOCO_OK ? LOCO_ERR_PARTITIONED : status);
}

/* ---- the beginning of a multicast ---- */

static uint64_t mapped(struct loco_view *v)
{
    uint64_t found = v->own[LOCI_VIEW_READY];

    for (int k = 0; k < loci_view_multicasts(v); k++)
        if (!loci_view_has(found, k) && loci_mc_is_mapped(v->multicast[k].m))
            found |= loci_view_bit(k);
    return found;
}

static bool ready_holds(struct loco_view *v)
{
    return mapped(v) != v->own[LOCI_VIEW_READY];
}

static void ready(struct loco_view *v)
{
    loci_view_tell(v, LOCI_VIEW_READY, mapped(v));
}

bool loci_view_all_ready(const struct loco_view *v, int k)
{
    uint64_t all = v->seats.open ? loci_view_below(v->seats.founders) | v->members
                   : loci_view_all(v);
    uint64_t living = all & ~v->own[LOCI_VIEW_SUSPECTED];

    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(living, rank)
            && !loci_view_has(loci_view_see(v, rank, LOCI_VIEW_READY), k))
            return false;
    return true;
}

/* All who are not suspected, for those outside may come; those who came late only when they are in:
 * they do not come before this is so of them. */
static int to_be_opened(struct loco_view *v)
{
    if (v->stage != LOCI_VIEW_IN || v->resumes)
        return -1;
    for (int k = 0; k < loci_view_multicasts(v) && !loci_view_is_changing(v); k++)
        if (!v->multicast[k].open && loci_view_all_ready(v, k))
            return k;
    return -1;
}

static bool open_holds(struct loco_view *v)
{
    return to_be_opened(v) >= 0;
}

static void open(struct loco_view *v)
{
    struct loci_view_multicast *mc = &v->multicast[to_be_opened(v)];

    mc->open = true;
    loci_mc_resume(mc->m);
}

/* ---- the thread ---- */

/* Once a view has ended, who becomes known later is told, too: the first two. */
#define LAST_RULES 2

const struct loci_view_rule loci_view_rules[] = {
    { "tell", loci_view_has_untold, loci_view_tell_new },
    { "stop", must_stop, stop },
    { "suspect", suspect_holds, suspect },
    { "fail", fail_holds, fail },
    { "ready", ready_holds, ready },
    { "learn", loci_view_learn_holds, loci_view_learn },
    { "seat", loci_view_seat_holds, loci_view_seat },
    { "meet", loci_view_meet_holds, loci_view_meet },
    { "open", open_holds, open },
    { "ask", loci_view_ask_holds, loci_view_ask },
    { "enter", loci_view_enter_holds, loci_view_enter },
    { "start", loci_view_start_holds, loci_view_start_all },
    { "resume", loci_view_resume_holds, loci_view_resume },
    { "give", loci_view_give_holds, loci_view_give },
    { "take", loci_view_take_holds, loci_view_take },
    { "begin", loci_view_begin_holds, loci_view_begin },
    { "wedge", loci_view_wedge_holds, loci_view_wedge },
    { "count", loci_view_count_holds, loci_view_count },
    { "cut", loci_view_cut_holds, loci_view_cut },
    { "install", loci_view_install_holds, loci_view_install },
    { "propose", loci_view_propose_holds, loci_view_propose },
    { "echo", loci_view_echo_holds, loci_view_echo },
};
const int loci_view_rule_count = (int)(sizeof loci_view_rules / sizeof loci_view_rules[0]);

static int look(void *arg)
{
    struct loco_view *v = arg;

    int n = v->ended ? LAST_RULES : loci_view_rule_count;

    for (int i = 0; i < n; i++)
        if (loci_view_rules[i].holds(v)) {
            v->rule = &loci_view_rules[i];
            return 1;
        }
    return 0;
}

/* All who have news for it ring when these are placed. */
static void announce(void *arg, int change)
{
    (void)arg;
    (void)change;
    atomic_thread_fence(memory_order_seq_cst);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

/* Others in a change; or to map a multicast, which may not be possible at the first moment. */
static bool is_awaiting(const struct loco_view *v)
{
    int made = __builtin_popcountll(v->own[LOCI_VIEW_READY]);

    return !v->ended && (loci_view_is_changing(v) || made < loci_view_multicasts(v)
                         || (v->seats.open && (loci_view_all(v) & ~v->own[LOCI_VIEW_SUSPECTED]
                                               & ~v->own[LOCI_VIEW_MET]) != 0)
                         || v->resumes || v->stage == LOCI_VIEW_COMING
                         || v->stage == LOCI_VIEW_LOADING || loci_view_has_asked(v));
}

bool loci_view_is_self(void *arg)
{
    struct loco_view *v = arg;
    struct loci_thread *self = atomic_load_explicit(&v->self, memory_order_relaxed);

    return self != NULL && self == loci_self(v->rt);
}

void loci_view_run(void *arg)
{
    struct loco_view *v = arg;
    struct loci_reason why = {
        .what = v->ep->name, .peer = -1, .broken = whoever_dies, .kind = LOCI_WAIT_SYNC,
        .what_for = LOCI_FOR_VIEW, .announce = announce,
    };
    int64_t again = AGAIN;

    atomic_store_explicit(&v->self, loci_self(v->rt), memory_order_relaxed);
    while (!v->over) {
        why.timeout_ns = is_awaiting(v) ? again : LOCO_FOREVER;
        if (loci_wait(v->rt, &why, look, v) == LOCO_OK) {
            again = AGAIN;
            v->rule->act(v);
        } else {
            again = 2 * again < AGAIN_MOST ? 2 * again : AGAIN_MOST;
            loci_view_ring(v);
        }
    }
}

/* ---- for tests ---- */

int loci_view_suspect(struct loco_view *v, int rank)
{
    if (loci_domain_of(&v->ep->group) == LOCI_DOMAIN_CPU)
        return LOCO_ERR_STATE;
    atomic_fetch_or_explicit(&v->hinted, loci_view_bit(rank), memory_order_relaxed);
    loci_ring_self(v->rt);
    return LOCO_OK;
}
