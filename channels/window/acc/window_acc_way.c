/* SPDX-License-Identifier: BSD-3-Clause */

/* The protocol is in window_acc_way.h. */

#include "config.h"

#include "wait.h"
#include "window_acc.h"
#include "window_acc_way.h"

#define REVOKE_WAIT INT64_C(200000)     /* ns */
#define BACKOFF_MOST 6

static unsigned char *word_at(const struct loco_window *win, int rank)
{
    return (unsigned char *)loci_mem_ptr(&win->control[rank]) + LOCI_WINDOW_SINGLES;
}

static uint64_t backoff_of(uint64_t word)
{
    return word >> LOCI_SINGLES_BACKOFF & 0xff;
}

static uint64_t with_backoff(uint64_t word, uint64_t backoff)
{
    return loci_singles_way(word) | (backoff < BACKOFF_MOST ? backoff : BACKOFF_MOST)
                                    << LOCI_SINGLES_BACKOFF;
}

/* Elements of vectors that are worth two changes. */
static uint64_t worth(const struct loco_window *win, uint64_t word)
{
    return (uint64_t)win->rt->tunables.acc_vectors << backoff_of(word);
}

/* ---- to atomics ---- */

/* What the word becomes before a single that the lock does not do any more. */
static uint64_t atomics_after(const struct loco_window *win, uint64_t word)
{
    uint64_t backoff = backoff_of(word);

    if (word != 0)
        backoff = word >> LOCI_SINGLES_DONE >= worth(win, word) ? 0 : backoff + 1;
    return with_backoff(LOCI_SINGLES_ATOMICS, backoff);
}

static int make_always(struct loco_window *win, int rank)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status;

    if (loci_singles_way(loci_load64(word_at(win, rank))) == LOCI_SINGLES_ALWAYS)
        return LOCO_OK;
    status = loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, 0);
    if (status != LOCO_OK)
        return status;
    loci_store64(word_at(win, rank), LOCI_SINGLES_ALWAYS);
    return loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
}

static int make_all_always(struct loco_window *win)
{
    int status = LOCO_OK;

    for (int i = 0; status == LOCO_OK && i < win->group.size; i++)
        status = make_always(win, i);
    if (status == LOCO_OK)
        /* Pairs with the acquire in loci_window_atomics_begin(). */
        atomic_store_explicit(&win->singles, true, memory_order_release);
    return status;
}

/* Whether this process can be told to leave atomics. */
static bool is_revocable(struct loco_window *win)
{
    return win->one_thread && loci_asymmetric_state(win->rt) != LOCI_ASYMMETRIC_REFUSED;
}

/* ---- from atomics, by revoking ---- */

struct revoking {
    struct loco_window *win;
    int target;
    int rank;                   /* whose word is looked at */
};

static int is_outside(void *arg)
{
    const struct revoking *r = arg;
    const unsigned char *control = loci_mem_ptr(&r->win->control[r->rank]);

    return loci_load64(control + LOCI_WINDOW_INSIDE) != (uint64_t)r->target + 1
           || !loci_peer_alive(r->win->rt, r->win->group.peer[r->rank]);
}

static int wait_until_outside(struct loco_window *win, int target)
{
    int64_t deadline = loci_deadline(win->rt, REVOKE_WAIT);
    struct revoking r = { win, target, 0 };
    int status = LOCO_OK;

    for (; status == LOCO_OK && r.rank < win->group.size; r.rank++) {
        const struct loci_reason why = {
            .what = "atomics at a window's member that are revoked", .at = &win->control[target],
            .peer = -1, .timeout_ns = loci_time_left(win->rt, deadline),
            .kind = LOCI_WAIT_ACCUMULATE,
        };

        if (r.rank != win->group.rank && !is_outside(&r))
            status = loci_wait(win->rt, &why, is_outside, &r);
    }
    return status;
}

/* Under the lock. LOCO_OK: the way is LOCK; LOCO_ERR_AGAIN: it stays as it was. */
static int revoke_locked(struct loco_window *win, int rank)
{
    uint64_t word = loci_load64(word_at(win, rank));
    int status;

    if (loci_singles_way(word) != LOCI_SINGLES_ATOMICS)
        return LOCO_ERR_AGAIN;
    loci_store64(word_at(win, rank),
                 loci_singles_after_vector(win->rt, word - LOCI_SINGLES_ATOMICS, 0));
    status = loci_fence_heavy(win->rt) ? wait_until_outside(win, rank) : LOCO_ERR_UNSUPPORTED;
    if (status == LOCO_OK)
        return LOCO_OK;
    loci_store64(word_at(win, rank), with_backoff(word, backoff_of(word) + 1));
    return status == LOCO_ERR_TIMEOUT || status == LOCO_ERR_UNSUPPORTED ? LOCO_ERR_AGAIN : status;
}

static int revoke(struct loco_window *win, int rank)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status = loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES);
    int released;

    if (status != LOCO_OK)
        return status;
    status = revoke_locked(win, rank);
    released = loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
    return status == LOCO_ERR_AGAIN || status == LOCO_OK ? released : status;
}

/* A vector comes that atomics are to do. */
static int weigh(struct loco_window *win, int rank, uint64_t word, size_t n)
{
    uint64_t done = win->atomic_vectors[rank] + (uint64_t)n;

    if (done < worth(win, word)) {
        win->atomic_vectors[rank] = (uint32_t)(done < UINT32_MAX ? done : UINT32_MAX);
        return LOCO_OK;
    }
    win->atomic_vectors[rank] = 0;
    return revoke(win, rank);
}

/* ---- an accumulate ---- */

/* LOCO_ERR_AGAIN: atomics are the way now, and the lock was given back. */
static int enter_locked(struct loco_window *win, int rank, size_t n, struct loci_acc_way *way)
{
    int status = loci_acc_enter(win, rank, &way->locked);
    uint64_t word, next;

    if (status != LOCO_OK || !way->locked)
        return status;
    word = loci_load64(word_at(win, rank));
    if (!loci_singles_go_on(win->rt, word, n, &next))
        next = loci_singles_way(word) == LOCI_SINGLES_LOCK ? atomics_after(win, word) : word;
    if (next != word)
        loci_store64(word_at(win, rank), next);
    if (loci_singles_way(next) == LOCI_SINGLES_LOCK)
        return LOCO_OK;
    status = loci_acc_leave(win, rank, true);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

/* The first single: atomics, though the target may be locked for this process alone. */
static int begin_atomics(struct loco_window *win, int rank)
{
    struct loci_rw lock = loci_window_acc_lock(win, rank);
    int status = loci_rw_acquire(win->rt, &lock, LOCI_RW_EXCLUSIVE, LOCI_RW_ACCUMULATES);

    if (status != LOCO_OK)
        return status;
    if (loci_load64(word_at(win, rank)) == 0)
        loci_store64(word_at(win, rank), LOCI_SINGLES_ATOMICS);
    status = loci_rw_release(win->rt, &lock, LOCI_RW_EXCLUSIVE);
    return status == LOCO_OK ? LOCO_ERR_AGAIN : status;
}

/* LOCO_ERR_AGAIN: they are not the way any more. */
static int enter_atomics(struct loco_window *win, int rank, struct loci_acc_way *way)
{
    way->atomics = true;
    if (atomic_load_explicit(&win->singles, memory_order_acquire))
        return LOCO_OK;
    way->inside = (_Atomic uint64_t *)(void *)((unsigned char *)loci_mem_ptr(
        &win->control[win->group.rank]) + LOCI_WINDOW_INSIDE);
    win->inside = way->inside;          /* from now on the inline paths can do this */
    loci_store_frequent(win->rt, way->inside, (uint64_t)rank + 1);
    if (loci_singles_way(loci_load64(word_at(win, rank))) != LOCI_SINGLES_LOCK)
        return LOCO_OK;
    loci_window_atomics_end(way->inside);
    return LOCO_ERR_AGAIN;
}

static int try_to_enter(struct loco_window *win, int rank, size_t n, struct loci_acc_way *way)
{
    uint64_t word = loci_load64(word_at(win, rank));
    int status = LOCO_OK;

    *way = (struct loci_acc_way){ .atomics = false };
    if (n > 1 && !loci_acc_needs_lock(win, rank))
        return LOCO_OK;
    if (word == 0 && n < LOCI_WINDOW_LONG)
        return begin_atomics(win, rank);
    if (loci_singles_way(word) == LOCI_SINGLES_LOCK)
        return enter_locked(win, rank, n, way);
    if (!is_revocable(win) && !atomic_load_explicit(&win->singles, memory_order_acquire))
        status = make_all_always(win);
    else if (loci_singles_way(word) == LOCI_SINGLES_ATOMICS && n >= LOCI_WINDOW_LONG)
        status = weigh(win, rank, word, n);
    return status == LOCO_OK ? enter_atomics(win, rank, way) : status;
}

int loci_acc_way_enter(struct loco_window *win, int rank, size_t n, struct loci_acc_way *way)
{
    int status;

    do
        status = try_to_enter(win, rank, n, way);
    while (status == LOCO_ERR_AGAIN);
    return status;
}

int loci_acc_way_leave(struct loco_window *win, int rank, const struct loci_acc_way *way)
{
    if (!way->atomics)
        return loci_acc_leave(win, rank, way->locked);
    loci_window_atomics_end(way->inside);
    return LOCO_OK;
}
