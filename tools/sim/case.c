/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "case.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "broken.h"

/* ---- names ---- */

static const char *const strategy_names[] = {
    "auto", "uniform", "sticky", "priority", "lazy", "eager", "timed"
};

static const char *const verdict_names[SIM_VERDICTS] = {
    "passed", "failed", "race", "stuck", "endless", "crashed", "hung"
};

const char *sim_verdict_name(int verdict)
{
    return verdict >= 0 && verdict < SIM_VERDICTS ? verdict_names[verdict] : "unknown";
}

const char *sim_strategy_name(enum loci_sim_strategy strategy)
{
    return strategy_names[strategy];
}

/* TIMED makes no choices: there is nothing to explore. */
bool sim_strategy_named(const char *name, enum loci_sim_strategy *strategy)
{
    for (int i = 0; i < LOCI_SIM_TIMED; i++)
        if (strcmp(name, strategy_names[i]) == 0) {
            *strategy = (enum loci_sim_strategy)i;
            return true;
        }
    return false;
}

/* As option and in a seed. */
static const struct {
    const char *name, *letters;
} fault_kinds[] = {
    [SIM_CALM] = { "none", "" },
    [SIM_ANY_FAULT] = { "any", "f" },
    [SIM_STOP] = { "stop", "fp" },
    [SIM_SLOW] = { "slow", "fs" },
    [SIM_MESSAGES] = { "messages", "fm" },
};

bool sim_faults_named(const char *name, enum sim_faults *faults)
{
    for (int i = SIM_ANY_FAULT; i <= SIM_MESSAGES; i++)
        if (strcmp(name, fault_kinds[i].name) == 0) {
            *faults = (enum sim_faults)i;
            return true;
        }
    return false;
}

const struct sim_scenario *sim_case_scenario(const char *name)
{
    const struct sim_scenario *scenario = sim_scenario_named(name);

    for (int i = 0; scenario == NULL && sim_broken[i] != NULL; i++)
        if (strcmp(name, sim_broken[i]->name) == 0)
            scenario = sim_broken[i];
    return scenario;
}

void sim_case_init(struct sim_case *c, const struct sim_scenario *scenario)
{
    *c = (struct sim_case){ .scenario = scenario, .processes = scenario->processes,
                            .threads = scenario->threads, .rounds = scenario->rounds,
                            .stop_process = -1, .strategy = LOCI_SIM_AUTO };
}

/* ---- its text ---- */

void sim_case_text(const struct sim_case *c, char text[SIM_CASE_TEXT])
{
    const char *place = c->one_node ? "n" : c->owner ? "o" : c->device_memory ? "d" : "";
    char stop[40] = "", strategy[20] = "";

    if (c->stop_process >= 0)
        snprintf(stop, sizeof stop, "x%d.%llu", c->stop_process, (unsigned long long)c->stop_step);
    if (c->strategy != LOCI_SIM_AUTO)
        snprintf(strategy, sizeof strategy, "-%s", sim_strategy_name(c->strategy));
    snprintf(text, SIM_CASE_TEXT, "%s/p%dt%dr%d%s%s%s%s%s%s/%llu", c->scenario->name, c->processes,
             c->threads, c->rounds, place, c->asleep ? "s" : "", c->torn_words ? "w" : "",
             fault_kinds[c->faults].letters,
             stop, strategy, (unsigned long long)c->number);
}

/* A text that is read from its front. */
struct reader {
    const char *at;
    char *why;
    size_t why_len;
};

__attribute__((format(printf, 2, 3)))
static bool wrong(struct reader *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(r->why, r->why_len, format, args);
    va_end(args);
    return false;
}

static bool take(struct reader *r, char c)
{
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_number(struct reader *r, uint64_t min, uint64_t max, const char *what,
                        uint64_t *value)
{
    uint64_t n = 0;
    const char *begin = r->at;

    for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (n > (UINT64_MAX - 9) / 10)
            return wrong(r, "its %s is no number of 64 bits", what);
        n = n * 10 + (uint64_t)(*r->at - '0');
    }
    if (r->at == begin)
        return wrong(r, "no number where its %s should be, at \"%s\"", what, begin);
    if (n < min || n > max)
        return wrong(r, "its %s must be %llu to %llu", what, (unsigned long long)min,
                     (unsigned long long)max);
    *value = n;
    return true;
}

static bool take_size(struct reader *r, char letter, const char *what, int max, int *value)
{
    uint64_t n;

    if (!take(r, letter))
        return wrong(r, "no %c with its %s at \"%s\"", letter, what, r->at);
    if (!take_number(r, 1, (uint64_t)max, what, &n))
        return false;
    *value = (int)n;
    return true;
}

static bool take_stop(struct reader *r, struct sim_case *c)
{
    uint64_t process;

    if (!take_number(r, 0, (uint64_t)c->processes - 1, "process that stops", &process))
        return false;
    if (!take(r, '.'))
        return wrong(r, "no .STEP behind the process that stops at \"%s\"", r->at);
    c->stop_process = (int)process;
    return take_number(r, 1, UINT64_MAX, "step to stop at", &c->stop_step);
}

static bool take_flags(struct reader *r, struct sim_case *c)
{
    char name[20];
    size_t len;

    c->one_node = take(r, 'n');
    c->owner = !c->one_node && take(r, 'o');
    c->device_memory = !c->one_node && !c->owner && take(r, 'd');
    c->asleep = take(r, 's');
    c->torn_words = take(r, 'w');
    if (take(r, 'f'))
        c->faults = take(r, 'p') ? SIM_STOP : take(r, 's') ? SIM_SLOW
                    : take(r, 'm') ? SIM_MESSAGES : SIM_ANY_FAULT;
    else if (take(r, 'x') && !take_stop(r, c))
        return false;
    if (!take(r, '-'))
        return true;
    len = strcspn(r->at, "/");
    snprintf(name, sizeof name, "%.*s", (int)len, r->at);
    r->at += len;
    return sim_strategy_named(name, &c->strategy)
           || wrong(r, "\"%s\" is no strategy; there are auto, uniform, sticky, priority, lazy and "
                    "eager", name);
}

static bool take_scenario(struct reader *r, struct sim_case *c)
{
    char name[64];
    size_t len = strcspn(r->at, "/");
    const struct sim_scenario *scenario;

    snprintf(name, sizeof name, "%.*s", (int)len, r->at);
    scenario = sim_case_scenario(name);
    if (scenario == NULL)
        return wrong(r, "there is no channel \"%s\"; `loco-sim list` shows them", name);
    sim_case_init(c, scenario);
    r->at += len;
    return take(r, '/') || wrong(r, "it is CHANNEL/SIZES/NUMBER, as a failure prints it");
}

bool sim_case_parse(const char *text, struct sim_case *c, char *why, size_t why_len)
{
    struct reader r = { text, why, why_len };

    if (!take_scenario(&r, c) || !take_size(&r, 'p', "processes", SIM_MAX_PROCESSES, &c->processes)
        || !take_size(&r, 't', "threads", SIM_MAX_THREADS, &c->threads)
        || !take_size(&r, 'r', "rounds", SIM_MAX_ROUNDS, &c->rounds) || !take_flags(&r, c))
        return false;
    if (!take(&r, '/'))
        return wrong(&r, "not understood at \"%s\"; its flags are n, o, d, s, w, f, xPROCESS.STEP "
                     "and -STRATEGY", r.at);
    if (!take_number(&r, 0, UINT64_MAX, "number", &c->number))
        return false;
    if (*r.at != '\0')
        return wrong(&r, "more behind its number: \"%s\"", r.at);
    if (c->processes < c->scenario->processes_min)
        return wrong(&r, "%s needs at least %d processes", c->scenario->name,
                     c->scenario->processes_min);
    return true;
}

/* ---- faults ---- */

/* SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t sim_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int draw_process(const struct sim_case *c, uint64_t *random)
{
    return (int)(sim_random(random) % (uint64_t)c->processes);
}

/* A process that stops at a step that it comes to without faults, too; each alike. */
static bool draw_stop(const struct sim_case *c, struct loci_sim_faults *faults, uint64_t *random,
                      struct loci_sim_result *dry)
{
    static const struct loci_sim_faults none = LOCI_SIM_NO_FAULTS;
    uint64_t steps[SIM_MAX_PROCESSES] = { 0 };
    struct sim_case calm = *c;

    calm.faults = SIM_CALM;
    sim_case_run(&calm, &none, NULL, steps, dry);
    if (dry->verdict != LOCI_SIM_PASSED)
        return false;
    faults->stop_process = draw_process(c, random);
    faults->stop_step = 1 + sim_random(random) % (steps[faults->stop_process] | 1);
    return true;
}

static void draw_slow(const struct sim_case *c, struct loci_sim_faults *faults, uint64_t *random)
{
    if (sim_random(random) % 2 == 0)
        faults->slow_process = draw_process(c, random);
    else
        faults->slow_link = draw_process(c, random);
}

static void draw_messages(struct loci_sim_faults *faults, uint64_t *random)
{
    int *const kinds[] = { &faults->lose, &faults->twice, &faults->garble };
    int *kind = kinds[sim_random(random) % 3];

    *kind = 1 + (int)(sim_random(random) % 300);
}

/* Mostly a process stops: there are the most ways to do that. */
static enum sim_faults draw_kind(uint64_t *random)
{
    uint64_t n = sim_random(random) % 12;

    return n < 2 ? SIM_SLOW : n < 5 ? SIM_MESSAGES : SIM_STOP;
}

bool sim_case_faults(const struct sim_case *c, struct loci_sim_faults *faults,
                     struct loci_sim_result *dry)
{
    uint64_t random = c->number ^ 0xfa017;      /* not the numbers that the run itself draws */
    enum sim_faults kind = c->faults == SIM_ANY_FAULT ? draw_kind(&random) : c->faults;

    *faults = (struct loci_sim_faults)LOCI_SIM_NO_FAULTS;
    memset(dry, 0, sizeof *dry);
    faults->stop_process = c->stop_process;
    faults->stop_step = c->stop_step;
    if (kind == SIM_STOP)
        return draw_stop(c, faults, &random, dry);
    if (kind == SIM_SLOW)
        draw_slow(c, faults, &random);
    else if (kind == SIM_MESSAGES)
        draw_messages(faults, &random);
    return true;
}

void sim_faults_text(const struct loci_sim_faults *faults, char *text, size_t len)
{
    if (faults->stop_process >= 0)
        snprintf(text, len, "process %d stops at its step %llu", faults->stop_process,
                 (unsigned long long)faults->stop_step);
    else if (faults->slow_process >= 0)
        snprintf(text, len, "process %d is slow", faults->slow_process);
    else if (faults->slow_link >= 0)
        snprintf(text, len, "links to process %d are slow", faults->slow_link);
    else if (faults->lose > 0)
        snprintf(text, len, "of 1000 control messages %d are lost", faults->lose);
    else if (faults->twice > 0)
        snprintf(text, len, "of 1000 control messages %d come twice", faults->twice);
    else if (faults->garble > 0)
        snprintf(text, len, "of 1000 control messages %d are garbled", faults->garble);
    else
        snprintf(text, len, "none");
}

/* ---- a run ---- */

/* A run with the steps of its processes, which are to be had only while it runs. */
struct attempt {
    struct sim_run run;
    uint64_t *steps;            /* or NULL */
};

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct attempt *a = arg;
    int result = a->run.scenario->body(rt, rank, &a->run);

    for (int i = 0; a->steps != NULL && i < a->run.processes; i++)
        a->steps[i] = loci_sim_process_steps(i);
    return result;
}

static void no_memory(struct loci_sim_result *result)
{
    memset(result, 0, sizeof *result);
    result->verdict = LOCI_SIM_FAILED;
    snprintf(result->text, sizeof result->text, "no memory for what the scenario records");
}

#define STEP_LIMIT UINT64_C(2000000)    /* of a run as its scenario has it by default */

/* More where there is more to do, or where waiters that sleep at once look again and again. */
static uint64_t step_limit(const struct sim_case *c)
{
    const struct sim_scenario *s = c->scenario;
    uint64_t most = STEP_LIMIT * (c->asleep ? 4 : 1) * (s->long_runs ? 16 : 1);
    uint64_t usual = (uint64_t)s->processes * (uint64_t)s->threads * (uint64_t)s->rounds;
    uint64_t work = (uint64_t)c->processes * (uint64_t)c->threads * (uint64_t)c->rounds;

    return work <= usual ? most : most * ((work + usual - 1) / usual);
}

static void configure(struct loci_sim_config *config, const struct sim_case *c,
                      const struct loci_sim_faults *faults, const struct sim_watch *watch)
{
    *config = (struct loci_sim_config){ .processes = c->processes, .seed = c->number,
                                        .strategy = c->strategy, .one_node = c->one_node,
                                        .owner_atomics = c->owner || c->scenario->node_of != NULL,
                                        .node_of = c->scenario->node_of,
                                        .device_memory = c->device_memory,
                                        .torn_words = c->torn_words, .asleep = c->asleep,
                                        .step_limit = step_limit(c),
                                        .faults = *faults, .settings = c->scenario->settings };
    if (watch == NULL)
        return;
    config->decisions = watch->decisions;
    config->decision_count = watch->decision_count;
    config->follow = watch->follow;
    config->trace = watch->trace;
    config->event = watch->event;
    config->event_ctx = watch->event_ctx;
}

void sim_case_run(const struct sim_case *c, const struct loci_sim_faults *faults,
                  const struct sim_watch *watch, uint64_t *process_steps,
                  struct loci_sim_result *result)
{
    const struct sim_scenario *s = c->scenario;
    struct attempt a = { .run = { .scenario = s, .processes = c->processes,
                                  .threads = c->threads, .rounds = c->rounds,
                                  .faults = c->faults != SIM_CALM || c->stop_process >= 0,
                                  .fault = *faults, .one_node = c->one_node,
                                  .torn_words = c->torn_words },
                         .steps = process_steps };
    struct loci_sim_config config;

    if (s->begin != NULL && s->begin(&a.run) != 0) {
        no_memory(result);
        return;
    }
    configure(&config, c, faults, watch);
    loci_sim_run(&config, body, &a, result);
    if (result->verdict == LOCI_SIM_PASSED && s->end != NULL && s->end(&a.run) != 0)
        result->verdict = LOCI_SIM_FAILED;
    if (s->free != NULL)
        s->free(&a.run);
}
