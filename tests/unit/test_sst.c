/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "move/rma.h"
#include "names/names.h"
#include "run.h"

static int columns_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt)), flags = *(int *)arg;
    uint64_t row[5], values[3] = { 11, 12, 13 };
    loco_ack_t ack = LOCO_ACK_INIT;
    loco_sst_t *sst;

    CHECK_OK(loco_sst_create(rt, NULL, "t", loco_everyone(rt), 5, flags, &sst));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_sst_rows(sst), n);
    CHECK_EQ(loco_sst_columns(sst), 5);
    for (int i = 0; i < n; i++) {
        CHECK_OK(loco_sst_row(sst, i, row));
        for (int c = 0; c < 5; c++)
            CHECK_EQ(row[c], 0);
    }
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_sst_set(sst, 0, 100 + (uint64_t)rank));
    CHECK_OK(loco_sst_set_range(sst, 2, 3, values));
    CHECK_OK(loco_sst_push(sst, 0, 1, (rank + 1) % n));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_sst_row(sst, (rank + n - 1) % n, row));
    CHECK_EQ(row[0], 100 + (rank + n - 1) % n);
    CHECK_EQ(row[2], flags == LOCO_SST_ROWS ? 11 : 0);      /* was not pushed */
    CHECK_OK(loco_sst_row(sst, (rank + 1) % n, row));
    CHECK_EQ(row[0], n == 2 ? 100 + 1 - rank : 0);
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_sst_push_all_ack(sst, 2, 2, &ack));
    CHECK_OK(loco_ack_wait(rt, &ack));
    CHECK_OK(loco_sst_push_some(sst, 4, 1, (const int[]){ 0, 1 }, 2));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < n; i++) {
        uint64_t got;

        CHECK_OK(loco_sst_get(sst, i, 3, &got));
        CHECK_EQ(got, 12);
        CHECK_OK(loco_sst_get(sst, i, 4, &got));
        CHECK_EQ(got, rank < 2 || i == rank || flags == LOCO_SST_ROWS ? 13 : 0);
    }
    CHECK_EQ(loco_sst_set(sst, 5, 1), LOCO_ERR_RANGE);
    CHECK_EQ(loco_sst_set(sst, -1, 1), LOCO_ERR_RANGE);
    CHECK_EQ(loco_sst_push_all(sst, 4, 2), LOCO_ERR_RANGE);
    CHECK_EQ(loco_sst_push_all(sst, 0, 0), LOCO_ERR_RANGE);
    CHECK_EQ(loco_sst_push(sst, 0, 1, n), LOCO_ERR_ARG);
    CHECK_EQ(loco_sst_get(sst, n, 0, row), LOCO_ERR_ARG);
    CHECK_OK(run_meet(rt));
    loco_sst_destroy(sst);
    return 0;
}

Test(sst, shows_what_was_pushed)
{
    for (int flags = 0; flags < 2; flags++) {
        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, columns_body, &flags), 0);
        cr_assert_eq(run_on(RUN_WEAK, 4, 2, NULL, columns_body, &flags), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 2, NULL, columns_body, &flags), 0);
    }
}

struct table {
    loco_runtime_t *rt;
    loco_sst_t *sst;
    int rank, rounds;
    _Atomic uint64_t next;
};

#define COLUMNS 40

/* Every push is a row of one number; two threads of the owner take turns. */
static int write_rows(void *arg, int thread)
{
    struct table *t = arg;
    uint64_t row[COLUMNS];

    (void)thread;
    for (int i = 0; i < t->rounds; i++) {
        uint64_t number = atomic_fetch_add(&t->next, 1);

        for (int c = 0; c < COLUMNS; c++)
            row[c] = number;
        CHECK_OK(loco_sst_set_range(t->sst, 0, COLUMNS, row));
        CHECK_OK(loco_sst_push_all(t->sst, 0, COLUMNS));
    }
    return 0;
}

static int rows_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct table t = { .rt = rt, .rank = rank, .rounds = *(int *)arg, .next = 1 };
    int n = loco_group_size(loco_everyone(rt));
    uint64_t row[COLUMNS];

    CHECK_OK(loco_sst_create(rt, NULL, "t", loco_everyone(rt), COLUMNS, LOCO_SST_ROWS, &t.sst));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0) {
        CHECK_OK(run_threads(2, write_rows, &t));
        memset(row, 0xff, sizeof row);
        CHECK_OK(loco_sst_set_range(t.sst, 0, COLUMNS, row));
        CHECK_OK(loco_sst_push_all(t.sst, 0, COLUMNS));
    } else {
        do {
            CHECK_OK(loco_sst_row(t.sst, 0, row));
            for (int c = 1; c < COLUMNS; c++)
                CHECK_EQ(row[c], row[0]);
        } while (row[0] != UINT64_MAX);
    }
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < n; i++) {
        CHECK_OK(loco_sst_get(t.sst, i, COLUMNS - 1, row));
        CHECK_EQ(row[0], i == 0 ? UINT64_MAX : 0);
    }
    loco_sst_destroy(t.sst);
    return 0;
}

Test(sst, rows_are_whole_when_asked_for, .timeout = RUN_SECONDS)
{
    int rounds = 200;

    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, rows_body, &rounds), 0);
    rounds = 20000;
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, rows_body, &rounds), 0);
}

static int refused_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_sst_t *sst;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_sst_create(rt, NULL, "t", loco_everyone(rt), 0, 0, &sst), LOCO_ERR_ARG);
    CHECK_EQ(loco_sst_create(rt, NULL, "t", loco_everyone(rt), 1, 2, &sst), LOCO_ERR_ARG);
    CHECK_EQ(loco_sst_create(rt, NULL, "t", NULL, 1, 0, &sst), LOCO_ERR_ARG);
    return 0;
}

Test(sst, impossible_ones_are_refused)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, refused_body, NULL), 0);
}

/* Something writes astray into this member's copy of row 0. */
static void spoil(loco_runtime_t *rt, int rank)
{
    struct loci_endpoint *ep = &loci_names_find(rt->names, "t")->ep;
    unsigned char *word = loci_mem_ptr(loci_endpoint_mem(ep, rank, 0)) + 8;

    loci_store64(word, ~loci_load64(word));
}

#define TORN "has waited 1 s for channel \"t\", whose value of member 0 is not whole"

/* A row that is not whole is waited for, which is said after a second; until it comes, or its
 * owner has died. */
static int spoilt_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t row[5] = { 0 };
    loco_sst_t *sst;

    CHECK_OK(loco_sst_create(rt, NULL, "t", loco_everyone(rt), 5, LOCO_SST_ROWS, &sst));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 1)
        spoil(rt, rank);
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        for (int64_t until = run_now() + run_limit(INT64_C(10000000000));
             weak_logged(rt, TORN) == 0 && run_now() < until;)
            usleep(10000);
        CHECK_OK(loco_sst_set(sst, 0, 77));
        CHECK_OK(loco_sst_push_all(sst, 0, 5));
    } else {
        CHECK_OK(loco_sst_row(sst, 0, row));
        CHECK_EQ(row[0], 77);
        CHECK_EQ(weak_logged(rt, TORN), 1);
        spoil(rt, rank);
    }
    CHECK_OK(run_meet_alive(rt, arg));
    if (rank == 0) {
        usleep(50000);
        weak_die(rt);
    } else {
        CHECK_EQ(loco_sst_row(sst, 0, row), LOCO_ERR_PEER_DEAD);
    }
    loco_sst_destroy(sst);
    return 0;
}

Test(sst, a_row_that_is_not_whole_is_said, .timeout = RUN_SECONDS)
{
    _Atomic int met = 0;

    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, spoilt_body, (void *)&met), 0);
}

/* ---- who sleeps for something else ---- */

/* Rank 0 looks as if it slept in a barrier: rows of a table do not wake it, a barrier's do. (The
 * service thread rings, too, for some messages.) */
static int asleep_body(loco_runtime_t *rt, int rank, void *arg)
{
    enum { PUSHES = 1000 };
    struct loci_bell *bell = &rt->bells->bell[LOCI_BELL_SST];
    _Atomic int *turn = arg;
    loco_barrier_t *barrier;
    uint32_t before = 0;
    loco_sst_t *sst;

    CHECK_OK(loco_sst_create(rt, NULL, "t", loco_everyone(rt), 2, LOCO_SST_COLUMNS, &sst));
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet_alive(rt, turn));
    if (rank == 0) {
        before = atomic_load(&bell->rings);
        atomic_fetch_add(&bell->asleep, 1);
        atomic_fetch_add(turn, 1);
    }
    CHECK_EQ(run_await(turn, 3), 0);
    for (int i = 0; rank == 1 && i < PUSHES; i++)
        CHECK_OK(loco_sst_push_all(sst, 0, 1 + i % 2));
    atomic_fetch_add(turn, rank == 1);
    CHECK_EQ(run_await(turn, 4), 0);
    CHECK(rank == 1 || atomic_load(&bell->rings) - before < PUSHES / 2);
    for (int i = 0; i < PUSHES; i++)
        CHECK_OK(loco_barrier_wait(barrier));
    CHECK(rank == 1 || atomic_load(&bell->rings) - before >= PUSHES / 2);
    if (rank == 0)
        atomic_fetch_sub(&bell->asleep, 1);
    loco_barrier_destroy(barrier);
    loco_sst_destroy(sst);
    return 0;
}

Test(sst, wakes_nobody, .timeout = 60)
{
    if (run_shares())
        cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, asleep_body, run_counter()), 0);
}
