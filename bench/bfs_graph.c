/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "bfs_graph.h"

#include <stdlib.h>

/* Of 100: how often an edge falls into the matrix's first, second and third quarter. */
enum { FIRST = 57, SECOND = 19, THIRD = 19 };

uint64_t bfs_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Another name for each vertex, so that those with many edges are not those with small numbers.
 * Each step can be undone within `scale` bits, so no two get the same. */
static uint64_t rename_vertex(uint64_t v, int scale, uint64_t seed)
{
    uint64_t mask = (UINT64_C(1) << scale) - 1;

    for (int round = 0; round < 3; round++) {
        uint64_t key = bfs_mix(seed + (uint64_t)round);

        v = (v + key) & mask;
        v = (v * (key | 1)) & mask;
        v ^= v >> (scale / 2 + 1);
    }
    return v;
}

static void make_edge(const struct bfs_graph *g, uint64_t seed, int64_t e, uint64_t end[2])
{
    uint64_t state = bfs_mix(seed) ^ (uint64_t)e << 8;

    end[0] = end[1] = 0;
    for (int bit = 0; bit < g->scale; bit++) {
        unsigned r = (unsigned)(bfs_mix(state + (uint64_t)bit) % 100);

        end[0] = end[0] << 1 | (r >= FIRST + SECOND);
        end[1] = end[1] << 1 | ((r >= FIRST && r < FIRST + SECOND) || r >= FIRST + SECOND + THIRD);
    }
    end[0] = rename_vertex(end[0], g->scale, seed);
    end[1] = rename_vertex(end[1], g->scale, seed);
}

/* Twice over the edges: count the neighbours, then place them. */
static void place_edges(struct bfs_graph *g, uint64_t seed, int64_t *fill)
{
    uint64_t end[2];

    for (int64_t e = 0; e < g->edges; e++) {
        make_edge(g, seed, e, end);
        if (end[0] == end[1])
            continue;
        g->start[end[0] + 1]++;
        g->start[end[1] + 1]++;
    }
    for (int64_t v = 0; v < g->vertices; v++) {
        g->start[v + 1] += g->start[v];
        fill[v] = g->start[v];
    }
    for (int64_t e = 0; e < g->edges; e++) {
        make_edge(g, seed, e, end);
        if (end[0] == end[1])
            continue;
        g->next[fill[end[0]]++] = (int32_t)end[1];
        g->next[fill[end[1]]++] = (int32_t)end[0];
    }
}

int bfs_graph_make(struct bfs_graph *g, int scale, int per_vertex, uint64_t seed)
{
    int64_t *fill;

    g->scale = scale;
    g->vertices = INT64_C(1) << scale;
    g->edges = g->vertices * per_vertex;
    g->start = calloc((size_t)g->vertices + 1, sizeof *g->start);
    g->next = malloc((size_t)g->edges * 2 * sizeof *g->next);
    fill = malloc((size_t)g->vertices * sizeof *fill);
    if (g->start == NULL || g->next == NULL || fill == NULL) {
        free(fill);
        bfs_graph_free(g);
        return -1;
    }
    place_edges(g, seed, fill);
    free(fill);
    return 0;
}

void bfs_graph_free(struct bfs_graph *g)
{
    free(g->start);
    free(g->next);
    g->start = NULL;
    g->next = NULL;
}

int64_t bfs_graph_root(const struct bfs_graph *g, int i)
{
    int64_t first = (int64_t)(bfs_mix((uint64_t)i) % (uint64_t)g->vertices);

    for (int64_t n = 0; n < g->vertices; n++) {
        int64_t v = (first + n) % g->vertices;

        if (g->start[v + 1] > g->start[v])
            return v;
    }
    return -1;
}

int bfs_graph_levels(const struct bfs_graph *g, int64_t root, int32_t *level)
{
    int32_t *queue = malloc((size_t)g->vertices * sizeof *queue);
    int64_t head = 0, tail = 0;

    if (queue == NULL)
        return -1;
    for (int64_t v = 0; v < g->vertices; v++)
        level[v] = -1;
    level[root] = 0;
    queue[tail++] = (int32_t)root;
    while (head < tail) {
        int32_t u = queue[head++];

        for (int64_t i = g->start[u]; i < g->start[u + 1]; i++)
            if (level[g->next[i]] < 0) {
                level[g->next[i]] = level[u] + 1;
                queue[tail++] = g->next[i];
            }
    }
    free(queue);
    return 0;
}
