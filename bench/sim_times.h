/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_SIM_TIMES_H
#define BENCH_SIM_TIMES_H

/* What programs that measure in virtual time have in common. One OS thread, so no locks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Times of operations, each in nanoseconds. */
struct sim_times {
    int64_t *ns;
    size_t count, room;
};

void sim_times_add(struct sim_times *t, int64_t ns);
/* After the last one was added. */
void sim_times_sort(struct sim_times *t);
/* Microseconds: of a part, 0.5 for the median; 0 where there are none. Sorted. */
double sim_times_us(const struct sim_times *t, double part);
double sim_times_mean_us(const struct sim_times *t);

/* Of an option's value: a whole number from `least` to `most`; false: it is none. */
bool sim_number(const char *text, long least, long most, int *value);
/* A real number above 0. */
bool sim_real(const char *text, double most, double *value);

#endif
