/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_DIAL_H
#define LOCI_TCP_DIAL_H

#include "names/interfaces.h"
#include "tcp.h"

/* Connections, until the fabric has them: what ports.c, call.c, dial.c and messages.c share.
 *
 *   the one that dials              the other
 *   hello: LOCI_CALL or _CALL_DATA
 *                                   checks it; parks it, if it has not met the caller yet
 *                                   hello: LOCI_ANSWER or _ANSWER_DATA
 *   checks it; AGREED
 *                                   has the connection
 *
 * With the third word the other knows that the first has the connection: a dialler that has given
 * up meanwhile has none, and what the other would have sent would be lost.
 *
 * All of it is the service thread's, which one epoll descriptor of ours wakes for all of these
 * connections. */

#define TCP_AGREED UINT64_C(0x6465657267612121)

struct tcp_link;

/* Something that our epoll descriptor watches. */
struct tcp_watch {
    int fd;                     /* -1: nothing */
    uint32_t events;
    void (*fn)(struct tcp_watch *w, uint32_t events);
};

enum tcp_stage {
    TCP_DIALLED,                /* we have asked the kernel to connect */
    TCP_ASKED,                  /* our hello is sent, and it has to answer */
    TCP_UNPROVEN,               /* it has called, and has to say hello */
    TCP_PARKED,                 /* it has: it is of the job, but we have not met it yet */
    TCP_ANSWERED                /* we have said hello, and it has to agree */
};

/* A connection that is new. */
struct tcp_call {
    struct tcp_watch watch;     /* the first member */
    struct tcp_dials *dials;
    enum tcp_stage stage;
    enum loci_purpose purpose;  /* LOCI_CALL or LOCI_CALL_DATA, once it is known */
    struct tcp_link *link;      /* whose, once it is known */
    int64_t until;              /* when it is given up */
    unsigned char bytes[sizeof(struct loci_hello)];
    unsigned got;
    struct tcp_call *next, **at;    /* of dials->calls, the youngest first */
};

/* For one purpose: the connection under way, and where else to try. */
struct tcp_try {
    struct tcp_call *call;      /* NULL: there is none */
    unsigned next;              /* of the peer's places, in `order` */
};

struct tcp_link {
    struct loci_link link;      /* the first member */
    struct tcp_watch watch;     /* READY */

    struct tcp_try meeting, data;
    uint8_t order[LOCI_TCP_PLACES], places;     /* of the peer's, those near to us first */
    int error[LOCI_TCP_PLACES];     /* errno of the last try of each place, or TCP_SILENT... */

    /* Data connections. */
    _Atomic bool wants;         /* loci_tcp_dial(), until the service thread has seen it */
    bool wanted;                /* by one of the two */
    int64_t wanted_until;
    uint32_t made;              /* so far */

    /* Messages. */
    int64_t heard;              /* when something came last */
    struct loci_link_queued *out;   /* that is sent in part, and how far */
    size_t out_sent;
    unsigned char *rest;        /* the beginning of a message that has not come in full, or NULL */
    size_t rest_len;
    bool taking;                /* what has come */
    bool deaf;                  /* it has sent what is wrong: nothing more is taken */
};

#define TCP_SILENT (-1)         /* connected, but not answered */
#define TCP_STRANGER (-2)       /* somebody else answers there, or does not want us */

struct tcp_dials {
    struct loci_links links;
    struct tcp_fabric *fabric;
    int epoll_fd;
    struct tcp_call *calls;
    unsigned unproven;
    struct loci_log_seldom missing;     /* lines about descriptors */
    int64_t ticked, awake;      /* the last tick; since when none is missing */
    pthread_mutex_t lock;
    struct tcp_ports *ports;    /* under it: they have a part in ticks; or NULL */
};

static inline struct tcp_link *tcp_link_of(struct loci_link *l)
{
    return (struct tcp_link *)l;
}

/* ---- call.c ---- */
/* Watch it for these events only; false: errno says why. */
bool loci_tcp_watch(struct tcp_dials *d, struct tcp_watch *w, uint32_t events);
/* Stop watching, and give back the descriptor: the peer sees the end. */
void loci_tcp_hang_up(struct tcp_dials *d, struct tcp_watch *w);
/* Somebody has called. fd is ours now. */
void loci_tcp_called(struct tcp_dials *d, int fd);
/* Begin to connect to one place; NULL: errno says why. What comes of it: loci_tcp_dialled(). */
struct tcp_call *loci_tcp_call(struct tcp_link *l, enum loci_purpose purpose,
                               const struct loci_tcp_place *place);
/* Accept one that has said hello. NULL: it has gone. */
struct tcp_call *loci_tcp_answer(struct tcp_link *l, struct tcp_call *call);
void loci_tcp_call_drop(struct tcp_call *call);
/* Each second. */
void loci_tcp_calls_tick(struct tcp_dials *d);

/* ---- dial.c, for ports.c and call.c ---- */
/* These have a part in ticks from now on; NULL: none has any more. */
void loci_tcp_dials_ports(struct tcp_dials *d, struct tcp_ports *ports);
/* A call of ours, or one that we have answered, has come to its end: fd is ours, or -1 and errno,
 * or TCP_SILENT... says why. The call is freed by then. */
void loci_tcp_dialled(struct tcp_link *l, enum loci_purpose purpose, int fd, int error);
/* A proven call has come: it is taken, parked or dropped. */
void loci_tcp_proven(struct tcp_dials *d, struct tcp_call *call, uint64_t from, uint64_t label);

/* ---- messages.c ---- */
/* The link is READY: its messages go over fd. */
void loci_tcp_link_connected(struct tcp_link *l, int fd);
void loci_tcp_link_pump(struct loci_link *l);
void loci_tcp_link_drain(struct loci_link *l);
/* What is kept for its messages, and the connection. */
void loci_tcp_link_close(struct tcp_link *l);
/* Each second while it is READY: is it there? */
void loci_tcp_link_look(struct loci_link *l, unsigned every);
/* No handler runs any more: wait until the peers' machines have what was sent, for a bounded
 * time. */
void loci_tcp_links_flush(struct tcp_dials *d);

/* ---- ports.c ---- */
/* Each second, under dials->lock: listen again, where there was no descriptor. */
void loci_tcp_ports_tick(struct tcp_ports *ports);

#endif
