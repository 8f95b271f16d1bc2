/* SPDX-License-Identifier: BSD-3-Clause */

/* Links to processes of other machines: their life, what is queued for them, heartbeats, and how
 * they end. What a process sent before it ended counts: it is taken before its end is told, and a
 * goodbye among it makes the difference between left and dead. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "service.h"
#include "wait.h"
#include "link.h"

#define QUEUE_MANY 4096                     /* messages from which on threads wait */
#define QUEUE_PATIENCE INT64_C(10000000000) /* ns that they wait */
#define MEET_PATIENCE INT64_C(60000000000)  /* ns for a connection to come about */
#define GOODBYE_NS INT64_C(5000000000)      /* to get the goodbyes out, and connected if need be */
#define LINKS_A_TICK 1000                   /* with more links, heartbeats are as much rarer */

/* ---- who needs to be looked after ---- */

/* Under the lock. */
static void put_down(struct verbs_link *l)
{
    if (l->to_do)
        return;
    l->to_do = true;
    l->next_to_do = l->links->to_do;
    l->links->to_do = l;
}

static void kick(struct verbs_links *links)
{
    const uint64_t one = 1;

    if (write(links->kick_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        LOCI_LOG(links->fabric->rt, LOCO_LOG_ERROR, "the service thread cannot be told: %m");
}

void loci_link_attend(struct verbs_link *l)
{
    pthread_mutex_lock(&l->links->lock);
    put_down(l);
    pthread_mutex_unlock(&l->links->lock);
    kick(l->links);
}

static struct verbs_link *next_to_do(struct verbs_links *links)
{
    struct verbs_link *l;

    pthread_mutex_lock(&links->lock);
    l = links->to_do;
    if (l != NULL) {
        links->to_do = l->next_to_do;
        l->to_do = false;
    }
    pthread_mutex_unlock(&links->lock);
    return l;
}

static void kicked(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct verbs_links *links = ctx;
    struct verbs_link *l;
    uint64_t times;

    (void)events;
    if (read(fd, &times, sizeof times) < 0 && errno != EAGAIN)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "reading an eventfd: %m");
    while ((l = next_to_do(links)) != NULL) {
        if (l->failure != NULL)
            loci_link_ended(l, l->failure);
        else if (l->state == LINK_NEW)
            loci_link_connect(l);
        else if (l->state == LINK_READY)
            loci_link_pump(l);
    }
}

struct verbs_link *loci_link_find(struct verbs_links *links, uint64_t identity, uint64_t label)
{
    struct verbs_link *l;

    pthread_mutex_lock(&links->lock);
    l = links->all;
    while (l != NULL && (l->peer->address.identity != identity
                         || l->peer->address.label != label))
        l = l->next;
    pthread_mutex_unlock(&links->lock);
    return l;
}

/* ---- ends ---- */

static void hang_up(struct verbs_link *l)
{
    struct link_queued *queue, *q;

    pthread_mutex_lock(&l->links->lock);
    l->hung_up = true;
    queue = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->links->lock);
    while ((q = queue) != NULL) {
        queue = q->next;
        free(q);
    }
    atomic_store_explicit(&l->queued, 0, memory_order_relaxed);
}

void loci_link_ended(struct verbs_link *l, const char *how)
{
    if (l->state == LINK_ENDED)
        return;
    loci_link_drain(l->links);
    l->state = LINK_ENDED;
    hang_up(l);
    loci_link_disconnect(l);
    if (l->gone)
        loci_peer_is_unused(l->links->fabric->rt, l->peer);     /* that may wait for this */
    if (l->gone || atomic_load_explicit(&l->parted, memory_order_relaxed))
        return;
    l->gone = true;
    loci_peer_gone(l->links->fabric->rt, l->peer, l->goodbye ? LOCI_PEER_LEFT : LOCI_PEER_DEAD,
                   how);
}

/* No connection has come about. */
static void no_way(struct verbs_link *l)
{
    struct loco_runtime *rt = l->links->fabric->rt;
    char at[LOCI_GID_TEXT];

    loci_gid_text((const unsigned char *)l->peer->address.link, at);
    LOCI_LOG(rt, LOCO_LOG_ERROR, "no RDMA connection to process %016llx (pid %d) at %s: %s Can its "
             "machine be reached (rping), and does a firewall let it?",
             (unsigned long long)l->peer->address.identity, (int)l->peer->address.pid, at,
             l->why[0] != '\0' ? l->why : "it has not called.");
    loci_link_ended(l, "there is no connection to it");
}

/* ---- time ---- */

static void beat(struct verbs_link *l)
{
    bool idle = l->in_flight == 0 && !l->spoke;

    l->spoke = false;
    if (idle)
        loci_verbs_link_send(l, LINK_ALIVE, NULL, 0);
}

/* Each second: what failed is tried again, what has failed for too long is given up, and who was
 * sent nothing is asked whether it is there. Links are added at the front, and taken away by this
 * thread alone, not meanwhile. */
static void tick(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct verbs_links *links = ctx;
    struct verbs_link *l;
    uint64_t times;
    unsigned every;

    (void)events;
    if (read(fd, &times, sizeof times) < 0)
        return;
    pthread_mutex_lock(&links->lock);
    l = links->all;
    every = 1 + links->count / LINKS_A_TICK;
    pthread_mutex_unlock(&links->lock);
    links->ticks++;
    loci_link_tidy_parked(links);
    for (; l != NULL; l = l->next) {
        if (l->state == LINK_READY) {
            if (links->ticks % every == 0)
                beat(l);
        } else if (l->state != LINK_ENDED) {
            if (loci_now(rt) - l->since > MEET_PATIENCE)
                no_way(l);
            else if (l->state == LINK_NEW)
                loci_link_connect(l);
        }
    }
}

/* ---- messages ---- */

static int has_room(void *arg)
{
    struct verbs_link *l = arg;

    return atomic_load_explicit(&l->queued, memory_order_relaxed) < QUEUE_MANY;
}

static struct link_queued *queued(struct verbs_link *l, enum link_type type, const void *message,
                                  size_t len)
{
    struct link_queued *q = malloc(sizeof *q + len);

    if (q == NULL)
        return NULL;
    q->next = NULL;
    q->head = (struct link_head){
        .magic = LINK_MAGIC, .version = LINK_VERSION, .type = (uint16_t)type,
        .len = (uint32_t)len, .from = l->links->fabric->rt->address.identity,
    };
    if (len > 0)
        memcpy(q->body, message, len);
    return q;
}

int loci_verbs_link_send(struct verbs_link *l, unsigned type, const void *message, size_t len)
{
    struct verbs_links *links = l->links;
    const struct loci_reason why = {
        .what = "a peer to take its messages", .peer = l->peer->index,
        .timeout_ns = QUEUE_PATIENCE,
    };
    struct link_queued *q;
    bool hung_up;
    int status;

    if (len > LOCI_CONTROL_MAX)
        return LOCO_ERR_ARG;
    if (!has_room(l) && !loci_service_is_self(links->fabric->rt)) {
        status = loci_wait(links->fabric->rt, &why, has_room, l);
        if (status != LOCO_OK)
            return status;
    }
    q = queued(l, type, message, len);
    if (q == NULL)
        return LOCO_ERR_NO_MEMORY;
    pthread_mutex_lock(&links->lock);
    hung_up = l->hung_up;
    if (!hung_up) {
        atomic_fetch_add_explicit(&l->queued, 1, memory_order_relaxed);
        *l->last = q;
        l->last = &q->next;
        put_down(l);
    }
    pthread_mutex_unlock(&links->lock);
    if (hung_up) {
        free(q);
        return LOCO_ERR_PEER_DEAD;
    }
    kick(links);
    return LOCO_OK;
}

/* ---- peers ---- */

void loci_link_tick(struct verbs_links *links)
{
    const struct itimerspec each_second = { .it_value.tv_sec = 1, .it_interval.tv_sec = 1 };

    timerfd_settime(links->timer_fd, 0, &each_second, NULL);
}

/* With the first of them: what all share. */
static int prepare(struct verbs_links *links)
{
    struct loco_runtime *rt = links->fabric->rt;
    int status;

    if (links->memory != NULL)
        return LOCO_OK;
    if (!loci_link_queues_open(links, links->listener->verbs)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "nothing to connect machines with on %s: %m%s",
                 links->fabric->port.device, loci_verbs_remedy(errno));
        return LOCO_ERR_SYSTEM;
    }
    status = loci_service_watch(rt, links->done->fd, EPOLLIN, loci_link_done_event, links);
    loci_link_tick(links);
    return status;
}

int loci_verbs_link_add(struct verbs_fabric *f, struct loci_peer *peer, struct verbs_link **out)
{
    struct verbs_links *links = f->links;
    struct verbs_link *l;
    int status;

    if (links == NULL || peer->address.link[2] == 0) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "process %016llx runs on another machine, and %s cannot be "
                 "connected to by RDMA: %s", (unsigned long long)peer->address.identity,
                 links == NULL ? "this process" : "it",
                 links == NULL ? f->no_links : "its own log says why (LOCO_LOG=info)");
        return LOCO_ERR_UNSUPPORTED;
    }
    status = prepare(links);
    if (status != LOCO_OK)
        return status;
    l = calloc(1, sizeof *l);
    if (l == NULL)
        return LOCO_ERR_NO_MEMORY;
    l->links = links;
    l->peer = peer;
    l->last = &l->first;
    l->since = loci_now(f->rt);
    *out = l;
    pthread_mutex_lock(&links->lock);
    l->next = links->all;
    links->all = l;
    links->count++;
    pthread_mutex_unlock(&links->lock);
    loci_link_attend(l);
    return LOCO_OK;
}

void loci_verbs_link_part(struct verbs_link *l)
{
    atomic_store_explicit(&l->parted, true, memory_order_relaxed);
    loci_verbs_link_send(l, LINK_GOODBYE, NULL, 0);
}

void loci_verbs_link_lost(struct verbs_link *l)
{
    loci_link_ended(l, "its device does not answer");
}

static void take_out(struct verbs_link *l)
{
    struct verbs_links *links = l->links;
    struct verbs_link **at = &links->all;

    pthread_mutex_lock(&links->lock);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    links->count--;
    if (l->to_do) {
        at = &links->to_do;
        while (*at != l)
            at = &(*at)->next_to_do;
        *at = l->next_to_do;
    }
    pthread_mutex_unlock(&links->lock);
}

/* The connection to a peer that has said goodbye may be there still; it is ended as one that has
 * failed, since that takes what has come, for which the caller may hold too much. */
bool loci_verbs_link_forget(struct verbs_link *l)
{
    if (l->state != LINK_ENDED) {
        if (l->failure == NULL)
            l->failure = "it is not needed any more";
        loci_link_attend(l);
        return false;
    }
    take_out(l);
    free(l);
    return true;
}

/* ---- life ---- */

static void free_links(struct verbs_links *links)
{
    loci_link_connect_close(links);
    loci_link_queues_close(links);
    if (links->kick_fd >= 0)
        close(links->kick_fd);
    if (links->timer_fd >= 0)
        close(links->timer_fd);
    while (links->all != NULL) {
        struct verbs_link *l = links->all;

        links->all = l->next;
        free(l);
    }
    pthread_mutex_destroy(&links->lock);
    free(links);
}

static bool watch(struct verbs_links *links)
{
    struct loco_runtime *rt = links->fabric->rt;

    links->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    links->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return links->kick_fd >= 0 && links->timer_fd >= 0
           && loci_service_watch(rt, links->kick_fd, EPOLLIN, kicked, links) == LOCO_OK
           && loci_service_watch(rt, links->timer_fd, EPOLLIN, tick, links) == LOCO_OK
           && loci_service_watch(rt, links->channel->fd, EPOLLIN, loci_link_connect_event,
                                 links) == LOCO_OK;
}

static void unwatch(struct verbs_links *links)
{
    const int fds[] = {
        links->kick_fd, links->timer_fd, links->channel != NULL ? links->channel->fd : -1,
        links->done != NULL ? links->done->fd : -1,
    };

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            loci_service_unwatch(links->fabric->rt, fds[i]);
}

void loci_verbs_links_open(struct verbs_fabric *f, struct loci_address *mine)
{
    struct verbs_links *links = calloc(1, sizeof *links);

    f->no_links = "no memory";
    if (links == NULL)
        return;
    links->fabric = f;
    links->kick_fd = links->timer_fd = -1;
    pthread_mutex_init(&links->lock, NULL);
    if (loci_link_listen(links, mine, &f->no_links)) {
        f->no_links = "no descriptors to watch";
        if (watch(links)) {
            f->links = links;
            return;
        }
    }
    LOCI_LOG(f->rt, LOCO_LOG_INFO, "processes of other machines cannot be connected to: %s",
             f->no_links);
    memset(mine->link, 0, sizeof mine->link);
    unwatch(links);
    free_links(links);
}

static int all_is_sent(void *arg)
{
    struct verbs_links *links = arg;
    struct verbs_link *l;

    pthread_mutex_lock(&links->lock);
    l = links->all;
    pthread_mutex_unlock(&links->lock);
    while (l != NULL && atomic_load_explicit(&l->queued, memory_order_relaxed) == 0)
        l = l->next;
    return l == NULL;
}

void loci_verbs_links_close(struct verbs_fabric *f)
{
    const struct loci_reason why = {
        .what = "goodbyes", .peer = -1, .timeout_ns = GOODBYE_NS,
    };

    if (f->links == NULL)
        return;
    loci_wait(f->rt, &why, all_is_sent, f->links);
    unwatch(f->links);      /* from here on no handler runs */
    for (struct verbs_link *l = f->links->all; l != NULL; l = l->next) {
        hang_up(l);
        loci_link_disconnect(l);
    }
    free_links(f->links);
    f->links = NULL;
}
