/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_LITMUS_H
#define SIM_LITMUS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Litmus tests: small programs on the bare operations of the fabric, after those of the RDMA-on-TSO
 * model (Ambal and others, OOPSLA 2024) and of LOCO's section 2.2, each with all outcomes that the
 * rules of sim.h allow. Over enough seeds every one of them is seen, and no other. */

#define SIM_LITMUS_VALUES 4

struct sim_litmus;

/* NULL after the last. */
const struct sim_litmus *sim_litmus_at(int i);
const char *sim_litmus_name(const struct sim_litmus *litmus);

struct sim_litmus_report {
    int allowed, seen;          /* outcomes that the rules allow; of these, how many came */
    uint64_t forbidden;         /* runs with another one */
    uint64_t first_forbidden;   /* the first such seed */
    uint64_t runs;
};

/* Run seeds first..last (both included); with `out`, a line per outcome. 0: all that are allowed
 * were seen and nothing else. */
int sim_litmus_run(const struct sim_litmus *litmus, uint64_t first, uint64_t last, FILE *out,
                   struct sim_litmus_report *report);
/* One seed, its trace to `out`. */
void sim_litmus_replay(const struct sim_litmus *litmus, uint64_t seed, FILE *out);

#endif
