/* SPDX-License-Identifier: BSD-3-Clause */
/* RocksDB without a log. An insert does not ask whether the key is there: it has no such call. */
#include "kv_rivals.h"

#ifdef LOCO_HAVE_ROCKSDB

#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_BUFFER = 256 << 20 };

struct store {
    rocksdb_options_t *options;
    rocksdb_t *db;
    size_t key_bytes, value_bytes;
};

struct session {
    struct store *in;
    rocksdb_writeoptions_t *writing;
    rocksdb_readoptions_t *reading;
};

static void check(char *error, const char *what)
{
    if (error != NULL)
        ex_abort("RocksDB, %s: %s", what, error);
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = calloc(1, sizeof(*s));
    char *error = NULL;

    (void)most;
    (void)all;
    if (s == NULL)
        ex_abort("no memory for the store");
    s->key_bytes = (size_t)o->key_bytes;
    s->value_bytes = (size_t)o->value_bytes;
    s->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(s->options, 1);
    rocksdb_options_set_write_buffer_size(s->options, WRITE_BUFFER);
    s->db = rocksdb_open(s->options, o->at, &error);
    check(error, o->at);
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    rocksdb_close(s->db);
    rocksdb_options_destroy(s->options);
    free(s);
}

static void *attach(void *store, int window)
{
    struct session *c = calloc(1, sizeof(*c));

    (void)window;
    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    c->reading = rocksdb_readoptions_create();
    c->writing = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(c->writing, 1);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    rocksdb_writeoptions_destroy(c->writing);
    rocksdb_readoptions_destroy(c->reading);
    free(c);
}

static void get(struct session *c, struct kv_op *op)
{
    char *error = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(c->in->db, c->reading, (const char *)op->name, c->in->key_bytes,
                           &error);
    size_t bytes;

    check(error, "get");
    op->result = slice == NULL ? KV_MISSING : KV_DONE;
    if (slice == NULL)
        return;
    memcpy(op->value, rocksdb_pinnableslice_value(slice, &bytes), c->in->value_bytes);
    rocksdb_pinnableslice_destroy(slice);
}

static void put(struct session *c, struct kv_op *op)
{
    char *error = NULL;

    rocksdb_put(c->in->db, c->writing, (const char *)op->name, c->in->key_bytes, op->value,
                c->in->value_bytes, &error);
    check(error, "put");
    op->result = KV_DONE;
}

static void scan(struct session *c, struct kv_op *op)
{
    rocksdb_iterator_t *at = rocksdb_create_iterator(c->in->db, c->reading);
    uint64_t n = 0;

    for (rocksdb_iter_seek(at, (const char *)op->name, c->in->key_bytes); rocksdb_iter_valid(at);
         rocksdb_iter_next(at)) {
        size_t key_bytes, value_bytes;
        const char *key = rocksdb_iter_key(at, &key_bytes);
        const char *value = rocksdb_iter_value(at, &value_bytes);

        kv_found(op, key, key_bytes, value, value_bytes);
        if (++n == op->limit)
            break;
    }
    rocksdb_iter_destroy(at);
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

const struct kv_backend kv_rocksdb = {
    .name = "rocksdb",
    .text = "RocksDB, without a log",
    .place = "an empty folder",
    .one_process = true,
    .names = true,
    .ordered = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
};

#endif
