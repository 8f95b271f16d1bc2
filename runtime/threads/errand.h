/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_ERRAND_H
#define LOCI_ERRAND_H

#include <pthread.h>

#include "runtime.h"
#include "worker.h"

/* Errands: what the service thread is asked for and must not do itself, since it may block in the
 * kernel, or has to be looked at for a while. A thread of its own runs them, started with the
 * first, so that messages and deaths are heard meanwhile.
 *
 * One thread, for all. What is not over goes to the end of the list, so one that leads nowhere
 * holds up each of the others by one of its steps at a time; where a whole round leads nowhere, the
 * next begins a moment later.
 *
 * Who owns what: an errand is its maker's until it is sent, and the thread's from then on until
 * `end`. The list and `stops` are under the lock; no step runs under it. */

struct loci_errand {
    bool (*step)(struct loci_errand *errand);   /* whether it is over */
    void (*end)(struct loci_errand *errand);    /* over, or never to be: free it */
    struct loci_errand *next;
};

struct loci_errands {
    struct loco_runtime *rt;
    const char *name;               /* of the thread */
    pthread_mutex_t lock;           /* what follows */
    pthread_cond_t news;
    struct loci_worker *worker;     /* NULL: there was none to run */
    struct loci_errand *first, **last;
    bool stops;
};

void loci_errands_open(struct loci_errands *errands, struct loco_runtime *rt, const char *name);
/* Any thread. Where no thread can be started it is run here, as long as it takes. */
void loci_errands_send(struct loci_errands *errands, struct loci_errand *errand);
/* When it returns none is under way, nor begun any more: those that are left, and come, end. */
void loci_errands_stop(struct loci_errands *errands);
void loci_errands_close(struct loci_errands *errands);

#endif
