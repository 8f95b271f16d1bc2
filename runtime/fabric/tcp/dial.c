/* SPDX-License-Identifier: BSD-3-Clause */

/* Which connections are made, and when.
 *
 * Of two processes the one with the lower identity dials, for the link as soon as both have met,
 * for data when one of the two wants to: the other asks it to by a message over the link. It tries
 * the peer's places in turn, those in a network of ours first; a round that has come to nothing is
 * begun again a second later, until the patience with that peer is over.
 *
 * A question for a data connection says how many its sender has seen, since it may cross one that
 * is being made: who has made more does not answer it. Where a connection broke before the other
 * end had it, the other asks again in so many words. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "descriptor.h"
#include "dial.h"
#include "service.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)
#define DATA_NS (60 * SECOND)       /* for a connection for data to come about, as for links */
#define EVENTS 64                   /* that are handled before others have their turn */
#define PARKED_MANY 4096            /* each has a descriptor */

enum dial_kind {
    DIAL_WANTED = 1,        /* to the one that dials: so many were made that we know of */
    DIAL_BROKEN,            /* the same, of one that broke before we had it */
    DIAL_FAILED             /* from it: it gives up */
};

struct dial_message {
    uint32_t kind;          /* enum dial_kind */
    uint32_t made;
};

static struct tcp_dials *dials_of(const struct tcp_link *l)
{
    return l->link.links->owner;
}

static struct loco_runtime *runtime_of(const struct tcp_link *l)
{
    return l->link.links->rt;
}

static struct tcp_peer *peer_of(const struct tcp_link *l)
{
    return l->link.peer->device_data;
}

static void tell(struct tcp_link *l, enum dial_kind kind)
{
    const struct dial_message m = { .kind = kind, .made = l->made };

    loci_link_send(&l->link, LINK_DEVICE, &m, sizeof m);    /* or it has gone */
}

/* ---- rounds ---- */

static bool is_near(const struct loco_runtime *rt, const struct loci_tcp_place *place)
{
    for (int i = 0; i < LOCI_TCP_PLACES && rt->address.tcp[i].port != 0; i++)
        if (loci_tcp_is_near(&rt->address.tcp[i], place))
            return true;
    return false;
}

static void order_places(struct tcp_link *l)
{
    const struct loci_tcp_place *places = l->link.peer->address.tcp;

    l->places = 0;
    for (int near = 1; near >= 0; near--)
        for (unsigned i = 0; i < LOCI_TCP_PLACES && places[i].port != 0; i++)
            if (is_near(runtime_of(l), &places[i]) == (near == 1))
                l->order[l->places++] = (uint8_t)i;
}

static const char *error_text(int error)
{
    return error == TCP_SILENT ? "it does not answer"
           : error == TCP_STRANGER ? "somebody else is there, or it refuses" : strerror(error);
}

static bool is_refused_everywhere(const struct tcp_link *l)
{
    for (unsigned i = 0; i < l->places; i++)
        if (l->error[l->order[i]] != ECONNREFUSED)
            return false;
    return l->places > 0;
}

/* A round has come to nothing; the next tick begins another. Its port was there before we were told
 * of it, so where machines answer that it is not, the process is not there any more. */
static void none_left(struct tcp_link *l, enum loci_purpose purpose)
{
    if (purpose == LOCI_CALL_DATA)
        return;
    l->link.state = LINK_NEW;
    if (is_refused_everywhere(l))
        loci_link_ended(&l->link, "its process has ended, or a firewall refuses its port");
}

static void note(struct tcp_link *l, unsigned place, int error)
{
    char text[TCP_PLACE_TEXT];

    l->error[place] = error;
    loci_tcp_place_text(&l->link.peer->address.tcp[place], text);
    LOCI_LOG(runtime_of(l), LOCO_LOG_DEBUG, "connecting to process %016llx at %s: %s",
             (unsigned long long)l->link.peer->address.identity, text, error_text(error));
}

static void try_next(struct tcp_link *l, enum loci_purpose purpose)
{
    struct tcp_try *t = purpose == LOCI_CALL_DATA ? &l->data : &l->meeting;

    while (t->next < l->places) {
        unsigned i = l->order[t->next++];

        t->call = loci_tcp_call(l, purpose, &l->link.peer->address.tcp[i]);
        if (t->call != NULL)
            return;
        note(l, i, errno);
    }
    none_left(l, purpose);
}

/* That place was right: it comes first from now on. */
static void prefer(struct tcp_link *l, unsigned place)
{
    uint8_t it = l->order[place];

    memmove(l->order + 1, l->order, place * sizeof l->order[0]);
    l->order[0] = it;
}

/* ---- connections for data ---- */

static void begin_data(struct tcp_link *l)
{
    if (!loci_link_calls(&l->link)) {
        tell(l, DIAL_WANTED);
    } else if (l->data.call == NULL) {
        l->data.next = 0;
        try_next(l, LOCI_CALL_DATA);
    }
}

static void want_data(struct tcp_link *l)
{
    if (l->wanted || l->link.state == LINK_ENDED)
        return;
    l->wanted = true;
    l->wanted_until = loci_now(runtime_of(l)) + DATA_NS;
    if (l->link.state == LINK_READY)
        begin_data(l);
}

static void give_up_data(struct tcp_link *l, const char *why)
{
    struct tcp_fabric *f = dials_of(l)->fabric;

    l->wanted = false;
    if (l->data.call != NULL)
        loci_tcp_call_drop(l->data.call);
    f->not_taken(f, peer_of(l), why);
}

static void look_at_data(struct tcp_link *l)
{
    if (!l->wanted)
        return;
    if (loci_now(runtime_of(l)) > l->wanted_until) {
        if (loci_link_calls(&l->link))
            tell(l, DIAL_FAILED);
        give_up_data(l, "no connection for data has come about");
    } else if (loci_link_calls(&l->link)) {
        begin_data(l);
    }
}

static void data_connected(struct tcp_link *l, int fd)
{
    struct tcp_fabric *f = dials_of(l)->fabric;

    l->made++;
    l->wanted = false;
    f->taken(f, peer_of(l), fd);
    /* Who asked for one before has got it. */
    atomic_store_explicit(&l->wants, false, memory_order_relaxed);
}

void loci_tcp_dial(struct tcp_fabric *f, struct loci_peer *peer, enum loci_purpose purpose)
{
    struct tcp_peer *p = peer->device_data;

    (void)f;
    if (purpose != LOCI_CALL_DATA)
        return;             /* links dial of themselves */
    /* The queue's lock, in loci_link_attend(), has the service thread see it. */
    atomic_store_explicit(&tcp_link_of(p->link)->wants, true, memory_order_relaxed);
    loci_link_attend(p->link);
}

static void attend(struct loci_link *link)
{
    struct tcp_link *l = tcp_link_of(link);

    if (atomic_exchange_explicit(&l->wants, false, memory_order_relaxed))
        want_data(l);
}

static void makes_no_sense(struct tcp_link *l, const char *what)
{
    l->deaf = true;
    LOCI_LOG(runtime_of(l), LOCO_LOG_ERROR, "process %016llx (pid %d) has sent a wrong question "
             "for a connection: %s", (unsigned long long)l->link.peer->address.identity,
             (int)l->link.peer->address.pid, what);
    loci_link_fail(&l->link, "it sent what makes no sense");
}

static void receive(struct loci_link *link, const void *message, size_t len)
{
    struct tcp_link *l = tcp_link_of(link);
    bool dials = loci_link_calls(link);
    struct dial_message m;

    if (len != sizeof m) {
        makes_no_sense(l, "wrong length");
        return;
    }
    memcpy(&m, message, sizeof m);
    if (dials && m.kind == DIAL_WANTED && m.made <= l->made) {
        if (m.made == l->made)
            want_data(l);
    } else if (dials && m.kind == DIAL_BROKEN) {
        want_data(l);
    } else if (!dials && m.kind == DIAL_FAILED) {
        if (l->wanted)
            give_up_data(l, "the peer cannot connect to this process");
    } else {
        makes_no_sense(l, "unknown kind");
    }
}

/* ---- what comes of calls ---- */

static void link_connected(struct tcp_link *l, int fd)
{
    l->link.state = LINK_READY;
    LOCI_LOG(runtime_of(l), LOCO_LOG_DEBUG, "connected to process %016llx, by %s call",
             (unsigned long long)l->link.peer->address.identity,
             loci_link_calls(&l->link) ? "our" : "its");
    loci_tcp_link_connected(l, fd);
    if (l->wanted) {
        l->wanted_until = loci_now(runtime_of(l)) + DATA_NS;
        begin_data(l);
    }
}

/* One of the peer's that we have answered. */
static void not_agreed(struct tcp_link *l, enum loci_purpose purpose)
{
    if (purpose == LOCI_CALL_DATA) {
        if (l->wanted)
            tell(l, DIAL_BROKEN);
        return;
    }
    l->link.state = LINK_NEW;
    loci_link_unpark(&l->link);
}

void loci_tcp_dialled(struct tcp_link *l, enum loci_purpose purpose, int fd, int error)
{
    bool ours = loci_link_calls(&l->link);
    struct tcp_try *t = purpose == LOCI_CALL_DATA ? &l->data : &l->meeting;

    if (fd < 0) {
        if (ours) {
            note(l, l->order[t->next - 1], error);
            try_next(l, purpose);
        } else {
            not_agreed(l, purpose);
        }
        return;
    }
    if (ours)
        prefer(l, t->next - 1);
    if (purpose == LOCI_CALL_DATA)
        data_connected(l, fd);
    else
        link_connected(l, fd);
}

/* An earlier call that the caller has given up may still be there. */
static void accept_call(struct loci_link *link, void *call)
{
    struct tcp_link *l = tcp_link_of(link);

    if (l->meeting.call != NULL)
        loci_tcp_call_drop(l->meeting.call);
    link->state = LINK_CONNECTING;
    l->meeting.call = loci_tcp_answer(l, call);
    if (l->meeting.call == NULL)
        link->state = LINK_NEW;
}

static void accept_data(struct tcp_link *l, struct tcp_call *call)
{
    if (l->data.call != NULL)
        loci_tcp_call_drop(l->data.call);
    l->data.call = loci_tcp_answer(l, call);
}

void loci_tcp_proven(struct tcp_dials *d, struct tcp_call *call, uint64_t from, uint64_t label)
{
    struct loci_link *l = loci_link_find(&d->links, from, label);
    bool data = call->purpose == LOCI_CALL_DATA;

    if (l == NULL && !data)
        loci_link_park(&d->links, from, label, call);
    else if (l != NULL && !data && (l->state == LINK_NEW || l->state == LINK_CONNECTING))
        accept_call(l, call);
    else if (l != NULL && data && (l->state == LINK_CONNECTING || l->state == LINK_READY))
        accept_data(tcp_link_of(l), call);
    else
        loci_tcp_call_drop(call);
}

/* ---- the links' back end ---- */

static void connect_link(struct loci_link *link)
{
    struct tcp_link *l = tcp_link_of(link);

    if (!loci_link_calls(link)) {
        loci_link_unpark(link);
        return;
    }
    order_places(l);
    l->meeting.next = 0;
    link->state = LINK_CONNECTING;
    try_next(l, LOCI_CALL);
}

static void disconnect(struct loci_link *link)
{
    struct tcp_link *l = tcp_link_of(link);

    if (l->meeting.call != NULL)
        loci_tcp_call_drop(l->meeting.call);
    if (l->data.call != NULL)
        loci_tcp_call_drop(l->data.call);
    loci_tcp_link_close(l);
}

static void no_way(struct loci_link *link)
{
    const struct loci_address *it = &link->peer->address;
    struct tcp_link *l = tcp_link_of(link);
    char tried[LOCI_TCP_PLACES * 128] = " it has not called.", at[TCP_PLACE_TEXT];
    size_t len = 0;

    for (unsigned i = 0; i < l->places && len < sizeof tried; i++) {
        loci_tcp_place_text(&it->tcp[l->order[i]], at);
        len += (size_t)snprintf(tried + len, sizeof tried - len, " %s: %s.", at,
                                error_text(l->error[l->order[i]]));
    }
    LOCI_LOG(link->links->rt, LOCO_LOG_ERROR, "no TCP connection to process %016llx (pid %d):%s "
             "Does a firewall let it through (LOCO_TCP_PORTS), and does that network lead to its "
             "machine (LOCO_TCP_IF)?", (unsigned long long)it->identity, (int)it->pid, tried);
}

/* At most so many events. One at a time: what comes of it may end others. */
static void hear_some(struct tcp_dials *d, unsigned most)
{
    struct epoll_event event;

    while (most-- > 0 && epoll_wait(d->epoll_fd, &event, 1, 0) == 1) {
        struct tcp_watch *w = event.data.ptr;

        w->fn(w, event.events);
    }
}

static void hear(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    (void)rt;
    (void)fd;
    (void)events;
    hear_some(ctx, EVENTS);
}

/* The events of so many turns, one for each connection there is. */
static void hear_each(struct tcp_dials *d)
{
    unsigned links;

    pthread_mutex_lock(&d->links.lock);
    links = d->links.count;
    pthread_mutex_unlock(&d->links.lock);
    hear_some(d, links + EVENTS);
}

/* A process that was stopped, or its machine, has heard nothing meanwhile; that is no sign of its
 * peers. Nor is it of them where this thread was kept from the processor: what they have said by
 * now counts, before anything is given up. */
static void tick(struct loci_links *links)
{
    struct tcp_dials *d = links->owner;
    int64_t now = loci_now(links->rt);

    if (now - d->ticked > 3 * SECOND)
        d->awake = now;
    d->ticked = now;
    hear_each(d);
    loci_tcp_calls_tick(d);
    pthread_mutex_lock(&d->lock);
    if (d->ports != NULL)
        loci_tcp_ports_tick(d->ports);
    pthread_mutex_unlock(&d->lock);
}

void loci_tcp_dials_ports(struct tcp_dials *d, struct tcp_ports *ports)
{
    pthread_mutex_lock(&d->lock);
    d->ports = ports;
    pthread_mutex_unlock(&d->lock);
}

static void look(struct loci_link *link, unsigned every)
{
    look_at_data(tcp_link_of(link));
    loci_tcp_link_look(link, every);
}

static void refuse(struct loci_links *links, void *call)
{
    (void)links;
    loci_tcp_call_drop(call);
}

static const struct loci_link_ops ops = {
    .size = sizeof(struct tcp_link), .connect = connect_link, .disconnect = disconnect,
    .pump = loci_tcp_link_pump, .drain = loci_tcp_link_drain, .no_way = no_way, .tick = tick,
    .look = look, .attend = attend, .receive = receive, .accept = accept_call, .refuse = refuse,
    .parked_most = PARKED_MANY,
};

int loci_tcp_link_add(struct tcp_fabric *f, struct loci_peer *peer, struct loci_link **link)
{
    if (peer->address.tcp[0].port != 0)
        return loci_link_add(f->links, peer, link);
    LOCI_LOG(f->rt, LOCO_LOG_ERROR, "process %016llx (pid %d) runs on another machine, and listens "
             "nowhere", (unsigned long long)peer->address.identity, (int)peer->address.pid);
    return LOCO_ERR_UNSUPPORTED;
}

/* ---- life ---- */

static void free_dials(struct tcp_dials *d)
{
    loci_links_fini(&d->links);
    while (d->calls != NULL)
        loci_tcp_call_drop(d->calls);
    close(d->epoll_fd);
    d->fabric->dials = NULL;
    d->fabric->links = NULL;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

int loci_tcp_dials_open(struct tcp_fabric *f)
{
    struct tcp_dials *d = calloc(1, sizeof *d);
    int status;

    if (d == NULL)
        return LOCO_ERR_NO_MEMORY;
    d->fabric = f;
    d->ticked = d->awake = loci_now(f->rt);
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll_fd < 0 || loci_links_init(&d->links, f->rt, &ops, d) != LOCO_OK) {
        loci_descriptor_missing(f->rt, "no descriptors for connections to other machines");
        if (d->epoll_fd >= 0)
            close(d->epoll_fd);
        free(d);
        return LOCO_ERR_SYSTEM;
    }
    pthread_mutex_init(&d->lock, NULL);
    f->dials = d;
    f->links = &d->links;
    status = loci_links_watch(&d->links);
    if (status == LOCO_OK)
        status = loci_service_watch(f->rt, d->epoll_fd, EPOLLIN, hear, d);
    if (status != LOCO_OK)
        loci_tcp_dials_close(f);
    return status;
}

void loci_tcp_dials_close(struct tcp_fabric *f)
{
    struct tcp_dials *d = f->dials;

    if (d == NULL)
        return;
    loci_links_stop(&d->links);     /* who has not called yet may do so meanwhile */
    loci_tcp_ports_close(f);
    loci_service_unwatch(f->rt, d->epoll_fd);       /* from here on no handler runs */
    loci_tcp_links_flush(d);
    free_dials(d);
}
