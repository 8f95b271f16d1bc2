/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store as a LOCO channel. Reads and updates are begun in a window of the store; inserts are
 * gathered, and put in together when the oldest of them is waited for, since each exchange with the
 * other members can carry many.
 */
#include "kv_ycsb.h"

#include <loco/kvstore.h>
#include <loco/mpi.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct store {
    loco_runtime_t *rt;
    loco_kvstore_t *kv;
    size_t value_bytes;
};

struct session {
    loco_kvstore_t *kv;
    loco_kvstore_window_t *window;
    size_t value_bytes;

    /* Inserts that are gathered. */
    size_t waiting;
    struct kv_op **ops;
    uint64_t *keys;
    unsigned char *values;
    int *statuses;
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static void *memory(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL)
        ex_abort("no memory for %zu times %zu bytes", count, size);
    return p;
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = memory(1, sizeof(*s));
    loco_kvstore_options_t options = { .value_bytes = (size_t)o->value_bytes, .capacity = most };

    (void)all;
    s->value_bytes = (size_t)o->value_bytes;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &s->rt), "loco_runtime_open_mpi");
    check(loco_kvstore_create(s->rt, "kv_ycsb", "store", loco_everyone(s->rt), &options, &s->kv),
          "loco_kvstore_create");
    check(loco_runtime_wait_ready(s->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_kvstore_destroy(s->kv);
    loco_runtime_close_mpi(s->rt);
    free(s);
}

static void *attach(void *store, int window)
{
    struct store *s = store;
    struct session *c = memory(1, sizeof(*c));

    c->kv = s->kv;
    c->value_bytes = s->value_bytes;
    c->ops = memory((size_t)window, sizeof(struct kv_op *));
    c->keys = memory((size_t)window, sizeof(*c->keys));
    c->values = memory((size_t)window, s->value_bytes);
    c->statuses = memory((size_t)window, sizeof(*c->statuses));
    check(loco_kvstore_window_open(s->kv, window, &c->window), "loco_kvstore_window_open");
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    loco_kvstore_window_close(c->window);
    free(c->ops);
    free(c->keys);
    free(c->values);
    free(c->statuses);
    free(c);
}

static void take_result(struct kv_op *op, int status)
{
    switch (status) {
    case LOCO_OK: op->result = KV_DONE; break;
    case LOCO_ERR_NOT_FOUND: op->result = KV_MISSING; break;
    case LOCO_ERR_EXISTS: op->result = KV_EXISTS; break;
    default: check(status, "an operation of the store");
    }
}

static void gather(struct session *c, struct kv_op *op)
{
    c->ops[c->waiting] = op;
    c->keys[c->waiting] = op->key;
    memcpy(c->values + c->waiting * c->value_bytes, op->value, c->value_bytes);
    c->waiting++;
    op->backend_word = LOCO_IN_PROGRESS;
}

static void put_in(struct session *c)
{
    check(loco_kvstore_insert_many(c->kv, c->waiting, c->keys, c->values, c->value_bytes,
                                   c->statuses), "loco_kvstore_insert_many");
    for (size_t i = 0; i < c->waiting; i++)
        c->ops[i]->backend_word = c->statuses[i];
    c->waiting = 0;
}

static bool start(void *session, struct kv_op *op)
{
    struct session *c = session;

    switch (op->kind) {
    case KV_READ:
        check(loco_kvstore_get_ack(c->window, op->key, op->value, c->value_bytes,
                                   &op->backend_word), "loco_kvstore_get_ack");
        break;
    case KV_UPDATE:
        check(loco_kvstore_update_ack(c->window, op->key, op->value, c->value_bytes,
                                      &op->backend_word), "loco_kvstore_update_ack");
        break;
    default:            /* an insert: scans are not for this store */
        gather(c, op);
        return false;
    }
    if (op->backend_word == LOCO_IN_PROGRESS)
        return false;
    take_result(op, op->backend_word);
    return true;
}

static void finish(void *session, struct kv_op *op)
{
    struct session *c = session;

    if (op->kind == KV_INSERT && op->backend_word == LOCO_IN_PROGRESS)
        put_in(c);
    while (op->backend_word == LOCO_IN_PROGRESS) {
        loco_kvstore_window_poll(c->window);
        if (op->backend_word == LOCO_IN_PROGRESS)
            sched_yield();
    }
    take_result(op, op->backend_word);
}

const struct kv_backend kv_loco = {
    .name = "loco",
    .text = "a LOCO channel, loco_kvstore",
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};
