/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: their life. How they work:
 *
 * Memory. Each sender has a ring of `slots` slots in its own memory. A slot is a header of two
 * words, {number + 1} and {bytes, check}, and the message. Where all members have all memory
 * mapped (one node), they read it there; else each member has a copy of each ring, which the
 * sender writes. Each member has a row of counters; and a word that says whether it sleeps. Both
 * are read in its own memory on one node; else every member has a copy of each.
 *
 * Who writes which word. The sender: its slots and their copies. A member: its row, its word of
 * sleep, and their copies. Nobody writes what another writes. All counters only grow, so what is
 * read late is true, only old: a pass that meets an old value does less, never wrong.
 *
 * Order. Each sender numbers what it gives from 0 on: messages, and nulls. Number k of sender i of
 * S has place k * S + i of the total order. COMMITTED is how many numbers a sender has given. It
 * is one word: the words of a write are placed in any order, and a count of messages beside a
 * count of nulls could be met with one of them old, so that a null is taken for what is a message.
 * Which numbers are messages the slots say: a message's slot has its number, and whoever comes to
 * number k < COMMITTED looks into the slot where this sender's next message is to be. If that has
 * number k it is this message; else k is a null. So nulls need no slots, and cost one write
 * whatever their number; and an empty message is a message.
 *   What may be in that slot: message k, whole; one from a round of the ring before, whose number
 * is lower, or nothing; or a later one, whose number is not lower than COMMITTED, as far as it has
 * been written. A number that comes in two parts, old and new, might be k by chance: then its
 * check, which is in another word, is wrong.
 *
 * How a message becomes visible. Slots are written first, then the row, on one lane (on one node:
 * stored, then released). So who sees COMMITTED sees the slots. Nobody looks at a slot for a
 * number that is not below it.
 *
 * A pass is what one thread at a time does, under the lock:
 *   1. see       the rows of the others
 *   2. number    what is ready, in the order of reservations; then nulls
 *   3. push      the slots of 2, as one write for each member (two where the ring begins anew), and
 *                the own row, if it has changed: one chain for each member
 *   4. free      slots whose messages all members have delivered
 * Then whoever delivers goes through the places that all members have received: up to the least
 * RECEIVED of all rows, which on one node is one's own, for what is committed is received by all.
 * Threads that send do not take the lock: they take slots by an atomic, and mark them when they
 * are ready. So nobody waits for a post who does not post. Nobody waits for a batch to fill
 * either: a pass takes what there is.
 *
 * Reuse. A slot is written to again when all members have delivered its message (DELIVERED of all
 * rows is beyond its place), and the network has read it: the posts up to it are complete.
 * RECEIVED is not enough: the slot is where the message is read from.
 *
 * Nulls. LAST is the number after a sender's last message. A sender gives numbers until no message
 * of another waits for it: place (k, i) needs number k of those before i, and k - 1 of those
 * behind. Only messages are answered, so where there are none there are no nulls, and nulls bring
 * about no nulls. RECEIVED and DELIVERED are not pushed for nulls behind the last message. A
 * sender whose last number was a null is silent, and goes one round ahead of what it has seen: the
 * next message of an active one then finds the number given, and does not wait for it. No sender
 * that has something to send goes ahead: its messages would come a round later.
 *   A message is never kept waiting: all senders see its LAST some time, and give their numbers;
 * then all members receive its place.
 *
 * Many members. Where not all is in place and there are more than LOCI_MC_DIRECT of them, rows and
 * slots are handed on from member to member (multicast_relay.c), and the least of RECEIVED and
 * DELIVERED is made on the way. All that is said here of what a member sees holds there, too.
 *
 * Sleep. A member that has nothing to do says so in its word, at all others, and looks again; who
 * pushes looks at the words after that, and rings those who sleep. On one node that is one fence
 * at each side: the word, then the looks at the rows; the row, then the look at the word. One of
 * the two sees the other. Who sleeps does so seldom, so it fences for both, where the system lets
 * it (move/asymmetric.h); else its word says that who pushes has to.
 *   On a network what was pushed may be on its way while the sleeper looks. So it reads the rows
 * where they are written, in the memory of the others, on the lane on which it has written its
 * word, behind that. Who pushes stores its own row, fences, then looks at the
 * word in its own memory. Either it sees the word, and rings; or the word came after that look, so
 * the row was there when it was read: the sleeper then waits until what it has read is here.
 * Pushing costs nothing more for that; going to sleep costs one round trip.
 *   A ring comes by another way than what it is for, perhaps before it. Whoever wakes polls for a
 * while, and then sleeps again in the way just told, which finds what is not here yet.
 *
 * Ends. A member that stops ends the multicast at all others, who have delivered a prefix of the
 * same order each; which of them has how much they know from the rows
 * (loco_multicast_delivered_by). If it stops between two writes, others have its slots without the
 * row, which nobody looks at.
 *
 * Torn words. Software that stands for a device may copy a word byte by byte, the lower addresses
 * first: then a word of a row seems less than it is, or than it was. It is taken only if it is
 * more than before. */

#include "config.h"

#include <stdlib.h>

#include "multicast.h"
#include "observe/log.h"
#include "observe/mistake.h"

#define SLOTS 100
#define SLOTS_MAX (1 << 20)
#define SLOT_BYTES ((size_t)10 << 10)
#define SLOT_BYTES_MAX ((size_t)1 << 30)
#define SLOT_ALIGN ((size_t)64)
#define COPIES ((size_t)1 << 20)        /* bytes that are copied out at a time, about */

static const char call[] = "loco_multicast_create";

/* ---- arguments ---- */

static int complete(loco_runtime_t *rt, const char *name, int members,
                    loco_multicast_options_t *o)
{
    o->nsenders = o->senders == NULL ? members : o->nsenders;
    o->slots = o->slots == 0 ? SLOTS : o->slots;
    o->slot_bytes = o->slot_bytes == 0 ? SLOT_BYTES : o->slot_bytes;
    if (o->nsenders < 1 || o->nsenders > members)
        return loci_bad_arg(rt, call, name, "nsenders", o->nsenders, "1 to %d, the members",
                            members);
    if (o->slots < 1 || o->slots > SLOTS_MAX)
        return loci_bad_arg(rt, call, name, "slots", o->slots, "1 to %d", SLOTS_MAX);
    if (o->slot_bytes > SLOT_BYTES_MAX)
        return loci_bad_arg(rt, call, name, "slot_bytes", (long long)o->slot_bytes, "1 to %zu",
                            SLOT_BYTES_MAX);
    if ((o->flags & ~(LOCO_MULTICAST_UNORDERED | LOCO_MULTICAST_COPY)) != 0)
        return loci_bad_arg(rt, call, name, "flags", o->flags, "LOCO_MULTICAST_UNORDERED, "
                            "LOCO_MULTICAST_COPY, both or neither");
    return LOCO_OK;
}

static int take_senders(struct loco_multicast *m, const char *name,
                        const loco_multicast_options_t *o)
{
    m->mine = -1;
    for (int i = 0; i < o->nsenders; i++) {
        int rank = o->senders == NULL ? i : o->senders[i];

        if (rank < 0 || rank >= m->size || m->is_sender[rank])
            return loci_mistake(m->rt, LOCO_ERR_ARG, call, name,
                                "senders[%d] is %d; allowed are ranks from 0 to %d, each once", i,
                                rank, m->size - 1);
        m->sender[i].rank = rank;
        m->is_sender[rank] = true;
        if (rank == m->rank)
            m->mine = i;
    }
    return LOCO_OK;
}

/* So that who gives other senders, or another order of them, is told. */
static uint64_t hash_of_senders(const struct loco_multicast *m)
{
    uint64_t hash = (uint64_t)m->nsenders;

    for (int i = 0; i < m->nsenders; i++)
        hash = (hash + (uint64_t)m->sender[i].rank + 1) * UINT64_C(0x9fb21c651e98df25) >> 1;
    return hash;
}

/* ---- what it is made of ---- */

static int alloc_tables(struct loco_multicast *m)
{
    size_t n = (size_t)m->size, words = n * (size_t)m->words, senders = (size_t)m->nsenders;
    size_t copy = (m->slot_bytes + LOCI_MC_HEADER - 1) / LOCI_MC_HEADER * LOCI_MC_HEADER;

    m->is_sender = calloc(n, sizeof *m->is_sender);
    m->sender = calloc(senders, sizeof *m->sender);
    m->ready = calloc(m->slots, sizeof *m->ready);
    m->seen = calloc(words + (size_t)m->words, sizeof *m->seen);
    m->made = calloc((size_t)m->words, sizeof *m->made);
    m->delivered = calloc(senders, sizeof *m->delivered);
    m->slowest = calloc(n, sizeof *m->slowest);
    if (m->is_sender == NULL || m->sender == NULL || m->ready == NULL || m->seen == NULL
        || m->made == NULL || m->delivered == NULL || m->slowest == NULL)
        return LOCO_ERR_NO_MEMORY;
    if ((m->flags & LOCO_MULTICAST_COPY) == 0)
        return LOCO_OK;
    m->copied = COPIES / copy < 1 ? 1 : COPIES / copy < LOCI_MC_BATCH ? (int)(COPIES / copy)
                                                                      : LOCI_MC_BATCH;
    m->copies = aligned_alloc(LOCI_MC_HEADER, copy * (size_t)m->copied);
    return m->copies == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
}

/* Counts begin with `first`, numbers with `base`: memory that is zero is older than that. */
static void init_counts(struct loco_multicast *m)
{
    uint64_t place = loci_mc_is_ordered(m) ? m->base * (uint64_t)m->nsenders : m->base;

    m->given = m->last = m->target = m->planned = m->base;
    m->done = m->posted = m->first;
    m->posts[0].messages = m->posts[1].messages = m->first;
    m->silent = true;
    atomic_init(&m->reserved, m->first);
    atomic_init(&m->stable, m->first);
    atomic_init(&m->committed, m->first);
    atomic_init(&m->limit, m->first + m->slots);
    atomic_init(&m->deliverable, place);
    atomic_init(&m->shown, place);
    atomic_init(&m->shown_end, place);
    m->round = m->base;
    for (int i = 0; i < m->nsenders; i++) {
        atomic_init(&m->sender[i].next, m->base);
        atomic_init(&m->delivered[i], place);
    }
    for (int rank = 0; rank <= m->size; rank++)
        for (int word = 0; word < m->words; word++)
            atomic_init(&m->seen[rank * m->words + word],
                        word <= LOCI_MC_LAST ? m->base
                        : word == LOCI_MC_RECEIVED && !loci_mc_is_ordered(m) ? 0 : place);
}

/* Another member is known: perhaps the last. */
static void note_connected(struct loci_endpoint *ep, int rank, void *ctx)
{
    (void)ep;
    (void)rank;
    atomic_thread_fence(memory_order_seq_cst);
    loci_mc_wake_waiters(ctx);
    loci_mc_tell_view(ctx);
}

static void destroy_forgotten(void *m)
{
    loci_mc_destroy(m);
}

static int open_endpoint(struct loco_multicast *m, const char *parent, const char *name,
                         const loco_group_t *group)
{
    struct loci_endpoint_spec spec = {
        .late = m->epochs != NULL && loci_mc_is_late(m),
        .parent = parent, .name = name, .group = group, .type = "multicast",
        .property = { { "the hash of its senders", hash_of_senders(m) }, { "slots", m->slots },
                      { "slot_bytes", m->slot_bytes },
                      { "ordering", (uint64_t)(m->flags & LOCO_MULTICAST_UNORDERED) } },
        .givers = m->is_sender, .on_connect = note_connected, .ctx = m,
    };
    int status;

    spec.region[spec.nregions++] = (struct loci_region_spec){
        "rows", m->in_place ? loci_mc_image_at(m, 0) : loci_mc_ring_at(m, m->nsenders),
        LOCI_MC_LINE, LOCI_FROM_ALL };
    if (m->in_place)
        spec.region[spec.nregions++] = (struct loci_region_spec){
            "ring", loci_mc_ring_bytes(m), LOCI_MC_LINE, LOCI_FROM_SOME };
    status = loci_endpoint_create(m->rt, &spec, &m->ep);
    if (status != LOCO_OK)
        return status;
    loci_endpoint_is_of(m->ep, destroy_forgotten, m);
    /* From the beginning: for a member whose word has no such bit the others fence. */
    m->fences = m->in_place && loci_asymmetric_state(m->rt) != LOCI_ASYMMETRIC_REFUSED
                && loci_fence_heavy(m->rt);
    if (m->fences)
        loci_store64(loci_mem_ptr(loci_mc_rows(m, m->rank)) + loci_mc_asleep_at(m, m->rank),
                     LOCI_MC_FENCES);
    if (m->mine >= 0)
        m->own = m->in_place ? loci_mem_ptr(loci_endpoint_mem(m->ep, m->rank, LOCI_MC_RING))
                 : loci_mem_ptr(loci_mc_rows(m, m->rank)) + loci_mc_ring_at(m, m->mine);
    return LOCO_OK;
}

static int open_parts(struct loco_multicast *m, const char *parent, const char *name,
                      const loco_group_t *group, const loco_multicast_options_t *o,
                      const struct loci_multicast_tuning *tuning)
{
    int direct = tuning->direct == 0 ? LOCI_MC_DIRECT : tuning->direct;
    int status = alloc_tables(m);

    if (status == LOCO_OK && tuning->view != NULL)
        status = loci_mc_epochs_open(m, tuning);
    if (status == LOCO_OK)
        status = take_senders(m, name, o);
    if (status != LOCO_OK)
        return status;
    init_counts(m);
    m->in_place = loci_domain_of(group) == LOCI_DOMAIN_CPU;
    if (!m->in_place && m->size > direct)
        status = loci_mc_relay_open(m);
    if (status == LOCO_OK)
        status = loci_mc_look_open(m);
    /* Members that hand on do so whether or not the program calls. */
    if (status == LOCO_OK && (m->handler != NULL || m->relay != NULL))
        status = loci_poller_add(m->rt, &loci_mc_polled_ops, m, &m->polled);
    /* Before members become known, which rings it. */
    if (status == LOCO_OK && m->polled != NULL)
        m->polled_number = loci_polled_number(m->polled);
    if (status == LOCO_OK)
        status = open_endpoint(m, parent, name, group);
    if (status == LOCO_OK && m->polled != NULL)
        loci_polled_begin(m->polled);
    return status;
}

int loci_multicast_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, const loco_multicast_options_t *options,
                          const struct loci_multicast_tuning *tuning, loco_multicast_t **out)
{
    loco_multicast_options_t o = { .senders = NULL };
    struct loco_multicast *m;
    int status = loci_check_group(rt, call, name, group);

    if (options != NULL)
        o = *options;
    if (status == LOCO_OK)
        status = loci_poller_refuse_self(rt, call, name);
    if (status == LOCO_OK)
        status = complete(rt, name, loco_group_size(group), &o);
    if (status != LOCO_OK)
        return status;
    m = aligned_alloc(_Alignof(struct loco_multicast), sizeof *m);
    if (m == NULL)
        return LOCO_ERR_NO_MEMORY;
    *m = (struct loco_multicast){
        .rt = rt, .size = loco_group_size(group), .rank = loco_group_rank(group),
        .nsenders = o.nsenders, .slots = (uint64_t)o.slots, .slot_bytes = o.slot_bytes,
        .stride = (LOCI_MC_HEADER + o.slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN,
        .flags = o.flags, .first = tuning->first, .base = tuning->first, .handler = o.handler,
        .handler_arg = o.arg,
        .images_most = (uint64_t)(tuning->images == 0 ? LOCI_MC_IMAGES : tuning->images),
    };
    m->words = loci_mc_is_ordered(m) ? LOCI_MC_WORDS : LOCI_MC_DELIVERED + m->nsenders;
    status = open_parts(m, parent, name, group, &o, tuning);
    if (status != LOCO_OK) {
        loci_mc_destroy(m);
        return status;
    }
    *out = m;
    return LOCO_OK;
}

int loco_multicast_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, const loco_multicast_options_t *options,
                          loco_multicast_t **m)
{
    const struct loci_multicast_tuning none = { .first = 0 };

    return loci_multicast_create(rt, parent, name, group, options, &none, m);
}

/* ---- what is told ---- */

void loco_multicast_sizes(const loco_multicast_t *m, int *senders, int *slots, size_t *slot_bytes)
{
    if (senders != NULL)
        *senders = m->nsenders;
    if (slots != NULL)
        *slots = (int)m->slots;
    if (slot_bytes != NULL)
        *slot_bytes = m->slot_bytes;
}

int loco_multicast_delivered_by(const loco_multicast_t *m, int rank, int sender,
                                uint64_t *number)
{
    int column = loci_mc_is_ordered(m) ? 0 : sender;

    if (rank < 0 || rank >= m->size || column < 0 || column >= m->nsenders)
        return LOCO_ERR_ARG;
    if (loci_mc_is_gone(m, rank))
        return LOCO_ERR_PEER_DEAD;
    *number = rank == m->rank
              ? atomic_load_explicit(&m->delivered[column], memory_order_relaxed)
              : loci_mc_seen(m, m->relay == NULL ? rank : m->size, LOCI_MC_DELIVERED + column);
    return LOCO_OK;
}

void loco_multicast_stats(const loco_multicast_t *m, loco_multicast_stats_t *stats)
{
    *stats = (loco_multicast_stats_t){
        .sent = LOCI_COUNTED(m->counts.sent), .send_batches = LOCI_COUNTED(m->counts.send_batches),
        .nulls = LOCI_COUNTED(m->counts.nulls),
        .null_batches = LOCI_COUNTED(m->counts.null_batches),
        .receive_batches = LOCI_COUNTED(m->counts.receive_batches),
        .delivered = LOCI_COUNTED(m->counts.delivered),
        .deliver_batches = LOCI_COUNTED(m->counts.deliver_batches),
        .pushes = LOCI_COUNTED(m->counts.pushes), .full = LOCI_COUNTED(m->counts.full),
        .slowest = -1,
    };
    for (int rank = 0; rank < m->size; rank++)
        if (LOCI_COUNTED(m->slowest[rank]) > stats->slowest_full) {
            stats->slowest = rank;
            stats->slowest_full = LOCI_COUNTED(m->slowest[rank]);
        }
}

/* ---- the end ---- */

/* Of LOCO_STATS; and who made it slow, which is not a number to be added up. */
static void report(struct loco_multicast *m)
{
    loco_multicast_stats_t stats;

    loco_multicast_stats(m, &stats);
    for (int i = 0; i < LOCI_STATS_MULTICASTS; i++)
        loci_stats_add(m->rt->stats, LOCI_STAT_MULTICAST + i, ((const uint64_t *)&stats)[i]);
    if (stats.slowest >= 0)
        LOCI_LOG(m->rt, LOCO_LOG_DEBUG, "multicast %s: no slot was free %llu times, at %llu of "
                 "which rank %d was the last to deliver", m->ep->name,
                 (unsigned long long)stats.full, (unsigned long long)stats.slowest_full,
                 stats.slowest);
}

/* A view's is destroyed with it. */
void loco_multicast_destroy(loco_multicast_t *m)
{
    if (m == NULL)
        return;
    if (m->epochs == NULL) {
        if (loci_poller_refuse_self(m->rt, "loco_multicast_destroy", m->ep->name) == LOCO_OK)
            loci_mc_destroy(m);
    } else
        (void)loci_mistake(m->rt, LOCO_ERR_STATE, "loco_multicast_destroy", m->ep->name,
                           "it is a view's; destroy the view");
}

void loci_mc_destroy(struct loco_multicast *m)
{
    if (m == NULL)
        return;
    loci_poller_remove(m->polled);
    if (m->ep != NULL) {
        loci_mc_finish(m);
        report(m);
        loci_endpoint_destroy(m->ep);
    }
    free(m->copies);
    free(m->slowest);
    free((void *)m->delivered);
    free(m->made);
    loci_mc_look_close(m);
    loci_mc_relay_close(m);
    loci_mc_epochs_close(m);
    free((void *)m->seen);
    free((void *)m->ready);
    free(m->sender);
    free(m->is_sender);
    free(m);
}
