/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TX_H
#define LOCI_TX_H

/* A transaction: what tx.c (its calls), tx_item.c (its objects), tx_wait.c and
 * tx_commit.c share. */

#include "backoff.h"
#include "store_cell.h"
#include "store_memory.h"
#include "store_value.h"
#include "tx_parts.h"

enum {
    LOCI_ITEM_READ = 1,         /* its value, or that there is none, was given out */
    LOCI_ITEM_WRITE = 2,        /* the commit changes it */
    LOCI_ITEM_NEW = 4,          /* made by this transaction */
    LOCI_ITEM_FREE = 8,         /* and removed */
    LOCI_ITEM_IN_PLACE = 16,    /* its block is the one that its cell names (tx_parts.h) */
    LOCI_ITEM_SINCE = 32,       /* written since the mark (tx_mark.c), or before; */
    LOCI_ITEM_SAVED = 64        /* then it was saved as it was */
};

struct loci_item {
    loco_object_t object;
    uint64_t word;              /* the plain word that its cell had when it was first looked at */
    uint64_t block;             /* for what is written; 0: none was taken */
    size_t image;               /* of that: where in the buffer it begins */
    uint32_t len;               /* and the length of the value */
    uint16_t block_at, cell_at; /* entries of the stock */
    uint8_t class, flags;
#ifdef LOCO_TX_PARTS
    uint64_t logged;            /* the block of the log, of that entry, for one in place; 0: none */
#endif
};

/* The plain word that was seen last of an object, and the length of its value (tx_look.c). */
struct loci_hint {
    loco_object_t object;
    uint64_t word;
    uint32_t len;
};
#define LOCI_TX_HINT_BITS 16    /* so many are kept: memory is touched as far as they are used */

/* Work of a handle that waits until a transaction has been committed, and none is under way. */
struct loci_sequel {
    void (*run)(struct loci_sequel *sequel);            /* it may make transactions itself */
    void *arg;
    struct loci_sequel *next;
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
    struct loci_hint *hint;     /* by a hash of the object; NULL: all objects are mapped here */
    /* Swaps that put the cells of the last transaction right, and where what they find goes. */
    loco_ack_t late;
    uint64_t late_old[LOCO_TX_WRITES_MAX + 1];
    struct loci_asker asker;    /* the statistics, too */
    /* The object that conflicts were about last, and what they weigh more than commits since. */
    loco_object_t met;
    unsigned met_weight;
    struct loci_tx_mark *mark;  /* tx_mark.c; NULL: none so far */
    bool marked;
    /* While it owns cells (tx_wait.c). */
    bool beats;
    uint64_t beat_slot, heartbeat;
    int64_t beat_every, beat_at;        /* ns; the next one's time, 0: not known yet */
    struct loco_tx *next;       /* in the store's list */
    struct loci_sequel *sequels;
    /* Of a store that may be withdrawn: calls that are under way, each within the next; and whether
     * there are any, for others. */
    unsigned depth;
    _Atomic uint64_t inside;
};

/* ---- store_hosted.c: between these a call reaches the store's memory ---- */

int loci_tx_begin_call(struct loco_tx *tx);
void loci_tx_end_call(struct loco_tx *tx);

/* LOCO_ERR_STATE: the store was withdrawn, and nothing of it is reached; LOCO_ERR_PEER_DEAD: its
 * host has gone, or has cut this process off. Calls may be within calls; what was entered is
 * left. */
static inline int loci_tx_enter(struct loco_tx *tx)
{
    return __builtin_expect(tx->s->ends, false) ? loci_tx_begin_call(tx) : LOCO_OK;
}

/* Returns `status`. */
static inline int loci_tx_leave(struct loco_tx *tx, int status)
{
    if (__builtin_expect(tx->s->ends, false))
        loci_tx_end_call(tx);
    return status;
}

/* ---- tx.c ---- */

/* LOCO_OK, or what a call returns outside a transaction, or in one that has failed. */
int loci_tx_check_open(const struct loco_tx *tx);
/* The same for a call that makes no sense without one: the log says so. */
int loci_tx_check_begun(const struct loco_tx *tx, const char *call);
/* What a call within a transaction comes to: a conflict ends all but abort. Returns `status`. */
int loci_tx_failed(struct loco_tx *tx, int status);
/* Let so many nanoseconds pass. */
void loci_tx_pause(struct loco_tx *tx, int64_t ns);
/* Before the first try; and before a transaction is begun again after a conflict: a pause. */
void loci_tx_begin_tries(struct loco_tx *tx, struct loci_backoff *b);
void loci_tx_back_off(struct loco_tx *tx, struct loci_backoff *b);
/* A conflict was about that object. */
void loci_tx_meet(struct loco_tx *tx, loco_object_t object);
/* Whether this handle has met others at an object again and again: more than once in three commits
 * of whatever it does. */
#ifndef LOCO_SIM
#define LOCI_TX_HOT 6u
#else
/* 2, after one: scenarios are short. But for benchmarks. */
extern unsigned loci_tx_hot;
#define LOCI_TX_HOT loci_tx_hot
#endif
static inline bool loci_tx_is_hot(const struct loco_tx *tx, loco_object_t object)
{
    return tx->met_weight >= LOCI_TX_HOT && tx->met == object;
}
/* After each commit that succeeds, until it is taken back. */
void loci_tx_add_sequel(struct loco_tx *tx, struct loci_sequel *sequel);
void loci_tx_remove_sequel(struct loco_tx *tx, const struct loci_sequel *sequel);
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

static inline uint64_t loci_tx_logged(const struct loci_item *item)
{
#ifdef LOCO_TX_PARTS
    return item->logged;
#else
    (void)item;
    return 0;
#endif
}

/* Whether all cells looked at but `but` have the words that they had: LOCO_OK, or
 * LOCO_ERR_CONFLICT. Of those that are written, too, unless `reads_alone`. In two steps: ask for
 * those that are not mapped, to be awaited by the caller; then judge. */
int loci_tx_post_looks(struct loco_tx *tx, const struct loci_item *but, bool reads_alone,
                       loco_ack_t *ack);
int loci_tx_judge_looks(struct loco_tx *tx, const struct loci_item *but, enum loci_settle how,
                        bool reads_alone);
/* Of one whose cell was seen to hold `now`, and `word` before. */
int loci_tx_is_same(struct loco_tx *tx, loco_object_t object, uint64_t word, enum loci_settle how,
                    uint64_t now);
/* All of it. */
int loci_tx_look_again(struct loco_tx *tx, const struct loci_item *but, enum loci_settle how,
                       bool reads_alone);

/* ---- tx_mark.c ---- */

/* From now on what is written can be taken back. LOCO_ERR_NO_MEMORY. */
int loci_tx_mark(struct loco_tx *tx);
/* It is, unless `status` is LOCO_OK: the transaction writes what it wrote before the mark. What it
 * has read since stays read. Returns `status`. */
int loci_tx_unmark(struct loco_tx *tx, int status);
/* That item, with what it is to be, is about to change. */
void loci_tx_save(struct loco_tx *tx, struct loci_item *item);

/* ---- tx_look.c ---- */

/* Where a value goes. */
struct loci_into {
    void *value;                /* NULL: it is not wanted */
    size_t room, len;
};

/* The item of an object, looked at now if it was not yet, with its value as it was at that time if
 * that is wanted. LOCO_ERR_FULL, LOCO_ERR_CONFLICT, LOCO_ERR_PEER_DEAD. */
int loci_tx_look(struct loco_tx *tx, loco_object_t object, struct loci_item **item,
                 struct loci_into *to);

/* The committed value of an object, for this handle, whose transaction, if one is under way, does
 * not get to know of it. As loco_tx_read_some otherwise; the object is one that may be. */
int loci_tx_peek(struct loco_tx *tx, loco_object_t object, void *value, size_t room, size_t *len);

/* The same in place, where that can be done at once: in mapped memory, and nobody owns it. `block`:
 * the one that it has, probably, which comes nearer together with the cell; the one that it has.
 * Any number will do. */
bool loci_tx_glance(struct loco_tx *tx, loco_object_t object, size_t expected, uint32_t *block,
                    struct loci_glance *g);

/* An object that will be read soon, of about so many bytes: in mapped memory, its cell and its
 * value come nearer meanwhile; the cell first, or else that is waited for. Any number will do for
 * an object. */
void loci_tx_expect_cell(struct loco_tx *tx, loco_object_t object);
void loci_tx_expect(struct loco_tx *tx, loco_object_t object, size_t bytes);
/* The same, both at once, where its block is probably that one. */
void loci_tx_expect_block(struct loco_tx *tx, loco_object_t object, uint32_t block, size_t bytes);

/* Whether what is read together with `n` more must be of one instant. */
static inline bool loci_tx_are_together(const struct loco_tx *tx, size_t n)
{
    return !tx->relaxed && tx->nitems + (int)n > 1 && loci_tx_has(LOCI_TX_CHECK);
}

/* Whether an object of this store is reached over a network, and its host lives. */
static inline bool loci_tx_is_far(const struct loco_tx *tx, loco_object_t object)
{
    return tx->hint != NULL && loci_mem_ptr(loci_cell_mem(tx->s, object)) == NULL
           && !loci_host_is_lost(tx->s, loci_object_host(object));
}

/* Whether a cell's word is plain and names a value. */
static inline bool loci_tx_names_block(const struct loco_tx *tx, uint64_t word)
{
    return !loci_cell_is_owned(word) && loci_block_is(tx->s, word, LOCI_STORE_HEADER);
}

/* An object that is reached over a network, and has no item. */
struct loci_far {
    /* From the caller. */
    loco_object_t object;
    struct loci_block_header *image;    /* where its value goes; NULL: it is not wanted */
    size_t room;                /* bytes of a value that fit there */
    /* The answer. */
    uint64_t word;              /* of its cell */
    bool is_there;              /* a plain word, and its value, of `len` bytes, in the image */
    size_t len;
    /* While it is looked for. */
    uint64_t known, again;
    size_t asked;
};

/* Look at `n` of them at once, of which values of `len` bytes are expected. What is not there in
 * the end (owned, changed meanwhile, longer, no object) is to be looked at by itself. `together`:
 * those that are there, and all items of before, were so at one instant. */
int loci_tx_look_far(struct loco_tx *tx, struct loci_far *far, size_t n, size_t len,
                     bool together);

/* ---- tx_many.c ---- */

#define LOCI_TX_TOGETHER 64u    /* objects that are read together, at most */

/* As loci_tx_look_far(), of objects that differ. Unless they are but peeked at, those that are
 * there become items of the transaction, as if read one by one. */
int loci_tx_read_far(struct loco_tx *tx, struct loci_far *far, size_t n, size_t len, bool peek);

/* ---- tx_look.c ---- */

/* That is the word of that object, and its value has that length. */
void loci_tx_remember(struct loco_tx *tx, loco_object_t object, uint64_t word, size_t len);

/* ---- tx_wait.c ---- */

/* Until what is in flight has come, with others that came to `status`: that, or how it ended. */
int loci_tx_wait(struct loco_tx *tx, int status, loco_ack_t *ack);
/* It is about to own cells, by that log slot: waits that last show that it lives, while tx->beats.
 */
void loci_tx_beat_from(struct loco_tx *tx, uint64_t slot);
/* It lives. */
void loci_tx_beat(struct loco_tx *tx);

/* ---- tx_commit.c ---- */

int loci_tx_commit(struct loco_tx *tx);
/* Until the swaps that are late are back. */
void loci_tx_settle_late(struct loco_tx *tx);

#endif
