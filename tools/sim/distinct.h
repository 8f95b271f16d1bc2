/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_DISTINCT_H
#define SIM_DISTINCT_H

#include <stdbool.h>
#include <stdint.h>

/* How many different schedules there were: an exact set of their 64-bit hashes, shared by a process
 * and its later children. It takes up to SIM_DISTINCT_MAX; from there on it does not count, and
 * says so. */
#define SIM_DISTINCT_MAX (UINT64_C(1) << 24)

struct sim_distinct;

/* For about this many members. NULL: no memory. */
struct sim_distinct *sim_distinct_create(uint64_t expected);
void sim_distinct_destroy(struct sim_distinct *set);
/* By any process at any time. */
void sim_distinct_add(struct sim_distinct *set, uint64_t hash);
uint64_t sim_distinct_count(const struct sim_distinct *set);
/* There may be more of them. */
bool sim_distinct_full(const struct sim_distinct *set);

#endif
