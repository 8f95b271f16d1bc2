/* SPDX-License-Identifier: BSD-3-Clause */

/* Hash tables between real processes, and threads over the weak fabric. That histories are
 * linearizable is the simulator's part (tools/sim/scenario_tree.c). */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "index/hash/hash.h"
#include "run.h"

#define MEET() CHECK_OK(run_meet(rt))

struct seat {
    loco_store_t *store;
    loco_tx_t *tx;
    loco_hash_t *hash;
};

static int open_seat(loco_runtime_t *rt, const loco_hash_options_t *options, struct seat *s)
{
    CHECK_OK(loco_store_create(rt, NULL, "store", loco_everyone(rt),
                               &(loco_store_options_t){ .bytes = 8 << 20 }, &s->store));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(s->store, &s->tx));
    CHECK_OK(loco_hash_open(s->tx, loco_store_root(s->store, 3), options, &s->hash));
    return 0;
}

static int close_seat(loco_runtime_t *rt, struct seat *s)
{
    MEET();
    loco_hash_close(s->hash);
    loco_tx_close(s->tx);
    loco_store_destroy(s->store);
    return 0;
}

/* ---- each call ---- */

static int is_text(loco_hash_t *hash, const char *key, const char *value)
{
    char text[16];
    size_t len;

    CHECK_OK(loco_hash_get(hash, loco_text(key), text, sizeof text, &len));
    CHECK_EQ(len, strlen(value));
    CHECK(memcmp(text, value, len) == 0);
    return 0;
}

static int of_none(loco_hash_t *hash)
{
    size_t len = 77;

    CHECK_EQ(loco_hash_get(hash, loco_text("k"), NULL, 0, &len), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_hash_update(hash, loco_text("k"), loco_text("v")), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_hash_delete(hash, loco_text("k")), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_hash_compare_set(hash, loco_text("k"), loco_text(""), loco_text("v")),
             LOCO_ERR_NOT_FOUND);
    CHECK_EQ(len, 77);
    return 0;
}

static int of_one(loco_hash_t *hash)
{
    uint64_t before = 9;

    CHECK_OK(loco_hash_insert(hash, loco_text("k"), loco_text("first")));
    CHECK_EQ(loco_hash_insert(hash, loco_text("k"), loco_text("2")), LOCO_ERR_EXISTS);
    CHECK_EQ(is_text(hash, "k", "first"), 0);
    CHECK_OK(loco_hash_put(hash, loco_text("k"), loco_text("second")));
    CHECK_EQ(loco_hash_compare_set(hash, loco_text("k"), loco_text("first"), loco_text("3")),
             LOCO_ERR_DIFFERS);
    CHECK_OK(loco_hash_compare_set(hash, loco_text("k"), loco_text("second"), loco_text("3rd")));
    CHECK_OK(loco_hash_put(hash, loco_text(""), loco_text("of the empty key")));
    CHECK_EQ(is_text(hash, "k", "3rd"), 0);
    CHECK_EQ(is_text(hash, "", "of the empty key"), 0);
    CHECK_OK(loco_hash_update(hash, loco_text("k"), loco_text("")));
    CHECK_EQ(is_text(hash, "k", ""), 0);
    CHECK_EQ(loco_hash_add(hash, loco_text("k"), 1, NULL), LOCO_ERR_SIZE);
    CHECK_OK(loco_hash_delete(hash, loco_text("k")));
    CHECK_OK(loco_hash_add(hash, loco_text("k"), 5, &before));
    CHECK_EQ(before, 0);
    CHECK_OK(loco_hash_add(hash, loco_text("k"), (uint64_t)0 - 4, &before));
    CHECK_EQ(before, 5);
    CHECK_OK(loco_hash_delete(hash, loco_text("k")));
    CHECK_OK(loco_hash_delete(hash, loco_text("")));
    return 0;
}

/* Keys of every length, and values of few bytes and of the most. */
static int of_sizes(loco_hash_t *hash)
{
    static unsigned char key[LOCO_HASH_KEY_MAX + 1], value[LOCO_HASH_VALUE_MAX + 1], found[1];
    size_t len;

    for (int round = 0; round < 3; round++)
        for (size_t k = 0; k <= LOCO_HASH_KEY_MAX; k += 16) {
            size_t n = round == 1 && k % 256 == 0 ? LOCO_HASH_VALUE_MAX : k / 16;

            if (round == 2) {
                CHECK_OK(loco_hash_delete(hash, loco_bytes(key, k)));
                continue;
            }
            CHECK_OK(loco_hash_put(hash, loco_bytes(key, k), loco_bytes(value, n)));
            CHECK_OK(loco_hash_get(hash, loco_bytes(key, k), found, sizeof found, &len));
            CHECK_EQ(len, n);
        }
    CHECK_EQ(loco_hash_put(hash, loco_bytes(key, sizeof key), loco_text("")), LOCO_ERR_SIZE);
    CHECK_EQ(loco_hash_get(hash, loco_bytes(key, sizeof key), found, 1, &len), LOCO_ERR_SIZE);
    CHECK_EQ(loco_hash_put(hash, loco_text(""), loco_bytes(value, sizeof value)), LOCO_ERR_SIZE);
    return 0;
}

static int mistakes(struct seat *s)
{
    const loco_object_t root = loco_store_root(s->store, 4);
    loco_hash_t *hash = NULL;
    loco_tree_t *tree = NULL;

    CHECK_EQ(loco_hash_open(s->tx, root, &(loco_hash_options_t){ .leaf_bytes = 63 }, &hash),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_hash_open(s->tx, root, &(loco_hash_options_t){ .leaf_bytes = 16385 }, &hash),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_hash_open(s->tx, LOCO_OBJECT_NONE, NULL, &hash), LOCO_ERR_ARG);
    CHECK_OK(loco_tree_open(s->tx, root, NULL, &tree));
    loco_tree_close(tree);
    CHECK_EQ(loco_hash_open(s->tx, root, NULL, &hash), LOCO_ERR_MISMATCH);
    CHECK_EQ(loco_tree_open(s->tx, loco_store_root(s->store, 3), NULL, &tree),
             LOCO_ERR_MISMATCH);
    CHECK_OK(loco_tx_begin(s->tx));
    CHECK_EQ(loco_hash_open(s->tx, loco_store_root(s->store, 5), NULL, &hash), LOCO_ERR_STATE);
    loco_tx_abort(s->tx);
    CHECK(hash == NULL);
    loco_hash_close(hash);
    return 0;
}

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    if (rank == 0)
        CHECK_EQ(of_none(s.hash) + of_one(s.hash) + of_sizes(s.hash) + of_none(s.hash)
                 + mistakes(&s), 0);
    return close_seat(rt, &s);
}

/* ---- beside a plain array ---- */

#define KEYS 4000u

struct beside {
    uint64_t value[KEYS];               /* 0: none */
    uint64_t scanned[KEYS];
};

static int note(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct beside *b = ctx;
    uint64_t number = loco_number_of(key);

    if (key.len != 8 || number >= KEYS || b->scanned[number] != 0)
        return 7;
    memcpy(&b->scanned[number], value.data, sizeof number);
    return 0;
}

static int look_at_all(loco_hash_t *hash, struct beside *b)
{
    memset(b->scanned, 0, sizeof b->scanned);
    CHECK_OK(loco_hash_scan(hash, note, b));
    CHECK(memcmp(b->scanned, b->value, sizeof b->value) == 0);
    return 0;
}

/* All keys come, some change, and all go, by a lap of all keys each; some values have an object of
 * their own. */
static int change_one(loco_hash_t *hash, struct beside *b, uint64_t *random, unsigned lap,
                      uint64_t key)
{
    unsigned char bytes[8], value[200] = { 0 }, found[8];
    uint64_t number = run_random(random) | 1, other = run_random(random) % KEYS;
    size_t len;
    loco_bytes_t k = loco_key64(key, bytes);

    memcpy(value, &number, sizeof number);
    len = number % 5 == 0 ? sizeof value : sizeof number;
    if (lap == 2 || (lap == 1 && number % 3 == 0)) {
        CHECK_EQ(loco_hash_delete(hash, k), b->value[key] != 0 ? LOCO_OK : LOCO_ERR_NOT_FOUND);
        number = 0;
    } else {
        CHECK_OK(loco_hash_put(hash, k, loco_bytes(value, len)));
    }
    b->value[key] = number;
    CHECK_EQ(loco_hash_get(hash, loco_key64(other, bytes), found, sizeof found, &len),
             b->value[other] != 0 ? LOCO_OK : LOCO_ERR_NOT_FOUND);
    CHECK(b->value[other] == 0 || memcmp(found, &b->value[other], sizeof found) == 0);
    return 0;
}

/* Whether the directory as the handle knows it leads to a key's leaf at once. */
static bool leads_to(loco_hash_t *hash, loco_bytes_t key)
{
    struct loci_index *ix = &hash->index;
    uint64_t number = loci_hash_of(hash->root->root.seed, key);
    loco_object_t segment = loci_root_segment(&hash->root->root, number);
    const struct loci_segment *s = loci_index_cached_value(ix, segment);
    unsigned char bytes[8];

    return s != NULL && loci_segment_has(s, number)
           && loci_index_read_node(ix, LOCI_INDEX_PEEK, s->leaf[loci_segment_slot(s, number)], 512,
                                   ix->node) == LOCO_OK
           && loci_node_side(&ix->node->node, loco_key64(number, bytes)) == 0;
}

/* Once many keys have been looked up some times: each time the directory gets to know a bit more of
 * a leaf. Keys that are not there, for some values are found without the leaf. */
static int finds_at_once(loco_hash_t *hash)
{
    for (uint64_t n = 0; n < 5 * KEYS; n++) {
        unsigned char bytes[8];
        loco_bytes_t key = loco_key64(KEYS + n % KEYS, bytes);
        size_t len;

        CHECK(n < 4 * KEYS || leads_to(hash, key));
        CHECK_EQ(loco_hash_get(hash, key, NULL, 0, &len), LOCO_ERR_NOT_FOUND);
    }
    return 0;
}

static int beside_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t random = 9;
    struct beside *b = calloc(1, sizeof *b);
    struct seat s;

    CHECK(b != NULL);
    CHECK_EQ(open_seat(rt, arg, &s), 0);
    for (unsigned lap = 0; lap < 3 && rank == 0; lap++) {
        for (uint64_t key = 0; key < KEYS; key++)
            CHECK_EQ(change_one(s.hash, b, &random, lap, key * 7 % KEYS), 0);
        CHECK_EQ(look_at_all(s.hash, b), 0);
        CHECK_EQ(finds_at_once(s.hash), 0);
    }
    if (rank == 0)
        CHECK(s.hash->taken_out > 100);
    free(b);
    return close_seat(rt, &s);
}

/* ---- all at once ---- */

#define SHARED 60u

struct move {
    loco_hash_t *hash;
    loco_tree_t *tree;
    loco_bytes_t key;
    bool to_tree;
};

/* An entry goes from the table to the tree, or back. */
static int move_entry(loco_tx_t *tx, void *arg)
{
    struct move *m = arg;
    uint64_t value;
    size_t len;
    int status = m->to_tree ? loco_hash_get(m->hash, m->key, &value, sizeof value, &len)
                 : loco_tree_get(m->tree, m->key, &value, sizeof value, &len);

    (void)tx;
    if (status == LOCO_OK)
        status = m->to_tree ? loco_hash_delete(m->hash, m->key)
                 : loco_tree_delete(m->tree, m->key);
    if (status != LOCO_OK)
        return status;
    return m->to_tree ? loco_tree_insert(m->tree, m->key, loco_bytes(&value, len))
           : loco_hash_insert(m->hash, m->key, loco_bytes(&value, len));
}

static int sum(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    uint64_t number;

    (void)key;
    memcpy(&number, value.data, sizeof number);
    *(uint64_t *)ctx += number;
    return 0;
}

static int add_and_move(struct seat *s, loco_tree_t *tree, int rank)
{
    unsigned char bytes[8], mine[8];
    uint64_t one = 1;
    struct move m = { .hash = s->hash, .tree = tree,
                      .key = loco_key64(SHARED + (uint64_t)rank, mine), .to_tree = true };

    CHECK_OK(loco_hash_insert(s->hash, m.key, loco_bytes(&one, sizeof one)));
    for (int round = 0; round < run_rounds(200); round++, m.to_tree = !m.to_tree) {
        for (uint64_t i = 0; i < SHARED; i += 7)
            CHECK_OK(loco_hash_add(s->hash, loco_key64((i + (uint64_t)round) % SHARED, bytes), 1,
                                   NULL));
        CHECK_OK(loco_tx_run(s->tx, move_entry, &m));
    }
    return 0;
}

static int together_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t n = (uint64_t)loco_group_size(loco_everyone(rt)), all = 0;
    loco_tree_t *tree;
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    CHECK_OK(loco_tree_open(s.tx, loco_store_root(s.store, 0), NULL, &tree));
    CHECK_EQ(add_and_move(&s, tree, rank), 0);
    MEET();
    CHECK_OK(loco_hash_scan(s.hash, sum, &all));
    CHECK_OK(loco_tree_scan(tree, NULL, NULL, 0, sum, &all));
    CHECK_EQ(all, n * ((uint64_t)run_rounds(200) * 9 + 1));
    loco_tree_close(tree);
    return close_seat(rt, &s);
}

/* ---- many keys ---- */

#define MANY 40u

/* Values are numbers from `first` on; every third key was removed since, if `holes`. */
static int are_there(loco_hash_t *hash, const loco_bytes_t *keys, uint64_t first, bool holes)
{
    uint64_t found[MANY];
    size_t lens[MANY];
    int statuses[MANY];

    CHECK_OK(loco_hash_get_many(hash, MANY, keys, found, sizeof found[0], lens, statuses));
    for (uint64_t i = 0; i < MANY; i++) {
        CHECK_EQ(statuses[i], holes && i % 3 == 0 ? LOCO_ERR_NOT_FOUND : LOCO_OK);
        CHECK(statuses[i] != LOCO_OK || (lens[i] == sizeof found[0] && found[i] == first + i));
    }
    return 0;
}

static int put_all(loco_hash_t *hash, const loco_bytes_t *keys, uint64_t first)
{
    loco_bytes_t values[MANY];
    uint64_t number[MANY];

    for (uint64_t i = 0; i < MANY; i++) {
        number[i] = first + i;
        values[i] = loco_bytes(&number[i], sizeof number[i]);
    }
    CHECK_OK(loco_hash_put_many(hash, MANY, keys, values));
    return 0;
}

static int many(struct seat *s)
{
    static unsigned char bytes[MANY][8], large[LOCO_HASH_KEY_MAX + 1];
    loco_bytes_t keys[MANY];

    for (uint64_t i = 0; i < MANY; i++)
        keys[i] = loco_key64(i, bytes[i]);
    CHECK_EQ(put_all(s->hash, keys, 100) + are_there(s->hash, keys, 100, false), 0);
    CHECK_OK(loco_tx_begin(s->tx));
    CHECK_EQ(put_all(s->hash, keys, 500) + are_there(s->hash, keys, 500, false), 0);
    for (uint64_t i = 0; i < MANY; i += 3)
        CHECK_OK(loco_hash_delete(s->hash, keys[i]));
    CHECK_EQ(are_there(s->hash, keys, 500, true), 0);
    loco_tx_abort(s->tx);
    CHECK_EQ(are_there(s->hash, keys, 100, false), 0);
    for (uint64_t i = 0; i < MANY; i += 3)
        CHECK_OK(loco_hash_delete(s->hash, keys[i]));
    CHECK_EQ(are_there(s->hash, keys, 100, true), 0);
    CHECK_OK(loco_hash_get_many(s->hash, 0, keys, NULL, 0, NULL, NULL));
    keys[MANY - 1] = loco_bytes(large, sizeof large);
    CHECK_EQ(loco_hash_put_many(s->hash, MANY, keys, keys), LOCO_ERR_SIZE);
    return 0;
}

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seat s;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    if (rank == 0)
        CHECK_EQ(many(&s), 0);
    return close_seat(rt, &s);
}

/* ---- scans ---- */

/* Each entry is looked up, and another scan begun, while one is under way. */
static int count_nested(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    loco_hash_t *hash = ctx;
    uint64_t found, all = 0;
    size_t len;

    (void)value;
    CHECK_OK(loco_hash_get(hash, key, &found, sizeof found, &len));
    if (found % 8 == 0)
        CHECK_OK(loco_hash_scan(hash, sum, &all));
    CHECK(all == 0 || all == 64 * 63 / 2);
    return found == 40 ? 41 : 0;
}

static int scans_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seat s;
    uint64_t all = 0;

    CHECK_EQ(open_seat(rt, arg, &s), 0);
    CHECK_OK(loco_hash_scan(s.hash, sum, &all));
    CHECK_EQ(all, 0);
    MEET();
    for (uint64_t i = 0; i < 64 && rank == 0; i++) {
        unsigned char bytes[8];

        CHECK_OK(loco_hash_put(s.hash, loco_key64(i, bytes), loco_bytes(&i, sizeof i)));
    }
    MEET();
    CHECK_EQ(loco_hash_scan(s.hash, count_nested, s.hash), 41);
    CHECK_OK(loco_tx_begin(s.tx));
    CHECK_OK(loco_hash_scan(s.hash, sum, &all));
    CHECK_OK(loco_tx_commit(s.tx));
    CHECK_EQ(all, 64 * 63 / 2);
    return close_seat(rt, &s);
}

/* ---- the tests ---- */

static const loco_hash_options_t small = { .leaf_bytes = 128, .cached = 4 };
static const loco_hash_options_t small_leaves = { .leaf_bytes = 128 };

static void on_both(int n, weak_fn *fn, const loco_hash_options_t *options)
{
    cr_assert_eq(run_on(RUN_SHM, n, 1, NULL, fn, (void *)options), 0, "shm");
    cr_assert_eq(run_on(RUN_WEAK, n, 1, NULL, fn, (void *)options), 0, "weak");
}

Test(hash, calls, .timeout = RUN_SECONDS)
{
    on_both(2, calls_body, NULL);
    on_both(1, calls_body, &small);
}

Test(hash, does_as_an_array_does, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, beside_body, (void *)&small_leaves), 0, "small");
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, beside_body, NULL), 0, "shm");
}

Test(hash, all_add_and_move, .timeout = RUN_SECONDS)
{
    on_both(3, together_body, &small);
}

Test(hash, many, .timeout = RUN_SECONDS)
{
    on_both(2, many_body, NULL);
    on_both(1, many_body, &small_leaves);
}

Test(hash, scans, .timeout = RUN_SECONDS)
{
    on_both(2, scans_body, &small);
    on_both(2, scans_body, NULL);
}
