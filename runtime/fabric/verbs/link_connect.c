/* SPDX-License-Identifier: BSD-3-Clause */

/* Links: connections, by librdmacm; the service thread's, but for the beginning.
 *
 * Of two processes the one with the lower identity connects to where the other listens. A request
 * may come from a process that is not in our table yet: it is parked until it is. One that fails is
 * tried again a second later.
 *
 * Both say hello: each with a proof that it knows the other's secret (secret.h). Who does not is
 * refused before a queue pair is made for it, and before anything is kept of it. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "secret.h"
#include "service.h"
#include "wait.h"
#include "links.h"
#include "qp.h"

#define BACKLOG 1024
#define RESOLVE_MS 3000
#define RETRIES 6                   /* as in qp.c */
#define RETRIES_RNR 7               /* for ever */
#define RNR_TIMER 12                /* 0.64 ms; that of librdmacm is 655 */
#define NOBODY_LISTENS 8            /* what a refusal says then: invalid service id */

/* ---- addresses ---- */

/* A version 6 address in network order, or a version 4 one mapped to it, as in a GID; the port. */
static bool tell_address(const struct sockaddr *a, uint16_t port, uint64_t link[3])
{
    unsigned char bytes[16] = { [10] = 0xff, [11] = 0xff };

    if (a->sa_family == AF_INET)
        memcpy(bytes + 12, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    else
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
    memcpy(link, bytes, sizeof bytes);
    link[2] = port;
    return port != 0;
}

static void read_address(const uint64_t link[3], struct sockaddr_storage *a)
{
    const struct in6_addr *address = (const struct in6_addr *)(const void *)link;

    memset(a, 0, sizeof *a);
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)a;

        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, (const unsigned char *)link + 12, 4);
        v4->sin_port = (in_port_t)link[2];
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)a;

        v6->sin6_family = AF_INET6;
        v6->sin6_addr = *address;
        v6->sin6_port = (in_port_t)link[2];
    }
}

/* Addresses of one network interface alone, or of none, say nothing to another machine. */
static bool is_of_use(const struct ifaddrs *i)
{
    if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0)
        return false;
    if (i->ifa_addr->sa_family == AF_INET6)
        return !IN6_IS_ADDR_LINKLOCAL(
            &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
    return i->ifa_addr->sa_family == AF_INET;
}

/* An id at that address, if the address leads to our device and port. */
static struct rdma_cm_id *bind_to(struct verbs_links *links, struct sockaddr *address)
{
    const struct loci_device_port *port = &links->fabric->port;
    struct rdma_cm_id *id;

    if (rdma_create_id(links->channel, &id, NULL, RDMA_PS_TCP) != 0)
        return NULL;
    if (rdma_bind_addr(id, address) == 0 && id->verbs != NULL && id->port_num == port->port
        && strcmp(ibv_get_device_name(id->verbs->device), port->device) == 0)
        return id;
    rdma_destroy_id(id);
    return NULL;
}

/* With RoCE the device's address is that of its interface; with InfiniBand it is any address of IP
 * over it. The device's own counts more. */
static struct rdma_cm_id *bind_any(struct verbs_links *links, struct loci_address *mine)
{
    struct rdma_cm_id *best = NULL;
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return NULL;
    for (struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct rdma_cm_id *id = is_of_use(i) ? bind_to(links, i->ifa_addr) : NULL;
        uint64_t link[3];

        if (id == NULL)
            continue;
        tell_address(i->ifa_addr, rdma_get_src_port(id), link);
        if (best != NULL && memcmp(link, links->fabric->gid.raw, 16) != 0) {
            rdma_destroy_id(id);
            continue;
        }
        if (best != NULL)
            rdma_destroy_id(best);
        best = id;
        memcpy(mine->link, link, sizeof link);
    }
    freeifaddrs(all);
    return best;
}

bool loci_link_listen(struct verbs_links *links, struct loci_address *mine, const char **why)
{
    int flags;

    links->channel = rdma_create_event_channel();
    *why = "librdmacm finds no kernel support (modprobe rdma_ucm)";
    if (links->channel == NULL)
        return false;
    flags = fcntl(links->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(links->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return false;
    *why = "no IP address belongs to its RDMA device";
    links->listener = bind_any(links, mine);
    if (links->listener == NULL)
        return false;
    *why = "the device cannot be listened on";
    return rdma_listen(links->listener, BACKLOG) == 0;
}

/* ---- both sides ---- */

static bool make_qp(struct verbs_link *l)
{
    struct verbs_links *links = verbs_links_of(l);
    struct ibv_qp_init_attr init = {
        .send_cq = links->cq, .recv_cq = links->cq, .srq = links->srq,
        .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = LINK_DEPTH, .max_send_sge = 1 },
    };

    return rdma_create_qp(l->id, links->pd, &init) == 0;
}

static void fill_hello(const struct verbs_link *l, enum loci_purpose purpose,
                       struct loci_hello *hello)
{
    loci_hello_fill(hello, purpose, &l->link.links->rt->address, &l->link.peer->address);
}

static struct rdma_conn_param parameters(const struct loci_hello *hello)
{
    return (struct rdma_conn_param){
        .private_data = hello, .private_data_len = sizeof *hello, .retry_count = RETRIES,
        .rnr_retry_count = RETRIES_RNR,
    };
}

/* As long as data is waited for, and of its class. Where no class is asked for, that of the
 * machine's administrator (default_roce_tos) stays. */
static void set_options(struct verbs_link *l)
{
    uint8_t class = verbs_links_of(l)->fabric->port.traffic_class;
    uint8_t code = loci_qp_timeout(l->link.links->rt->tunables.rdma_timeout);

    rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &code, sizeof code);
    if (class != 0)
        rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof class);
}

void loci_verbs_link_disconnect(struct loci_link *link)
{
    struct verbs_link *l = (struct verbs_link *)link;

    if (l->id == NULL)
        return;
    rdma_disconnect(l->id);
    if (l->id->qp != NULL)
        rdma_destroy_qp(l->id);
    rdma_destroy_id(l->id);
    l->id = NULL;
    loci_link_forget_sends(l);
}

static void failed(struct verbs_link *l, const char *what, int error)
{
    snprintf(l->why, sizeof l->why, "%s: %s.", what, strerror(error));
    LOCI_LOG(l->link.links->rt, LOCO_LOG_DEBUG, "connecting to process %016llx: %s",
             (unsigned long long)l->link.peer->address.identity, l->why);
    loci_verbs_link_disconnect(&l->link);
    l->link.state = LINK_NEW;
}

/* ---- who calls ---- */

static void call(struct verbs_link *l)
{
    struct sockaddr_storage from, to;

    if (rdma_create_id(verbs_links_of(l)->channel, &l->id, l, RDMA_PS_TCP) != 0) {
        l->id = NULL;
        failed(l, "no identifier", errno);
        return;
    }
    l->link.state = LINK_CONNECTING;
    read_address(l->link.links->rt->address.link, &from);
    ((struct sockaddr_in *)(void *)&from)->sin_port = 0;    /* at the same place in version 6 */
    read_address(l->link.peer->address.link, &to);
    if (rdma_resolve_addr(l->id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS) != 0)
        failed(l, "its address is not found", errno);
}

static void find_route(struct verbs_link *l)
{
    set_options(l);
    if (rdma_resolve_route(l->id, RESOLVE_MS) != 0)
        failed(l, "there is no route", errno);
}

static void request(struct verbs_link *l)
{
    struct loci_hello hello;
    struct rdma_conn_param param;

    if (!make_qp(l)) {
        failed(l, "no queue pair", errno);
        return;
    }
    fill_hello(l, LOCI_CALL, &hello);
    param = parameters(&hello);
    if (rdma_connect(l->id, &param) != 0)
        failed(l, "it cannot be asked", errno);
}

/* ---- who is called ---- */

/* An earlier call that the caller has given up may still be there. */
static void accept_call(struct verbs_link *l, struct rdma_cm_id *id)
{
    struct loci_hello hello;
    struct rdma_conn_param param;

    loci_verbs_link_disconnect(&l->link);
    l->id = id;
    id->context = l;
    l->link.state = LINK_CONNECTING;
    set_options(l);
    if (!make_qp(l)) {
        failed(l, "no queue pair", errno);
        return;
    }
    fill_hello(l, LOCI_ANSWER, &hello);
    param = parameters(&hello);
    if (rdma_accept(id, &param) != 0)
        failed(l, "its call cannot be accepted", errno);
}

void loci_verbs_link_refuse(struct loci_links *links, void *call)
{
    struct rdma_cm_id *id = call;

    (void)links;
    rdma_reject(id, NULL, 0);
    rdma_destroy_id(id);
}

void loci_verbs_link_accept(struct loci_link *l, void *call)
{
    accept_call((struct verbs_link *)l, call);
}

static bool is_for_us(const struct verbs_links *links, const struct loci_hello *hello)
{
    const struct loci_address *me = &links->fabric->rt->address;

    return loci_hello_is_sound(hello, LOCI_CALL, me) && hello->from < me->identity;
}

static void refuse_stranger(struct verbs_links *links, struct rdma_cm_id *id)
{
    struct loco_runtime *rt = links->fabric->rt;
    uint64_t times = loci_log_seldom(&links->links.refused, loci_now(rt));

    if (times > 0)
        LOCI_LOG(rt, LOCO_LOG_WARN, "a stranger's call is refused, the last of %llu",
                 (unsigned long long)times);
    loci_verbs_link_refuse(&links->links, id);
}

static void called(struct verbs_links *links, struct rdma_cm_id *id,
                   const struct loci_hello *hello)
{
    struct loci_link *l;

    if (!is_for_us(links, hello)) {
        refuse_stranger(links, id);
        return;
    }
    l = loci_link_find(&links->links, hello->from, hello->label);
    if (l == NULL) {
        id->context = NULL;
        loci_link_park(&links->links, hello->from, hello->label, id);
    } else if (l->state == LINK_NEW || l->state == LINK_CONNECTING) {
        loci_verbs_link_accept(l, id);
    } else {
        loci_verbs_link_refuse(&links->links, id);
    }
}

void loci_verbs_link_connect(struct loci_link *l)
{
    if (loci_link_calls(l))
        call((struct verbs_link *)l);
    else
        loci_link_unpark(l);
}

/* ---- events ---- */

static void established(struct verbs_link *l)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = RNR_TIMER };

    ibv_modify_qp(l->id->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
    l->link.state = LINK_READY;
    LOCI_LOG(l->link.links->rt, LOCO_LOG_DEBUG, "connected to process %016llx, by %s call",
             (unsigned long long)l->link.peer->address.identity,
             loci_link_calls(&l->link) ? "our" : "its");
    loci_verbs_link_pump(&l->link);
}

/* What an event says; who answers a call knows our secret, or is none of ours. */
struct answer {
    enum rdma_cm_event_type type;
    int status;
    struct loci_hello hello;
};

static bool is_answer(const struct verbs_link *l, const struct loci_hello *hello)
{
    const struct loci_address *it = &l->link.peer->address;

    return loci_hello_is_sound(hello, LOCI_ANSWER, &l->link.links->rt->address)
           && hello->from == it->identity && hello->label == it->label;
}

static void refused(struct verbs_link *l, int status)
{
    failed(l, "it refuses", ECONNREFUSED);
    if (status == NOBODY_LISTENS)
        loci_link_ended(&l->link, "its process has ended");
}

static void event_of(struct verbs_link *l, const struct answer *a)
{
    int error = a->status < 0 ? -a->status : ETIMEDOUT;

    switch (a->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: find_route(l); break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: request(l); break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (!loci_link_calls(&l->link) || is_answer(l, &a->hello))
            established(l);
        else
            failed(l, "somebody else answers there", EPROTO);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR: failed(l, "its address is not found", error); break;
    case RDMA_CM_EVENT_ROUTE_ERROR: failed(l, "there is no route", error); break;
    case RDMA_CM_EVENT_REJECTED: refused(l, a->status); break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE: failed(l, "it does not answer", error); break;
    case RDMA_CM_EVENT_DISCONNECTED: loci_link_ended(&l->link, "its connection has ended"); break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: loci_link_ended(&l->link, "our device is gone"); break;
    default: break;
    }
}

void loci_link_connect_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct verbs_links *links = ctx;
    struct rdma_cm_event *event;
    struct answer a = { .status = 0 };
    struct rdma_cm_id *id;

    (void)rt;
    (void)fd;
    (void)events;
    if (rdma_get_cm_event(links->channel, &event) != 0)
        return;
    a.type = event->event;
    a.status = event->status;
    id = event->id;
    if ((a.type == RDMA_CM_EVENT_CONNECT_REQUEST || a.type == RDMA_CM_EVENT_ESTABLISHED)
        && event->param.conn.private_data != NULL
        && event->param.conn.private_data_len >= sizeof a.hello)
        memcpy(&a.hello, event->param.conn.private_data, sizeof a.hello);
    rdma_ack_cm_event(event);       /* or its id could not be destroyed */
    if (a.type == RDMA_CM_EVENT_CONNECT_REQUEST)
        called(links, id, &a.hello);
    else if (id->context != NULL)
        event_of(id->context, &a);
}

void loci_link_connect_close(struct verbs_links *links)
{
    if (links->listener != NULL)
        rdma_destroy_id(links->listener);
    if (links->channel != NULL)
        rdma_destroy_event_channel(links->channel);
}
