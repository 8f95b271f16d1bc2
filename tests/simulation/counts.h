/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_COUNTS_H
#define TESTS_COUNTS_H

#include <loco/runtime.h>

/* The same calls over shared memory and in the simulator, one at a time and so without contention,
 * with what each process's runtime counted for each. counts.c is compiled for either. */

#define COUNTS_PROCESSES 3
#define COUNTS_ROWS 24

enum { COUNTS_WRITES, COUNTS_READS, COUNTS_ATOMICS, COUNTS_OWN_ATOMICS, COUNTS_PLACES, COUNTS_ALL };

struct counts_row {
    const char *name;
    unsigned long long n[COUNTS_ALL];
    /* Simulation only: what its network carried of that process. */
    unsigned long long carried[COUNTS_ALL];
};

struct counts_member {
    loco_runtime_t *rt;
    int rank;
    struct counts_row *row;             /* [COUNTS_ROWS] */
    /* Come together, outside the network. */
    void (*meet)(struct counts_member *m);
    void (*carried)(struct counts_member *m, unsigned long long *n);    /* NULL over shm */
    const struct loco_exchange *exchange;
};

/* 0, or a line was said. */
int counts_calls(struct counts_member *m);

#endif
