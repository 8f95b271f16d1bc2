/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.h"

#include <string.h>

enum { CALLS_PER_FLUSH = 128, SMALL_WINDOW = 1 << 16 };

/* ---- 8 bytes ---- */

static void put8(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Put(&b->word, 1, MPI_UINT64_T, b->target, 0, 1, MPI_UINT64_T, b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void put8_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Put(&b->word, 1, MPI_UINT64_T, MPI_PROC_NULL, 0, 1, MPI_UINT64_T, b->win);
}

static void put8_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE)
            raw_kernel_write(&b->raw, &b->word, b->raw.peer_word, sizeof(b->word));
        else
            atomic_store_explicit(b->raw.word, b->word, memory_order_release);
        bench_flush_raw(b);
    }
}

static void get8(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Get(&b->word, 1, MPI_UINT64_T, b->target, 0, 1, MPI_UINT64_T, b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void get8_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Get(&b->word, 1, MPI_UINT64_T, MPI_PROC_NULL, 0, 1, MPI_UINT64_T, b->win);
}

static void get8_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE)
            raw_kernel_read(&b->raw, &b->word, b->raw.peer_word, sizeof(b->word));
        else
            b->word = atomic_load_explicit(b->raw.word, memory_order_acquire);
    }
}

static void fetch_and_op(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Fetch_and_op(&b->word, &b->old, MPI_UINT64_T, b->target, 0, MPI_SUM,
                                       b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void fetch_and_op_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Fetch_and_op(&b->word, &b->old, MPI_UINT64_T, MPI_PROC_NULL, 0, MPI_SUM, b->win);
}

/* Memory that is not mapped is read and written, under a lock as by accumulates: or the ranks that
 * are all at it would lose each other's. */
static void update_through_kernel(struct bench *b)
{
    raw_lock(&b->raw);
    raw_kernel_read(&b->raw, &b->old, b->raw.peer_word, sizeof(b->old));
    b->old += b->word;
    raw_kernel_write(&b->raw, &b->old, b->raw.peer_word, sizeof(b->old));
    raw_unlock(&b->raw);
}

static void fetch_and_op_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE)
            update_through_kernel(b);
        else
            b->old = atomic_fetch_add_explicit(b->raw.word, b->word,
                                               memory_order_acq_rel);
    }
}

/* Swaps every time: what was found is what the next one expects. */
static void compare_and_swap(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        uint64_t expected = b->old, found;

        b->word = expected + 1;
        bench_note(b, MPI_Compare_and_swap(&b->word, &expected, &found, MPI_UINT64_T, b->target, 0,
                                           b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
        b->old = found == expected ? b->word : found;
    }
}

static void compare_and_swap_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Compare_and_swap(&b->word, &b->old, &b->old, MPI_UINT64_T, MPI_PROC_NULL, 0, b->win);
}

static void compare_and_swap_raw(struct bench *b, long count)
{
    uint64_t expected = atomic_load_explicit(b->raw.word, memory_order_relaxed);

    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE)
            update_through_kernel(b);
        else if (atomic_compare_exchange_strong_explicit(b->raw.word, &expected,
                                                         expected + 1, memory_order_acq_rel,
                                                         memory_order_relaxed))
            expected++;
    }
}

/* ---- Many, and long ones ---- */

static void put_many(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        for (MPI_Aint k = 0; k < CALLS_PER_FLUSH; k++)
            bench_note(b, MPI_Put(&b->word, 1, MPI_UINT64_T, b->target, k * 8, 1, MPI_UINT64_T,
                                  b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void put_many_null(struct bench *b, long count)
{
    put8_null(b, count * CALLS_PER_FLUSH);
}

/* The kernel takes a list, so the limit there is one call for all of a flush. */
static void put_many_raw(struct bench *b, long count)
{
    _Atomic uint64_t *to = (_Atomic uint64_t *)(void *)b->raw.far;

    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE) {
            raw_kernel_move(&b->raw, true, &b->word, 0, b->raw.peer_bytes, 8, CALLS_PER_FLUSH);
            continue;
        }
        for (size_t k = 0; k < CALLS_PER_FLUSH; k++)
            atomic_store_explicit(to + k, b->word, memory_order_release);
        bench_flush_raw(b);
    }
}

static void get_many(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        for (MPI_Aint k = 0; k < CALLS_PER_FLUSH; k++)
            bench_note(b, MPI_Get(b->local + k * 8, 1, MPI_UINT64_T, b->target, k * 8, 1,
                                  MPI_UINT64_T, b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void get_many_null(struct bench *b, long count)
{
    get8_null(b, count * CALLS_PER_FLUSH);
}

static void get_many_raw(struct bench *b, long count)
{
    const _Atomic uint64_t *from = (_Atomic uint64_t *)(void *)b->raw.far;
    uint64_t *to = (uint64_t *)(void *)b->local;

    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE) {
            raw_kernel_move(&b->raw, false, b->local, 8, b->raw.peer_bytes, 8, CALLS_PER_FLUSH);
            continue;
        }
        for (size_t k = 0; k < CALLS_PER_FLUSH; k++)
            to[k] = atomic_load_explicit(from + k, memory_order_acquire);
    }
}

static void put_long(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Put(b->local, BENCH_LONG, MPI_BYTE, b->target, 0, BENCH_LONG, MPI_BYTE,
                              b->win));
        bench_note(b, MPI_Win_flush(b->target, b->win));
    }
}

static void put_long_null(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        MPI_Put(b->local, BENCH_LONG, MPI_BYTE, MPI_PROC_NULL, 0, BENCH_LONG, MPI_BYTE, b->win);
}

static void put_long_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        if (b->flavor == CREATE)
            raw_kernel_write(&b->raw, b->local, b->raw.peer_bytes, BENCH_LONG);
        else
            memcpy(b->raw.far, b->local, BENCH_LONG);
        /* Nothing reads it here, so the compiler is told that somebody may. */
        atomic_signal_fence(memory_order_seq_cst);
        bench_flush_raw(b);
    }
}

/* ---- Locks ---- */

static void lock_target(struct bench *b, int target, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, b->win));
        bench_note(b, MPI_Win_unlock(target, b->win));
    }
}

static void lock_alone(struct bench *b, long count)
{
    lock_target(b, b->target, count);
}

static void lock_contended(struct bench *b, long count)
{
    lock_target(b, 0, count);
}

static void lock_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        raw_lock(&b->raw);
        raw_unlock(&b->raw);
    }
}

static void lock_put(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->target, 0, b->win));
        bench_note(b, MPI_Put(&b->word, 1, MPI_UINT64_T, b->target, 0, 1, MPI_UINT64_T, b->win));
        bench_note(b, MPI_Win_unlock(b->target, b->win));
    }
}

static void lock_put_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        raw_lock(&b->raw);
        if (b->flavor == CREATE)
            raw_kernel_write(&b->raw, &b->word, b->raw.peer_word, sizeof(b->word));
        else
            atomic_store_explicit(b->raw.word, b->word, memory_order_relaxed);
        raw_unlock(&b->raw);
    }
}

static void lock_all_targets(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Win_lock_all(0, b->win));
        bench_note(b, MPI_Win_unlock_all(b->win));
    }
}

static void lock_all_targets_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        atomic_fetch_add_explicit(&b->raw.shared->lock.value, 2, memory_order_acquire);
        atomic_fetch_sub_explicit(&b->raw.shared->lock.value, 2, memory_order_release);
    }
}

/* ---- Active target ---- */

static void fence(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        bench_note(b, MPI_Win_fence(0, b->win));
}

static void fence_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        raw_barrier(&b->raw);
}

static void pscw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        bench_note(b, MPI_Win_post(b->peer, 0, b->win));
        bench_note(b, MPI_Win_start(b->peer, 0, b->win));
        bench_note(b, MPI_Win_complete(b->win));
        bench_note(b, MPI_Win_wait(b->win));
    }
}

static void pscw_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++)
        raw_exchange(&b->raw, 1 - b->rank);
}

/* ---- Windows ---- */

int bench_make_window(struct bench *b, size_t bytes, bool bulk, MPI_Win *win)
{
    MPI_Aint size = (MPI_Aint)bytes;
    MPI_Info info = MPI_INFO_NULL;
    void *base;
    int rc;

    if (bulk) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "loco_accumulate", "bulk");
    }
    if (b->flavor == CREATE)
        rc = MPI_Win_create(b->memory, size, 1, info, MPI_COMM_WORLD, win);
    else
        rc = MPI_Win_allocate(size, 1, info, MPI_COMM_WORLD, &base, win);
    if (bulk)
        MPI_Info_free(&info);
    return rc;
}

static void window(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        MPI_Win win = MPI_WIN_NULL;
        int rc = bench_make_window(b, SMALL_WINDOW, false, &win);

        bench_note(b, rc);
        if (rc == MPI_SUCCESS)
            bench_note(b, MPI_Win_free(&win));
    }
}

static void window_raw(struct bench *b, long count)
{
    for (long i = 0; i < count; i++) {
        if (b->flavor != CREATE && b->rank == 0)
            raw_make_memory(SMALL_WINDOW);
        raw_barrier(&b->raw);
        raw_barrier(&b->raw);
    }
}

#define STRIDED(row, text)                                                                  \
    { .name = #row, .what = text, .mpi = row, .null = row##_null, .raw = row##_raw,         \
      .crowd = AROUND, .in_epoch = true, .per_operation = 1, .allowed = 1.2 },
#define ACCUMULATE(op, n, text)                                                             \
    { .name = #op "_" #n, .what = text ", elements: " #n, .mpi = op##_##n,                  \
      .null = op##_null_##n, .raw = op##_raw_##n, .crowd = ON_ONE, .in_epoch = true,        \
      .per_operation = 1, .allowed = 1.2 },
#define ACCUMULATE_BULK(op, n, text)                                                        \
    { .name = #op "_bulk_" #n, .what = text " at once, elements: " #n, .mpi = op##_##n,     \
      .null = op##_null_##n, .raw = op##_bulk_raw_##n, .crowd = ON_ONE, .in_epoch = true,   \
      .bulk = true, .per_operation = 1, .allowed = 1.2 },
#define ACCUMULATES(n)                                                                      \
    ACCUMULATE(sum, n, "accumulate MPI_LONG MPI_SUM")                                       \
    ACCUMULATE(max, n, "accumulate MPI_DOUBLE MPI_MAX")                                     \
    ACCUMULATE(minloc, n, "accumulate MPI_2INT MPI_MINLOC")
#define ACCUMULATES_BULK(n)                                                                 \
    ACCUMULATE_BULK(sum, n, "accumulate MPI_LONG MPI_SUM")                                  \
    ACCUMULATE_BULK(max, n, "accumulate MPI_DOUBLE MPI_MAX")                                \
    ACCUMULATE_BULK(minloc, n, "accumulate MPI_2INT MPI_MINLOC")

const struct row bench_rows[] = {
    { .name = "put", .what = "8-byte put and flush", .mpi = put8, .null = put8_null,
      .raw = put8_raw, .crowd = AROUND, .in_epoch = true, .per_operation = 1, .allowed = 1.2 },
    { .name = "get", .what = "8-byte get and flush", .mpi = get8, .null = get8_null,
      .raw = get8_raw, .crowd = AROUND, .in_epoch = true, .per_operation = 1, .allowed = 1.2 },
    { .name = "fetch_and_op", .what = "8-byte fetch_and_op and flush", .mpi = fetch_and_op,
      .null = fetch_and_op_null, .raw = fetch_and_op_raw, .crowd = ON_ONE, .in_epoch = true,
      .per_operation = 1, .allowed = 1.2 },
    { .name = "compare_and_swap", .what = "8-byte compare_and_swap and flush",
      .mpi = compare_and_swap, .null = compare_and_swap_null, .raw = compare_and_swap_raw,
      .crowd = ON_ONE, .in_epoch = true, .per_operation = 1, .allowed = 1.2 },
    { .name = "put_rate", .what = "8-byte put, a flush each 128", .mpi = put_many,
      .null = put_many_null, .raw = put_many_raw, .crowd = AROUND, .in_epoch = true,
      .per_operation = CALLS_PER_FLUSH, .allowed = 1.2 },
    { .name = "get_rate", .what = "8-byte get, a flush each 128", .mpi = get_many,
      .null = get_many_null, .raw = get_many_raw, .crowd = AROUND, .in_epoch = true,
      .per_operation = CALLS_PER_FLUSH, .allowed = 1.2 },
    { .name = "put_1MiB", .what = "1 MiB put and flush", .mpi = put_long, .null = put_long_null,
      .raw = put_long_raw, .crowd = AROUND, .in_epoch = true, .per_operation = 1,
      .allowed = 1.1 },
    STRIDED(put_column, "put a column of a matrix of doubles to a column, flush")
    STRIDED(put_array, "put an array of doubles to a column of a matrix, flush")
    STRIDED(put_face, "put a face of a block of doubles, inside its border, to a face, flush")
    STRIDED(get_face, "get a face of a block of doubles, inside its border, from a face, flush")
    BENCH_LENGTHS(ACCUMULATES)
    BENCH_LENGTHS(ACCUMULATES_BULK)
    { .name = "lock", .what = "lock and unlock, nobody else", .mpi = lock_alone, .raw = lock_raw,
      .per_operation = 1, .allowed = 2 },
    { .name = "lock_put", .what = "lock, 8-byte put and unlock, exclusive", .mpi = lock_put,
      .raw = lock_put_raw, .crowd = AROUND, .per_operation = 1, .allowed = 2 },
    { .name = "lock_all", .what = "lock_all and unlock_all, by all ranks, per acquisition",
      .mpi = lock_all_targets,
      .raw = lock_all_targets_raw, .crowd = ON_ONE, .all_ranks = true, .each_counts = true,
      .per_operation = 1 },
    { .name = "lock_contended", .what = "lock and unlock, all ranks on one, per acquisition",
      .mpi = lock_contended, .raw = lock_raw, .crowd = ON_ONE, .all_ranks = true,
      .each_counts = true, .per_operation = 1, .allowed = 2 },
    { .name = "fence", .what = "empty fence", .mpi = fence, .raw = fence_raw, .crowd = ON_ONE,
      .all_ranks = true, .per_operation = 1, .allowed = 2 },
    { .name = "pscw", .what = "post, start, complete, wait with each other", .mpi = pscw,
      .raw = pscw_raw, .all_ranks = true, .per_operation = 1 },
    { .name = "window", .what = "create and free a window of 64 KiB", .mpi = window,
      .raw = window_raw, .crowd = ON_ONE, .all_ranks = true, .per_operation = 1 },
};

const int bench_row_count = sizeof(bench_rows) / sizeof(bench_rows[0]);
