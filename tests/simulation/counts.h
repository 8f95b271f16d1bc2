/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_COUNTS_H
#define TESTS_COUNTS_H

#include <loco/runtime.h>

/* The same calls over a real fabric and in the simulator, one at a time and so without contention,
 * with what each process's runtime counted for each. counts_calls.c is compiled for either. */

#define COUNTS_PROCESSES 3
#define COUNTS_ROWS 64

enum { COUNTS_WRITES, COUNTS_READS, COUNTS_ATOMICS, COUNTS_OWN_ATOMICS, COUNTS_PLACES, COUNTS_ALL };

struct counts_row {
    const char *name;
    unsigned long long n[COUNTS_ALL];
    unsigned long long waits;
    /* Simulation only: what its network carried of that process. */
    unsigned long long carried[COUNTS_ALL];
    /* RDMA only: packets that all devices sent; of rank 0. */
    unsigned long long packets;
};

struct counts_member {
    loco_runtime_t *rt;
    int rank;
    struct counts_row *row;             /* [COUNTS_ROWS] */
    /* Come together, outside the network. */
    void (*meet)(struct counts_member *m);
    void (*carried)(struct counts_member *m, unsigned long long *n);    /* NULL: no simulation */
    /* How many packets all devices have sent, once no more follow. NULL: no device. */
    unsigned long long (*packets)(void);
    const struct loco_exchange *exchange;
};

/* 0, or a line was said. */
int counts_calls(struct counts_member *m);

#endif
