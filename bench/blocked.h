/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BLOCKED_H
#define BLOCKED_H

/* Rounds of a wait that one process, the waiter, begins and another ends. */

#include <stdbool.h>
#include <stddef.h>

/* A kind of wait. Each function gets `arg` and may be NULL. In each round the other process
 * prepares, the waiter waits, the other ends that after some time, and both tidy up. */
struct blocked_kind {
    const char *name;
    void (*prepare)(void *arg);
    void (*wait)(void *arg);
    void (*end)(void *arg);
    void (*tidy_waiter)(void *arg);
    void (*tidy_other)(void *arg);
};

struct blocked_shared;

/* What both map, zeroed. */
size_t blocked_bytes(void);

struct blocked_options {
    const char *only;                   /* kinds whose name contains that; NULL: all */
    int rounds;
    double seconds;                     /* of the wait whose CPU time is measured; 0: none */
};

bool blocked_parse(int argc, char **argv, struct blocked_options *options);

/* All kinds, by both processes at once. The waiter prints a row each. */
void blocked_run(struct blocked_shared *shared, bool is_waiter, const struct blocked_options *o,
                 const struct blocked_kind *kinds, size_t n, void *arg);

#endif
