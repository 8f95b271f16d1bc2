/* SPDX-License-Identifier: BSD-3-Clause */

/* The calls on one key, of whatever kind the index is.
 *
 * A call that is a transaction by itself reads the leaf, and if it changes that alone, its commit
 * is one compare-and-swap. A get does not even begin a transaction: to have read the leaf is
 * enough. Of a value in its own object the leaf only tells the handle: it is not in the read set
 * then, nor is it read where the handle is known (index_apart.c).
 *
 * An entry whose leaf this handle finds changed again and again gets an object of its own when it
 * is updated, however short its value is, and keeps that until it is deleted. Then updates of the
 * entry and of others in its leaf, in transactions, too, do not meet. */

#include "config.h"

#include "index.h"
#include "observe/mistake.h"

int loci_index_enter(struct loci_index *ix)
{
    int status = loci_tx_check_open(ix->tx);

    loci_index_ahead_end(ix);
    ix->own = status == LOCO_ERR_STATE;
    return ix->own ? LOCO_OK : status;
}

int loci_index_enter_again(struct loci_index *ix)
{
    bool leaves = ix->ahead != NULL && ix->ahead->fresh;
    bool values = ix->values != NULL && ix->values->fresh;
    int status = loci_index_enter(ix);

    if (leaves)
        ix->ahead->fresh = true;
    if (values)
        ix->values->fresh = true;
    return status;
}

static int check_size(const struct loci_index *ix, const char *what, size_t len, size_t max)
{
    const struct loco_store *s = ix->tx->s;

    return len <= max ? LOCO_OK
           : loci_mistake(s->rt, LOCO_ERR_SIZE, ix->kind->name, s->ep->name,
                          "%zu bytes are more than the %zu of a %s", len, max, what);
}

int loci_index_is_none(const struct loci_index *ix, const char *call, const char *what)
{
    const struct loco_store *s = ix->tx->s;

    return loci_mistake(s->rt, LOCO_ERR_MISMATCH, call, s->ep->name, "object %llx holds something "
                        "else than a %s: open it as what it is, or take another root",
                        (unsigned long long)ix->root, what);
}

int loci_index_check_key(const struct loci_index *ix, loco_bytes_t key)
{
    return check_size(ix, "key", key.len, LOCI_INDEX_KEY_MAX);
}

static loco_bytes_t place(struct loci_index *ix, loco_bytes_t key)
{
    return ix->kind->place == NULL ? key : ix->kind->place(ix, key);
}

/* ---- get ---- */

/* LOCO_ERR_AGAIN: a value's object is of another key by now. */
static int get_by_leaf(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                       loco_bytes_t *value)
{
    const struct loci_node *leaf = &ix->node->node;
    loco_object_t object;
    bool found;
    int status = ix->kind->find(ix, how, key, ix->node, &object);
    unsigned i;

    if (status != LOCO_OK)
        return status;
    i = loci_node_find(leaf, key, &found);
    if (!found)
        return LOCO_ERR_NOT_FOUND;
    if (!loci_node_is_apart(leaf, i)) {
        *value = loci_node_value(leaf, i);
        return LOCO_OK;
    }
    object = loci_node_handle(leaf, i);
    loci_apart_note(ix, key, object);
    status = loci_apart_read(ix, how, object, key, value);
    return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_AGAIN : status;
}

static int get_once(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                    loco_bytes_t *value)
{
    loco_object_t object = loci_apart_recall(ix, key);
    int status = LOCO_ERR_NOT_FOUND;

    if (object != 0)
        status = loci_apart_read(ix, how, object, key, value);
    if (object != 0 && status == LOCO_ERR_NOT_FOUND)
        loci_apart_note(ix, key, 0);
    if (object == 0 && how == LOCI_INDEX_PEEK) {
        status = loci_index_get_in_place(ix, key, value);
        return status != LOCO_ERR_AGAIN ? status : get_by_leaf(ix, how, key, value);
    }
    return status != LOCO_ERR_NOT_FOUND ? status : get_by_leaf(ix, how, key, value);
}

int loci_index_get_in(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                      loco_bytes_t *value)
{
    int status;

    key = place(ix, key);
    do
        status = get_once(ix, how, key, value);
    while (status == LOCO_ERR_AGAIN && how == LOCI_INDEX_PEEK);
    return status == LOCO_ERR_AGAIN ? loci_index_broken(ix) : status;
}

static int get(struct loci_index *ix, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    loco_bytes_t found;
    int status = loci_index_check_key(ix, key);

    if (status == LOCO_OK)
        status = loci_index_enter(ix);
    if (status == LOCO_OK)
        status = loci_index_get_in(ix, ix->own ? LOCI_INDEX_PEEK : LOCI_INDEX_READ, key, &found);
    if (status != LOCO_OK)
        return status;
    if (room > 0 && found.len > 0)
        memcpy(value, found.data, found.len < room ? found.len : room);
    *len = found.len;
    return LOCO_OK;
}

int loci_index_get(struct loci_index *ix, loco_bytes_t key, void *value, size_t room, size_t *len)
{
    int status = loci_tx_enter(ix->tx);

    return status != LOCO_OK ? status
           : loci_tx_leave(ix->tx, get(ix, key, value, room, len));
}

/* ---- changes ---- */

static int add(const struct loci_index *ix, struct loci_change *c, const loco_bytes_t *old)
{
    const struct loco_store *s = ix->tx->s;

    c->before = 0;
    if (old != NULL && old->len != sizeof c->before)
        return loci_mistake(s->rt, LOCO_ERR_SIZE, ix->kind->name, s->ep->name,
                            "the value has %zu bytes, and _add is for numbers of 8 bytes",
                            old->len);
    if (old != NULL)
        memcpy(&c->before, old->data, sizeof c->before);
    c->number = c->before + c->by;
    c->value = loco_bytes(&c->number, sizeof c->number);
    return LOCO_OK;
}

/* What comes of it where the key has that value; NULL: none. */
static int decide(const struct loci_index *ix, struct loci_change *c, const loco_bytes_t *old)
{
    switch (c->change) {
    case LOCI_INSERT:
        return old == NULL ? LOCO_OK : LOCO_ERR_EXISTS;
    case LOCI_UPDATE: case LOCI_DELETE:
        return old != NULL ? LOCO_OK : LOCO_ERR_NOT_FOUND;
    case LOCI_COMPARE_SET:
        if (old == NULL)
            return LOCO_ERR_NOT_FOUND;
        return loci_bytes_compare(*old, c->expected) == 0 ? LOCO_OK : LOCO_ERR_DIFFERS;
    case LOCI_ADD:
        return add(ix, c, old);
    default:
        return LOCO_OK;
    }
}

/* A value in its own object changes without its leaf. What was read of the leaf is forgotten, so
 * that the commit is of this object alone. LOCO_ERR_AGAIN: it is of that key no more. */
static int change_apart(struct loci_index *ix, struct loci_change *c, loco_object_t object)
{
    loco_bytes_t old;
    int status = loci_apart_read(ix, LOCI_INDEX_ALONE, object, c->placed, &old);

    if (status == LOCO_ERR_NOT_FOUND) {
        loci_apart_note(ix, c->placed, 0);
        return LOCO_ERR_AGAIN;
    }
    if (status == LOCO_OK)
        status = decide(ix, c, &old);
    return status != LOCO_OK ? status : loci_apart_write(ix, object, c->placed, c->value);
}

/* Whether it can be made where the value's object is known, without the leaf. */
static bool may_be_apart(const struct loci_change *c)
{
    return c->change != LOCI_DELETE && c->change != LOCI_INSERT;
}

static int remove_entry(struct loci_index *ix, loco_object_t leaf, unsigned i)
{
    int status = LOCO_OK;

    if (loci_node_is_apart(&ix->node->node, i))
        status = loco_tx_free(ix->tx, loci_node_handle(&ix->node->node, i));
    if (status != LOCO_OK)
        return status == LOCO_ERR_NOT_FOUND ? loci_index_broken(ix) : status;
    loci_node_remove(&ix->node->node, i);
    return ix->kind->write_less(ix, leaf);
}

/* The new value in the leaf: itself, or the handle of its object. An entry that is there gets one
 * where the leaf is hot: then others in that leaf may change beside it. */
static int set_entry(struct loci_index *ix, const struct loci_change *c, loco_object_t leaf,
                     unsigned i, bool found)
{
    bool hot = found && loci_tx_is_hot(ix->tx, leaf);
    bool apart = hot || c->value.len > ix->inline_bytes;
    loco_bytes_t value = c->value;
    loco_object_t object;
    int status = LOCO_OK;

    if (apart) {
        status = loci_apart_new(ix, c->placed, c->value, &object);
        value = loco_bytes(&object, sizeof object);
    }
    if (status != LOCO_OK)
        return status;
    if (apart)
        loci_apart_note(ix, c->placed, object);
    loci_index_count(ix, LOCI_STATS_HOT, hot);
    if (found)
        loci_node_replace(&ix->node->node, i, value, apart);
    else
        loci_node_insert(&ix->node->node, i, c->placed, value, apart);
    return ix->kind->write(ix, leaf, i);
}

static int change_by_leaf(struct loci_index *ix, struct loci_change *c)
{
    const struct loci_node *leaf = &ix->node->node;
    loco_object_t object;
    loco_bytes_t old;
    bool found;
    int status = ix->kind->find(ix, LOCI_INDEX_ALONE, c->placed, ix->node, &object);
    unsigned i;

    if (status != LOCO_OK)
        return status;
    i = loci_node_find(leaf, c->placed, &found);
    if (found && loci_node_is_apart(leaf, i) && may_be_apart(c)) {
        object = loci_node_handle(leaf, i);
        loci_apart_note(ix, c->placed, object);
        return change_apart(ix, c, object);
    }
    if (found)
        old = loci_node_value(leaf, i);
    status = decide(ix, c, found ? &old : NULL);
    if (status != LOCO_OK)
        return status;
    return c->change == LOCI_DELETE ? remove_entry(ix, object, i)
           : set_entry(ix, c, object, i, found);
}

int loci_index_change_in(struct loci_index *ix, struct loci_change *c)
{
    loco_object_t object;
    int status = LOCO_ERR_AGAIN;

    c->placed = place(ix, c->key);
    object = may_be_apart(c) ? loci_apart_recall(ix, c->placed) : 0;
    if (object != 0)
        status = change_apart(ix, c, object);
    if (status == LOCO_ERR_AGAIN)
        status = change_by_leaf(ix, c);
    if (status == LOCO_ERR_AGAIN)
        return ix->own ? LOCO_ERR_CONFLICT : loci_index_broken(ix);
    return status;
}

int loci_index_check_change(const struct loci_index *ix, const struct loci_change *c)
{
    int status = loci_index_check_key(ix, c->key);

    return status != LOCO_OK ? status
           : check_size(ix, "value", c->value.len, LOCI_INDEX_VALUE_MAX);
}

int loci_index_run(struct loci_index *ix, unsigned flags, loci_index_body_fn *body, void *arg)
{
    struct loci_backoff b;

    for (loci_tx_begin_tries(ix->tx, &b);; loci_tx_back_off(ix->tx, &b)) {
        int status = loco_tx_begin_as(ix->tx, flags);

        if (status == LOCO_OK)
            status = body(ix, arg);
        if (status == LOCO_OK)
            status = loco_tx_commit(ix->tx);
        else
            loco_tx_abort(ix->tx);
        if (status != LOCO_ERR_CONFLICT)
            return status;
    }
}

static int change_alone(struct loci_index *ix, void *arg)
{
    return loci_index_change_in(ix, arg);
}

static int change(struct loci_index *ix, struct loci_change *c)
{
    int status = loci_index_check_change(ix, c);

    if (status == LOCO_OK)
        status = loci_index_enter(ix);
    if (status == LOCO_OK && ix->own)
        return loci_index_run(ix, 0, change_alone, c);
    if (status == LOCO_OK)
        status = loci_tx_mark(ix->tx);
    return status != LOCO_OK ? status : loci_tx_unmark(ix->tx, loci_index_change_in(ix, c));
}

int loci_index_change(struct loci_index *ix, struct loci_change *c)
{
    int status = loci_tx_enter(ix->tx);

    return status != LOCO_OK ? status : loci_tx_leave(ix->tx, change(ix, c));
}
