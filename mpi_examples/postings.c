/* SPDX-License-Identifier: BSD-3-Clause */
#include "postings.h"

#include "common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

void postings_init(struct postings *p)
{
    memset(p, 0, sizeof(*p));
    words_init(&p->words);
    p->used = 1;
}

void postings_fini(struct postings *p)
{
    words_fini(&p->words);
    free(p->pool);
}

uint32_t postings_room(const struct postings *p)
{
    return UINT32_MAX - p->used;
}

static uint32_t new_posting(struct postings *p, uint32_t file)
{
    if (p->used >= p->capacity) {
        uint64_t wanted = p->capacity == 0 ? FIRST_CAPACITY : UINT64_C(2) * p->capacity;

        p->capacity = wanted > UINT32_MAX ? UINT32_MAX : (uint32_t)wanted;
        p->pool = realloc(p->pool, p->capacity * sizeof(*p->pool));
        if (p->pool == NULL || p->used >= p->capacity)
            ex_abort("no memory for %" PRIu32 " postings", p->used);
    }
    p->pool[p->used] = (struct posting){ .file = file };
    return p->used++;
}

void postings_add(struct postings *p, uint32_t file, const char *word, size_t length)
{
    uint64_t *value = words_value(&p->words, word, length, word_hash(word, length));
    uint32_t last = (uint32_t)*value;

    if (last == 0 || p->pool[last].file != file) {
        uint32_t made = new_posting(p, file);

        if (last != 0)
            p->pool[last].next = made;
        *value = (last == 0 ? (uint64_t)made << 32 : *value >> 32 << 32) | made;
        last = made;
    }
    p->pool[last].count++;
    p->occurrences++;
}

size_t postings_bytes(const struct postings *p)
{
    return words_bytes(&p->words) + p->capacity * sizeof(*p->pool);
}

static int by_text(const void *a, const void *b)
{
    const struct word *x = *(const struct word *const *)a, *y = *(const struct word *const *)b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);

    if (order != 0)
        return order;
    return x->length < y->length ? -1 : x->length > y->length;
}

const struct word **postings_sorted(const struct postings *p)
{
    const struct word **sorted = calloc(p->words.used + 1, sizeof(*sorted));
    size_t n = 0;

    if (sorted == NULL)
        ex_abort("no memory for a list of %zu words", p->words.used);
    for (size_t i = 0; i < p->words.capacity; i++) {
        if (p->words.slots[i].text != NULL)
            sorted[n++] = &p->words.slots[i];
    }
    qsort(sorted, n, sizeof(*sorted), by_text);
    return sorted;
}
