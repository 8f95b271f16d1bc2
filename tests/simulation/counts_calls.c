/* SPDX-License-Identifier: BSD-3-Clause */

/* See counts.h. Each row: all meet, the callers call, all meet. What comes once (a lane, a first
 * mapping) is over before: every row's call was made once already. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "counts.h"
#include "runtime.h"

#define ALL (-1)

struct channels {
    struct counts_member *m;
    loco_barrier_t *barrier;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_sst_t *sst;
    loco_atomic_var_t *atomic;
    loco_region_t *region;
    loco_owned_var_t *word, *big;
    loco_window_t *window;
    loco_window_t *dynamic;             /* two words of rank 0's are attached, each by itself */
    uint64_t *words, at;                /* own; where rank 0's are */
    loco_kvstore_t *kv;
    loco_store_t *store;                /* its objects are at rank 0 */
    loco_tx_t *tx;
    loco_tree_t *tree;                  /* on that; of ranks 0 and 1 */
    loco_hash_t *hash;
};

#define KEY 5                           /* its value is at rank 0 */

static int barrier(struct channels *c)
{
    return loco_barrier_wait(c->barrier);
}

static int ticket(struct channels *c)
{
    int status = loco_ticket_lock_acquire(c->ticket);

    return status != LOCO_OK ? status
           : loco_ticket_lock_release(c->ticket, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static int exclusive(struct channels *c)
{
    int status = loco_rw_lock_acquire_exclusive(c->rw);

    return status != LOCO_OK ? status
           : loco_rw_lock_release_exclusive(c->rw, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static int shared(struct channels *c)
{
    int status = loco_rw_lock_acquire_shared(c->rw);

    return status != LOCO_OK ? status
           : loco_rw_lock_release_shared(c->rw, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static int push_all(struct channels *c)
{
    int status = loco_sst_set(c->sst, 0, 1);

    return status != LOCO_OK ? status : loco_sst_push_all(c->sst, 0, 1);
}

static int push_range(struct channels *c)
{
    return loco_sst_push(c->sst, 0, 3, 0);
}

static int fence(struct channels *c)
{
    return loco_fence(c->m->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
}

static int load(struct channels *c)
{
    uint64_t value;

    return loco_atomic_var_load(c->atomic, &value);
}

static int add(struct channels *c)
{
    uint64_t old;

    return loco_atomic_var_fetch_add(c->atomic, 1, &old);
}

static int swap(struct channels *c)
{
    uint64_t old;

    return loco_atomic_var_compare_swap(c->atomic, UINT64_MAX, 0, &old);
}

static int store(struct channels *c)
{
    return loco_atomic_var_store(c->atomic, 7);
}

/* Changes it always. */
static int flip(struct channels *c)
{
    uint64_t bit = 1;

    return loco_atomic_var_fetch_op(c->atomic, LOCO_OP_BXOR, LOCO_TYPE_U64, &bit, NULL);
}

/* And never. */
static int maximum(struct channels *c)
{
    uint64_t value = 0;

    return loco_atomic_var_fetch_op(c->atomic, LOCO_OP_MAX, LOCO_TYPE_U64, &value, NULL);
}

static int sum(struct channels *c)
{
    uint64_t value = 1;

    return loco_atomic_var_fetch_op(c->atomic, LOCO_OP_SUM, LOCO_TYPE_U64, &value, NULL);
}

#define BLOCKS 40

static int read_column(struct channels *c)
{
    const loco_blocks_t column = { BLOCKS, 8, 64, 8 };
    uint64_t words[BLOCKS];

    return loco_region_read_blocks(c->region, 0, 0, words, &column);
}

static int write_column(struct channels *c)
{
    const loco_blocks_t column = { BLOCKS, 8, 64, 8 };
    uint64_t words[BLOCKS] = { 0 };

    return loco_region_write_blocks(c->region, 0, 0, words, &column);
}

static int write_packed(struct channels *c)
{
    const loco_blocks_t packed = { BLOCKS, 8, 8, 16 };
    uint64_t words[2 * BLOCKS] = { 0 };

    return loco_region_write_blocks(c->region, 0, 0, words, &packed);
}

static int push_word(struct channels *c)
{
    uint64_t value = 5;
    int status = loco_owned_var_store(c->word, &value);

    return status != LOCO_OK ? status : loco_owned_var_push_all(c->word);
}

static int push_big(struct channels *c)
{
    uint64_t value[4] = { 1, 2, 3, 4 };
    int status = loco_owned_var_store(c->big, value);

    return status != LOCO_OK ? status : loco_owned_var_push_all(c->big);
}

static int pull_big(struct channels *c)
{
    uint64_t value[4];

    return loco_owned_var_pull(c->big, value);
}

static int lock(struct channels *c)
{
    int status = loco_window_lock(c->window, LOCO_LOCK_EXCLUSIVE, 0, 0);

    return status != LOCO_OK ? status : loco_window_unlock(c->window, 0);
}

static int lock_all(struct channels *c)
{
    int status = loco_window_lock_all(c->window, 0);

    return status != LOCO_OK ? status : loco_window_unlock_all(c->window);
}

static int put(struct channels *c)
{
    uint64_t from[2] = { 1, 2 };
    const struct loco_span span = { from, 8, sizeof from };

    return loco_window_put(c->window, 0, &span, 1, NULL);
}

static int get(struct channels *c)
{
    uint64_t to[2];
    const struct loco_span span = { to, 8, sizeof to };

    return loco_window_get(c->window, 0, &span, 1, NULL);
}

static int flush(struct channels *c)
{
    return loco_window_flush(c->window, 0);
}

/* A sum of what is in `operand`, `len` bytes of it. */
static int accumulate(struct channels *c, enum loco_type type, const void *operand, void *old,
                      size_t len)
{
    const struct loco_span span = { NULL, 0, len };
    const struct loco_accumulate acc = {
        .op = LOCO_OP_SUM, .type = type, .operand = operand, .result = old,
        .spans = &span, .nspans = 1,
    };

    return loco_window_accumulate(c->window, 0, &acc, NULL);
}

static int fetch_and_op(struct channels *c)
{
    uint64_t operand = 1, old;

    return accumulate(c, LOCO_TYPE_U64, &operand, &old, sizeof operand);
}

static int fetch_and_op_32(struct channels *c)
{
    uint32_t operand = 1, old;

    return accumulate(c, LOCO_TYPE_U32, &operand, &old, sizeof operand);
}

static int accumulate_vector(struct channels *c)
{
    const double operand[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

    return accumulate(c, LOCO_TYPE_F64, operand, NULL, sizeof operand);
}

/* Nobody else may be at that member. */
static int accumulate_alone(struct channels *c)
{
    int status = loco_window_lock(c->window, LOCO_LOCK_EXCLUSIVE, 0, 0), unlocked;

    if (status != LOCO_OK)
        return status;
    status = accumulate_vector(c);
    unlocked = loco_window_unlock(c->window, 0);
    return status == LOCO_OK ? unlocked : status;
}

static int compare_and_swap(struct channels *c)
{
    uint64_t expected = 9, desired = 1, old;

    return loco_window_compare_swap(c->window, 0, LOCO_TYPE_U64, 0, &expected, &desired, &old);
}

/* Rank 1 puts at rank 0 alone. */
static int post_start(struct channels *c)
{
    const int origin = 1, target = 0;
    int status = LOCO_OK;

    if (c->m->rank == target) {
        status = loco_window_post(c->window, 1, &origin, 0);
        return status != LOCO_OK ? status : loco_window_wait(c->window);
    }
    if (c->m->rank == origin) {
        status = loco_window_start(c->window, 1, &target, 0);
        status = status != LOCO_OK ? status : put(c);
        return status != LOCO_OK ? status : loco_window_complete(c->window);
    }
    return status;
}

static int kv_get(struct channels *c)
{
    uint64_t value[4];

    return loco_kvstore_get(c->kv, KEY, value, sizeof value);
}

static int kv_update(struct channels *c)
{
    static const uint64_t value[4] = { 1, 2, 3, 4 };

    return loco_kvstore_update(c->kv, KEY, value, sizeof value);
}

static int get_attached(struct channels *c)
{
    uint64_t value;
    const struct loco_span span = { .local = &value, .offset = c->at, .len = 8 };

    return loco_window_get(c->dynamic, 0, &span, 1, NULL);
}

static int put_attached(struct channels *c)
{
    uint64_t value = 3;
    const struct loco_span span = { .local = &value, .offset = c->at, .len = 8 };

    return loco_window_put(c->dynamic, 0, &span, 1, NULL);
}

/* However many runs, a region is looked at once before and once after. */
static int get_runs(struct channels *c)
{
    unsigned char value[8];
    const struct loco_span span[4] = {
        { .local = value, .offset = c->at, .len = 1 },
        { .local = value + 2, .offset = c->at + 2, .len = 1 },
        { .local = value + 4, .offset = c->at + 4, .len = 1 },
        { .local = value + 6, .offset = c->at + 6, .len = 1 },
    };

    return loco_window_get(c->dynamic, 0, span, 4, NULL);
}

static int attach_anew(struct channels *c, int word)
{
    int status = loco_window_detach(c->dynamic, &c->words[word]);

    return status != LOCO_OK ? status : loco_window_attach(c->dynamic, &c->words[word], 8);
}

/* Rank 0 changes something, then rank 1 gets the first word. */
static int get_after(struct channels *c, int word)
{
    int status = c->m->rank == 0 ? attach_anew(c, word) : LOCO_OK;

    c->m->meet(c->m);
    return status == LOCO_OK && c->m->rank == 1 ? get_attached(c) : status;
}

static int get_after_other(struct channels *c)
{
    return get_after(c, 1);
}

static int get_after_same(struct channels *c)
{
    return get_after(c, 0);
}

#define OBJECTS 4

/* Relaxed: else each read looks again at all before it. */
static int tx_begin(struct channels *c)
{
    return loco_tx_begin_as(c->tx, LOCO_TX_RELAXED);
}

static int tx_read(struct channels *c, int n)
{
    int status = tx_begin(c);

    for (int i = 0; i < n && status == LOCO_OK; i++) {
        uint64_t value;

        status = loco_tx_read(c->tx, loco_store_root(c->store, (uint64_t)i), &value, sizeof value);
    }
    return status != LOCO_OK ? status : loco_tx_commit(c->tx);
}

static int tx_read_one(struct channels *c)
{
    return tx_read(c, 1);
}

static int tx_read_all(struct channels *c)
{
    return tx_read(c, OBJECTS);
}

static int tx_write(struct channels *c, int n)
{
    int status = tx_begin(c);
    uint64_t value = 1;

    for (int i = 0; i < n && status == LOCO_OK; i++)
        status = loco_tx_write(c->tx, loco_store_root(c->store, (uint64_t)i), &value,
                               sizeof value);
    return status != LOCO_OK ? status : loco_tx_commit(c->tx);
}

static int tx_write_one(struct channels *c)
{
    return tx_write(c, 1);
}

static int tx_write_all(struct channels *c)
{
    return tx_write(c, OBJECTS);
}

/* One is written because of another. */
static int tx_read_and_write(struct channels *c)
{
    uint64_t value;
    int status = tx_begin(c);

    if (status == LOCO_OK)
        status = loco_tx_read(c->tx, loco_store_root(c->store, 0), &value, sizeof value);
    if (status == LOCO_OK)
        status = loco_tx_write(c->tx, loco_store_root(c->store, 1), &value, sizeof value);
    return status != LOCO_OK ? status : loco_tx_commit(c->tx);
}

#define TREE_ROOT 4                     /* behind the objects */
#define HASH_ROOT 5

static int tree_open(struct channels *c)
{
    loco_tree_close(c->tree);
    c->tree = NULL;
    return loco_tree_open(c->tx, loco_store_root(c->store, TREE_ROOT), NULL, &c->tree);
}

static int tree_get(struct channels *c)
{
    uint64_t value;
    size_t len;

    return loco_tree_get(c->tree, loco_text("key"), &value, sizeof value, &len);
}

static int tree_update(struct channels *c)
{
    return loco_tree_update(c->tree, loco_text("key"), loco_text("another."));
}

static int hash_open(struct channels *c)
{
    loco_hash_close(c->hash);
    c->hash = NULL;
    return loco_hash_open(c->tx, loco_store_root(c->store, HASH_ROOT), NULL, &c->hash);
}

static int hash_get(struct channels *c)
{
    uint64_t value;
    size_t len;

    return loco_hash_get(c->hash, loco_text("key"), &value, sizeof value, &len);
}

static int hash_update(struct channels *c)
{
    return loco_hash_update(c->hash, loco_text("key"), loco_text("another."));
}

/* By rank 0, for rank 1. */
static bool fill_indexes(struct channels *c)
{
    return tree_open(c) == LOCO_OK && hash_open(c) == LOCO_OK
           && loco_tree_insert(c->tree, loco_text("key"), loco_text("a value.")) == LOCO_OK
           && loco_hash_insert(c->hash, loco_text("key"), loco_text("a value.")) == LOCO_OK;
}

/* `by`: who calls, or ALL. The window's are called in an epoch of rank 1. */
static const struct {
    const char *name;
    int by;
    bool epoch;
    int (*call)(struct channels *c);
} calls[] = {
    { "barrier", ALL, false, barrier },
    { "ticket_lock at its host", 0, false, ticket },
    { "ticket_lock", 1, false, ticket },
    { "rw_lock exclusive at its host", 0, false, exclusive },
    { "rw_lock exclusive", 1, false, exclusive },
    { "rw_lock shared", 2, false, shared },
    { "sst push to all", 1, false, push_all },
    { "fence after it", 1, false, fence },
    { "sst push of three columns", 1, false, push_range },
    { "atomic_var load", 1, false, load },
    { "atomic_var fetch_add", 1, false, add },
    { "atomic_var fetch_add at its host", 0, false, add },
    { "atomic_var compare_swap", 2, false, swap },
    { "atomic_var store", 1, false, store },
    { "atomic_var xor", 1, false, flip },
    { "atomic_var maximum that is none", 1, false, maximum },
    { "atomic_var fetch_op sum", 1, false, sum },
    { "region read of 40 words apart", 1, false, read_column },
    { "region write of 40 words apart", 1, false, write_column },
    { "fence after them", 1, false, fence },
    { "region write of 40 words side by side", 1, false, write_packed },
    { "fence after it, too", 1, false, fence },
    { "owned_var push of 8 bytes", 0, false, push_word },
    { "owned_var push of 32 bytes", 0, false, push_big },
    { "owned_var pull of 32 bytes", 2, false, pull_big },
    { "window lock and unlock", 1, false, lock },
    { "window put", 1, true, put },
    { "window flush after it", 1, true, flush },
    { "window flush of nothing", 1, true, flush },
    { "window get", 1, true, get },
    { "window accumulate of 8 elements", 1, true, accumulate_vector },
    { "window fetch_and_op of 4 bytes", 1, true, fetch_and_op_32 },
    { "window fetch_and_op", 1, true, fetch_and_op },
    { "window compare_and_swap", 1, true, compare_and_swap },
    { "window accumulate of 8 elements, alone", 1, false, accumulate_alone },
    { "window lock_all and unlock_all", 1, false, lock_all },
    { "window lock and unlock, after lock_all", 1, false, lock },
    { "window post, start, put, complete, wait", ALL, false, post_start },
    { "window get of attached memory", 1, false, get_attached },
    { "window put to attached memory", 1, false, put_attached },
    { "window get of four runs of attached memory", 1, false, get_runs },
    { "window get of attached memory beside a change", ALL, false, get_after_other },
    { "window get of memory attached anew", ALL, false, get_after_same },
    { "kvstore get", 1, false, kv_get },
    { "kvstore update", 1, false, kv_update },
    { "tx write of an object", 1, false, tx_write_one },
    { "tx write of four objects", 1, false, tx_write_all },
    { "tx read of an object", 1, false, tx_read_one },
    { "tx read of four objects", 1, false, tx_read_all },
    { "tx read of an object and write of another", 1, false, tx_read_and_write },
    { "tree open", 1, false, tree_open },
    { "tree get after it", 1, false, tree_get },
    { "tree get", 1, false, tree_get },
    { "tree update", 1, false, tree_update },
    { "hash open", 1, false, hash_open },
    { "hash get after it", 1, false, hash_get },
    { "hash get", 1, false, hash_get },
    { "hash update", 1, false, hash_update },
};
#define CALLS (sizeof calls / sizeof calls[0])
_Static_assert(CALLS < COUNTS_ROWS, "one row more, which ends them");

static int make_dynamic(struct channels *c)
{
    static const struct loco_window_spec spec = { .kind = LOCO_WINDOW_DYNAMIC, .disp_unit = 1,
                                                  .one_thread = true };
    uint64_t all[COUNTS_PROCESSES], mine;
    int status = loco_window_create(c->m->rt, c->m->exchange, &spec, &c->dynamic);

    c->words = calloc(2, sizeof *c->words);
    mine = (uintptr_t)c->words;
    for (int i = 0; status == LOCO_OK && i < 2; i++)
        status = loco_window_attach(c->dynamic, &c->words[i], 8);
    if (status == LOCO_OK)
        status = c->m->exchange->allgather(c->m->exchange->ctx, &mine, sizeof mine, all);
    c->at = all[0];
    return status == LOCO_OK ? loco_window_lock_all(c->dynamic, 0) : status;
}

static void destroy_dynamic(struct channels *c)
{
    loco_window_unlock_all(c->dynamic);
    loco_window_destroy(c->dynamic);
    free(c->words);
}

static int make(struct channels *c)
{
    static const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 64,
                                                  .disp_unit = 8, .one_thread = true };
    static const loco_kvstore_options_t values = { .value_bytes = 32, .capacity = 4 };
    static const int host = 0;
    static const loco_store_options_t objects = { .bytes = 1 << 20, .hosts = &host, .nhosts = 1 };
    static const uint64_t value[4] = { 0 };
    loco_runtime_t *rt = c->m->rt;
    const loco_group_t *all = loco_everyone(rt);

    return loco_barrier_create(rt, NULL, "barrier", all, &c->barrier) == LOCO_OK
           && loco_ticket_lock_create(rt, NULL, "ticket", all, 0, &c->ticket) == LOCO_OK
           && loco_rw_lock_create(rt, NULL, "rw", all, 0, &c->rw) == LOCO_OK
           && loco_sst_create(rt, NULL, "sst", all, 3, LOCO_SST_COLUMNS, &c->sst) == LOCO_OK
           && loco_atomic_var_create(rt, NULL, "atomic", all, 0, &c->atomic) == LOCO_OK
           && loco_region_create(rt, NULL, "region", all, 64 * BLOCKS, &c->region) == LOCO_OK
           && loco_owned_var_create(rt, NULL, "word", all, 0, 8, LOCO_OWNED_PUSH,
                                    &c->word) == LOCO_OK
           && loco_owned_var_create(rt, NULL, "big", all, 0, 32, LOCO_OWNED_PUSH,
                                    &c->big) == LOCO_OK
           && loco_kvstore_create(rt, NULL, "kv", all, &values, &c->kv) == LOCO_OK
           && loco_store_create(rt, NULL, "store", all, &objects, &c->store) == LOCO_OK
           && loco_runtime_wait_ready(rt, LOCO_FOREVER) == LOCO_OK
           && loco_tx_open(c->store, &c->tx) == LOCO_OK
           && loco_window_create(rt, c->m->exchange, &spec, &c->window) == LOCO_OK
           && make_dynamic(c) == LOCO_OK
           && (c->m->rank != 0 || fill_indexes(c))
           && (c->m->rank != 0
               || loco_kvstore_insert(c->kv, KEY, value, sizeof value) == LOCO_OK);
}

static void destroy(struct channels *c)
{
    loco_hash_close(c->hash);
    loco_tree_close(c->tree);
    loco_tx_close(c->tx);
    loco_store_destroy(c->store);
    loco_kvstore_destroy(c->kv);
    destroy_dynamic(c);
    loco_window_destroy(c->window);
    loco_owned_var_destroy(c->big);
    loco_owned_var_destroy(c->word);
    loco_region_destroy(c->region);
    loco_atomic_var_destroy(c->atomic);
    loco_sst_destroy(c->sst);
    loco_rw_lock_destroy(c->rw);
    loco_ticket_lock_destroy(c->ticket);
    loco_barrier_destroy(c->barrier);
}

static void counted(struct counts_member *m, unsigned long long *n)
{
    const struct loci_counters *k = &m->rt->counters;

    n[COUNTS_WRITES] = k->writes[0];
    n[COUNTS_READS] = k->reads[0];
    n[COUNTS_ATOMICS] = k->atomics[0];
    n[COUNTS_OWN_ATOMICS] = k->atomics[1];
    n[COUNTS_PLACES] = k->places;
}

static int one_call(struct channels *c, size_t i)
{
    struct counts_member *m = c->m;
    struct counts_row *row = &m->row[i];
    unsigned long long before[COUNTS_ALL], carried[COUNTS_ALL] = { 0 };
    int status = LOCO_OK;

    m->meet(m);
    if (m->packets != NULL && m->rank == 0)
        row->packets = m->packets();
    m->meet(m);
    counted(m, before);
    row->waits = m->rt->counters.waits;
    if (m->carried != NULL)
        m->carried(m, carried);
    if (calls[i].by == ALL || calls[i].by == m->rank)
        status = calls[i].call(c);
    if (status != LOCO_OK)
        printf("# %s: %s\n", calls[i].name, loco_strerror(status));
    row->name = calls[i].name;
    counted(m, row->n);
    row->waits = m->rt->counters.waits - row->waits;
    if (m->carried != NULL)
        m->carried(m, row->carried);
    for (int k = 0; k < COUNTS_ALL; k++) {
        row->n[k] -= before[k];
        row->carried[k] -= carried[k];
    }
    m->meet(m);
    if (m->packets != NULL && m->rank == 0)
        row->packets = m->packets() - row->packets;
    m->meet(m);
    return status;
}

/* The second time counts. Between the calls nothing is left in flight. */
static int each_call(struct channels *c)
{
    int status = LOCO_OK;

    for (size_t i = 0; i < CALLS; i++) {
        bool opens = calls[i].epoch && calls[i].by == c->m->rank;

        for (int turn = 0; turn < 2 && status == LOCO_OK; turn++) {
            if (opens)
                status = loco_window_lock(c->window, LOCO_LOCK_SHARED, 0, 0);
            if (status == LOCO_OK && strstr(calls[i].name, "after it") == NULL)
                status = fence(c);
            else if (status == LOCO_OK && calls[i].by == c->m->rank)
                status = calls[i - 1].call(c);
            if (status == LOCO_OK)
                status = one_call(c, i);
            if (opens)
                loco_window_unlock(c->window, 0);
        }
    }
    return status;
}

int counts_calls(struct counts_member *m)
{
    struct channels c = { .m = m };
    int status;

    if (!make(&c)) {
        printf("# rank %d: a channel cannot be made\n", m->rank);
        return 1;
    }
    status = each_call(&c);
    m->meet(m);
    destroy(&c);
    return status != LOCO_OK;
}
