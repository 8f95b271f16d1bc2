/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers from the index, as text or JSON. */
#include "word_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 16 };    /* of --and */

struct hit {
    uint64_t file, count;
};

struct hits {
    struct hit *list;
    size_t used, room;
    uint64_t occurrences;
};

/* The words of --and, and how they are parted. */
struct words_of {
    char word[WORDS_MAX][TEXT_WORD_MAX + 1];
    int n;
};

static void add_hit(void *ctx, uint64_t file, uint64_t count)
{
    struct hits *h = ctx;

    if (h->used == h->room) {
        h->room = h->room == 0 ? 1024 : 2 * h->room;
        h->list = realloc(h->list, h->room * sizeof(*h->list));
        if (h->list == NULL)
            ex_abort("no memory for %zu files", h->room);
    }
    h->list[h->used++] = (struct hit){ file, count };
}

static int by_file(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    return x->file < y->file ? -1 : x->file > y->file;
}

static int most_first(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_file(a, b);
}

static void sort_hits(struct hits *h, int (*order)(const void *, const void *))
{
    if (h->used > 0)
        qsort(h->list, h->used, sizeof(*h->list), order);
}

/* The word's files by number, each once, without those whose batch is not whole. */
static void find(struct word_index *ix, const char *word, struct hits *h)
{
    char path[INDEX_PATH_MAX + 1];
    size_t n = 0;

    index_read(ix, word, strlen(word), add_hit, h);
    sort_hits(h, by_file);
    for (size_t i = 0; i < h->used; i++) {
        if (n > 0 && h->list[n - 1].file == h->list[i].file)
            h->list[n - 1].count += h->list[i].count;
        else if (index_file(ix, h->list[i].file, path))
            h->list[n++] = h->list[i];
        else
            continue;
        h->occurrences += h->list[i].count;
    }
    h->used = n;
}

/* What both have; each counts as often as the rarer word. */
static void intersect(struct hits *h, const struct hits *other)
{
    size_t n = 0;

    h->occurrences = 0;
    for (size_t i = 0, j = 0; i < h->used; i++) {
        while (j < other->used && other->list[j].file < h->list[i].file)
            j++;
        if (j == other->used || other->list[j].file != h->list[i].file)
            continue;
        h->list[n] = h->list[i];
        if (other->list[j].count < h->list[n].count)
            h->list[n].count = other->list[j].count;
        h->occurrences += h->list[n++].count;
    }
    h->used = n;
}

static void print_hits(struct word_index *ix, const struct hits *h, int64_t limit, bool json)
{
    char path[INDEX_PATH_MAX + 1];

    for (size_t i = 0; i < h->used && (int64_t)i < limit; i++) {
        if (!index_file(ix, h->list[i].file, path))
            continue;
        if (!json) {
            printf("%12" PRIu64 "  %s\n", h->list[i].count, path);
            continue;
        }
        printf("%s{\"path\": ", i > 0 ? ", " : "");
        ex_json_string(stdout, path, strlen(path));
        printf(", \"count\": %" PRIu64 "}", h->list[i].count);
    }
}

/* ---- words, and several of them ---- */

static void split(const char *text, struct words_of *w)
{
    char part[TEXT_WORD_MAX * 8];
    const char *at = text;

    for (w->n = 0; w->n < WORDS_MAX;) {
        size_t skip = strcspn(at, " +,&"), length = skip < sizeof(part) ? skip : sizeof(part) - 1;

        memcpy(part, at, length);
        part[length] = '\0';
        if (length > 0 && text_only_word(part, w->word[w->n]) == 1)
            w->n++;
        at += skip;
        if (*at == '\0')
            return;
        at++;
    }
}

static void answer_words(struct word_index *ix, const struct index_query *q, int64_t limit,
                         bool json)
{
    struct words_of w = { .n = 1 };
    struct hits h = { .used = 0 };
    double start = MPI_Wtime();

    if (q->kind == QUERY_AND)
        split(q->text, &w);
    else
        text_only_word(q->text, w.word[0]);
    find(ix, w.word[0], &h);
    for (int i = 1; i < w.n; i++) {
        struct hits other = { .used = 0 };

        find(ix, w.word[i], &other);
        intersect(&h, &other);
        free(other.list);
    }
    sort_hits(&h, most_first);
    if (json) {
        printf("{\"%s\": ", q->kind == QUERY_AND ? "and" : "word");
        ex_json_string(stdout, q->text, strlen(q->text));
        printf(", \"files\": %zu, \"occurrences\": %" PRIu64 ", \"ms\": %.3f, \"top\": [", h.used,
               h.occurrences, 1e3 * (MPI_Wtime() - start));
    } else {
        printf("%s: %" PRIu64 " times in %zu files (%.3f ms)\n", q->text, h.occurrences, h.used,
               1e3 * (MPI_Wtime() - start));
    }
    print_hits(ix, &h, limit, json);
    if (json)
        printf("]}");
    free(h.list);
}

/* ---- words with a beginning ---- */

struct prefixed {
    int64_t limit;
    bool json;
    uint64_t words, occurrences;
};

static int see_word(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct prefixed *p = ctx;
    struct index_head head;

    if (memchr(key.data, 0, key.len) != NULL || !index_head_get(value, &head))
        return 0;
    p->occurrences += head.occurrences;
    if ((int64_t)p->words++ >= p->limit)
        return 0;
    if (p->json) {
        printf("%s{\"word\": ", p->words > 1 ? ", " : "");
        ex_json_string(stdout, key.data, key.len);
        printf(", \"postings\": %" PRIu64 ", \"occurrences\": %" PRIu64 "}", head.postings,
               head.occurrences);
    } else {
        printf("%12" PRIu64 "  %.*s\n", head.occurrences, (int)key.len, (const char *)key.data);
    }
    return 0;
}

static void answer_prefix(struct word_index *ix, const struct index_query *q, int64_t limit,
                          bool json)
{
    struct prefixed p = { .limit = limit, .json = json };
    char first[TEXT_WORD_MAX + 1], end[TEXT_WORD_MAX + 1];
    double start = MPI_Wtime();
    loco_bytes_t from, to;
    int status;

    text_only_word(q->text, first);
    from = loco_text(first);
    to = loco_prefix_end(from, end);
    if (json) {
        printf("{\"prefix\": ");
        ex_json_string(stdout, first, strlen(first));
        printf(", \"list\": [");
    } else {
        printf("words that begin with %s:\n", first);
    }
    status = loco_tree_scan(ix->words, &from, to.len > 0 ? &to : NULL, 0, see_word, &p);
    if (status != LOCO_OK)
        ex_abort("searching %s: %s", first, loco_strerror(status));
    printf(json ? "], \"words\": %" PRIu64 ", \"occurrences\": %" PRIu64 ", \"ms\": %.3f}"
                : "  in all %" PRIu64 " words, %" PRIu64 " times (%.3f ms)\n",
           p.words, p.occurrences, 1e3 * (MPI_Wtime() - start));
}

void index_answer(struct word_index *ix, const struct index_query *q, int64_t limit, bool json)
{
    if (q->kind == QUERY_PREFIX)
        answer_prefix(ix, q, limit, json);
    else
        answer_words(ix, q, limit, json);
}

const char *index_query_problem(const struct index_query *q)
{
    char word[TEXT_WORD_MAX + 1];
    struct words_of w;
    int words = text_only_word(q->text, word);

    if (words == 0)
        return "there is no word in it";
    if (q->kind != QUERY_AND)
        return words == 1 ? NULL : "that is more than one word; --and finds files with several";
    split(q->text, &w);
    if (w.n != words)
        return "its words are to be parted by spaces, commas, & or +, 16 at most";
    return w.n >= 2 ? NULL : "two words at least are needed";
}
