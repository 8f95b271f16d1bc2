/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of rma_bench: what is measured, and its limit. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "raw.h"

enum { BENCH_LONG = 1 << 20 }; /* bytes of the window, and of a long put */

enum flavor { ALLOCATE, CREATE, FLAVORS };

struct bench {
    MPI_Win win;
    enum flavor flavor;
    int rank;
    int size;
    int target;
    MPI_Group peer;       /* the other of two ranks */
    struct raw raw;
    unsigned char *local; /* BENCH_LONG bytes */
    void *memory;         /* of a window of flavor create */
    uint64_t word;
    uint64_t old;
    int error;            /* the first that a call returned */
};

/* Each does a number of operations. Limits of a row: null does the call to MPI_PROC_NULL, raw the
 * work itself; either may be missing. */
typedef void operation(struct bench *b, long count);

struct row {
    const char *name;
    const char *what;
    operation *mpi;
    operation *null;
    operation *raw;
    bool in_epoch;        /* under lock_all; on create memory, raw is through the kernel */
    bool all_ranks;       /* all take part */
    bool each_counts;     /* and each one's operations count; worth it with more than 2 ranks */
    bool pair;            /* needs 2 ranks */
    double per_operation; /* how many of what is counted are in one */
};

extern const struct row bench_rows[];
extern const int bench_row_count;

/* Remembers the first error. */
static inline void bench_note(struct bench *b, int rc)
{
    if (rc != MPI_SUCCESS && b->error == MPI_SUCCESS)
        b->error = rc;
}

/* Of the bench's flavor; what MPI returned. */
int bench_make_window(struct bench *b, size_t bytes, MPI_Win *win);

#endif
