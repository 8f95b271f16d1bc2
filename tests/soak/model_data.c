/* SPDX-License-Identifier: BSD-3-Clause */
/* What moves data: bounds, types, conflicts, and what comes of it. */
#include "model_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_MAX = 8, EXACT_LIMIT = 1 << 20 };

static struct part *part_at(struct model *m, const struct access *a)
{
    return &m->win[a->win].part[a->part];
}

static const struct buffer *target_side(const struct statement *s)
{
    return s->verb == V_LOAD ? &s->result : s->verb == V_STORE ? &s->origin : &s->remote;
}

/* ---- order and conflicts ---- */

static bool congruent(const struct access *a, const struct access *b)
{
    long low = a->low > b->low ? a->low : b->low, high = a->high < b->high ? a->high : b->high;

    for (long i = low; i < high; i++) {
        uint8_t x = a->cover[i - a->low], y = b->cover[i - b->low];
        if (x != 0 && y != 0 && x != y)
            return false;
    }
    return a->el == b->el;
}

static bool touch(const struct access *a, const struct access *b)
{
    long low = a->low > b->low ? a->low : b->low, high = a->high < b->high ? a->high : b->high;

    if (a->win != b->win || a->part != b->part)
        return false;
    for (long i = low; i < high; i++)
        if (a->cover[i - a->low] != 0 && b->cover[i - b->low] != 0)
            return true;
    return false;
}

/* Is a, which is listed before b, over before b begins, whatever happens? */
bool model_ordered(const struct model *m, const struct access *a, const struct access *b)
{
    if (a->local && b->local && a->rank == b->rank && b->seen.t[a->actor] >= a->issued)
        return true;
    if (a->done.actor >= 0 && b->start.t[a->done.actor] >= a->done.time)
        return true;
    return a->class == C_ACC && b->class == C_ACC && a->rank == b->rank &&
           !m->win[a->win].unordered && b->seen.t[a->actor] >= a->issued && congruent(a, b);
}

/* Two accumulates at the same time that leave the same in either order. */
static bool commute(const struct model *m, const struct access *a, const struct access *b)
{
    if (a->class != b->class || (a->class != C_ACC && a->class != C_RMW) || !congruent(a, b))
        return false;
    if (a->op == OP_CAS || b->op == OP_CAS)
        return a->op == b->op && a->compare == b->compare && a->seed == b->seed;
    if (a->op == EL_NO_OP || b->op == EL_NO_OP)
        return a->op == b->op || !m->win[a->win].same_op;
    return a->op == b->op && a->op != EL_REPLACE;
}

int model_cluster(const struct model *m, int i)
{
    while (m->access[i]->cluster != i)
        i = m->access[i]->cluster;
    return i;
}

static bool without_conflict(struct model *m, const struct access *b)
{
    int size = 1, seen[CLUSTER_MAX], n = 0;

    for (int i = 0; i < m->accesses; i++) {
        const struct access *a = m->access[i];
        int root, k = 0;
        if ((a->class == C_READ && b->class == C_READ) || !touch(a, b) ||
            model_ordered(m, a, b))
            continue;
        if (!commute(m, a, b))
            return model_refuse(m, "conflict with statement %d", a->statement + 1);
        root = model_cluster(m, i);
        while (k < n && seen[k] != root)
            k++;
        if (k < n)
            continue;
        if (n == CLUSTER_MAX || size + m->access[root]->cluster_size > CLUSTER_MAX)
            return model_refuse(m, "too many at the same time");
        seen[n++] = root;
        size += m->access[root]->cluster_size;
    }
    return true;
}

static void join_clusters(struct model *m, int mine)
{
    struct access *b = m->access[mine];

    for (int i = 0; i < mine; i++) {
        struct access *a = m->access[i];
        int root;
        if ((a->class == C_READ && b->class == C_READ) || !touch(a, b) ||
            model_ordered(m, a, b))
            continue;
        root = model_cluster(m, i);
        if (root == mine)
            continue;
        m->access[root]->cluster = mine;
        b->cluster_size += m->access[root]->cluster_size;
    }
}

/* ---- what is asked ---- */

static bool same_signature(const struct layout *a, const struct layout *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->spot[i].el != b->spot[i].el)
            return false;
    return true;
}

static bool one_element(const struct layout *l)
{
    for (int i = 1; i < l->n; i++)
        if (l->spot[i].el != l->spot[0].el)
            return false;
    return true;
}

/* Marks what a layout touches; false where something is touched twice. */
static bool mark(const struct layout *l, uint8_t *cover)
{
    bool once = true;

    for (int i = 0; i < l->n; i++) {
        int at[2], bytes[2], parts = element_parts(l->spot[i].el, at, bytes);
        for (int k = 0; k < parts; k++)
            for (int b = 0; b < bytes[k]; b++) {
                uint8_t *c = &cover[l->spot[i].at + at[k] + b - l->low];
                once &= *c == 0;
                *c = (uint8_t)(1 + at[k] + b);
            }
    }
    return once;
}

static bool read_only(const struct access *a)
{
    return a->class == C_READ || (a->class == C_ACC && a->op == EL_NO_OP);
}

/* A buffer of ours whose elements have to keep their values apart. */
static bool apart(const struct layout *l)
{
    uint8_t *cover = calloc(1, (size_t)(l->high - l->low) + 1);
    bool once = mark(l, cover);

    free(cover);
    return once;
}

static bool layouts(struct model *m, const struct statement *s, struct access *a)
{
    struct layout origin = {0};
    bool ok = true, blank = s->op == EL_NO_OP && verb_accumulates(s->verb);

    if (!layout_of(target_side(s), &a->remote))
        return model_refuse(m, "too many elements");
    if (verb_fetches(s->verb) && (!layout_of(&s->result, &a->result) ||
                                  !same_signature(&a->result, &a->remote)))
        return model_refuse(m, "result and target are of different types");
    if (verb_brings(s->verb) && !blank) {
        ok = layout_of(&s->origin, &origin) && same_signature(&origin, &a->remote) &&
             apart(&origin);
        layout_free(&origin);
    }
    if (!ok)
        return model_refuse(m, "the origin overlaps with itself or is of another type");
    a->cover = arena_get(&m->arena, (size_t)(a->remote.high - a->remote.low) + 1);
    if (!mark(&a->remote, a->cover) && !read_only(a))
        return model_refuse(m, "the target's type overlaps with itself");
    return apart(&a->result) || model_refuse(m, "the result's type overlaps with itself");
}

static bool within(struct model *m, const struct statement *s, struct access *a)
{
    const struct window_spec *w = &m->p->window[s->win];

    a->low = s->at + a->remote.low;
    a->high = s->at + a->remote.high;
    if (s->at % w->part[s->part].unit != 0)
        return model_refuse(m, "no multiple of the displacement unit");
    if (a->low < 0 || a->high > w->part[s->part].bytes || s->at > w->part[s->part].bytes)
        return model_refuse(m, "outside of the memory");
    return true;
}

/* Only what has the right value may be added to and compared; and floats must stay exact. */
static bool needs_tag(int el)
{
    switch (el_types[el].kind) {
    case EL_FLOAT: case EL_COMPLEX: case EL_LOGICAL: case EL_PAIR_FLOAT: case EL_PAIR_OF_FLOATS:
        return true;
    default:
        return false;
    }
}

static bool tags_fit(struct model *m, const struct access *a)
{
    const struct part *part = part_at(m, a);
    bool combines = a->op != EL_REPLACE && a->op != EL_NO_OP;
    bool tagged = combines && needs_tag(a->el) && a->op != OP_CAS;

    if (!combines && !a->fetches)
        return true;
    for (long i = a->low; i < a->high; i++) {
        uint8_t c = a->cover[i - a->low];
        if (c != 0 && part->loose[i] && !element_padding(a->el, c - 1))
            return model_refuse(m, "it is not known what is there");
        if (tagged && c != 0 && (part->tag[i] != a->el + 1 || part->phase[i] != c - 1))
            return model_refuse(m, "no %s is there", el_types[a->el].name);
    }
    return true;
}

static bool part_exact(int bytes, const unsigned char *at)
{
    float f;
    double d;
    long double l;

    memcpy(&f, at, sizeof f);
    memcpy(&d, at, bytes >= 8 ? sizeof d : sizeof f);
    memcpy(&l, at, bytes > 8 ? sizeof l : sizeof f);
    if (bytes > 8)
        return fabsl(l) <= EXACT_LIMIT && !(l == 0 && signbit(l));
    if (bytes == 8)
        return fabs(d) <= EXACT_LIMIT && !(d == 0 && signbit(d));
    return fabsf(f) <= EXACT_LIMIT && !(f == 0 && signbit(f));
}

static bool exact(const struct access *a, const unsigned char *value)
{
    const struct el_type *t = &el_types[a->el];

    if (a->op != EL_SUM && a->op != EL_PROD)
        return true;
    if (t->kind == EL_FLOAT)
        return part_exact(t->part, value);
    if (t->kind == EL_COMPLEX)
        return part_exact(t->part / 2, value) && part_exact(t->part / 2, value + t->part / 2);
    return true;
}

void model_apply(const struct access *a, int k, void *to)
{
    const struct el_type *t = &el_types[a->el];
    _Alignas(16) unsigned char operand[64] = {0}, compare[64] = {0};

    if (a->op == EL_NO_OP)
        return;
    element_fill(a->el, a->op == OP_CAS ? EL_REPLACE : a->op, operand, a->seed, k);
    if (a->op == OP_CAS) {
        element_fill(a->el, EL_REPLACE, compare, a->compare, 0);
        if (memcmp(to, compare, (size_t)t->bytes) == 0)
            memcpy(to, operand, (size_t)t->bytes);
        return;
    }
    el_apply(t, (enum el_op)a->op, to, operand);
}

static void take_element(const unsigned char *from, int el, unsigned char *to)
{
    int at[2], bytes[2], parts = element_parts(el, at, bytes);

    for (int k = 0; k < parts; k++)
        memcpy(to + at[k], from + at[k], (size_t)bytes[k]);
}

static bool results_exact(struct model *m, const struct statement *s, const struct access *a)
{
    const struct part *part = part_at(m, a);

    for (int k = 0; k < a->remote.n; k++) {
        _Alignas(16) unsigned char value[64] = {0};
        take_element(part->data + s->at + a->remote.spot[k].at, a->el, value);
        model_apply(a, k, value);
        if (!exact(a, value))
            return model_refuse(m, "a float would not be exact");
    }
    return true;
}

static bool accumulate_allowed(struct model *m, const struct statement *s, const struct access *a)
{
    bool single = s->verb == V_FOP || s->verb == V_CAS;

    if (!one_element(&a->remote))
        return model_refuse(m, "several types in an accumulate");
    if (single && (s->remote.type->shape != BASIC || s->remote.count != 1 ||
                   s->result.type->shape != BASIC || s->result.count != 1))
        return model_refuse(m, "one element of a predefined type");
    if (a->remote.n == 0)
        return true;
    if (s->verb == V_CAS ? !el_swappable(&el_types[a->el])
                         : !el_allowed(&el_types[a->el], (enum el_op)s->op))
        return model_refuse(m, "no such operation on this type");
    if ((s->verb == V_ACC || s->verb == V_RACC) && s->op == EL_NO_OP)
        return model_refuse(m, "MPI_NO_OP fetches");
    return tags_fit(m, a);
}

/* ---- is this the time and the place ---- */

static bool in_epoch(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    bool passive = w->lock_all[s->rank] != 0, any = passive;
    struct event epoch;

    for (int t = 0; t < m->p->ranks && s->target < 0; t++)
        any |= w->lock[s->rank][t] != 0;
    if (s->target >= 0)
        any |= w->lock[s->rank][s->target] != 0;
    passive = any;
    any |= w->fence || (w->started[s->rank] != 0 &&
                        (s->target < 0 || w->start_group[s->rank][s->target]));
    if (!any)
        return model_refuse(m, "rank %d is in no epoch to access rank %d", s->rank, s->target);
    if (s->request >= 0 && !passive)
        return model_refuse(m, "requests only where locked");
    for (int t = 0; t < m->p->ranks; t++) {
        epoch = w->epoch[s->rank][t];
        if ((s->target < 0 || t == s->target) && epoch.time != 0 &&
            !clock_has(&m->clock[actor], epoch))
            return model_refuse(m, "another thread's epoch is not ordered with this");
    }
    if (w->fence && (w->fence_asserts & MPI_MODE_NOPUT) != 0 && s->verb != V_GET)
        return model_refuse(m, "MPI_MODE_NOPUT was promised");
    if (s->target >= 0 && w->start_group[s->rank][s->target] && s->verb != V_GET &&
        (w->post_asserts[s->target] & MPI_MODE_NOPUT) != 0)
        return model_refuse(m, "MPI_MODE_NOPUT was promised");
    return true;
}

static bool placed(struct model *m, const struct statement *s, const struct access *a, int actor)
{
    const struct window_spec *w = &m->p->window[s->win];

    if (a->local && !clock_has(&m->clock[actor], m->win[s->win].looked[s->rank]))
        return model_refuse(m, "another thread's synchronisation is not ordered with this");
    if (a->local)
        return s->target == s->rank || (s->target >= 0 && w->flavor == SHARED) ||
               model_refuse(m, "rank %d's memory is out of reach", s->target);
    if (s->verb == V_RMW)
        return s->target >= 0 || model_refuse(m, "no memory there");
    if (!in_epoch(m, s, actor))
        return false;
    return s->target < 0 || m->win[s->win].part[s->part].attached ||
           model_refuse(m, "region %d is not attached", s->part);
}

static struct hold rmw_hold(const struct model *m, const struct statement *s, int actor)
{
    return (struct hold){.win = s->win, .target = s->target, .rank = s->rank, .actor = actor,
                         .statement = m->statements, .exclusive = true};
}

/* The lock inside of a read-modify-write. */
static bool rmw_may_lock(struct model *m, const struct statement *s, int actor)
{
    struct win_state *w = &m->win[s->win];
    struct hold wanted = rmw_hold(m, s, actor);
    struct event epoch = w->epoch[s->rank][s->target];

    if (w->no_locks || w->fence_used || w->started[s->rank] != 0 || w->lock_all[s->rank] != 0 ||
        w->lock[s->rank][s->target] != 0)
        return model_refuse(m, "rank %d cannot lock here", s->rank);
    if (!w->part[s->part].attached)
        return model_refuse(m, "region %d is not attached", s->part);
    if (epoch.time != 0 && !clock_has(&m->clock[actor], epoch))
        return model_refuse(m, "another thread's epoch is not ordered with this");
    for (int r = 0; r < m->p->ranks; r++)
        if (w->fenced[r].time != 0 && !clock_has(&m->clock[actor], w->fenced[r]))
            return model_refuse(m, "rank %d may not be past the fence", r);
    return model_may_hold(m, &wanted);
}

/* ---- doing it ---- */

static void classify(const struct statement *s, struct access *a)
{
    a->local = s->verb == V_LOAD || s->verb == V_STORE;
    a->fetches = verb_fetches(s->verb);
    if (s->verb == V_LOAD || s->verb == V_GET || s->verb == V_RGET)
        a->class = C_READ;
    else if (s->verb == V_STORE || s->verb == V_PUT || s->verb == V_RPUT)
        a->class = C_WRITE;
    else
        a->class = s->verb == V_RMW ? C_RMW : C_ACC;
    a->op = s->verb == V_CAS ? OP_CAS : s->op;
}

static struct access *access_new(struct model *m, const struct statement *s, int actor)
{
    struct access *a = arena_get(&m->arena, sizeof *a);

    a->statement = m->statements;
    a->win = s->win;
    a->part = s->part;
    a->rank = s->rank;
    a->target = s->target;
    a->actor = actor;
    a->seed = s->seed;
    a->compare = s->compare;
    a->request = s->request;
    a->done.actor = -1;
    classify(s, a);
    a->seen = m->clock[actor];
    a->seen.t[actor]++;
    a->issued = a->seen.t[actor];
    a->start = a->seen;
    return a;
}

/* From when on the target's memory is known to be ready. */
static void find_start(struct model *m, const struct statement *s, struct access *a)
{
    struct win_state *w = &m->win[s->win];

    if (a->local) {
        a->start = w->view[s->rank];
        return;
    }
    if (w->fence || w->started[s->rank] != 0)
        clock_join(&a->start, &w->exposed_at[s->target]);
}

static void access_keep(struct model *m, struct access *a)
{
    if (m->accesses == m->access_room) {
        m->access_room = m->access_room == 0 ? 64 : 2 * m->access_room;
        m->access = realloc(m->access, (size_t)m->access_room * sizeof *m->access);
    }
    a->cluster = m->accesses;
    a->cluster_size = 1;
    m->access[m->accesses++] = a;
    join_clusters(m, m->accesses - 1);
}

static struct expected *expect(struct model *m, size_t bytes, int part)
{
    struct expected *e = arena_get(&m->arena, sizeof *e);

    e->statement = m->statements;
    e->bytes = bytes + 2 * SOAK_GUARD;
    e->part = part;
    e->access = -1;
    e->data = arena_get(&m->arena, e->bytes);
    e->mask = arena_get(&m->arena, e->bytes);
    memset(e->data, SOAK_BLANK, e->bytes);
    e->next = m->expected[m->statements];
    m->expected[m->statements] = e;
    return e;
}

/* Element k goes from the target to the result. */
static void expect_element(struct model *m, const struct statement *s, const struct access *a,
                           struct expected *e, int k)
{
    const struct part *part = part_at(m, a);
    int el = a->remote.spot[k].el, at[2], bytes[2], parts = element_parts(el, at, bytes);
    long from = s->at + a->remote.spot[k].at;
    long to = SOAK_GUARD + a->result.spot[k].at - a->result.low;

    for (int i = 0; i < parts; i++)
        for (int b = at[i]; b < at[i] + bytes[i]; b++) {
            e->data[to + b] = part->data[from + b];
            e->mask[to + b] = part->loose[from + b] ||
                              (a->class != C_READ && element_padding(el, b));
        }
}

static void expect_result(struct model *m, const struct statement *s, const struct access *a,
                          int access)
{
    struct expected *e = expect(m, (size_t)(a->result.high - a->result.low), -1);

    e->access = access;
    for (int k = 0; k < a->result.n && s->target >= 0; k++)
        expect_element(m, s, a, e, k);
}

void model_expect_part(struct model *m, int win, int part)
{
    size_t bytes = (size_t)m->p->window[win].part[part].bytes;
    const struct part *from = &m->win[win].part[part];
    struct expected *e = expect(m, bytes, part);

    memcpy(e->data + SOAK_GUARD, from->data, bytes);
    memcpy(e->mask + SOAK_GUARD, from->loose, bytes);
}

static void write_element(struct model *m, const struct statement *s, const struct access *a,
                          int k)
{
    struct part *part = part_at(m, a);
    int el = a->remote.spot[k].el, at[2], bytes[2], parts = element_parts(el, at, bytes);
    long to = s->at + a->remote.spot[k].at;
    _Alignas(16) unsigned char value[64] = {0};

    if (a->class == C_WRITE) {
        element_fill(el, EL_REPLACE, value, s->seed, k);
    } else {
        take_element(part->data + to, el, value);
        take_element(value, el, a->before + (size_t)k * (size_t)el_types[el].extent);
        model_apply(a, k, value);
    }
    for (int i = 0; i < parts; i++)
        for (int b = at[i]; b < at[i] + bytes[i]; b++) {
            part->data[to + b] = value[b];
            part->tag[to + b] = needs_tag(el) ? (unsigned char)(el + 1) : 0;
            part->phase[to + b] = (unsigned char)b;
            part->loose[to + b] = a->class != C_WRITE && element_padding(el, b);
        }
}

static void write_all(struct model *m, const struct statement *s, struct access *a)
{
    if (a->class != C_WRITE && a->remote.n > 0)
        a->before = arena_get(&m->arena, (size_t)a->remote.n * (size_t)el_types[a->el].extent);
    for (int k = 0; k < a->remote.n; k++)
        if (a->class == C_WRITE || a->op != EL_NO_OP)
            write_element(m, s, a, k);
        else
            take_element(part_at(m, a)->data + s->at + a->remote.spot[k].at, a->el,
                         a->before + (size_t)k * (size_t)el_types[a->el].extent);
}

static bool new_request(struct model *m, const struct statement *s)
{
    for (int i = 0; i < m->pendings; i++)
        if (m->pending[i].rank == s->rank && m->pending[i].number == s->request)
            return model_refuse(m, "request q%d was there before", s->request);
    return true;
}

static void keep_request(struct model *m, const struct statement *s, int access, struct event at)
{
    if (m->pendings == m->pending_room) {
        m->pending_room = m->pending_room == 0 ? 16 : 2 * m->pending_room;
        m->pending = realloc(m->pending, (size_t)m->pending_room * sizeof *m->pending);
    }
    m->pending[m->pendings++] = (struct pending){m->statements, s->rank, s->request, access, at,
                                                 false};
}

static bool may_access(struct model *m, const struct statement *s, struct access *a)
{
    if (!placed(m, s, a, a->actor) || !layouts(m, s, a) ||
        (s->request >= 0 && !new_request(m, s)))
        return false;
    a->el = a->remote.n > 0 ? a->remote.spot[0].el : 0;
    if (s->target < 0)
        return !verb_accumulates(s->verb) || accumulate_allowed(m, s, a);
    if (!within(m, s, a))
        return false;
    if (verb_accumulates(s->verb) &&
        (!accumulate_allowed(m, s, a) || !results_exact(m, s, a)))
        return false;
    if (s->verb == V_RMW && !rmw_may_lock(m, s, a->actor))
        return false;
    find_start(m, s, a);
    return without_conflict(m, a);
}

/* A null target: no bytes, no conflict, a result that stays as it is. */
static void do_nothing(struct model *m, const struct statement *s, struct access *a)
{
    struct event at = model_tick(m, a->actor);

    model_use(m, s->win, a->actor, -1);
    if (s->request >= 0)
        keep_request(m, s, -1, at);
    if (a->fetches)
        expect_result(m, s, a, -1);
    layout_free(&a->remote);
    layout_free(&a->result);
}

static void do_access(struct model *m, const struct statement *s, struct access *a)
{
    struct win_state *w = &m->win[s->win];
    struct event at = model_tick(m, a->actor);

    access_keep(m, a);
    model_use(m, s->win, a->actor, a->local ? s->rank : s->target);
    if (s->request >= 0)
        keep_request(m, s, m->accesses - 1, at);
    if (!a->local && w->fence)
        w->fence_used = true;
    if (s->verb == V_STORE)
        w->stored[s->rank] = true;
    if (s->verb == V_LOAD)
        a->done = at;
    if (a->fetches)
        expect_result(m, s, a, m->accesses - 1);
    if (a->class != C_READ)
        write_all(m, s, a);
    if (s->verb == V_RMW) {
        struct hold hold = rmw_hold(m, s, a->actor);
        hold.begin = at;
        w->fence = false;
        w->epoch[s->rank][s->target] = at;
        model_release(m, model_hold(m, &hold), at);
        a->done = at;
    }
}

bool model_data(struct model *m, const struct statement *s)
{
    struct access *a = access_new(m, s, ACTOR(s->rank, s->thread));

    if (s->target >= 0 && member_of(comm_of_window(m, s->win), s->target) < 0)
        return model_refuse(m, "rank %d is not in the window", s->target);
    if (!may_access(m, s, a)) {
        layout_free(&a->remote);
        layout_free(&a->result);
        return false;
    }
    if (s->target < 0)
        do_nothing(m, s, a);
    else
        do_access(m, s, a);
    return true;
}

/* ---- attached memory ---- */

/* In conflict with everybody else's access, as a store of all of it would be. */
bool model_attach(struct model *m, const struct statement *s)
{
    const struct window_spec *w = &m->p->window[s->win];
    int actor = ACTOR(s->rank, s->thread);
    struct access *a = access_new(m, s, actor);

    if (w->flavor != DYNAMIC || s->part >= w->parts || w->part[s->part].owner != s->rank)
        return model_refuse(m, "no region of rank %d", s->rank);
    if (m->win[s->win].part[s->part].attached == (s->verb == V_ATTACH))
        return model_refuse(m, "is that already");
    a->class = C_WRITE;
    a->local = true;
    a->fetches = false;
    a->high = w->part[s->part].bytes;
    a->cover = arena_get(&m->arena, (size_t)a->high);
    memset(a->cover, 1, (size_t)a->high);
    a->target = s->rank;
    if (!without_conflict(m, a))
        return false;
    a->done = model_tick(m, actor);
    m->win[s->win].part[s->part].attached = s->verb == V_ATTACH;
    access_keep(m, a);
    return true;
}
