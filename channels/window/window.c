/* SPDX-License-Identifier: BSD-3-Clause */

/* Life of a window: creation, what it says of itself, its end; and the word that says which
 * epochs are open.
 *
 * Creation is two exchanges, behind a round that tells whether all have the memory for them. In the
 * first each member, having allocated its memory and its control block, tells the others its
 * status, its address, and the keys of both. In the last it tells what became of that; all fail if
 * one does, and use the CPU's atomics for accumulates if none had a mapping refused. SHARED has one
 * more between them, so that rank 0 can allocate for all. Whether the locks may be in the device's
 * memory is known after the first: where they are is told in the last.
 *
 * `state` and `epoch` are written by this process only. With one thread at a time they are changed
 * by a load and a store, else by compare and swap. A thread that opens an epoch for other threads
 * tells them so by some means of the program's, which orders what it wrote. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/mistake.h"
#include "wait.h"
#include "window.h"
#include "window/acc/window_flat.h"
#include "window/gather/gather.h"

#define PAGE 4096
/* From so many bytes on, memory begins at a page, as what programs get of malloc nearly does: a CPU
 * that tells addresses apart by their place in a page takes loads for such as wait for the stores
 * just made, where the sink is a little further on in its page than the source (5 % of 1 MiB, at
 * worst 40). */
#define LARGE ((size_t)256 << 10)
/* In so small a group, large parts are mapped when the window is made: a program that makes such
 * windows expects that to take a while, not the first put. Windows made after one another mostly
 * share a mapping. */
#define FEW 16

/* What a member tells the others. Zeroed, so that padding is. */
struct record {
    int32_t status;
    uint32_t disp_unit;
    uint32_t property[4];           /* PROPERTIES: the same at all */
    uint64_t size;
    struct loci_address address;
    struct loci_memkey control;
    struct loci_memkey memory;      /* kind NONE: no bytes, or DYNAMIC */
};

/* ---- what a member gives ---- */

static int check_spec(const struct loco_runtime *rt, const struct loco_exchange *exchange,
                      const struct loco_window_spec *spec)
{
    const char *call = "loco_window_create";

    if (exchange->size > LOCI_WINDOW_MAX)
        return loci_bad_arg(rt, call, NULL, "the size of the exchange", exchange->size, "1 to %d",
                            LOCI_WINDOW_MAX);
    if ((unsigned)spec->kind > LOCO_WINDOW_DYNAMIC)
        return loci_bad_arg(rt, call, NULL, "kind", (long long)spec->kind,
                            "%d (LOCO_WINDOW_ALLOCATE) to %d (LOCO_WINDOW_DYNAMIC)",
                            LOCO_WINDOW_ALLOCATE, LOCO_WINDOW_DYNAMIC);
    if (spec->disp_unit > UINT32_MAX)
        return loci_bad_arg(rt, call, NULL, "disp_unit", (long long)spec->disp_unit,
                            "0 to %llu", (unsigned long long)UINT32_MAX);
    if ((spec->align & (spec->align - 1)) != 0)
        return loci_bad_arg(rt, call, NULL, "align", (long long)spec->align,
                            "0 or a power of two");
    if (spec->kind == LOCO_WINDOW_CREATE && spec->base == NULL && spec->size > 0)
        return loci_null_arg(rt, call, NULL, "base");
    if (spec->kind != LOCO_WINDOW_DYNAMIC && spec->size > SIZE_MAX / 2)
        return loci_mistake(rt, LOCO_ERR_NO_MEMORY, call, NULL, "size is %zu; the most is %zu",
                            spec->size, SIZE_MAX / 2);
    return LOCO_OK;
}

static int allocate_own(struct loco_window *win, const struct loco_window_spec *spec)
{
    struct loco_runtime *rt = win->rt;
    size_t page = spec->align > PAGE ? spec->align : PAGE;
    int status = LOCO_OK;

    switch (spec->kind) {
    case LOCO_WINDOW_ALLOCATE:
        if (spec->size > 0)
            status = loci_alloc(rt, spec->size, spec->size < LARGE ? spec->align : page,
                                &win->own);
        break;
    case LOCO_WINDOW_SHARED:
        if (spec->noncontiguous && spec->size > 0)
            status = loci_alloc(rt, spec->size, page, &win->own);
        break;
    case LOCO_WINDOW_CREATE:
        if (spec->size > 0)
            status = loci_user_add(rt, spec->base, spec->size, &win->own);
        break;
    case LOCO_WINDOW_DYNAMIC:
        break;
    }
    return status;
}

static size_t rounded(size_t bytes)
{
    return (bytes + LOCI_CACHE_LINE - 1) / LOCI_CACHE_LINE * LOCI_CACHE_LINE;
}

static int allocate_control(struct loco_window *win)
{
    size_t words = LOCI_WINDOW_FLAT + 2 * (size_t)win->group.size;
    size_t bytes = LOCI_WINDOW_ROWS + 8 * words;
    int status;

    if (win->synchronous && win->kind >= LOCO_WINDOW_CREATE) {
        win->request_at = rounded(bytes);
        win->gather_at = rounded(win->request_at + loci_flat_room());
        bytes = win->gather_at + loci_gather_room(win->group.size);
    }
    status = loci_alloc(win->rt, bytes, 0, &win->own_control);
    if (status == LOCO_OK && win->gather_at != 0)
        loci_gather_prepare(win);
    return status;
}

static void release_own(struct loco_window *win)
{
    loci_gather_close(win);
    loci_free(win->rt, &win->own_control);
    if (win->locks[win->group.rank].key.kind == LOCI_MEM_DEVICE)
        loci_free(win->rt, &win->locks[win->group.rank]);
    if (win->own.key.kind == LOCI_MEM_USER)
        loci_user_remove(win->rt, &win->own);
    else
        loci_free(win->rt, &win->own);
}

/* ---- what the members make of it ---- */

static int exchange_records(const struct loco_exchange *exchange, const struct record *mine,
                            struct record *all)
{
    int status = exchange->allgather(exchange->ctx, mine, sizeof *mine, all);

    for (int i = 0; status == LOCO_OK && i < exchange->size; i++)
        status = all[i].status;
    return mine->status != LOCO_OK ? mine->status : status;
}

/* Who is not met yet is this process itself, in whose place nobody is a user. */
static int meet_members(struct loco_window *win, const struct record *all)
{
    int status = LOCO_OK;

    for (int i = 0; status == LOCO_OK && i < win->group.size; i++) {
        int peer;

        if (i == win->group.rank)
            continue;
        status = loci_peer_meet(win->rt, &all[i].address, &peer);
        if (status != LOCO_OK)
            break;
        loci_peers_use(win->rt, &peer, 1);
        loci_peers_let_go(win->rt, &peer, 1);
        win->group.peer[i] = peer;
    }
    return status == LOCO_OK ? loci_group_reached(&win->group) : status;
}

/* What all members must give alike. Where one gives another kind, or other parts than contiguous
 * ones, it would come to other exchanges than the rest; locks and accumulates are of one discipline
 * for all. Each compares its own record with all others, so that either all find a difference or
 * none does. */
enum { KIND, NONCONTIGUOUS, NO_LOCKS, BULK, PROPERTIES };

static void write_property(char *text, size_t len, int property, uint32_t value)
{
    static const char *const kinds[] = { "ALLOCATE", "SHARED", "CREATE", "DYNAMIC" };

    if (property == KIND && value < sizeof kinds / sizeof kinds[0])
        snprintf(text, len, "LOCO_WINDOW_%s", kinds[value]);
    else
        snprintf(text, len, "%u", value);
}

static void tell_mismatch(const struct loco_window *win, const struct record *all, int rank,
                          int property)
{
    static const char *const names[] = {
        [KIND] = "kind", [NONCONTIGUOUS] = "noncontiguous", [NO_LOCKS] = "no_locks",
        [BULK] = "bulk_accumulate",
    };
    int here = win->group.rank;
    char mine[40], theirs[40];

    write_property(mine, sizeof mine, property, all[here].property[property]);
    write_property(theirs, sizeof theirs, property, all[rank].property[property]);
    LOCI_LOG(win->rt, LOCO_LOG_ERROR, "members of a window differ: %s is %s at rank %d (here) and "
             "%s at rank %d", names[property], mine, here, theirs, rank);
}

static int compare_members(const struct loco_window *win, const struct record *all)
{
    const struct record *mine = &all[win->group.rank];

    for (int i = 0; i < win->group.size; i++)
        for (int p = 0; p < PROPERTIES; p++)
            if (all[i].property[p] != mine->property[p]) {
                tell_mismatch(win, all, i, p);
                return LOCO_ERR_MISMATCH;
            }
    return LOCO_OK;
}

/* A control block that cannot be mapped is reached through its owner, which takes descriptors and
 * memory that may be missing. To be found out while all can still be told: in a fence, each would
 * wait for a member whose counter does not reach it. */
static int try_control(struct loco_window *win, struct loci_mem *control)
{
    uint64_t unused;

    win->mapped_by_all = false;
    return win->domain == LOCI_DOMAIN_CPU
           ? loci_read64(win->rt, control, 0, &unused, NULL) : LOCO_OK;
}

/* Where that fails, it is tried again, and told, on first use. */
static void map_if_large(const struct loco_window *win, struct loci_mem *mem)
{
    if (mem->key.kind == LOCI_MEM_POOL && mem->key.len >= LARGE && win->group.size <= FEW)
        (void)loci_mem_map(win->rt, mem);
}

/* Handles on all control blocks and parts. The blocks are mapped now, other memory mostly on first
 * use. */
static int import_members(struct loco_window *win, const struct record *all)
{
    int status = LOCO_OK;

    win->domain = loci_domain_of(&win->group);
    win->mapped_by_all = win->domain == LOCI_DOMAIN_CPU;
    for (int i = 0; status == LOCO_OK && i < win->group.size; i++) {
        struct loci_target *t = &win->target[i];
        int peer = win->group.peer[i];

        t->disp_unit = all[i].disp_unit;
        t->mem.peer = peer;
        status = loci_mem_import(win->rt, peer, &all[i].control, &win->control[i]);
        if (status == LOCO_OK && all[i].memory.kind != LOCI_MEM_NONE)
            status = loci_mem_import(win->rt, peer, &all[i].memory, &t->mem);
        loci_mem_set_domain(&win->control[i], win->domain);
        loci_mem_set_domain(&t->mem, win->domain);
        if (status == LOCO_OK && loci_mem_map(win->rt, &win->control[i]) == NULL)
            status = try_control(win, &win->control[i]);
        if (status == LOCO_OK)
            map_if_large(win, &t->mem);
    }
    return status;
}

/* SHARED, contiguous: rank 0 has allocated for all; each part follows the one before it. */
static int share_parts(struct loco_window *win, const struct loco_exchange *exchange,
                       const struct loco_window_spec *spec, struct record *mine,
                       struct record *all)
{
    uint64_t total = 0, at = 0;
    struct loci_memkey key;
    int status;

    for (int i = 0; i < exchange->size; i++)
        if (__builtin_add_overflow(total, all[i].size, &total))
            return LOCO_ERR_NO_MEMORY;
    if (exchange->rank == 0 && total > 0) {
        mine->status = loci_alloc(win->rt, total, spec->align, &win->own);
        mine->memory = win->own.key;
    }
    status = exchange_records(exchange, mine, all);
    if (status != LOCO_OK)
        return status;
    key = all[0].memory;
    for (int i = 0; i < exchange->size; i++) {
        struct loci_target *t = &win->target[i];

        if (all[i].size == 0)
            continue;
        if (at + all[i].size > key.len)
            return LOCO_ERR_PROTOCOL;
        status = loci_mem_import(win->rt, win->group.peer[0],
                                 &(struct loci_memkey){ key.kind, key.extent, key.base + at,
                                                        all[i].size, key.rkey,
                                                        key.device }, &t->mem);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(&t->mem, win->domain);
        at += all[i].size;
    }
    return LOCO_OK;
}

/* SHARED: all parts must be mapped by all, which only those on one node can do. */
static int map_parts(struct loco_window *win)
{
    bool mapped = win->mapped_by_all;

    for (int i = 0; mapped && i < win->group.size; i++)
        mapped = win->target[i].mem.key.len == 0
                 || loci_mem_map(win->rt, &win->target[i].mem) != NULL;
    if (mapped)
        return LOCO_OK;
    LOCI_LOG(win->rt, LOCO_LOG_ERROR,
             "a shared window needs members that can map its memory: on one node, and not with "
             "LOCO_FABRIC=verbs");
    return LOCO_ERR_SHARED;
}

static int join(struct loco_window *win, const struct loco_exchange *exchange,
                const struct loco_window_spec *spec, struct record *mine, struct record *all)
{
    int status = exchange_records(exchange, mine, all);

    if (status == LOCO_OK) {
        status = compare_members(win, all);
        if (status != LOCO_OK)
            return status;      /* as all others do */
        status = meet_members(win, all);
    }
    if (status == LOCO_OK)
        status = import_members(win, all);
    if (spec->kind != LOCO_WINDOW_SHARED)
        return status;
    if (!spec->noncontiguous) {
        /* A failure is told in the second exchange, which the others are waiting in, unless all
         * have seen the same one in the first. */
        bool seen_by_all = false;

        for (int i = 0; i < exchange->size; i++)
            seen_by_all = seen_by_all || all[i].status != LOCO_OK;
        if (seen_by_all)
            return status;
        mine->status = status;
        status = share_parts(win, exchange, spec, mine, all);
    }
    return status == LOCO_OK ? map_parts(win) : status;
}

struct outcome {
    int32_t status, mapped;
    struct loci_memkey locks;       /* kind NONE: they are in the control block */
};

/* Into `locks`, which are the window's then. */
static int import_locks(struct loco_window *win, const struct outcome *all, struct loci_mem *locks)
{
    int status = LOCO_OK;
    bool any = false;

    for (int i = 0; i < win->group.size; i++)
        any = any || all[i].locks.kind != LOCI_MEM_NONE;
    if (!any) {
        free(locks);
        return LOCO_OK;
    }
    win->locks = locks;
    /* Its own first: from then on release_own() knows what to free. */
    for (int n = 0; status == LOCO_OK && n < win->group.size; n++) {
        int i = (win->group.rank + n) % win->group.size;
        bool apart = all[i].locks.kind != LOCI_MEM_NONE;

        status = loci_mem_import(win->rt, win->group.peer[i],
                                 apart ? &all[i].locks : &win->control[i].key, &win->locks[i]);
        loci_mem_set_domain(&win->locks[i], win->domain);
        loci_mem_map(win->rt, &win->locks[i]);
    }
    return status;
}

/* What each member made of the records may differ: a table of peers that is full, a mapping refused
 * to one alone. `all` has room for more than an outcome each. */
static int agree(struct loco_window *win, const struct loco_exchange *exchange, int status,
                 struct record *all)
{
    struct outcome mine, *theirs = (struct outcome *)(void *)all;
    struct loci_mem own = { .key.kind = LOCI_MEM_NONE }, *locks = NULL;
    int rc;

    /* All that may fail for one alone comes before the others are told. */
    if (status == LOCO_OK && win->domain == LOCI_DOMAIN_NIC) {
        locks = calloc((size_t)win->group.size, sizeof *locks);
        status = locks != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;
    }
    if (status == LOCO_OK && win->domain == LOCI_DOMAIN_NIC)
        loci_alloc_in_device(win->rt, LOCI_WINDOW_LOCKS_END, &own);
    memset(&mine, 0, sizeof mine);
    mine.status = status;
    mine.mapped = win->mapped_by_all;
    mine.locks = own.key;
    rc = exchange->allgather(exchange->ctx, &mine, sizeof mine, theirs);
    for (int i = 0; status == LOCO_OK && rc == LOCO_OK && i < exchange->size; i++) {
        status = theirs[i].status;
        win->mapped_by_all = win->mapped_by_all && theirs[i].mapped != 0;
    }
    status = status != LOCO_OK ? status : rc;
    if (status == LOCO_OK && locks != NULL)
        return import_locks(win, theirs, locks);
    loci_free(win->rt, &own);
    free(locks);
    return status;
}

/* ---- create and destroy ---- */

/* Where the parts of a window lie: all that grows with its members is in one piece with it. */
struct layout {
    size_t control, peers, words, vectors, rights, end;
};

static struct layout layout_of(size_t n)
{
    struct layout l;

    l.control = rounded(sizeof(struct loco_window) + n * sizeof(struct loci_target));
    l.peers = l.control + rounded(n * sizeof(struct loci_mem));
    l.words = l.peers + rounded(n * sizeof(int));
    l.vectors = l.words + rounded(n * LOCI_WINDOW_WORDS * sizeof(_Atomic uint64_t));
    l.rights = l.vectors + rounded(n * sizeof(uint32_t));
    l.end = l.rights + rounded(n * sizeof(struct loci_acc_right));
    return l;
}

int loci_window_room(const struct loco_exchange *exchange, size_t before,
                     struct loci_window_room *room)
{
    size_t n = (size_t)exchange->size, bytes = before + layout_of(n).end;

    LOCO_ASSERT(before % LOCI_CACHE_LINE == 0);
    room->memory = aligned_alloc(LOCI_CACHE_LINE, bytes);
    room->records = calloc(n, sizeof(struct record));
    if (room->memory == NULL || room->records == NULL) {
        loci_window_room_free(room);
        return LOCO_ERR_NO_MEMORY;
    }
    memset(room->memory, 0, bytes);
    return LOCO_OK;
}

void loci_window_room_free(struct loci_window_room *room)
{
    free(room->memory);
    free(room->records);
    room->memory = NULL;
    room->records = NULL;
}

/* The window, behind what the host asked for before it. */
static struct loco_window *new_window(struct loco_runtime *rt,
                                      const struct loco_exchange *exchange,
                                      const struct loco_window_spec *spec, size_t before,
                                      unsigned char *memory)
{
    const struct layout l = layout_of((size_t)exchange->size);
    unsigned char *p = memory + before;
    struct loco_window *win = (struct loco_window *)p;

    win->memory = memory;
    win->rt = rt;
    atomic_store_explicit(&rt->combine, loci_window_combine_offered, memory_order_release);
    atomic_store_explicit(&rt->merge, loci_window_merge_offered, memory_order_release);
    win->control = win->locks = (struct loci_mem *)(p + l.control);
    win->group = (struct loco_group){
        .rt = rt, .size = exchange->size, .rank = exchange->rank, .peer = (int *)(p + l.peers),
    };
    win->free_words = (_Atomic uint64_t *)(p + l.words);
    win->atomic_vectors = (uint32_t *)(p + l.vectors);
    win->rights = (struct loci_acc_right *)(p + l.rights);
    win->kind = spec->kind;
    win->one_thread = spec->one_thread;
    win->under_way = -1;
    win->no_locks = spec->no_locks;
    win->contiguous = spec->kind == LOCO_WINDOW_SHARED && !spec->noncontiguous;
    win->synchronous = rt->ops->synchronous;
    win->notes_stores = win->synchronous && win->one_thread && win->kind != LOCO_WINDOW_SHARED;
    return win;
}

static void find_base(struct loco_window *win, const struct loco_window_spec *spec)
{
    const struct loci_target *t = &win->target[win->group.rank];

    if (spec->kind == LOCO_WINDOW_CREATE)
        win->base = spec->base;
    else if (t->mem.key.len > 0)
        win->base = loci_mem_ptr(&t->mem);
}

static void fill_record(const struct loco_window *win, const struct loco_window_spec *spec,
                        int status, struct record *mine)
{
    memset(mine, 0, sizeof *mine);
    mine->status = status;
    mine->property[KIND] = (uint32_t)spec->kind;
    mine->property[NONCONTIGUOUS] = spec->kind == LOCO_WINDOW_SHARED && spec->noncontiguous;
    mine->property[NO_LOCKS] = spec->no_locks;
    mine->property[BULK] = spec->bulk_accumulate;
    mine->disp_unit = (uint32_t)spec->disp_unit;
    mine->size = spec->kind == LOCO_WINDOW_DYNAMIC ? 0 : spec->size;
    mine->address = win->rt->address;
    mine->control = win->own_control.key;
    mine->memory = win->own.key;
}

void loci_window_free(struct loco_window *win)
{
    struct loco_runtime *rt = win->rt;

    for (int i = 0; i < win->group.size; i++) {
        loci_mem_drop(rt, &win->target[i].mem);
        loci_mem_drop(rt, &win->control[i]);
        if (win->locks != win->control)
            loci_mem_drop(rt, &win->locks[i]);
    }
    loci_peers_end_use(rt, win->group.peer, win->group.size);
    if (win->locks != win->control)
        free(win->locks);
    free(win->memory);
}

/* The runtime closes with the window there: the others may not know yet. Its memory goes with the
 * runtime's. */
static void destroy_forgotten(void *object)
{
    struct loco_window *win = object;

    loci_living_remove(win->rt, &win->living);
    loci_gather_close(win);
    loci_regions_close(win);
    loci_window_pscw_free(win);
    loci_window_deferred_free(win);
    loci_window_free(win);
}

static void is_living(struct loco_window *win)
{
    win->living = (struct loci_living){
        .type = "window", .name = "", .destroy = destroy_forgotten, .object = win,
    };
    loci_living_add(win->rt, &win->living);
}

/* Of a window that all have made. Nothing here can fail. */
static void open_window(struct loco_window *win, const struct loco_window_spec *spec)
{
    for (int i = 0; win->mapped_by_all && i < win->group.size; i++)
        win->target[i].control = loci_mem_ptr(&win->control[i]);
    win->gate = win->mapped_by_all ? loci_mem_ptr(&win->control[0]) + LOCI_WINDOW_GATE : NULL;
    win->quick_locks = win->one_thread && win->mapped_by_all && !win->no_locks;
    win->atomics = win->mapped_by_all && !spec->bulk_accumulate
                   && (spec->kind == LOCO_WINDOW_ALLOCATE || spec->kind == LOCO_WINDOW_SHARED);
    if (win->atomics && win->one_thread)
        (void)loci_asymmetric_state(win->rt);    /* it takes a while */
    win->device_atomics = win->domain != LOCI_DOMAIN_CPU && !spec->bulk_accumulate;
    win->merges = win->device_atomics && win->one_thread && win->kind != LOCO_WINDOW_DYNAMIC
                  && win->rt->ops->merges;
    find_base(win, spec);
    loci_gather_open(win);
    is_living(win);
    loci_stats_add(win->rt->stats, LOCI_STAT_WINDOWS_MADE, 1);
}

int loci_window_create_behind(loco_runtime_t *rt, const struct loco_exchange *exchange,
                              const struct loco_window_spec *spec, size_t before,
                              struct loci_window_room *room, loco_window_t **out)
{
    struct loco_window *win = new_window(rt, exchange, spec, before, room->memory);
    struct record *all = room->records, mine;
    int status = check_spec(rt, exchange, spec);

    if (status == LOCO_OK)
        status = allocate_control(win);
    if (status == LOCO_OK)
        status = allocate_own(win, spec);
    if (status == LOCO_OK && spec->kind == LOCO_WINDOW_DYNAMIC)
        status = loci_regions_open(win);
    atomic_init(&win->deaths, 0);
    fill_record(win, spec, status, &mine);
    status = join(win, exchange, spec, &mine, all);
    status = agree(win, exchange, status, all);
    free(all);
    if (status != LOCO_OK) {
        release_own(win);
        loci_regions_close(win);
        loci_window_free(win);
        return status;
    }
    open_window(win, spec);
    *out = win;
    return LOCO_OK;
}

int loco_window_create(loco_runtime_t *rt, const struct loco_exchange *exchange,
                       const struct loco_window_spec *spec, loco_window_t **out)
{
    struct loci_window_room room;
    int status = loci_exchange_status(exchange, loci_window_room(exchange, 0, &room));

    if (status == LOCO_OK)
        return loci_window_create_behind(rt, exchange, spec, 0, &room, out);
    loci_window_room_free(&room);
    return status;
}

/* What the program had pointers to is as new before its owner, behind the barrier, gives it to
 * another window. Contiguous parts are one range: a pointer into it is one to all. */
static void renew_memory(struct loco_window *win)
{
    unsigned char *from = NULL;
    size_t len = 0;

    loci_renew_own(win->rt, &win->own);
    for (int i = 0; win->contiguous && i < win->group.size; i++) {
        from = from == NULL ? loci_mem_ptr(&win->target[i].mem) : from;
        len += win->target[i].mem.key.len;
    }
    if (from != NULL && win->group.rank != 0)
        loci_renew(win->rt, from, len);
    for (int i = 0; win->queried && !win->contiguous && i < win->group.size; i++) {
        struct loci_mem *mem = &win->target[i].mem;

        if (i != win->group.rank && mem->key.kind == LOCI_MEM_POOL && loci_mem_ptr(mem) != NULL)
            loci_renew(win->rt, loci_mem_ptr(mem), mem->key.len);
    }
}

static int are_silent(void *arg)
{
    const struct loco_window *win = arg;

    for (int i = 0; i < win->group.size; i++) {
        struct loci_peer *peer = loci_peer(win->rt, win->group.peer[i]);

        /* Acquire: pairs with the exchange in loci_peer_silent(). */
        if (!loci_peer_alive(win->rt, peer->index)
            && !atomic_load_explicit(&peer->silent, memory_order_acquire))
            return 0;
    }
    return 1;
}

/* What a member that died had on its way may arrive until the fabric has cut it off, which takes
 * microseconds. */
static bool nothing_arrives(struct loco_window *win)
{
    const struct loci_reason why = {
        .what = "silence of who has gone", .peer = -1, .timeout_ns = loci_grace(win->rt),
        .kind = LOCI_WAIT_OTHER,
    };

    return loci_wait(win->rt, &why, are_silent, win) == LOCO_OK;
}

int loci_window_end(struct loco_window *win)
{
    uint64_t open = LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE | LOCI_EPOCH_BUSY | LOCI_EPOCH_START
                    | LOCI_EPOCH_EXPOSED | LOCI_EPOCH_LOCKS;
    int status, finished;

    if ((atomic_load_explicit(&win->state, memory_order_relaxed) & open) != 0)
        return LOCO_ERR_STATE;
    loci_living_remove(win->rt, &win->living);
    finished = loci_finish(win->rt, -1, &win->group);
    renew_memory(win);
    status = loci_window_barrier(win, LOCI_BARRIER_SURVIVORS);
    /* Where the survivors could not agree, the memory is kept: somebody may still write there. Of a
     * few members each waits for each, and only the dead have not come. */
    if ((status == LOCO_OK
         || (status == LOCO_ERR_PEER_DEAD && win->group.size <= LOCI_WINDOW_FLAT))
        && nothing_arrives(win))
        release_own(win);
    loci_gather_close(win);
    loci_regions_close(win);
    loci_window_pscw_free(win);
    loci_window_deferred_free(win);
    loci_stats_add(win->rt->stats, LOCI_STAT_WINDOWS_FREED, 1);
    return status == LOCO_OK ? finished : status;
}

int loco_window_destroy(loco_window_t *win)
{
    int status = loci_window_end(win);

    if (status != LOCO_ERR_STATE)
        loci_window_free(win);
    return status;
}

/* ---- what it says of itself ---- */

int loco_window_members(const loco_window_t *win)
{
    return win->group.size;
}

int loco_window_rank(const loco_window_t *win)
{
    return win->group.rank;
}

void *loco_window_base(const loco_window_t *win)
{
    return win->base;
}

size_t loco_window_size(const loco_window_t *win, int rank)
{
    return loci_window_has(win, rank) ? win->target[rank].mem.key.len : 0;
}

size_t loco_window_disp_unit(const loco_window_t *win, int rank)
{
    return loci_window_has(win, rank) ? win->target[rank].disp_unit : 0;
}

int loco_window_query(loco_window_t *win, int rank, size_t *size, size_t *disp_unit, void **base)
{
    struct loci_target *t;
    void *p = NULL;
    int status;

    status = loci_check_rank(win->rt, "loco_window_query", NULL, "rank", rank, win->group.size);
    if (status != LOCO_OK)
        return status;
    t = &win->target[rank];
    if (win->kind == LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_SHARED;
    if (t->mem.key.len > 0) {
        p = loci_mem_map(win->rt, &t->mem);
        if (p == NULL)
            return LOCO_ERR_SHARED;
        if (rank != win->group.rank)
            atomic_store_explicit(&win->queried, true, memory_order_relaxed);
    }
    if (size != NULL)
        *size = t->mem.key.len;
    if (disp_unit != NULL)
        *disp_unit = t->disp_unit;
    if (base != NULL)
        *base = p;
    return LOCO_OK;
}

const loco_group_t *loco_window_group(const loco_window_t *win)
{
    return &win->group;
}

/* ---- which epochs are open ---- */

/* With a dead member the window is never calm again: every call comes here first. */
static void look_at_deaths(struct loco_window *win)
{
    unsigned deaths = atomic_load_explicit(&win->rt->deaths, memory_order_acquire);

    for (int i = 0; i < win->group.size; i++)
        if (!loci_peer_alive(win->rt, win->group.peer[i]))
            return;
    atomic_store_explicit(&win->deaths, deaths, memory_order_relaxed);
}

int loci_window_check_alive_slow(struct loco_window *win, int rank)
{
    look_at_deaths(win);
    return loci_peer_alive(win->rt, win->group.peer[rank]) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

int loci_window_check_slow(struct loco_window *win, int rank)
{
    if (!loci_window_has(win, rank))
        return LOCO_ERR_ARG;
    if ((loci_window_epoch(win, rank) & LOCI_EPOCH_ACCESS) == 0
        && loci_window_change(win, LOCI_EPOCH_ACCESS, LOCI_EPOCH_FENCE, 0, LOCI_EPOCH_ACCESS)
           != LOCO_OK
        /* Unless another thread was first. */
        && (loci_window_epoch(win, rank) & LOCI_EPOCH_ACCESS) == 0)
        return LOCO_ERR_STATE;
    return loci_window_check_alive(win, rank);
}
