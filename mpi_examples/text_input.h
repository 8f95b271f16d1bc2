/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text of any size from files and standard input, read by rank 0 and dealt to all ranks in pieces
 * that begin and end between words. So the files need be on rank 0's node only, as stdin is, and
 * nothing is read twice.
 */
#ifndef MPI_EXAMPLES_TEXT_INPUT_H
#define MPI_EXAMPLES_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct text_input {
    char *const *names;    /* "-" is standard input */
    int name_count;
    int next_name;
    FILE *file;
    char *buffer;          /* rank 0: the round that was dealt, then what is left for the next */
    size_t capacity;
    size_t filled;
    size_t dealt;
    uint64_t bytes_read;
    uint64_t bytes_known;  /* sizes of the regular files; 0 if there is other input too */
    char *piece;           /* this rank's */
    size_t piece_capacity;
    int *counts;           /* per rank */
    int *starts;
};

/* Collective. Where a file cannot be opened, the name is returned on every rank (else NULL). */
const char *text_input_open(struct text_input *in, char *const *names, int name_count);

/* Collective. This rank's piece of the next round; false at the end of all input. */
bool text_input_deal(struct text_input *in, const char **piece, size_t *length);

/* The next word of a piece from a position on, which moves behind it; false at the end. The word is
 * put in lower case, as far as ASCII goes, into memory of at least the piece's length. */
bool text_next_word(const char *piece, size_t length, size_t *at, char *word, size_t *word_length);

void text_input_close(struct text_input *in);

#endif
