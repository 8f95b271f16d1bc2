/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process costs that does nothing: CPU time, and how often it is woken, while it sleeps for
 * some seconds outside of MPI, after it has made a window and put to each of the others.
 *
 *   mpirun -np N idle_cpu [--seconds S]
 *
 * A line for each rank; the last one is the worst.
 */
#include <getopt.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct cost {
    double percent;     /* of a processor */
    double wakeups;     /* a second */
};

static void touch_all(MPI_Win win, int size)
{
    uint64_t word = 1;

    MPI_Win_lock_all(0, win);
    for (int target = 0; target < size; target++) {
        MPI_Put(&word, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T, win);
        MPI_Win_flush(target, win);
    }
    MPI_Win_unlock_all(win);
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Threads that block count as woken each time. */
static double times_woken(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_nvcsw;
}

static struct cost sleep_and_count(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    double cpu = cpu_seconds(), woken = times_woken();

    nanosleep(&t, NULL);
    return (struct cost){ .percent = (cpu_seconds() - cpu) / seconds * 100,
                          .wakeups = (times_woken() - woken) / seconds };
}

static void print(const struct cost *costs, int size)
{
    struct cost worst = { 0, 0 };

    for (int i = 0; i < size; i++) {
        printf("{\"rank\": %d, \"percent\": %.3f, \"wakeups_per_second\": %.1f}\n", i,
               costs[i].percent, costs[i].wakeups);
        if (costs[i].percent > worst.percent)
            worst = costs[i];
    }
    printf("{\"ranks\": %d, \"worst_percent\": %.3f, \"its_wakeups_per_second\": %.1f}\n", size,
           worst.percent, worst.wakeups);
}

static int run(double seconds)
{
    int rank, size;
    uint64_t *memory;
    struct cost mine, *all;
    struct timespec settle = { .tv_sec = 1 };
    MPI_Win win;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    all = calloc((size_t)size, sizeof(*all));
    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_allocate(sizeof(*memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    touch_all(win, size);
    MPI_Barrier(MPI_COMM_WORLD);
    nanosleep(&settle, NULL);
    mine = sleep_and_count(seconds);
    MPI_Gather(&mine, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        print(all, size);
    MPI_Win_free(&win);
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "seconds", required_argument, NULL, 's' }, { NULL, 0, NULL, 0 },
    };
    double seconds = 5;
    int option, status = 0;

    MPI_Init(&argc, &argv);
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 's')
            seconds = atof(optarg);
        else
            status = 2;
    }
    if (status == 0 && (optind != argc || seconds <= 0 || seconds > 1000)) {
        fprintf(stderr, "usage: mpirun -np N idle_cpu [--seconds S]\n");
        status = 2;
    }
    if (status == 0)
        status = run(seconds);
    MPI_Finalize();
    return status;
}
