/* SPDX-License-Identifier: BSD-3-Clause */

/* What a key-value store takes of memory, key by key: processes of this node load it, then look at
 * themselves. No MPI.
 *
 *     kv_memory [--keys N] [--bytes N] [--processes N]
 */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <loco/loco.h>

#define BATCH 1000

struct options {
    uint64_t keys;
    size_t bytes;
    int processes;
};

/* Of /proc/self/smaps_rollup, in bytes. Pss: what is shared is divided among those who share. */
struct resident {
    uint64_t rss, pss, anonymous, shared;
};

static struct resident look(void)
{
    struct resident r = { 0 };
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    unsigned long long kib;

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "Rss: %llu", &kib) == 1)
            r.rss = kib << 10;
        else if (sscanf(line, "Pss: %llu", &kib) == 1)
            r.pss = kib << 10;
        else if (sscanf(line, "Pss_Anon: %llu", &kib) == 1)
            r.anonymous = kib << 10;
        else if (sscanf(line, "Pss_Shmem: %llu", &kib) == 1)
            r.shared = kib << 10;
    }
    if (f != NULL)
        fclose(f);
    return r;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int load(loco_kvstore_t *kv, const struct options *o, int rank, uint64_t mine)
{
    unsigned char *values = calloc(BATCH, o->bytes);
    uint64_t keys[BATCH];
    int statuses[BATCH], status = values == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    for (uint64_t i = 0; i < mine && status == LOCO_OK; i += BATCH) {
        size_t n = mine - i < BATCH ? (size_t)(mine - i) : BATCH;

        for (size_t k = 0; k < n; k++) {
            keys[k] = (i + k) * (uint64_t)o->processes + (uint64_t)rank;
            memcpy(values + k * o->bytes, &keys[k], o->bytes < 8 ? o->bytes : 8);
        }
        status = loco_kvstore_insert_many(kv, n, keys, values, o->bytes, statuses);
    }
    free(values);
    return status;
}

static void say(const char *what, uint64_t bytes, uint64_t keys)
{
    printf("  %-44s %9.1f MiB %8.2f bytes per key\n", what, (double)bytes / (1 << 20),
           (double)bytes / (double)keys);
}

static void report(const struct options *o, const loco_kvstore_stats_t *s, struct resident before,
                   struct resident after, double took)
{
    uint64_t keys = s->keys;

    printf("%llu keys, values of %zu bytes, %d processes; loaded in %.1f s, %.0f keys/s\n",
           (unsigned long long)keys, o->bytes, o->processes, took, (double)keys / took);
    printf("each process, as rank 0 sees itself (per key: of all keys in the store)\n");
    say("index: 16 bytes a cell, 3 of 4 cells in use", s->index_bytes, keys);
    say("its values: meta word, value, checksum", s->value_bytes, keys);
    say("together, by its design", s->index_bytes + s->value_bytes, keys);
    say("private memory, grown by", after.anonymous - before.anonymous, keys);
    say("its part of shared memory, grown by", after.shared - before.shared, keys);
    say("resident (what is shared: its part), grown by", after.pss - before.pss, keys);
    say("resident (RSS: what is shared in full)", after.rss, keys);
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct options *o = arg;
    uint64_t mine = (o->keys + (uint64_t)o->processes - 1) / (uint64_t)o->processes;
    const loco_kvstore_options_t options = { .value_bytes = o->bytes, .capacity = mine };
    struct resident before, after;
    loco_kvstore_stats_t stats;
    loco_barrier_t *barrier;
    loco_kvstore_t *kv;
    loco_runtime_t *rt;
    double start, took;
    int status = loco_runtime_open(boot, &rt);

    if (status != LOCO_OK)
        return 1;
    before = look();
    status = loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &options, &kv);
    if (status == LOCO_OK)
        status = loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier);
    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status == LOCO_OK)
        status = loco_barrier_wait(barrier);
    start = seconds();
    if (status == LOCO_OK)
        status = load(kv, o, boot->exchange.rank, mine);
    if (status == LOCO_OK)
        status = loco_barrier_wait(barrier);
    took = seconds() - start;
    if (status != LOCO_OK) {
        fprintf(stderr, "kv_memory: %s\n", loco_strerror(status));
        _Exit(1);
    }
    loco_kvstore_stats(kv, &stats);
    after = look();
    if (boot->exchange.rank == 0)
        report(o, &stats, before, after, took);
    fflush(stdout);
    loco_barrier_wait(barrier);
    loco_kvstore_destroy(kv);
    loco_barrier_destroy(barrier);
    loco_runtime_close(rt);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: kv_memory [--keys N] [--bytes N] [--processes N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "keys", required_argument, NULL, 'k' }, { "bytes", required_argument, NULL, 'b' },
        { "processes", required_argument, NULL, 'p' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { 10000000, 8, 2 };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        unsigned long long n = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);

        if (n == 0)
            return usage();
        if (c == 'k')
            o.keys = n;
        else if (c == 'b')
            o.bytes = (size_t)n;
        else
            o.processes = (int)n;
    }
    if (optind < argc)
        return usage();
    return loco_fork_run(o.processes, member, &o, NULL) == LOCO_OK ? 0 : 1;
}
