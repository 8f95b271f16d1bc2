/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_FLAT_H
#define LOCI_WINDOW_FLAT_H

/* Flat combining of accumulates on memory that is not mapped; window_flat.c. */

#include "window/window.h"

/* Some elements of a target, side by side: to be combined with an operand, or swapped. */
struct loci_flat {
    enum loco_type type;        /* without padding */
    enum loco_op op;            /* LOCI_FLAT_SWAP too */
    uint64_t offset;
    size_t len;                 /* bytes, of whole elements */
    const void *operand;        /* NULL with LOCO_OP_NO_OP */
    const void *expected;       /* of a swap */
    void *result;               /* what was there before; or NULL */
};
#define LOCI_FLAT_SWAP LOCO_OP_COUNT
#define LOCI_FLAT_BYTES 1024    /* the longest that is asked for */

/* Bytes of a control block for it, behind the others. */
size_t loci_flat_room(void);

/* Whether it is worth while in that window, of whose kind and members all is known. */
static inline bool loci_flat_is_for(const struct loco_window *win)
{
    return win->mapped_by_all && win->synchronous && win->kind >= LOCO_WINDOW_CREATE;
}

/* Take the lock of the target's accumulates, or have it done by who has it; LOCI_FLAT_BYTES at
 * most. LOCO_OK: *done, or else the lock is ours and nothing was done. Epoch and bounds were
 * checked. */
int loci_flat_enter(struct loco_window *win, int rank, const struct loci_flat *op, bool *done);

/* Under the lock, before it is given back: do what others ask for. */
void loci_flat_serve_slow(struct loco_window *win, int rank);
static inline bool loci_flat_is_asked(const struct loco_window *win, int rank)
{
    return loci_load64(loci_mem_word(&win->control[rank]) + LOCI_WINDOW_ASKED) != 0;
}
static inline void loci_flat_serve(struct loco_window *win, int rank)
{
    if (loci_flat_is_for(win) && loci_flat_is_asked(win, rank))
        loci_flat_serve_slow(win, rank);
}

#endif
