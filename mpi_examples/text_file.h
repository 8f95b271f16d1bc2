/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of one file, read piece by piece: neither a file nor a line nor a word is too long. A
 * word is what words.h says, in lower case as far as ASCII goes. One of more than TEXT_WORD_MAX
 * bytes is given as its beginning, ~, and 16 digits of a hash of all of it, TEXT_WORD_MAX bytes in
 * all: such words are told apart, and keep their order up to there.
 */
#ifndef MPI_EXAMPLES_TEXT_FILE_H
#define MPI_EXAMPLES_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_WORD_MAX = 256, TEXT_PIECE = 1 << 17 };

enum text_kind {
    TEXT_READ,
    TEXT_EMPTY,
    TEXT_BINARY,        /* there is a zero in its first TEXT_PIECE bytes; no word was given */
    TEXT_UNREADABLE     /* `error` says why, `bytes` how far it was read */
};

typedef void text_word_fn(void *ctx, const char *word, size_t length);

/* A word that may go on in the next piece. */
struct text_word {
    char text[TEXT_WORD_MAX + 1];
    uint64_t length;        /* of all of it */
    uint64_t hash;
};

struct text_file {
    struct text_word word;
    uint64_t bytes;
    int error;              /* an errno */
    char piece[TEXT_PIECE];
};

/* Calls word(ctx, ...) for each word. `binary_too`: of binary files as well. */
enum text_kind text_file_words(struct text_file *t, const char *path, bool binary_too,
                               text_word_fn *word, void *ctx);

/* The one word of a text, as text_file_words would give it, with a zero behind it; 0: it has none;
 * more than 1: it has so many, and `word` is the last. */
int text_only_word(const char *text, char word[TEXT_WORD_MAX + 1]);

#endif
