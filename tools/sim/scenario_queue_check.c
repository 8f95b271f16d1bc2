/* SPDX-License-Identifier: BSD-3-Clause */

/* What a queue's history must be beyond that of a FIFO without a limit: bounded, closed when it is
 * said to be, and complete. */

#include "config.h"

#include "scenario_queue.h"

static bool took_effect(const struct loci_op *op)
{
    return loci_op_returned(op) && op->status;
}

/* ---- what may be lost ---- */

/* Entries in the memory of the dead, and those that its threads were taking. */
static uint64_t losses(const struct sim_run *run, const struct queue_state *s)
{
    uint64_t n = (uint64_t)run->processes;

    return (s->capacity + n - 1 - (uint64_t)s->dead) / n + (uint64_t)run->threads;
}

bool queue_may_fail(const struct sim_run *run, const struct queue_state *s)
{
    /* Each of the living may be so late that its place is given up for a while. */
    uint64_t late = (uint64_t)(run->processes * run->threads);

    return s->dead == 0 || (s->dead > 0 && (run->processes <= 2
                                            || losses(run, s) + late >= s->capacity));
}

static bool was_popped(const struct loci_history *h, uint64_t value)
{
    for (size_t i = 0; i < h->nops; i++)
        if (h->ops[i].op == LINEAR_POP && took_effect(&h->ops[i]) && h->ops[i].result == value)
            return true;
    return false;
}

/* What was pushed and never popped: nothing, unless a process has stopped; then the history is to
 * be judged as if such a push had never returned. */
static int check_losses(const struct sim_run *run, struct queue_state *s)
{
    uint64_t lost = 0;

    for (size_t i = 0; i < s->history.nops; i++) {
        struct loci_op *op = &s->history.ops[i];

        if (op->op != LINEAR_PUSH || !took_effect(op) || was_popped(&s->history, op->arg))
            continue;
        WANT(s->dead >= 0, "%llu was pushed and never popped", (unsigned long long)op->arg);
        op->ret = LOCI_NEVER;
        lost++;
    }
    WANT(s->dead <= 0 || queue_may_fail(run, s) || lost <= losses(run, s),
         "%llu entries are lost with p%d, which can have had %llu", (unsigned long long)lost,
         s->dead, (unsigned long long)losses(run, s));
    return 0;
}

/* ---- bounds ---- */

/* Entries in the queue at a stamp: at the least, or at the most. */
static int64_t inside(const struct loci_history *h, uint64_t at, bool most)
{
    int64_t n = 0;

    for (size_t i = 0; i < h->nops; i++) {
        const struct loci_op *op = &h->ops[i];

        if (loci_op_returned(op) && !op->status)
            continue;
        if (op->op == LINEAR_PUSH)
            n += (most ? op->call : op->ret) < at;
        else
            n -= (most ? op->ret : op->call) < at;
    }
    return n;
}

static bool may_have_been_full(const struct queue_state *s, const struct loci_op *op)
{
    for (uint64_t at = op->call; at <= op->ret; at++)
        if (inside(&s->history, at, true) >= (int64_t)s->capacity)
            return true;
    return false;
}

static int check_bounds(const struct queue_state *s)
{
    const struct loci_history *h = &s->history;

    for (uint64_t at = 1; at <= h->stamp; at++)
        WANT(inside(h, at, false) <= (int64_t)s->capacity,
             "%lld entries in a queue with %llu places at %llu",
             (long long)inside(h, at, false), (unsigned long long)s->capacity,
             (unsigned long long)at);
    for (size_t i = 0; i < h->nops && s->dead < 0; i++)
        WANT(h->ops[i].op != LINEAR_PUSH || h->ops[i].arg2 != QUEUE_REFUSED
                 || may_have_been_full(s, &h->ops[i]),
             "a push at %llu is told that the queue is full, which it never was",
             (unsigned long long)h->ops[i].call);
    return 0;
}

/* ---- closing ---- */

static int check_closing(const struct queue_state *s)
{
    const struct loci_history *h = &s->history;

    for (size_t i = 0; i < h->nops; i++) {
        const struct loci_op *op = &h->ops[i];

        WANT(op->arg2 != QUEUE_CLOSED || (s->close_called != 0 && op->ret > s->close_called),
             "a call at %llu is told that the queue is closed, before it is",
             (unsigned long long)op->call);
        WANT(op->op != LINEAR_PUSH || !took_effect(op) || s->close_returned == 0
                 || op->call < s->close_returned,
             "%llu is pushed into a closed queue", (unsigned long long)op->arg);
    }
    return 0;
}

int queue_check(const struct sim_run *run, struct queue_state *s)
{
    int result = check_closing(s);

    if (result == 0)
        result = check_bounds(s);
    if (result == 0)
        result = check_losses(run, s);
    return result != 0 ? result : sim_check_history(&s->history, LINEAR_QUEUE);
}
