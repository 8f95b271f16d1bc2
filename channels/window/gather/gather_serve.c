/* SPDX-License-Identifier: BSD-3-Clause */

/* The target's side of gathering: life of what a window has for it, and applying what others have
 * handed over. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "gather.h"
#include "window/acc/window_acc.h"
#include "window/window_tree.h"

size_t loci_gather_room(int members)
{
    return LOCI_GATHER_ROWS + (size_t)LOCI_CACHE_LINE * (size_t)members;
}

/* ---- life ---- */

static void free_gather(struct loci_gather *g)
{
    free(g->out);
    free(g->open);
    free(g->ring);
    free(g->work);
    free(g);
}

static struct loci_gather *new_gather(struct loco_window *win)
{
    struct loci_gather *g = calloc(1, sizeof *g);
    size_t n = (size_t)win->group.size;

    if (g == NULL)
        return NULL;
    g->win = win;
    g->part.serve = loci_gather_serve;
    g->out = calloc(n, sizeof(struct loci_outbox *));
    g->open = calloc(n, sizeof *g->open);
    g->ring = calloc(n, sizeof *g->ring);
    if (g->out != NULL && g->open != NULL && g->ring != NULL)
        return g;
    free_gather(g);
    return NULL;
}

void loci_gather_prepare(struct loco_window *win)
{
    unsigned char *at = loci_mem_ptr(&win->own_control) + win->gather_at;
    struct loci_memkey key;

    win->gather = new_gather(win);
    if (win->gather == NULL)
        return;
    if (loci_inbox_prepare(win->rt, &win->gather->part, &key) != LOCO_OK) {
        free_gather(win->gather);
        win->gather = NULL;
        return;
    }
    loci_copy_in(at + LOCI_GATHER_INBOX, &key, sizeof key);
    loci_store64(at + LOCI_GATHER_BIT, win->gather->part.bit);
}

void loci_gather_open(struct loco_window *win)
{
    if (loci_gathers_far(win)) {
        if (win->one_thread && win->group.size > 1)
            win->gather = new_gather(win);
        win->gathers = win->gather != NULL;
        return;
    }
    if (win->gather == NULL || !win->mapped_by_all)
        return;
    win->gathers = win->one_thread && win->group.size > 1;
    loci_inbox_add(win->rt, &win->gather->part);
    win->gather->added = true;
}

static void forget_ring(struct loci_gather *g, int origin)
{
    if (g->ring[origin].key.kind != LOCI_MEM_NONE)
        loci_mem_drop(g->win->rt, &g->ring[origin]);
    g->ring[origin].key.kind = LOCI_MEM_NONE;
}

void loci_gather_close(struct loco_window *win)
{
    struct loci_gather *g = win->gather;

    if (g == NULL)
        return;
    if (g->added)
        loci_inbox_remove(win->rt, &g->part);
    for (int i = 0; i < win->group.size; i++) {
        loci_outbox_free(win, i);
        forget_ring(g, i);
    }
    free_gather(g);
    win->gather = NULL;
    win->gathers = false;
    win->gathering = 0;
}

/* ---- this member's memory ---- */

/* Of DYNAMIC what is attached; it may be several regions that adjoin. Under regions_lock, so that a
 * region which was found stays. */
static int locate_attached(struct loco_window *win, uint64_t address, size_t len)
{
    struct loci_memkey *key = &win->gather->attached;

    while (len > 0) {
        uint64_t here;

        if (address - key->base >= key->len && !loci_tree_find(win->tree, address, key)) {
            key->len = 0;
            return LOCO_ERR_RANGE;
        }
        here = key->len - (address - key->base);
        here = here < len ? here : len;
        address += here;
        len -= here;
    }
    return LOCO_OK;
}

static int locate_own(const struct loci_gather_way *way, uint64_t offset, size_t len, uint64_t *at)
{
    const struct loci_memkey *own = &way->win->own.key;

    if (way->win->kind == LOCO_WINDOW_DYNAMIC) {
        *at = offset;
        return locate_attached(way->win, offset, len);
    }
    if (own->kind == LOCI_MEM_NONE || len > own->len || offset > own->len - len)
        return LOCO_ERR_RANGE;
    *at = own->base + offset;
    return LOCO_OK;
}

static int move_own(const struct loci_gather_way *way, enum loci_op_kind kind,
                    const struct loci_piece *pieces, int n, unsigned char *packed)
{
    struct loco_runtime *rt = way->win->rt;

    if (rt->ops->touch != NULL)
        return rt->ops->touch(rt->fabric, kind == LOCI_WRITE, pieces, n, packed);
    for (int i = 0; i < n; i++) {
        unsigned char *at = (unsigned char *)(uintptr_t)pieces[i].at;

        if (kind == LOCI_WRITE)
            loci_copy_in(at, packed, pieces[i].len);
        else
            loci_copy_out(packed, at, pieces[i].len);
        packed += pieces[i].len;
    }
    return LOCO_OK;
}

static bool reach_own(const struct loci_gather_way *way, const struct loci_piece *pieces, int n)
{
    struct loco_runtime *rt = way->win->rt;

    return rt->ops->reach == NULL || rt->ops->reach(rt->fabric, pieces, n);
}

static void reached_own(const struct loci_gather_way *way)
{
    struct loco_runtime *rt = way->win->rt;

    if (rt->ops->reached != NULL)
        rt->ops->reached(rt->fabric);
}

/* ---- what others have handed over ---- */

static uint64_t waiting_in(const unsigned char *row)
{
    uint64_t applied = loci_load64(row + LOCI_GATHER_APPLIED);

    return loci_load64(row + LOCI_GATHER_HANDED) - applied;
}

static bool is_known(const struct loci_gather *g, const unsigned char *row, int origin,
                     struct loci_memkey *key)
{
    const struct loci_mem *mem = &g->ring[origin];

    loci_copy_once(key, row + LOCI_GATHER_RING, sizeof *key);
    return mem->key.kind != LOCI_MEM_NONE && memcmp(key, &mem->key, sizeof *key) == 0;
}

/* Whether what is in mem->key can be of one ring alone: the origin takes another one, and changes
 * the key in the row, only after what was handed over before is applied. */
static bool is_whole(const unsigned char *row, uint64_t handed)
{
    return (int64_t)(handed - loci_load64(row + LOCI_GATHER_APPLIED)) > 0;
}

/* Before the lock is taken: the ring of that origin, which has handed something over, is mapped.
 * Meanwhile the origin may apply all, and take another ring. Its key may then be half here, and
 * must not be used: extent and file would not be of each other. Nor is the origin waited for, if it
 * has to be asked for its descriptor: whoever adds a part to the inbox, or takes one out, would
 * wait, too. */
static bool find_ring(struct loci_gather *g, const unsigned char *row, int origin)
{
    struct loci_mem *mem = &g->ring[origin];
    uint64_t handed = loci_load64(row + LOCI_GATHER_HANDED);
    struct loci_memkey key;

    if (is_known(g, row, origin, &key))
        return mem->key.kind != LOCI_MEM_NONE && loci_mem_map_soon(g->win->rt, mem) != NULL;
    /* Pairs with the release of `applied`, behind which the origin writes the key. */
    atomic_thread_fence(memory_order_acquire);
    if (!is_whole(row, handed))
        return false;
    forget_ring(g, origin);
    if (key.kind != LOCI_MEM_POOL || key.len < LOCI_GATHER_BATCH || key.len % LOCI_GATHER_BATCH != 0
        || key.base % 8 != 0
        || loci_mem_import(g->win->rt, g->win->group.peer[origin], &key, mem) != LOCO_OK) {
        mem->key.kind = LOCI_MEM_NONE;
        return false;
    }
    return loci_mem_map_soon(g->win->rt, mem) != NULL;
}

/* Under the lock: where that ring is, as long as the row says that something was handed over, since
 * an origin takes another one only when all is applied. NULL: that has changed meanwhile. */
static const unsigned char *ring_of(struct loci_gather *g, const unsigned char *row, int origin)
{
    struct loci_memkey key;

    return is_known(g, row, origin, &key) ? loci_mem_ptr(&g->ring[origin]) : NULL;
}

int loci_gather_apply_row(const struct loci_gather_way *way, unsigned char *row,
                          const unsigned char *ring, uint64_t depth)
{
    uint64_t applied = loci_load64(row + LOCI_GATHER_APPLIED);
    uint64_t handed = loci_load64(row + LOCI_GATHER_HANDED);
    int status;

    /* No more are handed over before some are applied; a row that says so is not to be trusted. */
    if (handed - applied > depth)
        return LOCO_ERR_PROTOCOL;
    loci_gather_apply_begin(way);
    while (applied != handed)
        loci_gather_apply(way, ring + ++applied % depth * LOCI_GATHER_BATCH);
    status = loci_gather_apply_end(way);
    if (status != LOCO_OK && loci_load64(row + LOCI_GATHER_STATUS) == 0)
        loci_store64(row + LOCI_GATHER_STATUS, (uint64_t)(int64_t)status);
    /* Release: all that was done. */
    loci_store64(row + LOCI_GATHER_APPLIED, applied);
    return LOCO_OK;
}

/* Whether some of it is left. */
static bool apply_all(struct loci_gather *g, unsigned char *room, void *chunk)
{
    struct loco_window *win = g->win;
    const struct loci_gather_way way = {
        .win = win, .rank = win->group.rank, .room = room, .chunk = chunk, .locate = locate_own,
        .move = move_own, .reach = reach_own, .reached = reached_own,
    };
    bool left = false;

    g->attached.len = 0;
    for (int i = 0; i < win->group.size; i++) {
        unsigned char *row = loci_gather_row(loci_mem_ptr(&win->own_control), win, i);
        const unsigned char *ring;

        if (i == win->group.rank || waiting_in(row) == 0)
            continue;
        ring = ring_of(g, row, i);
        /* A row that makes no sense is its origin's affair. */
        if (ring != NULL)
            (void)loci_gather_apply_row(&way, row, ring, loci_gather_depth(&g->ring[i]));
        left = left || ring == NULL;
    }
    return left;
}

/* Whether there is something to do. */
static bool look_at_rows(struct loci_gather *g)
{
    struct loco_window *win = g->win;
    bool found = false;

    for (int i = 0; i < win->group.size; i++) {
        unsigned char *row = loci_gather_row(loci_mem_ptr(&win->own_control), win, i);

        if (i != win->group.rank && waiting_in(row) != 0 && find_ring(g, row, i))
            found = true;
    }
    return found;
}

/* Without memory to work in, origins do it. */
static bool serve_with(struct loci_gather *g)
{
    struct loco_runtime *rt = g->win->rt;
    size_t len = loci_gather_chunk_size();
    unsigned char *work = loci_inbox_room(rt, len + LOCI_GATHER_ROOM), *room;

    if (work == NULL)
        return false;
    room = rt->ops->touch == NULL ? work + len
           : rt->ops->touch_room(rt->fabric, LOCI_GATHER_ROOM);
    return room != NULL && apply_all(g, room, work);
}

/* Whoever comes later may find it free, unless its holder has died: then nobody does. */
static bool may_become_free(struct loco_window *win, const struct loci_rw *lock)
{
    int holder;

    return loci_rw_holder(win->rt, lock, &holder) == LOCO_OK
           && (holder < 0 || loci_peer_alive(win->rt, win->group.peer[holder]));
}

/* By any thread that waits, so nothing is waited for here: neither for the lock, whose holder may
 * be an origin that does it itself, nor for that of the regions, which this very thread may
 * have. */
bool loci_gather_serve(struct loci_inbox_part *part)
{
    struct loci_gather *g
        = (struct loci_gather *)(void *)((char *)part - offsetof(struct loci_gather, part));
    struct loco_window *win = g->win;
    struct loci_rw lock = loci_window_acc_lock(win, win->group.rank);
    unsigned char *word = loci_mem_word(lock.mem) + lock.offset;
    bool dynamic = win->kind == LOCO_WINDOW_DYNAMIC, left;

    if (!look_at_rows(g))
        return false;
    if (dynamic && pthread_mutex_trylock(&win->regions_lock) != 0)
        return true;
    if (!loci_rw_take_mapped(win->rt, word, &lock, LOCI_RW_EXCLUSIVE)) {
        if (dynamic)
            pthread_mutex_unlock(&win->regions_lock);
        return may_become_free(win, &lock);
    }
    left = serve_with(g);
    loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
    if (dynamic)
        pthread_mutex_unlock(&win->regions_lock);
    return left;
}
