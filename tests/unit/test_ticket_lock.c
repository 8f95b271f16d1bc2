/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <loco/loco.h>

#include "locks/ticket_lock.h"
#include "run.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)

/* ---- mutual exclusion, and the order that the fence gives ---- */

/* A counter in three copies at one rank, changed by plain reads and writes under the lock. */
struct counting {
    loco_runtime_t *rt;
    loco_ticket_lock_t *lock;
    loco_region_t *region;
    enum loco_fence_scope scope;
    int rank, data_at, peer, threads, rounds;
    unsigned ticket;            /* the first */
};

static int count_once(struct counting *c, uint64_t *before)
{
    uint64_t value[3];
    loco_ack_t ack = LOCO_ACK_INIT;

    CHECK_OK(loco_region_read(c->region, c->data_at, 0, value, sizeof value));
    CHECK_EQ(value[1], value[0]);
    CHECK_EQ(value[2], value[0]);
    *before = value[0];
    for (int i = 0; i < 3; i++)
        CHECK_OK(loco_region_write64_ack(c->region, c->data_at, 8 * (uint64_t)i, value[0] + 1,
                                         &ack));
    return 0;
}

static int count(void *arg, int thread)
{
    struct counting *c = arg;
    uint64_t last = 0, before;

    (void)thread;
    for (int i = 0; i < c->rounds; i++) {
        CHECK_OK(loco_ticket_lock_acquire(c->lock));
        if (count_once(c, &before) != 0)
            return 1;
        CHECK_OK(loco_ticket_lock_release(c->lock, c->scope, c->peer));
        CHECK(i == 0 || before > last);
        last = before;
    }
    return 0;
}

static int counting_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct counting c = *(struct counting *)arg;
    int n = loco_group_size(loco_everyone(rt));
    uint64_t got;

    c.rt = rt;
    c.rank = rank;
    CHECK_OK(loco_ticket_lock_create(rt, "p", "l", loco_everyone(rt), 0, &c.lock));
    CHECK_OK(loco_region_create(rt, "p", "r", loco_everyone(rt), 64, &c.region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (c.ticket != 0) {
        if (rank == 0)
            CHECK_OK(loci_write64(rt, c.lock->mem, c.lock->record + LOCI_TICKET_WORD,
                                  (uint64_t)c.ticket << LOCI_TICKET_NEXT_SHIFT
                                  | (uint64_t)c.ticket << LOCI_TICKET_SERVING_SHIFT, NULL));
        CHECK_OK(run_meet(rt));
    }
    CHECK_OK(c.threads == 1 ? count(&c, 0) : run_threads(c.threads, count, &c));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_region_read64(c.region, c.data_at, 0, &got));
    CHECK_EQ(got, n * c.threads * c.rounds);
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(c.lock);
    loco_region_destroy(c.region);
    return 0;
}

static const struct counting variants[] = {
    { .scope = LOCO_FENCE_PROCESS, .data_at = 1, .peer = LOCO_ALL_PEERS },
    { .scope = LOCO_FENCE_THREAD, .data_at = 1, .peer = LOCO_ALL_PEERS },
    { .scope = LOCO_FENCE_PAIR, .data_at = 1, .peer = 1 },
    { .scope = LOCO_ORDER, .data_at = 0, .peer = 0 },
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static void count_on(enum run_fabric fabric, int n, int threads, int rounds, uint64_t seed)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        struct counting c = variants[i];

        c.threads = threads;
        c.rounds = rounds;
        cr_assert_eq(run_on(fabric, n, seed + i, NULL, counting_body, &c), 0, "scope %d, %d x %d",
                     c.scope, n, threads);
    }
}

Test(ticket_lock, each_scope_orders_what_it_says, .timeout = RUN_SECONDS)
{
    count_on(RUN_WEAK, 2, 1, 60, 0);
    count_on(RUN_WEAK, 3, 1, 40, 100);
}

Test(ticket_lock, each_scope_orders_with_threads_too, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 0; seed < 400; seed += 100)
        count_on(RUN_WEAK, 2, 3, 50, seed);
}

Test(ticket_lock, excludes_processes_and_threads, .timeout = RUN_SECONDS)
{
    count_on(RUN_SHM, 2, 1, run_rounds(3000), 0);
    count_on(RUN_SHM, 4, 3, run_rounds(500), 0);
}

Test(ticket_lock, excludes_threads_of_one_process, .timeout = RUN_SECONDS)
{
    struct counting c = { .scope = LOCO_FENCE_PROCESS, .peer = LOCO_ALL_PEERS, .threads = 4,
                          .rounds = 3000 };

    cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, counting_body, &c), 0);
}

Test(ticket_lock, tickets_wrap_around, .timeout = RUN_SECONDS)
{
    struct counting c = variants[0];

    c.threads = 2;
    c.rounds = run_rounds(4000);
    c.ticket = 65500;
    cr_assert_eq(run_on(RUN_SHM, 2, 0, (const char *const[]){ "LOCO_LOCK_HANDOVERS=0", NULL },
                        counting_body, &c), 0);
}

/* ---- a thread that waits, but for a limited time, sleeps without a place in line ---- */

#define ASLEEP 50000            /* us: it has long announced its sleep then */

struct limited {
    loco_ticket_lock_t *lock;
    _Atomic bool held;
    int64_t released;
};

static int hold_and_release(struct limited *l)
{
    CHECK_OK(loco_ticket_lock_acquire(l->lock));
    atomic_store(&l->held, true);
    while (atomic_load(&l->lock->without) == 0)
        usleep(100);
    usleep(ASLEEP);
    l->released = loci_now(l->lock->rt);
    CHECK_OK(loco_ticket_lock_release(l->lock, LOCO_FENCE_NONE, LOCO_ALL_PEERS));
    return 0;
}

static int with_limit(void *arg, int thread)
{
    struct limited *l = arg;

    if (thread == 0)
        return hold_and_release(l);
    while (!atomic_load(&l->held))
        usleep(100);
    CHECK_OK(loco_ticket_lock_acquire_timed(l->lock, 10 * SECOND));
    CHECK(loci_now(l->lock->rt) - l->released < 5 * SECOND);
    CHECK_OK(loco_ticket_lock_release(l->lock, LOCO_FENCE_NONE, LOCO_ALL_PEERS));
    return 0;
}

static int limited_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct limited l = { .held = false };

    (void)rank;
    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, "p", "l", loco_everyone(rt), 0, &l.lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_threads(2, with_limit, &l));
    CHECK_EQ(atomic_load(&l.lock->without), 0);
    loco_ticket_lock_destroy(l.lock);
    return 0;
}

Test(ticket_lock, wakes_a_thread_that_waits_for_a_limited_time, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 1, 0, NULL, limited_body, NULL), 0);
}

/* ---- who is next ---- */

/* Until so many tickets were taken. */
static int wait_tickets(loco_ticket_lock_t *lock, unsigned tickets)
{
    uint64_t word = 0;

    do {
        usleep(1000);
        CHECK_OK(loci_read64(lock->rt, lock->mem, lock->record + LOCI_TICKET_WORD, &word, NULL));
    } while (loci_ticket_next(word) < tickets);
    return 0;
}

/* Who has just drawn a ticket may not have written its name yet. */
static int holder_at_last(loco_ticket_lock_t *lock, int *holder)
{
    int64_t until = run_now() + run_limit(RUN_PATIENCE);
    int status;

    while ((status = loco_ticket_lock_holder(lock, holder)) == LOCO_ERR_AGAIN && run_now() < until)
        usleep(1000);
    return status;
}

static int order_body(loco_runtime_t *rt, int rank, void *arg)
{
    int n = loco_group_size(loco_everyone(rt)), holder;
    loco_ticket_lock_t *lock;
    loco_atomic_var_t *turn;
    uint64_t got;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), 1, &lock));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "t", loco_everyone(rt), 0, &turn));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_ticket_lock_holder(lock, &holder));
    CHECK_EQ(holder, -1);
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_ticket_lock_holder(lock, &holder));
    CHECK_EQ(holder, 0);
    CHECK_OK(run_meet(rt));
    CHECK_OK(wait_tickets(lock, (unsigned)(n - rank)));     /* ask in order n-1, n-2, ..., 1 */
    if (rank != 0)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    CHECK_OK(holder_at_last(lock, &holder));
    CHECK_EQ(holder, rank);
    CHECK_OK(loco_atomic_var_fetch_add(turn, 1, &got));
    CHECK_EQ(got, rank == 0 ? 0 : n - rank);
    CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(lock);
    loco_atomic_var_destroy(turn);
    return 0;
}

Test(ticket_lock, processes_are_served_as_they_came, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, order_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 0, NULL, order_body, NULL), 0);
}

/* Rank 0's threads keep the lock busy; rank 1 must not wait for more than the bound. */
#define BOUND 8
#define TRIES 40
struct busy {
    loco_runtime_t *rt;
    loco_ticket_lock_t *lock;
    loco_region_t *region;
};

static int keep_busy(void *arg, int thread)
{
    struct busy *b = arg;
    int64_t until = run_now() + run_limit(15 * SECOND);
    uint64_t taken, stop = 0;

    (void)thread;
    while (stop == 0 && run_now() < until) {
        CHECK_OK(loco_ticket_lock_acquire(b->lock));
        CHECK_OK(loco_region_read64(b->region, 0, 0, &taken));
        CHECK_OK(loco_region_write64(b->region, 0, 0, taken + 1));
        CHECK_OK(loco_region_read64(b->region, 0, 8, &stop));
        CHECK_OK(loco_ticket_lock_release(b->lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    }
    CHECK_EQ(stop, 1);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int bound_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct busy b = { .rt = rt };
    uint64_t waits[TRIES], before, after = 0;

    (void)arg;
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &b.lock));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 64, &b.region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_OK(run_threads(3, keep_busy, &b));
    while (rank == 1 && after == 0)
        CHECK_OK(loco_region_read64(b.region, 0, 0, &after));
    for (int i = 0; rank == 1 && i < TRIES; i++) {
        CHECK_OK(loco_region_read64(b.region, 0, 0, &before));
        CHECK_OK(loco_ticket_lock_acquire(b.lock));
        CHECK_OK(loco_region_read64(b.region, 0, 0, &after));
        if (i == TRIES - 1)
            CHECK_OK(loco_region_write64(b.region, 0, 8, 1));
        CHECK_OK(loco_ticket_lock_release(b.lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
        waits[i] = after - before;
    }
    /* The median: what was taken while we ran up to the lock is in them, too. */
    if (rank == 1) {
        qsort(waits, TRIES, sizeof waits[0], by_value);
        CHECK(waits[TRIES / 2] <= 3 * (BOUND + 1));
    }
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(b.lock);
    loco_region_destroy(b.region);
    return 0;
}

Test(ticket_lock, hand_over_within_a_process_is_bounded, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, (const char *const[]){ "LOCO_LOCK_HANDOVERS=8", NULL },
                        bound_body, NULL), 0);
}

/* ---- misuse, and not waiting ---- */

static int release_other(void *arg, int thread)
{
    loco_ticket_lock_t *lock = arg;

    (void)thread;
    CHECK_EQ(loco_ticket_lock_try_acquire(lock), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    return 0;
}

static int misuse_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *lock;
    loco_ticket_array_t *array;

    (void)arg;
    CHECK_EQ(loco_ticket_lock_create(rt, NULL, "x", loco_everyone(rt), 2, &lock), LOCO_ERR_ARG);
    CHECK_EQ(loco_ticket_array_create(rt, NULL, "x", loco_everyone(rt), 0, &array),
             LOCO_ERR_ARG);
    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), 1, &lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        CHECK_OK(loco_ticket_lock_try_acquire(lock));
        CHECK_EQ(loco_ticket_lock_acquire(lock), LOCO_ERR_STATE);
        CHECK_EQ(loco_ticket_lock_try_acquire(lock), LOCO_ERR_STATE);
        CHECK_OK(run_threads(1, release_other, lock));
    }
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        CHECK_EQ(loco_ticket_lock_try_acquire(lock), LOCO_ERR_AGAIN);
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        /* A scope that is wrong does nothing: it is still held. */
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_PAIR, LOCO_ALL_PEERS), LOCO_ERR_ARG);
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    }
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        CHECK_OK(loco_ticket_lock_try_acquire(lock));
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    loco_ticket_lock_destroy(lock);
    return 0;
}

Test(ticket_lock, misuse_is_told)
{
    cr_assert_eq(run_on(RUN_WEAK, 2, 0, NULL, misuse_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, misuse_body, NULL), 0);
}

/* ---- many ---- */

#define LOCKS 341

struct many {
    loco_ticket_array_t *array;
    loco_region_t *region;
    int rank;
};

static int count_many(void *arg, int thread)
{
    struct many *m = arg;
    unsigned seed = (unsigned)(m->rank * 8 + thread + 1);
    uint64_t value;

    for (int i = 0; i < 2000; i++) {
        int which = (int)((unsigned)rand_r(&seed) % LOCKS);
        loco_ticket_lock_t *lock = loco_ticket_array_at(m->array, which);

        CHECK_OK(loco_ticket_lock_acquire(lock));
        CHECK_OK(loco_region_read64(m->region, 0, 8 * (uint64_t)which, &value));
        CHECK_OK(loco_region_write64(m->region, 0, 8 * (uint64_t)which, value + 1));
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    }
    return 0;
}

static int many_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct many m = { .rank = rank };
    uint64_t sum = 0, value;

    (void)arg;
    CHECK_OK(loco_ticket_array_create(rt, NULL, "l", loco_everyone(rt), LOCKS, &m.array));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 8 * LOCKS, &m.region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK(loco_ticket_array_at(m.array, -1) == NULL);
    CHECK(loco_ticket_array_at(m.array, LOCKS) == NULL);
    CHECK_OK(run_threads(3, count_many, &m));
    CHECK_OK(run_meet(rt));
    for (int i = 0; i < LOCKS; i++) {
        CHECK_OK(loco_region_read64(m.region, 0, 8 * (uint64_t)i, &value));
        sum += value;
    }
    CHECK_EQ(sum, 3 * 2000 * loco_group_size(loco_everyone(rt)));
    CHECK_OK(run_meet(rt));
    loco_ticket_array_destroy(m.array);
    loco_region_destroy(m.region);
    return 0;
}

Test(ticket_lock, hundreds_under_one_name, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, many_body, NULL), 0);
}

/* ---- deaths ---- */

enum role { DIES_AS_HOLDER, DIES_IN_QUEUE, DIES_ASIDE, DIES_AS_HOST };

struct death {
    enum role role;
    _Atomic int *clean;         /* how many have nothing unplaced at the others */
    _Atomic int *told, *done;   /* how many were told; how many live and need the lock no more */
};

/* When all who are to take a ticket have one. */
static int die_soon(loco_ticket_lock_t *lock, enum role role)
{
    CHECK_OK(wait_tickets(lock, role == DIES_IN_QUEUE || role == DIES_AS_HOLDER ? 4 : 3));
    usleep(10000);      /* most often they wait then */
    kill(getpid(), SIGKILL);
    return 0;
}

static int die_while_waiting(void *arg, int thread)
{
    if (thread == 0)
        return die_soon(arg, DIES_IN_QUEUE);
    loco_ticket_lock_acquire(arg);
    return 1;
}

static int die_as(loco_ticket_lock_t *lock, enum role role)
{
    if (role == DIES_IN_QUEUE) {
        CHECK_OK(wait_tickets(lock, 2));
        return run_threads(2, die_while_waiting, lock);
    }
    if (role == DIES_AS_HOLDER)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    return die_soon(lock, role);
}

static int wait_death(loco_runtime_t *rt)
{
    int64_t until = run_now() + run_limit(RUN_PATIENCE);

    while (atomic_load(&rt->deaths) == 0) {
        CHECK(run_now() < until);
        usleep(1000);
    }
    return 0;
}

/* Rank 2 dies. Ranks ask in order of their numbers, the holder-to-be first, who keeps the lock
 * until it knows of the death. */
static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct death *death = arg;
    enum role role = death->role;
    loco_ticket_lock_t *lock;
    int status;

    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), role == DIES_AS_HOST ? 2 : 0,
                                     &lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(run_meet(rt));
    /* The meeting's own writes: a fence fails that finds them unplaced at the dead. */
    CHECK_OK(loco_fence(rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS));
    atomic_fetch_add(death->clean, 1);
    CHECK_OK(run_await(death->clean, 4));
    if (rank == 2)
        return die_as(lock, role);
    if (role == DIES_AS_HOLDER)
        CHECK_OK(wait_tickets(lock, 1));
    else if (rank != 0)
        CHECK_OK(wait_tickets(lock, role == DIES_IN_QUEUE ? (unsigned)rank : 1));
    status = loco_ticket_lock_acquire(lock);
    if (role == DIES_AS_HOLDER || (role == DIES_IN_QUEUE && rank == 3)
        || (role == DIES_AS_HOST && rank != 0)) {
        CHECK_EQ(status, LOCO_ERR_PEER_DEAD);
        atomic_fetch_add(death->told, 1);
    } else {
        CHECK_OK(status);
        CHECK_OK(rank == 0 ? wait_death(rt) : 0);
        /* A lock passed on to who does not know of the death yet would be his. */
        CHECK_OK(role == DIES_AS_HOST ? run_await(death->told, 2) : 0);
        status = loco_ticket_lock_release(lock, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS);
        if (role != DIES_AS_HOST)
            CHECK_OK(status);
    }
    CHECK_OK(wait_death(rt));
    /* The lock is lost, or as good as before. */
    status = loco_ticket_lock_acquire(lock);
    CHECK_EQ(status, role == DIES_ASIDE ? LOCO_OK : LOCO_ERR_PEER_DEAD);
    if (status == LOCO_OK)
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    atomic_fetch_add(death->done, 1);
    CHECK_OK(run_await(death->done, 3));
    loco_ticket_lock_destroy(lock);
    return 0;
}

static int run_with_a_death(enum role role)
{
    struct death death = { role, run_counter(), run_counter(), run_counter() };

    return run_on(RUN_SHM, 4, 0, NULL, death_body, &death);
}

Test(ticket_lock, a_dead_holder_is_told_to_all, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_with_a_death(DIES_AS_HOLDER), 0);
}

Test(ticket_lock, a_dead_waiter_is_told_to_those_behind, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_with_a_death(DIES_IN_QUEUE), 0);
}

Test(ticket_lock, a_dead_bystander_hurts_nobody, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_with_a_death(DIES_ASIDE), 0);
}

Test(ticket_lock, a_dead_host_is_told, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_with_a_death(DIES_AS_HOST), 0);
}

/* Over the weak fabric: the holder dies, its waiter is told by the word and the slots. It does not
 * die before the others, whose number is counted, have left the meeting: that fails, too. */
static int weak_death_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_ticket_lock_t *lock;
    _Atomic int *met = arg;

    CHECK_OK(loco_ticket_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 1)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    CHECK_OK(run_meet(rt));
    atomic_fetch_add(met, 1);
    if (rank == 1) {
        CHECK_OK(run_await(met, 4));
        CHECK_OK(wait_tickets(lock, 4));    /* all are in the queue */
        weak_die(rt);
    } else {
        CHECK_EQ(loco_ticket_lock_acquire(lock), LOCO_ERR_PEER_DEAD);
        CHECK_EQ(loco_ticket_lock_acquire(lock), LOCO_ERR_PEER_DEAD);
    }
    loco_ticket_lock_destroy(lock);
    return 0;
}

Test(ticket_lock, a_dead_holder_is_told_through_the_fabric, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        _Atomic int met = 0;

        cr_assert_eq(run_on(RUN_WEAK, 4, seed, NULL, weak_death_body, &met), 0);
    }
}
