/* SPDX-License-Identifier: BSD-3-Clause */

/* Leaves of other hosts that are read together, so that they take one wait and not one each.
 *
 *     names of leaves, from their parent  ->  loci_index_ahead()  ->  loci_index_read() finds them
 *
 * A copy comes with the word that the leaf's cell had. Within a transaction the leaves are items
 * of it, read at one instant with all that it has read; a copy is the leaf as long as the item
 * has that word and is not written, for a word names one value for ever. Outside one a copy is
 * used once, until the next call begins: it is the leaf as it was at a time during this one.
 * Cursors are the exception: to them the leaf is as it was at some time since the cursor was put
 * where it is, or the handle has changed something. */

#include "config.h"

#include <stdlib.h>

#include "index.h"

#define BYTES_MOST ((size_t)256 << 10)          /* of all copies */
#define LEAST 4u

void loci_index_ahead_close(struct loci_index *ix)
{
    if (ix->ahead != NULL)
        free(ix->ahead->images);
    free(ix->ahead);
}

static unsigned how_many(size_t bytes)
{
    size_t n = BYTES_MOST / bytes;

    return n < LEAST ? LEAST : n > LOCI_TX_TOGETHER ? LOCI_TX_TOGETHER : (unsigned)n;
}

static int reserve(struct loci_index *ix)
{
    size_t bytes = loci_image_len(ix->leaf_bytes);
    struct loci_ahead *a;

    if (ix->ahead != NULL)
        return LOCO_OK;
    a = calloc(1, sizeof *a);
    if (a == NULL)
        return LOCO_ERR_NO_MEMORY;
    a->most = how_many(bytes);
    a->room = ix->leaf_bytes;
    a->images = malloc(a->most * bytes);
    if (a->images == NULL) {
        free(a);
        return LOCO_ERR_NO_MEMORY;
    }
    ix->ahead = a;
    return LOCO_OK;
}

/* In a transaction what it has read or written is not read again. */
static bool is_wanted(struct loci_index *ix, enum loci_index_how how, loco_object_t leaf)
{
    const struct loci_ahead *a = ix->ahead;

    if (!loci_object_is(ix->tx->s, leaf) || !loci_tx_is_far(ix->tx, leaf)
        || (how != LOCI_INDEX_PEEK && loci_tx_find(ix->tx, leaf) != NULL))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->far[i].object == leaf)
            return false;
    return true;
}

int loci_index_ahead(struct loci_index *ix, enum loci_index_how how, const loco_object_t *leaves,
                     unsigned n)
{
    struct loci_ahead *a;
    int status = reserve(ix);

    if (status != LOCO_OK)
        return status;
    a = ix->ahead;
    a->n = 0;
    for (unsigned i = 0; i < n && a->n < a->most; i++) {
        struct loci_far *f = &a->far[a->n];

        if (!is_wanted(ix, how, leaves[i]))
            continue;
        *f = (struct loci_far){ .object = leaves[i], .room = a->room };
        f->image = (struct loci_block_header *)(void *)(a->images
                                                        + a->n++ * loci_image_len(a->room));
    }
    if (a->n > 0)
        status = loci_tx_read_far(ix->tx, a->far, a->n, a->room, how == LOCI_INDEX_PEEK);
    loci_index_count(ix, LOCI_STATS_AHEAD, a->n);
    a->fresh = status == LOCO_OK;
    if (status != LOCO_OK)
        a->n = 0;
    /* Of errors, only conflicts count: others are found again, where that leaf is needed. */
    return status == LOCO_ERR_CONFLICT ? status : LOCO_OK;
}

struct loci_far *loci_index_ahead_find(struct loci_index *ix, enum loci_index_how how,
                                       loco_object_t object)
{
    struct loci_ahead *a = ix->ahead;
    const struct loci_item *item;
    unsigned i = 0;

    while (a != NULL && i < a->n && (a->far[i].object != object || !a->far[i].is_there))
        i++;
    if (a == NULL || i == a->n)
        return NULL;
    if (how == LOCI_INDEX_PEEK)
        return a->fresh ? &a->far[i] : NULL;
    item = loci_tx_find(ix->tx, object);
    return item != NULL && (item->flags & LOCI_ITEM_WRITE) == 0 && item->word == a->far[i].word
           ? &a->far[i] : NULL;
}
