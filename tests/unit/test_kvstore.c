/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <loco/kvstore.h>
#include <loco/loco.h>

#include "kvstore/kv_value.h"
#include "streams/ringbuffer.h"
#include "run.h"
#include "tasks.h"

#define LARGEST LOCO_KVSTORE_VALUE_MAX

static int make(loco_runtime_t *rt, size_t value_bytes, uint64_t capacity, loco_kvstore_t **kv)
{
    const loco_kvstore_options_t options = { .value_bytes = value_bytes, .capacity = capacity };
    int status = loco_kvstore_create(rt, NULL, "kv", loco_everyone(rt), &options, kv);

    return status != LOCO_OK ? status : loco_runtime_wait_ready(rt, LOCO_FOREVER);
}

/* Everybody has come, and goes on only when all have. */
#define MEET() CHECK_OK(run_meet(rt))

static void fill(unsigned char *value, size_t len, uint64_t number)
{
    for (size_t i = 0; i < len; i++)
        value[i] = (unsigned char)(number * 31 + i * 7 + i / 251);
}

static bool is_filled(const unsigned char *value, size_t len, uint64_t number)
{
    for (size_t i = 0; i < len; i++)
        if (value[i] != (unsigned char)(number * 31 + i * 7 + i / 251))
            return false;
    return true;
}

/* ---- one after the other ---- */

/* All calls on the keys of each rank, by its neighbour, as all see them. */
static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    size_t len = *(size_t *)arg;
    int n = loco_group_size(loco_everyone(rt));
    uint64_t mine = 100 + (uint64_t)rank, theirs = 100 + (uint64_t)(rank + 1) % (uint64_t)n;
    unsigned char *value = malloc(3 * len), *other = value + len, *found = value + 2 * len;
    loco_kvstore_t *kv;

    CHECK_OK(make(rt, len, 10, &kv));
    CHECK_EQ(loco_kvstore_value_bytes(kv), len);
    CHECK_EQ(loco_kvstore_get(kv, mine, value, len), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_kvstore_update(kv, mine, value, len), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_kvstore_delete(kv, mine), LOCO_ERR_NOT_FOUND);
    fill(value, len, mine);
    MEET();
    CHECK_OK(loco_kvstore_insert(kv, mine, value, len));
    CHECK_EQ(loco_kvstore_insert(kv, mine, value, len), LOCO_ERR_EXISTS);
    MEET();
    for (uint64_t r = 0; r < (uint64_t)n; r++) {
        CHECK_OK(loco_kvstore_get(kv, 100 + r, value, len));
        CHECK(is_filled(value, len, 100 + r));
        CHECK_EQ(loco_kvstore_insert(kv, 100 + r, value, len), LOCO_ERR_EXISTS);
    }
    MEET();
    fill(value, len, theirs + 1000);
    CHECK_OK(loco_kvstore_update(kv, theirs, value, len));
    MEET();
    CHECK_OK(loco_kvstore_get(kv, mine, value, len));
    CHECK(is_filled(value, len, mine + 1000));
    fill(other, len, mine + 2000);
    CHECK_EQ(loco_kvstore_compare_set(kv, mine, other, other, len, found), LOCO_ERR_DIFFERS);
    CHECK(is_filled(found, len, mine + 1000));
    CHECK_OK(loco_kvstore_compare_set(kv, mine, value, other, len, NULL));
    CHECK_EQ(loco_kvstore_compare_set(kv, mine + 500, value, other, len, NULL),
             LOCO_ERR_NOT_FOUND);
    MEET();
    CHECK_OK(loco_kvstore_get(kv, theirs, value, len));
    CHECK(is_filled(value, len, theirs + 2000));
    MEET();
    CHECK_OK(loco_kvstore_delete(kv, theirs));
    CHECK_EQ(loco_kvstore_delete(kv, theirs), LOCO_ERR_NOT_FOUND);
    MEET();
    for (uint64_t r = 0; r < (uint64_t)n; r++)
        CHECK_EQ(loco_kvstore_get(kv, 100 + r, value, len), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_kvstore_get(kv, mine, value, len + 1), LOCO_ERR_SIZE);
    CHECK_EQ(loco_kvstore_insert(kv, mine, value, len - 1), LOCO_ERR_SIZE);
    CHECK_EQ(loco_kvstore_update(kv, mine, value, len + 1), LOCO_ERR_SIZE);
    CHECK_EQ(loco_kvstore_compare_set(kv, mine, value, other, 0, NULL), LOCO_ERR_SIZE);
    MEET();
    loco_kvstore_destroy(kv);
    free(value);
    return 0;
}

Test(kvstore, does_what_its_calls_say, .timeout = RUN_SECONDS)
{
    static const size_t sizes[] = { 1, 8, 9, 100, 1000, LARGEST };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = sizes[i];

        cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, calls_body, &len), 0, "%zu bytes", len);
        cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, calls_body, &len), 0, "%zu bytes", len);
        if (len == 8 || len == 100)
            cr_assert_eq(run_on(RUN_WEAK, 2, i + 1, NULL, calls_body, &len), 0, "%zu bytes", len);
    }
}

/* ---- a store is full, and its places are used again ---- */

static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t value, base = 1000 * (uint64_t)rank, other = 1000 * (uint64_t)(1 - rank);
    loco_kvstore_stats_t stats;
    loco_kvstore_t *kv;
    int status;

    CHECK_OK(make(rt, 8, 5, &kv));
    for (int round = 0; round < *(int *)arg; round++) {
        for (value = 0; value < 5; value++)
            /* What the other one deleted comes back a little later. */
            while ((status = loco_kvstore_insert(kv, base + value, &value, 8)) != LOCO_OK)
                CHECK(round > 0 && status == LOCO_ERR_FULL);
        CHECK_EQ(loco_kvstore_insert(kv, base + 5, &value, 8), LOCO_ERR_FULL);
        CHECK_EQ(loco_kvstore_insert(kv, base + 4, &value, 8), LOCO_ERR_EXISTS);
        MEET();
        loco_kvstore_stats(kv, &stats);
        CHECK_EQ(stats.keys, 10);
        CHECK_EQ(stats.kept, 5);
        CHECK_EQ(stats.capacity, 5);
        for (uint64_t i = 0; i < 5; i++) {
            CHECK_OK(loco_kvstore_get(kv, other + i, &value, 8));
            CHECK_EQ(value, i);
        }
        MEET();
        for (uint64_t i = 0; i < 5; i++)
            CHECK_OK(loco_kvstore_delete(kv, (round % 2 == 0 ? other : base) + i));
        MEET();
    }
    loco_kvstore_destroy(kv);
    return 0;
}

Test(kvstore, is_full_and_goes_on, .timeout = RUN_SECONDS)
{
    int rounds[] = { 10, 3 };

    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, full_body, &rounds[0]), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 2, NULL, full_body, &rounds[1]), 0);
}

/* ---- many at once ---- */

#define MANY 350

struct seen {
    uint64_t n, sum;
};

static int see(void *ctx, uint64_t key)
{
    struct seen *seen = ctx;

    seen->n++;
    seen->sum += key;
    return 0;
}

static int stop_at_third(void *ctx, uint64_t key)
{
    (void)key;
    return ++((struct seen *)ctx)->n == 3 ? -77 : 0;
}

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const size_t len = 24;
    uint64_t keys[2 * MANY];
    unsigned char *values = malloc(2 * MANY * len);
    int n = loco_group_size(loco_everyone(rt)), statuses[2 * MANY];
    struct seen seen = { 0 };
    loco_kvstore_window_t *w;
    loco_kvstore_t *kv;

    (void)arg;
    CHECK_OK(make(rt, len, MANY, &kv));
    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = (uint64_t)rank * MANY + i;
        fill(values + i * len, len, keys[i]);
    }
    CHECK_EQ(loco_kvstore_insert_many(kv, MANY, keys, values, len + 1, statuses), LOCO_ERR_SIZE);
    CHECK_OK(loco_kvstore_insert_many(kv, MANY, keys, values, len, statuses));
    for (int i = 0; i < MANY; i++)
        CHECK_OK(statuses[i]);
    CHECK_OK(loco_kvstore_insert_many(kv, MANY, keys, values, len, statuses));
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(statuses[i], LOCO_ERR_EXISTS);
    MEET();
    /* The next rank's, and as many that are not there. */
    for (uint64_t i = 0; i < 2 * MANY; i++)
        keys[i] = (uint64_t)((rank + 1) % n) * MANY + i / 2 + (i % 2) * 1000000;
    CHECK_OK(loco_kvstore_get_many(kv, 2 * MANY, keys, values, len, statuses));
    for (uint64_t i = 0; i < 2 * MANY; i++)
        CHECK(i % 2 == 0 ? statuses[i] == LOCO_OK && is_filled(values + i * len, len, keys[i])
              : statuses[i] == LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_kvstore_get_many(kv, 1, keys, values, len - 1, statuses), LOCO_ERR_SIZE);
    for (int size = 1; size <= LOCO_KVSTORE_WINDOW_MAX; size += size < 3 ? 2 : 125) {
        CHECK_OK(loco_kvstore_window_open(kv, size, &w));
        memset(values, 0, 2 * MANY * len);
        for (uint64_t i = 0; i < 2 * MANY; i++) {
            CHECK_OK(loco_kvstore_get_ack(w, keys[i], values + i * len, len, &statuses[i]));
            CHECK(loco_kvstore_window_poll(w) <= size);
        }
        CHECK_OK(loco_kvstore_window_wait(w));
        CHECK_EQ(loco_kvstore_window_poll(w), 0);
        for (uint64_t i = 0; i < 2 * MANY; i++)
            CHECK(i % 2 == 0 ? statuses[i] == LOCO_OK && is_filled(values + i * len, len, keys[i])
                  : statuses[i] == LOCO_ERR_NOT_FOUND);
        CHECK_EQ(loco_kvstore_get_ack(w, 1, values, len + 1, statuses), LOCO_ERR_SIZE);
        CHECK_EQ(statuses[0], LOCO_ERR_SIZE);
        loco_kvstore_window_close(w);
    }
    MEET();
    CHECK_OK(loco_kvstore_window_open(kv, 4, &w));
    for (uint64_t i = 0; i < 10; i++) {
        fill(values, len, keys[2 * i] + 1);
        CHECK_OK(loco_kvstore_update_ack(w, keys[2 * i], values, len, &statuses[i]));
        memset(values, 0, len);
    }
    loco_kvstore_window_close(w);
    for (uint64_t i = 0; i < 10; i++) {
        CHECK_OK(statuses[i]);
        CHECK_OK(loco_kvstore_get(kv, keys[2 * i], values, len));
        CHECK(is_filled(values, len, keys[2 * i] + 1));
    }
    CHECK_EQ(loco_kvstore_window_open(kv, 0, &w), LOCO_ERR_ARG);
    CHECK_EQ(loco_kvstore_window_open(kv, LOCO_KVSTORE_WINDOW_MAX + 1, &w), LOCO_ERR_ARG);
    CHECK_OK(loco_kvstore_iterate(kv, see, &seen));
    CHECK_EQ(seen.n, n * MANY);
    CHECK_EQ(seen.sum, (uint64_t)(n * MANY) * (uint64_t)(n * MANY - 1) / 2);
    seen.n = 0;
    CHECK_EQ(loco_kvstore_iterate(kv, stop_at_third, &seen), -77);
    CHECK_EQ(seen.n, 3);
    MEET();
    loco_kvstore_destroy(kv);
    free(values);
    return 0;
}

Test(kvstore, does_many_at_once, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, many_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 5, NULL, many_body, NULL), 0);
}

/* ---- visits ---- */

#define COMERS 8
#define VISITS (4 * COMERS + run_rounds(400))
#define VISITS_EACH run_rounds(100)     /* of a visitor, in the time of an insert or two */

struct visit {
    loco_kvstore_t *kv;
    uint64_t n;
};

/* A visitor may get, while others put keys in and take them out. */
static int visit_and_get(void *ctx, uint64_t key)
{
    struct visit *visit = ctx;
    uint64_t value = 0;
    int status = loco_kvstore_get(visit->kv, key, &value, sizeof value);

    visit->n += status == LOCO_OK;
    return status == LOCO_ERR_NOT_FOUND || (status == LOCO_OK && value == key) ? 0 : 1;
}

static int visits_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t mine = 1000 * (uint64_t)rank;
    struct visit visit = { .n = 0 };
    const int visits = VISITS, each = VISITS_EACH;

    (void)arg;
    CHECK_OK(make(rt, sizeof mine, 2 * COMERS, &visit.kv));
    CHECK_OK(loco_kvstore_insert(visit.kv, mine, &mine, sizeof mine));
    MEET();
    for (int i = 0; i < visits; i++) {
        uint64_t key = mine + 1 + (uint64_t)i % COMERS;

        if (rank % 2 == 0) {
            for (int k = 0; k < each; k++)
                CHECK_OK(loco_kvstore_iterate(visit.kv, visit_and_get, &visit));
            continue;
        }
        if (i >= COMERS)
            CHECK_OK(loco_kvstore_delete(visit.kv, key));
        CHECK_OK(loco_kvstore_insert(visit.kv, key, &key, sizeof key));
    }
    CHECK(rank % 2 == 1 || visit.n >= (uint64_t)visits);
    MEET();
    loco_kvstore_destroy(visit.kv);
    return 0;
}

Test(kvstore, visitors_get_while_keys_come_and_go, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, visits_body, NULL), 0);
}

/* ---- threads ---- */

#define THREADS 4

struct shared {
    loco_kvstore_t *kv;
    int rank, rounds;
};

/* Each adds one to the same counters by compare_set, and looks that values are whole. */
static int count(void *arg, int thread)
{
    struct shared *s = arg;
    uint64_t was[5], next[5];

    (void)thread;
    for (int i = 0; i < s->rounds; i++) {
        uint64_t key = (uint64_t)i % 3;
        int status;

        CHECK_OK(loco_kvstore_get(s->kv, key, was, sizeof was));
        do {
            for (int k = 0; k < 5; k++) {
                CHECK_EQ(was[k], was[0]);
                next[k] = was[0] + 1;
            }
            status = loco_kvstore_compare_set(s->kv, key, was, next, sizeof was, was);
        } while (status == LOCO_ERR_DIFFERS);
        CHECK_OK(status);
    }
    return 0;
}

static int threads_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared s = { .rank = rank, .rounds = 300 };
    uint64_t zero[5] = { 0 }, sum = 0, value[5];

    (void)arg;
    CHECK_OK(make(rt, sizeof zero, 4, &s.kv));
    if (rank == 0)
        for (uint64_t key = 0; key < 3; key++)
            CHECK_OK(loco_kvstore_insert(s.kv, key, zero, sizeof zero));
    MEET();
    CHECK_OK(run_threads(THREADS, count, &s));
    MEET();
    for (uint64_t key = 0; key < 3; key++) {
        CHECK_OK(loco_kvstore_get(s.kv, key, value, sizeof value));
        sum += value[4];
    }
    CHECK_EQ(sum, 3 * THREADS * s.rounds);
    MEET();
    loco_kvstore_destroy(s.kv);
    return 0;
}

Test(kvstore, counts_what_threads_add)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, threads_body, NULL), 0);
}

/* ---- while something is on its way ---- */

/* A read over a lane that met a delete and an insert in the same place: the first one's word
 * beside the second one's value and sum. */
static int mixed_body(loco_runtime_t *rt, int rank, void *arg)
{
    size_t len = *(size_t *)arg, words = 2 + (len + 7) / 8;
    uint64_t image[2][1 + (3 * sizeof(uint64_t) + 100) / 8], word[2];
    unsigned char value[100];
    loco_kvstore_t *kv;

    (void)rank;
    CHECK_OK(make(rt, len, 1, &kv));
    for (uint64_t i = 0; i < 2; i++) {
        fill(value, len, i);
        CHECK_OK(loco_kvstore_insert(kv, 7, value, len));
        word[i] = loci_kv_index_find(&kv->index, 7);
        CHECK_EQ(loci_kv_image_bytes(kv), 8 * words);
        CHECK_OK(loci_kv_read_image(kv, word[i], image[i], NULL));
        CHECK_OK(loci_kv_parse_image(kv, image[i], word[i], value));
        CHECK(is_filled(value, len, i));
        CHECK_OK(loco_kvstore_delete(kv, 7));
    }
    CHECK_EQ(loci_kv_parse_image(kv, image[1], word[0], value), LOCO_ERR_NOT_FOUND);
    image[1][0] = word[0];
    CHECK_EQ(loci_kv_parse_image(kv, image[1], word[0], value), LOCI_KV_TORN);
    loco_kvstore_destroy(kv);
    return 0;
}

Test(kvstore, takes_no_value_for_that_of_another_insert)
{
    size_t sizes[] = { 8, 100 };

    for (int i = 0; i < 2; i++)
        cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, mixed_body, &sizes[i]), 0);
}

/* The members are threads: they share this. */
struct held {
    loco_runtime_t *rt;
    loco_kvstore_t *kv;         /* of who deletes */
    _Atomic bool absent;
};

#define HELD_KEY 3              /* its lock is at rank 0 */
#define KEEPER 1

static int erase_held(void *arg, int thread)
{
    struct held *held = arg;

    if (thread == 0)
        return loco_kvstore_delete(held->kv, HELD_KEY);
    usleep(100000);
    weak_hold(held->rt, KEEPER, false);
    return 0;
}

/* What rank 0 writes to the keeper of the key that it deletes is held up for a while. Once rank 2
 * says that there is no such key, the keeper does not find it, either. */
static int held_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct held *held = arg;
    uint64_t value = 5;
    loco_kvstore_t *kv;
    int status;

    CHECK_OK(make(rt, sizeof value, 4, &kv));
    if (rank == KEEPER)
        CHECK_OK(loco_kvstore_insert(kv, HELD_KEY, &value, sizeof value));
    MEET();
    if (rank == 0) {
        held->rt = rt;
        held->kv = kv;
        weak_hold(rt, KEEPER, true);
        CHECK_OK(run_threads(2, erase_held, held));
    } else if (rank == KEEPER) {
        while (!atomic_load(&held->absent))
            sched_yield();
        CHECK_EQ(loco_kvstore_get(kv, HELD_KEY, &value, sizeof value), LOCO_ERR_NOT_FOUND);
    } else {
        while ((status = loco_kvstore_get(kv, HELD_KEY, &value, sizeof value)) == LOCO_OK)
            sched_yield();
        CHECK_EQ(status, LOCO_ERR_NOT_FOUND);
        atomic_store(&held->absent, true);
    }
    MEET();
    loco_kvstore_destroy(kv);
    return 0;
}

Test(kvstore, tells_of_a_delete_when_nobody_finds_the_key)
{
    struct held held = { 0 };

    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, held_body, &held), 0);
}

/* ---- nothing to do ---- */

static int64_t own_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The trackers sleep, hear what happens all the same, and can be ended. */
static int idle_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_kvstore_t *kv[4];
    uint64_t value = 5;
    int64_t before;

    (void)arg;
    for (int i = 0; i < 4; i++) {
        const loco_kvstore_options_t options = { .value_bytes = 8, .capacity = 10 };

        CHECK_OK(loco_kvstore_create(rt, "idle", (const char[]){ (char)('a' + i), '\0' },
                                     loco_everyone(rt), &options, &kv[i]));
    }
    MEET();
    for (int round = 0; round < 2; round++) {
        int tries = 0;

        /* Who is on a core while a virtual machine stands still seems to have run then. */
        do {
            usleep(100000);         /* until they sleep */
            before = own_time();
            usleep(300000);
        } while (own_time() - before >= run_limit(3000000) && ++tries < 10);
        CHECK(tries < 10);
        MEET();
        if (rank == round)
            CHECK_OK(loco_kvstore_insert(kv[3], (uint64_t)round, &value, 8));
        MEET();
        CHECK_OK(loco_kvstore_get(kv[3], (uint64_t)round, &value, 8));
    }
    MEET();
    usleep(100000);
    for (int i = 0; i < 4; i++)
        loco_kvstore_destroy(kv[i]);
    return 0;
}

Test(kvstore, sleeps_while_there_is_nothing_to_do)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, idle_body, NULL), 0);
}

/* ---- many stores ---- */

#define STORES 1000

static int make_small(loco_runtime_t *rt, int number, loco_kvstore_t **kv)
{
    const loco_kvstore_options_t options = { .value_bytes = 8, .capacity = 4, .locks = 1,
                                             .tracker_bytes = 4096 };
    char name[16];

    snprintf(name, sizeof name, "s%d", number);
    return loco_kvstore_create(rt, "many", name, loco_everyone(rt), &options, kv);
}

/* All of them work, by one thread; destroyed in any order, and none is left then. (Memory for so
 * many may have another thread look what the machine has left.) */
static int thousand_body(loco_runtime_t *rt, int rank, void *arg)
{
    static loco_kvstore_t *kv[STORES];
    uint64_t mine = (uint64_t)rank, other = 1 - mine, value;

    (void)arg;
    for (int i = 0; i < STORES; i++)
        CHECK_OK(make_small(rt, i, &kv[i]));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(tasks_named("loco-poller"), 1);
    MEET();
    for (int i = 0; i < STORES; i += 10)
        CHECK_OK(loco_kvstore_insert(kv[(i * 7 + rank) % STORES], mine, &mine, sizeof mine));
    MEET();
    for (int i = 0; i < STORES; i += 10) {
        CHECK_OK(loco_kvstore_get(kv[(i * 7 + 1 - rank) % STORES], other, &value, sizeof value));
        CHECK_EQ(value, other);
    }
    CHECK_EQ(tasks_named("loco-poller"), 1);
    MEET();
    for (int i = 0; i < STORES; i++)
        loco_kvstore_destroy(kv[(i * (rank == 0 ? 7 : 13)) % STORES]);
    CHECK_EQ(tasks_named("loco-poller"), 0);
    MEET();
    return 0;
}

Test(kvstore, a_thousand_have_one_thread, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, thousand_body, NULL), 0);
}

/* ---- a store takes turns with the others ---- */

#define UNHEARD 300

/* Messages that change nothing, and that nobody waits for. */
static int turns_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_kv_message m = { .kind = LOCI_KV_FREE, .n = 1 };
    loco_kvstore_t *kv;
    uint64_t after;

    (void)arg;
    CHECK_OK(make(rt, 8, 10, &kv));
    m.record[0].word = LOCI_KV_VALID;
    while (rank == 1 && !loci_polled_claim(kv->polled))
        ;
    MEET();
    for (int i = 0; i < UNHEARD && rank == 0; i++)
        CHECK_OK(loci_kv_tell(kv, &m, false));
    MEET();
    if (rank == 1) {
        loco_ringbuffer_t *ring = kv->readers[0];
        const uint64_t before = atomic_load(&ring->released), one = loci_ring_space(24);

        CHECK_EQ(loci_kv_read_rings(kv), LOCI_SERVED_SOME);
        after = atomic_load(&ring->released);
        CHECK(after > before && after <= before + LOCI_KV_TURN * one);
        loci_polled_free(kv->polled);
        /* Nobody rings again. */
        for (int64_t start = run_now(); loci_ringbuffer_has_news(ring);)
            CHECK(run_now() - start < RUN_PATIENCE);
        CHECK_EQ(atomic_load(&ring->released), before + UNHEARD * one);
    }
    MEET();
    loco_kvstore_destroy(kv);
    return 0;
}

Test(kvstore, reads_all_in_several_turns, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, turns_body, NULL), 0);
}

/* ---- visits that overlap ---- */

struct overlap {
    loco_kvstore_t *kv;
    _Atomic int *over;
};

/* Until the other visitor has come, too, or the whole is over. */
static int stay_for_the_other(void *ctx, uint64_t key)
{
    struct overlap *o = ctx;

    (void)key;
    for (int i = 0; i < 200 && atomic_load(&o->kv->visitors) < 2 && atomic_load(o->over) == 0; i++)
        usleep(100);
    return 1;
}

static int visit_until_over(void *arg, int thread)
{
    struct overlap *o = arg;
    int64_t start = run_now();

    (void)thread;
    while (atomic_load(o->over) == 0) {
        CHECK(run_now() - start < RUN_PATIENCE);
        loco_kvstore_iterate(o->kv, stay_for_the_other, o);
    }
    return 0;
}

/* Threads of rank 0 visit, and there is always one; what rank 1 inserts comes into its index. */
static int overlap_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct overlap o = { .over = arg };

    CHECK_OK(make(rt, 8, 100, &o.kv));
    if (rank == 0) {
        uint64_t key = 1000;

        CHECK_OK(loco_kvstore_insert(o.kv, key, &key, sizeof key));
    }
    MEET();
    if (rank == 0)
        CHECK_EQ(run_threads(3, visit_until_over, &o), 0);
    for (uint64_t key = 0; key < 30 && rank == 1; key++)
        CHECK_OK(loco_kvstore_insert(o.kv, key, &key, sizeof key));
    if (rank == 1)
        atomic_store(o.over, 1);
    MEET();
    loco_kvstore_destroy(o.kv);
    return 0;
}

Test(kvstore, visits_that_overlap_let_messages_in, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, overlap_body, (void *)run_counter()), 0);
}

/* ---- what cannot be made ---- */

static int wrong_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_kvstore_options_t o = { .value_bytes = 8, .capacity = 10 };
    loco_kvstore_t *kv, *again;

    (void)rank;
    (void)arg;
#define WRONG(field, value)                                                                       \
    do {                                                                                          \
        loco_kvstore_options_t wrong = o;                                                         \
                                                                                                  \
        wrong.field = value;                                                                      \
        CHECK_EQ(loco_kvstore_create(rt, NULL, "w", all, &wrong, &kv), LOCO_ERR_ARG);             \
    } while (0)
    WRONG(value_bytes, 0);
    WRONG(value_bytes, LARGEST + 1);
    WRONG(capacity, 0);
    WRONG(capacity, UINT64_MAX);
    WRONG(locks, -1);
    WRONG(tracker_bytes, 100);
    CHECK_EQ(loco_kvstore_create(rt, NULL, "w", all, NULL, &kv), LOCO_ERR_ARG);
    CHECK_EQ(loco_kvstore_create(rt, NULL, "w", NULL, &o, &kv), LOCO_ERR_ARG);
    CHECK_EQ(loco_kvstore_create(rt, NULL, "", all, &o, &kv), LOCO_ERR_NAME);
    o.capacity = UINT64_C(1) << 38;
    CHECK_EQ(loco_kvstore_create(rt, NULL, "w", all, &o, &kv), LOCO_ERR_NO_MEMORY);
    o.capacity = 10;
    CHECK_OK(loco_kvstore_create(rt, NULL, "kv", all, &o, &kv));
    CHECK_EQ(loco_kvstore_create(rt, NULL, "kv", all, &o, &again), LOCO_ERR_NAME);
    loco_kvstore_destroy(kv);
    CHECK_OK(loco_kvstore_create(rt, "kv", "kv", all, &o, &kv));
    loco_kvstore_destroy(kv);
    loco_kvstore_destroy(NULL);
    loco_kvstore_window_close(NULL);
    return 0;
}

Test(kvstore, refuses_what_cannot_be)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, wrong_body, NULL), 0);
}
