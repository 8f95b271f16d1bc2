/* SPDX-License-Identifier: BSD-3-Clause */

/* Dynamic windows: attached regions, those that are not any more, tables that grow. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "window/window.h"


static int tell(struct member *m, const void *mine, size_t len, void *all)
{
    return m->exchange.allgather(m->exchange.ctx, mine, len, all);
}

static uint64_t address(const void *p)
{
    return (uintptr_t)p;
}

/* ---- attach and detach ---- */

static int regions_body(struct member *m)
{
    unsigned char *block = calloc(1, 4096);
    uint64_t at, all[8], x = 77, y = 0;
    int target = (m->rank + 1) % m->n;
    loco_window_t *win;

    CHECK(block != NULL);
    at = address(block);
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK(loco_window_base(win) == NULL);
    CHECK_OK(loco_window_attach(win, block + 1024, 1024));
    CHECK_EQ(loco_window_attach(win, block + 1024, 1), LOCO_ERR_ATTACH);
    CHECK_EQ(loco_window_attach(win, block, 1025), LOCO_ERR_ATTACH);
    CHECK_EQ(loco_window_attach(win, block + 2047, 1), LOCO_ERR_ATTACH);
    CHECK_EQ(loco_window_attach(win, NULL, 1), LOCO_ERR_ARG);
    CHECK_EQ(loco_window_detach(win, block), LOCO_ERR_ATTACH);
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_lock_all(win, 0));
    CHECK_EQ(member_put(win, target, all[target] + 1016, &x, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, all[target] + 1020, &x, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, all[target] + 2044, &x, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, 0, &x, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_get(win, target, UINT64_MAX, &y, 8), LOCO_ERR_RANGE);
    CHECK_OK(member_put(win, target, all[target] + 2040, &x, 8));
    CHECK_OK(loco_window_flush(win, target));
    CHECK_OK(tell(m, &at, 8, all));
    memcpy(&y, block + 2040, 8);
    CHECK_EQ(y, 77);
    CHECK_EQ(block[1023], 0);

    /* A second region that adjoins: a run may cross from one to the other. */
    CHECK_OK(loco_window_attach(win, block + 2048, 1024));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(member_put(win, target, all[target] + 2044, &x, 8));
    CHECK_OK(member_accumulate(win, target, LOCO_TYPE_U64, LOCO_OP_SUM, all[target] + 2044, &x,
                               &y, 1));
    CHECK_EQ(y, 77);
    CHECK_OK(loco_window_flush(win, target));
    CHECK_OK(tell(m, &at, 8, all));
    memcpy(&y, block + 2044, 8);
    CHECK_EQ(y, 154);

    /* Detached: refused as soon as the call has returned. */
    CHECK_OK(loco_window_detach(win, block + 1024));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_EQ(member_put(win, target, all[target] + 1024, &x, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, all[target] + 2044, &x, 8), LOCO_ERR_RANGE);
    CHECK_OK(member_get(win, target, all[target] + 2048, &y, 4));
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_attach(win, block, 2048));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    free(block);
    return 0;
}

Test(window_dynamic, what_is_attached_is_reached_and_nothing_else)
{
    for (int n = 1; n <= 4; n *= 2) {
        cr_assert_eq(member_run(RUN_SHM, n, regions_body, NULL, NULL), 0);
        cr_assert_eq(member_run(RUN_WEAK, n, regions_body, NULL, NULL), 0);
    }
}

/* Vectors over the place where two regions adjoin, in the middle of an element: all add to and
 * multiply the same ones, the owner too. */
static int across_body(struct member *m)
{
    enum { WORDS = 150, ROUNDS = 10, FIRST = 8 * 75 + 3 };
    uint64_t *words = calloc(WORDS, 8), one[WORDS], minus[WORDS], all[4], at = address(words);
    loco_window_t *win;

    CHECK(words != NULL);
    for (int i = 0; i < WORDS; i++)
        one[i] = 1, minus[i] = UINT64_MAX;
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(loco_window_attach(win, words, FIRST));
    CHECK_OK(loco_window_attach(win, (unsigned char *)words + FIRST, 8 * WORDS - FIRST));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, all[0], one, NULL, 75));
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, all[0] + 8 * 75, one, NULL,
                                   WORDS - 75));
    }
    CHECK_OK(loco_window_flush_all(win));
    CHECK_OK(tell(m, &at, 8, all));
    for (int i = 0; m->rank == 0 && i < WORDS; i++)
        CHECK_EQ(words[i], ROUNDS * m->n);
    CHECK_OK(tell(m, &at, 8, all));
    for (int i = 0; i < 2 * ROUNDS + 1; i++)
        CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_I64, LOCO_OP_PROD, all[0], minus, NULL,
                                   WORDS));
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    for (int i = 0; m->rank == 0 && i < WORDS; i++)
        CHECK_EQ(words[i], (m->n % 2 == 0 ? 1 : -1) * ROUNDS * m->n);
    CHECK_OK(loco_window_destroy(win));
    free(words);
    return 0;
}

Test(window_dynamic, vectors_across_regions_lose_nothing, .timeout = RUN_SECONDS)
{
    for (int n = 1; n <= 3; n++) {
        cr_assert_eq(member_run(RUN_SHM, n, across_body, NULL, NULL), 0);
        cr_assert_eq(member_run(RUN_WEAK, n, across_body, NULL, NULL), 0);
    }
}

/* Regions come and go in random order, thousands of them; each holds a number that its neighbour
 * adds to. */
static int many_body(struct member *m)
{
    enum { MANY = 3000 };
    int many = *(int *)m->arg, target = (m->rank + 1) % m->n;
    uint64_t *cells = calloc(MANY * 2, 8), at = address(cells), all[4], one = 1;
    bool *attached = calloc(MANY, sizeof *attached);
    loco_window_t *win;

    CHECK(cells != NULL && attached != NULL && many <= MANY);
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(tell(m, &at, 8, all));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < many; i++) {
            int k = (i * 7919 + m->rank) % many;

            /* After the round, the cells whose number has that bit are attached. */
            bool want = round == 3 || (k >> round) % 2 == 0;

            if (want && !attached[k])
                CHECK_OK(loco_window_attach(win, &cells[2 * k], 8));
            if (!want && attached[k])
                CHECK_OK(loco_window_detach(win, &cells[2 * k]));
            attached[k] = want;
        }
        CHECK_OK(loco_window_fence(win, 0));
        CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0));
        for (int k = 0; k < many; k += 13) {
            bool there = round == 3 || (k >> round) % 2 == 0;

            CHECK_EQ(member_accumulate(win, target, LOCO_TYPE_U64, LOCO_OP_SUM,
                                       all[target] + 16 * (uint64_t)k, &one, NULL, 1),
                     there ? LOCO_OK : LOCO_ERR_RANGE);
        }
        CHECK_OK(loco_window_unlock(win, target));
        CHECK_OK(loco_window_fence(win, 0));
    }
    for (int k = 0; k < many; k++) {
        int want = 1;

        for (int round = 0; round < 3; round++)
            want += (k >> round) % 2 == 0;
        CHECK_EQ(cells[2 * k], k % 13 == 0 ? want : 0);
        CHECK_EQ(cells[2 * k + 1], 0);
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    free(cells);
    free(attached);
    return 0;
}

Test(window_dynamic, thousands_of_regions, .timeout = RUN_SECONDS)
{
    int many = 3000;

    cr_assert_eq(member_run(RUN_SHM, 2, many_body, &many, NULL), 0);
    many = 200;
    cr_assert_eq(member_run(RUN_WEAK, 3, many_body, &many, NULL), 0);
}

/* Regions of 1 to 40 cells, more and more of them, then fewer and fewer down to none, twice: what
 * is attached, where others were, is reached, and no cell beside. */
enum { CELLS = 6000, LONGEST = 40 };

struct shapes {
    uint64_t *cell;
    unsigned char *is;              /* by cell: attached */
    int *len;                       /* by first cell of a region: its cells */
    unsigned char *there;           /* what is attached at the next member */
};

static int change_shape(struct member *m, loco_window_t *win, struct shapes *s, int growth)
{
    int k = rand_r(&m->seed) % CELLS, len = 1 + rand_r(&m->seed) % LONGEST, n = 0;
    bool attach = rand_r(&m->seed) % 100 < growth;

    while (!attach && k > 0 && s->is[k] && s->len[k] == 0)
        k--;
    if (!attach && s->len[k] > 0) {
        CHECK_OK(loco_window_detach(win, &s->cell[k]));
        memset(&s->is[k], 0, (size_t)s->len[k]);
        s->len[k] = 0;
        return 0;
    }
    while (n < len && k + n < CELLS && !s->is[k + n])
        n++;
    if (n > 0 && n < len)
        CHECK_EQ(loco_window_attach(win, &s->cell[k], 8 * (size_t)(n + 1)),
                 k + n < CELLS ? LOCO_ERR_ATTACH : LOCO_OK);
    if (n > 0 && n < len && k + n == CELLS)
        CHECK_OK(loco_window_detach(win, &s->cell[k]));
    if (!attach || n == 0)
        return 0;
    CHECK_OK(loco_window_attach(win, &s->cell[k], 8 * (size_t)n));
    memset(&s->is[k], 1, (size_t)n);
    s->len[k] = n;
    return 0;
}

static int look_at_shapes(struct member *m, loco_window_t *win, struct shapes *s, uint64_t there)
{
    enum { PIECE = 500 };
    unsigned char all[4 * PIECE];
    uint64_t got;

    for (int k = 0; k < CELLS; k += PIECE) {
        CHECK_OK(tell(m, s->is + k, PIECE, all));
        memcpy(s->there + k, all + (m->rank + 1) % m->n * PIECE, PIECE);
    }
    for (int k = 0; k < CELLS; k++) {
        got = 0;
        CHECK_EQ(member_get(win, (m->rank + 1) % m->n, there + 8 * (uint64_t)k, &got, 8),
                 s->there[k] ? LOCO_OK : LOCO_ERR_RANGE);
        CHECK_EQ(got, s->there[k] ? k + 1 : 0);
    }
    CHECK_OK(tell(m, s->is, PIECE, all));
    return 0;
}

static int shapes_body(struct member *m)
{
    static const int growth[] = { 95, 50, 80, 20, 2, 90, 2 };
    struct shapes s = { calloc(CELLS + 1, 8), calloc(CELLS, 1), calloc(CELLS, sizeof(int)),
                        calloc(CELLS, 1) };
    uint64_t at = address(s.cell), all[4];
    loco_window_t *win;

    CHECK(s.cell != NULL && s.is != NULL && s.len != NULL && s.there != NULL && m->n <= 4);
    for (int k = 0; k < CELLS; k++)
        s.cell[k] = (uint64_t)k + 1;
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (size_t phase = 0; phase < sizeof growth / sizeof growth[0]; phase++)
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < *(int *)m->arg; i++)
                CHECK(change_shape(m, win, &s, growth[phase]) == 0);
            CHECK(look_at_shapes(m, win, &s, all[(m->rank + 1) % m->n]) == 0);
        }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    free(s.cell);
    free(s.is);
    free(s.len);
    free(s.there);
    return 0;
}

Test(window_dynamic, regions_of_many_shapes, .timeout = RUN_SECONDS)
{
    int changes = run_rounds(8000);

    cr_assert_eq(member_run(RUN_SHM, 2, shapes_body, &changes, NULL), 0);
    changes = run_rounds(3000);
    cr_assert_eq(member_run(RUN_WEAK, 2, shapes_body, &changes, NULL), 0);
}

/* Without memory for one more an attach is an error, and all others are what they were. */
static int memory_body(struct member *m)
{
    enum { MANY = 400000, STRIDE = 2 };
    int target = (m->rank + 1) % m->n, n = 0, status = LOCO_OK;
    uint64_t *cells = calloc(MANY * STRIDE, 8), at = address(cells), all[2], got = 1;
    loco_window_t *win;

    CHECK(cells != NULL);
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    while (n < MANY && status == LOCO_OK)
        status = loco_window_attach(win, &cells[STRIDE * n++], 8);
    CHECK_EQ(status, LOCO_ERR_NO_MEMORY);
    n--;
    CHECK(n > 50000);
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_lock_all(win, 0));
    for (int k = 0; k < n; k += n / 1000) {
        CHECK_OK(member_get(win, target, all[target] + 8 * STRIDE * (uint64_t)k, &got, 8));
        CHECK_EQ(got, 0);
    }
    CHECK_EQ(member_get(win, target, all[target] + 8 * STRIDE * (uint64_t)n, &got, 8),
             LOCO_ERR_RANGE);
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(tell(m, &at, 8, all));
    for (int k = 0; k < n; k++)
        CHECK_OK(loco_window_detach(win, &cells[STRIDE * k]));
    for (int k = n - 1; k >= 0; k--)
        CHECK_OK(loco_window_attach(win, &cells[STRIDE * k], 8));
    CHECK_OK(loco_window_destroy(win));
    free(cells);
    return 0;
}

Test(window_dynamic, attaching_until_memory_ends, .timeout = RUN_SECONDS)
{
    setenv("LOCO_MEM_LIMIT", "16M", 1);
    cr_assert_eq(member_run(RUN_SHM, 2, memory_body, NULL, NULL), 0);
}

/* One member attaches and detaches all the time beside a region that stays; the others use that
 * one: they never see it gone, whatever the table is doing. */
static int busy_table_body(struct member *m)
{
    uint64_t *cells = calloc(200, 8), at = address(cells), all[4], seen, one = 1;
    int64_t end;
    loco_window_t *win;

    CHECK(cells != NULL);
    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(loco_window_attach(win, &cells[100], 8));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_lock_all(win, 0));
    end = run_now() + 300000000;
    for (int i = 0; run_now() < end; i++) {
        if (m->rank == 0) {
            int k = i % 80;

            CHECK_OK(loco_window_attach(win, &cells[k], 8));
            CHECK_OK(loco_window_attach(win, &cells[101 + k], 8));
            CHECK_OK(loco_window_detach(win, &cells[k]));
            CHECK_OK(loco_window_detach(win, &cells[101 + k]));
        } else {
            CHECK_OK(member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, all[0] + 800, &one,
                                       &seen, 1));
            CHECK_OK(member_get(win, 0, all[0] + 800, &seen, 8));
            CHECK(seen >= (uint64_t)(i + 1));
        }
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    free(cells);
    return 0;
}

Test(window_dynamic, a_table_that_changes_under_use, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 3, busy_table_body, NULL, NULL), 0);
    cr_assert_eq(member_run(RUN_WEAK, 3, busy_table_body, NULL, NULL), 0);
}

static int dead_owner_body(struct member *m)
{
    uint64_t cell = 0, at = address(&cell), all[2];
    int64_t begin;
    loco_window_t *win;
    int status;

    CHECK_OK(member_window(m, LOCO_WINDOW_DYNAMIC, NULL, 0, &win));
    CHECK_OK(loco_window_attach(win, &cell, 8));
    CHECK_OK(tell(m, &at, 8, all));
    CHECK_OK(loco_window_lock_all(win, 0));
    atomic_fetch_add((_Atomic int *)m->arg, 1);
    if (m->rank == 1) {
        CHECK_OK(run_await(m->arg, 2));
        _exit(99);
    }
    begin = run_now();
    while (member_put(win, 1, all[1], &cell, 8) == LOCO_OK)
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
    CHECK_EQ(member_put(win, 1, all[1], &cell, 8), LOCO_ERR_PEER_DEAD);
    CHECK_EQ(member_get(win, 1, all[1], &cell, 8), LOCO_ERR_PEER_DEAD);
    CHECK_OK(member_put(win, 0, all[0], &at, 8));
    status = loco_window_unlock_all(win);
    /* Through a device some of what was put may not have arrived. */
    CHECK(status == LOCO_OK || (status == LOCO_ERR_PEER_DEAD && !m->rt->ops->synchronous));
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_PEER_DEAD);
    return 0;
}

Test(window_dynamic, memory_of_the_dead)
{
    int statuses[2];

    member_run(RUN_SHM, 2, dead_owner_body, run_counter(), statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 99);
}
