/* SPDX-License-Identifier: BSD-3-Clause */
#include "word_table.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORD = 8,
    HEADER_WORDS = 1,      /* heap_used */
    BUCKET_WORDS = 2,      /* ref, count */
    LONGEST_IN_REF = 0xffff, /* this length in a ref means: at least so long, see the heap */
    MOST_PROBES = 128,     /* a part where a free bucket is farther away counts as full */
    ADDS_PER_FLUSH = 4096,
    GROWTH = 4,
    PIECE = 1 << 26,       /* bytes per MPI_Get of a part */
};

static const uint64_t one = 1;

static size_t rounded_words(size_t bytes)
{
    return (bytes + WORD - 1) / WORD;
}

static size_t bucket_byte(size_t bucket)
{
    return (HEADER_WORDS + bucket * BUCKET_WORDS) * WORD;
}

static size_t heap_byte(const struct word_table *t)
{
    return bucket_byte(t->buckets);
}

size_t word_table_bytes(const struct word_table *t)
{
    return heap_byte(t) + t->heap_bytes;
}

/* A ref: heap offset in words, plus one, in the upper half; then length; then bits of the hash. */
static uint64_t make_ref(size_t offset, size_t length, uint64_t hash)
{
    uint64_t shown = length < LONGEST_IN_REF ? length : LONGEST_IN_REF;

    return (uint64_t)(offset / WORD + 1) << 32 | shown << 16 | (hash >> 48);
}

static size_t ref_offset(uint64_t ref)
{
    return (size_t)((ref >> 32) - 1) * WORD;
}

/* Could this be the ref of that word? */
static bool ref_may_be(uint64_t ref, size_t length, uint64_t hash)
{
    return (uint32_t)ref == (uint32_t)make_ref(0, length, hash);
}

static int owner_of(uint64_t hash)
{
    return (int)(hash % (uint64_t)ex_size());
}

static size_t first_bucket(const struct word_table *t, uint64_t hash)
{
    return (size_t)((hash >> 20) % t->buckets);
}

static void make_part(struct word_table *t, enum ex_flavor flavor)
{
    if (t->buckets > t->most_bytes / (BUCKET_WORDS * WORD) || t->heap_bytes > t->most_bytes ||
        word_table_bytes(t) > t->most_bytes)
        ex_abort("the table is full: %zu buckets and %zu bytes of text per rank are more than "
                 "--memory allows", t->buckets, t->heap_bytes);
    ex_window_create(&t->w, flavor, word_table_bytes(t));
}

/* Plain stores to the own part are over everywhere before anybody's first access to another's. */
static void open_epoch(struct word_table *t)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    ex_check(MPI_Win_lock_all(0, t->w.win), "MPI_Win_lock_all");
}

void word_table_create(struct word_table *t, enum ex_flavor flavor, size_t buckets,
                       size_t heap_bytes, size_t most_bytes)
{
    memset(t, 0, sizeof(*t));
    t->buckets = buckets;
    t->heap_bytes = rounded_words(heap_bytes) * WORD;
    t->most_bytes = most_bytes;
    words_init(&t->places);
    make_part(t, flavor);
    open_epoch(t);
}

void word_table_flush(struct word_table *t)
{
    ex_check(MPI_Win_flush_all(t->w.win), "MPI_Win_flush_all");
    t->unflushed = 0;
}

void word_table_close(struct word_table *t)
{
    word_table_flush(t);
    ex_check(MPI_Win_unlock_all(t->w.win), "MPI_Win_unlock_all");
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

void word_table_free(struct word_table *t)
{
    ex_window_free(&t->w);
    words_fini(&t->places);
    free(t->scratch);
}

/* Room for a length and a text. */
static uint64_t *scratch(struct word_table *t, size_t words)
{
    if (words > t->scratch_words) {
        free(t->scratch);
        t->scratch = malloc(words * WORD);
        if (t->scratch == NULL)
            ex_abort("no memory for a word of %zu bytes", words * WORD);
        t->scratch_words = words;
    }
    return t->scratch;
}

/* An atomic read: the word is one that others change by atomics at this moment. */
static uint64_t read_ref(struct word_table *t, int owner, size_t byte)
{
    uint64_t unused = 0, ref;

    MPI_Fetch_and_op(&unused, &ref, MPI_UINT64_T, owner, ex_at(&t->w, owner, byte), MPI_NO_OP,
                     t->w.win);
    MPI_Win_flush(owner, t->w.win);
    return ref;
}

/* Puts a word's length and text in the owner's heap and says where; false if the heap is full. */
static bool put_text(struct word_table *t, int owner, const char *text, size_t length,
                     size_t *offset)
{
    size_t words = 1 + rounded_words(length);
    uint64_t size = words * WORD, used;
    uint64_t *buffer = scratch(t, words);

    MPI_Fetch_and_op(&size, &used, MPI_UINT64_T, owner, ex_at(&t->w, owner, 0), MPI_SUM, t->w.win);
    MPI_Win_flush(owner, t->w.win);
    if (used > t->heap_bytes || size > t->heap_bytes - used) {
        t->heap_wanted = (size_t)size;
        return false;
    }
    buffer[words - 1] = 0;
    buffer[0] = length;
    memcpy(buffer + 1, text, length);
    MPI_Put(buffer, (int)words, MPI_UINT64_T, owner,
            ex_at(&t->w, owner, heap_byte(t) + (size_t)used), (int)words, MPI_UINT64_T, t->w.win);
    MPI_Win_flush(owner, t->w.win); /* in place before the ref that leads to it */
    *offset = (size_t)used;
    return true;
}

static void get_words(struct word_table *t, int owner, size_t byte, uint64_t *to, size_t words)
{
    MPI_Get(to, (int)words, MPI_UINT64_T, owner, ex_at(&t->w, owner, byte), (int)words,
            MPI_UINT64_T, t->w.win);
    MPI_Win_flush(owner, t->w.win);
}

/* Is the word behind this ref the one asked for? */
static bool same_word(struct word_table *t, int owner, uint64_t ref, const char *text,
                      size_t length, uint64_t hash)
{
    size_t byte = heap_byte(t) + ref_offset(ref);
    size_t words = rounded_words(length);
    uint64_t *buffer;

    if (!ref_may_be(ref, length, hash))
        return false;
    if (length >= LONGEST_IN_REF) {
        uint64_t stored;

        get_words(t, owner, byte, &stored, 1);
        if (stored != length)
            return false;
    }
    buffer = scratch(t, words);
    get_words(t, owner, byte + WORD, buffer, words);
    return memcmp(buffer, text, length) == 0;
}

/* The bucket of a word, claimed if need be; false if the owner's part is full. */
static bool find_bucket(struct word_table *t, int owner, const char *text, size_t length,
                        uint64_t hash, size_t *bucket)
{
    bool have_text = false;
    size_t offset = 0;

    for (size_t probe = 0; probe < t->buckets; probe++) {
        size_t b = (first_bucket(t, hash) + probe) % t->buckets;
        uint64_t free_ref = 0, ref = read_ref(t, owner, bucket_byte(b));

        if (ref == 0) {
            uint64_t mine;

            if (probe >= MOST_PROBES)
                break;
            if (!have_text && !put_text(t, owner, text, length, &offset))
                return false;
            have_text = true;
            mine = make_ref(offset, length, hash);
            MPI_Compare_and_swap(&mine, &free_ref, &ref, MPI_UINT64_T, owner,
                                 ex_at(&t->w, owner, bucket_byte(b)), t->w.win);
            MPI_Win_flush(owner, t->w.win);
        }
        if (ref == 0 || same_word(t, owner, ref, text, length, hash)) {
            *bucket = b;
            return true;
        }
    }
    t->buckets_wanted = true;
    return false;
}

bool word_table_add(struct word_table *t, const char *text, size_t length)
{
    uint64_t hash = word_hash(text, length);
    uint64_t *place = words_value(&t->places, text, length, hash);
    int owner = owner_of(hash);

    if (*place == 0) {
        size_t bucket;

        if (!find_bucket(t, owner, text, length, hash, &bucket))
            return false;
        *place = bucket + 1;
    }
    MPI_Accumulate(&one, 1, MPI_UINT64_T, owner,
                   ex_at(&t->w, owner, bucket_byte((size_t)*place - 1) + WORD), 1, MPI_UINT64_T,
                   MPI_SUM, t->w.win);
    if (++t->unflushed >= ADDS_PER_FLUSH)
        word_table_flush(t);
    return true;
}

bool word_table_entry(const struct word_table *t, const void *part, size_t bucket,
                      struct word_entry *entry)
{
    const uint64_t *words = part;
    const uint64_t *b = words + HEADER_WORDS + bucket * BUCKET_WORDS;
    const uint64_t *stored;

    if (b[0] == 0)
        return false;
    stored = words + (heap_byte(t) + ref_offset(b[0])) / WORD;
    entry->text = (const char *)(stored + 1);
    entry->length = (size_t)stored[0];
    entry->count = b[1];
    return true;
}

/* Puts a word into this rank's own part by plain stores, while nobody else looks at it. */
static void store_entry(struct word_table *t, const struct word_entry *e)
{
    uint64_t hash = word_hash(e->text, e->length);
    uint64_t *part = t->w.base;
    size_t bucket = first_bucket(t, hash);
    uint64_t *text = part + (heap_byte(t) + (size_t)part[0]) / WORD;
    uint64_t *b;

    while (part[HEADER_WORDS + bucket * BUCKET_WORDS] != 0)
        bucket = (bucket + 1) % t->buckets;
    b = part + HEADER_WORDS + bucket * BUCKET_WORDS;
    b[0] = make_ref((size_t)part[0], e->length, hash);
    b[1] = e->count;
    text[0] = e->length;
    memcpy(text + 1, e->text, e->length);
    part[0] += (1 + rounded_words(e->length)) * WORD;
}

/* Each word stays with its owner, so each rank moves its own. */
static void move_entries(struct word_table *from, struct word_table *to)
{
    int self = ex_rank();
    struct word_entry entry;

    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, self, 0, from->w.win), "MPI_Win_lock");
    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, self, 0, to->w.win), "MPI_Win_lock");
    for (size_t b = 0; b < from->buckets; b++) {
        if (word_table_entry(from, from->w.base, b, &entry))
            store_entry(to, &entry);
    }
    ex_check(MPI_Win_unlock(self, to->w.win), "MPI_Win_unlock");
    ex_check(MPI_Win_unlock(self, from->w.win), "MPI_Win_unlock");
}

bool word_table_grow(struct word_table *t)
{
    uint64_t mine[2] = { t->buckets_wanted, t->heap_wanted }, all[2];
    struct word_table old;

    ex_check(MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    if (all[0] == 0 && all[1] == 0)
        return false;
    word_table_close(t);
    old = *t;
    if (all[0] != 0)
        t->buckets *= GROWTH;
    if (all[1] != 0)
        t->heap_bytes = t->heap_bytes * GROWTH + (size_t)all[1];
    make_part(t, old.w.flavor);
    move_entries(&old, t);
    ex_window_free(&old.w);

    words_fini(&t->places);
    words_init(&t->places);
    t->buckets_wanted = false;
    t->heap_wanted = 0;
    t->grown++;
    open_epoch(t);
    return true;
}

void word_table_read(struct word_table *t, int rank, void *part)
{
    size_t bytes = word_table_bytes(t);

    ex_check(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, t->w.win), "MPI_Win_lock");
    for (size_t at = 0; at < bytes; at += PIECE) {
        int count = (int)(bytes - at < PIECE ? bytes - at : PIECE);

        MPI_Get((char *)part + at, count, MPI_BYTE, rank, ex_at(&t->w, rank, at), count, MPI_BYTE,
                t->w.win);
    }
    ex_check(MPI_Win_unlock(rank, t->w.win), "MPI_Win_unlock");
}
