/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NewOrder (clause 2.4) and Payment (clause 2.5). What a transaction is about is drawn before; its
 * body may be run again after a conflict, and tells anew each time what it has done.
 */
#include "tpcc.h"

#include <inttypes.h>
#include <time.h>

enum { SAME_NAME_MOST = 4096 };

/* What a body returns where the transaction is to be undone. */
enum { ROLL_BACK = 1, WRONG = 2 };

struct line {
    uint32_t item, supply, quantity;
};

struct new_order {
    struct tpcc_client *client;
    uint32_t w, d, c;
    uint32_t lines, all_local;
    struct line line[LINES_MOST];
    int64_t entry;
    int64_t begun;
    /* What it tells. */
    int64_t quantity, remote, total;
};

struct payment {
    struct tpcc_client *client;
    uint32_t w, d, cw, cd, c;       /* c 0: by last name */
    char last[16];
    int64_t amount, date;
    int64_t begun;
};

/* A row that must be there. */
static int get(struct tpcc_client *c, enum tpcc_table table, struct tpcc_key key, void *row,
               size_t bytes)
{
    int status = tpcc_get(c, table, &key, row, bytes);

    return status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_SIZE ? WRONG : status;
}

static int put(struct tpcc_client *c, enum tpcc_table table, struct tpcc_key key, const void *row,
               size_t bytes)
{
    return tpcc_put(c, table, &key, row, bytes);
}

/* ---- NewOrder ---- */

static void draw_new_order(struct tpcc_client *c, struct new_order *n)
{
    const struct tpcc_options *o = c->in->o;
    bool roll_back = tpcc_between(c, 1, 100) == 1;

    *n = (struct new_order){ .client = c, .w = c->home, .d = tpcc_between(c, 1, DISTRICTS),
                             .c = tpcc_uneven(c, 1023, 1, (uint32_t)o->customers),
                             .lines = tpcc_between(c, LINES_LEAST, LINES_MOST), .all_local = 1,
                             .entry = (int64_t)time(NULL) };
    for (uint32_t i = 0; i < n->lines; i++) {
        struct line *l = &n->line[i];

        l->item = tpcc_uneven(c, 8191, 1, (uint32_t)o->items);
        l->quantity = tpcc_between(c, 1, 10);
        l->supply = n->w;
        if (o->warehouses > 1 && tpcc_between(c, 1, 100) == 1) {
            l->supply = tpcc_between(c, 1, (uint32_t)o->warehouses - 1);
            l->supply += l->supply >= n->w;
            n->all_local = 0;
        }
    }
    if (roll_back)
        n->line[n->lines - 1].item = (uint32_t)o->items + 1;    /* there is none */
}

static void take_from_stock(struct stock *s, const struct line *l, bool remote)
{
    s->quantity -= (int32_t)l->quantity;
    if (s->quantity < 10)
        s->quantity += 91;
    s->ytd += l->quantity;
    s->orders++;
    s->remote_orders += remote;
}

static int order_line(struct new_order *n, uint32_t order, uint32_t i)
{
    const struct line *l = &n->line[i];
    struct order_line row = { .item = l->item, .supply = l->supply, .quantity = l->quantity };
    struct stock stock;
    struct item item;
    struct tpcc_key key = TPCC_KEY(l->item);
    int status = tpcc_get(n->client, ITEM, &key, &item, sizeof(item));

    if (status == LOCO_ERR_NOT_FOUND && l->item > (uint32_t)n->client->in->o->items)
        return ROLL_BACK;
    if (status == LOCO_OK)
        status = get(n->client, STOCK, TPCC_KEY(l->supply, l->item), &stock, sizeof(stock));
    if (status != LOCO_OK)
        return status == LOCO_ERR_NOT_FOUND ? WRONG : status;
    take_from_stock(&stock, l, l->supply != n->w);
    row.amount = l->quantity * item.price;
    memcpy(row.district_info, stock.district_info[n->d - 1], sizeof(row.district_info));
    n->quantity += l->quantity;
    n->remote += l->supply != n->w;
    n->total += row.amount;
    status = put(n->client, STOCK, TPCC_KEY(l->supply, l->item), &stock, sizeof(stock));
    return status != LOCO_OK ? status
           : put(n->client, ORDER_LINE, TPCC_KEY(n->w, n->d, order, i + 1), &row, sizeof(row));
}

/* The district's next number, which is then another. */
static int take_number(struct new_order *n, struct district *d, uint32_t *order)
{
    int status = get(n->client, DISTRICT, TPCC_KEY(n->w, n->d), d, sizeof(*d));

    if (status != LOCO_OK)
        return status;
    *order = d->next_order++;
    return put(n->client, DISTRICT, TPCC_KEY(n->w, n->d), d, sizeof(*d));
}

static int enter_order(struct new_order *n, uint32_t order)
{
    const struct order row = { .entry = n->entry, .customer = n->c, .lines = n->lines,
                               .all_local = n->all_local };
    int status = put(n->client, ORDER, TPCC_KEY(n->w, n->d, order), &row, sizeof(row));

    return status != LOCO_OK ? status
           : put(n->client, NEW_ORDER, TPCC_KEY(n->w, n->d, order), NULL, 0);
}

static int new_order(loco_tx_t *tx, void *arg)
{
    struct new_order *n = arg;
    struct warehouse warehouse;
    struct district district;
    struct customer customer;
    uint32_t order = 0;
    int status = get(n->client, WAREHOUSE, TPCC_KEY(n->w), &warehouse, sizeof(warehouse));

    (void)tx;
    n->begun++;
    n->quantity = n->remote = n->total = 0;
    if (status == LOCO_OK)
        status = take_number(n, &district, &order);
    if (status == LOCO_OK)
        status = get(n->client, CUSTOMER, TPCC_KEY(n->w, n->d, n->c), &customer, sizeof(customer));
    if (status == LOCO_OK)
        status = enter_order(n, order);
    for (uint32_t i = 0; i < n->lines && status == LOCO_OK; i++)
        status = order_line(n, order, i);
    if (status != LOCO_OK)
        return status;
    /* What a terminal would show. */
    n->total = n->total * (10000 - customer.discount) / 10000
               * (10000 + warehouse.tax + district.tax) / 10000;
    return LOCO_OK;
}

/* ---- Payment ---- */

static void draw_payment(struct tpcc_client *c, struct payment *p)
{
    const struct tpcc_options *o = c->in->o;
    uint32_t customers = (uint32_t)o->customers;

    *p = (struct payment){ .client = c, .w = c->home, .d = tpcc_between(c, 1, DISTRICTS),
                           .amount = tpcc_between(c, 100, 500000), .date = (int64_t)time(NULL) };
    p->cw = p->w;
    p->cd = p->d;
    if (o->warehouses > 1 && tpcc_between(c, 1, 100) > 85) {
        p->cw = tpcc_between(c, 1, (uint32_t)o->warehouses - 1);
        p->cw += p->cw >= p->w;
        p->cd = tpcc_between(c, 1, DISTRICTS);
    }
    if (tpcc_between(c, 1, 100) <= 60)
        tpcc_last_name(tpcc_uneven(c, 255, 0, customers < NAMES ? customers - 1 : NAMES - 1),
                       p->last);
    else
        p->c = tpcc_uneven(c, 1023, 1, customers);
}

struct same_name {
    uint32_t c[SAME_NAME_MOST];
    int n;
};

static int see_name(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct same_name *s = ctx;

    (void)value;
    if (key.len != 44 || s->n == SAME_NAME_MOST)
        return WRONG;
    s->c[s->n++] = tpcc_number(key, 10);
    return 0;
}

/* Of all with that name, in the order of their first names, the one in the middle, rounded up
 * (clause 2.5.2.2). */
static int find_by_name(struct payment *p, uint32_t *c)
{
    struct tpcc_key first = tpcc_name_key(p->cw, p->cd, p->last);
    unsigned char end[KEY_ROOM];
    loco_bytes_t from = loco_bytes(first.bytes, first.length), to = loco_prefix_end(from, end);
    struct same_name same = { .n = 0 };
    int status;

    status = loco_tree_scan(p->client->table[NAME], &from, &to, 0, see_name, &same);
    if (status != LOCO_OK)
        return status;
    if (same.n == 0)
        return WRONG;
    *c = same.c[(same.n + 1) / 2 - 1];
    return LOCO_OK;
}

/* Clause 2.5.2.2: who has bad credit has all payments in his data, the last first. */
static void note_payment(struct customer *row, const struct payment *p, uint32_t c)
{
    char note[96];
    int n = snprintf(note, sizeof(note), "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32
                     " %" PRId64 "|", c, p->cd, p->cw, p->d, p->w, p->amount);

    memmove(row->data + n, row->data, sizeof(row->data) - (size_t)n);
    memcpy(row->data, note, (size_t)n);
}

static int pay_customer(struct payment *p, uint32_t *c)
{
    struct customer row;
    int status = p->c == 0 ? find_by_name(p, c) : LOCO_OK;

    if (status == LOCO_OK)
        status = get(p->client, CUSTOMER, TPCC_KEY(p->cw, p->cd, *c), &row, sizeof(row));
    if (status != LOCO_OK)
        return status;
    row.balance -= p->amount;
    row.ytd_payment += p->amount;
    row.payments++;
    if (memcmp(row.credit, "BC", 2) == 0)
        note_payment(&row, p, *c);
    return put(p->client, CUSTOMER, TPCC_KEY(p->cw, p->cd, *c), &row, sizeof(row));
}

static int pay_warehouse(struct payment *p, struct warehouse *row)
{
    int status = get(p->client, WAREHOUSE, TPCC_KEY(p->w), row, sizeof(*row));

    row->ytd += status == LOCO_OK ? p->amount : 0;
    return status != LOCO_OK ? status
           : put(p->client, WAREHOUSE, TPCC_KEY(p->w), row, sizeof(*row));
}

static int pay_district(struct payment *p, struct district *row)
{
    int status = get(p->client, DISTRICT, TPCC_KEY(p->w, p->d), row, sizeof(*row));

    row->ytd += status == LOCO_OK ? p->amount : 0;
    return status != LOCO_OK ? status
           : put(p->client, DISTRICT, TPCC_KEY(p->w, p->d), row, sizeof(*row));
}

static int payment(loco_tx_t *tx, void *arg)
{
    struct payment *p = arg;
    struct history history = { .date = p->date, .amount = p->amount, .w = p->w, .d = p->d };
    struct warehouse warehouse = { .ytd = 0 };
    struct district district = { .ytd = 0 };
    uint32_t c = p->c;
    int status = pay_warehouse(p, &warehouse);

    (void)tx;
    p->begun++;
    if (status == LOCO_OK)
        status = pay_district(p, &district);
    if (status == LOCO_OK)
        status = pay_customer(p, &c);
    if (status != LOCO_OK)
        return status;
    memcpy(history.data, warehouse.name, 10);
    memset(history.data + 10, ' ', 4);
    memcpy(history.data + 14, district.name, 10);
    return put(p->client, HISTORY, TPCC_KEY(p->cw, p->cd, c, p->client->number,
                                            p->client->histories), &history, sizeof(history));
}

/* ---- to the end ---- */

/* What is done after all: true, unless there was no more memory. */
static bool conclude(struct tpcc_client *c, enum tpcc_kind kind, int status, int64_t begun)
{
    struct tpcc_tally *t = &c->tally;

    t->again += begun - 1;
    if (status == LOCO_ERR_FULL) {
        t->full++;
        return false;
    }
    if (status == WRONG)
        t->wrong++;
    else if (status != ROLL_BACK)
        tpcc_check(c->in, status, "a transaction");
    t->made[kind]++;
    return true;
}

static bool make_new_order(struct tpcc_client *c)
{
    struct tpcc_tally *t = &c->tally;
    struct new_order n;
    int status;

    draw_new_order(c, &n);
    status = loco_tx_run(c->tx, new_order, &n);
    t->rolled_back += status == ROLL_BACK;
    if (status == LOCO_OK) {
        t->orders++;
        t->lines += n.lines;
        t->quantity += n.quantity;
        t->remote_lines += n.remote;
    }
    return conclude(c, NEW_ORDER_TX, status, n.begun);
}

static bool make_payment(struct tpcc_client *c)
{
    struct tpcc_tally *t = &c->tally;
    struct payment p;
    int status;

    draw_payment(c, &p);
    status = loco_tx_run(c->tx, payment, &p);
    if (status == LOCO_OK) {
        c->histories++;
        t->amount += p.amount;
        t->remote_payments += p.cw != p.w;
        t->by_name += p.c == 0;
    }
    return conclude(c, PAYMENT_TX, status, p.begun);
}

bool tpcc_transact(struct tpcc_client *c, enum tpcc_kind kind)
{
    return kind == NEW_ORDER_TX ? make_new_order(c) : make_payment(c);
}
