/* SPDX-License-Identifier: BSD-3-Clause */

/* A call that writes several objects, and fails in the middle, takes back what it has written, so
 * that the transaction can go on without it.
 *
 * Objects that were not written before the mark are not written any more: their blocks go back to
 * the stock, and the cells of new ones. An object that was written before is saved when it is
 * written again, or freed: its item, with the block and the image in the buffer, which both stay
 * untouched, for the item gets others. */

#include "config.h"

#include <stdlib.h>

#include "tx.h"

struct loci_tx_mark {
    int nwrites;                        /* at the mark */
    int n;
    struct { struct loci_item *item, was; } saved[LOCO_TX_WRITES_MAX];
};

int loci_tx_mark(struct loco_tx *tx)
{
    LOCO_ASSERT(!tx->marked);
    if (tx->mark == NULL)
        tx->mark = malloc(sizeof *tx->mark);
    if (tx->mark == NULL)
        return LOCO_ERR_NO_MEMORY;
    tx->mark->nwrites = tx->nwrites;
    tx->mark->n = 0;
    tx->marked = true;
    return LOCO_OK;
}

void loci_tx_save(struct loco_tx *tx, struct loci_item *item)
{
    struct loci_tx_mark *m = tx->mark;

    if (!tx->marked || (item->flags & LOCI_ITEM_WRITE) == 0
        || (item->flags & (LOCI_ITEM_SINCE | LOCI_ITEM_SAVED)) != 0)
        return;
    m->saved[m->n].item = item;
    m->saved[m->n++].was = *item;
    item->flags |= LOCI_ITEM_SAVED;
    item->block = 0;
}

static void take_back(struct loco_tx *tx)
{
    struct loci_tx_mark *m = tx->mark;

    for (int i = 0; i < m->n; i++) {
        loci_tx_drop_block(tx, m->saved[i].item);
        *m->saved[i].item = m->saved[i].was;
    }
    while (tx->nwrites > m->nwrites) {
        struct loci_item *item = &tx->item[tx->write[--tx->nwrites]];

        loci_tx_put_back(tx, item);
        item->flags &= (uint8_t)~(LOCI_ITEM_WRITE | LOCI_ITEM_FREE | LOCI_ITEM_SINCE);
        if ((item->flags & LOCI_ITEM_READ) != 0)
            tx->nreads++;
    }
}

static void keep(struct loco_tx *tx)
{
    struct loci_tx_mark *m = tx->mark;

    for (int i = 0; i < m->n; i++) {
        loci_tx_drop_block(tx, &m->saved[i].was);
        m->saved[i].item->flags &= (uint8_t)~LOCI_ITEM_SAVED;
    }
    for (int i = m->nwrites; i < tx->nwrites; i++)
        tx->item[tx->write[i]].flags &= (uint8_t)~LOCI_ITEM_SINCE;
}

int loci_tx_unmark(struct loco_tx *tx, int status)
{
    tx->marked = false;
    if (status == LOCO_OK)
        keep(tx);
    else
        take_back(tx);
    return status;
}
