/* SPDX-License-Identifier: BSD-3-Clause */

/* A topic's deadline. The poller notes when something was delivered. A thread of its own sleeps
 * until that is too long ago, counts that, and has the poller tell. A sample that is delivered
 * meanwhile only makes it sleep again: it is woken by nobody but the topic's end. */

#include "config.h"

#include "move/bell.h"
#include "topic.h"
#include "wait.h"

static int has_ended(void *arg)
{
    const struct loco_topic *t = arg;

    return atomic_load(&t->stops);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

/* In total order with the look at `stops`: whoever ends the topic sees that, or is seen. */
static void announce(void *arg, int change)
{
    struct loco_topic *t = arg;

    atomic_fetch_add(&t->waits, change);
}

static void watch(void *arg)
{
    struct loco_topic *t = arg;
    int64_t counted = loci_now(t->rt);

    while (!atomic_load(&t->stops)) {
        int64_t last = atomic_load_explicit(&t->last, memory_order_relaxed);
        int64_t from = last > counted ? last : counted, now = loci_now(t->rt);
        int64_t due = t->deadline_ns < INT64_MAX - from ? from + t->deadline_ns : INT64_MAX;
        const struct loci_reason why = {
            .what = "a deadline", .peer = -1, .broken = whoever_dies, .timeout_ns = due - now,
            .kind = LOCI_WAIT_SYNC, .announce = announce,
        };

        if (now < due) {
            loci_wait(t->rt, &why, has_ended, t);
            continue;
        }
        counted = now;
        atomic_fetch_add(&t->missed, 1);
        loci_polled_call(t->polled);
    }
}

int loci_topic_watch_begin(struct loco_topic *t)
{
    atomic_store_explicit(&t->last, loci_now(t->rt), memory_order_relaxed);
    return loci_worker_start(t->rt, "loco-deadline", watch, t, &t->watcher);
}

void loci_topic_watch_end(struct loco_topic *t)
{
    if (t->watcher == NULL)
        return;
    atomic_store(&t->stops, true);
    if (atomic_load(&t->waits) > 0)
        loci_ring_self(t->rt);
    loci_worker_join(t->watcher);
    t->watcher = NULL;
}
