/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows as objects: attributes, shared_query, communicators of every kind, names, info, error
 * handlers, order of freeing.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes ---- */

static void *attribute(MPI_Win win, int key, const char *name)
{
    void *value = NULL;
    int there = 0;

    tl_ok(MPI_Win_get_attr(win, key, &value, &there), name);
    tl_true(there, "%s is not set", name);
    return there ? value : NULL;
}

static void attributes(int flavor)
{
    static const int unit_of[4] = {1, 4, 8, 24};
    int unit = unit_of[tl_rank() % 4], wanted;
    size_t bytes = 480 * (size_t)(tl_rank() + 1);
    struct tl_win w;
    void *base;
    MPI_Aint *size;
    int *got_unit, *got_flavor, *model;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, bytes, unit))
        return;
    base = attribute(w.win, MPI_WIN_BASE, "MPI_WIN_BASE");
    size = attribute(w.win, MPI_WIN_SIZE, "MPI_WIN_SIZE");
    got_unit = attribute(w.win, MPI_WIN_DISP_UNIT, "MPI_WIN_DISP_UNIT");
    got_flavor = attribute(w.win, MPI_WIN_CREATE_FLAVOR, "MPI_WIN_CREATE_FLAVOR");
    model = attribute(w.win, MPI_WIN_MODEL, "MPI_WIN_MODEL");
    wanted = flavor == TL_ALLOCATE  ? MPI_WIN_FLAVOR_ALLOCATE
             : flavor == TL_SHARED  ? MPI_WIN_FLAVOR_SHARED
             : flavor == TL_CREATE  ? MPI_WIN_FLAVOR_CREATE
                                    : MPI_WIN_FLAVOR_DYNAMIC;
    if (!tl_failed()) {
        tl_true(base == (flavor == TL_DYNAMIC ? MPI_BOTTOM : w.base), "MPI_WIN_BASE is %p", base);
        tl_eq(*size, flavor == TL_DYNAMIC ? 0 : (long long)bytes, "MPI_WIN_SIZE");
        tl_eq(*got_unit, flavor == TL_DYNAMIC ? 1 : unit, "MPI_WIN_DISP_UNIT");
        tl_eq(*got_flavor, wanted, "MPI_WIN_CREATE_FLAVOR");
        tl_eq(*model, MPI_WIN_UNIFIED, "MPI_WIN_MODEL");
    }
    tl_win_close(&w);
}

static void group(int flavor)
{
    struct tl_win w;
    MPI_Group of_window, of_world;
    int same;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    tl_ok(MPI_Win_get_group(w.win, &of_window), "MPI_Win_get_group");
    MPI_Comm_group(MPI_COMM_WORLD, &of_world);
    MPI_Group_compare(of_window, of_world, &same);
    tl_eq(same, MPI_IDENT, "MPI_Group_compare");
    MPI_Group_free(&of_window);
    MPI_Group_free(&of_world);
    tl_win_close(&w);
}

static int freed_attributes;

static int on_delete(MPI_Win win, int key, void *value, void *extra)
{
    (void)win;
    (void)key;
    (void)value;
    (void)extra;
    freed_attributes++;
    return MPI_SUCCESS;
}

static void names_and_keys(int flavor)
{
    struct tl_win w;
    char name[MPI_MAX_OBJECT_NAME];
    int length, key, there, value = 5;
    void *got;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    tl_ok(MPI_Win_set_name(w.win, "a window of ours"), "MPI_Win_set_name");
    tl_ok(MPI_Win_get_name(w.win, name, &length), "MPI_Win_get_name");
    tl_true(strcmp(name, "a window of ours") == 0, "the name is \"%s\"", name);
    freed_attributes = 0;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
    tl_ok(MPI_Win_set_attr(w.win, key, &value), "MPI_Win_set_attr");
    tl_ok(MPI_Win_get_attr(w.win, key, &got, &there), "MPI_Win_get_attr");
    tl_true(there && got == &value, "the attribute is lost");
    tl_win_close(&w);
    tl_eq(freed_attributes, 1, "calls of the delete function at MPI_Win_free");
    MPI_Win_free_keyval(&key);
}

static void infos(int flavor)
{
    struct tl_win w;
    MPI_Info info, got = MPI_INFO_NULL;
    long one = 1;
    int next = (tl_rank() + 1) % tl_size();

    MPI_Info_create(&info);
    MPI_Info_set(info, "no_such_key_of_anyone", "some value");
    MPI_Info_set(info, "same_size", "true");
    MPI_Info_set(info, "same_disp_unit", "true");
    MPI_Info_set(info, "accumulate_ordering", "rar,raw,war,waw");
    MPI_Info_set(info, "accumulate_ops", "same_op_no_op");
    if (tl_win_open_info(&w, flavor, MPI_COMM_WORLD, 64, 1, info)) {
        tl_ok(MPI_Win_get_info(w.win, &got), "MPI_Win_get_info");
        tl_true(got != MPI_INFO_NULL, "MPI_Win_get_info gave nothing");
        if (got != MPI_INFO_NULL)
            MPI_Info_free(&got);
        MPI_Info_set(info, "another_unknown_key", "x");
        tl_ok(MPI_Win_set_info(w.win, info), "MPI_Win_set_info");
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w.win), "lock");
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, next, tl_disp(&w, next, 0), 1, MPI_LONG, MPI_SUM,
                             w.win), "accumulate");
        tl_ok(MPI_Win_unlock(next, w.win), "unlock");
        tl_win_close(&w);
    }
    MPI_Info_free(&info);
}

/* With no_locks the active calls still work. */
static void no_locks(int flavor)
{
    struct tl_win w;
    MPI_Info info;
    long value = tl_rank(), got = -1;
    int next = (tl_rank() + 1) % tl_size();

    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    if (tl_win_open_info(&w, flavor, MPI_COMM_WORLD, 64, 8, info)) {
        tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win), "fence");
        tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(&w, next, 0), 1, MPI_LONG, w.win), "put");
        tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "fence");
        memcpy(&got, w.base, sizeof got);
        tl_eq(got, (w.rank + w.size - 1) % w.size, "what the neighbour put");
        tl_win_close(&w);
    }
    MPI_Info_free(&info);
}

/* ---- shared memory ---- */

static size_t part_bytes(int rank, int zero_every)
{
    return zero_every != 0 && rank % zero_every == 0 ? 0 : 40 * (size_t)(rank % 5 + 1);
}

static int shared_open(struct tl_win *w, int zero_every, int noncontig)
{
    MPI_Info info = MPI_INFO_NULL;
    int there;

    if (noncontig) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    }
    there = tl_win_open_info(w, TL_SHARED, MPI_COMM_WORLD, part_bytes(tl_rank(), zero_every), 8,
                             info);
    if (noncontig)
        MPI_Info_free(&info);
    return there;
}

static void check_query(struct tl_win *w, int zero_every, int noncontig)
{
    unsigned char *expect = NULL, *base;
    MPI_Aint size;
    int unit;

    for (int r = 0; r < w->size; r++) {
        tl_ok(MPI_Win_shared_query(w->win, r, &size, &unit, &base), "MPI_Win_shared_query");
        tl_eq(size, (long long)part_bytes(r, zero_every), "size of a rank's part");
        tl_eq(unit, 8, "unit of a rank's part");
        if (r == w->rank && size > 0)
            tl_true(base == w->base, "one's own part is queried at another address");
        if (!noncontig && expect != NULL && size > 0)
            tl_true(base == expect, "the part of rank %d does not follow the one before", r);
        if (size > 0)
            expect = base + size;
    }
}

static void check_first(struct tl_win *w, int zero_every)
{
    unsigned char *base, *first = NULL;
    MPI_Aint size, due = 0;
    int unit, lowest = 0;

    while (lowest < w->size && part_bytes(lowest, zero_every) == 0)
        lowest++;
    tl_ok(MPI_Win_shared_query(w->win, MPI_PROC_NULL, &size, &unit, &base), "query of PROC_NULL");
    if (lowest == w->size) { /* no rank has memory */
        tl_eq(size, 0, "size at MPI_PROC_NULL");
        return;
    }
    due = (MPI_Aint)part_bytes(lowest, zero_every);
    MPI_Win_shared_query(w->win, lowest, &size, &unit, &first);
    MPI_Win_shared_query(w->win, MPI_PROC_NULL, &size, &unit, &base);
    tl_eq(size, due, "size at MPI_PROC_NULL");
    tl_true(base == first, "MPI_PROC_NULL is not the lowest rank with memory");
}

/* Everyone writes all parts by plain stores, in turn; everyone reads them. */
static void check_loads(struct tl_win *w, int zero_every)
{
    tl_ok(MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
    for (int writer = 0; writer < w->size; writer++) {
        for (int r = 0; r < w->size; r++) {
            unsigned char *base;
            MPI_Aint size;
            int unit;
            MPI_Win_shared_query(w->win, r, &size, &unit, &base);
            if (writer == w->rank)
                memset(base, writer * 16 + r + 1, (size_t)size);
        }
        tl_ok(MPI_Win_sync(w->win), "MPI_Win_sync");
        tl_barrier();
        tl_ok(MPI_Win_sync(w->win), "MPI_Win_sync");
        for (size_t i = 0; i < part_bytes(w->rank, zero_every); i++)
            tl_eq(w->base[i], (writer * 16 + w->rank + 1) & 255, "a byte that was stored");
        tl_barrier();
    }
    tl_ok(MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
}

static void shared_kind(int zero_every, int noncontig)
{
    struct tl_win w;

    if (!shared_open(&w, zero_every, noncontig))
        return;
    check_query(&w, zero_every, noncontig);
    check_first(&w, zero_every);
    check_loads(&w, zero_every);
    tl_win_close(&w);
}

static void shared_query(int flavor)
{
    (void)flavor;
    shared_kind(0, 0);
    shared_kind(0, 1);
    shared_kind(2, 0);
    shared_kind(2, 1);
    shared_kind(1, 0); /* nobody has memory */
}

/* CPU atomics of one rank and MPI's atomics of another are not promised to mix; loads and
 * stores with flushes are. */
static void shared_and_puts(int flavor)
{
    struct tl_win w;
    long *words;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    words = (long *)(void *)w.base;
    tl_ok(MPI_Win_lock_all(0, w.win), "MPI_Win_lock_all");
    for (long i = 1; i <= 100; i++) {
        int next = (w.rank + 1) % w.size;
        long got = 0;
        words[1] = i * 10 + w.rank;
        tl_ok(MPI_Win_sync(w.win), "MPI_Win_sync");
        tl_barrier();
        tl_ok(MPI_Get(&got, 1, MPI_LONG, next, tl_disp(&w, next, 8), 1, MPI_LONG, w.win), "get");
        tl_ok(MPI_Win_flush(next, w.win), "MPI_Win_flush");
        tl_eq(got, i * 10 + next, "what the owner stored");
        tl_barrier();
    }
    tl_ok(MPI_Win_unlock_all(w.win), "MPI_Win_unlock_all");
    tl_win_close(&w);
}

/* ---- sizes ---- */

static void zero_sizes(int flavor)
{
    struct tl_win w;
    int next = (tl_rank() + 1) % tl_size();
    long value = 3;

    for (int all = 0; all < 2; all++) {
        size_t bytes = all || tl_rank() % 2 == 0 ? 0 : 64;
        if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, bytes, 8))
            return;
        tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win), "fence");
        if (!all && next % 2 == 1)
            tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(&w, next, 0), 1, MPI_LONG, w.win),
                  "put");
        tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "fence");
        tl_ok(MPI_Win_lock_all(0, w.win), "lock_all");
        tl_ok(MPI_Win_unlock_all(w.win), "unlock_all");
        if (bytes > 0 && w.size > 1)
            tl_true(w.base[0] == 3, "the put into the part that has memory is lost");
        tl_win_close(&w);
    }
}

/* A null base of size 0 is a window as well. */
static void null_base(int flavor)
{
    MPI_Win win;

    (void)flavor;
    if (!tl_ok(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "MPI_Win_create"))
        return;
    tl_ok(MPI_Win_fence(0, win), "fence");
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), "fence");
    tl_ok(MPI_Win_free(&win), "MPI_Win_free");
    tl_true(win == MPI_WIN_NULL, "MPI_Win_free leaves the handle");
}

/* ---- communicators ---- */

static void use_once(struct tl_win *w)
{
    long value = 100 + w->rank, one = 1, got = -1;
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;

    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    for (int how = 0; how < TL_EPOCHS; how++) {
        tl_epoch_open(w, (enum tl_epoch)how, next, before);
        value = how * 1000 + w->rank;
        tl_ok(MPI_Put(&value, 1, MPI_LONG, next, tl_disp(w, next, 0), 1, MPI_LONG, w->win), "put");
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, next, tl_disp(w, next, 8), 1, MPI_LONG, MPI_SUM,
                             w->win), "accumulate");
        tl_epoch_close(w, (enum tl_epoch)how, next);
        tl_local_begin(w);
        memcpy(&got, w->base, sizeof got);
        tl_eq(got, how * 1000 + before, "what the neighbour put");
        tl_local_end(w);
        MPI_Barrier(w->comm);
    }
    tl_local_begin(w);
    memcpy(&got, w->base + 8, sizeof got);
    tl_eq(got, TL_EPOCHS, "the sum of the neighbour");
    tl_local_end(w);
    MPI_Barrier(w->comm);
}

static void on(MPI_Comm comm, int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, comm, 64, 8))
        return;
    use_once(&w);
    tl_win_close(&w);
}

static void self(int flavor)
{
    on(MPI_COMM_SELF, flavor);
}

static void halves(int flavor)
{
    MPI_Comm half, backwards;

    MPI_Comm_split(MPI_COMM_WORLD, tl_rank() % 2, tl_rank(), &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    on(half, flavor);
    tl_barrier();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -tl_rank(), &backwards);
    MPI_Comm_set_errhandler(backwards, MPI_ERRORS_RETURN);
    on(backwards, flavor);
    MPI_Comm_free(&backwards);
    MPI_Comm_free(&half);
}

/* Windows on overlapping communicators at once, used in turn. */
static void overlapping(int flavor)
{
    struct tl_win whole, part, own;
    MPI_Comm half;

    MPI_Comm_split(MPI_COMM_WORLD, tl_rank() < tl_size() / 2, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    if (tl_win_open(&whole, flavor, MPI_COMM_WORLD, 64, 8)) {
        if (tl_win_open(&part, flavor, half, 64, 8)) {
            if (tl_win_open(&own, flavor, MPI_COMM_SELF, 64, 8)) {
                use_once(&own);
                use_once(&part);
                use_once(&whole);
                use_once(&own);
                tl_win_close(&own);
            }
            tl_win_close(&part);
        }
        tl_win_close(&whole);
    }
    MPI_Comm_free(&half);
}

/* The communicator may go before its window, and is not touched by it. */
static void comm_freed_first(int flavor)
{
    struct tl_win w;
    MPI_Comm copy;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (!tl_win_open(&w, flavor, copy, 64, 8)) {
        MPI_Comm_free(&copy);
        return;
    }
    MPI_Comm_free(&copy);
    w.comm = MPI_COMM_WORLD;
    use_once(&w);
    tl_win_close(&w);
}

/* An intercommunicator of the two halves, merged. */
static void merged(int flavor)
{
    MPI_Comm half, between, all;
    int low = tl_rank() < tl_size() / 2;

    MPI_Comm_split(MPI_COMM_WORLD, low, tl_rank(), &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? tl_size() / 2 : 0, 9, &between);
    MPI_Intercomm_merge(between, low, &all);
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    on(all, flavor);
    MPI_Comm_free(&all);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void free_order(int flavor)
{
    static const int order[5] = {2, 0, 4, 1, 3};
    struct tl_win w[5];
    int made = 0;

    while (made < 5 && tl_win_open(&w[made], flavor, MPI_COMM_WORLD, 64 * (size_t)(made + 1), 8))
        made++;
    for (int i = 0; i < 5 && made == 5; i++) {
        for (int k = i; k < 5; k++)
            if (i == 0)
                use_once(&w[order[k]]);
        tl_win_close(&w[order[i]]);
    }
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"attributes", attributes, TL_ALL, 1, 30},
        {"group", group, TL_ALL, 1, 30},
        {"names_and_keys", names_and_keys, TL_ALL, 1, 30},
        {"infos", infos, TL_ALL, 1, 30},
        {"no_locks", no_locks, TL_ALL, 1, 30},
        {"shared_query", shared_query, TL_SHARED, 1, 30},
        {"shared_and_puts", shared_and_puts, TL_ALL, 1, 30},
        {"zero_sizes", zero_sizes, TL_ALL, 1, 30},
        {"null_base", null_base, TL_CREATE, 1, 30},
        {"self", self, TL_ALL, 1, 30},
        {"halves", halves, TL_ALL, 1, 30},
        {"overlapping", overlapping, TL_ALL, 2, 30},
        {"comm_freed_first", comm_freed_first, TL_ALL, 1, 30},
        {"merged", merged, TL_ALL, 2, 30},
        {"free_order", free_order, TL_ALL, 1, 30},
    };

    return tl_main(argc, argv, "windows", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
