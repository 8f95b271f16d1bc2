/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts of views: one whose members become fewer goes on.
 *
 * An epoch is the time of one view. All that a multicast has stays from one to the next: memory,
 * rings, slots that threads have reserved, the indices of senders. What begins anew are numbers.
 * All members take the same `base`, which is beyond every number that any of them has seen, for the
 * first number of the next epoch. So numbers, and places, still only grow: whatever of an earlier
 * epoch is in a slot or in a row, or is still on its way there, is less than what the epoch begins
 * with, and is looked at by nobody.
 *
 *   wedge    under the lock, as everything that gives or sees numbers: nothing is given any more,
 *            and the places that may be delivered are what they are. Threads go on to reserve and
 *            to fill slots; these are ready, and wait.
 *   given    of each sender, below which number this process has all. On one node all memory is
 *            mapped, so that is what the sender's row says, also if the sender is dead; it is final
 *            if the sender has wedged, or is dead. Else it is what has come into the copy here.
 *   cut      which numbers are delivered, of each sender (`trim`): the view has seen to it that all
 *            members have these, and that nobody has delivered others. They are delivered
 *            in order, those that are not among them are passed over, and then delivery is at the
 *            first place of the next epoch. Such a gap is kept until whoever delivers has passed
 *            it, for a program that polls seldom may be behind by several epochs.
 *   resume   this process's numbers that were cut are taken back: their slots are ready, as if they
 *            had not been given numbers yet. So the next pass gives them new ones, in their order,
 *            before those that became ready later: each is sent once, for nobody delivers it by its
 *            old number.
 *
 * Nobody has delivered what is cut. A place is delivered when all members have received it; on a
 * network their rows say so, and what a row says of a member is less than what that member says
 * when it is asked while wedged. On one node it is enough to see that the numbers were given: they
 * are in memory that all read, and all read it again after the last has wedged.
 *
 * Slots. The number of senders stays, so a place means the same in all epochs, and a member's
 * DELIVERED says what it has delivered also if it is an epoch behind. When it has delivered all of
 * that, it is the first place of the next. A slot that was taken back is written to while others
 * still deliver the epoch before: they do not look at it, its number is cut.
 *
 * Those who are out: dead, or not in the view. Their rows are not looked at, as if they had given,
 * received and delivered everything (`seen` is as large as can be); nothing is written to them.
 * Their places remain in the order, as nulls: who delivers has an empty ring for them.
 *
 * Those who come. Slots of a sender that were used while this process, or the sender, was out, are
 * not for it: it begins with the first message of the new epoch, whose slot the sender has told
 * (`start`: messages that it had sent, once what was cut was taken back). A process that comes
 * passes over all until the first place of the epoch by a gap like any other. What it has delivered
 * counts again from then on, and it is awaited: the others take it to have delivered nothing until
 * it has said otherwise.
 *
 * Who leaves, or is left out, first stops to deliver: on one node the others write to their slots
 * again when it is not awaited any more, and it reads them there.
 *
 * Posts that fail for a member is dead wedge the multicast; the view, which hears of the death,
 * does the rest. */

#include "config.h"

#include <stdlib.h>

#include "multicast.h"
#include "wait.h"

#define GAPS 16             /* that who polls may be behind */
#define EVERYTHING(m) (UINT64_MAX / 4 / (uint64_t)(m)->nsenders)    /* more than any number */

const unsigned char loci_mc_no_ring[LOCI_MC_HEADER] __attribute__((aligned(16)));

/* Between two epochs, for who delivers. */
struct loci_mc_gap {
    uint64_t from, to;          /* places: from here on some are passed over; the next epoch's
                                   first */
    uint64_t most, base;        /* no number from here on is delivered; the next epoch's first */
    uint64_t out, come;         /* ranks that are not in that one, and that were not in this one */
    uint64_t *trim;             /* by sender, */
    uint64_t *start;            /* and of those who come, messages that are not for this process */
};

struct loci_mc_epochs {
    struct loci_mc_of_view view;
    uint64_t base;              /* of the epoch after the last cut */
    uint64_t mine;              /* own numbers from this one on are to be taken back */
    _Atomic uint64_t gone;      /* ranks that are dead, as of the last cut; */
    _Atomic uint64_t out;       /* that are in no epoch after it: these, and who is outside; */
    uint64_t come;              /* that were out before */
    _Atomic uint64_t unknown;   /* those that were dead, or vacant, when it was mapped, and are not
                                   met since */
    _Atomic uint64_t cuts;      /* gaps, [number % GAPS]; release: who finds it finds them */
    _Atomic uint64_t passed;    /* of these, by who delivers */
    _Atomic uint64_t handled;   /* places before this one are done with, copies, too */
    struct loci_mc_gap gap[GAPS];
};

/* ---- life ---- */

int loci_mc_epochs_open(struct loco_multicast *m, const struct loci_multicast_tuning *tuning)
{
    struct loci_mc_epochs *e;

    if (!loci_mc_is_ordered(m) || m->size > LOCI_MC_VIEW_MEMBERS)
        return LOCO_ERR_ARG;
    e = calloc(1, sizeof *e);
    m->epochs = e;
    if (e == NULL)
        return LOCO_ERR_NO_MEMORY;
    e->view = *tuning->view;
    m->base = e->base = tuning->view->base > m->first ? tuning->view->base : m->first;
    e->mine = UINT64_MAX;
    atomic_init(&e->gone, tuning->view->gone);
    atomic_init(&e->out, tuning->view->out);
    atomic_init(&e->handled, loci_mc_place(m, m->base));
    for (int i = 0; i < GAPS; i++) {
        e->gap[i].trim = calloc((size_t)m->nsenders, sizeof *e->gap[i].trim);
        e->gap[i].start = calloc((size_t)m->nsenders, sizeof *e->gap[i].start);
        if (e->gap[i].trim == NULL || e->gap[i].start == NULL)
            return LOCO_ERR_NO_MEMORY;
    }
    atomic_init(&m->failed, LOCI_MC_WEDGED);
    return LOCO_OK;
}

void loci_mc_epochs_close(struct loco_multicast *m)
{
    for (int i = 0; m->epochs != NULL && i < GAPS; i++) {
        free(m->epochs->gap[i].trim);
        free(m->epochs->gap[i].start);
    }
    free(m->epochs);
}

/* ---- for the rest of this folder ---- */

bool loci_mc_is_views_thread(const struct loco_multicast *m)
{
    return m->epochs != NULL && m->epochs->view.is_self(m->epochs->view.ctx);
}

bool loci_mc_is_out(const struct loco_multicast *m, int rank)
{
    return (atomic_load_explicit(&m->epochs->out, memory_order_relaxed) >> rank & 1) != 0;
}

bool loci_mc_is_late(const struct loco_multicast *m)
{
    return m->epochs->view.late;
}

bool loci_mc_is_unknown(const struct loco_multicast *m, int rank)
{
    const struct loci_mc_epochs *e = m->epochs;
    uint64_t unknown = atomic_load_explicit(&m->started, memory_order_acquire)
                       ? atomic_load_explicit(&e->unknown, memory_order_relaxed)
                       : atomic_load_explicit(&e->gone, memory_order_relaxed);

    return (unknown >> rank & 1) != 0;
}

void loci_mc_note_unknown(struct loco_multicast *m)
{
    if (m->epochs != NULL)
        atomic_store_explicit(&m->epochs->unknown,
                              atomic_load_explicit(&m->epochs->gone, memory_order_relaxed),
                              memory_order_relaxed);
}

void loci_mc_tell_view(struct loco_multicast *m)
{
    if (m->epochs != NULL)
        m->epochs->view.news(m->epochs->view.ctx);
}

void loci_mc_note_handled(struct loco_multicast *m)
{
    uint64_t end = atomic_load_explicit(&m->shown_end, memory_order_relaxed);

    if (m->epochs == NULL
        || atomic_load_explicit(&m->epochs->handled, memory_order_relaxed) == end)
        return;
    atomic_store_explicit(&m->epochs->handled, end, memory_order_release);
    if (loci_mc_status(m) == LOCI_MC_WEDGED)
        loci_mc_tell_view(m);
}

int loci_mc_broken(void *arg)
{
    return loci_mc_error(*(struct loco_multicast **)arg);
}

/* Threads that wait, and the poller, look. */
static void wake(struct loco_multicast *m)
{
    if (m->polled != NULL)
        loci_polled_call(m->polled);
    loci_mc_wake_waiters(m);
}

/* ---- before a change ---- */

bool loci_mc_is_mapped(struct loco_multicast *m)
{
    bool mapped = atomic_load_explicit(&m->started, memory_order_acquire);

    if (mapped || !loci_mc_knows_all(m))
        return mapped;
    loci_mc_lock(m);
    mapped = loci_mc_start(m);
    loci_mc_unlock(m);
    /* The poller passes over nothing before, not even what was cut meanwhile. */
    if (mapped)
        wake(m);
    return mapped;
}

/* Not if it has ended. */
static void change_status(struct loco_multicast *m, int from, int to)
{
    atomic_compare_exchange_strong(&m->failed, &from, to);
}

void loci_mc_lose(struct loco_multicast *m, uint64_t gone)
{
    /* Without the lock, which the poller may have as long as others do not push: before it is
     * mapped nobody relies on it. */
    atomic_fetch_or_explicit(&m->epochs->gone, gone, memory_order_relaxed);
    for (int rank = 0; rank < m->size; rank++)
        if ((gone >> rank & 1) != 0)
            loci_endpoint_give_up(m->ep, rank);
}

bool loci_mc_meet(struct loco_multicast *m, int rank)
{
    if (!atomic_load_explicit(&m->started, memory_order_acquire))
        return false;
    if (!loci_mc_is_lost(m, rank))
        return true;
    if (!loci_endpoint_knows(m->ep, rank) || !loci_mc_map_member(m, rank))
        return false;
    /* Nobody relies on what is there before the rank is in an epoch: the view waits for this. So
     * without the lock, which the poller may have as long as others do not push. */
    atomic_fetch_and_explicit(&m->epochs->unknown, ~(UINT64_C(1) << rank), memory_order_relaxed);
    loci_mc_look_start(m);
    return true;
}

void loci_mc_abandon(struct loco_multicast *m, int status)
{
    loci_endpoint_abandon(m->ep, status);
}

void loci_mc_seat(struct loco_multicast *m, int rank, int peer)
{
    loci_endpoint_seat(m->ep, rank, peer);
}

void loci_mc_wedge(struct loco_multicast *m)
{
    /* Before the lock: who has it may be waiting for what comes only after the change. */
    change_status(m, LOCO_OK, LOCI_MC_WEDGED);
    loci_mc_lock(m);
    loci_mc_unlock(m);
}

/* COMMITTED of that member, as it can be read here now. */
static uint64_t committed_of(struct loco_multicast *m, int rank)
{
    uint64_t seen = loci_mc_seen(m, rank, LOCI_MC_COMMITTED), now;

    now = loci_load64(loci_mem_ptr(loci_mc_rows(m, m->in_place ? rank : m->rank))
                      + loci_mc_row_at(m, rank) + 8 * LOCI_MC_COMMITTED);
    return now > seen ? now : seen;
}

void loci_mc_given(struct loco_multicast *m, uint64_t *numbers)
{
    const struct loci_mc_epochs *e = m->epochs;
    bool started = atomic_load_explicit(&m->started, memory_order_acquire);

    loci_mc_lock(m);
    for (int i = 0; i < m->nsenders; i++) {
        int rank = m->sender[i].rank;
        uint64_t given = i == m->mine ? m->given
                         : started && !loci_mc_is_out(m, rank) ? committed_of(m, rank) : 0;

        numbers[i] = given > e->base ? given : e->base;
    }
    loci_mc_unlock(m);
}

/* ---- a change ---- */

uint64_t loci_mc_place(const struct loco_multicast *m, uint64_t base)
{
    return base * (uint64_t)m->nsenders;
}

int loci_mc_senders(const struct loco_multicast *m)
{
    return m->nsenders;
}

static struct loci_mc_gap *new_gap(struct loco_multicast *m, const struct loci_mc_next *next)
{
    struct loci_mc_epochs *e = m->epochs;
    uint64_t cuts = atomic_load_explicit(&e->cuts, memory_order_relaxed);
    struct loci_mc_gap *gap = &e->gap[cuts % GAPS];

    gap->from = gap->to = loci_mc_place(m, next->base);
    gap->base = next->base;
    gap->most = 0;
    gap->out = next->out;
    gap->come = next->come;
    for (int i = 0; i < m->nsenders; i++) {
        gap->trim[i] = 0;
        gap->start[i] = next->start[m->sender[i].rank];
    }
    return gap;
}

/* Under the lock: who delivers finds it, and that it may go there. */
static void show_gap(struct loco_multicast *m, const struct loci_mc_next *next)
{
    struct loci_mc_epochs *e = m->epochs;

    e->base = next->base;
    e->come = next->come;
    /* What is known of them is not of this epoch, also if it ends before it begins here. */
    for (int rank = 0; rank < m->size; rank++)
        if ((next->come >> rank & 1) != 0)
            loci_mc_see(m, rank, LOCI_MC_COMMITTED, next->base);
    atomic_store_explicit(&e->gone, next->gone, memory_order_relaxed);
    atomic_store_explicit(&e->out, next->out, memory_order_relaxed);
    atomic_store_explicit(&e->cuts, atomic_load_explicit(&e->cuts, memory_order_relaxed) + 1,
                          memory_order_release);
    /* Release: who finds that these places may be delivered finds the gap before them. */
    atomic_store_explicit(&m->deliverable, loci_mc_place(m, next->base), memory_order_release);
}

static void set_trim(struct loco_multicast *m, struct loci_mc_gap *gap, const uint64_t *trim)
{
    for (int i = 0; i < m->nsenders; i++) {
        uint64_t from = loci_mc_place(m, trim[i]) + (uint64_t)i;

        gap->trim[i] = trim[i];
        gap->most = trim[i] > gap->most ? trim[i] : gap->most;
        /* Of those who were gone before there is nothing to be passed over. */
        if (from < gap->from && !loci_mc_is_out(m, m->sender[i].rank))
            gap->from = from;
    }
}

void loci_mc_cut(struct loco_multicast *m, const uint64_t *trim, const struct loci_mc_next *next)
{
    struct loci_mc_epochs *e = m->epochs;

    loci_mc_lock(m);
    set_trim(m, new_gap(m, next), trim);
    if (m->mine >= 0 && trim[m->mine] < e->mine)
        e->mine = trim[m->mine];
    show_gap(m, next);
    loci_mc_unlock(m);
    wake(m);
}

/* Of all before nothing is delivered here, but what was to be before this process left. */
void loci_mc_enter(struct loco_multicast *m, const struct loci_mc_next *next)
{
    loci_mc_lock(m);
    new_gap(m, next)->from = loci_mc_place(m, m->epochs->base);
    show_gap(m, next);
    loci_mc_unlock(m);
    wake(m);
}

bool loci_mc_has_room(const struct loco_multicast *m)
{
    const struct loci_mc_epochs *e = m->epochs;

    return atomic_load_explicit(&e->cuts, memory_order_relaxed)
           - atomic_load_explicit(&e->passed, memory_order_acquire) < GAPS;
}

bool loci_mc_has_passed(const struct loco_multicast *m)
{
    return !atomic_load_explicit(&m->started, memory_order_acquire)
           || atomic_load_explicit(&m->epochs->handled, memory_order_acquire)
              >= loci_mc_place(m, m->epochs->base);
}

bool loci_mc_is_drained(const struct loco_multicast *m)
{
    /* Where it has not been mapped nobody has begun. Acquire: what the handler did has happened. */
    return m->handler == NULL || !atomic_load_explicit(&m->started, memory_order_acquire)
           || atomic_load_explicit(&m->epochs->handled, memory_order_acquire)
              >= loci_mc_place(m, m->epochs->base);
}

/* ---- the next epoch ---- */

static uint64_t *slot_of(const struct loco_multicast *m, uint64_t count)
{
    return (uint64_t *)(void *)(m->own + (count - m->first) % m->slots * m->stride);
}

/* Those behind it in the ring are taken back before it is. */
static void take_back(struct loco_multicast *m)
{
    uint64_t committed = atomic_load_explicit(&m->committed, memory_order_relaxed);
    uint64_t stable = atomic_load_explicit(&m->stable, memory_order_relaxed), n = 0;

    for (; committed > stable; committed--, n++) {
        const uint64_t *slot = slot_of(m, committed - 1);

        if (loci_load64(slot) - 1 < m->epochs->mine)
            break;
        atomic_store_explicit(&m->ready[(committed - 1 - m->first) % m->slots],
                              loci_mc_ready(committed - 1) | (loci_load64(slot + 1) & 0xffffffff),
                              memory_order_release);
    }
    m->epochs->mine = UINT64_MAX;
    loci_mc_count(&m->counts.sent, -n);
    m->committed_at = (committed - m->first) % m->slots;
    m->posted = m->done = m->posts[0].messages = m->posts[1].messages = committed;
    atomic_store_explicit(&m->committed, committed, memory_order_release);
}

/* What is known of that member. What it has delivered is what it says, or who comes will say; of
 * what this one has, a post that failed for somebody was not told to others, and who comes was not
 * told: that is told again. */
static void see_again(struct loco_multicast *m, int rank)
{
    bool gone = loci_mc_is_out(m, rank);
    uint64_t all = EVERYTHING(m);

    loci_mc_see(m, rank, LOCI_MC_COMMITTED, gone ? all : m->base);
    loci_mc_see(m, rank, LOCI_MC_LAST, m->base);
    loci_mc_see(m, rank, LOCI_MC_RECEIVED, loci_mc_place(m, gone ? all : m->base));
    if (gone)
        loci_mc_see(m, rank, LOCI_MC_DELIVERED, loci_mc_place(m, all));
    else if (rank == m->rank || (m->epochs->come >> rank & 1) != 0)
        loci_mc_see(m, rank, LOCI_MC_DELIVERED, 0);
}

static void begin(struct loco_multicast *m)
{
    m->base = m->epochs->base;
    m->given = m->last = m->target = m->planned = m->base;
    m->silent = true;
    for (int rank = 0; rank < m->size; rank++)
        see_again(m, rank);
    atomic_store_explicit(&m->half, true, memory_order_relaxed);
}

uint64_t loci_mc_take_back(struct loco_multicast *m)
{
    uint64_t committed;

    loci_mc_lock(m);
    /* Nothing of this process's is read by the network any more. Who is dead has no say in it. */
    if (!m->in_place)
        (void)loci_mc_finish(m);
    if (m->mine >= 0)
        take_back(m);
    committed = atomic_load_explicit(&m->committed, memory_order_relaxed);
    loci_mc_unlock(m);
    return committed;
}

void loci_mc_resume(struct loco_multicast *m)
{
    (void)loci_mc_take_back(m);
    loci_mc_lock(m);
    begin(m);
    change_status(m, LOCI_MC_WEDGED, LOCO_OK);
    loci_mc_unlock(m);
    wake(m);
    if (m->in_place || m->polled == NULL)
        loci_mc_advance(m, true);
}

void loci_mc_end(struct loco_multicast *m, int status)
{
    unsigned rounds = 0;

    change_status(m, LOCO_OK, status);
    change_status(m, LOCI_MC_WEDGED, status);
    /* Who was at it is not any more; nor is the handler. */
    loci_mc_lock(m);
    loci_mc_unlock(m);
    if (m->polled != NULL) {
        while (!loci_polled_claim(m->polled))
            loci_wait_round(m->rt, &rounds);
        loci_polled_free(m->polled);
    }
    wake(m);
}

void loci_mc_stop(struct loco_multicast *m)
{
    loci_mc_wedge(m);
    loci_poller_remove(m->polled);
    m->polled = NULL;
}

int loci_mc_has_failed(const struct loco_multicast *m)
{
    int status = loci_mc_error(m);

    return status != LOCO_OK ? status
                             : atomic_load_explicit(&m->ep->failed, memory_order_acquire);
}

/* ---- delivery ---- */

/* Places within the gap. */
static int collect_rest(struct loco_multicast *m, const struct loci_mc_gap *gap,
                        loco_delivery_t *messages, int max)
{
    uint64_t at = atomic_load_explicit(&m->shown, memory_order_relaxed);
    int n = 0;

    while (at < gap->to && n < max) {
        struct loci_mc_sender *s = &m->sender[m->turn];

        if (m->round >= gap->most) {
            at = gap->to;
            break;
        }
        if (m->round < gap->trim[m->turn] && loci_mc_take(m, s, m->round, &messages[n]))
            messages[n++].number = at;
        at++;
        if (++m->turn == m->nsenders) {
            m->turn = 0;
            m->round++;
        }
    }
    atomic_store_explicit(&m->shown, at, memory_order_relaxed);
    if (n > 0)
        atomic_store_explicit(&m->shown_end, messages[n - 1].number + 1, memory_order_relaxed);
    return n;
}

/* Delivery is at the first place of the next epoch; as soon as what has been handed out counts as
 * delivered, this member has delivered all before. */
static void pass_gap(struct loco_multicast *m, const struct loci_mc_gap *gap)
{
    m->round = gap->base;
    m->turn = 0;
    for (int i = 0; i < m->nsenders; i++) {
        struct loci_mc_sender *s = &m->sender[i];

        if ((gap->out >> s->rank & 1) != 0) {
            s->ring = loci_mc_no_ring;
            s->at = 0;
        } else if ((gap->come >> s->rank & 1) != 0) {
            s->ring = loci_mc_ring_of(m, i);
            s->at = (gap->start[i] - m->first) % m->slots;
        }
    }
    atomic_store_explicit(&m->shown_end, gap->to, memory_order_relaxed);
    /* Release: who writes to this gap again does so after it was read. */
    atomic_fetch_add_explicit(&m->epochs->passed, 1, memory_order_release);
}

/* The next gap, if any. */
static const struct loci_mc_gap *next_gap(const struct loco_multicast *m)
{
    const struct loci_mc_epochs *e = m->epochs;
    uint64_t passed = atomic_load_explicit(&e->passed, memory_order_relaxed);

    /* Acquire: pairs with the release of loci_mc_cut(). */
    return passed < atomic_load_explicit(&e->cuts, memory_order_acquire)
           ? &e->gap[passed % GAPS] : NULL;
}

int loci_mc_collect_epochs(struct loco_multicast *m, loco_delivery_t *messages, int max)
{
    /* Acquire: pairs with the release of who said that these places may be delivered. Read first:
     * it is not beyond a gap that is not found. */
    uint64_t end = atomic_load_explicit(&m->deliverable, memory_order_acquire);
    const struct loci_mc_gap *gap;
    bool passed = false;
    int n = 0;

    while ((gap = next_gap(m)) != NULL && gap->to <= end) {
        n += loci_mc_collect_range(m, gap->from, messages + n, max - n);
        if (atomic_load_explicit(&m->shown, memory_order_relaxed) < gap->from)
            break;
        n += collect_rest(m, gap, messages + n, max - n);
        if (atomic_load_explicit(&m->shown, memory_order_relaxed) < gap->to)
            break;
        pass_gap(m, gap);
        passed = true;
    }
    if (gap == NULL || gap->to > end)
        n += loci_mc_collect_range(m, end, messages + n, max - n);
    /* Nothing is handed out that would have to count as delivered first. */
    if (passed && n == 0) {
        loci_mc_release(m);
        loci_mc_note_handled(m);
    }
    return n;
}
