/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table of words in one process's own memory: a number for each word. Words are compared by
 * their text, so two of them are never taken for one. Running out of memory ends the program.
 */
#ifndef MPI_EXAMPLES_WORDS_H
#define MPI_EXAMPLES_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct word {
    const char *text; /* not terminated; NULL in an empty slot */
    size_t length;
    uint64_t hash;
    uint64_t value;
};

struct words {
    struct word *slots;
    size_t capacity; /* a power of two */
    size_t used;
    char **blocks;   /* where the texts are */
    size_t block_count;
    size_t block_used;
    size_t block_size;
    size_t block_bytes; /* of all blocks */
};

void words_init(struct words *t);
void words_fini(struct words *t);

/* What it takes of memory. */
size_t words_bytes(const struct words *t);

uint64_t word_hash(const char *text, size_t length);

/* Letters of any alphabet in UTF-8, and digits: what words are made of here. */
bool word_byte(unsigned char c);

/* The value of a word, which is put in with the value 0 if it was not there. The pointer holds
 * until the next call. */
uint64_t *words_value(struct words *t, const char *text, size_t length, uint64_t hash);

/* The value of a word, or NULL. */
uint64_t *words_find(const struct words *t, const char *text, size_t length, uint64_t hash);

#endif
