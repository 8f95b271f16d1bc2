/* SPDX-License-Identifier: BSD-3-Clause */

/* See index.h. */

#include "config.h"

#include <stdlib.h>

#include "index.h"
#include "observe/mistake.h"

#define BYTES_MIN 64u

int loci_index_open(struct loci_index *ix, const struct loci_index_kind *kind, struct loco_tx *tx,
                    loco_object_t root, size_t leaf_bytes, size_t inner_bytes, size_t cached)
{
    ix->kind = kind;
    ix->tx = tx;
    ix->root = root;
    ix->leaf_bytes = leaf_bytes;
    ix->inner_bytes = inner_bytes;
    ix->inline_bytes = leaf_bytes / 4 < LOCI_NODE_INLINE_MAX ? leaf_bytes / 4
                       : LOCI_NODE_INLINE_MAX;
    ix->node = malloc(sizeof *ix->node);
    ix->right = malloc(sizeof *ix->right);
    ix->upper = malloc(sizeof *ix->upper);
    if (ix->node == NULL || ix->right == NULL || ix->upper == NULL)
        return LOCO_ERR_NO_MEMORY;
    return loci_index_cache_open(ix, cached);
}

void loci_index_close(struct loci_index *ix)
{
    loci_index_cache_close(ix);
    loci_index_ahead_close(ix);
    free(ix->node);
    free(ix->right);
    free(ix->upper);
    free(ix->apart);
    free(ix->note);
}

int loci_index_check_bytes(const struct loco_tx *tx, const char *call, const char *name,
                           size_t bytes)
{
    return bytes >= BYTES_MIN && bytes <= LOCI_NODE_BYTES_MAX ? LOCO_OK
           : loci_bad_arg(tx->s->rt, call, tx->s->ep->name, name, (long long)bytes, "%u to %u",
                          BYTES_MIN, LOCI_NODE_BYTES_MAX);
}

int loci_index_begin_anew(struct loci_index *ix)
{
    loco_tx_abort(ix->tx);
    return loco_tx_begin(ix->tx);
}

int loci_index_broken(struct loci_index *ix)
{
    int status = loco_tx_validate(ix->tx);

    return status == LOCO_OK || status == LOCO_ERR_STATE ? LOCO_ERR_PROTOCOL : status;
}

static int read_some(struct loci_index *ix, enum loci_index_how how, loco_object_t object, void *to,
                     size_t room, size_t *len)
{
    struct loci_far *ahead = loci_index_ahead_find(ix, how, object);

    if (ahead != NULL) {
        memcpy(to, ahead->image + 1, ahead->len < room ? ahead->len : room);
        *len = ahead->len;
        /* Looked at once more it may be another; but for the rest of it. */
        ahead->is_there = how != LOCI_INDEX_PEEK || ahead->len > room;
        return LOCO_OK;
    }
    return how == LOCI_INDEX_PEEK ? loci_tx_peek(ix->tx, object, to, room, len)
           : loco_tx_read_some(ix->tx, object, to, room, len);
}

int loci_index_read(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                    size_t expected, void *to, size_t room, size_t *len)
{
    int status = LOCO_OK;

    if (!loci_object_is(ix->tx->s, object))
        return LOCO_ERR_NOT_FOUND;
    if (how == LOCI_INDEX_ALONE && ix->own)
        status = loci_index_begin_anew(ix);
    /* It may have grown when it is read again. */
    for (size_t ask = expected; status == LOCO_OK; ask = *len) {
        status = read_some(ix, how, object, to, ask, len);
        if (status == LOCO_OK && *len <= ask)
            return LOCO_OK;
        if (status == LOCO_OK && *len > room)
            status = LOCO_ERR_NOT_FOUND;
    }
    return status;
}

int loci_index_read_node(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                         size_t expected, union loci_node_buffer *to)
{
    size_t len;
    int status = loci_index_read(ix, how, object, expected, to, sizeof *to, &len);

    return status == LOCO_OK && !loci_node_is(&to->node, len, ix->id) ? LOCO_ERR_NOT_FOUND : status;
}
