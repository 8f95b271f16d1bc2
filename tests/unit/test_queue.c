/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "streams/queue.h"

/* ---- one after the other ---- */

static int calls_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t capacity = *(uint64_t *)arg, entry, size, got[2] = { 0 };
    loco_ack_t ack = LOCO_ACK_INIT;
    loco_queue_t *q;

    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), 8, capacity, 0, &q));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0) {
        CHECK_EQ(loco_queue_try_pop(q, &entry), LOCO_ERR_AGAIN);
        for (uint64_t lap = 0; lap < 3; lap++) {
            for (entry = 0; entry < capacity; entry++)
                CHECK_OK(entry % 2 == 0 ? loco_queue_push(q, &entry)
                         : loco_queue_try_push(q, &entry));
            CHECK_EQ(loco_queue_try_push(q, &entry), LOCO_ERR_AGAIN);
            CHECK_OK(loco_queue_size(q, &size));
            CHECK_EQ(size, capacity);
            for (uint64_t i = 0; i < capacity; i++) {
                CHECK_OK(i % 2 == 0 ? loco_queue_pop(q, &entry) : loco_queue_try_pop(q, &entry));
                CHECK_EQ(entry, i);
            }
            CHECK_EQ(loco_queue_try_pop(q, &entry), LOCO_ERR_AGAIN);
            CHECK_OK(loco_queue_size(q, &size));
            CHECK_EQ(size, 0);
        }
        for (uint64_t i = 7; i <= 8 && i < 7 + capacity; i++) {
            got[0] = i;
            CHECK_OK(loco_queue_push_ack(q, &got[0], &ack));
            CHECK_OK(loco_ack_wait(rt, &ack));
        }
        for (uint64_t i = 0; i < 2 && i < capacity; i++)
            CHECK_OK(loco_queue_pop_ack(q, &got[i], &ack));
        CHECK_OK(loco_ack_wait(rt, &ack));
        CHECK_EQ(got[0], 7);
        CHECK(capacity == 1 || got[1] == 8);
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(q);
    return 0;
}

Test(queue, does_what_each_call_says)
{
    const uint64_t capacities[] = { 1, 2, 5, 8, 100 };

    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        uint64_t capacity = capacities[i];

        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, calls_body, &capacity), 0);
        cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, calls_body, &capacity), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 1, NULL, calls_body, &capacity), 0);
        cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, calls_body, &capacity), 0);
    }
}

/* ---- entries of any size ---- */

static int sizes_body(loco_runtime_t *rt, int rank, void *arg)
{
    size_t len = *(size_t *)arg;
    unsigned char out[5000], in[5001];
    loco_queue_t *q;

    CHECK_OK(loco_queue_create(rt, "parent", "q", loco_everyone(rt), len, 3, 0, &q));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    in[len] = 0x5a;
    for (int i = 0; i < 20; i++) {
        if (rank == 0) {
            memset(out, i + 1, len);
            CHECK_OK(loco_queue_push(q, out));
        } else if (rank == 1) {
            memset(out, i + 1, len);
            CHECK_OK(loco_queue_pop(q, in));
            CHECK(memcmp(in, out, len) == 0);
            CHECK_EQ(in[len], 0x5a);
        }
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(q);
    return 0;
}

Test(queue, carries_entries_of_any_size)
{
    const size_t sizes[] = { 1, 7, 8, 9, 56, 57, 1000, 5000 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];

        cr_assert_eq(run_on(RUN_WEAK, 3, i, NULL, sizes_body, &size), 0);
        cr_assert_eq(run_on(RUN_SHM, 3, i, NULL, sizes_body, &size), 0);
    }
}

/* ---- all at once ---- */

#define ENTRY_WORDS 3
#define MEMBERS_MAX 16

struct crowd {
    loco_runtime_t *rt;
    loco_queue_t *q;
    int rank, threads, rounds, n;
    _Atomic uint64_t popped, sum;
    _Atomic uint64_t pushing;       /* threads of this process */
};

static uint64_t producer_of(const struct crowd *c, int thread)
{
    return (uint64_t)(c->rank * c->threads + thread);
}

static int push_all(struct crowd *c, uint64_t producer)
{
    for (uint64_t i = 1; i <= (uint64_t)c->rounds; i++) {
        uint64_t entry[ENTRY_WORDS] = { producer, i, producer ^ i };
        int status = LOCO_ERR_AGAIN;

        if (i % 3 == 0)
            status = loco_queue_try_push(c->q, entry);
        if (status == LOCO_ERR_AGAIN)
            status = loco_queue_push(c->q, entry);
        CHECK_OK(status);
    }
    return 0;
}

/* One consumer sees the entries of each producer in their order. */
static int pop_all(struct crowd *c)
{
    uint64_t last[MEMBERS_MAX] = { 0 }, entry[ENTRY_WORDS];

    for (unsigned i = 0;; i++) {
        int status = i % 3 == 0 ? loco_queue_try_pop(c->q, entry) : LOCO_ERR_AGAIN;

        if (status == LOCO_ERR_AGAIN)
            status = loco_queue_pop(c->q, entry);
        if (status == LOCO_ERR_CLOSED)
            return 0;
        CHECK_OK(status);
        CHECK(entry[0] < (uint64_t)(c->n * c->threads));
        CHECK_EQ(entry[2], entry[0] ^ entry[1]);
        CHECK(entry[1] > last[entry[0]]);
        last[entry[0]] = entry[1];
        atomic_fetch_add(&c->popped, 1);
        atomic_fetch_add(&c->sum, entry[1]);
    }
}

/* Even threads push, odd ones take. */
static int crowd_thread(void *arg, int thread)
{
    struct crowd *c = arg;

    if (thread % 2 == 1)
        return pop_all(c);
    CHECK_OK(push_all(c, producer_of(c, thread)));
    atomic_fetch_sub(&c->pushing, 1);
    return 0;
}

static int closer_thread(void *arg, int thread)
{
    struct crowd *c = arg;
    loco_barrier_t *done;

    if (thread < c->threads)
        return crowd_thread(arg, thread);
    /* Closes when all producers of all processes are done. */
    CHECK_OK(loco_barrier_create(c->rt, NULL, "done", loco_everyone(c->rt), &done));
    CHECK_OK(loco_runtime_wait_ready(c->rt, LOCO_FOREVER));
    while (atomic_load(&c->pushing) > 0)
        usleep(100);
    CHECK_OK(loco_barrier_wait(done));
    CHECK_OK(loco_queue_close(c->q));
    CHECK_OK(loco_queue_close(c->q));
    loco_barrier_destroy(done);
    return 0;
}

static int crowd_body(loco_runtime_t *rt, int rank, void *arg)
{
    const int *args = arg;
    struct crowd c = {
        .rt = rt, .rank = rank, .threads = args[0], .rounds = args[1],
        .n = loco_group_size(loco_everyone(rt)), .pushing = (uint64_t)(args[0] + 1) / 2,
    };
    uint64_t entry[ENTRY_WORDS] = { 0 }, counted, summed, rounds = (uint64_t)args[1], all;
    loco_atomic_var_t *popped, *sum;

    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), sizeof entry,
                               (uint64_t)args[2], 0, &c.q));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "popped", loco_everyone(rt), 0, &popped));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "sum", loco_everyone(rt), 0, &sum));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_threads(c.threads + 1, closer_thread, &c));
    CHECK_EQ(loco_queue_push(c.q, entry), LOCO_ERR_CLOSED);
    CHECK_EQ(loco_queue_try_push(c.q, entry), LOCO_ERR_CLOSED);
    CHECK_EQ(loco_queue_pop(c.q, entry), LOCO_ERR_CLOSED);
    CHECK_EQ(loco_queue_try_pop(c.q, entry), LOCO_ERR_CLOSED);
    CHECK_OK(loco_atomic_var_fetch_add(popped, atomic_load(&c.popped), NULL));
    CHECK_OK(loco_atomic_var_fetch_add(sum, atomic_load(&c.sum), NULL));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_atomic_var_load(popped, &counted));
    CHECK_OK(loco_atomic_var_load(sum, &summed));
    all = (uint64_t)(c.n * ((c.threads + 1) / 2));
    CHECK_EQ(counted, all * rounds);
    CHECK_EQ(summed, all * (rounds * (rounds + 1) / 2));
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(c.q);
    loco_atomic_var_destroy(popped);
    loco_atomic_var_destroy(sum);
    return 0;
}

Test(queue, loses_and_doubles_nothing, .timeout = RUN_SECONDS)
{
    for (int capacity = 1; capacity <= 64; capacity *= 8) {
        int weak[] = { 2, run_rounds(30), capacity }, shm[] = { 4, run_rounds(200), capacity };

        cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, crowd_body, weak), 0);
        cr_assert_eq(run_on(RUN_WEAK, 3, 2, NULL, crowd_body, weak), 0);
        cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, crowd_body, shm), 0);
        cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, crowd_body, shm), 0);
    }
}

/* ---- waiting ---- */

static int await_size(loco_queue_t *q, uint64_t least)
{
    int64_t begin = run_now();
    uint64_t size;

    do {
        CHECK(run_now() - begin < run_limit(RUN_PATIENCE));
        usleep(1000);
        CHECK_OK(loco_queue_size(q, &size));
    } while (size < least);
    return 0;
}

/* Who pushes into a full queue, and who pops from an empty one, waits for the other. */
static int waits_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t entry = 0, size;
    loco_queue_t *q;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), 8, 2, 0, &q));
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        for (entry = 1; entry <= 4; entry++)
            CHECK_OK(loco_queue_push(q, &entry));   /* the last two wait */
        usleep(20000);
        CHECK_OK(loco_queue_close(q));
    } else if (rank == 1) {
        CHECK(await_size(q, 2) == 0);
        usleep(20000);
        CHECK_OK(loco_queue_size(q, &size));
        CHECK_EQ(size, 2);
        for (uint64_t i = 1; i <= 4; i++) {
            CHECK_OK(loco_queue_pop(q, &entry));
            CHECK_EQ(entry, i);
        }
        CHECK_EQ(loco_queue_pop(q, &entry), LOCO_ERR_CLOSED);       /* waits until it is closed */
        CHECK_OK(loco_queue_size(q, &size));
        CHECK_EQ(size, 0);
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(q);
    return 0;
}

Test(queue, waits_for_room_and_for_entries)
{
    for (uint64_t seed = 0; seed < 3; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, waits_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, waits_body, NULL), 0);
}

/* Rank 0 waits in its third push until rank 1 has read in the log that it does. */
static int full_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t entry = 0;
    loco_queue_t *q;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "work", loco_everyone(rt), 8, 2, 0, &q));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 3 && rank == 0; i++)
        CHECK_OK(loco_queue_push(q, &entry));
    if (rank == 1) {
        while (weak_logged(rt, "queue \"work\" is full: a push has waited 10 s") == 0)
            usleep(1000);
        CHECK_OK(loco_queue_pop(q, &entry));
    }
    CHECK_OK(run_meet(rt));
    CHECK_EQ(weak_logged(rt, "queue \"work\" is full: a push has waited 10 s"), 1);
    loco_queue_destroy(q);
    return 0;
}

Test(queue, who_waits_for_a_place_says_so, .timeout = RUN_SECONDS)
{
    static const struct weak_faults fast = { .speed = 100 };

    cr_assert_eq(weak_run_faulty(2, 0, &fast, full_body, NULL), 0);
}

/* As many threads wait in one process as run_threads() can, more than the queue has places. */
#define WAITERS 64

static int take_one(void *arg, int thread)
{
    struct crowd *c = arg;
    uint64_t entry;

    (void)thread;
    CHECK_OK(loco_queue_pop(c->q, &entry));
    atomic_fetch_add(&c->sum, entry);
    return 0;
}

static int waiters_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct crowd c = { .rt = rt, .rank = rank };

    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), 8, *(uint64_t *)arg, 0, &c.q));
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        for (uint64_t i = 1; i <= WAITERS; i++)
            CHECK_OK(loco_queue_push(c.q, &i));
    } else {
        CHECK_OK(run_threads(WAITERS, take_one, &c));
        CHECK_EQ(atomic_load(&c.sum), WAITERS * (WAITERS + 1) / 2);
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(c.q);
    return 0;
}

Test(queue, any_number_of_threads_may_wait, .timeout = RUN_SECONDS)
{
    uint64_t few = 3, many = 100;

    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, waiters_body, &few), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 1, NULL, waiters_body, &many), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, waiters_body, &few), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, waiters_body, &many), 0);
}

/* ---- what else was written ---- */

static int fence_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt));
    loco_region_t *region;
    loco_queue_t *q;
    uint64_t i, seen;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), 8, 4, LOCO_QUEUE_FENCE, &q));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 8, &region));
    CHECK_OK(run_meet(rt));
    for (i = 1; i <= 60; i++) {
        loco_ack_t ack = LOCO_ACK_INIT;
        int at = (int)(i % (uint64_t)n);

        if (rank == 0) {
            CHECK_OK(loco_region_write64_ack(region, at, 0, i, &ack));
            CHECK_OK(loco_queue_push(q, &i));
        } else if (rank == 1) {
            uint64_t entry;

            CHECK_OK(loco_queue_pop(q, &entry));
            CHECK_EQ(entry, i);
            CHECK_OK(loco_region_read64(region, at, 0, &seen));
            CHECK(seen >= i);
        }
    }
    CHECK_OK(run_meet(rt));
    loco_queue_destroy(q);
    loco_region_destroy(region);
    return 0;
}

Test(queue, shows_what_was_fenced)
{
    for (uint64_t seed = 0; seed < 5; seed++)
        cr_assert_eq(run_on(RUN_WEAK, 3, seed, NULL, fence_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, fence_body, NULL), 0);
}

/* ---- refused ---- */

static int refused_body(loco_runtime_t *rt, int rank, void *arg)
{
    const loco_group_t *all = loco_everyone(rt);
    loco_queue_t *q = NULL, *again;

    (void)rank;
    (void)arg;
    CHECK_EQ(loco_queue_create(rt, NULL, "q", NULL, 8, 1, 0, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 0, 1, 0, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 8, 0, 0, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 8, UINT64_MAX, 0, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, SIZE_MAX, 1, 0, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 8, 1, 2, &q), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_create(rt, NULL, "", all, 8, 1, 0, &q), LOCO_ERR_NAME);
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 8, UINT64_C(1) << 50, 0, &q),
             LOCO_ERR_NO_MEMORY);
    CHECK(q == NULL);
    CHECK_OK(loco_queue_create(rt, NULL, "q", all, 8, 1, 0, &q));
    CHECK_EQ(loco_queue_create(rt, NULL, "q", all, 8, 1, 0, &again), LOCO_ERR_NAME);
    loco_queue_destroy(q);
    loco_queue_destroy(NULL);
    return 0;
}

Test(queue, impossible_ones_are_refused)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, refused_body, NULL), 0);
}

/* A place whose word nobody has written: who comes to it is told, and does not wait. */
static int astray_body(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t entry = 1;
    loco_queue_t *q;

    (void)arg;
    CHECK_OK(loco_queue_create(rt, NULL, "q", loco_everyone(rt), 8, 2, 0, &q));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    loci_store64(loci_mem_ptr(loci_endpoint_mem(q->ep, rank, LOCI_QUEUE_SLOTS)), 7);
    CHECK_EQ(loco_queue_push(q, &entry), LOCO_ERR_PROTOCOL);
    CHECK_EQ(loco_queue_pop(q, &entry), LOCO_ERR_PROTOCOL);
    loco_queue_destroy(q);
    return 0;
}

Test(queue, a_place_that_was_written_astray_is_told, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 1, NULL, astray_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 1, 1, NULL, astray_body, NULL), 0);
}

/* ---- any of several ---- */

static int any_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_queue_t *queues[3];
    int which = -1, seen[3] = { 0 };
    uint64_t item = 0;

    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_OK(loco_queue_create(rt, NULL, (const char *[]){ "a", "b", "c" }[i],
                                   loco_everyone(rt), sizeof item, 8, 0, &queues[i]));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_queue_wait_any(queues, 0, 0, &which), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_wait_any(queues, 3, -2, &which), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_wait_any(queues, 3, 0, &(int){ 3 }), LOCO_ERR_ARG);
    CHECK_EQ(loco_queue_wait_any(queues, 3, 1000000, &which), LOCO_ERR_TIMEOUT);
    CHECK_EQ(which, -1);
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        for (int i = 0; i < 30; i++) {
            item = (uint64_t)i;
            CHECK_OK(loco_queue_push(queues[i % 2 * 2], &item));
        }
        CHECK_OK(loco_queue_close(queues[1]));
    } else if (rank == 0) {
        while (seen[0] + seen[2] < 30) {
            int status;

            CHECK_OK(loco_queue_wait_any(queues, 3, LOCO_FOREVER, &which));
            CHECK(which >= 0 && which < 3);
            status = loco_queue_try_pop(queues[which], &item);
            /* Nobody else pops; what a push has begun may take a moment. */
            CHECK(status == LOCO_OK || (which == 1 && status == LOCO_ERR_CLOSED));
            if (status == LOCO_OK)
                CHECK_EQ(item, (uint64_t)(2 * seen[which] + which / 2));
            seen[which] += status == LOCO_OK;
        }
        CHECK_EQ(seen[0], 15);
        which = -1;
        do
            CHECK_OK(loco_queue_wait_any(queues, 3, LOCO_FOREVER, &which));
        while (which != 1);         /* closed: that is told, too */
    }
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < 3; i++)
        loco_queue_destroy(queues[i]);
    return 0;
}

Test(queue, any_of_several_is_waited_for)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 1, NULL, any_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, NULL, any_body, NULL), 0);
}
