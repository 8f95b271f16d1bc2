/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hangs on a window: error handlers, attributes, requests; and the targets and parts that are
 * nothing: MPI_PROC_NULL, parts of no bytes. `--late 1`: requests complete in MPI's progress engine
 * even where the operation is over when it returns, as they would between nodes.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 16, BYTES = 8 * WORDS };

static int open_window(struct tl_win *w, int flavor)
{
    return tl_win_open(w, flavor, MPI_COMM_WORLD, BYTES, flavor == TL_DYNAMIC ? 1 : 8);
}

/* ---- error handlers ---- */

static struct {
    int calls, class;
    MPI_Win win;
} saw[2], comm_saw;

static void note(int which, MPI_Win *win, const int *code)
{
    saw[which].calls++;
    saw[which].win = *win;
    MPI_Error_class(*code, &saw[which].class);
}

static void first_handler(MPI_Win *win, int *code, ...)
{
    note(0, win, code);
}

static void second_handler(MPI_Win *win, int *code, ...)
{
    note(1, win, code);
}

static void comm_handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    comm_saw.calls++;
    MPI_Error_class(*code, &comm_saw.class);
}

static void expect(int first, int second, int class, MPI_Win win, const char *after)
{
    int which = first > 0 ? 0 : 1;

    tl_eq(saw[0].calls, first, after);
    tl_eq(saw[1].calls, second, after);
    if (first + second > 0) {
        tl_eq(saw[which].class, class, after);
        tl_true(saw[which].win == win, "%s: the handler got another window", after);
    }
    memset(saw, 0, sizeof saw);
}

static int put_outside_epoch(struct tl_win *w)
{
    long one = 1;

    return MPI_Put(&one, 1, MPI_LONG, w->rank, tl_disp(w, w->rank, 0), 1, MPI_LONG, w->win);
}

static void handlers(int flavor)
{
    struct tl_win w;
    MPI_Errhandler one, two, got;

    if (!open_window(&w, flavor))
        return;
    memset(saw, 0, sizeof saw);
    tl_ok(MPI_Win_create_errhandler(first_handler, &one), "MPI_Win_create_errhandler");
    tl_ok(MPI_Win_create_errhandler(second_handler, &two), "MPI_Win_create_errhandler");
    tl_ok(MPI_Win_set_errhandler(w.win, one), "MPI_Win_set_errhandler");
    tl_class(put_outside_epoch(&w), "put", MPI_ERR_RMA_SYNC);
    expect(1, 0, MPI_ERR_RMA_SYNC, w.win, "a put outside any epoch");
    MPI_Win_unlock_all(w.win);
    expect(1, 0, MPI_ERR_RMA_SYNC, w.win, "an unlock_all without lock_all");
    MPI_Win_lock(1234, 0, 0, w.win);
    expect(1, 0, MPI_ERR_LOCKTYPE, w.win, "a lock of no type");
    tl_ok(MPI_Win_set_errhandler(w.win, two), "MPI_Win_set_errhandler");
    MPI_Errhandler_free(&one);
    MPI_Errhandler_free(&two); /* the window keeps it */
    tl_class(MPI_Win_flush(0, w.win), "flush", MPI_ERR_RMA_SYNC);
    expect(0, 1, MPI_ERR_RMA_SYNC, w.win, "a flush outside any epoch");
    tl_ok(MPI_Win_call_errhandler(w.win, MPI_ERR_RMA_CONFLICT), "MPI_Win_call_errhandler");
    expect(0, 1, MPI_ERR_RMA_CONFLICT, w.win, "MPI_Win_call_errhandler");
    tl_ok(MPI_Win_fence(0, w.win), "fence");
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "fence");
    expect(0, 0, 0, w.win, "what is right");
    tl_ok(MPI_Win_get_errhandler(w.win, &got), "MPI_Win_get_errhandler");
    tl_ok(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    tl_class(put_outside_epoch(&w), "put", MPI_ERR_RMA_SYNC);
    expect(0, 0, 0, w.win, "MPI_ERRORS_RETURN");
    tl_ok(MPI_Win_set_errhandler(w.win, got), "MPI_Win_set_errhandler");
    MPI_Errhandler_free(&got);
    put_outside_epoch(&w);
    expect(0, 1, MPI_ERR_RMA_SYNC, w.win, "the handler that was got");
    MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
    tl_win_close(&w);
}

/* A new window has MPI_ERRORS_ARE_FATAL whatever its communicator has; that one hears of windows
 * that are not made. */
static void first_handlers(int flavor)
{
    MPI_Errhandler mine, got;
    MPI_Comm comm;
    MPI_Win win;
    long memory[8];
    void *base;

    (void)flavor;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    tl_ok(MPI_Comm_create_errhandler(comm_handler, &mine), "MPI_Comm_create_errhandler");
    tl_ok(MPI_Comm_set_errhandler(comm, mine), "MPI_Comm_set_errhandler");
    MPI_Errhandler_free(&mine);
    if (tl_ok(MPI_Win_create(memory, 64, 8, MPI_INFO_NULL, comm, &win), "MPI_Win_create")) {
        tl_ok(MPI_Win_get_errhandler(win, &got), "MPI_Win_get_errhandler");
        tl_true(got == MPI_ERRORS_ARE_FATAL, "a new window has another handler");
        MPI_Errhandler_free(&got);
        tl_ok(MPI_Win_free(&win), "MPI_Win_free");
    }
    memset(&comm_saw, 0, sizeof comm_saw);
    tl_true(MPI_Win_allocate_shared((MPI_Aint)1 << 56, 1, MPI_INFO_NULL, comm, &base, &win)
            != MPI_SUCCESS, "64 PiB were allocated");
    tl_eq(comm_saw.calls, 1, "calls of the communicator's handler");
    /* Of a window that no component makes, 4.1 and 5.0 themselves say the second and third. */
    tl_true(comm_saw.class == (tl_one_machine() ? MPI_ERR_NO_MEM : MPI_ERR_RMA_SHARED)
            || (!tl_one_machine() && comm_saw.class == MPI_ERR_INTERN), "the class that it saw");
    MPI_Comm_free(&comm);
}

/* ---- attributes ---- */

static struct {
    int copies, deletes, usable;
    void *value;
} attribute;

static int on_copy(MPI_Win win, int key, void *extra, void *in, void *out, int *flag)
{
    (void)win;
    (void)key;
    (void)extra;
    attribute.copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

/* The window is still whole while its attributes go. */
static int on_delete(MPI_Win win, int key, void *value, void *extra)
{
    MPI_Group group;

    (void)key;
    (void)extra;
    attribute.deletes++;
    attribute.value = value;
    if (MPI_Win_get_group(win, &group) == MPI_SUCCESS) {
        MPI_Group_free(&group);
        attribute.usable++;
    }
    return MPI_SUCCESS;
}

static void attributes(int flavor)
{
    struct tl_win w;
    int key, other, there, a = 1, b = 2, c = 3;
    void *got;

    if (!open_window(&w, flavor))
        return;
    memset(&attribute, 0, sizeof attribute);
    MPI_Win_create_keyval(on_copy, on_delete, &key, NULL);
    MPI_Win_create_keyval(on_copy, on_delete, &other, NULL);
    tl_ok(MPI_Win_set_attr(w.win, key, &a), "MPI_Win_set_attr");
    tl_ok(MPI_Win_set_attr(w.win, key, &b), "MPI_Win_set_attr over another");
    tl_true(attribute.deletes == 1 && attribute.value == &a, "the first value was not deleted");
    tl_ok(MPI_Win_set_attr(w.win, other, &c), "MPI_Win_set_attr");
    tl_ok(MPI_Win_delete_attr(w.win, other), "MPI_Win_delete_attr");
    tl_true(attribute.deletes == 2 && attribute.value == &c, "MPI_Win_delete_attr deleted %d",
            attribute.deletes);
    tl_ok(MPI_Win_get_attr(w.win, other, &got, &there), "MPI_Win_get_attr");
    tl_true(!there, "a deleted attribute is there");
    tl_ok(MPI_Win_set_attr(w.win, other, &c), "MPI_Win_set_attr");
    MPI_Win_free_keyval(&key);  /* kept until the window goes */
    MPI_Win_free_keyval(&other);
    tl_win_close(&w);
    tl_eq(attribute.deletes, 4, "calls of the delete function");
    tl_eq(attribute.usable, 4, "windows that were whole in it");
    tl_eq(attribute.copies, 0, "calls of the copy function");
}

/* The five that the standard defines cannot be set or deleted. */
static void own_attributes(int flavor)
{
    static const int key[5] = {MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT,
                               MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL};
    struct tl_win w;
    int value = 99;

    if (!open_window(&w, flavor))
        return;
    for (int i = 0; i < 5; i++) {
        tl_true(MPI_Win_set_attr(w.win, key[i], &value) != MPI_SUCCESS, "attribute %d was set", i);
        tl_true(MPI_Win_delete_attr(w.win, key[i]) != MPI_SUCCESS, "attribute %d was deleted", i);
    }
    tl_win_close(&w);
}

/* ---- MPI_PROC_NULL ---- */

static void null_calls(struct tl_win *w, long *out, long *in)
{
    const int none = MPI_PROC_NULL;
    MPI_Aint far = 1000000;     /* nowhere, of nobody */
    MPI_Win win = w->win;
    MPI_Datatype l = MPI_LONG;

    tl_ok(MPI_Put(out, 4, l, none, far, 4, l, win), "put");
    tl_ok(MPI_Get(in, 4, l, none, far, 4, l, win), "get");
    tl_ok(MPI_Accumulate(out, 4, l, none, far, 4, l, MPI_SUM, win), "accumulate");
    tl_ok(MPI_Get_accumulate(out, 4, l, in, 4, l, none, far, 4, l, MPI_SUM, win), "get_acc");
    tl_ok(MPI_Fetch_and_op(out, in, l, none, far, MPI_SUM, win), "fetch_and_op");
    tl_ok(MPI_Compare_and_swap(out, out, in, l, none, far, win), "compare_and_swap");
}

static void null_requests(struct tl_win *w, long *out, long *in)
{
    const int none = MPI_PROC_NULL;
    MPI_Request r[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Win win = w->win;
    MPI_Datatype l = MPI_LONG;

    tl_ok(MPI_Rput(out, 4, l, none, 0, 4, l, win, &r[0]), "rput");
    tl_ok(MPI_Rget(in, 4, l, none, 0, 4, l, win, &r[1]), "rget");
    tl_ok(MPI_Raccumulate(out, 4, l, none, 0, 4, l, MPI_SUM, win, &r[2]), "raccumulate");
    tl_ok(MPI_Rget_accumulate(out, 4, l, in, 4, l, none, 0, 4, l, MPI_SUM, win, &r[3]), "rgetacc");
    tl_ok(MPI_Waitall(4, r, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int i = 0; i < 4; i++)
        tl_true(r[i] == MPI_REQUEST_NULL, "request %d is left", i);
}

static void proc_null(int flavor)
{
    long out[4] = {1, 2, 3, 4}, in[4] = {5, 6, 7, 8};
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();

    if (!open_window(&w, flavor))
        return;
    for (int how = 0; how < TL_EPOCHS; how++) {
        tl_epoch_open(&w, (enum tl_epoch)how, next, before);
        null_calls(&w, out, in);
        if (tl_epoch_passive((enum tl_epoch)how)) {
            null_requests(&w, out, in);
            tl_ok(MPI_Win_flush(MPI_PROC_NULL, w.win), "flush");
            tl_ok(MPI_Win_flush_local(MPI_PROC_NULL, w.win), "flush_local");
        }
        tl_epoch_close(&w, (enum tl_epoch)how, next);
    }
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        int kind = exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
        int rc = MPI_Win_lock(kind, MPI_PROC_NULL, 0, w.win);
        if (rc == MPI_SUCCESS) { /* Open MPI 4.1's core does not let it pass */
            null_calls(&w, out, in);
            null_requests(&w, out, in);
            tl_ok(MPI_Win_unlock(MPI_PROC_NULL, w.win), "unlock of MPI_PROC_NULL");
        } else {
            tl_class(rc, "lock of MPI_PROC_NULL", MPI_ERR_RANK);
        }
        tl_ok(MPI_Win_lock(kind, next, 0, w.win), "lock");
        tl_ok(MPI_Win_unlock(next, w.win), "unlock");
    }
    for (int i = 0; i < 4; i++)
        tl_true(in[i] == 5 + i && out[i] == 1 + i, "MPI_PROC_NULL gave something");
    tl_barrier();
    tl_local_begin(&w);
    for (int i = 0; i < BYTES; i++)
        tl_eq(w.base[i], 0, "a byte of the window");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* ---- parts of no bytes ---- */

static void use_part(struct tl_win *w, int target, size_t bytes)
{
    long value = 3, got[2] = {7, 7};
    MPI_Aint at = bytes > 0 ? tl_disp(w, target, 0) : 0;
    int n = bytes > 0 ? 1 : 0;
    MPI_Win win = w->win;
    MPI_Datatype l = MPI_LONG;

    tl_ok(MPI_Put(&value, n, l, target, at, n, l, win), "put");
    tl_ok(MPI_Get(got, n, l, target, at, n, l, win), "get");
    tl_ok(MPI_Accumulate(&value, n, l, target, at, n, l, MPI_REPLACE, win), "accumulate");
    tl_ok(MPI_Get_accumulate(&value, n, l, &got[1], n, l, target, at, n, l, MPI_REPLACE, win),
          "get_accumulate");
    if (n == 1)
        return;
    tl_eq(got[0] + got[1], 14, "what came of no bytes");
    tl_class(MPI_Put(&value, 1, l, target, at, 1, l, win), "put into no bytes",
             MPI_ERR_RMA_RANGE);
    tl_class(MPI_Fetch_and_op(&value, got, l, target, at, MPI_SUM, win), "fetch from no bytes",
             MPI_ERR_RMA_RANGE);
}

/* All parts, all but the first's, all but the last's, every other one. */
static int is_empty(int rank, int kind)
{
    return kind == 0 || (kind == 1 && rank > 0) || (kind == 2 && rank < tl_size() - 1)
           || (kind == 3 && rank % 2 == 0);
}

static void empty_parts(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();

    for (int kind = 0; kind < 4; kind++) {
        size_t bytes = is_empty(tl_rank(), kind) ? 0 : 8;
        if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, bytes, 8))
            return;
        for (int how = 0; how < TL_EPOCHS; how++) {
            tl_epoch_open(&w, (enum tl_epoch)how, next, before);
            use_part(&w, next, is_empty(next, kind) ? 0 : 8);
            tl_epoch_close(&w, (enum tl_epoch)how, next);
        }
        if (bytes > 0)
            tl_eq(w.base[0], 3, "what the neighbour put");
        tl_win_close(&w);
    }
}

/* ---- requests ---- */

static void start_four(struct tl_win *w, int target, long *out, long *in, MPI_Request *r)
{
    MPI_Win win = w->win;
    MPI_Datatype l = MPI_LONG;

    tl_ok(MPI_Rput(out, 1, l, target, tl_disp(w, target, 0), 1, l, win, &r[0]), "rput");
    tl_ok(MPI_Rget(in, 1, l, target, tl_disp(w, target, 64), 1, l, win, &r[1]), "rget");
    tl_ok(MPI_Raccumulate(out, 1, l, target, tl_disp(w, target, 8), 1, l, MPI_SUM, win, &r[2]),
          "raccumulate");
    tl_ok(MPI_Rget_accumulate(out, 1, l, in + 1, 1, l, target, tl_disp(w, target, 16), 1, l,
                              MPI_REPLACE, win, &r[3]), "rget_accumulate");
}

static void all_null(const MPI_Request *r, const char *after)
{
    for (int i = 0; i < 4; i++)
        tl_true(r[i] == MPI_REQUEST_NULL, "request %d is left after %s", i, after);
}

static void end_all(MPI_Request *r)
{
    MPI_Status status[4];

    tl_ok(MPI_Waitall(4, r, status), "MPI_Waitall");
    for (int i = 0; i < 4; i++) {
        int cancelled = 1;
        tl_ok(MPI_Test_cancelled(&status[i], &cancelled), "MPI_Test_cancelled");
        tl_true(!cancelled, "request %d was cancelled", i);
    }
}

static void end_some(MPI_Request *r)
{
    int done = 0, n, index[4];

    while (done < 4) {
        tl_ok(MPI_Testsome(4, r, &n, index, MPI_STATUSES_IGNORE), "MPI_Testsome");
        if (!tl_true(n != MPI_UNDEFINED, "no request is active after %d", done))
            return;
        done += n;
    }
}

static void end_any(MPI_Request *r)
{
    int seen = 0, index;

    for (int i = 0; i < 4; i++) {
        tl_ok(MPI_Waitany(4, r, &index, MPI_STATUS_IGNORE), "MPI_Waitany");
        if (index >= 0 && index < 4)
            seen |= 1 << index;
    }
    tl_eq(seen, 15, "the requests that MPI_Waitany told of");
}

static void end_tests(MPI_Request *r)
{
    for (int i = 3; i >= 0; i--) {
        int flag = 0, early = 0;
        MPI_Status status;
        while (!early)
            tl_ok(MPI_Request_get_status(r[i], &early, &status), "MPI_Request_get_status");
        tl_ok(MPI_Test(&r[i], &flag, &status), "MPI_Test");
        tl_true(flag, "a request is done, and then not");
    }
}

static void endings(int flavor)
{
    static void (*const end[4])(MPI_Request *) = {end_all, end_some, end_any, end_tests};
    struct tl_win w;
    long out = 5, in[2];
    int next = (tl_rank() + 1) % tl_size();
    MPI_Request r[4];

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int i = 0; i < 40 && !tl_failed(); i++) {
        in[0] = in[1] = -1;
        start_four(&w, next, &out, in, r);
        end[i % 4](r);
        all_null(r, "its end");
        tl_eq(in[0], 0, "what was got");
        tl_eq(in[1], i == 0 ? 0 : 5, "what was fetched");
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_barrier();
    tl_local_begin(&w);
    tl_eq(((long *)(void *)w.base)[1], 200, "the sum");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* Erroneous both, and nothing may break: the operation happens, and the request ends. */
static void cancel_and_free(int flavor)
{
    struct tl_win w;
    long out = 5, in[2];
    int next = (tl_rank() + 1) % tl_size();
    MPI_Request r[4];

    if (!open_window(&w, flavor))
        return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    start_four(&w, next, &out, in, r);
    for (int i = 0; i < 4; i++)
        (void)MPI_Cancel(&r[i]);
    end_all(r);
    start_four(&w, next, &out, in, r);
    for (int i = 0; i < 4; i++)
        if (MPI_Request_free(&r[i]) == MPI_SUCCESS)
            tl_true(r[i] == MPI_REQUEST_NULL, "a freed request is left");
    end_all(r);
    all_null(r, "MPI_Request_free and MPI_Waitall");
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_barrier();
    tl_local_begin(&w);
    tl_eq(((long *)(void *)w.base)[1], 10, "the sum");
    tl_local_end(&w);
    tl_win_close(&w);
}

/* Requests outlive the epoch and the window, whose end completed what they tell of. */
static void outlive(int flavor)
{
    enum { MANY = 100 };
    struct tl_win w;
    long out = 5, in[2 * MANY];
    int next = (tl_rank() + 1) % tl_size();
    MPI_Request r[4 * MANY];

    for (int freed = 0; freed < 2; freed++) {
        if (!open_window(&w, flavor))
            return;
        tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
        for (int i = 0; i < MANY; i++)
            start_four(&w, next, &out, in + 2 * (size_t)i, r + 4 * (size_t)i);
        tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
        tl_barrier();
        tl_local_begin(&w);
        tl_eq(((long *)(void *)w.base)[1], 5 * MANY, "the sum at unlock_all");
        tl_local_end(&w);
        if (freed)
            tl_win_close(&w);
        for (int i = 0; i < MANY; i++) {
            end_all(r + 4 * (size_t)i);
            all_null(r + 4 * (size_t)i, "the end of the epoch");
        }
        if (!freed)
            tl_win_close(&w);
    }
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"handlers", handlers, TL_ALL, 1, 30},
        {"first_handlers", first_handlers, 0, 1, 30},
        {"attributes", attributes, TL_ALL, 1, 30},
        {"own_attributes", own_attributes, TL_ALL, 1, 30},
        {"proc_null", proc_null, TL_ALL, 1, 30},
        {"empty_parts", empty_parts, TL_ALL, 1, 60},
        {"endings", endings, TL_ALL, 1, 60},
        {"cancel_and_free", cancel_and_free, TL_ALL, 1, 30},
        {"outlive", outlive, TL_ALL, 1, 60},
    };

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--late") == 0)
            setenv("OMPI_MCA_osc_loco_late_requests", argv[i + 1], 1);
    return tl_main(argc, argv, "objects", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
