/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels of every kind, large enough for an extent of their own here and there. */

#include <stdlib.h>

#include <loco/loco.h>

#include "channels.h"

static int make_region(struct member *m, const char *name, void *made)
{
    return loco_region_create(m->rt, NULL, name, m->all, 3 << 20, made);
}

static int use_region(struct member *m, void *made)
{
    uint64_t value;
    int status = loco_region_write64(made, (m->me + 1) % m->n, 8, 7);

    return status != LOCO_OK ? status
           : loco_region_read64(made, (m->me + 2) % m->n, 1 << 20, &value);
}

static int make_owned(struct member *m, const char *name, void *made)
{
    return loco_owned_var_create(m->rt, NULL, name, m->all, 1, 5000, LOCO_OWNED_PULL, made);
}

static int use_owned(struct member *m, void *made)
{
    unsigned char value[5000] = { 1 };

    return m->me == 1 ? loco_owned_var_store(made, value) : loco_owned_var_pull(made, value);
}

static int make_atomic(struct member *m, const char *name, void *made)
{
    return loco_atomic_var_create(m->rt, NULL, name, m->all, 1, made);
}

static int use_atomic(struct member *m, void *made)
{
    (void)m;
    return loco_atomic_var_fetch_add(made, 1, NULL);
}

static int make_atomics(struct member *m, const char *name, void *made)
{
    return loco_atomic_array_create(m->rt, NULL, name, m->all, 300000, LOCO_ATOMIC_STRIPED, made);
}

static int use_atomics(struct member *m, void *made)
{
    return loco_atomic_array_fetch_add(made, (uint64_t)rand_r(&m->seed) % 300000, 1, NULL);
}

static int make_sst(struct member *m, const char *name, void *made)
{
    return loco_sst_create(m->rt, NULL, name, m->all, 100, LOCO_SST_ROWS, made);
}

static int use_sst(struct member *m, void *made)
{
    int status = loco_sst_set(made, 3, (uint64_t)m->me);

    return status != LOCO_OK ? status : loco_sst_push_all(made, 0, 100);
}

static int make_barrier(struct member *m, const char *name, void *made)
{
    return loco_barrier_create(m->rt, NULL, name, m->all, made);
}

static int use_barrier(struct member *m, void *made)
{
    (void)m;
    return loco_barrier_wait(made);
}

static int make_ticket(struct member *m, const char *name, void *made)
{
    return loco_ticket_lock_create(m->rt, NULL, name, m->all, 2, made);
}

static int use_ticket(struct member *m, void *made)
{
    int status = loco_ticket_lock_acquire(made);

    (void)m;
    return status != LOCO_OK ? status : loco_ticket_lock_release(made, LOCO_FENCE_THREAD, 0);
}

static int make_rw(struct member *m, const char *name, void *made)
{
    return loco_rw_lock_create(m->rt, NULL, name, m->all, 0, made);
}

static int use_rw(struct member *m, void *made)
{
    int status = loco_rw_lock_acquire_shared(made);

    (void)m;
    return status != LOCO_OK ? status : loco_rw_lock_release_shared(made, LOCO_FENCE_THREAD, 0);
}

static int make_rw_group(struct member *m, const char *name, void *made)
{
    return loco_rw_group_create(m->rt, NULL, name, m->all, 9, made);
}

static int use_rw_group(struct member *m, void *made)
{
    int status = loco_rw_group_acquire_shared(made, m->me, false);

    return status != LOCO_OK ? status
           : loco_rw_group_release_shared(made, m->me, LOCO_FENCE_THREAD, 0);
}

static int make_ring(struct member *m, const char *name, void *made)
{
    return loco_ringbuffer_create(m->rt, NULL, name, m->all, 1, 900000, 0, made);
}

/* Not all is read: what is in the ring when it ends was for nobody. */
static int use_ring(struct member *m, void *made)
{
    char message[700] = "x";
    size_t bytes;
    int status = LOCO_OK;

    for (int i = 0; i < 5 && status == LOCO_OK && m->me == 1; i++)
        status = loco_ringbuffer_send(made, message, sizeof message, NULL);
    for (int i = 0; i < 3 && status == LOCO_OK && m->me != 1; i++)
        status = loco_ringbuffer_receive(made, LOCO_FOREVER, message, sizeof message, &bytes);
    return status;
}

static int make_queue(struct member *m, const char *name, void *made)
{
    return loco_queue_create(m->rt, NULL, name, m->all, 5000, 1000, 0, made);
}

/* Entries in the memory of the dead are lost, and one for each of their calls: then all who are
 * left may wait in a pop at once, and nobody owes them an entry. */
static int pop(struct member *m, loco_queue_t *queue, void *entry)
{
    for (;;) {
        int status = loco_queue_pop_timed(queue, entry, 50000000);

        if (status != LOCO_ERR_TIMEOUT)
            return status;
        for (int i = 0; i < m->n; i++)
            if (loco_group_alive(m->all, i) != LOCO_OK)
                return LOCO_OK;
    }
}

static int use_queue(struct member *m, void *made)
{
    char entry[5000] = "y";
    int status = loco_queue_push(made, entry);

    return status != LOCO_OK ? status : pop(m, made, entry);
}

static int make_store(struct member *m, const char *name, void *made)
{
    const loco_kvstore_options_t o = { .value_bytes = 64, .capacity = 30000, .locks = 16 };

    return loco_kvstore_create(m->rt, NULL, name, m->all, &o, made);
}

/* The next member may have deleted the key, or may not have yet. */
static int of_store(int status)
{
    return status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_EXISTS ? LOCO_OK : status;
}

/* A delete tells the owner of the place of it, and does not wait for that to be read. */
static int use_store(struct member *m, void *made)
{
    uint64_t mine = (uint64_t)m->me, next = (mine + 1) % (uint64_t)m->n;
    char value[64] = "z";
    int status = of_store(loco_kvstore_insert(made, mine, value, sizeof value));

    if (status == LOCO_OK)
        status = of_store(loco_kvstore_get(made, mine, value, sizeof value));
    if (status == LOCO_OK)
        status = of_store(loco_kvstore_get(made, next, value, sizeof value));
    return status == LOCO_OK ? of_store(loco_kvstore_delete(made, next)) : status;
}

static int make_window(struct member *m, const char *name, void *made)
{
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 3 << 20 };

    (void)name;
    return loco_window_create(m->rt, m->exchange, &spec, made);
}

static int use_window(struct member *m, void *made)
{
    uint64_t word = 1;
    struct loco_span span = { &word, 2 << 20, sizeof word };
    int status = loco_window_lock(made, LOCO_LOCK_SHARED, (m->me + 1) % m->n, 0), unlocked;

    if (status != LOCO_OK)
        return status;
    status = loco_window_put(made, (m->me + 1) % m->n, &span, 1, NULL);
    unlocked = loco_window_unlock(made, (m->me + 1) % m->n);
    return status != LOCO_OK ? status : unlocked;
}

/* A function called through a pointer to its own type. */
#define DESTROY(type)                                                                             \
    static void destroy_##type(void *made)                                                        \
    {                                                                                             \
        loco_##type##_destroy(made);                                                              \
    }
DESTROY(region) DESTROY(owned_var) DESTROY(atomic_var) DESTROY(atomic_array) DESTROY(sst)
DESTROY(barrier) DESTROY(ticket_lock) DESTROY(rw_lock) DESTROY(rw_group) DESTROY(ringbuffer)
DESTROY(queue) DESTROY(kvstore) DESTROY(window)

const struct kind kinds[KINDS] = {
    { "region", make_region, use_region, destroy_region },
    { "owned", make_owned, use_owned, destroy_owned_var },
    { "atomic", make_atomic, use_atomic, destroy_atomic_var },
    { "atomics", make_atomics, use_atomics, destroy_atomic_array },
    { "sst", make_sst, use_sst, destroy_sst },
    { "barrier", make_barrier, use_barrier, destroy_barrier },
    { "ticket", make_ticket, use_ticket, destroy_ticket_lock },
    { "rw", make_rw, use_rw, destroy_rw_lock },
    { "rw_group", make_rw_group, use_rw_group, destroy_rw_group },
    { "ring", make_ring, use_ring, destroy_ringbuffer },
    { "queue", make_queue, use_queue, destroy_queue },
    { "store", make_store, use_store, destroy_kvstore },
    { "window", make_window, use_window, destroy_window },
};
