/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

/* What is explored: a scenario is a small program on one channel, run by every simulated process,
 * with checks that hold in every run. All its randomness comes from loci_sim_draw(). */

#include "fabric/sim/sim.h"

/* One run, as the scenario sees it. */
struct sim_run {
    const struct sim_scenario *scenario;
    int processes, threads;         /* threads of each process */
    int rounds;                     /* how much each thread does; the scenario's default, scaled */
    bool faults;                    /* a process may stop, messages may be lost: calls may fail
                                       with LOCO_ERR_PEER_DEAD, nothing else may happen */
    struct loci_sim_faults fault;   /* which, where faults */
    bool one_node;                  /* memory of those that stop stays */
    bool torn_words;                /* by the network: where a channel trusts in a word of its
                                       caller's, that is no failure */
    void *state;                    /* what begin() made: shared by all processes of the run (it is
                                       the observer's, not network memory) */
};

struct sim_scenario {
    const char *name;               /* "ticket_lock" */
    const char *about;              /* what is done and checked, one line */
    int processes, threads, rounds; /* defaults */
    int processes_min;
    const char *const *settings;    /* tunables, or NULL */
    bool long_runs;                 /* a poller that nobody else preempts takes many steps */
    int (*node_of)(int rank, int processes);    /* nullable: on which node each is, in any case;
                                                   atomics are their owners' then */
    /* All nullable but body. begin: 0, or -1 without memory. body: in each process, with a
     * runtime that is open; 0, or what is wrong was said by loci_sim_fail(). end: after a run
     * that passed so far (processes may have stopped), for checks of histories: the same.
     * free: always. */
    int (*begin)(struct sim_run *run);
    int (*body)(loco_runtime_t *rt, int rank, void *run);
    int (*end)(struct sim_run *run);
    void (*free)(struct sim_run *run);
    /* For `scale`: one collective use of the channel by each process, repeated and measured; the
     * body above is not used. setup makes the channel, `once` is what is counted. */
    void *(*scale_setup)(loco_runtime_t *rt, int rank, int processes);
    int (*scale_once)(loco_runtime_t *rt, void *channel, int rank, int round);
    void (*scale_done)(loco_runtime_t *rt, void *channel);
    const char *scale_theory;       /* "2 * ceil(log2 N) writes per process": for the table */
};

/* All of them, ended by NULL: scenarios.c. */
extern const struct sim_scenario *const sim_scenarios[];
const struct sim_scenario *sim_scenario_named(const char *name);

#endif
