/* SPDX-License-Identifier: BSD-3-Clause */

/* children N: a process that spawns N children, one after the other, meets each in windows of the
 * kinds ALLOCATE, CREATE and SHARED, and parts from it. In the end it holds what it held after the
 * first five. MPI itself keeps two maps of PMIx and some 200 KiB for each child that it has
 * spawned, with windows or without. */

#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <sys/types.h>

#include "held.h"

#define FIRST 5
#define BYTES 100000
#define CHILD_KIB 260           /* of MPI's own, each */
#define RSS_KIB 1024
#define PAUSE 100000            /* us */

static void use(MPI_Win win, MPI_Comm both)
{
    int rank;
    char byte = 1;

    MPI_Comm_rank(both, &rank);
    MPI_Win_fence(0, win);
    MPI_Put(&byte, 1, MPI_CHAR, 1 - rank, (MPI_Aint)rank, 1, MPI_CHAR, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* Until it has ended, and mpirun has taken note of it: mpirun of Open MPI 4.1 may hang in the next
 * spawn where one child ends as the next begins. */
static void wait_for_end(pid_t child)
{
    while (kill(child, 0) == 0)
        usleep(1000);
    usleep(PAUSE);
}

static void meet(MPI_Comm other, int high)
{
    static char memory[BYTES];
    int own = (int)getpid(), pid[2];
    MPI_Comm both;
    MPI_Win win;
    char *base;

    MPI_Intercomm_merge(other, high, &both);
    MPI_Allgather(&own, 1, MPI_INT, pid, 1, MPI_INT, both);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, both, &base, &win);
    use(win, both);
    MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, both, &win);
    use(win, both);
    MPI_Win_allocate_shared(BYTES, 1, MPI_INFO_NULL, both, &base, &win);
    use(win, both);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&other);
    if (high == 0)
        wait_for_end(pid[1]);
}

static void spawn(char *program)
{
    MPI_Comm child;

    printf("spawning\n");
    fflush(stdout);
    MUST(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                        MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
    printf("spawned\n");
    fflush(stdout);
    meet(child, 0);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        meet(parent, 1);
    } else {
        int n = argc > 1 ? atoi(argv[1]) : 10;
        struct held before, now;
        double begin = case_now();

        for (int i = 0; i < FIRST; i++)
            spawn(argv[0]);
        before = held_now();
        held_tell("after the first", &before);
        for (int i = 1; i <= n; i++) {
            spawn(argv[0]);
            now = held_now();
            if (i % 100 == 0)
                held_tell("after 100 more", &now);
        }
        held_becomes(&before, RSS_KIB + CHILD_KIB * n, &now);
        held_tell("after all", &now);
        printf("%d children in %.0f s\n", FIRST + n, case_now() - begin);
        MUST(held_is_as(&before, &now, RSS_KIB + CHILD_KIB * n));
    }
    MPI_Finalize();
    return 0;
}
