/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bank on LOCO channels: the accounts are atomic variables, striped over the ranks, and each
 * stripe has a ticket lock. Locks have nothing to do with where memory is, so there are as many as
 * the program wants, and all accounts are in one channel.
 */
#include "bank.h"

#include <loco/atomic_var.h>
#include <loco/mpi.h>
#include <loco/ticket_lock.h>

#include <inttypes.h>
#include <stdlib.h>

struct bank {
    const struct bank_options *o;
    loco_runtime_t *rt;
    loco_atomic_array_t *accounts;
    loco_ticket_array_t *locks;
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static bool hosted_here(const struct bank *b, int64_t account)
{
    return loco_atomic_array_host(b->accounts, (uint64_t)account) == ex_rank();
}

static void *open_bank(const struct bank_options *o)
{
    struct bank *b = calloc(1, sizeof(*b));

    if (b == NULL)
        ex_abort("no memory for the bank");
    b->o = o;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &b->rt), "loco_runtime_open_mpi");
    check(loco_atomic_array_create(b->rt, "bank", "accounts", loco_everyone(b->rt),
                                   (uint64_t)o->accounts, LOCO_ATOMIC_STRIPED, &b->accounts),
          "loco_atomic_array_create");
    check(loco_ticket_array_create(b->rt, "bank", "locks", loco_everyone(b->rt), (int)o->stripes,
                                   &b->locks), "loco_ticket_array_create");
    check(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    for (int64_t a = 0; a < o->accounts; a++) {
        if (hosted_here(b, a))
            check(loco_atomic_array_store(b->accounts, (uint64_t)a, BANK_START), "an account");
    }
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return b;
}

static void close_bank(void *bank)
{
    struct bank *b = bank;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_ticket_array_destroy(b->locks);
    loco_atomic_array_destroy(b->accounts);
    loco_runtime_close_mpi(b->rt);
    free(b);
}

static int64_t lock_of(const void *bank, int64_t account)
{
    const struct bank *b = bank;

    return account % b->o->stripes;
}

static void lock(void *bank, int64_t number)
{
    struct bank *b = bank;

    check(loco_ticket_lock_acquire(loco_ticket_array_at(b->locks, (int)number)),
          "loco_ticket_lock_acquire");
}

/* No fence: a store to an atomic variable is done at its host when it returns. */
static void unlock(void *bank, int64_t number)
{
    struct bank *b = bank;

    check(loco_ticket_lock_release(loco_ticket_array_at(b->locks, (int)number), LOCO_FENCE_NONE,
                                   LOCO_ALL_PEERS), "loco_ticket_lock_release");
}

static int64_t read_account(void *bank, int64_t account)
{
    struct bank *b = bank;
    uint64_t balance;

    check(loco_atomic_array_load(b->accounts, (uint64_t)account, &balance), "an account");
    return (int64_t)balance;
}

static void write_account(void *bank, int64_t account, const int64_t *balance)
{
    struct bank *b = bank;

    check(loco_atomic_array_store(b->accounts, (uint64_t)account, (uint64_t)*balance),
          "an account");
}

static void look(void *bank, int64_t *sum, int64_t *least)
{
    struct bank *b = bank;

    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    *sum = 0;
    *least = INT64_MAX;
    for (int64_t a = 0; a < b->o->accounts; a++) {
        int64_t balance;

        if (!hosted_here(b, a))
            continue;
        balance = read_account(b, a);
        *sum += balance;
        *least = balance < *least ? balance : *least;
    }
}

const struct bank_api bank_loco = {
    .name = "loco",
    .open = open_bank,
    .lock_of = lock_of,
    .lock = lock,
    .unlock = unlock,
    .read = read_account,
    .write = write_account,
    .look = look,
    .close = close_bank,
};
