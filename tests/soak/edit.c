/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Smaller programs out of one. What is left over after a cut is put to the model again: it drops
 * statements that have lost their meaning, and what stays open is closed.
 */
#include "close.h"
#include "shrink.h"

#include <stdlib.h>
#include <string.h>

long program_size(const struct program *p)
{
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    program_print(p, f);
    fclose(f);
    free(text);
    return 1000L * p->n + 3000L * p->ranks + 3000L * p->threads + (long)bytes;
}

/* Windows and communicators that nobody uses any more. */
static void drop_unused(struct program *p)
{
    int window[SOAK_WINDOWS], comm[SOAK_COMMS], n = 0;
    bool used[SOAK_WINDOWS] = {false}, needed[SOAK_COMMS] = {false};

    for (int i = 0; i < p->n; i++) {
        used[p->s[i].win] |= p->s[i].verb == V_OPEN;
        needed[p->s[i].comm] |= p->s[i].verb == V_BARRIER;
    }
    for (int i = 0; i < p->windows; i++)
        if (used[i]) {
            needed[p->window[i].comm] = true;
            window[i] = n;
            p->window[n++] = p->window[i];
        } else {
            window[i] = 0;
        }
    p->windows = n;
    n = 0;
    for (int i = 0; i < p->comms; i++)
        if (needed[i]) {
            comm[i] = n;
            p->comm[n++] = p->comm[i];
        } else {
            comm[i] = 0;
        }
    p->comms = n;
    for (int i = 0; i < p->windows; i++)
        p->window[i].comm = comm[p->window[i].comm];
    for (int i = 0; i < p->n; i++) {
        p->s[i].win = window[p->s[i].win];
        p->s[i].comm = comm[p->s[i].comm];
    }
}

/* What the model takes of the statements of `from`, of which head is out's own. */
static bool settle(const struct program *from, const bool *keep, struct program *out)
{
    struct model *m = model_new(out);
    bool over;

    for (int i = 0; i < from->n; i++)
        if (keep == NULL || keep[i])
            program_try(out, m, &from->s[i]);
    over = program_close(out, m);
    model_free(m);
    if (!over) {
        program_free(out);
        return false;
    }
    drop_unused(out);
    return true;
}

bool edit_keep(const struct program *p, const bool *keep, struct program *out)
{
    program_like(out, p);
    return settle(p, keep, out);
}

/* ---- a rank less ---- */

static int moved(int rank, int gone)
{
    return rank > gone ? rank - 1 : rank;
}

static void comm_without(struct comm_spec *c, int rank)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        if (c->rank[i] != rank)
            c->rank[n++] = moved(c->rank[i], rank);
    c->n = n;
}

static void window_without(struct window_spec *w, int rank, int *part)
{
    int n = 0;

    for (int i = 0; i < w->parts; i++) {
        part[i] = -1;
        if (w->part[i].owner == rank)
            continue;
        part[i] = n;
        w->part[n] = w->part[i];
        w->part[n].owner = moved(w->part[n].owner, rank);
        n++;
    }
    w->parts = n;
}

static bool statement_without(struct statement *s, int rank, int (*part)[SOAK_PARTS])
{
    bool group = s->verb == V_POST || s->verb == V_START;
    int n = 0;

    if (s->rank == rank || s->target == rank)
        return false;
    s->rank = moved(s->rank, rank);
    s->target = moved(s->target, rank);
    if (verb_is_data(s->verb) || s->verb == V_ATTACH || s->verb == V_DETACH)
        s->part = s->part >= 0 ? part[s->win][s->part] : s->part;
    for (int i = 0; i < s->n && group; i++)
        if (s->list[i] != rank)
            s->list[n++] = moved(s->list[i], rank);
    if (group)
        s->n = n;
    return true;
}

bool edit_without_rank(const struct program *p, int rank, struct program *out)
{
    struct program cut;
    int part[SOAK_WINDOWS][SOAK_PARTS];
    bool done;

    program_like(&cut, p);
    cut.ranks--;
    for (int i = 0; i < cut.windows; i++)
        window_without(&cut.window[i], rank, part[i]);
    for (int i = 0; i < cut.comms; i++)
        comm_without(&cut.comm[i], rank);
    for (int i = 0; i < p->n; i++) {
        struct statement s = p->s[i];
        bool empty = (s.verb == V_OPEN && cut.comm[p->window[s.win].comm].n == 0) ||
                     (s.verb == V_BARRIER && cut.comm[s.comm].n == 0);
        if (!empty && statement_without(&s, rank, part))
            program_add(&cut, &s);
    }
    program_like(out, &cut);
    done = cut.ranks > 0 && settle(&cut, NULL, out);
    free(cut.s);
    return done;
}

/* ---- simpler ---- */

static const struct type *basic_of(struct arena *arena, int el)
{
    struct type *t = arena_get(arena, sizeof *t);

    t->el = el;
    return t;
}

/* So many elements of the first type in a row. */
static void make_plain(struct arena *arena, struct buffer *b, int n)
{
    struct layout l;

    if (b->type == NULL)
        return;
    if (layout_of(b, &l) && l.n > 0)
        *b = (struct buffer){n < 0 ? l.n : n, basic_of(arena, l.spot[0].el)};
    layout_free(&l);
}

enum { STATEMENT_EDITS = 9, WINDOW_EDITS = 7, PROGRAM_EDITS = 1 };

static void edit_statement(struct program *p, struct statement *s, int what)
{
    int n = s->remote.count > 1 && s->remote.type->shape == BASIC ? s->remote.count / 2 : 1;

    switch (what) {
    case 0:
    case 1:
    case 2:
        n = what == 0 ? 1 : what == 1 ? -1 : n;
        make_plain(&p->arena, &s->origin, n);
        make_plain(&p->arena, &s->remote, n);
        make_plain(&p->arena, &s->result, n);
        break;
    case 3: make_plain(&p->arena, &s->origin, -1); break;
    case 4: make_plain(&p->arena, &s->remote, -1); break;
    case 5: make_plain(&p->arena, &s->result, -1); break;
    case 6: s->at = 0; break;
    case 7: s->asserts = 0; break;
    default: s->n = s->n > 1 ? s->n - 1 : s->n; break;
    }
}

/* Bytes that statements reach of a part. */
static long used_bytes(const struct program *p, int win, int part)
{
    long most = 0;

    for (int i = 0; i < p->n; i++) {
        const struct statement *s = &p->s[i];
        const struct buffer *b = s->verb == V_LOAD ? &s->result : s->verb == V_STORE
                                     ? &s->origin : &s->remote;
        struct layout l;
        if (!verb_is_data(s->verb) || s->win != win || s->part != part || b->type == NULL)
            continue;
        layout_of(b, &l);
        most = s->at + l.high > most ? s->at + l.high : most;
        layout_free(&l);
    }
    return most;
}

static void edit_window(struct program *p, int win, int what)
{
    struct window_spec *w = &p->window[win];

    switch (what) {
    case 0: w->infos = 0; break;
    case 1: w->infos -= w->infos > 0; break;
    case 2: w->flavor = w->flavor != DYNAMIC ? ALLOCATE : DYNAMIC; break;
    case 3:
        for (int i = 0; i < w->parts; i++)
            w->part[i].unit = 1;
        break;
    case 4:
        for (int i = 0; i < w->parts; i++) {
            long used = used_bytes(p, win, i);
            w->part[i].bytes = used > 0 || w->flavor != DYNAMIC ? used : w->part[i].bytes;
        }
        break;
    case 5: w->fill = -1; break;
    default: w->comm = w->flavor == DYNAMIC ? 0 : w->comm; break;
    }
}

bool edit_simpler(const struct program *p, int i, bool *more, struct program *out)
{
    struct program cut;
    bool done;
    int statements = STATEMENT_EDITS * p->n, windows = WINDOW_EDITS * p->windows;

    *more = i < PROGRAM_EDITS + windows + statements;
    if (!*more)
        return false;
    program_like(&cut, p);
    for (int k = 0; k < p->n; k++)
        program_add(&cut, &p->s[k]);
    program_like(out, p);
    if (i < PROGRAM_EDITS) {
        cut.threads = 1;
        for (int k = 0; k < cut.n; k++)
            cut.s[k].thread = 0;
    } else if (i < PROGRAM_EDITS + windows) {
        edit_window(&cut, (i - PROGRAM_EDITS) / WINDOW_EDITS, (i - PROGRAM_EDITS) % WINDOW_EDITS);
    } else {
        i -= PROGRAM_EDITS + windows;
        edit_statement(out, &cut.s[i / STATEMENT_EDITS], i % STATEMENT_EDITS);
    }
    memcpy(out->window, cut.window, sizeof cut.window);
    out->threads = cut.threads;
    done = settle(&cut, NULL, out);
    free(cut.s);
    return done;
}
