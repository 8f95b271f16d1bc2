/* SPDX-License-Identifier: BSD-3-Clause */

/* What comes on data connections, cut into frames.
 *
 * All connections are read into one buffer. A read ends anywhere: what is left of a frame, or of a
 * word in the middle of a write's data (touch.c), is kept with the connection, and is in front of
 * what comes next. Answers are copied to where they belong, whose posters are told by `done`.
 *
 * Reads are raw system calls: those of the C library are points of cancellation, of which the
 * program's threads that wait here must not die, and cost more once there are threads. */

#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../shm/shm.h"
#include "move/bell.h"
#include "serve.h"

#define READS 4                 /* of one connection before the next has its turn */
#define EVENTS 16
#define ANSWERS 16              /* fillings of their buffer before the next has its turn */

/* ---- answers ---- */

static struct tcp_request **pending(struct tcp_conn *c, uint32_t at)
{
    return &c->pending[at % TCP_OWED];
}

static void finish(struct tcp_conn *c, struct tcp_request *r, int status)
{
    uint32_t from = atomic_load_explicit(&c->pending_from, memory_order_relaxed);

    r->status = status;
    /* Pairs with the acquire of the lane's poll: what the answer wrote, then this. */
    atomic_store_explicit(&r->done, true, memory_order_release);
    atomic_store_explicit(&c->pending_from, from + 1, memory_order_release);
}

/* The request that the next answer is of; NULL: there is none. */
static struct tcp_request *answered(struct tcp_conn *c)
{
    uint32_t from = atomic_load_explicit(&c->pending_from, memory_order_relaxed);

    /* Pairs with the release of who posts. */
    if (from == atomic_load_explicit(&c->pending_to, memory_order_acquire))
        return NULL;
    return *pending(c, from);
}

/* The end of an answer. */
static int conclude(struct tcp_conn *c, struct tcp_request *r)
{
    int status = (int)(int64_t)c->frame.at;

    if (status == LOCO_OK && r->kind == LOCI_READ && r->got != r->len)
        return LOCO_ERR_PROTOCOL;
    if (status == LOCO_OK && (r->kind == LOCI_FETCH_ADD || r->kind == LOCI_COMPARE_SWAP)
        && r->to != NULL)
        memcpy(r->to, &c->frame.a, sizeof c->frame.a);
    r->behind = c->frame.b != 0;
    finish(c, r, status);
    c->fabric->touched = true;
    return LOCO_OK;
}

static int take_answer(struct tcp_conn *c, const unsigned char *data, size_t len)
{
    struct tcp_request *r = answered(c);

    if (r == &c->nobodys)
        return LOCO_OK;         /* given up */
    if (r->kind != LOCI_READ || len > r->len - r->got)
        return LOCO_ERR_PROTOCOL;
    if (r->to != NULL)
        memcpy(r->to + r->got, data, len);
    r->got += len;
    return LOCO_OK;
}

/* ---- frames ---- */

static bool is_answer(const struct tcp_frame *frame)
{
    return frame->op == TCP_ANSWER || frame->op == TCP_PART;
}

static bool has_data(const struct tcp_frame *frame)
{
    return frame->op == TCP_WRITE || frame->op == TCP_MERGE || is_answer(frame);
}

static bool is_merge(const struct tcp_frame *frame)
{
    return frame->len % 8 == 0 && frame->at % 8 == 0 && frame->a != 0 && frame->a <= UINT32_MAX;
}

static bool is_sound(const struct tcp_frame *frame)
{
    if (frame->lane >= TCP_LANES || (has_data(frame) && frame->len > TCP_PIECE))
        return false;
    switch (frame->op) {
    case TCP_WORDS: return frame->len <= TCP_WORDS_MOST;
    case TCP_MERGE: return is_merge(frame) && frame->len <= 8 * LOCI_MERGE_WORDS;
    case TCP_MERGE_WORD: return is_merge(frame) && frame->len == 8;
    case TCP_ADD: case TCP_SWAP: return frame->len == 8;
    case TCP_WRITE: case TCP_READ: case TCP_PLACE: case TCP_RESET: return true;
    case TCP_ANSWER: case TCP_PART: return (int64_t)frame->at <= 0 && (int64_t)frame->at >= -255;
    default: return false;
    }
}

/* All of a frame's data are here. */
static int end_frame(struct tcp_conn *c)
{
    return c->frame.op == TCP_ANSWER ? conclude(c, answered(c)) : LOCO_OK;
}

static int begin_frame(struct tcp_conn *c, const unsigned char *bytes)
{
    memcpy(&c->frame, bytes, sizeof c->frame);
    if (!is_sound(&c->frame) || (is_answer(&c->frame) && answered(c) == NULL))
        return LOCO_ERR_PROTOCOL;
    c->served += !is_answer(&c->frame);
    if (!has_data(&c->frame))
        return loci_tcp_serve(c, &c->frame);
    c->left = c->frame.len;
    return c->left > 0 ? LOCO_OK : end_frame(c);
}

/* How much of `len` bytes of a frame's data can be taken now. */
static size_t to_take(const struct tcp_conn *c, size_t len)
{
    if (len >= c->left)
        return (size_t)c->left;
    if (is_answer(&c->frame))
        return len;
    /* Extents begin with a page, so an offset is as good as an address. */
    return len >= 8 ? len - (size_t)((c->frame.at + len) % 8) : 0;
}

static int take_data(struct tcp_conn *c, const unsigned char *bytes, size_t len)
{
    int status = LOCO_OK;

    if (is_answer(&c->frame)) {
        status = take_answer(c, bytes, len);
    } else {
        loci_tcp_serve_write(c, &c->frame, bytes, len);
        c->frame.at += len;
    }
    c->left -= len;
    return status == LOCO_OK && c->left == 0 ? end_frame(c) : status;
}

/* *rest: how many of the last bytes are to come again, with more. */
static int parse(struct tcp_conn *c, const unsigned char *bytes, size_t len, size_t *rest)
{
    int status = LOCO_OK;

    while (status == LOCO_OK && len > 0) {
        size_t n = sizeof c->frame;

        if (c->left > 0) {
            n = to_take(c, len);
            if (n == 0)
                break;
            status = take_data(c, bytes, n);
        } else {
            if (len < n)
                break;
            status = begin_frame(c, bytes);
        }
        bytes += n;
        len -= n;
    }
    *rest = len;
    return status;
}

/* ---- reading ---- */

enum { NOTHING, SOME, MORE };   /* what a read found: MORE where there may be some still */

static void count_read(struct tcp_conn *c, size_t bytes)
{
    loci_counter *stats = c->fabric->rt->stats + LOCI_STAT_TCP;

    loci_stats_add(stats, LOCI_STATS_TCP_BYTES_IN, bytes);
    if (c->served > 0) {
        loci_stats_add(stats, LOCI_STATS_TCP_SERVED, c->served);
        if (c->fabric->by_service)
            loci_stats_add(stats, LOCI_STATS_TCP_BY_SERVICE, c->served);
    }
    c->served = 0;
}

/* What was read ends waits of threads that sleep: they are told when the locks are given back. */
static void note_changes(struct tcp_fabric *f)
{
    if (!f->touched)
        return;
    f->touched = false;
    atomic_store_explicit(&f->changed, true, memory_order_relaxed);
}

/* Or an error: the connection is over. */
static int read_once(struct tcp_conn *c)
{
    unsigned char *in = c->fabric->in + TCP_REST, *from = in - c->nrest;
    ssize_t n = syscall(SYS_recvfrom, c->fd, in, TCP_IN_BYTES, MSG_DONTWAIT, NULL, NULL);
    int status;
    size_t rest;

    if (n == 0)
        return LOCO_ERR_PEER_DEAD;
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? NOTHING
                                                                              : LOCO_ERR_PEER_DEAD;
    memcpy(from, c->rest, c->nrest);
    pthread_mutex_lock(&c->fabric->shm->lock);
    status = parse(c, from, (size_t)n + c->nrest, &rest);
    loci_tcp_serve_gathered(c);
    pthread_mutex_unlock(&c->fabric->shm->lock);
    note_changes(c->fabric);
    count_read(c, (size_t)n);
    if (status != LOCO_OK)
        return status;
    memcpy(c->rest, in + n - rest, rest);
    c->nrest = (uint32_t)rest;
    return (size_t)n == TCP_IN_BYTES ? MORE : SOME;
}

/* What is owed, for a while; and whether epoll is to tell of room. */
static int send_answers(struct tcp_conn *c)
{
    int status, turns = 0;

    pthread_mutex_lock(&c->lock);
    do {
        loci_tcp_queue_answers(c);
        status = loci_tcp_pump(c);
    } while (status == LOCO_OK && c->owed_from != c->owed_to
             && c->answers.from == c->answers.to && ++turns < ANSWERS);
    if (status == LOCO_OK)
        loci_tcp_want_room(c, atomic_load_explicit(&c->unsent, memory_order_relaxed)
                              || c->owed_from != c->owed_to);
    pthread_mutex_unlock(&c->lock);
    return status;
}

bool loci_tcp_receive(struct tcp_conn *c)
{
    int status = MORE;
    bool any = false;

    if (c->fd < 0 || c->deaf)
        return false;
    for (int i = 0; i < READS && status == MORE; i++) {
        status = read_once(c);
        any = any || status != NOTHING;
    }
    if (status >= 0
        && (any || c->owed_from != c->owed_to
            || atomic_load_explicit(&c->wants_out, memory_order_relaxed)))
        status = send_answers(c);
    if (status < 0)
        loci_tcp_conn_end(c, status == LOCO_ERR_PROTOCOL ? status : LOCO_ERR_PEER_DEAD,
                          status == LOCO_ERR_PROTOCOL ? "what it sent makes no sense"
                          : c->fault ? "the source of a long write to it cannot be read"
                                     : "its connection has ended");
    return any;
}

/* Of a few it costs less to read each than to ask which of them has something; but not one that the
 * same thread has just polled. The last comes first, since one that ends is taken out. */
static bool receive_each(struct tcp_fabric *f)
{
    bool any = false;

    for (int i = f->nready - 1; i >= 0; i--)
        if (f->ready[i] != f->polled)
            any = loci_tcp_receive(f->ready[i]) || any;
    f->polled = NULL;
    return any;
}

bool loci_tcp_serve_all(struct tcp_fabric *f)
{
    struct epoll_event events[EVENTS];
    bool any = false;
    long n;

    if (f->nready <= TCP_FEW)
        return receive_each(f);
    n = syscall(SYS_epoll_pwait, f->epoll_fd, events, EVENTS, 0, NULL, 0);
    for (long i = 0; i < n; i++)
        any = loci_tcp_receive(events[i].data.ptr) || any;
    return any;
}
