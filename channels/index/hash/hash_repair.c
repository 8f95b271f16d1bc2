/* SPDX-License-Identifier: BSD-3-Clause */

/* Telling the directory of leaves that it does not know, or knows no more: whoever has come across
 * one, after his call, in a transaction by itself. Each reads one segment and writes it, so that it
 * is one compare-and-swap; dividing a segment is one of root, segment and a new one.
 *
 * All that is lost if it does not work out is time: another has changed the segment meanwhile (then
 * he has done the same, or whoever comes next will), the store is full, a host has died. What is
 * written may be old by then, too, for the leaf is not looked at again. So it is tried once.
 *
 * A segment grows by as many bits as the leaf needs to have a slot by itself. It is divided by one
 * bit; if that is not enough, whoever comes next divides it again. */

#include "config.h"

#include "hash.h"

#define REST 256u               /* finds that are let go after the store was full */

/* ---- one segment ---- */

/* The segment as it is in the transaction at hand. LOCO_ERR_NOT_FOUND: it has not that hash. */
static int read_segment(struct loco_hash *h, uint64_t hash, loco_object_t *object)
{
    struct loci_index *ix = &h->index;
    struct loci_segment *s = &h->segment->segment;
    size_t len;
    int status;

    *object = loci_root_segment(&h->root->root, hash);
    status = loci_index_read(ix, LOCI_INDEX_READ, *object, sizeof *s, s, sizeof *h->segment, &len);
    if (status != LOCO_OK)
        return status;
    return loci_segment_is(s, len, ix->id) && loci_segment_has(s, hash) ? LOCO_OK
           : LOCO_ERR_NOT_FOUND;
}

static int write_segment(struct loco_hash *h, loco_object_t object)
{
    const struct loci_segment *s = &h->segment->segment;

    return loco_tx_write(h->index.tx, object, s, loci_segment_bytes(s));
}

/* ---- what transactions do ---- */

/* One more leaf, or more of what it has. */
static int enter(struct loco_hash *h, const struct loci_hash_found *f)
{
    struct loci_segment *s = &h->segment->segment;
    loco_object_t object;
    int status = read_segment(h, f->hash, &object);

    if (status != LOCO_OK)
        return status;
    if (loci_segment_lacks(s, &f->range, f->leaf)) {
        loci_segment_grow(s, &f->range);
        loci_segment_set(s, &f->range, f->leaf);
        status = write_segment(h, object);
    }
    if (status == LOCO_OK)
        status = loco_tx_commit(h->index.tx);
    if (status == LOCO_OK)
        loci_index_keep_value(&h->index, object, s, loci_segment_bytes(s));
    return status;
}

static int read_root(struct loco_hash *h)
{
    struct loci_index *ix = &h->index;
    size_t len;
    int status = loci_index_read(ix, LOCI_INDEX_READ, ix->root, loci_root_bytes(&h->root->root),
                                 h->root, sizeof *h->root, &len);

    return status == LOCO_OK && !loci_root_is(&h->root->root, len) ? LOCO_ERR_PROTOCOL : status;
}

/* LOCO_ERR_EXISTS: it need not be divided, now that it is read with the root. */
static int divide_in(struct loco_hash *h, const struct loci_hash_found *f, loco_object_t *object)
{
    struct loci_hash_root *root = &h->root->root;
    struct loci_segment *s = &h->segment->segment, *upper = &h->upper->segment;
    loco_object_t new;
    int status = read_root(h);

    if (status == LOCO_OK)
        status = read_segment(h, f->hash, object);
    if (status == LOCO_OK && !loci_segment_is_full(s, &f->range))
        status = LOCO_ERR_EXISTS;
    if (status != LOCO_OK)
        return status;
    loci_segment_divide(s, upper);
    status = loci_index_new(&h->index, upper, loci_segment_bytes(upper), &new);
    if (status != LOCO_OK)
        return status;
    loci_root_enter(root, s, *object);
    loci_root_enter(root, upper, new);
    status = write_segment(h, *object);
    return status != LOCO_OK ? status
           : loco_tx_write(h->index.tx, h->index.root, root, loci_root_bytes(root));
}

static int divide(struct loco_hash *h, const struct loci_hash_found *f)
{
    struct loci_index *ix = &h->index;
    loco_object_t object;
    int status = loco_tx_begin(ix->tx);

    if (status == LOCO_OK)
        status = divide_in(h, f, &object);
    if (status == LOCO_OK)
        status = loco_tx_commit(ix->tx);
    loco_tx_abort(ix->tx);
    if (status == LOCO_OK)
        loci_index_keep_value(ix, object, h->segment,
                              loci_segment_bytes(&h->segment->segment));
    else
        (void)loci_hash_read_root(h);   /* the copy may be what was never committed */
    return status == LOCO_ERR_EXISTS ? LOCO_OK : status;
}

/* ---- one find after the other ---- */

static bool has_to_be_divided(struct loco_hash *h, const struct loci_hash_found *f)
{
    loco_object_t object = loci_root_segment(&h->root->root, f->hash);
    const struct loci_segment *s = loci_index_cached_value(&h->index, object);

    return s != NULL && loci_segment_has(s, f->hash) && loci_segment_is_full(s, &f->range);
}

static int tell(struct loco_hash *h, const struct loci_hash_found *f)
{
    int status = has_to_be_divided(h, f) ? divide(h, f) : LOCO_OK;

    if (status == LOCO_OK)
        status = loco_tx_begin(h->index.tx);
    if (status == LOCO_OK)
        status = enter(h, f);
    loco_tx_abort(h->index.tx);
    if (status == LOCO_ERR_NOT_FOUND)
        (void)loci_hash_read_root(h);
    return status;
}

void loci_hash_repair(struct loco_hash *h)
{
    unsigned n = h->nfound;

    h->nfound = 0;
    for (unsigned i = 0; i < n; i++) {
        if (h->rest > 0)
            h->rest--;
        else if (tell(h, &h->found[i]) == LOCO_ERR_FULL)
            h->rest = REST;
    }
}
