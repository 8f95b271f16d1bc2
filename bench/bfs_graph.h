/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BFS_GRAPH_H
#define BFS_GRAPH_H

#include <stdint.h>

/* A scale-free graph by the recursive matrix model (R-MAT: Chakrabarti, Zhan, Faloutsos, 2004), and
 * a serial breadth-first search of it. The same numbers make the same graph in every process. */

struct bfs_graph {
    int scale;              /* 2^scale vertices */
    int64_t vertices;
    int64_t edges;          /* made, each undirected; some twice, some from a vertex to itself */
    int64_t *start;         /* vertices + 1 places in `next`; of v: start[v] to start[v + 1] */
    int32_t *next;          /* neighbours; an edge from a vertex to itself is left out */
};

/* `per_vertex` edges for each vertex. 0, or -1: no memory. */
int bfs_graph_make(struct bfs_graph *g, int scale, int per_vertex, uint64_t seed);
void bfs_graph_free(struct bfs_graph *g);

/* The i-th vertex that has a neighbour, in an order that looks random; -1: there is none. */
int64_t bfs_graph_root(const struct bfs_graph *g, int i);

/* Levels of all vertices, 0 at the root, -1 where no path leads. 0, or -1: no memory. */
int bfs_graph_levels(const struct bfs_graph *g, int64_t root, int32_t *level);

/* A well-mixed word of each number: the finalizer of splitmix64 (Steele, Lea, Flood, 2014). */
uint64_t bfs_mix(uint64_t x);

#endif
