/* SPDX-License-Identifier: BSD-3-Clause */

/* An agent: ports, by which processes of this machine reach stores of others without a connection
 * of their own (fabric/port/port.h). The first thread's.
 *
 * Agents that have met tell each other how they are reached (WAY), and each has a lane to the other
 * before anybody wants it. A process that opens a store of another machine asks its own agent,
 * which gives it ports (once), asks the other agent for a place in its name (SEAT), and grants
 * it that agent's directory, to be read. Then the process reads there where the store is, and asks
 * for that memory. What it is granted is what the directory here says of a store of that name and
 * number, never what it says itself.
 *
 * The other agent has the process noted (loci_peer_note): it never hears of it but from this agent.
 * LEFT says that it is gone, and comes when nothing is under way of what it had posted. So places
 * of such processes are cleaned up and given away as those of others are.
 *
 * Where one link takes the place of another, what was on its way by that is lost. So each agent
 * says first who has places (KEPT), and then its WAY: a process that was not named has gone.
 *
 * A store that is removed is lent no more (lease.h). A process that goes by ports and does not
 * renew its lease cannot be cut off by the store's agent, which asks its own one to revoke what it
 * has granted of that store (REVOKE): from then on requests are refused there, and when none is
 * under way any more, it says so (REVOKED). It comes behind GONE, so nothing is granted anew.
 *
 * Agents lose each other with their link: then each cuts the other off, so that nothing arrives any
 * more of what was posted by that way. What was granted is lost, whoever had it is told by its next
 * request, and its place there is given away. When they meet again, all begins anew. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "runtime.h"

#define PORTS 16                /* of a process: a thread's way to an agent takes one */
#define DEPTH 64
#define ARENA 16384
#define ALL (LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE | LOCI_PORT_MAY_ATOMIC)

/* A place at another agent. */
struct seat {
    uint64_t host;                      /* identity of that agent */
    uint64_t number;                    /* as it knows it */
    enum { SEAT_ASKED, SEAT_HERE, SEAT_LOST } state;
    struct loci_pool_reply reply;       /* that it is here */
    struct loci_pool_request wish;      /* while it is asked: the store that is wanted there */
};

/* What a process was granted of a store, or of nothing any more. */
struct given {
    uint64_t host, lease_version;       /* of the store */
    uint32_t grant[LOCI_REGIONS_MAX];   /* with 1 added; 0: none */
};

/* Another agent wants that of its store revoked. */
struct loci_agent_asked {
    struct loci_agent_asked *next;
    uint64_t host, lease_version;
};

/* A process of this machine that has ports. */
struct loci_agent_goer {
    struct loci_agent_goer *next;
    uint64_t client;                    /* its connection's number; 0: it has left */
    bool said;                          /* that it leaves */
    int slab;
    struct loci_port_welcome welcome;
    int nseats, ngiven;
    struct seat *seat;
    struct given *given;
};

/* One of another machine that has a place here. */
struct loci_agent_guest {
    struct loci_agent_guest *next;
    uint64_t via, number;               /* the agent that it comes by; and what that calls it */
    int place;
    bool doubtful;                      /* the link is another one, and it was not named yet */
};

/* ---- ways to other agents ---- */

static int agent_of(const struct loco_agent *a, uint64_t identity)
{
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (a->directory.agent[i].identity == identity
            && a->directory.agent[i].state == LOCI_AGENT_UP)
            return i;
    return -1;
}

static struct loci_news news_of(enum loci_news_type type)
{
    return (struct loci_news){ .magic = LOCI_NEWS_MAGIC, .version = LOCI_NEWS_VERSION,
                               .type = (uint32_t)type };
}

/* ---- processes of this machine ---- */

static struct loci_agent_goer *goer_of(const struct loco_agent *a, uint64_t client)
{
    struct loci_agent_goer *g = a->goers;

    while (g != NULL && g->client != client)
        g = g->next;
    return g;
}

static struct seat *seat_at(struct loci_agent_goer *g, uint64_t host)
{
    for (int i = 0; i < g->nseats; i++)
        if (g->seat[i].host == host)
            return &g->seat[i];
    return NULL;
}

static struct seat *seat_numbered(struct loco_agent *a, uint64_t host, uint64_t number,
                                  struct loci_agent_goer **goer)
{
    for (struct loci_agent_goer *g = a->goers; g != NULL; g = g->next) {
        struct seat *s = seat_at(g, host);

        *goer = g;
        if (s != NULL && s->number == number)
            return s;
    }
    return NULL;
}

static void drop_seat(struct loci_agent_goer *g, struct seat *s)
{
    *s = g->seat[--g->nseats];
}

/* All that it had posted is over: those who have a place for it hear that it has gone. */
static void see_off(struct loco_agent *a, struct loci_agent_goer *g)
{
    struct loci_news news = news_of(LOCI_NEWS_LEFT);

    news.status = g->said ? LOCO_OK : LOCO_ERR_PEER_DEAD;
    for (int i = 0; i < g->nseats; i++) {
        int agent = agent_of(a, g->seat[i].host);

        news.claim = g->seat[i].number;
        if (agent >= 0 && g->seat[i].state != SEAT_LOST)
            loci_agent_send_news(a, agent, &news);
    }
    free(g->seat);
    free(g->given);
    free(g);
}

void loci_agent_see_off(struct loco_agent *a)
{
    struct loci_agent_goer **at = &a->goers, *g;

    while ((g = *at) != NULL) {
        if (g->client != 0 || !loci_ports_is_free(a->ports, g->slab)) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        see_off(a, g);
    }
}

void loci_agent_goes(struct loco_agent *a, uint64_t client, bool said)
{
    struct loci_agent_goer *g = goer_of(a, client);

    if (g == NULL)
        return;
    g->client = 0;
    g->said = said;
    loci_ports_leave(a->ports, g->slab);
}

static int new_goer(struct loco_agent *a, uint64_t client, int place, struct loci_agent_goer **out)
{
    struct loci_agent_goer *g = calloc(1, sizeof *g);
    int status;

    loci_agent_see_off(a);              /* before a slab of theirs is another's */
    if (g == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_ports_enter(a->ports, a->seat[place].peer, &g->slab, &g->welcome);
    if (status != LOCO_OK) {
        free(g);
        return status;
    }
    g->client = client;
    g->next = a->goers;
    a->goers = *out = g;
    return LOCO_OK;
}

static int ask_for_seat(struct loco_agent *a, struct loci_agent_goer *g, int place, int agent)
{
    struct loci_news news = news_of(LOCI_NEWS_SEAT);
    struct seat *seat = realloc(g->seat, ((size_t)g->nseats + 1) * sizeof *seat);

    if (seat == NULL)
        return LOCO_ERR_NO_MEMORY;
    g->seat = seat;
    seat[g->nseats++] = (struct seat){ .host = a->directory.agent[agent].identity,
                                       .number = ++a->seats_asked, .state = SEAT_ASKED };
    news.claim = a->seats_asked;
    news.address = loci_peer(a->rt, a->seat[place].peer)->address;
    memset(news.address.secret, 0, sizeof news.address.secret);     /* nobody calls it */
    loci_agent_send_news(a, agent, &news);
    return LOCO_IN_PROGRESS;
}

static int refuse(struct loci_pool_reply *reply, int status, const char *text)
{
    reply->status = status;
    snprintf(reply->text, sizeof reply->text, "%s", text);
    return status;
}

static int get_goer(struct loco_agent *a, uint64_t client, int place, struct loci_agent_goer **g,
                    struct loci_pool_reply *reply)
{
    int status = *g != NULL ? LOCO_OK : new_goer(a, client, place, g);

    return status != LOCO_ERR_FULL ? status
           : refuse(reply, LOCO_ERR_UNSUPPORTED, "all ports are taken: the agent's option --ports");
}

/* It has its place, and reads the directory as it is mapped. */
static int reach_own(struct loco_agent *a, uint64_t client, int place, struct loci_agent_goer *g,
                     struct loci_pool_reply *reply)
{
    int status = get_goer(a, client, place, &g, reply);

    if (status == LOCO_OK)
        reply->ports = g->welcome;
    return status == LOCO_OK || status == LOCO_ERR_UNSUPPORTED ? status
           : refuse(reply, status, loco_strerror(status));
}

/* With the place the memory of a store there, which is what it is wanted for: so that need not be
 * asked for once more. If it cannot be, that is, and hears why. */
static void grant_wish(struct loco_agent *a, uint64_t client,
                       const struct loci_pool_request *wish, struct loci_pool_reply *reply)
{
    struct loci_pool_reply own = { .status = LOCO_OK };

    if (wish->name[0] == '\0' || loci_agent_grant(a, client, wish, &own) != LOCO_OK)
        return;
    memcpy(reply->store, own.grant, sizeof reply->store);
    reply->has_store = 1;
}

int loci_agent_reach(struct loco_agent *a, uint64_t client, int place,
                     const struct loci_pool_request *request, struct loci_pool_reply *reply)
{
    const uint64_t host = request->bytes;
    int agent = agent_of(a, host), status;
    struct loci_agent_goer *g = goer_of(a, client);
    struct seat *s = g != NULL ? seat_at(g, host) : NULL;

    if (a->ports == NULL || place < 0)
        return refuse(reply, LOCO_ERR_UNSUPPORTED, "there are no ports here");
    if (host == a->directory.agent[0].identity)
        return reach_own(a, client, place, g, reply);
    if (agent < 0 || (s != NULL && s->state == SEAT_LOST))
        return refuse(reply, LOCO_ERR_PEER_DEAD, "that agent is out of reach");
    if (s != NULL) {
        *reply = s->reply;
        grant_wish(a, client, request, reply);
        return LOCO_OK;
    }
    if (a->way[agent].peer < 0)
        return refuse(reply, LOCO_ERR_AGAIN, "that agent is not yet connected");
    status = get_goer(a, client, place, &g, reply);
    if (status == LOCO_ERR_UNSUPPORTED)
        return status;
    if (status == LOCO_OK)
        status = ask_for_seat(a, g, place, agent);
    if (status == LOCO_IN_PROGRESS)
        g->seat[g->nseats - 1].wish = *request;
    return status == LOCO_IN_PROGRESS ? status : refuse(reply, status, loco_strerror(status));
}

static int grant_directory(struct loco_agent *a, struct loci_agent_goer *g,
                           const struct loci_agent_way *w, struct loci_pool_reply *reply)
{
    uint64_t line = loci_lease_line(&w->board, reply->place);
    int status = loci_ports_grant(a->ports, g->slab, w->peer, &w->table, 0, w->table.len,
                                  LOCI_PORT_MAY_READ, &reply->grant[0]);

    /* It reads what is lent, and writes what it has seen of that. */
    if (status == LOCO_OK)
        status = loci_ports_grant(a->ports, g->slab, w->peer, &w->board.key, 0,
                                  loci_lease_line(&w->board, 0), LOCI_PORT_MAY_READ,
                                  &reply->grant[1]);
    if (status == LOCO_OK)
        status = loci_ports_grant(a->ports, g->slab, w->peer, &w->board.key, line,
                                  LOCI_LEASE_LINE, LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE,
                                  &reply->grant[2]);
    reply->board = w->board;
    reply->ports = g->welcome;
    reply->address = w->address;
    reply->directory = w->table;
    return status;
}

static void hear_seated(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_pool_reply reply = { .status = news->status, .place = news->place,
                                     .stats.leaving = news->leaving };
    struct loci_agent_goer *g;
    struct seat *s = seat_numbered(a, a->directory.agent[agent].identity, news->claim, &g);
    uint64_t client;

    if (s == NULL || s->state != SEAT_ASKED)
        return;
    client = g->client;
    if (reply.status == LOCO_OK && (news->place < 0 || news->place >= news->places))
        reply.status = LOCO_ERR_PROTOCOL;
    if (reply.status == LOCO_OK && client != 0)
        reply.status = grant_directory(a, g, &a->way[agent], &reply);
    if (reply.status != LOCO_OK)
        (void)refuse(&reply, reply.status, reply.status == LOCO_ERR_FULL
                     ? "all places there are taken: that agent's option --places"
                     : loco_strerror(reply.status));
    reply.places = news->places;
    s->state = SEAT_HERE;
    s->reply = reply;
    if (reply.status == LOCO_OK && client != 0)
        grant_wish(a, client, &s->wish, &reply);
    if (news->status != LOCO_OK)
        drop_seat(g, s);                /* it has none */
    loci_agent_reply(a, client, &reply, true);
}

/* ---- grants ---- */

/* As the directory has it. */
static const struct loci_record *record_of(const struct loco_agent *a,
                                           const struct loci_pool_request *request)
{
    for (int i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        const struct loci_record *r = &a->directory.store[i];

        if (r->number != 0 && r->number == request->objects && r->host == request->bytes
            && strcmp(r->name, request->name) == 0)
            return r;
    }
    return NULL;
}

/* Whose memory it may be granted; -1. */
static int peer_granted(const struct loco_agent *a, struct loci_agent_goer *g, uint64_t host)
{
    const struct seat *s = seat_at(g, host);
    int agent = agent_of(a, host);

    if (host == a->directory.agent[0].identity)
        return LOCI_SELF;
    return s != NULL && s->state == SEAT_HERE && agent >= 0 ? a->way[agent].peer : -1;
}

static void drop_given(struct loci_agent_goer *g, uint32_t number)
{
    for (int i = 0; i < g->ngiven; i++)
        for (int k = 0; k < LOCI_REGIONS_MAX; k++)
            if (g->given[i].grant[k] == number + 1)
                g->given[i].grant[k] = 0;
}

/* Room for one more; those that have nothing any more make some. */
static struct given *new_given(struct loci_agent_goer *g)
{
    static const struct given nothing = { .host = 0 };
    struct given *more;

    for (int i = 0; i < g->ngiven; i++)
        if (memcmp(g->given[i].grant, nothing.grant, sizeof nothing.grant) == 0)
            return &g->given[i];
    more = realloc(g->given, ((size_t)g->ngiven + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    g->given = more;
    more[g->ngiven] = nothing;
    return &more[g->ngiven++];
}

static int give(struct loco_agent *a, struct loci_agent_goer *g, const struct loci_record *record,
                int peer, struct loci_pool_reply *reply)
{
    struct given *given = new_given(g);
    int status = given == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    for (int i = 0; i < LOCI_REGIONS_MAX && status == LOCO_OK; i++) {
        if (record->key[i].kind == LOCI_MEM_NONE)
            continue;
        status = loci_ports_grant(a->ports, g->slab, peer, &record->key[i], 0, record->key[i].len,
                                  ALL, &reply->grant[i]);
        given->grant[i] = status == LOCO_OK ? reply->grant[i] + 1 : 0;
    }
    if (given == NULL)
        return status;
    given->host = record->host;
    given->lease_version = record->lease_version;
    for (int i = 0; i < LOCI_REGIONS_MAX && status != LOCO_OK; i++)
        if (given->grant[i] != 0) {
            (void)loci_ports_revoke(a->ports, g->slab, given->grant[i] - 1);
            given->grant[i] = 0;
        }
    return status;
}

int loci_agent_grant(struct loco_agent *a, uint64_t client,
                     const struct loci_pool_request *request, struct loci_pool_reply *reply)
{
    const struct loci_record *record = record_of(a, request);
    struct loci_agent_goer *g = goer_of(a, client);
    int peer = g != NULL ? peer_granted(a, g, request->bytes) : -1, status;

    if (peer < 0)
        return refuse(reply, LOCO_ERR_PEER_DEAD, "that agent is out of reach");
    for (int i = 0; i < LOCI_REGIONS_MAX; i++)
        if (request->give[i] != 0) {
            (void)loci_ports_revoke(a->ports, g->slab, request->give[i] - 1);
            drop_given(g, request->give[i] - 1);
        }
    if (record == NULL)
        return refuse(reply, LOCO_ERR_AGAIN, "that is not known here yet");
    status = give(a, g, record, peer, reply);
    if (status == LOCO_OK)
        return LOCO_OK;
    return refuse(reply, status, status == LOCO_ERR_FULL
                  ? "one process can have so many stores of other machines open by its ports"
                  : loco_strerror(status));
}

/* ---- revoking ---- */

/* Whether nothing that was granted of it is under way. */
static bool revoke_of(struct loco_agent *a, struct loci_agent_goer *g, struct given *given)
{
    bool over = true;

    for (int i = 0; i < LOCI_REGIONS_MAX; i++) {
        if (given->grant[i] == 0)
            continue;
        if (loci_ports_revoke(a->ports, g->slab, given->grant[i] - 1) == LOCO_ERR_AGAIN)
            over = false;
        else
            given->grant[i] = 0;
    }
    return over;
}

static bool revoke_all(struct loco_agent *a, const struct loci_agent_asked *asked)
{
    bool over = true;

    for (struct loci_agent_goer *g = a->goers; g != NULL; g = g->next)
        for (int i = 0; i < g->ngiven; i++)
            if (g->given[i].host == asked->host
                && g->given[i].lease_version == asked->lease_version
                && !revoke_of(a, g, &g->given[i]))
                over = false;
    return over;
}

static void do_asked(struct loco_agent *a)
{
    struct loci_agent_asked **at = &a->asked, *asked;

    while ((asked = *at) != NULL) {
        struct loci_news news = news_of(LOCI_NEWS_REVOKED);
        int agent = agent_of(a, asked->host);

        if (agent >= 0 && !revoke_all(a, asked)) {
            at = &asked->next;
            continue;
        }
        *at = asked->next;
        news.claim = asked->lease_version;
        if (agent >= 0)
            loci_agent_send_news(a, agent, &news);
        free(asked);
    }
}

static void ask_for_revoking(struct loco_agent *a)
{
    struct loci_news news = news_of(LOCI_NEWS_REVOKE);

    pthread_mutex_lock(&a->lock);
    for (struct loci_agent_revoking *r = a->revoking; r != NULL; r = r->next) {
        int agent = r->state == LOCI_REVOKE_WANTED ? agent_of(a, r->via) : -1;

        if (agent < 0)
            continue;
        r->state = LOCI_REVOKE_ASKED;
        news.claim = r->lease_version;
        loci_agent_send_news(a, agent, &news);
    }
    pthread_mutex_unlock(&a->lock);
}

void loci_agent_revoke(struct loco_agent *a)
{
    do_asked(a);
    ask_for_revoking(a);
}

/* Without memory the other one goes on waiting. */
static void hear_revoke(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_agent_asked *asked = calloc(1, sizeof *asked);

    if (asked == NULL)
        return;
    *asked = (struct loci_agent_asked){ a->asked, a->directory.agent[agent].identity,
                                        news->claim };
    a->asked = asked;
    do_asked(a);
}

static void hear_revoked(struct loco_agent *a, int agent, const struct loci_news *news)
{
    pthread_mutex_lock(&a->lock);
    for (struct loci_agent_revoking *r = a->revoking; r != NULL; r = r->next)
        if (r->via == a->directory.agent[agent].identity && r->lease_version == news->claim)
            r->state = LOCI_REVOKE_DONE;
    pthread_mutex_unlock(&a->lock);
}

/* What was on its way by the link before may be lost. */
static void ask_again(struct loco_agent *a, uint64_t via)
{
    pthread_mutex_lock(&a->lock);
    for (struct loci_agent_revoking *r = a->revoking; r != NULL; r = r->next)
        if (r->via == via && r->state == LOCI_REVOKE_ASKED)
            r->state = LOCI_REVOKE_WANTED;
    pthread_mutex_unlock(&a->lock);
}

/* ---- processes of other machines ---- */

static void hear_seat(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_news answer = news_of(LOCI_NEWS_SEATED);
    struct loci_agent_guest *guest = calloc(1, sizeof *guest);

    answer.claim = news->claim;
    answer.places = a->places;
    answer.status = guest == NULL ? LOCO_ERR_NO_MEMORY
                    : loci_agent_seat(a, &news->address, a->directory.agent[agent].identity,
                                      &answer.place);
    answer.leaving = atomic_load(&a->leaving);
    if (answer.status == LOCO_OK) {
        *guest = (struct loci_agent_guest){ a->guests, a->directory.agent[agent].identity,
                                            news->claim, answer.place, false };
        a->guests = guest;
    } else {
        free(guest);
    }
    loci_agent_send_news(a, agent, &answer);
}

/* Its place is cleaned up. */
static void end_guest(struct loco_agent *a, struct loci_agent_guest **at, enum loci_guest_end end,
                      int via)
{
    struct loci_agent_guest *guest = *at;

    *at = guest->next;
    loci_agent_unseat(a, guest->place, end, via);
    free(guest);
}

static struct loci_agent_guest **guest_at(struct loco_agent *a, uint64_t via, uint64_t number)
{
    struct loci_agent_guest **at = &a->guests;

    while (*at != NULL && ((*at)->via != via || (*at)->number != number))
        at = &(*at)->next;
    return at;
}

static void hear_kept(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_agent_guest *g = *guest_at(a, a->directory.agent[agent].identity, news->claim);

    if (g != NULL)
        g->doubtful = false;
}

static void drop_doubtful(struct loco_agent *a, uint64_t via)
{
    struct loci_agent_guest **at = &a->guests;

    while (*at != NULL)
        if ((*at)->via == via && (*at)->doubtful)
            end_guest(a, at, LOCI_GUEST_DIED, -1);
        else
            at = &(*at)->next;
}

static void hear_left(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_agent_guest **at = guest_at(a, a->directory.agent[agent].identity, news->claim);

    if (*at != NULL)
        end_guest(a, at, news->status == LOCO_OK ? LOCI_GUEST_SAID : LOCI_GUEST_DIED, -1);
}

void loci_agent_meet_guest(struct loco_agent *a, const struct loci_address *address,
                           struct loci_pool_reply *reply)
{
    int peer, status;

    for (struct loci_agent_guest *g = a->guests; g != NULL; g = g->next) {
        const struct loci_address *it = &loci_peer(a->rt, a->seat[g->place].peer)->address;

        if (it->identity != address->identity || it->label != address->label)
            continue;
        status = loci_peer_meet(a->rt, address, &peer);
        if (status == LOCO_OK)
            loci_peers_let_go(a->rt, &peer, 1);     /* it is held for its place */
        else
            (void)refuse(reply, status, loco_strerror(status));
        return;
    }
    (void)refuse(reply, LOCO_ERR_STATE, "this process has no place here");
}

/* ---- links ---- */

static void name_kept(struct loco_agent *a, int agent)
{
    struct loci_news news = news_of(LOCI_NEWS_KEPT);

    for (struct loci_agent_goer *g = a->goers; g != NULL; g = g->next) {
        const struct seat *s = seat_at(g, a->directory.agent[agent].identity);

        if (s == NULL || s->state == SEAT_LOST)
            continue;
        news.claim = s->number;
        loci_agent_send_news(a, agent, &news);
    }
}

void loci_agent_way_up(struct loco_agent *a, int agent)
{
    struct loci_news news = news_of(LOCI_NEWS_WAY);

    name_kept(a, agent);
    news.address = a->rt->address;
    news.table = a->table.key;
    loci_leases_board(a->leases, &news.board);
    loci_agent_send_news(a, agent, &news);
}

/* The process of that address may be known as one that has gone, until all have let go of it. */
static void meet(struct loco_agent *a, struct loci_agent_way *w)
{
    int peer, status = loci_peer_meet(a->rt, &w->address, &peer);

    if (status != LOCO_OK)
        return;                         /* the log says why */
    loci_peers_use(a->rt, &peer, 1);
    if (loci_peer_goes(a->rt, peer)) {
        loci_peers_end_use(a->rt, &peer, 1);
        loci_peers_let_go(a->rt, &peer, 1);
        return;
    }
    w->peer = peer;
    if (a->ports != NULL)
        (void)loci_ports_reach(a->ports, peer);
}

static void hear_way(struct loco_agent *a, int agent, const struct loci_news *news)
{
    struct loci_agent_way *w = &a->way[agent];

    drop_doubtful(a, a->directory.agent[agent].identity);
    if (w->known)
        return;
    w->known = true;
    w->address = news->address;
    w->table = news->table;
    w->board = news->board;
    meet(a, w);
}

bool loci_agent_ports_hear(struct loco_agent *a, int agent, const struct loci_news *news)
{
    switch (news->type) {
    case LOCI_NEWS_KEPT: hear_kept(a, agent, news); return true;
    case LOCI_NEWS_WAY: hear_way(a, agent, news); return true;
    case LOCI_NEWS_SEAT: hear_seat(a, agent, news); return true;
    case LOCI_NEWS_SEATED: hear_seated(a, agent, news); return true;
    case LOCI_NEWS_LEFT: hear_left(a, agent, news); return true;
    case LOCI_NEWS_REVOKE: hear_revoke(a, agent, news); return true;
    case LOCI_NEWS_REVOKED: hear_revoked(a, agent, news); return true;
    default: return false;
    }
}

/* What was asked for and not answered is asked for again, or never. */
static void drop_asked(struct loco_agent *a, uint64_t host, enum loci_way_end end)
{
    struct loci_pool_reply reply = { .status = LOCO_OK };

    (void)refuse(&reply, end == LOCI_WAY_REPLACED ? LOCO_ERR_AGAIN : LOCO_ERR_PEER_DEAD,
                 "that agent is out of reach");
    for (struct loci_agent_goer *g = a->goers; g != NULL; g = g->next) {
        struct seat *s = seat_at(g, host);
        struct loci_pool_reply own = reply;

        if (s == NULL || s->state != SEAT_ASKED)
            continue;
        drop_seat(g, s);
        loci_agent_reply(a, g->client, &own, true);
    }
}

static void lose_seats(struct loco_agent *a, uint64_t host)
{
    for (struct loci_agent_goer *g = a->goers; g != NULL; g = g->next) {
        struct seat *s = seat_at(g, host);

        if (s != NULL)
            s->state = SEAT_LOST;
    }
}

static void lose_guests(struct loco_agent *a, uint64_t via, int peer)
{
    struct loci_agent_guest **at = &a->guests;

    while (*at != NULL)
        if ((*at)->via == via)
            end_guest(a, at, LOCI_GUEST_LOST, peer);
        else
            at = &(*at)->next;
}

static void doubt_guests(struct loco_agent *a, uint64_t via)
{
    for (struct loci_agent_guest *g = a->guests; g != NULL; g = g->next)
        g->doubtful = g->doubtful || g->via == via;
}

void loci_agent_way_down(struct loco_agent *a, int agent, enum loci_way_end end)
{
    struct loci_agent_way *w = &a->way[agent];
    uint64_t identity = a->directory.agent[agent].identity;

    drop_asked(a, identity, end);
    ask_again(a, identity);
    if (end == LOCI_WAY_REPLACED) {
        doubt_guests(a, identity);
        return;
    }
    lose_seats(a, identity);
    lose_guests(a, identity, w->peer);
    if (w->peer >= 0) {
        if (a->ports != NULL)
            loci_ports_lose(a->ports, w->peer);
        if (end == LOCI_WAY_LOST)
            loci_peer_cut(a->rt, w->peer);
        loci_peers_end_use(a->rt, &w->peer, 1);
        loci_peers_let_go(a->rt, &w->peer, 1);
    }
    *w = (struct loci_agent_way){ .peer = -1 };
}

/* An agent whose memory is not reached any more is lost as one that is not heard. */
bool loci_agent_way_tick(struct loco_agent *a, int agent)
{
    struct loci_agent_way *w = &a->way[agent];

    if (w->known && w->peer < 0)
        meet(a, w);
    return w->peer < 0 || loci_peer_alive(a->rt, w->peer);
}

/* ---- life ---- */

static void freed(void *agent)
{
    loci_agent_wake(agent);
}

int loci_agent_ports_open(struct loco_agent *a, int clients)
{
    const struct loci_port_options options = {
        .clients = clients, .ports = PORTS, .depth = DEPTH, .arena = ARENA,
        .room = LOCI_PORT_ROOM_MOST, .freed = freed, .freed_ctx = a,
    };

    for (int i = 0; i < LOCI_AGENTS_MAX; i++)
        a->way[i].peer = -1;
    return clients > 0 ? loci_ports_open(a->rt, &options, &a->ports) : LOCO_OK;
}

void loci_agent_ports_close(struct loco_agent *a)
{
    struct loci_agent_goer *g;
    struct loci_agent_guest *guest;

    loci_ports_close(a->ports);
    a->ports = NULL;
    while ((g = a->goers) != NULL) {
        a->goers = g->next;
        free(g->seat);
        free(g->given);
        free(g);
    }
    while ((guest = a->guests) != NULL) {
        a->guests = guest->next;
        free(guest);
    }
    while (a->asked != NULL) {
        struct loci_agent_asked *asked = a->asked;

        a->asked = asked->next;
        free(asked);
    }
    for (int i = 0; i < LOCI_AGENTS_MAX; i++)
        if (a->way[i].peer >= 0 && a->way[i].known) {
            loci_peers_end_use(a->rt, &a->way[i].peer, 1);
            loci_peers_let_go(a->rt, &a->way[i].peer, 1);
            a->way[i].peer = -1;
        }
}
