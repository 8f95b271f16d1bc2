/* SPDX-License-Identifier: BSD-3-Clause */

/* Transactions until their commit (tx_commit.c).
 *
 * The first look at an object notes the plain word of its cell; all else that the transaction has
 * to do with that object is about the value of that word. What it reads is of one instant: whoever
 * reads one more object looks again at the cells of all before, after he has read the new one's;
 * since words do not come twice, all had those words at the moment when the new one's cell was
 * read. The commit, or validate, does the same for those who left that out (LOCO_TX_RELAXED). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "observe/mistake.h"
#include "store_life.h"
#include "store_trace.h"
#include "tx.h"

/* ---- handles ---- */

static void free_tx(struct loco_tx *tx)
{
    if (tx == NULL)
        return;
    free(tx->item);
    free(tx->hash);
    free(tx->buffer);
    free(tx->scratch);
    free(tx->words);
    free(tx->hint);
    free(tx->mark);
    free(tx);
}

static struct loco_tx *new_tx(struct loco_store *s)
{
    struct loco_tx *tx = calloc(1, sizeof *tx);

    if (tx == NULL)
        return NULL;
    tx->s = s;
    tx->item = calloc(LOCO_TX_READS_MAX, sizeof *tx->item);
    tx->hash = calloc(LOCI_TX_HASH, sizeof *tx->hash);
    tx->room = 4096;
    tx->buffer = malloc(tx->room);
    tx->scratch = malloc(LOCI_IMAGE_MAX);
    tx->words = calloc(LOCO_TX_READS_MAX, sizeof *tx->words);
    if (s->sums)                /* else all is mapped */
        tx->hint = calloc((size_t)1 << LOCI_TX_HINT_BITS, sizeof *tx->hint);
    if (tx->item == NULL || tx->hash == NULL || tx->buffer == NULL || tx->scratch == NULL
        || tx->words == NULL || (s->sums && tx->hint == NULL)) {
        free_tx(tx);
        return NULL;
    }
    return tx;
}

/* Under the store's lock: a client that no handle uses. */
static int take_client(struct loco_store *s, struct loci_client **client)
{
    int status = LOCO_OK, thread = 0;

    while (thread < s->threads && s->client[thread] != NULL && s->client[thread]->in_use)
        thread++;
    if (atomic_load_explicit(&s->ended, memory_order_relaxed) != 0)
        return LOCO_ERR_STATE;
    if (thread == s->threads)
        return loci_mistake(s->rt, LOCO_ERR_STATE, "loco_tx_open", s->ep->name,
                            "%d handles are open here, as many as its option `threads` says",
                            s->threads);
    if (s->client[thread] == NULL)
        status = loci_client_open(s, thread, &s->client[thread]);
    if (status != LOCO_OK)
        return status;
    *client = s->client[thread];
    (*client)->in_use = true;
    return LOCO_OK;
}

int loco_tx_open(loco_store_t *s, loco_tx_t **out)
{
    struct loco_tx *tx = new_tx(s);
    int status;

    if (tx == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_lock(&s->lock);
    status = take_client(s, &tx->client);
    if (status == LOCO_OK) {
        tx->next = s->open;
        s->open = tx;
    }
    pthread_mutex_unlock(&s->lock);
    if (status != LOCO_OK) {
        free_tx(tx);
        return status;
    }
    for (int host = 0; host < s->nhosts && status == LOCO_OK; host++)
        status = loci_store_map(s, host);
    if (status != LOCO_OK) {
        loco_tx_close(tx);
        return status;
    }
    *out = tx;
    return LOCO_OK;
}

void loco_store_stats(loco_store_t *s, loco_store_stats_t *stats)
{
    pthread_mutex_lock(&s->lock);
    *stats = s->closed;
    for (const struct loco_tx *tx = s->open; tx != NULL; tx = tx->next)
        loci_store_stats_add(stats, &tx->asker.stats);
    pthread_mutex_unlock(&s->lock);
}

void loco_tx_close(loco_tx_t *tx)
{
    struct loco_store *s;
    struct loco_tx **at;

    if (tx == NULL)
        return;
    s = tx->s;
    loco_tx_abort(tx);
    loci_tx_settle_late(tx);            /* it only waits */
    pthread_mutex_lock(&s->lock);
    for (at = &s->open; *at != tx; at = &(*at)->next)
        ;
    *at = tx->next;
    loci_store_stats_add(&s->closed, &tx->asker.stats);
    tx->client->in_use = false;
    pthread_mutex_unlock(&s->lock);
    free_tx(tx);
}

void loci_tx_close_all(struct loco_store *s)
{
    int n = 0;

    for (const struct loco_tx *tx = s->open; tx != NULL; tx = tx->next)
        n++;
    if (n > 0)
        LOCI_LOG(s->rt, LOCO_LOG_WARN, "store %s is destroyed with %d transaction handles open, "
                 "which are no longer valid", s->ep->name, n);
    while (s->open != NULL)
        loco_tx_close(s->open);
}

void loco_tx_stats(const loco_tx_t *tx, loco_store_stats_t *stats)
{
    *stats = tx->asker.stats;
}

/* ---- begin and end ---- */

void loco_tx_abort(loco_tx_t *tx)
{
    if (tx->stage == LOCI_TX_IDLE)
        return;
    if (loci_tx_enter(tx) == LOCO_OK) {         /* else what it took has gone with the store */
        for (int i = 0; i < tx->nwrites; i++)
            loci_tx_put_back(tx, &tx->item[tx->write[i]]);
        (void)loci_tx_leave(tx, LOCO_OK);
    }
    tx->stage = LOCI_TX_IDLE;
}

int loco_tx_begin_as(loco_tx_t *tx, unsigned flags)
{
    int status;

    if (tx->stage == LOCI_TX_OPEN)
        return LOCO_ERR_STATE;
    if ((flags & ~(unsigned)LOCO_TX_RELAXED) != 0)
        return LOCO_ERR_ARG;
    status = loci_tx_enter(tx);
    if (status != LOCO_OK)
        return status;
    loco_tx_abort(tx);
    loci_tx_clear(tx);
    tx->stage = LOCI_TX_OPEN;
    tx->relaxed = (flags & LOCO_TX_RELAXED) != 0;
    tx->began = loci_now_roughly(tx->s->rt);
    return loci_tx_leave(tx, LOCO_OK);
}

int loco_tx_begin(loco_tx_t *tx)
{
    return loco_tx_begin_as(tx, 0);
}

int loci_tx_failed(struct loco_tx *tx, int status)
{
    if (status == LOCO_ERR_CONFLICT && tx->stage == LOCI_TX_OPEN) {
        tx->stage = LOCI_TX_FAILED;
        loci_store_count(tx->s, &tx->asker.stats, LOCI_STATS_CONFLICTS);
        loci_store_trace_mark(tx->s, "conflict", -1);
    }
    return status;
}

void loci_tx_meet(struct loco_tx *tx, loco_object_t object)
{
    if (tx->met != object)
        tx->met_weight = 0;
    tx->met = object;
    if (tx->met_weight < 2 * LOCI_TX_HOT)
        tx->met_weight += 2;
}

int loci_tx_check_open(const struct loco_tx *tx)
{
    return tx->stage == LOCI_TX_OPEN ? LOCO_OK
           : tx->stage == LOCI_TX_FAILED ? LOCO_ERR_CONFLICT : LOCO_ERR_STATE;
}

int loci_tx_check_begun(const struct loco_tx *tx, const char *call)
{
    int status = loci_tx_check_open(tx);

    return status != LOCO_ERR_STATE ? status
           : loci_mistake(tx->s->rt, status, call, tx->s->ep->name, "no transaction is begun: "
                          "loco_tx_begin or loco_tx_run comes first");
}

int loco_tx_validate(loco_tx_t *tx)
{
    int status = loci_tx_check_begun(tx, "loco_tx_validate");

    if (status == LOCO_OK)
        status = loci_tx_enter(tx);
    return status != LOCO_OK ? status
           : loci_tx_leave(tx, loci_tx_failed(tx, loci_tx_look_again(tx, NULL, LOCI_SETTLE_READ,
                                                                     false)));
}

/* ---- looking at objects ---- */

/* As loci_tx_look(), of whatever the caller says is an object. */
static int look(struct loco_tx *tx, loco_object_t object, struct loci_item **item,
                struct loci_into *to)
{
    if (!loci_object_is(tx->s, object))
        return loci_mistake(tx->s->rt, LOCO_ERR_ARG, "loco_tx", tx->s->ep->name,
                            "%llx is no object of this store", (unsigned long long)object);
    return loci_tx_look(tx, object, item, to);
}

void loci_tx_mark_read(struct loco_tx *tx, struct loci_item *item)
{
    if ((item->flags & (LOCI_ITEM_READ | LOCI_ITEM_WRITE)) == 0)
        tx->nreads++;
    item->flags |= LOCI_ITEM_READ;
}

static bool is_there(const struct loci_item *item)
{
    if ((item->flags & LOCI_ITEM_FREE) != 0)
        return false;
    return (item->flags & LOCI_ITEM_WRITE) != 0 || loci_cell_block(item->word) != 0;
}

static int read_some(loco_tx_t *tx, loco_object_t object, void *value, size_t room, size_t *len)
{
    struct loci_into to = { value, room, 0 };
    struct loci_item *item = loci_tx_find(tx, object);
    int status = loci_tx_check_begun(tx, "loco_tx_read");

    if (status != LOCO_OK)
        return status;
    if (item != NULL && (item->flags & LOCI_ITEM_WRITE) != 0) {
        if (!is_there(item))
            return LOCO_ERR_NOT_FOUND;
        if (room > 0)
            memcpy(value, loci_tx_image(tx, item) + 1, item->len < room ? item->len : room);
        *len = item->len;
        return LOCO_OK;
    }
    status = look(tx, object, &item, &to);
    if (status != LOCO_OK)
        return loci_tx_failed(tx, status);
    loci_tx_mark_read(tx, item);
    if (!is_there(item))
        return LOCO_ERR_NOT_FOUND;
    *len = to.len;
    return LOCO_OK;
}

int loco_tx_read_some(loco_tx_t *tx, loco_object_t object, void *value, size_t room, size_t *len)
{
    int status = loci_tx_enter(tx);

    return status != LOCO_OK ? status : loci_tx_leave(tx, read_some(tx, object, value, room, len));
}

int loco_tx_read(loco_tx_t *tx, loco_object_t object, void *value, size_t len)
{
    size_t is = 0;
    int status = loco_tx_read_some(tx, object, value, len, &is);

    return status == LOCO_OK && is != len ? LOCO_ERR_SIZE : status;
}

/* ---- changing them ---- */

static int check_size(const struct loco_tx *tx, const char *call, size_t len)
{
    if (len <= LOCO_STORE_VALUE_MAX)
        return LOCO_OK;
    return loci_mistake(tx->s->rt, LOCO_ERR_SIZE, call, tx->s->ep->name,
                        "%zu bytes are more than the %d of a value", len, LOCO_STORE_VALUE_MAX);
}

/* An item that may be changed: it is there, or a root. */
static int look_to_change(struct loco_tx *tx, const char *call, loco_object_t object, bool roots,
                          struct loci_item **item)
{
    struct loci_into nothing = { NULL, 0, 0 };
    int status = loci_tx_check_begun(tx, call);

    if (status == LOCO_OK)
        status = loci_tx_failed(tx, look(tx, object, item, &nothing));
    if (status != LOCO_OK)
        return status;
    if (is_there(*item) || (roots && loci_object_is_root(tx->s, object)))
        return LOCO_OK;
    loci_tx_mark_read(tx, *item);
    return LOCO_ERR_NOT_FOUND;
}

static int write_value(loco_tx_t *tx, loco_object_t object, const void *value, size_t len)
{
    struct loci_item *item;
    int status = check_size(tx, "loco_tx_write", len);

    if (status == LOCO_OK)
        status = look_to_change(tx, "loco_tx_write", object, true, &item);
    if (status == LOCO_OK && tx->nwrites == LOCO_TX_WRITES_MAX
        && (item->flags & LOCI_ITEM_WRITE) == 0)
        status = LOCO_ERR_FULL;
    if (status == LOCO_OK)
        status = loci_tx_set_value(tx, item, value, len);
    return status != LOCO_OK ? status : loci_tx_mark_written(tx, item);
}

int loco_tx_write(loco_tx_t *tx, loco_object_t object, const void *value, size_t len)
{
    int status = loci_tx_enter(tx);

    return status != LOCO_OK ? status : loci_tx_leave(tx, write_value(tx, object, value, len));
}

static int free_object(loco_tx_t *tx, loco_object_t object)
{
    struct loci_item *item;
    int status = look_to_change(tx, "loco_tx_free", object, false, &item);

    if (status == LOCO_OK)
        status = loci_tx_mark_written(tx, item);
    if (status != LOCO_OK)
        return status;
    loci_tx_save(tx, item);
    loci_tx_drop_block(tx, item);
    item->flags |= LOCI_ITEM_FREE;
    return LOCO_OK;
}

int loco_tx_free(loco_tx_t *tx, loco_object_t object)
{
    int status = loci_tx_enter(tx);

    return status != LOCO_OK ? status : loci_tx_leave(tx, free_object(tx, object));
}

static int number_of_host(const struct loco_tx *tx, int host)
{
    const struct loco_store *s = tx->s;
    int rank = s->ep->group.rank;

    if (host == LOCO_ANY_HOST) {
        int number = s->number[rank] >= 0 ? s->number[rank] : rank % s->nhosts;

        for (int i = 0; i < s->nhosts && loci_host_is_lost(s, number); i++)
            number = (number + 1) % s->nhosts;
        return number;
    }
    return host >= 0 && host < s->ep->group.size ? s->number[host] : -1;
}

/* A cell for a new object; there is no object in it, nor does anybody own it. */
static int make_item(struct loco_tx *tx, int host, struct loci_item **item)
{
    uint64_t cell, word;
    unsigned at;
    int status;

    loci_stock_begin(tx->client);
    status = loci_cell_take(tx->client, host, &at, &cell);
    loci_stock_end(tx->client);
    if (status != LOCO_OK)
        return status;
    status = loci_cell_read(tx->s, loci_object(host, cell), LOCI_SETTLE_OWN, &tx->asker, &word);
    *item = loci_tx_find(tx, loci_object(host, cell));     /* taken before, and put back */
    if (status == LOCO_OK && *item == NULL)
        status = loci_tx_add(tx, loci_object(host, cell), item);
    if (status != LOCO_OK) {
        loci_stock_put_back(tx->client, at);
        return status;
    }
    (*item)->word = word;
    (*item)->cell_at = (uint16_t)at;
    (*item)->flags = LOCI_ITEM_NEW;
    return LOCO_OK;
}

static int new_object(loco_tx_t *tx, int host, const void *value, size_t len,
                      loco_object_t *object)
{
    int number = number_of_host(tx, host), status = loci_tx_check_begun(tx, "loco_tx_new");
    struct loci_item *item;

    if (status == LOCO_OK)
        status = check_size(tx, "loco_tx_new", len);
    if (status == LOCO_OK && number < 0)
        status = loci_mistake(tx->s->rt, LOCO_ERR_ARG, "loco_tx_new", tx->s->ep->name,
                              "rank %d is no host of this store", host);
    if (status == LOCO_OK && loci_host_is_lost(tx->s, number))
        status = LOCO_ERR_PEER_DEAD;
    if (status == LOCO_OK && tx->nwrites == LOCO_TX_WRITES_MAX)
        status = LOCO_ERR_FULL;
    if (status == LOCO_OK)
        status = make_item(tx, number, &item);
    if (status != LOCO_OK)
        return status;
    status = loci_tx_set_value(tx, item, value, len);
    if (status != LOCO_OK) {
        loci_tx_put_back(tx, item);     /* the item stays: of a cell without an object */
        return status;
    }
    *object = item->object;
    return loci_tx_mark_written(tx, item);
}

int loco_tx_new(loco_tx_t *tx, int host, const void *value, size_t len, loco_object_t *object)
{
    int status = loci_tx_enter(tx);

    return status != LOCO_OK ? status : loci_tx_leave(tx, new_object(tx, host, value, len, object));
}

/* ---- the end ---- */

void loci_tx_add_sequel(struct loco_tx *tx, struct loci_sequel *sequel)
{
    sequel->next = tx->sequels;
    tx->sequels = sequel;
}

void loci_tx_remove_sequel(struct loco_tx *tx, const struct loci_sequel *sequel)
{
    for (struct loci_sequel **at = &tx->sequels; *at != NULL; at = &(*at)->next)
        if (*at == sequel) {
            *at = sequel->next;
            return;
        }
}

/* Their own commits run none. */
static void run_sequels(struct loco_tx *tx)
{
    struct loci_sequel *all = tx->sequels;

    tx->sequels = NULL;
    for (struct loci_sequel *e = all; e != NULL; e = e->next)
        e->run(e);
    tx->sequels = all;
}

static int commit(loco_tx_t *tx)
{
    int status = loci_tx_check_begun(tx, "loco_tx_commit");
    bool traced = loci_store_is_traced(tx->s)
                  && loci_store_trace_commit(tx->s, tx->nwrites, tx->nreads);

    if (status == LOCO_OK)
        status = loci_tx_failed(tx, loci_tx_commit(tx));
    if (status == LOCO_OK) {
        loci_store_count(tx->s, &tx->asker.stats, LOCI_STATS_COMMITS);
        tx->asker.undone = 0;
        tx->met_weight -= tx->met_weight > 0;
        if (tx->nwrites == 0)
            loci_store_count(tx->s, &tx->asker.stats, LOCI_STATS_READ_ONLY);
    }
    if (traced)
        loci_store_trace_end(tx->s, status);
    loco_tx_abort(tx);          /* of what is committed nothing is left to undo */
    if (status == LOCO_OK && tx->sequels != NULL)
        run_sequels(tx);
    return status;
}

static int commit_entered(loco_tx_t *tx)
{
    int status = loci_tx_enter(tx);

    if (status == LOCO_OK)
        return loci_tx_leave(tx, commit(tx));
    loco_tx_abort(tx);
    return status;
}

int loco_tx_commit(loco_tx_t *tx)
{
    struct loci_thread *self = loci_call_begin(tx->s->ep->calls, LOCI_CALL_COMMIT, 0);

    return loci_call_end(self, commit_entered(tx));
}

/* ---- again and again ---- */

void loci_tx_pause(struct loco_tx *tx, int64_t ns)
{
    loci_pause(tx->s->rt, "another transaction", LOCI_WAIT_TRANSACTION, ns);
}

void loci_tx_begin_tries(struct loco_tx *tx, struct loci_backoff *b)
{
    loci_backoff_begin(b, tx->s->rt, loci_store_mem(tx->s, 0, LOCI_STORE_HEAD));
}

/* By the host of the object that it was about, if that is known. */
void loci_tx_back_off(struct loco_tx *tx, struct loci_backoff *b)
{
    if (b->failures == 0 && tx->met != 0)
        b->mem = loci_store_mem(tx->s, loci_object_host(tx->met), LOCI_STORE_CELLS);
    loci_tx_pause(tx, loci_backoff_next(b));
}

int loco_tx_run(loco_tx_t *tx, loco_tx_body_fn *body, void *arg)
{
    struct loci_backoff b;

    for (loci_tx_begin_tries(tx, &b);; loci_tx_back_off(tx, &b)) {
        int status = loco_tx_begin(tx);

        if (status != LOCO_OK)
            return status;
        status = body(tx, arg);
        if (status == LOCO_OK)
            status = loco_tx_commit(tx);
        else
            loco_tx_abort(tx);
        if (status != LOCO_ERR_CONFLICT)
            return status;
    }
}
