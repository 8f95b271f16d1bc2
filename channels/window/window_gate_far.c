/* SPDX-License-Identifier: BSD-3-Clause */

/* The gate of window_gate.c for windows whose words are not mapped by all: what a look at a gate
 * beside the window's word would cost, a message, is what the gate is to save. So the answer is in
 * the target's word, which the lock's atomic brings back anyhow: LOCI_RW_GROUPED.
 *
 *   not grouped   an exclusive lock is the target's word in mode QUICK                 1 atomic
 *   grouped       an exclusive lock is PART on the window's word and EXCLUSIVE on
 *                 the target's; who finds that out with QUICK in hand gives it back    2 atomics
 *
 * A process that has found one target grouped, or has set out to lock all itself, takes the pair
 * of every target from then on (`pairs`): that excludes ALL and QUICK whether the target is grouped
 * or not, and so needs no look.
 *
 * The first to lock all groups all targets: takes each target's word SHARED, then gives it back and
 * sets the bit, in one atomic. Targets stay grouped as long as the window lives: most programs use
 * either exclusive locks or lock_all. That one is alone at it: LOCI_WINDOW_GATE at rank 0 is 0, its
 * rank + 1, or GROUPED when it is done. Other processes look there when they lock all for the first
 * time. It takes two round trips a target, once in a window's life.
 *
 * Why ALL and QUICK exclude each other: a target's word is not held in mode QUICK while it is held
 * SHARED, in particular at the moment at which it becomes grouped; and whoever takes it later finds
 * the bit. All targets are grouped before the first lock_all takes the window's word: who locks all
 * has seen GROUPED, or has done it. So all exclusive locks that are held then, or come later, have
 * PART on the window's word, which excludes ALL.
 *
 * Why the bit is added once: only who has its rank in the gate adds it, where it is not set yet. If
 * that one fails it leaves the gate at 0 to the next, or, where that fails too, finds its own rank
 * there the next time; if it dies the gate stays its own.
 *
 * Why no lock waits in a circle: who groups holds no lock of this window, and of a target's word it
 * waits for holders that exclude lock_all anyhow, and behind the tickets of those that came before.
 *
 * Death: who waits for one that died while it grouped, or held a target, returns
 * LOCO_ERR_PEER_DEAD; see rw_word.h. Of a dead grouper that is so for good: another cannot tell
 * which bits are set and which are under way. A target that is dead itself is left out; but it is
 * dead to this process only, another may still hold its lock in mode QUICK. So the gate goes back
 * to 0, and everybody groups those that it can reach itself, each time: who cannot reach a target
 * does no harm there. */

#include "config.h"

#include "wait.h"
#include "window_gate.h"

#define GROUPED (~UINT64_C(0))
#define LOOK_SOONEST INT64_C(64000)     /* ns between looks at the gate */
#define LOOK_LATEST INT64_C(1000000)

int loci_gate_enter_far(struct loco_window *win, int rank, unsigned flags)
{
    struct loci_rw target = loci_window_lock_of(win, rank);
    bool grouped;
    int status;

    if (atomic_load_explicit(&win->pairs, memory_order_relaxed))
        return LOCO_ERR_AGAIN;
    status = loci_rw_acquire_member(win->rt, &target, LOCI_RW_QUICK, flags, &grouped);
    if (status != LOCO_OK || !grouped)
        return status;
    atomic_store_explicit(&win->pairs, true, memory_order_relaxed);
    status = loci_rw_release(win->rt, &target, LOCI_RW_QUICK);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

/* ---- lock all ---- */

struct turn {
    struct loco_window *win;
    uint64_t gate;                      /* as it was found */
    uint64_t dead;                      /* as it was found when its owner was dead */
    int64_t next_look, interval;
};

/* The gate is ours, or grouped. */
static int is_settled(void *arg)
{
    struct turn *turn = arg;
    struct loco_window *win = turn->win;
    uint64_t own = (uint64_t)win->group.rank + 1;
    int64_t now = loci_now(win->rt);
    int status;

    if (now < turn->next_look)
        return 0;
    turn->next_look = now + turn->interval;
    turn->interval = turn->interval * 2 < LOOK_LATEST ? turn->interval * 2 : LOOK_LATEST;
    status = loci_compare_swap(win->rt, &win->control[0], LOCI_WINDOW_GATE, 0, own, &turn->gate,
                               NULL);
    if (status != LOCO_OK)
        return status;
    if (turn->gate == 0 || turn->gate == own || turn->gate == GROUPED)
        return 1;
    if (loci_mem_is_orphaned(win->rt, &win->control[0]))
        return LOCO_ERR_PEER_DEAD;
    if (loci_peer_alive(win->rt, win->group.peer[turn->gate - 1]))
        return 0;
    /* It may have left the gate between that look and its death. */
    if (turn->gate == turn->dead)
        return LOCO_ERR_PEER_DEAD;
    turn->dead = turn->gate;
    turn->next_look = now;
    return 0;
}

static int group_target(struct loco_window *win, int rank)
{
    struct loci_rw target = loci_window_lock_of(win, rank);
    uint64_t unit = loci_rw_unit(&target, LOCI_RW_SHARED), old;
    bool grouped;
    int status = loci_rw_acquire_member(win->rt, &target, LOCI_RW_SHARED, 0, &grouped);

    if (status != LOCO_OK)
        return status;
    return loci_add(win->rt, target.mem, target.offset, (grouped ? 0 : LOCI_RW_GROUPED) - unit,
                    &old, NULL);
}

/* *all: no target was left out. */
static int group_targets(struct loco_window *win, bool *all)
{
    *all = true;
    for (int i = 0; i < win->group.size; i++) {
        int rank = (win->group.rank + i) % win->group.size;
        int status = group_target(win, rank);

        if (status == LOCO_ERR_PEER_DEAD && !loci_peer_alive(win->rt, win->group.peer[rank]))
            *all = false;
        else if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

static int group_all(struct loco_window *win)
{
    const struct loci_reason why = {
        .what = "the first lock_all of a window", .peer = -1, .timeout_ns = LOCO_FOREVER,
    };
    struct turn turn = { .win = win, .interval = LOOK_SOONEST };
    int status = loci_wait(win->rt, &why, is_settled, &turn), given;
    bool all = true;
    uint64_t old;

    if (status == LOCO_OK && turn.gate != GROUPED) {
        status = group_targets(win, &all);
        given = loci_compare_swap(win->rt, &win->control[0], LOCI_WINDOW_GATE,
                                  (uint64_t)win->group.rank + 1,
                                  status == LOCO_OK && all ? GROUPED : 0, &old, NULL);
        status = status == LOCO_OK ? given : status;
    }
    if (status == LOCO_OK && all)
        atomic_store_explicit(&win->grouped, true, memory_order_release);
    return status;
}

int loci_gate_take_all_far(struct loco_window *win)
{
    struct loci_rw group = loci_window_lock_of_group(win);

    if (!atomic_load_explicit(&win->grouped, memory_order_acquire)) {
        int status;

        atomic_store_explicit(&win->pairs, true, memory_order_relaxed);
        status = group_all(win);
        if (status != LOCO_OK)
            return status;
    }
    return loci_rw_acquire(win->rt, &group, LOCI_RW_ALL, 0);
}
