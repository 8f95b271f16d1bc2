/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "case.h"

/* A failure made small: the same case with as few decisions as can be found that are not the
 * default one (0), still with the same verdict. Bounded by runs and steps, never by time, so that
 * it is the same on every machine. */

struct sim_shrunk {
    bool repeats;               /* the decisions alone make it fail again; else nothing was done */
    uint32_t *decisions;        /* without the zeros at their end; free() it */
    size_t count, changed;      /* how many; how many of them are not 0 */
    size_t first_count, first_changed;          /* before */
    unsigned runs;
};

void sim_shrink(const struct sim_case *c, const struct loci_sim_faults *faults,
                const struct loci_sim_result *failed, struct sim_shrunk *shrunk);

#endif
