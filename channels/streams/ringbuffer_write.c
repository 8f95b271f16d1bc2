/* SPDX-License-Identifier: BSD-3-Clause */

/* Ring buffers: the writer. See ringbuffer.c. */

#include "config.h"

#include "ringbuffer.h"

/* ---- what readers have released ---- */

static uint64_t known_of(const struct loco_ringbuffer *rb, int rank)
{
    return atomic_load_explicit(&rb->reader[rank].known, memory_order_acquire);
}

static void learn(struct loco_ringbuffer *rb, int rank, uint64_t position)
{
    uint64_t old = known_of(rb, rank);

    while (old < position
           && !atomic_compare_exchange_weak_explicit(&rb->reader[rank].known, &old, position,
                                                     memory_order_acq_rel, memory_order_acquire))
        ;
}

/* The reader's row is looked at only while it matters. */
static bool has_released(struct loco_ringbuffer *rb, int rank, uint64_t position)
{
    uint64_t now = 0;

    if (known_of(rb, rank) >= position)
        return true;
    loco_sst_get(rb->acks, rank, LOCI_RING_RELEASED, &now);
    learn(rb, rank, now);
    return now >= position;
}

struct release_wait {
    struct loco_ringbuffer *rb;
    uint64_t position;
    int rank;                   /* those before it have released it, or are dead */
};

static int all_have_released(void *arg)
{
    struct release_wait *wait = arg;
    struct loco_ringbuffer *rb = wait->rb;

    for (; wait->rank < rb->size; wait->rank++)
        if (wait->rank != rb->writer && loci_ring_alive(rb, wait->rank)
            && !has_released(rb, wait->rank, wait->position))
            return 0;
    return 1;
}

/* Readers die while others wait for them: each look asks who lives. */
static int go_on(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

static bool has_readers(const struct loco_ringbuffer *rb)
{
    for (int i = 0; i < rb->size; i++)
        if (i != rb->writer && loci_ring_alive(rb, i))
            return true;
    return rb->size == 1;       /* nobody is missing */
}

/* ---- posting ---- */

/* Under the lock: all that was posted has been read. Who is dead needs nothing. */
static int finish_posts(struct loco_ringbuffer *rb)
{
    int status = loco_ack_wait(rb->rt, &rb->posts);

    rb->posts = (loco_ack_t)LOCO_ACK_INIT;
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* Under the lock, before this thread posts: lanes have no order among them. */
static int take_posting(struct loco_ringbuffer *rb)
{
    struct loci_thread *self = loci_self(rb->rt);
    int status = LOCO_OK;

    if (self == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (rb->poster == self)
        return LOCO_OK;
    if (rb->poster != NULL) {
        status = finish_posts(rb);
        loci_fence_peer(rb->rt, LOCO_FENCE_PROCESS, -1);
    }
    rb->poster = self;
    return status;
}

/* A death is no error of what is posted to all: the others get it. */
static int unless_dead(int status)
{
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* Under the lock: read a word of all readers but those that `skip` says, to `answer`; the writes
 * to them before are placed then. Of the dead it stays as it is. */
static int read_words(struct loco_ringbuffer *rb, uint64_t word,
                      bool (*skip)(struct loco_ringbuffer *rb, int rank, uint64_t arg),
                      uint64_t arg)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK, waited;

    /* Where the words are mapped, the writes before were stores. */
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < rb->size && status == LOCO_OK; i++)
        if (!skip(rb, i, arg))
            status = unless_dead(loci_read64(rb->rt, loci_ring_state(rb, i), word,
                                             &rb->reader[i].answer, &ack));
    waited = unless_dead(loco_ack_wait(rb->rt, &ack));
    return status == LOCO_OK ? waited : status;
}

/* ---- waiting for readers ---- */

static bool needs_no_asking(struct loco_ringbuffer *rb, int rank, uint64_t position)
{
    return rank == rb->writer || !loci_ring_alive(rb, rank) || has_released(rb, rank, position);
}

static int ask_locked(struct loco_ringbuffer *rb, uint64_t position)
{
    int status = take_posting(rb);

    for (int i = 0; i < rb->size && status == LOCO_OK; i++) {
        rb->reader[i].answer = 0;
        if (!needs_no_asking(rb, i, position))
            status = unless_dead(loci_write64(rb->rt, loci_ring_state(rb, i), LOCI_RING_WANTED,
                                              position, &rb->posts));
    }
    if (status == LOCO_OK)
        status = read_words(rb, LOCI_RING_PROGRESS, needs_no_asking, position);
    for (int i = 0; i < rb->size; i++)
        learn(rb, i, loci_ring_progress(rb->reader[i].answer));
    rb->asked = position;
    return status;
}

/* Have the readers tell at once what they release, up to this position. */
static int ask(struct loco_ringbuffer *rb, uint64_t position)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&rb->lock);
    if (position > rb->asked)
        status = ask_locked(rb, position);
    pthread_mutex_unlock(&rb->lock);
    return status;
}

/* 1: all living readers have released what is before that position; 0, or an error. */
static int look(struct loco_ringbuffer *rb, uint64_t position)
{
    struct release_wait wait = { rb, position, 0 };
    int status;

    if (all_have_released(&wait))
        return 1;
    status = ask(rb, position);
    return status != LOCO_OK ? status : all_have_released(&wait);
}

static int wait_for(struct loco_ringbuffer *rb, uint64_t position)
{
    const struct loci_reason why = {
        .what = rb->ep->name, .peer = -1, .broken = go_on, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_RING_READERS,
    };
    struct release_wait wait = { rb, position, 0 };
    int status = look(rb, position);

    if (status == 0)
        status = loci_wait(rb->rt, &why, all_have_released, &wait);
    return status < 0 ? status : LOCO_OK;
}

/* All who live have released it: has nobody been lost? */
static int judge(struct loco_ringbuffer *rb, uint64_t position)
{
    for (int i = 0; i < rb->size; i++)
        if (i != rb->writer && !has_released(rb, i, position))
            return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

static int check_number(const struct loco_ringbuffer *rb, uint64_t number)
{
    if (rb->rank != rb->writer)
        return LOCO_ERR_STATE;
    return number <= atomic_load_explicit(&rb->sent, memory_order_acquire) ? LOCO_OK
                                                                           : LOCO_ERR_ARG;
}

int loco_ringbuffer_acknowledged(loco_ringbuffer_t *rb, uint64_t number)
{
    int status = check_number(rb, number);

    if (status != LOCO_OK)
        return status;
    status = look(rb, number);
    return status < 0 ? status : status == 0 ? LOCO_IN_PROGRESS : judge(rb, number);
}

static int wait_acknowledged(loco_ringbuffer_t *rb, uint64_t number)
{
    int status = check_number(rb, number);

    if (status == LOCO_OK)
        status = wait_for(rb, number);
    return status == LOCO_OK ? judge(rb, number) : status;
}

int loco_ringbuffer_wait_acknowledged(loco_ringbuffer_t *rb, uint64_t number)
{
    struct loci_thread *self = loci_call_begin(rb->ep->calls, LOCI_CALL_WAIT, 0);

    return loci_call_end(self, wait_acknowledged(rb, number));
}

/* ---- batches ---- */

/* Messages that become visible together. */
struct batch {
    uint64_t first, end;        /* positions */
    uint64_t first_header;      /* not in the ring yet */
    uint64_t turned;            /* end of the bytes before it goes on at the ring's beginning */
};

/* Where a message that comes after `position` ends, padding before it included. */
static uint64_t end_of(const struct loco_ringbuffer *rb, uint64_t position, size_t bytes)
{
    uint64_t space = loci_ring_space(bytes), left = rb->len - loci_ring_place(rb, position);

    return position + (space > left ? left : 0) + space;
}

/* The first header waits in the batch. */
static void put_header(struct loco_ringbuffer *rb, struct batch *batch, uint64_t header)
{
    if (batch->end == batch->first)
        batch->first_header = header;
    else
        loci_store64(rb->own + loci_ring_place(rb, batch->end), header);
}

/* A new lap: what is in the ring may still be a source. */
static int sources_are_free(struct loco_ringbuffer *rb)
{
    int status;

    pthread_mutex_lock(&rb->lock);
    status = finish_posts(rb);
    pthread_mutex_unlock(&rb->lock);
    return status;
}

static int put_message(struct loco_ringbuffer *rb, struct batch *batch,
                       const loco_ringbuffer_part_t *message)
{
    uint64_t left = rb->len - loci_ring_place(rb, batch->end);
    int status = LOCO_OK;

    if (loci_ring_space(message->bytes) > left) {
        put_header(rb, batch, loci_ring_header(batch->end, 0) | LOCI_RING_PADDING);
        batch->turned = batch->end + LOCI_RING_HEADER;
        batch->end += left;
    } else if (left == rb->len) {
        batch->turned = batch->end;
    }
    if (loci_ring_place(rb, batch->end) == 0)
        status = sources_are_free(rb);
    if (status != LOCO_OK)
        return status;
    if (message->bytes > 0)         /* else there need not be any data */
        loci_copy_in(rb->own + loci_ring_place(rb, batch->end) + LOCI_RING_HEADER, message->data,
                     message->bytes);
    put_header(rb, batch, loci_ring_header(batch->end, message->bytes));
    batch->end += loci_ring_space(message->bytes);
    return LOCO_OK;
}

/* Bytes [from, to) of the ring, at the same place. */
static int post_bytes(struct loco_ringbuffer *rb, int rank, uint64_t from, uint64_t to)
{
    uint64_t place = loci_ring_place(rb, from);

    return from >= to ? LOCO_OK : loci_write(rb->rt, loci_ring_bytes(rb, rank), place,
                                             rb->own + place, to - from, &rb->posts);
}

static int post_word(struct loco_ringbuffer *rb, int rank, uint64_t position, uint64_t word)
{
    return loci_write64(rb->rt, loci_ring_bytes(rb, rank), loci_ring_place(rb, position), word,
                        &rb->posts);
}

static int post_batch(struct loco_ringbuffer *rb, int rank, const struct batch *batch)
{
    uint64_t from = batch->first + LOCI_RING_HEADER;
    int status = post_word(rb, rank, batch->end, 0);

    if (status == LOCO_OK && batch->turned != 0) {
        status = post_bytes(rb, rank, from, batch->turned);
        /* Where the batch begins with the ring, its first header is there. */
        if (loci_ring_place(rb, batch->first) != 0)
            from = batch->first - loci_ring_place(rb, batch->first) + rb->len;
    }
    if (status == LOCO_OK)
        status = post_bytes(rb, rank, from, batch->end);
    return status == LOCO_OK ? post_word(rb, rank, batch->first, batch->first_header) : status;
}

/* Whether it needs no post: it reads here, once it has said so, or not any more, or never did. */
static bool needs_no_post(struct loco_ringbuffer *rb, int rank)
{
    struct loci_ring_reader *reader = &rb->reader[rank];
    uint64_t in_place = 0;

    if (reader->in_place || rank == rb->writer)
        return true;
    loco_sst_get(rb->acks, rank, LOCI_RING_IN_PLACE, &in_place);
    reader->in_place = in_place != 0;
    return reader->in_place || !loci_ring_alive(rb, rank);
}

static int post_from(struct loco_ringbuffer *rb, int first, const struct batch *batch)
{
    int status;

    pthread_mutex_lock(&rb->lock);
    status = take_posting(rb);
    for (int i = first; i < rb->size && status == LOCO_OK; i++)
        if (!needs_no_post(rb, i))
            status = unless_dead(post_batch(rb, i, batch));
    pthread_mutex_unlock(&rb->lock);
    return status;
}

/* Most have nobody to post to. */
static int post_to_all(struct loco_ringbuffer *rb, const struct batch *batch)
{
    for (int i = 0; i < rb->size; i++)
        if (!needs_no_post(rb, i))
            return post_from(rb, i, batch);
    return LOCO_OK;
}

static bool needs_no_look(struct loco_ringbuffer *rb, int rank, uint64_t arg)
{
    (void)arg;
    return rank == rb->writer || loci_mem_ptr(loci_ring_state(rb, rank)) != NULL
           || !loci_ring_alive(rb, rank);
}

/* Of whom ASLEEP was read. */
static int wake_reader(struct loco_ringbuffer *rb, int rank, uint64_t asleep)
{
    if ((uint32_t)asleep == 0)
        return LOCO_OK;
    return unless_dead(loci_ring_for(rb->rt, rb->ep->group.peer[rank],
                                     (uint32_t)(asleep >> 32)));
}

/* Sleepers whose words are not mapped (or not yet). */
static int wake_by_lane(struct loco_ringbuffer *rb)
{
    int status;

    pthread_mutex_lock(&rb->lock);
    for (int i = 0; i < rb->size; i++)
        rb->reader[i].answer = 0;
    /* Whoever has posted meanwhile has had our batch placed. */
    status = take_posting(rb);
    if (status == LOCO_OK)
        status = read_words(rb, LOCI_RING_ASLEEP, needs_no_look, 0);
    for (int i = 0; i < rb->size && status == LOCO_OK; i++)
        status = wake_reader(rb, i, rb->reader[i].answer);
    pthread_mutex_unlock(&rb->lock);
    return status;
}

/* Whoever sleeps did not see this batch, or will look before it does (ringbuffer.c). */
int loci_ringbuffer_wake(struct loco_ringbuffer *rb)
{
    bool far = false;
    int status = LOCO_OK;

    if (rb->awake)
        return LOCO_OK;
    /* Between the header and the looks. */
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < rb->size && status == LOCO_OK; i++) {
        const unsigned char *words = loci_mem_ptr(loci_ring_state(rb, i));

        if (i == rb->writer || (words == NULL && !loci_ring_alive(rb, i)))
            continue;
        if (words == NULL)
            far = true;
        else
            status = wake_reader(rb, i, loci_load64_total(words + LOCI_RING_ASLEEP));
    }
    return status == LOCO_OK && far ? wake_by_lane(rb) : status;
}

/* What posting needs is there before anything is posted: a batch that some readers have and others
 * have not is the end of the ring buffer, one that none has can be sent again. */
static int prepare_posts(struct loco_ringbuffer *rb)
{
    int status = LOCO_OK;

    for (int i = 0; i < rb->size && status == LOCO_OK; i++) {
        struct loci_thread *self;

        if (needs_no_post(rb, i))
            continue;
        self = loci_self(rb->rt);
        if (self == NULL)
            return LOCO_ERR_NO_MEMORY;
        if (loci_mem_ptr(loci_ring_bytes(rb, i)) == NULL
            && loci_lane(self, rb->ep->group.peer[i], &status) != NULL)
            status = LOCO_OK;
        status = unless_dead(status);
    }
    return status;
}

static int commit(struct loco_ringbuffer *rb, const struct batch *batch)
{
    int status = prepare_posts(rb);

    if (status != LOCO_OK)
        return status;
    loci_store64(rb->own + loci_ring_place(rb, batch->end), 0);
    rb->failed = post_to_all(rb, batch);
    if (rb->failed != LOCO_OK)
        return rb->failed;
    /* Release: who reads in place and sees it sees the batch. */
    loci_store64(rb->own + loci_ring_place(rb, batch->first), batch->first_header);
    rb->head = batch->end;
    atomic_store_explicit(&rb->sent, batch->end, memory_order_release);
    return rb->wakes_later ? LOCO_OK : loci_ringbuffer_wake(rb);
}

void loci_ringbuffer_wake_later(struct loco_ringbuffer *rb)
{
    rb->wakes_later = true;
}

/* ---- sending ---- */

/* Room for all before `end` and the word after it? 1, 0 or an error. */
static int has_room(struct loco_ringbuffer *rb, uint64_t end, bool wait)
{
    uint64_t needed = end + LOCI_RING_HEADER;
    int status = 1;

    if (needed <= rb->limit)
        return 1;
    if (needed > rb->len)
        status = wait ? wait_for(rb, needed - rb->len) : look(rb, needed - rb->len);
    if (status < 0 || (status == 0 && !wait))
        return status;
    if (!has_readers(rb))
        return LOCO_ERR_PEER_DEAD;
    /* There may be room for far more. */
    rb->limit = rb->head + rb->len;
    for (int i = 0; i < rb->size; i++)
        if (i != rb->writer && loci_ring_alive(rb, i)) {
            has_released(rb, i, UINT64_MAX);
            if (known_of(rb, i) + rb->len < rb->limit)
                rb->limit = known_of(rb, i) + rb->len;
        }
    return 1;
}

/* The first message at least, and as many as there is room for with it. */
static int send_batch(struct loco_ringbuffer *rb, const loco_ringbuffer_part_t *messages, int n,
                      int *sent)
{
    struct batch batch = { .first = rb->head, .end = rb->head };
    int status = LOCO_OK, i;

    for (i = 0; i < n && status == LOCO_OK; i++) {
        uint64_t end = end_of(rb, batch.end, messages[i].bytes);

        if (i > 0 && end + LOCI_RING_HEADER > rb->limit)
            break;
        status = put_message(rb, &batch, &messages[i]);
    }
    /* The word after it is at the beginning of the ring: a source of this lap. */
    if (status == LOCO_OK && loci_ring_place(rb, batch.end) == 0)
        status = sources_are_free(rb);
    if (status == LOCO_OK)
        status = commit(rb, &batch);
    *sent = i;
    return status;
}

/* Whether anybody is left to read is asked after each death. */
static int check_readers(struct loco_ringbuffer *rb)
{
    unsigned deaths = atomic_load_explicit(&rb->rt->deaths, memory_order_acquire);

    if (rb->failed != LOCO_OK || deaths == rb->deaths)
        return rb->failed;
    if (!has_readers(rb))
        return LOCO_ERR_PEER_DEAD;
    rb->deaths = deaths;
    return LOCO_OK;
}

/* In this thread's turn. */
static int send_all(struct loco_ringbuffer *rb, const loco_ringbuffer_part_t *messages, int n,
                    bool wait)
{
    int status, sent;

    for (; n > 0; messages += sent, n -= sent) {
        status = has_room(rb, end_of(rb, rb->head, messages[0].bytes), wait);
        if (status <= 0)
            return status == 0 ? LOCO_ERR_AGAIN : status;
        status = send_batch(rb, messages, n, &sent);
        if (status != LOCO_OK)
            return status;
    }
    return LOCO_OK;
}

static int send(struct loco_ringbuffer *rb, const loco_ringbuffer_part_t *messages, int n,
                bool wait, uint64_t *number)
{
    int status;

    if (rb->rank != rb->writer)
        return LOCO_ERR_STATE;
    for (int i = 0; i < n; i++)
        if (messages[i].bytes > rb->capacity)
            return LOCO_ERR_ARG;
    if (!wait && !loci_turns_try(&rb->turns))
        return LOCO_ERR_AGAIN;
    status = wait ? loci_turns_enter(rb->rt, &rb->turns,
                                    "other threads that send to a ring buffer") : LOCO_OK;
    if (status != LOCO_OK)
        return status;
    status = check_readers(rb);
    if (status == LOCO_OK)
        status = send_all(rb, messages, n, wait);
    if (status == LOCO_OK && number != NULL)
        *number = rb->head;
    loci_turns_leave(&rb->turns);
    return status;
}

int loco_ringbuffer_send(loco_ringbuffer_t *rb, const void *message, size_t bytes,
                         uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(rb->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, send(rb, &(loco_ringbuffer_part_t){ message, bytes }, 1, true,
                                    number));
}

int loco_ringbuffer_try_send(loco_ringbuffer_t *rb, const void *message, size_t bytes,
                             uint64_t *number)
{
    struct loci_thread *self = loci_call_begin(rb->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, send(rb, &(loco_ringbuffer_part_t){ message, bytes }, 1, false,
                                    number));
}

int loco_ringbuffer_send_many(loco_ringbuffer_t *rb, const loco_ringbuffer_part_t *messages, int n,
                              uint64_t *number)
{
    return n < 0 ? LOCO_ERR_ARG : send(rb, messages, n, true, number);
}
