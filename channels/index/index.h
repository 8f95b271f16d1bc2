/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_INDEX_H
#define LOCI_INDEX_H

/* Indexes over the objects of a store: what their parts share.
 *
 *   node.c           the bytes of a node
 *   index_cache.c    copies of what leads to leaves
 *   index_find.c     the way to the node of a key
 *   index_in_place.c looking a key up in a leaf as it lies in mapped memory
 *   index_ahead.c    leaves that are read together, before they are asked for one by one
 *   index_write.c    writing a changed node: splitting it
 *   index_remove.c   taking out nodes that are empty
 *   index_apart.c    values in objects of their own
 *   index_calls.c    the calls on one key                          index_many.c     on many
 *   tree.c           trees: opening them, and these calls          tree_cursor.c   in order
 *   hash/            hash tables, which have a directory in place of nodes above the leaves
 *
 * A node is an object. Nodes of a level are a chain, from the one with the least keys to the right,
 * and what each has lies between its fences. The root is the only node of its level, has no fences,
 * and its object is the same for ever.
 *
 * In every committed state of the store:
 *   a. the fences of a level's nodes cut all keys into parts: there is one node for each key
 *   b. the nodes above the leaves name all nodes below them, by their low fences
 *   c. the low fence of a node, and its level, never change while its object is a node
 *   d. a value has an object of its own if and only if an entry names it; and it says which tree
 *      and key it is of
 *   e. a node that is bare (a leaf without entries, or a node with a bare one alone below it) is
 *      the first one below its parent; and a root above level 1 names two nodes at least.
 * Whatever breaks one of these in passing (a split: a, b; an entry with such a value: d; an entry
 * that is a leaf's last one: e) is one transaction.
 *
 * So whoever reads a node of this tree, of level 0, whose fences hold a key, has read the leaf of
 * that key, whatever made him read that object. All that leads him there is a hint: copies of upper
 * nodes that are old, links of nodes that have changed since. If it is not there, by (c) its low
 * fence was at or below the key when it was split off from a node that is: its keys are to the
 * right. Else, the object being no node any more, or of other keys, he begins at the root again and
 * believes in no copy. Likewise, by (d), who reads such a value's object does not ask the leaf
 * again. */

#include <stddef.h>

#include <loco/tree.h>

#include "index/node.h"
#include "store/tx.h"

struct loci_cached {
    loco_object_t object;               /* 0: none */
    size_t room;                        /* bytes for the copy: */
    void *value;                        /* of a value; or of a node, behind what makes that */
    const struct loci_node *node;       /* faster to search: index_cache.c */
    const uint64_t *head;               /* of each key */
    uint64_t prefix;                    /* bytes that all its keys but the first one share, as a */
    uint64_t high;                      /* number; heads below this one are below the high fence */
    uint16_t skip, n, level;            /* how many bytes these are; entries */
};
_Static_assert(sizeof(struct loci_cached) == 64, "a line");

/* Where a key's leaf was, and its block there: of keys that are asked for often. A hint, as all. */
struct loci_leaf_way {
    uint32_t tag;                       /* of a hash of the key; 0: none */
    uint32_t block;
    loco_object_t leaf;
};

/* Copies of leaves, or of values in objects of their own, that were read together;
 * index_ahead.c. */
struct loci_ahead {
    bool fresh;                         /* since the call at hand began, or the cursor was put */
    unsigned n, most;
    size_t room;                        /* bytes of one that fit */
    unsigned char *images;
    struct loci_far far[LOCI_TX_TOGETHER];
};

#define LOCI_INDEX_KEY_MAX 1024u        /* bytes of a key, */
#define LOCI_INDEX_VALUE_MAX 64000u     /* and of a value */

struct loci_index {
    const struct loci_index_kind *kind;
    struct loco_tx *tx;
    loco_object_t root;
    uint64_t id;                        /* of the tree: in all of its nodes and values */
    size_t leaf_bytes, inner_bytes, inline_bytes;
    bool own;                           /* the call at hand is a transaction by itself */
    loco_object_t parent;               /* that the last hint came from; 0: none */
    struct loci_cached *cached;         /* in sets, at their place in `cache`; index_cache.c */
    void *cache;
    struct loci_leaf_way *way;          /* by a hash of the key; NULL: none so far, or of no use */
    size_t sets;
    unsigned turn;
    /* The node that is found or written; a right half, or the leaf that is taken out; upper nodes
     * on the way, or a left neighbour. */
    union loci_node_buffer *node, *right, *upper;
    struct loci_ahead *ahead, *values;  /* leaves, and values; NULL: none so far */
    unsigned char fence[LOCI_NODE_KEY_MAX];
    unsigned char in_place[LOCI_NODE_INLINE_MAX];       /* a value that was found so */
    unsigned char *apart;               /* a value with its head; NULL: none so far */
    struct loci_apart_note *note;       /* index_apart.c; NULL: none so far */
    loco_tree_stats_t stats;
};

/* How nodes and values are read. */
enum loci_index_how {
    LOCI_INDEX_PEEK,            /* as committed, without the transaction */
    LOCI_INDEX_READ,            /* as the transaction has it; it is in its read set */
    LOCI_INDEX_ALONE            /* the same, of an own transaction that is begun anew for it */
};

/* What kinds of index do each in their way. */
struct loci_index_kind {
    const char *name;                   /* for the log */
    /* The key that its entry has; NULL: itself. It is valid until the next call. */
    loco_bytes_t (*place)(struct loci_index *ix, loco_bytes_t key);
    /* The leaf of such a key, to `to`, and its object. */
    int (*find)(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                union loci_node_buffer *to, loco_object_t *leaf);
    /* Within a transaction: ix->node is what that leaf is to be. Entry number `changed` of it is
     * new or larger; or it has lost an entry. */
    int (*write)(struct loci_index *ix, loco_object_t leaf, unsigned changed);
    int (*write_less)(struct loci_index *ix, loco_object_t leaf);
    /* The leaf that a key has by what is known here; 0: nothing is. NULL: nothing ever is. */
    loco_object_t (*guess)(struct loci_index *ix, loco_bytes_t key);
    /* The same of a key that its entry has, if copies say it at once. */
    loco_object_t (*lead)(struct loci_index *ix, loco_bytes_t key);
};

int loci_index_open(struct loci_index *ix, const struct loci_index_kind *kind, struct loco_tx *tx,
                    loco_object_t root, size_t leaf_bytes, size_t inner_bytes, size_t cached);
void loci_index_close(struct loci_index *ix);
/* The size of a node that an option says. */
int loci_index_check_bytes(const struct loco_tx *tx, const char *call, const char *name,
                           size_t bytes);

/* Its calls are its store's. */
static inline struct loci_calls *loci_index_calls(const struct loci_index *ix)
{
    return ix->tx->s->ep->calls;
}

/* The runtime's number of it (LOCO_STATS), too, if that is wanted. */
static inline void loci_index_count(struct loci_index *ix, enum loci_stats_index which, uint64_t n)
{
    uint64_t *number = (uint64_t *)(void *)&ix->stats + which;

    *number += n;
    loci_stat(ix->tx->s->rt, LOCI_STAT_INDEX + (int)which, n);
}
_Static_assert(offsetof(loco_tree_stats_t, hot) == 8 * LOCI_STATS_HOT
               && sizeof(loco_tree_stats_t) == 8 * LOCI_STATS_INDEXES,
               "numbers of the same order");

/* Bytes that a node of that level may have before it is split. */
static inline size_t loci_index_limit(const struct loci_index *ix, unsigned level)
{
    return level > 0 ? ix->inner_bytes : ix->leaf_bytes;
}

/* What has been read cannot be together: LOCO_ERR_CONFLICT, if the transaction is one that may find
 * that out late; else the tree is broken. */
int loci_index_broken(struct loci_index *ix);

/* An own transaction forgets what it has read. */
int loci_index_begin_anew(struct loci_index *ix);

/* An object's value: all that is read comes this way. `expected`: bytes that it has, probably.
 * LOCO_ERR_NOT_FOUND: there is none, or it is longer than `room`. */
int loci_index_read(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                    size_t expected, void *to, size_t room, size_t *len);
/* A node of this tree; LOCO_ERR_NOT_FOUND: it is none. */
int loci_index_read_node(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                         size_t expected, union loci_node_buffer *to);

/* ---- index_cache.c ---- */

int loci_index_cache_open(struct loci_index *ix, size_t nodes);
void loci_index_cache_close(struct loci_index *ix);
const struct loci_cached *loci_index_cached(struct loci_index *ix, loco_object_t object);
/* The way down from a node that has the key between its fences, or 0. */
loco_object_t loci_cached_child(const struct loci_cached *c, loco_bytes_t key);
/* The leaf that copies lead to, and ix->parent. 0: look for it step by step. */
loco_object_t loci_index_lead(struct loci_index *ix, loco_bytes_t key);
/* The same, and in mapped memory the cells of it and of up to `more` leaves behind it come nearer;
 * *more: of those. */
loco_object_t loci_index_lead_on(struct loci_index *ix, loco_bytes_t key, unsigned *more);
void loci_index_keep(struct loci_index *ix, loco_object_t object, const struct loci_node *node);
/* The same of any value; NULL: there is no copy. */
void *loci_index_cached_value(struct loci_index *ix, loco_object_t object);
void loci_index_keep_value(struct loci_index *ix, loco_object_t object, const void *value,
                           size_t len);
void loci_index_forget(struct loci_index *ix, loco_object_t object);

/* In mapped memory, the way that was gone to a key, or to another one with that place, of which
 * *tag is not the one it returns. NULL: none is kept. */
struct loci_leaf_way *loci_index_way(struct loci_index *ix, loco_bytes_t key, uint32_t *tag);

/* ---- index_find.c ---- */

/* The node of that level that has the key, to `to`, and its object. */
int loci_index_find(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                    unsigned level, union loci_node_buffer *to, loco_object_t *object);

/* What is looked for: the leaf that has a key's place, the one that has what is next below it, or
 * the last of all. */
enum loci_toward { LOCI_AT, LOCI_BELOW, LOCI_LAST };
struct loci_place {
    enum loci_toward toward;
    loco_bytes_t key;                   /* not the empty one, of which nothing is below */
};

/* Where that place lies: as loci_node_side(). */
int loci_place_side(const struct loci_node *node, const struct loci_place *place);
/* The leaf of a place, to `to`. */
int loci_index_find_place(struct loci_index *ix, enum loci_index_how how,
                          const struct loci_place *place, union loci_node_buffer *to);
/* Leaves from that place on, to the left where `place` is below a key, else to the right: as their
 * parent has them, so that they are hints. Those from key `*end` on are left out; NULL: none. Up to
 * `most`; the number of them. */
unsigned loci_index_name(struct loci_index *ix, const struct loci_place *place,
                         const loco_bytes_t *end, loco_object_t *leaves, unsigned most);

/* ---- index_in_place.c ---- */

/* The committed value of a key, until the next call; or LOCO_ERR_NOT_FOUND: it has none.
 * LOCO_ERR_AGAIN: it has to be looked for in copies. */
int loci_index_get_in_place(struct loci_index *ix, loco_bytes_t key, loco_bytes_t *value);
/* The same of a leaf of that tree, if `len` bytes are one, aligned to words, which others may be
 * writing to. `value` has room for LOCI_NODE_INLINE_MAX. */
int loci_leaf_look(uint64_t tree, const void *bytes, size_t len, loco_bytes_t key,
                   unsigned char *value, size_t *value_len);

/* ---- index_ahead.c ---- */

void loci_index_ahead_close(struct loci_index *ix);
/* Whether reading ahead spares anything. */
static inline bool loci_index_is_far(const struct loci_index *ix)
{
    return ix->tx->hint != NULL;
}
/* Read leaves together: a wait for all that were seen before, two where some were not. What cannot
 * be read so is left to be read alone. */
int loci_index_ahead(struct loci_index *ix, enum loci_index_how how, const loco_object_t *leaves,
                     unsigned n);
/* The same of values. */
int loci_index_ahead_values(struct loci_index *ix, enum loci_index_how how,
                            const loco_object_t *objects, unsigned n);
/* Values of entries of a leaf, from number `i` on in steps of 1 or -1, that have objects of their
 * own and were not read by the transaction; those of keys from `*end` on are left out, NULL: none.
 * Behind `n` that are in `objects`, up to `most` with these; the number of all. */
unsigned loci_index_name_values(struct loci_index *ix, enum loci_index_how how,
                                const struct loci_node *leaf, int i, int step,
                                const loco_bytes_t *end, loco_object_t *objects, unsigned n,
                                unsigned most);
/* Those of that leaf, and of the leaves that were read ahead behind it, in the same direction,
 * unless the first one is there already. */
int loci_index_ahead_values_of(struct loci_index *ix, enum loci_index_how how,
                               const struct loci_node *leaf, unsigned i, int step,
                               const loco_bytes_t *end, unsigned most);
/* The copy of an object that is as if read now, or NULL. */
struct loci_far *loci_index_ahead_find(struct loci_index *ix, enum loci_index_how how,
                                       loco_object_t object);
/* A call begins: what was read before that is old. */
static inline void loci_index_ahead_end(struct loci_index *ix)
{
    if (ix->ahead != NULL)
        ix->ahead->fresh = false;
    if (ix->values != NULL)
        ix->values->fresh = false;
}
/* A call that goes on where one before ended: what is fresh stays so. */
int loci_index_enter_again(struct loci_index *ix);

/* ---- index_write.c: all of it within a transaction ---- */

/* A new object at any host that has room. */
int loci_index_new(struct loci_index *ix, const void *value, size_t len, loco_object_t *object);
/* ix->node is what `object` is to be; entry number `changed` of it is new or larger. */
int loci_index_write(struct loci_index *ix, loco_object_t object, unsigned changed);
/* A node that is not too large, as it is. */
int loci_index_write_node(struct loci_index *ix, loco_object_t object,
                          const struct loci_node *node);

/* ---- index_remove.c: within a transaction, too ---- */

/* ix->node, a leaf that has lost an entry, is what `object` is to be. */
int loci_index_write_less(struct loci_index *ix, loco_object_t object);

/* ---- index_apart.c ---- */

struct loci_apart {
    uint64_t tree;
    uint32_t magic, key_len;            /* then the key, and the value */
};
#define LOCI_APART_MAX (sizeof(struct loci_apart) + LOCI_NODE_KEY_MAX + LOCI_INDEX_VALUE_MAX)
_Static_assert(LOCI_APART_MAX <= LOCO_STORE_VALUE_MAX, "it is an object");

#ifdef LOCO_SIM
extern size_t loci_apart_notes;
#endif
/* The object that a key's value had, by a hash of the key. */
struct loci_apart_note {
    uint64_t hash;
    loco_object_t object;
};
/* 0: nothing is known. */
loco_object_t loci_apart_recall(struct loci_index *ix, loco_bytes_t key);
void loci_apart_note(struct loci_index *ix, loco_bytes_t key, loco_object_t object);

/* The value of `key` in that object. It is valid until the next call. LOCO_ERR_NOT_FOUND: it is of
 * that key no more. */
int loci_apart_read(struct loci_index *ix, enum loci_index_how how, loco_object_t object,
                    loco_bytes_t key, loco_bytes_t *value);
int loci_apart_new(struct loci_index *ix, loco_bytes_t key, loco_bytes_t value,
                   loco_object_t *object);
int loci_apart_write(struct loci_index *ix, loco_object_t object, loco_bytes_t key,
                     loco_bytes_t value);

/* ---- index_calls.c ---- */

/* At the begin of a call: ix->own. LOCO_ERR_CONFLICT: its transaction has failed. */
int loci_index_enter(struct loci_index *ix);
int loci_index_check_key(const struct loci_index *ix, loco_bytes_t key);

int loci_index_get(struct loci_index *ix, loco_bytes_t key, void *value, size_t room, size_t *len);

enum loci_change_kind {
    LOCI_PUT, LOCI_INSERT, LOCI_UPDATE, LOCI_DELETE, LOCI_COMPARE_SET, LOCI_ADD
};

struct loci_change {
    enum loci_change_kind change;
    loco_bytes_t key, value;            /* the new one */
    loco_bytes_t placed;                /* the key that its entry has */
    loco_bytes_t expected;
    uint64_t by, before, number;        /* of LOCI_ADD: and the number that the value is */
};

/* A value, until the next call. */
int loci_index_get_in(struct loci_index *ix, enum loci_index_how how, loco_bytes_t key,
                      loco_bytes_t *value);
/* A transaction of a call's own: begun as `flags` say, again and again until it is committed. */
typedef int loci_index_body_fn(struct loci_index *ix, void *arg);
int loci_index_run(struct loci_index *ix, unsigned flags, loci_index_body_fn *body, void *arg);
/* Whether its sizes are allowed. */
int loci_index_check_change(const struct loci_index *ix, const struct loci_change *c);
/* Within the transaction at hand. */
int loci_index_change_in(struct loci_index *ix, struct loci_change *c);
/* All of a call: in the transaction that is under way, or again and again in one of its own. */
int loci_index_change(struct loci_index *ix, struct loci_change *c);

/* LOCO_ERR_MISMATCH, and the log says that the root is of something else. */
int loci_index_is_none(const struct loci_index *ix, const char *call, const char *what);

/* ---- index_many.c ---- */

struct loci_many {
    size_t n;
    const loco_bytes_t *keys, *values;  /* NULL: they are looked up, */
    unsigned char *to;                  /* `room` bytes of each */
    size_t room, *lens;
    int *statuses;
};

int loci_index_get_many(struct loci_index *ix, struct loci_many *m);
int loci_index_put_many(struct loci_index *ix, struct loci_many *m);

#endif
