/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets that are not one run of bytes: a column of a matrix, a face of a block. */
#include "rows.h"

#include <string.h>

enum {
    FACE_Z = BLOCK_Z - 2, FACE_Y = BLOCK_Y - 2, /* points of a face, without the border */
    MATRIX_STEP = MATRIX_COLUMNS * 8,           /* bytes from a point to the next */
    Y_STEP = BLOCK_X * 8,
    Z_STEP = BLOCK_Y * Y_STEP,
    FACE_AT = Z_STEP + Y_STEP + 8               /* of the first */
};
_Static_assert(MATRIX_ROWS * MATRIX_STEP <= BENCH_LONG && BLOCK_Z * Z_STEP <= BENCH_LONG,
               "a window holds a matrix, or a block");

void bench_make_types(struct bench *b)
{
    const int all[3] = { BLOCK_Z, BLOCK_Y, BLOCK_X }, face[3] = { FACE_Z, FACE_Y, 1 };
    const int first[3] = { 1, 1, 1 };

    MPI_Type_vector(MATRIX_ROWS, 1, MATRIX_COLUMNS, MPI_DOUBLE, &b->column);
    MPI_Type_commit(&b->column);
    MPI_Type_create_subarray(3, all, face, first, MPI_ORDER_C, MPI_DOUBLE, &b->face);
    MPI_Type_commit(&b->face);
}

void bench_free_types(struct bench *b)
{
    MPI_Type_free(&b->column);
    MPI_Type_free(&b->face);
}

static void put_flush(struct bench *b, int local_count, MPI_Datatype local_type,
                      MPI_Datatype type, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Put(b->local, local_count, local_type, b->target, 0, 1, type, b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void put_null(struct bench *b, int local_count, MPI_Datatype local_type,
                     MPI_Datatype type, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Put(b->local, local_count, local_type, MPI_PROC_NULL, 0, 1, type, b->win);
}

/* One after the other: words of 8 bytes, to or from the far side at distances. */
static void move_words(struct bench *b, bool writes, size_t at, ptrdiff_t local_step,
                       ptrdiff_t far_step, size_t count)
{
    unsigned char *local = b->local + (local_step == 8 ? 0 : at), *far = b->raw.far + at;

    if (b->flavor == CREATE) {
        raw_kernel_move(&b->raw, writes, local, local_step, b->raw.peer_bytes + at, far_step,
                        count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(writes ? far : local, writes ? local : far, 8);
        local += local_step;
        far += far_step;
    }
}

void put_column(struct bench *b, long count)
{
    put_flush(b, 1, b->column, b->column, count);
}

void put_column_null(struct bench *b, long count)
{
    put_null(b, 1, b->column, b->column, count);
}

void put_column_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        move_words(b, true, 0, MATRIX_STEP, MATRIX_STEP, MATRIX_ROWS);
        atomic_signal_fence(memory_order_seq_cst);
        bench_flush_raw(b);
    }
}

void put_array(struct bench *b, long count)
{
    put_flush(b, MATRIX_ROWS, MPI_DOUBLE, b->column, count);
}

void put_array_null(struct bench *b, long count)
{
    put_null(b, MATRIX_ROWS, MPI_DOUBLE, b->column, count);
}

void put_array_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        move_words(b, true, 0, 8, MATRIX_STEP, MATRIX_ROWS);
        atomic_signal_fence(memory_order_seq_cst);
        bench_flush_raw(b);
    }
}

void put_face(struct bench *b, long count)
{
    put_flush(b, 1, b->face, b->face, count);
}

void put_face_null(struct bench *b, long count)
{
    put_null(b, 1, b->face, b->face, count);
}

static void face_raw(struct bench *b, bool writes, long count)
{
    for (long i = 0; i < count; i++) {
        for (size_t z = 0; z < FACE_Z; z++)
            move_words(b, writes, FACE_AT + z * Z_STEP, Y_STEP, Y_STEP, FACE_Y);
        atomic_signal_fence(memory_order_seq_cst);
        if (writes)
            bench_flush_raw(b);
    }
}

void put_face_raw(struct bench *b, long count)
{
    face_raw(b, true, count);
}

void get_face(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Get(b->local, 1, b->face, b->target, 0, 1, b->face, b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

void get_face_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Get(b->local, 1, b->face, MPI_PROC_NULL, 0, 1, b->face, b->win);
}

void get_face_raw(struct bench *b, long count)
{
    face_raw(b, false, count);
}
