/* SPDX-License-Identifier: BSD-3-Clause */

/* forgotten late|never: channels that were made and used by all. late: all are through with them,
 * then rank 0 destroys its own and closes its runtime while the others still have theirs, and
 * destroy them later. never: nobody destroys them before closing, which is a mistake, that is
 * named. */

#include <loco/loco.h>
#include <loco/mpi.h>
#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

#define STORES 40

int main(int argc, char **argv)
{
    const loco_kvstore_options_t o = { .value_bytes = 64, .capacity = 100000 };
    loco_kvstore_t *store[STORES];
    loco_runtime_t *rt;
    char name[16], value[64] = "x";
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MUST(argc == 2);
    MUST(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt) == LOCO_OK);
    for (int i = 0; i < STORES; i++) {
        snprintf(name, sizeof name, "store%d", i);
        MUST(loco_kvstore_create(rt, NULL, name, loco_everyone(rt), &o, &store[i]) == LOCO_OK);
    }
    MUST(loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK);
    for (int i = 0; i < STORES; i++)
        MUST(loco_kvstore_insert(store[i], (uint64_t)rank, value, sizeof value) == LOCO_OK);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(rank == 0 ? 0 : 200000);
    for (int i = 0; i < STORES && strcmp(argv[1], "late") == 0; i++)
        loco_kvstore_destroy(store[i]);
    loco_runtime_close_mpi(rt);
    MPI_Finalize();
    return 0;
}
