/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows in a store of LOCO: each row is an object. Rows are numbered, so no table of handles is
 * needed: they are roots of the store, whose handles every process can compute, one table after the
 * other. A row that is not there is a root without a value.
 */
#include "tx_loco.h"

#include <stdlib.h>

enum { BLOCK_BYTES = 128 };    /* more than a row takes at its host */

struct attempt {
    struct tx tx;
    tx_body_fn *body;
    struct tx_call *call;
    uint64_t begun;
};

/* ---- any store of LOCO ---- */

void tx_loco_check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

struct tx_loco *tx_loco_open(const struct tx_options *o, const struct tx_workload *w,
                             loco_store_options_t *options)
{
    struct tx_loco *s = calloc(1, sizeof(*s));

    if (s == NULL)
        ex_abort("no memory for the store");
    s->backend = o->backend;
    s->workload = w;
    options->threads = (int)o->clients;
    tx_loco_check(loco_runtime_open_mpi(MPI_COMM_WORLD, &s->rt), "loco_runtime_open_mpi");
    tx_loco_check(loco_store_create(s->rt, w->name, "rows", loco_everyone(s->rt), options,
                                    &s->store), "loco_store_create");
    tx_loco_check(loco_runtime_wait_ready(s->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    return s;
}

void tx_loco_close(void *store)
{
    struct tx_loco *s = store;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_store_destroy(s->store);
    loco_runtime_close_mpi(s->rt);
    free(s);
}

int64_t tx_loco_undone(void *store)
{
    struct tx_loco *s = store;
    loco_store_stats_t stats;

    loco_store_stats(s->store, &stats);
    return (int64_t)stats.aborted_by_others;
}

void *tx_loco_attach(void *store)
{
    struct tx_loco_session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    tx_loco_check(loco_tx_open(c->in->store, &c->tx), "loco_tx_open");
    return c;
}

void tx_loco_detach(void *session)
{
    struct tx_loco_session *c = session;

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

uint64_t tx_loco_run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct tx_loco_session *c = session;
    struct attempt a = { .tx = { c->in->backend, session }, .body = body, .call = call };

    (void)only_reads;
    tx_loco_check(loco_tx_run(c->tx, attempt, &a), "a transaction");
    return a.begun - 1;
}

int tx_loco_outcome(int status, const char *what)
{
    switch (status) {
    case LOCO_OK: return TX_DONE;
    case LOCO_ERR_NOT_FOUND: return TX_NO_ROW;
    case LOCO_ERR_CONFLICT: return TX_AGAIN;
    default: ex_abort("%s: %s", what, loco_strerror(status));
    }
}

/* ---- rows that are objects ---- */

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    uint64_t first[TX_MOST_TABLES], rows = 0, hosts = (uint64_t)ex_size();
    loco_store_options_t options = { .bytes = 0 };
    struct tx_loco *s;

    for (int i = 0; i < w->tables; i++) {
        first[i] = rows;
        rows += tx_rows(o, &w->table[i]);
    }
    options.roots = rows;
    options.objects = rows / hosts + 1024;
    options.bytes = options.objects * BLOCK_BYTES + (UINT64_C(16) << 20);
    s = tx_loco_open(o, w, &options);
    memcpy(s->first, first, (size_t)w->tables * sizeof(first[0]));
    return s;
}

static loco_object_t object_of(const struct tx_loco_session *c, int table, uint64_t key)
{
    return loco_store_root(c->in->store, c->in->first[table] + key);
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct tx_loco_session *c = session;
    size_t bytes = c->in->workload->table[table].bytes;

    (void)to_write;
    return tx_loco_outcome(loco_tx_read(c->tx, object_of(c, table, key), row, bytes),
                           "loco_tx_read");
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct tx_loco_session *c = session;
    size_t bytes = c->in->workload->table[table].bytes;

    return tx_loco_outcome(loco_tx_write(c->tx, object_of(c, table, key), row, bytes),
                           "loco_tx_write");
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct tx_loco_session *c = session;

    return tx_loco_outcome(loco_tx_free(c->tx, object_of(c, table, key)), "loco_tx_free");
}

const struct tx_backend tx_loco = {
    .name = "loco",
    .text = "objects of a LOCO store, found by their numbers",
    .open = open_store,
    .close = tx_loco_close,
    .undone = tx_loco_undone,
    .attach = tx_loco_attach,
    .detach = tx_loco_detach,
    .run = tx_loco_run,
    .read = read_row,
    .write = write_row,
    .erase = erase_row,
};
