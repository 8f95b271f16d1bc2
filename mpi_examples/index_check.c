/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the index what it should be? All of its entries are looked at, in their order: a word's entry
 * comes right before its chunks. With a serial index, made by one process of the same files in its
 * own memory, each word's postings are compared, and there must be no word more or less.
 */
#include "word_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 5 };

struct found {
    uint64_t file, count;
};

struct look {
    struct word_index *ix;
    struct index_content *content;
    struct postings *serial;        /* NULL: compare with nothing */
    char word[TEXT_WORD_MAX];       /* at hand */
    size_t length;
    struct index_head head;
    uint64_t chunks, list_bytes;
    struct found *list;             /* its postings */
    size_t used, room;
};

static void wrong(struct look *k, const char *what)
{
    if (k->content->wrong++ < MOST_MESSAGES)
        fprintf(stderr, "wrong: %.*s: %s\n", (int)k->length, k->word, what);
}

/* ---- one word ---- */

static void add_posting(void *ctx, uint64_t file, uint64_t count)
{
    struct look *k = ctx;

    if (k->used == k->room) {
        k->room = k->room == 0 ? 1024 : 2 * k->room;
        k->list = realloc(k->list, k->room * sizeof(*k->list));
        if (k->list == NULL)
            ex_abort("no memory for %zu postings", k->room);
    }
    k->list[k->used++] = (struct found){ file, count };
    k->content->occurrences += count;
    k->head.occurrences -= count;
}

static int by_file(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->file < y->file ? -1 : x->file > y->file;
}

/* A file whose words were in several batches has several postings. */
static void put_together(struct look *k)
{
    size_t n = 0;

    qsort(k->list, k->used, sizeof(*k->list), by_file);
    for (size_t i = 0; i < k->used; i++) {
        if (n > 0 && k->list[n - 1].file == k->list[i].file)
            k->list[n - 1].count += k->list[i].count;
        else
            k->list[n++] = k->list[i];
    }
    k->used = n;
}

static void compare(struct look *k)
{
    uint64_t *value = words_find(&k->serial->words, k->word, k->length,
                                 word_hash(k->word, k->length));
    const struct posting *p;
    size_t i = 0;

    if (value == NULL || *value == 0) {
        wrong(k, value == NULL ? "in no file" : "met twice");
        return;
    }
    put_together(k);
    for (p = &k->serial->pool[*value >> 32]; p != NULL; p = posting_next(k->serial, p), i++) {
        if (i >= k->used || k->list[i].file != p->file || k->list[i].count != p->count) {
            wrong(k, "not the postings of the serial index");
            break;
        }
    }
    if (p == NULL && i != k->used)
        wrong(k, "more postings than in the serial index");
    *value = 0;
}

static void end_word(struct look *k)
{
    if (k->length == 0)
        return;
    if (k->chunks != k->head.chunks || k->used != k->head.postings || k->head.occurrences != 0)
        wrong(k, "its entry tells of other postings than there are");
    if (k->serial != NULL)
        compare(k);
    if (k->list_bytes > k->content->longest)
        k->content->longest = k->list_bytes;
    k->length = 0;
}

static void begin_word(struct look *k, loco_bytes_t key, loco_bytes_t value)
{
    end_word(k);
    k->length = key.len < sizeof(k->word) ? key.len : sizeof(k->word);
    memcpy(k->word, key.data, k->length);
    k->used = 0;
    k->chunks = 0;
    k->list_bytes = 0;
    k->content->words++;
    if (!index_head_get(value, &k->head)) {
        wrong(k, "its entry is none");
        return;
    }
    k->content->postings += k->head.postings;
    k->list_bytes = k->head.tail_bytes;
    if (!index_postings_get(k->head.tail, k->head.tail_bytes, add_posting, k))
        wrong(k, "its entry has no whole postings");
}

static void take_chunk(struct look *k, loco_bytes_t key, loco_bytes_t value)
{
    k->content->chunks++;
    if (key.len != k->length + 5 || memcmp(key.data, k->word, k->length) != 0)
        wrong(k, "behind it comes a chunk of another word");
    else if (!index_postings_get(value.data, value.len, add_posting, k))
        wrong(k, "one of its chunks has no whole postings");
    k->chunks++;
    k->list_bytes += value.len;
}

static int look_at_entry(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct look *k = ctx;

    k->content->entries++;
    k->content->bytes += key.len + value.len;
    if (memchr(key.data, 0, key.len) == NULL)
        begin_word(k, key, value);
    else
        take_chunk(k, key, value);
    return 0;
}

/* ---- the serial index ---- */

struct serial {
    struct postings postings;
    uint32_t file;
    bool *read;             /* by number: it is in the index */
};

static void add_word(void *ctx, const char *word, size_t length)
{
    struct serial *s = ctx;

    postings_add(&s->postings, s->file, word, length);
}

static void make_serial(struct serial *s, const struct index_options *o,
                        const struct index_files *files)
{
    struct text_file *t = calloc(1, sizeof(*t));
    struct ex_progress progress;

    s->read = calloc(files->count + 1, sizeof(*s->read));
    if (t == NULL || s->read == NULL)
        ex_abort("no memory for the serial index");
    ex_progress_init(&progress, o->progress);
    postings_init(&s->postings);
    for (uint64_t i = 0; i < files->count; i++) {
        enum text_kind kind;

        s->file = (uint32_t)i;
        kind = text_file_words(t, index_path(files, i), o->binary, add_word, s);
        s->read[i] = kind == TEXT_READ || (kind == TEXT_UNREADABLE && t->bytes > 0);
        ex_progress_say(&progress, "serial index: %" PRIu64 " of %" PRIu64 " files", i,
                        files->count);
    }
    ex_progress_end(&progress);
    free(t);
}

/* ---- all of it ---- */

static void look_at_files(struct look *k, const struct index_files *files,
                          const struct serial *serial)
{
    char path[INDEX_PATH_MAX + 1];

    for (uint64_t i = 0; i < files->count; i++) {
        bool there = index_file(k->ix, i, path);

        k->content->files += there;
        if (there && strncmp(path, index_path(files, i), INDEX_PATH_MAX) == 0
            && (serial == NULL || serial->read[i]))
            continue;
        if (!there && (serial == NULL || !serial->read[i]))
            continue;
        if (k->content->wrong++ < MOST_MESSAGES)
            fprintf(stderr, "wrong: %s %s\n", index_path(files, i),
                    there ? "is in the index" : "is not in the index");
    }
}

void index_look(struct word_index *ix, const struct index_options *o,
                const struct index_files *files, bool serial, struct index_content *content)
{
    struct look k = { .ix = ix, .content = content };
    struct serial s;
    int status;

    memset(content, 0, sizeof(*content));
    if (serial) {
        make_serial(&s, o, files);
        k.serial = &s.postings;
    }
    status = loco_tree_scan(ix->words, NULL, NULL, 0, look_at_entry, &k);
    if (status != LOCO_OK)
        ex_abort("looking at all entries: %s", loco_strerror(status));
    end_word(&k);
    look_at_files(&k, files, serial ? &s : NULL);
    if (serial && content->words != s.postings.words.used) {
        content->wrong++;
        fprintf(stderr, "wrong: %" PRIu64 " words instead of %zu\n", content->words,
                s.postings.words.used);
    }
    free(k.list);
    if (serial) {
        postings_fini(&s.postings);
        free(s.read);
    }
}
