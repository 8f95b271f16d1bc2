/* SPDX-License-Identifier: BSD-3-Clause */
/* How often calls on trees and hash tables wait for the network, one time after the other: what
 * they take in virtual time, in round trips, where a trip is all that takes time. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"

/* So few leaves that a lane of the simulator has room for all that is in flight at once. */
#define KEYS 32u                /* in 8 leaves, below the root */
#define A_LEAF 4u               /* keys of one */
#define MANY 3u
#define HOST 0
#define TRIP INT64_C(1000000)      /* ns, one way: beside it nothing counts */

static int tests, failures;

struct run {
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    loco_hash_t *hash;
    int64_t trip;
    int status;                 /* the first that was not LOCO_OK */
};

static void waits(struct run *r, int64_t began, int wanted, int status, const char *what)
{
    int64_t took = loci_sim_time() - began;
    bool ok = status == LOCO_OK && took > (2 * wanted - 1) * r->trip / 2
              && took < (2 * wanted + 1) * r->trip / 2;

    printf("%sok %d - %s: %d wait%s\n", ok ? "" : "not ", ++tests, what, wanted,
           wanted == 1 ? "" : "s");
    if (!ok)
        printf("# it took %lld ns, and a trip takes %lld: %s\n", (long long)took,
               (long long)r->trip, loco_strerror(status));
    failures += !ok;
    r->status = r->status != LOCO_OK ? r->status : status;
}

#define WAITS(r, wanted, call, what)                                                              \
    do {                                                                                          \
        int64_t began_ = loci_sim_time();                                                         \
        int status_ = (call);                                                                     \
        waits(r, began_, wanted, status_, what);                                                  \
    } while (0)

/* ---- calls ---- */

static int get(struct run *r, uint64_t key)
{
    unsigned char bytes[8], value[8];
    size_t len;

    return loco_tree_get(r->tree, loco_key64(key, bytes), value, sizeof value, &len);
}

static int update(struct run *r, uint64_t key)
{
    unsigned char bytes[8];

    return loco_tree_update(r->tree, loco_key64(key, bytes), loco_text("another."));
}

#define LONG "of a key whose value is in an object of its own"

static int put_long(struct run *r)
{
    static const unsigned char value[200];
    unsigned char bytes[8];

    return loco_tree_put(r->tree, loco_key64(2 * A_LEAF, bytes), loco_bytes(value, sizeof value));
}

static int put_short(struct run *r)
{
    unsigned char bytes[8];
    loco_bytes_t key = loco_key64(2 * A_LEAF, bytes);
    int status = loco_tree_delete(r->tree, key);

    return status == LOCO_OK ? loco_tree_put(r->tree, key, loco_text("a value.")) : status;
}

static int get_many(struct run *r, uint64_t first)
{
    unsigned char bytes[MANY][8], values[MANY][8];
    int statuses[MANY], status;
    loco_bytes_t keys[MANY];
    size_t lens[MANY];

    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = loco_key64(first + i * A_LEAF, bytes[i]);
    status = loco_tree_get_many(r->tree, MANY, keys, values, sizeof values[0], lens, statuses);
    for (uint64_t i = 0; i < MANY && status == LOCO_OK; i++)
        status = statuses[i];
    return status;
}

static int put_many(struct run *r, uint64_t first)
{
    loco_bytes_t keys[MANY], values[MANY];
    unsigned char bytes[MANY][8];

    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = loco_key64(first + i * A_LEAF, bytes[i]);
        values[i] = loco_text("one more");
    }
    return loco_tree_put_many(r->tree, MANY, keys, values);
}

static int count(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    (void)key;
    (void)value;
    ++*(uint64_t *)ctx;
    return 0;
}

static int scan(struct run *r)
{
    uint64_t n = 0;
    int status = loco_tree_scan(r->tree, NULL, NULL, 0, count, &n);

    return status == LOCO_OK && n != KEYS ? LOCO_ERR_NOT_FOUND : status;
}

/* Some of these have objects of their own. */
#define LONG_EACH 8u
static int fill_long(struct run *r)
{
    static const unsigned char value[200];
    unsigned char bytes[8];
    int status = LOCO_OK;

    for (uint64_t i = 0; i < KEYS && status == LOCO_OK; i += LONG_EACH)
        status = loco_tree_put(r->tree, loco_key64(i, bytes), loco_bytes(value, sizeof value));
    return status;
}

static int scan_tx(struct run *r)
{
    int status = loco_tx_begin(r->tx);

    if (status == LOCO_OK)
        status = scan(r);
    return status == LOCO_OK ? loco_tx_commit(r->tx) : status;
}

static int scan_back(struct run *r)
{
    loco_tree_cursor_t *cursor;
    loco_bytes_t key, value;
    uint64_t n = 0;
    int status = loco_tree_cursor_open(r->tree, NULL, &cursor);

    if (status == LOCO_OK)
        loco_tree_cursor_seek_last(cursor);
    for (; status == LOCO_OK; n += status == LOCO_OK)
        status = loco_tree_cursor_prev(cursor, &key, &value);
    loco_tree_cursor_close(cursor);
    return status == LOCO_ERR_NOT_FOUND && n == KEYS ? LOCO_OK : status;
}

static int reopen(struct run *r)
{
    int status;

    loco_tree_close(r->tree);
    loco_tx_close(r->tx);
    r->tree = NULL;
    r->tx = NULL;
    status = loco_tx_open(r->store, &r->tx);
    return status != LOCO_OK ? status
           : loco_tree_open(r->tx, loco_store_root(r->store, 0),
                            &(loco_tree_options_t){ .leaf_bytes = 128 }, &r->tree);
}

/* ---- calls on a table ---- */

static int reopen_hash(struct run *r)
{
    loco_hash_close(r->hash);
    r->hash = NULL;
    return loco_hash_open(r->tx, loco_store_root(r->store, 1),
                          &(loco_hash_options_t){ .leaf_bytes = 256 }, &r->hash);
}

static int hash_get(struct run *r, uint64_t key)
{
    unsigned char bytes[8], value[8];
    size_t len;

    return loco_hash_get(r->hash, loco_key64(key, bytes), value, sizeof value, &len);
}

static int hash_update(struct run *r, uint64_t key)
{
    unsigned char bytes[8];

    return loco_hash_update(r->hash, loco_key64(key, bytes), loco_text("another."));
}

static int hash_get_many(struct run *r)
{
    unsigned char bytes[MANY][8], values[MANY][8];
    loco_bytes_t keys[MANY];
    int statuses[MANY];
    size_t lens[MANY];

    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = loco_key64(i, bytes[i]);
    return loco_hash_get_many(r->hash, MANY, keys, values, sizeof values[0], lens, statuses);
}

static int hash_scan(struct run *r)
{
    uint64_t n = 0;
    int status = loco_hash_scan(r->hash, count, &n);

    return status == LOCO_OK && n != KEYS ? LOCO_ERR_NOT_FOUND : status;
}

static int hash_scan_tx(struct run *r)
{
    int status = loco_tx_begin(r->tx);

    if (status == LOCO_OK)
        status = hash_scan(r);
    return status == LOCO_OK ? loco_tx_commit(r->tx) : status;
}

static int hash_fill_long(struct run *r)
{
    static const unsigned char value[200];
    unsigned char bytes[8];
    int status = LOCO_OK;

    for (uint64_t i = 0; i < KEYS && status == LOCO_OK; i += LONG_EACH)
        status = loco_hash_put(r->hash, loco_key64(i, bytes), loco_bytes(value, sizeof value));
    return status;
}

/* The directory knows all leaves by then. */
static int hash_fill(struct run *r)
{
    int status = reopen_hash(r);

    for (uint64_t i = 0; i < 6 * KEYS && status == LOCO_OK; i++) {
        unsigned char bytes[8];

        status = i < KEYS ? loco_hash_put(r->hash, loco_key64(i, bytes), loco_text("a value."))
                 : hash_get(r, i % KEYS);
    }
    return status;
}

/* ---- what is counted ---- */

/* A word of an object that this handle for transactions has seen before spares a wait. */
static void table(struct run *r)
{
    WAITS(r, 2, reopen_hash(r), "to open a table: its root was never seen");
    WAITS(r, 4, hash_get(r, 0), "a get: a part of the directory and a leaf, neither was ever seen");
    WAITS(r, 1, hash_get(r, 0), "the same again");
    (void)hash_update(r, 0);            /* it takes memory for leaves of that size */
    WAITS(r, 2, hash_update(r, 0), "an update of it");
    WAITS(r, 1, hash_get(r, 0), "to get what it was given");
    WAITS(r, 1, reopen_hash(r), "to open it again");
    WAITS(r, 2, hash_get(r, 0), "a get with no copy of the directory, of what was seen before");
    for (uint64_t key = 0; key < KEYS; key++)
        (void)hash_get(r, key);
    for (uint64_t key = 1; key < KEYS; key += 7)
        WAITS(r, 1, hash_get(r, key), "a key of the table");
    WAITS(r, 1, hash_get_many(r), "three keys of the table");
    WAITS(r, 2, hash_scan(r), "a scan of the table");
    WAITS(r, 2, hash_scan_tx(r), "the same in a transaction");
    r->status = r->status != LOCO_OK ? r->status : hash_fill_long(r);
    WAITS(r, 4, hash_scan(r), "a scan of the table, with values in objects of their own");
    WAITS(r, 4, hash_scan_tx(r), "the same in a transaction, which looks at cells again");
}

static void long_values(struct run *r)
{
    r->status = r->status != LOCO_OK ? r->status : fill_long(r);
    WAITS(r, 4, scan(r), "a scan some of whose values have objects of their own");
    WAITS(r, 4, scan_tx(r), "the same in a transaction, which looks at cells again");
    WAITS(r, 7, scan_back(r), "the same from the end to the begin");
}

static void single_keys(struct run *r)
{
    WAITS(r, 2, reopen(r), "to open a tree: its root was never seen");
    WAITS(r, 3, get(r, 0), "a get that knows nothing: the root again, a leaf that was never seen");
    WAITS(r, 1, get(r, 0), "the same again");
    WAITS(r, 1, get(r, 1), "another key of that leaf");
    WAITS(r, 2, get(r, A_LEAF), "a key of a leaf that was never seen");
    WAITS(r, 2, update(r, 1), "an update of a leaf that was");
    WAITS(r, 2, update(r, 2), "another one");
    r->status = r->status != LOCO_OK ? r->status : put_long(r);
    WAITS(r, 1, get(r, 2 * A_LEAF), "a get " LONG);
    WAITS(r, 2, put_long(r), "an update " LONG);
    r->status = r->status != LOCO_OK ? r->status : put_short(r);
}

static void many_keys(struct run *r)
{
    WAITS(r, 2, get_many(r, 5 * A_LEAF), "three keys of three leaves that were never seen");
    WAITS(r, 1, get_many(r, 5 * A_LEAF), "the same again");
    WAITS(r, 3, put_many(r, 5 * A_LEAF), "to put three keys: one, and a commit's two");
    WAITS(r, 1, get_many(r, 5 * A_LEAF), "to get what was put");
}

/* 8 leaves: 4, 4; from the end 1, 2, 4, 1. */
static void scans(struct run *r)
{
    WAITS(r, 2, reopen(r), "to open a tree once more");
    WAITS(r, 5, scan(r), "a scan that knows nothing: the root, and two groups of leaves");
    WAITS(r, 2, scan(r), "the same again");
    WAITS(r, 2, scan_tx(r), "the same in a transaction");
    WAITS(r, 4, scan_back(r), "from the end to the begin");
}

/* ---- the run ---- */

static int fill_tree(struct run *r)
{
    int status = reopen(r);

    for (uint64_t i = 0; i < KEYS && status == LOCO_OK; i++) {
        unsigned char bytes[8];

        status = loco_tree_put(r->tree, loco_key64(i, bytes), loco_text("a value."));
    }
    return status;
}

static int fill(struct run *r)
{
    int status = fill_tree(r);

    return status == LOCO_OK ? hash_fill(r) : status;
}

/* A client's first commit of several objects also finds out what its log slot holds. */
static int begin(struct run *r)
{
    int status = reopen(r);

    return status == LOCO_OK ? put_many(r, 0) : status;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int hosts[] = { HOST };
    const loco_store_options_t options = {
        .bytes = 1 << 16, .roots = 2, .hosts = hosts, .nhosts = 1, .threads = 1,
    };
    struct run r = *(const struct run *)arg;
    int64_t turn = INT64_C(1000000000);
    int status = loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, &r.store);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (rank == HOST && status == LOCO_OK)
        status = fill(&r);
    loci_sim_sleep((1 + rank) * turn - loci_sim_time());
    if (rank != HOST && status == LOCO_OK)
        status = begin(&r);
    if (rank != HOST && status == LOCO_OK) {
        single_keys(&r);
        many_keys(&r);
        scans(&r);
        table(&r);
        long_values(&r);
    }
    loci_sim_sleep(4 * turn - loci_sim_time());
    loco_hash_close(r.hash);
    loco_tree_close(r.tree);
    loco_tx_close(r.tx);
    loco_store_destroy(r.store);
    return status != LOCO_OK || r.status != LOCO_OK;
}

int main(void)
{
    struct loci_sim_cost cost = *loci_sim_cost_named("ib100");
    const struct loci_sim_config config = {
        .processes = 2, .seed = 1, .strategy = LOCI_SIM_TIMED, .faults = LOCI_SIM_NO_FAULTS,
        .step_limit = UINT64_MAX, .cost = &cost,
    };
    struct run run = { .trip = 2 * TRIP };
    struct loci_sim_result result;

    cost.wire = TRIP;
    loci_sim_run(&config, body, &run, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("# %s\n", result.text);
    printf("%sok %d - all of it\n", result.verdict == LOCI_SIM_PASSED ? "" : "not ", ++tests);
    failures += result.verdict != LOCI_SIM_PASSED;
    printf("1..%d\n", tests);
    return failures != 0;
}
