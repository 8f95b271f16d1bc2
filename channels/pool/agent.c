/* SPDX-License-Identifier: BSD-3-Clause */

/* An agent: who comes and goes. See agent.h. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "descriptor.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "threads/worker.h"
#include "wait.h"

#define BACKLOG 256
#define EVENTS 64

static const char call[] = "loco_agent_start";

#define TICK_MS 100             /* where there are other agents */

/* A descriptor of a client's: its connection's, or of its process's end. */
struct watch {
    struct loci_agent_watch watch;      /* first */
    struct loci_agent_client *client;
};

/* A connection. Its process has a place, or only asks. The kernel tells of the process's end by its
 * own descriptor too, for the connection may be a child's as well; not of one of another machine,
 * whose connection is no child's (it is closed with the program that is started). */
struct loci_agent_client {
    struct loci_agent_client *next;
    struct loco_agent *agent;
    struct watch connection, process;   /* process.watch.fd -1: the system has none, or not yet a
                                         * place */
    int place;                          /* -1: none */
    uint64_t number;
    bool asks;                          /* an errand has its question */
    bool said;                          /* that it leaves */
    bool gone;
    bool far;                           /* of another machine: */
    struct loci_pool_session session;
    struct loci_pool_request request;   /* what has come of one, */
    size_t got;
    struct loci_pool_reply reply;       /* and what is not yet sent of an answer */
    size_t sent;
};

/* ---- answers ---- */

/* Its rest goes when there is room: connection_event(). */
static void send_rest(struct loci_agent_client *c)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &c->connection };
    int fd = c->connection.watch.fd;

    while (c->sent < sizeof c->reply) {
        ssize_t n = send(fd, (char *)&c->reply + c->sent, sizeof c->reply - c->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            c->sent += (size_t)n;
        } else if (errno == EAGAIN) {
            event.events |= EPOLLOUT;
            break;
        } else if (errno != EINTR) {
            c->gone = true;
            return;
        }
    }
    (void)epoll_ctl(c->agent->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static void answer(struct loci_agent_client *c, struct loci_pool_reply *reply)
{
    struct loco_agent *a = c->agent;

    reply->magic = LOCI_POOL_MAGIC;
    reply->version = LOCI_POOL_VERSION;
    reply->places = a->places;
    reply->pid = (int32_t)getpid();
    reply->identity = a->rt->address.identity;
    reply->several = a->several;
    if (c->far) {
        loci_pool_mask(&c->session, true, &reply->address);
        c->reply = *reply;
        c->sent = 0;
        send_rest(c);
        return;
    }
    memcpy(reply->secret, a->secret, sizeof reply->secret);
    /* It reads one answer at a time, so there is room; else it does not read at all. */
    if (send(c->connection.watch.fd, reply, sizeof *reply, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        c->gone = true;
}

static void say(struct loci_pool_reply *reply, int status, const char *text)
{
    reply->status = status;
    snprintf(reply->text, sizeof reply->text, "%s", text);
}

void loci_agent_wake(struct loco_agent *a)
{
    const uint64_t one = 1;

    if (write(a->event_fd, &one, sizeof one) < 0)
        LOCI_LOG(a->rt, LOCO_LOG_DEBUG, "agent: eventfd: %s", strerror(errno));
}

void loci_agent_done(struct loci_agent_job *job)
{
    struct loco_agent *a = job->agent;

    pthread_mutex_lock(&a->lock);
    job->next = a->done;
    a->done = job;
    pthread_mutex_unlock(&a->lock);
    loci_agent_wake(a);
}

void loci_agent_reply(struct loco_agent *a, uint64_t client, struct loci_pool_reply *reply,
                      bool asked)
{
    struct loci_agent_client *c = a->clients;

    while (c != NULL && c->number != client)
        c = c->next;
    if (c == NULL)
        return;
    c->asks = c->asks && !asked;
    answer(c, reply);
}

void loci_agent_answer(struct loci_agent_job *job)
{
    loci_agent_reply(job->agent, job->client, &job->reply, true);
    free(job);
}

static void take_back(struct loco_agent *a)
{
    struct loci_agent_job *job, *next;

    pthread_mutex_lock(&a->lock);
    job = a->done;
    a->done = NULL;
    pthread_mutex_unlock(&a->lock);
    for (; job != NULL; job = next) {
        next = job->next;
        loci_agent_came_back(job);
    }
}

/* ---- places ---- */

static int take_seat(struct loco_agent *a, int peer, uint64_t via)
{
    int place = -1;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->places && place < 0; i++)
        if (a->seat[i].state == LOCI_SEAT_VACANT)
            place = i;
    if (place >= 0) {
        a->seat[place] = (struct loci_seat){ LOCI_SEAT_TAKEN, ++a->attached, peer, via };
        loci_leases_admit(a->leases, place, peer);
    }
    pthread_mutex_unlock(&a->lock);
    return place;
}

/* The peer stays while its place is not vacant, in the table and in the fabric. One that has gone,
 * as far as is known here, is not met again before all have let go of it: LOCO_ERR_AGAIN. */
int loci_agent_seat(struct loco_agent *a, const struct loci_address *address, uint64_t via,
                    int *place)
{
    bool noted = via != 0;
    int peer, status = noted && address->node == a->rt->address.node ? LOCO_ERR_UNSUPPORTED
                       : noted ? loci_peer_note(a->rt, address, &peer)
                       : loci_peer_meet(a->rt, address, &peer);

    if (status != LOCO_OK)
        return status;
    loci_peers_use(a->rt, &peer, 1);
    status = loci_peer_goes(a->rt, peer) ? LOCO_ERR_AGAIN : LOCO_ERR_FULL;
    *place = status == LOCO_ERR_FULL ? take_seat(a, peer, via) : -1;
    if (*place < 0) {
        loci_peers_end_use(a->rt, &peer, 1);
        loci_peers_let_go(a->rt, &peer, 1);
        return status;
    }
    atomic_fetch_add(&a->clients_now, 1);
    return LOCO_OK;
}

static void give_place(struct loci_agent_client *c, const struct loci_address *address,
                       struct loci_pool_reply *reply)
{
    struct loco_agent *a = c->agent;
    int status;

    if (c->place >= 0) {
        say(reply, LOCO_ERR_STATE, "this connection has a place already");
        return;
    }
    if (!c->far && address->node != a->rt->address.node) {
        say(reply, LOCO_ERR_UNSUPPORTED, "this process counts as on another machine than the agent "
            "that it asks, by LOCO_NODE or its container");
        return;
    }
    status = loci_agent_seat(a, address, 0, &c->place);
    if (status != LOCO_OK) {
        say(reply, status, status == LOCO_ERR_MISMATCH
            ? "agent and process move data by different fabrics: set LOCO_FABRIC to the same"
            : status == LOCO_ERR_AGAIN
            ? "the agent takes this process for one that has gone, and cleans up behind it"
            : status == LOCO_ERR_FULL
            ? "all places of the pool are taken: the agent's option --places"
            : loco_strerror(status));
        reply->stats.leaving = atomic_load(&a->leaving);
        return;
    }
    reply->place = c->place;
    reply->address = a->rt->address;
    reply->directory = a->table.key;
    loci_leases_board(a->leases, &reply->board);
}

/* From the credentials of the connection, which are of who made it. */
static void watch_process(struct loci_agent_client *c)
{
    struct ucred who;
    socklen_t len = sizeof who;

    if (getsockopt(c->connection.watch.fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0
        || who.pid <= 0)
        return;
    c->process.watch.fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
    if (c->process.watch.fd >= 0)
        (void)loci_agent_watch(c->agent, &c->process.watch, EPOLLIN);
}

static void note_left(struct loco_agent *a, int place, bool said)
{
    atomic_fetch_sub(&a->clients_now, 1);
    atomic_fetch_add(&a->leaving, 1);
    atomic_fetch_add(&a->died, !said);
    pthread_mutex_lock(&a->lock);
    a->seat[place].state = LOCI_SEAT_LEFT;
    pthread_mutex_unlock(&a->lock);
}

/* Without memory the place is lost, until there is a new agent. */
static void tell_unclean(struct loco_agent *a, int place, int status)
{
    if (status != LOCO_OK)
        LOCI_LOG(a->rt, LOCO_LOG_ERROR, "pool %s: no memory to clean up place %d, which stays "
                 "taken", a->pool, place);
}

static void leave_place(struct loci_agent_client *c)
{
    struct loco_agent *a = c->agent;

    if (c->place < 0)
        return;
    loci_agent_goes(a, c->number, c->said);
    note_left(a, c->place, c->said);
    tell_unclean(a, c->place, loci_agent_send_left(a, c->place, c->said || !c->far));
}

void loci_agent_unseat(struct loco_agent *a, int place, enum loci_guest_end end, int via)
{
    note_left(a, place, end == LOCI_GUEST_SAID);
    tell_unclean(a, place, loci_agent_send_guest_left(a, place, end, via));
}

/* ---- questions ---- */

static void fill_stats(struct loco_agent *a, loco_agent_stats_t *stats)
{
    struct loci_port_stats ports;

    pthread_mutex_lock(&a->lock);
    stats->attached = a->attached;
    pthread_mutex_unlock(&a->lock);
    stats->clients = atomic_load(&a->clients_now);
    stats->died = atomic_load(&a->died);
    stats->cleaned = atomic_load(&a->cleaned);
    stats->leaving = atomic_load(&a->leaving);
    stats->stores = atomic_load(&a->stores);
    stats->removed = atomic_load(&a->removed);
    stats->memory = atomic_load(&a->bytes);
    stats->refused = atomic_load(&a->refused);
    stats->ports = stats->port_requests = stats->port_refused = stats->port_failed = 0;
    if (a->ports == NULL)
        return;
    loci_ports_stats(a->ports, &ports);
    stats->ports = ports.clients + ports.leaving;
    stats->port_requests = ports.taken;
    stats->port_refused = ports.refused + ports.misused;
    stats->port_failed = ports.failed;
}

static const char *what_is_wrong(const struct loci_agent_client *c,
                                 const struct loci_pool_request *r, ssize_t n)
{
    if (n != (ssize_t)sizeof *r || r->magic != LOCI_POOL_MAGIC)
        return "no question";
    if (r->version != LOCI_POOL_VERSION)
        return "another version";
    if (c->asks)
        return "a question before the answer to the last one";
    if (r->ask < LOCI_POOL_HELLO || r->ask > LOCI_POOL_GRANT
        || (c->far && r->ask >= LOCI_POOL_STATUS))
        return "an unknown question";
    if ((r->ask == LOCI_POOL_MAKE || r->ask == LOCI_POOL_REMOVE || r->ask == LOCI_POOL_GRANT)
        && (r->name[0] == '\0' || memchr(r->name, '\0', sizeof r->name) == NULL))
        return "a bad name";
    if (r->ask == LOCI_POOL_REACH && memchr(r->name, '\0', sizeof r->name) == NULL)
        return "a bad name";
    return NULL;
}

static void ask_to_stop(struct loco_agent *a)
{
    if (a->asked_to_stop != NULL)
        a->asked_to_stop(a->stop_ctx);
}

/* As LOCO_FABRIC has it: the first word of its name. A device beside shared memory is what auto
 * chooses for several machines. */
static void tell_fabric(const struct loco_agent *a, struct loci_pool_reply *reply)
{
    const loco_runtime_t *rt = a->rt;
    bool device = strcmp(rt->ops->name, loci_fabric_near.name) == 0;
    const char *name = device ? "auto" : rt->ops->name;

    reply->near = device && a->ports != NULL;
    snprintf(reply->fabric, sizeof reply->fabric, "%.*s", (int)strcspn(name, " "), name);
}

static void tell_agent(const struct loco_agent *a, uint64_t i, struct loci_pool_reply *reply)
{
    const struct loci_directory *d = &a->directory;

    if (i >= LOCI_AGENTS_MAX || d->agent[i].state == LOCI_AGENT_NONE) {
        reply->status = i >= LOCI_AGENTS_MAX ? LOCO_ERR_RANGE : LOCO_ERR_NOT_FOUND;
        return;
    }
    reply->agent = d->agent[i];
    for (int k = 0; k < LOCI_CATALOG_RECORDS; k++)
        reply->agent_stores += d->store[k].number != 0
                               && d->store[k].host == d->agent[i].identity;
}

static void serve(struct loci_agent_client *c, const struct loci_pool_request *request)
{
    struct loci_pool_reply reply = { .status = LOCO_OK };
    struct loco_agent *a = c->agent;

    switch ((enum loci_pool_ask)request->ask) {
    case LOCI_POOL_HELLO:
        tell_fabric(a, &reply);
        break;
    case LOCI_POOL_ENTER:
        give_place(c, &request->address, &reply);
        if (c->place >= 0 && c->process.watch.fd < 0 && !c->far)
            watch_process(c);
        break;
    case LOCI_POOL_MAKE:
    case LOCI_POOL_REMOVE:
        c->asks = true;
        if ((request->ask == LOCI_POOL_MAKE ? loci_agent_make(a, c->number, request)
             : loci_agent_remove(a, c->number, request)) == LOCO_OK)
            return;
        c->asks = false;
        say(&reply, LOCO_ERR_NO_MEMORY, loco_strerror(LOCO_ERR_NO_MEMORY));
        break;
    case LOCI_POOL_LEAVE:
        c->said = c->gone = true;
        return;
    case LOCI_POOL_STATUS:
        fill_stats(a, &reply.stats);
        break;
    case LOCI_POOL_STOP:
        ask_to_stop(a);
        break;
    case LOCI_POOL_AGENTS:
        tell_agent(a, request->bytes, &reply);
        break;
    case LOCI_POOL_MEET:
        loci_agent_meet_guest(a, &request->address, &reply);
        break;
    case LOCI_POOL_REACH:
        c->asks = true;
        if (loci_agent_reach(a, c->number, c->place, request, &reply) == LOCO_IN_PROGRESS)
            return;
        c->asks = false;
        break;
    case LOCI_POOL_GRANT:
        (void)loci_agent_grant(a, c->number, request, &reply);
        break;
    }
    answer(c, &reply);
}

/* Whether there is a message, or a part of one, or its end: its length is *n then. */
static bool receive(struct loci_agent_client *c, ssize_t *n)
{
    size_t room = sizeof c->request - c->got;

    *n = recv(c->connection.watch.fd, (char *)&c->request + c->got, room,
              MSG_DONTWAIT | (c->far ? 0 : MSG_TRUNC));
    if (*n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (c->far && *n > 0) {
        c->got += (size_t)*n;
        if (c->got < sizeof c->request)
            return false;
        *n = (ssize_t)sizeof c->request;
        loci_pool_mask(&c->session, false, &c->request.address);
    }
    c->got = 0;
    return true;
}

static void hear(struct loci_agent_client *c)
{
    const char *wrong;
    ssize_t n;

    if (!receive(c, &n))
        return;
    if (n <= 0) {
        c->gone = true;
        return;
    }
    wrong = what_is_wrong(c, &c->request, n);
    if (wrong == NULL) {
        serve(c, &c->request);
        return;
    }
    atomic_fetch_add(&c->agent->refused, 1);
    LOCI_LOG(c->agent->rt, LOCO_LOG_INFO, "pool %s: a connection is closed, for it sent %s",
             c->agent->pool, wrong);
    c->gone = true;
}

static void connection_event(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    struct loci_agent_client *c = ((struct watch *)w)->client;

    (void)a;
    if (!c->gone && (events & EPOLLOUT) != 0)
        send_rest(c);
    if (!c->gone && (events & ~(uint32_t)EPOLLOUT) != 0)
        hear(c);
}

/* Of a process that has ended there is nothing more to hear. */
static void process_event(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    (void)a;
    (void)events;
    ((struct watch *)w)->client->gone = true;
}

/* ---- connections ---- */

int loci_agent_watch(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = w };

    return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, w->fd, &event) == 0 ? 0 : errno;
}

void loci_agent_add_client(struct loco_agent *a, int fd, const struct loci_pool_session *session)
{
    struct loci_agent_client *c = calloc(1, sizeof *c);

    if (c != NULL) {
        *c = (struct loci_agent_client){ .agent = a, .place = -1, .far = session != NULL,
                                         .connection = { { connection_event, fd }, c },
                                         .process = { { process_event, -1 }, c } };
        if (session != NULL)
            c->session = *session;
    }
    if (c == NULL || (session == NULL && !loci_pool_is_own(fd))
        || loci_agent_watch(a, &c->connection.watch, EPOLLIN) != 0) {
        atomic_fetch_add(&a->refused, 1);
        close(fd);
        free(c);
        return;
    }
    c->number = ++a->connections;
    c->next = a->clients;
    a->clients = c;
}

/* While it waits, the socket is ready all the time: so it is not looked at. */
static void accept_from(struct loco_agent *a, bool accept)
{
    struct epoll_event event = { .events = accept ? EPOLLIN : 0, .data.ptr = &a->listen_fd };

    (void)epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, a->listen_fd, &event);
    loci_agent_net_accept(a, accept);
    a->pause = accept ? 0 : loci_now(a->rt) + INT64_C(1000000) * TICK_MS;
}

void loci_agent_accept_failed(struct loco_agent *a, int error)
{
    if (error != EMFILE && error != ENFILE)
        return;
    if (loci_log_seldom(&a->no_descriptors, loci_now(a->rt)) > 0)
        loci_descriptor_missing(a->rt, "a process that comes to the pool waits");
    accept_from(a, false);
}

static void accept_all(struct loco_agent *a)
{
    int fd;

    while ((fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        loci_agent_add_client(a, fd, NULL);
    loci_agent_accept_failed(a, errno);
}

static void drop_client(struct loci_agent_client *c)
{
    leave_place(c);
    if (c->process.watch.fd >= 0)
        close(c->process.watch.fd);
    close(c->connection.watch.fd);
    free(c);
}

static void drop_gone(struct loco_agent *a, bool all)
{
    struct loci_agent_client **at = &a->clients, *c;

    while ((c = *at) != NULL) {
        if (!c->gone && !all) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        drop_client(c);
    }
}

static bool stops(struct loco_agent *a)
{
    bool stops;

    pthread_mutex_lock(&a->lock);
    stops = a->stops;
    pthread_mutex_unlock(&a->lock);
    return stops;
}

static void handle(struct loco_agent *a, const struct epoll_event *event)
{
    struct loci_agent_watch *w = event->data.ptr;
    uint64_t rings;

    if (event->data.ptr == &a->listen_fd)
        accept_all(a);
    else if (event->data.ptr == &a->event_fd)
        (void)!read(a->event_fd, &rings, sizeof rings);
    else
        w->event(a, w, event->events);
}

/* What other machines need now and then. */
static void look_at_others(struct loco_agent *a)
{
    loci_agent_take_dialled(a);
    loci_agent_revoke(a);
    if (loci_now(a->rt) - a->ticked > INT64_C(1000000) * TICK_MS) {
        loci_agent_net_tick(a);
        loci_agent_links_tick(a);
        loci_agent_choose_dial(a);
    }
    loci_agent_drop_links(a, false);
}

static void run(void *arg)
{
    struct loco_agent *a = arg;
    struct epoll_event event[EVENTS];

    while (!stops(a)) {
        /* Callers are freed by what others' events do, so theirs come one at a time. */
        int n = epoll_wait(a->epoll_fd, event, a->several ? 1 : EVENTS,
                           a->several || a->pause != 0 ? TICK_MS : -1);

        for (int i = 0; i < n; i++)
            handle(a, &event[i]);
        take_back(a);
        if (a->ports != NULL)
            loci_agent_see_off(a);
        if (a->several)
            look_at_others(a);
        drop_gone(a, false);
        if (a->pause != 0 && loci_now(a->rt) >= a->pause)
            accept_from(a, true);
    }
    loci_directory_leave(&a->directory);
    loci_agent_drop_links(a, true);
    drop_gone(a, true);
}

/* ---- life ---- */

/* Later than the agent before this one, whose time is in the file, wherever the clock has gone. */
static void be_born(struct loco_agent *a)
{
    struct timespec now;
    uint64_t last = 0;

    clock_gettime(CLOCK_REALTIME, &now);
    a->born = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    if (pread(a->lock_fd, &last, sizeof last, 0) == (ssize_t)sizeof last && last >= a->born)
        a->born = last + 1;
    (void)!pwrite(a->lock_fd, &a->born, sizeof a->born, 0);
}

/* Who has the lock is the agent, for as long as it lives; a socket that lies there is of one that
 * has gone. */
static int be_the_one(struct loco_agent *a)
{
    a->lock_fd = open(a->path.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->lock_fd < 0)
        return loci_mistake(a->rt, LOCO_ERR_SYSTEM, call, a->pool, "%s: %s", a->path.lock,
                            strerror(errno));
    if (flock(a->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return loci_mistake(a->rt, LOCO_ERR_NAME, call, a->pool,
                            "an agent of this pool runs already: loco-agent status --pool %s",
                            a->pool);
    (void)unlink(a->path.socket);
    be_born(a);
    (void)!ftruncate(a->lock_fd, sizeof a->born);   /* the sign is of the one before */
    return LOCO_OK;
}

static int listen_there(struct loco_agent *a)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    struct epoll_event listening = { .events = EPOLLIN, .data.ptr = &a->listen_fd };
    struct epoll_event waking = { .events = EPOLLIN, .data.ptr = &a->event_fd };

    memcpy(name.sun_path, a->path.socket, strlen(a->path.socket));
    a->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    a->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->listen_fd < 0 || a->epoll_fd < 0 || a->event_fd < 0
        || bind(a->listen_fd, (const struct sockaddr *)&name, sizeof name) != 0
        || chmod(a->path.socket, 0600) != 0 || listen(a->listen_fd, BACKLOG) != 0
        || epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, a->listen_fd, &listening) != 0
        || epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, a->event_fd, &waking) != 0)
        return loci_mistake(a->rt, LOCO_ERR_SYSTEM, call, a->pool, "the socket %s: %s",
                            a->path.socket, strerror(errno));
    return LOCO_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_agent(struct loco_agent *a)
{
    if (a->listen_fd >= 0)
        (void)unlink(a->path.socket);
    close_fd(a->listen_fd);
    close_fd(a->epoll_fd);
    loci_agent_ports_close(a);
    close_fd(a->event_fd);
    loci_agent_net_close(a);
    loci_agent_free_stores(a);
    loci_agent_directory_close(a);
    loci_leases_close(a->leases);
    if (a->table.key.kind != LOCI_MEM_NONE)
        loci_free(a->rt, &a->table);
    close_fd(a->lock_fd);               /* last: the next agent may come now */
    pthread_mutex_destroy(&a->lock);
    free(a->seat);
    free(a);
}

static int open_to_others(struct loco_agent *a)
{
    int status = loci_pool_secret(a->rt, call, a->pool, a->secret_file, a->secret);

    return status == LOCO_OK ? loci_agent_net_open(a) : status;
}

/* A pool that refuses this machine is told of by who starts the agent; one that does not answer may
 * be about to start. */
static int join_first(struct loco_agent *a)
{
    struct loci_pool_session session;
    int fd, status = loci_agent_dial_join(a, LOCO_LOG_WARN, &session, &fd);

    if (status == LOCO_ERR_PEER_DEAD) {
        LOCI_LOG(a->rt, LOCO_LOG_WARN, "pool %s: nobody answers at %s yet; it is tried again",
                 a->pool, a->join);
        return LOCO_OK;
    }
    if (status != LOCO_OK)
        return status;
    pthread_mutex_lock(&a->lock);
    a->joins_itself = fd < 0;
    if (fd >= 0)
        a->dial = (struct loci_agent_dial){ .state = LOCI_DIAL_OVER, .fd = fd,
                                            .session = session };
    pthread_mutex_unlock(&a->lock);
    return LOCO_OK;
}

/* Who finds none asks. */
static void put_sign(struct loco_agent *a)
{
    struct loci_pool_reply hello = { .several = a->several };

    tell_fabric(a, &hello);
    (void)loci_pool_put_sign(a->lock_fd, &hello);
}

static int open_agent(struct loco_agent *a)
{
    int status = loci_pool_path(a->rt, call, a->pool, true, &a->path);

    if (status == LOCO_OK)
        status = be_the_one(a);
    if (status == LOCO_OK)
        status = loci_alloc(a->rt, LOCI_CATALOG_BYTES, 0, &a->table);
    if (status == LOCO_OK)
        status = loci_leases_open(a->rt, LOCI_CATALOG_RECORDS, a->places, &a->leases);
    if (status != LOCO_OK)
        return status;
    status = listen_there(a);
    if (status == LOCO_OK && a->several)
        status = open_to_others(a);
    loci_agent_directory_open(a);
    if (status == LOCO_OK)
        status = loci_agent_ports_open(a, !a->several ? 0 : a->goers_most);
    if (status == LOCO_OK)
        put_sign(a);
    return status;
}

static void end_dials(struct loco_agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->stops = true;
    pthread_mutex_unlock(&a->lock);
    loci_agent_dials_close(a);
}

int loco_agent_start(loco_runtime_t *rt, const loco_agent_options_t *o, loco_agent_t **out)
{
    struct loco_agent *a;
    int status;

    if (rt == NULL || o == NULL || out == NULL)
        return loci_null_arg(rt, call, NULL, rt == NULL ? "rt" : o == NULL ? "options" : "agent");
    if (o->places < 0 || o->places > LOCI_AGENT_PLACES_MOST)
        return loci_bad_arg(rt, call, o->pool, "places", o->places, "1 to %d, or 0",
                            LOCI_AGENT_PLACES_MOST);
    if (o->join != NULL && !rt->ops->spans)
        return loci_mistake(rt, LOCO_ERR_UNSUPPORTED, call, o->pool, "a pool of several machines "
                            "needs a fabric that reaches them, and this process has %s: "
                            "LOCO_FABRIC=tcp", rt->ops->name);
    if (o->ports < -1 || o->ports > LOCI_AGENT_PLACES_MOST)
        return loci_bad_arg(rt, call, o->pool, "ports", o->ports, "1 to %d, 0 or -1",
                            LOCI_AGENT_PLACES_MOST);
    if (o->port < 0 || o->port > 65535)
        return loci_bad_arg(rt, call, o->pool, "port", o->port, "1 to 65535, or 0");
    if (o->pool != NULL && strlen(o->pool) >= LOCO_POOL_NAME_MAX)
        return loci_mistake(rt, LOCO_ERR_NAME, call, NULL, "a pool's name has at most %d bytes",
                            LOCO_POOL_NAME_MAX - 1);
    if (o->join != NULL && strlen(o->join) >= sizeof a->join)
        return loci_bad_arg(rt, call, o->pool, "bytes of join", (long long)strlen(o->join),
                            "at most %zu", sizeof a->join - 1);
    a = calloc(1, sizeof *a);
    if (a == NULL)
        return LOCO_ERR_NO_MEMORY;
    a->rt = rt;
    a->several = o->join != NULL;
    a->secret_file = o->secret;
    a->dial.fd = -1;
    snprintf(a->join, sizeof a->join, "%s", o->join == NULL ? "" : o->join);
    a->port = o->port != 0 ? o->port : (int)loci_pool_port(o->pool == NULL ? "" : o->pool);
    a->lock_fd = a->listen_fd = a->epoll_fd = a->event_fd = -1;
    a->memory = o->memory;
    a->places = o->places == 0 ? LOCI_AGENT_PLACES : o->places;
    a->goers_most = o->ports < 0 ? 0 : o->ports != 0 ? o->ports
                    : a->places < LOCI_AGENT_GOERS ? a->places : LOCI_AGENT_GOERS;
    snprintf(a->pool, sizeof a->pool, "%s", o->pool == NULL ? "" : o->pool);
    pthread_mutex_init(&a->lock, NULL);
    a->seat = calloc((size_t)a->places, sizeof *a->seat);
    status = a->seat == NULL ? LOCO_ERR_NO_MEMORY : open_agent(a);
    if (status != LOCO_OK) {
        free_agent(a);
        return status;
    }
    status = a->several ? join_first(a) : LOCO_OK;
    if (status != LOCO_OK) {
        if (a->dial.fd >= 0)
            close(a->dial.fd);
        free_agent(a);
        return status;
    }
    loci_errands_open(&a->errands, rt, "loco-pool");
    status = a->several ? loci_agent_dials_open(a) : LOCO_OK;
    if (status == LOCO_OK)
        status = loci_worker_start(rt, "loco-agent", run, a, &a->worker);
    if (status != LOCO_OK) {
        end_dials(a);
        loci_errands_close(&a->errands);
        free_agent(a);
        return status;
    }
    *out = a;
    return LOCO_OK;
}

void loco_agent_stop(loco_agent_t *a)
{
    struct loci_agent_job *job;

    if (a == NULL)
        return;
    end_dials(a);
    loci_agent_wake(a);
    loci_worker_join(a->worker);
    loci_errands_stop(&a->errands);
    loci_errands_close(&a->errands);
    while ((job = a->done) != NULL) {
        a->done = job->next;
        free(job);
    }
    free_agent(a);
}

void loco_agent_stats(loco_agent_t *a, loco_agent_stats_t *stats)
{
    fill_stats(a, stats);
}

void loci_agent_on_stop(loco_agent_t *a, void (*asked)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&a->lock);
    a->asked_to_stop = asked;
    a->stop_ctx = ctx;
    pthread_mutex_unlock(&a->lock);
}
