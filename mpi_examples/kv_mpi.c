/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store as a hash table over all ranks in an MPI window; only MPI's one-sided calls.
 *
 * A key belongs to the rank that its hash names, in the first bucket from the one that the hash
 * names which is free or has it. Buckets are never freed. A bucket is
 *
 *     lock | key | check | value ...
 *
 * lock   0, or 1 while somebody writes the bucket: changed by fetch_and_op alone, a swap, since the
 *        compare_and_swap of one of Open MPI's own components crashes on allocated windows.
 * key    0 while the bucket is free; written once, under the lock, when the value is in place.
 * check  a sum of key and value. A reader takes no lock: it gets all of it in one call, and once
 *        more where the sum is wrong because somebody was writing. (MPI says that the result of
 *        such a get is undefined, which is all right for one that is thrown away.)
 *
 * A writer's flush before it gives the lock back makes its value the one that all later gets find.
 * Reads may be outstanding: the get is begun, and a flush of its target, of this operation or of a
 * later one's, ends it. Writes are ended at once, for each step of theirs needs the one before.
 */
#include "kv_ycsb.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, TRIES_BEFORE_YIELD = 64 };

/* Words of a bucket; those of a copy begin at the key. */
enum { LOCK, KEY, CHECK, VALUE };

struct store {
    const struct kv_options *o;
    struct ex_window w;
    uint64_t buckets;        /* per rank */
    size_t value_words;
    size_t bucket_words;
    int ranks;
};

struct session {
    struct store *s;
    uint64_t *copies;        /* key, check, value: of each operation that may be outstanding */
    uint64_t *scratch;       /* the same for a search that is done at once */
    uint64_t *flushes;       /* per target: flushes so far */
    uint64_t *flushes_at;    /* per copy: the target's, when the get was begun */
    int window, next;
};

static size_t body_words(const struct store *s)
{
    return s->bucket_words - KEY;
}

static void *open_store(const struct kv_options *o, uint64_t most, uint64_t all)
{
    struct store *s = calloc(1, sizeof(*s));

    (void)most;
    if (s == NULL)
        ex_abort("no memory for the store");
    s->o = o;
    s->ranks = ex_size();
    s->value_words = ((size_t)o->value_bytes + WORD - 1) / WORD;
    s->bucket_words = VALUE + s->value_words;
    /* Half full at the end, and some more where the ranks' shares are few and so uneven. */
    s->buckets = 2 * (all / (uint64_t)s->ranks) + 64;
    ex_window_create(&s->w, o->flavor, (size_t)s->buckets * s->bucket_words * WORD);
    ex_check(MPI_Win_lock_all(MPI_MODE_NOCHECK, s->w.win), "MPI_Win_lock_all");
    return s;
}

static void close_store(void *store)
{
    struct store *s = store;

    ex_check(MPI_Win_unlock_all(s->w.win), "MPI_Win_unlock_all");
    ex_window_free(&s->w);
    free(s);
}

static void *attach(void *store, int window)
{
    struct session *c = calloc(1, sizeof(*c));
    struct store *s = store;

    if (c == NULL)
        ex_abort("no memory for a session");
    c->s = s;
    c->window = window;
    c->copies = calloc((size_t)window + 1, body_words(s) * WORD);
    c->flushes = calloc((size_t)s->ranks, sizeof(*c->flushes));
    c->flushes_at = calloc((size_t)window, sizeof(*c->flushes_at));
    if (c->copies == NULL || c->flushes == NULL || c->flushes_at == NULL)
        ex_abort("no memory for a session");
    c->scratch = c->copies + (size_t)window * body_words(s);
    return c;
}

static void detach(void *session)
{
    struct session *c = session;

    free(c->copies);
    free(c->flushes);
    free(c->flushes_at);
    free(c);
}

static uint64_t hash_of(uint64_t key)
{
    return kv_mix64(key ^ UINT64_C(0x2545f4914f6cdd1d));
}

static int owner_of(const struct store *s, uint64_t key)
{
    return (int)(hash_of(key) % (uint64_t)s->ranks);
}

/* By the upper bits of the hash: the lower ones have named the owner. */
static uint64_t first_bucket(const struct store *s, uint64_t key)
{
    return (uint64_t)(((unsigned __int128)hash_of(key) * s->buckets) >> 64);
}

static MPI_Aint place(const struct store *s, int owner, uint64_t bucket, size_t word)
{
    return ex_at(&s->w, owner, ((size_t)(bucket % s->buckets) * s->bucket_words + word) * WORD);
}

static void flush(struct session *c, int owner)
{
    ex_check(MPI_Win_flush(owner, c->s->w.win), "MPI_Win_flush");
    c->flushes[owner]++;
}

/* FNV-1a by words, and a shuffle. */
static uint64_t sum_of(const struct store *s, uint64_t key, const uint64_t *value)
{
    uint64_t sum = key;

    for (size_t i = 0; i < s->value_words; i++)
        sum = (sum ^ value[i]) * UINT64_C(0x100000001b3);
    return kv_mix64(sum);
}

/* ---- Reading ---- */

static void begin_get(struct session *c, int owner, uint64_t bucket, uint64_t *copy)
{
    int words = (int)body_words(c->s);

    MPI_Get(copy, words, MPI_UINT64_T, owner, place(c->s, owner, bucket, KEY), words,
            MPI_UINT64_T, c->s->w.win);
}

/* Is it no copy of a bucket that was being written? */
static bool whole(const struct store *s, const uint64_t *copy)
{
    return copy[0] == 0 || copy[CHECK - KEY] == sum_of(s, copy[0], copy + VALUE - KEY);
}

/* From a first copy that is here to the bucket that has the key: its number, and the copy. False
 * where there is none; then the bucket is the free one at which the search ended. */
static bool search(struct session *c, uint64_t key, uint64_t *bucket, uint64_t *copy)
{
    const struct store *s = c->s;
    int owner = owner_of(s, key);

    for (uint64_t probe = 0; probe < s->buckets; probe++) {
        for (int tries = 1; !whole(s, copy); tries++) {
            /* Its writer may want this core. */
            if (tries % TRIES_BEFORE_YIELD == 0)
                sched_yield();
            begin_get(c, owner, *bucket, copy);
            flush(c, owner);
        }
        if (copy[0] == key)
            return true;
        if (copy[0] == 0)
            return false;
        ++*bucket;
        begin_get(c, owner, *bucket, copy);
        flush(c, owner);
    }
    ex_abort("a part of the hash table is full");
}

static bool find(struct session *c, uint64_t key, uint64_t *bucket)
{
    int owner = owner_of(c->s, key);

    *bucket = first_bucket(c->s, key);
    begin_get(c, owner, *bucket, c->scratch);
    flush(c, owner);
    return search(c, key, bucket, c->scratch);
}

static void start_read(struct session *c, struct kv_op *op)
{
    int slot = c->next, owner = owner_of(c->s, op->key);

    c->next = slot + 1 == c->window ? 0 : slot + 1;
    op->backend_word = slot;
    c->flushes_at[slot] = c->flushes[owner];
    begin_get(c, owner, first_bucket(c->s, op->key), c->copies + (size_t)slot * body_words(c->s));
}

static void finish(void *session, struct kv_op *op)
{
    struct session *c = session;
    uint64_t *copy = c->copies + (size_t)op->backend_word * body_words(c->s);
    uint64_t bucket = first_bucket(c->s, op->key);
    int owner = owner_of(c->s, op->key);

    if (c->flushes_at[op->backend_word] == c->flushes[owner])
        flush(c, owner);
    op->result = search(c, op->key, &bucket, copy) ? KV_DONE : KV_MISSING;
    if (op->result == KV_DONE)
        memcpy(op->value, copy + VALUE - KEY, (size_t)c->s->o->value_bytes);
}

/* ---- Writing ---- */

static void lock(struct session *c, int owner, uint64_t bucket)
{
    uint64_t one = 1, before = 1;

    for (int tries = 1; ; tries++) {
        MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, owner, place(c->s, owner, bucket, LOCK),
                         MPI_REPLACE, c->s->w.win);
        flush(c, owner);
        if (before == 0)
            return;
        if (tries % TRIES_BEFORE_YIELD == 0)
            sched_yield();
    }
}

/* All that was put before is in place when the flush is done, and so before the lock is free. */
static void unlock(struct session *c, int owner, uint64_t bucket)
{
    uint64_t zero = 0;

    flush(c, owner);
    MPI_Accumulate(&zero, 1, MPI_UINT64_T, owner, place(c->s, owner, bucket, LOCK), 1,
                   MPI_UINT64_T, MPI_REPLACE, c->s->w.win);
    flush(c, owner);
}

/* Under the lock. The source is the scratch copy, which nobody touches until the flush. */
static void put_value(struct session *c, int owner, uint64_t bucket, const struct kv_op *op)
{
    const struct store *s = c->s;
    uint64_t *body = c->scratch;
    int words = (int)(1 + s->value_words);

    body[words - 1] = 0; /* what a value that is no whole number of words leaves */
    memcpy(body + 1, op->value, (size_t)s->o->value_bytes);
    body[0] = sum_of(s, op->key, body + 1);
    MPI_Put(body, words, MPI_UINT64_T, owner, place(s, owner, bucket, CHECK), words,
            MPI_UINT64_T, s->w.win);
}

static void update(struct session *c, struct kv_op *op)
{
    int owner = owner_of(c->s, op->key);
    uint64_t bucket;

    op->result = find(c, op->key, &bucket) ? KV_DONE : KV_MISSING;
    if (op->result != KV_DONE)
        return;
    lock(c, owner, bucket);
    put_value(c, owner, bucket, op);
    unlock(c, owner, bucket);
}

/* A bucket that is free may have been taken when its lock is held: then the search goes on. Two
 * that insert the same key meet at the same bucket, and the second one finds it. */
static void insert(struct session *c, struct kv_op *op)
{
    int owner = owner_of(c->s, op->key);
    uint64_t bucket, taken;

    for (;;) {
        op->result = find(c, op->key, &bucket) ? KV_EXISTS : KV_DONE;
        if (op->result == KV_EXISTS)
            return;
        lock(c, owner, bucket);
        MPI_Get(&taken, 1, MPI_UINT64_T, owner, place(c->s, owner, bucket, KEY), 1, MPI_UINT64_T,
                c->s->w.win);
        flush(c, owner);
        if (taken == 0)
            break;
        unlock(c, owner, bucket);
    }
    put_value(c, owner, bucket, op);
    flush(c, owner);
    MPI_Put(&op->key, 1, MPI_UINT64_T, owner, place(c->s, owner, bucket, KEY), 1, MPI_UINT64_T,
            c->s->w.win);
    unlock(c, owner, bucket);
}

static bool start(void *session, struct kv_op *op)
{
    struct session *c = session;

    switch (op->kind) {
    case KV_READ: start_read(c, op); return false;
    case KV_UPDATE: update(c, op); return true;
    default: insert(c, op); return true;        /* scans are not for this store */
    }
}

const struct kv_backend kv_mpi = {
    .name = "mpi",
    .text = "a hash table in an MPI window, a lock in each bucket, reads without locks",
    .open = open_store,
    .close = close_store,
    .attach = attach,
    .detach = detach,
    .start = start,
    .finish = finish,
};
