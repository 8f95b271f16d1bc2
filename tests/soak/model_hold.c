/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks. Two that conflict and are not ordered by anything else may be taken in either order. That
 * is allowed where neither holder waits for others while it holds its lock, save for further locks
 * in rising order of window and target: then somebody can always go on. All other locks have to be
 * ordered with those in conflict, so that nobody ever waits for them.
 */
#include "model_state.h"

#include <stdlib.h>

static bool in_conflict(const struct hold *a, const struct hold *b)
{
    if (a->win != b->win || (a->target >= 0 && b->target >= 0 && a->target != b->target))
        return false;
    if (a->exposure || b->exposure)
        return a->exposure != b->exposure;
    return a->rank != b->rank && (a->exclusive || b->exclusive);
}

static int key(const struct hold *h)
{
    return h->win * (SOAK_RANKS + 1) + h->target + 1;
}

static bool same_holder(const struct hold *a, const struct hold *b)
{
    return a->open && !a->exposure && !b->exposure && a->actor == b->actor;
}

bool model_may_hold(struct model *m, const struct hold *wanted)
{
    for (int i = 0; i < m->holds; i++) {
        const struct hold *h = &m->hold[i];
        if (in_conflict(h, wanted)) {
            if (h->open)
                return model_refuse(m, "rank %d has the lock", h->rank);
            if (!clock_has(&m->clock[wanted->actor], h->end) &&
                (h->strict || wanted->strict || h->exposure || wanted->exposure))
                return model_refuse(m, "could wait for rank %d, which waits inside", h->rank);
        }
        if (same_holder(h, wanted) && key(h) > key(wanted) && h->contended)
            return model_refuse(m, "locks not in order");
    }
    return true;
}

int model_hold(struct model *m, const struct hold *wanted)
{
    struct hold *h;

    if (m->holds == m->hold_room) {
        m->hold_room = m->hold_room == 0 ? 32 : 2 * m->hold_room;
        m->hold = realloc(m->hold, (size_t)m->hold_room * sizeof *m->hold);
    }
    h = &m->hold[m->holds];
    *h = *wanted;
    for (int i = 0; i < m->holds; i++) {
        if (in_conflict(&m->hold[i], h) && !clock_has(&m->clock[h->actor], m->hold[i].end))
            h->contended = true;
        if (same_holder(&m->hold[i], h) && key(&m->hold[i]) > key(h))
            m->hold[i].strict = true;
    }
    h->open = true;
    return m->holds++;
}

void model_release(struct model *m, int hold, struct event at)
{
    m->hold[hold].open = false;
    m->hold[hold].end = at;
}

static bool holds(const struct hold *h, int rank, int actor)
{
    return h->open && !h->exposure && h->rank == rank && (actor < 0 || h->actor == actor);
}

bool model_may_wait(struct model *m, int rank, int actor)
{
    for (int i = 0; i < m->holds; i++)
        if (holds(&m->hold[i], rank, actor) && m->hold[i].contended)
            return model_refuse(m, "rank %d has a lock for which others may wait", rank);
    return true;
}

void model_waits(struct model *m, int rank, int actor)
{
    for (int i = 0; i < m->holds; i++)
        if (holds(&m->hold[i], rank, actor))
            m->hold[i].strict = true;
}
