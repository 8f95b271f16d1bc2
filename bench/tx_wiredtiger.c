/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WiredTiger in memory: a table is a table. Its isolation is by snapshots: of two transactions that
 * write the same row one is rolled back; those that read what the other writes are not, so it does
 * less than the others (SmallBank's sums do not depend on that).
 */
#include "tx_rivals.h"

#ifdef LOCO_HAVE_WIREDTIGER

#include <stdlib.h>
#include <wiredtiger.h>

struct store {
    WT_CONNECTION *connection;
    int tables;
    char table[TX_MOST_TABLES][64];     /* its address */
    size_t bytes[TX_MOST_TABLES];
};

struct session {
    struct store *in;
    WT_SESSION *wt;
    WT_CURSOR *cursor[TX_MOST_TABLES];
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        ex_abort("WiredTiger, %s: %s", what, wiredtiger_strerror(rc));
}

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    struct store *s = calloc(1, sizeof(*s));
    WT_SESSION *session;

    if (s == NULL)
        ex_abort("no memory for the store");
    check(wiredtiger_open(o->path, NULL, "create,in_memory=true,cache_size=4GB", &s->connection),
          o->path);
    check(s->connection->open_session(s->connection, NULL, NULL, &session), "open_session");
    s->tables = w->tables;
    for (int i = 0; i < w->tables; i++) {
        s->bytes[i] = w->table[i].bytes;
        snprintf(s->table[i], sizeof(s->table[i]), "table:%s", w->table[i].name);
        check(session->create(session, s->table[i], "key_format=Q,value_format=u"), "create");
    }
    check(session->close(session, NULL), "close");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    check(s->connection->close(s->connection, "leak_memory=true"), "close");
    free(s);
}

static void *attach(void *store)
{
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(c->in->connection->open_session(c->in->connection, NULL, "isolation=snapshot", &c->wt),
          "open_session");
    for (int i = 0; i < c->in->tables; i++)
        check(c->wt->open_cursor(c->wt, c->in->table[i], NULL, NULL, &c->cursor[i]),
              "open_cursor");
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    check(c->wt->close(c->wt, NULL), "close");
    free(c);
}

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct tx tx = { &tx_wiredtiger, session };

    (void)only_reads;
    for (uint64_t again = 0;; again++) {
        int rc;

        check(c->wt->begin_transaction(c->wt, NULL), "begin_transaction");
        if (tx_call_body(&tx, body, call) == TX_AGAIN) {
            check(c->wt->rollback_transaction(c->wt, NULL), "rollback_transaction");
            continue;
        }
        rc = c->wt->commit_transaction(c->wt, NULL);
        if (rc == 0)
            return again;
        if (rc != WT_ROLLBACK)
            check(rc, "commit_transaction");
    }
}

static int outcome(int rc, const char *what)
{
    if (rc == WT_ROLLBACK)
        return TX_AGAIN;
    if (rc == WT_NOTFOUND)
        return TX_NO_ROW;
    check(rc, what);
    return TX_DONE;
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;
    WT_CURSOR *cursor = c->cursor[table];
    WT_ITEM item;
    int status;

    (void)to_write;
    cursor->set_key(cursor, key);
    status = outcome(cursor->search(cursor), "search");
    if (status != TX_DONE)
        return status;
    check(cursor->get_value(cursor, &item), "get_value");
    memcpy(row, item.data, c->in->bytes[table]);
    return TX_DONE;
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;
    WT_CURSOR *cursor = c->cursor[table];
    WT_ITEM item = { .data = row, .size = c->in->bytes[table] };

    cursor->set_key(cursor, key);
    cursor->set_value(cursor, &item);
    return outcome(cursor->insert(cursor), "insert");
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct session *c = session;
    WT_CURSOR *cursor = c->cursor[table];

    cursor->set_key(cursor, key);
    return outcome(cursor->remove(cursor), "remove");
}

const struct tx_backend tx_wiredtiger = {
    .name = "wiredtiger",
    .text = "WiredTiger in memory, snapshot isolation",
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
