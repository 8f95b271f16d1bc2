/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-sim replay: one seed again, told in full. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "args.h"
#include "commands.h"
#include "explain.h"

/* A number alone: the rest of the case is in the options. */
static int number_case(const struct sim_args *args, struct sim_case *c)
{
    const struct sim_scenario *scenario;
    char text[SIM_CASE_TEXT + 80], why[200];

    if (args->channel == NULL)
        return sim_args_wrong(args, "seed %s is a number alone: say --channel NAME, too, or the "
                              "whole text that the failure printed", args->target);
    scenario = sim_case_scenario(args->channel);
    if (scenario == NULL)
        return sim_args_wrong(args, "there is no channel \"%s\"; `loco-sim list` shows them",
                              args->channel);
    if (!sim_args_case(args, scenario, c))
        return 2;
    sim_case_text(c, text);
    snprintf(strrchr(text, '/') + 1, 80, "%.70s", args->target);
    if (!sim_case_parse(text, c, why, sizeof why))
        return sim_args_wrong(args, "seed %s: %s", args->target, why);
    return -1;
}

static int text_case(const struct sim_args *args, struct sim_case *c)
{
    char why[200];

    if (args->channel != NULL || args->processes > 0 || args->threads > 0 || args->rounds > 0
        || args->faults != SIM_CALM || args->one_node || args->owner || args->device_memory
        || args->asleep || args->torn_words || args->strategy != LOCI_SIM_AUTO)
        return sim_args_wrong(args, "seed \"%s\" says channel, sizes, faults and strategy itself: "
                              "leave these options away", args->target);
    if (!sim_case_parse(args->target, c, why, sizeof why))
        return sim_args_wrong(args, "seed \"%s\": %s", args->target, why);
    return -1;
}

/* False: it cannot be written. */
static bool open_file(const struct sim_args *args, const char *option, const char *name, FILE **f)
{
    *f = NULL;
    if (name == NULL)
        return true;
    *f = fopen(name, "w+");
    if (*f == NULL)
        sim_args_wrong(args, "--%s %s: %s; say a file that can be written", option, name,
                       strerror(errno));
    return *f != NULL;
}

/* False: not all of it came there. */
static bool close_file(FILE *f, const char *name)
{
    if (f == NULL)
        return true;
    if (ferror(f) == 0 && fclose(f) == 0)
        return true;
    fprintf(stderr, "loco-sim: %s: %s\n", name, strerror(errno));
    return false;
}

static int replay(const struct sim_args *args, const struct sim_case *c)
{
    struct sim_explain how = { .to = stdout, .shrink = !args->no_shrink, .limit = args->limit,
                               .trace_name = args->trace, .draw_name = args->draw };
    int result = 2;

    how.whole = args->trace != NULL && strcmp(args->trace, "-") == 0;
    if (open_file(args, "trace", how.whole ? NULL : args->trace, &how.trace)
        && open_file(args, "draw", args->draw, &how.draw))
        result = sim_explain(c, &how);
    if (!close_file(how.trace, args->trace) || !close_file(how.draw, args->draw)
        || ferror(stdout))
        result = result == 0 ? 1 : result;
    return result;
}

int sim_command_replay(int argc, char **argv)
{
    struct sim_args args;
    struct sim_case c;
    int result = sim_args_read(SIM_REPLAY, argc, argv, &args);

    if (result >= 0)
        return result;
    if (args.target[0] != '\0' && args.target[strspn(args.target, "0123456789")] == '\0')
        result = number_case(&args, &c);
    else
        result = text_case(&args, &c);
    return result >= 0 ? result : replay(&args, &c);
}
