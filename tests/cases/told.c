/* SPDX-License-Identifier: BSD-3-Clause */

/* told name: a native program makes a mistake, the call fails, and the library says on stderr what
 * is wrong (the row of `table` looks there). */

#include <mpi.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/mpi.h>

#include "case.h"

/* Two channels of one name in one process. */
static void same_name(loco_runtime_t *rt)
{
    loco_barrier_t *barrier, *other;

    MUST(loco_barrier_create(rt, NULL, "twice", loco_everyone(rt), &barrier) == LOCO_OK);
    MUST(loco_barrier_create(rt, NULL, "twice", loco_everyone(rt), &other) == LOCO_ERR_NAME);
    MUST(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
    MUST(loco_barrier_wait(barrier) == LOCO_OK);
    loco_barrier_destroy(barrier);
}

int main(int argc, char **argv)
{
    loco_runtime_t *rt;

    MPI_Init(&argc, &argv);
    MUST(argc == 2);
    MUST(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt) == LOCO_OK);
    if (strcmp(argv[1], "name") == 0)
        same_name(rt);
    loco_runtime_close_mpi(rt);
    MPI_Finalize();
    return 0;
}
