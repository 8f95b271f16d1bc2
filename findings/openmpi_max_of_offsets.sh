#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_MAX and MPI_MIN compare MPI_OFFSET as MPI_Offset, a signed type (file offsets), and
# MPI_UNSIGNED_LONG as unsigned.
# Seen, whichever op component does it: in Open MPI 4.1.4 both are compared the other way round, in 5.0.7
# MPI_OFFSET still is, so that the maximum of -5 and 7 is -5. MPI_AINT and MPI_COUNT are right in both.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile max <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Offset o[2] = {-5, 7};
    MPI_Aint a[2] = {-5, 7};
    MPI_Count c[2] = {-5, 7};
    unsigned long u[2] = {~0ul - 3, 5};

    MPI_Init(&argc, &argv);
    MPI_Reduce_local(&o[0], &o[1], 1, MPI_OFFSET, MPI_MAX);
    MPI_Reduce_local(&a[0], &a[1], 1, MPI_AINT, MPI_MAX);
    MPI_Reduce_local(&c[0], &c[1], 1, MPI_COUNT, MPI_MAX);
    MPI_Reduce_local(&u[0], &u[1], 1, MPI_UNSIGNED_LONG, MPI_MAX);
    printf("offset %lld, aint %lld, count %lld, unsigned long %lu\n", (long long)o[1],
           (long long)a[1], (long long)c[1], u[1]);
    MPI_Finalize();
    return 0;
}
C
    for op in '' '--mca op ^avx'; do
        still "$1" "$(inside "mpirun $op -np 1 ./max")"
    done
}

install bookworm $bookworm_mpi
look "offset -5, aint 7, count 7, unsigned long 5"
install trixie $trixie_mpi
look "offset -5, aint 7, count 7, unsigned long 18446744073709551612"
exit $changed
