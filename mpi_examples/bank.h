/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the bank's three variants have in common. With --api mpi the accounts are dealt out like
 * cards: account a is in stripe a mod stripes, and the accounts of a stripe go round the ranks; a
 * stripe is a window, with one lock per rank. With --api loco the accounts go round the ranks one
 * by one, and a stripe is no more than the accounts that share a ticket lock. With --api tx the
 * accounts are objects of a store, and there are no locks.
 */
#ifndef MPI_EXAMPLES_BANK_H
#define MPI_EXAMPLES_BANK_H

#include "common.h"

enum { BANK_MOST_THREADS = 256, BANK_START = 1000 };

struct bank_options {
    const struct bank_api *api;
    int64_t accounts;
    int64_t stripes;   /* windows, or locks; tx: none */
    int64_t threads;   /* per rank */
    int64_t ops;       /* per thread; 0: as many as there is time for */
    double seconds;
    int64_t seed;
    enum ex_flavor flavor;
    bool transfer;
    bool in_store;     /* loco: accounts are in a key-value store */
    bool json;
    bool progress;
};

/* One of the variants. Every call ends the program if it fails. The calls from lock_of to detach
 * are made by any thread; the others by one, on every rank. A variant has either the calls from
 * lock_of to write, or those from attach to detach. */
struct bank_api {
    const char *name;

    /* Collective: all accounts are there, with BANK_START each. */
    void *(*open)(const struct bank_options *o);

    /* MPI may return from lock before the lock is held; a read under it waits for it. */
    bool lock_is_lazy;

    /* Which lock guards an account: locks are taken in ascending order. */
    int64_t (*lock_of)(const void *bank, int64_t account);
    void (*lock)(void *bank, int64_t lock);
    /* Everything written under the lock is visible to who has it next. */
    void (*unlock)(void *bank, int64_t lock);

    /* The balance of an account whose lock is held. What is written stays as it is until unlock. */
    int64_t (*read)(void *bank, int64_t account);
    void (*write)(void *bank, int64_t account, const int64_t *balance);

    /* Whole transactions, in a session of this thread's own. transfer returns false if there is not
     * enough money in `from`. */
    void *(*attach)(void *bank);
    void (*deposit)(void *session, int64_t account, int64_t amount);
    bool (*transfer)(void *session, int64_t from, int64_t to, int64_t amount);
    void (*detach)(void *session);

    /* Collective, after the last transaction: this rank's accounts. */
    void (*look)(void *bank, int64_t *sum, int64_t *least);

    void (*close)(void *bank);
};

extern const struct bank_api bank_mpi, bank_loco, bank_tx;

/* --api mpi: where an account is. */
struct bank_place {
    int64_t stripe;
    int rank;
    int64_t slot; /* among the stripe's accounts at the rank */
};

static inline struct bank_place bank_place(int64_t account, int64_t stripes, int ranks)
{
    int64_t turn = account / stripes;

    return (struct bank_place){
        .stripe = account % stripes, .rank = (int)(turn % ranks), .slot = turn / ranks
    };
}

/* How many of a stripe's accounts are at a rank. */
static inline int64_t bank_slots(int64_t accounts, int64_t stripes, int64_t stripe, int rank,
                                 int ranks)
{
    int64_t turns = (accounts - stripe + stripes - 1) / stripes;

    return turns > rank ? (turns - rank + ranks - 1) / ranks : 0;
}

#endif
