/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An inverted index in a store that is spread over all ranks, and its building.
 *
 * Three trees in one store:
 *
 *   words    WORD              -> chunks, postings, occurrences; the latest postings
 *            WORD 0 NUMBER     -> older postings: chunk NUMBER of the word, 4 bytes, highest first
 *   files    number            -> the batch that has its last words, and its path
 *   batches  number            -> nothing: the batch is whole
 *
 * A posting is the number of a file and how often the word is in it; numbers are written 7 bits a
 * byte. An entry WORD with few postings has them all. When they become more than TAIL_MAX bytes,
 * they are moved to a chunk, which never changes again, and the entry says so in the same
 * transaction: so who reads WORD first, and then the chunks that it tells of, has all postings as
 * of one moment, without a transaction of his own.
 *
 * A rank collects postings of many files in its own memory, a batch, and then appends them, several
 * words in a transaction. So ranks meet at a frequent word once a batch, not once a file. What a
 * rank had in hand when it died is seen by nobody: files count when their batch is whole.
 */
#ifndef MPI_EXAMPLES_WORD_INDEX_H
#define MPI_EXAMPLES_WORD_INDEX_H

#include "common.h"
#include "index_files.h"
#include "postings.h"
#include "text_file.h"

#include <loco/loco.h>
#include <loco/mpi.h>

enum {
    INDEX_TAIL_MAX = 2048,      /* bytes of postings in the entry WORD */
    INDEX_CHUNK_MAX = 32768,    /* and in a chunk */
    INDEX_RUN_MAX = 65536,      /* and in a run */
    INDEX_RUNS_MAX = 24,        /* runs, and bytes of them, that one transaction appends */
    INDEX_APPEND_MAX = 2 * INDEX_RUN_MAX,
    INDEX_HEAD_MAX = INDEX_TAIL_MAX + 30,
    INDEX_POSTING_MAX = 15,     /* bytes of one */
    INDEX_PATH_MAX = 4096
};

struct index_options {
    int64_t memory;         /* MiB of each rank; 0: by how much text there is */
    int64_t batch;          /* MiB, likewise */
    int64_t leaf;           /* bytes of a tree's leaf */
    bool binary;            /* index binary files, too */
    bool verbose;           /* name all files that are left out */
    bool progress;
};

struct word_index {
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_atomic_var_t *next;        /* place in the files' order that nobody has taken yet */
    loco_tx_t *tx;
    loco_tree_t *words, *files, *batches;
    uint64_t memory;                /* bytes of the store at each rank */
    struct index_scratch *scratch;
};

/* Some postings of a word. */
struct index_run {
    const char *word;
    size_t length;
    const unsigned char *postings;
    size_t bytes;
    uint64_t count;                 /* of postings */
    uint64_t occurrences;
};

/* An entry WORD. */
struct index_head {
    uint64_t chunks, postings, occurrences;
    const unsigned char *tail;
    size_t tail_bytes;
};

typedef void index_posting_fn(void *ctx, uint64_t file, uint64_t count);

/* ---- index_trees.c; all of it ends the program when it fails ---- */

/* Collective. */
void index_open(struct word_index *ix, uint64_t memory, size_t leaf_bytes);
void index_close(struct word_index *ix);

/* Append to `n` words, all different: INDEX_RUNS_MAX and INDEX_APPEND_MAX bytes at most. */
void index_append(struct word_index *ix, const struct index_run *runs, int n);

/* What a batch is made of besides: its files before its words, and the end last. */
void index_put_files(struct word_index *ix, uint64_t batch, const struct index_files *files,
                     const uint32_t *numbers, size_t n);
void index_end_batch(struct word_index *ix, uint64_t batch);

/* Call visit(ctx, ...) for all postings of a word; false: there is no such word. */
bool index_read(struct word_index *ix, const char *word, size_t length, index_posting_fn *visit,
                void *ctx);

/* Whether a file's batch is whole; then its path goes to `path`. */
bool index_file(struct word_index *ix, uint64_t number, char path[INDEX_PATH_MAX + 1]);

/* What is in an entry; false where that is none. */
bool index_head_get(loco_bytes_t value, struct index_head *head);
bool index_postings_get(const unsigned char *bytes, size_t n, index_posting_fn *visit, void *ctx);
size_t index_posting_put(unsigned char *to, uint64_t file, uint64_t count);

/* ---- index_build.c ---- */

/* Numbers that are added up over all ranks. */
struct index_tally {
    uint64_t files, binary, empty, unreadable;      /* of files that are listed */
    uint64_t bytes;                                 /* of text */
    uint64_t words, postings;                       /* of it */
    uint64_t batches;
    uint64_t transactions, conflicts;
};

/* Collective: all files, shared out among the ranks. Returns this rank's seconds in appending. */
double index_build(struct word_index *ix, const struct index_options *o,
                   const struct index_files *files, struct index_tally *tally);

/* ---- index_check.c ---- */

struct index_content {
    uint64_t entries, bytes;                /* all; of their keys and values */
    uint64_t words, chunks, postings, occurrences, files;
    uint64_t longest;                       /* bytes of the longest list of postings */
    uint64_t wrong;
};

/* One rank: look at all entries; and compare with what one process finds in the files, if `serial`
 * says so. */
void index_look(struct word_index *ix, const struct index_options *o,
                const struct index_files *files, bool serial, struct index_content *content);

/* ---- index_query.c ---- */

enum { MOST_QUERIES = 64 };

struct index_query {
    enum { QUERY_WORD, QUERY_PREFIX, QUERY_AND } kind;
    const char *text;
};

/* One rank: answer it, on stdout. */
void index_answer(struct word_index *ix, const struct index_query *q, int64_t limit, bool json);

/* NULL, or what is wrong with it. */
const char *index_query_problem(const struct index_query *q);

#endif
