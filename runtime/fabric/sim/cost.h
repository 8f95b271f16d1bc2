/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIM_COST_H
#define LOCI_SIM_COST_H

#include <stdint.h>

/* What things take, in nanoseconds, for LOCI_SIM_TIMED; profiles with their sources: cost.c. */
struct loci_sim_cost {
    const char *name, *about;
    int64_t post;               /* CPU: one operation handed to the device */
    int64_t poll;               /* CPU: one look at a completion queue or at memory */
    int64_t step;               /* CPU: one access to memory */
    int64_t device;             /* the device, per operation it sends... */
    int64_t device_in;          /* ...and per operation it serves */
    int64_t device_atomic;      /* more for an atomic */
    double byte;                /* per byte on the wire */
    int64_t wire;               /* one way */
    int64_t place;              /* from arrival at the target's device to its memory */
    int64_t complete;           /* from arrival back to the completion queue */
    int64_t message;            /* a control message, one way */
};

/* Ended by one without a name. The first is the default. */
extern const struct loci_sim_cost loci_sim_costs[];
const struct loci_sim_cost *loci_sim_cost_named(const char *name);

#endif
