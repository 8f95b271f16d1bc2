/* SPDX-License-Identifier: BSD-3-Clause */

/* Leaves of other hosts that are read together, so that they take one wait and not one each; and
 * likewise the values that they name, which have objects of their own.
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
#define VALUE_BYTES ((size_t)2048)              /* longer values are read alone; */
#define VALUE_EXPECTED ((size_t)512)            /* so much is read of one that was never seen */

static void drop(struct loci_ahead *a)
{
    if (a != NULL)
        free(a->images);
    free(a);
}

void loci_index_ahead_close(struct loci_index *ix)
{
    drop(ix->ahead);
    drop(ix->values);
}

static unsigned how_many(size_t bytes)
{
    size_t n = BYTES_MOST / bytes;

    return n < LEAST ? LEAST : n > LOCI_TX_TOGETHER ? LOCI_TX_TOGETHER : (unsigned)n;
}

static int reserve(struct loci_ahead **to, size_t room)
{
    size_t bytes = loci_image_len(room);
    struct loci_ahead *a;

    if (*to != NULL)
        return LOCO_OK;
    a = calloc(1, sizeof *a);
    if (a == NULL)
        return LOCO_ERR_NO_MEMORY;
    a->most = how_many(bytes);
    a->room = room;
    a->images = malloc(a->most * bytes);
    if (a->images == NULL) {
        free(a);
        return LOCO_ERR_NO_MEMORY;
    }
    *to = a;
    return LOCO_OK;
}

/* In a transaction what it has read or written is not read again. */
static bool is_wanted(struct loci_index *ix, enum loci_index_how how, const struct loci_ahead *a,
                      loco_object_t leaf)
{
    if (!loci_object_is(ix->tx->s, leaf) || !loci_tx_is_far(ix->tx, leaf)
        || (how != LOCI_INDEX_PEEK && loci_tx_find(ix->tx, leaf) != NULL))
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->far[i].object == leaf)
            return false;
    return true;
}

/* Of errors, only conflicts count: others are found again, where that object is needed. */
static int read_ahead(struct loci_index *ix, enum loci_index_how how, struct loci_ahead *a,
                      const loco_object_t *leaves, unsigned n, size_t expected)
{
    int status = LOCO_OK;

    a->n = 0;
    for (unsigned i = 0; i < n && a->n < a->most; i++) {
        struct loci_far *f = &a->far[a->n];

        if (!is_wanted(ix, how, a, leaves[i]))
            continue;
        *f = (struct loci_far){ .object = leaves[i], .room = a->room };
        f->image = (struct loci_block_header *)(void *)(a->images
                                                        + a->n++ * loci_image_len(a->room));
    }
    if (a->n > 0)
        status = loci_tx_read_far(ix->tx, a->far, a->n, expected, how == LOCI_INDEX_PEEK);
    a->fresh = status == LOCO_OK;
    if (status != LOCO_OK)
        a->n = 0;
    return status == LOCO_ERR_CONFLICT ? status : LOCO_OK;
}

int loci_index_ahead(struct loci_index *ix, enum loci_index_how how, const loco_object_t *leaves,
                     unsigned n)
{
    int status = reserve(&ix->ahead, ix->leaf_bytes);

    if (status != LOCO_OK)
        return status;
    status = read_ahead(ix, how, ix->ahead, leaves, n, ix->leaf_bytes);
    loci_index_count(ix, LOCI_STATS_AHEAD, ix->ahead->n);
    return status;
}

int loci_index_ahead_values(struct loci_index *ix, enum loci_index_how how,
                            const loco_object_t *objects, unsigned n)
{
    int status = reserve(&ix->values, VALUE_BYTES);

    return status != LOCO_OK ? status
           : read_ahead(ix, how, ix->values, objects, n, VALUE_EXPECTED);
}

unsigned loci_index_name_values(struct loci_index *ix, enum loci_index_how how,
                                const struct loci_node *leaf, int i, int step,
                                const loco_bytes_t *end, loco_object_t *objects, unsigned n,
                                unsigned most)
{
    for (; i >= 0 && i < leaf->n && n < most; i += step) {
        loco_object_t object;

        if (end != NULL && loci_bytes_compare(loci_node_key(leaf, (unsigned)i), *end) >= 0)
            return n;
        if (!loci_node_is_apart(leaf, (unsigned)i))
            continue;
        object = loci_node_handle(leaf, (unsigned)i);
        if (how == LOCI_INDEX_PEEK || loci_tx_find(ix->tx, object) == NULL)
            objects[n++] = object;
    }
    return n;
}

int loci_index_ahead_values_of(struct loci_index *ix, enum loci_index_how how,
                               const struct loci_node *leaf, unsigned i, int step,
                               const loco_bytes_t *end, unsigned most)
{
    loco_object_t objects[LOCI_TX_TOGETHER], first = loci_node_handle(leaf, i);
    const struct loci_ahead *a = ix->ahead;
    unsigned n;

    most = most < LOCI_TX_TOGETHER ? most : LOCI_TX_TOGETHER;
    if (loci_index_ahead_find(ix, how, first) != NULL)
        return LOCO_OK;
    n = loci_index_name_values(ix, how, leaf, (int)i, step, end, objects, 0, most);
    for (unsigned k = 0; a != NULL && k < a->n; k++) {
        const struct loci_far *f = loci_index_ahead_find(ix, how, a->far[k].object);
        const struct loci_node *next = f == NULL ? NULL : (const void *)(f->image + 1);

        if (next != NULL && f->len <= f->room && loci_node_is(next, f->len, ix->id)
            && next->level == 0)
            n = loci_index_name_values(ix, how, next, step > 0 ? 0 : next->n - 1, step, end,
                                       objects, n, most);
    }
    return n > 1 ? loci_index_ahead_values(ix, how, objects, n) : LOCO_OK;
}

static struct loci_far *find(struct loci_index *ix, struct loci_ahead *a, enum loci_index_how how,
                             loco_object_t object)
{
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

struct loci_far *loci_index_ahead_find(struct loci_index *ix, enum loci_index_how how,
                                       loco_object_t object)
{
    struct loci_far *leaf = find(ix, ix->ahead, how, object);

    return leaf != NULL ? leaf : find(ix, ix->values, how, object);
}
