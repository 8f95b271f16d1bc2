/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_TCP_WORLD_H
#define TESTS_TCP_WORLD_H

/* Runtimes whose fabric is nothing but the connections of that for TCP, several in one process,
 * over real sockets of loopback. Each has its service thread. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "fabric/tcp/dial.h"
#include "run.h"
#include "service.h"
#include "wait.h"

#define TCP_LINES 65536

struct tcp_member {
    loco_runtime_t *rt;
    struct tcp_fabric f;
    struct loci_link_ops ops;       /* those of dial.c, but for what is received */

    pthread_mutex_t lock;
    char lines[TCP_LINES];          /* what was logged */
    size_t len;
    _Atomic int wrong_lines;        /* that a peer has sent what makes no sense */

    /* Connections for data: the last that was taken, and how often there was one, or none. */
    _Atomic int fd, taken, not_taken;

    /* Messages of tests: a number each, in order, then bytes that follow from it. */
    _Atomic unsigned received, wrong;
};

/* ---- messages of tests ---- */

#define TCP_TEST UINT32_C(0x74736574)   /* their first word, which no message of dial.c has */

struct tcp_message {
    uint32_t magic, number;
    unsigned char bytes[LOCI_CONTROL_MAX - 8];
};

/* The n-th; its length. */
static inline size_t tcp_message(struct tcp_message *m, uint32_t number)
{
    size_t len = number * UINT32_C(2654435761) % (sizeof m->bytes + 1);

    m->magic = TCP_TEST;
    m->number = number;
    for (size_t i = 0; i < len; i++)
        m->bytes[i] = (unsigned char)(number + i * 7);
    return 8 + len;
}

static void (*tcp_receive)(struct loci_link *, const void *, size_t);

static inline struct tcp_member *tcp_member_of(const struct loco_runtime *rt)
{
    return rt->log.ctx;
}

static inline void tcp_received(struct loci_link *l, const void *message, size_t len)
{
    struct tcp_member *m = tcp_member_of(l->links->rt);
    struct tcp_message right;
    uint32_t magic = 0;

    if (len >= 8)
        memcpy(&magic, message, sizeof magic);
    if (magic != TCP_TEST) {
        tcp_receive(l, message, len);
        return;
    }
    if (tcp_message(&right, atomic_load(&m->received)) != len || memcmp(&right, message, len) != 0)
        atomic_fetch_add(&m->wrong, 1);
    atomic_fetch_add(&m->received, 1);
}

/* ---- the fabric ---- */

static inline void tcp_taken(struct tcp_fabric *f, struct tcp_peer *p, int fd)
{
    struct tcp_member *m = tcp_member_of(f->rt);
    int before = atomic_exchange(&m->fd, fd);

    (void)p;
    if (before >= 0)
        close(before);
    atomic_fetch_add(&m->taken, 1);
}

static inline void tcp_not_taken(struct tcp_fabric *f, struct tcp_peer *p, const char *why)
{
    (void)p;
    (void)why;
    atomic_fetch_add(&tcp_member_of(f->rt)->not_taken, 1);
}

static inline int tcp_world_open(struct loco_runtime *rt, struct loci_address *mine,
                                 struct loci_fabric **fabric)
{
    struct tcp_member *m = tcp_member_of(rt);
    int status;

    m->f = (struct tcp_fabric){ .rt = rt, .taken = tcp_taken, .not_taken = tcp_not_taken };
    status = loci_tcp_dials_open(&m->f);
    if (status != LOCO_OK)
        return status;
    m->ops = *m->f.links->ops;
    tcp_receive = m->ops.receive;
    m->ops.receive = tcp_received;
    m->f.links->ops = &m->ops;
    status = loci_tcp_ports_open(&m->f, mine);
    if (status != LOCO_OK)
        loci_tcp_dials_close(&m->f);
    *fabric = (struct loci_fabric *)&m->f;
    return status;
}

static inline void tcp_world_close(struct loci_fabric *fabric)
{
    struct tcp_fabric *f = (struct tcp_fabric *)fabric;
    int count = atomic_load(&f->rt->peer_count);

    loci_tcp_dials_close(f);
    for (int i = 0; i < count; i++) {
        free(loci_peer(f->rt, i)->device_data);
        loci_peer(f->rt, i)->device_data = NULL;
    }
}

static inline int tcp_world_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct tcp_peer *p = calloc(1, sizeof *p);

    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->peer = peer;
    peer->device_data = p;
    return loci_tcp_link_add((struct tcp_fabric *)fabric, peer, &p->link);
}

static inline struct loci_link *tcp_link_to(const struct loci_peer *peer)
{
    return ((struct tcp_peer *)peer->device_data)->link;
}

static inline void tcp_world_remove(struct loci_fabric *fabric, struct loci_peer *peer)
{
    (void)fabric;
    if (peer->device_data != NULL)      /* or it is forgotten */
        loci_link_part(tcp_link_to(peer));
}

static inline bool tcp_world_forget(struct loci_fabric *fabric, struct loci_peer *peer)
{
    (void)fabric;
    if (!loci_link_forget(tcp_link_to(peer)))
        return false;
    free(peer->device_data);
    peer->device_data = NULL;
    return true;
}

static inline int tcp_world_send(struct loci_fabric *fabric, struct loci_peer *peer,
                                 const void *message, size_t len)
{
    (void)fabric;
    return loci_link_send(tcp_link_to(peer), LINK_CONTROL, message, len);
}

static const struct loci_fabric_ops tcp_world_ops = {
    .name = "connections", .synchronous = true, .spans = true, .open = tcp_world_open,
    .close = tcp_world_close, .peer_add = tcp_world_add, .peer_remove = tcp_world_remove,
    .peer_forget = tcp_world_forget, .control_send = tcp_world_send,
};

/* ---- members ---- */

static inline void tcp_heard(void *ctx, int level, const char *text)
{
    struct tcp_member *m = ctx;
    size_t len = strlen(text);

    if (getenv("TEST_VERBOSE") != NULL)
        fprintf(stderr, "%d %s\n", level, text);
    if (strstr(text, "is wrong: ") != NULL || strstr(text, "a wrong question") != NULL)
        atomic_fetch_add(&m->wrong_lines, 1);
    pthread_mutex_lock(&m->lock);
    if (m->len + len + 2 < sizeof m->lines) {
        memcpy(m->lines + m->len, text, len);
        m->lines[m->len + len] = '\n';
        m->len += len + 1;
    }
    pthread_mutex_unlock(&m->lock);
}

/* How often that was logged. */
static inline int tcp_logged(struct tcp_member *m, const char *text)
{
    int n = 0;

    pthread_mutex_lock(&m->lock);
    m->lines[m->len] = '\0';
    for (const char *at = m->lines; (at = strstr(at, text)) != NULL; at++)
        n++;
    pthread_mutex_unlock(&m->lock);
    return n;
}

static inline int tcp_alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

#define TCP_SETTINGS 8

/* With loopback's address, and what `more`, ended by NULL, says. */
static inline int tcp_try_open(struct tcp_member *m, uint64_t identity, const char *const *more)
{
    const char *settings[TCP_SETTINGS] = { "LOCO_TCP_IF=127.0.0.1", "LOCO_LOG=debug" };
    struct loco_bootstrap boot = {
        .identity = identity, .exchange = { .size = 1, .allgather = tcp_alone },
        .log = tcp_heard, .log_ctx = m, .settings = settings,
    };

    for (int i = 2; more != NULL && *more != NULL; i++, more++)
        settings[i] = *more;
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    atomic_store(&m->fd, -1);
    return loci_runtime_open(&boot, NULL, &tcp_world_ops, &m->rt);
}

static inline void tcp_open(struct tcp_member *m, uint64_t identity, const char *const *more)
{
    cr_assert_eq(tcp_try_open(m, identity, more), LOCO_OK);
}

static inline void tcp_close(struct tcp_member *m)
{
    loco_runtime_close(m->rt);
    if (atomic_load(&m->fd) >= 0)
        close(atomic_load(&m->fd));
    cr_assert_eq(atomic_load(&m->wrong), 0);
}

static inline struct loci_peer *tcp_meet(struct tcp_member *m, const struct loci_address *address)
{
    int index;

    cr_assert_eq(loci_peer_meet(m->rt, address, &index), LOCO_OK);
    return loci_peer(m->rt, index);
}

/* ---- waiting ---- */

typedef bool tcp_condition(void *arg);

/* Whether it comes true within so many nanoseconds, more on a busy machine. */
static inline bool tcp_await(tcp_condition *condition, void *arg, int64_t ns)
{
    int64_t begin = run_now();

    while (!condition(arg)) {
        if (run_too_long(begin, ns))
            return false;
        usleep(500);
    }
    return true;
}

struct tcp_line {
    struct tcp_member *m;
    const char *text;
    int least;
};

static inline bool tcp_is_logged(void *arg)
{
    struct tcp_line *line = arg;

    return tcp_logged(line->m, line->text) >= line->least;
}

static inline bool tcp_await_line(struct tcp_member *m, const char *text, int least)
{
    struct tcp_line line = { m, text, least };

    return tcp_await(tcp_is_logged, &line, RUN_PATIENCE);
}

/* That a link is there, the service thread's log says. */
static inline bool tcp_await_ready(struct tcp_member *m, int links)
{
    return tcp_await_line(m, "connected to process", links);
}

static inline bool tcp_is_gone(void *arg)
{
    struct loci_peer *peer = arg;

    return atomic_load(&peer->state) != LOCI_PEER_ALIVE;
}

struct tcp_count {
    _Atomic int *count;
    int least;
};

static inline bool tcp_has_come(void *arg)
{
    struct tcp_count *c = arg;

    return atomic_load(c->count) >= c->least;
}

static inline bool tcp_await_count(_Atomic int *count, int least)
{
    struct tcp_count c = { count, least };

    return tcp_await(tcp_has_come, &c, RUN_PATIENCE);
}

/* ---- in the service thread, whose most of all is ---- */

typedef void tcp_look(struct tcp_member *m, void *arg);

struct tcp_glance {
    tcp_look *look;
    void *arg;
    _Atomic int done;
};

static inline void tcp_glance(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct tcp_glance *g = ctx;

    (void)events;
    loci_service_unwatch(rt, fd);
    g->look(tcp_member_of(rt), g->arg);
    atomic_store(&g->done, 1);
}

static inline void tcp_in_service(struct tcp_member *m, tcp_look *look, void *arg)
{
    struct tcp_glance g = { .look = look, .arg = arg };
    int pipes[2];

    cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
    cr_assert_eq((int)write(pipes[1], "x", 1), 1);
    cr_assert_eq(loci_service_watch(m->rt, pipes[0], EPOLLIN, tcp_glance, &g), LOCO_OK);
    cr_assert(tcp_await_count(&g.done, 1));
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- by hand ---- */

/* A connection to where that process listens. */
static inline int tcp_call_by_hand(const struct loci_address *to)
{
    struct sockaddr_storage address;
    socklen_t len = loci_tcp_sockaddr(&to->tcp[0], &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(fd >= 0, "%s", strerror(errno));
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, len), 0, "%s", strerror(errno));
    return fd;
}

/* Whether the other end has closed it within so many nanoseconds. */
static inline bool tcp_is_closed(int fd, int64_t ns)
{
    int64_t begin = run_now();
    char byte;

    for (;;) {
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (run_too_long(begin, ns))
            return false;
        usleep(500);
    }
}

#endif
