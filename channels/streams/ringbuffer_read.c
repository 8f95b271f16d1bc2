/* SPDX-License-Identifier: BSD-3-Clause */

/* Ring buffers: readers. See ringbuffer.c. */

#include "config.h"

#include "ringbuffer.h"
#include "wait.h"

#define TELLING_ONE 4               /* releases that a thread tells at a time, to one writer */
#define TELLING_ALL (LOCI_SLOTS / 2)    /* and to all */

/* ---- what has come ---- */

/* Which ring this reader reads: the writer's, where it can be mapped. */
static unsigned char *choose_source(struct loco_ringbuffer *rb)
{
    struct loci_mem *theirs = loci_ring_bytes(rb, rb->writer);
    unsigned char *source = loci_mem_ptr(theirs);

    if (source == NULL)
        source = loci_mem_map(rb->rt, theirs);
    if (source == NULL)
        return rb->own;
    /* A dead writer needs not be told. */
    if (loco_sst_set(rb->acks, LOCI_RING_IN_PLACE, 1) == LOCO_OK)
        loco_sst_push(rb->acks, LOCI_RING_IN_PLACE, 1, rb->writer);
    return source;
}

static unsigned char *source_of(struct loco_ringbuffer *rb)
{
    unsigned char *source = atomic_load_explicit(&rb->source, memory_order_acquire);

    if (source != NULL)
        return source;
    pthread_mutex_lock(&rb->reading);
    source = atomic_load_explicit(&rb->source, memory_order_acquire);
    if (source == NULL) {
        source = choose_source(rb);
        atomic_store_explicit(&rb->source, source, memory_order_release);
    }
    pthread_mutex_unlock(&rb->reading);
    return source;
}

/* Acquire: who sees a header sees its batch. Total: who says that it sleeps, then looks here. */
static uint64_t header_at(const struct loco_ringbuffer *rb, const unsigned char *source,
                          uint64_t position)
{
    return loci_load64_total(source + loci_ring_place(rb, position));
}

/* The message at `*position`, which becomes the one behind it, or an error: LOCO_ERR_AGAIN. */
static int message_at(const struct loco_ringbuffer *rb, const unsigned char *source,
                      uint64_t *position, loco_ringbuffer_part_t *message)
{
    uint64_t header = header_at(rb, source, *position), at = *position;
    size_t bytes = (size_t)(header & 0xffffffff);

    if (header == (loci_ring_header(at, 0) | LOCI_RING_PADDING) && loci_ring_place(rb, at) != 0) {
        at += rb->len - loci_ring_place(rb, at);
        header = header_at(rb, source, at);
        bytes = (size_t)(header & 0xffffffff);
    }
    if (!loci_ring_has_come(header))
        return LOCO_ERR_AGAIN;
    if (header != loci_ring_header(at, bytes) || bytes > rb->capacity
        || loci_ring_space(bytes) > rb->len - loci_ring_place(rb, at))
        return LOCO_ERR_PROTOCOL;
    message->data = source + loci_ring_place(rb, at) + LOCI_RING_HEADER;
    message->bytes = bytes;
    *position = at + loci_ring_space(bytes);
    return LOCO_OK;
}

static uint64_t released_of(const struct loco_ringbuffer *rb)
{
    return atomic_load_explicit(&rb->released, memory_order_relaxed);
}

/* The message at `*position`; where there is none, whether there will be. */
static int look(struct loco_ringbuffer *rb, uint64_t *position, loco_ringbuffer_part_t *message)
{
    /* Before the look: what was there when the writer died still counts. */
    bool alive = loci_ring_alive(rb, rb->writer);
    int status;

    if (atomic_load_explicit(&rb->ended, memory_order_relaxed))
        return LOCO_ERR_PEER_DEAD;
    status = message_at(rb, source_of(rb), position, message);
    if (status != LOCO_ERR_AGAIN || alive)
        return status;
    /* What is still on its way comes too late: nobody reads on after this. */
    atomic_store_explicit(&rb->ended, true, memory_order_relaxed);
    return LOCO_ERR_PEER_DEAD;
}

bool loci_ringbuffer_has_news(struct loco_ringbuffer *rb)
{
    bool alive = loci_ring_alive(rb, rb->writer);
    const unsigned char *source = source_of(rb);    /* first, whatever the compiler */
    uint64_t position = released_of(rb);
    loco_ringbuffer_part_t message;

    /* As a look finds it: padding alone is no news, or who waits would look for ever. */
    return message_at(rb, source, &position, &message) != LOCO_ERR_AGAIN || !alive;
}

static int one_has_news(void *arg)
{
    return loci_ringbuffer_has_news(arg);
}

/* Total order with the next look: ringbuffer.c. */
void loci_ringbuffer_announce(struct loco_ringbuffer *rb, int change)
{
    unsigned char *words = loci_mem_ptr(loci_ring_state(rb, rb->rank));

    loci_cpu_fetch_add(words + LOCI_RING_ASLEEP, (uint64_t)(int64_t)change);
}

void loci_ringbuffer_ring_with(struct loco_ringbuffer *rb, uint32_t number)
{
    unsigned char *words = loci_mem_ptr(loci_ring_state(rb, rb->rank));

    loci_cpu_fetch_add(words + LOCI_RING_ASLEEP, (uint64_t)number << 32);
}

static void one_announces(void *arg, int change)
{
    loci_ringbuffer_announce(arg, change);
}

static int wait_for_news(struct loco_ringbuffer *rb, int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = rb->ep->name, .peer = rb->ep->group.peer[rb->writer], .timeout_ns = timeout_ns,
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_RING_MESSAGE,
        .announce = rb->awake ? NULL : one_announces,
    };

    source_of(rb);
    return loci_wait(rb->rt, &why, one_has_news, rb);
}

static int check_reader(const struct loco_ringbuffer *rb)
{
    return rb->rank == rb->writer ? LOCO_ERR_STATE : LOCO_OK;
}

/* ---- telling what is released ---- */

/* All before `position` may be overwritten. The writer is told at once if it waits (PROGRESS, then
 * WANTED: ringbuffer.c), if there is nothing more to read, so that nothing else would tell it, or
 * if it adds up. */
static void set_released(struct loco_ringbuffer *rb, uint64_t position)
{
    struct loci_mem *state = loci_ring_state(rb, rb->rank);
    unsigned char *words = loci_mem_ptr(state);

    /* Release: what was read is read. */
    loci_store64(words + LOCI_RING_PROGRESS, loci_ring_progress(position));
    atomic_store_explicit(&rb->released, position, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (loci_load64(words + LOCI_RING_WANTED) <= rb->told && position - rb->told < rb->len / 4
        && loci_ring_has_come(header_at(rb, source_of(rb), position)))
        return;
    rb->told = position;
    rb->telling = (loco_ack_t)LOCO_ACK_INIT;
    /* A dead writer needs not be told. */
    if (loco_sst_set(rb->acks, LOCI_RING_RELEASED, position) == LOCO_OK)
        loco_sst_push_ack(rb->acks, LOCI_RING_RELEASED, 1, rb->writer, &rb->telling);
}

bool loci_ringbuffer_may_release(struct loco_ringbuffer *rb)
{
    struct loci_thread *self;
    int all = 0, there = 0, peer = rb->ep->group.peer[rb->writer];

    if (rb->rt->ops->synchronous)
        return true;
    self = loci_self(rb->rt);
    if (self == NULL || loco_ack_test(rb->rt, &rb->telling) == LOCO_IN_PROGRESS)
        return false;
    for (int i = 0; i < LOCI_SLOTS; i++) {
        const struct loci_slot *slot = &self->slot[i];

        if (atomic_load_explicit(&slot->seq, memory_order_relaxed) == 0)
            continue;
        all++;
        there += slot->lane->peer->index == peer;
    }
    return there < TELLING_ONE && all < TELLING_ALL;
}

int loco_ringbuffer_release(loco_ringbuffer_t *rb, int n)
{
    uint64_t position = released_of(rb);
    loco_ringbuffer_part_t message;
    int status = check_reader(rb);

    if (status == LOCO_OK && n < 0)
        return LOCO_ERR_ARG;
    for (int i = 0; i < n && status == LOCO_OK; i++) {
        if (position >= rb->shown)
            return LOCO_ERR_STATE;
        status = message_at(rb, source_of(rb), &position, &message);
    }
    if (status == LOCO_OK && n > 0)
        set_released(rb, position);
    return status;
}

/* ---- reading ---- */

int loco_ringbuffer_peek_many(loco_ringbuffer_t *rb, loco_ringbuffer_part_t *messages, int max,
                              int *n)
{
    uint64_t position = released_of(rb);
    int status = check_reader(rb), found = 0;

    if (status == LOCO_OK && max < 1)
        return LOCO_ERR_ARG;
    while (status == LOCO_OK && found < max) {
        status = look(rb, &position, &messages[found]);
        found += status == LOCO_OK;
    }
    if (found == 0)
        return status;
    if (position > rb->shown)
        rb->shown = position;
    *n = found;
    return LOCO_OK;
}

int loco_ringbuffer_peek(loco_ringbuffer_t *rb, const void **message, size_t *bytes)
{
    loco_ringbuffer_part_t one;
    int n, status = loco_ringbuffer_peek_many(rb, &one, 1, &n);

    if (status != LOCO_OK)
        return status;
    *message = one.data;
    *bytes = one.bytes;
    return LOCO_OK;
}

static int next(loco_ringbuffer_t *rb, int64_t timeout_ns, const void **message, size_t *bytes)
{
    int status = loco_ringbuffer_peek(rb, message, bytes);

    if (status != LOCO_ERR_AGAIN)
        return status;
    status = wait_for_news(rb, timeout_ns);
    return status != LOCO_OK ? status : loco_ringbuffer_peek(rb, message, bytes);
}

int loco_ringbuffer_next(loco_ringbuffer_t *rb, int64_t timeout_ns, const void **message,
                         size_t *bytes)
{
    struct loci_thread *self = loci_call_begin(rb->ep->calls, LOCI_CALL_RECEIVE, 0);

    return loci_call_end(self, next(rb, timeout_ns, message, bytes));
}

static int receive_now(struct loco_ringbuffer *rb, void *buffer, size_t size, size_t *bytes)
{
    uint64_t position;
    loco_ringbuffer_part_t message;
    int status;

    source_of(rb);
    pthread_mutex_lock(&rb->reading);
    position = released_of(rb);
    status = look(rb, &position, &message);
    if (status == LOCO_OK && message.bytes > size)
        status = LOCO_ERR_RANGE;
    if (status == LOCO_OK) {
        if (message.bytes > 0)      /* else there need not be any buffer */
            loci_copy_out(buffer, message.data, message.bytes);
        if (bytes != NULL)
            *bytes = message.bytes;
        set_released(rb, position);
    }
    pthread_mutex_unlock(&rb->reading);
    return status;
}

static int receive(loco_ringbuffer_t *rb, int64_t timeout_ns, void *buffer, size_t size,
                   size_t *bytes)
{
    int64_t end = timeout_ns == LOCO_FOREVER ? 0 : loci_now(rb->rt) + timeout_ns, left = timeout_ns;
    int status = check_reader(rb);

    if (status != LOCO_OK)
        return status;
    for (;;) {
        status = receive_now(rb, buffer, size, bytes);
        if (status != LOCO_ERR_AGAIN)
            return status;
        if (timeout_ns != LOCO_FOREVER)
            left = end - loci_now(rb->rt);
        status = wait_for_news(rb, timeout_ns != LOCO_FOREVER && left < 0 ? 0 : left);
        if (status != LOCO_OK)
            return status;
    }
}

int loco_ringbuffer_receive(loco_ringbuffer_t *rb, int64_t timeout_ns, void *buffer, size_t size,
                            size_t *bytes)
{
    struct loci_thread *self = loci_call_begin(rb->ep->calls, LOCI_CALL_RECEIVE, 0);

    return loci_call_end(self, receive(rb, timeout_ns, buffer, size, bytes));
}

/* ---- several ring buffers ---- */

struct any_wait {
    loco_ringbuffer_t *const *rbs;
    int n, first, found;
};

static int any_has_news(void *arg)
{
    struct any_wait *wait = arg;

    for (int i = 0; i < wait->n; i++) {
        int at = (wait->first + i) % wait->n;

        if (loci_ringbuffer_has_news(wait->rbs[at])) {
            wait->found = at;
            return 1;
        }
    }
    return 0;
}

static void all_announce(void *arg, int change)
{
    const struct any_wait *wait = arg;

    for (int i = 0; i < wait->n; i++)
        loci_ringbuffer_announce(wait->rbs[i], change);
}

static int go_on(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

int loco_ringbuffer_wait_any(loco_ringbuffer_t *const *rbs, int n, int64_t timeout_ns, int *which)
{
    struct loci_reason why = {
        .what = "one of several ring buffers", .peer = -1, .broken = go_on,
        .timeout_ns = timeout_ns, .kind = LOCI_WAIT_SYNC, .announce = all_announce,
    };
    struct any_wait wait = { .rbs = rbs, .n = n, .first = *which + 1 };
    int status;

    if (n < 1 || *which < -1 || *which >= n)
        return LOCO_ERR_ARG;
    for (int i = 0; i < n; i++) {
        status = check_reader(rbs[i]);
        if (status != LOCO_OK)
            return status;
        source_of(rbs[i]);
        if (rbs[i]->awake)      /* its writer would not look */
            why.announce = NULL;
    }
    status = loci_wait(rbs[0]->rt, &why, any_has_news, &wait);
    if (status == LOCO_OK)
        *which = wait.found;
    return status;
}
