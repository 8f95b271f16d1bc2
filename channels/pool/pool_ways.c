/* SPDX-License-Identifier: BSD-3-Clause */

/* See pool_ways.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "move/rma.h"
#include "observe/mistake.h"
#include "pool_ways.h"
#include "runtime.h"
#include "threads/worker.h"
#include "wait.h"

#define LEAVING_LOOK 5000000            /* ns */
#define LEAVING_TELL INT64_C(1000000000)
#define LEAVING_PATIENCE INT64_C(10000000000)
#define CONNECTING INT64_C(2000000000)  /* that agents may take to connect to each other */
#define PAUSE 1000000
#define LOOK_NS 100000000               /* between two looks of who moves over */
#define GRANTS_KEPT 16                  /* stores at an agent that are closed, and can be opened
                                         * again without a question */

/* ---- places ---- */

/* As one that was here before it may be about to be forgotten. */
static int note(loco_runtime_t *rt, const struct loci_address *address, int *peer)
{
    int64_t begun = loci_now(rt);
    int status;

    while ((status = loci_peer_note(rt, address, peer)) == LOCO_OK && loci_peer_goes(rt, *peer)) {
        loci_peers_let_go(rt, peer, 1);
        if (loci_now(rt) - begun > CONNECTING)
            return LOCO_ERR_PEER_DEAD;
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
    }
    return status;
}

int loci_pool_meet(loco_pool_t *pool, struct loci_pool_host *h,
                   const struct loci_pool_reply *reply)
{
    loco_runtime_t *rt = pool->rt;
    int status = h->by_port ? note(rt, &reply->address, &h->peer)
                 : loci_peer_meet(rt, &reply->address, &h->peer);

    if (status != LOCO_OK) {
        h->peer = -1;
        return status;
    }
    loci_peers_use(rt, &h->peer, 1);
    h->identity = h->by_port ? h->agent.identity : reply->identity;
    h->place = reply->place;
    h->places = reply->places;
    status = reply->directory.len < LOCI_CATALOG_BYTES ? LOCO_ERR_PROTOCOL
             : loci_mem_import(rt, h->peer, &reply->directory, &h->table);
    return status != LOCO_OK ? status
           : loci_pool_lease_open(rt, h->peer, &reply->board, h->place, &h->lease);
}

static void free_grants(struct loci_pool_host *h)
{
    struct loci_pool_grant *g;

    while ((g = h->grants) != NULL) {
        h->grants = g->next;
        free(g);
    }
}

void loci_pool_leave_host(loco_pool_t *pool, struct loci_pool_host *h)
{
    loci_pool_lease_close(&h->lease);
    /* What was written is there before others have the place. */
    if (h->peer >= 0 && h != &pool->own && loci_peer_alive(pool->rt, h->peer))
        (void)loci_fence_peer(pool->rt, LOCO_FENCE_PROCESS, h->peer);
    if (h->peer >= 0) {
        loci_mem_drop(pool->rt, &h->table);
        if (h->by_port)
            loci_port_ungranted(pool->rt, h->peer, LOCI_PORT_ALL_GRANTS);
        /* Nobody else has to do with it: when it is met again, all begins anew. */
        loci_peer_say_gone(pool->rt, h->peer, false);
        loci_peers_end_use(pool->rt, &h->peer, 1);
        loci_peers_let_go(pool->rt, &h->peer, 1);
    }
    free_grants(h);
    if (h->fd < 0)
        return;
    /* Of another machine the end of the connection says it, in order behind what was asked. */
    loci_pool_leave(h->fd);
    close(h->fd);
}

bool loci_pool_comes_free(loco_pool_t *pool, const struct loci_pool_reply *reply, int64_t begun,
                          bool *told)
{
    const struct timespec moment = { .tv_nsec = LEAVING_LOOK };
    int64_t waited = loci_now(pool->rt) - begun;

    if (reply->status != LOCO_ERR_FULL || reply->stats.leaving == 0 || waited > LEAVING_PATIENCE)
        return false;
    if (waited > LEAVING_TELL && !*told)
        LOCI_LOG(pool->rt, LOCO_LOG_INFO, "pool %s: all places are taken, and %llu of them are "
                 "being cleaned up after those who had them: waiting for one", pool->name,
                 (unsigned long long)reply->stats.leaving);
    *told = *told || waited > LEAVING_TELL;
    nanosleep(&moment, NULL);
    return true;
}

/* ---- agents of other machines ---- */

struct patience {
    loco_runtime_t *rt;
    int peer;                   /* of whom an answer is awaited, */
    int64_t until;              /* or until when */
};

static bool is_there(void *ctx)
{
    const struct patience *p = ctx;

    return loci_peer_alive(p->rt, p->peer);
}

/* While the place is asked for: it is known soon, or not at all. */
static bool is_early(void *ctx)
{
    const struct patience *p = ctx;

    return loci_now(p->rt) < p->until;
}

/* A connection to it, over which questions are asked. */
static int call(loco_pool_t *pool, struct loci_pool_host *h)
{
    loci_pool_session(&h->session, pool->name, pool->secret);
    return loci_pool_dial(pool->rt, LOCO_LOG_ERROR, h->agent.place, LOCI_TCP_PLACES,
                          LOCI_POOL_CLIENT, &h->session);
}

static int refused(loco_pool_t *pool, const struct loci_pool_host *h,
                   const struct loci_pool_reply *reply)
{
    return loci_mistake(pool->rt, reply->status, "loco_store_open", NULL,
                        "the agent of %.64s: %s", h->agent.machine, reply->text);
}

static int enter_straight(loco_pool_t *pool, struct loci_pool_host *h)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_ENTER, .address = pool->rt->address };
    struct patience early = { .rt = pool->rt,
                              .until = loci_now(pool->rt) + 2 * LOCI_POOL_PATIENCE };
    struct loci_pool_reply reply;
    int64_t begun = loci_now(pool->rt);
    bool told = false;
    int status;

    h->fd = call(pool, h);
    if (h->fd < 0)
        return h->fd;
    do {
        status = loci_pool_ask_far(pool->rt, h->fd, &h->session, &request, &reply, is_early,
                                   &early);
    } while (status == LOCO_OK && loci_pool_comes_free(pool, &reply, begun, &told));
    if (status == LOCO_OK && reply.status != LOCO_OK)
        return refused(pool, h, &reply);
    if (status == LOCO_OK && reply.identity != h->agent.identity)
        return LOCO_ERR_PEER_DEAD;      /* another one is there since; the directory hears of it */
    return status == LOCO_OK ? loci_pool_meet(pool, h, &reply) : status;
}

/* ---- ports ---- */

/* Of each region of that store. */
static int note_grant(loco_pool_t *pool, struct loci_pool_host *h,
                      const struct loci_record *record, const uint32_t *grant,
                      struct loci_pool_grant *g)
{
    int status = LOCO_OK;

    g->number = record->number;
    for (int i = 0; i < LOCI_REGIONS_MAX && status == LOCO_OK; i++) {
        if (record->key[i].kind == LOCI_MEM_NONE)
            continue;
        g->grant[i] = grant[i] + 1;
        status = loci_port_granted(pool->rt, h->peer, &record->key[i], 0, record->key[i].len,
                                   grant[i]);
    }
    return status;
}

/* Whether the agents are about to connect to each other. Waits a moment. */
static bool comes_soon(loco_pool_t *pool, const struct loci_pool_reply *reply, int64_t begun)
{
    if (reply->status != LOCO_ERR_AGAIN || loci_now(pool->rt) - begun > CONNECTING)
        return false;
    nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
    return true;
}

/* The runtime has one agent's ports at a time. */
static int take_ports(loco_pool_t *pool, const struct loci_port_welcome *welcome)
{
    int status = pool->ports ? LOCO_OK : loci_port_attach(pool->rt, pool->own.peer, welcome);

    pool->ports = pool->ports || status == LOCO_OK;
    return status;
}

static int use_ports(loco_pool_t *pool, struct loci_pool_host *h,
                     const struct loci_pool_reply *reply)
{
    int status = loci_pool_meet(pool, h, reply);

    if (status == LOCO_OK)
        status = take_ports(pool, &reply->ports);
    if (status == LOCO_OK)
        status = loci_port_granted(pool->rt, h->peer, &reply->directory, 0, reply->directory.len,
                                   reply->grant[0]);
    if (status == LOCO_OK)
        status = loci_port_granted(pool->rt, h->peer, &reply->board.key, 0,
                                   loci_lease_line(&reply->board, 0), reply->grant[1]);
    return status != LOCO_OK ? status
           : loci_port_granted(pool->rt, h->peer, &reply->board.key,
                               loci_lease_line(&reply->board, reply->place), LOCI_LEASE_LINE,
                               reply->grant[2]);
}

/* What was granted with the place: it is not asked for, when it is opened. */
static void keep_grant(loco_pool_t *pool, struct loci_pool_host *h,
                       const struct loci_record *record, const uint32_t *grant)
{
    struct loci_pool_grant *g = calloc(1, sizeof *g);

    if (g == NULL || note_grant(pool, h, record, grant, g) != LOCO_OK) {
        free(g);                /* then it is asked for */
        return;
    }
    g->next = h->grants;
    h->grants = g;
    h->ngrants++;
}

/* Without a device there is no other way. */
static int has_no_ports(loco_pool_t *pool, const struct loci_pool_reply *reply)
{
    return loci_mistake(pool->rt, LOCO_ERR_FULL, "loco_store_open", NULL, "%s. LOCO_PORTS=no: this "
                        "process goes by a device of its own", reply->text);
}

/* LOCO_ERR_UNSUPPORTED: it has to go there by itself. */
static int enter_by_port(loco_pool_t *pool, struct loci_pool_host *h,
                         const struct loci_record *wanted)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_REACH, .bytes = h->agent.identity };
    struct loci_pool_reply reply;
    int64_t begun = loci_now(pool->rt);
    bool told = false;
    int status;

    if (wanted != NULL) {
        memcpy(request.name, wanted->name, sizeof request.name);
        request.objects = wanted->number;
    }
    if (!pool->rt->tunables.ports || pool->rt->ops->synchronous
        || (!pool->ports && loci_port_is_attached(pool->rt)))
        return LOCO_ERR_UNSUPPORTED;
    do {
        status = loci_pool_ask(pool->rt, pool->own.fd, &request, &reply);
    } while (status == LOCO_OK && (loci_pool_comes_free(pool, &reply, begun, &told)
                                   || comes_soon(pool, &reply, begun)));
    if (status != LOCO_OK)
        return status;
    if (pool->rt->ops == &loci_fabric_near && reply.status == LOCO_ERR_UNSUPPORTED)
        return has_no_ports(pool, &reply);
    if (reply.status == LOCO_ERR_UNSUPPORTED || reply.status == LOCO_ERR_AGAIN) {
        LOCI_LOG(pool->rt, LOCO_LOG_INFO, "pool %s: this process connects to the agent of %.64s by "
                 "itself: %s", pool->name, h->agent.machine, reply.text);
        return LOCO_ERR_UNSUPPORTED;
    }
    if (reply.status != LOCO_OK)
        return refused(pool, h, &reply);
    h->by_port = true;
    status = use_ports(pool, h, &reply);
    if (status == LOCO_OK && wanted != NULL && reply.has_store != 0)
        keep_grant(pool, h, wanted, reply.store);
    return status;
}

static int enter(loco_pool_t *pool, struct loci_pool_host *h, const struct loci_record *wanted)
{
    int status = enter_by_port(pool, h, wanted);

    return status == LOCO_ERR_UNSUPPORTED && !h->by_port && pool->rt->ops != &loci_fabric_near
           ? enter_straight(pool, h) : status;
}

static void start_mover(loco_pool_t *pool);

/* One that has died is another agent when it is back. */
int loci_pool_host_of(loco_pool_t *pool, const struct loci_agent_record *agent,
                      const struct loci_record *wanted, struct loci_pool_host **out)
{
    struct loci_pool_host *h = pool->far;
    int status;

    if (agent->identity == pool->own.identity) {
        *out = &pool->own;
        return LOCO_OK;
    }
    while (h != NULL && h->identity != agent->identity)
        h = h->next;
    if (h == NULL) {
        h = calloc(1, sizeof *h);
        if (h == NULL)
            return LOCO_ERR_NO_MEMORY;
        h->peer = h->fd = h->lease.peer = -1;
        h->agent = *agent;
        status = enter(pool, h, wanted);
        if (status != LOCO_OK) {
            loci_pool_leave_host(pool, h);
            free(h);
            return status;
        }
        h->next = pool->far;
        pthread_mutex_lock(&pool->renewing);
        pool->far = h;
        pthread_mutex_unlock(&pool->renewing);
        if (h->by_port)
            start_mover(pool);
    }
    *out = h;
    return loci_peer_alive(pool->rt, h->peer) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

int loci_pool_ask_host(loco_pool_t *pool, struct loci_pool_host *h,
                       struct loci_pool_request *request, struct loci_pool_reply *reply)
{
    struct patience while_there = { .rt = pool->rt, .peer = h->peer };
    int fd = h->fd, status;

    if (h == &pool->own)
        return loci_pool_ask(pool->rt, fd, request, reply);
    if (fd < 0)
        fd = call(pool, h);
    if (fd < 0)
        return fd;
    status = loci_pool_ask_far(pool->rt, fd, &h->session, request, reply, is_there, &while_there);
    if (fd != h->fd)
        close(fd);
    return status;
}

/* ---- grants ---- */

/* One of a store that is not open, if there are many; out of the list. */
static struct loci_pool_grant *take_idle(struct loci_pool_host *h)
{
    struct loci_pool_grant **at = &h->grants, *g;

    while ((g = *at) != NULL && (g->users > 0 || h->ngrants < GRANTS_KEPT))
        at = &g->next;
    if (g != NULL) {
        *at = g->next;
        h->ngrants--;
    }
    return g;
}

/* It is given back with the next question. */
static void give_back(loco_pool_t *pool, struct loci_pool_host *h,
                      struct loci_pool_request *request)
{
    struct loci_pool_grant *g = take_idle(h);

    if (g == NULL)
        return;
    memcpy(request->give, g->grant, sizeof request->give);
    for (int i = 0; i < LOCI_REGIONS_MAX; i++)
        if (g->grant[i] != 0)
            loci_port_ungranted(pool->rt, h->peer, g->grant[i] - 1);
    free(g);
}

static int ask_for(loco_pool_t *pool, struct loci_pool_host *h, const struct loci_record *record,
                   struct loci_pool_grant *g)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_GRANT, .bytes = record->host,
                                         .objects = record->number };
    struct loci_pool_reply reply;
    int status;

    memcpy(request.name, record->name, sizeof request.name);
    give_back(pool, h, &request);
    status = loci_pool_ask(pool->rt, pool->own.fd, &request, &reply);
    if (status == LOCO_OK && reply.status != LOCO_OK && reply.status != LOCO_ERR_AGAIN)
        return loci_mistake(pool->rt, reply.status, "loco_store_open", record->name, "%s",
                            reply.text);
    if (status == LOCO_OK)
        status = reply.status;
    return status == LOCO_OK ? note_grant(pool, h, record, reply.grant, g) : status;
}

static int new_grant(loco_pool_t *pool, struct loci_pool_host *h,
                     const struct loci_record *record, struct loci_pool_grant **out)
{
    struct loci_pool_grant *g = calloc(1, sizeof *g);
    int status = g != NULL ? ask_for(pool, h, record, g) : LOCO_ERR_NO_MEMORY;

    if (status != LOCO_OK) {
        free(g);
        return status;
    }
    g->next = h->grants;
    h->grants = *out = g;
    h->ngrants++;
    return LOCO_OK;
}

/* Memory of this machine, too, where a device changes its words, and this process has none. */
static bool needs_grant(const loco_pool_t *pool, const struct loci_pool_host *h,
                        const struct loci_record *record)
{
    return h->by_port || (h == &pool->own && pool->rt->ops == &loci_fabric_near
                          && record->domain != LOCI_DOMAIN_CPU);
}

static int reach_own(loco_pool_t *pool)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_REACH, .bytes = pool->own.identity };
    struct loci_pool_reply reply;
    int status = pool->ports ? LOCO_OK
                 : loci_pool_ask(pool->rt, pool->own.fd, &request, &reply);

    if (pool->ports || status != LOCO_OK)
        return status;
    return reply.status != LOCO_OK ? has_no_ports(pool, &reply)
           : take_ports(pool, &reply.ports);
}

int loci_pool_grant(loco_pool_t *pool, struct loci_pool_host *h, const struct loci_record *record,
                    struct loci_pool_grant **grant)
{
    struct loci_pool_grant *g;
    int status = LOCO_OK;

    *grant = NULL;
    if (!needs_grant(pool, h, record))
        return LOCO_OK;
    pthread_mutex_lock(&pool->asking);
    if (h == &pool->own)
        status = reach_own(pool);
    g = h->grants;
    while (g != NULL && g->number != record->number)
        g = g->next;
    if (g == NULL && status == LOCO_OK)
        status = new_grant(pool, h, record, &g);
    if (status == LOCO_OK) {
        g->users++;
        *grant = g;
    }
    pthread_mutex_unlock(&pool->asking);
    return status;
}

void loci_pool_ungrant(loco_pool_t *pool, struct loci_pool_grant *grant)
{
    if (grant == NULL)
        return;
    pthread_mutex_lock(&pool->asking);
    grant->users--;
    pthread_mutex_unlock(&pool->asking);
}

/* ---- connections of its own ---- */

/* The other agent meets this process, of which it has only heard. */
static int be_met(loco_pool_t *pool, struct loci_pool_host *h)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_MEET, .address = pool->rt->address };
    struct loci_pool_reply reply;
    int status = loci_pool_ask_host(pool, h, &request, &reply), peer;

    if (status == LOCO_OK && reply.status != LOCO_OK)
        return refused(pool, h, &reply);
    if (status == LOCO_OK)
        status = loci_peer_meet(pool->rt, &loci_peer(pool->rt, h->peer)->address, &peer);
    if (status == LOCO_OK)
        loci_peers_let_go(pool->rt, &peer, 1);      /* it is held already */
    return status;
}

/* Under `asking`. */
static int go_straight(loco_pool_t *pool, struct loci_pool_host *h)
{
    int status = LOCO_OK, moved;

    if (!h->by_port)
        return LOCO_OK;
    if (loci_peer_is_noted(pool->rt, h->peer))
        status = be_met(pool, h);
    /* From here on that agent cannot have this process kept out: what it has removed has ended, and
     * no call is within that. */
    if (status == LOCO_OK)
        status = loci_pool_lease_renew(&h->lease);
    if (status != LOCO_OK)
        return status;
    moved = loci_port_leave_peer(pool->rt, h->peer);
    LOCI_LOG(pool->rt, LOCO_LOG_INFO, "pool %s: this process uses connections of its own to "
             "the agent of %.64s from now on, and no longer its ports (%d threads)", pool->name,
             h->agent.machine, moved);
    return LOCO_OK;
}

int loci_pool_go_straight(loco_pool_t *pool, struct loci_pool_host *h)
{
    int status;

    if (h->by_port && pool->rt->ops == &loci_fabric_near)
        return loci_mistake(pool->rt, LOCO_ERR_UNSUPPORTED, "loco_mailbox_open", NULL,
                            "a mailbox of another machine is reached by a device of the process's "
                            "own: LOCO_PORTS=no");
    pthread_mutex_lock(&pool->asking);
    status = go_straight(pool, h);
    h->stays = true;
    pthread_mutex_unlock(&pool->asking);
    return status;
}

/* ---- moving over ----
 *
 * A thread looks now and then at what has gone by ports, and moves over to those who are asked
 * much. It does so under `asking`, so nobody opens anything meanwhile, and the pool is not closed
 * before it has ended. It is tried once for each. */

/* Under the lock, which is given up; false: the pool is closed. */
static bool rest(loco_pool_t *pool)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!pool->closes)
        (void)pthread_cond_timedwait(&pool->ends, &pool->asking, &until);
    return !pool->closes;
}

static void look_at(loco_pool_t *pool, struct loci_pool_host *h)
{
    if (!h->by_port || h->stays)
        return;
    h->posted += loci_port_posted(pool->rt, h->peer);
    if (h->posted < (uint64_t)pool->rt->tunables.ports_leave)
        return;
    h->stays = true;
    (void)go_straight(pool, h);         /* the log says why not */
}

static void move_over(void *arg)
{
    loco_pool_t *pool = arg;

    pthread_mutex_lock(&pool->asking);
    while (rest(pool))
        for (struct loci_pool_host *h = pool->far; h != NULL; h = h->next)
            look_at(pool, h);
    pthread_mutex_unlock(&pool->asking);
}

/* Without one nobody moves over. */
static void start_mover(loco_pool_t *pool)
{
    if (pool->mover != NULL || pool->rt->ops == &loci_fabric_near
        || pool->rt->tunables.ports_leave == LOCI_INFINITE)
        return;
    if (loci_worker_start(pool->rt, "loco-pool-move", move_over, pool, &pool->mover) != LOCO_OK)
        pool->mover = NULL;
}

void loci_pool_stop_mover(loco_pool_t *pool)
{
    if (pool->mover == NULL)
        return;
    pthread_mutex_lock(&pool->asking);
    pool->closes = true;
    pthread_cond_signal(&pool->ends);
    pthread_mutex_unlock(&pool->asking);
    loci_worker_join(pool->mover);
}

/* ---- renewing leases ----
 *
 * By a thread of its own, for questions and moving over take their time. The list of agents only
 * grows while it runs. */

static bool wait_to_renew(loco_pool_t *pool)
{
    int64_t ns = pool->rt->tunables.key_lease / 3;
    struct timespec until;
    bool goes_on;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec += ns % 1000000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&pool->renewing);
    if (!pool->renewed_enough)
        (void)pthread_cond_timedwait(&pool->renewer_ends, &pool->renewing, &until);
    goes_on = !pool->renewed_enough;
    pthread_mutex_unlock(&pool->renewing);
    return goes_on;
}

/* One that cannot be renewed ends what it is of: those who call find out why. */
static void renew_leases(void *arg)
{
    loco_pool_t *pool = arg;

    while (wait_to_renew(pool)) {
        struct loci_pool_host *h;

        (void)loci_pool_lease_renew(&pool->own.lease);
        pthread_mutex_lock(&pool->renewing);
        h = pool->far;
        pthread_mutex_unlock(&pool->renewing);
        for (; h != NULL; h = h->next)
            if (loci_peer_alive(pool->rt, h->peer))
                (void)loci_pool_lease_renew(&h->lease);
    }
}

/* Without a thread calls ask themselves where memory is not mapped, and where it is, it is not
 * given back before this process leaves. */
void loci_pool_start_renewer(loco_pool_t *pool)
{
    pthread_mutex_lock(&pool->renewing);
    if (pool->renewer == NULL
        && loci_worker_start(pool->rt, "loco-pool-lease", renew_leases, pool, &pool->renewer)
           != LOCO_OK)
        pool->renewer = NULL;
    pthread_mutex_unlock(&pool->renewing);
}

void loci_pool_stop_renewer(loco_pool_t *pool)
{
    pthread_mutex_lock(&pool->renewing);
    pool->renewed_enough = true;
    pthread_cond_signal(&pool->renewer_ends);
    pthread_mutex_unlock(&pool->renewing);
    loci_worker_join(pool->renewer);
}
