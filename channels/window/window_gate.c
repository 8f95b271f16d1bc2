/* SPDX-License-Identifier: BSD-3-Clause */

/* Exclusive locks against lock_all, biased towards what a program does.
 *
 * By the window's lock alone an exclusive lock takes two atomics, PART on the window's word and
 * EXCLUSIVE on the target's, so that lock_all needs but one (rw_word.h). Most programs use either
 * exclusive locks or lock_all. Where all members have all control blocks mapped, a gate beside the
 * window's word lets exclusive locks go without PART until somebody locks all:
 *
 *   OPEN      a quick lock takes the target's word in mode QUICK, then looks at the gate: OPEN
 *             still, and it has the lock. Otherwise it gives the word back and takes PART and
 *             EXCLUSIVE.
 *   CLOSING   somebody wants to lock all. Who does, waits until each target's word was seen without
 *             a holder in mode QUICK, and then sets CLOSED.
 *   CLOSED    lock_all is ALL on the window's word. Exclusive locks take PART and EXCLUSIVE.
 *
 * OPEN -> CLOSING and CLOSING -> CLOSED are made by whoever locks all, holding nothing, by
 * compare and swap of the whole word; CLOSED -> OPEN by a holder of PART, which counts the gate's
 * openings up. So a swap to CLOSED fails if the gate was opened since the swapper saw it CLOSING.
 *
 * Why ALL and QUICK exclude each other: who takes QUICK writes the target's word and then reads the
 * gate; who closes writes the gate and then reads the target's word; all four are sequentially
 * consistent, so one sees the other. So once CLOSED is set, nobody holds a target in mode QUICK
 * until the gate is opened. lock_all has the lock if it sees CLOSED while it holds ALL: then nobody
 * holds PART, and the gate is not opened while it does.
 *
 * Why no lock waits in a circle: who closes the gate holds nothing while it waits for holders in
 * mode QUICK; they may take further locks of the window meanwhile, for PART is not closed yet.
 *
 * Why nobody starves: a closed gate is opened only after LOCO_LOCK_REOPEN exclusive locks in a row
 * of one process that found it closed, and not while somebody is on its way to lock all (the count
 * of closers). Such a one may find the gate opened once more, by a process that had looked at the
 * count before; not twice. The rest is as fair as the words are.
 *
 * Death: of a holder in mode QUICK, the word has its name, and who waits for it returns
 * LOCO_ERR_PEER_DEAD. Of one that closes: the next to lock all looks at the targets again. A closer
 * that died stays in the count, and the gate then stays closed: two atomics, as without a gate.
 *
 * The idea of a bias that is revoked is from Dice and Kogan, "BRAVO: Biased Locking for
 * Reader-Writer Locks" (USENIX ATC 2019); there it favours readers. */

#include "config.h"

#include "wait.h"
#include "window_gate.h"

static unsigned char *word(const struct loco_window *win, uint64_t offset)
{
    return (unsigned char *)loci_mem_ptr(&win->control[0]) + offset;
}

int loci_gate_enter(struct loco_window *win, int rank, unsigned flags)
{
    struct loci_rw target = loci_window_lock_of(win, rank);
    int status;

    if (loci_gate_state(win) != LOCI_GATE_OPEN)
        return LOCO_ERR_AGAIN;
    status = loci_rw_acquire(win->rt, &target, LOCI_RW_QUICK, flags);
    if (status != LOCO_OK || loci_gate_state(win) == LOCI_GATE_OPEN)
        return status;
    status = loci_rw_release(win->rt, &target, LOCI_RW_QUICK);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

/* ---- closing ---- */

struct drain {
    struct loco_window *win;
    int rank;                   /* whose word is looked at */
};

static int holder(const struct drain *d)
{
    return loci_rw_quick_holder(loci_load64_total(
        (unsigned char *)loci_mem_ptr(&d->win->control[d->rank]) + LOCI_WINDOW_LOCK));
}

static int is_drained(void *arg)
{
    const struct drain *d = arg;
    int rank = holder(d);

    if (rank < 0)
        return 1;
    /* One that gave it back and then died is not a dead holder. */
    if (rank < d->win->group.size && !loci_peer_alive(d->win->rt, d->win->group.peer[rank]))
        return holder(d) == rank ? LOCO_ERR_PEER_DEAD : 0;
    return 0;
}

/* The gate is CLOSED when this returns LOCO_OK, unless it was opened again since. */
static int close_gate(struct loco_window *win)
{
    const struct loci_reason why = {
        .what = "exclusive locks of a window", .peer = -1, .timeout_ns = LOCO_FOREVER,
    };
    struct drain d = { win, 0 };
    unsigned char *gate = word(win, LOCI_WINDOW_GATE);
    uint64_t seen = loci_load64_total(gate), closing;
    int status = LOCO_OK;

    if ((seen & LOCI_GATE_STATE) == LOCI_GATE_CLOSED)
        return LOCO_OK;
    closing = (seen & ~(uint64_t)LOCI_GATE_STATE) | LOCI_GATE_CLOSING;
    if (seen != closing) {
        LOCI_COUNT_MEM(win->rt, atomics, &win->control[0]);
        loci_cpu_compare_swap(gate, seen, closing);     /* or somebody else did */
    }
    for (; status == LOCO_OK && d.rank < win->group.size; d.rank++)
        status = loci_wait(win->rt, &why, is_drained, &d);
    if (status == LOCO_OK) {
        LOCI_COUNT_MEM(win->rt, atomics, &win->control[0]);
        loci_cpu_compare_swap(gate, closing, closing ^ LOCI_GATE_CLOSING ^ LOCI_GATE_CLOSED);
    }
    return status;
}

static int close_and_take_all(struct loco_window *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    int status;

    do {
        status = close_gate(win);
        if (status == LOCO_OK)
            status = loci_rw_acquire(win->rt, &group, LOCI_RW_ALL, 0);
        if (status == LOCO_OK && loci_gate_state(win) != LOCI_GATE_CLOSED) {
            status = loci_rw_release(win->rt, &group, LOCI_RW_ALL);
            status = status == LOCO_OK ? LOCO_ERR_AGAIN : status;
        }
    } while (status == LOCO_ERR_AGAIN);
    return status;
}

int loci_gate_take_all(struct loco_window *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);
    unsigned char *closers = word(win, LOCI_WINDOW_CLOSERS);
    int status = loci_rw_acquire(win->rt, &group, LOCI_RW_ALL, 0);

    if (status != LOCO_OK || loci_gate_state(win) == LOCI_GATE_CLOSED)
        return status;
    status = loci_rw_release(win->rt, &group, LOCI_RW_ALL);
    if (status != LOCO_OK)
        return status;
    LOCI_COUNT_MEM(win->rt, atomics, &win->control[0]);
    loci_cpu_fetch_add(closers, 1);
    status = close_and_take_all(win);
    LOCI_COUNT_MEM(win->rt, atomics, &win->control[0]);
    loci_cpu_fetch_add(closers, 0 - UINT64_C(1));
    return status;
}

/* ---- opening ---- */

/* Several threads may count at once and lose a count: it is a measure, not a number. */
void loci_gate_reopen(struct loco_window *win)
{
    unsigned char *gate = word(win, LOCI_WINDOW_GATE);
    uint64_t seen = loci_load64_total(gate);
    int64_t passed = 1;

    if ((seen & LOCI_GATE_STATE) != LOCI_GATE_CLOSED)
        return;
    if (atomic_load_explicit(&win->gate_seen, memory_order_relaxed) == seen)
        passed += atomic_load_explicit(&win->gate_passed, memory_order_relaxed);
    atomic_store_explicit(&win->gate_seen, seen, memory_order_relaxed);
    atomic_store_explicit(&win->gate_passed, passed, memory_order_relaxed);
    if (passed < win->rt->tunables.lock_reopen
        || loci_load64_total(word(win, LOCI_WINDOW_CLOSERS)) != 0
        || loci_rw_closed(loci_load64(word(win, LOCI_WINDOW_GROUP))))
        return;
    LOCI_COUNT_MEM(win->rt, atomics, &win->control[0]);
    loci_cpu_compare_swap(gate, seen,
                          (seen & ~(uint64_t)LOCI_GATE_STATE) + (LOCI_GATE_STATE + 1));
}
