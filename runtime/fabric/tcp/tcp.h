/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_H
#define LOCI_TCP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../link/link.h"
#include "observe/log.h"
#include "runtime.h"
#include "secret.h"
#include "wire.h"

/* The fabric of machines that have no RDMA device: data over TCP, one connection a pair of
 * processes.
 *
 *   tcp.c       life, peers; what of it is shm's
 *   interfaces.c    the addresses that this process has, and which of them count
 *   ports.c     where it listens, which its peers are told
 *   call.c      connections that are new: both ends prove who they are
 *   dial.c      which connections are made, and when
 *   messages.c  the links' messages (../link) over such a connection
 *   conn.c      data connections: their life
 *   out.c       what is to be sent: requests and answers
 *   in.c        what comes: cut into frames
 *   serve.c     requests of peers, done by this process's CPU
 *   touch.c     this process's memory, as they touch it
 *   post.c      lanes: posting, completions
 *
 * It stands on shm: processes of one node reach each other as they do without this. The rest are
 * `far`, and have a struct tcp_peer.
 *
 * Who moves the data. A process's service thread sleeps until a connection has something, does what
 * requests ask for and answers them: progress does not depend on the program. A thread that waits
 * does the same in the meantime (tcp_help, tcp_poll), so that two processes that wait for each
 * other need no third to wake.
 *
 * Atomics are done by the owner's CPU: LOCI_DOMAIN_OWNER. Words are whole: what lands in memory and
 * what is read from there moves in aligned units of 8 bytes, by one load or store each; the odd
 * bytes of a word that the stream has cut wait for the rest.
 *
 * Locks, from the outside in: f->lanes, held by who gives back others' lanes; a thread's lock
 * (of the runtime); f->serving, held by who reads connections and does requests; a connection's
 * `lock`, of what is to be sent; f->lock, of the list of connections; shm's lock, of the tables of
 * memory. The runtime is called under none of them, but for logs, and by the service
 * thread alone. */

struct shm_fabric;
struct tcp_gathered;
struct tcp_ports;
struct tcp_dials;
struct tcp_conn;
struct tcp_lane;

#define TCP_OWED 4096           /* requests of one connection that have no answer yet */
#define TCP_ITEMS 1024          /* pieces of its queue */
#define TCP_REST 64             /* bytes kept between reads: a cut frame, or a cut word */
#define TCP_IN_BYTES ((size_t)256 << 10)    /* of one read */
#define TCP_LANES 1024          /* of one connection, each way */
#define TCP_FEW 3               /* connections that are read one by one */

/* One that was posted, of a lane's ring. */
struct tcp_request {
    struct loci_slot *slot;     /* who is told, or NULL */
    enum loci_op_kind kind;
    unsigned char *to;          /* where the answer goes; NULL: nobody looks */
    size_t len, got;            /* of a read */
    int status;                 /* before `done` */
    bool behind;                /* refused, as an earlier request of the lane was */
    uint64_t written;           /* the lane's writes that were queued before it */
    _Atomic bool done;          /* release: the answer, then this */
};

struct tcp_lane {
    struct loci_lane *lane;
    struct tcp_conn *conn;
    uint16_t number;            /* on the connection */
    bool broken;                /* refused: nothing is posted until it is mended */
    bool lost;                  /* writes with it */
    bool holds;                 /* atomics: a long read is in flight, and reads behind it */
    uint32_t reads;             /* in flight */
    uint64_t writes;            /* ever queued */
    uint32_t posted, retired;
    struct tcp_request *ring;
};

/* Bytes to be sent: those in [from, to) of a buffer. */
struct tcp_bytes {
    unsigned char *base;        /* NULL: not used yet */
    size_t size, from, to;
};

/* A part of the queue of requests: so many bytes of the buffer, or a long write. */
struct tcp_item {
    size_t bytes;
    struct tcp_request *request;    /* of a long write, as is all that follows; else NULL */
    const unsigned char *source;    /* the piece under way, */
    struct tcp_frame frame;         /* its frame, */
    size_t sent;                    /* and how much of the two is sent */
    size_t left;                    /* bytes behind that piece */
};

/* An answer that this process owes. */
struct tcp_owed {
    uint8_t op;                 /* enum tcp_op, of the request */
    uint8_t kind;
    uint16_t lane;
    int32_t status;
    bool behind, copied;
    uint64_t extent, at, left;  /* of a read; what is left of it */
    uint64_t value;             /* of an atomic; of a copied read of at most 8 bytes, */
    unsigned char *copy;        /* and of a longer one */
};

enum tcp_conn_state { TCP_CONN_NEW, TCP_CONN_READY, TCP_CONN_ENDED };

struct tcp_peer {
    struct tcp_fabric *fabric;
    struct loci_peer *peer;
    struct loci_link *link;
    _Atomic(struct tcp_conn *) conn;    /* made on first use; freed when the peer is forgotten */
    _Atomic bool lost;                  /* that has ended; the service thread sees to the rest, */
    int64_t lost_at;                    /* when it first saw that; 0: not yet */
};

struct tcp_conn {
    struct tcp_fabric *fabric;
    struct tcp_peer *peer;
    struct tcp_conn *next;              /* fabric->lock */
    int fd;                             /* -1 unless READY; changes under both locks, */
    bool deaf;                          /* as does whether it is read no more */

    /* Under fabric->serving. */
    unsigned char rest[TCP_REST];
    uint32_t nrest;
    struct tcp_frame frame;             /* whose data are coming, */
    uint64_t left;                      /* and how much of them */
    unsigned char refused[TCP_LANES];   /* a status by lane */
    uint16_t *deferred;                 /* reads by lane that are not copied yet; NULL: none */
    struct tcp_owed *owed;              /* ring of TCP_OWED */
    uint32_t owed_from, owed_to;
    unsigned served;                    /* requests of the bytes just read */

    /* Under `lock`. */
    pthread_mutex_t lock;
    _Atomic int state;                  /* enum tcp_conn_state */
    int status;                         /* ENDED: what posts say */
    const char *why;
    struct tcp_bytes requests, answers;
    struct tcp_item *items;             /* ring of TCP_ITEMS: what of `requests` and of long writes
                                         * comes in which order */
    uint32_t item_from, item_to;
    size_t last_frame;                  /* bytes of the last of `requests`, if that is a write */
    enum { TCP_CUT_NONE, TCP_CUT_REQUEST, TCP_CUT_ANSWER } cut; /* what is half sent */
    _Atomic bool wants_out;             /* epoll was asked for room */
    bool fault;                         /* the source of a long write cannot be read */
    _Atomic bool unsent;                /* something is queued */
    struct tcp_request **pending;       /* ring of TCP_OWED: whose answers come, in their order */
    _Atomic uint32_t pending_from, pending_to;
    uint64_t lanes[TCP_LANES / 64];     /* numbers that are taken, a bit each */

    struct tcp_request nobodys;         /* whose answers nobody waits for any more */
};

struct tcp_fabric {
    struct loco_runtime *rt;
    struct shm_fabric *shm;
    struct tcp_ports *ports;
    struct tcp_dials *dials;
    struct loci_links *links;
    /* loci_tcp_conn_connected() and _failed(), but for tests; set before dials_open. */
    void (*taken)(struct tcp_fabric *f, struct tcp_peer *p, int fd);
    void (*not_taken)(struct tcp_fabric *f, struct tcp_peer *p, const char *why);
    int epoll_fd;                       /* of data connections; the service thread watches it */
    int timer_fd;                       /* for what was queued and not sent */
    pthread_mutex_t serving;
    unsigned char *in;                  /* what was read; under serving, as are the next: */
    struct tcp_gathered *gathered;      /* own.h; of one lane of the connection that is read */
    unsigned gathered_lane;
    struct tcp_conn *ready[TCP_FEW];    /* connections that are READY, but where they are more */
    int nready;
    struct tcp_conn *polled;            /* was read just now */
    _Atomic unsigned conns_ready;
    _Atomic bool ticking;
    pthread_mutex_t lanes;              /* held by who gives back lanes for their threads; */
    bool closing;                       /* under it: nobody does any more */
    unsigned quiet;                     /* ticks without anything to do; the service thread's */
    unsigned helps_seen;                /* the service thread's: `helps` at its last look, */
    bool away;                          /* and whether it has left connections to who helps */
    _Atomic unsigned helps;             /* of threads that wait */
    bool by_service;                    /* under serving: the service thread reads */
    bool touched;                       /* under serving: what is read now changed this process's
                                         * memory, or was an answer */
    _Atomic bool changed;               /* what was read before did, and its sleepers were not
                                         * told yet */

    pthread_mutex_t lock;               /* what follows */
    struct tcp_conn *conns;
};

static inline struct tcp_fabric *tcp_of(struct loci_fabric *fabric)
{
    return (struct tcp_fabric *)fabric;
}

static inline struct loci_fabric *tcp_shm(struct loci_fabric *fabric)
{
    return (struct loci_fabric *)tcp_of(fabric)->shm;
}

/* ---- ports.c ---- */
/* Listen as LOCO_TCP_IF and LOCO_TCP_PORTS say, and say where in mine->tcp. After dials_open, since
 * calls may come at once. An error: the log knows. */
int loci_tcp_ports_open(struct tcp_fabric *f, struct loci_address *mine);
/* Nobody is listened to any more. By dials_close, once the goodbyes are sent. */
void loci_tcp_ports_close(struct tcp_fabric *f);

/* ---- dial.c ---- */
/* Sets f->links (and f->dials): further calls on a link are loci_link_part(), _forget() and _send()
 * of ../link/link.h, with LINK_CONTROL; LINK_DEVICE is dial.c's own. A peer's struct tcp_peer is
 * its device_data, set before its link is added. */
int loci_tcp_dials_open(struct tcp_fabric *f);
/* Sends goodbyes and what else is queued, for a bounded time; then ends all links. From when on
 * nothing below is called, but loci_tcp_dial() must not be either. */
void loci_tcp_dials_close(struct tcp_fabric *f);
/* A far peer has been met. LOCO_ERR_UNSUPPORTED: it listens nowhere; the log knows. */
int loci_tcp_link_add(struct tcp_fabric *f, struct loci_peer *peer, struct loci_link **link);
/* Any thread: a connection for data (`purpose` LOCI_CALL_DATA) is wanted, and whichever of the two
 * has the lower identity connects. loci_tcp_conn_connected() or _failed() follows, in the service
 * thread and not in this call; neither, if the peer is gone: then the fabric's peer_gone is what
 * tells. Again while that is under way: nothing. */
void loci_tcp_dial(struct tcp_fabric *f, struct loci_peer *peer, enum loci_purpose purpose);

/* f->taken and f->not_taken, called by dial.c in the service thread, under no lock: */
/* Both ends have proven themselves; fd is non-blocking, and the taker's. It may be the peer that
 * wanted it. Where there is one already, or was, this one is not used: a connection that has broken
 * is not made anew, for what was lost with it nobody knows, and its peer counts as dead. */
void loci_tcp_conn_connected(struct tcp_fabric *f, struct tcp_peer *p, int fd);
/* It was wanted, here or there, and has not come about. */
void loci_tcp_conn_failed(struct tcp_fabric *f, struct tcp_peer *p, const char *why);

/* ---- conn.c ---- */
/* The connection for data to that peer, made if there is none; NULL: there is no memory. Any
 * thread. */
struct tcp_conn *loci_tcp_conn(struct tcp_peer *p);
/* Under serving: it is over, and all who wait are told that. */
void loci_tcp_conn_end(struct tcp_conn *c, int status, const char *why);
/* Under serving: this process closes. What comes is not read any more, but the connection stays, so
 * that the peer waits for the word of how this process ends. */
void loci_tcp_conn_leave(struct tcp_conn *c);
/* Nobody has a lane on it, and it has ended. */
void loci_tcp_conn_free(struct tcp_conn *c);
/* Under the connection's lock: whether epoll tells when the socket has room. */
void loci_tcp_want_room(struct tcp_conn *c, bool wanted);

/* ---- out.c: under the connection's lock ---- */
bool loci_tcp_bytes_open(struct tcp_bytes *b, size_t size);
void loci_tcp_bytes_close(struct tcp_bytes *b);
/* Where the next `len` bytes go, which the caller then counts; NULL: there is no room. */
unsigned char *loci_tcp_bytes_room(struct tcp_bytes *b, size_t len);
/* Whether that many bytes of requests, and an item, find room. */
bool loci_tcp_has_room(struct tcp_conn *c, size_t bytes);
bool loci_tcp_is_half_full(const struct tcp_conn *c);
/* A write that goes on where the last frame's ends, as a part of that; false: there is none such.
 * There is room for one more frame. */
bool loci_tcp_extend(struct tcp_conn *c, const struct tcp_frame *next, const void *data,
                     size_t len);
/* A frame with `len` bytes of data; there is room. */
void loci_tcp_queue(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                    size_t len);
/* A write of more than one piece, from where it lies; `request` is told when it is sent. */
void loci_tcp_queue_long(struct tcp_conn *c, const struct tcp_frame *frame, const void *source,
                         size_t len, struct tcp_request *request);
/* Send what the socket takes. LOCO_OK, or the connection has failed (errno). */
int loci_tcp_pump(struct tcp_conn *c);
/* Under no lock: send what is queued, if it is not sent. Any thread. */
void loci_tcp_send_unsent(struct tcp_conn *c);
/* Those who wait for what was not sent are told that status. */
void loci_tcp_drop_queued(struct tcp_conn *c, int status);

/* ---- in.c: under serving ---- */
/* Read what has come on that connection, and do what it says; whether there was anything. */
bool loci_tcp_receive(struct tcp_conn *c);
/* All connections that have something. */
bool loci_tcp_serve_all(struct tcp_fabric *f);

/* ---- post.c ---- */
int loci_tcp_lane_open(struct loci_fabric *fabric, struct loci_lane *lane);
void loci_tcp_lane_close(struct loci_fabric *fabric, struct loci_lane *lane);
int loci_tcp_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane);
int loci_tcp_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                  int *posted);
int loci_tcp_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op);
int loci_tcp_poll(struct loci_fabric *fabric, struct loci_lane *lane);
/* The peer has gone and its connection has ended: what its lanes hold is given back. */
void loci_tcp_lanes_empty(struct tcp_fabric *f, const struct loci_peer *peer);

/* ---- tcp.c ---- */
/* Under no lock: those of this process who sleep until its memory changes. */
void loci_tcp_tell_sleepers(struct tcp_fabric *f);
/* Any thread: something is queued that nobody may send. */
void loci_tcp_tick_soon(struct tcp_fabric *f);

#endif
