/* SPDX-License-Identifier: BSD-3-Clause */

/* names misspelt|libraries|newcomer: what keeps a native program waiting for the members of its
 * channels. */

#include <mpi.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/mpi.h>

#include "case.h"

#define SECONDS(n) ((int64_t)(1e9 * case_limit(n)))

static int make(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                loco_region_t **region)
{
    return loco_region_create(rt, NULL, name, group, 64, region);
}

/* Ranks do not agree on a name. The log says which name lacks whom, and what is there instead; the
 * row of `table` looks for it. */
static void misspelt(loco_runtime_t *rt, int rank)
{
    loco_region_t *region;

    MUST(make(rt, rank == 0 ? "tabel" : "table", loco_everyone(rt), &region) == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, SECONDS(4)) == LOCO_ERR_TIMEOUT);
    MPI_Barrier(MPI_COMM_WORLD);
    loco_region_destroy(region);
}

/* Library A makes its channel early on rank 0, and late on the others: after they have used that of
 * library B, for which nobody need wait for A. */
static void libraries(loco_runtime_t *rt, int rank)
{
    loco_region_t *a = NULL;
    loco_barrier_t *b;

    if (rank == 0)
        MUST(make(rt, "libA.region", loco_everyone(rt), &a) == LOCO_OK);
    MUST(loco_barrier_create(rt, "libB", "barrier", loco_everyone(rt), &b) == LOCO_OK);
    MUST(loco_runtime_wait_ready_below(rt, "libB", SECONDS(20)) == LOCO_OK);
    MUST(loco_barrier_wait(b) == LOCO_OK);
    if (rank != 0)
        MUST(make(rt, "libA.region", loco_everyone(rt), &a) == LOCO_OK);
    MUST(loco_runtime_wait_ready_below(rt, "libA", SECONDS(20)) == LOCO_OK);
    MUST(loco_barrier_wait(b) == LOCO_OK);
    loco_barrier_destroy(b);
    loco_region_destroy(a);
}

/* The last rank makes a channel of all ranks, of a name that is one of the others'. It is refused,
 * and they go on. */
static void newcomer(loco_runtime_t *rt, int rank)
{
    const loco_group_t *everyone = loco_everyone(rt);
    int last = loco_group_size(everyone) - 1, others[] = { 0, 1 };
    loco_group_t *members;
    loco_region_t *region;

    MUST(last == 2);
    MUST(loco_group_subset(everyone, last, others, &members) == LOCO_OK);
    MUST(make(rt, "club", rank == last ? everyone : members, &region) == LOCO_OK);
    MUST(loco_runtime_wait_ready(rt, SECONDS(20)) == (rank == last ? LOCO_ERR_MISMATCH : LOCO_OK));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != last) {
        MUST(loco_runtime_wait_ready(rt, SECONDS(20)) == LOCO_OK);
        MUST(loco_region_write64(region, 1 - rank, 0, 7) == LOCO_OK);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    loco_region_destroy(region);
    loco_group_destroy(members);
}

int main(int argc, char **argv)
{
    loco_runtime_t *rt;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MUST(argc == 2);
    MUST(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt) == LOCO_OK);
    if (strcmp(argv[1], "misspelt") == 0)
        misspelt(rt, rank);
    else if (strcmp(argv[1], "libraries") == 0)
        libraries(rt, rank);
    else
        newcomer(rt, rank);
    loco_runtime_close_mpi(rt);
    MPI_Finalize();
    return 0;
}
