/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TURN_H
#define LOCI_TURN_H

#include <stdatomic.h>
#include <stdint.h>

struct loco_runtime;

/* Asking for memory in turn. Zero it. */
struct loci_turn {
    _Atomic int64_t since;      /* the minute that the next two are of */
    _Atomic int64_t waited;     /* ns, for processes that are not this user's */
    _Atomic int64_t quiet_until;
};

/* The inode that all processes of the node have in common, for reading; or -1. */
int loci_turn_open(void);

/* The descriptor that holds the turn; or -1: it could not be had in time, go on without, with care.
 * Any thread. */
int loci_turn_take(struct loco_runtime *rt, struct loci_turn *turn);
void loci_turn_give(int fd);

#endif
