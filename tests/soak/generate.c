/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs: statements are proposed, and the model takes or refuses them. A program is a
 * row of phases; in each, some windows have a way of synchronising, and what happens in them is
 * interleaved at random.
 */
#include "generate.h"

#include "close.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { HOT = 16, TRIES = 5, STATEMENTS = 400 };

enum way { W_FENCE, W_PSCW, W_LOCK, W_LOCK_ALL, W_RMW, W_LOCAL, WAYS };

/* Where accumulates were, so that others go there too. */
struct hot {
    int win, target, part, el, n, op;
    long at;
    struct buffer remote;
    uint64_t seed;
};

struct gen {
    struct program *p;
    struct model *m;
    uint64_t state;
    struct draw d;
    enum way way[SOAK_WINDOWS];
    struct hot hot[HOT];
    int hots, requests;
};

static int below(struct gen *g, int bound)
{
    return draw_below(&g->d, bound);
}

static bool chance(struct gen *g, int percent)
{
    return draw_chance(&g->d, percent);
}

static bool try(struct gen *g, const struct statement *s)
{
    return program_try(g->p, g->m, s);
}

static struct statement blank(struct gen *g, enum verb verb, int rank, int win)
{
    return (struct statement){.verb = verb, .rank = rank, .win = win, .request = -1,
                              .thread = rank >= 0 ? below(g, g->p->threads) : 0};
}

static const struct comm_spec *members(const struct gen *g, int win)
{
    return &g->p->comm[g->p->window[win].comm];
}

static int any_member(struct gen *g, int win)
{
    const struct comm_spec *c = members(g, win);

    return c->rank[below(g, c->n)];
}

static void join(struct gen *g, int rank)
{
    struct statement s = blank(g, V_JOIN, rank, 0);

    s.thread = 0;
    if (g->p->threads > 1)
        try(g, &s);
}

/* With several threads the one chosen may not know of what another has begun. */
static bool try_joined(struct gen *g, struct statement *s)
{
    if (try(g, s))
        return true;
    if (g->p->threads == 1)
        return false;
    if (chance(g, 50))
        join(g, s->rank);
    else
        s->thread = below(g, g->p->threads);
    return try(g, s);
}

/* ---- heads ---- */

static void draw_comms(struct gen *g)
{
    struct program *p = g->p;

    p->comms = p->ranks > 1 ? 1 + below(g, 3) : 1;
    for (int i = 0; i < p->comms; i++) {
        struct comm_spec *c = &p->comm[i];
        for (int r = 0; r < p->ranks; r++)
            if (i == 0 || chance(g, 60))
                c->rank[c->n++] = r;
        if (c->n == 0)
            c->rank[c->n++] = below(g, p->ranks);
        for (int k = c->n - 1; k > 0 && i > 0; k--) {
            int j = below(g, k + 1), r = c->rank[k];
            c->rank[k] = c->rank[j];
            c->rank[j] = r;
        }
    }
}

static long draw_bytes(struct gen *g)
{
    switch (below(g, 12)) {
    case 0: return 0;
    case 1: return 1 + below(g, 32);
    case 2:
    case 3: return 1024 + below(g, 3072);
    case 4: return chance(g, 15) ? 65536 + below(g, 70000) : 4096;
    default: return 8 * (8 + below(g, 56));
    }
}

static void draw_parts(struct gen *g, struct window_spec *w)
{
    static const int units[8] = {1, 1, 4, 8, 8, 2, 16, 3};
    const struct comm_spec *c = &g->p->comm[w->comm];
    bool same = chance(g, 60);
    long bytes = draw_bytes(g);
    int unit = units[below(g, 8)];

    w->parts = w->flavor == DYNAMIC ? 1 + below(g, 2 * c->n) : c->n;
    for (int i = 0; i < w->parts; i++) {
        struct part_spec *part = &w->part[i];
        part->owner = w->flavor == DYNAMIC ? c->rank[below(g, c->n)] : c->rank[i];
        part->bytes = same ? bytes : draw_bytes(g);
        part->unit = w->flavor == DYNAMIC ? 1 : same ? unit : units[below(g, 8)];
        if (w->flavor == DYNAMIC && part->bytes == 0)
            part->bytes = 64;
    }
}

static void add_info(struct window_spec *w, const char *key, const char *value)
{
    w->key[w->infos] = key;
    w->value[w->infos++] = value;
}

static void draw_infos(struct gen *g, struct window_spec *w)
{
    static const char *const orders[4] = {"none", "rar,waw", "war", "rar,raw,war,waw"};
    bool same_size = true, same_unit = true;

    for (int i = 1; i < w->parts; i++) {
        same_size &= w->part[i].bytes == w->part[0].bytes;
        same_unit &= w->part[i].unit == w->part[0].unit;
    }
    if (chance(g, 12))
        add_info(w, "no_locks", "true");
    if (chance(g, 12))
        add_info(w, "accumulate_ordering", orders[below(g, 4)]);
    if (chance(g, 12))
        add_info(w, "accumulate_ops", chance(g, 50) ? "same_op" : "same_op_no_op");
    else if (chance(g, 20))
        add_info(w, "loco_accumulate", "bulk");
    if (w->flavor == SHARED && chance(g, 30))
        add_info(w, "alloc_shared_noncontig", "true");
    else if (w->flavor != DYNAMIC && same_size && chance(g, 15))
        add_info(w, "same_size", "true");
    else if (w->flavor != DYNAMIC && same_unit && chance(g, 15))
        add_info(w, "same_disp_unit", "true");
}

static void draw_windows(struct gen *g)
{
    struct program *p = g->p;

    p->windows = 1 + (chance(g, 50) ? below(g, 4) : 0);
    for (int i = 0; i < p->windows; i++) {
        struct window_spec *w = &p->window[i];
        w->flavor = (enum flavor)below(g, FLAVORS);
        w->comm = chance(g, 60) ? 0 : below(g, p->comms);
        w->seed = (uint64_t)below(g, 1000000);
        w->fill = chance(g, 55) ? below(g, el_type_count) : -1;
        draw_parts(g, w);
        draw_infos(g, w);
    }
}

/* ---- what moves data ---- */

static bool fits(const struct gen *g, const struct statement *s, long *low, long *high)
{
    const struct buffer *b = s->verb == V_LOAD ? &s->result : s->verb == V_STORE ? &s->origin
                                                                                 : &s->remote;
    struct layout l;

    layout_of(b, &l);
    *low = l.low < 0 ? -l.low : 0;
    *high = g->p->window[s->win].part[s->part].bytes - (l.high > 0 ? l.high : 0);
    layout_free(&l);
    return *low <= *high;
}

/* A displacement at which the statement's memory lies inside. */
static bool draw_place(struct gen *g, struct statement *s, int el)
{
    long low, high, unit = g->p->window[s->win].part[s->part].unit, step = unit, at;
    int extent = el_types[el].extent;

    if (!fits(g, s, &low, &high))
        return false;
    if (chance(g, 85))
        while (step % extent != 0 && step < 256)
            step += unit;
    if (step >= 256)
        step = unit;
    at = low + (step - low % step) % step;
    if (at > high)
        at = low + (unit - low % unit) % unit;
    else
        at += step * (long)below(g, (int)((high - at) / step > 40 && chance(g, 60)
                                              ? 40 : (high - at) / step + 1));
    s->at = at;
    return at <= high;
}

static bool draw_target(struct gen *g, struct statement *s)
{
    const struct window_spec *w = &g->p->window[s->win];

    if (s->target < 0)
        return true;
    s->part = part_of(w, s->target);
    if (w->flavor == DYNAMIC) {
        s->part = below(g, w->parts);
        if (w->part[s->part].owner != s->target)
            return false;
    }
    return true;
}

static int draw_count(struct gen *g)
{
    switch (below(g, 10)) {
    case 0: return chance(g, 30) ? 0 : 1;
    case 1: return 24 + below(g, 100);
    case 2: return chance(g, 20) ? 2000 + below(g, 6000) : 12;
    case 3:
    case 4: return 1;
    default: return 1 + below(g, 24);
    }
}

static int draw_element(struct gen *g, const struct statement *s)
{
    int fill = g->p->window[s->win].fill;

    return fill >= 0 && chance(g, 65) ? fill : below(g, el_type_count);
}

static int draw_op(struct gen *g, int el, bool fetches)
{
    int op;

    do
        op = below(g, EL_OPS);
    while (!el_allowed(&el_types[el], (enum el_op)op) || (op == EL_NO_OP && !fetches) ||
           (op == EL_REPLACE && chance(g, 60)));
    return op;
}

static void keep_hot(struct gen *g, const struct statement *s, int el, int n)
{
    g->hot[g->hots++ % HOT] = (struct hot){s->win, s->target, s->part, el, n, s->op, s->at,
                                           s->remote, s->seed};
}

static const struct hot *find_hot(struct gen *g, int win, int target)
{
    const struct hot *h;

    if (g->hots == 0)
        return NULL;
    h = &g->hot[below(g, g->hots < HOT ? g->hots : HOT)];
    return h->win == win && h->target == target ? h : NULL;
}

static int depth(struct gen *g)
{
    return chance(g, 50) ? 0 : 1 + below(g, 3);
}

/* Put and get of anything, at a place of its own or where something was. */
static bool draw_move(struct gen *g, struct statement *s)
{
    bool put = s->verb == V_PUT || s->verb == V_RPUT;
    struct buffer *mine = put ? &s->origin : &s->result, side[DRAW_SIDES];
    const struct hot *h = s->target >= 0 && chance(g, 30) ? find_hot(g, s->win, s->target) : NULL;
    int el = h != NULL ? h->el : draw_element(g, s), n = h != NULL ? h->n : draw_count(g);

    if (h == NULL && chance(g, 15)) {
        draw_mixed(&g->d, side, 2);
        *mine = side[0];
        s->remote = side[1];
        n = 0;
    } else {
        *mine = draw_buffer(&g->d, el, n, depth(g));
        s->remote = h != NULL ? h->remote : draw_buffer(&g->d, el, n, depth(g));
    }
    s->op = EL_REPLACE;
    if (s->target < 0)
        return true;
    if (h != NULL) {
        s->part = h->part;
        s->at = h->at;
    } else if (!draw_place(g, s, el)) {
        return false;
    }
    if (n > 0)
        keep_hot(g, s, el, n);
    return true;
}

static bool single(enum verb v)
{
    return v == V_FOP || v == V_CAS;
}

static void follow_hot(struct gen *g, struct statement *s, const struct hot *h)
{
    s->part = h->part;
    s->at = h->at;
    s->remote = single(s->verb) ? plain_buffer(&g->d, h->el, 1) : h->remote;
    if (chance(g, 75) && h->op < EL_OPS && el_allowed(&el_types[h->el], (enum el_op)h->op) &&
        (h->op != EL_NO_OP || verb_fetches(s->verb)))
        s->op = h->op;
    if (s->verb == V_CAS) {
        s->compare = h->seed;
        if (chance(g, 40))
            s->seed = h->seed + 1;
    }
}

static bool draw_accumulate(struct gen *g, struct statement *s)
{
    const struct hot *h = s->target >= 0 && chance(g, 55) ? find_hot(g, s->win, s->target) : NULL;
    bool fetches = verb_fetches(s->verb);
    int el = h != NULL ? h->el : draw_element(g, s);
    int n = single(s->verb) ? 1 : h != NULL ? h->n : draw_count(g);

    if (s->verb == V_CAS && !el_swappable(&el_types[el]))
        return false;
    s->op = draw_op(g, el, fetches);
    s->compare = (uint64_t)below(g, 1000000);
    if (h != NULL)
        follow_hot(g, s, h);
    else
        s->remote = single(s->verb) ? plain_buffer(&g->d, el, 1)
                                    : draw_buffer(&g->d, el, n, depth(g));
    s->origin = single(s->verb) ? plain_buffer(&g->d, el, 1)
                                : draw_buffer(&g->d, el, n, depth(g));
    if (fetches)
        s->result = single(s->verb) ? plain_buffer(&g->d, el, 1)
                                    : draw_buffer(&g->d, el, n, depth(g));
    if (s->op == EL_NO_OP && s->verb == V_RGACC && chance(g, 50))
        s->origin = plain_buffer(&g->d, el, 0);
    if (h == NULL && s->target >= 0 && !draw_place(g, s, el))
        return false;
    if (n > 0 && s->target >= 0)
        keep_hot(g, s, el, n);
    return true;
}

static enum verb draw_verb(struct gen *g, bool passive)
{
    static const enum verb verbs[16] = {V_PUT, V_PUT, V_PUT, V_PUT, V_GET, V_GET, V_GET, V_ACC,
                                        V_ACC, V_ACC, V_GACC, V_GACC, V_GACC, V_FOP, V_FOP,
                                        V_CAS};
    enum verb v = verbs[below(g, 16)];

    if (!passive || chance(g, 65))
        return v;
    switch (v) {
    case V_PUT: return V_RPUT;
    case V_GET: return V_RGET;
    case V_ACC: return V_RACC;
    case V_GACC: return V_RGACC;
    default: return v;
    }
}

static bool operation(struct gen *g, int win, int rank, int target, bool passive)
{
    for (int i = 0; i < TRIES; i++) {
        struct statement s = blank(g, draw_verb(g, passive), rank, win);
        s.target = chance(g, 1) ? -1 : target;
        s.seed = (uint64_t)below(g, 1000000);
        if (!draw_target(g, &s) ||
            !(verb_accumulates(s.verb) ? draw_accumulate(g, &s) : draw_move(g, &s)))
            continue;
        if (s.verb == V_RPUT || s.verb == V_RGET || s.verb == V_RACC || s.verb == V_RGACC)
            s.request = g->requests;
        if (!try_joined(g, &s))
            continue;
        g->requests += s.request >= 0;
        return true;
    }
    return false;
}

static bool local(struct gen *g, int win, int rank)
{
    struct statement s = blank(g, chance(g, 50) ? V_LOAD : V_STORE, rank, win);
    struct buffer b;
    int el = draw_element(g, &s);

    s.target = g->p->window[win].flavor == SHARED && chance(g, 50) ? any_member(g, win) : rank;
    s.seed = (uint64_t)below(g, 1000000);
    s.op = EL_REPLACE;
    b = plain_buffer(&g->d, el, 1 + below(g, 12));
    if (s.verb == V_LOAD)
        s.result = b;
    else
        s.origin = b;
    return draw_target(g, &s) && draw_place(g, &s, el) && try_joined(g, &s);
}

/* ---- ways to synchronise, a step at a time ---- */

static void simple(struct gen *g, enum verb verb, int rank, int win)
{
    struct statement s = blank(g, verb, rank, win);

    try_joined(g, &s);
}

static void step_fence(struct gen *g, int win)
{
    struct statement s = blank(g, V_FENCE, -1, win);

    if (model_fence_open(g->m, win) && chance(g, 80)) {
        if (chance(g, 15))
            local(g, win, any_member(g, win));
        else
            operation(g, win, any_member(g, win), any_member(g, win), false);
        return;
    }
    for (int i = 1; i < ASSERT_NAMES; i++)
        if (chance(g, i == ASSERT_NAMES - 1 ? 5 : 25))
            s.asserts |= assert_names[i].flag;
    if (!try(g, &s)) {
        s.asserts = 0;
        try(g, &s);
    }
}

/* Everyone who is not exposed posts to some; then those start. */
static void open_pscw(struct gen *g, int win)
{
    const struct comm_spec *c = members(g, win);

    for (int i = 0; i < c->n; i++) {
        struct statement s = blank(g, V_POST, c->rank[i], win);
        if (model_exposed(g->m, win, c->rank[i]) || chance(g, 25))
            continue;
        for (int k = 0; k < c->n; k++)
            if (chance(g, 55))
                s.list[s.n++] = c->rank[k];
        for (int k = 0; k < 3; k++)
            if (chance(g, 20))
                s.asserts |= assert_names[k].flag;
        try_joined(g, &s);
    }
}

static void start(struct gen *g, int win, int rank)
{
    struct statement s = blank(g, V_START, rank, win);
    const struct comm_spec *c = members(g, win);

    for (int i = 0; i < c->n; i++)
        if (model_posted(g->m, win, c->rank[i], rank))
            s.list[s.n++] = c->rank[i];
    if (s.n == 0)
        return;
    s.asserts = chance(g, 20) ? MPI_MODE_NOCHECK : 0;
    for (int i = s.n - 1; i > 0; i--) {
        int j = below(g, i + 1), t = s.list[i];
        s.list[i] = s.list[j];
        s.list[j] = t;
    }
    if (chance(g, 30))
        s.n = 1 + below(g, s.n);
    if (!try_joined(g, &s)) {
        s.asserts ^= MPI_MODE_NOCHECK;
        try_joined(g, &s);
    }
}

static void step_pscw(struct gen *g, int win)
{
    int r = any_member(g, win);

    if (chance(g, 12))
        open_pscw(g, win);
    else if (chance(g, 10))
        local(g, win, r);
    else if (!model_started(g->m, win, r))
        start(g, win, r);
    else if (chance(g, 80))
        operation(g, win, r, any_member(g, win), false);
    else
        simple(g, V_COMPLETE, r, win);
    if (model_exposed(g->m, win, r) && chance(g, 15))
        simple(g, chance(g, 50) ? V_WAIT : V_TEST, r, win);
}

static void wait_some(struct gen *g, int rank)
{
    static const enum verb verbs[4] = {V_WAITALL, V_WAITANY, V_WAITONE, V_TESTALL};
    struct statement s = blank(g, verbs[below(g, 4)], rank, 0);
    int list[SOAK_LIST], n = model_requests(g->m, rank, list, SOAK_LIST);

    for (int i = 0; i < n; i++) {       /* in random order */
        int j = below(g, i + 1);
        s.list[i] = s.list[j];
        s.list[j] = list[i];
    }
    s.n = n > 1 && chance(g, 50) ? 1 + below(g, n) : n;
    if (s.n > 0)
        try_joined(g, &s);
}

static void flush(struct gen *g, int win, int rank, int target)
{
    struct statement s = blank(g, (enum verb)(V_FLUSH + below(g, 4)), rank, win);

    s.target = target;
    try_joined(g, &s);
}

static void inside_passive(struct gen *g, int win, int rank, int target)
{
    switch (below(g, 16)) {
    case 0:
    case 1: flush(g, win, rank, target); break;
    case 2: simple(g, V_SYNC, rank, win); break;
    case 3: local(g, win, rank); break;
    case 4: wait_some(g, rank); break;
    default: operation(g, win, rank, target, true); break;
    }
}

static void lock(struct gen *g, int win, int rank, int target)
{
    struct statement s = blank(g, V_LOCK, rank, win);

    s.target = target;
    s.exclusive = chance(g, 50);
    s.asserts = chance(g, 15) ? MPI_MODE_NOCHECK : 0;
    if (!try_joined(g, &s)) {
        s.asserts = 0;
        try_joined(g, &s);
    }
}

static void step_lock(struct gen *g, int win)
{
    int r = any_member(g, win), t = any_member(g, win);
    struct statement s = blank(g, V_UNLOCK, r, win);

    for (int i = 0; i < 4 && !model_locked(g->m, win, r, t); i++)
        t = any_member(g, win);
    s.target = t;
    if (!model_locked(g->m, win, r, t))
        lock(g, win, r, t);
    else if (chance(g, 20))
        try_joined(g, &s);
    else
        inside_passive(g, win, r, t);
}

/* What one has put is there for all to load. */
static void all_flush_and_meet(struct gen *g, int win)
{
    const struct comm_spec *c = members(g, win);
    struct statement s = blank(g, V_BARRIER, -1, win);

    for (int i = 0; i < c->n; i++)
        if (model_locked_all(g->m, win, c->rank[i])) {
            simple(g, V_FLUSH_ALL, c->rank[i], win);
            simple(g, V_SYNC, c->rank[i], win);
            join(g, c->rank[i]);
        }
    s.comm = g->p->window[win].comm;
    try(g, &s);
    for (int i = 0; i < c->n; i++)
        if (model_locked_all(g->m, win, c->rank[i]) && chance(g, 70)) {
            simple(g, V_SYNC, c->rank[i], win);
            join(g, c->rank[i]);
        }
}

static void step_lock_all(struct gen *g, int win)
{
    int r = any_member(g, win);
    struct statement s = blank(g, V_LOCK_ALL, r, win);

    if (!model_locked_all(g->m, win, r)) {
        s.asserts = chance(g, 25) ? MPI_MODE_NOCHECK : 0;
        try_joined(g, &s);
    } else if (chance(g, 6)) {
        simple(g, V_UNLOCK_ALL, r, win);
    } else if (chance(g, 6)) {
        all_flush_and_meet(g, win);
    } else {
        inside_passive(g, win, r, any_member(g, win));
    }
}

static void step_rmw(struct gen *g, int win)
{
    for (int i = 0; i < TRIES; i++) {
        int r = any_member(g, win);
        struct statement s = blank(g, V_RMW, r, win);
        s.target = any_member(g, win);
        s.seed = (uint64_t)below(g, 1000000);
        if (draw_target(g, &s) && draw_accumulate(g, &s) && s.op != EL_NO_OP &&
            try_joined(g, &s))
            return;
    }
}

static void step_local(struct gen *g, int win)
{
    const struct window_spec *w = &g->p->window[win];
    int i = w->flavor == DYNAMIC ? below(g, w->parts) : 0;
    struct statement s = blank(g, V_ATTACH, w->flavor == DYNAMIC ? w->part[i].owner : 0, win);

    if (w->flavor != DYNAMIC || chance(g, 30)) {
        local(g, win, any_member(g, win));
        return;
    }
    s.part = i;
    s.verb = model_attached(g->m, win, i) ? V_DETACH : V_ATTACH;
    try_joined(g, &s);
}

static void step(struct gen *g, int win)
{
    static void (*const steps[WAYS])(struct gen *, int) = {step_fence, step_pscw, step_lock,
                                                           step_lock_all, step_rmw, step_local};

    if (g->p->window[win].flavor == DYNAMIC && chance(g, 6))
        step_local(g, win);
    else
        steps[g->way[win]](g, win);
    if (g->p->threads > 1 && chance(g, 4))
        join(g, below(g, g->p->ranks));
}

/* ---- phases ---- */

static void meet(struct gen *g)
{
    struct statement s = blank(g, V_BARRIER, -1, 0);
    int order[SOAK_RANKS];

    if (chance(g, 75)) {
        try(g, &s);
        return;
    }
    for (int i = 0; i < g->p->ranks; i++) {
        int j = below(g, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i + 1 < g->p->ranks && chance(g, 90); i++) {    /* hand it on */
        s = blank(g, V_SIGNAL, order[i], 0);
        s.target = order[i + 1];
        if (g->p->threads > 1)
            s.thread = 0;
        try(g, &s);
    }
}

static enum way draw_way(struct gen *g, const struct window_spec *w)
{
    enum way way = (enum way)below(g, WAYS);

    for (int i = 0; i < w->infos && w->flavor != SHARED; i++)
        if (strcmp(w->key[i], "no_locks") == 0)
            return chance(g, 50) ? W_FENCE : W_PSCW;
    return way == W_LOCAL && chance(g, 70) ? W_FENCE : way;
}

static void attach_all(struct gen *g, int win)
{
    const struct window_spec *w = &g->p->window[win];
    struct statement s;

    for (int i = 0; i < w->parts && w->flavor == DYNAMIC; i++) {
        if (chance(g, 15))
            continue;
        s = blank(g, V_ATTACH, w->part[i].owner, win);
        s.thread = 0;
        s.part = i;
        try(g, &s);
    }
}

static void open_windows(struct gen *g, int phase)
{
    for (int w = 0; w < g->p->windows; w++) {
        struct statement s = blank(g, V_OPEN, -1, w);
        if (phase == 0 && w > 0 && chance(g, 30))
            continue;
        if (try(g, &s)) {
            attach_all(g, w);
            if (g->p->window[w].flavor == DYNAMIC)
                meet(g);
        }
    }
}

static void phase(struct gen *g, int number, int steps)
{
    int open[SOAK_WINDOWS], n = 0;

    open_windows(g, number);
    for (int w = 0; w < g->p->windows; w++)
        if (model_window_open(g->m, w) && (n == 0 || chance(g, 70))) {
            g->way[w] = draw_way(g, &g->p->window[w]);
            open[n++] = w;
            if (g->way[w] == W_PSCW)
                open_pscw(g, w);
        }
    for (int i = 0; i < steps && n > 0 && g->p->n < STATEMENTS; i++)
        step(g, open[below(g, n)]);
    for (int i = 0; i < n; i++)
        if (chance(g, 85))
            program_end_epochs(g->p, g->m, open[i]);
    if (chance(g, 80))
        meet(g);
}

struct model *generate(struct program *p, uint64_t seed, int ranks, int threads)
{
    struct gen g = {.p = p, .state = tl_mix(seed, 20260101)};
    int phases;

    program_init(p);
    g.d = (struct draw){&p->arena, &g.state};
    p->seed = seed;
    p->ranks = ranks;
    p->threads = threads > 1 && chance(&g, 70) ? 2 + below(&g, threads - 1) : 1;
    draw_comms(&g);
    draw_windows(&g);
    g.m = model_new(p);
    phases = 1 + below(&g, 5);
    for (int i = 0; i < phases; i++)
        phase(&g, i, 5 + below(&g, 40));
    program_close(p, g.m);
    return g.m;
}
