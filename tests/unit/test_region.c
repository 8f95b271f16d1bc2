/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "run.h"

#define FOREVER LOCO_FOREVER

static int open_region(loco_runtime_t *rt, size_t len, loco_region_t **region)
{
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), len, region));
    CHECK_OK(loco_runtime_wait_ready(rt, FOREVER));
    return 0;
}

static int all_to_all_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    size_t piece = *(size_t *)arg;
    unsigned char *bytes = malloc(piece), *back = malloc(piece);
    loco_ack_t ack = LOCO_ACK_INIT;
    loco_region_t *region;

    CHECK_OK(open_region(rt, piece * (size_t)n, &region));
    memset(bytes, 'a' + rank, piece);
    for (int i = 0; i < n; i++)
        CHECK_OK(i % 2 == 0 ? loco_region_write(region, i, (uint64_t)rank * piece, bytes, piece)
                            : loco_region_write_ack(region, i, (uint64_t)rank * piece, bytes,
                                                    piece, &ack));
    CHECK_OK(loco_ack_wait(rt, &ack));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < n; i++) {
        ack = (loco_ack_t)LOCO_ACK_INIT;
        memset(bytes, 'a' + i, piece);
        CHECK_EQ(memcmp((char *)loco_region_local(region) + (size_t)i * piece, bytes, piece), 0);
        CHECK_OK(loco_region_read_ack(region, (rank + 1) % n, (uint64_t)i * piece, back, piece,
                                      &ack));
        CHECK_OK(loco_ack_wait(rt, &ack));
        CHECK_EQ(memcmp(back, bytes, piece), 0);
        memset(back, 0, piece);
        CHECK_OK(loco_region_read(region, (rank + 2) % n, (uint64_t)i * piece, back, piece));
        CHECK_EQ(memcmp(back, bytes, piece), 0);
    }
    CHECK_EQ(loco_region_len(region), piece * (size_t)n);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(region);
    free(bytes);
    free(back);
    return 0;
}

Test(region, what_is_written_is_read_everywhere)
{
    static const size_t pieces[] = { 1, 8, 13, 4096, 100001 };

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t piece = pieces[i];

        cr_assert_eq(run_on(RUN_WEAK, 4, i, NULL, all_to_all_body, &piece), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, i, NULL, all_to_all_body, &piece), 0);
    }
}

struct adders {
    loco_runtime_t *rt;
    loco_region_t *region;
    int rank;
};

#define ADDS 200

static int add(void *arg, int thread)
{
    struct adders *a = arg;
    uint64_t old;

    for (int i = 0; i < ADDS; i++) {
        CHECK_OK(loco_region_fetch_add(a->region, 0, 8, 1, NULL));
        if (thread % 2 == 0) {
            loco_ack_t ack = LOCO_ACK_INIT;

            CHECK_OK(loco_region_fetch_add_ack(a->region, 1, 0, 3, &old, &ack));
            CHECK_OK(loco_ack_wait(a->rt, &ack));
        } else {
            uint64_t seen = 0, want;

            do {
                want = seen;
                CHECK_OK(loco_region_compare_swap(a->region, 1, 0, want, want + 3, &seen));
            } while (seen != want);
        }
    }
    return 0;
}

static int atomics_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct adders a = { rt, NULL, rank };
    int n = loco_group_size(loco_everyone(rt)), threads = *(int *)arg;
    uint64_t got;

    CHECK_OK(open_region(rt, 16, &a.region));
    CHECK_OK(run_threads(threads, add, &a));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_region_read64(a.region, 0, 8, &got));
    CHECK_EQ(got, n * threads * ADDS);
    CHECK_OK(loco_region_read64(a.region, 1, 0, &got));
    CHECK_EQ(got, 3 * n * threads * ADDS);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(a.region);
    return 0;
}

Test(region, atomics_of_many_threads_all_count)
{
    int threads = 3;

    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, atomics_body, &threads), 0);
    cr_assert_eq(run_on(RUN_WEAK, 4, 2, NULL, atomics_body, &threads), 0);
    cr_assert_eq(run_on(RUN_SHM, 4, 2, NULL, atomics_body, &threads), 0);
}

/* Data, fence, flag; who sees the flag sees the data: on other peers, too. */
static int publish_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_region_t *region;
    uint64_t got, data[8];

    (void)arg;
    CHECK_OK(open_region(rt, 128, &region));
    for (uint64_t round = 1; round <= 50; round++) {
        if (rank == 0) {
            for (int i = 0; i < 8; i++)
                data[i] = round * 100 + (uint64_t)i;
            CHECK_OK(loco_region_write(region, 2, 64, data, sizeof data));
            CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
            CHECK_OK(loco_region_write64(region, 1, 0, round));
        } else if (rank == 1) {
            do
                CHECK_OK(loco_region_read64(region, 1, 0, &got));
            while (got < round);
            CHECK_OK(loco_region_read(region, 2, 64, data, sizeof data));
            for (int i = 0; i < 8; i++)
                CHECK_EQ(data[i], round * 100 + (uint64_t)i);
        }
        CHECK_OK(run_meet(rt));
    }
    loco_region_destroy(region);
    return 0;
}

Test(region, a_fence_orders_data_before_the_flag)
{
    for (uint64_t seed = 0; seed < 3; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, publish_body, NULL), 0);
}

static int bounds_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t value = 7, out;
    unsigned char bytes[80] = { 0 };
    loco_region_t *region;

    (void)arg;
    CHECK_OK(open_region(rt, 64, &region));
    CHECK_EQ(loco_region_write(region, 1 - rank, 1, bytes, 64), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_write(region, 1 - rank, 65, bytes, 0), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_read(region, 1 - rank, 0, bytes, 65), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_read(region, 1 - rank, UINT64_MAX - 3, bytes, 8), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_write(region, 1 - rank, 8, bytes, SIZE_MAX), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_write64(region, 1 - rank, 64, 1), LOCO_ERR_RANGE);
    CHECK_EQ(loco_region_write64(region, 1 - rank, 4, 1), LOCO_ERR_ARG);
    CHECK_EQ(loco_region_fetch_add(region, 1 - rank, 63, 1, &out), LOCO_ERR_ARG);
    CHECK_EQ(loco_region_compare_swap(region, 2, 0, 0, 1, &out), LOCO_ERR_ARG);
    CHECK_EQ(loco_region_read64(region, -1, 0, &out), LOCO_ERR_ARG);
    CHECK_OK(loco_region_write(region, 1 - rank, 64, bytes, 0));
    CHECK_OK(loco_region_write64(region, 1 - rank, 56, value));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_region_read64(region, rank, 56, &out));
    CHECK_EQ(out, 7);
    for (int i = 0; i < 56; i++)
        CHECK_EQ(((unsigned char *)loco_region_local(region))[i], 0);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(region);
    return 0;
}

Test(region, outside_is_an_error_and_moves_nothing)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, bounds_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, bounds_body, NULL), 0);
}

static int sizes_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_region_t *region, *second;

    (void)arg;
    CHECK_OK(loco_region_create(rt, NULL, "s", loco_everyone(rt), rank == 0 ? 64 : 128, &region));
    CHECK_EQ(loco_region_create(rt, NULL, "s", loco_everyone(rt), 64, &second), LOCO_ERR_NAME);
    CHECK_EQ(loco_runtime_wait_ready(rt, FOREVER), LOCO_ERR_MISMATCH);
    loco_region_destroy(region);
    CHECK_OK(run_meet(rt));
    return 0;
}

Test(region, one_name_and_two_sizes_is_an_error)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, sizes_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, sizes_body, NULL), 0);
}

/* Rank 1 makes the region when rank 0 has tried it; `arg` counts who has tried. */
static int early_body(loco_runtime_t *rt, int rank, void *arg)
{
    _Atomic int *tried = arg;
    loco_region_t *region;
    uint64_t word = 1;

    if (rank == 1)
        CHECK_OK(run_await(tried, 1));
    CHECK_OK(loco_region_create(rt, NULL, "e", loco_everyone(rt), 64, &region));
    if (rank == 0) {
        CHECK_EQ(loco_region_write(region, 1, 0, &word, sizeof word), LOCO_ERR_STATE);
        CHECK_EQ(loco_region_read64(region, 1, 0, &word), LOCO_ERR_STATE);
        CHECK_EQ(loco_region_fetch_add(region, 1, 0, 1, &word), LOCO_ERR_STATE);
        atomic_fetch_add(tried, 1);
    }
    CHECK_OK(loco_runtime_wait_ready(rt, FOREVER));
    CHECK_OK(loco_region_write(region, 1 - rank, 0, &word, sizeof word));
    CHECK_OK(run_meet(rt));
    loco_region_destroy(region);
    return 0;
}

Test(region, before_others_have_it_is_an_error)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, early_body, run_counter()), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, early_body, run_counter()), 0);
}

/* ---- what a thread that has gone left behind ---- */

/* As many writes as the lane takes, none of which is told: it does not look, and goes. */
static int fill_the_lane(void *arg, int thread)
{
    struct adders *a = arg;
    loco_ack_t ack = LOCO_ACK_INIT;

    (void)thread;
    for (uint64_t i = 0; i < WEAK_LANE_ROOM; i++)
        CHECK_OK(loco_region_write64_ack(a->region, 1, 8 * i, i + 1, &ack));
    return 0;
}

static int left_full_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct adders a = { .rt = rt, .rank = rank };

    (void)arg;
    CHECK_OK(open_region(rt, 8 * WEAK_LANE_ROOM, &a.region));
    if (rank == 0) {
        /* Now this thread has lanes of its own: it does not take over those that are left. */
        CHECK_OK(loco_region_fetch_add(a.region, 1, 0, 0, NULL));
        weak_hold(rt, 1, true);
        CHECK_OK(run_threads(1, fill_the_lane, &a));
        weak_hold(rt, 1, false);
        CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, 1));
    }
    CHECK_OK(run_meet(rt));
    for (uint64_t i = 0; i < WEAK_LANE_ROOM && rank == 1; i++)
        CHECK_EQ(((uint64_t *)loco_region_local(a.region))[i], i + 1);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(a.region);
    return 0;
}

Test(region, a_fence_polls_what_a_gone_thread_left_full, .timeout = 20)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, left_full_body, NULL), 0);
}

/* ---- blocks ---- */

#define BLOCKS_LEN 60000        /* bytes of a part, of which each process has its own share */

struct blocks {
    loco_runtime_t *rt;
    loco_region_t *region;
    uint64_t seed;
    size_t share, first;        /* where this process writes: bytes [first, first + share) */
    int rank, at;
    unsigned char model[BLOCKS_LEN], local[BLOCKS_LEN], want[BLOCKS_LEN];
};

static size_t some(struct blocks *b, size_t most)
{
    return (size_t)(run_random(&b->seed) % most) + 1;
}

/* Blocks that fit into `room` bytes; *first is where the first of them begins. Those of
 * local memory, of BLOCKS_LEN bytes, begin at *local_first. Neither overlap. */
static loco_blocks_t draw_blocks(struct blocks *b, size_t room, size_t *first, size_t *local_first)
{
    size_t len = some(b, run_random(&b->seed) % 4 == 0 ? 1500 : 16), most = room / len;
    size_t count = some(b, most < 600 ? most : 600), widest, stride, local_stride;
    loco_blocks_t made;

    widest = count > 1 ? (room - len) / (count - 1) : room;
    stride = run_random(&b->seed) % 3 == 0 ? len : len + (size_t)(run_random(&b->seed)
                                                                  % (widest - len + 1));
    widest = count > 1 ? (BLOCKS_LEN - len) / (count - 1) : BLOCKS_LEN;
    local_stride = run_random(&b->seed) % 3 == 0 ? len : len + (size_t)(run_random(&b->seed)
                                                                        % (widest - len + 1));
    made = (loco_blocks_t){ count, len, (int64_t)stride, (int64_t)local_stride };
    *first = *local_first = 0;
    if (run_random(&b->seed) % 4 == 0) {
        *first = (count - 1) * stride;
        made.stride = -made.stride;
    }
    if (run_random(&b->seed) % 4 == 0) {
        *local_first = (count - 1) * local_stride;
        made.local_stride = -made.local_stride;
    }
    return made;
}

/* What the call is to do, in plain loops. */
static void model_blocks(unsigned char *to, int64_t to_stride, const unsigned char *from,
                         int64_t from_stride, const loco_blocks_t *blocks)
{
    for (size_t i = 0; i < blocks->count; i++)
        memcpy(to + (int64_t)i * to_stride, from + (int64_t)i * from_stride, blocks->len);
}

static int write_some(struct blocks *b)
{
    size_t first, local_first;
    loco_blocks_t blocks = draw_blocks(b, b->share, &first, &local_first);
    loco_ack_t ack = LOCO_ACK_INIT;

    for (size_t i = 0; i < sizeof b->local; i++)
        b->local[i] = (unsigned char)run_random(&b->seed);
    model_blocks(b->model + b->first + first, blocks.stride, b->local + local_first,
                 blocks.local_stride, &blocks);
    if (run_random(&b->seed) % 2 == 0) {
        CHECK_OK(loco_region_write_blocks(b->region, b->at, b->first + first,
                                          b->local + local_first, &blocks));
    } else {
        CHECK_OK(loco_region_write_blocks_ack(b->region, b->at, b->first + first,
                                              b->local + local_first, &blocks, &ack));
        memset(&blocks, 0xff, sizeof blocks);       /* was taken at once */
        CHECK_OK(loco_ack_wait(b->rt, &ack));
    }
    memset(b->local, 0xff, sizeof b->local);        /* the source is this process's again */
    /* Nothing beside the blocks has changed. */
    CHECK_OK(loco_region_read(b->region, b->at, b->first, b->local, b->share));
    CHECK_EQ(memcmp(b->local, b->model + b->first, b->share), 0);
    return 0;
}

static int read_some(struct blocks *b)
{
    size_t first, local_first;
    loco_blocks_t blocks = draw_blocks(b, b->share, &first, &local_first);
    loco_ack_t ack = LOCO_ACK_INIT;

    memset(b->local, 0x5a, sizeof b->local);
    memset(b->want, 0x5a, sizeof b->want);
    model_blocks(b->want + local_first, blocks.local_stride, b->model + b->first + first,
                 blocks.stride, &blocks);
    if (run_random(&b->seed) % 2 == 0)
        CHECK_OK(loco_region_read_blocks(b->region, b->at, b->first + first,
                                         b->local + local_first, &blocks));
    else
        CHECK_OK(loco_region_read_blocks_ack(b->region, b->at, b->first + first,
                                             b->local + local_first, &blocks, &ack));
    CHECK_OK(loco_ack_wait(b->rt, &ack));
    CHECK_EQ(memcmp(b->local, b->want, sizeof b->want), 0);
    return 0;
}

static int blocks_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    struct blocks *b = calloc(1, sizeof *b);

    (void)arg;
    CHECK(b != NULL);
    b->rt = rt;
    b->rank = rank;
    b->at = (rank + 1) % n;
    b->share = BLOCKS_LEN / (size_t)n;
    b->first = b->share * (size_t)rank;
    b->seed = 77 + (uint64_t)rank;
    CHECK_OK(open_region(rt, BLOCKS_LEN, &b->region));
    for (int i = 0; i < run_rounds(60); i++) {
        CHECK_EQ(write_some(b), 0);
        CHECK_EQ(read_some(b), 0);
    }
    CHECK_OK(run_meet(rt));
    loco_region_destroy(b->region);
    free(b);
    return 0;
}

Test(region, blocks_go_where_their_strides_say)
{
    for (uint64_t seed = 1; seed < 4; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, blocks_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, blocks_body, NULL), 0);
}

static int blocks_bounds_body(loco_runtime_t *rt, int rank, void *arg)
{
    static const struct {
        uint64_t offset;
        loco_blocks_t blocks;
        int status;
    } cases[] = {
        { 0, { 4, 16, 16, 16 }, LOCO_OK },
        { 0, { 4, 16, 16, 0 }, LOCO_OK },
        { 0, { 4, 16, 17, 16 }, LOCO_ERR_RANGE },
        { 48, { 4, 16, -16, 16 }, LOCO_OK },
        { 47, { 4, 16, -16, 16 }, LOCO_ERR_RANGE },
        { 49, { 4, 16, -16, 16 }, LOCO_ERR_RANGE },
        { 0, { 0, 16, 1000, 1000 }, LOCO_OK },
        { 0, { 1000, 0, 1000, 1000 }, LOCO_OK },
        { 65, { 0, 1, 1, 1 }, LOCO_ERR_RANGE },
        { 0, { SIZE_MAX, 8, 8, 0 }, LOCO_ERR_RANGE },
        { 0, { 3, 8, INT64_MAX, 0 }, LOCO_ERR_RANGE },
        { 0, { 2, SIZE_MAX, 8, 0 }, LOCO_ERR_RANGE },
        { 0, { 2, 8, INT64_MIN, 0 }, LOCO_ERR_RANGE },
    };
    unsigned char bytes[80] = { 0 };
    loco_region_t *region;

    (void)arg;
    CHECK_OK(open_region(rt, 64, &region));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ(loco_region_write_blocks(region, 1 - rank, cases[i].offset, bytes,
                                          &cases[i].blocks), cases[i].status);
        CHECK_EQ(loco_region_read_blocks(region, 1 - rank, cases[i].offset, bytes,
                                         &cases[i].blocks), cases[i].status);
    }
    CHECK_EQ(loco_region_read_blocks(region, 2, 0, bytes, &cases[0].blocks), LOCO_ERR_ARG);
    CHECK_OK(run_meet(rt));
    loco_region_destroy(region);
    return 0;
}

Test(region, blocks_outside_are_an_error)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, blocks_bounds_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, blocks_bounds_body, NULL), 0);
}
