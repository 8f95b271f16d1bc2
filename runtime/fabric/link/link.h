/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_LINK_H
#define LOCI_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime.h"

/* Links: messages between processes that shm's sockets do not join, and how the end of such a
 * process is seen. A back end has the connections, and moves the bytes: librdmacm and a device's
 * queues (../verbs), or sockets (../tcp).
 *
 *   link.c      life, peers; what is queued; heartbeats; ends
 *   parked.c    calls of processes that this one has not met yet
 *
 * One connection a pair: the process with the lower identity makes it, as soon as both have met.
 *
 * All of it is the service thread's, but for what is queued: others queue, and kick. Locks:
 * links->lock is taken alone, and nothing is called under it. */

#define LINK_MAGIC UINT32_C(0x6c6e6b31)
#define LINK_VERSION 1

enum loci_link_type {
    LINK_CONTROL = 1,       /* for loci_control_receive */
    LINK_DEVICE,            /* for the fabric: ops->receive */
    LINK_GOODBYE,           /* the sender closes its runtime */
    LINK_ALIVE              /* says nothing else */
};

/* Before each message. */
struct loci_link_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;          /* enum loci_link_type */
    uint32_t len;           /* bytes after it */
    uint32_t pad;
    uint64_t from;          /* the sender's identity */
};

#define LINK_BYTES (sizeof(struct loci_link_head) + LOCI_CONTROL_MAX)   /* of the longest */

struct loci_link_queued {
    struct loci_link_queued *next;
    struct loci_link_head head;
    unsigned char body[];           /* right behind the head */
};

enum loci_link_state { LINK_NEW, LINK_CONNECTING, LINK_READY, LINK_ENDED };

struct loci_links;

/* The first member of what a back end has of one. */
struct loci_link {
    struct loci_links *links;
    struct loci_peer *peer;
    _Atomic unsigned queued;        /* messages that are not sent yet */
    _Atomic bool parted;            /* we have said goodbye: its end is no news any more */

    /* The service thread's. */
    enum loci_link_state state;
    int64_t since;                  /* when it was met */
    bool goodbye, gone;
    const char *failure;            /* it is to be ended, and why: loci_link_fail() */

    /* links->lock */
    bool hung_up, to_do;
    struct loci_link_queued *first, **last;
    struct loci_link *next_to_do, *next;
};

/* A call from a process that is not in our table yet. */
struct loci_link_parked {
    void *call;                     /* the back end's */
    uint64_t identity, label;
    int64_t since;
    struct loci_link_parked *next;
};

/* What a back end does; all in the service thread, or when no handler runs any more. */
struct loci_link_ops {
    size_t size;            /* of its struct, whose first member is a struct loci_link */
    /* NEW: connect, or take the call that is parked. */
    void (*connect)(struct loci_link *l);
    /* Give back the connection, if there is one; in any state. */
    void (*disconnect)(struct loci_link *l);
    /* READY: send what is queued, as far as there is room. */
    void (*pump)(struct loci_link *l);
    /* It is about to end: take what has come from it. */
    void (*drain)(struct loci_link *l);
    /* No connection has come about: tell the log what to look at. */
    void (*no_way)(struct loci_link *l);
    /* Nullable: each second, before links are looked at. */
    void (*tick)(struct loci_links *links);
    /* Nullable: the same, of each link that is READY, whose peer says something every so many
     * seconds. */
    void (*look)(struct loci_link *l, unsigned every);
    /* Nullable: somebody called loci_link_attend(). */
    void (*attend)(struct loci_link *l);
    /* LINK_DEVICE. */
    void (*receive)(struct loci_link *l, const void *message, size_t len);
    /* A call that was parked: take it for that link, which is NEW; or refuse it. */
    void (*accept)(struct loci_link *l, void *call);
    void (*refuse)(struct loci_links *links, void *call);
    unsigned parked_most;   /* calls */
};

struct loci_links {
    struct loco_runtime *rt;
    const struct loci_link_ops *ops;
    void *owner;                    /* the back end's */
    int kick_fd, timer_fd;

    /* The service thread's. */
    struct loci_link_parked *parked;
    unsigned nparked, ticks;
    int64_t look_in;                /* of a tick: ns to the next one */
    struct loci_log_seldom refused; /* lines about strangers' calls */

    pthread_mutex_t lock;           /* what follows, and what links say of themselves */
    struct loci_link *all, *to_do;
    unsigned count;
    bool ticking;
};

/* ---- link.c ---- */
/* The caller's storage. LOCO_ERR_SYSTEM: there are no descriptors, errno says why; nothing is to
 * be given back. */
int loci_links_init(struct loci_links *links, struct loco_runtime *rt,
                    const struct loci_link_ops *ops, void *owner);
/* The service thread begins to look after them. */
int loci_links_watch(struct loci_links *links);
/* Send what is queued, for a bounded time; then the service thread has left them. The back end
 * stops its own handlers next, */
void loci_links_stop(struct loci_links *links);
/* and calls this, which frees all links and refuses the parked. */
void loci_links_fini(struct loci_links *links);

/* A link to that peer, of which the service thread hears at once. Any thread. */
int loci_link_add(struct loci_links *links, struct loci_peer *peer, struct loci_link **link);
/* Say goodbye. Any thread. */
void loci_link_part(struct loci_link *l);
/* Service thread: the peer has gone, and nobody sends to it. The link is freed; false: its
 * connection has to end first, and this is to be asked again. */
bool loci_link_forget(struct loci_link *l);
/* Any thread; reliable and in order; may wait for a bounded time while very many messages are
 * queued, but not in the service thread. */
int loci_link_send(struct loci_link *l, enum loci_link_type type, const void *message, size_t len);

/* Under no lock, any thread: have the service thread look after it. */
void loci_link_attend(struct loci_link *l);
/* Service thread: it is over with the peer. Not while what came from it is taken: it takes that. */
void loci_link_ended(struct loci_link *l, const char *how);
/* Service thread: end it, but later. `how` stays. */
void loci_link_fail(struct loci_link *l, const char *how);
/* The link to that process's runtime of that label; NULL. */
struct loci_link *loci_link_find(struct loci_links *links, uint64_t identity, uint64_t label);
/* From now on each second links are looked at, and calls that are parked. */
void loci_links_tick(struct loci_links *links);
/* In ops->look: look again so soon, which may be before the next second. */
void loci_links_look_in(struct loci_links *links, int64_t ns);
/* Of the two it is we who connect. */
static inline bool loci_link_calls(const struct loci_link *l)
{
    return l->links->rt->address.identity < l->peer->address.identity;
}

/* For back ends, service thread. The next message to be sent, which the caller frees; NULL. Once it
 * is sent, `queued` is one less. */
struct loci_link_queued *loci_link_next(struct loci_link *l);
/* Whether a head is one of ours, and of that sender; NULL, or what is wrong. */
const char *loci_link_check(const struct loci_link_head *head, uint64_t from);
/* A message that has come; NULL, or what is wrong with it. */
const char *loci_link_take(struct loci_link *l, const struct loci_link_head *head,
                           const void *body);

/* ---- parked.c: service thread ---- */
/* Keep it until its caller is met; or refuse it, where there are too many. */
void loci_link_park(struct loci_links *links, uint64_t identity, uint64_t label, void *call);
/* Take the calls that were parked for that link, until one is accepted. */
void loci_link_unpark(struct loci_link *l);
/* That call has ended: it is not parked any more. */
void loci_link_unparked(struct loci_links *links, const void *call);
/* Refuse calls that have been parked for too long: their callers were never met. */
void loci_link_tidy_parked(struct loci_links *links);
void loci_link_refuse_parked(struct loci_links *links);

#endif
