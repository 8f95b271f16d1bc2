/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PROMISE_H
#define LOCI_PROMISE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Memory that was handed out and is not filled yet, of all processes of the node that ask in turn
 * (turn.h), in pieces of 2 MiB. */
struct loci_promises {
    _Atomic int fd;             /* -1: nothing promised yet; then the same until close */
    _Atomic bool forbidden;     /* they could not see it: promise nothing more */
    pthread_mutex_t lock;       /* what follows, and the lock that others see */
    uint64_t mine;              /* what they see, */
    uint64_t least;             /* and the least of it since somebody has begun to look */
    unsigned looks;             /* at what others owe, under way */
};

void loci_promises_init(struct loci_promises *p);
void loci_promises_close(struct loci_promises *p);

/* Whether the system shows others what this process promises: to be asked before the first promise.
 * The first time it looks, as loci_promises_of_others() does. */
bool loci_promises_are_seen(struct loci_promises *p);
/* From now on this process owes `pieces`. False: others see what they saw before, and nothing more
 * may be promised. One thread at a time, beside any that ask what others owe. */
bool loci_promises_set(struct loci_promises *p, uint64_t pieces);

/* What others owe, or more where loci_promises_set() is called meanwhile. UINT64_MAX: it cannot be
 * told. In turn only, if a decision hangs on it. It may take seconds on a machine under load, so it
 * is not for the service thread, nor to be called under a lock that it takes. */
uint64_t loci_promises_of_others(struct loci_promises *p);
/* The same of those that are this user's: nobody else can make it more. A descriptor of this
 * process that a child has inherited counts, too. Takes some milliseconds. */
uint64_t loci_promises_of_user(struct loci_promises *p);

/* Call in what others owe: the descriptor keeps calling until it is closed; -1: nobody hears. */
int loci_promises_call(void);
/* Whether anybody else calls. */
bool loci_promises_are_called(const struct loci_promises *p);

#endif
