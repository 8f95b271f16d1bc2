/* SPDX-License-Identifier: BSD-3-Clause */

/* What many key-value stores cost a process: threads, memory, and the time from an insert until all
 * members know of it, in one of them and in all by turns. Two processes of this node. No MPI.
 *
 *     kv_stores [--stores N] [--inserts N] [--pause MICROSECONDS]
 *
 * Rank 0 inserts and deletes, rank 1 is elsewhere: its poller has to hear of it, which sleeps where
 * there is a pause between, and may be awake where there is none. */

#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

struct options {
    int stores, inserts;
    unsigned pause;
};

static double micros(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        n += entry->d_name[0] != '.';
    if (tasks != NULL)
        closedir(tasks);
    return n;
}

/* A line of /proc/self/status, in KiB. */
static long status_of(const char *format)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long kib = -1;

    while (f != NULL && fgets(line, sizeof line, f) != NULL && sscanf(line, format, &kib) != 1)
        ;
    if (f != NULL)
        fclose(f);
    return kib;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median and 90th percentile of an insert. With `all`, in each store by turns. */
static int inserts(loco_kvstore_t **kv, const struct options *o, bool all, double *took)
{
    uint64_t key = 1;
    int status = LOCO_OK;

    for (int i = 0; i < o->inserts && status == LOCO_OK; i++) {
        loco_kvstore_t *store = kv[all ? i % o->stores : o->stores / 2];
        double start;

        if (o->pause > 0)
            usleep(o->pause);
        start = micros();
        status = loco_kvstore_insert(store, key, &key, sizeof key);
        took[i] = micros() - start;
        if (status == LOCO_OK)
            status = loco_kvstore_delete(store, key);
    }
    qsort(took, (size_t)o->inserts, sizeof took[0], by_size);
    return status;
}

static int measure(loco_kvstore_t **kv, const struct options *o, const char *what, bool all)
{
    double *took = calloc((size_t)o->inserts, sizeof took[0]);
    int status = took == NULL ? LOCO_ERR_NO_MEMORY : inserts(kv, o, all, took);

    if (status == LOCO_OK)
        printf("insert, %-16s %8.1f us (p90 %.1f)\n", what, took[o->inserts / 2],
               took[o->inserts * 9 / 10]);
    free(took);
    return status;
}

static int make_all(loco_runtime_t *rt, loco_kvstore_t **kv, int n)
{
    const loco_kvstore_options_t options = { .value_bytes = 8, .capacity = 4, .locks = 1,
                                             .tracker_bytes = 4096 };
    int status = LOCO_OK;
    char name[16];

    for (int i = 0; i < n && status == LOCO_OK; i++) {
        snprintf(name, sizeof name, "s%d", i);
        status = loco_kvstore_create(rt, NULL, name, loco_everyone(rt), &options, &kv[i]);
    }
    return status == LOCO_OK ? loco_runtime_wait_ready(rt, LOCO_FOREVER) : status;
}

static int use_all(loco_runtime_t *rt, loco_kvstore_t **kv, const struct options *o, int rank)
{
    int before = threads(), status;
    long rss = status_of("VmRSS: %ld"), size = status_of("VmSize: %ld");
    loco_barrier_t *done;
    double start = micros();

    status = loco_barrier_create(rt, NULL, "done", loco_everyone(rt), &done);
    if (status == LOCO_OK)
        status = make_all(rt, kv, o->stores);
    if (status != LOCO_OK)
        return status;
    if (rank == 0)
        printf("%d stores: made in %.0f us each; threads %d more; KiB each: resident %.1f, "
               "address space %.1f\n", o->stores, (micros() - start) / o->stores,
               threads() - before, (double)(status_of("VmRSS: %ld") - rss) / o->stores,
               (double)(status_of("VmSize: %ld") - size) / o->stores);
    if (rank == 0)
        status = measure(kv, o, "one of them", false);
    if (rank == 0 && status == LOCO_OK)
        status = measure(kv, o, "all by turns", true);
    loco_barrier_wait(done);
    start = micros();
    for (int i = 0; i < o->stores; i++)
        loco_kvstore_destroy(kv[i]);
    if (rank == 0)
        printf("destroyed in %.0f us each\n", (micros() - start) / o->stores);
    loco_barrier_destroy(done);
    return status;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    const struct options *o = arg;
    loco_kvstore_t **kv = calloc((size_t)o->stores, sizeof kv[0]);
    loco_runtime_t *rt;
    int status = kv == NULL ? LOCO_ERR_NO_MEMORY : loco_runtime_open(boot, &rt);

    if (status == LOCO_OK) {
        status = use_all(rt, kv, o, boot->exchange.rank);
        loco_runtime_close(rt);
    }
    if (status != LOCO_OK)
        fprintf(stderr, "kv_stores: rank %d: %s\n", boot->exchange.rank, loco_strerror(status));
    free(kv);
    return status != LOCO_OK;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        { "stores", required_argument, NULL, 's' }, { "inserts", required_argument, NULL, 'i' },
        { "pause", required_argument, NULL, 'p' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { .stores = 1000, .inserts = 1000, .pause = 1000 };
    int option;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 's': o.stores = atoi(optarg); break;
        case 'i': o.inserts = atoi(optarg); break;
        case 'p': o.pause = (unsigned)atoi(optarg); break;
        default: return 2;
        }
    }
    if (o.stores < 1 || o.inserts < 1 || optind != argc) {
        fprintf(stderr, "kv_stores: stores and inserts are at least 1\n");
        return 2;
    }
    return loco_fork_run(2, member, &o, NULL) != LOCO_OK;
}
