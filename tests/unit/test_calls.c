/* SPDX-License-Identifier: BSD-3-Clause */

/* The calls of channels that LOCO_STATS and LOCO_TRACE show by the names of the channels. */

#include <loco/barrier.h>
#include <loco/kvstore.h>
#include <loco/queue.h>
#include <loco/region.h>
#include <loco/tree.h>
#include <loco/tx.h>

#include "observe/calls.h"
#include "observed.h"
#include "run.h"

#define PUSHED 5
#define CHANNELS (LOCI_CALLS_NAMES + 3)

static int calls_of_work(loco_queue_t *queue, loco_barrier_t *barrier, int rank)
{
    uint64_t entry[2] = { 1, 2 };

    for (int i = 0; rank == 0 && i < PUSHED; i++)
        CHECK_OK(loco_queue_push(queue, entry));
    CHECK_OK(loco_barrier_wait(barrier));
    for (int i = 0; rank == 1 && i < PUSHED; i++)
        CHECK_OK(loco_queue_pop_timed(queue, entry, LOCO_FOREVER));     /* which calls the other */
    if (rank == 1)
        CHECK_EQ(loco_queue_try_pop(queue, entry), LOCO_ERR_AGAIN);
    return 0;
}

static int named(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_kvstore_t *kv;
    loco_barrier_t *barrier;
    loco_region_t *region;
    loco_queue_t *queue;
    loco_store_t *store;
    loco_tree_t *tree;
    loco_tx_t *tx;
    unsigned char forty[40] = { 0 };
    uint64_t value = 7;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "work", all, 16, 100, 0, &queue));
    CHECK_OK(loco_barrier_create(rt, "step", "b", all, &barrier));
    CHECK_OK(loco_region_create(rt, NULL, "part", all, 100, &region));
    CHECK_OK(loco_kvstore_create(rt, NULL, "kv", all, &(loco_kvstore_options_t){
                                     .value_bytes = 8, .capacity = 10 }, &kv));
    CHECK_OK(loco_store_create(rt, NULL, "objects", all, &(loco_store_options_t){
                                   .bytes = 1 << 16 }, &store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_region_write(region, 1 - rank, 0, forty, sizeof forty));
    CHECK_OK(loco_region_write64(region, 1 - rank, 48, 1));
    CHECK_OK(loco_kvstore_insert(kv, (uint64_t)rank, &value, 8));
    CHECK_EQ(loco_kvstore_insert(kv, (uint64_t)rank, &value, 8), LOCO_ERR_EXISTS);
    CHECK_OK(loco_tx_open(store, &tx));
    CHECK_OK(loco_tree_open(tx, loco_store_root(store, (uint64_t)rank), NULL, &tree));
    CHECK_OK(loco_tree_put(tree, loco_text("key"), loco_text("value")));
    CHECK_EQ(calls_of_work(queue, barrier, rank), 0);
    CHECK_OK(run_meet(rt));
    loco_tree_close(tree);
    loco_tx_close(tx);
    loco_store_destroy(store);
    loco_kvstore_destroy(kv);
    loco_region_destroy(region);
    loco_barrier_destroy(barrier);
    loco_queue_destroy(queue);
    return 0;
}

/* Line `call` of a channel: its numbers, and how many of the calls failed. */
static bool calls_are(const char *table, const char *channel, const char *call, long long calls,
                      long long bytes, long long failed)
{
    const char *at = strstr(table, channel), *more;
    long long n = -1, b = -1, f = 0;
    char form[64];

    while (at != NULL && (at = strchr(at, '\n')) != NULL && strncmp(++at, "      ", 6) == 0) {
        snprintf(form, sizeof form, " %s %%lld %%lld", call);
        if (sscanf(at, form, &n, &b) < 2)
            continue;
        more = strchr(at, '(');
        if (more != NULL && more < strchr(at, '\n'))
            f = atoll(more + 1);
        return n == calls && b == bytes && f == failed;
    }
    return calls == 0;
}

Test(calls, by_name)
{
    struct files files;
    char *table[2], *trace;

    files_open(&files, "1M");
    cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, named, NULL), 0);
    for (int i = 0; i < 2; i++)
        table[i] = files_read(&files, "stats", i);
    trace = files_read(&files, "trace", 0);
    cr_assert(calls_are(table[0], "queue \"work\"", "push", PUSHED, 16 * PUSHED, 0), "%s",
              table[0]);
    cr_assert(calls_are(table[1], "queue \"work\"", "push", 0, 0, 0));
    cr_assert(calls_are(table[1], "queue \"work\"", "pop", PUSHED + 1, 16 * PUSHED, 1), "%s",
              table[1]);
    cr_assert(calls_are(table[0], "barrier \"step/b\"", "wait", 1, 0, 0), "%s", table[0]);
    cr_assert(calls_are(table[0], "region \"part\"", "write", 2, 48, 0), "%s", table[0]);
    cr_assert(calls_are(table[0], "kvstore \"kv\"", "insert", 2, 8, 1), "%s", table[0]);
    cr_assert(calls_are(table[0], "store \"objects\"", "put", 1, 5, 0), "%s", table[0]);
    /* That of loco_tree_open; the put's own one is a part of it. */
    cr_assert(calls_are(table[0], "store \"objects\"", "commit", 1, 0, 0), "%s", table[0]);
    cr_assert_eq(count(trace, "\"cat\":\"queue\",\"name\":\"push\",\"args\":{\"channel\":"
                       "\"work\",\"bytes\":16}"), PUSHED, "%s", trace);
    cr_assert_eq(count(trace, "\"name\":\"wait\",\"args\":{\"channel\":\"step/b\"}"), 1);
    cr_assert_eq(count(trace, "\"ph\":\"B\""), count(trace, "\"ph\":\"E\""));
    for (int i = 0; i < 2; i++)
        free(table[i]);
    free(trace);
    free(files_read(&files, "trace", 1));
    files_close(&files);
}

/* One after the other, more names than have lines of their own, and one name again. */
static int many_names(loco_runtime_t *rt, int rank, void *arg)
{
    loco_barrier_t *barrier;
    char name[24];

    (void)rank;
    (void)arg;
    for (int i = 0; i < CHANNELS + 2; i++) {
        snprintf(name, sizeof name, "b%d", i < CHANNELS ? i : 5);
        CHECK_OK(loco_barrier_create(rt, NULL, name, loco_everyone(rt), &barrier));
        CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
        CHECK_OK(loco_barrier_wait(barrier));
        loco_barrier_destroy(barrier);
    }
    return 0;
}

Test(calls, more_channels_than_names)
{
    struct files files;
    char *table;

    files_open(&files, "1M");
    cr_assert_eq(run_on(RUN_SHM, 1, 0, files.settings, many_names, NULL), 0);
    table = files_read(&files, "stats", 0);
    cr_assert(calls_are(table, "barrier \"b5\"", "wait", 3, 0, 0), "%s", table);
    cr_assert(calls_are(table, "channels \"others\"", "wait", CHANNELS - LOCI_CALLS_NAMES, 0, 0));
    free(table);
    free(files_read(&files, "trace", 0));
    files_close(&files);
}

/* Rank 1 waits for the entry that rank 0 pushes later. */
static int waits(loco_runtime_t *rt, int rank, void *arg)
{
    loco_queue_t *queue;
    uint64_t entry = 1;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "late", loco_everyone(rt), 8, 10, 0, &queue));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0) {
        usleep(50000);
        CHECK_OK(loco_queue_push(queue, &entry));
    } else {
        CHECK_OK(loco_queue_pop(queue, &entry));
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(queue);
    return 0;
}

/* Once in a few attempts, as rank 1 may be late itself. */
Test(calls, waits)
{
    long long waited = 0;

    for (int i = 0; i < 20 && waited == 0; i++) {
        double seconds = 0, of_it = 0;
        struct files files;
        char *table;

        files_open(&files, "1M");
        cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, waits, NULL), 0);
        table = files_read(&files, "stats", 1);
        cr_assert(calls_are(table, "queue \"late\"", "pop", 1, 8, 0), "%s", table);
        cr_assert_eq(sscanf(strstr(table, "queue \"late\""),
                            "queue \"late\" pop %*d %*d %lf %lld %lf", &seconds, &waited, &of_it),
                     3, "%s", table);
        cr_assert(waited == 0 || (of_it > 0 && of_it <= seconds), "%s", table);
        free(table);
        free(files_read(&files, "stats", 0));
        for (int rank = 0; rank < 2; rank++)
            free(files_read(&files, "trace", rank));
        files_close(&files);
    }
    cr_assert_geq(waited, 1);
}
