#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: a transaction that changes what an open one has changed fails with WT_ROLLBACK, "conflict
# between concurrent operations", whatever it may read: no level of isolation of SQL lets two open
# transactions write one row. Of two that set x and y alike, one wins both.
# Seen, WiredTiger 3.2.1: it is so only with isolation=snapshot. With the default, read-committed,
# both commit, and x has the value of one and y that of the other. Not who commits last wins but who
# wrote last.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev libwiredtiger-dev=3.2.1-1
compile writes gcc -lwiredtiger <<'C'
#include <stdio.h>
#include <wiredtiger.h>
static WT_CONNECTION *connection;
typedef struct { WT_SESSION *session; WT_CURSOR *cursor; } Transaction;
static Transaction opened(void)
{
    Transaction t;

    connection->open_session(connection, NULL, NULL, &t.session);
    t.session->create(t.session, "table:t", "key_format=S,value_format=S");
    t.session->open_cursor(t.session, "table:t", NULL, NULL, &t.cursor);
    return t;
}
static int set(Transaction t, const char *key, const char *value)
{
    t.cursor->set_key(t.cursor, key);
    t.cursor->set_value(t.cursor, value);
    return t.cursor->insert(t.cursor);
}
static const char *get(Transaction t, const char *key)
{
    const char *value = "none";

    t.cursor->set_key(t.cursor, key);
    if (t.cursor->search(t.cursor) == 0) t.cursor->get_value(t.cursor, &value);
    return value;
}
static int commit(Transaction t) { return t.session->commit_transaction(t.session, NULL); }
static void look(const char *isolation)
{
    Transaction a = opened(), b = opened(), reader = opened();
    int first, second;

    set(reader, "x", "0");
    set(reader, "y", "0");
    a.session->begin_transaction(a.session, isolation);
    b.session->begin_transaction(b.session, isolation);
    set(a, "x", "a");
    first = set(b, "x", "b");
    if (first == 0) {
        set(b, "y", "b");
        second = set(a, "y", "a");
        printf("%s: both write,", isolation ? isolation : "default");
        printf(" b commits %d,", commit(b));
        printf(" a then %d:", second ? second : commit(a));
    } else {
        b.session->rollback_transaction(b.session, NULL);
        printf("%s: %s,", isolation, first == WT_ROLLBACK ? "WT_ROLLBACK" : "error");
        set(a, "y", "a");
        printf(" a commits %d:", commit(a));
    }
    printf(" x = %s,", get(reader, "x"));
    printf(" y = %s\n", get(reader, "y"));
}
int main(void)
{
    wiredtiger_open(".", NULL, "create", &connection);
    look("isolation=snapshot");
    look(NULL);
    look("isolation=read-committed");
    return connection->close(connection, NULL);
}
C
still "isolation=snapshot: WT_ROLLBACK, a commits 0: x = a, y = a
default: both write, b commits 0, a then 0: x = b, y = a
isolation=read-committed: both write, b commits 0, a then 0: x = b, y = a" "$(inside ./writes)"
exit $changed
