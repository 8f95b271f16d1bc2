/* SPDX-License-Identifier: BSD-3-Clause */

/* Trees between real processes, and threads over the weak fabric. That histories are linearizable
 * is the simulator's part (tools/sim/scenario_tree.c). */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "run.h"

#define MEET() CHECK_OK(run_meet(rt))

struct seat {
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
};

static int open_seat(loco_runtime_t *rt, const loco_tree_options_t *options, struct seat *s)
{
    CHECK_OK(loco_store_create(rt, NULL, "store", loco_everyone(rt),
                               &(loco_store_options_t){ .bytes = 4 << 20 }, &s->store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(s->store, &s->tx));
    CHECK_OK(loco_tree_open(s->tx, loco_store_root(s->store, 3), options, &s->tree));
    return 0;
}

static int close_seat(loco_runtime_t *rt, struct seat *s)
{
    MEET();
    loco_tree_close(s->tree);
    loco_tx_close(s->tx);
    loco_store_destroy(s->store);
    return 0;
}

/* ---- one after the other ---- */

static int texts(loco_tree_t *tree)
{
    char text[8];
    size_t len;

    CHECK_EQ(loco_tree_get(tree, loco_text("pear"), text, sizeof text, &len), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tree_update(tree, loco_text("pear"), loco_text("1")), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tree_delete(tree, loco_text("pear")), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tree_compare_set(tree, loco_text("pear"), loco_text(""), loco_text("1")),
             LOCO_ERR_NOT_FOUND);
    CHECK_OK(loco_tree_insert(tree, loco_text("pear"), loco_text("1")));
    CHECK_EQ(loco_tree_insert(tree, loco_text("pear"), loco_text("2")), LOCO_ERR_EXISTS);
    CHECK_OK(loco_tree_put(tree, loco_text("pear"), loco_text("three")));
    CHECK_OK(loco_tree_get(tree, loco_text("pear"), text, 2, &len));
    CHECK_EQ(len, 5);
    CHECK(memcmp(text, "th", 2) == 0);
    CHECK_EQ(loco_tree_compare_set(tree, loco_text("pear"), loco_text("four"), loco_text("5")),
             LOCO_ERR_DIFFERS);
    CHECK_OK(loco_tree_compare_set(tree, loco_text("pear"), loco_text("three"), loco_text("5")));
    CHECK_OK(loco_tree_update(tree, loco_text("pear"), loco_text("")));
    CHECK_OK(loco_tree_get(tree, loco_text("pear"), text, sizeof text, &len));
    CHECK_EQ(len, 0);
    CHECK_OK(loco_tree_put(tree, loco_text(""), loco_text("the empty key")));
    CHECK_OK(loco_tree_delete(tree, loco_text("pear")));
    CHECK_OK(loco_tree_delete(tree, loco_text("")));
    return 0;
}

static int numbers(loco_tree_t *tree)
{
    uint64_t before;

    CHECK_OK(loco_tree_add(tree, loco_text("n"), 5, &before));
    CHECK_EQ(before, 0);
    CHECK_OK(loco_tree_add(tree, loco_text("n"), 7, NULL));
    CHECK_OK(loco_tree_add(tree, loco_text("n"), (uint64_t)0 - 12, &before));
    CHECK_EQ(before, 12);
    CHECK_OK(loco_tree_put(tree, loco_text("n"), loco_text("text")));
    CHECK_EQ(loco_tree_add(tree, loco_text("n"), 1, NULL), LOCO_ERR_SIZE);
    CHECK_OK(loco_tree_delete(tree, loco_text("n")));
    return 0;
}

/* Of keys and values of all sizes; the values of a key grow, and shrink. */
static int sizes(loco_tree_t *tree)
{
    static const size_t all[] = { 0, 1, 8, 103, 104, 105, 511, 4096, LOCO_TREE_VALUE_MAX };
    static unsigned char key[LOCO_TREE_KEY_MAX + 1], value[LOCO_TREE_VALUE_MAX + 1],
                         found[LOCO_TREE_VALUE_MAX];
    size_t len;

    for (size_t k = 0; k <= LOCO_TREE_KEY_MAX; k += k < 8 ? 1 : k / 2)
        for (size_t i = 0; i < 2 * sizeof all / sizeof all[0]; i++) {
            size_t n = i < sizeof all / sizeof all[0] ? all[i]
                       : all[2 * sizeof all / sizeof all[0] - 1 - i];

            memset(value, (int)(n + i), n);
            CHECK_OK(loco_tree_put(tree, loco_bytes(key, k), loco_bytes(value, n)));
            CHECK_OK(loco_tree_get(tree, loco_bytes(key, k), found, sizeof found, &len));
            CHECK_EQ(len, n);
            CHECK(memcmp(found, value, n) == 0);
        }
    CHECK_EQ(loco_tree_put(tree, loco_bytes(key, sizeof key), loco_text("")), LOCO_ERR_SIZE);
    CHECK_EQ(loco_tree_get(tree, loco_bytes(key, sizeof key), found, 1, &len), LOCO_ERR_SIZE);
    CHECK_EQ(loco_tree_put(tree, loco_text(""), loco_bytes(value, sizeof value)), LOCO_ERR_SIZE);
    for (size_t k = 0; k <= LOCO_TREE_KEY_MAX; k += k < 8 ? 1 : k / 2)
        CHECK_OK(loco_tree_delete(tree, loco_bytes(key, k)));
    return 0;
}

static int mistakes(loco_tx_t *tx, loco_store_t *store)
{
    loco_tree_t *tree = NULL;
    uint64_t number = 1;

    CHECK_EQ(loco_tree_open(tx, loco_store_root(store, 4),
                            &(loco_tree_options_t){ .leaf_bytes = 63 }, &tree), LOCO_ERR_ARG);
    CHECK_EQ(loco_tree_open(tx, loco_store_root(store, 4),
                            &(loco_tree_options_t){ .inner_bytes = 16385 }, &tree), LOCO_ERR_ARG);
    CHECK_EQ(loco_tree_open(tx, LOCO_OBJECT_NONE, NULL, &tree), LOCO_ERR_ARG);
    CHECK_OK(loco_tx_begin(tx));
    CHECK_EQ(loco_tree_open(tx, loco_store_root(store, 4), NULL, &tree), LOCO_ERR_STATE);
    CHECK_OK(loco_tx_write(tx, loco_store_root(store, 4), &number, sizeof number));
    CHECK_OK(loco_tx_commit(tx));
    CHECK_EQ(loco_tree_open(tx, loco_store_root(store, 4), NULL, &tree), LOCO_ERR_MISMATCH);
    CHECK(tree == NULL);
    loco_tree_close(tree);
    return 0;
}

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seat s;

    (void)arg;
    CHECK_EQ(open_seat(rt, NULL, &s), 0);
    if (rank == 0)
        CHECK_EQ(texts(s.tree) + numbers(s.tree) + sizes(s.tree) + mistakes(s.tx, s.store), 0);
    return close_seat(rt, &s);
}

/* ---- beside a plain array ---- */

#define KEYS 3000u

struct beside {
    uint64_t value[KEYS];               /* 0: none */
    uint64_t next;                      /* key that a scan is to come to, or one after it */
    bool wrong;
};

static int visit_one(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct beside *b = ctx;
    uint64_t number = loco_number_of(key), is;

    while (b->next < number && b->value[b->next] == 0)
        b->next++;
    memcpy(&is, value.data, sizeof is);
    b->wrong = b->wrong || b->next != number || is != b->value[number];
    b->next = number + 1;
    return b->wrong ? 7 : 0;
}

static int look_at_all(loco_tree_t *tree, struct beside *b)
{
    unsigned char first[8], last[8];
    loco_bytes_t from = loco_key64(b->next, first), to = loco_key64(KEYS - 5, last);

    CHECK_OK(loco_tree_scan(tree, &from, &to, 0, visit_one, b));
    while (b->next < KEYS - 5 && b->value[b->next] == 0)
        b->next++;
    CHECK_EQ(b->next, KEYS - 5);
    return 0;
}

/* Keys come in order, in any order, and go; values have an object of their own at times. */
static int change_one(loco_tree_t *tree, struct beside *b, uint64_t *random, int round)
{
    uint64_t key = (uint64_t)round < KEYS ? (uint64_t)round : run_random(random) % KEYS;
    bool goes = (uint64_t)round >= KEYS && (run_random(random) >> 8) % 8 < (round / 4000) % 8u;
    unsigned char bytes[8], value[300] = { 0 }, found[300];
    size_t len = run_random(random) % 7 == 0 ? 300 : 8;
    uint64_t number = run_random(random) | 1;
    loco_bytes_t k = loco_key64(key, bytes);

    memcpy(value, &number, sizeof number);
    if (goes) {
        CHECK_EQ(loco_tree_delete(tree, k), b->value[key] != 0 ? LOCO_OK : LOCO_ERR_NOT_FOUND);
        b->value[key] = 0;
    } else {
        CHECK_OK(loco_tree_put(tree, k, loco_bytes(value, len)));
        b->value[key] = number;
    }
    k = loco_key64(key = run_random(random) % KEYS, bytes);
    CHECK_EQ(loco_tree_get(tree, k, found, sizeof found, &len),
             b->value[key] != 0 ? LOCO_OK : LOCO_ERR_NOT_FOUND);
    CHECK(b->value[key] == 0 || memcmp(found, &b->value[key], 8) == 0);
    return 0;
}

static int beside_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_tree_options_t *options = arg;
    uint64_t random = 9;
    struct beside *b = calloc(1, sizeof *b);
    struct seat s;

    CHECK(b != NULL);
    CHECK_EQ(open_seat(rt, options, &s), 0);
    for (int round = 0; round < run_rounds(40000) && rank == 0; round++) {
        CHECK_EQ(change_one(s.tree, b, &random, round), 0);
        b->next = run_random(&random) % KEYS;
        if (round % 1000 == 0 && b->next < KEYS - 5)
            CHECK_EQ(look_at_all(s.tree, b), 0);
    }
    free(b);
    return close_seat(rt, &s);
}

/* ---- all at once ---- */

#define SHARED 50u

/* Each rank adds to all of many numbers, and moves its own entry in each of two trees. */
static int move_entry(loco_tx_t *tx, void *arg)
{
    struct { loco_tree_t *from, *to; loco_bytes_t key; } *m = arg;
    uint64_t value;
    size_t len;
    int status = loco_tree_get(m->from, m->key, &value, sizeof value, &len);

    (void)tx;
    if (status == LOCO_OK)
        status = loco_tree_delete(m->from, m->key);
    return status == LOCO_OK ? loco_tree_insert(m->to, m->key, loco_bytes(&value, len)) : status;
}

static int count_entry(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    uint64_t number;

    (void)key;
    memcpy(&number, value.data, sizeof number);
    *(uint64_t *)ctx += number;
    return 0;
}

static int together(struct seat *s, loco_tree_t *other, int rank, int n)
{
    unsigned char bytes[8];
    uint64_t mine = 1;
    struct { loco_tree_t *from, *to; loco_bytes_t key; } m = { s->tree, other, { NULL, 0 } };

    CHECK_OK(loco_tree_insert(s->tree, loco_key64(SHARED + (uint64_t)rank, bytes),
                              loco_bytes(&mine, sizeof mine)));
    for (int round = 0; round < run_rounds(200); round++) {
        for (uint64_t i = 0; i < SHARED; i += 7)
            CHECK_OK(loco_tree_add(s->tree, loco_key64((i + (uint64_t)round) % SHARED, bytes), 1,
                                   NULL));
        m.key = loco_key64(SHARED + (uint64_t)rank, bytes);
        CHECK_OK(loco_tx_run(s->tx, move_entry, &m));
        loco_tree_t *from = m.from;
        m.from = m.to;
        m.to = from;
    }
    (void)n;
    return 0;
}

static int together_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    uint64_t sum = 0, want = (uint64_t)n * ((uint64_t)run_rounds(200) * 8 + 1);
    loco_tree_t *other;
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    CHECK_OK(loco_tree_open(s.tx, loco_store_root(s.store, 0), arg, &other));
    CHECK_EQ(together(&s, other, rank, n), 0);
    MEET();
    CHECK_OK(loco_tree_scan(s.tree, NULL, NULL, 0, count_entry, &sum));
    CHECK_OK(loco_tree_scan(other, NULL, NULL, 0, count_entry, &sum));
    CHECK_EQ(sum, want);
    loco_tree_close(other);
    return close_seat(rt, &s);
}

/* ---- cursors ---- */

static int cursor_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_tree_cursor_t *cursor;
    loco_bytes_t key, value;
    unsigned char bytes[8];
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    for (uint64_t i = 0; i < 200 && rank == 0; i++)
        CHECK_OK(loco_tree_put(s.tree, loco_key64(2 * i, bytes), loco_text("v")));
    MEET();
    CHECK_OK(loco_tree_cursor_open(s.tree, NULL, &cursor));
    for (uint64_t i = 0; i < 200; i++) {
        CHECK_OK(loco_tree_cursor_next(cursor, &key, &value));
        CHECK_EQ(loco_number_of(key), 2 * i);
        CHECK(value.len == 1 && memcmp(value.data, "v", 1) == 0);
    }
    CHECK_EQ(loco_tree_cursor_next(cursor, &key, &value), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tree_cursor_next(cursor, &key, &value), LOCO_ERR_NOT_FOUND);
    key = loco_key64(151, bytes);
    CHECK_OK(loco_tree_cursor_seek(cursor, &key));
    CHECK_OK(loco_tree_cursor_next(cursor, &key, &value));
    CHECK_EQ(loco_number_of(key), 152);
    CHECK_OK(loco_tree_cursor_prev(cursor, &key, &value));
    CHECK_EQ(loco_number_of(key), 152);
    loco_tree_cursor_seek_last(cursor);
    CHECK_EQ(loco_tree_cursor_next(cursor, &key, &value), LOCO_ERR_NOT_FOUND);
    for (uint64_t i = 200; i-- > 0;) {
        CHECK_OK(loco_tree_cursor_prev(cursor, &key, &value));
        CHECK_EQ(loco_number_of(key), 2 * i);
    }
    CHECK_EQ(loco_tree_cursor_prev(cursor, &key, &value), LOCO_ERR_NOT_FOUND);
    CHECK_OK(loco_tree_cursor_next(cursor, &key, &value));
    CHECK_EQ(loco_number_of(key), 0);
    loco_tree_cursor_close(cursor);
    loco_tree_cursor_close(NULL);
    return close_seat(rt, &s);
}

/* ---- many keys ---- */

#define MANY 390u

struct many {
    unsigned char bytes[MANY][8];
    loco_bytes_t key[MANY], value[MANY];
    uint64_t number[MANY];
    size_t len[MANY];
    int status[MANY];
};

static void fill_many(struct many *m, uint64_t first, uint64_t step, uint64_t base)
{
    for (uint64_t i = 0; i < MANY; i++) {
        m->key[i] = loco_key64(first + i * step, m->bytes[i]);
        m->number[i] = base + i;
        m->value[i] = loco_bytes(&m->number[i], 8);
    }
}

/* The first `n` are there, with these numbers, and no others. */
static int check_many(loco_tree_t *tree, struct many *m, size_t n, uint64_t base)
{
    uint64_t found[MANY];

    CHECK_OK(loco_tree_get_many(tree, MANY, m->key, found, sizeof found[0], m->len, m->status));
    for (size_t i = 0; i < MANY; i++) {
        CHECK_EQ(m->status[i], i < n ? LOCO_OK : LOCO_ERR_NOT_FOUND);
        CHECK(i >= n || (m->len[i] == 8 && found[i] == base + i));
    }
    return 0;
}

static int many_calls(struct seat *s, struct many *m)
{
    fill_many(m, 0, 1, 100);
    CHECK_EQ(check_many(s->tree, m, 0, 0), 0);
    CHECK_OK(loco_tree_put_many(s->tree, 30, m->key, m->value));
    CHECK_EQ(check_many(s->tree, m, 30, 100), 0);
    m->key[MANY - 1].len = LOCO_TREE_KEY_MAX + 1;
    CHECK_EQ(loco_tree_put_many(s->tree, MANY, m->key, m->value), LOCO_ERR_SIZE);
    for (uint64_t i = 0; i < MANY; i += 30) {
        fill_many(m, 0, 1, 1000);
        CHECK_OK(loco_tree_put_many(s->tree, 30, m->key + i, m->value + i));
    }
    CHECK_EQ(check_many(s->tree, m, MANY, 1000), 0);
    return 0;
}

/* Too much for one transaction: what it had written stays as it was. */
static int too_many(struct seat *s, struct many *m)
{
    size_t n = 0;
    int status;

    fill_many(m, 0, 1, 5);
    CHECK_EQ(loco_tree_put_many(s->tree, MANY, m->key, m->value), LOCO_ERR_FULL);
    CHECK_EQ(check_many(s->tree, m, MANY, 1000), 0);
    fill_many(m, 1 << 20, 1 << 8, 7);
    CHECK_OK(loco_tx_begin(s->tx));
    while ((status = loco_tree_put(s->tree, m->key[n], m->value[n])) == LOCO_OK)
        n++;
    CHECK_EQ(status, LOCO_ERR_FULL);
    CHECK(n > 50 && n < MANY);
    CHECK_EQ(loco_tree_put_many(s->tree, MANY, m->key, m->value), LOCO_ERR_FULL);
    CHECK_EQ(check_many(s->tree, m, n, 7), 0);
    CHECK_OK(loco_tx_commit(s->tx));
    CHECK_EQ(check_many(s->tree, m, n, 7), 0);
    return 0;
}

/* Nothing is left of what was taken back. */
static int count_many(struct seat *s, struct many *m)
{
    loco_store_scavenged_t before = { 0 }, after = { 0 };

    CHECK_OK(loco_store_scavenge(s->store, &before));
    fill_many(m, 2 << 20, 1 << 8, 9);
    CHECK_EQ(loco_tree_put_many(s->tree, MANY, m->key, m->value), LOCO_ERR_FULL);
    CHECK_OK(loco_tx_begin(s->tx));
    CHECK_EQ(loco_tree_put_many(s->tree, MANY, m->key, m->value), LOCO_ERR_FULL);
    CHECK_OK(loco_tx_commit(s->tx));
    CHECK_OK(loco_store_scavenge(s->store, &after));
    CHECK_EQ(before.objects, after.objects);
    return 0;
}

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct many *m = calloc(1, sizeof *m);
    struct seat s;

    CHECK(m != NULL);
    CHECK_EQ(open_seat(rt, arg, &s), 0);
    if (rank == 0)
        CHECK_EQ(many_calls(&s, m) + too_many(&s, m) + count_many(&s, m), 0);
    free(m);
    return close_seat(rt, &s);
}

/* ---- hot entries ---- */

static int meet_again(struct seat *s, loco_tree_t *other, int status)
{
    CHECK_OK(loco_tx_begin(s->tx));
    CHECK_OK(loco_tree_update(s->tree, loco_text("one"), loco_text("1")));
    CHECK_OK(loco_tree_update(other, loco_text("other"), loco_text("2")));
    CHECK_EQ(loco_tx_commit(s->tx), status);
    return 0;
}

/* Two keys of a leaf, until one of them has an object of its own. */
static int hot_keys(struct seat *s, loco_tree_t *other)
{
    loco_store_scavenged_t before = { 0 }, after = { 0 };
    char text[8];
    size_t len;

    CHECK_OK(loco_tree_put(s->tree, loco_text("one"), loco_text("0")));
    CHECK_OK(loco_tree_put(s->tree, loco_text("other"), loco_text("0")));
    CHECK_OK(loco_store_scavenge(s->store, &before));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(meet_again(s, other, LOCO_ERR_CONFLICT), 0);
    CHECK_OK(loco_tree_update(s->tree, loco_text("one"), loco_text("3")));
    CHECK_OK(loco_store_scavenge(s->store, &after));
    CHECK_EQ(after.objects, before.objects + 1);
    CHECK_EQ(meet_again(s, other, LOCO_OK), 0);
    CHECK_OK(loco_tree_get(other, loco_text("one"), text, sizeof text, &len));
    CHECK(len == 1 && text[0] == '1');
    CHECK_OK(loco_tree_delete(other, loco_text("one")));
    CHECK_EQ(loco_tree_get(s->tree, loco_text("one"), text, sizeof text, &len),
             LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tree_update(s->tree, loco_text("one"), loco_text("4")), LOCO_ERR_NOT_FOUND);
    CHECK_OK(loco_store_scavenge(s->store, &after));
    CHECK_EQ(after.objects, before.objects);
    return 0;
}

static int hot_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_tree_t *other = NULL;
    loco_tx_t *tx = NULL;
    struct seat s;

    (void)arg;
    CHECK_EQ(open_seat(rt, NULL, &s), 0);
    if (rank == 0) {
        CHECK_OK(loco_tx_open(s.store, &tx));
        CHECK_OK(loco_tree_open(tx, loco_store_root(s.store, 3), NULL, &other));
        CHECK_EQ(hot_keys(&s, other), 0);
    }
    loco_tree_close(other);
    loco_tx_close(tx);
    return close_seat(rt, &s);
}

/* ---- a queue ---- */

#define QUEUED 50u

/* Keys come at one end and go at the other: no nodes are left behind. */
static int queue_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_store_scavenged_t found = { 0 };
    unsigned char bytes[8];
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    for (uint64_t i = 0; i < (uint64_t)run_rounds(2000) && rank == 0; i++) {
        CHECK_OK(loco_tree_insert(s.tree, loco_key64(i, bytes), loco_text("value")));
        if (i >= QUEUED)
            CHECK_OK(loco_tree_delete(s.tree, loco_key64(i - QUEUED, bytes)));
    }
    if (rank == 0)
        CHECK_OK(loco_store_scavenge(s.store, &found));
    CHECK(found.objects < QUEUED);
    return close_seat(rt, &s);
}

/* ---- the tests ---- */

static const loco_tree_options_t small = { .leaf_bytes = 128, .inner_bytes = 128, .cached = 8 };

static void on_both(int n, weak_fn *fn, const loco_tree_options_t *options)
{
    cr_assert_eq(run_on(RUN_SHM, n, 1, NULL, fn, (void *)options), 0, "shm");
    cr_assert_eq(run_on(RUN_WEAK, n, 1, NULL, fn, (void *)options), 0, "weak");
}

Test(tree, calls, .timeout = RUN_SECONDS)
{
    on_both(2, calls_body, NULL);
}

Test(tree, does_as_an_array_does, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, beside_body, NULL), 0, "shm");
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, beside_body, (void *)&small), 0, "small, shm");
}

Test(tree, all_add_and_move, .timeout = RUN_SECONDS)
{
    on_both(3, together_body, &small);
}

Test(tree, cursors, .timeout = RUN_SECONDS)
{
    on_both(2, cursor_body, &small);
    on_both(2, cursor_body, NULL);
}

Test(tree, queue, .timeout = RUN_SECONDS)
{
    on_both(2, queue_body, &small);
}

Test(tree, many, .timeout = RUN_SECONDS)
{
    on_both(2, many_body, &small);
}

Test(tree, hot_entries, .timeout = RUN_SECONDS)
{
    on_both(2, hot_body, NULL);
}
