/* SPDX-License-Identifier: BSD-3-Clause */

/* Links: the buffers of all of them, sends and receives; the service thread's. Nothing that comes
 * is believed before it was looked at. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "wait.h"
#include "links.h"

#define PAGE 4096
#define BATCH 16
#define BUFFERS (LINK_RECEIVES + LINK_SENDS)
#define IS_SEND (UINT64_C(1) << 63)     /* in a work request's id, beside turn and number */

static unsigned char *buffer_of(const struct verbs_links *links, unsigned number)
{
    return links->memory + number * LINK_BYTES;
}

/* ---- life ---- */

static bool give_back(struct verbs_links *links, unsigned number)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)buffer_of(links, number), .length = LINK_BYTES,
        .lkey = links->mr->lkey,
    };
    struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

    return ibv_post_srq_recv(links->srq, &wr, &bad) == 0;
}

static bool make_queues(struct verbs_links *links, struct ibv_context *context)
{
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = LINK_RECEIVES, .max_sge = 1 } };
    size_t len = (BUFFERS * LINK_BYTES + PAGE - 1) / PAGE * PAGE;
    int flags;

    links->pd = ibv_alloc_pd(context);
    links->done = ibv_create_comp_channel(context);
    if (links->pd == NULL || links->done == NULL)
        return false;
    flags = fcntl(links->done->fd, F_GETFL);
    if (flags < 0 || fcntl(links->done->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return false;
    links->cq = ibv_create_cq(context, BUFFERS, NULL, links->done, 0);
    links->srq = ibv_create_srq(links->pd, &srq);
    links->memory = aligned_alloc(PAGE, len);
    if (links->cq == NULL || links->srq == NULL || links->memory == NULL)
        return false;
    memset(links->memory, 0, len);
    links->mr = ibv_reg_mr(links->pd, links->memory, len, IBV_ACCESS_LOCAL_WRITE);
    return links->mr != NULL && ibv_req_notify_cq(links->cq, 0) == 0;
}

bool loci_link_queues_open(struct verbs_links *links, struct ibv_context *context)
{
    bool made = make_queues(links, context);

    for (unsigned i = 0; made && i < LINK_RECEIVES; i++)
        made = give_back(links, i);
    if (!made) {
        int error = errno;

        loci_link_queues_close(links);
        errno = error;
    }
    return made;
}

/* After all queue pairs. */
void loci_link_queues_close(struct verbs_links *links)
{
    if (links->srq != NULL)
        ibv_destroy_srq(links->srq);
    if (links->cq != NULL)
        ibv_destroy_cq(links->cq);
    if (links->done != NULL)
        ibv_destroy_comp_channel(links->done);
    if (links->mr != NULL)
        ibv_dereg_mr(links->mr);
    if (links->pd != NULL)
        ibv_dealloc_pd(links->pd);
    free(links->memory);
    links->srq = NULL;
    links->cq = NULL;
    links->done = NULL;
    links->mr = NULL;
    links->pd = NULL;
    links->memory = NULL;
}

/* ---- sends ---- */

static struct link_buffer *free_buffer(struct verbs_links *links)
{
    for (unsigned i = 0; i < LINK_SENDS; i++)
        if (links->sends[i].link == NULL)
            return &links->sends[i];
    return NULL;
}

static int send_message(struct verbs_link *l, struct link_buffer *buffer,
                        const struct loci_link_queued *q)
{
    struct verbs_links *links = verbs_links_of(l);
    unsigned at = (unsigned)(buffer - links->sends);
    unsigned char *bytes = buffer_of(links, LINK_RECEIVES + at);
    struct ibv_sge sge = {
        .addr = (uintptr_t)bytes, .length = (uint32_t)(sizeof q->head + q->head.len),
        .lkey = links->mr->lkey,
    };
    struct ibv_send_wr wr = {
        .wr_id = IS_SEND | (uint64_t)(buffer->turn + 1) << 16 | at, .sg_list = &sge, .num_sge = 1,
        .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    }, *bad;
    int error;

    memcpy(bytes, &q->head, sizeof q->head);
    memcpy(bytes + sizeof q->head, q->body, q->head.len);
    error = ibv_post_send(l->id->qp, &wr, &bad);
    if (error == 0) {
        buffer->turn++;
        buffer->link = l;
        l->in_flight++;
    }
    return error;
}

void loci_verbs_link_pump(struct loci_link *link)
{
    struct verbs_link *l = (struct verbs_link *)link;
    struct verbs_links *links = link->links->owner;

    while (link->state == LINK_READY && link->failure == NULL && l->in_flight < LINK_DEPTH) {
        struct link_buffer *buffer = free_buffer(links);
        struct loci_link_queued *q;
        int error;

        if (buffer == NULL) {
            links->starved = true;
            return;
        }
        q = loci_link_next(link);
        if (q == NULL)
            return;
        error = send_message(l, buffer, q);
        free(q);
        if (error != 0) {
            /* What came from it before is among the completions that are being taken, perhaps. */
            loci_link_fail(link, "its device takes no message");
            return;
        }
    }
}

void loci_link_forget_sends(struct verbs_link *l)
{
    struct link_buffer *sends = verbs_links_of(l)->sends;

    for (unsigned i = 0; i < LINK_SENDS; i++)
        if (sends[i].link == l)
            sends[i].link = NULL;
    l->in_flight = 0;
}

static void pump_all(struct verbs_links *links)
{
    struct loci_link *l;

    links->starved = false;
    pthread_mutex_lock(&links->links.lock);
    l = links->links.all;
    pthread_mutex_unlock(&links->links.lock);
    for (; l != NULL; l = l->next)
        if (atomic_load_explicit(&l->queued, memory_order_relaxed) > 0)
            loci_verbs_link_pump(l);
}

static void sent(struct verbs_links *links, const struct ibv_wc *wc)
{
    struct link_buffer *buffer = &links->sends[wc->wr_id & 0xffff];
    struct verbs_link *l = buffer->link;

    if (l == NULL || buffer->turn != (uint32_t)(wc->wr_id >> 16))
        return;         /* of a link that has ended */
    buffer->link = NULL;
    l->in_flight--;
    if (wc->status != IBV_WC_SUCCESS) {
        loci_link_fail(&l->link, wc->status == IBV_WC_RETRY_EXC_ERR ? "its machine does not answer"
                       : wc->status == IBV_WC_WR_FLUSH_ERR ? "its connection has ended"
                       : ibv_wc_status_str(wc->status));
        return;
    }
    atomic_fetch_sub_explicit(&l->link.queued, 1, memory_order_relaxed);
    if (links->starved)
        pump_all(links);
    else
        loci_verbs_link_pump(&l->link);
}

/* ---- receives ---- */

static bool is_by(const struct loci_link *link, uint32_t qpn)
{
    const struct verbs_link *l = (const struct verbs_link *)link;

    return l != NULL && l->id != NULL && l->id->qp != NULL && l->id->qp->qp_num == qpn;
}

/* Whose message that is: its sender's, if it came by the sender's connection. An identity leads to
 * the process's last runtime; one before it may have sent this. */
static struct loci_link *link_of(struct verbs_links *links, uint64_t from, uint32_t qpn)
{
    struct loco_runtime *rt = links->fabric->rt;
    int index = loci_peer_find(rt, from);
    struct verbs_peer *p = index < 0 ? NULL : loci_peer(rt, index)->device_data;
    struct loci_link *l = p != NULL ? p->link : NULL;

    if (is_by(l, qpn))
        return l;
    pthread_mutex_lock(&links->links.lock);
    l = links->links.all;
    while (l != NULL && !(is_by(l, qpn) && l->peer->address.identity == from))
        l = l->next;
    pthread_mutex_unlock(&links->links.lock);
    return l;
}

/* NULL: taken; else what is wrong. */
static const char *take(struct verbs_links *links, const unsigned char *bytes, size_t len,
                        uint32_t qpn)
{
    struct loci_link_head head;
    struct loci_link *l;
    const char *wrong;

    if (len < sizeof head)
        return "too short";
    memcpy(&head, bytes, sizeof head);
    wrong = loci_link_check(&head, head.from);
    if (wrong != NULL)
        return wrong;
    if (head.len != len - sizeof head)
        return "wrong length";
    l = link_of(links, head.from, qpn);
    return l == NULL ? "not by its sender's connection"
           : loci_link_take(l, &head, bytes + sizeof head);
}

static void received(struct verbs_links *links, const struct ibv_wc *wc)
{
    struct loco_runtime *rt = links->fabric->rt;
    const char *wrong = NULL;
    uint64_t number;

    if (wc->status == IBV_WC_SUCCESS)
        wrong = take(links, buffer_of(links, (unsigned)wc->wr_id), wc->byte_len, wc->qp_num);
    if (wrong != NULL && (number = loci_log_seldom(&links->fabric->dropped, loci_now(rt))) > 0)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "message of %u bytes from another machine "
                 "dropped: %s (number %llu since the last such line)", wc->byte_len, wrong,
                 (unsigned long long)number);
    if (!give_back(links, (unsigned)wc->wr_id))
        LOCI_LOG(rt, LOCO_LOG_ERROR, "a buffer for messages is lost: %m");
}

/* ---- completions ---- */

void loci_link_drain(struct verbs_links *links)
{
    struct ibv_wc wc[BATCH];
    int n;

    while ((n = ibv_poll_cq(links->cq, BATCH, wc)) > 0)
        for (int i = 0; i < n; i++) {
            if (wc[i].wr_id & IS_SEND)
                sent(links, &wc[i]);
            else
                received(links, &wc[i]);
        }
}

void loci_link_done_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct verbs_links *links = ctx;
    struct ibv_cq *cq;
    void *none;

    (void)rt;
    (void)fd;
    (void)events;
    if (ibv_get_cq_event(links->done, &cq, &none) != 0)
        return;
    ibv_ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(cq, 0) != 0)
        LOCI_LOG(links->fabric->rt, LOCO_LOG_ERROR, "messages will not be heard of: %m");
    loci_link_drain(links);
}
