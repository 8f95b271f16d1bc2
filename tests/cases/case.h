/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CASE_H
#define TESTS_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What the programs of this folder share. They exit with 0 where the promise holds. */

#define CASE_SKIP 77

/* Ends the process, which ends its job, where what should hold does not. */
#define MUST(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* Seconds of the monotonic clock. */
static inline double case_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds times TEST_SCALE of the environment, for a slow machine. */
static inline double case_limit(double seconds)
{
    const char *scale = getenv("TEST_SCALE");

    return seconds * (scale != NULL && atof(scale) > 1 ? atof(scale) : 1);
}

#endif
