/* SPDX-License-Identifier: BSD-3-Clause */

/* Many names, parts of them, and names that nobody else has. The clock of most of these runs is
 * fast: a second of waiting takes 10 ms. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "names/names.h"
#include "run.h"

#define SECOND INT64_C(1000000000)
#define FAST 100

static const struct weak_faults fast = { .speed = FAST };

static int make(loco_runtime_t *rt, const char *parent, const char *name, loco_region_t **region)
{
    return loco_region_create(rt, parent, name, loco_everyone(rt), 64, region);
}

/* Come together while there are channels that never become ready. */
static int meet(loco_runtime_t *rt)
{
    loco_barrier_t *barrier;

    CHECK_OK(loco_barrier_create(rt, "test", "here", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready_below(rt, "test", LOCO_FOREVER));
    CHECK_OK(loco_barrier_wait(barrier));
    loco_barrier_destroy(barrier);
    return 0;
}

/* ---- names that others do not have ---- */

static int misspelt_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_region_t *fine, *region;

    (void)arg;
    CHECK_OK(make(rt, NULL, "fine", &fine));
    CHECK_OK(make(rt, NULL, rank == 0 ? "tabel" : "table", &region));
    CHECK(meet(rt) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(loco_runtime_wait_ready(rt, run_limit(2 * SECOND)), LOCO_ERR_TIMEOUT);
    CHECK(meet(rt) == 0);
    loco_region_destroy(region);
    loco_region_destroy(fine);
    CHECK_EQ(weak_logged(rt, "has waited 1 s for ranks 1, 2 to make channel tabel; rank "), 1);
    CHECK_EQ(weak_logged(rt, "rank 1 has \"table\", which lacks this process"), 1);
    CHECK_EQ(weak_logged(rt, "rank 2 has \"table\", which lacks this process"), 1);
    CHECK_EQ(weak_logged(rt, "has waited 1 s for rank 0 to make channel table; rank 0 has "
                         "\"tabel\", which lacks this process"), 2);
    CHECK_EQ(weak_logged(rt, "fine"), 0);
    return 0;
}

/* The clock is as fast as ours: what is asked has to be answered in time. */
Test(names, a_wait_of_a_second_names_channel_ranks_and_what_they_have, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, misspelt_body, NULL), 0);
}

/* Nothing similar, many ranks, many channels; and a part of them. */
static int alone_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_region_t *region[6];
    char name[8];

    (void)arg;
    for (int i = 0; rank == 0 && i < 6; i++) {
        snprintf(name, sizeof name, "alone%d", i);
        CHECK_OK(make(rt, i < 5 ? "most" : NULL, name, &region[i]));
    }
    if (rank == 0) {
        CHECK_EQ(loco_runtime_wait_ready_below(rt, "alone5", 20 * SECOND), LOCO_ERR_TIMEOUT);
        CHECK_EQ(loco_runtime_wait_ready(rt, 20 * SECOND), LOCO_ERR_TIMEOUT);
    }
    CHECK(meet(rt) == 0);
    for (int i = 0; rank == 0 && i < 6; i++)
        loco_region_destroy(region[i]);
    if (rank != 0)
        return 0;
    CHECK_EQ(weak_logged(rt, "for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more to make channel alone5"),
             1);
    CHECK_EQ(weak_logged(rt, "to make channel most/alone0; so are 4 more: most/alone1, "
                         "most/alone2, most/alone3..."), 1);
    CHECK_EQ(weak_logged(rt, "to make channel alone5"), 1);
    CHECK_EQ(weak_logged(rt, "to make channel most/"), 1);
    return 0;
}

Test(names, one_line_is_for_all_that_a_wait_lacks, .timeout = RUN_SECONDS)
{
    cr_assert_eq(weak_run_faulty(10, 1, &fast, alone_body, NULL), 0);
}

/* A queue is made of channels of which its user knows nothing. */
static int parts_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_queue_t *queue;
    loco_region_t *region;

    (void)arg;
    if (rank == 0) {
        CHECK_OK(loco_queue_create(rt, NULL, "works", loco_everyone(rt), 8, 4, 0, &queue));
        CHECK_OK(make(rt, NULL, "worksheet", &region));
        CHECK_EQ(loco_runtime_wait_ready(rt, 20 * SECOND), LOCO_ERR_TIMEOUT);
    }
    CHECK(meet(rt) == 0);
    if (rank != 0)
        return 0;
    loco_region_destroy(region);
    loco_queue_destroy(queue);
    CHECK_EQ(weak_logged(rt, "for rank 1 to make channel works"), 1);
    CHECK_EQ(weak_logged(rt, "; so is 1 more: worksheet"), 1);
    CHECK_EQ(weak_logged(rt, "works/head"), 0);
    return 0;
}

Test(names, parts_of_a_channel_are_not_told_of, .timeout = RUN_SECONDS)
{
    cr_assert_eq(weak_run_faulty(2, 1, &fast, parts_body, NULL), 0);
}

/* Short waits add up; what is made in time is not told of. */
static int in_time_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_region_t *region;

    (void)arg;
    if (rank == 1)
        usleep(5000);           /* half a second of this clock */
    CHECK_OK(make(rt, NULL, "late", &region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK(meet(rt) == 0);
    loco_region_destroy(region);
    if (rank == 1)
        return 0;
    CHECK_OK(make(rt, NULL, "never", &region));
    for (int i = 0; i < 400; i++)
        CHECK_EQ(loco_runtime_wait_ready(rt, SECOND / 20), LOCO_ERR_TIMEOUT);
    loco_region_destroy(region);
    CHECK_EQ(weak_logged(rt, "has waited 1 s for rank 1 to make channel never"), 1);
    return 0;
}

Test(names, short_waits_do_as_well_as_a_long_one, .timeout = RUN_SECONDS)
{
    cr_assert_eq(weak_run_faulty(2, 1, &fast, in_time_body, NULL), 0);
}

Test(names, distance_counts_letters_and_neighbours_that_changed_places, .timeout = RUN_SECONDS)
{
    static const struct {
        const char *a, *b;
        int limit, distance;
    } pairs[] = {
        { "table", "table", 3, 0 }, { "table", "tabel", 3, 1 }, { "table", "tables", 3, 1 },
        { "able", "table", 3, 1 }, { "table", "cable", 3, 1 }, { "ab", "ba", 3, 1 },
        { "kitten", "sitting", 3, 3 }, { "kitten", "sitting", 2, 3 }, { "abcdef", "fedcba", 9, 5 },
        { "a", "abcdefgh", 4, 5 }, { "", "ab", 2, 2 }, { "ab", "", 2, 2 },
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        cr_assert_eq(loci_names_distance(pairs[i].a, pairs[i].b, pairs[i].limit), pairs[i].distance,
                     "%s, %s", pairs[i].a, pairs[i].b);
}

/* ---- two libraries ---- */

#define LIBRARY 4

/* Library A is early on rank 0, and its last channel differs; B does not mind. */
static int two_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const char *const names[LIBRARY] = { "libB", "libB/x", "libB.y", "libBx" };
    loco_region_t *early, *differs, *b[LIBRARY];

    (void)arg;
    if (rank == 0)
        CHECK_OK(make(rt, "libA", "early", &early));
    CHECK_OK(loco_region_create(rt, "libA", "differs", loco_everyone(rt), rank == 0 ? 64 : 128,
                                &differs));
    for (int i = 0; i < LIBRARY; i++)
        if (i != 3 || rank == 0)
            CHECK_OK(make(rt, NULL, names[i], &b[i]));
    CHECK_OK(loco_runtime_wait_ready_below(rt, "libB", run_limit(10 * SECOND)));
    for (int i = 0; i < 3; i++)
        CHECK_OK(loco_region_write64(b[i], 1 - rank, 0, 7));
    CHECK_EQ(loco_runtime_wait_ready_below(rt, "libA", run_limit(10 * SECOND)),
             LOCO_ERR_MISMATCH);
    CHECK_EQ(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    CHECK_OK(loco_runtime_wait_ready_below(rt, "libB", 0));
    if (rank == 0)
        CHECK_EQ(loco_runtime_wait_ready_below(rt, "libBx", SECOND / 50), LOCO_ERR_TIMEOUT);
    CHECK(meet(rt) == 0);
    for (int i = 0; i < LIBRARY; i++)
        if (i != 3 || rank == 0)
            loco_region_destroy(b[i]);
    loco_region_destroy(differs);
    if (rank == 0)
        loco_region_destroy(early);
    return 0;
}

Test(names, a_wait_below_a_name_is_for_those_alone, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, two_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, two_body, NULL), 0);
}

static int arguments_body(loco_runtime_t *rt, int rank, void *arg)
{
    char name[LOCI_NAME_MAX + 1];

    (void)rank;
    (void)arg;
    memset(name, 'n', sizeof name);
    name[LOCI_NAME_MAX] = '\0';
    CHECK_EQ(loco_runtime_wait_ready_below(rt, NULL, 0), LOCO_ERR_NAME);
    CHECK_EQ(loco_runtime_wait_ready_below(rt, "", 0), LOCO_ERR_NAME);
    CHECK_EQ(loco_runtime_wait_ready_below(rt, name, 0), LOCO_ERR_NAME);
    name[LOCI_NAME_MAX - 1] = '\0';
    CHECK_OK(loco_runtime_wait_ready_below(rt, name, 0));
    CHECK_EQ(loco_runtime_wait_ready_below(rt, "a", -7), LOCO_ERR_ARG);
    return 0;
}

Test(names, a_wait_below_no_name_is_refused, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 1, 1, NULL, arguments_body, NULL), 0);
}

/* ---- many ---- */

static int make_many(loco_runtime_t *rt, int n, struct loci_endpoint **ep)
{
    char name[16];
    struct loci_endpoint_spec spec = {
        .name = name, .type = "test", .group = loco_everyone(rt),
    };

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "n%d", i);
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep[i]));
    }
    return 0;
}

#define SPARE 2000

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = *(int *)arg, letters;
    struct loci_endpoint **ep = calloc((size_t)n, sizeof *ep);

    (void)rank;
    CHECK(make_many(rt, n, ep) == 0);
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    letters = weak_letters(rt);
    CHECK(meet(rt) == 0);
    for (int i = 0; i < n; i++)
        loci_endpoint_destroy(ep[i]);
    free(ep);
    return letters <= 6 * n + SPARE ? 0 : letters;
}

/* Six messages connect a pair. Where the processors have more to do, seconds of this clock go by
 * without any of them, and some questions are asked again: messages that grow do so each time. */
Test(names, messages_do_not_grow_with_the_number_of_channels, .timeout = RUN_SECONDS)
{
    for (int n = 100; n <= 3000; n *= 30) {
        int letters = 1;

        for (int attempt = 0; attempt < 5 && letters != 0; attempt++)
            letters = weak_run_faulty(2, 1, &fast, many_body, &n);
        cr_assert_eq(letters, 0, "%d channels: %d messages", n, letters);
    }
}

static int table_body(loco_runtime_t *rt, int rank, void *arg)
{
    enum { MANY = 5000 };
    struct loci_endpoint **ep = calloc(MANY, sizeof *ep);
    struct loci_names *names = rt->names;

    (void)rank;
    (void)arg;
    CHECK(make_many(rt, MANY, ep) == 0);
    CHECK(names->buckets >= MANY);
    CHECK_EQ(names->count, MANY);
    CHECK_EQ(names->open.count, 0);
    for (int i = 0; i < MANY; i++)
        CHECK(loci_names_find(names, ep[i]->name) == loci_entry_of(ep[i]));
    for (int i = 0; i < MANY; i += 2)
        loci_endpoint_destroy(ep[i]);
    for (int i = 0; i < MANY; i++) {
        char name[16];

        snprintf(name, sizeof name, "n%d", i);
        CHECK((loci_names_find(names, name) != NULL) == (i % 2 == 1));
    }
    for (int i = 1; i < MANY; i += 2)
        loci_endpoint_destroy(ep[i]);
    CHECK_EQ(names->count, 0);
    free(ep);
    return 0;
}

Test(names, the_table_grows, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 1, 1, NULL, table_body, NULL), 0);
}

/* What was met before is remembered for as many names as there were. */
static int past_body(loco_runtime_t *rt, int rank, void *arg)
{
    enum { MANY = 4000 };
    struct loci_endpoint **ep = calloc(MANY, sizeof *ep);
    char name[16];
    int known = 0;

    (void)rank;
    (void)arg;
    CHECK(make_many(rt, MANY, ep) == 0);
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK(meet(rt) == 0);
    for (int i = 0; i < MANY; i++)
        loci_endpoint_destroy(ep[i]);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        known += loci_names_past(rt->names, name, loci_peer(rt, 1)) != 0;
    }
    free(ep);
    CHECK(known >= MANY * 3 / 4);
    return 0;
}

Test(names, the_past_of_many_names_is_remembered, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, past_body, NULL), 0);
}
