#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: MPI_Win_attach takes as many pieces of memory as a rank allocates: MPI knows no limit, and
# MPI_ERR_RMA_ATTACH is for memory that cannot be registered. One piece for each node of a list is
# an example of the MPI standard itself.
# Seen, Open MPI 4.1.4 and 5.0.7 as set by default: the 65th piece that is attached at the same time
# is MPI_ERR_RMA_ATTACH, however small they are. (osc_rdma_max_attach is 64.)
set -eu
cd "$(dirname "$0")/.."
. findings/packages

look() {
    compile attach <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
enum { PIECES = 200, BYTES = 64, APART = 8192 };
int main(int argc, char **argv)
{
    char *memory = malloc(PIECES * APART), said[MPI_MAX_ERROR_STRING];
    int rank, length, attached, error = MPI_SUCCESS, class;
    MPI_Win w;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w);
    MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
    for (attached = 0; attached < PIECES; attached++) {
        error = MPI_Win_attach(w, memory + attached * APART, BYTES);
        if (error != MPI_SUCCESS) break;
    }
    MPI_Error_class(error, &class);
    if (rank == 0)
        printf("attached: %d of %d%s\n", attached, PIECES,
               class == MPI_ERR_RMA_ATTACH ? ", then MPI_ERR_RMA_ATTACH" : "");
    MPI_Win_free(&w);
    MPI_Finalize();
    return 0;
}
C
    still "$1" "$(inside 'mpirun --oversubscribe -np 2 ./attach 2>/dev/null')"
    still "attached: 200 of 200" \
        "$(inside 'export OMPI_MCA_osc_rdma_max_attach=200
                   mpirun --oversubscribe -np 2 ./attach 2>/dev/null')"
}

install bookworm $bookworm_mpi
look "attached: 64 of 200, then MPI_ERR_RMA_ATTACH"
install trixie $trixie_mpi
look "attached: 64 of 200, then MPI_ERR_RMA_ATTACH"
exit $changed
