/* SPDX-License-Identifier: BSD-3-Clause */

/* Queues: tickets, and the calls. The protocol is told in queue.h. */

#include "config.h"

#include <stdlib.h>

#include "backoff.h"
#include "observe/mistake.h"
#include "queue.h"
#include "wait.h"

/* ---- tickets ---- */

static int draw_for_push(struct loco_queue *q, uint64_t *ticket)
{
    uint64_t tail;
    int status = loco_atomic_var_fetch_add(q->tail, 1, &tail);

    if (status == LOCO_OK && tail >= LOCI_QUEUE_CLOSED)
        return LOCO_ERR_CLOSED;
    *ticket = tail;
    return status;
}

/* On one node a try is two loads and a swap: no pause is as short. */
static void begin_tries(struct loco_queue *q, struct loci_backoff *b)
{
    loci_backoff_begin(b, q->rt, loci_endpoint_mem(q->ep, LOCI_QUEUE_HOST, LOCI_QUEUE_MEMBER));
}

static void back_off(struct loci_backoff *b)
{
    if (loci_mem_word(b->mem) == NULL)
        loci_backoff_pause(b);
}

/* LOCO_ERR_AGAIN: the queue was full when head was read. The tail before: neither goes down, so
 * where there was room there still is. Who was too late knows the tail from the swap. */
static int try_draw_for_push(struct loco_queue *q, uint64_t *ticket)
{
    uint64_t head = 0, tail, old;
    struct loci_backoff b;
    int status = loco_atomic_var_load(q->tail, &tail);

    for (begin_tries(q, &b); status == LOCO_OK; back_off(&b)) {
        if (tail >= LOCI_QUEUE_CLOSED)
            return LOCO_ERR_CLOSED;
        if (tail >= head + q->capacity)
            status = loco_atomic_var_load(q->head, &head);
        if (status == LOCO_OK && tail >= head + q->capacity)
            return LOCO_ERR_AGAIN;
        if (status == LOCO_OK)
            status = loco_atomic_var_compare_swap(q->tail, tail, tail + 1, &old);
        if (status != LOCO_OK)
            break;
        *ticket = tail;
        if (old == tail)
            break;
        tail = old;
    }
    return status;
}

static int draw_for_pop(struct loco_queue *q, uint64_t *ticket)
{
    return loco_atomic_var_fetch_add(q->head, 1, ticket);
}

/* LOCO_ERR_AGAIN: the queue was empty when tail was read. The head before, and as above. */
static int try_draw_for_pop(struct loco_queue *q, uint64_t *ticket)
{
    uint64_t head, tail = 0, old;
    struct loci_backoff b;
    int status = loco_atomic_var_load(q->head, &head);

    for (begin_tries(q, &b); status == LOCO_OK; back_off(&b)) {
        if ((tail & LOCI_QUEUE_TICKET) <= head)
            status = loco_atomic_var_load(q->tail, &tail);
        if (status == LOCO_OK && (tail & LOCI_QUEUE_TICKET) <= head)
            return tail >= LOCI_QUEUE_CLOSED ? LOCO_ERR_CLOSED : LOCO_ERR_AGAIN;
        if (status == LOCO_OK)
            status = loco_atomic_var_compare_swap(q->head, head, head + 1, &old);
        if (status != LOCO_OK)
            break;
        *ticket = head;
        if (old == head)
            break;
        head = old;
    }
    return status;
}

/* ---- with a ticket ---- */

static int write_entry(struct loci_queue_turn *turn, const void *entry, loco_ack_t *ack)
{
    return loci_write(turn->q->rt, turn->mem, turn->offset + LOCI_QUEUE_ENTRY_AT, entry,
                      turn->q->entry_bytes, ack);
}

static int read_entry(struct loci_queue_turn *turn, void *entry, loco_ack_t *ack)
{
    return loci_read(turn->q->rt, turn->mem, turn->offset + LOCI_QUEUE_ENTRY_AT, entry,
                     turn->q->entry_bytes, ack);
}

/* It is done, with that status: that a place is lost with its entry is no error. */
static int end_turn(struct loci_queue_turn *turn, int status)
{
    int woken = loci_queue_woken(turn);

    return status < 0 && status != LOCO_ERR_PEER_DEAD ? status : woken;
}

static int put_in(struct loci_queue_turn *turn, void *entry, loco_ack_t *ack)
{
    loco_ack_t own = LOCO_ACK_INIT, *to = ack != NULL ? ack : &own;
    int status = loci_queue_claim(turn);

    if (status == LOCO_OK)
        /* Nobody has seen it yet. */
        status = loci_queue_pass_if_dead(write_entry(turn, entry, to));
    if (status != LOCO_OK)
        return status;
    /* From here on it is in the queue: if its place is lost, so is the entry. */
    status = loci_queue_publish(turn, to);
    if (status >= 0 && ack == NULL)
        status = loco_ack_wait(turn->q->rt, &own);
    return end_turn(turn, status);
}

static int take_out(struct loci_queue_turn *turn, void *entry, loco_ack_t *ack)
{
    loco_ack_t later = LOCO_ACK_INIT;
    int status = loci_queue_claim(turn);

    if (status == LOCO_OK)
        status = loci_queue_pass_if_dead(read_entry(turn, entry, ack));
    if (status != LOCO_OK)
        return status;
    status = loci_queue_release(turn, ack != NULL ? ack : &later);
    return end_turn(turn, status);
}

/* ---- calls ---- */

/* Whether there is a place that is not lost. */
static int look_for_place(struct loco_queue *q)
{
    struct loci_queue_turn turn;

    for (uint64_t slot = 0; slot < q->capacity; slot++) {
        int status;

        loci_queue_turn_begin(&turn, q, false, slot);
        if (!loci_peer_alive(q->rt, turn.host))
            continue;
        status = loci_read64(q->rt, turn.mem, turn.offset, &turn.word, NULL);
        if (status == LOCO_OK && loci_queue_state(turn.word) < LOCI_QUEUE_LOST)
            return LOCO_OK;
        if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD)
            return status;
    }
    return LOCO_ERR_PEER_DEAD;
}

typedef int draw_fn(struct loco_queue *q, uint64_t *ticket);
typedef int use_fn(struct loci_queue_turn *turn, void *entry, loco_ack_t *ack);

/* Draw tickets until one of them is good for something. */
static int call(struct loco_queue *q, bool push, draw_fn *draw, use_fn *use, void *entry,
                loco_ack_t *ack)
{
    struct loci_queue_turn turn;
    uint64_t ticket, passed = 0;
    int status = loci_queue_alive(q), lost = LOCO_OK;

    while (status == LOCO_OK) {
        status = draw(q, &ticket);
        if (status == LOCO_ERR_RANGE) {
            lost = loci_queue_be_told(q);
            status = draw(q, &ticket);
        }
        if (status != LOCO_OK)
            break;
        loci_queue_turn_begin(&turn, q, push, ticket);
        status = use(&turn, entry, ack);
        lost = turn.lost != LOCO_OK ? turn.lost : lost;
        if (status != LOCI_QUEUE_PASSED)
            break;
        passed++;
        status = loci_queue_alive(q);
        if (status == LOCO_OK && passed % (2 * q->capacity) == 0)
            status = look_for_place(q);
    }
    return status == LOCO_OK ? lost : status;
}

static int before_push(struct loco_queue *q)
{
    int status = LOCO_OK;

    if (loci_queue_closed(q) != 0)
        return LOCO_ERR_CLOSED;
    if ((q->flags & LOCO_QUEUE_FENCE) != 0)
        status = loci_fence_peer(q->rt, LOCO_FENCE_THREAD, -1);
    /* What was written to the dead nobody sees. */
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

static int push(struct loco_queue *q, draw_fn *draw, const void *entry, loco_ack_t *ack)
{
    int status = before_push(q);

    return status == LOCO_OK ? call(q, true, draw, put_in, (void *)entry, ack) : status;
}

int loco_queue_push(loco_queue_t *q, const void *entry)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_PUSH, q->entry_bytes);

    return loci_call_end(self, push(q, draw_for_push, entry, NULL));
}

int loco_queue_try_push(loco_queue_t *q, const void *entry)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_PUSH, q->entry_bytes);

    return loci_call_end(self, push(q, try_draw_for_push, entry, NULL));
}

int loco_queue_push_ack(loco_queue_t *q, const void *entry, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_PUSH, q->entry_bytes);

    return loci_call_end(self, push(q, draw_for_push, entry, ack));
}

int loco_queue_pop(loco_queue_t *q, void *entry)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_POP, q->entry_bytes);

    return loci_call_end(self, call(q, false, draw_for_pop, take_out, entry, NULL));
}

int loco_queue_try_pop(loco_queue_t *q, void *entry)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_POP, q->entry_bytes);

    return loci_call_end(self, call(q, false, try_draw_for_pop, take_out, entry, NULL));
}

int loco_queue_pop_ack(loco_queue_t *q, void *entry, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_POP, q->entry_bytes);

    return loci_call_end(self, call(q, false, draw_for_pop, take_out, entry, ack));
}

/* ---- with a limit of time ---- */

#define FIRST_TRY_AFTER INT64_C(1000)       /* ns between tries, which double */
#define LAST_TRY_AFTER INT64_C(500000)

/* A call with a limit draws no ticket before it is good for something at once: a ticket that nobody
 * comes for would cost its other half a draw, and an empty queue that is asked over and over would
 * gather them. So it tries at intervals, and what is in it when the time is over stays there. */
struct timed_call {
    struct loco_queue *q;
    bool push;
    void *entry;
    int64_t next_try, interval;
};

static int try_again(void *arg)
{
    struct timed_call *c = arg;
    int64_t now = loci_now(c->q->rt);
    int status;

    if (now < c->next_try)
        return 0;
    status = c->push ? call(c->q, true, try_draw_for_push, put_in, c->entry, NULL)
                     : call(c->q, false, try_draw_for_pop, take_out, c->entry, NULL);
    if (status != LOCO_ERR_AGAIN)
        return status == LOCO_OK ? 1 : status;
    c->interval = 2 * c->interval < LAST_TRY_AFTER ? 2 * c->interval : LAST_TRY_AFTER;
    c->next_try = loci_now(c->q->rt) + c->interval;
    return 0;
}

/* Who waits needs one of the others: its own process might bring it on, too, but as with calls
 * without limit that is not waited for. */
static int somebody_may_come(void *arg)
{
    const struct timed_call *c = arg;

    return loci_queue_are_others_dead(c->q) ? LOCO_ERR_PEER_DEAD : LOCO_OK;
}

static int call_timed(struct loco_queue *q, bool push, void *entry, int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = q->ep->name, .peer = -1, .broken = somebody_may_come, .timeout_ns = timeout_ns,
        .kind = LOCI_WAIT_OTHER, .what_for = push ? LOCI_FOR_QUEUE_PLACE : LOCI_FOR_QUEUE_ENTRY,
    };
    struct timed_call c = { q, push, entry, 0, FIRST_TRY_AFTER / 2 };
    const char *name = push ? "loco_queue_push_timed" : "loco_queue_pop_timed";
    int status = loci_check_timeout(q->rt, name, q->ep->name, timeout_ns);

    return status == LOCO_OK ? loci_wait(q->rt, &why, try_again, &c) : status;
}

static int push_timed(loco_queue_t *q, const void *entry, int64_t timeout_ns)
{
    int status;

    if (timeout_ns == LOCO_FOREVER)
        return loco_queue_push(q, entry);
    status = before_push(q);
    return status == LOCO_OK ? call_timed(q, true, (void *)entry, timeout_ns) : status;
}

int loco_queue_push_timed(loco_queue_t *q, const void *entry, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_PUSH, q->entry_bytes);

    return loci_call_end(self, push_timed(q, entry, timeout_ns));
}

static int pop_timed(loco_queue_t *q, void *entry, int64_t timeout_ns)
{
    return timeout_ns == LOCO_FOREVER ? loco_queue_pop(q, entry)
                                      : call_timed(q, false, entry, timeout_ns);
}

int loco_queue_pop_timed(loco_queue_t *q, void *entry, int64_t timeout_ns)
{
    struct loci_thread *self = loci_call_begin(q->ep->calls, LOCI_CALL_POP, q->entry_bytes);

    return loci_call_end(self, pop_timed(q, entry, timeout_ns));
}

int loco_queue_size(loco_queue_t *q, uint64_t *entries)
{
    uint64_t head, tail, closed;
    int status = loci_queue_alive(q);

    if (status == LOCO_OK)
        status = loco_atomic_var_load(q->head, &head);
    if (status == LOCO_OK)
        status = loco_atomic_var_load(q->tail, &tail);
    if (status != LOCO_OK)
        return status;
    tail &= LOCI_QUEUE_TICKET;
    closed = loci_queue_closed(q);
    if (closed != 0 && tail > closed - 1)
        tail = closed - 1;
    *entries = tail <= head ? 0 : tail - head < q->capacity ? tail - head : q->capacity;
    return LOCO_OK;
}

/* ---- closing ---- */

int loci_queue_settle_end(struct loco_queue *q, uint64_t *closed)
{
    struct loci_mem *host = loci_endpoint_mem(q->ep, LOCI_QUEUE_HOST, LOCI_QUEUE_MEMBER);
    uint64_t old;
    int status = loci_compare_swap(q->rt, host, LOCI_QUEUE_END_AT, 0, *closed, &old, NULL);

    if (status == LOCO_OK && old != 0)
        *closed = old;
    return status;
}

static int announce_end(struct loco_queue *q, uint64_t closed)
{
    int status = loci_queue_settle_end(q, &closed);

    for (int i = 0; status == LOCO_OK && i < (int)q->size; i++) {
        loco_ack_t ack = LOCO_ACK_INIT;

        status = loci_write64_signalled(q->rt, loci_endpoint_mem(q->ep, i, LOCI_QUEUE_MEMBER),
                                        LOCI_QUEUE_CLOSED_AT, closed, &ack, LOCI_BELL_QUEUE);
        if (status == LOCO_ERR_PEER_DEAD)
            status = LOCO_OK;
    }
    if (status == LOCO_OK)
        status = loci_fence_peer(q->rt, LOCO_FENCE_THREAD, -1);
    return status == LOCO_ERR_PEER_DEAD ? loci_queue_alive(q) : status;
}

static int close_once(struct loco_queue *q)
{
    uint64_t tail;
    int status = loci_queue_alive(q), lost = LOCO_OK;

    if (status == LOCO_OK)
        status = loco_atomic_var_fetch_add(q->tail, LOCI_QUEUE_CLOSED, &tail);
    if (status == LOCO_ERR_RANGE) {
        lost = loci_queue_be_told(q);
        status = loco_atomic_var_fetch_add(q->tail, LOCI_QUEUE_CLOSED, &tail);
    }
    if (status != LOCO_OK)
        return status;
    q->closed_here = true;      /* at most once for each process: the count has 16 bits */
    if (tail >= LOCI_QUEUE_CLOSED)
        return lost;
    status = announce_end(q, tail + 1);
    if (status == LOCO_ERR_RANGE) {     /* all that it does may be done twice */
        lost = loci_queue_be_told(q);
        status = announce_end(q, tail + 1);
    }
    return status != LOCO_OK ? status : lost;
}

int loco_queue_close(loco_queue_t *q)
{
    int status;

    pthread_mutex_lock(&q->closing);
    status = q->closed_here ? LOCO_OK : close_once(q);
    pthread_mutex_unlock(&q->closing);
    return status;
}

/* ---- life ---- */

static int power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0 ? __builtin_ctzll(n) : -1;
}

static int make_counters(struct loco_queue *q, const loco_group_t *group)
{
    int status = loco_atomic_var_create(q->rt, q->ep->name, "head", group, LOCI_QUEUE_HOST,
                                        &q->head);

    return status != LOCO_OK ? status
           : loco_atomic_var_create(q->rt, q->ep->name, "tail", group, LOCI_QUEUE_HOST, &q->tail);
}

static void destroy_forgotten(void *q)
{
    loco_queue_destroy(q);
}

static int make_slots(struct loco_queue *q, const char *parent, const char *name,
                      const loco_group_t *group)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "queue", .nregions = 2,
        .property = { { "entry_bytes", q->entry_bytes }, { "capacity", q->capacity },
                      { "flags", (uint64_t)q->flags } },
        .region = {
            [LOCI_QUEUE_SLOTS] = { "slots", (q->capacity + q->size - 1) / q->size * q->stride, 0,
                                   LOCI_FROM_ALL },
            [LOCI_QUEUE_MEMBER] = { "member",
                                    LOCI_QUEUE_WAKE_AT + LOCI_QUEUE_WAKES * LOCI_CACHE_LINE, 0,
                                    LOCI_FROM_ALL },
        },
    };
    int status = loci_endpoint_create(q->rt, &spec, &q->ep);

    if (status != LOCO_OK)
        return status;
    loci_endpoint_is_of(q->ep, destroy_forgotten, q);
    q->mine = loci_mem_ptr(loci_endpoint_mem(q->ep, q->ep->group.rank, LOCI_QUEUE_MEMBER));
    q->name = ((uint64_t)q->ep->group.rank + 1) << 8;
    return LOCO_OK;
}

static size_t stride_for(size_t entry_bytes)
{
    return (LOCI_QUEUE_ENTRY_AT + entry_bytes + LOCI_CACHE_LINE - 1) / LOCI_CACHE_LINE
           * LOCI_CACHE_LINE;
}

static int check_arguments(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                           size_t entry_bytes, uint64_t capacity, int flags)
{
    const char *call = "loco_queue_create";
    int status = loci_check_group(rt, call, name, group);
    size_t most;

    if (status == LOCO_OK && group->size > LOCI_QUEUE_MEMBERS_MAX)
        status = loci_bad_arg(rt, call, name, "the size of the group", group->size, "1 to %d",
                              LOCI_QUEUE_MEMBERS_MAX);
    if (status == LOCO_OK && (entry_bytes < 1 || entry_bytes > SIZE_MAX / 4))
        status = loci_bad_arg(rt, call, name, "entry_bytes", (long long)entry_bytes, "1 to %zu",
                              SIZE_MAX / 4);
    if (status == LOCO_OK && (flags & ~LOCO_QUEUE_FENCE) != 0)
        status = loci_bad_arg(rt, call, name, "flags", flags, "0 or LOCO_QUEUE_FENCE");
    if (status != LOCO_OK)
        return status;
    most = SIZE_MAX / 4 / stride_for(entry_bytes);
    return capacity >= 1 && capacity <= most ? LOCO_OK
           : loci_bad_arg(rt, call, name, "capacity", (long long)capacity, "1 to %zu", most);
}

int loco_queue_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, size_t entry_bytes, uint64_t capacity, int flags,
                      loco_queue_t **out)
{
    struct loco_queue *q;
    int status;

    status = check_arguments(rt, name, group, entry_bytes, capacity, flags);
    if (status != LOCO_OK)
        return status;
    q = calloc(1, sizeof *q);
    if (q == NULL)
        return LOCO_ERR_NO_MEMORY;
    q->rt = rt;
    q->entry_bytes = entry_bytes;
    q->stride = stride_for(entry_bytes);
    q->capacity = capacity;
    q->size = (uint64_t)loco_group_size(group);
    q->capacity_shift = power_of_two(capacity);
    q->size_shift = power_of_two(q->size);
    q->flags = flags;
    pthread_mutex_init(&q->closing, NULL);
    status = make_slots(q, parent, name, group);
    if (status == LOCO_OK)
        status = make_counters(q, group);
    if (status != LOCO_OK) {
        loco_queue_destroy(q);
        return status;
    }
    *out = q;
    return LOCO_OK;
}

void loco_queue_destroy(loco_queue_t *q)
{
    if (q == NULL)
        return;
    loco_atomic_var_destroy(q->tail);
    loco_atomic_var_destroy(q->head);
    if (q->ep != NULL)
        loci_endpoint_destroy(q->ep);
    pthread_mutex_destroy(&q->closing);
    free(q);
}
