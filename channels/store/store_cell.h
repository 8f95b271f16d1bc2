/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_CELL_H
#define LOCI_STORE_CELL_H

/* What the word of an object says, where a transaction owns it: see store_cell.c. */

#include "store_log.h"

/* Who asks: what he has done, and how many transactions of the living he has undone since his last
 * commit. */
struct loci_asker {
    loco_store_stats_t stats;
    unsigned undone;
};

/* What he takes for an answer beside a plain word. */
enum loci_settle {
    LOCI_SETTLE_READ,       /* the old word of one that has not begun to check, as of now */
    LOCI_SETTLE_CHECK,      /* the same, and does not wait: LOCO_ERR_CONFLICT while one checks */
    LOCI_SETTLE_OWN         /* nothing: nobody is to own it */
};

/* The plain word that `object` has now, in *word, where its cell has been seen to hold the owned
 * word *word. Waits for its owner, for LOCO_TX_PATIENCE at first, then undoes that.
 * LOCO_OK, LOCO_ERR_CONFLICT, LOCO_ERR_PEER_DEAD. */
int loci_cell_settle(struct loco_store *s, loco_object_t object, enum loci_settle how,
                     struct loci_asker *asker, uint64_t *word);

/* The cell's word as it is. */
static inline int loci_cell_load(struct loco_store *s, loco_object_t object, uint64_t *word)
{
    return loci_read64(s->rt, loci_cell_mem(s, object), loci_cell_at(object), word, NULL);
}

/* And the plain word. */
static inline int loci_cell_read(struct loco_store *s, loco_object_t object, enum loci_settle how,
                                 struct loci_asker *asker, uint64_t *word)
{
    int status = loci_cell_load(s, object, word);

    return status != LOCO_OK || !loci_cell_is_owned(*word) ? status
           : loci_cell_settle(s, object, how, asker, word);
}

static inline int loci_cell_swap(struct loco_store *s, loco_object_t object, uint64_t from,
                                 uint64_t to, uint64_t *old, loco_ack_t *ack)
{
    return loci_compare_swap(s->rt, loci_cell_mem(s, object), loci_cell_at(object), from, to, old,
                             ack);
}

#endif
