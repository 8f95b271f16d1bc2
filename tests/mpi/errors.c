/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong use: the error class the standard names, through MPI_ERRORS_RETURN; nothing is written;
 * the window works as before. After each wrong call the window is used rightly once.
 */
#include "testlib.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, NEIGHBOUR = 8 };

static int no_such_rank(void)
{
    return tl_size() + 3;
}

/* The window is whole: an ordinary epoch with a put and a get works, and nothing else changed. */
static void still_works(struct tl_win *w)
{
    int next = (w->rank + 1) % w->size;
    long value = 42, got = 0;

    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, w->win), "a later MPI_Win_lock");
    tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(w, next, 0), 1, MPI_LONG, w->win),
          "a later put");
    tl_ok(MPI_Win_flush(next, w->win), "a later flush");
    tl_ok(MPI_Get(&got, 1, MPI_LONG, next, tl_disp(w, next, 0), 1, MPI_LONG, w->win),
          "a later get");
    tl_ok(MPI_Win_unlock(next, w->win), "a later MPI_Win_unlock");
    tl_eq(got, 42, "a later get");
    tl_barrier();
    tl_local_begin(w);
    for (size_t i = 8; i < w->bytes; i++)
        tl_true(w->base[i] == 0, "the wrong call wrote byte %zu", i);
    tl_local_end(w);
    tl_barrier();
}

static int open_window(struct tl_win *w, int flavor)
{
    return tl_win_open(w, flavor, MPI_COMM_WORLD, BYTES, flavor == TL_DYNAMIC ? 1 : NEIGHBOUR);
}

/* ---- displacements ---- */

static void all_calls_at(struct tl_win *w, int target, MPI_Aint disp, int count, int wanted)
{
    enum { MOST = 1024 };
    long data[MOST], result[MOST];
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Win win = w->win;
    MPI_Datatype l = MPI_LONG;
    long one = 1;

    memset(data, 0x7f, sizeof data);
    memset(result, 0x33, sizeof result);
    tl_class(MPI_Put(data, count, l, target, disp, count, l, win), "put", wanted);
    tl_class(MPI_Get(result, count, l, target, disp, count, l, win), "get", wanted);
    tl_class(MPI_Accumulate(data, count, l, target, disp, count, l, MPI_SUM, win), "accumulate",
             wanted);
    tl_class(MPI_Get_accumulate(data, count, l, result, count, l, target, disp, count, l, MPI_SUM,
                                win), "get_accumulate", wanted);
    tl_class(MPI_Rput(data, count, l, target, disp, count, l, win, &r), "rput", wanted);
    tl_class(MPI_Rget(result, count, l, target, disp, count, l, win, &r), "rget", wanted);
    tl_class(MPI_Raccumulate(data, count, l, target, disp, count, l, MPI_SUM, win, &r),
             "raccumulate", wanted);
    tl_class(MPI_Rget_accumulate(data, count, l, result, count, l, target, disp, count, l, MPI_SUM,
                                 win, &r), "rget_accumulate", wanted);
    if (count == 1) {
        tl_class(MPI_Fetch_and_op(data, result, l, target, disp, MPI_SUM, win), "fetch_and_op",
                 wanted);
        tl_class(MPI_Compare_and_swap(data, &one, result, l, target, disp, win), "cas", wanted);
    }
    for (int i = 0; i < MOST; i++)
        tl_eq(result[i], 0x3333333333333333L, "the result buffer of a failed call");
}

static void displacement(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), words = BYTES / 8;

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    all_calls_at(&w, next, words, 1, MPI_ERR_RMA_RANGE);
    all_calls_at(&w, next, words - 3, 4, MPI_ERR_RMA_RANGE);
    all_calls_at(&w, next, 0, words + 1, MPI_ERR_RMA_RANGE);
    all_calls_at(&w, next, words + 100000000, 1, MPI_ERR_RMA_RANGE);
    all_calls_at(&w, next, (MPI_Aint)(LONG_MAX / 8), 1, MPI_ERR_RMA_RANGE);
    all_calls_at(&w, next, LONG_MAX, 1, MPI_ERR_RMA_RANGE);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    still_works(&w);
    tl_win_close(&w);
}

static void negative(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size();
    long one = 1;

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (MPI_Aint disp = -1000000000000000000L; disp != 0; disp /= 1000) {
        int rc = MPI_Put(&one, 1, MPI_LONG, next, disp, 1, MPI_LONG, w.win);
        tl_class2(rc, "put at a negative displacement", MPI_ERR_DISP, MPI_ERR_RMA_RANGE);
        rc = MPI_Accumulate(&one, 1, MPI_LONG, next, disp, 1, MPI_LONG, MPI_SUM, w.win);
        tl_class2(rc, "accumulate at a negative displacement", MPI_ERR_DISP, MPI_ERR_RMA_RANGE);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    still_works(&w);
    tl_win_close(&w);
}

/* Under each other kind of epoch as well. */
static void displacement_in_epochs(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size(), before = (tl_rank() + tl_size() - 1) % tl_size();
    long one = 1;

    if (!open_window(&w, flavor))
        return;
    for (int how = 0; how < TL_EPOCHS; how++) {
        tl_epoch_open(&w, (enum tl_epoch)how, next, before);
        tl_class(MPI_Put(&one, 1, MPI_LONG, next, BYTES, 1, MPI_LONG, w.win),
                 tl_epoch_name((enum tl_epoch)how), MPI_ERR_RMA_RANGE);
        tl_epoch_close(&w, (enum tl_epoch)how, next);
    }
    still_works(&w);
    tl_win_close(&w);
}

/* Types that reach outside at either end, though the displacement lies inside. */
static void derived_outside(int flavor)
{
    struct tl_win w;
    MPI_Datatype below, above, beside;
    static const MPI_Aint down[2] = {0, -16}, up[2] = {0, BYTES - 8};
    static const int one[2] = {1, 1};
    int next = (tl_rank() + 1) % tl_size();
    long data[2] = {-1, -1};

    if (!open_window(&w, flavor))
        return;
    MPI_Type_create_hindexed(2, one, down, MPI_LONG, &below);
    MPI_Type_create_hindexed(2, one, up, MPI_LONG, &above);
    MPI_Type_vector(2, 1, BYTES / 8, MPI_LONG, &beside);
    MPI_Type_commit(&below);
    MPI_Type_commit(&above);
    MPI_Type_commit(&beside);
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    tl_class(MPI_Put(data, 2, MPI_LONG, next, tl_disp(&w, next, 8), 1, below, w.win),
             "put of a type that begins before the window", MPI_ERR_RMA_RANGE);
    tl_class(MPI_Put(data, 2, MPI_LONG, next, tl_disp(&w, next, 8), 1, above, w.win),
             "put of a type that ends behind the window", MPI_ERR_RMA_RANGE);
    tl_class(MPI_Get(data, 2, MPI_LONG, next, tl_disp(&w, next, 0), 1, beside, w.win),
             "get of a type that ends behind the window", MPI_ERR_RMA_RANGE);
    tl_class(MPI_Accumulate(data, 2, MPI_LONG, next, tl_disp(&w, next, 8), 1, above, MPI_SUM,
                            w.win), "accumulate", MPI_ERR_RMA_RANGE);
    /* the same types where they fit */
    data[0] = data[1] = 0;
    tl_ok(MPI_Put(data, 2, MPI_LONG, next, tl_disp(&w, next, 16), 1, below, w.win), "put inside");
    tl_ok(MPI_Put(data, 2, MPI_LONG, next, tl_disp(&w, next, 0), 1, above, w.win), "put inside");
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    MPI_Type_free(&below);
    MPI_Type_free(&above);
    MPI_Type_free(&beside);
    still_works(&w);
    tl_win_close(&w);
}

/* What displacement and lower bound add up to is not a number of 64 bits, or comes round to 0. */
static void comes_round(int flavor)
{
    static const MPI_Aint at[2] = {8, 24};
    static const int ones[2] = {1, 1};
    const MPI_Aint disp[3] = {LONG_MAX / 4, LONG_MAX / 4 + 1, LONG_MAX};
    int next = (tl_rank() + 1) % tl_size();
    long data[2] = {-1, -1}, result[2];
    MPI_Datatype type;
    struct tl_win w;

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int n = 1; n <= 2; n++) {
        MPI_Type_create_hindexed(n, ones, at, MPI_LONG, &type);
        MPI_Type_commit(&type);
        for (int i = 0; i < 3; i++) {
            tl_class(MPI_Put(data, n, MPI_LONG, next, disp[i], 1, type, w.win), "put",
                     MPI_ERR_RMA_RANGE);
            tl_class(MPI_Get(result, n, MPI_LONG, next, disp[i], 1, type, w.win), "get",
                     MPI_ERR_RMA_RANGE);
            tl_class(MPI_Accumulate(data, n, MPI_LONG, next, disp[i], 1, type, MPI_SUM, w.win),
                     "accumulate", MPI_ERR_RMA_RANGE);
            tl_class(MPI_Get_accumulate(data, n, MPI_LONG, result, n, MPI_LONG, next, disp[i], 1,
                                        type, MPI_REPLACE, w.win), "get_accumulate",
                     MPI_ERR_RMA_RANGE);
        }
        MPI_Type_free(&type);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    still_works(&w);
    tl_win_close(&w);
}

/* Parts of different sizes: the target's own size counts. */
static void own_size_counts(int flavor)
{
    struct tl_win w;
    long one = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, (size_t)(tl_rank() % 3) * 64 + 8, 8))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (int t = 0; t < w.size; t++) {
        size_t bytes = (size_t)(t % 3) * 64 + 8;
        tl_ok(MPI_Put(&one, 1, MPI_LONG, t, tl_disp(&w, t, bytes - 8), 1, MPI_LONG, w.win),
              "put into the last word");
        tl_class(MPI_Put(&one, 1, MPI_LONG, t, tl_disp(&w, t, bytes), 1, MPI_LONG, w.win),
                 "put behind the last word", MPI_ERR_RMA_RANGE);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* ---- arguments ---- */

static void wrong_arguments(int flavor)
{
    struct tl_win w;
    long one = 1, got = 5;

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    tl_class(MPI_Put(&one, 1, MPI_LONG, no_such_rank(), 0, 1, MPI_LONG, w.win), "put, rank",
             MPI_ERR_RANK);
    tl_class(MPI_Get(&got, 1, MPI_LONG, -7, 0, 1, MPI_LONG, w.win), "get, rank", MPI_ERR_RANK);
    tl_class(MPI_Put(&one, -1, MPI_LONG, 0, 0, -1, MPI_LONG, w.win), "put, count", MPI_ERR_COUNT);
    tl_class(MPI_Put(&one, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_LONG, w.win), "put, type",
             MPI_ERR_TYPE);
    tl_class(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, MPI_OP_NULL,
                            w.win), "accumulate, op", MPI_ERR_OP);
    tl_class(MPI_Fetch_and_op(&one, &got, MPI_LONG, no_such_rank(), 0, MPI_SUM, w.win),
             "fetch_and_op, rank", MPI_ERR_RANK);
    tl_class(MPI_Compare_and_swap(&one, &one, &got, MPI_LONG, no_such_rank(), 0, w.win),
             "compare_and_swap, rank", MPI_ERR_RANK);
    tl_class(MPI_Win_flush(no_such_rank(), w.win), "flush, rank", MPI_ERR_RANK);
    tl_eq(got, 5, "the result buffer");
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_class(MPI_Win_lock(12345, 0, 0, w.win), "lock, type", MPI_ERR_LOCKTYPE);
    tl_class(MPI_Win_lock(MPI_LOCK_SHARED, no_such_rank(), 0, w.win), "lock, rank", MPI_ERR_RANK);
    tl_class2(MPI_Win_unlock(no_such_rank(), w.win), "unlock, rank", MPI_ERR_RANK,
              MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_fence(1 << 30, w.win), "fence, assert", MPI_ERR_ASSERT);
    tl_class(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1 << 30, w.win), "lock, assert", MPI_ERR_ASSERT);
    tl_class(MPI_Win_lock_all(1 << 30, w.win), "lock_all, assert", MPI_ERR_ASSERT);
    tl_class(MPI_Win_post(MPI_GROUP_EMPTY, 1 << 30, w.win), "post, assert", MPI_ERR_ASSERT);
    still_works(&w);
    tl_win_close(&w);
}

/* A user's operation is not allowed, nor one that the datatype does not have. */
static void sum_longs(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((long *)inout)[i] += ((long *)in)[i];
}

static void wrong_operation(int flavor)
{
    struct tl_win w;
    MPI_Op mine;
    long one = 1, got = 5;
    double d = 1;

    if (!open_window(&w, flavor))
        return;
    MPI_Op_create(sum_longs, 1, &mine);
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    tl_class(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, mine, w.win),
             "accumulate with a user's op", MPI_ERR_OP);
    tl_class(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, tl_disp(&w, 0, 0), mine, w.win),
             "fetch_and_op with a user's op", MPI_ERR_OP);
    tl_class(MPI_Accumulate(&d, 1, MPI_DOUBLE, 0, tl_disp(&w, 0, 0), 1, MPI_DOUBLE, MPI_BXOR,
                            w.win), "MPI_BXOR of doubles", MPI_ERR_OP);
    tl_class(MPI_Accumulate(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, MPI_MAXLOC,
                            w.win), "MPI_MAXLOC of longs", MPI_ERR_OP);
    tl_eq(got, 5, "the result buffer");
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    MPI_Op_free(&mine);
    still_works(&w);
    tl_win_close(&w);
}

/* ---- epochs ---- */

static void no_epoch(int flavor)
{
    struct tl_win w;
    MPI_Request r = MPI_REQUEST_NULL;
    long one = 1, got = 5;
    int next = (tl_rank() + 1) % tl_size();
    MPI_Aint at;

    if (!open_window(&w, flavor))
        return;
    at = tl_disp(&w, next, 64);
    tl_class(MPI_Put(&one, 1, MPI_LONG, next, at, 1, MPI_LONG, w.win), "put", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Get(&got, 1, MPI_LONG, next, at, 1, MPI_LONG, w.win), "get", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Accumulate(&one, 1, MPI_LONG, next, at, 1, MPI_LONG, MPI_SUM, w.win),
             "accumulate", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Get_accumulate(&one, 1, MPI_LONG, &got, 1, MPI_LONG, next, at, 1, MPI_LONG,
                                MPI_SUM, w.win), "get_accumulate", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Fetch_and_op(&one, &got, MPI_LONG, next, at, MPI_SUM, w.win), "fetch_and_op",
             MPI_ERR_RMA_SYNC);
    tl_class(MPI_Compare_and_swap(&one, &one, &got, MPI_LONG, next, at, w.win), "cas",
             MPI_ERR_RMA_SYNC);
    tl_class(MPI_Rput(&one, 1, MPI_LONG, next, at, 1, MPI_LONG, w.win, &r), "rput",
             MPI_ERR_RMA_SYNC);
    tl_class(MPI_Rget(&got, 1, MPI_LONG, next, at, 1, MPI_LONG, w.win, &r), "rget",
             MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_flush(next, w.win), "flush", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_flush_local(next, w.win), "flush_local", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_flush_all(w.win), "flush_all", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_flush_local_all(w.win), "flush_local_all", MPI_ERR_RMA_SYNC);
    tl_eq(got, 5, "the result buffer");
    still_works(&w);
    tl_win_close(&w);
}

/* A lock of one target opens no epoch to another, a start only to its group. */
static void other_target(int flavor)
{
    struct tl_win w;
    int next, third;
    long one = 1;

    if (!open_window(&w, flavor))
        return;
    next = (w.rank + 1) % w.size;
    third = (w.rank + 2) % w.size;
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w.win), "MPI_Win_lock");
    tl_class(MPI_Put(&one, 1, MPI_LONG, third, tl_disp(&w, third, 64), 1, MPI_LONG, w.win),
             "put to a target that is not locked", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_flush(third, w.win), "flush of a target that is not locked",
             MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_unlock(next, w.win), "MPI_Win_unlock");
    tl_epoch_open(&w, TL_PSCW, next, (w.rank + w.size - 1) % w.size);
    tl_class(MPI_Put(&one, 1, MPI_LONG, third, tl_disp(&w, third, 64), 1, MPI_LONG, w.win),
             "put to a rank outside the started group", MPI_ERR_RMA_SYNC);
    tl_epoch_close(&w, TL_PSCW, next);
    still_works(&w);
    tl_win_close(&w);
}

static void unlocks(struct tl_win *w)
{
    int next = (w->rank + 1) % w->size;

    tl_class(MPI_Win_unlock(next, w->win), "unlock without lock", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_unlock_all(w->win), "unlock_all without lock_all", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win), "MPI_Win_lock");
    tl_class2(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win), "lock of the same target twice",
              MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, w->win), "lock of the same target twice",
              MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock_all(0, w->win), "lock_all under a lock", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_class(MPI_Win_unlock_all(w->win), "unlock_all of a lock", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_unlock(next, w->win), "MPI_Win_unlock");
    tl_class(MPI_Win_unlock(next, w->win), "unlock twice", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
    tl_class2(MPI_Win_lock_all(0, w->win), "lock_all twice", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win), "lock under lock_all",
              MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class(MPI_Win_unlock(next, w->win), "unlock of lock_all", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
    tl_class(MPI_Win_unlock_all(w->win), "unlock_all twice", MPI_ERR_RMA_SYNC);
}

static void wrong_locks(int flavor)
{
    struct tl_win w;

    if (!open_window(&w, flavor))
        return;
    unlocks(&w);
    still_works(&w);
    tl_win_close(&w);
}

static void wrong_active(int flavor)
{
    struct tl_win w;
    int flag = 7;

    if (!open_window(&w, flavor))
        return;
    tl_class(MPI_Win_complete(w.win), "complete without start", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_wait(w.win), "wait without post", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_test(w.win, &flag), "test without post", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win), "MPI_Win_post");
    tl_class(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win), "post twice", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    tl_ok(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win), "MPI_Win_start");
    tl_class(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win), "start twice", MPI_ERR_RMA_SYNC);
    tl_class2(MPI_Win_lock_all(0, w.win), "lock_all after start", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "lock after start", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
    still_works(&w);
    tl_win_close(&w);
}

static void mixed_epochs(int flavor)
{
    struct tl_win w;
    long zero = 0;
    int next = (tl_rank() + 1) % tl_size();

    if (!open_window(&w, flavor))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    tl_class(MPI_Win_fence(0, w.win), "fence under lock_all", MPI_ERR_RMA_SYNC);
    tl_class2(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win), "start under lock_all", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_barrier();
    tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win), "MPI_Win_fence");
    /* a fence opens an epoch only if it is used: from here on it is */
    tl_ok(MPI_Put(&zero, 1, MPI_LONG, next, tl_disp(&w, next, 0), 1, MPI_LONG, w.win), "put");
    tl_class2(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w.win), "lock inside a fence epoch",
              MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class(MPI_Win_flush(next, w.win), "flush inside a fence epoch", MPI_ERR_RMA_SYNC);
    tl_class(MPI_Win_unlock(next, w.win), "unlock inside a fence epoch", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
    tl_barrier();
    still_works(&w);
    tl_win_close(&w);
}

/* Freeing is refused while one's own epoch is open, and works afterwards. */
static void refuses_free(struct tl_win *w, const char *epoch)
{
    tl_class(MPI_Win_free(&w->win), epoch, MPI_ERR_RMA_SYNC);
    tl_true(w->win != MPI_WIN_NULL, "the window is gone after %s", epoch);
}

static void free_in_epoch(int flavor)
{
    struct tl_win w;
    MPI_Group all;
    long zero = 0;

    if (!open_window(&w, flavor))
        return;
    MPI_Win_get_group(w.win, &all);
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    refuses_free(&w, "free under lock_all");
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win), "MPI_Win_lock");
    refuses_free(&w, "free under a lock");
    tl_ok(MPI_Win_unlock(0, w.win), "MPI_Win_unlock");
    tl_ok(MPI_Win_post(all, 0, w.win), "MPI_Win_post");
    refuses_free(&w, "free between post and wait");
    tl_class(MPI_Win_fence(0, w.win), "fence between post and wait", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_start(all, 0, w.win), "MPI_Win_start");
    refuses_free(&w, "free between start and complete");
    tl_class(MPI_Win_fence(0, w.win), "fence between start and complete", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
    tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
    tl_ok(MPI_Put(&zero, 1, MPI_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG, w.win), "put");
    refuses_free(&w, "free in a fence epoch");
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
    MPI_Group_free(&all);
    still_works(&w);
    tl_win_close(&w);
}

/* ---- kinds of windows ---- */

static void wrong_kind(int flavor)
{
    struct tl_win w;
    MPI_Aint size;
    int unit;
    void *base;
    char memory[64];

    if (!open_window(&w, flavor))
        return;
    if (flavor != TL_SHARED)
        tl_class(MPI_Win_shared_query(w.win, 0, &size, &unit, &base), "shared_query",
                 MPI_ERR_RMA_FLAVOR);
    if (flavor != TL_DYNAMIC) {
        tl_class2(MPI_Win_attach(w.win, memory, sizeof memory), "attach", MPI_ERR_RMA_FLAVOR,
                  MPI_ERR_RMA_ATTACH);
        tl_class2(MPI_Win_detach(w.win, memory), "detach", MPI_ERR_RMA_FLAVOR, MPI_ERR_BASE);
    }
    still_works(&w);
    tl_win_close(&w);
}

/* Windows that cannot be made; the program goes on. All ranks ask for the same. */
static void impossible(void)
{
    MPI_Win win = MPI_WIN_NULL;
    void *base = NULL;
    char memory[8];
    int rc;

    tl_class(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "size -1",
             MPI_ERR_SIZE);
    tl_class(MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "unit 0",
             MPI_ERR_DISP);
    tl_class(MPI_Win_create(memory, 8, -4, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "unit -4",
             MPI_ERR_DISP);
    tl_true(MPI_Win_allocate((MPI_Aint)1 << 56, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win) !=
            MPI_SUCCESS, "64 PiB were allocated");
    rc = MPI_Win_allocate_shared((MPI_Aint)1 << 56, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    if (tl_one_machine())
        tl_class(rc, "64 PiB of shared memory", MPI_ERR_NO_MEM);
    else    /* what 4.1 and 5.0 themselves say of a window that no component makes */
        tl_class2(rc, "64 PiB of shared memory", MPI_ERR_RMA_SHARED, MPI_ERR_INTERN);
}

static void too_much(int flavor)
{
    struct tl_win w;

    impossible();
    if (!open_window(&w, flavor))
        return;
    still_works(&w);
    tl_win_close(&w);
}

/* One rank's request alone cannot be met: the call fails on all, or no rank is left behind. */
static void too_much_on_one(int flavor)
{
    MPI_Win win = MPI_WIN_NULL;
    void *base = NULL;
    MPI_Aint bytes = tl_rank() == tl_size() - 1 ? (MPI_Aint)1 << 56 : 64;
    struct tl_win w;
    int rc;

    if (flavor == TL_ALLOCATE)
        rc = MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    else
        rc = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    tl_true(rc != MPI_SUCCESS, "a window of 64 PiB was made");
    if (!open_window(&w, flavor))
        return;
    still_works(&w);
    tl_win_close(&w);
}

/* The window's own error handler is called with the window and the code. */
struct seen {
    int calls, code;
    MPI_Win win;
};

static struct seen handler_saw;

static void handler(MPI_Win *win, int *code, ...)
{
    handler_saw.calls++;
    handler_saw.code = *code;
    handler_saw.win = *win;
}

static void own_handler(int flavor)
{
    struct tl_win w;
    MPI_Errhandler mine, got;
    long one = 1;
    int error_class = 0;

    if (!open_window(&w, flavor))
        return;
    memset(&handler_saw, 0, sizeof handler_saw);
    MPI_Win_create_errhandler(handler, &mine);
    tl_ok(MPI_Win_set_errhandler(w.win, mine), "MPI_Win_set_errhandler");
    tl_ok(MPI_Win_get_errhandler(w.win, &got), "MPI_Win_get_errhandler");
    tl_true(got == mine, "another handler is got than was set");
    MPI_Errhandler_free(&got);
    MPI_Put(&one, 1, MPI_LONG, 0, tl_disp(&w, 0, 64), 1, MPI_LONG, w.win);
    tl_true(handler_saw.calls == 1 && handler_saw.win == w.win, "the handler was called %d times",
            handler_saw.calls);
    if (handler_saw.calls > 0)
        MPI_Error_class(handler_saw.code, &error_class);
    tl_eq(error_class, MPI_ERR_RMA_SYNC, "the class that the handler saw");
    MPI_Errhandler_free(&mine);
    MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
    still_works(&w);
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    enum { PARTS = TL_ALLOCATE | TL_SHARED | TL_CREATE }; /* one part per rank */
    static const struct tl_case cases[] = {
        {"displacement", displacement, PARTS, 1, 30},
        {"negative", negative, PARTS, 1, 30},
        {"displacement_in_epochs", displacement_in_epochs, PARTS, 1, 30},
        {"comes_round", comes_round, PARTS, 1, 30},
        {"derived_outside", derived_outside, PARTS, 1, 30},
        {"own_size_counts", own_size_counts, PARTS, 1, 30},
        {"wrong_arguments", wrong_arguments, TL_ALL, 1, 30},
        {"wrong_operation", wrong_operation, TL_ALL, 1, 30},
        {"no_epoch", no_epoch, TL_ALL, 1, 30},
        {"other_target", other_target, TL_ALL, 3, 30},
        {"wrong_locks", wrong_locks, TL_ALL, 1, 30},
        {"wrong_active", wrong_active, TL_ALL, 1, 30},
        {"mixed_epochs", mixed_epochs, TL_ALL, 1, 30},
        {"free_in_epoch", free_in_epoch, TL_ALL, 1, 30},
        {"wrong_kind", wrong_kind, TL_ALL, 1, 30},
        {"too_much", too_much, TL_ALLOCATE, 1, 30},
        {"too_much_on_one", too_much_on_one, TL_ALLOCATE | TL_SHARED, 1, 30},
        {"own_handler", own_handler, TL_ALL, 1, 30},
    };

    return tl_main(argc, argv, "errors", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
