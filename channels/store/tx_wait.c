/* SPDX-License-Identifier: BSD-3-Clause */

/* Waits of a transaction for the network. While it owns cells, others measure how long its log slot
 * has stood still, and undo it after LOCO_TX_PATIENCE. So in a wait that lasts, its heartbeat word
 * there changes several times in that time, by writes that nobody waits for. They show that the
 * owner runs, whatever the network's latency is. Most commits are over before the first one. */

#include "config.h"

#include "tx.h"

#define BEATS 2                         /* in the patience of others */
#define BEAT_LEAST INT64_C(10000)       /* ns between two */

struct waiting {
    struct loco_tx *tx;
    loco_ack_t *ack;
    int result;
};

void loci_tx_beat_from(struct loco_tx *tx, uint64_t slot)
{
    int64_t patience = tx->s->rt->tunables.tx_patience, every = patience / BEATS;

    tx->beats = patience > 0 && patience != LOCI_INFINITE;
    tx->beat_slot = slot;
    tx->beat_every = every > BEAT_LEAST ? every : BEAT_LEAST;
    tx->beat_at = 0;
}

void loci_tx_beat(struct loco_tx *tx)
{
    /* Of an error: the host has died, which whatever is waited for will say. */
    if (tx->beats)
        (void)loci_log_beat(tx->s, tx->beat_slot, ++tx->heartbeat, &tx->late);
}

/* The clock is not read before the first wait that is not over at once. */
static void beat_in_time(struct loco_tx *tx)
{
    int64_t now = loci_now(tx->s->rt);

    if (tx->beat_at == 0)
        tx->beat_at = now + tx->beat_every;
    if (now < tx->beat_at)
        return;
    tx->beat_at = now + tx->beat_every;
    loci_tx_beat(tx);
}

static int is_over(void *arg)
{
    struct waiting *w = arg;

    w->result = loco_ack_test(w->tx->s->rt, w->ack);
    if (w->result == LOCO_IN_PROGRESS && w->tx->beats)
        beat_in_time(w->tx);
    return w->result != LOCO_IN_PROGRESS;
}

int loci_tx_wait(struct loco_tx *tx, int status, loco_ack_t *ack)
{
    const struct loci_reason why = {
        .what = "operations in flight", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_FENCE,
    };
    struct waiting w = { tx, ack, LOCO_OK };
    int waited;

    if (ack->thread == NULL)
        return status;
    LOCI_COUNT_SIMPLE(tx->s->rt, waits);
    waited = loci_wait(tx->s->rt, &why, is_over, &w);
    if (waited == LOCO_OK)
        waited = w.result;
    return status != LOCO_OK ? status : waited;
}
