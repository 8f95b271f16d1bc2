/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_LINKS_H
#define LOCI_VERBS_LINKS_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "../link/link.h"
#include "verbs.h"

/* Links (../link) to processes of other machines over an RDMA device.
 *
 *   links.c          life: what all of them share
 *   link_connect.c   connections, by librdmacm
 *   link_message.c   buffers, sends, receives
 *
 * The links' ends share one completion queue and one receive queue, so a further peer costs a queue
 * pair and no buffers; a sender for whom there is no buffer at the peer is held up by the device,
 * which tries again for ever (RNR), since a process that is stopped is not dead. A machine that is
 * gone does not acknowledge what is sent to it, a heartbeat at least, and the device gives up. */

/* All but `link` is the service thread's. */
struct verbs_link {
    struct loci_link link;
    struct rdma_cm_id *id;          /* NULL while NEW, and when ENDED */
    unsigned in_flight;
    char why[128];                  /* the last try failed */
};

struct link_buffer {
    struct verbs_link *link;        /* whose message is being sent; NULL: free */
    uint32_t turn;                  /* of its use: a late completion of an earlier one is none */
};

#define LINK_RECEIVES 256           /* buffers, for all peers */
#define LINK_SENDS 64
#define LINK_DEPTH 8                /* sends in flight to one peer */

struct verbs_links {
    struct loci_links links;
    struct verbs_fabric *fabric;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;

    /* Made with the first peer, before any of it is used. */
    struct ibv_pd *pd;
    struct ibv_comp_channel *done;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    unsigned char *memory;          /* receives, then sends */
    struct ibv_mr *mr;

    /* The service thread's. */
    struct link_buffer sends[LINK_SENDS];
    bool starved;                   /* somebody waits for a free one */
};

static inline struct verbs_links *verbs_links_of(const struct verbs_link *l)
{
    return l->link.links->owner;
}

/* ---- link.c ---- */
extern const struct loci_link_ops loci_verbs_link_ops;

/* ---- link_connect.c ---- */
/* Listen, and say where in *mine. False, and *why: there is no way. */
bool loci_link_listen(struct verbs_links *links, struct loci_address *mine, const char **why);
void loci_verbs_link_connect(struct loci_link *l);
void loci_verbs_link_disconnect(struct loci_link *l);
void loci_verbs_link_accept(struct loci_link *l, void *id);
void loci_verbs_link_refuse(struct loci_links *links, void *id);
void loci_link_connect_event(struct loco_runtime *rt, void *links, int fd, uint32_t events);
void loci_link_connect_close(struct verbs_links *links);

/* ---- link_message.c ---- */
/* What all links send and receive with; false: errno says why. */
bool loci_link_queues_open(struct verbs_links *links, struct ibv_context *context);
void loci_link_queues_close(struct verbs_links *links);
void loci_verbs_link_pump(struct loci_link *l);
/* Take all completions. */
void loci_link_drain(struct verbs_links *links);
void loci_link_done_event(struct loco_runtime *rt, void *links, int fd, uint32_t events);
/* The buffers of sends that will never complete. */
void loci_link_forget_sends(struct verbs_link *l);

#endif
