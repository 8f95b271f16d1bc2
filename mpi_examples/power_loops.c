/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops on owned variables, two for each converter: its duty cycle, which the controller
 * writes, and its voltage, which it writes itself. Each is known to these two ranks only.
 *
 * Every value says of which run and step it is. A loop takes the newest that has come, and its
 * time from a clock of its own: nobody waits for the other. An iteration that comes too late is not
 * left out, so that a converter's time is that of its steps; it is counted. In lockstep each waits
 * for the step of the other that it would have if nothing took any time.
 *
 * A value of a rank that died stays what it was, so each asks whether the other lives whenever it
 * looks.
 */
#include "common.h"
#include "power.h"

#include <loco/barrier.h>
#include <loco/mpi.h>
#include <loco/owned_var.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { CONTROLLER, CONVERTER };     /* in the group of the two */

/* More than 8 bytes: a value of owned variables is whole all the same. */
struct message {
    uint32_t run;
    uint32_t number;    /* of the update or step; 0 before the first */
    double value;
};

struct pair {
    int rank;           /* the converter's */
    loco_group_t *group;
    loco_owned_var_t *duty;
    loco_owned_var_t *volts;
};

struct power_link {
    loco_runtime_t *rt;
    loco_barrier_t *barrier;
    bool one_clock;     /* all ranks on one node */
    struct pair *pair;  /* the controller's: one for each converter; a converter's: its own */
    int pairs;
};

/* ---- time ---- */

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* False where that is past. The others may need the core even then. */
static bool wait_until(int64_t when)
{
    struct timespec t = { .tv_sec = when / 1000000000, .tv_nsec = when % 1000000000 };

    if (now() >= when) {
        sched_yield();
        return false;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
    return true;
}

/* For what another rank is about to do. */
static void pause_for(unsigned tries)
{
    const struct timespec short_time = { .tv_nsec = 20000 };

    if (tries < 10)
        sched_yield();
    else
        nanosleep(&short_time, NULL);
}

/* When time 0 of a run is: the same instant for all where they have one clock. */
static int64_t agree_on_start(const struct power_link *link)
{
    int64_t start = now() + 2000000;

    if (link->one_clock)
        ex_check(MPI_Bcast(&start, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return start;
}

static int64_t clock_time(const struct power_run *run, int64_t start, int64_t ns)
{
    return start + (int64_t)((double)ns * run->slowdown);
}

/* ---- what is shared ---- */

static void check(int status, const char *what)
{
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

static _Noreturn void peer_failed(const struct pair *pair, uint32_t last, int status)
{
    if (ex_rank() == 0)
        ex_abort("lost the converter at rank %d after its step %u: %s", pair->rank, last,
                 loco_strerror(status));
    ex_abort("lost the controller at rank 0 after its update %u: %s", last, loco_strerror(status));
}

/* The newest value; that of an earlier run is none. */
static struct message newest(const struct pair *pair, loco_owned_var_t *var,
                             const struct power_run *run, uint32_t last)
{
    struct message m;
    int status = loco_owned_var_load(var, &m);

    if (status == LOCO_OK)
        status = loco_group_alive(pair->group, ex_rank() == 0 ? CONVERTER : CONTROLLER);
    if (status != LOCO_OK)
        peer_failed(pair, last, status);
    return m.run == run->number ? m : (struct message){ .run = run->number };
}

static struct message wait_for(const struct pair *pair, loco_owned_var_t *var,
                               const struct power_run *run, uint32_t number)
{
    struct message m;

    for (unsigned tries = 0; (m = newest(pair, var, run, number)).number < number; tries++)
        pause_for(tries);
    return m;
}

static void publish(const struct pair *pair, loco_owned_var_t *var, int to,
                    const struct message *m, uint32_t last)
{
    int status = loco_owned_var_store(var, m);

    if (status == LOCO_OK)
        status = loco_owned_var_push(var, to);
    if (status != LOCO_OK)
        peer_failed(pair, last, status);
}

/* ---- the converter ---- */

uint64_t power_convert_loop(struct power_link *link, const struct power_run *run,
                            struct power_step *step)
{
    const struct pair *pair = &link->pair[0];
    int64_t start = agree_on_start(link);
    struct message duty = { 0 };
    struct power_plant plant;
    uint64_t missed = 0;

    power_plant_init(&plant, pair->rank);
    for (uint32_t s = 1; s <= run->steps; s++) {
        struct message volts = { .run = run->number, .number = s };

        if (run->lockstep) {
            duty = wait_for(pair, pair->duty, run, (s - 1) / run->every + 1);
        } else {
            missed += !wait_until(clock_time(run, start, s * POWER_STEP_NS));
            duty = newest(pair, pair->duty, run, duty.number);
        }
        power_plant_step(&plant, duty.value);
        volts.value = plant.volts;
        step[s] = (struct power_step){ .volts = plant.volts, .update = duty.number };
        publish(pair, pair->volts, CONTROLLER, &volts, duty.number);
    }
    check(loco_barrier_wait(link->barrier), "loco_barrier_wait");
    return missed;
}

/* ---- the controller ---- */

struct loop {
    struct power_control control;
    uint32_t step;      /* of the newest measurement */
};

/* The same measurement again says nothing new: the duty cycle stays. Nor is there an update for the
 * time after the last step. */
static void control(const struct power_run *run, const struct pair *pair, struct loop *loop,
                    struct power_log *log, struct message volts)
{
    struct message duty = { .run = run->number };
    bool first = log->updates == 0;

    if ((!first && volts.number == loop->step) || volts.number == run->steps)
        return;
    loop->step = volts.number;
    duty.value = power_control_update(&loop->control, volts.value, run->period_ns);
    duty.number = ++log->updates;
    log->update[duty.number] = (struct power_update){ .duty = duty.value, .step = volts.number };
    publish(pair, pair->duty, CONVERTER, &duty, volts.number);
}

/* All converters once; false when all are at their last step. */
static bool iterate(struct power_link *link, const struct power_run *run, uint64_t k,
                    struct loop *loop, struct power_log *log)
{
    bool more = false;

    for (int i = 0; i < link->pairs; i++) {
        const struct pair *pair = &link->pair[i];
        struct message volts;

        if (run->lockstep)
            volts = wait_for(pair, pair->volts, run, (uint32_t)(k * run->every));
        else
            volts = newest(pair, pair->volts, run, loop[i].step);
        more = more || volts.number < run->steps;
        control(run, pair, &loop[i], &log[i], volts);
    }
    return more;
}

uint64_t power_control_loop(struct power_link *link, const struct power_run *run,
                            struct power_log *log, uint64_t *iterations)
{
    struct loop *loop = calloc((size_t)link->pairs, sizeof(*loop));
    int64_t start = agree_on_start(link);
    uint64_t missed = 0;

    if (loop == NULL)
        ex_abort("no memory for %d converters", link->pairs);
    for (int i = 0; i < link->pairs; i++) {
        power_control_init(&loop[i].control);
        log[i].updates = 0;
    }
    *iterations = 0;
    for (uint64_t k = 0; !run->lockstep || k * run->every < run->steps; k++) {
        /* Half a step after the converters', so that what they wrote is there, and what is written
         * now will be. */
        int64_t when = (int64_t)k * run->period_ns + POWER_STEP_NS / 2;

        if (!run->lockstep)
            missed += !wait_until(clock_time(run, start, when));
        ++*iterations;
        if (!iterate(link, run, k, loop, log))
            break;
    }
    free(loop);
    check(loco_barrier_wait(link->barrier), "loco_barrier_wait");
    return missed;
}

/* ---- opening and closing ---- */

static bool on_one_node(void)
{
    MPI_Comm node;
    int size, all;

    ex_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    ex_check(MPI_Allreduce(&size, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    return all == ex_size();
}

static void open_pair(struct power_link *link, struct pair *pair, int rank)
{
    const int ranks[] = { [CONTROLLER] = 0, [CONVERTER] = rank };
    char name[32];

    pair->rank = rank;
    check(loco_group_subset(loco_everyone(link->rt), 2, ranks, &pair->group),
          "loco_group_subset");
    snprintf(name, sizeof(name), "duty%d", rank);
    check(loco_owned_var_create(link->rt, "power", name, pair->group, CONTROLLER,
                                sizeof(struct message), LOCO_OWNED_PUSH, &pair->duty),
          "loco_owned_var_create");
    snprintf(name, sizeof(name), "volts%d", rank);
    check(loco_owned_var_create(link->rt, "power", name, pair->group, CONVERTER,
                                sizeof(struct message), LOCO_OWNED_PUSH, &pair->volts),
          "loco_owned_var_create");
}

struct power_link *power_open(void)
{
    struct power_link *link = calloc(1, sizeof(*link));
    int rank = ex_rank();

    if (link == NULL)
        ex_abort("no memory");
    link->pairs = rank == 0 ? ex_size() - 1 : 1;
    link->pair = calloc((size_t)link->pairs, sizeof(*link->pair));
    if (link->pair == NULL)
        ex_abort("no memory for %d converters", link->pairs);
    link->one_clock = on_one_node();

    /* The kernel ends a sleep up to 50 us late, to wake less often, unless it is told not to. */
    prctl(PR_SET_TIMERSLACK, 1UL);

    check(loco_runtime_open_mpi(MPI_COMM_WORLD, &link->rt), "loco_runtime_open_mpi");
    check(loco_barrier_create(link->rt, "power", "bar", loco_everyone(link->rt), &link->barrier),
          "loco_barrier_create");
    for (int i = 0; i < link->pairs; i++)
        open_pair(link, &link->pair[i], rank == 0 ? i + 1 : rank);
    check(loco_runtime_wait_ready(link->rt, LOCO_FOREVER), "loco_runtime_wait_ready");
    return link;
}

void power_close(struct power_link *link)
{
    /* Nobody takes his part away while another works on it. */
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    for (int i = 0; i < link->pairs; i++) {
        loco_owned_var_destroy(link->pair[i].duty);
        loco_owned_var_destroy(link->pair[i].volts);
        loco_group_destroy(link->pair[i].group);
    }
    loco_barrier_destroy(link->barrier);
    loco_runtime_close_mpi(link->rt);
    free(link->pair);
    free(link);
}
