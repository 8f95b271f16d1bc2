/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <loco/loco.h>

#include "locks/rw_lock.h"
#include "observe/observe.h"
#include "run.h"

#define SECOND INT64_C(1000000000)
#define TICKETS_LEFT 100        /* until they wrap around */

/* At rank 0. */
static int open_lock(loco_runtime_t *rt, loco_rw_lock_t **lock)
{
    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 0, lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    return 0;
}

/* Writers keep four words equal and count in them; readers see them equal. */
struct mix {
    loco_runtime_t *rt;
    loco_rw_lock_t *lock;
    loco_region_t *region;
    int rank, threads, rounds, data_at;
    enum loco_fence_scope scope;
    _Atomic uint64_t written;
    _Atomic int *waits;         /* of all processes, or NULL */
};

static int write_words(struct mix *m)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    uint64_t value[4];

    CHECK_OK(loco_region_read(m->region, m->data_at, 0, value, sizeof value));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(value[i], value[0]);
        CHECK_OK(loco_region_write64_ack(m->region, m->data_at, 8 * (uint64_t)i, value[0] + 1,
                                         &ack));
    }
    atomic_fetch_add(&m->written, 1);
    return 0;
}

static int read_words(struct mix *m, uint64_t *last)
{
    uint64_t value[4];

    CHECK_OK(loco_region_read(m->region, m->data_at, 0, value, sizeof value));
    for (int i = 1; i < 4; i++)
        CHECK_EQ(value[i], value[0]);
    CHECK(value[0] >= *last);
    *last = value[0];
    return 0;
}

static int mix_thread(void *arg, int thread)
{
    struct mix *m = arg;
    unsigned seed = (unsigned)(m->rank * 16 + thread + 1);
    uint64_t last = 0;

    for (int i = 0; i < m->rounds; i++) {
        bool try = rand_r(&seed) % 4 == 0;

        if (rand_r(&seed) % 3 == 0) {
            int status = try ? loco_rw_lock_try_exclusive(m->lock)
                             : loco_rw_lock_acquire_exclusive(m->lock);

            if (try && status == LOCO_ERR_AGAIN)
                continue;
            CHECK_OK(status);
            if (write_words(m) != 0)
                return 1;
            CHECK_OK(loco_rw_lock_release_exclusive(m->lock, m->scope, LOCO_ALL_PEERS));
        } else {
            int status = try ? loco_rw_lock_try_shared(m->lock)
                             : loco_rw_lock_acquire_shared(m->lock);

            if (try && status == LOCO_ERR_AGAIN)
                continue;
            CHECK_OK(status);
            if (read_words(m, &last) != 0)
                return 1;
            CHECK_OK(loco_rw_lock_release_shared(m->lock, LOCO_FENCE_NONE, 0));
        }
    }
    return 0;
}

static int mix_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct mix m = *(struct mix *)arg;
    loco_atomic_var_t *total;
    uint64_t all, got;

    m.rt = rt;
    m.rank = rank;
    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &m.lock));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 64, &m.region));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "t", loco_everyone(rt), 0, &total));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (m.waits != NULL) {
        uint64_t ticket = UINT16_MAX + 1 - TICKETS_LEFT;

        if (rank == 0)
            *(uint64_t *)(uintptr_t)loci_rw_lock_word(m.lock) = ticket << LOCI_RW_NEXT_SHIFT
                                                              | ticket << LOCI_RW_SERVING_SHIFT;
        CHECK_OK(run_meet(rt));
        loci_observe_stats(rt, true);
    }
    CHECK_OK(run_threads(m.threads, mix_thread, &m));
    if (m.waits != NULL)
        atomic_fetch_add(m.waits, (int)loci_stats_get(rt->stats, LOCI_STAT_WAITS + LOCI_WAIT_LOCK));
    CHECK_OK(loco_atomic_var_fetch_add(total, atomic_load(&m.written), NULL));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_atomic_var_load(total, &all));
    CHECK_OK(loco_region_read64(m.region, m.data_at, 8, &got));
    CHECK_EQ(got, all);
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(m.lock);
    loco_region_destroy(m.region);
    loco_atomic_var_destroy(total);
    return 0;
}

static const char *const patient[] = { "LOCO_LOCK_PATIENCE=inf", NULL };
static const char *const impatient[] = { "LOCO_LOCK_PATIENCE=0", NULL };

Test(rw_lock, readers_and_writers_keep_apart, .timeout = RUN_SECONDS)
{
    const char *const *settings[] = { NULL, patient, impatient };

    for (int i = 0; i < 3; i++) {
        struct mix m = { .threads = 2, .rounds = 60, .data_at = 1, .scope = LOCO_FENCE_THREAD };

        cr_assert_eq(run_on(RUN_WEAK, 2, (uint64_t)i, settings[i], mix_body, &m), 0);
        m.threads = 1;
        cr_assert_eq(run_on(RUN_WEAK, 3, (uint64_t)i, settings[i], mix_body, &m), 0);
        m.data_at = 0;
        m.scope = LOCO_ORDER;
        cr_assert_eq(run_on(RUN_WEAK, 3, (uint64_t)i, settings[i], mix_body, &m), 0);
        m.threads = 3;
        m.rounds = run_rounds(2000);
        cr_assert_eq(run_on(RUN_SHM, 4, 0, settings[i], mix_body, &m), 0);
    }
}

/* Tickets are 16 bits: with no patience every wait takes one, and some seven of ten rounds wait. */
Test(rw_lock, tickets_wrap_around, .timeout = RUN_SECONDS)
{
    struct mix m = {
        .threads = 2, .rounds = run_shares() ? 80000 : run_rounds(30000), .scope = LOCO_ORDER,
        .waits = run_counter(),
    };

    cr_assert_eq(run_on(RUN_SHM, 2, 0, impatient, mix_body, &m), 0);
    if (atomic_load(m.waits) <= TICKETS_LEFT)
        cr_skip_test("the %d waits took too few tickets to wrap around", atomic_load(m.waits));
}

/* One wait at the wrap: the word has no ticket left afterwards. */
static int last_ticket_body(loco_runtime_t *rt, int rank, void *arg)
{
    const uint64_t last = UINT16_MAX;
    loco_rw_lock_t *lock;
    uint64_t *word;

    (void)arg;
    CHECK(open_lock(rt, &lock) == 0);
    word = (uint64_t *)(uintptr_t)loci_rw_lock_word(lock);
    if (rank == 0) {
        *word = last << LOCI_RW_NEXT_SHIFT | last << LOCI_RW_SERVING_SHIFT;
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        while (!loci_rw_closed(loci_load64((unsigned char *)word)))
            usleep(1000);
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    } else {
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(run_meet(rt));
    if (rank == 0)
        CHECK_EQ(*word, 0);
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, tickets_wrap_without_a_trace, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, impatient, last_ticket_body, NULL), 0);
}

/* ---- nobody starves ---- */

struct crowd {
    loco_rw_lock_t *lock;
    loco_atomic_var_t *stop;
    bool exclusive;             /* the crowd's way */
};

static int crowd_thread(void *arg, int thread)
{
    struct crowd *c = arg;
    int64_t until = run_now() + run_limit(20 * SECOND);
    uint64_t stop = 0;

    (void)thread;
    while (stop == 0) {
        CHECK(run_now() < until);
        CHECK_OK(c->exclusive ? loco_rw_lock_acquire_exclusive(c->lock)
                              : loco_rw_lock_acquire_shared(c->lock));
        usleep(100);            /* two of them, and one always holds it */
        CHECK_OK(c->exclusive
                 ? loco_rw_lock_release_exclusive(c->lock, LOCO_FENCE_NONE, 0)
                 : loco_rw_lock_release_shared(c->lock, LOCO_FENCE_NONE, 0));
        CHECK_OK(loco_atomic_var_load(c->stop, &stop));
    }
    return 0;
}

static int crowd_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct crowd c = { .exclusive = *(int *)arg != 0 };

    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &c.lock));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "s", loco_everyone(rt), 0, &c.stop));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank != 0)
        CHECK_OK(run_threads(3, crowd_thread, &c));
    usleep(100000);
    for (int i = 0; rank == 0 && i < 20; i++) {
        int64_t start = run_now();

        CHECK_OK(c.exclusive ? loco_rw_lock_acquire_shared(c.lock)
                             : loco_rw_lock_acquire_exclusive(c.lock));
        CHECK(run_now() - start < run_limit(10 * SECOND));
        CHECK_OK(c.exclusive
                 ? loco_rw_lock_release_shared(c.lock, LOCO_FENCE_NONE, 0)
                 : loco_rw_lock_release_exclusive(c.lock, LOCO_FENCE_NONE, 0));
    }
    if (rank == 0)
        CHECK_OK(loco_atomic_var_store(c.stop, 1));
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(c.lock);
    loco_atomic_var_destroy(c.stop);
    return 0;
}

Test(rw_lock, neither_readers_nor_writers_starve, .timeout = RUN_SECONDS)
{
    for (int exclusive = 0; exclusive < 2; exclusive++)
        cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, crowd_body, &exclusive), 0);
}

/* ---- names, misuse ---- */

static int names_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_rw_lock_t *lock;
    int holder;

    (void)arg;
    CHECK_EQ(loco_rw_lock_create(rt, NULL, "x", loco_everyone(rt), 9, &lock), LOCO_ERR_ARG);
    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 1, &lock));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(loco_rw_lock_holder(lock, &holder));
    CHECK_EQ(holder, -1);
    CHECK_OK(run_meet(rt));
    if (rank == 2)
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_rw_lock_holder(lock, &holder));
    CHECK_EQ(holder, 2);
    CHECK_EQ(loco_rw_lock_try_shared(lock), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_rw_lock_try_exclusive(lock), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(run_meet(rt));
    if (rank == 2)
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_rw_lock_try_shared(lock));
    CHECK_OK(run_meet(rt));
    CHECK_EQ(loco_rw_lock_try_exclusive(lock), LOCO_ERR_AGAIN);
    CHECK_EQ(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
    CHECK_EQ(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, names_its_holder_and_tells_misuse)
{
    cr_assert_eq(run_on(RUN_WEAK, 3, 0, NULL, names_body, NULL), 0);
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, names_body, NULL), 0);
}

/* ---- groups ---- */

#define MEMBERS 5

struct grouped {
    loco_rw_group_t *locks;
    loco_region_t *region;      /* a pair of words per member, at the next rank */
    int rank, n, rounds;
};

static int group_change(struct grouped *g, int member, int by)
{
    uint64_t value[2];
    int at = (member + 1) % g->n;

    CHECK_OK(loco_region_read(g->region, at, 16 * (uint64_t)member, value, sizeof value));
    CHECK_EQ(value[0], value[1]);
    for (uint64_t i = 0; by != 0 && i < 2; i++)
        CHECK_OK(loco_region_write64(g->region, at, 16 * (uint64_t)member + 8 * i,
                                     value[i] + (uint64_t)by));
    return 0;
}

static int group_exclusive(struct grouped *g, int member)
{
    CHECK_OK(loco_rw_group_acquire_exclusive(g->locks, member, false));
    if (group_change(g, member, 1) != 0)
        return 1;
    if (member % 2 == 0 && member + 1 < MEMBERS) {      /* a second one, upwards */
        CHECK_OK(loco_rw_group_acquire_exclusive(g->locks, member + 1, true));
        if (group_change(g, member + 1, 1) != 0)
            return 1;
        CHECK_OK(loco_rw_group_release_exclusive(g->locks, member + 1, LOCO_FENCE_THREAD,
                                                 LOCO_ALL_PEERS));
    }
    CHECK_OK(loco_rw_group_release_exclusive(g->locks, member, LOCO_FENCE_THREAD,
                                             LOCO_ALL_PEERS));
    return 0;
}

static int group_thread(void *arg, int thread)
{
    struct grouped *g = arg;
    unsigned seed = (unsigned)(g->rank * 16 + thread + 1);

    for (int i = 0; i < g->rounds; i++) {
        int member = (int)((unsigned)rand_r(&seed) % MEMBERS), what = rand_r(&seed) % 4;

        if (what == 0) {
            CHECK_OK(loco_rw_group_acquire_all(g->locks, false));
            for (int m = 0; m < MEMBERS; m++)
                if (group_change(g, m, 0) != 0)
                    return 1;
            CHECK_OK(loco_rw_group_release_all(g->locks, LOCO_FENCE_NONE, 0));
        } else if (what == 1) {
            CHECK_OK(loco_rw_group_acquire_shared(g->locks, member, false));
            if (group_change(g, member, 0) != 0)
                return 1;
            CHECK_OK(loco_rw_group_release_shared(g->locks, member, LOCO_FENCE_NONE, 0));
        } else if (group_exclusive(g, member) != 0) {
            return 1;
        }
    }
    return 0;
}

static int group_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct grouped g = { .rank = rank, .n = loco_group_size(loco_everyone(rt)),
                         .rounds = *(int *)arg };

    CHECK_OK(loco_rw_group_create(rt, NULL, "g", loco_everyone(rt), MEMBERS, &g.locks));
    CHECK_OK(loco_region_create(rt, NULL, "r", loco_everyone(rt), 16 * MEMBERS, &g.region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_EQ(loco_rw_group_acquire_shared(g.locks, MEMBERS, false), LOCO_ERR_ARG);
    CHECK_EQ(loco_rw_group_release_exclusive(g.locks, 0, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_EQ(loco_rw_group_release_all(g.locks, LOCO_FENCE_NONE, 0), LOCO_ERR_STATE);
    CHECK_OK(run_threads(2, group_thread, &g));
    CHECK_OK(run_meet(rt));
    loco_rw_group_destroy(g.locks);
    loco_region_destroy(g.region);
    return 0;
}

Test(rw_lock, all_members_and_single_ones_keep_apart, .timeout = RUN_SECONDS)
{
    int rounds = 40;

    cr_assert_eq(run_on(RUN_WEAK, 2, 0, NULL, group_body, &rounds), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 1, impatient, group_body, &rounds), 0);
    rounds = run_rounds(2000);
    cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, group_body, &rounds), 0);
    rounds = run_rounds(300);       /* where lock all waits at once, who is inside waits, too */
    cr_assert_eq(run_on(RUN_SHM, 4, 0, impatient, group_body, &rounds), 0);
}

/* ---- deaths ---- */

struct death {
    int exclusive;              /* the way of who dies holding the lock; 2: he does not hold it */
    _Atomic int *met, *done;
};

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct death *death = arg;
    int exclusive = death->exclusive, status;
    loco_rw_lock_t *lock;
    int64_t start;

    CHECK(open_lock(rt, &lock) == 0);
    if (rank == 1 && exclusive < 2)
        CHECK_OK(exclusive ? loco_rw_lock_acquire_exclusive(lock)
                           : loco_rw_lock_acquire_shared(lock));
    CHECK_OK(run_meet(rt));
    atomic_fetch_add(death->met, 1);
    start = run_now();
    if (rank == 1) {
        CHECK_OK(run_await(death->met, 4));
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    usleep((useconds_t)rank * 70000);       /* some wait by then, some come later */
    status = loco_rw_lock_acquire_exclusive(lock);
    CHECK_EQ(status, exclusive == 2 ? LOCO_OK : LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - start < run_limit(RUN_PATIENCE));
    if (status == LOCO_OK)
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    atomic_fetch_add(death->done, 1);
    CHECK_OK(run_await(death->done, 3));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, a_dead_holder_ends_the_wait_and_others_hurt_nobody, .timeout = RUN_SECONDS)
{
    for (int exclusive = 0; exclusive < 3; exclusive++) {
        struct death death = { exclusive, run_counter(), run_counter() };

        cr_assert_eq(run_on(RUN_SHM, 4, 0, NULL, death_body, &death), 0, "%d", exclusive);
    }
}

/* ---- what a ticket leaves behind ---- */

struct line {
    bool owner;                 /* of a ticket: dies; else its call fails, as another dies */
    _Atomic int *pid;           /* of who is to die */
    _Atomic int *failed, *done;
};

static bool is_closed(const loco_rw_lock_t *lock)
{
    return loci_rw_closed(loci_load64(loci_rw_lock_word(lock)));
}

static int line_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct line *line = arg;
    loco_rw_lock_t *lock;
    int64_t start;

    CHECK(open_lock(rt, &lock) == 0);
    if (rank == 1)
        atomic_store(line->pid, (int)getpid());
    if (rank == 0)
        CHECK_OK(loco_rw_lock_acquire_shared(lock));
    CHECK_OK(run_meet(rt));
    if (rank == 1) {
        if (line->owner)
            loco_rw_lock_acquire_exclusive(lock);
        else
            sleep(RUN_SECONDS);
    }
    if (rank == 2 && !line->owner) {
        CHECK_EQ(loco_rw_lock_acquire_exclusive(lock), LOCO_ERR_PEER_DEAD);
        atomic_fetch_add(line->failed, 1);
    }
    if (rank == 0) {
        for (start = run_now(); !is_closed(lock); usleep(1000))
            CHECK(run_now() - start < run_limit(RUN_PATIENCE));
        kill(*line->pid, SIGKILL);
        if (!line->owner)
            CHECK_OK(run_await(line->failed, 1));
        CHECK(is_closed(lock));
        CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
    }
    CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
    CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(loco_rw_lock_acquire_shared(lock));
    CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
    atomic_fetch_add(line->done, 1);
    CHECK_OK(run_await(line->done, 2));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, a_ticket_that_is_nobodys_is_skipped, .timeout = RUN_SECONDS)
{
    for (int owner = 0; owner < 2; owner++) {
        struct line line = { owner != 0, run_counter(), run_counter(), run_counter() };

        cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, line_body, &line), 0, "%d", owner);
    }
}

/* Its host holds the word by hand, and skips the ticket, every other time as it gives the word
 * back: the owner draws another, or takes a word that has no line. */
static int skipped_body(loco_runtime_t *rt, int rank, void *arg)
{
    const uint64_t held = UINT64_C(1) << LOCI_RW_SECOND_SHIFT;      /* by rank 0 */
    loco_rw_lock_t *lock;
    int64_t until = run_now() + run_limit(RUN_PATIENCE);
    uint64_t *word, next;

    (void)arg;
    CHECK(open_lock(rt, &lock) == 0);
    word = (uint64_t *)(uintptr_t)loci_rw_lock_word(lock);
    for (int i = 0; i < 100; i++) {
        if (rank == 0)
            __atomic_fetch_add(word, held, __ATOMIC_SEQ_CST);
        CHECK_OK(run_meet(rt));
        if (rank == 0) {
            for (int skips = 0; skips <= i % 2; skips++) {
                for (; !is_closed(lock); usleep(100))
                    CHECK(run_now() < until);
                next = __atomic_load_n(word, __ATOMIC_SEQ_CST) >> LOCI_RW_NEXT_SHIFT;
                __atomic_store_n(word, next << LOCI_RW_NEXT_SHIFT | next << LOCI_RW_SERVING_SHIFT
                                       | (skips < i % 2 ? held : 0), __ATOMIC_SEQ_CST);
            }
        } else {
            CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
            CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
        }
        CHECK_OK(run_meet(rt));
        CHECK(rank != 0 || !is_closed(lock));
    }
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, an_owner_that_was_skipped_gives_nothing_back, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, impatient, skipped_body, NULL), 0);
}

/* The word as one leaves it who has passed the line: nobody holds it, and nobody waits. */
static int left_body(loco_runtime_t *rt, int rank, void *arg)
{
    int64_t until = run_now() + run_limit(RUN_PATIENCE);
    loco_rw_lock_t *lock;
    uint64_t *word;

    (void)arg;
    CHECK(open_lock(rt, &lock) == 0);
    word = (uint64_t *)(uintptr_t)loci_rw_lock_word(lock);
    if (rank == 0)
        *word = UINT64_C(3) << LOCI_RW_NEXT_SHIFT;
    CHECK_OK(run_meet(rt));
    for (; rank == 1 && loco_rw_lock_try_exclusive(lock) == LOCO_ERR_AGAIN; usleep(1000))
        CHECK(run_now() < until);
    if (rank == 1)
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(rt));
    CHECK(rank != 0 || !is_closed(lock));
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, who_only_tries_is_not_kept_out_for_ever, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 2, 0, NULL, left_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 2, 0, NULL, left_body, NULL), 0);
}

/* A writer is in line, and readers pass it again and again: its ticket is the only one. */
static int passers_body(loco_runtime_t *rt, int rank, void *arg)
{
    _Atomic int *passed = arg;
    loco_rw_lock_t *lock;
    uint64_t word;

    CHECK(open_lock(rt, &lock) == 0);
    if (rank == 0)
        CHECK_OK(loco_rw_lock_acquire_shared(lock));
    CHECK_OK(run_meet(rt));
    if (rank == 0) {
        CHECK_OK(run_await(passed, 3));
        word = loci_load64(loci_rw_lock_word(lock));
        CHECK_EQ((word >> LOCI_RW_NEXT_SHIFT) - (word >> LOCI_RW_SERVING_SHIFT & 0xffff), 1);
        CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
    } else if (rank == 1) {
        CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
        CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
    } else {
        usleep(20000);          /* rank 1 is in line */
        for (int i = 0; i < 20; i++) {
            CHECK_OK(loco_rw_lock_acquire_shared(lock));
            usleep(500);
            CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
        }
        atomic_fetch_add(passed, 1);
    }
    CHECK_OK(run_meet(rt));
    loco_rw_lock_destroy(lock);
    return 0;
}

Test(rw_lock, who_passes_leaves_no_ticket_behind, .timeout = RUN_SECONDS)
{
    static const char *const soon[] = { "LOCO_LOCK_PATIENCE=0", "LOCO_LOCK_PASS=2ms", NULL };

    cr_assert_eq(run_on(RUN_SHM, 5, 0, soon, passers_body, run_counter()), 0);
}

/* ---- meeting with the lock in hand ---- */

static int meeting_body(loco_runtime_t *rt, int rank, void *arg)
{
    loco_atomic_var_t *came;
    loco_rw_lock_t *lock;
    uint64_t n = 0;

    (void)arg;
    CHECK_OK(loco_rw_lock_create(rt, NULL, "l", loco_everyone(rt), 0, &lock));
    CHECK_OK(loco_atomic_var_create(rt, NULL, "c", loco_everyone(rt), 0, &came));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    for (int i = 0; i < 3; i++) {
        if (rank == 0)
            CHECK_OK(loco_rw_lock_acquire_shared(lock));
        CHECK_OK(run_meet(rt));
        if (rank == 2) {
            CHECK_OK(loco_rw_lock_acquire_exclusive(lock));
            CHECK_OK(loco_atomic_var_load(came, &n));
            CHECK_EQ(n, 2 * (i + 1));
            CHECK_OK(loco_rw_lock_release_exclusive(lock, LOCO_FENCE_NONE, 0));
        } else {
            usleep(20000);      /* rank 2 is in line */
            if (rank == 1)
                CHECK_OK(loco_rw_lock_acquire_shared(lock));
            CHECK_OK(loco_atomic_var_fetch_add(came, 1, &n));
            while (n < 2 * ((uint64_t)i + 1)) {
                CHECK_OK(loco_atomic_var_load(came, &n));
                usleep(100);
            }
            CHECK_OK(loco_rw_lock_release_shared(lock, LOCO_FENCE_NONE, 0));
        }
        CHECK_OK(run_meet(rt));
    }
    loco_rw_lock_destroy(lock);
    loco_atomic_var_destroy(came);
    return 0;
}

Test(rw_lock, holders_that_meet_are_not_kept_apart_by_the_line, .timeout = RUN_SECONDS)
{
    cr_assert_eq(run_on(RUN_SHM, 3, 0, NULL, meeting_body, NULL), 0);
    cr_assert_eq(run_on(RUN_WEAK, 3, 0, NULL, meeting_body, NULL), 0);
}
