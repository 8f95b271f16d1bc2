/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests of peers, done by this process's CPU, and the answers that it owes.
 *
 * A request is done when it comes, so that what a peer writes is there before what it asks for
 * next. Its answer is made when there is room to send it: until then it is a line in the ring of
 * what is owed, with the old value of an atomic in it. A read is copied with its answer, piece by
 * piece; writes that come later on the same lane may be in it, as with a device. Atomics may not:
 * one that comes behind a read which is owed still waits for that, and is done when its answer is
 * made. Who reads an entry and frees it by an atomic has both on the way.
 *
 * What is refused: see wire.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "touch.h"
#include "serve.h"

#define LEAST ((size_t)4096)        /* bytes of a read that are worth a piece */

/* ---- refusals ---- */

static int refused(const struct tcp_conn *c, unsigned lane)
{
    return c->refused != NULL ? -(int)c->refused[lane] : LOCO_OK;
}

static int refuse(struct tcp_conn *c, unsigned lane, int status)
{
    if (status == LOCO_OK || refused(c, lane) != LOCO_OK)
        return LOCO_OK;
    if (c->refused == NULL)
        c->refused = calloc(TCP_LANES, 1);
    if (c->refused == NULL)
        return LOCO_ERR_NO_MEMORY;
    c->refused[lane] = (unsigned char)-status;
    return LOCO_OK;
}

/* ---- requests ---- */

static struct tcp_range range_of(const struct tcp_frame *frame)
{
    return (struct tcp_range){ frame->kind, frame->extent, frame->at };
}

/* ---- gathered writes ---- */

#define SHORT ((size_t)4096)        /* longer ones are a call of their own */

int loci_tcp_serve_gathered(struct tcp_conn *c)
{
    struct tcp_fabric *f = c->fabric;

    return f->gathered->bytes == 0
           ? LOCO_OK : refuse(c, f->gathered_lane, loci_tcp_own_gathered(f->gathered));
}

static int gather(struct tcp_conn *c, const struct tcp_frame *frame, const void *data, size_t len)
{
    const struct tcp_range range = range_of(frame);
    struct tcp_fabric *f = c->fabric;
    int status = LOCO_OK;

    if (f->gathered_lane != frame->lane || !loci_tcp_own_fits(f->gathered, len))
        status = loci_tcp_serve_gathered(c);
    if (status != LOCO_OK || refused(c, frame->lane) != LOCO_OK)
        return status;
    f->gathered_lane = frame->lane;
    status = loci_tcp_own_gather(f->shm, f->gathered, &range, data, len);
    if (status == LOCO_OK)
        return LOCO_OK;
    /* Those before it are done. */
    return loci_tcp_serve_gathered(c) == LOCO_OK ? refuse(c, frame->lane, status)
                                                  : LOCO_ERR_NO_MEMORY;
}

int loci_tcp_serve_write(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                         size_t len)
{
    const struct tcp_range range = range_of(frame);
    int status;

    atomic_store_explicit(&c->fabric->changed, true, memory_order_relaxed);
    if (refused(c, frame->lane) != LOCO_OK)
        return LOCO_OK;
    if (frame->kind == LOCI_MEM_USER && len <= SHORT)
        return gather(c, frame, data, len);
    status = loci_tcp_serve_gathered(c);
    if (status != LOCO_OK || refused(c, frame->lane) != LOCO_OK)
        return status;
    return refuse(c, frame->lane, loci_tcp_own_write(c->fabric->shm, &range, data, len));
}

/* NULL: that is more than it may ask for. */
static struct tcp_owed *owe(struct tcp_conn *c, const struct tcp_frame *frame)
{
    int status = refused(c, frame->lane);
    struct tcp_owed *o;

    if (c->owed_to - c->owed_from == TCP_OWED)
        return NULL;
    o = &c->owed[c->owed_to++ % TCP_OWED];
    *o = (struct tcp_owed){
        .op = frame->op, .kind = frame->kind, .lane = frame->lane, .status = status,
        .behind = status != LOCO_OK, .extent = frame->extent, .at = frame->at,
    };
    return o;
}

static int owe_read(struct tcp_conn *c, const struct tcp_frame *frame)
{
    struct tcp_owed *o = owe(c, frame);

    if (o == NULL)
        return LOCO_ERR_PROTOCOL;
    o->left = frame->a;
    c->read_to = c->owed_to;
    return LOCO_OK;
}

/* Under shm's lock. */
static int do_atomic(struct tcp_conn *c, struct tcp_owed *o)
{
    const struct tcp_range range = { o->kind, o->extent, o->at };
    uint64_t old = 0;

    atomic_store_explicit(&c->fabric->changed, true, memory_order_relaxed);
    o->waits = false;
    o->status = refused(c, o->lane);
    o->behind = o->status != LOCO_OK;
    if (o->status == LOCO_OK)
        o->status = loci_tcp_own_atomic(c->fabric->shm, &range, o->op == TCP_ADD, o->value,
                                        o->expected, &old);
    o->value = old;
    return refuse(c, o->lane, o->status);
}

static int owe_atomic(struct tcp_conn *c, const struct tcp_frame *frame)
{
    struct tcp_owed *o = owe(c, frame);

    if (o == NULL)
        return LOCO_ERR_PROTOCOL;
    o->value = frame->a;
    o->expected = frame->b;
    o->waits = (int32_t)(c->read_to - c->owed_from) > 0;
    return o->waits ? LOCO_OK : do_atomic(c, o);
}

int loci_tcp_serve(struct tcp_conn *c, const struct tcp_frame *frame)
{
    int status;

    if (frame->op == TCP_WORDS)
        return loci_tcp_serve_write(c, frame, &frame->a, frame->len);
    status = loci_tcp_serve_gathered(c);
    if (status != LOCO_OK)
        return status;
    switch (frame->op) {
    case TCP_ADD:
    case TCP_SWAP:
        return owe_atomic(c, frame);
    case TCP_READ:
        return owe_read(c, frame);
    case TCP_PLACE:
        return owe(c, frame) != NULL ? LOCO_OK : LOCO_ERR_PROTOCOL;
    case TCP_RESET:
        if (c->refused != NULL)
            c->refused[frame->lane] = 0;
        return LOCO_OK;
    default:
        return LOCO_ERR_PROTOCOL;
    }
}

/* ---- answers: under the connection's lock, too ---- */

static struct tcp_frame answer(const struct tcp_owed *o, enum tcp_op op, size_t len)
{
    return (struct tcp_frame){
        .op = (uint8_t)op, .lane = o->lane, .len = (uint32_t)len,
        .at = (uint64_t)(int64_t)o->status, .a = o->value, .b = o->behind,
    };
}

/* What is copied ends with a word, so that the next piece has no half of one. */
static size_t piece_of(const struct tcp_owed *o, size_t room)
{
    size_t n = o->left < room ? (size_t)o->left : room;

    return n == o->left ? n : n - (size_t)((o->at + n) % 8);
}

/* Of a read, as much as there is room for; false: none. */
static bool answer_read(struct tcp_conn *c, struct tcp_owed *o)
{
    const struct tcp_range range = { o->kind, o->extent, o->at };
    size_t least = o->left < LEAST ? (size_t)o->left : LEAST, n;
    struct tcp_bytes *b = &c->answers;
    unsigned char *to = loci_tcp_bytes_room(b, sizeof(struct tcp_frame) + least);
    struct tcp_frame frame;

    if (to == NULL)
        return false;
    n = piece_of(o, b->size - b->to - sizeof frame);
    n = n < TCP_PIECE ? n : piece_of(o, TCP_PIECE);
    if (o->status == LOCO_OK && n > 0) {
        pthread_mutex_lock(&c->fabric->shm->lock);
        o->status = loci_tcp_own_read(c->fabric->shm, &range, to + sizeof frame, n);
        pthread_mutex_unlock(&c->fabric->shm->lock);
    }
    if (o->status != LOCO_OK) {
        refuse(c, o->lane, o->status);
        o->left = n = 0;
    }
    o->at += n;
    o->left -= n;
    frame = answer(o, o->left > 0 ? TCP_PART : TCP_ANSWER, n);
    memcpy(to, &frame, sizeof frame);
    b->to += sizeof frame + n;
    return true;
}

static bool answer_word(struct tcp_conn *c, const struct tcp_owed *o)
{
    const struct tcp_frame frame = answer(o, TCP_ANSWER, 0);
    unsigned char *to = loci_tcp_bytes_room(&c->answers, sizeof frame);

    if (to == NULL)
        return false;
    memcpy(to, &frame, sizeof frame);
    c->answers.to += sizeof frame;
    return true;
}

/* What cannot be kept of a refusal for want of memory its answer tells all the same. */
static void do_waiting(struct tcp_conn *c, struct tcp_owed *o)
{
    pthread_mutex_lock(&c->fabric->shm->lock);
    (void)do_atomic(c, o);
    pthread_mutex_unlock(&c->fabric->shm->lock);
}

void loci_tcp_queue_answers(struct tcp_conn *c)
{
    while (c->owed_from != c->owed_to) {
        struct tcp_owed *o = &c->owed[c->owed_from % TCP_OWED];

        if (o->waits)
            do_waiting(c, o);
        if (o->op == TCP_READ ? !answer_read(c, o) : !answer_word(c, o))
            return;
        if (o->op != TCP_READ || o->left == 0)
            c->owed_from++;
        atomic_store_explicit(&c->unsent, true, memory_order_relaxed);
    }
}
