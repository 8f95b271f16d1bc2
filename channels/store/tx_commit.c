/* SPDX-License-Identifier: BSD-3-Clause */

/* The commit: Harris and Fraser's multi-word compare-and-swap over cells, with the reads checked
 * between.
 *
 * One object is written and nothing else was read: its block, then one swap of its cell. No log; if
 * this process dies there is a block that nobody names.
 *
 * Else, of n objects written and r others read:
 *   1. entries into a log slot, and its status to {seq, ACTIVE}: awaited, so that whoever meets an
 *      owned cell finds what it is about. Where the log and all cells are reached by one lane that
 *      keeps the order, no wait is needed.
 *   2. blocks, and cells from the old words to {slot, seq}, in the order of their addresses;
 *      awaited, which also places the blocks. If one fails: ABORTED, and those that were taken go
 *      back. Where the values are long, all cells come first, awaited: others who change one of
 *      them do not make that work in vain, and see by heartbeats that it goes on.
 *   3. r > 0: status to CHECKING, awaited; then each cell that was read must have its word, or be
 *      owned by one that is ACTIVE, with that old word.
 *   4. status to COMMITTED, awaited: that is the commit. It fails if somebody has undone us.
 *   5. cells to the new words. Not awaited now, but before the slot's next seq.
 *
 * Why it is strictly serializable. r = 0: it takes effect at 4. All cells are owned then, at the
 * words that were read, and until then readers get these; from then on the new ones. r > 0: it
 * takes effect when its status becomes CHECKING: every cell that was read has its word before and
 * after that, every cell written is owned, and from that moment nobody is given an old word of
 * these: he waits for 4, or makes it fail. Two that read what the other writes see each other
 * CHECKING, and one gives way. Source: Harris, Fraser, Pratt, DISC 2002; Fraser 2004 (OSTM) for the
 * reads.
 *
 * Undone by others: all swaps of step 2 are awaited before, so what they took is known, and is
 * given back here; a status that is decided changes no more until the next seq.
 *
 * Words come again after 2^31 changes of one cell; at 35 million a second that takes a minute, so a
 * transaction that is older than that begins again. */

#include "config.h"

#include "store_trace.h"
#include "tx.h"

#ifdef LOCO_TX_PARTS
unsigned loci_tx_parts = LOCI_TX_ALL;
size_t loci_tx_room;
#endif

#ifdef LOCO_SIM
unsigned loci_tx_hot = 2;
#endif

#define TOO_OLD INT64_C(60000000000)    /* ns */
#ifndef LOCO_SIM
#define MANY_BYTES ((size_t)64 << 10)   /* of all values of a commit */
#else
#define MANY_BYTES ((size_t)600)        /* scenarios have short ones */
#endif
#define UNKNOWN (~UINT64_C(0))          /* what a swap has found: no cell's word */

struct commit {
    struct loco_tx *tx;
    struct loco_store *s;
    struct loci_client *client;
    int n;                              /* objects written */
    struct loci_item *item[LOCO_TX_WRITES_MAX];         /* in order of their addresses */
    uint64_t new[LOCO_TX_WRITES_MAX];                   /* the words that they get */
    uint64_t old[LOCO_TX_WRITES_MAX];                   /* and those that the swaps found */
    int tried;                          /* of these; the last may not have come to it */
    uint64_t slot, seq, owned;
    uint64_t status;                    /* of the slot, as far as known */
    struct loci_log_slot image;
    loco_ack_t log;                     /* that and the first status, on their way; */
    uint64_t log_old;                   /* what it found */
    bool in_doubt;                      /* whether the last status was set */
    loco_object_t in_the_way;           /* an object that another owns */
    uint64_t in_the_way_word;
};

/* Of operations that the next need not wait for. */
static int chained(struct commit *c, int status, loco_ack_t *ack)
{
    return loci_tx_has(LOCI_TX_CHAINS) ? status : loci_tx_wait(c->tx, status, ack);
}

/* In order; most transactions are short. */
static void enter(struct commit *c, struct loci_item *item)
{
    int at = c->n++;

    for (; at > 0 && c->item[at - 1]->object > item->object; at--)
        c->item[at] = c->item[at - 1];
    c->item[at] = item;
}

/* What the transaction changes, without what it made and removed itself. */
static void gather(struct commit *c)
{
    struct loco_tx *tx = c->tx;

    c->n = 0;
    for (int i = 0; i < tx->nwrites; i++) {
        struct loci_item *item = &tx->item[tx->write[i]];

        if ((item->flags & (LOCI_ITEM_NEW | LOCI_ITEM_FREE)) != (LOCI_ITEM_NEW | LOCI_ITEM_FREE))
            enter(c, item);
    }
    for (int i = 0; i < c->n; i++)
        c->new[i] = loci_cell_next(c->item[i]->word, c->item[i]->block);
}

/* ---- blocks and cells ---- */

static int write_block(struct commit *c, int i, loco_ack_t *ack)
{
    struct loci_item *item = c->item[i];
    struct loci_block_header *image = loci_tx_image(c->tx, item);
    struct loci_mem *blocks, *cells = loci_cell_mem(c->s, item->object);
    int status;

    if (item->block == 0)
        return LOCO_OK;
    loci_image_seal(c->s, image, loci_client_stamp(c->client), item->object, c->new[i], item->len);
    status = loci_image_write(c->s, image, item->object, c->new[i], ack);
    blocks = loci_store_mem(c->s, loci_object_host(item->object), LOCI_STORE_BLOCKS);
    /* A block goes by the lane, and its cell would not: it has to be placed. */
    if (status == LOCO_OK && loci_mem_ptr(blocks) == NULL && !loci_mem_is_posted_to(cells))
        status = loci_fence_peer(c->s->rt, LOCO_FENCE_PAIR, blocks->peer);
    return chained(c, status, ack);
}

/* That block is live, or nobody knows whether it is: it is in no stock any more. */
static void leave_behind(struct commit *c, struct loci_item *item)
{
    if (item->block != 0 && !loci_tx_is_in_place(item))
        loci_stock_give(c->client, item->block_at);
    else if (item->block != 0 && loci_tx_logged(item) != 0)
        loci_stock_put_back(c->client, item->block_at);
    if ((item->flags & LOCI_ITEM_NEW) != 0)
        loci_stock_give(c->client, item->cell_at);
    item->flags = 0;
    item->block = 0;
}

/* The objects are changed: what was theirs is this client's, and what it gave them is not. */
static void change_hands(struct commit *c)
{
    for (int i = 0; i < c->n; i++) {
        struct loci_item *item = c->item[i];
        bool freed = (item->flags & LOCI_ITEM_FREE) != 0;
        bool kept = item->block != 0 && loci_tx_is_in_place(item);

        leave_behind(c, item);
        if (!freed)
            loci_tx_remember(c->tx, item->object, c->new[i], item->len);
        if (loci_cell_block(item->word) != 0 && !kept)
            (void)loci_block_gain(c->client, item->object, item->word);
        if (freed && !loci_object_is_root(c->s, item->object))
            (void)loci_cell_gain(c->client, item->object);
    }
}

/* Another owns an object of ours: wait until it does not, so that the next try has a chance. */
static int give_way(struct commit *c)
{
    uint64_t word = c->in_the_way_word;

    if (c->in_the_way != LOCO_OBJECT_NONE)
        loci_cell_settle(c->s, c->in_the_way, LOCI_SETTLE_OWN, &c->tx->asker, &word);
    return LOCO_ERR_CONFLICT;
}

static void note_in_the_way(struct commit *c, int i)
{
    loci_tx_meet(c->tx, c->item[i]->object);
    if (c->in_the_way == LOCO_OBJECT_NONE && c->old[i] != UNKNOWN
        && loci_cell_is_owned(c->old[i])) {
        c->in_the_way = c->item[i]->object;
        c->in_the_way_word = c->old[i];
    }
}

/* ---- one object ---- */

static int commit_one(struct commit *c)
{
    struct loci_item *item = c->item[0];
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    loci_stock_begin(c->client);
    c->old[0] = UNKNOWN;
    status = write_block(c, 0, &ack);
    if (status == LOCO_OK)
        status = loci_cell_swap(c->s, item->object, item->word, c->new[0], &c->old[0], &ack);
    status = loci_tx_wait(c->tx, status, &ack);
    if (status == LOCO_OK && c->old[0] == item->word)
        change_hands(c);
    else if (status == LOCO_OK)
        status = LOCO_ERR_CONFLICT;
    else
        leave_behind(c, item);
    loci_stock_end(c->client);
    if (status == LOCO_OK)
        loci_store_count(c->s, &c->tx->asker.stats, LOCI_STATS_SINGLE);
    if (status != LOCO_ERR_CONFLICT)
        return status;
    note_in_the_way(c, 0);
    return give_way(c);
}

/* ---- the log ---- */

/* The host of most of the objects; another than this process where there is one, so that it does
 * not go with it. */
static int choose_host(struct commit *c)
{
    int best = -1, most = 0, mine = c->s->number[c->s->ep->group.rank];

    for (int i = 0, n = 0; i < c->n; i++) {
        int host = loci_object_host(c->item[i]->object);

        n = i > 0 && loci_object_host(c->item[i - 1]->object) == host ? n + 1 : 1;
        if (best < 0 || (best == mine && host != mine && c->s->sums)
            || (n > most && (host != mine || !c->s->sums))) {
            best = host;
            most = n;
        }
    }
    return best;
}

/* Whether operations on the log and on all cells go by one lane, in order. */
static bool is_one_lane(const struct commit *c, int host)
{
    const struct loci_mem *log = loci_store_mem(c->s, host, LOCI_STORE_HEAD);

    if (!loci_mem_is_posted_to(log) || loci_mem_ptr(log) != NULL || !loci_tx_has(LOCI_TX_CHAINS))
        return false;
    for (int i = 0; i < c->n; i++)
        if (loci_object_host(c->item[i]->object) != host)
            return false;
    return true;
}

/* Which cells it will own, and which words they have and are to have: of those in place, with the
 * blocks of the log. */
static void fill_image(struct commit *c)
{
    c->image.n = (uint64_t)c->n;
    c->image.heartbeat = c->tx->heartbeat;
    for (int i = 0; i < c->n; i++) {
        const struct loci_item *item = c->item[i];
        uint64_t logged = loci_tx_logged(item);

        c->image.entry[i] = (struct loci_log_entry){
            item->object, item->word, logged != 0 ? loci_cell_next(item->word, logged) : c->new[i],
        };
    }
    loci_log_fill(&c->image, c->seq);
}

static bool is_decided(uint64_t status)
{
    return loci_status_state(status) == LOCI_TX_ABORTED
           || loci_status_state(status) == LOCI_TX_COMMITTED;
}

/* What the slot's status is, decided. Where it was not known how the last one ended, that did not
 * get as far as to commit. */
static int find_status(struct commit *c, int host)
{
    struct loci_client *client = c->client;
    uint64_t old;
    int status = LOCO_OK;

    c->status = client->status[host];
    if (client->knows_status[host])
        return LOCO_OK;
    status = loci_log_status(c->s, c->slot, &c->status);
    if (status == LOCO_OK && !is_decided(c->status)) {
        uint64_t aborted = loci_status(loci_status_seq(c->status), LOCI_TX_ABORTED);

        status = loci_log_swap(c->s, c->slot, c->status, aborted, &old, NULL);
        c->status = aborted;    /* or others have made it so */
    }
    if (status != LOCO_OK)
        return status;
    client->knows_status[host] = true;
    client->status[host] = c->status;
    return LOCO_OK;
}

/* Without a log: what owns cells is different each time all the same. */
static int begin_without(struct commit *c)
{
    uint64_t *last = &c->client->status[0];
    int status;

    c->slot = loci_slot_of(c->s, c->client->number, 0);
    c->seq = (loci_status_seq(*last) + 1) & LOCI_CELL_SEQ;
    c->owned = loci_cell_owned(c->slot, c->seq);
    c->status = *last = loci_status(c->seq, LOCI_TX_ACTIVE);
    c->log = (loco_ack_t)LOCO_ACK_INIT;
    if (!loci_tx_has(LOCI_TX_VALUES))
        return LOCO_OK;
    fill_image(c);
    status = loci_log_write(c->s, c->slot, &c->image, &c->log);
    return status == LOCO_OK && is_one_lane(c, 0) ? status : loci_tx_wait(c->tx, status, &c->log);
}

/* Step 1. */
static int begin_log(struct commit *c)
{
    int host = choose_host(c), status;

    loci_tx_settle_late(c->tx);
    if (!loci_tx_has(LOCI_TX_LOG))
        return begin_without(c);
    c->slot = loci_slot_of(c->s, c->client->number, host);
    status = find_status(c, host);
    if (status != LOCO_OK)
        return status;
    c->seq = (loci_status_seq(c->status) + 1) & LOCI_CELL_SEQ;
    c->owned = loci_cell_owned(c->slot, c->seq);
    fill_image(c);
    c->log = (loco_ack_t)LOCO_ACK_INIT;
    c->log_old = UNKNOWN;
    c->client->knows_status[host] = false;
    status = loci_log_write(c->s, c->slot, &c->image, &c->log);
    status = chained(c, status, &c->log);
    if (status == LOCO_OK)
        status = loci_log_swap(c->s, c->slot, c->status, loci_status(c->seq, LOCI_TX_ACTIVE),
                               &c->log_old, &c->log);
    if (status == LOCO_OK && is_one_lane(c, host))
        return status;
    return loci_tx_wait(c->tx, status, &c->log);
}

/* Whether the status was as expected, once its swap is back, with others that came to `status`. */
static int begun(struct commit *c, int status)
{
    if (!loci_tx_has(LOCI_TX_LOG))
        return status;
    if (c->log_old == c->status) {
        c->status = loci_status(c->seq, LOCI_TX_ACTIVE);
        c->client->knows_status[loci_slot_host(c->s, c->slot)] = true;
        return status;
    }
    if (status != LOCO_OK)
        return status;
    LOCI_LOG(c->s->rt, LOCO_LOG_ERROR, "store %s: somebody else writes to log slot %llu",
             c->s->ep->name, (unsigned long long)c->slot);
    return LOCO_ERR_PROTOCOL;
}

/* From what the status is to another state; LOCO_ERR_CONFLICT: others have undone us. */
static int change_status(struct commit *c, enum loci_tx_state state)
{
    uint64_t to = loci_status(c->seq, state), old = c->status;
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    if (loci_tx_has(LOCI_TX_LOG))
        status = loci_log_swap(c->s, c->slot, c->status, to, &old, &ack);
    status = loci_tx_wait(c->tx, status, &ack);
    if (status != LOCO_OK)
        return status;
    if (old != c->status) {
        c->status = old;
        loci_store_count(c->s, &c->tx->asker.stats, LOCI_STATS_ABORTED_BY_OTHERS);
        loci_store_trace_mark(c->s, "undone by another", -1);
        return LOCO_ERR_CONFLICT;
    }
    c->status = to;
    return LOCO_OK;
}

/* ---- taking the cells ---- */

/* Whether its values take long to write. */
static bool is_long(const struct commit *c)
{
    size_t bytes = 0;

    for (int i = 0; i < c->n; i++)
        bytes += c->item[i]->block != 0 ? c->item[i]->len : 0;
    return bytes > MANY_BYTES;
}

/* Before the swap of the status, which may go by another lane. */
static int place_blocks(struct commit *c)
{
    int status = LOCO_OK;

    for (int i = 0; i < c->n && status == LOCO_OK; i++) {
        int host = loci_object_host(c->item[i]->object);
        const struct loci_mem *blocks = loci_store_mem(c->s, host, LOCI_STORE_BLOCKS);

        if ((i == 0 || loci_object_host(c->item[i - 1]->object) != host)
            && loci_mem_ptr(blocks) == NULL)
            status = loci_fence_peer(c->s->rt, LOCO_FENCE_PAIR, blocks->peer);
    }
    return status;
}

/* Heartbeats go among the blocks, and so are as fast as these where both go by one way. */
static int write_blocks(struct commit *c)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;
    size_t written = 0;

    for (int i = 0; i < c->n && status == LOCO_OK; i++) {
        status = write_block(c, i, &ack);
        written += c->item[i]->block != 0 ? c->item[i]->len : 0;
        if (written < MANY_BYTES)
            continue;
        loci_tx_beat(c->tx);
        written = 0;
    }
    status = loci_tx_wait(c->tx, status, &ack);
    return status == LOCO_OK ? place_blocks(c) : status;
}

/* Values go to the log before they are written over others. */
static int log_values(struct commit *c)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;

    for (int i = 0; i < c->n && status == LOCO_OK; i++) {
        struct loci_item *item = c->item[i];
        struct loci_block_header *image = loci_tx_image(c->tx, item);
        uint64_t word = loci_cell_next(item->word, loci_tx_logged(item));

        if (loci_tx_logged(item) == 0)
            continue;
        loci_image_seal(c->s, image, loci_client_stamp(c->client), item->object, word, item->len);
        status = loci_image_write(c->s, image, item->object, word, &ack);
    }
    return loci_tx_wait(c->tx, status, &ack);
}

/* Step 2. Cells that are mapped are taken here and now, one by one, up to the first that cannot. */
static int own(struct commit *c)
{
    loco_ack_t ack = c->log;            /* may be under way */
    bool blocks_last = loci_tx_has(LOCI_TX_COPY) && is_long(c);
    int status = LOCO_OK;

    for (int i = 0; i < c->n; i++)
        c->old[i] = UNKNOWN;
    if (loci_tx_has(LOCI_TX_LOG))
        loci_tx_beat_from(c->tx, c->slot);
    for (c->tried = 0; c->tried < c->n && status == LOCO_OK; c->tried++) {
        int i = c->tried;
        struct loci_item *item = c->item[i];

        if (!blocks_last && !loci_tx_is_in_place(item))
            status = write_block(c, i, &ack);
        if (status == LOCO_OK)
            status = loci_cell_swap(c->s, item->object, item->word, c->owned, &c->old[i], &ack);
        status = chained(c, status, &ack);
        if (loci_mem_word(loci_cell_mem(c->s, item->object)) != NULL && c->old[i] != item->word)
            break;
    }
    status = begun(c, loci_tx_wait(c->tx, status, &ack));
    for (int i = 0; i < c->n && status == LOCO_OK; i++)
        if (i > c->tried || c->old[i] != c->item[i]->word) {
            note_in_the_way(c, i);
            status = LOCO_ERR_CONFLICT;
        }
    if (status == LOCO_OK && loci_tx_has(LOCI_TX_VALUES))
        status = log_values(c);
    return status == LOCO_OK && blocks_last ? write_blocks(c) : status;
}

/* Step 5 where values are written in place, each with its cell behind it on the same lane. It is
 * awaited, for these writes are read from the transaction's buffer. */
static void overwrite(struct commit *c)
{
    loco_ack_t ack = LOCO_ACK_INIT;

    for (int i = 0; i < c->n; i++) {
        struct loci_mem *cells = loci_cell_mem(c->s, c->item[i]->object);
        uint64_t at = loci_cell_at(c->item[i]->object);
        int status = loci_tx_is_in_place(c->item[i]) ? write_block(c, i, &ack) : LOCO_OK;

        if (status == LOCO_OK)
            status = loci_write64(c->s->rt, cells, at, c->new[i], &ack);
        (void)chained(c, status, &ack);
    }
    (void)loco_ack_wait(c->s->rt, &ack);
}

/* Step 5, or back: cells that are owned, or may be, to these words. */
static void disown(struct commit *c, bool committed)
{
    struct loco_tx *tx = c->tx;

    if (committed && !loci_tx_has(LOCI_TX_COPY)) {
        overwrite(c);
        return;
    }
    for (int i = 0; i < c->n && i <= c->tried; i++) {
        struct loci_item *item = c->item[i];

        if (!committed && c->old[i] != item->word && c->old[i] != UNKNOWN)
            continue;
        (void)loci_cell_swap(c->s, item->object, c->owned, committed ? c->new[i] : item->word,
                             &tx->late_old[i], &tx->late);
        (void)chained(c, LOCO_OK, &tx->late);
    }
}

void loci_tx_settle_late(struct loco_tx *tx)
{
    /* Of an error: a host has died, and with it those cells. */
    (void)loco_ack_wait(tx->s->rt, &tx->late);
    tx->late = (loco_ack_t)LOCO_ACK_INIT;
}

/* ---- all of it ---- */

static int decide(struct commit *c)
{
    int status = own(c);

    if (status == LOCO_OK && c->tx->nreads > 0 && loci_tx_has(LOCI_TX_CHECK)) {
        status = change_status(c, LOCI_TX_CHECKING);
        if (status == LOCO_OK)
            status = loci_tx_look_again(c->tx, NULL, LOCI_SETTLE_CHECK, true);
    }
    if (status != LOCO_OK)
        return status;
    status = change_status(c, LOCI_TX_COMMITTED);
    c->in_doubt = status != LOCO_OK && status != LOCO_ERR_CONFLICT;
    return status;
}

static void undo(struct commit *c)
{
    enum loci_tx_state state = loci_status_state(c->status);

    if (loci_tx_has(LOCI_TX_LOG) && loci_status_seq(c->status) == c->seq
        && (state == LOCI_TX_ACTIVE || state == LOCI_TX_CHECKING)) {
        uint64_t to = loci_status(c->seq, LOCI_TX_ABORTED), old;
        loco_ack_t ack = LOCO_ACK_INIT;
        int status = loci_log_swap(c->s, c->slot, c->status, to, &old, &ack);

        if (loci_tx_wait(c->tx, status, &ack) == LOCO_OK)
            c->status = to;     /* or others have made it so */
    }
    disown(c, false);
}

/* What the living have made of the transaction where its log cannot be asked: the first of its
 * cells says it that has its old word again, its new one, or another in place of that. (A word that
 * came later may have followed either.) */
static bool was_undone(struct commit *c)
{
    for (int i = 0; i < c->n; i++) {
        uint64_t word, old = c->item[i]->word;

        if (loci_host_is_lost(c->s, loci_object_host(c->item[i]->object))
            || loci_cell_load(c->s, c->item[i]->object, &word) != LOCO_OK)
            continue;
        if (word == c->new[i])
            return false;
        if (word == old || (!loci_cell_is_owned(word)
                            && loci_cell_version(word) == loci_cell_version(c->new[i])))
            return true;
    }
    return false;
}

/* The host of the log has died in the middle of the last swap: nobody will know whether it was
 * done, but those who have seen it, or have undone us, where they had that memory mapped. They put
 * their words into the cells. Once they must have, this does the same with the rest. */
static void end_in_doubt(struct commit *c)
{
    loci_tx_pause(c->tx, loci_grace(c->s->rt));
    disown(c, !was_undone(c));
    for (int i = 0; i < c->n; i++)
        leave_behind(c, c->item[i]);
}

static int commit_many(struct commit *c)
{
    int status = begin_log(c);

    if (status != LOCO_OK)
        return status;
    loci_stock_begin(c->client);
    status = decide(c);
    if (status == LOCO_OK) {
        disown(c, true);
        change_hands(c);
    } else if (c->in_doubt) {
        end_in_doubt(c);
    } else {
        undo(c);
    }
    c->tx->beats = false;
    c->client->status[loci_slot_host(c->s, c->slot)] = c->status;
    loci_stock_end(c->client);
    return status == LOCO_ERR_CONFLICT ? give_way(c) : status;
}

static bool any_is_lost(const struct commit *c)
{
    for (int i = 0; i < c->n; i++)
        if (loci_host_is_lost(c->s, loci_object_host(c->item[i]->object)))
            return true;
    return false;
}

int loci_tx_commit(struct loco_tx *tx)
{
    struct commit c;            /* large: filled in as far as it is needed */

    if (tx->nwrites == 0)
        return tx->relaxed && tx->nreads > 1
               ? loci_tx_look_again(tx, NULL, LOCI_SETTLE_CHECK, false) : LOCO_OK;
    if (loci_now_roughly(tx->s->rt) - tx->began > TOO_OLD)
        return LOCO_ERR_CONFLICT;
    c.tx = tx;
    c.s = tx->s;
    c.client = tx->client;
    c.in_the_way = LOCO_OBJECT_NONE;
    c.in_doubt = false;
    gather(&c);
    if (any_is_lost(&c))
        return LOCO_ERR_PEER_DEAD;
    if (c.n == 0 && tx->nreads > 0)
        return loci_tx_look_again(tx, NULL, LOCI_SETTLE_CHECK, true);
    return c.n == 0 ? LOCO_OK
           : c.n == 1 && tx->nreads == 0 && loci_tx_has(LOCI_TX_SINGLE) ? commit_one(&c)
           : commit_many(&c);
}
