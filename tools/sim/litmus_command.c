/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-sim litmus: the rules of the simulated network, shown by small programs. */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "litmus.h"

#define SEEDS 20000

struct request {
    const char *name;           /* NULL: all */
    uint64_t first, last;
    bool replay;
    uint64_t seed;              /* where replay */
};

static int usage(FILE *to, int result)
{
    fprintf(to, "usage: loco-sim litmus [NAME] [--seeds A..B] [--trace SEED]\n"
            "Small programs on the bare operations of the network, with every outcome that its\n"
            "rules allow and how often it came; all must come, and no other.\n"
            "  --seeds A..B   which seeds (1..%d)\n"
            "  --trace SEED   one run of NAME instead, event by event\n\n", SEEDS);
    return result;
}

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "loco-sim litmus: %s \"%s\"; see loco-sim litmus --help\n", what, text);
    return 2;
}

/* Digits alone: strtoull takes signs. */
static bool number(const char *text, char **end, uint64_t *value)
{
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *value = strtoull(text, end, 10);
    return errno == 0;
}

static bool parse_seeds(const char *text, struct request *r)
{
    char *end;

    if (!number(text, &end, &r->first) || strncmp(end, "..", 2) != 0)
        return false;
    return number(end + 2, &end, &r->last) && *end == '\0' && r->first <= r->last;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct request *r)
{
    static const struct option options[] = {
        { "help", no_argument, NULL, 'h' }, { "seeds", required_argument, NULL, 's' },
        { "trace", required_argument, NULL, 't' }, { NULL, 0, NULL, 0 },
    };
    char *end;
    int c;

    optind = 0;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'h': return usage(stdout, 0);
        case 's':
            if (!parse_seeds(optarg, r))
                return wrong("--seeds wants A..B with A not above B, not", optarg);
            break;
        case 't':
            r->replay = true;
            if (!number(optarg, &end, &r->seed) || *end != '\0')
                return wrong("--trace wants the number of a seed, not", optarg);
            break;
        default: return usage(stderr, 2);
        }
    }
    if (optind < argc)
        r->name = argv[optind++];
    if (optind < argc)
        return wrong("one NAME is enough; what is", argv[optind]);
    if (r->replay && r->name == NULL)
        return wrong("--trace needs the NAME of a litmus test beside", "SEED");
    return -1;
}

static int run_all(const struct request *r)
{
    int tests = 0, bad = 0;
    const struct sim_litmus *litmus;

    for (int i = 0; (litmus = sim_litmus_at(i)) != NULL; i++) {
        struct sim_litmus_report report;

        if (r->name != NULL && strcmp(r->name, sim_litmus_name(litmus)) != 0)
            continue;
        tests++;
        if (r->replay) {
            sim_litmus_replay(litmus, r->seed, stdout);
            return 0;
        }
        if (sim_litmus_run(litmus, r->first, r->last, stdout, &report) != 0)
            bad++;
        printf("  %d of %d allowed outcomes, %" PRIu64 " forbidden, in %" PRIu64 " runs\n\n",
               report.seen, report.allowed, report.forbidden, report.runs);
    }
    if (tests == 0)
        return wrong("there is no litmus test", r->name);
    printf("%d litmus tests, %d failed\n", tests, bad);
    return bad > 0;
}

int sim_command_litmus(int argc, char **argv)
{
    struct request r = { .first = 1, .last = SEEDS };
    int status = parse(argc, argv, &r);

    return status >= 0 ? status : run_all(&r);
}
