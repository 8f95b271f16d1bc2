/* SPDX-License-Identifier: BSD-3-Clause */

/* Finding a region that another member has attached, in the tree of window_tree.h, by reads of its
 * memory alone; and what this process remembers of those that it has found.
 *
 * A region that was found is known by its reference. It is attached still if its entry has that
 * stamp, one read of a word; so what else changes there costs nothing. Where the owner's memory is
 * mapped the tree is near enough, and only the last one is remembered; elsewhere all that were
 * used, up to KNOWN_MOST, in a search tree of the C library.
 *
 * A search reads one node of each level and an entry. If that contains the address and has the
 * stamp of the reference that led there, however it was found, that is the region. Only to say that
 * there is none the nodes must have been what they seemed: their stamps are looked at again, and
 * if one has changed, the search begins anew. For that the owner has made LOCI_TREE_KEPT changes
 * during the search. */

#include "config.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"
#include "window.h"
#include "window_tree.h"

#define KNOWN_MOST 65536

struct known {
    uint64_t ref;
    struct loci_memkey key;
};

/* Another member's regions. regions_lock. */
struct loci_regions_view {
    struct loci_mem directory;      /* kind NONE: not asked for yet */
    struct loci_mem chunk[LOCI_TREE_KINDS][LOCI_TREE_CHUNKS];      /* the same */
    struct known *last;             /* found; NULL: none */
    struct known near;              /* is that where the tree is mapped, */
    const unsigned char *stamp;     /* with its entry's; else NULL */
    void *known;                    /* else in here, of tsearch(); no two overlap */
    size_t count;
};

/* ---- what is known ---- */

static int compare(const void *a, const void *b)
{
    const struct loci_memkey *x = &((const struct known *)a)->key;
    const struct loci_memkey *y = &((const struct known *)b)->key;

    if (x->base + (x->len - 1) < y->base)
        return -1;
    return y->base + (y->len - 1) < x->base ? 1 : 0;
}

static void forget(struct loci_regions_view *view, struct known *k)
{
    if (view->last == k)
        view->last = NULL;
    if (k == &view->near)
        return;
    tdelete(k, &view->known, compare);
    view->count--;
    free(k);
}

static void forget_all(struct loci_regions_view *view)
{
    while (view->known != NULL)
        forget(view, *(struct known **)view->known);
}

static struct known *overlapping(struct loci_regions_view *view, uint64_t base, uint64_t len)
{
    const struct known probe = { .key = { .base = base, .len = len } };
    struct known **at = tfind(&probe, &view->known, compare);

    return at != NULL ? *at : NULL;
}

static bool contains(const struct loci_memkey *key, uint64_t address)
{
    return address - key->base < key->len;
}

static struct known *recall(struct loci_regions_view *view, uint64_t address)
{
    if (view->last != NULL && contains(&view->last->key, address))
        return view->last;
    return view->known != NULL ? overlapping(view, address, 1) : NULL;
}

/* Of an entry, where it is mapped. */
static const unsigned char *stamp_of(const struct loci_regions_view *view, uint64_t ref)
{
    uint64_t offset;
    int chunk = loci_tree_chunk(LOCI_TREE_ENTRIES, loci_tree_index(ref), &offset);
    const unsigned char *entries = chunk < LOCI_TREE_CHUNKS
                                   ? loci_mem_ptr(&view->chunk[LOCI_TREE_ENTRIES][chunk]) : NULL;

    return entries != NULL ? entries + offset + offsetof(struct loci_tree_entry, stamp) : NULL;
}

/* What overlaps it is not attached any more. Without memory it is not remembered. */
static void remember(struct loci_regions_view *view, const struct known *found)
{
    struct known *k;

    view->last = NULL;
    if (loci_mem_ptr(&view->directory) != NULL) {
        view->near = *found;
        view->last = &view->near;
        view->stamp = stamp_of(view, found->ref);
        return;
    }
    while ((k = overlapping(view, found->key.base, found->key.len)) != NULL)
        forget(view, k);
    if (view->count >= KNOWN_MOST)
        forget_all(view);
    k = malloc(sizeof *k);
    if (k == NULL)
        return;
    *k = *found;
    if (tsearch(k, &view->known, compare) == NULL) {
        free(k);
        return;
    }
    view->count++;
    view->last = k;
}

/* ---- the member's memory ---- */

struct search {
    struct loco_window *win;
    int rank;
    struct loci_regions_view *view;
    uint64_t address;
    bool found;
    struct known region;            /* that was found */
    int depth;
    uint64_t path[LOCI_TREE_DEPTH]; /* nodes that were read in this try */
};

static int import(struct search *s, const struct loci_memkey *key, struct loci_mem *mem)
{
    int status = loci_mem_import(s->win->rt, s->win->group.peer[s->rank], key, mem);

    if (status != LOCO_OK)
        mem->key.kind = LOCI_MEM_NONE;
    else
        loci_mem_map(s->win->rt, mem);
    return status;
}

static int find_directory(struct search *s)
{
    struct loci_memkey key;
    int status;

    if (s->view->directory.key.kind != LOCI_MEM_NONE)
        return LOCO_OK;
    status = loci_read(s->win->rt, &s->win->control[s->rank],
                       LOCI_WINDOW_REGIONS + offsetof(struct loci_tree_head, directory), &key,
                       sizeof key, NULL);
    if (status == LOCO_OK && key.len < sizeof(struct loci_tree_directory))
        status = LOCO_ERR_PROTOCOL;
    return status == LOCO_OK ? import(s, &key, &s->view->directory) : status;
}

static int path_is_intact(struct search *s);

/* The chunk that a reference leads to: 1, 0: not told, for the reference comes from a node that has
 * changed meanwhile. What is told of a chunk is kept, so the reference has to be a true one: its
 * chunk's key is there before. */
static int find_chunk(struct search *s, enum loci_tree_kind kind, int number)
{
    struct loci_mem *chunk = &s->view->chunk[kind][number];
    struct loci_memkey key;
    int status;

    if (chunk->key.kind != LOCI_MEM_NONE)
        return 1;
    status = path_is_intact(s);
    if (status <= 0)
        return status;
    status = find_directory(s);
    if (status == LOCO_OK)
        status = loci_read(s->win->rt, &s->view->directory,
                           offsetof(struct loci_tree_directory, chunk[kind][number]), &key,
                           sizeof key, NULL);
    if (status == LOCO_OK
        && key.len != ((uint64_t)loci_tree_first(kind) << number) * loci_tree_size(kind))
        status = LOCO_ERR_PROTOCOL;
    if (status == LOCO_OK)
        status = import(s, &key, chunk);
    return status == LOCO_OK ? 1 : status;
}

/* Where an object is: 1, 0 as above. */
static int locate(struct search *s, enum loci_tree_kind kind, uint64_t ref, struct loci_mem **mem,
                  uint64_t *offset)
{
    int number = loci_tree_chunk(kind, loci_tree_index(ref), offset);

    if (number >= LOCI_TREE_CHUNKS)
        return 0;
    *mem = &s->view->chunk[kind][number];
    return find_chunk(s, kind, number);
}

/* Whether that object still has the stamp of its reference. Reads before this one come before. */
static int is_intact(struct search *s, enum loci_tree_kind kind, uint64_t ref)
{
    struct loci_mem *mem;
    uint64_t offset, stamp = 0;
    int status = locate(s, kind, ref, &mem, &offset);

    if (status <= 0)
        return status;
    /* Pairs with the fence of who writes there: something of what is new, then the new stamp. */
    atomic_thread_fence(memory_order_acquire);
    status = loci_read64(s->win->rt, mem, offset, &stamp, NULL);
    return status != LOCO_OK ? status : loci_tree_is(ref, stamp);
}

static int path_is_intact(struct search *s)
{
    int status = 1;

    for (int i = 0; status == 1 && i < s->depth; i++)
        status = is_intact(s, LOCI_TREE_NODES, s->path[i]);
    return status;
}

/* ---- a search ---- */

/* The node as it is: 1; 0: it cannot be what the reference was to. */
static int read_node(struct search *s, uint64_t ref, struct loci_tree_node *node)
{
    uint32_t above = node->level;
    struct loci_mem *mem;
    uint64_t offset;
    int status = locate(s, LOCI_TREE_NODES, ref, &mem, &offset);

    if (status <= 0)
        return status;
    status = loci_read(s->win->rt, mem, offset, node, sizeof *node, NULL);
    if (status != LOCO_OK)
        return status;
    if (node->count > LOCI_TREE_ROOM || (s->depth > 0 && node->level + 1 != above))
        return 0;
    s->path[s->depth++] = ref;
    return 1;
}

/* The region of that entry, if it contains the address, to s->region: LOCO_OK, or
 * LOCO_ERR_AGAIN. */
static int try_entry(struct search *s, uint64_t ref)
{
    struct loci_memkey *key = &s->region.key;
    struct loci_mem *mem;
    uint64_t offset;
    int status = locate(s, LOCI_TREE_ENTRIES, ref, &mem, &offset);

    if (status <= 0)
        return status < 0 ? status : LOCO_ERR_AGAIN;
    s->region.ref = ref;
    status = loci_read(s->win->rt, mem, offset + offsetof(struct loci_tree_entry, key), key,
                       sizeof *key, NULL);
    if (status == LOCO_OK && key->len > 0 && key->base <= UINT64_MAX - key->len
        && contains(key, s->address)) {
        status = is_intact(s, LOCI_TREE_ENTRIES, ref);
        s->found = status == 1;
    }
    return status < 0 ? status : LOCO_OK;
}

/* Down from the root to the entry of the region that begins last before the address, if there is
 * one: LOCO_OK, or LOCO_ERR_AGAIN. */
static int descend(struct search *s, uint64_t ref)
{
    struct loci_tree_node node = { .level = 0 };
    int status, at;

    while (s->depth < LOCI_TREE_DEPTH) {
        status = read_node(s, ref, &node);
        if (status <= 0)
            return status < 0 ? status : LOCO_ERR_AGAIN;
        at = loci_tree_at(&node, s->address);
        if (at < 0 && (node.level == 0 || node.count == 0))
            return LOCO_OK;
        ref = node.item[at < 0 ? 0 : at].ref;
        if (node.level == 0)
            return try_entry(s, ref);
    }
    return LOCO_ERR_AGAIN;
}

/* One try: 1 done, 0 again. */
static int try_search(void *arg)
{
    struct search *s = arg;
    uint64_t root = 0;
    int status;

    s->found = false;
    s->depth = 0;
    status = loci_read64(s->win->rt, &s->win->control[s->rank],
                         LOCI_WINDOW_REGIONS + offsetof(struct loci_tree_head, root), &root, NULL);
    if (status != LOCO_OK || root == 0)
        return status != LOCO_OK ? status : 1;
    status = descend(s, root);
    if (status != LOCO_OK)
        return status == LOCO_ERR_AGAIN ? 0 : status;
    return s->found ? 1 : path_is_intact(s);
}

static int search(struct search *s)
{
    const struct loci_reason why = {
        .what = "the attached regions of a window's member",
        .peer = s->win->group.peer[s->rank], .timeout_ns = LOCO_FOREVER,
    };
    int status = try_search(s);

    return status == 0 ? loci_wait(s->win->rt, &why, try_search, s)
                       : status < 0 ? status : LOCO_OK;
}

/* Of this process itself, which does not believe what others may have written into its tree: an
 * address there would be one of its own. */
static int find_own(const struct loco_window *win, uint64_t address, struct loci_memkey *key)
{
    return loci_tree_find(win->tree, address, key) ? LOCO_OK : LOCO_ERR_RANGE;
}

/* The region that contains the address: LOCO_ERR_RANGE if there is none. The last one was attached
 * at some time since the caller has asked before. */
static int find(struct search *s, bool again, struct loci_memkey *key)
{
    struct known *k = recall(s->view, s->address);
    int status = k == NULL ? 0
                 : again && k == s->view->last ? 1 : is_intact(s, LOCI_TREE_ENTRIES, k->ref);

    if (status < 0)
        return status;
    if (status == 1) {
        s->view->last = k;
        *key = k->key;
        return LOCO_OK;
    }
    if (k != NULL)
        forget(s->view, k);
    status = search(s);
    if (status != LOCO_OK || !s->found)
        return status != LOCO_OK ? status : LOCO_ERR_RANGE;
    *key = s->region.key;
    remember(s->view, &s->region);
    return LOCO_OK;
}

int loci_regions_find(struct loco_window *win, int rank, uint64_t address, size_t *len, bool again,
                      struct loci_mem *mem)
{
    struct search s = { .win = win, .rank = rank, .address = address };
    struct loci_memkey key;
    int status;

    pthread_mutex_lock(&win->regions_lock);
    if (rank != win->group.rank && win->views[rank] == NULL)
        win->views[rank] = calloc(1, sizeof *win->views[rank]);
    s.view = win->views[rank];
    if (rank == win->group.rank)
        status = find_own(win, address, &key);
    else
        status = s.view == NULL ? LOCO_ERR_NO_MEMORY : find(&s, again, &key);
    pthread_mutex_unlock(&win->regions_lock);
    if (status != LOCO_OK)
        return status;
    status = loci_mem_import(win->rt, win->group.peer[rank], &key, mem);
    if (status != LOCO_OK)
        return status;
    loci_mem_set_domain(mem, win->domain);
    if (*len > key.len - (address - key.base))
        *len = (size_t)(key.len - (address - key.base));
    return LOCO_OK;
}

bool loci_regions_is_last(const struct loco_window *win, int rank, uint64_t address, size_t len)
{
    const struct loci_regions_view *view = win->views[rank];
    const struct known *k = view != NULL ? view->last : NULL;

    return k != NULL && k == &view->near && view->stamp != NULL && contains(&k->key, address)
           && len <= k->key.len - (address - k->key.base)
           && loci_tree_is(k->ref, loci_load64(view->stamp));
}

static void free_view(struct loco_runtime *rt, struct loci_regions_view *view)
{
    forget_all(view);
    loci_mem_drop(rt, &view->directory);
    for (int kind = 0; kind < LOCI_TREE_KINDS; kind++)
        for (int i = 0; i < LOCI_TREE_CHUNKS; i++)
            loci_mem_drop(rt, &view->chunk[kind][i]);
    free(view);
}

void loci_regions_forget(struct loco_window *win)
{
    for (int i = 0; win->views != NULL && i < win->group.size; i++) {
        if (win->views[i] != NULL)
            free_view(win->rt, win->views[i]);
    }
    free(win->views);
}
