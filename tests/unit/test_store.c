/* SPDX-License-Identifier: BSD-3-Clause */

/* Stores and transactions between real processes, and threads over the weak fabric. That histories
 * are strictly serializable is the simulator's part (tools/sim/scenario_store.c). */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"

static int make(loco_runtime_t *rt, const loco_store_options_t *options, loco_store_t **store)
{
    int status = loco_store_create(rt, NULL, "store", loco_everyone(rt), options, store);

    return status != LOCO_OK ? status : loco_runtime_wait_ready(rt, LOCO_FOREVER);
}

#define MEET() CHECK_OK(run_meet(rt))

static void fill(unsigned char *value, size_t len, uint64_t number)
{
    for (size_t i = 0; i < len; i++)
        value[i] = (unsigned char)(number * 31 + i * 7 + i / 251);
}

/* ---- one after the other ---- */

static int sizes(loco_tx_t *tx, loco_object_t object)
{
    static const size_t all[] = { 0, 1, 7, 8, 9, 31, 32, 33, 100, 1000, 4096, 65535, 65536 };
    static unsigned char value[LOCO_STORE_VALUE_MAX + 1], found[LOCO_STORE_VALUE_MAX];

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t len = all[i], is;

        fill(value, len, i);
        CHECK_OK(loco_tx_begin(tx));
        CHECK_OK(loco_tx_write(tx, object, value, len));
        CHECK_OK(loco_tx_read(tx, object, found, len));
        CHECK(memcmp(value, found, len) == 0);
        CHECK_OK(loco_tx_commit(tx));
        memset(found, 0, sizeof found);
        CHECK_OK(loco_tx_begin(tx));
        CHECK_EQ(loco_tx_read(tx, object, found, len / 2 + 1), len / 2 + 1 == len ? LOCO_OK
                                                                                 : LOCO_ERR_SIZE);
        CHECK_OK(loco_tx_read_some(tx, object, found, sizeof found, &is));
        CHECK_EQ(is, len);
        CHECK(memcmp(value, found, len) == 0);
        CHECK_OK(loco_tx_commit(tx));
    }
    CHECK_OK(loco_tx_begin(tx));
    CHECK_EQ(loco_tx_write(tx, object, value, sizeof value), LOCO_ERR_SIZE);
    loco_tx_abort(tx);
    return 0;
}

/* An object is made, known by a root, read by the next rank, changed, and freed. */
static int calls(loco_runtime_t *rt, loco_store_t *store, loco_tx_t *tx)
{
    int rank = loco_group_rank(loco_everyone(rt)), n = loco_group_size(loco_everyone(rt));
    loco_object_t mine = loco_store_root(store, (uint64_t)rank), object, theirs;
    uint64_t value = 100 + (uint64_t)rank, found;

    CHECK_OK(loco_tx_begin(tx));
    CHECK_EQ(loco_tx_begin(tx), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_read(tx, mine, &found, sizeof found), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tx_free(tx, mine), LOCO_ERR_NOT_FOUND);
    CHECK_OK(loco_tx_new(tx, LOCO_ANY_HOST, &value, sizeof value, &object));
    CHECK_EQ(loco_store_host_of(store, object), rank);
    CHECK_OK(loco_tx_write(tx, mine, &object, sizeof object));
    CHECK_OK(loco_tx_commit(tx));
    CHECK_EQ(loco_tx_commit(tx), LOCO_ERR_STATE);
    CHECK_EQ(loco_tx_read(tx, mine, &found, sizeof found), LOCO_ERR_STATE);
    MEET();
    CHECK_OK(loco_tx_begin(tx));
    CHECK_OK(loco_tx_read(tx, loco_store_root(store, (uint64_t)((rank + 1) % n)), &theirs,
                          sizeof theirs));
    CHECK_OK(loco_tx_read(tx, theirs, &found, sizeof found));
    CHECK_EQ(found, 100 + (rank + 1) % n);
    found += 1000;
    CHECK_OK(loco_tx_write(tx, theirs, &found, sizeof found));
    CHECK_OK(loco_tx_commit(tx));
    MEET();
    CHECK_OK(loco_tx_begin_as(tx, LOCO_TX_RELAXED));
    CHECK_OK(loco_tx_read(tx, object, &found, sizeof found));
    CHECK_EQ(found, 1100 + rank);
    CHECK_OK(loco_tx_free(tx, object));
    CHECK_EQ(loco_tx_read(tx, object, &found, sizeof found), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tx_write(tx, object, &found, sizeof found), LOCO_ERR_NOT_FOUND);
    CHECK_OK(loco_tx_validate(tx));
    CHECK_OK(loco_tx_commit(tx));
    CHECK_OK(loco_tx_begin(tx));
    CHECK_EQ(loco_tx_read(tx, object, &found, sizeof found), LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tx_read(tx, LOCO_OBJECT_NONE, &found, sizeof found), LOCO_ERR_ARG);
    CHECK_EQ(loco_tx_read(tx, ~UINT64_C(0), &found, sizeof found), LOCO_ERR_ARG);
    CHECK_EQ(loco_tx_new(tx, n, &value, sizeof value, &object), LOCO_ERR_ARG);
    loco_tx_abort(tx);
    loco_tx_abort(tx);
    return 0;
}

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_store_t *store;
    loco_tx_t *tx, *others[2];

    (void)arg;
    CHECK_OK(make(rt, &(loco_store_options_t){ .bytes = 4 << 20, .threads = 2 }, &store));
    CHECK_OK(loco_tx_open(store, &tx));
    CHECK_OK(loco_tx_open(store, &others[0]));
    CHECK_EQ(loco_tx_open(store, &others[1]), LOCO_ERR_STATE);
    loco_tx_close(others[0]);
    CHECK_EQ(loco_store_root(store, 64), LOCO_OBJECT_NONE);
    CHECK_EQ(loco_store_host_of(store, LOCO_OBJECT_NONE), -1);
    CHECK_EQ(calls(rt, store, tx), 0);
    MEET();
    CHECK_EQ(rank == 0 ? sizes(tx, loco_store_root(store, 7)) : 0, 0);
    MEET();
    loco_tx_close(tx);
    MEET();
    loco_store_destroy(store);
    return 0;
}

Test(store, does_what_its_calls_say, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, calls_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 1, NULL, calls_body, NULL), 0);
    for (uint64_t seed = 1; seed <= 5; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, calls_body, NULL), 0);
}

/* ---- how much fits ---- */

static int limits(loco_store_t *store, loco_tx_t *tx)
{
    loco_object_t object;
    uint64_t value = 1;

    CHECK_OK(loco_tx_begin(tx));
    for (int i = 0; i < LOCO_TX_WRITES_MAX; i++)
        CHECK_OK(loco_tx_write(tx, loco_store_root(store, (uint64_t)i), &value, sizeof value));
    CHECK_EQ(loco_tx_write(tx, loco_store_root(store, LOCO_TX_WRITES_MAX), &value, sizeof value),
             LOCO_ERR_FULL);
    CHECK_EQ(loco_tx_new(tx, LOCO_ANY_HOST, &value, sizeof value, &object), LOCO_ERR_FULL);
    CHECK_OK(loco_tx_commit(tx));
    CHECK_OK(loco_tx_begin(tx));
    for (int i = 0; i < LOCO_TX_READS_MAX; i++)
        CHECK_EQ(loco_tx_read(tx, loco_store_root(store, (uint64_t)i), &value, sizeof value),
                 i < LOCO_TX_WRITES_MAX ? LOCO_OK : LOCO_ERR_NOT_FOUND);
    CHECK_EQ(loco_tx_read(tx, loco_store_root(store, LOCO_TX_READS_MAX), &value, sizeof value),
             LOCO_ERR_FULL);
    CHECK_OK(loco_tx_commit(tx));
    return 0;
}

/* Objects until it is full, twice: what is freed is there again. */
static int until_full(loco_tx_t *tx, size_t len, int *n, loco_object_t *object, int room)
{
    static unsigned char value[LOCO_STORE_VALUE_MAX];
    int status = LOCO_OK;

    for (*n = 0; status == LOCO_OK && *n < room; *n += status == LOCO_OK) {
        CHECK_OK(loco_tx_begin(tx));
        status = loco_tx_new(tx, LOCO_ANY_HOST, value, len, &object[*n]);
        CHECK_OK(loco_tx_commit(tx));
    }
    CHECK_EQ(status, LOCO_ERR_FULL);
    for (int i = 0; i < *n; i++) {
        CHECK_OK(loco_tx_begin(tx));
        CHECK_OK(loco_tx_free(tx, object[i]));
        CHECK_OK(loco_tx_commit(tx));
    }
    return 0;
}

static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    static loco_object_t object[20000];
    loco_store_t *store;
    loco_store_room_t room;
    loco_tx_t *tx;
    int first, again, n = loco_group_size(loco_everyone(rt));
    uint64_t roots = 2048 / (uint64_t)n;        /* of each host */

    (void)arg;
    CHECK_OK(make(rt, &(loco_store_options_t){ .bytes = 1 << 20, .roots = 2048,
                                               .objects = 20000 }, &store));
    CHECK_OK(loco_tx_open(store, &tx));
    CHECK_EQ(loco_store_room(store, n, &room), LOCO_ERR_ARG);
    CHECK_EQ(loco_store_room(store, -1, &room), LOCO_ERR_ARG);
    CHECK_OK(loco_store_room(store, n - 1, &room));
    CHECK_EQ(room.bytes, 1 << 20);
    CHECK_EQ(room.objects, 20000);
    if (n == 1) {
        CHECK_EQ(room.bytes_taken, 0);
        CHECK_EQ(room.objects_taken, roots);
    }
    MEET();
    if (rank == 0)
        CHECK_EQ(limits(store, tx), 0);
    if (rank == 0) {
        CHECK_EQ(until_full(tx, 8, &first, object, 20000), 0);
        /* 256 pages of 64 blocks, some of which the roots have */
        CHECK(first >= 16384 - 256 && first <= 16384);
        CHECK_EQ(until_full(tx, 8, &again, object, 20000), 0);
        CHECK_EQ(again, first);
        CHECK_OK(loco_store_room(store, 0, &room));
        CHECK_EQ(room.bytes_taken, room.bytes);
        CHECK(room.objects_taken >= roots + (uint64_t)first
              && room.objects_taken <= roots + (uint64_t)first + 128);
    }
    MEET();
    loco_tx_close(tx);
    MEET();
    loco_store_destroy(store);
    return 0;
}

Test(store, is_full_and_goes_on, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, full_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, full_body, NULL), 0);
}

/* ---- mistakes ---- */

static int mistakes_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    const loco_store_options_t wrong[] = {
        { .bytes = 1000 }, { .bytes = UINT64_C(1) << 40 }, { .bytes = 1 << 20, .threads = 65537 },
        { .bytes = 1 << 20, .roots = 1 << 20 }, { .bytes = 1 << 20, .objects = UINT64_C(1) << 33 },
        { .bytes = 1 << 20, .hosts = (const int[]){ 5 }, .nhosts = 1 },
        { .bytes = 1 << 20, .hosts = (const int[]){ 0, 0 }, .nhosts = 2 },
        { .bytes = 1 << 20, .hosts = (const int[]){ 0 }, .nhosts = 0 },
    };
    loco_store_t *store;

    (void)arg;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(loco_store_create(rt, NULL, "wrong", all, &wrong[i], &store), LOCO_ERR_ARG);
    CHECK_EQ(loco_store_create(rt, NULL, "wrong", all, NULL, &store), LOCO_ERR_ARG);
    CHECK_OK(loco_store_create(rt, NULL, "differs", all,
                               &(loco_store_options_t){ .bytes = 1 << 20,
                                                        .hosts = (const int[]){ rank },
                                                        .nhosts = 1 }, &store));
    CHECK_EQ(loco_runtime_wait_ready(rt, LOCO_FOREVER), LOCO_ERR_MISMATCH);
    loco_store_destroy(store);
    loco_store_destroy(NULL);
    loco_tx_close(NULL);
    return 0;
}

Test(store, refuses_what_makes_no_sense, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, mistakes_body, NULL), 0);
}

/* ---- transfers, and one who dies ---- */

#define ACCOUNTS 40u
#define START 1000

struct transfers {
    loco_store_t *store;
    int rank, rounds;
    bool killed;                /* after so many of its rounds */
};

struct transfer {
    loco_object_t from, to;
    int64_t amount;
};

static int transfer(loco_tx_t *tx, void *arg)
{
    const struct transfer *t = arg;
    int64_t from, to;
    int status = loco_tx_read(tx, t->from, &from, sizeof from);

    if (status == LOCO_OK)
        status = loco_tx_read(tx, t->to, &to, sizeof to);
    if (status != LOCO_OK)
        return status;
    from -= t->amount;
    to += t->amount;
    status = loco_tx_write(tx, t->from, &from, sizeof from);
    return status == LOCO_OK ? loco_tx_write(tx, t->to, &to, sizeof to) : status;
}

static int add_up(loco_tx_t *tx, void *arg)
{
    const loco_store_t *store = ((void **)arg)[0];
    int64_t *sum = ((void **)arg)[1], one;
    int status = LOCO_OK;

    *sum = 0;
    for (uint64_t i = 0; i < ACCOUNTS && status == LOCO_OK; i++) {
        status = loco_tx_read(tx, loco_store_root(store, i), &one, sizeof one);
        *sum += status == LOCO_OK ? one : 0;
    }
    return status;
}

static int pay_in(loco_tx_t *tx, void *arg)
{
    int64_t start = START;
    int status = LOCO_OK;

    for (uint64_t i = 0; i < ACCOUNTS && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(arg, i), &start, sizeof start);
    return status;
}

static int transfers(void *arg, int thread)
{
    const struct transfers *t = arg;
    uint64_t random = (uint64_t)(t->rank * 100 + thread + 1);
    void *sums[2];
    loco_tx_t *tx;
    int64_t sum;

    CHECK_OK(loco_tx_open(t->store, &tx));
    sums[0] = t->store;
    sums[1] = &sum;
    for (int i = 0; i < t->rounds || t->killed; i++) {
        uint64_t from = run_random(&random) % ACCOUNTS;
        uint64_t to = (from + 1 + run_random(&random) % (ACCOUNTS - 1)) % ACCOUNTS;
        struct transfer one = { loco_store_root(t->store, from), loco_store_root(t->store, to),
                                (int64_t)(run_random(&random) % 100) };

        CHECK_OK(loco_tx_run(tx, transfer, &one));
        if (i % 16 != 0)
            continue;
        CHECK_OK(loco_tx_run(tx, add_up, sums));
        CHECK_EQ(sum, ACCOUNTS * START);
    }
    loco_tx_close(tx);
    return 0;
}

static int transfers_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct transfers t = { .rank = rank, .rounds = run_rounds(*(int *)arg) };
    loco_store_stats_t stats;
    loco_tx_t *tx;

    CHECK_OK(make(rt, &(loco_store_options_t){ .bytes = 1 << 20 }, &t.store));
    CHECK_OK(loco_tx_open(t.store, &tx));
    if (rank == 0)
        CHECK_OK(loco_tx_run(tx, pay_in, t.store));
    MEET();
    CHECK_EQ(run_threads(2, transfers, &t), 0);
    loco_store_stats(t.store, &stats);
    CHECK(stats.commits >= 2 * (uint64_t)t.rounds);
    MEET();
    loco_tx_close(tx);
    MEET();
    loco_store_destroy(t.store);
    return 0;
}

Test(store, no_money_is_made_or_lost, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, transfers_body, &(int){ 5000 }), 0);
    for (uint64_t seed = 1; seed <= 3; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, transfers_body, &(int){ 100 }), 0);
}

static void die(int signal)
{
    kill(getpid(), SIGKILL);
    (void)signal;
}

/* Whoever kills itself does it from a signal, in the middle of whatever it does. */
struct deaths {
    int after;                  /* microseconds */
    int nhosts;                 /* the first members; all 4 of them only where memory is shared */
    _Atomic int *done;
};

static int deaths_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct deaths *d = arg;
    struct transfers t = { .rank = rank, .rounds = run_shares() ? 20000 : 200,
                           .killed = rank == 3 };
    loco_store_scavenged_t found = { 0 };
    int64_t sum = 0, start;
    void *sums[2];
    loco_tx_t *tx;

    CHECK_OK(make(rt, &(loco_store_options_t){ .bytes = 1 << 20, .nhosts = d->nhosts,
                                               .hosts = (const int[]){ 0, 1, 2, 3 } }, &t.store));
    CHECK_OK(loco_tx_open(t.store, &tx));
    sums[0] = t.store;
    sums[1] = &sum;
    if (rank == 0)
        CHECK_OK(loco_tx_run(tx, pay_in, t.store));
    MEET();
    if (rank == 3) {
        struct itimerval soon = { .it_value = { 0, d->after } };

        signal(SIGALRM, die);
        CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
        CHECK_EQ(transfers(&t, 0), 0);
    }
    CHECK_EQ(transfers(&t, 0), 0);
    start = run_now();
    while (loco_group_alive(loco_everyone(rt), 3) == LOCO_OK)
        CHECK(!run_too_long(start, INT64_C(10000000000)));
    CHECK_OK(loco_tx_run(tx, add_up, sums));
    CHECK_EQ(sum, ACCOUNTS * START);
    if (rank == 0)
        CHECK_OK(loco_store_scavenge(t.store, &found));
    CHECK(rank != 0 || found.objects == ACCOUNTS);
    CHECK_OK(loco_tx_run(tx, pay_in, t.store));
    /* Nobody leaves whose memory others still use. */
    atomic_fetch_add(d->done, 1);
    CHECK_EQ(run_await(d->done, 3), 0);
    loco_tx_close(tx);
    loco_store_destroy(t.store);
    return 0;
}

/* One is stopped for some milliseconds, wherever it is, again and again: longer than others wait.
 * They go on, and it finds its transaction undone. */
struct stops {
    _Atomic int *victim, *done, *met;   /* its process; that it is over */
};

enum { STOPS = 20, STOP_US = 8000 };

static int stop_it(void *arg, int thread)
{
    const struct stops *s = arg;

    for (int i = 0; i < STOPS && thread == 0; i++) {
        usleep((useconds_t)(500 + 137 * i));
        CHECK_EQ(kill(atomic_load(s->victim), SIGSTOP), 0);
        usleep(STOP_US);
        CHECK_EQ(kill(atomic_load(s->victim), SIGCONT), 0);
    }
    atomic_store(s->done, 1);
    return 0;
}

static int transfer_until(const struct transfers *t, const struct stops *s)
{
    struct transfers some = *t;

    for (some.rounds = 100; atomic_load(s->done) == 0;)
        CHECK_EQ(transfers(&some, 1), 0);
    return 0;
}

static int stops_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct stops *s = arg;
    struct transfers t = { .rank = rank };
    int64_t sum = 0;
    void *sums[2];
    loco_tx_t *tx;

    CHECK_OK(make(rt, &(loco_store_options_t){ .bytes = 1 << 20 }, &t.store));
    CHECK_OK(loco_tx_open(t.store, &tx));
    sums[0] = t.store;
    sums[1] = &sum;
    if (rank == 0)
        CHECK_OK(loco_tx_run(tx, pay_in, t.store));
    if (rank == 3)
        atomic_store(s->victim, getpid());
    CHECK_EQ(run_meet_alive(rt, s->met), 0);
    if (rank == 0)
        CHECK_EQ(run_threads(1, stop_it, arg), 0);
    CHECK_EQ(transfer_until(&t, s), 0);
    MEET();
    CHECK_OK(loco_tx_run(tx, add_up, sums));
    CHECK_EQ(sum, ACCOUNTS * START);
    MEET();
    loco_tx_close(tx);
    loco_store_destroy(t.store);
    return 0;
}

Test(store, who_is_stopped_begins_again, .timeout = RUN_SECONDS)
{
    struct stops s = { run_counter(), run_counter(), run_counter() };

    if (!run_shares())
        cr_skip_test("nobody answers for the memory of a process that is stopped");
    cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, stops_body, &s), 0);
}

static void kill_some(int nhosts, int times)
{
    for (int i = 0; i < times; i++) {
        struct deaths d = { 500 + 1013 * i, nhosts, run_counter() };

        cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, deaths_body, &d), 0, "killed after %d us",
                     d.after);
    }
}

Test(store, who_is_killed_leaves_nothing_half_done, .timeout = RUN_SECONDS)
{
    kill_some(3, run_shares() ? run_rounds(10) : 2);
}

Test(store, who_is_killed_leaves_its_objects_on_one_node, .timeout = RUN_SECONDS)
{
    if (!run_shares())
        cr_skip_test("no memory is shared here");
    kill_some(4, run_rounds(10));
}
