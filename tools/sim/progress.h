/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_PROGRESS_H
#define SIM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* How far it is, on stderr: a bar on a terminal, else a line every ten seconds. */
struct sim_progress {
    bool terminal;
    double next;                /* when it is shown again */
    bool shown;                 /* a bar is on the screen */
};

struct sim_state_of_work {
    const char *name;
    const char *unit;           /* "seeds", "stops" */
    uint64_t done, count;       /* count 0: no end */
    double elapsed, seconds;    /* seconds 0: no end */
    uint64_t failures;
};

double sim_now(void);           /* seconds of the monotonic clock */
void sim_progress_init(struct sim_progress *p);
void sim_progress_show(struct sim_progress *p, const struct sim_state_of_work *state);
/* Take the bar away. */
void sim_progress_clear(struct sim_progress *p);

#endif
