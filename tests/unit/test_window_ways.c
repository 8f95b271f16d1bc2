/* SPDX-License-Identifier: BSD-3-Clause */

/* Accumulates that go from the lock to atomics and back (window_acc_way.h), and the asymmetric
 * fence which lets them (asymmetric.h), between processes. */

#include <criterion/criterion.h>
#include <signal.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "member.h"
#include "move/asymmetric.h"
#include "wait.h"
#include "window/window.h"

#define VECTOR 16

static enum loci_singles way_of(const loco_window_t *win, int rank)
{
    return loci_singles_way(loci_window_singles(win, rank));
}

/* Whether this process can be told to leave atomics, once that is known. */
static bool is_revocable(struct member *m)
{
    enum loci_asymmetric state;

    while ((state = loci_asymmetric_state(m->rt)) == LOCI_ASYMMETRIC_TRYING)
        usleep(1000);
    return state == LOCI_ASYMMETRIC_READY;
}

static int make(struct member *m, loco_window_t **win)
{
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = 8 * VECTOR, .disp_unit = 1, .one_thread = true,
    };
    int status = loco_window_create(m->rt, &m->exchange, &spec, win);

    if (status == LOCO_OK)
        status = loco_window_fence(*win, 0);
    return status == LOCO_OK ? loco_window_lock_all(*win, 0) : status;
}

static int end(loco_window_t *win)
{
    int status = loco_window_unlock_all(win);

    return status == LOCO_OK ? loco_window_destroy(win) : status;
}

/* One more in n elements at rank 0. */
static int add(struct member *m, loco_window_t *win, size_t n)
{
    uint64_t one[VECTOR];
    struct loci_combine how;
    int status;

    for (size_t k = 0; k < VECTOR; k++)
        one[k] = 1;
    if (m->rank % 2 == 1 && loci_window_combine_open(win, LOCO_TYPE_U64, LOCO_OP_SUM, &how)
        && loci_window_combine(win, 0, &how, 0, n, one))
        return LOCO_OK;
    /* Gathered, it would be with others when it goes. */
    status = member_accumulate(win, 0, LOCO_TYPE_U64, LOCO_OP_SUM, 0, one, NULL, n);
    return status == LOCO_OK ? loco_window_flush(win, 0) : status;
}

static int add_many(struct member *m, loco_window_t *win, size_t n, int times)
{
    int status = LOCO_OK;

    for (int i = 0; status == LOCO_OK && i < times; i++)
        status = add(m, win, n);
    return status;
}

/* ---- both directions ---- */

/* All do singles, then vectors, with a fence between; then both at once. */
static int phases_body(struct member *m)
{
    enum { PHASES = 20, CALLS = 600 };
    bool revocable = is_revocable(m);
    loco_window_t *win;
    uint64_t *base;

    CHECK_OK(make(m, &win));
    base = loco_window_base(win);
    for (int i = 0; i < PHASES; i++) {
        CHECK_OK(add_many(m, win, 1, CALLS));
        CHECK_OK(run_meet(m->rt));
        CHECK(way_of(win, 0) != LOCI_SINGLES_LOCK);
        CHECK_OK(run_meet(m->rt));
        CHECK_OK(add_many(m, win, VECTOR, CALLS));
        CHECK_OK(run_meet(m->rt));
        if (i == 0)
            CHECK_EQ(way_of(win, 0), revocable ? LOCI_SINGLES_LOCK : LOCI_SINGLES_ALWAYS);
        CHECK_OK(run_meet(m->rt));
    }
    for (int i = 0; i < PHASES * CALLS; i++)
        CHECK_OK(add(m, win, (i + m->rank) % 3 == 0 ? VECTOR : 1));
    CHECK_OK(run_meet(m->rt));
    for (int k = 0; m->rank == 0 && k < VECTOR; k++) {
        uint64_t vectors = 0;

        for (int rank = 0; rank < m->n; rank++)
            for (int i = 0; i < PHASES * CALLS; i++)
                vectors += (i + rank) % 3 == 0;
        CHECK_EQ(base[k], k == 0 ? (uint64_t)(3 * m->n * PHASES * CALLS)
                                 : (uint64_t)(m->n * PHASES * CALLS) + vectors);
    }
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, singles_and_vectors_in_phases, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 2, phases_body, NULL, NULL), 0);
    cr_assert_eq(member_run(RUN_SHM, 4, phases_body, NULL, NULL), 0);
}

/* One of each, again and again: the way stays. */
static int turns_body(struct member *m)
{
    loco_window_t *win;
    int changes = 0;

    CHECK_OK(make(m, &win));
    if (m->rank == 1 && is_revocable(m)) {
        enum loci_singles before = way_of(win, 0), now;

        for (int i = 0; i < 4000; i++, before = now) {
            CHECK_OK(add(m, win, i % 2 == 0 ? 1 : VECTOR));
            now = way_of(win, 0);
            changes += now != before;
        }
        CHECK_EQ(way_of(win, 0), LOCI_SINGLES_LOCK);
        CHECK_EQ(changes, 2);
    }
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, turns_come_to_the_lock, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 2, turns_body, NULL, NULL), 0);
}

/* Changes that do not pay become rare: many singles between few vectors. */
static int mixture_body(struct member *m)
{
    loco_window_t *win;
    int changes = 0;

    CHECK_OK(make(m, &win));
    if (m->rank == 1 && is_revocable(m)) {
        enum loci_singles before = way_of(win, 0), now;

        for (int i = 0; i < 200000; i++, before = now) {
            CHECK_OK(add(m, win, i % 100 == 0 ? VECTOR : 1));
            now = way_of(win, 0);
            changes += now != before;
        }
        CHECK(changes > 3 && changes < 20);
    }
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, changes_that_do_not_pay_become_rare, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 2, mixture_body, NULL, NULL), 0);
}

/* ---- who does not answer ---- */

static _Atomic uint64_t *inside_of(loco_window_t *win, int rank)
{
    return (_Atomic uint64_t *)(void *)(win->target[rank].control + LOCI_WINDOW_INSIDE);
}

/* Member 1 looks as if it was stopped in the middle of an atomic: vectors go on by atomics. */
static int stopped_body(struct member *m)
{
    loco_window_t *win;

    CHECK_OK(make(m, &win));
    CHECK_OK(add(m, win, 1));
    if (m->rank == 1)
        atomic_store(inside_of(win, 1), 1);
    CHECK_OK(run_meet(m->rt));
    if (m->rank == 0 && is_revocable(m)) {
        int64_t begin = run_now();

        CHECK_OK(add_many(m, win, VECTOR, 200));
        CHECK(!run_too_long(begin, INT64_C(5000000000)));
        CHECK_EQ(way_of(win, 0), LOCI_SINGLES_ATOMICS);
        atomic_store(inside_of(win, 1), 2);     /* at another target */
        CHECK_OK(add_many(m, win, VECTOR, 5000));
        CHECK_EQ(way_of(win, 0), LOCI_SINGLES_LOCK);
    }
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, who_is_stopped_holds_up_nobody, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 3, stopped_body, NULL, NULL), 0);
}

/* Or it dies there. */
static int death_body(struct member *m)
{
    _Atomic int *met = m->arg;
    loco_window_t *win;

    CHECK_OK(make(m, &win));
    CHECK_OK(add(m, win, 1));
    if (m->rank == 1)
        atomic_store(inside_of(win, 1), 1);
    CHECK_OK(run_meet_alive(m->rt, met));
    if (m->rank == 1)
        _exit(99);
    if (m->rank == 0 && is_revocable(m)) {
        while (loci_peer_alive(m->rt, win->group.peer[1]))
            usleep(1000);
        CHECK_OK(add_many(m, win, VECTOR, 200));
        CHECK_EQ(way_of(win, 0), LOCI_SINGLES_LOCK);
    }
    return 0;
}

Test(window_ways, the_dead_are_outside, .timeout = RUN_SECONDS)
{
    int statuses[3];

    member_run(RUN_SHM, 3, death_body, (void *)run_counter(), statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 99 && statuses[2] == 0);
}

/* ---- where there is no fence ---- */

/* One member's system refuses, and it needs atomics: they stay. */
static int refused_body(struct member *m)
{
    loco_window_t *win;

    if (m->rank == 1)
        atomic_store(&m->rt->asymmetric, LOCI_ASYMMETRIC_REFUSED);
    CHECK_OK(make(m, &win));
    CHECK_OK(add_many(m, win, 1, 500));
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(add_many(m, win, VECTOR, 500));
    CHECK_OK(run_meet(m->rt));
    CHECK_EQ(way_of(win, 0), LOCI_SINGLES_ALWAYS);
    if (m->rank == 0)
        CHECK_EQ(*(uint64_t *)loco_window_base(win), 1000 * (uint64_t)m->n);
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, where_it_is_refused_atomics_stay, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_SHM, 3, refused_body, NULL, NULL), 0);
}

/* ---- over devices ---- */

/* Whether this process has the right to the device's atomics at rank 0. */
static bool has_right(loco_window_t *win)
{
    return (atomic_load(&win->rights[0].state) & 1) != 0;
}

/* Member 1 gives its right back when its vectors prevail, and asks member 2 for that one's. */
static int rights_body(struct member *m)
{
    loco_window_t *win;

    CHECK_OK(make(m, &win));
    CHECK_OK(add_many(m, win, 1, m->rank == 0 ? 0 : 3));
    CHECK_EQ(has_right(win), m->rank != 0);
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(add_many(m, win, VECTOR, m->rank == 1 ? 5 : 0));
    CHECK_EQ(has_right(win), m->rank != 0);     /* given back, and taken again with member 2 */
    CHECK_OK(run_meet(m->rt));
    for (int i = 0; i < 10000 && m->rank == 2 && has_right(win); i++) {
        CHECK_OK(add(m, win, 1));
        usleep(1000);
    }
    CHECK_EQ(has_right(win), m->rank == 1);
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(add_many(m, win, VECTOR, m->rank == 1 ? 20 : 0));
    CHECK(!has_right(win));
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(add_many(m, win, 1, m->rank == 1 ? 200 : 0));
    CHECK_EQ(has_right(win), m->rank == 1);
    CHECK_OK(run_meet(m->rt));
    if (m->rank == 0)
        CHECK_EQ(((uint64_t *)loco_window_base(win))[VECTOR - 1], 25);
    CHECK_OK(run_meet(m->rt));
    CHECK_OK(end(win));
    return 0;
}

Test(window_ways, rights_to_the_device_are_given_back, .timeout = RUN_SECONDS)
{
    cr_assert_eq(member_run(RUN_WEAK, 3, rights_body, NULL, NULL), 0);
}

/* ---- the fence ---- */

#define ROUNDS 20000

struct line {
    _Atomic uint64_t word;
    char rest[56];
};

struct litmus {
    struct line frequent[ROUNDS], rare[ROUNDS];
    struct line seen[2];            /* rounds that each has begun */
    uint64_t missed[2][ROUNDS];
};

/* Both begin a round as nearly together as may be. */
static void begin_round(struct litmus *l, int side, uint64_t round)
{
    atomic_store(&l->seen[side].word, round + 1);
    for (int i = 0; atomic_load(&l->seen[1 - side].word) < round + 1; i++)
        if (i % 1000 == 999)
            sched_yield();
}

/* Each stores its word and loads the other's: one of them sees the other's. */
static int litmus_body(struct member *m)
{
    struct litmus *l = m->arg;
    bool offered = is_revocable(m);
    uint64_t both = 0;

    CHECK_OK(run_meet(m->rt));
    for (uint64_t i = 0; offered && i < ROUNDS; i++) {
        begin_round(l, m->rank, i);
        if (m->rank == 0) {
            loci_store_frequent(m->rt, &l->frequent[i].word, 1);
            l->missed[0][i] = atomic_load_explicit(&l->rare[i].word, memory_order_relaxed) == 0;
        } else {
            atomic_store_explicit(&l->rare[i].word, 1, memory_order_relaxed);
            CHECK(loci_fence_heavy(m->rt));
            l->missed[1][i] = atomic_load_explicit(&l->frequent[i].word, memory_order_relaxed) == 0;
        }
    }
    CHECK_OK(run_meet(m->rt));
    for (int i = 0; i < ROUNDS; i++)
        both += l->missed[0][i] != 0 && l->missed[1][i] != 0;
    CHECK_EQ(both, 0);
    CHECK_OK(run_meet(m->rt));
    return 0;
}

Test(window_ways, of_two_sides_one_sees_the_other, .timeout = RUN_SECONDS)
{
    struct litmus *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);

    cr_assert(l != MAP_FAILED);
    cr_assert_eq(member_run(RUN_SHM, 2, litmus_body, l, NULL), 0);
    munmap(l, sizeof *l);
}
