/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates of one element and of many, to the same window: each in phases of its own, and in
 * turns. Plain MPI, any component; bench/acc_phases_compare runs it.
 *
 * Rank 0 adds to the memory of rank 1, with a flush behind each sum, while the others wait in a
 * barrier. A line of the output is what was measured and the microseconds of one call of it with
 * its flush, the median over the repetitions:
 *
 *   single_first   sums of one element of 8 bytes, 1,000 of them, on a new window
 *   vector         then 1,000 sums of 128 elements
 *   single         then 1,000 sums of one element; these two again and again
 *   turns          one of each, and again: of the two together
 *   cycle          an exclusive lock, get, put, unlock of 128 elements: for comparison
 *
 * In the end the elements must be what the sums make them.
 */
#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np 2 acc_phases [OPTION]...\n"
    "Measures accumulates of one element and of 128 in phases and in turns.\n"
    "\n"
    "  --calls N     of a phase (1000)\n"
    "  --repeat N    phases of each kind (20)\n"
    "  --create      a window on memory of the program\n"
    "  --help        this text\n";

enum { LONG = 128 };

struct bench {
    int calls, repeat;
    bool create;
    int rank;
    MPI_Win win;
    long *base;
    long operand[LONG], copy[LONG];
    long singles, vectors;              /* done */
    double *times;
};

static void add(struct bench *b, int n)
{
    MPI_Accumulate(b->operand, n, MPI_LONG, 1, 0, n, MPI_LONG, MPI_SUM, b->win);
    MPI_Win_flush(1, b->win);
    b->singles += n == 1;
    b->vectors += n != 1;
}

static void single(struct bench *b)
{
    add(b, 1);
}

static void vector(struct bench *b)
{
    add(b, LONG);
}

static void turn(struct bench *b)
{
    add(b, 1);
    add(b, LONG);
}

/* Outside of the epoch that the others use. */
static void cycle(struct bench *b)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, b->win);
    MPI_Get(b->copy, LONG, MPI_LONG, 1, 0, LONG, MPI_LONG, b->win);
    MPI_Win_flush(1, b->win);
    MPI_Put(b->copy, LONG, MPI_LONG, 1, 0, LONG, MPI_LONG, b->win);
    MPI_Win_unlock(1, b->win);
}

static double phase(struct bench *b, void (*call)(struct bench *b))
{
    double start = MPI_Wtime();

    for (int i = 0; i < b->calls; i++)
        call(b);
    return (MPI_Wtime() - start) / b->calls * 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void say(struct bench *b, const char *what, double *times)
{
    qsort(times, (size_t)b->repeat, sizeof *times, compare);
    printf("%s\t%.4f\n", what, times[b->repeat / 2]);
}

static void measure(struct bench *b)
{
    double *vectors = b->times, *singles = b->times + b->repeat, *others = singles + b->repeat;

    MPI_Win_lock_all(0, b->win);
    printf("single_first\t%.4f\n", phase(b, single));
    for (int i = 0; i < b->repeat; i++) {
        vectors[i] = phase(b, vector);
        singles[i] = phase(b, single);
    }
    say(b, "vector", vectors);
    say(b, "single", singles);
    for (int i = 0; i < b->repeat; i++)
        others[i] = phase(b, turn);
    say(b, "turns", others);
    MPI_Win_unlock_all(b->win);
    for (int i = 0; i < b->repeat; i++)
        others[i] = phase(b, cycle);
    say(b, "cycle", others);
}

static void make_window(struct bench *b)
{
    MPI_Aint bytes = sizeof(long) * LONG;

    if (b->create) {
        b->base = malloc((size_t)bytes);
        MPI_Win_create(b->base, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &b->win);
    } else {
        MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &b->base, &b->win);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->rank, 0, b->win);
    memset(b->base, 0, (size_t)bytes);
    MPI_Win_unlock(b->rank, b->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 1 looks; all hear of it. */
static bool is_right(struct bench *b)
{
    long done[2] = { b->singles, b->vectors };
    int wrong = 0;

    MPI_Bcast(done, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, b->rank, 0, b->win);
    for (int k = 0; b->rank == 1 && k < LONG; k++)
        wrong += b->base[k] != done[1] + (k == 0 ? done[0] : 0);
    MPI_Win_unlock(b->rank, b->win);
    MPI_Bcast(&wrong, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (wrong != 0 && b->rank == 1)
        fprintf(stderr, "acc_phases: %d elements are wrong\n", wrong);
    return wrong == 0;
}

static bool take_options(struct bench *b, int argc, char **argv)
{
    static const struct option options[] = {
        { "calls", required_argument, NULL, 'c' }, { "repeat", required_argument, NULL, 'r' },
        { "create", no_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' }, { 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c': b->calls = atoi(optarg); break;
        case 'r': b->repeat = atoi(optarg); break;
        case 'm': b->create = true; break;
        default:
            if (b->rank == 0)
                fputs(help, option == 'h' ? stdout : stderr);
            MPI_Finalize();
            exit(option == 'h' ? 0 : 2);
        }
    }
    return optind == argc && b->calls > 0 && b->repeat > 0;
}

int main(int argc, char **argv)
{
    static struct bench b = { .calls = 1000, .repeat = 20 };
    int size;
    bool right;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!take_options(&b, argc, argv) || size < 2) {
        if (b.rank == 0)
            fputs("acc_phases: at least 2 ranks, and numbers of 1 and more; see --help\n", stderr);
        MPI_Finalize();
        return 2;
    }
    for (int k = 0; k < LONG; k++)
        b.operand[k] = 1;
    b.times = calloc(3 * (size_t)b.repeat, sizeof *b.times);
    if (b.times == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    make_window(&b);
    if (b.rank == 0)
        measure(&b);
    MPI_Barrier(MPI_COMM_WORLD);
    right = is_right(&b);
    MPI_Win_free(&b.win);
    if (b.create)
        free(b.base);
    free(b.times);
    MPI_Finalize();
    return right ? 0 : 1;
}
