/* SPDX-License-Identifier: BSD-3-Clause */

/* Key-value stores: how they work, and the calls on one key.
 *
 * Each member has a region of places for values, and an index of all keys (kv_index.h). A key's
 * word, in the index, says where its value is: rank, place, and a counter of the values that were
 * there. The place has the same word beside the value, its meta word: its bit 0 says whether the
 * value is valid, which in the index it always is.
 *
 * Who writes what. Under the key's lock: the inserter its own place, all of it; the updater value
 * and sum (version) of a place anywhere; the deleter the meta word of a place anywhere, to invalid.
 * The index of a process: its poller, by the messages of others, and its own inserters and
 * deleters. The owner of a place alone takes and gives it (kv_value.c).
 *
 *   insert   take the lock; the key is not in the index. Write value, sum and meta, not valid, to a
 *            free place of this process. Put the word into this index, tell the others, wait until
 *            all have put it into theirs. Make it valid. Release the lock.
 *   update   take the lock; the index has the word. Write value and sum. Release the lock, with a
 *            fence to the place.
 *   delete   take the lock; the index has the word. Make it invalid; fence. Take it out of this
 *            index, tell the others, wait until all have. Give the place back to its owner.
 *            Release.
 *   get      the index's word; none: not found. Read the place. Its meta word is not this word: not
 *            found. It is torn: once more. Else: the value.
 *
 * Why it is linearizable (the idea is that of the paper's appendix C). An insert takes effect when
 * its meta word becomes valid, an update when all its words are placed, a delete when its meta word
 * has become invalid.
 *
 *   (1) These of one key are in one order, that of its lock, each within its call: an update is
 *       placed, and a delete's word is, before the lock is released. And under the lock the index
 *       of this process has the key if and only if it is there: who inserted or deleted it last has
 *       waited for this process, too.
 *   (2) A get that finds no word: at that time some insert of the key has not been acknowledged by
 *       this process, hence has not taken effect; or a delete has been told of, hence has; or there
 *       never was one. The key is absent at that time.
 *   (3) A get that finds a meta word that is not its own: the same counter but invalid, then it is
 *       absent now: not yet inserted, or deleted. Else the place has another value already, which
 *       needs the acknowledgement of this process for the delete before: so the delete took effect
 *       after this call found the word in the index (or before, but then it is absent, too). In
 *       each case the key was absent at some time during the call.
 *   (4) A get that finds its own meta word and a whole value: the value belongs to this word,
 *       below. Let t be when the meta word was read, v when the value was (by the last of its
 *       words, if they were read one by one): the key was there at t with some value. If v < t,
 *       then at v the value may not have been valid yet: it was inserted in between, with this
 *       value or one that an update after v replaced: the get takes effect at v or, if that is
 *       later, right after the insert did. If t < v: it takes effect at v or, if it was deleted by
 *       then, right before the delete. All of this is within the call.
 *
 * Why a value belongs to its word. A place is used again only after all members have acknowledged
 * the delete, and it is written again only then; its meta word was made invalid long before.
 *
 *   mapped, one word     The value is read before the meta word. If it was of a later use of the
 *                        place, then the meta word is seen as it became before that: not valid.
 *   mapped, more words   The same, and the version is read before and after: an updater makes it
 *                        busy before and a new one after, so the words are of one value. (Writes of
 *                        a lane are placed in this order; stores are releases.)
 *   over a lane          The words of a read come in any order. The sum is over word and value: a
 *                        value of another use, or half of another one, does not fit. The same
 *                        where memory is the CPU's own and others write through a device: they
 *                        give no version then.
 *
 * A counter has the bits that rank and place leave, 24 at least and mostly some 40; to be deceived,
 * a reader has to stand still between index and place for exactly so many uses of one place.
 *
 * Deaths. A member that is dead reads nothing, so its acknowledgement is not needed; a member that
 * is not, but has not noticed the death either, has acknowledged by itself. If an inserter dies,
 * its value is lost with it. If a deleter does: the place is invalid before the first member hears
 * of it, so all see the key as absent, whether their index has it or not; its lock is never free
 * again, so nobody trusts in (1). An updater: what it left torn is told from what is being written
 * by the lock, which says who has it (kv_value.c). */

#include "config.h"

#include <string.h>

#include "kv_value.h"

/* ---- lookups ---- */

static int get(loco_kvstore_t *kv, uint64_t key, void *value, size_t len)
{
    uint64_t word;
    int status;

    if (len != kv->value_bytes)
        return LOCO_ERR_SIZE;
    loci_kv_help(kv);
    word = loci_kv_index_find(&kv->index, key);
    if (word == 0)
        return LOCO_ERR_NOT_FOUND;
    status = loci_kv_get_mapped(kv, word, value);
    return status != LOCI_KV_TORN ? status : loci_kv_read_value(kv, key, word, value);
}

int loco_kvstore_get(loco_kvstore_t *kv, uint64_t key, void *value, size_t len)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_GET, len);

    return loci_call_end(self, get(kv, key, value, len));
}

/* ---- locks ---- */

static int acquire(struct loco_kvstore *kv, int lock)
{
    return loco_ticket_lock_acquire(loco_ticket_array_at(kv->locks, lock));
}

/* `status` unless that is LOCO_OK. */
static int release(struct loco_kvstore *kv, int lock, enum loco_fence_scope scope, int status)
{
    int released = loco_ticket_lock_release(loco_ticket_array_at(kv->locks, lock), scope,
                                            LOCO_ALL_PEERS);

    return status != LOCO_OK ? status : released;
}

/* What was written to the word's place is placed before the lock is another's. Where the lock's
 * host keeps the place, that is the release's own atomic, if it can be. */
static int release_written(struct loco_kvstore *kv, int lock, uint64_t word, int status)
{
    int rank = loci_kv_rank(kv, word), fenced;

    if (rank == lock % kv->ep->group.size)
        return release(kv, lock, LOCO_ORDER, status);
    fenced = loci_fence_peer(kv->rt, LOCO_FENCE_PAIR, loci_kv_mem(kv, word)->peer);
    return release(kv, lock, LOCO_FENCE_NONE, status != LOCO_OK ? status : fenced);
}

/* ---- inserts ---- */

/* Up to LOCI_KV_BATCH keys, with the locks that they need, in order of their numbers: all who take
 * several do so, and none waits for another's with a lock that that one wants. */
struct batch {
    struct loco_kvstore *kv;
    const uint64_t *keys;
    const unsigned char *values;
    int *statuses;
    int n, nlocks;
    int lock[LOCI_KV_BATCH];            /* those that it has */
    int failed[LOCI_KV_BATCH];          /* how taking it failed, or LOCO_OK */
    struct loci_kv_message message;
};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void list_locks(struct batch *b)
{
    int n = 0;

    for (int i = 0; i < b->n; i++)
        b->lock[i] = loci_kv_lock_of(b->kv, b->keys[i]);
    if (b->n > 1)
        qsort(b->lock, (size_t)b->n, sizeof b->lock[0], by_number);
    for (int i = 0; i < b->n; i++)
        if (n == 0 || b->lock[n - 1] != b->lock[i])
            b->lock[n++] = b->lock[i];
    b->nlocks = n;
}

static int lock_failed(const struct batch *b, uint64_t key)
{
    int lock = loci_kv_lock_of(b->kv, key);
    const int *at = bsearch(&lock, b->lock, (size_t)b->nlocks, sizeof lock, by_number);

    return at == NULL ? LOCO_ERR_STATE : b->failed[at - b->lock];
}

/* A place for one key, filled, and its word in this process's index. */
static int prepare(struct batch *b, uint64_t key, const void *value)
{
    struct loco_kvstore *kv = b->kv;
    uint64_t word = loci_kv_index_find(&kv->index, key), place;
    struct loci_kv_record *record = &b->message.record[b->message.n];
    int status = lock_failed(b, key);

    if (status != LOCO_OK)
        return status;
    if (word != 0)
        return loci_kv_is_lost(kv, word) ? LOCO_ERR_PEER_DEAD : LOCO_ERR_EXISTS;
    status = loci_kv_take_place(kv, &place);
    if (status != LOCO_OK)
        return status;
    record->key = key;
    record->word = loci_kv_fill_place(kv, place, value);
    status = loci_kv_index_put(&kv->index, key, record->word);
    LOCO_ASSERT(status == LOCO_OK);     /* there are cells for all places there are */
    b->message.n++;
    return status;
}

static int insert_locked(struct batch *b)
{
    struct loco_kvstore *kv = b->kv;
    int status = LOCO_OK;

    b->message.kind = LOCI_KV_INSERT;
    b->message.n = 0;
    for (int i = 0; i < b->n; i++)
        b->statuses[i] = prepare(b, b->keys[i], b->values + (size_t)i * kv->value_bytes);
    if (b->message.n > 0)
        status = loci_kv_tell(kv, &b->message, true);
    for (uint32_t i = 0; i < b->message.n && status == LOCO_OK; i++)
        loci_kv_set_valid(kv, b->message.record[i].word);
    return status;
}

static void spread(struct batch *b, int status)
{
    for (int i = 0; i < b->n && status != LOCO_OK; i++)
        if (b->statuses[i] == LOCO_OK)
            b->statuses[i] = status;
}

static void insert_batch(struct batch *b)
{
    int status;

    list_locks(b);
    for (int i = 0; i < b->nlocks; i++)
        b->failed[i] = acquire(b->kv, b->lock[i]);
    spread(b, insert_locked(b));
    for (int i = b->nlocks - 1; i >= 0; i--) {
        if (b->failed[i] != LOCO_OK)
            continue;
        status = release(b->kv, b->lock[i], LOCO_FENCE_NONE, LOCO_OK);
        for (int k = 0; k < b->n && status != LOCO_OK; k++)
            if (loci_kv_lock_of(b->kv, b->keys[k]) == b->lock[i] && b->statuses[k] == LOCO_OK)
                b->statuses[k] = status;
    }
}

static int insert_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys, const void *values,
                       size_t len, int *statuses)
{
    struct batch b = { .kv = kv };
    int first = LOCO_OK;

    if (len != kv->value_bytes)
        return LOCO_ERR_SIZE;
    for (size_t done = 0; done < n; done += (size_t)b.n) {
        b.n = n - done < LOCI_KV_BATCH ? (int)(n - done) : LOCI_KV_BATCH;
        b.keys = keys + done;
        b.values = (const unsigned char *)values + done * len;
        b.statuses = statuses + done;
        insert_batch(&b);
        for (int i = 0; i < b.n && first == LOCO_OK; i++)
            if (b.statuses[i] != LOCO_ERR_EXISTS)
                first = b.statuses[i];
    }
    return first;
}

int loco_kvstore_insert_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys,
                             const void *values, size_t len, int *statuses)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_INSERT, n * len);

    return loci_call_end(self, insert_many(kv, n, keys, values, len, statuses));
}

static int insert(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len)
{
    int status = LOCO_OK, all = insert_many(kv, 1, &key, value, len, &status);

    return all != LOCO_OK ? all : status;
}

int loco_kvstore_insert(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_INSERT, len);

    return loci_call_end(self, insert(kv, key, value, len));
}

/* ---- updates ---- */

/* The key's word, under its lock, or why it cannot be written. */
static int find_locked(struct loco_kvstore *kv, uint64_t key, uint64_t *word)
{
    *word = loci_kv_index_find(&kv->index, key);
    if (*word == 0)
        return LOCO_ERR_NOT_FOUND;
    return loci_kv_is_lost(kv, *word) ? LOCO_ERR_PEER_DEAD : LOCO_OK;
}

static int update(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len)
{
    int lock = loci_kv_lock_of(kv, key), status;
    uint64_t word;

    if (len != kv->value_bytes)
        return LOCO_ERR_SIZE;
    status = acquire(kv, lock);
    if (status != LOCO_OK)
        return status;
    status = find_locked(kv, key, &word);
    if (status != LOCO_OK)
        return release(kv, lock, LOCO_FENCE_NONE, status);
    status = loci_kv_write_value(kv, word, value);
    return release_written(kv, lock, word, status);
}

int loco_kvstore_update(loco_kvstore_t *kv, uint64_t key, const void *value, size_t len)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_UPDATE, len);

    return loci_call_end(self, update(kv, key, value, len));
}

static int compare_set_locked(struct loco_kvstore *kv, uint64_t key, uint64_t word,
                              const void *expected, const void *desired, void *found)
{
    int status = loci_kv_read_value(kv, key, word, found);

    if (status != LOCO_OK)
        return status;
    if (memcmp(found, expected, kv->value_bytes) != 0)
        return LOCO_ERR_DIFFERS;
    return loci_kv_write_value(kv, word, desired);
}

/* With a buffer for what is found. */
static int compare_set(struct loco_kvstore *kv, uint64_t key, const void *expected,
                       const void *desired, void *found)
{
    int lock = loci_kv_lock_of(kv, key), status = acquire(kv, lock);
    uint64_t word;

    if (status != LOCO_OK)
        return status;
    status = find_locked(kv, key, &word);
    if (status != LOCO_OK)
        return release(kv, lock, LOCO_FENCE_NONE, status);
    status = compare_set_locked(kv, key, word, expected, desired, found);
    return release_written(kv, lock, word, status);
}

static int compare_set_aside(loco_kvstore_t *kv, uint64_t key, const void *expected,
                             const void *desired, size_t len, void *found)
{
    struct loci_kv_scratch scratch;
    int status;

    if (len != kv->value_bytes)
        return LOCO_ERR_SIZE;
    /* `found` may be `expected`. */
    status = loci_kv_scratch_open(&scratch, len);
    if (status != LOCO_OK)
        return status;
    status = compare_set(kv, key, expected, desired, scratch.words);
    if (found != NULL && (status == LOCO_OK || status == LOCO_ERR_DIFFERS))
        memcpy(found, scratch.words, len);
    loci_kv_scratch_close(&scratch);
    return status;
}

int loco_kvstore_compare_set(loco_kvstore_t *kv, uint64_t key, const void *expected,
                             const void *desired, size_t len, void *found)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_COMPARE_SET, len);

    return loci_call_end(self, compare_set_aside(kv, key, expected, desired, len, found));
}

/* ---- deletes ---- */

static int delete_locked(struct loco_kvstore *kv, uint64_t key, uint64_t word)
{
    struct loci_kv_message m = { .kind = LOCI_KV_DELETE, .n = 1 };
    int status = loci_kv_set_invalid(kv, word);

    if (status != LOCO_OK)
        return status;
    m.record[0].key = key;
    m.record[0].word = word;
    loci_kv_index_remove(&kv->index, key, word);
    status = loci_kv_tell(kv, &m, true);
    if (status != LOCO_OK)
        return status;
    if (loci_kv_rank(kv, word) == kv->ep->group.rank) {
        loci_kv_give_place(kv, loci_kv_place(kv, word));
        return LOCO_OK;
    }
    m.kind = LOCI_KV_FREE;
    return loci_kv_tell(kv, &m, false);
}

static int delete_key(loco_kvstore_t *kv, uint64_t key)
{
    int lock = loci_kv_lock_of(kv, key), status = acquire(kv, lock);
    uint64_t word;

    if (status != LOCO_OK)
        return status;
    status = find_locked(kv, key, &word);
    if (status == LOCO_OK)
        status = delete_locked(kv, key, word);
    return release(kv, lock, LOCO_FENCE_NONE, status);
}

int loco_kvstore_delete(loco_kvstore_t *kv, uint64_t key)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_DELETE, 0);

    return loci_call_end(self, delete_key(kv, key));
}
