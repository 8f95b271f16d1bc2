/* SPDX-License-Identifier: BSD-3-Clause */

/* See weak.h: the members of a world, their memory, and how they run. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "service.h"
#include "wait.h"
#include "weak_world.h"

uint64_t weak_draw(struct weak_world *world)
{
    uint64_t z = (world->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- memory ---- */

static int extent_create(struct loci_fabric *f, struct loci_extent *extent)
{
    int i = 0;
    void *base;

    while (i < WEAK_EXTENTS && f->extent[i].base != NULL)
        i++;
    if (i == WEAK_EXTENTS)
        return LOCO_ERR_NO_MEMORY;
    base = mmap(NULL, extent->len, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_lock(&f->world->lock);
    f->extent[i].number = extent->number;
    f->extent[i].base = base;
    f->extent[i].len = extent->len;
    pthread_mutex_unlock(&f->world->lock);
    extent->base = base;
    return LOCO_OK;
}

static int extent_grow(struct loci_fabric *f, struct loci_extent *extent, size_t from, size_t to)
{
    (void)f;
    (void)extent;
    (void)from;
    (void)to;
    return LOCO_OK;
}

static void extent_destroy(struct loci_fabric *f, struct loci_extent *extent)
{
    pthread_mutex_lock(&f->world->lock);
    if (f->device.atomic != NULL)       /* that nobody has waited for */
        weak_finish_atomic(&f->device);
    for (int i = 0; i < WEAK_EXTENTS; i++)
        if (f->extent[i].base == extent->base)
            f->extent[i].base = NULL;
    pthread_mutex_unlock(&f->world->lock);
    munmap(extent->base, extent->len);
}

static int user_add(struct loci_fabric *f, void *base, size_t len, struct loci_memkey *key)
{
    (void)f;
    (void)base;
    (void)len;
    key->extent = 0;
    return LOCO_OK;
}

static void user_remove(struct loci_fabric *f, const struct loci_memkey *key)
{
    (void)f;
    (void)key;
}

static unsigned char *map(struct loci_fabric *f, const struct loci_mem *mem)
{
    (void)f;
    (void)mem;
    return NULL;
}

/* ---- life ---- */

static int fabric_open(struct loco_runtime *rt, struct loci_address *mine,
                       struct loci_fabric **fabric)
{
    struct loci_fabric *f = rt->host.ctx;

    (void)mine;
    f->rt = rt;
    f->event = eventfd(0, EFD_CLOEXEC);
    f->last_letter = &f->letters;
    *fabric = f;
    return f->event < 0 ? LOCO_ERR_SYSTEM
                        : loci_service_watch(rt, f->event, EPOLLIN, weak_on_letters, f);
}

static void fabric_close(struct loci_fabric *f)
{
    loci_service_unwatch(f->rt, f->event);
    pthread_mutex_lock(&f->world->lock);
    f->closed = true;       /* who is open still may answer a letter of ours now */
    close(f->event);
    while (f->letters != NULL) {
        struct letter *letter = f->letters;

        f->letters = letter->next;
        free(letter);
    }
    pthread_mutex_unlock(&f->world->lock);
}

static int peer_add(struct loci_fabric *f, struct loci_peer *peer)
{
    pthread_mutex_lock(&f->world->lock);
    f->peer[peer->address.identity - WEAK_IDENTITY] = peer;
    pthread_mutex_unlock(&f->world->lock);
    return LOCO_OK;
}

static void peer_remove(struct loci_fabric *f, struct loci_peer *peer)
{
    (void)f;
    (void)peer;
}

static const struct loci_fabric_ops weak_ops = {
    .name = "weak",
    .open = fabric_open,
    .close = fabric_close,
    .peer_add = peer_add,
    .peer_remove = peer_remove,
    .extent_create = extent_create,
    .extent_grow = extent_grow,
    .extent_destroy = extent_destroy,
    .user_add = user_add,
    .user_remove = user_remove,
    .map = map,
    .lane_open = weak_lane_open,
    .lane_close = weak_lane_close,
    .lane_mend = weak_lane_mend,
    .post = weak_post,
    .poll = weak_poll,
    .control_send = weak_control_send,
};

void weak_refuse_later(loco_runtime_t *rt)
{
    pthread_mutex_lock(&rt->fabric->world->lock);
    rt->fabric->refused_later = true;
    pthread_mutex_unlock(&rt->fabric->world->lock);
}

void weak_hold(loco_runtime_t *rt, int to, bool held)
{
    struct loci_fabric *f = rt->host.ctx;

    pthread_mutex_lock(&f->world->lock);
    f->held[to] = held;
    pthread_mutex_unlock(&f->world->lock);
}

void weak_die(loco_runtime_t *rt)
{
    struct loci_fabric *f = rt->host.ctx;

    pthread_mutex_lock(&f->world->lock);
    atomic_store(&f->dead, true);
    if (f->device.atomic != NULL) {     /* never stored */
        f->device.atomic->stage = POSTED;
        f->device.atomic = NULL;
    }
    for (struct weak_lane *lane = f->world->lanes; lane != NULL; lane = lane->next)
        while (lane->from == f && lane->first != NULL) {
            struct pending *p = lane->first;

            lane->first = p->next;
            if (p->stage != TOLD)
                loci_slot_done(p->op.slot, LOCO_ERR_PEER_DEAD);
            weak_drop(lane, p);
        }
    pthread_mutex_unlock(&f->world->lock);
    for (int i = 0; i < f->world->size; i++) {
        struct loci_fabric *other = &f->world->member[i];

        if (other != f && other->peer[f->rank] != NULL)
            loci_peer_gone(other->rt, other->peer[f->rank], LOCI_PEER_DEAD, "it was told to die");
    }
}

/* ---- running ---- */

static int64_t host_now(void *ctx)
{
    const struct weak_world *world = ((struct loci_fabric *)ctx)->world;
    int64_t now = loci_host_system.now(NULL);

    if (world->faults == NULL || world->faults->speed == 0)
        return now;
    return world->begun + (world->faults->speed < 0 ? 0 : now - world->begun)
           * world->faults->speed;
}

static uint64_t host_random(void *ctx)
{
    struct loci_fabric *f = ctx;
    uint64_t value;

    pthread_mutex_lock(&f->world->lock);
    value = weak_draw(f->world);
    pthread_mutex_unlock(&f->world->lock);
    return value;
}

static void host_idle(void *ctx, unsigned rounds)
{
    struct loci_fabric *f = ctx;

    (void)rounds;
    weak_tick(f->world);
    sched_yield();
}

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    struct loci_fabric *f = ctx;
    struct weak_world *world = f->world;

    if (len > sizeof world->gathered[0])
        return LOCO_ERR_ARG;
    memcpy(world->gathered[f->rank], mine, len);
    pthread_barrier_wait(&world->meet);
    for (int i = 0; i < world->size; i++)
        memcpy((unsigned char *)all + (size_t)i * len, world->gathered[i], len);
    pthread_barrier_wait(&world->meet);
    return LOCO_OK;
}

static void log_line(void *ctx, int level, const char *text)
{
    struct weak_world *world = ctx;
    size_t len = strlen(text);

    if (level > LOCO_LOG_WARN)
        return;
    pthread_mutex_lock(&world->log_lock);
    world->log = realloc(world->log, world->log_len + len + 2);
    memcpy(world->log + world->log_len, text, len);
    world->log_len += len;
    world->log[world->log_len++] = '\n';
    world->log[world->log_len] = '\0';
    pthread_mutex_unlock(&world->log_lock);
}

int weak_logged(loco_runtime_t *rt, const char *text)
{
    struct weak_world *world = ((struct loci_fabric *)rt->host.ctx)->world;
    int count = 0;

    pthread_mutex_lock(&world->log_lock);
    for (const char *p = world->log; p != NULL && (p = strstr(p, text)) != NULL; p++) {
        count++;
        p = strchr(p, '\n');
    }
    pthread_mutex_unlock(&world->log_lock);
    return count;
}

int weak_letters(loco_runtime_t *rt)
{
    struct weak_world *world = ((struct loci_fabric *)rt->host.ctx)->world;
    int letters;

    pthread_mutex_lock(&world->lock);
    letters = world->letters;
    pthread_mutex_unlock(&world->lock);
    return letters;
}

struct runner {
    struct loci_fabric *member;
    const char *const *settings;
    weak_fn *fn;
    void *arg;
    int result;
};

static void *run_member(void *arg)
{
    struct runner *r = arg;
    struct loci_fabric *f = r->member;
    const struct loci_host host = {
        .ctx = f, .now = host_now, .random = host_random, .idle = host_idle,
    };
    const struct loco_bootstrap boot = {
        .identity = WEAK_IDENTITY + (uint64_t)f->rank,
        .exchange = { f, f->rank, f->world->size, allgather },
        .log = log_line, .log_ctx = f->world, .settings = r->settings,
    };
    loco_runtime_t *rt;

    r->result = loci_runtime_open(&boot, &host, &weak_ops, &rt);
    pthread_barrier_wait(&f->world->meet);
    if (r->result == LOCO_OK)
        r->result = r->fn(rt, f->rank, r->arg);
    if (r->result != 0)
        fprintf(stderr, "weak: rank %d returned %d\n", f->rank, r->result);
    pthread_barrier_wait(&f->world->meet);
    loco_runtime_close(rt);
    return NULL;
}

static int run(int n, uint64_t seed, const char *const *settings,
               const struct weak_faults *faults, weak_fn *fn, void *arg)
{
    struct weak_world *world = calloc(1, sizeof *world);
    struct runner runner[WEAK_MEMBERS];
    pthread_t thread[WEAK_MEMBERS];
    int result = 0;

    if (world == NULL || n > WEAK_MEMBERS)
        return -1;
    world->size = n;
    world->random = seed;
    world->faults = faults;
    world->begun = loci_host_system.now(NULL);
    pthread_mutex_init(&world->lock, NULL);
    pthread_mutex_init(&world->log_lock, NULL);
    pthread_barrier_init(&world->meet, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        world->member[i].world = world;
        world->member[i].rank = i;
        runner[i] = (struct runner){ &world->member[i], settings, fn, arg, 0 };
        if (pthread_create(&thread[i], NULL, run_member, &runner[i]) != 0)
            abort();
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    for (int i = n - 1; i >= 0; i--)
        if (runner[i].result != 0)
            result = runner[i].result;
    if (result != 0)
        fprintf(stderr, "weak: seed %llu, log:\n%s", (unsigned long long)seed,
                world->log == NULL ? "" : world->log);
    free(world->log);
    pthread_barrier_destroy(&world->meet);
    free(world);
    return result;
}

int weak_run(int n, uint64_t seed, const char *const *settings, weak_fn *fn, void *arg)
{
    return run(n, seed, settings, NULL, fn, arg);
}

int weak_run_faulty(int n, uint64_t seed, const struct weak_faults *faults, weak_fn *fn, void *arg)
{
    return run(n, seed, NULL, faults, fn, arg);
}
