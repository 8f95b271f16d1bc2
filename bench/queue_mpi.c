/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same ring in an MPI window: tickets by MPI_Fetch_and_op on head and tail at rank 0, places
 * over all ranks in turn, each a turn and a value. The turn of round r is 2r for who pushes, 2r + 1
 * for who pops.
 */
#include "queue_bench.h"

#include <stdlib.h>

enum { HEAD = 0, TAIL = 8, PLACES = 16, LINE = 8, WORD = 8 };   /* in words; of a place: a line */

struct queue_mpi {
    MPI_Win win;
    uint64_t capacity, size;
};

static void must(int rc, const char *what)
{
    if (rc != MPI_SUCCESS)
        queue_die(what);
}

void *queue_mpi_make(uint64_t capacity)
{
    struct queue_mpi *q = malloc(sizeof *q);
    uint64_t *base;
    MPI_Aint bytes;
    int size;

    if (q == NULL)
        queue_die("no memory");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    q->capacity = capacity;
    q->size = (uint64_t)size;
    bytes = (MPI_Aint)((PLACES + (capacity + q->size - 1) / q->size * LINE) * WORD);
    must(MPI_Win_allocate(bytes, WORD, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &q->win),
         "MPI_Win_allocate");
    MPI_Win_lock_all(MPI_MODE_NOCHECK, q->win);
    for (MPI_Aint i = 0; i < bytes / WORD; i++)
        base[i] = 0;
    MPI_Win_sync(q->win);
    MPI_Barrier(MPI_COMM_WORLD);
    return q;
}

/* Add to a word, or, with MPI_NO_OP, read it. */
static uint64_t fetch(struct queue_mpi *q, int rank, MPI_Aint word, uint64_t add, MPI_Op op)
{
    uint64_t old = 0;

    must(MPI_Fetch_and_op(&add, &old, MPI_UINT64_T, rank, word, op, q->win), "MPI_Fetch_and_op");
    must(MPI_Win_flush(rank, q->win), "MPI_Win_flush");
    return old;
}

static void set_turn(struct queue_mpi *q, int rank, MPI_Aint word, uint64_t turn)
{
    must(MPI_Accumulate(&turn, 1, MPI_UINT64_T, rank, word, 1, MPI_UINT64_T, MPI_REPLACE, q->win),
         "MPI_Accumulate");
    must(MPI_Win_flush(rank, q->win), "MPI_Win_flush");
}

/* Wait for that turn at the ticket's place. */
static MPI_Aint wait_turn(struct queue_mpi *q, uint64_t ticket, int *rank, uint64_t turn)
{
    uint64_t place = ticket % q->capacity;
    MPI_Aint word = (MPI_Aint)(PLACES + place / q->size * LINE);
    unsigned tries = 0;

    *rank = (int)(place % q->size);
    while (fetch(q, *rank, word, 0, MPI_NO_OP) != turn)
        queue_relax(&tries);
    return word;
}

void queue_mpi_put(void *arg, uint64_t value)
{
    struct queue_mpi *q = arg;
    uint64_t ticket = fetch(q, 0, TAIL, 1, MPI_SUM), turn = 2 * (ticket / q->capacity);
    int rank;
    MPI_Aint word = wait_turn(q, ticket, &rank, turn);

    must(MPI_Put(&value, 1, MPI_UINT64_T, rank, word + 1, 1, MPI_UINT64_T, q->win), "MPI_Put");
    must(MPI_Win_flush(rank, q->win), "MPI_Win_flush");
    set_turn(q, rank, word, turn + 1);
}

uint64_t queue_mpi_take(void *arg)
{
    struct queue_mpi *q = arg;
    uint64_t ticket = fetch(q, 0, HEAD, 1, MPI_SUM), turn = 2 * (ticket / q->capacity) + 1;
    uint64_t value = 0;
    int rank;
    MPI_Aint word = wait_turn(q, ticket, &rank, turn);

    must(MPI_Get(&value, 1, MPI_UINT64_T, rank, word + 1, 1, MPI_UINT64_T, q->win), "MPI_Get");
    must(MPI_Win_flush(rank, q->win), "MPI_Win_flush");
    set_turn(q, rank, word, turn + 1);
    return value;
}

void queue_mpi_free(void *arg)
{
    struct queue_mpi *q = arg;

    MPI_Win_unlock_all(q->win);
    MPI_Win_free(&q->win);
    free(q);
}
