/* SPDX-License-Identifier: BSD-3-Clause */

/* Attached regions of a dynamic window.
 *
 * Each member's control block has the head of a table: a version, the number of regions, and the
 * key of the pool memory where their keys are, in order of address. Only the owner writes it:
 *
 *   version   odd while the table changes; two more with each attach and detach
 *   count, key of the table, the table: stable while the version is even
 *
 * Others copy the table when they need it, between two loads of the same even version, and look
 * at the version again before and after each access: so a key is never used once its region's
 * detach has returned, and an access that ran into one is told LOCO_ERR_RANGE. (An access while
 * its region is being detached is the program's error, and may still reach the memory.)
 *
 * An owner that stops in the middle of a change leaves an odd version: who waits for it gets
 * LOCO_ERR_PEER_DEAD. A table that has become too small is replaced by one of twice the size; who
 * still reads the old one finds that the version has changed. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "wait.h"
#include "window.h"

#define FIRST_ROOM 16       /* regions */

/* At LOCI_WINDOW_REGIONS of the control block. */
struct head {
    uint64_t version;
    uint64_t count;
    struct loci_memkey table;
};
_Static_assert(sizeof(struct head) <= LOCI_WINDOW_ROWS - LOCI_WINDOW_REGIONS, "head too large");

/* ---- life ---- */

int loci_regions_open(struct loco_window *win)
{
    size_t n = (size_t)win->group.size;

    win->regions = calloc(n, sizeof win->regions[0]);
    if (win->regions == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        win->regions[i].version = 1;
    pthread_mutex_init(&win->regions_lock, NULL);
    return LOCO_OK;
}

void loci_regions_close(struct loco_window *win)
{
    if (win->regions == NULL)
        return;
    for (int i = 0; i < win->attached_count; i++)
        loci_user_remove(win->rt, &win->attached[i]);
    free(win->attached);
    free(win->nothing);
    loci_free(win->rt, &win->table);
    for (int i = 0; i < win->group.size; i++)
        free(win->regions[i].keys);
    free(win->regions);
    pthread_mutex_destroy(&win->regions_lock);
}

/* ---- the owner ---- */

static struct head *own_head(struct loco_window *win)
{
    return (struct head *)(loci_mem_ptr(&win->own_control) + LOCI_WINDOW_REGIONS);
}

/* Publish what `attached` says. */
static void publish(struct loco_window *win)
{
    struct head *head = own_head(win);
    unsigned char *table = loci_mem_ptr(&win->table);
    uint64_t version = loci_load64(&head->version);

    loci_store64(&head->version, version + 1);
    /* The odd version is there before anything changes: pairs with the reader's second load. */
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < win->attached_count; i++)
        loci_copy_in(table + (size_t)i * sizeof(struct loci_memkey), &win->attached[i].key,
                     sizeof(struct loci_memkey));
    loci_copy_in(&head->table, &win->table.key, sizeof head->table);
    loci_store64(&head->count, (uint64_t)win->attached_count);
    loci_store64(&head->version, version + 2);
}

/* Room for one more: both tables double. The old one is given back once the new one is known. */
static int grow(struct loco_window *win, struct loci_mem *old)
{
    int room = win->attached_room == 0 ? FIRST_ROOM : 2 * win->attached_room;
    struct loci_mem table, *attached;
    int status;

    old->key.kind = LOCI_MEM_NONE;
    if (win->attached_count < win->attached_room)
        return LOCO_OK;
    attached = realloc(win->attached, (size_t)room * sizeof *attached);
    if (attached == NULL)
        return LOCO_ERR_NO_MEMORY;
    win->attached = attached;
    status = loci_alloc(win->rt, (size_t)room * sizeof(struct loci_memkey), 0, &table);
    if (status != LOCO_OK)
        return status;
    *old = win->table;
    win->table = table;
    win->attached_room = room;
    return LOCO_OK;
}

/* The first of the attached regions that ends beyond `address`, or their number. */
static int first_beyond(const struct loco_window *win, uint64_t address)
{
    int low = 0, high = win->attached_count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct loci_memkey *key = &win->attached[middle].key;

        if (key->base + key->len > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int attach(struct loco_window *win, void *base, size_t len)
{
    uint64_t address = (uintptr_t)base;
    struct loci_mem region, old;
    int at = first_beyond(win, address), status;

    if (at < win->attached_count) {
        const struct loci_memkey *next = &win->attached[at].key;

        if (next->base < address + len)
            return LOCO_ERR_ATTACH;
    }
    status = loci_user_add(win->rt, base, len, &region);
    if (status != LOCO_OK)
        return status;
    status = grow(win, &old);
    if (status != LOCO_OK) {
        loci_user_remove(win->rt, &region);
        return status;
    }
    memmove(&win->attached[at + 1], &win->attached[at],
            (size_t)(win->attached_count - at) * sizeof region);
    win->attached[at] = region;
    win->attached_count++;
    publish(win);
    loci_free(win->rt, &old);
    return LOCO_OK;
}

/* A region of no bytes contains nothing of another, wherever it is: as good as none. */
static int attach_nothing(struct loco_window *win, const void *base)
{
    size_t count = (size_t)win->nothing_count + 1;
    const void **nothing = realloc(win->nothing, count * sizeof *nothing);

    if (nothing == NULL)
        return LOCO_ERR_NO_MEMORY;
    nothing[count - 1] = base;
    win->nothing = nothing;
    win->nothing_count++;
    return LOCO_OK;
}

static int detach_nothing(struct loco_window *win, const void *base)
{
    for (int i = 0; i < win->nothing_count; i++)
        if (win->nothing[i] == base) {
            win->nothing[i] = win->nothing[--win->nothing_count];
            return LOCO_OK;
        }
    return LOCO_ERR_ATTACH;
}

int loco_window_attach(loco_window_t *win, void *base, size_t len)
{
    int status;

    if (win->kind != LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_STATE;
    if (base == NULL || len > SIZE_MAX / 2 || (uintptr_t)base > UINTPTR_MAX - len)
        return LOCO_ERR_ARG;
    pthread_mutex_lock(&win->regions_lock);
    status = len > 0 ? attach(win, base, len) : attach_nothing(win, base);
    pthread_mutex_unlock(&win->regions_lock);
    return status;
}

static int detach(struct loco_window *win, const void *base)
{
    struct loci_mem gone;
    int at = 0;

    while (at < win->attached_count && win->attached[at].key.base != (uintptr_t)base)
        at++;
    if (at == win->attached_count)
        return detach_nothing(win, base);
    gone = win->attached[at];
    memmove(&win->attached[at], &win->attached[at + 1],
            (size_t)(win->attached_count - at - 1) * sizeof gone);
    win->attached_count--;
    publish(win);
    loci_user_remove(win->rt, &gone);
    return LOCO_OK;
}

int loco_window_detach(loco_window_t *win, const void *base)
{
    int status;

    if (win->kind != LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_STATE;
    pthread_mutex_lock(&win->regions_lock);
    status = detach(win, base);
    pthread_mutex_unlock(&win->regions_lock);
    return status;
}

/* ---- the others ---- */

struct refresh {
    struct loco_window *win;
    int rank;
};

/* Keys of `head` into *keys, or an error; what was read may be torn. */
static int read_keys(struct loco_window *win, int rank, const struct head *head,
                     struct loci_memkey **keys)
{
    size_t bytes = (size_t)head->count * sizeof **keys;
    struct loci_mem table;
    int status;

    *keys = NULL;
    if (head->count == 0)
        return LOCO_OK;
    if (head->count > head->table.len / sizeof **keys)
        return LOCO_ERR_PROTOCOL;
    status = loci_mem_import(win->rt, win->group.peer[rank], &head->table, &table);
    if (status != LOCO_OK)
        return status;
    *keys = malloc(bytes);
    if (*keys == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_read(win->rt, &table, 0, *keys, bytes, NULL);
    if (status != LOCO_OK) {
        free(*keys);
        *keys = NULL;
    }
    return status;
}

static int same_version(struct loco_window *win, int rank, uint64_t version)
{
    uint64_t now = 0;
    int status;

    /* What was read before is read before this: pairs with the fence in publish(). */
    atomic_thread_fence(memory_order_seq_cst);
    status = loci_read64(win->rt, &win->control[rank], LOCI_WINDOW_REGIONS, &now, NULL);
    return status != LOCO_OK ? status : now == version;
}

/* One try to copy a member's table: 1 done, 0 it was changing. */
static int try_refresh(void *arg)
{
    struct refresh *r = arg;
    struct loci_region_cache *cache = &r->win->regions[r->rank];
    struct loci_memkey *keys;
    struct head head;
    int status, same;

    status = loci_read64(r->win->rt, &r->win->control[r->rank], LOCI_WINDOW_REGIONS,
                         &head.version, NULL);
    if (status != LOCO_OK || head.version % 2 != 0)
        return status;
    status = loci_read(r->win->rt, &r->win->control[r->rank],
                       LOCI_WINDOW_REGIONS + sizeof head.version, &head.count,
                       sizeof head - sizeof head.version, NULL);
    if (status != LOCO_OK)
        return status;
    same = same_version(r->win, r->rank, head.version);
    if (same <= 0)
        return same;
    status = read_keys(r->win, r->rank, &head, &keys);
    same = same_version(r->win, r->rank, head.version);
    if (same <= 0 || status != LOCO_OK) {
        free(keys);
        return same <= 0 ? same : status;
    }
    free(cache->keys);
    *cache = (struct loci_region_cache){ head.version, (int)head.count, keys };
    return 1;
}

/* The copy of that member's table is of the version in force. */
static int refresh(struct loco_window *win, int rank)
{
    struct refresh r = { win, rank };
    const struct loci_reason why = {
        .what = "the attached regions of a window's member", .peer = win->group.peer[rank],
        .timeout_ns = LOCO_FOREVER,
    };
    int same = same_version(win, rank, win->regions[rank].version);

    if (same != 0)
        return same < 0 ? same : LOCO_OK;
    return loci_wait(win->rt, &why, try_refresh, &r);
}

static const struct loci_memkey *lookup(const struct loci_region_cache *cache, uint64_t address)
{
    int low = 0, high = cache->count;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (cache->keys[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address - cache->keys[low - 1].base >= cache->keys[low - 1].len)
        return NULL;
    return &cache->keys[low - 1];
}

int loci_regions_find(struct loco_window *win, int rank, uint64_t address, size_t *len,
                      struct loci_mem *mem)
{
    const struct loci_memkey *key;
    int status;

    pthread_mutex_lock(&win->regions_lock);
    status = refresh(win, rank);
    key = status == LOCO_OK ? lookup(&win->regions[rank], address) : NULL;
    if (status == LOCO_OK && key == NULL)
        status = LOCO_ERR_RANGE;
    if (status == LOCO_OK) {
        uint64_t left = key->len - (address - key->base);

        if (*len > left)
            *len = (size_t)left;
        status = loci_mem_import(win->rt, win->group.peer[rank], key, mem);
        loci_mem_set_domain(mem, win->domain);
    }
    pthread_mutex_unlock(&win->regions_lock);
    return status;
}
