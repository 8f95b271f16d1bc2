/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words read or written by many threads of one process, in the virtual time of a simulated network
 * (docs/loco-sim-model.md): how many there are in a second, by threads and by operations that each
 * has outstanding. A device minds both.
 *
 * One process keeps the words, the threads of the other use them: each begins so many operations,
 * waits for all, and begins again.
 */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "base/region.h"
#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "move/rma.h"
#include "sim_times.h"

enum { THREADS_MOST = 1024, OUTSTANDING_MOST = 128, SETTINGS_MOST = 6, WARM = 4 };

struct options {
    int threads, least, outstanding, registers, cores;
    bool writes, chained, json;
    const char *profile;
    const char *settings[SETTINGS_MOST + 3];
    int nsettings;
    double milliseconds, change_ms;
};

struct work {
    const struct options *o;
    loco_region_t *region;
    int64_t begin, end, change;         /* of what is measured; ns between changes, 0: none */
    uint64_t done;
    uint64_t rings, rings_before;
    struct sim_times batches;
    loco_runtime_t *rt;
};

/* ---- a thread ---- */

/* How many threads take part at that time: drawn anew after each change, the same for all. */
static int taking_part(const struct work *w, int64_t now)
{
    const struct options *o = w->o;
    uint64_t turn = w->change > 0 ? (uint64_t)(now / w->change) : 0;

    if (w->change == 0)
        return o->threads;
    turn *= UINT64_C(0x9e3779b97f4a7c15);
    turn ^= turn >> 29;
    turn *= UINT64_C(0xbf58476d1ce4e5b9);
    turn ^= turn >> 32;
    return o->least + (int)(turn % (uint64_t)(o->threads - o->least + 1));
}

static int begin_one(const struct work *w, uint64_t at, uint64_t *word, loco_ack_t *ack)
{
    return w->o->writes ? loco_region_write64_ack(w->region, 0, at, *word, ack)
           : loco_region_read64_ack(w->region, 0, at, word, ack);
}

static int begin_chained(const struct work *w, uint64_t at, uint64_t *words, loco_ack_t *ack)
{
    struct loci_op ops[OUTSTANDING_MOST];
    int n = w->o->outstanding;

    for (int i = 0; i < n; i++)
        ops[i] = (struct loci_op){
            .kind = w->o->writes ? LOCI_WRITE : LOCI_READ,
            .mem = loci_region_mem(w->region, 0), .offset = at + (uint64_t)i * 8,
            .local = &words[i], .len = 8, .by_value = w->o->writes,
        };
    return loci_post_spans(w->rt, ops, n, ack);
}

static int batch(struct work *w, uint64_t at)
{
    uint64_t words[OUTSTANDING_MOST] = { 0 };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    if (w->o->chained)
        status = begin_chained(w, at, words, &ack);
    for (int i = 0; i < w->o->outstanding && status >= 0 && !w->o->chained; i++)
        status = begin_one(w, at + (uint64_t)i * 8, &words[i], &ack);
    if (status >= 0)
        status = loco_ack_wait(w->rt, &ack);
    return status < 0 ? loci_sim_fail("%s", loco_strerror(status)) : 0;
}

static int use(void *arg, int thread)
{
    struct work *w = arg;
    uint64_t at = (uint64_t)thread * OUTSTANDING_MOST * 8;

    for (int i = 0; i < WARM; i++)
        if (batch(w, at) != 0)
            return 1;
    loci_sim_sleep(w->begin - loci_sim_time());
    if (thread == 0)
        w->rings_before = loci_sim_counts(w->rt).rings;
    for (int64_t now = w->begin; now < w->end; now = loci_sim_time()) {
        if (thread >= taking_part(w, now)) {
            loci_sim_sleep(w->change - now % w->change);
            continue;
        }
        if (batch(w, at) != 0)
            return 1;
        if (loci_sim_time() <= w->end) {
            w->done += (uint64_t)w->o->outstanding;
            sim_times_add(&w->batches, loci_sim_time() - now);
        }
    }
    if (thread == 0)
        w->rings = loci_sim_counts(w->rt).rings - w->rings_before;
    return 0;
}

/* ---- a process ---- */

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    size_t len = (size_t)w->o->threads * OUTSTANDING_MOST * 8;
    loco_region_t *region;
    int status = loco_region_create(rt, NULL, "words", loco_everyone(rt), len, &region);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status != LOCO_OK)
        return loci_sim_fail("p%d: no words: %s", rank, loco_strerror(status));
    if (rank == 1) {
        w->region = region;
        w->rt = rt;
        w->begin = loci_sim_time() + INT64_C(3000000);
        w->change = (int64_t)(w->o->change_ms * 1e6);
        w->end = w->begin + (int64_t)(w->o->milliseconds * 1e6);
        status = loci_sim_threads(rt, w->o->threads, use, w);
    } else {
        loci_sim_sleep(INT64_C(4000000) + (int64_t)(w->o->milliseconds * 1e6));
    }
    loco_region_destroy(region);
    return status;
}

/* ---- what it comes to ---- */

static void report(struct work *w)
{
    double rate = (double)w->done / w->o->milliseconds / 1000;

    sim_times_sort(&w->batches);
    if (w->o->json)
        printf("{\"threads\": %d, \"outstanding\": %d, \"rate\": %.4f, \"median_us\": %.3f, "
               "\"late_us\": %.3f, \"rings\": %llu}\n", w->o->threads, w->o->outstanding, rate,
               sim_times_us(&w->batches, 0.5), sim_times_us(&w->batches, 0.99),
               (unsigned long long)w->rings);
    else
        printf("%d threads, %d outstanding each: %.2f million a second; %d take %.2f us in the "
               "middle, %.2f for 99 of 100\n", w->o->threads, w->o->outstanding, rate,
               w->o->outstanding, sim_times_us(&w->batches, 0.5),
               sim_times_us(&w->batches, 0.99));
}

/* Two threads of a core share it: each is at 0.75 of its speed (hyperthreads). */
static int cpu_percent(const struct options *o)
{
    int more = o->threads > o->cores ? o->threads - o->cores : 0;

    more = more > o->cores ? o->cores : more;
    return o->cores > 0 ? 100 + 33 * more / o->cores : 100;
}

static int run(struct options *o)
{
    const struct loci_sim_config config = {
        .processes = 2, .seed = 1, .strategy = LOCI_SIM_TIMED, .faults = LOCI_SIM_NO_FAULTS,
        .settings = o->settings, .step_limit = UINT64_MAX,
        .cost = loci_sim_cost_named(o->profile), .registers = o->registers,
        .cpu_percent = cpu_percent(o), .private_lanes = true, .look_every = 1000,
    };
    struct loci_sim_result result;
    struct work w = { .o = o };

    o->settings[o->nsettings] = NULL;
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED) {
        fprintf(stderr, "rma_sim: %s\n%s", result.text, result.detail);
        return 1;
    }
    report(&w);
    free(w.batches.ns);
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: rma_sim [OPTION]...\n"
    "Words of another process, read or written by many threads of one, over a simulated network,\n"
    "in virtual time. Deterministic.\n\n"
    "  --threads N       (48)\n"
    "  --outstanding N   operations that each begins before it waits for all, at most 128 (8)\n"
    "  --write           instead of reads\n"
    "  --chained         those are one chain, with one ring of the doorbell, instead of one each\n"
    "  --registers N     doorbell registers that the threads share (0: each has its own)\n"
    "  --cores N         of the machine; more threads than that share them in pairs (48)\n"
    "  --change MS       each so often another number of threads takes part, from\n"
    "  --least N         (36) to --threads\n"
    "  --set NAME=VALUE  a setting of the runtime, at most 6 of them\n"
    "  --time MS         of virtual time that is measured (0.5)\n"
    "  --profile NAME    the network (ib200)\n"
    "  --json            print the results as JSON\n";

static bool parse_one(int option, struct options *o)
{
    switch (option) {
    case 't': return sim_number(optarg, 1, THREADS_MOST, &o->threads);
    case 'o': return sim_number(optarg, 1, OUTSTANDING_MOST, &o->outstanding);
    case 'w': return o->writes = true;
    case 'c': return o->chained = true;
    case 'r': return sim_number(optarg, 0, 512, &o->registers);
    case 'C': return sim_number(optarg, 1, THREADS_MOST, &o->cores);
    case 'x': return sim_real(optarg, 1e6, &o->change_ms);
    case 'l': return sim_number(optarg, 1, THREADS_MOST, &o->least);
    case 's':
        if (o->nsettings == SETTINGS_MOST + 2 || strchr(optarg, '=') == NULL)
            return false;
        o->settings[o->nsettings++] = optarg;
        return true;
    case 'T': return sim_real(optarg, 1e6, &o->milliseconds);
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'j': return o->json = true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "threads", required_argument, NULL, 't' },
        { "outstanding", required_argument, NULL, 'o' }, { "write", no_argument, NULL, 'w' },
        { "chained", no_argument, NULL, 'c' }, { "registers", required_argument, NULL, 'r' },
        { "cores", required_argument, NULL, 'C' }, { "change", required_argument, NULL, 'x' },
        { "least", required_argument, NULL, 'l' }, { "set", required_argument, NULL, 's' },
        { "time", required_argument, NULL, 'T' }, { "profile", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .threads = 48, .least = 36, .outstanding = 8, .cores = 48,
                         .profile = "ib200", .milliseconds = 0.5,
                         .settings = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=inf" }, .nsettings = 2 };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "rma_sim: not a value that this option takes: %s (--help)\n", optarg);
            return 2;
        }
    }
    if (optind < argc || (o.change_ms > 0 && o.least > o.threads)) {
        fprintf(stderr, optind < argc ? "rma_sim: no such argument: %s (--help)\n"
                        : "rma_sim: --least is more than --threads (--help)\n", argv[optind]);
        return 2;
    }
    return run(&o);
}
