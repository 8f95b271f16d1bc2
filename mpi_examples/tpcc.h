/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TPC-C's tables and two of its transactions, NewOrder and Payment (88 % of its mix), on trees in a
 * store of LOCO: TPC Benchmark C, revision 5.11. Clauses in comments are of that text. A table is a
 * tree; a row is found by its key, and customers by their last names, too, through a tree of names.
 *
 * A row of more than 104 bytes is an object of its own in a tree, so that changing it does not
 * disturb who uses its neighbours. Warehouses and districts, which everybody changes, are padded to
 * be such rows. Money is in cents, rates in ten-thousandths.
 */
#ifndef MPI_EXAMPLES_TPCC_H
#define MPI_EXAMPLES_TPCC_H

#include "common.h"
#include "tx_workload.h"

#include <loco/loco.h>
#include <loco/mpi.h>

enum { DISTRICTS = 10, LINES_LEAST = 5, LINES_MOST = 15, ITEMS = 100000, CUSTOMERS = 3000,
       NAMES = 1000, WAREHOUSES_MOST = 10000, CLIENTS_MOST = 64 };

/* Keys, of numbers of 4 bytes, the highest first; all but NAME's, HISTORY's: */
enum tpcc_table {
    WAREHOUSE,      /* w */
    DISTRICT,       /* w, d */
    CUSTOMER,       /* w, d, c */
    NAME,           /* w, d, last name (16 bytes), first name (16), c: no value */
    HISTORY,        /* customer's w, d, c, then who has made it, and its how many-th that is */
    NEW_ORDER,      /* w, d, o: no value */
    ORDER,          /* w, d, o */
    ORDER_LINE,     /* w, d, o, number */
    ITEM,           /* i */
    STOCK,          /* w, i */
    TABLES
};

struct address {
    char street_1[20], street_2[20], city[20], state[2], zip[9];
};

struct warehouse {
    int64_t ytd;
    int32_t tax;
    char name[10];
    struct address address;
    char padding[16];
};

struct district {
    int64_t ytd;
    int32_t tax;
    uint32_t next_order;
    char name[10];
    struct address address;
    char padding[16];
};

struct customer {
    int64_t credit_limit, balance, ytd_payment, since;
    int32_t discount;
    uint32_t payments, deliveries;
    char first[16], middle[2], last[16];
    struct address address;
    char phone[16], credit[2], data[500];
};

struct history {
    int64_t date, amount;
    uint32_t w, d;
    char data[24];
};

struct order {
    int64_t entry;
    uint32_t customer, carrier, lines, all_local;   /* carrier 0: none yet */
};

struct order_line {
    int64_t delivery, amount;       /* delivery 0: not yet */
    uint32_t item, supply, quantity;
    char district_info[24];
};

struct item {
    int64_t price;
    uint32_t image;
    char name[24], data[50];
};

struct stock {
    int64_t ytd;
    int32_t quantity;
    uint32_t orders, remote_orders;
    char district_info[DISTRICTS][24], data[50];
};

_Static_assert(sizeof(struct warehouse) > 104 && sizeof(struct district) > 104, "own objects");

struct tpcc_options {
    int64_t warehouses, items, customers;   /* the last: of a district, which has as many orders */
    int64_t clients;                        /* threads of each rank */
    int64_t ops;                            /* transactions of each; 0: for so many seconds */
    double seconds;
    int64_t payment;                        /* percent of the transactions that are such */
    int64_t memory;                         /* MiB of each rank; 0: by the number of warehouses */
    int64_t seed;
    bool json, progress;
};

struct tpcc {
    const struct tpcc_options *o;
    loco_runtime_t *rt;
    loco_store_t *store;
    uint64_t memory;
};

enum tpcc_kind { NEW_ORDER_TX, PAYMENT_TX, KINDS };

/* Numbers that are added up over all clients; the last ones, over committed transactions alone. */
struct tpcc_tally {
    int64_t made[KINDS];            /* committed, or rolled back as they must be */
    int64_t rolled_back;
    int64_t again;                  /* begun again after a conflict */
    int64_t remote_lines, remote_payments, by_name;
    int64_t wrong;                  /* a row was not there, or not what it must be */
    int64_t full;                   /* clients that ended early, for there was no more memory */
    int64_t orders, lines, quantity, amount;    /* the amount is that of payments */
};

/* What one thread uses the tables through. */
struct tpcc_client {
    const struct tpcc *in;
    loco_tx_t *tx;
    loco_tree_t *table[TABLES];
    uint32_t number;                /* over all ranks, from 1 on; 0: loading */
    uint32_t histories;             /* rows of history that it has made */
    uint32_t home;                  /* its warehouse */
    uint64_t random;
    struct tpcc_tally tally;
};

/* ---- tpcc_rows.c: keys and rows ---- */

enum { KEY_ROOM = 64 };

struct tpcc_key {
    unsigned char bytes[KEY_ROOM];
    size_t length;
};

/* Of `n` numbers. */
struct tpcc_key tpcc_key(int n, const uint32_t *numbers);
#define TPCC_KEY(...) \
    tpcc_key(sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[]){ __VA_ARGS__ })

/* The number at a place in a key. */
uint32_t tpcc_number(loco_bytes_t key, int place);

/* The beginning of names' keys with that last name. */
struct tpcc_key tpcc_name_key(uint32_t w, uint32_t d, const char last[16]);

/* Inside a transaction. A status of the library; a row of another length is LOCO_ERR_SIZE. */
int tpcc_get(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key, void *row,
             size_t bytes);
int tpcc_put(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key,
             const void *row, size_t bytes);

/* Ends the program where a call failed. */
void tpcc_check(const struct tpcc *t, int status, const char *what);

void tpcc_open_client(struct tpcc_client *c, const struct tpcc *in, uint32_t number);
void tpcc_close_client(struct tpcc_client *c);

/* From least to most. */
uint32_t tpcc_between(struct tpcc_client *c, uint32_t least, uint32_t most);

/* Clause 2.1.6: NURand(a, least, most), with a constant of its own for each a. */
uint32_t tpcc_uneven(struct tpcc_client *c, uint32_t a, uint32_t least, uint32_t most);

/* Clause 4.3.2.3: the last name of a number below 1000. */
void tpcc_last_name(uint32_t number, char last[16]);

/* ---- tpcc_load.c ---- */

/* Collective: the rows of clause 4.3.3.1, with as many items and customers as the options say. */
void tpcc_load(struct tpcc_client *c, struct ex_progress *progress);

/* ---- tpcc_transactions.c ---- */

/* One transaction, to its end. False: there is no more memory, and nothing was done. */
bool tpcc_transact(struct tpcc_client *c, enum tpcc_kind kind);

/* ---- tpcc_check.c ---- */

enum { CONDITIONS = 12 };

struct tpcc_found {
    int64_t wrong[CONDITIONS + 1];  /* by clause 3.3.2.N; 0: what clients say that they have done */
    int64_t orders, lines, quantity, amount;    /* since loading */
    int64_t stock_orders, stock_remote;
};

/* Collective, when nobody changes anything: `done` is what all clients have. */
void tpcc_look(struct tpcc_client *c, const struct tpcc_tally *done, struct tpcc_found *found);

#endif
