/* SPDX-License-Identifier: BSD-3-Clause */

/* What a peer's device refuses: who wrote it is told, whoever else waits is not held up, and all
 * goes on. tests/rdma/mended.c has the same of real devices. */

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include <loco/loco.h>

#include "member.h"
#include "move/rma.h"
#include "window/window.h"

#define SEEDS 40
#define WORDS 64

/* ---- one lane ---- */

/* Everybody's words, as this member reaches them; and the next one's by a key that fits nothing. */
struct words {
    struct member *m;
    loco_window_t *win;
    struct loci_mem *to, forged;
    uint64_t *base;
    int peer;
    _Atomic int step;
};

static int enter(struct words *w, struct member *m)
{
    *w = (struct words){ .m = m };
    weak_refuse_later(m->rt);
    CHECK_OK(member_window(m, LOCO_WINDOW_ALLOCATE, NULL, 8 * WORDS, &w->win));
    w->base = loco_window_base(w->win);
    w->to = &w->win->target[(m->rank + 1) % m->n].mem;
    w->peer = w->to->peer;
    w->forged = (struct loci_mem){ .peer = w->peer, .domain = w->to->domain, .key = w->to->key };
    w->forged.key.extent = 77777;
    CHECK_OK(run_meet(m->rt));
    return 0;
}

static int leave(struct words *w)
{
    CHECK_OK(run_meet(w->m->rt));
    CHECK_OK(loco_window_destroy(w->win));
    return 0;
}

/* Nobody asks for what became of it. */
static int lose(struct words *w)
{
    loco_ack_t ack = LOCO_ACK_INIT;

    CHECK(loci_write64(w->m->rt, &w->forged, 0, 1, &ack) >= 0);
    return 0;
}

/* Polls until the device has refused it. */
static int lose_and_see(struct words *w)
{
    struct loci_lane *lane = atomic_load(&loci_self(w->m->rt)->lanes[w->peer]);

    CHECK(lose(w) == 0);
    while (atomic_load(&lane->failed) == LOCO_OK)
        loci_lane_poll(lane);
    return 0;
}

static int works(struct words *w, uint64_t value)
{
    uint64_t back = 0;

    CHECK_OK(loci_write64(w->m->rt, w->to, 8, value, NULL));
    CHECK_OK(loci_fence_peer(w->m->rt, LOCO_FENCE_THREAD, w->peer));
    CHECK_OK(loci_read64(w->m->rt, w->to, 8, &back, NULL));
    CHECK_EQ(back, value);
    return 0;
}

/* Until a fence has told it nothing goes by the lane, for it may say that what is lost is there. */
static int own_body(struct member *m)
{
    struct words w;
    uint64_t value;

    CHECK(enter(&w, m) == 0);
    CHECK(works(&w, 1) == 0);
    CHECK(lose_and_see(&w) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(loci_write64(m->rt, w.to, 16, 9, NULL), LOCO_ERR_RANGE);
        CHECK_EQ(loci_read64(m->rt, w.to, 8, &value, NULL), LOCO_ERR_RANGE);
    }
    CHECK_EQ(loci_fence_peer(m->rt, LOCO_FENCE_PAIR, w.peer), LOCO_ERR_RANGE);
    CHECK(works(&w, 2) == 0);
    CHECK(lose(&w) == 0);       /* perhaps not refused yet, and the fence finds it */
    CHECK_EQ(loci_fence_peer(m->rt, LOCO_FENCE_PROCESS, -1), LOCO_ERR_RANGE);
    CHECK(works(&w, 3) == 0);
    CHECK_OK(run_meet(m->rt));
    CHECK_EQ(w.base[2], 0);
    return leave(&w);
}

Test(lane, goes_on_once_its_thread_is_told, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 2, seed, own_body, NULL, NULL), 0);
}

/* Thread 1 loses a write. Thread 0 fences for the process, and is told; thread 1, which does not
 * fence, is told by its own next operation, once. */
static int other_step(void *arg, int thread)
{
    struct words *w = arg;
    loco_runtime_t *rt = w->m->rt;

    if (thread == 0) {
        CHECK_OK(run_await(&w->step, 1));
        for (int i = 0; i < 3; i++)
            CHECK_EQ(loci_fence_peer(rt, LOCO_FENCE_PROCESS, w->peer), LOCO_ERR_RANGE);
        CHECK(works(w, 4) == 0);    /* its own lane has lost nothing */
        atomic_store(&w->step, 2);
        CHECK_OK(run_await(&w->step, 3));
        CHECK_OK(loci_fence_peer(rt, LOCO_FENCE_PROCESS, w->peer));
        return 0;
    }
    CHECK(works(w, 5) == 0);
    CHECK(lose_and_see(w) == 0);
    CHECK_EQ(loci_write64(rt, w->to, 16, 9, NULL), LOCO_ERR_RANGE);
    CHECK_EQ(loci_write64(rt, w->to, 16, 9, NULL), LOCO_ERR_RANGE);
    atomic_store(&w->step, 1);
    CHECK_OK(run_await(&w->step, 2));
    CHECK_EQ(loci_write64(rt, w->to, 16, 9, NULL), LOCO_ERR_RANGE);
    CHECK(works(w, 6) == 0);
    atomic_store(&w->step, 3);
    return 0;
}

static int other_body(struct member *m)
{
    struct words w;

    CHECK(enter(&w, m) == 0);
    CHECK(run_threads(2, other_step, &w) == 0);
    CHECK_OK(run_meet(m->rt));
    CHECK_EQ(w.base[2], 0);
    return leave(&w);
}

Test(lane, is_told_to_its_thread_though_another_fences, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 2, seed, other_body, NULL, NULL), 0);
}

/* ---- what others wait for ---- */

/* A put that is refused, in an epoch of whatever kind, and whose poster has not waited for it. */
static int put_in_vain(struct words *w, int rank)
{
    struct loci_mem forged = { .peer = w->win->target[rank].mem.peer };

    forged.key = w->forged.key;
    forged.domain = w->forged.domain;
    w->forged = forged;
    return lose(w);
}

static int fence_body(struct member *m)
{
    struct words w;
    uint64_t value;

    CHECK(enter(&w, m) == 0);
    CHECK_OK(loco_window_fence(w.win, LOCO_ASSERT_NOPRECEDE));
    for (uint64_t round = 1; round <= 6; round++) {
        int next = (m->rank + 1) % m->n;
        bool in_vain = round % 2 == 1 || m->rank == (int)(round / 2 % (unsigned)m->n);

        if (in_vain)
            CHECK(put_in_vain(&w, next) == 0);
        CHECK_EQ(loco_window_fence(w.win, 0), in_vain ? LOCO_ERR_RANGE : LOCO_OK);
        value = round;
        CHECK_OK(member_put(w.win, next, 8, &value, 8));
        CHECK_OK(loco_window_fence(w.win, 0));
        CHECK_EQ(w.base[1], round);
    }
    CHECK_OK(loco_window_fence(w.win, LOCO_ASSERT_NOSUCCEED));
    return leave(&w);
}

/* Of two members each waits for the other's counter, which went behind what was refused. */
Test(lane, holds_up_no_fence, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int n = 2; n <= 3; n++)
            cr_assert_eq(member_run_seed(RUN_WEAK, n, seed, fence_body, NULL, NULL), 0);
}

static int complete_body(struct member *m)
{
    int before = (m->rank + m->n - 1) % m->n, next = (m->rank + 1) % m->n;
    struct words w;

    CHECK(enter(&w, m) == 0);
    for (int round = 0; round < 4; round++) {
        CHECK_OK(loco_window_post(w.win, 1, &before, 0));
        CHECK_OK(loco_window_start(w.win, 1, &next, 0));
        if (round % 2 == 0)
            CHECK(put_in_vain(&w, next) == 0);
        CHECK_EQ(loco_window_complete(w.win), round % 2 == 0 ? LOCO_ERR_RANGE : LOCO_OK);
        CHECK_OK(loco_window_wait(w.win));
    }
    return leave(&w);
}

Test(lane, holds_up_no_wait, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int n = 2; n <= 3; n++)
            cr_assert_eq(member_run_seed(RUN_WEAK, n, seed, complete_body, NULL, NULL), 0);
}

/* A lock is given back, whatever was refused while it was held. */
static int lock_body(struct member *m)
{
    struct words w;

    CHECK(enter(&w, m) == 0);
    for (int round = 0; round < 12; round++) {
        int target = round % m->n;
        bool in_vain = target != m->rank && round % 2 == 0;

        CHECK_OK(loco_window_lock(w.win, round % 3 == 0 ? LOCO_LOCK_SHARED : LOCO_LOCK_EXCLUSIVE,
                                  target, 0));
        if (in_vain)
            CHECK(put_in_vain(&w, target) == 0);
        CHECK_EQ(loco_window_unlock(w.win, target), in_vain ? LOCO_ERR_RANGE : LOCO_OK);
        CHECK_OK(loco_window_lock_all(w.win, 0));
        CHECK_OK(loco_window_unlock_all(w.win));
    }
    return leave(&w);
}

Test(lane, holds_up_no_lock, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int n = 2; n <= 3; n++)
            cr_assert_eq(member_run_seed(RUN_WEAK, n, seed, lock_body, NULL, NULL), 0);
}

static int ticket_body(struct member *m)
{
    loco_ticket_lock_t *lock;
    struct words w;

    CHECK(enter(&w, m) == 0);
    CHECK_OK(loco_ticket_lock_create(m->rt, NULL, "turn", loco_everyone(m->rt), 0, &lock));
    CHECK_OK(loco_runtime_wait_ready(m->rt, LOCO_FOREVER));
    for (int round = 0; round < 8; round++) {
        bool in_vain = m->rank != 0 && round % 2 == 0;

        CHECK_OK(loco_ticket_lock_acquire(lock));
        if (in_vain)
            CHECK(put_in_vain(&w, 0) == 0);     /* where the lock is, by the same lane */
        CHECK_EQ(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0),
                 in_vain ? LOCO_ERR_RANGE : LOCO_OK);
    }
    CHECK_OK(run_meet(m->rt));
    loco_ticket_lock_destroy(lock);
    return leave(&w);
}

Test(lane, holds_up_no_ticket, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 3, seed, ticket_body, NULL, NULL), 0);
}

/* Who has left its place in line and loses a write before it comes back is told so, and has it. */
static int return_body(struct member *m)
{
    loco_ticket_lock_t *lock;
    struct words w;

    CHECK(enter(&w, m) == 0);
    CHECK_OK(loco_ticket_lock_create(m->rt, NULL, "turn", loco_everyone(m->rt), 0, &lock));
    CHECK_OK(loco_runtime_wait_ready(m->rt, LOCO_FOREVER));
    if (m->rank == 0)
        CHECK_OK(loco_ticket_lock_acquire(lock));
    CHECK_OK(run_meet(m->rt));
    if (m->rank == 1) {
        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, 0), LOCO_ERR_TIMEOUT);
        CHECK(put_in_vain(&w, 0) == 0);
        CHECK_EQ(loco_ticket_lock_acquire_timed(lock, 0), LOCO_ERR_RANGE);
        CHECK_EQ(loci_fence_peer(m->rt, LOCO_FENCE_THREAD, w.peer), LOCO_ERR_RANGE);
    }
    CHECK_OK(run_meet(m->rt));
    if (m->rank == 0)
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    else
        CHECK_OK(loco_ticket_lock_acquire(lock));
    if (m->rank == 1)
        CHECK_OK(loco_ticket_lock_release(lock, LOCO_FENCE_NONE, 0));
    CHECK_OK(run_meet(m->rt));
    loco_ticket_lock_destroy(lock);
    return leave(&w);
}

Test(lane, holds_up_nobody_who_comes_back, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 2, seed, return_body, NULL, NULL), 0);
}

/* Of a call on memory of several members: where it went decides whether it has met the refusal. */
static bool is_told(int status, bool in_vain)
{
    return status == LOCO_OK || (in_vain && status == LOCO_ERR_RANGE);
}

/* A ticket is out before its place is claimed. Whatever was refused of one who pushes or pops, and
 * to whom, the entry gets from one to the other; who wakes a waiter does so, too. */
static int queue_body(struct member *m)
{
    _Atomic int *pushed = m->arg;
    loco_queue_t *q;
    struct words w;
    uint64_t entry;

    CHECK(enter(&w, m) == 0);
    CHECK_OK(loco_queue_create(m->rt, NULL, "line", loco_everyone(m->rt), sizeof entry, 5, 0, &q));
    CHECK_OK(loco_runtime_wait_ready(m->rt, LOCO_FOREVER));
    for (uint64_t round = 1; round <= 24; round++) {
        int refuses = (int)(round / 3 % (unsigned)m->n);
        bool pop_first = round % 2 == 0, in_vain = m->rank != 0 && m->rank != refuses;

        entry = round;
        if (m->rank == 1 && pop_first)
            usleep(500);                /* until the other waits */
        if (m->rank == 2 && !pop_first)
            CHECK_OK(run_await(pushed, (int)round));
        if (in_vain)
            CHECK(put_in_vain(&w, refuses) == 0);
        if (m->rank == 1)
            CHECK(is_told(loco_queue_push(q, &entry), in_vain));
        if (m->rank == 1)
            atomic_store(pushed, (int)round);
        entry = 0;
        if (m->rank == 2) {
            CHECK(is_told(loco_queue_pop(q, &entry), in_vain));
            CHECK_EQ(entry, round);
        }
        if (in_vain)
            loci_fence_peer(m->rt, LOCO_FENCE_THREAD, -1);
        CHECK_OK(run_meet(m->rt));
    }
    if (m->rank == 1) {
        CHECK(put_in_vain(&w, 2) == 0);
        CHECK_EQ(loco_queue_close(q), LOCO_ERR_RANGE);
    } else {
        CHECK_EQ(loco_queue_pop(q, &entry), LOCO_ERR_CLOSED);
    }
    CHECK_OK(run_meet(m->rt));
    loco_queue_destroy(q);
    return leave(&w);
}

Test(lane, holds_up_no_ticket_of_a_queue, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        _Atomic int pushed = 0;

        cr_assert_eq(member_run_seed(RUN_WEAK, 3, seed, queue_body, &pushed, NULL), 0);
    }
}

/* Who loses a write before it has arrived all the same, in one call or in several. */
static int meet(loco_barrier_t *barrier, bool limited)
{
    int status = limited ? LOCO_ERR_TIMEOUT : loco_barrier_wait(barrier);

    while (status == LOCO_ERR_TIMEOUT)
        status = loco_barrier_wait_timed(barrier, 10000);
    return status;
}

static int barrier_body(struct member *m)
{
    loco_barrier_t *barrier;
    struct words w;

    CHECK(enter(&w, m) == 0);
    CHECK_OK(loco_barrier_create(m->rt, NULL, "all", loco_everyone(m->rt), &barrier));
    CHECK_OK(loco_runtime_wait_ready(m->rt, LOCO_FOREVER));
    for (int round = 0; round < 8; round++) {
        bool in_vain = round % m->n == m->rank;

        if (in_vain)
            CHECK(put_in_vain(&w, (m->rank + 1) % m->n) == 0);
        CHECK_EQ(meet(barrier, round >= 4), in_vain ? LOCO_ERR_RANGE : LOCO_OK);
    }
    CHECK_OK(run_meet(m->rt));
    loco_barrier_destroy(barrier);
    return leave(&w);
}

Test(lane, holds_up_no_barrier, .timeout = RUN_SECONDS)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cr_assert_eq(member_run_seed(RUN_WEAK, 3, seed, barrier_body, NULL, NULL), 0);
}
