/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: two processes of two machines get to know each other by a connection over TCP. Who has
 * called is rank 0, measures, and says what. The listener serves one caller; strangers are sent
 * away. */
#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "perf.h"

#define MAGIC UINT64_C(0x4c4f434f50455246)      /* with the interface's version: same program */
#define GREETED 5               /* seconds until a caller has said who it is */
#define PLACES UINT64_C(0xfff)  /* of an identity: the process's number in its job */

struct greeting {
    uint64_t magic, version, job;
};

struct wire {
    int fd, rank;
    uint64_t job;
};

static int told(const char *what, const char *why)
{
    fprintf(stderr, "loco-perf: %s: %s\n", what, why);
    return 2;
}

/* ---- the connection ---- */

static bool write_all(int fd, const void *from, size_t len)
{
    for (const unsigned char *at = from; len > 0;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *to, size_t len)
{
    for (unsigned char *at = to; len > 0;) {
        ssize_t n = recv(fd, at, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

#define PIECE ((size_t)4096)    /* within what a socket takes while the other side writes, too */

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    const struct wire *w = ctx;
    unsigned char *own = (unsigned char *)all + (size_t)w->rank * len;
    unsigned char *others = (unsigned char *)all + (size_t)(1 - w->rank) * len;
    unsigned char turn = 0;

    memmove(own, mine, len);
    for (size_t at = 0; at < len; at += PIECE) {
        size_t n = len - at < PIECE ? len - at : PIECE;

        if (!write_all(w->fd, own + at, n) || !read_all(w->fd, others + at, n))
            return LOCO_ERR_PEER_DEAD;
    }
    if (len == 0 && (!write_all(w->fd, &turn, 1) || !read_all(w->fd, &turn, 1)))
        return LOCO_ERR_PEER_DEAD;
    return LOCO_OK;
}

/* A machine that is gone is noticed: the rest of the time nobody sends anything here. */
static void set_up(int fd)
{
    int on = 1, idle = 5, tries = 3;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void patience(int fd, int seconds)
{
    struct timeval limit = { .tv_sec = seconds };

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/* Both say what they are; the caller's number is the job's. */
static bool greet(struct wire *w, uint64_t job)
{
    struct greeting mine = { MAGIC, loco_api_version(), job }, other;
    bool same;

    patience(w->fd, GREETED);
    same = write_all(w->fd, &mine, sizeof mine) && read_all(w->fd, &other, sizeof other)
           && other.magic == mine.magic && other.version == mine.version;
    patience(w->fd, 0);
    if (same)
        w->job = w->rank == 0 ? job : other.job;
    return same;
}

static struct addrinfo *addresses(const char *host, const char *port)
{
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = host == NULL ? AI_PASSIVE : 0,
        .ai_family = host == NULL ? AF_INET6 : AF_UNSPEC,
    }, *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);

    if (error != 0 && host == NULL) {           /* a machine without IPv6 */
        hints.ai_family = AF_INET;
        error = getaddrinfo(host, port, &hints, &list);
    }
    if (error != 0)
        told(host != NULL ? host : port, gai_strerror(error));
    return error != 0 ? NULL : list;
}

static int call(struct wire *w, const char *host, const char *port)
{
    struct addrinfo *list = addresses(host, port);
    uint64_t job;

    if (list == NULL)
        return 2;
    w->fd = -1;
    for (struct addrinfo *a = list; a != NULL && w->fd < 0; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            w->fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    if (w->fd < 0) {
        fprintf(stderr, "loco-perf: %s, port %s: %s; is loco-perf --listen running there?\n", host,
                port, strerror(errno));
        return 2;
    }
    set_up(w->fd);
    if (getrandom(&job, sizeof job, 0) != sizeof job || !greet(w, job))
        return told(host, "it answers, but is no loco-perf of this version");
    return 0;
}

static int open_listener(const char *port)
{
    struct addrinfo *list = addresses(NULL, port);
    int fd, on = 1, both = 0;

    if (list == NULL)
        return -1;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 && list->ai_family == AF_INET6) {
        struct sockaddr_in any = {
            .sin_family = AF_INET,
            .sin_port = ((const struct sockaddr_in6 *)(const void *)list->ai_addr)->sin6_port,
        };

        list->ai_addrlen = sizeof any;
        memcpy(list->ai_addr, &any, sizeof any);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    }
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, 8) != 0) {
        fprintf(stderr, "loco-perf: port %s: %s\n", port, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

static int await_call(struct wire *w, const char *port)
{
    int listener = open_listener(port);

    if (listener < 0)
        return 2;
    fprintf(stderr, "loco-perf: listening on port %s\n", port);
    for (;;) {
        w->fd = accept(listener, NULL, NULL);
        if (w->fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (w->fd < 0) {
            close(listener);
            return told("accept", strerror(errno));
        }
        set_up(w->fd);
        if (greet(w, 0))
            break;
        told("a caller", "it is no loco-perf of this version");
        close(w->fd);
    }
    close(listener);
    return 0;
}

/* ---- the job of two ---- */

int perf_wire_run(const struct perf_options *o)
{
    struct wire w = { .rank = o->listen ? 1 : 0 };
    int status = o->listen ? await_call(&w, o->port) : call(&w, o->host, o->port);
    struct loco_bootstrap boot = {
        .exchange = { .ctx = &w, .rank = w.rank, .size = 2, .allgather = allgather },
        .other_machines = true,
    };
    struct perf_options all = *o;

    if (status != 0)
        return status;
    boot.identity = (w.job & ~PLACES) | (uint64_t)w.rank;
    status = perf_sweep_member(&boot, &all);
    close(w.fd);
    return status;
}
