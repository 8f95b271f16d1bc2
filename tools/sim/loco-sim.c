/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-sim: channels over a simulated network. A command is a row here and a file of its own. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "scenario.h"

static int command_list(int argc, char **argv);

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments, *about;
} commands[] = {
    { "list", command_list, "", "the channels, and what is done with them" },
    { "explore", sim_command_explore, "CHANNEL|all", "many seeds, each run checked" },
    { "replay", sim_command_replay, "SEED", "one seed again, shrunk and told" },
    { "litmus", sim_command_litmus, "[NAME]", "the simulated network against its rules" },
    { "scale", sim_command_scale, "CHANNEL", "what a call costs at many processes" },
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void usage(FILE *to)
{
    fprintf(to, "usage: loco-sim COMMAND ...\n"
            "Run the channels over a simulated network that does all that RDMA permits.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s %-12s %s\n", commands[i].name, commands[i].arguments,
                commands[i].about);
    fprintf(to, "\n  --help, --version; each command has its own --help\n\n"
            "Exit status: 0 passed; 1 a failure was found; 2 wrong use.\n");
}

static bool is_option(const char *text, const char *long_name, const char *short_name)
{
    return strcmp(text, long_name) == 0 || strcmp(text, short_name) == 0;
}

static int command_list(int argc, char **argv)
{
    if (argc > 1 && is_option(argv[1], "--help", "-h")) {
        printf("usage: loco-sim list\nThe channels that can be explored: name, processes x "
               "threads x rounds\nunless others are asked for, and what is done and checked.\n");
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "loco-sim list: it takes no \"%s\"; see loco-sim list --help\n", argv[1]);
        return 2;
    }
    for (int i = 0; sim_scenarios[i] != NULL; i++) {
        const struct sim_scenario *s = sim_scenarios[i];
        char sizes[40];

        snprintf(sizes, sizeof sizes, "%dx%dx%d", s->processes, s->threads, s->rounds);
        printf("%-22s %-8s %s\n", s->name, sizes, s->about);
    }
    return ferror(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "loco-sim: say which command\n");
        usage(stderr);
        return 2;
    }
    if (is_option(argv[1], "--help", "-h")) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("loco-sim %s\n", PACKAGE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "loco-sim: there is no command \"%s\"\n", argv[1]);
    usage(stderr);
    return 2;
}
