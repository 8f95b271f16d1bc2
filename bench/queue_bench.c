/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an entry of 8 bytes costs through a queue: LOCO's, one built on MPI_Fetch_and_op in a
 * window, or, between the threads of one process, Concurrency Kit's ring (where its header was
 * there). One JSON line; bench/queue_compare runs them by turns.
 */
#include "config.h"

#include "queue_bench.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <loco/mpi.h>
#include <loco/queue.h>

#ifdef LOCO_HAVE_CK
#include <ck_ring.h>
#endif

enum { SPINS = 100, THREADS_MAX = 64 };

static const char usage[] =
    "usage: queue_bench --api loco|mpi|ck [--row pairs|stream] [--threads N] [--count N]\n"
    "                   [--capacity N]\n"
    "pairs: each thread of each rank pushes and pops by turns; stream: half of them push, the\n"
    "others pop. count: entries of each who pushes (100000). capacity: a power of two (1024).\n";

_Noreturn void queue_die(const char *what)
{
    fprintf(stderr, "queue_bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void queue_relax(unsigned *tries)
{
    if (++*tries % SPINS == 0)
        sched_yield();
}

/* ---- LOCO ---- */

static loco_runtime_t *loco_rt;

static void *loco_make(uint64_t capacity)
{
    loco_queue_t *q;

    if (loco_runtime_open_mpi(MPI_COMM_WORLD, &loco_rt) != LOCO_OK
        || loco_queue_create(loco_rt, NULL, "bench", loco_everyone(loco_rt), sizeof(uint64_t),
                             capacity, 0, &q) != LOCO_OK
        || loco_runtime_wait_ready(loco_rt, LOCO_FOREVER) != LOCO_OK)
        queue_die("no LOCO queue");
    return q;
}

static void loco_put(void *q, uint64_t value)
{
    if (loco_queue_push(q, &value) != LOCO_OK)
        queue_die("loco_queue_push");
}

static uint64_t loco_take(void *q)
{
    uint64_t value = 0;

    if (loco_queue_pop(q, &value) != LOCO_OK)
        queue_die("loco_queue_pop");
    return value;
}

static void loco_free(void *q)
{
    loco_queue_destroy(q);
    loco_runtime_close_mpi(loco_rt);
}

/* ---- Concurrency Kit: rank 0's threads alone ---- */

#ifdef LOCO_HAVE_CK
struct ck {
    struct ck_ring ring;
    struct ck_ring_buffer buffer[];
};

static void *ck_make(uint64_t capacity)
{
    /* It holds one less than its size. */
    struct ck *ck = aligned_alloc(64, (sizeof *ck + 2 * capacity * sizeof ck->buffer[0] + 63)
                                      / 64 * 64);

    if (ck == NULL)
        queue_die("no memory");
    ck_ring_init(&ck->ring, (unsigned)(2 * capacity));
    return ck;
}

static void ck_put(void *arg, uint64_t value)
{
    struct ck *ck = arg;
    unsigned tries = 0;

    while (!ck_ring_enqueue_mpmc(&ck->ring, ck->buffer, (void *)(uintptr_t)value))
        queue_relax(&tries);
}

static uint64_t ck_take(void *arg)
{
    struct ck *ck = arg;
    unsigned tries = 0;
    void *value;

    while (!ck_ring_dequeue_mpmc(&ck->ring, ck->buffer, &value))
        queue_relax(&tries);
    return (uintptr_t)value;
}
#endif

static const struct queue_api apis[] = {
    { "loco", loco_make, loco_put, loco_take, loco_free, THREADS_MAX, true },
    { "mpi", queue_mpi_make, queue_mpi_put, queue_mpi_take, queue_mpi_free, 1, true },
#ifdef LOCO_HAVE_CK
    { "ck", ck_make, ck_put, ck_take, free, THREADS_MAX, false },
#endif
};

/* ---- a run ---- */

struct run {
    const struct queue_api *api;
    void *q;
    bool stream;
    int rank, size;
    int64_t threads, count, capacity;
    pthread_barrier_t start;
};

struct worker {
    struct run *run;
    pthread_t thread;
    int at;                     /* among all */
    uint64_t in, out;           /* sums */
};

static void *work(void *arg)
{
    struct worker *w = arg;
    const struct run *r = w->run;
    uint64_t base = (uint64_t)w->at << 40 | 1;

    if (r->threads > 1)
        pthread_barrier_wait(&w->run->start);
    for (int64_t i = 0; i < r->count; i++) {
        if (!r->stream || w->at % 2 == 0) {
            r->api->put(r->q, base + (uint64_t)i);
            w->in += base + (uint64_t)i;
        }
        if (!r->stream || w->at % 2 == 1)
            w->out += r->api->take(r->q);
    }
    return NULL;
}

/* Seconds; *right: what came out is what went in. */
static double measure(struct run *r, bool *right)
{
    struct worker worker[THREADS_MAX];
    uint64_t sum[2] = { 0, 0 }, all[2];
    double start, seconds, longest;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < r->threads; i++)
        worker[i] = (struct worker){ .run = r, .at = r->rank * (int)r->threads + i };
    for (int i = 1; i < r->threads; i++)
        if (pthread_create(&worker[i].thread, NULL, work, &worker[i]) != 0)
            queue_die("no thread");
    work(&worker[0]);
    for (int i = 1; i < r->threads; i++)
        pthread_join(worker[i].thread, NULL);
    seconds = MPI_Wtime() - start;
    for (int i = 0; i < r->threads; i++) {
        sum[0] += worker[i].in;
        sum[1] += worker[i].out;
    }
    MPI_Allreduce(sum, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *right = all[0] == all[1];
    return longest;
}

static bool number(const char *text, int64_t most, int64_t *value)
{
    char *end;

    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *value >= 1 && *value <= most;
}

static const struct queue_api *api_named(const char *name)
{
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++)
        if (strcmp(apis[i].name, name) == 0)
            return &apis[i];
    return NULL;
}

static bool parse(int argc, char **argv, struct run *r)
{
    static const struct option names[] = {
        { "api", required_argument, NULL, 'a' }, { "row", required_argument, NULL, 'r' },
        { "threads", required_argument, NULL, 't' }, { "count", required_argument, NULL, 'n' },
        { "capacity", required_argument, NULL, 'c' }, { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        bool good = true;

        switch (c) {
        case 'a': good = (r->api = api_named(optarg)) != NULL; break;
        case 'r':
            r->stream = strcmp(optarg, "stream") == 0;
            good = r->stream || strcmp(optarg, "pairs") == 0;
            break;
        case 't': good = number(optarg, THREADS_MAX, &r->threads); break;
        case 'n': good = number(optarg, INT64_C(1) << 40, &r->count); break;
        case 'c':
            good = number(optarg, 1 << 30, &r->capacity)
                   && (r->capacity & (r->capacity - 1)) == 0;
            break;
        default: return false;
        }
        if (!good)
            return false;
    }
    return optind == argc && r->api != NULL && r->threads <= r->api->threads_max
           && (r->api->ranks || r->size == 1)
           && (!r->stream || r->size * r->threads % 2 == 0);
}

int main(int argc, char **argv)
{
    struct run r = { .threads = 1, .count = 100000, .capacity = 1024 };
    double seconds, entries;
    bool right;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.size);
    if (!parse(argc, argv, &r)) {
        if (r.rank == 0)
            fputs(usage, stderr);
        MPI_Finalize();
        return 2;
    }
    r.q = r.api->make((uint64_t)r.capacity);
    pthread_barrier_init(&r.start, NULL, (unsigned)r.threads);
    seconds = measure(&r, &right);
    MPI_Barrier(MPI_COMM_WORLD);
    r.api->free(r.q);
    entries = (double)r.count * r.size * (double)r.threads / (r.stream ? 2 : 1);
    if (r.rank == 0)
        printf("{\"api\": \"%s\", \"row\": \"%s\", \"ranks\": %d, \"threads\": %" PRId64
               ", \"entries\": %.0f, \"ns_per_entry\": %.2f, \"check\": \"%s\"}\n", r.api->name,
               r.stream ? "stream" : "pairs", r.size, r.threads, entries,
               seconds * 1e9 / entries, right ? "passed" : "FAILED");
    MPI_Finalize();
    return right ? 0 : 1;
}
