/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_CASE_H
#define SIM_CASE_H

/* A case is all that decides what a run does: the scenario, its size, what is done to it, and a
 * number from which the rest is drawn. Its text is what a failure prints and `replay` takes:
 *
 *      ticket_lock/p3t2r8f-lazy/12345
 *
 * processes, threads and rounds; then n (one node), o (atomics are the owner's) or d (locks in
 * device memory), s (asleep), w (torn words), f (a fault of any kind, drawn from the number; fp: a
 * process stops, fs: something is slow, fm: messages) or x1.57 (process 1 stops at its step 57),
 * and a strategy, where it is not chosen by the number. */

#include "scenario.h"

#define SIM_MAX_PROCESSES 1024
#define SIM_MAX_THREADS 1024
#define SIM_MAX_ROUNDS 1000000
#define SIM_CASE_TEXT 160

enum sim_faults {
    SIM_CALM,
    SIM_ANY_FAULT,
    SIM_STOP,                   /* a process stops for ever */
    SIM_SLOW,                   /* a process, or the links to it */
    SIM_MESSAGES                /* control messages are lost, come twice, are garbled */
};

struct sim_case {
    const struct sim_scenario *scenario;
    int processes, threads, rounds;
    bool one_node;
    bool owner;                 /* the owner's CPU does atomics; and not one_node */
    bool device_memory;         /* and neither of these */
    bool asleep;
    bool torn_words;
    enum sim_faults faults;     /* drawn from the number */
    int stop_process;           /* or -1; never with `faults` */
    uint64_t stop_step;
    enum loci_sim_strategy strategy;
    uint64_t number;
};

/* How a run may end, beyond what the simulator says. */
enum {
    SIM_CRASHED = LOCI_SIM_ENDLESS + 1,         /* the OS process ended */
    SIM_HUNG,                                   /* no end in time, and no steps to count */
    SIM_VERDICTS
};

/* What somebody wants of one run, beside its result. */
struct sim_watch {
    const uint32_t *decisions;  /* followed, if `follow` */
    size_t decision_count;
    bool follow;
    FILE *trace;                /* or NULL */
    void (*event)(void *ctx, const struct loci_sim_event *event);
    void *event_ctx;
};

/* A scenario by its name, the hidden ones included; or NULL. */
const struct sim_scenario *sim_case_scenario(const char *name);
/* A case of that scenario with its defaults. */
void sim_case_init(struct sim_case *c, const struct sim_scenario *scenario);
void sim_case_text(const struct sim_case *c, char text[SIM_CASE_TEXT]);
/* False: `why` says what is wrong, and what would be right. */
bool sim_case_parse(const char *text, struct sim_case *c, char *why, size_t why_len);

const char *sim_verdict_name(int verdict);
const char *sim_strategy_name(enum loci_sim_strategy strategy);
bool sim_strategy_named(const char *name, enum loci_sim_strategy *strategy);

bool sim_faults_named(const char *name, enum sim_faults *faults);

/* The faults of this case. To know how many steps there are to stop at, the case may have to be run
 * without faults: `dry` is that run's result, whose steps are 0 if there was none. False: it failed
 * by itself. */
bool sim_case_faults(const struct sim_case *c, struct loci_sim_faults *faults,
                     struct loci_sim_result *dry);
void sim_faults_text(const struct loci_sim_faults *faults, char *text, size_t len);
/* Run it. The result's decisions are the caller's. watch may be NULL. process_steps, NULL or one
 * for each process: the steps that it took. */
void sim_case_run(const struct sim_case *c, const struct loci_sim_faults *faults,
                  const struct sim_watch *watch, uint64_t *process_steps,
                  struct loci_sim_result *result);

/* Random numbers of our own: state is any number, each call gives the next. */
uint64_t sim_random(uint64_t *state);

#endif
