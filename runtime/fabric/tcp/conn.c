/* SPDX-License-Identifier: BSD-3-Clause */

/* Data connections: their life.
 *
 * One a pair of processes, made when the first of the two has something to post. Posting does not
 * wait for it: what is queued is sent when it is there. When it ends, all that was posted ends with
 * it: nothing is known of writes that were on their way, so the peer counts as lost, unless its
 * link has told already that it has left. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve.h"

/* ---- making one ---- */

static void free_rings(struct tcp_conn *c)
{
    free(c->owed);
    free(c->items);
    free(c->pending);
    free(c->deferred);
    loci_tcp_bytes_close(&c->requests);
    loci_tcp_bytes_close(&c->answers);
}

static bool make_rings(struct tcp_conn *c)
{
    size_t bytes = (size_t)c->fabric->rt->tunables.tcp_buffer;

    c->owed = malloc(TCP_OWED * sizeof *c->owed);
    c->items = malloc(TCP_ITEMS * sizeof *c->items);
    c->pending = malloc(TCP_OWED * sizeof *c->pending);
    return c->owed != NULL && c->items != NULL && c->pending != NULL
           && loci_tcp_bytes_open(&c->requests, bytes) && loci_tcp_bytes_open(&c->answers, bytes);
}

static struct tcp_conn *make(struct tcp_peer *p)
{
    struct tcp_conn *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->fabric = p->fabric;
    c->peer = p;
    c->fd = -1;
    if (!make_rings(c)) {
        free_rings(c);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void loci_tcp_conn_free(struct tcp_conn *c)
{
    struct tcp_fabric *f = c->fabric;
    struct tcp_conn **at = &f->conns;

    pthread_mutex_lock(&f->lock);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&f->lock);
    free_rings(c);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

struct tcp_conn *loci_tcp_conn(struct tcp_peer *p)
{
    struct tcp_fabric *f = p->fabric;
    struct tcp_conn *c = atomic_load_explicit(&p->conn, memory_order_acquire);
    bool mine = false;

    if (c != NULL)
        return c;
    pthread_mutex_lock(&f->lock);
    c = atomic_load_explicit(&p->conn, memory_order_relaxed);
    if (c == NULL) {
        c = make(p);
        mine = c != NULL;
    }
    if (mine) {
        c->next = f->conns;
        f->conns = c;
        /* Pairs with the acquire above: what it is made of, then where it is. */
        atomic_store_explicit(&p->conn, c, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
    if (mine)
        loci_tcp_dial(f, p->peer, LOCI_CALL_DATA);
    return c;
}

/* ---- connected ---- */

static int watch(struct tcp_conn *c, int what)
{
    struct epoll_event event = {
        .events = EPOLLIN
                  | (atomic_load_explicit(&c->wants_out, memory_order_relaxed) ? EPOLLOUT : 0),
        .data.ptr = c,
    };

    return epoll_ctl(c->fabric->epoll_fd, what, c->fd, &event);
}

void loci_tcp_want_room(struct tcp_conn *c, bool wanted)
{
    if (atomic_load_explicit(&c->wants_out, memory_order_relaxed) == wanted || c->fd < 0 || c->deaf)
        return;
    atomic_store_explicit(&c->wants_out, wanted, memory_order_relaxed);
    if (watch(c, EPOLL_CTL_MOD) != 0)
        LOCI_LOG(c->fabric->rt, LOCO_LOG_ERROR, "a connection cannot be watched: %m");
}

/* Under serving. What is more than a few is found by epoll; when it is a few again, one by one: all
 * that are READY. */
static void list_ready(struct tcp_fabric *f)
{
    int n = 0;

    if (f->nready > TCP_FEW)
        return;
    pthread_mutex_lock(&f->lock);
    for (struct tcp_conn *c = f->conns; c != NULL; c = c->next)
        if (c->fd >= 0 && !c->deaf && n < TCP_FEW)
            f->ready[n++] = c;
    pthread_mutex_unlock(&f->lock);
}

static void count_ready(struct tcp_fabric *f, int more)
{
    f->nready += more;
    list_ready(f);
    atomic_store_explicit(&f->conns_ready, (unsigned)f->nready, memory_order_relaxed);
}

/* Service thread. The peer may dial before anybody here has posted. */
void loci_tcp_conn_connected(struct tcp_fabric *f, struct tcp_peer *p, int fd)
{
    bool wanted = loci_peer_alive(f->rt, p->peer->index);
    struct tcp_conn *c = wanted ? loci_tcp_conn(p) : NULL;
    int status = c != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;

    pthread_mutex_lock(&f->serving);
    if (status == LOCO_OK) {
        pthread_mutex_lock(&c->lock);
        status = atomic_load_explicit(&c->state, memory_order_relaxed) == TCP_CONN_NEW && !c->deaf
                 ? LOCO_OK : LOCO_ERR_STATE;
        if (status == LOCO_OK) {
            c->fd = fd;
            atomic_store_explicit(&c->state, TCP_CONN_READY, memory_order_relaxed);
            count_ready(f, 1);
            loci_stats_add(f->rt->stats, LOCI_STAT_TCP + LOCI_STATS_TCP_CONNECTIONS, 1);
            status = watch(c, EPOLL_CTL_ADD) == 0 ? loci_tcp_pump(c) : LOCO_ERR_SYSTEM;
            loci_tcp_want_room(c, atomic_load_explicit(&c->unsent, memory_order_relaxed));
        } else {
            close(fd);
            status = LOCO_OK;       /* it is there already, or over: this one is not needed */
        }
        pthread_mutex_unlock(&c->lock);
        if (status != LOCO_OK)
            loci_tcp_conn_end(c, LOCO_ERR_PEER_DEAD, "its connection cannot be used");
    } else {
        close(fd);
    }
    pthread_mutex_unlock(&f->serving);
}

/* ---- the end ---- */

static void fail_pending(struct tcp_conn *c, int status)
{
    uint32_t from = atomic_load_explicit(&c->pending_from, memory_order_relaxed);
    uint32_t to = atomic_load_explicit(&c->pending_to, memory_order_relaxed);

    for (; from != to; from++) {
        struct tcp_request *r = c->pending[from % TCP_OWED];

        r->status = status;
        r->behind = true;
        /* Pairs with the acquire of the lane's poll. */
        atomic_store_explicit(&r->done, true, memory_order_release);
    }
    atomic_store_explicit(&c->pending_from, from, memory_order_release);
}

void loci_tcp_conn_end(struct tcp_conn *c, int status, const char *why)
{
    struct tcp_fabric *f = c->fabric;
    bool had;

    pthread_mutex_lock(&c->lock);
    if (atomic_load_explicit(&c->state, memory_order_relaxed) == TCP_CONN_ENDED) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    had = c->fd >= 0 && !c->deaf;
    c->status = status;
    c->why = why;
    atomic_store_explicit(&c->state, TCP_CONN_ENDED, memory_order_release);
    if (had)
        epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (c->fd >= 0) {
        shutdown(c->fd, SHUT_RDWR);     /* a child of this process may have a copy */
        syscall(SYS_close, c->fd);
    }
    c->fd = -1;
    if (had)
        count_ready(f, -1);
    loci_tcp_drop_queued(c, status);
    fail_pending(c, status);
    loci_tcp_forget_owed(c);
    pthread_mutex_unlock(&c->lock);
    /* The service thread asks the link, which may know that it has left. The fence pairs with that
     * in stop_ticking(): either this sees that it ticks no more, or that sees this. */
    atomic_store_explicit(&c->peer->lost, true, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    loci_tcp_tick_soon(f);
}

void loci_tcp_conn_leave(struct tcp_conn *c)
{
    struct tcp_fabric *f = c->fabric;
    bool had;

    pthread_mutex_lock(&c->lock);
    had = c->fd >= 0 && !c->deaf;
    c->deaf = true;         /* also of one that comes about only later */
    if (had) {
        epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
        count_ready(f, -1);
    }
    loci_tcp_forget_owed(c);
    pthread_mutex_unlock(&c->lock);
}

void loci_tcp_conn_failed(struct tcp_fabric *f, struct tcp_peer *p, const char *why)
{
    struct tcp_conn *c = atomic_load_explicit(&p->conn, memory_order_acquire);

    if (c == NULL)
        return;
    pthread_mutex_lock(&f->serving);
    loci_tcp_conn_end(c, LOCO_ERR_PEER_DEAD, why);
    pthread_mutex_unlock(&f->serving);
}
