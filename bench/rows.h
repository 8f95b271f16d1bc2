/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of rma_bench: what is measured, and its limit. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "raw.h"

enum { BENCH_LONG = 1 << 20 }; /* bytes of the window, and of a long put */

/* The window as an array of doubles: a matrix, and a block of three dimensions with a border. No
 * power of two is a distance: whether source and target then share cache sets is mere luck. */
enum { MATRIX_ROWS = 256, MATRIX_COLUMNS = 500, BLOCK_Z = 32, BLOCK_Y = 62, BLOCK_X = 60 };

enum flavor { ALLOCATE, CREATE, FLAVORS };

struct bench {
    MPI_Win win;
    enum flavor flavor;
    int rank;
    int size;
    int target;
    MPI_Group peer;       /* the other of two ranks */
    MPI_Datatype column;  /* of the matrix */
    MPI_Datatype face;    /* of the block, without the border */
    struct raw raw;
    unsigned char *local; /* BENCH_LONG bytes */
    void *memory;         /* of a window of flavor create */
    uint64_t word;
    uint64_t old;
    int error;            /* the first that a call returned */
    bool apart;           /* the ranks are on several machines: no raw operations */
    bool flushes;         /* raw operations do what a flush has to, besides */
};

/* Each does a number of operations. Limits of a row: null does the call to MPI_PROC_NULL, raw the
 * work itself; either may be missing. */
typedef void operation(struct bench *b, long count);

/* Who takes part with more than 2 ranks. */
enum crowd {
    NOBODY,     /* the row needs 2 */
    AROUND,     /* each works on the next one's memory */
    ON_ONE      /* all on rank 0's */
};

struct row {
    const char *name;
    const char *what;
    operation *mpi;
    operation *null;
    operation *raw;
    enum crowd crowd;
    bool in_epoch;        /* under lock_all; on create memory, raw is through the kernel */
    bool all_ranks;       /* all take part with 2 ranks, too */
    bool each_counts;     /* and each one's operations count */
    bool bulk;            /* window with loco_accumulate=bulk */
    double per_operation; /* how many of what is counted are in one */
    double allowed;       /* how many times the limit is good; 0: the limit is a mere hint */
};

extern const struct row bench_rows[];
extern const int bench_row_count;

/* Remembers the first error. */
static inline void bench_note(struct bench *b, int rc)
{
    if (rc != MPI_SUCCESS && b->error == MPI_SUCCESS)
        b->error = rc;
}

/* Stores to be seen before later loads are done, which is what a flush of them comes to. Atomics
 * are no worse than that by themselves. */
static inline void bench_flush_raw(const struct bench *b)
{
    if (b->flushes)
        atomic_thread_fence(memory_order_seq_cst);
}

/* Of the bench's flavor; what MPI returned. */
int bench_make_window(struct bench *b, size_t bytes, bool bulk, MPI_Win *win);

/* strided.c: the types, and the rows' operations. */
void bench_make_types(struct bench *b);
void bench_free_types(struct bench *b);
operation put_column, put_column_null, put_column_raw;
operation put_array, put_array_null, put_array_raw;
operation put_face, put_face_null, put_face_raw;
operation get_face, get_face_null, get_face_raw;

/* accumulate.c: of 1, 16, 128 elements, element by element or the whole at once. */
#define BENCH_LENGTHS(EACH) EACH(1) EACH(16) EACH(128)
#define BENCH_ACCUMULATE(n)                                                                 \
    operation sum_##n, sum_null_##n, sum_raw_##n, sum_bulk_raw_##n;                         \
    operation max_##n, max_null_##n, max_raw_##n, max_bulk_raw_##n;                         \
    operation minloc_##n, minloc_null_##n, minloc_raw_##n, minloc_bulk_raw_##n;
BENCH_LENGTHS(BENCH_ACCUMULATE)

#endif
