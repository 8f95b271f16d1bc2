/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A breadth-first search of a scale-free graph by one-sided calls alone. Plain MPI, any component;
 * bench/bfs_one_sided runs it.
 *
 * Vertex v belongs to rank v % size. Each level is one fence epoch on four windows of the program's
 * own memory (MPI_Win_create), with calls of single elements at random places:
 *
 *   next      a bit for each vertex: MPI_Accumulate BOR of a word, for each edge
 *   parent    level and parent in one number, for each edge: MIN for one root, REPLACE for the next
 *   counter   each vertex adds the number of its neighbours to one of a rank's counters: SUM
 *   found     each vertex's level, by MPI_Put, where another numbering of the vertices has it
 *
 * Between two epochs each rank takes what is new in its own part. Every process makes the whole
 * graph, but searches from its own vertices only. With the whole it then checks levels, parents,
 * counters and `found` against a serial search, and every edge: its ends are at most one level
 * apart.
 *
 * TEPS are edges made whose ends are in the root's component, by the time of the search alone.
 */
#include "config.h"

#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bfs_graph.h"

static const char help[] =
    "Usage: mpirun -np N bfs [OPTION]...\n"
    "Searches a scale-free graph breadth-first, by accumulates and puts of single elements in\n"
    "fence epochs, checks the result, and prints a line of JSON for each root.\n"
    "\n"
    "  --scale N   2^N vertices, 4 to 24 (12)\n"
    "  --edges N   edges for each vertex, 1 to 64 (16)\n"
    "  --roots N   so many searches, 1 to 1000 (4)\n"
    "  --spoil     each rank loses an accumulate on purpose, which the check has to see\n"
    "  --help      this text\n";

enum { COUNTERS = 64 };
#define LEVEL_SHIFT 32      /* of `parent`: the level above it, the parent's number below */

struct search {
    struct bfs_graph graph;
    int rank, size;
    int64_t mine;               /* vertices: v is number v / size of rank v % size */
    uint64_t *next;
    int64_t *parent;
    int64_t *counter;
    int32_t *found;
    MPI_Win next_win, parent_win, counter_win, found_win;
    MPI_Op op;                  /* of parents */
    bool spoil;                 /* leave out the next SUM */
    int32_t *level;             /* of own vertices; -1: not found yet */
    int64_t *parent_of;         /* what `parent` held when the vertex was found */
    int32_t *frontier;          /* own vertices of this level, by their number here */
    int64_t frontier_size;
    /* What calls read until the epoch ends. */
    uint64_t bit[64];
    int64_t *coded, *degree;
    int32_t *level_out;
};

static int64_t global_of(const struct search *s, int64_t local)
{
    return local * s->size + s->rank;
}

/* Another numbering: twice the same lands nowhere, for an odd factor can be undone in 2^scale. */
static int64_t renumbered(const struct search *s, int64_t v)
{
    return (int64_t)(((uint64_t)v * 0x9e3779b1u + 12345) & (uint64_t)(s->graph.vertices - 1));
}

static uint64_t counter_of(int64_t v)
{
    return bfs_mix((uint64_t)v + 77);
}

/* ---- one level ---- */

static void fence_all(struct search *s)
{
    MPI_Win_fence(0, s->next_win);
    MPI_Win_fence(0, s->parent_win);
    MPI_Win_fence(0, s->counter_win);
    MPI_Win_fence(0, s->found_win);
}

static void visit_edge(struct search *s, int64_t local, int64_t v)
{
    int owner = (int)(v % s->size);
    int64_t at = v / s->size;

    MPI_Accumulate(&s->coded[local], 1, MPI_INT64_T, owner, at, 1, MPI_INT64_T, s->op,
                   s->parent_win);
    MPI_Accumulate(&s->bit[at % 64], 1, MPI_UINT64_T, owner, at / 64, 1, MPI_UINT64_T, MPI_BOR,
                   s->next_win);
}

static void visit(struct search *s, int64_t local, int32_t level)
{
    const struct bfs_graph *g = &s->graph;
    int64_t u = global_of(s, local), place = renumbered(s, u);
    uint64_t counter = counter_of(u);

    s->coded[local] = (int64_t)(level + 1) << LEVEL_SHIFT | u;
    s->degree[local] = g->start[u + 1] - g->start[u];
    s->level_out[local] = level;
    MPI_Put(&s->level_out[local], 1, MPI_INT32_T, (int)(place % s->size), place / s->size, 1,
            MPI_INT32_T, s->found_win);
    if (!s->spoil)
        MPI_Accumulate(&s->degree[local], 1, MPI_INT64_T, (int)(counter % (unsigned)s->size),
                       (MPI_Aint)(counter >> 32) % COUNTERS, 1, MPI_INT64_T, MPI_SUM,
                       s->counter_win);
    s->spoil = false;
    for (int64_t i = g->start[u]; i < g->start[u + 1]; i++)
        visit_edge(s, local, g->next[i]);
}

/* What the others have set in this rank's part of `next` and had not been found before. */
static void take_next(struct search *s, int32_t level)
{
    s->frontier_size = 0;
    for (int64_t w = 0; w * 64 < s->mine; w++) {
        uint64_t bits = s->next[w];

        s->next[w] = 0;
        for (; bits != 0; bits &= bits - 1) {
            int64_t local = w * 64 + __builtin_ctzll(bits);

            if (local >= s->mine || s->level[local] >= 0)
                continue;
            s->level[local] = level;
            s->parent_of[local] = s->parent[local];
            s->frontier[s->frontier_size++] = (int32_t)local;
        }
    }
}

static void search(struct search *s)
{
    int64_t anywhere = 1;

    for (int32_t level = 0; anywhere > 0; level++) {
        fence_all(s);
        for (int64_t i = 0; i < s->frontier_size; i++)
            visit(s, s->frontier[i], level);
        fence_all(s);
        take_next(s, level + 1);
        MPI_Allreduce(&s->frontier_size, &anywhere, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void begin(struct search *s, int64_t root)
{
    int64_t room = s->graph.vertices / s->size + 1;

    memset(s->next, 0, (size_t)(room / 64 + 1) * sizeof *s->next);
    memset(s->counter, 0, COUNTERS * sizeof *s->counter);
    for (int64_t i = 0; i < room; i++) {
        s->parent[i] = INT64_MAX;
        s->parent_of[i] = INT64_MAX;
        s->found[i] = -1;
        s->level[i] = -1;
    }
    s->frontier_size = 0;
    if (root % s->size == s->rank) {
        s->level[root / s->size] = 0;
        s->frontier[s->frontier_size++] = (int32_t)(root / s->size);
    }
}

/* ---- checks ---- */

struct verdict {
    int64_t wrong;
    const char *first;          /* what was wrong first */
    int64_t at;
};

static void must_be(struct verdict *v, bool right, const char *what, int64_t at)
{
    if (right)
        return;
    if (v->wrong++ == 0) {
        v->first = what;
        v->at = at;
    }
}

/* By MIN the least of all neighbours one level above, by REPLACE any of them. */
static bool is_parent(const struct search *s, const int32_t *level, int64_t v, int64_t coded)
{
    const struct bfs_graph *g = &s->graph;
    int64_t u = coded & ((INT64_C(1) << LEVEL_SHIFT) - 1), least = INT64_MAX;
    bool any = false;

    for (int64_t i = g->start[v]; i < g->start[v + 1]; i++) {
        if (level[g->next[i]] != level[v] - 1)
            continue;
        any = any || g->next[i] == u;
        least = g->next[i] < least ? g->next[i] : least;
    }
    return coded >> LEVEL_SHIFT == level[v] && (s->op == MPI_MIN ? u == least : any);
}

static void check_own(const struct search *s, int64_t root, const int32_t *level, struct verdict *v)
{
    for (int64_t i = 0; i < s->mine; i++) {
        int64_t u = global_of(s, i);

        must_be(v, s->level[i] == level[u], "level", u);
        if (level[u] > 0 && u != root)
            must_be(v, is_parent(s, level, u, s->parent_of[i]), "parent", u);
        if (s->op == MPI_MIN && level[u] > 0)
            must_be(v, s->parent[i] == s->parent_of[i], "parent's minimum", u);
    }
}

static void check_counters(const struct search *s, const int32_t *level, struct verdict *v)
{
    int64_t want[COUNTERS] = { 0 };

    for (int64_t u = 0; u < s->graph.vertices; u++) {
        uint64_t counter = counter_of(u);
        int64_t place = renumbered(s, u);

        if (level[u] >= 0 && counter % (unsigned)s->size == (unsigned)s->rank)
            want[(counter >> 32) % COUNTERS] += s->graph.start[u + 1] - s->graph.start[u];
        if (place % s->size == s->rank)
            must_be(v, s->found[place / s->size] == level[u], "found", u);
    }
    for (int i = 0; i < COUNTERS; i++)
        must_be(v, s->counter[i] == want[i], "counter", i);
}

/* Levels of all as the search found them, against each edge. */
static void check_edges(struct search *s, struct verdict *v)
{
    const struct bfs_graph *g = &s->graph;
    int64_t room = g->vertices / s->size + 1;
    int32_t *all = malloc((size_t)room * (size_t)s->size * sizeof *all);

    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Allgather(s->level, (int)room, MPI_INT32_T, all, (int)room, MPI_INT32_T, MPI_COMM_WORLD);
    for (int64_t i = 0; i < s->mine; i++) {
        int64_t u = global_of(s, i);

        for (int64_t k = g->start[u]; k < g->start[u + 1]; k++) {
            int64_t w = g->next[k];
            int32_t other = all[w % s->size * room + w / s->size], own = s->level[i];

            must_be(v, own < 0 ? other < 0 : other >= 0 && abs(other - own) <= 1, "edge", u);
        }
    }
    free(all);
}

static int64_t edges_in_component(const struct search *s, const int32_t *level)
{
    int64_t ends = 0;

    for (int64_t v = 0; v < s->graph.vertices; v++)
        if (level[v] >= 0)
            ends += s->graph.start[v + 1] - s->graph.start[v];
    return ends / 2;
}

/* How many vertices, places or edges are wrong, at all ranks. */
static int64_t check(struct search *s, int64_t root, const int32_t *level)
{
    struct verdict v = { 0, NULL, 0 };
    int64_t anywhere;

    check_own(s, root, level, &v);
    check_counters(s, level, &v);
    check_edges(s, &v);
    if (v.wrong > 0)
        fprintf(stderr, "bfs: rank %d, root %lld: %lld wrong, first the %s of %lld\n", s->rank,
                (long long)root, (long long)v.wrong, v.first, (long long)v.at);
    MPI_Allreduce(&v.wrong, &anywhere, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return anywhere;
}

/* ---- the program ---- */

/* Returns how much was wrong. */
static int64_t one_root(struct search *s, int i, int32_t *level)
{
    int64_t root = bfs_graph_root(&s->graph, i), wrong;
    double start, seconds;

    if (root < 0 || bfs_graph_levels(&s->graph, root, level) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    s->op = i % 2 == 0 ? MPI_MIN : MPI_REPLACE;
    begin(s, root);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    search(s);
    seconds = MPI_Wtime() - start;
    wrong = check(s, root, level);
    if (s->rank == 0) {
        int64_t edges = edges_in_component(s, level);

        printf("{\"root\": %lld, \"parents\": \"%s\", \"ranks\": %d, \"scale\": %d, "
               "\"edges\": %lld, \"seconds\": %.6f, \"teps\": %.0f, \"check\": \"%s\"}\n",
               (long long)root, s->op == MPI_MIN ? "min" : "replace", s->size, s->graph.scale,
               (long long)edges, seconds, (double)edges / seconds,
               wrong == 0 ? "passed" : "failed");
        fflush(stdout);
    }
    return wrong;
}

static void *room_for(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (p == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    memset(p, 0, bytes);
    return p;
}

static MPI_Win window(void *base, size_t bytes, size_t unit)
{
    MPI_Win win;

    MPI_Win_create(base, (MPI_Aint)bytes, (int)unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    return win;
}

static void open_search(struct search *s)
{
    size_t room = (size_t)(s->graph.vertices / s->size + 1), words = room / 64 + 1;

    s->mine = (s->graph.vertices - s->rank + s->size - 1) / s->size;
    s->next = room_for(words * sizeof *s->next);
    s->parent = room_for(room * sizeof *s->parent);
    s->counter = room_for(COUNTERS * sizeof *s->counter);
    s->found = room_for(room * sizeof *s->found);
    s->level = room_for(room * sizeof *s->level);
    s->parent_of = room_for(room * sizeof *s->parent_of);
    s->frontier = room_for(room * sizeof *s->frontier);
    s->coded = room_for(room * sizeof *s->coded);
    s->degree = room_for(room * sizeof *s->degree);
    s->level_out = room_for(room * sizeof *s->level_out);
    for (int i = 0; i < 64; i++)
        s->bit[i] = UINT64_C(1) << i;
    s->next_win = window(s->next, words * sizeof *s->next, sizeof *s->next);
    s->parent_win = window(s->parent, room * sizeof *s->parent, sizeof *s->parent);
    s->counter_win = window(s->counter, COUNTERS * sizeof *s->counter, sizeof *s->counter);
    s->found_win = window(s->found, room * sizeof *s->found, sizeof *s->found);
}

static void close_search(struct search *s)
{
    void *all[] = { s->next, s->parent, s->counter, s->found, s->level, s->parent_of, s->frontier,
                    s->coded, s->degree, s->level_out };

    MPI_Win_free(&s->next_win);
    MPI_Win_free(&s->parent_win);
    MPI_Win_free(&s->counter_win);
    MPI_Win_free(&s->found_win);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    bfs_graph_free(&s->graph);
}

struct options {
    int scale, edges, roots;
    bool spoil;
};

/* -1: go on; else the exit status. */
static int read_options(struct options *o, int argc, char **argv)
{
    static const struct option names[] = {
        { "scale", required_argument, NULL, 's' }, { "edges", required_argument, NULL, 'e' },
        { "roots", required_argument, NULL, 'r' }, { "spoil", no_argument, NULL, 'x' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 's': o->scale = atoi(optarg); break;
        case 'e': o->edges = atoi(optarg); break;
        case 'r': o->roots = atoi(optarg); break;
        case 'x': o->spoil = true; break;
        case 'h': fputs(help, stdout); return 0;
        default: fputs(help, stderr); return 2;
        }
    if (optind == argc && o->scale >= 4 && o->scale <= 24 && o->edges >= 1 && o->edges <= 64
        && o->roots >= 1 && o->roots <= 1000)
        return -1;
    fprintf(stderr, "bfs: --scale takes 4 to 24, --edges 1 to 64, --roots 1 to 1000, and there "
            "are no other arguments\n%s", help);
    return 2;
}

int main(int argc, char **argv)
{
    struct options o = { .scale = 12, .edges = 16, .roots = 4 };
    struct search s = { .spoil = false };
    int status = read_options(&o, argc, argv);
    int64_t wrong = 0;
    int32_t *level;

    if (status >= 0)
        return status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.size);
    s.spoil = o.spoil;
    if (bfs_graph_make(&s.graph, o.scale, o.edges, 1) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    level = room_for((size_t)s.graph.vertices * sizeof *level);
    open_search(&s);
    for (int i = 0; i < o.roots; i++)
        wrong += one_root(&s, i, level);
    close_search(&s);
    free(level);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
