/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program pays that makes a few windows of some size in its build phase, step by step:
 * making them all, touching their memory, the first use of each by another rank, a second one, and
 * freeing them. Plain MPI, any component; bench/build_phase runs it.
 *
 * The memory is MPI's (MPI_Win_allocate), new to the process in the first round and maybe had
 * before in the next. A step is begun by all ranks together and lasts until the last has done it.
 * Touching is one word of each page of 4 KiB by its owner. A use is USES times a get of a word
 * that the owner has touched, a put and a fetch_and_op, at random pages of the next rank's part.
 * What was read, and what is there in the end, is checked. A window of 8 bytes comes before all,
 * so that starting the component is no part of it.
 */
#include "config.h"

#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char help[] =
    "Usage: mpirun -np N window_steps [OPTION]...\n"
    "Makes windows, touches, uses and frees them, and prints a line of JSON for each round.\n"
    "\n"
    "  --windows N   so many, all open at once (100)\n"
    "  --bytes N     of each rank's part, a multiple of 4096 (65536)\n"
    "  --rounds N    how often (1)\n"
    "  --untouched   leave out the touch: the first use finds new memory\n"
    "  --help        this text\n";

enum { PAGE = 4096, WORDS = PAGE / 8, USES = 4, STEPS = 5 };
enum { TOUCHED, COUNT, PUT };       /* words of a page; from PUT on, one for each use */

struct bench {
    int windows, rounds;
    int64_t bytes;
    bool untouched;
    int rank, size, next, previous;
    MPI_Win *win;
    int64_t **base;
    int64_t wrong;
};

static void must(int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "window_steps: %s: %s\n", call, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void must_be(struct bench *b, int64_t found, int64_t right, const char *what)
{
    if (found == right)
        return;
    if (b->wrong++ == 0)
        fprintf(stderr, "window_steps: rank %d: %s is %lld instead of %lld\n", b->rank, what,
                (long long)found, (long long)right);
}

/* Which page of window i a rank goes to in its k-th use. */
static int64_t page_of(const struct bench *b, int rank, int i, int k)
{
    uint64_t x = ((uint64_t)rank << 40 | (uint64_t)i << 8 | (uint64_t)k) + 1;

    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return (int64_t)(x % (uint64_t)(b->bytes / PAGE));
}

static int64_t touched_value(const struct bench *b, int rank, int i, int64_t page)
{
    return b->untouched ? 0 : (int64_t)rank * 1000000 + (int64_t)i * 1000 + page % 1000 + 1;
}

/* ---- steps ---- */

static void make(struct bench *b)
{
    for (int i = 0; i < b->windows; i++) {
        must(MPI_Win_allocate(b->bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &b->base[i], &b->win[i]),
             "MPI_Win_allocate");
        MPI_Win_set_errhandler(b->win[i], MPI_ERRORS_RETURN);
    }
}

static void touch(struct bench *b)
{
    for (int i = 0; !b->untouched && i < b->windows; i++)
        for (int64_t page = 0; page < b->bytes / PAGE; page++)
            b->base[i][page * WORDS + TOUCHED] = touched_value(b, b->rank, i, page);
}

static void use_once(struct bench *b, int i, int k)
{
    static const int64_t one = 1;
    int64_t page = page_of(b, b->rank, i, k), at = page * WORDS, read = -1, before = -1;
    int64_t put = at + i;
    MPI_Win win = b->win[i];

    must(MPI_Get(&read, 1, MPI_INT64_T, b->next, at + TOUCHED, 1, MPI_INT64_T, win), "MPI_Get");
    must(MPI_Put(&put, 1, MPI_INT64_T, b->next, at + PUT + k, 1, MPI_INT64_T, win), "MPI_Put");
    must(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, b->next, at + COUNT, MPI_SUM, win),
         "MPI_Fetch_and_op");
    must(MPI_Win_flush(b->next, win), "MPI_Win_flush");
    must_be(b, read, touched_value(b, b->next, i, page), "a word that was read");
}

static void use(struct bench *b)
{
    for (int i = 0; i < b->windows; i++) {
        must(MPI_Win_lock_all(MPI_MODE_NOCHECK, b->win[i]), "MPI_Win_lock_all");
        for (int k = 0; k < USES; k++)
            use_once(b, i, k);
        must(MPI_Win_unlock_all(b->win[i]), "MPI_Win_unlock_all");
    }
}

static void release(struct bench *b)
{
    for (int i = 0; i < b->windows; i++)
        must(MPI_Win_free(&b->win[i]), "MPI_Win_free");
}

/* Memory begins as zeros, so a count is what the previous rank has added. */
static void check(struct bench *b)
{
    for (int i = 0; i < b->windows; i++) {
        must(MPI_Win_lock(MPI_LOCK_SHARED, b->rank, 0, b->win[i]), "MPI_Win_lock");
        for (int k = 0; k < USES; k++) {
            int64_t at = page_of(b, b->previous, i, k) * WORDS, count = 0;

            for (int other = 0; other < USES; other++)
                count += 2 * (page_of(b, b->previous, i, other) * WORDS == at);
            must_be(b, b->base[i][at + COUNT], count, "a count");
            must_be(b, b->base[i][at + PUT + k], at + i, "a word that was put");
        }
        must(MPI_Win_unlock(b->rank, b->win[i]), "MPI_Win_unlock");
    }
}

/* ---- rounds ---- */

static double timed(struct bench *b, void (*step)(struct bench *))
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    step(b);
    MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - start) * 1e3;
}

static long page_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void one_round(struct bench *b, int round)
{
    static const char *const name[STEPS] = { "make", "touch", "first", "second", "free" };
    void (*const step[STEPS])(struct bench *) = { make, touch, use, use, release };
    double ms[STEPS];
    long faults[STEPS];
    int64_t wrong;

    for (int s = 0; s < STEPS; s++) {
        if (step[s] == release) {
            MPI_Barrier(MPI_COMM_WORLD);
            check(b);
        }
        faults[s] = page_faults();
        ms[s] = timed(b, step[s]);
        faults[s] = page_faults() - faults[s];
    }
    MPI_Allreduce(&b->wrong, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (b->rank != 0)
        return;
    printf("{\"round\": %d, \"ranks\": %d, \"windows\": %d, \"bytes\": %lld", round + 1, b->size,
           b->windows, (long long)b->bytes);
    for (int s = 0; s < STEPS; s++)
        printf(", \"%s_ms\": %.4f, \"%s_faults\": %ld", name[s], ms[s], name[s], faults[s]);
    printf(", \"check\": \"%s\"}\n", wrong == 0 ? "passed" : "failed");
    fflush(stdout);
}

static void start_component(struct bench *b)
{
    static const int64_t one = 1;
    int64_t *base, before;
    MPI_Win win;

    must(MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), "MPI_Win_allocate");
    must(MPI_Win_lock_all(0, win), "MPI_Win_lock_all");
    must(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, b->next, 0, MPI_SUM, win),
         "MPI_Fetch_and_op");
    must(MPI_Win_unlock_all(win), "MPI_Win_unlock_all");
    must(MPI_Win_free(&win), "MPI_Win_free");
}

/* -1: go on; else the exit status. */
static int options(struct bench *b, int argc, char **argv)
{
    static const struct option names[] = {
        { "windows", required_argument, NULL, 'w' }, { "bytes", required_argument, NULL, 'b' },
        { "rounds", required_argument, NULL, 'r' }, { "untouched", no_argument, NULL, 'u' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 'w': b->windows = atoi(optarg); break;
        case 'b': b->bytes = atoll(optarg); break;
        case 'r': b->rounds = atoi(optarg); break;
        case 'u': b->untouched = true; break;
        case 'h': fputs(help, stdout); return 0;
        default: fputs(help, stderr); return 2;
        }
    if (optind == argc && b->windows > 0 && b->rounds > 0 && b->bytes > 0 && b->bytes % PAGE == 0)
        return -1;
    fprintf(stderr, "window_steps: --windows and --rounds take numbers above 0, --bytes a "
            "multiple of %d\n%s", PAGE, help);
    return 2;
}

int main(int argc, char **argv)
{
    struct bench b = { .windows = 100, .bytes = 65536, .rounds = 1 };
    int status = options(&b, argc, argv);

    if (status >= 0)
        return status;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.next = (b.rank + 1) % b.size;
    b.previous = (b.rank + b.size - 1) % b.size;
    b.win = calloc((size_t)b.windows, sizeof *b.win);
    b.base = calloc((size_t)b.windows, sizeof *b.base);
    if (b.win == NULL || b.base == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    start_component(&b);
    for (int round = 0; round < b.rounds; round++)
        one_round(&b, round);
    free(b.win);
    free(b.base);
    MPI_Finalize();
    return b.wrong == 0 ? 0 : 1;
}
