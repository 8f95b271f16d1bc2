/* SPDX-License-Identifier: BSD-3-Clause */
/* kinds: makes a window of each kind over each process alone, and rank 0 says which of them Open
 * MPI serves: "create made", "create refused". Such windows are what its own components refuse.
 * Plain MPI, so that it is compiled with what a user has. */
#include <mpi.h>
#include <stdio.h>

static long memory[8];

static int make(int kind, MPI_Win *win)
{
    void *base;

    switch (kind) {
    case 0: return MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, win);
    case 1: return MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, win);
    case 2: return MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, win);
    default: return MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, win);
    }
}

int main(int argc, char **argv)
{
    static const char *const name[] = { "create", "allocate", "shared", "dynamic" };
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int kind = 0; kind < 4; kind++) {
        MPI_Win win;
        int made = make(kind, &win) == MPI_SUCCESS;

        if (made)
            MPI_Win_free(&win);
        if (rank == 0)
            printf("%s %s\n", name[kind], made ? "made" : "refused");
    }
    MPI_Finalize();
    return 0;
}
