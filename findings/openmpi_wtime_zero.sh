#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_Wtime is the clock of the machine: seconds since it was started or since 1970. Ranks of
# one machine read the same clock, and srand(MPI_Wtime()) seeds a new sequence in each run.
# Seen, Open MPI 4.1.4: the first call of a process returns exactly 0, whenever it comes; the later
# ones count from there. So times of two ranks on one machine are apart by as much as their first
# calls were. 5.0.7 counts from MPI_Init on.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile clock <<'C'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    double first, now, other;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) sleep(2);
    first = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    now = MPI_Wtime();
    if (rank == 1) MPI_Send(&now, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    else {
        MPI_Recv(&other, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the first is %s; after a barrier two ranks are %s a second apart\n",
               first == 0 ? "0" : "not 0", now - other > 1 ? "more than" : "less than");
    }
    MPI_Finalize();
    return 0;
}
C
    still "$1" "$(inside 'mpirun --oversubscribe -np 2 ./clock 2>/dev/null')"
}

install bookworm $bookworm_mpi
look "the first is 0; after a barrier two ranks are more than a second apart"
install trixie $trixie_mpi
look "the first is not 0; after a barrier two ranks are less than a second apart"
exit $changed
