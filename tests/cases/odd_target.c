/* SPDX-License-Identifier: BSD-3-Clause */

/* odd_target read_only|hole|secret|everything [threads]: windows over memory that cannot be touched
 * in some way. Each rank puts into, gets from and accumulates in its neighbour's, which does the
 * same meanwhile or waits. What the memory does not allow is an error at the origin, and nothing
 * happens to the target:
 *
 *   read_only   gets work, puts and accumulates are errors, and the memory stays as it is
 *   hole        a mapping beyond the end of its file: all are errors
 *   secret      memory that the system copies for its owner alone (memfd_secret): all work
 *   everything  the whole address space as one window: what is there works, what is not is an
 * error */

#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "case.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum { WORDS = 2048, LONG = 600, TIMES = 60 };

static int of_file(int fd, long **memory)
{
    *memory = mmap(NULL, sizeof(long) * WORDS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return *memory != MAP_FAILED;
}

/* 0: this machine has no such memory. */
static int memory_of(const char *kind, long **memory)
{
    const size_t len = sizeof(long) * WORDS;
    int fd;

    if (strcmp(kind, "hole") == 0)
        return of_file(memfd_create("empty", 0), memory);
    if (strcmp(kind, "secret") == 0) {
        fd = (int)syscall(SYS_memfd_secret, 0);
        return fd >= 0 && ftruncate(fd, (off_t)len) == 0 && of_file(fd, memory);
    }
    *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *memory != MAP_FAILED;
}

enum op { GET, PUT, ADD, OPS };

/* The first error of an operation and the flush that ends it. */
static int touch(enum op op, long *word, int n, int target, MPI_Aint at, MPI_Win win)
{
    int rc, flushed;

    if (op == GET)
        rc = MPI_Get(word, n, MPI_LONG, target, at, n, MPI_LONG, win);
    else if (op == PUT)
        rc = MPI_Put(word, n, MPI_LONG, target, at, n, MPI_LONG, win);
    else
        rc = MPI_Accumulate(word, n, MPI_LONG, target, at, n, MPI_LONG, MPI_SUM, win);
    flushed = MPI_Win_flush(target, win);
    return rc != MPI_SUCCESS ? rc : flushed;
}

/* Each operation, short and long, some times; those in `allowed` work, the others do not. */
static void touch_all(unsigned allowed, int target, MPI_Aint at, MPI_Win win)
{
    for (int i = 0; i < TIMES; i++)
        for (int op = 0; op < OPS; op++) {
            long words[LONG] = { 0 };
            int n = i % 2 == 0 ? 1 : LONG;
            int rc = touch((enum op)op, words, n, target, at, win);

            if ((rc == MPI_SUCCESS) != (allowed >> op & 1))
                fprintf(stderr, "operation %d on %d words: %d\n", op, n, rc);
            MUST((rc == MPI_SUCCESS) == (allowed >> op & 1));
        }
}

/* What is written is there, also what another rank reads. */
static void check_values(int rank, int target, long *own, MPI_Aint at, MPI_Win win)
{
    long words[LONG], back[LONG];

    for (int i = 0; i < LONG; i++)
        words[i] = 1000 * rank + i;
    MUST(touch(PUT, words, LONG, target, at, win) == MPI_SUCCESS);
    MUST(touch(ADD, words, LONG, target, at, win) == MPI_SUCCESS);
    MUST(touch(GET, back, LONG, target, at, win) == MPI_SUCCESS);
    for (int i = 0; i < LONG; i++)
        MUST(back[i] == 2 * words[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int i = 0; i < LONG; i++)
        MUST(own[i] % 1000 == 2 * i % 1000);
}

static unsigned allowed_of(const char *kind)
{
    const unsigned all = (1u << OPS) - 1;

    return strcmp(kind, "read_only") == 0 ? 1u << GET : strcmp(kind, "hole") == 0 ? 0 : all;
}

static void use(const char *kind, long *own, int rank, int n)
{
    int everything = strcmp(kind, "everything") == 0, target = (rank + 1) % n;
    MPI_Aint at = everything ? (MPI_Aint)(uintptr_t)own - 4096 : 0, theirs;
    MPI_Win win;

    MPI_Sendrecv(&at, 1, MPI_AINT, (rank + n - 1) % n, 0, &theirs, 1, MPI_AINT, target, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (everything)
        MPI_Win_create((void *)4096, (MPI_Aint)(1L << 47) - 8192, 1, MPI_INFO_NULL,
                       MPI_COMM_WORLD, &win);
    else
        MPI_Win_create(own, sizeof(long) * WORDS, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    touch_all(allowed_of(kind), target, theirs, win);
    if (everything)
        touch_all(0, target, 20 * 4096, win);
    MPI_Barrier(MPI_COMM_WORLD);    /* where some wait for others */
    if (allowed_of(kind) == (1u << OPS) - 1)
        check_values(rank, target, own, theirs, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided, rank, n, has;
    long *own = NULL;

    MPI_Init_thread(&argc, &argv, threads, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MUST(argc > 1);
    has = memory_of(argv[1], &own);
    MPI_Allreduce(MPI_IN_PLACE, &has, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (has) {
        if (strcmp(argv[1], "read_only") == 0)
            MUST(mprotect(own, sizeof(long) * WORDS, PROT_READ) == 0);
        use(argv[1], own, rank, n);
        MUST(strcmp(argv[1], "read_only") != 0 || own[0] == 0);
    } else if (rank == 0) {
        puts("this kernel has no memory that it copies for nobody (memfd_secret)");
    }
    MPI_Finalize();
    return has ? 0 : CASE_SKIP;
}
