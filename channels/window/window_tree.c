/* SPDX-License-Identifier: BSD-3-Clause */

/* The tree of attached regions, as its owner changes it: a B+ tree whose nodes are replaced by
 * copies. What others may see of it, and when, is in window_tree.h.
 *
 * A change is made from the leaf upwards. Each node that it concerns is replaced by none, one or
 * two new ones, to which nothing refers yet, until one is reached whose parent just has to refer to
 * its copy, or the root: that store makes all of it seen at once. Two neighbours are joined when
 * both fit into half a node, so a node that was split or joined is left alone for half a node of
 * changes.
 *
 * The owner reads none of this memory, where a member that has lost its way may write: it has all
 * nodes and entries once more in memory of its own, and what is shown to the others is written from
 * there. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "window_tree.h"

/* How a base was reached. */
struct step {
    uint32_t index;
    struct loci_tree_node *node;
    int at;                         /* the item that was followed; of a leaf -1: all are beyond */
};

struct path {
    int depth;                      /* the leaf is step[depth - 1] */
    struct step step[LOCI_TREE_DEPTH];
};

/* Items of a node that is to be written, with room for one too many. */
struct items {
    uint32_t level;
    int n;
    struct loci_tree_item item[LOCI_TREE_ROOM + 1];
};

/* Nodes that a change has replaced. They are free when it is seen. */
struct replaced {
    int n;
    uint32_t index[3 * LOCI_TREE_DEPTH];
};

/* ---- nodes and entries ---- */

/* As the others see it: for writing. */
static void *shown(const struct loci_tree *tree, enum loci_tree_kind kind, uint32_t index)
{
    uint64_t offset;
    int chunk = loci_tree_chunk(kind, index, &offset);

    return loci_mem_ptr(&tree->store[kind].chunk[chunk]) + offset;
}

/* The same of this process alone. */
static void *object(const struct loci_tree *tree, enum loci_tree_kind kind, uint32_t index)
{
    uint64_t offset;
    int chunk = loci_tree_chunk(kind, index, &offset);

    return tree->store[kind].own[chunk] + offset;
}

static struct loci_tree_entry *entry_of(const struct loci_tree *tree, uint64_t ref)
{
    return object(tree, LOCI_TREE_ENTRIES, loci_tree_index(ref));
}

static uint32_t available(const struct loci_tree_store *s)
{
    return s->free + s->room - s->fresh;
}

/* One more chunk. Its key is there before a reference to anything in it. */
static int grow(struct loci_tree *tree, enum loci_tree_kind kind)
{
    struct loci_tree_store *s = &tree->store[kind];
    uint32_t more = loci_tree_first(kind) << s->chunks;
    struct loci_mem *chunk = &s->chunk[s->chunks];
    unsigned char *own;
    uint32_t *next;
    int status;

    if (s->chunks == LOCI_TREE_CHUNKS)
        return LOCO_ERR_NO_MEMORY;
    next = realloc(s->next, (s->room + more) * sizeof *next);
    if (next == NULL)
        return LOCO_ERR_NO_MEMORY;
    s->next = next;
    own = calloc(more, loci_tree_size(kind));
    status = own == NULL ? LOCO_ERR_NO_MEMORY
             : loci_alloc(tree->rt, more * loci_tree_size(kind), 0, chunk);
    if (status != LOCO_OK) {
        free(own);
        return status;
    }
    s->own[s->chunks] = own;
    loci_copy_in(loci_mem_ptr(&tree->directory)
                 + offsetof(struct loci_tree_directory, chunk[kind][s->chunks]),
                 &chunk->key, sizeof chunk->key);
    s->room += more;
    s->chunks++;
    return LOCO_OK;
}

/* How many free nodes are kept as they are, for those who still read them. */
static uint32_t kept(const struct loci_tree *tree)
{
    return tree->changes < 1000 ? LOCI_TREE_KEPT / 16 : LOCI_TREE_KEPT;
}

/* There is one: loci_tree_reserve() has seen to it. */
static uint32_t take(struct loci_tree *tree, enum loci_tree_kind kind)
{
    struct loci_tree_store *s = &tree->store[kind];
    uint32_t keep = kind == LOCI_TREE_NODES ? kept(tree) : 0, index;

    if (s->free <= keep && s->fresh < s->room)
        return s->fresh++;
    index = s->oldest;
    s->oldest = s->next[index];
    s->free--;
    return index;
}

static void give(struct loci_tree *tree, enum loci_tree_kind kind, uint32_t index)
{
    struct loci_tree_store *s = &tree->store[kind];

    if (s->free == 0)
        s->oldest = index;
    else
        s->next[s->newest] = index;
    s->newest = index;
    s->free++;
}

/* No two references have the same stamp. */
static uint64_t next_stamp(struct loci_tree *tree)
{
    do
        tree->stamp++;
    while (loci_tree_ref(tree->stamp, 0) == 0);
    return tree->stamp;
}

/* A new node of n items, to which nothing refers yet: its reference. */
static uint64_t write_node(struct loci_tree *tree, uint32_t level,
                           const struct loci_tree_item *item, int n)
{
    uint32_t index = take(tree, LOCI_TREE_NODES);
    struct loci_tree_node *node = shown(tree, LOCI_TREE_NODES, index);
    struct loci_tree_node *own = object(tree, LOCI_TREE_NODES, index);
    uint64_t stamp = next_stamp(tree);

    own->stamp = stamp;
    own->level = level;
    own->count = (uint32_t)n;
    memcpy(own->item, item, (size_t)n * sizeof *item);
    loci_store64(&node->stamp, stamp);
    /* Who has read something of what follows, sees that stamp afterwards. */
    atomic_thread_fence(memory_order_release);
    loci_copy_in_raced(&node->level, &own->level, offsetof(struct loci_tree_node, item)
                       - offsetof(struct loci_tree_node, level) + (size_t)n * sizeof *item);
    return loci_tree_ref(stamp, index);
}

/* ---- the way to a base ---- */

static void descend(const struct loci_tree *tree, uint64_t base, struct path *path)
{
    uint64_t ref = tree->root;

    for (path->depth = 0; path->depth < tree->height;) {
        struct step *s = &path->step[path->depth++];

        s->index = loci_tree_index(ref);
        s->node = object(tree, LOCI_TREE_NODES, s->index);
        s->at = loci_tree_at(s->node, base);
        if (path->depth == tree->height)
            break;
        s->at = s->at < 0 ? 0 : s->at;
        ref = s->node->item[s->at].ref;
    }
}

/* The lowest base beyond that of the path, or the highest number. */
static uint64_t next_base(const struct path *path)
{
    for (int d = path->depth - 1; d >= 0; d--)
        if (path->step[d].at + 1 < (int)path->step[d].node->count)
            return path->step[d].node->item[path->step[d].at + 1].base;
    return UINT64_MAX;
}

static const struct loci_tree_item *leaf_item(const struct path *path)
{
    const struct step *leaf = &path->step[path->depth - 1];

    return path->depth == 0 || leaf->at < 0 ? NULL : &leaf->node->item[leaf->at];
}

bool loci_tree_overlaps(const struct loci_tree *tree, uint64_t base, uint64_t len)
{
    const struct loci_tree_item *before;
    struct path path;

    descend(tree, base, &path);
    before = leaf_item(&path);
    if (before != NULL && base - before->base < entry_of(tree, before->ref)->key.len)
        return true;
    return next_base(&path) < base + len;
}

bool loci_tree_find(const struct loci_tree *tree, uint64_t address, struct loci_memkey *key)
{
    const struct loci_tree_item *item;
    struct path path;

    descend(tree, address, &path);
    item = leaf_item(&path);
    if (item == NULL || address - item->base >= entry_of(tree, item->ref)->key.len)
        return false;
    *key = entry_of(tree, item->ref)->key;
    return true;
}

bool loci_tree_has(const struct loci_tree *tree, uint64_t base, struct loci_memkey *key)
{
    const struct loci_tree_item *item;
    struct path path;

    descend(tree, base, &path);
    item = leaf_item(&path);
    if (item == NULL || item->base != base)
        return false;
    *key = entry_of(tree, item->ref)->key;
    return true;
}

/* ---- changes ---- */

static void load_items(struct items *items, const struct loci_tree_node *node)
{
    items->level = node->level;
    items->n = (int)node->count;
    memcpy(items->item, node->item, node->count * sizeof node->item[0]);
}

static void put_item(struct items *items, int at, uint64_t base, uint64_t ref)
{
    memmove(&items->item[at + 1], &items->item[at],
            (size_t)(items->n - at) * sizeof items->item[0]);
    items->item[at] = (struct loci_tree_item){ base, ref };
    items->n++;
}

static void drop_item(struct items *items, int at)
{
    items->n--;
    memmove(&items->item[at], &items->item[at + 1],
            (size_t)(items->n - at) * sizeof items->item[0]);
}

static void set_root(struct loci_tree *tree, uint64_t ref)
{
    tree->root = ref;
    loci_store64(&tree->head->root, ref);
}

/* The one reference to the node at depth d of the path. All that was written is seen before. */
static void refer(struct loci_tree *tree, struct path *path, int d, uint64_t ref)
{
    const struct step *parent = &path->step[d - 1];
    struct loci_tree_node *node;

    if (d == 0) {
        set_root(tree, ref);
        return;
    }
    node = shown(tree, LOCI_TREE_NODES, parent->index);
    parent->node->item[parent->at].ref = ref;
    loci_store64(&node->item[parent->at].ref, ref);
}

/* Write these in place of the node there. */
static void rewrite(struct loci_tree *tree, struct path *path, int d, const struct items *items)
{
    uint64_t ref = write_node(tree, items->level, items->item, items->n);

    refer(tree, path, d, ref);
    path->step[d].index = loci_tree_index(ref);
    path->step[d].node = object(tree, LOCI_TREE_NODES, path->step[d].index);
}

static void replace(struct replaced *old, const struct path *path, int d)
{
    old->index[old->n++] = path->step[d].index;
}

/* After the change is seen. */
static void finish(struct loci_tree *tree, const struct replaced *old)
{
    for (int i = 0; i < old->n; i++)
        give(tree, LOCI_TREE_NODES, old->index[i]);
    tree->changes++;
}

/* Where too many items are cut: regions that come in order, as from many an allocator, leave full
 * nodes behind. */
static int cut(const struct items *items, int put)
{
    if (put == items->n - 1)
        return items->n - 1;
    return put == 0 ? 1 : items->n / 2;
}

/* Cut items in two and put both into those of the parent, at depth d of the path; d -1: a new root.
 * Outputs where the second one is. */
static int split(struct loci_tree *tree, const struct path *path, int d, struct items *items,
                 int put)
{
    int left = cut(items, put);
    uint64_t lower = write_node(tree, items->level, items->item, left);
    uint64_t upper = write_node(tree, items->level, &items->item[left], items->n - left);
    struct loci_tree_item first = { items->item[0].base, lower };
    uint64_t from = items->item[left].base;

    if (d < 0) {
        *items = (struct items){ .level = items->level + 1, .n = 1, .item = { first } };
        tree->height++;
    } else {
        load_items(items, path->step[d].node);
        items->item[path->step[d].at].ref = lower;
    }
    put = d < 0 ? 1 : path->step[d].at + 1;
    put_item(items, put, from, upper);
    return put;
}

static void put_in(struct loci_tree *tree, struct path *path, uint64_t base, uint64_t ref)
{
    struct replaced old = { 0 };
    struct items items;
    int d = path->depth - 1, put = path->step[d].at + 1;

    load_items(&items, path->step[d].node);
    put_item(&items, put, base, ref);
    replace(&old, path, d);
    while (items.n > LOCI_TREE_ROOM) {
        put = split(tree, path, d - 1, &items, put);
        if (d == 0)
            break;
        replace(&old, path, --d);
    }
    rewrite(tree, path, d, &items);
    finish(tree, &old);
}

/* The path's base goes. If it is the lowest of an item above, that is to be the next one that
 * remains. Until the base is gone, too, the region before leads to nothing that is there: it is
 * detached already, and no other contains an address between the two. */
static void raise_lowest(struct loci_tree *tree, struct path *path)
{
    int d = path->depth - 1;
    struct replaced old = { 0 };
    struct items items;
    uint64_t next;

    /* Nodes that have nothing else go, too. */
    while (d > 0 && path->step[d].node->count == 1)
        d--;
    if (path->step[d].at > 0 || path->step[d].node->count == 1)
        return;
    next = path->step[d].node->item[1].base;
    do
        d--;
    while (d >= 0 && path->step[d].at == 0);
    if (d < 0)
        return;
    load_items(&items, path->step[d].node);
    items.item[path->step[d].at].base = next;
    replace(&old, path, d);
    rewrite(tree, path, d, &items);
    finish(tree, &old);
}

/* b behind a, which are neighbours; the parent says from where on b is. */
static void append(struct items *a, const struct items *b, uint64_t from)
{
    memcpy(&a->item[a->n], b->item, (size_t)b->n * sizeof b->item[0]);
    a->item[a->n].base = from;
    a->n += b->n;
}

/* Join the items of depth d of the path with its neighbour, if both are few: the two are at `left`
 * of the parent, whose items then remain to be written. */
static bool join(struct loci_tree *tree, const struct path *path, int d, int left,
                 struct items *items, struct replaced *old)
{
    const struct step *parent = &path->step[d - 1];
    const struct loci_tree_item *item = &parent->node->item[left];
    struct items other;
    uint32_t index;
    uint64_t ref;

    if (left < 0 || left + 1 >= (int)parent->node->count)
        return false;
    index = loci_tree_index(item[left == parent->at ? 1 : 0].ref);
    load_items(&other, object(tree, LOCI_TREE_NODES, index));
    if (items->n + other.n > LOCI_TREE_ROOM / 2)
        return false;
    if (left == parent->at) {
        append(items, &other, item[1].base);
    } else {
        append(&other, items, item[1].base);
        *items = other;
    }
    ref = write_node(tree, items->level, items->item, items->n);
    old->index[old->n++] = index;
    load_items(items, parent->node);
    items->item[left].ref = ref;
    drop_item(items, left + 1);
    return true;
}

/* What remains of a root above the leaves is one item or none: the tree has a level less, or more
 * than one. */
static void lower(struct loci_tree *tree, struct items *items, struct replaced *old)
{
    uint64_t ref = items->item[0].ref;

    if (items->n == 0) {
        ref = write_node(tree, 0, NULL, 0);
        tree->height = 1;
    } else {
        tree->height--;
    }
    while (tree->height > 1) {
        const struct loci_tree_node *node = object(tree, LOCI_TREE_NODES, loci_tree_index(ref));

        if (node->count > 1)
            break;
        old->index[old->n++] = loci_tree_index(ref);
        ref = node->item[0].ref;
        tree->height--;
    }
    set_root(tree, ref);
}

static void take_out(struct loci_tree *tree, struct path *path)
{
    struct replaced old = { 0 };
    struct items items;
    int d = path->depth - 1;

    load_items(&items, path->step[d].node);
    drop_item(&items, path->step[d].at);
    replace(&old, path, d);
    while (d > 0) {
        const struct step *parent = &path->step[d - 1];

        if (items.n == 0) {
            load_items(&items, parent->node);
            drop_item(&items, parent->at);
        } else if (!join(tree, path, d, parent->at - 1, &items, &old)
                   && !join(tree, path, d, parent->at, &items, &old)) {
            break;
        }
        replace(&old, path, --d);
    }
    if (d == 0 && items.level > 0 && items.n <= 1)
        lower(tree, &items, &old);
    else
        rewrite(tree, path, d, &items);
    finish(tree, &old);
}

/* ---- what the window calls ---- */

/* The first chunks come with the first region, so that a window without regions costs little. */
static int make_directory(struct loci_tree *tree)
{
    int status = loci_alloc(tree->rt, sizeof(struct loci_tree_directory), 0, &tree->directory);

    if (status == LOCO_OK)
        loci_copy_in(&tree->head->directory, &tree->directory.key, sizeof tree->head->directory);
    return status;
}

/* To insert takes a node of each level, and one that splits the root; the one that is removed
 * then takes one of each level and one more, of a tree that may be higher by one. Each gives back
 * what it replaces. */
int loci_tree_reserve(struct loci_tree *tree)
{
    uint32_t nodes = 2 * (uint32_t)tree->height + 5;
    int status = LOCO_OK;

    if (tree->height + 1 >= LOCI_TREE_DEPTH)
        return LOCO_ERR_NO_MEMORY;
    if (nodes < kept(tree))
        nodes = kept(tree);
    if (tree->directory.key.kind == LOCI_MEM_NONE)
        status = make_directory(tree);
    if (status == LOCO_OK && available(&tree->store[LOCI_TREE_ENTRIES]) == 0)
        status = grow(tree, LOCI_TREE_ENTRIES);
    while (status == LOCO_OK && available(&tree->store[LOCI_TREE_NODES]) < nodes)
        status = grow(tree, LOCI_TREE_NODES);
    return status;
}

void loci_tree_insert(struct loci_tree *tree, const struct loci_memkey *key)
{
    uint32_t index = take(tree, LOCI_TREE_ENTRIES);
    struct loci_tree_entry *entry = shown(tree, LOCI_TREE_ENTRIES, index);
    struct loci_tree_entry *own = object(tree, LOCI_TREE_ENTRIES, index);
    struct loci_tree_item item = { .base = key->base };
    struct path path;

    /* Who has read something of the key sees afterwards that its place is not the old one's. */
    atomic_thread_fence(memory_order_release);
    loci_copy_in(&entry->key, key, sizeof *key);
    own->key = *key;
    own->stamp = next_stamp(tree);
    loci_store64(&entry->stamp, own->stamp);
    item.ref = loci_tree_ref(own->stamp, index);
    if (tree->height > 0) {
        descend(tree, item.base, &path);
        put_in(tree, &path, item.base, item.ref);
        return;
    }
    set_root(tree, write_node(tree, 0, &item, 1));
    tree->height = 1;
}

void loci_tree_remove(struct loci_tree *tree, uint64_t base)
{
    struct loci_tree_entry *entry;
    struct path path;
    uint64_t ref;

    descend(tree, base, &path);
    ref = leaf_item(&path)->ref;
    entry = shown(tree, LOCI_TREE_ENTRIES, loci_tree_index(ref));
    /* From here on nobody uses its key. */
    loci_store64(&entry->stamp, 0);
    raise_lowest(tree, &path);
    take_out(tree, &path);
    give(tree, LOCI_TREE_ENTRIES, loci_tree_index(ref));
}

/* ---- life ---- */

void loci_tree_open(struct loci_tree *tree, struct loco_runtime *rt, unsigned char *head)
{
    *tree = (struct loci_tree){ .rt = rt, .head = (struct loci_tree_head *)(void *)head };
}

static void remove_regions(struct loci_tree *tree, uint64_t ref, int level)
{
    const struct loci_tree_node *node = object(tree, LOCI_TREE_NODES, loci_tree_index(ref));

    for (uint32_t i = 0; i < node->count; i++) {
        struct loci_mem region = { .peer = LOCI_SELF };

        if (level > 0) {
            remove_regions(tree, node->item[i].ref, level - 1);
            continue;
        }
        region.key = entry_of(tree, node->item[i].ref)->key;
        loci_user_remove(tree->rt, &region);
    }
}

void loci_tree_close(struct loci_tree *tree)
{
    if (tree->height > 0)
        remove_regions(tree, tree->root, tree->height - 1);
    for (int kind = 0; kind < LOCI_TREE_KINDS; kind++) {
        for (int i = 0; i < tree->store[kind].chunks; i++) {
            loci_free(tree->rt, &tree->store[kind].chunk[i]);
            free(tree->store[kind].own[i]);
        }
        free(tree->store[kind].next);
    }
    loci_free(tree->rt, &tree->directory);
}
