/* SPDX-License-Identifier: BSD-3-Clause */

/* The tracker: how members hear of keys that come and go. Each has a ring buffer that all others
 * read, and reads theirs, applies what they say to the index, and then releases it, which is the
 * acknowledgement. The process's poller does that (poller.h), which serves all of its stores.
 * Reading takes no lock but the index's and that of free places, both for moments, so it always
 * comes to an end with a message, whatever those who wait for it hold.
 *
 * A thread takes long to wake where all cores are busy, with threads that use the store as likely
 * as not. So these look for messages, too, and who sends one wakes the sleepers only if it is not
 * acknowledged in the time that it spins. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_value.h"
#include "streams/ringbuffer.h"
#include "wait.h"

#define AWAKE_ROUNDS 100u               /* for which nobody is woken, at most */

/* ---- messages ---- */

/* A word of some member's place, as it stands in an index. */
static bool is_word(const struct loco_kvstore *kv, uint64_t word)
{
    uint64_t rank = word >> kv->word_shift >> kv->rank_shift;

    return rank < (uint64_t)kv->ep->group.size && loci_kv_place(kv, word) < kv->capacity
           && (word & LOCI_KV_VALID) != 0;
}

/* The ring is its writer's memory, and a writer that has lost its way may change what was looked
 * at: so it is a copy that is checked and applied. */
static bool take_message(const struct loco_kvstore *kv, const void *message, size_t bytes,
                         struct loci_kv_message *m)
{
    if (bytes < LOCI_KV_HEADER || bytes > sizeof *m)
        return false;
    loci_copy_once(m, message, bytes);
    if (m->n > LOCI_KV_BATCH || m->kind < LOCI_KV_INSERT
        || m->kind > LOCI_KV_FREE || bytes != LOCI_KV_HEADER + m->n * sizeof m->record[0])
        return false;
    for (uint32_t i = 0; i < m->n; i++)
        if (!is_word(kv, m->record[i].word))
            return false;
    return true;
}

static void apply(struct loco_kvstore *kv, uint32_t kind, const struct loci_kv_record *record)
{
    switch (kind) {
    case LOCI_KV_INSERT:
        loci_kv_index_put(&kv->index, record->key, record->word);
        break;
    case LOCI_KV_DELETE:
        loci_kv_index_remove(&kv->index, record->key, record->word);
        break;
    default:
        if (loci_kv_rank(kv, record->word) == kv->ep->group.rank)
            loci_kv_give_place(kv, loci_kv_place(kv, record->word));
        break;
    }
}

enum reading { READ_NOTHING, READ_SOME, READ_LATER, READ_END };

/* A part of what has come: some of it, so that other rings and other stores have their turns. Where
 * telling that it is read would take waiting, it is read later. The writer does not send before all
 * are connected, but this may be called before. */
static enum reading read_ring(struct loco_kvstore *kv, loco_ringbuffer_t *ring)
{
    struct loci_kv_message m;
    const void *message;
    size_t bytes;
    int status = LOCO_ERR_AGAIN;
    uint32_t done = 0;

    if (!loci_ringbuffer_is_connected(ring))
        return READ_NOTHING;
    while (done < LOCI_KV_TURN
           && (status = loco_ringbuffer_peek(ring, &message, &bytes)) == LOCO_OK) {
        if (!loci_ringbuffer_may_release(ring))
            return done > 0 ? READ_SOME : READ_LATER;
        if (!take_message(kv, message, bytes, &m)) {
            LOCI_LOG(kv->rt, LOCO_LOG_ERROR, "store %s: a message of rank %d makes no sense",
                     kv->ep->name, loco_ringbuffer_writer(ring));
            return READ_END;
        }
        for (uint32_t i = 0; i < m.n; i++)
            apply(kv, m.kind, &m.record[i]);
        loco_ringbuffer_release(ring, 1);
        done += 1 + m.n;
    }
    if (status != LOCO_OK && status != LOCO_ERR_AGAIN)
        return READ_END;
    return done > 0 ? READ_SOME : READ_NOTHING;
}

/* ---- whose turn it is ----
 *
 * One thread at a time reads the rings: the poller, or a thread that is at the store anyway and
 * sees that a message has come (loci_kv_help). It has claimed the store's place at the poller
 * (poller.h). */

static bool has_ended(const struct loco_kvstore *kv, int i)
{
    return atomic_load_explicit(&kv->ended[i], memory_order_relaxed);
}

static enum reading read_and_note(struct loco_kvstore *kv, int i)
{
    enum reading read = read_ring(kv, kv->readers[i]);

    if (read == READ_END)
        atomic_store_explicit(&kv->ended[i], true, memory_order_relaxed);
    /* Only where releases are stores: over lanes, two threads' could overtake each other. */
    if (kv->rt->ops->synchronous)
        atomic_store_explicit(&kv->next[i], read == READ_END ? NULL
                              : loci_ringbuffer_next(kv->readers[i]), memory_order_relaxed);
    return read;
}

enum loci_served loci_kv_read_rings(struct loco_kvstore *kv)
{
    enum loci_served served = LOCI_SERVED_NOTHING;

    for (int i = 0; i < kv->nreaders; i++) {
        if (has_ended(kv, i))
            continue;
        switch (read_and_note(kv, i)) {
        case READ_SOME: served = LOCI_SERVED_SOME; break;
        case READ_LATER: served = served == LOCI_SERVED_SOME ? served : LOCI_SERVED_LATER; break;
        default: break;
        }
    }
    return served;
}

/* ---- visitors ----
 *
 * A visitor has the index's lock, for as long as the program likes, and the poller must not wait
 * for that. In total order: who begins to read sees the visitor, or is seen. The poller leaves what
 * has come until the last visitor has gone, who calls it; and no other visitor comes meanwhile, or
 * visits that overlap would keep it out for ever. It says so before it looks at the visitors for
 * the last time, and they look at that after they have gone. */

/* Whether what has come may be read now. */
static bool may_read(struct loco_kvstore *kv)
{
    if (atomic_load(&kv->visitors) > 0) {
        atomic_store(&kv->kept_out, true);
        if (atomic_load(&kv->visitors) > 0)
            return false;
    }
    if (atomic_load_explicit(&kv->kept_out, memory_order_relaxed))
        atomic_store(&kv->kept_out, false);
    return true;
}

static void leave_visitors(struct loco_kvstore *kv)
{
    if (atomic_fetch_sub(&kv->visitors, 1) == 1 && atomic_load(&kv->kept_out))
        loci_polled_call(kv->polled);
}

void loci_kv_visit(struct loco_kvstore *kv)
{
    unsigned rounds = 0;

    if (kv->polled == NULL)
        return;
    atomic_fetch_add(&kv->visitors, 1);
    while (atomic_load(&kv->kept_out)) {
        leave_visitors(kv);
        while (atomic_load(&kv->kept_out))
            loci_wait_round(kv->rt, &rounds);
        atomic_fetch_add(&kv->visitors, 1);
    }
    while (loci_polled_is_claimed(kv->polled))
        loci_wait_round(kv->rt, &rounds);
}

void loci_kv_visited(struct loco_kvstore *kv)
{
    if (kv->polled != NULL)
        leave_visitors(kv);
}

void loci_kv_read_passing(struct loco_kvstore *kv)
{
    if (!loci_polled_claim(kv->polled))
        return;
    if (atomic_load(&kv->visitors) == 0)
        loci_kv_read_rings(kv);
    loci_polled_free(kv->polled);
}

/* ---- at the poller ---- */

static bool look(void *arg)
{
    struct loco_kvstore *kv = arg;

    /* Visitors keep it out: the last of them calls. Others wait until it has been in, whether there
     * is still something to be read or not. */
    if (atomic_load(&kv->kept_out))
        return atomic_load(&kv->visitors) == 0;
    for (int i = 0; i < kv->nreaders; i++)
        if (!has_ended(kv, i) && loci_ringbuffer_is_connected(kv->readers[i])
            && loci_ringbuffer_has_news(kv->readers[i]))
            return true;
    return false;
}

static enum loci_served serve(void *arg)
{
    struct loco_kvstore *kv = arg;

    return may_read(kv) ? loci_kv_read_rings(kv) : LOCI_SERVED_NOTHING;
}

static void announce(void *arg, int change)
{
    struct loco_kvstore *kv = arg;

    for (int i = 0; i < kv->nreaders; i++)
        loci_ringbuffer_announce(kv->readers[i], change);
}

/* ---- its life ---- */

static void take_ring(struct loco_kvstore *kv, int rank)
{
    loco_ringbuffer_t *ring = kv->ring[rank];

    if (rank == kv->ep->group.rank) {
        loci_ringbuffer_wake_later(ring);
        return;
    }
    kv->readers[kv->nreaders++] = ring;
    loci_ringbuffer_ring_with(ring, loci_polled_number(kv->polled));
}

int loci_kv_tracker_open(struct loco_kvstore *kv, const loco_group_t *group, size_t bytes)
{
    static const struct loci_polled_ops ops = {
        .look = look, .serve = serve, .announce = announce,
    };
    int size = kv->ep->group.size, status;
    char name[24];

    if (size == 1)
        return LOCO_OK;
    kv->ring = calloc((size_t)size, sizeof kv->ring[0]);
    kv->readers = calloc((size_t)size, sizeof kv->readers[0]);
    kv->ended = calloc((size_t)size, sizeof kv->ended[0]);
    kv->next = calloc((size_t)size, sizeof kv->next[0]);
    if (kv->ring == NULL || kv->readers == NULL || kv->ended == NULL || kv->next == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_poller_add(kv->rt, &ops, kv, &kv->polled);
    for (int rank = 0; rank < size && status == LOCO_OK; rank++) {
        snprintf(name, sizeof name, "tracker%d", rank);
        status = loco_ringbuffer_create(kv->rt, kv->ep->name, name, group, rank, bytes,
                                        LOCO_RINGBUFFER_SLEEP, &kv->ring[rank]);
        if (status == LOCO_OK)
            take_ring(kv, rank);
    }
    if (status == LOCO_OK)
        loci_polled_begin(kv->polled);
    return status;
}

void loci_kv_tracker_close(struct loco_kvstore *kv)
{
    loci_poller_remove(kv->polled);
    for (int rank = 0; kv->ring != NULL && rank < kv->ep->group.size; rank++)
        loco_ringbuffer_destroy(kv->ring[rank]);
    free(kv->ring);
    free(kv->readers);
    free(kv->ended);
    free(kv->next);
}

/* ---- telling ---- */

/* That nobody is left to hear it, or that one of them died, is as good as an acknowledgement. */
static int but_for_the_dead(int status)
{
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* The others' threads may be at it in a moment, without being woken, and they may wait for this
 * process in the same way: that takes less than waking a thread. */
static int wait_awake(struct loco_kvstore *kv, loco_ringbuffer_t *mine, uint64_t number)
{
    unsigned spin = (unsigned)kv->rt->tunables.spin, rounds = 0;
    unsigned most = spin < AWAKE_ROUNDS ? spin : AWAKE_ROUNDS;
    int status;

    do {
        status = loco_ringbuffer_acknowledged(mine, number);
        if (status != LOCO_IN_PROGRESS)
            return status;
        loci_kv_help(kv);
        loci_wait_round(kv->rt, &rounds);
    } while (rounds < most);
    return LOCO_IN_PROGRESS;
}

int loci_kv_tell(struct loco_kvstore *kv, struct loci_kv_message *message, bool wait)
{
    size_t bytes = LOCI_KV_HEADER + message->n * sizeof message->record[0];
    loco_ringbuffer_t *mine;
    uint64_t number = 0;
    int status;

    if (kv->ring == NULL)
        return LOCO_OK;
    mine = kv->ring[kv->ep->group.rank];
    status = loco_ringbuffer_send(mine, message, bytes, &number);
    if (status == LOCO_OK && wait && kv->rt->ops->synchronous) {
        int done = wait_awake(kv, mine, number);

        if (done != LOCO_IN_PROGRESS)
            return but_for_the_dead(done);
    }
    if (status == LOCO_OK)
        status = loci_ringbuffer_wake(mine);
    if (status == LOCO_OK && wait)
        status = loco_ringbuffer_wait_acknowledged(mine, number);
    return but_for_the_dead(status);
}
