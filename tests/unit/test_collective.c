/* SPDX-License-Identifier: BSD-3-Clause */

/* Broadcasts and reductions: what each member gets, of each type, of any length and root; members
 * that differ, die, come late, or have left. */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

#define WORDS 400

struct group {
    loco_collective_t *c;
    int rank, n;
    uint64_t seed;                      /* the same at all */
    int64_t operand[WORDS], result[WORDS], want[WORDS];
};

static int open_group(loco_runtime_t *rt, int rank, size_t piece, struct group **out)
{
    struct group *g = calloc(1, sizeof *g);

    CHECK(g != NULL);
    g->rank = rank;
    g->n = loco_group_size(loco_everyone(rt));
    g->seed = 4711;
    CHECK_OK(loco_collective_create(rt, NULL, "c", loco_everyone(rt), piece, &g->c));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    *out = g;
    return 0;
}

static void close_group(struct group *g)
{
    loco_collective_destroy(g->c);
    free(g);
}

static int64_t word_of(uint64_t call, int rank, size_t i)
{
    uint64_t state = (call + 1) * 1000003 + (uint64_t)rank * 7919 + i + 1;

    return (int64_t)(run_random(&state) >> 20) - (INT64_C(1) << 43);
}

static int64_t combine(enum loco_op op, int64_t a, int64_t b)
{
    switch (op) {
    case LOCO_OP_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
    case LOCO_OP_MAX: return a > b ? a : b;
    case LOCO_OP_MIN: return a < b ? a : b;
    default: return a ^ b;
    }
}

static void fill(struct group *g, uint64_t call, enum loco_op op, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        g->operand[i] = word_of(call, g->rank, i);
        g->result[i] = 5;
        g->want[i] = word_of(call, 0, i);
        for (int rank = 1; rank < g->n; rank++)
            g->want[i] = combine(op, g->want[i], word_of(call, rank, i));
    }
}

static int one_call(struct group *g, uint64_t call)
{
    static const enum loco_op ops[] = { LOCO_OP_SUM, LOCO_OP_MAX, LOCO_OP_MIN, LOCO_OP_BXOR };
    int root = (int)(run_random(&g->seed) % (uint64_t)g->n);
    enum loco_op op = ops[run_random(&g->seed) % 4];
    size_t most = run_random(&g->seed) % 3 == 0 ? WORDS : 10, n;
    bool in_place = run_random(&g->seed) % 2 == 0;
    int64_t *to = in_place ? g->operand : g->result;

    n = (size_t)(run_random(&g->seed) % most);
    fill(g, call, op, n);
    switch (run_random(&g->seed) % 3) {
    case 0:
        CHECK_OK(loco_collective_broadcast(g->c, root, g->operand, 8 * n));
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(g->operand[i], word_of(call, root, i));
        return 0;
    case 1:
        CHECK_OK(loco_collective_reduce(g->c, root, op, LOCO_TYPE_I64, g->operand,
                                        g->rank == root ? to : NULL, n));
        if (g->rank != root)
            return 0;
        break;
    default:
        CHECK_OK(loco_collective_allreduce(g->c, op, LOCO_TYPE_I64, g->operand, to, n));
    }
    CHECK_EQ(memcmp(to, g->want, 8 * n), 0);
    return 0;
}

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct group *g;

    CHECK_EQ(open_group(rt, rank, *(size_t *)arg, &g), 0);
    for (int i = 0; i < run_rounds(60); i++)
        CHECK_EQ(one_call(g, (uint64_t)i), 0);
    close_group(g);
    return 0;
}

Test(collective, members_get_what_others_put_in, .timeout = RUN_SECONDS)
{
    static const size_t pieces[] = { 1, 1000, 0 };

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t piece = pieces[i];

        cr_assert_eq(run_on(RUN_WEAK, 2 + 3 * (int)i, i, NULL, calls_body, &piece), 0);
        cr_assert_eq(run_on(RUN_SHM, 3 + (int)i, i, NULL, calls_body, &piece), 0);
    }
    cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, calls_body, &(size_t){ 64 }), 0);
}

/* Elements longer than 8 bytes, and with padding; sums whose last bits depend on their order. */
struct pair {
    double value;
    int index;
};

static int types_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct pair mine[9], best[9];
    double part[100], sum[100], again[100];
    long double product = rank + 1, all = 0, want = 1;
    loco_collective_t *c;
    int n = loco_group_size(loco_everyone(rt));

    (void)arg;
    CHECK_OK(loco_collective_create(rt, NULL, "c", loco_everyone(rt), 64, &c));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < 9; i++)
        mine[i] = (struct pair){ (rank + i) % n, rank };
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_MAXLOC, LOCO_TYPE_F64_INT, mine, best, 9));
    for (int i = 0; i < 9; i++) {
        CHECK(best[i].value == n - 1);
        CHECK_EQ((best[i].index + i) % n, n - 1);
    }
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_PROD, LOCO_TYPE_LONG_DOUBLE, &product, &all, 1));
    for (int i = 1; i <= n; i++)
        want *= i;
    CHECK(all == want);
    for (int i = 0; i < 100; i++)
        part[i] = 1.0 / (3 + i + 7 * rank);
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_F64, part, sum, 100));
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_F64, part, again, 100));
    CHECK_EQ(memcmp(sum, again, sizeof sum), 0);
    memcpy(again, sum, sizeof sum);
    CHECK_OK(loco_collective_broadcast(c, n - 1, again, sizeof again));
    CHECK_EQ(memcmp(sum, again, sizeof sum), 0);
    loco_collective_destroy(c);
    return 0;
}

Test(collective, types_of_any_extent_give_the_same_bits_everywhere)
{
    cr_assert_eq(run_on(RUN_WEAK, 5, 1, NULL, types_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 6, 1, NULL, types_body, NULL), 0);
}

static int mistakes_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_collective_t *c = NULL;
    int64_t x = rank, y = 7;

    (void)arg;
    CHECK_EQ(loco_collective_create(rt, NULL, "c", loco_everyone(rt), SIZE_MAX, &c), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_create(rt, NULL, "c", NULL, 0, &c), LOCO_ERR_ARG);
    CHECK(c == NULL);
    CHECK_OK(loco_collective_create(rt, NULL, "c", loco_everyone(rt), 0, &c));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_collective_broadcast(c, 2, &x, 8), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_broadcast(c, -1, &x, 8), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_broadcast_timed(c, 0, &x, 8, -2), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_reduce(c, 0, LOCO_OP_BAND, LOCO_TYPE_F64, &x, &y, 1), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_reduce(c, 0, LOCO_OP_REPLACE, LOCO_TYPE_I64, &x, &y, 1),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_allreduce(c, LOCO_OP_COUNT, LOCO_TYPE_I64, &x, &y, 1), LOCO_ERR_ARG);
    CHECK_EQ(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_COUNT, &x, &y, 1), LOCO_ERR_ARG);
    CHECK_EQ(y, 7);
    CHECK_OK(loco_collective_broadcast(c, 0, NULL, 0));
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, NULL, NULL, 0));
    /* And it works after them. */
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, &x, &y, 1));
    CHECK_EQ(y, 1);
    loco_collective_destroy(c);
    loco_collective_destroy(NULL);
    return 0;
}

Test(collective, mistakes_are_told_and_do_nothing)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, mistakes_body, NULL), 0);
}

/* Rank 1 comes late: the others run out of time, and go on where they were. */
static int late_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct group *g;
    int64_t other = 0;
    int out_of_time = 0, status;

    (void)arg;
    CHECK_EQ(open_group(rt, rank, 64, &g), 0);
    CHECK_OK(run_meet(rt));
    for (uint64_t call = 0; call < 5; call++) {
        fill(g, call, LOCO_OP_SUM, 100);
        if (rank == 1)
            usleep(20000);
        do {
            status = loco_collective_allreduce_timed(g->c, LOCO_OP_SUM, LOCO_TYPE_I64, g->operand,
                                                     g->result, 100, call % 2 == 0 ? 0 : 1000000);
            CHECK(status == LOCO_OK || status == LOCO_ERR_TIMEOUT);
            /* Another call is refused meanwhile, unless nothing of this one is done. */
            if (status == LOCO_ERR_TIMEOUT && out_of_time++ == 0 && rank == 0)
                CHECK_EQ(loco_collective_broadcast(g->c, 0, &other, 8), LOCO_ERR_STATE);
        } while (status != LOCO_OK);
        CHECK_EQ(memcmp(g->result, g->want, 100 * sizeof g->want[0]), 0);
    }
    CHECK(rank == 1 || out_of_time > 0);
    CHECK_OK(run_meet(rt));
    close_group(g);
    return 0;
}

Test(collective, a_call_that_ran_out_of_time_goes_on)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, late_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, late_body, NULL), 0);
}

/* One member differs: all who wait are told, and nobody hangs. */
static int differ_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t x[4] = { rank }, sum[4];
    int n = loco_group_size(loco_everyone(rt)), status = LOCO_OK;
    loco_collective_t *c;

    (void)arg;
    CHECK_OK(loco_collective_create(rt, NULL, "c", loco_everyone(rt), 0, &c));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, x, sum, 4));
    CHECK_OK(run_meet(rt));
    status = loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, x, sum,
                                       rank == n - 1 ? 3 : 4);
    CHECK_EQ(status, LOCO_ERR_MISMATCH);
    CHECK_EQ(loco_collective_broadcast(c, 0, x, 8), LOCO_ERR_MISMATCH);
    CHECK_OK(run_meet(rt));
    loco_collective_destroy(c);
    return 0;
}

Test(collective, members_that_differ_are_told)
{
    for (int n = 2; n < 8; n++) {
        cr_assert_eq(run_on(RUN_SHM, n, 1, NULL, differ_body, NULL), 0);
        cr_assert_eq(run_on(RUN_WEAK, n, 1, NULL, differ_body, NULL), 0);
    }
}

struct death {
    bool weak;
    _Atomic int *met;
};

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct death *death = arg;
    int n = loco_group_size(loco_everyone(rt)), victim = n / 2;
    int64_t x = rank, sum, start;
    loco_collective_t *c;

    CHECK_OK(loco_collective_create(rt, NULL, "c", loco_everyone(rt), 0, &c));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, &x, &sum, 1));
    CHECK_EQ(sum, n * (n - 1) / 2);
    CHECK_OK(run_meet_alive(rt, death->met));
    if (rank == victim) {
        usleep(10000);          /* most often they wait then */
        if (!death->weak)
            kill(getpid(), SIGKILL);
        weak_die(rt);
        loco_collective_destroy(c);
        return 0;
    }
    start = run_now();
    CHECK_EQ(loco_collective_allreduce(c, LOCO_OP_SUM, LOCO_TYPE_I64, &x, &sum, 1),
             LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_collective_broadcast(c, rank, &x, 8), LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - start < run_limit(RUN_PATIENCE));
    loco_collective_destroy(c);
    return 0;
}

static int run_with_a_death(enum run_fabric fabric, int n)
{
    struct death death = { .weak = fabric == RUN_WEAK, .met = run_counter() };

    return run_on(fabric, n, 0, NULL, death_body, &death);
}

Test(collective, a_dead_member_ends_all_waits, .timeout = RUN_SECONDS)
{
    for (int n = 2; n < 8; n++)
        cr_assert_eq(run_with_a_death(RUN_SHM, n), 0);
    cr_assert_eq(run_with_a_death(RUN_WEAK, 5), 0);
}

/* Who is through may close its runtime while others are still inside. */
static int leave_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct group *g;

    (void)arg;
    CHECK_EQ(open_group(rt, rank, 1024, &g), 0);
    usleep((useconds_t)((rank * 7919) % 5000));
    for (uint64_t call = 0; call < 4; call++)
        CHECK_EQ(one_call(g, call), 0);
    close_group(g);
    return 0;
}

Test(collective, who_is_through_may_go, .timeout = RUN_SECONDS)
{
    for (int i = 0; i < run_rounds(6); i++)
        cr_assert_eq(run_on(RUN_SHM, 2 + i % 6, 0, NULL, leave_body, NULL), 0);
}
