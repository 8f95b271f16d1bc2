/* SPDX-License-Identifier: BSD-3-Clause */

/* many [ROUNDS]: an MPI program of many ranks on several machines. Every rank puts into the windows
 * of all others, gets back what it put, counts there, and takes an exclusive lock of each in turn;
 * what all have written is right after each round. It says what descriptors and memory a process
 * has then, and what each peer on another machine has added to them. */

#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 64, COUNTERS = 2 };      /* words of each rank's; counters at the end of a window */

static int rank, size, wrong;
static long *base;
static MPI_Win win;

static long value_of(int from, int to, int round, int i)
{
    return (((long)from * 4096 + to) * 4096 + round) * PIECE + i;
}

static void is_right(int good, const char *what)
{
    if (good)
        return;
    if (wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/* All to all, in an order of each rank's own, so that not all are at the same one. */
static void puts_and_gets(int round)
{
    long (*piece)[PIECE] = malloc((size_t)size * sizeof *piece);
    long (*back)[PIECE] = malloc((size_t)size * sizeof *back), one = 1;

    MPI_Win_lock_all(0, win);
    for (int k = 0; k < size; k++) {
        int to = (rank + k) % size;

        for (int i = 0; i < PIECE; i++)
            piece[to][i] = value_of(rank, to, round, i);
        MPI_Put(piece[to], PIECE, MPI_LONG, to, (MPI_Aint)rank * PIECE, PIECE, MPI_LONG, win);
        MPI_Accumulate(&one, 1, MPI_LONG, to, (MPI_Aint)size * PIECE, 1, MPI_LONG, MPI_SUM, win);
    }
    MPI_Win_flush_all(win);
    for (int k = 0; k < size; k++) {
        int to = (rank + size - k) % size;

        MPI_Get(back[to], PIECE, MPI_LONG, to, (MPI_Aint)rank * PIECE, PIECE, MPI_LONG, win);
    }
    MPI_Win_unlock_all(win);
    for (int to = 0; to < size; to++)
        is_right(memcmp(piece[to], back[to], sizeof piece[to]) == 0,
                 "what it got is not what it put");
    free(piece);
    free(back);
}

/* A counter that is read and written, not atomically. */
static void locks(void)
{
    MPI_Aint at = (MPI_Aint)size * PIECE + 1;

    for (int k = 0; k < size; k++) {
        int to = (rank + k) % size;
        long count = 0;

        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&count, 1, MPI_LONG, to, at, 1, MPI_LONG, win);
        MPI_Win_flush(to, win);
        count++;
        MPI_Put(&count, 1, MPI_LONG, to, at, 1, MPI_LONG, win);
        MPI_Win_unlock(to, win);
    }
}

static void check(int round)
{
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < PIECE; i++)
            is_right(base[from * PIECE + i] == value_of(from, rank, round, i),
                     "what another rank put is not there");
    is_right(base[size * PIECE] == (long)size * (round + 1), "accumulates are lost");
    is_right(base[size * PIECE + 1] == (long)size * (round + 1), "two have had a lock");
    MPI_Win_unlock(rank, win);
}

static void one_round(int round)
{
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    puts_and_gets(round);
    locks();
    MPI_Barrier(MPI_COMM_WORLD);
    check(round);
    MPI_Barrier(MPI_COMM_WORLD);
}

static long entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    long n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static long kib_of(const char *what)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, what, strlen(what)) == 0)
            kib = atol(line + strlen(what));
    if (f != NULL)
        fclose(f);
    return kib;
}

enum { FILES, THREADS, RESIDENT, ADDRESSES, HELD };

/* What this process has; that of who has most is told. */
static void tell(const char *when, long held[HELD])
{
    long most[HELD];

    held[FILES] = entries_of("/proc/self/fd");
    held[THREADS] = entries_of("/proc/self/task");
    held[RESIDENT] = kib_of("VmRSS:");
    held[ADDRESSES] = kib_of("VmSize:");
    MPI_Reduce(held, most, HELD, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: at most %ld descriptors, %ld threads, %ld KiB, %ld KiB of addresses a "
               "process\n", when, most[FILES], most[THREADS], most[RESIDENT], most[ADDRESSES]);
}

/* Between two moments, for each peer on another machine; of who has most. */
static void tell_costs(const char *what, const long from[HELD], const long to[HELD])
{
    double costs[HELD], most[HELD];
    MPI_Comm near;
    int nnear;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &nnear);
    MPI_Comm_free(&near);
    for (int i = 0; i < HELD; i++)
        costs[i] = (double)(to[i] - from[i]) / (size > nnear ? size - nnear : 1);
    MPI_Reduce(costs, most, HELD, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s, for each of %d peers on other machines: at most %.2f descriptors, %.1f KiB, "
               "%.1f KiB of addresses\n", what, size - nnear, most[FILES], most[RESIDENT],
               most[ADDRESSES]);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10, all_wrong;
    long before[HELD], made[HELD], after[HELD];
    double begin;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* Open MPI's own connections are made first. */
    for (int k = 1; k < size; k++)
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + k) % size, 0, &(int){ 0 }, 1, MPI_INT,
                     (rank + size - k) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    tell("before windows", before);
    begin = MPI_Wtime();
    MPI_Win_allocate(((MPI_Aint)size * PIECE + COUNTERS) * (MPI_Aint)sizeof *base, sizeof *base,
                     MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, ((size_t)size * PIECE + COUNTERS) * sizeof *base);
    MPI_Barrier(MPI_COMM_WORLD);
    tell("with a window", made);
    for (int round = 0; round < rounds; round++)
        one_round(round);
    tell("after all to all", after);
    tell_costs("the window", before, made);
    tell_costs("its use", made, after);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %d rounds of %d ranks in %.1f s\n", all_wrong == 0 ? "right" : "WRONG", rounds,
               size, MPI_Wtime() - begin);
    MPI_Win_free(&win);
    MPI_Finalize();
    return all_wrong != 0;
}
