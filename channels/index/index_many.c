/* SPDX-License-Identifier: BSD-3-Clause */

/* The calls on many keys, of whatever kind the index is: all of them in the transaction that is
 * under way, or in one of their own. Over a network the leaves that the keys probably have, or the
 * objects of their values, are read together first (index_ahead.c); then each key is looked up, or
 * changed, as by a call of its own. */

#include "config.h"

#include "index.h"

static int read_leaves(struct loci_index *ix, const loco_bytes_t *keys, size_t n)
{
    loco_object_t leaves[LOCI_TX_TOGETHER];
    unsigned found = 0;

    for (size_t i = 0; i < n; i++) {
        loco_object_t apart = loci_apart_recall(ix, keys[i]);

        leaves[found] = apart != 0 ? apart : ix->kind->guess(ix, keys[i]);
        found += leaves[found] != 0;
    }
    return found > 1 ? loci_index_ahead(ix, LOCI_INDEX_READ, leaves, found) : LOCO_OK;
}

/* `each` of the keys, as many at a time as are read together. */
static int in_groups(struct loci_index *ix, const struct loci_many *m,
                     int (*each)(struct loci_index *, const struct loci_many *, size_t))
{
    int status = LOCO_OK;

    ix->own = false;                    /* not each by itself */
    for (size_t i = 0; i < m->n && status == LOCO_OK; i++) {
        size_t rest = m->n - i;

        if (i % LOCI_TX_TOGETHER == 0 && loci_index_is_far(ix) && ix->kind->guess != NULL)
            status = read_leaves(ix, m->keys + i, rest < LOCI_TX_TOGETHER ? rest
                                                                          : LOCI_TX_TOGETHER);
        if (status == LOCO_OK)
            status = each(ix, m, i);
    }
    return status;
}

static int check_keys(const struct loci_index *ix, const struct loci_many *m)
{
    int status = LOCO_OK;

    for (size_t i = 0; i < m->n && status == LOCO_OK; i++) {
        const struct loci_change change = {
            .key = m->keys[i], .value = m->values == NULL ? loco_bytes(NULL, 0) : m->values[i],
        };

        status = loci_index_check_change(ix, &change);
    }
    return status;
}

static int call(struct loci_index *ix, unsigned flags, loci_index_body_fn *body,
                struct loci_many *m)
{
    int status = check_keys(ix, m);

    if (status == LOCO_OK)
        status = loci_tx_enter(ix->tx);
    if (status != LOCO_OK)
        return status;
    status = loci_index_enter(ix);
    if (status == LOCO_OK)
        status = ix->own ? loci_index_run(ix, flags, body, m) : body(ix, m);
    return loci_tx_leave(ix->tx, status);
}

/* ---- get ---- */

static int get_one(struct loci_index *ix, const struct loci_many *m, size_t i)
{
    loco_bytes_t found;
    int status = loci_index_get_in(ix, LOCI_INDEX_READ, m->keys[i], &found);

    m->statuses[i] = status;
    if (status != LOCO_OK)
        return status == LOCO_ERR_NOT_FOUND ? LOCO_OK : status;
    if (m->room > 0 && found.len > 0)
        memcpy(m->to + i * m->room, found.data, found.len < m->room ? found.len : m->room);
    m->lens[i] = found.len;
    return LOCO_OK;
}

static int get_all(struct loci_index *ix, void *arg)
{
    return in_groups(ix, arg, get_one);
}

/* What is mapped is looked at once more by the commit, rather than with each that is read after. */
int loci_index_get_many(struct loci_index *ix, struct loci_many *m)
{
    return call(ix, loci_index_is_far(ix) ? 0 : LOCO_TX_RELAXED, get_all, m);
}

/* ---- put ---- */

static int put_one(struct loci_index *ix, const struct loci_many *m, size_t i)
{
    struct loci_change change = { .change = LOCI_PUT, .key = m->keys[i], .value = m->values[i] };

    return loci_index_change_in(ix, &change);
}

static int put_all(struct loci_index *ix, void *arg)
{
    int status = loci_tx_mark(ix->tx);

    return status != LOCO_OK ? status
           : loci_tx_unmark(ix->tx, in_groups(ix, arg, put_one));
}

int loci_index_put_many(struct loci_index *ix, struct loci_many *m)
{
    return call(ix, 0, put_all, m);
}
