/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric's life and peers, what the service thread does for it, and what of it is shm's. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../shm/offer.h"
#include "../shm/own.h"
#include "../shm/shm.h"
#include "descriptor.h"
#include "move/bell.h"
#include "touch.h"
#include "service.h"
#include "tcp.h"
#include "wait.h"

#define TICK_NS 1000000                 /* what nobody has sent is sent by then */
#define QUIET 64                        /* ticks without any, after which they end */
#define GRACE_NS INT64_C(500000000)     /* for the link to say how a peer ended */
#define LAST_READS 64                   /* of who is gone: more than sockets hold */
#define TURNS 16                        /* of serving, before other handlers have theirs */

/* ---- serving ---- */

void loci_tcp_tell_sleepers(struct tcp_fabric *f)
{
    if (!atomic_load_explicit(&f->changed, memory_order_relaxed)
        || !atomic_exchange_explicit(&f->changed, false, memory_order_seq_cst))
        return;
    for (int kind = LOCI_BELL_ANY + 1; kind < LOCI_BELLS; kind++)
        if (kind != LOCI_BELL_POLLER)
            loci_signal(f->rt, LOCI_SELF, (enum loci_bell_kind)kind);
}

/* Since the last look. One help is enough: where ranks outnumber the processors, none makes many
 * between two messages. The counter is no lock: helps that are lost in a race are as good as not
 * made. */
static bool is_helped(struct tcp_fabric *f)
{
    unsigned helps = atomic_load_explicit(&f->helps, memory_order_relaxed);
    bool helped = helps != f->helps_seen;

    f->helps_seen = helps;
    return helped;
}

/* Whoever spins serves sooner than this thread, which is woken to find nothing, and keeps the
 * other from its processor meanwhile. So it leaves the connections to them, and looks at each
 * tick whether they help still. */
static void leave_or_take(struct tcp_fabric *f)
{
    bool leaves = is_helped(f);

    if (leaves == f->away)
        return;
    f->away = leaves;
    loci_service_mute(f->rt, f->epoll_fd, EPOLLIN, leaves);
    if (leaves)
        loci_tcp_tick_soon(f);
}

/* Connections have something. */
static void serve_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct tcp_fabric *f = ctx;
    bool any = true;

    (void)rt;
    (void)fd;
    (void)events;
    for (int i = 0; i < TURNS && any; i++) {
        pthread_mutex_lock(&f->serving);
        f->by_service = true;
        any = loci_tcp_serve_all(f);
        f->by_service = false;
        pthread_mutex_unlock(&f->serving);
        loci_tcp_tell_sleepers(f);
    }
    leave_or_take(f);
}

/* Any thread that waits. Who sleeps between its helps leaves the connections to the service thread,
 * which then wakes it. On a machine with more to do than processors that is much sooner than who
 * spins gets one: the kernel prefers whoever has slept. */
static int tcp_help(struct loci_fabric *fabric, bool spins)
{
    struct tcp_fabric *f = tcp_of(fabric);
    int helped = loci_shm_help(tcp_shm(fabric), spins);
    bool any;

    if (atomic_load_explicit(&f->conns_ready, memory_order_relaxed) == 0
        || pthread_mutex_trylock(&f->serving) != 0)
        return helped;
    if (spins)
        atomic_store_explicit(&f->helps, atomic_load_explicit(&f->helps, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    any = loci_tcp_serve_all(f);
    pthread_mutex_unlock(&f->serving);
    loci_tcp_tell_sleepers(f);
    return helped || any;
}

/* ---- ticks ---- */

static void set_timer(struct tcp_fabric *f, long ns)
{
    const struct itimerspec when = { .it_value.tv_nsec = ns, .it_interval.tv_nsec = ns };

    timerfd_settime(f->timer_fd, 0, &when, NULL);
}

void loci_tcp_tick_soon(struct tcp_fabric *f)
{
    if (!atomic_load_explicit(&f->ticking, memory_order_relaxed)
        && !atomic_exchange_explicit(&f->ticking, true, memory_order_seq_cst))
        set_timer(f, TICK_NS);
}

/* The service thread removes connections, no other. */
static struct tcp_conn *first_conn(struct tcp_fabric *f)
{
    struct tcp_conn *c;

    pthread_mutex_lock(&f->lock);
    c = f->conns;
    pthread_mutex_unlock(&f->lock);
    return c;
}

/* Its connection has ended. If its link says nothing of how it has left, it is lost. */
static bool see_to_lost(struct tcp_fabric *f, struct tcp_peer *p)
{
    if (!atomic_load_explicit(&p->lost, memory_order_acquire)
        || !loci_peer_alive(f->rt, p->peer->index)
        || atomic_load_explicit(&p->link->parted, memory_order_relaxed))
        return false;
    if (p->lost_at == 0)
        p->lost_at = loci_now(f->rt);
    else if (loci_now(f->rt) - p->lost_at > GRACE_NS)
        loci_link_ended(p->link, atomic_load(&p->conn)->why);
    return true;
}

/* Whoever queues looks whether it ticks, under the connection's lock: either that is before this
 * has it, and is seen here, or after, and sees that it ticks no more. */
static bool is_left(struct tcp_conn *c)
{
    bool left;

    pthread_mutex_lock(&c->lock);
    left = atomic_load_explicit(&c->unsent, memory_order_relaxed);
    pthread_mutex_unlock(&c->lock);
    return left || atomic_load_explicit(&c->peer->lost, memory_order_relaxed);
}

static void stop_ticking(struct tcp_fabric *f)
{
    set_timer(f, 0);
    atomic_store_explicit(&f->ticking, false, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);      /* pairs with that in loci_tcp_conn_end() */
    for (struct tcp_conn *c = first_conn(f); c != NULL; c = c->next)
        if (is_left(c))
            loci_tcp_tick_soon(f);
    f->quiet = 0;
}

static void tick(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct tcp_fabric *f = ctx;
    bool any = false;
    uint64_t times;

    (void)rt;
    (void)events;
    if (read(fd, &times, sizeof times) < 0)
        return;
    for (struct tcp_conn *c = first_conn(f), *next; c != NULL; c = next) {
        next = c->next;
        any = (atomic_load_explicit(&c->unsent, memory_order_relaxed)
               && atomic_load_explicit(&c->state, memory_order_relaxed) == TCP_CONN_READY) || any;
        loci_tcp_send_unsent(c);
        any = see_to_lost(f, c->peer) || any;
    }
    if (f->away)
        leave_or_take(f);
    f->quiet = any || f->away ? 0 : f->quiet + 1;
    if (f->quiet > QUIET)
        stop_ticking(f);
}

/* ---- life ---- */

static void free_fabric(struct tcp_fabric *f)
{
    while (f->conns != NULL)
        loci_tcp_conn_free(f->conns);
    if (f->epoll_fd >= 0)
        close(f->epoll_fd);
    if (f->timer_fd >= 0)
        close(f->timer_fd);
    if (f->in != NULL)
        munmap(f->in, TCP_REST + TCP_IN_BYTES);
    pthread_mutex_destroy(&f->lanes);
    pthread_mutex_destroy(&f->serving);
    pthread_mutex_destroy(&f->lock);
    free(f->gathered);
    free(f);
}

static int open_serving(struct tcp_fabric *f)
{
    void *in = mmap(NULL, TCP_REST + TCP_IN_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;

    if (in == MAP_FAILED)
        return LOCO_ERR_NO_MEMORY;
    f->in = in;
    f->gathered = malloc(sizeof *f->gathered);
    if (f->gathered == NULL)
        return LOCO_ERR_NO_MEMORY;
    f->gathered->bytes = 0;
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (f->epoll_fd < 0 || f->timer_fd < 0) {
        loci_descriptor_missing(f->rt, "no descriptors for connections");
        return LOCO_ERR_SYSTEM;
    }
    status = loci_service_watch(f->rt, f->epoll_fd, EPOLLIN, serve_event, f);
    return status == LOCO_OK ? loci_service_watch(f->rt, f->timer_fd, EPOLLIN, tick, f) : status;
}

static void stop_serving(struct tcp_fabric *f)
{
    if (f->timer_fd >= 0)
        loci_service_unwatch(f->rt, f->timer_fd);
    if (f->epoll_fd >= 0)
        loci_service_unwatch(f->rt, f->epoll_fd);
}

static int tcp_open(struct loco_runtime *rt, struct loci_address *mine,
                    struct loci_fabric **fabric)
{
    struct tcp_fabric *f = calloc(1, sizeof *f);
    int status;

    if (f == NULL)
        return LOCO_ERR_NO_MEMORY;
    f->rt = rt;
    f->epoll_fd = f->timer_fd = -1;
    f->taken = loci_tcp_conn_connected;
    f->not_taken = loci_tcp_conn_failed;
    pthread_mutex_init(&f->serving, NULL);
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->lanes, NULL);
    status = loci_shm_open(rt, mine, &f->shm, NULL, NULL);
    if (status != LOCO_OK) {
        free_fabric(f);
        return status;
    }
    status = open_serving(f);
    if (status == LOCO_OK)
        status = loci_tcp_dials_open(f);
    if (status == LOCO_OK) {
        status = loci_tcp_ports_open(f, mine);
        if (status != LOCO_OK)
            loci_tcp_dials_close(f);
    }
    if (status != LOCO_OK) {
        stop_serving(f);
        loci_fabric_shm.close((struct loci_fabric *)f->shm);
        free_fabric(f);
        return status;
    }
    *fabric = (struct loci_fabric *)f;
    return LOCO_OK;
}

/* Threads and their lanes are freed next, by the runtime: the service thread looks at them no
 * more. */
static void tcp_drain(struct loci_fabric *fabric)
{
    struct tcp_fabric *f = tcp_of(fabric);

    (void)loci_fence_peer(f->rt, LOCO_FENCE_PROCESS, -1);
    pthread_mutex_lock(&f->lanes);
    f->closing = true;
    pthread_mutex_unlock(&f->lanes);
}

/* Links send their goodbyes; connections for data end behind them, since a peer that sees such an
 * end wonders what has happened. Their handlers look at links, and have been told to end before. */
static void tcp_close(struct loci_fabric *fabric)
{
    struct tcp_fabric *f = tcp_of(fabric);
    int count = atomic_load_explicit(&f->rt->peer_count, memory_order_relaxed);

    stop_serving(f);
    loci_tcp_dials_close(f);
    pthread_mutex_lock(&f->serving);
    for (struct tcp_conn *c = f->conns; c != NULL; c = c->next)
        loci_tcp_conn_end(c, LOCO_ERR_STATE, "this process closes");
    pthread_mutex_unlock(&f->serving);
    loci_fabric_shm.close(tcp_shm(fabric));
    for (int i = 0; i < count; i++) {
        free(loci_peer(f->rt, i)->device_data);
        loci_peer(f->rt, i)->device_data = NULL;
    }
    free_fabric(f);
}

/* ---- peers ---- */

static struct tcp_peer *far_peer(const struct loci_peer *peer)
{
    return peer->device_data;
}

static int tcp_peer_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct tcp_fabric *f = tcp_of(fabric);
    struct tcp_peer *p = far_peer(peer);        /* of an introduction that failed */

    if (peer->address.node == f->rt->address.node)
        return loci_fabric_shm.peer_add(tcp_shm(fabric), peer);
    if (p == NULL)
        p = calloc(1, sizeof *p);
    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->fabric = f;
    p->peer = peer;
    peer->device_data = p;      /* its calls may be here already */
    return loci_peer_is_noted(f->rt, peer->index) ? LOCO_OK
           : loci_tcp_link_add(f, peer, &p->link);
}

/* This process's memory is given back next: who still asks for it hears that its owner has left,
 * and not that there is no such memory. */
static void part(struct tcp_fabric *f, struct tcp_peer *p)
{
    struct tcp_conn *c = atomic_load(&p->conn);

    loci_link_part(p->link);
    if (c == NULL)
        return;
    pthread_mutex_lock(&f->serving);
    loci_tcp_conn_leave(c);
    pthread_mutex_unlock(&f->serving);
}

static void tcp_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct tcp_peer *p = far_peer(peer);

    if (p == NULL)
        loci_fabric_shm.peer_remove(tcp_shm(fabric), peer);
    else if (p->link != NULL)
        part(tcp_of(fabric), p);
}

/* Its connection ends before anybody is told that it is silent. */
static void tcp_peer_gone(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct tcp_fabric *f = tcp_of(fabric);
    struct tcp_peer *p = far_peer(peer);
    struct tcp_conn *c = p != NULL ? atomic_load(&p->conn) : NULL;

    if (c != NULL) {
        pthread_mutex_lock(&f->serving);
        /* What it sent before it ended counts; one that only counts as dead may go on. */
        for (int i = 0; i < LAST_READS && loci_tcp_receive(c); i++)
            ;
        loci_tcp_conn_end(c, LOCO_ERR_PEER_DEAD, "it is gone");
        pthread_mutex_unlock(&f->serving);
        loci_tcp_tell_sleepers(f);
        loci_tcp_lanes_empty(f, peer);
    }
    loci_peer_silent(f->rt, peer);
}

static bool tcp_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct tcp_peer *p = far_peer(peer);
    struct tcp_conn *c;

    if (p == NULL)
        return peer->fabric_data == NULL
               || loci_fabric_shm.peer_forget(tcp_shm(fabric), peer);
    if (p->link != NULL && !loci_link_forget(p->link))
        return false;
    p->link = NULL;
    c = atomic_load(&p->conn);
    if (c != NULL) {
        pthread_mutex_lock(&tcp_of(fabric)->serving);
        loci_tcp_conn_end(c, LOCO_ERR_PEER_DEAD, "it is gone");
        pthread_mutex_unlock(&tcp_of(fabric)->serving);
        loci_tcp_lanes_empty(tcp_of(fabric), peer);
        loci_tcp_conn_free(c);
    }
    free(p);
    peer->device_data = NULL;
    return true;
}

static int tcp_control_send(struct loci_fabric *fabric, struct loci_peer *peer,
                            const void *message, size_t len)
{
    struct tcp_peer *p = far_peer(peer);

    if (p == NULL)
        return loci_fabric_shm.control_send(tcp_shm(fabric), peer, message, len);
    return p->link != NULL ? loci_link_send(p->link, LINK_CONTROL, message, len)
                           : LOCO_ERR_UNSUPPORTED;
}

/* ---- what is shm's ---- */

static int tcp_extent_create(struct loci_fabric *fabric, struct loci_extent *extent)
{
    return loci_shm_extent_create(tcp_shm(fabric), extent);
}

static int tcp_extent_grow(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                           size_t to)
{
    return loci_shm_extent_grow(tcp_shm(fabric), extent, from, to);
}

static void tcp_extent_shrink(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                              size_t to)
{
    loci_shm_extent_shrink(tcp_shm(fabric), extent, from, to);
}

static void tcp_extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent)
{
    loci_shm_extent_destroy(tcp_shm(fabric), extent);
}

static int tcp_renew(struct loci_fabric *fabric, void *base, size_t len)
{
    return loci_shm_renew(tcp_shm(fabric), base, len);
}

static int tcp_user_add(struct loci_fabric *fabric, void *base, size_t len,
                        struct loci_memkey *key)
{
    return loci_shm_user_add(tcp_shm(fabric), base, len, key);
}

static void tcp_user_remove(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    loci_shm_user_remove(tcp_shm(fabric), key);
}

static unsigned char *tcp_map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    if (far_peer(loci_peer(tcp_of(fabric)->rt, mem->peer)) != NULL)
        return NULL;
    return loci_shm_map(tcp_shm(fabric), mem);
}

static void tcp_unmap(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    loci_shm_unuse(tcp_shm(fabric), mem);
}

static int tcp_update(struct loci_fabric *fabric, struct loci_peer *peer, const struct loci_op *op)
{
    return far_peer(peer) != NULL ? LOCO_ERR_AGAIN
                                  : loci_shm_update(tcp_shm(fabric), peer, op);
}

static int tcp_strided(struct loci_fabric *fabric, struct loci_peer *peer,
                       const struct loci_strided *op)
{
    return far_peer(peer) != NULL ? LOCO_ERR_AGAIN
                                  : loci_shm_strided(tcp_shm(fabric), peer, op);
}

static int tcp_combine(struct loci_fabric *fabric, struct loci_peer *peer,
                       const struct loci_strided *op)
{
    return far_peer(peer) != NULL ? LOCO_ERR_AGAIN
                                  : loci_shm_combine(tcp_shm(fabric), peer, op);
}

static unsigned char *tcp_touch_room(struct loci_fabric *fabric, size_t len)
{
    return loci_shm_touch_room(tcp_shm(fabric), len);
}

static int tcp_touch(struct loci_fabric *fabric, bool writes, const struct loci_piece *pieces,
                     int n, unsigned char *packed)
{
    return loci_shm_touch(tcp_shm(fabric), writes, pieces, n, packed);
}

static int tcp_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number)
{
    return far_peer(peer) != NULL ? LOCO_ERR_AGAIN
                                  : loci_shm_ring(tcp_shm(fabric), peer, number);
}

static struct loci_bells *tcp_bells(struct loci_fabric *fabric, struct loci_peer *peer)
{
    return far_peer(peer) != NULL ? NULL : loci_shm_bells(tcp_shm(fabric), peer);
}

const struct loci_fabric_ops loci_fabric_tcp = {
    .name = "tcp",
    .maps = true,
    .spans = true,
    .owner_atomics = true,
    .merges = true,
    .completes = true,
    .open = tcp_open,
    .close = tcp_close,
    .drain = tcp_drain,
    .peer_add = tcp_peer_add,
    .peer_remove = tcp_peer_remove,
    .peer_gone = tcp_peer_gone,
    .peer_forget = tcp_peer_forget,
    .extent_create = tcp_extent_create,
    .extent_grow = tcp_extent_grow,
    .extent_shrink = tcp_extent_shrink,
    .extent_destroy = tcp_extent_destroy,
    .renew = tcp_renew,
    .user_add = tcp_user_add,
    .user_remove = tcp_user_remove,
    .map = tcp_map,
    .unmap = tcp_unmap,
    .lane_open = loci_tcp_lane_open,
    .lane_close = loci_tcp_lane_close,
    .lane_mend = loci_tcp_lane_mend,
    .post = loci_tcp_post,
    .write = loci_tcp_write,
    .poll = loci_tcp_poll,
    .help = tcp_help,
    .update = tcp_update,
    .strided = tcp_strided,
    .combine = tcp_combine,
    .touch_room = tcp_touch_room,
    .touch = tcp_touch,
    .ring = tcp_ring,
    .bells = tcp_bells,
    .control_send = tcp_control_send,
};
