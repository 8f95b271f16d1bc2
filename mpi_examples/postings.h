/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An inverted index in one process's own memory: for each word the files that it is in, and how
 * often. Files are added one after the other, and a word's postings are in that order.
 */
#ifndef MPI_EXAMPLES_POSTINGS_H
#define MPI_EXAMPLES_POSTINGS_H

#include "words.h"

struct posting {
    uint32_t file;
    uint32_t next;          /* the word's next one; 0: none */
    uint64_t count;
};

struct postings {
    struct words words;     /* value: the first posting << 32 | the last one */
    struct posting *pool;   /* from 1 on */
    uint32_t used;
    uint32_t capacity;
    uint64_t occurrences;   /* of all words */
};

void postings_init(struct postings *p);
void postings_fini(struct postings *p);

/* The word is in that file once more. */
void postings_add(struct postings *p, uint32_t file, const char *word, size_t length);

/* What it takes of memory. */
size_t postings_bytes(const struct postings *p);

/* How many postings there may be yet. */
uint32_t postings_room(const struct postings *p);

/* All words, in the order of their bytes: p->words.used of them, which the caller frees. */
const struct word **postings_sorted(const struct postings *p);

static inline const struct posting *posting_first(const struct postings *p, const struct word *w)
{
    return &p->pool[w->value >> 32];
}

/* NULL: there are no more. */
static inline const struct posting *posting_next(const struct postings *p,
                                                 const struct posting *at)
{
    return at->next == 0 ? NULL : &p->pool[at->next];
}

#endif
