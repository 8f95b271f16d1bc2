/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include <stdint.h>

#include <loco/loco.h>

#include "run.h"

/* Stress tests: real processes over shared memory, or whatever LOCO_FABRIC says, each case for a
 * bounded time. They print TAP. */

/* Nanoseconds for each case: 1.5 s, or CASE_SECONDS of the environment where all takes longer. */
int64_t stress_duration(void);

struct stress_case {
    const char *name;
    int n;                  /* processes */
    weak_fn *fn;
    int arg;
};

/* Run all cases; the exit status of a main(). */
int stress_run(const struct stress_case *cases, int n);

/* The clock, in one value: true until the time of a case is over. */
bool stress_goes_on(int64_t start);

/* The sum over all members of a number of each. */
int stress_sum(loco_runtime_t *rt, uint64_t mine, uint64_t *sum);

#endif
