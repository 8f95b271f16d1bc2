/* SPDX-License-Identifier: BSD-3-Clause */

/* An agent's links to the agents of other machines: they carry the directory's news
 * (pool_directory.h).
 *
 * A thread of its own dials, since that blocks. Of two agents that know of each other that of the
 * lower machine dials, again and again while there is no link, and the other one too if that goes
 * on for long; who joins a pool dials the machine that it was told of. Where two links come about,
 * the one that the lower machine has dialled stays: to the directory the other one breaks then, for
 * what was on its way there may be lost. A link from which nothing is heard for LOCO_PEER_TIMEOUT
 * is broken, unless this process did not run itself. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "names/interfaces.h"
#include "runtime.h"
#include "threads/worker.h"
#include "wait.h"

#define SECOND INT64_C(1000000000)
#define OUT_MOST ((size_t)64 << 20)     /* bytes that a link may be behind */
#define REST_NS 200000000               /* between two rounds of dialling */
#define LONG (UINT64_C(10) * SECOND)    /* after which the higher machine dials, too */
#define HEARSAY (60 * SECOND)           /* that was not confirmed for so long is dropped */

struct loci_agent_link {
    struct loci_agent_watch watch;      /* first */
    struct loci_agent_link *next;
    int agent;                          /* its place in the directory's list; -1: not yet known */
    bool dialled, over;
    struct loci_pool_session session;
    struct loci_news in;
    size_t got;
    unsigned char *out;
    size_t out_len, out_size;
    int64_t heard_at, said_at;
};

/* ---- sending ---- */

static void want(struct loco_agent *a, struct loci_agent_link *l)
{
    struct epoll_event event = { .events = EPOLLIN | (l->out_len > 0 ? EPOLLOUT : 0),
                                 .data.ptr = l };

    (void)epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, l->watch.fd, &event);
}

static void flush(struct loco_agent *a, struct loci_agent_link *l)
{
    size_t sent = 0;

    while (sent < l->out_len && !l->over) {
        ssize_t n = send(l->watch.fd, l->out + sent, l->out_len - sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            sent += (size_t)n;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            l->over = true;
    }
    memmove(l->out, l->out + sent, l->out_len - sent);
    l->out_len -= sent;
    want(a, l);
}

static void post(struct loco_agent *a, struct loci_agent_link *l, const struct loci_news *news)
{
    size_t size = l->out_size == 0 ? 4 * sizeof *news : 2 * l->out_size;

    if (l->over)
        return;
    if (l->out_len + sizeof *news > l->out_size) {
        unsigned char *out = size <= OUT_MOST ? realloc(l->out, size) : NULL;

        if (out == NULL) {
            l->over = true;
            return;
        }
        l->out = out;
        l->out_size = size;
    }
    memcpy(l->out + l->out_len, news, sizeof *news);
    if (news->type == LOCI_NEWS_WAY)
        loci_pool_mask(&l->session, !l->dialled,
                       &((struct loci_news *)(void *)(l->out + l->out_len))->address);
    l->out_len += sizeof *news;
    l->said_at = loci_now(a->rt);
    flush(a, l);
}

void loci_agent_send_news(void *ctx, int agent, const struct loci_news *news)
{
    struct loco_agent *a = ctx;

    for (struct loci_agent_link *l = a->links; l != NULL; l = l->next)
        if (l->agent == agent && !l->over)
            post(a, l, news);
}

static struct loci_news own_news(struct loco_agent *a, enum loci_news_type type)
{
    return (struct loci_news){ .magic = LOCI_NEWS_MAGIC, .version = LOCI_NEWS_VERSION,
                               .type = (uint32_t)type, .agent = a->directory.agent[0] };
}

/* ---- hearing ---- */

static const char *name_of(const struct loco_agent *a, const struct loci_agent_link *l)
{
    return l->agent < 0 ? "that it does not know yet" : a->directory.agent[l->agent].machine;
}

/* Whether the link stays, of two with that agent. */
static bool is_preferred(const struct loco_agent *a, const struct loci_agent_link *l,
                         uint64_t node)
{
    return l->dialled == (a->directory.agent[0].node < node);
}

/* To the directory the link breaks and comes up again: what is on its way by another one is lost.
 * Links are only marked here; loci_agent_drop_links() alone takes them off the list. */
static bool outdoes_others(struct loco_agent *a, struct loci_agent_link *mine, int agent,
                           uint64_t node)
{
    bool others = false;

    for (struct loci_agent_link *l = a->links; l != NULL; l = l->next) {
        if (l == mine || l->agent != agent || l->over)
            continue;
        if (!is_preferred(a, mine, node))
            return false;
        l->over = others = true;
        l->agent = -1;
    }
    if (others) {
        loci_agent_way_down(a, agent, LOCI_WAY_REPLACED);
        loci_directory_down(&a->directory, agent);
    }
    return true;
}

static void hear_hello(struct loco_agent *a, struct loci_agent_link *l)
{
    const struct loci_agent_record *it = &l->in.agent;
    int agent;

    if (it->identity == a->directory.agent[0].identity) {
        a->joins_itself = true;
        l->over = true;
        return;
    }
    if (it->carrier != a->directory.agent[0].carrier) {
        LOCI_LOG(a->rt, LOCO_LOG_ERROR, "pool %s: the agent of %.60s moves data by another fabric "
                 "than this one (%s): set LOCO_FABRIC to the same everywhere", a->pool,
                 it->machine, a->rt->ops->name);
        l->over = true;
        return;
    }
    agent = loci_directory_meet(&a->directory, it);
    if (agent < 0) {
        LOCI_LOG(a->rt, LOCO_LOG_ERROR, "pool %s: the agent of %.60s is refused: %s", a->pool,
                 it->machine, agent == LOCO_ERR_FULL ? "there are as many agents as there may be"
                 : "there is an agent on that machine, or on one that counts as it (LOCO_NODE)");
        l->over = true;
        return;
    }
    if (!outdoes_others(a, l, agent, it->node)) {
        l->over = true;
        return;
    }
    l->agent = agent;
    LOCI_LOG(a->rt, LOCO_LOG_INFO, "pool %s: the agent of %s is here", a->pool, name_of(a, l));
    loci_directory_up(&a->directory, agent);
    loci_agent_way_up(a, agent);
}

/* Of an agent that has said who it is. */
static int hear_from(struct loco_agent *a, struct loci_agent_link *l)
{
    if (l->in.type == LOCI_NEWS_WAY)
        loci_pool_mask(&l->session, l->dialled, &l->in.address);
    if (l->in.type == LOCI_NEWS_LEAVE)
        loci_agent_way_down(a, l->agent, LOCI_WAY_LEFT);
    return loci_agent_ports_hear(a, l->agent, &l->in) ? LOCO_OK
           : loci_directory_hear(&a->directory, l->agent, &l->in);
}

static void hear_news(struct loco_agent *a, struct loci_agent_link *l)
{
    const struct loci_news *news = &l->in;
    bool leaves = news->type == LOCI_NEWS_LEAVE && l->agent >= 0;
    int status = LOCO_OK;

    if (news->magic != LOCI_NEWS_MAGIC || news->version != LOCI_NEWS_VERSION)
        status = LOCO_ERR_PROTOCOL;
    else if (news->type == LOCI_NEWS_HELLO && l->agent < 0)
        hear_hello(a, l);
    else if (news->type != LOCI_NEWS_PING)
        status = l->agent < 0 ? LOCO_ERR_PROTOCOL : hear_from(a, l);
    if (status != LOCO_OK)
        LOCI_LOG(a->rt, LOCO_LOG_ERROR, "pool %s: the agent of %s sent what makes no sense",
                 a->pool, name_of(a, l));
    if (leaves)
        l->agent = -1;                  /* the directory has forgotten it */
    l->over = l->over || leaves || status != LOCO_OK;
}

static void hear(struct loco_agent *a, struct loci_agent_link *l)
{
    while (!l->over) {
        ssize_t n = recv(l->watch.fd, (char *)&l->in + l->got, sizeof l->in - l->got,
                         MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            l->over = true;
            return;
        }
        l->heard_at = loci_now(a->rt);
        l->got += (size_t)n;
        if (l->got < sizeof l->in)
            continue;
        l->got = 0;
        hear_news(a, l);
    }
}

static void link_event(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    struct loci_agent_link *l = (struct loci_agent_link *)w;

    if (!l->over && (events & EPOLLOUT) != 0)
        flush(a, l);
    hear(a, l);
}

/* ---- life of a link ---- */

void loci_agent_add_link(struct loco_agent *a, int fd, bool dialled,
                         const struct loci_pool_session *session)
{
    struct loci_agent_link *l = calloc(1, sizeof *l);
    struct loci_news hello = own_news(a, LOCI_NEWS_HELLO);

    if (l == NULL) {
        close(fd);
        return;
    }
    l->watch = (struct loci_agent_watch){ link_event, fd };
    l->agent = -1;
    l->dialled = dialled;
    l->session = *session;
    l->heard_at = loci_now(a->rt);
    l->next = a->links;
    a->links = l;
    l->over = loci_agent_watch(a, &l->watch, EPOLLIN) != 0;
    post(a, l, &hello);
}

void loci_agent_drop_links(struct loco_agent *a, bool all)
{
    struct loci_agent_link **at = &a->links, *l;

    while ((l = *at) != NULL) {
        if (!l->over && !all) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        close(l->watch.fd);
        if (l->agent >= 0 && !all) {
            LOCI_LOG(a->rt, LOCO_LOG_WARN, "pool %s: the agent of %s is lost: stores that it has "
                     "cannot be used until it is back", a->pool, name_of(a, l));
            loci_agent_way_down(a, l->agent, LOCI_WAY_LOST);
            loci_directory_down(&a->directory, l->agent);
        }
        free(l->out);
        free(l);
        at = &a->links;                 /* what is sent on the way may end others */
    }
}

void loci_agent_links_tick(struct loco_agent *a)
{
    int64_t now = loci_now(a->rt), limit = a->rt->tunables.peer_timeout;
    const struct loci_news ping = own_news(a, LOCI_NEWS_PING);
    bool slept = now - a->ticked > 3 * SECOND;

    a->ticked = now;
    if (now - a->reminded > SECOND) {
        a->reminded = now;
        loci_directory_remind(&a->directory);
        if (now > HEARSAY)
            loci_directory_doubt(&a->directory, (uint64_t)(now - HEARSAY));
    }
    for (struct loci_agent_link *l = a->links; l != NULL; l = l->next) {
        if (slept)
            l->heard_at = now;
        if (now - l->said_at > SECOND)
            post(a, l, &ping);
        if (limit != LOCI_INFINITE && now - l->heard_at > limit)
            l->over = true;
        if (l->agent >= 0 && !l->over && !loci_agent_way_tick(a, l->agent))
            l->over = true;
    }
}

/* ---- dialling ---- */

/* First thread: whom to dial next, if nobody is dialled now. */
static bool wants_agent(struct loco_agent *a, struct loci_agent_record *record)
{
    struct loci_directory *d = &a->directory;
    uint64_t now = (uint64_t)loci_now(a->rt);

    for (int i = 0; i < LOCI_AGENTS_MAX; i++) {
        int at = (int)((a->dials + (uint64_t)i) % LOCI_AGENTS_MAX);

        if ((d->agent[at].state != LOCI_AGENT_LOST && d->agent[at].state != LOCI_AGENT_HEARD)
            || (d->agent[at].node < d->agent[0].node && now - d->agent[at].since < LONG))
            continue;
        a->dials = (uint64_t)at + 1;
        *record = d->heard[at];
        return true;
    }
    return false;
}

void loci_agent_choose_dial(struct loco_agent *a)
{
    struct loci_agent_record record = { .identity = 0 };
    bool any = wants_agent(a, &record)
               || (a->directory.up == 0 && !a->joins_itself && a->join[0] != '\0');

    if (!any)
        return;
    pthread_mutex_lock(&a->lock);
    if (a->dial.state == LOCI_DIAL_NONE) {
        a->dial.state = LOCI_DIAL_WANTED;
        a->dial.record = record;
    }
    pthread_mutex_unlock(&a->lock);
}

static bool is_same_address(const struct loci_tcp_place *a, const struct loci_tcp_place *b)
{
    return memcmp(a->address, b->address, sizeof a->address) == 0;
}

static bool listens_inside(const struct loco_agent *a)
{
    bool inside = false;

    for (int i = 0; i < LOCI_TCP_PLACES; i++)
        inside = inside || (a->place[i].port != 0 && loci_tcp_place_is_inside(&a->place[i]));
    return inside;
}

/* Whether this agent is the one at that place. On its own machine the name of a machine may lead to
 * loopback, where an agent that others reach does not listen. */
static bool is_here(const struct loco_agent *a, const struct loci_tcp_place *place)
{
    for (int i = 0; i < LOCI_TCP_PLACES; i++)
        if (is_same_address(place, &a->place[i]) && place->port == a->place[i].port)
            return true;
    return place->port == a->place[0].port && loci_tcp_place_is_inside(place)
           && !listens_inside(a);
}

int loci_agent_dial_join(struct loco_agent *a, int level, struct loci_pool_session *session,
                         int *fd)
{
    struct loci_tcp_place place[LOCI_TCP_PLACES];
    int n = loci_pool_resolve(a->rt, a->join, (unsigned)a->port, place);

    if (n < 0)
        return n;
    for (int i = 0; i < n; i++)
        if (is_here(a, &place[i])) {
            if (loci_tcp_place_is_inside(&place[i]) && !listens_inside(a))
                LOCI_LOG(a->rt, level, "pool %s: %s is this machine alone, by loopback: others "
                         "join it by another name or address", a->pool, a->join);
            *fd = -1;                   /* it is the first of its pool */
            return LOCO_OK;
        }
    loci_pool_session(session, a->pool, a->secret);
    *fd = loci_pool_dial(a->rt, level, place, n, LOCI_POOL_AGENT, session);
    return *fd < 0 ? *fd : LOCO_OK;
}

static int dial(struct loco_agent *a, const struct loci_agent_record *record,
                struct loci_pool_session *session)
{
    int fd;

    if (record->identity == 0)
        return loci_agent_dial_join(a, LOCO_LOG_INFO, session, &fd) == LOCO_OK ? fd : -1;
    loci_pool_session(session, a->pool, a->secret);
    return loci_pool_dial(a->rt, LOCO_LOG_DEBUG, record->place, LOCI_TCP_PLACES, LOCI_POOL_AGENT,
                          session);
}

static void dial_thread(void *arg)
{
    struct loco_agent *a = arg;
    bool stops = false;

    while (!stops) {
        struct loci_agent_record record;
        struct loci_pool_session session;
        bool wanted;
        int fd = -1;

        pthread_mutex_lock(&a->lock);
        stops = a->stops;
        wanted = a->dial.state == LOCI_DIAL_WANTED;
        record = a->dial.record;
        pthread_mutex_unlock(&a->lock);
        if (wanted && !stops) {
            fd = dial(a, &record, &session);
            pthread_mutex_lock(&a->lock);
            a->dial.state = LOCI_DIAL_OVER;
            a->dial.fd = fd;
            if (fd >= 0)
                a->dial.session = session;
            pthread_mutex_unlock(&a->lock);
            loci_agent_wake(a);
        }
        if (fd < 0)
            nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
    }
}

void loci_agent_take_dialled(struct loco_agent *a)
{
    struct loci_pool_session session;
    int fd = -1;

    pthread_mutex_lock(&a->lock);
    if (a->dial.state == LOCI_DIAL_OVER) {
        fd = a->dial.fd;
        session = a->dial.session;
        a->dial.state = LOCI_DIAL_NONE;
        a->dial.fd = -1;
    }
    pthread_mutex_unlock(&a->lock);
    if (fd >= 0)
        loci_agent_add_link(a, fd, true, &session);
}

int loci_agent_dials_open(struct loco_agent *a)
{
    return loci_worker_start(a->rt, "loco-pool-dial", dial_thread, a, &a->dialler);
}

void loci_agent_dials_close(struct loco_agent *a)
{
    if (a->dialler != NULL)
        loci_worker_join(a->dialler);
    if (a->dial.fd >= 0)
        close(a->dial.fd);
}
