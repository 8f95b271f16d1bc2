/* SPDX-License-Identifier: BSD-3-Clause */

/* Cases of `contract`: the last member goes while it has been written to and nobody has fenced
 * that. What the others do among themselves goes on, fences and barriers. If it has closed its
 * runtime nobody is told; if it was killed, a fence of all peers says so. */

#include "config.h"

#include <loco/barrier.h>
#include <loco/fence.h>
#include <signal.h>
#include <unistd.h>

#include "runtime.h"
#include "wait.h"
#include "world.h"

enum { WRITES = 50, MEETINGS = 3 };

static int is_gone(void *arg)
{
    const struct world *w = arg;

    return !loci_peer_alive(w->rt, w->rt->everyone->peer[w->m->n - 1]);
}

static int all_are_here(void *arg)
{
    struct world *w = arg;

    for (int i = 0; i + 1 < w->m->n; i++)
        if (loci_load64(loci_mem_ptr(&w->pool) + 8 * (size_t)i) != WRITES)
            return 0;
    return 1;
}

static int wait_until(struct world *w, const char *what, loci_ready_fn *fn)
{
    const struct loci_reason why = {
        .what = what, .peer = -1, .timeout_ns = run_limit(INT64_C(20000000000)),
        .kind = LOCI_WAIT_SYNC,
    };

    return loci_wait(w->rt, &why, fn, w);
}

/* What was held for it is given back, in time. */
static int nothing_is_held(void *arg)
{
    struct world *w = arg;

    return held_of(w, w->rt->everyone->peer[w->m->n - 1]) == 0;
}

/* Where its memory is mapped, what is written there is there. */
static bool is_mapped(struct world *w, int member)
{
    return w->rt->ops->synchronous || loci_mem_ptr(&w->pools[member]) != NULL;
}

/* `told`: what a fence of all says then, where the last one's writes are not placed. */
static int go_on(struct world *w, const struct loco_group *others, loco_barrier_t *barrier,
                 int told)
{
    int last = w->m->n - 1, dirty;

    CHECK_OK(wait_until(w, "the last member's end", is_gone));
    dirty = loci_fence_peer(w->rt, LOCO_FENCE_PROCESS, w->pools[last].peer);
    if (!is_mapped(w, last) && w->rt->tunables.rdma_place != LOCI_RDMA_PLACE_ACK)
        CHECK_EQ(dirty, LOCO_ERR_PEER_DEAD);
    CHECK_EQ(loco_fence(w->rt, LOCO_FENCE_PROCESS, LOCO_ALL_PEERS),
             dirty != LOCO_OK ? told : LOCO_OK);
    CHECK_OK(loci_fence_process(w->rt, -1, others));
    CHECK_OK(loci_fence_data(w->rt, -1, others));
    CHECK_OK(loci_finish_reads(w->rt, -1, others));
    for (int i = 0; i < MEETINGS; i++)
        CHECK_OK(loco_barrier_wait(barrier));
    CHECK_OK(wait_until(w, "its queue pairs to be given back", nothing_is_held));
    if (!is_mapped(w, last))
        CHECK_EQ(loci_write64(w->rt, &w->pools[last], 0, 1, NULL), LOCO_ERR_PEER_DEAD);
    return 0;
}

static int goes(struct member *m, bool is_killed)
{
    struct loco_group *others = NULL;
    loco_barrier_t *barrier = NULL;
    int last = m->n - 1;
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank == last) {
        CHECK_OK(wait_until(&w, "all writes", all_are_here));
        if (is_killed)
            kill(getpid(), SIGKILL);
        return 0;       /* closes its runtime */
    }
    CHECK_OK(loci_group_of(w.rt, last, w.rt->everyone->peer, &others));
    CHECK_OK(loco_barrier_create(w.rt, NULL, "others", others, &barrier));
    CHECK_OK(loco_runtime_wait_ready(w.rt, -1));
    CHECK_OK(loco_barrier_wait(barrier));
    for (uint64_t i = 1; i <= WRITES; i++)
        CHECK_OK(loci_write64(w.rt, &w.pools[last], 8 * (uint64_t)m->rank, i, NULL));
    CHECK(go_on(&w, others, barrier, is_killed ? LOCO_ERR_PEER_DEAD : LOCO_OK) == 0);
    loco_barrier_destroy(barrier);
    loco_group_destroy(others);
    return 0;
}

int left(struct member *m)
{
    return goes(m, false);
}

int killed(struct member *m)
{
    return goes(m, true);
}
