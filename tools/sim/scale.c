/* SPDX-License-Identifier: BSD-3-Clause */

/* loco-sim scale: a channel's call at many processes, as a table. */

#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"
#include "progress.h"
#include "scale.h"

#define MOST_POINTS 32
#define MOST_PROCESSES 2048
#define MOST_ROUNDS 10000
#define DEFAULT_ROUNDS 10

struct arguments {
    const struct sim_scenario *scenario;
    const struct loci_sim_cost *cost;
    int processes[MOST_POINTS], count, rounds;
    const char *plot;
    bool json;
};

static const char help[] =
    "usage: loco-sim scale CHANNEL [options]\n"
    "Use a channel by so many processes at once, with the times of a network of the given\n"
    "profile: operations on the network and virtual time of a call, beside what theory says.\n\n"
    "  --processes LIST   2,8,32 or A..B, doubling from A (2..256)\n"
    "  --rounds R         calls of each process that are measured (10)\n"
    "  --profile NAME     the network: see below (the first)\n"
    "  --plot FILE        FILE.svg or FILE.png, by gnuplot; FILE.dat and FILE.gp beside it\n"
    "  --json             as JSON on stdout\n"
    "  --help, --version\n\n";

static int wrong(const char *what, const char *text)
{
    fprintf(stderr, "loco-sim scale: %s \"%s\"; see loco-sim scale --help\n", what, text);
    return 2;
}

static int show_help(void)
{
    printf("%sProfiles:\n", help);
    for (const struct loci_sim_cost *c = loci_sim_costs; c->name != NULL; c++)
        printf("  %-18s %s\n", c->name, c->about);
    printf("\nChannels:\n");
    for (int i = 0; sim_scenarios[i] != NULL; i++)
        if (sim_scenarios[i]->scale_once != NULL)
            printf("  %-18s %s\n", sim_scenarios[i]->name,
                   sim_scenarios[i]->scale_theory != NULL ? sim_scenarios[i]->scale_theory : "");
    printf("\nExit status: 0 as theory says, or none is known; 1 other counts, or a call failed;\n"
           "2 wrong use, or a file cannot be written.\n");
    return ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static bool number(const char **text, int most, int *value)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(*text, &end, 10);
    if (end == *text || errno != 0 || n < 1 || n > most)
        return false;
    *text = end;
    *value = (int)n;
    return true;
}

static bool add_point(struct arguments *a, int processes)
{
    if (a->count == MOST_POINTS)
        return false;
    a->processes[a->count++] = processes;
    return true;
}

static bool read_processes(const char *text, struct arguments *a)
{
    int first, last;

    a->count = 0;
    if (!number(&text, MOST_PROCESSES, &first) || !add_point(a, first))
        return false;
    if (strncmp(text, "..", 2) == 0) {
        text += 2;
        if (!number(&text, MOST_PROCESSES, &last) || last < first)
            return false;
        for (int n = 2 * first; n <= last; n *= 2)
            if (!add_point(a, n))
                return false;
    }
    while (*text == ',') {
        text++;
        if (!number(&text, MOST_PROCESSES, &first) || !add_point(a, first))
            return false;
    }
    return *text == '\0';
}

static bool read_plot(const char *file, struct arguments *a)
{
    const char *dot = strrchr(file, '.');

    a->plot = file;
    return dot != NULL && dot != file && (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0);
}

static bool read_rounds(const char *text, struct arguments *a)
{
    return number(&text, MOST_ROUNDS, &a->rounds) && *text == '\0';
}

/* -1: go on; else the exit status. */
static int read_options(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        { "processes", required_argument, NULL, 'p' }, { "rounds", required_argument, NULL, 'r' },
        { "profile", required_argument, NULL, 'P' }, { "plot", required_argument, NULL, 'o' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 },
    };
    int option;

    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'p':
            if (!read_processes(optarg, a))
                return wrong("--processes takes LIST or A..B, 1 to 2048 each, not", optarg);
            break;
        case 'r':
            if (!read_rounds(optarg, a))
                return wrong("--rounds takes 1 to 10000, not", optarg);
            break;
        case 'P':
            a->cost = loci_sim_cost_named(optarg);
            if (a->cost == NULL)
                return wrong("there is no profile", optarg);
            break;
        case 'o':
            if (!read_plot(optarg, a))
                return wrong("--plot takes FILE.svg or FILE.png, not", optarg);
            break;
        case 'j':
            a->json = true;
            break;
        case 'h':
            return show_help();
        case 'V':
            printf("loco-sim %s\n", PACKAGE_VERSION);
            return 0;
        case ':':
            return wrong("a value is missing after", argv[optind - 1]);
        default:
            return wrong("there is no option", argv[optind - 1]);
        }
    }
    return -1;
}

static int read_arguments(int argc, char **argv, struct arguments *a)
{
    int status;

    *a = (struct arguments){ .cost = &loci_sim_costs[0], .rounds = DEFAULT_ROUNDS };
    read_processes("2..256", a);
    status = read_options(argc, argv, a);
    if (status >= 0)
        return status;
    if (optind == argc) {
        fprintf(stderr, "loco-sim scale: say which channel; see loco-sim scale --help\n");
        return 2;
    }
    if (optind + 1 < argc)
        return wrong("one channel at a time, not also", argv[optind + 1]);
    a->scenario = sim_scenario_named(argv[optind]);
    if (a->scenario == NULL || a->scenario->scale_once == NULL)
        return wrong("there is no channel to be measured by the name", argv[optind]);
    return -1;
}

/* ---- what is shown ---- */

static const char *holds(const struct sim_scale_table *t, const struct sim_scale_point *p)
{
    struct sim_theory theory;

    if (!sim_theory_of(t->scenario, t->cost, p->processes, &theory))
        return "-";
    return sim_theory_holds(&theory, p) ? "yes" : "NO";
}

static void show_head(const struct sim_scale_table *t)
{
    printf("%s, %d calls of each process, network %s: %s\n", t->scenario->name, t->rounds,
           t->cost->name, t->cost->about);
    printf("per call and process: mean/most. theory: %s\n\n",
           t->scenario->scale_theory != NULL ? t->scenario->scale_theory : "not said");
    printf("%9s %15s %15s %15s %15s %17s %9s | %9s %9s %9s %9s %9s | %6s\n", "processes", "writes",
           "reads", "atomics", "places", "bytes", "as theory", "median", "mean", "most", "all",
           "theory us", "real s");
}

static void show_point(const struct sim_scale_table *t, const struct sim_scale_point *p)
{
    struct sim_theory theory;
    char text[40];

    if (p->failed) {
        printf("%9d failed: %s\n", p->processes, p->text);
        return;
    }
    printf("%9d", p->processes);
    for (int i = 0; i < SIM_COUNTS; i++) {
        snprintf(text, sizeof text, "%.2f/%.2f", p->mean[i], p->max[i]);
        printf(" %*s", i == SIM_BYTES ? 17 : 15, text);
    }
    printf(" %9s | %9.2f %9.2f %9.2f %9.2f", holds(t, p), (double)p->median_ns / 1000,
           (double)p->mean_ns / 1000, (double)p->max_ns / 1000, (double)p->all_ns / 1000);
    if (sim_theory_of(t->scenario, t->cost, p->processes, &theory))
        printf(" %9.2f", theory.ns / 1000);
    else
        printf(" %9s", "-");
    printf(" | %6.2f\n", p->real);
}

static void json_point(const struct sim_scale_table *t, const struct sim_scale_point *p)
{
    struct sim_theory theory;
    bool known = sim_theory_of(t->scenario, t->cost, p->processes, &theory);

    printf("    {\"processes\": %d, \"failed\": ", p->processes);
    if (p->failed)
        sim_json_string(stdout, p->text);
    else
        printf("null");
    for (int i = 0; i < SIM_COUNTS; i++)
        printf(", \"%s\": {\"mean\": %.6g, \"max\": %.6g}", sim_count_names[i], p->mean[i],
               p->max[i]);
    printf(", \"ns\": {\"median\": %lld, \"mean\": %lld, \"max\": %lld, \"all\": %lld}",
           (long long)p->median_ns, (long long)p->mean_ns, (long long)p->max_ns,
           (long long)p->all_ns);
    if (known) {
        printf(", \"theory\": {\"holds\": %s, \"at_most\": %s, \"ns\": %.0f",
               sim_theory_holds(&theory, p) ? "true" : "false", theory.at_most ? "true" : "false",
               theory.ns);
        for (int i = 0; i < SIM_BYTES; i++)
            printf(", \"%s\": %.6g", sim_count_names[i], theory.mean[i]);
        printf("}");
    }
    printf(", \"steps\": %llu}", (unsigned long long)p->steps);
}

static void json_table(const struct sim_scale_table *t)
{
    printf("{\n  \"channel\": ");
    sim_json_string(stdout, t->scenario->name);
    printf(", \"profile\": ");
    sim_json_string(stdout, t->cost->name);
    printf(", \"rounds\": %d,\n  \"points\": [\n", t->rounds);
    for (int i = 0; i < t->count; i++) {
        json_point(t, &t->point[i]);
        printf("%s\n", i + 1 < t->count ? "," : "");
    }
    printf("  ]\n}\n");
}

/* ---- the command ---- */

static int measure_all(const struct arguments *a, struct sim_scale_table *t,
                       struct sim_scale_point *points)
{
    int status = 0;

    if (!a->json)
        show_head(t);
    for (int i = 0; i < a->count; i++) {
        struct sim_scale_point *p = &points[i];

        sim_scale_measure(a->scenario, a->cost, a->processes[i], a->rounds, p);
        t->count++;
        if (p->failed || strcmp(holds(t, p), "NO") == 0)
            status = 1;
        if (!a->json) {
            show_point(t, p);
            fflush(stdout);
        }
    }
    if (a->json)
        json_table(t);
    return status;
}

int sim_command_scale(int argc, char **argv)
{
    struct sim_scale_point points[MOST_POINTS];
    struct sim_scale_table table;
    struct arguments a;
    int status = read_arguments(argc, argv, &a);

    if (status >= 0)
        return status;
    table = (struct sim_scale_table){ a.scenario, a.cost, a.rounds, 0, points };
    status = measure_all(&a, &table, points);
    if (a.plot != NULL && sim_scale_plot(&table, a.plot) == 2)
        return 2;
    return ferror(stdout) ? 1 : status;
}
