#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_REAL16, which Debian's Open MPI has, is the type of Fortran's REAL(16), so MPI_SUM of 1
# and 3 is 4; or else the call returns MPI_ERR_OP.
# Seen: it is computed as C's long double, of which 16 bytes are the size but not the format. Of
# numbers like 1 and 3 each operation gives the second operand, whatever the operation, and returns
# MPI_SUCCESS. gcc's __float128 has the format of gfortran's REAL(16).
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile quad <<'C'
#include <mpi.h>
#include <stdio.h>
static int errors;
static double of(double x, double y, MPI_Op op)
{
    __float128 a = x, b = y;

    errors += MPI_Reduce_local(&a, &b, 1, MPI_REAL16, op) != MPI_SUCCESS;
    return (double)b;
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    printf("1 + 3 is %g, 5 * 2 is %g, max(5, 2) is %g, min(2, 5) is %g; ", of(1, 3, MPI_SUM),
           of(5, 2, MPI_PROD), of(5, 2, MPI_MAX), of(2, 5, MPI_MIN));
    printf("%d errors\n", errors);
    MPI_Finalize();
    return 0;
}
C
    still "1 + 3 is 3, 5 * 2 is 2, max(5, 2) is 2, min(2, 5) is 5; 0 errors" \
        "$(inside 'mpirun -np 1 ./quad')"
}

install bookworm $bookworm_mpi
look
install trixie $trixie_mpi
look
exit $changed
