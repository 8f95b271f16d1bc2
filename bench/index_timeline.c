/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that insert into an index while some of them die, in the virtual time of a simulated
 * network: how many inserts there are in each millisecond. Ways to change a tree, and tables that
 * grow in parts, as in index_maps.h. All machines have as many clients; one machine dies, or one
 * client while it splits a leaf or grows a subtable.
 *
 * With a log of values somebody central notices the death after a while, stops all clients, and
 * puts right what the dead have left. In the other ways nobody is told anything.
 *
 * In the end all keys are looked up whose inserts had returned, where that does not wait for the
 * dead for ever.
 */
#include "config.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../mpi_examples/kv_workload.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "index/hash/hash.h"
#include "index/index.h"
#include "index/tree.h"
#include "index_maps.h"
#include "index_recover.h"

enum { MOST = 256, MOST_BINS = 1000, TICK = 1000, MACHINES = 3 };

#define MS INT64_C(1000000)     /* ns */
#define HANG (5 * MS)           /* who has not ended so long after the others waits for the dead */

struct options {
    struct map_options map;
    int keys, milliseconds, kill_at, notice;
    bool one_growing;
};

struct client;

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    int arrived, generation;
    int64_t begin;                      /* 0: not yet */
    int64_t killed_at;
    bool stop, frozen, looks;
    int idle;                           /* clients that have stopped for the frozen */
    bool dead[MOST + 64], ended[MOST];
    struct client *client[MOST];
    uint64_t inserted[MOST];
    uint64_t bin[MOST_BINS];
    uint64_t recovered, found, missed, hung;
    int64_t growing;                    /* ns: the longest that one client has grown a subtable */
};

struct client {
    struct work *w;
    struct map map;
    int number;
    uint64_t seen_splits;
};

static int fail(const struct client *c, int status)
{
    return loci_sim_fail("client %d: %s", c->number, loco_strerror(status));
}

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

/* ---- a client ---- */

static uint64_t key_of(const struct client *c, uint64_t n)
{
    const struct options *o = c->w->o;

    return kv_new_index((uint64_t)o->keys, (uint64_t)o->map.clients, (uint64_t)c->number, n);
}

static void wait_while_frozen(struct work *w)
{
    w->idle++;
    while (w->frozen)
        loci_sim_sleep(TICK);
    w->idle--;
}

static int insert_on(struct client *c)
{
    struct work *w = c->w;
    uint64_t *n = &w->inserted[c->number];

    while (!w->stop) {
        int status = map_insert(&c->map, key_of(c, *n));
        int64_t bin = (loci_sim_time() - w->begin) / MS;

        if (status != LOCO_OK)
            return fail(c, status);
        ++*n;
        if (bin >= 0 && bin < MOST_BINS)
            w->bin[bin]++;
        if (w->frozen)
            wait_while_frozen(w);
    }
    return 0;
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

/* Of each client a part. */
static int look_up(struct client *c)
{
    struct work *w = c->w;
    int clients = w->o->map.clients;

    for (int other = 0; other < clients; other++)
        for (uint64_t n = (uint64_t)c->number; n < w->inserted[other]; n += (uint64_t)clients) {
            uint64_t value, key = kv_new_index((uint64_t)w->o->keys, (uint64_t)clients,
                                               (uint64_t)other, n);
            int status = map_get(&c->map, key, &value);

            if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
                return fail(c, status);
            w->found += status == LOCO_OK;
            w->missed += status != LOCO_OK;
        }
    return 0;
}

static int be_client(struct client *c)
{
    struct work *w = c->w;
    int status = map_open(&c->map), result;

    if (status != LOCO_OK)
        return fail(c, status);
    w->client[c->number] = c;
    meet(w, LOCI_TX_ALL);
    result = load(c);
    meet(w, map_parts(&w->o->map));
    if (w->begin == 0)
        w->begin = loci_sim_time();
    if (result == 0)
        result = insert_on(c);
    if (c->map.race != NULL && c->map.race->stats.longest > w->growing)
        w->growing = c->map.race->stats.longest;
    w->ended[c->number] = true;
    while (!w->looks)
        loci_sim_sleep(TICK);
    if (result == 0 && (w->o->map.way != MAP_IN_PLACE && w->o->map.kind != MAP_RACE))
        result = look_up(c);
    w->ended[c->number] = false;
    while (w->looks)
        loci_sim_sleep(TICK);
    map_close(&c->map);
    return result;
}

/* ---- the observer: the host's process ---- */

static void kill_client(struct work *w, int number)
{
    int rank = number + w->o->map.hosts;

    if (w->dead[rank])
        return;
    w->dead[rank] = true;
    loci_sim_kill(rank);
}

/* A client that grows the index just now; -1: none. Of a store: one that has begun to split a leaf
 * since the last look. */
static int who_grows(struct work *w)
{
    int found = -1;

    for (int i = 0; i < w->o->map.clients; i++) {
        struct client *c = w->client[i];
        uint64_t splits;

        if (c->map.race != NULL) {
            found = c->map.race->grows ? i : found;
            continue;
        }
        splits = c->map.tree != NULL ? c->map.tree->index.stats.splits
                 : c->map.hash->index.stats.splits;
        found = splits != c->seen_splits ? i : found;
        c->seen_splits = splits;
    }
    return found;
}

static void strike(struct work *w)
{
    const struct options *o = w->o;
    int grower = who_grows(w);

    if (w->killed_at != 0 || loci_sim_time() < w->begin + o->kill_at * MS)
        return;
    if (o->one_growing && grower < 0)
        return;
    for (int i = o->map.clients - o->map.clients / MACHINES; i < o->map.clients; i++)
        if (!o->one_growing)
            kill_client(w, i);
    if (o->one_growing)
        kill_client(w, grower);
    w->killed_at = loci_sim_time();
}

static int alive(const struct work *w)
{
    int n = 0;

    for (int i = 0; i < w->o->map.clients; i++)
        n += !w->dead[i + w->o->map.hosts];
    return n;
}

/* Those that wait for a cell of the dead do not stop for it. */
static int recover(struct work *w, struct map *m)
{
    int64_t begin = loci_sim_time();
    int status;

    w->frozen = true;
    while (w->idle < alive(w) && loci_sim_time() < begin + 20 * TICK)
        loci_sim_sleep(TICK);
    status = index_recover(m->store, w->dead, &w->recovered);
    w->frozen = false;
    return status == LOCO_OK ? 0 : loci_sim_fail("recovery: %s", loco_strerror(status));
}

static bool all_have(const struct work *w, bool ended)
{
    for (int i = 0; i < w->o->map.clients; i++)
        if (!w->dead[i + w->o->map.hosts] && w->ended[i] != ended)
            return false;
    return true;
}

static void drop_hung(struct work *w)
{
    int64_t begin = loci_sim_time();

    while (!all_have(w, true) && loci_sim_time() < begin + HANG)
        loci_sim_sleep(TICK);
    for (int i = 0; i < w->o->map.clients; i++)
        if (!w->dead[i + w->o->map.hosts] && !w->ended[i]) {
            w->hung++;
            kill_client(w, i);
        }
}

static int observe(struct work *w, struct map *m)
{
    const struct options *o = w->o;
    bool recovers = o->map.way == MAP_VALUES;
    int result = 0;

    while (w->begin == 0 || loci_sim_time() < w->begin + o->milliseconds * MS) {
        loci_sim_sleep(TICK);
        if (w->begin == 0)
            continue;
        strike(w);
        if (recovers && w->killed_at != 0
            && loci_sim_time() >= w->killed_at + o->notice * MS) {
            recovers = false;
            result = recover(w, m);
        }
    }
    w->stop = true;
    drop_hung(w);
    w->looks = true;
    while (!all_have(w, false))
        loci_sim_sleep(TICK);
    w->looks = false;
    return result;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    struct client c = { .w = w, .number = rank - w->o->map.hosts };
    int status = map_create(&c.map, &w->o->map, rt, rank), result;

    if (status != LOCO_OK)
        return loci_sim_fail("p%d: no index: %s", rank, loco_strerror(status));
    result = c.number >= 0 ? be_client(&c) : observe(w, &c.map);
    map_destroy(&c.map);
    return result;
}

/* ---- what it comes to ---- */

static void report(const struct work *w)
{
    printf("# killed at %.3f ms; %d clients live, %llu of them wait for the dead for ever; "
           "%llu cells put right; %llu keys found, %llu not; a subtable grows in up to %.3f ms\n",
           (double)(w->killed_at - w->begin) / (double)MS, alive(w) + (int)w->hung,
           (unsigned long long)w->hung, (unsigned long long)w->recovered,
           (unsigned long long)w->found, (unsigned long long)w->missed,
           (double)w->growing / (double)MS);
    for (int i = 0; i < w->o->milliseconds; i++)
        printf("%d\t%llu\n", i, (unsigned long long)w->bin[i]);
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", NULL };
    const struct loci_sim_config config = {
        .processes = o->map.hosts + o->map.clients, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named("ib100"), .look_every = TICK,
    };
    struct loci_sim_result result;
    struct work *w = calloc(1, sizeof *w);

    if (w == NULL)
        abort();
    w->o = o;
    map_prepare(&o->map);
    loci_sim_run(&config, body, w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED || w->missed != 0) {
        fprintf(stderr, "index_timeline: %s (%llu keys missed)\n%s", result.text,
                (unsigned long long)w->missed, result.detail);
        return 1;
    }
    report(w);
    free(w);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: index_timeline [OPTION]...\n"
    "Inserts in each millisecond of virtual time while clients die: \"millisecond TAB inserts\".\n"
    "Deterministic.\n\n"
    "  --index KIND      tree, hash or race (tree)\n"
    "  --way WAY         of a tree: ours, in-place, values (ours)\n"
    "  --clients N       on three machines together (15)\n"
    "  --keys N          that are there before (20000)\n"
    "  --time MS         40; at most 1000\n"
    "  --kill MS         when a machine dies (10)\n"
    "  --growing         instead, the first client from then on that splits a leaf, or grows a\n"
    "                    subtable\n"
    "  --notice MS       after so long the death is noticed, with a log of values (8)\n"
    "  --race-bits N, --race-buckets N   subtables at first (2^6), and buckets of one (128)\n"
    "  --help\n\n"
    "Exit status: 0; 1 it went wrong, or an inserted key is not there; 2 wrong use.\n";

static bool number(const char *text, long least, long most, int *to)
{
    char *end;
    long n = strtol(text, &end, 10);

    *to = (int)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}

static bool parse_one(int option, struct options *o)
{
    int n = 0;

    switch (option) {
    case 'i': return map_kind_named(optarg, &o->map.kind);
    case 'w': return map_way_named(optarg, &o->map.way);
    case 'c': return number(optarg, 1, MOST, &o->map.clients);
    case 'k': return number(optarg, 1, 10000000, &o->keys);
    case 't': return number(optarg, 1, MOST_BINS, &o->milliseconds);
    case 'K': return number(optarg, 0, MOST_BINS, &o->kill_at);
    case 'n': return number(optarg, 0, MOST_BINS, &o->notice);
    case 'g': return o->one_growing = true;
    case 'r': return number(optarg, 0, 10, &n) && (o->map.race_bits = (unsigned)n, true);
    case 'R':
        return number(optarg, 8, 65536, &n) && (n & (n - 1)) == 0
               && (o->map.race_buckets = (unsigned)n, true);
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "index", required_argument, NULL, 'i' }, { "way", required_argument, NULL, 'w' },
        { "clients", required_argument, NULL, 'c' }, { "keys", required_argument, NULL, 'k' },
        { "time", required_argument, NULL, 't' }, { "kill", required_argument, NULL, 'K' },
        { "growing", no_argument, NULL, 'g' }, { "notice", required_argument, NULL, 'n' },
        { "race-bits", required_argument, NULL, 'r' },
        { "race-buckets", required_argument, NULL, 'R' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { .map = { .clients = 15, .hosts = 1, .bytes = 1024, .hot = 6,
                                  .race_bits = 6, .race_buckets = 128 },
                         .keys = 20000, .milliseconds = 40, .kill_at = 10, .notice = 8 };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "index_timeline: not a value that this option takes: %s (--help)\n",
                    optarg != NULL ? optarg : "");
            return 2;
        }
    }
    o.map.keys = (uint64_t)o.keys + (uint64_t)o.milliseconds * 3000;
    if (optind < argc || !map_is_possible(&o.map)) {
        fprintf(stderr, "index_timeline: %s (--help)\n", optind < argc ? "no arguments"
                : "only a tree is changed in ways of its own");
        return 2;
    }
    return run(&o);
}
