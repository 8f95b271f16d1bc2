/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency of a LOCO barrier: figure 1 of the LOCO paper, in C. Every rank waits in the barrier
 * again and again and notes when it came and when it left.
 *
 * The check is that of a barrier: nobody left a round before all had come to it. It compares the
 * clocks of the ranks, so it is made only where they have one: on one node.
 */
#include "common.h"

#include <loco/barrier.h>
#include <loco/mpi.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "Usage: mpirun -np N barrier_latency [OPTION]...\n"
    "Measures how long a LOCO barrier over all ranks takes.\n"
    "\n"
    "  --rounds N       how often, up to 10m (10000)\n"
    "  --warmup N       rounds before that which do not count (1000)\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0, 1 if a rank left the barrier too early or a call failed, 2 on wrong use.\n";

enum { ROUNDS_PER_LOOK = 64 };

struct options {
    int64_t rounds;
    int64_t warmup;
    bool json;
    bool progress;
};

/* Nanoseconds, of rank 0 but for early. */
struct result {
    double mean;
    int64_t least;
    int64_t median;
    int64_t p99;
    int64_t most;
    bool checked;
    int64_t early; /* rounds that somebody left too early */
};

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'r': return ex_number(optarg, 1, 10000000, &o->rounds);
    case 'w': return ex_number(optarg, 0, 10000000, &o->warmup);
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "rounds", required_argument, NULL, 'r' }, { "warmup", required_argument, NULL, 'w' },
        { "json", no_argument, NULL, 'j' },         { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .rounds = 10000, .warmup = 1000 };
    ex_only_options(argc, argv, names, help, parse_one, o);
}

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Like figure 1(b): what a native program needs. */
static void measure(const struct options *o, int64_t *came, int64_t *left)
{
    struct ex_progress progress;
    loco_runtime_t *rt;
    loco_barrier_t *barrier;

    ex_progress_init(&progress, o->progress);
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt), "loco_runtime_open_mpi");
    check(loco_barrier_create(rt, NULL, "bar", loco_everyone(rt), &barrier),
          "loco_barrier_create");
    check(loco_runtime_wait_ready(rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    for (int64_t i = -o->warmup; i < o->rounds; i++) {
        int64_t start = now();

        check(loco_barrier_wait(barrier), "loco_barrier_wait");
        if (i < 0)
            continue;
        came[i] = start;
        left[i] = now();
        if (i % ROUNDS_PER_LOOK == 0)
            ex_progress_say(&progress, "%" PRId64 " of %" PRId64 " rounds", i, o->rounds);
    }
    ex_progress_end(&progress);
    loco_barrier_destroy(barrier);
    loco_runtime_close_mpi(rt);
}

static bool on_one_node(void)
{
    MPI_Comm node;
    int size;

    ex_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    return size == ex_size();
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Uses up both arrays. */
static void evaluate(int64_t *came, int64_t *left, int64_t rounds, struct result *r)
{
    int64_t *latency = malloc((size_t)rounds * sizeof(*latency));

    if (latency == NULL)
        ex_abort("no memory for %" PRId64 " rounds", rounds);
    memset(r, 0, sizeof(*r));
    for (int64_t i = 0; i < rounds; i++) {
        latency[i] = left[i] - came[i];
        r->mean += (double)latency[i] / (double)rounds;
    }
    qsort(latency, (size_t)rounds, sizeof(*latency), ascending);
    r->least = latency[0];
    r->median = latency[rounds / 2];
    r->p99 = latency[rounds * 99 / 100];
    r->most = latency[rounds - 1];
    free(latency);

    ex_check(MPI_Allreduce(MPI_IN_PLACE, came, (int)rounds, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD),
             "MPI_Allreduce");
    ex_check(MPI_Allreduce(MPI_IN_PLACE, left, (int)rounds, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD),
             "MPI_Allreduce");
    r->checked = on_one_node();
    for (int64_t i = 0; r->checked && i < rounds; i++)
        r->early += left[i] < came[i];
}

static void report(const struct options *o, const struct result *r)
{
    const char *check = !r->checked ? "not made (several nodes)" : r->early == 0 ? "passed"
                      : "FAILED";

    if (o->json) {
        printf("{\"example\": \"barrier_latency\", \"ranks\": %d, \"rounds\": %" PRId64
               ", \"mean_us\": %.3f, \"min_us\": %.3f, \"median_us\": %.3f, \"p99_us\": %.3f, "
               "\"max_us\": %.3f, \"early\": %" PRId64 ", \"check\": \"%s\"}\n", ex_size(),
               o->rounds, r->mean / 1e3, (double)r->least / 1e3, (double)r->median / 1e3,
               (double)r->p99 / 1e3, (double)r->most / 1e3, r->early, check);
        return;
    }
    printf("%-8s %d\n", "ranks", ex_size());
    printf("%-8s %" PRId64 "\n", "rounds", o->rounds);
    printf("%-8s %.3f us\n", "mean", r->mean / 1e3);
    printf("%-8s %.3f us\n", "min", (double)r->least / 1e3);
    printf("%-8s %.3f us\n", "median", (double)r->median / 1e3);
    printf("%-8s %.3f us\n", "p99", (double)r->p99 / 1e3);
    printf("%-8s %.3f us\n", "max", (double)r->most / 1e3);
    printf("%-8s %s\n", "check", check);
}

int main(int argc, char **argv)
{
    struct options o;
    struct result r;
    int64_t *came, *left;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    came = malloc((size_t)o.rounds * sizeof(*came));
    left = malloc((size_t)o.rounds * sizeof(*left));
    if (came == NULL || left == NULL)
        ex_abort("no memory for %" PRId64 " rounds", o.rounds);
    measure(&o, came, left);
    evaluate(came, left, o.rounds, &r);
    if (ex_rank() == 0) {
        report(&o, &r);
        if (r.early > 0)
            fprintf(stderr, "barrier_latency: %" PRId64 " rounds were left too early\n", r.early);
    }
    free(came);
    free(left);
    return ex_finish(r.early == 0 ? 0 : EX_WRONG);
}
