/* SPDX-License-Identifier: BSD-3-Clause */

/* Active target: fence with its asserts, post/start/complete/wait with changing groups. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "window/window.h"


/* ---- fence ---- */

/* Each round everybody puts the round's number into everybody's part: after the fence all of it
 * is there, and nothing of the next round. */
static int rounds_body(struct member *m)
{
    static const int asserts[] = {
        0, LOCO_ASSERT_NOSTORE, LOCO_ASSERT_NOPUT, LOCO_ASSERT_NOSTORE | LOCO_ASSERT_NOPUT,
    };
    int rounds = *(int *)m->arg;
    uint64_t *base;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8 * (size_t)m->n, &win));
    base = loco_window_base(win);
    CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOPRECEDE));
    for (int round = 1; round <= rounds; round++) {
        uint64_t value = (uint64_t)round;

        for (int r = 0; r < m->n; r++)
            CHECK_OK(member_put(win, r, 8 * (uint64_t)m->rank, &value, 8));
        CHECK_OK(loco_window_fence(win, asserts[round % 4] & ~LOCO_ASSERT_NOPUT));
        for (int r = 0; r < m->n; r++)
            CHECK_EQ(base[r], round);
        CHECK_OK(loco_window_fence(win, asserts[round % 4]));
    }
    CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOSUCCEED));
    CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOPRECEDE | LOCO_ASSERT_NOSUCCEED));
    CHECK_EQ(member_put(win, 0, 0, base, 8), LOCO_ERR_STATE);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_active, fence_ends_what_was_put, .timeout = RUN_SECONDS)
{
    int rounds = 200;

    for (int n = 1; n <= 8; n *= 2) {
        cr_assert_eq(member_run(RUN_SHM, n, rounds_body, &rounds, NULL), 0);
        cr_assert_eq(member_run(RUN_WEAK, n, rounds_body, &rounds, NULL), 0);
    }
}

/* So many members that the barrier is by dissemination. */
Test(window_active, fence_of_many, .timeout = RUN_SECONDS)
{
    int rounds = 20;

    for (int n = LOCI_WINDOW_FLAT; n <= LOCI_WINDOW_FLAT + 5; n++)
        cr_assert_eq(member_run(RUN_SHM, n, rounds_body, &rounds, NULL), 0, "%d members", n);
}

/* ---- post, start, complete, wait ---- */

/* Who accesses whom in a round, known to all: a random graph, some members idle, some without
 * origins or targets. */
static bool edge(unsigned round, int origin, int target)
{
    unsigned seed = round * 7919u + (unsigned)origin * 104729u + (unsigned)target * 1299709u;

    return (rand_r(&seed) >> 8) % 3 == 0;
}

static int graph_body(struct member *m)
{
    enum { ROUNDS = 200 };
    int origins[16], targets[16], n_origins, n_targets;
    uint64_t *base, *memory = calloc((size_t)m->n, 8);
    loco_window_t *win;

    CHECK_OK(member_window(m, *(enum loco_window_kind *)m->arg, memory, 8 * (size_t)m->n, &win));
    base = loco_window_base(win);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        uint64_t value = round;
        bool done = false;

        n_origins = n_targets = 0;
        for (int r = m->n - 1; r >= 0; r--) {
            if (edge(round, r, m->rank))
                origins[n_origins++] = r;
            if (edge(round, m->rank, r))
                targets[n_targets++] = r;
        }
        memset(base, 0, 8 * (size_t)m->n);
        if (n_origins > 0 || round % 2 == 0)
            CHECK_OK(loco_window_post(win, n_origins, origins, 0));
        if (n_targets > 0 || round % 3 == 0) {
            CHECK_OK(loco_window_start(win, n_targets, targets, 0));
            for (int i = 0; i < n_targets; i++)
                CHECK_OK(member_put(win, targets[i], 8 * (uint64_t)m->rank, &value, 8));
            CHECK_OK(loco_window_complete(win));
        }
        if (n_origins == 0 && round % 2 != 0)
            continue;
        if (round % 5 == 0)
            while (!done)
                CHECK_OK(loco_window_test(win, &done));
        else
            CHECK_OK(loco_window_wait(win));
        for (int r = 0; r < m->n; r++)
            CHECK_EQ(base[r], edge(round, r, m->rank) ? round : 0);
    }
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_active, groups_that_change_every_time, .timeout = RUN_SECONDS)
{
    enum loco_window_kind kinds[] = { LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_CREATE };

    for (int k = 0; k < 2; k++) {
        for (int n = 1; n <= 8; n *= 2) {
            cr_assert_eq(member_run(RUN_SHM, n, graph_body, &kinds[k], NULL), 0);
            cr_assert_eq(member_run(RUN_WEAK, n, graph_body, &kinds[k], NULL), 0);
        }
    }
}

static int meet(struct member *m)
{
    char mine = 0, all[2];

    return m->exchange.allgather(m->exchange.ctx, &mine, 1, all);
}

/* A start that needs no check counts all the same. */
static int nocheck_body(struct member *m)
{
    int other = 1 - m->rank;
    uint64_t value = 7;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win));
    for (int i = 0; i < 50; i++) {
        int asserts = i % 2 == 0 ? LOCO_ASSERT_NOCHECK : 0;

        if (m->rank == 0) {
            CHECK_OK(loco_window_post(win, 1, &other, asserts));
            CHECK_OK(meet(m));
            CHECK_OK(loco_window_wait(win));
            CHECK_EQ(*(uint64_t *)loco_window_base(win), 7 + i);
        } else {
            CHECK_OK(meet(m));
            CHECK_OK(loco_window_start(win, 1, &other, asserts));
            CHECK_OK(member_put(win, other, 0, &value, 8));
            CHECK_OK(loco_window_complete(win));
            value++;
        }
    }
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window_active, nocheck)
{
    cr_assert_eq(member_run(RUN_SHM, 2, nocheck_body, NULL, NULL), 0);
}

/* ---- deaths ---- */

/* Rank 0's start waits for the dead one, too; so what rank 1 has posted for that is no post of the
 * epoch after it. */
static int late_post(struct member *m, loco_window_t *win, const int others[2])
{
    const unsigned char *control = loci_mem_ptr(&win->own_control);
    int first = 0, second = 1;

    if (m->rank == first) {
        CHECK_EQ(loco_window_start(win, 2, others, 0), LOCO_ERR_PEER_DEAD);
        while (loci_load64(control + loci_window_posted(second)) == 0)
            usleep(1000);
        CHECK_EQ(loco_window_start(win, 1, &second, 0), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_window_post(win, 1, &second, 0), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_window_wait(win), LOCO_ERR_STATE);
    } else {
        CHECK_OK(loco_window_post(win, 1, &first, 0));
        CHECK_EQ(loco_window_wait(win), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_window_post(win, 1, &first, 0), LOCO_ERR_PEER_DEAD);
    }
    return 0;
}

static int death_body(struct member *m)
{
    int others[2] = { (m->rank + 1) % 3, (m->rank + 2) % 3 }, dead = 2;
    enum { FENCE, START, WAIT, TEST, LATE } what = *(int *)m->arg;
    int64_t begin = run_now();
    loco_window_t *win;
    bool done;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 64, &win));
    CHECK_OK(loco_window_fence(win, 0));
    if (m->rank == dead)
        _exit(99);
    switch (what) {
    case FENCE:
        CHECK_EQ(loco_window_fence(win, 0), LOCO_ERR_PEER_DEAD);
        break;
    case START:
        CHECK_EQ(loco_window_start(win, 1, &dead, 0), LOCO_ERR_PEER_DEAD);
        break;
    case WAIT:
        CHECK_OK(loco_window_post(win, 2, others, 0));
        CHECK_EQ(loco_window_wait(win), LOCO_ERR_PEER_DEAD);
        break;
    case TEST:
        CHECK_OK(loco_window_post(win, 1, &dead, 0));
        while (loco_window_test(win, &done) == LOCO_OK)
            CHECK(!done);
        break;
    case LATE:
        CHECK_OK(late_post(m, win, others));
        break;
    }
    CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    return 0;
}

/* By dissemination, too, where nobody sees who is missing. */
static int death_of_many_body(struct member *m)
{
    int64_t begin;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 64, &win));
    CHECK_OK(loco_window_fence(win, 0));
    if (m->rank == 5)
        _exit(99);
    begin = run_now();
    CHECK_EQ(loco_window_fence(win, 0), LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    return 0;
}

Test(window_active, so_is_everybody_of_many, .timeout = RUN_SECONDS)
{
    int statuses[LOCI_WINDOW_FLAT + 2];

    member_run(RUN_SHM, LOCI_WINDOW_FLAT + 2, death_of_many_body, NULL, statuses);
    for (int i = 0; i < LOCI_WINDOW_FLAT + 2; i++)
        cr_assert_eq(statuses[i], i == 5 ? 99 : 0);
}

Test(window_active, who_waits_for_the_dead_is_told, .timeout = RUN_SECONDS)
{
    for (int what = 0; what < 5; what++) {
        int statuses[3];

        member_run(RUN_SHM, 3, death_body, &what, statuses);
        cr_assert(statuses[0] == 0 && statuses[1] == 0 && statuses[2] == 99, "case %d", what);
    }
}
