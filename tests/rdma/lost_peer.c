/* SPDX-License-Identifier: BSD-3-Clause */

/* An MPI program that loses a rank which runs on another machine. Rank 1 ends all at once, or cuts
 * its machine off; rank 0 must see an error within a bounded time, whether it puts all the while or
 * waits for the other in a fence.
 *
 *   lost_peer killed|cut_off puts|waits
 *
 * Rank 0 prints "lost after S s" and ends with status 0 if the time was bounded. */

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1024, BEFORE_S = 2, LIMIT_S = 40 };

/* What rank 0 waits for was not noticed. */
static void hangs(int number)
{
    static const char text[] = "rank 0 hangs: its peer is gone, and it has not noticed\n";

    (void)number;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

static void end(const char *how)
{
    sleep(BEFORE_S);
    if (strcmp(how, "killed") == 0)
        raise(SIGKILL);
    if (system("ip link set eth0 down") != 0)
        abort();
    for (;;)
        pause();
}

static int put(MPI_Win win)
{
    long word = 1;
    int rc = MPI_Put(&word, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);

    return rc == MPI_SUCCESS ? MPI_Win_flush(1, win) : rc;
}

static int lose(MPI_Win win, int waits)
{
    double begin = MPI_Wtime();
    int rc = MPI_SUCCESS;

    alarm(LIMIT_S);
    if (waits)
        rc = MPI_Win_fence(0, win);
    while (rc == MPI_SUCCESS && !waits)
        rc = put(win);
    printf("lost after %.1f s\n", MPI_Wtime() - begin);
    fflush(stdout);
    return rc != MPI_SUCCESS && MPI_Wtime() - begin > BEFORE_S - 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    MPI_Win win;
    long *base;
    int rank, waits = argc == 3 && strcmp(argv[2], "waits") == 0;

    if (argc != 3)
        return 2;
    signal(SIGALRM, hangs);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                     &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    if (!waits)
        MPI_Win_lock_all(0, win);
    if (rank == 0 && !waits)
        put(win);
    if (rank != 0)
        end(argv[1]);
    _exit(lose(win, waits));    /* MPI has nobody left to finalize with */
}
