/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Breadth-first search over a scale-free graph, with MPI windows and native channels together,
 * after Graph500's kernel 2.
 *
 * The window holds, at each rank, the parents of its vertices and two lists: of those that were
 * reached in this level and in the next. Who looks at an edge claims its other end by
 * MPI_Compare_and_swap on the parent; whoever is first asks a native atomic variable, one for each
 * rank and list, for a place in the owner's next list and puts the vertex there. A native barrier,
 * after a flush of the window, ends a level.
 */
#include "common.h"
#include "graph.h"

#include <loco/atomic_var.h>
#include <loco/barrier.h>
#include <loco/mpi.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N graph_bfs [OPTION]...\n"
    "Breadth-first searches over a scale-free graph, each checked by the rules of Graph500.\n"
    "\n"
    "  --scale N        2^N vertices, 1 to 26 (14)\n"
    "  --edge-factor N  edges for each vertex, 1 to 64 (16)\n"
    "  --roots N        searches, each from another random vertex, 1 to 64 (8)\n"
    "  --seed N         which graph (1)\n"
    "  --flavor F       " EX_FLAVORS " (allocate)\n"
    "  --spoil          change one parent before each check, which must then fail\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0, 1 if a search is wrong or a call failed, 2 on wrong use.\n";

enum { WORD = 8, MOST_ROOTS = 64 };

struct options {
    int64_t scale, edge_factor, roots, seed;
    enum ex_flavor flavor;
    bool spoil, json, progress;
};

struct search {
    const struct options *o;
    struct graph g;
    struct ex_window window;
    int64_t room;                   /* words of each of its three parts */
    loco_runtime_t *rt;
    loco_atomic_array_t *counts;    /* [list * size + rank] vertices of that rank's list */
    loco_barrier_t *barrier;
    unsigned char *tried;           /* a bit for each vertex: no need to claim it again */
    int64_t claims;
};

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* ---- the window ---- */

static int64_t *own_parents(struct search *s)
{
    return s->window.base;
}

static int64_t *own_list(struct search *s, int list)
{
    return own_parents(s) + s->room * (1 + list);
}

static MPI_Aint at(struct search *s, int rank, int64_t word)
{
    return ex_at(&s->window, rank, (size_t)word * WORD);
}

/* ---- a level ---- */

/* Whether it was us who reached it. */
static bool claim(struct search *s, int64_t vertex, int64_t parent)
{
    const int64_t nobody = -1;
    int64_t before = 0;
    int owner = graph_owner(vertex);

    if ((s->tried[vertex / 8] >> vertex % 8 & 1) != 0)
        return false;
    s->tried[vertex / 8] |= (unsigned char)(1 << vertex % 8);
    s->claims++;
    ex_check(MPI_Compare_and_swap(&parent, &nobody, &before, MPI_INT64_T, owner,
                                  at(s, owner, graph_own(vertex)), s->window.win),
             "MPI_Compare_and_swap");
    ex_check(MPI_Win_flush(owner, s->window.win), "MPI_Win_flush");
    return before == nobody;
}

static void append(struct search *s, int64_t vertex, int list)
{
    int owner = graph_owner(vertex);
    uint64_t place;

    check(loco_atomic_array_fetch_add(s->counts, (uint64_t)(list * ex_size() + owner), 1, &place),
          "loco_atomic_array_fetch_add");
    ex_check(MPI_Put(&vertex, 1, MPI_INT64_T, owner,
                     at(s, owner, s->room * (1 + list) + (int64_t)place), 1, MPI_INT64_T,
                     s->window.win), "MPI_Put");
    /* The source is a variable of this call. */
    ex_check(MPI_Win_flush_local(owner, s->window.win), "MPI_Win_flush_local");
}

static void walk_level(struct search *s, int64_t n, int list)
{
    const int64_t *frontier = own_list(s, list);

    for (int64_t i = 0; i < n; i++) {
        int64_t v = frontier[i], own = graph_own(v);

        for (int64_t e = s->g.first[own]; e < s->g.first[own + 1]; e++)
            if (claim(s, s->g.neighbour[e], v))
                append(s, s->g.neighbour[e], 1 - list);
    }
}

/* All puts are there, and all ranks know how long their lists are. */
static int64_t end_level(struct search *s, int list)
{
    uint64_t i = (uint64_t)(list * ex_size() + ex_rank()), n;

    ex_check(MPI_Win_flush_all(s->window.win), "MPI_Win_flush_all");
    check(loco_barrier_wait(s->barrier), "loco_barrier_wait");
    ex_check(MPI_Win_sync(s->window.win), "MPI_Win_sync");
    check(loco_atomic_array_load(s->counts, i, &n), "loco_atomic_array_load");
    /* Used again after the barrier of the level after this one. */
    check(loco_atomic_array_store(s->counts, i, 0), "loco_atomic_array_store");
    return (int64_t)n;
}

static void begin_search(struct search *s, int64_t root)
{
    int64_t *parent = own_parents(s);

    memset(s->tried, 0, (size_t)(s->g.vertices + 7) / 8);
    for (int64_t v = 0; v < s->g.mine; v++)
        parent[v] = -1;
    if (graph_owner(root) == ex_rank()) {
        parent[graph_own(root)] = root;
        own_list(s, 0)[0] = root;
    }
    ex_check(MPI_Win_sync(s->window.win), "MPI_Win_sync");
    check(loco_barrier_wait(s->barrier), "loco_barrier_wait");
}

/* Seconds. */
static double search(struct search *s, int64_t root)
{
    int64_t n = graph_owner(root) == ex_rank(), all = 1;
    double start;
    int list = 0;

    begin_search(s, root);
    start = MPI_Wtime();
    for (; all > 0; list = 1 - list) {
        walk_level(s, n, list);
        n = end_level(s, 1 - list);
        ex_check(MPI_Allreduce(&n, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
                 "MPI_Allreduce");
    }
    return MPI_Wtime() - start;
}

/* ---- the whole ---- */

static void open_search(struct search *s, const struct options *o)
{
    const loco_group_t *all;

    *s = (struct search){ .o = o, .g = { .scale = o->scale, .edge_factor = o->edge_factor,
                                         .seed = o->seed } };
    graph_make(&s->g);
    s->room = graph_part(&s->g, 0);
    s->tried = malloc((size_t)(s->g.vertices + 7) / 8);
    if (s->tried == NULL)
        ex_abort("no memory for %" PRId64 " vertices", s->g.vertices);
    ex_window_create(&s->window, o->flavor, (size_t)s->room * 3 * WORD);
    ex_check(MPI_Win_lock_all(0, s->window.win), "MPI_Win_lock_all");
    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &s->rt), "loco_runtime_open_mpi");
    all = loco_everyone(s->rt);
    check(loco_atomic_array_create(s->rt, "bfs", "counts", all, 2 * (uint64_t)ex_size(),
                                   LOCO_ATOMIC_STRIPED, &s->counts), "loco_atomic_array_create");
    check(loco_barrier_create(s->rt, "bfs", "level", all, &s->barrier), "loco_barrier_create");
    check(loco_runtime_wait_ready(s->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
}

static void close_search(struct search *s)
{
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    loco_barrier_destroy(s->barrier);
    loco_atomic_array_destroy(s->counts);
    loco_runtime_close_mpi(s->rt);
    ex_check(MPI_Win_unlock_all(s->window.win), "MPI_Win_unlock_all");
    ex_window_free(&s->window);
    free(s->tried);
    graph_free(&s->g);
}

/* Graph500 begins at vertices that have an edge: one end of a random edge that is no loop. */
static int64_t draw_root(const struct graph *g, int64_t number)
{
    uint64_t random = graph_mix((uint64_t)(g->seed * MOST_ROOTS + number));

    for (int64_t tries = 0; tries < 64 * g->edges; tries++) {
        struct edge e = graph_edge(g, (int64_t)((random + (uint64_t)tries) % (uint64_t)g->edges));

        if (e.a != e.b)
            return e.a;
    }
    return 0;
}

/* One vertex that was reached says that it was not: an edge then leads out of what was reached. */
static void spoil(struct search *s, int64_t root)
{
    if (graph_owner(root) == ex_rank())
        own_parents(s)[graph_own(root)] = -1;
}

struct result {
    int64_t reached, levels, claims;    /* of the last search, and of all */
    double seconds, inverse;            /* sum; sum of seconds per edge */
    int wrong;
};

static void run(struct search *s, struct result *r)
{
    struct ex_progress progress;

    ex_progress_init(&progress, s->o->progress);
    for (int64_t i = 0; i < s->o->roots; i++) {
        int64_t root = draw_root(&s->g, i);
        double seconds = search(s, root);
        struct graph_verdict v;

        if (s->o->spoil)
            spoil(s, root);
        graph_check(&s->g, root, own_parents(s), &v);
        if (v.wrong != NULL && ex_rank() == 0)
            fprintf(stderr, "graph_bfs: search %" PRId64 " from %" PRId64 ": %s\n", i, root,
                    v.wrong);
        r->wrong += v.wrong != NULL;
        r->reached = v.reached;
        r->levels = v.levels;
        r->seconds += seconds;
        r->inverse += v.edges > 0 ? seconds / (double)v.edges : 0;
        ex_progress_say(&progress, "%" PRId64 " of %" PRId64 " searches", i + 1, s->o->roots);
    }
    ex_progress_end(&progress);
    ex_check(MPI_Allreduce(&s->claims, &r->claims, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
}

static void report(const struct search *s, const struct result *r)
{
    const char *verdict = r->wrong == 0 ? "passed" : "FAILED";
    /* Harmonic, as Graph500 averages rates. */
    double rate = r->inverse > 0 ? (double)s->o->roots / r->inverse / 1e6 : 0;

    if (s->o->json) {
        printf("{\"example\": \"graph_bfs\", \"ranks\": %d, \"flavor\": \"%s\", \"scale\": %" PRId64
               ", \"edges\": %" PRId64 ", \"searches\": %" PRId64 ", \"reached\": %" PRId64
               ", \"levels\": %" PRId64 ", \"claims\": %" PRId64 ", \"seconds\": %.6f, "
               "\"mteps\": %.4f, \"wrong\": %d, \"check\": \"%s\"}\n", ex_size(),
               ex_flavor_name(s->o->flavor), s->o->scale, s->g.edges, s->o->roots, r->reached,
               r->levels, r->claims, r->seconds, rate, r->wrong, verdict);
        return;
    }
    printf("%-10s %d\n", "ranks", ex_size());
    printf("%-10s %" PRId64 " vertices, %" PRId64 " edges\n", "graph", s->g.vertices, s->g.edges);
    printf("%-10s %" PRId64 ", the last reached %" PRId64 " vertices in %" PRId64 " levels\n",
           "searches", s->o->roots, r->reached, r->levels);
    printf("%-10s %" PRId64 "\n", "claims", r->claims);
    printf("%-10s %.3f s, %.2f million edges/s (harmonic mean)\n", "time", r->seconds, rate);
    printf("%-10s %s\n", "check", verdict);
}

/* ---- the command line ---- */

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 's': return ex_number(optarg, 1, 26, &o->scale);
    case 'e': return ex_number(optarg, 1, 64, &o->edge_factor);
    case 'r': return ex_number(optarg, 1, MOST_ROOTS, &o->roots);
    case 'S': return ex_number(optarg, 0, INT64_C(1) << 40, &o->seed);
    case 'f': return ex_flavor_parse(optarg, &o->flavor);
    case 'x': o->spoil = true; return true;
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "scale", required_argument, NULL, 's' },  { "edge-factor", required_argument, NULL, 'e' },
        { "roots", required_argument, NULL, 'r' },  { "seed", required_argument, NULL, 'S' },
        { "flavor", required_argument, NULL, 'f' }, { "spoil", no_argument, NULL, 'x' },
        { "json", no_argument, NULL, 'j' },         { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .scale = 14, .edge_factor = 16, .roots = 8, .seed = 1 };
    ex_only_options(argc, argv, names, help, parse_one, o);
}

int main(int argc, char **argv)
{
    struct result r = { .wrong = 0 };
    struct search s;
    struct options o;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    open_search(&s, &o);
    run(&s, &r);
    if (ex_rank() == 0)
        report(&s, &r);
    close_search(&s);
    return ex_finish(r.wrong == 0 ? 0 : EX_WRONG);
}
