/* SPDX-License-Identifier: BSD-3-Clause */

/* One of the processes: it loads its part of the accounts, makes transactions until the parent says
 * that it is enough, then looks at what the victim has left. */

#include "smallbank.h"

#include <stdio.h>
#include <unistd.h>

#include "../../mpi_examples/smallbank.h"
#include "run.h"

enum { ACCOUNTS = 1000, HOT = 40, ROWS_AT_ONCE = 32, ROWS = 2 * ACCOUNTS };

#define PART_BYTES (UINT64_C(256) << 10)        /* of the store, at each host */
#define BLOCK_BYTES 64u                         /* with a value of 8 bytes in it */

struct client {
    struct bank *bank;
    struct bank_member *me;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    int rank, hosts;
    uint64_t random;
    struct tx under_way;
    int kind[100];                      /* of transactions, as often as they are made */
};

/* ---- SmallBank's rows ---- */

static loco_object_t object_of(const struct client *c, int table, uint64_t key)
{
    return loco_store_root(c->store, (uint64_t)table * ACCOUNTS + key);
}

static int outcome(int status)
{
    if (status != LOCO_OK && status != LOCO_ERR_CONFLICT && status != LOCO_ERR_NOT_FOUND)
        fprintf(stderr, "a call returned %s\n", loco_strerror(status));
    return status == LOCO_OK ? TX_DONE : status == LOCO_ERR_NOT_FOUND ? TX_NO_ROW : TX_AGAIN;
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct client *c = session;

    (void)to_write;
    return outcome(loco_tx_read(c->tx, object_of(c, table, key), row, sizeof(int64_t)));
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct client *c = session;

    return outcome(loco_tx_write(c->tx, object_of(c, table, key), row, sizeof(int64_t)));
}

static const struct tx_backend backend = {
    .name = "store", .read = read_row, .write = write_row,
};

/* ---- transactions ---- */

struct attempt {
    struct client *c;
    const struct tx_kind *kind;
    struct tx_call call;
};

static int attempt(loco_tx_t *tx, void *arg)
{
    struct attempt *a = arg;

    (void)tx;
    if (tx_call_body(&a->c->under_way, a->kind->body, &a->call) == TX_AGAIN)
        return LOCO_ERR_CONFLICT;
    if (a->call.wrong)
        return LOCO_ERR_PROTOCOL;
    /* Whoever dies in the commit leaves this undone, or done. */
    atomic_store(&a->c->me->adding, a->call.added[0]);
    return LOCO_OK;
}

static int transact(struct client *c)
{
    const struct tx_options options = { .size = ACCOUNTS, .hot = HOT };
    struct attempt a = { .c = c, .call = { .kind = c->kind[tx_below(&c->random, 100)] } };
    uint32_t n = atomic_load_explicit(&c->me->n, memory_order_relaxed);

    a.kind = &smallbank_workload.kind[a.call.kind];
    smallbank_workload.draw(&options, &c->random, &a.call);
    CHECK_OK(loco_tx_run(c->tx, attempt, &a));
    c->me->added += a.call.added[0];
    atomic_store_explicit(&c->me->adding, 0, memory_order_release);
    if (n < BANK_STAMPS) {
        c->me->stamp[n] = (uint32_t)(run_now() - atomic_load_explicit(&c->bank->start,
                                                                      memory_order_relaxed));
        atomic_store_explicit(&c->me->n, n + 1, memory_order_release);
    }
    return 0;
}

static bool goes_on(const struct client *c)
{
    int64_t until = atomic_load_explicit(&c->bank->until, memory_order_relaxed);

    if (c->rank == c->bank->victim && atomic_load(&c->bank->leave) != 0)
        return false;
    return until == 0 || run_now() < until;
}

static int work(struct client *c)
{
    CHECK_EQ(run_await(&c->bank->go, 1), 0);
    while (goes_on(c))
        CHECK_EQ(transact(c), 0);
    /* So that each has one after the moment, however long it did not run. */
    if (c->rank != c->bank->victim)
        CHECK_EQ(transact(c), 0);
    loco_store_stats(c->store, &c->me->stats);
    return 0;
}

/* ---- rows before and after ---- */

struct rows {
    struct client *c;
    uint64_t from, to;
    int64_t sum;
};

static bool initial(uint64_t row, int64_t *value)
{
    return smallbank_workload.initial((int)(row / ACCOUNTS), row % ACCOUNTS, value);
}

static int load_rows(loco_tx_t *tx, void *arg)
{
    const struct rows *r = arg;
    int status = LOCO_OK;

    for (uint64_t row = r->from; row < r->to && status == LOCO_OK; row++) {
        int64_t value = 0;

        if (initial(row, &value))
            status = loco_tx_write(tx, loco_store_root(r->c->store, row), &value, sizeof value);
    }
    return status;
}

static int add_rows(loco_tx_t *tx, void *arg)
{
    struct rows *r = arg;
    int status = LOCO_OK;

    r->sum = 0;
    for (uint64_t row = r->from; row < r->to && status == LOCO_OK; row++) {
        int64_t value = 0;

        status = loco_tx_read(tx, loco_store_root(r->c->store, row), &value, sizeof value);
        r->sum += value;
    }
    return status;
}

/* Nobody else is at them. */
static int each_row(struct client *c, loco_tx_body_fn *body, int64_t *sum)
{
    *sum = 0;
    for (uint64_t row = 0; row < ROWS; row += ROWS_AT_ONCE) {
        struct rows r = { c, row, row + ROWS_AT_ONCE < ROWS ? row + ROWS_AT_ONCE : ROWS, 0 };

        CHECK_OK(loco_tx_run(c->tx, body, &r));
        *sum += r.sum;
    }
    return 0;
}

static int load(struct client *c)
{
    int64_t nothing, value;

    for (uint64_t row = 0; row < ROWS; row++)
        if (initial(row, &value))
            c->bank->at_first += value;
    return each_row(c, load_rows, &nothing);
}

/* ---- what is left ---- */

static int make_one(loco_tx_t *tx, void *arg)
{
    int64_t value = 0;
    loco_object_t object;

    return loco_tx_new(tx, *(int *)arg, &value, sizeof value, &object);
}

/* Objects until there is no room for one more: all memory that nobody uses becomes theirs, for each
 * process fills first what it has by itself. */
static int fill(struct client *c)
{
    for (int host = 0; host < c->hosts; host++)
        for (;;) {
            int status = loco_tx_run(c->tx, make_one, &host);

            if (status == LOCO_ERR_FULL)
                break;
            CHECK_OK(status);
            c->me->filled++;
        }
    return 0;
}

static bool is_victim_dead(const struct client *c)
{
    return loco_group_alive(loco_everyone(c->rt), c->bank->victim) != LOCO_OK;
}

static int count_again(struct client *c)
{
    CHECK_EQ(each_row(c, add_rows, &c->bank->found), 0);
    CHECK_OK(loco_store_scavenge(c->store, &c->bank->first));
    CHECK_OK(loco_store_scavenge(c->store, &c->bank->again));
    return 0;
}

/* Those who live, one after the other; nobody else is in a transaction meanwhile. */
static int look(struct client *c)
{
    struct bank *b = c->bank;
    bool killed = b->event == BANK_KILLED;
    int living = killed ? BANK_PROCESSES - 1 : BANK_PROCESSES;
    int turn = killed && c->rank > b->victim ? c->rank - 1 : c->rank;
    int64_t start = run_now();

    while (killed && !is_victim_dead(c)) {
        CHECK(!run_too_long(start, RUN_PATIENCE));
        usleep(100);
    }
    atomic_fetch_add(&b->ended, 1);
    CHECK_EQ(run_await(&b->ended, living), 0);
    if (turn == 0)
        CHECK_EQ(count_again(c), 0);
    CHECK_EQ(run_await(&b->turn, turn), 0);
    CHECK_EQ(fill(c), 0);
    atomic_fetch_add(&b->turn, 1);
    return run_await(&b->turn, living);
}

/* ---- the process ---- */

static int open_store(struct client *c, const struct loco_bootstrap *boot)
{
    static const int hosts[BANK_PROCESSES] = { 0, 1, 2, 3 };
    loco_store_options_t options = { .bytes = PART_BYTES, .roots = ROWS, .hosts = hosts,
                                     .nhosts = c->hosts };
    struct loco_bootstrap mine = *boot;

    options.objects = PART_BYTES / BLOCK_BYTES + ROWS;
    c->bank->blocks = (uint64_t)c->hosts * PART_BYTES / BLOCK_BYTES;
    mine.log = mine.log == NULL ? run_log : mine.log;
    run_on_node(c->rank);
    CHECK_OK(loco_runtime_open(&mine, &c->rt));
    CHECK_OK(loco_store_create(c->rt, NULL, "bank", loco_everyone(c->rt), &options, &c->store));
    CHECK_OK(loco_runtime_wait_ready(c->rt, LOCO_FOREVER));
    CHECK_OK(loco_tx_open(c->store, &c->tx));
    return 0;
}

static void shuffle(struct client *c)
{
    int n = 0;

    for (int kind = 0; kind < smallbank_workload.kinds; kind++)
        for (int i = 0; i < smallbank_workload.kind[kind].percent; i++)
            c->kind[n++] = kind;
}

int bank_member(const struct loco_bootstrap *boot, void *arg)
{
    struct bank *b = arg;
    int rank = boot->exchange.rank;
    struct client c = { .bank = b, .me = &b->member[rank], .rank = rank,
                        .hosts = run_shares() ? BANK_PROCESSES : BANK_PROCESSES - 1,
                        .random = tx_mix(b->seed * 1000003 + (uint64_t)rank) | 1 };

    c.under_way = (struct tx){ &backend, &c };
    shuffle(&c);
    CHECK_EQ(open_store(&c, boot), 0);
    if (rank == 0)
        CHECK_EQ(load(&c), 0);
    CHECK_OK(run_meet(c.rt));
    atomic_fetch_add(&b->ready, 1);
    CHECK_EQ(work(&c), 0);
    CHECK_EQ(look(&c), 0);
    loco_tx_close(c.tx);
    loco_store_destroy(c.store);
    loco_runtime_close(c.rt);
    return 0;
}
