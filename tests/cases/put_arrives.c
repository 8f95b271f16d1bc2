/* SPDX-License-Identifier: BSD-3-Clause */

/* put_arrives create|allocate|shared|dynamic [threads]: rank 0 puts a word into the memory of rank
 * 1, synchronizes in one of several ways, and then waits for a message; rank 1 polls. Every call
 * that synchronizes, MPI_Win_flush_local as well as MPI_Wait for a request, lets what was begun
 * before it arrive, though its origin calls nothing any more (MPI 3.1, 11.7.3). */

#include <mpi.h>
#include <string.h>

#include "case.h"

enum { WORDS = 16 };
enum call { FLUSH_LOCAL, FLUSH_LOCAL_ALL, FLUSH, SYNC, WAIT, TEST, CALLS };
enum poll { BY_SYNC, BY_FETCH, BY_PROBE, POLLS };
static int words[WORDS];

/* The window, and the displacement of rank 1's first word in it. */
static MPI_Win window_of(const char *kind, int **own, MPI_Aint *first)
{
    MPI_Win win;

    *own = words;
    if (strcmp(kind, "create") == 0)
        MPI_Win_create(words, sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else if (strcmp(kind, "allocate") == 0)
        MPI_Win_allocate(sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, own, &win);
    else if (strcmp(kind, "shared") == 0)
        MPI_Win_allocate_shared(sizeof words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, own, &win);
    else
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    *first = 0;
    if (strcmp(kind, "dynamic") == 0) {
        MPI_Win_attach(win, words, sizeof words);
        MPI_Get_address(words, first);
        MPI_Bcast(first, 1, MPI_AINT, 1, MPI_COMM_WORLD);
    }
    return win;
}

static void put(enum call call, const int *value, int n, MPI_Aint at, MPI_Win win)
{
    MPI_Request request;
    int done = 0;

    if (call != WAIT && call != TEST) {
        MPI_Put(value, n, MPI_INT, 1, at, n, MPI_INT, win);
        return;
    }
    MPI_Rput(value, n, MPI_INT, 1, at, n, MPI_INT, win, &request);
    if (call == WAIT)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    while (call == TEST && !done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

static void synchronize(enum call call, MPI_Win win)
{
    switch (call) {
    case FLUSH_LOCAL: MPI_Win_flush_local(1, win); break;
    case FLUSH_LOCAL_ALL: MPI_Win_flush_local_all(win); break;
    case FLUSH: MPI_Win_flush(1, win); break;
    case SYNC: MPI_Win_sync(win); break;
    default: break;
    }
}

static int look(enum poll poll, const int *own, MPI_Aint first, MPI_Win win)
{
    int got = 0, flag;

    if (poll == BY_FETCH) {
        MPI_Fetch_and_op(NULL, &got, MPI_INT, 1, first, MPI_NO_OP, win);
        MPI_Win_flush_local(1, win);
        return got;
    }
    if (poll == BY_PROBE)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Win_sync(win);
    return __atomic_load_n(own, __ATOMIC_ACQUIRE);
}

/* `n` words, of which the first is looked at, after some at the other end that go first. */
static void one(enum call call, enum poll poll, int n, int *own, MPI_Aint first, MPI_Win win)
{
    const int value[WORDS] = { 1, 2, 3 };
    int rank, got = 0;
    double end = case_now() + case_limit(8);

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Aint unit = first == 0 ? 1 : (MPI_Aint)sizeof(int);

        MPI_Put(value, 2, MPI_INT, 1, first + (WORDS - 2) * unit, 2, MPI_INT, win);
        put(call, value, n, first, win);
        synchronize(call, win);
        MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        while (!got && case_now() < end)
            got = look(poll, own, first, win);
        if (!got)
            fprintf(stderr, "call %d, poll %d, %d words: nothing arrived\n", call, poll, n);
        MUST(got);
        *own = 0;
        MPI_Send(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided, *own;
    MPI_Aint first;
    MPI_Win win;

    MPI_Init_thread(&argc, &argv, threads, &provided);
    MUST(argc > 1);
    win = window_of(argv[1], &own, &first);
    *own = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int call = 0; call < CALLS; call++)
        for (int poll = 0; poll < POLLS; poll++)
            for (int n = 1; n < WORDS; n += n)
                one((enum call)call, (enum poll)poll, n, own, first, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
