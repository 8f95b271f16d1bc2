#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_Win_shared_query tells the size that the other rank gave to MPI_Win_allocate_shared, so
# size / sizeof(int) is how many integers it has. Where its memory lies is all that
# alloc_shared_noncontig changes.
# Seen, Open MPI 4.1.4 and 5.0.7: with alloc_shared_noncontig it tells the size of whole pages, 4096
# for 12 bytes, also for a rank's own memory. The attribute MPI_WIN_SIZE stays 12.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile query <<'C'
#include <mpi.h>
#include <stdio.h>
static void look(const char *apart, int rank)
{
    MPI_Aint size, *own;
    MPI_Info info;
    MPI_Win w;
    void *at;
    int unit, set;

    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", apart);
    MPI_Win_allocate_shared(3 * sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &at, &w);
    MPI_Win_shared_query(w, 1, &size, &unit, &at);
    MPI_Win_get_attr(w, MPI_WIN_SIZE, &own, &set);
    if (rank == 0)
        printf("noncontig %s: rank 1 has %d integers, rank 0 %d\n", apart, (int)(size / unit),
               (int)(*own / unit));
    MPI_Win_free(&w);
}
int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    look("false", rank);
    look("true", rank);
    MPI_Finalize();
    return 0;
}
C
    still "$1" "$(inside 'mpirun --oversubscribe -np 2 ./query 2>/dev/null')"
}

install bookworm $bookworm_mpi
look "noncontig false: rank 1 has 3 integers, rank 0 3
noncontig true: rank 1 has 1024 integers, rank 0 3"
install trixie $trixie_mpi
look "noncontig false: rank 1 has 3 integers, rank 0 3
noncontig true: rank 1 has 1024 integers, rank 0 3"
exit $changed
