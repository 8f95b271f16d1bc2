/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each of many windows costs: to make it, to use it the first time, to use it while all the
 * others are open, to free it. Plain MPI, any component; bench/many_windows runs it.
 *
 * Every rank puts a word into the next rank's part of each window and adds to another, in each of
 * two rounds, and looks in the end whether its own part of each holds what it must. Times are rank
 * 0's, of steps that all ranks begin together. A line of the output is a step, the window's number,
 * microseconds and page faults; they are written as they come, so that a crash loses none, and what
 * was going on when it came is told on stderr.
 *
 * What a page costs that was never touched before is the machine's affair: in a virtual machine ten
 * times as much where the host has to find one. So memory is touched beforehand, unless --cold says
 * otherwise; the number of page faults shows what was left.
 */
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char help[] =
    "Usage: mpirun -np N window_cost [OPTION]...\n"
    "Makes, uses and frees many MPI windows, and says what each cost.\n"
    "\n"
    "  --windows N     so many, all open at once (10000)\n"
    "  --flavor NAME   allocate, shared, create or dynamic (allocate)\n"
    "  --output FILE   where lines of step, window, microseconds, page faults go (stdout)\n"
    "  --cold          do not touch memory beforehand\n"
    "  --help          this text\n"
    "\n"
    "Steps: make, first (lock_all, put, accumulate, unlock_all), again (the same when all are\n"
    "open), free.\n";

enum { WORDS = 8 };     /* of a rank's part of a window: the second and third are used */

struct bench {
    int windows;
    const char *flavor;
    const char *output;
    bool cold;
    FILE *out;                  /* rank 0's */
    int rank, size, next;
    MPI_Win *win;
    long *memory;               /* of the program: WORDS for each window */
    long **base;                /* this rank's part of each window */
    MPI_Aint next_memory;       /* where the next rank's memory is, for dynamic windows */
};

/* ---- where we are, for the signal handler ---- */

static _Atomic(const char *) now_in = "MPI_Init";
static _Atomic int now_at = -1;

static void going_to(const char *call, int window)
{
    atomic_store_explicit(&now_in, call, memory_order_relaxed);
    atomic_store_explicit(&now_at, window, memory_order_relaxed);
}

/* snprintf is not on the list of what a handler may call, but neither allocates nor locks with
 * these arguments; what is at stake is a line about a program that is lost anyway. */
static void tell_and_die(int number)
{
    char line[160];
    int len = snprintf(line, sizeof line, "window_cost: %s in %s of window %d\n",
                       number == SIGTERM ? "stopped" : "crashed", atomic_load(&now_in),
                       atomic_load(&now_at) + 1);

    if (write(STDERR_FILENO, line, (size_t)len) < 0)
        _exit(125);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM };
    struct sigaction action = { .sa_handler = tell_and_die, .sa_flags = SA_NODEFER };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

/* ---- steps ---- */

/* The cause at the rank that knows it; all ranks leave. */
static void must(int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "window_cost: error in %s of window %d: %s\n", atomic_load(&now_in),
            atomic_load(&now_at) + 1, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int make_window(struct bench *b, int i)
{
    long *mine = b->memory + (size_t)i * WORDS;
    MPI_Aint bytes = WORDS * sizeof(long);
    int rc;

    switch (b->flavor[0]) {
    case 'a':
        going_to("MPI_Win_allocate", i);
        return MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &b->base[i],
                                &b->win[i]);
    case 's':
        going_to("MPI_Win_allocate_shared", i);
        return MPI_Win_allocate_shared(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                                       &b->base[i], &b->win[i]);
    case 'c':
        going_to("MPI_Win_create", i);
        b->base[i] = mine;
        return MPI_Win_create(mine, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                              &b->win[i]);
    default:
        going_to("MPI_Win_create_dynamic", i);
        b->base[i] = mine;
        rc = MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &b->win[i]);
        if (rc != MPI_SUCCESS)
            return rc;
        going_to("MPI_Win_attach", i);
        return MPI_Win_attach(b->win[i], mine, bytes);
    }
}

/* Where word `word` of window i is at the next rank. */
static MPI_Aint place_of(const struct bench *b, int i, int word)
{
    if (b->flavor[0] != 'd')
        return word;
    return MPI_Aint_add(b->next_memory, ((MPI_Aint)i * WORDS + word) * (MPI_Aint)sizeof(long));
}

static int use_window(struct bench *b, int i)
{
    long put = i + 1, add = 1 + b->rank;
    MPI_Win win = b->win[i];
    int rc;

    going_to("MPI_Win_lock_all", i);
    if ((rc = MPI_Win_lock_all(0, win)) != MPI_SUCCESS)
        return rc;
    going_to("MPI_Put", i);
    rc = MPI_Put(&put, 1, MPI_LONG, b->next, place_of(b, i, 1), 1, MPI_LONG, win);
    if (rc != MPI_SUCCESS)
        return rc;
    going_to("MPI_Accumulate", i);
    rc = MPI_Accumulate(&add, 1, MPI_LONG, b->next, place_of(b, i, 2), 1, MPI_LONG, MPI_SUM, win);
    if (rc != MPI_SUCCESS)
        return rc;
    going_to("MPI_Win_unlock_all", i);
    return MPI_Win_unlock_all(win);
}

static int free_window(struct bench *b, int i)
{
    going_to("MPI_Win_free", i);
    return MPI_Win_free(&b->win[i]);
}

static long page_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/* One timed step, which all ranks begin together. */
static void timed(struct bench *b, const char *name, int i, int (*step)(struct bench *, int))
{
    double start;
    long faults;
    int rc;

    going_to("MPI_Barrier", i);
    faults = page_faults();
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    rc = step(b, i);
    start = MPI_Wtime() - start;
    must(rc);
    if (b->out != NULL)
        fprintf(b->out, "%s\t%d\t%.3f\t%ld\n", name, i + 1, start * 1e6, page_faults() - faults);
}

/* Errors come back to must(); new memory may hold anything. */
static void prepare(struct bench *b, int i)
{
    MPI_Win_set_errhandler(b->win[i], MPI_ERRORS_RETURN);
    memset(b->base[i], 0, WORDS * sizeof(long));
}

/* Whether this rank's part of a window is wrong; the first few of `wrong` ones are told. */
static int look(struct bench *b, int i, int wrong)
{
    int previous = (b->rank + b->size - 1) % b->size;
    long put, sum;

    going_to("MPI_Win_lock", i);
    must(MPI_Win_lock(MPI_LOCK_SHARED, b->rank, 0, b->win[i]));
    put = b->base[i][1];
    sum = b->base[i][2];
    must(MPI_Win_unlock(b->rank, b->win[i]));
    if (put == i + 1 && sum == 2 * (1 + previous))
        return 0;
    if (wrong < 3)
        fprintf(stderr, "window_cost: wrong data in window %d at rank %d: %ld, %ld instead of "
                "%d, %d\n", i + 1, b->rank, put, sum, i + 1, 2 * (1 + previous));
    return 1;
}

/* Memory of the program that stays with it, and, where the component keeps it, of windows. */
static void warm_up(struct bench *b)
{
    size_t size = (size_t)b->windows * 65536;
    void *p, *base;
    MPI_Win win;

    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_MMAP_MAX, 0);
    p = malloc(size);
    if (p == NULL)
        return;
    explicit_bzero(p, size);        /* memset before free would be optimized away */
    free(p);
    if (b->flavor[0] != 'a')
        return;
    going_to("MPI_Win_allocate", -1);
    must(MPI_Win_allocate((MPI_Aint)b->windows * 2048, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                          &win));
    memset(base, 1, (size_t)b->windows * 2048);
    must(MPI_Win_free(&win));
}

static int run(struct bench *b)
{
    int wrong = 0, wrong_anywhere;

    for (int i = 0; i < b->windows; i++) {
        timed(b, "make", i, make_window);
        prepare(b, i);
        timed(b, "first", i, use_window);
    }
    for (int i = 0; i < b->windows; i++)
        timed(b, "again", i, use_window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < b->windows; i++)
        wrong += look(b, i, wrong);
    MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < b->windows; i++)
        timed(b, "free", i, free_window);
    return wrong_anywhere == 0 ? 0 : 1;
}

/* ---- the program ---- */

static int wrong_use(const char *why)
{
    fprintf(stderr, "window_cost: %s\n%s", why, help);
    return 2;
}

/* -1: go on; else the exit status. */
static int options(struct bench *b, int argc, char **argv)
{
    static const struct option names[] = {
        { "windows", required_argument, NULL, 'w' }, { "flavor", required_argument, NULL, 'f' },
        { "output", required_argument, NULL, 'o' }, { "cold", no_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 }
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 'w': b->windows = atoi(optarg); break;
        case 'f': b->flavor = optarg; break;
        case 'o': b->output = optarg; break;
        case 'c': b->cold = true; break;
        case 'h': fputs(help, stdout); return 0;
        default: return wrong_use("unknown option");
        }
    if (optind < argc || b->windows < 1)
        return wrong_use("--windows takes a number above 0, and there are no other arguments");
    if (strcmp(b->flavor, "allocate") != 0 && strcmp(b->flavor, "shared") != 0
        && strcmp(b->flavor, "create") != 0 && strcmp(b->flavor, "dynamic") != 0)
        return wrong_use("there is no such flavor");
    return -1;
}

static void meet(struct bench *b)
{
    MPI_Aint mine, *all;

    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->size);
    b->next = (b->rank + 1) % b->size;
    b->win = calloc((size_t)b->windows, sizeof *b->win);
    b->base = calloc((size_t)b->windows, sizeof *b->base);
    b->memory = calloc((size_t)b->windows, WORDS * sizeof(long));
    all = calloc((size_t)b->size, sizeof *all);
    if (b->win == NULL || b->base == NULL || b->memory == NULL || all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Get_address(b->memory, &mine);
    MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    b->next_memory = all[b->next];
    free(all);
    if (b->rank != 0)
        return;
    b->out = b->output == NULL ? stdout : fopen(b->output, "w");
    if (b->out == NULL) {
        perror(b->output);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    setvbuf(b->out, NULL, _IOLBF, 0);
}

int main(int argc, char **argv)
{
    struct bench b = { .windows = 10000, .flavor = "allocate" };
    int status = options(&b, argc, argv);

    if (status >= 0)
        return status;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    watch_signals();
    meet(&b);
    if (!b.cold)
        warm_up(&b);
    status = run(&b);
    going_to("MPI_Finalize", b.windows - 1);
    if (b.out != NULL && fclose(b.out) != 0)
        status = 3;
    free(b.win);
    free(b.base);
    free(b.memory);
    MPI_Finalize();
    return status;
}
