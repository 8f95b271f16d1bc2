/* SPDX-License-Identifier: BSD-3-Clause */
#include "words.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024, BLOCK_SIZE = 1 << 16 };

static void *get_memory(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (p == NULL)
        ex_abort("no memory for %zu times %zu bytes", count, size);
    return p;
}

void words_init(struct words *t)
{
    memset(t, 0, sizeof(*t));
    t->capacity = FIRST_CAPACITY;
    t->slots = get_memory(t->capacity, sizeof(*t->slots));
}

void words_fini(struct words *t)
{
    for (size_t i = 0; i < t->block_count; i++)
        free(t->blocks[i]);
    free(t->blocks);
    free(t->slots);
    memset(t, 0, sizeof(*t));
}

size_t words_bytes(const struct words *t)
{
    return t->capacity * sizeof(*t->slots) + t->block_bytes;
}

/* FNV-1a, and a final mix so that high and low bits are good alike. */
uint64_t word_hash(const char *text, size_t length)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    h = (h ^ (h >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

bool word_byte(unsigned char c)
{
    return c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The slot that holds the word, or the empty one where it belongs. */
static struct word *find_slot(const struct words *t, const char *text, size_t length, uint64_t hash)
{
    size_t i = hash & (t->capacity - 1);

    for (;;) {
        struct word *w = &t->slots[i];

        if (w->text == NULL)
            return w;
        if (w->hash == hash && w->length == length && memcmp(w->text, text, length) == 0)
            return w;
        i = (i + 1) & (t->capacity - 1);
    }
}

static const char *keep_text(struct words *t, const char *text, size_t length)
{
    char *copy;

    if (t->block_count == 0 || t->block_size - t->block_used < length) {
        t->blocks = realloc(t->blocks, (t->block_count + 1) * sizeof(*t->blocks));
        if (t->blocks == NULL)
            ex_abort("no memory for the texts of words");
        t->block_size = length > BLOCK_SIZE ? length : BLOCK_SIZE;
        t->blocks[t->block_count++] = get_memory(t->block_size, 1);
        t->block_bytes += t->block_size;
        t->block_used = 0;
    }
    copy = t->blocks[t->block_count - 1] + t->block_used;
    t->block_used += length;
    memcpy(copy, text, length);
    return copy;
}

static void grow(struct words *t)
{
    struct words old = *t;

    t->capacity *= 2;
    t->slots = get_memory(t->capacity, sizeof(*t->slots));
    for (size_t i = 0; i < old.capacity; i++) {
        const struct word *w = &old.slots[i];

        if (w->text != NULL)
            *find_slot(t, w->text, w->length, w->hash) = *w;
    }
    free(old.slots);
}

uint64_t *words_value(struct words *t, const char *text, size_t length, uint64_t hash)
{
    struct word *w = find_slot(t, text, length, hash);

    if (w->text != NULL)
        return &w->value;
    if (t->used * 4 >= t->capacity * 3) {
        grow(t);
        w = find_slot(t, text, length, hash);
    }
    w->text = keep_text(t, text, length);
    w->length = length;
    w->hash = hash;
    t->used++;
    return &w->value;
}

uint64_t *words_find(const struct words *t, const char *text, size_t length, uint64_t hash)
{
    struct word *w = find_slot(t, text, length, hash);

    return w->text == NULL ? NULL : &w->value;
}
