/* SPDX-License-Identifier: BSD-3-Clause */

/* The objects of a transaction: what it has read and what it will write. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tx.h"

/* ---- finding them ---- */

static unsigned place_of(loco_object_t object)
{
    return (unsigned)(object * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (LOCI_TX_HASH - 1);
}

static void enter(struct loco_tx *tx, int i)
{
    unsigned at = place_of(tx->item[i].object);

    while (tx->hash[at] != 0)
        at = (at + 1) & (LOCI_TX_HASH - 1);
    tx->hash[at] = (uint16_t)(i + 1);
}

static struct loci_item *find_hashed(struct loco_tx *tx, loco_object_t object)
{
    for (unsigned at = place_of(object); tx->hash[at] != 0; at = (at + 1) & (LOCI_TX_HASH - 1))
        if (tx->item[tx->hash[at] - 1].object == object)
            return &tx->item[tx->hash[at] - 1];
    return NULL;
}

struct loci_item *loci_tx_find(struct loco_tx *tx, loco_object_t object)
{
    if (tx->hashed)
        return find_hashed(tx, object);
    for (int i = 0; i < tx->nitems; i++)
        if (tx->item[i].object == object)
            return &tx->item[i];
    return NULL;
}

int loci_tx_add(struct loco_tx *tx, loco_object_t object, struct loci_item **item)
{
    struct loci_item *it = &tx->item[tx->nitems];

    if (tx->nitems == LOCO_TX_READS_MAX)
        return LOCO_ERR_FULL;
    *it = (struct loci_item){ .object = object };
    tx->nitems++;
    if (tx->hashed) {
        enter(tx, tx->nitems - 1);
    } else if (tx->nitems > LOCI_TX_FEW) {
        tx->hashed = true;
        for (int i = 0; i < tx->nitems; i++)
            enter(tx, i);
    }
    *item = it;
    return LOCO_OK;
}

void loci_tx_clear(struct loco_tx *tx)
{
    if (tx->hashed)
        memset(tx->hash, 0, LOCI_TX_HASH * sizeof tx->hash[0]);
    tx->hashed = false;
    tx->nitems = tx->nwrites = tx->nreads = 0;
    tx->used = 0;
}

/* ---- writing ---- */

int loci_tx_mark_written(struct loco_tx *tx, struct loci_item *item)
{
    if ((item->flags & LOCI_ITEM_WRITE) != 0)
        return LOCO_OK;
    if (tx->nwrites == LOCO_TX_WRITES_MAX)
        return LOCO_ERR_FULL;
    tx->write[tx->nwrites++] = (uint16_t)(item - tx->item);
    item->flags |= tx->marked ? LOCI_ITEM_SINCE : 0;
    if ((item->flags & LOCI_ITEM_READ) != 0)
        tx->nreads--;
    item->flags |= LOCI_ITEM_WRITE;
    return LOCO_OK;
}

static int reserve(struct loco_tx *tx, size_t bytes, size_t *at)
{
    size_t need = tx->used + bytes;

    if (need > tx->room) {
        size_t room = need > 2 * tx->room ? need : 2 * tx->room;
        unsigned char *buffer = realloc(tx->buffer, room);

        if (buffer == NULL)
            return LOCO_ERR_NO_MEMORY;
        tx->buffer = buffer;
        tx->room = room;
    }
    *at = tx->used;
    tx->used = need;
    return LOCO_OK;
}

void loci_tx_drop_block(struct loco_tx *tx, struct loci_item *item)
{
    if (item->block != 0 && (!loci_tx_is_in_place(item) || loci_tx_logged(item) != 0))
        loci_stock_put_back(tx->client, item->block_at);
    item->block = 0;
}

void loci_tx_put_back(struct loco_tx *tx, struct loci_item *item)
{
    loci_tx_drop_block(tx, item);
    if ((item->flags & LOCI_ITEM_NEW) != 0)
        loci_stock_put_back(tx->client, item->cell_at);
    item->flags &= (uint8_t)~LOCI_ITEM_NEW;
}

#ifdef LOCO_TX_PARTS
/* What is written over its block is written to another one before. */
static int take_log(struct loco_tx *tx, struct loci_item *item)
{
    unsigned at;
    int status = LOCO_OK;

    if (!loci_tx_has(LOCI_TX_VALUES) || item->logged != 0)
        return LOCO_OK;
    loci_stock_begin(tx->client);
    status = loci_block_take(tx->client, loci_object_host(item->object), item->class, &at,
                             &item->logged);
    loci_stock_end(tx->client);
    item->block_at = (uint16_t)at;
    return status;
}
#endif

/* A block of that class, instead of the one that it has, if that is another. */
static int take_block(struct loco_tx *tx, struct loci_item *item, int class)
{
    unsigned at;
    uint64_t block;
    int status;

    if (item->block != 0 && item->class == class)
        return LOCO_OK;
    if (!loci_tx_has(LOCI_TX_COPY) && loci_cell_block(item->word) != 0) {
        item->block = loci_cell_block(item->word);
        item->class = (uint8_t)class;
        item->flags |= LOCI_ITEM_IN_PLACE;
#ifdef LOCO_TX_PARTS
        return take_log(tx, item);
#endif
    }
    loci_stock_begin(tx->client);
    status = loci_block_take(tx->client, loci_object_host(item->object), class, &at, &block);
    if (status == LOCO_OK && item->block != 0)
        loci_stock_put_back(tx->client, item->block_at);
    loci_stock_end(tx->client);
    if (status != LOCO_OK)
        return status;
    item->block = block;
    item->block_at = (uint16_t)at;
    item->class = (uint8_t)class;
    return LOCO_OK;
}

int loci_tx_set_value(struct loco_tx *tx, struct loci_item *item, const void *value, size_t len)
{
    size_t bytes = loci_image_len(len), at = item->image;
    unsigned char *image;
    int status = LOCO_OK;

    loci_tx_save(tx, item);
    if (item->block == 0 || bytes > loci_image_len(item->len))
        status = reserve(tx, bytes, &at);
    if (status == LOCO_OK)
        status = take_block(tx, item, loci_class_for(loci_tx_roomy(len)));
    if (status != LOCO_OK)
        return status;
    image = tx->buffer + at;
    memset(image + bytes - 8, 0, 8);    /* what is behind the value's last byte */
    if (len > 0)
        memcpy(image + LOCI_STORE_HEADER, value, len);
    item->image = at;
    item->len = (uint32_t)len;
    item->flags &= (uint8_t)~LOCI_ITEM_FREE;
    return LOCO_OK;
}

/* ---- looking again ---- */

static bool is_looked_at(const struct loci_item *item, const struct loci_item *but,
                         bool reads_alone)
{
    return item != but && (item->flags & LOCI_ITEM_NEW) == 0
           && (!reads_alone || (item->flags & LOCI_ITEM_WRITE) == 0);
}

int loci_tx_is_same(struct loco_tx *tx, loco_object_t object, uint64_t word, enum loci_settle how,
                    uint64_t now)
{
    int status = LOCO_OK;

    if (now == word)
        return LOCO_OK;
    if (loci_cell_is_owned(now))
        status = loci_cell_settle(tx->s, object, how, &tx->asker, &now);
    if (status != LOCO_OK || now == word)
        return status;
    loci_tx_meet(tx, object);
    return LOCO_ERR_CONFLICT;
}

int loci_tx_post_looks(struct loco_tx *tx, const struct loci_item *but, bool reads_alone,
                       loco_ack_t *ack)
{
    struct loco_store *s = tx->s;
    int status = LOCO_OK;

    for (int i = 0; i < tx->nitems && status == LOCO_OK; i++) {
        const struct loci_item *item = &tx->item[i];
        struct loci_mem *mem = loci_cell_mem(s, item->object);

        if (is_looked_at(item, but, reads_alone) && loci_mem_ptr(mem) == NULL)
            status = loci_read64(s->rt, mem, loci_cell_at(item->object), &tx->words[i], ack);
    }
    return status;
}

int loci_tx_judge_looks(struct loco_tx *tx, const struct loci_item *but, enum loci_settle how,
                        bool reads_alone)
{
    int status = LOCO_OK;

    for (int i = 0; i < tx->nitems && status == LOCO_OK; i++) {
        const struct loci_item *item = &tx->item[i];
        const unsigned char *p = loci_mem_ptr(loci_cell_mem(tx->s, item->object));

        if (is_looked_at(item, but, reads_alone))
            status = loci_tx_is_same(tx, item->object, item->word, how,
                                     p == NULL ? tx->words[i]
                                               : loci_load64(p + loci_cell_at(item->object)));
    }
    return status;
}

int loci_tx_look_again(struct loco_tx *tx, const struct loci_item *but, enum loci_settle how,
                       bool reads_alone)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done = LOCO_OK;

    if (!loci_tx_has(LOCI_TX_CHECK))
        return LOCO_OK;
    if (tx->s->sums) {
        status = loci_tx_post_looks(tx, but, reads_alone, &ack);
        done = loci_tx_wait(tx, LOCO_OK, &ack);
    }
    return status != LOCO_OK ? status : done != LOCO_OK ? done
           : loci_tx_judge_looks(tx, but, how, reads_alone);
}
