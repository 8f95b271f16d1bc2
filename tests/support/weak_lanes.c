/* SPDX-License-Identifier: BSD-3-Clause */

/* Operations of the fabric for tests.
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

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "weak_world.h"

#define SLOW_TICKS 300          /* a slow write's delay is up to this... */
#define LATE_TICKS 4000         /* ...and now and then to this */

/* ---- memory ---- */

/* Where an operation goes; NULL for memory that is not there (any more). */
static unsigned char *resolve(struct loci_fabric *to, const struct loci_op *op)
{
    const struct loci_memkey *key = &op->mem->key;

    if (op->offset + op->len > key->len)
        return NULL;
    if (key->kind == LOCI_MEM_USER)
        return (unsigned char *)(uintptr_t)key->base + op->offset;
    for (int i = 0; i < WEAK_EXTENTS; i++)
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

void weak_finish_atomic(struct device *device)
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

/* ---- one lane: under the world's lock ---- */

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
    if (!all && left > 8 && weak_draw(lane->from->world) % 2 == 0)
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
    if (weak_draw(lane->from->world) % 2 == 0)
        return false;
    lane->swap_failed = p->op.kind == LOCI_COMPARE_SWAP && device->old != p->op.compare;
    weak_finish_atomic(device);
    return true;
}

void weak_drop(struct weak_lane *lane, struct pending *p)
{
    uint64_t nowhere;

    if (p->stage == READ) {
        p->op.result = &nowhere;
        weak_finish_atomic(&lane->to->device);
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
        weak_drop(lane, p);
    }
}

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#else
#define AnnotateIgnoreReadsBegin(file, line) (void)0
#define AnnotateIgnoreReadsEnd(file, line) (void)0
#endif

/* Behind a swap that failed it may be of what others store meanwhile, which is no race for a
 * device: who posted both in a chain looks at the swap first, and throws away what was read. */
static void read_target(const struct weak_lane *lane, struct pending *p)
{
    bool raced = lane->swap_failed;

    if (raced)
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    move(p->op.local, p->target, p->op.len, false);
    if (raced)
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
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
        read_target(lane, p);
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
        if (p->refused) {
            lane->refused = true;
            break;
        }
        if (p->op.kind == LOCI_WRITE) {
            if (p->stage == POSTED && weak_draw(world) % 2 == 0) {
                read_source(p);
                p->stage = SENT;
            }
            if (p->stage == POSTED)
                return;
            if (in_order && p->due <= world->tick && p->placed < p->op.len)
                place(lane, p, false);
            in_order = in_order && p->placed == p->op.len;
        } else if (p->stage < SENT) {
            if (weak_draw(world) % 4 == 0 || !execute(lane, p))
                return;
            p->stage = SENT;
            in_order = true;
        }
    }
    prune(lane);
}

void weak_tick(struct weak_world *world)
{
    pthread_mutex_lock(&world->lock);
    world->tick++;
    for (struct weak_lane *lane = world->lanes; lane != NULL; lane = lane->next)
        if (lane->first != NULL && weak_draw(world) % 3 == 0)
            advance(lane);
    pthread_mutex_unlock(&world->lock);
}

/* ---- the fabric's part ---- */

int weak_lane_open(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = calloc(1, sizeof *w);

    if (w == NULL)
        return LOCO_ERR_NO_MEMORY;
    w->lane = lane;
    w->from = f;
    w->to = &f->world->member[lane->peer->address.identity - WEAK_IDENTITY];
    pthread_mutex_lock(&f->world->lock);
    w->next = f->world->lanes;
    f->world->lanes = w;
    pthread_mutex_unlock(&f->world->lock);
    lane->fabric_data = w;
    return LOCO_OK;
}

void weak_lane_close(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = lane->fabric_data, **link = &f->world->lanes;

    pthread_mutex_lock(&f->world->lock);
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    while (w->first != NULL) {
        struct pending *p = w->first;

        w->first = p->next;
        weak_drop(w, p);
    }
    pthread_mutex_unlock(&f->world->lock);
    free(w);
}

/* Half of the writes are quick, some very late. */
static uint64_t delay(struct weak_world *world)
{
    switch (weak_draw(world) % 8) {
    case 0: return weak_draw(world) % LATE_TICKS;
    case 1: case 2: case 3: return weak_draw(world) % SLOW_TICKS;
    default: return weak_draw(world) % 4;
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
    if (op->kind != LOCI_PLACE && (target = resolve(lane->to, op)) == NULL
        && !lane->from->refused_later)
        return LOCO_ERR_RANGE;
    for (; *end != NULL; end = &(*end)->next)
        depth++;
    if (depth >= WEAK_LANE_ROOM || weak_draw(lane->from->world) % 16 == 0)
        return LOCO_ERR_AGAIN;
    p = make_pending(lane, op);
    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->target = target;
    p->refused = op->kind != LOCI_PLACE && target == NULL;
    *end = p;
    return LOCO_IN_PROGRESS;
}

int weak_post(struct loci_fabric *f, struct loci_lane *lane, struct loci_op *ops, int n,
              int *posted)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&f->world->lock);
    for (*posted = 0; *posted < n; (*posted)++) {
        status = post_one(lane->fabric_data, &ops[*posted]);
        if (status < 0)
            break;
        ops[*posted].in_flight = true;
    }
    pthread_mutex_unlock(&f->world->lock);
    return status;
}

/* The refused operation, the lane's first now, and all behind it. */
static int flush(struct weak_lane *lane, struct pending **link)
{
    int told = 0;

    while (*link != NULL) {
        struct pending *p = *link;

        *link = p->next;
        lane->lost = lane->lost || p->op.kind == LOCI_WRITE;
        loci_slot_done(p->op.slot, LOCO_ERR_RANGE);
        weak_drop(lane, p);
        told++;
    }
    return told;
}

/* What was told before is placed: the next connection's writes come after it. */
int weak_lane_mend(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = lane->fabric_data;
    int status = LOCO_OK;

    pthread_mutex_lock(&f->world->lock);
    for (struct pending *p = w->first; p != NULL; p = p->next)
        if (p->stage != TOLD)
            status = LOCO_ERR_AGAIN;
    if (w->lost && atomic_load(&lane->loss) != LOCI_LOSS_TOLD)
        status = LOCO_ERR_STATE;
    if (status == LOCO_OK) {
        for (struct pending *p = w->first; p != NULL; p = p->next)
            if (p->placed < p->op.len)
                place(w, p, true);
        prune(w);
        w->refused = w->lost = false;
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

        if (p->refused && lane->refused && !dead)
            return told + flush(lane, link);
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
        weak_drop(lane, p);
    }
    return told;
}

int weak_poll(struct loci_fabric *f, struct loci_lane *lane)
{
    struct weak_lane *w = lane->fabric_data;
    int told;

    pthread_mutex_lock(&f->world->lock);
    f->world->tick++;
    if (w->first != NULL && weak_draw(f->world) % 2 == 0)
        advance(w);
    told = tell(w);
    pthread_mutex_unlock(&f->world->lock);
    return told;
}

