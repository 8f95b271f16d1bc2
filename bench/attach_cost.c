/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What attaching memory to a dynamic window costs, beside as many regions as are attached already.
 * Plain MPI, any component.
 *
 * Every rank attaches N regions of 64 bytes in no order, reads words of the next rank's regions,
 * then detaches one of its own, attaches it again and reads a word of another of the next rank's,
 * in turn with all others, and in the end detaches all. A line for each N: rank 0's medians in
 * microseconds, and the longest read beside changes. Every word that was read is looked at.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 64, STRIDE = 128, READS = 5000, TURNS = 5000 };

static const char help[] =
    "Usage: mpirun -np N attach_cost [REGIONS]...\n"
    "Says what attach, detach and a get cost with so many regions attached (64 1000 20000).\n"
    "Stock rdma takes 64 unless --mca osc_rdma_max_attach says otherwise.\n";

struct bench {
    int rank, size, next;
    MPI_Win win;
    int n;
    char *memory;               /* regions, and as much between them */
    MPI_Aint there;             /* the next rank's */
    int *order;
    double *time;
    unsigned seed;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void must(int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "attach_cost: %s: %s\n", call, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *time, int n)
{
    qsort(time, (size_t)n, sizeof *time, by_size);
    return time[n / 2];
}

static int below(struct bench *b, int n)
{
    return (int)((unsigned)rand_r(&b->seed) % (unsigned)n);
}

static void shuffle(struct bench *b)
{
    for (int i = 0; i < b->n; i++)
        b->order[i] = i;
    for (int i = b->n - 1; i > 0; i--) {
        int k = below(b, i + 1), kept = b->order[i];

        b->order[i] = b->order[k];
        b->order[k] = kept;
    }
}

static double attach(struct bench *b, int i)
{
    double begin = now();

    must(MPI_Win_attach(b->win, b->memory + (size_t)i * STRIDE, BYTES), "MPI_Win_attach");
    return now() - begin;
}

static double detach(struct bench *b, int i)
{
    double begin = now();

    must(MPI_Win_detach(b->win, b->memory + (size_t)i * STRIDE), "MPI_Win_detach");
    return now() - begin;
}

static double get(struct bench *b, int i)
{
    long got = -1;
    double begin = now(), time;

    must(MPI_Get(&got, 1, MPI_LONG, b->next, MPI_Aint_add(b->there, (MPI_Aint)i * STRIDE), 1,
                 MPI_LONG, b->win), "MPI_Get");
    must(MPI_Win_flush(b->next, b->win), "MPI_Win_flush");
    time = now() - begin;
    if (got != (long)b->next * b->n + i) {
        fprintf(stderr, "attach_cost: region %d of rank %d holds %ld\n", i, b->next, got);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return time;
}

/* The changed regions are the first quarter, the others are read meanwhile. */
static void measure(struct bench *b)
{
    int changing = b->n / 4 > 0 ? b->n / 4 : 1, at;
    double attached, detached, read, changed, worst;

    shuffle(b);
    for (int i = 0; i < b->n; i++)
        b->time[i] = attach(b, b->order[i]);
    attached = median(b->time, b->n);
    MPI_Barrier(MPI_COMM_WORLD);
    must(MPI_Win_lock_all(0, b->win), "MPI_Win_lock_all");
    for (int i = 0; i < READS; i++)
        b->time[i] = get(b, below(b, b->n));
    read = median(b->time, READS);
    MPI_Barrier(MPI_COMM_WORLD);
    worst = 0;
    for (int i = 0; i < TURNS; i++) {
        double one;

        at = below(b, changing);
        b->time[i] = detach(b, at) + attach(b, at);
        one = get(b, changing + below(b, b->n - changing));
        b->time[i] += one;
        worst = one > worst ? one : worst;
    }
    changed = median(b->time, TURNS);
    must(MPI_Win_unlock_all(b->win), "MPI_Win_unlock_all");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < b->n; i++)
        b->time[i] = detach(b, b->order[i]);
    detached = median(b->time, b->n);
    if (b->rank == 0)
        printf("%8d %8.2f %8.2f %8.2f %8.2f %8.1f\n", b->n, attached, detached, read, changed,
               worst);
}

static void bench_for(struct bench *b, int n)
{
    int times = n > TURNS ? n : TURNS;
    MPI_Aint here;

    b->n = n;
    b->memory = calloc((size_t)n, STRIDE);
    b->order = malloc((size_t)n * sizeof *b->order);
    b->time = malloc((size_t)(times > READS ? times : READS) * sizeof *b->time);
    if (b->memory == NULL || b->order == NULL || b->time == NULL)
        must(MPI_ERR_NO_MEM, "memory for the regions");
    for (int i = 0; i < n; i++) {
        const long word = (long)b->rank * n + i;

        memcpy(b->memory + (size_t)i * STRIDE, &word, sizeof word);
    }
    MPI_Get_address(b->memory, &here);
    MPI_Sendrecv(&here, 1, MPI_AINT, (b->rank + b->size - 1) % b->size, 0, &b->there, 1, MPI_AINT,
                 b->next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    must(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &b->win), "MPI_Win_create_dynamic");
    MPI_Win_set_errhandler(b->win, MPI_ERRORS_RETURN);
    measure(b);
    must(MPI_Win_free(&b->win), "MPI_Win_free");
    free(b->memory);
    free(b->order);
    free(b->time);
}

int main(int argc, char **argv)
{
    static const int usual[] = { 64, 1000, 20000 };
    struct bench b = { .seed = 1 };

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.next = (b.rank + 1) % b.size;
    b.seed += (unsigned)b.rank;
    if (b.rank == 0)
        printf("# regions; us: attach, detach, get, detach + attach + get, the longest of these "
               "gets\n");
    for (int i = 1; i < argc; i++) {
        if (atoi(argv[i]) < 2) {
            if (b.rank == 0)
                fputs(help, stderr);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        bench_for(&b, atoi(argv[i]));
    }
    for (size_t i = 0; argc == 1 && i < sizeof usual / sizeof usual[0]; i++)
        bench_for(&b, usual[i]);
    MPI_Finalize();
    return 0;
}
