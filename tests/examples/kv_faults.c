/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kv_ycsb with stores that do wrong now and then, each in its own way: it has to notice. They are
 * the private tree of bench/kv_btree.c with a fault, which has the store's name.
 */
#include "../../bench/kv_rivals.h"

#include <stdlib.h>
#include <string.h>

enum { EVERY = 97 }; /* so many operations of a kind to one fault */

struct faulty {
    const char *fault;
    void *tree;
    size_t value_bytes;
    size_t key_bytes;
    uint64_t reads, writes, scans;
    uint64_t kept_key;          /* of the value that `old` brings back */
    unsigned char *kept;
};

static void *open_faulty(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct faulty *f = calloc(1, sizeof(*f));

    if (f == NULL || (f->kept = malloc((size_t)o->value_bytes)) == NULL)
        ex_abort("no memory for the store");
    f->fault = o->backend->name;
    f->key_bytes = (size_t)o->key_bytes;
    f->value_bytes = (size_t)o->value_bytes;
    f->tree = kv_btree.open(o, most, all);
    return f;
}

static void close_faulty(void *store)
{
    struct faulty *f = store;

    kv_btree.close(f->tree);
    free(f->kept);
    free(f);
}

static void *attach(void *store, int window)
{
    (void)window;
    return store;
}

static void detach(void *session)
{
    (void)session;
}

static bool is(const struct faulty *f, const char *fault)
{
    return strcmp(f->fault, fault) == 0;
}

static void read_wrongly(struct faulty *f, struct kv_op *op)
{
    unsigned char *value = op->value;

    if (++f->reads % EVERY != 0)
        return;
    if (is(f, "torn"))
        value[f->value_bytes - 1] ^= 1;
    else if (is(f, "exchanged"))
        kv_value_make(value, f->value_bytes, op->key + 1, (struct kv_stamp){ 0, 0 });
    else if (is(f, "missing"))
        op->result = KV_MISSING;
}

static void write_wrongly(struct faulty *f, struct kv_op *op)
{
    bool now = ++f->writes % EVERY == 0;

    if (is(f, "lost") && now) {
        op->result = KV_DONE;
        return;
    }
    /* Written before 32 others of the same key at least: no window of this test is so long. */
    if (is(f, "old") && op->kind == KV_UPDATE) {
        if (f->kept_key == 0) {
            f->kept_key = op->key;
            memcpy(f->kept, op->value, f->value_bytes);
        } else if (op->key == f->kept_key) {
            memcpy(op->value, f->kept, f->value_bytes);
        }
    }
    kv_btree.start(f->tree, op);
    if (is(f, "exists") && op->kind == KV_INSERT && now)
        op->result = KV_EXISTS;
}

/* From the record behind that key on. */
static void scan_behind(struct faulty *f, struct kv_op *op, uint64_t key, uint64_t limit)
{
    unsigned char name[KV_MOST_KEY], *own = op->name;
    uint64_t wanted = op->limit;

    kv_key_make(name, f->key_bytes, key + 1);
    op->name = name;
    op->limit = limit;
    kv_btree.start(f->tree, op);
    op->name = own;
    op->limit = wanted;
}

static void scan_wrongly(struct faulty *f, struct kv_op *op)
{
    uint64_t wanted = op->limit;
    struct kv_op left_out;
    uint64_t last;

    /* All is one scan, after the run. */
    if (is(f, "twice") || is(f, "skips"))
        op->limit = ++f->scans % EVERY == 0 || wanted == 0 ? 1 : wanted;
    else if (is(f, "short") && wanted > 1)
        op->limit -= ++f->scans % EVERY == 0;
    kv_btree.start(f->tree, op);
    left_out = *op;
    op->limit = wanted;
    if (wanted == 1 || left_out.limit != 1 || op->found != 1)
        return;
    kv_key_read(op->last, f->key_bytes, &last);
    if (is(f, "skips")) {
        scan_behind(f, &left_out, last, 1);
        kv_key_read(op->last, f->key_bytes, &last);
    }
    scan_behind(f, op, last - is(f, "twice"), wanted == 0 ? 0 : wanted - 1);
}

static bool start(void *session, struct kv_op *op)
{
    struct faulty *f = session;

    if (op->kind == KV_SCAN) {
        scan_wrongly(f, op);
        return true;
    }
    if (op->kind != KV_READ) {
        write_wrongly(f, op);
        return true;
    }
    kv_btree.start(f->tree, op);
    read_wrongly(f, op);
    return true;
}

static void finish(void *session, struct kv_op *op)
{
    (void)session;
    (void)op;
}

#define FAULTY(fault) { \
    .name = fault, .text = "", .alone = true, .one_thread = true, .names = true, \
    .ordered = true, .open = open_faulty, .close = close_faulty, .attach = attach, \
    .detach = detach, .start = start, .finish = finish }

static const struct kv_backend stores[] = {
    FAULTY("none"), FAULTY("torn"), FAULTY("exchanged"), FAULTY("missing"), FAULTY("lost"),
    FAULTY("old"), FAULTY("exists"), FAULTY("twice"), FAULTY("skips"), FAULTY("short"),
};

const struct kv_backend *const kv_backends[] = {
    &stores[0], &stores[1], &stores[2], &stores[3], &stores[4], &stores[5], &stores[6],
    &stores[7], &stores[8], &stores[9], NULL,
};
