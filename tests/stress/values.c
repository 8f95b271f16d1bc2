/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that are read while they are written: owned variables pushed and pulled, rows of an SST,
 * and barriers between rounds of writes. Readers must meet torn values, and not return them. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"

#define LARGE 8192          /* words of a large value */

static bool is_one_number(const uint64_t *value, size_t words)
{
    for (size_t w = 1; w < words; w++)
        if (value[w] != value[0])
            return false;
    return true;
}

static int write_values(loco_owned_var_t *var, bool push, int64_t start)
{
    uint64_t *value = malloc(LARGE * sizeof *value);

    for (uint64_t i = 1; stress_goes_on(start); i++) {
        for (int w = 0; w < LARGE; w++)
            value[w] = i;
        CHECK_OK(loco_owned_var_store(var, value));
        if (push)
            CHECK_OK(loco_owned_var_push_all(var));
    }
    memset(value, 0xff, LARGE * sizeof *value);
    CHECK_OK(loco_owned_var_store(var, value));
    if (push)
        CHECK_OK(loco_owned_var_push_all(var));
    free(value);
    return 0;
}

static int read_values(loco_owned_var_t *var, bool push)
{
    uint64_t *value = malloc(LARGE * sizeof *value), last = 0;

    do {
        CHECK_OK(push ? loco_owned_var_load(var, value) : loco_owned_var_pull(var, value));
        CHECK(is_one_number(value, LARGE));
        CHECK(value[0] >= last);
        last = value[0];
    } while (last != UINT64_MAX);
    free(value);
    return 0;
}

static int owned_body(loco_runtime_t *rt, int rank, void *arg)
{
    bool push = *(int *)arg != 0;
    loco_owned_var_t *var;
    uint64_t retries;

    CHECK_OK(loco_owned_var_create(rt, NULL, "v", loco_everyone(rt), 0, LARGE * 8,
                                   push ? LOCO_OWNED_PUSH : LOCO_OWNED_PULL, &var));
    CHECK_OK(run_meet(rt));
    CHECK_OK(rank == 0 ? write_values(var, push, run_now()) : read_values(var, push));
    CHECK_OK(stress_sum(rt, loco_owned_var_retries(var), &retries));
    CHECK(retries > 0);     /* else this has shown nothing */
    loco_owned_var_destroy(var);
    return 0;
}

#define COLUMNS 512

static int sst_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    uint64_t row[COLUMNS], last[16] = { 0 };
    int64_t start;
    loco_sst_t *sst;

    (void)arg;
    CHECK_OK(loco_sst_create(rt, NULL, "t", loco_everyone(rt), COLUMNS, LOCO_SST_ROWS, &sst));
    CHECK_OK(run_meet(rt));
    start = run_now();
    for (uint64_t i = 1; stress_goes_on(start); i++) {
        for (int c = 0; c < COLUMNS; c++)
            row[c] = i;
        CHECK_OK(loco_sst_set_range(sst, 0, COLUMNS, row));
        CHECK_OK(loco_sst_push_all(sst, 0, COLUMNS));
        for (int r = 0; r < n; r++) {
            CHECK_OK(loco_sst_row(sst, r, row));
            CHECK(is_one_number(row, COLUMNS));
            CHECK(row[0] >= last[r]);
            last[r] = row[0];
        }
    }
    CHECK(last[(rank + 1) % n] > 0);
    CHECK_OK(run_meet(rt));
    loco_sst_destroy(sst);
    return 0;
}

/* Everybody writes to everybody, a barrier, everybody looks. The members end by vote, since their
 * clocks do not. */
static int barrier_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    int64_t start = run_now();
    loco_barrier_t *barrier;
    loco_region_t *region;
    uint64_t got, on = 1;

    (void)arg;
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 16 * (size_t)n, &region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t round = 1; on != 0; round++) {
        bool mine = stress_goes_on(start);

        for (int i = 0; i < n; i++) {
            CHECK_OK(loco_region_write64(region, i, 16 * (uint64_t)rank, round));
            CHECK_OK(loco_region_write64(region, i, 16 * (uint64_t)rank + 8, mine));
        }
        CHECK_OK(loco_barrier_wait(barrier));
        for (int i = 0; i < n; i++) {
            CHECK_OK(loco_region_read64(region, rank, 16 * (uint64_t)i, &got));
            CHECK_EQ(got, round);
            CHECK_OK(loco_region_read64(region, rank, 16 * (uint64_t)i + 8, &got));
            on = i == 0 ? got : on & got;
        }
        CHECK_OK(loco_barrier_wait(barrier));
    }
    CHECK_OK(run_meet(rt));
    loco_barrier_destroy(barrier);
    loco_region_destroy(region);
    return 0;
}

int main(void)
{
    static const struct stress_case cases[] = {
        { "large values pushed", 3, owned_body, 1 },
        { "large values pulled", 3, owned_body, 0 },
        { "whole rows of an SST", 4, sst_body, 0 },
        { "barriers", 2, barrier_body, 0 },
        { "barriers", 8, barrier_body, 0 },
        { "barriers by dissemination", LOCO_BARRIER_DIRECT + 3, barrier_body, 0 },
    };

    return stress_run(cases, sizeof cases / sizeof cases[0]);
}
