/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many accumulates of a single element a second a component does, with a flush after each so
 * many. Plain MPI, any component; bench/bfs_one_sided runs it.
 *
 * All ranks at once add to elements at random places of the next rank's part; with 2 ranks, each
 * adds to the other's. In the end each rank compares the sum of its elements with what must have
 * come.
 */
#include "config.h"

#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bfs_graph.h"

static const char help[] =
    "Usage: mpirun -np N single_accumulates [OPTION]...\n"
    "Adds single elements at random places of the next rank's window, and prints a line of\n"
    "JSON.\n"
    "\n"
    "  --flavor NAME   allocate, create or dynamic (create)\n"
    "  --count N       accumulates of each rank (50000)\n"
    "  --flush N       a flush after so many (1000)\n"
    "  --help          this text\n";

enum { ELEMENTS = 4096 };

struct bench {
    const char *flavor;
    int count, flush;
    int rank, size, next;
    long *memory;               /* of the program */
    long *base;                 /* this rank's part */
    MPI_Aint there;             /* where the next rank's part begins, in units of `unit` bytes */
    MPI_Aint unit;
    MPI_Win win;
};

static void must(int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "single_accumulates: %s: %s\n", call, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void make_dynamic(struct bench *b)
{
    MPI_Aint mine, *all = calloc((size_t)b->size, sizeof *all);

    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    must(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &b->win), "MPI_Win_create_dynamic");
    MPI_Win_set_errhandler(b->win, MPI_ERRORS_RETURN);
    must(MPI_Win_attach(b->win, b->memory, ELEMENTS * sizeof(long)), "MPI_Win_attach");
    MPI_Get_address(b->memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    b->there = all[b->next];
    b->unit = sizeof(long);
    free(all);
}

static void make_window(struct bench *b)
{
    b->memory = calloc(ELEMENTS, sizeof(long));
    if (b->memory == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    b->base = b->memory;
    b->unit = 1;
    if (b->flavor[0] == 'd') {
        make_dynamic(b);
    } else if (b->flavor[0] == 'c') {
        must(MPI_Win_create(b->memory, ELEMENTS * sizeof(long), sizeof(long), MPI_INFO_NULL,
                            MPI_COMM_WORLD, &b->win), "MPI_Win_create");
    } else {
        must(MPI_Win_allocate(ELEMENTS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                              &b->base, &b->win), "MPI_Win_allocate");
        memset(b->base, 0, ELEMENTS * sizeof(long));
    }
    MPI_Win_set_errhandler(b->win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Adds 1 at `count` places. */
static void add(struct bench *b, int count)
{
    static const long one = 1;

    for (int i = 0; i < count; i++) {
        MPI_Aint place = (MPI_Aint)(bfs_mix((uint64_t)i * 1000 + (uint64_t)b->rank) % ELEMENTS);

        must(MPI_Accumulate(&one, 1, MPI_LONG, b->next, MPI_Aint_add(b->there, place * b->unit), 1,
                            MPI_LONG, MPI_SUM, b->win), "MPI_Accumulate");
        if ((i + 1) % b->flush == 0 || i + 1 == count)
            must(MPI_Win_flush(b->next, b->win), "MPI_Win_flush");
    }
}

/* Returns whether this rank's elements hold what the previous rank has added. */
static int is_right(struct bench *b, int added)
{
    long sum = 0;

    must(MPI_Win_lock(MPI_LOCK_SHARED, b->rank, 0, b->win), "MPI_Win_lock");
    for (int i = 0; i < ELEMENTS; i++)
        sum += b->base[i];
    must(MPI_Win_unlock(b->rank, b->win), "MPI_Win_unlock");
    if (sum != added)
        fprintf(stderr, "single_accumulates: wrong data at rank %d: %ld instead of %d\n", b->rank,
                sum, added);
    return sum == added;
}

static int measure(struct bench *b)
{
    int warm = b->count < 1000 ? b->count : 1000, right, all_right;
    double seconds;

    make_window(b);
    must(MPI_Win_lock_all(0, b->win), "MPI_Win_lock_all");
    add(b, warm);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime();
    add(b, b->count);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime() - seconds;
    must(MPI_Win_unlock_all(b->win), "MPI_Win_unlock_all");
    MPI_Barrier(MPI_COMM_WORLD);
    right = is_right(b, warm + b->count);
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (b->rank == 0)
        printf("{\"flavor\": \"%s\", \"ranks\": %d, \"accumulates\": %d, \"seconds\": %.6f, "
               "\"rate\": %.0f, \"check\": \"%s\"}\n", b->flavor, b->size, b->count, seconds,
               (double)b->count * b->size / seconds, all_right ? "passed" : "failed");
    if (b->flavor[0] == 'd')
        must(MPI_Win_detach(b->win, b->memory), "MPI_Win_detach");
    must(MPI_Win_free(&b->win), "MPI_Win_free");
    free(b->memory);
    return all_right ? 0 : 1;
}

/* -1: go on; else the exit status. */
static int options(struct bench *b, int argc, char **argv)
{
    static const struct option names[] = {
        { "flavor", required_argument, NULL, 'f' }, { "count", required_argument, NULL, 'c' },
        { "flush", required_argument, NULL, 'n' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 }
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 'f': b->flavor = optarg; break;
        case 'c': b->count = atoi(optarg); break;
        case 'n': b->flush = atoi(optarg); break;
        case 'h': fputs(help, stdout); return 0;
        default: fputs(help, stderr); return 2;
        }
    if (optind == argc && b->count > 0 && b->flush > 0
        && (strcmp(b->flavor, "allocate") == 0 || strcmp(b->flavor, "create") == 0
            || strcmp(b->flavor, "dynamic") == 0))
        return -1;
    fprintf(stderr, "single_accumulates: --count and --flush take numbers above 0, --flavor "
            "allocate, create or dynamic\n%s", help);
    return 2;
}

int main(int argc, char **argv)
{
    struct bench b = { .flavor = "create", .count = 50000, .flush = 1000 };
    int status = options(&b, argc, argv);

    if (status >= 0)
        return status;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.next = (b.rank + 1) % b.size;
    status = measure(&b);
    MPI_Finalize();
    return status;
}
