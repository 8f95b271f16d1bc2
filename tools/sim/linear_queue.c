/* SPDX-License-Identifier: BSD-3-Clause */

/* Linearizability of a first-in-first-out queue whose values are all different, in n log n.
 *
 * General search fails here: a wrong guess in which order two pushes took effect shows when the
 * values are popped, and by then the order of everything in between was guessed too. But with
 * different values it is known which push each pop answers, and then a history without operations
 * under way is linearizable unless (Henzinger, Sezgin & Vafeiadis, "Aspect-oriented linearizability
 * proofs", CONCUR 2013; Bouajjani, Emmi, Enea & Hamza, "On reducing linearizability to state
 * reachability", ICALP 2015):
 *  1. a value is popped that was not pushed, or before it was pushed, or twice;
 *  2. a was pushed before b, but b was popped before a was, or b was and a never;
 *  3. at every instant of a pop that found nothing there was a value that had certainly been pushed
 *     and certainly not been popped ("before": returned before the other was called).
 *
 * Operations that did not return. A push whose value was popped was done by the time that pop
 * returned; another one, as it never returns, is before nothing and might as well not have been.
 * Pops may have removed any value: the more and the earlier the better, as that can only take from
 * the cases of 2 and 3. If one of two values is removed it had better be that whose push returned
 * first, as otherwise the other is in the queue for all the time that either would be; and of two
 * that are removed, that whose push returned first had better be removed by the pop that was called
 * first, for the same reason. So the values that nobody was given, in the order of their pushes'
 * returns, go to the pops without an answer, in the order of their calls. */

#include <stdlib.h>
#include <string.h>

#include "linear_impl.h"

#define NO_OP SIZE_MAX

struct value {
    uint64_t value;
    size_t push, pop;           /* operations; pop may be NO_OP */
    uint64_t push_call, push_ret;
    uint64_t pop_call, pop_ret; /* LOCI_NEVER */
};

struct queue {
    const struct loci_op *ops;
    size_t nops;
    struct value *values;
    size_t nvalues;
    struct value *by_ret;       /* copy, by push_ret */
};

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_value(const void *a, const void *b)
{
    return compare(((const struct value *)a)->value, ((const struct value *)b)->value);
}

static int by_push_call(const void *a, const void *b)
{
    return compare(((const struct value *)a)->push_call, ((const struct value *)b)->push_call);
}

static int by_push_ret(const void *a, const void *b)
{
    return compare(((const struct value *)a)->push_ret, ((const struct value *)b)->push_ret);
}

static int verdict_on(struct loci_witness *w, const char *why, const struct value *a,
                      const struct value *b)
{
    loci_contradiction(w, why);
    for (int i = 0; i < 2; i++) {
        const struct value *v = i == 0 ? a : b;

        loci_witness_add(w, v->push);
        if (v->pop != NO_OP)
            loci_witness_add(w, v->pop);
    }
    return LINEAR_NOT;
}

/* False: two are the same. */
static bool list_pushes(struct queue *q)
{
    for (size_t i = 0; i < q->nops; i++) {
        const struct loci_op *op = &q->ops[i];

        if (op->op == LINEAR_PUSH && (!loci_op_returned(op) || op->status))
            q->values[q->nvalues++] = (struct value){
                .value = op->arg, .push = i, .pop = NO_OP, .push_call = op->call,
                .push_ret = op->ret, .pop_call = LOCI_NEVER, .pop_ret = LOCI_NEVER,
            };
    }
    qsort(q->values, q->nvalues, sizeof *q->values, by_value);
    for (size_t i = 1; i < q->nvalues; i++)
        if (q->values[i].value == q->values[i - 1].value)
            return false;
    return true;
}

/* Case 1. */
static int match_pop(struct queue *q, size_t pop, struct loci_witness *w)
{
    const struct loci_op *op = &q->ops[pop];
    struct value key = { .value = op->result };
    struct value *v = bsearch(&key, q->values, q->nvalues, sizeof *v, by_value);

    if (v == NULL || op->ret < v->push_call) {
        loci_contradiction(w, "popped what had not been pushed");
        loci_witness_add(w, pop);
        return LINEAR_NOT;
    }
    if (v->pop != NO_OP) {
        verdict_on(w, "popped twice", v, v);
        loci_witness_add(w, pop);
        return LINEAR_NOT;
    }
    v->pop = pop;
    v->pop_call = op->call;
    v->pop_ret = op->ret;
    if (op->ret < v->push_ret)
        v->push_ret = op->ret;
    return LINEAR_OK;
}

static int match_pops(struct queue *q, struct loci_witness *w)
{
    for (size_t i = 0; i < q->nops; i++)
        if (q->ops[i].op == LINEAR_POP && loci_op_returned(&q->ops[i]) && q->ops[i].status
            && match_pop(q, i, w) == LINEAR_NOT)
            return LINEAR_NOT;
    return LINEAR_OK;
}

static void give_to_unanswered(struct queue *q)
{
    size_t at = 0;

    qsort(q->values, q->nvalues, sizeof *q->values, by_push_ret);
    for (size_t i = 0; i < q->nops; i++) {
        if (q->ops[i].op != LINEAR_POP || loci_op_returned(&q->ops[i]))
            continue;
        while (at < q->nvalues && q->values[at].pop != NO_OP)
            at++;
        if (at == q->nvalues)
            return;
        q->values[at].pop = i;
        q->values[at].pop_call = q->ops[i].call;
    }
}

/* Case 2: for each b, the a that was popped last of those pushed before it. */
static int check_order(struct queue *q, struct loci_witness *w)
{
    const struct value *last = NULL;
    size_t at = 0;

    memcpy(q->by_ret, q->values, q->nvalues * sizeof *q->values);
    qsort(q->values, q->nvalues, sizeof *q->values, by_push_call);
    for (size_t i = 0; i < q->nvalues; i++) {
        const struct value *b = &q->values[i];

        for (; at < q->nvalues && q->by_ret[at].push_ret < b->push_call; at++)
            if (last == NULL || q->by_ret[at].pop_call > last->pop_call)
                last = &q->by_ret[at];
        if (last != NULL && b->pop_ret < last->pop_call)
            return verdict_on(w, "popped out of order", last, b);
    }
    return LINEAR_OK;
}

/* Values that one after the other were there while `op` was under way. */
static int tell_full(const struct queue *q, size_t op, struct loci_witness *w)
{
    uint64_t now = q->ops[op].call;

    loci_contradiction(w, "found nothing, though there always was something");
    loci_witness_add(w, op);
    while (now < q->ops[op].ret) {
        const struct value *longest = NULL;

        for (size_t i = 0; i < q->nvalues && q->by_ret[i].push_ret < now; i++)
            if (longest == NULL || q->by_ret[i].pop_call > longest->pop_call)
                longest = &q->by_ret[i];
        if (longest == NULL || longest->pop_call <= now)
            break;
        loci_witness_add(w, longest->push);
        if (longest->pop != NO_OP)
            loci_witness_add(w, longest->pop);
        now = longest->pop_call;
    }
    return LINEAR_NOT;
}

/* Case 3. `until` is when the last of the values is popped that were pushed before the pop's call;
 * `end`, how far those lead that were pushed before the one before them was popped. */
static int check_empty(const struct queue *q, struct loci_witness *w)
{
    uint64_t until = 0;
    size_t at = 0;

    for (size_t i = 0; i < q->nops; i++) {
        const struct loci_op *op = &q->ops[i];
        uint64_t end;

        if (op->op != LINEAR_POP || !loci_op_returned(op) || op->status)
            continue;
        for (; at < q->nvalues && q->by_ret[at].push_ret < op->call; at++)
            if (q->by_ret[at].pop_call > until)
                until = q->by_ret[at].pop_call;
        end = until;
        for (size_t j = at; end > op->call && end < op->ret && j < q->nvalues
                            && q->by_ret[j].push_ret < end; j++)
            if (q->by_ret[j].pop_call > end)
                end = q->by_ret[j].pop_call;
        if (end > op->ret)
            return tell_full(q, i, w);
    }
    return LINEAR_OK;
}

static int judge(struct queue *q, struct loci_witness *w)
{
    if (!list_pushes(q))
        return LINEAR_GAVE_UP;
    if (match_pops(q, w) == LINEAR_NOT)
        return LINEAR_NOT;
    give_to_unanswered(q);
    if (check_order(q, w) == LINEAR_NOT)
        return LINEAR_NOT;
    return check_empty(q, w);
}

int loci_linear_queue(const struct loci_op *ops, size_t nops, struct loci_witness *w)
{
    struct queue q = { .ops = ops, .nops = nops };
    int verdict;

    q.values = loci_linear_alloc(nops, sizeof *q.values);
    q.by_ret = loci_linear_alloc(nops, sizeof *q.by_ret);
    verdict = judge(&q, w);
    free(q.values);
    free(q.by_ret);
    return verdict;
}
