/* SPDX-License-Identifier: BSD-3-Clause */

/* Active target: fence, post/start/complete/wait, and the barrier of a window.
 *
 * All of it is counters in the control blocks, each written by one process only and never less
 * than before:
 *
 *   arrived[i]     in every member's block; up to LOCI_WINDOW_FLAT members: by member i, how many
 *                  barriers it has entered. Above: by the member 2^i before, the same, once it
 *                  has heard of 2^i members (dissemination: Hensgen, Finkel, Manber 1988).
 *                  Where all members have mapped all blocks, a fence is met in rank 0's alone
 *                  (meets_at_first)
 *   posted[j]      in an origin's block, by target j: its posts that named this origin
 *   completed[i]   in a target's block, by origin i: its completes towards this target
 *
 * What they are compared with is private. A counter is written after what it tells of: with
 * release where memory is mapped, else after a fence, or by an atomic that is the fence itself
 * (struct ordered). A fence need not place the counters themselves: the next goes the same way
 * (take_turn). A waiter polls its own block only, or one that it has mapped.
 *
 * A member that stops leaves its counters behind: who waits for them gets LOCO_ERR_PEER_DEAD, and
 * so does who waits for another that may have been told of the death and given up. In
 * dissemination nobody can tell whether one that has gone is missed: it may have come to its end
 * and left. But then all have arrived, and what they still tell each other comes at once; so
 * waiting goes on for loci_grace(). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "wait.h"
#include "window.h"

#define LAST_ROUND (UINT64_MAX / 2) /* destroy's: beyond any fence's */
#define BURST 8     /* looks at a counter each time a wait asks: a round of waiting takes longer
                       than a neighbour's answer. Where ranks outnumber cores it is lost */

/* Whether a counter in mapped memory has come to `least`, looking more than once. Who looks without
 * a pause keeps taking the cache line from who is about to write to it: of two that meet, the first
 * would hold up the second. */
static bool has_come(const unsigned char *counter, uint64_t least)
{
    for (int looks = 0; looks < BURST; looks++) {
        if (loci_load64(counter) >= least)
            return true;
        loci_cpu_relax();
    }
    return false;
}

static int count_at(struct loco_window *win, int rank, uint64_t offset, uint64_t count,
                    loco_ack_t *sent)
{
    int status = loci_tell64(win->rt, &win->control[rank], offset, count, sent);

    loci_signal(win->rt, win->group.peer[rank], LOCI_BELL_WINDOW);
    return status;
}

/* Nobody waits for `sent` but who is about to leave. What this thread has lost on its way to that
 * member is an error of its own, told here if it was not before; the member, which is alive, waits
 * for the counter all the same. */
static int tell(struct loco_window *win, int rank, uint64_t offset, uint64_t count,
                loco_ack_t *sent)
{
    int status = count_at(win, rank, offset, count, sent), again;

    if (status >= 0 || status == LOCO_ERR_PEER_DEAD)
        return status;
    loci_fence_peer(win->rt, LOCO_FENCE_THREAD, win->group.peer[rank]);
    again = count_at(win, rank, offset, count, sent);
    return again == LOCO_ERR_PEER_DEAD ? again : status;
}

/* Threads write by lanes of their own, so of two rounds of one counter that two of them wrote the
 * older might land last: what the thread before has written is placed first. `last`: who wrote
 * these counters last. Where placing fails a peer is dead; at others it is done all the same. */
static void take_turn(struct loco_window *win, struct loci_thread **last)
{
    struct loci_thread *self, *before = *last;

    if (win->synchronous)
        return;
    self = loci_self(win->rt);
    *last = self;
    if (before != NULL && before != self)
        loci_fence_peer(win->rt, LOCO_FENCE_PROCESS, -1);
}

/* A fence and then a counter is one operation after the other. Where all that the fence would place
 * is on its way to the member that is told, on one lane, an atomic that counts there is both: it is
 * executed after that, and has placed it when it is acknowledged. Nobody but that member learns of
 * it by what it is told: it is the one target, or the one other member (what is put in one's own
 * part is a copy). */
struct ordered {
    int rank;                   /* told so, or -1: a fence was made */
    uint64_t offset;            /* of the counter */
    uint64_t old;
    loco_ack_t ack;
};

/* A fence of this process towards that member, or this instead. The counter at `offset` there is
 * one less than it is to become. */
static int order_or_fence(struct loco_window *win, int rank, uint64_t offset, struct ordered *o)
{
    int status;

    if (!loci_can_order(win->rt, &win->control[rank]))
        return loci_fence_data(win->rt, win->group.peer[rank], NULL);
    status = loci_add(win->rt, &win->control[rank], offset, 1, &o->old, &o->ack);
    if (status < 0)     /* a fence says whether that was for what is lost, which is told by it */
        return loci_fence_data(win->rt, win->group.peer[rank], NULL);
    o->rank = rank;
    o->offset = offset;
    return status;
}

/* The counter is `count` now. Where the atomic was flushed behind what the peer refused, this
 * member fails, but the others do not wait for it. Before this one waits for them: it may be the
 * same with each of two. */
static int ordered_done(struct loco_window *win, struct ordered *o, uint64_t count, int status)
{
    int done = o->rank < 0 ? LOCO_OK : loco_ack_wait(win->rt, &o->ack);

    if (done != LOCO_OK && done != LOCO_ERR_PEER_DEAD) {
        loco_ack_t sent = LOCO_ACK_INIT;

        tell(win, o->rank, o->offset, count, &sent);
    }
    return status == LOCO_OK ? done : status;
}

static bool is_dead(const struct loco_window *win, int rank)
{
    return !loci_peer_alive(win->rt, win->group.peer[rank]);
}

/* ---- barrier ---- */

struct barrier_wait {
    struct loco_window *win;
    const unsigned char *arrived;   /* the counters that are looked at */
    int next;                   /* counters before this one have arrived */
    bool missing;               /* one of the dead had not */
    int64_t gone_since;         /* dissemination: a member has gone; 0: none */
};

static int all_arrived(void *arg)
{
    struct barrier_wait *wait = arg;
    struct loco_window *win = wait->win;

    while (wait->next < win->group.size) {
        if (!has_come(wait->arrived + 8 * (size_t)wait->next, win->round))
            return 0;
        wait->next++;
    }
    return 1;
}

/* Somebody is missing, and this one or another is dead: who is missing may have been told of it,
 * and does not come. */
static int check_all_alive(const struct loco_window *win)
{
    for (int i = 0; i < win->group.size; i++)
        if (is_dead(win, i))
            return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

static int any_is_dead(void *arg)
{
    return check_all_alive(((const struct barrier_wait *)arg)->win);
}

/* The same without the dead. A peer's death is read before its counter, so that one which
 * arrived and then ended counts as arrived. */
static int survivors_arrived(void *arg)
{
    struct barrier_wait *wait = arg;
    struct loco_window *win = wait->win;

    while (wait->next < win->group.size) {
        bool dead = is_dead(win, wait->next);

        if (loci_load64(wait->arrived + 8 * (size_t)wait->next) < win->round) {
            if (!dead)
                return 0;
            wait->missing = true;
        }
        wait->next++;
    }
    return 1;
}

static int no_need(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

/* Where all counters that a fence needs are in one cache line, of 9 members and more in two,
 * members that meet move that line only, and with a line each all of them.
 * Whoever leaves takes its block along, so the last barrier is met in everybody's own: rank 0 comes
 * to it after all have left the fence. */
static bool meets_at_first(const struct loco_window *win, enum loci_barrier who)
{
    return who == LOCI_BARRIER_ALL && win->synchronous && win->mapped_by_all;
}

/* Tell those who look that this member has arrived; all, whatever becomes of one of them. `told`:
 * one that knows already, or -1. */
static int tell_members(struct loco_window *win, enum loci_barrier who, int told, loco_ack_t *sent)
{
    int status = LOCO_OK, one;

    for (int i = 0; i < win->group.size; i++) {
        if (i == told)
            continue;
        one = tell(win, i, loci_window_arrived(win->group.rank), win->round, sent);
        if (one == LOCO_ERR_PEER_DEAD && who != LOCI_BARRIER_ALL)
            one = LOCO_OK;
        status = status == LOCO_OK ? one : status;
    }
    return status;
}

/* `at`: where the counters are, if those who write them do not signal this member for it. */
static int wait_for_members(struct barrier_wait *wait, enum loci_barrier who,
                            const struct loci_mem *at)
{
    bool all = who == LOCI_BARRIER_ALL;
    const struct loci_reason why = {
        .what = "the members of a window", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .broken = all ? any_is_dead : no_need,
        .kind = LOCI_WAIT_SYNC, .bell = LOCI_BELL_WINDOW, .watched = at,
    };

    return loci_wait(wait->win->rt, &why, all ? all_arrived : survivors_arrived, wait);
}

static int meet_at_first(struct loco_window *win)
{
    struct barrier_wait wait = {
        .win = win, .arrived = win->target[0].control + loci_window_arrived(0),
    };

    int status = LOCO_OK;

    loci_write64(win->rt, &win->control[0], loci_window_arrived(win->group.rank), win->round,
                 NULL);
    /* Most often all come within this look. */
    if (!all_arrived(&wait))
        status = wait_for_members(&wait, LOCI_BARRIER_ALL, &win->control[0]);
    /* The last to come finds all there: whoever does wakes those who sleep. */
    loci_signal_watchers(win->rt, win->group.peer[0], &win->group, LOCI_BELL_WINDOW);
    return status;
}

static int flat_barrier(struct loco_window *win, enum loci_barrier who, int told)
{
    struct barrier_wait wait = {
        .win = win, .arrived = loci_mem_ptr(&win->own_control) + loci_window_arrived(0),
    };
    loco_ack_t sent = LOCO_ACK_INIT;
    int lost = tell_members(win, who, told, &sent), status;

    if (lost == LOCO_ERR_PEER_DEAD)
        return lost;
    status = wait_for_members(&wait, who, NULL);
    status = status == LOCO_OK ? lost : status;
    if (who != LOCI_BARRIER_ALL)
        loco_ack_wait(win->rt, &sent);
    return status == LOCO_OK && wait.missing ? LOCO_ERR_PEER_DEAD : status;
}

static bool any_gone(const struct loco_window *win)
{
    for (int i = 0; i < win->group.size; i++)
        if (is_dead(win, i))
            return true;
    return false;
}

static int heard(void *arg)
{
    struct barrier_wait *wait = arg;
    struct loco_window *win = wait->win;
    int64_t now;

    if (has_come(wait->arrived + 8 * (size_t)wait->next, win->round))
        return 1;
    if (atomic_load_explicit(&win->rt->deaths, memory_order_acquire) == 0 || !any_gone(win))
        return 0;
    now = loci_now(win->rt);
    if (wait->gone_since == 0)
        wait->gone_since = now;
    return now - wait->gone_since > loci_grace(win->rt) ? LOCO_ERR_PEER_DEAD : 0;
}

static int dissemination_barrier(struct loco_window *win, enum loci_barrier who)
{
    const struct loci_reason why = {
        .what = "the members of a window", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_SYNC, .bell = LOCI_BELL_WINDOW,
    };
    struct barrier_wait wait = {
        .win = win, .arrived = loci_mem_ptr(&win->own_control) + loci_window_arrived(0),
    };
    loco_ack_t sent = LOCO_ACK_INIT;
    int n = win->group.size, status = LOCO_OK, lost = LOCO_OK;

    for (int64_t step = 1; status == LOCO_OK && step < n; step *= 2, wait.next++) {
        int told = tell(win, (int)((win->group.rank + step) % n), loci_window_arrived(wait.next),
                        win->round, &sent);

        lost = lost == LOCO_OK && told < 0 ? told : lost;
        if (told != LOCO_ERR_PEER_DEAD)
            status = loci_wait(win->rt, &why, heard, &wait);
        else
            status = told;
    }
    if (who != LOCI_BARRIER_ALL)
        loco_ack_wait(win->rt, &sent);
    return status == LOCO_OK ? lost : status;
}

static int meet(struct loco_window *win, enum loci_barrier who, int told)
{
    /* Survivors of a death may have been in different numbers of fences when they meet again. */
    win->round = who == LOCI_BARRIER_ALL ? win->round + 1 : LAST_ROUND;
    if (win->group.size <= LOCI_WINDOW_FLAT)
        return meets_at_first(win, who) ? meet_at_first(win) : flat_barrier(win, who, told);
    return dissemination_barrier(win, who);
}

int loci_window_barrier(struct loco_window *win, enum loci_barrier who)
{
    take_turn(win, &win->arriver);
    return meet(win, who, -1);
}

/* ---- fence ---- */

/* Towards the member `rank`, or all (-1): what is written is placed, and what is read is here, or
 * those who are told then might write there. */
static int finish_epoch(struct loco_window *win, int rank, uint64_t offset, struct ordered *o)
{
    int read, placed;

    if (win->synchronous)
        return LOCO_OK;
    read = loci_finish_reads(win->rt, rank < 0 ? -1 : win->group.peer[rank], &win->group);
    placed = rank < 0 ? loci_fence_data(win->rt, -1, &win->group)
                      : order_or_fence(win, rank, offset, o);
    return placed != LOCO_OK ? placed : read;
}

static int finish_fence_epoch(struct loco_window *win, struct ordered *o)
{
    int other = win->group.size == 2 ? 1 - win->group.rank : -1;

    return finish_epoch(win, other, loci_window_arrived(win->group.rank), o);
}

int loco_window_fence(loco_window_t *win, int asserts)
{
    const int idle = LOCO_ASSERT_NOPRECEDE | LOCO_ASSERT_NOSUCCEED;
    uint64_t next = (asserts & LOCO_ASSERT_NOSUCCEED) != 0 ? 0 : LOCI_EPOCH_FENCE;
    struct ordered ordered = { .rank = -1, .ack = LOCO_ACK_INIT };
    int status, placed = LOCO_OK, met = LOCO_OK;

    /* The epoch ends here: between its end and the barrier's, nothing may be accessed. */
    if (loci_window_change(win, LOCI_EPOCH_PASSIVE | LOCI_EPOCH_BUSY | LOCI_EPOCH_START
                                | LOCI_EPOCH_EXPOSED | LOCI_EPOCH_LOCKS, 0,
                           LOCI_EPOCH_ACCESS | LOCI_EPOCH_FENCE, 0) != LOCO_OK)
        return LOCO_ERR_STATE;
    status = loci_window_settle_to_meet(win);
    take_turn(win, &win->arriver);
    if ((asserts & LOCO_ASSERT_NOPRECEDE) == 0)
        placed = finish_fence_epoch(win, &ordered);
    status = status == LOCO_OK ? placed : status;
    status = ordered_done(win, &ordered, win->round + 1, status);
    /* Neither an end nor a beginning of anybody's epoch: nothing to meet for. */
    if ((asserts & idle) != idle)
        met = meet(win, LOCI_BARRIER_ALL, ordered.rank);
    loci_window_change(win, 0, 0, 0, next);
    return status == LOCO_OK ? met : status;
}

/* ---- post, start, complete, wait ---- */

struct loci_pscw {
    int origins, targets;       /* of the open exposure and access epochs */
    unsigned tests;             /* in vain since an exposure epoch ended */
    _Atomic bool broken;        /* a wait was: what came, and what was waited for, differ since */
    int *origin, *target;       /* their ranks */
    uint64_t *posts;            /* by origin: posts of this process */
    uint64_t *starts;           /* by target: its posts that were waited for */
    uint64_t *completes;        /* by target: completes of this process */
    uint64_t *waits;            /* by origin: its completes that were waited for */
    struct loci_thread *poster, *completer;     /* the threads that wrote the last of them */
};

/* The state of this window's active targets, made when first asked for; NULL without memory. */
static struct loci_pscw *pscw_of(struct loco_window *win)
{
    struct loci_pscw *p = atomic_load_explicit(&win->pscw, memory_order_acquire), *first = NULL;
    size_t n = (size_t)win->group.size;

    if (p != NULL)
        return p;
    p = calloc(1, sizeof *p + 4 * n * sizeof(uint64_t) + 2 * n * sizeof(int));
    if (p == NULL)
        return NULL;
    p->posts = (uint64_t *)(p + 1);
    p->starts = p->posts + n;
    p->completes = p->starts + n;
    p->waits = p->completes + n;
    p->origin = (int *)(p->waits + n);
    p->target = p->origin + n;
    if (atomic_compare_exchange_strong_explicit(&win->pscw, &first, p, memory_order_acq_rel,
                                                memory_order_acquire))
        return p;
    free(p);
    return first;
}

void loci_window_pscw_free(struct loco_window *win)
{
    free(atomic_load_explicit(&win->pscw, memory_order_relaxed));
}

static int check_ranks(const struct loco_window *win, int n, const int *ranks)
{
    if (n < 0 || n > win->group.size)
        return LOCO_ERR_ARG;
    for (int i = 0; i < n; i++)
        if (!loci_window_has(win, ranks[i]))
            return LOCO_ERR_ARG;
    return LOCO_OK;
}

/* After a wait that a death broke, a post or complete that comes late would be taken for the next
 * epoch's. There is none: as with a fence, who has lost a member has lost these epochs. */
static void break_up(struct loci_pscw *p)
{
    atomic_store_explicit(&p->broken, true, memory_order_relaxed);
}

static bool is_broken(const struct loci_pscw *p)
{
    return atomic_load_explicit(&p->broken, memory_order_relaxed);
}

int loco_window_post(loco_window_t *win, int n, const int *ranks, int asserts)
{
    int status = check_ranks(win, n, ranks);
    struct loci_pscw *p = pscw_of(win);
    loco_ack_t sent = LOCO_ACK_INIT;

    /* A start that waits for nobody still counts the post: NOCHECK saves nothing here. */
    (void)asserts;
    if (status != LOCO_OK || p == NULL)
        return status != LOCO_OK ? status : LOCO_ERR_NO_MEMORY;
    if (is_broken(p))
        return LOCO_ERR_PEER_DEAD;
    if (loci_window_change(win, LOCI_EPOCH_ACCESS | LOCI_EPOCH_BUSY | LOCI_EPOCH_EXPOSED, 0,
                           LOCI_EPOCH_FENCE, LOCI_EPOCH_EXPOSED) != LOCO_OK)
        return LOCO_ERR_STATE;
    p->origins = n;
    if (n > 0)
        memcpy(p->origin, ranks, (size_t)n * sizeof ranks[0]);
    status = loci_window_settle(win);
    take_turn(win, &p->poster);
    for (int i = 0; i < n; i++) {
        int told = tell(win, ranks[i], loci_window_posted(win->group.rank),
                        ++p->posts[ranks[i]], &sent);

        status = status == LOCO_OK ? told : status;
    }
    return status;
}

/* Waiting for one counter of each of n members. */
struct count_wait {
    struct loco_window *win;
    int n, next;
    const int *ranks;
    const uint64_t *seen;       /* by rank: the counter is beyond this */
    bool completed;             /* completed[], else posted[] */
};

static bool has_counted(const struct count_wait *wait, int i)
{
    int rank = wait->ranks[i];
    uint64_t offset = wait->completed ? loci_window_completed(wait->win, rank)
                                      : loci_window_posted(rank);

    return has_come(loci_mem_ptr(&wait->win->own_control) + offset, wait->seen[rank] + 1);
}

static int all_counted(void *arg)
{
    struct count_wait *wait = arg;

    while (wait->next < wait->n) {
        if (!has_counted(wait, wait->next))
            return 0;
        wait->next++;
    }
    return 1;
}

static int no_count_comes(void *arg)
{
    return check_all_alive(((const struct count_wait *)arg)->win);
}

static int wait_for_counts(struct count_wait *wait, const char *what)
{
    const struct loci_reason why = {
        .what = what, .peer = -1, .broken = no_count_comes, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_SYNC, .bell = LOCI_BELL_WINDOW,
    };

    return loci_wait(wait->win->rt, &why, all_counted, wait);
}

int loco_window_start(loco_window_t *win, int n, const int *ranks, int asserts)
{
    int status = check_ranks(win, n, ranks);
    struct loci_pscw *p = pscw_of(win);
    struct count_wait wait = { win, n, 0, ranks, p != NULL ? p->starts : NULL, false };

    if (status != LOCO_OK || p == NULL)
        return status != LOCO_OK ? status : LOCO_ERR_NO_MEMORY;
    if (is_broken(p))
        return LOCO_ERR_PEER_DEAD;
    if (loci_window_change(win, LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE | LOCI_EPOCH_BUSY
                                | LOCI_EPOCH_START | LOCI_EPOCH_LOCKS, 0,
                           LOCI_EPOCH_FENCE, LOCI_EPOCH_START) != LOCO_OK)
        return LOCO_ERR_STATE;
    if ((asserts & LOCO_ASSERT_NOCHECK) == 0)
        status = wait_for_counts(&wait, "the posts of a window's members");
    if (status != LOCO_OK) {
        break_up(p);
        loci_window_change(win, 0, 0, LOCI_EPOCH_START, 0);
        return status;
    }
    p->targets = n;
    if (n > 0)
        memcpy(p->target, ranks, (size_t)n * sizeof ranks[0]);
    for (int i = 0; i < n; i++) {
        p->starts[ranks[i]]++;
        atomic_store_explicit(&win->target[ranks[i]].epoch,
                              LOCI_EPOCH_ACCESS | LOCI_EPOCH_START, memory_order_release);
    }
    return LOCO_OK;
}

int loco_window_complete(loco_window_t *win)
{
    struct loci_pscw *p = atomic_load_explicit(&win->pscw, memory_order_acquire);
    struct ordered ordered = { .rank = -1, .ack = LOCO_ACK_INIT };
    uint64_t completed = loci_window_completed(win, win->group.rank);
    loco_ack_t sent = LOCO_ACK_INIT;
    int status, placed;

    if ((atomic_load_explicit(&win->state, memory_order_relaxed) & LOCI_EPOCH_START) == 0)
        return LOCO_ERR_STATE;
    status = loci_window_settle(win);
    for (int i = 0; i < p->targets; i++)
        atomic_store_explicit(&win->target[p->target[i]].epoch, 0, memory_order_release);
    take_turn(win, &p->completer);
    placed = finish_epoch(win, p->targets == 1 ? p->target[0] : -1, completed, &ordered);
    status = status == LOCO_OK ? placed : status;
    for (int i = 0; i < p->targets; i++) {
        int rank = p->target[i], told = LOCO_OK;

        p->completes[rank]++;
        if (rank != ordered.rank)
            told = tell(win, rank, completed, p->completes[rank], &sent);
        status = status == LOCO_OK ? told : status;
    }
    if (ordered.rank >= 0)
        status = ordered_done(win, &ordered, p->completes[ordered.rank], status);
    loci_window_change(win, 0, 0, LOCI_EPOCH_START, 0);
    return status;
}

static void end_exposure(struct loco_window *win, struct loci_pscw *p)
{
    for (int i = 0; i < p->origins; i++)
        p->waits[p->origin[i]]++;
    p->tests = 0;
    loci_window_change(win, 0, 0, LOCI_EPOCH_EXPOSED, 0);
}

int loco_window_wait(loco_window_t *win)
{
    struct loci_pscw *p = atomic_load_explicit(&win->pscw, memory_order_acquire);
    struct count_wait wait;
    int status, sent;

    if ((atomic_load_explicit(&win->state, memory_order_relaxed) & LOCI_EPOCH_EXPOSED) == 0)
        return LOCO_ERR_STATE;
    wait = (struct count_wait){ win, p->origins, 0, p->origin, p->waits, true };
    sent = loci_window_settle(win);
    status = wait_for_counts(&wait, "the completes of a window's members");
    if (status != LOCO_OK)
        break_up(p);
    end_exposure(win, p);
    return status == LOCO_OK ? sent : status;
}

int loco_window_test(loco_window_t *win, bool *done)
{
    struct loci_pscw *p = atomic_load_explicit(&win->pscw, memory_order_acquire);
    struct count_wait wait;
    int status;

    if ((atomic_load_explicit(&win->state, memory_order_relaxed) & LOCI_EPOCH_EXPOSED) == 0)
        return LOCO_ERR_STATE;
    /* What cannot be sent is told, and the exposure epoch goes on. */
    status = loci_window_settle(win);
    if (status != LOCO_OK)
        return status;
    wait = (struct count_wait){ win, p->origins, 0, p->origin, p->waits, true };
    if (all_counted(&wait)) {
        end_exposure(win, p);
        *done = true;
        return LOCO_OK;
    }
    status = no_count_comes(&wait);
    if (status != LOCO_OK) {
        break_up(p);
        end_exposure(win, p);
        return status;
    }
    /* Who tests in a loop must not keep the core from those that it waits for. */
    loci_wait_round(win->rt, &p->tests);
    *done = false;
    return LOCO_OK;
}
