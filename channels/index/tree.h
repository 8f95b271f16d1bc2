/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TREE_H
#define LOCI_TREE_H

/* Between tree.c and tree_cursor.c. */

#include <loco/tree.h>

#include "index.h"

struct loco_tree_cursor {
    struct loci_index *ix;
    union loci_node_buffer *leaf;       /* a copy */
    unsigned at;                        /* its next entry: the cursor is before it */
    unsigned char *apart;               /* the value that was given out; index.h */
    unsigned char again[LOCI_NODE_INLINE_MAX];  /* the same, if it is short and was looked up */
    bool loaded, asked;                 /* asked: for the leaf to the right of it; */
    unsigned near;                      /* so many cells, from that one's on, have come near */
    /* Where it is, once the copy is used up, or if none is loaded: before a key, which is in the
     * leaf at hand or, so it seems, in `right`; or behind all. */
    bool last;
    unsigned char key[LOCI_NODE_KEY_MAX];
    size_t key_len;
    loco_object_t right;                /* 0: not known */
    /* Leaves that are read together next, and of a scan what ends it: entries that are left, 0:
     * all; a key. */
    unsigned ahead;
    uint64_t left;
    const loco_bytes_t *end;
};

struct loco_tree {
    struct loci_index index;
    struct loco_tree_cursor scan;       /* of loco_tree_scan; */
    bool scanning;                      /* one is under way: another needs its own */
};

int loci_tree_cursor_init(struct loco_tree_cursor *c, struct loci_index *ix);
void loci_tree_cursor_fini(struct loco_tree_cursor *c);

#endif
