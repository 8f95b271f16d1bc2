/* SPDX-License-Identifier: BSD-3-Clause */

/* Many objects of a transaction at once: see loco_tx_read_many. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tx.h"

/* Objects that are not mapped here, of a read_many: their cells are read together, then what these
 * name, then, unless the transaction is relaxed, all cells of before once more. What is not plain
 * and whole at the first look is left to loco_tx_read. */
struct far {
    size_t which;               /* of the caller's objects */
    uint64_t word;
    struct loci_block_header *image;
};

/* Worth it: it is looked at for the first time, and over a network. */
static bool is_far(struct loco_tx *tx, loco_object_t object)
{
    return loci_object_is(tx->s, object) && loci_tx_find(tx, object) == NULL
           && loci_mem_ptr(loci_cell_mem(tx->s, object)) == NULL
           && !loci_host_is_lost(tx->s, loci_object_host(object));
}

static int read_cells(struct loco_tx *tx, const loco_object_t *objects, struct far *far, size_t n)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    for (size_t i = 0; i < n && status == LOCO_OK; i++) {
        loco_object_t object = objects[far[i].which];

        status = loci_read64(tx->s->rt, loci_cell_mem(tx->s, object), loci_cell_at(object),
                             &far[i].word, &ack);
    }
    done = loco_ack_wait(tx->s->rt, &ack);
    return status != LOCO_OK ? status : done;
}

static bool names_block(const struct loco_tx *tx, uint64_t word)
{
    return !loci_cell_is_owned(word) && loci_block_is(tx->s, word, LOCI_STORE_HEADER);
}

static int read_images(struct loco_tx *tx, const loco_object_t *objects, struct far *far, size_t n,
                       size_t len)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, done;

    for (size_t i = 0; i < n && status == LOCO_OK; i++)
        if (names_block(tx, far[i].word))
            status = loci_image_read(tx->s, objects[far[i].which], far[i].word, len, far[i].image,
                                     &ack);
    done = loco_ack_wait(tx->s->rt, &ack);
    return status != LOCO_OK ? status : done;
}

/* Those that came whole become items of the transaction. */
static int take_far(struct loco_tx *tx, const loco_object_t *objects, const struct far *far,
                    size_t n, size_t len)
{
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        loco_object_t object = objects[far[i].which];
        struct loci_item *item;
        size_t is;

        if (names_block(tx, far[i].word) && loci_tx_find(tx, object) == NULL
            && loci_image_check(tx->s, object, far[i].word, far[i].image, len, &is) == LOCO_OK
            && is == len && loci_tx_add(tx, object, &item) == LOCO_OK) {
            item->word = far[i].word;
            loci_tx_mark_read(tx, item);
            any = true;
        }
    }
    return tx->relaxed || !any ? LOCO_OK
           : loci_tx_look_again(tx, NULL, LOCI_SETTLE_READ, false);
}

static void hand_out(struct loco_tx *tx, const loco_object_t *objects, const struct far *far,
                     size_t n, unsigned char *values, size_t len, int *statuses)
{
    for (size_t i = 0; i < n; i++) {
        const struct loci_item *item = loci_tx_find(tx, objects[far[i].which]);

        if (item == NULL || item->word != far[i].word)
            continue;
        memcpy(values + far[i].which * len, far[i].image + 1, len);
        statuses[far[i].which] = LOCO_OK;
    }
}

#define TOGETHER 64u            /* objects that are read together */

static int read_together(struct loco_tx *tx, const loco_object_t *objects, struct far *far,
                         size_t n, unsigned char *values, size_t len, int *statuses)
{
    size_t bytes = loci_image_len(len);
    unsigned char *images = malloc(n * bytes);
    int status = images == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    for (size_t i = 0; i < n && images != NULL; i++)
        far[i].image = (struct loci_block_header *)(void *)(images + i * bytes);
    if (status == LOCO_OK)
        status = read_cells(tx, objects, far, n);
    if (status == LOCO_OK)
        status = read_images(tx, objects, far, n, len);
    if (status == LOCO_OK)
        status = take_far(tx, objects, far, n, len);
    if (status == LOCO_OK)
        hand_out(tx, objects, far, n, values, len, statuses);
    free(images);
    return status;
}

/* Statuses of what was read are LOCO_OK then, those of the rest LOCO_IN_PROGRESS. Of errors, only
 * conflicts count: what else is wrong is found again, and told of the object that it is about. */
static int read_far_ones(struct loco_tx *tx, size_t n, const loco_object_t *objects,
                         unsigned char *values, size_t len, int *statuses)
{
    struct far far[TOGETHER];
    size_t some = 0;
    int status = LOCO_OK;

    for (size_t i = 0; i < n; i++)
        statuses[i] = LOCO_IN_PROGRESS;
    for (size_t i = 0; i < n && status != LOCO_ERR_CONFLICT; i++) {
        if (is_far(tx, objects[i]))
            far[some++].which = i;
        if (some == TOGETHER || (i + 1 == n && some > 1)) {
            status = read_together(tx, objects, far, some, values, len, statuses);
            some = 0;
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

        if (names_block(tx, word))
            __builtin_prefetch(loci_mem_ptr(loci_store_mem(tx->s, loci_object_host(objects[i]),
                                                           LOCI_STORE_BLOCKS))
                               + loci_block_at(loci_cell_block(word)));
    }
}

int loco_tx_read_many(loco_tx_t *tx, size_t n, const loco_object_t *objects, void *values,
                      size_t len, int *statuses)
{
    unsigned char *to = values;
    int first = loci_tx_check_open(tx);

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
