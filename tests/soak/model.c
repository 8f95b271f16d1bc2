/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows, epochs and order. */
#include "model_state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE_ASSERTS = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED,
       POST_ASSERTS = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT };

bool model_refuse(struct model *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(m->why, WHY, format, args);
    va_end(args);
    return false;
}

/* ---- accesses that end ---- */

typedef bool choose_fn(const struct access *a, int rank, int target);

static bool is_open_rma(const struct access *a, int win, int rank)
{
    return a->win == win && a->rank == rank && !a->local && a->done.actor < 0;
}

/* What `rank` has started on the window (to `target`, if not -1) and this actor knows of is over;
 * `reads_only`: only where nothing but a result is awaited. */
static void finish_rma(struct model *m, int win, int rank, int target, struct event at,
                       bool reads_only)
{
    for (int i = 0; i < m->accesses; i++) {
        struct access *a = m->access[i];
        if (is_open_rma(a, win, rank) && (target < 0 || a->target == target) && !a->completing &&
            (!reads_only || a->class == C_READ) &&
            m->clock[at.actor].t[a->actor] >= a->issued)
            a->done = at;
    }
}

void model_use(struct model *m, int win, int actor, int target)
{
    for (int t = 0; t < m->p->ranks; t++)
        if (target < 0 || t == target)
            m->win[win].used[actor][t] = m->clock[actor].t[actor];
}

/* An epoch must not end while another thread may still do something in it. */
static bool all_known(struct model *m, int win, int rank, int target, int actor)
{
    for (int thread = 0; thread < m->p->threads; thread++)
        for (int t = 0; t < m->p->ranks; t++) {
            int other = ACTOR(rank, thread);
            if ((target < 0 || t == target) &&
                m->clock[actor].t[other] < m->win[win].used[other][t])
                return model_refuse(m, "another thread's use is not ordered with this");
        }
    return true;
}

/* The owner's stores are there for others. */
static void publish(struct model *m, int win, int rank, struct event at)
{
    for (int i = 0; i < m->accesses; i++) {
        struct access *a = m->access[i];
        if (a->win == win && a->rank == rank && a->local && a->done.actor < 0 &&
            m->clock[at.actor].t[a->actor] >= a->issued)
            a->done = at;
    }
}

/* The owner's loads see what was there for it. */
static void look(struct model *m, int win, int rank, int actor)
{
    clock_join(&m->win[win].view[rank], &m->clock[actor]);
    m->win[win].looked[rank] = (struct event){actor, m->clock[actor].t[actor]};
    m->win[win].stored[rank] = false;
}

static bool epoch_known(struct model *m, int win, int rank, int target, int actor)
{
    struct event e = m->win[win].epoch[rank][target];

    if (e.time != 0 && !clock_has(&m->clock[actor], e))
        return model_refuse(m, "another thread's epoch is not ordered with this");
    return true;
}

static bool epochs_known(struct model *m, int win, int rank, int actor)
{
    for (int t = 0; t < m->p->ranks; t++)
        if (!epoch_known(m, win, rank, t, actor))
            return false;
    return true;
}

static void mark_epochs(struct model *m, int win, int rank, struct event at)
{
    for (int t = 0; t < m->p->ranks; t++)
        m->win[win].epoch[rank][t] = at;
}

/* ---- several at once ---- */

static void join_all(struct model *m, const struct comm_spec *c)
{
    struct clock all = {{0}};

    for (int i = 0; i < c->n; i++)
        clock_join(&all, &m->clock[ACTOR(c->rank[i], 0)]);
    for (int i = 0; i < c->n; i++)
        m->clock[ACTOR(c->rank[i], 0)] = all;
}

static bool all_may_wait(struct model *m, const struct comm_spec *c)
{
    for (int i = 0; i < c->n; i++)
        if (!model_may_wait(m, c->rank[i], ACTOR(c->rank[i], 0)))
            return false;
    return true;
}

static void all_wait(struct model *m, const struct comm_spec *c)
{
    for (int i = 0; i < c->n; i++) {
        model_waits(m, c->rank[i], ACTOR(c->rank[i], 0));
        model_tick(m, ACTOR(c->rank[i], 0));
    }
}

static bool do_barrier(struct model *m, const struct statement *s)
{
    const struct comm_spec *c = &m->p->comm[s->comm];

    if (!all_may_wait(m, c))
        return false;
    all_wait(m, c);
    join_all(m, c);
    return true;
}

static bool do_signal(struct model *m, const struct statement *s)
{
    int from = ACTOR(s->rank, s->thread), to = ACTOR(s->target, 0);

    if (s->target == s->rank)
        return model_refuse(m, "a signal to oneself");
    if (!model_may_wait(m, s->target, to) || !model_may_wait(m, s->rank, from))
        return false;
    model_waits(m, s->target, to);
    model_waits(m, s->rank, from);
    model_tick(m, from);
    model_tick(m, to);
    clock_join(&m->clock[to], &m->clock[from]);
    return true;
}

static bool do_join(struct model *m, const struct statement *s)
{
    struct clock all = {{0}};

    if (!model_may_wait(m, s->rank, -1))
        return false;
    model_waits(m, s->rank, -1);
    for (int t = 0; t < m->p->threads; t++) {
        model_tick(m, ACTOR(s->rank, t));
        clock_join(&all, &m->clock[ACTOR(s->rank, t)]);
    }
    for (int t = 0; t < m->p->threads; t++)
        m->clock[ACTOR(s->rank, t)] = all;
    return true;
}

/* ---- windows ---- */

static bool info_is(const struct window_spec *w, const char *key, const char *value)
{
    for (int i = 0; i < w->infos; i++)
        if (strcmp(w->key[i], key) == 0 && strcmp(w->value[i], value) == 0)
            return true;
    return false;
}

static bool has_info(const struct window_spec *w, const char *key)
{
    for (int i = 0; i < w->infos; i++)
        if (strcmp(w->key[i], key) == 0)
            return true;
    return false;
}

/* What the user promised by info keys. */
static bool infos_hold(struct model *m, const struct window_spec *w)
{
    for (int i = 1; i < w->parts; i++) {
        if (info_is(w, "same_size", "true") && w->part[i].bytes != w->part[0].bytes)
            return model_refuse(m, "same_size is not true");
        if (info_is(w, "same_disp_unit", "true") && w->part[i].unit != w->part[0].unit)
            return model_refuse(m, "same_disp_unit is not true");
    }
    return true;
}

static void part_open(struct model *m, int win, int i)
{
    const struct window_spec *w = &m->p->window[win];
    struct part *part = &m->win[win].part[i];
    size_t bytes = (size_t)w->part[i].bytes;
    int el = w->fill;

    part->data = arena_get(&m->arena, 4 * bytes + 1);
    part->tag = part->data + bytes;
    part->phase = part->tag + bytes;
    part->loose = part->phase + bytes;
    part->attached = w->flavor != DYNAMIC;
    part_fill(w, i, part->data);
    for (size_t k = 0; el >= 0 && k < bytes - bytes % (size_t)el_types[el].extent; k++) {
        part->tag[k] = (unsigned char)(el + 1);
        part->phase[k] = (unsigned char)(k % (size_t)el_types[el].extent);
    }
}

static bool do_open(struct model *m, const struct statement *s)
{
    struct win_state *w = &m->win[s->win];
    const struct window_spec *spec = &m->p->window[s->win];
    const struct comm_spec *c = comm_of_window(m, s->win);

    if (w->open || w->part[0].data != NULL || w->opened_by != 0)
        return model_refuse(m, "w%d was made before", s->win);
    if (!infos_hold(m, spec) || !all_may_wait(m, c))
        return false;
    w->open = true;
    w->opened_by = m->statements + 1;
    w->no_locks = spec->flavor != SHARED && info_is(spec, "no_locks", "true");
    w->unordered = has_info(spec, "accumulate_ordering");
    w->same_op = info_is(spec, "accumulate_ops", "same_op");
    for (int i = 0; i < spec->parts; i++)
        part_open(m, s->win, i);
    all_wait(m, c);
    join_all(m, c);
    for (int i = 0; i < c->n; i++) {
        int actor = ACTOR(c->rank[i], 0);
        look(m, s->win, c->rank[i], actor);
        w->made[c->rank[i]] = (struct event){actor, m->clock[actor].t[actor]};
    }
    return true;
}

static bool quiet(struct model *m, int win, bool fence)
{
    const struct win_state *w = &m->win[win];
    const struct comm_spec *c = comm_of_window(m, win);

    if (!w->open)
        return model_refuse(m, "w%d is not there", win);
    for (int i = 0; i < c->n; i++) {
        int r = c->rank[i];
        if (w->lock_all[r] != 0 || w->started[r] != 0 || w->exposed[r] != 0)
            return model_refuse(m, "rank %d is in an epoch", r);
        for (int t = 0; t < m->p->ranks; t++)
            if (w->lock[r][t] != 0)
                return model_refuse(m, "rank %d is in an epoch", r);
        if (!epochs_known(m, win, r, ACTOR(r, 0)) ||
            !all_known(m, win, r, -1, ACTOR(r, 0)))
            return false;
        if (w->exposure[r].time != 0 && !clock_has(&m->clock[ACTOR(r, 0)], w->exposure[r]))
            return model_refuse(m, "another thread's wait is not ordered with this");
    }
    if (!fence && w->fence_used)
        return model_refuse(m, "w%d is in a fence epoch", win);
    return true;
}

/* Local accesses of other threads, requests: all known to the threads that free the window. */
static bool nothing_pending(struct model *m, int win)
{
    for (int i = 0; i < m->pendings; i++) {
        const struct pending *q = &m->pending[i];
        if (!q->waited && q->access >= 0 && m->access[q->access]->win == win)
            return model_refuse(m, "request q%d is not waited for", q->number);
        if (!q->waited && q->access < 0)
            return model_refuse(m, "request q%d is not waited for", q->number);
    }
    for (int i = 0; i < m->accesses; i++) {
        const struct access *a = m->access[i];
        if (a->win == win && m->clock[ACTOR(a->rank, 0)].t[a->actor] < a->issued)
            return model_refuse(m, "another thread may still use w%d", win);
    }
    return true;
}

static bool do_free(struct model *m, const struct statement *s)
{
    const struct comm_spec *c = comm_of_window(m, s->win);
    struct win_state *w = &m->win[s->win];

    if (!quiet(m, s->win, false) || !all_may_wait(m, c) || !nothing_pending(m, s->win))
        return false;
    for (int i = 0; i < m->p->window[s->win].parts; i++)
        if (m->p->window[s->win].flavor == DYNAMIC && w->part[i].attached)
            return model_refuse(m, "region %d is attached", i);
    all_wait(m, c);
    join_all(m, c);
    w->open = false;
    for (int i = 0; i < m->p->window[s->win].parts; i++)
        model_expect_part(m, s->win, i);
    return true;
}

/* ---- fence ---- */

static bool may_fence(struct model *m, const struct statement *s)
{
    struct win_state *w = &m->win[s->win];
    const struct comm_spec *c = comm_of_window(m, s->win);

    if ((s->asserts & ~FENCE_ASSERTS) != 0)
        return model_refuse(m, "no assert of a fence");
    if (!quiet(m, s->win, true) || !all_may_wait(m, c))
        return false;
    if ((s->asserts & MPI_MODE_NOPRECEDE) != 0 && w->fence_used)
        return model_refuse(m, "operations precede");
    for (int i = 0; i < c->n; i++)
        if ((s->asserts & MPI_MODE_NOSTORE) != 0 && w->stored[c->rank[i]])
            return model_refuse(m, "rank %d has stored", c->rank[i]);
    /* Without a barrier inside nobody may still have a lock, or be in an older epoch. */
    for (int i = 0; i < m->holds && (s->asserts & MPI_MODE_NOPRECEDE) != 0; i++)
        for (int k = 0; k < c->n && m->hold[i].win == s->win; k++)
            if (!clock_has(&m->clock[ACTOR(c->rank[k], 0)], m->hold[i].end))
                return model_refuse(m, "rank %d may still be in an epoch", m->hold[i].rank);
    return true;
}

static bool do_fence(struct model *m, const struct statement *s)
{
    struct win_state *w = &m->win[s->win];
    const struct comm_spec *c = comm_of_window(m, s->win);

    if (!may_fence(m, s))
        return false;
    for (int i = 0; i < c->n; i++) {
        int r = c->rank[i];
        struct event at = model_tick(m, ACTOR(r, 0));
        model_waits(m, r, ACTOR(r, 0));
        finish_rma(m, s->win, r, -1, at, false);
        publish(m, s->win, r, at);
        mark_epochs(m, s->win, r, at);
        w->fenced[r] = at;
    }
    if ((s->asserts & MPI_MODE_NOPRECEDE) == 0)
        join_all(m, c);
    for (int i = 0; i < c->n; i++) {
        look(m, s->win, c->rank[i], ACTOR(c->rank[i], 0));
        w->exposed_at[c->rank[i]] = m->clock[ACTOR(c->rank[i], 0)];
    }
    w->fence = (s->asserts & MPI_MODE_NOSUCCEED) == 0;
    w->fence_used = false;
    w->fence_asserts = s->asserts;
    return true;
}

/* A fence that nobody used was none; but all have to be past it. */
static bool past_fence(struct model *m, int win, int actor)
{
    const struct win_state *w = &m->win[win];
    const struct comm_spec *c = comm_of_window(m, win);

    if (w->fence_used)
        return model_refuse(m, "w%d is in a fence epoch", win);
    for (int i = 0; i < c->n; i++)
        if (w->fenced[c->rank[i]].time != 0 &&
            !clock_has(&m->clock[actor], w->fenced[c->rank[i]]))
            return model_refuse(m, "rank %d may not be past the fence", c->rank[i]);
    return true;
}

/* ---- post, start, complete, wait ---- */

static bool group_in_window(struct model *m, const struct statement *s)
{
    bool seen[SOAK_RANKS] = {false};

    for (int i = 0; i < s->n; i++) {
        if (member_of(comm_of_window(m, s->win), s->list[i]) < 0)
            return model_refuse(m, "rank %d is not in the window", s->list[i]);
        if (seen[s->list[i]])
            return model_refuse(m, "rank %d is there twice", s->list[i]);
        seen[s->list[i]] = true;
    }
    return true;
}

static bool do_post(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct hold wanted = {.win = s->win, .target = s->rank, .rank = s->rank, .actor = actor,
                          .statement = m->statements, .exposure = true, .strict = true};
    struct event at;

    if (w->exposed[s->rank] != 0)
        return model_refuse(m, "rank %d is exposed", s->rank);
    if (w->exposure[s->rank].time != 0 && !clock_has(&m->clock[actor], w->exposure[s->rank]))
        return model_refuse(m, "another thread's wait is not ordered with this");
    if ((s->asserts & ~POST_ASSERTS) != 0)
        return model_refuse(m, "no assert of post");
    if ((s->asserts & MPI_MODE_NOSTORE) != 0 && w->stored[s->rank])
        return model_refuse(m, "rank %d has stored", s->rank);
    if (!group_in_window(m, s) || !past_fence(m, s->win, actor) ||
        !epochs_known(m, s->win, s->rank, actor) || !model_may_hold(m, &wanted))
        return false;
    for (int i = 0; i < s->n; i++)
        if (w->post[s->rank][s->list[i]] != POST_NONE)
            return model_refuse(m, "posted before");
    w->fence = false;
    at = model_tick(m, actor);
    wanted.begin = at;
    w->exposed[s->rank] = 1 + model_hold(m, &wanted);
    w->post_asserts[s->rank] = s->asserts;
    publish(m, s->win, s->rank, at);
    w->exposed_at[s->rank] = m->clock[actor];
    w->post_clock[s->rank] = m->clock[actor];
    for (int i = 0; i < s->n; i++)
        w->post[s->rank][s->list[i]] = POSTED;
    return true;
}

static bool may_start(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];

    if (w->started[s->rank] != 0 || w->lock_all[s->rank] != 0)
        return model_refuse(m, "rank %d is in an epoch", s->rank);
    if ((s->asserts & ~MPI_MODE_NOCHECK) != 0)
        return model_refuse(m, "no assert of start");
    for (int t = 0; t < m->p->ranks; t++)
        if (w->lock[s->rank][t] != 0)
            return model_refuse(m, "rank %d is in an epoch", s->rank);
    if (!group_in_window(m, s) || !past_fence(m, s->win, actor) ||
        !epochs_known(m, s->win, s->rank, actor) || !model_may_wait(m, s->rank, actor))
        return false;
    for (int i = 0; i < s->n; i++) {
        int t = s->list[i];
        bool promised = (w->post_asserts[t] & MPI_MODE_NOCHECK) != 0;
        if (w->post[t][s->rank] != POSTED)
            return model_refuse(m, "rank %d has not posted", t);
        if (promised != ((s->asserts & MPI_MODE_NOCHECK) != 0))
            return model_refuse(m, "MPI_MODE_NOCHECK at one side only");
        for (int k = 0; promised && k < SOAK_ACTORS; k++)
            if (m->clock[actor].t[k] < w->post_clock[t].t[k])
                return model_refuse(m, "the post may not be done");
    }
    return true;
}

static bool do_start(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct event at;

    if (!may_start(m, s, actor))
        return false;
    model_waits(m, s->rank, actor);
    at = model_tick(m, actor);
    w->fence = false;
    w->started[s->rank] = 1 + m->statements;
    mark_epochs(m, s->win, s->rank, at);
    for (int i = 0; i < s->n; i++) {
        w->start_group[s->rank][s->list[i]] = true;
        w->post[s->list[i]][s->rank] = POST_STARTED;
    }
    return true;
}

static bool do_complete(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct event at;

    if (w->started[s->rank] == 0)
        return model_refuse(m, "rank %d has not started", s->rank);
    if (!all_known(m, s->win, s->rank, -1, actor) ||
        !epochs_known(m, s->win, s->rank, actor) || !model_may_wait(m, s->rank, actor))
        return false;
    model_waits(m, s->rank, actor);
    at = model_tick(m, actor);
    finish_rma(m, s->win, s->rank, -1, at, true);
    for (int i = 0; i < m->accesses; i++)
        if (is_open_rma(m->access[i], s->win, s->rank))
            m->access[i]->completing = true;
    for (int t = 0; t < m->p->ranks; t++) {
        if (!w->start_group[s->rank][t])
            continue;
        w->start_group[s->rank][t] = false;
        w->post[t][s->rank] = POST_COMPLETED;
        w->complete_clock[t][s->rank] = m->clock[actor];
    }
    w->started[s->rank] = 0;
    mark_epochs(m, s->win, s->rank, at);
    return true;
}

static bool do_wait(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct event at;

    if (w->exposed[s->rank] == 0)
        return model_refuse(m, "rank %d is not exposed", s->rank);
    if (!clock_has(&m->clock[actor], m->hold[w->exposed[s->rank] - 1].begin))
        return model_refuse(m, "another thread's post is not ordered with this");
    for (int o = 0; o < m->p->ranks; o++)
        if (w->post[s->rank][o] == POSTED || w->post[s->rank][o] == POST_STARTED)
            return model_refuse(m, "rank %d has not completed", o);
    if (!model_may_wait(m, s->rank, actor))
        return false;
    model_waits(m, s->rank, actor);
    for (int o = 0; o < m->p->ranks; o++)
        if (w->post[s->rank][o] == POST_COMPLETED) {
            clock_join(&m->clock[actor], &w->complete_clock[s->rank][o]);
            w->post[s->rank][o] = POST_NONE;
        }
    at = model_tick(m, actor);
    for (int i = 0; i < m->accesses; i++) {
        struct access *a = m->access[i];
        if (a->win == s->win && a->target == s->rank && a->completing && a->done.actor < 0)
            a->done = at;
    }
    model_release(m, w->exposed[s->rank] - 1, at);
    w->exposed[s->rank] = 0;
    w->exposure[s->rank] = at;
    look(m, s->win, s->rank, actor);
    return true;
}

/* ---- locks ---- */

static bool may_lock(struct model *m, const struct statement *s, int target, int actor)
{
    struct win_state *w = &m->win[s->win];

    if (w->no_locks)
        return model_refuse(m, "no_locks was promised");
    if ((s->asserts & ~MPI_MODE_NOCHECK) != 0)
        return model_refuse(m, "no assert of a lock");
    if (w->started[s->rank] != 0 || w->lock_all[s->rank] != 0)
        return model_refuse(m, "rank %d is in an epoch", s->rank);
    for (int t = 0; t < m->p->ranks; t++) {
        if (target >= 0 && t != target)
            continue;
        if (w->lock[s->rank][t] != 0)
            return model_refuse(m, "rank %d has a lock", s->rank);
        if (!epoch_known(m, s->win, s->rank, t, actor))
            return false;
    }
    /* Else the unlock would have to wait for a join, for which this lock may be in the way. */
    return past_fence(m, s->win, actor) && all_known(m, s->win, s->rank, target, actor);
}

static struct hold hold_of(const struct model *m, const struct statement *s, int target,
                           int actor)
{
    return (struct hold){.win = s->win, .target = target, .rank = s->rank, .actor = actor,
                         .statement = m->statements, .exclusive = s->exclusive,
                         .strict = (s->asserts & MPI_MODE_NOCHECK) != 0};
}

static bool do_lock(struct model *m, const struct statement *s, int target, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct hold wanted = hold_of(m, s, target, actor);
    struct event at;

    if (!may_lock(m, s, target, actor) || !model_may_hold(m, &wanted))
        return false;
    w->fence = false;
    at = model_tick(m, actor);
    wanted.begin = at;
    if (target >= 0) {
        w->lock[s->rank][target] = 1 + model_hold(m, &wanted);
        w->epoch[s->rank][target] = at;
    } else {
        w->lock_all[s->rank] = 1 + model_hold(m, &wanted);
        mark_epochs(m, s->win, s->rank, at);
    }
    if (target < 0 || target == s->rank)
        look(m, s->win, s->rank, actor);
    return true;
}

static bool do_unlock(struct model *m, const struct statement *s, int target, int actor)
{
    struct win_state *w = &m->win[s->win];
    int *hold = target >= 0 ? &w->lock[s->rank][target] : &w->lock_all[s->rank];
    struct event at;

    if (*hold == 0)
        return model_refuse(m, "rank %d has not locked", s->rank);
    if (!all_known(m, s->win, s->rank, target, actor))
        return false;
    for (int t = 0; t < m->p->ranks; t++)
        if ((target < 0 || t == target) && !epoch_known(m, s->win, s->rank, t, actor))
            return false;
    at = model_tick(m, actor);
    finish_rma(m, s->win, s->rank, target, at, false);
    if (target < 0 || target == s->rank)
        publish(m, s->win, s->rank, at);
    model_release(m, *hold - 1, at);
    *hold = 0;
    if (target >= 0)
        w->epoch[s->rank][target] = at;
    else
        mark_epochs(m, s->win, s->rank, at);
    return true;
}

static bool passive(struct model *m, const struct statement *s, int target, int actor)
{
    const struct win_state *w = &m->win[s->win];
    bool any = w->lock_all[s->rank] != 0;

    for (int t = 0; t < m->p->ranks; t++) {
        if (target >= 0 && t != target)
            continue;
        any |= w->lock[s->rank][t] != 0;
        if (!epoch_known(m, s->win, s->rank, t, actor))
            return false;
    }
    return any || model_refuse(m, "rank %d has not locked", s->rank);
}

static bool do_flush(struct model *m, const struct statement *s, int actor)
{
    bool all = s->verb == V_FLUSH_ALL || s->verb == V_FLUSH_LOCAL_ALL;
    bool local = s->verb == V_FLUSH_LOCAL || s->verb == V_FLUSH_LOCAL_ALL;
    int target = all ? -1 : s->target;
    struct event at;

    if (!passive(m, s, target, actor))
        return false;
    at = model_tick(m, actor);
    finish_rma(m, s->win, s->rank, target, at, local);
    model_use(m, s->win, actor, target);
    return true;
}

static bool do_sync(struct model *m, const struct statement *s, int actor)
{
    if (!passive(m, s, -1, actor))
        return false;
    publish(m, s->win, s->rank, model_tick(m, actor));
    look(m, s->win, s->rank, actor);
    model_use(m, s->win, actor, -1);
    return true;
}

/* ---- requests ---- */

static struct pending *find_request(struct model *m, int rank, int number)
{
    for (int i = 0; i < m->pendings; i++)
        if (m->pending[i].rank == rank && m->pending[i].number == number)
            return &m->pending[i];
    return NULL;
}

static bool do_requests(struct model *m, const struct statement *s, int actor)
{
    struct event at;

    if (s->n == 0)
        return model_refuse(m, "no request");
    for (int i = 0; i < s->n; i++) {
        struct pending *q = find_request(m, s->rank, s->list[i]);
        if (q == NULL || q->waited)
            return model_refuse(m, "no request q%d", s->list[i]);
        if (!clock_has(&m->clock[actor], q->issued))
            return model_refuse(m, "another thread's request is not ordered with this");
        for (int k = 0; k < i; k++)
            if (s->list[k] == s->list[i])
                return model_refuse(m, "q%d is there twice", s->list[i]);
    }
    at = model_tick(m, actor);
    for (int i = 0; i < s->n; i++) {
        struct pending *q = find_request(m, s->rank, s->list[i]);
        q->waited = true;
        if (q->access >= 0 && m->access[q->access]->class == C_READ &&
            m->access[q->access]->done.actor < 0)
            m->access[q->access]->done = at;
    }
    return true;
}

/* ---- the whole ---- */

static bool step_epoch(struct model *m, const struct statement *s, int actor)
{
    if (!m->win[s->win].open)
        return model_refuse(m, "w%d is not there", s->win);
    if (member_of(comm_of_window(m, s->win), s->rank) < 0)
        return model_refuse(m, "rank %d is not in the window", s->rank);
    if (!clock_has(&m->clock[actor], m->win[s->win].made[s->rank]))
        return model_refuse(m, "w%d may not be there yet for this thread", s->win);
    switch (s->verb) {
    case V_POST: return do_post(m, s, actor);
    case V_START: return do_start(m, s, actor);
    case V_COMPLETE: return do_complete(m, s, actor);
    case V_WAIT:
    case V_TEST: return do_wait(m, s, actor);
    case V_LOCK: case V_UNLOCK: case V_FLUSH: case V_FLUSH_LOCAL:
        if (member_of(comm_of_window(m, s->win), s->target) < 0)
            return model_refuse(m, "rank %d is not in the window", s->target);
        return s->verb == V_LOCK     ? do_lock(m, s, s->target, actor)
               : s->verb == V_UNLOCK ? do_unlock(m, s, s->target, actor)
                                     : do_flush(m, s, actor);
    case V_LOCK_ALL: return do_lock(m, s, -1, actor);
    case V_UNLOCK_ALL: return do_unlock(m, s, -1, actor);
    case V_FLUSH_ALL:
    case V_FLUSH_LOCAL_ALL: return do_flush(m, s, actor);
    case V_SYNC: return do_sync(m, s, actor);
    case V_ATTACH:
    case V_DETACH: return model_attach(m, s);
    default: return model_data(m, s);
    }
}

static bool step(struct model *m, const struct statement *s)
{
    switch (s->verb) {
    case V_OPEN: return do_open(m, s);
    case V_FREE: return do_free(m, s);
    case V_FENCE: return do_fence(m, s);
    case V_BARRIER: return do_barrier(m, s);
    case V_SIGNAL: return do_signal(m, s);
    case V_JOIN: return do_join(m, s);
    case V_WAITALL: case V_WAITANY: case V_WAITONE: case V_TESTALL:
        return do_requests(m, s, ACTOR(s->rank, s->thread));
    default: return step_epoch(m, s, ACTOR(s->rank, s->thread));
    }
}

bool model_step(struct model *m, const struct statement *s, char *why)
{
    m->why = why;
    why[0] = '\0';
    if (m->statements == m->expected_room) {
        int room = m->expected_room == 0 ? 128 : 2 * m->expected_room;
        m->expected = realloc(m->expected, (size_t)room * sizeof *m->expected);
        memset(m->expected + m->expected_room, 0,
               (size_t)(room - m->expected_room) * sizeof *m->expected);
        m->expected_room = room;
    }
    if (!step(m, s))
        return false;
    m->statements++;
    m->operations += verb_is_data(s->verb);
    return true;
}

struct model *model_new(const struct program *p)
{
    struct model *m = calloc(1, sizeof *m);

    if (m == NULL)
        abort();
    m->p = p;
    return m;
}

void model_free(struct model *m)
{
    for (int i = 0; i < m->accesses; i++) {
        layout_free(&m->access[i]->remote);
        layout_free(&m->access[i]->result);
    }
    free(m->access);
    free(m->hold);
    free(m->pending);
    free(m->expected);
    arena_free(&m->arena);
    free(m);
}

long model_operations(const struct model *m)
{
    return m->operations;
}

/* ---- what is open ---- */

bool model_over(const struct model *m, char *why)
{
    for (int w = 0; w < m->p->windows; w++)
        if (m->win[w].open) {
            snprintf(why, WHY, "w%d is not freed", w);
            return false;
        }
    return true;    /* no window is freed in an epoch, or before its requests are waited for */
}

bool model_window_open(const struct model *m, int win) { return m->win[win].open; }
bool model_fence_open(const struct model *m, int win) { return m->win[win].fence; }

bool model_locked(const struct model *m, int win, int rank, int target)
{
    return m->win[win].lock[rank][target] != 0;
}

bool model_locked_all(const struct model *m, int win, int rank)
{
    return m->win[win].lock_all[rank] != 0;
}

bool model_fence_used(const struct model *m, int win) { return m->win[win].fence_used; }

bool model_posted(const struct model *m, int win, int target, int origin)
{
    return m->win[win].post[target][origin] == POSTED;
}

bool model_started(const struct model *m, int win, int rank)
{
    return m->win[win].started[rank] != 0;
}

bool model_exposed(const struct model *m, int win, int rank)
{
    return m->win[win].exposed[rank] != 0;
}

bool model_attached(const struct model *m, int win, int part)
{
    return m->win[win].part[part].attached;
}

int model_requests(const struct model *m, int rank, int *list, int room)
{
    int n = 0;

    for (int i = 0; i < m->pendings && n < room; i++)
        if (m->pending[i].rank == rank && !m->pending[i].waited)
            list[n++] = m->pending[i].number;
    return n;
}
