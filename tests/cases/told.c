/* SPDX-License-Identifier: BSD-3-Clause */

/* told name|kinds A B: a native program makes a mistake, the call fails, and the library says on
 * stderr what is wrong (the row of `table` looks there). */

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

/* Rank 0 makes a window of another kind than the others, all in one call. */
static void kinds(loco_runtime_t *rt, int first, int other)
{
    static char memory[64];
    int rank = loco_group_rank(loco_everyone(rt));
    struct loco_window_spec spec = { .kind = rank == 0 ? first : other, .size = sizeof memory };
    struct loco_exchange exchange;
    loco_window_t *win;

    if (spec.kind == LOCO_WINDOW_CREATE)
        spec.base = memory;
    MUST(loco_exchange_mpi(MPI_COMM_WORLD, &exchange) == LOCO_OK);
    MUST(loco_window_create(rt, &exchange, &spec, &win) == LOCO_ERR_MISMATCH);
    /* All came to the same exchanges: the next one meets them all. */
    spec.kind = LOCO_WINDOW_ALLOCATE;
    MUST(loco_window_create(rt, &exchange, &spec, &win) == LOCO_OK);
    MUST(loco_window_destroy(win) == LOCO_OK);
}

int main(int argc, char **argv)
{
    loco_runtime_t *rt;

    MPI_Init(&argc, &argv);
    MUST(argc >= 2);
    MUST(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt) == LOCO_OK);
    if (strcmp(argv[1], "name") == 0)
        same_name(rt);
    if (strcmp(argv[1], "kinds") == 0 && argc == 4)
        kinds(rt, atoi(argv[2]), atoi(argv[3]));
    loco_runtime_close_mpi(rt);
    MPI_Finalize();
    return 0;
}
