/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_AGENT_H
#define LOCI_AGENT_H

/* An agent, for its own files alone.
 *
 * Two threads. The first, "loco-agent", has the sockets: it answers what takes no time, and gives
 * places away. What takes longer are errands (threads/errand.h), which a second thread runs:
 * making and removing stores, and cleaning up places. So nobody waits for a place because somebody
 * else has a store of 100 GiB made.
 *
 * Who writes what: the list of stores and all in it is the errands' thread's; the seats are under
 * `lock`; connections and the directory are the first thread's. A store is made in three parts: its
 * name is claimed in the directory (agent_directory.c), an errand makes it, and it is published. An
 * errand that answers a client puts the answer into the list `done`, under the lock, and the first
 * thread sends it, if the client is still there. */

#include <pthread.h>
#include <stdatomic.h>

#include "fabric/port/lease.h"
#include "pool_directory.h"
#include "messages.h"
#include "net.h"
#include "pool.h"
#include "store/store_life.h"
#include "streams/mailbox.h"
#include "threads/errand.h"

#define LOCI_AGENT_PLACES 64
#define LOCI_AGENT_PLACES_MOST 1024
#define LOCI_AGENT_GOERS 64             /* processes that have ports, unless its options say more */

struct loco_agent;

enum loci_seat_state { LOCI_SEAT_VACANT, LOCI_SEAT_TAKEN, LOCI_SEAT_LEFT };

struct loci_seat {
    enum loci_seat_state state;
    uint64_t number;                    /* of who has it, or had it last; from 1 */
    int peer;                           /* of which the seat is a holder, unless vacant */
    uint64_t via;                       /* the agent that it came by; 0: by none */
};

struct loci_kept {
    struct loci_kept *next;
    loco_store_t *store;                /* this, */
    loco_mailbox_t *box;                /* or this */
    char name[LOCI_CATALOG_NAME];
    uint64_t bytes;                     /* of all its memory */
    bool removed;
    uint32_t lease;                     /* of a store: as it is lent, */
    uint64_t lease_version;
    uint64_t *users;                    /* of a mailbox, once it is removed, by place: who may use
                                           it still; 0: nobody */
};

/* Grants of a store that was removed, which another agent is to revoke: its processes do not renew
 * their leases. */
struct loci_agent_revoking {
    struct loci_agent_revoking *next;
    uint64_t via, lease_version;
    enum { LOCI_REVOKE_WANTED, LOCI_REVOKE_ASKED, LOCI_REVOKE_DONE } state;
};

/* A descriptor that the first thread watches; first in what it belongs to. */
struct loci_agent_watch {
    void (*event)(struct loco_agent *a, struct loci_agent_watch *watch, uint32_t events);
    int fd;
};

/* How the memory of another agent is reached, by place in the directory's list. */
struct loci_agent_way {
    bool known;                         /* it has said what follows */
    struct loci_address address;
    struct loci_memkey table;           /* its directory, */
    struct loci_lease_board board;      /* and where its leases are */
    int peer;                           /* of which this is a user; -1: it is not met yet */
};

/* How one who came by another agent has gone: that says so, and whether it had died; or it is lost
 * with that agent. */
enum loci_guest_end { LOCI_GUEST_SAID, LOCI_GUEST_DIED, LOCI_GUEST_LOST };

/* What the thread that dials other agents is asked for, and what has come of it. */
struct loci_agent_dial {
    enum { LOCI_DIAL_NONE, LOCI_DIAL_WANTED, LOCI_DIAL_OVER } state;
    struct loci_agent_record record;    /* of no identity: the machine that is joined */
    int fd;                             /* -1: it does not answer */
    struct loci_pool_session session;   /* of that connection */
};

/* A question that an errand answers. */
struct loci_agent_job {
    struct loci_errand errand;          /* first */
    struct loco_agent *agent;
    uint64_t client;                    /* its number; 0: nobody's */
    uint64_t claim;                     /* of a store that is made: its name's */
    struct loci_pool_request request;
    struct loci_record record;          /* of a store that was made, to be published */
    struct loci_pool_reply reply;
    struct loci_agent_job *next;        /* in `claiming`, or in `done` */
};

struct loco_agent {
    loco_runtime_t *rt;
    char pool[LOCO_POOL_NAME_MAX];
    uint64_t memory;                    /* the option */
    int places;
    struct loci_pool_path path;
    int lock_fd, listen_fd, epoll_fd, event_fd;
    struct loci_mem table;              /* the directory's */
    struct loci_worker *worker;
    struct loci_errands errands;
    struct loci_agent_client *clients;  /* the first thread's, as the next: */
    uint64_t connections;               /* so far */
    struct loci_directory directory;
    struct loci_agent_job *claiming;    /* of stores whose names are not ours yet */
    struct loci_agent_link *links;      /* to other agents, */
    struct loci_agent_way way[LOCI_AGENTS_MAX];     /* and to their memory */
    int goers_most;                     /* the option */
    struct loci_ports *ports;           /* NULL: there are none */
    struct loci_agent_goer *goers;      /* who have some of them */
    struct loci_agent_guest *guests;    /* processes of other machines with a place here */
    struct loci_agent_asked *asked;     /* grants that others want revoked */
    uint64_t seats_asked;
    struct loci_agent_caller *callers;  /* who have not proven themselves */
    int ncallers;
    struct loci_log_seldom strangers;
    struct loci_log_seldom no_descriptors;
    int64_t pause;                      /* no descriptor is left: nobody is accepted until then; 0:
                                         * anybody is */
    uint64_t dials;
    int64_t ticked, reminded;
    uint64_t born;
    bool joins_itself;                  /* the machine to join is this one */

    bool several;                       /* machines; constant, as the next: */
    char join[256];                     /* "": none is to be joined */
    int port;
    const char *secret_file;            /* while it is opened */
    uint64_t secret[2];
    struct loci_tcp_place place[LOCI_TCP_PLACES];   /* where it listens, */
    struct loci_agent_watch listen[LOCI_TCP_PLACES];
    struct loci_worker *dialler;

    pthread_mutex_t lock;               /* what follows, up to the blank line */
    bool stops;
    struct loci_seat *seat;
    struct loci_leases *leases;         /* of stores; a place is a holder */
    struct loci_agent_revoking *revoking;
    uint64_t attached;                  /* numbers of seats so far */
    struct loci_agent_job *done;
    struct loci_agent_dial dial;
    void (*asked_to_stop)(void *ctx);   /* nullable: LOCI_POOL_STOP came */
    void *stop_ctx;

    _Atomic uint64_t clients_now, leaving, died, cleaned, stores, removed, bytes, refused;

    struct loci_kept *kept;             /* the errands' thread's, as the next: */
    bool reclaims;                      /* an errand gives memory of removed stores back */
};

/* agent.c: wake the first thread. */
void loci_agent_wake(struct loco_agent *a);
/* An errand has its answer. */
void loci_agent_done(struct loci_agent_job *job);
/* First thread: the answer goes to that client, if it is there still; `asked`: it has waited. */
void loci_agent_reply(struct loco_agent *a, uint64_t client, struct loci_pool_reply *reply,
                      bool asked);
/* A place for the process of that address, whose peer is met; or noted, as it comes by the agent
 * `via`, which is not 0 then. LOCO_ERR_FULL,
 * LOCO_ERR_AGAIN (it was here, and is being cleaned up after); and those of loci_peer_meet. */
int loci_agent_seat(struct loco_agent *a, const struct loci_address *address, uint64_t via,
                    int *place);
/* It has gone: `via` is the peer of the agent that it came by, or -1. */
void loci_agent_unseat(struct loco_agent *a, int place, enum loci_guest_end end, int via);
/* First thread: the answer goes to its client, and the job is over. */
void loci_agent_answer(struct loci_agent_job *job);

/* The first thread watches it. 0, or errno. */
int loci_agent_watch(struct loco_agent *a, struct loci_agent_watch *watch, uint32_t events);
/* A connection could not be accepted, by errno. Without a descriptor none is, for a while. */
void loci_agent_accept_failed(struct loco_agent *a, int error);
/* A client of another machine, which has proven itself. */
void loci_agent_add_client(struct loco_agent *a, int fd, const struct loci_pool_session *session);

/* agent_net.c: where it listens for other machines, and who calls. Callers that have proven
 * themselves are clients or links. */
int loci_agent_net_open(struct loco_agent *a);
void loci_agent_net_close(struct loco_agent *a);
void loci_agent_net_tick(struct loco_agent *a);
/* Whether calls are accepted. */
void loci_agent_net_accept(struct loco_agent *a, bool accept);

/* agent_links.c: the other agents. The first thread's, but for those with other words. */
void loci_agent_add_link(struct loco_agent *a, int fd, bool dialled,
                         const struct loci_pool_session *session);
void loci_agent_send_news(void *agent, int to, const struct loci_news *news);
/* Those that are over; or all. */
void loci_agent_drop_links(struct loco_agent *a, bool all);
void loci_agent_links_tick(struct loco_agent *a);
void loci_agent_choose_dial(struct loco_agent *a);
void loci_agent_take_dialled(struct loco_agent *a);
/* Any thread; blocks. A connection to the machine that is to be joined; -1: that is this one. */
int loci_agent_dial_join(struct loco_agent *a, int level, struct loci_pool_session *session,
                         int *fd);
int loci_agent_dials_open(struct loco_agent *a);
/* Once it is to stop. */
void loci_agent_dials_close(struct loco_agent *a);

/* agent_ports.c: the first thread's. Ports for so many processes; 0: none. */
int loci_agent_ports_open(struct loco_agent *a, int clients);
/* No thread is there any more. */
void loci_agent_ports_close(struct loco_agent *a);
/* A link has come up; and is over. */
enum loci_way_end {
    LOCI_WAY_REPLACED,                  /* by another one, which comes up at once */
    LOCI_WAY_LEFT,                      /* for that agent has left */
    LOCI_WAY_LOST
};
void loci_agent_way_up(struct loco_agent *a, int agent);
void loci_agent_way_down(struct loco_agent *a, int agent, enum loci_way_end end);
/* False: its memory is not reached any more, and the link is to be broken. */
bool loci_agent_way_tick(struct loco_agent *a, int agent);
/* Whether that was news of ports. */
bool loci_agent_ports_hear(struct loco_agent *a, int agent, const struct loci_news *news);
/* A client asks for a place at another agent, and for memory there. LOCO_IN_PROGRESS: it is
 * answered later; else the answer is `reply`. */
int loci_agent_reach(struct loco_agent *a, uint64_t client, int place,
                     const struct loci_pool_request *request, struct loci_pool_reply *reply);
int loci_agent_grant(struct loco_agent *a, uint64_t client,
                     const struct loci_pool_request *request, struct loci_pool_reply *reply);
/* Ask for, and do, what is revoked. */
void loci_agent_revoke(struct loco_agent *a);
/* A guest is about to connect. */
void loci_agent_meet_guest(struct loco_agent *a, const struct loci_address *address,
                           struct loci_pool_reply *reply);
/* A client has gone; and what it had is given back once nothing of it is under way. */
void loci_agent_goes(struct loco_agent *a, uint64_t client, bool said);
void loci_agent_see_off(struct loco_agent *a);

/* agent_directory.c: the first thread's. */
void loci_agent_directory_open(struct loco_agent *a);
void loci_agent_directory_close(struct loco_agent *a);
/* A client asks for a store to be made, or removed. It is answered in the end. LOCO_ERR_NO_MEMORY:
 * it is not. */
int loci_agent_make(struct loco_agent *a, uint64_t client,
                    const struct loci_pool_request *request);
int loci_agent_remove(struct loco_agent *a, uint64_t client,
                      const struct loci_pool_request *request);
/* An errand of these has come back. */
void loci_agent_came_back(struct loci_agent_job *job);

/* For the tool: somebody asks the agent to stop. In its first thread. */
void loci_agent_on_stop(loco_agent_t *a, void (*asked)(void *ctx), void *ctx);

/* agent_stores.c: errands. A job makes or removes, as its request says, and is done then. */
void loci_agent_send_job(struct loci_agent_job *job);
/* The seat was left: it is vacant when that is over. `said`: nothing comes from its process any
 * more. LOCO_ERR_NO_MEMORY. */
int loci_agent_send_left(struct loco_agent *a, int place, bool said);
/* The same of who came by the agent `via`. */
int loci_agent_send_guest_left(struct loco_agent *a, int place, enum loci_guest_end end, int via);
/* All stores, with the agent. */
void loci_agent_free_stores(struct loco_agent *a);

#endif
