/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_HASH_H
#define LOCI_HASH_H

/* A hash table: the leaves of an index (index.h), and a directory in place of nodes above them.
 *
 *   hash_function.c  the hash of a key
 *   directory.c      the bytes of the directory
 *   hash.c           opening tables, and the calls on keys
 *   hash_find.c      the way to the leaf of a key
 *   hash_repair.c    telling the directory what was found on that way
 *   hash_write.c     writing a changed leaf: splitting it, taking it out
 *   hash_scan.c      all entries
 *
 * The key of an entry is the hash of its key, 8 bytes, the highest first, and then that key. So the
 * leaves are one chain in the order of hashes, and where keys meet in all 64 bits, in that of keys:
 * a fence may lie between two of those, and nothing is special about them but that the directory,
 * which knows of bits of hashes alone, cannot tell their leaves apart; whoever looks for one walks
 * along them.
 *
 * In every committed state of the store (a, c and d are those of index.h, which see):
 *   a. the fences of the leaves cut all keys into parts: there is one leaf for each key, and the
 *      first one is the same object for ever
 *   c. the low fence of a leaf never changes while its object is a leaf
 *   d. a value has an object of its own if and only if an entry names it
 *   e. the root and the segments of the directory have a segment for each hash; what they say of
 *      leaves need not be so.
 * A change of a leaf with what it breaks in passing (a split: a; taking out a leaf: a) is one
 * transaction, and so is one of the directory (dividing a segment: e). They have nothing to do with
 * each other. So a leaf is split by two objects, whoever stops where; the directory gets to know of
 * it by whoever has to walk right, in a transaction by itself, of one segment. Nobody waits for
 * that, and if he dies, the next one does it.
 *
 * So whoever has read a leaf of this table whose fences hold a key has read the key's leaf: the
 * directory, copies of it, links that were read before are hints. If it is not there, by (c) the
 * leaf's low fence was at or below the key when it was split off from a leaf that is: it is to the
 * right. Else (no leaf any more, or one of other keys) he takes the directory as it is now; then
 * what it says of hashes further and further below, for a leaf that was taken out has left its keys
 * to its left neighbour; and at last the first leaf, which is there. */

#include <loco/hash.h>

#include "directory.h"
#include "index/index.h"

#define LOCI_HASH_FINDS 4u              /* that are kept for the directory */

/* A leaf of which the directory did not know all, on the way to that hash. */
struct loci_hash_found {
    uint64_t hash;
    struct loci_range range;
    loco_object_t leaf;
};

struct loco_hash {
    struct loci_index index;            /* the first, see loci_hash_of_index() */
    union loci_root_buffer *root;       /* a copy */
    union loci_segment_buffer *segment, *upper;         /* while the directory is changed */
    unsigned depth;                     /* of the segment that the last hint came from */
    struct loci_hash_found found[LOCI_HASH_FINDS];
    unsigned nfound;
    unsigned rest;                      /* so many are let go, for the store was full */
    struct loci_sequel sequel;          /* after transactions of its handle */
    struct loci_hash_scan *scan;        /* for the next scan; NULL: one is under way, or none was */
    unsigned char key[LOCI_NODE_KEY_MAX];               /* of the call at hand, with its hash */
    uint64_t taken_out;                 /* leaves, for tests */
};

static inline struct loco_hash *loci_hash_of_index(struct loci_index *ix)
{
    return (struct loco_hash *)(void *)ix;
}

/* ---- hash_find.c ---- */

/* The root again, or a segment, which is kept. LOCO_ERR_NOT_FOUND: it is none. */
int loci_hash_read_root(struct loco_hash *h);
int loci_hash_read_segment(struct loco_hash *h, loco_object_t object, struct loci_segment **out);

/* The leaf of a key with its hash, or of any first bytes of one, to `to`. */
int loci_hash_find(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                   union loci_node_buffer *to, loco_object_t *leaf);
/* The leaf that copies of the directory name for a hash; 0: there are none. */
loco_object_t loci_hash_guess(struct loco_hash *h, uint64_t hash);
/* Leaves behind that of a hash, as copies of the directory name them, or the directory where there
 * is no copy: behind `n` that are in `leaves`, which are left out, up to `most`; the number of
 * all. */
unsigned loci_hash_name(struct loco_hash *h, uint64_t hash, loco_object_t *leaves, unsigned n,
                        unsigned most);

/* ---- hash_scan.c ---- */

/* Where a scan is. */
struct loci_hash_scan {
    unsigned at;                        /* the next entry of its leaf */
    unsigned ahead;                     /* leaves that are read together next */
    unsigned char key[LOCI_NODE_KEY_MAX];       /* where it goes on after that */
    size_t key_len;
    unsigned char *apart;               /* the value that was given out; index.h */
    union loci_node_buffer leaf;        /* a copy; last, as node.h says */
};
void loci_hash_scan_free(struct loci_hash_scan *scan);

/* ---- hash_repair.c ---- */

/* Where no transaction is under way: the directory gets to know what was found. */
void loci_hash_repair(struct loco_hash *h);

/* The same at the end of a call that may have made no transaction. */
static inline int loci_hash_done(struct loco_hash *h, int status)
{
    if (h->nfound > 0 && loci_tx_check_open(h->index.tx) == LOCO_ERR_STATE
        && loci_tx_enter(h->index.tx) == LOCO_OK) {
        loci_hash_repair(h);
        (void)loci_tx_leave(h->index.tx, LOCO_OK);
    }
    return status;
}

/* ---- hash_write.c: within a transaction ---- */

int loci_hash_write(struct loci_index *ix, loco_object_t leaf, unsigned changed);
int loci_hash_write_less(struct loci_index *ix, loco_object_t leaf);

#endif
