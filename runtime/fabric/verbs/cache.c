/* SPDX-License-Identifier: BSD-3-Clause */

/* Registrations of the program's memory: of windows that it brought, and of the sources and
 * destinations of long operations. Registering pins each page by a system call, so what is not
 * used any more is kept for the next time, as long as there is room (LOCO_RDMA_CACHE bytes,
 * VERBS_KEPT of them); the one that was used longest ago goes first.
 *
 * A device goes on with the pages that it was told of. If the program gives memory back and gets
 * other pages at the same addresses, what was kept of them would read and write the old ones. So
 * something is kept only where the host says before memory goes (loci_host.watch_memory). It says
 * so in the thread that gives it back, inside an allocator, perhaps while that very thread
 * registers something, so released() takes no lock and allocates nothing: it marks, and whoever
 * has the lock next lets go; the service thread is woken to.
 *
 * Nothing of an old mapping is ever used:
 *   - An entry's range is there before its pages are pinned, by a thread that was given the memory
 *     for an operation, which thus is not being given back. So a release that comes after finds it.
 *   - A thread that was given memory at these addresses later knows of it by something that came
 *     after the release's mark, and finds it.
 *   - An entry that has another range by the time that it is marked is registered once in vain.
 *   - Only what may be written is kept: of a page that may only be read, a device may have been
 *     told of a copy that is shared until somebody writes. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs.h"

#define MAY_WRITE IBV_ACCESS_LOCAL_WRITE

static bool is_kept(const struct verbs_fabric *f, const struct verbs_registration *r)
{
    return r >= f->cache.entries && r < f->cache.entries + VERBS_KEPT;
}

static bool is_free(const struct verbs_registration *r)
{
    return r->mr == NULL;
}

/* ---- memory that goes ---- */

/* loci_released_fn */
static void released(void *arg, const void *base, size_t len)
{
    struct verbs_fabric *f = arg;
    uintptr_t begin = (uintptr_t)base;
    const uint64_t one = 1;
    int error = errno;
    bool any = false;

    for (int i = 0; i < VERBS_KEPT; i++) {
        struct verbs_registration *r = &f->cache.entries[i];
        uintptr_t from = atomic_load(&r->begin);

        if (from != 0 && from < begin + len && begin < atomic_load(&r->end)) {
            atomic_store(&r->stale, true);
            any = true;
        }
    }
    if (any && write(f->news_fd, &one, sizeof one) < 0)
        errno = error;      /* its count is full: the service thread will look; munmap goes on */
}

/* ---- entries, under the lock ---- */

static void drop(struct verbs_fabric *f, struct verbs_registration *r)
{
    errno = ibv_dereg_mr(r->mr);
    if (errno != 0)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "the program's memory stays registered with %s: %m",
                 f->port.device);
    if (!is_kept(f, r)) {
        free(r);
        return;
    }
    f->cache.bytes -= r->end - r->begin;
    r->mr = NULL;
    atomic_store(&r->begin, 0);
}

static void drop_stale(struct verbs_fabric *f)
{
    for (int i = 0; i < VERBS_KEPT; i++) {
        struct verbs_registration *r = &f->cache.entries[i];

        if (!is_free(r) && r->users == 0 && atomic_load(&r->stale))
            drop(f, r);
    }
}

static bool drop_oldest(struct verbs_fabric *f)
{
    struct verbs_registration *oldest = NULL;

    for (int i = 0; i < VERBS_KEPT; i++) {
        struct verbs_registration *r = &f->cache.entries[i];

        if (!is_free(r) && r->users == 0 && (oldest == NULL || r->used < oldest->used))
            oldest = r;
    }
    if (oldest != NULL)
        drop(f, oldest);
    return oldest != NULL;
}

static struct verbs_registration *find(struct verbs_fabric *f, uintptr_t begin, size_t len,
                                       int rights)
{
    for (int i = 0; i < VERBS_KEPT; i++) {
        struct verbs_registration *r = &f->cache.entries[i];

        if (!is_free(r) && begin >= r->begin && begin + len <= r->end
            && (r->rights & rights) == rights && !atomic_load(&r->stale))
            return r;
    }
    return NULL;
}

/* A free entry, where this may be kept. */
static struct verbs_registration *place_for(struct verbs_fabric *f, size_t len)
{
    size_t most = (size_t)f->rt->tunables.rdma_cache;

    if (!f->cache.watched || len > most)
        return NULL;
    while (len > most - f->cache.bytes && drop_oldest(f))
        ;
    if (len > most - f->cache.bytes)
        return NULL;
    do {
        for (int i = 0; i < VERBS_KEPT; i++)
            if (is_free(&f->cache.entries[i]))
                return &f->cache.entries[i];
    } while (drop_oldest(f));
    return NULL;
}

/* Where there is no room for more pinned pages, nothing need be kept. */
static struct ibv_mr *reg_mr(struct verbs_fabric *f, void *base, size_t len, int rights)
{
    struct ibv_mr *mr;

    do
        mr = ibv_reg_mr(f->pd, base, len, rights);
    while (mr == NULL && errno == ENOMEM && drop_oldest(f));
    return mr;
}

static struct verbs_registration *keep(struct verbs_fabric *f, struct verbs_registration *r,
                                       void *base, size_t len, int rights)
{
    atomic_store(&r->stale, false);
    atomic_store(&r->end, (uintptr_t)base + len);
    atomic_store(&r->begin, (uintptr_t)base);
    r->rights = rights;
    r->mr = reg_mr(f, base, len, rights);
    if (r->mr == NULL) {
        atomic_store(&r->begin, 0);
        return NULL;
    }
    f->cache.bytes += len;
    return r;
}

/* For this use alone. What may not be written is registered without that. */
static struct verbs_registration *use_once(struct verbs_fabric *f, void *base, size_t len,
                                           int rights, int least)
{
    struct verbs_registration *r = calloc(1, sizeof *r);
    int error;

    if (r == NULL)
        return NULL;
    r->mr = reg_mr(f, base, len, rights);
    if (r->mr == NULL && rights != least && loci_verbs_is_protection(errno))
        r->mr = reg_mr(f, base, len, least);
    if (r->mr != NULL)
        return r;
    error = errno;
    free(r);
    errno = error;
    return NULL;
}

static struct verbs_registration *make(struct verbs_fabric *f, void *base, size_t len, int rights,
                                       int least)
{
    struct verbs_registration *place = place_for(f, len), *r = NULL;

    if (place != NULL)
        r = keep(f, place, base, len, rights);
    return r != NULL ? r : use_once(f, base, len, rights, least);
}

/* ---- for others ---- */

struct verbs_registration *loci_verbs_register(struct verbs_fabric *f, void *base, size_t len,
                                               int rights, int least)
{
    struct verbs_registration *r;

    pthread_mutex_lock(&f->cache.lock);
    drop_stale(f);
    r = find(f, (uintptr_t)base, len, rights | MAY_WRITE);
    loci_stats_add(f->rt->stats, r != NULL ? LOCI_STAT_REGISTRATIONS_KEPT
                                           : LOCI_STAT_REGISTRATIONS, 1);
    if (r == NULL)
        r = make(f, base, len, rights | MAY_WRITE, least);
    if (r != NULL) {
        r->users++;
        r->used = ++f->cache.uses;
    }
    pthread_mutex_unlock(&f->cache.lock);
    return r;
}

void loci_verbs_unregister(struct verbs_fabric *f, struct verbs_registration *r)
{
    pthread_mutex_lock(&f->cache.lock);
    if (--r->users == 0 && (!is_kept(f, r) || atomic_load(&r->stale)))
        drop(f, r);
    pthread_mutex_unlock(&f->cache.lock);
}

bool loci_verbs_keep_less(struct verbs_fabric *f)
{
    bool any = false;

    pthread_mutex_lock(&f->cache.lock);
    while (drop_oldest(f))
        any = true;
    pthread_mutex_unlock(&f->cache.lock);
    return any;
}

void loci_verbs_drop_stale(struct verbs_fabric *f)
{
    pthread_mutex_lock(&f->cache.lock);
    drop_stale(f);
    pthread_mutex_unlock(&f->cache.lock);
}

void loci_verbs_cache_open(struct verbs_fabric *f)
{
    const struct loci_host *host = &f->rt->host;

    f->cache.watched = f->rt->tunables.rdma_cache > 0 && host->watch_memory != NULL
                       && host->watch_memory(host->ctx, released, f) == LOCO_OK;
    if (!f->cache.watched && f->rt->tunables.rdma_cache > 0)
        LOCI_LOG(f->rt, LOCO_LOG_INFO, "no registration of the program's memory is kept: nobody "
                 "says when it is given back");
}

void loci_verbs_cache_close(struct verbs_fabric *f)
{
    const struct loci_host *host = &f->rt->host;

    if (f->cache.watched)
        host->watch_memory(host->ctx, NULL, NULL);
    f->cache.watched = false;
    for (int i = 0; i < VERBS_KEPT; i++)
        if (!is_free(&f->cache.entries[i]))
            drop(f, &f->cache.entries[i]);
}
