/* SPDX-License-Identifier: BSD-3-Clause */

/* One place of a queue's ring, from the ticket to the entry: see queue.h for the states. */

#include "config.h"

#include "queue.h"
#include "wait.h"

#define FIRST_DELAY INT64_C(1000)       /* ns between looks at a slot that is not mapped... */
#define LONGEST_DELAY INT64_C(500000)   /* ...and at most */
#define CHECK_EVERY INT64_C(100000000)  /* ns between looks for what the dead left */

/* ---- wake words of this process ---- */

static int take_wake(struct loco_queue *q)
{
    uint64_t used = atomic_load_explicit(&q->wakes, memory_order_relaxed);

    while (used != UINT64_MAX) {
        int i = __builtin_ctzll(~used);

        /* Acquire: pairs with the release in give_wake(), so that the word is ours alone. */
        if (atomic_compare_exchange_weak_explicit(&q->wakes, &used, used | UINT64_C(1) << i,
                                                  memory_order_acquire, memory_order_relaxed))
            return i;
    }
    return -1;
}

static void give_wake(struct loco_queue *q, int i)
{
    atomic_fetch_and_explicit(&q->wakes, ~(UINT64_C(1) << i), memory_order_release);
}

static uint64_t wake_offset(int i)
{
    return LOCI_QUEUE_WAKE_AT + (uint64_t)i * LOCI_CACHE_LINE;
}

static int write_wake(struct loci_queue_turn *turn, loco_ack_t *ack)
{
    struct loco_queue *q = turn->q;
    uint64_t waits_with = turn->push ? turn->ticket : turn->ticket + q->capacity;
    int rank = loci_queue_who_rank(turn->woken), i = (int)(turn->woken & 0xff) - 1;

    return loci_write64(q->rt, loci_endpoint_mem(q->ep, rank, LOCI_QUEUE_MEMBER), wake_offset(i),
                        waits_with + 1, ack);
}

/* Tell the waiter whose name was in the slot that this call has come. The slot is ours by now, so
 * this fails no call: loci_queue_woken() sees to it that the waiter is told. */
static void wake(struct loci_queue_turn *turn, uint64_t who)
{
    int rank = loci_queue_who_rank(who), i = (int)(who & 0xff) - 1;

    if (i < 0 || i >= LOCI_QUEUE_WAKES || rank < 0 || rank >= (int)turn->q->size)
        return;
    turn->woken = who;
    turn->wake_ack = (loco_ack_t)LOCO_ACK_INIT;
    turn->wake_status = write_wake(turn, &turn->wake_ack);
}

int loci_queue_woken(struct loci_queue_turn *turn)
{
    struct loco_runtime *rt = turn->q->rt;
    int status = turn->wake_status;

    if (turn->woken == 0)
        return LOCO_OK;
    if (status >= 0)
        status = loco_ack_wait(rt, &turn->wake_ack);
    if (status == LOCO_ERR_RANGE) {
        turn->lost = loci_queue_be_told(turn->q);
        status = write_wake(turn, NULL);
    }
    turn->woken = 0;
    /* That it died while it waited is no business of ours. */
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* ---- the slot ---- */

static uint64_t divide(uint64_t a, uint64_t by, int shift, uint64_t *rest)
{
    uint64_t whole = shift >= 0 ? a >> shift : a / by;

    *rest = a - whole * by;
    return whole;
}

void loci_queue_turn_begin(struct loci_queue_turn *turn, struct loco_queue *q, bool push,
                           uint64_t ticket)
{
    uint64_t slot, rank, row;

    turn->q = q;
    turn->push = push;
    turn->ticket = ticket;
    turn->round = divide(ticket, q->capacity, q->capacity_shift, &slot);
    row = divide(slot, q->size, q->size_shift, &rank);
    turn->mem = loci_endpoint_mem(q->ep, (int)rank, LOCI_QUEUE_SLOTS);
    turn->offset = row * q->stride;
    turn->host = q->ep->group.peer[rank];
    turn->wake = -1;
    turn->registered = turn->passed = false;
    turn->lost = LOCO_OK;
    turn->woken = 0;
    turn->named = -1;
    turn->delay = FIRST_DELAY;
    turn->next_look = turn->next_check = turn->still_since = 0;
}

static bool is_host_dead(const struct loci_queue_turn *turn)
{
    const struct loco_runtime *rt = turn->q->rt;

    return atomic_load_explicit(&rt->deaths, memory_order_relaxed) != 0
           && !loci_peer_alive(rt, turn->host);
}

int loci_queue_swap(struct loci_queue_turn *turn, uint64_t desired, bool *done)
{
    uint64_t old;
    int status = loci_compare_swap(turn->q->rt, turn->mem, turn->offset, turn->word, desired,
                                   &old, NULL);

    if (status != LOCO_OK)
        return loci_queue_pass_if_dead(status);
    *done = old == turn->word;
    turn->word = *done ? desired : old;
    return LOCO_OK;
}

enum verdict { TAKE, WAIT, PASS, ASTRAY };

static enum verdict judge(const struct loci_queue_turn *turn)
{
    enum loci_queue_state state = loci_queue_state(turn->word);
    int64_t ahead = loci_queue_ahead(turn->word, turn->round);

    if (state > LOCI_QUEUE_FULL_LOST)
        return ASTRAY;
    if (state == LOCI_QUEUE_FULL_LOST)
        return ahead == 0 && !turn->push ? TAKE : PASS;
    if (state == LOCI_QUEUE_LOST || ahead > 0)
        return PASS;
    return ahead == 0 && state == (turn->push ? LOCI_QUEUE_FREE : LOCI_QUEUE_FULL) ? TAKE : WAIT;
}

/* An entry for the dead would be lost: this ticket is not for us, either. */
static bool is_for_the_dead(const struct loci_queue_turn *turn)
{
    const struct loco_queue *q = turn->q;
    int rank = loci_queue_who_rank(loci_queue_who(turn->word));

    return turn->push && rank >= 0 && rank < (int)q->size
           && atomic_load_explicit(&q->rt->deaths, memory_order_relaxed) != 0
           && !loci_peer_alive(q->rt, q->ep->group.peer[rank]);
}

static uint64_t taken_word(const struct loci_queue_turn *turn)
{
    if (turn->push)
        return loci_queue_word(turn->round, turn->q->name, LOCI_QUEUE_WRITING);
    return loci_queue_word(turn->round, turn->q->name, LOCI_QUEUE_TAKING);
}

/* The place was given up, but we come, if late: it goes on with a round of which nobody has drawn
 * a ticket yet. (Should one be drawn and passed over before we swap, its other half waits for
 * loci_grace().) */
static int take_up_again(struct loci_queue_turn *turn)
{
    uint64_t head, tail;
    int status = loco_atomic_var_load(turn->q->head, &head);

    if (status == LOCO_OK)
        status = loco_atomic_var_load(turn->q->tail, &tail);
    if (status != LOCO_OK)
        return status;
    tail &= LOCI_QUEUE_TICKET;
    turn->round = (head > tail ? head : tail) / turn->q->capacity + 1;
    return LOCO_OK;
}

static int take(struct loci_queue_turn *turn, bool *done)
{
    uint64_t who = loci_queue_who(turn->word);
    int status = LOCO_OK;

    if (is_for_the_dead(turn)) {
        status = loci_queue_swap(turn, loci_queue_word(turn->round + 1, 0, LOCI_QUEUE_FREE),
                                 done);
        *done = false;
        return status;
    }
    if (loci_queue_state(turn->word) == LOCI_QUEUE_FULL_LOST)
        status = take_up_again(turn);
    if (status == LOCO_OK)
        status = loci_queue_swap(turn, taken_word(turn), done);
    if (status == LOCO_OK && *done && who != 0) {
        turn->named = loci_queue_who_rank(who);
        wake(turn, who);
    }
    return status;
}

/* ---- waiting ---- */

/* Our name into the slot, so that who comes next finds it; with a wake word where we cannot see
 * the slot. A push is not named where it sees it: nobody would ask. */
static int register_wait(struct loci_queue_turn *turn, bool mapped)
{
    struct loco_queue *q = turn->q;
    bool done;
    int status;

    if (loci_queue_who(turn->word) != 0 || (turn->push && mapped)
        || loci_queue_state(turn->word) != (turn->push ? LOCI_QUEUE_FULL : LOCI_QUEUE_FREE)
        || loci_queue_ahead(turn->word, turn->round) != (turn->push ? -1 : 0))
        return LOCO_OK;
    if (!mapped && turn->wake < 0) {
        turn->wake = take_wake(q);
        /* Before the swap after which the waker may write it. */
        if (turn->wake >= 0)
            loci_store64(q->mine + wake_offset(turn->wake), 0);
    }
    status = loci_queue_swap(turn, turn->word | (q->name + (uint64_t)(turn->wake + 1))
                                                << LOCI_QUEUE_WHO_SHIFT, &done);
    if (status == LOCO_OK && done)
        turn->registered = turn->wake >= 0;
    return status;
}

/* Look at a slot that is not mapped: 1 if it has changed. */
static int look(struct loci_queue_turn *turn)
{
    uint64_t word;
    int status = loci_read64(turn->q->rt, turn->mem, turn->offset, &word, NULL);

    if (status == LOCO_ERR_PEER_DEAD) {
        turn->passed = true;
        return 1;
    }
    if (status != LOCO_OK)
        return status;
    if (word == turn->word)
        return 0;
    turn->word = word;
    return 1;
}

static int look_now_and_then(struct loci_queue_turn *turn)
{
    int64_t now = loci_now(turn->q->rt);

    if (turn->next_look == 0)
        turn->next_look = now + turn->delay;
    if (now < turn->next_look)
        return 0;
    turn->delay = 2 * turn->delay < LONGEST_DELAY ? 2 * turn->delay : LONGEST_DELAY;
    turn->next_look = 0;
    return look(turn);
}

static int check_now_and_then(struct loci_queue_turn *turn)
{
    int64_t now = loci_now(turn->q->rt);
    uint64_t before = turn->word;
    int status;

    if (now < turn->next_check)
        return 0;
    turn->next_check = now + CHECK_EVERY;
    status = loci_queue_check(turn);
    turn->passed = turn->passed || status == LOCI_QUEUE_PASSED;
    return status != LOCO_OK ? status : turn->word != before;
}

/* What loci_wait asks: 1 when the slot's word has changed, or was passed over. */
static int has_changed(void *arg)
{
    struct loci_queue_turn *turn = arg;
    struct loco_queue *q = turn->q;
    const unsigned char *slot = loci_mem_ptr(turn->mem);
    /* Before the word: what was done before a death counts. */
    unsigned deaths = atomic_load_explicit(&q->rt->deaths, memory_order_acquire);
    int status = 0;

    if (slot != NULL) {
        uint64_t word = loci_load64(slot + turn->offset);

        status = word != turn->word;
        turn->word = word;
    } else if (!turn->registered) {
        status = look_now_and_then(turn);
    } else if (loci_load64(q->mine + wake_offset(turn->wake)) == turn->ticket + 1) {
        turn->registered = false;
        turn->delay = FIRST_DELAY;
        status = look(turn);
    }
    if (status == 0 && !turn->push && loci_queue_is_behind_end(q, turn->ticket))
        status = LOCO_ERR_CLOSED;
    return status == 0 && deaths != 0 ? check_now_and_then(turn) : status;
}

/* The word has our name, and keeps it until the other half of this ticket takes the slot: which
 * signals us when it has done with it. */
static bool is_named(const struct loci_queue_turn *turn)
{
    return !turn->push && loci_queue_state(turn->word) == LOCI_QUEUE_FREE
           && loci_queue_ahead(turn->word, turn->round) == 0
           && loci_queue_who_rank(loci_queue_who(turn->word)) == turn->q->ep->group.rank;
}

static int wait_for_change(struct loci_queue_turn *turn)
{
    bool mapped = loci_mem_ptr(turn->mem) != NULL;
    struct loci_reason why = {
        .what = turn->q->ep->name, .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_OTHER, .bell = mapped ? LOCI_BELL_QUEUE : LOCI_BELL_ANY,
        .what_for = turn->push ? LOCI_FOR_QUEUE_PLACE : LOCI_FOR_QUEUE_ENTRY,
    };
    int status = register_wait(turn, mapped);

    if (status != LOCO_OK || judge(turn) != WAIT)
        return status;
    if (mapped && !is_named(turn))
        why.watched = turn->mem;
    status = loci_wait(turn->q->rt, &why, has_changed, turn);
    return status == LOCO_OK && turn->passed ? LOCI_QUEUE_PASSED : status;
}

/* A wake word of which somebody may still know is never used again. */
static void end_wait(struct loci_queue_turn *turn)
{
    bool gone = !turn->registered;

    if (turn->wake < 0)
        return;
    if (!gone && loci_queue_who(turn->word) == turn->q->name + (uint64_t)(turn->wake + 1)
        && loci_queue_swap(turn, loci_queue_without_who(turn->word), &gone) != LOCO_OK)
        gone = false;
    if (gone)
        give_wake(turn->q, turn->wake);
}

/* ---- calls ---- */

/* The word as it is where that costs nothing; else as it is when nobody has to wait: the swap
 * then finds out. */
static uint64_t first_guess(const struct loci_queue_turn *turn)
{
    const unsigned char *slot = loci_mem_ptr(turn->mem);

    if (slot != NULL)
        return loci_load64(slot + turn->offset);
    return loci_queue_word(turn->round, 0, turn->push ? LOCI_QUEUE_FREE : LOCI_QUEUE_FULL);
}

/* That this ticket is not for us. A word that was read over a network that copies byte by byte may
 * be a mixture (ringbuffer.c, of torn words), with an older low byte below a newer round, and seem
 * to be far ahead. The other verdicts find that out, TAKE by its swap, WAIT when it looks again;
 * this one, which is the last word on a ticket, by a swap for itself. */
static int pass(struct loci_queue_turn *turn)
{
    bool same;
    int status = loci_queue_swap(turn, turn->word, &same);

    return status == LOCO_OK && same ? LOCI_QUEUE_PASSED : status;
}

/* No state that anybody writes; unless it is a mixture, as above. */
static int astray(struct loci_queue_turn *turn)
{
    bool same;
    int status = loci_queue_swap(turn, turn->word, &same);

    if (status != LOCO_OK || !same)
        return status;
    LOCI_LOG(turn->q->rt, LOCO_LOG_ERROR, "queue %s: the place of ticket %llu has the word "
             "%016llx, which no member writes: memory was written astray", turn->q->ep->name,
             (unsigned long long)turn->ticket, (unsigned long long)turn->word);
    return LOCO_ERR_PROTOCOL;
}

static int claim(struct loci_queue_turn *turn)
{
    bool done = false;
    int status = LOCO_OK;

    if (is_host_dead(turn))
        return LOCI_QUEUE_PASSED;
    if (!turn->push && loci_queue_is_behind_end(turn->q, turn->ticket))
        return LOCO_ERR_CLOSED;
    turn->word = first_guess(turn);
    while (status == LOCO_OK && !done) {
        switch (judge(turn)) {
        case TAKE: status = take(turn, &done); break;
        case WAIT: status = wait_for_change(turn); break;
        case PASS: status = pass(turn); break;
        case ASTRAY: status = astray(turn); break;
        }
    }
    end_wait(turn);
    return status;
}

/* What is refused was posted before the claim, for its own memory is there; and what the lane does
 * after the swap that claims comes behind no refusal any more. So claiming alone is done again. */
int loci_queue_claim(struct loci_queue_turn *turn)
{
    int status = claim(turn);

    if (status != LOCO_ERR_RANGE)
        return status;
    loci_queue_turn_begin(turn, turn->q, turn->push, turn->ticket);
    turn->lost = loci_queue_be_told(turn->q);
    return claim(turn);
}

/* Whom the change may let go on: the one whose name the slot had, and those who wait there without
 * one, as pushes do, and pops of a later round. */
static void wake_sleepers(const struct loci_queue_turn *turn)
{
    const struct loco_queue *q = turn->q;

    if (turn->named >= 0 && turn->named < (int)q->size)
        loci_signal(q->rt, q->ep->group.peer[turn->named], LOCI_BELL_QUEUE);
    loci_signal_watchers(q->rt, turn->host, &q->ep->group, LOCI_BELL_QUEUE);
}

/* From a state that is this turn's alone to the next. Nobody else changes the word meanwhile, so
 * where the CPU's atomics are used a store will do (rma.h). */
static int give_on(struct loci_queue_turn *turn, uint64_t desired, loco_ack_t *ack)
{
    struct loco_runtime *rt = turn->q->rt;
    unsigned char *slot = loci_mem_word(turn->mem);
    int status = LOCO_OK;

    if (slot != NULL)
        loci_store64_signalled(rt, slot + turn->offset, desired);
    else
        status = loci_post_swap_unwaited(rt, turn->mem, turn->offset, turn->word, desired, ack);
    wake_sleepers(turn);
    return status;
}

int loci_queue_publish(struct loci_queue_turn *turn, loco_ack_t *ack)
{
    return give_on(turn, loci_queue_word(turn->round, 0, LOCI_QUEUE_FULL), ack);
}

int loci_queue_release(struct loci_queue_turn *turn, loco_ack_t *ack)
{
    return give_on(turn, loci_queue_word(turn->round + 1, 0, LOCI_QUEUE_FREE), ack);
}
