/* SPDX-License-Identifier: BSD-3-Clause */

/* Views: rows. Each member has a copy of all in its memory; a row's owner writes it there, data
 * first, then the word that says so, on one lane (or by stores that release), which keeps that
 * order. By the view's thread only. See view.c. */

#include "config.h"

#include "move/bell.h"
#include "observe/observe.h"
#include "view.h"
#include "wait.h"

/* ---- where it is ---- */

static uint64_t word_at(const struct loco_view *v, int rank, int word)
{
    return (uint64_t)rank * v->row_bytes + 8 * (uint64_t)word;
}

static uint64_t data_at(const struct loco_view *v, int rank, uint64_t number, uint64_t at)
{
    return word_at(v, rank, LOCI_VIEW_WORDS) + 8 * (number % 2 * v->data_words + at);
}

struct loci_mem *loci_view_mem(const struct loco_view *v, int rank, int region)
{
    return loci_endpoint_mem(v->ep, rank, region);
}

static struct loci_mem *rows(const struct loco_view *v, int rank)
{
    return loci_view_mem(v, rank, LOCI_VIEW_ROWS);
}

static unsigned char *here(const struct loco_view *v, uint64_t at)
{
    return loci_mem_ptr(rows(v, v->rank)) + at;
}

uint64_t loci_view_see(const struct loco_view *v, int rank, int word)
{
    return rank == v->rank ? v->own[word] : loci_load64(here(v, word_at(v, rank, word)));
}

uint64_t loci_view_see_data(const struct loco_view *v, int rank, uint64_t number, uint64_t at)
{
    return loci_load64(here(v, data_at(v, rank, number, at)));
}

/* ---- telling ---- */

/* What was written to that member is there, and it looks. If it is dead it need not. */
static void ring(struct loco_view *v, int rank)
{
    int peer = loci_group_peer(&v->ep->group, rank);

    if (loci_fence_peer(v->rt, LOCO_FENCE_PAIR, peer) == LOCO_OK)
        (void)loci_ring(v->rt, peer);
}

static bool is_told(const struct loco_view *v, int rank)
{
    return rank != v->rank && loci_view_has(v->known, rank)
           && loci_peer_alive(v->rt, loci_group_peer(&v->ep->group, rank));
}

void loci_view_ring(struct loco_view *v)
{
    for (int rank = 0; rank < v->size; rank++)
        if (is_told(v, rank) && !loci_view_has(v->own[LOCI_VIEW_SUSPECTED], rank))
            ring(v, rank);
}

static uint64_t start_at(const struct loco_view *v, int rank, int k)
{
    return data_at(v, rank, 1, v->data_words) + 8 * (uint64_t)k;
}

uint64_t loci_view_start_of(const struct loco_view *v, int rank, int k)
{
    return loci_load64(here(v, start_at(v, rank, k)));
}

/* Of this view's data, those words that are used. */
static int write_data(struct loco_view *v, int rank, uint64_t number, loco_ack_t *ack)
{
    uint64_t at = data_at(v, v->rank, number, 0);

    return loci_write(v->rt, rows(v, rank), at, here(v, at), 8 * v->data_words, ack);
}

static int write_word(struct loco_view *v, int rank, int word, loco_ack_t *ack)
{
    return loci_write64(v->rt, rows(v, rank), word_at(v, v->rank, word), v->own[word], ack);
}

static void set(struct loco_view *v, int word, uint64_t value)
{
    v->own[word] = value;
    loci_store64(here(v, word_at(v, v->rank, word)), value);
}

static int write_starts(struct loco_view *v, int rank, loco_ack_t *ack)
{
    uint64_t at = start_at(v, v->rank, 0);

    return loci_write(v->rt, rows(v, rank), at, here(v, at), 8 * (size_t)v->most, ack);
}

enum ahead { NOTHING, DATA, STARTS };

static int write_ahead(struct loco_view *v, int rank, enum ahead what, loco_ack_t *ack)
{
    return what == DATA ? write_data(v, rank, v->view, ack)
           : what == STARTS ? write_starts(v, rank, ack) : LOCO_OK;
}

/* Who is suspected is told that, if it lives; data are for the others, also those outside. What
 * becomes of writes to the dead is nobody's affair, but their sources are read until they have
 * failed. */
static void tell(struct loco_view *v, int word, enum ahead what)
{
    loco_ack_t ack[LOCI_VIEW_MEMBERS];
    uint64_t told = 0;

    for (int rank = 0; rank < v->size; rank++) {
        if (!is_told(v, rank)
            || (what == DATA && loci_view_has(v->own[LOCI_VIEW_SUSPECTED], rank)))
            continue;
        told |= loci_view_bit(rank);
        ack[rank] = (loco_ack_t)LOCO_ACK_INIT;
        if (write_ahead(v, rank, what, &ack[rank]) == LOCO_OK)
            (void)write_word(v, rank, word, &ack[rank]);
    }
    for (int rank = 0; rank < v->size; rank++)
        if (loci_view_has(told, rank)) {
            (void)loco_ack_wait(v->rt, &ack[rank]);
            ring(v, rank);
        }
}

void loci_view_put_data(struct loco_view *v, uint64_t at, uint64_t value)
{
    loci_store64(here(v, data_at(v, v->rank, v->view, at)), value);
}

void loci_view_tell(struct loco_view *v, int word, uint64_t value)
{
    set(v, word, value);
    tell(v, word, NOTHING);
}

void loci_view_tell_starts(struct loco_view *v, int word, uint64_t value)
{
    for (int k = 0; k < loci_view_multicasts(v); k++) {
        uint64_t start = loci_mc_take_back(v->multicast[k].m);

        loci_store64(here(v, start_at(v, v->rank, k)), start);
    }
    set(v, word, value);
    tell(v, word, STARTS);
}

void loci_view_tell_one(struct loco_view *v, int rank, int word, uint64_t value)
{
    loco_ack_t ack = LOCO_ACK_INIT;

    set(v, word, value);
    if (!is_told(v, rank))
        return;
    (void)write_word(v, rank, word, &ack);
    (void)loco_ack_wait(v->rt, &ack);
    ring(v, rank);
}

void loci_view_tell_data(struct loco_view *v, int word, uint64_t value)
{
    set(v, word, value);
    tell(v, word, DATA);
}

/* ---- who has become known ---- */

static bool is_new(const struct loco_view *v, int rank)
{
    return rank != v->rank && !loci_view_has(v->known, rank) && loci_endpoint_knows(v->ep, rank)
           && loci_peer_alive(v->rt, loci_group_peer(&v->ep->group, rank));
}

bool loci_view_has_untold(struct loco_view *v)
{
    for (int rank = 0; rank < v->size; rank++)
        if (is_new(v, rank))
            return true;
    return false;
}

static int words(const struct loco_view *v)
{
    return v->seats.open ? LOCI_VIEW_WORDS : LOCI_VIEW_SEATED;
}

static void tell_all(struct loco_view *v, int rank)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    for (uint64_t number = 0; number < 2 && status == LOCO_OK; number++)
        status = write_data(v, rank, number, &ack);
    if (status == LOCO_OK)
        status = write_starts(v, rank, &ack);
    for (int word = 0; word < words(v) && status == LOCO_OK; word++)
        status = write_word(v, rank, word, &ack);
    (void)loco_ack_wait(v->rt, &ack);
    ring(v, rank);
}

/* Mapped before the first write, if it can be: both ways beside each other would have no order. */
void loci_view_tell_new(struct loco_view *v)
{
    for (int rank = 0; rank < v->size; rank++)
        if (is_new(v, rank)) {
            (void)loci_mem_map_soon(v->rt, rows(v, rank));
            v->known |= loci_view_bit(rank);
            tell_all(v, rank);
        }
}
