/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_CREW_H
#define SIM_CREW_H

#include "case.h"
#include "progress.h"

/* Many runs of one scenario by several OS processes at once. */

#define SIM_FINDINGS 100        /* failures that are kept; all are counted */

struct sim_work {
    struct sim_case base;       /* its number is set for each run */
    uint64_t first, count;      /* numbers; count 0: no end */
    bool stop_every;            /* then, for each of them, each stop */
    bool keep_going;
    int jobs;
    double seconds;             /* 0: no end */
    double limit;               /* for one run */
    struct sim_progress *progress;
};

struct sim_finding {
    struct sim_case c;
    uint64_t item;              /* in the order of exploration */
    int verdict;
    char text[512];
};

struct sim_tally {
    uint64_t seeds, steps, choices, distinct;
    bool distinct_more;         /* there were more than can be counted */
    uint64_t verdict[SIM_VERDICTS];
    uint64_t failures;
    double seconds;
    int findings;
    struct sim_finding finding[SIM_FINDINGS];   /* in the order of exploration */
};

/* Whether somebody at the terminal wants an end: set by a signal, heard by sim_crew_run. */
bool sim_interrupted(void);
void sim_catch_interrupts(void);

/* 0, or -1 without memory or processes (stderr says so). Without keep_going it ends at a failure:
 * the first one in the order of exploration, whatever the number of jobs. */
int sim_crew_run(const struct sim_work *work, struct sim_tally *tally);

#endif
