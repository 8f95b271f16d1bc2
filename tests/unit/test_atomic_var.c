/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- operations beyond add, swap and exchange ---- */

/* One operation on each way to reach a word: a variable, an element, a word of a region. */
struct words {
    loco_atomic_var_t *var;
    loco_atomic_array_t *array;
    loco_region_t *region;
};

static int on_each(struct words *w, int host, enum loco_op op, enum loco_type type,
                   const void *operand, uint64_t old[3])
{
    CHECK_OK(loco_atomic_var_fetch_op(w->var, op, type, operand, &old[0]));
    CHECK_OK(loco_atomic_array_fetch_op(w->array, 1, op, type, operand, &old[1]));
    CHECK_OK(loco_region_fetch_op(w->region, host, 8, op, type, operand, &old[2]));
    CHECK_EQ(old[0], old[1]);
    CHECK_EQ(old[0], old[2]);
    return 0;
}

#define STEP(op, type, operand, before)                                                       \
    do {                                                                                      \
        uint64_t step_old[3];                                                                 \
        CHECK_EQ(on_each(w, host, LOCO_OP_##op, LOCO_TYPE_##type, &(operand), step_old), 0);  \
        CHECK_EQ(step_old[0], before);                                                        \
    } while (0)

static uint64_t word_of(const void *element)
{
    uint64_t word;

    memcpy(&word, element, sizeof word);
    return word;
}

static uint64_t bits_of(double x)
{
    return word_of(&x);
}

static int each_operation(struct words *w, int host)
{
    struct { int32_t v; int i; } pair = { 7, 3 }, worse = { 8, 1 }, back = { 0, 0 };
    uint64_t u = 0xf0f0, mask = 0xff00, bit = 1, high = UINT64_MAX;
    int64_t minus = -5, two = 2;
    double half = 0.5, quarter = -0.25, large = 1e300;

    STEP(REPLACE, U64, u, 0);
    STEP(BAND, U64, mask, 0xf0f0);
    STEP(BOR, U64, bit, 0xf000);
    STEP(BXOR, U64, mask, 0xf001);
    STEP(NO_OP, U64, mask, 0x0f01);
    STEP(MIN, U64, bit, 0x0f01);
    STEP(MIN, U64, high, 1);                    /* changes nothing */
    STEP(MAX, U64, high, 1);
    STEP(MAX, I64, two, UINT64_MAX);            /* -1 there */
    STEP(MIN, I64, minus, 2);
    STEP(SUM, I64, two, (uint64_t)-5);
    STEP(PROD, I64, two, (uint64_t)-3);
    STEP(LAND, U64, u, (uint64_t)-6);
    STEP(REPLACE, F64, half, 1);
    STEP(SUM, F64, quarter, bits_of(0.5));
    STEP(MAX, F64, large, bits_of(0.25));
    STEP(MIN, F64, quarter, bits_of(1e300));
    STEP(MIN, F64, half, bits_of(-0.25));
    STEP(REPLACE, U64, pair, bits_of(-0.25));
    STEP(MAXLOC, I32_INT, worse, word_of(&pair));
    STEP(MINLOC, I32_INT, pair, word_of(&worse));
    CHECK_OK(loco_atomic_var_fetch_op(w->var, LOCO_OP_NO_OP, LOCO_TYPE_I32_INT, NULL, &back));
    CHECK_EQ(back.v, 7);
    CHECK_EQ(back.i, 3);
    CHECK_OK(loco_atomic_var_fetch_op(w->var, LOCO_OP_REPLACE, LOCO_TYPE_U64, &u, NULL));
    return 0;
}

static int operations_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt)), host = 1 % n;
    const loco_group_t *all = loco_everyone(rt);
    uint64_t one = 1, old = 77;
    struct words w;

    (void)arg;
    CHECK_OK(loco_atomic_var_create(rt, NULL, "v", all, host, &w.var));
    CHECK_OK(loco_atomic_array_create(rt, NULL, "a", all, 3, host, &w.array));
    CHECK_OK(loco_region_create(rt, NULL, "r", all, 16, &w.region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_EQ(each_operation(&w, host), 0);
    CHECK_OK(run_meet(rt));
    CHECK_EQ(loco_atomic_var_fetch_op(w.var, LOCO_OP_SUM, LOCO_TYPE_F32, &one, &old), LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_var_fetch_op(w.var, LOCO_OP_BAND, LOCO_TYPE_F64, &one, &old),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_array_fetch_op(w.array, 1, LOCO_OP_COUNT, LOCO_TYPE_U64, &one, &old),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_atomic_array_fetch_op(w.array, 3, LOCO_OP_SUM, LOCO_TYPE_U64, &one, &old),
             LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_fetch_op(w.region, host, 8, LOCO_OP_SUM, LOCO_TYPE_C64, &one, &old),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_region_fetch_op(w.region, host, 4, LOCO_OP_SUM, LOCO_TYPE_U64, &one, &old),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_region_fetch_op(w.region, host, 16, LOCO_OP_SUM, LOCO_TYPE_U64, &one, &old),
             LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_fetch_op(w.region, n, 8, LOCO_OP_SUM, LOCO_TYPE_U64, &one, &old),
             LOCO_ERR_ARG);
    CHECK_EQ(old, 77);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(w.region);
    loco_atomic_array_destroy(w.array);
    loco_atomic_var_destroy(w.var);
    return 0;
}

Test(atomic_var, each_operation_gives_what_its_type_says)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, operations_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, operations_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, operations_body, NULL), 0);
}

/* Sums of doubles, bits and maxima of many threads: none is lost. The doubles are multiples of a
 * power of two, so their sum is exact. */
static int combine(void *arg, int thread)
{
    struct shared *s = arg;
    uint64_t who = (uint64_t)(s->rank * s->threads + thread), bit = UINT64_C(1) << who, old;
    double part = 0.5 * (double)(who + 1);

    for (int i = 1; i <= run_rounds(ROUNDS); i++) {
        int64_t reached = -1000000 + 1000 * (int64_t)who + i;

        CHECK_OK(loco_atomic_array_fetch_op(s->array, 0, LOCO_OP_SUM, LOCO_TYPE_F64, &part, NULL));
        CHECK_OK(loco_atomic_array_fetch_op(s->array, 1, LOCO_OP_BXOR, LOCO_TYPE_U64, &bit, &old));
        /* Nobody else changes this bit. */
        CHECK_EQ((old & bit) != 0, i % 2 == 0);
        CHECK_OK(loco_atomic_array_fetch_op(s->array, 2, LOCO_OP_MAX, LOCO_TYPE_I64, &reached,
                                            NULL));
        CHECK_OK(loco_atomic_array_fetch_op(s->array, 3, LOCO_OP_SUM, LOCO_TYPE_U64,
                                            &(uint64_t){ 1 }, NULL));
        CHECK_OK(loco_atomic_array_fetch_add(s->array, 3, 1, NULL));
    }
    return 0;
}

static int combined_body(loco_runtime_t *rt, int rank, void *arg)
{
    int threads = *(int *)arg, n = loco_group_size(loco_everyone(rt)) * threads;
    struct shared s = { rt, NULL, rank, threads };
    int64_t lowest = INT64_MIN, most = 0;
    double sum = 0, want = 0;
    uint64_t value;

    CHECK_OK(loco_atomic_array_create(rt, NULL, "a", loco_everyone(rt), 4, LOCO_ATOMIC_STRIPED,
                                      &s.array));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_OK(loco_atomic_array_fetch_op(s.array, 2, LOCO_OP_REPLACE, LOCO_TYPE_I64, &lowest,
                                            NULL));
    CHECK_OK(run_meet(rt));
    CHECK_OK(run_threads(threads, combine, &s));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < n; i++)
        want += 0.5 * (i + 1) * run_rounds(ROUNDS);
    CHECK_OK(loco_atomic_array_fetch_op(s.array, 0, LOCO_OP_NO_OP, LOCO_TYPE_F64, NULL, &sum));
    CHECK(sum == want);
    CHECK_OK(loco_atomic_array_load(s.array, 1, &value));
    CHECK_EQ(value, run_rounds(ROUNDS) % 2 == 0 ? 0 : (UINT64_C(1) << n) - 1);
    CHECK_OK(loco_atomic_array_fetch_op(s.array, 2, LOCO_OP_NO_OP, LOCO_TYPE_I64, NULL, &most));
    CHECK_EQ(most, -1000000 + 1000 * (n - 1) + run_rounds(ROUNDS));
    CHECK_OK(loco_atomic_array_load(s.array, 3, &value));
    CHECK_EQ(value, (uint64_t)(2 * n * run_rounds(ROUNDS)));
    CHECK_OK(run_meet(rt));
    loco_atomic_array_destroy(s.array);
    return 0;
}

Test(atomic_var, operations_of_many_threads_all_count)
{
    int threads = 3;

    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, combined_body, &threads), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, combined_body, &threads), 0);
}
