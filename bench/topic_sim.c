/* SPDX-License-Identifier: BSD-3-Clause */
/* * Topics in the virtual time of a simulated network (docs/loco-sim-model.md): one publisher, and
 * what each subscriber is given in a second, at each level. Parts of the multicast can be left out,
 * down to the baseline of the paper of Spindle (its figure 18).
 *
 * The simulated network counts no copies within memory, and has no disk. So what a subscriber's
 * level adds is charged to its poller here: a copy of each sample where samples are kept, and where
 * they are logged a call for each batch and the disk's time for its bytes. */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "multicast/multicast_parts.h"

enum { MOST = 64, TICK = 1000 };

struct options {
    int subscribers, level, slots, bytes, samples, post;
    int copy, disk, call;       /* MB/s, MB/s, ns */
    unsigned parts;
    const char *profile;
    bool json;
};

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    int arrived, generation, done;
    double rate;                /* of all subscribers: samples a second */
};

struct member {
    struct work *w;
    loco_topic_t *t;
    int rank;
    uint64_t given;
    int64_t begin, end;
};

static int64_t time_of(int bytes, int mb_a_second)
{
    return (int64_t)bytes * 1000 / mb_a_second;
}

static void take(void *arg, const loco_sample_t *samples, int n)
{
    struct member *me = arg;
    const struct options *o = me->w->o;
    int64_t cost = 0;

    for (int i = 0; i < n; i++) {
        if (*(const uint64_t *)samples[i].data != me->given)
            loci_sim_fail("p%d is given sample %llu, not %llu", me->rank,
                          (unsigned long long)*(const uint64_t *)samples[i].data,
                          (unsigned long long)me->given);
        me->given++;
        if (me->given == (uint64_t)o->samples / 4)
            me->begin = loci_sim_time();
        cost += o->level >= LOCO_TOPIC_KEPT ? time_of(o->bytes, o->copy) : 0;
        cost += o->level >= LOCO_TOPIC_LOGGED ? time_of(o->bytes, o->disk) : 0;
    }
    cost += o->level >= LOCO_TOPIC_LOGGED ? o->call : 0;
    if (cost > 0)
        loci_sim_sleep(cost);
    if (me->given >= (uint64_t)o->samples && me->end == 0) {
        me->end = loci_sim_time();
        me->w->rate += (double)(me->given - (uint64_t)o->samples / 4)
                       / ((double)(me->end - me->begin) / 1e9);
        me->w->done++;
    }
}

static void meet(struct work *w)
{
    int generation = w->generation;

    if (++w->arrived == w->o->subscribers + 1) {
        w->arrived = 0;
        w->generation++;
    }
    while (w->generation == generation)
        loci_sim_sleep(TICK);
}

static int publish(struct member *me)
{
    uint64_t last = 0;

    for (uint64_t i = 0; i < (uint64_t)me->w->o->samples; i++) {
        uint64_t *slot;
        int status = loco_topic_reserve(me->t, (void **)&slot);

        if (status == LOCO_OK) {
            *slot = i;
            status = loco_topic_publish(me->t, slot, (size_t)me->w->o->bytes, &last);
        }
        if (status != LOCO_OK)
            return status;
    }
    return loco_topic_wait_delivered(me->t, last);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    static const int publisher[] = { 0 };
    struct work *w = arg;
    struct member me = { .w = w, .rank = rank };
    /* What is kept and logged is charged by the handler. */
    const loco_topic_options_t o = {
        .publishers = publisher, .npublishers = 1, .slots = w->o->slots,
        .slot_bytes = (size_t)w->o->bytes, .subscribe = rank > 0, .handler = rank > 0 ? take : NULL,
        .level = w->o->level < LOCO_TOPIC_ATOMIC ? LOCO_TOPIC_UNORDERED : LOCO_TOPIC_ATOMIC,
        .arg = &me,
    };
    int status = loco_topic_create(rt, NULL, "topic", loco_everyone(rt), &o, &me.t);

    if (status == LOCO_OK)
        status = loco_runtime_wait_ready(rt, LOCO_FOREVER);
    if (status == LOCO_OK) {
        meet(w);
        status = rank == 0 ? publish(&me) : LOCO_OK;
        while (status == LOCO_OK && w->done < w->o->subscribers)
            loci_sim_sleep(TICK);
        meet(w);
    }
    loco_topic_destroy(me.t);
    return status == LOCO_OK ? 0 : loci_sim_fail("p%d: %s", rank, loco_strerror(status));
}

static void report(const struct work *w)
{
    const struct options *o = w->o;
    double rate = w->rate / o->subscribers;

    printf(o->json ? "{\"subscribers\": %d, \"rate\": %.0f, \"gb\": %.4f}\n"
                   : "%d subscribers: %.0f samples a second, %.3f GB/s\n",
           o->subscribers, rate, rate * o->bytes / 1e9);
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", NULL };
    struct loci_sim_cost cost = *loci_sim_cost_named(o->profile);
    const struct loci_sim_config config = {
        .processes = o->subscribers + 1, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = &cost, .look_every = TICK,
    };
    struct work w = { .o = o };
    struct loci_sim_result result;

    cost.post = o->post > 0 ? o->post : cost.post;
    loci_multicast_parts = o->parts;
    loci_sim_run(&config, body, &w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        fprintf(stderr, "topic_sim: %s\n%s", result.text, result.detail);
    else
        report(&w);
    return result.verdict != LOCI_SIM_PASSED || ferror(stdout) ? 1 : 0;
}

static const char help[] =
    "usage: topic_sim [OPTION]...\n"
    "One publisher of a topic over a simulated network, in virtual time. Deterministic.\n\n"
    "  --subscribers N   (15)\n"
    "  --level NAME      unordered, atomic, kept or logged (atomic)\n"
    "  --bytes N         of a sample, at least 8 (10240)\n"
    "  --slots N         of the publisher (100)\n"
    "  --samples N       that are published; the first quarter is not measured (8000)\n"
    "  --copy MB         a second that a subscriber copies where samples are kept (10000)\n"
    "  --disk MB         a second that its disk takes where they are logged (2000)\n"
    "  --call NS         that it takes to have a batch written (2000)\n"
    "  --baseline        without batches, nulls and early release of the lock\n"
    "  --post NS         of the CPU, for each write (the profile's)\n"
    "  --profile NAME    the network (ib100)\n"
    "  --json            print the results as JSON\n";

static bool number(const char *text, long least, long most, int *to)
{
    char *end;
    long n = strtol(text, &end, 10);

    *to = (int)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}

static bool parse_level(const char *text, int *level)
{
    static const char *const names[] = { "unordered", "atomic", "kept", "logged" };

    for (*level = 0; *level < 4; ++*level)
        if (strcmp(text, names[*level]) == 0)
            return true;
    return false;
}

static bool parse_one(int option, struct options *o)
{
    switch (option) {
    case 's': return number(optarg, 1, MOST - 1, &o->subscribers);
    case 'l': return parse_level(optarg, &o->level);
    case 'b': return number(optarg, 8, 1 << 20, &o->bytes);
    case 'w': return number(optarg, 1, 1 << 20, &o->slots);
    case 'n': return number(optarg, 8, 1 << 30, &o->samples);
    case 'c': return number(optarg, 1, 1000000, &o->copy);
    case 'd': return number(optarg, 1, 1000000, &o->disk);
    case 'C': return number(optarg, 0, 1000000, &o->call);
    case 'p': return number(optarg, 1, 1000000, &o->post);
    case 'B': o->parts = 0; return true;
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'j': return o->json = true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "subscribers", required_argument, NULL, 's' }, { "level", required_argument, NULL, 'l' },
        { "bytes", required_argument, NULL, 'b' }, { "slots", required_argument, NULL, 'w' },
        { "samples", required_argument, NULL, 'n' }, { "copy", required_argument, NULL, 'c' },
        { "disk", required_argument, NULL, 'd' }, { "call", required_argument, NULL, 'C' },
        { "baseline", no_argument, NULL, 'B' }, { "post", required_argument, NULL, 'p' },
        { "profile", required_argument, NULL, 'f' }, { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    struct options o = { .subscribers = 15, .level = LOCO_TOPIC_ATOMIC, .slots = 100,
                         .bytes = 10240, .samples = 8000, .copy = 10000, .disk = 2000,
                         .call = 2000, .parts = LOCI_MC_ALL, .profile = "ib100" };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "topic_sim: not a value that this option takes: %s (--help)\n", optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "topic_sim: no such argument: %s (--help)\n", argv[optind]);
        return 2;
    }
    return run(&o);
}
