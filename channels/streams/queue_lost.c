/* SPDX-License-Identifier: BSD-3-Clause */

/* What a dead process left at a queue's slot, told by who waits there: see queue.h. */

#include "config.h"

#include "queue.h"
#include "wait.h"

static bool is_dead(const struct loco_queue *q, uint64_t who)
{
    int rank = loci_queue_who_rank(who);

    return rank >= 0 && rank < (int)q->size
           && !loci_peer_alive(q->rt, q->ep->group.peer[rank]);
}

bool loci_queue_are_others_dead(const struct loco_queue *q)
{
    const struct loco_group *group = &q->ep->group;

    for (int i = 0; i < group->size; i++)
        if (i != group->rank && loci_peer_alive(q->rt, group->peer[i]))
            return false;
    return group->size > 1;
}

/* The ticket of the round that the slot is in. */
static uint64_t ticket_there(const struct loci_queue_turn *turn)
{
    return turn->ticket + (uint64_t)loci_queue_ahead(turn->word, turn->round)
                          * turn->q->capacity;
}

static int give_up_place(struct loci_queue_turn *turn, enum loci_queue_state state)
{
    uint64_t round = turn->word >> LOCI_QUEUE_ROUND_SHIFT;
    bool done;
    int status = loci_queue_swap(turn, loci_queue_word(round, 0, state), &done);

    if (status == LOCO_OK && done)
        LOCI_LOG(turn->q->rt, LOCO_LOG_INFO, "queue %s has a place less: a process is dead",
                 turn->q->ep->name);
    return status;
}

static int pass_over(struct loci_queue_turn *turn)
{
    uint64_t round = turn->word >> LOCI_QUEUE_ROUND_SHIFT;
    bool done;

    return loci_queue_swap(turn, loci_queue_word(round + 1, 0, LOCI_QUEUE_FREE), &done);
}

/* Nobody has drawn the ticket that would bring the slot on. */
static int nobody_comes(struct loci_queue_turn *turn)
{
    int status;

    if (!loci_queue_are_others_dead(turn->q)
        || loci_queue_ahead(turn->word, turn->round) != (turn->push ? -1 : 0))
        return LOCO_OK;
    /* Our ticket must not wait for us: its other half draws again. */
    status = turn->push ? give_up_place(turn, LOCI_QUEUE_FULL_LOST) : pass_over(turn);
    return status != LOCO_OK ? status : LOCO_ERR_PEER_DEAD;
}

static int move_on(struct loci_queue_turn *turn, uint64_t head, uint64_t tail)
{
    uint64_t ticket = ticket_there(turn), who = loci_queue_who(turn->word);

    switch (loci_queue_state(turn->word)) {
    case LOCI_QUEUE_FREE:
        return (tail & LOCI_QUEUE_TICKET) > ticket ? pass_over(turn) : nobody_comes(turn);
    case LOCI_QUEUE_WRITING:
        return is_dead(turn->q, who) ? give_up_place(turn, LOCI_QUEUE_LOST) : LOCO_OK;
    case LOCI_QUEUE_FULL:
        return head > ticket ? give_up_place(turn, LOCI_QUEUE_FULL_LOST) : nobody_comes(turn);
    case LOCI_QUEUE_TAKING:
        return is_dead(turn->q, who) ? pass_over(turn) : LOCO_OK;
    default:
        return LOCO_OK;
    }
}

static bool is_still(struct loci_queue_turn *turn)
{
    int64_t now = loci_now(turn->q->rt);

    if (turn->still_since == 0 || turn->still != turn->word) {
        turn->still_since = now;
        turn->still = turn->word;
    }
    return now - turn->still_since > loci_grace(turn->q->rt);
}

/* The queue is closed, and we were not told where it ends: the closer may be dead. */
static int find_end(struct loco_queue *q, uint64_t tail)
{
    uint64_t closed = (tail & LOCI_QUEUE_TICKET) + 1;
    int status = loci_queue_settle_end(q, &closed);

    if (status == LOCO_OK)
        loci_store64(q->mine + LOCI_QUEUE_CLOSED_AT, closed);
    return status;
}

int loci_queue_check(struct loci_queue_turn *turn)
{
    struct loco_queue *q = turn->q;
    uint64_t word, head, tail;
    int status = loci_queue_alive(q);

    if (status != LOCO_OK)
        return status;
    if (!loci_peer_alive(q->rt, turn->host))
        return LOCI_QUEUE_PASSED;
    status = loci_read64(q->rt, turn->mem, turn->offset, &word, NULL);
    if (status != LOCO_OK)
        return loci_queue_pass_if_dead(status);
    turn->word = word;
    if (!is_still(turn))
        return LOCO_OK;
    status = loco_atomic_var_load(q->head, &head);
    if (status == LOCO_OK)
        status = loco_atomic_var_load(q->tail, &tail);
    if (status == LOCO_OK && !turn->push && tail >= LOCI_QUEUE_CLOSED
        && loci_queue_closed(q) == 0)
        status = find_end(q, tail);
    return status != LOCO_OK ? status : move_on(turn, head, tail);
}
