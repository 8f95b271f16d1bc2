/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TPC-C's rows at the beginning (clause 4.3.3.1), a warehouse by one rank each. Some rows that are
 * neighbours go into a transaction, which has fewer leaves to write so.
 */
#include "tpcc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS_AT_ONCE = 12, DELIVERED_PERCENT = 70 };

/* Rows that go into the next transaction. Their order is that of the calls. */
struct waiting {
    enum tpcc_table table;
    struct tpcc_key key;
    size_t bytes;
    union {
        struct warehouse warehouse;
        struct district district;
        struct customer customer;
        struct history history;
        struct order order;
        struct order_line line;
        struct item item;
        struct stock stock;
    } row;
};

struct load {
    struct tpcc_client *c;
    struct ex_progress *progress;
    struct waiting rows[ROWS_AT_ONCE];
    int n;
    int64_t now;
};

static int put_rows(loco_tx_t *tx, void *arg)
{
    struct load *l = arg;
    int status = LOCO_OK;

    (void)tx;
    for (int i = 0; i < l->n && status == LOCO_OK; i++)
        status = tpcc_put(l->c, l->rows[i].table, &l->rows[i].key, &l->rows[i].row,
                          l->rows[i].bytes);
    return status;
}

static void put_now(struct load *l)
{
    if (l->n > 0)
        tpcc_check(l->c->in, loco_tx_run(l->c->tx, put_rows, l), "loading");
    l->n = 0;
}

static void put(struct load *l, enum tpcc_table table, struct tpcc_key key, const void *row,
                size_t bytes)
{
    struct waiting *w;

    if (l->n == ROWS_AT_ONCE)
        put_now(l);
    w = &l->rows[l->n++];
    w->table = table;
    w->key = key;
    w->bytes = bytes;
    if (bytes > 0)
        memcpy(&w->row, row, bytes);
}

/* ---- texts (clause 4.3.2) ---- */

static void letters(struct load *l, char *to, uint32_t least, uint32_t most)
{
    static const char of[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint32_t n = tpcc_between(l->c, least, most);

    for (uint32_t i = 0; i < n; i++)
        to[i] = of[tpcc_between(l->c, 0, sizeof(of) - 2)];
}

static void digits(struct load *l, char *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (char)('0' + tpcc_between(l->c, 0, 9));
}

/* Data of items and stock: every tenth has ORIGINAL somewhere. */
static void data_of(struct load *l, char to[50])
{
    letters(l, to, 26, 50);
    if (tpcc_between(l->c, 1, 10) == 1)
        memcpy(to + tpcc_between(l->c, 0, 18), "ORIGINAL", 8);
}

static void fill_address(struct load *l, struct address *a)
{
    letters(l, a->street_1, 10, 20);
    letters(l, a->street_2, 10, 20);
    letters(l, a->city, 10, 20);
    letters(l, a->state, 2, 2);
    digits(l, a->zip, 4);
    memcpy(a->zip + 4, "11111", 5);
}

/* ---- tables ---- */

static void load_items(struct load *l)
{
    uint32_t n = (uint32_t)l->c->in->o->items, size = (uint32_t)ex_size();
    uint32_t rank = (uint32_t)ex_rank();
    uint32_t from = (uint32_t)((uint64_t)n * rank / size);
    uint32_t to = (uint32_t)((uint64_t)n * (rank + 1) / size);

    for (uint32_t i = from + 1; i <= to; i++) {
        struct item row = { .price = tpcc_between(l->c, 100, 10000),
                            .image = tpcc_between(l->c, 1, 10000) };

        letters(l, row.name, 14, 24);
        data_of(l, row.data);
        put(l, ITEM, TPCC_KEY(i), &row, sizeof(row));
    }
}

static void load_stock(struct load *l, uint32_t w)
{
    for (uint32_t i = 1; i <= (uint32_t)l->c->in->o->items; i++) {
        struct stock row = { .quantity = (int32_t)tpcc_between(l->c, 10, 100) };

        for (int d = 0; d < DISTRICTS; d++)
            letters(l, row.district_info[d], 24, 24);
        data_of(l, row.data);
        put(l, STOCK, TPCC_KEY(w, i), &row, sizeof(row));
    }
}

static void load_warehouse(struct load *l, uint32_t w)
{
    struct warehouse row = { .ytd = DISTRICTS * 1000 * l->c->in->o->customers,
                             .tax = (int32_t)tpcc_between(l->c, 0, 2000) };

    letters(l, row.name, 6, 10);
    fill_address(l, &row.address);
    put(l, WAREHOUSE, TPCC_KEY(w), &row, sizeof(row));
}

static void load_district(struct load *l, uint32_t w, uint32_t d)
{
    struct district row = { .ytd = 1000 * l->c->in->o->customers,
                            .tax = (int32_t)tpcc_between(l->c, 0, 2000),
                            .next_order = (uint32_t)l->c->in->o->customers + 1 };

    letters(l, row.name, 6, 10);
    fill_address(l, &row.address);
    put(l, DISTRICT, TPCC_KEY(w, d), &row, sizeof(row));
}

/* The first 1000 have a last name each, the others what NURand draws. */
static void load_customer(struct load *l, uint32_t w, uint32_t d, uint32_t c)
{
    struct customer row = { .credit_limit = 5000000, .balance = -1000, .ytd_payment = 1000,
                            .since = l->now, .payments = 1, .middle = "OE" };
    struct history history = { .date = l->now, .amount = 1000, .w = w, .d = d };
    struct tpcc_key name;

    row.discount = (int32_t)tpcc_between(l->c, 0, 5000);
    tpcc_last_name(c <= NAMES ? c - 1 : tpcc_uneven(l->c, 255, 0, NAMES - 1), row.last);
    letters(l, row.first, 8, 16);
    fill_address(l, &row.address);
    digits(l, row.phone, 16);
    memcpy(row.credit, tpcc_between(l->c, 1, 10) == 1 ? "BC" : "GC", 2);
    letters(l, row.data, 300, 500);
    put(l, CUSTOMER, TPCC_KEY(w, d, c), &row, sizeof(row));
    name = tpcc_name_key(w, d, row.last);
    memcpy(name.bytes + name.length, row.first, 16);
    for (int i = 0; i < 4; i++)
        name.bytes[name.length + 16 + (size_t)i] = (unsigned char)(c >> (24 - 8 * i));
    name.length += 20;
    put(l, NAME, name, NULL, 0);
    letters(l, history.data, 12, 24);
    put(l, HISTORY, TPCC_KEY(w, d, c, 0, 0), &history, sizeof(history));
}

static void load_order(struct load *l, uint32_t w, uint32_t d, uint32_t o, uint32_t customer)
{
    bool delivered = (int64_t)o * 100 <= l->c->in->o->customers * DELIVERED_PERCENT;
    struct order row = { .entry = l->now, .customer = customer, .all_local = 1,
                         .carrier = delivered ? tpcc_between(l->c, 1, 10) : 0,
                         .lines = tpcc_between(l->c, LINES_LEAST, LINES_MOST) };

    put(l, ORDER, TPCC_KEY(w, d, o), &row, sizeof(row));
    if (!delivered)
        put(l, NEW_ORDER, TPCC_KEY(w, d, o), NULL, 0);
    for (uint32_t i = 1; i <= row.lines; i++) {
        struct order_line line = { .delivery = delivered ? row.entry : 0, .supply = w,
                                   .amount = delivered ? 0 : tpcc_between(l->c, 1, 999999),
                                   .quantity = 5 };

        line.item = tpcc_between(l->c, 1, (uint32_t)l->c->in->o->items);
        letters(l, line.district_info, 24, 24);
        put(l, ORDER_LINE, TPCC_KEY(w, d, o, i), &line, sizeof(line));
    }
}

/* Each customer has one order, in an order of their own (clause 4.3.3.1). */
static void load_orders(struct load *l, uint32_t w, uint32_t d)
{
    uint32_t n = (uint32_t)l->c->in->o->customers;
    uint32_t *customers = malloc(n * sizeof(*customers));

    if (customers == NULL)
        ex_abort("no memory for %" PRIu32 " numbers of customers", n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = tpcc_between(l->c, 0, i);

        customers[i] = customers[j];
        customers[j] = i + 1;
    }
    for (uint32_t o = 1; o <= n; o++)
        load_order(l, w, d, o, customers[o - 1]);
    free(customers);
}

void tpcc_load(struct tpcc_client *c, struct ex_progress *progress)
{
    struct load *l = calloc(1, sizeof(*l));

    if (l == NULL)
        ex_abort("no memory for loading");
    l->c = c;
    l->progress = progress;
    l->now = (int64_t)time(NULL);
    load_items(l);
    for (uint32_t w = 1 + (uint32_t)ex_rank(); w <= (uint32_t)c->in->o->warehouses;
         w += (uint32_t)ex_size()) {
        load_warehouse(l, w);
        load_stock(l, w);
        for (uint32_t d = 1; d <= DISTRICTS; d++) {
            ex_progress_say(progress, "loading: warehouse %" PRIu32 " of %" PRId64
                            ", district %" PRIu32, w, c->in->o->warehouses, d);
            load_district(l, w, d);
            for (uint32_t i = 1; i <= (uint32_t)c->in->o->customers; i++)
                load_customer(l, w, d, i);
            load_orders(l, w, d);
        }
    }
    put_now(l);
    free(l);
}
