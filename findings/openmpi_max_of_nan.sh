#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: whether MPI_MAX of a number and NaN is NaN is open, but it does not depend on the CPU that the
# reduction runs on: the ranks of one job may have different ones.
# Seen, Open MPI 4.1.4 and 5.0.7: the op component `avx` takes the second operand (inoutbuf) when one of
# them is NaN, as the CPU's instruction does; the base component takes the first one. So the same call gives
# NaN on a CPU with AVX and 1 on one without.
set -eu
cd "$(dirname "$0")/.."
. findings/packages
grep -qw avx2 /proc/cpuinfo || { echo "not looked at: this CPU has no AVX2"; exit 69; }

look() {
    compile nan <<'C'
#include <math.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    double in[64], inout[64];

    MPI_Init(&argc, &argv);
    for (int i = 0; i < 64; i++) { in[i] = 1; inout[i] = NAN; }
    MPI_Reduce_local(in, inout, 64, MPI_DOUBLE, MPI_MAX);
    printf("max(1, NaN) is %s, ", isnan(inout[0]) ? "NaN" : "1");
    for (int i = 0; i < 64; i++) { in[i] = NAN; inout[i] = 1; }
    MPI_Reduce_local(in, inout, 64, MPI_DOUBLE, MPI_MAX);
    printf("max(NaN, 1) is %s\n", isnan(inout[0]) ? "NaN" : "1");
    MPI_Finalize();
    return 0;
}
C
    still "max(1, NaN) is NaN, max(NaN, 1) is 1" "$(inside 'mpirun -np 1 ./nan')"
    still "max(1, NaN) is 1, max(NaN, 1) is NaN" "$(inside 'mpirun --mca op ^avx -np 1 ./nan')"
}

install bookworm $bookworm_mpi
look
install trixie $trixie_mpi
look
exit $changed
