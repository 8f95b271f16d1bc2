/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: those who send. They take no lock: a slot is taken by an atomic, and marked when it
 * is ready. See multicast.c. */

#include "config.h"

#include "multicast_trace.h"
#include "observe/mistake.h"
#include "wait.h"

/* Whether a thread of the program passes by itself. Over lanes the poller does it alone: two
 * threads' posts would have to wait for each other. */
static bool passes_here(const struct loco_multicast *m)
{
    return m->in_place || m->polled == NULL;
}

/* Whether this thread must not wait, for what it waits for would be its own to do. */
static bool must_not_wait(struct loco_multicast *m)
{
    struct loci_thread *polls;

    if (loci_poller_is_self(m->rt) || loci_mc_is_views_thread(m))
        return true;
    if (m->handler != NULL)
        return false;
    polls = atomic_load_explicit(&m->polls, memory_order_relaxed);
    return (polls == NULL || polls == loci_self(m->rt)) && loci_mc_is_behind(m);
}

static int check_sender(const struct loco_multicast *m)
{
    return m->mine < 0 ? LOCO_ERR_STATE : loci_mc_error(m);
}

/* ---- slots ---- */

static unsigned char *slot_of(const struct loco_multicast *m, uint64_t count)
{
    return m->own + (count - m->first) % m->slots * m->stride;
}

static int take_without_lock(struct loco_multicast *m, uint64_t *count)
{
    uint64_t at;

    (void)loci_mc_come(m);
    at = atomic_load_explicit(&m->reserved, memory_order_relaxed);
    do {
        /* Acquire: pairs with the release of who found that all have delivered what was there. */
        if (at >= atomic_load_explicit(&m->limit, memory_order_acquire))
            return LOCO_ERR_AGAIN;
    } while (!atomic_compare_exchange_weak_explicit(&m->reserved, &at, at + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    *count = at;
    return LOCO_OK;
}

/* What senders would do if they took the lock. */
static void wait_for_pass(struct loco_multicast *m)
{
    if (loci_mc_has(LOCI_MC_EARLY))
        return;
    loci_mc_lock(m);
    loci_mc_unlock(m);
    if (m->polled == NULL)          /* the poller looks again by itself */
        loci_mc_tell(m);
}

static int take_slot(struct loco_multicast *m, uint64_t *count)
{
    wait_for_pass(m);
    return take_without_lock(m, count);
}

/* Who is the farthest behind, if this member knows. */
static void note_full(struct loco_multicast *m)
{
    int word = LOCI_MC_DELIVERED + (loci_mc_is_ordered(m) ? 0 : m->mine), slowest = 0;

    for (int rank = 1; rank < m->size; rank++)
        if (loci_mc_seen(m, rank, word) < loci_mc_seen(m, slowest, word))
            slowest = rank;
    LOCI_COUNT_ONE(m->counts.full);
    if (m->relay == NULL)
        LOCI_COUNT_ONE(m->slowest[slowest]);
    loci_mc_trace_mark(m, "no slot is free", "behind", slowest);
}

/* As take_slot, after a look at what has been delivered meanwhile. */
static int try_take(struct loco_multicast *m, uint64_t *count)
{
    int status = check_sender(m);

    if (status != LOCO_OK)
        return status;
    status = take_slot(m, count);
    if (status == LOCO_OK || !passes_here(m))
        return status;
    loci_mc_advance(m, true);
    status = loci_mc_error(m);
    return status == LOCO_OK ? take_slot(m, count) : status;
}

struct send_wait {
    struct loco_multicast *m;
    uint64_t count;
};

static int has_slot(void *arg)
{
    struct send_wait *wait = arg;
    int status = try_take(wait->m, &wait->count);

    if (status == LOCO_ERR_AGAIN)
        return must_not_wait(wait->m) ? LOCO_ERR_AGAIN : 0;
    return status == LOCO_OK ? 1 : status;
}

static void announce(void *arg, int change)
{
    const struct send_wait *wait = arg;

    loci_mc_announce(wait->m, change);
}

static int wait_for(struct send_wait *wait, loci_ready_fn *ready, enum loci_wait_for what_for)
{
    struct loco_multicast *m = wait->m;
    const struct loci_reason why = {
        .what = m->ep->name, .group = loci_mc_needs(m), .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_SYNC, .what_for = (uint8_t)what_for, .announce = announce,
        .broken = m->epochs == NULL ? NULL : loci_mc_broken,
    };

    return loci_wait(m->rt, &why, ready, wait);
}

static int reserve(struct loco_multicast *m, bool wait, uint64_t *count)
{
    struct send_wait waiting = { m, 0 };
    int status = try_take(m, count);

    if (status != LOCO_ERR_AGAIN)
        return status;
    note_full(m);
    if (!wait)
        return status;
    status = wait_for(&waiting, has_slot, LOCI_FOR_MULTICAST_SLOT);
    *count = waiting.count;
    return status;
}

static int reserve_slot(struct loco_multicast *m, bool wait, void **slot)
{
    uint64_t count;
    int status = reserve(m, wait, &count);

    if (status == LOCO_OK)
        *slot = slot_of(m, count) + LOCI_MC_HEADER;
    return status;
}

int loco_multicast_reserve(loco_multicast_t *m, void **slot)
{
    return reserve_slot(m, true, slot);
}

int loco_multicast_try_reserve(loco_multicast_t *m, void **slot)
{
    return reserve_slot(m, false, slot);
}

/* ---- messages ---- */

/* The message that has this slot: the last one that took it. */
static int count_of(const struct loco_multicast *m, const void *slot, uint64_t *count)
{
    uint64_t offset = (uint64_t)((const unsigned char *)slot - LOCI_MC_HEADER - m->own);
    uint64_t reserved = atomic_load_explicit(&m->reserved, memory_order_relaxed), back;

    if (slot == NULL || offset % m->stride != 0 || offset / m->stride >= m->slots)
        return LOCO_ERR_ARG;
    if (reserved == m->first)
        return LOCO_ERR_STATE;
    back = (reserved - 1 - m->first) % m->slots + m->slots - offset / m->stride;
    back %= m->slots;
    if (back >= reserved - m->first
        || reserved - 1 - back < atomic_load_explicit(&m->committed, memory_order_relaxed)
        || loci_mc_ready_of(atomic_load_explicit(&m->ready[offset / m->stride],
                                                 memory_order_relaxed))
           == loci_mc_ready(reserved - 1 - back))
        return LOCO_ERR_STATE;
    *count = reserved - 1 - back;
    return LOCO_OK;
}

/* In total order: ready, then whether the lock is taken (an atomic, and so a fence), or the poller
 * asleep. */
static int send(struct loco_multicast *m, uint64_t count, size_t bytes, uint64_t *number)
{
    wait_for_pass(m);
    atomic_store_explicit(&m->ready[(count - m->first) % m->slots],
                          loci_mc_ready(count) | (uint64_t)bytes, memory_order_release);
    if (number != NULL)
        *number = count + 1 - m->first;
    if (passes_here(m)) {
        loci_mc_commit(m);
    } else {
        atomic_thread_fence(memory_order_seq_cst);
        loci_mc_wake_waiters(m);
    }
    return LOCO_OK;
}

static int check_bytes(const struct loco_multicast *m, const char *call, size_t bytes)
{
    return bytes <= m->slot_bytes ? LOCO_OK
           : loci_mistake(m->rt, LOCO_ERR_ARG, call, m->ep->name, "a message of %zu bytes; the "
                          "most is %zu: its option slot_bytes", bytes, m->slot_bytes);
}

int loco_multicast_send(loco_multicast_t *m, void *slot, size_t bytes, uint64_t *number)
{
    int status = check_sender(m);
    uint64_t count = 0;
    struct loci_thread *self;

    if (status == LOCO_OK)
        status = check_bytes(m, "loco_multicast_send", bytes);
    if (status == LOCO_OK)
        status = count_of(m, slot, &count);
    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(m->ep->calls, LOCI_CALL_SEND, bytes);
    return loci_call_end(self, send(m, count, bytes, number));
}

static int post(struct loco_multicast *m, const void *data, size_t bytes, bool wait,
                uint64_t *number)
{
    int status = check_sender(m);
    uint64_t count;

    if (status == LOCO_OK)
        status = check_bytes(m, wait ? "loco_multicast_post" : "loco_multicast_try_post", bytes);
    if (status == LOCO_OK && m->in_place && bytes <= LOCI_MC_AT_ONCE
        && loci_mc_post_at_once(m, data, bytes, number))
        return LOCO_OK;
    if (status == LOCO_OK)
        status = reserve(m, wait, &count);
    if (status != LOCO_OK)
        return status;
    if (bytes > 0)          /* else there need not be any data */
        loci_copy_in(slot_of(m, count) + LOCI_MC_HEADER, data, bytes);
    return send(m, count, bytes, number);
}

int loco_multicast_post(loco_multicast_t *m, const void *data, size_t bytes, uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(m->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, post(m, data, bytes, true, number));
}

int loco_multicast_try_post(loco_multicast_t *m, const void *data, size_t bytes,
                            uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(m->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, post(m, data, bytes, false, number));
}

/* ---- delivered by all ---- */

static int check_number(const struct loco_multicast *m, uint64_t number)
{
    if (m->mine < 0)
        return LOCO_ERR_STATE;
    return number <= atomic_load_explicit(&m->reserved, memory_order_acquire) - m->first
           ? LOCO_OK : LOCO_ERR_ARG;
}

static bool is_stable(const struct loco_multicast *m, uint64_t number)
{
    /* Acquire: what the others did before they delivered it has happened. */
    return atomic_load_explicit(&m->stable, memory_order_acquire) - m->first >= number;
}

/* 1, 0 or an error. */
static int look_if_stable(struct loco_multicast *m, uint64_t number)
{
    if (!is_stable(m, number) && passes_here(m))
        loci_mc_advance(m, true);
    return is_stable(m, number) ? 1 : loci_mc_error(m);
}

static int has_become_stable(void *arg)
{
    struct send_wait *wait = arg;
    int status = look_if_stable(wait->m, wait->count);

    return status == 0 && must_not_wait(wait->m) ? LOCO_ERR_AGAIN : status;
}

int loco_multicast_is_delivered(loco_multicast_t *m, uint64_t number)
{
    int status = check_number(m, number);

    if (status != LOCO_OK)
        return status;
    status = look_if_stable(m, number);
    return status < 0 ? status : status == 0 ? LOCO_IN_PROGRESS : LOCO_OK;
}

int loco_multicast_wait_delivered(loco_multicast_t *m, uint64_t number)
{
    struct send_wait wait = { m, number };
    int status = check_number(m, number);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(m->ep->calls, LOCI_CALL_WAIT, 0);
    return loci_call_end(self, wait_for(&wait, has_become_stable, LOCI_FOR_MULTICAST_DELIVERY));
}
