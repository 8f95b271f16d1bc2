/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bank on LOCO channels: the accounts are atomic variables, striped over the ranks, or values
 * of a key-value store; each stripe has a ticket lock. Locks have nothing to do with where memory
 * is, so there are as many as the program wants, and all accounts are in one channel.
 */
#include "bank.h"

#include <loco/atomic_var.h>
#include <loco/kvstore.h>
#include <loco/mpi.h>
#include <loco/ticket_lock.h>

#include <inttypes.h>
#include <stdlib.h>

struct bank {
    const struct bank_options *o;
    loco_runtime_t *rt;
    loco_atomic_array_t *accounts;  /* or */
    loco_kvstore_t *store;
    loco_ticket_array_t *locks;
};

enum { KEYS_AT_ONCE = 1000 };

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* Accounts go round the ranks, so those of a rank are so many apart. */
static void create_array(struct bank *b)
{
    check(loco_atomic_array_create(b->rt, "bank", "accounts", loco_everyone(b->rt),
                                   (uint64_t)b->o->accounts, LOCO_ATOMIC_STRIPED, &b->accounts),
          "loco_atomic_array_create");
}

static void create_store(struct bank *b)
{
    const loco_kvstore_options_t options = {
        .value_bytes = sizeof(int64_t),
        .capacity = (uint64_t)(b->o->accounts / ex_size()) + 1,
    };

    check(loco_kvstore_create(b->rt, "bank", "accounts", loco_everyone(b->rt), &options,
                              &b->store), "loco_kvstore_create");
}

static void fill_array(struct bank *b)
{
    for (int64_t a = ex_rank(); a < b->o->accounts; a += ex_size())
        check(loco_atomic_array_store(b->accounts, (uint64_t)a, BANK_START), "an account");
}

/* A store keeps a value where it was inserted. */
static void fill_store(struct bank *b)
{
    uint64_t keys[KEYS_AT_ONCE];
    int64_t values[KEYS_AT_ONCE];
    int statuses[KEYS_AT_ONCE];
    size_t n = 0;

    for (int64_t a = ex_rank(); a < b->o->accounts; a += ex_size()) {
        keys[n] = (uint64_t)a;
        values[n++] = BANK_START;
        if (n < KEYS_AT_ONCE && a + ex_size() < b->o->accounts)
            continue;
        check(loco_kvstore_insert_many(b->store, n, keys, values, sizeof(values[0]), statuses),
              "accounts");
        n = 0;
    }
}

static void *open_bank(const struct bank_options *o)
{
    struct bank *b = calloc(1, sizeof(*b));

    if (b == NULL)
        ex_abort("no memory for the bank");
    b->o = o;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &b->rt), "loco_runtime_open_mpi");
    if (o->in_store)
        create_store(b);
    else
        create_array(b);
    check(loco_ticket_array_create(b->rt, "bank", "locks", loco_everyone(b->rt), (int)o->stripes,
                                   &b->locks), "loco_ticket_array_create");
    check(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    if (o->in_store)
        fill_store(b);
    else
        fill_array(b);
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
    loco_kvstore_destroy(b->store);
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

/* No fence: what is written to an atomic variable, or by an update of a key-value store, is at its
 * place when the call returns. */
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

    if (b->o->in_store)
        check(loco_kvstore_get(b->store, (uint64_t)account, &balance, sizeof(balance)),
              "an account");
    else
        check(loco_atomic_array_load(b->accounts, (uint64_t)account, &balance), "an account");
    return (int64_t)balance;
}

static void write_account(void *bank, int64_t account, const int64_t *balance)
{
    struct bank *b = bank;

    if (b->o->in_store)
        check(loco_kvstore_update(b->store, (uint64_t)account, balance, sizeof(*balance)),
              "an account");
    else
        check(loco_atomic_array_store(b->accounts, (uint64_t)account, (uint64_t)*balance),
              "an account");
}

static void look(void *bank, int64_t *sum, int64_t *least)
{
    struct bank *b = bank;

    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    *sum = 0;
    *least = INT64_MAX;
    for (int64_t a = ex_rank(); a < b->o->accounts; a += ex_size()) {
        int64_t balance = read_account(b, a);

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
