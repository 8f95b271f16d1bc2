/* SPDX-License-Identifier: BSD-3-Clause */

/* Windows: making them, what they say of themselves, put and get, wrong use. Over shared memory,
 * and over a fabric that maps nothing and orders little. */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "member.h"
#include "window/window.h"

/* ---- kinds ---- */

static unsigned char pattern(int rank, size_t i)
{
    return (unsigned char)(rank * 31 + (int)(i % 251) + 1);
}

/* Everybody puts a piece into everybody's part, then all is read back, own part by loads. */
static int exchange_pieces(struct member *m, loco_window_t *win, size_t piece)
{
    unsigned char *mine = malloc(piece), *got = malloc(piece);

    CHECK(mine != NULL && got != NULL);
    for (size_t i = 0; i < piece; i++)
        mine[i] = pattern(m->rank, i);
    CHECK_OK(loco_window_fence(win, 0));
    for (int r = 0; r < m->n; r++)
        CHECK_OK(member_put(win, r, piece * (size_t)m->rank, mine, piece));
    CHECK_OK(loco_window_fence(win, 0));
    for (int r = 0; r < m->n; r++) {
        const unsigned char *base = loco_window_base(win);

        for (size_t i = 0; i < piece; i++)
            CHECK_EQ(base[piece * (size_t)r + i], pattern(r, i));
        for (int of = 0; of < m->n; of++) {
            memset(got, 0, piece);
            CHECK_OK(member_get(win, r, piece * (size_t)of, got, piece));
            for (size_t i = 0; i < piece; i++)
                CHECK_EQ(got[i], pattern(of, i));
        }
    }
    CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOSUCCEED));
    free(mine);
    free(got);
    return 0;
}

static int kinds_body(struct member *m)
{
    const size_t pieces[] = { 1, 8, 4096, 100000 };
    enum loco_window_kind kind = *(enum loco_window_kind *)m->arg;
    const void *base;

    for (size_t k = 0; k < 4; k++) {
        size_t size = pieces[k] * (size_t)m->n;
        void *memory = kind == LOCO_WINDOW_CREATE ? calloc(1, size) : NULL;
        loco_window_t *win;

        CHECK_OK(member_window(m, kind, memory, size, &win));
        base = loco_window_base(win);
        CHECK(base != NULL && (memory == NULL || base == memory));
        CHECK(kind == LOCO_WINDOW_CREATE || (uintptr_t)base % 8 == 0 || pieces[k] == 1);
        CHECK_EQ(exchange_pieces(m, win, pieces[k]), 0);
        CHECK_OK(loco_window_destroy(win));
        free(memory);
    }
    return 0;
}

Test(window, allocate)
{
    enum loco_window_kind kind = LOCO_WINDOW_ALLOCATE;

    for (int n = 1; n <= 8; n *= 2)
        ON_EACH_FABRIC(n, kinds_body, &kind);
}

Test(window, create)
{
    enum loco_window_kind kind = LOCO_WINDOW_CREATE;

    for (int n = 1; n <= 8; n *= 2)
        ON_EACH_FABRIC(n, kinds_body, &kind);
}

Test(window, shared)
{
    enum loco_window_kind kind = LOCO_WINDOW_SHARED;

    if (!run_shares())
        cr_skip_test("no memory is shared here");
    for (int n = 1; n <= 8; n *= 2)
        cr_assert_eq(member_run(RUN_SHM, n, kinds_body, &kind, NULL), 0);
}

/* What is copied in several pieces. What is too long for that is in the MPI test `huge`. */
static int long_body(struct member *m)
{
    const size_t pieces[] = {
        LOCI_COPY_PIECE - 1, LOCI_COPY_PIECE, LOCI_COPY_PIECE + 1, 3 * LOCI_COPY_PIECE - 5,
        4 * LOCI_COPY_PIECE, 9 * LOCI_COPY_PIECE + 3,
    };

    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
        loco_window_t *win;

        CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 2 * pieces[k], &win));
        CHECK_EQ(exchange_pieces(m, win, pieces[k]), 0);
        CHECK_OK(loco_window_destroy(win));
    }
    return 0;
}

Test(window, long_runs_arrive_whole, .timeout = RUN_SECONDS)
{
    if (!run_shares())
        cr_skip_test("no memory is shared here");
    cr_assert_eq(member_run(RUN_SHM, 2, long_body, NULL, NULL), 0);
}

/* Parts of different sizes follow each other without a gap, and are seen where query says. */
static int contiguous_body(struct member *m)
{
    struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_SHARED, .size = m->rank == 1 ? 0 : 100 + (size_t)m->rank,
        .disp_unit = 4 + (size_t)m->rank, .noncontiguous = *(bool *)m->arg,
    };
    unsigned char *before = NULL;
    loco_window_t *win;

    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    memset(loco_window_base(win) != NULL ? loco_window_base(win) : &spec, m->rank + 1,
           loco_window_base(win) != NULL ? spec.size : 0);
    CHECK_OK(loco_window_fence(win, 0));
    for (int r = 0; r < m->n; r++) {
        size_t size, unit;
        void *base;

        CHECK_OK(loco_window_query(win, r, &size, &unit, &base));
        CHECK_EQ(size, r == 1 ? 0 : 100 + r);
        CHECK_EQ(unit, 4 + r);
        CHECK_EQ(loco_window_size(win, r), size);
        CHECK_EQ(loco_window_disp_unit(win, r), unit);
        if (size == 0) {
            CHECK(base == NULL);
            continue;
        }
        CHECK(!spec.noncontiguous || (uintptr_t)base % 4096 == 0);
        CHECK(spec.noncontiguous || before == NULL || base == before);
        before = (unsigned char *)base + size;
        for (size_t i = 0; i < size; i++)
            CHECK_EQ(((unsigned char *)base)[i], r + 1);
    }
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, shared_parts_are_contiguous_unless_asked_not_to)
{
    if (!run_shares())
        cr_skip_test("no memory is shared here");
    for (int apart = 0; apart < 2; apart++) {
        bool noncontiguous = apart != 0;

        cr_assert_eq(member_run(RUN_SHM, 4, contiguous_body, &noncontiguous, NULL), 0);
    }
}

static int unshared_body(struct member *m)
{
    loco_window_t *win = NULL;
    void *base = NULL;

    CHECK_EQ(member_window(m, LOCO_WINDOW_SHARED, NULL, 64, &win), LOCO_ERR_SHARED);
    CHECK(win == NULL);
    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 64, &win));
    CHECK_EQ(loco_window_query(win, (m->rank + 1) % m->n, NULL, NULL, &base), LOCO_ERR_SHARED);
    CHECK_OK(loco_window_query(win, m->rank, NULL, NULL, &base));
    CHECK(base == loco_window_base(win));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, memory_that_cannot_be_mapped_is_not_shared)
{
    cr_assert_eq(member_run(RUN_WEAK, 2, unshared_body, NULL, NULL), 0);
}

/* ---- failures of one member ---- */

static int refused_body(struct member *m)
{
    struct loco_window_spec spec = { .kind = *(enum loco_window_kind *)m->arg, .size = 64 };
    loco_window_t *win = NULL;

    if (m->rank == 1)
        spec.size = (size_t)1 << 46;
    CHECK_EQ(loco_window_create(m->rt, &m->exchange, &spec, &win), LOCO_ERR_NO_MEMORY);
    CHECK(win == NULL);
    spec.size = 64;
    spec.align = m->rank == 0 ? 24 : 0;
    CHECK_EQ(loco_window_create(m->rt, &m->exchange, &spec, &win), LOCO_ERR_ARG);
    spec.align = 128;
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK(m->rank != 0 || (uintptr_t)loco_window_base(win) % 128 == 0);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, if_one_member_fails_all_fail)
{
    enum loco_window_kind kinds[] = { LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_SHARED };

#ifdef __SANITIZE_ADDRESS__
    /* It notes of each page that is mapped that it may be used: of 64 TiB, more than there is. */
    printf("# left out under the address sanitizer: 64 TiB at one member\n");
    return;
#endif
    for (int k = 0; k < (run_shares() ? 2 : 1); k++)
        cr_assert_eq(member_run(RUN_SHM, 3, refused_body, &kinds[k], NULL), 0);
}

/* ---- spans ---- */

static int spans_body(struct member *m)
{
    enum { RUNS = 1000, STEP = 24, LEN = 7 };
    size_t size = RUNS * STEP;
    unsigned char *from = malloc(size), *to = calloc(1, size), *memory = calloc(1, size);
    struct loco_span *spans = malloc(RUNS * sizeof *spans);
    int target = (m->rank + 1) % m->n;
    loco_ack_t ack = LOCO_ACK_INIT;
    loco_window_t *win;

    CHECK(from != NULL && to != NULL && memory != NULL && spans != NULL);
    for (size_t i = 0; i < size; i++)
        from[i] = pattern(m->rank, i);
    CHECK_OK(member_window(m, *(enum loco_window_kind *)m->arg, memory, size, &win));
    CHECK_OK(loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, target, 0));
    for (size_t i = 0; i < RUNS; i++)
        spans[i] = (struct loco_span){ from + i * STEP, i * STEP + 3, LEN };
    CHECK_OK(loco_window_put(win, target, spans, RUNS, &ack));
    CHECK_OK(loco_ack_wait(m->rt, &ack));
    CHECK_OK(loco_window_flush(win, target));
    for (size_t i = 0; i < RUNS; i++)
        spans[i].local = to + i * STEP;
    CHECK_OK(loco_window_get(win, target, spans, RUNS, NULL));
    CHECK_OK(loco_window_unlock(win, target));
    for (size_t i = 0; i < size; i++)
        CHECK_EQ(to[i], i % STEP < LEN ? pattern(m->rank, i) : 0);
    CHECK_OK(loco_window_fence(win, 0));
    for (size_t i = 0; i < size; i++) {
        const unsigned char *mine = loco_window_base(win);
        bool inside = i % STEP >= 3 && i % STEP < 3 + LEN;

        CHECK_EQ(mine[i], inside ? pattern((m->rank + m->n - 1) % m->n, i - 3) : 0);
    }
    CHECK_OK(loco_window_destroy(win));
    free(from);
    free(to);
    free(memory);
    free(spans);
    return 0;
}

Test(window, many_runs_at_once)
{
    enum loco_window_kind kinds[] = { LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_CREATE };

    for (int k = 0; k < 2; k++)
        ON_EACH_FABRIC(3, spans_body, &kinds[k]);
}

/* ---- flushes and store buffers ---- */

/* A word at each member, on lines of their own. */
enum { HERE = 0, SEEN = 64, TURN = 128, LITMUS_BYTES = 192 };

static unsigned char *word_of(const loco_window_t *win, int rank, uint64_t offset)
{
    return loci_mem_ptr(&win->target[rank].mem) + offset;
}

/* Both are here: as closely together as can be had, if there are CPUs for both. */
static void meet(loco_window_t *win, int rank, uint64_t turn)
{
    unsigned looks = 0;

    loci_store64(word_of(win, 1 - rank, TURN), turn);
    while (loci_load64(word_of(win, rank, TURN)) < turn)
        if (++looks % 2000 == 0)
            sched_yield();
}

/* In any way that there is: what the other has put here. */
static int read_word(loco_window_t *win, int rank, int way, uint64_t *value)
{
    uint64_t none = 0;

    if (way == 0)
        return member_get(win, rank, HERE, value, 8);
    if (way == 1)
        return member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_NO_OP, HERE, NULL, value, 1);
    return member_accumulate(win, rank, LOCO_TYPE_U64, LOCO_OP_MAX, HERE, &none, value, 1);
}

/* Each puts into the other's memory, flushes, and reads what the other puts: one sees it. */
static int litmus_body(struct member *m)
{
    loco_window_t *win;
    uint64_t both[2], seen, theirs, rounds = 60000, turn = 0;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, LITMUS_BYTES, &win));
    win->one_thread = win->notes_stores = true;
    CHECK_OK(loco_window_lock_all(win, 0));
    CHECK_OK(member_get(win, 1 - m->rank, HERE, &seen, 8));     /* both are mapped */
    CHECK_OK(read_word(win, m->rank, 2, &seen));                /* and atomics in force */
    CHECK_OK(m->exchange.allgather(m->exchange.ctx, &seen, sizeof seen, both));
    for (uint64_t round = 1; round <= rounds; round++) {
        meet(win, m->rank, ++turn);
        CHECK_OK(member_put(win, 1 - m->rank, HERE, &round, 8));
        CHECK(loci_window_flush_now(win, 1 - m->rank));
        CHECK_OK(read_word(win, m->rank, (int)(round % 3), &seen));
        loci_store64(word_of(win, 1 - m->rank, SEEN), seen);
        meet(win, m->rank, ++turn);
        theirs = loci_load64(word_of(win, m->rank, SEEN));
        CHECK(seen == round || theirs == round);
    }
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, of_two_that_flush_one_sees_the_other, .timeout = RUN_SECONDS)
{
    if (!run_shares())
        cr_skip_test("no memory is shared here");
    cr_assert_eq(member_run(RUN_SHM, 2, litmus_body, NULL, NULL), 0);
}

/* ---- wrong use ---- */

static int range_body(struct member *m)
{
    unsigned char bytes[128] = { 9 };
    int target = (m->rank + 1) % m->n;
    unsigned char memory[64] = { 0 };
    loco_window_t *win;

    CHECK_OK(member_window(m, *(enum loco_window_kind *)m->arg, memory, 64, &win));
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_EQ(member_put(win, target, 57, bytes, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, 0, bytes, 65), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, 65, bytes, 1), LOCO_ERR_RANGE);
    CHECK_EQ(member_put(win, target, UINT64_MAX, bytes, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_get(win, target, UINT64_MAX - 3, bytes, 8), LOCO_ERR_RANGE);
    CHECK_EQ(member_accumulate(win, target, LOCO_TYPE_I64, LOCO_OP_SUM, 60, bytes, NULL, 1),
             LOCO_ERR_RANGE);
    CHECK_EQ(loco_window_compare_swap(win, target, LOCO_TYPE_I64, 64, bytes, bytes, bytes),
             LOCO_ERR_RANGE);
    {
        /* The second run is outside: the first is not moved either. */
        struct loco_span spans[2] = { { bytes, 0, 8 }, { bytes, 60, 8 } };

        CHECK_EQ(loco_window_put(win, target, spans, 2, NULL), LOCO_ERR_RANGE);
    }
    CHECK_OK(member_put(win, target, 64, bytes, 0));
    CHECK_EQ(member_put(win, m->n, 0, bytes, 8), LOCO_ERR_ARG);
    CHECK_EQ(member_put(win, -1, 0, bytes, 8), LOCO_ERR_ARG);
    CHECK_EQ(member_accumulate(win, target, LOCO_TYPE_F32, LOCO_OP_BAND, 0, bytes, NULL, 1),
             LOCO_ERR_ARG);
    CHECK_EQ(loco_window_compare_swap(win, target, LOCO_TYPE_F64, 0, bytes, bytes, bytes),
             LOCO_ERR_ARG);
    CHECK_OK(loco_window_fence(win, 0));
    for (int i = 0; i < 64; i++)
        CHECK_EQ(((unsigned char *)loco_window_base(win))[i], 0);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, nothing_outside_is_touched)
{
    enum loco_window_kind kinds[] = { LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_CREATE };

    for (int k = 0; k < 2; k++)
        ON_EACH_FABRIC(2, range_body, &kinds[k]);
}

/* Outside of any epoch. */
static int no_epoch(loco_window_t *win, int target)
{
    uint64_t x = 1;
    bool done;

    CHECK_EQ(member_put(win, target, 0, &x, 8), LOCO_ERR_STATE);
    CHECK_EQ(member_get(win, target, 0, &x, 8), LOCO_ERR_STATE);
    CHECK_EQ(member_accumulate(win, target, LOCO_TYPE_I64, LOCO_OP_SUM, 0, &x, NULL, 1),
             LOCO_ERR_STATE);
    CHECK_EQ(loco_window_compare_swap(win, target, LOCO_TYPE_I64, 0, &x, &x, &x),
             LOCO_ERR_STATE);
    CHECK_EQ(loco_window_unlock(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_unlock_all(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush_all(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush_local(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush_local_all(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_complete(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_wait(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_test(win, &done), LOCO_ERR_STATE);
    CHECK_OK(loco_window_sync(win));
    return 0;
}

/* With a lock on one target. */
static int one_lock(struct member *m, loco_window_t *win, int target)
{
    int self = m->rank;
    uint64_t x = 1;

    CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0));
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock_all(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_unlock_all(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_start(win, 1, &target, LOCO_ASSERT_NOCHECK), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_fence(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(member_put(win, self, 8, &x, 8), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush(win, self), LOCO_ERR_STATE);
    CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, self, 0));
    CHECK_OK(member_put(win, target, 8, &x, 8));
    CHECK_OK(loco_window_flush_all(win));
    CHECK_OK(loco_window_unlock(win, self));
    CHECK_OK(loco_window_flush_local(win, target));
    CHECK_OK(loco_window_unlock(win, target));
    CHECK_EQ(loco_window_unlock(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock(win, (enum loco_lock_kind)3, target, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, m->n, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_window_flush(win, m->n), LOCO_ERR_ARG);
    return 0;
}

/* With locks on all. */
static int all_locks(loco_window_t *win, int target)
{
    CHECK_OK(loco_window_lock_all(win, 0));
    CHECK_EQ(loco_window_lock_all(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_unlock(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_post(win, 1, &target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_STATE);
    CHECK_OK(loco_window_unlock_all(win));
    CHECK_OK(loco_window_fence(win, 0));
    return 0;
}

/* A fence's epoch is one once it is used; before, locks may follow. */
static int fences(loco_window_t *win, int target)
{
    uint64_t x = 1;

    CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0));
    CHECK_OK(loco_window_unlock(win, target));
    CHECK_EQ(member_put(win, target, 0, &x, 8), LOCO_ERR_STATE);
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(member_put(win, target, 0, &x, 8));
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock_all(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_flush(win, target), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_start(win, 1, &target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_post(win, 1, &target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_STATE);
    CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOSUCCEED));
    CHECK_EQ(member_put(win, target, 0, &x, 8), LOCO_ERR_STATE);
    return 0;
}

static int post_and_start(struct member *m, loco_window_t *win, int target)
{
    int self = m->rank;
    uint64_t x = 1;
    bool done;

    CHECK_OK(loco_window_post(win, 1, &self, 0));
    CHECK_EQ(loco_window_post(win, 1, &self, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_fence(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_destroy(win), LOCO_ERR_STATE);
    CHECK_OK(loco_window_start(win, 1, &self, 0));
    CHECK_EQ(loco_window_start(win, 1, &self, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, target, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock_all(win, 0), LOCO_ERR_STATE);
    CHECK_EQ(member_put(win, target, 0, &x, 8), m->n == 1 ? LOCO_OK : LOCO_ERR_STATE);
    CHECK_OK(member_put(win, self, 0, &x, 8));
    CHECK_EQ(loco_window_flush(win, self), LOCO_ERR_STATE);
    CHECK_OK(loco_window_test(win, &done));
    CHECK(!done);
    CHECK_OK(loco_window_complete(win));
    CHECK_EQ(loco_window_complete(win), LOCO_ERR_STATE);
    CHECK_OK(loco_window_wait(win));
    CHECK_EQ(loco_window_post(win, 1, &m->n, 0), LOCO_ERR_ARG);
    CHECK_EQ(loco_window_start(win, -1, &self, 0), LOCO_ERR_ARG);
    return 0;
}

static int epochs_body(struct member *m)
{
    int target = (m->rank + 1) % m->n;
    uint64_t x = 1;
    loco_window_t *win;

    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 64, &win));
    CHECK_OK(no_epoch(win, target));
    CHECK_OK(one_lock(m, win, target));
    CHECK_OK(all_locks(win, target));
    CHECK_OK(fences(win, target));
    CHECK_OK(post_and_start(m, win, target));
    CHECK_EQ(loco_window_attach(win, &x, 8), LOCO_ERR_STATE);
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, epochs_follow_the_standard)
{
    ON_EACH_FABRIC(2, epochs_body, NULL);
    ON_EACH_FABRIC(3, epochs_body, NULL);
}

static int no_locks_body(struct member *m)
{
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = 8, .no_locks = true, .one_thread = true,
    };
    loco_window_t *win;

    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    CHECK_EQ(loco_window_lock(win, LOCO_LOCK_SHARED, 0, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_window_lock_all(win, 0), LOCO_ERR_STATE);
    CHECK_OK(loco_window_fence(win, 0));
    CHECK_OK(loco_window_destroy(win));
    return 0;
}

Test(window, without_locks)
{
    cr_assert_eq(member_run(RUN_SHM, 2, no_locks_body, NULL, NULL), 0);
}

/* ---- numbers of windows ---- */

static long resident_kib(void)
{
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL)
        return -1;
    if (fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        pages = -1;
    fclose(f);
    return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

#ifdef __SANITIZE_THREAD__
#define KIB_OF_A_WINDOW 16      /* with what the sanitizer keeps of each of its words */
#else
#define KIB_OF_A_WINDOW 4
#endif

static int many_open_body(struct member *m)
{
    enum { MANY = 10000 };
    static loco_window_t *win[MANY];
    uint64_t x, target = (uint64_t)(m->rank + 1) % (uint64_t)m->n;
    long before = resident_kib(), after;

    for (int i = 0; i < MANY; i++)
        CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8, &win[i]));
    after = resident_kib();
    CHECK(before > 0 && after - before < KIB_OF_A_WINDOW * MANY);
    for (int i = 0; i < MANY; i++) {
        x = (uint64_t)(i + m->rank);
        CHECK_OK(loco_window_lock_all(win[i], 0));
        CHECK_OK(member_put(win[i], (int)target, 0, &x, 8));
    }
    for (int i = 0; i < MANY; i++)
        CHECK_OK(loco_window_unlock_all(win[i]));
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(loco_window_fence(win[i], 0));
        CHECK_EQ(*(uint64_t *)loco_window_base(win[i]), i + (m->rank + m->n - 1) % m->n);
        CHECK_OK(loco_window_destroy(win[i]));
    }
    return 0;
}

Test(window, ten_thousand_are_open_at_once, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 2, many_open_body, NULL, NULL), 0);
}

/* The sanitizers' allocators keep what was freed for a while. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROW_OF_WINDOWS 20000
#define GROWTH_KIB (128 * 1024)
#else
#define ROW_OF_WINDOWS 100000
#define GROWTH_KIB 1024
#endif

static int one_after_another_body(struct member *m)
{
    const enum loco_window_kind kinds[] = {
        LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_CREATE, LOCO_WINDOW_DYNAMIC, LOCO_WINDOW_SHARED,
    };
    int many = run_shares() ? ROW_OF_WINDOWS : ROW_OF_WINDOWS / 10;
    uint64_t memory[2] = { 0 };
    long before = 0;

    for (int i = 0; i < many; i++) {
        loco_window_t *win;

        CHECK_OK(member_window(m, kinds[i % (run_shares() ? 4 : 3)], memory, 16, &win));
        CHECK_OK(loco_window_destroy(win));
        if (i == many / 10)
            before = resident_kib();
    }
    CHECK(before > 0 && resident_kib() - before < GROWTH_KIB);
    return 0;
}

Test(window, a_hundred_thousand_in_a_row_leave_nothing, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 2, one_after_another_body, NULL, NULL), 0);
}
