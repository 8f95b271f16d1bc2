/* SPDX-License-Identifier: BSD-3-Clause */

/* See tx_history.h. Everything is looked up by walking along what there is: histories of the
 * simulator are short. */

#include "tx_history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY SIZE_MAX

/* ---- histories ---- */

void sim_tx_history_fini(struct sim_tx_history *h)
{
    for (size_t i = 0; i < h->ntx; i++)
        free(h->tx[i].access);
    free(h->tx);
    *h = (struct sim_tx_history){ 0 };
}

size_t sim_tx_begins(struct sim_tx_history *h, int client, bool opaque)
{
    h->tx = loci_history_grow(h->tx, &h->room, h->ntx + 1, sizeof *h->tx);
    h->tx[h->ntx] = (struct sim_tx){ .client = client, .opaque = opaque, .begin = ++h->stamp,
                                     .end = LOCI_NEVER };
    return h->ntx++;
}

static struct sim_tx_access *access_of(const struct sim_tx *tx, uint64_t object)
{
    for (size_t i = 0; i < tx->naccess; i++)
        if (tx->access[i].object == object)
            return &tx->access[i];
    return NULL;
}

void sim_tx_reads(struct sim_tx_history *h, size_t tx, uint64_t object, uint64_t version)
{
    struct sim_tx *t = &h->tx[tx];

    t->access = loci_history_grow(t->access, &t->room, t->naccess + 1, sizeof *t->access);
    t->access[t->naccess++] = (struct sim_tx_access){ object, version, 0 };
    t->last = ++h->stamp;
}

void sim_tx_writes(struct sim_tx_history *h, size_t tx, uint64_t object, uint64_t version)
{
    access_of(&h->tx[tx], object)->written = version;
}

void sim_tx_asks(struct sim_tx_history *h, size_t tx)
{
    h->tx[tx].outcome = SIM_TX_ASKED;
}

void sim_tx_ends(struct sim_tx_history *h, size_t tx, enum sim_tx_outcome outcome)
{
    struct sim_tx *t = &h->tx[tx];

    t->outcome = outcome;
    h->stamp++;
    if (outcome == SIM_TX_COMMITTED)
        t->end = h->stamp;
}

/* ---- what is checked ---- */

enum why { NOTHING, READ_FROM, REPLACED, READ_BEFORE, REAL_TIME };

struct edge {
    enum why why;
    uint64_t object;
};

struct version {
    uint64_t object, number;
    size_t writer, next;        /* transactions, or NOBODY */
};

struct checking {
    const struct sim_tx_history *h;
    FILE *out;
    bool *committed;            /* of each transaction */
    struct version *version;    /* of those committed, and what was before the first */
    size_t nversions, room;
    struct edge *edge;          /* from, to */
};

static void show(const struct checking *c, size_t i)
{
    const struct sim_tx *t = &c->h->tx[i];

    fprintf(c->out, "p%d.t%d [%" PRIu64 "..", t->client >> 16, t->client & 0xffff, t->begin);
    if (t->outcome == SIM_TX_COMMITTED)
        fprintf(c->out, "%" PRIu64 "]", t->end);
    else
        fprintf(c->out, "%s]", t->outcome == SIM_TX_FAILED ? "failed"
                               : c->committed[i] ? "not told, but seen" : "not told");
}

static size_t writer_of(const struct sim_tx_history *h, uint64_t object, uint64_t number)
{
    for (size_t i = 0; i < h->ntx; i++) {
        const struct sim_tx_access *a = access_of(&h->tx[i], object);

        if (a != NULL && a->written == number)
            return i;
    }
    return NOBODY;
}

/* Those that were not told are committed if anybody has seen a value of theirs. */
static void settle(struct checking *c)
{
    const struct sim_tx_history *h = c->h;

    for (size_t i = 0; i < h->ntx; i++)
        if (h->tx[i].outcome == SIM_TX_COMMITTED)
            c->committed[i] = true;
    for (size_t i = 0; i < h->ntx; i++)
        for (size_t k = 0; k < h->tx[i].naccess; k++) {
            const struct sim_tx_access *a = &h->tx[i].access[k];
            size_t writer = a->read == 0 ? NOBODY : writer_of(h, a->object, a->read);

            if (writer != NOBODY && h->tx[writer].outcome == SIM_TX_ASKED)
                c->committed[writer] = true;
        }
}

/* ---- versions ---- */

static struct version *find(struct checking *c, uint64_t object, uint64_t number)
{
    for (size_t i = 0; i < c->nversions; i++)
        if (c->version[i].object == object && c->version[i].number == number)
            return &c->version[i];
    return NULL;
}

static void add(struct checking *c, uint64_t object, uint64_t number, size_t writer)
{
    c->version = loci_history_grow(c->version, &c->room, c->nversions + 1, sizeof *c->version);
    c->version[c->nversions++] = (struct version){ object, number, writer, NOBODY };
}

static void add_versions(struct checking *c)
{
    for (size_t i = 0; i < c->h->ntx; i++)
        for (size_t k = 0; k < c->h->tx[i].naccess; k++) {
            const struct sim_tx_access *a = &c->h->tx[i].access[k];

            if (find(c, a->object, 0) == NULL)
                add(c, a->object, 0, NOBODY);
            if (c->committed[i] && a->written != 0)
                add(c, a->object, a->written, i);
        }
}

static bool unknown_version(struct checking *c, size_t reader, const struct sim_tx_access *a)
{
    size_t writer = writer_of(c->h, a->object, a->read);

    show(c, reader);
    fprintf(c->out, " read version %" PRIx64 " of object %" PRIx64 ", which ", a->read, a->object);
    if (writer == NOBODY) {
        fprintf(c->out, "nobody wrote");
    } else {
        show(c, writer);
        fprintf(c->out, " wrote and never committed");
    }
    return false;
}

static bool lost_update(struct checking *c, const struct version *v, size_t second)
{
    fprintf(c->out, "lost update: both ");
    show(c, v->next);
    fprintf(c->out, " and ");
    show(c, second);
    fprintf(c->out, " replaced version %" PRIx64 " of object %" PRIx64, v->number, v->object);
    return false;
}

/* Every version read is there, and each is replaced once. */
static bool chain(struct checking *c)
{
    for (size_t i = 0; i < c->h->ntx; i++)
        for (size_t k = 0; k < c->h->tx[i].naccess; k++) {
            const struct sim_tx_access *a = &c->h->tx[i].access[k];
            struct version *v = find(c, a->object, a->read);

            if (v == NULL)
                return unknown_version(c, i, a);
            if (!c->committed[i] || a->written == 0)
                continue;
            if (v->next != NOBODY)
                return lost_update(c, v, i);
            v->next = i;
        }
    return true;
}

/* ---- the graph ---- */

static struct edge *edge(const struct checking *c, size_t from, size_t to)
{
    return &c->edge[from * c->h->ntx + to];
}

static void connect(struct checking *c, size_t from, size_t to, enum why why, uint64_t object)
{
    if (from != NOBODY && to != NOBODY && from != to && edge(c, from, to)->why == NOTHING)
        *edge(c, from, to) = (struct edge){ why, object };
}

static bool counts(const struct checking *c, size_t i)
{
    return c->committed[i] || (c->h->tx[i].opaque && c->h->tx[i].naccess > 0);
}

static uint64_t end_of(const struct checking *c, size_t i)
{
    return c->committed[i] ? c->h->tx[i].end : c->h->tx[i].last;
}

static void connect_all(struct checking *c)
{
    for (size_t i = 0; i < c->h->ntx; i++) {
        const struct sim_tx *t = &c->h->tx[i];

        for (size_t k = 0; counts(c, i) && k < t->naccess; k++) {
            const struct version *v = find(c, t->access[k].object, t->access[k].read);
            bool writes = c->committed[i] && t->access[k].written != 0;

            connect(c, v->writer, i, writes ? REPLACED : READ_FROM, v->object);
            if (!writes)
                connect(c, i, v->next, READ_BEFORE, v->object);
        }
    }
    for (size_t i = 0; i < c->h->ntx; i++)
        for (size_t k = 0; counts(c, i) && k < c->h->ntx; k++)
            if (counts(c, k) && end_of(c, i) < c->h->tx[k].begin)
                connect(c, i, k, REAL_TIME, 0);
}

/* The shortest way from `start` back to it: its length, and whence each was reached. 0: none. */
static size_t way_back(const struct checking *c, size_t start, size_t *whence, size_t *queue)
{
    size_t n = c->h->ntx, head = 0, tail = 0, *far = queue + n;

    for (size_t i = 0; i < n; i++)
        whence[i] = NOBODY;
    queue[tail++] = start;
    far[start] = 0;
    while (head < tail) {
        size_t i = queue[head++];

        for (size_t k = 0; k < n; k++) {
            if (edge(c, i, k)->why == NOTHING || whence[k] != NOBODY)
                continue;
            whence[k] = i;
            if (k == start)
                return far[i] + 1;
            far[k] = far[i] + 1;
            queue[tail++] = k;
        }
    }
    return 0;
}

static void show_cycle(const struct checking *c, size_t start, const size_t *whence)
{
    static const char *const text[] = {
        [READ_FROM] = "wrote what was read by", [REPLACED] = "wrote what was replaced by",
        [READ_BEFORE] = "read what was replaced by", [REAL_TIME] = "ended before the begin of",
    };
    size_t to = start;

    /* Backwards, as the way is kept. */
    fprintf(c->out, "not strictly serializable: ");
    do {
        const struct edge *e = edge(c, whence[to], to);

        fprintf(c->out, "%s", to == start ? "" : "; ");
        show(c, whence[to]);
        fprintf(c->out, " %s ", text[e->why]);
        show(c, to);
        if (e->why != REAL_TIME)
            fprintf(c->out, " (object %" PRIx64 ")", e->object);
        to = whence[to];
    } while (to != start);
}

/* Taking away what nothing leads to, again and again, leaves nothing. */
static bool has_cycle(const struct checking *c, size_t *before, size_t *queue)
{
    size_t n = c->h->ntx, head = 0, tail = 0;

    for (size_t k = 0; k < n; k++) {
        before[k] = 0;
        for (size_t i = 0; i < n; i++)
            before[k] += edge(c, i, k)->why != NOTHING;
        if (before[k] == 0)
            queue[tail++] = k;
    }
    while (head < tail) {
        size_t i = queue[head++];

        for (size_t k = 0; k < n; k++)
            if (edge(c, i, k)->why != NOTHING && --before[k] == 0)
                queue[tail++] = k;
    }
    return tail < n;
}

static bool acyclic(const struct checking *c)
{
    size_t n = c->h->ntx, best = 0, least = SIZE_MAX;
    size_t *whence = malloc(n * sizeof *whence), *queue = malloc(2 * n * sizeof *queue);
    bool cycle;

    if (whence == NULL || queue == NULL)
        abort();
    cycle = has_cycle(c, whence, queue);
    for (size_t i = 0; cycle && i < n; i++) {
        size_t length = way_back(c, i, whence, queue);

        if (length > 0 && length < least) {
            least = length;
            best = i;
        }
    }
    if (cycle) {
        way_back(c, best, whence, queue);
        show_cycle(c, best, whence);
    }
    free(whence);
    free(queue);
    return !cycle;
}

bool sim_tx_check(const struct sim_tx_history *h, char *text, size_t size)
{
    size_t n = h->ntx;
    struct checking c = { .h = h, .out = fmemopen(text, size - 1, "w") };
    bool right;

    memset(text, 0, size);
    if (n == 0 || c.out == NULL) {
        if (c.out != NULL)
            fclose(c.out);
        return n == 0;
    }
    c.committed = calloc(n, sizeof *c.committed);
    c.edge = calloc(n * n, sizeof *c.edge);
    if (c.committed == NULL || c.edge == NULL)
        abort();
    settle(&c);
    add_versions(&c);
    right = chain(&c);
    if (right) {
        connect_all(&c);
        right = acyclic(&c);
    }
    free(c.committed);
    free(c.edge);
    free(c.version);
    fclose(c.out);
    return right;
}
