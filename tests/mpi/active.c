/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active target: fence with its asserts, post/start/complete/wait/test with groups that differ from
 * rank to rank and from turn to turn.
 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 256 };

static int next_rank(const struct tl_win *w)
{
    return (w->rank + 1) % w->size;
}

static int previous_rank(const struct tl_win *w)
{
    return (w->rank + w->size - 1) % w->size;
}

static int read_slot(const struct tl_win *w, int slot)
{
    int value;

    memcpy(&value, w->base + 4 * (size_t)slot, sizeof value);
    return value;
}

static void write_slot(struct tl_win *w, int slot, int value)
{
    memcpy(w->base + 4 * (size_t)slot, &value, sizeof value);
}

static int put_slot(struct tl_win *w, int target, int slot, const int *value)
{
    return MPI_Put(value, 1, MPI_INT, target, tl_disp(w, target, 4 * (size_t)slot), 1, MPI_INT,
                   w->win);
}

static int get_slot(struct tl_win *w, int target, int slot, int *value)
{
    return MPI_Get(value, 1, MPI_INT, target, tl_disp(w, target, 4 * (size_t)slot), 1, MPI_INT,
                   w->win);
}

/* ---- fence ---- */

static void fence_puts(int flavor)
{
    struct tl_win w;
    int value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4))
        return;
    tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
    for (int i = 0; i < 1000; i++) {
        value = i * 100 + w.rank;
        tl_ok(put_slot(&w, next_rank(&w), i % 7, &value), "put");
        tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
        tl_eq(read_slot(&w, i % 7), i * 100 + previous_rank(&w), "what the neighbour put");
    }
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
    tl_win_close(&w);
}

/* Stores by the owner before a fence are what a get behind it sees. */
static void fence_gets(int flavor)
{
    struct tl_win w;
    int got = -1;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 1))
        return;
    for (int i = 0; i < 500; i++) {
        write_slot(&w, 3, i * 100 + w.rank);
        tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOPUT, w.win), "MPI_Win_fence");
        tl_ok(get_slot(&w, next_rank(&w), 3, &got), "get");
        tl_ok(MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
        tl_eq(got, i * 100 + next_rank(&w), "what the neighbour stored");
    }
    tl_win_close(&w);
}

/* Every assert that is true of the program, in all mixtures. */
static void fence_asserts(int flavor)
{
    struct tl_win w;
    int value, first, last;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4))
        return;
    for (int mix = 0; mix < 64; mix++) {
        first = (mix & 1 ? MPI_MODE_NOPRECEDE : 0) | (mix & 2 ? MPI_MODE_NOSTORE : 0);
        last = (mix & 4 ? MPI_MODE_NOSUCCEED : 0) | (mix & 8 ? MPI_MODE_NOSTORE : 0) |
               (mix & 16 ? MPI_MODE_NOPUT : 0);
        value = mix * 1000 + w.rank;
        tl_ok(MPI_Win_fence(first, w.win), "opening MPI_Win_fence");
        tl_ok(put_slot(&w, next_rank(&w), mix, &value), "put");
        if (mix & 32) {
            tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
            tl_eq(read_slot(&w, mix), mix * 1000 + previous_rank(&w), "between two fences");
        }
        tl_ok(MPI_Win_fence(last, w.win), "closing MPI_Win_fence");
        tl_eq(read_slot(&w, mix), mix * 1000 + previous_rank(&w), "behind the closing fence");
        tl_barrier();
    }
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
    tl_win_close(&w);
}

/* All to all between two fences; one rank comes late. */
static void fence_late(int flavor)
{
    struct tl_win w;
    int value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4))
        return;
    for (int i = 0; i < 5; i++) {
        if (i % w.size == w.rank)
            tl_wait_quietly(0.05);
        tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
        value = i * 1000 + w.rank;
        for (int t = 0; t < w.size && t < SLOTS_MAX; t++)
            tl_ok(put_slot(&w, t, w.rank % SLOTS_MAX, &value), "put");
        if ((i + 1) % w.size == w.rank)
            tl_wait_quietly(0.05);
        tl_ok(MPI_Win_fence(0, w.win), "MPI_Win_fence");
        for (int r = 0; r < w.size && r < SLOTS_MAX; r++)
            tl_eq(read_slot(&w, r), i * 1000 + r, "what each rank put");
    }
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win), "MPI_Win_fence");
    tl_win_close(&w);
}

/* ---- post, start, complete, wait ---- */

static MPI_Group group_of(MPI_Win win, const int *ranks, int count)
{
    MPI_Group all, some;

    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

static void ring(int flavor, int post_assert, int start_assert, int turns)
{
    struct tl_win w;
    MPI_Group left, right;
    int value, from, to;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4))
        return;
    from = previous_rank(&w);
    to = next_rank(&w);
    left = group_of(w.win, &from, 1);
    right = group_of(w.win, &to, 1);
    for (int i = 0; i < turns; i++) {
        value = i * 100 + w.rank;
        tl_ok(MPI_Win_post(left, post_assert, w.win), "MPI_Win_post");
        if (start_assert & MPI_MODE_NOCHECK)
            tl_barrier(); /* what the assert promises: all have posted */
        tl_ok(MPI_Win_start(right, start_assert, w.win), "MPI_Win_start");
        tl_ok(put_slot(&w, to, i % 9, &value), "put");
        tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
        tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
        tl_eq(read_slot(&w, i % 9), i * 100 + from, "what the neighbour put");
    }
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    tl_win_close(&w);
}

static void pscw_ring(int flavor)
{
    ring(flavor, 0, 0, 1000);
}

static void pscw_nostore(int flavor)
{
    ring(flavor, MPI_MODE_NOSTORE, 0, 50);
}

static void pscw_nocheck(int flavor)
{
    ring(flavor, MPI_MODE_NOCHECK, MPI_MODE_NOCHECK, 50);
}

/* Does origin access target in this turn? The same answer on all ranks. */
static int accesses(uint64_t seed, int turn, int origin, int target, int density)
{
    uint64_t bits = tl_mix(tl_mix(seed, (uint64_t)turn), (uint64_t)(origin * 1000 + target));

    return (int)(bits % 100) < density;
}

static MPI_Group chosen(const struct tl_win *w, int turn, int density, int as_origin, int *ranks,
                        int *count)
{
    *count = 0;
    for (int r = 0; r < w->size; r++) {
        int origin = as_origin ? w->rank : r, target = as_origin ? r : w->rank;
        if (accesses(7, turn, origin, target, density))
            ranks[(*count)++] = r;
    }
    /* the order of a group's members is free: turn it */
    for (int i = 0; i < *count / 2 && turn % 2 == 1; i++) {
        int t = ranks[i];
        ranks[i] = ranks[*count - 1 - i];
        ranks[*count - 1 - i] = t;
    }
    return group_of(w->win, ranks, *count);
}

static void finish_exposure(struct tl_win *w, int turn)
{
    int done = 0;

    if (turn % 3 != 0) {
        tl_ok(MPI_Win_wait(w->win), "MPI_Win_wait");
        return;
    }
    while (!done)
        if (!tl_ok(MPI_Win_test(w->win, &done), "MPI_Win_test"))
            return;
}

static void random_turn(struct tl_win *w, int turn, int density, int *to, int *from)
{
    int targets, origins, value = turn * 100 + w->rank;
    MPI_Group access = chosen(w, turn, density, 1, to, &targets);
    MPI_Group exposure = chosen(w, turn, density, 0, from, &origins);

    tl_ok(MPI_Win_post(exposure, 0, w->win), "MPI_Win_post");
    tl_ok(MPI_Win_start(access, 0, w->win), "MPI_Win_start");
    MPI_Group_free(&access); /* may go at once */
    MPI_Group_free(&exposure);
    for (int i = 0; i < targets; i++)
        tl_ok(put_slot(w, to[i], w->rank % SLOTS_MAX, &value), "put");
    tl_ok(MPI_Win_complete(w->win), "MPI_Win_complete");
    finish_exposure(w, turn);
    for (int i = 0; i < origins; i++)
        tl_eq(read_slot(w, from[i] % SLOTS_MAX), turn * 100 + from[i], "what an origin put");
}

/* Groups are drawn anew in each turn; no barrier keeps the ranks together. */
static void pscw_groups(int flavor)
{
    struct tl_win w;
    int *to = malloc((size_t)tl_size() * sizeof *to);
    int *from = malloc((size_t)tl_size() * sizeof *from);

    if (tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4)) {
        for (int turn = 0; turn < 1000; turn++)
            random_turn(&w, turn, turn % 5 == 0 ? 100 : turn % 101, to, from);
        tl_win_close(&w);
    }
    free(to);
    free(from);
}

static void pscw_empty(int flavor)
{
    struct tl_win w;
    int done = 0;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 4))
        return;
    for (int i = 0; i < 50; i++) {
        tl_ok(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win), "MPI_Win_post");
        tl_ok(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win), "MPI_Win_start");
        tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
        if (i % 2 == 0) {
            tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
        } else {
            tl_ok(MPI_Win_test(w.win, &done), "MPI_Win_test");
            tl_true(done, "nobody is to come, and MPI_Win_test waits");
        }
    }
    tl_win_close(&w);
}

/* Rank 0 is exposed to all; these come one after the other, while it looks with MPI_Win_test. */
static void pscw_test(int flavor)
{
    struct tl_win w;
    int *others = malloc((size_t)tl_size() * sizeof *others), done = 0, zero = 0, value, early;
    MPI_Group group;

    for (int r = 1; r < tl_size(); r++)
        others[r - 1] = r;
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4)) {
        free(others);
        return;
    }
    group = w.rank == 0 ? group_of(w.win, others, w.size - 1) : group_of(w.win, &zero, 1);
    for (int turn = 0; turn < 20; turn++) {
        value = turn * 100 + w.rank;
        if (w.rank == 0) {
            tl_ok(MPI_Win_post(group, 0, w.win), "MPI_Win_post");
            tl_ok(MPI_Win_test(w.win, &early), "MPI_Win_test");
            tl_barrier();
            tl_true(!early, "MPI_Win_test is true before any origin has completed");
            for (done = early; !done;)
                if (!tl_ok(MPI_Win_test(w.win, &done), "MPI_Win_test"))
                    break;
            for (int r = 1; r < w.size; r++)
                tl_eq(read_slot(&w, r % SLOTS_MAX), turn * 100 + r, "what an origin put");
        } else {
            tl_barrier();
            tl_ok(MPI_Win_start(group, 0, w.win), "MPI_Win_start");
            tl_ok(put_slot(&w, 0, w.rank % SLOTS_MAX, &value), "put");
            tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
        }
    }
    MPI_Group_free(&group);
    free(others);
    tl_win_close(&w);
}

/* The owner stores, then posts late: an access that has started sees the stores. */
static void pscw_late_post(int flavor)
{
    struct tl_win w;
    MPI_Group left, right;
    int from, to, got = -1;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 4))
        return;
    from = previous_rank(&w);
    to = next_rank(&w);
    left = group_of(w.win, &from, 1);
    right = group_of(w.win, &to, 1);
    for (int i = 0; i < 20; i++) {
        if (w.rank % 2 == i % 2)
            tl_wait_quietly(0.005);
        write_slot(&w, 0, i * 100 + w.rank);
        tl_ok(MPI_Win_post(left, MPI_MODE_NOPUT, w.win), "MPI_Win_post");
        tl_ok(MPI_Win_start(right, 0, w.win), "MPI_Win_start");
        tl_ok(get_slot(&w, to, 0, &got), "get");
        tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
        tl_eq(got, i * 100 + to, "what the neighbour stored before its post");
        tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    }
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    tl_win_close(&w);
}

/* One long exposure to all, while one's own accesses go to one target after the other. */
static void pscw_one_by_one(int flavor)
{
    struct tl_win w;
    MPI_Group all;
    int value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 4 * SLOTS_MAX, 4))
        return;
    MPI_Win_get_group(w.win, &all);
    for (int turn = 0; turn < 50; turn++) {
        tl_ok(MPI_Win_post(all, 0, w.win), "MPI_Win_post");
        for (int i = 0; i < w.size; i++) {
            int target = (w.rank + i) % w.size;
            MPI_Group one = group_of(w.win, &target, 1);
            tl_ok(MPI_Win_start(one, 0, w.win), "MPI_Win_start");
            value = turn * 100 + w.rank;
            tl_ok(put_slot(&w, target, w.rank % SLOTS_MAX, &value), "put");
            tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
            MPI_Group_free(&one);
        }
        tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
        for (int r = 0; r < w.size && r < SLOTS_MAX; r++)
            tl_eq(read_slot(&w, r), turn * 100 + r, "what each rank put");
    }
    MPI_Group_free(&all);
    tl_win_close(&w);
}

/* A group made of another communicator's ranks names the same processes. */
static void pscw_foreign_group(int flavor)
{
    struct tl_win w;
    MPI_Comm reversed;
    MPI_Group group, left, right;
    int value, from, to, r_from, r_to;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 4))
        return;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -w.rank, &reversed);
    MPI_Comm_group(reversed, &group);
    from = previous_rank(&w);
    to = next_rank(&w);
    r_from = w.size - 1 - from;
    r_to = w.size - 1 - to;
    MPI_Group_incl(group, 1, &r_from, &left);
    MPI_Group_incl(group, 1, &r_to, &right);
    value = 7000 + w.rank;
    tl_ok(MPI_Win_post(left, 0, w.win), "MPI_Win_post");
    tl_ok(MPI_Win_start(right, 0, w.win), "MPI_Win_start");
    tl_ok(put_slot(&w, to, 0, &value), "put");
    tl_ok(MPI_Win_complete(w.win), "MPI_Win_complete");
    tl_ok(MPI_Win_wait(w.win), "MPI_Win_wait");
    tl_eq(read_slot(&w, 0), 7000 + from, "what the neighbour put");
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&group);
    MPI_Comm_free(&reversed);
    tl_win_close(&w);
}

/* One window, fence and post/start and locks in turn. */
static void all_kinds_in_turn(int flavor)
{
    struct tl_win w;
    int value;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 4))
        return;
    for (int turn = 0; turn < 100; turn++) {
        enum tl_epoch how = (enum tl_epoch)(turn % TL_EPOCHS);
        value = turn * 100 + w.rank;
        tl_epoch_open(&w, how, next_rank(&w), previous_rank(&w));
        tl_ok(put_slot(&w, next_rank(&w), turn % 16, &value), "put");
        tl_epoch_close(&w, how, next_rank(&w));
        tl_local_begin(&w);
        tl_eq(read_slot(&w, turn % 16), turn * 100 + previous_rank(&w), tl_epoch_name(how));
        tl_local_end(&w);
        tl_barrier();
    }
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"fence_puts", fence_puts, TL_ALL, 1, 60},
        {"fence_gets", fence_gets, TL_ALL, 1, 60},
        {"fence_asserts", fence_asserts, TL_ALL, 1, 60},
        {"fence_late", fence_late, TL_ALL, 1, 60},
        {"pscw_ring", pscw_ring, TL_ALL, 1, 60},
        {"pscw_nostore", pscw_nostore, TL_ALL, 1, 60},
        {"pscw_nocheck", pscw_nocheck, TL_ALL, 1, 60},
        {"pscw_groups", pscw_groups, TL_ALL, 1, 60},
        {"pscw_empty", pscw_empty, TL_ALL, 1, 60},
        {"pscw_test", pscw_test, TL_ALL, 2, 60},
        {"pscw_late_post", pscw_late_post, TL_ALL, 1, 60},
        {"pscw_one_by_one", pscw_one_by_one, TL_ALL, 1, 60},
        {"pscw_foreign_group", pscw_foreign_group, TL_ALL, 1, 60},
        {"all_kinds_in_turn", all_kinds_in_turn, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "active", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
