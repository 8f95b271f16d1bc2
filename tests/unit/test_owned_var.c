/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

static void fill(unsigned char *value, size_t size, unsigned what)
{
    for (size_t i = 0; i < size; i++)
        value[i] = (unsigned char)(what + i * 7);
}

/* Which fill a value is; -1 if of none. */
static int what_is(const unsigned char *value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (value[i] != (unsigned char)(value[0] + i * 7))
            return -1;
    return value[0];
}

static int sizes_body(loco_runtime_t *rt, int rank, void *arg)
{
    size_t size = *(size_t *)arg;
    unsigned char *value = calloc(1, size + 1), *zero = calloc(1, size + 1);
    loco_owned_var_t *pushed, *pulled;
    loco_ack_t ack = LOCO_ACK_INIT;
    int n = loco_group_size(loco_everyone(rt));

    CHECK_OK(loco_owned_var_create(rt, NULL, "push", loco_everyone(rt), 1, size, LOCO_OWNED_PUSH,
                                   &pushed));
    CHECK_OK(loco_owned_var_create(rt, NULL, "pull", loco_everyone(rt), 0, size, LOCO_OWNED_PULL,
                                   &pulled));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    value[size] = 99;
    CHECK_OK(loco_owned_var_load(pushed, value));
    CHECK_EQ(memcmp(value, zero, size), 0);
    CHECK_OK(loco_owned_var_pull(pulled, value));
    CHECK_EQ(memcmp(value, zero, size), 0);
    CHECK_EQ(value[size], 99);
    CHECK_OK(run_meet(rt));
    fill(value, size, 50);
    CHECK_EQ(loco_owned_var_store(pushed, value), rank == 1 ? LOCO_OK : LOCO_ERR_STATE);
    CHECK_EQ(loco_owned_var_store(pulled, value), rank == 0 ? LOCO_OK : LOCO_ERR_STATE);
    CHECK_EQ(loco_owned_var_push_all(pulled), LOCO_ERR_STATE);
    if (rank == 1) {
        static const int some[] = { 0, 1 };

        CHECK_OK(loco_owned_var_push_some(pushed, some, 2));
        if (n > 2)
            CHECK_OK(loco_owned_var_push_ack(pushed, 2, &ack));
        CHECK_OK(loco_ack_wait(rt, &ack));
        CHECK_EQ(loco_owned_var_push(pushed, n), LOCO_ERR_ARG);
    }
    CHECK_OK(run_meet(rt));
    memset(value, 0, size);
    CHECK_OK(loco_owned_var_load(pushed, value));
    CHECK_EQ(what_is(value, size), rank <= 2 ? 50 : 0);
    CHECK_OK(loco_owned_var_load(pulled, value));
    CHECK_EQ(what_is(value, size), rank == 0 ? 50 : size == 1 ? 0 : what_is(zero, size));
    CHECK_OK(loco_owned_var_pull(pulled, value));
    CHECK_EQ(what_is(value, size), 50);
    memset(value, 0, size);
    CHECK_OK(loco_owned_var_load(pulled, value));
    CHECK_EQ(what_is(value, size), 50);
    CHECK_OK(loco_owned_var_pull(pushed, value));   /* reads past the cached copy */
    CHECK_EQ(what_is(value, size), 50);
    CHECK_EQ(value[size], 99);
    CHECK_OK(run_meet(rt));
    loco_owned_var_destroy(pushed);
    loco_owned_var_destroy(pulled);
    free(value);
    free(zero);
    return 0;
}

Test(owned_var, of_any_size_is_pushed_and_pulled)
{
    static const size_t sizes[] = { 1, 3, 8, 9, 16, 100, 5000 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];

        cr_assert_eq(run_on(RUN_WEAK, 3, i, NULL, sizes_body, &size), 0, "%zu", size);
        cr_assert_eq(run_on(RUN_SHM, 3, i, NULL, sizes_body, &size), 0, "%zu", size);
    }
}

/* The owner's threads store and push without pause; readers' threads never see a mixture, and
 * never go back. */
struct stream {
    pthread_mutex_t *turn;      /* of the owner's threads: gives their values one order */
    uint64_t number;
    loco_runtime_t *rt;
    loco_owned_var_t *var;
    size_t size;
    int rank;
    bool pull;
    int rounds;
};

static int writer(void *arg, int thread)
{
    struct stream *s = arg;
    uint64_t value[64];
    loco_ack_t ack = LOCO_ACK_INIT;

    (void)thread;
    for (int i = 1; i <= s->rounds; i++) {
        pthread_mutex_lock(s->turn);
        s->number++;
        for (size_t w = 0; w < s->size / 8; w++)
            value[w] = s->number;
        CHECK_OK(loco_owned_var_store(s->var, value));
        if (!s->pull && i % 2 == 0)
            CHECK_OK(loco_owned_var_push_all(s->var));
        else if (!s->pull)
            CHECK_OK(loco_owned_var_push_all_ack(s->var, &ack));
        pthread_mutex_unlock(s->turn);
    }
    return loco_ack_wait(s->rt, &ack);
}

static int reader(void *arg, int thread)
{
    struct stream *s = arg;
    uint64_t value[64], last = 0;
    size_t words = s->size / 8;

    (void)thread;
    do {
        CHECK_OK(s->pull ? loco_owned_var_pull(s->var, value)
                         : loco_owned_var_load(s->var, value));
        for (size_t w = 1; w < words; w++)
            CHECK_EQ(value[w], value[0]);
        CHECK(value[0] >= last);
        if (value[0] == last)
            sched_yield();      /* the writers have no core to themselves */
        last = value[0];
    } while (last < 2 * (uint64_t)s->rounds);
    return 0;
}

static int stream_body(loco_runtime_t *rt, int rank, void *arg)
{
    pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct stream s = *(struct stream *)arg;

    s.turn = &turn;
    s.rt = rt;
    s.rank = rank;
    CHECK_OK(loco_owned_var_create(rt, NULL, "s", loco_everyone(rt), 0, s.size,
                                   s.pull ? LOCO_OWNED_PULL : LOCO_OWNED_PUSH, &s.var));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(rank == 0 ? run_threads(2, writer, &s) : run_threads(2, reader, &s));
    CHECK_OK(run_meet(rt));
    loco_owned_var_destroy(s.var);
    return 0;
}

Test(owned_var, readers_see_no_mixture_and_no_past, .timeout = RUN_SECONDS)
{
    for (int pull = 0; pull < 2; pull++)
        for (size_t size = 8; size <= 512; size *= 8) {
            struct stream s = { .size = size, .pull = pull, .rounds = 100 };

            cr_assert_eq(run_on(RUN_WEAK, 3, size, NULL, stream_body, &s), 0);
            s.rounds = 5000;
            cr_assert_eq(run_on(RUN_SHM, 3, size, NULL, stream_body, &s), 0);
        }
}

/* What is stored after a push is not pushed with it. */
static int source_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    unsigned char value[600];
    loco_owned_var_t *var;

    (void)arg;
    CHECK_OK(loco_owned_var_create(rt, NULL, "s", loco_everyone(rt), 0, sizeof value,
                                   LOCO_OWNED_PUSH, &var));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (unsigned round = 0; round < 20; round++) {
        if (rank == 0) {
            fill(value, sizeof value, 2 * round);
            CHECK_OK(loco_owned_var_store(var, value));
            CHECK_OK(loco_owned_var_push_all_ack(var, &ack));
            fill(value, sizeof value, 2 * round + 1);
            CHECK_OK(loco_owned_var_store(var, value));
        }
        CHECK_OK(run_meet(rt));
        CHECK_OK(loco_owned_var_load(var, value));
        CHECK_EQ(what_is(value, sizeof value), 2 * round + (rank == 0));
        CHECK_OK(run_meet(rt));
    }
    loco_owned_var_destroy(var);
    return 0;
}

Test(owned_var, a_store_leaves_earlier_pushes_alone)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, source_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, source_body, NULL), 0);
}

/* The owner dies in the middle of pushes: a reader gets a whole value, or is told. */
static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t value[500], last = 0;
    loco_owned_var_t *var;

    (void)arg;
    CHECK_OK(loco_owned_var_create(rt, NULL, "d", loco_everyone(rt), 0, sizeof value,
                                   LOCO_OWNED_PUSH, &var));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (uint64_t i = 1; rank == 0 && i < 40; i++) {
        for (int w = 0; w < 500; w++)
            value[w] = i;
        CHECK_OK(loco_owned_var_store(var, value));
        CHECK_OK(loco_owned_var_push_all(var));
    }
    if (rank == 0) {
        weak_die(rt);
        loco_owned_var_destroy(var);
        return 0;
    }
    for (;;) {
        int status = loco_owned_var_load(var, value);

        if (status == LOCO_ERR_PEER_DEAD)
            break;
        CHECK_OK(status);
        for (int w = 1; w < 500; w++)
            CHECK_EQ(value[w], value[0]);
        CHECK(value[0] >= last);
        last = value[0];
        if (loco_group_alive(loco_everyone(rt), 0) != LOCO_OK)
            break;
    }
    CHECK_EQ(loco_owned_var_pull(var, value), LOCO_ERR_PEER_DEAD);
    loco_owned_var_destroy(var);
    return 0;
}

Test(owned_var, a_dead_owner_ends_the_retries)
{
    for (uint64_t seed = 0; seed < 5; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 2, seed, NULL, death_body, NULL), 0);
}

static int refused_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_owned_var_t *var;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_owned_var_create(rt, NULL, "v", loco_everyone(rt), 0, 0, LOCO_OWNED_PUSH, &var),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_owned_var_create(rt, NULL, "v", loco_everyone(rt), 1, 8, LOCO_OWNED_PUSH, &var),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_owned_var_create(rt, NULL, "v", loco_everyone(rt), 0, 8, 7, &var),
             LOCO_ERR_ARG);
    return 0;
}

Test(owned_var, impossible_ones_are_refused)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, refused_body, NULL), 0);
}
