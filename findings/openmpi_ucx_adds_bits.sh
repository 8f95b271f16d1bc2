#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_Fetch_and_op with MPI_SUM adds in the type that it is given, whichever component the
# window has; or the call returns an error.
# Seen, component osc/ucx of Open MPI 4.1.4: 1.0 + 1.0 is about 9e307 with MPI_DOUBLE and about
# 1.7e38 with MPI_FLOAT, for it adds the bits as integers. MPI_SHORT and MPI_LONG_DOUBLE are not
# added at all. Each call returns MPI_SUCCESS. Debian's settings leave osc/ucx out unless it is
# named; Open MPI's own do not. 5.0.7 adds right.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile add <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static MPI_Win window;
static char *memory;
static int rank;
static int add(void *one, void *sum, int bytes, MPI_Datatype type)
{
    char old[16];
    int error;

    if (rank == 1) memcpy(memory, one, bytes);
    MPI_Win_fence(0, window);
    error = rank ? 0 : MPI_Fetch_and_op(one, old, type, 1, 0, MPI_SUM, window);
    MPI_Win_fence(0, window);
    memcpy(sum, memory, bytes);
    return error;
}
int main(int argc, char **argv)
{
    double d = 1;
    float f = 1;
    short s = 1;
    long l = 1;
    long double ld = 1;
    int errors;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    errors = add(&l, &l, sizeof l, MPI_LONG) + add(&d, &d, sizeof d, MPI_DOUBLE)
             + add(&f, &f, sizeof f, MPI_FLOAT) + add(&s, &s, sizeof s, MPI_SHORT)
             + add(&ld, &ld, sizeof ld, MPI_LONG_DOUBLE);
    if (rank == 1)
        printf("1 + 1: long %ld, double %g, float %g, short %d, long double %Lg; %d errors\n",
               l, d, f, s, ld, errors);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
C
    inside "mpirun --oversubscribe $1 -np 2 ./add 2>/dev/null"
}
right="1 + 1: long 2, double 2, float 2, short 2, long double 2; 0 errors"

install bookworm $bookworm_mpi
still "1 + 1: long 2, double 8.98847e+307, float 1.70141e+38, short 1, long double 1; 0 errors" \
    "$(look '--mca osc ucx' | grep '1 + 1')"
still "$right" "$(look '--mca osc rdma')"
install trixie $trixie_mpi
still "$right" \
    "$(look '--mca osc ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any')"
exit $changed
