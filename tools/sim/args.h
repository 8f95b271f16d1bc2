/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_ARGS_H
#define SIM_ARGS_H

#include "case.h"

/* The command line of explore and replay. */

enum sim_command { SIM_EXPLORE = 1, SIM_REPLAY = 2 };

struct sim_args {
    enum sim_command command;
    const char *target;                 /* CHANNEL or SEED */
    const char *channel;                /* of a SEED that is a number */
    int processes, threads, rounds;     /* 0: the scenario's own */
    enum sim_faults faults;
    bool stop_every, one_node, owner, device_memory, asleep, torn_words;
    enum loci_sim_strategy strategy;
    bool seeds, time;                   /* whether these were given */
    uint64_t first, last;
    double seconds;
    int jobs;
    double limit;                       /* seconds that a run may take */
    bool keep_going, json, no_shrink;
    const char *trace, *draw;
};

/* -1: go on; else the exit status: 0 (--help, --version) or 2 (wrong use; stderr says what and what
 * would be right). argv[0] is the command's name. */
int sim_args_read(enum sim_command command, int argc, char **argv, struct sim_args *args);
/* The case that they ask for, without its number; false: stderr says what is wrong. */
bool sim_args_case(const struct sim_args *args, const struct sim_scenario *scenario,
                   struct sim_case *c);
/* "loco-sim explore: ..." on stderr; returns 2. */
int sim_args_wrong(const struct sim_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
