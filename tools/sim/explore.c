/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-sim explore: one scenario after the other, each by a crew; what was found; the sum. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "commands.h"
#include "crew.h"
#include "explain.h"
#include "json.h"

#define MOST_STOP_PLACES 1000000        /* numbers times processes, with --stop-every */

struct exploration {
    const struct sim_args *args;
    struct sim_progress progress;
    FILE *out;                          /* for people: stderr, if stdout is for JSON */
    int count, done;                    /* scenarios */
    struct sim_case *base;
    struct sim_tally *tally;
    bool found, broken;                 /* a failure; we ourselves could not go on */
};

/* ---- what is explored ---- */

static int count_scenarios(void)
{
    int n = 0;

    while (sim_scenarios[n] != NULL)
        n++;
    return n;
}

/* Where all are asked for, one that needs more processes has them. */
static bool add_all(struct exploration *e)
{
    for (; e->count < count_scenarios(); e->count++) {
        const struct sim_scenario *scenario = sim_scenarios[e->count];
        struct sim_args args = *e->args;

        if (args.processes > 0 && args.processes < scenario->processes_min)
            args.processes = scenario->processes_min;
        if (!sim_args_case(&args, scenario, &e->base[e->count]))
            return false;
    }
    return true;
}

static int choose(struct exploration *e)
{
    const struct sim_args *args = e->args;
    const struct sim_scenario *scenario;

    if (strcmp(args->target, "all") == 0)
        return add_all(e) ? -1 : 2;
    scenario = sim_case_scenario(args->target);
    if (scenario == NULL)
        return sim_args_wrong(args, "there is no channel \"%s\"; `loco-sim list` shows them",
                              args->target);
    e->count = 1;
    return sim_args_case(args, scenario, &e->base[0]) ? -1 : 2;
}

/* ---- one scenario ---- */

static void list_findings(const struct exploration *e, const struct sim_tally *tally)
{
    char text[SIM_CASE_TEXT];

    if (tally->findings < 2)
        return;
    fprintf(e->out, "\nall %llu failures of %s:\n", (unsigned long long)tally->failures,
            tally->finding[0].c.scenario->name);
    for (int i = 0; i < tally->findings; i++) {
        const struct sim_finding *f = &tally->finding[i];

        sim_case_text(&f->c, text);
        fprintf(e->out, "  %-40s %s: %s\n", text, sim_verdict_name(f->verdict), f->text);
    }
    if (tally->failures > SIM_FINDINGS)
        fprintf(e->out, "  and so on\n");
}

static void tell_failures(struct exploration *e, const struct sim_tally *tally)
{
    const struct sim_explain how = { .to = e->out, .shrink = true, .limit = e->args->limit };
    const struct sim_finding *first = &tally->finding[0];
    char text[SIM_CASE_TEXT];

    sim_case_text(&first->c, text);
    fprintf(e->out, "FAILURE in %s after %llu runs: %s: %s\n", first->c.scenario->name,
            (unsigned long long)tally->seeds, sim_verdict_name(first->verdict), first->text);
    fflush(e->out);
    if (sim_explain(&first->c, &how) == 0)
        fprintf(e->out, "          It passes alone: memory that runs before it left behind plays a "
                "part.\n          A build with --enable-sanitizer=address says which.\n");
    fprintf(e->out, "again     loco-sim replay %s\n", text);
    if (e->args->keep_going)
        list_findings(e, tally);
    fprintf(e->out, "\n");
}

/* Each scenario's part of the numbers and the time. */
static void share_out(const struct exploration *e, struct sim_work *work)
{
    const struct sim_args *args = e->args;
    uint64_t n = (uint64_t)e->count, all = args->last - args->first + 1;

    work->first = args->first;
    work->count = args->seeds || !args->time || args->stop_every ? (all + n - 1) / n : 0;
    work->seconds = args->seconds / (double)n;
}

static void explore_one(struct exploration *e, int i)
{
    const struct sim_args *args = e->args;
    struct sim_work work = { .base = e->base[i], .stop_every = args->stop_every,
                             .keep_going = args->keep_going, .jobs = args->jobs,
                             .limit = args->limit, .progress = &e->progress };

    share_out(e, &work);
    if (sim_crew_run(&work, &e->tally[i]) != 0)
        e->broken = true;
    e->done = i + 1;
    if (e->tally[i].findings == 0)
        return;
    e->found = true;
    tell_failures(e, &e->tally[i]);
}

/* ---- the sum ---- */

static void add_tally(struct sim_tally *sum, const struct sim_tally *t)
{
    sum->seeds += t->seeds;
    sum->steps += t->steps;
    sum->choices += t->choices;
    sum->distinct += t->distinct;
    sum->distinct_more = sum->distinct_more || t->distinct_more;
    sum->failures += t->failures;
    sum->seconds += t->seconds;
    for (int v = 0; v < SIM_VERDICTS; v++)
        sum->verdict[v] += t->verdict[v];
}

static double per_second(uint64_t n, const struct sim_tally *t)
{
    return t->seconds > 0 ? (double)n / t->seconds : 0;
}

static void print_row(FILE *to, const char *name, const struct sim_tally *t)
{
    fprintf(to, "%-22s %9llu %9.0f %11.0f %s%9llu %8llu %8.1f\n", name,
            (unsigned long long)t->seeds, per_second(t->seeds, t), per_second(t->steps, t),
            t->distinct_more ? ">" : " ", (unsigned long long)t->distinct,
            (unsigned long long)t->failures, t->seconds);
}

static void print_table(const struct exploration *e)
{
    struct sim_tally *sum = calloc(1, sizeof *sum);

    fprintf(e->out, "%-22s %9s %9s %11s %10s %8s %8s\n", "channel", "runs", "runs/s", "steps/s",
            "schedules", "failures", "seconds");
    for (int i = 0; i < e->done; i++) {
        print_row(e->out, e->base[i].scenario->name, &e->tally[i]);
        if (sum != NULL)
            add_tally(sum, &e->tally[i]);
    }
    if (e->done > 1 && sum != NULL)
        print_row(e->out, "all", sum);
    free(sum);
}

static void print_json_findings(const struct sim_tally *t)
{
    char text[SIM_CASE_TEXT];

    printf("[");
    for (int i = 0; i < t->findings; i++) {
        const struct sim_finding *f = &t->finding[i];

        sim_case_text(&f->c, text);
        printf("%s\n      { \"seed\": \"%s\", \"verdict\": \"%s\", \"text\": ", i > 0 ? "," : "",
               text, sim_verdict_name(f->verdict));
        sim_json_string(stdout, f->text);
        printf(" }");
    }
    printf("]");
}

static void print_json(const struct exploration *e)
{
    printf("{ \"release\": \"%s\", \"jobs\": %d, \"channels\": [", PACKAGE_VERSION, e->args->jobs);
    for (int i = 0; i < e->done; i++) {
        const struct sim_tally *t = &e->tally[i];

        printf("%s\n  { \"channel\": \"%s\", \"processes\": %d, \"threads\": %d, \"rounds\": %d,\n"
               "    \"runs\": %llu, \"steps\": %llu, \"choices\": %llu, \"schedules\": %llu,\n"
               "    \"schedules_complete\": %s, \"seconds\": %.3f,\n    \"verdicts\": {",
               i > 0 ? "," : "", e->base[i].scenario->name, e->base[i].processes,
               e->base[i].threads, e->base[i].rounds, (unsigned long long)t->seeds,
               (unsigned long long)t->steps, (unsigned long long)t->choices,
               (unsigned long long)t->distinct, t->distinct_more ? "false" : "true", t->seconds);
        for (int v = 0; v < SIM_VERDICTS; v++)
            printf("%s \"%s\": %llu", v > 0 ? "," : "", sim_verdict_name(v),
                   (unsigned long long)t->verdict[v]);
        printf(" },\n    \"failures\": ");
        print_json_findings(t);
        printf(" }");
    }
    printf("\n] }\n");
}

/* ---- the command ---- */

static int explore(struct exploration *e)
{
    for (int i = 0; i < e->count && !e->broken && !sim_interrupted()
                    && (!e->found || e->args->keep_going); i++)
        explore_one(e, i);
    print_table(e);
    if (e->args->json)
        print_json(e);
    if (e->found || e->broken || ferror(stdout))
        return 1;
    return sim_interrupted() ? SIM_EXIT_INTERRUPTED : 0;
}

/* With --stop-every a table holds each process's steps in each number's run. */
static int check_stop_places(const struct exploration *e)
{
    const struct sim_args *args = e->args;

    for (int i = 0; args->stop_every && i < e->count; i++) {
        uint64_t most = MOST_STOP_PLACES / (uint64_t)e->base[i].processes;

        if (args->last - args->first >= most)
            return sim_args_wrong(args, "--stop-every is for at most %llu seeds at once with %d "
                                  "processes", (unsigned long long)most, e->base[i].processes);
    }
    return -1;
}

int sim_command_explore(int argc, char **argv)
{
    struct sim_args args;
    struct exploration e = { .args = &args };
    size_t room = (size_t)count_scenarios() + 1;
    int result = sim_args_read(SIM_EXPLORE, argc, argv, &args);

    if (result >= 0)
        return result;
    e.out = args.json ? stderr : stdout;
    e.base = calloc(room, sizeof e.base[0]);
    e.tally = calloc(room, sizeof e.tally[0]);
    if (e.base == NULL || e.tally == NULL) {
        fprintf(stderr, "loco-sim: no memory\n");
        result = 1;
    } else if ((result = choose(&e)) < 0 && (result = check_stop_places(&e)) < 0) {
        sim_catch_interrupts();
        sim_progress_init(&e.progress);
        result = explore(&e);
    }
    free(e.base);
    free(e.tally);
    return result;
}
