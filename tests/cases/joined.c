/* SPDX-License-Identifier: BSD-3-Clause */

/* joined accept|connect: two jobs that were started apart meet by a name that one publishes, merge,
 * and make windows over all ranks. Says "joined: fine" at the end and then waits to be ended: in
 * Open MPI 4.1 what was joined cannot be disconnected, so it cannot be finalized either. */

#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

#define SERVICE "loco-cases"

static MPI_Comm accept_others(int rank)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm others;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_global_scope", "true");
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(SERVICE, info, port);
    }
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others);
    MPI_Info_free(&info);
    return others;
}

static MPI_Comm connect_to_others(int rank)
{
    char port[MPI_MAX_PORT_NAME] = "";
    double end = case_now() + case_limit(20);
    MPI_Comm others;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (rank == 0 && MPI_Lookup_name(SERVICE, MPI_INFO_NULL, port) != MPI_SUCCESS) {
        MUST(case_now() < end);
        usleep(100000);
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others);
    return others;
}

/* Each rank puts its number everywhere and adds to a word of rank 0. */
static void use_window(MPI_Comm all, MPI_Win win, const long *base)
{
    long one = 1, old, value;
    int rank, n;

    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &n);
    value = 100 + rank;
    MPI_Win_fence(0, win);
    for (int to = 0; to < n; to++)
        MPI_Put(&value, 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int from = 0; from < n; from++)
        MUST(base[1 + from] == 100 + from);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 100; i++)
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(all);
    MUST(rank != 0 || base[0] == 100 * n);
}

static void use_windows(MPI_Comm all)
{
    long own[64] = { 0 }, *base;
    MPI_Win win;

    MPI_Win_create(own, sizeof own, sizeof own[0], MPI_INFO_NULL, all, &win);
    use_window(all, win, own);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof own, sizeof own[0], MPI_INFO_NULL, all, &base, &win);
    use_window(all, win, base);
    MPI_Win_free(&win);
    MPI_Win_allocate_shared(sizeof own, sizeof own[0], MPI_INFO_NULL, all, &base, &win);
    use_window(all, win, base);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Comm others, all;
    int rank, accepts;

    MPI_Init(&argc, &argv);
    MUST(argc == 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    accepts = strcmp(argv[1], "accept") == 0;
    others = accepts ? accept_others(rank) : connect_to_others(rank);
    MPI_Intercomm_merge(others, !accepts, &all);
    use_windows(all);
    MPI_Barrier(all);
    if (rank == 0) {
        printf("joined: fine\n");
        fflush(stdout);
    }
    for (;;)
        pause();
}
