/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_DEATHS_H
#define SIM_SCENARIO_DEATHS_H

/* The kinds of channels that scenario_deaths.c destroys: scenario_deaths_kinds.c. */

#include "scenario_util.h"

/* A process, or a thread of it, and what it uses. */
struct sim_death_user {
    struct sim_run *run;
    loco_runtime_t *rt;
    struct sim_seat *seat;
    int rank, n, host;
    void *made;
};

struct sim_death_kind {
    const char *name;                   /* of its scenario, after "deaths_" */
    int (*make)(struct sim_death_user *u);
    /* Once more, by thread `thread`: what calls of the channel return. */
    int (*use)(struct sim_death_user *u, int thread, int round);
    void (*destroy)(void *made);
};

extern const struct sim_death_kind sim_death_kinds[];
extern const int sim_death_kind_count;

#endif
