/* SPDX-License-Identifier: BSD-3-Clause */

/* The poller, with channels that do nothing but count: whom it serves, whom it leaves alone, and
 * that it is out of what is removed. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "threads/poller.h"
#include "run.h"
#include "tasks.h"
#include "wait.h"

#define MANY (2 * (int)LOCI_RUNG_BITS + 100)

struct channel {
    struct loci_polled *polled;
    _Atomic int work, later;            /* to be done; times that it is put off */
    _Atomic int done, looks, announced;
    _Atomic bool endless, gone, wrong;
    _Atomic bool late;                  /* two come right before the announcement */
};

static bool look(void *channel)
{
    struct channel *c = channel;

    if (atomic_load(&c->gone))
        atomic_store(&c->wrong, true);
    atomic_fetch_add(&c->looks, 1);
    return atomic_load(&c->endless) || atomic_load(&c->work) > 0;
}

static enum loci_served serve(void *channel)
{
    struct channel *c = channel;

    if (atomic_load(&c->gone))
        atomic_store(&c->wrong, true);
    if (atomic_load(&c->endless))
        return LOCI_SERVED_SOME;
    if (atomic_load(&c->later) > 0) {
        atomic_fetch_sub(&c->later, 1);
        return LOCI_SERVED_LATER;
    }
    if (atomic_load(&c->work) == 0)
        return LOCI_SERVED_NOTHING;
    atomic_fetch_sub(&c->work, 1);
    atomic_fetch_add(&c->done, 1);
    return LOCI_SERVED_SOME;
}

static void announce(void *channel, int change)
{
    struct channel *c = channel;

    if (atomic_load(&c->gone))
        atomic_store(&c->wrong, true);
    if (change > 0 && atomic_exchange(&c->late, false))
        atomic_fetch_add(&c->work, 2);
    atomic_fetch_add(&c->announced, change);
}

static const struct loci_polled_ops ops = { .look = look, .serve = serve, .announce = announce };

static int open_all(loco_runtime_t *rt, struct channel *c, int n)
{
    for (int i = 0; i < n; i++) {
        CHECK_OK(loci_poller_add(rt, &ops, &c[i], &c[i].polled));
        loci_polled_begin(c[i].polled);
    }
    return 0;
}

static int close_all(struct channel *c, int n)
{
    for (int i = 0; i < n; i++) {
        loci_poller_remove(c[i].polled);
        atomic_store(&c[i].gone, true);
    }
    for (int i = 0; i < n; i++)
        CHECK(!atomic_load(&c[i].wrong));
    return 0;
}

/* Until each has announced that it is to be rung for. */
static int all_announced(struct channel *c, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(run_await(&c[i].announced, 1), 0);
    usleep(20000);
    return 0;
}

/* As a sender does: the work, then a look at the announcement. */
static void give(struct channel *c)
{
    atomic_fetch_add(&c->work, 1);
    if (atomic_load(&c->announced) > 0)
        loci_polled_call(c->polled);
}

/* ---- one thread, for as long as there are channels ---- */

static int one_thread_body(loco_runtime_t *rt, int rank, void *arg)
{
    static struct channel c[100];
    int before = tasks_count();

    (void)rank;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(open_all(rt, c, 100), 0);
        CHECK_EQ(tasks_count(), before + 1);
        for (int i = 0; i < 100; i++)
            give(&c[i]);
        for (int i = 0; i < 100; i++)
            CHECK_EQ(run_await(&c[i].done, 1), 0);
        CHECK_EQ(close_all(c, 100), 0);
        CHECK_EQ(tasks_count(), before);
        memset(c, 0, sizeof c);
    }
    return 0;
}

Test(poller, is_one_thread_while_there_are_channels, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, one_thread_body, NULL), 0);
}

/* ---- of many, those are served that are rung for, and the others left alone ---- */

static int some_looks(struct channel *c)
{
    int looks = 0;

    for (int i = 0; i < MANY; i++)
        looks += atomic_load(&c[i].looks);
    return looks;
}

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct channel *c = calloc(MANY, sizeof *c);
    const int rounds = 20 + run_rounds(2000);
    int looks;

    (void)rank;
    (void)arg;
    CHECK(c != NULL);
    CHECK_EQ(open_all(rt, c, MANY), 0);
    CHECK_EQ(all_announced(c, MANY), 0);
    /* Nobody rings: nobody looks. */
    for (int tries = 0;; tries++) {
        looks = some_looks(c);
        usleep(50000);
        if (some_looks(c) == looks)
            break;
        CHECK(tries < 100);
    }
    /* Channels that share a bit with it are looked at with it, no others. */
    for (int i = 0; i < rounds; i++) {
        struct channel *one = &c[(i * 37) % MANY], *other = &c[(i * 37 + 1) % MANY];
        int done = atomic_load(&one->done), seen = atomic_load(&other->looks);

        usleep(i % 20 == 0 ? 2000 : 0);
        if (i % 20 == 0)
            seen = atomic_load(&other->looks);
        give(one);
        CHECK_EQ(run_await(&one->done, done + 1), 0);
        if (i % 20 == 0)
            CHECK_EQ(atomic_load(&other->looks), seen);
    }
    CHECK_EQ(close_all(c, MANY), 0);
    free(c);
    return 0;
}

Test(poller, looks_at_those_that_are_rung_for, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, many_body, NULL), 0);
}

/* ---- one that always has something, or is put off, does not hold up others ---- */

static int fair_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct channel c[3];

    (void)rank;
    (void)arg;
    memset(c, 0, sizeof c);
    CHECK_EQ(open_all(rt, c, 3), 0);
    CHECK_EQ(all_announced(c, 3), 0);
    atomic_store(&c[0].endless, true);
    loci_polled_call(c[0].polled);
    atomic_store(&c[1].later, 1 << 30);
    give(&c[1]);
    for (int i = 0; i < 100; i++) {
        give(&c[2]);
        CHECK_EQ(run_await(&c[2].done, i + 1), 0);
        usleep(i % 10 == 0 ? 1000 : 0);
    }
    CHECK_EQ(atomic_load(&c[1].done), 0);
    atomic_store(&c[1].later, 5);
    CHECK_EQ(run_await(&c[1].done, 1), 0);
    /* What is idle beside a busy one is not looked at for long. */
    CHECK_EQ(run_await(&c[2].announced, 1), 0);
    CHECK_EQ(close_all(c, 3), 0);
    return 0;
}

Test(poller, is_fair, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, fair_body, NULL), 0);
}

/* ---- claims ---- */

static int claim_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct channel c[1];

    (void)rank;
    (void)arg;
    memset(c, 0, sizeof c);
    CHECK_EQ(open_all(rt, c, 1), 0);
    CHECK_EQ(all_announced(c, 1), 0);
    while (!loci_polled_claim(c[0].polled))
        ;
    CHECK(loci_polled_is_claimed(c[0].polled));
    CHECK(!loci_polled_claim(c[0].polled));
    give(&c[0]);
    usleep(20000);
    CHECK_EQ(atomic_load(&c[0].done), 0);
    /* Nobody rings again. */
    loci_polled_free(c[0].polled);
    CHECK_EQ(run_await(&c[0].done, 1), 0);
    CHECK_EQ(close_all(c, 1), 0);
    return 0;
}

Test(poller, comes_back_to_what_others_have_claimed, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, claim_body, NULL), 0);
}

/* ---- what comes right before the announcement, for which nobody rings ---- */

static int late_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct channel c[1];

    (void)rank;
    (void)arg;
    memset(c, 0, sizeof c);
    for (int i = 0; i < 20; i++) {
        atomic_store(&c[0].late, true);
        if (i == 0)
            CHECK_EQ(open_all(rt, c, 1), 0);
        else
            loci_polled_call(c[0].polled);
        CHECK_EQ(run_await(&c[0].done, 2 * i + 2), 0);
    }
    CHECK_EQ(close_all(c, 1), 0);
    return 0;
}

Test(poller, does_all_that_came_before_the_announcement, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, late_body, NULL), 0);
}

/* ---- channels come and go, by several threads ---- */

#define COMERS 4

static int comer(void *arg, int thread)
{
    loco_runtime_t *rt = arg;
    const int rounds = 20 + run_rounds(3000);
    uint64_t seed = 77 + (uint64_t)thread;

    for (int i = 0; i < rounds; i++) {
        struct channel *c = calloc(1, sizeof *c);
        int n = (int)(run_random(&seed) % 4);

        CHECK(c != NULL);
        CHECK_EQ(open_all(rt, c, 1), 0);
        atomic_store(&c->endless, run_random(&seed) % 4 == 0);
        for (int k = 0; k < n; k++)
            give(c);
        if (!atomic_load(&c->endless) && run_random(&seed) % 2 == 0)
            CHECK_EQ(run_await(&c->done, n), 0);
        if (run_random(&seed) % 16 == 0)
            usleep(200);
        loci_poller_remove(c->polled);
        atomic_store(&c->gone, true);
        if (run_random(&seed) % 16 == 0)
            usleep(200);
        CHECK(!atomic_load(&c->wrong));
        memset((void *)c, 0xaa, sizeof *c);     /* who looks now is seen, or fails */
        free(c);
    }
    return 0;
}

static int comers_body(loco_runtime_t *rt, int rank, void *arg)
{
    int before = tasks_count();

    (void)rank;
    (void)arg;
    CHECK_EQ(run_threads(COMERS, comer, rt), 0);
    CHECK_EQ(tasks_count(), before);
    return 0;
}

Test(poller, is_out_of_what_is_removed, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, comers_body, NULL), 0);
}
