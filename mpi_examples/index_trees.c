/* SPDX-License-Identifier: BSD-3-Clause */
/* The index's three trees: what is in their entries, and how it is changed. See word_index.h. */
#include "word_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT_WORDS, ROOT_FILES, ROOT_BATCHES, ROOTS };

enum { FILES_AT_ONCE = 16, KEY_MAX = TEXT_WORD_MAX + 5 };

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static void check_change(const struct word_index *ix, int status, const char *what)
{
    if (status == LOCO_ERR_FULL)
        ex_abort("the index does not fit into %" PRIu64 " MiB of each rank: give it more "
                 "(--memory MIB), or use more ranks", ix->memory >> 20);
    check(status, what);
}

/* ---- numbers and postings as bytes ---- */

static size_t put_number(unsigned char *to, uint64_t number)
{
    size_t n = 0;

    for (; number >= 0x80; number >>= 7)
        to[n++] = (unsigned char)(number | 0x80);
    to[n++] = (unsigned char)number;
    return n;
}

/* Moves `*at` behind the number; false where none is. */
static bool get_number(const unsigned char **at, const unsigned char *end, uint64_t *number)
{
    *number = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = *(*at)++;

        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

size_t index_posting_put(unsigned char *to, uint64_t file, uint64_t count)
{
    size_t n = put_number(to, file);

    return n + put_number(to + n, count);
}

bool index_postings_get(const unsigned char *bytes, size_t n, index_posting_fn *visit, void *ctx)
{
    const unsigned char *at = bytes, *end = bytes + n;
    uint64_t file, count;

    while (at < end) {
        if (!get_number(&at, end, &file) || !get_number(&at, end, &count))
            return false;
        visit(ctx, file, count);
    }
    return true;
}

/* How much of it can go into a chunk: whole postings. */
static size_t chunk_of(const unsigned char *bytes, size_t n)
{
    const unsigned char *at = bytes, *last = bytes;
    uint64_t number;

    if (n <= INDEX_CHUNK_MAX)
        return n;
    while (get_number(&at, bytes + n, &number) && get_number(&at, bytes + n, &number) &&
           at <= bytes + INDEX_CHUNK_MAX)
        last = at;
    return (size_t)(last - bytes);
}

bool index_head_get(loco_bytes_t value, struct index_head *head)
{
    const unsigned char *at = value.data, *end = at + value.len;

    if (!get_number(&at, end, &head->chunks) || !get_number(&at, end, &head->postings) ||
        !get_number(&at, end, &head->occurrences))
        return false;
    head->tail = at;
    head->tail_bytes = (size_t)(end - at);
    return true;
}

static size_t head_put(unsigned char *to, const struct index_head *head)
{
    size_t n = put_number(to, head->chunks);

    n += put_number(to + n, head->postings);
    n += put_number(to + n, head->occurrences);
    memcpy(to + n, head->tail, head->tail_bytes);
    return n + head->tail_bytes;
}

static loco_bytes_t chunk_key(unsigned char key[KEY_MAX], const char *word, size_t length,
                              uint64_t number)
{
    memcpy(key, word, length);
    key[length] = 0;
    for (int i = 1; i <= 4; i++)
        key[length + (size_t)i] = (unsigned char)(number >> (32 - 8 * i));
    return loco_bytes(key, length + 5);
}

/* ---- appending ---- */

enum { CHUNKS_AT_ONCE = (INDEX_APPEND_MAX + INDEX_RUNS_MAX * INDEX_TAIL_MAX) / INDEX_TAIL_MAX,
       ENTRIES_AT_ONCE = INDEX_RUNS_MAX + CHUNKS_AT_ONCE };

/* What a transaction that appends reads, and what it makes of it. */
struct index_scratch {
    struct word_index *ix;
    const struct index_run *runs;
    int n;
    /* By run: its word, and the entry that is there. */
    loco_bytes_t words[INDEX_RUNS_MAX];
    unsigned char old[INDEX_RUNS_MAX][INDEX_HEAD_MAX];
    size_t lens[INDEX_RUNS_MAX];
    int statuses[INDEX_RUNS_MAX];
    /* The entries that are put, and where their bytes are. */
    int entries, chunks;
    loco_bytes_t keys[ENTRIES_AT_ONCE], values[ENTRIES_AT_ONCE];
    unsigned char heads[INDEX_RUNS_MAX][INDEX_HEAD_MAX];
    unsigned char chunk_keys[CHUNKS_AT_ONCE][KEY_MAX];
    unsigned char postings[INDEX_APPEND_MAX + INDEX_RUNS_MAX * INDEX_TAIL_MAX];
    size_t filled;
};

static void add_entry(struct index_scratch *a, loco_bytes_t key, loco_bytes_t value)
{
    a->keys[a->entries] = key;
    a->values[a->entries++] = value;
}

/* Postings at hand, as long as they are too many for the entry of their word, go to chunks. */
static void move_to_chunks(struct index_scratch *a, const struct index_run *r,
                           struct index_head *head)
{
    while (head->tail_bytes > INDEX_TAIL_MAX) {
        size_t bytes = chunk_of(head->tail, head->tail_bytes);

        add_entry(a, chunk_key(a->chunk_keys[a->chunks++], r->word, r->length, head->chunks),
                  loco_bytes(head->tail, bytes));
        head->chunks++;
        head->tail += bytes;
        head->tail_bytes -= bytes;
    }
}

static int append_run(struct index_scratch *a, int i)
{
    const struct index_run *r = &a->runs[i];
    unsigned char *all = a->postings + a->filled;
    struct index_head head = { .tail = all };

    if (a->statuses[i] == LOCO_OK && !index_head_get(loco_bytes(a->old[i], a->lens[i]), &head))
        return LOCO_ERR_MISMATCH;
    memcpy(all, head.tail, head.tail_bytes);
    memcpy(all + head.tail_bytes, r->postings, r->bytes);
    head.tail = all;
    head.tail_bytes += r->bytes;
    head.postings += r->count;
    head.occurrences += r->occurrences;
    a->filled += head.tail_bytes;
    move_to_chunks(a, r, &head);
    add_entry(a, a->words[i], loco_bytes(a->heads[i], head_put(a->heads[i], &head)));
    return LOCO_OK;
}

/* All entries are read at once, and all are put at once: over a network that is a wait each. */
static int append_runs(loco_tx_t *tx, void *arg)
{
    struct index_scratch *a = arg;
    int status = loco_tree_get_many(a->ix->words, (size_t)a->n, a->words, a->old, INDEX_HEAD_MAX,
                                    a->lens, a->statuses);

    (void)tx;
    a->entries = a->chunks = 0;
    a->filled = 0;
    for (int i = 0; i < a->n && status == LOCO_OK; i++)
        status = append_run(a, i);
    return status != LOCO_OK ? status
           : loco_tree_put_many(a->ix->words, (size_t)a->entries, a->keys, a->values);
}

/* A transaction changes so many objects and no more (LOCO_TX_WRITES_MAX), and it depends on the
 * leaves how many words are that: where it is too much, half of them at a time. */
void index_append(struct word_index *ix, const struct index_run *runs, int n)
{
    struct index_scratch *a = ix->scratch;
    int status;

    a->ix = ix;
    a->runs = runs;
    a->n = n;
    for (int i = 0; i < n; i++)
        a->words[i] = loco_bytes(runs[i].word, runs[i].length);
    status = loco_tx_run(ix->tx, append_runs, a);
    if (status == LOCO_ERR_FULL && n > 1) {
        index_append(ix, runs, n / 2);
        index_append(ix, runs + n / 2, n - n / 2);
        return;
    }
    check_change(ix, status, "appending postings");
}

/* ---- life ---- */

void index_open(struct word_index *ix, uint64_t memory, size_t leaf_bytes)
{
    const loco_tree_options_t tree = { .leaf_bytes = leaf_bytes };
    const loco_store_options_t store = { .bytes = memory, .objects = memory / 256,
                                         .roots = ROOTS, .threads = 1 };

    ix->memory = memory;
    ix->scratch = malloc(sizeof(*ix->scratch));
    if (ix->scratch == NULL)
        ex_abort("no memory to append postings");
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &ix->rt), "loco_runtime_open_mpi");
    check(loco_store_create(ix->rt, "word_index", "store", loco_everyone(ix->rt), &store,
                            &ix->store), "loco_store_create (less: --memory MIB)");
    check(loco_atomic_var_create(ix->rt, "word_index", "next", loco_everyone(ix->rt), 0,
                                 &ix->next), "loco_atomic_var_create");
    check(loco_runtime_wait_ready(ix->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    check(loco_tx_open(ix->store, &ix->tx), "loco_tx_open");
    check(loco_tree_open(ix->tx, loco_store_root(ix->store, ROOT_WORDS), &tree, &ix->words),
          "loco_tree_open");
    check(loco_tree_open(ix->tx, loco_store_root(ix->store, ROOT_FILES), NULL, &ix->files),
          "loco_tree_open");
    check(loco_tree_open(ix->tx, loco_store_root(ix->store, ROOT_BATCHES), NULL, &ix->batches),
          "loco_tree_open");
}

void index_close(struct word_index *ix)
{
    loco_tree_close(ix->batches);
    loco_tree_close(ix->files);
    loco_tree_close(ix->words);
    loco_tx_close(ix->tx);
    /* Nobody takes his part away while another reads it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_atomic_var_destroy(ix->next);
    loco_store_destroy(ix->store);
    loco_runtime_close_mpi(ix->rt);
    free(ix->scratch);
}

/* ---- files and batches ---- */

struct put_files {
    struct word_index *ix;
    uint64_t batch;
    const struct index_files *files;
    const uint32_t *numbers;
    size_t n;
};

static int put_files(loco_tx_t *tx, void *arg)
{
    const struct put_files *p = arg;
    unsigned char key[8], value[8 + INDEX_PATH_MAX];
    int status = LOCO_OK;

    (void)tx;
    loco_key64(p->batch, value);
    for (size_t i = 0; i < p->n && status == LOCO_OK; i++) {
        const char *path = index_path(p->files, p->numbers[i]);
        size_t length = strnlen(path, INDEX_PATH_MAX);

        memcpy(value + 8, path, length);
        status = loco_tree_put(p->ix->files, loco_key64(p->numbers[i], key),
                               loco_bytes(value, 8 + length));
    }
    return status;
}

void index_put_files(struct word_index *ix, uint64_t batch, const struct index_files *files,
                     const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i += FILES_AT_ONCE) {
        struct put_files p = { ix, batch, files, numbers + i,
                               n - i < FILES_AT_ONCE ? n - i : FILES_AT_ONCE };

        check_change(ix, loco_tx_run(ix->tx, put_files, &p), "entering files");
    }
}

void index_end_batch(struct word_index *ix, uint64_t batch)
{
    unsigned char key[8];

    check_change(ix, loco_tree_insert(ix->batches, loco_key64(batch, key), loco_bytes(NULL, 0)),
                 "ending a batch");
}

/* ---- reading ---- */

bool index_read(struct word_index *ix, const char *word, size_t length, index_posting_fn *visit,
                void *ctx)
{
    unsigned char value[INDEX_HEAD_MAX], chunk[INDEX_CHUNK_MAX], key[KEY_MAX];
    struct index_head head;
    size_t len;
    int status = loco_tree_get(ix->words, loco_bytes(word, length), value, sizeof(value), &len);

    if (status == LOCO_ERR_NOT_FOUND)
        return false;
    check(status, "looking up a word");
    if (!index_head_get(loco_bytes(value, len), &head))
        ex_abort("the entry of %.*s is none", (int)length, word);
    for (uint64_t i = 0; i < head.chunks; i++) {
        check(loco_tree_get(ix->words, chunk_key(key, word, length, i), chunk, sizeof(chunk), &len),
              "looking up a chunk");
        if (!index_postings_get(chunk, len, visit, ctx))
            ex_abort("chunk %" PRIu64 " of %.*s is none", i, (int)length, word);
    }
    return index_postings_get(head.tail, head.tail_bytes, visit, ctx);
}

bool index_file(struct word_index *ix, uint64_t number, char path[INDEX_PATH_MAX + 1])
{
    unsigned char key[8], value[8 + INDEX_PATH_MAX];
    size_t len, nothing;
    int status = loco_tree_get(ix->files, loco_key64(number, key), value, sizeof(value), &len);

    if (status == LOCO_ERR_NOT_FOUND)
        return false;
    check(status, "looking up a file");
    memcpy(path, value + 8, len - 8);
    path[len - 8] = '\0';
    status = loco_tree_get(ix->batches, loco_bytes(value, 8), NULL, 0, &nothing);
    if (status != LOCO_ERR_NOT_FOUND)
        check(status, "looking up a batch");
    return status == LOCO_OK;
}
