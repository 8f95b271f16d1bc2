/* SPDX-License-Identifier: BSD-3-Clause */

/* The end of endpoints: memory is kept while a member may use it, and comes back; what a program
 * forgets to destroy is destroyed by the close, and named. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "memory/memory.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "run.h"
#include "wait.h"

#define MIB ((size_t)1 << 20)

static struct loci_endpoint_spec spec_of(loco_runtime_t *rt, const char *name, size_t len)
{
    return (struct loci_endpoint_spec){
        .name = name, .type = "test", .group = loco_everyone(rt), .nregions = 1,
        .region = { { "data", len, 0, LOCI_FROM_ALL } },
    };
}

static int nothing_is_owed(void *arg)
{
    return atomic_load(&((struct loco_runtime *)arg)->memory_owed) == 0;
}

/* Rank 0 destroys; what the others read there stays, whatever rank 0 asks for next. */
static int kept_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct loci_reason why = {
        .what = "memory", .peer = -1, .timeout_ns = run_limit(RUN_PATIENCE),
    };
    struct loci_endpoint_spec spec = spec_of(rt, "e", MIB);
    struct loci_endpoint *ep;
    struct loci_mem mine = { .key.kind = LOCI_MEM_NONE };
    uint64_t got = 0, base;

    (void)arg;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(run_meet(rt));
    memset(loci_mem_ptr(loci_endpoint_mem(ep, rank, 0)), 7, MIB);
    base = loci_endpoint_mem(ep, rank, 0)->key.base;
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        loci_endpoint_destroy(ep);
        CHECK_OK(loci_alloc(rt, MIB, 0, &mine));
        CHECK(mine.key.base != base);
        loci_free(rt, &mine);
    }
    CHECK_OK(run_meet(rt));
    if (rank != 0) {
        CHECK_OK(loci_read64(rt, loci_endpoint_mem(ep, 0, 0), 512, &got, NULL));
        CHECK(got == UINT64_C(0x0707070707070707));
        loci_endpoint_destroy(ep);
    }
    CHECK_OK(loci_wait(rt, &why, nothing_is_owed, rt));
    CHECK_OK(loci_alloc(rt, MIB, 0, &mine));
    CHECK_EQ(mine.key.base, base);
    loci_free(rt, &mine);
    return 0;
}

Test(leave, memory_is_kept_until_the_last_has_left, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, kept_body, NULL), 0);
    for (uint64_t seed = 1; seed < 6; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, kept_body, NULL), 0);
}

/* There is room for one of the two. */
static int again_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = spec_of(rt, "large", 40 * MIB);
    struct loci_endpoint *ep;

    (void)arg;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
        CHECK_OK(run_meet(rt));
        usleep(rank == i % 2 ? 100000 : 0);
        loci_endpoint_destroy(ep);
    }
    return 0;
}

Test(leave, who_makes_it_anew_waits_for_the_memory, .timeout = RUN_SECONDS)
{
    const char *const settings[] = { "LOCO_MEM_LIMIT=64M", NULL };

    cr_assert_eq(run_on(RUN_SHM, 2, 0, settings, again_body, NULL), 0);
}

/* Rank 1 has closed, or is dead: it needs nothing. */
static int gone_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct loci_reason why = {
        .what = "memory", .peer = -1, .timeout_ns = run_limit(RUN_PATIENCE),
    };
    struct loci_endpoint_spec spec = spec_of(rt, "e", MIB);
    struct loci_endpoint *ep;

    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(run_meet_alive(rt, arg));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    loci_endpoint_destroy(ep);
    CHECK_OK(loci_wait(rt, &why, nothing_is_owed, rt));
    return 0;
}

Test(leave, who_is_dead_need_not_leave, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, gone_body, run_counter()), 0);
}

/* A fabric that takes its time to cut off rank 1, which is dead. */
static void cuts_off_later(struct loci_fabric *fabric, struct loci_peer *peer)
{
    (void)fabric;
    (void)peer;
}

static int is_dead(void *arg)
{
    return loco_group_alive(loco_everyone(arg), 1) == LOCO_ERR_PEER_DEAD;
}

static int silent_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct loci_reason why = {
        .what = "the end of rank 1", .peer = -1, .timeout_ns = run_limit(RUN_PATIENCE),
    };
    struct loci_endpoint_spec spec = spec_of(rt, "e", MIB);
    const struct loci_fabric_ops *real = rt->ops;
    struct loci_fabric_ops ops = *real;
    struct loci_endpoint *ep;

    ops.peer_gone = cuts_off_later;
    rt->ops = &ops;
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    CHECK_OK(run_meet_alive(rt, arg));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    CHECK_OK(loci_wait(rt, &why, is_dead, rt));
    loci_endpoint_destroy(ep);
    usleep(20000);
    CHECK_EQ(atomic_load(&rt->memory_owed), MIB);
    loci_peer_silent(rt, loci_peer(rt, loco_everyone(rt)->peer[1]));
    CHECK_EQ(atomic_load(&rt->memory_owed), 0);
    /* The service thread reads rt->ops under this lock when it tidies up after rank 1. */
    pthread_mutex_lock(&rt->peers_lock);
    rt->ops = real;
    pthread_mutex_unlock(&rt->peers_lock);
    return 0;
}

Test(leave, what_the_dead_had_posted_may_still_arrive, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, silent_body, run_counter()), 0);
}

/* ---- what is forgotten ---- */

struct told {
    int lines;
    char text[64][160];
};

static void tell(void *ctx, int level, const char *text)
{
    struct told *told = ctx;

    if (level <= LOCO_LOG_WARN && told->lines < 64)
        snprintf(told->text[told->lines++], sizeof told->text[0], "%s", text);
}

static int gather_one(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static bool is_told(const struct told *told, const char *what)
{
    for (int i = 0; i < told->lines; i++)
        if (strncmp(told->text[i], what, strlen(what)) == 0)
            return true;
    return false;
}

static void make_each(loco_runtime_t *rt, const struct loco_exchange *exchange)
{
    const loco_kvstore_options_t o = { .value_bytes = 8, .capacity = 10 };
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_SHARED, .size = 64 };
    const loco_group_t *all = loco_everyone(rt);
    loco_region_t *region;
    loco_owned_var_t *owned;
    loco_atomic_var_t *atomic;
    loco_atomic_array_t *array;
    loco_sst_t *sst;
    loco_barrier_t *barrier;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_rw_group_t *group;
    loco_ringbuffer_t *ring;
    loco_queue_t *queue;
    loco_kvstore_t *store;
    loco_window_t *win;

    cr_assert_eq(loco_region_create(rt, NULL, "a", all, 64, &region), LOCO_OK);
    cr_assert_eq(loco_owned_var_create(rt, NULL, "b", all, 0, 64, LOCO_OWNED_PULL, &owned),
                 LOCO_OK);
    cr_assert_eq(loco_atomic_var_create(rt, NULL, "c", all, 0, &atomic), LOCO_OK);
    cr_assert_eq(loco_atomic_array_create(rt, NULL, "d", all, 9, 0, &array), LOCO_OK);
    cr_assert_eq(loco_sst_create(rt, NULL, "e", all, 3, LOCO_SST_ROWS, &sst), LOCO_OK);
    cr_assert_eq(loco_barrier_create(rt, NULL, "f", all, &barrier), LOCO_OK);
    cr_assert_eq(loco_ticket_lock_create(rt, NULL, "g", all, 0, &ticket), LOCO_OK);
    cr_assert_eq(loco_rw_lock_create(rt, NULL, "h", all, 0, &rw), LOCO_OK);
    cr_assert_eq(loco_rw_group_create(rt, NULL, "i", all, 2, &group), LOCO_OK);
    cr_assert_eq(loco_ringbuffer_create(rt, NULL, "j", all, 0, 64, 0, &ring), LOCO_OK);
    cr_assert_eq(loco_queue_create(rt, NULL, "k", all, 8, 8, 0, &queue), LOCO_OK);
    cr_assert_eq(loco_kvstore_create(rt, "a", "l", all, &o, &store), LOCO_OK);
    cr_assert_eq(loco_window_create(rt, exchange, &spec, &win), LOCO_OK);
}

/* What leaks is told by the address sanitizer. */
Test(leave, what_is_forgotten_is_named_and_destroyed)
{
    static const char *const each[] = {
        "region a ", "owned_var b ", "atomic_var c ", "atomic_array d ", "sst e ", "barrier f ",
        "ticket_lock g ", "rw_lock h ", "rw_group i ", "ringbuffer j ",
    };
    static struct told told;
    struct loco_bootstrap boot = {
        .identity = 42, .exchange = { .rank = 0, .size = 1, .allgather = gather_one },
        .log = tell, .log_ctx = &told,
    };
    loco_runtime_t *rt = NULL;

    cr_assert_eq(loco_runtime_open(&boot, &rt), LOCO_OK);
    make_each(rt, &boot.exchange);
    loco_runtime_close(rt);
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        cr_expect(is_told(&told, each[i]), "%s", each[i]);
    cr_expect_eq(told.lines, 11, "%d lines", told.lines);
    cr_expect(is_told(&told, "3 more were not destroyed"), "%s", told.text[10]);
}
