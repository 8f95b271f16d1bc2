/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_EXPLAIN_H
#define SIM_EXPLAIN_H

#include "case.h"

/* One case run again, and told: its verdict, its schedule shrunk, its trace. What is told is the
 * same each time and everywhere. */
struct sim_explain {
    FILE *to;
    bool shrink;
    bool whole;                 /* all of the trace is told, not just its end */
    FILE *trace, *draw;         /* where trace and drawing go, or NULL... */
    const char *trace_name, *draw_name;         /* ...and what these files are called */
    double limit;               /* seconds that one run may take */
};

/* 0: it passed; 1: not, or it could not be told (stderr says why). */
int sim_explain(const struct sim_case *c, const struct sim_explain *how);

#endif
