/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table of words and counts that is spread over all ranks in one MPI window, and that every
 * rank fills at the same time. Only MPI's one-sided calls: nobody serves anybody.
 *
 * A word belongs to the rank that its hash names, its owner. The owner's part of the window holds
 *
 *     heap_used | bucket 0: ref, count | bucket 1: ref, count | ... | heap: length, text, ...
 *
 * heap_used  bytes of the heap that are given out. Changed by fetch_and_op(SUM) only.
 * ref        0 while the bucket is free; else where in the heap its word is, with the word's length
 *            and 16 bits of its hash to tell most other words at a glance. Changed once, by
 *            compare_and_swap, after the text is in place: who sees a ref may read the text.
 * count      changed by accumulate(SUM) only.
 *
 * A word is looked for from the bucket that its hash names, one after the other, up to a free one,
 * which is then claimed. Who loses the race for a bucket compares its word with the
 * winner's and goes on if it is another; the heap bytes of a word that was claimed twice are lost
 * until the table grows. A word's place never moves until then, so each rank remembers
 * the places that it has seen.
 */
#ifndef MPI_EXAMPLES_WORD_TABLE_H
#define MPI_EXAMPLES_WORD_TABLE_H

#include "common.h"
#include "words.h"

struct word_table {
    struct ex_window w;
    size_t buckets;        /* per rank */
    size_t heap_bytes;     /* per rank */
    size_t most_bytes;     /* per rank; growing beyond is refused */
    struct words places;   /* bucket + 1 of each word that this rank has met */
    uint64_t *scratch;     /* texts on their way */
    size_t scratch_words;
    size_t unflushed;
    size_t heap_wanted;    /* what the last add that failed was short of */
    bool buckets_wanted;
    int grown;
};

/* What is in a part. */
struct word_entry {
    const char *text;
    size_t length;
    uint64_t count;
};

/* Collective. Opens a lock_all epoch that lasts until word_table_close. */
void word_table_create(struct word_table *t, enum ex_flavor flavor, size_t buckets,
                       size_t heap_bytes, size_t most_bytes);

/* Counts a word. False where its owner's part is full: then all grow the table, and try again. */
bool word_table_add(struct word_table *t, const char *text, size_t length);

/* All that this rank has counted is at its owners. */
void word_table_flush(struct word_table *t);

/* Collective. Makes the table larger if any rank's last add failed, and says whether it did. Ends
 * the program where most_bytes does not allow it. */
bool word_table_grow(struct word_table *t);

/* Collective: flush, and no more adds by anybody. */
void word_table_close(struct word_table *t);

/* After close: copies a rank's part into memory of word_table_bytes bytes. */
void word_table_read(struct word_table *t, int rank, void *part);
size_t word_table_bytes(const struct word_table *t);

/* The entry of a bucket of such a copy; false if it is free. */
bool word_table_entry(const struct word_table *t, const void *part, size_t bucket,
                      struct word_entry *entry);

/* Collective. */
void word_table_free(struct word_table *t);

#endif
