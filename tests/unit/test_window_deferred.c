/* SPDX-License-Identifier: BSD-3-Clause */

/* Windows: short puts and gets that wait to be sent together. Over shared memory, and over a fabric
 * that maps nothing and orders little. */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "member.h"
#include "window/window.h"

/* ---- puts ---- */

/* With one thread, short puts into memory of the user may wait: never beyond what says that they
 * are complete, nor behind a get or accumulate of the same origin. Neighbours become one put: in
 * the order of their cells all do, backwards none. */
static uint64_t cell_of(int round, uint64_t k, uint64_t cells)
{
    return round % 3 == 0 ? k : round % 3 == 1 ? cells - 1 - k : (k / 5 * 35 + k % 5) % cells;
}

static int puts_body(struct member *m)
{
    enum { CELLS = 1000 };
    int right = (m->rank + 1) % m->n, left = (m->rank + m->n - 1) % m->n;
    uint64_t *memory = calloc(CELLS, 8), x, y;
    char mine = 0, all[8];
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = CELLS * 8, .one_thread = true,
    };
    loco_window_t *win;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    for (int round = 1; round <= 6; round++) {
        int way = round % 6;

        if (way == 4)
            CHECK_OK(loco_window_fence(win, 0));
        else if (way == 5)
            CHECK_OK(loco_window_post(win, 1, &left, 0) || loco_window_start(win, 1, &right, 0));
        else if (way == 3)
            CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, right, 0));
        else
            CHECK_OK(loco_window_lock_all(win, 0));
        for (uint64_t i = 0; i < CELLS; i++) {
            uint64_t k = cell_of(round, i, CELLS);

            x = (uint64_t)round * 10000 + k;
            CHECK_OK(member_put(win, right, 8 * k, &x, 8));
            x = 0;
            if (k % 100 == 50) {
                CHECK_OK(member_get(win, right, 8 * k, &y, 8));
                CHECK_EQ(y, (uint64_t)round * 10000 + k);
            }
            if (k % 100 == 51) {
                CHECK_OK(member_accumulate(win, right, LOCO_TYPE_U64, LOCO_OP_SUM, 8 * k, &x, &y,
                                           1));
                CHECK_EQ(y, (uint64_t)round * 10000 + k);
            }
            if (k % 100 == 52)      /* to another member in between */
                CHECK_OK(way == 3 || way == 5 ? LOCO_OK
                                              : member_put(win, m->rank, 8 * CELLS, &x, 0));
        }
        if (way == 0)
            CHECK(loci_window_flush_now(win, right) || loco_window_flush(win, right) == LOCO_OK);
        if (way == 1)
            CHECK_OK(loco_window_flush_all(win));
        if (way == 2)
            CHECK_OK(loco_window_unlock_all(win));
        if (way == 3)
            CHECK_OK(loco_window_unlock(win, right));
        if (way == 4)
            CHECK_OK(loco_window_fence(win, LOCO_ASSERT_NOSUCCEED));
        if (way == 5)
            CHECK_OK(loco_window_complete(win) || loco_window_wait(win));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        for (uint64_t k = 0; k < CELLS; k++)
            CHECK_EQ(memory[k], (uint64_t)round * 10000 + k);
        if (way <= 1)
            CHECK_OK(loco_window_unlock_all(win));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    }
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_deferred, puts_that_wait_are_there_in_time)
{
    for (int n = 1; n <= 4; n *= 2)
        ON_EACH_FABRIC(n, puts_body, NULL);
}

/* ---- gets ---- */

/* So may gets that nobody waits for, of several members and among puts: until what completes
 * them. Neighbours become one get: by fours they are neighbours neither here, nor apart from that
 * there; or they are in both; or here, and go backwards there. */
enum { TO_GET = 500, TO_PUT = 50, MEMBERS_MOST = 4 };

static uint64_t place_of(uint64_t k)
{
    return k / 4 * 8 + (k / 4 % 2 == 0 ? 2 * (k % 4) : k % 4);
}

static uint64_t source_of(uint64_t k)
{
    return k / 4 % 4 == 3 ? k + 3 - 2 * (k % 4) : k;
}

static int finish_gets(struct member *m, loco_window_t *win, int way)
{
    for (int rank = 0; way <= 1 && rank < m->n; rank++)
        CHECK_OK(way == 0 ? loco_window_flush_local(win, rank) : loco_window_flush(win, rank));
    if (way == 2)
        CHECK_OK(loco_window_flush_local_all(win));
    if (way == 3)
        CHECK_OK(loco_window_unlock_all(win));
    return 0;
}

static int get_some(struct member *m, loco_window_t *win, int way, uint64_t round)
{
    uint64_t got[2 * TO_GET] = { 0 }, wanted[2 * TO_GET] = { 0 }, x;
    int mix = m->rank + way;

    CHECK_OK(loco_window_lock_all(win, 0));
    for (uint64_t k = 0; k < TO_GET; k++) {
        const uint64_t to = place_of(k), from = source_of(k), words = k % 40 == 39 ? 2 : 1;
        struct loco_span span = { got + to, 8 * from, 8 * words };
        int target;

        mix = (mix * 1103 + 12345) % 65536;
        target = way == 1 ? (m->rank + 1) % m->n : mix / 7 % m->n;
        for (uint64_t i = 0; i < words; i++)
            wanted[to + i] = (uint64_t)target * 10000 + from + i;
        CHECK_OK(loco_window_get(win, target, &span, 1, LOCO_UNTIL_FLUSH));
        x = round * 1000 + k;
        if (k % 10 == 0)
            CHECK_OK(member_put(win, target, 8 * (TO_GET + 1 + (uint64_t)m->rank * TO_PUT
                                                     + k / 10), &x, 8));
        x = 0;
    }
    CHECK_EQ(finish_gets(m, win, way), 0);
    for (uint64_t i = 0; i < 2 * TO_GET; i++)
        CHECK_EQ(got[i], wanted[i]);
    if (way != 3)
        CHECK_OK(loco_window_unlock_all(win));
    return 0;
}

static int gets_body(struct member *m)
{
    enum { CELLS = TO_GET + 1 + MEMBERS_MOST * TO_PUT };
    uint64_t *memory = calloc(CELLS, 8);
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = CELLS * 8,
        .one_thread = *(bool *)m->arg,
    };
    char mine = 0, all[MEMBERS_MOST];
    loco_window_t *win;

    CHECK(memory != NULL);
    for (uint64_t k = 0; k <= TO_GET; k++)
        memory[k] = (uint64_t)m->rank * 10000 + k;
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    for (int way = 0; way < 4; way++) {
        CHECK_EQ(get_some(m, win, way, (uint64_t)way + 1), 0);
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        for (uint64_t k = 0; m->n == 1 && k < TO_PUT; k++)
            CHECK_EQ(memory[TO_GET + 1 + k], ((uint64_t)way + 1) * 1000 + 10 * k);
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
    }
    /* Each put went to one of them. */
    for (uint64_t k = 0; k < TO_PUT; k++) {
        uint64_t sum = 0, x;

        CHECK_OK(loco_window_lock_all(win, 0));
        for (int rank = 0; rank < m->n; rank++) {
            CHECK_OK(member_get(win, rank, 8 * (TO_GET + 1 + (uint64_t)m->rank * TO_PUT + k), &x,
                                8));
            sum += x == 4000 + 10 * k;
        }
        CHECK_OK(loco_window_unlock_all(win));
        CHECK_EQ(sum, 1);
    }
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_deferred, gets_that_wait_are_there_in_time)
{
    bool one_thread[] = { true, false };

    for (int i = 0; i < 2; i++)
        for (int n = 1; n <= MEMBERS_MOST; n *= 2)
            ON_EACH_FABRIC(n, gets_body, &one_thread[i]);
}

/* ---- any length ---- */

/* Runs of lengths around those that go at once, some side by side; each byte says whose it is. */
static size_t next_run(size_t i, size_t *at)
{
    static const size_t lengths[] = { 8, 64, 65, 500, 1, 2048, 1024, 2049, 17, 4096, 2000 };
    size_t len = lengths[i * 7 % (sizeof lengths / sizeof lengths[0])];

    *at += i % 3 == 0 ? 24 : 0;
    return len;
}

static unsigned char byte_of(size_t at, int rank, int round)
{
    return (unsigned char)(at * 31 + at / 256 + (size_t)rank * 7 + (size_t)round * 3 + 1);
}

static int lengths_body(struct member *m)
{
    enum { ROOM = 1 << 17 };
    int right = (m->rank + 1) % m->n, left = (m->rank + m->n - 1) % m->n;
    unsigned char *memory = calloc(3, ROOM), *mine = memory + ROOM, *got = mine + ROOM;
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_CREATE, .base = memory, .size = ROOM, .one_thread = true,
    };
    char all[8], nothing = 0;
    loco_window_t *win;

    CHECK(memory != NULL);
    CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(loco_window_lock_all(win, 0));
        for (size_t at = 0, i = 0, len; len = next_run(i, &at), at + len <= ROOM; i++, at += len) {
            for (size_t k = 0; k < len; k++)
                mine[k] = byte_of(at + k, m->rank, round);
            CHECK_OK(member_put(win, right, at, mine, len));
            memset(mine, 0, len);
        }
        CHECK_OK(loco_window_flush(win, right));
        for (size_t at = 0, i = 0, len; len = next_run(i, &at), at + len <= ROOM; i++, at += len) {
            struct loco_span span = { got + at, at, len };

            CHECK_OK(loco_window_get(win, right, &span, 1, LOCO_UNTIL_FLUSH));
        }
        CHECK_OK(loco_window_flush_local_all(win));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &nothing, 1, all));
        for (size_t at = 0, i = 0, len; len = next_run(i, &at), at + len <= ROOM; i++, at += len)
            for (size_t k = at; k < at + len; k++)
                CHECK(memory[k] == byte_of(k, left, round) && got[k] == byte_of(k, m->rank, round));
        CHECK(memory[0] == 0 && memory[23] == 0);
        CHECK_OK(loco_window_unlock_all(win));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &nothing, 1, all));
    }
    CHECK_OK(loco_window_destroy(win));
    free(memory);
    return 0;
}

Test(window_deferred, runs_of_any_length_are_there_in_time)
{
    for (int n = 1; n <= 3; n++)
        ON_EACH_FABRIC(n, lengths_body, NULL);
}

/* ---- what was begun arrives ---- */

/* Each call that synchronizes sends what waited: a target that polls from then on need not wait for
 * another call of the origin's. A request of one's own is such a call, too. */
enum way { FLUSH_LOCAL, FLUSH_LOCAL_ALL, FLUSH, FLUSH_ALL, SYNC, LOCK, POST, TEST, ACK, WAYS };

static int put_one(loco_runtime_t *rt, loco_window_t *win, int rank, uint64_t *word, enum way way)
{
    struct loco_span span = { word, 8, 8 };
    loco_ack_t ack = LOCO_ACK_INIT;

    if (way != ACK)
        return loco_window_put(win, rank, &span, 1, LOCO_UNTIL_FLUSH);
    CHECK_OK(loco_window_put(win, rank, &span, 1, &ack));
    return loco_ack_wait(rt, &ack);
}

static int synchronize(struct member *m, loco_window_t *win, int right, enum way way)
{
    bool done;

    switch (way) {
    case FLUSH_LOCAL: return loco_window_flush_local(win, right);
    case FLUSH_LOCAL_ALL: return loco_window_flush_local_all(win);
    case FLUSH: return loco_window_flush(win, right);
    case FLUSH_ALL: return loco_window_flush_all(win);
    case SYNC: return loco_window_sync(win);
    case LOCK: return loco_window_lock(win, LOCO_LOCK_SHARED, m->rank, LOCO_ASSERT_NOCHECK);
    case POST: return loco_window_post(win, 0, NULL, 0);
    case TEST: return loco_window_test(win, &done);
    default: return LOCO_OK;
    }
}

/* The end of what `synchronize` began. */
static int unwind(struct member *m, loco_window_t *win, enum way way)
{
    if (way == LOCK)
        CHECK_OK(loco_window_unlock(win, m->rank));
    if (way == POST)
        CHECK_OK(loco_window_wait(win));
    return 0;
}

/* Over a fabric that is not synchronous, what was posted is placed in its own time; a flush_local
 * waits for that there. */
static bool has_arrived(const loco_window_t *win, const uint64_t *word, uint64_t value,
                        enum way way)
{
    return loci_load64(word) == value || (!win->synchronous && way > FLUSH_ALL);
}

static int begun_body(struct member *m)
{
    int right = (m->rank + 1) % m->n;
    uint64_t *word, x, memory[2] = { 0 };
    struct loco_window_spec spec = { .base = memory, .size = sizeof memory, .one_thread = true };
    char mine = 0, all[8];
    loco_window_t *win;

    for (int way = 0; way < WAYS; way++) {
        spec.kind = *(enum loco_window_kind *)m->arg;
        CHECK_OK(loco_window_create(m->rt, &m->exchange, &spec, &win));
        word = (uint64_t *)loco_window_base(win) + 1;
        *word = 0;
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        if (way == TEST)
            CHECK_OK(loco_window_post(win, 0, NULL, 0));
        CHECK_OK(loco_window_lock(win, LOCO_LOCK_SHARED, right, LOCO_ASSERT_NOCHECK));
        for (x = 1; x <= 3; x++) {      /* over a device the second one would wait for the first */
            CHECK_OK(put_one(m->rt, win, right, &x, (enum way)way));
            CHECK_EQ(way == ACK ? win->deferred_runs : 0, 0);
        }
        CHECK_OK(synchronize(m, win, right, (enum way)way));
        CHECK_EQ(win->deferred_runs, 0);
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        CHECK(has_arrived(win, word, 3, (enum way)way));
        CHECK_EQ(unwind(m, win, (enum way)way), 0);
        CHECK_OK(loco_window_unlock(win, right));
        CHECK_OK(m->exchange.allgather(m->exchange.ctx, &mine, 1, all));
        CHECK_EQ(*word, 3);
        CHECK_OK(loco_window_destroy(win));
    }
    return 0;
}

Test(window_deferred, each_call_that_synchronizes_sends_what_waits)
{
    enum loco_window_kind kind[] = { LOCO_WINDOW_CREATE, LOCO_WINDOW_ALLOCATE };

    for (int i = 0; i < 2; i++)
        for (int n = 2; n <= 3; n++)
            ON_EACH_FABRIC(n, begun_body, &kind[i]);
}
