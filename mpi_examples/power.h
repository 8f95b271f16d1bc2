/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DC/DC converters under a discrete-time controller: the LOCO paper's appendix B. power_plant.c is
 * the physics and the control law, power_loops.c the loops of the ranks on owned variables,
 * power_check.c the replay of what they recorded, power_controller.c the program.
 */
#ifndef MPI_EXAMPLES_POWER_H
#define MPI_EXAMPLES_POWER_H

#include <stdbool.h>
#include <stdint.h>

/* A converter's loop has this period, in its own time, whatever the controller's is. */
#define POWER_STEP_NS INT64_C(10000)

/* What a converter is to put out; the output of the system is the sum of all. */
#define POWER_VOLTS 24.0

/* ---- the physics ---- */

struct power_plant {
    double henry, farad;
    double amps, volts;
};

/* Converter `number` of the system, at rest. Parts differ a little from one to the next. */
void power_plant_init(struct power_plant *p, int number);

/* Its next POWER_STEP_NS with the switch closed for `duty` (0 to 1) of the time. */
void power_plant_step(struct power_plant *p, double duty);

struct power_control {
    double duty;
    double error;   /* volts, at the last update */
};

void power_control_init(struct power_control *c);

/* The next duty cycle from a measured voltage; updates are period_ns apart. */
double power_control_update(struct power_control *c, double volts, int64_t period_ns);

/* ---- a run ---- */

struct power_run {
    uint32_t number;      /* 1 and up: values of earlier runs are told by it */
    int64_t period_ns;    /* of the controller's loop: a multiple of POWER_STEP_NS */
    uint32_t every;       /* that many steps of a converter */
    uint32_t steps;       /* of each converter */
    int converters;
    bool lockstep;        /* wait for each other's steps, not for the clock */
    double slowdown;      /* time of the clock per time of the converters */
};

/* A converter's record of a step (the first is step 1): what came out, with which update. */
struct power_step {
    double volts;
    uint32_t update;      /* 0: none had come; the duty cycle was 0 */
};

/* The controller's record of an update (the first is update 1): from the voltage of which step. */
struct power_update {
    double duty;
    uint32_t step;
};

/* What the controller keeps of a converter; update[0] is not used. */
struct power_log {
    struct power_update *update;
    uint32_t updates;
};

/* ---- the loops ---- */

struct power_link;

/* Collective. Rank 0 is the controller, rank n converter n. */
struct power_link *power_open(void);
void power_close(struct power_link *link);

/* Collective, each rank its part; both return how many iterations were not done when their
 * successor should have begun. `log` has an element for each converter, with room for as many
 * updates as there are steps; step[0] is not used. */
uint64_t power_control_loop(struct power_link *link, const struct power_run *run,
                            struct power_log *log, uint64_t *iterations);
uint64_t power_convert_loop(struct power_link *link, const struct power_run *run,
                            struct power_step *step);

/* ---- the check ---- */

/* How old the measurement is that a converter runs on, in steps: one of now is 0. */
struct power_age {
    double sum;
    uint64_t count;
    uint32_t most;
};

/* Replays converter `number` from the records: true if all is as it should be. Else it says on
 * stderr what is wrong first. */
bool power_replay(const struct power_run *run, int number, const struct power_step *step,
                  const struct power_log *log, struct power_age *age);

/* The system without any delay: adds its output at each step to total[1..steps]. */
void power_model(const struct power_run *run, double *total);

#endif
