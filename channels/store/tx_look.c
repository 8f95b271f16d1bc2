/* SPDX-License-Identifier: BSD-3-Clause */

/* Looking at objects: the word of a cell, and the value that it names.
 *
 * Over a network a handle keeps the word and the length that it has seen last of an object, and
 * asks for the cell and for the block of that word in one go. If the cell still has the word, the
 * block is the value, in whatever order the two were read (store_value.c): one wait. If it has
 * another, the block of that is asked for, which is the second. Source: the speculative lookup of
 * SMART (Ren et al., ASPLOS 2024).
 *
 * One instant. Let T be the time when something is asked for. A cell that had a word before T, and
 * has it after T, had it at T, for words do not come twice (a word that is owned meanwhile and then
 * given back names the same value all the time). So looks at the cells of before may go out with
 *   - the reads of a cell and of the block of its last word, if the cell turns out to have that:
 *     all were as they were before T;
 *   - the read of the block of a word that has come back already;
 * but not with the read of a cell of which nothing is known: that may be of any time after T. */

#include "config.h"

#include <string.h>

#include "tx.h"

/* ---- words that were seen last ---- */

static struct loci_hint *hint_of(const struct loco_tx *tx, loco_object_t object)
{
    return &tx->hint[object * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LOCI_TX_HINT_BITS)];
}

void loci_tx_remember(struct loco_tx *tx, loco_object_t object, uint64_t word, size_t len)
{
    if (tx->hint != NULL)
        *hint_of(tx, object) = (struct loci_hint){ object, word, (uint32_t)len };
}

/* ---- over a network ---- */

/* Whether the value of that word has come. */
static void check_image(struct loco_tx *tx, struct loci_far *f)
{
    f->is_there = loci_image_check(tx->s, f->object, f->word, f->image, f->asked, &f->len)
                  == LOCO_OK;
    if (f->is_there)
        loci_tx_remember(tx, f->object, f->word, f->len);
}

/* The cell, and what it is thought to name. */
static int ask(struct loco_tx *tx, struct loci_far *f, loco_ack_t *ack)
{
    const struct loci_hint *hint = hint_of(tx, f->object);
    int status = loci_read64(tx->s->rt, loci_cell_mem(tx->s, f->object), loci_cell_at(f->object),
                             &f->word, ack);

    f->is_there = false;
    f->known = hint->object == f->object && hint->len <= f->room ? hint->word : 0;
    if (status != LOCO_OK || f->known == 0 || f->image == NULL)
        return status;
    f->asked = hint->len;
    return loci_image_read(tx->s, f->object, f->known, f->asked, f->image, ack);
}

/* The first go. `looks`: the cells of before are looked at, too, if all words are known. */
static int ask_all(struct loco_tx *tx, struct loci_far *far, size_t n, bool *looks)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    for (size_t i = 0; i < n && status == LOCO_OK; i++) {
        status = ask(tx, &far[i], &ack);
        *looks = *looks && far[i].known != 0;
    }
    if (status == LOCO_OK && *looks)
        status = loci_tx_post_looks(tx, NULL, false, &ack);
    status = loci_tx_wait(tx, status, &ack);
    for (size_t i = 0; i < n && status == LOCO_OK; i++) {
        if (far[i].image == NULL)
            far[i].is_there = !loci_cell_is_owned(far[i].word);
        else if (far[i].word == far[i].known)
            check_image(tx, &far[i]);
    }
    return status;
}

/* The second: values of words that were not the known ones; and all cells, those just read as well,
 * if they are to be of one instant. */
static int ask_again(struct loco_tx *tx, struct loci_far *far, size_t n, size_t len, bool looks)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    for (size_t i = 0; i < n && status == LOCO_OK; i++) {
        struct loci_far *f = &far[i];

        f->asked = 0;
        if (!f->is_there && f->image != NULL && loci_tx_names_block(tx, f->word)) {
            f->asked = len < f->room ? len : f->room;
            status = loci_image_read(tx->s, f->object, f->word, f->asked, f->image, &ack);
        }
        if (looks && n > 1 && status == LOCO_OK)
            status = loci_read64(tx->s->rt, loci_cell_mem(tx->s, f->object),
                                 loci_cell_at(f->object), &f->again, &ack);
    }
    if (status == LOCO_OK && looks)
        status = loci_tx_post_looks(tx, NULL, false, &ack);
    status = loci_tx_wait(tx, status, &ack);
    for (size_t i = 0; i < n && status == LOCO_OK; i++)
        if (!far[i].is_there && far[i].image != NULL && loci_tx_names_block(tx, far[i].word))
            check_image(tx, &far[i]);
    for (size_t i = 0; i < n && status == LOCO_OK && looks && n > 1; i++)
        if (far[i].is_there)
            status = loci_tx_is_same(tx, far[i].object, far[i].word, LOCI_SETTLE_READ,
                                     far[i].again);
    return status;
}

/* Whether each was what it was known to be. */
static bool are_as_known(const struct loci_far *far, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!far[i].is_there || far[i].word != far[i].known)
            return false;
    return true;
}

/* Whether the second go brings anything. */
static bool needs_more(const struct loco_tx *tx, const struct loci_far *far, size_t n,
                       bool together)
{
    for (size_t i = 0; i < n; i++)
        if (far[i].is_there ? together : loci_tx_names_block(tx, far[i].word))
            return true;
    return false;
}

int loci_tx_look_far(struct loco_tx *tx, struct loci_far *far, size_t n, size_t len,
                     bool together)
{
    bool looks = together;
    int status = ask_all(tx, far, n, &looks);

    if (status != LOCO_OK)
        return status;
    if (!are_as_known(far, n) && needs_more(tx, far, n, together)) {
        looks = together;
        status = ask_again(tx, far, n, len, looks);
    }
    return status == LOCO_OK && looks ? loci_tx_judge_looks(tx, NULL, LOCI_SETTLE_READ, false)
                                      : status;
}

/* One of them. Where it is owned, or has changed meanwhile, or is not there, it is left to
 * observe(): LOCO_ERR_AGAIN. */
static int look_far_one(struct loco_tx *tx, loco_object_t object, uint64_t *word,
                        struct loci_into *to, bool together)
{
    struct loci_far far = { .object = object, .room = LOCO_STORE_VALUE_MAX,
                            .image = to->value == NULL ? NULL : tx->scratch };
    int status = loci_tx_look_far(tx, &far, 1, to->room, together);

    if (status != LOCO_OK || !far.is_there)
        return status != LOCO_OK ? status : LOCO_ERR_AGAIN;
    *word = far.word;
    to->len = far.len;
    if (to->value != NULL)
        memcpy(to->value, tx->scratch + 1, to->len < to->room ? to->len : to->room);
    return LOCO_OK;
}

/* ---- one object, wherever it is ---- */

/* The value that `word` names. LOCO_ERR_AGAIN: not any more. */
static int read_image(struct loco_tx *tx, loco_object_t object, uint64_t word,
                      struct loci_into *to)
{
    struct loco_store *s = tx->s;
    size_t len = to->room;
    int status;

    do {
        loco_ack_t ack = LOCO_ACK_INIT;

        len = len < LOCO_STORE_VALUE_MAX ? len : LOCO_STORE_VALUE_MAX;
        status = loci_image_read(s, object, word, len, tx->scratch, &ack);
        status = loci_tx_wait(tx, status, &ack);
        if (status != LOCO_OK)
            return status;
        status = loci_image_check(s, object, word, tx->scratch, len, &to->len);
        len = to->len;
    } while (status == LOCO_IN_PROGRESS);
    if (status != LOCO_OK)
        return status;
    memcpy(to->value, tx->scratch + 1, to->len < to->room ? to->len : to->room);
    loci_tx_remember(tx, object, word, to->len);
    return LOCO_OK;
}

static int read_value(struct loco_tx *tx, loco_object_t object, uint64_t word,
                      struct loci_into *to)
{
    struct loco_store *s = tx->s;
    const unsigned char *blocks;

    if (!loci_block_is(s, word, LOCI_STORE_HEADER))
        return LOCO_ERR_PROTOCOL;
    blocks = loci_mem_ptr(loci_store_mem(s, loci_object_host(object), LOCI_STORE_BLOCKS));
    return blocks != NULL && !s->sums
           ? loci_block_copy(s, blocks, object, word, to->value, to->room, &to->len)
           : read_image(tx, object, word, to);
}

/* The cell's word, and its value if that is wanted: again, as long as it changes meanwhile. */
static int observe(struct loco_tx *tx, loco_object_t object, uint64_t *word, struct loci_into *to)
{
    struct loco_store *s = tx->s;
    int status;

    for (unsigned rounds = 0;;) {
        if (loci_host_is_lost(s, loci_object_host(object)))
            return LOCO_ERR_PEER_DEAD;
        status = loci_cell_read(s, object, LOCI_SETTLE_READ, &tx->asker, word);
        if (status != LOCO_OK || to->value == NULL || loci_cell_block(*word) == 0)
            return status;
        status = read_value(tx, object, *word, to);
        if (status != LOCO_ERR_AGAIN)
            return status;
        loci_store_count(tx->s, &tx->asker.stats, LOCI_STATS_RETRIES);
        loci_wait_round(s->rt, &rounds);
    }
}

/* An item of before, with its value as it was then. */
static int look_at_known(struct loco_tx *tx, const struct loci_item *item, struct loci_into *to)
{
    int status;

    if (to->value == NULL || loci_cell_block(item->word) == 0)
        return LOCO_OK;
    status = read_value(tx, item->object, item->word, to);
    return status == LOCO_ERR_AGAIN ? LOCO_ERR_CONFLICT : status;
}

/* Its word, and its value if that is wanted. *together: all items of before were so at one instant
 * with it, if that is asked for. */
static int look_anew(struct loco_tx *tx, loco_object_t object, uint64_t *word,
                     struct loci_into *to, bool *together)
{
    int status = loci_tx_is_far(tx, object) ? look_far_one(tx, object, word, to, *together)
                                            : LOCO_ERR_AGAIN;

    if (status != LOCO_ERR_AGAIN)
        return status;
    *together = false;
    return observe(tx, object, word, to);
}

int loci_tx_look(struct loco_tx *tx, loco_object_t object, struct loci_item **item,
                 struct loci_into *to)
{
    bool wanted = loci_tx_are_together(tx, 1), together = wanted;
    uint64_t word;
    int status;

    *item = loci_tx_find(tx, object);
    if (*item != NULL)
        return look_at_known(tx, *item, to);
    if (tx->nitems == LOCO_TX_READS_MAX)
        return LOCO_ERR_FULL;
    status = look_anew(tx, object, &word, to, &together);
    if (status == LOCO_OK)
        status = loci_tx_add(tx, object, item);
    if (status != LOCO_OK)
        return status;
    (*item)->word = word;
    return together == wanted ? LOCO_OK : loci_tx_look_again(tx, *item, LOCI_SETTLE_READ, false);
}

int loci_tx_peek(struct loco_tx *tx, loco_object_t object, void *value, size_t room, size_t *len)
{
    struct loci_into to = { value, room, 0 };
    bool together = false;
    uint64_t word;
    int status = look_anew(tx, object, &word, &to, &together);

    if (status == LOCO_OK && loci_cell_block(word) == 0)
        return LOCO_ERR_NOT_FOUND;
    if (status == LOCO_OK)
        *len = to.len;
    return status;
}

bool loci_tx_glance(struct loco_tx *tx, loco_object_t object, size_t expected, uint32_t *block,
                    struct loci_glance *g)
{
    struct loco_store *s = tx->s;
    const unsigned char *blocks;
    uint64_t word;

    if (s->sums || !loci_object_is(s, object) || loci_mem_ptr(loci_cell_mem(s, object)) == NULL)
        return false;
    blocks = loci_mem_ptr(loci_store_mem(s, loci_object_host(object), LOCI_STORE_BLOCKS));
    if (blocks == NULL)
        return false;
    if (*block >= 1 && *block <= s->blocks)
        loci_block_expect(blocks, *block, expected);
    if (loci_cell_load(s, object, &word) != LOCO_OK || !loci_tx_names_block(tx, word))
        return false;
    if (*block != loci_cell_block(word))
        loci_block_expect(blocks, loci_cell_block(word), expected);
    *block = (uint32_t)loci_cell_block(word);
    return loci_block_glance(s, blocks, object, word, g);
}

/* ---- what will be looked at ---- */

static const unsigned char *mapped(const struct loco_store *s, loco_object_t object, int what)
{
    if (!loci_object_is(s, object))
        return NULL;
    return loci_mem_ptr(loci_store_mem(s, loci_object_host(object), what));
}

void loci_tx_expect_cell(struct loco_tx *tx, loco_object_t object)
{
    const unsigned char *cells = mapped(tx->s, object, LOCI_STORE_CELLS);

    if (cells != NULL)
        __builtin_prefetch(cells + loci_cell_at(object));
}

void loci_tx_expect(struct loco_tx *tx, loco_object_t object, size_t bytes)
{
    const unsigned char *blocks = mapped(tx->s, object, LOCI_STORE_BLOCKS);
    uint64_t word;

    if (blocks != NULL && loci_cell_load(tx->s, object, &word) == LOCO_OK
        && loci_tx_names_block(tx, word))
        loci_block_expect(blocks, loci_cell_block(word), bytes);
}

void loci_tx_expect_block(struct loco_tx *tx, loco_object_t object, uint32_t block, size_t bytes)
{
    const unsigned char *blocks = mapped(tx->s, object, LOCI_STORE_BLOCKS);

    if (blocks == NULL || block == 0 || block > tx->s->blocks)
        return;
    loci_tx_expect_cell(tx, object);
    loci_block_expect(blocks, block, bytes);
}
