/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RocksDB's TransactionDB, which locks rows, without a log: a row's key is its table's number and
 * its own. What a transaction that writes reads it locks, to be serializable; one that only reads
 * has a snapshot.
 */
#include "tx_rivals.h"

#ifdef LOCO_HAVE_ROCKSDB

#include <rocksdb/c.h>
#include <stdlib.h>

enum { KEY_BYTES = 9, WRITE_BUFFER = 256 << 20 };

struct store {
    rocksdb_options_t *options;
    rocksdb_transactiondb_options_t *db_options;
    rocksdb_transactiondb_t *db;
    size_t bytes[TX_MOST_TABLES];
};

struct session {
    struct store *in;
    rocksdb_writeoptions_t *writing;
    rocksdb_readoptions_t *reading, *of_snapshot;
    rocksdb_transaction_options_t *options;
    rocksdb_transaction_t *txn;             /* used again for each transaction */
    bool only_reads;
};

static void check(char *error, const char *what)
{
    if (error != NULL)
        ex_abort("RocksDB, %s: %s", what, error);
}

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    struct store *s = calloc(1, sizeof(*s));
    char *error = NULL;

    if (s == NULL)
        ex_abort("no memory for the store");
    for (int i = 0; i < w->tables; i++)
        s->bytes[i] = w->table[i].bytes;
    s->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(s->options, 1);
    rocksdb_options_set_write_buffer_size(s->options, WRITE_BUFFER);
    s->db_options = rocksdb_transactiondb_options_create();
    s->db = rocksdb_transactiondb_open(s->options, s->db_options, o->path, &error);
    check(error, o->path);
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    rocksdb_transactiondb_close(s->db);
    rocksdb_transactiondb_options_destroy(s->db_options);
    rocksdb_options_destroy(s->options);
    free(s);
}

static void *attach(void *store)
{
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    c->reading = rocksdb_readoptions_create();
    c->of_snapshot = rocksdb_readoptions_create();
    c->writing = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(c->writing, 1);
    c->options = rocksdb_transaction_options_create();
    rocksdb_transaction_options_set_deadlock_detect(c->options, 1);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    if (c->txn != NULL)
        rocksdb_transaction_destroy(c->txn);
    rocksdb_transaction_options_destroy(c->options);
    rocksdb_writeoptions_destroy(c->writing);
    rocksdb_readoptions_destroy(c->of_snapshot);
    rocksdb_readoptions_destroy(c->reading);
    free(c);
}

static void run_reading(struct session *c, struct tx *tx, tx_body_fn *body, struct tx_call *call)
{
    const rocksdb_snapshot_t *snapshot = rocksdb_transactiondb_create_snapshot(c->in->db);

    rocksdb_readoptions_set_snapshot(c->of_snapshot, snapshot);
    tx_call_body(tx, body, call);
    rocksdb_transactiondb_release_snapshot(c->in->db, snapshot);
}

/* Errors are texts alone. Those of a conflict begin like this. */
static int outcome(char *error, const char *what)
{
    static const char *const conflicts[] = { "Resource busy", "Operation timed out",
                                             "Operation failed. Try again" };

    if (error == NULL)
        return TX_DONE;
    for (size_t i = 0; i < sizeof(conflicts) / sizeof(conflicts[0]); i++) {
        if (strncmp(error, conflicts[i], strlen(conflicts[i])) == 0) {
            rocksdb_free(error);
            return TX_AGAIN;
        }
    }
    check(error, what);
    return TX_DONE;
}

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct tx tx = { &tx_rocksdb, session };
    uint64_t again = 0;

    c->only_reads = only_reads;
    if (only_reads) {
        run_reading(c, &tx, body, call);
        return 0;
    }
    for (;; again++) {
        char *error = NULL;

        c->txn = rocksdb_transaction_begin(c->in->db, c->writing, c->options, c->txn);
        if (tx_call_body(&tx, body, call) == TX_DONE) {
            rocksdb_transaction_commit(c->txn, &error);
            if (outcome(error, "commit") == TX_DONE)
                return again;
            error = NULL;
        }
        rocksdb_transaction_rollback(c->txn, &error);
        check(error, "rollback");
    }
}

static void make_key(char *bytes, int table, uint64_t key)
{
    bytes[0] = (char)table;
    for (int i = 1; i < KEY_BYTES; i++)
        bytes[i] = (char)(key >> (8 * (KEY_BYTES - 1 - i)));
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;
    char k[KEY_BYTES], *value, *error = NULL;
    size_t length;
    int status;

    make_key(k, table, key);
    if (c->only_reads)
        value = rocksdb_transactiondb_get(c->in->db, c->of_snapshot, k, sizeof(k), &length,
                                          &error);
    else
        value = rocksdb_transaction_get_for_update(c->txn, c->reading, k, sizeof(k), &length,
                                                   to_write, &error);
    status = outcome(error, "get");
    if (status != TX_DONE || value == NULL)
        return status == TX_DONE ? TX_NO_ROW : status;
    memcpy(row, value, c->in->bytes[table]);
    rocksdb_free(value);
    return TX_DONE;
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;
    char k[KEY_BYTES], *error = NULL;

    make_key(k, table, key);
    rocksdb_transaction_put(c->txn, k, sizeof(k), row, c->in->bytes[table], &error);
    return outcome(error, "put");
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct session *c = session;
    char k[KEY_BYTES], *error = NULL;

    make_key(k, table, key);
    rocksdb_transaction_delete(c->txn, k, sizeof(k), &error);
    return outcome(error, "delete");
}

const struct tx_backend tx_rocksdb = {
    .name = "rocksdb",
    .text = "RocksDB's TransactionDB, without a log",
    .one_process = true,
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
