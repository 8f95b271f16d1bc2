/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_WINDOW_TREE_H
#define LOCI_WINDOW_TREE_H

/* A member's attached regions as a search tree in network memory. Its owner alone writes it
 * (window_tree.c); others find a region in it by one-sided reads (window_search.c).
 *
 *   head, in the control block   root, key of the directory
 *   directory                    keys of the chunks: of nodes, of entries
 *   chunks                       an array of nodes, or of entries; each chunk has twice as many as
 *                                the one before
 *   node                         stamp; level and count; items in order: (lowest base, reference).
 *                                On level 0 an item is a region, and refers to its entry. Above, it
 *                                is a node of the level below, with all bases from this item's to
 *                                the next one's; the first item there has no lower bound.
 *   entry                        stamp; key of the region's memory
 *
 * A reference is a stamp and an index. Memory of nodes and entries stays what it is as long as the
 * window lives; chunks never move. Who writes what, and when:
 *
 *   entry   A reference to it exists from its region's attach to its detach. Attach writes the key,
 *           then the stamp, then the reference; detach clears the stamp before anything else. So
 *           while the stamp is that of a reference, the key is that of the reference.
 *   node    Is written once, before a reference to it exists, and no more while its stamp is that
 *           of the reference, but for the references to nodes on lower levels, each one word. A
 *           node that changes in another way is replaced by a copy, and the one reference to it is
 *           stored anew, in its parent or at the root. The old node stays as it is until it is used
 *           again, which is after LOCI_TREE_KEPT other changes at least, unless there is no other;
 *           then its stamp changes first.
 *
 * So what a reader finds below a root that it has read was all true at some time since then, if the
 * stamps of the nodes are still the same when it has read them: a node was in the tree when the
 * reference to it was read, or when its parent was replaced, which was later than that by which the
 * parent was reached. A region that is attached all the time is found; one that is not found was
 * not attached at some time of the search. And the owner never has to be waited for, wherever it
 * stops: a change is there with one store of one word, or not at all.
 *
 * The lowest base of an item (but the first) is always that of a region that is attached: when that
 * goes, the item is given the next one's before. So the region that contains an address is in the
 * leaf that the address leads to.
 *
 * Words may come in two parts where a network tears them, so a reference may be read with the index
 * of one object and the stamp of another. No two references have the same stamp, so it is that of
 * none. */

#include "move/rma.h"

/* In simulation small, so that few regions make a tree and nodes are soon used again. */
#ifdef LOCO_SIM
#define LOCI_TREE_ROOM 4
#define LOCI_TREE_KEPT 1
#define LOCI_TREE_FIRST_NODES 8
#define LOCI_TREE_FIRST_ENTRIES 2
#else
#define LOCI_TREE_ROOM 31           /* items: a node has 512 bytes */
#define LOCI_TREE_KEPT 64           /* nodes of a table that changes often; window_tree.c */
#define LOCI_TREE_FIRST_NODES 8     /* of the first chunk */
#define LOCI_TREE_FIRST_ENTRIES 16
#endif
#define LOCI_TREE_CHUNKS 20         /* up to a million times as many */
#define LOCI_TREE_DEPTH 16          /* levels; nodes are at least a quarter full, on the average */

/* At LOCI_WINDOW_REGIONS of the control block. */
struct loci_tree_head {
    uint64_t root;                  /* a reference; 0: nothing was ever attached */
    struct loci_memkey directory;   /* before the root is not 0 */
};

enum loci_tree_kind { LOCI_TREE_NODES, LOCI_TREE_ENTRIES, LOCI_TREE_KINDS };

struct loci_tree_directory {
    struct loci_memkey chunk[LOCI_TREE_KINDS][LOCI_TREE_CHUNKS];
};

struct loci_tree_item {
    uint64_t base;
    uint64_t ref;
};

struct loci_tree_node {
    uint64_t stamp;
    uint32_t level, count;
    struct loci_tree_item item[LOCI_TREE_ROOM];
};

struct loci_tree_entry {
    uint64_t stamp;                 /* 0: there is no reference */
    struct loci_memkey key;
    uint64_t unused[2];
};
_Static_assert(sizeof(struct loci_tree_entry) == LOCI_CACHE_LINE, "entries share cache lines");

/* A reference; none is 0. Stamps are numbers of the tree, which come again after 2^40 uses. */
#define LOCI_TREE_INDEX_BITS 24

static inline uint64_t loci_tree_ref(uint64_t stamp, uint32_t index)
{
    return stamp << LOCI_TREE_INDEX_BITS | index;
}

static inline uint32_t loci_tree_index(uint64_t ref)
{
    return (uint32_t)(ref & ((1u << LOCI_TREE_INDEX_BITS) - 1));
}

static inline bool loci_tree_is(uint64_t ref, uint64_t stamp)
{
    return loci_tree_ref(stamp, loci_tree_index(ref)) == ref;
}

static inline uint32_t loci_tree_first(enum loci_tree_kind kind)
{
    return kind == LOCI_TREE_NODES ? LOCI_TREE_FIRST_NODES : LOCI_TREE_FIRST_ENTRIES;
}

static inline size_t loci_tree_size(enum loci_tree_kind kind)
{
    return kind == LOCI_TREE_NODES ? sizeof(struct loci_tree_node) : sizeof(struct loci_tree_entry);
}

/* Where the object of that index is: which chunk, and its offset there. */
static inline int loci_tree_chunk(enum loci_tree_kind kind, uint32_t index, uint64_t *offset)
{
    uint32_t first = loci_tree_first(kind);
    int chunk = 31 - __builtin_clz(index / first + 1);

    *offset = (index - first * ((1u << chunk) - 1)) * (uint64_t)loci_tree_size(kind);
    return chunk;
}

/* The last item whose base is not beyond the address; -1. */
static inline int loci_tree_at(const struct loci_tree_node *node, uint64_t address)
{
    int low = 0, high = (int)node->count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (node->item[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* ---- the owner's; one thread at a time ---- */

/* Nodes, or entries. */
struct loci_tree_store {
    struct loci_mem chunk[LOCI_TREE_CHUNKS];
    unsigned char *own[LOCI_TREE_CHUNKS];   /* the same, which nobody else writes */
    int chunks;
    uint32_t room, fresh;           /* in all chunks; the first that was never used */
    uint32_t *next;                 /* [room]: in the list of free ones, the oldest first */
    uint32_t oldest, newest, free;
};

struct loci_tree {
    struct loco_runtime *rt;
    struct loci_tree_head *head;
    uint64_t root;                  /* what `head` says */
    struct loci_mem directory;
    struct loci_tree_store store[LOCI_TREE_KINDS];
    int height;                     /* levels; 0: nothing was ever attached */
    uint64_t stamp, changes;        /* the last one; how many */
};

void loci_tree_open(struct loci_tree *tree, struct loco_runtime *rt, unsigned char *head);
/* Nobody looks at it any more. Gives the memory of all regions back. */
void loci_tree_close(struct loci_tree *tree);

/* Whether some region has bytes in common with `len` at `base`, or begins at `base`. */
bool loci_tree_overlaps(const struct loci_tree *tree, uint64_t base, uint64_t len);
/* The region that contains the address. */
bool loci_tree_find(const struct loci_tree *tree, uint64_t address, struct loci_memkey *key);
bool loci_tree_has(const struct loci_tree *tree, uint64_t base, struct loci_memkey *key);

/* Room for one region more: LOCO_OK, LOCO_ERR_NO_MEMORY. Then to insert it, which cannot fail, nor
 * can removing it. */
int loci_tree_reserve(struct loci_tree *tree);
void loci_tree_insert(struct loci_tree *tree, const struct loci_memkey *key);
void loci_tree_remove(struct loci_tree *tree, uint64_t base);

#endif
