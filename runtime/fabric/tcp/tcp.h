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
#include "wire.h"

/* The fabric of machines that have no RDMA device: data over TCP, one connection a pair of
 * processes.
 *
 *   tcp.c       life, peers; what of it is shm's
 *   ports.c     the addresses that this process listens on, and that its peers are told of
 *   dial.c      connections to others, and from them: both ends prove who they are
 *   messages.c  the links' messages (../link) over such a connection
 *   conn.c      data connections: their life
 *   out.c       what is to be sent: requests and answers
 *   in.c        what comes: cut into frames
 *   serve.c     requests of peers, done by this process's CPU
 *   own.c       this process's memory, as they touch it
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
 * Locks, from the outside in: a thread's lock (of the runtime); f->serving, held by who reads
 * connections and does requests; a connection's `lock`, of what is to be sent; shm's lock, of the
 * tables of memory. The runtime is called under none of them, but for logs, and by the service
 * thread alone. */

struct shm_fabric;
struct tcp_ports;
struct tcp_dials;
struct tcp_conn;
struct tcp_lane;

#define TCP_OWED 4096           /* requests of one connection that have no answer yet */
#define TCP_ITEMS 1024          /* pieces of its queue */
#define TCP_REST 64             /* bytes kept between reads: a cut frame, or a cut word */

/* One that was posted, of a lane's ring. */
struct tcp_request {
    struct loci_slot *slot;     /* who is told, or NULL */
    enum loci_op_kind kind;
    unsigned char *to;          /* where the answer goes; NULL: nobody looks */
    size_t len, got;            /* of a read */
    int status;                 /* before `done` */
    _Atomic bool done;          /* release: the answer, then this */
};

struct tcp_lane {
    struct loci_lane *lane;
    struct tcp_conn *conn;
    uint16_t number;            /* on the connection */
    bool broken;                /* refused: nothing is posted until it is mended */
    bool lost;                  /* writes with it */
    uint32_t depth, posted, retired;
    struct tcp_request *ring;
};

/* Bytes to be sent, in a ring that wraps; `from` and `to` only grow. */
struct tcp_bytes {
    unsigned char *base;        /* NULL: not used yet */
    size_t size;                /* a power of two */
    uint64_t from, to;
};

/* A part of the queue of requests: so many bytes of the ring, or a long write. */
struct tcp_item {
    uint64_t bytes;             /* of the ring that are left; or, of a long write: */
    struct tcp_request *request;    /* NULL: it is none */
    struct tcp_frame frame;     /* of the piece under way, */
    uint32_t begun;             /* bytes of it that are sent, with its frame; and of its data */
    const unsigned char *source;
    size_t left;                /* bytes of data that are not in a piece yet */
};

/* An answer that this process owes. */
struct tcp_owed {
    uint8_t op;                 /* enum tcp_op, of the request */
    uint8_t kind;
    uint16_t lane;
    int32_t status;
    uint64_t extent, at, left;  /* of a read */
    uint64_t value;             /* of an atomic */
};

enum tcp_conn_state { TCP_CONN_NEW, TCP_CONN_READY, TCP_CONN_ENDED };

struct tcp_peer {
    struct tcp_fabric *fabric;
    struct loci_peer *peer;
    struct loci_link *link;
    _Atomic(struct tcp_conn *) conn;    /* made on first use; freed when the peer is forgotten */
};

struct tcp_conn {
    struct tcp_fabric *fabric;
    struct tcp_peer *peer;
    struct tcp_conn *next;              /* fabric->lock */
    int fd;                             /* -1 unless READY; changes under both locks */

    /* Under fabric->serving. */
    unsigned char rest[TCP_REST];
    uint32_t nrest;
    struct tcp_frame frame;             /* whose data are coming, */
    uint64_t left;                      /* and how much of them */
    unsigned char *refused;             /* a status by lane; NULL: none */
    struct tcp_owed *owed;              /* ring of TCP_OWED */
    uint32_t owed_from, owed_to;

    /* Under `lock`. */
    pthread_mutex_t lock;
    _Atomic int state;                  /* enum tcp_conn_state */
    int status;                         /* ENDED: what posts say */
    struct tcp_bytes requests, answers;
    struct tcp_item *items;             /* ring of TCP_ITEMS: what of `requests` and of long writes
                                         * comes in which order */
    uint32_t item_from, item_to;
    enum { TCP_CUR_NONE, TCP_CUR_REQUESTS, TCP_CUR_ANSWERS } cut;  /* whose frame is half sent */
    bool wants_out;                     /* epoll was asked for room */
    _Atomic bool unsent;                /* something is queued */
    struct tcp_request **pending;       /* ring of TCP_OWED: whose answers come, in their order */
    _Atomic uint32_t pending_from, pending_to;
    uint64_t lanes[1024];               /* numbers that are taken, a bit each */

    /* Counts for LOCO_STATS. */
    _Atomic uint64_t bytes_out, bytes_in, served;
};

struct tcp_fabric {
    struct loco_runtime *rt;
    struct shm_fabric *shm;
    struct tcp_ports *ports;
    struct tcp_dials *dials;
    struct loci_links *links;
    int epoll_fd;                       /* of data connections; the service thread watches it */
    int timer_fd;                       /* for what was queued and not sent */
    pthread_mutex_t serving;
    unsigned char *in;                  /* what was read; under serving */
    _Atomic unsigned conns_ready;
    _Atomic bool ticking;

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
/* Listen as LOCO_TCP_IF and LOCO_TCP_PORTS say, and say where in *mine. An error: the log knows. */
int loci_tcp_ports_open(struct tcp_fabric *f, struct loci_address *mine);
void loci_tcp_ports_close(struct tcp_fabric *f);

/* ---- dial.c: service thread, but for open and close ---- */
/* A connection to a peer that both ends have proven themselves on is handed over by these; fd is
 * non-blocking, and the taker's. `purpose` LOCI_CALL: for its link, LOCI_CALL_DATA: for data. */
int loci_tcp_dials_open(struct tcp_fabric *f);
void loci_tcp_dials_close(struct tcp_fabric *f);
/* Begin to connect; who has the lower identity does. What comes of it is told by
 * loci_tcp_connected() or _not_connected(), not in this call. */
void loci_tcp_dial(struct tcp_fabric *f, struct loci_peer *peer, enum loci_purpose purpose);
/* Both ways: a connection is there. In dial.c's callers: */
void loci_tcp_link_connected(struct tcp_fabric *f, struct loci_link *link, int fd);
void loci_tcp_conn_connected(struct tcp_fabric *f, struct tcp_peer *p, int fd);
void loci_tcp_conn_failed(struct tcp_fabric *f, struct tcp_peer *p, const char *why);

/* ---- conn.c ---- */
/* The connection for data to that peer, made if it is not; NULL: there is no memory. Any thread. */
struct tcp_conn *loci_tcp_conn(struct tcp_peer *p);
/* Under serving: it is over, and all who wait are told that. */
void loci_tcp_conn_end(struct tcp_conn *c, int status, const char *why);
void loci_tcp_conn_free(struct tcp_conn *c);

/* ---- out.c: under the connection's lock ---- */
/* Whether that many bytes of requests, and an item, find room. */
bool loci_tcp_has_room(const struct tcp_conn *c, size_t bytes);
/* A frame with `len` bytes of data; there is room. */
void loci_tcp_queue(struct tcp_conn *c, const struct tcp_frame *frame, const void *data,
                    size_t len);
void loci_tcp_queue_long(struct tcp_conn *c, const struct tcp_frame *frame, const void *source,
                         size_t len, struct tcp_request *request);
/* Send what the socket takes. LOCO_OK, or the connection has failed (errno). */
int loci_tcp_pump(struct tcp_conn *c);

/* ---- in.c: under serving ---- */
/* Read what has come on that connection, and do what it says; whether there was anything. */
bool loci_tcp_receive(struct tcp_conn *c);
/* All connections that have something. */
bool loci_tcp_serve(struct tcp_fabric *f);

#endif
