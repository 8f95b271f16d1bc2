#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_Accumulate does what MPI_Reduce_local does with the same operands, and does not depend
# on whether MPI_Win_create or MPI_Win_allocate made the window.
# Seen, Open MPI 4.1.4 and 5.0.7 as set by default: on a window of MPI_Win_create MPI_LOR and
# MPI_LAND of integers leave the target as it was, and MPI_MAX compares MPI_UNSIGNED as signed. In
# 4.1.4 MPI_SUM of a float complex adds its 8 bytes as one integer, so that 2i + 1i is infinite. All
# are right on a window of MPI_Win_allocate.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile ops <<'C'
#include <complex.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct { float _Complex sum; int either, both; unsigned most; } target, *mine = &target;
    float _Complex i = I;
    unsigned most = 4000000000u;
    int two = 2, rank;
    MPI_Win w;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        MPI_Win_allocate(sizeof target, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &w);
    else
        MPI_Win_create(mine, sizeof target, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &w);
    mine->sum = 2 * I; mine->either = 0; mine->both = 4; mine->most = 7;
    MPI_Win_fence(0, w);
    if (rank == 1) {
        MPI_Accumulate(&i, 1, MPI_C_FLOAT_COMPLEX, 0, 0, 1, MPI_C_FLOAT_COMPLEX, MPI_SUM, w);
        MPI_Accumulate(&two, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_LOR, w);
        MPI_Accumulate(&two, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_LAND, w);
        MPI_Accumulate(&most, 1, MPI_UNSIGNED, 0, 4, 1, MPI_UNSIGNED, MPI_MAX, w);
    }
    MPI_Win_fence(0, w);
    if (rank == 0)
        printf("0 or 2: %d, 4 and 2: %d, max(7, 4000000000): %u, 2i + 1i: %gi\n", mine->either,
               mine->both, mine->most, cimagf(mine->sum));
    MPI_Win_free(&w);
    MPI_Finalize();
    return 0;
}
C
    still "$1" "$(inside 'mpirun --oversubscribe -np 2 ./ops 2>/dev/null')"
    still "0 or 2: 1, 4 and 2: 1, max(7, 4000000000): 4000000000, 2i + 1i: 3i" \
        "$(inside 'mpirun --oversubscribe -np 2 ./ops allocate 2>/dev/null')"
}

install bookworm $bookworm_mpi
look "0 or 2: 0, 4 and 2: 4, max(7, 4000000000): 7, 2i + 1i: infi"
install trixie $trixie_mpi
look "0 or 2: 0, 4 and 2: 4, max(7, 4000000000): 7, 2i + 1i: 3i"
exit $changed
