#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_SUM of unsigned char wraps around as C does, so 200 + 100 is 44 in each place of a vector.
# Seen, Open MPI 4.1.4 and 5.0.7 on x86-64 with AVX: the op component `avx` uses saturating additions for
# integers of 8 and 16 bits, but for the last elements, which do not fill a vector of 4 or more: those wrap.
# So one reduction gives 255 in some places and 44 in others, and which ones depends on its length. With
# `--mca op ^avx` all places are 44. Nothing is said in the documentation of either release.
set -eu
cd "$(dirname "$0")/.."
. findings/packages
grep -qw avx2 /proc/cpuinfo || { echo "not looked at: this CPU has no AVX2"; exit 69; }

look() {
    compile sums <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    unsigned char a[102], b[102];
    int saturated = 0, wrapped = 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < 102; i++) { a[i] = 200; b[i] = 100; }
    MPI_Reduce_local(a, b, 102, MPI_UNSIGNED_CHAR, MPI_SUM);
    for (int i = 0; i < 102; i++) { saturated += b[i] == 255; wrapped += b[i] == 44; }
    printf("200 + 100: %s at the first of 102 places, %s at the last; all told for: %s\n",
           b[0] == 255 ? "255" : "44", b[101] == 255 ? "255" : "44",
           saturated + wrapped == 102 ? "yes" : "no");
    MPI_Finalize();
    return 0;
}
C
    still "200 + 100: 255 at the first of 102 places, 44 at the last; all told for: yes" "$(inside 'mpirun -np 1 ./sums')"
    still "200 + 100: 44 at the first of 102 places, 44 at the last; all told for: yes" \
        "$(inside 'mpirun --mca op ^avx -np 1 ./sums')"
}

install bookworm $bookworm_mpi
look
install trixie $trixie_mpi
look
exit $changed
