/* SPDX-License-Identifier: BSD-3-Clause */

/* Recovery from a log of values (store/tx_parts.h), by somebody central: all cells are looked at
 * for those that the dead own. What is whole in the log of such a one is done again, else its cells
 * get their old words back. Nobody else changes those cells meanwhile, since they are owned. */

#include "config.h"

#include "index_recover.h"

#include <stdlib.h>

#include "move/rma.h"

static bool is_dead(const struct loco_store *s, uint64_t word, const bool dead[])
{
    return loci_cell_is_owned(word) && dead[loci_slot_rank(s, loci_cell_slot(word))];
}

static int read_block(struct loco_store *s, loco_object_t object, uint64_t word,
                      struct loci_block_header *image, size_t *len)
{
    struct loci_mem *blocks = loci_store_mem(s, loci_object_host(object), LOCI_STORE_BLOCKS);
    uint64_t at = loci_block_at(loci_cell_block(word));
    size_t bytes = s->pages * LOCI_STORE_PAGE - at;
    int status;

    bytes = bytes < LOCI_IMAGE_MAX ? bytes : LOCI_IMAGE_MAX;
    status = loci_read(s->rt, blocks, at, image, bytes, NULL);
    return status != LOCO_OK ? status : loci_image_check(s, object, word, image, bytes, len);
}

/* Whether all that a transaction was to write is in its log, or in blocks of new objects. */
static bool is_whole(struct loco_store *s, const struct loci_log_slot *log,
                     struct loci_block_header *image)
{
    size_t len;

    for (uint64_t i = 0; i < log->n; i++)
        if (read_block(s, log->entry[i].object, log->entry[i].new, image, &len) != LOCO_OK)
            return false;
    return true;
}

/* An object in place keeps its block; the other one is the log's. */
static int finish(struct loco_store *s, const struct loci_log_entry *e,
                  struct loci_block_header *image, uint64_t *word)
{
    uint64_t in_place = loci_cell_block(e->old);
    size_t len;
    int status = read_block(s, e->object, e->new, image, &len);

    *word = in_place == 0 ? e->new : loci_cell_next(e->old, in_place);
    return status != LOCO_OK || in_place == 0 ? status
           : loci_image_write(s, image, e->object, *word, NULL);
}

static int recover_cell(struct loco_store *s, loco_object_t object, uint64_t owned,
                        struct loci_block_header *image)
{
    uint64_t slot = loci_cell_slot(owned), word = 0, old;
    const struct loci_log_entry *e = NULL;
    struct loci_log_slot log;
    int status = loci_read(s->rt, loci_store_mem(s, 0, LOCI_STORE_HEAD), loci_slot_at(s, slot),
                           &log, sizeof log, NULL);

    for (uint64_t i = 0; status == LOCO_OK && i < log.n; i++)
        if (log.entry[i].object == object)
            e = &log.entry[i];
    if (e == NULL)
        return status != LOCO_OK ? status : LOCO_ERR_PROTOCOL;
    if (is_whole(s, &log, image))
        status = finish(s, e, image, &word);
    else
        word = e->old;
    return status != LOCO_OK ? status : loci_cell_swap(s, object, owned, word, &old, NULL);
}

int index_recover(struct loco_store *s, const bool dead[], uint64_t *recovered)
{
    struct loci_block_header *image = malloc(LOCI_IMAGE_MAX);
    uint64_t *cells = malloc(s->cells * sizeof *cells);
    int status = image == NULL || cells == NULL ? LOCO_ERR_NO_MEMORY
                 : loci_read(s->rt, loci_store_mem(s, 0, LOCI_STORE_CELLS), 0, cells,
                             s->cells * sizeof *cells, NULL);

    for (uint64_t i = 0; i < s->cells && status == LOCO_OK; i++)
        if (is_dead(s, cells[i], dead)) {
            status = recover_cell(s, loci_object(0, i), cells[i], image);
            ++*recovered;
        }
    free(image);
    free(cells);
    return status;
}
