/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the words of a text in a hash table that is spread over all ranks (see word_table.h), with
 * MPI's one-sided calls alone: compare-and-swap claims a bucket, accumulate counts.
 */
#include "common.h"
#include "text_input.h"
#include "word_table.h"
#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N wordcount [OPTION]... FILE...\n"
    "Counts the words of the files (- is standard input) in a hash table over all ranks.\n"
    "A word is a run of letters and digits; A to Z count as a to z.\n"
    "\n"
    "  --flavor " EX_FLAVORS "  kind of MPI window (allocate)\n"
    "  --top N         show the N most frequent words (10)\n"
    "  --buckets N     buckets per rank to begin with (16384); the table grows as needed\n"
    "  --memory MIB    the table takes no more than this per rank (1024)\n"
    "  --no-check      do not compare with a serial count on rank 0\n"
    "  --json          print the results as JSON\n"
    "  --progress      show progress on stderr (otherwise only on a terminal)\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0, 1 if the counts are wrong or a call failed, 2 on wrong use.\n";

enum { HEAP_PER_BUCKET = 24, MOST_TOP = 1000 };

struct options {
    enum ex_flavor flavor;
    int64_t top;
    int64_t buckets;
    int64_t memory;
    bool check;
    bool json;
    bool progress;
    char *const *files;
    int file_count;
};

struct totals {
    uint64_t words;       /* counted, from the table */
    uint64_t distinct;
    uint64_t wrong;       /* entries that are not as in the serial count */
    struct word_entry *top; /* texts are copies */
    size_t top_used;
};

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'f': return ex_flavor_parse(optarg, &o->flavor);
    case 't': return ex_number(optarg, 0, MOST_TOP, &o->top);
    case 'b': return ex_number(optarg, 1, INT32_MAX, &o->buckets);
    case 'm': return ex_number(optarg, 1, 16384, &o->memory);
    case 'n': o->check = false; return true;
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "flavor", required_argument, NULL, 'f' }, { "top", required_argument, NULL, 't' },
        { "buckets", required_argument, NULL, 'b' }, { "memory", required_argument, NULL, 'm' },
        { "no-check", no_argument, NULL, 'n' },      { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },      { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int first;

    *o = (struct options){ .top = 10, .buckets = 16384, .memory = 1024, .check = true };
    first = ex_options(argc, argv, names, help, parse_one, o);
    if (first == argc)
        ex_usage_error(argv[0], "no input file (- is standard input)");
    o->files = argv + first;
    o->file_count = argc - first;
}

/* Counts this rank's piece of a round. Where a part is full, all ranks make the table larger
 * together and each goes on with the word that it could not count. */
static void count_piece(struct word_table *table, const char *piece, size_t length, char *word)
{
    size_t at = 0, word_length;
    bool pending = false;

    do {
        while (pending || text_next_word(piece, length, &at, word, &word_length)) {
            pending = !word_table_add(table, word, word_length);
            if (pending)
                break;
        }
        word_table_flush(table);
    } while (word_table_grow(table));
}

static void count_serially(struct words *serial, const char *text, size_t length, char *word)
{
    size_t at = 0, n;

    while (text_next_word(text, length, &at, word, &n))
        ++*words_value(serial, word, n, word_hash(word, n));
}

static char *word_buffer(char *old, size_t *capacity, size_t wanted)
{
    if (wanted <= *capacity)
        return old;
    free(old);
    old = malloc(wanted);
    if (old == NULL)
        ex_abort("no memory for a word of %zu bytes", wanted);
    *capacity = wanted;
    return old;
}

/* Counts all input; returns the seconds it took without the serial count. */
static double count_input(const struct options *o, struct text_input *in, struct word_table *table,
                          struct words *serial)
{
    struct ex_progress progress;
    double seconds = 0, start = MPI_Wtime();
    size_t length, capacity = 0;
    const char *piece;
    char *word = word_buffer(NULL, &capacity, 1);

    ex_progress_init(&progress, o->progress);
    while (text_input_deal(in, &piece, &length)) {
        word = word_buffer(word, &capacity, length);
        count_piece(table, piece, length, word);
        seconds += MPI_Wtime() - start;
        if (serial != NULL && ex_rank() == 0) {
            word = word_buffer(word, &capacity, in->dealt);
            count_serially(serial, in->buffer, in->dealt, word);
        }
        if (in->bytes_known > 0)
            ex_progress_say(&progress, "%.1f of %.1f MB counted", (double)in->bytes_read / 1e6,
                            (double)in->bytes_known / 1e6);
        else
            ex_progress_say(&progress, "%.1f MB counted", (double)in->bytes_read / 1e6);
        start = MPI_Wtime();
    }
    ex_progress_end(&progress);
    free(word);
    word_table_close(table);
    return seconds + MPI_Wtime() - start;
}

static bool before(const struct word_entry *a, const struct word_entry *b)
{
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, shorter);

    if (a->count != b->count)
        return a->count > b->count;
    return order != 0 ? order < 0 : a->length < b->length;
}

/* Keeps the entry if it is among the most frequent so far. */
static void rate(struct totals *t, size_t most, const struct word_entry *e)
{
    size_t at = t->top_used;
    char *copy;

    if (most == 0 || (at == most && !before(e, &t->top[at - 1])))
        return;
    copy = malloc(e->length);
    if (copy == NULL)
        ex_abort("no memory for a word of %zu bytes", e->length);
    memcpy(copy, e->text, e->length);
    if (at == most)
        free((char *)t->top[--at].text);
    else
        t->top_used++;
    for (; at > 0 && before(e, &t->top[at - 1]); at--)
        t->top[at] = t->top[at - 1];
    t->top[at] = (struct word_entry){ .text = copy, .length = e->length, .count = e->count };
}

/* Compares with the serial count, where each word may be met once. */
static void check_entry(struct totals *t, struct words *serial, const struct word_entry *e)
{
    uint64_t *expected = words_find(serial, e->text, e->length, word_hash(e->text, e->length));

    if (expected == NULL || *expected != e->count) {
        if (t->wrong++ < 5)
            fprintf(stderr, "wrong: %.*s is counted %" PRIu64 " times instead of %" PRIu64 "\n",
                    (int)e->length, e->text, e->count, expected == NULL ? 0 : *expected);
        return;
    }
    *expected = 0;
}

/* Rank 0 reads the parts of all ranks, one after the other. */
static void collect(const struct options *o, struct word_table *table, struct words *serial,
                    struct totals *t)
{
    void *part = malloc(word_table_bytes(table));

    t->top = calloc((size_t)o->top + 1, sizeof(*t->top));
    if (part == NULL || t->top == NULL)
        ex_abort("no memory for a copy of a part of the table");
    for (int r = 0; r < ex_size(); r++) {
        word_table_read(table, r, part);
        for (size_t b = 0; b < table->buckets; b++) {
            struct word_entry e;

            if (!word_table_entry(table, part, b, &e))
                continue;
            t->words += e.count;
            t->distinct++;
            rate(t, (size_t)o->top, &e);
            if (serial != NULL)
                check_entry(t, serial, &e);
        }
    }
    if (serial != NULL && t->distinct != serial->used) {
        fprintf(stderr, "wrong: %" PRIu64 " distinct words instead of %zu\n", t->distinct,
                serial->used);
        t->wrong++;
    }
    free(part);
}

static void print_table(const struct totals *t, const struct text_input *in,
                        const struct word_table *table, double seconds, const char *check)
{
    printf("%-16s %d\n", "ranks", ex_size());
    printf("%-16s %s\n", "flavor", ex_flavor_name(table->w.flavor));
    printf("%-16s %" PRIu64 "\n", "bytes", in->bytes_read);
    printf("%-16s %" PRIu64 "\n", "words", t->words);
    printf("%-16s %" PRIu64 "\n", "distinct words", t->distinct);
    printf("%-16s %d times\n", "table grown", table->grown);
    printf("%-16s %.3f (%.2f MB/s)\n", "seconds", seconds,
           seconds > 0 ? (double)in->bytes_read / 1e6 / seconds : 0);
    printf("%-16s %s\n", "check", check);
    for (size_t i = 0; i < t->top_used; i++)
        printf("%12" PRIu64 "  %.*s\n", t->top[i].count, (int)t->top[i].length, t->top[i].text);
}

static void print_json(const struct totals *t, const struct text_input *in,
                       const struct word_table *table, double seconds, const char *check)
{
    printf("{\"example\": \"wordcount\", \"ranks\": %d, \"flavor\": \"%s\", \"bytes\": %" PRIu64
           ", \"words\": %" PRIu64 ", \"distinct\": %" PRIu64 ", \"grown\": %d, "
           "\"seconds\": %.6f, \"check\": \"%s\", \"top\": [",
           ex_size(), ex_flavor_name(table->w.flavor), in->bytes_read, t->words, t->distinct,
           table->grown, seconds, check);
    for (size_t i = 0; i < t->top_used; i++) {
        printf("%s{\"word\": ", i > 0 ? ", " : "");
        ex_json_string(stdout, t->top[i].text, t->top[i].length);
        printf(", \"count\": %" PRIu64 "}", t->top[i].count);
    }
    printf("]}\n");
}

/* Rank 0: true if all is right. */
static bool report(const struct options *o, const struct text_input *in, struct word_table *table,
                   struct words *serial, double seconds)
{
    struct totals t = { 0 };
    const char *check = "not made";

    collect(o, table, serial, &t);
    if (serial != NULL)
        check = t.wrong == 0 ? "as the serial count" : "WRONG";
    if (o->json)
        print_json(&t, in, table, seconds, check);
    else
        print_table(&t, in, table, seconds, check);
    for (size_t i = 0; i < t.top_used; i++)
        free((char *)t.top[i].text);
    free(t.top);
    return t.wrong == 0;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text_input in;
    struct word_table table;
    struct words serial;
    const char *bad;
    double seconds;
    int good = 1;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    bad = text_input_open(&in, o.files, o.file_count);
    if (bad != NULL)
        ex_usage_error(argv[0], "cannot read %s", bad);
    words_init(&serial);
    word_table_create(&table, o.flavor, (size_t)o.buckets, (size_t)o.buckets * HEAP_PER_BUCKET,
                      (size_t)o.memory << 20);
    seconds = count_input(&o, &in, &table, o.check ? &serial : NULL);
    if (ex_rank() == 0)
        good = report(&o, &in, &table, o.check ? &serial : NULL, seconds);
    ex_check(MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    word_table_free(&table);
    words_fini(&serial);
    text_input_close(&in);
    return ex_finish(good ? 0 : EX_WRONG);
}
