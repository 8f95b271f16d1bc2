/* SPDX-License-Identifier: BSD-3-Clause */
/* The store as an index of LOCO in the objects of a store of all ranks: a tree, or a hash table. */
#include "kv_ycsb.h"

#include <loco/hash.h>
#include <loco/mpi.h>
#include <loco/tree.h>

#include <stdlib.h>
#include <string.h>

enum {
    APART = 104,            /* bytes of a value: a longer one has an object of its own, */
    APART_HEAD = 64 + 32,   /* with what is before it, and up to the size of its block */
    ENTRY_HEAD = 4,
    LEAF_SHARE = 64,        /* of an entry in what its leaf has beside entries */
};

/* What both have; a handle is the one or the other. */
struct calls {
    int (*open)(loco_tx_t *tx, loco_object_t root, void **index);
    void (*close)(void *index);
    int (*get)(void *index, loco_bytes_t key, void *value, size_t room, size_t *len);
    int (*insert)(void *index, loco_bytes_t key, loco_bytes_t value);
    int (*update)(void *index, loco_bytes_t key, loco_bytes_t value);
};

struct store {
    const struct calls *calls;
    loco_runtime_t *rt;
    loco_store_t *store;
    size_t key_bytes, value_bytes;
};

struct session {
    const struct store *in;
    loco_tx_t *tx;
    void *index;
};

/* ---- The calls ---- */

static int tree_open(loco_tx_t *tx, loco_object_t root, void **index)
{
    loco_tree_t *tree = NULL;
    int status = loco_tree_open(tx, root, NULL, &tree);

    *index = tree;
    return status;
}

static void tree_close(void *index)
{
    loco_tree_close(index);
}

static int tree_get(void *index, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    return loco_tree_get(index, key, value, room, len);
}

static int tree_insert(void *index, loco_bytes_t key, loco_bytes_t value)
{
    return loco_tree_insert(index, key, value);
}

static int tree_update(void *index, loco_bytes_t key, loco_bytes_t value)
{
    return loco_tree_update(index, key, value);
}

static int hash_open(loco_tx_t *tx, loco_object_t root, void **index)
{
    loco_hash_t *hash = NULL;
    int status = loco_hash_open(tx, root, NULL, &hash);

    *index = hash;
    return status;
}

static void hash_close(void *index)
{
    loco_hash_close(index);
}

static int hash_get(void *index, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    return loco_hash_get(index, key, value, room, len);
}

static int hash_insert(void *index, loco_bytes_t key, loco_bytes_t value)
{
    return loco_hash_insert(index, key, value);
}

static int hash_update(void *index, loco_bytes_t key, loco_bytes_t value)
{
    return loco_hash_update(index, key, value);
}

static const struct calls of_tree = { tree_open, tree_close, tree_get, tree_insert, tree_update };
static const struct calls of_hash = { hash_open, hash_close, hash_get, hash_insert, hash_update };

/* ---- The store ---- */

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* Enough for leaves that are half full, at each of the ranks. */
static uint64_t bytes_for(const struct kv_options *o, uint64_t all)
{
    uint64_t key = (uint64_t)o->key_bytes, value = (uint64_t)o->value_bytes;
    uint64_t apart = value > APART ? (key + value + APART_HEAD) * 3 / 2 : 0;
    uint64_t entry = key + (apart > 0 ? sizeof(loco_object_t) : value) + ENTRY_HEAD;

    return all / (uint64_t)ex_size() * (3 * entry + LEAF_SHARE + apart) + (UINT64_C(32) << 20);
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = calloc(1, sizeof(*s));
    loco_store_options_t options = { .bytes = bytes_for(o, all), .threads = (int)o->threads };

    (void)most;
    if (s == NULL)
        ex_abort("no memory for the store");
    s->calls = o->backend->ordered ? &of_tree : &of_hash;
    s->key_bytes = (size_t)o->key_bytes;
    s->value_bytes = (size_t)o->value_bytes;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &s->rt), "loco_runtime_open_mpi");
    check(loco_store_create(s->rt, "kv_ycsb", "index", loco_everyone(s->rt), &options, &s->store),
          "loco_store_create");
    check(loco_runtime_wait_ready(s->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_store_destroy(s->store);
    loco_runtime_close_mpi(s->rt);
    free(s);
}

static void *attach(void *store, int window)
{
    struct session *c = calloc(1, sizeof(*c));

    (void)window;
    if (c == NULL)
        ex_abort("no memory for a session");
    c->in = store;
    check(loco_tx_open(c->in->store, &c->tx), "loco_tx_open");
    check(c->in->calls->open(c->tx, loco_store_root(c->in->store, 0), &c->index),
          "opening the index");
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    c->in->calls->close(c->index);
    loco_tx_close(c->tx);
    free(c);
}

static int visit(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    kv_found(ctx, key.data, key.len, value.data, value.len);
    return 0;
}

static int call(struct session *c, struct kv_op *op)
{
    loco_bytes_t key = loco_bytes(op->name, c->in->key_bytes);
    loco_bytes_t value = loco_bytes(op->value, c->in->value_bytes);
    size_t len;
    int status;

    switch (op->kind) {
    case KV_READ:
        status = c->in->calls->get(c->index, key, op->value, c->in->value_bytes, &len);
        if (status == LOCO_OK && len != c->in->value_bytes)
            ex_abort("a value has %zu bytes", len);
        return status;
    case KV_UPDATE:
        return c->in->calls->update(c->index, key, value);
    case KV_SCAN:
        return loco_tree_scan(c->index, &key, NULL, op->limit, visit, op);
    default:
        return c->in->calls->insert(c->index, key, value);
    }
}

static bool start(void *session, struct kv_op *op)
{
    int status = call(session, op);

    switch (status) {
    case LOCO_OK: op->result = KV_DONE; break;
    case LOCO_ERR_NOT_FOUND: op->result = KV_MISSING; break;
    case LOCO_ERR_EXISTS: op->result = KV_EXISTS; break;
    default: check(status, "an operation of the index");
    }
    return true;
}

const struct kv_backend kv_tree = {
    .name = "tree",
    .text = "an ordered map of LOCO, loco_tree, in a store of all ranks",
    .names = true,
    .ordered = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
};

const struct kv_backend kv_hash = {
    .name = "hash",
    .text = "a hash table of LOCO, loco_hash, likewise",
    .names = true,
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
};
