/* SPDX-License-Identifier: BSD-3-Clause */

/* guarded_window read|none|all: each rank makes a window of its own memory, of which a part may be
 * read only, or not be accessed, or all may be read only. What is allowed is done, what is not is
 * an error at who asks for it, and no rank waits for ever. A network's device may refuse memory of
 * two kinds: then nobody gets the window. */

#include <mpi.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "case.h"

#define BYTES ((size_t)1 << 20)
#define GUARDED (BYTES / 4)         /* where a guarded part begins, and how long it is */
#define FREE (BYTES / 2 + 4096)

static int next;

/* Put a word there, and end the epoch: whether both went well. */
static bool put_arrives(int value, size_t at, MPI_Win win)
{
    int put = MPI_Put(&value, 1, MPI_INT, next, (MPI_Aint)at, 1, MPI_INT, win);
    int fence = MPI_Win_fence(0, win);

    return put == MPI_SUCCESS && fence == MPI_SUCCESS;
}

static int get(size_t at, MPI_Win win)
{
    int value = -1;

    MUST(MPI_Get(&value, 1, MPI_INT, next, (MPI_Aint)at, 1, MPI_INT, win) == MPI_SUCCESS);
    MUST(MPI_Win_fence(0, win) == MPI_SUCCESS);
    return value;
}

static void use(const char *kind, char *base, MPI_Win win)
{
    bool all = strcmp(kind, "all") == 0, readable = strcmp(kind, "none") != 0;

    MUST(MPI_Win_fence(0, win) == MPI_SUCCESS);
    for (int round = 1; round <= 3; round++) {
        int value = 0;

        if (!all) {
            MUST(put_arrives(round, FREE, win));
            memcpy(&value, base + FREE, sizeof value);
            MUST(value == round);
            MUST(get(FREE, win) == round);
        }
        MUST(!put_arrives(round, GUARDED + 64, win));
        if (readable)
            MUST(get(GUARDED + 64, win) == 0x01010101);
    }
    MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, win) == MPI_SUCCESS);
    MUST(MPI_Win_free(&win) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    bool none = argc > 1 && strcmp(argv[1], "none") == 0;
    int rank, n, made, least;
    char *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MUST(argc == 2 && base != MAP_FAILED);
    next = (rank + 1) % n;
    memset(base, 1, BYTES);
    MUST(mprotect(base + (all ? 0 : GUARDED), all ? BYTES : GUARDED,
                  none ? PROT_NONE : PROT_READ) == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    made = MPI_Win_create(base, (MPI_Aint)BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win)
           == MPI_SUCCESS;
    MPI_Allreduce(&made, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MUST(made == least);
    if (made) {
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        use(argv[1], base, win);
    }
    if (rank == 0)
        printf("%s\n", made ? "served" : "refused");
    MPI_Finalize();
    return 0;
}
