/* SPDX-License-Identifier: BSD-3-Clause */

/* Links: their messages over a connection; the service thread's. Nothing that comes is believed
 * before it was looked at: a stream of which one message is wrong has lost its bounds, so it ends.
 *
 * A link keeps nothing but the beginning of a message that has not come in full, and the one that
 * is sent in part. */

#include "config.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dial.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)
#define READ_BYTES 16384        /* at once; a few messages of the longest */
#define READS 8                 /* before others have their turn */
#define READS_LAST 4096         /* before the end: more than a socket holds */
#define FLUSH_NS SECOND

static struct tcp_dials *dials_of(const struct tcp_link *l)
{
    return l->link.links->owner;
}

/* It has a connection. */
static bool is_open(const struct tcp_link *l)
{
    return l->watch.fn != NULL && l->watch.fd >= 0;
}

/* ---- in ---- */

static void is_wrong(struct tcp_link *l, const char *what)
{
    l->deaf = true;
    LOCI_LOG(l->link.links->rt, LOCO_LOG_ERROR, "a message of process %016llx (pid %d) is wrong: "
             "%s. Its connection is ended", (unsigned long long)l->link.peer->address.identity,
             (int)l->link.peer->address.pid, what);
    loci_link_fail(&l->link, "it sent what makes no sense");
}

/* Take the whole messages among these bytes; how many bytes that are. */
static size_t take(struct tcp_link *l, const unsigned char *bytes, size_t len)
{
    struct loci_link_head head;
    size_t at = 0;

    while (!l->deaf && len - at >= sizeof head) {
        const char *wrong;

        memcpy(&head, bytes + at, sizeof head);
        wrong = loci_link_check(&head, l->link.peer->address.identity);
        if (wrong == NULL && len - at - sizeof head < head.len)
            break;
        if (wrong == NULL)
            wrong = loci_link_take(&l->link, &head, bytes + at + sizeof head);
        if (wrong != NULL)
            is_wrong(l, wrong);
        at += sizeof head + head.len;
    }
    return at;
}

/* The beginning of a message, until the rest of it is here. */
static void keep(struct tcp_link *l, const unsigned char *bytes, size_t len)
{
    l->rest = malloc(len);
    l->rest_len = len;
    if (l->rest != NULL) {
        memcpy(l->rest, bytes, len);
        return;
    }
    l->deaf = true;
    loci_link_fail(&l->link, "there is no memory for its messages");
}

/* Read once: whether there may be more. *how, where it has ended. */
static bool read_some(struct tcp_link *l, const char **how)
{
    unsigned char in[READ_BYTES];
    size_t len = l->rest_len, taken;
    ssize_t n = recv(l->watch.fd, in + len, sizeof in - len, 0);

    if (n <= 0) {
        bool later = n < 0 && (errno == EAGAIN || errno == EINTR);

        if (!later)
            *how = n == 0 || errno == ECONNRESET ? "its connection has ended"
                   : errno == ETIMEDOUT ? "its machine does not answer" : "its connection failed";
        return false;
    }
    l->heard = loci_now(l->link.links->rt);
    if (len > 0)
        memcpy(in, l->rest, len);
    free(l->rest);
    l->rest = NULL;
    l->rest_len = 0;
    len += (size_t)n;
    taken = take(l, in, len);
    if (!l->deaf && taken < len)
        keep(l, in + taken, len - taken);
    return (size_t)n == sizeof in - (len - (size_t)n);
}

/* Not while what it read is taken. How it has ended, or NULL. */
static const char *read_all(struct tcp_link *l, int most)
{
    const char *how = NULL;

    if (l->taking || !is_open(l))
        return NULL;
    l->taking = true;
    while (most-- > 0 && !l->deaf && read_some(l, &how))
        ;
    l->taking = false;
    return how;
}

void loci_tcp_link_drain(struct loci_link *link)
{
    (void)read_all(tcp_link_of(link), READS_LAST);
}

/* ---- out ---- */

/* What came from it before is taken before its end is told. */
static void send_failed(struct tcp_link *l)
{
    loci_link_fail(&l->link, errno == ETIMEDOUT ? "its machine does not answer"
                   : "its connection has ended");
}

/* Whether that is all of it. */
static bool send_out(struct tcp_link *l)
{
    const unsigned char *bytes = (const unsigned char *)&l->out->head;
    size_t len = sizeof l->out->head + l->out->head.len;

    while (l->out_sent < len) {
        ssize_t n = send(l->watch.fd, bytes + l->out_sent, len - l->out_sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                send_failed(l);
            return false;
        }
        l->out_sent += (size_t)n;
    }
    return true;
}

void loci_tcp_link_pump(struct loci_link *link)
{
    struct tcp_link *l = tcp_link_of(link);
    uint32_t events = EPOLLIN;

    while (link->failure == NULL) {
        if (l->out == NULL) {
            l->out = loci_link_next(link);
            l->out_sent = 0;
        }
        if (l->out == NULL)
            break;
        if (!send_out(l)) {
            events |= EPOLLOUT;
            break;
        }
        free(l->out);
        l->out = NULL;
        atomic_fetch_sub_explicit(&link->queued, 1, memory_order_relaxed);
    }
    if (link->failure == NULL && !loci_tcp_watch(dials_of(l), &l->watch, events))
        loci_link_fail(link, "its connection cannot be watched");
}

/* ---- life ---- */

static void event_of(struct tcp_watch *w, uint32_t events)
{
    struct tcp_link *l = (struct tcp_link *)(void *)((char *)w - offsetof(struct tcp_link, watch));
    const char *how = read_all(l, READS);

    if (how != NULL || l->link.failure != NULL)
        loci_link_ended(&l->link, l->link.failure != NULL ? l->link.failure : how);
    else if (events & EPOLLOUT)
        loci_tcp_link_pump(&l->link);
}

void loci_tcp_link_connected(struct tcp_link *l, int fd)
{
    l->watch = (struct tcp_watch){ .fd = fd, .fn = event_of };
    l->heard = loci_now(l->link.links->rt);
    l->deaf = false;
    loci_tcp_link_pump(&l->link);
}

/* What is there and not read would be answered by a reset, which our last words might not
 * survive. */
void loci_tcp_link_close(struct tcp_link *l)
{
    unsigned char in[READ_BYTES];

    if (is_open(l)) {
        for (int i = 0; i < READS_LAST && recv(l->watch.fd, in, sizeof in, 0) > 0; i++)
            ;
        loci_tcp_hang_up(dials_of(l), &l->watch);
    }
    free(l->out);
    free(l->rest);
    l->out = NULL;
    l->rest = NULL;
    l->rest_len = 0;
}

/* One that beats as seldom as we do, with so many links, is not silent before it has had its
 * turn. */
void loci_tcp_link_look(struct loci_link *link, unsigned every)
{
    struct tcp_link *l = tcp_link_of(link);
    struct loco_runtime *rt = link->links->rt;
    int64_t limit = rt->tunables.peer_timeout, awake = dials_of(l)->awake, silent;
    const char *how;

    if (limit == LOCI_INFINITE)
        return;
    if (limit < 3 * every * SECOND)
        limit = 3 * every * SECOND;
    silent = loci_now(rt) - (l->heard > awake ? l->heard : awake);
    if (silent <= limit) {
        loci_links_look_in(link->links, limit - silent + 1);
        return;
    }
    how = read_all(l, READS_LAST);
    if (how != NULL)
        loci_link_ended(link, how);
    else if (loci_now(rt) - l->heard > limit)
        loci_link_ended(link, "nothing was heard of it for longer than LOCO_PEER_TIMEOUT");
}

static bool all_is_there(const struct tcp_dials *d)
{
    for (struct loci_link *l = d->links.all; l != NULL; l = l->next) {
        int waiting = 0;

        if (is_open(tcp_link_of(l))
            && ioctl(tcp_link_of(l)->watch.fd, SIOCOUTQ, &waiting) == 0 && waiting > 0)
            return false;
    }
    return true;
}

void loci_tcp_links_flush(struct tcp_dials *d)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int64_t begin = loci_now(d->links.rt);

    while (!all_is_there(d) && loci_now(d->links.rt) - begin < FLUSH_NS)
        nanosleep(&pause, NULL);
}
