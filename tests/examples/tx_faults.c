/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * smallbank and tatp with stores that do wrong now and then, each in its own way: they have to
 * notice. The stores are arrays under one lock, with a fault, which has the store's name.
 */
#include "../../mpi_examples/tx_example.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { EVERY = 97 }; /* so many operations of a kind to one fault */

struct table {
    size_t bytes;
    unsigned char *rows;
    bool *there;
};

struct store {
    const struct tx_backend *backend;
    pthread_mutex_t lock;
    struct table table[TX_MOST_TABLES];
};

struct session {
    struct store *in;
    uint64_t reads, writes, erased;
    bool loading;
};

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    struct store *s = calloc(1, sizeof(*s));

    if (s == NULL)
        ex_abort("no memory for the store");
    s->backend = o->backend;
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < w->tables; i++) {
        struct table *t = &s->table[i];

        t->bytes = w->table[i].bytes;
        t->rows = calloc(tx_rows(o, &w->table[i]), t->bytes);
        t->there = calloc(tx_rows(o, &w->table[i]), sizeof(bool));
        if (t->rows == NULL || t->there == NULL)
            ex_abort("no memory for %s", w->table[i].name);
    }
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    for (int i = 0; i < TX_MOST_TABLES; i++) {
        free(s->table[i].rows);
        free(s->table[i].there);
    }
    free(s);
}

static void *attach(void *store)
{
    struct session *c = calloc(1, sizeof(*c));

    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    return c;
}

static bool is(const struct session *c, const char *fault)
{
    return !c->loading && strcmp(c->in->backend->name, fault) == 0;
}

static uint64_t run(void *session, bool only_reads, tx_body_fn *body, struct tx_call *call)
{
    struct session *c = session;
    struct tx tx = { c->in->backend, session };
    bool locked;

    (void)only_reads;
    c->loading = call->workload != NULL;
    c->writes = is(c, "half") ? 0 : c->writes;
    locked = !is(c, "unlocked");
    if (locked)
        pthread_mutex_lock(&c->in->lock);
    tx_call_body(&tx, body, call);
    if (locked)
        pthread_mutex_unlock(&c->in->lock);
    return 0;
}

static int read_row(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct session *c = session;
    struct table *t = &c->in->table[table];
    bool now = ++c->reads % EVERY == 0;

    (void)to_write;
    if (is(c, "exchanged") && now)
        key = key > 0 ? key - 1 : 1;
    if (is(c, "unlocked"))
        sched_yield();
    if (!t->there[key] || (is(c, "missing") && now))
        return TX_NO_ROW;
    memcpy(row, t->rows + key * t->bytes, t->bytes);
    return TX_DONE;
}

static int write_row(void *session, int table, uint64_t key, const void *row)
{
    struct session *c = session;
    struct table *t = &c->in->table[table];

    c->writes++;
    if ((is(c, "lost") && c->writes % EVERY == 0) || (is(c, "half") && c->writes == 2))
        return TX_DONE;
    memcpy(t->rows + key * t->bytes, row, t->bytes);
    t->there[key] = true;
    return TX_DONE;
}

static int erase_row(void *session, int table, uint64_t key)
{
    struct session *c = session;

    c->in->table[table].there[key] = is(c, "undead") && ++c->erased % 2 == 0;
    return TX_DONE;
}

#define FAULTY(fault) { \
    .name = fault, .text = "", .one_process = true, .open = open_store, .close = close_store, \
    .attach = attach, .detach = free, .run = run, .read = read_row, .write = write_row, \
    .erase = erase_row }

static const struct tx_backend stores[] = {
    FAULTY("none"), FAULTY("lost"), FAULTY("half"), FAULTY("exchanged"), FAULTY("missing"),
    FAULTY("unlocked"), FAULTY("undead"),
};

const struct tx_backend *const tx_backends[] = {
    &stores[0], &stores[1], &stores[2], &stores[3], &stores[4], &stores[5], &stores[6], NULL,
};
