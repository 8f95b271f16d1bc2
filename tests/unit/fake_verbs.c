/* SPDX-License-Identifier: BSD-3-Clause */

/* See fake_verbs.h. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_verbs.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, len) ((void)(at), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(at, len) ((void)(at), (void)(len))
#endif

struct fake_queue {
    struct ibv_cq cq;               /* first */
    struct ibv_wc wc[FAKE_QUEUE];
    unsigned first, n;
};

static struct fake_device *device_of(struct ibv_context *context)
{
    return (struct fake_device *)context;
}

static void *made(size_t len, _Atomic int *count)
{
    void *object = calloc(1, len);

    if (object != NULL && count != NULL)
        atomic_fetch_add(count, 1);
    return object;
}

/* ---- queues ---- */

static void complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
    struct fake_queue *q = (struct fake_queue *)cq;

    if (q->n < FAKE_QUEUE)
        q->wc[(q->first + q->n++) % FAKE_QUEUE] = *wc;
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    struct fake_queue *q = (struct fake_queue *)cq;
    int n = 0;

    for (; n < max && q->n > 0; n++, q->n--) {
        wc[n] = q->wc[q->first];
        q->first = (q->first + 1) % FAKE_QUEUE;
    }
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)cq;
    (void)solicited;
    return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_device *d = device_of(srq->context);
    unsigned at = (d->first + d->waiting) % FAKE_QUEUE;

    *bad = wr;
    if (d->waiting == FAKE_QUEUE)
        return ENOMEM;
    d->receives[at] = wr->sg_list[0].addr;
    d->ids[at] = wr->wr_id;
    d->waiting++;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_device *d = device_of(qp->context);
    const struct ibv_wc done = { .wr_id = wr->wr_id, .qp_num = qp->qp_num };

    *bad = wr;
    if (wr->opcode != IBV_WR_SEND)
        return ENOMEM;
    if (d->sent != NULL)
        d->sent(d->arg, (const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length);
    complete(qp->send_cq, &done);
    return 0;
}

void *fake_receive(struct fake_device *d, struct ibv_qp *qp, const void *message, size_t len,
                   size_t room)
{
    struct ibv_wc wc = {
        .opcode = IBV_WC_RECV, .byte_len = (uint32_t)len, .qp_num = qp->qp_num,
    };
    unsigned char *at;

    if (d->waiting == 0)
        return NULL;
    at = (unsigned char *)(uintptr_t)d->receives[d->first];
    wc.wr_id = d->ids[d->first];
    d->first = (d->first + 1) % FAKE_QUEUE;
    d->waiting--;
    memcpy(at, message, len);
    ASAN_POISON_MEMORY_REGION(at + len, room - len);
    complete(qp->recv_cq, &wc);
    return at;
}

void fake_looked(void *at, size_t room)
{
    ASAN_UNPOISON_MEMORY_REGION(at, room);
}

/* ---- libibverbs ---- */

void fake_open(struct fake_device *d)
{
    memset(d, 0, sizeof *d);
    d->number = 0x100;
    d->context.async_fd = d->context.cmd_fd = -1;
    d->context.ops.poll_cq = poll_cq;
    d->context.ops.req_notify_cq = req_notify_cq;
    d->context.ops.post_srq_recv = post_srq_recv;
    d->context.ops.post_send = post_send;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = made(sizeof *pd, NULL);

    if (pd != NULL)
        pd->context = context;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = made(sizeof *channel, NULL);

    if (channel != NULL) {
        channel->context = context;
        channel->fd = eventfd(0, EFD_CLOEXEC);
    }
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *arg,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_queue *q = made(sizeof *q, &device_of(context)->queues);

    (void)entries;
    (void)arg;
    (void)channel;
    (void)vector;
    if (q == NULL)
        return NULL;
    q->cq.context = context;
    return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    atomic_fetch_sub(&device_of(cq->context)->queues, 1);
    free(cq);
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq *srq = made(sizeof *srq, NULL);

    (void)attr;
    if (srq != NULL)
        srq->context = pd->context;
    return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    free(srq);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    struct ibv_mr *mr = made(sizeof *mr, &device_of(pd->context)->regions);

    (void)access;
    if (mr != NULL)
        *mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = at, .length = len };
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t len, uint64_t iova,
                                unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(pd, at, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    atomic_fetch_sub(&device_of(mr->context)->regions, 1);
    free(mr);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fake_device *d = device_of(pd->context);
    struct ibv_qp *qp = made(sizeof *qp, &d->queue_pairs);

    if (qp == NULL)
        return NULL;
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->qp_num = 2 + atomic_fetch_add(&d->number, 1) % 0xfffff0;
    return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    atomic_fetch_sub(&device_of(qp->context)->queue_pairs, 1);
    free(qp);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int what)
{
    (void)qp;
    (void)attr;
    (void)what;
    return 0;
}

/* ---- librdmacm ---- */

struct fake_cm fake_cm;

struct rdma_cm_id *fake_id(void)
{
    struct rdma_cm_id *id = calloc(1, sizeof *id);

    if (id != NULL)
        fake_cm.ids++;
    return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    (void)channel;
    (void)space;
    *id = fake_id();
    if (*id == NULL)
        return -1;
    (*id)->context = context;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    fake_cm.ids--;
    free(id);
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    id->qp = ibv_create_qp(pd, attr);
    return id->qp != NULL ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    ibv_destroy_qp(id->qp);
    id->qp = NULL;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    (void)channel;
    *event = fake_cm.event;
    fake_cm.event = NULL;
    return *event != NULL ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    (void)event;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    (void)id;
    (void)data;
    (void)len;
    fake_cm.rejected++;
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id;
    (void)param;
    fake_cm.accepted++;
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id;
    (void)param;
    fake_cm.connected++;
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    (void)id;
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t len)
{
    (void)id;
    (void)level;
    (void)option;
    (void)value;
    (void)len;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    (void)id;
    (void)from;
    (void)to;
    (void)ms;
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void)id;
    (void)ms;
    return 0;
}
