/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: delivery, to a handler or to who polls. One thread at a time. See multicast.c. */

#include "config.h"

#include "multicast_trace.h"
#include "observe/log.h"
#include "observe/mistake.h"
#include "wait.h"

#define WALK 4096u          /* places of the order that a turn goes through, at most */
#define AHEAD 4             /* messages, of a sender */
#define SLOT_LINE 64
#define TURN 8              /* batches */

/* ---- what may be delivered ---- */

static uint64_t relaxed(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static bool has_failed(struct loco_multicast *m, uint64_t bytes, int rank)
{
    if (bytes <= m->slot_bytes)
        return false;
    LOCI_LOG(m->rt, LOCO_LOG_ERROR, "multicast %s: a message of rank %d has %llu bytes, more than "
             "a slot", m->ep->name, rank, (unsigned long long)bytes);
    atomic_store_explicit(&m->failed, LOCO_ERR_PROTOCOL, memory_order_release);
    return true;
}

/* The first lines of the slot that comes some messages later, which another core has written. */
static void fetch_ahead(const struct loco_multicast *m, const struct loci_mc_sender *s)
{
    const unsigned char *slot = s->ring + (s->at + AHEAD) * m->stride;

    if (s->at + AHEAD >= m->slots)
        return;
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + SLOT_LINE);
}

bool loci_mc_take(struct loco_multicast *m, struct loci_mc_sender *s, uint64_t number,
                  loco_delivery_t *message)
{
    const unsigned char *slot = s->ring + s->at * m->stride;
    uint64_t bytes;

    if (!loci_mc_slot_has(slot, number, &bytes) || has_failed(m, bytes, s->rank))
        return false;
    fetch_ahead(m, s);
    message->data = slot + LOCI_MC_HEADER;
    message->bytes = (size_t)bytes;
    message->sender = s->rank;
    s->at = s->at + 1 == m->slots ? 0 : s->at + 1;
    return true;
}

/* Places whose sender has no message of that number are nulls. */
int loci_mc_collect_range(struct loco_multicast *m, uint64_t end, loco_delivery_t *messages,
                          int max)
{
    uint64_t at = relaxed(&m->shown);
    int n = 0;

    if (end > at + WALK)
        end = at + WALK;
    for (; at < end && n < max; at++) {
        if (loci_mc_take(m, &m->sender[m->turn], m->round, &messages[n]))
            messages[n++].number = at;
        if (++m->turn == m->nsenders) {
            m->turn = 0;
            m->round++;
        }
    }
    atomic_store_explicit(&m->shown, at, memory_order_relaxed);
    if (n > 0)
        atomic_store_explicit(&m->shown_end, messages[n - 1].number + 1, memory_order_relaxed);
    return n;
}

static int collect_ordered(struct loco_multicast *m, loco_delivery_t *messages, int max)
{
    if (m->epochs != NULL)
        return loci_mc_collect_epochs(m, messages, max);
    /* Acquire: pairs with the release of the pass that saw that all have received them. */
    return loci_mc_collect_range(m, atomic_load_explicit(&m->deliverable, memory_order_acquire),
                                 messages, max);
}

static int collect_unordered(struct loco_multicast *m, loco_delivery_t *messages, int max)
{
    int n = 0;

    for (int i = 0; i < m->nsenders; i++) {
        struct loci_mc_sender *s = &m->sender[i];
        uint64_t end = loci_mc_seen(m, s->rank, LOCI_MC_COMMITTED), next = relaxed(&s->next);

        for (; next < end && n < max && loci_mc_take(m, s, next, &messages[n]); n++)
            messages[n].number = next++;
        atomic_store_explicit(&s->next, next, memory_order_relaxed);
    }
    return n;
}

/* Out of their slots, as many as there is room for; the others are shown again. */
static void copy_out(struct loco_multicast *m, loco_delivery_t *messages, int n)
{
    unsigned char *to = m->copies;

    for (int i = 0; i < n; i++) {
        loci_copy_out(to, messages[i].data, messages[i].bytes);
        messages[i].data = to;
        to += (messages[i].bytes + LOCI_MC_HEADER - 1) / LOCI_MC_HEADER * LOCI_MC_HEADER;
    }
}

int loci_mc_collect(struct loco_multicast *m, loco_delivery_t *messages, int max)
{
    int n;

    if (!atomic_load_explicit(&m->started, memory_order_acquire))
        return 0;
    if ((m->flags & LOCO_MULTICAST_COPY) != 0 && max > m->copied)
        max = m->copied;
    if (!loci_mc_has(LOCI_MC_DELIVER))
        max = 1;
    n = loci_mc_is_ordered(m) ? collect_ordered(m, messages, max)
                              : collect_unordered(m, messages, max);
    if (n == 0)
        return 0;
    loci_mc_count(&m->counts.delivered, (uint64_t)n);
    loci_mc_count(&m->counts.deliver_batches, 1);
    if ((m->flags & LOCO_MULTICAST_COPY) != 0) {
        copy_out(m, messages, n);
        loci_mc_release(m);
    }
    return n;
}

/* Release: who sees that writes to the slots. */
void loci_mc_release(struct loco_multicast *m)
{
    if (loci_mc_is_ordered(m)) {
        atomic_store_explicit(&m->delivered[0], relaxed(&m->shown_end), memory_order_release);
        return;
    }
    for (int i = 0; i < m->nsenders; i++)
        atomic_store_explicit(&m->delivered[i], relaxed(&m->sender[i].next),
                              memory_order_release);
}

/* ---- at the poller ---- */

static bool has_deliverable(const struct loco_multicast *m)
{
    /* A view's may have changed before it began. */
    if (loci_mc_is_ordered(m))
        return relaxed(&m->shown) < relaxed(&m->deliverable)
               && atomic_load_explicit(&m->started, memory_order_relaxed);
    for (int i = 0; i < m->nsenders; i++)
        if (relaxed(&m->sender[i].next)
            < loci_mc_seen(m, m->sender[i].rank, LOCI_MC_COMMITTED))
            return true;
    return false;
}

bool loci_mc_is_behind(const struct loco_multicast *m)
{
    if (has_deliverable(m))
        return true;
    if (loci_mc_is_ordered(m))
        return relaxed(&m->delivered[0]) < relaxed(&m->shown_end);
    for (int i = 0; i < m->nsenders; i++)
        if (relaxed(&m->delivered[i]) < relaxed(&m->sender[i].next))
            return true;
    return false;
}

static bool look(void *arg)
{
    struct loco_multicast *m = arg;

    if (loci_mc_error(m) != LOCO_OK)
        return !m->told;
    return loci_mc_has_news(m) || (m->handler != NULL && has_deliverable(m))
           || atomic_load_explicit(&m->unsure, memory_order_relaxed);
}

/* How many messages a handler is given at a time. Their slots are free when it returns: were it
 * given a whole window, senders would wait for all of its time, and it for them afterwards. */
static int batch_of(const struct loco_multicast *m)
{
    uint64_t part = m->slots * (uint64_t)m->nsenders / 4;

    if ((m->flags & LOCO_MULTICAST_COPY) != 0 || part >= LOCI_MC_BATCH)
        return LOCI_MC_BATCH;
    return part > 0 ? (int)part : 1;
}

/* What it is given is gone when it returns. */
static bool deliver(struct loco_multicast *m)
{
    loco_delivery_t messages[LOCI_MC_BATCH];
    int n = m->handler == NULL ? 0 : loci_mc_collect(m, messages, batch_of(m));
    bool traced;

    if (n == 0)
        return false;
    /* The slots are free before the handler begins. */
    if ((m->flags & LOCO_MULTICAST_COPY) != 0)
        loci_mc_advance(m, false);
    traced = loci_mc_trace_deliver(m, n);
    m->handler(m->handler_arg, messages, n);
    if (traced)
        loci_mc_trace_delivered(m);
    loci_mc_release(m);
    loci_mc_note_handled(m);
    return true;
}

static enum loci_served serve(void *arg)
{
    struct loco_multicast *m = arg;
    bool some = false;

    for (int i = 0; i < TURN && loci_mc_error(m) == LOCO_OK; i++) {
        some = loci_mc_advance(m, false) >= LOCI_MC_SOME || some;
        if (loci_mc_error(m) != LOCO_OK || !deliver(m))
            break;
        some = true;
    }
    if (loci_mc_error(m) != LOCO_OK && !m->told) {
        m->told = true;
        if (m->handler != NULL)
            m->handler(m->handler_arg, NULL, 0);
    }
    if (some)
        atomic_store_explicit(&m->unsure, false, memory_order_relaxed);
    return some ? LOCI_SERVED_SOME : look(m) ? LOCI_SERVED_LATER : LOCI_SERVED_NOTHING;
}

static void announce(void *arg, int change)
{
    loci_mc_announce_to_all(arg, change);
}

const struct loci_polled_ops loci_mc_polled_ops = {
    .look = look, .serve = serve, .announce = announce,
};

/* ---- who polls ---- */

/* Tell the others what is delivered; where the poller does that, have it do so. */
static void tell(struct loco_multicast *m)
{
    if (m->polled == NULL) {
        loci_mc_advance(m, true);
    } else if (loci_mc_has_delivered(m)) {
        /* In total order: delivered, then whether the poller sleeps. */
        atomic_thread_fence(memory_order_seq_cst);
        loci_mc_wake_poller(m);
    }
}

/* Once: what was handed out before is delivered, and what has come since is handed out. */
static int poll_once(struct loco_multicast *m, loco_delivery_t *messages, int max, int *n)
{
    int status, found;

    atomic_store_explicit(&m->polls, loci_self(m->rt), memory_order_relaxed);
    if ((m->flags & LOCO_MULTICAST_COPY) == 0)
        loci_mc_release(m);
    loci_mc_note_handled(m);
    tell(m);
    status = loci_mc_error(m);
    if (status != LOCO_OK)
        return status;
    found = loci_mc_collect(m, messages, max);
    if (m->polled != NULL)          /* copies are delivered now */
        tell(m);
    if (found == 0)
        return has_deliverable(m) ? LOCO_IN_PROGRESS : loci_mc_error(m);
    *n = found;
    return LOCO_OK;
}

struct poll_wait {
    struct loco_multicast *m;
    loco_delivery_t *messages;
    int max, found;
};

static int has_come(void *arg)
{
    struct poll_wait *wait = arg;
    int status;

    wait->found = 0;
    do {
        status = poll_once(wait->m, wait->messages, wait->max, &wait->found);
    } while (status == LOCO_IN_PROGRESS);
    return status < 0 ? status : wait->found > 0;
}

static void announce_poll(void *arg, int change)
{
    const struct poll_wait *wait = arg;

    loci_mc_announce(wait->m, change);
}

static int check_poll(const struct loco_multicast *m, int max)
{
    if (m->handler != NULL)
        return LOCO_ERR_STATE;
    return max < 1 ? LOCO_ERR_ARG : LOCO_OK;
}

/* Whoever polls in a loop leaves its core to those that it waits for. */
static int poll_in_vain(struct loco_multicast *m)
{
    unsigned rounds = (unsigned)m->rt->tunables.spin;

    loci_wait_round(m->rt, &rounds);
    return LOCO_ERR_AGAIN;
}

int loco_multicast_poll(loco_multicast_t *m, loco_delivery_t *messages, int max, int *n)
{
    struct poll_wait wait = { m, messages, max, 0 };
    int status = check_poll(m, max);

    if (status == LOCO_OK)
        status = has_come(&wait);
    if (status <= 0)
        return status == 0 ? poll_in_vain(m) : status;
    *n = wait.found;
    return LOCO_OK;
}

static int next(loco_multicast_t *m, int64_t timeout_ns, loco_delivery_t *messages, int max,
                int *n)
{
    const struct loci_reason why = {
        .what = m->ep->name, .group = loci_mc_needs(m), .peer = -1, .timeout_ns = timeout_ns,
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_MULTICAST_MESSAGE, .announce = announce_poll,
        .broken = m->epochs == NULL ? NULL : loci_mc_broken,
    };
    struct poll_wait wait = { m, messages, max, 0 };
    int status = check_poll(m, max);

    if (status == LOCO_OK)
        status = loci_check_timeout(m->rt, "loco_multicast_next", m->ep->name, timeout_ns);
    if (status == LOCO_OK && loci_mc_is_views_thread(m))
        return loco_multicast_poll(m, messages, max, n);
    if (status == LOCO_OK)
        status = loci_wait(m->rt, &why, has_come, &wait);
    if (status == LOCO_OK)
        *n = wait.found;
    return status;
}

int loco_multicast_next(loco_multicast_t *m, int64_t timeout_ns, loco_delivery_t *messages,
                        int max, int *n)
{
    struct loci_thread *self = loci_call_begin(m->ep->calls, LOCI_CALL_RECEIVE, 0);

    return loci_call_end(self, next(m, timeout_ns, messages, max, n));
}
