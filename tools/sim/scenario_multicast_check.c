/* SPDX-License-Identifier: BSD-3-Clause */

/* The observer of multicasts. See scenario_multicast.h. */

#include "config.h"

#include "multicast/multicast.h"
#include "scenario_multicast.h"

/* ---- how one is made ---- */

void mc_draw(struct mc_group *g, const struct sim_run *run)
{
    static const int slots[] = { 1, 2, 3, 5 }, images[] = { 1, 2, 8 };
    static const uint64_t firsts[] = { 0, (UINT64_C(1) << 32) - 3 };

    while (g->nsenders == 0)
        for (int rank = 0; rank < run->processes; rank++)
            if (loci_sim_draw(2) == 0)
                g->senders[g->nsenders++] = rank;
    /* Not by rank, now and then. */
    if (g->nsenders > 1 && loci_sim_draw(3) == 0) {
        int last = g->senders[g->nsenders - 1];

        g->senders[g->nsenders - 1] = g->senders[0];
        g->senders[0] = last;
    }
    g->slots = slots[loci_sim_draw(4)];
    g->slot_bytes = 8 * (1 + loci_sim_draw(MC_WORDS));
    g->flags = (loci_sim_draw(4) == 0 ? LOCO_MULTICAST_UNORDERED : 0)
               | (loci_sim_draw(4) == 0 ? LOCO_MULTICAST_COPY : 0);
    g->first = firsts[loci_sim_draw(2)];
    g->images = images[loci_sim_draw(3)];
    for (int rank = 0; rank < run->processes; rank++)
        g->polled[rank] = loci_sim_draw(3) == 0;
}

int mc_sender(const struct mc_group *g, int rank)
{
    for (int i = 0; i < g->nsenders; i++)
        if (g->senders[i] == rank)
            return i;
    return -1;
}

/* ---- messages ---- */

static uint64_t word_of(uint64_t first, int k)
{
    return (first + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)k;
}

/* As many words as its first says. Some are empty. */
size_t mc_make(const struct mc_group *g, int rank, int thread, int i, uint64_t *words)
{
    int n = (int)loci_sim_draw((uint32_t)(g->slot_bytes / 8 + 1));

    words[0] = (uint64_t)rank << 48 | (uint64_t)thread << 32 | (uint64_t)i << 16 | (uint64_t)n;
    for (int k = 1; k < n; k++)
        words[k] = word_of(words[0], k);
    return 8 * (size_t)n;
}

int mc_check(const struct mc_group *g, int rank, const loco_delivery_t *message)
{
    const uint64_t *words = message->data;
    int i = mc_sender(g, message->sender);

    WANT(i >= 0, "p%d is given a message of p%d, which is no sender", rank, message->sender);
    WANT(message->bytes <= g->slot_bytes && message->bytes % 8 == 0, "p%d is given %zu bytes",
         rank, message->bytes);
    WANT(!mc_is_ordered(g)
         || (int)(message->number % (uint64_t)g->nsenders) == i,
         "p%d is given number %llu from sender %d of %d", rank,
         (unsigned long long)message->number, i, g->nsenders);
    if (message->bytes == 0)
        return SIM_FINE;
    WANT((int)(words[0] >> 48) == message->sender && (words[0] & 0xffff) * 8 == message->bytes,
         "p%d is given %zu bytes of p%d that begin with %llx", rank, message->bytes,
         message->sender, (unsigned long long)words[0]);
    for (size_t k = 1; k < message->bytes / 8; k++)
        WANT(words[k] == word_of(words[0], (int)k), "p%d reads %llx as word %zu of message %llx",
             rank, (unsigned long long)words[k], k, (unsigned long long)words[0]);
    return SIM_FINE;
}

/* ---- the log ---- */

/* The first to be given it says what is next; messages of one thread are in order. Empty ones do
 * not say whose they are. */
static int append(struct mc_group *g, int rank, int stream, const struct mc_entry *entry)
{
    struct mc_entry *log = g->log[stream];
    int at = g->logged[stream], thread = (int)(entry->word >> 32 & 0xffff);
    int i = (int)(entry->word >> 16 & 0xffff);

    WANT(at < MC_MESSAGES, "p%d is given more messages than were sent", rank);
    WANT(at == 0 || entry->number > log[at - 1].number, "p%d is given number %llu after %llu",
         rank, (unsigned long long)entry->number, (unsigned long long)log[at - 1].number);
    WANT(mc_is_ordered(g) || entry->number == g->first + (uint64_t)at,
         "p%d is given number %llu of p%d as its %d.", rank, (unsigned long long)entry->number,
         entry->sender, at);
    if (entry->word != MC_EMPTY) {
        WANT(thread < MC_THREADS && i >= g->next[entry->sender][thread],
             "p%d is given message %d of thread %d of p%d after %d", rank, i, thread,
             entry->sender, g->next[entry->sender][thread] - 1);
        g->next[entry->sender][thread] = i + 1;
    }
    log[at] = *entry;
    g->logged[stream]++;
    return SIM_FINE;
}

int mc_note(struct mc_group *g, int rank, const loco_delivery_t *message)
{
    int stream = mc_is_ordered(g) ? 0 : mc_sender(g, message->sender);
    int at = g->count[rank][stream];
    const struct mc_entry entry = {
        .number = message->number, .sender = message->sender, .bytes = message->bytes,
        .word = message->bytes == 0 ? MC_EMPTY : *(const uint64_t *)message->data,
    };
    const struct mc_entry *other = &g->log[stream][at];

    if (at == g->logged[stream])
        PASS(append(g, rank, stream, &entry));
    WANT(other->number == entry.number && other->sender == entry.sender
         && other->word == entry.word && other->bytes == entry.bytes,
         "as its %d. p%d is given number %llu of p%d, %llx, and another number %llu of p%d, %llx",
         at, rank, (unsigned long long)entry.number, entry.sender, (unsigned long long)entry.word,
         (unsigned long long)other->number, other->sender, (unsigned long long)other->word);
    g->count[rank][stream]++;
    g->from[rank][message->sender]++;
    g->delivered[rank]++;
    return SIM_FINE;
}

/* ---- what has to be so ---- */

/* In place, what one can read all can. `made` is what a member is about to tell. */
int mc_check_received(const struct mc_group *g, int rank, uint64_t number)
{
    for (int other = 0; other < MC_PROCESSES; other++) {
        const struct loco_multicast *m = g->at[other];

        WANT(m == NULL || m->in_place || !mc_is_ordered(g) || loci_sim_is_stopped(other)
             || m->made[LOCI_MC_RECEIVED] > number,
             "p%d is given number %llu, and p%d has received those before %llu", rank,
             (unsigned long long)number, other, (unsigned long long)m->made[LOCI_MC_RECEIVED]);
    }
    return SIM_FINE;
}

int mc_check_stable(const struct mc_group *g, const struct sim_run *run, int rank,
                    uint64_t number)
{
    for (int other = 0; other < run->processes; other++)
        WANT(loci_sim_is_stopped(other) || (g->flags & LOCO_MULTICAST_COPY) != 0
             || g->from[other][rank] >= (int)number,
             "message %llu of p%d is said to be delivered, and p%d has been given %d",
             (unsigned long long)number, rank, other, g->from[other][rank]);
    return SIM_FINE;
}

int mc_check_end(const struct mc_group *g, const struct sim_run *run)
{
    for (int rank = 0; rank < run->processes && !run->faults; rank++)
        WANT(g->delivered[rank] == g->sent, "p%d has been given %d messages of %d", rank,
             g->delivered[rank], g->sent);
    return SIM_FINE;
}

int mc_check_nulls(const struct mc_group *g, int rank, const loco_multicast_stats_t *stats)
{
    int n = g->logged[0];
    uint64_t round = n == 0 || !mc_is_ordered(g)
                     ? 0 : g->log[0][n - 1].number / (uint64_t)g->nsenders - g->first;

    if (!mc_is_ordered(g) || n == 0) {
        WANT(stats->nulls == 0, "p%d has given %llu nulls for nothing", rank,
             (unsigned long long)stats->nulls);
        return SIM_FINE;
    }
    WANT(stats->sent + stats->nulls <= round + 2, "p%d has given %llu numbers, and the last "
         "message has number %llu", rank, (unsigned long long)(stats->sent + stats->nulls),
         (unsigned long long)round);
    return SIM_FINE;
}
