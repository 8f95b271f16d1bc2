/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows in a store of LOCO that are found by their keys: each table is a tree or a hash table, whose
 * root is a root of the store. A key is the row's number, its highest byte first. So neighbours in
 * a table are neighbours in a leaf of a tree, and who changes one of them meets who changes the
 * other; in a hash table they are anywhere.
 */
#include "tx_loco.h"

/* More than a row takes at its host in a leaf that is half full. */
enum { BYTES_A_ROW = 256 };

static void *open_store(const struct tx_options *o, const struct tx_workload *w)
{
    loco_store_options_t options = { .roots = TX_MOST_TABLES };
    struct tx_loco *s;
    uint64_t rows = 0;

    for (int i = 0; i < w->tables; i++)
        rows += tx_rows(o, &w->table[i]);
    options.bytes = rows / (uint64_t)ex_size() * BYTES_A_ROW + (UINT64_C(32) << 20);
    s = tx_loco_open(o, w, &options);
    for (int i = 0; i < w->tables; i++)
        s->first[i] = (uint64_t)i;
    return s;
}

/* ---- trees ---- */

static void *attach_trees(void *store)
{
    struct tx_loco_session *c = tx_loco_attach(store);

    for (int i = 0; i < c->in->workload->tables; i++)
        tx_loco_check(loco_tree_open(c->tx, loco_store_root(c->in->store, c->in->first[i]), NULL,
                                     &c->tree[i]), "loco_tree_open");
    return c;
}

static void detach_trees(void *session)
{
    struct tx_loco_session *c = session;

    for (int i = 0; i < c->in->workload->tables; i++)
        loco_tree_close(c->tree[i]);
    tx_loco_detach(c);
}

static int read_from_tree(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct tx_loco_session *c = session;
    size_t bytes = c->in->workload->table[table].bytes, len;
    unsigned char text[8];
    int status = loco_tree_get(c->tree[table], loco_key64(key, text), row, bytes, &len);

    (void)to_write;
    if (status == LOCO_OK && len != bytes)
        status = LOCO_ERR_SIZE;
    return tx_loco_outcome(status, "loco_tree_get");
}

static int write_to_tree(void *session, int table, uint64_t key, const void *row)
{
    struct tx_loco_session *c = session;
    loco_bytes_t value = loco_bytes(row, c->in->workload->table[table].bytes);
    unsigned char text[8];

    return tx_loco_outcome(loco_tree_put(c->tree[table], loco_key64(key, text), value),
                           "loco_tree_put");
}

static int erase_from_tree(void *session, int table, uint64_t key)
{
    struct tx_loco_session *c = session;
    unsigned char text[8];

    return tx_loco_outcome(loco_tree_delete(c->tree[table], loco_key64(key, text)),
                           "loco_tree_delete");
}

const struct tx_backend tx_tree = {
    .name = "tree",
    .text = "rows by key, in trees of a LOCO store",
    .in_order = true,
    .open = open_store,
    .close = tx_loco_close,
    .undone = tx_loco_undone,
    .attach = attach_trees,
    .detach = detach_trees,
    .run = tx_loco_run,
    .read = read_from_tree,
    .write = write_to_tree,
    .erase = erase_from_tree,
};

/* ---- hash tables ---- */

/* The leaves of a table fill at the same pace, so that at times nearly all are split: some objects
 * for each row, of the 64 that a transaction writes. */
enum { HASH_ROWS_AT_ONCE = 12 };

static void *attach_hashes(void *store)
{
    struct tx_loco_session *c = tx_loco_attach(store);

    for (int i = 0; i < c->in->workload->tables; i++)
        tx_loco_check(loco_hash_open(c->tx, loco_store_root(c->in->store, c->in->first[i]), NULL,
                                     &c->hash[i]), "loco_hash_open");
    return c;
}

static void detach_hashes(void *session)
{
    struct tx_loco_session *c = session;

    for (int i = 0; i < c->in->workload->tables; i++)
        loco_hash_close(c->hash[i]);
    tx_loco_detach(c);
}

static int read_from_hash(void *session, int table, uint64_t key, void *row, bool to_write)
{
    struct tx_loco_session *c = session;
    size_t bytes = c->in->workload->table[table].bytes, len;
    unsigned char text[8];
    int status = loco_hash_get(c->hash[table], loco_key64(key, text), row, bytes, &len);

    (void)to_write;
    if (status == LOCO_OK && len != bytes)
        status = LOCO_ERR_SIZE;
    return tx_loco_outcome(status, "loco_hash_get");
}

static int write_to_hash(void *session, int table, uint64_t key, const void *row)
{
    struct tx_loco_session *c = session;
    loco_bytes_t value = loco_bytes(row, c->in->workload->table[table].bytes);
    unsigned char text[8];

    return tx_loco_outcome(loco_hash_put(c->hash[table], loco_key64(key, text), value),
                           "loco_hash_put");
}

static int erase_from_hash(void *session, int table, uint64_t key)
{
    struct tx_loco_session *c = session;
    unsigned char text[8];

    return tx_loco_outcome(loco_hash_delete(c->hash[table], loco_key64(key, text)),
                           "loco_hash_delete");
}

const struct tx_backend tx_hash = {
    .name = "hash",
    .text = "rows by key, in hash tables of a LOCO store",
    .rows_at_once = HASH_ROWS_AT_ONCE,
    .open = open_store,
    .close = tx_loco_close,
    .undone = tx_loco_undone,
    .attach = attach_hashes,
    .detach = detach_hashes,
    .run = tx_loco_run,
    .read = read_from_hash,
    .write = write_to_hash,
    .erase = erase_from_hash,
};
