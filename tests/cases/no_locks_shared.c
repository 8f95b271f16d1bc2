/* SPDX-License-Identifier: BSD-3-Clause */

/* A shared window made with the hint no_locks, then locked for the epoch that MPI_Win_sync needs:
 * the hint is ignored there. */

#include <mpi.h>

#include "case.h"

int main(int argc, char **argv)
{
    int rank, n, unit, *own, *next;
    MPI_Aint size;
    MPI_Info info;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Win_allocate_shared(sizeof *own, sizeof *own, info, MPI_COMM_WORLD, &own, &win);
    MPI_Info_free(&info);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_shared_query(win, (rank + 1) % n, &size, &unit, &next);
    MUST(MPI_Win_lock_all(MPI_MODE_NOCHECK, win) == MPI_SUCCESS);
    *next = rank + 1;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    MUST(*own == (rank + n - 1) % n + 1);
    MUST(MPI_Win_unlock_all(win) == MPI_SUCCESS);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % n, 0, win) == MPI_SUCCESS);
    MUST(MPI_Win_unlock((rank + 1) % n, win) == MPI_SUCCESS);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
