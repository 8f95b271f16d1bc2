/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_HUSH_H
#define LOCI_HUSH_H

#include <signal.h>

/* What the library does with files must not end the program: a file longer than ulimit -f allows
 * (a memory file, too) raises SIGXFSZ, and a write to a pipe that nobody reads SIGPIPE, at the very
 * thread that makes the call. Between the two calls below both are held back in this thread;
 * `error`, the errno of the call or 0, says which one was raised. That one is taken away, unless
 * one of its kind waited before. */
struct loci_hush {
    sigset_t held, before, waiting;
};

void loci_hush(struct loci_hush *h);
/* Keeps errno. */
void loci_unhush(struct loci_hush *h, int error);

#endif
