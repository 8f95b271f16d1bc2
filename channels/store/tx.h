/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TX_H
#define LOCI_TX_H

/* A transaction: what tx.c (its calls), tx_item.c (its objects) and tx_commit.c share. */

#include "store_cell.h"
#include "store_memory.h"
#include "tx_parts.h"

enum {
    LOCI_ITEM_READ = 1,         /* its value, or that there is none, was given out */
    LOCI_ITEM_WRITE = 2,        /* the commit changes it */
    LOCI_ITEM_NEW = 4,          /* made by this transaction */
    LOCI_ITEM_FREE = 8,         /* and removed */
    LOCI_ITEM_IN_PLACE = 16     /* its block is the one that its cell names (tx_parts.h) */
};

struct loci_item {
    loco_object_t object;
    uint64_t word;              /* the plain word that its cell had when it was first looked at */
    uint64_t block;             /* for what is written; 0: none was taken */
    size_t image;               /* of that: where in the buffer it begins */
    uint32_t len;               /* and the length of the value */
    uint16_t block_at, cell_at; /* entries of the stock */
    uint8_t class, flags;
};

#define LOCI_TX_HASH 2048u      /* a power of two, above LOCO_TX_READS_MAX */
#define LOCI_TX_FEW 12          /* items that are searched one by one */

enum loci_tx_stage { LOCI_TX_IDLE, LOCI_TX_OPEN, LOCI_TX_FAILED };

struct loco_tx {
    struct loco_store *s;
    struct loci_client *client;
    enum loci_tx_stage stage;
    bool relaxed;
    int64_t began;              /* the clock, before anything was read */
    int nitems, nwrites, nreads;        /* reads: of what is not written */
    struct loci_item *item;     /* LOCO_TX_READS_MAX of them */
    uint16_t *hash;             /* item + 1, or 0, where there are more than a few */
    bool hashed;
    uint16_t write[LOCO_TX_WRITES_MAX];         /* items that are written */
    unsigned char *buffer;      /* images of what is written */
    size_t used, room;
    struct loci_block_header *scratch;          /* an image that is read */
    uint64_t *words;            /* LOCO_TX_READS_MAX: cells that are looked at again */
    /* Swaps that put the cells of the last transaction right, and where what they find goes. */
    loco_ack_t late;
    uint64_t late_old[LOCO_TX_WRITES_MAX + 1];
    struct loci_asker asker;    /* the statistics, too */
    struct loco_tx *next;       /* in the store's list */
};

/* ---- tx.c ---- */

/* LOCO_OK, or what a call returns outside a transaction, or in one that has failed. */
int loci_tx_check_open(const struct loco_tx *tx);
/* What a call within a transaction comes to: a conflict ends all but abort. Returns `status`. */
int loci_tx_failed(struct loco_tx *tx, int status);
/* Let so many nanoseconds pass. */
void loci_tx_pause(struct loco_tx *tx, int64_t ns);
/* Before a transaction is begun again after a conflict: a pause below *limit, which is
 * LOCI_TX_PAUSE_FIRST at first and grows. */
#define LOCI_TX_PAUSE_FIRST INT64_C(500)        /* ns */
void loci_tx_back_off(struct loco_tx *tx, int64_t *limit);
/* The committed value of an object, for this handle, whose transaction, if one is under way, does
 * not get to know of it. As loco_tx_read_some otherwise; the object is one that may be. */
int loci_tx_peek(struct loco_tx *tx, loco_object_t object, void *value, size_t room, size_t *len);
/* That item was given out. */
void loci_tx_mark_read(struct loco_tx *tx, struct loci_item *item);

/* ---- tx_item.c ---- */

struct loci_item *loci_tx_find(struct loco_tx *tx, loco_object_t object);
/* A new one of that object, which has none. LOCO_ERR_FULL. */
int loci_tx_add(struct loco_tx *tx, loco_object_t object, struct loci_item **item);
/* Forget all. */
void loci_tx_clear(struct loco_tx *tx);
/* That item is written from now on: LOCO_ERR_FULL where there are too many. */
int loci_tx_mark_written(struct loco_tx *tx, struct loci_item *item);
/* It gets that value, in a block of its own. */
int loci_tx_set_value(struct loco_tx *tx, struct loci_item *item, const void *value, size_t len);
/* Its block goes back to the stock; or both that and its cell, those that were taken for it. */
void loci_tx_drop_block(struct loco_tx *tx, struct loci_item *item);
void loci_tx_put_back(struct loco_tx *tx, struct loci_item *item);

static inline struct loci_block_header *loci_tx_image(struct loco_tx *tx,
                                                      const struct loci_item *item)
{
    return (struct loci_block_header *)(void *)(tx->buffer + item->image);
}

static inline bool loci_tx_is_in_place(const struct loci_item *item)
{
    return !loci_tx_has(LOCI_TX_COPY) && (item->flags & LOCI_ITEM_IN_PLACE) != 0;
}

/* Whether all cells looked at but `but` have the words that they had: LOCO_OK, or
 * LOCO_ERR_CONFLICT. Of those that are written, too, unless `reads_alone`. */
int loci_tx_look_again(struct loco_tx *tx, const struct loci_item *but, enum loci_settle how,
                       bool reads_alone);

/* ---- tx_commit.c ---- */

int loci_tx_commit(struct loco_tx *tx);
/* Until the swaps that are late are back. */
void loci_tx_settle_late(struct loco_tx *tx);

#endif
