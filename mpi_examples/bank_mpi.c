/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bank on MPI windows: one window per stripe, and so one lock per stripe and rank. MPI does not
 * let a process lock the same part of a window twice, so where a process has several threads they
 * first agree on a mutex among themselves.
 */
#include "bank.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

struct bank {
    const struct bank_options *o;
    int ranks;
    struct ex_window *windows;   /* per stripe */
    pthread_mutex_t *mutexes;    /* per lock; NULL if there is one thread */
};

static int64_t my_slots(const struct bank *b, int64_t stripe)
{
    return bank_slots(b->o->accounts, b->o->stripes, stripe, ex_rank(), b->ranks);
}

static void open_window(struct bank *b, int64_t stripe)
{
    struct ex_window *w = &b->windows[stripe];
    int64_t slots = my_slots(b, stripe);
    int64_t *balances;

    ex_window_create(w, b->o->flavor, (size_t)slots * sizeof(int64_t));
    balances = w->base;
    ex_check(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, ex_rank(), 0, w->win), "MPI_Win_lock");
    for (int64_t i = 0; i < slots; i++)
        balances[i] = BANK_START;
    ex_check(MPI_Win_unlock(ex_rank(), w->win), "MPI_Win_unlock");
}

static void *open_bank(const struct bank_options *o)
{
    struct bank *b = calloc(1, sizeof(*b));
    size_t locks = (size_t)o->stripes * (size_t)ex_size();

    if (b == NULL)
        ex_abort("no memory for the bank");
    b->o = o;
    b->ranks = ex_size();
    b->windows = calloc((size_t)o->stripes, sizeof(*b->windows));
    b->mutexes = o->threads > 1 ? calloc(locks, sizeof(*b->mutexes)) : NULL;
    if (b->windows == NULL || (o->threads > 1 && b->mutexes == NULL))
        ex_abort("no memory for %" PRId64 " windows", o->stripes);
    for (size_t i = 0; b->mutexes != NULL && i < locks; i++)
        pthread_mutex_init(&b->mutexes[i], NULL);
    for (int64_t s = 0; s < o->stripes; s++)
        open_window(b, s);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return b;
}

static void close_bank(void *bank)
{
    struct bank *b = bank;

    for (int64_t s = 0; s < b->o->stripes; s++)
        ex_window_free(&b->windows[s]);
    free(b->windows);
    free(b->mutexes);
    free(b);
}

static int64_t lock_of(const void *bank, int64_t account)
{
    const struct bank *b = bank;
    struct bank_place p = bank_place(account, b->o->stripes, b->ranks);

    return p.stripe * b->ranks + p.rank;
}

static void lock(void *bank, int64_t lock)
{
    struct bank *b = bank;

    if (b->mutexes != NULL)
        pthread_mutex_lock(&b->mutexes[lock]);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (int)(lock % b->ranks), 0, b->windows[lock / b->ranks].win);
}

static void unlock(void *bank, int64_t lock)
{
    struct bank *b = bank;

    MPI_Win_unlock((int)(lock % b->ranks), b->windows[lock / b->ranks].win);
    if (b->mutexes != NULL)
        pthread_mutex_unlock(&b->mutexes[lock]);
}

static int64_t read_account(void *bank, int64_t account)
{
    struct bank *b = bank;
    struct bank_place p = bank_place(account, b->o->stripes, b->ranks);
    struct ex_window *w = &b->windows[p.stripe];
    int64_t balance;

    MPI_Get(&balance, 1, MPI_INT64_T, p.rank,
            ex_at(w, p.rank, (size_t)p.slot * sizeof(int64_t)), 1, MPI_INT64_T, w->win);
    MPI_Win_flush(p.rank, w->win); /* flush_local would do, but not on 4.1's pt2pt component */
    return balance;
}

/* The unlock completes it. */
static void write_account(void *bank, int64_t account, const int64_t *balance)
{
    struct bank *b = bank;
    struct bank_place p = bank_place(account, b->o->stripes, b->ranks);
    struct ex_window *w = &b->windows[p.stripe];

    MPI_Put(balance, 1, MPI_INT64_T, p.rank,
            ex_at(w, p.rank, (size_t)p.slot * sizeof(int64_t)), 1, MPI_INT64_T, w->win);
}

static void look(void *bank, int64_t *sum, int64_t *least)
{
    struct bank *b = bank;

    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    *sum = 0;
    *least = INT64_MAX;
    for (int64_t s = 0; s < b->o->stripes; s++) {
        const int64_t *balances = b->windows[s].base;
        int64_t slots = my_slots(b, s);

        ex_check(MPI_Win_lock(MPI_LOCK_SHARED, ex_rank(), 0, b->windows[s].win), "MPI_Win_lock");
        for (int64_t i = 0; i < slots; i++) {
            *sum += balances[i];
            *least = balances[i] < *least ? balances[i] : *least;
        }
        ex_check(MPI_Win_unlock(ex_rank(), b->windows[s].win), "MPI_Win_unlock");
    }
}

const struct bank_api bank_mpi = {
    .name = "mpi",
    .lock_is_lazy = true,
    .open = open_bank,
    .lock_of = lock_of,
    .lock = lock,
    .unlock = unlock,
    .read = read_account,
    .write = write_account,
    .look = look,
    .close = close_bank,
};
