/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics on this machine: one publisher, N subscribers, all levels, in turns. No MPI.
 *     topic_bench [--subscribers N] [--bytes B] [--slots N] [--samples N] [--rounds N] [--logs DIR]
 *
 * Prints for each round and level: thousand samples a second that each subscriber is given, MB/s;
 * then the medians. The publisher writes a sample's first word only. Kept: the last 100. Logged:
 * each subscriber has a file in DIR (.), which is synced as often as the disk can, and the time
 * ends when the last record is on it. */

#include <getopt.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

enum { LEVELS = 4, ROUNDS_MAX = 99, SUBSCRIBERS_MAX = 15 };
static const char *const names[LEVELS] = { "unordered", "atomic", "kept", "logged" };

struct options {
    int subscribers, slots, samples, rounds;
    size_t bytes;
    const char *logs;
};

struct shared {
    _Atomic int arrived;
    double rate[LEVELS][ROUNDS_MAX];
};

struct bench {
    const struct options *o;
    struct shared *s;
    int rank, meetings;
    _Atomic uint64_t given;
    _Atomic int wrong;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "topic_bench: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

static void meet(struct bench *b)
{
    int all = ++b->meetings * (b->o->subscribers + 1);

    atomic_fetch_add(&b->s->arrived, 1);
    while (atomic_load(&b->s->arrived) < all)
        usleep(10);
}

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct bench *b = arg;
    uint64_t given = atomic_load_explicit(&b->given, memory_order_relaxed);

    for (int i = 0; i < n; i++)
        if (*(const uint64_t *)samples[i].data != given++)
            atomic_store(&b->wrong, 1);
    atomic_store_explicit(&b->given, given, memory_order_release);
}

static void publish(struct bench *b, loco_topic_t *t)
{
    uint64_t number = 0;

    for (int i = 0; i < b->o->samples; i++) {
        void *slot;

        need(loco_topic_reserve(t, &slot), "reserve");
        *(uint64_t *)slot = (uint64_t)i;
        need(loco_topic_publish(t, slot, b->o->bytes, &number), "publish");
    }
    need(loco_topic_wait_delivered(t, number), "delivered");
}

/* One level, once: samples a second. */
static double measure(struct bench *b, loco_runtime_t *rt, int level, int round)
{
    static const int publisher[] = { 0 };
    char name[32], path[512];
    loco_topic_options_t o = {
        .publishers = publisher, .npublishers = 1, .level = level, .slots = b->o->slots,
        .slot_bytes = b->o->bytes, .arg = b, .history = level >= LOCO_TOPIC_KEPT ? 100 : 0,
    };
    loco_topic_t *t;
    double start;

    if (b->rank > 0) {
        o.handler = take;
        o.subscribe = 1;
    }
    if (b->rank > 0 && level == LOCO_TOPIC_LOGGED)
        o.log = path;
    snprintf(name, sizeof name, "%s%d", names[level], round);
    snprintf(path, sizeof path, "%s/topic_bench.%d.%d.log", b->o->logs, (int)getppid(), b->rank);
    atomic_store(&b->given, 0);
    need(loco_topic_create(rt, NULL, name, loco_everyone(rt), &o, &t), "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "ready");
    meet(b);
    start = now();
    if (b->rank == 0)
        publish(b, t);
    else
        while (atomic_load_explicit(&b->given, memory_order_acquire) < (uint64_t)b->o->samples)
            usleep(100);
    if (o.log != NULL)
        need(loco_topic_wait_synced(t, (uint64_t)b->o->samples, LOCO_FOREVER), "synced");
    meet(b);
    start = now() - start;
    loco_topic_destroy(t);
    if (o.log != NULL)
        unlink(path);
    if (atomic_load(&b->wrong) != 0)
        need(LOCO_ERR_DIFFERS, "a sample");
    return b->o->samples / start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(const struct bench *b, const char *when, int level, double rate)
{
    printf("%-8s %-10s %10.1f thousand samples/s %10.1f MB/s\n", when, names[level], rate / 1e3,
           rate * (double)b->o->bytes / 1e6);
}

static int body(const struct loco_bootstrap *boot, void *arg)
{
    struct bench *b = arg;
    loco_runtime_t *rt;

    b->rank = boot->exchange.rank;
    need(loco_runtime_open(boot, &rt), "open");
    for (int round = 0; round < b->o->rounds; round++)
        for (int level = 0; level < LEVELS; level++) {
            double rate = measure(b, rt, level, round);

            b->s->rate[level][round] = b->rank == 0 ? rate : b->s->rate[level][round];
            if (b->rank == 0)
                print(b, "round", level, rate);
        }
    for (int level = 0; level < LEVELS && b->rank == 0; level++) {
        qsort(b->s->rate[level], (size_t)b->o->rounds, sizeof(double), by_value);
        print(b, "median", level, b->s->rate[level][b->o->rounds / 2]);
    }
    meet(b);
    loco_runtime_close(rt);
    return 0;
}

static void read_options(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        { "subscribers", required_argument, NULL, 'n' }, { "bytes", required_argument, NULL, 'b' },
        { "slots", required_argument, NULL, 's' }, { "samples", required_argument, NULL, 'c' },
        { "rounds", required_argument, NULL, 'r' }, { "logs", required_argument, NULL, 'l' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'n': o->subscribers = atoi(optarg); break;
        case 'b': o->bytes = (size_t)atol(optarg); break;
        case 's': o->slots = atoi(optarg); break;
        case 'c': o->samples = atoi(optarg); break;
        case 'r': o->rounds = atoi(optarg); break;
        case 'l': o->logs = optarg; break;
        default: exit(2);
        }
    if (o->subscribers < 1 || o->subscribers > SUBSCRIBERS_MAX || o->bytes < 8 || o->slots < 1
        || o->samples < 1 || o->rounds < 1 || o->rounds > ROUNDS_MAX) {
        fprintf(stderr, "topic_bench: 1 to %d subscribers, 8 bytes or more, 1 slot and sample or "
                "more, 1 to %d rounds\n", SUBSCRIBERS_MAX, ROUNDS_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = { .subscribers = 1, .slots = 100, .rounds = 3, .bytes = 10240,
                         .samples = 20000, .logs = "." };
    struct bench b = { .o = &o };
    int statuses[SUBSCRIBERS_MAX + 1], failed = 0;

    read_options(argc, argv, &o);
    setvbuf(stdout, NULL, _IOLBF, 0);
    b.s = mmap(NULL, sizeof *b.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.s == MAP_FAILED)
        return 1;
    loco_fork_run(o.subscribers + 1, body, &b, statuses);
    for (int i = 0; i <= o.subscribers; i++)
        failed |= statuses[i] != 0;
    return failed;
}
