/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word_index with an index that does wrong now and then, as INDEX_FAULT says: it has to notice.
 *
 *   none       nothing
 *   lost       a run of postings is not entered
 *   twice      one is entered twice
 *   exchanged  one is entered with a wrong file
 *   unfinished the first batch of rank 0 never ends
 */
#include "../../mpi_examples/word_index.h"

/* Those of the example, under other names. */
void true_append(struct word_index *ix, const struct index_run *runs, int n);
void true_end_batch(struct word_index *ix, uint64_t batch);

#define index_append true_append
#define index_end_batch true_end_batch
#include "../../mpi_examples/index_trees.c"
#undef index_append
#undef index_end_batch

#include <stdlib.h>

enum { EVERY = 97 };    /* so many runs to one fault */

static bool is(const char *fault)
{
    const char *wanted = getenv("INDEX_FAULT");

    return wanted != NULL && strcmp(wanted, fault) == 0;
}

static void append_wrong(struct word_index *ix, const struct index_run *r)
{
    struct index_run other = *r;
    unsigned char first[INDEX_RUN_MAX];

    if (is("lost"))
        return;
    if (is("exchanged")) {
        memcpy(first, r->postings, r->bytes);
        first[0] ^= 1;
        other.postings = first;
    }
    true_append(ix, &other, 1);
    if (is("twice"))
        true_append(ix, &other, 1);
}

void index_append(struct word_index *ix, const struct index_run *runs, int n)
{
    static uint64_t made;

    for (int i = 0; i < n; i++) {
        if (!is("none") && ++made % EVERY == 0)
            append_wrong(ix, &runs[i]);
        else
            true_append(ix, &runs[i], 1);
    }
}

void index_end_batch(struct word_index *ix, uint64_t batch)
{
    if (!is("unfinished") || batch != 0)
        true_end_batch(ix, batch);
}
