/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections between machines of a pool: see net.h. */

#include "config.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "names/interfaces.h"
#include "net.h"
#include "runtime.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)

unsigned loci_pool_port(const char *pool)
{
    uint32_t hash = 2166136261u;

    for (; *pool != '\0'; pool++)
        hash = (hash ^ (unsigned char)*pool) * 16777619u;
    return 20000 + hash % 10000;
}

static int whole_seconds(int64_t ns)
{
    int64_t seconds = ns / SECOND;

    return seconds < 1 ? 1 : seconds > 32767 ? 32767 : (int)seconds;
}

void loci_pool_tune(const loco_runtime_t *rt, int fd)
{
    int64_t limit = rt->tunables.peer_timeout;
    unsigned ms = limit / 1000000 > INT_MAX ? INT_MAX : (unsigned)(limit / 1000000);
    int on = 1, idle = whole_seconds(limit / 2), every = whole_seconds(limit / 6), many = 3;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (limit == LOCI_INFINITE)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof many);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* ---- bytes ---- */

static int wait_for(loco_runtime_t *rt, int fd, short events, int64_t until)
{
    struct pollfd p = { .fd = fd, .events = events };
    int64_t left = (until - loci_now(rt)) / 1000000;

    if (left <= 0)
        return 0;
    return poll(&p, 1, left > 1000 ? 1000 : (int)left);
}

int loci_pool_send_all(loco_runtime_t *rt, int fd, const void *bytes, size_t len, int64_t until)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return LOCO_ERR_PEER_DEAD;
        } else if (wait_for(rt, fd, POLLOUT, until) == 0 && loci_now(rt) >= until) {
            errno = ETIMEDOUT;
            return LOCO_ERR_PEER_DEAD;
        }
    }
    return LOCO_OK;
}

int loci_pool_recv_all(loco_runtime_t *rt, int fd, void *bytes, size_t len, int64_t until)
{
    char *at = bytes;

    while (len > 0) {
        ssize_t n = recv(fd, at, len, MSG_DONTWAIT);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (n == 0) {
            errno = ECONNRESET;
            return LOCO_ERR_PEER_DEAD;
        } else if (errno != EAGAIN && errno != EINTR) {
            return LOCO_ERR_PEER_DEAD;
        } else if (wait_for(rt, fd, POLLIN, until) == 0 && loci_now(rt) >= until) {
            errno = ETIMEDOUT;
            return LOCO_ERR_PEER_DEAD;
        }
    }
    return LOCO_OK;
}

/* ---- calling ---- */

/* -1: errno. */
static int connect_to(loco_runtime_t *rt, const struct loci_tcp_place *place, int64_t until)
{
    struct sockaddr_storage to;
    socklen_t len = loci_tcp_sockaddr(place, &to), size = sizeof(int);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&to, len) != 0) {
        error = errno;
        while (error == EINPROGRESS) {
            if (wait_for(rt, fd, POLLOUT, until) > 0)
                error = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno : error;
            else if (loci_now(rt) >= until)
                error = ETIMEDOUT;
        }
    }
    if (error == 0) {
        loci_pool_tune(rt, fd);
        return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

static int prove(loco_runtime_t *rt, int fd, enum loci_pool_caller caller,
                 struct loci_pool_session *s, int64_t until)
{
    struct loci_pool_greeting greeting;
    struct loci_pool_answer answer;
    struct loci_pool_call call;
    int status = loci_pool_recv_all(rt, fd, &greeting, sizeof greeting, until);

    if (status == LOCO_OK)
        status = loci_pool_call(rt, s, &greeting, caller, &call);
    if (status == LOCO_OK)
        status = loci_pool_send_all(rt, fd, &call, sizeof call, until);
    if (status == LOCO_OK)
        status = loci_pool_recv_all(rt, fd, &answer, sizeof answer, until);
    return status == LOCO_OK ? loci_pool_hear_answer(s, &answer) : status;
}

static const char *why_not(int status)
{
    switch (status) {
    case LOCO_ERR_MISMATCH:
        return "it has another secret, or is of another pool: the secret's file must be the same "
               "on all machines of a pool";
    case LOCO_ERR_PROTOCOL:
        return "what answers there is no agent of this version of libloco";
    default:
        return strerror(errno);
    }
}

int loci_pool_dial(loco_runtime_t *rt, int level, const struct loci_tcp_place *place, int n,
                   enum loci_pool_caller caller, struct loci_pool_session *s)
{
    int result = LOCO_ERR_PEER_DEAD;

    for (int i = 0; i < n && place[i].port != 0; i++) {
        int64_t until = loci_now(rt) + LOCI_POOL_PATIENCE;
        int fd = connect_to(rt, &place[i], until);
        int status = fd < 0 ? LOCO_ERR_PEER_DEAD : prove(rt, fd, caller, s, until);
        char text[TCP_PLACE_TEXT];

        if (status == LOCO_OK)
            return fd;
        loci_tcp_place_text(&place[i], text);
        LOCI_LOG(rt, status == LOCO_ERR_MISMATCH ? LOCO_LOG_ERROR : level,
                 "the pool's agent at %s: %s", text, why_not(status));
        if (fd >= 0)
            close(fd);
        if (result == LOCO_ERR_PEER_DEAD)
            result = status;
    }
    return result;
}

/* 0: it is none. */
static unsigned port_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits == 0 || digits > 5 || text[digits] != '\0' ? 0 : (unsigned)atoi(text);
}

/* HOST, HOST:PORT, or [ADDRESS]:PORT. */
static bool split(const char *text, unsigned port, char host[256], char service[8])
{
    const char *colon = strrchr(text, ':'), *close = strchr(text, ']');
    bool bracket = text[0] == '[';
    size_t len = strlen(text);

    if (bracket && (close == NULL || (close[1] != '\0' && close + 1 != colon)))
        return false;
    if (colon != NULL && (bracket ? colon == close + 1 : strchr(text, ':') == colon)) {
        len = (size_t)(colon - text);
        port = port_of(colon + 1);
    }
    if (bracket) {
        text++;
        len = (size_t)(close - text);
    }
    if (len == 0 || len >= 256 || port < 1 || port > 65535)
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    snprintf(service, 8, "%u", port);
    return true;
}

int loci_pool_resolve(loco_runtime_t *rt, const char *text, unsigned port,
                      struct loci_tcp_place place[LOCI_TCP_PLACES])
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list, *at;
    char host[256], service[8];
    int n = 0, error;

    if (!split(text, port, host, service)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "\"%s\" is no HOST, HOST:PORT or [ADDRESS]:PORT", text);
        return LOCO_ERR_ARG;
    }
    error = getaddrinfo(host, service, &hints, &list);
    if (error != 0) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "the machine %s: %s", host, gai_strerror(error));
        return LOCO_ERR_NOT_FOUND;
    }
    for (at = list; at != NULL && n < LOCI_TCP_PLACES; at = at->ai_next)
        loci_tcp_place_of(at->ai_addr, &place[n++]);
    freeaddrinfo(list);
    return n;
}
