/* SPDX-License-Identifier: BSD-3-Clause */

/* protected_window allocate|shared|apart none|read: each rank fills its memory, then each takes
 * from all the memory that it has a pointer to (its own; of a shared window its neighbour's) the
 * right to write, or to read as well, and hides it from children. Then the window is freed. The
 * next ones have memory as new: every rank and its children write all they can reach. */

#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"

#define BYTES (1L << 20)
#define PAGE 4096
#define ROUNDS 3

static int rank, n;

static char *make(const char *kind, MPI_Win *win)
{
    char *base;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", strcmp(kind, "apart") == 0 ? "true" : "false");
    if (strcmp(kind, "allocate") == 0)
        MPI_Win_allocate(BYTES, 1, info, MPI_COMM_WORLD, &base, win);
    else
        MPI_Win_allocate_shared(BYTES, 1, info, MPI_COMM_WORLD, &base, win);
    MPI_Info_free(&info);
    return base;
}

/* The neighbour's part as it is mapped here; one's own where the window is not shared. */
static char *reach(const char *kind, char *base, MPI_Win win)
{
    MPI_Aint bytes;
    int unit;

    if (strcmp(kind, "allocate") != 0)
        MPI_Win_shared_query(win, (rank + 1) % n, &bytes, &unit, &base);
    return base;
}

/* As programs do it: the pages that lie inside. */
static void protect(char *memory, int protection)
{
    uintptr_t from = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
    uintptr_t to = ((uintptr_t)memory + BYTES) / PAGE * PAGE;

    MUST(mprotect((void *)from, to - from, protection) == 0);
    MUST(madvise((void *)from, to - from, MADV_DONTFORK) == 0);
}

static void child_writes(char *memory)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        memset(memory, 3, BYTES);
        _exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    char *mine, *theirs;
    int protection;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MUST(argc == 3);
    protection = strcmp(argv[2], "read") == 0 ? PROT_READ : PROT_NONE;
    for (int round = 0; round < ROUNDS; round++) {
        mine = make(argv[1], &win);
        theirs = reach(argv[1], mine, win);
        memset(mine, 1, BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(theirs, 2, BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        child_writes(mine);
        child_writes(theirs);
        MPI_Barrier(MPI_COMM_WORLD);
        protect(mine, protection);
        if (theirs != mine)
            protect(theirs, protection);
        MPI_Win_free(&win);
    }
    MPI_Finalize();
    return 0;
}
