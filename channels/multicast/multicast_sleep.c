/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: how members sleep, and threads of theirs. See multicast.c. */

#include "config.h"

#include "move/bell.h"
#include "multicast.h"
#include "wait.h"

static bool is_alive(const struct loco_multicast *m, int rank)
{
    return !loci_mc_is_gone(m, rank)
           && loci_peer_alive(m->rt, loci_group_peer(&m->ep->group, rank));
}

/* ---- telling the others ---- */

/* This process's word, at all who look at it. */
static int say(struct loco_multicast *m, uint64_t word)
{
    uint64_t at = loci_mc_asleep_at(m, m->rank);
    int status = LOCO_OK;

    word |= m->fences ? LOCI_MC_FENCES : 0;
    loci_store64(loci_mem_ptr(loci_mc_rows(m, m->rank)) + at, word);
    atomic_thread_fence(memory_order_seq_cst);
    if (m->in_place || !atomic_load_explicit(&m->started, memory_order_acquire))
        return LOCO_OK;
    status = loci_mc_take_posting(m);
    for (int i = 0; i < m->areas && status == LOCO_OK; i++)
        if (is_alive(m, m->area[i].rank))
            status = loci_write64(m->rt, loci_mc_rows(m, m->area[i].rank), at, word,
                                  &m->posts[1].ack);
    return status;
}

/* ---- what is on its way ---- */

/* The rows of the others, as these have them. Read on the lane on which they were told, behind
 * that. */
static int read_rows(struct loco_multicast *m)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, waited;

    for (int i = 0; i < m->areas && status == LOCO_OK; i++) {
        const struct loci_mc_area *area = &m->area[i];

        if (is_alive(m, area->rank))
            status = loci_read(m->rt, loci_mc_rows(m, area->rank), area->theirs, area->snapshot,
                               (size_t)area->words * 8, &ack);
    }
    waited = loco_ack_wait(m->rt, &ack);
    return status == LOCO_OK ? waited : status;
}

/* Words that have not been written here yet are what all begin with, as others have them. Of a
 * member that has gone nothing was read, and an earlier read that failed may have left anything. */
static bool is_behind(const struct loco_multicast *m)
{
    for (int i = 0; i < m->sources; i++) {
        const struct loci_mc_source *s = &m->source[i];
        const struct loci_mc_area *area = &m->area[s->area];

        if (is_alive(m, area->rank)
            && area->snapshot[s->word]
               > atomic_load_explicit(&m->seen[s->seen], memory_order_relaxed)
            && loci_load64(loci_mc_here(area) + 8 * s->word) < area->snapshot[s->word])
            return true;
    }
    return false;
}

static bool all_are_alive(const struct loco_multicast *m)
{
    for (int rank = 0; rank < m->size; rank++)
        if (!is_alive(m, rank) && !loci_mc_is_gone(m, rank))
            return false;
    return loci_mc_status(m) == LOCO_OK;
}

/* Whatever was pushed before the others knew of the sleeper, and so did not ring, is here. They are
 * read again each time: of a word that changes while the network reads it that may have got more
 * than it is. A member that fails may have a row that it does not push any more, so this ends after
 * a time: then nobody may ring for what is still to come. So the multicast is `unsure`, and the
 * poller stays awake until something has come. */
static void wait_for_rows(struct loco_multicast *m)
{
    int64_t end = 0;
    unsigned rounds = 0;

    if (m->in_place || !atomic_load_explicit(&m->started, memory_order_acquire))
        return;
    /* Who has to tell something does not sleep yet; in a view that has begun all have, at once, and
     * would wait for each other here. */
    if (atomic_load_explicit(&m->half, memory_order_relaxed) || loci_mc_has_delivered(m))
        return;
    while (all_are_alive(m) && read_rows(m) == LOCO_OK && is_behind(m)) {
        if (end == 0)
            end = loci_now(m->rt) + loci_grace(m->rt);
        else if (loci_now(m->rt) > end) {
            atomic_store_explicit(&m->unsure, true, memory_order_relaxed);
            return;
        }
        loci_wait_round(m->rt, &rounds);
    }
}

void loci_mc_announce_to_all(struct loco_multicast *m, int change)
{
    uint64_t word = m->polled == NULL ? 0 : loci_polled_number(m->polled);

    loci_mc_lock(m);
    if (m->polled != NULL)
        atomic_store(&m->dozes, change > 0);
    m->sleepers += change;
    if (change < 0 && m->sleepers == 0)
        say(m, word);
    /* In a view, whoever has come since the first was not told. */
    if (change > 0 && (m->sleepers == 1 || m->epochs != NULL))
        say(m, word | LOCI_MC_SLEEPS);
    if (change > 0) {
        loci_mc_make_all_fence(m);
        wait_for_rows(m);
    }
    loci_mc_unlock(m);
    /* The poller looks by itself. */
    if (m->polled == NULL)
        loci_mc_tell(m);
}

/* ---- threads of this process ---- */

void loci_mc_announce(struct loco_multicast *m, int change)
{
    atomic_fetch_add(&m->waiters, change);
    if (m->polled == NULL)
        loci_mc_announce_to_all(m, change);
    else if (change > 0)
        loci_mc_make_all_fence(m);
}

/* By its number, for the place at the poller may be given back meanwhile: a member may become known
 * while the multicast is stopped or destroyed. */
void loci_mc_wake_poller(struct loco_multicast *m)
{
    if (atomic_load_explicit(&m->dozes, memory_order_relaxed))
        loci_ring_poller(m->rt, m->rt->bells, m->polled_number);
}

void loci_mc_wake_waiters(struct loco_multicast *m)
{
    loci_mc_wake_poller(m);
    if (atomic_load_explicit(&m->waiters, memory_order_relaxed) > 0)
        loci_ring_self(m->rt);
}
