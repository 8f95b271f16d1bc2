/* SPDX-License-Identifier: BSD-3-Clause */

/* Waiting for any of several queues. No ticket is drawn: the two counters of each queue are looked
 * at, at intervals that double, as calls with a limit do (queue.c). What is found may be gone when
 * the caller comes for it. */

#include "config.h"

#include "observe/mistake.h"
#include "queue.h"
#include "wait.h"

#define FIRST_LOOK_AFTER INT64_C(1000)      /* ns between looks, which double */
#define LAST_LOOK_AFTER INT64_C(500000)

struct any_wait {
    loco_queue_t *const *queues;
    int n, first, found;
    int64_t next_look, interval;
};

/* Whether a pop would return at once: with an entry, or with what is wrong. */
static bool is_ready(struct loco_queue *q)
{
    uint64_t entries;

    return loco_queue_size(q, &entries) != LOCO_OK || entries > 0 || loci_queue_closed(q) != 0;
}

static int look(void *arg)
{
    struct any_wait *w = arg;
    struct loco_runtime *rt = w->queues[0]->rt;

    if (loci_now(rt) < w->next_look)
        return 0;
    for (int i = 0; i < w->n; i++) {
        w->found = (w->first + i) % w->n;
        if (is_ready(w->queues[w->found]))
            return 1;
    }
    w->interval = 2 * w->interval < LAST_LOOK_AFTER ? 2 * w->interval : LAST_LOOK_AFTER;
    w->next_look = loci_now(rt) + w->interval;
    return 0;
}

static int somebody_may_come(void *arg)
{
    const struct any_wait *w = arg;

    for (int i = 0; i < w->n; i++)
        if (!loci_queue_are_others_dead(w->queues[i]))
            return LOCO_OK;
    return LOCO_ERR_PEER_DEAD;
}

int loco_queue_wait_any(loco_queue_t *const *queues, int n, int64_t timeout_ns, int *which)
{
    const struct loci_reason why = {
        .what = "one of several queues", .peer = -1, .broken = somebody_may_come,
        .timeout_ns = timeout_ns, .kind = LOCI_WAIT_OTHER,
    };
    struct any_wait w = {
        .queues = queues, .n = n, .first = *which + 1, .interval = FIRST_LOOK_AFTER / 2,
    };
    int status;

    if (n < 1 || *which < -1 || *which >= n)
        return LOCO_ERR_ARG;
    status = loci_check_timeout(queues[0]->rt, "loco_queue_wait_any", queues[0]->ep->name,
                                timeout_ns);
    if (status == LOCO_OK)
        status = loci_wait(queues[0]->rt, &why, look, &w);
    if (status == LOCO_OK)
        *which = w.found;
    return status;
}
