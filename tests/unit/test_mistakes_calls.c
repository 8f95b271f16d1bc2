/* SPDX-License-Identifier: BSD-3-Clause */

/* Mistakes in calls on channels that are there: the log names the cause and the remedy. */

#include <criterion/criterion.h>

#include <loco/loco.h>

#include "run.h"
#include "weak.h"

static int make_store(loco_runtime_t *rt, const loco_store_options_t *options,
                      loco_store_t **store, loco_tx_t **tx)
{
    CHECK_OK(loco_store_create(rt, NULL, "s", loco_everyone(rt), options, store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(*store, tx));
    return 0;
}

/* ---- transactions ---- */

static int outside_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t options = { .bytes = 1 << 20 };
    loco_object_t object;
    loco_store_t *store;
    uint64_t value = 1;
    loco_tx_t *tx;
    int status;

    (void)rank, (void)arg;
    CHECK(make_store(rt, &options, &store, &tx) == 0);
    object = loco_store_root(store, 0);
    CHECK_EQ(loco_tx_write(tx, object, &value, 8), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_read(tx, object, &value, 8), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_read_many(tx, 1, &object, &value, 8, &status), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_new(tx, LOCO_ANY_HOST, &value, 8, &object), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_free(tx, loco_store_root(store, 0)), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_commit(tx), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_validate(tx), LOCO_ERR_STATE);
    loco_tx_close(tx);
    loco_store_destroy(store);
    CHECK_EQ(weak_logged(rt, "(s): no transaction is begun: loco_tx_begin or loco_tx_run"), 7);
    CHECK_EQ(weak_logged(rt, "loco_tx_write(s): no transaction is begun"), 1);
    return 0;
}

Test(mistakes_calls, calls_outside_a_transaction)
{
    cr_assert_eq(weak_run(1, 0, NULL, outside_body, NULL), 0);
}

/* ---- maps ---- */

static int sizes_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t options = { .bytes = 1 << 20 };
    uint64_t before;
    loco_store_t *store;
    loco_hash_t *hash;
    loco_tree_t *tree;
    loco_tx_t *tx;

    (void)rank, (void)arg;
    CHECK(make_store(rt, &options, &store, &tx) == 0);
    CHECK_OK(loco_hash_open(tx, loco_store_root(store, 0), NULL, &hash));
    CHECK_EQ(loco_tree_open(tx, loco_store_root(store, 0), NULL, &tree), LOCO_ERR_MISMATCH);
    CHECK_EQ(weak_logged(rt, "loco_tree_open(s): object "), 1);
    CHECK_EQ(weak_logged(rt, "holds something else than a tree"), 1);
    CHECK_OK(loco_tree_open(tx, loco_store_root(store, 1), NULL, &tree));
    CHECK_EQ(loco_hash_open(tx, loco_store_root(store, 1), NULL, &hash), LOCO_ERR_MISMATCH);
    CHECK_EQ(weak_logged(rt, "holds something else than a hash table"), 1);
    CHECK_OK(loco_hash_put(hash, loco_text("name"), loco_text("ada")));
    CHECK_EQ(loco_hash_add(hash, loco_text("name"), 1, &before), LOCO_ERR_SIZE);
    CHECK_EQ(weak_logged(rt, "loco_hash(s): the value has 3 bytes, and _add is for numbers"), 1);
    loco_tree_close(tree);
    loco_hash_close(hash);
    loco_tx_close(tx);
    loco_store_destroy(store);
    return 0;
}

Test(mistakes_calls, what_a_root_or_a_value_is_not)
{
    cr_assert_eq(weak_run(1, 0, NULL, sizes_body, NULL), 0);
}

/* Keys until the store is full, and some more. */
static int fill(loco_runtime_t *rt, const loco_store_options_t *options)
{
    unsigned char key[8], value[200] = { 0 };
    int status = LOCO_OK, full = 0;
    loco_store_t *store;
    loco_hash_t *hash;
    loco_tx_t *tx;

    CHECK(make_store(rt, options, &store, &tx) == 0);
    CHECK_OK(loco_hash_open(tx, loco_store_root(store, 0), NULL, &hash));
    for (uint64_t i = 0; i < 100000 && full < 3; i++) {
        status = loco_hash_put(hash, loco_key64(i, key), loco_bytes(value, sizeof value));
        CHECK(status == LOCO_OK || status == LOCO_ERR_FULL);
        full += status == LOCO_ERR_FULL;
    }
    CHECK_EQ(full, 3);
    loco_hash_close(hash);
    loco_tx_close(tx);
    loco_store_destroy(store);
    return 0;
}

static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_store_options_t little_memory = { .bytes = 1 << 20, .objects = 100000 };
    const loco_store_options_t few_objects = { .bytes = 8 << 20, .objects = 64, .roots = 1 };

    (void)rank, (void)arg;
    CHECK(fill(rt, &little_memory) == 0);
    CHECK_EQ(weak_logged(rt, "store s is full: all 1048576 bytes for values at rank 0"), 1);
    CHECK_EQ(weak_logged(rt, "its option bytes makes more"), 1);
    CHECK(fill(rt, &few_objects) == 0);
    CHECK_EQ(weak_logged(rt, "store s is full: all "), 2);
    CHECK_EQ(weak_logged(rt, "its option objects makes more"), 1);
    return 0;
}

Test(mistakes_calls, a_full_store_is_told_once, .timeout = RUN_SECONDS)
{
    cr_assert_eq(weak_run(1, 0, NULL, full_body, NULL), 0);
}

/* ---- multicasts ---- */

static void take(void *arg, const loco_delivery_t *messages, int n)
{
    (void)arg, (void)messages, (void)n;
}

static int long_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_multicast_options_t options = { .slot_bytes = 64, .handler = take };
    char message[100] = { 0 };
    loco_multicast_t *m;
    void *slot;

    (void)rank, (void)arg;
    CHECK_OK(loco_multicast_create(rt, NULL, "m", loco_everyone(rt), &options, &m));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_multicast_post(m, message, sizeof message, NULL), LOCO_ERR_ARG);
    CHECK_EQ(weak_logged(rt, "loco_multicast_post(m): a message of 100 bytes; the most is 64: its "
                         "option slot_bytes"), 1);
    CHECK_OK(loco_multicast_reserve(m, &slot));
    CHECK_EQ(loco_multicast_send(m, slot, sizeof message, NULL), LOCO_ERR_ARG);
    CHECK_EQ(weak_logged(rt, "loco_multicast_send(m): a message of 100 bytes"), 1);
    CHECK_OK(loco_multicast_send(m, slot, 64, NULL));
    loco_multicast_destroy(m);
    return 0;
}

Test(mistakes_calls, a_message_that_is_too_long)
{
    cr_assert_eq(weak_run(1, 0, NULL, long_body, NULL), 0);
}
