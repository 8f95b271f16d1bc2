/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WiredTiger in memory: keys of 8 bytes are numbers, others strings. Each operation is a
 * transaction by itself; of two that write the same row one is rolled back and begins again.
 */
#include "kv_rivals.h"

#ifdef LOCO_HAVE_WIREDTIGER

#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

static const char table[] = "table:rows";

struct store {
    WT_CONNECTION *connection;
    size_t key_bytes, value_bytes;
};

struct session {
    struct store *in;
    WT_SESSION *wt;
    WT_CURSOR *cursor, *inserts;    /* the second one refuses keys that are there */
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        ex_abort("WiredTiger, %s: %s", what, wiredtiger_strerror(rc));
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = calloc(1, sizeof(*s));
    WT_SESSION *session;

    (void)most;
    (void)all;
    if (s == NULL)
        ex_abort("no memory for the store");
    s->key_bytes = (size_t)o->key_bytes;
    s->value_bytes = (size_t)o->value_bytes;
    check(wiredtiger_open(o->at, NULL, "create,in_memory=true,cache_size=4GB", &s->connection),
          o->at);
    check(s->connection->open_session(s->connection, NULL, NULL, &session), "open_session");
    check(session->create(session, table, s->key_bytes == KV_NUMBER_KEY
                          ? "key_format=Q,value_format=u" : "key_format=u,value_format=u"),
          "create");
    check(session->close(session, NULL), "close");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    check(s->connection->close(s->connection, "leak_memory=true"), "close");
    free(s);
}

static void *attach(void *store, int window)
{
    struct session *c = calloc(1, sizeof(*c));

    (void)window;
    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(c->in->connection->open_session(c->in->connection, NULL, NULL, &c->wt),
          "open_session");
    check(c->wt->open_cursor(c->wt, table, NULL, NULL, &c->cursor), "open_cursor");
    check(c->wt->open_cursor(c->wt, table, NULL, "overwrite=false", &c->inserts), "open_cursor");
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    check(c->wt->close(c->wt, NULL), "close");
    free(c);
}

static void set_key(const struct session *c, WT_CURSOR *cursor, struct kv_op *op)
{
    WT_ITEM item = { .data = op->name, .size = c->in->key_bytes };

    if (c->in->key_bytes == KV_NUMBER_KEY)
        cursor->set_key(cursor, op->key);
    else
        cursor->set_key(cursor, &item);
}

static void get(struct session *c, struct kv_op *op)
{
    WT_CURSOR *cursor = c->cursor;
    WT_ITEM item;
    int rc;

    set_key(c, cursor, op);
    rc = cursor->search(cursor);
    op->result = rc == WT_NOTFOUND ? KV_MISSING : KV_DONE;
    if (rc != WT_NOTFOUND) {
        check(rc, "search");
        check(cursor->get_value(cursor, &item), "get_value");
        memcpy(op->value, item.data, c->in->value_bytes);
    }
    check(cursor->reset(cursor), "reset");
}

static void put(struct session *c, struct kv_op *op)
{
    WT_CURSOR *cursor = op->kind == KV_INSERT ? c->inserts : c->cursor;
    WT_ITEM item = { .data = op->value, .size = c->in->value_bytes };
    int rc;

    do {
        set_key(c, cursor, op);
        cursor->set_value(cursor, &item);
        rc = cursor->insert(cursor);
    } while (rc == WT_ROLLBACK);
    op->result = rc == WT_DUPLICATE_KEY ? KV_EXISTS : KV_DONE;
    if (rc != WT_DUPLICATE_KEY)
        check(rc, "insert");
    check(cursor->reset(cursor), "reset");
}

static void take(const struct session *c, struct kv_op *op)
{
    bool numbers = c->in->key_bytes == KV_NUMBER_KEY;
    unsigned char name[KV_NUMBER_KEY];
    WT_ITEM key, value;
    uint64_t number;

    if (numbers) {
        check(c->cursor->get_key(c->cursor, &number), "get_key");
        kv_key_make(name, sizeof(name), number);
        key = (WT_ITEM){ .data = name, .size = sizeof(name) };
    } else {
        check(c->cursor->get_key(c->cursor, &key), "get_key");
    }
    check(c->cursor->get_value(c->cursor, &value), "get_value");
    kv_found(op, key.data, key.size, value.data, value.size);
}

static void scan(struct session *c, struct kv_op *op)
{
    WT_CURSOR *cursor = c->cursor;
    int rc, side;

    set_key(c, cursor, op);
    rc = cursor->search_near(cursor, &side);
    if (rc == 0 && side < 0)
        rc = cursor->next(cursor);
    for (uint64_t n = 0; rc == 0; rc = cursor->next(cursor)) {
        take(c, op);
        if (++n == op->limit)
            break;
    }
    if (rc != WT_NOTFOUND)
        check(rc, "next");
    check(cursor->reset(cursor), "reset");
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

const struct kv_backend kv_wiredtiger = {
    .name = "wiredtiger",
    .text = "WiredTiger in memory",
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
