/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints find each other although control messages are lost, come twice, are changed or
 * overtake each other. The clock of these runs is fast, so that asking again takes no time; who
 * waits for ever here waits until the test's own limit. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include <loco/loco.h>

#include "names/endpoint.h"
#include "run.h"

#define FAST 100                /* asked again after 1 ms */
#define SEEDS 8

static const struct weak_faults mixes[] = {
    { .lose = 10, .speed = FAST },
    { .lose = 30, .speed = FAST },
    { .twice = 50, .speed = FAST },
    { .lose = 20, .twice = 30, .delay = 20, .speed = FAST },
    { .lose = 10, .twice = 30, .garble = 20, .delay = 10, .speed = FAST },
    { .lose = 15, .twice = 50, .delay = 30, .overtake = 50, .speed = FAST },
};
#define MIXES (sizeof mixes / sizeof mixes[0])

/* Run it with each mix and many seeds. */
static void run_all(int n, weak_fn *fn)
{
    int seeds = run_rounds(SEEDS);

    for (size_t mix = 0; mix < MIXES; mix++)
        for (int seed = 0; seed < seeds; seed++)
            cr_assert_eq(weak_run_faulty(n, (uint64_t)seed + 100 * mix, &mixes[mix], fn, NULL), 0,
                         "mix %zu, seed %d", mix, seed);
}

static struct loci_endpoint_spec spec_of(loco_runtime_t *rt, const char *name, size_t len)
{
    return (struct loci_endpoint_spec){
        .name = name, .type = "test", .property = { { "width", 7 } },
        .group = loco_everyone(rt), .nregions = 2,
        .region = { { "data", len, 0, LOCI_FROM_ALL }, { "root", 64, 0, 0 } },
    };
}

struct heard {
    _Atomic int joined[4], connected[4];
};

static void on_join(struct loci_endpoint *ep, int rank, void *ctx)
{
    struct heard *heard = ctx;

    (void)ep;
    atomic_fetch_add(&heard->joined[rank], 1);
}

static void on_connect(struct loci_endpoint *ep, int rank, void *ctx)
{
    struct heard *heard = ctx;

    if (loci_endpoint_mem(ep, rank, 0)->key.kind == LOCI_MEM_POOL)
        atomic_fetch_add(&heard->connected[rank], 1);
}

static int heard_once(struct heard *heard, int rank, int n)
{
    for (int i = 0; i < n; i++) {
        CHECK_EQ(atomic_load(&heard->joined[i]), i != rank);
        CHECK_EQ(atomic_load(&heard->connected[i]), i != rank);
    }
    return 0;
}

/* ---- random faults ---- */

static int several_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const char *const names[] = { "x", "y", "z" };
    unsigned seed = (unsigned)rank + 1;
    struct heard heard[3] = { 0 };
    struct loci_endpoint *ep[3];
    loco_barrier_t *barrier;
    loco_region_t *region;
    uint64_t got;

    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct loci_endpoint_spec spec = spec_of(rt, names[i], 64);

        spec.on_join = on_join;
        spec.on_connect = on_connect;
        spec.ctx = &heard[i];
        usleep((useconds_t)(rand_r(&seed) % 2000));
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep[i]));
    }
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 64, &region));
    CHECK_OK(loco_barrier_create(rt, NULL, "b", loco_everyone(rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0; i < 3; i++)
        CHECK(heard_once(&heard[i], rank, 4) == 0);
    CHECK_OK(loco_region_write64(region, (rank + 1) % 4, 0, 7));
    CHECK_OK(loco_barrier_wait(barrier));
    CHECK_OK(loco_region_read64(region, rank, 0, &got));
    CHECK_EQ(got, 7);
    for (int i = 0; i < 3; i++) {
        CHECK(heard_once(&heard[i], rank, 4) == 0);
        loci_endpoint_destroy(ep[i]);
    }
    loco_barrier_destroy(barrier);
    loco_region_destroy(region);
    return 0;
}

Test(endpoint_faults, several_become_ready_once, .timeout = RUN_SECONDS)
{
    run_all(4, several_body);
}

/* Ready, so it may be destroyed at once: the members need it no more. */
static int again_body(loco_runtime_t *rt, int rank, void *arg)
{
    unsigned seed = (unsigned)rank + 1;

    (void)arg;
    for (int i = 0; i < 12; i++) {
        struct loci_endpoint_spec spec = spec_of(rt, "again", 64 * (size_t)(i % 3 + 1));
        struct heard heard = { 0 };
        struct loci_endpoint *ep;

        spec.on_join = on_join;
        spec.on_connect = on_connect;
        spec.ctx = &heard;
        if (rand_r(&seed) % 4 == 0)
            usleep((useconds_t)(rand_r(&seed) % 3000));
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
        CHECK_OK(loci_endpoint_ready(ep, LOCO_FOREVER));
        loci_endpoint_destroy(ep);
        CHECK(heard_once(&heard, rank, 3) == 0);
    }
    return 0;
}

Test(endpoint_faults, each_is_made_again_under_its_name, .timeout = RUN_SECONDS)
{
    run_all(3, again_body);
}

/* Both ends, each time; then the next of that name fits. */
static int mismatch_body(loco_runtime_t *rt, int rank, void *arg)
{
    unsigned seed = (unsigned)rank + 1;

    (void)arg;
    for (int i = 0; i < 8; i++) {
        bool fits = i % 2 == 1;
        struct loci_endpoint_spec spec = spec_of(rt, "m", fits ? 192 : rank == 0 ? 64 : 128);
        struct loci_endpoint *ep;
        int status;

        if (rand_r(&seed) % 3 == 0)
            usleep((useconds_t)(rand_r(&seed) % 3000));
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
        status = i % 4 < 2 ? loci_endpoint_ready(ep, LOCO_FOREVER)
                           : loco_runtime_wait_ready(rt, LOCO_FOREVER);
        CHECK_EQ(status, fits ? LOCO_OK : LOCO_ERR_MISMATCH);
        loci_endpoint_destroy(ep);
    }
    return 0;
}

Test(endpoint_faults, what_differs_is_an_error_at_both_ends, .timeout = RUN_SECONDS)
{
    run_all(2, mismatch_body);
}

/* ---- each message in turn ---- */

struct shared {
    int late;                   /* who makes its endpoint later, or -1 */
    bool fits;
    _Atomic int done;
};

static int make_pair(loco_runtime_t *rt, int rank, struct shared *shared, struct heard *heard,
                     struct loci_endpoint **ep)
{
    struct loci_endpoint_spec spec = spec_of(rt, "p", shared->fits ? 64 : 64 << rank);

    spec.on_join = on_join;
    spec.on_connect = on_connect;
    spec.ctx = heard;
    if (rank == shared->late)
        usleep(1000);
    return loci_endpoint_create(rt, &spec, ep);
}

/* And made again at once, by who is ready first. */
static int pair_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared *shared = arg;

    for (int i = 0; i < 2; i++) {
        struct heard heard = { 0 };
        struct loci_endpoint *ep;

        CHECK_OK(make_pair(rt, rank, shared, &heard, &ep));
        CHECK_EQ(loci_endpoint_ready(ep, LOCO_FOREVER),
                 shared->fits ? LOCO_OK : LOCO_ERR_MISMATCH);
        loci_endpoint_destroy(ep);
        if (shared->fits)
            CHECK(heard_once(&heard, rank, 2) == 0);
    }
    return 0;
}

/* Rank 0 does not wait, and so never asks, until the other is ready. */
static int one_waits_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared *shared = arg;
    struct heard heard = { 0 };
    struct loci_endpoint *ep;

    CHECK_OK(make_pair(rt, rank, shared, &heard, &ep));
    if (rank == 0)
        while (atomic_load(&shared->done) == 0)
            usleep(200);
    CHECK_OK(loci_endpoint_ready(ep, LOCO_FOREVER));
    atomic_store(&shared->done, 1);
    loci_endpoint_destroy(ep);
    return heard_once(&heard, rank, 2);
}

/* Rank 0 has made the next one, and waits for nothing: its first one's last word may be lost. */
static int next_is_there_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct shared *shared = arg;
    struct heard heard = { 0 }, again = { 0 };
    struct loci_endpoint *ep;

    CHECK_OK(make_pair(rt, rank, shared, &heard, &ep));
    CHECK_OK(loci_endpoint_ready(ep, LOCO_FOREVER));
    if (rank == 1)
        atomic_store(&shared->done, 1);
    loci_endpoint_destroy(ep);
    CHECK_OK(make_pair(rt, rank, shared, &again, &ep));
    while (atomic_load(&shared->done) == 0)
        usleep(200);
    CHECK_OK(loci_endpoint_ready(ep, LOCO_FOREVER));
    loci_endpoint_destroy(ep);
    return heard_once(&heard, rank, 2) + heard_once(&again, rank, 2);
}

/* Each of the first messages, and each two of them, for either order of creation. */
static void lose_each(bool fits, weak_fn *fn)
{
    for (int late = -1; late < 2; late++)
        for (int one = 0; one < 8; one++)
            for (int two = one; two < 8; two++) {
                const struct weak_faults faults = {
                    .lose_these = UINT64_C(1) << one | UINT64_C(1) << two, .speed = FAST,
                };
                struct shared shared = { .late = late, .fits = fits };

                cr_assert_eq(weak_run_faulty(2, 1, &faults, fn, &shared), 0,
                             "late %d, lost %d and %d", late, one, two);
            }
}

Test(endpoint_faults, each_message_may_be_lost, .timeout = RUN_SECONDS)
{
    lose_each(true, pair_body);
}

Test(endpoint_faults, each_message_of_a_mismatch_may_be_lost, .timeout = RUN_SECONDS)
{
    lose_each(false, pair_body);
}

Test(endpoint_faults, who_waits_needs_nobody_else_to_wait, .timeout = RUN_SECONDS)
{
    lose_each(true, one_waits_body);
}

Test(endpoint_faults, who_is_ready_may_make_the_next_one, .timeout = RUN_SECONDS)
{
    lose_each(true, next_is_there_body);
}

/* ---- no faults ---- */

/* The clock stands still: nothing is asked twice, and nothing needs to be. */
static int quiet_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "q", 64);
    struct shared *shared = arg;
    struct loci_endpoint *ep;

    (void)rank;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(loci_endpoint_ready(ep, LOCO_FOREVER));
    atomic_fetch_add(&shared->done, 1);
    while (atomic_load(&shared->done) < 4)
        usleep(200);
    CHECK(weak_letters(rt) >= 6 * 4 && weak_letters(rt) <= 6 * 6);
    atomic_fetch_add(&shared->done, 1);
    while (atomic_load(&shared->done) < 8)      /* who destroys says so */
        usleep(200);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint_faults, six_messages_at_most_connect_a_pair)
{
    const struct weak_faults none = { .speed = -1 };

    for (uint64_t seed = 0; seed < 10; seed++) {
        struct shared shared = { .late = -1 };

        cr_assert_eq(weak_run_faulty(4, seed, &none, quiet_body, &shared), 0);
    }
}
