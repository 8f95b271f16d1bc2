/* SPDX-License-Identifier: BSD-3-Clause */

/* attach_many REGIONS: each rank attaches so many regions to a dynamic window and reads those of
 * the next, while all detach one of theirs and attach it again. With 100 regions attached or with
 * all: an attach, a detach, and a get after a change cost nearly the same, and what is read is
 * right. */

#include <mpi.h>

#include "case.h"

#define FEW 100
#define TURNS 2000
#define STRIDE 2            /* words from one region to the next */
#define FACTOR 10 /* times as dear at most; a table that is written and copied anew is 100 */

struct many {
    MPI_Win win;
    long *word;
    MPI_Aint there;         /* the next rank's */
    int next;
    unsigned seed;
};

struct cost {
    double attach, detach, get;     /* medians */
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *time)
{
    qsort(time, TURNS, sizeof *time, by_size);
    return time[TURNS / 2];
}

static void get(struct many *m, int n, int i)
{
    long got = -1;

    MPI_Get(&got, 1, MPI_LONG, m->next, MPI_Aint_add(m->there, 8 * STRIDE * (MPI_Aint)i), 1,
            MPI_LONG, m->win);
    MPI_Win_flush(m->next, m->win);
    MUST(i < n && got == m->next * 1000000L + i);
}

/* With n attached, of which the first few change. */
static struct cost measure(struct many *m, int n)
{
    static double attach[TURNS], detach[TURNS], gets[TURNS];

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < TURNS; i++) {
        long *region = &m->word[STRIDE * (i % (FEW / 2))];
        double t[4] = { case_now() };

        MPI_Win_detach(m->win, region);
        t[1] = case_now();
        MPI_Win_attach(m->win, region, 8);
        t[2] = case_now();
        get(m, n, FEW / 2 + (int)((unsigned)rand_r(&m->seed) % (unsigned)(n - FEW / 2)));
        t[3] = case_now();
        detach[i] = t[1] - t[0];
        attach[i] = t[2] - t[1];
        gets[i] = t[3] - t[2];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return (struct cost){ median(attach), median(detach), median(gets) };
}

int main(int argc, char **argv)
{
    int rank, size, n = argc == 2 ? atoi(argv[1]) : 0;
    struct many m = { .seed = 1 };
    struct cost few, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MUST(n > FEW && (m.word = calloc((size_t)n * STRIDE, 8)) != NULL);
    m.next = (rank + 1) % size;
    for (int i = 0; i < n; i++)
        m.word[STRIDE * i] = rank * 1000000L + i;
    MPI_Get_address(m.word, &m.there);
    MPI_Sendrecv_replace(&m.there, 1, MPI_AINT, (rank + size - 1) % size, 0, m.next, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &m.win);
    for (int i = 0; i < FEW; i++)
        MPI_Win_attach(m.win, &m.word[STRIDE * i], 8);
    MPI_Win_lock_all(0, m.win);
    few = measure(&m, FEW);
    for (int i = FEW; i < n; i++)
        MPI_Win_attach(m.win, &m.word[STRIDE * i], 8);
    all = measure(&m, n);
    MPI_Win_unlock_all(m.win);
    printf(
        "%d: with %d and with %d regions, us: attach %.2f %.2f, detach %.2f %.2f, get %.2f %.2f\n",
        rank, FEW, n, 1e6 * few.attach, 1e6 * all.attach, 1e6 * few.detach, 1e6 * all.detach,
        1e6 * few.get, 1e6 * all.get);
    MUST(all.attach < FACTOR * few.attach);
    MUST(all.detach < FACTOR * few.detach);
    MUST(all.get < FACTOR * few.get);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        MPI_Win_detach(m.win, &m.word[STRIDE * i]);
    MPI_Win_free(&m.win);
    free(m.word);
    MPI_Finalize();
    return 0;
}
