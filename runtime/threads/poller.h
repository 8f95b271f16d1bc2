/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POLLER_H
#define LOCI_POLLER_H

#include "runtime.h"

/* The poller: one thread per runtime that works on what others send, for all channels that need a
 * thread for that. It is started with the first of them and ends with the last. All signals are
 * blocked in it, and it never calls MPI.
 *
 * A channel has a place there (struct loci_polled) with a number, which it makes known to those
 * who send to it. While something comes, the poller looks at the channel in each round, and nobody
 * rings. After LOCO_SLEEP_AFTER without anything, the channel announces that it wants to be rung
 * for, with its number, and is not looked at any more until it is. So channels without traffic cost
 * nothing, however many there are.
 *
 * | call                 | may run beside         | by |
 * |----------------------|------------------------|----|
 * | _poller_add, _remove | all, of other channels | any thread but the poller |
 * | _polled_begin        | all, of other channels | who has added it |
 * | _polled_call         | all but _remove of it  | any thread |
 * | _polled_claim, _free | all but _remove of it  | any thread |
 */

enum loci_served {
    LOCI_SERVED_NOTHING,        /* there was nothing to do: may be announced, and forgotten */
    LOCI_SERVED_SOME,
    LOCI_SERVED_LATER           /* there is, but not now: the poller comes back, awake */
};

/* Called by the poller, and for one channel one after the other. */
struct loci_polled_ops {
    /* Whether there is something to do. In each round, so it loads and does not change anything. */
    bool (*look)(void *channel);
    /* Do a bounded part of it, and wait for nothing: others have their turn next. With the channel
     * claimed. */
    enum loci_served (*serve)(void *channel);
    /* Let those who send ring from now on (+1), or not any more (-1). Atomic, in one order with
     * what `look` then loads. */
    void (*announce)(void *channel, int change);
};

struct loci_polled;

/* A place, of which nothing is called before loci_polled_begin(). LOCO_ERR_NO_MEMORY,
 * LOCO_ERR_SYSTEM (no thread). */
int loci_poller_add(struct loco_runtime *rt, const struct loci_polled_ops *ops, void *channel,
                    struct loci_polled **out);
/* When it returns, the poller is not at the channel and does not come any more. It waits for a
 * round of the poller at most, and not where that sleeps. NULL is allowed. */
void loci_poller_remove(struct loci_polled *polled);

/* Whether this thread is the runtime's poller: for calls that would wait for what it does. */
bool loci_poller_is_self(struct loco_runtime *rt);
/* LOCO_ERR_STATE, and the log says so, where it is: for calls that would wait for its round. */
int loci_poller_refuse_self(struct loco_runtime *rt, const char *call, const char *name);

/* What it is rung for with: loci_ring_for(). Never 0. */
uint32_t loci_polled_number(const struct loci_polled *polled);
void loci_polled_begin(struct loci_polled *polled);
/* Have it served soon. */
void loci_polled_call(struct loci_polled *polled);

/* Who has claimed a channel serves it in place of the poller, which is kept out of it and stays
 * awake: for moments only. False: somebody else has, or the poller serves it. */
bool loci_polled_claim(struct loci_polled *polled);
void loci_polled_free(struct loci_polled *polled);
bool loci_polled_is_claimed(const struct loci_polled *polled);

#endif
