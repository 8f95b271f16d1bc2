/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of Graph500's specification (its section on validation), from the parents and the list
 * of edges alone: what the search believed is not asked.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct tree {
    const struct graph *g;
    int64_t root;
    int64_t *parent;        /* of all vertices */
    int64_t *level;         /* -1: not reached */
    unsigned char *joined;  /* an edge goes from it to its parent */
};

static void gather(const struct graph *g, const int64_t *parent, int64_t *all)
{
    int size = ex_size();
    int *count = calloc((size_t)(2 * size), sizeof(*count)), *at = count + size;
    int64_t *by_rank = malloc((size_t)g->vertices * sizeof(*by_rank));

    if (count == NULL || by_rank == NULL)
        ex_abort("no memory to check %lld vertices", (long long)g->vertices);
    for (int r = 0; r < size; r++) {
        count[r] = (int)graph_part(g, r);
        at[r] = r == 0 ? 0 : at[r - 1] + count[r - 1];
    }
    ex_check(MPI_Allgatherv(parent, (int)g->mine, MPI_INT64_T, by_rank, count, at, MPI_INT64_T,
                            MPI_COMM_WORLD), "MPI_Allgatherv");
    for (int64_t v = 0; v < g->vertices; v++)
        all[v] = by_rank[at[graph_owner(v)] + graph_own(v)];
    free(by_rank);
    free(count);
}

/* Rule 1: parents lead to the root, and in no circle. Levels are the lengths of the ways. */
static const char *find_levels(struct tree *t)
{
    int64_t n = t->g->vertices;

    for (int64_t v = 0; v < n; v++) {
        t->level[v] = -1;
        if (t->parent[v] < -1 || t->parent[v] >= n)
            return "a parent is no vertex";
    }
    if (t->parent[t->root] != t->root)
        return "the root is not its own parent";
    t->level[t->root] = 0;
    for (int64_t v = 0; v < n; v++) {
        int64_t steps = 0, u = v;

        if (t->parent[v] < 0)
            continue;
        for (; t->level[u] < 0; u = t->parent[u])
            if (t->parent[u] < 0 || ++steps > n)
                return "parents do not lead to the root";
        steps += t->level[u];
        for (u = v; t->level[u] < 0; u = t->parent[u])
            t->level[u] = steps--;
    }
    return NULL;
}

/* Rules 2 to 4, over this rank's share of the edges. */
static const char *check_edges(struct tree *t, int64_t *inside)
{
    int64_t begin, end;

    graph_share(t->g, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        struct edge e = graph_edge(t->g, i);
        int64_t a = t->level[e.a], b = t->level[e.b];

        if ((a < 0) != (b < 0))
            return "an edge leads out of what was reached";
        if (a < 0)
            continue;
        (*inside)++;
        if (a - b > 1 || b - a > 1)
            return "an edge joins vertices more than one level apart";
        if (t->parent[e.a] == e.b)
            t->joined[e.a] = 1;
        if (t->parent[e.b] == e.a)
            t->joined[e.b] = 1;
    }
    return NULL;
}

/* Rule 5: the edges of the tree are edges of the graph. */
static const char *check_tree(struct tree *t, struct graph_verdict *v)
{
    ex_check(MPI_Allreduce(MPI_IN_PLACE, t->joined, (int)t->g->vertices, MPI_UNSIGNED_CHAR,
                           MPI_BOR, MPI_COMM_WORLD), "MPI_Allreduce");
    for (int64_t i = 0; i < t->g->vertices; i++) {
        if (t->level[i] < 0)
            continue;
        v->reached++;
        v->levels = t->level[i] + 1 > v->levels ? t->level[i] + 1 : v->levels;
        if (i != t->root && !t->joined[i])
            return "no edge joins a vertex and its parent";
    }
    return NULL;
}

/* What one rank finds wrong is wrong everywhere. */
static const char *agree(const char *wrong)
{
    static _Thread_local char text[80];
    int mine = wrong != NULL ? ex_rank() : ex_size(), first;

    ex_check(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    if (first == ex_size())
        return NULL;
    snprintf(text, sizeof(text), "%s", wrong != NULL ? wrong : "");
    ex_check(MPI_Bcast(text, (int)sizeof(text), MPI_CHAR, first, MPI_COMM_WORLD), "MPI_Bcast");
    return text;
}

void graph_check(const struct graph *g, int64_t root, const int64_t *parent,
                 struct graph_verdict *v)
{
    size_t n = (size_t)g->vertices;
    struct tree t = { .g = g, .root = root, .parent = calloc(n, sizeof(*t.parent)),
                      .level = calloc(n, sizeof(*t.level)), .joined = calloc(n, 1) };

    if (t.parent == NULL || t.level == NULL || t.joined == NULL)
        ex_abort("no memory to check %lld vertices", (long long)g->vertices);
    memset(v, 0, sizeof(*v));
    gather(g, parent, t.parent);
    v->wrong = find_levels(&t);     /* of all, so the same everywhere */
    if (v->wrong == NULL)
        v->wrong = agree(check_edges(&t, &v->edges));
    if (v->wrong == NULL)
        v->wrong = check_tree(&t, v);
    ex_check(MPI_Allreduce(MPI_IN_PLACE, &v->edges, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    free(t.parent);
    free(t.level);
    free(t.joined);
}
