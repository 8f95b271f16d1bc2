/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCALE_H
#define SIM_SCALE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/sim/cost.h"
#include "scenario.h"

/* What a channel's call costs at a number of processes: operations on the network, virtual time. */

enum { SIM_WRITES, SIM_READS, SIM_ATOMICS, SIM_PLACES, SIM_BYTES, SIM_COUNTS };
extern const char *const sim_count_names[SIM_COUNTS];

struct sim_scale_point {
    int processes;
    double mean[SIM_COUNTS];            /* per call, over all processes */
    double max[SIM_COUNTS];             /* per call, of the process that has most */
    int64_t median_ns, mean_ns, max_ns; /* of a call */
    int64_t all_ns;                     /* from when all begin until the last is through */
    uint64_t steps;
    double real;                        /* seconds that the simulation took */
    bool failed;
    char text[512];                     /* why */
};

/* What the channel's algorithm says that a call needs, of its own; scale_theory.c. */
struct sim_theory {
    bool at_most;                       /* an upper bound; else it is exact */
    double mean[SIM_COUNTS];            /* bytes are not said */
    double ns;                          /* all_ns about, on a network that is not loaded; 0: not
                                           said */
};

/* False: nothing is known about this channel. */
bool sim_theory_of(const struct sim_scenario *scenario, const struct loci_sim_cost *cost,
                   int processes, struct sim_theory *theory);
/* Whether what was counted is what theory says. */
bool sim_theory_holds(const struct sim_theory *theory, const struct sim_scale_point *point);

/* In a process of its own, for its memory. */
void sim_scale_measure(const struct sim_scenario *scenario, const struct loci_sim_cost *cost,
                       int processes, int rounds, struct sim_scale_point *point);

struct sim_scale_table {
    const struct sim_scenario *scenario;
    const struct loci_sim_cost *cost;
    int rounds, count;
    const struct sim_scale_point *point;
};

/* FILE.svg or FILE.png by gnuplot, from FILE.dat and FILE.gp, which are left beside it. 0; 1: they
 * are there, but no picture, stderr says why; 2: they cannot be written, stderr says why. */
int sim_scale_plot(const struct sim_scale_table *table, const char *file);

#endif
