/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building: each rank takes the largest file that nobody has taken yet, until there is none. Its
 * postings wait in memory until they are --batch MiB. Then they are appended in the order of the
 * words, some neighbours in a transaction: they share leaves, each of which is then written once.
 * Each rank begins with a part of the words of its own, so that two meet rarely.
 */
#include "word_index.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 10 };

struct build {
    struct word_index *ix;
    const struct index_options *o;
    const struct index_files *files;
    struct index_tally *tally;
    struct ex_progress progress;
    struct postings batch;
    uint64_t batch_number;
    uint32_t *numbers;              /* of the batch's files */
    size_t numbers_used, numbers_room;
    uint32_t file;                  /* at hand */
    uint64_t taken, taken_bytes;    /* by all, as far as this rank knows */
    double appending;               /* seconds */
    /* Runs that are appended next, and their postings. */
    struct index_run runs[INDEX_RUNS_MAX];
    int run_count;
    unsigned char *buffer;
    size_t filled;
};

static void show(struct build *b, const char *what, double percent)
{
    ex_progress_say(&b->progress, "%.0f of %.0f MB taken by all ranks; this one is %s, %.0f %%",
                    (double)b->taken_bytes / 1e6, (double)b->files->bytes / 1e6, what, percent);
}

/* ---- appending a batch ---- */

static void append_now(struct build *b)
{
    if (b->run_count > 0)
        index_append(b->ix, b->runs, b->run_count);
    b->run_count = 0;
    b->filled = 0;
}

/* Make a run of the postings from `*at` on, as many as a run may have. */
static void make_run(struct build *b, const struct word *w, const struct posting **at)
{
    struct index_run *r;

    if (b->run_count == INDEX_RUNS_MAX || INDEX_APPEND_MAX - b->filled < INDEX_RUN_MAX)
        append_now(b);
    r = &b->runs[b->run_count++];
    *r = (struct index_run){ .word = w->text, .length = w->length,
                             .postings = b->buffer + b->filled };
    while (*at != NULL && r->bytes + INDEX_POSTING_MAX <= INDEX_RUN_MAX) {
        r->bytes += index_posting_put(b->buffer + b->filled + r->bytes, (*at)->file, (*at)->count);
        r->occurrences += (*at)->count;
        r->count++;
        *at = posting_next(&b->batch, *at);
    }
    b->filled += r->bytes;
    b->tally->postings += r->count;
}

/* A word with more than one run has a transaction for each, one after the other. */
static void append_word(struct build *b, const struct word *w)
{
    const struct posting *at = posting_first(&b->batch, w);

    make_run(b, w, &at);
    while (at != NULL) {
        append_now(b);
        make_run(b, w, &at);
    }
}

static void append_words(struct build *b)
{
    const struct word **sorted = postings_sorted(&b->batch);
    size_t n = b->batch.words.used;
    size_t first = n * (size_t)ex_rank() / (size_t)ex_size();

    for (size_t i = 0; i < n; i++) {
        append_word(b, sorted[(first + i) % n]);
        if (i % 1024 == 0)
            show(b, "appending", 100.0 * (double)i / (double)n);
    }
    append_now(b);
    free(sorted);
}

static void append_batch(struct build *b)
{
    double start = MPI_Wtime();
    uint64_t number = (uint64_t)ex_rank() << 32 | b->batch_number;

    if (b->numbers_used == 0)
        return;
    index_put_files(b->ix, number, b->files, b->numbers, b->numbers_used);
    append_words(b);
    index_end_batch(b->ix, number);
    b->tally->words += b->batch.occurrences;
    b->tally->batches++;
    b->batch_number++;
    b->numbers_used = 0;
    postings_fini(&b->batch);
    postings_init(&b->batch);
    b->appending += MPI_Wtime() - start;
}

/* ---- reading files ---- */

static void file_is_in_batch(struct build *b)
{
    if (b->numbers_used == b->numbers_room) {
        b->numbers_room = b->numbers_room == 0 ? 1024 : 2 * b->numbers_room;
        b->numbers = realloc(b->numbers, b->numbers_room * sizeof(*b->numbers));
        if (b->numbers == NULL)
            ex_abort("no memory for the numbers of %zu files", b->numbers_room);
    }
    b->numbers[b->numbers_used++] = b->file;
}

static void add_word(void *ctx, const char *word, size_t length)
{
    struct build *b = ctx;

    postings_add(&b->batch, b->file, word, length);
    if (postings_bytes(&b->batch) >> 20 < (size_t)b->o->batch && postings_room(&b->batch) > 0)
        return;
    /* The file's first words go into this batch, which is not seen before that with the last. */
    if (b->numbers_used == 0 || b->numbers[b->numbers_used - 1] != b->file)
        file_is_in_batch(b);
    append_batch(b);
}

static void left_out(struct build *b, uint64_t number, const char *why)
{
    if (b->o->verbose || (why != NULL && number < MOST_MESSAGES))
        fprintf(stderr, "left out: %s: %s\n", index_path(b->files, b->file),
                why != NULL ? why : "binary");
}

static void say_unreadable(struct build *b, const struct text_file *t)
{
    char why[128];

    if (t->bytes == 0)
        snprintf(why, sizeof(why), "%s", strerror(t->error));
    else
        snprintf(why, sizeof(why), "all after its first %llu bytes: %s",
                 (unsigned long long)t->bytes, strerror(t->error));
    left_out(b, b->tally->unreadable, why);
}

static void read_file(struct build *b, struct text_file *t)
{
    struct index_tally *y = b->tally;

    switch (text_file_words(t, index_path(b->files, b->file), b->o->binary, add_word, b)) {
    case TEXT_BINARY:
        left_out(b, y->binary, NULL);
        y->binary++;
        return;
    case TEXT_EMPTY:
        y->empty++;
        return;
    case TEXT_UNREADABLE:
        say_unreadable(b, t);
        y->unreadable++;
        if (t->bytes == 0)
            return;
        break;
    case TEXT_READ:
        break;
    }
    y->files++;
    y->bytes += t->bytes;
    file_is_in_batch(b);
}

/* Is there another file for this rank? */
static bool take(struct build *b)
{
    uint64_t place;
    int status = loco_atomic_var_fetch_add(b->ix->next, 1, &place);

    if (status != LOCO_OK)
        ex_abort("taking a file: %s", loco_strerror(status));
    for (; b->taken < place && b->taken < b->files->count; b->taken++)
        b->taken_bytes += b->files->size[b->files->order[b->taken]];
    if (place >= b->files->count)
        return false;
    b->file = b->files->order[place];
    return true;
}

double index_build(struct word_index *ix, const struct index_options *o,
                   const struct index_files *files, struct index_tally *tally)
{
    struct build *b = calloc(1, sizeof(*b));
    struct text_file *t = calloc(1, sizeof(*t));
    loco_store_stats_t stats;
    double appending;

    if (b == NULL || t == NULL || (b->buffer = malloc(INDEX_APPEND_MAX)) == NULL)
        ex_abort("no memory to read files");
    b->ix = ix;
    b->o = o;
    b->files = files;
    b->tally = tally;
    postings_init(&b->batch);
    ex_progress_init(&b->progress, o->progress);
    while (take(b)) {
        read_file(b, t);
        show(b, "reading", 100.0 * (double)b->taken_bytes / (double)(files->bytes + 1));
    }
    append_batch(b);
    ex_progress_end(&b->progress);
    loco_tx_stats(ix->tx, &stats);
    tally->transactions = stats.commits;
    tally->conflicts = stats.conflicts;
    appending = b->appending;
    postings_fini(&b->batch);
    free(b->numbers);
    free(b->buffer);
    free(b);
    free(t);
    return appending;
}
