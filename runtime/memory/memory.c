/* SPDX-License-Identifier: BSD-3-Clause */

/* Own network memory: a few large extents, each one registration, and sub-ranges of them.
 *
 * Extents double from LOCO_EXTENT_MIN to LOCO_EXTENT_MAX; a request beyond the next size gets an
 * extent of its own, which nothing else gets into, so that it goes with the request. What is
 * committed grows with what is handed out, so that running out is an error here and never a bus
 * error or the kernel's killer later. Free ranges are a list in order of offset, joined with their
 * neighbours when they come back (first fit: windows live long and are few beside the accesses to
 * them).
 *
 * In a roomy runtime, an extent's address range costs nothing. There the next extent has room for
 * several of a large request, so that peers have to map one and not many, and what is large goes
 * back piece by piece when it is freed. What is small, such as windows' control blocks, is taken
 * from the end of an extent: beside large ranges each would have a page to itself, which every
 * peer that comes there has to map.
 *
 * Book-keeping is in private memory: a peer that writes astray cannot break it. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "poison.h"
#include "service.h"
#include "wait.h"

#define PATIENCE INT64_C(1000000000)    /* ns to wait for what is to come back */
#define COMMIT_STEP ((size_t)2 << 20)   /* a huge page: commits and extents are multiples of it */
#define SMALL ((size_t)4096)            /* less than so much is kept together, */
#define SEVERAL 16                      /* and so many of what is large get into one extent */

struct loci_range {
    size_t offset;
    size_t len;
    struct loci_range *next;
};

struct loci_extent_step {
    bool committed;
    uint32_t from, to;          /* of what was handed out and may not be zero; to 0: nothing */
};

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* ---- extents ---- */

static void extent_remove(struct loco_runtime *rt, struct loci_extent *extent)
{
    struct loci_extent **at = &rt->extents;

    while (*at != extent)
        at = &(*at)->next;
    *at = extent->next;
    rt->memory_used -= extent->committed;
    /* Its addresses may be anything next. */
    loci_memory_taken(extent->base, extent->len);
    rt->ops->extent_destroy(rt->fabric, extent);
    while (extent->free != NULL) {
        struct loci_range *range = extent->free;

        extent->free = range->next;
        free(range);
    }
    free(extent->piece);
    free(extent);
}

static size_t least_extent(const struct loco_runtime *rt)
{
    return round_up((size_t)rt->tunables.extent_min, COMMIT_STEP);
}

static size_t size_of_next(struct loco_runtime *rt, size_t len)
{
    size_t need = round_up(len, COMMIT_STEP);

    if (rt->next_extent == 0)
        rt->next_extent = least_extent(rt);
    while (rt->roomy && rt->next_extent / SEVERAL < len
           && rt->next_extent * 2 <= (size_t)rt->tunables.extent_max)
        rt->next_extent *= 2;
    return need > rt->next_extent ? need : rt->next_extent;
}

/* Of an extent that is roomy nothing is committed yet. */
static int create_extent(struct loco_runtime *rt, struct loci_extent *extent, size_t need)
{
    int status;

    extent->committed = rt->roomy ? 0 : need;
    status = rt->ops->extent_create(rt->fabric, extent);
    if (status == LOCO_ERR_NO_MEMORY && extent->len > need) {
        /* There may be address space, or what a device may pin, for this much. */
        extent->len = need;
        extent->committed = rt->roomy ? 0 : need;
        status = rt->ops->extent_create(rt->fabric, extent);
    }
    return status;
}

/* An extent that can serve `len` bytes at once; at the end of the list, so that the oldest are
 * filled first. */
static int extent_add(struct loco_runtime *rt, size_t len, struct loci_extent **added)
{
    size_t need = round_up(len, COMMIT_STEP);
    struct loci_extent *extent = calloc(1, sizeof *extent), **end = &rt->extents;
    struct loci_range *all = calloc(1, sizeof *all);
    int status = LOCO_ERR_NO_MEMORY;

    if (extent == NULL || all == NULL)
        goto fail;
    extent->number = ++rt->extents_made;
    extent->len = size_of_next(rt, len);
    extent->alone = need > rt->next_extent;
    status = create_extent(rt, extent, need);
    if (status != LOCO_OK)
        goto fail;
    /* Behind it, for it refuses what is too large for this table, too. */
    extent->piece = calloc(extent->len / COMMIT_STEP, sizeof *extent->piece);
    if (extent->piece == NULL) {
        rt->ops->extent_destroy(rt->fabric, extent);
        status = LOCO_ERR_NO_MEMORY;
        goto fail;
    }
    if (extent->len == rt->next_extent && rt->next_extent * 2 <= (size_t)rt->tunables.extent_max)
        rt->next_extent *= 2;
    rt->memory_used += extent->committed;
    for (size_t i = 0; i < extent->committed / COMMIT_STEP; i++)
        extent->piece[i].committed = true;
    all->len = extent->len;
    extent->free = all;
    while (*end != NULL)
        end = &(*end)->next;
    *end = extent;
    *added = extent;
    return LOCO_OK;
fail:
    free(all);
    free(extent);
    return status;
}

/* Commit [from, to), so that touching it cannot fail: what is not committed of it, run by run. */
static int extent_commit(struct loco_runtime *rt, struct loci_extent *extent, size_t from,
                         size_t to)
{
    size_t i = from / COMMIT_STEP, end = round_up(to, COMMIT_STEP) / COMMIT_STEP;

    while (i < end) {
        size_t run = i;
        int status;

        while (run < end && !extent->piece[run].committed)
            run++;
        if (run == i) {
            i++;
            continue;
        }
        status = rt->ops->extent_grow(rt->fabric, extent, i * COMMIT_STEP, run * COMMIT_STEP);
        if (status != LOCO_OK)
            return status;
        rt->memory_used += (run - i) * COMMIT_STEP;
        extent->committed += (run - i) * COMMIT_STEP;
        while (i < run)
            extent->piece[i++].committed = true;
    }
    return LOCO_OK;
}

/* Give back the pieces of [from, to) that nothing is in any more; it lies in the free range. */
static void extent_uncommit(struct loco_runtime *rt, struct loci_extent *extent,
                            const struct loci_range *range, size_t from, size_t to)
{
    size_t least = round_up(range->offset, COMMIT_STEP) / COMMIT_STEP, i = from / COMMIT_STEP;
    size_t most = (range->offset + range->len) / COMMIT_STEP;
    size_t end = round_up(to, COMMIT_STEP) / COMMIT_STEP;

    i = i < least ? least : i;
    end = end > most ? most : end;
    if (i >= end)
        return;
    rt->ops->extent_shrink(rt->fabric, extent, i * COMMIT_STEP, end * COMMIT_STEP);
    rt->memory_used -= (end - i) * COMMIT_STEP;
    extent->committed -= (end - i) * COMMIT_STEP;
    while (i < end)
        extent->piece[i++] = (struct loci_extent_step){ .committed = false };
}

/* ---- sub-ranges ---- */

/* Take [offset, offset+len) out of the free range that *at points to. */
static int range_take(struct loci_range **at, size_t offset, size_t len)
{
    struct loci_range *range = *at;
    size_t before = offset - range->offset, after = range->offset + range->len - offset - len;

    if (before > 0 && after > 0) {
        struct loci_range *rest = malloc(sizeof *rest);

        if (rest == NULL)
            return LOCO_ERR_NO_MEMORY;
        *rest = (struct loci_range){ offset + len, after, range->next };
        range->len = before;
        range->next = rest;
    } else if (before > 0) {
        range->len = before;
    } else if (after > 0) {
        range->offset += len;
        range->len = after;
    } else {
        *at = range->next;
        free(range);
    }
    return LOCO_OK;
}

/* Where `len` bytes begin in that free range, as far in front or behind as may be; SIZE_MAX: it is
 * too small. */
static size_t place_in(const struct loci_range *range, size_t len, size_t align, bool behind)
{
    size_t end = range->offset + range->len, start = round_up(range->offset, align);

    if (start + len > end)
        return SIZE_MAX;
    return behind ? (end - len) / align * align : start;
}

/* LOCO_ERR_AGAIN: no free range of this extent is large enough. */
static int extent_take(struct loco_runtime *rt, struct loci_extent *extent, size_t len,
                       size_t align, size_t *offset)
{
    bool behind = rt->roomy && len < SMALL;
    struct loci_range **at = &extent->free, **found = NULL;
    size_t start;
    int status;

    for (; *at != NULL && (found == NULL || behind); at = &(*at)->next)
        if (place_in(*at, len, align, behind) != SIZE_MAX)
            found = at;
    if (found == NULL)
        return LOCO_ERR_AGAIN;
    start = place_in(*found, len, align, behind);
    status = extent_commit(rt, extent, start, start + len);
    if (status == LOCO_OK)
        status = range_take(found, start, len);
    if (status == LOCO_OK) {
        extent->used += len;
        *offset = start;
    }
    return status;
}

/* Give a range back and join it with its neighbours; returns what it is now a part of, or NULL. */
static struct loci_range *extent_give(struct loci_extent *extent, size_t offset, size_t len)
{
    struct loci_range *before = NULL, *after = extent->free, *range;

    while (after != NULL && after->offset < offset) {
        before = after;
        after = after->next;
    }
    extent->used -= len;
    if (before != NULL && before->offset + before->len == offset) {
        before->len += len;
        range = before;
    } else {
        range = malloc(sizeof *range);
        if (range == NULL)
            return NULL;        /* the range is lost to later requests, nothing else */
        *range = (struct loci_range){ offset, len, after };
        if (before != NULL)
            before->next = range;
        else
            extent->free = range;
    }
    if (after != NULL && range->offset + range->len == after->offset) {
        range->len += after->len;
        range->next = after->next;
        free(after);
    }
    return range;
}

static int take_somewhere(struct loco_runtime *rt, size_t len, size_t align,
                          struct loci_extent **from, size_t *offset)
{
    struct loci_extent *extent;
    int status;

    for (extent = rt->extents; extent != NULL; extent = extent->next) {
        if (extent->alone)
            continue;
        status = extent_take(rt, extent, len, align, offset);
        if (status != LOCO_ERR_AGAIN) {
            *from = extent;
            return status;
        }
    }
    status = extent_add(rt, len, &extent);
    if (status != LOCO_OK)
        return status;
    *from = extent;
    status = extent_take(rt, extent, len, align, offset);
    if (status != LOCO_OK && extent->used == 0)
        extent_remove(rt, extent);
    return status;
}

/* [from, to) of a piece, which is at `base`. */
static void clear_in_piece(struct loci_extent_step *piece, unsigned char *base, size_t from,
                           size_t to)
{
    size_t dirty = from > piece->from ? from : piece->from, end = to < piece->to ? to : piece->to;

    if (dirty < end)
        memset(base + dirty, 0, end - dirty);
    if (piece->to == 0 || from < piece->from)
        piece->from = (uint32_t)from;
    if (to > piece->to)
        piece->to = (uint32_t)to;
}

/* Sub-ranges begin zeroed: what was never handed out is, the rest is cleared. */
static void clear(struct loci_extent *extent, size_t offset, size_t len)
{
    size_t end = offset + len;

    if (extent->touched < end)
        extent->touched = end;
    while (offset < end) {
        size_t i = offset / COMMIT_STEP, at = i * COMMIT_STEP;
        size_t to = end - at < COMMIT_STEP ? end - at : COMMIT_STEP;

        clear_in_piece(&extent->piece[i], extent->base + at, offset - at, to);
        offset = at + to;
    }
}

static void report_shortage(struct loco_runtime *rt, size_t len)
{
    const char *what;
    size_t left = loci_memory_left((size_t)rt->tunables.mem_limit, rt->memory_used, &what);

    if (left / COMMIT_STEP > len / COMMIT_STEP) {
        LOCI_LOG(rt, LOCO_LOG_ERROR,
                 "%zu bytes of network memory were asked for, and the system refused memory that "
                 "is needed for it, though no limit is reached", len);
        return;
    }
    LOCI_LOG(rt, LOCO_LOG_ERROR,
             "%zu bytes of network memory were asked for, and %s leaves %zu, in "
             "pieces of 2 MiB: ask for less, or raise that limit",
             len, what, left / COMMIT_STEP * COMMIT_STEP);
}

/* ---- what comes back later ---- */

static struct loci_extent *extent_numbered(struct loco_runtime *rt, uint64_t number)
{
    struct loci_extent *extent = rt->extents;

    while (extent != NULL && extent->number != number)
        extent = extent->next;
    return extent;
}

/* A range that the service thread was to free while another had the lock, maybe for long: it asks
 * the system for memory under it. The next one who has the lock does it. */
struct loci_gift {
    struct loci_memkey key;
    struct loci_gift *next;
};

static void free_range(struct loco_runtime *rt, const struct loci_memkey *key)
{
    struct loci_extent *extent = extent_numbered(rt, key->extent);
    size_t len = round_up(key->len > 0 ? key->len : 1, LOCI_CACHE_LINE);
    const struct loci_range *range;

    if (extent == NULL)
        return;
    range = extent_give(extent, key->base, len);
    /* The oldest stays if it is of the least size, so that one small object made and freed in turn
     * costs no extent. That is all that is kept without use. */
    if (extent->used == 0
        && (extent->alone || extent != rt->extents || extent->len > least_extent(rt)))
        extent_remove(rt, extent);
    else if (rt->roomy && len >= COMMIT_STEP && range != NULL)
        extent_uncommit(rt, extent, range, key->base, key->base + len);
}

static bool leave_gift(struct loco_runtime *rt, const struct loci_memkey *key)
{
    struct loci_gift *gift = malloc(sizeof *gift);

    if (gift == NULL)
        return false;
    *gift = (struct loci_gift){ *key, atomic_load_explicit(&rt->gifts, memory_order_relaxed) };
    while (!atomic_compare_exchange_weak_explicit(&rt->gifts, &gift->next, gift,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return true;
}

static void lock_memory(struct loco_runtime *rt)
{
    struct loci_gift *gift;

    pthread_mutex_lock(&rt->memory_lock);
    if (atomic_load_explicit(&rt->gifts, memory_order_relaxed) == NULL)
        return;
    gift = atomic_exchange_explicit(&rt->gifts, NULL, memory_order_acquire);
    while (gift != NULL) {
        struct loci_gift *next = gift->next;

        free_range(rt, &gift->key);
        free(gift);
        gift = next;
    }
}

static void give_pool(struct loco_runtime *rt, const struct loci_memkey *key)
{
    if (!loci_service_is_self(rt))
        lock_memory(rt);
    else if (pthread_mutex_trylock(&rt->memory_lock) != 0) {
        if (leave_gift(rt, key))
            return;
        lock_memory(rt);
    }
    free_range(rt, key);
    pthread_mutex_unlock(&rt->memory_lock);
}

void loci_memory_is_owed(struct loco_runtime *rt, size_t bytes)
{
    atomic_fetch_add(&rt->memory_owed, bytes);
}

void loci_memory_was_owed(struct loco_runtime *rt, size_t bytes)
{
    atomic_fetch_sub(&rt->memory_owed, bytes);
    atomic_fetch_add(&rt->memory_returns, 1);
}

struct return_wait {
    struct loco_runtime *rt;
    unsigned seen;
};

static int has_returned(void *arg)
{
    struct return_wait *wait = arg;

    return atomic_load(&wait->rt->memory_returns) != wait->seen
           || atomic_load(&wait->rt->memory_owed) == 0;
}

/* ---- asking and freeing ---- */

static int take_range(struct loco_runtime *rt, size_t size, size_t align,
                      struct loci_extent **extent, size_t *offset)
{
    int status;

    lock_memory(rt);
    status = take_somewhere(rt, size, align, extent, offset);
    if (status == LOCO_OK) {
        loci_memory_taken((*extent)->base + *offset, size);
        clear(*extent, *offset, size);
    }
    pthread_mutex_unlock(&rt->memory_lock);
    return status;
}

/* What was destroyed comes back when the others destroy it, too, which mostly is a matter of
 * microseconds: who destroys and makes anew finds room for one of the two. */
static int take_patiently(struct loco_runtime *rt, size_t size, size_t align,
                          struct loci_extent **extent, size_t *offset)
{
    int64_t end = 0, now;
    int status;

    for (;;) {
        struct return_wait wait = { rt, atomic_load(&rt->memory_returns) };
        bool more = atomic_load(&rt->memory_owed) > 0;
        struct loci_reason why = { .what = "memory of what was destroyed", .peer = -1 };

        status = take_range(rt, size, align, extent, offset);
        if (status != LOCO_ERR_NO_MEMORY || !more || loci_service_is_self(rt))
            return status;
        now = loci_now(rt);
        end = end == 0 ? now + PATIENCE : end;
        why.timeout_ns = end > now ? end - now : 0;
        if (loci_wait(rt, &why, has_returned, &wait) != LOCO_OK)
            return status;
    }
}

int loci_alloc(struct loco_runtime *rt, size_t len, size_t align, struct loci_mem *mine)
{
    struct loci_extent *extent = NULL;
    size_t offset = 0, size;
    int status;

    if ((align & (align - 1)) != 0 || align > COMMIT_STEP)
        return LOCO_ERR_ARG;
    align = align < LOCI_CACHE_LINE ? LOCI_CACHE_LINE : align;
    /* Whole cache lines: neighbours do not share one. Refused before rounding can overflow. */
    if (len > SIZE_MAX / 2) {
        report_shortage(rt, len);
        return LOCO_ERR_NO_MEMORY;
    }
    size = round_up(len > 0 ? len : 1, LOCI_CACHE_LINE);
    status = take_patiently(rt, size, align, &extent, &offset);
    if (status == LOCO_ERR_NO_MEMORY)
        report_shortage(rt, len);
    if (status != LOCO_OK)
        return status;
    mine->peer = LOCI_SELF;
    loci_mem_set_domain(mine, LOCI_DOMAIN_NONE);
    mine->key = (struct loci_memkey){
        .kind = LOCI_MEM_POOL, .extent = extent->number, .base = offset, .len = len,
        .rkey = extent->rkey, .device = extent->device,
    };
    atomic_init(&mine->ptr, extent->base + offset);
    return LOCO_OK;
}

int loci_alloc_in_device(struct loco_runtime *rt, size_t len, struct loci_mem *mine)
{
    struct loci_memkey key = { .kind = LOCI_MEM_DEVICE, .len = len };
    int status = LOCO_ERR_AGAIN;

    if (rt->ops->words_take != NULL)
        status = rt->ops->words_take(rt->fabric, len, &key);
    if (status != LOCO_OK)
        return status;
    mine->peer = LOCI_SELF;
    mine->key = key;
    atomic_init(&mine->ptr, NULL);
    loci_mem_set_domain(mine, LOCI_DOMAIN_NONE);
    return LOCO_OK;
}

void loci_free(struct loco_runtime *rt, struct loci_mem *mine)
{
    if (mine->key.kind == LOCI_MEM_DEVICE) {
        rt->ops->words_give(rt->fabric, &mine->key);
    } else if (mine->key.kind == LOCI_MEM_POOL) {
        loci_memory_given(atomic_load_explicit(&mine->ptr, memory_order_relaxed), mine->key.len);
        give_pool(rt, &mine->key);
    } else {
        return;
    }
    atomic_init(&mine->ptr, NULL);
    atomic_init(&mine->word, NULL);
    mine->key.kind = LOCI_MEM_NONE;
}

/* ---- what programs make of it ---- */

static int renew(struct loco_runtime *rt, void *ptr, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *from = ptr, *to = from + len;

    from += (page - (uintptr_t)from % page) % page;
    to -= (uintptr_t)to % page;
    if (rt->ops->renew == NULL || from >= to)
        return LOCO_OK;
    return rt->ops->renew(rt->fabric, from, (size_t)(to - from));
}

void loci_renew(struct loco_runtime *rt, void *ptr, size_t len)
{
    if (renew(rt, ptr, len) != LOCO_OK)
        LOCI_LOG(rt, LOCO_LOG_WARN, "%zu bytes of a peer's memory at %p cannot be made as new: %m",
                 len, ptr);
}

void loci_renew_own(struct loco_runtime *rt, struct loci_mem *mine)
{
    unsigned char *ptr = atomic_load_explicit(&mine->ptr, memory_order_relaxed);

    if (mine->key.kind != LOCI_MEM_POOL || renew(rt, ptr, mine->key.len) == LOCO_OK)
        return;
    LOCI_LOG(rt, LOCO_LOG_WARN,
             "%llu bytes of memory at %p cannot be made as new, and are not used "
             "again: %m",
             (unsigned long long)mine->key.len, (void *)ptr);
    mine->key.kind = LOCI_MEM_NONE;
}

void loci_memory_close(struct loco_runtime *rt)
{
    lock_memory(rt);
    while (rt->extents != NULL)
        extent_remove(rt, rt->extents);
    pthread_mutex_unlock(&rt->memory_lock);
}

void loci_memory_end(struct loco_runtime *rt)
{
    lock_memory(rt);
    pthread_mutex_unlock(&rt->memory_lock);
}

/* ---- memory of the user, and of others ---- */

int loci_user_add(struct loco_runtime *rt, void *base, size_t len, struct loci_mem *mine)
{
    struct loci_memkey key = { .kind = LOCI_MEM_USER, .base = (uintptr_t)base, .len = len };
    int status = rt->ops->user_add(rt->fabric, base, len, &key);

    if (status != LOCO_OK)
        return status;
    mine->peer = LOCI_SELF;
    loci_mem_set_domain(mine, LOCI_DOMAIN_NONE);
    mine->key = key;
    atomic_init(&mine->ptr, base);
    return LOCO_OK;
}

void loci_user_remove(struct loco_runtime *rt, struct loci_mem *mine)
{
    if (mine->key.kind != LOCI_MEM_USER)
        return;
    rt->ops->user_remove(rt->fabric, &mine->key);
    atomic_init(&mine->ptr, NULL);
    atomic_init(&mine->word, NULL);
    mine->key.kind = LOCI_MEM_NONE;
}

/* Own memory is found, not mapped again; the device's has no address. */
static int import_own(struct loco_runtime *rt, struct loci_mem *mem)
{
    struct loci_extent *extent;
    unsigned char *ptr = NULL;

    if (mem->key.kind == LOCI_MEM_USER) {
        ptr = (unsigned char *)(uintptr_t)mem->key.base;
    } else if (mem->key.kind == LOCI_MEM_POOL) {
        pthread_mutex_lock(&rt->memory_lock);
        extent = extent_numbered(rt, mem->key.extent);
        if (extent != NULL && mem->key.base <= extent->len
            && mem->key.len <= extent->len - mem->key.base)
            ptr = extent->base + mem->key.base;
        pthread_mutex_unlock(&rt->memory_lock);
        if (ptr == NULL)
            return LOCO_ERR_PROTOCOL;
    }
    atomic_init(&mem->ptr, ptr);
    return LOCO_OK;
}

int loci_mem_import(struct loco_runtime *rt, int peer, const struct loci_memkey *key,
                    struct loci_mem *mem)
{
    if (key->kind == LOCI_MEM_NONE || key->kind > LOCI_MEM_DEVICE)
        return LOCO_ERR_PROTOCOL;
    if (key->len > SIZE_MAX / 2 || (key->kind != LOCI_MEM_USER && key->base > SIZE_MAX / 2))
        return LOCO_ERR_PROTOCOL;
    mem->peer = peer;
    loci_mem_set_domain(mem, LOCI_DOMAIN_NONE);
    mem->key = *key;
    atomic_init(&mem->ptr, NULL);
    return peer == LOCI_SELF ? import_own(rt, mem) : LOCO_OK;
}

static void unmap(struct loco_runtime *rt, const struct loci_mem *mem)
{
    if (rt->ops->unmap != NULL)
        rt->ops->unmap(rt->fabric, mem);
}

static unsigned char *map_now(struct loco_runtime *rt, struct loci_mem *mem, bool waits)
{
    unsigned char *ptr, *before = NULL;

    if (mem->key.kind != LOCI_MEM_POOL || !loci_peer(rt, mem->peer)->reachable)
        return NULL;
    ptr = waits || rt->ops->map_soon == NULL ? rt->ops->map(rt->fabric, mem)
          : rt->ops->map_soon(rt->fabric, mem);
    /* One count for each handle: another thread may have been faster. */
    if (ptr != NULL
        && !atomic_compare_exchange_strong_explicit(&mem->ptr, &before, ptr, memory_order_release,
                                                    memory_order_acquire)) {
        unmap(rt, mem);
        return before;
    }
    return ptr;
}

static unsigned char *map(struct loco_runtime *rt, struct loci_mem *mem, bool waits)
{
    unsigned char *ptr = atomic_load_explicit(&mem->ptr, memory_order_acquire);

    if (ptr == NULL)
        ptr = map_now(rt, mem, waits);
    /* Whoever finds it mapped by another thread may need the word, too. */
    if (ptr != NULL && loci_domain_is_cpus(mem->domain)
        && atomic_load_explicit(&mem->word, memory_order_relaxed) == NULL)
        atomic_store_explicit(&mem->word, ptr, memory_order_release);
    return ptr;
}

unsigned char *loci_mem_map(struct loco_runtime *rt, struct loci_mem *mem)
{
    return map(rt, mem, true);
}

unsigned char *loci_mem_map_soon(struct loco_runtime *rt, struct loci_mem *mem)
{
    return map(rt, mem, false);
}

void loci_mem_drop(struct loco_runtime *rt, struct loci_mem *mem)
{
    if (mem->peer == LOCI_SELF || mem->key.kind == LOCI_MEM_NONE)
        return;
    if (mem->key.kind == LOCI_MEM_POOL
        && atomic_load_explicit(&mem->ptr, memory_order_acquire) != NULL)
        unmap(rt, mem);
    atomic_init(&mem->ptr, NULL);
    atomic_init(&mem->word, NULL);
    mem->key.kind = LOCI_MEM_NONE;
}

void loci_mem_set_domain(struct loci_mem *mem, enum loci_domain domain)
{
    unsigned char *ptr = NULL;

    mem->domain = domain;
    if (loci_domain_is_cpus(domain))
        ptr = atomic_load_explicit(&mem->ptr, memory_order_relaxed);
    atomic_init(&mem->word, ptr);
}

/* What all members know alike: their addresses, and one build's fabrics. A group of one is alone
 * with its words, which it need not map. */
enum loci_domain loci_domain_of(const struct loco_group *group)
{
    const struct loco_runtime *rt = group->rt;
    enum loci_domain posted = rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER : LOCI_DOMAIN_NIC;

    if (group->size == 1)
        return LOCI_DOMAIN_CPU;
    if (group->open && rt->ops->spans)
        return posted;                      /* of whoever comes */
    for (int i = 0; i < group->size; i++)
        if (loci_peer(rt, group->peer[i])->address.node != rt->address.node)
            return posted;
    return rt->ops->maps ? LOCI_DOMAIN_CPU : posted;
}
