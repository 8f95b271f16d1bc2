/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs in memory and as text. */
#include "program.h"

#include "testlib.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct chunk {
    struct chunk *next;
    size_t used, room;
    _Alignas(16) unsigned char data[];
};

void *arena_get(struct arena *arena, size_t bytes)
{
    struct chunk *c = arena->chunks;
    void *p;

    bytes = (bytes + 15) & ~(size_t)15;
    if (c == NULL || c->room - c->used < bytes) {
        size_t room = bytes > 65536 ? bytes : 65536;
        c = calloc(1, sizeof *c + room);
        if (c == NULL)
            abort();
        c->room = room;
        c->next = arena->chunks;
        arena->chunks = c;
    }
    p = c->data + c->used;
    c->used += bytes;
    return p;
}

void arena_free(struct arena *arena)
{
    while (arena->chunks != NULL) {
        struct chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}

void program_init(struct program *p)
{
    memset(p, 0, sizeof *p);
}

void program_free(struct program *p)
{
    free(p->s);
    arena_free(&p->arena);
    program_init(p);
}

void program_like(struct program *p, const struct program *from)
{
    *p = *from;
    p->arena.chunks = NULL;
    p->s = NULL;
    p->n = p->room = 0;
}

struct statement *program_add(struct program *p, const struct statement *s)
{
    if (p->n == p->room) {
        p->room = p->room == 0 ? 64 : 2 * p->room;
        p->s = realloc(p->s, (size_t)p->room * sizeof *p->s);
        if (p->s == NULL)
            abort();
    }
    p->s[p->n] = *s;
    return &p->s[p->n++];
}

/* ---- words ---- */

static const char *const verbs[VERBS] = {
    "open", "free", "fence", "barrier", "post", "start", "complete", "wait", "test", "lock",
    "unlock", "lock_all", "unlock_all", "flush", "flush_local", "flush_all", "flush_local_all",
    "sync", "waitall", "waitany", "waitone", "testall", "signal", "join", "attach", "detach",
    "load", "store", "put", "get", "rput", "rget", "acc", "racc", "gacc", "rgacc", "fop", "cas",
    "rmw"};
static const char *const shapes[SHAPES] = {
    "", "contiguous", "vector", "hvector", "indexed", "hindexed", "indexed_block",
    "hindexed_block", "struct", "subarray", "resized", "dup"};
static const char *const flavors[FLAVORS] = {"allocate", "create", "dynamic", "shared"};

const struct assert_name assert_names[ASSERT_NAMES] = {
    {MPI_MODE_NOCHECK, "NOCHECK"},       {MPI_MODE_NOSTORE, "NOSTORE"},
    {MPI_MODE_NOPUT, "NOPUT"},           {MPI_MODE_NOPRECEDE, "NOPRECEDE"},
    {MPI_MODE_NOSUCCEED, "NOSUCCEED"},
};

const char *verb_name(enum verb v) { return verbs[v]; }
const char *shape_name(enum shape s) { return shapes[s]; }
bool verb_is_data(enum verb v) { return v >= V_LOAD; }
bool verb_is_collective(enum verb v) { return v <= V_BARRIER; }
bool verb_is_rma(enum verb v) { return v >= V_PUT && v != V_RMW; }

bool verb_fetches(enum verb v)
{
    return v == V_LOAD || v == V_GET || v == V_RGET || v >= V_GACC;
}

bool verb_brings(enum verb v)
{
    return verb_is_data(v) && v != V_LOAD && v != V_GET && v != V_RGET;
}

bool verb_accumulates(enum verb v)
{
    return v >= V_ACC;
}

int member_of(const struct comm_spec *c, int rank)
{
    for (int i = 0; i < c->n; i++)
        if (c->rank[i] == rank)
            return i;
    return -1;
}

int part_of(const struct window_spec *w, int rank)
{
    for (int i = 0; i < w->parts; i++)
        if (w->part[i].owner == rank)
            return i;
    return -1;
}

bool statement_of(const struct program *p, const struct statement *s, int rank, int thread)
{
    switch (s->verb) {
    case V_OPEN:
    case V_FREE:
    case V_FENCE:
        return thread == 0 && member_of(&p->comm[p->window[s->win].comm], rank) >= 0;
    case V_BARRIER:
        return thread == 0 && member_of(&p->comm[s->comm], rank) >= 0;
    case V_SIGNAL:
        return (s->rank == rank && s->thread == thread) || (s->target == rank && thread == 0);
    case V_JOIN:
        return s->rank == rank;
    default:
        return s->rank == rank && s->thread == thread;
    }
}

/* ---- printing ---- */

static void print_type(const struct type *t, FILE *to)
{
    if (t->shape == BASIC) {
        fputs(el_types[t->el].name + 4, to);
        return;
    }
    fprintf(to, "%s(", shapes[t->shape]);
    for (int i = 0; i < t->args; i++)
        fprintf(to, "%s%ld", i > 0 ? "," : "", t->arg[i]);
    for (int i = 0; i < t->subs; i++) {
        fputc(';', to);
        print_type(t->sub[i], to);
    }
    fputc(')', to);
}

static void print_buffer(const char *name, const struct buffer *b, FILE *to)
{
    if (b->type == NULL)
        return;
    fprintf(to, " %s=%d*", name, b->count);
    print_type(b->type, to);
}

static void print_asserts(int asserts, FILE *to)
{
    for (int i = 0; i < ASSERT_NAMES; i++)
        if ((asserts & assert_names[i].flag) != 0)
            fprintf(to, " %s", assert_names[i].name);
}

static void print_where(const struct program *p, const struct statement *s, FILE *to)
{
    if (s->target < 0)
        fputs(" null", to);
    else if (p->window[s->win].flavor == DYNAMIC)
        fprintf(to, " %d @%d:%ld", s->target, s->part, s->at);
    else
        fprintf(to, " %d @%ld", s->target, s->at);
}

static void print_data(const struct program *p, const struct statement *s, FILE *to)
{
    fprintf(to, " w%d", s->win);
    print_where(p, s, to);
    print_buffer("o", &s->origin, to);
    print_buffer("r", &s->result, to);
    print_buffer("t", &s->remote, to);
    if (verb_accumulates(s->verb) && s->verb != V_CAS)
        fprintf(to, " %s", el_op_name((enum el_op)s->op) + 4);
    if (verb_brings(s->verb))
        fprintf(to, " seed=%llu", (unsigned long long)s->seed);
    if (s->verb == V_CAS)
        fprintf(to, " compare=%llu", (unsigned long long)s->compare);
    if (s->request >= 0)
        fprintf(to, " q%d", s->request);
}

static void print_rest(const struct program *p, const struct statement *s, FILE *to)
{
    switch (s->verb) {
    case V_OPEN: case V_FREE: case V_FENCE: case V_COMPLETE: case V_WAIT: case V_TEST:
    case V_LOCK_ALL: case V_UNLOCK_ALL: case V_FLUSH_ALL: case V_FLUSH_LOCAL_ALL: case V_SYNC:
    case V_POST: case V_START:
        fprintf(to, " w%d", s->win);
        break;
    case V_LOCK: case V_UNLOCK: case V_FLUSH: case V_FLUSH_LOCAL:
        fprintf(to, " w%d %d", s->win, s->target);
        break;
    case V_BARRIER:
        fprintf(to, " c%d", s->comm);
        break;
    case V_SIGNAL:
        fprintf(to, " %d", s->target);
        break;
    case V_ATTACH: case V_DETACH:
        fprintf(to, " w%d %d", s->win, s->part);
        break;
    default:
        if (verb_is_data(s->verb))
            print_data(p, s, to);
        break;
    }
    if (s->verb == V_LOCK)
        fputs(s->exclusive ? " exclusive" : " shared", to);
    for (int i = 0; i < s->n; i++)
        fprintf(to, s->verb == V_POST || s->verb == V_START ? " %d" : " q%d", s->list[i]);
    print_asserts(s->asserts, to);
}

void statement_print(const struct program *p, const struct statement *s, FILE *to)
{
    fputs(verbs[s->verb], to);
    if (s->rank >= 0) {
        fprintf(to, " %d", s->rank);
        if (s->thread > 0)
            fprintf(to, ".%d", s->thread);
    }
    print_rest(p, s, to);
    fputc('\n', to);
}

static void print_window(const struct program *p, int i, FILE *to)
{
    const struct window_spec *w = &p->window[i];

    fprintf(to, "window w%d %s c%d", i, flavors[w->flavor], w->comm);
    for (int k = 0; k < w->parts; k++)
        if (w->flavor == DYNAMIC)
            fprintf(to, " %d:%ld", w->part[k].owner, w->part[k].bytes);
        else
            fprintf(to, " %ld/%d", w->part[k].bytes, w->part[k].unit);
    if (w->fill >= 0)
        fprintf(to, " fill=%s", el_types[w->fill].name + 4);
    fprintf(to, " seed=%llu", (unsigned long long)w->seed);
    for (int k = 0; k < w->infos; k++)
        fprintf(to, " info:%s=%s", w->key[k], w->value[k]);
    fputc('\n', to);
}

void program_print(const struct program *p, FILE *to)
{
    fprintf(to, "program %llu\nranks %d\nthreads %d\n", (unsigned long long)p->seed, p->ranks,
            p->threads);
    for (int i = 0; i < p->comms; i++) {
        fprintf(to, "comm c%d", i);
        for (int k = 0; k < p->comm[i].n; k++)
            fprintf(to, " %d", p->comm[i].rank[k]);
        fputc('\n', to);
    }
    for (int i = 0; i < p->windows; i++)
        print_window(p, i, to);
    for (int i = 0; i < p->n; i++)
        statement_print(p, &p->s[i], to);
    fputs("end\n", to);
}

/* ---- data ---- */

static void store_float(unsigned char *to, int bytes, int v)
{
    float f = (float)v;
    double d = v;
    long double l = v;

    memcpy(to, bytes == 4 ? (void *)&f : bytes == 8 ? (void *)&d : (void *)&l,
           bytes > 8 ? 10 : (size_t)bytes);
}

/* Products of floats: factors of which no product in any order is inexact, or minus zero. */
static bool fill_factor(const struct el_type *t, unsigned char *to, uint64_t r)
{
    if (t->kind == EL_FLOAT) {
        store_float(to, t->part, 1 + (int)(r % 2));
        return true;
    }
    if (t->kind == EL_COMPLEX) {
        store_float(to, t->part / 2, 1 + (int)(r % 2));
        store_float(to + t->part / 2, t->part / 2, 1 + (int)(r / 2 % 2));
        return true;
    }
    return false;
}

void element_fill(int el, int op, void *to, uint64_t seed, int k)
{
    const struct el_type *t = &el_types[el];
    unsigned char value[64];
    int at[2], bytes[2], parts = element_parts(el, at, bytes);
    uint64_t mixed = tl_mix(seed, (uint64_t)k + 1);

    el_fill(t, (enum el_op)op, value, 1, mixed, 0);
    if (op == EL_PROD)
        fill_factor(t, value, mixed);
    for (int i = 0; i < t->bytes; i++)
        if (element_padding(el, i))
            value[i] = 0;
    for (int i = 0; i < parts; i++)
        memcpy((unsigned char *)to + at[i], value + at[i], (size_t)bytes[i]);
}

void part_fill(const struct window_spec *w, int part, unsigned char *to)
{
    size_t bytes = (size_t)w->part[part].bytes;

    tl_pattern(to, bytes, tl_mix(w->seed, (uint64_t)part));
    if (w->fill < 0)
        return;
    for (size_t i = 0; (i + 1) * (size_t)el_types[w->fill].extent <= bytes; i++)
        element_fill(w->fill, EL_REPLACE, to + i * (size_t)el_types[w->fill].extent,
                     tl_mix(w->seed, (uint64_t)part + 100), (int)i);
}
