/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many windows: --many N open at once (2000), --churn N made and freed in a row (5000), without
 * growth of memory or of open files.
 */
#include "testlib.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    int c, n = 0;

    if (f == NULL)
        return 0;
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (d == NULL)
        return 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static int make(int flavor, MPI_Comm comm, void *memory, void **base, MPI_Win *win)
{
    switch (flavor) {
    case TL_ALLOCATE:
        return MPI_Win_allocate(64, 8, MPI_INFO_NULL, comm, base, win);
    case TL_SHARED:
        return MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, comm, base, win);
    case TL_CREATE:
        *base = memory;
        return MPI_Win_create(memory, 64, 8, MPI_INFO_NULL, comm, win);
    default:
        return MPI_Win_create_dynamic(MPI_INFO_NULL, comm, win);
    }
}

/* Agreed by all ranks, so that none goes on alone. */
static int made_everywhere(int rc)
{
    int mine = rc == MPI_SUCCESS, all;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static void add_in_each(const MPI_Win *win, int count, int flavor)
{
    int next = (tl_rank() + 1) % tl_size();

    for (int i = 0; i < count; i++) {
        long add = i + 1;
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win[i]), "MPI_Win_lock");
        if (flavor != TL_DYNAMIC)
            tl_ok(MPI_Accumulate(&add, 1, MPI_LONG, next, 1, 1, MPI_LONG, MPI_SUM, win[i]), "acc");
        tl_ok(MPI_Win_unlock(next, win[i]), "MPI_Win_unlock");
    }
}

static void refused(int flavor, int at)
{
    if (at == 0 && tl_may_refuse(flavor))
        tl_skip("%s window refused", tl_flavor_name(flavor));
    else
        tl_fail("window %d refused", at);
}

static void many(int flavor)
{
    int wanted = (int)tl_option("--many", 2000), count = 0;
    MPI_Win *win = calloc((size_t)wanted, sizeof *win);
    long **base = calloc((size_t)wanted, sizeof *base);
    char *memory = calloc((size_t)wanted, 64);
    double start = MPI_Wtime(), made;

    for (; count < wanted; count++) {
        void *p = NULL;
        int rc = make(flavor, MPI_COMM_WORLD, memory + 64 * (size_t)count, &p, &win[count]);
        if (!made_everywhere(rc)) {
            refused(flavor, count);
            break;
        }
        MPI_Win_set_errhandler(win[count], MPI_ERRORS_RETURN);
        base[count] = p;
        if (p != NULL)
            memset(p, 0, 64);
    }
    made = MPI_Wtime();
    tl_barrier();
    add_in_each(win, count, flavor);
    tl_barrier();
    for (int i = 0; i < count && flavor != TL_DYNAMIC; i++)
        tl_eq(base[i][1], i + 1, "what was added in a window of many");
    tl_note("%d windows: made in %.3f s, %ld KiB resident, %d files, %d maps", count, made - start,
            resident_kib(), open_files(), lines_of("/proc/self/maps"));
    for (int i = 0; i < count; i++) /* the odd ones backwards, then the even ones */
        if (i % 2 == 0)
            tl_ok(MPI_Win_free(&win[count - 1 - i]), "MPI_Win_free");
    for (int i = 0; i < count; i++)
        if (win[i] != MPI_WIN_NULL)
            tl_ok(MPI_Win_free(&win[i]), "MPI_Win_free");
    free(win);
    free(base);
    free(memory);
}

static int churn_once(int flavor, char *memory, int i)
{
    MPI_Win win;
    void *base = NULL;
    int rc = make(flavor, MPI_COMM_WORLD, memory, &base, &win);

    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (i % 8 == 0)
        add_in_each(&win, 1, flavor);
    return MPI_Win_free(&win);
}

static void churn(int flavor)
{
    int turns = (int)tl_option("--churn", 5000), warm = 500;
    char memory[64] = {0};
    long before, after;
    int files_before, files_after;

    if (!made_everywhere(churn_once(flavor, memory, 0))) {
        refused(flavor, 0);
        return;
    }
    for (int i = 0; i < warm; i++)
        tl_ok(churn_once(flavor, memory, i), "a window in a row");
    before = resident_kib();
    files_before = open_files();
    for (int i = 0; i < turns; i++)
        tl_ok(churn_once(flavor, memory, i), "a window in a row");
    after = resident_kib();
    files_after = open_files();
    tl_note("%d windows in a row: resident %ld to %ld KiB, %d to %d files", turns, before, after,
            files_before, files_after);
    tl_true(after - before < 1024 + turns / 64, "memory grew from %ld to %ld KiB", before, after);
    /* Some are opened on need, once. */
    tl_true(files_after <= files_before + 4, "open files grew from %d to %d", files_before,
            files_after);
}

/* Large windows, one after the other: what is freed is used again. */
static void large_churn(int flavor)
{
    long before = 0, after;

    for (int i = 0; i < 40; i++) {
        struct tl_win w;
        if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, (size_t)(4 + i % 3) << 20, 1))
            return;
        tl_win_close(&w);
        if (i == 10)
            before = resident_kib();
    }
    after = resident_kib();
    tl_note("40 windows of 4 to 6 MiB in a row: resident %ld to %ld KiB", before, after);
    tl_true(after - before < 16 * 1024, "memory grew from %ld to %ld KiB", before, after);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"many", many, TL_ALL, 1, 300},
        {"churn", churn, TL_ALL, 1, 600},
        {"large_churn", large_churn, TL_ALL, 1, 60},
    };

    return tl_main(argc, argv, "many", MPI_THREAD_SINGLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
