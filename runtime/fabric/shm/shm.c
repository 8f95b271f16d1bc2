/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric of one node: its life and its peers. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "service.h"
#include "wait.h"
#include "offer.h"
#include "own.h"
#include "shm.h"

#define GOODBYE_NS INT64_C(1000000000)      /* to get the goodbyes out */
#define CLOSE_NS INT64_C(10000000000)       /* until the service thread must have closed all */

/* ---- life ---- */

void loci_shm_close_all(struct shm_fabric *f)
{
    struct loco_runtime *rt = f->rt;

    loci_service_unwatch(rt, f->socket_fd);
    loci_service_unwatch(rt, f->timer_fd);
    for (struct shm_peer *p = f->peers; p != NULL; p = p->next) {
        loci_shm_alive_close(p);
        loci_shm_link_close(p);
        loci_shm_area_close(p);
    }
    loci_shm_parked_close(f);
    atomic_store_explicit(&f->closed, 1, memory_order_release);
}

/* Not 0 where /proc shows the namespace that our pid is of. (The process's first thread may have
 * gone, and with it what /proc/self/ns shows.) */
static uint64_t pid_space(void)
{
    char self[32];
    struct stat space;
    ssize_t n = readlink("/proc/self", self, sizeof self - 1);

    if (n <= 0)
        return 0;
    self[n] = '\0';
    if (atoi(self) != (int)getpid() || stat("/proc/thread-self/ns/pid", &space) != 0)
        return 0;
    return space.st_ino;
}

/* Processes share memory here only if they can send each other descriptors, and sockets with
 * names in no file system are of a network namespace. */
static uint64_t node_of(uint64_t kernel)
{
    struct stat space;

    if (stat("/proc/thread-self/ns/net", &space) != 0)
        return kernel;
    return (kernel ^ space.st_ino) * UINT64_C(0x9e3779b97f4a7c15);
}

static int open_descriptors(struct shm_fabric *f)
{
    int status = loci_shm_timer_open(f);

    return status == LOCO_OK ? loci_shm_socket_open(f) : status;
}

/* Nobody finds it any more. */
static void free_peer(struct shm_peer *p)
{
    loci_shm_unmap_all(p);
    loci_shm_own_area_close(p);
    loci_shm_peek_close(p);
    p->peer->fabric_data = NULL;
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void free_fabric(struct shm_fabric *f)
{
    const int fds[] = { f->socket_fd, f->timer_fd, f->probe_fd };

    loci_shm_offers_close(f);
    loci_shm_scratch_close(f);
    loci_shm_promises_close(f);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    while (f->peers != NULL) {
        struct shm_peer *p = f->peers;

        f->peers = p->next;
        free_peer(p);
    }
    free(f->users);
    loci_shm_queues_close(f);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* What peers find this process by. */
static void name_spaces(struct shm_fabric *f, struct loci_address *mine)
{
    f->pid_space = pid_space();
    mine->node = node_of(mine->node);
    mine->kernel = node_of(mine->kernel);
    mine->fabric[0] = f->pid_space;
}

/* Last, since it waits for that thread to run, which it may do meanwhile. */
static int look_up_service(struct shm_fabric *f, struct loci_address *mine)
{
    mine->service = loci_service_tid(f->rt);
    errno = 0;
    mine->service_start = loci_shm_start_time(mine->service);
    if (mine->service_start != 0 || (errno != EMFILE && errno != ENFILE))
        return LOCO_OK;
    loci_descriptor_missing(f->rt, "the service thread cannot be looked up");
    return LOCO_ERR_SYSTEM;
}

int loci_shm_open(struct loco_runtime *rt, struct loci_address *mine, struct shm_fabric **out,
                  void (*device_receive)(void *ctx, struct loci_peer *peer, const void *bytes,
                                         size_t len), void *device_ctx)
{
    struct shm_fabric *f = calloc(1, sizeof *f);
    struct stat file;
    int status;

    if (f == NULL)
        return LOCO_ERR_NO_MEMORY;
    f->rt = rt;
    f->device_receive = device_receive;
    f->device_ctx = device_ctx;
    f->socket_fd = f->timer_fd = f->probe_fd = -1;
    f->free_user = SHM_NO_USER;
    pthread_mutex_init(&f->lock, NULL);
    loci_shm_promises_open(f);
    f->populate = rt->tunables.huge_pages != LOCI_HUGE_NEVER && loci_shm_needs_populate();
    status = !loci_shm_parked_open(f) || !loci_shm_queues_open(f) ? LOCO_ERR_NO_MEMORY : LOCO_OK;
    name_spaces(f, mine);
    loci_shm_offers_open(f, mine);
    /* Yama lets only ancestors copy, unless they are told otherwise; an error where there is no
     * Yama is none. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (status == LOCO_OK)
        status = open_descriptors(f);
    if (status == LOCO_OK)
        status = look_up_service(f, mine);
    if (status == LOCO_OK && fstat(f->socket_fd, &file) == 0)
        mine->socket = (uint64_t)file.st_ino;
    if (status != LOCO_OK) {
        if (f->timer_fd >= 0)
            loci_service_unwatch(rt, f->timer_fd);
        if (f->socket_fd >= 0)
            loci_service_unwatch(rt, f->socket_fd);
        loci_shm_parked_close(f);
        free_fabric(f);
        return status;
    }
    *out = f;
    return LOCO_OK;
}

static int shm_open_fabric(struct loco_runtime *rt, struct loci_address *mine,
                           struct loci_fabric **fabric)
{
    struct shm_fabric *f;
    int status = loci_shm_open(rt, mine, &f, NULL, NULL);

    if (status == LOCO_OK)
        *fabric = (struct loci_fabric *)f;
    return status;
}

static int is_flag_set(void *arg)
{
    return atomic_load_explicit((_Atomic int *)arg, memory_order_acquire);
}

static int all_is_sent(void *arg)
{
    struct shm_fabric *f = arg;

    for (struct shm_peer *p = loci_shm_first_peer(f); p != NULL; p = p->next)
        if (atomic_load_explicit(&p->queued, memory_order_relaxed) > 0)
            return 0;
    return 1;
}

static void shm_close_fabric(struct loci_fabric *fabric)
{
    struct shm_fabric *f = shm_of(fabric);
    struct loci_reason why = { .what = "goodbyes", .peer = -1, .timeout_ns = GOODBYE_NS };

    loci_wait(f->rt, &why, all_is_sent, f);
    atomic_store(&f->closing, 1);
    loci_shm_timer_soon(f);
    why.what = "the service thread to close the fabric";
    why.timeout_ns = CLOSE_NS;
    if (loci_wait(f->rt, &why, is_flag_set, &f->closed) == LOCO_OK)
        free_fabric(f);
    else
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "the service thread does not answer");
}

/* ---- peers ---- */

static bool reaches(const struct shm_fabric *f, const struct loci_address *peer)
{
    const struct loci_address *me = &f->rt->address;

    return f->device_receive != NULL ? peer->kernel == me->kernel : peer->node == me->node;
}

/* What it sent before waits for the service thread. */
static void enter_peer(struct shm_fabric *f, struct shm_peer *p)
{
    bool early;

    pthread_mutex_lock(&f->lock);
    early = loci_shm_is_early(p);
    atomic_init(&p->early, early);
    p->next = f->peers;
    f->peers = p;
    pthread_mutex_unlock(&f->lock);
    if (!early)
        return;
    atomic_store(&f->early, true);
    loci_shm_timer_soon(f);
}

static int shm_peer_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_peer *p;
    int status;

    if (!reaches(f, &peer->address))
        return LOCO_ERR_UNSUPPORTED;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return LOCO_ERR_NO_MEMORY;
    *p = (struct shm_peer){ .fabric = f, .peer = peer, .pid_fd = -1 };
    atomic_init(&p->mem_fd, SHM_MEM_UNOPENED);
    atomic_init(&p->task, peer->address.pid);
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    if (f->rt->tunables.cma == LOCI_CMA_NEVER || f->pid_space == 0
        || peer->address.fabric[0] != f->pid_space)
        atomic_init(&p->cma, SHM_CMA_FORBIDDEN);
    p->name_len = loci_shm_socket_name(&peer->address, &p->name);
    loci_shm_prepare(p);
    peer->fabric_data = p;
    if (loci_shm_rings(p))
        atomic_store_explicit(&peer->bells, NULL, memory_order_release);
    status = loci_shm_watch_life(p);
    if (status != LOCO_OK) {
        peer->fabric_data = NULL;
        pthread_mutex_destroy(&p->lock);
        free(p);
        return status;
    }
    enter_peer(f, p);
    return LOCO_OK;
}

/* Says goodbye; all else is kept until the fabric closes, since handlers may be using it. */
static void shm_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer)
{
    const struct shm_head goodbye = { .type = SHM_GOODBYE };
    struct shm_peer *p = peer->fabric_data;

    (void)fabric;
    if (p == NULL)
        return;
    atomic_store_explicit(&p->parted, true, memory_order_relaxed);
    if (atomic_load_explicit(&peer->state, memory_order_acquire) == LOCI_PEER_ALIVE)
        loci_shm_send(p, &goodbye, NULL, 0, -1);
}

/* Out of all that leads to it, unless somebody has become a user there. */
static bool take_out(struct shm_fabric *f, struct shm_peer *p)
{
    struct shm_peer **at = &f->peers;
    bool used;

    pthread_mutex_lock(&f->lock);
    used = atomic_load(&p->peer->users) > 0;
    if (!used) {
        loci_shm_forget_mapper(p);
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
    }
    pthread_mutex_unlock(&f->lock);
    return !used;
}

static bool shm_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct shm_peer *p = peer->fabric_data;

    if (!take_out(shm_of(fabric), p))
        return false;
    atomic_store_explicit(&peer->bells, &p->fabric->rt->no_bells, memory_order_release);
    loci_shm_stop_watching(p);
    loci_shm_unpark_unread(p);
    loci_shm_link_close(p);
    loci_shm_area_close(p);
    free_peer(p);
    return true;
}

static int send_typed(struct loci_peer *peer, enum shm_type type, const void *message, size_t len)
{
    const struct shm_head head = { .type = (uint16_t)type };

    if (len == 0 || len > LOCI_CONTROL_MAX)
        return LOCO_ERR_ARG;
    if (peer->fabric_data == NULL)
        return LOCO_ERR_UNSUPPORTED;
    return loci_shm_send(peer->fabric_data, &head, message, len, -1);
}

static int shm_control_send(struct loci_fabric *fabric, struct loci_peer *peer,
                            const void *message, size_t len)
{
    (void)fabric;
    return send_typed(peer, SHM_CONTROL, message, len);
}

int loci_shm_device_send(struct loci_peer *peer, const void *message, size_t len)
{
    return send_typed(peer, SHM_DEVICE, message, len);
}

#define COMMON                                                                                    \
    .maps = true,                                                                                 \
    .open = shm_open_fabric,                                                                      \
    .close = shm_close_fabric,                                                                    \
    .peer_remove = shm_peer_remove,                                                               \
    .peer_forget = shm_peer_forget,                                                               \
    .extent_create = loci_shm_extent_create,                                                      \
    .extent_grow = loci_shm_extent_grow,                                                          \
    .extent_shrink = loci_shm_extent_shrink,                                                      \
    .extent_destroy = loci_shm_extent_destroy,                                                    \
    .renew = loci_shm_renew,                                                                      \
    .user_add = loci_shm_user_add,                                                                \
    .user_remove = loci_shm_user_remove,                                                          \
    .map = loci_shm_map,                                                                          \
    .map_soon = loci_shm_map_soon,                                                                \
    .unmap = loci_shm_unuse,                                                                      \
    .help = loci_shm_help,                                                                        \
    .touch_room = loci_shm_touch_room,                                                            \
    .touch = loci_shm_touch,                                                                      \
    .reach = loci_shm_reach,                                                                      \
    .reached = loci_shm_reached,                                                                  \
    .ring = loci_shm_ring,                                                                        \
    .bells = loci_shm_bells,                                                                      \
    .control_send = shm_control_send

const struct loci_fabric_ops loci_fabric_shm = {
    .name = "shm",
    .synchronous = true,
    .peer_add = shm_peer_add,
    .post = loci_shm_post,
    .update = loci_shm_update,
    .strided = loci_shm_strided,
    .combine = loci_shm_combine,
    COMMON
};

/* ---- beside a device that only others of this node have open ---- */

static int near_peer_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    return loci_peer_is_noted(shm_of(fabric)->rt, peer->index) ? LOCO_OK
           : shm_peer_add(fabric, peer);
}

static int near_lane_open(struct loci_fabric *fabric, struct loci_lane *lane)
{
    (void)fabric;
    if (lane->peer->fabric_data == NULL && lane->peer->index != LOCI_SELF)
        return LOCO_ERR_UNSUPPORTED;
    lane->synchronous = true;
    return LOCO_OK;
}

/* Words of the nic domain are the device's to change. */
static int near_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops,
                     int n, int *posted)
{
    *posted = 0;
    for (int i = 0; i < n; i++) {
        ops[i].in_flight = false;
        if ((ops[i].kind == LOCI_FETCH_ADD || ops[i].kind == LOCI_COMPARE_SWAP)
            && ops[i].mem->domain != LOCI_DOMAIN_CPU)
            return LOCO_ERR_UNSUPPORTED;
    }
    return loci_shm_post(fabric, lane, ops, n, posted);
}

const struct loci_fabric_ops loci_fabric_near = {
    .name = "verbs and shm",
    .spans = true,
    .peer_add = near_peer_add,
    .lane_open = near_lane_open,
    .post = near_post,
    COMMON
};
