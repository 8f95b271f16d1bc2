/* SPDX-License-Identifier: BSD-3-Clause */

/* Cuts a history into its objects, and, where one is not linearizable, into prefixes: what is wrong
 * stays wrong whatever follows, so the shortest prefix that is wrong is found by bisection. */

#include "linear.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "linear_impl.h"

#define BUDGET_DEFAULT 4000000
#define SHOWN 12                /* operations before the end of what is wrong */

struct checker {
    const struct loci_history *history;
    const struct loci_linear_spec *spec;
    int (*special)(const struct loci_op *ops, size_t nops, struct loci_witness *w);  /* or NULL */
    uint64_t budget, left;
    bool gave_up;               /* on some object */
    size_t *order;              /* operations by key, then as they were called */
    struct loci_op *cut;        /* one object's, up to a stamp */
    size_t ncut;
};

void *loci_linear_alloc(size_t n, size_t size)
{
    void *memory = calloc(n + 1, size);

    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu items of %zu bytes\n", n, size);
        abort();
    }
    return memory;
}

/* qsort has no context, so it sorts these. */
struct keyed {
    uint64_t key;
    size_t op;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void sort_by_key(struct checker *c)
{
    size_t n = c->history->nops;
    struct keyed *keyed = loci_linear_alloc(n, sizeof *keyed);

    for (size_t i = 0; i < n; i++)
        keyed[i] = (struct keyed){ c->history->ops[i].key, i };
    qsort(keyed, n, sizeof *keyed, by_key);
    for (size_t i = 0; i < n; i++)
        c->order[i] = keyed[i].op;
    free(keyed);
}

/* What was known at that stamp of operations part[0..n). */
static void cut_at(struct checker *c, const size_t *part, size_t n, uint64_t stamp)
{
    c->ncut = 0;
    for (size_t i = 0; i < n && c->history->ops[part[i]].call <= stamp; i++) {
        struct loci_op *op = &c->cut[c->ncut++];

        *op = c->history->ops[part[i]];
        if (op->ret > stamp) {
            op->ret = LOCI_NEVER;
            op->status = 0;
            op->result = 0;
        }
    }
}

static int judge_at(struct checker *c, const size_t *part, size_t n, uint64_t stamp,
                    struct loci_witness *w)
{
    int verdict = LINEAR_GAVE_UP;

    *w = (struct loci_witness){ .why = "" };
    cut_at(c, part, n, stamp);
    if (c->special != NULL)
        verdict = c->special(c->cut, c->ncut, w);
    if (verdict == LINEAR_GAVE_UP)
        verdict = loci_linear_search(c->spec, c->cut, c->ncut, &c->left, w);
    return verdict;
}

static void fill(const struct checker *c, const size_t *part, uint64_t stamp, bool smallest,
                 const struct loci_witness *w, struct loci_linear_report *report)
{
    report->verdict = LINEAR_NOT;
    report->key = c->history->ops[part[0]].key;
    report->stamp = stamp;
    report->smallest = smallest;
    report->why = w->why;
    report->nops = w->nops;
    for (int i = 0; i < w->nops; i++)
        report->ops[i] = (int)part[w->ops[i]];
}

/* `high` is wrong, as `w` says. It is not known of `low`, but of all before that they are right;
 * mostly `low` is what is looked for. */
static void find_smallest(struct checker *c, const size_t *part, size_t n, uint64_t high,
                          struct loci_witness *w, struct loci_linear_report *report)
{
    uint64_t low = w->floor > 0 ? w->floor : 1;
    uint64_t middle = w->floor > 0 ? low : low + (high - low) / 2;
    bool smallest = true;

    while (low < high) {
        struct loci_witness other;
        int verdict = judge_at(c, part, n, middle, &other);

        if (verdict == LINEAR_NOT) {
            high = middle;
            *w = other;
        } else {
            low = middle + 1;
            smallest = smallest && verdict == LINEAR_OK;
        }
        middle = low + (high - low) / 2;
    }
    fill(c, part, high, smallest, w, report);
}

static void check_object(struct checker *c, const size_t *part, size_t n,
                         struct loci_linear_report *report)
{
    uint64_t end = report->verdict == LINEAR_NOT ? report->stamp - 1 : c->history->stamp;
    struct loci_witness w;

    switch (judge_at(c, part, n, end, &w)) {
    case LINEAR_NOT: find_smallest(c, part, n, end, &w, report); break;
    case LINEAR_GAVE_UP:
        if (report->verdict == LINEAR_OK) {
            report->verdict = LINEAR_GAVE_UP;
            report->key = c->history->ops[part[0]].key;
        }
        c->gave_up = true;
        break;
    default: break;
    }
}

static int check(struct checker *c, struct loci_linear_report *report)
{
    const struct loci_op *ops = c->history->ops;
    size_t nops = c->history->nops, end;

    *report = (struct loci_linear_report){ .verdict = LINEAR_OK, .why = "" };
    c->left = c->budget;
    c->order = loci_linear_alloc(nops, sizeof *c->order);
    c->cut = loci_linear_alloc(nops, sizeof *c->cut);
    sort_by_key(c);
    for (size_t i = 0; i < nops; i = end) {
        for (end = i + 1; end < nops && ops[c->order[end]].key == ops[c->order[i]].key; end++)
            ;
        check_object(c, c->order + i, end - i, report);
    }
    report->smallest = report->smallest && !c->gave_up;
    report->states = c->budget - c->left;
    free(c->order);
    free(c->cut);
    return report->verdict;
}

int loci_linear_check(const struct loci_history *history, enum loci_linear_kind kind,
                      struct loci_linear_report *report)
{
    struct checker c = {
        .history = history,
        .spec = loci_linear_spec(kind),
        .special = kind == LINEAR_QUEUE ? loci_linear_queue
                   : kind == LINEAR_REGISTER ? loci_linear_register : NULL,
        .budget = BUDGET_DEFAULT,
    };

    return check(&c, report);
}

int loci_linear_check_spec(const struct loci_history *history, const struct loci_linear_spec *spec,
                           uint64_t budget, struct loci_linear_report *report)
{
    struct checker c = {
        .history = history,
        .spec = spec,
        .budget = budget > 0 ? budget : BUDGET_DEFAULT,
    };

    return check(&c, report);
}

/* ---- shown ---- */

static void print_op(FILE *out, const struct loci_history *history, size_t op, uint64_t until)
{
    char line[256];

    loci_op_print(line, sizeof line, &history->ops[op], history->forms, until);
    fprintf(out, "    %s\n", line);
}

/* The latest operations on the object that were called before the end, as context. */
static void print_latest(FILE *out, const struct loci_history *history,
                         const struct loci_linear_report *report)
{
    size_t latest[SHOWN], n = 0;

    for (size_t i = history->nops; i-- > 0 && n < SHOWN; )
        if (history->ops[i].key == report->key && history->ops[i].call <= report->stamp)
            latest[n++] = i;
    while (n-- > 0)
        print_op(out, history, latest[n], report->stamp);
}

void loci_linear_print(FILE *out, const struct loci_history *history,
                       const struct loci_linear_report *report)
{
    if (report->verdict == LINEAR_OK)
        return;
    if (report->verdict == LINEAR_GAVE_UP) {
        fprintf(out, "gave up on object %" PRIu64 " after %" PRIu64 " states\n", report->key,
                report->states);
        return;
    }
    fprintf(out, "not linearizable at stamp %" PRIu64 "%s, object %" PRIu64 ": %s\n",
            report->stamp, report->smallest ? "" : " or before", report->key, report->why);
    for (int i = 0; i < report->nops; i++)
        print_op(out, history, (size_t)report->ops[i], report->stamp);
    fprintf(out, "  the latest of that object until then:\n");
    print_latest(out, history, report);
}
