/* SPDX-License-Identifier: BSD-3-Clause */

/* Multicasts: telling the others. Under the lock. See multicast.c. */

#include "config.h"

#include "multicast.h"
#include "wait.h"

/* Bytes that are written in vain rather than by a write of their own: between messages that are
 * shorter than their slots. */
#define SLACK 2048

/* ---- posts that are under way ---- */

/* All that this process has written to the others is placed. */
static int fence_members(struct loco_multicast *m)
{
    int status = LOCO_OK;

    if (m->epochs == NULL)
        return loci_fence_process(m->rt, -1, &m->ep->group);
    for (int i = 0; i < m->ntells && status == LOCO_OK; i++)
        if (!loci_mc_is_gone(m, m->tells[i]))
            status = loci_fence_process(m->rt, loci_group_peer(&m->ep->group, m->tells[i]),
                                        &m->ep->group);
    return status;
}

int loci_mc_take_posting(struct loco_multicast *m)
{
    struct loci_thread *self = loci_self(m->rt);
    int status = LOCO_OK;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (m->poster == self)
        return LOCO_OK;
    /* Lanes have no order among them: what another thread has posted is placed first. */
    if (m->poster != NULL) {
        status = loci_mc_finish(m);
        if (status == LOCO_OK)
            status = fence_members(m);
    }
    m->poster = self;
    return status;
}

/* The older posts are complete: the newer become the older. */
static void turn_posts(struct loco_multicast *m)
{
    m->done = m->posts[0].messages;
    m->images_done = m->posts[0].images;
    m->posts[0].ack = m->posts[1].ack;
    m->posts[0].messages = m->posts[1].messages;
    m->posts[0].images = m->posts[1].images;
    m->posts[1].ack = (loco_ack_t)LOCO_ACK_INIT;
    if (m->relay != NULL)
        loci_mc_relay_turn(m);
}

/* Whatever is complete by now. */
static int look_at_posts(struct loco_multicast *m)
{
    int status = LOCO_OK;

    for (int i = 0; i < 2 && status == LOCO_OK && m->images_done != m->images; i++) {
        status = loco_ack_test(m->rt, &m->posts[0].ack);
        if (status == LOCO_OK)
            turn_posts(m);
    }
    return status < 0 ? status : LOCO_OK;
}

int loci_mc_finish(struct loco_multicast *m)
{
    int status = LOCO_OK;

    for (int i = 0; i < 2; i++) {
        int one = loco_ack_wait(m->rt, &m->posts[0].ack);

        status = status == LOCO_OK ? one : status;
        turn_posts(m);
    }
    return status;
}

int loci_mc_may_push(struct loco_multicast *m, bool wait)
{
    int status = m->in_place ? LOCO_OK : look_at_posts(m);

    if (status != LOCO_OK || m->images - m->images_done < m->images_most)
        return status;
    return wait ? loci_mc_finish(m) : LOCO_ERR_AGAIN;
}

/* ---- a chain ---- */

int loci_mc_chain_post(struct loco_multicast *m, struct loci_mc_chain *c)
{
    int n = c->n;

    c->n = 0;
    loci_mc_count(&m->counts.posts, 1);
    return loci_post_spans(m->rt, c->op, n, &m->posts[1].ack);
}

int loci_mc_chain_write(struct loco_multicast *m, struct loci_mc_chain *c, uint64_t offset,
                        unsigned char *source, size_t len)
{
    int status = LOCO_OK;

    if (loci_mem_ptr(c->theirs) != NULL)
        return loci_write(m->rt, c->theirs, offset, source, len, NULL);
    if (c->n == LOCI_MC_CHAIN)
        status = loci_mc_chain_post(m, c);
    c->op[c->n++] = (struct loci_op){
        .kind = LOCI_WRITE, .mem = c->theirs, .offset = offset, .local = source, .len = len,
    };
    return status;
}

/* ---- messages ---- */

/* Bytes of the message in this slot, with its header. */
static size_t used(const unsigned char *slot)
{
    return LOCI_MC_HEADER + (size_t)(loci_load64(slot + 8) & 0xffffffff);
}

/* How many of `left` messages from slot `at` on are written at once: they follow each other, up to
 * the end of the ring, and hardly anything is between them. */
static uint64_t run_from(const struct loco_multicast *m, const unsigned char *ring, uint64_t at,
                         uint64_t left, size_t *len)
{
    uint64_t n = 1;

    while (n < left && at + n < m->slots
           && m->stride - used(ring + (at + n - 1) * m->stride) <= SLACK)
        n++;
    *len = (n - 1) * m->stride + used(ring + (at + n - 1) * m->stride);
    return n;
}

int loci_mc_chain_slots(struct loco_multicast *m, struct loci_mc_chain *c, int sender, uint64_t at,
                        uint64_t n)
{
    uint64_t ring = loci_mc_ring_at(m, sender), run;
    unsigned char *here = loci_mem_ptr(loci_mc_rows(m, m->rank)) + ring;
    int status = LOCO_OK;

    for (; n > 0 && status == LOCO_OK; n -= run) {
        size_t len;

        run = run_from(m, here, at, n, &len);
        status = loci_mc_chain_write(m, c, ring + at * m->stride, here + at * m->stride, len);
        at = (at + run) % m->slots;
    }
    return status;
}

/* All up to `end` that is not posted yet. */
static int chain_messages(struct loco_multicast *m, struct loci_mc_chain *c, uint64_t end)
{
    return m->mine < 0 ? LOCO_OK
           : loci_mc_chain_slots(m, c, m->mine, (m->posted - m->first) % m->slots,
                                 end - m->posted);
}

/* ---- the row ---- */

/* COMMITTED last: who sees it sees what is in the slots. */
void loci_mc_store_words(unsigned char *to, const uint64_t *words, int n)
{
    while (n-- > 0)
        loci_store64(to + 8 * n, words[n]);
}

int loci_mc_chain_words(struct loco_multicast *m, struct loci_mc_chain *c, uint64_t offset,
                        unsigned char *image, int words)
{
    unsigned char *to = loci_mem_ptr(c->theirs);

    if (to == NULL)
        return loci_mc_chain_write(m, c, offset, image, (size_t)words * 8);
    LOCI_COUNT_MEM(m->rt, writes, c->theirs);
    while (words-- > 0)
        loci_store64(to + offset + 8 * words, loci_load64(image + 8 * words));
    return LOCO_OK;
}

/* Slots and row: handed over together, in this order. */
static int post_to(struct loco_multicast *m, int rank, uint64_t end, unsigned char *image)
{
    struct loci_mc_chain c = { .theirs = loci_mc_rows(m, rank) };
    int status = chain_messages(m, &c, end);

    if (status == LOCO_OK)
        status = loci_mc_chain_words(m, &c, loci_mc_row_at(m, m->rank), image, m->words);
    return status == LOCO_OK ? loci_mc_chain_post(m, &c) : status;
}

/* The source of a row's write is an image of it, for the next may be pushed before it is read. */
static int post_all(struct loco_multicast *m, const uint64_t *row)
{
    uint64_t end = atomic_load_explicit(&m->committed, memory_order_relaxed);
    unsigned char *image = loci_mem_ptr(loci_mc_rows(m, m->rank))
                           + loci_mc_image_at(m, m->images);
    int status = LOCO_OK;

    loci_mc_store_words(image, row, m->words);
    for (int i = 0; i < m->ntells && status == LOCO_OK; i++)
        if (!loci_mc_is_gone(m, m->tells[i]))
            status = post_to(m, m->tells[i], end, image);
    return status;
}

int loci_mc_push(struct loco_multicast *m, const uint64_t *row)
{
    unsigned char *own = loci_mem_ptr(loci_mc_rows(m, m->rank)) + loci_mc_row_at(m, m->rank);
    int status;

    /* As loci_mc_store_words(): COMMITTED last. */
    for (int word = m->words; word-- > 0 && m->relay == NULL;)
        loci_mc_store_last(m, own + 8 * word, row[word]);
    if (m->in_place || m->size == 1)
        return LOCO_OK;
    status = loci_mc_take_posting(m);
    if (status == LOCO_OK)
        status = m->relay == NULL ? post_all(m, row) : loci_mc_relay_push(m);
    m->posted = atomic_load_explicit(&m->committed, memory_order_relaxed);
    m->images++;
    m->posts[1].messages = m->posted;
    m->posts[1].images = m->images;
    return status;
}

/* ---- who sleeps; without the lock ---- */

/* A member's word of sleep; one that cannot make others fence has them do so. */
static uint64_t word_of_sleep(struct loco_multicast *m, int rank)
{
    const unsigned char *at = loci_mem_ptr(loci_mc_rows(m, m->in_place ? rank : m->rank))
                              + loci_mc_asleep_at(m, rank);
    uint64_t word = loci_load64_total(at);

    if (!loci_mc_is_light(m) || (word & LOCI_MC_FENCES) != 0)
        return word;
    loci_fence_and_clear(&m->nothing);
    return loci_load64_total(at);
}

void loci_mc_ring_all(struct loco_multicast *m)
{
    for (int i = 0; i < m->ntells; i++) {
        int rank = m->tells[i];
        uint64_t word = loci_mc_is_gone(m, rank) ? 0 : word_of_sleep(m, rank);

        if ((word & LOCI_MC_SLEEPS) != 0)
            loci_ring_for(m->rt, loci_group_peer(&m->ep->group, rank), (uint32_t)word);
    }
}
