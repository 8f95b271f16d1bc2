/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "backoff.h"
#include "move/rma.h"
#include "runtime.h"
#include "wait.h"

#define UNMEASURED INT64_C(2500)        /* ns: of a network that is fast */
#define DOUBLINGS_MOST 10

int64_t loci_round_trip(struct loco_runtime *rt, const struct loci_mem *mem)
{
    struct loci_thread *self;
    const struct loci_lane *lane;
    int64_t measured;

    if (loci_mem_word(mem) != NULL)
        return LOCI_BACKOFF_NEAR;
    self = loci_self(rt);
    lane = self != NULL ? atomic_load_explicit(&self->lanes[mem->peer], memory_order_relaxed)
                        : NULL;
    if (lane != NULL && lane->synchronous)
        return LOCI_BACKOFF_NEAR;
    measured = lane != NULL ? atomic_load_explicit(&lane->round_trip, memory_order_relaxed) : 0;
    return measured > 0 ? measured : UNMEASURED;
}

int64_t loci_backoff_next(struct loci_backoff *b)
{
    unsigned doublings = b->failures < DOUBLINGS_MOST ? b->failures : DOUBLINGS_MOST;

    if (b->failures == 0)
        b->unit = loci_round_trip(b->rt, b->mem);
    if (b->failures++ == 0 && b->unit <= LOCI_BACKOFF_NEAR)
        return 0;
    return (b->unit << doublings) + (int64_t)(loci_random(b->rt) % (uint64_t)b->unit);
}

static int is_over(void *arg)
{
    (void)arg;
    return 0;
}

void loci_pause(struct loco_runtime *rt, const char *what, int kind, int64_t ns)
{
    const struct loci_reason why = {
        .what = what, .peer = -1, .kind = (uint8_t)kind, .timeout_ns = ns,
    };

    if (ns > 0)
        loci_wait(rt, &why, is_over, NULL);
}

void loci_backoff_pause(struct loci_backoff *b)
{
    loci_pause(b->rt, "a pause before the next try", LOCI_WAIT_RETRY, loci_backoff_next(b));
}
