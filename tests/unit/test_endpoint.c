/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "move/rma.h"
#include "names/endpoint.h"
#include "run.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)

static struct loci_endpoint_spec spec_of(loco_runtime_t *rt, const char *name, size_t len)
{
    return (struct loci_endpoint_spec){
        .name = name, .type = "test", .property = { { "width", 7 } },
        .group = loco_everyone(rt), .nregions = 2,
        .region = { { "data", len, 0, LOCI_FROM_ALL }, { "root", 64, 0, 0 } },
    };
}

/* ---- connecting ---- */

static int all_flags(void *arg)
{
    struct loci_endpoint *ep = arg;
    unsigned char *flags = loci_mem_ptr(loci_endpoint_mem(ep, ep->group.rank, 0)) + 128;

    for (int i = 0; i < ep->group.size; i++)
        if (loci_load64(flags + 8 * i) == 0)
            return 0;
    return 1;
}

/* Nobody waits on another's memory, so that all may destroy theirs afterwards. */
static int everybody_is_here(loco_runtime_t *rt, struct loci_endpoint *ep)
{
    const struct loci_reason why = {
        .what = "all", .peer = -1, .timeout_ns = run_limit(10 * SECOND),
    };

    for (int i = 0; i < ep->group.size; i++) {
        int status = loci_write64(rt, loci_endpoint_mem(ep, i, 0),
                                  128 + 8 * (uint64_t)ep->group.rank, 1, NULL);

        if (status != LOCO_OK)
            return status;
    }
    return loci_wait(rt, &why, all_flags, ep);
}

static int connect_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "a", 256);
    int n = loco_group_size(loco_everyone(rt));
    struct loci_endpoint *ep;
    uint64_t got;

    usleep((useconds_t)(rank == *(int *)arg ? 30000 : 0));
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    for (int i = 0; i < n; i++)
        CHECK_OK(loci_write64(rt, loci_endpoint_mem(ep, i, 0), 8 * (uint64_t)rank,
                              100 + (uint64_t)rank, NULL));
    CHECK_OK(loci_fetch_add(rt, loci_endpoint_mem(ep, 0, 1), 0, 1, &got, NULL));
    CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    CHECK_OK(everybody_is_here(rt, ep));
    for (int i = 0; i < n; i++) {
        CHECK_OK(loci_read64(rt, loci_endpoint_mem(ep, rank, 0), 8 * (uint64_t)i, &got, NULL));
        CHECK_EQ(got, 100 + i);
    }
    CHECK_EQ(loci_endpoint_mem(ep, (rank + 1) % n, 1)->key.kind != LOCI_MEM_NONE,
             (rank + 1) % n == 0);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint, whoever_comes_late_is_connected)
{
    for (int late = 0; late < 4; late++) {
        cr_assert_eq(run_on(RUN_WEAK, 4, (uint64_t)late, NULL, connect_body, &late), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, connect_body, &late), 0);
    }
}

/* Where the environment says that processes are on several nodes, or on a device (LOCO_FABRIC). */
static bool is_apart(loco_runtime_t *rt)
{
    const loco_group_t *all = loco_everyone(rt);
    bool apart = all->size > 1 && !rt->ops->maps;

    for (int i = 0; i < all->size; i++)
        apart |= loci_peer(rt, all->peer[i])->address.node != rt->address.node;
    return apart;
}

/* Who updates words by which atomics: all members, the owner too, the same. */
static int domain_body(loco_runtime_t *rt, int rank, void *arg)
{
    enum loci_domain domain = !is_apart(rt) ? *(enum loci_domain *)arg
                              : rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER : LOCI_DOMAIN_NIC;
    struct loci_endpoint_spec spec = spec_of(rt, "d", 256);
    int n = loco_group_size(loco_everyone(rt));
    struct loci_endpoint *ep, *alone;
    struct loci_mem *mine;
    loco_group_t *self;
    uint64_t old;

    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(loco_group_subset(loco_everyone(rt), 1, &rank, &self));
    spec.name = rank == 0 ? "alone0" : "alone1";
    spec.group = self;
    CHECK_OK(loci_endpoint_create(rt, &spec, &alone));
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    CHECK_EQ(loci_endpoint_mem(alone, 0, 0)->domain, LOCI_DOMAIN_CPU);
    for (int i = 0; i < n; i++)
        CHECK_EQ(loci_endpoint_mem(ep, i, 0)->domain, domain);
    mine = loci_endpoint_mem(ep, rank, 0);
    CHECK(loci_mem_ptr(mine) != NULL);
    CHECK_EQ(loci_mem_word(mine) != NULL, loci_domain_is_cpus(domain));
    CHECK_OK(loci_fetch_add(rt, mine, 8, 5, &old, NULL));
    CHECK_EQ(old, 0);
    CHECK_OK(loci_compare_swap(rt, mine, 8, 5, 6, &old, NULL));
    CHECK_EQ(old, 5);
    CHECK_EQ(loci_load64(loci_mem_ptr(mine) + 8), 6);
    CHECK_OK(everybody_is_here(rt, ep));
    loci_endpoint_destroy(alone);
    loci_endpoint_destroy(ep);
    loco_group_destroy(self);
    return 0;
}

Test(endpoint, words_belong_to_one_domain)
{
    enum loci_domain cpu = LOCI_DOMAIN_CPU, nic = LOCI_DOMAIN_NIC;

    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, domain_body, &cpu), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, domain_body, &nic), 0);
    cr_assert_eq(run_on(RUN_WEAK, 1, 1, NULL, domain_body, &cpu), 0);
}

static int again_body(loco_runtime_t *rt, int rank, void *arg)
{
    unsigned seed = (unsigned)rank + 1;

    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct loci_endpoint_spec spec = spec_of(rt, "again", 64 * (size_t)(i % 3 + 1));
        struct loci_endpoint *ep;

        if (rand_r(&seed) % 3 == 0)
            usleep((useconds_t)(rand_r(&seed) % 3000));
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
        CHECK_OK(loci_endpoint_ready(ep, run_limit(10 * SECOND)));
        loci_endpoint_destroy(ep);
    }
    return 0;
}

Test(endpoint, is_made_again_under_its_name)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 5, NULL, again_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, again_body, NULL), 0);
}

static int subset_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int ranks[2][2] = { { 0, 1 }, { 3, 2 } };
    struct loci_endpoint_spec spec = spec_of(rt, "part", 64);
    struct loci_endpoint *ep;
    loco_group_t *half;

    (void)arg;
    CHECK_OK(loco_group_subset(loco_everyone(rt), 2, ranks[rank / 2], &half));
    spec.group = half;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(loci_endpoint_ready(ep, run_limit(10 * SECOND)));
    CHECK_EQ(ep->group.rank, rank < 2 ? rank : 3 - rank);
    loci_endpoint_destroy(ep);
    loco_group_destroy(half);
    CHECK_OK(loco_group_subset(loco_everyone(rt), 1, (const int[]){ (rank + 1) % 4 }, &half));
    spec.group = half;
    CHECK_EQ(loci_endpoint_create(rt, &spec, &ep), LOCO_ERR_ARG);
    loco_group_destroy(half);
    return 0;
}

Test(endpoint, two_groups_may_use_one_name)
{
    cr_assert_eq(run_on(RUN_WEAK, 4, 1, NULL, subset_body, NULL), 0);
}

/* ---- callbacks ---- */

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

    if (loci_endpoint_mem(ep, rank, 0)->key.kind != LOCI_MEM_NONE)
        atomic_fetch_add(&heard->connected[rank], 1);
}

static int callback_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "c", 64);
    struct heard heard = { 0 };
    struct loci_endpoint *ep;

    (void)arg;
    spec.on_join = on_join;
    spec.on_connect = on_connect;
    spec.ctx = &heard;
    usleep((useconds_t)rank * 5000);
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(loci_endpoint_ready(ep, run_limit(10 * SECOND)));
    for (int round = 0, all = 0; all < 6 && round < 2000; round++) {
        usleep(1000);
        all = 0;
        for (int i = 0; i < 4; i++)
            all += atomic_load(&heard.joined[i]) + atomic_load(&heard.connected[i]);
    }
    loci_endpoint_destroy(ep);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(atomic_load(&heard.joined[i]), i != rank);
        CHECK_EQ(atomic_load(&heard.connected[i]), i != rank);
    }
    return 0;
}

Test(endpoint, callbacks_come_once_per_member)
{
    cr_assert_eq(run_on(RUN_WEAK, 4, 1, NULL, callback_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, callback_body, NULL), 0);
}

/* ---- what does not fit ---- */

static int mismatch_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "m", 64);
    struct loci_endpoint *ep, *other;
    int kind = *(int *)arg;

    if (rank == 1) {
        if (kind == 0)
            spec.region[0].len = 128;
        if (kind == 1)
            spec.region[1].name = "toor";
        if (kind == 2)
            spec.property[0].value = 8;
        if (kind == 3)
            spec.nregions = 1;
        if (kind == 4)
            spec.region[1].from = 1;
        if (kind == 5)
            spec.type = "other";
        usleep(10000);
    }
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    CHECK_EQ(loci_endpoint_ready(ep, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    loci_endpoint_destroy(ep);
    /* The runtime goes on, under that name too. */
    spec = spec_of(rt, "m", 192);
    CHECK_OK(loci_endpoint_create(rt, &spec, &other));
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    loci_endpoint_destroy(other);
    return 0;
}

Test(endpoint, what_differs_is_an_error_at_both_ends)
{
    for (int kind = 0; kind < 6; kind++) {
        cr_assert_eq(run_on(RUN_WEAK, 2, (uint64_t)kind, NULL, mismatch_body, &kind), 0,
                     "kind %d", kind);
        cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, mismatch_body, &kind), 0, "kind %d", kind);
    }
}

/* The line that says what differs, as rank 0 and rank 1 each have it. */
static int said_body(loco_runtime_t *rt, int rank, void *arg)
{
    const char *const said[][2] = {
        { "width is 7 at rank 0 (here) and -8 at rank 1", "width is -8 at rank 1 (here) and 7 at "
          "rank 0" },
        { "its type is test at rank 0 (here) and other at rank 1", "its type is other at rank 1 "
          "(here) and test at rank 0" },
    };
    struct loci_endpoint_spec spec = spec_of(rt, "s", 64);
    int which = *(int *)arg;
    struct loci_endpoint *ep;

    if (rank == 1 && which == 0)
        spec.property[0].value = (uint64_t)-8;
    if (rank == 1 && which == 1)
        spec.type = "other";
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loci_endpoint_ready(ep, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    CHECK(weak_logged(rt, said[which][rank]) >= 1);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint, a_type_or_property_that_differs_is_named)
{
    for (int which = 0; which < 2; which++)
        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, said_body, &which), 0);
}

static int named_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "n", rank == 0 ? 64 : 4096);
    struct loci_endpoint *ep;

    (void)arg;
    spec.parent = "top";
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loci_endpoint_ready(ep, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    CHECK(weak_logged(rt, "top/n") >= 1);
    if (rank == 0)
        CHECK(weak_logged(rt, "region top/n.data has 64 bytes at rank 0 (here) and 4096 bytes at "
                          "rank 1") >= 1);
    else
        CHECK(weak_logged(rt, "region top/n.data has 4096 bytes at rank 1 (here) and 64 bytes at "
                          "rank 0") >= 1);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint, the_log_names_both_sides)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, named_body, NULL), 0);
}

static int names_body(loco_runtime_t *rt, int rank, void *arg)
{
    char name[LOCI_NAME_MAX + 8];
    struct loci_endpoint_spec spec = spec_of(rt, "x", 64);
    struct loci_endpoint *ep, *second;

    (void)rank;
    (void)arg;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_NAME);
    spec.name = "";
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_NAME);
    spec.name = NULL;
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_NAME);
    memset(name, 'y', sizeof name);
    name[LOCI_NAME_MAX] = '\0';
    spec.name = name;
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_NAME);
    name[LOCI_NAME_MAX - 1] = '\0';
    CHECK_OK(loci_endpoint_create(rt, &spec, &second));
    loci_endpoint_destroy(second);
    spec.parent = "p";
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_NAME);
    spec = spec_of(rt, "z", 64);
    spec.region[0].from = 1;
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_ARG);
    spec.nregions = LOCI_REGIONS_MAX + 1;
    CHECK_EQ(loci_endpoint_create(rt, &spec, &second), LOCO_ERR_ARG);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint, bad_names_are_refused)
{
    cr_assert_eq(run_on(RUN_WEAK, 1, 3, NULL, names_body, NULL), 0);
}

/* ---- a newcomer ---- */

/* Rank 2 makes it over all three, the members without it. It comes before the members,
 * between them, or when they are ready. */
enum { FIRST, BETWEEN, LAST, TIMES };

struct newcomer {
    int time;
    _Atomic int *steps, *refused;
};

static int be_newcomer(loco_runtime_t *rt, const struct newcomer *n)
{
    static const int steps_before[TIMES] = { 0, 1, 2 };
    struct loci_endpoint_spec spec = spec_of(rt, "club", 256);
    struct loci_endpoint *ep;

    CHECK_OK(run_await(n->steps, steps_before[n->time]));
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    atomic_fetch_add(n->steps, 1);
    CHECK_EQ(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)), LOCO_ERR_MISMATCH);
    atomic_fetch_add(n->refused, 1);
    loci_endpoint_destroy(ep);
    return 0;
}

static int be_member(loco_runtime_t *rt, int rank, const loco_group_t *members,
                     const struct newcomer *n)
{
    static const int steps_before[TIMES][2] = { { 1, 1 }, { 0, 2 }, { 0, 0 } };
    struct loci_endpoint_spec spec = spec_of(rt, "club", 256);
    struct loci_endpoint *ep;

    spec.group = members;
    CHECK_OK(run_await(n->steps, steps_before[n->time][rank]));
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    if (n->time == BETWEEN)
        atomic_fetch_add(n->steps, 1);
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    if (n->time == LAST)
        atomic_fetch_add(n->steps, 1);
    CHECK_OK(run_await(n->refused, 1));
    CHECK_OK(loco_runtime_wait_ready(rt, run_limit(10 * SECOND)));
    CHECK_OK(everybody_is_here(rt, ep));
    loci_endpoint_destroy(ep);
    return 0;
}

static int newcomer_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_group_t *members;
    int result;

    CHECK_OK(loco_group_subset(loco_everyone(rt), 2, (const int[]){ 0, 1 }, &members));
    result = rank == 2 ? be_newcomer(rt, arg) : be_member(rt, rank, members, arg);
    loco_group_destroy(members);
    return result;
}

Test(endpoint, a_newcomer_that_does_not_fit_is_refused_alone)
{
    for (int time = 0; time < TIMES; time++)
        for (int fabric = 0; fabric < 2; fabric++) {
            struct newcomer n = { time, run_counter(), run_counter() };

            cr_assert_eq(run_on(fabric == 0 ? RUN_WEAK : RUN_SHM, 3, (uint64_t)time, NULL,
                                newcomer_body, &n), 0, "time %d", time);
        }
}

/* ---- waiting in vain ---- */

static int timeout_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "alone", 64);
    struct loci_endpoint *ep;

    (void)arg;
    if (rank != 0)
        return 0;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loco_runtime_wait_ready(rt, SECOND / 20), LOCO_ERR_TIMEOUT);
    CHECK_EQ(loco_runtime_wait_ready(rt, 0), LOCO_ERR_TIMEOUT);
    CHECK_EQ(loco_runtime_wait_ready(rt, -7), LOCO_ERR_ARG);
    loci_endpoint_destroy(ep);
    CHECK_OK(loco_runtime_wait_ready(rt, 0));
    return 0;
}

Test(endpoint, a_wait_may_time_out)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, timeout_body, NULL), 0);
}

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "d", 64);
    struct loci_endpoint *ep;

    (void)arg;
    if (rank == 2) {
        usleep(20000);
        weak_die(rt);
        return 0;
    }
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loco_runtime_wait_ready(rt, LOCO_FOREVER), LOCO_ERR_PEER_DEAD);
    loci_endpoint_destroy(ep);
    /* Known to be dead beforehand. */
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_EQ(loci_endpoint_ready(ep, LOCO_FOREVER), LOCO_ERR_PEER_DEAD);
    loci_endpoint_destroy(ep);
    return 0;
}

Test(endpoint, a_dead_member_ends_the_wait)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 3, NULL, death_body, NULL), 0);
}

/* ---- what is seen of a death while it is being told ---- */

struct telling {
    loco_runtime_t *rt;
    _Atomic int *met, *told;
    unsigned deaths;
};

/* The line is written between the peer's state and the end of it all: who comes here stands where
 * another thread of the process may be. */
static void look_at_deaths(void *ctx, int level, const char *text)
{
    struct telling *t = ctx;

    (void)level;
    (void)text;
    if (loci_peer_alive(t->rt, loco_everyone(t->rt)->peer[1]))
        return;
    t->deaths = atomic_load(&t->rt->deaths);
    atomic_fetch_add(t->told, 1);
}

static int telling_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct telling *t = arg;

    if (rank == 0) {
        t->rt = rt;
        rt->log = (struct loci_log){ .fn = look_at_deaths, .ctx = t, .level = LOCO_LOG_WARN };
    }
    CHECK_OK(run_meet(rt));
    atomic_fetch_add(t->met, 1);
    CHECK_OK(run_await(t->met, 2));
    if (rank == 1) {
        weak_die(rt);
        return 0;
    }
    CHECK_OK(run_await(t->told, 1));
    CHECK(t->deaths != 0);
    return 0;
}

Test(endpoint, who_sees_a_death_sees_that_it_is_counted)
{
    struct telling t = { .met = run_counter(), .told = run_counter() };

    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, telling_body, &t), 0);
}
