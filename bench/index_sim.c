/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * YCSB's mixes A, B and C on a tree, in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how many operations there are in a second, and how long each takes.
 * Parts of transactions can be left out (tx_parts.h), down to leaves that are overwritten in place
 * under a lock; and so can the words that were seen last, by which a value is found in one wait.
 *
 * Some processes keep the tree and do nothing else, the others use it. All is loaded with whole
 * transactions. An update adds one to a value, so at the end the values add up to the updates.
 */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/tree.h>

#include "../mpi_examples/kv_workload.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "store/tx.h"
#include "store/tx_parts.h"

enum { MOST = 1024, FIRST = 64, TICK = 1000 };

struct options {
    int clients, hosts, keys, bytes;
    const struct kv_mix *mix;
    enum kv_distribution distribution;
    unsigned parts;
    const char *profile;
    double milliseconds;
    bool blind, json;
};

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    struct kv_zipf zipf;
    int arrived, generation;            /* where clients meet */
    int done;                           /* clients that are */
    int64_t begin, end;                 /* of what is measured */
    uint64_t reads, writes, atomics;    /* of all clients in that time */
    uint64_t updates;                   /* from the first to the last */
    int64_t *took;                      /* operations, each its time */
    size_t times, room;
    uint64_t found;                     /* what all values add up to */
};

struct client {
    struct work *w;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
    int number;
    uint64_t random;
};

/* ---- an operation ---- */

static int fail(const struct client *c, int status)
{
    return loci_sim_fail("client %d: %s", c->number, loco_strerror(status));
}

static loco_bytes_t key_of(uint64_t index, unsigned char *bytes)
{
    kv_key_make(bytes, KV_NUMBER_KEY, kv_key(index));
    return loco_bytes(bytes, KV_NUMBER_KEY);
}

static uint64_t draw(struct client *c)
{
    const struct work *w = c->w;
    uint64_t keys = (uint64_t)w->o->keys;

    if (w->o->distribution == KV_UNIFORM)
        return kv_random(&c->random) % keys;
    return kv_mix64(kv_zipf_draw(&w->zipf, &c->random) + 1) % keys;
}

static void note_time(struct work *w, int64_t ns)
{
    if (w->times == w->room) {
        w->room = w->room * 2 + 4096;
        w->took = realloc(w->took, w->room * sizeof w->took[0]);
        if (w->took == NULL)
            abort();
    }
    w->took[w->times++] = ns;
}

static int one(struct client *c)
{
    struct work *w = c->w;
    bool reads = kv_random_real(&c->random) * 100 < w->o->mix->percent;
    int64_t begin = loci_sim_time();
    unsigned char bytes[KV_NUMBER_KEY];
    loco_bytes_t key = key_of(draw(c), bytes);
    uint64_t value;
    size_t len;
    int status = reads ? loco_tree_get(c->tree, key, &value, sizeof value, &len)
                 : loco_tree_add(c->tree, key, 1, NULL);

    if (status != LOCO_OK)
        return fail(c, status);
    w->updates += !reads;
    if (begin >= w->begin && loci_sim_time() <= w->end)
        note_time(w, loci_sim_time() - begin);
    return 0;
}

/* ---- a client ---- */

/* The last one to come says with what the others go on. */
static void meet(struct work *w, unsigned parts)
{
    int generation = w->generation;

    if (++w->arrived == w->o->clients) {
        w->arrived = 0;
        w->generation++;
        loci_tx_parts = parts;
    }
    while (w->generation == generation)
        loci_sim_sleep(TICK);
}

static int load(struct client *c)
{
    const uint64_t none = 0;

    for (int i = c->number; i < c->w->o->keys; i += c->w->o->clients) {
        unsigned char bytes[KV_NUMBER_KEY];
        int status = loco_tree_insert(c->tree, key_of((uint64_t)i, bytes),
                                      loco_bytes(&none, sizeof none));

        if (status != LOCO_OK)
            return fail(c, status);
    }
    return 0;
}

static int add_up(struct client *c)
{
    for (int i = c->number; i < c->w->o->keys; i += c->w->o->clients) {
        unsigned char bytes[KV_NUMBER_KEY];
        uint64_t value = 0;
        size_t len;
        int status = loco_tree_get(c->tree, key_of((uint64_t)i, bytes), &value, sizeof value,
                                   &len);

        if (status != LOCO_OK)
            return fail(c, status);
        c->w->found += value;
    }
    return 0;
}

static void add_counts(struct client *c, uint64_t by)
{
    const struct loci_sim_counts n = loci_sim_counts(c->rt);

    c->w->reads += by * n.reads;
    c->w->writes += by * n.writes;
    c->w->atomics += by * n.atomics;
}

/* Copies of upper nodes are there after a scan of all, and the first operations. */
static int visit(void *ctx, loco_bytes_t key, loco_bytes_t value)
{
    (void)ctx;
    (void)key;
    (void)value;
    return 0;
}

static int measure(struct client *c)
{
    struct work *w = c->w;
    int64_t length = (int64_t)(w->o->milliseconds * 1e6);
    int status = loco_tree_scan(c->tree, NULL, NULL, 0, visit, NULL);

    if (status != LOCO_OK)
        return fail(c, status);
    meet(w, w->o->parts);
    for (int i = 0; i < FIRST; i++)
        if (one(c) != 0)
            return 1;
    meet(w, w->o->parts);
    w->begin = loci_sim_time() + length / 10;
    w->end = w->begin + length;
    meet(w, w->o->parts);
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
    if (result == 0) {
        meet(c->w, c->w->o->parts);
        result = add_up(c);
    }
    return result;
}

static int be_client(struct client *c)
{
    const loco_tree_options_t options = { .leaf_bytes = (size_t)c->w->o->bytes };
    struct loci_hint *hint = NULL;
    int status = loco_tx_open(c->store, &c->tx), result;

    if (status != LOCO_OK)
        return fail(c, status);
    status = loco_tree_open(c->tx, loco_store_root(c->store, 0), &options, &c->tree);
    if (status != LOCO_OK)
        return fail(c, status);
    if (c->w->o->blind) {
        hint = c->tx->hint;
        c->tx->hint = NULL;
    }
    result = use(c);
    if (hint != NULL)
        c->tx->hint = hint;
    loco_tree_close(c->tree);
    loco_tx_close(c->tx);
    return result;
}

/* ---- a process ---- */

static int make_store(struct work *w, loco_runtime_t *rt, loco_store_t **store)
{
    const struct options *o = w->o;
    int hosts[MOST], status;
    const loco_store_options_t options = {
        .bytes = (uint64_t)o->keys * 256 / (uint64_t)o->hosts
                 + (uint64_t)o->clients * 512 * 1024 + (UINT64_C(16) << 20),
        .hosts = hosts, .nhosts = o->hosts, .threads = 1,
    };

    for (int i = 0; i < o->hosts; i++)
        hosts[i] = i;
    status = loco_store_create(rt, NULL, "tree", loco_everyone(rt), &options, store);
    return status == LOCO_OK ? loco_runtime_wait_ready(rt, LOCO_FOREVER) : status;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    struct client c = { .w = w, .rt = rt, .number = rank - w->o->hosts };
    int status = make_store(w, rt, &c.store), result = 0;

    if (status != LOCO_OK)
        return loci_sim_fail("p%d: no store: %s", rank, loco_strerror(status));
    if (c.number >= 0) {
        c.random = kv_mix64((uint64_t)rank + 1);
        result = be_client(&c);
        w->done++;
    }
    while (w->done < w->o->clients)
        loci_sim_sleep(TICK);
    loco_store_destroy(c.store);
    return result;
}

/* ---- what it comes to ---- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double us_at(const struct work *w, double part)
{
    return w->times == 0 ? 0 : (double)w->took[(size_t)(part * (double)(w->times - 1))] / 1000;
}

static void report(struct work *w)
{
    double n = w->times > 0 ? (double)w->times : 1, rate = n / w->o->milliseconds * 1000;

    qsort(w->took, w->times, sizeof w->took[0], compare);
    printf(w->o->json ? "{\"clients\": %d, \"rate\": %.1f, \"median_us\": %.3f, "
                        "\"late_us\": %.3f, \"reads\": %.3f, \"writes\": %.3f, "
                        "\"atomics\": %.3f}\n"
           : "%d clients: %.0f operations a second; %.2f us in the middle, %.2f for 99 of 100; "
             "each %.2f reads, %.2f writes, %.2f atomics\n",
           w->o->clients, rate, us_at(w, 0.5), us_at(w, 0.99), (double)w->reads / n,
           (double)w->writes / n, (double)w->atomics / n);
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", NULL };
    const struct loci_sim_config config = {
        .processes = o->hosts + o->clients, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .look_every = TICK,
    };
    struct loci_sim_result result;
    struct work w = { .o = o };

    kv_zipf_init(&w.zipf, (uint64_t)o->keys, KV_ZIPF_THETA);
    loci_tx_parts = LOCI_TX_ALL;
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED || w.found != w.updates) {
        fprintf(stderr, "index_sim: %s (%llu updates, %llu found)\n%s", result.text,
                (unsigned long long)w.updates, (unsigned long long)w.found, result.detail);
        return 1;
    }
    report(&w);
    free(w.took);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: index_sim [OPTION]...\n"
    "YCSB's mixes on a tree over a simulated network, in virtual time. Deterministic.\n\n"
    "  --clients N       processes that use the tree (16)\n"
    "  --hosts N         others, which keep it (1)\n"
    "  --keys N          of 8 bytes, with values of 8 (100000)\n"
    "  --mix a|b|c       updates: 50 %, 5 %, none (a)\n"
    "  --dist uniform|zipf (zipf)\n"
    "  --leaf-bytes N    64 to 16384 (1024)\n"
    "  --in-place        values are overwritten under their cell as a lock, without a log\n"
    "  --blind           words that were seen last are not used: two waits for each value\n"
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
    case 'c': return number(optarg, 1, MOST, &o->clients);
    case 'H': return number(optarg, 1, MOST, &o->hosts);
    case 'k': return number(optarg, 1, 10000000, &o->keys);
    case 'b': return number(optarg, 64, 16384, &o->bytes);
    case 'm':
        o->mix = strlen(optarg) == 1 && optarg[0] <= 'c' ? kv_mix_find(optarg[0]) : NULL;
        return o->mix != NULL;
    case 'd':
        o->distribution = strcmp(optarg, "zipf") == 0 ? KV_ZIPF : KV_UNIFORM;
        return o->distribution == KV_ZIPF || strcmp(optarg, "uniform") == 0;
    case 't':
        o->milliseconds = strtod(optarg, &end);
        return *end == '\0' && o->milliseconds > 0 && o->milliseconds <= 1e6;
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'p': o->parts = LOCI_TX_CHAINS; return true;
    case 'B': return o->blind = true;
    case 'j': return o->json = true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "clients", required_argument, NULL, 'c' }, { "hosts", required_argument, NULL, 'H' },
        { "keys", required_argument, NULL, 'k' }, { "mix", required_argument, NULL, 'm' },
        { "dist", required_argument, NULL, 'd' }, { "leaf-bytes", required_argument, NULL, 'b' },
        { "in-place", no_argument, NULL, 'p' }, { "blind", no_argument, NULL, 'B' },
        { "time", required_argument, NULL, 't' }, { "profile", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .clients = 16, .hosts = 1, .keys = 100000, .bytes = 1024,
                         .mix = kv_mix_find('a'), .distribution = KV_ZIPF,
                         .parts = LOCI_TX_ALL, .profile = "ib100", .milliseconds = 1 };
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
    return run(&o);
}
