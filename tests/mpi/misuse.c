/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the one-sided chapter with each of its arguments wrong: the class that the standard
 * names, through MPI_ERRORS_RETURN; no byte of the window, of the results or of the request is
 * touched; and the window works as before. Epochs and displacements are in `errors`.
 */
#include "elems.h"
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 64, BYTES = 8 * WORDS };

/* ---- one call, given its arguments ---- */

enum call { PUT, GET, ACC, GET_ACC, FETCH, CAS, RPUT, RGET, RACC, RGET_ACC, CALLS };

static const char *const call_name[CALLS] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap",
    "rput", "rget", "raccumulate", "rget_accumulate",
};

struct args {
    const void *origin;
    void *result;
    int target, origin_count, result_count, target_count;
    MPI_Datatype origin_type, result_type, target_type;
    MPI_Aint disp;
    MPI_Op op;
    MPI_Win win;
    MPI_Request *request;
};

static int do_call(enum call call, const struct args *a)
{
    switch (call) {
    case PUT:
        return MPI_Put(a->origin, a->origin_count, a->origin_type, a->target, a->disp,
                       a->target_count, a->target_type, a->win);
    case GET:
        return MPI_Get(a->result, a->result_count, a->result_type, a->target, a->disp,
                       a->target_count, a->target_type, a->win);
    case ACC:
        return MPI_Accumulate(a->origin, a->origin_count, a->origin_type, a->target, a->disp,
                              a->target_count, a->target_type, a->op, a->win);
    case GET_ACC:
        return MPI_Get_accumulate(a->origin, a->origin_count, a->origin_type, a->result,
                                  a->result_count, a->result_type, a->target, a->disp,
                                  a->target_count, a->target_type, a->op, a->win);
    case FETCH:
        return MPI_Fetch_and_op(a->origin, a->result, a->target_type, a->target, a->disp, a->op,
                                a->win);
    case CAS:
        return MPI_Compare_and_swap(a->origin, a->origin, a->result, a->target_type, a->target,
                                    a->disp, a->win);
    case RPUT:
        return MPI_Rput(a->origin, a->origin_count, a->origin_type, a->target, a->disp,
                        a->target_count, a->target_type, a->win, a->request);
    case RGET:
        return MPI_Rget(a->result, a->result_count, a->result_type, a->target, a->disp,
                        a->target_count, a->target_type, a->win, a->request);
    case RACC:
        return MPI_Raccumulate(a->origin, a->origin_count, a->origin_type, a->target, a->disp,
                               a->target_count, a->target_type, a->op, a->win, a->request);
    default:
        return MPI_Rget_accumulate(a->origin, a->origin_count, a->origin_type, a->result,
                                   a->result_count, a->result_type, a->target, a->disp,
                                   a->target_count, a->target_type, a->op, a->win, a->request);
    }
}

/* Which arguments a call has. */
enum { HAS_ORIGIN = 1, HAS_RESULT = 2, HAS_OP = 4, ONE_TYPE = 8 };
static const int has[CALLS] = {
    HAS_ORIGIN, HAS_RESULT, HAS_ORIGIN | HAS_OP, HAS_ORIGIN | HAS_RESULT | HAS_OP,
    ONE_TYPE | HAS_OP, ONE_TYPE, HAS_ORIGIN, HAS_RESULT, HAS_ORIGIN | HAS_OP,
    HAS_ORIGIN | HAS_RESULT | HAS_OP,
};

/* ---- a window of which no byte may change ---- */

struct scene {
    struct tl_win w;
    long origin[WORDS];
    unsigned char result[BYTES], before[BYTES], due[BYTES];
    MPI_Request request;
    struct args right;      /* of a call that would work */
};

static int scene_open(struct scene *s, int flavor)
{
    int next = (tl_rank() + 1) % tl_size();

    if (!tl_win_open(&s->w, flavor, MPI_COMM_WORLD, BYTES, flavor == TL_DYNAMIC ? 1 : 8))
        return 0;
    tl_pattern(s->origin, sizeof s->origin, 3);
    tl_pattern(s->before, BYTES, 4);
    tl_pattern(s->due, BYTES, 5 + (uint64_t)s->w.rank);
    memcpy(s->result, s->before, BYTES);
    tl_local_begin(&s->w);
    memcpy(s->w.base, s->due, BYTES);
    tl_local_end(&s->w);
    s->request = MPI_REQUEST_NULL;
    s->right = (struct args){
        s->origin, s->result, next, 2, 2, 2, MPI_LONG, MPI_LONG, MPI_LONG,
        tl_disp(&s->w, next, 16), MPI_SUM, s->w.win, &s->request,
    };
    tl_barrier();
    return 1;
}

static void untouched(struct scene *s, const char *after)
{
    tl_true(memcmp(s->result, s->before, BYTES) == 0, "%s wrote to the result buffer", after);
    tl_true(s->request == MPI_REQUEST_NULL, "%s left a request", after);
    s->request = MPI_REQUEST_NULL;
}

static void scene_close(struct scene *s)
{
    long value = 7 + s->w.rank, got = 0;

    tl_barrier();
    tl_local_begin(&s->w);
    for (int i = 0; i < BYTES; i++)
        tl_true(s->w.base[i] == s->due[i], "a wrong call wrote byte %d of the window", i);
    tl_local_end(&s->w);
    tl_barrier();
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, s->right.target, 0, s->w.win), "a later lock");
    tl_ok(MPI_Put(&value, 1, MPI_LONG, s->right.target, s->right.disp, 1, MPI_LONG, s->w.win),
          "a later put");
    tl_ok(MPI_Win_unlock(s->right.target, s->w.win), "a later unlock");
    tl_barrier();
    tl_local_begin(&s->w);
    memcpy(&got, s->w.base + 16, sizeof got);
    tl_local_end(&s->w);
    tl_eq(got, 7 + (s->w.rank + s->w.size - 1) % s->w.size, "a later put");
    tl_win_close(&s->w);
}

static void wrong(struct scene *s, enum call call, const struct args *a, const char *what,
                  int wanted, int also)
{
    char text[80];

    strcat(strcat(strcpy(text, call_name[call]), ", "), what);
    tl_class2(do_call(call, a), text, wanted, also);
    untouched(s, text);
}

/* ---- arguments of the communication calls ---- */

static void wrong_target(struct scene *s, enum call call)
{
    static const int none[] = {-1, -7, -1000000, 1 << 30};
    struct args a = s->right;

    a.target = s->w.size;
    wrong(s, call, &a, "rank behind the last", MPI_ERR_RANK, MPI_ERR_RANK);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        a.target = none[i];
        wrong(s, call, &a, "rank", MPI_ERR_RANK, MPI_ERR_RANK);
    }
}

static void wrong_counts(struct scene *s, enum call call)
{
    struct args a = s->right;

    if ((has[call] & ONE_TYPE) != 0)
        return;
    a.target_count = -1;
    wrong(s, call, &a, "target count", MPI_ERR_COUNT, MPI_ERR_COUNT);
    a = s->right;
    a.origin_count = -3;
    if ((has[call] & HAS_ORIGIN) != 0)
        wrong(s, call, &a, "origin count", MPI_ERR_COUNT, MPI_ERR_COUNT);
    a = s->right;
    a.result_count = -1;
    if ((has[call] & HAS_RESULT) != 0)
        wrong(s, call, &a, "result count", MPI_ERR_COUNT, MPI_ERR_COUNT);
}

static void wrong_type(struct scene *s, enum call call, MPI_Datatype type, const char *what)
{
    struct args a = s->right;

    a.target_type = type;
    wrong(s, call, &a, what, MPI_ERR_TYPE, MPI_ERR_TYPE);
    a = s->right;
    a.origin_type = type;
    if ((has[call] & HAS_ORIGIN) != 0)
        wrong(s, call, &a, what, MPI_ERR_TYPE, MPI_ERR_TYPE);
    a = s->right;
    a.result_type = type;
    if ((has[call] & HAS_RESULT) != 0)
        wrong(s, call, &a, what, MPI_ERR_TYPE, MPI_ERR_TYPE);
}

/* The data sent are more than the receiver's type has room for. */
static void too_long(struct scene *s, enum call call)
{
    struct args a = s->right;

    if ((has[call] & ONE_TYPE) != 0)
        return;
    if (call == GET || call == RGET)
        a.result_count = 1;
    else
        a.target_count = 1;
    wrong(s, call, &a, "more than there is room for", MPI_ERR_TRUNCATE, MPI_ERR_ARG);
}

static void arguments(int flavor)
{
    struct scene s;
    MPI_Datatype raw;

    if (!scene_open(&s, flavor))
        return;
    MPI_Type_contiguous(1, MPI_LONG, &raw); /* never committed */
    tl_ok(MPI_Win_lock_all(0, s.w.win), "MPI_Win_lock_all");
    for (int call = 0; call < CALLS; call++) {
        struct args a = s.right;
        wrong_target(&s, (enum call)call);
        wrong_counts(&s, (enum call)call);
        wrong_type(&s, (enum call)call, MPI_DATATYPE_NULL, "no type");
        wrong_type(&s, (enum call)call, raw, "uncommitted type");
        too_long(&s, (enum call)call);
        a.win = MPI_WIN_NULL;
        wrong(&s, (enum call)call, &a, "no window", MPI_ERR_WIN, MPI_ERR_WIN);
        a = s.right;
        a.disp = -1;
        if (flavor != TL_DYNAMIC)
            wrong(&s, (enum call)call, &a, "displacement -1", MPI_ERR_DISP, MPI_ERR_RMA_RANGE);
    }
    tl_ok(MPI_Win_unlock_all(s.w.win), "MPI_Win_unlock_all");
    MPI_Type_free(&raw);
    scene_close(&s);
}

/* ---- operations ---- */

static void nothing_of_ours(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

static void operations(int flavor)
{
    struct scene s;
    MPI_Op mine;

    if (!scene_open(&s, flavor))
        return;
    MPI_Op_create(nothing_of_ours, 1, &mine);
    tl_ok(MPI_Win_lock_all(0, s.w.win), "MPI_Win_lock_all");
    for (int call = 0; call < CALLS; call++) {
        struct args a = s.right;
        if ((has[call] & HAS_OP) == 0)
            continue;
        a.op = MPI_OP_NULL;
        wrong(&s, (enum call)call, &a, "no operation", MPI_ERR_OP, MPI_ERR_OP);
        a.op = mine;
        wrong(&s, (enum call)call, &a, "a user's operation", MPI_ERR_OP, MPI_ERR_OP);
        a.op = MPI_MAXLOC;
        wrong(&s, (enum call)call, &a, "MPI_MAXLOC of longs", MPI_ERR_OP, MPI_ERR_OP);
    }
    tl_ok(MPI_Win_unlock_all(s.w.win), "MPI_Win_unlock_all");
    MPI_Op_free(&mine);
    scene_close(&s);
}

/* Open MPI makes no difference between MPI_CHAR and MPI_SIGNED_CHAR, MPI_BYTE and MPI_UINT8_T, nor
 * between the integers of its several languages; its reductions and its components take all
 * operations on integers of both, and so do we. */
static int taken_all_the_same(const struct el_type *t, enum el_op op)
{
    return t->kind == EL_TEXT || (t->kind == EL_BYTE && op < EL_MAXLOC)
           || ((t->kind == EL_SIGNED || t->kind == EL_UNSIGNED) && op >= EL_LAND && op <= EL_LXOR);
}

/* Each predefined operation on each predefined type that does not have it. */
static void operations_of_types(int flavor)
{
    struct scene s;

    if (!scene_open(&s, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, s.w.win), "MPI_Win_lock_all");
    for (int t = 0; t < el_type_count; t++)
        for (int op = 0; op < EL_OPS && el_present(&el_types[t]); op++) {
            struct args a = s.right;
            char what[64];
            if (el_allowed(&el_types[t], (enum el_op)op)
                || taken_all_the_same(&el_types[t], (enum el_op)op))
                continue;
            strcat(strcat(strcpy(what, el_op_name((enum el_op)op)), " of "), el_types[t].name);
            a.op = el_op_handle((enum el_op)op);
            a.origin_type = a.result_type = a.target_type = el_types[t].type;
            for (int call = 0; call < CALLS; call++)
                if ((has[call] & HAS_OP) != 0)
                    wrong(&s, (enum call)call, &a, what, MPI_ERR_OP, MPI_ERR_OP);
        }
    tl_ok(MPI_Win_unlock_all(s.w.win), "MPI_Win_unlock_all");
    scene_close(&s);
}

/* Types that one call or another does not take. */
static void types_of_calls(int flavor)
{
    struct scene s;
    MPI_Datatype pair;
    struct args a;

    if (!scene_open(&s, flavor))
        return;
    MPI_Type_contiguous(1, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    a = s.right;
    tl_ok(MPI_Win_lock_all(0, s.w.win), "MPI_Win_lock_all");
    a.target_type = pair;
    wrong(&s, FETCH, &a, "derived type", MPI_ERR_TYPE, MPI_ERR_TYPE);
    wrong(&s, CAS, &a, "derived type", MPI_ERR_TYPE, MPI_ERR_TYPE);
    for (int t = 0; t < el_type_count; t++) {
        if (!el_present(&el_types[t]) || el_swappable(&el_types[t])
            || el_types[t].kind == EL_TEXT)
            continue;
        a.target_type = el_types[t].type;
        wrong(&s, CAS, &a, el_types[t].name, MPI_ERR_TYPE, MPI_ERR_TYPE);
    }
    tl_ok(MPI_Win_unlock_all(s.w.win), "MPI_Win_unlock_all");
    MPI_Type_free(&pair);
    scene_close(&s);
}

/* ---- synchronization ---- */

enum { ALL_MODES = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE
                   | MPI_MODE_NOSUCCEED };

static int with_assert(int which, int asserts, MPI_Win win)
{
    switch (which) {
    case 0:
        return MPI_Win_fence(asserts, win);
    case 1:
        return MPI_Win_post(MPI_GROUP_EMPTY, asserts, win);
    case 2:
        return MPI_Win_start(MPI_GROUP_EMPTY, asserts, win);
    case 3:
        return MPI_Win_lock(MPI_LOCK_SHARED, 0, asserts, win);
    default:
        return MPI_Win_lock_all(asserts, win);
    }
}

static void end_of(int which, MPI_Win win)
{
    switch (which) {
    case 0:
        tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), "fence");
        break;
    case 1:
        tl_ok(MPI_Win_wait(win), "wait");
        break;
    case 2:
        tl_ok(MPI_Win_complete(win), "complete");
        break;
    case 3:
        tl_ok(MPI_Win_unlock(0, win), "unlock");
        break;
    default:
        tl_ok(MPI_Win_unlock_all(win), "unlock_all");
        break;
    }
}

/* Every set of the standard's modes, and bits beyond: taken where the call has them, else
 * MPI_ERR_ASSERT. */
static void asserts(int flavor)
{
    static const char *const name[5] = {"fence", "post", "start", "lock", "lock_all"};
    static const int allowed[5] = {
        MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED,
        MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, MPI_MODE_NOCHECK, MPI_MODE_NOCHECK,
        MPI_MODE_NOCHECK,
    };
    struct scene s;

    if (!scene_open(&s, flavor))
        return;
    for (int which = 0; which < 5; which++)
        for (int bit = 0; bit < 31; bit++)
            if ((1 << bit & ALL_MODES) == 0)
                tl_class(with_assert(which, 1 << bit, s.w.win), name[which], MPI_ERR_ASSERT);
    for (int which = 0; which < 5; which++) {
        tl_class(with_assert(which, -1, s.w.win), name[which], MPI_ERR_ASSERT);
        for (int modes = ALL_MODES; modes >= 0; modes = modes == 0 ? -1 : (modes - 1) & ALL_MODES) {
            int rc = with_assert(which, modes, s.w.win);
            if ((modes & ~allowed[which]) != 0)
                tl_class(rc, name[which], MPI_ERR_ASSERT);
            else if (tl_ok(rc, name[which]))
                end_of(which, s.w.win);
        }
    }
    scene_close(&s);
}

static void locks(int flavor)
{
    static const int kind[] = {0, -1, 12345, MPI_LOCK_SHARED | MPI_LOCK_EXCLUSIVE | 64};
    struct scene s;
    int none[3];

    if (!scene_open(&s, flavor))
        return;
    none[0] = s.w.size;
    none[1] = -1;
    none[2] = 1 << 30;
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++)
        if (kind[i] != MPI_LOCK_SHARED && kind[i] != MPI_LOCK_EXCLUSIVE)
            tl_class(MPI_Win_lock(kind[i], 0, 0, s.w.win), "lock type", MPI_ERR_LOCKTYPE);
    for (int i = 0; i < 3; i++) {
        tl_class(MPI_Win_lock(MPI_LOCK_SHARED, none[i], 0, s.w.win), "lock", MPI_ERR_RANK);
        tl_class(MPI_Win_unlock(none[i], s.w.win), "unlock", MPI_ERR_RANK);
        tl_ok(MPI_Win_lock_all(0, s.w.win), "MPI_Win_lock_all");
        tl_class(MPI_Win_flush(none[i], s.w.win), "flush", MPI_ERR_RANK);
        tl_class(MPI_Win_flush_local(none[i], s.w.win), "flush_local", MPI_ERR_RANK);
        tl_ok(MPI_Win_unlock_all(s.w.win), "MPI_Win_unlock_all");
    }
    scene_close(&s);
}

static void no_window(void)
{
    MPI_Win win = MPI_WIN_NULL;
    MPI_Group group;
    MPI_Info info;
    MPI_Aint size;
    int flag, unit;
    void *base;

    tl_class(MPI_Win_fence(0, win), "fence", MPI_ERR_WIN);
    tl_class(MPI_Win_post(MPI_GROUP_EMPTY, 0, win), "post", MPI_ERR_WIN);
    tl_class(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), "start", MPI_ERR_WIN);
    tl_class(MPI_Win_complete(win), "complete", MPI_ERR_WIN);
    tl_class(MPI_Win_wait(win), "wait", MPI_ERR_WIN);
    tl_class(MPI_Win_test(win, &flag), "test", MPI_ERR_WIN);
    tl_class(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), "lock", MPI_ERR_WIN);
    tl_class(MPI_Win_unlock(0, win), "unlock", MPI_ERR_WIN);
    tl_class(MPI_Win_lock_all(0, win), "lock_all", MPI_ERR_WIN);
    tl_class(MPI_Win_unlock_all(win), "unlock_all", MPI_ERR_WIN);
    tl_class(MPI_Win_flush(0, win), "flush", MPI_ERR_WIN);
    tl_class(MPI_Win_flush_all(win), "flush_all", MPI_ERR_WIN);
    tl_class(MPI_Win_flush_local(0, win), "flush_local", MPI_ERR_WIN);
    tl_class(MPI_Win_flush_local_all(win), "flush_local_all", MPI_ERR_WIN);
    tl_class(MPI_Win_sync(win), "sync", MPI_ERR_WIN);
    tl_class(MPI_Win_free(&win), "free", MPI_ERR_WIN);
    tl_class(MPI_Win_attach(win, &size, 8), "attach", MPI_ERR_WIN);
    tl_class(MPI_Win_detach(win, &size), "detach", MPI_ERR_WIN);
    tl_class(MPI_Win_shared_query(win, 0, &size, &unit, &base), "shared_query", MPI_ERR_WIN);
    tl_class(MPI_Win_get_group(win, &group), "get_group", MPI_ERR_WIN);
    tl_class(MPI_Win_get_info(win, &info), "get_info", MPI_ERR_WIN);
}

static void null_window(int flavor)
{
    (void)flavor;
    no_window();
}

/* A group that has a member which the window has not. */
static void groups(int flavor)
{
    struct tl_win w;
    MPI_Comm half;
    MPI_Group world;

    MPI_Comm_split(MPI_COMM_WORLD, tl_rank() == tl_size() - 1, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (tl_win_open(&w, flavor, half, BYTES, 8)) {
        tl_class2(MPI_Win_post(world, 0, w.win), "post", MPI_ERR_GROUP, MPI_ERR_RANK);
        tl_class2(MPI_Win_start(world, 0, w.win), "start", MPI_ERR_GROUP, MPI_ERR_RANK);
        tl_class(MPI_Win_post(MPI_GROUP_NULL, 0, w.win), "post", MPI_ERR_GROUP);
        tl_class(MPI_Win_start(MPI_GROUP_NULL, 0, w.win), "start", MPI_ERR_GROUP);
        tl_class(MPI_Win_complete(w.win), "complete after that", MPI_ERR_RMA_SYNC);
        tl_class(MPI_Win_wait(w.win), "wait after that", MPI_ERR_RMA_SYNC);
        tl_win_close(&w);
    }
    MPI_Group_free(&world);
    MPI_Comm_free(&half);
}

/* ---- operations with a request: in passive target epochs only ---- */

static void requests_in_active(struct scene *s, const char *epoch)
{
    for (int call = RPUT; call <= RGET_ACC; call++)
        wrong(s, (enum call)call, &s->right, epoch, MPI_ERR_RMA_SYNC, MPI_ERR_RMA_SYNC);
}

static void active_requests(int flavor)
{
    struct scene s;
    int before = (tl_rank() + tl_size() - 1) % tl_size();

    if (!scene_open(&s, flavor))
        return;
    tl_epoch_open(&s.w, TL_FENCE, s.right.target, before);
    requests_in_active(&s, "in a fence epoch");
    tl_epoch_close(&s.w, TL_FENCE, s.right.target);
    tl_epoch_open(&s.w, TL_PSCW, s.right.target, before);
    requests_in_active(&s, "between start and complete");
    tl_epoch_close(&s.w, TL_PSCW, s.right.target);
    requests_in_active(&s, "in no epoch");
    scene_close(&s);
}

/* ---- creating, asking, attaching ---- */

static int create(int how, MPI_Aint size, int unit, MPI_Comm comm, MPI_Win *win)
{
    static char memory[64];
    void *base;

    switch (how) {
    case 0:
        return MPI_Win_create(memory, size, unit, MPI_INFO_NULL, comm, win);
    case 1:
        return MPI_Win_allocate(size, unit, MPI_INFO_NULL, comm, &base, win);
    default:
        return MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, comm, &base, win);
    }
}

/* All members are wrong alike. */
static void creations(int flavor)
{
    static const char *const name[3] = {"create", "allocate", "allocate_shared"};
    MPI_Win win = MPI_WIN_NULL;
    MPI_Comm half, between = MPI_COMM_NULL;
    int ways = tl_one_machine() ? 3 : 2;

    (void)flavor;
    if (tl_size() > 1) {
        int low = tl_rank() == 0;
        MPI_Comm_split(MPI_COMM_WORLD, low, tl_rank(), &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? 1 : 0, 9, &between);
        MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    }
    for (int how = 0; how < ways; how++) {
        tl_class(create(how, -1, 1, MPI_COMM_WORLD, &win), name[how], MPI_ERR_SIZE);
        tl_class(create(how, 64, 0, MPI_COMM_WORLD, &win), name[how], MPI_ERR_DISP);
        tl_class(create(how, 64, -8, MPI_COMM_WORLD, &win), name[how], MPI_ERR_DISP);
        tl_class(create(how, 64, 1, MPI_COMM_NULL, &win), name[how], MPI_ERR_COMM);
        if (between != MPI_COMM_NULL)
            tl_class(create(how, 64, 1, between, &win), name[how], MPI_ERR_COMM);
        tl_true(win == MPI_WIN_NULL, "%s made a window after all", name[how]);
    }
    tl_true(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) != MPI_SUCCESS,
            "a window of 8 bytes at NULL was made");
    tl_class(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &win), "dynamic", MPI_ERR_COMM);
    if (between != MPI_COMM_NULL) {
        tl_class(MPI_Win_create_dynamic(MPI_INFO_NULL, between, &win), "dynamic", MPI_ERR_COMM);
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
}

static void kinds(int flavor)
{
    struct scene s;
    MPI_Aint size = -5;
    int unit = -5, wrong_rank = tl_size();
    void *base = &size;
    char memory[64];

    if (!scene_open(&s, flavor))
        return;
    if (flavor == TL_SHARED)
        tl_class(MPI_Win_shared_query(s.w.win, wrong_rank, &size, &unit, &base), "query, rank",
                 MPI_ERR_RANK);
    else
        tl_class(MPI_Win_shared_query(s.w.win, 0, &size, &unit, &base), "query",
                 MPI_ERR_RMA_FLAVOR);
    tl_true(size == -5 && unit == -5 && base == &size, "a wrong query wrote its results");
    if (flavor == TL_DYNAMIC) {
        tl_class(MPI_Win_attach(s.w.win, s.w.base + 8, 16), "attach inside", MPI_ERR_RMA_ATTACH);
        tl_class(MPI_Win_attach(s.w.win, s.w.base + BYTES - 1, 16), "attach of an overlap",
                 MPI_ERR_RMA_ATTACH);
        tl_class(MPI_Win_detach(s.w.win, memory), "detach of what is not attached",
                 MPI_ERR_RMA_ATTACH);
        tl_class(MPI_Win_detach(s.w.win, s.w.base + 8), "detach of the middle",
                 MPI_ERR_RMA_ATTACH);
        tl_class2(MPI_Win_attach(s.w.win, NULL, 8), "attach of NULL", MPI_ERR_ARG, MPI_ERR_BASE);
        tl_ok(MPI_Win_attach(s.w.win, memory, 0), "attach of no bytes");
        tl_ok(MPI_Win_detach(s.w.win, memory), "detach of no bytes");
        tl_class(MPI_Win_detach(s.w.win, memory), "detach of it again", MPI_ERR_RMA_ATTACH);
        tl_class2(MPI_Win_attach(s.w.win, memory, -1), "attach of size -1", MPI_ERR_SIZE,
                  MPI_ERR_ARG);
    } else {
        tl_class(MPI_Win_attach(s.w.win, memory, sizeof memory), "attach", MPI_ERR_RMA_FLAVOR);
        tl_class(MPI_Win_detach(s.w.win, memory), "detach", MPI_ERR_RMA_FLAVOR);
    }
    scene_close(&s);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"arguments", arguments, TL_ALL, 1, 60},
        {"operations", operations, TL_ALL, 1, 60},
        {"operations_of_types", operations_of_types, TL_ALL, 1, 60},
        {"types_of_calls", types_of_calls, TL_ALL, 1, 60},
        {"asserts", asserts, TL_ALL, 1, 60},
        {"locks", locks, TL_ALL, 1, 30},
        {"null_window", null_window, 0, 1, 30},
        {"groups", groups, TL_ALL, 2, 30},
        {"active_requests", active_requests, TL_ALL, 1, 30},
        {"creations", creations, 0, 1, 30},
        {"kinds", kinds, TL_ALL, 1, 30},
    };

    return tl_main(argc, argv, "misuse", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
