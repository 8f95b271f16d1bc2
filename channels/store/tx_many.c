/* SPDX-License-Identifier: BSD-3-Clause */

/* Many objects of a transaction at once: see loco_tx_read_many. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tx.h"

/* Objects of a read_many that are reached over a network: what is not plain and whole when they are
 * looked at together is left to loco_tx_read. */
#define TOGETHER LOCI_TX_TOGETHER

struct batch {
    size_t n;
    struct loci_far far[TOGETHER];
    size_t which[TOGETHER];     /* of the caller's objects */
};

/* Worth it: it is looked at for the first time, and over a network. */
static bool is_far(struct loco_tx *tx, loco_object_t object)
{
    return loci_object_is(tx->s, object) && loci_tx_find(tx, object) == NULL
           && loci_tx_is_far(tx, object);
}

/* One that came whole becomes an item of the transaction. */
static bool take(struct loco_tx *tx, const struct loci_far *f)
{
    struct loci_item *item;

    if (!f->is_there || loci_tx_find(tx, f->object) != NULL
        || loci_tx_add(tx, f->object, &item) != LOCO_OK)
        return false;
    item->word = f->word;
    loci_tx_mark_read(tx, item);
    return true;
}

static void take_far(struct loco_tx *tx, const struct batch *b, size_t len)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->far[i].len == len)
            (void)take(tx, &b->far[i]);
}

static void hand_out(struct loco_tx *tx, const struct batch *b, unsigned char *values, size_t len,
                     int *statuses)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct loci_far *f = &b->far[i];
        const struct loci_item *item = loci_tx_find(tx, f->object);

        if (item == NULL || !f->is_there || f->len != len || item->word != f->word)
            continue;
        memcpy(values + b->which[i] * len, f->image + 1, len);
        statuses[b->which[i]] = LOCO_OK;
    }
}

static int read_together(struct loco_tx *tx, struct batch *b, unsigned char *values, size_t len,
                         int *statuses)
{
    size_t bytes = loci_image_len(len);
    unsigned char *images = malloc(b->n * bytes);
    int status = images == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    for (size_t i = 0; i < b->n && images != NULL; i++) {
        b->far[i].image = (struct loci_block_header *)(void *)(images + i * bytes);
        b->far[i].room = len;
    }
    if (status == LOCO_OK)
        status = loci_tx_look_far(tx, b->far, b->n, len, loci_tx_are_together(tx, b->n));
    if (status == LOCO_OK) {
        take_far(tx, b, len);
        hand_out(tx, b, values, len, statuses);
    }
    free(images);
    return status;
}

int loci_tx_read_far(struct loco_tx *tx, struct loci_far *far, size_t n, size_t len, bool peek)
{
    int status = loci_tx_look_far(tx, far, n, len, !peek && loci_tx_are_together(tx, n));

    for (size_t i = 0; i < n && status == LOCO_OK && !peek; i++)
        far[i].is_there = take(tx, &far[i]);
    return peek ? status : loci_tx_failed(tx, status);
}

/* Statuses of what was read are LOCO_OK then, those of the rest LOCO_IN_PROGRESS. Of errors, only
 * conflicts count: what else is wrong is found again, and told of the object that it is about. */
static int read_far_ones(struct loco_tx *tx, size_t n, const loco_object_t *objects,
                         unsigned char *values, size_t len, int *statuses)
{
    struct batch b;             /* large: not filled in */
    int status = LOCO_OK;

    b.n = 0;
    for (size_t i = 0; i < n; i++)
        statuses[i] = LOCO_IN_PROGRESS;
    for (size_t i = 0; i < n && status != LOCO_ERR_CONFLICT; i++) {
        if (is_far(tx, objects[i])) {
            b.far[b.n].object = objects[i];
            b.which[b.n++] = i;
        }
        if (b.n == TOGETHER || (i + 1 == n && b.n > 1)) {
            status = read_together(tx, &b, values, len, statuses);
            b.n = 0;
        }
    }
    return loci_tx_failed(tx, status == LOCO_ERR_CONFLICT ? status : LOCO_OK);
}

/* Of objects that are mapped here: have the processor fetch their cells together, and then what
 * these name, so that it waits for its memory twice, and not for each of them. */
static void fetch_ahead(const struct loco_tx *tx, const loco_object_t *objects, size_t n)
{
    const unsigned char *cell[TOGETHER];

    for (size_t i = 0; i < n; i++) {
        const unsigned char *cells = NULL;

        if (loci_object_is(tx->s, objects[i]))
            cells = loci_mem_ptr(loci_cell_mem(tx->s, objects[i]));
        cell[i] = cells == NULL ? NULL : cells + loci_cell_at(objects[i]);
        if (cell[i] != NULL)
            __builtin_prefetch(cell[i]);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t word = cell[i] == NULL ? 0 : loci_load64(cell[i]);

        if (loci_tx_names_block(tx, word))
            __builtin_prefetch(loci_mem_ptr(loci_store_mem(tx->s, loci_object_host(objects[i]),
                                                           LOCI_STORE_BLOCKS))
                               + loci_block_at(loci_cell_block(word)));
    }
}

static int read_many(loco_tx_t *tx, size_t n, const loco_object_t *objects, void *values,
                     size_t len, int *statuses)
{
    unsigned char *to = values;
    int first = loci_tx_check_begun(tx, "loco_tx_read_many");

    if (first == LOCO_OK && len <= LOCO_STORE_VALUE_MAX)
        first = read_far_ones(tx, n, objects, to, len, statuses);
    for (size_t i = 0; i < n && first != LOCO_OK; i++)
        statuses[i] = first;
    if (first != LOCO_OK)
        return first;
    for (size_t i = 0; i < n; i++) {
        if (!tx->s->sums && i % TOGETHER == 0)
            fetch_ahead(tx, objects + i, n - i < TOGETHER ? n - i : TOGETHER);
        if (statuses[i] == LOCO_IN_PROGRESS || len > LOCO_STORE_VALUE_MAX)
            statuses[i] = loco_tx_read(tx, objects[i], to + i * len, len);
        if (first == LOCO_OK && statuses[i] != LOCO_ERR_NOT_FOUND)
            first = statuses[i];
    }
    return first;
}

int loco_tx_read_many(loco_tx_t *tx, size_t n, const loco_object_t *objects, void *values,
                      size_t len, int *statuses)
{
    int status = loci_tx_enter(tx);

    for (size_t i = 0; i < n && status != LOCO_OK; i++)
        statuses[i] = status;
    return status != LOCO_OK ? status
           : loci_tx_leave(tx, read_many(tx, n, objects, values, len, statuses));
}
