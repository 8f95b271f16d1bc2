/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * YCSB's mixes A to E on an index, in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how many operations there are in a second, and how long each takes.
 * Parts of transactions can be left out (tx_parts.h), down to leaves that are overwritten in place
 * under a lock; and so can the words that were seen last, by which a value is found in one wait.
 *
 * Some processes keep the index and do nothing else, the others use it. All is loaded with whole
 * transactions. An update adds one to a value, so at the end the values add up to the updates; and
 * all keys that were inserted have one.
 */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../mpi_examples/kv_workload.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "index_maps.h"
#include "sim_times.h"

enum { MOST = 1024, FIRST = 64, TICK = 1000 };

struct options {
    struct map_options map;
    int keys;
    const struct kv_mix *mix;
    bool drawn_so;                      /* the distribution was given */
    enum kv_distribution distribution;
    const char *profile;
    double milliseconds;
    bool json;
};

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    struct kv_zipf zipf;
    int arrived, generation;            /* where clients meet */
    int done;                           /* clients that are */
    int64_t begin, end;                 /* of what is measured */
    uint64_t reads, writes, atomics, bytes;     /* of all clients in that time */
    uint64_t updates;                   /* from the first to the last */
    uint64_t inserted[MOST];            /* by each client */
    struct sim_times times;             /* of operations */
    uint64_t found;                     /* what all values add up to */
};

struct client {
    struct work *w;
    loco_runtime_t *rt;
    struct map map;
    int number;
    uint64_t random, turn;
};

/* ---- an operation ---- */

static int fail(const struct client *c, int status)
{
    return loci_sim_fail("client %d: %s", c->number, loco_strerror(status));
}

/* Of the newest the draw is an age. */
static uint64_t draw(struct client *c)
{
    const struct work *w = c->w;
    uint64_t keys = (uint64_t)w->o->keys, rank;

    if (w->o->distribution == KV_UNIFORM)
        return kv_random(&c->random) % keys;
    rank = kv_zipf_draw(&w->zipf, &c->random);
    return w->o->distribution == KV_ZIPF ? kv_mix64(rank + 1) % keys
           : kv_latest_index(rank, c->turn++, keys, (uint64_t)w->o->map.clients, w->inserted);
}

static int insert(struct client *c)
{
    struct work *w = c->w;
    uint64_t *n = &w->inserted[c->number];
    int status = map_insert(&c->map, kv_new_index((uint64_t)w->o->keys,
                                                  (uint64_t)w->o->map.clients,
                                                  (uint64_t)c->number, *n));

    *n += status == LOCO_OK;
    return status;
}

static int do_one(struct client *c, enum kv_kind kind)
{
    uint64_t value;

    switch (kind) {
    case KV_READ: return map_get(&c->map, draw(c), &value);
    case KV_INSERT: return insert(c);
    case KV_SCAN:
        return map_scan(&c->map, draw(c), 1 + kv_random(&c->random) % KV_MOST_SCANNED);
    default:
        c->w->updates++;
        return map_add(&c->map, draw(c));
    }
}

static int one(struct client *c)
{
    struct work *w = c->w;
    const struct kv_mix *mix = w->o->mix;
    bool usual = kv_random_real(&c->random) * 100 < mix->percent;
    int64_t begin = loci_sim_time();
    int status = do_one(c, usual ? mix->usual : mix->other);

    if (status != LOCO_OK)
        return fail(c, status);
    if (begin >= w->begin && loci_sim_time() <= w->end)
        sim_times_add(&w->times, loci_sim_time() - begin);
    return 0;
}

/* ---- a client ---- */

/* The last one to come says with what the others go on. */
static void meet(struct work *w, unsigned parts)
{
    int generation = w->generation;

    if (++w->arrived == w->o->map.clients) {
        w->arrived = 0;
        w->generation++;
        loci_tx_parts = parts;
    }
    while (w->generation == generation)
        loci_sim_sleep(TICK);
}

static int load(struct client *c)
{
    for (int i = c->number; i < c->w->o->keys; i += c->w->o->map.clients) {
        int status = map_insert(&c->map, (uint64_t)i);

        if (status != LOCO_OK)
            return fail(c, status);
    }
    return 0;
}

static int add_one_up(struct client *c, uint64_t key)
{
    uint64_t value = 0;
    int status = map_get(&c->map, key, &value);

    c->w->found += value;
    return status == LOCO_OK ? 0 : fail(c, status);
}

static int add_up(struct client *c)
{
    uint64_t keys = (uint64_t)c->w->o->keys, clients = (uint64_t)c->w->o->map.clients;
    uint64_t me = (uint64_t)c->number;

    for (uint64_t i = me; i < keys; i += clients)
        if (add_one_up(c, i) != 0)
            return 1;
    for (uint64_t i = 0; i < c->w->inserted[me]; i++)
        if (add_one_up(c, kv_new_index(keys, clients, me, i)) != 0)
            return 1;
    return 0;
}

static void add_counts(struct client *c, uint64_t by)
{
    const struct loci_sim_counts n = loci_sim_counts(c->rt);

    c->w->reads += by * n.reads;
    c->w->writes += by * n.writes;
    c->w->atomics += by * n.atomics;
    c->w->bytes += by * n.bytes;
}

/* Copies of upper nodes are there after a look at all keys, and the first operations; what each key
 * has only after a look at that. */
static int warm_up(struct client *c)
{
    bool each = c->map.o->look == MAP_APART, some = each || c->map.o->kind == MAP_HASH;
    int status = c->map.o->kind == MAP_TREE ? map_scan(&c->map, 0, 0) : LOCO_OK;

    for (int i = 0; i < c->w->o->keys && some && status == LOCO_OK; i += each ? 1 : 8) {
        uint64_t value;

        status = map_get(&c->map, (uint64_t)i, &value);
    }
    if (status != LOCO_OK)
        return fail(c, status);
    map_begin(&c->map);
    meet(c->w, map_parts(c->map.o));
    for (int i = 0; i < FIRST; i++)
        if (one(c) != 0)
            return 1;
    return 0;
}

static int measure(struct client *c)
{
    struct work *w = c->w;
    unsigned parts = map_parts(c->map.o);
    int64_t length = (int64_t)(w->o->milliseconds * 1e6);

    if (warm_up(c) != 0)
        return 1;
    meet(w, parts);
    w->begin = loci_sim_time() + length / 10;
    w->end = w->begin + length;
    meet(w, parts);
    while (loci_sim_time() < w->begin)
        if (one(c) != 0)
            return 1;
    add_counts(c, (uint64_t)-1);
    while (loci_sim_time() < w->end)
        if (one(c) != 0)
            return 1;
    add_counts(c, 1);
    return 0;
}

static int use(struct client *c)
{
    int result = load(c);

    if (result == 0) {
        meet(c->w, LOCI_TX_ALL);        /* all keys are there */
        result = measure(c);
    }
    map_end(&c->map);
    if (result == 0) {
        meet(c->w, map_parts(c->map.o));
        result = add_up(c);
    }
    return result;
}

/* ---- a process ---- */

static int be_client(struct client *c)
{
    int status = map_open(&c->map), result;

    if (status != LOCO_OK)
        return fail(c, status);
    meet(c->w, LOCI_TX_ALL);
    result = use(c);
    map_close(&c->map);
    return result;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    struct client c = { .w = w, .rt = rt, .number = rank - w->o->map.hosts };
    int status = map_create(&c.map, &w->o->map, rt, rank), result = 0;

    if (status != LOCO_OK)
        return loci_sim_fail("p%d: no index: %s", rank, loco_strerror(status));
    if (c.number >= 0) {
        c.random = kv_mix64((uint64_t)rank + 1);
        result = be_client(&c);
        w->done++;
    }
    while (w->done < w->o->map.clients)
        loci_sim_sleep(TICK);
    map_destroy(&c.map);
    return result;
}

/* ---- what it comes to ---- */

static void report(struct work *w)
{
    double n = w->times.count > 0 ? (double)w->times.count : 1;
    double rate = n / w->o->milliseconds * 1000;

    sim_times_sort(&w->times);
    printf(w->o->json ? "{\"clients\": %d, \"rate\": %.1f, \"median_us\": %.3f, "
                        "\"mean_us\": %.3f, \"late_us\": %.3f, \"reads\": %.3f, \"writes\": %.3f, "
                        "\"atomics\": %.3f, \"bytes\": %.0f}\n"
           : "%d clients: %.0f operations a second; %.2f us in the middle, %.2f on average, "
             "%.2f for 99 of 100; each %.2f reads, %.2f writes, %.2f atomics, %.0f bytes\n",
           w->o->map.clients, rate, sim_times_us(&w->times, 0.5), sim_times_mean_us(&w->times),
           sim_times_us(&w->times, 0.99),
           (double)w->reads / n, (double)w->writes / n, (double)w->atomics / n,
           (double)w->bytes / n);
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", NULL };
    const struct loci_sim_config config = {
        .processes = o->map.hosts + o->map.clients, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .look_every = TICK,
    };
    struct loci_sim_result result;
    struct work w = { .o = o };

    kv_zipf_init(&w.zipf, (uint64_t)o->keys, KV_ZIPF_THETA);
    map_prepare(&o->map);
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED || w.found != w.updates) {
        fprintf(stderr, "index_sim: %s (%llu updates, %llu found)\n%s", result.text,
                (unsigned long long)w.updates, (unsigned long long)w.found, result.detail);
        return 1;
    }
    report(&w);
    free(w.times.ns);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: index_sim [OPTION]...\n"
    "YCSB's mixes on an index over a simulated network, in virtual time. Deterministic.\n\n"
    "  --index KIND      tree or hash; or race: a table after RACE, without a store (tree)\n"
    "  --clients N       processes that use it (16)\n"
    "  --hosts N         others, which keep it (1)\n"
    "  --keys N          of 8 bytes, with values of 8 (100000)\n"
    "  --mix a|b|c|d|e   updates: 50 %, 5 %, none; 5 % inserts: of the newest, scans (a)\n"
    "  --dist uniform|zipf   (the mix's)\n"
    "  --leaf-bytes N    64 to 16384 (1024)\n"
    "  --way WAY         of a tree: ours; in-place: values are overwritten under their cell as a\n"
    "                    lock, without a log; values: the same with a log of them (ours)\n"
    "  --in-place        the same as --way in-place\n"
    "  --look HOW        speculative; blind: words that were seen last are not used, so it is two\n"
    "                    waits for each value; apart: of a tree, each value in an object of its\n"
    "                    own, which is read alone (speculative)\n"
    "  --blind           the same as --look blind\n"
    "  --hot N           from how many conflicts of a leaf on an entry gets an object of its own;\n"
    "                    0: never (6, as outside of the simulator)\n"
    "  --time MS         of virtual time that is measured (1)\n"
    "  --profile NAME    the network (ib100)\n"
    "  --json            print the results as JSON\n";

static bool number(const char *text, long least, long most, int *to)
{
    char *end;
    long n = strtol(text, &end, 10);

    *to = (int)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}

static bool parse_one(int option, struct options *o)
{
    char *end;

    switch (option) {
    case 'i': return map_kind_named(optarg, &o->map.kind);
    case 'w': return map_way_named(optarg, &o->map.way);
    case 'l': return map_look_named(optarg, &o->map.look);
    case 'o': return number(optarg, 0, 1000, &o->map.hot);
    case 'c': return number(optarg, 1, MOST, &o->map.clients);
    case 'H': return number(optarg, 1, 64, &o->map.hosts);
    case 'k': return number(optarg, 1, 10000000, &o->keys);
    case 'b': return number(optarg, 64, 16384, &o->map.bytes);
    case 'm':
        o->mix = strlen(optarg) == 1 && optarg[0] <= 'e' ? kv_mix_find(optarg[0]) : NULL;
        return o->mix != NULL;
    case 'd':
        o->drawn_so = true;
        o->distribution = strcmp(optarg, "zipf") == 0 ? KV_ZIPF : KV_UNIFORM;
        return o->distribution == KV_ZIPF || strcmp(optarg, "uniform") == 0;
    case 't':
        o->milliseconds = strtod(optarg, &end);
        return *end == '\0' && o->milliseconds > 0 && o->milliseconds <= 1e6;
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'p': o->map.way = MAP_IN_PLACE; return true;
    case 'B': o->map.look = MAP_BLIND; return true;
    case 'j': return o->json = true;
    default: return false;
    }
}

/* What options left open, and whether all of it is possible. */
static bool complete(struct options *o)
{
    o->distribution = o->drawn_so ? o->distribution : o->mix->distribution;
    o->map.keys = (uint64_t)o->keys + (uint64_t)(o->milliseconds * 2000) + 10000;
    return map_is_possible(&o->map) && (o->mix->usual != KV_SCAN || o->map.kind == MAP_TREE);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "index", required_argument, NULL, 'i' }, { "way", required_argument, NULL, 'w' },
        { "look", required_argument, NULL, 'l' }, { "hot", required_argument, NULL, 'o' },
        { "clients", required_argument, NULL, 'c' }, { "hosts", required_argument, NULL, 'H' },
        { "keys", required_argument, NULL, 'k' }, { "mix", required_argument, NULL, 'm' },
        { "dist", required_argument, NULL, 'd' }, { "leaf-bytes", required_argument, NULL, 'b' },
        { "in-place", no_argument, NULL, 'p' }, { "blind", no_argument, NULL, 'B' },
        { "time", required_argument, NULL, 't' }, { "profile", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .map = { .clients = 16, .hosts = 1, .bytes = 1024, .hot = 6 },
                         .keys = 100000, .mix = kv_mix_find('a'), .profile = "ib100",
                         .milliseconds = 1 };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "index_sim: not a value that this option takes: %s (--help)\n",
                    optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "index_sim: no such argument: %s (--help)\n", argv[optind]);
        return 2;
    }
    if (!complete(&o)) {
        fprintf(stderr, "index_sim: only a tree has scans, and ways and looks of its own; race has "
                        "none (--help)\n");
        return 2;
    }
    return run(&o);
}
