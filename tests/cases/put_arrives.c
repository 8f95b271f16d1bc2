/* SPDX-License-Identifier: BSD-3-Clause */

/* put_arrives create|allocate sync|fetch|probe local|local_all|flush: each rank puts a word into its
 * neighbour's memory, calls MPI_Win_flush_local, MPI_Win_flush_local_all or MPI_Win_flush, and polls
 * its own word. A flush_local is a synchronization call: what was begun before it gets on its way
 * (MPI 3.1, 11.7.3), and no rank calls anything else. */

#include <mpi.h>
#include <string.h>

#include "case.h"

static int words[16];

static int arrived(const char *how, int rank, int *own, MPI_Win win)
{
    int got = 0, flag;

    if (strcmp(how, "fetch") == 0) {
        MPI_Fetch_and_op(NULL, &got, MPI_INT, rank, 0, MPI_NO_OP, win);
        MPI_Win_flush_local(rank, win);
        return got;
    }
    if (strcmp(how, "probe") == 0)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Win_sync(win);
    return __atomic_load_n(own, __ATOMIC_ACQUIRE);
}

int main(int argc, char **argv)
{
    int rank, n, next, one = 1, got = 0, *own = words;
    double end;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MUST(argc == 4);
    next = (rank + 1) % n;
    if (strcmp(argv[1], "create") == 0)
        MPI_Win_create(words, sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    *own = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Put(&one, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    if (strcmp(argv[3], "local") == 0)
        MPI_Win_flush_local(next, win);
    else if (strcmp(argv[3], "local_all") == 0)
        MPI_Win_flush_local_all(win);
    else
        MPI_Win_flush(next, win);
    end = case_now() + case_limit(8);
    while (!got && case_now() < end)
        got = arrived(argv[2], rank, own, win);
    MUST(got);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
