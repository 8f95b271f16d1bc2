/* SPDX-License-Identifier: BSD-3-Clause */

/* Each kind of channel: made, used a little, destroyed. */

#include <loco/fence.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define BYTES 4096

static const loco_group_t *group(const struct member *m)
{
    return loco_everyone(m->rt);
}

static int next(const struct member *m)
{
    return (m->rank + 1) % m->size;
}

/* ---- groups ---- */

static int make_group(const struct member *m, void **out)
{
    return loco_group_meet(m->rt, m->exchange, (loco_group_t **)out);
}

static int use_group(const struct member *m, void *met)
{
    const int first = 0;
    loco_group_t *one = NULL;
    int status = loco_group_subset(met, 1, &first, &one);

    if (status == LOCO_OK)
        loco_group_destroy(one);
    return status == LOCO_OK ? loco_group_rank(met) != m->rank : status;
}

static void end_group(void *met)
{
    loco_group_destroy(met);
}

/* ---- base ---- */

static int make_region(const struct member *m, void **out)
{
    return loco_region_create(m->rt, NULL, m->name, group(m), BYTES, (loco_region_t **)out);
}

static int use_region(const struct member *m, void *region)
{
    uint64_t word = 7 + (uint64_t)m->rank, back = 0, old;
    int status = loco_region_write64(region, next(m), 8 * (uint64_t)m->rank, word);

    if (status == LOCO_OK)
        status = loco_fence(m->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    if (status == LOCO_OK)
        status = loco_region_read64(region, next(m), 8 * (uint64_t)m->rank, &back);
    if (status == LOCO_OK)
        status = loco_region_fetch_add(region, 0, 512, 1, &old);
    return status == LOCO_OK ? back != word : status;
}

static void end_region(void *region)
{
    loco_region_destroy(region);
}

static int make_owned(const struct member *m, void **out)
{
    return loco_owned_var_create(m->rt, NULL, m->name, group(m), 1, 40, LOCO_OWNED_PUSH,
                                 (loco_owned_var_t **)out);
}

static int use_owned(const struct member *m, void *var)
{
    unsigned char value[40];
    int status = LOCO_OK;

    memset(value, 5, sizeof value);
    if (m->rank == 1)
        status = loco_owned_var_store(var, value);
    if (m->rank == 1 && status == LOCO_OK)
        status = loco_owned_var_push_all(var);
    return status == LOCO_OK ? loco_owned_var_pull(var, value) : status;
}

static void end_owned(void *var)
{
    loco_owned_var_destroy(var);
}

static int make_atomic(const struct member *m, void **out)
{
    return loco_atomic_var_create(m->rt, NULL, m->name, group(m), 0, (loco_atomic_var_t **)out);
}

static int use_atomic(const struct member *m, void *var)
{
    uint64_t old;

    (void)m;
    return loco_atomic_var_fetch_add(var, 1, &old);
}

static void end_atomic(void *var)
{
    loco_atomic_var_destroy(var);
}

static int make_array(const struct member *m, void **out)
{
    return loco_atomic_array_create(m->rt, NULL, m->name, group(m), 30, -1,
                                    (loco_atomic_array_t **)out);
}

static int use_array(const struct member *m, void *array)
{
    int status = LOCO_OK;

    (void)m;
    for (uint64_t i = 0; status == LOCO_OK && i < 30; i++)
        status = loco_atomic_array_fetch_add(array, i, 1, NULL);
    return status;
}

static void end_array(void *array)
{
    loco_atomic_array_destroy(array);
}

static int make_sst(const struct member *m, void **out)
{
    return loco_sst_create(m->rt, NULL, m->name, group(m), 4, 0, (loco_sst_t **)out);
}

static int use_sst(const struct member *m, void *sst)
{
    uint64_t row[4] = { 1, 2, 3, 4 };
    int status = loco_sst_set_range(sst, 0, 4, row);

    if (status == LOCO_OK)
        status = loco_sst_push_all(sst, 0, 4);
    if (status == LOCO_OK)
        status = loco_sst_row(sst, m->rank, row);
    return status == LOCO_OK ? row[3] != 4 : status;
}

static void end_sst(void *sst)
{
    loco_sst_destroy(sst);
}

static int make_barrier(const struct member *m, void **out)
{
    return loco_barrier_create(m->rt, NULL, m->name, group(m), (loco_barrier_t **)out);
}

static int use_barrier(const struct member *m, void *barrier)
{
    (void)m;
    return loco_barrier_wait_timed(barrier, PATIENCE);
}

static void end_barrier(void *barrier)
{
    loco_barrier_destroy(barrier);
}

/* ---- locks ---- */

static int make_ticket(const struct member *m, void **out)
{
    return loco_ticket_lock_create(m->rt, NULL, m->name, group(m), 0, (loco_ticket_lock_t **)out);
}

static int use_ticket(const struct member *m, void *lock)
{
    int status = loco_ticket_lock_acquire_timed(lock, PATIENCE);

    (void)m;
    return status == LOCO_OK
           ? loco_ticket_lock_release(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS) : status;
}

static void end_ticket(void *lock)
{
    loco_ticket_lock_destroy(lock);
}

static int make_rw(const struct member *m, void **out)
{
    return loco_rw_lock_create(m->rt, NULL, m->name, group(m), 0, (loco_rw_lock_t **)out);
}

static int use_rw(const struct member *m, void *lock)
{
    int status = loco_rw_lock_acquire_shared_timed(lock, PATIENCE);

    (void)m;
    if (status == LOCO_OK)
        status = loco_rw_lock_release_shared(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    if (status == LOCO_OK)
        status = loco_rw_lock_acquire_exclusive_timed(lock, PATIENCE);
    if (status == LOCO_OK)
        status = loco_rw_lock_release_exclusive(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
    return status;
}

static void end_rw(void *lock)
{
    loco_rw_lock_destroy(lock);
}

static int make_rw_group(const struct member *m, void **out)
{
    return loco_rw_group_create(m->rt, NULL, m->name, group(m), 9, (loco_rw_group_t **)out);
}

static int use_rw_group(const struct member *m, void *locks)
{
    int status = LOCO_OK;

    for (int i = 0; status == LOCO_OK && i < 9; i++) {
        status = loco_rw_group_acquire_exclusive_timed(locks, i, false, PATIENCE);
        if (status == LOCO_OK)
            status = loco_rw_group_release_exclusive(locks, i, LOCO_FENCE_PROCESS,
                                                     LOCO_ALL_PEERS);
    }
    (void)m;
    return status;
}

static void end_rw_group(void *locks)
{
    loco_rw_group_destroy(locks);
}

/* ---- streams, stores ---- */

static int make_ring(const struct member *m, void **out)
{
    return loco_ringbuffer_create(m->rt, NULL, m->name, group(m), 1, 1 << 14, 0,
                                  (loco_ringbuffer_t **)out);
}

/* The writer may have sent it before it failed, and sends another. */
static int use_ring(const struct member *m, void *rb)
{
    char text[16] = "a message";
    uint64_t number;
    int status;

    if (m->rank == 1) {
        status = loco_ringbuffer_send(rb, text, sizeof text, &number);
        if (status == LOCO_OK)
            status = loco_ringbuffer_acknowledged(rb, number);
        return status == LOCO_IN_PROGRESS ? LOCO_OK : status;
    }
    memset(text, 0, sizeof text);
    status = loco_ringbuffer_receive(rb, PATIENCE, text, sizeof text, NULL);
    return status == LOCO_OK ? strcmp(text, "a message") != 0 : status;
}

static void end_ring(void *rb)
{
    loco_ringbuffer_destroy(rb);
}

static int make_queue(const struct member *m, void **out)
{
    return loco_queue_create(m->rt, NULL, m->name, group(m), 64, 16, 0, (loco_queue_t **)out);
}

static int use_queue(const struct member *m, void *queue)
{
    char entry[64] = "an entry";
    int status = loco_queue_push_timed(queue, entry, PATIENCE);

    (void)m;
    memset(entry, 0, sizeof entry);
    if (status == LOCO_OK)
        status = loco_queue_pop_timed(queue, entry, PATIENCE);
    return status == LOCO_OK ? strcmp(entry, "an entry") != 0 : status;
}

static void end_queue(void *queue)
{
    loco_queue_destroy(queue);
}

static int make_store(const struct member *m, void **out)
{
    const loco_kvstore_options_t options = { .value_bytes = 64, .capacity = 100 };

    return loco_kvstore_create(m->rt, NULL, m->name, group(m), &options, (loco_kvstore_t **)out);
}

/* A key of its own, which may be there from a call that failed later. */
static int use_store(const struct member *m, void *kv)
{
    uint64_t key = 10 + (uint64_t)m->rank, keys[2] = { key, 999 };
    char value[64] = "a value", back[2][64] = { "" };
    int statuses[2];
    loco_kvstore_window_t *window = NULL;
    int status = loco_kvstore_insert(kv, key, value, sizeof value);

    if (status == LOCO_ERR_EXISTS)
        status = LOCO_OK;
    if (status == LOCO_OK)
        status = loco_kvstore_get(kv, key, back[0], sizeof back[0]);
    if (status == LOCO_OK && strcmp(back[0], value) != 0)
        return 1;
    if (status == LOCO_OK)
        status = loco_kvstore_update(kv, key, value, sizeof value);
    if (status == LOCO_OK)
        status = loco_kvstore_get_many(kv, 2, keys, back, sizeof back[0], statuses);
    if (status == LOCO_OK)
        status = loco_kvstore_window_open(kv, 4, &window);
    loco_kvstore_window_close(window);
    return status;
}

static void end_store(void *kv)
{
    loco_kvstore_destroy(kv);
}

/* ---- windows ---- */

static _Alignas(4096) unsigned char own[2 * BYTES];

static int make_window(const struct member *m, enum loco_window_kind kind, void **out)
{
    const struct loco_window_spec spec = {
        .kind = kind, .base = kind == LOCO_WINDOW_CREATE ? own : NULL, .size = BYTES,
        .disp_unit = 1,
    };

    return loco_window_create(m->rt, m->exchange, &spec, (loco_window_t **)out);
}

static int make_allocate(const struct member *m, void **out)
{
    return make_window(m, LOCO_WINDOW_ALLOCATE, out);
}

static int make_shared(const struct member *m, void **out)
{
    return make_window(m, LOCO_WINDOW_SHARED, out);
}

static int make_create(const struct member *m, void **out)
{
    return make_window(m, LOCO_WINDOW_CREATE, out);
}

static int make_dynamic(const struct member *m, void **out)
{
    int status = make_window(m, LOCO_WINDOW_DYNAMIC, out);

    return status == LOCO_OK ? loco_window_attach(*out, own, sizeof own) : status;
}

/* Under a lock of the next member's; `at` is where its part begins. */
static int use_locked(const struct member *m, void *win, uint64_t at)
{
    char text[100] = "of a window", back[100] = "";
    int64_t one = 1, vector[20] = { 1, 2, 3 }, old;
    struct loco_span put = { text, at + 128 * (uint64_t)m->rank, sizeof text };
    struct loco_span get = { back, put.offset, sizeof back };
    struct loco_span vectors = { vector, at + 1024, sizeof vector };
    struct loco_accumulate sum = {
        .op = LOCO_OP_SUM, .type = LOCO_TYPE_I64, .operand = vector, .spans = &vectors, .nspans = 1,
    };
    int64_t expected = 0;
    int status = loco_window_put(win, next(m), &put, 1, NULL);

    if (status == LOCO_OK)
        status = loco_window_flush(win, next(m));
    if (status == LOCO_OK)
        status = loco_window_get(win, next(m), &get, 1, NULL);
    if (status == LOCO_OK && strcmp(back, text) != 0)
        return 1;
    if (status == LOCO_OK)
        status = loco_window_accumulate(win, next(m), &sum, NULL);
    if (status == LOCO_OK)
        status = loco_window_compare_swap(win, next(m), LOCO_TYPE_I64, at + 2048, &expected, &one,
                                          &old);
    return status;
}

static int use_at(const struct member *m, void *win, uint64_t at)
{
    int status = loco_window_lock(win, LOCO_LOCK_EXCLUSIVE, next(m), 0), unlocked;

    if (status != LOCO_OK)
        return status;
    status = use_locked(m, win, at);
    unlocked = loco_window_unlock(win, next(m));
    return status == LOCO_OK ? unlocked : status;
}

static int use_window(const struct member *m, void *win)
{
    return use_at(m, win, 0);
}

/* Beside what the others reach: attached, used by its own process, detached. */
static int use_other(const struct member *m, void *win)
{
    static unsigned char other[BYTES];
    unsigned char text[8] = "itself";
    struct loco_span put = { text, (uintptr_t)other, sizeof text };
    int status = loco_window_attach(win, other, sizeof other), used, locked;

    if (status == LOCO_ERR_ATTACH)          /* by a call that failed later */
        status = LOCO_OK;
    if (status != LOCO_OK)
        return status;
    locked = used = loco_window_lock(win, LOCO_LOCK_SHARED, m->rank, 0);
    if (locked == LOCO_OK)
        used = loco_window_put(win, m->rank, &put, 1, NULL);
    if (locked == LOCO_OK)
        status = loco_window_unlock(win, m->rank);
    if (status == LOCO_OK && used == LOCO_OK && memcmp(other, text, sizeof text) != 0)
        return 1;
    if (status == LOCO_OK)
        status = loco_window_detach(win, other);
    return used == LOCO_OK ? status : used;
}

/* `own` is at one place in all: each is a fork. */
static int use_dynamic(const struct member *m, void *win)
{
    int status = use_at(m, win, (uintptr_t)own);

    return status == LOCO_OK ? use_other(m, win) : status;
}

static void end_window(void *win)
{
    (void)loco_window_destroy(win);
}

const struct kind kinds[] = {
    { "group", make_group, use_group, end_group, true },
    { "region", make_region, use_region, end_region, false },
    { "owned_var", make_owned, use_owned, end_owned, false },
    { "atomic_var", make_atomic, use_atomic, end_atomic, false },
    { "atomic_array", make_array, use_array, end_array, false },
    { "sst", make_sst, use_sst, end_sst, false },
    { "barrier", make_barrier, use_barrier, end_barrier, false },
    { "ticket_lock", make_ticket, use_ticket, end_ticket, false },
    { "rw_lock", make_rw, use_rw, end_rw, false },
    { "rw_group", make_rw_group, use_rw_group, end_rw_group, false },
    { "ringbuffer", make_ring, use_ring, end_ring, false },
    { "queue", make_queue, use_queue, end_queue, false },
    { "kvstore", make_store, use_store, end_store, false },
    { "allocate", make_allocate, use_window, end_window, true },
    { "shared", make_shared, use_window, end_window, true },
    { "create", make_create, use_window, end_window, true },
    { "dynamic", make_dynamic, use_dynamic, end_window, true },
    { NULL, NULL, NULL, NULL, false },
};
