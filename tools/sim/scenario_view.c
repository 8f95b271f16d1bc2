/* SPDX-License-Identifier: BSD-3-Clause */

/* Each process sends messages to one or two multicasts of a view, where it is a sender. Some have
 * handlers, some poll, and one may leave. Meanwhile one or two are killed, at any time, so also in
 * the midst of a change; and a case may have another stop at any step. Or members are suspected
 * that live. Or they die in their own handlers, or have others die there: with what only they know.
 * All who go on are given the same messages in the same order and in the same views, each once;
 * what is said to be delivered has been given to all of them; at the end they have been given all
 * that they sent; and nobody waits for ever. */

#include "config.h"

#include "multicast/multicast_parts.h"
#include "scenario_view.h"
#include "view/view.h"

#define PATIENCE INT64_C(1000000000000)    /* ns of virtual time: somebody waits for ever */
#define LONGEST_SLEEP 100000000
#define HELD 100000                     /* times that the network is asked whether it is slow, */
#define HELD_NS INT64_C(100000000)      /* and ns, for which it is, at most */

struct state {
    struct sim_state common;
    bool drawn;
    int groups, kills, flags;
    uint64_t outside;           /* VW_JOINS: at first */
    size_t chunk;
    int asked;                  /* VW_SPLIT, and since when */
    int64_t held_since;
    int early;                  /* of the kills, how many may be at any time */
    bool at_cut;                /* VW_STEPS: all but one die of what is delivered by a cut */
    struct vw_views views;
    struct vw_group group[MC_GROUPS];
    struct vw_late late;
};

struct user;

struct part {
    struct user *u;
    struct vw_group *p;
    loco_multicast_t *m;
    int sent[MC_THREADS];
};

struct user {
    struct sim_run *run;
    struct state *s;
    loco_runtime_t *rt;
    int rank;
    loco_view_t *view;
    struct part part[MC_GROUPS];
    int busy;                   /* threads that send */
    struct vw_state state;      /* of this process, or as it comes */
};

/* Who comes late may not hear why the others have stopped. */
static bool is_late(const struct user *u)
{
    return u->s->views.harm == VW_LATE && u->rank >= u->s->late.founders;
}

/* A status that ends a view is told to all its calls. */
static int check(struct user *u, int status, const char *call)
{
    if (status == LOCO_OK)
        return SIM_FINE;
    WANT(status == LOCO_ERR_PARTITIONED
         || (status == LOCO_ERR_PEER_DEAD && !u->s->views.ready[u->rank]
             && sim_any_stopped(u->run))
         || (status == LOCO_ERR_PEER_DEAD && vw_has_joins(&u->s->views)
             && (u->s->views.outside[u->rank] || vw_is_alone(&u->s->views, u->run, u->rank))
             && (is_late(u) || !vw_is_stopped_for_minority(&u->s->views, u->run, u->rank))),
         "p%d, %s: %s", u->rank, call, loco_strerror(status));
    if (!u->s->views.ready[u->rank])
        u->s->views.ended[u->rank] = true;
    else if (!u->s->views.ended[u->rank])
        PASS(vw_end(&u->s->views, u->run, u->rank));
    return SIM_TOLD;
}

/* ---- who dies where ---- */

/* Of those who live, the lowest: it leads a change. */
static int lowest(const struct user *u)
{
    int rank = 0;

    while (rank < u->run->processes - 1 && loci_sim_is_stopped(rank))
        rank++;
    return rank;
}

static bool may_be_killed(const struct user *u, int rank)
{
    return u->s->kills > 0 && !loci_sim_is_stopped(rank) && !u->s->views.left[rank];
}

/* Does not return if it is this process. */
static bool kill_one(struct user *u, int rank)
{
    if (!may_be_killed(u, rank))
        return false;
    u->s->kills--;
    loci_sim_kill(rank);
    return true;
}

/* ---- what comes ---- */

/* What is delivered while a view is cut is delivered by what the leader proposed. Who knows of that
 * may die with it. Or another dies, and this process hears of it before it goes on. */
static void die_here(struct user *u)
{
    bool by_cut = u->view != NULL && u->view->cut;
    int victim;

    if (u->s->views.harm != VW_STEPS || by_cut != u->s->at_cut
        || loci_sim_draw(by_cut ? 2 : 6) != 0)
        return;
    if (by_cut) {
        kill_one(u, lowest(u));
        kill_one(u, u->rank);
        return;
    }
    victim = (int)loci_sim_draw((uint32_t)u->run->processes);
    if (kill_one(u, victim))
        for (int i = 0; i < 2000 && loci_peer_alive(u->rt, u->view->ep->group.peer[victim]); i++)
            loci_sim_pause();
}

static int take(struct part *p, const loco_delivery_t *messages, int n, bool handled)
{
    struct user *u = p->u;

    for (int i = 0; i < n; i++)
        PASS(mc_check(&p->p->g, u->rank, &messages[i]));
    loci_sim_pause();
    for (int i = 0; i < n; i++) {
        PASS(mc_check(&p->p->g, u->rank, &messages[i]));
        PASS(vw_note(p->p, &u->s->views, u->rank, &messages[i],
                     loco_view_of(u->view, p->m, messages[i].number), handled));
    }
    die_here(u);
    return SIM_FINE;
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct part *p = arg;

    if (n == 0)
        (void)check(p->u, LOCO_ERR_PARTITIONED, "the handler");
    (void)take(p, messages, n, true);
}

static void changed(void *arg, uint64_t number, const int *members, int n)
{
    struct user *u = arg;

    if (n == 0)
        (void)check(u, LOCO_ERR_PARTITIONED, "the change");
    else if (u->s->views.outside[u->rank]
             && vw_check_begin(u->s->group, u->s->groups, u->rank, number) != SIM_FINE)
        return;
    else
        (void)vw_install(&u->s->views, u->run, u->rank, number, members, n);
    if (n != 0)
        die_here(u);
}

/* ---- state ---- */

static size_t save(void *arg, uint64_t at, void *chunk, size_t room)
{
    struct user *u = arg;
    size_t n;

    if (at == 0)
        vw_save(&u->state, u->s->group, u->s->groups, u->rank);
    n = u->state.bytes - (size_t)at < room ? u->state.bytes - (size_t)at : room;
    memcpy(chunk, (unsigned char *)u->state.words + at, n);
    return n;
}

static void load(void *arg, uint64_t at, const void *chunk, size_t bytes)
{
    struct user *u = arg;

    if (at == 0)
        u->state.bytes = 0;
    if (at != u->state.bytes || at + bytes > sizeof u->state.words) {
        (void)loci_sim_fail("p%d is given %zu bytes of state at %llu, and has %zu", u->rank, bytes,
                            (unsigned long long)at, u->state.bytes);
        return;
    }
    memcpy((unsigned char *)u->state.words + at, chunk, bytes);
    u->state.bytes += bytes;
    if (bytes == 0)
        (void)vw_load(&u->state, u->s->group, u->s->groups, u->rank);
}

static int poll(struct part *p, bool *some)
{
    loco_delivery_t messages[3];
    int n = 0, max = 1 + (int)loci_sim_draw(3);
    int status = loci_sim_draw(3) == 0 ? loco_multicast_next(p->m, 2000, messages, max, &n)
                                       : loco_multicast_poll(p->m, messages, max, &n);

    if (status == LOCO_ERR_AGAIN || status == LOCO_ERR_TIMEOUT)
        return SIM_FINE;
    PASS(check(p->u, status, "poll"));
    *some = true;
    return take(p, messages, n, false);
}

static int poll_all(struct user *u, bool *some)
{
    for (int i = 0; i < u->s->groups; i++)
        if (u->part[i].p->g.polled[u->rank])
            PASS(poll(&u->part[i], some));
    return SIM_FINE;
}

/* ---- who sends ---- */

static int give_way(struct user *u, int thread)
{
    bool some = false;

    if (thread == 0)
        PASS(poll_all(u, &some));
    if (!some)
        loci_sim_sleep(1000);
    return SIM_FINE;
}

/* Who polls must not wait here for what others deliver, who may wait for its polling. */
static bool may_wait(const struct user *u)
{
    for (int i = 0; i < u->s->groups; i++)
        if (u->part[i].p->g.polled[u->rank])
            return false;
    return true;
}

static size_t make(struct part *p, int thread, void *words)
{
    size_t bytes;

    do {
        bytes = mc_make(&p->p->g, p->u->rank, thread, p->sent[thread], words);
    } while (bytes == 0);
    return bytes;
}

static int reserve(struct part *p, int thread, void **slot)
{
    int status;

    while ((status = may_wait(p->u) ? loco_multicast_reserve(p->m, slot)
                                    : loco_multicast_try_reserve(p->m, slot)) == LOCO_ERR_AGAIN)
        PASS(give_way(p->u, thread));
    return check(p->u, status, "reserve");
}

/* A slot may be reserved in one view and sent in another. */
static int send_slot(struct part *p, int thread, uint64_t *number)
{
    void *slot;
    size_t bytes;

    PASS(reserve(p, thread, &slot));
    bytes = make(p, thread, slot);
    loci_sim_pause();
    return check(p->u, loco_multicast_send(p->m, slot, bytes, number), "send");
}

static int send_whole(struct part *p, int thread, uint64_t *number)
{
    uint64_t words[MC_WORDS];
    size_t bytes = make(p, thread, words);
    int status;

    while ((status = may_wait(p->u) ? loco_multicast_post(p->m, words, bytes, number)
                                    : loco_multicast_try_post(p->m, words, bytes, number))
           == LOCO_ERR_AGAIN)
        PASS(give_way(p->u, thread));
    return check(p->u, status, "post");
}

static int see_delivered(struct part *p, uint64_t number, bool wait)
{
    int status = wait ? loco_multicast_wait_delivered(p->m, number)
                      : loco_multicast_is_delivered(p->m, number);

    if (status == LOCO_IN_PROGRESS)
        return SIM_FINE;
    PASS(check(p->u, status, "delivered"));
    return vw_check_delivered(p->p, &p->u->s->views, p->u->run, p->u->rank, number);
}

static int send(struct user *u, int thread, bool last)
{
    struct part *p = &u->part[loci_sim_draw((uint32_t)u->s->groups)];
    uint64_t number = 0;

    if (mc_sender(&p->p->g, u->rank) < 0) {
        u->s->views.sent_last[u->rank] += last;
        return SIM_FINE;
    }
    PASS(loci_sim_draw(2) == 0 ? send_whole(p, thread, &number)
                               : send_slot(p, thread, &number));
    p->sent[thread]++;
    p->p->sent[u->rank]++;
    p->p->g.sent++;
    u->s->views.sent_last[u->rank] += last;
    return loci_sim_draw(2) == 0 ? see_delivered(p, number, may_wait(u)) : SIM_FINE;
}

/* ---- who dies ---- */

static void harm(struct user *u)
{
    int victim = loci_sim_draw(2) == 0 ? lowest(u)
                                       : (int)loci_sim_draw((uint32_t)u->run->processes);

    if (victim == u->rank || u->s->early == 0 || !may_be_killed(u, victim))
        return;
    u->s->early--;
    if (u->s->views.harm == VW_GUESSES && loci_sim_draw(2) == 0) {
        u->s->kills--;
        (void)loci_view_suspect(u->view, victim);
    } else {
        (void)kill_one(u, victim);
    }
}

/* It has proposed, or echoed, an end of its view. */
static bool is_changing(const struct loco_view *v)
{
    return v->own[LOCI_VIEW_DECIDED] / LOCI_VIEW_MEMBERS == v->view + 1;
}

/* It is to come, and has no state yet. */
static bool is_coming(const struct loco_view *v)
{
    return v->stage == LOCI_VIEW_COMING || v->stage == LOCI_VIEW_LOADING;
}

/* Until that is so of somebody; for some steps at most. */
static void await_any(const struct user *u, bool (*is_so)(const struct loco_view *v))
{
    int steps = (int)loci_sim_draw(200);

    for (int i = 0; i < steps; i++) {
        const struct loco_view *v = u->s->views.at[i % u->run->processes];

        if (v != NULL && is_so(v))
            return;
        loci_sim_pause();
    }
}

/* Until that member has proposed, or echoed, an end of its view; for a time at most. */
static bool await_echo(const struct user *u, int rank)
{
    for (int i = 0; i < 20000; i++) {
        const struct loco_view *v = u->s->views.at[rank];

        if (v != NULL && is_changing(v))
            return true;
        if (i < 200)
            loci_sim_pause();
        else
            loci_sim_sleep(1000);
    }
    return false;
}

/* VW_SPLIT: 0 proposes the first change, for the last member has left. 2 echoes that, and then each
 * of 0 and 1 suspects the other, and has a majority with 2. The network is as slow as it can be
 * where that lets both go on: 1 is to propose, too, without what 0 has, and 2 is to follow it. */
static int split(struct user *u)
{
    if (u->rank <= 1 && await_echo(u, 2))
        (void)loci_view_suspect(u->view, 1 - u->rank);
    return SIM_FINE;
}

static bool is_decided(const struct loco_view *v)
{
    return v->own[LOCI_VIEW_DECIDED] >= LOCI_VIEW_MEMBERS;
}

static bool suspects(const struct loco_view *v, int rank)
{
    return loci_view_has(v->own[LOCI_VIEW_SUSPECTED], rank);
}

static bool is_held(void *arg, int from, int to)
{
    struct state *s = arg;
    const struct loco_view *a = s->views.at[0], *b = s->views.at[1], *c = s->views.at[2];

    if (a == NULL || b == NULL || c == NULL || !is_decided(a))
        return false;
    if (s->asked++ == 0)
        s->held_since = loci_sim_time();
    if (s->asked > HELD || loci_sim_time() > s->held_since + HELD_NS)
        return false;
    switch (from * 3 + to) {
    case 0 * 3 + 1: return !suspects(b, 0);
    case 1 * 3 + 0: return suspects(b, 0) && !suspects(a, 1);
    case 2 * 3 + 1: return is_decided(c) && !is_decided(b);
    case 0 * 3 + 2: return suspects(a, 1) && !suspects(c, 0);
    case 2 * 3 + 0: return suspects(c, 0) && a->view == 0 && !a->ended;
    default: return false;
    }
}

/* After a time of any length, and perhaps soon after that, in the midst of what it has led to. */
static int harm_others(struct user *u)
{
    if (u->s->views.harm == VW_SPLIT)
        return split(u);
    for (int i = 0; i < 4; i++) {
        if (loci_sim_draw(2) == 0)
            loci_sim_sleep((int64_t)loci_sim_draw(1u << loci_sim_draw(16)));
        else
            await_any(u, u->s->views.harm == VW_JOINS && loci_sim_draw(2) == 0 ? is_coming
                                                                               : is_changing);
        harm(u);
    }
    return SIM_FINE;
}

/* ---- a process ---- */

/* This one has been given all that will ever come. */
static bool has_all(const struct user *u)
{
    const struct state *s = u->s;
    bool all = true;

    for (int from = 0; from < u->run->processes; from++)
        for (int i = 0; i < s->groups && vw_goes_on(&s->views, from); i++)
            all = all && s->views.sent_last[from] == u->run->threads
                  && s->group[i].g.from[u->rank][from] == s->group[i].sent[from];
    return all;
}

/* All who go on are given all that they send. Some who have it all poll once more, so that it
 * counts as delivered, and then no more. */
static int take_rest(struct user *u)
{
    struct state *s = u->s;
    int64_t end = loci_sim_time() + PATIENCE, ns = 1000;
    bool polls = true;

    for (;;) {
        bool some = false, all = true, last = s->views.harm == VW_STEPS && has_all(u);

        if (polls)
            PASS(poll_all(u, &some));
        polls = !last;
        for (int i = 0; i < s->groups; i++)
            all = all && vw_all_given(&s->group[i], &s->views, u->run);
        if (all || s->views.ended[u->rank])
            return SIM_FINE;
        if (some)
            continue;
        WANT(loci_sim_time() < end, "p%d: not all who go on are given all that was sent", u->rank);
        loci_sim_sleep(ns);
        ns = ns < LONGEST_SLEEP ? 2 * ns : ns;
    }
}

static bool is_anybody_else(const struct user *u)
{
    for (int rank = 0; rank < u->run->processes; rank++)
        if (rank != u->rank && vw_is_there(&u->s->views, rank))
            return true;
    return false;
}

/* A member, or outside. Who polls goes on to do so. Who is the last member stays. */
static int be(struct user *u, bool in)
{
    int tries = 0, status;
    bool some;

    loci_sim_sleep((int64_t)loci_sim_draw(1u << loci_sim_draw(16)));
    u->s->views.leaving[u->rank] = u->s->views.leaving[u->rank] || !in;
    do {
        int64_t ns = may_wait(u) && loci_sim_draw(2) == 0 ? 2000 : 0;

        status = in ? loco_view_join(u->view, ns) : loco_view_leave(u->view, ns);
        if (status != LOCO_ERR_TIMEOUT)
            return check(u, status, in ? "join" : "leave");
        PASS(poll_all(u, &some));
        loci_sim_sleep(INT64_C(1000) << (tries < 16 ? tries : 16));
    } while (tries++ < 4000 && (in || is_anybody_else(u)));
    return in || is_anybody_else(u) ? loci_sim_fail("p%d asks in vain to be %s", u->rank,
                                                    in ? "a member" : "outside") : SIM_FINE;
}

/* So that the view changes: the last. */
static bool must_leave(const struct user *u)
{
    return u->s->views.harm == VW_SPLIT && u->rank == u->run->processes - 1;
}

static int body_of_thread(void *arg, int thread)
{
    struct user *u = arg;
    int result = SIM_FINE;
    bool some;

    if (thread == u->run->threads)
        return harm_others(u);
    if (thread > u->run->threads)
        return check(u, vw_admit(&u->s->late, &u->s->views, u->run, u->rank, u->view), "admit");
    if (thread == 0 && (u->s->outside >> u->rank & 1) != 0)
        result = be(u, true);
    for (int i = 0; i < u->run->rounds && result == SIM_FINE; i++) {
        if (thread == 0 && vw_has_joins(&u->s->views) && loci_sim_draw(3) == 0) {
            result = be(u, false);
            if (result == SIM_FINE)
                result = be(u, true);
            if (result != SIM_FINE)
                break;
        }
        result = send(u, thread, i == u->run->rounds - 1);
        if (thread == 0 && result == SIM_FINE)
            result = poll_all(u, &some);
    }
    if (--u->busy == 0)
        u->s->views.over[u->rank] = true;
    if (thread != 0 || result == SIM_WRONG)
        return result;
    /* Somebody may leave as soon as it has sent, whatever becomes of that. */
    if ((loci_sim_draw(8) == 0 || must_leave(u)) && u->busy == 0 && u->s->views.ready[u->rank]) {
        u->s->views.left[u->rank] = true;
        return SIM_FINE;
    }
    return take_rest(u);
}

static int create_view(struct user *u, const loco_view_options_t *options)
{
    const struct vw_late *late = &u->s->late;
    int founders = u->s->views.harm == VW_LATE ? late->founders : u->run->processes;
    int ranks[MC_PROCESSES], status;
    loco_group_t *group;

    if (is_late(u))
        return loco_view_enter(u->rt, late->ticket[u->rank], late->ticket_bytes[u->rank], options,
                               &u->view);
    if (founders == u->run->processes)
        return loco_view_create(u->rt, NULL, "view", loco_everyone(u->rt), options, &u->view);
    for (int i = 0; i < founders; i++)
        ranks[i] = i;
    status = loco_group_subset(loco_everyone(u->rt), founders, ranks, &group);
    if (status == LOCO_OK)
        status = loco_view_create(u->rt, NULL, "view", group, options, &u->view);
    loco_group_destroy(group);
    return status;
}

static int make_view(struct user *u)
{
    const bool joins = vw_has_joins(&u->s->views);
    const loco_view_options_t options = {
        .changed = changed, .arg = u, .save = joins ? save : NULL, .load = joins ? load : NULL,
        .flags = is_late(u) ? 0 : u->s->flags, .multicasts = 2,
        .outside = is_late(u) ? 0 : u->s->outside & ((UINT64_C(1) << u->s->late.founders) - 1),
        .chunk = is_late(u) ? 0 : u->s->chunk, .seats = u->run->processes,
    };

    return check(u, create_view(u, &options), "create") == SIM_FINE ? SIM_FINE : SIM_WRONG;
}

static int make_all(struct user *u)
{
    static const char *const names[MC_GROUPS] = { "one", "two" };

    PASS(make_view(u));
    u->s->views.majority = u->view->needs_majority;
    u->s->views.at[u->rank] = u->view;
    for (int i = 0; i < u->s->groups; i++) {
        struct part *p = &u->part[i];
        struct mc_group *g = &u->s->group[i].g;
        loco_multicast_options_t o = {
            .senders = g->senders, .nsenders = g->nsenders, .slots = g->slots,
            .slot_bytes = g->slot_bytes, .flags = g->flags,
            .handler = g->polled[u->rank] ? NULL : handle, .arg = p,
        };

        p->u = u;
        p->p = &u->s->group[i];
        PASS(check(u, loco_view_multicast(u->view, names[i], &o, &p->m), "multicast"));
    }
    return SIM_FINE;
}

/* Who is not ready when somebody dies is told so, by the view, too. */
static int use(struct user *u)
{
    int status, more = 1 + (u->s->views.harm == VW_LATE);

    if (is_late(u)) {
        status = vw_come(&u->s->late, &u->s->views, u->run, u->rank, &u->rt);
        u->s->views.ended[u->rank] = status != SIM_FINE;
        PASS(status);
    }
    PASS(make_all(u));
    status = is_late(u) ? vw_wait_ready(&u->s->late, &u->s->views, u->run, u->rank, u->rt)
             : loco_runtime_wait_ready(u->rt, sim_patience(u->run));
    if (is_late(u) && status == LOCO_ERR_TIMEOUT) {
        u->s->views.ended[u->rank] = true;
        return SIM_TOLD;
    }
    if (status != LOCO_OK && (status != LOCO_ERR_PEER_DEAD || !sim_any_stopped(u->run))
        && (!is_late(u) || status != u->view->status))
        return loci_sim_fail("p%d: not ready: %s", u->rank, loco_strerror(status));
    u->s->views.ready[u->rank] = status == LOCO_OK;
    u->busy = u->run->threads;
    return loci_sim_threads(u->rt, u->run->threads + more, body_of_thread, u);
}

static void draw_outside(struct state *s, const struct sim_run *run)
{
    const uint64_t founders = (UINT64_C(1) << s->late.founders) - 1;

    for (int rank = 0; rank < run->processes; rank++) {
        s->views.outside[rank] = rank >= s->late.founders
                                 || (loci_sim_draw(3) == 0
                                     && (s->outside | UINT64_C(1) << rank) != founders);
        if (s->views.outside[rank])
            s->outside |= UINT64_C(1) << rank;
    }
    s->views.members[0] &= ~s->outside;
}

static void draw(struct state *s, const struct sim_run *run)
{
    static const int flags[] = { 0, LOCO_VIEW_MINORITY, LOCO_VIEW_MAJORITY };

    s->drawn = true;
    s->groups = 1 + (loci_sim_draw(3) == 0);
    s->kills = (int)loci_sim_draw(run->processes > 4 ? 4 : 3);
    s->early = s->kills;
    s->views.members[0] = (UINT64_C(1) << run->processes) - 1;
    s->late.founders = run->processes;
    if (s->views.harm == VW_LATE)
        s->late.founders = 1 + (int)loci_sim_draw((uint32_t)run->processes - 1);
    if (vw_has_joins(&s->views)) {
        draw_outside(s, run);
        s->chunk = 8u << loci_sim_draw(8);
    }
    if (s->views.harm == VW_STEPS) {
        s->kills = run->processes > 4 ? 3 : 2;
        s->at_cut = loci_sim_draw(2) == 0;
        s->early = s->at_cut ? 1 : 0;
    }
    s->flags = s->views.guesses ? LOCO_VIEW_MAJORITY : flags[loci_sim_draw(3)];
    /* So that it may be lost at any moment of a join. */
    if (s->views.harm == VW_JOINS && s->flags == LOCO_VIEW_MAJORITY)
        s->kills = s->early = (run->processes + 1) / 2;
    for (int i = 0; i < s->groups; i++) {
        struct mc_group *g = &s->group[i].g;

        mc_draw(g, run);
        g->flags &= LOCO_MULTICAST_COPY;
        g->first = 0;
    }
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct sim_run *run = arg;
    struct state *s = run->state;
    struct user u = { .run = run, .s = s, .rt = rt, .rank = rank };
    struct sim_seat seat = sim_seat(s->common.place, rt, rank);
    int result;

    if (!s->drawn)
        draw(s, run);
    if (s->views.harm == VW_SPLIT)
        loci_sim_hold(is_held, s);
    result = use(&u);
    seat.rt = u.rt;
    if (result != SIM_WRONG && s->views.left[rank]) {
        s->views.at[rank] = NULL;
        loco_view_destroy(u.view);
        u.view = NULL;
    }
    result = sim_part(&seat, result);
    s->views.left[rank] = true;
    s->views.at[rank] = NULL;
    loco_view_destroy(u.view);
    return result;
}

/* ---- the whole ---- */

static int begin(struct sim_run *run)
{
    loci_multicast_parts = LOCI_MC_ALL;
    if (run->processes > MC_PROCESSES || run->threads > MC_HANDLER
        || run->processes * run->threads * run->rounds > MC_MESSAGES)
        return -1;
    return sim_state_begin(run, sizeof(struct state));
}

static int begin_with(struct sim_run *run, enum vw_harm harm)
{
    struct state *s;

    if (begin(run) != 0)
        return -1;
    s = run->state;
    s->views.harm = harm;
    s->views.guesses = harm == VW_GUESSES || harm == VW_SPLIT;
    return 0;
}

static int begin_guesses(struct sim_run *run)
{
    return begin_with(run, VW_GUESSES);
}

static int begin_split(struct sim_run *run)
{
    return begin_with(run, VW_SPLIT);
}

static int begin_joins(struct sim_run *run)
{
    return begin_with(run, VW_JOINS);
}

static int begin_late(struct sim_run *run)
{
    return begin_with(run, VW_LATE);
}

static int begin_steps(struct sim_run *run)
{
    return begin_with(run, VW_STEPS);
}

static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_SLEEP_AFTER=0", NULL };

extern const struct sim_scenario sim_scenario_view, sim_scenario_view_guess,
    sim_scenario_view_join, sim_scenario_view_late, sim_scenario_view_split,
    sim_scenario_view_steps;
const struct sim_scenario sim_scenario_view = {
    .name = "view",
    .about = "members of a view die, or leave: those who go on are given the same messages in the "
             "same views, and all of their own",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings, .long_runs = true,
    .begin = begin, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_view_guess = {
    .name = "view_guess",
    .about = "the same where members are suspected that live: those who go on are a majority",
    .processes = 5, .threads = 1, .rounds = 2, .processes_min = 1,
    .settings = settings, .long_runs = true,
    .begin = begin_guesses, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_view_join = {
    .name = "view_join",
    .about = "processes come later, go out and come again, while others die: each begins with the "
             "state after the last message of the view before",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings, .long_runs = true,
    .begin = begin_joins, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_view_late = {
    .name = "view_late",
    .about = "the same; and some processes did not exist when the view was made: members admit "
             "them",
    .processes = 4, .threads = 1, .rounds = 3, .processes_min = 2,
    .settings = settings, .long_runs = true,
    .begin = begin_late, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_view_split = {
    .name = "view_split",
    .about = "two members take each other for dead while a view ends, and the others hear of it "
             "late: there is one next view",
    .processes = 4, .threads = 1, .rounds = 2, .processes_min = 4,
    .settings = settings, .long_runs = true,
    .begin = begin_split, .body = body, .free = sim_state_free,
};

const struct sim_scenario sim_scenario_view_steps = {
    .name = "view_steps",
    .about = "members die as they are given messages, or a view, and with them who knows the same",
    .processes = 5, .threads = 1, .rounds = 3, .processes_min = 1,
    .settings = settings, .long_runs = true,
    .begin = begin_steps, .body = body, .free = sim_state_free,
};
