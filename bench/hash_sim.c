/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates and look-ups of a hash table in the memory of processes that do nothing else, as RACE and
 * SMART have them (ASPLOS 2024, sections 3.3 and 6.2.1), in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how many there are in a second, how often an update is tried, and how
 * long it takes. The paper's contention, and what pauses after a failure gain.
 *
 * An operation reads two buckets of 64 bytes at once; a look-up then reads the key's block. An
 * update writes a new block and swaps the key's word from what it saw to that block's place, in one
 * chain; where another was ahead it pauses as it is told, reads the buckets again, and tries again.
 * Several tasks stand for the coroutines of a thread, and have lanes of their own. Each swap that
 * comes through adds one to the version in its word, so at the end the versions add up to the
 * updates.
 */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "../mpi_examples/kv_workload.h"
#include "backoff.h"
#include "base/region.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "move/rma.h"
#include "sim_times.h"

enum { BUCKET = 64, BLOCK = 64, TASKS_MOST = 1024, MOST = 64, BLOCKS = 8 };

enum pauses { NONE, FIXED, FULL };

struct options {
    int threads, tasks, hosts, clients, keys, outstanding, registers, updates;
    enum pauses pauses;
    bool uniform, json, lose;
    const char *profile;
    double milliseconds;
};

struct work {
    const struct options *o;
    struct kv_zipf zipf;
    loco_region_t *region[MOST];        /* of each client */
    loco_runtime_t *rt[MOST];
    int64_t begin, end;
    uint64_t done, tries, first;        /* in that time; updates that came through at once */
    uint64_t updated, counted, swapped; /* in that time; of all times */
    uint64_t found;                     /* what the versions add up to */
    int finished;
    struct sim_times times;             /* of updates */
};

struct task {
    struct work *w;
    loco_runtime_t *rt;
    loco_region_t *region;
    uint64_t random, block, turn;
};

/* ---- places ---- */

static int host_of(const struct work *w, uint64_t key)
{
    return (int)(key % (uint64_t)w->o->hosts);
}

static uint64_t bucket_of(const struct work *w, uint64_t key)
{
    return key / (uint64_t)w->o->hosts * BUCKET;
}

static uint64_t table_len(const struct options *o)
{
    return ((uint64_t)o->keys / (uint64_t)o->hosts + 2) * BUCKET;
}

static uint64_t region_len(const struct options *o)
{
    return table_len(o) + (uint64_t)o->clients * (uint64_t)(o->threads * o->tasks)
                          * BLOCKS * BLOCK;
}

static uint64_t draw(struct task *t)
{
    uint64_t keys = (uint64_t)t->w->o->keys;

    return t->w->o->uniform ? kv_random(&t->random) % keys
           : kv_mix64(kv_zipf_draw(&t->w->zipf, &t->random) + 1) % keys;
}

/* ---- operations ---- */

static int read_buckets(struct task *t, uint64_t key, unsigned char (*bucket)[BUCKET])
{
    struct loci_op ops[2];
    loco_ack_t ack = LOCO_ACK_INIT;
    int host = host_of(t->w, key), status;

    for (int i = 0; i < 2; i++)
        ops[i] = (struct loci_op){
            .kind = LOCI_READ, .mem = loci_region_mem(t->region, host), .local = bucket[i],
            .offset = bucket_of(t->w, key) + (uint64_t)i * BUCKET, .len = BUCKET,
        };
    status = loci_post_spans(t->rt, ops, 2, &ack);
    return status < 0 ? status : loco_ack_wait(t->rt, &ack);
}

/* A new block, and the word from `seen` to it: its version above, its place below. */
static int swap_in(struct task *t, uint64_t key, uint64_t seen, uint64_t *old)
{
    unsigned char value[BLOCK] = { 0 };
    struct loci_mem *mem = loci_region_mem(t->region, host_of(t->w, key));
    uint64_t at = t->block + t->turn++ % BLOCKS * BLOCK;
    struct loci_op ops[2] = {
        { .kind = LOCI_WRITE, .mem = mem, .offset = at, .local = value, .len = BLOCK },
        { .kind = LOCI_COMPARE_SWAP, .mem = mem, .offset = bucket_of(t->w, key), .len = 8,
          .compare = seen, .operand = ((seen >> 32) + 1) << 32 | (at & UINT32_MAX),
          .result = old },
    };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = loci_post_spans(t->rt, ops, 2, &ack);

    return status < 0 ? status : loco_ack_wait(t->rt, &ack);
}

static void pause_as_told(struct task *t, struct loci_backoff *b)
{
    if (t->w->o->pauses == FULL)
        loci_backoff_pause(b);
    else if (t->w->o->pauses == FIXED)
        loci_pause(t->rt, "a pause", LOCI_WAIT_RETRY, loci_round_trip(t->rt, b->mem));
}

static int update(struct task *t, uint64_t key, int *tries)
{
    unsigned char bucket[2][BUCKET];
    struct loci_backoff b;
    uint64_t seen, old;
    int status = read_buckets(t, key, bucket);

    loci_backoff_begin(&b, t->rt, loci_region_mem(t->region, host_of(t->w, key)));
    for (*tries = 1; status == LOCO_OK; (*tries)++) {
        memcpy(&seen, bucket[0], sizeof seen);
        status = swap_in(t, key, seen, &old);
        if (status != LOCO_OK || old == seen)
            break;
        pause_as_told(t, &b);
        status = read_buckets(t, key, bucket);
    }
    t->w->swapped += status == LOCO_OK;
    return status;
}

static int look_up(struct task *t, uint64_t key)
{
    unsigned char bucket[2][BUCKET];
    uint64_t word;
    int status = read_buckets(t, key, bucket);

    memcpy(&word, bucket[0], sizeof word);
    if (status == LOCO_OK)
        status = loco_region_read(t->region, host_of(t->w, key), word & UINT32_MAX, bucket[1],
                                  BLOCK);
    return status;
}

static int one(struct task *t)
{
    struct work *w = t->w;
    int64_t begin = loci_sim_time(), end;
    uint64_t key = draw(t);
    bool updates = (int)(kv_random(&t->random) % 100) < w->o->updates;
    int tries = 0, status = updates ? update(t, key, &tries) : look_up(t, key);

    if (status != LOCO_OK)
        return loci_sim_fail("%s", loco_strerror(status));
    end = loci_sim_time();
    if (end < w->begin || end > w->end)
        return 0;
    w->done++;
    if (updates) {
        w->updated++;
        w->tries += (uint64_t)tries;
        w->first += tries == 1;
        sim_times_add(&w->times, end - begin);
    }
    return 0;
}

/* ---- a task ---- */

struct client {
    struct work *w;
    int number;
};

static int use(void *arg, int number)
{
    struct client *c = arg;
    struct work *w = c->w;
    int tasks = w->o->threads * w->o->tasks;
    struct task t = { .w = w, .rt = w->rt[c->number], .region = w->region[c->number] };
    uint64_t all = (uint64_t)(c->number * tasks + number);

    t.random = kv_mix64(all + 1);
    t.block = table_len(w->o) + all * BLOCKS * BLOCK;
    while (loci_sim_time() < w->end)
        if (one(&t) != 0)
            return 1;
    return 0;
}

static int be_client(struct work *w, loco_runtime_t *rt, int number, loco_region_t *region)
{
    struct client c = { w, number };

    w->rt[number] = rt;
    w->region[number] = region;
    if (number == 0) {
        w->begin = loci_sim_time() + (int64_t)(w->o->milliseconds * 1e6 / 4) + 100000;
        w->end = w->begin + (int64_t)(w->o->milliseconds * 1e6);
    }
    while (w->end == 0)
        loci_sim_sleep(1000);
    return loci_sim_threads(rt, w->o->threads * w->o->tasks, use, &c);
}

/* ---- a process ---- */

static uint64_t versions(const struct options *o, loco_region_t *region)
{
    const unsigned char *base = loco_region_local(region);
    uint64_t sum = 0;

    for (uint64_t at = 0; at < table_len(o); at += BUCKET) {
        uint64_t word;

        memcpy(&word, base + at, sizeof word);
        sum += word >> 32;
    }
    return sum;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    loco_region_t *region;
    int result = 0;
    int status = loco_region_create(rt, NULL, "table", loco_everyone(rt),
                                    (size_t)region_len(w->o), &region);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status != LOCO_OK)
        return loci_sim_fail("p%d: no table: %s", rank, loco_strerror(status));
    if (rank >= w->o->hosts) {
        result = be_client(w, rt, rank - w->o->hosts, region);
        w->finished++;
    }
    while (w->finished < w->o->clients)
        loci_sim_sleep(1000);
    if (rank < w->o->hosts)
        w->found += versions(w->o, region);
    loco_region_destroy(region);
    return result;
}

/* ---- what it comes to ---- */

static void report(struct work *w)
{
    const struct options *o = w->o;
    double rate = (double)w->done / o->milliseconds / 1000;
    double updates = w->updated > 0 ? (double)w->updated : 1;

    sim_times_sort(&w->times);
    printf(o->json ? "{\"threads\": %d, \"tasks\": %d, \"rate\": %.4f, \"tries\": %.4f, "
                     "\"first\": %.2f, \"median_us\": %.2f, \"late_us\": %.2f}\n"
           : "%d threads of %d tasks: %.3f million a second; %.3f tries an update, %.1f %% come "
             "through at once; %.2f us in the middle, %.2f for 99 of 100\n",
           o->threads, o->tasks, rate, (double)w->tries / updates,
           100 * (double)w->first / updates, sim_times_us(&w->times, 0.5),
           sim_times_us(&w->times, 0.99));
}

static int run(const struct options *o)
{
    char bound[64];
    const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=inf", bound, NULL };
    const struct loci_sim_config config = {
        .processes = o->hosts + o->clients, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .registers = o->registers, .look_every = 1000,
        .private_lanes = true,
    };
    struct loci_sim_result result;
    struct work w = { .o = o };

    snprintf(bound, sizeof bound, o->outstanding > 0 ? "LOCO_RDMA_OUTSTANDING=%d"
             : "LOCO_RDMA_OUTSTANDING=inf", o->outstanding);
    kv_zipf_init(&w.zipf, (uint64_t)o->keys, KV_ZIPF_THETA);
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    w.swapped += o->lose;
    if (result.verdict != LOCI_SIM_PASSED || w.found != w.swapped) {
        fprintf(stderr, "hash_sim: %s (%llu updates, %llu found)\n%s", result.text,
                (unsigned long long)w.swapped, (unsigned long long)w.found, result.detail);
        return 1;
    }
    report(&w);
    free(w.times.ns);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: hash_sim [OPTION]...\n"
    "Updates and look-ups of a hash table over a simulated network, in virtual time.\n"
    "Deterministic.\n\n"
    "  --threads N       of a client (16)\n"
    "  --tasks N         that each has under way (8)\n"
    "  --clients N       processes that use the table (1)\n"
    "  --hosts N         others, which keep it (2)\n"
    "  --keys N          (100000)\n"
    "  --updates N       in a hundred operations; the others look a key up (100)\n"
    "  --dist uniform|zipf (zipf)\n"
    "  --pauses none|fixed|full   after a failure: none, a round trip, or the runtime's (full)\n"
    "  --outstanding N   requests of a client at its device, at most (0: no bound)\n"
    "  --registers N     doorbell registers that a client's tasks share (0: each has its own)\n"
    "  --time MS         of virtual time that is measured (2)\n"
    "  --profile NAME    the network (ib200)\n"
    "  --lose            count an update that is not made: it has to be found\n"
    "  --json            print the results as JSON\n";

static bool parse_pauses(const char *text, enum pauses *pauses)
{
    static const char *const names[] = { "none", "fixed", "full" };

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *pauses = (enum pauses)i;
            return true;
        }
    return false;
}

static bool parse_one(int option, struct options *o)
{
    switch (option) {
    case 't': return sim_number(optarg, 1, TASKS_MOST, &o->threads);
    case 'a': return sim_number(optarg, 1, TASKS_MOST, &o->tasks);
    case 'c': return sim_number(optarg, 1, MOST, &o->clients);
    case 'H': return sim_number(optarg, 1, MOST, &o->hosts);
    case 'k': return sim_number(optarg, 1, 10000000, &o->keys);
    case 'u': return sim_number(optarg, 0, 100, &o->updates);
    case 'd':
        o->uniform = strcmp(optarg, "uniform") == 0;
        return o->uniform || strcmp(optarg, "zipf") == 0;
    case 'p': return parse_pauses(optarg, &o->pauses);
    case 'o': return sim_number(optarg, 0, 1000000, &o->outstanding);
    case 'r': return sim_number(optarg, 0, 512, &o->registers);
    case 'T': return sim_real(optarg, 1e6, &o->milliseconds);
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'l': return o->lose = true;
    case 'j': return o->json = true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "threads", required_argument, NULL, 't' }, { "tasks", required_argument, NULL, 'a' },
        { "clients", required_argument, NULL, 'c' }, { "hosts", required_argument, NULL, 'H' },
        { "keys", required_argument, NULL, 'k' }, { "updates", required_argument, NULL, 'u' },
        { "dist", required_argument, NULL, 'd' }, { "pauses", required_argument, NULL, 'p' },
        { "outstanding", required_argument, NULL, 'o' },
        { "registers", required_argument, NULL, 'r' }, { "time", required_argument, NULL, 'T' },
        { "profile", required_argument, NULL, 'f' }, { "lose", no_argument, NULL, 'l' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .threads = 16, .tasks = 8, .hosts = 2, .clients = 1, .keys = 100000,
                         .updates = 100, .pauses = FULL, .profile = "ib200",
                         .milliseconds = 2 };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "hash_sim: not a value that this option takes: %s (--help)\n",
                    optarg);
            return 2;
        }
    }
    if (optind < argc || o.threads * o.tasks > TASKS_MOST) {
        fprintf(stderr, optind < argc ? "hash_sim: no such argument: %s (--help)\n"
                : "hash_sim: more than 1024 tasks of a client (--help)\n", argv[optind]);
        return 2;
    }
    return run(&o);
}
