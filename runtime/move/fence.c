/* SPDX-License-Identifier: BSD-3-Clause */

/* Fences of three scopes (LOCO paper, section 5.3), by what the lanes' counters say:
 *
 *   placed >= written    nothing to do on this lane
 *   placing >= written   a read or an atomic in flight will place all (one on the device's own
 *                        memory does not), or the writes' own completions (acks_place): wait for it
 *   else                 post a place, then wait
 *   told >= written      what is not placed are counts (loci_tell64), which a fence of data leaves
 *
 * First all places are posted, then all are waited for, so that they are in flight together; where
 * one lane was dirty, that one: what others write meanwhile did not happen before the call. Reads
 * that somebody ends an epoch for (loci_finish_reads) have counters of their own, and nothing to
 * post.
 * Copies into mapped memory are not counted: the CPU's own fence covers this thread's, and those
 * of other threads "that happened before the call" were made visible by what told us of them. */

#include "config.h"

#include "observe/mistake.h"
#include "observe/observe.h"
#include "rma.h"
#include "runtime.h"
#include "wait.h"

/* What is to be finished: all writes, those that are not counts (loci_tell64), or reads. */
enum fenced { ALL_WRITES, DATA, READS };

/* Each caller has its own, in which what is the same for all its lanes is not asked of each: a
 * flush goes through these. */
#define FOR_EACH_CALLER static inline __attribute__((always_inline))

static bool nothing_is_read(const struct loci_lane *lane)
{
    return atomic_load_explicit(&lane->reads_done, memory_order_acquire)
           >= atomic_load_explicit(&lane->reads, memory_order_acquire);
}

static bool all_is_read(const struct loci_lane *lane)
{
    return nothing_is_read(lane)
           && atomic_load_explicit(&lane->read_lost, memory_order_relaxed) == LOCO_OK;
}

FOR_EACH_CALLER bool lane_is_clean(const struct loci_lane *lane, enum fenced what)
{
    uint64_t written;

    if (what == READS)
        return all_is_read(lane);
    written = atomic_load_explicit(&lane->written, memory_order_acquire);
    /* `told` is not behind what was read of `written`, or there are counts that are not seen: then
     * the lane is taken for dirty. */
    return atomic_load_explicit(&lane->placed, memory_order_acquire) >= written
           || (what == DATA && atomic_load_explicit(&lane->told, memory_order_acquire) >= written);
}

/* What a fence has met so far. */
struct met {
    enum loci_stats_fence did;      /* the most that a lane needed */
    int lanes;                      /* dirty ones */
    struct loci_lane *lane;         /* the last of them */
    bool reads;                     /* some lane has reads that somebody ends an epoch for */
};

static int post_place(struct loci_lane *lane)
{
    struct loci_op op = { .kind = LOCI_PLACE };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status;

    LOCI_COUNT_SIMPLE(lane->thread->rt, places);
    status = loci_lane_post(lane, &op, &ack);
    return status < 0 ? status : LOCO_OK;
}

/* Have something in flight that places all writes of this lane. */
static int start_placing(struct loci_lane *lane, struct met *met)
{
    met->lane = lane;
    met->lanes++;
    /* What was placing a lane that has failed does no more; posting mends it, or says why not. */
    if (atomic_load_explicit(&lane->failed, memory_order_relaxed) == LOCO_OK
        && atomic_load_explicit(&lane->placing, memory_order_acquire)
           >= atomic_load_explicit(&lane->written, memory_order_acquire)) {
        met->did = met->did == LOCI_STATS_NOTHING ? LOCI_STATS_ACK : met->did;
        return LOCO_OK;
    }
    met->did = LOCI_STATS_PLACE;
    return post_place(lane);
}

struct place_wait {
    struct loci_lane *lane;
    uint64_t target;
};

static bool has_placed(const struct place_wait *wait)
{
    return atomic_load_explicit(&wait->lane->placed, memory_order_acquire) >= wait->target;
}

static int is_placed(void *arg)
{
    struct place_wait *wait = arg;
    int failed;

    if (has_placed(wait))
        return 1;
    failed = atomic_load_explicit(&wait->lane->failed, memory_order_relaxed);
    if (failed != LOCO_OK)
        return failed;
    loci_lane_poll(wait->lane);
    return has_placed(wait);
}

static int finish_placing(struct loci_lane *lane, struct met *met)
{
    struct place_wait wait = { lane, atomic_load_explicit(&lane->placing, memory_order_acquire) };
    const struct loci_reason why = {
        .what = "a fence", .peer = lane->peer->index, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_FENCE,
    };

    (void)met;
    return loci_wait(lane->thread->rt, &why, is_placed, &wait);
}

typedef int step_fn(struct loci_lane *lane, struct met *met);

/* To whom: the peer of that index, or all (-1). Of all, some may be gone without its being told:
 * those outside `group`, however they went, or where that is NULL, those who have closed their
 * runtimes. Nobody there sees any more what was written. */
struct towards {
    int peer;
    const struct loco_group *group;
};

/* Whether its peer is one of those. What is being read from there into this process's memory is
 * waited for all the same. */
static bool is_nobodys(const struct loci_lane *lane, const struct towards *to, enum fenced what)
{
    int state = atomic_load_explicit(&lane->peer->state, memory_order_acquire);

    if (state == LOCI_PEER_ALIVE || to->peer >= 0)
        return false;
    if (to->group != NULL ? loci_group_rank_of(to->group, lane->peer->index) >= 0
                          : state == LOCI_PEER_DEAD)
        return false;
    return what != READS || nothing_is_read(lane);
}

/* Apply `step` to the lane, if it is dirty. The first error is kept. */
FOR_EACH_CALLER int if_dirty(struct loci_lane *lane, const struct towards *to, enum fenced what,
                             step_fn *step, int status, struct met *met)
{
    int one;

    if (lane_is_clean(lane, what) || is_nobodys(lane, to, what))
        return status;
    one = step(lane, met);
    if (one != LOCO_OK && what != READS)
        loci_lane_told(lane);
    /* It may have gone meanwhile. */
    return status == LOCO_OK && one != LOCO_OK && !is_nobodys(lane, to, what) ? one : status;
}

/* Apply `step` to every dirty lane of the thread, also after an error on one of them. */
FOR_EACH_CALLER int each_dirty_lane(struct loci_thread *thread, const struct towards *to,
                                    enum fenced what, step_fn *step, int status, struct met *met)
{
    int lanes = atomic_load_explicit(&thread->lane_peers, memory_order_acquire);
    int first = to->peer < 0 ? 0 : to->peer, end = to->peer < 0 ? lanes : to->peer + 1;

    for (int i = first; i < end && i < lanes; i++) {
        struct loci_lane *lane = atomic_load_explicit(&thread->lanes[i], memory_order_acquire);

        if (lane == NULL)
            continue;
        if (what != READS)
            met->reads |= !all_is_read(lane);
        status = if_dirty(lane, to, what, step, status, met);
    }
    return status;
}

static int fence_lanes(struct loco_runtime *rt, bool all_threads, const struct towards *to,
                       enum fenced what, struct met *met)
{
    struct loci_thread *first, *t;
    int status = LOCO_OK;

    first = all_threads ? atomic_load_explicit(&rt->threads, memory_order_acquire)
                        : loci_self(rt);
    for (t = first; t != NULL; t = all_threads ? t->next : NULL)
        status = each_dirty_lane(t, to, what, start_placing, status, met);
    if (met->lanes == 1)
        status = if_dirty(met->lane, to, what, finish_placing, status, met);
    for (t = first; t != NULL && met->lanes > 1; t = all_threads ? t->next : NULL)
        status = each_dirty_lane(t, to, what, finish_placing, status, met);
    loci_stat(rt, LOCI_STAT_FENCES + (int)met->did, 1);
    return status;
}

/* ---- all that is under way ---- */

/* Behind all that is posted on the lane, atomics and reads too, whatever its counters say. */
static int place_now(struct loci_lane *lane)
{
    struct loci_op op = { .kind = LOCI_PLACE };
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = loci_lane_post(lane, &op, &ack);

    return status < 0 ? status : loco_ack_wait(lane->thread->rt, &ack);
}

int loci_place_peer(struct loco_runtime *rt, int peer)
{
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    int status = LOCO_OK;

    atomic_thread_fence(memory_order_seq_cst);
    for (; t != NULL && !rt->ops->synchronous; t = t->next) {
        struct loci_lane *lane = NULL;
        int one = LOCO_OK;

        if (peer < atomic_load_explicit(&t->lane_peers, memory_order_acquire))
            lane = atomic_load_explicit(&t->lanes[peer], memory_order_acquire);
        if (lane != NULL)
            one = place_now(lane);
        status = status == LOCO_OK ? one : status;
    }
    return status;
}

/* ---- reads ---- */

static bool are_read(const struct place_wait *wait)
{
    return atomic_load_explicit(&wait->lane->reads_done, memory_order_acquire) >= wait->target;
}

/* A lane that fails, as its peer's death makes it do, tells all that is in flight on it, so waiting
 * for this ends; and not before, for what is read may still arrive. */
static int is_read(void *arg)
{
    struct place_wait *wait = arg;

    if (!are_read(wait))
        loci_lane_poll(wait->lane);
    return are_read(wait);
}

/* Told to all who ask, as long as its peer is dead; else until the thread that posted it asks, or
 * has gone: the others go on. */
static int lost_read(struct loci_lane *lane)
{
    int lost = atomic_load_explicit(&lane->read_lost, memory_order_relaxed), expected = lost;

    if (lost != LOCO_OK && lost != LOCO_ERR_PEER_DEAD
        && (lane->thread == loci_self(lane->thread->rt)
            || !atomic_load_explicit(&lane->thread->in_use, memory_order_relaxed)))
        atomic_compare_exchange_strong(&lane->read_lost, &expected, LOCO_OK);
    return lost;
}

static int finish_reading(struct loci_lane *lane, struct met *met)
{
    struct place_wait wait = { lane, atomic_load_explicit(&lane->reads, memory_order_acquire) };
    const struct loci_reason why = {
        .what = "reads in flight", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_FENCE,
    };
    int status = loci_wait(lane->thread->rt, &why, is_read, &wait);
    int lost = lost_read(lane);

    (void)met;
    return lost != LOCO_OK ? lost : status;
}

int loci_finish_reads(struct loco_runtime *rt, int peer, const struct loco_group *group)
{
    const struct towards to = { peer, group };
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);
    struct met met = { .lanes = 0 };
    int status = LOCO_OK;

    for (; t != NULL; t = t->next)
        status = each_dirty_lane(t, &to, READS, finish_reading, status, &met);
    return status;
}

/* Whether there are data to place on this lane, and on no other of this process to its peer. */
static bool is_only_dirty(const struct loci_lane *lane)
{
    const struct loci_thread *t = atomic_load_explicit(&lane->thread->rt->threads,
                                                       memory_order_acquire);
    int peer = lane->peer->index;

    for (; t != NULL; t = t->next) {
        const struct loci_lane *other;

        if (peer >= atomic_load_explicit(&t->lane_peers, memory_order_acquire))
            continue;
        other = atomic_load_explicit(&t->lanes[peer], memory_order_acquire);
        if (other != NULL && other != lane && !lane_is_clean(other, DATA))
            return false;
    }
    return !lane_is_clean(lane, DATA);
}

/* This thread's lane to that peer, if it has one. */
static struct loci_lane *own_lane(struct loco_runtime *rt, int peer)
{
    struct loci_thread *self = loci_self(rt);

    if (self == NULL || peer >= atomic_load_explicit(&self->lane_peers, memory_order_relaxed))
        return NULL;
    return atomic_load_explicit(&self->lanes[peer], memory_order_relaxed);
}

int loci_tell64(struct loco_runtime *rt, struct loci_mem *mem, uint64_t offset, uint64_t count,
                loco_ack_t *ack)
{
    struct loci_lane *lane;
    uint64_t before;
    bool clean;
    int status;

    if (loci_mem_ptr(mem) != NULL)
        return loci_write64(rt, mem, offset, count, ack);
    lane = own_lane(rt, mem->peer);
    clean = lane != NULL && lane_is_clean(lane, DATA);
    before = lane == NULL ? 0 : atomic_load_explicit(&lane->written, memory_order_relaxed);
    status = loci_write64(rt, mem, offset, count, ack);
    if (clean && atomic_load_explicit(&lane->written, memory_order_relaxed) == before + 1)
        atomic_store_explicit(&lane->told, before + 1, memory_order_release);
    return status;
}

bool loci_can_order(struct loco_runtime *rt, const struct loci_mem *mem)
{
    struct loci_lane *lane = loci_mem_is_posted_to(mem) ? own_lane(rt, mem->peer) : NULL;

    /* What this process has copied into mapped memory is visible before what is posted now. */
    atomic_thread_fence(memory_order_seq_cst);
    if (lane == NULL || !loci_mem_orders(mem) || !is_only_dirty(lane))
        return false;
    loci_stat(rt, LOCI_STAT_FENCES + (int)LOCI_STATS_ACK, 1);
    return true;
}

static int fence(struct loco_runtime *rt, bool all_threads, const struct towards *to,
                 enum fenced what, struct met *met)
{
    *met = (struct met){ .did = LOCI_STATS_NOTHING };
    atomic_thread_fence(memory_order_seq_cst);
    if (rt->ops->synchronous) {
        loci_stat(rt, LOCI_STAT_FENCES + (int)LOCI_STATS_NOTHING, 1);
        return LOCO_OK;
    }
    return fence_lanes(rt, all_threads, to, what, met);
}

int loci_fence_peer(struct loco_runtime *rt, enum loco_fence_scope scope, int peer)
{
    const struct towards to = { peer, NULL };
    struct met met;

    if (scope == LOCO_FENCE_NONE || scope == LOCO_ORDER)
        return LOCO_OK;
    return fence(rt, scope == LOCO_FENCE_PROCESS, &to, ALL_WRITES, &met);
}

int loci_fence_process(struct loco_runtime *rt, int peer, const struct loco_group *group)
{
    const struct towards to = { peer, group };
    struct met met;

    return fence(rt, true, &to, ALL_WRITES, &met);
}

int loci_fence_data(struct loco_runtime *rt, int peer, const struct loco_group *group)
{
    const struct towards to = { peer, group };
    struct met met;

    return fence(rt, true, &to, DATA, &met);
}

int loci_finish(struct loco_runtime *rt, int peer, const struct loco_group *group)
{
    const struct towards to = { peer, group };
    struct met met;
    int status = fence(rt, true, &to, ALL_WRITES, &met), read;

    if (!met.reads)
        return status;
    read = loci_finish_reads(rt, peer, group);
    return status != LOCO_OK ? status : read;
}

int loco_fence(loco_runtime_t *rt, enum loco_fence_scope scope, int peer)
{
    int status = loci_check_scope(rt, "loco_fence", NULL, scope, peer);

    if (status != LOCO_OK)
        return status;
    return loci_fence_peer(rt, scope, peer == LOCO_ALL_PEERS ? -1 : rt->everyone->peer[peer]);
}
