/* SPDX-License-Identifier: BSD-3-Clause */

/* Linearizability of a register to which no value is ever written twice, in n log n.
 *
 * Gibbons & Korach ("Testing shared memories", SIAM J. Computing 26, 1997): each read says whose
 * write it saw, so a write and its reads are a cluster, in which time passes without another
 * write. Let f be the first return in it and s the last call. If f < s, the register must have had
 * the value from f to s; if not, all of it fits in any instant from s to f. So the history is
 * linearizable if and only if no read returned before its write was called, no two clusters of the
 * first sort overlap, and none of the second lies within one of the first.
 *
 * An operation that changes the register and returns the old value ties two clusters to each other:
 * the one it begins follows that which it read. Such a chain is judged as one cluster, in which
 * the order must be possible too.
 *
 * A write that did not return counts if its value was seen. General search needs no such condition,
 * but has many orders of concurrent writes to try. */

#include <stdlib.h>
#include <string.h>

#include "linear_impl.h"

#define NONE SIZE_MAX

/* A value, from its write to the next. */
struct cluster {
    uint64_t value;
    size_t writer;              /* NONE: the register's creation */
    size_t next;                /* cluster that must follow, or NONE */
    bool placed;                /* in a chain */
};

struct sight {
    size_t cluster, op;
};

/* f and s of the text above, and the operations they are of; NONE: the creation. */
struct chain {
    uint64_t first_ret, last_call;
    size_t first, last;
};

struct reg {
    const struct loci_op *ops;
    size_t nops;
    bool *counts;               /* by operation: it took effect, or is taken not to have */
    size_t *todo;               /* operations that count, in the order that this was found */
    size_t ntodo;
    struct cluster *clusters;   /* by value */
    size_t nclusters;
    struct sight *sights;       /* by cluster: of operations that read and do not write */
    size_t nsights;
    struct chain *chains;
    size_t nchains;
};

/* Does the operation write, and what? For one that did not return: if it was done. */
static bool writes(const struct loci_op *op, uint64_t *value)
{
    bool returned = loci_op_returned(op);

    switch (op->op) {
    case LINEAR_WRITE: *value = op->arg; return true;
    case LINEAR_EXCHANGE: *value = op->arg; return !returned || op->result != op->arg;
    case LINEAR_FETCH_ADD: *value = op->result + op->arg; return op->arg != 0;
    case LINEAR_CAS:
        *value = op->arg2;
        return op->arg != op->arg2 && (!returned || op->result == op->arg);
    default: return false;
    }
}

/* And what must it have found? */
static bool sees(const struct loci_op *op, uint64_t *value)
{
    *value = op->result;
    if (loci_op_returned(op))
        return op->op != LINEAR_WRITE;
    *value = op->arg;           /* if it was done */
    return op->op == LINEAR_CAS;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_value(const void *a, const void *b)
{
    return compare(((const struct cluster *)a)->value, ((const struct cluster *)b)->value);
}

static int by_cluster(const void *a, const void *b)
{
    return compare(((const struct sight *)a)->cluster, ((const struct sight *)b)->cluster);
}

static int by_first_ret(const void *a, const void *b)
{
    return compare(((const struct chain *)a)->first_ret, ((const struct chain *)b)->first_ret);
}

static struct cluster *find(const struct reg *r, uint64_t value)
{
    struct cluster key = { .value = value };

    return bsearch(&key, r->clusters, r->nclusters, sizeof key, by_value);
}

/* False: not for this method. */
static bool list_clusters(struct reg *r)
{
    r->clusters[r->nclusters++] = (struct cluster){ .value = 0, .writer = NONE, .next = NONE };
    for (size_t i = 0; i < r->nops; i++) {
        uint64_t value;

        if (!writes(&r->ops[i], &value))
            continue;
        if (r->ops[i].op == LINEAR_FETCH_ADD && !loci_op_returned(&r->ops[i]))
            return false;       /* who knows what it wrote */
        r->clusters[r->nclusters++] =
            (struct cluster){ .value = value, .writer = i, .next = NONE };
    }
    qsort(r->clusters, r->nclusters, sizeof *r->clusters, by_value);
    for (size_t i = 1; i < r->nclusters; i++)
        if (r->clusters[i].value == r->clusters[i - 1].value)
            return false;
    return true;
}

static void count(struct reg *r, size_t op)
{
    if (op == NONE || r->counts[op])
        return;
    r->counts[op] = true;
    r->todo[r->ntodo++] = op;
}

/* The operation found a value: so that was written, and here comes a reader or the next writer. */
static int place_sight(struct reg *r, size_t op, uint64_t found, struct loci_witness *w)
{
    struct cluster *c = find(r, found);
    uint64_t written;

    if (c == NULL) {
        loci_contradiction(w, "found a value that had not been written");
        loci_witness_add(w, op);
        return LINEAR_NOT;
    }
    count(r, c->writer);
    if (!writes(&r->ops[op], &written)) {
        r->sights[r->nsights++] = (struct sight){ (size_t)(c - r->clusters), op };
        return LINEAR_OK;
    }
    if (c->next != NONE) {
        loci_contradiction(w, "replaced the same value twice");
        loci_witness_add(w, r->clusters[c->next].writer);
        loci_witness_add(w, op);
        return LINEAR_NOT;
    }
    c->next = (size_t)(find(r, written) - r->clusters);
    return LINEAR_OK;
}

static int place_sights(struct reg *r, struct loci_witness *w)
{
    for (size_t i = 0; i < r->nops; i++)
        if (loci_op_returned(&r->ops[i]))
            count(r, i);
    for (size_t i = 0; i < r->ntodo; i++) {
        size_t op = r->todo[i];
        uint64_t found;

        if (sees(&r->ops[op], &found) && place_sight(r, op, found, w) == LINEAR_NOT)
            return LINEAR_NOT;
    }
    qsort(r->sights, r->nsights, sizeof *r->sights, by_cluster);
    return LINEAR_OK;
}

/* ---- chains ---- */

/* `op` comes after all that called up to `latest`, the last of them. */
static int follow(const struct reg *r, struct chain *chain, size_t op, size_t latest,
                  struct loci_witness *w)
{
    const struct loci_op *o = &r->ops[op];

    if (latest != NONE && o->ret < r->ops[latest].call) {
        loci_contradiction(w, "found or replaced a value before it was written");
        loci_witness_add(w, op);
        loci_witness_add(w, latest);
        return LINEAR_NOT;
    }
    if (o->ret < chain->first_ret) {
        chain->first_ret = o->ret;
        chain->first = op;
    }
    if (o->call > chain->last_call) {
        chain->last_call = o->call;
        chain->last = op;
    }
    return LINEAR_OK;
}

static int follow_readers(const struct reg *r, struct chain *chain, size_t cluster,
                          struct loci_witness *w)
{
    struct sight key = { .cluster = cluster };
    const struct sight *at = bsearch(&key, r->sights, r->nsights, sizeof key, by_cluster);
    size_t latest = chain->last;

    if (at == NULL)
        return LINEAR_OK;
    while (at > r->sights && at[-1].cluster == cluster)
        at--;
    for (; at < r->sights + r->nsights && at->cluster == cluster; at++)
        if (follow(r, chain, at->op, latest, w) == LINEAR_NOT)
            return LINEAR_NOT;
    return LINEAR_OK;
}

/* The chain that begins with cluster i. */
static int make_chain(struct reg *r, size_t i, struct loci_witness *w)
{
    struct chain chain = { .first_ret = LOCI_NEVER, .first = NONE, .last = NONE };

    if (r->clusters[i].writer == NONE)
        chain.first_ret = 0;
    for (; i != NONE; i = r->clusters[i].next) {
        struct cluster *c = &r->clusters[i];

        c->placed = true;
        if (c->writer != NONE && follow(r, &chain, c->writer, chain.last, w) == LINEAR_NOT)
            return LINEAR_NOT;
        if (follow_readers(r, &chain, i, w) == LINEAR_NOT)
            return LINEAR_NOT;
    }
    r->chains[r->nchains++] = chain;
    return LINEAR_OK;
}

static int make_chains(struct reg *r, struct loci_witness *w)
{
    uint64_t found;

    for (size_t i = 0; i < r->nclusters; i++) {
        size_t writer = r->clusters[i].writer;

        if (writer != NONE && (!r->counts[writer] || sees(&r->ops[writer], &found)))
            continue;
        if (make_chain(r, i, w) == LINEAR_NOT)
            return LINEAR_NOT;
    }
    for (size_t i = 0; i < r->nclusters; i++) {
        if (r->clusters[i].placed || !r->counts[r->clusters[i].writer])
            continue;
        loci_contradiction(w, "found a value that is written only after what it writes itself");
        loci_witness_add(w, r->clusters[i].writer);
        return LINEAR_NOT;
    }
    return LINEAR_OK;
}

/* ---- in time ---- */

static bool lasts(const struct chain *chain)
{
    return chain->first_ret < chain->last_call;
}

static int overlap(const struct chain *a, const struct chain *b, struct loci_witness *w)
{
    const size_t ops[] = { a->first, a->last, b->first, b->last };

    loci_contradiction(w, "found a value before and after another one was there");
    for (size_t i = 0; i < 4; i++)
        if (ops[i] != NONE)
            loci_witness_add(w, ops[i]);
    return LINEAR_NOT;
}

/* Of the chains that last, in the order of time, the last that began before `stamp`. */
static const struct chain *before(const struct chain *chains, size_t n, uint64_t stamp)
{
    size_t low = 0;

    while (n > 0) {
        size_t half = n / 2;

        if (chains[low + half].first_ret < stamp) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low > 0 ? &chains[low - 1] : NULL;
}

static int check_chains(struct reg *r, struct loci_witness *w)
{
    struct chain *chains = r->chains;
    size_t n = 0;

    qsort(chains, r->nchains, sizeof *chains, by_first_ret);
    for (size_t i = 0; i < r->nchains; i++) {   /* those that last to the front */
        struct chain chain = chains[i];

        if (!lasts(&chain))
            continue;
        if (n > 0 && chain.first_ret < chains[n - 1].last_call)
            return overlap(&chains[n - 1], &chain, w);
        chains[i] = chains[n];
        chains[n++] = chain;
    }
    for (size_t i = n; i < r->nchains; i++) {
        const struct chain *around = before(chains, n, chains[i].last_call);

        if (around != NULL && chains[i].first_ret < around->last_call)
            return overlap(around, &chains[i], w);
    }
    return LINEAR_OK;
}

static int judge(struct reg *r, struct loci_witness *w)
{
    if (!list_clusters(r))
        return LINEAR_GAVE_UP;
    if (place_sights(r, w) == LINEAR_NOT || make_chains(r, w) == LINEAR_NOT)
        return LINEAR_NOT;
    return check_chains(r, w);
}

int loci_linear_register(const struct loci_op *ops, size_t nops, struct loci_witness *w)
{
    struct reg r = { .ops = ops, .nops = nops };
    int verdict;

    r.counts = loci_linear_alloc(nops, sizeof *r.counts);
    r.todo = loci_linear_alloc(nops, sizeof *r.todo);
    r.clusters = loci_linear_alloc(nops + 1, sizeof *r.clusters);
    r.sights = loci_linear_alloc(nops, sizeof *r.sights);
    r.chains = loci_linear_alloc(nops + 1, sizeof *r.chains);
    verdict = judge(&r, w);
    free(r.counts);
    free(r.todo);
    free(r.clusters);
    free(r.sights);
    free(r.chains);
    return verdict;
}
