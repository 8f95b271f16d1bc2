/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LMDB: keys of 8 bytes are integers, others strings. Any number of readers, one writer at a time;
 * each operation is a transaction. The file is mapped for writing and nothing is synced.
 */
#include "kv_rivals.h"

#ifdef LOCO_HAVE_LMDB

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

enum { MORE_BYTES = 256 << 20, ROW_BYTES = 64 };

struct store {
    MDB_env *env;
    MDB_dbi table;
    size_t key_bytes, value_bytes;
};

struct session {
    struct store *in;
    MDB_txn *reader;        /* kept, and renewed for each operation; */
    MDB_cursor *cursor;     /* likewise */
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        ex_abort("LMDB, %s: %s", what, mdb_strerror(rc));
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = calloc(1, sizeof(*s));
    unsigned flags = MDB_CREATE | (o->key_bytes == KV_NUMBER_KEY ? MDB_INTEGERKEY : 0);
    MDB_txn *txn;

    (void)most;
    if (s == NULL)
        ex_abort("no memory for the store");
    s->key_bytes = (size_t)o->key_bytes;
    s->value_bytes = (size_t)o->value_bytes;
    check(mdb_env_create(&s->env), "create");
    check(mdb_env_set_mapsize(s->env, 3 * all * (s->key_bytes + s->value_bytes + ROW_BYTES)
                                      + MORE_BYTES), "size");
    check(mdb_env_open(s->env, o->at, MDB_NOSYNC | MDB_WRITEMAP | MDB_NOTLS, 0600), o->at);
    check(mdb_txn_begin(s->env, NULL, 0, &txn), "begin");
    check(mdb_dbi_open(txn, NULL, flags, &s->table), "open");
    check(mdb_txn_commit(txn), "commit");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    mdb_env_close(s->env);
    free(s);
}

static void *attach(void *store, int window)
{
    struct session *c = calloc(1, sizeof(*c));

    (void)window;
    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(mdb_txn_begin(c->in->env, NULL, MDB_RDONLY, &c->reader), "begin");
    check(mdb_cursor_open(c->reader, c->in->table, &c->cursor), "cursor");
    mdb_txn_reset(c->reader);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    mdb_cursor_close(c->cursor);
    mdb_txn_abort(c->reader);
    free(c);
}

/* Integers are in the order of the processor. */
static MDB_val key_of(const struct store *s, struct kv_op *op)
{
    return s->key_bytes == KV_NUMBER_KEY ? (MDB_val){ sizeof(op->key), &op->key }
                                         : (MDB_val){ s->key_bytes, op->name };
}

static void get(struct session *c, struct kv_op *op)
{
    MDB_val key = key_of(c->in, op), value;
    int rc;

    check(mdb_txn_renew(c->reader), "renew");
    rc = mdb_get(c->reader, c->in->table, &key, &value);
    op->result = rc == MDB_NOTFOUND ? KV_MISSING : KV_DONE;
    if (rc != MDB_NOTFOUND) {
        check(rc, "get");
        memcpy(op->value, value.mv_data, c->in->value_bytes);
    }
    mdb_txn_reset(c->reader);
}

static void scan(struct session *c, struct kv_op *op)
{
    bool numbers = c->in->key_bytes == KV_NUMBER_KEY;
    MDB_val key = key_of(c->in, op), value;
    unsigned char name[KV_NUMBER_KEY];
    uint64_t number;
    int rc;

    check(mdb_txn_renew(c->reader), "renew");
    check(mdb_cursor_renew(c->reader, c->cursor), "renew");
    rc = mdb_cursor_get(c->cursor, &key, &value, MDB_SET_RANGE);
    for (uint64_t n = 0; rc == 0;) {
        if (numbers) {
            memcpy(&number, key.mv_data, sizeof(number));
            kv_key_make(name, sizeof(name), number);
        }
        kv_found(op, numbers ? name : key.mv_data, key.mv_size, value.mv_data, value.mv_size);
        if (++n == op->limit)
            break;
        rc = mdb_cursor_get(c->cursor, &key, &value, MDB_NEXT);
    }
    if (rc != MDB_NOTFOUND)
        check(rc, "cursor");
    mdb_txn_reset(c->reader);
}

static void put(struct session *c, struct kv_op *op)
{
    MDB_val key = key_of(c->in, op), value = { c->in->value_bytes, op->value };
    MDB_txn *txn;
    int rc;

    check(mdb_txn_begin(c->in->env, NULL, 0, &txn), "begin");
    rc = mdb_put(txn, c->in->table, &key, &value, op->kind == KV_INSERT ? MDB_NOOVERWRITE : 0);
    op->result = rc == MDB_KEYEXIST ? KV_EXISTS : KV_DONE;
    if (rc != MDB_KEYEXIST)
        check(rc, "put");
    check(mdb_txn_commit(txn), "commit");
}

static bool start(void *session, struct kv_op *op)
{
    switch (op->kind) {
    case KV_READ: get(session, op); break;
    case KV_SCAN: scan(session, op); break;
    default: put(session, op);
    }
    return true;
}

const struct kv_backend kv_lmdb = {
    .name = "lmdb",
    .text = "LMDB, not synced",
    .place = "an empty folder",
    .names = true,
    .ordered = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
};

#endif
