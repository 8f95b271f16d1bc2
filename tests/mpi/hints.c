/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Info keys of windows: what MPI_Win_get_info shows is what is in force, at creation and after
 * MPI_Win_set_info; values that mean nothing change nothing; hints that the members do not fulfil
 * are not in force; and what is in force is honoured.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FULL_ORDER "rar,raw,war,waw"

/* What the window shows of a key, "(none)" if nothing. */
static const char *shown(const struct tl_win *w, const char *key, char *room)
{
    MPI_Info info;
    int there = 0;

    strcpy(room, "(none)");
    if (!tl_ok(MPI_Win_get_info(w->win, &info), "MPI_Win_get_info"))
        return room;
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, room, &there);
    if (!there)
        strcpy(room, "(none)");
    MPI_Info_free(&info);
    return room;
}

static void shows(const struct tl_win *w, const char *key, const char *wanted, const char *when)
{
    char room[MPI_MAX_INFO_VAL + 1];

    shown(w, key, room);
    tl_true(strcmp(room, wanted) == 0, "%s: %s is shown as \"%s\", wanted \"%s\"", when, key, room,
            wanted);
}

/* After a value that was refused: what was in force before, or the key is not shown any more, which
 * says that the default is (all that Open MPI 4.1 can do). */
static void shows_or_none(const struct tl_win *w, const char *key, const char *wanted,
                          const char *when)
{
    char room[MPI_MAX_INFO_VAL + 1];

    if (strcmp(shown(w, key, room), "(none)") != 0)
        shows(w, key, wanted, when);
}

static MPI_Info info_of(const char *key, const char *value)
{
    MPI_Info info;

    MPI_Info_create(&info);
    if (key != NULL)
        MPI_Info_set(info, key, value);
    return info;
}

static int open_with(struct tl_win *w, int flavor, const char *key, const char *value)
{
    MPI_Info info = info_of(key, value);
    int there = tl_win_open_info(w, flavor, MPI_COMM_WORLD, 64, 8, info);

    MPI_Info_free(&info);
    return there;
}

static void set(struct tl_win *w, const char *key, const char *value)
{
    MPI_Info info = info_of(key, value);

    tl_ok(MPI_Win_set_info(w->win, info), "MPI_Win_set_info");
    MPI_Info_free(&info);
}

/* An epoch with an accumulate and a put, whatever the hints. */
static void works(struct tl_win *w)
{
    long one = 1, due = w->size, got;

    tl_local_begin(w);
    memset(w->base, 0, w->bytes);
    tl_local_end(w);
    tl_barrier();
    tl_ok(MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
    for (int t = 0; t < w->size; t++)
        tl_ok(MPI_Accumulate(&one, 1, MPI_LONG, t, tl_disp(w, t, 8), 1, MPI_LONG, MPI_SUM, w->win),
              "accumulate");
    tl_ok(MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
    tl_barrier();
    tl_local_begin(w);
    memcpy(&got, w->base + 8, sizeof got);
    tl_local_end(w);
    tl_eq(got, due, "the sum");
}

static void refuses_locks(struct tl_win *w)
{
    int next = (w->rank + 1) % w->size;

    tl_class2(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win), "lock with no_locks",
              MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, MPI_MODE_NOCHECK, w->win),
              "lock with no_locks", MPI_ERR_RMA_SYNC, MPI_ERR_RMA_CONFLICT);
    tl_class2(MPI_Win_lock_all(0, w->win), "lock_all with no_locks", MPI_ERR_RMA_SYNC,
              MPI_ERR_RMA_CONFLICT);
    tl_class(MPI_Win_unlock_all(w->win), "unlock_all with no_locks", MPI_ERR_RMA_SYNC);
    tl_ok(MPI_Win_fence(0, w->win), "fence with no_locks");
    tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win), "fence with no_locks");
}

/* ---- values ---- */

struct value {
    const char *key, *given, *shown;
};

static const struct value defaults_of[] = {
    {"no_locks", NULL, "false"},        {"accumulate_ordering", NULL, FULL_ORDER},
    {"accumulate_ops", NULL, "same_op_no_op"}, {"same_size", NULL, "false"},
    {"same_disp_unit", NULL, "false"},
};

static const struct value good[] = {
    {"no_locks", "false", "false"},
    {"no_locks", "true", "true"},
    {"accumulate_ordering", FULL_ORDER, FULL_ORDER},
    {"accumulate_ordering", "none", "none"},
    {"accumulate_ops", "same_op", "same_op"},
    {"accumulate_ops", "same_op_no_op", "same_op_no_op"},
    {"same_size", "true", "true"},
    {"same_size", "false", "false"},
    {"same_disp_unit", "true", "true"},
    {"same_disp_unit", "false", "false"},
};

static const struct value bad[] = {
    {"no_locks", "maybe", "false"},      {"no_locks", "2true", "false"},
    {"accumulate_ordering", "sometimes", FULL_ORDER},
    {"accumulate_ordering", "rar,,waw", FULL_ORDER},
    {"accumulate_ordering", "none,rar", FULL_ORDER},
    {"accumulate_ordering", "rar,wow", FULL_ORDER},
    {"accumulate_ops", "any_op", "same_op_no_op"},
    {"same_size", "perhaps", "false"},   {"same_disp_unit", "8", "false"},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Shared windows may be locked, whatever was promised. */
static int has_no_locks(int flavor, const char *key)
{
    return strcmp(key, "no_locks") == 0 && flavor != TL_SHARED;
}

static const char *in_force(int flavor, const struct value *value)
{
    return strcmp(value->key, "no_locks") == 0 && flavor == TL_SHARED ? "false" : value->shown;
}

static void defaults(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (size_t i = 0; i < COUNT(defaults_of); i++)
        shows(&w, defaults_of[i].key, defaults_of[i].shown, "by default");
    if (flavor == TL_SHARED)
        shows(&w, "alloc_shared_noncontig", "false", "by default");
    tl_win_close(&w);
}

static void at_creation(int flavor)
{
    struct tl_win w;

    for (size_t i = 0; i < COUNT(good); i++) {
        if (!open_with(&w, flavor, good[i].key, good[i].given))
            return;
        shows(&w, good[i].key, in_force(flavor, &good[i]), "given at creation");
        if (!has_no_locks(flavor, good[i].key))
            works(&w);
        else
            set(&w, "no_locks", "false");   /* for the detach of a dynamic one */
        tl_win_close(&w);
    }
}

static void bad_at_creation(int flavor)
{
    struct tl_win w;

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (strcmp(bad[i].key, "accumulate_ops") == 0)
            continue; /* Open MPI's core reads it itself, and makes no window */
        if (!open_with(&w, flavor, bad[i].key, bad[i].given))
            return;
        shows(&w, bad[i].key, bad[i].shown, bad[i].given);
        works(&w);
        tl_win_close(&w);
    }
}

static void set_later(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (size_t i = 0; i < COUNT(good); i++) {
        tl_barrier();
        set(&w, good[i].key, good[i].given);
        if (in_force(flavor, &good[i]) == good[i].shown)
            shows(&w, good[i].key, good[i].shown, "set later");
        else
            shows_or_none(&w, good[i].key, in_force(flavor, &good[i]), "set later");
    }
    set(&w, "no_locks", "false");
    works(&w);
    tl_win_close(&w);
}

/* What was in force stays, or falls back to the default; either way it is what is shown. */
static void bad_later(int flavor)
{
    struct tl_win w;
    char room[MPI_MAX_INFO_VAL + 1];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (size_t i = 0; i < COUNT(bad); i++) {
        set(&w, bad[i].key, bad[i].given);
        shows_or_none(&w, bad[i].key, bad[i].shown, bad[i].given);
    }
    set(&w, "accumulate_ordering", "rar,waw");
    set(&w, "accumulate_ordering", "backwards");
    shows_or_none(&w, "accumulate_ordering", "rar,waw", "after a bad value");
    set(&w, "no_locks", "true");
    tl_barrier();
    set(&w, "no_locks", "maybe");
    shows_or_none(&w, "no_locks", in_force(flavor, &good[1]), "after a bad value");
    if (strcmp(shown(&w, "no_locks", room), "true") == 0)
        refuses_locks(&w);
    else
        works(&w);
    tl_barrier();
    set(&w, "no_locks", "false");
    works(&w);
    tl_win_close(&w);
}

/* ---- accumulate_ordering: every subset, in any order ---- */

static const char *const relation[4] = {"rar", "raw", "war", "waw"};

static void subset_text(unsigned subset, int backwards, char *text)
{
    text[0] = '\0';
    for (int k = 0; k < 4; k++) {
        int i = backwards ? 3 - k : k;
        if ((subset >> i & 1) == 0)
            continue;
        if (text[0] != '\0')
            strcat(text, ",");
        strcat(text, relation[i]);
    }
    if (text[0] == '\0')
        strcpy(text, "none");
}

/* Accumulates of one origin to one place. Whatever is asked, at least that order holds. */
static void check_order(struct tl_win *w, const char *when)
{
    int next = (w->rank + 1) % w->size;
    MPI_Aint at = tl_disp(w, next, 16);
    long got[10], value;

    tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w->win), "MPI_Win_lock");
    for (int i = 0; i < 10; i++) {
        value = i + 1;
        tl_ok(MPI_Accumulate(&value, 1, MPI_LONG, next, at, 1, MPI_LONG, MPI_REPLACE, w->win),
              "accumulate");
        tl_ok(MPI_Get_accumulate(NULL, 0, MPI_LONG, &got[i], 1, MPI_LONG, next, at, 1, MPI_LONG,
                                 MPI_NO_OP, w->win), "get_accumulate");
    }
    tl_ok(MPI_Win_unlock(next, w->win), "MPI_Win_unlock");
    for (int i = 0; i < 10; i++)
        tl_true(got[i] == i + 1, "with %s, read %d gave %ld", when, i, got[i]);
    tl_barrier();
}

/* In whatever order they are shown. */
static int same_set(const struct tl_win *w, const char *wanted)
{
    char room[MPI_MAX_INFO_VAL + 1];

    shown(w, "accumulate_ordering", room);
    for (int k = 0; k < 4; k++)
        if ((strstr(room, relation[k]) == NULL) != (strstr(wanted, relation[k]) == NULL))
            return 0;
    return strlen(room) == strlen(wanted);
}

static void orderings(int flavor)
{
    struct tl_win w;
    char text[32], canonical[32];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    for (unsigned subset = 0; subset < 16; subset++)
        for (int backwards = 0; backwards < 2; backwards++) {
            subset_text(subset, 0, canonical);
            subset_text(subset, backwards, text);
            set(&w, "accumulate_ordering", text);
            tl_true(same_set(&w, canonical), "%s is not shown", text);
            if (subset == 15 || subset == 9)
                check_order(&w, text);
        }
    tl_win_close(&w);
    for (unsigned subset = 0; subset < 16; subset += 5) {
        subset_text(subset, 1, text);
        subset_text(subset, 0, canonical);
        if (!open_with(&w, flavor, "accumulate_ordering", text))
            return;
        shows(&w, "accumulate_ordering", canonical, "at creation");
        tl_win_close(&w);
    }
}

/* ---- no_locks ---- */

static void no_locks(int flavor)
{
    struct tl_win w;

    void (*with_it)(struct tl_win *w) = flavor == TL_SHARED ? works : refuses_locks;

    if (!open_with(&w, flavor, "no_locks", "true"))
        return;
    with_it(&w);
    tl_barrier();
    set(&w, "no_locks", "false");
    works(&w);
    tl_barrier();
    set(&w, "no_locks", "true");
    with_it(&w);
    tl_barrier();
    set(&w, "no_locks", "false");
    tl_win_close(&w);
}

/* ---- hints that the members do not all give, or do not fulfil ---- */

static void given_by_one(int flavor)
{
    static const struct value one_only[] = {
        {"no_locks", "true", "false"},       {"accumulate_ordering", "none", FULL_ORDER},
        {"accumulate_ops", "same_op", "same_op_no_op"}, {"same_size", "true", "false"},
        {"same_disp_unit", "true", "false"}, {"loco_accumulate", "bulk", "element"},
    };
    struct tl_win w;

    for (size_t i = 0; i < COUNT(one_only); i++) {
        if (!open_with(&w, flavor, tl_rank() == 0 ? one_only[i].key : NULL, one_only[i].given))
            return;
        shows(&w, one_only[i].key, one_only[i].shown, "given by rank 0 alone");
        works(&w);
        tl_win_close(&w);
    }
}

static void untrue(int flavor)
{
    struct tl_win w;
    MPI_Info info = info_of("same_size", "true");
    int there;

    MPI_Info_set(info, "same_disp_unit", "true");
    there = tl_win_open_info(&w, flavor, MPI_COMM_WORLD, 64 * (size_t)(tl_rank() + 1),
                             tl_rank() % 2 == 0 ? 8 : 4, info);
    MPI_Info_free(&info);
    if (!there)
        return;
    shows(&w, "same_size", "false", "with sizes that differ");
    shows(&w, "same_disp_unit", "false", "with units that differ");
    for (int later = 0; later < 2; later++) {
        shows_or_none(&w, "same_size", "false", "with sizes that differ");
        shows_or_none(&w, "same_disp_unit", "false", "with units that differ");
        works(&w);
        tl_barrier();
        set(&w, "same_size", "true");
        set(&w, "same_disp_unit", "true");
    }
    tl_win_close(&w);
}

/* The layout is fixed when the memory is made, and is that of all or none. */
static int follows(struct tl_win *w)
{
    MPI_Aint size;
    int unit;
    unsigned char *first, *second;

    MPI_Win_shared_query(w->win, 0, &size, &unit, &first);
    MPI_Win_shared_query(w->win, 1, &size, &unit, &second);
    return second == first + 64;
}

static void noncontiguous(int flavor)
{
    struct tl_win w;

    if (!open_with(&w, flavor, "alloc_shared_noncontig", "true"))
        return;
    shows(&w, "alloc_shared_noncontig", "true", "given at creation");
    tl_true(((size_t)w.base & 4095) == 0, "a part of its own is not aligned to a page");
    works(&w);
    tl_win_close(&w);
    if (!open_with(&w, flavor, tl_rank() == 0 ? "alloc_shared_noncontig" : NULL, "true"))
        return;
    shows(&w, "alloc_shared_noncontig", "false", "given by rank 0 alone");
    tl_true(follows(&w), "the parts do not follow each other");
    set(&w, "alloc_shared_noncontig", "true"); /* too late */
    tl_true(follows(&w), "the parts do not follow each other any more");
    works(&w);
    tl_win_close(&w);
}

/* ---- alignment ---- */

#define ALIGNMENT "mpi_minimum_memory_alignment"

static void aligned(int flavor, const char *value, size_t bytes, const char *in_force)
{
    MPI_Info info = info_of(ALIGNMENT, value);
    struct tl_win w;
    int there;

    if (flavor == TL_SHARED)
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    there = tl_win_open_info(&w, flavor, MPI_COMM_WORLD, bytes, 1, info);
    MPI_Info_free(&info);
    if (!there)
        return;
    tl_true((size_t)w.base % (size_t)atol(in_force) == 0, "%s: at %p", value, (void *)w.base);
    shows(&w, ALIGNMENT, in_force, value);
    works(&w);
    tl_win_close(&w);
}

static void alignment(int flavor)
{
    static const char *const value[] = {"1024", "65536", "2097152"};
    struct tl_win before;

    /* Without it the next might be aligned by luck. */
    if (!tl_win_open(&before, flavor, MPI_COMM_WORLD, 200, 1))
        return;
    for (size_t i = 0; i < COUNT(value); i++)
        for (size_t bytes = 72; bytes < 1000000; bytes *= 101)
            aligned(flavor, value[i], bytes, value[i]);
    aligned(flavor, "8", 72, "64");
    aligned(flavor, "100", 72, "64");
    aligned(flavor, "-4096", 72, "64");
    aligned(flavor, "4096 bytes", 72, "64");
    tl_win_close(&before);
}

/* ---- info objects ---- */

static void null_infos(int flavor)
{
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 8))
        return;
    tl_class(MPI_Win_set_info(w.win, MPI_INFO_NULL), "MPI_Win_set_info of MPI_INFO_NULL",
             MPI_ERR_INFO);
    set(&w, NULL, NULL);
    set(&w, "a_key_that_nobody_knows", "value");
    shows(&w, "no_locks", "false", "after empty and unknown infos");
    works(&w);
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"defaults", defaults, TL_ALL, 1, 30},
        {"at_creation", at_creation, TL_ALL, 1, 60},
        {"bad_at_creation", bad_at_creation, TL_ALL, 1, 60},
        {"set_later", set_later, TL_ALL, 1, 30},
        {"bad_later", bad_later, TL_ALL, 1, 30},
        {"orderings", orderings, TL_ALL, 1, 60},
        {"no_locks", no_locks, TL_ALL, 1, 30},
        {"given_by_one", given_by_one, TL_ALL, 2, 30},
        {"untrue", untrue, TL_ALLOCATE | TL_SHARED | TL_CREATE, 2, 30},
        {"noncontiguous", noncontiguous, TL_SHARED, 2, 30},
        {"alignment", alignment, TL_ALLOCATE | TL_SHARED, 1, 60},
        {"null_infos", null_infos, TL_ALL, 1, 30},
    };

    return tl_main(argc, argv, "hints", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
