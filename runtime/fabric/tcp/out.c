/* SPDX-License-Identifier: BSD-3-Clause */

/* What is to be sent on a connection.
 *
 * Two queues: requests, in the order of their posts, and answers, in the order of the peer's
 * requests. They share the stream, and answers go first wherever a frame ends, so that a peer who
 * waits for a word does not wait for a long write. A long write is queued by reference: its pieces
 * go to the system from the program's memory, and who posted it is told when all are sent.
 *
 * Nothing here blocks. What the socket does not take stays; epoll then tells when there is room.
 * Both queues are bounded: of requests post says LOCO_ERR_AGAIN, and answers wait as what is owed
 * (serve.c), of which the peer may ask no more than TCP_OWED. So reading never stops because
 * answers cannot be sent, and two processes that write to each other at once cannot stop each
 * other.
 *
 * Requests are gathered: what post leaves is sent with the next place, read or atomic, when half of
 * the room is used, by a poll, or by the service thread's tick. */

#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tcp.h"

#define IOV 32
/* Bytes of one sendmsg. With more the two ends take turns: the system keeps acknowledgements back
 * meanwhile, and the receiver copies what has left the cache (1 MiB at once takes thrice as long).
 * And of one turn: others wait for the lock. */
#define MOST ((size_t)TCP_PIECE)
#define BUDGET ((size_t)4 << 20)

/* ---- bytes ---- */

bool loci_tcp_bytes_open(struct tcp_bytes *b, size_t size)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return false;
    *b = (struct tcp_bytes){ .base = base, .size = size };
    return true;
}

void loci_tcp_bytes_close(struct tcp_bytes *b)
{
    if (b->base != NULL)
        munmap(b->base, b->size);
    *b = (struct tcp_bytes){ .base = NULL };
}

unsigned char *loci_tcp_bytes_room(struct tcp_bytes *b, size_t len)
{
    if (b->from == b->to) {
        b->from = b->to = 0;
    } else if (b->size - b->to < len && b->from >= b->size / 2) {
        memmove(b->base, b->base + b->from, b->to - b->from);
        b->to -= b->from;
        b->from = 0;
    }
    return b->size - b->to >= len ? b->base + b->to : NULL;
}

/* ---- requests ---- */

static struct tcp_item *item(struct tcp_conn *c, uint32_t at)
{
    return &c->items[at % TCP_ITEMS];
}

bool loci_tcp_has_room(struct tcp_conn *c, size_t bytes)
{
    return c->item_to - c->item_from < TCP_ITEMS
           && loci_tcp_bytes_room(&c->requests, bytes) != NULL;
}

bool loci_tcp_is_half_full(const struct tcp_conn *c)
{
    return c->requests.to - c->requests.from >= c->requests.size / 2
           || c->item_to - c->item_from >= TCP_ITEMS / 2;
}

static void mark_unsent(struct tcp_conn *c)
{
    atomic_store_explicit(&c->unsent, true, memory_order_relaxed);
}

/* One that is half sent grows no more, or answers would wait for ever behind it. */
static struct tcp_item *last_of_bytes(struct tcp_conn *c)
{
    struct tcp_item *last;

    if (c->item_from != c->item_to) {
        last = item(c, c->item_to - 1);
        if (last->request == NULL
            && !(c->cut == TCP_CUT_REQUEST && c->item_to - c->item_from == 1))
            return last;
    }
    last = item(c, c->item_to++);
    last->request = NULL;
    last->bytes = 0;
    return last;
}

/* The last frame, if it is a write of which nothing is sent, and the next would go on where it
 * ends. */
static unsigned char *last_write(struct tcp_conn *c, const struct tcp_frame *next, size_t len,
                                 struct tcp_frame *last)
{
    unsigned char *at = c->requests.base + c->requests.to - c->last_frame;
    const struct tcp_item *it;

    if (c->last_frame == 0 || c->requests.to - c->requests.from < c->last_frame)
        return NULL;
    it = item(c, c->item_to - 1);
    if (it->request != NULL
        || (c->cut == TCP_CUT_REQUEST && c->item_to - c->item_from == 1))
        return NULL;
    memcpy(last, at, sizeof *last);
    return last->lane == next->lane && last->extent == next->extent && last->kind == next->kind
           && last->at + last->len == next->at && last->len + len <= TCP_PIECE
           ? at : NULL;
}

/* Writes one behind the other in memory are one write. There is room for another frame. */
bool loci_tcp_extend(struct tcp_conn *c, const struct tcp_frame *next, const void *data,
                     size_t len)
{
    struct tcp_frame last;
    unsigned char *at = last_write(c, next, len, &last);
    size_t more = len;

    if (at == NULL)
        return false;
    if (last.op == TCP_WORDS && last.len + len <= TCP_WORDS_MOST) {
        memcpy(at + offsetof(struct tcp_frame, a) + last.len, data, len);
        more = 0;
    } else {
        if (last.op == TCP_WORDS) {
            memcpy(at + sizeof last, &last.a, last.len);
            more += last.len;
            last.op = TCP_WRITE;
        }
        memcpy(at + c->last_frame + more - len, data, len);
    }
    last.len += (uint32_t)len;
    memcpy(at, &last, offsetof(struct tcp_frame, a));
    c->requests.to += more;
    c->last_frame += more;
    item(c, c->item_to - 1)->bytes += more;
    return true;
}

void loci_tcp_queue(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                    size_t len)
{
    unsigned char *to = loci_tcp_bytes_room(&c->requests, sizeof *frame + len);

    memcpy(to, frame, sizeof *frame);
    if (len > 0)
        memcpy(to + sizeof *frame, data, len);
    c->requests.to += sizeof *frame + len;
    last_of_bytes(c)->bytes += sizeof *frame + len;
    c->last_frame = frame->op == TCP_WORDS || frame->op == TCP_WRITE ? sizeof *frame + len : 0;
    mark_unsent(c);
}

/* A piece ends with a word of the memory that it goes to (touch.c), unless it is the last. */
static void begin_piece(struct tcp_item *it)
{
    it->frame.len = it->left <= TCP_PIECE ? (uint32_t)it->left
                                          : TCP_PIECE - (uint32_t)(it->frame.at % 8);
    it->left -= it->frame.len;
    it->sent = 0;
}

void loci_tcp_queue_long(struct tcp_conn *c, const struct tcp_frame *frame, const void *source,
                         size_t len, struct tcp_request *request)
{
    struct tcp_item *it = item(c, c->item_to++);

    c->last_frame = 0;
    *it = (struct tcp_item){
        .request = request, .frame = *frame, .source = source, .left = len,
    };
    begin_piece(it);
    mark_unsent(c);
}

/* ---- sending ---- */

struct gathered {
    struct iovec iov[IOV];
    int n;
    size_t bytes;
};

static void add(struct gathered *g, const void *base, size_t len)
{
    if (len == 0)
        return;
    g->iov[g->n++] = (struct iovec){ (void *)base, len };
    g->bytes += len;
}

/* What is left of the piece under way. */
static void add_piece(struct gathered *g, const struct tcp_item *it)
{
    size_t head = sizeof it->frame;

    if (it->sent < head)
        add(g, (const unsigned char *)&it->frame + it->sent, head - it->sent);
    head = it->sent > head ? it->sent - head : 0;
    add(g, it->source + head, it->frame.len - head);
}

/* Items from the first on; `first_only`: that one. Bytes are taken from where the ring's begin. */
static void add_requests(struct gathered *g, struct tcp_conn *c, uint32_t from, uint32_t to,
                         uint64_t *at)
{
    for (; from != to && g->n + 2 <= IOV && g->bytes < MOST; from++) {
        const struct tcp_item *it = item(c, from);

        if (it->request == NULL) {
            add(g, c->requests.base + *at, it->bytes);
            *at += it->bytes;
            continue;
        }
        add_piece(g, it);
        if (it->left > 0)
            return;             /* its next piece comes before what is behind it */
    }
}

static void gather(struct tcp_conn *c, struct gathered *g)
{
    uint32_t first = c->item_from;
    uint64_t at = c->requests.from;

    g->n = 0;
    g->bytes = 0;
    if (c->cut == TCP_CUT_REQUEST) {
        bool goes_on = item(c, first)->request != NULL && item(c, first)->left > 0;

        add_requests(g, c, first, first + 1, &at);
        first++;
        add(g, c->answers.base + c->answers.from, c->answers.to - c->answers.from);
        if (goes_on)
            return;
    } else {
        add(g, c->answers.base + c->answers.from, c->answers.to - c->answers.from);
    }
    add_requests(g, c, first, c->item_to, &at);
}

static void finish(struct tcp_request *r, int status)
{
    r->status = status;
    /* Pairs with the acquire of the lane's poll: the source is the program's again. */
    atomic_store_explicit(&r->done, true, memory_order_release);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* n bytes of the first item are sent, at most; how many of them were its. */
static size_t consume_request(struct tcp_conn *c, size_t n)
{
    struct tcp_item *it = item(c, c->item_from);
    size_t took;

    c->cut = TCP_CUT_REQUEST;
    if (it->request == NULL) {
        took = least(n, it->bytes);
        it->bytes -= took;
        c->requests.from += took;
        if (it->bytes > 0)
            return took;
    } else {
        took = least(n, sizeof it->frame + it->frame.len - it->sent);
        it->sent += took;
        if (it->sent < sizeof it->frame + it->frame.len)
            return took;
        if (it->left > 0) {
            it->source += it->frame.len;
            it->frame.at += it->frame.len;
            begin_piece(it);
            c->cut = TCP_CUT_NONE;
            return took;
        }
        finish(it->request, LOCO_OK);
    }
    c->item_from++;
    c->cut = TCP_CUT_NONE;
    return took;
}

static size_t consume_answers(struct tcp_conn *c, size_t n)
{
    size_t took = least(n, c->answers.to - c->answers.from);

    c->answers.from += took;
    c->cut = c->answers.from == c->answers.to ? TCP_CUT_NONE : TCP_CUT_ANSWER;
    return took;
}

/* In the order of gather(): so many bytes are sent. */
static void consume(struct tcp_conn *c, size_t n)
{
    if (c->cut == TCP_CUT_REQUEST)
        n -= consume_request(c, n);
    if (n > 0 && c->answers.from != c->answers.to)
        n -= consume_answers(c, n);
    while (n > 0)
        n -= consume_request(c, n);
}

static bool is_empty(const struct tcp_conn *c)
{
    return c->item_from == c->item_to && c->answers.from == c->answers.to;
}

int loci_tcp_pump(struct tcp_conn *c)
{
    size_t sent = 0;
    struct gathered g;

    if (c->fd < 0)
        return LOCO_OK;             /* not connected yet, or no more */
    while (!is_empty(c) && sent < BUDGET) {
        struct msghdr message = { .msg_iov = g.iov };
        ssize_t n;

        gather(c, &g);
        message.msg_iovlen = (size_t)g.n;
        n = syscall(SYS_sendmsg, c->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            c->fault = errno == EFAULT;
            return errno == EAGAIN || errno == EWOULDBLOCK ? LOCO_OK : LOCO_ERR_SYSTEM;
        }
        sent += (size_t)n;
        consume(c, (size_t)n);
        loci_stats_add(c->fabric->rt->stats, LOCI_STAT_TCP + LOCI_STATS_TCP_BYTES_OUT,
                       (uint64_t)n);
    }
    if (is_empty(c))
        atomic_store_explicit(&c->unsent, false, memory_order_relaxed);
    return LOCO_OK;
}

void loci_tcp_send_unsent(struct tcp_conn *c)
{
    if (!atomic_load_explicit(&c->unsent, memory_order_relaxed))
        return;
    pthread_mutex_lock(&c->lock);
    /* If it has failed, who reads the connection is told, too, and ends it. */
    (void)loci_tcp_pump(c);
    if (atomic_load_explicit(&c->unsent, memory_order_relaxed))
        loci_tcp_want_room(c, true);
    pthread_mutex_unlock(&c->lock);
}

/* ---- the end ---- */

void loci_tcp_drop_queued(struct tcp_conn *c, int status)
{
    for (; c->item_from != c->item_to; c->item_from++)
        if (item(c, c->item_from)->request != NULL)
            finish(item(c, c->item_from)->request, status);
    c->requests.from = c->requests.to = 0;
    c->answers.from = c->answers.to = 0;
    c->cut = TCP_CUT_NONE;
    atomic_store_explicit(&c->unsent, false, memory_order_relaxed);
}
