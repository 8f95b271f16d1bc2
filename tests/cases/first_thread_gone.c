/* SPDX-License-Identifier: BSD-3-Clause */

/* first_thread_gone before|after: the thread that runs main leaves by pthread_exit, before MPI is
 * initialized or after windows are there; another thread goes on. The process lives, so each kind
 * of window does, for short and long copies. */

#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

#define MANY 65536
#define ROUNDS 3

static const char *when;
static pthread_t first;

struct windows {
    MPI_Win win[3];
    long *memory[3];
    MPI_Aint at[3];             /* of the neighbour's, in the window */
};

static void make_windows(struct windows *w, int rank, int n)
{
    MPI_Aint mine, all[16];

    w->memory[1] = calloc(MANY, sizeof(long));
    w->memory[2] = calloc(MANY, sizeof(long));
    MUST(w->memory[1] != NULL && w->memory[2] != NULL && n <= 16);
    MPI_Win_allocate(MANY * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &w->memory[0], &w->win[0]);
    MPI_Win_create(w->memory[1], MANY * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &w->win[1]);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w->win[2]);
    MPI_Win_attach(w->win[2], w->memory[2], MANY * sizeof(long));
    MPI_Get_address(w->memory[2], &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    w->at[0] = w->at[1] = 0;
    w->at[2] = all[(rank + 1) % n];
}

/* What the neighbour puts is here, and what is put there can be got. */
static void use(struct windows *w, int i, int rank, int n, int len, long salt)
{
    static long out[MANY], in[MANY];
    int next = (rank + 1) % n, before = (rank + n - 1) % n;

    for (int k = 0; k < len; k++)
        out[k] = rank * 1000000L + salt + k;
    MPI_Win_fence(0, w->win[i]);
    MPI_Put(out, len, MPI_LONG, next, w->at[i], len, MPI_LONG, w->win[i]);
    MPI_Win_fence(0, w->win[i]);
    for (int k = 0; k < len; k++)
        MUST(w->memory[i][k] == before * 1000000L + salt + k);
    MPI_Get(in, len, MPI_LONG, next, w->at[i], len, MPI_LONG, w->win[i]);
    MPI_Win_fence(0, w->win[i]);
    MUST(memcmp(in, out, (size_t)len * sizeof in[0]) == 0);
}

static void *work(void *arg)
{
    struct windows w;
    int provided, rank, n;

    (void)arg;
    if (strcmp(when, "before") == 0)
        pthread_join(first, NULL);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    make_windows(&w, rank, n);
    for (int i = 0; i < 3; i++)
        use(&w, i, rank, n, 1, 0);
    if (strcmp(when, "after") == 0)
        pthread_cancel(first);
    pthread_join(first, NULL);
    usleep(50000);              /* joined a little before the system has seen it off */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        for (int round = 1; round <= ROUNDS; round++)
            for (int len = 1; len <= MANY; len *= 16)
                use(&w, i, rank, n, len, round * 100);
    MPI_Win_detach(w.win[2], w.memory[2]);
    for (int i = 0; i < 3; i++)
        MPI_Win_free(&w.win[i]);
    MPI_Finalize();
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    MUST(argc == 2);
    when = argv[1];
    first = pthread_self();
    MUST(pthread_create(&thread, NULL, work, NULL) == 0);
    while (strcmp(when, "after") == 0)
        pause();                /* until it is cancelled */
    pthread_exit(NULL);
}
