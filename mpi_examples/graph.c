/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * R-MAT: Chakrabarti, Zhan and Faloutsos, "R-MAT: A recursive model for graph mining", SDM 2004,
 * with the probabilities of Graph500's specification (0.57, 0.19, 0.19, 0.05).
 */
#include "graph.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

uint64_t graph_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* One to one on the numbers below 2^scale: vertices with many edges are not the first ones. */
static int64_t scramble(const struct graph *g, int64_t vertex)
{
    uint64_t mask = (uint64_t)g->vertices - 1, v = (uint64_t)vertex;

    for (uint64_t i = 0; i < 3 && g->scale > 0; i++) {
        v = (v * (graph_mix((uint64_t)g->seed + i) | 1) + i) & mask;
        v ^= v >> (g->scale + 1) / 2;
    }
    return (int64_t)v;
}

struct edge graph_edge(const struct graph *g, int64_t i)
{
    uint64_t random = graph_mix((uint64_t)g->seed ^ graph_mix((uint64_t)i));
    struct edge e = { 0, 0 };

    for (int64_t bit = 0; bit < g->scale; bit++) {
        unsigned percent;

        random = graph_mix(random);
        percent = (unsigned)((random >> 32) * 100 >> 32);
        e.a = 2 * e.a + (percent >= 76);
        e.b = 2 * e.b + ((percent >= 57 && percent < 76) || percent >= 95);
    }
    e.a = scramble(g, e.a);
    e.b = scramble(g, e.b);
    return e;
}

void graph_share(const struct graph *g, int64_t *begin, int64_t *end)
{
    int64_t each = (g->edges + ex_size() - 1) / ex_size();

    *begin = each * ex_rank() < g->edges ? each * ex_rank() : g->edges;
    *end = *begin + each < g->edges ? *begin + each : g->edges;
}

static void *get(int64_t n, size_t size)
{
    void *memory = malloc((size_t)(n > 0 ? n : 1) * size);

    if (memory == NULL)
        ex_abort("no memory for %lld numbers", (long long)n);
    return memory;
}

_Noreturn static void too_many(const struct graph *g)
{
    ex_abort("%lld edges are too many for %d ranks: MPI counts what each sends in an int",
             (long long)g->edges, ex_size());
}

/* Both directions of an edge go to whom they concern, as pairs: own vertex, neighbour. */
static void send_pairs(const struct graph *g, int64_t **pairs, int64_t *npairs)
{
    int size = ex_size();
    int *to = calloc((size_t)(4 * size), sizeof(*to));
    int *from = to + size, *to_at = to + 2 * size, *from_at = to + 3 * size;
    int64_t begin, end, out = 0, in = 0, *leaving;

    if (to == NULL)
        ex_abort("no memory");
    graph_share(g, &begin, &end);
    if (4 * (end - begin) > INT_MAX)
        too_many(g);
    for (int64_t i = begin; i < end; i++) {
        struct edge e = graph_edge(g, i);

        if (e.a == e.b)
            continue;
        to[graph_owner(e.a)] += 2;
        to[graph_owner(e.b)] += 2;
    }
    ex_check(MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD), "MPI_Alltoall");
    for (int r = 0; r < size; r++) {
        to_at[r] = (int)out;
        from_at[r] = (int)in;
        out += to[r];
        in += from[r];
        if (in > INT_MAX)
            too_many(g);
    }
    leaving = get(out, sizeof(*leaving));
    *pairs = get(in, sizeof(**pairs));
    for (int64_t i = begin; i < end; i++) {
        struct edge e = graph_edge(g, i);

        for (int k = 0; k < 2 && e.a != e.b; k++) {
            int *at = &to_at[graph_owner(e.a)];

            leaving[(*at)++] = graph_own(e.a);
            leaving[(*at)++] = e.b;
            e = (struct edge){ e.b, e.a };
        }
    }
    for (int r = 0; r < size; r++)
        to_at[r] -= to[r];
    ex_check(MPI_Alltoallv(leaving, to, to_at, MPI_INT64_T, *pairs, from, from_at, MPI_INT64_T,
                           MPI_COMM_WORLD), "MPI_Alltoallv");
    *npairs = in / 2;
    free(leaving);
    free(to);
}

void graph_make(struct graph *g)
{
    int64_t *pairs, n;

    g->vertices = INT64_C(1) << g->scale;
    g->edges = g->vertices * g->edge_factor;
    g->mine = graph_part(g, ex_rank());
    send_pairs(g, &pairs, &n);
    g->first = get(g->mine + 2, sizeof(*g->first));
    g->neighbour = get(n, sizeof(*g->neighbour));
    memset(g->first, 0, (size_t)(g->mine + 2) * sizeof(*g->first));
    /* first[v + 2] counts, then [v + 1] is where v's next neighbour goes. */
    for (int64_t i = 0; i < n; i++)
        g->first[pairs[2 * i] + 2]++;
    for (int64_t v = 0; v < g->mine; v++)
        g->first[v + 2] += g->first[v + 1];
    for (int64_t i = 0; i < n; i++)
        g->neighbour[g->first[pairs[2 * i] + 1]++] = pairs[2 * i + 1];
    free(pairs);
}

void graph_free(struct graph *g)
{
    free(g->first);
    free(g->neighbour);
}
