/* SPDX-License-Identifier: BSD-3-Clause */

/* Lanes and slots: posting operations and being told of their completion.
 *
 * Who writes what. `written` and `placing` of a lane are written under its thread's lock by
 * whoever posts on it; `placed` only grows, by whoever's poll finds the completion. A slot's
 * `seq` goes from 0 to a number by its owning thread before the post and back to 0, with release,
 * by loci_slot_done(); everything that the operation wrote for its poster happens before that.
 *
 * `reads` is written under that lock, too, and `reads_done` by whoever's poll finds one complete.
 *
 * Invariant: placed <= placing <= written, and reads_done <= reads while the lock is free. If a
 * peer dies, its lanes fail: `failed` is set, every slot on it is told, and nothing more is posted
 * on it. So does a lane of which the peer has refused an operation, but that is mended: see there.
 */

#include "config.h"

#include <stdlib.h>

#include "rma.h"
#include "runtime.h"
#include "wait.h"

#define MEASURE_EVERY 16        /* atomics */
#define GROWS_BY 16             /* a part of what was measured before */

/* `word` becomes at least `value`. */
static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    while (old < value
           && !atomic_compare_exchange_weak_explicit(word, &old, value, memory_order_release,
                                                     memory_order_relaxed))
        ;
}

/* ---- lanes ---- */

/* The one that the thread has had for this place, or a new one: who came upon it before it was
 * retired may look at it still, so its counts go on, and its thread and peer stay what they are. */
static struct loci_lane *take_lane(struct loci_thread *thread, struct loci_peer *peer)
{
    struct loci_lane **at = &thread->retired, *lane;

    pthread_mutex_lock(&thread->rt->peers_lock);
    while (*at != NULL && (*at)->peer != peer)
        at = &(*at)->next_retired;
    lane = *at;
    if (lane != NULL)
        *at = lane->next_retired;
    pthread_mutex_unlock(&thread->rt->peers_lock);
    if (lane != NULL)
        return lane;
    lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->thread = thread;
    lane->peer = peer;
    return lane;
}

static void put_lane(struct loci_lane *lane)
{
    struct loci_thread *thread = lane->thread;

    pthread_mutex_lock(&thread->rt->peers_lock);
    lane->next_retired = thread->retired;
    thread->retired = lane;
    pthread_mutex_unlock(&thread->rt->peers_lock);
}

/* Whose lane it is to be. */
static void choose_way(struct loco_runtime *rt, struct loci_lane *lane)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);
    bool other = detour != NULL && detour->takes(detour->way.fabric, lane->peer);

    atomic_store_explicit(&lane->way, other ? &detour->way : &rt->way, memory_order_release);
}

static int open_way(struct loci_lane *lane, const struct loci_way *way)
{
    return way->ops->lane_open != NULL ? way->ops->lane_open(way->fabric, lane) : LOCO_OK;
}

/* Whoever gives back what a peer that has gone leaves looks for lanes after its state has changed;
 * this looks for its state after the lane is there. One of the two sees the other. */
static void look_for_end(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;

    atomic_thread_fence(memory_order_seq_cst);
    if (rt->ops->peer_gone != NULL && !loci_peer_alive(rt, lane->peer->index))
        rt->ops->peer_gone(rt->fabric, lane->peer);
}

struct loci_lane *loci_lane_open(struct loci_thread *thread, int peer, int *status)
{
    struct loco_runtime *rt = thread->rt;
    struct loci_lane *lane = take_lane(thread, loci_peer(rt, peer));

    if (lane == NULL) {
        *status = LOCO_ERR_NO_MEMORY;
        return NULL;
    }
    choose_way(rt, lane);
    *status = open_way(lane, loci_lane_way(lane));
    if (*status != LOCO_OK) {
        put_lane(lane);
        return NULL;
    }
    atomic_store_explicit(&lane->loss, LOCI_LOSS_UNTOLD, memory_order_relaxed);
    atomic_store_explicit(&lane->failed, LOCO_OK, memory_order_relaxed);
    /* Pairs with the loads of fences and waits in other threads. */
    atomic_store_explicit(&thread->lanes[peer], lane, memory_order_release);
    if (atomic_load_explicit(&thread->lane_peers, memory_order_relaxed) <= peer)
        atomic_store_explicit(&thread->lane_peers, peer + 1, memory_order_release);
    look_for_end(lane);
    return lane;
}

int loci_lane_poll(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;
    const struct loci_way *way;
    int n;

    if (rt->ops->synchronous || lane->synchronous)
        return 0;
    loci_lock_take(&lane->thread->lock);
    way = loci_lane_way(lane);
    n = way->ops->poll != NULL ? way->ops->poll(way->fabric, lane) : 0;
    loci_lock_give(&lane->thread->lock);
    return n;
}

/* ---- slots ---- */

static struct loci_slot *free_slot(struct loci_thread *thread)
{
    for (unsigned i = 0; i < LOCI_SLOTS; i++) {
        unsigned at = (thread->next_slot + i) % LOCI_SLOTS;

        if (atomic_load_explicit(&thread->slot[at].seq, memory_order_acquire) == 0) {
            thread->next_slot = at + 1;
            return &thread->slot[at];
        }
    }
    return NULL;
}

struct loci_slot *loci_slot_take(struct loci_thread *thread, struct loci_lane *lane)
{
    struct loci_slot *slot;
    unsigned rounds = 0;

    while ((slot = free_slot(thread)) == NULL) {
        /* A fence of the process fills slots of ours on lanes of other threads. */
        loci_lane_poll(thread->slot[rounds % LOCI_SLOTS].lane);
        loci_wait_round(thread->rt, &rounds);
    }
    slot->lane = lane;
    slot->places = 0;
    slot->awaited = false;
    slot->began = 0;
    atomic_store_explicit(&slot->seq, ++thread->seq, memory_order_relaxed);
    return slot;
}

void loci_lane_placed(struct loci_lane *lane, uint64_t places)
{
    raise_to(&lane->placed, places);
}

static void read_done(const struct loci_slot *slot, int status)
{
    int none = LOCO_OK;

    if (status != LOCO_OK && slot->untold)
        atomic_compare_exchange_strong(&slot->lane->read_lost, &none, status);
    /* Release: its data, and the status, then the count; pairs with loci_finish_reads(). */
    atomic_fetch_add_explicit(&slot->lane->reads_done, 1, memory_order_release);
}

/* Less counts at once, more in time: a device that is busy, or a thread that was away, is no longer
 * way. */
static void measure(struct loci_slot *slot)
{
    int64_t took = loci_now(slot->lane->thread->rt) - slot->began;
    int64_t old = atomic_load_explicit(&slot->lane->round_trip, memory_order_relaxed);

    took = took > 0 ? took : 1;
    if (old != 0 && took > old + old / GROWS_BY + 1)
        took = old + old / GROWS_BY + 1;
    atomic_store_explicit(&slot->lane->round_trip, took, memory_order_relaxed);
}

void loci_slot_done(struct loci_slot *slot, int status)
{
    uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);

    if (status == LOCO_OK) {
        raise_to(&slot->lane->placed, slot->places);
        if (slot->began != 0)
            measure(slot);
    } else {
        int none = LOCO_OK;

        atomic_compare_exchange_strong(&slot->lane->failed, &none, status);
        atomic_store_explicit(&slot->status, status, memory_order_relaxed);
        atomic_store_explicit(&slot->failed_seq, seq, memory_order_relaxed);
        if (atomic_load_explicit(&slot->first_failed, memory_order_relaxed) == 0)
            atomic_store_explicit(&slot->first_failed, seq, memory_order_relaxed);
    }
    if (slot->awaited)
        read_done(slot, status);
    /* Release: pairs with the acquire of whoever tests the ack or reuses the slot. */
    atomic_store_explicit(&slot->seq, 0, memory_order_release);
}

/* ---- mending ----
 *
 * After a refusal the queue pair is of no use, while the peer is there and no memory is harmed. It
 * is made anew by whoever posts on it next: its thread, or one that fences for all, for the lane's
 * own may have nothing more to do. One does, others wait.
 *
 * Where nothing is lost, that is at once: who posted what was refused or flushed behind it has been
 * told, or will be. Writes that nobody waits for may be lost, though, and until that is told
 * nothing may go by the lane: what is written now may say that they are there. Whose they are is
 * told by its next fence, as it would be that they are placed: all writes on a lane are its
 * thread's. Until then its operations fail, and so do fences of others for the process, which are
 * told as well. A thread that leaves fences to another, as one that puts while another calls
 * MPI_Win_fence, has its own next operation fail instead: `loss` says that the other was told. With
 * LOCI_LOSS_TOLD the lane is mended. Where a lane's thread has gone, fences of others stand for its
 * own.
 *
 * `loss` is written under the lane's lock, and only while `failed` is set: who tells of an older
 * failure than the lane's finds it mended, and leaves it alone. A loss that is not told yet is of
 * this failure, since nothing is posted after one.
 *
 * What was placing the lane's writes may be gone as well, and others may be waiting for it. So
 * mending ends with a place on the new connection. */

static bool may_mend(const struct loci_lane *lane)
{
    int failed = atomic_load_explicit(&lane->failed, memory_order_relaxed);

    return failed != LOCO_OK && failed != LOCO_ERR_PEER_DEAD
           && loci_lane_way(lane)->ops->lane_mend != NULL;
}

/* Under the lock. */
static void tell_loss(struct loci_lane *lane, bool by_fence)
{
    struct loci_thread *thread = lane->thread;
    bool own = thread == loci_self(thread->rt)
               || !atomic_load_explicit(&thread->in_use, memory_order_relaxed);
    int loss = atomic_load_explicit(&lane->loss, memory_order_relaxed);

    if (!may_mend(lane))
        return;
    if (own && (by_fence || loss != LOCI_LOSS_UNTOLD))
        loss = LOCI_LOSS_TOLD;
    else if (by_fence && loss == LOCI_LOSS_UNTOLD)
        loss = LOCI_LOSS_TOLD_OTHERS;
    atomic_store_explicit(&lane->loss, loss, memory_order_relaxed);
}

void loci_lane_told(struct loci_lane *lane)
{
    loci_lock_take(&lane->thread->lock);
    tell_loss(lane, true);
    loci_lock_give(&lane->thread->lock);
}

/* 1, 0 while something is in flight on it still, or why not; as loci_wait wants it. */
static int is_anew(void *arg)
{
    struct loci_lane *lane = arg;
    const struct loci_way *way = loci_lane_way(lane);
    int status = way->ops->lane_mend(way->fabric, lane);

    if (status == LOCO_ERR_AGAIN)
        loci_lane_poll(lane);       /* it may be another thread's */
    return status == LOCO_ERR_AGAIN ? 0 : status == LOCO_OK ? 1 : status;
}

static int is_mended(void *arg)
{
    struct loci_lane *lane = arg;

    return !atomic_load_explicit(&lane->mending, memory_order_acquire);
}

/* Whether this thread is the one that mends; else another has, or has tried to. */
static bool begin_mending(struct loci_lane *lane, const struct loci_reason *why)
{
    bool none = false;

    if (!atomic_compare_exchange_strong_explicit(&lane->mending, &none, true, memory_order_acquire,
                                                 memory_order_relaxed)) {
        loci_wait(lane->thread->rt, why, is_mended, lane);
        return false;
    }
    if (may_mend(lane))
        return true;
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    return false;
}

/* Where it cannot be mended, posting says why. */
static void mend(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;
    const struct loci_reason why = {
        .what = "a connection that has failed", .peer = lane->peer->index,
        .timeout_ns = loci_grace(rt), .kind = LOCI_WAIT_FENCE,
    };
    struct loci_op op = { .kind = LOCI_PLACE };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    if (!begin_mending(lane, &why))
        return;
    status = loci_wait(rt, &why, is_anew, lane);
    if (status == LOCO_OK) {
        /* Under the lock, as it was set: nobody sees the old connection without the failure. */
        loci_lock_take(&lane->thread->lock);
        atomic_store_explicit(&lane->failed, LOCO_OK, memory_order_release);
        atomic_store_explicit(&lane->loss, LOCI_LOSS_UNTOLD, memory_order_relaxed);
        loci_lock_give(&lane->thread->lock);
    }
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    if (status == LOCO_OK && loci_lane_post(lane, &op, &ack) >= 0)
        loco_ack_wait(rt, &ack);
}

/* ---- posting ---- */

static void ack_add(loco_ack_t *ack, struct loci_thread *thread, struct loci_slot *slot,
                    uint64_t oldest, uint64_t seq)
{
    size_t at = (size_t)(slot - thread->slot);

    if (ack->thread == NULL || ack->oldest > oldest)
        ack->oldest = oldest;
    ack->thread = thread;
    ack->slots[at / 64] |= UINT64_C(1) << at % 64;
    if (ack->seq < seq)
        ack->seq = seq;
}

/* What the completion of that write of the lane places. */
static uint64_t number_write(const struct loci_lane *lane, uint64_t written)
{
    return lane->acks_place ? written : 0;
}

/* Whether it is executed only when the lane's writes before it are placed. */
static bool places_writes(const struct loci_op *op)
{
    return op->kind == LOCI_PLACE || loci_mem_orders(op->mem);
}

/* One in so many atomics: clocks take their time. */
static bool is_measured(const struct loci_lane *lane, const struct loci_op *op)
{
    return (op->kind == LOCI_FETCH_ADD || op->kind == LOCI_COMPARE_SWAP)
           && (op->slot->lane->thread->seq % MEASURE_EVERY == 0
               || atomic_load_explicit(&lane->round_trip, memory_order_relaxed) == 0);
}

/* Under the lock of the lane's thread. What is not taken counts again when it is tried again: a
 * lane that seems to have more writes costs a fence at most. */
static void count_before_post(struct loci_lane *lane, struct loci_op *ops, int n)
{
    const uint64_t before = atomic_load_explicit(&lane->written, memory_order_relaxed);
    uint64_t written = before;

    for (int i = 0; i < n; i++) {
        if (ops[i].kind == LOCI_WRITE)
            ops[i].places = number_write(lane, ++written);
        else
            ops[i].slot->places = places_writes(&ops[i]) ? written : 0;
        ops[i].slot->awaited = ops[i].awaited;
        ops[i].slot->untold = ops[i].untold;
        ops[i].slot->began = is_measured(lane, &ops[i]) ? loci_now(lane->thread->rt) : 0;
    }
    if (written != before)
        atomic_store_explicit(&lane->written, written, memory_order_release);
}

/* Under the same lock, without which nobody is told that they are complete. */
static void count_reads(struct loci_lane *lane, const struct loci_op *ops, int n)
{
    uint64_t reads = 0;

    for (int i = 0; i < n; i++)
        reads += ops[i].awaited && ops[i].in_flight;
    if (reads != 0)
        atomic_fetch_add_explicit(&lane->reads, reads, memory_order_release);
}

static uint64_t places_of(const struct loci_op *op)
{
    return op->kind == LOCI_WRITE ? op->places : op->slot->places;
}

/* The last of them that places says all: places only grow along a chain. */
static void raise_placing(struct loci_lane *lane, const struct loci_op *ops, int n)
{
    while (n > 0 && places_of(&ops[n - 1]) == 0)
        n--;
    if (n > 0)
        raise_to(&lane->placing, places_of(&ops[n - 1]));
}

/* Under the lock. */
static inline int post_by(struct loci_lane *lane, const struct loci_way *way,
                          struct loci_op *ops, int n, int *posted)
{
    int status;

    count_before_post(lane, ops, n);
    status = way->ops->post(way->fabric, lane, ops, n, posted);
    raise_placing(lane, ops, *posted);
    count_reads(lane, ops, *posted);
    return status;
}

static int try_post(struct loci_lane *lane, struct loci_op *ops, int n, int *posted)
{
    int status;

    *posted = 0;
    loci_lock_take(&lane->thread->lock);
    status = atomic_load_explicit(&lane->failed, memory_order_relaxed);
    if (status == LOCO_OK)
        status = post_by(lane, loci_lane_way(lane), ops, n, posted);
    else
        tell_loss(lane, false);
    loci_lock_give(&lane->thread->lock);
    return status;
}

/* Operations that were taken, from `oldest` to `seq`: those in flight join the ack; of the others
 * the slots are free. */
static void settle(struct loci_lane *lane, struct loci_thread *self, uint64_t oldest, uint64_t seq,
                   const struct loci_op *ops, int n, loco_ack_t *ack)
{
    for (int i = 0; i < n; i++) {
        struct loci_slot *slot = ops[i].slot;

        if (ops[i].in_flight) {
            ack_add(ack, self, slot, oldest, seq);
            continue;
        }
        raise_to(&lane->placed, slot->places);
        atomic_store_explicit(&slot->seq, 0, memory_order_release);
    }
}

/* At most LOCI_CHAIN, each with a slot of its own: should the chain break, all that is in flight
 * can be waited for. A thread has more slots than that, so those it holds here while it waits for
 * the last of them do not keep it from coming; nothing else of this thread does meanwhile. Acks get
 * the numbers of the youngest and the oldest for all. */
static int post_some(struct loci_lane *lane, struct loci_thread *self, struct loci_op *ops, int n,
                     loco_ack_t *ack)
{
    static const struct loci_reason why = {
        .what = "room for a request", .peer = -1, .kind = LOCI_WAIT_ROOM,
    };
    struct loco_runtime *rt = lane->thread->rt;
    struct loci_watch watch = { .begun = false };
    unsigned rounds = 0;
    int status, done = 0, posted;
    uint64_t oldest, seq;

    if (may_mend(lane))
        mend(lane);
    oldest = self->seq + 1;
    for (int i = 0; i < n; i++)
        ops[i].slot = loci_slot_take(self, lane);
    seq = self->seq;
    do {
        posted = 0;
        status = loci_peer_alive(rt, lane->peer->index)
                 ? try_post(lane, ops + done, n - done, &posted) : LOCO_ERR_PEER_DEAD;
        settle(lane, self, oldest, seq, ops + done, posted, ack);
        done += posted;
        if (status == LOCO_ERR_AGAIN) {
            /* It may be full of what a thread that has gone did not poll. */
            loci_lane_poll(lane);
            if (!watch.begun)
                loci_watch_begin(rt, &why, &watch);
            loci_wait_round(rt, &rounds);
        }
    } while (status == LOCO_ERR_AGAIN);
    if (watch.begun)
        loci_watch_end(rt, &why, &watch);
    for (int i = done; i < n; i++)
        atomic_store_explicit(&ops[i].slot->seq, 0, memory_order_release);
    return status;
}

/* Under the lock it is counted after it is posted: for whoever looks without it, it happens when
 * this returns. */
static int write_at_once(struct loci_lane *lane, struct loci_op *op)
{
    const struct loci_way *way = loci_lane_way(lane);
    uint64_t written = atomic_load_explicit(&lane->written, memory_order_relaxed) + 1;
    int status = LOCO_ERR_AGAIN;

    op->places = number_write(lane, written);
    if (atomic_load_explicit(&lane->failed, memory_order_relaxed) == LOCO_OK
        && way->ops->write != NULL)
        status = way->ops->write(way->fabric, lane, op);
    if (status != LOCO_OK)
        return status;
    atomic_store_explicit(&lane->written, written, memory_order_release);
    if (op->places != 0)
        raise_to(&lane->placing, op->places);
    return LOCO_OK;
}

int loci_lane_write(struct loci_lane *lane, struct loci_op *op)
{
    struct loco_runtime *rt = lane->thread->rt;
    int status;

    if (loci_lane_way(lane)->ops->write == NULL || !loci_peer_alive(rt, lane->peer->index))
        return LOCO_ERR_AGAIN;
    loci_lock_take(&lane->thread->lock);
    status = write_at_once(lane, op);
    loci_lock_give(&lane->thread->lock);
    return status;
}

int loci_lane_post(struct loci_lane *lane, struct loci_op *op, loco_ack_t *ack)
{
    struct loci_thread *self = loci_self(lane->thread->rt);

    return self != NULL ? post_some(lane, self, op, 1, ack) : LOCO_ERR_NO_MEMORY;
}

static int post_all(struct loci_lane *lane, struct loci_op *ops, int n, loco_ack_t *ack)
{
    struct loci_thread *self = loci_self(lane->thread->rt);
    int status = self != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;

    for (int at = 0; status >= 0 && at < n; at += LOCI_CHAIN)
        status = post_some(lane, self, ops + at, n - at < LOCI_CHAIN ? n - at : LOCI_CHAIN, ack);
    return status;
}

int loci_lane_post_chain(struct loci_lane *lane, struct loci_op *ops, int n, loco_ack_t *ack)
{
    int status = n == 1 ? loci_lane_post(lane, ops, ack) : post_all(lane, ops, n, ack);

    return status < 0 ? status : LOCO_OK;
}

/* ---- posting without waiting ---- */

int loci_lane_try(struct loci_lane *lane, struct loci_op *op)
{
    int posted, status;

    if (!loci_peer_alive(lane->thread->rt, lane->peer->index))
        return LOCO_ERR_PEER_DEAD;
    status = try_post(lane, op, 1, &posted);
    return posted == 0 && may_mend(lane) ? LOCO_ERR_AGAIN : status;
}

static int try_mend(struct loci_lane *lane)
{
    const struct loci_way *way = loci_lane_way(lane);
    int status;

    loci_lane_told(lane);
    status = way->ops->lane_mend(way->fabric, lane);
    if (status != LOCO_OK)
        return status;
    loci_lock_take(&lane->thread->lock);
    /* What is lost is told, and nobody waits for it. */
    raise_to(&lane->placed, atomic_load_explicit(&lane->written, memory_order_relaxed));
    atomic_store_explicit(&lane->failed, LOCO_OK, memory_order_release);
    atomic_store_explicit(&lane->loss, LOCI_LOSS_UNTOLD, memory_order_relaxed);
    loci_lock_give(&lane->thread->lock);
    return LOCO_OK;
}

int loci_lane_try_mend(struct loci_lane *lane)
{
    bool none = false;
    int status;

    if (!atomic_compare_exchange_strong_explicit(&lane->mending, &none, true, memory_order_acquire,
                                                 memory_order_relaxed))
        return LOCO_ERR_AGAIN;
    status = may_mend(lane) ? try_mend(lane)
                            : atomic_load_explicit(&lane->failed, memory_order_relaxed);
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    return status;
}

/* ---- moving ----
 *
 * While a lane moves its way is `halted`, of which post takes nothing. So the place that the mover
 * posts on the way behind it is the lane's last operation there: when it is complete, all before it
 * are, and what they wrote is placed. Then nothing is in flight, and no order is left that the
 * other way would have to keep.
 *
 * Then what it has where it comes from is closed, under the lock, and it is `nowhere`. To open the
 * other way may take long, so that is done without the lock: its thread may post on other lanes,
 * and others poll them. Nobody else looks at `fabric_data` of a lane that is nowhere: post and poll
 * find none there, whoever gives back what a peer that has gone leaves asks loci_lane_is_on(), and
 * the mover looks for the peer's end when the lane is there, as whoever opens a new one does.
 *
 * The mover has `mending`, as whoever mends the lane or retires it has. A lane that fails while it
 * moves stays where it is, and is mended there. */

static int halted_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops,
                       int n, int *posted)
{
    (void)fabric, (void)lane, (void)ops, (void)n;
    *posted = 0;
    return LOCO_ERR_AGAIN;
}

static int halted_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op)
{
    (void)fabric, (void)lane, (void)op;
    return LOCO_ERR_AGAIN;
}

/* The mover has `mending`: nobody else comes to this. */
static int halted_mend(struct loci_fabric *fabric, struct loci_lane *lane)
{
    (void)fabric, (void)lane;
    return LOCO_ERR_AGAIN;
}

static int halted_poll(struct loci_fabric *fabric, struct loci_lane *lane)
{
    const struct loci_way *behind = lane->behind;

    (void)fabric;
    return behind->ops->poll != NULL ? behind->ops->poll(behind->fabric, lane) : 0;
}

static const struct loci_fabric_ops halted_ops = {
    .name = "halted", .lane_mend = halted_mend, .post = halted_post, .write = halted_write,
    .poll = halted_poll,
};
static const struct loci_way halted = { .ops = &halted_ops };
static const struct loci_fabric_ops nowhere_ops = { .name = "nowhere" };
static const struct loci_way nowhere = { .ops = &nowhere_ops };

bool loci_lane_is_on(const struct loci_lane *lane, const struct loci_way *way)
{
    const struct loci_way *now = loci_lane_way(lane);

    return now == way || (now == &halted && lane->behind == way);
}

static bool begin_moving(struct loci_lane *lane)
{
    bool none = false, begins;

    if (!atomic_compare_exchange_strong_explicit(&lane->mending, &none, true, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    loci_lock_take(&lane->thread->lock);
    begins = atomic_load_explicit(&lane->failed, memory_order_relaxed) == LOCO_OK;
    if (begins) {
        lane->behind = loci_lane_way(lane);
        atomic_store_explicit(&lane->way, &halted, memory_order_release);
    }
    loci_lock_give(&lane->thread->lock);
    if (!begins)
        atomic_store_explicit(&lane->mending, false, memory_order_release);
    return begins;
}

static int post_last(struct loci_lane *lane, struct loci_op *op)
{
    unsigned rounds = 0;
    int posted, status;

    do {
        status = loci_peer_alive(lane->thread->rt, lane->peer->index) ? LOCO_OK
                                                                      : LOCO_ERR_PEER_DEAD;
        loci_lock_take(&lane->thread->lock);
        if (status == LOCO_OK)
            status = atomic_load_explicit(&lane->failed, memory_order_relaxed);
        if (status == LOCO_OK)
            status = post_by(lane, lane->behind, op, 1, &posted);
        loci_lock_give(&lane->thread->lock);
        if (status == LOCO_ERR_AGAIN) {
            loci_lane_poll(lane);
            loci_wait_round(lane->thread->rt, &rounds);
        }
    } while (status == LOCO_ERR_AGAIN);
    return status;
}

/* All that was posted is complete, and placed. */
static int finish_behind(struct loci_lane *lane)
{
    struct loco_runtime *rt = lane->thread->rt;
    struct loci_thread *self = loci_self(rt);
    struct loci_op op = { .kind = LOCI_PLACE };
    loco_ack_t ack = LOCO_ACK_INIT;
    uint64_t seq;
    int status;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    op.slot = loci_slot_take(self, lane);
    seq = self->seq;
    status = post_last(lane, &op);
    settle(lane, self, seq, seq, &op, status >= 0, &ack);
    if (status < 0)
        atomic_store_explicit(&op.slot->seq, 0, memory_order_release);
    return status == LOCO_IN_PROGRESS ? loco_ack_wait(rt, &ack) : status;
}

/* Unless it has failed. */
static int close_behind(struct loci_lane *lane)
{
    const struct loci_way *behind;
    int status;

    loci_lock_take(&lane->thread->lock);
    status = atomic_load_explicit(&lane->failed, memory_order_relaxed);
    if (status == LOCO_OK) {
        behind = lane->behind;
        if (behind->ops->lane_close != NULL)
            behind->ops->lane_close(behind->fabric, lane);
        lane->fabric_data = NULL;
        lane->behind = &nowhere;
    }
    loci_lock_give(&lane->thread->lock);
    return status;
}

/* From nowhere; where it cannot go that way, back. A lane that cannot go either way has failed. */
static int open_ahead(struct loci_lane *lane, const struct loci_way *way,
                      const struct loci_way *back, const struct loci_way **now)
{
    int status = open_way(lane, way), none = LOCO_OK;

    *now = status == LOCO_OK ? way : back;
    if (status != LOCO_OK && open_way(lane, back) != LOCO_OK)
        atomic_compare_exchange_strong(&lane->failed, &none, LOCO_ERR_PEER_DEAD);
    return status;
}

int loci_lane_move(struct loci_lane *lane, const struct loci_way *way)
{
    const struct loci_way *now;
    int status;

    if (!begin_moving(lane))
        return LOCO_ERR_STATE;
    now = lane->behind;                 /* none but the mover changes it */
    status = finish_behind(lane);
    if (status == LOCO_OK)
        status = close_behind(lane);
    if (status == LOCO_OK)
        status = open_ahead(lane, way, now, &now);
    loci_lock_take(&lane->thread->lock);
    atomic_store_explicit(&lane->way, now, memory_order_release);
    loci_lock_give(&lane->thread->lock);
    look_for_end(lane);                 /* before its peer may be forgotten */
    atomic_store_explicit(&lane->mending, false, memory_order_release);
    return status;
}

/* ---- leaving ---- */

static int left_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                     int *posted)
{
    (void)fabric, (void)lane, (void)ops, (void)n;
    *posted = 0;
    return LOCO_ERR_STATE;
}

static const struct loci_fabric_ops left_ops = { .name = "left", .post = left_post };
static const struct loci_way left = { .ops = &left_ops };

/* A lane that moves is where its mover has it. */
static void leave(struct loci_lane *lane, const struct loci_way *way)
{
    loci_lock_take(&lane->thread->lock);
    if (loci_lane_way(lane) == way) {
        way->ops->lane_close(way->fabric, lane);
        lane->fabric_data = NULL;
        atomic_store_explicit(&lane->way, &left, memory_order_release);
    }
    loci_lock_give(&lane->thread->lock);
}

void loci_lanes_leave(struct loco_runtime *rt, const struct loci_way *way)
{
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);

    for (; t != NULL; t = t->next) {
        int lanes = atomic_load_explicit(&t->lane_peers, memory_order_acquire);

        for (int i = 0; i < lanes; i++) {
            struct loci_lane *lane = atomic_load_explicit(&t->lanes[i], memory_order_acquire);

            if (lane != NULL)
                leave(lane, way);
        }
    }
}
