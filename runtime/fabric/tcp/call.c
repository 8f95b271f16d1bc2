/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections that are new: both ends prove who they are (dial.h). The service thread's.
 *
 * Anybody can call. Until a caller has proven that it belongs to the job it costs a descriptor and
 * one of these records, of which there are few: the oldest makes room. It has some seconds, and
 * what it says is a hello and nothing else, or it is refused. */

#include "config.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "descriptor.h"
#include "dial.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)
#define CONNECT_NS (4 * SECOND)     /* the kernel asks after 0, 1 and 3 of these */
#define HELLO_NS (5 * SECOND)       /* for a caller to say who it is */
#define ANSWER_NS (15 * SECOND)     /* for one that may not have met us yet */
#define UNPROVEN_MOST 64

/* ---- descriptors ---- */

bool loci_tcp_watch(struct tcp_dials *d, struct tcp_watch *w, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = w };
    int what = w->events != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (w->events == events)
        return true;
    if (epoll_ctl(d->epoll_fd, what, w->fd, &event) != 0)
        return false;
    w->events = events;
    return true;
}

/* Not by closing it: a child that the program has forked may have it, too. */
static void unwatch(struct tcp_dials *d, struct tcp_watch *w)
{
    if (w->events != 0)
        epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    w->events = 0;
}

void loci_tcp_hang_up(struct tcp_dials *d, struct tcp_watch *w)
{
    if (w->fd < 0)
        return;
    unwatch(d, w);
    shutdown(w->fd, SHUT_RDWR);     /* for such a child's copy */
    close(w->fd);
    w->fd = -1;
}

static int whole_seconds(int64_t ns, int least)
{
    int64_t seconds = ns / SECOND;

    return seconds < least ? least : seconds > 32767 ? 32767 : (int)seconds;
}

/* What is sent and not acknowledged, and where nothing is sent the kernel's question whether the
 * other end is there, may take as long as a peer may be silent. */
static void set_options(const struct loco_runtime *rt, int fd)
{
    int64_t limit = rt->tunables.peer_timeout;
    unsigned ms = limit / 1000000 > INT_MAX ? INT_MAX : (unsigned)(limit / 1000000);
    int on = 1, idle = whole_seconds(limit / 2, 1), every = whole_seconds(limit / 6, 1), many = 3;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    if (limit == LOCI_INFINITE)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof many);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* ---- life ---- */

static void event_of(struct tcp_watch *w, uint32_t events);

/* NULL: no memory; fd is closed then. */
static struct tcp_call *new_call(struct tcp_dials *d, int fd, enum tcp_stage stage, int64_t time)
{
    struct tcp_call *c = calloc(1, sizeof *c);

    if (c == NULL) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    c->watch = (struct tcp_watch){ .fd = fd, .fn = event_of };
    c->dials = d;
    c->stage = stage;
    c->until = loci_now(d->fabric->rt) + time;
    c->next = d->calls;
    c->at = &d->calls;
    if (c->next != NULL)
        c->next->at = &c->next;
    d->calls = c;
    d->unproven += stage == TCP_UNPROVEN;
    return c;
}

static struct tcp_try *try_of(struct tcp_link *l, enum loci_purpose purpose)
{
    return purpose == LOCI_CALL_DATA ? &l->data : &l->meeting;
}

static void free_call(struct tcp_call *c)
{
    *c->at = c->next;
    if (c->next != NULL)
        c->next->at = c->at;
    c->dials->unproven -= c->stage == TCP_UNPROVEN;
    if (c->link != NULL && try_of(c->link, c->purpose)->call == c)
        try_of(c->link, c->purpose)->call = NULL;
    free(c);
}

void loci_tcp_call_drop(struct tcp_call *c)
{
    loci_tcp_hang_up(c->dials, &c->watch);
    free_call(c);
}

/* One that has a link: it has come to nothing, */
static void fail(struct tcp_call *c, int error)
{
    struct tcp_link *l = c->link;
    enum loci_purpose purpose = c->purpose;

    loci_tcp_call_drop(c);
    loci_tcp_dialled(l, purpose, -1, error);
}

/* or it has served. */
static void hand_over(struct tcp_call *c)
{
    struct tcp_link *l = c->link;
    enum loci_purpose purpose = c->purpose;
    int fd = c->watch.fd;

    unwatch(c->dials, &c->watch);
    free_call(c);
    loci_tcp_dialled(l, purpose, fd, 0);
}

static void refuse_stranger(struct tcp_call *c)
{
    struct tcp_dials *d = c->dials;
    struct loco_runtime *rt = d->fabric->rt;
    uint64_t times = loci_log_seldom(&d->links.refused, loci_now(rt));

    if (times > 0)
        LOCI_LOG(rt, LOCO_LOG_WARN, "a stranger's call is refused, the last of %llu",
                 (unsigned long long)times);
    loci_tcp_call_drop(c);
}

/* ---- what is said ---- */

/* These few bytes find room in a connection that is new; else errno says why. */
static bool say(const struct tcp_call *c, const void *bytes, size_t len)
{
    ssize_t n = send(c->watch.fd, bytes, len, MSG_NOSIGNAL);

    if (n >= 0 && n < (ssize_t)len)
        errno = ENOBUFS;
    return n == (ssize_t)len;
}

static bool say_hello(const struct tcp_call *c, enum loci_purpose purpose)
{
    struct loci_hello hello;

    loci_hello_fill(&hello, purpose, &c->dials->fabric->rt->address,
                    &c->link->link.peer->address);
    return say(c, &hello, sizeof hello);
}

static enum loci_purpose answer_to(enum loci_purpose purpose)
{
    return purpose == LOCI_CALL_DATA ? LOCI_ANSWER_DATA : LOCI_ANSWER;
}

/* So many bytes, no more: 1, they are here; 0, not yet; -1, there was an error, or the end. */
static int hear(struct tcp_call *c, unsigned len)
{
    ssize_t n = recv(c->watch.fd, c->bytes + c->got, len - c->got, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    c->got += (unsigned)n;
    return c->got == len;
}

/* ---- we call ---- */

/* -1: errno says why, and the log, if there are no descriptors. */
static int open_socket(struct tcp_dials *d, int family)
{
    struct loco_runtime *rt = d->fabric->rt;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (loci_descriptor_make_room(rt, fd))
        fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)
        && loci_log_seldom(&d->missing, loci_now(rt)) > 0)
        loci_descriptor_missing(rt, "no descriptor to connect to other processes with");
    return fd;
}

struct tcp_call *loci_tcp_call(struct tcp_link *l, enum loci_purpose purpose,
                               const struct loci_tcp_place *place)
{
    struct tcp_dials *d = l->link.links->owner;
    struct sockaddr_storage to;
    socklen_t len = loci_tcp_sockaddr(place, &to);
    int fd = open_socket(d, to.ss_family), error;
    struct tcp_call *c;

    if (fd < 0)
        return NULL;
    set_options(d->fabric->rt, fd);
    if (connect(fd, (struct sockaddr *)&to, len) != 0 && errno != EINPROGRESS) {
        error = errno;
        close(fd);
        errno = error;
        return NULL;
    }
    c = new_call(d, fd, TCP_DIALLED, CONNECT_NS);
    if (c == NULL)
        return NULL;
    c->link = l;
    c->purpose = purpose;
    if (loci_tcp_watch(d, &c->watch, EPOLLOUT))
        return c;
    error = errno;
    loci_tcp_call_drop(c);
    errno = error;
    return NULL;
}

static void is_connected(struct tcp_call *c)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error == 0 && !(say_hello(c, c->purpose)
                        && loci_tcp_watch(c->dials, &c->watch, EPOLLIN)))
        error = errno;
    if (error != 0) {
        fail(c, error);
        return;
    }
    c->stage = TCP_ASKED;
    c->until = loci_now(c->dials->fabric->rt) + ANSWER_NS;
}

/* Who answers knows our secret, and is the one that we have called. */
static bool is_answer(const struct tcp_call *c)
{
    const struct loci_address *it = &c->link->link.peer->address;
    struct loci_hello hello;

    memcpy(&hello, c->bytes, sizeof hello);
    return loci_hello_is_sound(&hello, answer_to(c->purpose), &c->dials->fabric->rt->address)
           && hello.from == it->identity && hello.label == it->label;
}

static void is_answered(struct tcp_call *c)
{
    const uint64_t agreed = TCP_AGREED;
    int heard = hear(c, sizeof(struct loci_hello));

    if (heard == 0)
        return;
    if (heard < 0 || !is_answer(c))
        fail(c, TCP_STRANGER);
    else if (!say(c, &agreed, sizeof agreed))
        fail(c, errno);
    else
        hand_over(c);
}

/* ---- they call ---- */

static void make_room(struct tcp_dials *d)
{
    struct tcp_call *oldest = NULL;

    if (d->unproven < UNPROVEN_MOST)
        return;
    for (struct tcp_call *c = d->calls; c != NULL; c = c->next)
        if (c->stage == TCP_UNPROVEN)
            oldest = c;
    refuse_stranger(oldest);
}

void loci_tcp_called(struct tcp_dials *d, int fd)
{
    struct tcp_call *c;

    make_room(d);
    set_options(d->fabric->rt, fd);
    c = new_call(d, fd, TCP_UNPROVEN, HELLO_NS);
    if (c == NULL)
        return;
    loci_links_tick(&d->links);
    if (!loci_tcp_watch(d, &c->watch, EPOLLIN))
        loci_tcp_call_drop(c);
}

/* Who calls has the lower identity. */
static bool is_for_us(struct tcp_call *c, const struct loci_hello *hello)
{
    const struct loci_address *me = &c->dials->fabric->rt->address;

    c->purpose = loci_hello_is_sound(hello, LOCI_CALL, me) ? LOCI_CALL : LOCI_CALL_DATA;
    return hello->from < me->identity && loci_hello_is_sound(hello, c->purpose, me);
}

static void says_hello(struct tcp_call *c)
{
    int heard = hear(c, sizeof(struct loci_hello));
    struct loci_hello hello;

    if (heard == 0)
        return;
    memcpy(&hello, c->bytes, sizeof hello);
    if (heard < 0 || !is_for_us(c, &hello)) {
        refuse_stranger(c);
        return;
    }
    c->dials->unproven--;
    c->stage = TCP_PARKED;
    c->until = INT64_MAX;
    if (loci_tcp_watch(c->dials, &c->watch, EPOLLRDHUP))
        loci_tcp_proven(c->dials, c, hello.from, hello.label);
    else
        loci_tcp_call_drop(c);
}

/* It is for the caller to give it up, which its end of the connection tells. If both did so by the
 * clock, a caller that is kept from the processor for so long might agree to what is not there any
 * more, have a connection that ends at once, and take this process for dead. */
struct tcp_call *loci_tcp_answer(struct tcp_link *l, struct tcp_call *c)
{
    c->link = l;
    c->stage = TCP_ANSWERED;
    c->got = 0;
    c->until = INT64_MAX;
    if (say_hello(c, answer_to(c->purpose)) && loci_tcp_watch(c->dials, &c->watch, EPOLLIN))
        return c;
    loci_tcp_call_drop(c);
    return NULL;
}

static void agrees(struct tcp_call *c)
{
    const uint64_t agreed = TCP_AGREED;
    int heard = hear(c, sizeof agreed);

    if (heard == 0)
        return;
    if (heard < 0 || memcmp(c->bytes, &agreed, sizeof agreed) != 0)
        fail(c, TCP_STRANGER);
    else
        hand_over(c);
}

/* ---- events ---- */

static void event_of(struct tcp_watch *w, uint32_t events)
{
    struct tcp_call *c = (struct tcp_call *)w;

    (void)events;
    switch (c->stage) {
    case TCP_DIALLED: is_connected(c); break;
    case TCP_ASKED: is_answered(c); break;
    case TCP_UNPROVEN: says_hello(c); break;
    case TCP_PARKED:            /* it has given up */
        loci_link_unparked(&c->dials->links, c);
        loci_tcp_call_drop(c);
        break;
    case TCP_ANSWERED: agrees(c); break;
    }
}

static struct tcp_call *too_late(const struct tcp_dials *d, int64_t now)
{
    struct tcp_call *c = d->calls;

    while (c != NULL && c->until >= now)
        c = c->next;
    return c;
}

/* What comes of one may begin another, and end others. */
void loci_tcp_calls_tick(struct tcp_dials *d)
{
    int64_t now = loci_now(d->fabric->rt);
    struct tcp_call *c;

    while ((c = too_late(d, now)) != NULL) {
        if (c->stage == TCP_UNPROVEN)
            refuse_stranger(c);
        else
            fail(c, c->stage == TCP_DIALLED ? ETIMEDOUT : TCP_SILENT);
    }
}
