/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scale-free graph over all ranks, as Graph500 makes it: 2^scale vertices, edge_factor times as
 * many edges between pairs drawn by R-MAT. Vertex v belongs to rank v mod size. Edges are drawn
 * from their number, so any rank can draw any of them again: for the check.
 */
#ifndef MPI_EXAMPLES_GRAPH_H
#define MPI_EXAMPLES_GRAPH_H

#include "common.h"

struct graph {
    int64_t scale, edge_factor, seed;
    int64_t vertices, edges;        /* of all ranks */
    int64_t mine;                   /* vertices of this rank: own is v / size */
    int64_t *first;                 /* mine + 1: where each one's neighbours begin */
    int64_t *neighbour;             /* both ends of each edge know the other; no loops */
};

struct edge {
    int64_t a, b;
};

/* Edge number i, from 0. */
struct edge graph_edge(const struct graph *g, int64_t i);
/* The edges that this rank draws: from *begin to *end - 1. */
void graph_share(const struct graph *g, int64_t *begin, int64_t *end);

/* Collective: scale, edge_factor and seed are set. */
void graph_make(struct graph *g);
void graph_free(struct graph *g);

static inline int graph_owner(int64_t vertex)
{
    return (int)(vertex % ex_size());
}

static inline int64_t graph_own(int64_t vertex)
{
    return vertex / ex_size();
}

/* Vertices of a rank. */
static inline int64_t graph_part(const struct graph *g, int rank)
{
    return (g->vertices - rank + ex_size() - 1) / ex_size();
}

/* Any number of these is drawn alike from x. */
uint64_t graph_mix(uint64_t x);

/* What a search from `root` found: parents by vertex, -1 where it did not come. */
struct graph_verdict {
    int64_t reached, levels, edges;     /* edges: of the input, with both ends reached */
    const char *wrong;                  /* NULL, or which of Graph500's rules is broken */
};

/* Collective. `parent`: of this rank's own vertices. The same verdict at all ranks. */
void graph_check(const struct graph *g, int64_t root, const int64_t *parent,
                 struct graph_verdict *verdict);

#endif
