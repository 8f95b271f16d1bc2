/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls that only the last member could end, as kinds of channels for `deaths`: it holds what the
 * others wait for, or does not come. */

#include <stdlib.h>
#include <time.h>

#include <loco/loco.h>

#include "deaths.h"

static bool is_lost_one(const struct member *m)
{
    return m->me == m->n - 1;
}

static int rest(void)
{
    const struct timespec pause = { 0, 50000000 };

    nanosleep(&pause, NULL);
    return LOCO_OK;
}

/* The last one takes what it holds in its first call, the others wait for that from their second
 * on, a moment later. True: this is such a first call. */
static bool is_first(void)
{
    static int calls;

    return calls++ == 0;
}

/* ---- barrier, locks, ring ---- */

static int make_barrier(struct member *m, const char *name, void *made)
{
    return loco_barrier_create(m->rt, NULL, name, m->all, made);
}

static int wait_barrier(struct member *m, void *made)
{
    return is_lost_one(m) ? rest() : loco_barrier_wait(made);
}

static int make_ticket(struct member *m, const char *name, void *made)
{
    return loco_ticket_lock_create(m->rt, NULL, name, m->all, 0, made);
}

static int wait_ticket(struct member *m, void *made)
{
    if (is_first() != is_lost_one(m))
        return rest();
    return loco_ticket_lock_acquire(made);
}

static int make_rw(struct member *m, const char *name, void *made)
{
    return loco_rw_lock_create(m->rt, NULL, name, m->all, 0, made);
}

static int wait_rw(struct member *m, void *made)
{
    if (is_first() != is_lost_one(m))
        return rest();
    return m->me == 0 ? loco_rw_lock_acquire_shared(made) : loco_rw_lock_acquire_exclusive(made);
}

static int make_ring(struct member *m, const char *name, void *made)
{
    return loco_ringbuffer_create(m->rt, NULL, name, m->all, m->n - 1, 4096, 0, made);
}

static int wait_ring(struct member *m, void *made)
{
    char message[64];
    size_t bytes;

    return is_lost_one(m) ? rest()
           : loco_ringbuffer_receive(made, LOCO_FOREVER, message, sizeof message, &bytes);
}

/* ---- an endpoint that the last one does not make ---- */

static int make_region(struct member *m, const char *name, void *made)
{
    return loco_region_create(m->rt, NULL, name, m->all, 4096, made);
}

static int wait_ready(struct member *m, void *made)
{
    loco_region_t *late;
    int status;

    (void)made;
    if (is_lost_one(m))
        return rest();
    status = loco_region_create(m->rt, NULL, "late", m->all, 4096, &late);
    if (status != LOCO_OK)
        return status;
    status = loco_runtime_wait_ready(m->rt, LOCO_FOREVER);
    loco_region_destroy(late);
    return status;
}

/* ---- windows ---- */

static int make_window(struct member *m, const char *name, void *made)
{
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 4096 };

    (void)name;
    return loco_window_create(m->rt, m->exchange, &spec, made);
}

static int wait_lock(struct member *m, void *made)
{
    if (is_first() != is_lost_one(m))
        return rest();
    return loco_window_lock(made, LOCO_LOCK_EXCLUSIVE, 1, 0);
}

static int wait_fence(struct member *m, void *made)
{
    return is_lost_one(m) ? rest() : loco_window_fence(made, 0);
}

/* One waits for the last one's post, the other for its complete. */
static int wait_epoch(struct member *m, void *made)
{
    const int last = m->n - 1;
    int status;

    if (is_lost_one(m))
        return rest();
    if (m->me == 0) {
        status = loco_window_start(made, 1, &last, 0);
        return status != LOCO_OK ? status : loco_window_complete(made);
    }
    status = loco_window_post(made, 1, &last, 0);
    return status != LOCO_OK ? status : loco_window_wait(made);
}

#define DESTROY(type)                                                                             \
    static void destroy_##type(void *made)                                                        \
    {                                                                                             \
        loco_##type##_destroy(made);                                                              \
    }
DESTROY(region) DESTROY(barrier) DESTROY(ticket_lock) DESTROY(rw_lock) DESTROY(ringbuffer)
DESTROY(window)

const struct kind waits[WAITS] = {
    { "wait_barrier", make_barrier, wait_barrier, destroy_barrier },
    { "wait_ticket", make_ticket, wait_ticket, destroy_ticket_lock },
    { "wait_rw", make_rw, wait_rw, destroy_rw_lock },
    { "wait_ring", make_ring, wait_ring, destroy_ringbuffer },
    { "wait_ready", make_region, wait_ready, destroy_region },
    { "wait_lock", make_window, wait_lock, destroy_window },
    { "wait_fence", make_window, wait_fence, destroy_window },
    { "wait_epoch", make_window, wait_epoch, destroy_window },
};
