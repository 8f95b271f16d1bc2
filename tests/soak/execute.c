/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program carried out over MPI, one rank's part of it.
 *
 * When a call that completes an operation at its origin returns, the result is copied, and what
 * was brought is overwritten: an operation that was not over by then is seen.
 */
#include "execute.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COMM_CACHE = 32, SCRIBBLE = 0x77 };

/* Communicators last: making them takes longer than most programs. */
static struct {
    int n;
    struct comm_spec spec[COMM_CACHE];
    MPI_Comm comm[COMM_CACHE];
} cache;

/* A buffer of ours: the touched bytes with guards. */
struct image {
    unsigned char *block, *base;    /* base: what MPI gets */
    size_t bytes;
    struct layout layout;
};

struct operation {
    bool started, reaped;
    int thread, joins;              /* as it began */
    struct image origin, result;
    unsigned char *copy;            /* of origin */
    MPI_Request request;
};

struct window {
    MPI_Win win;
    unsigned char *block[SOAK_PARTS];   /* own memory that we brought, with guards */
    unsigned char *base[SOAK_PARTS];    /* what can be loaded from here */
    MPI_Aint address[SOAK_PARTS];       /* dynamic: of all regions */
};

struct run {
    const struct program *p;
    struct record *record;
    struct place *place;
    fatal_fn *fatal;
    int rank, joins;
    MPI_Comm comm[SOAK_COMMS];
    struct window window[SOAK_WINDOWS];
    struct operation *op;           /* of each statement */
    pthread_mutex_t lock;           /* of record, and of who reaps */
    pthread_barrier_t join;
};

struct worker {
    struct run *run;
    int thread;
};

void record_free(struct record *r)
{
    for (int i = 0; i < r->n; i++)
        free((void *)(uintptr_t)r->o[i].data);
    free(r->o);
    memset(r, 0, sizeof *r);
}

static void keep(struct run *run, int statement, int part, const void *data, size_t bytes)
{
    struct record *r = run->record;
    unsigned char *copy = malloc(bytes + 1);

    memcpy(copy, data, bytes);
    if (r->n == r->room) {
        r->room = r->room == 0 ? 32 : 2 * r->room;
        r->o = realloc(r->o, (size_t)r->room * sizeof *r->o);
    }
    r->o[r->n++] = (struct outcome){statement, part, bytes, copy};
}

static void say(struct run *run, int statement, const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->fatal(statement, text);
}

static void must(struct run *run, int statement, int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int length;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &length);
    say(run, statement, "%s: %s", call, text);
}

static int number_of(const struct run *run, const struct statement *s)
{
    return (int)(s - run->p->s);
}

static int win_rank(const struct run *run, int win, int rank)
{
    return rank < 0 ? MPI_PROC_NULL : member_of(&run->p->comm[run->p->window[win].comm], rank);
}

/* ---- buffers ---- */

static void image_make(struct image *i, const struct buffer *b)
{
    layout_of(b, &i->layout);
    i->bytes = (size_t)(i->layout.high - i->layout.low) + 2 * SOAK_GUARD;
    i->block = malloc(i->bytes);
    memset(i->block, SOAK_BLANK, i->bytes);
    i->base = (unsigned char *)((uintptr_t)i->block + SOAK_GUARD - (uintptr_t)i->layout.low);
}

static void image_free(struct image *i)
{
    layout_free(&i->layout);
    free(i->block);
    i->block = NULL;
}

/* Where element k lies. */
static unsigned char *image_at(const struct image *i, int k)
{
    return i->block + SOAK_GUARD + i->layout.spot[k].at - i->layout.low;
}

static void operation_make(struct operation *op, const struct statement *s)
{
    int fill = s->verb == V_CAS ? (int)EL_REPLACE : s->op;

    op->request = MPI_REQUEST_NULL;
    if (s->result.type != NULL)
        image_make(&op->result, &s->result);
    if (s->origin.type == NULL)
        return;
    image_make(&op->origin, &s->origin);
    for (int k = 0; k < op->origin.layout.n; k++)
        element_fill(op->origin.layout.spot[k].el, fill, image_at(&op->origin, k), s->seed, k);
    op->copy = malloc(op->origin.bytes);
    memcpy(op->copy, op->origin.block, op->origin.bytes);
}

/* The operation is over at its origin. */
static void reap(struct run *run, int statement)
{
    struct operation *op = &run->op[statement];

    if (!op->started || op->reaped)
        return;
    op->reaped = true;
    if (op->copy != NULL && memcmp(op->copy, op->origin.block, op->origin.bytes) != 0)
        say(run, statement, "the origin's buffer was changed");
    if (op->copy != NULL)
        memset(op->origin.block, SCRIBBLE, op->origin.bytes);
    if (op->result.block != NULL)
        keep(run, statement, -1, op->result.block, op->result.bytes);
}

/* Those on a window (to a target, if it is not -1) that began before this thread's call: its own,
 * what was before a join, and where the call closes the epoch, all. Nothing may be under way in it
 * then: another thread's may be before the call by another window's complete and wait, too. */
static void reap_window(struct run *run, int thread, bool closes, int win, int target)
{
    pthread_mutex_lock(&run->lock);
    for (int i = 0; i < run->p->n; i++) {
        const struct statement *s = &run->p->s[i];
        const struct operation *op = &run->op[i];
        if (op->started && !op->reaped && s->win == win && (target < 0 || s->target == target) &&
            (closes || op->thread == thread || op->joins < run->joins))
            reap(run, i);
    }
    pthread_mutex_unlock(&run->lock);
}

/* ---- windows ---- */

static MPI_Info info_of(const struct window_spec *w)
{
    MPI_Info info = MPI_INFO_NULL;

    if (w->infos > 0)
        MPI_Info_create(&info);
    for (int i = 0; i < w->infos; i++)
        MPI_Info_set(info, w->key[i], w->value[i]);
    return info;
}

static unsigned char *guarded(size_t bytes)
{
    unsigned char *block = malloc(bytes + 2 * SOAK_GUARD);

    memset(block, SOAK_BLANK, bytes + 2 * SOAK_GUARD);
    return block;
}

/* Memory that is brought is there from the start, so that all know its address. */
static void make_memory(struct run *run)
{
    MPI_Aint mine[SOAK_WINDOWS * SOAK_PARTS] = {0};
    MPI_Aint all[SOAK_RANKS * SOAK_WINDOWS * SOAK_PARTS];
    int n = SOAK_WINDOWS * SOAK_PARTS;

    for (int i = 0; i < run->p->windows; i++)
        for (int k = 0; k < run->p->window[i].parts; k++) {
            const struct window_spec *w = &run->p->window[i];
            struct window *at = &run->window[i];
            if (w->part[k].owner != run->rank || (w->flavor != CREATE && w->flavor != DYNAMIC))
                continue;
            at->block[k] = guarded((size_t)w->part[k].bytes);
            at->base[k] = at->block[k] + SOAK_GUARD;
            MPI_Get_address(at->base[k], &mine[i * SOAK_PARTS + k]);
        }
    MPI_Allgather(mine, n, MPI_AINT, all, n, MPI_AINT, MPI_COMM_WORLD);
    for (int i = 0; i < run->p->windows; i++)
        for (int k = 0; k < run->p->window[i].parts; k++)
            run->window[i].address[k]
                = all[run->p->window[i].part[k].owner * n + i * SOAK_PARTS + k];
}

static int make_window(struct run *run, int win, int own, MPI_Info info)
{
    const struct window_spec *w = &run->p->window[win];
    struct window *at = &run->window[win];
    MPI_Comm comm = run->comm[w->comm];

    switch (w->flavor) {
    case ALLOCATE:
        return MPI_Win_allocate(w->part[own].bytes, w->part[own].unit, info, comm,
                                &at->base[own], &at->win);
    case SHARED:
        return MPI_Win_allocate_shared(w->part[own].bytes, w->part[own].unit, info, comm,
                                       &at->base[own], &at->win);
    case CREATE:
        return MPI_Win_create(at->base[own], w->part[own].bytes, w->part[own].unit, info, comm,
                              &at->win);
    default:
        return MPI_Win_create_dynamic(info, comm, &at->win);
    }
}

static void see_shared(struct run *run, int win, int statement)
{
    const struct window_spec *w = &run->p->window[win];

    for (int k = 0; k < w->parts; k++) {
        MPI_Aint bytes;
        int unit;
        must(run, statement, MPI_Win_shared_query(run->window[win].win, k, &bytes, &unit,
                                                  &run->window[win].base[k]),
             "MPI_Win_shared_query");
        if (bytes < w->part[k].bytes || (bytes > 0 && unit != w->part[k].unit))
            say(run, statement, "MPI_Win_shared_query: %ld bytes, unit %d", (long)bytes, unit);
    }
}

static void open_window(struct run *run, const struct statement *s)
{
    const struct window_spec *w = &run->p->window[s->win];
    struct window *at = &run->window[s->win];
    MPI_Info info = info_of(w);

    must(run, number_of(run, s), make_window(run, s->win, part_of(w, run->rank), info),
         "making a window");
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    MPI_Win_set_errhandler(at->win, MPI_ERRORS_RETURN);
    if (w->flavor == SHARED)
        see_shared(run, s->win, number_of(run, s));
    for (int k = 0; k < w->parts; k++)
        if (w->part[k].owner == run->rank)
            part_fill(w, k, at->base[k]);
    MPI_Barrier(run->comm[w->comm]);
}

/* What is in one's own memory at last. */
static void keep_memory(struct run *run, const struct statement *s, int part)
{
    size_t bytes = (size_t)run->p->window[s->win].part[part].bytes;
    const struct window *at = &run->window[s->win];
    unsigned char *image = guarded(bytes);

    if (bytes > 0)
        memcpy(image + SOAK_GUARD, at->base[part], bytes);
    if (at->block[part] != NULL)
        memcpy(image, at->block[part], bytes + 2 * SOAK_GUARD);
    keep(run, number_of(run, s), part, image, bytes + 2 * SOAK_GUARD);
    free(image);
}

static bool locks_allowed(const struct window_spec *w)
{
    for (int i = 0; i < w->infos; i++)
        if (strcmp(w->key[i], "no_locks") == 0 && strcmp(w->value[i], "true") == 0)
            return false;
    return true;
}

static void free_window(struct run *run, const struct statement *s)
{
    const struct window_spec *w = &run->p->window[s->win];
    struct window *at = &run->window[s->win];
    int me = win_rank(run, s->win, run->rank), i = number_of(run, s);
    bool locks = locks_allowed(w);

    MPI_Barrier(run->comm[w->comm]);
    if (locks)
        must(run, i, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, at->win), "MPI_Win_lock of own");
    else
        must(run, i, MPI_Win_fence(0, at->win), "MPI_Win_fence");
    for (int k = 0; k < w->parts; k++)
        if (w->part[k].owner == run->rank)
            keep_memory(run, s, k);
    if (locks)
        must(run, i, MPI_Win_unlock(me, at->win), "MPI_Win_unlock of own");
    must(run, i, MPI_Win_free(&at->win), "MPI_Win_free");
}

/* ---- what moves data ---- */

struct call {
    MPI_Win win;
    MPI_Datatype origin, result, remote;
    int target;
    MPI_Aint disp;
    MPI_Op op;
};

/* What MPI itself gets wrong is told apart from what a window does. */
static MPI_Datatype checked_type(struct run *run, const struct statement *s,
                                 const struct buffer *b)
{
    MPI_Datatype type = datatype_of(b->type);
    struct layout l;
    MPI_Aint lb, extent;

    MPI_Type_get_extent(type, &lb, &extent);
    layout_of(&(struct buffer){1, b->type}, &l);
    if (l.n > 0 && (lb != l.lb || extent != l.ub - l.lb))
        say(run, number_of(run, s), "datatype: MPI says %ld and %ld of bounds %ld and %ld",
            (long)lb, (long)(lb + extent), l.lb, l.ub);
    layout_free(&l);
    return type;
}

static struct call call_make(struct run *run, const struct statement *s)
{
    const struct window_spec *w = &run->p->window[s->win];
    struct call c = {.win = run->window[s->win].win, .origin = MPI_BYTE, .result = MPI_BYTE,
                     .remote = MPI_BYTE, .target = win_rank(run, s->win, s->target),
                     .op = MPI_OP_NULL};

    if (s->origin.type != NULL)
        c.origin = checked_type(run, s, &s->origin);
    if (s->result.type != NULL)
        c.result = checked_type(run, s, &s->result);
    if (s->remote.type != NULL)
        c.remote = checked_type(run, s, &s->remote);
    if (s->target >= 0)
        c.disp = w->flavor == DYNAMIC
                     ? MPI_Aint_add(run->window[s->win].address[s->part], s->at)
                     : s->at / w->part[s->part].unit;
    if (verb_accumulates(s->verb) && s->verb != V_CAS)
        c.op = el_op_handle((enum el_op)s->op);
    return c;
}

/* MPI keeps a datatype for as long as it needs it. */
static void call_free(struct call *c, const struct statement *s)
{
    if (s->origin.type != NULL && s->origin.type->shape != BASIC)
        MPI_Type_free(&c->origin);
    if (s->result.type != NULL && s->result.type->shape != BASIC)
        MPI_Type_free(&c->result);
    if (s->remote.type != NULL && s->remote.type->shape != BASIC)
        MPI_Type_free(&c->remote);
}

static int compare_and_swap(const struct statement *s, struct operation *op, const struct call *c)
{
    _Alignas(16) unsigned char compare[64] = {0};

    element_fill(s->remote.type->el, EL_REPLACE, compare, s->compare, 0);
    return MPI_Compare_and_swap(op->origin.base, compare, op->result.base, c->origin, c->target,
                                c->disp, c->win);
}

/* Under an exclusive lock: get, calculate, put. */
static int read_modify_write(const struct statement *s, struct operation *op,
                             const struct call *c)
{
    int rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, c->target, 0, c->win);

    if (rc == MPI_SUCCESS)
        rc = MPI_Get(op->result.base, s->result.count, c->result, c->target, c->disp,
                     s->remote.count, c->remote, c->win);
    if (rc == MPI_SUCCESS)
        rc = MPI_Win_flush(c->target, c->win);
    for (int k = 0; k < op->result.layout.n && rc == MPI_SUCCESS; k++) {
        const struct el_type *el = &el_types[op->result.layout.spot[k].el];
        _Alignas(16) unsigned char value[64] = {0}, operand[64] = {0};
        int at[2], bytes[2], parts = element_parts(op->result.layout.spot[k].el, at, bytes);
        for (int i = 0; i < parts; i++) {
            memcpy(value + at[i], image_at(&op->result, k) + at[i], (size_t)bytes[i]);
            memcpy(operand + at[i], image_at(&op->origin, k) + at[i], (size_t)bytes[i]);
        }
        el_apply(el, (enum el_op)s->op, value, operand);
        for (int i = 0; i < parts; i++)
            memcpy(image_at(&op->origin, k) + at[i], value + at[i], (size_t)bytes[i]);
    }
    memcpy(op->copy, op->origin.block, op->origin.bytes);
    if (rc == MPI_SUCCESS)
        rc = MPI_Put(op->origin.base, s->origin.count, c->origin, c->target, c->disp,
                     s->remote.count, c->remote, c->win);
    return rc == MPI_SUCCESS ? MPI_Win_unlock(c->target, c->win) : rc;
}

static int call(const struct statement *s, struct operation *op, const struct call *c)
{
    void *o = op->origin.base, *r = op->result.base;
    int on = s->origin.count, rn = s->result.count, tn = s->remote.count, t = c->target;
    MPI_Datatype ot = c->origin, rt = c->result, tt = c->remote;
    MPI_Request *q = &op->request;

    switch (s->verb) {
    case V_PUT: return MPI_Put(o, on, ot, t, c->disp, tn, tt, c->win);
    case V_GET: return MPI_Get(r, rn, rt, t, c->disp, tn, tt, c->win);
    case V_RPUT: return MPI_Rput(o, on, ot, t, c->disp, tn, tt, c->win, q);
    case V_RGET: return MPI_Rget(r, rn, rt, t, c->disp, tn, tt, c->win, q);
    case V_ACC: return MPI_Accumulate(o, on, ot, t, c->disp, tn, tt, c->op, c->win);
    case V_RACC: return MPI_Raccumulate(o, on, ot, t, c->disp, tn, tt, c->op, c->win, q);
    case V_GACC:
        return MPI_Get_accumulate(o, on, ot, r, rn, rt, t, c->disp, tn, tt, c->op, c->win);
    case V_RGACC:
        return MPI_Rget_accumulate(o, on, ot, r, rn, rt, t, c->disp, tn, tt, c->op, c->win, q);
    case V_FOP: return MPI_Fetch_and_op(o, r, ot, t, c->disp, c->op, c->win);
    case V_CAS: return compare_and_swap(s, op, c);
    default: return read_modify_write(s, op, c);
    }
}

static void do_rma(struct run *run, const struct statement *s, int thread)
{
    int i = number_of(run, s);
    struct operation *op = &run->op[i];
    struct call c = call_make(run, s);

    operation_make(op, s);
    op->thread = thread;
    must(run, i, call(s, op, &c), verb_name(s->verb));
    call_free(&c, s);
    pthread_mutex_lock(&run->lock);
    op->joins = run->joins;
    op->started = true;
    if (s->verb == V_RMW || (s->target < 0 && s->request < 0))
        reap(run, i);
    pthread_mutex_unlock(&run->lock);
}

static void do_local(struct run *run, const struct statement *s)
{
    int i = number_of(run, s);
    struct operation *op = &run->op[i];
    unsigned char *memory = run->window[s->win].base[s->part] + s->at;

    operation_make(op, s);
    for (int k = 0; k < op->origin.layout.n && s->verb == V_STORE; k++) {
        int at[2], bytes[2], parts = element_parts(op->origin.layout.spot[k].el, at, bytes);
        for (int n = 0; n < parts; n++)
            memcpy(memory + op->origin.layout.spot[k].at + at[n],
                   image_at(&op->origin, k) + at[n], (size_t)bytes[n]);
    }
    for (int k = 0; k < op->result.layout.n && s->verb == V_LOAD; k++) {
        int at[2], bytes[2], parts = element_parts(op->result.layout.spot[k].el, at, bytes);
        for (int n = 0; n < parts; n++)
            memcpy(image_at(&op->result, k) + at[n],
                   memory + op->result.layout.spot[k].at + at[n], (size_t)bytes[n]);
    }
    pthread_mutex_lock(&run->lock);
    op->started = true;
    reap(run, i);
    pthread_mutex_unlock(&run->lock);
}

/* ---- requests ---- */

static int op_of_request(const struct run *run, int number)
{
    for (int i = 0; i < run->p->n; i++)
        if (run->p->s[i].rank == run->rank && run->p->s[i].request == number)
            return i;
    return -1;
}

static void reap_request(struct run *run, int statement)
{
    pthread_mutex_lock(&run->lock);
    reap(run, statement);
    pthread_mutex_unlock(&run->lock);
}

static void wait_any(struct run *run, const struct statement *s, MPI_Request *q, const int *of)
{
    int which;

    for (int i = 0; i < s->n; i++) {
        must(run, number_of(run, s), MPI_Waitany(s->n, q, &which, MPI_STATUS_IGNORE),
             "MPI_Waitany");
        if (which == MPI_UNDEFINED)
            say(run, number_of(run, s), "MPI_Waitany: no request is left after %d of %d", i, s->n);
        reap_request(run, of[which]);
    }
}

static void do_requests(struct run *run, const struct statement *s)
{
    MPI_Request q[SOAK_LIST];
    int of[SOAK_LIST], done = 0, at = number_of(run, s);

    for (int i = 0; i < s->n; i++) {
        of[i] = op_of_request(run, s->list[i]);
        q[i] = run->op[of[i]].request;
    }
    switch (s->verb) {
    case V_WAITALL:
        must(run, at, MPI_Waitall(s->n, q, MPI_STATUSES_IGNORE), "MPI_Waitall");
        break;
    case V_WAITANY:
        wait_any(run, s, q, of);
        break;
    case V_WAITONE:
        for (int i = 0; i < s->n; i++) {
            must(run, at, MPI_Wait(&q[i], MPI_STATUS_IGNORE), "MPI_Wait");
            reap_request(run, of[i]);
        }
        break;
    default:
        for (; done == 0; sched_yield())
            must(run, at, MPI_Testall(s->n, q, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
        break;
    }
    for (int i = 0; i < s->n; i++)
        reap_request(run, of[i]);
}

/* ---- synchronisation ---- */

static MPI_Group group_of(struct run *run, const struct statement *s)
{
    int ranks[SOAK_LIST];
    MPI_Group all, group;

    for (int i = 0; i < s->n; i++)
        ranks[i] = win_rank(run, s->win, s->list[i]);
    MPI_Win_get_group(run->window[s->win].win, &all);
    MPI_Group_incl(all, s->n, ranks, &group);
    MPI_Group_free(&all);
    return group;
}

static int post_or_start(struct run *run, const struct statement *s)
{
    MPI_Group group = group_of(run, s);
    MPI_Win win = run->window[s->win].win;
    int rc = s->verb == V_POST ? MPI_Win_post(group, s->asserts, win)
                               : MPI_Win_start(group, s->asserts, win);

    MPI_Group_free(&group);
    return rc;
}

static int test_until_done(MPI_Win win)
{
    int done = 0, rc = MPI_SUCCESS;

    while (done == 0 && rc == MPI_SUCCESS) {
        rc = MPI_Win_test(win, &done);
        if (done == 0)
            sched_yield();
    }
    return rc;
}

static int synchronise(struct run *run, const struct statement *s)
{
    MPI_Win win = run->window[s->win].win;
    int target = win_rank(run, s->win, s->target);

    switch (s->verb) {
    case V_FENCE: return MPI_Win_fence(s->asserts, win);
    case V_POST:
    case V_START: return post_or_start(run, s);
    case V_COMPLETE: return MPI_Win_complete(win);
    case V_WAIT: return MPI_Win_wait(win);
    case V_TEST: return test_until_done(win);
    case V_LOCK:
        return MPI_Win_lock(s->exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target,
                            s->asserts, win);
    case V_UNLOCK: return MPI_Win_unlock(target, win);
    case V_LOCK_ALL: return MPI_Win_lock_all(s->asserts, win);
    case V_UNLOCK_ALL: return MPI_Win_unlock_all(win);
    case V_FLUSH: return MPI_Win_flush(target, win);
    case V_FLUSH_LOCAL: return MPI_Win_flush_local(target, win);
    case V_FLUSH_ALL: return MPI_Win_flush_all(win);
    case V_FLUSH_LOCAL_ALL: return MPI_Win_flush_local_all(win);
    case V_SYNC: return MPI_Win_sync(win);
    case V_ATTACH:
        return MPI_Win_attach(win, run->window[s->win].base[s->part],
                              run->p->window[s->win].part[s->part].bytes);
    default: return MPI_Win_detach(win, run->window[s->win].base[s->part]);
    }
}

static void do_sync(struct run *run, const struct statement *s, int thread)
{
    must(run, number_of(run, s), synchronise(run, s), verb_name(s->verb));
    switch (s->verb) {
    case V_FENCE: case V_COMPLETE: case V_UNLOCK_ALL:
        reap_window(run, thread, true, s->win, -1);
        break;
    case V_UNLOCK:
        reap_window(run, thread, true, s->win, s->target);
        break;
    case V_FLUSH_ALL: case V_FLUSH_LOCAL_ALL:
        reap_window(run, thread, false, s->win, -1);
        break;
    case V_FLUSH: case V_FLUSH_LOCAL:
        reap_window(run, thread, false, s->win, s->target);
        break;
    default:
        break;
    }
}

static void do_signal(struct run *run, const struct statement *s)
{
    int tag = number_of(run, s);

    if (s->rank == run->rank)
        MPI_Send(NULL, 0, MPI_BYTE, s->target, tag, MPI_COMM_WORLD);
    else
        MPI_Recv(NULL, 0, MPI_BYTE, s->rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void do_join(struct run *run)
{
    if (pthread_barrier_wait(&run->join) == PTHREAD_BARRIER_SERIAL_THREAD) {
        pthread_mutex_lock(&run->lock);
        run->joins++;
        pthread_mutex_unlock(&run->lock);
    }
    pthread_barrier_wait(&run->join);
}

static void do_statement(struct run *run, const struct statement *s, int thread)
{
    switch (s->verb) {
    case V_OPEN: open_window(run, s); break;
    case V_FREE: free_window(run, s); break;
    case V_BARRIER: MPI_Barrier(run->comm[s->comm]); break;
    case V_SIGNAL: do_signal(run, s); break;
    case V_JOIN: do_join(run); break;
    case V_WAITALL: case V_WAITANY: case V_WAITONE: case V_TESTALL: do_requests(run, s); break;
    case V_LOAD: case V_STORE: do_local(run, s); break;
    default:
        if (verb_is_data(s->verb))
            do_rma(run, s, thread);
        else
            do_sync(run, s, thread);
        break;
    }
}

static void *work(void *arg)
{
    const struct worker *w = arg;
    struct run *run = w->run;

    for (int i = 0; i < run->p->n; i++)
        if (statement_of(run->p, &run->p->s[i], run->rank, w->thread)) {
            run->place->statement[w->thread] = i + 1;
            do_statement(run, &run->p->s[i], w->thread);
        }
    run->place->statement[w->thread] = 0;
    return NULL;
}

/* ---- the whole ---- */

static MPI_Comm comm_of(const struct comm_spec *c, int rank)
{
    int at = member_of(c, rank);

    for (int i = 0; i < cache.n; i++)
        if (cache.spec[i].n == c->n &&
            memcmp(cache.spec[i].rank, c->rank, (size_t)c->n * sizeof c->rank[0]) == 0)
            return cache.comm[i];
    if (cache.n == COMM_CACHE)
        execute_end();
    cache.spec[cache.n] = *c;
    MPI_Comm_split(MPI_COMM_WORLD, at >= 0 ? 0 : MPI_UNDEFINED, at, &cache.comm[cache.n]);
    return cache.comm[cache.n++];
}

void execute_end(void)
{
    for (int i = 0; i < cache.n; i++)
        if (cache.comm[i] != MPI_COMM_NULL)
            MPI_Comm_free(&cache.comm[i]);
    cache.n = 0;
}

static void run_threads(struct run *run)
{
    pthread_t thread[SOAK_THREADS];
    struct worker worker[SOAK_THREADS];

    pthread_mutex_init(&run->lock, NULL);
    pthread_barrier_init(&run->join, NULL, (unsigned)run->p->threads);
    for (int t = 0; t < run->p->threads; t++)
        worker[t] = (struct worker){run, t};
    for (int t = 1; t < run->p->threads; t++)
        if (pthread_create(&thread[t], NULL, work, &worker[t]) != 0)
            say(run, 0, "pthread_create fails");
    work(&worker[0]);
    for (int t = 1; t < run->p->threads; t++)
        pthread_join(thread[t], NULL);
    pthread_barrier_destroy(&run->join);
    pthread_mutex_destroy(&run->lock);
}

void execute(const struct program *p, struct record *record, struct place *place, fatal_fn *fatal)
{
    struct run run = {.p = p, .record = record, .place = place, .fatal = fatal};

    if (cache.n + p->comms > COMM_CACHE)
        execute_end();
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    for (int i = 0; i < p->comms; i++)
        run.comm[i] = comm_of(&p->comm[i], run.rank);
    run.op = calloc((size_t)p->n + 1, sizeof *run.op);
    make_memory(&run);
    run_threads(&run);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < p->n; i++) {
        image_free(&run.op[i].origin);
        image_free(&run.op[i].result);
        free(run.op[i].copy);
    }
    for (int i = 0; i < p->windows; i++)
        for (int k = 0; k < SOAK_PARTS; k++)
            free(run.window[i].block[k]);
    free(run.op);
}
