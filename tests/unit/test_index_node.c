/* SPDX-License-Identifier: BSD-3-Clause */

/* Nodes of an index, beside a plain array; and random bytes in place of them. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "index/index.h"
#include "run.h"

#define KEYS 24
#define TREE 4711

/* ---- a model: some keys in order ---- */

struct entry {
    unsigned char key[LOCI_NODE_KEY_MAX], value[LOCI_NODE_INLINE_MAX];
    size_t key_len, value_len;
    bool apart;
};

struct model {
    struct entry entry[KEYS + 1];
    unsigned n;
};

static struct model model;
static union loci_node_buffer one, two, three;

static loco_bytes_t key_of(const struct entry *e)
{
    return loco_bytes(e->key, e->key_len);
}

static loco_bytes_t value_of(const struct entry *e)
{
    return loco_bytes(e->value, e->value_len);
}

static void random_bytes(uint64_t *random, unsigned char *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)(run_random(random) % 3 == 0 ? 0 : 1 + run_random(random) % 255);
}

/* Short and long keys, of which many begin alike. */
static struct entry some_entry(uint64_t *random, bool apart)
{
    struct entry e = { .apart = apart };

    e.key_len = run_random(random) % (run_random(random) % 16 == 0 ? LOCI_NODE_KEY_MAX + 1 : 6);
    memset(e.key, 'a', e.key_len);
    if (e.key_len > 0)
        random_bytes(random, e.key + e.key_len / 2, e.key_len - e.key_len / 2);
    e.value_len = apart ? 8 : run_random(random) % (LOCI_NODE_INLINE_MAX + 1);
    random_bytes(random, e.value, e.value_len);
    return e;
}

static unsigned place_of(const struct model *m, loco_bytes_t key, bool *found)
{
    unsigned i = 0;

    while (i < m->n && loci_bytes_compare(key_of(&m->entry[i]), key) < 0)
        i++;
    *found = i < m->n && loci_bytes_compare(key_of(&m->entry[i]), key) == 0;
    return i;
}

static void check(const struct loci_node *node, const struct entry *entry, unsigned n)
{
    cr_assert(loci_node_is(node, loci_node_bytes(node), TREE));
    cr_assert(loci_node_is_sound(node));
    cr_assert_eq(node->n, n);
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(loci_bytes_compare(loci_node_key(node, i), key_of(&entry[i])), 0);
        cr_assert_eq(loci_bytes_compare(loci_node_value(node, i), value_of(&entry[i])), 0);
        cr_assert_eq(loci_node_is_apart(node, i), entry[i].apart);
    }
}


/* ---- one node ---- */

static void put_or_take(uint64_t *random)
{
    struct entry e = some_entry(random, run_random(random) % 4 == 0);
    bool found, node_found;
    unsigned i = place_of(&model, key_of(&e), &found);

    cr_assert_eq(loci_node_find(&one.node, key_of(&e), &node_found), i);
    cr_assert_eq(node_found, found);
    cr_assert_eq(loci_node_floor(&one.node, key_of(&e)), found ? i : i > 0 ? i - 1 : model.n);
    if (found && run_random(random) % 2 == 0) {
        loci_node_replace(&one.node, i, value_of(&e), e.apart);
        model.entry[i] = e;
    } else if (found || model.n == KEYS) {
        i = found ? i : (unsigned)(run_random(random) % model.n);
        loci_node_remove(&one.node, i);
        memmove(&model.entry[i], &model.entry[i + 1], (model.n - i - 1) * sizeof e);
        model.n--;
    } else if (loci_node_bytes(&one.node) <= LOCI_NODE_BYTES_MAX - sizeof e) {
        loci_node_insert(&one.node, i, key_of(&e), value_of(&e), e.apart);
        memmove(&model.entry[i + 1], &model.entry[i], (model.n - i) * sizeof e);
        model.entry[i] = e;
        model.n++;
    }
}

/* All that it has is in the halves; the left one may end where the right one does. */
static void halve(uint64_t *random)
{
    unsigned at = run_random(random) % 2 == 0 ? loci_node_split_point(&one.node, 0)
                  : 1 + (unsigned)(run_random(random) % (model.n - 1));

    memcpy(&two, &one, sizeof one);
    cr_assert(at >= 1 && at < model.n);
    loci_node_split(&two.node, at, &three.node);
    check(&two.node, model.entry, at);
    check(&three.node, model.entry + at, model.n - at);
    cr_assert_eq(loci_bytes_compare(loci_node_high(&two.node), loci_node_low(&three.node)), 0);
    cr_assert_eq(loci_bytes_compare(loci_node_low(&two.node), loci_node_low(&one.node)), 0);
    cr_assert_eq(loci_node_has_high(&three.node), loci_node_has_high(&one.node));
    cr_assert_eq(three.node.right, one.node.right);
    cr_assert_eq(loci_node_side(&three.node, key_of(&model.entry[at - 1])), -1);
    cr_assert_eq(loci_node_side(&two.node, key_of(&model.entry[at])), 1);
    loci_node_extend(&two.node, &three.node, three.node.right);
    check(&two.node, model.entry, at);
    cr_assert_eq(two.node.right, one.node.right);
    cr_assert_eq(two.node.high, one.node.high);
    cr_assert_eq(loci_node_side(&two.node, key_of(&model.entry[at])), 0);
}

static void make(uint64_t *random)
{
    unsigned char low[1] = { 0 }, high[LOCI_NODE_KEY_MAX];
    loco_bytes_t end = loco_bytes(high, LOCI_NODE_KEY_MAX - run_random(random) % 3);

    memset(high, 255, sizeof high);
    model.n = 0;
    loci_node_make(&one.node, TREE, 0, loco_bytes(low, 0),
                   run_random(random) % 2 == 0 ? NULL : &end, 99);
    check(&one.node, model.entry, 0);
}

Test(index_node, does_as_an_array_does)
{
    uint64_t random = 1;

    for (int round = 0; round < run_rounds(200); round++) {
        make(&random);
        for (int i = 0; i < 200; i++) {
            put_or_take(&random);
            check(&one.node, model.entry, model.n);
            if (model.n >= 2)
                halve(&random);
        }
    }
}

/* Above the leaves at least two entries stay. */
Test(index_node, halves_of_upper_nodes)
{
    static const unsigned char key[LOCI_NODE_KEY_MAX] = "a";

    for (unsigned level = 0; level < 2; level++) {
        loci_node_make(&one.node, TREE, level, loco_bytes(key, sizeof key), NULL, 0);
        loci_node_insert(&one.node, 0, loco_bytes(key, sizeof key), loco_text("12345678"), false);
        for (unsigned i = 1; i < 4; i++)
            loci_node_insert(&one.node, i, loco_bytes(&"bcd"[i - 1], 1), loco_text("12345678"),
                             false);
        cr_assert_eq(loci_node_split_point(&one.node, 0), level + 1);
    }
}

Test(index_node, keys_that_come_in_order_leave_full_nodes)
{
    unsigned char bytes[8];

    loci_node_make(&one.node, TREE, 0, loco_text(""), NULL, 0);
    for (uint64_t i = 0; i < 10; i++)
        loci_node_insert(&one.node, (unsigned)i, loco_key64(i, bytes), loco_text("v"), false);
    cr_assert_eq(loci_node_split_point(&one.node, 9), 9);
    cr_assert_eq(loci_node_split_point(&one.node, 8), 5);
    loci_node_split(&one.node, 9, &two.node);
    cr_assert_eq(loci_node_split_point(&one.node, 8), 4, "not the last of all: by halves");
}

/* The fence between leaves is as short as it can be; above them, the key of the first entry. */
Test(index_node, fences)
{
    for (unsigned level = 0; level < 2; level++) {
        loci_node_make(&one.node, TREE, level, loco_text("apple"), NULL, 0);
        loci_node_insert(&one.node, 0, loco_text("apple"), loco_text("12345678"), false);
        loci_node_insert(&one.node, 1, loco_text("pearl"), loco_text("12345678"), false);
        loci_node_split(&one.node, 1, &two.node);
        cr_assert_eq(loci_bytes_compare(loci_node_low(&two.node),
                                        loco_text(level == 0 ? "p" : "pearl")), 0);
        cr_assert(loci_node_is_sound(&one.node) && loci_node_is_sound(&two.node));
    }
}

Test(index_node, numbers_as_keys)
{
    unsigned char a[8], b[8];
    uint64_t random = 5;

    for (int i = 0; i < 1000; i++) {
        uint64_t x = run_random(&random) >> run_random(&random) % 64;
        uint64_t y = run_random(&random) >> run_random(&random) % 64;

        cr_assert_eq(loco_number_of(loco_key64(x, a)), x);
        cr_assert_eq(loci_bytes_compare(loco_key64(x, a), loco_key64(y, b)),
                     loci_bytes_compare(loco_key64(y, b), loco_key64(x, a)) * -1);
        cr_assert_eq(loci_bytes_compare(loco_key64(x, a), loco_key64(y, b)) < 0, x < y);
    }
    cr_assert_eq(loco_number_of(loco_text("seven.")), 0);
}

/* The end is behind each that begins so, and not behind what is next. */
Test(index_node, prefixes)
{
    static const char *const prefixes[] = { "a", "ab", "a\xff", "a\xff\xff", "\xfe\xff" };
    static const char *const ends[] = { "b", "ac", "b", "b", "\xff" };
    unsigned char bytes[8];

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        loco_bytes_t end = loco_prefix_end(loco_text(prefixes[i]), bytes);

        cr_assert_eq(loci_bytes_compare(end, loco_text(ends[i])), 0, "%s", prefixes[i]);
    }
    cr_assert_eq(loco_prefix_end(loco_text(""), bytes).len, 0);
    cr_assert_eq(loco_prefix_end(loco_text("\xff\xff"), bytes).len, 0);
    cr_assert_eq(loco_prefix_end(loco_bytes("\0", 1), bytes).len, 1);
    cr_assert_eq(bytes[0], 1);
}

/* ---- what is none ---- */

/* All that readers do with a node. */
static unsigned use(const struct loci_node *node, uint64_t *random)
{
    struct entry e = some_entry(random, false);
    unsigned sum = 0;
    bool found;

    sum += loci_node_find(node, key_of(&e), &found) + loci_node_floor(node, key_of(&e));
    sum += (unsigned)loci_node_side(node, key_of(&e)) + loci_node_is_sound(node);
    for (unsigned i = 0; i < node->n; i++) {
        loco_bytes_t key = loci_node_key(node, i), value = loci_node_value(node, i);

        for (size_t k = 0; k < key.len; k++)
            sum += ((const unsigned char *)key.data)[k];
        for (size_t k = 0; k < value.len; k++)
            sum += ((const unsigned char *)value.data)[k];
        sum += (unsigned)loci_node_handle(node, i) + loci_node_is_apart(node, i);
    }
    return sum;
}

/* And writers, with what they were given. */
static void change(uint64_t *random)
{
    struct entry e = some_entry(random, false);
    bool found;
    unsigned i = loci_node_find(&two.node, key_of(&e), &found);

    if (found)
        loci_node_replace(&two.node, i, value_of(&e), false);
    else
        loci_node_insert(&two.node, i, key_of(&e), value_of(&e), false);
    if (two.node.n > 1)
        loci_node_split(&two.node, loci_node_split_point(&two.node, i), &three.node);
    if (two.node.n > 0)
        loci_node_remove(&two.node, (unsigned)(run_random(random) % two.node.n));
    loci_node_extend(&two.node, &one.node, 7);
}

/* And copies of it are searched. */
static void search_copy(struct loci_index *ix, const struct loci_node *node, uint64_t *random)
{
    struct entry e = some_entry(random, true);

    loci_index_keep(ix, 1, node);
    (void)loci_cached_child(loci_index_cached(ix, 1), key_of(&e));
}

/* ---- leaves that are looked at in place ---- */

/* Whether it is told at once. */
static bool look(const struct loci_node *node, loco_bytes_t key)
{
    unsigned char value[LOCI_NODE_INLINE_MAX];
    size_t len = SIZE_MAX;
    bool found;
    unsigned i = loci_node_find(node, key, &found);
    int status = loci_leaf_look(TREE, node, loci_node_bytes(node), key, value, &len);

    cr_assert(status == LOCO_OK || status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_AGAIN);
    if (status == LOCO_ERR_AGAIN)
        return false;
    cr_assert_eq(loci_node_side(node, key), 0);
    cr_assert_eq(status == LOCO_OK, found);
    if (found) {
        cr_assert(!loci_node_is_apart(node, i));
        cr_assert_eq(loci_bytes_compare(loco_bytes(value, len), loci_node_value(node, i)), 0);
    }
    return true;
}

/* The same of a part of it, which has fences. */
static void look_between(const struct entry *e)
{
    memcpy(&two, &one, sizeof one);
    loci_node_split(&two.node, model.n / 3 > 0 ? model.n / 3 : 1, &three.node);
    memcpy(&two, &three, sizeof two);
    if (two.node.n > 1)
        loci_node_split(&two.node, (two.node.n + 1u) / 2, &three.node);
    (void)look(&two.node, key_of(e));
}

Test(index_node, looks_in_place_as_in_copies, .timeout = 600)
{
    uint64_t random = 7;
    int told = 0, asked = 0;

    for (int round = 0; round < 20000; round++) {
        if (round % 64 == 0)
            make(&random);
        put_or_take(&random);
        one.node.level = 0;
        for (int i = 0; i < 8; i++, asked++) {
            struct entry e = some_entry(&random, false);

            if (i % 2 == 0 && model.n > 0)
                e = model.entry[run_random(&random) % model.n];
            told += look(&one.node, key_of(&e));
            if (model.n > 2)
                look_between(&e);
        }
    }
    cr_assert_gt(told, asked / 4);
}

/* ---- copies that are searched by heads of keys ---- */

/* A copy leads where the node itself does. */
static void ask_copy(struct loci_index *ix, uint64_t *random)
{
    loci_index_keep(ix, 1, &one.node);
    for (int i = 0; i < 16; i++) {
        struct entry e = some_entry(random, true);
        unsigned floor;

        if (i % 4 == 0 && model.n > 0)
            e = model.entry[run_random(random) % model.n];
        floor = loci_node_floor(&one.node, key_of(&e));
        if (floor < one.node.n)
            cr_assert_eq(loci_cached_child(loci_index_cached(ix, 1), key_of(&e)),
                         loci_node_handle(&one.node, floor));
    }
}

Test(index_node, copies_lead_where_nodes_do, .timeout = 600)
{
    struct loci_index ix = { 0 };
    uint64_t random = 5;

    cr_assert_eq(loci_index_cache_open(&ix, 1), LOCO_OK);
    for (int round = 0; round < 20000; round++) {
        if (round % 64 == 0)
            make(&random);
        put_or_take(&random);
        ask_copy(&ix, &random);
    }
    loci_index_cache_close(&ix);
}

/* Looking in place stays inside, too, whatever the bytes are. */
static bool look_at_any(const unsigned char *bytes, size_t len, uint64_t *random)
{
    unsigned char value[LOCI_NODE_INLINE_MAX];
    struct entry e = some_entry(random, false);
    size_t value_len;

    return loci_leaf_look(TREE, bytes, len, key_of(&e), value, &value_len) != LOCO_ERR_AGAIN;
}

/* A node in which some bytes are others, in memory of exactly its size. */
Test(index_node, random_bytes_are_no_node, .timeout = 6000)
{
    struct loci_index ix = { 0 };
    uint64_t random = 3;
    unsigned sum = 0;
    int nodes = 0, looked = 0;

    cr_assert_eq(loci_index_cache_open(&ix, 1), LOCO_OK);
    for (int round = 0; round < run_fuzz_rounds(20000); round++) {
        size_t len;
        unsigned char *bytes;

        if (round % 8 == 0)
            make(&random);
        for (int i = 0; i < 4; i++)
            put_or_take(&random);
        len = loci_node_bytes(&one.node);
        bytes = malloc(len);
        cr_assert_not_null(bytes);
        memcpy(bytes, &one, len);
        for (unsigned i = 1 + (unsigned)(run_random(&random) % 4); i > 0; i--)
            bytes[run_random(&random) % (run_random(&random) % 2 == 0 ? len : 64 < len ? 64 : len)]
                = (unsigned char)run_random(&random);
        looked += look_at_any(bytes, len, &random);
        if (loci_node_is((const struct loci_node *)(const void *)bytes, len, TREE)) {
            nodes++;
            sum += use((const struct loci_node *)(const void *)bytes, &random);
            search_copy(&ix, (const struct loci_node *)(const void *)bytes, &random);
            memcpy(&two, bytes, len);
            change(&random);
            make(&random);
        }
        free(bytes);
    }
    loci_index_cache_close(&ix);
    cr_assert_gt(nodes, 10, "%u", sum);
    cr_assert_gt(looked, 10);
}
