/* SPDX-License-Identifier: BSD-3-Clause */

/* apart: ranks that count as different nodes, without a fabric between, cannot open a runtime. The
 * call says so; no channel is waited for in vain. */

#include <mpi.h>

#include <loco/loco.h>
#include <loco/mpi.h>

#include "case.h"

int main(int argc, char **argv)
{
    loco_runtime_t *rt = NULL;

    MPI_Init(&argc, &argv);
    MUST(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt) == LOCO_ERR_UNSUPPORTED);
    MUST(rt == NULL);
    MUST(loco_runtime_open_mpi(MPI_COMM_SELF, &rt) == LOCO_OK);
    loco_runtime_close_mpi(rt);
    MPI_Finalize();
    return 0;
}
