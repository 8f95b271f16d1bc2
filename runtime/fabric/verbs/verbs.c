/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric's life and peers, and what of it is shm's. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../shm/offer.h"
#include "../shm/shm.h"
#include "links.h"
#include "move/rma.h"
#include "qp.h"
#include "service.h"
#include "wait.h"

#define PAGE 4096
/* ---- the device ---- */

/* An identity ends in the process's number in its job. */
static unsigned turn_of_self(const struct loco_runtime *rt)
{
    return rt->host.place > 0 ? rt->host.place - 1 : (unsigned)rt->address.identity & 0xfff;
}

/* Which one, and why none. */
static int choose(struct verbs_fabric *f)
{
    struct loci_device_port list[LOCI_DEVICES_MAX];
    const char *why;
    int n = loci_devices_list(list, LOCI_DEVICES_MAX, &f->rt->tunables, turn_of_self(f->rt), &why);

    for (int i = 0; i < n; i++)
        if (list[i].chosen) {
            f->port = list[i];
            return LOCO_OK;
        }
    LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no RDMA device can be used (LOCO_DEVICE=%s)%s%s",
             f->rt->tunables.device, n == 0 ? ": " : "", why);
    for (int i = 0; i < n; i++)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "%s:%d: %s", list[i].device, list[i].port,
                 list[i].why_not);
    return LOCO_ERR_UNSUPPORTED;
}

static bool open_device(struct verbs_fabric *f)
{
    f->context = loci_device_open(f->port.device);
    if (f->context == NULL)
        return false;
    f->pd = ibv_alloc_pd(f->context);
    if (f->pd == NULL
        || ibv_query_gid(f->context, (uint8_t)f->port.port, f->port.gid_index, &f->gid) != 0)
        return false;
    f->domains.context = f->context;
    f->domains.base = f->pd;
    f->end_cq = ibv_create_cq(f->context, 16, NULL, NULL, 0);
    f->anchor = aligned_alloc(PAGE, PAGE);
    if (f->end_cq == NULL || f->anchor == NULL)
        return false;
    memset(f->anchor, 0, PAGE);
    f->no_answer = loci_random(f->rt);
    loci_credits_open(f->rt, f->port.loses_answers ? LOCI_SOFT_BYTES
                                                       : LOCI_CREDIT_NO_BYTES);
    f->anchor_mr = ibv_reg_mr(f->pd, f->anchor, PAGE, IBV_ACCESS_REMOTE_READ);
    return f->anchor_mr != NULL;
}

/* ---- what the service thread hears ---- */

static void lost(struct verbs_peer *p)
{
    if (p->link != NULL)
        loci_link_ended(p->link, "its device does not answer");
    else
        loci_shm_ended(p->peer->fabric_data, "its device does not answer");
}

static void hear_news(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    int count = atomic_load_explicit(&rt->peer_count, memory_order_acquire);
    uint64_t times;

    (void)events;
    if (read(fd, &times, sizeof times) < 0)
        return;
    for (int i = 0; i < count; i++) {
        struct verbs_peer *p = loci_peer(rt, i)->device_data;

        /* Pairs with the release in tell_service(). */
        if (p != NULL && atomic_exchange_explicit(&p->lost, false, memory_order_acquire))
            lost(p);
    }
    loci_verbs_drop_stale(ctx);
}

/* What a queue pair's refusals and losses are comes as completions, too. */
static int level_of(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_DEVICE_FATAL: case IBV_EVENT_CQ_ERR: case IBV_EVENT_QP_FATAL:
        return LOCO_LOG_ERROR;
    case IBV_EVENT_PORT_ERR:
        return LOCO_LOG_WARN;
    default:
        return LOCO_LOG_DEBUG;
    }
}

/* Events of the device, its port, queues and queue pairs. */
static void device_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct verbs_fabric *f = ctx;
    struct ibv_async_event event;

    (void)fd;
    (void)events;
    if (ibv_get_async_event(f->context, &event) != 0)
        return;
    LOCI_LOG(rt, level_of(event.event_type), "%s: %s", f->port.device,
             ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
}

static int watch(struct verbs_fabric *f)
{
    int flags = fcntl(f->context->async_fd, F_GETFL), status;

    f->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->news_fd < 0 || flags < 0
        || fcntl(f->context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "the events of %s cannot be watched: %m", f->port.device);
        return LOCO_ERR_SYSTEM;
    }
    status = loci_service_watch(f->rt, f->news_fd, EPOLLIN, hear_news, f);
    if (status == LOCO_OK)
        status = loci_service_watch(f->rt, f->context->async_fd, EPOLLIN, device_event, f);
    return status;
}

/* ---- life ---- */

static void free_fabric(struct verbs_fabric *f)
{
    if (f->news_fd >= 0)
        loci_service_unwatch(f->rt, f->news_fd);
    if (f->context != NULL)
        loci_service_unwatch(f->rt, f->context->async_fd);
    loci_errands_close(&f->errands);
    loci_verbs_threads_close(f);
    loci_verbs_users_close(f);
    loci_verbs_cache_close(f);
    loci_verbs_words_close(f);
    if (f->news_fd >= 0)
        close(f->news_fd);              /* nobody writes to it any more */
    if (f->anchor_mr != NULL)
        ibv_dereg_mr(f->anchor_mr);
    free(f->anchor);
    if (f->end_cq != NULL)
        ibv_destroy_cq(f->end_cq);
    if (f->pd != NULL)
        ibv_dealloc_pd(f->pd);
    if (f->context != NULL)
        ibv_close_device(f->context);
    pthread_mutex_destroy(&f->words.lock);
    pthread_mutex_destroy(&f->cache.lock);
    pthread_mutex_destroy(&f->domains.lock);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static int open_fabric(struct loco_runtime *rt, struct loci_address *mine, bool beside_shm,
                       struct loci_fabric **fabric)
{
    struct verbs_fabric *f = calloc(1, sizeof *f);
    int status;

    if (f == NULL)
        return LOCO_ERR_NO_MEMORY;
    f->rt = rt;
    f->beside_shm = beside_shm;
    f->news_fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->cache.lock, NULL);
    pthread_mutex_init(&f->domains.lock, NULL);
    pthread_mutex_init(&f->words.lock, NULL);
    loci_errands_open(&f->errands, rt, "loco-connect");
    status = choose(f);
    if (status == LOCO_OK && !open_device(f)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "%s cannot be opened: %m", f->port.device);
        status = LOCO_ERR_SYSTEM;
    }
    if (status == LOCO_OK)
        status = watch(f);
    if (status == LOCO_OK)
        status = loci_shm_open(rt, mine, &f->shm, loci_verbs_receive, f);
    if (status != LOCO_OK) {
        free_fabric(f);
        return status;
    }
    loci_verbs_cache_open(f);
    loci_verbs_links_open(f, mine);
    LOCI_LOG(rt, LOCO_LOG_INFO, "data goes through %s, port %d, %s (%s): %s", f->port.device,
             f->port.port, f->port.gid, f->port.gid_kind, f->port.why);
    *fabric = (struct loci_fabric *)f;
    return LOCO_OK;
}

static int open_alone(struct loco_runtime *rt, struct loci_address *mine,
                      struct loci_fabric **fabric)
{
    return open_fabric(rt, mine, false, fabric);
}

static int open_beside(struct loco_runtime *rt, struct loci_address *mine,
                       struct loci_fabric **fabric)
{
    return open_fabric(rt, mine, true, fabric);
}

/* What was done when posted may still be the device's alone. Errors were told where they were met,
 * and who is gone needs nothing. Threads and lanes are freed next. */
static void verbs_drain(struct loci_fabric *fabric)
{
    (void)loci_fence_peer(verbs_of(fabric)->rt, LOCO_FENCE_PROCESS, -1);
    loci_errands_stop(&verbs_of(fabric)->errands);
}

/* Links and shm first: after that no handler runs. */
static void verbs_close(struct loci_fabric *fabric)
{
    struct verbs_fabric *f = verbs_of(fabric);
    int count = atomic_load_explicit(&f->rt->peer_count, memory_order_relaxed);

    loci_service_unwatch(f->rt, f->news_fd);
    loci_verbs_links_close(f);
    loci_fabric_shm.close(verbs_shm(fabric));
    loci_errands_stop(&f->errands);     /* they look at peers */
    for (int i = 0; i < count; i++) {
        loci_verbs_ends_drop(f, loci_peer(f->rt, i));
        free(loci_peer(f->rt, i)->device_data);
        loci_peer(f->rt, i)->device_data = NULL;
    }
    free_fabric(f);
}

/* ---- peers ---- */

static int verbs_peer_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct verbs_fabric *f = verbs_of(fabric);
    struct verbs_peer *p = peer->device_data;   /* of an introduction that failed */

    if (p == NULL)
        p = calloc(1, sizeof *p);
    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    p->peer = peer;
    peer->device_data = p;      /* its messages may be here already */
    if (loci_peer_is_noted(f->rt, peer->index))
        return LOCO_OK;
    if (peer->address.kernel != f->rt->address.kernel)
        return loci_verbs_link_add(f, peer, &p->link);
    return loci_fabric_shm.peer_add(verbs_shm(fabric), peer);
}

static void verbs_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct verbs_peer *p = peer->device_data;

    if (p != NULL && p->link != NULL)
        loci_link_part(p->link);
    else if (peer->fabric_data != NULL)
        loci_fabric_shm.peer_remove(verbs_shm(fabric), peer);
}

/* Its lanes are closed, but the errand that would have emptied them may be under way still, and
 * look at them. */
static bool verbs_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct loci_fabric *shm = verbs_shm(fabric);
    struct verbs_peer *p = peer->device_data;

    if (p != NULL) {
        if (atomic_load(&p->errands) > 0)
            return false;       /* errand_end() */
        if (p->link != NULL && !loci_link_forget(p->link))
            return false;
        p->link = NULL;
        loci_verbs_ends_drop(verbs_of(fabric), peer);   /* there was no memory for an errand */
    }
    if (peer->fabric_data != NULL && !loci_fabric_shm.peer_forget(shm, peer))
        return false;
    free(p);
    peer->device_data = NULL;
    return true;
}

static int verbs_control_send(struct loci_fabric *fabric, struct loci_peer *peer,
                              const void *message, size_t len)
{
    struct verbs_peer *p = peer->device_data;

    if (p != NULL && p->link != NULL)
        return loci_link_send(p->link, LINK_CONTROL, message, len);
    if (peer->fabric_data == NULL)
        return LOCO_ERR_UNSUPPORTED;
    return loci_fabric_shm.control_send(verbs_shm(fabric), peer, message, len);
}

int loci_verbs_tell(struct loci_peer *peer, const void *message, size_t len)
{
    struct verbs_peer *p = peer->device_data;

    if (p != NULL && p->link != NULL)
        return loci_link_send(p->link, LINK_DEVICE, message, len);
    if (peer->fabric_data == NULL)
        return LOCO_ERR_UNSUPPORTED;
    return loci_shm_device_send(peer, message, len);
}

static unsigned char *verbs_map(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    struct verbs_fabric *f = verbs_of(fabric);

    if (!f->beside_shm || loci_peer(f->rt, mem->peer)->address.node != f->rt->address.node)
        return NULL;
    return loci_fabric_shm.map(verbs_shm(fabric), mem);
}

static void verbs_unmap(struct loci_fabric *fabric, const struct loci_mem *mem)
{
    loci_fabric_shm.unmap(verbs_shm(fabric), mem);
}

/* Peers that this process shares memory with have shm's bells, as with shm alone: who signals them
 * looks at a word of theirs, where it would send a message each time. What is written through the
 * device may arrive after such a ring, and after a message as well. So no wait takes a ring for
 * more than a hint: it looks, and sleeps on. And none relies on being rung alone: the fabric is not
 * synchronous, so that waits look now and then (wait.c, all_ring), also those that the others, who
 * have no memory in common with this process, are not told of as watchers. A poller is rung in any
 * case (`ring`, or a message), and looks for what is on its way. Where memory of peers is not
 * mapped, or not theirs, messages do it. */
static bool has_bells(const struct verbs_fabric *f, const struct loci_peer *peer)
{
    return f->beside_shm && peer->address.node == f->rt->address.node;
}

static struct loci_bells *verbs_bells(struct loci_fabric *fabric, struct loci_peer *peer)
{
    return has_bells(verbs_of(fabric), peer) ? loci_shm_bells(verbs_shm(fabric), peer) : NULL;
}

static int verbs_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number)
{
    return has_bells(verbs_of(fabric), peer) ? loci_shm_ring(verbs_shm(fabric), peer, number)
           : LOCO_ERR_AGAIN;
}

#define COMMON                                                                                    \
    .close = verbs_close, .drain = verbs_drain, .peer_add = verbs_peer_add,                       \
    .peer_remove = verbs_peer_remove, .peer_gone = loci_verbs_peer_gone,                          \
    .peer_forget = verbs_peer_forget,                                                             \
    .extent_create = loci_verbs_extent_create,                                                    \
    .extent_grow = loci_verbs_extent_grow, .extent_destroy = loci_verbs_extent_destroy,           \
    .renew = loci_shm_renew,                                                                      \
    .user_add = loci_verbs_user_add, .user_remove = loci_verbs_user_remove,                       \
    .words_take = loci_verbs_words_take, .words_give = loci_verbs_words_give,                     \
    .map = verbs_map, .unmap = verbs_unmap,                                                       \
    .lane_open = loci_verbs_lane_open, .lane_close = loci_verbs_lane_close,                       \
    .lane_mend = loci_verbs_lane_mend, .post = loci_verbs_post, .write = loci_verbs_write,        \
    .poll = loci_verbs_poll,                                                                      \
    .ring = verbs_ring, .bells = verbs_bells, .control_send = verbs_control_send, .spans = true

const struct loci_fabric_ops loci_fabric_verbs = {
    .name = "verbs", .open = open_alone, COMMON
};

const struct loci_fabric_ops loci_fabric_verbs_and_shm = {
    .name = "verbs and shm", .maps = true, .open = open_beside, COMMON
};
