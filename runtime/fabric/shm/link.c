/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages, the sending half.
 *
 * Each process has one datagram socket with an abstract name made of its identity and label. It
 * sends all its messages from there and receives all of them there, so peers cost no descriptors.
 * The system delivers datagrams of one machine reliably and in order, and refuses one when the
 * receiver's queue is full; then it waits in a queue of ours, which the service thread empties by
 * the clock (timer.c): nothing tells when there is room again.
 *
 * The system lists that name to everybody, and lets everybody send to it: other users, and
 * processes of this user in containers that share the network. So the socket has a filter, which
 * the system runs in the sender's own call, before anything comes into the queue: what does not
 * bear our pass (secret.h) is tossed there. However much strangers send, the queue has the same
 * room for peers, no thread of ours wakes, and nothing is logged. The filter takes the same time
 * for each wrong pass. (A socket that others cannot find would be one in no folder, reached by the
 * descriptors in /proc/PID/fd: not from other pid namespaces, nor where the process may not be
 * looked at, and sending a message would cost four times as much.)
 *
 * What has passed is looked at (receive.c). The sender knows that the name is its peer's, since
 * nobody else can have it while that lives. After its death another user could take the name, and
 * would be told names, offsets and proofs for the dead, which are no secret; but not be given a
 * descriptor. A message with one goes over a socket that is first connected to whoever has the
 * name then, and is sent only if the peer is seen alive after that: its process, or, of a peer in
 * another pid namespace, the very socket that it opened (alive.c). */

#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "descriptor.h"
#include "service.h"
#include "wait.h"
#include "shm.h"

#define QUEUE_MANY 4096                     /* messages from which on threads wait */
#define QUEUE_PATIENCE INT64_C(10000000000) /* ns that they wait */
/* Of what is on its way to all peers; less if the system gives less. */
#define BUFFER_BYTES (4 << 20)

struct shm_queued {
    struct shm_queued *next;
    int fd;
    size_t len;
    unsigned char bytes[];
};

/* Set aside for when there is no memory for the queue: what is not sent is waited for. */
#define KEPT 16
struct shm_kept {
    _Alignas(struct shm_queued) unsigned char queued[sizeof(struct shm_queued)
                                                     + sizeof(struct shm_message)];
};

/* ---- the socket ---- */

socklen_t loci_shm_socket_name(const struct loci_address *a, struct sockaddr_un *name)
{
    int len;

    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    len = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "loco.%016llx.%016llx",
                   (unsigned long long)a->identity, (unsigned long long)a->label);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static uint64_t pass_of(const struct loci_address *a)
{
    return loci_proof(a->secret, LOCI_PASS, 0, 0);
}

/* The filter reads big-endian words of the message; what is shorter does not pass. Both halves are
 * always compared. */
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define DIFFER(k) BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, (k))
static int toss_strangers(int fd, uint64_t pass)
{
    const uint32_t at = offsetof(struct shm_head, pass);
    uint32_t half[2];
    struct sock_filter code[] = {
        LOAD(at), DIFFER(0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        LOAD(at + 4), DIFFER(0),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),      /* all of it */
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = { sizeof code / sizeof code[0], code };

    memcpy(half, &pass, sizeof half);
    code[1].k = ntohl(half[0]);
    code[4].k = ntohl(half[1]);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

int loci_shm_socket_open(struct shm_fabric *f)
{
    const int on = 1, room = BUFFER_BYTES;
    struct sockaddr_un name;
    socklen_t len = loci_shm_socket_name(&f->rt->address, &name);

    f->socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Before it has a name, so that no message comes without its sender's credentials. */
    if (f->socket_fd >= 0 && toss_strangers(f->socket_fd, pass_of(&f->rt->address)) != 0)
        LOCI_LOG(f->rt, LOCO_LOG_WARN, "the system does not filter the control socket (%m): other "
                 "users who send to it can slow this process down");
    if (f->socket_fd < 0 || setsockopt(f->socket_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0
        || bind(f->socket_fd, (struct sockaddr *)&name, len) != 0) {
        loci_descriptor_missing(f->rt, "no control socket");
        return LOCO_ERR_SYSTEM;
    }
    (void)setsockopt(f->socket_fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return loci_service_watch(f->rt, f->socket_fd, EPOLLIN, loci_shm_readable, f);
}

/* ---- sending, under the peer's lock ---- */

/* What goes along with the bytes. */
union extras {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
};

static void attach(struct msghdr *m, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (void *)((char *)m->msg_control + m->msg_controllen);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    m->msg_controllen += CMSG_SPACE(len);
}

/* The system tells the receiver our real user, which is not the one that a process acts for after
 * seteuid, or in a program with the set-user-ID bit. There we say it, and the system looks whether
 * we may. */
static void attach_user(struct msghdr *m)
{
    struct ucred me = { .pid = getpid(), .gid = getegid() };
    uid_t real, saved;

    if (getresuid(&real, &me.uid, &saved) == 0 && real != me.uid)
        attach(m, SCM_CREDENTIALS, &me, sizeof me);
}

/* 0, or errno. */
static int send_on(int from, struct msghdr *m)
{
    ssize_t n;

    do
        n = sendmsg(from, m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

static int send_descriptor(struct shm_peer *p, struct msghdr *m, int fd)
{
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;

    if (from < 0)
        return errno;
    attach(m, SCM_RIGHTS, &fd, sizeof fd);
    if (connect(from, (struct sockaddr *)&p->name, p->name_len) != 0)
        error = errno;
    else if ((p->pid_fd >= 0 && !loci_shm_surely_alive(p)) || loci_shm_socket_is_gone(p))
        error = ECONNREFUSED;
    else
        error = send_on(from, m);
    close(from);
    return error;
}

/* 0; EAGAIN: the receiver has no room; or errno. What lies in receivers' queues counts against the
 * buffer of the socket that it was sent from. So peers that take nothing may fill that of ours, and
 * what is for the others then goes from a socket of its own: poll says that
 * there is room while three quarters of the buffer are free. */
static int send_bytes(struct shm_peer *p, struct msghdr *m)
{
    struct pollfd room = { .fd = p->fabric->socket_fd, .events = POLLOUT };
    int error, from;

    m->msg_name = &p->name;
    m->msg_namelen = p->name_len;
    error = send_on(p->fabric->socket_fd, m);
    if (error != EAGAIN || poll(&room, 1, 0) != 0)
        return error;
    from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (from < 0)
        return EAGAIN;
    error = send_on(from, m);
    close(from);
    return error;
}

/* 0; EAGAIN: there is no room; or errno. */
static int send_one(struct shm_peer *p, const struct iovec *parts, size_t nparts, int fd)
{
    union extras extras = { .bytes = { 0 } };
    struct msghdr m = {
        .msg_iov = (struct iovec *)parts, .msg_iovlen = nparts, .msg_control = extras.bytes,
    };
    int error;

    attach_user(&m);
    error = fd >= 0 ? send_descriptor(p, &m, fd) : send_bytes(p, &m);
    return error == ENOBUFS || error == ETOOMANYREFS || error == ENOMEM ? EAGAIN : error;
}

/* ---- the queue, under the peer's lock ---- */

bool loci_shm_queues_open(struct shm_fabric *f)
{
    f->kept = calloc(KEPT, sizeof f->kept[0]);
    atomic_init(&f->kept_free, (1u << KEPT) - 1);
    return f->kept != NULL;
}

void loci_shm_queues_close(struct shm_fabric *f)
{
    free(f->kept);
}

static struct shm_queued *new_queued(struct shm_fabric *f, size_t bytes)
{
    struct shm_queued *q = malloc(sizeof *q + bytes);
    uint32_t left = atomic_load_explicit(&f->kept_free, memory_order_relaxed);

    if (q != NULL || bytes > sizeof(struct shm_message))
        return q;
    while (left != 0)
        /* Acquire: pairs with the release of who gave it back. */
        if (atomic_compare_exchange_weak_explicit(&f->kept_free, &left, left & (left - 1),
                                                  memory_order_acquire, memory_order_relaxed))
            return (struct shm_queued *)(void *)f->kept[__builtin_ctz(left)].queued;
    return NULL;
}

static void free_queued(struct shm_fabric *f, struct shm_queued *q)
{
    struct shm_kept *kept = (struct shm_kept *)(void *)q;

    if (kept >= f->kept && kept < f->kept + KEPT)
        atomic_fetch_or_explicit(&f->kept_free, 1u << (kept - f->kept), memory_order_release);
    else
        free(q);
}

static void queue_empty(struct shm_peer *p)
{
    atomic_fetch_sub(&p->fabric->waiting, 1);
    p->last = &p->first;
}

static void drop_first(struct shm_peer *p)
{
    struct shm_queued *q = p->first;

    p->first = q->next;
    if (q->fd >= 0)
        close(q->fd);
    free_queued(p->fabric, q);
    atomic_fetch_sub_explicit(&p->queued, 1, memory_order_relaxed);
    if (p->first == NULL)
        queue_empty(p);
}

static void hang_up(struct shm_peer *p)
{
    while (p->first != NULL)
        drop_first(p);
    p->hung_up = true;
}

static int enqueue(struct shm_peer *p, const struct iovec *parts, int fd)
{
    struct shm_queued *q = new_queued(p->fabric, parts[0].iov_len + parts[1].iov_len);

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
        atomic_fetch_add(&p->fabric->waiting, 1);
        loci_shm_timer_soon(p->fabric);
    }
    return LOCO_OK;
}

/* Send now, else queue. */
static int send_or_queue(struct shm_peer *p, const struct iovec *parts, int fd)
{
    int error = 0;

    if (p->hung_up)
        return LOCO_ERR_PEER_DEAD;
    if (p->first == NULL)
        error = send_one(p, parts, 2, fd);
    if (p->first != NULL || error == EAGAIN)
        return enqueue(p, parts, fd);
    if (error == 0)
        return LOCO_OK;
    errno = error;
    if (error == EMFILE || error == ENFILE) { /* for the socket of a descriptor: it is asked */
        loci_descriptor_missing(p->fabric->rt, "no socket to pass a descriptor by");
        return LOCO_ERR_SYSTEM;                     /* whether there is one, next time */
    }
    hang_up(p);
    if (error == ECONNREFUSED || error == EPIPE || error == ECONNRESET)
        return LOCO_ERR_PEER_DEAD;
    errno = error;
    LOCI_LOG(p->fabric->rt, LOCO_LOG_ERROR, "process %016llx cannot be told: %m",
             (unsigned long long)p->peer->address.identity);
    return LOCO_ERR_SYSTEM;
}

static int has_room(void *arg)
{
    struct shm_peer *p = arg;

    return atomic_load_explicit(&p->queued, memory_order_relaxed) < QUEUE_MANY;
}

void loci_shm_prepare(struct shm_peer *p)
{
    const struct loci_address *me = &p->fabric->rt->address, *it = &p->peer->address;

    p->pass = pass_of(it);
    p->proof = loci_proof(it->secret, LOCI_MESSAGE, me->identity, me->label);
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
    full.pass = p->pass;
    full.from = p->fabric->rt->address.identity;
    full.label = p->fabric->rt->address.label;
    full.proof = p->proof;
    if (!has_room(p) && !loci_service_is_self(p->fabric->rt))
        status = loci_wait(p->fabric->rt, &why, has_room, p);
    if (status != LOCO_OK)
        return status;
    pthread_mutex_lock(&p->lock);
    status = send_or_queue(p, parts, fd);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* ---- what was queued ---- */

bool loci_shm_flush(struct shm_peer *p)
{
    bool sent = false, ended = false;

    pthread_mutex_lock(&p->lock);
    while (p->first != NULL) {
        const struct iovec part = { p->first->bytes, p->first->len };
        int error = send_one(p, &part, 1, p->first->fd);

        if (error == EAGAIN || error == EMFILE || error == ENFILE)
            break;
        if (error != 0) {
            hang_up(p);
            ended = p->pid_fd < 0;
            break;
        }
        drop_first(p);
        sent = true;
    }
    pthread_mutex_unlock(&p->lock);
    if (ended)
        loci_shm_ended(p, "it cannot be reached");
    return sent;
}

void loci_shm_link_close(struct shm_peer *p)
{
    pthread_mutex_lock(&p->lock);
    hang_up(p);
    pthread_mutex_unlock(&p->lock);
}
