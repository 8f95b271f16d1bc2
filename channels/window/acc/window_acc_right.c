/* SPDX-License-Identifier: BSD-3-Clause */

/* The protocol is in window_acc_right.h. `state` of a right: HELD, and above it how many threads
 * are counted in. The other fields weigh costs, and may lose a count where threads meet. */

#include "config.h"

#include "window_acc_right.h"

#define HELD 1u
#define ONE_IN 2u
#define FAR_SHARE 8             /* an atomic of the device is so much dearer than one of the CPU */
#define BACKOFF_MOST 6

static struct loci_acc_right *right_of(struct loco_window *win, int rank)
{
    return &win->rights[rank];
}

static uint32_t load(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint64_t worth(const struct loco_window *win, const struct loci_acc_right *right)
{
    uint64_t elements = (uint64_t)win->rt->tunables.acc_vectors / FAR_SHARE;

    return (elements > 0 ? elements : 1) << load(&right->backoff);
}

/* ---- giving back ---- */

/* Unless a thread is counted in. `left`: how many singles take the lock from now on. */
static int give_back(struct loco_window *win, int rank, uint32_t left)
{
    struct loci_acc_right *right = right_of(win, rank);
    struct loci_rw lock = loci_acc_vectors_lock(win, rank);
    uint32_t held = HELD;

    /* Acquire: what those who counted out have done is done. */
    if (!atomic_compare_exchange_strong_explicit(&right->state, &held, 0, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return LOCO_OK;
    store(&right->vectors, 0);
    store(&right->left, left);
    return loci_rw_release(win->rt, &lock, LOCI_RW_SHARED);
}

/* Vectors prevail. */
static int go_to_lock(struct loco_window *win, int rank)
{
    store(&right_of(win, rank)->done, 0);
    return give_back(win, rank, (uint32_t)win->rt->tunables.acc_singles);
}

/* What others have asked for. */
static int heed(struct loco_window *win)
{
    unsigned char *word = loci_mem_ptr(&win->control[win->group.rank]);
    uint64_t asked = word != NULL ? loci_load64(word + LOCI_WINDOW_YIELD) : 0;

    if (asked == 0)
        return LOCO_OK;
    loci_store64(word + LOCI_WINDOW_YIELD, 0);
    return asked <= (uint64_t)win->group.size ? go_to_lock(win, (int)asked - 1) : LOCO_OK;
}

static int ask_others(struct loco_window *win, int rank)
{
    int status = LOCO_OK;

    for (int i = 0; status == LOCO_OK && i < win->group.size; i++)
        if (i != win->group.rank && loci_peer_alive(win->rt, win->group.peer[i]))
            status = loci_write64(win->rt, &win->control[i], LOCI_WINDOW_YIELD,
                                  (uint64_t)rank + 1, NULL);
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* ---- an accumulate ---- */

/* Count in, if it is held. */
static bool enter(struct loci_acc_right *right)
{
    uint32_t state = load(&right->state);

    while ((state & HELD) != 0)
        if (atomic_compare_exchange_weak_explicit(&right->state, &state, state + ONE_IN,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

int loci_acc_right_begin(struct loco_window *win, int rank, size_t n, bool *locks)
{
    struct loci_acc_right *right = right_of(win, rank);
    bool vector = n >= LOCI_WINDOW_LONG;
    int status = heed(win);

    if (status == LOCO_OK && vector && (load(&right->state) & HELD) != 0) {
        uint64_t vectors = load(&right->vectors) + (uint64_t)n;

        store(&right->vectors, (uint32_t)(vectors < UINT32_MAX ? vectors : UINT32_MAX));
        if (vectors >= worth(win, right))
            status = go_to_lock(win, rank);
    }
    if (status != LOCO_OK)
        return status;
    *locks = vector || load(&right->left) > 1;
    return enter(right) ? LOCO_OK : LOCO_ERR_AGAIN;
}

/* The right is taken again: whether it paid that it was given back. */
static void weigh(struct loco_window *win, struct loci_acc_right *right)
{
    uint32_t backoff = load(&right->backoff);
    bool paid = load(&right->done) >= worth(win, right);

    store(&right->left, 0);
    store(&right->backoff, paid ? 0 : backoff < BACKOFF_MOST ? backoff + 1 : backoff);
}

int loci_acc_right_keep(struct loco_window *win, int rank, size_t n)
{
    struct loci_acc_right *right = right_of(win, rank);
    struct loci_rw lock = loci_acc_vectors_lock(win, rank);
    uint32_t state = load(&right->state), left = load(&right->left);
    int status = LOCO_OK;

    while (!atomic_compare_exchange_weak_explicit(&right->state, &state, (state | HELD) + ONE_IN,
                                                  memory_order_acquire, memory_order_relaxed))
        continue;
    if (left > 1 && n > 0 && n < LOCI_WINDOW_LONG) {
        store(&right->brief, left - 1);
    } else if (left > 0) {
        weigh(win, right);
        if (n >= LOCI_WINDOW_LONG)
            status = ask_others(win, rank);
    }
    /* If threads meet here: the lock counts its holders, and all of them are one. */
    if ((state & HELD) != 0) {
        int released = loci_rw_release(win->rt, &lock, LOCI_RW_SHARED);

        status = status == LOCO_OK ? released : status;
    }
    if (status != LOCO_OK)
        (void)loci_acc_right_end(win, rank);
    return status;
}

int loci_acc_right_take(struct loco_window *win, int rank)
{
    struct loci_rw lock = loci_acc_vectors_lock(win, rank);
    int status = loci_rw_acquire(win->rt, &lock, LOCI_RW_SHARED, LOCI_RW_ACCUMULATES);

    return status == LOCO_OK ? loci_acc_right_keep(win, rank, 0) : status;
}

int loci_acc_right_end(struct loco_window *win, int rank)
{
    struct loci_acc_right *right = right_of(win, rank);
    uint32_t left;

    atomic_fetch_sub_explicit(&right->state, ONE_IN, memory_order_release);
    if (load(&right->brief) == 0)
        return LOCO_OK;
    left = atomic_exchange_explicit(&right->brief, 0, memory_order_relaxed);
    return left > 0 ? give_back(win, rank, left) : LOCO_OK;
}

void loci_acc_right_locked(struct loco_window *win, int rank, size_t n)
{
    struct loci_acc_right *right = right_of(win, rank);
    uint32_t left = load(&right->left);

    if (left == 0)
        return;
    if (n < LOCI_WINDOW_LONG) {
        store(&right->left, left - 1);
    } else {
        uint64_t done = load(&right->done) + (uint64_t)n;

        store(&right->done, (uint32_t)(done < UINT32_MAX ? done : UINT32_MAX));
        store(&right->left, (uint32_t)win->rt->tunables.acc_singles);
    }
}
