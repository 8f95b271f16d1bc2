/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics: what the poller does. It alone delivers, keeps, logs, hands out what is kept, and calls
 * the program. So none of that needs a lock, and a member that subscribes gets its place between
 * two batches: what is kept is all up to there, what is delivered later comes later. */

#include "config.h"

#include "topic.h"
#include "wait.h"

void loci_topic_tell(const struct loco_topic *t, enum loco_topic_event event, int64_t value)
{
    if (t->event != NULL)
        t->event(t->arg, event, value);
}

/* The record of the first of these samples; 0: none. */
static uint64_t append(struct loco_topic *t, const loco_delivery_t *messages, int n)
{
    uint64_t first = 0;

    if (t->log == NULL || t->log_ended)
        return 0;
    if (loci_topic_log_append(t->log, messages, n, &first) != LOCO_OK) {
        t->log_ended = true;
        loci_topic_tell(t, LOCO_TOPIC_LOG_ENDED, (int64_t)first - 1);
        return 0;
    }
    return first;
}

/* ---- samples ---- */

static void make_samples(const loco_delivery_t *messages, int n, uint64_t record,
                         loco_sample_t *samples)
{
    for (int i = 0; i < n; i++)
        samples[i] = (loco_sample_t){
            .data = messages[i].data, .bytes = messages[i].bytes,
            .publisher = messages[i].sender, .number = messages[i].number,
            .record = record == 0 ? 0 : record + (uint64_t)i,
        };
}

void loci_topic_deliver(void *arg, const loco_delivery_t *messages, int n)
{
    loco_sample_t samples[LOCI_TOPIC_BATCH];
    struct loco_topic *t = arg;

    if (n == 0) {
        if (t->view == NULL)
            loci_topic_ended(t);
        return;
    }
    if (loci_topic_has_news(t))
        loci_topic_tell_news(t);
    make_samples(messages, n, append(t, messages, n), samples);
    if (t->deadline_ns != 0)
        atomic_store_explicit(&t->last, loci_now(t->rt), memory_order_relaxed);
    for (int i = 0; i < n && t->keeps; i++)
        loci_topic_history_put(&t->history, &samples[i]);
    if (atomic_load_explicit(&t->state, memory_order_relaxed) == LOCI_TOPIC_ON)
        t->handler(t->arg, samples, n);
}

/* ---- who subscribes late ---- */

static void hand_out_kept(struct loco_topic *t)
{
    loco_sample_t samples[LOCI_TOPIC_BATCH];
    uint64_t done = 0;
    int n;

    while (t->keeps
           && (n = loci_topic_history_get(&t->history, done, LOCI_TOPIC_BATCH, samples)) > 0) {
        t->handler(t->arg, samples, n);
        done += (uint64_t)n;
    }
    loci_topic_tell(t, LOCO_TOPIC_SUBSCRIBED, (int64_t)done);
}

static bool look(void *arg)
{
    const struct loco_topic *t = arg;

    return atomic_load_explicit(&t->state, memory_order_relaxed) == LOCI_TOPIC_ASKED
           || atomic_load_explicit(&t->missed, memory_order_relaxed) > t->told
           || loci_topic_has_news(t);
}

static enum loci_served serve(void *arg)
{
    struct loco_topic *t = arg;
    bool some = false;

    if (atomic_load_explicit(&t->state, memory_order_relaxed) == LOCI_TOPIC_ASKED) {
        atomic_store_explicit(&t->state, LOCI_TOPIC_ON, memory_order_relaxed);
        hand_out_kept(t);
        some = true;
    }
    if (loci_topic_has_news(t)) {
        loci_topic_tell_news(t);
        some = true;
    }
    for (; atomic_load_explicit(&t->missed, memory_order_relaxed) > t->told; some = true)
        loci_topic_tell(t, LOCO_TOPIC_DEADLINE_MISSED, ++t->told);
    return some ? LOCI_SERVED_SOME : LOCI_SERVED_NOTHING;
}

/* Whoever wants something calls it, whether the poller sleeps or not. */
static void announce(void *arg, int change)
{
    (void)arg;
    (void)change;
}

const struct loci_polled_ops loci_topic_polled_ops = {
    .look = look, .serve = serve, .announce = announce,
};
