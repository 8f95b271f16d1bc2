/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_input.h"

#include "common.h"
#include "words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BYTES_PER_RANK = 1 << 18,  /* in a round */
    MOST_BYTES = 1 << 30,      /* a round is no longer, so neither is a word */
};

/* Can it be read, and how long is it? */
static bool look_at(struct text_input *in, const char *name, bool *length_known)
{
    struct stat about;
    FILE *file;

    if (strcmp(name, "-") == 0) {
        *length_known = false;
        return true;
    }
    file = fopen(name, "r");
    if (file == NULL || fstat(fileno(file), &about) != 0 || S_ISDIR(about.st_mode)) {
        fprintf(stderr, "%s: %s\n", name, file == NULL ? strerror(errno) : "is a directory");
        if (file != NULL)
            fclose(file);
        return false;
    }
    if (S_ISREG(about.st_mode))
        in->bytes_known += (uint64_t)about.st_size;
    else
        *length_known = false;
    fclose(file);
    return true;
}

const char *text_input_open(struct text_input *in, char *const *names, int name_count)
{
    bool length_known = true;
    int bad = -1;

    memset(in, 0, sizeof(*in));
    in->names = names;
    in->name_count = name_count;
    in->counts = calloc((size_t)ex_size(), sizeof(*in->counts));
    in->starts = calloc((size_t)ex_size(), sizeof(*in->starts));
    if (in->counts == NULL || in->starts == NULL)
        ex_abort("no memory for the input of %d ranks", ex_size());
    if (ex_rank() == 0) {
        /* A pipe can be opened once only, so it is not tried here. */
        for (int i = 0; i < name_count && bad < 0; i++) {
            struct stat about;

            if (stat(names[i], &about) == 0 && S_ISFIFO(about.st_mode))
                length_known = false;
            else if (!look_at(in, names[i], &length_known))
                bad = i;
        }
        if (!length_known)
            in->bytes_known = 0;
    }
    ex_check(MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return bad < 0 ? NULL : names[bad];
}

static bool next_file(struct text_input *in)
{
    const char *name;

    if (in->next_name == in->name_count)
        return false;
    name = in->names[in->next_name++];
    in->file = strcmp(name, "-") == 0 ? stdin : fopen(name, "r");
    if (in->file == NULL)
        ex_abort("%s: %s", name, strerror(errno));
    return true;
}

static void end_file(struct text_input *in)
{
    if (ferror(in->file))
        ex_abort("%s: %s", in->names[in->next_name - 1], strerror(errno));
    if (in->file != stdin)
        fclose(in->file);
    in->file = NULL;
    in->buffer[in->filled++] = '\n'; /* words do not go on from one file to the next */
}

/* Reads up to the capacity; false if there was nothing more to read. */
static bool fill(struct text_input *in)
{
    size_t before = in->filled;

    /* One byte is kept for the end of a file. */
    while (in->filled + 1 < in->capacity && (in->file != NULL || next_file(in))) {
        size_t got = fread(in->buffer + in->filled, 1, in->capacity - 1 - in->filled, in->file);

        in->filled += got;
        in->bytes_read += got;
        if (feof(in->file) || ferror(in->file))
            end_file(in);
    }
    return in->filled > before;
}

/* Where the last byte between words ends. */
static size_t last_boundary(const struct text_input *in)
{
    size_t at = in->filled;

    while (at > 0 && word_byte((unsigned char)in->buffer[at - 1]))
        at--;
    return at;
}

static void enlarge(struct text_input *in)
{
    size_t least = (size_t)ex_size() * BYTES_PER_RANK;

    if (in->capacity >= MOST_BYTES)
        ex_abort("a word of %d bytes is too long", MOST_BYTES);
    in->capacity = in->capacity == 0 ? least : in->capacity * 2;
    if (in->capacity > MOST_BYTES)
        in->capacity = MOST_BYTES;
    in->buffer = realloc(in->buffer, in->capacity);
    if (in->buffer == NULL)
        ex_abort("no memory for %zu bytes of input", in->capacity);
}

/* Rank 0: fills the buffer with whole words; 0 at the end. */
static size_t next_round(struct text_input *in)
{
    if (in->capacity == 0)
        enlarge(in);
    in->filled -= in->dealt;
    memmove(in->buffer, in->buffer + in->dealt, in->filled);
    for (in->dealt = 0;;) {
        bool more = fill(in);

        in->dealt = last_boundary(in);
        if (in->dealt > 0 || !more)
            return in->dealt;
        enlarge(in); /* one word is all there is so far */
    }
}

/* Rank 0: about equal pieces, each from the beginning of a word. */
static void cut(struct text_input *in)
{
    size_t at = 0;
    int size = ex_size();

    for (int r = 0; r < size; r++) {
        size_t end = in->dealt / (size_t)size * (size_t)(r + 1);

        if (r == size - 1 || end < at)
            end = r == size - 1 ? in->dealt : at;
        while (end < in->dealt && word_byte((unsigned char)in->buffer[end]))
            end++;
        in->starts[r] = (int)at;
        in->counts[r] = (int)(end - at);
        at = end;
    }
}

bool text_input_deal(struct text_input *in, const char **piece, size_t *length)
{
    uint64_t round = 0;
    int mine;

    if (ex_rank() == 0) {
        round = next_round(in);
        cut(in);
    }
    ex_check(MPI_Bcast(&round, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (round == 0)
        return false;
    ex_check(MPI_Scatter(in->counts, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD),
             "MPI_Scatter");
    if ((size_t)mine > in->piece_capacity || in->piece == NULL) {
        free(in->piece);
        in->piece_capacity = (size_t)mine + 1;
        in->piece = malloc(in->piece_capacity);
        if (in->piece == NULL)
            ex_abort("no memory for %d bytes of input", mine);
    }
    ex_check(MPI_Scatterv(in->buffer, in->counts, in->starts, MPI_BYTE, in->piece, mine, MPI_BYTE,
                          0, MPI_COMM_WORLD), "MPI_Scatterv");
    *piece = in->piece;
    *length = (size_t)mine;
    return true;
}

bool text_next_word(const char *piece, size_t length, size_t *at, char *word, size_t *word_length)
{
    size_t i = *at, n = 0;

    while (i < length && !word_byte((unsigned char)piece[i]))
        i++;
    for (; i < length && word_byte((unsigned char)piece[i]); i++, n++)
        word[n] = piece[i] >= 'A' && piece[i] <= 'Z' ? (char)(piece[i] - 'A' + 'a') : piece[i];
    *at = i;
    *word_length = n;
    return n > 0;
}

void text_input_close(struct text_input *in)
{
    free(in->buffer);
    free(in->piece);
    free(in->counts);
    free(in->starts);
}
