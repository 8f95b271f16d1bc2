/* SPDX-License-Identifier: BSD-3-Clause */

/* Errands: one that takes its time holds up no other for longer than a step of its own, and all
 * come to their end. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "threads/errand.h"
#include "run.h"

enum { QUICK = 10 };

static struct loco_runtime rt;      /* for its log, which says nothing */

struct counted {
    struct loci_errand errand;      /* first */
    int needed;                     /* steps until it is over */
    unsigned pause;                 /* microseconds of one */
    _Atomic int steps, ended;
};

static bool step(struct loci_errand *errand)
{
    struct counted *c = (struct counted *)errand;

    usleep(c->pause);
    return atomic_fetch_add(&c->steps, 1) + 1 >= c->needed;
}

static void end(struct loci_errand *errand)
{
    atomic_fetch_add(&((struct counted *)errand)->ended, 1);
}

static void send(struct loci_errands *errands, struct counted *c, int needed, unsigned pause)
{
    *c = (struct counted){ .errand = { .step = step, .end = end }, .needed = needed };
    c->pause = pause;
    loci_errands_send(errands, &c->errand);
}

Test(errand, holds_up_no_other)
{
    struct counted slow, quick[QUICK];
    struct loci_errands errands;

    loci_errands_open(&errands, &rt, "test");
    send(&errands, &slow, 1000000, 50000);
    for (int i = 0; i < QUICK; i++)
        send(&errands, &quick[i], 1, 0);
    for (int i = 0; i < QUICK; i++)
        cr_assert_eq(run_await(&quick[i].ended, 1), 0);
    cr_assert_leq(atomic_load(&slow.steps), 2 + QUICK / 2);
    cr_assert_eq(atomic_load(&slow.ended), 0);
    loci_errands_close(&errands);
    cr_assert_eq(atomic_load(&slow.ended), 1);
}

Test(errand, is_tried_until_it_is_over)
{
    struct counted all[QUICK];
    struct loci_errands errands;

    loci_errands_open(&errands, &rt, "test");
    for (int i = 0; i < QUICK; i++)
        send(&errands, &all[i], 1 + i, 0);
    for (int i = 0; i < QUICK; i++)
        cr_assert_eq(run_await(&all[i].ended, 1), 0);
    loci_errands_close(&errands);
    for (int i = 0; i < QUICK; i++) {
        cr_assert_eq(atomic_load(&all[i].steps), 1 + i);
        cr_assert_eq(atomic_load(&all[i].ended), 1);
    }
}

/* Where nothing is over the thread does not spin. */
Test(errand, rests_between_rounds)
{
    struct loci_errands errands;
    struct counted one;

    loci_errands_open(&errands, &rt, "test");
    send(&errands, &one, 1000000, 0);
    usleep(100000);
    loci_errands_stop(&errands);
    cr_assert_lt(atomic_load(&one.steps), 1000);
    loci_errands_close(&errands);
}

Test(errand, is_not_begun_after_the_stop)
{
    struct loci_errands errands;
    struct counted before, after;

    loci_errands_open(&errands, &rt, "test");
    send(&errands, &before, 1000000, 0);
    loci_errands_stop(&errands);
    cr_assert_eq(atomic_load(&before.ended), 1);
    send(&errands, &after, 1, 0);
    cr_assert_eq(atomic_load(&after.steps), 0);
    cr_assert_eq(atomic_load(&after.ended), 1);
    loci_errands_close(&errands);
    cr_assert_eq(atomic_load(&before.ended), 1);
}
