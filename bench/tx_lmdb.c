/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LMDB: a table is a database of integer keys. Any number of readers, one writer at a time. The
 * file is mapped for writing and nothing is synced.
 */
#include "tx_rivals.h"

#ifdef LOCO_HAVE_LMDB

#include <lmdb.h>
#include <stdlib.h>

enum { ROW_BYTES = 200, MORE_BYTES = 256 << 20 };

struct store {
    MDB_env *env;
    MDB_dbi table[TX_MOST_TABLES];
    size_t bytes[TX_MOST_TABLES];
};

struct session {
    struct store *in;
    MDB_txn *reader;    /* kept, and renewed for each transaction */
    MDB_txn *txn;       /* under way */
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        ex_abort("LMDB, %s: %s", what, mdb_strerror(rc));
}

static void open_tables(struct store *s, const struct tx_workload *w)
{
    MDB_txn *txn;

    check(mdb_txn_begin(s->env, NULL, 0, &txn), "begin");
    for (int i = 0; i < w->tables; i++) {
        s->bytes[i] = w->table[i].bytes;
        check(mdb_dbi_open(txn, w->table[i].name, MDB_CREATE | MDB_INTEGERKEY, &s->table[i]),
              w->table[i].name);
    }
    check(mdb_txn_commit(txn), "commit");
}

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    struct store *s = calloc(1, sizeof(*s));
    size_t rows = 0;

    if (s == NULL)
        ex_abort("no memory for the store");
    for (int i = 0; i < w->tables; i++)
        rows += tx_rows(o, &w->table[i]);
    check(mdb_env_create(&s->env), "create");
    check(mdb_env_set_mapsize(s->env, rows * ROW_BYTES + MORE_BYTES), "size");
    check(mdb_env_set_maxdbs(s->env, TX_MOST_TABLES), "tables");
    check(mdb_env_open(s->env, o->path, MDB_NOSYNC | MDB_WRITEMAP, 0600), o->path);
    open_tables(s, w);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    mdb_env_close(s->env);
    free(s);
}

static void *attach(void *store)
{
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(mdb_txn_begin(c->in->env, NULL, MDB_RDONLY, &c->reader), "begin");
    mdb_txn_reset(c->reader);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    mdb_txn_abort(c->reader);
    free(c);
}

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct tx tx = { &tx_lmdb, session };

    if (only_reads) {
        check(mdb_txn_renew(c->reader), "renew");
        c->txn = c->reader;
        tx_call_body(&tx, body, call);
        mdb_txn_reset(c->reader);
        return 0;
    }
    check(mdb_txn_begin(c->in->env, NULL, 0, &c->txn), "begin");
    tx_call_body(&tx, body, call);
    check(mdb_txn_commit(c->txn), "commit");
    return 0;
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;
    MDB_val k = { sizeof(key), &key }, v;
    int rc = mdb_get(c->txn, c->in->table[table], &k, &v);

    (void)to_write;
    if (rc == MDB_NOTFOUND)
        return TX_NO_ROW;
    check(rc, "get");
    memcpy(row, v.mv_data, c->in->bytes[table]);
    return TX_DONE;
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;
    MDB_val k = { sizeof(key), &key }, v = { c->in->bytes[table], (void *)(uintptr_t)row };

    check(mdb_put(c->txn, c->in->table[table], &k, &v, 0), "put");
    return TX_DONE;
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct session *c = session;
    MDB_val k = { sizeof(key), &key };

    check(mdb_del(c->txn, c->in->table[table], &k, NULL), "del");
    return TX_DONE;
}

const struct tx_backend tx_lmdb = {
    .name = "lmdb",
    .text = "LMDB, not synced",
    .path = "an empty folder",
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .run = run,
    .read = read_row,
    .write = write_row,
    .erase = erase_row,
};

#endif
