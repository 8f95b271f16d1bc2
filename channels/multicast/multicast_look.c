/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: what a member looks at. Rows of others are areas of memory that one other member
 * writes each; of an area the words that this member needs are sources. Where every member writes
 * to all others, areas are the others' rows. See multicast.c. */

#include "config.h"

#include <stdlib.h>

#include "multicast.h"

#define RELAY_AREAS 64          /* more than two for each power of two of members */

/* ---- tables ---- */

int loci_mc_add_area(struct loco_multicast *m, struct loci_mc_area area)
{
    area.snapshot = calloc((size_t)area.words, sizeof *area.snapshot);
    m->area[m->areas] = area;
    return m->areas++;
}

void loci_mc_add_source(struct loco_multicast *m, int area, int at, int rank, int word)
{
    m->source[m->sources++] = (struct loci_mc_source){
        .area = area, .word = at, .seen = rank * m->words + word,
        .committed = word == LOCI_MC_COMMITTED,
    };
}

void loci_mc_add_told(struct loco_multicast *m, int rank)
{
    m->tells[m->ntells++] = rank;
}

/* Each begins behind itself, so that not all wait for the same member's port. Beside the order of
 * ranks, all sending, 100 slots (multicast_sim --post 240 --messages 8000, five windows or more): 8
 * members of 10 KiB 14.0 GB/s for 12.9; 16 of 128 bytes 1.82 for 1.76; 16 of 10 KiB 9.6 for
 * 12.0. */
static void look_at_all(struct loco_multicast *m)
{
    for (int i = 1; i < m->size; i++) {
        int rank = (m->rank + i) % m->size, area;
        uint64_t at = loci_mc_row_at(m, rank);

        area = loci_mc_add_area(m, (struct loci_mc_area){ .rank = rank, .words = m->words,
                                                          .theirs = at, .at = at });
        for (int word = 0; word < m->words; word++)
            loci_mc_add_source(m, area, word, rank, word);
        loci_mc_add_told(m, rank);
    }
}

int loci_mc_look_open(struct loco_multicast *m)
{
    size_t n = (size_t)m->size, words = (size_t)m->words, senders = (size_t)m->nsenders;

    m->area = calloc(n + RELAY_AREAS, sizeof *m->area);
    m->source = calloc(m->relay == NULL ? n * words : 2 * senders + RELAY_AREAS * words,
                       sizeof *m->source);
    m->tells = calloc(n + RELAY_AREAS, sizeof *m->tells);
    if (m->area == NULL || m->source == NULL || m->tells == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (m->relay == NULL)
        look_at_all(m);
    else
        loci_mc_relay_look(m);
    for (int i = 0; i < m->areas; i++)
        if (m->area[i].snapshot == NULL)
            return LOCO_ERR_NO_MEMORY;
    return LOCO_OK;
}

void loci_mc_look_start(struct loco_multicast *m)
{
    for (int i = 0; i < m->areas; i++) {
        struct loci_mc_area *area = &m->area[i];
        /* Who has gone before is not seen: of its row as much is known as there can be. */
        bool theirs = m->in_place && !loci_mc_is_lost(m, area->rank);

        atomic_store_explicit(&area->here,
                              loci_mem_ptr(loci_mc_rows(m, theirs ? area->rank : m->rank))
                              + (m->in_place ? area->theirs : area->at), memory_order_release);
    }
}

void loci_mc_look_close(struct loco_multicast *m)
{
    for (int i = 0; i < m->areas; i++)
        free(m->area[i].snapshot);
    free(m->area);
    free(m->source);
    free(m->tells);
}

/* ---- looks ---- */

static const unsigned char *word_of(const struct loco_multicast *m, const struct loci_mc_source *s)
{
    return loci_mc_here(&m->area[s->area]) + 8 * s->word;
}

/* A word that comes in parts may seem to be less than it was, never more than it is: words only
 * grow, and their low bytes come first. */
static bool see_word(struct loco_multicast *m, const struct loci_mc_source *s, bool whole)
{
    uint64_t seen = atomic_load_explicit(&m->seen[s->seen], memory_order_relaxed);
    uint64_t now = loci_load64(word_of(m, s));

    if (now <= seen)
        return false;
    atomic_store_explicit(&m->seen[s->seen], whole ? now : seen + 1, memory_order_relaxed);
    return true;
}

/* Without LOCI_MC_RECEIVE one number of one sender: each pass begins with another. */
bool loci_mc_see_rows(struct loco_multicast *m, bool *numbers)
{
    bool all = loci_mc_has(LOCI_MC_RECEIVE), received = false, changed = false;
    int begin = all || m->sources == 0 ? 0 : m->begin++ % m->sources;

    for (int i = 0; i < m->sources; i++) {
        int at = begin + i < m->sources ? begin + i : begin + i - m->sources;
        const struct loci_mc_source *s = &m->source[at];

        if ((s->committed && received && !all) || !see_word(m, s, all || !s->committed))
            continue;
        changed = true;
        received = received || s->committed;
    }
    loci_mc_count(&m->counts.receive_batches, received);
    *numbers = received;
    return changed;
}

bool loci_mc_has_new_rows(const struct loco_multicast *m)
{
    for (int i = 0; i < m->sources; i++) {
        const struct loci_mc_source *s = &m->source[i];

        if (loci_load64_total(word_of(m, s))
            > atomic_load_explicit(&m->seen[s->seen], memory_order_relaxed))
            return true;
    }
    return false;
}
