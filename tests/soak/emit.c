/* SPDX-License-Identifier: BSD-3-Clause */
/* A program written out in C: a function for each thread of each rank, data and due results as
 * bytes. */
#include "emit.h"

#include "model.h"

#include <string.h>

static const char prelude[] =
    "#include <mpi.h>\n"
    "#include <pthread.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n\n"
    "static int wrong;\n\n"
    "/* due: bytes; any: not 0 where each byte is right */\n"
    "static void check(const char *what, const void *got, const unsigned char *due,\n"
    "                  const unsigned char *any, size_t n)\n"
    "{\n"
    "    const unsigned char *g = got;\n\n"
    "    for (size_t i = 0; i < n; i++)\n"
    "        if (g[i] != due[i] && !any[i]) {\n"
    "            printf(\"%s: byte %zu is %02x, not %02x\\n\", what, i, g[i], due[i]);\n"
    "            wrong++;\n"
    "            return;\n"
    "        }\n"
    "}\n\n"
    "#define MUST(call)                                                         \\\n"
    "    do {                                                                   \\\n"
    "        if ((call) != MPI_SUCCESS) {                                       \\\n"
    "            printf(\"line %d: %s fails\\n\", __LINE__, #call);                \\\n"
    "            MPI_Abort(MPI_COMM_WORLD, 3);                                  \\\n"
    "        }                                                                  \\\n"
    "    } while (0)\n\n";

struct out {
    const struct program *p;
    const struct model *m;
    FILE *to;
    int types;              /* variables so far in this function */
};

static void bytes_of(struct out *o, const char *name, int a, int b, const unsigned char *data,
                     size_t n)
{
    fprintf(o->to, "static %sunsigned char %s_%d", data != NULL ? "const " : "", name, a);
    if (b >= 0)
        fprintf(o->to, "_%d", b);
    fprintf(o->to, "[%zu]", n > 0 ? n : 1);
    for (size_t i = 0; i < n && data != NULL; i++)
        fprintf(o->to, "%s%u", i == 0 ? " = {" : i % 20 == 0 ? ",\n    " : ",", data[i]);
    fputs(data != NULL && n > 0 ? "};\n" : ";\n", o->to);
}

/* ---- datatypes: code that makes one; returns its variable ---- */

static void numbers(struct out *o, const char *type, const char *name, int variable,
                    const long *list, int n, int step)
{
    fprintf(o->to, "    %s %s%d[] = {", type, name, variable);
    for (int i = 0; i < n; i++)
        fprintf(o->to, "%s%ld", i > 0 ? ", " : "", list[i * step]);
    fputs(n > 0 ? "};\n" : "0};\n", o->to);
}

static int emit_type(struct out *o, const struct type *t);

static void emit_struct(struct out *o, const struct type *t, int v, const int *sub)
{
    numbers(o, "int", "length", v, t->arg, t->subs, 2);
    numbers(o, "MPI_Aint", "at", v, t->arg + 1, t->subs, 2);
    fprintf(o->to, "    MPI_Datatype sub%d[] = {", v);
    for (int i = 0; i < t->subs; i++)
        fprintf(o->to, "%st%d", i > 0 ? ", " : "", sub[i]);
    fprintf(o->to, "};\n    MPI_Type_create_struct(%d, length%d, at%d, sub%d, &t%d);\n", t->subs, v,
            v, v, v);
}

static void emit_lists(struct out *o, const struct type *t, int v, int sub)
{
    const char *at = t->shape == HINDEXED || t->shape == HINDEXED_BLOCK ? "MPI_Aint" : "int";

    if (t->shape == INDEXED || t->shape == HINDEXED) {
        numbers(o, "int", "length", v, t->arg, t->args / 2, 2);
        numbers(o, at, "at", v, t->arg + 1, t->args / 2, 2);
        fprintf(o->to, "    %s(%d, length%d, at%d, t%d, &t%d);\n",
                t->shape == INDEXED ? "MPI_Type_indexed" : "MPI_Type_create_hindexed",
                t->args / 2, v, v, sub, v);
        return;
    }
    numbers(o, at, "at", v, t->arg + 1, t->args - 1, 1);
    fprintf(o->to, "    MPI_Type_create_%s(%d, %ld, at%d, t%d, &t%d);\n", shape_name(t->shape),
            t->args - 1, t->arg[0], v, sub, v);
}

static void emit_derived(struct out *o, const struct type *t, int v, int sub)
{
    const long *a = t->arg;
    int dims = t->shape == SUBARRAY ? (int)a[1] : 0;

    switch (t->shape) {
    case CONTIGUOUS:
        fprintf(o->to, "    MPI_Type_contiguous(%ld, t%d, &t%d);\n", a[0], sub, v);
        break;
    case VECTOR:
    case HVECTOR:
        fprintf(o->to, "    MPI_Type_%s(%ld, %ld, %ld, t%d, &t%d);\n",
                t->shape == VECTOR ? "vector" : "create_hvector", a[0], a[1], a[2], sub, v);
        break;
    case SUBARRAY:
        numbers(o, "int", "size", v, a + 2, dims, 1);
        numbers(o, "int", "part", v, a + 2 + dims, dims, 1);
        numbers(o, "int", "start", v, a + 2 + 2 * dims, dims, 1);
        fprintf(o->to,
                "    MPI_Type_create_subarray(%d, size%d, part%d, start%d, %s, t%d, &t%d);\n", dims,
                v, v, v, a[0] != 0 ? "MPI_ORDER_FORTRAN" : "MPI_ORDER_C", sub, v);
        break;
    case RESIZED:
        fprintf(o->to, "    MPI_Type_create_resized(t%d, %ld, %ld, &t%d);\n", sub, a[0], a[1], v);
        break;
    case DUP:
        fprintf(o->to, "    MPI_Type_dup(t%d, &t%d);\n", sub, v);
        break;
    default:
        emit_lists(o, t, v, sub);
        break;
    }
}

static int emit_type(struct out *o, const struct type *t)
{
    int sub[128] = {0}, v;

    for (int i = 0; i < t->subs; i++)
        sub[i] = emit_type(o, t->sub[i]);
    v = o->types++;
    fprintf(o->to, "    MPI_Datatype t%d", v);
    if (t->shape == BASIC) {
        fprintf(o->to, " = %s;\n", el_types[t->el].name);
        return v;
    }
    fputs(";\n", o->to);
    if (t->shape == STRUCT)
        emit_struct(o, t, v, sub);
    else
        emit_derived(o, t, v, sub[0]);
    fprintf(o->to, "    MPI_Type_commit(&t%d);\n", v);
    return v;
}

/* ---- data ---- */

static void image_of(const struct statement *s, const struct buffer *b, unsigned char *data)
{
    struct layout l;
    int op = s->verb == V_CAS ? (int)EL_REPLACE : s->op;

    layout_of(b, &l);
    memset(data, SOAK_BLANK, (size_t)(l.high - l.low));
    for (int k = 0; k < l.n; k++)
        element_fill(l.spot[k].el, op, data + l.spot[k].at - l.low, s->seed, k);
    layout_free(&l);
}

static long span_of(const struct buffer *b, long *low)
{
    struct layout l;
    long n;

    layout_of(b, &l);
    *low = l.low;
    n = l.high - l.low;
    layout_free(&l);
    return n;
}

static void emit_due(struct out *o, int statement, int part)
{
    const unsigned char *mask, *due;
    size_t n;

    due = model_expects(o->m, statement, part, &mask, &n);
    if (due == NULL)
        return;
    bytes_of(o, part >= 0 ? "due_part" : "due", statement, part, due + SOAK_GUARD,
             n - 2 * SOAK_GUARD);
    bytes_of(o, part >= 0 ? "any_part" : "any", statement, part, mask + SOAK_GUARD,
             n - 2 * SOAK_GUARD);
}

static void emit_statement_data(struct out *o, int i)
{
    static unsigned char data[1 << 20];
    const struct statement *s = &o->p->s[i];
    long low, n;

    if (s->origin.type != NULL && (n = span_of(&s->origin, &low)) < (long)sizeof data) {
        image_of(s, &s->origin, data);
        bytes_of(o, "origin", i, -1, data, (size_t)n);
    }
    if (s->verb == V_CAS) {
        memset(data, 0, 64);
        element_fill(s->remote.type->el, EL_REPLACE, data, s->compare, 0);
        bytes_of(o, "compare", i, -1, data, 16);
    }
    if (s->result.type != NULL) {
        n = span_of(&s->result, &low);
        bytes_of(o, "result", i, -1, NULL, (size_t)n);
        emit_due(o, i, -1);
    }
    if (s->request >= 0)
        fprintf(o->to, "static MPI_Request request_%d_%d;\n", s->rank, s->request);
    for (int k = 0; k < o->p->window[s->win].parts && s->verb == V_FREE; k++)
        emit_due(o, i, k);
}

static void emit_globals(struct out *o)
{
    static unsigned char data[1 << 18];

    for (int i = 0; i < o->p->comms; i++)
        fprintf(o->to, "static MPI_Comm c%d;\n", i);
    for (int i = 0; i < o->p->windows; i++) {
        const struct window_spec *w = &o->p->window[i];
        fprintf(o->to, "static MPI_Win w%d;\nstatic unsigned char *base_%d[%d];\n", i, i,
                w->parts + 1);
        fprintf(o->to, "static MPI_Aint address_%d[%d];\n", i, w->parts + 1);
        for (int k = 0; k < w->parts && w->part[k].bytes <= (long)sizeof data; k++) {
            part_fill(w, k, data);
            bytes_of(o, "first", i, k, data, (size_t)w->part[k].bytes);
        }
    }
    for (int i = 0; i < o->p->n; i++)
        emit_statement_data(o, i);
    if (o->p->threads > 1)
        fputs("static pthread_barrier_t joined;\n", o->to);
    fputc('\n', o->to);
}

/* ---- statements ---- */

static int rank_in(const struct out *o, int win, int rank)
{
    return member_of(&o->p->comm[o->p->window[win].comm], rank);
}

static void emit_open(struct out *o, const struct statement *s, int rank)
{
    static const char *const calls[FLAVORS] = {"allocate", "create", "create_dynamic",
                                               "allocate_shared"};
    const struct window_spec *w = &o->p->window[s->win];
    int own = part_of(w, rank), i = s->win;
    const char *info = w->infos > 0 ? "info" : "MPI_INFO_NULL";

    fputs("    {\n", o->to);
    if (w->infos > 0)
        fputs("    MPI_Info info;\n    MPI_Info_create(&info);\n", o->to);
    for (int k = 0; k < w->infos; k++)
        fprintf(o->to, "    MPI_Info_set(info, \"%s\", \"%s\");\n", w->key[k], w->value[k]);
    fprintf(o->to, "    MUST(MPI_Win_%s(", calls[w->flavor]);
    if (w->flavor == CREATE)
        fprintf(o->to, "base_%d[%d], ", i, own);
    if (w->flavor != DYNAMIC)
        fprintf(o->to, "%ld, %d, ", w->part[own].bytes, w->part[own].unit);
    fprintf(o->to, "%s, c%d, ", info, w->comm);
    if (w->flavor == ALLOCATE || w->flavor == SHARED)
        fprintf(o->to, "&base_%d[%d], ", i, own);
    fprintf(o->to, "&w%d));\n    MPI_Win_set_errhandler(w%d, MPI_ERRORS_RETURN);\n", i, i);
    for (int k = 0; k < w->parts; k++) {
        if (w->flavor == SHARED)
            fprintf(o->to, "    { MPI_Aint n; int u; MPI_Win_shared_query(w%d, %d, &n, &u, "
                    "&base_%d[%d]); }\n", i, k, i, k);
        if (w->part[k].owner == rank)
            fprintf(o->to, "    memcpy(base_%d[%d], first_%d_%d, %ld);\n", i, k, i, k,
                    w->part[k].bytes);
    }
    fprintf(o->to, "    MPI_Barrier(c%d);\n    }\n", w->comm);
}

static void emit_free(struct out *o, const struct statement *s, int number, int rank)
{
    const struct window_spec *w = &o->p->window[s->win];
    int me = rank_in(o, s->win, rank), i = s->win;
    bool locks = true;

    for (int k = 0; k < w->infos; k++)
        locks &= strcmp(w->key[k], "no_locks") != 0;
    fprintf(o->to, "    MPI_Barrier(c%d);\n", w->comm);
    if (locks)
        fprintf(o->to, "    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, %d, 0, w%d));\n", me, i);
    else
        fprintf(o->to, "    MUST(MPI_Win_fence(0, w%d));\n", i);
    for (int k = 0; k < w->parts; k++)
        if (w->part[k].owner == rank)
            fprintf(o->to, "    check(\"memory %d of w%d\", base_%d[%d], due_part_%d_%d, "
                    "any_part_%d_%d, %ld);\n", k, i, i, k, number, k, number, k,
                    w->part[k].bytes);
    if (locks)
        fprintf(o->to, "    MUST(MPI_Win_unlock(%d, w%d));\n", me, i);
    fprintf(o->to, "    MUST(MPI_Win_free(&w%d));\n", i);
}

static void emit_group(struct out *o, const struct statement *s)
{
    fputs("    {\n    MPI_Group all, group;\n    int ranks[] = {", o->to);
    for (int i = 0; i < s->n; i++)
        fprintf(o->to, "%d, ", rank_in(o, s->win, s->list[i]));
    fprintf(o->to, "0};\n    MPI_Win_get_group(w%d, &all);\n"
            "    MPI_Group_incl(all, %d, ranks, &group);\n    MUST(MPI_Win_%s(group, %d, w%d));\n"
            "    }\n", s->win, s->n, verb_name(s->verb), s->asserts, s->win);
}

static void emit_sync(struct out *o, const struct statement *s)
{
    int target = rank_in(o, s->win, s->target);

    switch (s->verb) {
    case V_POST:
    case V_START:
        emit_group(o, s);
        break;
    case V_FENCE:
    case V_LOCK_ALL:
        fprintf(o->to, "    MUST(MPI_Win_%s(%d, w%d));\n", verb_name(s->verb), s->asserts, s->win);
        break;
    case V_LOCK:
        fprintf(o->to, "    MUST(MPI_Win_lock(%s, %d, %d, w%d));\n",
                s->exclusive ? "MPI_LOCK_EXCLUSIVE" : "MPI_LOCK_SHARED", target, s->asserts,
                s->win);
        break;
    case V_UNLOCK: case V_FLUSH: case V_FLUSH_LOCAL:
        fprintf(o->to, "    MUST(MPI_Win_%s(%d, w%d));\n", verb_name(s->verb), target, s->win);
        break;
    case V_TEST:
        fprintf(o->to, "    for (int done = 0; !done;)\n"
                "        MUST(MPI_Win_test(w%d, &done));\n", s->win);
        break;
    case V_ATTACH:
        fprintf(o->to, "    MUST(MPI_Win_attach(w%d, base_%d[%d], %ld));\n", s->win, s->win,
                s->part, o->p->window[s->win].part[s->part].bytes);
        break;
    case V_DETACH:
        fprintf(o->to, "    MUST(MPI_Win_detach(w%d, base_%d[%d]));\n", s->win, s->win, s->part);
        break;
    default:
        fprintf(o->to, "    MUST(MPI_Win_%s(w%d));\n", verb_name(s->verb), s->win);
        break;
    }
}

static void emit_side(struct out *o, const char *name, const struct buffer *b, int number, int t)
{
    long low;

    span_of(b, &low);
    fprintf(o->to, "(char *)%s_%d - (%ld), %d, t%d, ", name, number, low, b->count, t);
}

/* Under an exclusive lock: get; combine, packed, as MPI itself does; put. */
static void emit_rmw(struct out *o, const struct statement *s, int number, int target)
{
    const struct window_spec *w = &o->p->window[s->win];
    int origin, result, remote, n, el;
    struct layout l;
    char disp[80];

    layout_of(&s->remote, &l);
    n = l.n;
    el = n > 0 ? l.spot[0].el : 0;
    layout_free(&l);
    if (w->flavor == DYNAMIC)
        snprintf(disp, sizeof disp, "address_%d[%d] + %ld", s->win, s->part, s->at);
    else
        snprintf(disp, sizeof disp, "%ld", s->at / w->part[s->part].unit);
    fputs("    {\n", o->to);
    origin = emit_type(o, s->origin.type);
    result = emit_type(o, s->result.type);
    remote = emit_type(o, s->remote.type);
    fprintf(o->to, "    unsigned char *old = malloc(%d), *mine = malloc(%d);\n",
            n * 64 + 1, n * 64 + 1);
    fprintf(o->to, "    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, %d, 0, w%d));\n    MUST(MPI_Get(",
            target, s->win);
    emit_side(o, "result", &s->result, number, result);
    fprintf(o->to, "%d, %s, %d, t%d, w%d));\n    MUST(MPI_Win_flush(%d, w%d));\n", target, disp,
            s->remote.count, remote, s->win, target, s->win);
    fprintf(o->to, "    MPI_Sendrecv(");
    emit_side(o, "result", &s->result, number, result);
    fprintf(o->to, "0, 0, old, %d, %s, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);\n"
            "    MPI_Sendrecv(", n, el_types[el].name);
    emit_side(o, "origin", &s->origin, number, origin);
    fprintf(o->to, "0, 0, mine, %d, %s, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);\n", n,
            el_types[el].name);
    if (s->op == EL_REPLACE)
        fputs("    (void)old;\n", o->to);
    else
        fprintf(o->to, "    MPI_Reduce_local(old, mine, %d, %s, %s);\n", n, el_types[el].name,
                el_op_name((enum el_op)s->op));
    fprintf(o->to, "    MUST(MPI_Put(mine, %d, %s, %d, %s, %d, t%d, w%d));\n"
            "    MUST(MPI_Win_unlock(%d, w%d));\n    }\n", n, el_types[el].name,
            target, disp, s->remote.count, remote, s->win, target, s->win);
}

static void emit_rma(struct out *o, const struct statement *s, int number)
{
    static const char *const calls[VERBS] = {
        [V_PUT] = "Put", [V_GET] = "Get", [V_RPUT] = "Rput", [V_RGET] = "Rget",
        [V_ACC] = "Accumulate", [V_RACC] = "Raccumulate", [V_GACC] = "Get_accumulate",
        [V_RGACC] = "Rget_accumulate", [V_FOP] = "Fetch_and_op", [V_CAS] = "Compare_and_swap"};
    const struct window_spec *w = &o->p->window[s->win];
    int target = rank_in(o, s->win, s->target), origin = -1, result = -1, remote;
    bool one = s->verb == V_FOP || s->verb == V_CAS;

    if (s->verb == V_RMW) {
        emit_rmw(o, s, number, target);
        return;
    }
    fputs("    {\n", o->to);
    if (s->origin.type != NULL)
        origin = emit_type(o, s->origin.type);
    if (s->result.type != NULL)
        result = emit_type(o, s->result.type);
    remote = emit_type(o, s->remote.type);
    fprintf(o->to, "    MUST(MPI_%s(", calls[s->verb]);
    if (one) {
        fprintf(o->to, "origin_%d, ", number);
        if (s->verb == V_CAS)
            fprintf(o->to, "compare_%d, ", number);
        fprintf(o->to, "result_%d, t%d, ", number, remote);
    } else {
        if (origin >= 0)
            emit_side(o, "origin", &s->origin, number, origin);
        if (result >= 0)
            emit_side(o, "result", &s->result, number, result);
    }
    if (s->target < 0)
        fputs("MPI_PROC_NULL, 0, ", o->to);
    else if (w->flavor == DYNAMIC)
        fprintf(o->to, "%d, address_%d[%d] + %ld, ", target, s->win, s->part, s->at);
    else
        fprintf(o->to, "%d, %ld, ", target, s->at / w->part[s->part].unit);
    if (!one)
        fprintf(o->to, "%d, t%d, ", s->remote.count, remote);
    if (verb_accumulates(s->verb) && s->verb != V_CAS)
        fprintf(o->to, "%s, ", el_op_name((enum el_op)s->op));
    fprintf(o->to, "w%d", s->win);
    if (s->request >= 0)
        fprintf(o->to, ", &request_%d_%d", s->rank, s->request);
    fputs("));\n    }\n", o->to);
}

static void emit_local(struct out *o, const struct statement *s, int number)
{
    const struct buffer *b = s->verb == V_LOAD ? &s->result : &s->origin;
    struct layout l;

    layout_of(b, &l);
    for (int k = 0; k < l.n; k++) {
        int at[2], bytes[2], parts = element_parts(l.spot[k].el, at, bytes);
        for (int i = 0; i < parts; i++) {
            long from = l.spot[k].at + at[i] - l.low, mem = s->at + l.spot[k].at + at[i];
            if (s->verb == V_LOAD)
                fprintf(o->to, "    memcpy(result_%d + %ld, base_%d[%d] + %ld, %d);\n", number,
                        from, s->win, s->part, mem, bytes[i]);
            else
                fprintf(o->to, "    memcpy(base_%d[%d] + %ld, origin_%d + %ld, %d);\n", s->win,
                        s->part, mem, number, from, bytes[i]);
        }
    }
    layout_free(&l);
}

static void emit_requests(struct out *o, const struct statement *s)
{
    for (int i = 0; i < s->n; i++)
        fprintf(o->to, "    MUST(MPI_Wait(&request_%d_%d, MPI_STATUS_IGNORE));\n", s->rank,
                s->list[i]);
}

static void emit_statement(struct out *o, int number, int rank)
{
    const struct statement *s = &o->p->s[number];

    fputs("    /* ", o->to);
    statement_print(o->p, s, o->to);
    fputs("     */\n", o->to);
    switch (s->verb) {
    case V_OPEN: emit_open(o, s, rank); break;
    case V_FREE: emit_free(o, s, number, rank); break;
    case V_BARRIER: fprintf(o->to, "    MPI_Barrier(c%d);\n", s->comm); break;
    case V_JOIN: fputs("    pthread_barrier_wait(&joined);\n", o->to); break;
    case V_SIGNAL:
        if (s->rank == rank)
            fprintf(o->to, "    MPI_Send(NULL, 0, MPI_BYTE, %d, %d, MPI_COMM_WORLD);\n",
                    s->target, number);
        else
            fprintf(o->to, "    MPI_Recv(NULL, 0, MPI_BYTE, %d, %d, MPI_COMM_WORLD, "
                    "MPI_STATUS_IGNORE);\n", s->rank, number);
        break;
    case V_WAITALL: case V_WAITANY: case V_WAITONE: case V_TESTALL: emit_requests(o, s); break;
    case V_LOAD: case V_STORE: emit_local(o, s, number); break;
    default:
        if (verb_is_data(s->verb))
            emit_rma(o, s, number);
        else
            emit_sync(o, s);
        break;
    }
}

static void emit_thread(struct out *o, int rank, int thread)
{
    o->types = 0;
    fprintf(o->to, "static void *rank_%d_thread_%d(void *unused)\n{\n", rank, thread);
    for (int i = 0; i < o->p->n; i++)
        if (statement_of(o->p, &o->p->s[i], rank, thread))
            emit_statement(o, i, rank);
    for (int i = 0; i < o->p->n; i++) {
        const struct statement *s = &o->p->s[i];
        const unsigned char *mask;
        size_t n;
        if (s->rank == rank && s->thread == thread && s->result.type != NULL && s->target >= 0 &&
            model_expects(o->m, i, -1, &mask, &n) != NULL)
            fprintf(o->to, "    check(\"statement %d\", result_%d, due_%d, any_%d, %zu);\n", i + 1,
                    i, i, i, n - 2 * SOAK_GUARD);
    }
    fputs("    return unused;\n}\n\n", o->to);
}

static void emit_memory(struct out *o)
{
    for (int i = 0; i < o->p->windows; i++) {
        const struct window_spec *w = &o->p->window[i];
        for (int k = 0; k < w->parts && (w->flavor == CREATE || w->flavor == DYNAMIC); k++)
            fprintf(o->to, "    base_%d[%d] = calloc(1, %ld);\n"
                    "    MPI_Get_address(base_%d[%d], &address_%d[%d]);\n"
                    "    MPI_Bcast(&address_%d[%d], 1, MPI_AINT, %d, MPI_COMM_WORLD);\n", i, k,
                    w->part[k].bytes + 1, i, k, i, k, i, k, w->part[k].owner);
    }
    for (int i = 0; i < o->p->n; i++)
        if (o->p->s[i].result.type != NULL)
            fprintf(o->to, "    memset(result_%d, %d, sizeof result_%d);\n", i, SOAK_BLANK, i);
}

static void emit_main(struct out *o)
{
    const struct program *p = o->p;

    fprintf(o->to, "int main(int argc, char **argv)\n{\n"
            "    static void *(*const run[%d][%d])(void *) = {\n", p->ranks, p->threads);
    for (int r = 0; r < p->ranks; r++) {
        fputs("        {", o->to);
        for (int t = 0; t < p->threads; t++)
            fprintf(o->to, "%srank_%d_thread_%d", t > 0 ? ", " : "", r, t);
        fputs("},\n", o->to);
    }
    fprintf(o->to, "    };\n    pthread_t thread[%d];\n    int rank, size, level;\n\n"
            "    MPI_Init_thread(&argc, &argv, %s, &level);\n"
            "    MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n    MPI_Comm_size(MPI_COMM_WORLD, &size);\n"
            "    if (size != %d)\n        MPI_Abort(MPI_COMM_WORLD, 2);\n", p->threads,
            p->threads > 1 ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SINGLE", p->ranks);
    for (int i = 0; i < p->comms; i++) {
        fprintf(o->to, "    {\n    static const int place[%d] = {", p->ranks);
        for (int r = 0; r < p->ranks; r++)
            fprintf(o->to, "%s%d", r > 0 ? ", " : "", member_of(&p->comm[i], r));
        fprintf(o->to, "};\n    MPI_Comm_split(MPI_COMM_WORLD, place[rank] >= 0 ? 0 : "
                "MPI_UNDEFINED, place[rank], &c%d);\n    }\n", i);
    }
    emit_memory(o);
    if (p->threads > 1)
        fprintf(o->to, "    pthread_barrier_init(&joined, NULL, %d);\n", p->threads);
    fprintf(o->to, "    for (int t = 1; t < %d; t++)\n"
            "        pthread_create(&thread[t], NULL, run[rank][t], NULL);\n"
            "    run[rank][0](NULL);\n    for (int t = 1; t < %d; t++)\n"
            "        pthread_join(thread[t], NULL);\n"
            "    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
            "    if (rank == 0)\n        puts(wrong ? \"WRONG\" : \"right\");\n"
            "    MPI_Finalize();\n    return wrong != 0;\n}\n", p->threads, p->threads);
}

void emit(const struct program *p, FILE *to)
{
    struct out o = {.p = p, .to = to};
    struct model *m = model_new(p);
    char why[WHY];

    for (int i = 0; i < p->n; i++)
        if (!model_step(m, &p->s[i], why)) {
            fprintf(to, "#error \"line %d: %s\"\n", p->s[i].line, why);
            model_free(m);
            return;
        }
    o.m = m;
    fprintf(to, "/* mpicc -pthread, mpirun -np %d. What soak found, as\n", p->ranks);
    program_print(p, to);
    fputs(" */\n", to);
    fputs(prelude, to);
    emit_globals(&o);
    for (int r = 0; r < p->ranks; r++)
        for (int t = 0; t < p->threads; t++)
            emit_thread(&o, r, t);
    emit_main(&o);
    model_free(m);
}
