/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows in a store of LOCO: each row is an object. Rows are numbered, so no table of handles is
 * needed: they are roots of the store, whose handles every process can compute, one table after the
 * other. A row that is not there is a root without a value.
 */
#include "tx_example.h"

#include <loco/mpi.h>
#include <loco/tx.h>

#include <stdlib.h>

enum { BLOCK_BYTES = 128 };    /* more than a row takes at its host */

struct store {
    loco_runtime_t *rt;
    loco_store_t *store;
    uint64_t first[TX_MOST_TABLES];         /* root of each table's first row */
    size_t bytes[TX_MOST_TABLES];
};

struct session {
    const struct store *in;
    loco_tx_t *tx;
};

struct attempt {
    struct tx tx;
    tx_body_fn *body;
    struct tx_call *call;
    uint64_t begun;
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    struct store *s = calloc(1, sizeof(*s));
    loco_store_options_t options = { .threads = (int)o->clients };
    uint64_t rows = 0, hosts = (uint64_t)ex_size();

    if (s == NULL)
        ex_abort("no memory for the store");
    for (int i = 0; i < w->tables; i++) {
        s->first[i] = rows;
        s->bytes[i] = w->table[i].bytes;
        rows += tx_rows(o, &w->table[i]);
    }
    options.roots = rows;
    options.objects = rows / hosts + 1024;
    options.bytes = options.objects * BLOCK_BYTES + (UINT64_C(16) << 20);
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &s->rt), "loco_runtime_open_mpi");
    check(loco_store_create(s->rt, w->name, "rows", loco_everyone(s->rt), &options, &s->store),
          "loco_store_create");
    check(loco_runtime_wait_ready(s->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_store_destroy(s->store);
    loco_runtime_close_mpi(s->rt);
    free(s);
}

static int64_t undone(void *store)
{
    struct store *s = store;
    loco_store_stats_t stats;

    loco_store_stats(s->store, &stats);
    return (int64_t)stats.aborted_by_others;
}

static void *attach(void *store)
{
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(loco_tx_open(c->in->store, &c->tx), "loco_tx_open");
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    loco_tx_close(c->tx);
    free(c);
}

static int attempt(loco_tx_t *tx, void *arg)
{
    struct attempt *a = arg;

    (void)tx;
    a->begun++;
    return tx_call_body(&a->tx, a->body, a->call) == TX_AGAIN ? LOCO_ERR_CONFLICT : LOCO_OK;
}

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct attempt a = { .tx = { &tx_loco, session }, .body = body, .call = call };

    (void)only_reads;
    check(loco_tx_run(c->tx, attempt, &a), "a transaction");
    return a.begun - 1;
}

static loco_object_t object_of(const struct session *c, int table, uint64_t key)
{
    return loco_store_root(c->in->store, c->in->first[table] + key);
}

static int outcome(int status, const char *what)
{
    switch (status) {
    case LOCO_OK: return TX_DONE;
    case LOCO_ERR_NOT_FOUND: return TX_NO_ROW;
    case LOCO_ERR_CONFLICT: return TX_AGAIN;
    default: ex_abort("%s: %s", what, loco_strerror(status));
    }
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;

    (void)to_write;
    return outcome(loco_tx_read(c->tx, object_of(c, table, key), row, c->in->bytes[table]),
                   "loco_tx_read");
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;

    return outcome(loco_tx_write(c->tx, object_of(c, table, key), row, c->in->bytes[table]),
                   "loco_tx_write");
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct session *c = session;

    return outcome(loco_tx_free(c->tx, object_of(c, table, key)), "loco_tx_free");
}

const struct tx_backend tx_loco = {
    .name = "loco",
    .text = "objects of a LOCO store",
    .open = open_store,
    .close = close_store,
    .undone = undone,
    .attach = attach,
    .detach = detach,
    .run = run,
    .read = read_row,
    .write = write_row,
    .erase = erase_row,
};
