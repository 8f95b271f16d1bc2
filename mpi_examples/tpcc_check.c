/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TPC-C's conditions of consistency (clause 3.3.2), all twelve, and whether the tables have what
 * clients say that they have done. A rank looks at its warehouses. Orders, their lines and new
 * orders have the same order of keys, so one walk sees what belongs together.
 */
#include "tpcc.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_MESSAGES = 10 };

struct look {
    struct tpcc_client *c;
    struct tpcc_found *found;
    int64_t *paid;              /* by warehouse and district, of history; at last of all ranks */
    int64_t *delivered;         /* by customer of the district at hand, as the next ones */
    int64_t *history, *payments;
    uint32_t w, d;
    loco_tree_cursor_t *orders, *lines, *new_orders;
};

static void expect(struct look *k, int condition, const char *what, int64_t is, int64_t expected)
{
    if (is == expected)
        return;
    if (k->found->wrong[condition]++ < MOST_MESSAGES)
        fprintf(stderr, "tpcc: condition %d: warehouse %" PRIu32 ", district %" PRIu32
                ": %s: %" PRId64 " instead of %" PRId64 "\n", condition, k->w, k->d, what, is,
                expected);
}

static const struct tpcc_options *options_of(const struct look *k)
{
    return k->c->in->o;
}

static int64_t *paid_of(struct look *k, uint32_t w, uint32_t d)
{
    static int64_t nowhere;

    if (w < 1 || w > (uint32_t)options_of(k)->warehouses || d < 1 || d > DISTRICTS)
        return &nowhere;
    return &k->paid[(w - 1) * DISTRICTS + d - 1];
}

/* ---- walks ---- */

/* A place in one of the tables, and the row there. */
struct place {
    bool there;
    uint32_t order;
    loco_bytes_t key, value;
};

static loco_tree_cursor_t *begin(struct look *k, enum tpcc_table table, const struct tpcc_key *key)
{
    loco_bytes_t from = loco_bytes(key->bytes, key->length);
    loco_tree_cursor_t *cursor;

    tpcc_check(k->c->in, loco_tree_cursor_open(k->c->table[table], &from, &cursor), "a cursor");
    return cursor;
}

/* The next row of this district. */
static void next(struct look *k, loco_tree_cursor_t *cursor, struct place *p)
{
    int status = loco_tree_cursor_next(cursor, &p->key, &p->value);

    if (status != LOCO_ERR_NOT_FOUND)
        tpcc_check(k->c->in, status, "walking through a table");
    p->there = status == LOCO_OK && tpcc_number(p->key, 0) == k->w
               && tpcc_number(p->key, 1) == k->d;
    p->order = p->there ? tpcc_number(p->key, 2) : UINT32_MAX;
}

/* Copies a row, if it has that length. */
static bool row_of(struct look *k, loco_bytes_t value, void *row, size_t bytes)
{
    expect(k, 0, "bytes of a row", (int64_t)value.len, (int64_t)bytes);
    if (value.len != bytes)
        return false;
    memcpy(row, value.data, bytes);
    return true;
}

/* ---- orders ---- */

struct orders {
    struct place order, line, new_order;
    int64_t orders, new_orders, lines, lines_told, last, first_new, last_new;
};

/* The lines of an order, which begin at hand. */
static void look_at_lines(struct look *k, struct orders *s, const struct order *o)
{
    uint32_t order = s->order.order;
    int64_t n = 0, amount = 0;

    for (; s->line.there && s->line.order == order; next(k, k->lines, &s->line), n++) {
        struct order_line l;

        if (!row_of(k, s->line.value, &l, sizeof(l)))
            continue;
        expect(k, 7, "delivery of a line", l.delivery == 0, o->carrier == 0);
        amount += l.delivery != 0 ? l.amount : 0;
        if (order > (uint32_t)options_of(k)->customers) {
            k->found->lines++;
            k->found->quantity += l.quantity;
        }
    }
    expect(k, 6, "lines of an order", n, o->lines);
    s->lines += n;
    if (o->customer >= 1 && o->customer <= (uint32_t)options_of(k)->customers)
        k->delivered[o->customer - 1] += amount;
    else
        expect(k, 0, "the customer of an order", o->customer, 1);
}

static void look_at_order(struct look *k, struct orders *s)
{
    uint32_t order = s->order.order;
    struct order o;

    if (!row_of(k, s->order.value, &o, sizeof(o)))
        return;
    s->orders++;
    s->lines_told += o.lines;
    s->last = order;
    k->found->orders += order > (uint32_t)options_of(k)->customers;
    for (; s->line.there && s->line.order < order; next(k, k->lines, &s->line), s->lines++)
        expect(k, 6, "a line without its order", s->line.order, order);
    for (; s->new_order.there && s->new_order.order < order; next(k, k->new_orders, &s->new_order))
        expect(k, 5, "a new order without its order", s->new_order.order, order);
    expect(k, 5, "whether an order is new", s->new_order.order == order, o.carrier == 0);
    if (s->new_order.order == order) {
        s->first_new = s->new_orders++ == 0 ? order : s->first_new;
        s->last_new = order;
        next(k, k->new_orders, &s->new_order);
    }
    look_at_lines(k, s, &o);
}

static void look_at_orders(struct look *k, const struct district *district)
{
    struct tpcc_key key = TPCC_KEY(k->w, k->d);
    struct orders s = { .orders = 0 };
    int64_t initial = options_of(k)->customers;

    k->orders = begin(k, ORDER, &key);
    k->lines = begin(k, ORDER_LINE, &key);
    k->new_orders = begin(k, NEW_ORDER, &key);
    next(k, k->lines, &s.line);
    next(k, k->new_orders, &s.new_order);
    for (next(k, k->orders, &s.order); s.order.there; next(k, k->orders, &s.order))
        look_at_order(k, &s);
    expect(k, 2, "the last order", s.last, (int64_t)district->next_order - 1);
    expect(k, 2, "the last new order", s.last_new, (int64_t)district->next_order - 1);
    expect(k, 3, "new orders", s.new_orders, s.last_new - s.first_new + 1);
    expect(k, 4, "lines of all orders", s.lines + s.line.there, s.lines_told);
    expect(k, 5, "new orders without their orders", s.new_order.there, 0);
    expect(k, 11, "orders that are not new", s.orders - s.new_orders, initial * 70 / 100);
    loco_tree_cursor_close(k->orders);
    loco_tree_cursor_close(k->lines);
    loco_tree_cursor_close(k->new_orders);
}

/* ---- customers ---- */

static void look_at_history(struct look *k)
{
    struct tpcc_key key = TPCC_KEY(k->w, k->d);
    loco_tree_cursor_t *cursor = begin(k, HISTORY, &key);
    struct place p;

    for (next(k, cursor, &p); p.there; next(k, cursor, &p)) {
        struct history h;

        if (!row_of(k, p.value, &h, sizeof(h)))
            continue;
        *paid_of(k, h.w, h.d) += h.amount;
        k->found->amount += h.amount;
        if (p.order >= 1 && p.order <= (uint32_t)options_of(k)->customers) {
            k->history[p.order - 1] += h.amount;
            k->payments[p.order - 1]++;
        }
    }
    loco_tree_cursor_close(cursor);
}

static void look_at_customers(struct look *k)
{
    struct tpcc_key key = TPCC_KEY(k->w, k->d);
    loco_tree_cursor_t *cursor = begin(k, CUSTOMER, &key);
    struct place p;
    uint32_t n = 0;

    for (next(k, cursor, &p); p.there; next(k, cursor, &p), n++) {
        struct customer c;

        if (!row_of(k, p.value, &c, sizeof(c)) || p.order != n + 1)
            continue;
        expect(k, 10, "a balance", c.balance, k->delivered[n] - k->history[n]);
        expect(k, 12, "a balance and payments", c.balance + c.ytd_payment, k->delivered[n]);
        expect(k, 0, "payments", c.payments, k->payments[n]);
    }
    expect(k, 0, "customers", n, options_of(k)->customers);
    loco_tree_cursor_close(cursor);
}

static void look_at_names(struct look *k)
{
    struct tpcc_key key = TPCC_KEY(k->w, k->d);
    loco_tree_cursor_t *cursor = begin(k, NAME, &key);
    struct place p;
    int64_t n = 0, sum = 0, customers = options_of(k)->customers;

    for (next(k, cursor, &p); p.there; next(k, cursor, &p), n++)
        sum += p.key.len == 44 ? tpcc_number(p.key, 10) : 0;
    expect(k, 0, "names", n, customers);
    expect(k, 0, "sum of the customers with names", sum, customers * (customers + 1) / 2);
    loco_tree_cursor_close(cursor);
}

/* ---- warehouses ---- */

static int look_at_stock(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    struct look *k = ctx;
    struct stock s;

    (void)key;
    if (row_of(k, value, &s, sizeof(s))) {
        expect(k, 0, "whether a quantity is possible", s.quantity >= 10 && s.quantity <= 100, 1);
        k->found->stock_orders += s.orders;
        k->found->stock_remote += s.remote_orders;
        k->found->quantity -= s.ytd;
    }
    return 0;
}

static void look_at_district(struct look *k, int64_t *ytd)
{
    size_t bytes = (size_t)options_of(k)->customers * sizeof(int64_t);
    struct tpcc_key key = TPCC_KEY(k->w, k->d);
    struct district row;

    tpcc_check(k->c->in, tpcc_get(k->c, DISTRICT, &key, &row, sizeof(row)), "a district");
    *ytd += row.ytd;
    memset(k->delivered, 0, bytes);
    memset(k->history, 0, bytes);
    memset(k->payments, 0, bytes);
    look_at_orders(k, &row);
    look_at_history(k);
    look_at_customers(k);
    look_at_names(k);
}

static void look_at_warehouse(struct look *k)
{
    struct tpcc_key key = TPCC_KEY(k->w), behind = TPCC_KEY(k->w + 1);
    loco_bytes_t from = loco_bytes(key.bytes, key.length);
    loco_bytes_t to = loco_bytes(behind.bytes, behind.length);
    struct warehouse row;
    int64_t ytd = 0;

    tpcc_check(k->c->in, tpcc_get(k->c, WAREHOUSE, &key, &row, sizeof(row)), "a warehouse");
    for (k->d = 1; k->d <= DISTRICTS; k->d++)
        look_at_district(k, &ytd);
    k->d = 0;
    expect(k, 1, "what districts have got", ytd, row.ytd);
    tpcc_check(k->c->in, loco_tree_scan(k->c->table[STOCK], &from, &to, 0, look_at_stock, k),
               "stock");
}

/* When all ranks' history is added up. */
static void look_at_payments(struct look *k)
{
    struct tpcc_key key = TPCC_KEY(k->w);
    struct warehouse row;
    int64_t paid = 0;

    tpcc_check(k->c->in, tpcc_get(k->c, WAREHOUSE, &key, &row, sizeof(row)), "a warehouse");
    for (k->d = 1; k->d <= DISTRICTS; k->d++) {
        struct district district;

        key = TPCC_KEY(k->w, k->d);
        tpcc_check(k->c->in, tpcc_get(k->c, DISTRICT, &key, &district, sizeof(district)),
                   "a district");
        expect(k, 9, "payments to a district", *paid_of(k, k->w, k->d), district.ytd);
        paid += *paid_of(k, k->w, k->d);
    }
    k->d = 0;
    expect(k, 8, "payments to a warehouse", paid, row.ytd);
}

/* ---- all ---- */

static void sum(int64_t *numbers, size_t n)
{
    ex_check(MPI_Allreduce(MPI_IN_PLACE, numbers, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

static void each_warehouse(struct look *k, void (*look)(struct look *k))
{
    for (k->w = 1 + (uint32_t)ex_rank(); k->w <= (uint32_t)options_of(k)->warehouses;
         k->w += (uint32_t)ex_size())
        look(k);
}

static void compare(struct look *k, const struct tpcc_tally *done)
{
    const struct tpcc_found *f = k->found;
    const struct tpcc_options *o = options_of(k);

    k->w = k->d = 0;
    expect(k, 0, "orders", f->orders, done->orders);
    expect(k, 0, "lines of orders", f->lines, done->lines);
    expect(k, 0, "lines that stock has seen", f->stock_orders, done->lines);
    expect(k, 0, "remote lines that stock has seen", f->stock_remote, done->remote_lines);
    expect(k, 0, "quantity of lines less what left the stock", f->quantity, 0);
    expect(k, 0, "sum of payments", f->amount,
           done->amount + 1000 * o->customers * DISTRICTS * o->warehouses);
}

void tpcc_look(struct tpcc_client *c, const struct tpcc_tally *done, struct tpcc_found *found)
{
    size_t customers = (size_t)c->in->o->customers;
    size_t places = (size_t)c->in->o->warehouses * DISTRICTS;
    struct look k = { .c = c, .found = found, .paid = calloc(places, sizeof(int64_t)),
                      .delivered = calloc(3 * customers, sizeof(int64_t)) };

    if (k.paid == NULL || k.delivered == NULL)
        ex_abort("no memory for sums of %zu customers", customers);
    k.history = k.delivered + customers;
    k.payments = k.history + customers;
    memset(found, 0, sizeof(*found));
    each_warehouse(&k, look_at_warehouse);
    sum(k.paid, places);
    each_warehouse(&k, look_at_payments);
    sum((int64_t *)found, sizeof(*found) / sizeof(int64_t));
    if (ex_rank() == 0)
        compare(&k, done);
    free(k.paid);
    free(k.delivered);
}
