/* SPDX-License-Identifier: BSD-3-Clause */

/* The checker of histories of transactions (tools/sim/tx_history.h): against histories whose answer
 * is known, and against trying all orders. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "tx_history.h"

#define NONE 0                  /* as a version: before the first, or not written */

static struct sim_tx_history h;
static char text[400];

static void fini(void)
{
    sim_tx_history_fini(&h);
}

TestSuite(tx_history, .fini = fini);

static size_t begin(int process)
{
    return sim_tx_begins(&h, loci_history_client(process, 0), true);
}

static void access_one(size_t tx, uint64_t object, uint64_t read, uint64_t written)
{
    sim_tx_reads(&h, tx, object, read);
    if (written != NONE)
        sim_tx_writes(&h, tx, object, written);
}

static void commit(size_t tx)
{
    sim_tx_asks(&h, tx);
    sim_tx_ends(&h, tx, SIM_TX_COMMITTED);
}

/* A whole transaction of one process that sets objects 1 and 2 to version 1 and 2. */
static void set_up(void)
{
    size_t tx = begin(0);

    access_one(tx, 1, NONE, 1);
    access_one(tx, 2, NONE, 2);
    commit(tx);
}

static void right(void)
{
    cr_assert(sim_tx_check(&h, text, sizeof text), "%s", text);
}

static void wrong(const char *why)
{
    cr_assert(!sim_tx_check(&h, text, sizeof text), "not found: %s", why);
    cr_assert(strstr(text, why) != NULL, "found %s, not: %s", text, why);
}

/* ---- by hand ---- */

Test(tx_history, none)
{
    right();
}

Test(tx_history, one_after_the_other)
{
    size_t a, b;

    set_up();
    a = begin(1);
    b = begin(2);
    access_one(a, 1, 1, 11);
    commit(a);
    access_one(b, 1, 11, 12);
    access_one(b, 2, 2, 22);
    commit(b);
    right();
}

Test(tx_history, lost_update)
{
    size_t a, b;

    set_up();
    a = begin(1);
    b = begin(2);
    access_one(a, 1, 1, 11);
    access_one(b, 1, 1, 12);
    commit(a);
    commit(b);
    wrong("lost update: both p1.t0");
}

/* Each reads both and writes one. */
Test(tx_history, write_skew)
{
    size_t a, b;

    set_up();
    a = begin(1);
    b = begin(2);
    access_one(a, 1, 1, 11);
    access_one(a, 2, 2, NONE);
    access_one(b, 1, 1, NONE);
    access_one(b, 2, 2, 22);
    commit(a);
    commit(b);
    wrong("read what was replaced by");
}

/* Legal in any order but that of time. */
Test(tx_history, stale_read)
{
    size_t a, b;

    set_up();
    a = begin(1);
    access_one(a, 1, 1, 11);
    commit(a);
    b = begin(2);
    access_one(b, 1, 1, NONE);
    commit(b);
    wrong("ended before the begin of");
}

Test(tx_history, old_read_at_the_same_time)
{
    size_t a, b;

    set_up();
    a = begin(1);
    b = begin(2);
    access_one(a, 1, 1, 11);
    commit(a);
    access_one(b, 1, 1, NONE);
    commit(b);
    right();
}

/* Two that wrote at the same time, seen in one order by one and in the other by another. */
Test(tx_history, two_orders)
{
    size_t a, b, c, d;

    set_up();
    a = begin(1);
    b = begin(2);
    c = begin(3);
    d = begin(4);
    access_one(a, 1, 1, 11);
    access_one(b, 2, 2, 22);
    access_one(c, 1, 11, NONE);
    access_one(c, 2, 2, NONE);
    commit(a);
    commit(b);
    commit(c);
    right();
    access_one(d, 1, 1, NONE);
    access_one(d, 2, 22, NONE);
    commit(d);
    wrong("not strictly serializable");
}

/* Who was not told has changed one object and not the other. */
Test(tx_history, half_a_transaction)
{
    size_t a, b;

    set_up();
    a = begin(1);
    access_one(a, 1, 1, 11);
    access_one(a, 2, 2, 12);
    sim_tx_asks(&h, a);
    right();
    b = begin(2);
    access_one(b, 1, 11, NONE);
    access_one(b, 2, 2, NONE);
    commit(b);
    wrong("not told, but seen");
}

Test(tx_history, not_told_and_seen_whole)
{
    size_t a, b;

    set_up();
    a = begin(1);
    access_one(a, 1, 1, 11);
    access_one(a, 2, 2, 12);
    sim_tx_asks(&h, a);
    b = begin(2);
    access_one(b, 1, 11, 21);
    access_one(b, 2, 12, 22);
    commit(b);
    right();
}

/* Not told, and not there: then others replace what it would have replaced. */
Test(tx_history, not_told_and_not_seen)
{
    size_t a, b;

    set_up();
    a = begin(1);
    access_one(a, 1, 1, 11);
    sim_tx_asks(&h, a);
    b = begin(2);
    access_one(b, 1, 1, 21);
    commit(b);
    right();
}

Test(tx_history, value_of_one_that_failed)
{
    size_t a, b;

    set_up();
    a = begin(1);
    access_one(a, 1, 1, 11);
    sim_tx_asks(&h, a);
    sim_tx_ends(&h, a, SIM_TX_FAILED);
    b = begin(2);
    access_one(b, 1, 11, NONE);
    wrong("wrote and never committed");
}

Test(tx_history, value_that_nobody_wrote)
{
    size_t a;

    set_up();
    a = begin(1);
    access_one(a, 1, 2, NONE);
    wrong("nobody wrote");
}

/* Who fails has not seen what never was, either; unless it does not ask for that. */
static void see_half(bool opaque)
{
    size_t a, b;

    set_up();
    a = begin(1);
    b = sim_tx_begins(&h, loci_history_client(2, 0), opaque);
    access_one(b, 1, 1, NONE);
    access_one(a, 1, 1, 11);
    access_one(a, 2, 2, 12);
    commit(a);
    access_one(b, 2, 12, NONE);
    sim_tx_ends(&h, b, SIM_TX_FAILED);
}

Test(tx_history, not_opaque)
{
    see_half(true);
    wrong("failed");
}

Test(tx_history, relaxed_and_failed)
{
    see_half(false);
    right();
}

Test(tx_history, relaxed_and_committed)
{
    see_half(false);
    h.tx[h.ntx - 1].outcome = SIM_TX_COMMITTED;
    h.tx[h.ntx - 1].end = ++h.stamp;
    wrong("not strictly serializable");
}

/* ---- all orders ---- */

#define TXS 5
#define OBJECTS 2

struct order {
    uint64_t value[OBJECTS];
    unsigned in, done;
};

static bool reads_fit(const struct sim_tx *t, const uint64_t *value)
{
    for (size_t k = 0; k < t->naccess; k++)
        if (value[t->access[k].object] != t->access[k].read)
            return false;
    return true;
}

static bool in(unsigned set, size_t i)
{
    return set >> i & 1;
}

static bool must_wait(const struct order *o, size_t i)
{
    for (size_t k = 0; k < h.ntx; k++) {
        bool there = in(o->in, k) || (h.tx[k].opaque && h.tx[k].naccess > 0);
        uint64_t end = in(o->in, k) ? h.tx[k].end : h.tx[k].last;

        if (k != i && there && !in(o->done, k) && end < h.tx[i].begin)
            return true;
    }
    return false;
}

/* Some order of those left; `in` of them write. */
static bool some_order(const struct order *o)
{
    if (o->done + 1 == 1u << h.ntx)
        return true;
    for (size_t i = 0; i < h.ntx; i++) {
        const struct sim_tx *t = &h.tx[i];
        struct order next = *o;
        bool nothing = !in(o->in, i) && (!t->opaque || t->naccess == 0);

        if (in(o->done, i) || (!nothing && (must_wait(o, i) || !reads_fit(t, o->value))))
            continue;
        next.done |= 1u << i;
        for (size_t k = 0; in(o->in, i) && k < t->naccess; k++)
            if (t->access[k].written != NONE)
                next.value[t->access[k].object] = t->access[k].written;
        if (some_order(&next))
            return true;
    }
    return false;
}

/* Whatever anybody read was written by one of those that are `in`. */
static bool all_written(unsigned set)
{
    for (size_t i = 0; i < h.ntx; i++)
        for (size_t k = 0; k < h.tx[i].naccess; k++) {
            const struct sim_tx_access *a = &h.tx[i].access[k];
            bool found = a->read == NONE;

            for (size_t j = 0; j < h.ntx; j++)
                for (size_t m = 0; in(set, j) && m < h.tx[j].naccess; m++)
                    found = found || (h.tx[j].access[m].written == a->read
                                      && h.tx[j].access[m].object == a->object);
            if (!found)
                return false;
        }
    return true;
}

static bool by_all_orders(void)
{
    for (unsigned set = 0; set < 1u << h.ntx; set++) {
        struct order o = { .in = set };
        bool legal = true;

        for (size_t i = 0; i < h.ntx; i++)
            legal = legal && in(set, i) <= (h.tx[i].outcome == SIM_TX_ASKED
                                            || h.tx[i].outcome == SIM_TX_COMMITTED)
                    && in(set, i) >= (h.tx[i].outcome == SIM_TX_COMMITTED);
        if (legal && all_written(set) && some_order(&o))
            return true;
    }
    return false;
}

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

/* Versions so far of each object; the latest is what a step reads mostly. */
struct versions {
    uint64_t number[OBJECTS][TXS + 1];
    size_t n[OBJECTS];
};

static void random_access(size_t tx, struct versions *v, uint64_t object)
{
    size_t back = draw(5) == 0 ? draw(v->n[object]) : 0;
    uint64_t read = v->number[object][v->n[object] - 1 - back];

    access_one(tx, object, read, draw(2) ? 100 * (tx + 1) + object : NONE);
}

static void random_end(size_t tx, struct versions *v)
{
    uint64_t how = draw(6);

    if (how < 5)
        sim_tx_asks(&h, tx);
    if (how < 3)
        sim_tx_ends(&h, tx, SIM_TX_COMMITTED);
    else if (how < 4)
        sim_tx_ends(&h, tx, SIM_TX_FAILED);
    for (size_t k = 0; k < h.tx[tx].naccess && how != 3 && how != 5; k++) {
        const struct sim_tx_access *a = &h.tx[tx].access[k];

        if (a->written != NONE)
            v->number[a->object][v->n[a->object]++] = a->written;
    }
}

/* TXS transactions, up to three at a time, each of one or both objects. */
static void random_history(void)
{
    struct versions v = { .n = { 1, 1 } };
    size_t live[3], nlive = 0;

    while (h.ntx < TXS || nlive > 0) {
        size_t at;

        if (h.ntx < TXS && nlive < 3 && (nlive == 0 || draw(2))) {
            live[nlive++] = sim_tx_begins(&h, loci_history_client((int)h.ntx, 0), draw(3) > 0);
            continue;
        }
        at = draw(nlive);
        if (h.tx[live[at]].naccess == 0)
            random_access(live[at], &v, draw(OBJECTS));
        else if (h.tx[live[at]].naccess == 1 && draw(3))
            random_access(live[at], &v, 1 - h.tx[live[at]].access[0].object);
        else {
            random_end(live[at], &v);
            live[at] = live[--nlive];
        }
    }
}

Test(tx_history, all_orders, .timeout = 60)
{
    int yes = 0, n = 3000;

    seed = 4711;
    for (int i = 0; i < n; i++) {
        bool legal;

        random_history();
        legal = by_all_orders();
        cr_assert_eq(sim_tx_check(&h, text, sizeof text), legal, "history %d: %s, by all orders %s",
                     i, text, legal ? "right" : "wrong");
        yes += legal;
        sim_tx_history_fini(&h);
    }
    cr_assert(yes > n / 10 && yes < n * 9 / 10, "%d of %d are right", yes, n);
}
