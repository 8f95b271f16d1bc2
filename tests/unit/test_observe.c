/* SPDX-License-Identifier: BSD-3-Clause */

/* Statistics and traces without MPI: names of files, the table of a native program, a trace that
 * threads write until it is full. What MPI programs see is in tests/mpi/stats.c and
 * tests/machine/observed. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/barrier.h>
#include <loco/multicast.h>
#include <loco/rw_lock.h>
#include <loco/hash.h>
#include <loco/tree.h>
#include <loco/tx.h>

#include "move/rma.h"
#include "observe/observe.h"
#include "observed.h"
#include "run.h"
#include "wait.h"

/* ---- names ---- */

static struct loco_runtime *some_runtime(void)
{
    struct loco_runtime *rt = calloc(1, sizeof *rt);

    rt->address.identity = 5;
    return rt;
}

static bool name_is(const char *pattern, const char *wanted)
{
    struct loco_runtime *rt = some_runtime();
    char name[256];
    bool is = loci_file_name(rt, pattern, name, sizeof name) && strcmp(name, wanted) == 0;

    free(rt);
    return is;
}

Test(observe, file_names)
{
    char wanted[64];

    snprintf(wanted, sizeof wanted, "x%ld", (long)getpid());
    cr_assert(name_is("t.%r.json", "t.5.json"));
    cr_assert(name_is("x%p", wanted));
    cr_assert(name_is("t.json", "t.5.json"));
    cr_assert(name_is("/a.b/trace", "/a.b/trace.5"));
    cr_assert(name_is(".hidden", ".hidden.5"));
    cr_assert(name_is("a%%b", "a%b.5"));
    cr_assert(name_is("%r%%", "5%"));
}

Test(observe, wrong_file_names)
{
    struct loco_runtime *rt = some_runtime();
    char name[8];

    cr_assert(!loci_file_name(rt, "a%x", name, sizeof name));
    cr_assert(!loci_file_name(rt, "a%r%", name, sizeof name));
    cr_assert(!loci_file_name(rt, "longer.json", name, sizeof name));
    free(rt);
}

/* ---- a native program ---- */

/* Rank 1 waits for the lock until rank 0, which saw in the word that it does, lets go. */
static int locked(loco_runtime_t *rt, int rank, void *arg)
{
    loco_rw_lock_t *lock;
    loco_barrier_t *barrier;

    (void)arg;
    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &lock));
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
    CHECK_OK(loco_barrier_wait(barrier));
    if (rank == 0) {
        int64_t until = run_now() + 50000000;

        while (run_now() < until)
            usleep(1000);
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    } else {
        CHECK_EQ(loco_rw_lock_try_exclusive(lock), LOCO_ERR_AGAIN);
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    }
    CHECK_OK(loco_barrier_wait(barrier));
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(barrier);
    loco_rw_lock_destroy(lock);
    return 0;
}

/* The wait is seen unless rank 1 sleeps through all 50 ms between its two looks: so once in a
 * few attempts. */
Test(observe, native_lock_waits)
{
    long long waits = -1;

    for (int i = 0; i < 20 && waits < 1; i++) {
        struct files files;
        char *table, *trace;

        files_open(&files, "1M");
        if (run_on(RUN_SHM, 2, 0, files.settings, locked, NULL) == 0) {
            table = files_read(&files, "stats", 1);
            trace = files_read(&files, "trace", 1);
            waits = number_of(table, "lock");
            cr_assert_eq(waits > 0 ? waits : 0, count(trace, "\"name\":\"l\""), "%s%s", table,
                         trace);
            free(table);
            free(trace);
        }
        for (int rank = 0; rank < 2; rank++) {
            char path[256];

            snprintf(path, sizeof path, "%s/stats.%d", files.dir, rank);
            unlink(path);
            snprintf(path, sizeof path, "%s/trace.%d", files.dir, rank);
            unlink(path);
        }
        files_close(&files);
    }
    cr_assert_geq(waits, 1);
}

/* ---- transactions on stores ---- */

static const int one_host = 0;

/* What the table is to say: 7 commits of one object, 2 of two, 3 that only read, one conflict. */
static int commit_some(loco_store_t *store, loco_tx_t *tx, loco_tx_t *other)
{
    uint64_t value = 1;

    for (int i = 0; i < 9; i++) {
        CHECK_OK(loco_tx_begin(tx));
        for (int k = 0; k < (i < 7 ? 1 : 2); k++)
            CHECK_OK(loco_tx_write(tx, loco_store_root(store, (uint64_t)k), &value, sizeof value));
        CHECK_OK(loco_tx_commit(tx));
    }
    for (int i = 0; i < 3; i++) {
        CHECK_OK(loco_tx_begin(tx));
        CHECK_OK(loco_tx_read(tx, loco_store_root(store, 0), &value, sizeof value));
        if (i == 0) {           /* somebody else changes it, and tx would, too */
            CHECK_OK(loco_tx_begin(other));
            CHECK_OK(loco_tx_write(other, loco_store_root(store, 0), &value, sizeof value));
            CHECK_OK(loco_tx_commit(other));
            CHECK_OK(loco_tx_write(tx, loco_store_root(store, 0), &value, sizeof value));
            CHECK_EQ(loco_tx_commit(tx), LOCO_ERR_CONFLICT);
            CHECK_OK(loco_tx_begin(tx));
            CHECK_OK(loco_tx_read(tx, loco_store_root(store, 0), &value, sizeof value));
        }
        CHECK_OK(loco_tx_commit(tx));
    }
    return 0;
}

/* Rank 1 has a stock when it dies, which rank 0 finds. */
static int stores(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t options = { .bytes = 1 << 20, .hosts = &one_host, .nhosts = 1 };
    loco_store_scavenged_t found;
    loco_store_t *store;
    loco_tx_t *tx, *other;
    uint64_t value = 0;

    CHECK_OK(loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, &store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(store, &tx));
    CHECK_OK(loco_tx_open(store, &other));
    if (rank == 1) {
        CHECK_OK(loco_tx_begin(tx));
        CHECK_OK(loco_tx_write(tx, loco_store_root(store, 5), &value, sizeof value));
        CHECK_OK(loco_tx_commit(tx));
    }
    CHECK_EQ(run_meet_alive(rt, arg), 0);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    while (loco_group_alive(loco_everyone(rt), 1) == LOCO_OK)
        usleep(1000);
    CHECK_EQ(commit_some(store, tx, other), 0);
    CHECK_OK(loco_store_scavenge(store, &found));
    CHECK(found.blocks >= 200);         /* of 4 pages */
    loco_tx_close(tx);
    loco_tx_close(other);
    loco_store_destroy(store);
    return 0;
}

static int commits_with(const char *trace, const char *args)
{
    char text[160];

    snprintf(text, sizeof text, "\"cat\":\"store\",\"name\":\"commit\",\"args\":{\"store\":"
             "\"objects\",%s}", args);
    return count(trace, text);
}

Test(observe, stores)
{
    struct files files;
    char *table, *trace;

    files_open(&files, "1M");
    cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, stores, run_counter()), 0);
    table = files_read(&files, "stats", 0);
    trace = files_read(&files, "trace", 0);
    cr_assert_eq(number_of(table, "committed"), 13, "%s", table);
    cr_assert_eq(number_of(table, "of one object, with no log"), 8);
    cr_assert_eq(number_of(table, "that wrote nothing"), 3);
    cr_assert_eq(number_of(table, "conflicts"), 1);
    cr_assert_geq(number_of(table, "blocks scavenged"), 200);
    cr_assert_eq(number_of(table, "bytes scavenged"), 64 * number_of(table, "blocks scavenged"));
    cr_assert_eq(commits_with(trace, "\"writes\":1,\"reads\":0"), 9, "%s", trace);
    cr_assert_eq(commits_with(trace, "\"writes\":2,\"reads\":0"), 2);
    cr_assert_eq(commits_with(trace, "\"writes\":0,\"reads\":1"), 3);
    cr_assert_eq(count(trace, "\"name\":\"conflict\""), 1);
    cr_assert_eq(count(trace, "\"status\":"), 1);
    cr_assert_eq(count(trace, "\"name\":\"scavenge\""), 1);
    cr_assert_eq(count(trace, "\"ph\":\"B\""), count(trace, "\"ph\":\"E\""));
    free(table);
    free(trace);
    free(files_read(&files, "trace", 1));
    files_close(&files);
}

/* ---- indexes on stores ---- */

#define KEYS 40u

static int indexes(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t options = { .bytes = 1 << 20, .hosts = &one_host, .nhosts = 1 };
    const loco_tree_options_t small = { .leaf_bytes = 128 };
    unsigned char bytes[8], value[8];
    const loco_hash_options_t small_too = { .leaf_bytes = 128 };
    loco_tree_stats_t stats;
    loco_hash_stats_t of_hash;
    loco_store_t *store;
    loco_tree_t *tree;
    loco_hash_t *hash;
    loco_tx_t *tx;
    size_t len;

    (void)arg;
    CHECK_OK(loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, &store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(store, &tx));
    CHECK_OK(loco_tree_open(tx, loco_store_root(store, 0), &small, &tree));
    for (uint64_t i = 0; i < KEYS && rank == 0; i++)
        CHECK_OK(loco_tree_put(tree, loco_key64(i, bytes), loco_text("a value.")));
    for (uint64_t i = 0; i < KEYS && rank == 0; i++)
        CHECK_OK(loco_tree_get(tree, loco_key64(i, bytes), value, sizeof value, &len));
    for (uint64_t i = 0; i < KEYS && rank == 0; i++)
        CHECK_OK(loco_tree_delete(tree, loco_key64(i, bytes)));
    loco_tree_stats(tree, &stats);
    CHECK_EQ(stats.lookups, rank == 0 ? 3 * KEYS : 0);
    CHECK_EQ(stats.splits, stats.removed);
    CHECK_OK(loco_hash_open(tx, loco_store_root(store, 1), &small_too, &hash));
    for (uint64_t i = 0; i < KEYS && rank == 0; i++)
        CHECK_OK(loco_hash_put(hash, loco_key64(i, bytes), loco_text("a value.")));
    for (uint64_t i = 0; i < KEYS && rank == 0; i++)
        CHECK_OK(loco_hash_get(hash, loco_key64(i, bytes), value, sizeof value, &len));
    loco_hash_stats(hash, &of_hash);
    CHECK_EQ(of_hash.lookups, rank == 0 ? 2 * KEYS : 0);
    CHECK(rank != 0 || of_hash.splits >= KEYS / 5);
    CHECK_OK(run_meet(rt));
    loco_hash_close(hash);
    loco_tree_close(tree);
    loco_tx_close(tx);
    loco_store_destroy(store);
    return 0;
}

Test(observe, indexes)
{
    struct files files;
    char *table;

    files_open(&files, "1M");
    cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, indexes, NULL), 0);
    table = files_read(&files, "stats", 0);
    cr_assert_eq(number_of(table, "leaves looked up"), 5 * KEYS, "%s", table);
    cr_assert_geq(number_of(table, "nodes split"), 2 * (KEYS / 5));
    cr_assert_geq(number_of(table, "nodes taken out"), KEYS / 5);
    free(table);
    free(files_read(&files, "stats", 1));
    free(files_read(&files, "trace", 0));
    free(files_read(&files, "trace", 1));
    files_close(&files);
}

/* ---- multicasts ---- */

static void count_messages(void *arg, const loco_delivery_t *messages, int n)
{
    (void)messages;
    atomic_fetch_add((atomic_int *)arg, n);
}

/* Rank 0 sends to a member whose slots are full now and then: of one. */
static int multicasts(loco_runtime_t *rt, int rank, void *arg)
{
    atomic_int got = 0;
    const loco_multicast_options_t options = {
        .slots = 1, .slot_bytes = 8, .handler = count_messages, .arg = &got,
    };
    loco_multicast_t *m;
    uint64_t number = 0;

    (void)arg;
    CHECK_OK(loco_multicast_create(rt, NULL, "news", loco_everyone(rt), &options, &m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 20 && rank == 0; i++)
        CHECK_OK(loco_multicast_post(m, &i, sizeof i, &number));
    if (rank == 0)
        CHECK_OK(loco_multicast_wait_delivered(m, number));
    CHECK_OK(run_meet(rt));
    CHECK_EQ(atomic_load(&got), 20);
    loco_multicast_destroy(m);
    return 0;
}

Test(observe, multicasts)
{
    struct files files;
    char *table, *trace;

    files_open(&files, "1M");
    cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, multicasts, NULL), 0);
    table = files_read(&files, "stats", 0);
    trace = files_read(&files, "trace", 0);
    cr_assert_eq(number_of(table, "messages sent"), 20, "%s", table);
    cr_assert_eq(number_of(table, "messages delivered"), 20);
    cr_assert_geq(number_of(table, "times no slot was free"), 1);
    cr_assert_geq(count(trace, "\"cat\":\"multicast\",\"name\":\"deliver\""), 1, "%s", trace);
    cr_assert_geq(count(trace, "\"name\":\"no slot is free\""), 1);
    cr_assert_eq(count(trace, "\"messages\":1}"), 2 * 20);
    cr_assert_eq(count(trace, "\"ph\":\"B\""), count(trace, "\"ph\":\"E\""));
    free(table);
    free(trace);
    table = files_read(&files, "stats", 1);
    cr_assert_geq(number_of(table, "nulls"), 19, "%s", table);
    free(table);
    free(files_read(&files, "trace", 1));
    files_close(&files);
}

/* ---- fences by what they do ---- */

static int fences(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t before[LOCI_STATS_FENCES], place, nothing;

    (void)arg;
    (void)rank;
    loci_observe_stats(rt, true);
    for (int i = 0; i < LOCI_STATS_FENCES; i++)
        before[i] = loci_stats_get(rt->stats, LOCI_STAT_FENCES + i);
    CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    loci_observe_stats(rt, false);
    CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    place = loci_stats_get(rt->stats, LOCI_STAT_FENCES + LOCI_STATS_PLACE);
    nothing = loci_stats_get(rt->stats, LOCI_STAT_FENCES + LOCI_STATS_NOTHING);
    CHECK_EQ(place - before[LOCI_STATS_PLACE] + nothing - before[LOCI_STATS_NOTHING], 2);
    return 0;
}

Test(observe, fences)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, fences, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, fences, NULL), 0);
}

/* ---- what goes over TCP ---- */

/* Each barrier writes a word to the other process. */
static int over_tcp(loco_runtime_t *rt, int rank, void *arg)
{
    loco_barrier_t *barrier;

    (void)arg;
    (void)rank;
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0; i < 10; i++)
        CHECK_OK(loco_barrier_wait(barrier));
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(barrier);
    return 0;
}

/* Two processes on `nodes` nodes; their tables. */
static void tables_of(const char *nodes, char *table[2])
{
    struct files files;

    files_open(&files, "1M");
    files.settings[1] = "LOCO_FABRIC=tcp";
    files.settings[2] = NULL;
    setenv("TEST_NODES", nodes, 1);
    cr_assert_eq(run_on(RUN_SHM, 2, 0, files.settings, over_tcp, NULL), 0);
    for (int rank = 0; rank < 2; rank++)
        table[rank] = files_read(&files, "stats", rank);
    files_close(&files);
}

/* Each barrier is a request of 40 bytes at least, each way. What a process does after its table is
 * written, such as to answer the other's last request, is not in it. */
Test(observe, tcp)
{
    const long long late = 5 * 40;
    char *table[2];

    tables_of("2", table);
    for (int rank = 0; rank < 2; rank++) {
        long long sent = number_of(table[1 - rank], "bytes sent");
        long long received = number_of(table[rank], "bytes received");

        cr_assert_eq(number_of(table[rank], "connections made"), 1, "%s", table[rank]);
        cr_assert_geq(number_of(table[rank], "requests served"), 10, "%s", table[rank]);
        cr_assert_geq(sent, 400, "%s", table[1 - rank]);
        cr_assert(received >= sent - late && received <= sent + late, "%s%s", table[0], table[1]);
    }
    free(table[0]);
    free(table[1]);
}

Test(observe, nothing_of_tcp_on_one_node)
{
    char *table[2];

    tables_of("1", table);
    for (int rank = 0; rank < 2; rank++) {
        cr_assert_eq(number_of(table[rank], "over"), -1, "%s", table[rank]);
        cr_assert_eq(number_of(table[rank], "connections made"), -1, "%s", table[rank]);
        free(table[rank]);
    }
}

/* ---- fences of what is not placed ---- */

/* A write that is not placed needs a place; then nothing is left to do. */
static int dirty(loco_runtime_t *rt, int rank, void *arg)
{
    loco_barrier_t *barrier;
    uint64_t placed;

    (void)arg;
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_barrier_wait(barrier));       /* has written to the others */
    if (rank == 0) {
        loci_observe_stats(rt, true);
        CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
        placed = loci_stats_get(rt->stats, LOCI_STAT_FENCES + LOCI_STATS_PLACE)
                 + loci_stats_get(rt->stats, LOCI_STAT_FENCES + LOCI_STATS_ACK);
        CHECK_EQ(placed, 1);
        CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
        CHECK_EQ(loci_stats_get(rt->stats, LOCI_STAT_FENCES + LOCI_STATS_NOTHING), 1);
        loci_observe_stats(rt, false);
    }
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(barrier);
    return 0;
}

Test(observe, fence_of_unplaced_writes)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, dirty, NULL), 0);
}

/* ---- traces ---- */

#define THREADS 4
#define EVENTS 3000

static int trace_events(void *arg, int thread)
{
    loco_runtime_t *rt = arg;
    struct loci_trace_arg args[2] = { { "thread", thread, NULL }, { "i", -1, NULL } };

    for (int i = 0; i < EVENTS; i++) {
        bool outer = loci_trace_begin(rt, "test", "outer \"\\\n", args, 2);
        bool inner = loci_trace_begin(rt, "test", "inner", args, 1);

        if (inner)
            loci_trace_end(rt, NULL, 0);
        if (outer)
            loci_trace_end(rt, args, 1);
    }
    return 0;
}

static int traced(loco_runtime_t *rt, int rank, void *arg)
{
    (void)rank;
    (void)arg;
    return run_threads(THREADS, trace_events, rt);
}

static void check_trace(const char *limit, bool all)
{
    struct files files;
    int begins, ends;
    char *trace;
    size_t len;

    files_open(&files, limit);
    cr_assert_eq(run_on(RUN_SHM, 1, 0, files.settings, traced, NULL), 0);
    free(files_read(&files, "stats", 0));
    trace = files_read(&files, "trace", 0);
    len = strlen(trace);
    begins = count(trace, "\"ph\":\"B\"");
    ends = count(trace, "\"ph\":\"E\"");
    cr_assert_eq(begins, ends);
    cr_assert_eq(count(trace, "\"name\":\"outer \\\"\\\\?\"") + count(trace, "\"inner\""), begins);
    cr_assert_eq(strncmp(trace, "[\n{", 3), 0);
    cr_assert_str_eq(trace + len - 4, "}\n]\n");
    if (all) {
        cr_assert_eq(begins, 2 * THREADS * EVENTS);
        cr_assert_eq(count(trace, "dropped"), 0);
    } else {
        cr_assert(begins > 0 && begins < 2 * THREADS * EVENTS, "%d", begins);
        cr_assert_eq(count(trace, "\"name\":\"dropped\""), 1);
        cr_assert_leq(len, (size_t)512 << 10);
    }
    free(trace);
    files_close(&files);
}

Test(observe, trace_of_threads)
{
    check_trace("inf", true);
}

Test(observe, full_trace)
{
    check_trace("512K", false);
}

/* ---- a file in trouble ---- */

/* What a trace looks like to a reader while its process lives. */
static bool is_whole(const char *trace)
{
    size_t len = strlen(trace);

    return len > 10 && strncmp(trace, "[\n{", 3) == 0 && strcmp(trace + len - 4, "}\n]\n") == 0
           && count(trace, "\n]") == 1;
}

static char *read_trace(const char *path)
{
    char *text = calloc(1, (size_t)4 << 20);
    FILE *f = fopen(path, "r");

    if (f != NULL && text != NULL) {
        size_t n = fread(text, 1, ((size_t)4 << 20) - 1, f);

        if (strlen(text) != n)
            text[0] = '\0';         /* zeros in it */
        fclose(f);
    }
    return text;
}

/* 1 once the file is whole and has the mark, which takes a twentieth of a second. */
static int has_mark(const char *path, const char *mark)
{
    int64_t until = run_now() + 10000000000;
    int found = 0;

    while (!found && run_now() < until) {
        char *trace = read_trace(path);

        found = is_whole(trace) && count(trace, mark) == 1;
        free(trace);
        usleep(10000);
    }
    return found;
}

static int marks(loco_runtime_t *rt, int rank, void *arg)
{
    const char *path = arg;

    (void)rank;
    for (int i = 0; i < 100; i++)
        loci_trace_mark(rt, "test", "past", NULL, 0);
    loci_trace_mark(rt, "test", "first", NULL, 0);
    CHECK_EQ(has_mark(path, "\"name\":\"first\""), 1);
    return 0;
}

static void with_trace(int (*body)(loco_runtime_t *, int, void *), bool kept)
{
    struct files files;
    char path[128];

    files_open(&files, "inf");
    snprintf(path, sizeof path, "%s/trace.0", files.dir);
    cr_assert_eq(run_on(RUN_SHM, 1, 0, files.settings, body, path), 0);
    free(files_read(&files, "stats", 0));
    if (kept) {
        char *trace = files_read(&files, "trace", 0);

        cr_assert(is_whole(trace));
        free(trace);
    }
    files_close(&files);
}

/* Nothing but time passes until it is in the file. */
Test(observe, a_trace_is_written_while_its_process_lives, .timeout = 60)
{
    with_trace(marks, true);
}

static int cut(loco_runtime_t *rt, int rank, void *arg)
{
    const char *path = arg;

    CHECK_EQ(marks(rt, rank, arg), 0);
    CHECK_EQ(truncate(path, 0), 0);
    loci_trace_mark(rt, "test", "second", NULL, 0);
    CHECK_EQ(has_mark(path, "\"name\":\"second\""), 1);
    CHECK_EQ(has_mark(path, "\"name\":\"process_name\""), 1);
    CHECK_EQ(truncate(path, 17), 0);
    loci_trace_mark(rt, "test", "third", NULL, 0);
    CHECK_EQ(has_mark(path, "\"name\":\"third\""), 1);
    return 0;
}

Test(observe, a_trace_that_is_cut_begins_anew, .timeout = 60)
{
    with_trace(cut, true);
}

/* From some size on the file may not grow: it stays valid, and the program goes on. */
static int fills(loco_runtime_t *rt, int rank, void *arg)
{
    struct rlimit limit = { 0, RLIM_INFINITY };
    const char *path = arg;
    char *trace;

    CHECK_EQ(marks(rt, rank, arg), 0);
    trace = read_trace(path);
    limit.rlim_cur = strlen(trace) + 3000;
    free(trace);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 2000; i++)
        loci_trace_mark(rt, "test", "more", NULL, 0);
    CHECK_EQ(loci_observed(rt) & LOCI_OBSERVE_TRACE, 0);
    trace = read_trace(path);
    CHECK_EQ(is_whole(trace), true);
    CHECK_EQ(strlen(trace) > limit.rlim_cur - 300 && strlen(trace) <= limit.rlim_cur, true);
    free(trace);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return 0;
}

Test(observe, a_trace_that_fills_what_there_is_stays_valid, .timeout = 60)
{
    with_trace(fills, true);
}

static int removed(loco_runtime_t *rt, int rank, void *arg)
{
    CHECK_EQ(marks(rt, rank, arg), 0);
    CHECK_EQ(unlink(arg), 0);
    for (int i = 0; i < 2000; i++)
        loci_trace_mark(rt, "test", "more", NULL, 0);
    CHECK_EQ(loci_observed(rt) & LOCI_OBSERVE_TRACE, 0);
    return 0;
}

Test(observe, a_trace_that_is_removed_ends)
{
    with_trace(removed, false);
}

/* What a forked child says of its parent's events is not written twice. */
static int forked(loco_runtime_t *rt, int rank, void *arg)
{
    int status = 1;
    char *trace;
    pid_t child;

    loci_trace_mark(rt, "test", "once", NULL, 0);
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++)
            loci_trace_mark(rt, "test", "child", NULL, 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(marks(rt, rank, arg), 0);
    CHECK_EQ(has_mark(arg, "\"name\":\"once\""), 1);
    trace = read_trace(arg);
    CHECK_EQ(count(trace, "child"), 0);
    free(trace);
    return 0;
}

Test(observe, a_forked_child_leaves_the_trace_alone, .timeout = 60)
{
    with_trace(forked, true);
}
