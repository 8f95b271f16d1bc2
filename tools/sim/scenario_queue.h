/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_QUEUE_H
#define SIM_SCENARIO_QUEUE_H

#include "scenario_util.h"

#include "linear.h"

/* Between scenario_queue.c, which uses a queue, and scenario_queue_check.c, which judges what its
 * calls returned. */

#define QUEUE_WORDS_MAX 5
#define QUEUE_PUSHES_MAX 32             /* of one thread */

/* arg2 of a LINEAR_PUSH or LINEAR_POP without effect: why, as far as it was told. */
enum { QUEUE_REFUSED = 1, QUEUE_CLOSED };

struct queue_state {
    struct sim_state common;
    bool drawn;
    uint64_t capacity;
    size_t words;               /* of an entry */
    int flags;
    int consumer;               /* rank whose thread 0 does not push... */
    int second;                 /* ...another one, or -1 */
    bool early;                 /* somebody closes before all is pushed */
    int dead;                   /* who has stopped, as far as somebody looked, or -1 */
    int *pushing;               /* of each process: threads that may push yet */
    uint64_t close_called, close_returned;      /* stamps of the first one, or 0 */
    struct loci_history history;
};

/* Of a whole run, as an end() does. */
int queue_check(const struct sim_run *run, struct queue_state *s);
/* Whether a call may be told of a death. */
bool queue_may_fail(const struct sim_run *run, const struct queue_state *s);

#endif
