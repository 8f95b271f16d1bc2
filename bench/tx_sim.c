/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transactions of many clients on a store, in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how many there are in a second, how long each takes, and how many were
 * undone by others although their owner lived. Parts of them can be left out (tx_parts.h).
 *
 * Some processes keep the objects and do nothing else, the others run transactions, one after the
 * other, each on objects drawn at random. Each change adds one to the object's first word, so at
 * the end the words add up to the changes that were committed.
 */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/store.h>
#include <loco/tx.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "sim_times.h"
#include "store/tx_parts.h"

enum { MOST = 1024, SPLIT_WRITES = 3, AT_ONCE = 16, FIRST = 4, TICK = 1000 };

struct options {
    int clients, hosts, objects, writes, reads, split, bytes;
    unsigned parts;
    const char *patience;
    const char *profile;
    double milliseconds, stall_ms;
    int stall_one_in;
    bool json, lose;
};

struct counts {
    uint64_t commits, tries, aborted, suspected, writes, reads, atomics;
};

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    int arrived, generation;            /* where clients meet */
    int done;                           /* clients that are */
    int64_t begin, end;                 /* of what is measured */
    struct counts sum;
    uint64_t changes;                   /* committed from the first to the last */
    struct sim_times times;             /* of transactions */
    uint64_t found;                     /* what all words add up to */
};

struct client {
    struct work *w;
    loco_runtime_t *rt;
    loco_store_t *store;
    loco_tx_t *tx;
    int number;
    uint64_t random, turn;
    unsigned char *value;
    /* The transaction under way. */
    int n, writes;
    loco_object_t object[MOST];
};

/* ---- a transaction ---- */

static uint64_t below(struct client *c, uint64_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random % n;
}

static void draw(struct client *c)
{
    const struct options *o = c->w->o;
    bool splits = o->split > 0 && ++c->turn % (uint64_t)o->split == 0;

    c->writes = splits ? SPLIT_WRITES : o->writes;
    c->n = c->writes + o->reads;
    for (int i = 0; i < c->n;) {
        loco_object_t object = loco_store_root(c->store, below(c, (uint64_t)o->objects));
        int k = 0;

        while (k < i && c->object[k] != object)
            k++;
        if (k == i)
            c->object[i++] = object;
    }
}

static int change(loco_tx_t *tx, void *arg)
{
    struct client *c = arg;
    size_t len = (size_t)c->w->o->bytes;
    int statuses[MOST];
    int status = loco_tx_read_many(tx, (size_t)c->n, c->object, c->value, len, statuses);

    for (int i = 0; i < c->writes && status == LOCO_OK; i++) {
        unsigned char *value = c->value + (size_t)i * len;
        uint64_t number;

        memcpy(&number, value, sizeof number);
        number += !c->w->o->lose;
        memcpy(value, &number, sizeof number);
        status = loco_tx_write(tx, c->object[i], value, len);
    }
    return status;
}

static int one(struct client *c)
{
    struct work *w = c->w;
    int64_t begin = loci_sim_time();
    int status;

    draw(c);
    status = loco_tx_run(c->tx, change, c);
    if (status != LOCO_OK)
        return loci_sim_fail("client %d: %s", c->number, loco_strerror(status));
    w->changes += (uint64_t)c->writes;
    if (begin >= w->begin && loci_sim_time() <= w->end)
        sim_times_add(&w->times, loci_sim_time() - begin);
    return 0;
}

/* ---- a client ---- */

static void meet(struct work *w)
{
    int generation = w->generation;

    if (++w->arrived == w->o->clients) {
        w->arrived = 0;
        w->generation++;
    }
    while (w->generation == generation)
        loci_sim_sleep(TICK);
}

struct part {
    struct client *c;
    int first, end;
    uint64_t sum;
};

static int fill(loco_tx_t *tx, void *arg)
{
    const struct part *p = arg;
    int status = LOCO_OK;

    for (int i = p->first; i < p->end && status == LOCO_OK; i++)
        status = loco_tx_write(tx, loco_store_root(p->c->store, (uint64_t)i), p->c->value,
                               (size_t)p->c->w->o->bytes);
    return status;
}

static int add_up(loco_tx_t *tx, void *arg)
{
    struct part *p = arg;
    int status = LOCO_OK;

    p->sum = 0;
    for (int i = p->first; i < p->end && status == LOCO_OK; i++) {
        uint64_t number = 0;

        status = loco_tx_read(tx, loco_store_root(p->c->store, (uint64_t)i), p->c->value,
                              (size_t)p->c->w->o->bytes);
        memcpy(&number, p->c->value, sizeof number);
        p->sum += number;
    }
    return status;
}

/* Each client has a part of the objects, some of which are in each transaction. */
static int each_part(struct client *c, loco_tx_body_fn *body)
{
    int64_t objects = c->w->o->objects, clients = c->w->o->clients;
    int end = (int)(objects * (c->number + 1) / clients);

    for (int i = (int)(objects * c->number / clients); i < end; i += AT_ONCE) {
        struct part p = { c, i, i + AT_ONCE < end ? i + AT_ONCE : end, 0 };
        int status = loco_tx_run(c->tx, body, &p);

        if (status != LOCO_OK)
            return loci_sim_fail("client %d: %s", c->number, loco_strerror(status));
        c->w->found += p.sum;
    }
    return 0;
}

static void add_counts(struct client *c, struct counts *to, int sign)
{
    const struct loci_sim_counts n = loci_sim_counts(c->rt);
    loco_store_stats_t s;
    uint64_t by = (uint64_t)(int64_t)sign;

    loco_tx_stats(c->tx, &s);
    to->commits += by * s.commits;
    to->tries += by * (s.commits + s.conflicts);
    to->aborted += by * s.aborted_by_others;
    to->suspected += by * s.suspected;
    to->writes += by * n.writes;
    to->reads += by * n.reads;
    to->atomics += by * n.atomics;
}

/* The first few take memory from the hosts, which is slow where all do; then a tenth of the time
 * goes by before anything counts. */
static int measure(struct client *c)
{
    struct work *w = c->w;
    int64_t length = (int64_t)(w->o->milliseconds * 1e6);

    meet(w);                            /* all objects are there */
    for (int i = 0; i < FIRST; i++)
        if (one(c) != 0)
            return 1;
    meet(w);
    w->begin = loci_sim_time() + length / 10;
    w->end = w->begin + length;
    meet(w);
    while (loci_sim_time() < w->begin)
        if (one(c) != 0)
            return 1;
    add_counts(c, &w->sum, -1);
    while (loci_sim_time() < w->end)
        if (one(c) != 0)
            return 1;
    add_counts(c, &w->sum, 1);
    meet(w);
    return 0;
}

static int be_client(struct client *c)
{
    int result;

    if (loco_tx_open(c->store, &c->tx) != LOCO_OK)
        return loci_sim_fail("client %d: no handle", c->number);
    result = each_part(c, fill);
    if (result == 0)
        result = measure(c);
    if (result == 0)
        result = each_part(c, add_up);
    loco_tx_close(c->tx);
    return result;
}

/* ---- a process ---- */

static int make_store(struct work *w, loco_runtime_t *rt, loco_store_t **store)
{
    const struct options *o = w->o;
    uint64_t each = (uint64_t)(o->objects / o->hosts) + 1, block = (uint64_t)o->bytes * 3 / 2 + 256;
    int hosts[MOST];
    const loco_store_options_t options = {
        .bytes = (each + (uint64_t)o->clients * 2 * LOCO_TX_WRITES_MAX) * block
                 + (UINT64_C(4) << 20),
        .objects = each + 1, .roots = (uint64_t)o->objects, .hosts = hosts, .nhosts = o->hosts,
        .threads = 1,
    };
    int status;

    for (int i = 0; i < o->hosts; i++)
        hosts[i] = i;
    status = loco_store_create(rt, NULL, "objects", loco_everyone(rt), &options, store);
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
        c.random = ((uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
        c.value = calloc(MOST, (size_t)w->o->bytes);
        result = c.value == NULL ? loci_sim_fail("no memory") : be_client(&c);
        free(c.value);
        w->done++;
    }
    while (w->done < w->o->clients)
        loci_sim_sleep(TICK);
    loco_store_destroy(c.store);
    return result;
}

/* ---- what it comes to ---- */

static void report(struct work *w)
{
    const struct options *o = w->o;
    const struct counts *n = &w->sum;
    double commits = n->commits > 0 ? (double)n->commits : 1;
    double rate = (double)w->times.count / o->milliseconds * 1000;
    double share = (double)n->aborted / (commits + (double)n->aborted);

    sim_times_sort(&w->times);
    if (o->json)
        printf("{\"clients\": %d, \"rate\": %.1f, \"median_us\": %.3f, \"mean_us\": %.3f, "
               "\"late_us\": %.3f, \"commits\": %llu, \"tries\": %llu, "
               "\"aborted_by_others\": %llu, \"suspected\": %llu, \"share\": %.6f, "
               "\"reads\": %.3f, \"writes\": %.3f, \"atomics\": %.3f}\n",
               o->clients, rate, sim_times_us(&w->times, 0.5), sim_times_mean_us(&w->times),
               sim_times_us(&w->times, 0.99),
               (unsigned long long)n->commits, (unsigned long long)n->tries,
               (unsigned long long)n->aborted, (unsigned long long)n->suspected, share,
               (double)n->reads / commits, (double)n->writes / commits,
               (double)n->atomics / commits);
    else
        printf("%.0f transactions a second by %d clients; %.2f us in the middle, "
               "%.2f on average, %.2f for 99 of 100;\n%llu of %llu tries committed, "
               "%llu undone by others (%.3f %%); each %.2f reads, %.2f writes, %.2f atomics\n",
               rate, o->clients, sim_times_us(&w->times, 0.5), sim_times_mean_us(&w->times),
               sim_times_us(&w->times, 0.99),
               (unsigned long long)n->commits, (unsigned long long)n->tries,
               (unsigned long long)n->aborted, 100 * share,
               (double)n->reads / commits, (double)n->writes / commits,
               (double)n->atomics / commits);
}

static int run(const struct options *o)
{
    char patience[64];
    const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", patience, NULL };
    const struct loci_sim_config config = {
        .processes = o->hosts + o->clients, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .look_every = TICK,
        .stall = (int64_t)(o->stall_ms * 1e6), .stall_one_in = (uint32_t)o->stall_one_in,
    };
    struct loci_sim_result result;
    struct work w = { .o = o };

    snprintf(patience, sizeof patience, "LOCO_TX_PATIENCE=%s", o->patience);
    loci_tx_parts = o->parts;
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED || w.found != w.changes) {
        fprintf(stderr, "tx_sim: %s (%llu changes, %llu found)\n%s", result.text,
                (unsigned long long)w.changes, (unsigned long long)w.found, result.detail);
        return 1;
    }
    report(&w);
    free(w.times.ns);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: tx_sim [OPTION]...\n"
    "Transactions on a simulated network, in virtual time: rate, latency, and how many were\n"
    "undone by others. Deterministic.\n\n"
    "  --clients N       processes that run transactions (16)\n"
    "  --hosts N         others, which keep the objects (1)\n"
    "  --objects N       in all (1000)\n"
    "  --writes N        that a transaction reads and changes, at most 64 (1)\n"
    "  --reads N         and that it only reads, at most 64 (0)\n"
    "  --split N         each Nth transaction changes 3, as one that splits a leaf (0: none)\n"
    "  --bytes N         of a value (1024)\n"
    "  --parts LIST      of copy,log,check,single,chains; or all, or none (all)\n"
    "  --patience TIME   LOCO_TX_PATIENCE (1ms)\n"
    "  --time MS         milliseconds of virtual time that count (2)\n"
    "  --stall MS        a client loses its core for so long (0: never),\n"
    "  --stall-one-in N  each Nth time that it has waited, on average (1000)\n"
    "  --profile NAME    of the network (ib100)\n"
    "  --lose            count changes that are not made: it has to be found\n"
    "  --json            as JSON\n"
    "  --help\n\n"
    "Exit status: 0; 1 it went wrong, or the changes do not add up; 2 wrong use.\n";

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "tx_sim: %s \"%s\"; see tx_sim --help\n", what, text);
    return 2;
}

static bool number(const char *text, int least, int most, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < least || n > most)
        return false;
    *value = (int)n;
    return true;
}

static bool parse_parts(const char *text, unsigned *parts)
{
    static const char *const name[] = { "copy", "log", "check", "single", "chains" };

    *parts = strcmp(text, "all") == 0 ? LOCI_TX_ALL : 0;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return true;
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        unsigned i = 0;

        while (i < 5 && (strlen(name[i]) != len || strncmp(name[i], text, len) != 0))
            i++;
        if (i == 5)
            return false;
        *parts |= 1u << i;
        text += len + (text[len] == ',');
    }
    return true;
}

static bool parse_one(int option, struct options *o)
{
    char *end;

    switch (option) {
    case 'c': return number(optarg, 1, MOST, &o->clients);
    case 'H': return number(optarg, 1, MOST, &o->hosts);
    case 'o': return number(optarg, 1, 10000000, &o->objects);
    case 'w': return number(optarg, 1, LOCO_TX_WRITES_MAX, &o->writes);
    case 'r': return number(optarg, 0, LOCO_TX_WRITES_MAX, &o->reads);
    case 's': return number(optarg, 0, 1000000, &o->split);
    case 'b': return number(optarg, 8, LOCO_STORE_VALUE_MAX, &o->bytes);
    case 'P': return parse_parts(optarg, &o->parts);
    case 'p': o->patience = optarg; return strlen(optarg) < 32;
    case 't':
        o->milliseconds = strtod(optarg, &end);
        return *end == '\0' && o->milliseconds > 0 && o->milliseconds <= 1e6;
    case 'S':
        o->stall_ms = strtod(optarg, &end);
        return *end == '\0' && o->stall_ms >= 0 && o->stall_ms <= 1e6;
    case 'n': return number(optarg, 1, 1000000000, &o->stall_one_in);
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "clients", required_argument, NULL, 'c' }, { "hosts", required_argument, NULL, 'H' },
        { "objects", required_argument, NULL, 'o' }, { "writes", required_argument, NULL, 'w' },
        { "reads", required_argument, NULL, 'r' }, { "split", required_argument, NULL, 's' },
        { "bytes", required_argument, NULL, 'b' }, { "parts", required_argument, NULL, 'P' },
        { "patience", required_argument, NULL, 'p' }, { "time", required_argument, NULL, 't' },
        { "stall", required_argument, NULL, 'S' },
        { "stall-one-in", required_argument, NULL, 'n' },
        { "profile", required_argument, NULL, 'f' }, { "json", no_argument, NULL, 'j' },
        { "lose", no_argument, NULL, 'l' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .clients = 16, .hosts = 1, .objects = 1000, .writes = 1, .bytes = 1024,
                         .parts = LOCI_TX_ALL, .patience = "1ms", .profile = "ib100",
                         .milliseconds = 2, .stall_one_in = 1000 };
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == 'j')
            o.json = true;
        else if (option == 'l')
            o.lose = true;
        else if (option == '?')
            return wrong("not understood:", argv[optind - 1]);
        else if (!parse_one(option, &o))
            return wrong("not a value that this option takes:", optarg);
    }
    if (optind < argc)
        return wrong("no such argument:", argv[optind]);
    if (o.writes + o.reads > o.objects || (o.split > 0 && SPLIT_WRITES + o.reads > o.objects))
        return wrong("fewer objects than a transaction is of:", "--objects");
    return run(&o);
}
