/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests of peers, done by this process's CPU, and the answers that it owes.
 *
 * A request is done when it comes, so that what a peer writes is there before what it asks for
 * next. Its answer is made when there is room to send it: until then it is a line in the ring of
 * what is owed, with the old value of an atomic in it.
 *
 * Reads, atomics and places of a lane are done in the order of their posts, as with a device; only
 * writes may come before a read that was posted earlier. Who reads an entry and frees it by an
 * atomic has both on the way. So a short read is copied when it comes, too. A long one is copied
 * with its answer, piece by piece, and so is every read behind it on its lane; atomics do not come
 * behind it, for its poster holds them back until it is answered (post.c).
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
    return -(int)c->refused[lane];
}

/* Whatever the cause, nothing of it is done, nor of what comes behind it: that is what the status
 * says to those who may do it again (loci_add_again). */
static void refuse(struct tcp_conn *c, unsigned lane, int status)
{
    if (status != LOCO_OK)
        c->refused[lane] = (unsigned char)-LOCO_ERR_RANGE;
}

/* ---- requests ---- */

static struct tcp_range range_of(const struct tcp_frame *frame)
{
    return (struct tcp_range){ frame->kind, frame->extent, frame->at };
}

/* ---- gathered writes ---- */

#define SHORT ((size_t)4096)        /* longer ones are a call of their own */

void loci_tcp_serve_gathered(struct tcp_conn *c)
{
    struct tcp_fabric *f = c->fabric;

    if (f->gathered->bytes != 0)
        refuse(c, f->gathered_lane, loci_tcp_own_gathered(f->gathered));
}

static void gather(struct tcp_conn *c, const struct tcp_frame *frame, const void *data, size_t len)
{
    const struct tcp_range range = range_of(frame);
    struct tcp_fabric *f = c->fabric;
    int status;

    if (f->gathered_lane != frame->lane || !loci_tcp_own_fits(f->gathered, len))
        loci_tcp_serve_gathered(c);
    if (refused(c, frame->lane) != LOCO_OK)
        return;
    f->gathered_lane = frame->lane;
    status = loci_tcp_own_gather(f->shm, f->gathered, &range, data, len);
    if (status == LOCO_OK)
        return;
    loci_tcp_serve_gathered(c);     /* those before it are done */
    refuse(c, frame->lane, status);
}

static bool merges(const struct tcp_frame *frame)
{
    return frame->op == TCP_MERGE || frame->op == TCP_MERGE_WORD;
}

void loci_tcp_serve_write(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                          size_t len)
{
    const struct tcp_range range = range_of(frame);

    c->fabric->touched = true;
    if (refused(c, frame->lane) != LOCO_OK)
        return;
    if (frame->kind == LOCI_MEM_USER && len <= SHORT && !merges(frame)) {
        gather(c, frame, data, len);
        return;
    }
    loci_tcp_serve_gathered(c);
    if (refused(c, frame->lane) != LOCO_OK)
        return;
    refuse(c, frame->lane,
           merges(frame) ? loci_tcp_own_merge(c->fabric->shm, &range, (uint32_t)frame->a, data, len)
                         : loci_tcp_own_write(c->fabric->shm, &range, data, len));
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

static void fail(struct tcp_conn *c, struct tcp_owed *o, int status)
{
    if (status == LOCO_OK)
        return;
    o->status = LOCO_ERR_RANGE;
    o->left = 0;
    refuse(c, o->lane, status);
}

/* What it reads now is what its answer says. */
static int copy_read(struct tcp_conn *c, struct tcp_owed *o)
{
    const struct tcp_range range = { o->kind, o->extent, o->at };
    unsigned char *to = (unsigned char *)&o->value;

    if (o->left > sizeof o->value)
        to = o->copy = malloc(o->left);
    if (to == NULL)
        return LOCO_ERR_NO_MEMORY;
    o->copied = true;
    return loci_tcp_own_read(c->fabric->shm, &range, to, (size_t)o->left);
}

static int owe_read(struct tcp_conn *c, const struct tcp_frame *frame)
{
    struct tcp_owed *o = owe(c, frame);

    if (o == NULL)
        return LOCO_ERR_PROTOCOL;
    if (o->status != LOCO_OK)
        return LOCO_OK;
    o->left = frame->a;
    if (frame->a <= TCP_SHORT && (c->deferred == NULL || c->deferred[frame->lane] == 0)) {
        fail(c, o, copy_read(c, o));
        return LOCO_OK;
    }
    if (c->deferred == NULL)
        c->deferred = calloc(TCP_LANES, sizeof c->deferred[0]);
    if (c->deferred == NULL)
        fail(c, o, LOCO_ERR_NO_MEMORY);
    else
        c->deferred[frame->lane]++;
    return LOCO_OK;
}

static int owe_atomic(struct tcp_conn *c, const struct tcp_frame *frame)
{
    const struct tcp_range range = range_of(frame);
    struct tcp_owed *o = owe(c, frame);

    if (o == NULL || (c->deferred != NULL && c->deferred[frame->lane] != 0))
        return LOCO_ERR_PROTOCOL;
    c->fabric->touched = true;
    if (o->status == LOCO_OK)
        fail(c, o, loci_tcp_own_atomic(c->fabric->shm, &range, frame->op == TCP_ADD, frame->a,
                                       frame->b, &o->value));
    return LOCO_OK;
}

int loci_tcp_serve(struct tcp_conn *c, const struct tcp_frame *frame)
{
    if (frame->op == TCP_WORDS || frame->op == TCP_MERGE_WORD) {
        loci_tcp_serve_write(c, frame, frame->op == TCP_WORDS ? &frame->a : &frame->b, frame->len);
        return LOCO_OK;
    }
    loci_tcp_serve_gathered(c);
    switch (frame->op) {
    case TCP_ADD:
    case TCP_SWAP:
        return owe_atomic(c, frame);
    case TCP_READ:
        return owe_read(c, frame);
    case TCP_PLACE:
        return owe(c, frame) != NULL ? LOCO_OK : LOCO_ERR_PROTOCOL;
    case TCP_RESET:
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

static int read_now(struct tcp_conn *c, const struct tcp_owed *o, void *to, size_t n)
{
    const struct tcp_range range = { o->kind, o->extent, o->at };
    int status;

    pthread_mutex_lock(&c->fabric->shm->lock);
    status = loci_tcp_own_read(c->fabric->shm, &range, to, n);
    pthread_mutex_unlock(&c->fabric->shm->lock);
    return status;
}

/* The next n bytes of a read; what was copied is answered whole. */
static void fill(struct tcp_conn *c, struct tcp_owed *o, unsigned char *to, size_t n)
{
    if (o->copied)
        memcpy(to, o->copy != NULL ? o->copy : (const unsigned char *)&o->value, n);
    else
        fail(c, o, read_now(c, o, to, n));
}

static void end_read(struct tcp_conn *c, struct tcp_owed *o)
{
    if (!o->copied && c->deferred != NULL && c->deferred[o->lane] > 0)
        c->deferred[o->lane]--;
    free(o->copy);
    o->copy = NULL;
}

/* Of a read, as much as there is room for; false: none. */
static bool answer_read(struct tcp_conn *c, struct tcp_owed *o)
{
    size_t least = o->copied || o->left < LEAST ? (size_t)o->left : LEAST, n;
    struct tcp_bytes *b = &c->answers;
    unsigned char *to = loci_tcp_bytes_room(b, sizeof(struct tcp_frame) + least);
    struct tcp_frame frame;

    if (to == NULL)
        return false;
    n = piece_of(o, b->size - b->to - sizeof frame);
    n = n < TCP_PIECE ? n : piece_of(o, TCP_PIECE);
    if (n > 0)
        fill(c, o, to + sizeof frame, n);
    n = n < o->left ? n : (size_t)o->left;      /* nothing, if it has failed */
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

void loci_tcp_queue_answers(struct tcp_conn *c)
{
    while (c->owed_from != c->owed_to) {
        struct tcp_owed *o = &c->owed[c->owed_from % TCP_OWED];

        if (o->op == TCP_READ ? !answer_read(c, o) : !answer_word(c, o))
            return;
        if (o->op == TCP_READ && o->left == 0)
            end_read(c, o);
        if (o->op != TCP_READ || o->left == 0)
            c->owed_from++;
        atomic_store_explicit(&c->unsent, true, memory_order_relaxed);
    }
}

void loci_tcp_forget_owed(struct tcp_conn *c)
{
    for (; c->owed_from != c->owed_to; c->owed_from++)
        if (c->owed[c->owed_from % TCP_OWED].op == TCP_READ)
            end_read(c, &c->owed[c->owed_from % TCP_OWED]);
}
