/* SPDX-License-Identifier: BSD-3-Clause */

/* The tracker: how members hear of keys that come and go. Each has a ring buffer that all others
 * read, and a thread that reads theirs, applies what they say to the index, and then releases it,
 * which is the acknowledgement. Reading takes no lock but the index's and that of free places, so
 * it always comes to an end with a message, whatever those who wait for it hold.
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

/* False: nothing more will come from this one. Its writer does not send before all are connected,
 * but this thread may run before. */
static bool read_ring(struct loco_kvstore *kv, loco_ringbuffer_t *ring)
{
    struct loci_kv_message m;
    const void *message;
    size_t bytes;
    int status;

    if (!loci_ringbuffer_is_connected(ring))
        return true;
    while ((status = loco_ringbuffer_peek(ring, &message, &bytes)) == LOCO_OK) {
        if (!take_message(kv, message, bytes, &m)) {
            LOCI_LOG(kv->rt, LOCO_LOG_ERROR, "store %s: a message of rank %d makes no sense",
                     kv->ep->name, loco_ringbuffer_writer(ring));
            return false;
        }
        for (uint32_t i = 0; i < m.n; i++)
            apply(kv, m.kind, &m.record[i]);
        loco_ringbuffer_release(ring, 1);
    }
    return status == LOCO_ERR_AGAIN;
}

/* ---- whose turn it is ----
 *
 * One thread at a time reads the rings: the tracker, or a thread that is at the store anyway and
 * sees that a message has come (loci_kv_help). The flag `reading` says so. The tracker takes it for
 * news that another reads: so it does not go to sleep beside one that has had its last look, which
 * a message has missed whose writer saw nobody asleep. */

static bool begin_reading(struct loco_kvstore *kv)
{
    return !atomic_exchange(&kv->reading, true);
}

static void end_reading(struct loco_kvstore *kv)
{
    atomic_store_explicit(&kv->reading, false, memory_order_release);
}

static bool has_ended(const struct loco_kvstore *kv, int i)
{
    return atomic_load_explicit(&kv->ended[i], memory_order_relaxed);
}

static void read_rings(struct loco_kvstore *kv)
{
    for (int i = 0; i < kv->nreaders; i++) {
        if (has_ended(kv, i))
            continue;
        if (!read_ring(kv, kv->readers[i])) {
            atomic_store_explicit(&kv->ended[i], true, memory_order_relaxed);
            atomic_fetch_sub_explicit(&kv->unended, 1, memory_order_relaxed);
        }
        /* Only where releases are stores: over lanes, two threads' could overtake each other. */
        if (kv->rt->ops->synchronous)
            atomic_store_explicit(&kv->next[i], has_ended(kv, i) ? NULL
                                  : loci_ringbuffer_next(kv->readers[i]), memory_order_relaxed);
    }
}

/* In total order, here and in loci_kv_read_passing: who begins to read sees the visitor, or is
 * seen. */
void loci_kv_visit(struct loco_kvstore *kv)
{
    unsigned rounds = 0;

    atomic_fetch_add(&kv->visitors, 1);
    while (atomic_load(&kv->reading))
        loci_wait_round(kv->rt, &rounds);
}

void loci_kv_visited(struct loco_kvstore *kv)
{
    atomic_fetch_sub(&kv->visitors, 1);
}

void loci_kv_read_passing(struct loco_kvstore *kv)
{
    if (!begin_reading(kv))
        return;
    if (atomic_load(&kv->visitors) == 0)
        read_rings(kv);
    end_reading(kv);
}

/* ---- the thread's loop ---- */

/* 1: to be stopped, or a ring has something, or somebody reads. */
static int has_news(void *arg)
{
    struct loco_kvstore *kv = arg;

    if (atomic_load_explicit(&kv->stop, memory_order_acquire) || atomic_load(&kv->reading))
        return 1;
    for (int i = 0; i < kv->nreaders; i++)
        if (!has_ended(kv, i) && loci_ringbuffer_is_connected(kv->readers[i])
            && loci_ringbuffer_has_news(kv->readers[i]))
            return 1;
    return 0;
}

/* This thread sleeps, or does not any more: who writes one of these rings, or stops it, rings. */
static void announce(void *arg, int change)
{
    struct loco_kvstore *kv = arg;

    for (int i = 0; i < kv->nreaders; i++)
        loci_ringbuffer_announce(kv->readers[i], change);
}

static int whoever_dies(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

static void track(void *arg)
{
    struct loco_kvstore *kv = arg;
    const struct loci_reason why = {
        .what = "messages about keys", .peer = -1, .broken = whoever_dies,
        .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_SYNC, .announce = announce,
    };
    unsigned rounds = 0;

    while (atomic_load_explicit(&kv->unended, memory_order_relaxed) > 0
           && !atomic_load_explicit(&kv->stop, memory_order_acquire)) {
        loci_wait(kv->rt, &why, has_news, kv);
        if (!begin_reading(kv)) {
            loci_wait_round(kv->rt, &rounds);
            continue;
        }
        read_rings(kv);
        end_reading(kv);
        rounds = 0;
    }
}

/* ---- its life ---- */

int loci_kv_tracker_open(struct loco_kvstore *kv, const loco_group_t *group, size_t bytes)
{
    int size = kv->ep->group.size, status = LOCO_OK;
    char name[24];

    if (size == 1)
        return LOCO_OK;
    kv->ring = calloc((size_t)size, sizeof kv->ring[0]);
    kv->readers = calloc((size_t)size, sizeof kv->readers[0]);
    kv->ended = calloc((size_t)size, sizeof kv->ended[0]);
    kv->next = calloc((size_t)size, sizeof kv->next[0]);
    if (kv->ring == NULL || kv->readers == NULL || kv->ended == NULL || kv->next == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int rank = 0; rank < size && status == LOCO_OK; rank++) {
        snprintf(name, sizeof name, "tracker%d", rank);
        status = loco_ringbuffer_create(kv->rt, kv->ep->name, name, group, rank, bytes,
                                        LOCO_RINGBUFFER_SLEEP, &kv->ring[rank]);
        if (status == LOCO_OK && rank != kv->ep->group.rank)
            kv->readers[kv->nreaders++] = kv->ring[rank];
        if (status == LOCO_OK && rank == kv->ep->group.rank)
            loci_ringbuffer_wake_later(kv->ring[rank]);
    }
    atomic_init(&kv->unended, kv->nreaders);
    return status == LOCO_OK ? loci_worker_start(kv->rt, "loco-kv", track, kv, &kv->worker)
           : status;
}

void loci_kv_tracker_close(struct loco_kvstore *kv)
{
    if (kv->worker != NULL) {
        atomic_store_explicit(&kv->stop, true, memory_order_release);
        loci_ring_self(kv->rt);
        loci_worker_join(kv->worker);
    }
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
