/* SPDX-License-Identifier: BSD-3-Clause */

/* Every kind of channel, small, made by all, and a use of it that goes to the memory of others.
 * Lock or window, what a call has opened is closed again, whatever the calls between return. */

#include "config.h"

#include "scenario_deaths.h"

static int first_error(int a, int b)
{
    return a != LOCO_OK ? a : b;
}

/* Of a call that may find nothing there. */
static int or_nothing(int status)
{
    return status == LOCO_ERR_AGAIN || status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_EXISTS
           || status == LOCO_ERR_TIMEOUT ? LOCO_OK : status;
}

static int other(const struct sim_death_user *u)
{
    return (u->rank + 1 + (int)loci_sim_draw((uint32_t)u->n)) % u->n;
}

static int make_region(struct sim_death_user *u)
{
    return loco_region_create(u->rt, NULL, "region", loco_everyone(u->rt), 512,
                              (loco_region_t **)&u->made);
}

static int use_region(struct sim_death_user *u, int thread, int round)
{
    unsigned char block[100] = { (unsigned char)thread };
    uint64_t value;

    switch (loci_sim_draw(4)) {
    case 0: return loco_region_write(u->made, other(u), 64, block, sizeof block);
    case 1: return loco_region_read(u->made, other(u), 64, block, sizeof block);
    case 2: return loco_region_write64(u->made, other(u), 8, (uint64_t)round);
    default: return loco_region_fetch_add(u->made, other(u), 0, 1, &value);
    }
}

static int make_owned(struct sim_death_user *u)
{
    return loco_owned_var_create(u->rt, NULL, "owned", loco_everyone(u->rt), u->host, 40,
                                 loci_sim_draw(1) == 0 ? LOCO_OWNED_PULL : LOCO_OWNED_PUSH,
                                 (loco_owned_var_t **)&u->made);
}

static int use_owned(struct sim_death_user *u, int thread, int round)
{
    unsigned char value[40] = { (unsigned char)round };

    if (u->rank != u->host)
        return or_nothing(loco_owned_var_pull(u->made, value));
    return thread == 0 ? loco_owned_var_store(u->made, value) : LOCO_OK;
}

static int make_atomic(struct sim_death_user *u)
{
    return loco_atomic_var_create(u->rt, NULL, "atomic", loco_everyone(u->rt), u->host,
                                  (loco_atomic_var_t **)&u->made);
}

static int use_atomic(struct sim_death_user *u, int thread, int round)
{
    uint64_t old;

    (void)thread;
    (void)round;
    return loci_sim_draw(2) == 0 ? loco_atomic_var_fetch_add(u->made, 1, &old)
           : loco_atomic_var_load(u->made, &old);
}

static int make_sst(struct sim_death_user *u)
{
    return loco_sst_create(u->rt, NULL, "sst", loco_everyone(u->rt), 3, LOCO_SST_ROWS,
                           (loco_sst_t **)&u->made);
}

static int use_sst(struct sim_death_user *u, int thread, int round)
{
    uint64_t row[3];
    int status = LOCO_OK;

    if (thread == 0)
        status = loco_sst_set(u->made, 1, (uint64_t)round);
    if (thread == 0 && status == LOCO_OK)
        status = loco_sst_push_all(u->made, 0, 3);
    return status != LOCO_OK ? status : or_nothing(loco_sst_row(u->made, other(u), row));
}

static int make_barrier(struct sim_death_user *u)
{
    return loco_barrier_create(u->rt, NULL, "barrier", loco_everyone(u->rt),
                               (loco_barrier_t **)&u->made);
}

static int use_barrier(struct sim_death_user *u, int thread, int round)
{
    (void)round;
    return thread == 0 ? loco_barrier_wait(u->made) : LOCO_OK;
}

static int make_collective(struct sim_death_user *u)
{
    return loco_collective_create(u->rt, NULL, "collective", loco_everyone(u->rt), 64,
                                  (loco_collective_t **)&u->made);
}

static int use_collective(struct sim_death_user *u, int thread, int round)
{
    uint64_t words[12] = { 0 }, sums[12];
    int root = (u->host + round) % u->n;

    if (thread != 0)
        return LOCO_OK;
    switch (round % 3) {
    case 0:
        return loco_collective_broadcast(u->made, root, words, sizeof words);
    case 1:
        return loco_collective_reduce(u->made, root, LOCO_OP_SUM, LOCO_TYPE_U64, words, sums, 12);
    default:
        return loco_collective_allreduce(u->made, LOCO_OP_SUM, LOCO_TYPE_U64, words, sums, 12);
    }
}

static int make_ticket(struct sim_death_user *u)
{
    return loco_ticket_lock_create(u->rt, NULL, "ticket", loco_everyone(u->rt), u->host,
                                   (loco_ticket_lock_t **)&u->made);
}

static int use_ticket(struct sim_death_user *u, int thread, int round)
{
    int status = round % 2 == 0 ? loco_ticket_lock_acquire(u->made)
                 : loco_ticket_lock_acquire_timed(u->made, 2000);

    (void)thread;
    return status != LOCO_OK ? or_nothing(status)
           : loco_ticket_lock_release(u->made, LOCO_FENCE_THREAD, LOCO_ALL_PEERS);
}

static int make_rw(struct sim_death_user *u)
{
    return loco_rw_lock_create(u->rt, NULL, "rw", loco_everyone(u->rt), u->host,
                               (loco_rw_lock_t **)&u->made);
}

static int use_rw(struct sim_death_user *u, int thread, int round)
{
    bool shared = loci_sim_draw(2) == 0;
    int status = shared ? loco_rw_lock_acquire_shared(u->made)
                 : loco_rw_lock_acquire_exclusive(u->made);

    (void)thread;
    (void)round;
    if (status != LOCO_OK)
        return status;
    return shared ? loco_rw_lock_release_shared(u->made, LOCO_FENCE_THREAD, LOCO_ALL_PEERS)
           : loco_rw_lock_release_exclusive(u->made, LOCO_FENCE_THREAD, LOCO_ALL_PEERS);
}

static int make_rw_group(struct sim_death_user *u)
{
    return loco_rw_group_create(u->rt, NULL, "rw_group", loco_everyone(u->rt), 4,
                                (loco_rw_group_t **)&u->made);
}

static int use_rw_group(struct sim_death_user *u, int thread, int round)
{
    int member = other(u), status = loco_rw_group_acquire_shared(u->made, member, false);

    (void)thread;
    (void)round;
    return status != LOCO_OK ? status
           : loco_rw_group_release_shared(u->made, member, LOCO_FENCE_THREAD, LOCO_ALL_PEERS);
}

static int make_ring(struct sim_death_user *u)
{
    return loco_ringbuffer_create(u->rt, NULL, "ring", loco_everyone(u->rt), u->host, 256, 0,
                                  (loco_ringbuffer_t **)&u->made);
}

static int use_ring(struct sim_death_user *u, int thread, int round)
{
    char message[40] = "x";
    size_t bytes;

    (void)round;
    if (u->rank == u->host)
        return loco_ringbuffer_send(u->made, message, sizeof message, NULL);
    return thread > 0 ? LOCO_OK
           : loco_ringbuffer_receive(u->made, LOCO_FOREVER, message, sizeof message, &bytes);
}

static int make_queue(struct sim_death_user *u)
{
    return loco_queue_create(u->rt, NULL, "queue", loco_everyone(u->rt), 24, 8, 0,
                             (loco_queue_t **)&u->made);
}

/* One that stops may have what another waits for. */
static int take(struct sim_death_user *u, char *entry)
{
    return u->run->faults ? or_nothing(loco_queue_pop_timed(u->made, entry, 20000))
           : loco_queue_pop(u->made, entry);
}

static int use_queue(struct sim_death_user *u, int thread, int round)
{
    char entry[24] = "y";
    int status;

    (void)thread;
    (void)round;
    switch (loci_sim_draw(4)) {
    case 0:                             /* who pops has pushed, or pushes again */
        status = loco_queue_push(u->made, entry);
        return status != LOCO_OK ? status : take(u, entry);
    case 1:
        status = loco_queue_try_pop(u->made, entry);
        return status == LOCO_OK ? loco_queue_push(u->made, entry) : or_nothing(status);
    case 2:
        status = loco_queue_pop_timed(u->made, entry, 3000);
        return status == LOCO_OK ? loco_queue_push(u->made, entry) : or_nothing(status);
    default:
        status = loco_queue_try_push(u->made, entry);
        return status == LOCO_OK ? take(u, entry) : or_nothing(status);
    }
}

static int make_store(struct sim_death_user *u)
{
    const loco_kvstore_options_t o = { .value_bytes = 24, .capacity = 24, .locks = 2,
                                       .tracker_bytes = 4096 };

    return loco_kvstore_create(u->rt, NULL, "store", loco_everyone(u->rt), &o,
                               (loco_kvstore_t **)&u->made);
}

static int use_store(struct sim_death_user *u, int thread, int round)
{
    uint64_t key = loci_sim_draw(4);
    char value[24] = "z";

    (void)thread;
    (void)round;
    switch (loci_sim_draw(4)) {
    case 0: return or_nothing(loco_kvstore_insert(u->made, key, value, sizeof value));
    case 1: return or_nothing(loco_kvstore_update(u->made, key, value, sizeof value));
    case 2: return or_nothing(loco_kvstore_delete(u->made, key));
    default: return or_nothing(loco_kvstore_get(u->made, key, value, sizeof value));
    }
}

static int make_window(struct sim_death_user *u)
{
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 256 };
    struct loco_exchange exchange = sim_exchange(u->seat);

    return loco_window_create(u->rt, &exchange, &spec, (loco_window_t **)&u->made);
}

static int use_window(struct sim_death_user *u, int thread, int round)
{
    int to = other(u), kind = loci_sim_draw(2) == 0 ? LOCO_LOCK_SHARED : LOCO_LOCK_EXCLUSIVE;
    uint64_t value = (uint64_t)round;
    int status;

    if (thread > 0)
        return LOCO_OK;
    status = loco_window_lock(u->made, kind, to, 0);
    if (status != LOCO_OK)
        return status;
    status = sim_put(u->made, to, 64, &value, sizeof value);
    if (status == LOCO_OK)
        status = sim_accumulate(u->made, to, LOCO_TYPE_I64, LOCO_OP_SUM, 8, &value, NULL, 1);
    return first_error(status, loco_window_unlock(u->made, to));
}

static int use_active(struct sim_death_user *u, int thread, int round)
{
    uint64_t value = (uint64_t)round;
    int status;

    if (thread > 0)
        return LOCO_OK;
    status = loco_window_fence(u->made, LOCO_ASSERT_NOPRECEDE);
    if (status == LOCO_OK)
        status = sim_put(u->made, other(u), 64, &value, sizeof value);
    return first_error(status, loco_window_fence(u->made, LOCO_ASSERT_NOSUCCEED));
}

/* A function called through a pointer to its own type. */
#define DESTROY(type)                                                                             \
    static void destroy_##type(void *made)                                                        \
    {                                                                                             \
        loco_##type##_destroy(made);                                                              \
    }
DESTROY(region) DESTROY(owned_var) DESTROY(atomic_var) DESTROY(sst) DESTROY(barrier)
DESTROY(ticket_lock) DESTROY(rw_lock) DESTROY(rw_group) DESTROY(ringbuffer) DESTROY(queue)
DESTROY(kvstore) DESTROY(window) DESTROY(collective)

const struct sim_death_kind sim_death_kinds[] = {
    { "region", make_region, use_region, destroy_region },
    { "owned_var", make_owned, use_owned, destroy_owned_var },
    { "atomic_var", make_atomic, use_atomic, destroy_atomic_var },
    { "sst", make_sst, use_sst, destroy_sst },
    { "barrier", make_barrier, use_barrier, destroy_barrier },
    { "collective", make_collective, use_collective, destroy_collective },
    { "ticket_lock", make_ticket, use_ticket, destroy_ticket_lock },
    { "rw_lock", make_rw, use_rw, destroy_rw_lock },
    { "rw_group", make_rw_group, use_rw_group, destroy_rw_group },
    { "ringbuffer", make_ring, use_ring, destroy_ringbuffer },
    { "queue", make_queue, use_queue, destroy_queue },
    { "kvstore", make_store, use_store, destroy_kvstore },
    { "window", make_window, use_window, destroy_window },
    { "window_fence", make_window, use_active, destroy_window },
};
const int sim_death_kind_count = (int)(sizeof sim_death_kinds / sizeof sim_death_kinds[0]);
