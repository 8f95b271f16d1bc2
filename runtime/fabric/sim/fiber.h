/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_FIBER_H
#define LOCI_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* Fibers: stacks that one OS thread runs in turn. They switch where they say so and nowhere else,
 * so that a simulation is what its seed makes of it. */

struct loci_fiber {
    void *sp;                   /* where it goes on */
    unsigned char *stack;       /* NULL: the OS thread's own */
    size_t stack_len;
    void (*fn)(void *arg);      /* never returns: it switches away for the last time */
    void *arg;
    void *sanitizer;            /* what address or thread sanitizer want to know of it */
    struct loci_fiber *from;    /* who switched to it */
};

/* The fiber that calls this: the OS thread. */
void loci_fiber_main(struct loci_fiber *fiber);
/* False: no memory for its stack. Stacks are taken from those that were freed before. */
bool loci_fiber_make(struct loci_fiber *fiber, void (*fn)(void *arg), void *arg);
/* It does not run, and will not again. */
void loci_fiber_free(struct loci_fiber *fiber);
/* Go on there; returns when somebody switches back. `last`: it will not come back. */
void loci_fiber_switch(struct loci_fiber *from, struct loci_fiber *to, bool last);

#endif
