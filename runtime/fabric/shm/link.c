/* SPDX-License-Identifier: BSD-3-Clause */

/* Control sockets, the sending half.
 *
 * Each process listens on an abstract socket that is named from its identity and token; who has
 * something to say to it connects, says hello, and sends on that connection only. So a pair of
 * processes has up to two connections, each used in one direction. What does not fit into the
 * socket is queued in order; the service thread sends it when there is room. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "service.h"
#include "wait.h"
#include "shm.h"

#define BACKLOG 4096
#define QUEUE_MANY 4096                     /* messages from which on threads wait */
#define QUEUE_PATIENCE INT64_C(10000000000) /* ns that they wait */
#define RETRY_NS 1000000                    /* until a full listener is tried again */

struct shm_queued {
    struct shm_queued *next;
    int fd;
    size_t len;
    unsigned char bytes[];
};

/* ---- names ---- */

static socklen_t socket_name(const struct loci_address *a, struct sockaddr_un *name)
{
    int len;

    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    len = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "loco.%016llx.%016llx",
                   (unsigned long long)a->identity, (unsigned long long)a->token);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

int loci_shm_listen(struct shm_fabric *f)
{
    struct sockaddr_un name;
    socklen_t len = socket_name(&f->rt->address, &name);

    f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (f->listen_fd < 0 || bind(f->listen_fd, (struct sockaddr *)&name, len) != 0
        || listen(f->listen_fd, BACKLOG) != 0) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no control socket: %m");
        return LOCO_ERR_SYSTEM;
    }
    return loci_service_watch(f->rt, f->listen_fd, EPOLLIN, loci_shm_accept, f);
}

/* ---- sending, under the peer's lock ---- */

/* 0, or errno. */
static int send_one(struct shm_peer *p, const struct iovec *parts, size_t nparts, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = { .msg_iov = (struct iovec *)parts, .msg_iovlen = nparts };
    ssize_t n;

    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    do
        n = sendmsg(p->out_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

static void try_later(struct shm_fabric *f)
{
    const struct itimerspec soon = { .it_value.tv_nsec = RETRY_NS };

    timerfd_settime(f->timer_fd, 0, &soon, NULL);
}

static void hang_up(struct shm_peer *p)
{
    while (p->first != NULL) {
        struct shm_queued *q = p->first;

        p->first = q->next;
        if (q->fd >= 0)
            close(q->fd);
        free(q);
    }
    p->last = &p->first;
    atomic_store_explicit(&p->queued, 0, memory_order_relaxed);
    p->hung_up = true;
}

static void link_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct shm_peer *p = ctx;

    if (events & EPOLLOUT)
        loci_shm_flush(p);
    if ((events & (EPOLLHUP | EPOLLERR)) == 0)
        return;
    loci_service_unwatch(rt, fd);
    pthread_mutex_lock(&p->lock);
    hang_up(p);
    pthread_mutex_unlock(&p->lock);
    if (p->pid_fd < 0)
        loci_shm_ended(p, "its connection has ended");
}

static void watch_link(struct shm_peer *p, bool room)
{
    loci_service_watch(p->fabric->rt, p->out_fd, room ? EPOLLOUT : 0, link_event, p);
}

static bool is_same_user(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

/* A connection that has said hello. 0, EAGAIN (the listener's queue is full), or errno. */
static int make_link(struct shm_peer *p)
{
    const struct loci_address *me = &p->fabric->rt->address;
    struct shm_hello hello = { me->identity, me->token };
    struct shm_head head = {
        .magic = SHM_MAGIC, .version = SHM_VERSION, .type = SHM_HELLO,
        .len = sizeof head + sizeof hello,
    };
    const struct iovec parts[2] = { { &head, sizeof head }, { &hello, sizeof hello } };
    struct sockaddr_un name;
    socklen_t len = socket_name(&p->peer->address, &name);
    int error = 0;

    p->out_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->out_fd < 0)
        return errno;
    if (connect(p->out_fd, (struct sockaddr *)&name, len) != 0)
        error = errno;
    else if (!is_same_user(p->out_fd))
        error = EACCES;
    else
        error = send_one(p, parts, 2, -1);
    if (error != 0) {
        close(p->out_fd);
        p->out_fd = -1;
    } else if (p->pid_fd < 0) {
        watch_link(p, false);
    }
    return error;
}

static int enqueue(struct shm_peer *p, const struct iovec *parts, int fd)
{
    struct shm_queued *q = malloc(sizeof *q + parts[0].iov_len + parts[1].iov_len);

    if (q == NULL)
        return LOCO_ERR_NO_MEMORY;
    *q = (struct shm_queued){ .fd = -1, .len = parts[0].iov_len + parts[1].iov_len };
    memcpy(q->bytes, parts[0].iov_base, parts[0].iov_len);
    if (parts[1].iov_len > 0)
        memcpy(q->bytes + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    if (fd >= 0)
        q->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *p->last = q;
    p->last = &q->next;
    if (atomic_fetch_add_explicit(&p->queued, 1, memory_order_relaxed) == 0) {
        if (p->out_fd >= 0)
            watch_link(p, true);
        else
            try_later(p->fabric);
    }
    return LOCO_OK;
}

/* Under the lock: send now, else queue. */
static int send_or_queue(struct shm_peer *p, const struct iovec *parts, int fd)
{
    int error = 0;

    if (p->hung_up)
        return LOCO_ERR_PEER_DEAD;
    if (p->first == NULL && p->out_fd < 0)
        error = make_link(p);
    if (p->first == NULL && error == 0)
        error = send_one(p, parts, 2, fd);
    if (p->first != NULL || error == EAGAIN || error == ENOBUFS)
        return enqueue(p, parts, fd);
    if (error == 0)
        return LOCO_OK;
    hang_up(p);
    errno = error;
    if (error == ECONNREFUSED || error == EPIPE || error == ECONNRESET)
        return LOCO_ERR_PEER_DEAD;
    LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "process %016llx cannot be told: %m",
             (unsigned long long)p->peer->address.identity);
    return LOCO_ERR_SYSTEM;
}

static int has_room(void *arg)
{
    struct shm_peer *p = arg;

    return atomic_load_explicit(&p->queued, memory_order_relaxed) < QUEUE_MANY;
}

int loci_shm_send(struct shm_peer *p, const struct shm_head *head, const void *body, size_t len,
                  int fd)
{
    const struct loci_reason why = {
        .what = "a peer to take its messages", .peer = p->peer->index,
        .timeout_ns = QUEUE_PATIENCE,
    };
    struct shm_head full = *head;
    const struct iovec parts[2] = { { &full, sizeof full }, { (void *)body, len } };
    int status = LOCO_OK;

    full.magic = SHM_MAGIC;
    full.version = SHM_VERSION;
    full.len = (uint32_t)(sizeof full + len);
    if (!has_room(p) && !loci_service_is_self(p->fabric->rt))
        status = loci_wait(p->fabric->rt, &why, has_room, p);
    if (status != LOCO_OK)
        return status;
    pthread_mutex_lock(&p->lock);
    status = send_or_queue(p, parts, fd);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Who is not there any more is found dead by the service thread. */
int loci_shm_connect(struct shm_peer *p)
{
    int error;

    pthread_mutex_lock(&p->lock);
    error = make_link(p);
    if (error != 0 && error != EAGAIN)
        hang_up(p);
    if (error != 0)
        try_later(p->fabric);
    pthread_mutex_unlock(&p->lock);
    return error == 0 || error == EAGAIN || error == ECONNREFUSED ? LOCO_OK
                                                                  : LOCO_ERR_UNSUPPORTED;
}

/* ---- what was queued ---- */

/* Under the lock: 0 when the queue is empty, EAGAIN while it is not, or errno. */
static int flush_locked(struct shm_peer *p)
{
    int error = 0;

    if (p->hung_up)
        return EPIPE;
    if (p->out_fd < 0 && (p->first != NULL || p->pid_fd < 0))
        error = make_link(p);
    while (error == 0 && p->first != NULL) {
        struct shm_queued *q = p->first;
        const struct iovec part = { q->bytes, q->len };

        error = send_one(p, &part, 1, q->fd);
        if (error != 0)
            break;
        p->first = q->next;
        if (p->first == NULL)
            p->last = &p->first;
        if (q->fd >= 0)
            close(q->fd);
        free(q);
        atomic_fetch_sub_explicit(&p->queued, 1, memory_order_relaxed);
    }
    return error == ENOBUFS ? EAGAIN : error;
}

void loci_shm_flush(struct shm_peer *p)
{
    bool ended = false, left;
    int error;

    pthread_mutex_lock(&p->lock);
    error = flush_locked(p);
    left = error == EAGAIN;
    if (left && p->out_fd < 0)
        try_later(p->fabric);
    else if (p->out_fd >= 0 && !p->hung_up)
        watch_link(p, left);
    if (error != 0 && !left) {
        hang_up(p);
        ended = p->pid_fd < 0;
    }
    pthread_mutex_unlock(&p->lock);
    if (ended)
        loci_shm_ended(p, "it cannot be reached");
}

void loci_shm_link_close(struct shm_peer *p)
{
    if (p->out_fd >= 0) {
        loci_service_unwatch(p->fabric->rt, p->out_fd);
        close(p->out_fd);
    }
    p->out_fd = -1;
    hang_up(p);
}
