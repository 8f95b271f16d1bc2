/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>

#include <loco/loco.h>

#include "run.h"

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    loco_ack_t ack = LOCO_ACK_INIT;
    loco_atomic_var_t *var;
    uint64_t old = 0, got;

    (void)arg;
    CHECK_OK(loco_atomic_var_create(rt, NULL, "v", loco_everyone(rt), n - 1, &var));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0) {
        CHECK_OK(loco_atomic_var_store(var, 10));
        CHECK_OK(loco_atomic_var_fetch_add(var, 5, &old));
        CHECK_EQ(old, 10);
        CHECK_OK(loco_atomic_var_exchange(var, 20, &old));
        CHECK_EQ(old, 15);
        CHECK_OK(loco_atomic_var_compare_swap(var, 21, 1, &old));
        CHECK_EQ(old, 20);
        CHECK_OK(loco_atomic_var_compare_swap(var, 20, 30, NULL));
        CHECK_OK(loco_atomic_var_compare_swap_ack(var, 30, 31, &old, &ack));
        CHECK_OK(loco_ack_wait(rt, &ack));
        CHECK_EQ(old, 30);
        CHECK_OK(loco_atomic_var_fetch_add_ack(var, (uint64_t)-1, &old, &ack));
        CHECK_OK(loco_ack_wait(rt, &ack));
        CHECK_EQ(old, 31);
        CHECK_OK(loco_atomic_var_fetch_add(var, 12, NULL));
    }
    CHECK_EQ(loco_atomic_var_cached(var), 0);
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_atomic_var_load(var, &got));
    CHECK_EQ(got, 42);
    got = 0;
    CHECK_OK(loco_atomic_var_load_ack(var, &got, &ack));
    CHECK_OK(loco_ack_wait(rt, &ack));
    CHECK_EQ(got, 42);
    CHECK_OK(loco_atomic_var_refresh(var));
    CHECK_EQ(loco_atomic_var_cached(var), 42);
    CHECK_OK(run_meet(rt));
    loco_atomic_var_destroy(var);
    return 0;
}

Test(atomic_var, does_what_each_call_says)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, calls_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, calls_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, calls_body, NULL), 0);
}

struct shared {
    loco_runtime_t *rt;
    loco_atomic_array_t *array;
    int rank, threads;
};

#define COUNT 101u
#define ROUNDS 300

/* Transfers between random variables, and tokens swapped around: sums stay. */
static int transfer(void *arg, int thread)
{
    struct shared *s = arg;
    unsigned seed = (unsigned)(s->rank * 64 + thread + 1);
    uint64_t token = 1000 + (uint64_t)(s->rank * s->threads + thread), old;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t from = (unsigned)rand_r(&seed) % (COUNT - 1), to = (unsigned)rand_r(&seed)
                                                                    % (COUNT - 1);

        CHECK_OK(loco_atomic_array_fetch_add(s->array, from, (uint64_t)-3, &old));
        CHECK_OK(loco_atomic_array_fetch_add(s->array, to, 3, NULL));
        if (i % 8 == 0) {
            CHECK_OK(loco_atomic_array_exchange(s->array, COUNT - 1, token, &old));
            token = old;
        }
    }
    CHECK_OK(loco_atomic_array_fetch_add(s->array, COUNT, token, NULL));
    return 0;
}

static int array_body(loco_runtime_t *rt, int rank, void *arg)
{
    int host = ((int *)arg)[0], threads = ((int *)arg)[1];
    int n = loco_group_size(loco_everyone(rt));
    struct shared s = { rt, NULL, rank, threads };
    uint64_t sum = 0, tokens = 0, value;

    CHECK_OK(loco_atomic_array_create(rt, NULL, "a", loco_everyone(rt), COUNT + 1, host,
                                      &s.array));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_threads(threads, transfer, &s));
    CHECK_OK(run_meet(rt));
    for (uint64_t i = 0; i < COUNT - 1; i++) {
        CHECK_OK(loco_atomic_array_load(s.array, i, &value));
        sum += value;
        CHECK_EQ(loco_atomic_array_host(s.array, i), host < 0 ? (int)i % n : host);
    }
    CHECK_EQ(sum, 0);
    /* The token in the array and those in hands are all that there were. */
    CHECK_OK(loco_atomic_array_load(s.array, COUNT - 1, &value));
    CHECK_OK(loco_atomic_array_load(s.array, COUNT, &sum));
    for (int i = 0; i < n * threads; i++)
        tokens += 1000 + (uint64_t)i;
    CHECK_EQ(value + sum, tokens);
    CHECK_EQ(loco_atomic_array_load(s.array, COUNT + 1, &value), LOCO_ERR_RANGE);
    CHECK_EQ(loco_atomic_array_store(s.array, COUNT + 1, 0), LOCO_ERR_RANGE);
    CHECK_EQ(loco_atomic_array_count(s.array), COUNT + 1);
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_OK(loco_atomic_array_store(s.array, 1, 77));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_atomic_array_load(s.array, 1, &value));
    CHECK_EQ(value, 77);
    CHECK_OK(run_meet(rt));
    loco_atomic_array_destroy(s.array);
    return 0;
}

Test(atomic_var, arrays_lose_nothing_striped_or_hosted)
{
    for (int host = -1; host < 2; host++) {
        int args[] = { host, 3 };

        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, array_body, args), 0);
        cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, array_body, args), 0);
        cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, array_body, args), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, array_body, args), 0);
    }
}

/* Stores and atomics on one word: none of the additions after the last store may be lost. */
static int stores_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_atomic_var_t *var;
    uint64_t got;

    (void)arg;
    CHECK_OK(loco_atomic_var_create(rt, NULL, "v", loco_everyone(rt), 0, &var));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 0; i < 100; i++) {
        if (rank == 1)
            CHECK_OK(loco_atomic_var_store(var, i << 32));
        else
            CHECK_OK(loco_atomic_var_fetch_add(var, 1, NULL));
        CHECK_OK(loco_atomic_var_load(var, &got));
        CHECK(got >> 32 <= 99 && (got & 0xffffffff) <= 300);
        if (rank == 1)
            CHECK_EQ(got >> 32, i);
    }
    CHECK_OK(run_meet(rt));
    loco_atomic_var_destroy(var);
    return 0;
}

Test(atomic_var, stores_and_additions_mix)
{
    cr_assert_eq(run_on(RUN_WEAK, 4, 1, NULL, stores_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stores_body, NULL), 0);
}

static int refused_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_atomic_array_t *array;
    loco_atomic_var_t *var;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_atomic_var_create(rt, NULL, "v", loco_everyone(rt), 1, &var), LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_var_create(rt, NULL, "v", loco_everyone(rt), -1, &var), LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_array_create(rt, NULL, "v", loco_everyone(rt), 0, -1, &array),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_array_create(rt, NULL, "v", loco_everyone(rt), UINT64_MAX, -1, &array),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_array_create(rt, NULL, "v", loco_everyone(rt), UINT64_MAX / 64, -1,
                                      &array), LOCO_ERR_NO_MEMORY);
    return 0;
}

Test(atomic_var, impossible_ones_are_refused)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, refused_body, NULL), 0);
}
