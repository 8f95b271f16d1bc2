/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_file.h"

#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HASH_DIGITS = 16, KEPT = TEXT_WORD_MAX - HASH_DIGITS - 1 };

static void add_byte(struct text_word *w, char c)
{
    if (c >= 'A' && c <= 'Z')
        c = (char)(c - 'A' + 'a');
    if (w->length < TEXT_WORD_MAX)
        w->text[w->length] = c;
    else if (w->length == TEXT_WORD_MAX)
        w->hash = word_hash(w->text, TEXT_WORD_MAX);
    if (w->length >= TEXT_WORD_MAX)
        w->hash = (w->hash ^ (unsigned char)c) * UINT64_C(0x100000001b3);
    w->length++;
}

/* Its length as it is given, 0 if there was none. */
static size_t end_word(struct text_word *w)
{
    size_t length = w->length < TEXT_WORD_MAX ? (size_t)w->length : TEXT_WORD_MAX;

    if (w->length > TEXT_WORD_MAX)
        snprintf(w->text + KEPT, HASH_DIGITS + 2, "~%016" PRIx64, w->hash);
    w->length = 0;
    return length;
}

static void scan(struct text_file *t, size_t n, text_word_fn *word, void *ctx)
{
    for (size_t i = 0; i < n; i++) {
        size_t length;

        if (word_byte((unsigned char)t->piece[i])) {
            add_byte(&t->word, t->piece[i]);
            continue;
        }
        length = end_word(&t->word);
        if (length > 0)
            word(ctx, t->word.text, length);
    }
}

/* Bytes of the next piece, which is full but at the end of a file; -1: an error. */
static ssize_t next_piece(struct text_file *t, int fd)
{
    size_t filled = 0;

    while (filled < sizeof(t->piece)) {
        ssize_t got = read(fd, t->piece + filled, sizeof(t->piece) - filled);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    t->bytes += filled;
    return (ssize_t)filled;
}

static enum text_kind read_words(struct text_file *t, int fd, bool binary_too,
                                 text_word_fn *word, void *ctx)
{
    ssize_t got = next_piece(t, fd);
    size_t length;

    if (got > 0 && !binary_too && memchr(t->piece, 0, (size_t)got) != NULL)
        return TEXT_BINARY;
    for (; got > 0; got = next_piece(t, fd))
        scan(t, (size_t)got, word, ctx);
    length = end_word(&t->word);
    if (length > 0)
        word(ctx, t->word.text, length);
    if (got < 0)
        return TEXT_UNREADABLE;
    return t->bytes == 0 ? TEXT_EMPTY : TEXT_READ;
}

enum text_kind text_file_words(struct text_file *t, const char *path, bool binary_too,
                               text_word_fn *word, void *ctx)
{
    /* What has become a pipe since the files were listed does not make it wait. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum text_kind kind;

    t->word.length = 0;
    t->bytes = 0;
    t->error = errno;
    if (fd < 0)
        return TEXT_UNREADABLE;
    kind = read_words(t, fd, binary_too, word, ctx);
    t->error = errno;
    close(fd);
    return kind;
}

int text_only_word(const char *text, char word[TEXT_WORD_MAX + 1])
{
    struct text_word w = { .length = 0 };
    int words = 0;

    for (;; text++) {
        size_t length;

        if (word_byte((unsigned char)*text)) {
            add_byte(&w, *text);
            continue;
        }
        length = end_word(&w);
        if (length > 0) {
            memcpy(word, w.text, length);
            word[length] = '\0';
            words++;
        }
        if (*text == '\0')
            return words;
    }
}
