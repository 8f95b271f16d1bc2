/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: a pass. See multicast.c for the order of its steps. */

#include "config.h"

#include "multicast_trace.h"
#include "wait.h"

#ifdef LOCO_MULTICAST_PARTS
unsigned loci_multicast_parts = LOCI_MC_ALL;
#endif

/* ---- the beginning ---- */

bool loci_mc_knows_all(const struct loco_multicast *m)
{
    for (int rank = 0; rank < m->size; rank++)
        if (!loci_endpoint_knows(m->ep, rank) && !loci_mc_is_lost(m, rank))
            return false;
    return true;
}

/* A member's rows and ring. Only where all is in place does it matter whether that can be done;
 * elsewhere what is not mapped is posted to. It is done once, here: both ways to one member beside
 * each other would have no order. */
bool loci_mc_map_member(struct loco_multicast *m, int rank)
{
    if (loci_mem_map_soon(m->rt, loci_mc_rows(m, rank)) == NULL && m->in_place)
        return false;
    return !m->in_place || !m->is_sender[rank]
           || loci_mem_map_soon(m->rt, loci_endpoint_mem(m->ep, rank, LOCI_MC_RING)) != NULL;
}

const unsigned char *loci_mc_ring_of(struct loco_multicast *m, int i)
{
    const struct loci_mem *rows = loci_mc_rows(m, m->rank);

    if (loci_mc_is_lost(m, m->sender[i].rank))
        return loci_mc_no_ring;
    return m->in_place
           ? loci_mem_ptr(loci_endpoint_mem(m->ep, m->sender[i].rank, LOCI_MC_RING))
           : loci_mem_ptr(rows) + loci_mc_ring_at(m, i);
}

bool loci_mc_start(struct loco_multicast *m)
{
    if (!loci_mc_knows_all(m))
        return false;
    for (int rank = 0; rank < m->size; rank++)
        if (rank != m->rank && !loci_mc_is_lost(m, rank) && !loci_mc_map_member(m, rank))
            return false;
    loci_mc_look_start(m);
    for (int i = 0; i < m->nsenders; i++)
        m->sender[i].ring = loci_mc_ring_of(m, i);
    loci_mc_note_unknown(m);
    /* Release: who finds that it has begun finds these. */
    atomic_store_explicit(&m->started, true, memory_order_release);
    return true;
}

static bool is_started(const struct loco_multicast *m)
{
    return atomic_load_explicit(&m->started, memory_order_acquire);
}

/* ---- what the others have done ---- */

static int check_members(struct loco_multicast *m)
{
    unsigned deaths = atomic_load_explicit(&m->rt->deaths, memory_order_acquire);

    if (deaths == atomic_load_explicit(&m->deaths, memory_order_relaxed))
        return LOCO_OK;
    for (int rank = 0; rank < m->size && m->epochs == NULL; rank++)
        if (!loci_peer_alive(m->rt, loci_group_peer(&m->ep->group, rank)))
            return LOCO_ERR_PEER_DEAD;
    atomic_store_explicit(&m->deaths, deaths, memory_order_relaxed);
    return LOCO_OK;
}

/* ---- slots that are free again ---- */

/* The least of a word of all rows. */
static uint64_t least(const struct loco_multicast *m, int word)
{
    uint64_t least = loci_mc_seen(m, m->relay == NULL ? 0 : m->size, word);

    if (m->relay != NULL)
        return least;
    for (int rank = 1; rank < m->size; rank++) {
        uint64_t seen = loci_mc_seen(m, rank, word);

        least = seen < least ? seen : least;
    }
    return least;
}

/* Whether message `count` of this process, of those before m->committed, is before `end`. */
static bool is_before(const struct loco_multicast *m, uint64_t count, uint64_t end)
{
    uint64_t number = loci_load64(m->own + (count - m->first) % m->slots * m->stride) - 1;

    return loci_mc_is_ordered(m)
           ? number * (uint64_t)m->nsenders + (uint64_t)m->mine < end : number < end;
}

/* What all members have delivered, and the network has read, may be written to again. A copy that
 * somebody has delivered was read, so the former says the latter, and no run without that part goes
 * wrong. But a source is the network's until its post is complete: it may be sent again. */
static bool free_slots(struct loco_multicast *m)
{
    uint64_t committed = atomic_load_explicit(&m->committed, memory_order_relaxed);
    uint64_t stable = atomic_load_explicit(&m->stable, memory_order_relaxed), was = stable, free;
    uint64_t end = least(m, LOCI_MC_DELIVERED + (loci_mc_is_ordered(m) ? 0 : m->mine));

    while (stable < committed && is_before(m, stable, end))
        stable++;
    atomic_store_explicit(&m->stable, stable, memory_order_release);
    free = m->in_place || stable < m->done ? stable : m->done;
    if (free + m->slots == atomic_load_explicit(&m->limit, memory_order_relaxed))
        return stable != was;
    /* Release: who takes such a slot writes after they have read. */
    atomic_store_explicit(&m->limit, free + m->slots, memory_order_release);
    return true;
}

/* ---- numbers ---- */

/* Which of the slots taken is ready, or 0 bytes and false. */
static bool is_ready(const struct loco_multicast *m, uint64_t count, uint64_t at, uint64_t *bytes)
{
    /* Acquire: pairs with the release of who has filled it. */
    uint64_t word = atomic_load_explicit(&m->ready[at], memory_order_acquire);

    *bytes = word & 0xffffffff;
    return loci_mc_ready_of(word) == loci_mc_ready(count);
}

static bool has_ready(const struct loco_multicast *m)
{
    uint64_t committed = atomic_load_explicit(&m->committed, memory_order_relaxed), bytes;

    return m->mine >= 0 && is_ready(m, committed, (committed - m->first) % m->slots, &bytes);
}

/* The next slot of the ring has a message of so many bytes, which gets the next number. */
static void number_message(struct loco_multicast *m, uint64_t bytes)
{
    unsigned char *slot = m->own + m->committed_at * m->stride;

    m->given++;
    loci_store64(slot + 8, bytes | loci_mc_check(m->given));
    loci_store64(slot, m->given);
    m->committed_at = m->committed_at + 1 == m->slots ? 0 : m->committed_at + 1;
}

static void messages_numbered(struct loco_multicast *m, uint64_t committed, uint64_t n)
{
    m->last = m->given;
    atomic_store_explicit(&m->committed, committed + n, memory_order_release);
    loci_mc_trace_mark(m, "send", "messages", (int64_t)n);
    loci_mc_count(&m->counts.sent, n);
    loci_mc_count(&m->counts.send_batches, 1);
}

/* Of messages, in the order of their reservations: what is behind one that is not ready waits. */
static uint64_t number_messages(struct loco_multicast *m)
{
    uint64_t committed = atomic_load_explicit(&m->committed, memory_order_relaxed), n = 0, bytes;

    while (is_ready(m, committed + n, m->committed_at, &bytes)
           && (n == 0 || loci_mc_has(LOCI_MC_SEND))) {
        number_message(m, bytes);
        n++;
    }
    if (n > 0)
        messages_numbered(m, committed, n);
    return n;
}

/* How many numbers have to be given so that no message of the others waits for this process. Who
 * was silent goes one round ahead of the last of them, so that the next does not wait either. */
static void plan_nulls(struct loco_multicast *m)
{
    uint64_t most = m->planned, need = m->target;

    for (int i = 0; i < m->nsenders; i++) {
        uint64_t last = loci_mc_seen(m, m->sender[i].rank, LOCI_MC_LAST);
        uint64_t before = m->mine < i || last == m->base ? last : last - 1;

        if (i == m->mine)
            continue;
        most = last > most ? last : most;
        need = before > need ? before : need;
    }
    if (m->silent && most > m->planned && most + 1 > need)
        need = most + 1;
    m->planned = most;
    m->target = need;
}

static void give_numbers(struct loco_multicast *m)
{
    if (number_messages(m) > 0)
        m->silent = false;
    if (!loci_mc_is_ordered(m) || !loci_mc_has(LOCI_MC_NULLS))
        return;
    plan_nulls(m);
    if (m->given >= m->target)
        return;
    loci_mc_trace_mark(m, "nulls", "numbers", (int64_t)(m->target - m->given));
    loci_mc_count(&m->counts.nulls, m->target - m->given);
    loci_mc_count(&m->counts.null_batches, 1);
    m->given = m->target;
    m->silent = true;
}

/* ---- the own row ---- */

/* The first place of the order that has not been received, but not beyond the last message: nulls
 * behind that are nobody's news. */
static uint64_t received(const struct loco_multicast *m, const uint64_t *row)
{
    uint64_t end = UINT64_MAX, last = 0, senders = (uint64_t)m->nsenders;

    for (int i = 0; i < m->nsenders; i++) {
        int rank = m->sender[i].rank;
        uint64_t given = i == m->mine ? row[LOCI_MC_COMMITTED]
                                      : loci_mc_seen(m, rank, LOCI_MC_COMMITTED);
        uint64_t after = i == m->mine ? row[LOCI_MC_LAST] : loci_mc_seen(m, rank, LOCI_MC_LAST);

        if (given * senders + (uint64_t)i < end)
            end = given * senders + (uint64_t)i;
        if (after > m->base && (after - 1) * senders + (uint64_t)i + 1 > last)
            last = (after - 1) * senders + (uint64_t)i + 1;
    }
    last = last > m->base * senders ? last : m->base * senders;
    return end < last ? end : last;
}

/* The own row as it is to be; whether the others do not know it yet. */
static bool make_row(struct loco_multicast *m)
{
    uint64_t *row = m->made;
    bool changed = false;

    row[LOCI_MC_COMMITTED] = m->given;
    row[LOCI_MC_LAST] = m->last;
    row[LOCI_MC_RECEIVED] = loci_mc_is_ordered(m) ? received(m, row) : 0;
    for (int word = LOCI_MC_DELIVERED; word < m->words; word++)
        row[word] = atomic_load_explicit(&m->delivered[word - LOCI_MC_DELIVERED],
                                         memory_order_acquire);
    for (int word = 0; word < m->words; word++)
        changed = changed || row[word] != loci_mc_seen(m, m->rank, word);
    return (m->relay != NULL && loci_mc_relay_make(m)) || changed;
}

static int push_row(struct loco_multicast *m)
{
    int status = loci_mc_push(m, m->made);

    for (int word = 0; word < m->words; word++)
        loci_mc_see(m, m->rank, word, m->made[word]);
    loci_mc_count(&m->counts.pushes, 1);
    return status;
}

/* ---- a pass ---- */

/* A view goes on without the dead, once its members agree on that. */
static void fail(struct loco_multicast *m, int status)
{
    int going = LOCO_OK;

    if (m->epochs != NULL && status == LOCO_ERR_PEER_DEAD) {
        atomic_compare_exchange_strong(&m->failed, &going, LOCI_MC_WEDGED);
        return;
    }
    atomic_store_explicit(&m->failed, status, memory_order_release);
    loci_mc_trace_mark(m, "ended", "status", status);
}

/* Places before that may be delivered: received by all. */
static void set_deliverable(struct loco_multicast *m)
{
    uint64_t end = m->in_place ? loci_mc_seen(m, m->rank, LOCI_MC_RECEIVED)
                               : least(m, LOCI_MC_RECEIVED);

    /* Release: who delivers sees the messages. */
    atomic_store_explicit(&m->deliverable, end, memory_order_release);
}

/* Without LOCI_MC_RECEIVE each number that comes is told by a push of its own. */
static int push_receipt(struct loco_multicast *m)
{
    int status;

    make_row(m);
    status = push_row(m);
    return status == LOCO_OK ? loci_mc_may_push(m, true) : status;
}

/* Nothing is taken before it is certain that it can be told: neither numbers that others gave, nor
 * what is ready. Both are what loci_mc_has_news() finds, and so what keeps the poller awake until
 * the network has taken what is under way; no ring comes for that. */
static enum loci_mc_passed pass(struct loco_multicast *m, bool wait)
{
    int status = loci_mc_may_push(m, wait);
    bool numbers, changed, pushed = false;

    if (status == LOCO_ERR_AGAIN)
        return LOCI_MC_BUSY;
    changed = loci_mc_see_rows(m, &numbers);
    if (status == LOCO_OK && numbers && !loci_mc_has(LOCI_MC_RECEIVE)) {
        pushed = true;
        status = push_receipt(m);
    }
    if (atomic_load_explicit(&m->half, memory_order_relaxed)) {
        atomic_store_explicit(&m->half, false, memory_order_relaxed);
        changed = true;
    }
    if (m->mine >= 0)
        give_numbers(m);
    if (status == LOCO_OK && make_row(m)) {
        pushed = true;
        status = push_row(m);
    }
    if (status != LOCO_OK) {
        fail(m, status);
        return LOCI_MC_SOME;
    }
    set_deliverable(m);
    changed = (m->mine >= 0 && free_slots(m)) || changed || pushed;
    if (!changed)
        return LOCI_MC_NOTHING;
    loci_mc_count(&m->counts.passes, 1);
    return pushed ? LOCI_MC_PUSHED : LOCI_MC_SOME;
}

/* The part of a pass that makes messages visible, where all is in place: for those who send. The
 * rest is for the next pass, of which the flag reminds. */
static void show_messages(struct loco_multicast *m)
{
    unsigned char *row = loci_mem_ptr(loci_mc_rows(m, m->rank)) + loci_mc_row_at(m, m->rank);

    m->silent = false;
    atomic_store_explicit(&m->half, true, memory_order_relaxed);
    loci_mc_see(m, m->rank, LOCI_MC_LAST, m->last);
    loci_mc_see(m, m->rank, LOCI_MC_COMMITTED, m->given);
    loci_mc_count(&m->counts.pushes, 1);
    loci_mc_store_last(m, row + 8 * LOCI_MC_LAST, m->last);
    loci_mc_store_last(m, row + 8 * LOCI_MC_COMMITTED, m->given);
}

static enum loci_mc_passed commit(struct loco_multicast *m)
{
    if (loci_mc_status(m) != LOCO_OK || number_messages(m) == 0)
        return LOCI_MC_NOTHING;
    show_messages(m);
    return LOCI_MC_PUSHED;
}

static enum loci_mc_passed pass_if_alive(struct loco_multicast *m, bool wait)
{
    int status;

    if (loci_mc_status(m) != LOCO_OK)
        return LOCI_MC_NOTHING;
    status = check_members(m);
    if (status != LOCO_OK) {
        fail(m, status);
        return LOCI_MC_SOME;
    }
    if (is_started(m))
        return pass(m, wait);
    return loci_mc_start(m) ? LOCI_MC_SOME : LOCI_MC_BUSY;
}

bool loci_mc_has_delivered(const struct loco_multicast *m)
{
    for (int word = LOCI_MC_DELIVERED; word < m->words; word++)
        if (atomic_load_explicit(&m->delivered[word - LOCI_MC_DELIVERED], memory_order_relaxed)
            != loci_mc_seen(m, m->rank, word))
            return true;
    return false;
}

/* What this process has to tell: of what its threads did without the lock. */
static bool has_own_news(const struct loco_multicast *m)
{
    return has_ready(m) || loci_mc_has_delivered(m);
}

/* Once the lock is given back: then what was pushed is seen before these looks, or whoever makes
 * all fence is seen by them (loci_mc_unlock). */
static void wake(struct loco_multicast *m, enum loci_mc_passed passed)
{
    if (passed == LOCI_MC_PUSHED)
        loci_mc_ring_all(m);
    if (passed >= LOCI_MC_SOME)
        loci_mc_wake_waiters(m);
}

/* Whoever has the lock looks again after it has given it back: what another thread brought about,
 * and found the lock taken, is seen then. In total order: the news, then the lock that is taken;
 * the lock given back, then the look at news. */
static enum loci_mc_passed advance(struct loco_multicast *m, bool wait, bool commits)
{
    enum loci_mc_passed passed, result = LOCI_MC_NOTHING;

    if (!LOCI_ATOMICS_FENCE)
        atomic_thread_fence(memory_order_seq_cst);
    do {
        if (!loci_mc_try_lock(m))
            return result == LOCI_MC_NOTHING ? LOCI_MC_BUSY : result;
        passed = commits ? commit(m) : pass_if_alive(m, wait);
        loci_mc_unlock(m);
        wake(m, passed);
        result = passed > result ? passed : result;
        commits = false;
    } while (passed != LOCI_MC_BUSY && loci_mc_status(m) == LOCO_OK && has_own_news(m));
    return result;
}

enum loci_mc_passed loci_mc_advance(struct loco_multicast *m, bool wait)
{
    return advance(m, wait, false);
}

void loci_mc_commit(struct loco_multicast *m)
{
    advance(m, true, m->in_place && atomic_load_explicit(&m->started, memory_order_acquire));
}

/* ---- a message by itself ---- */

/* A slot for it, if none is taken that has no number yet: then it is the ring's next. */
static bool take_next(struct loco_multicast *m, uint64_t count)
{
    uint64_t reserved = count;

    /* Acquire: as of take_slot(), multicast_send.c. */
    if (loci_mc_status(m) != LOCO_OK
        || count >= atomic_load_explicit(&m->limit, memory_order_acquire))
        return false;
    if (!m->by_only)
        return atomic_compare_exchange_strong_explicit(&m->reserved, &reserved, count + 1,
                                                       memory_order_relaxed,
                                                       memory_order_relaxed);
    if (atomic_load_explicit(&m->reserved, memory_order_relaxed) != count)
        return false;
    atomic_store_explicit(&m->reserved, count + 1, memory_order_relaxed);
    return true;
}

bool loci_mc_post_at_once(struct loco_multicast *m, const void *data, size_t bytes,
                          uint64_t *number)
{
    uint64_t count;
    bool taken;

    if (!is_started(m) || !loci_mc_take_if_free(m))
        return false;
    count = atomic_load_explicit(&m->committed, memory_order_relaxed);
    taken = take_next(m, count);
    if (taken) {
        if (bytes > 0)
            loci_copy_in(m->own + m->committed_at * m->stride + LOCI_MC_HEADER, data, bytes);
        number_message(m, bytes);
        messages_numbered(m, count, 1);
        show_messages(m);
    }
    loci_mc_unlock(m);
    if (!taken)
        return false;
    wake(m, LOCI_MC_PUSHED);
    loci_mc_tell(m);
    if (number != NULL)
        *number = count + 1 - m->first;
    return true;
}

void loci_mc_tell(struct loco_multicast *m)
{
    if (loci_mc_status(m) == LOCO_OK && has_own_news(m))
        loci_mc_advance(m, true);
}

/* ---- whether one has something to do ---- */

/* Slots that the network has to have read, before they are free. */
static bool has_unread(const struct loco_multicast *m)
{
    return m->mine >= 0
           && atomic_load_explicit(&m->stable, memory_order_relaxed) + m->slots
              != atomic_load_explicit(&m->limit, memory_order_relaxed);
}

bool loci_mc_has_news(const struct loco_multicast *m)
{
    if (loci_mc_status(m) != LOCO_OK)
        return false;
    if (atomic_load_explicit(&m->rt->deaths, memory_order_acquire)
        != atomic_load_explicit(&m->deaths, memory_order_relaxed))
        return true;
    if (!is_started(m))
        return loci_mc_knows_all(m);
    return has_own_news(m) || atomic_load_explicit(&m->half, memory_order_relaxed)
           || loci_mc_has_new_rows(m) || has_unread(m)
           || (m->relay != NULL && loci_mc_relay_holds(m));
}
