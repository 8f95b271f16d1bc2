/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_LINK_H
#define LOCI_VERBS_LINK_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "verbs.h"

/* Links: messages between processes of different machines, which shm's sockets do not join, and
 * how the end of such a process is seen.
 *
 *   link.c           life, peers; what is queued; heartbeats; ends
 *   link_connect.c   connections, by librdmacm
 *   link_message.c   buffers, sends, receives
 *
 * One connection a pair: who has the lower identity makes it, as soon as both have met. Its ends
 * share one completion queue and one receive queue, so a further peer costs a queue pair and no
 * buffers; a sender for whom there is no buffer at the peer is held up by the device, which tries
 * again for ever (RNR), since a process that is stopped is not dead. A machine that is gone does
 * not acknowledge what is sent to it, a heartbeat at least, and the device gives up.
 *
 * All of it is the service thread's, but for what is queued: others queue, and kick. Locks:
 * links->lock is taken alone, and nothing is called under it. */

#define LINK_MAGIC UINT32_C(0x6c6e6b31)
#define LINK_VERSION 1

enum link_type {
    LINK_CONTROL = 1,       /* for loci_control_receive */
    LINK_DEVICE,            /* for loci_verbs_receive */
    LINK_GOODBYE,           /* the sender closes its runtime */
    LINK_ALIVE              /* says nothing else */
};

/* Before each message. */
struct link_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;          /* enum link_type */
    uint32_t len;           /* bytes after it */
    uint32_t pad;
    uint64_t from;          /* the sender's identity */
};

struct link_queued {
    struct link_queued *next;
    struct link_head head;
    unsigned char body[];
};

enum link_state { LINK_NEW, LINK_CONNECTING, LINK_READY, LINK_ENDED };

struct verbs_link {
    struct verbs_links *links;
    struct loci_peer *peer;
    _Atomic unsigned queued;        /* messages whose send has not completed */
    _Atomic bool parted;            /* we have said goodbye: its end is no news any more */

    /* The service thread's. */
    enum link_state state;
    struct rdma_cm_id *id;          /* NULL while NEW, and when ENDED */
    unsigned in_flight;
    int64_t since;                  /* when it was met */
    bool spoke;                     /* something was sent since the last heartbeat */
    bool goodbye, gone;
    const char *failure;            /* of a send: it is to be ended */
    char why[128];                  /* the last try failed */

    /* links->lock */
    bool hung_up, to_do;
    struct link_queued *first, **last;
    struct verbs_link *next_to_do, *next;
};

/* A request from a process that is not in our table yet. */
struct link_parked {
    struct rdma_cm_id *id;
    uint64_t identity, label;
    int64_t since;
    struct link_parked *next;
};

struct link_buffer {
    struct verbs_link *link;        /* whose message is being sent; NULL: free */
    uint32_t turn;                  /* of its use: a late completion of an earlier one is none */
};

#define LINK_RECEIVES 256           /* buffers, for all peers */
#define LINK_SENDS 64
#define LINK_DEPTH 8                /* sends in flight to one peer */
#define LINK_BYTES (sizeof(struct link_head) + LOCI_CONTROL_MAX)

struct verbs_links {
    struct verbs_fabric *fabric;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    int kick_fd, timer_fd;

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
    struct link_parked *parked;
    unsigned nparked, ticks;
    struct loci_log_seldom refused; /* lines about strangers' calls */

    pthread_mutex_t lock;           /* what follows, and what links say of themselves */
    struct verbs_link *all, *to_do;
    unsigned count;
};

/* ---- link.c ---- */
/* Under no lock: have the service thread look after it. */
void loci_link_attend(struct verbs_link *l);
/* Service thread: it is over with the peer. Not while completions are taken: it takes them. */
void loci_link_ended(struct verbs_link *l, const char *how);
/* The link to that process's runtime of that label; NULL. */
struct verbs_link *loci_link_find(struct verbs_links *links, uint64_t identity, uint64_t label);

/* Service thread: from now on each second links are looked at, and calls that are parked. */
void loci_link_tick(struct verbs_links *links);

/* ---- link_connect.c ---- */
/* Listen, and say where in *mine. False, and *why: there is no way. */
bool loci_link_listen(struct verbs_links *links, struct loci_address *mine, const char **why);
/* Connect, or accept the request that has come. */
void loci_link_connect(struct verbs_link *l);
void loci_link_disconnect(struct verbs_link *l);
void loci_link_connect_event(struct loco_runtime *rt, void *links, int fd, uint32_t events);
/* Refuse calls that have been parked for too long: their callers were never met. */
void loci_link_tidy_parked(struct verbs_links *links);
void loci_link_connect_close(struct verbs_links *links);

/* ---- link_message.c ---- */
/* What all links send and receive with; false: errno says why. */
bool loci_link_queues_open(struct verbs_links *links, struct ibv_context *context);
void loci_link_queues_close(struct verbs_links *links);
/* Send what is queued, as far as there is room. */
void loci_link_pump(struct verbs_link *l);
/* Take all completions. */
void loci_link_drain(struct verbs_links *links);
void loci_link_done_event(struct loco_runtime *rt, void *links, int fd, uint32_t events);
/* The buffers of sends that will never complete. */
void loci_link_forget(struct verbs_link *l);

#endif
