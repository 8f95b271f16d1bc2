/* SPDX-License-Identifier: BSD-3-Clause */

/* Control sockets, the receiving half: the service thread's.
 *
 * Nothing of a message is believed before it was looked at. A connection begins with a hello that
 * names a process of our table with its token; a process that we are about to meet may be faster
 * than we, so its connection is parked, unread, until it is in the table. */

#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service.h"
#include "shm.h"

#define PARKED_MANY 65536
#define FDS_MANY 4                  /* descriptors in one message; more are closed by the kernel */

static void readable(struct loco_runtime *rt, void *ctx, int fd, uint32_t events);

/* ---- connections ---- */

static bool is_same_user(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

static void add_conn(struct shm_fabric *f, int fd)
{
    struct shm_conn *c = is_same_user(fd) ? calloc(1, sizeof *c) : NULL;

    if (c == NULL) {
        LOCI_LOG(f->rt, LOCO_LOG_WARN, "a connection of another user was refused");
        close(fd);
        return;
    }
    c->fabric = f;
    c->fd = fd;
    pthread_mutex_lock(&f->lock);
    c->next = f->conns;
    f->conns = c;
    pthread_mutex_unlock(&f->lock);
    loci_service_watch(f->rt, fd, EPOLLIN, readable, c);
}

static void accept_all(struct shm_fabric *f)
{
    int fd;

    while ((fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0
           || errno == EINTR || errno == ECONNABORTED)
        if (fd >= 0)
            add_conn(f, fd);
}

void loci_shm_accept(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    (void)rt;
    (void)fd;
    (void)events;
    accept_all(ctx);
}

static void drop_conn(struct shm_conn *c)
{
    struct shm_fabric *f = c->fabric;
    struct shm_conn **at = &f->conns;

    loci_service_unwatch(f->rt, c->fd);
    pthread_mutex_lock(&f->lock);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&f->lock);
    close(c->fd);
    free(c);
}

void loci_shm_conns_close(struct shm_fabric *f)
{
    while (f->conns != NULL)
        drop_conn(f->conns);
}

/* ---- checking ---- */

static bool copy_is_sound(const struct shm_copy *copy, size_t len)
{
    return len >= offsetof(struct shm_copy, span) && copy->nspans <= SHM_SPANS
           && len == offsetof(struct shm_copy, span) + copy->nspans * sizeof copy->span[0];
}

const char *loci_shm_message_error(const struct shm_message *m, size_t len)
{
    size_t body = len - sizeof m->head;
    bool fits;

    if (len < sizeof m->head || m->head.len != len)
        return "wrong length";
    if (m->head.magic != SHM_MAGIC)
        return "not a control message";
    if (m->head.version != SHM_VERSION)
        return "version of another release";
    switch (m->head.type) {
    case SHM_HELLO: fits = body == sizeof m->body.hello; break;
    case SHM_DEVICE:
    case SHM_CONTROL: fits = body > 0 && body <= LOCI_CONTROL_MAX; break;
    case SHM_COPY: fits = copy_is_sound(&m->body.copy, body); break;
    case SHM_GOODBYE:
    case SHM_WANT_FD:
    case SHM_HERE_IS_FD:
    case SHM_MAPPED:
    case SHM_UNMAP:
    case SHM_NO_AREA:
    case SHM_AREA: fits = body == 0; break;
    default: return "unknown type";
    }
    return fits ? NULL : "wrong length of its type";
}

/* ---- hello ---- */

static struct shm_peer *peer_named(struct shm_fabric *f, uint64_t identity, uint64_t token)
{
    struct shm_peer *p = f->peers;

    while (p != NULL && (p->peer->address.identity != identity
                         || p->peer->address.token != token))
        p = p->next;
    return p;
}

/* False: the connection is to be dropped. */
static bool accept_hello(struct shm_conn *c, const struct shm_hello *hello)
{
    struct shm_fabric *f = c->fabric;
    bool keep = true;

    pthread_mutex_lock(&f->lock);
    c->peer = peer_named(f, hello->identity, hello->token);
    if (c->peer == NULL) {
        keep = f->parked < PARKED_MANY;
        if (keep) {
            c->identity = hello->identity;
            c->token = hello->token;
            c->parked = true;
            f->parked++;
            loci_service_unwatch(f->rt, c->fd);
        }
    }
    /* From here on whoever meets its sender may unpark it: it is not ours to look at. */
    pthread_mutex_unlock(&f->lock);
    return keep;
}

void loci_shm_unpark(struct shm_peer *p)
{
    struct shm_fabric *f = p->fabric;

    for (struct shm_conn *c = f->conns; c != NULL; c = c->next) {
        if (!c->parked || c->identity != p->peer->address.identity
            || c->token != p->peer->address.token)
            continue;
        c->parked = false;
        c->peer = p;
        f->parked--;
        loci_service_watch(f->rt, c->fd, EPOLLIN, readable, c);
    }
}

/* ---- messages ---- */

static void said_goodbye(struct shm_peer *p)
{
    p->goodbye = true;
    if (p->gone)
        return;
    p->gone = true;
    loci_shm_area_close(p);
    loci_peer_gone(p->fabric->rt, p->peer, LOCI_PEER_LEFT, "it has closed its runtime");
}

/* Returns whether `fd` was taken. */
static bool hand_on(struct shm_peer *p, const struct shm_message *m, int fd)
{
    switch (m->head.type) {
    case SHM_CONTROL:
        loci_control_receive(p->fabric->rt, p->peer->index, m->body.control,
                             m->head.len - sizeof m->head);
        return false;
    case SHM_DEVICE:
        if (p->fabric->device_receive != NULL)
            p->fabric->device_receive(p->fabric->device_ctx, p->peer, m->body.control,
                                      m->head.len - sizeof m->head);
        return false;
    case SHM_GOODBYE: said_goodbye(p); return false;
    case SHM_WANT_FD: loci_shm_fd_wanted(p, &m->head); return false;
    case SHM_HERE_IS_FD: loci_shm_fd_here(p, &m->head, fd); return true;
    case SHM_MAPPED: loci_shm_mapped(p, m->head.extent); return false;
    case SHM_UNMAP: loci_shm_unmap(p, m->head.extent); return false;
    case SHM_AREA: loci_shm_area_here(p, &m->head, fd); return true;
    case SHM_NO_AREA: loci_shm_area_refused(p, &m->head); return false;
    case SHM_COPY: loci_shm_copy_wanted(p, &m->body.copy); return false;
    default: return false;
    }
}

/* False: the connection is to be dropped. */
static bool take_message(struct shm_conn *c, const struct shm_message *m, size_t len, int fd)
{
    const char *error = loci_shm_message_error(m, len);
    bool keep = true, taken = false;

    if (error == NULL && c->peer == NULL && m->head.type != SHM_HELLO)
        error = "no hello before it";
    if (error != NULL) {
        LOCI_LOG(c->fabric->rt, LOCO_LOG_ERROR, "message of %zu bytes on a control socket dropped: "
                 "%s", len, error);
        keep = c->peer != NULL;
    } else if (m->head.type == SHM_HELLO) {
        keep = c->peer == NULL && accept_hello(c, &m->body.hello);
    } else {
        taken = hand_on(c->peer, m, fd);
    }
    if (fd >= 0 && !taken)
        close(fd);
    return keep;
}

/* The first descriptor of a message; the others are closed. */
static int fd_of(struct msghdr *m)
{
    int first = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (first < 0)
                first = fd;
            else
                close(fd);
        }
    }
    return first;
}

enum received { RECEIVED, NOTHING, ENDED };

static enum received receive(struct shm_conn *c)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MANY * sizeof(int))];
    } control;
    struct shm_message message;
    struct iovec part = { &message, sizeof message };
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? NOTHING : ENDED;
    if (n == 0 && (m.msg_flags & MSG_TRUNC) == 0)
        return ENDED;       /* we never send empty messages */
    if (m.msg_flags & MSG_TRUNC)
        message.head.len = 0;       /* which no message has */
    return take_message(c, &message, (size_t)n, fd_of(&m)) ? RECEIVED : ENDED;
}

static void readable(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct shm_conn *c = ctx;
    struct shm_peer *p = c->peer;

    (void)rt;
    (void)fd;
    (void)events;
    if (receive(c) != ENDED)
        return;
    drop_conn(c);
    if (p != NULL && p->pid_fd < 0)
        loci_shm_ended(p, "its connection has ended");
}

/* Under fabric->lock: a connection of that peer with something left to read. */
static struct shm_conn *undrained(struct shm_peer *p)
{
    struct shm_conn *c = p->fabric->conns;

    while (c != NULL && (c->drained || c->parked || (c->peer != p && c->peer != NULL)))
        c = c->next;
    return c;
}

void loci_shm_drain(struct shm_peer *p)
{
    struct shm_fabric *f = p->fabric;
    struct shm_conn *c;

    accept_all(f);
    for (;;) {
        enum received got;

        pthread_mutex_lock(&f->lock);
        c = undrained(p);
        pthread_mutex_unlock(&f->lock);
        if (c == NULL)
            break;
        got = receive(c);
        if (got == ENDED)
            drop_conn(c);
        else
            c->drained = got == NOTHING;
    }
    pthread_mutex_lock(&f->lock);
    for (c = f->conns; c != NULL; c = c->next)
        c->drained = false;
    pthread_mutex_unlock(&f->lock);
}
