/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that outlives the programs that use it, in a pool (loco-agent). One job loads it, another
 * one asks it; and a load generator lets worker processes come and go while the table is in use.
 * Loading and asking are MPI jobs, which open the pool on MPI's runtime; workers are processes
 * without MPI.
 */
#include "elastic_kv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/mpi.h>

#include "common.h"

static const char help[] =
    "Usage: mpirun -np N elastic_kv --load [OPTION]...    make the table\n"
    "       mpirun -np N elastic_kv --query [OPTION]...   check every key of it\n"
    "       elastic_kv --serve 2,8,3 [OPTION]...          workers come and go, and use it\n"
    "A table of numbered keys in a pool, which a loco-agent keeps:\n"
    "    loco-agent start --pool demo\n"
    "--serve prints a line each tenth of a second: time, workers, operations per second, and the\n"
    "longest time from a worker's start to its first answer. gnuplot draws it: see README.md.\n"
    "\n"
    "  --pool NAME       (demo)\n"
    "  --keys N          of the table, 8 bytes each (1m)\n"
    "  --value-bytes N   of each value, 8 to 1000 (8)\n"
    "  --remove          with --query: remove the table when it is checked\n"
    "  --phase SECONDS   with --serve: how long each number of workers stays (1)\n"
    "  --updates PERCENT of the workers' operations (5)\n"
    "  --kill            with --serve: workers are killed instead of told to leave\n"
    "  --json            print the results as JSON\n"
    "  --help            this text\n"
    "\n"
    "Exit status: 0, 1 if a value is wrong or a call failed, 2 on wrong use.\n";

static bool parse_phases(const char *text, struct elastic_options *o)
{
    char *end;

    for (o->phases = 0; o->phases < ELASTIC_PHASES; text = end + 1) {
        long n = strtol(text, &end, 10);

        if (end == text || n < 0 || n > ELASTIC_WORKERS)
            return false;
        o->workers[o->phases++] = (int)n;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
    }
    return false;
}

static bool parse_one(int c, void *options)
{
    struct elastic_options *o = options;
    int64_t n = 0;
    bool fine = true;

    switch (c) {
    case 'p': o->pool = optarg; return true;
    case 'L': o->what = ELASTIC_LOAD; return true;
    case 'Q': o->what = ELASTIC_QUERY; return true;
    case 'S':
        o->what = ELASTIC_SERVE;
        return parse_phases(optarg, o);
    case 'k':
        fine = ex_number(optarg, 1, INT64_C(1) << 32, &n);
        o->keys = (uint64_t)n;
        return fine;
    case 'v':
        fine = ex_number(optarg, 8, 1000, &n);
        o->value_bytes = (size_t)n;
        return fine;
    case 's': return ex_real(optarg, 0.1, 3600, &o->phase);
    case 'u': return ex_real(optarg, 0, 100, &o->updates);
    case 'r': return o->remove = true;
    case 'K': return o->kill = true;
    case 'j': return o->json = true;
    default: return false;
    }
}

static const struct option names[] = {
    { "pool", required_argument, NULL, 'p' },    { "load", no_argument, NULL, 'L' },
    { "query", no_argument, NULL, 'Q' },         { "serve", required_argument, NULL, 'S' },
    { "keys", required_argument, NULL, 'k' },    { "value-bytes", required_argument, NULL, 'v' },
    { "phase", required_argument, NULL, 's' },   { "updates", required_argument, NULL, 'u' },
    { "remove", no_argument, NULL, 'r' },        { "kill", no_argument, NULL, 'K' },
    { "json", no_argument, NULL, 'j' },          { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* ---- the jobs ---- */

static void must(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

/* Each rank's keys are those that leave its rank when divided by their number. */
static uint64_t load(struct elastic_table *t, const struct elastic_options *o)
{
    uint64_t done = 0;

    for (uint64_t i = (uint64_t)ex_rank(); i < o->keys; i += (uint64_t)ex_size(), done++)
        must(elastic_put(t, o, i, 0), "put");
    return done;
}

static uint64_t query(struct elastic_table *t, const struct elastic_options *o, uint64_t *wrong)
{
    uint64_t done = 0;

    for (uint64_t i = (uint64_t)ex_rank(); i < o->keys; i += (uint64_t)ex_size(), done++) {
        int status = elastic_check(t, o, i);

        if (status == LOCO_ERR_DIFFERS || status == LOCO_ERR_NOT_FOUND)
            ++*wrong;
        else
            must(status, "get");
    }
    return done;
}

static int job(const struct elastic_options *o)
{
    struct elastic_table t;
    uint64_t mine[2] = { 0, 0 }, all[2];
    loco_runtime_t *rt;
    double begin, seconds;

    must(loco_runtime_open_mpi(MPI_COMM_WORLD, &rt), "loco_runtime_open_mpi");
    must(elastic_open(rt, o, &t), "the table");
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    mine[0] = o->what == ELASTIC_LOAD ? load(&t, o) : query(&t, o, &mine[1]);
    MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    seconds = MPI_Wtime() - begin;
    if (o->remove && ex_rank() == 0)
        must(loco_pool_remove(t.pool, ELASTIC_STORE), "remove");
    elastic_close(&t);
    loco_runtime_close(rt);
    if (ex_rank() == 0 && o->json)
        printf("{\"keys\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"seconds\": %.3f, "
               "\"check\": \"%s\"}\n", all[0], all[1], seconds, all[1] == 0 ? "passed" : "failed");
    else if (ex_rank() == 0)
        printf("%" PRIu64 " keys %s in %.2f s, %.2f million a second; %" PRIu64 " are wrong\n",
               all[0], o->what == ELASTIC_LOAD ? "put" : "checked", seconds,
               (double)all[0] / seconds / 1e6, all[1]);
    return all[1] == 0 ? 0 : EX_WRONG;
}

int main(int argc, char **argv)
{
    struct elastic_options o = { .pool = "demo", .keys = 1000000, .value_bytes = 8, .phase = 1,
                                 .updates = 5 };

    /* Workers are forked, and have no MPI: so it must not be there when they are. */
    if (elastic_is_serving(argc, argv))
        return elastic_serve_main(argc, argv, names, help, parse_one, &o);
    ex_init(&argc, &argv, MPI_THREAD_FUNNELED);
    ex_only_options(argc, argv, names, help, parse_one, &o);
    if (o.what == ELASTIC_NOTHING)
        ex_usage_error("elastic_kv", "what to do? --load, --query or --serve");
    return ex_finish(job(&o));
}
