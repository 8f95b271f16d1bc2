/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics: all levels, late subscribers, logs, deadlines, deaths, and what does not fit. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "topic/topic_history.h"

enum { SAMPLES = 200, MOST = 2000, BYTES = 40 };

/* What a member was given, by its handlers. */
struct seen {
    loco_runtime_t *rt;
    loco_topic_t *t;
    uint64_t value[MOST];           /* the sample's word */
    int publisher[MOST], kept[MOST];
    uint64_t number[MOST], record[MOST];
    _Atomic int n, subscribed, missed, gone, left, ended, log_ended, wrong;
    int at_subscribed;              /* samples before that event */
    int64_t kept_told;
};

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct seen *s = arg;
    int have = atomic_load(&s->n);

    for (int i = 0; i < n && have < MOST; i++, have++) {
        size_t bytes = samples[i].bytes;

        memcpy(&s->value[have], samples[i].data, sizeof s->value[have]);
        s->publisher[have] = samples[i].publisher;
        s->kept[have] = samples[i].kept;
        s->number[have] = samples[i].number;
        s->record[have] = samples[i].record;
        if (bytes != 8 + s->value[have] % (BYTES - 7) || (uintptr_t)samples[i].data % 16 != 0)
            atomic_store(&s->wrong, 1);
        for (size_t k = 8; k < bytes; k++)
            if (((const unsigned char *)samples[i].data)[k] != (unsigned char)(s->value[have] + k))
                atomic_store(&s->wrong, 1);
    }
    atomic_store(&s->n, have);
}

static void note(void *arg, enum loco_topic_event event, int64_t value)
{
    struct seen *s = arg;

    if (event == LOCO_TOPIC_SUBSCRIBED) {
        s->at_subscribed = atomic_load(&s->n);
        s->kept_told = value;
        atomic_store(&s->subscribed, 1);
    } else if (event == LOCO_TOPIC_DEADLINE_MISSED) {
        atomic_store(&s->missed, (int)value);
    } else if (event == LOCO_TOPIC_MEMBER_GONE) {
        atomic_store(&s->gone, 1 + (int)value);
    } else if (event == LOCO_TOPIC_MEMBER_LEFT) {
        atomic_store(&s->left, 1 + (int)value);
    } else if (event == LOCO_TOPIC_ENDED) {
        atomic_store(&s->ended, (int)value);
    } else {
        atomic_store(&s->log_ended, 1 + (int)value);
    }
}

static size_t make(uint64_t value, unsigned char *to)
{
    size_t bytes = 8 + value % (BYTES - 7);

    memcpy(to, &value, 8);
    for (size_t k = 8; k < bytes; k++)
        to[k] = (unsigned char)(value + k);
    return bytes;
}

static int post(loco_topic_t *t, uint64_t value, uint64_t *number)
{
    unsigned char data[BYTES];
    size_t bytes = make(value, data);
    void *slot;
    int status;

    if (value % 2 == 0)
        return loco_topic_post(t, data, bytes, number);
    status = loco_topic_reserve(t, &slot);
    if (status != LOCO_OK)
        return status;
    memcpy(slot, data, bytes);
    return loco_topic_publish(t, slot, bytes, number);
}

static int await(const _Atomic int *what, int n)
{
    int64_t start = run_now();

    while (atomic_load(what) < n) {
        usleep(100);
        if (run_too_long(start, RUN_PATIENCE))
            return 1;
    }
    return 0;
}

/* ---- all levels ---- */

struct levels {
    int level, publishers;
};

/* The same at all in order; else each publisher's. */
static int check_stream(const struct seen *s, const struct levels *l)
{
    uint64_t next[8] = { 0 };

    CHECK_EQ(atomic_load(&s->n), SAMPLES * l->publishers);
    CHECK_EQ(atomic_load(&s->wrong), 0);
    for (int i = 0; i < atomic_load(&s->n); i++) {
        int p = s->publisher[i];

        CHECK(p >= 0 && p < l->publishers);
        CHECK_EQ(s->value[i], (uint64_t)p * 1000 + next[p]);
        next[p]++;
        CHECK_EQ(s->kept[i], 0);
        if (i > 0 && l->level != LOCO_TOPIC_UNORDERED)
            CHECK(s->number[i] > s->number[i - 1]);
    }
    return 0;
}

static int level_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct levels *l = arg;
    static const int publishers[] = { 0, 1 };
    struct seen *s = calloc(1, sizeof *s);
    const loco_topic_options_t o = {
        .publishers = publishers, .npublishers = l->publishers, .level = l->level, .slots = 7,
        .slot_bytes = BYTES, .subscribe = 1, .handler = take, .event = note, .arg = s,
    };
    uint64_t number = 0;

    CHECK(s != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 0; i < SAMPLES && rank < l->publishers; i++)
        CHECK_OK(post(s->t, (uint64_t)rank * 1000 + i, &number));
    if (rank < l->publishers) {
        CHECK_EQ(number, SAMPLES);
        CHECK_OK(loco_topic_wait_delivered(s->t, number));
    } else {
        CHECK_EQ(loco_topic_post(s->t, "x", 1, NULL), LOCO_ERR_STATE);
        CHECK_EQ(loco_topic_try_reserve(s->t, (void **)&number), LOCO_ERR_STATE);
    }
    CHECK_EQ(await(&s->n, SAMPLES * l->publishers), 0);
    CHECK_EQ(check_stream(s, l), 0);
    CHECK_EQ(loco_topic_logged(s->t, &number, &number), LOCO_ERR_STATE);
    CHECK_EQ(loco_topic_wait_synced(s->t, 1, LOCO_FOREVER), LOCO_ERR_STATE);
    CHECK_OK(loco_topic_subscribe(s->t));       /* it has */
    CHECK_OK(run_meet(rt));
    CHECK_EQ(atomic_load(&s->subscribed), 0);
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, gives_all_samples_to_all, .timeout = RUN_SECONDS)
{
    for (int level = 0; level < 4; level++)
        for (int publishers = 1; publishers < 3; publishers++) {
            struct levels l = { level, publishers };

            cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, level_body, &l), 0);
            cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, level_body, &l), 0);
        }
}

/* ---- late subscribers ---- */

struct late {
    int level, history;
    size_t bytes;
};

/* How many of the last of `n` samples are kept. */
static int kept_of(const struct late *l, int n)
{
    int kept = 0, most = l->history == 0 && l->bytes == 0 ? 1 : l->history;
    size_t used = 0;

    if (l->level < LOCO_TOPIC_KEPT)
        return 0;
    while (kept < n && (most == 0 || kept < most)) {
        used += (8 + (uint64_t)(n - 1 - kept) % (BYTES - 7) + 15) / 16 * 16 + LOCI_TOPIC_ENTRY;
        if (l->bytes != 0 && used > l->bytes)
            break;
        kept++;
    }
    return kept;
}

/* Rank 0 publishes SAMPLES, all have them, the others subscribe, it publishes as many again. */
static int late_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct late *l = arg;
    static const int publisher[] = { 0 };
    struct seen *s = calloc(1, sizeof *s);
    const loco_topic_options_t o = {
        .publishers = publisher, .npublishers = 1, .level = l->level, .slots = 5,
        .slot_bytes = BYTES, .handler = rank == 0 ? NULL : take, .event = note, .arg = s,
        .history = l->history, .history_bytes = l->bytes,
    };
    int kept = kept_of(l, SAMPLES);
    uint64_t number = 0;

    CHECK(s != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 0; i < SAMPLES && rank == 0; i++)
        CHECK_OK(post(s->t, i, &number));
    if (rank == 0)
        CHECK_OK(loco_topic_wait_delivered(s->t, number));
    CHECK_OK(run_meet(rt));
    CHECK_EQ(atomic_load(&s->n), 0);
    if (rank == 0)
        CHECK_EQ(loco_topic_subscribe(s->t), LOCO_ERR_STATE);
    else
        CHECK_OK(loco_topic_subscribe(s->t));
    if (rank != 0)
        CHECK_EQ(await(&s->subscribed, 1), 0);
    CHECK_OK(run_meet(rt));
    for (uint64_t i = SAMPLES; i < 2 * SAMPLES && rank == 0; i++)
        CHECK_OK(post(s->t, i, &number));
    if (rank == 0)
        CHECK_OK(loco_topic_wait_delivered(s->t, number));
    if (rank != 0 && await(&s->n, kept + SAMPLES) != 0) {
        fprintf(stderr, "level %d, history %d, %zu: %d kept, not %d; %d in all\n", l->level,
                l->history, l->bytes, s->at_subscribed, kept, atomic_load(&s->n));
        return 1;
    }
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < atomic_load(&s->n); i++) {
        CHECK_EQ(s->value[i], (uint64_t)(SAMPLES - kept + i));
        CHECK_EQ(s->kept[i], i < kept);
    }
    CHECK_EQ(atomic_load(&s->n), rank == 0 ? 0 : kept + SAMPLES);
    CHECK(rank == 0 || (s->kept_told == kept && s->at_subscribed == kept));
    CHECK_EQ(atomic_load(&s->wrong), 0);
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, keeps_samples_for_late_subscribers, .timeout = RUN_SECONDS)
{
    static const struct late lates[] = {
        { LOCO_TOPIC_UNORDERED, 0, 0 }, { LOCO_TOPIC_ATOMIC, 0, 0 }, { LOCO_TOPIC_KEPT, 0, 0 },
        { LOCO_TOPIC_KEPT, 10, 0 }, { LOCO_TOPIC_KEPT, SAMPLES, 0 },
        { LOCO_TOPIC_KEPT, 5 * SAMPLES, 0 }, { LOCO_TOPIC_KEPT, 0, 1000 },
        { LOCO_TOPIC_KEPT, 5, 1000 }, { LOCO_TOPIC_KEPT, 50, 1234 }, { LOCO_TOPIC_LOGGED, 20, 0 },
    };

    for (size_t i = 0; i < sizeof lates / sizeof lates[0]; i++) {
        struct late l = lates[i];

        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, late_body, &l), 0);
        cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, late_body, &l), 0);
    }
}

/* While samples are published: what is kept, then the stream, without a gap or a double. */
static int meanwhile_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int publisher[] = { 0 };
    const int rounds = 1500;

    (void)arg;
    for (int round = 0; round < run_rounds(20); round++) {
        struct seen *s = calloc(1, sizeof *s);
        const loco_topic_options_t o = {
            .publishers = publisher, .npublishers = 1, .level = LOCO_TOPIC_KEPT,
            .slot_bytes = BYTES, .handler = take, .event = note, .arg = s, .history = 9,
        };
        uint64_t number = 0;
        int n;

        CHECK(s != NULL);
        CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
        CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
        for (int i = 0; i < rounds && rank == 0; i++)
            CHECK_OK(post(s->t, (uint64_t)i, &number));
        if (rank != 0) {
            usleep((useconds_t)(round * 37 % 400));
            CHECK_OK(loco_topic_subscribe(s->t));
        }
        if (rank == 0)
            CHECK_OK(loco_topic_wait_delivered(s->t, number));
        CHECK_OK(run_meet(rt));
        CHECK_EQ(rank == 0 ? 0 : await(&s->subscribed, 1), 0);
        n = atomic_load(&s->n);
        CHECK(rank == 0 || n >= 9);
        for (int i = 0; i < n; i++)
            CHECK_EQ(s->value[i], (uint64_t)(rounds - n + i));
        CHECK(rank == 0 || (s->at_subscribed == s->kept_told && s->kept_told <= 9));
        CHECK_OK(run_meet(rt));
        loco_topic_destroy(s->t);
        free(s);
    }
    return 0;
}

Test(topic, lets_subscribe_while_samples_come, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, meanwhile_body, NULL), 0);
}

/* ---- the memory of what is kept ---- */

Test(topic, keeps_what_fits)
{
    static const struct {
        size_t samples, bytes;
    } limits[] = { { 1, 0 }, { 3, 0 }, { 7, 500 }, { 0, 300 }, { 0, 5000 }, { 100, 160 } };

    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        struct loci_topic_history h;
        uint64_t random = 7 + k;
        size_t length[MOST];

        cr_assert_eq(loci_topic_history_open(&h, limits[k].samples, limits[k].bytes, 90), LOCO_OK);
        for (uint64_t i = 0; i < 600; i++) {
            unsigned char data[96];
            loco_sample_t got[MOST];
            size_t used = 0, want = 0;
            int n;

            length[i] = (size_t)(run_random(&random) % 91);
            memset(data, (int)i, sizeof data);
            loci_topic_history_put(&h, &(loco_sample_t){ .data = data, .bytes = length[i],
                                                         .number = i, .publisher = (int)i % 3 });
            for (; want <= i && (limits[k].samples == 0 || want < limits[k].samples); want++) {
                used += (length[i - want] + 15) / 16 * 16 + LOCI_TOPIC_ENTRY;
                if (limits[k].bytes != 0 && used > limits[k].bytes)
                    break;
            }
            n = loci_topic_history_get(&h, 0, MOST, got);
            cr_assert_eq((size_t)n, want, "%d are kept, not %d", n, (int)want);
            for (int j = 0; j < n; j++) {
                uint64_t number = i + 1 - (uint64_t)(n - j);

                cr_assert_eq(got[j].number, number);
                cr_assert_eq(got[j].bytes, length[number]);
                cr_assert_eq(got[j].publisher, (int)number % 3);
                for (size_t b = 0; b < got[j].bytes; b++)
                    cr_assert_eq(((const unsigned char *)got[j].data)[b], (unsigned char)number);
            }
        }
        loci_topic_history_close(&h);
    }
}

Test(topic, refuses_a_history_that_is_too_large)
{
    static const struct {
        size_t samples, bytes, largest;
    } wrong[] = { { 10, SIZE_MAX, 90 }, { 0, SIZE_MAX - 20, 90 }, { SIZE_MAX / 64, 0, 90 },
                  { 3, 0, (size_t)-LOCI_TOPIC_ENTRY }, { 3, 0, SIZE_MAX } };
    struct loci_topic_history h;

    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        cr_assert_eq(loci_topic_history_open(&h, wrong[k].samples, wrong[k].bytes,
                                             wrong[k].largest), LOCO_ERR_NO_MEMORY);
}

/* ---- logs ---- */

struct logged {
    char folder[64];
    int run;                /* how often it has been made */
};

static int log_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct logged *l = arg;
    static const int publisher[] = { 0 };
    struct seen *s = calloc(1, sizeof *s), *read = calloc(1, sizeof *read);
    char path[96];
    loco_topic_options_t o = {
        .publishers = publisher, .npublishers = 1, .level = LOCO_TOPIC_LOGGED, .history = 3,
        .slot_bytes = BYTES, .handler = take, .subscribe = 1, .event = note, .arg = s,
        .log = rank == 0 ? NULL : path,
    };
    uint64_t number = 0, written = 0, synced = 0, before = (uint64_t)l->run * SAMPLES;

    snprintf(path, sizeof path, "%s/%d", l->folder, rank);
    CHECK(s != NULL && read != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 0; i < SAMPLES && rank == 0; i++)
        CHECK_OK(post(s->t, before + i, &number));
    if (rank == 0)
        CHECK_OK(loco_topic_wait_delivered(s->t, number));
    CHECK_EQ(await(&s->n, SAMPLES), 0);
    for (int i = 0; i < SAMPLES; i++)
        CHECK_EQ(s->record[i], rank == 0 ? 0 : before + (uint64_t)i + 1);
    if (rank != 0) {
        CHECK_OK(loco_topic_wait_synced(s->t, before + SAMPLES, LOCO_FOREVER));
        CHECK_OK(loco_topic_logged(s->t, &written, &synced));
        CHECK(written == before + SAMPLES && synced == written);
        CHECK_EQ(loco_topic_wait_synced(s->t, written + 1, 0), LOCO_ERR_ARG);
        CHECK_EQ(loco_topic_wait_synced(s->t, 1, -5), LOCO_ERR_ARG);
        CHECK_OK(loco_topic_replay(rt, path, 11, take, read));
        CHECK_EQ(atomic_load(&read->n), (int)written - 10);
        for (int i = 0; i < atomic_load(&read->n); i++)
            CHECK(read->value[i] == (uint64_t)i + 10 && read->record[i] == (uint64_t)i + 11);
    }
    CHECK_OK(run_meet(rt));
    loco_topic_destroy(s->t);
    CHECK_OK(loco_topic_replay(rt, "/nowhere/at/all", 0, take, read));
    CHECK_EQ(loco_topic_replay(rt, NULL, 0, take, read), LOCO_ERR_ARG);
    CHECK_EQ(loco_topic_replay(rt, "/", 0, take, read), LOCO_ERR_ARG);
    free(read);
    free(s);
    return 0;
}

Test(topic, logs_what_is_delivered, .timeout = RUN_SECONDS)
{
    struct logged l = { "/tmp/loco-topic.XXXXXX", 0 };
    char path[96];

    cr_assert(mkdtemp(l.folder) != NULL);
    for (; l.run < 4; l.run++)
        cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, log_body, &l), 0);
    for (int rank = 1; rank < 3; rank++) {
        snprintf(path, sizeof path, "%s/%d", l.folder, rank);
        cr_assert_eq(unlink(path), 0);
    }
    cr_assert_eq(rmdir(l.folder), 0);
}

/* A log that fails does not end the topic. */
static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct logged *l = arg;
    struct seen *s = calloc(1, sizeof *s);
    char path[96];
    const loco_topic_options_t o = {
        .level = LOCO_TOPIC_LOGGED, .slot_bytes = BYTES, .handler = take, .subscribe = 1,
        .event = note, .arg = s, .log = path,
    };
    uint64_t number = 0, written = 0;

    snprintf(path, sizeof path, "%s/%d", l->folder, rank);
    CHECK(s != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 0; i < 10 && rank == 0; i++)
        CHECK_OK(post(s->t, i, NULL));
    CHECK_EQ(await(&s->n, 10), 0);
    CHECK_OK(loco_topic_wait_synced(s->t, 10, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    if (rank == 1)
        CHECK_EQ(truncate(path, 100), 0);
    CHECK_OK(run_meet(rt));
    for (uint64_t i = 10; i < 20 && rank == 0; i++)
        CHECK_OK(post(s->t, i, &number));
    CHECK_EQ(await(&s->n, 20), 0);
    CHECK_OK(loco_topic_logged(s->t, &written, NULL));
    CHECK_EQ(written, rank == 1 ? 10 : 20);
    CHECK_EQ(atomic_load(&s->log_ended), rank == 1 ? 11 : 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(s->record[i], rank == 1 && i >= 10 ? 0 : (uint64_t)i + 1);
    CHECK_OK(run_meet(rt));
    loco_topic_destroy(s->t);
    free(s);
    unlink(path);
    return 0;
}

Test(topic, goes_on_without_its_log, .timeout = RUN_SECONDS)
{
    struct logged l = { "/tmp/loco-topic.XXXXXX", 0 };

    cr_assert(mkdtemp(l.folder) != NULL);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, full_body, &l), 0);
    cr_assert_eq(rmdir(l.folder), 0);
}

/* ---- deadlines ---- */

#define DEADLINE INT64_C(30000000)

static int deadline_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seen *s = calloc(1, sizeof *s);
    const loco_topic_options_t o = {
        .level = LOCO_TOPIC_ATOMIC, .slot_bytes = BYTES, .handler = take, .subscribe = 1,
        .event = note, .arg = s, .deadline_ns = rank == 0 ? 0 : DEADLINE,
    };
    const loco_topic_options_t forever = {
        .deadline_ns = INT64_MAX, .event = rank == 0 ? note : NULL, .arg = s,
    };
    loco_topic_t *slow;
    int64_t start;
    int missed;

    (void)arg;
    CHECK(s != NULL);
    start = run_now();
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_topic_create(rt, NULL, "slow", loco_everyone(rt), &forever, &slow));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 1) {
        CHECK_EQ(await(&s->missed, 3), 0);
        CHECK(run_now() - start >= 3 * DEADLINE);
    }
    CHECK_OK(run_meet(rt));
    /* Not while samples come, unless the machine stands still. */
    missed = atomic_load(&s->missed);
    start = run_now();
    for (uint64_t i = 0; i < 100; i++) {
        if (rank == 0)
            CHECK_OK(post(s->t, i, NULL));
        usleep(1000);
    }
    if (rank == 1 && !run_too_long(start, 4 * DEADLINE))
        CHECK(atomic_load(&s->missed) <= missed + 2);
    CHECK_EQ(rank == 0 ? atomic_load(&s->missed) : 0, 0);
    CHECK_OK(run_meet(rt));
    start = run_now();
    loco_topic_destroy(slow);           /* does not wait for its deadline */
    CHECK(!run_too_long(start, RUN_PATIENCE));
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, notices_missed_deadlines, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, deadline_body, NULL), 0);
}

/* ---- callbacks ---- */

/* It would wait for itself; so it does not. */
static void misuse(void *arg, const loco_sample_t *samples, int n)
{
    struct seen *s = arg;
    loco_topic_t *other;

    (void)samples;
    loco_topic_destroy(s->t);
    if (loco_topic_create(s->rt, NULL, "weather", loco_everyone(s->rt), NULL, &other)
        != LOCO_ERR_STATE)
        atomic_store(&s->wrong, 1);
    atomic_fetch_add(&s->n, n);
}

static int misuse_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seen *s = calloc(1, sizeof *s);
    const loco_topic_options_t o = { .handler = misuse, .arg = s, .subscribe = 1 };

    (void)rank;
    (void)arg;
    CHECK(s != NULL);
    s->rt = rt;
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 1; i <= 3; i++) {
        CHECK_OK(loco_topic_post(s->t, "x", 1, NULL));
        CHECK_EQ(await(&s->n, i), 0);
    }
    CHECK_EQ(atomic_load(&s->wrong), 0);
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, is_not_destroyed_in_its_handler, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, misuse_body, NULL), 0);
}

/* ---- deaths ---- */

static int open_and_lose(struct seen *s, loco_runtime_t *rt, int rank, int level, void *arg)
{
    const loco_topic_options_t o = {
        .level = level, .slot_bytes = BYTES, .handler = take, .subscribe = 1, .event = note,
        .arg = s,
    };

    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(run_meet_alive(rt, arg), 0);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK_EQ(await(&s->gone, 1), 0);
    CHECK_EQ(atomic_load(&s->gone), 2);
    return 0;
}

/* The two that are left publish, and are given the same; then one of them leaves. */
static int survivor_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seen *s = calloc(1, sizeof *s);
    unsigned char text[BYTES];
    int next[3] = { 0 };

    CHECK(s != NULL);
    CHECK_EQ(open_and_lose(s, rt, rank, LOCO_TOPIC_KEPT, arg), 0);
    for (uint64_t i = 0; i < SAMPLES; i++)
        CHECK_OK(loco_topic_post(s->t, text, make(i, text), NULL));
    CHECK_EQ(await(&s->n, 2 * SAMPLES), 0);
    for (int i = 0; i < 2 * SAMPLES; i++)
        CHECK_EQ(s->value[i], (uint64_t)next[s->publisher[i]]++);
    CHECK_EQ(next[1], 0);
    CHECK_EQ(atomic_load(&s->wrong) + atomic_load(&s->ended) + atomic_load(&s->left), 0);
    atomic_fetch_add((_Atomic int *)arg, 1);
    CHECK_EQ(run_await(arg, loco_group_size(loco_everyone(rt)) + 2), 0);
    if (rank == 2)
        loco_topic_destroy(s->t);
    CHECK_EQ(rank == 2 ? 0 : await(&s->left, 1), 0);
    if (rank == 0) {
        CHECK_EQ(atomic_load(&s->left), 3);
        CHECK_EQ(atomic_load(&s->gone), 2);
        CHECK_OK(loco_topic_post(s->t, text, make(0, text), NULL));
        CHECK_EQ(await(&s->n, 2 * SAMPLES + 1), 0);
        loco_topic_destroy(s->t);
    }
    CHECK_EQ(atomic_load(&s->ended), 0);
    free(s);
    return 0;
}

Test(topic, goes_on_without_a_member, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, survivor_body, run_counter()), 0);
}

/* The status that ends it; 0: it goes on. */
static int await_end(const struct seen *s)
{
    int64_t start = run_now();

    while (atomic_load(&s->ended) == 0 && !run_too_long(start, RUN_PATIENCE))
        usleep(1000);
    return atomic_load(&s->ended);
}

static void die(void *arg, const loco_sample_t *samples, int n)
{
    (void)arg;
    (void)samples;
    (void)n;
    kill(getpid(), SIGKILL);
}

/* Until the ring is full of what a dead member does not take: the call waits for that, and returns
 * that it is dead. */
static int publish_to_the_dead(loco_topic_t *t)
{
    uint64_t number = 0;
    int status;

    while ((status = post(t, 0, &number)) == LOCO_OK)
        ;
    CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_topic_wait_delivered(t, number), LOCO_ERR_PEER_DEAD);
    CHECK_EQ(post(t, 1, &number), LOCO_ERR_PEER_DEAD);
    return 0;
}

/* Rank 1 dies of the first sample. */
static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int zero = 0;
    struct seen *s = calloc(1, sizeof *s);
    const int size = loco_group_size(loco_everyone(rt));
    const loco_topic_options_t o = {
        .publishers = &zero, .npublishers = 1, .slots = 20, .slot_bytes = BYTES,
        .level = size > 64 ? LOCO_TOPIC_ATOMIC : LOCO_TOPIC_UNORDERED,
        .handler = rank == 1 ? die : take, .subscribe = 1, .event = note, .arg = s,
    };

    CHECK(s != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(run_meet_alive(rt, arg), 0);
    CHECK_EQ(rank == 0 ? publish_to_the_dead(s->t) : 0, 0);
    CHECK_EQ(await_end(s), LOCO_ERR_PEER_DEAD);
    CHECK_EQ(atomic_load(&s->gone), 2);
    CHECK_EQ(atomic_load(&s->left), 0);
    /* Who leaves meanwhile would be told of in place of the dead one. */
    atomic_fetch_add((_Atomic int *)arg, 1);
    CHECK_EQ(run_await(arg, 2 * size - 1), 0);
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, ends_with_a_member_where_it_is_unordered, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, death_body, run_counter()), 0);
}

/* One more than a view may have. */
Test(topic, ends_with_a_member_where_there_are_many, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 65, 1, NULL, death_body, run_counter()), 0);
}

/* A majority of two is both of them. */
static int minority_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct seen *s = calloc(1, sizeof *s);
    const loco_topic_options_t o = {
        .level = LOCO_TOPIC_ATOMIC, .slot_bytes = BYTES, .handler = take, .subscribe = 1,
        .event = note, .arg = s, .view = LOCO_VIEW_MAJORITY,
    };

    CHECK(s != NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &s->t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(run_meet_alive(rt, arg), 0);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK_EQ(await_end(s), LOCO_ERR_PARTITIONED);
    CHECK_EQ(loco_topic_post(s->t, "x", 1, NULL), LOCO_ERR_PARTITIONED);
    loco_topic_destroy(s->t);
    free(s);
    return 0;
}

Test(topic, ends_without_a_majority_if_asked, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, minority_body, run_counter()), 0);
}

/* ---- what does not fit ---- */

struct heard {
    char text[4096];
};

static void hear(void *ctx, int level, const char *text)
{
    struct heard *h = ctx;
    size_t have = strlen(h->text);

    if (level == LOCO_LOG_ERROR)
        snprintf(h->text + have, sizeof h->text - have, "%s\n", text);
}

struct pair {
    loco_topic_options_t o[2];
    bool fits;
    const char *words[2];       /* of what both say: at rank 0, at rank 1 */
};

static int pair_member(const struct loco_bootstrap *boot, void *arg)
{
    const struct pair *p = arg;
    struct loco_bootstrap mine = *boot;
    static struct heard heard;
    loco_runtime_t *rt;
    loco_topic_t *t;
    int rank, status;

    mine.log = hear;
    mine.log_ctx = &heard;
    CHECK_OK(loco_runtime_open(&mine, &rt));
    rank = loco_group_rank(loco_everyone(rt));
    CHECK_OK(loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &p->o[rank], &t));
    status = loco_runtime_wait_ready(rt, INT64_C(20000000000));
    CHECK_EQ(status, p->fits ? LOCO_OK : LOCO_ERR_MISMATCH);
    for (int i = 0; i < 2 && !p->fits; i++)
        if (strstr(heard.text, p->words[i]) == NULL) {
            fprintf(stderr, "rank %d hears no \"%s\": %s\n", rank, p->words[i], heard.text);
            return 1;
        }
    loco_topic_destroy(t);
    loco_runtime_close(rt);
    return 0;
}

static void take_none(void *arg, const loco_sample_t *samples, int n)
{
    (void)arg;
    (void)samples;
    (void)n;
}

#define PUB .publishers = zero, .npublishers = 1
#define SUB .publishers = zero, .npublishers = 1, .handler = take_none, .subscribe = 1

Test(topic, says_what_does_not_fit, .timeout = RUN_SECONDS)
{
    static const int zero[] = { 0 }, one[] = { 1 };
    static const struct pair pairs[] = {
        { { { PUB, .level = 3 }, { SUB, .level = 1 } }, true, { 0 } },
        { { { PUB, .level = 2 }, { SUB, .level = 2 } }, true, { 0 } },
        { { { PUB, .level = 2, .history = 4 }, { SUB, .level = 2, .history = 9 } }, true, { 0 } },
        { { { PUB, .level = 1 }, { PUB, .level = 3 } }, true, { 0 } },     /* nobody requests */
        { { { PUB, .level = 1 }, { SUB, .level = 2 } }, false,
          { "atomic (offered) at rank 0", "kept (requested) at rank 1" } },
        { { { PUB, .level = 0 }, { SUB, .level = 3 } }, false,
          { "unordered (offered) at rank 0", "logged (requested) at rank 1" } },
        { { { PUB, .level = 1 }, { SUB, .level = 0 } }, false,
          { "0 at rank 0", "1 at rank 1" } },
        { { { PUB, .slot_bytes = 100 }, { SUB, .slot_bytes = 200 } }, false,
          { "100 at rank 0", "200 at rank 1" } },
        { { { PUB, .slots = 10 }, { SUB, .slots = 20 } }, false,
          { "10 at rank 0", "20 at rank 1" } },
        { { { PUB }, { .publishers = one, .npublishers = 1 } }, false,
          { "the hash of its senders is", "at rank 0" } },
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct pair p = pairs[i];
        int statuses[2];

        loco_fork_run(2, pair_member, &p, statuses);
        cr_assert(statuses[0] == 0 && statuses[1] == 0, "pair %d: %d, %d", (int)i, statuses[0],
                  statuses[1]);
    }
}

/* ---- arguments ---- */

static int argument_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    static const int zero[] = { 0 };
    static const loco_topic_options_t wrong[] = {
        { .level = -1 }, { .level = 4 }, { .sync = 3 }, { .deadline_ns = -1 }, { .subscribe = 1 },
        { .history = -1, .level = 2 }, { .history = 1, .level = 1 },
        { .history_bytes = 100, .level = 1 }, { .history_bytes = 100, .level = 2 },
        { .log = "x", .level = 2 }, { .slots = -1 }, { .npublishers = 9, .publishers = zero },
        { .npublishers = -1, .publishers = zero }, { .publishers = zero },
    };
    loco_topic_t *t = NULL;

    (void)rank;
    (void)arg;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(loco_topic_create(rt, NULL, "weather", all, &wrong[i], &t), LOCO_ERR_ARG);
    CHECK_EQ(loco_topic_create(rt, NULL, "", all, NULL, &t), LOCO_ERR_NAME);
    CHECK_EQ(loco_topic_create(rt, NULL, "weather", NULL, NULL, &t), LOCO_ERR_ARG);
    CHECK_EQ(loco_topic_create(rt, NULL, "weather", all,
                               &(loco_topic_options_t){ .level = 3, .log = "/nowhere/at/all" }, &t),
             LOCO_ERR_SYSTEM);
    CHECK(t == NULL);
    loco_topic_destroy(NULL);
    CHECK_OK(loco_topic_create(rt, NULL, "weather", all, NULL, &t));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_topic_post(t, "x", 1, NULL));
    CHECK_OK(run_meet(rt));
    loco_topic_destroy(t);
    return 0;
}

Test(topic, refuses_arguments, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, argument_body, NULL), 0);
}
