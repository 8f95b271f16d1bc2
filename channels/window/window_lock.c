/* SPDX-License-Identifier: BSD-3-Clause */

/* Passive target: locks and flushes.
 *
 * Two words of rw_word.h, in control blocks: one of each target, and one of the window at rank 0.
 *
 *   shared      SHARED on the target's word                               1 atomic
 *   lock_all    ALL on the window's word                                  1 atomic
 *   exclusive   QUICK on the target's where a gate allows it              1 atomic
 *               else PART on the window's, EXCLUSIVE on the target's      2 atomics
 *
 * So lock_all and exclusive locks exclude each other on the window's word, shared and exclusive on
 * the target's. The gate is in window_gate.h. They are given back after what this process has
 * written to the target is placed, or by the atomic that places it (rw_pair.h). Who
 * passes whom, and who is dead and held what: see rw_word.h. */

#include "config.h"

#include "locks/rw_pair.h"
#include "window_gate.h"

#define NOT_WITH_A_LOCK \
    (LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE | LOCI_EPOCH_BUSY | LOCI_EPOCH_START)

static int first_error(int one, int other)
{
    return one != LOCO_OK ? one : other;
}

/* What this process has written to the target, or to all (-1), is visible to everyone, and what it
 * has read from there is here. */
static int finish_traffic(struct loco_window *win, int rank)
{
    int peer = rank < 0 ? -1 : win->group.peer[rank], status = loci_window_settle(win);

    if (win->synchronous) {
        atomic_thread_fence(memory_order_seq_cst);
        return status;
    }
    return first_error(status, loci_finish(win->rt, peer, &win->group));
}

/* The same before an atomic on a lock, which is a fence of mapped memory itself; and what is
 * written is placed by that atomic where *ordered says so. `lock`: the target's. Not so what is
 * read: who gets the lock may write there, while an atomic on a device's own memory waits for
 * nothing. */
static int finish_before_release(struct loco_window *win, int rank, const struct loci_rw *lock,
                                 bool *ordered)
{
    int status = loci_window_settle(win);

    *ordered = status == LOCO_OK && loci_mem_is_posted_to(lock->mem)
               && loci_can_order(win->rt, lock->mem);
    if (win->synchronous)
        return status;
    return first_error(status, *ordered ? loci_finish_reads(win->rt, win->group.peer[rank], NULL)
                                        : finish_traffic(win, rank));
}

/* ---- one target ---- */

/* The epoch word of a target goes from `from` to `to`. */
static bool change_target(struct loco_window *win, struct loci_target *t, uint32_t from,
                          uint32_t to)
{
    if (win->one_thread) {
        if (atomic_load_explicit(&t->epoch, memory_order_relaxed) != from)
            return false;
        atomic_store_explicit(&t->epoch, to, memory_order_relaxed);
        return true;
    }
    return atomic_compare_exchange_strong_explicit(&t->epoch, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static void uncount(struct loco_window *win)
{
    loci_window_change(win, 0, 0, 0, (uint64_t)0 - LOCI_EPOCH_ONE_LOCK);
}

/* Adds to the epoch how the lock is held. */
static int acquire_alone(struct loco_window *win, int rank, unsigned flags, uint32_t *epoch)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    struct loci_rw target = loci_window_lock_of(win, rank);
    int status = win->mapped_by_all ? loci_gate_enter(win, rank, flags)
                                    : loci_gate_enter_far(win, rank, flags);

    if (status == LOCO_OK)
        *epoch |= LOCI_EPOCH_QUICK;
    if (status != LOCO_ERR_AGAIN)
        return status;
    status = loci_rw_pair_acquire(win->rt, &group, &target, flags);
    if (status == LOCO_OK && win->mapped_by_all)
        loci_gate_reopen(win);
    return status;
}

static int acquire(struct loco_window *win, int rank, uint32_t *epoch)
{
    uint64_t locks = atomic_load_explicit(&win->state, memory_order_relaxed) & LOCI_EPOCH_LOCKS;
    unsigned flags = (locks > LOCI_EPOCH_ONE_LOCK ? LOCI_RW_NESTED : 0)
                     | (win->one_thread ? LOCI_RW_ONE_THREAD : 0);
    struct loci_rw target = loci_window_lock_of(win, rank);

    if ((*epoch & LOCI_EPOCH_NOCHECK) != 0)
        return LOCO_OK;
    if ((*epoch & LOCI_EPOCH_EXCLUSIVE) != 0)
        return acquire_alone(win, rank, flags, epoch);
    return loci_rw_acquire(win->rt, &target, LOCI_RW_SHARED, flags);
}

static int release(struct loco_window *win, int rank, uint32_t epoch)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    struct loci_rw target = loci_window_lock_of(win, rank);
    int status, released;
    bool ordered;

    if ((epoch & LOCI_EPOCH_NOCHECK) != 0)
        return finish_traffic(win, rank);
    status = finish_before_release(win, rank, &target, &ordered);
    if ((epoch & LOCI_EPOCH_QUICK) != 0)
        released = loci_rw_release(win->rt, &target, LOCI_RW_QUICK);
    else if ((epoch & LOCI_EPOCH_EXCLUSIVE) != 0)
        released = loci_rw_pair_release(win->rt, &group, &target, !ordered);
    else
        released = loci_rw_release(win->rt, &target, LOCI_RW_SHARED);
    return status != LOCO_OK ? status : released;
}

int loco_window_lock(loco_window_t *win, enum loco_lock_kind kind, int rank, int asserts)
{
    uint32_t epoch = LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE
                     | (kind == LOCO_LOCK_EXCLUSIVE ? LOCI_EPOCH_EXCLUSIVE : 0)
                     | ((asserts & LOCO_ASSERT_NOCHECK) != 0 ? LOCI_EPOCH_NOCHECK : 0);
    struct loci_target *t;
    int status;

    if (!loci_window_has(win, rank)
        || (kind != LOCO_LOCK_SHARED && kind != LOCO_LOCK_EXCLUSIVE))
        return LOCO_ERR_ARG;
    t = &win->target[rank];
    if (win->no_locks
        || loci_window_change(win, NOT_WITH_A_LOCK, 0, LOCI_EPOCH_FENCE, LOCI_EPOCH_ONE_LOCK)
           != LOCO_OK)
        return LOCO_ERR_STATE;
    if (!change_target(win, t, 0, LOCI_EPOCH_BUSY)) {
        uncount(win);
        return LOCO_ERR_STATE;
    }
    status = loci_window_check_alive(win, rank);
    /* Whoever holds this lock may wait for what was put to another member. */
    if (status == LOCO_OK)
        status = loci_window_settle(win);
    if (status == LOCO_OK)
        status = acquire(win, rank, &epoch);
    atomic_store_explicit(&t->epoch, status == LOCO_OK ? epoch : 0, memory_order_release);
    if (status != LOCO_OK)
        uncount(win);
    return status;
}

int loco_window_unlock(loco_window_t *win, int rank)
{
    struct loci_target *t;
    uint32_t epoch;
    int status;

    if (!loci_window_has(win, rank))
        return LOCO_ERR_ARG;
    t = &win->target[rank];
    epoch = atomic_load_explicit(&t->epoch, memory_order_relaxed);
    if ((epoch & LOCI_EPOCH_PASSIVE) == 0 || !change_target(win, t, epoch, LOCI_EPOCH_BUSY))
        return LOCO_ERR_STATE;
    status = release(win, rank, epoch);
    if (status == LOCO_OK)
        status = loci_window_check_alive(win, rank);
    atomic_store_explicit(&t->epoch, 0, memory_order_release);
    uncount(win);
    return status;
}

/* ---- all targets ---- */

int loco_window_lock_all(loco_window_t *win, int asserts)
{
    uint64_t epoch = LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE
                     | ((asserts & LOCO_ASSERT_NOCHECK) != 0 ? LOCI_EPOCH_NOCHECK : 0);
    int status = LOCO_OK;

    if (win->no_locks
        || loci_window_change(win, NOT_WITH_A_LOCK | LOCI_EPOCH_LOCKS, 0, LOCI_EPOCH_FENCE,
                              LOCI_EPOCH_BUSY) != LOCO_OK)
        return LOCO_ERR_STATE;
    if ((epoch & LOCI_EPOCH_NOCHECK) == 0)
        status = win->mapped_by_all ? loci_gate_take_all(win)
                                    : loci_gate_take_all_far(win);
    loci_window_change(win, 0, LOCI_EPOCH_BUSY, LOCI_EPOCH_BUSY, status == LOCO_OK ? epoch : 0);
    return status;
}

int loco_window_unlock_all(loco_window_t *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    uint64_t epoch = atomic_load_explicit(&win->state, memory_order_relaxed);
    int status, released;

    if (loci_window_change(win, LOCI_EPOCH_BUSY, LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE,
                           LOCI_EPOCH_ACCESS | LOCI_EPOCH_PASSIVE | LOCI_EPOCH_NOCHECK,
                           LOCI_EPOCH_BUSY) != LOCO_OK)
        return LOCO_ERR_STATE;
    if ((epoch & LOCI_EPOCH_NOCHECK) != 0) {
        status = finish_traffic(win, -1);
    } else {
        status = win->synchronous ? loci_window_settle(win) : finish_traffic(win, -1);
        released = loci_rw_release(win->rt, &group, LOCI_RW_ALL);
        status = status == LOCO_OK ? released : status;
    }
    loci_window_change(win, 0, LOCI_EPOCH_BUSY, LOCI_EPOCH_BUSY, 0);
    return status;
}

/* ---- flushes ---- */

int loco_window_flush(loco_window_t *win, int rank)
{
    int status;

    if (!loci_window_has(win, rank))
        return LOCO_ERR_ARG;
    if ((loci_window_epoch(win, rank) & LOCI_EPOCH_PASSIVE) == 0)
        return LOCO_ERR_STATE;
    status = finish_traffic(win, rank);
    return status == LOCO_OK ? loci_window_check_alive(win, rank) : status;
}

/* A passive epoch towards some target is open. */
static bool is_passive(const struct loco_window *win)
{
    uint64_t state = atomic_load_explicit(&win->state, memory_order_relaxed);

    return (state & (LOCI_EPOCH_PASSIVE | LOCI_EPOCH_LOCKS)) != 0;
}

int loco_window_flush_all(loco_window_t *win)
{
    return is_passive(win) ? finish_traffic(win, -1) : LOCO_ERR_STATE;
}

/* What a synchronous fabric has been given is complete at the origin. Of others, the acks of
 * operations in flight are with whoever started them, so all is placed instead. Puts that wait to
 * be given are copies, but this is the last call that their origin may make: the target may poll
 * for them from here on. */
int loco_window_flush_local(loco_window_t *win, int rank)
{
    if (!win->synchronous)
        return loco_window_flush(win, rank);
    if (!loci_window_has(win, rank))
        return LOCO_ERR_ARG;
    return (loci_window_epoch(win, rank) & LOCI_EPOCH_PASSIVE) != 0 ? loci_window_settle(win)
                                                                    : LOCO_ERR_STATE;
}

int loco_window_flush_local_all(loco_window_t *win)
{
    if (!win->synchronous)
        return loco_window_flush_all(win);
    return is_passive(win) ? loci_window_settle(win) : LOCO_ERR_STATE;
}

int loco_window_sync(loco_window_t *win)
{
    int status = loci_window_settle(win);

    atomic_thread_fence(memory_order_seq_cst);
    return status;
}
