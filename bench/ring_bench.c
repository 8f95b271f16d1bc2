/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages through a ring buffer beside what limits them, in turns: a stream beside memcpy in the
 * writer, a message there and one back beside a flag in shared memory, by size and readers. No MPI.
 *
 *     ring_bench [--seconds S] [--rounds N] [--readers LIST] [--bytes LIST] [--awake]
 */

#include <getopt.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <loco/loco.h>

#define CAPACITY ((size_t)1 << 20)
#define BYTES_MAX ((size_t)64 << 10)
#define BATCH 32
#define PINGS 200
#define ROUNDS_MAX 99
#define SPIN 100                /* as LOCO_SPIN */

enum what { STREAM, PING, FLAGS, END };

/* A round's: ns per message or copy, ns there and back. */
struct result {
    double copy[ROUNDS_MAX], single[ROUNDS_MAX], many[ROUNDS_MAX];
    double flag[ROUNDS_MAX], ping[ROUNDS_MAX];
};

/* In memory that all share. */
struct shared {
    _Alignas(128) _Atomic uint64_t there;
    _Alignas(128) _Atomic uint64_t back;
    struct result result;
};

struct options {
    double seconds;
    int rounds, readers, flags;
    size_t bytes;
    struct shared *shared;
};

struct bench {
    const struct options *o;
    loco_ringbuffer_t *out, *back;
    unsigned char *source, *target;     /* of the writer: a message; a buffer as large as a ring */
    uint64_t flags;                     /* raised so far */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "ring_bench: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

/* ---- flags ---- */

static void wait_flag(_Atomic uint64_t *flag, uint64_t value)
{
    for (unsigned i = 0; atomic_load_explicit(flag, memory_order_acquire) != value; i++)
        if (i < SPIN)
            atomic_signal_fence(memory_order_seq_cst);
        else
            sched_yield();
}

static void answer_flags(struct bench *b)
{
    struct shared *s = b->o->shared;

    for (int i = 0; i < PINGS; i++) {
        wait_flag(&s->there, ++b->flags);
        atomic_store_explicit(&s->back, b->flags, memory_order_release);
    }
}

static double raise_flags(struct bench *b)
{
    struct shared *s = b->o->shared;
    double start = now();

    for (int i = 0; i < PINGS; i++) {
        atomic_store_explicit(&s->there, ++b->flags, memory_order_release);
        wait_flag(&s->back, b->flags);
    }
    return (now() - start) / PINGS;
}

/* ---- readers ---- */

/* The answers go to all; who does not wait for them makes room for more. */
static void drain(struct bench *b)
{
    const void *message;
    size_t bytes;

    while (loco_ringbuffer_peek(b->back, &message, &bytes) == LOCO_OK)
        need(loco_ringbuffer_release(b->back, 1), "release");
}

/* What has come is read in place, its first word and its last byte. True at the end. */
static bool take(struct bench *b, int rank, const loco_ringbuffer_part_t *m, int n, unsigned *sum)
{
    for (int i = 0; i < n; i++) {
        enum what what = (enum what)*(const uint64_t *)m[i].data;

        *sum += ((const unsigned char *)m[i].data)[m[i].bytes - 1];
        if (what == STREAM)
            continue;
        need(loco_ringbuffer_release(b->out, i + 1), "release");
        if (what == PING && rank == 1)
            need(loco_ringbuffer_send(b->back, m[i].data, m[i].bytes, NULL), "answer");
        else if (what == PING)
            drain(b);
        if (what == FLAGS && rank == 1)
            answer_flags(b);
        return what == END;
    }
    need(loco_ringbuffer_release(b->out, n), "release");
    return false;
}

static void reader(struct bench *b, int rank)
{
    loco_ringbuffer_part_t m[BATCH];
    const void *message;
    unsigned sum = 0;
    size_t bytes;
    int n;

    do {
        need(loco_ringbuffer_next(b->out, LOCO_FOREVER, &message, &bytes), "next");
        need(loco_ringbuffer_peek_many(b->out, m, BATCH, &n), "peek");
    } while (!take(b, rank, m, n, &sum));
    if (sum == 1)       /* keeps the reads */
        putchar('\n');
}

/* ---- the writer ---- */

static double copy(struct bench *b)
{
    size_t bytes = b->o->bytes, at = 0;
    double start = now(), end = start + b->o->seconds * 1e9, t;
    uint64_t n = 0;

    do {
        for (int i = 0; i < BATCH; i++) {
            memcpy(b->target + at, b->source, bytes);
            at = at + 2 * bytes > CAPACITY ? 0 : at + bytes;
            __asm__ volatile("" : : "r"(b->target) : "memory");
        }
        n += BATCH;
        t = now();
    } while (t < end);
    return (t - start) / (double)n;
}

/* Until all have read it. */
static double stream(struct bench *b, bool many)
{
    loco_ringbuffer_part_t parts[BATCH];
    double start = now(), end = start + b->o->seconds * 1e9;
    uint64_t n = 0, number = 0;

    memcpy(b->source, &(uint64_t){ STREAM }, sizeof(uint64_t));
    for (int i = 0; i < BATCH; i++)
        parts[i] = (loco_ringbuffer_part_t){ b->source, b->o->bytes };
    do {
        for (int i = 0; i < BATCH && !many; i++)
            need(loco_ringbuffer_send(b->out, b->source, b->o->bytes, &number), "send");
        if (many)
            need(loco_ringbuffer_send_many(b->out, parts, BATCH, &number), "send_many");
        n += BATCH;
    } while (now() < end);
    need(loco_ringbuffer_wait_acknowledged(b->out, number), "wait_acknowledged");
    return (now() - start) / (double)n;
}

static double ping(struct bench *b)
{
    double start = now();

    memcpy(b->source, &(uint64_t){ PING }, sizeof(uint64_t));
    for (int i = 0; i < PINGS; i++) {
        const void *message;
        size_t bytes;

        need(loco_ringbuffer_send(b->out, b->source, b->o->bytes, NULL), "ping");
        need(loco_ringbuffer_next(b->back, LOCO_FOREVER, &message, &bytes), "pong");
        need(loco_ringbuffer_release(b->back, 1), "release");
    }
    return (now() - start) / PINGS;
}

static double flags(struct bench *b)
{
    need(loco_ringbuffer_send(b->out, &(uint64_t){ FLAGS }, sizeof(uint64_t), NULL), "flags");
    return raise_flags(b);
}

static void writer(struct bench *b)
{
    struct result *r = &b->o->shared->result;

    b->source = calloc(1, BYTES_MAX);
    b->target = malloc(CAPACITY + BYTES_MAX);
    need(b->source == NULL || b->target == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK, "memory");
    memset(b->target, 1, CAPACITY + BYTES_MAX);
    for (int i = -1; i < b->o->rounds; i++) {   /* the first one warms up */
        int at = i < 0 ? 0 : i;

        r->copy[at] = copy(b);
        r->single[at] = stream(b, false);
        r->many[at] = stream(b, true);
        r->flag[at] = flags(b);
        r->ping[at] = ping(b);
    }
    need(loco_ringbuffer_send(b->out, &(uint64_t){ END }, sizeof(uint64_t), NULL), "end");
    free(b->source);
    free(b->target);
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct bench b = { .o = arg };
    loco_barrier_t *barrier;
    loco_runtime_t *rt;
    int rank = boot->exchange.rank;

    need(loco_runtime_open(boot, &rt), "runtime");
    need(loco_ringbuffer_create(rt, NULL, "out", loco_everyone(rt), 0, CAPACITY, b.o->flags,
                                &b.out), "create");
    need(loco_ringbuffer_create(rt, NULL, "back", loco_everyone(rt), 1, CAPACITY, b.o->flags,
                                &b.back), "create");
    need(loco_barrier_create(rt, NULL, "done", loco_everyone(rt), &barrier), "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "ready");
    if (rank == 0)
        writer(&b);
    else
        reader(&b, rank);
    need(loco_barrier_wait(barrier), "barrier");
    loco_barrier_destroy(barrier);
    loco_ringbuffer_destroy(b.out);
    loco_ringbuffer_destroy(b.back);
    loco_runtime_close(rt);
    return 0;
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double sorted[ROUNDS_MAX];

    memcpy(sorted, values, (size_t)n * sizeof sorted[0]);
    qsort(sorted, (size_t)n, sizeof sorted[0], by_value);
    return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* The median of the rounds' ratios. */
static double ratio(const double *of, const double *to, int n)
{
    double ratios[ROUNDS_MAX];

    for (int i = 0; i < n; i++)
        ratios[i] = of[i] / to[i];
    return median(ratios, n);
}

static void print_row(const struct options *o)
{
    const struct result *r = &o->shared->result;
    double single = median(r->single, o->rounds), many = median(r->many, o->rounds);
    double bytes = (double)o->bytes;
    int n = o->rounds;

    printf("%7zu %7d | %9.1f %9.1f %9.1f  %5.2f %5.2f | %8.2f %8.2f  %5.2f\n", o->bytes,
           o->readers, bytes * 1e3 / median(r->copy, n), bytes * 1e3 / single, bytes * 1e3 / many,
           ratio(r->single, r->copy, n), ratio(r->many, r->copy, n), median(r->flag, n) / 2e3,
           median(r->ping, n) / 2e3, ratio(r->ping, r->flag, n));
    fflush(stdout);
}

static int usage(void)
{
    fprintf(stderr, "usage: ring_bench [--seconds S] [--rounds N] [--readers LIST] "
                    "[--bytes LIST] [--awake]\n");
    return 2;
}

/* Each number of "1,2,3" is run with all of the other list. */
static int run_all(struct options *o, const char *readers, const char *bytes)
{
    char *end;

    printf("MB/s of payload: memcpy in the writer; send; send_many of %d, to the last reader. x: "
           "times memcpy's time.\nus one way: a flag; a message. x: times the flag's.\n"
           "  bytes readers |    memcpy      send      many  x-send x-many |     flag  message"
           "      x\n", BATCH);
    for (const char *r = readers; *r != '\0'; r = *end == ',' ? end + 1 : end) {
        o->readers = (int)strtol(r, &end, 10);
        if (o->readers < 1 || o->readers > 63 || (*end != ',' && *end != '\0'))
            return usage();
        const char *after = end;

        for (const char *b = bytes; *b != '\0'; b = *end == ',' ? end + 1 : end) {
            o->bytes = (size_t)strtoull(b, &end, 10);
            if (o->bytes < 8 || o->bytes > BYTES_MAX || (*end != ',' && *end != '\0'))
                return usage();
            memset(o->shared, 0, sizeof *o->shared);
            if (loco_fork_run(o->readers + 1, member, o, NULL) != LOCO_OK)
                return 1;
            print_row(o);
        }
        end = (char *)after;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "seconds", required_argument, NULL, 's' }, { "rounds", required_argument, NULL, 'r' },
        { "readers", required_argument, NULL, 'n' }, { "bytes", required_argument, NULL, 'b' },
        { "awake", no_argument, NULL, 'a' }, { NULL, 0, NULL, 0 },
    };
    const char *readers = "1,3,7", *bytes = "8,64,512,4096,65536";
    struct options o = { .seconds = 0.05, .rounds = 5, .flags = LOCO_RINGBUFFER_SLEEP };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 's': o.seconds = strtod(optarg, NULL); break;
        case 'r': o.rounds = atoi(optarg); break;
        case 'n': readers = optarg; break;
        case 'b': bytes = optarg; break;
        case 'a': o.flags = LOCO_RINGBUFFER_AWAKE; break;
        default: return usage();
        }
    if (optind < argc || o.seconds <= 0 || o.rounds < 1 || o.rounds > ROUNDS_MAX)
        return usage();
    o.shared = mmap(NULL, sizeof *o.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                    -1, 0);
    return o.shared == MAP_FAILED ? 1 : run_all(&o, readers, bytes);
}
