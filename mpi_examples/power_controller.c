/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller and its DC/DC converters, a rank each, in loops of fixed time: the LOCO paper's
 * appendix B. Rank 0 reads the voltages and sets the duty cycles; the others simulate a converter
 * each. The longer the controller's period, the older is what both work with: up to a period the
 * output settles, beyond it does not.
 */
#include "common.h"
#include "power.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N power_controller [OPTION]...\n"
    "Rank 0 controls N-1 simulated DC/DC converters through owned variables, in loops of fixed\n"
    "time, and shows whether their output voltage settles. A converter's loop has a period of\n"
    "10 us. Times are of the simulated converters, and take a unit: ns, us, ms or s.\n"
    "\n"
    "  --periods LIST   of the controller's loop, up to 16, multiples of 10us\n"
    "                   (10us,20us,40us,60us,80us,100us)\n"
    "  --time T         of each run, up to 10s (20ms)\n"
    "  --slowdown X     real time per simulated time, 0.01 to 100000 (1)\n"
    "  --pace WAY       clock: each rank by its own clock, never waiting for another;\n"
    "                   steps: in lockstep, as if nothing took time (clock)\n"
    "  --settled X      settled: in the last quarter of the time within this part of the\n"
    "                   set point (0.01)\n"
    "  --trace FILE     write the output voltage over time, for gnuplot\n"
    "  --spoil          change a result, so that the check fails\n"
    "  --json           print the results as JSON\n"
    "  --progress       show progress on stderr (otherwise only on a terminal)\n"
    "  --help           this text\n"
    "\n"
    "Age: of the measurement that a converter's duty cycle comes from. Missed: iterations that\n"
    "ended after the next should have begun; they are made late, none is left out.\n"
    "The check: from what both sides recorded, all voltages and duty cycles are computed once\n"
    "more, and are the same; with --pace steps they are those of a serial model. That a loop\n"
    "missed its times, or the output did not settle, is a result, not an error.\n"
    "Exit status: 0, 1 if the check or a call failed, 2 on wrong use.\n";

enum { MOST_PERIODS = 16 };

struct options {
    int64_t period_ns[MOST_PERIODS];
    int periods;
    int64_t time_ns;
    double slowdown;
    double settled;
    bool lockstep;
    const char *trace;
    bool spoil;
    bool json;
    bool progress;
};

/* Volts are of all converters together. */
struct shape {
    double peak;
    double off;     /* farthest from the set point in the last quarter */
};

struct result {
    struct shape real, model;
    struct power_age age;
    uint64_t updates;
    uint64_t missed[2];         /* by the controller, by all converters */
    uint64_t iterations[2];
    bool right;
};

static void *memory(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (p == NULL)
        ex_abort("no memory for %zu steps", n);
    return p;
}

/* ---- one run ---- */

static struct shape shape_of(const struct power_run *run, const double *total)
{
    struct shape shape = { 0 };

    for (uint32_t s = 1; s <= run->steps; s++) {
        double off = fabs(total[s] - POWER_VOLTS * run->converters);

        shape.peak = fmax(shape.peak, total[s]);
        if (s > run->steps / 4 * 3)
            shape.off = fmax(shape.off, off);
    }
    return shape;
}

/* The voltage of all converters at each step, beside the model's. */
static void write_trace(FILE *to, const struct power_run *run, const double *total,
                        const double *model)
{
    fprintf(to, "# period_us time_us volts model_volts\n");
    for (uint32_t s = 1; s <= run->steps; s++)
        fprintf(to, "%" PRId64 "\t%" PRId64 "\t%.4f\t%.4f\n", run->period_ns / 1000,
                s * POWER_STEP_NS / 1000, total[s], model[s]);
    fprintf(to, "\n\n");
}

/* The controller's part: the records of one converter after the other, checked and summed. */
static void collect(const struct options *o, const struct power_run *run,
                    const struct power_log *log, FILE *trace, struct result *r)
{
    struct power_step *step = memory(run->steps + 1, sizeof(*step));
    double *total = memory(run->steps + 1, sizeof(*total));
    double *model = memory(run->steps + 1, sizeof(*model));

    r->right = true;
    for (int n = 1; n <= run->converters; n++) {
        uint64_t missed;

        ex_check(MPI_Recv(step, (int)((run->steps + 1) * sizeof(*step)), MPI_BYTE, n, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
        ex_check(MPI_Recv(&missed, 1, MPI_UINT64_T, n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 "MPI_Recv");
        if (o->spoil && n == run->converters)
            step[run->steps / 2].volts = nextafter(step[run->steps / 2].volts, 1e9);
        r->right = power_replay(run, n, step, &log[n - 1], &r->age) && r->right;
        r->updates += log[n - 1].updates;
        r->missed[1] += missed;
        r->iterations[1] += run->steps;
        for (uint32_t s = 1; s <= run->steps; s++)
            total[s] += step[s].volts;
    }
    power_model(run, model);
    if (run->lockstep && memcmp(total, model, (run->steps + 1) * sizeof(*total)) != 0) {
        fprintf(stderr, "the output is not that of the serial model\n");
        r->right = false;
    }
    r->real = shape_of(run, total);
    r->model = shape_of(run, model);
    if (trace != NULL)
        write_trace(trace, run, total, model);
    free(step);
    free(total);
    free(model);
}

static void control(const struct options *o, struct power_link *link,
                    const struct power_run *run, FILE *trace, struct result *r)
{
    struct power_log *log = memory((size_t)run->converters, sizeof(*log));
    int n = run->converters;

    for (int i = 0; i < n; i++)
        log[i].update = memory(run->steps + 1, sizeof(*log[i].update));
    r->missed[0] = power_control_loop(link, run, log, &r->iterations[0]);
    collect(o, run, log, trace, r);
    for (int i = 0; i < n; i++)
        free(log[i].update);
    free(log);
}

static void convert(struct power_link *link, const struct power_run *run)
{
    struct power_step *step = memory(run->steps + 1, sizeof(*step));
    uint64_t missed = power_convert_loop(link, run, step);

    ex_check(MPI_Send(step, (int)((run->steps + 1) * sizeof(*step)), MPI_BYTE, 0, 0,
                      MPI_COMM_WORLD), "MPI_Send");
    ex_check(MPI_Send(&missed, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD), "MPI_Send");
    free(step);
}

/* ---- the whole ---- */

static FILE *open_trace(const struct options *o)
{
    FILE *trace = NULL;

    if (o->trace != NULL && ex_rank() == 0) {
        trace = fopen(o->trace, "w");
        if (trace == NULL)
            ex_abort("cannot write %s: %s", o->trace, strerror(errno));
    }
    return trace;
}

static void run_all(const struct options *o, struct result *result)
{
    struct power_link *link = power_open();
    FILE *trace = open_trace(o);
    struct ex_progress progress;

    ex_progress_init(&progress, o->progress);
    for (int i = 0; i < o->periods; i++) {
        const struct power_run run = {
            .number = (uint32_t)i + 1,
            .period_ns = o->period_ns[i],
            .every = (uint32_t)(o->period_ns[i] / POWER_STEP_NS),
            .steps = (uint32_t)(o->time_ns / POWER_STEP_NS),
            .converters = ex_size() - 1,
            .lockstep = o->lockstep,
            .slowdown = o->slowdown,
        };

        ex_progress_say(&progress, "period of %" PRId64 " us, %d of %d", run.period_ns / 1000,
                        i + 1, o->periods);
        if (ex_rank() == 0)
            control(o, link, &run, trace, &result[i]);
        else
            convert(link, &run);
    }
    ex_progress_end(&progress);
    power_close(link);
    if (trace != NULL && (ferror(trace) != 0 || fclose(trace) != 0))
        ex_abort("cannot write %s: %s", o->trace, strerror(errno));
}

/* ---- results ---- */

static bool settled(const struct options *o, const struct shape *shape)
{
    return shape->off <= o->settled * POWER_VOLTS * (ex_size() - 1);
}

static double step_us(double steps)
{
    return steps * (double)POWER_STEP_NS / 1000;
}

/* In lockstep there is no time to be missed. */
static const char *percent(const struct options *o, const struct result *r, int who, char text[16])
{
    if (o->lockstep)
        return "-";
    snprintf(text, 16, "%.1f%%", 100 * (double)r->missed[who] / (double)r->iterations[who]);
    return text;
}

static void print_json(const struct options *o, const struct result *result, bool right)
{
    printf("{\"example\": \"power_controller\", \"converters\": %d, \"pace\": \"%s\", "
           "\"slowdown\": %g, \"set_volts\": %g, \"time_us\": %" PRId64 ", \"runs\": [",
           ex_size() - 1, o->lockstep ? "steps" : "clock", o->slowdown,
           POWER_VOLTS * (ex_size() - 1), o->time_ns / 1000);
    for (int i = 0; i < o->periods; i++) {
        const struct result *r = &result[i];

        printf("%s\n  {\"period_us\": %" PRId64 ", \"settled\": %s, \"off_volts\": %.4f, "
               "\"peak_volts\": %.4f, \"model_settled\": %s, \"model_off_volts\": %.4f, "
               "\"model_peak_volts\": %.4f, \"updates\": %" PRIu64 ", \"age_us\": %.2f, "
               "\"age_most_us\": %.0f, \"controller_missed\": %" PRIu64
               ", \"controller_iterations\": %" PRIu64 ", \"converters_missed\": %" PRIu64
               ", \"converters_iterations\": %" PRIu64 ", \"check\": \"%s\"}",
               i > 0 ? "," : "", o->period_ns[i] / 1000,
               settled(o, &r->real) ? "true" : "false", r->real.off, r->real.peak,
               settled(o, &r->model) ? "true" : "false", r->model.off, r->model.peak, r->updates,
               step_us(r->age.sum / fmax((double)r->age.count, 1)), step_us(r->age.most),
               r->missed[0], r->iterations[0], r->missed[1], r->iterations[1],
               r->right ? "passed" : "FAILED");
    }
    printf("\n], \"check\": \"%s\"}\n", right ? "passed" : "FAILED");
}

static void print_table(const struct options *o, const struct result *result, bool right)
{
    printf("%d converter%s, %g V wanted, %g ms each, ", ex_size() - 1, ex_size() > 2 ? "s" : "",
           POWER_VOLTS * (ex_size() - 1), (double)o->time_ns / 1e6);
    if (o->lockstep)
        printf("in lockstep\n");
    else
        printf("slowed down %g times\n", o->slowdown);
    printf("%9s  %-8s %8s %8s   %-8s %9s %9s   %s\n", "period", "settled", "off by", "peak",
           "model", "age", "most", "missed by controller, converters");
    for (int i = 0; i < o->periods; i++) {
        const struct result *r = &result[i];
        char missed[2][16];

        printf("%6" PRId64 " us  %-8s %6.2f V %6.1f V   %-8s %6.1f us %6.0f us   %s, %s\n",
               o->period_ns[i] / 1000, settled(o, &r->real) ? "yes" : "no", r->real.off,
               r->real.peak, settled(o, &r->model) ? "settles" : "does not",
               step_us(r->age.sum / fmax((double)r->age.count, 1)), step_us(r->age.most),
               percent(o, r, 0, missed[0]), percent(o, r, 1, missed[1]));
    }
    printf("check: %s\n", right ? "passed" : "FAILED");
}

/* ---- the command line ---- */

/* A time with its unit; *end is behind it. */
static bool read_time(const char *text, const char **end, double *ns)
{
    static const struct { const char *name; double ns; } unit[] = {
        { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 },
    };
    char *rest;
    double number = strtod(text, &rest);

    if (rest == text || !isfinite(number))
        return false;
    for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++) {
        size_t length = strlen(unit[i].name);

        if (strncmp(rest, unit[i].name, length) == 0) {
            *end = rest + length;
            *ns = number * unit[i].ns;
            return true;
        }
    }
    return false;
}

/* A number of steps; 10s at the most. */
static bool whole_steps(double ns, int64_t *value)
{
    double steps = round(ns / (double)POWER_STEP_NS);

    if (!(steps >= 1 && steps <= 1e6) || fabs(steps * (double)POWER_STEP_NS - ns) > 0.5)
        return false;
    *value = (int64_t)steps * POWER_STEP_NS;
    return true;
}

static bool parse_time(const char *text, int64_t *value)
{
    const char *end;
    double ns;

    return read_time(text, &end, &ns) && *end == '\0' && whole_steps(ns, value);
}

static bool parse_periods(const char *text, struct options *o)
{
    const char *end;
    double ns;

    for (o->periods = 0; o->periods < MOST_PERIODS; text = end + 1) {
        if (!read_time(text, &end, &ns) || !whole_steps(ns, &o->period_ns[o->periods]))
            return false;
        o->periods++;
        if (*end != ',')
            return *end == '\0';
    }
    return false;
}

static bool parse_pace(const char *text, struct options *o)
{
    o->lockstep = strcmp(text, "steps") == 0;
    return o->lockstep || strcmp(text, "clock") == 0;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'P': return parse_periods(optarg, o);
    case 't': return parse_time(optarg, &o->time_ns);
    case 'x': return ex_real(optarg, 0.01, 100000, &o->slowdown);
    case 'a': return parse_pace(optarg, o);
    case 's': return ex_real(optarg, 0, 1, &o->settled);
    case 'f': o->trace = optarg; return true;
    case 'b': o->spoil = true; return true;
    case 'j': o->json = true; return true;
    case 'p': o->progress = true; return true;
    default: return false;
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "periods", required_argument, NULL, 'P' },  { "time", required_argument, NULL, 't' },
        { "slowdown", required_argument, NULL, 'x' }, { "pace", required_argument, NULL, 'a' },
        { "settled", required_argument, NULL, 's' },  { "trace", required_argument, NULL, 'f' },
        { "spoil", no_argument, NULL, 'b' },          { "json", no_argument, NULL, 'j' },
        { "progress", no_argument, NULL, 'p' },       { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    *o = (struct options){ .time_ns = 20000000, .slowdown = 1, .settled = 0.01 };
    parse_periods("10us,20us,40us,60us,80us,100us", o);
    ex_only_options(argc, argv, names, help, parse_one, o);
    for (int i = 0; i < o->periods; i++)
        if (o->period_ns[i] > o->time_ns)
            ex_usage_error(argv[0], "a period of %" PRId64 " us is longer than the run",
                           o->period_ns[i] / 1000);
    if (ex_size() < 2)
        ex_usage_error(argv[0], "a controller and a converter are 2 ranks: run it with mpirun -np 2"
                       " or more");
}

int main(int argc, char **argv)
{
    struct result result[MOST_PERIODS] = { 0 };
    int right = 1;
    struct options o;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &o);
    run_all(&o, result);
    for (int i = 0; i < o.periods && ex_rank() == 0; i++)
        right = right && result[i].right;
    ex_check(MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (ex_rank() == 0 && o.json)
        print_json(&o, result, right != 0);
    else if (ex_rank() == 0)
        print_table(&o, result, right != 0);
    return ex_finish(right != 0 ? 0 : EX_WRONG);
}
