/* SPDX-License-Identifier: BSD-3-Clause */

/* Links: their life, what is queued for them, heartbeats, and how they end. What a process sent
 * before it ended counts: it is taken before its end is told, and a goodbye among it makes the
 * difference between left and dead. */

#include "config.h"

#include <errno.h>
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
#define SECOND INT64_C(1000000000)
#define LEAST_NS 20000000                   /* between ticks */
#define LINKS_A_TICK 1000                   /* with more links, heartbeats are as much rarer */

/* ---- who needs to be looked after ---- */

/* Under the lock. */
static void put_down(struct loci_link *l)
{
    if (l->to_do)
        return;
    l->to_do = true;
    l->next_to_do = l->links->to_do;
    l->links->to_do = l;
}

static void kick(struct loci_links *links)
{
    const uint64_t one = 1;

    if (write(links->kick_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        LOCI_LOG(links->rt, LOCO_LOG_ERROR, "the service thread cannot be told: %m");
}

void loci_link_attend(struct loci_link *l)
{
    pthread_mutex_lock(&l->links->lock);
    put_down(l);
    pthread_mutex_unlock(&l->links->lock);
    kick(l->links);
}

void loci_link_fail(struct loci_link *l, const char *how)
{
    if (l->failure == NULL)
        l->failure = how;
    loci_link_attend(l);
}

static struct loci_link *next_to_do(struct loci_links *links)
{
    struct loci_link *l;

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
    struct loci_links *links = ctx;
    struct loci_link *l;
    uint64_t times;

    (void)events;
    if (read(fd, &times, sizeof times) < 0 && errno != EAGAIN)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "reading an eventfd: %m");
    while ((l = next_to_do(links)) != NULL) {
        if (l->failure != NULL)
            loci_link_ended(l, l->failure);
        else if (l->state == LINK_NEW)
            links->ops->connect(l);
        else if (l->state == LINK_READY)
            links->ops->pump(l);
        if (links->ops->attend != NULL)
            links->ops->attend(l);
    }
}

static struct loci_link *first_of(struct loci_links *links)
{
    struct loci_link *l;

    pthread_mutex_lock(&links->lock);
    l = links->all;
    pthread_mutex_unlock(&links->lock);
    return l;
}

struct loci_link *loci_link_find(struct loci_links *links, uint64_t identity, uint64_t label)
{
    struct loci_link *l = first_of(links);

    while (l != NULL && (l->peer->address.identity != identity
                         || l->peer->address.label != label))
        l = l->next;
    return l;
}

/* ---- ends ---- */

static void hang_up(struct loci_link *l)
{
    struct loci_link_queued *queue, *q;

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

void loci_link_ended(struct loci_link *l, const char *how)
{
    struct loco_runtime *rt = l->links->rt;

    if (l->state == LINK_ENDED)
        return;
    l->links->ops->drain(l);
    l->state = LINK_ENDED;
    hang_up(l);
    l->links->ops->disconnect(l);
    if (l->gone)
        loci_peer_is_unused(rt, l->peer);       /* that may wait for this */
    if (l->gone || atomic_load_explicit(&l->parted, memory_order_relaxed))
        return;
    l->gone = true;
    loci_peer_gone(rt, l->peer, l->goodbye ? LOCI_PEER_LEFT : LOCI_PEER_DEAD, how);
}

/* ---- time ---- */

/* Whatever else is sent, for that may have been right after the last one. */
static void beat(struct loci_link *l)
{
    if (atomic_load_explicit(&l->queued, memory_order_relaxed) == 0)
        loci_link_send(l, LINK_ALIVE, NULL, 0);
}

static void look_at(struct loci_link *l, unsigned every)
{
    const struct loci_link_ops *ops = l->links->ops;

    if (l->state == LINK_READY) {
        if (l->links->ticks % every == 0)
            beat(l);
        if (ops->look != NULL)
            ops->look(l, every);
    } else if (l->state != LINK_ENDED) {
        if (loci_now(l->links->rt) - l->since > MEET_PATIENCE) {
            ops->no_way(l);
            loci_link_ended(l, "there is no connection to it");
        } else if (l->state == LINK_NEW) {
            ops->connect(l);
        }
    }
}

void loci_links_look_in(struct loci_links *links, int64_t ns)
{
    if (ns < links->look_in)
        links->look_in = ns < LEAST_NS ? LEAST_NS : ns;
}

/* The next tick, and each second from then on. */
static void set_timer(struct loci_links *links, int64_t ns)
{
    const struct itimerspec when = {
        .it_value = { ns / SECOND, ns % SECOND }, .it_interval.tv_sec = 1,
    };

    timerfd_settime(links->timer_fd, 0, &when, NULL);
}

/* Each second, or when a peer's time is over: what failed is tried again, what has failed for too
 * long is given up, and each peer hears that this process is there. Links are added at the
 * front, and taken away by this thread alone, not meanwhile. */
static void tick(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct loci_links *links = ctx;
    struct loci_link *l;
    uint64_t times;
    unsigned every;

    (void)rt;
    (void)events;
    if (read(fd, &times, sizeof times) < 0)
        return;
    pthread_mutex_lock(&links->lock);
    l = links->all;
    every = 1 + links->count / LINKS_A_TICK;
    pthread_mutex_unlock(&links->lock);
    links->ticks++;
    links->look_in = SECOND;
    loci_link_tidy_parked(links);
    if (links->ops->tick != NULL)
        links->ops->tick(links);
    for (; l != NULL; l = l->next)
        look_at(l, every);
    if (links->look_in < SECOND)
        set_timer(links, links->look_in);
}

void loci_links_tick(struct loci_links *links)
{
    bool begins;

    pthread_mutex_lock(&links->lock);
    begins = !links->ticking;
    links->ticking = true;
    pthread_mutex_unlock(&links->lock);
    if (begins)
        set_timer(links, SECOND);
}

/* ---- messages out ---- */

static int has_room(void *arg)
{
    struct loci_link *l = arg;

    return atomic_load_explicit(&l->queued, memory_order_relaxed) < QUEUE_MANY;
}

static struct loci_link_queued *queued(struct loci_link *l, enum loci_link_type type,
                                       const void *message, size_t len)
{
    struct loci_link_queued *q = malloc(sizeof *q + len);

    if (q == NULL)
        return NULL;
    q->next = NULL;
    q->head = (struct loci_link_head){
        .magic = LINK_MAGIC, .version = LINK_VERSION, .type = (uint16_t)type,
        .len = (uint32_t)len, .from = l->links->rt->address.identity,
    };
    if (len > 0)
        memcpy(q->body, message, len);
    return q;
}

int loci_link_send(struct loci_link *l, enum loci_link_type type, const void *message, size_t len)
{
    struct loci_links *links = l->links;
    const struct loci_reason why = {
        .what = "a peer to take its messages", .peer = l->peer->index,
        .timeout_ns = QUEUE_PATIENCE,
    };
    struct loci_link_queued *q;
    bool hung_up;
    int status;

    if (len > LOCI_CONTROL_MAX)
        return LOCO_ERR_ARG;
    if (!has_room(l) && !loci_service_is_self(links->rt)) {
        status = loci_wait(links->rt, &why, has_room, l);
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

struct loci_link_queued *loci_link_next(struct loci_link *l)
{
    struct loci_link_queued *q;

    pthread_mutex_lock(&l->links->lock);
    q = l->first;
    if (q != NULL) {
        l->first = q->next;
        if (l->first == NULL)
            l->last = &l->first;
    }
    pthread_mutex_unlock(&l->links->lock);
    return q;
}

/* ---- messages in ---- */

static void said_goodbye(struct loci_link *l)
{
    l->goodbye = true;
    if (l->gone)
        return;
    l->gone = true;
    loci_peer_gone(l->links->rt, l->peer, LOCI_PEER_LEFT, "it has closed its runtime");
}

const char *loci_link_check(const struct loci_link_head *head, uint64_t from)
{
    if (head->magic != LINK_MAGIC || head->version != LINK_VERSION)
        return "not one of this release";
    if (head->len > LOCI_CONTROL_MAX)
        return "wrong length";
    return head->from == from ? NULL : "not by its sender's connection";
}

const char *loci_link_take(struct loci_link *l, const struct loci_link_head *head,
                           const void *body)
{
    switch (head->type) {
    case LINK_CONTROL:
        loci_control_receive(l->links->rt, l->peer->index, body, head->len);
        break;
    case LINK_DEVICE: l->links->ops->receive(l, body, head->len); break;
    case LINK_GOODBYE: said_goodbye(l); break;
    case LINK_ALIVE: break;
    default: return "unknown type";
    }
    return NULL;
}

/* ---- peers ---- */

int loci_link_add(struct loci_links *links, struct loci_peer *peer, struct loci_link **out)
{
    struct loci_link *l = calloc(1, links->ops->size);

    if (l == NULL)
        return LOCO_ERR_NO_MEMORY;
    l->links = links;
    l->peer = peer;
    l->last = &l->first;
    l->since = loci_now(links->rt);
    *out = l;
    pthread_mutex_lock(&links->lock);
    l->next = links->all;
    links->all = l;
    links->count++;
    pthread_mutex_unlock(&links->lock);
    loci_links_tick(links);
    loci_link_attend(l);
    return LOCO_OK;
}

void loci_link_part(struct loci_link *l)
{
    atomic_store_explicit(&l->parted, true, memory_order_relaxed);
    loci_link_send(l, LINK_GOODBYE, NULL, 0);
}

static void take_out(struct loci_link *l)
{
    struct loci_links *links = l->links;
    struct loci_link **at = &links->all;

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
bool loci_link_forget(struct loci_link *l)
{
    if (l->state != LINK_ENDED) {
        loci_link_fail(l, "it is not needed any more");
        return false;
    }
    take_out(l);
    free(l);
    return true;
}

/* ---- life ---- */

int loci_links_init(struct loci_links *links, struct loco_runtime *rt,
                    const struct loci_link_ops *ops, void *owner)
{
    memset(links, 0, sizeof *links);
    links->rt = rt;
    links->ops = ops;
    links->owner = owner;
    links->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    links->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (links->kick_fd >= 0 && links->timer_fd >= 0) {
        pthread_mutex_init(&links->lock, NULL);
        return LOCO_OK;
    }
    if (links->kick_fd >= 0) {
        int error = errno;

        close(links->kick_fd);
        errno = error;
    }
    return LOCO_ERR_SYSTEM;
}

int loci_links_watch(struct loci_links *links)
{
    int status = loci_service_watch(links->rt, links->kick_fd, EPOLLIN, kicked, links);

    return status != LOCO_OK ? status
           : loci_service_watch(links->rt, links->timer_fd, EPOLLIN, tick, links);
}

static int all_is_sent(void *arg)
{
    struct loci_link *l = first_of(arg);

    while (l != NULL && atomic_load_explicit(&l->queued, memory_order_relaxed) == 0)
        l = l->next;
    return l == NULL;
}

void loci_links_stop(struct loci_links *links)
{
    const struct loci_reason why = {
        .what = "goodbyes", .peer = -1, .timeout_ns = GOODBYE_NS,
    };

    if (first_of(links) != NULL)
        loci_wait(links->rt, &why, all_is_sent, links);
    loci_service_unwatch(links->rt, links->kick_fd);
    loci_service_unwatch(links->rt, links->timer_fd);
}

void loci_links_fini(struct loci_links *links)
{
    loci_link_refuse_parked(links);
    while (links->all != NULL) {
        struct loci_link *l = links->all;

        hang_up(l);
        links->ops->disconnect(l);
        links->all = l->next;
        free(l);
    }
    close(links->kick_fd);
    close(links->timer_fd);
    pthread_mutex_destroy(&links->lock);
}
