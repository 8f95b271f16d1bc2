/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WORKER_H
#define LOCI_WORKER_H

#include "runtime.h"

/* A thread of the runtime's own: channels share one (poller.h). Its function ends by itself when it
 * is told to, by means of whoever started it. All signals are blocked in it, and it must
 * not call MPI: it waits on network memory alone. In a simulation it is a fiber. */

struct loci_worker;

/* Start fn(arg) in a thread of that name (15 characters). LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM. */
int loci_worker_start(struct loco_runtime *rt, const char *name, void (*fn)(void *arg), void *arg,
                      struct loci_worker **worker);
/* Wait until its function has returned, and forget it. NULL is allowed. */
void loci_worker_join(struct loci_worker *worker);

#endif
