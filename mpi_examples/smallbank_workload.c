/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SmallBank (Alomari, Cahill, Fekete and Roehm, "The cost of serializability on platforms that use
 * snapshot isolation", ICDE 2008) as it is run over RDMA: by FaSST (OSDI 2016), FORD (FAST 2022)
 * and others. Each account has a row of 8 bytes in the table of savings and in that of checking
 * accounts. 90 % of the transactions use hot accounts, the first 4 %; that is drawn for each
 * transaction, not for each of its accounts. Money is in cents, and whole, so that it adds up.
 */
#include "smallbank.h"

enum { HOT_PERCENT = 90, AT_FIRST = 1000000 };

/* Every account has both its rows. */
static int get(struct tx *tx, struct tx_call *call, int table, uint64_t key, int64_t *balance)
{
    int status = tx_read(tx, table, key, balance);

    call->wrong |= status == TX_NO_ROW;
    return status == TX_NO_ROW ? TX_DONE : status;
}

static int get_to_write(struct tx *tx, struct tx_call *call, int table, uint64_t key,
                        int64_t *balance)
{
    int status = tx_read_to_write(tx, table, key, balance);

    call->wrong |= status == TX_NO_ROW;
    return status == TX_NO_ROW ? TX_DONE : status;
}

/* All that the first has goes to the other's checking account. */
static int amalgamate(struct tx *tx, struct tx_call *call)
{
    int64_t saving = 0, from = 0, to = 0;
    const int64_t nothing = 0;
    int status = get_to_write(tx, call, SAVINGS, call->key[0], &saving);

    if (status == TX_DONE)
        status = get_to_write(tx, call, CHECKING, call->key[0], &from);
    if (status == TX_DONE)
        status = get_to_write(tx, call, CHECKING, call->key[1], &to);
    if (status != TX_DONE)
        return status;
    to += saving + from;
    status = tx_write(tx, SAVINGS, call->key[0], &nothing);
    if (status == TX_DONE)
        status = tx_write(tx, CHECKING, call->key[0], &nothing);
    if (status == TX_DONE)
        status = tx_write(tx, CHECKING, call->key[1], &to);
    return status;
}

static int balance(struct tx *tx, struct tx_call *call)
{
    int64_t saving, checking;
    int status = get(tx, call, SAVINGS, call->key[0], &saving);

    return status == TX_DONE ? get(tx, call, CHECKING, call->key[0], &checking) : status;
}

static int pay_in(struct tx *tx, struct tx_call *call, int table, int64_t amount)
{
    int64_t balance = 0;
    int status = get_to_write(tx, call, table, call->key[0], &balance);

    balance += amount;
    call->added[0] = amount;
    return status == TX_DONE ? tx_write(tx, table, call->key[0], &balance) : status;
}

static int deposit_checking(struct tx *tx, struct tx_call *call)
{
    return pay_in(tx, call, CHECKING, DEPOSIT);
}

static int transact_saving(struct tx *tx, struct tx_call *call)
{
    return pay_in(tx, call, SAVINGS, SAVING);
}

static int send_payment(struct tx *tx, struct tx_call *call)
{
    int64_t from = 0, to = 0;
    int status = get_to_write(tx, call, CHECKING, call->key[0], &from);

    if (status == TX_DONE)
        status = get_to_write(tx, call, CHECKING, call->key[1], &to);
    call->in_vain = from < PAYMENT;
    if (status != TX_DONE || call->in_vain)
        return status;
    from -= PAYMENT;
    to += PAYMENT;
    status = tx_write(tx, CHECKING, call->key[0], &from);
    return status == TX_DONE ? tx_write(tx, CHECKING, call->key[1], &to) : status;
}

/* Who has less than the check is for, in both accounts together, pays a penalty. */
static int write_check(struct tx *tx, struct tx_call *call)
{
    int64_t saving = 0, checking = 0, amount;
    int status = get(tx, call, SAVINGS, call->key[0], &saving);

    if (status == TX_DONE)
        status = get_to_write(tx, call, CHECKING, call->key[0], &checking);
    if (status != TX_DONE)
        return status;
    amount = saving + checking < CHECK ? CHECK + PENALTY : CHECK;
    checking -= amount;
    call->added[0] = -amount;
    return tx_write(tx, CHECKING, call->key[0], &checking);
}

static void draw(const struct tx_options *o, uint64_t *random, struct tx_call *call)
{
    bool hot = tx_below(random, 100) < HOT_PERCENT;
    uint64_t accounts = (uint64_t)(hot ? o->hot : o->size);

    call->key[0] = tx_below(random, accounts);
    if (call->kind != AMALGAMATE && call->kind != SEND_PAYMENT)
        return;
    call->key[1] = tx_below(random, accounts - 1);
    call->key[1] += call->key[1] >= call->key[0];
}

/* Half of the checking accounts have nothing, as in the steady state: so the part of the payments
 * that are declined, which write nothing, does not depend on how long a run is. */
static bool initial(int table, uint64_t key, void *row)
{
    *(int64_t *)row = table == CHECKING && tx_mix(key) % 2 == 0 ? 0 : AT_FIRST;
    return true;
}

static bool add(int table, uint64_t key, const void *row, int64_t sums[TX_SUMS])
{
    (void)table;
    (void)key;
    sums[0] += *(const int64_t *)row;
    return true;
}

const struct tx_workload smallbank_workload = {
    .name = "smallbank",
    .text = "Transactions on bank accounts: SmallBank, as transaction systems over RDMA run it.",
    .size_name = "accounts",
    .has_hot = true,
    .tables = 2,
    .table = { [SAVINGS] = { "savings", 1, 8 }, [CHECKING] = { "checking", 1, 8 } },
    .kinds = 6,
    .kind = {
        [AMALGAMATE] = { "amalgamate", 15, false, amalgamate },
        [BALANCE] = { "balance", 15, true, balance },
        [DEPOSIT_CHECKING] = { "deposit checking", 15, false, deposit_checking },
        [SEND_PAYMENT] = { "send payment", 25, false, send_payment },
        [TRANSACT_SAVING] = { "transact saving", 15, false, transact_saving },
        [WRITE_CHECK] = { "write check", 15, false, write_check },
    },
    .sums = 1,
    .sum_name = { "cents" },
    .initial = initial,
    .add = add,
    .draw = draw,
};
