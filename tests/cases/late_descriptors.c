/* SPDX-License-Identifier: BSD-3-Clause */

/* late_descriptors all|one: a program that has opened files until K descriptors are left, at each
 * rank or at the last one, makes a window and uses it, for K from 0 on. MPI_Win_allocate fails at
 * all ranks or at none; what it made serves, or says that it cannot. It never hangs.
 *
 * late_descriptors none: it makes one window, with the descriptors that it was started with.
 *
 * late_descriptors K: with K left at each rank, its first window fails at all or serves. */

#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "case.h"

#define LIMIT 256
#define LEFT_MOST 24

static int rank, n;

static void leave(int k, int *files, int *nfiles)
{
    int fd;

    *nfiles = 0;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        files[(*nfiles)++] = fd;
    while (k-- > 0 && *nfiles > 0)
        close(files[--*nfiles]);
}

/* Every rank's status is the same: 1 where all succeed. */
static int all_alike(int ok)
{
    int least, most;

    MPI_Allreduce(&ok, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&ok, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MUST(least == most);
    return ok;
}

/* 1: made, used and right. 0: an error. */
static int use_window(void)
{
    const int next = (rank + 1) % n, before = (rank + n - 1) % n;
    long *base, value = rank;
    int ok;
    MPI_Win win;

    if (!all_alike(MPI_Win_allocate(100 << 20, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win)
                   == MPI_SUCCESS))
        return 0;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    ok = MPI_Win_fence(0, win) == MPI_SUCCESS;
    ok = MPI_Win_fence(MPI_MODE_NOSUCCEED, win) == MPI_SUCCESS && ok;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
    ok = ok && MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win) == MPI_SUCCESS;
    ok = MPI_Win_unlock(next, win) == MPI_SUCCESS && ok;
    MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MUST(!ok || base[0] == before);
    MPI_Win_free(&win);
    return ok;
}

int main(int argc, char **argv)
{
    const struct rlimit limit = { LIMIT, LIMIT };
    int files[LIMIT], nfiles, ok = 0, first, most = LEFT_MOST;
    bool full;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MUST(argc == 2);
    first = atoi(argv[1]);
    full = strcmp(argv[1], "all") == 0 || first > 0
           || (strcmp(argv[1], "one") == 0 && rank == n - 1);
    if (first > 0 || strcmp(argv[1], "none") == 0)
        most = first;
    /* Open MPI's own connections are made before. */
    for (int i = 0; i < n; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + i) % n, 0, files, 1, MPI_INT, (rank + n - i) % n, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    (void)all_alike(1);
    if (full)
        MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int k = first; k <= most && !ok; k++) {
        nfiles = 0;
        if (full)
            leave(k, files, &nfiles);
        ok = use_window();
        while (nfiles > 0)
            close(files[--nfiles]);
        if (rank == 0)
            printf("%d%s left: %s\n", k, most > 0 ? "" : " or more", ok ? "fine" : "an error");
    }
    MUST(ok || first > 0);
    MPI_Finalize();
    return 0;
}
