/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SCARCE_H
#define TESTS_SCARCE_H

#include <string.h>

/* What libscarce.so, which is preloaded, lets fail: calls that give something, made by our own
 * libraries (not by the program, nor by Open MPI), in the order in which they are made. */

enum scarce_kind {
    SCARCE_MEMORY = 1,          /* malloc and its like */
    SCARCE_MAPPINGS = 2,        /* mmap */
    SCARCE_DESCRIPTORS = 4,     /* whatever opens one, a message that brings one included */
    SCARCE_THREADS = 8,         /* pthread_create */
};

/* From now on, the at-th call of these kinds fails (from 1); with `ever`, so do all after it. */
typedef void scarce_arm_fn(long at, int ever, unsigned kinds);
/* None fails any more. Returns how many calls of these kinds were made since. */
typedef long scarce_disarm_fn(void);
/* Allocations of our libraries that were not given back, of the process's whole life. */
typedef long scarce_live_fn(void);

#define SCARCE_ARM "scarce_arm"
#define SCARCE_DISARM "scarce_disarm"
#define SCARCE_LIVE "scarce_live"

/* By its name: "memory" and so on. */
static inline unsigned scarce_kind_of(const char *name)
{
    return strcmp(name, "memory") == 0 ? SCARCE_MEMORY
           : strcmp(name, "mappings") == 0 ? SCARCE_MAPPINGS
           : strcmp(name, "descriptors") == 0 ? SCARCE_DESCRIPTORS : SCARCE_THREADS;
}

#endif
