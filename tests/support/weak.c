/* SPDX-License-Identifier: BSD-3-Clause */

/* See weak.h. One lock over the whole world keeps this simple: the runtimes' own code runs in
 * parallel, the fabric's does not.
 *
 * A lane is a list of operations in order of posting. Each has a time (in ticks of the world)
 * before which nothing advances it of itself, and goes through
 *
 *   write:   POSTED -> source was read -> SENT -> its slot was told -> TOLD -> placed, removed
 *   others:  POSTED -> all before it placed, executed -> SENT -> its slot was told, removed
 *   atomics: POSTED -> the same, word read -> READ -> result stored -> SENT
 *
 * Between an atomic's read and its store the target's device does no other atomic; everything else
 * goes on, the target's CPU above all.
 *
 * Slots are told by polls of the lane only; the rest also happens in ticks, which every idle
 * waiter of the world makes. */

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

#include "memory.h"
#include "runtime.h"
#include "service.h"
#include "wait.h"
#include "weak.h"

#define MAX_MEMBERS 16
#define MAX_EXTENTS 64
#define SLOW_TICKS 300          /* a slow write's delay is up to this... */
#define LATE_TICKS 4000         /* ...and now and then to this */
#define IDENTITY UINT64_C(0x1000)

enum stage { POSTED, READ, SENT, TOLD };

struct pending {
    struct pending *next;
    struct loci_op op;
    enum stage stage;
    uint64_t due;               /* tick */
    unsigned char *target;
    unsigned char *data;        /* of a write, once its source was read */
    size_t placed;              /* bytes of it */
    uint64_t word;              /* a source given by value */
};

struct weak_lane {
    struct weak_lane *next;
    struct loci_lane *lane;
    struct loci_fabric *from, *to;
    struct pending *first;
};

/* An atomic that a member's device has begun. */
struct device {
    struct pending *atomic;     /* in stage READ, or NULL */
    uint64_t old;
};

struct letter {
    struct letter *next;
    int from;
    size_t len;
    unsigned char bytes[LOCI_CONTROL_MAX];
};

struct weak_world;

struct loci_fabric {            /* one member */
    struct weak_world *world;
    struct loco_runtime *rt;
    int rank;
    int event;                  /* letters have come */
    struct letter *letters, **last_letter;
    bool closed;                /* under the lock, as the letters are */
    struct { uint32_t number; unsigned char *base; size_t len; } extent[MAX_EXTENTS];
    struct loci_peer *peer[MAX_MEMBERS];
    struct device device;
    bool held[MAX_MEMBERS];     /* what goes to these; under the lock */
    _Atomic bool dead;
};

struct weak_world {
    pthread_mutex_t lock;
    pthread_barrier_t meet;
    int size;
    uint64_t random;
    uint64_t tick;
    struct weak_lane *lanes;
    const struct weak_faults *faults;   /* or NULL */
    int letters;                        /* sent */
    int64_t begun;                      /* when, by the system's clock */
    struct loci_fabric member[MAX_MEMBERS];
    unsigned char gathered[MAX_MEMBERS][256];
    pthread_mutex_t log_lock;
    char *log;                  /* all lines */
    size_t log_len;
};

static uint64_t draw(struct weak_world *world)
{
    uint64_t z = (world->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The second half of the atomic that this device has begun; the first is as long ago as chance
 * would have it. */
static void finish_atomic(struct device *device)
{
    struct pending *p = device->atomic;
    uint64_t *word = (uint64_t *)(void *)p->target;

    if (p->op.kind == LOCI_FETCH_ADD)
        __atomic_store_n(word, device->old + p->op.operand, __ATOMIC_RELEASE);
    else if (device->old == p->op.compare)
        __atomic_store_n(word, p->op.operand, __ATOMIC_RELEASE);
    *p->op.result = device->old;
    p->stage = SENT;
    device->atomic = NULL;
}

/* ---- memory ---- */

static int extent_create(struct loci_fabric *f, struct loci_extent *extent)
{
    int i = 0;
    void *base;

    while (i < MAX_EXTENTS && f->extent[i].base != NULL)
        i++;
    if (i == MAX_EXTENTS)
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

static int extent_grow(struct loci_fabric *f, struct loci_extent *extent, size_t committed)
{
    (void)f;
    (void)extent;
    (void)committed;
    return LOCO_OK;
}

static void extent_destroy(struct loci_fabric *f, struct loci_extent *extent)
{
    pthread_mutex_lock(&f->world->lock);
    if (f->device.atomic != NULL)       /* that nobody has waited for */
        finish_atomic(&f->device);
    for (int i = 0; i < MAX_EXTENTS; i++)
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

/* Where an operation goes; NULL for memory that is not there (any more). */
static unsigned char *resolve(struct loci_fabric *to, const struct loci_op *op)
{
    const struct loci_memkey *key = &op->mem->key;

    if (op->offset + op->len > key->len)
        return NULL;
    if (key->kind == LOCI_MEM_USER)
        return (unsigned char *)(uintptr_t)key->base + op->offset;
    for (int i = 0; i < MAX_EXTENTS; i++)
        if (to->extent[i].base != NULL && to->extent[i].number == key->extent
            && key->base + key->len <= to->extent[i].len)
            return to->extent[i].base + key->base + op->offset;
    return NULL;
}

/* Bytes as the device would move them: aligned words whole, the rest one by one. */
static void move(unsigned char *to, const unsigned char *from, size_t len, bool to_network)
{
    size_t i = 0;

    while (i < len) {
        unsigned char *network = to_network ? to + i : (unsigned char *)from + i;
        uint64_t word;

        if (len - i < 8 || ((uintptr_t)network & 7) != 0) {
            __atomic_store_n(to + i, __atomic_load_n(from + i, __ATOMIC_RELAXED),
                             __ATOMIC_RELAXED);
            i++;
            continue;
        }
        if (to_network) {
            memcpy(&word, from + i, 8);
            __atomic_store_n((uint64_t *)(void *)network, word, __ATOMIC_RELEASE);
        } else {
            word = __atomic_load_n((uint64_t *)(void *)network, __ATOMIC_ACQUIRE);
            memcpy(to + i, &word, 8);
        }
        i += 8;
    }
}

/* ---- lanes: under the world's lock ---- */

static void read_source(struct pending *p)
{
    if (p->data != NULL)
        return;
    p->data = malloc(p->op.len + 1);
    if (p->op.by_value)
        memcpy(p->data, &p->word, p->op.len);
    else
        move(p->data, p->op.local, p->op.len, false);
}

/* All of a write, or about half of what is left. */
static bool place(struct weak_lane *lane, struct pending *p, bool all)
{
    size_t left = p->op.len - p->placed, n = left;

    read_source(p);
    if (!all && left > 8 && draw(lane->from->world) % 2 == 0)
        n = (left / 2 + 7) & ~(size_t)7;
    move(p->target + p->placed, p->data + p->placed, n, true);
    p->placed += n;
    return p->placed == p->op.len;
}

static bool is_atomic(const struct pending *p)
{
    return p->op.kind == LOCI_FETCH_ADD || p->op.kind == LOCI_COMPARE_SWAP;
}

/* Both halves, some time apart: whether it is done. */
static bool do_atomic(struct weak_lane *lane, struct pending *p)
{
    struct device *device = &lane->to->device;

    if (p->stage == POSTED) {
        if (device->atomic != NULL)
            return false;
        device->atomic = p;
        device->old = __atomic_load_n((uint64_t *)(void *)p->target, __ATOMIC_ACQUIRE);
        p->stage = READ;
    }
    if (draw(lane->from->world) % 2 == 0)
        return false;
    finish_atomic(device);
    return true;
}

/* What the device has begun it ends, whatever becomes of the poster (and of its variables). */
static void drop(struct weak_lane *lane, struct pending *p)
{
    uint64_t nowhere;

    if (p->stage == READ) {
        p->op.result = &nowhere;
        finish_atomic(&lane->to->device);
    }
    free(p->data);
    free(p);
}

/* What is no more than a placed write that was told goes. */
static void prune(struct weak_lane *lane)
{
    while (lane->first != NULL && lane->first->op.kind == LOCI_WRITE
           && lane->first->stage == TOLD && lane->first->placed == lane->first->op.len) {
        struct pending *p = lane->first;

        lane->first = p->next;
        drop(lane, p);
    }
}

/* What is not a write; whether it is done. */
static bool execute(struct weak_lane *lane, struct pending *p)
{
    for (struct pending *q = lane->first; q != p; q = q->next)
        if (q->op.kind == LOCI_WRITE && q->placed < q->op.len)
            place(lane, q, true);
    if (is_atomic(p))
        return do_atomic(lane, p);
    if (p->op.kind == LOCI_READ)
        move(p->op.local, p->target, p->op.len, false);
    return true;
}

/* Advance a lane's operations up to, sometimes through, the first that is not due. */
static void advance(struct weak_lane *lane)
{
    struct weak_world *world = lane->from->world;
    bool in_order = true;       /* all before this one are placed */

    if (lane->from->held[lane->to->rank])
        return;
    for (struct pending *p = lane->first; p != NULL; p = p->next) {
        if (p->op.kind == LOCI_WRITE) {
            if (p->stage == POSTED && draw(world) % 2 == 0) {
                read_source(p);
                p->stage = SENT;
            }
            if (p->stage == POSTED)
                return;
            if (in_order && p->due <= world->tick && p->placed < p->op.len)
                place(lane, p, false);
            in_order = in_order && p->placed == p->op.len;
        } else if (p->stage < SENT) {
            if (draw(world) % 4 == 0 || !execute(lane, p))
                return;
            p->stage = SENT;
            in_order = true;
        }
    }
    prune(lane);
}

/* A waiter idles: a random lane or two move on. */
static void tick(struct weak_world *world)
{
    pthread_mutex_lock(&world->lock);
    world->tick++;
    for (struct weak_lane *lane = world->lanes; lane != NULL; lane = lane->next)
        if (lane->first != NULL && draw(world) % 3 == 0)
            advance(lane);
    pthread_mutex_unlock(&world->lock);
}

static int lane_open(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = calloc(1, sizeof *w);

    if (w == NULL)
        return LOCO_ERR_NO_MEMORY;
    w->lane = lane;
    w->from = f;
    w->to = &f->world->member[lane->peer->address.identity - IDENTITY];
    pthread_mutex_lock(&f->world->lock);
    w->next = f->world->lanes;
    f->world->lanes = w;
    pthread_mutex_unlock(&f->world->lock);
    lane->fabric_data = w;
    return LOCO_OK;
}

static void lane_close(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = lane->fabric_data, **link = &f->world->lanes;

    pthread_mutex_lock(&f->world->lock);
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    while (w->first != NULL) {
        struct pending *p = w->first;

        w->first = p->next;
        drop(w, p);     /* the target's device is the whole world's, too */
    }
    pthread_mutex_unlock(&f->world->lock);
    free(w);
}

/* Half of the writes are quick, some very late. */
static uint64_t delay(struct weak_world *world)
{
    switch (draw(world) % 8) {
    case 0: return draw(world) % LATE_TICKS;
    case 1: case 2: case 3: return draw(world) % SLOW_TICKS;
    default: return draw(world) % 4;
    }
}

static struct pending *make_pending(struct weak_lane *lane, const struct loci_op *op)
{
    struct weak_world *world = lane->from->world;
    struct pending *p = calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    p->op = *op;
    p->due = world->tick + delay(world);
    if (op->by_value)
        memcpy(&p->word, op->local, op->len);
    return p;
}

static int post_one(struct weak_lane *lane, const struct loci_op *op)
{
    struct pending *p, **end = &lane->first;
    unsigned char *target = NULL;
    int depth = 0;

    if (atomic_load(&lane->to->dead) || atomic_load(&lane->from->dead))
        return LOCO_ERR_PEER_DEAD;
    if (op->kind != LOCI_PLACE && (target = resolve(lane->to, op)) == NULL)
        return LOCO_ERR_RANGE;
    for (; *end != NULL; end = &(*end)->next)
        depth++;
    if (depth >= WEAK_LANE_ROOM || draw(lane->from->world) % 16 == 0)
        return LOCO_ERR_AGAIN;
    p = make_pending(lane, op);
    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->target = target;
    *end = p;
    return LOCO_IN_PROGRESS;
}

static int post(struct loci_fabric *f, struct loci_lane *lane, struct loci_op *ops, int n,
                int *posted)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&f->world->lock);
    for (*posted = 0; *posted < n; (*posted)++) {
        status = post_one(lane->fabric_data, &ops[*posted]);
        if (status < 0)
            break;
    }
    pthread_mutex_unlock(&f->world->lock);
    return status;
}

/* Tell slots, in order. Of a dead peer: all fail. */
static int tell(struct weak_lane *lane)
{
    bool dead = atomic_load(&lane->to->dead);
    struct pending **link = &lane->first;
    int told = 0;

    while (*link != NULL) {
        struct pending *p = *link;

        if (p->stage < SENT && !dead)
            break;
        if (p->stage != TOLD) {
            loci_slot_done(p->op.slot, p->stage < SENT ? LOCO_ERR_PEER_DEAD : LOCO_OK);
            p->stage = TOLD;
            told++;
        }
        if (p->op.kind == LOCI_WRITE && !dead && p->placed < p->op.len) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        drop(lane, p);
    }
    return told;
}

static int poll(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = lane->fabric_data;
    int told;

    pthread_mutex_lock(&f->world->lock);
    f->world->tick++;
    if (w->first != NULL && draw(f->world) % 2 == 0)
        advance(w);
    told = tell(w);
    pthread_mutex_unlock(&f->world->lock);
    return told;
}

/* ---- control ---- */

/* In percent; under the lock. */
static bool happens(struct weak_world *world, unsigned percent)
{
    return percent != 0 && draw(world) % 100 < percent;
}

/* The letter that arrives next: the first one, or, with faults, the first one of some sender, or
 * any. Under the lock. */
static struct letter **next_letter(struct loci_fabric *f)
{
    struct weak_world *world = f->world;
    struct letter **link = &f->letters, **first = &f->letters;
    unsigned count = 0, at;

    for (struct letter *letter = f->letters; letter != NULL; letter = letter->next)
        count++;
    if (world->faults == NULL || count == 0)
        return link;
    for (at = (unsigned)(draw(world) % count); at > 0; at--)
        link = &(*link)->next;
    if (happens(world, world->faults->overtake))
        return link;
    while ((*first)->from != (*link)->from)
        first = &(*first)->next;
    return first;
}

/* NULL: none, or they are delayed. */
static struct letter *take_letter(struct loci_fabric *f, struct loci_peer **from)
{
    struct weak_world *world = f->world;
    struct letter **link, *letter = NULL;

    pthread_mutex_lock(&world->lock);
    link = next_letter(f);
    if (*link != NULL && (world->faults == NULL || !happens(world, world->faults->delay))) {
        letter = *link;
        *link = letter->next;
        if (*link == NULL)
            f->last_letter = link;
        *from = f->peer[letter->from];
    }
    pthread_mutex_unlock(&world->lock);
    return letter;
}

static void on_letters(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct loci_fabric *f = ctx;
    struct loci_peer *from = NULL;
    struct letter *letter;
    uint64_t count;

    (void)events;
    if (read(fd, &count, sizeof count) < 0)
        return;
    while ((letter = take_letter(f, &from)) != NULL) {
        if (from != NULL && !atomic_load(&f->dead))
            loci_control_receive(rt, from->index, letter->bytes, letter->len);
        free(letter);
    }
}

/* Under the lock. */
static int put_letter(struct loci_fabric *f, struct loci_fabric *to, const void *message,
                      size_t len)
{
    const struct weak_faults *faults = f->world->faults;
    int number = f->world->letters++;
    struct letter *letter;

    if (faults != NULL
        && (happens(f->world, faults->lose)
            || (number < 64 && (faults->lose_these >> number & 1) != 0)))
        return LOCO_OK;
    letter = calloc(1, sizeof *letter);
    if (letter == NULL || len > sizeof letter->bytes) {
        free(letter);
        return LOCO_ERR_NO_MEMORY;
    }
    letter->from = f->rank;
    letter->len = len;
    memcpy(letter->bytes, message, len);
    if (faults != NULL && happens(f->world, faults->garble))
        letter->bytes[draw(f->world) % len] ^= (unsigned char)(1u << draw(f->world) % 8);
    *to->last_letter = letter;
    to->last_letter = &letter->next;
    return LOCO_OK;
}

static int control_send(struct loci_fabric *f, struct loci_peer *peer, const void *message,
                        size_t len)
{
    struct loci_fabric *to = &f->world->member[peer->address.identity - IDENTITY];
    const struct weak_faults *faults = f->world->faults;
    uint64_t one = 1;
    int status;

    if (atomic_load(&to->dead))
        return LOCO_ERR_PEER_DEAD;
    pthread_mutex_lock(&f->world->lock);
    status = to->closed ? LOCO_ERR_PEER_DEAD : put_letter(f, to, message, len);
    if (status == LOCO_OK && faults != NULL && happens(f->world, faults->twice))
        status = put_letter(f, to, message, len);
    /* Under the lock: the number of a closed event may soon be another's. */
    if (status == LOCO_OK && write(to->event, &one, sizeof one) != sizeof one)
        status = LOCO_ERR_SYSTEM;
    pthread_mutex_unlock(&f->world->lock);
    return status;
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
                        : loci_service_watch(rt, f->event, EPOLLIN, on_letters, f);
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
    f->peer[peer->address.identity - IDENTITY] = peer;
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
    .lane_open = lane_open,
    .lane_close = lane_close,
    .post = post,
    .poll = poll,
    .control_send = control_send,
};

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
            drop(lane, p);
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
    value = draw(f->world);
    pthread_mutex_unlock(&f->world->lock);
    return value;
}

static void host_idle(void *ctx, unsigned rounds)
{
    struct loci_fabric *f = ctx;

    (void)rounds;
    tick(f->world);
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
        .identity = IDENTITY + (uint64_t)f->rank,
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
    struct runner runner[MAX_MEMBERS];
    pthread_t thread[MAX_MEMBERS];
    int result = 0;

    if (world == NULL || n > MAX_MEMBERS)
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
