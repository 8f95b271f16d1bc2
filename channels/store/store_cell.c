/* SPDX-License-Identifier: BSD-3-Clause */

/* Cells that a transaction owns: what their objects are meanwhile, and who decides it.
 *
 *   status of the slot   the object's value now
 *   another seq          the cell has changed: look again
 *   COMMITTED            the new word; whoever finds it so puts it into the cell
 *   ABORTED              the old word, likewise
 *   ACTIVE               the old word, as of the moment at which the status was read
 *   CHECKING             undecided: the transaction may count as done from before now, so its old
 *                        word is not given out; nor is the new one, for it may still fail
 *
 * Whoever has to wait suspects the owner when word, status and heartbeat have stood still for
 * LOCO_TX_PATIENCE by his own clock, or at once when its process is known to be dead, and swaps the
 * status to ABORTED. That is right however alive the owner is: it finds out at its own swap of the
 * status, and begins again. So time decides when somebody helps, never what comes out.
 *
 * Helpers swap cells from the owned word, which is there once in all time, to what the decided
 * status says; of a decided transaction nothing changes any more, so late helpers do nothing wrong.
 * Nobody but its owner takes a cell for a transaction. Where the owner's swap was still on its way
 * when it was undone, the cell becomes owned after that, by a transaction that says ABORTED:
 * whoever meets it gives it back. That is why the status stays as it is until the owner has all its
 * swaps back. */

#include "config.h"

#include "store_cell.h"
#include "store_trace.h"
#include "tx_parts.h"

#define SHORT INT64_C(1000)     /* ns: what is doubled, at least */
#define DOUBLED_MOST 12u        /* times */

struct settling {
    struct loco_store *s;
    loco_object_t object;
    enum loci_settle how;
    struct loci_asker *asker;
    uint64_t word;              /* of the cell, at the last look; plain in the end */
    uint64_t owner_word, owner_status, heartbeat;       /* what has stood still, */
    int64_t since;                                      /* and since when; 0: it has not */
};

static int owner_of(const struct settling *w)
{
    return loci_slot_rank(w->s, loci_cell_slot(w->word));
}

/* The owner is decided: the cell gets what its object is. */
static int help(struct settling *w, uint64_t plain)
{
    uint64_t old;
    int status = loci_cell_swap(w->s, w->object, w->word, plain, &old, NULL);

    if (status != LOCO_OK)
        return status;
    if (old == w->word) {
        loci_store_count(w->s, &w->asker->stats, LOCI_STATS_HELPED);
        loci_store_trace_mark(w->s, "put right", owner_of(w));
    }
    /* Else somebody was faster; it has been that word, now or a moment ago. */
    w->word = plain;
    return 1;
}

/* Where commits take longer than that, all would undo each other for ever: so it doubles for
 * whoever has undone one, until he has committed. */
static int64_t patience(const struct settling *w)
{
    unsigned doubled = w->asker->undone < DOUBLED_MOST ? w->asker->undone : DOUBLED_MOST;
    int64_t first = w->s->rt->tunables.tx_patience;

    if (first == LOCI_INFINITE || doubled == 0)
        return first;
    first = first > SHORT ? first : SHORT;
    return first > INT64_MAX >> doubled ? INT64_MAX : first << doubled;
}

static bool is_suspect(struct settling *w, const struct loci_owner *owner)
{
    int64_t now;

    if (loci_rank_is_dead(w->s, owner_of(w)))
        return true;
    now = loci_now(w->s->rt);
    if (w->since == 0 || w->owner_word != w->word || w->owner_status != owner->status
        || w->heartbeat != owner->heartbeat) {
        w->owner_word = w->word;
        w->owner_status = owner->status;
        w->heartbeat = owner->heartbeat;
        w->since = now;
    }
    return now - w->since >= patience(w);
}

static int undo(struct settling *w, const struct loci_owner *owner)
{
    uint64_t seq = loci_status_seq(owner->status), old;
    int status = loci_log_swap(w->s, loci_cell_slot(w->word), owner->status,
                               loci_status(seq, LOCI_TX_ABORTED), &old, NULL);

    if (status != LOCO_OK)
        return status;
    w->since = 0;
    if (old != owner->status)           /* it went on, or is decided: look again */
        return 0;
    loci_store_count(w->s, &w->asker->stats, LOCI_STATS_SUSPECTED);
    loci_store_trace_mark(w->s, "undone", owner_of(w));
    w->asker->undone += !loci_rank_is_dead(w->s, owner_of(w));
    return help(w, owner->old);
}

/* The word is owned. 1: w->word is the answer; 0: not yet; or an error. */
static int judge(struct settling *w)
{
    struct loci_owner owner;
    int status;

    if (!loci_tx_has(LOCI_TX_LOG))
        return w->how == LOCI_SETTLE_CHECK ? LOCO_ERR_CONFLICT : 0;
    status = loci_log_read_owner(w->s, w->object, w->word, &owner);
    if (status != LOCO_OK)
        return status == LOCO_ERR_AGAIN ? 0 : status;
    if (owner.state == LOCI_TX_COMMITTED || owner.state == LOCI_TX_ABORTED)
        return help(w, owner.state == LOCI_TX_COMMITTED ? owner.new : owner.old);
    if (owner.state == LOCI_TX_ACTIVE && w->how != LOCI_SETTLE_OWN) {
        w->word = owner.old;
        return 1;
    }
    if (is_suspect(w, &owner))
        return undo(w, &owner);
    return w->how == LOCI_SETTLE_CHECK ? LOCO_ERR_CONFLICT : 0;
}

static int is_settled(void *arg)
{
    struct settling *w = arg;
    int status;

    if (loci_host_is_lost(w->s, loci_object_host(w->object)))
        return LOCO_ERR_PEER_DEAD;
    status = loci_cell_load(w->s, w->object, &w->word);
    if (status != LOCO_OK)
        return status;
    return loci_cell_is_owned(w->word) ? judge(w) : 1;
}

int loci_cell_settle(struct loco_store *s, loco_object_t object, enum loci_settle how,
                     struct loci_asker *asker, uint64_t *word)
{
    struct settling w = { .s = s, .object = object, .how = how, .asker = asker, .word = *word };
    int status = judge(&w);

    if (status == 0) {
        const struct loci_reason why = {
            .what = s->ep->name, .at = loci_cell_mem(s, object), .peer = -1,
            .timeout_ns = LOCO_FOREVER, .kind = LOCI_WAIT_TRANSACTION,
            .what_for = LOCI_FOR_TRANSACTION,
        };

        status = loci_wait(s->rt, &why, is_settled, &w);
        if (status == LOCO_OK)
            status = 1;
    }
    if (status < 0)
        return status;
    *word = w.word;
    return LOCO_OK;
}
