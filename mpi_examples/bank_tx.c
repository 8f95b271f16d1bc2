/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bank on a store of LOCO: an account is an object, the root of its number, which every rank
 * can compute, and a transaction is one of the store. Nobody takes a lock: a transaction that meets
 * another's commit begins again.
 */
#include "bank.h"

#include <loco/mpi.h>
#include <loco/tx.h>

#include <stdlib.h>

enum { DECLINED = 1, ACCOUNTS_AT_ONCE = 32, BYTES_EACH = 128 };

struct bank {
    const struct bank_options *o;
    loco_runtime_t *rt;
    loco_store_t *store;
};

struct session {
    const struct bank *bank;
    loco_tx_t *tx;
};

struct change {
    const struct bank *bank;
    int64_t from, to, amount;   /* with one account, `to` */
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static loco_object_t object_of(const struct bank *b, int64_t account)
{
    return loco_store_root(b->store, (uint64_t)account);
}

static int read_account(loco_tx_t *tx, const struct bank *b, int64_t account, int64_t *balance)
{
    return loco_tx_read(tx, object_of(b, account), balance, sizeof(*balance));
}

static int write_account(loco_tx_t *tx, const struct bank *b, int64_t account, int64_t balance)
{
    return loco_tx_write(tx, object_of(b, account), &balance, sizeof(balance));
}

/* ---- sessions ---- */

static void *attach(void *bank)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL)
        ex_abort("no memory for a session");
    s->bank = bank;
    check(loco_tx_open(s->bank->store, &s->tx), "loco_tx_open");
    return s;
}

static void detach(void *session)
{
    struct session *s = session;

    loco_tx_close(s->tx);
    free(s);
}

static int pay_in(loco_tx_t *tx, void *arg)
{
    const struct change *c = arg;
    int64_t balance;
    int status = read_account(tx, c->bank, c->to, &balance);

    return status != LOCO_OK ? status : write_account(tx, c->bank, c->to, balance + c->amount);
}

static void deposit(void *session, int64_t account, int64_t amount)
{
    struct session *s = session;
    struct change c = { .bank = s->bank, .to = account, .amount = amount };

    check(loco_tx_run(s->tx, pay_in, &c), "a deposit");
}

static int move(loco_tx_t *tx, void *arg)
{
    const struct change *c = arg;
    const loco_object_t both[2] = { object_of(c->bank, c->from), object_of(c->bank, c->to) };
    int64_t balance[2];
    int statuses[2], status = loco_tx_read_many(tx, 2, both, balance, sizeof(balance[0]), statuses);

    if (status == LOCO_OK && (statuses[0] != LOCO_OK || statuses[1] != LOCO_OK))
        return LOCO_ERR_NOT_FOUND;
    if (status != LOCO_OK)
        return status;
    if (balance[0] < c->amount)
        return DECLINED;
    status = write_account(tx, c->bank, c->from, balance[0] - c->amount);
    return status != LOCO_OK ? status
           : write_account(tx, c->bank, c->to, balance[1] + c->amount);
}

static bool transfer(void *session, int64_t from, int64_t to, int64_t amount)
{
    struct session *s = session;
    struct change c = { .bank = s->bank, .from = from, .to = to, .amount = amount };
    int status = loco_tx_run(s->tx, move, &c);

    if (status != DECLINED)
        check(status, "a transfer");
    return status == LOCO_OK;
}

/* ---- all accounts ---- */

/* Some of this rank's: they go round the ranks. */
struct part {
    const struct bank *bank;
    int64_t first, end;
    int64_t sum, least;
};

static int fill_part(loco_tx_t *tx, void *arg)
{
    const struct part *p = arg;
    int status = LOCO_OK;

    for (int64_t a = p->first; a < p->end && status == LOCO_OK; a += ex_size())
        status = write_account(tx, p->bank, a, BANK_START);
    return status;
}

static int look_at_part(loco_tx_t *tx, void *arg)
{
    struct part *p = arg;
    int status = LOCO_OK;

    p->sum = 0;
    p->least = INT64_MAX;
    for (int64_t a = p->first; a < p->end && status == LOCO_OK; a += ex_size()) {
        int64_t balance = 0;

        status = read_account(tx, p->bank, a, &balance);
        p->sum += balance;
        p->least = balance < p->least ? balance : p->least;
    }
    return status;
}

static void each_part(struct bank *b, loco_tx_body_fn *body, int64_t *sum, int64_t *least)
{
    const int64_t stride = ACCOUNTS_AT_ONCE * ex_size();
    struct session *s = attach(b);
    struct part p = { .bank = b };

    *sum = 0;
    *least = INT64_MAX;
    for (p.first = ex_rank(); p.first < b->o->accounts; p.first += stride) {
        p.end = p.first + stride < b->o->accounts ? p.first + stride : b->o->accounts;
        check(loco_tx_run(s->tx, body, &p), "accounts");
        *sum += p.sum;
        *least = p.least < *least ? p.least : *least;
    }
    detach(s);
}

static void *open_bank(const struct bank_options *o)
{
    struct bank *b = calloc(1, sizeof(*b));
    uint64_t each = (uint64_t)(o->accounts / ex_size()) + 1024;
    const loco_store_options_t options = {
        .bytes = each * BYTES_EACH + (UINT64_C(16) << 20), .objects = each,
        .roots = (uint64_t)o->accounts, .threads = (int)o->threads,
    };
    int64_t sum, least;

    if (b == NULL)
        ex_abort("no memory for the bank");
    b->o = o;
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &b->rt), "loco_runtime_open_mpi");
    check(loco_store_create(b->rt, "bank", "accounts", loco_everyone(b->rt), &options, &b->store),
          "loco_store_create");
    check(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    each_part(b, fill_part, &sum, &least);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    return b;
}

static void look(void *bank, int64_t *sum, int64_t *least)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    each_part(bank, look_at_part, sum, least);
}

static void close_bank(void *bank)
{
    struct bank *b = bank;

    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_store_destroy(b->store);
    loco_runtime_close_mpi(b->rt);
    free(b);
}

const struct bank_api bank_tx = {
    .name = "tx",
    .open = open_bank,
    .attach = attach,
    .deposit = deposit,
    .transfer = transfer,
    .detach = detach,
    .look = look,
    .close = close_bank,
};
