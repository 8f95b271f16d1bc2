/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kvstore/kv_index.h"
#include "run.h"

#define KEYS 4096

static struct loco_runtime *no_runtime(void)
{
    static struct loco_runtime rt;          /* only waits would look at it, and none does here */

    return &rt;
}

static uint64_t rest(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

Test(kv_index, finds_what_was_put)
{
    struct loci_kv_index index;

    cr_assert_eq(loci_kv_index_open(&index, no_runtime(), 100), LOCO_OK);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(loci_kv_index_find(&index, i << 40), 0);
        cr_assert_eq(loci_kv_index_put(&index, i << 40, i + 1), LOCO_OK);
        cr_assert_eq(loci_kv_index_put(&index, i << 40, i + 2), LOCO_ERR_EXISTS);
    }
    cr_assert_eq(loci_kv_index_put(&index, 7, 1000), LOCO_ERR_FULL);
    for (uint64_t i = 0; i < 100; i++)
        cr_assert_eq(loci_kv_index_find(&index, i << 40), i + 1);
    cr_assert_not(loci_kv_index_remove(&index, 5ull << 40, 5), "another word");
    cr_assert_not(loci_kv_index_remove(&index, 3, 5), "another key");
    cr_assert(loci_kv_index_remove(&index, 5ull << 40, 6));
    cr_assert_eq(loci_kv_index_find(&index, 5ull << 40), 0);
    cr_assert_eq(loci_kv_index_put(&index, UINT64_MAX, 1000), LOCO_OK);
    cr_assert_eq(loci_kv_index_find(&index, UINT64_MAX), 1000);
    cr_assert_eq(atomic_load(&index.keys), 100);
    loci_kv_index_close(&index);
}

/* Beside a plain array, through many removals in a table as full as it may be; small tables, so
 * that runs of cells go over its end. */
Test(kv_index, does_as_an_array_does)
{
    enum { SIZES = 40 };

    for (uint64_t size = 1; size < SIZES; size++) {
        uint64_t word[2 * SIZES] = { 0 }, random = size, last = 0, n = 0;
        struct loci_kv_index index;

        cr_assert_eq(loci_kv_index_open(&index, no_runtime(), size), LOCO_OK);
        for (int round = 0; round < 20000; round++) {
            uint64_t key = rest(&random) % (2 * size);

            if (rest(&random) % 3 > 0 && word[key] == 0 && n < size) {
                cr_assert_eq(loci_kv_index_put(&index, key, ++last), LOCO_OK);
                word[key] = last;
                n++;
            } else {
                cr_assert_eq(loci_kv_index_remove(&index, key, word[key]), word[key] != 0);
                n -= word[key] != 0;
                word[key] = 0;
            }
            for (uint64_t k = 0; k < 2 * size; k++)
                cr_assert_eq(loci_kv_index_find(&index, k), word[k], "size %d, key %d",
                             (int)size, (int)k);
        }
        loci_kv_index_close(&index);
    }
}

struct seen {
    uint64_t n, sum, until;
};

static int see(void *ctx, uint64_t key)
{
    struct seen *seen = ctx;

    seen->n++;
    seen->sum += key;
    return seen->n == seen->until ? 7 : 0;
}

Test(kv_index, shows_each_key_once)
{
    struct seen all = { 0 }, some = { .until = 10 };
    struct loci_kv_index index;

    cr_assert_eq(loci_kv_index_open(&index, no_runtime(), KEYS), LOCO_OK);
    for (uint64_t k = 0; k < KEYS; k++)
        cr_assert_eq(loci_kv_index_put(&index, k, k + 1), LOCO_OK);
    cr_assert_eq(loci_kv_index_each(&index, see, &all), 0);
    cr_assert_eq(all.n, KEYS);
    cr_assert_eq(all.sum, KEYS * (KEYS - 1) / 2);
    cr_assert_eq(loci_kv_index_each(&index, see, &some), 7);
    cr_assert_eq(some.n, 10);
    loci_kv_index_close(&index);
}

/* Readers beside a writer, in a table of few cells: even keys are always there, with a word that
 * names them; odd ones come and go, and move the even ones about. */
struct shared {
    struct loci_kv_index index;
    _Atomic bool over;
    struct loco_runtime *rt;
};

#define FEW 24
#define WORD(key, n) (((n) << 8) | (key) << 1 | 1)

static int write_thread(struct shared *s)
{
    uint64_t word[FEW] = { 0 }, random = 3, n = 0;
    int rounds = run_rounds(300000);

    for (int i = 0; i < rounds; i++) {
        uint64_t key = rest(&random) % FEW;

        if (key % 2 == 0)
            continue;
        if (word[key] == 0) {
            word[key] = WORD(key, ++n);
            CHECK_OK(loci_kv_index_put(&s->index, key, word[key]));
        } else {
            CHECK(loci_kv_index_remove(&s->index, key, word[key]));
            word[key] = 0;
        }
    }
    atomic_store(&s->over, true);
    return 0;
}

static int reader_or_writer(void *arg, int thread)
{
    struct shared *s = arg;
    uint64_t random = (uint64_t)thread;

    if (thread == 0)
        return write_thread(s);
    while (!atomic_load(&s->over)) {
        uint64_t key = rest(&random) % FEW, word = loci_kv_index_find(&s->index, key);

        CHECK(word == 0 ? key % 2 == 1 : (word >> 1 & 0x7f) == key);
    }
    return 0;
}

static int readers_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared s = { .over = false };

    (void)rank;
    (void)arg;
    CHECK_OK(loci_kv_index_open(&s.index, rt, FEW));
    for (uint64_t key = 0; key < FEW; key += 2)
        CHECK_OK(loci_kv_index_put(&s.index, key, WORD(key, UINT64_C(0))));
    CHECK_OK(run_threads(4, reader_or_writer, &s));
    loci_kv_index_close(&s.index);
    return 0;
}

Test(kv_index, readers_never_miss_what_is_moved)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, readers_body, NULL), 0);
}

Test(kv_index, more_than_there_is_memory_for)
{
    struct loci_kv_index index;

    cr_assert_eq(loci_kv_index_open(&index, no_runtime(), UINT64_C(1) << 55),
                 LOCO_ERR_NO_MEMORY);
    cr_assert_eq(loci_kv_index_open(&index, no_runtime(), UINT64_MAX), LOCO_ERR_NO_MEMORY);
}
