/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw limit of a key-value store: a hash table in one process's own memory, which nobody else
 * uses, with no lock, check or order. A get is one lookup and one copy; key and value are beside
 * each other.
 */
#include "kv_rivals.h"

#include <stdlib.h>
#include <string.h>

struct kv_private_table {
    size_t mask;           /* entries, a power of two, less one */
    size_t entry_bytes;
    size_t value_bytes;
    unsigned char *entries; /* key, 0 while it is free; value */
};

static void *open_table(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct kv_private_table *t = calloc(1, sizeof(*t));
    size_t entries = 64;

    (void)all;
    while (entries < 2 * most)
        entries *= 2;
    if (t != NULL) {
        t->mask = entries - 1;
        t->value_bytes = (size_t)o->value_bytes;
        t->entry_bytes = 8 + (t->value_bytes + 7) / 8 * 8;
        t->entries = calloc(entries, t->entry_bytes);
    }
    if (t == NULL || t->entries == NULL)
        ex_abort("no memory for a table of %zu entries", entries);
    return t;
}

static void close_table(void *store)
{
    struct kv_private_table *t = store;

    free(t->entries);
    free(t);
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

/* The entry of a key, or the free one where it would be. */
static unsigned char *find(const struct kv_private_table *t, uint64_t key, uint64_t *found)
{
    for (size_t at = (size_t)kv_mix64(key); ; at++) {
        unsigned char *entry = t->entries + (at & t->mask) * t->entry_bytes;

        memcpy(found, entry, sizeof(*found));
        if (*found == key || *found == 0)
            return entry;
    }
}

bool kv_private_get(const void *table, uint64_t key, void *value)
{
    const struct kv_private_table *t = table;
    uint64_t found;
    const unsigned char *entry = find(t, key, &found);

    if (found == 0)
        return false;
    memcpy(value, entry + 8, t->value_bytes);
    return true;
}

static bool start(void *session, struct kv_op *op)
{
    struct kv_private_table *t = session;
    unsigned char *entry;
    uint64_t found;

    if (op->kind == KV_READ) {
        op->result = kv_private_get(t, op->key, op->value) ? KV_DONE : KV_MISSING;
        return true;
    }
    entry = find(t, op->key, &found);
    if (op->kind == KV_INSERT) {
        op->result = found == 0 ? KV_DONE : KV_EXISTS;
        if (found == 0) {
            memcpy(entry, &op->key, sizeof(op->key));
            memcpy(entry + 8, op->value, t->value_bytes);
        }
        return true;
    }
    op->result = found == 0 ? KV_MISSING : KV_DONE;
    if (op->result == KV_DONE)
        memcpy(entry + 8, op->value, t->value_bytes);
    return true;
}

const struct kv_backend kv_private = {
    .name = "private",
    .text = "the raw limit: each rank has a hash table of its own, in private memory",
    .alone = true,
    .one_thread = true,
    .open = open_table,
    .close = close_table,
    .attach = attach,
    .detach = detach,
    .start = start,
};
