/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIM_H
#define LOCI_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <loco/runtime.h>

/* Many processes of many threads in one OS thread, over a network that does all that RDMA may do.
 *
 * The code that runs is the runtime's and the channels' own (compiled with hooks.h); each simulated
 * process has a runtime of its own, each of its threads is a fiber, and time is virtual. Whatever
 * happens next is a choice of the scheduler, and the choices come from a seed: the same seed with
 * the same body and configuration is the same run, on any machine and compiler.
 *
 * An operation posted on a lane (a queue pair) lives through stages:
 *
 *   write          posted -> its source is read -> (complete at its origin) -> placed word by word
 *   read           posted -> words are read at the target -> words arrive -> complete
 *   atomic         posted -> the word is read -> the word is written -> complete
 *   place          posted -> passed at the target -> complete
 *
 * and these are the only rules:
 *   1. A source is read between post and completion. It must not change meanwhile: that is found.
 *   2. Completion of a write says nothing of its placement, and the other way round.
 *   3. Writes of a lane are placed in order, each in words of 8 aligned bytes in any order; with
 *      config.torn_words these may come, and be read, in two parts, the lower addresses first.
 *      Nothing orders two lanes.
 *   4. Reads, atomics and places of a lane are executed in order, each when all writes before it on
 *      that lane are placed. Writes may pass those in front of them that are still waiting.
 *      On the device's own memory (config.device_memory) they wait for what is done to that memory
 *      alone, and writes of it pass other writes; others wait for all of it.
 *   5. Atomics of one target's device are atomic to each other, not to the target's CPU. With
 *      config.owner_atomics that CPU does them: one step each, atomic to its own and to those of
 *      processes of its node, which have its pool memory mapped.
 *   6. The destination of a read and the result of an atomic are undefined until completion.
 *   7. Completions of a lane are told in order. */

enum loci_sim_verdict {
    LOCI_SIM_PASSED,
    LOCI_SIM_FAILED,            /* a body returned not 0, or said loci_sim_fail() */
    LOCI_SIM_RACE,              /* a source changed between its post and its completion */
    LOCI_SIM_STUCK,             /* waiters that nothing will wake any more */
    LOCI_SIM_ENDLESS            /* more steps than the limit */
};

/* How the choices are made. AUTO takes one of the others, by the seed. */
enum loci_sim_strategy {
    LOCI_SIM_AUTO,
    LOCI_SIM_UNIFORM,           /* anything that can happen, alike */
    LOCI_SIM_STICKY,            /* a fiber runs for a while */
    LOCI_SIM_PRIORITY,          /* by random priorities that change now and then (PCT) */
    LOCI_SIM_LAZY,              /* completions soon, placement as late as can be */
    LOCI_SIM_EAGER,             /* the network is faster than the CPUs */
    LOCI_SIM_TIMED              /* no choice: by the times of the cost model */
};

struct loci_sim_faults {
    int stop_process;           /* this one stops for ever, or -1... */
    uint64_t stop_step;         /* ...at this step of its own, from 1 */
    int slow_process;           /* this one runs rarely, or -1 */
    int slow_link;              /* lanes to this process deliver rarely, or -1 */
    int lose, twice, garble;    /* control messages in 1000 */
};

#define LOCI_SIM_NO_FAULTS { -1, 0, -1, -1, 0, 0, 0 }

struct loci_mem;
struct loci_sim_cost;
struct loci_sim_setup;
struct loci_sim_event;

/* What the runtimes of a process asked of the network, in numbers. */
struct loci_sim_counts {
    uint64_t writes, reads, atomics, places, bytes, messages;
    uint64_t rings;             /* of doorbells: chains that were given to the device */
};

struct loci_sim_config {
    int processes;
    uint64_t seed;
    enum loci_sim_strategy strategy;
    bool one_node;              /* all memory is mapped by all: the cpu domain */
    bool owner_atomics;         /* rule 5; some processes may be on one node, by the seed */
    bool device_memory;         /* words of locks are in the devices' own; neither of the above */
    bool torn_words;            /* by the network: rule 3 */
    int (*node_of)(int process, int processes);     /* with owner_atomics, where each is; NULL: by
                                 * the seed */
    bool asleep;                /* waits sleep at once, for good where all ring */
    struct loci_sim_faults faults;
    const char *const *settings;        /* tunables, as in struct loco_bootstrap */
    uint64_t step_limit;        /* 0: a million */
    const struct loci_sim_cost *cost;   /* of TIMED; cost.h */
    const struct loci_sim_setup *setup; /* of TIMED: what connections cost, cost.h; NULL: nothing */
    bool machines;              /* of TIMED: processes of one node share a device, and what they
                                   store in each other's memory is seen in the order of time; else
                                   each has its own, and may see it before its time */
    int64_t look_every;         /* of TIMED: who polls in vain looks again after so many ns; 0: when
                                   nothing happens anywhere for a while */
    uint32_t stall_one_in;      /* of TIMED: each so many times that a thread goes on, on average,
                                   it has lost its core for */
    int64_t stall;              /* ns; 0: never */
    int registers;              /* of TIMED: doorbell registers that a process's threads share, in
                                   turn as they open lanes; 0: each has its own */
    bool private_lanes;         /* of TIMED: who waits, waits for lanes of its own thread, or until
                                   it looks again (look_every): many threads are simulated faster */
    int cpu_percent;            /* of TIMED: what a CPU takes, of its cost; 0: 100 */
    const uint32_t *decisions;  /* in place of the seed's, then defaults (to shrink a failure) */
    size_t decision_count;
    bool follow;                /* use decisions, though there may be none of them */
    FILE *trace;                /* a line for each event; NULL: none */
    void (*event)(void *ctx, const struct loci_sim_event *event);   /* the same, to be drawn */
    void *event_ctx;
};

/* An event of a run, as trace and drawing want it. Names are static or live as long as the run. */
struct loci_sim_event {
    int64_t time;               /* virtual ns */
    uint64_t step;
    int process, thread;        /* who; thread -1: the network */
    const char *what;           /* "post write", "place", ... */
    uint64_t op;                /* number of the operation, or 0 */
    int peer;                   /* the other process, or -1 */
    const char *text;
};

struct loci_sim_result {
    enum loci_sim_verdict verdict;
    char text[512];             /* of what did not pass: the cause */
    char detail[4096];          /* lines: who waits for what, histories of operations */
    uint64_t steps;             /* accesses and events */
    uint64_t choices;
    uint64_t schedule;          /* hash of what happened in which order */
    int64_t time;               /* virtual ns */
    uint32_t *decisions;        /* all that were made; free() it */
    size_t decision_count;
    struct loci_sim_counts total;
};

typedef int loci_sim_body(loco_runtime_t *rt, int rank, void *arg);

/* Run body(rt, rank, arg) in each process. The result's decisions are the caller's to free. */
void loci_sim_run(const struct loci_sim_config *config, loci_sim_body *body, void *arg,
                  struct loci_sim_result *result);

/* ---- in a body ---- */

/* n threads of this process, each fn(arg, thread); returns when all have: 0, or the first other
 * result. */
int loci_sim_threads(loco_runtime_t *rt, int n, int (*fn)(void *arg, int thread), void *arg);
/* This is not so: ends the run, with its cause; said after loci_sim_run it changes that run's
 * result. Returns 1, for `return loci_sim_fail(...)`. */
int loci_sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line of the trace. */
void loci_sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From the seed, of the scenario's own: 0 to n-1. */
uint32_t loci_sim_draw(uint32_t n);
/* Give way: somebody else may run; like any step. */
void loci_sim_pause(void);
/* Let virtual time pass. */
void loci_sim_sleep(int64_t ns);
/* TIMED: the CPU of this thread does something for so long; what comes before goes first. */
void loci_sim_work(int64_t ns);
/* Process `rank` looks again at what it waits for: something outside of network memory is there. */
void loci_sim_tell(int rank);
/* The process closes its runtime and opens another, alone, in its place: to the others it is one
 * that leaves, and one that comes. It has no other thread, and makes no collective exchange of the
 * world's. */
int loci_sim_again(loco_runtime_t **rt);
/* Of the process so far; and virtual time. */
struct loci_sim_counts loci_sim_counts(loco_runtime_t *rt);
int64_t loci_sim_time(void);
/* This many steps did process `rank` take so far (for faults.stop_step). */
uint64_t loci_sim_process_steps(int rank);
/* Where the process has that memory of its own, the device's too: to look there without a step. */
unsigned char *loci_sim_memory(loco_runtime_t *rt, const struct loci_mem *mine);
/* From now on nothing moves from one process to another while that says so, nor is answered: the
 * network may be slow anywhere. It is asked between steps, and must take none. Not by TIMED. */
void loci_sim_hold(bool (*held)(void *arg, int from, int to), void *arg);
/* A process stops for ever, now, as by a fault. Of one's own it does not return. */
void loci_sim_kill(int rank);
/* Whether process `rank` was stopped by a fault, and whether this one has been told. */
bool loci_sim_is_stopped(int rank);

#endif
