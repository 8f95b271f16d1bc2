/* SPDX-License-Identifier: BSD-3-Clause */

/* A client of a pool: its place, and the stores that it has open. */

#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "catalog.h"
#include "messages.h"
#include "move/rma.h"
#include "observe/mistake.h"
#include "pool.h"
#include "store/store_life.h"
#include "streams/mailbox.h"
#include "wait.h"

#define MAKING INT64_C(10000000000)     /* ns; as long as others make it and remove it */
#define PAUSE 1000000
#define LEAVING_LOOK 5000000            /* ns */
#define LEAVING_TELL INT64_C(1000000000)
#define LEAVING_PATIENCE INT64_C(10000000000)

/* An agent that this process has a place at: that of its machine, or one of another machine that it
 * has stores of. */
struct host {
    struct host *next;
    uint64_t identity;
    int fd;                     /* the agent sees by its end that the place is free */
    int peer;                   /* of which this is a holder and a user; -1: not met yet */
    int place, places;
    struct loci_mem table;      /* its directory */
    struct loci_pool_session session;   /* of another machine */
};

struct opened {
    struct opened *next;
    loco_pool_t *pool;
    loco_store_t *store;                /* this, */
    loco_mailbox_t *box;                /* or this */
    char name[LOCI_CATALOG_NAME];
};

struct loco_pool {
    loco_runtime_t *rt;
    char name[LOCO_POOL_NAME_MAX];
    struct host own;            /* the agent of this machine */
    bool several;               /* there are others, */
    uint64_t secret[2];         /* and what they want to be told */
    pthread_mutex_t asking;     /* one question at a time; and the list of hosts: */
    struct host *far;
    pthread_mutex_t lock;       /* of the list */
    struct opened *opened;
};

/* ---- coming ---- */

/* A runtime of its own, which shares nothing but the pool. */
static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static int ask_agent(const char *pool, char *setting, size_t len, bool *several)
{
    struct loci_pool_request hello = { .ask = LOCI_POOL_HELLO };
    struct loci_pool_reply reply;
    int fd = loci_pool_connect(NULL, "loco_runtime_attach", pool), status;

    if (fd < 0)
        return fd;
    status = loci_pool_ask(NULL, fd, &hello, &reply);
    close(fd);
    if (status != LOCO_OK)
        return status;
    snprintf(setting, len, "LOCO_FABRIC=%s", reply.fabric);
    *several = reply.several != 0;
    return reply.status;
}

int loco_runtime_attach(const char *pool, const loco_attach_options_t *options,
                        loco_runtime_t **rt)
{
    static const loco_attach_options_t none = { .log = NULL };
    char fabric[64];
    size_t n = 0;
    const char **settings;
    struct loco_bootstrap boot = { .exchange = { .size = 1, .allgather = alone } };
    int status;

    options = options == NULL ? &none : options;
    while (options->settings != NULL && options->settings[n] != NULL)
        n++;
    status = ask_agent(pool, fabric, sizeof fabric, &boot.other_machines);
    if (status != LOCO_OK)
        return status;
    settings = calloc(n + 2, sizeof *settings);
    if (settings == NULL)
        return LOCO_ERR_NO_MEMORY;
    settings[0] = fabric;
    for (size_t i = 0; i < n; i++)
        settings[i + 1] = options->settings[i];
    boot.settings = settings;
    boot.log = options->log;
    boot.log_ctx = options->log_ctx;
    boot.identity = loci_pool_identity();
    status = loco_runtime_open(&boot, rt);
    free(settings);
    return status;
}

/* What an agent has said of itself when it gave a place. */
static int meet(loco_pool_t *pool, struct host *h, const struct loci_pool_reply *reply)
{
    loco_runtime_t *rt = pool->rt;
    int status = loci_peer_meet(rt, &reply->address, &h->peer);

    if (status != LOCO_OK) {
        h->peer = -1;
        return status;
    }
    loci_peers_use(rt, &h->peer, 1);
    h->identity = reply->identity;
    h->place = reply->place;
    h->places = reply->places;
    return reply->directory.len < LOCI_CATALOG_BYTES ? LOCO_ERR_PROTOCOL
           : loci_mem_import(rt, h->peer, &reply->directory, &h->table);
}

static void leave(loco_pool_t *pool, struct host *h)
{
    /* What was written is there before others have the place. */
    if (h->peer >= 0 && h != &pool->own && loci_peer_alive(pool->rt, h->peer))
        (void)loci_fence_peer(pool->rt, LOCO_FENCE_PROCESS, h->peer);
    if (h->peer >= 0) {
        loci_mem_drop(pool->rt, &h->table);
        loci_peers_end_use(pool->rt, &h->peer, 1);
        loci_peers_let_go(pool->rt, &h->peer, 1);
    }
    if (h->fd < 0)
        return;
    /* Of another machine the end of the connection says it, in order behind what was asked. */
    loci_pool_leave(h->fd);
    close(h->fd);
}

/* Whether a place is vacant soon, for the agent is cleaning up after those who had it: then ask
 * again. Waits a moment. */
static bool comes_free(loco_pool_t *pool, const struct loci_pool_reply *reply, int64_t begun,
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

static int enter(loco_pool_t *pool)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_ENTER, .address = pool->rt->address };
    struct loci_pool_reply reply;
    int64_t begun = loci_now(pool->rt);
    bool told = false;
    int status;

    do {
        status = loci_pool_ask(pool->rt, pool->own.fd, &request, &reply);
    } while (status == LOCO_OK && comes_free(pool, &reply, begun, &told));
    if (status == LOCO_OK && reply.status != LOCO_OK)
        return loci_mistake(pool->rt, reply.status, "loco_pool_open", pool->name, "%s",
                            reply.text);
    if (status == LOCO_OK && reply.address.node != pool->rt->address.node)
        return loci_mistake(pool->rt, LOCO_ERR_UNSUPPORTED, "loco_pool_open", pool->name,
                            "the agent of this machine counts as on another one, by LOCO_NODE or "
                            "its container");
    if (status == LOCO_OK)
        status = meet(pool, &pool->own, &reply);
    if (status == LOCO_OK && loci_mem_map(pool->rt, &pool->own.table) == NULL)
        status = loci_mistake(pool->rt, LOCO_ERR_UNSUPPORTED, "loco_pool_open", pool->name,
                              "the agent's memory cannot be mapped here");
    pool->several = reply.several != 0;
    memcpy(pool->secret, reply.secret, sizeof pool->secret);
    return status;
}

int loco_pool_open(loco_runtime_t *rt, const char *name, loco_pool_t **out)
{
    loco_pool_t *pool;
    int fd, status;

    if (rt == NULL || out == NULL)
        return loci_null_arg(rt, "loco_pool_open", name, rt == NULL ? "rt" : "pool");
    fd = loci_pool_connect(rt, "loco_pool_open", name);
    if (fd < 0)
        return fd;
    pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        close(fd);
        return LOCO_ERR_NO_MEMORY;
    }
    pool->rt = rt;
    pool->own.fd = fd;
    pool->own.peer = -1;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    pthread_mutex_init(&pool->asking, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    status = enter(pool);
    if (status != LOCO_OK) {
        loco_pool_close(pool);
        return status;
    }
    *out = pool;
    return LOCO_OK;
}

/* The stores first: what they have under way is over then, and the place can be given away. */
void loco_pool_close(loco_pool_t *pool)
{
    struct host *h;

    if (pool == NULL)
        return;
    if (pool->opened != NULL)
        LOCI_LOG(pool->rt, LOCO_LOG_WARN, "pool %s is closed with %s %s open, which is valid no "
                 "more", pool->name, pool->opened->store != NULL ? "store" : "mailbox",
                 pool->opened->name);
    while (pool->opened != NULL) {
        if (pool->opened->store != NULL)
            loco_store_destroy(pool->opened->store);
        else
            loco_mailbox_destroy(pool->opened->box);
    }
    while ((h = pool->far) != NULL) {
        pool->far = h->next;
        leave(pool, h);
        free(h);
    }
    leave(pool, &pool->own);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->asking);
    free(pool);
}

int loco_pool_alive(const loco_pool_t *pool)
{
    return loci_peer_alive(pool->rt, pool->own.peer) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

int loco_pool_places(const loco_pool_t *pool)
{
    return pool->own.places;
}

int loco_pool_place(const loco_pool_t *pool)
{
    return pool->own.place;
}

/* ---- stores ---- */

static void forget(void *ctx)
{
    struct opened *o = ctx, **at;

    pthread_mutex_lock(&o->pool->lock);
    for (at = &o->pool->opened; *at != o; at = &(*at)->next)
        ;
    *at = o->next;
    pthread_mutex_unlock(&o->pool->lock);
    free(o);
}

/* Under the lock. */
static bool is_open(const loco_pool_t *pool, const char *name)
{
    for (const struct opened *o = pool->opened; o != NULL; o = o->next)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
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

static int enter_far(loco_pool_t *pool, struct host *h, const struct loci_agent_record *agent)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_ENTER, .address = pool->rt->address };
    struct patience early = { .rt = pool->rt,
                              .until = loci_now(pool->rt) + 2 * LOCI_POOL_PATIENCE };
    struct loci_pool_reply reply;
    int64_t begun = loci_now(pool->rt);
    bool told = false;
    int status;

    loci_pool_session(&h->session, pool->name, pool->secret);
    h->fd = loci_pool_dial(pool->rt, LOCO_LOG_ERROR, agent->place, LOCI_TCP_PLACES,
                           LOCI_POOL_CLIENT, &h->session);
    if (h->fd < 0)
        return h->fd;
    do {
        status = loci_pool_ask_far(pool->rt, h->fd, &h->session, &request, &reply, is_early,
                                   &early);
    } while (status == LOCO_OK && comes_free(pool, &reply, begun, &told));
    if (status == LOCO_OK && reply.status != LOCO_OK)
        return loci_mistake(pool->rt, reply.status, "loco_store_open", NULL,
                            "the agent of %.64s: %s", agent->machine, reply.text);
    if (status == LOCO_OK && reply.identity != agent->identity)
        return LOCO_ERR_PEER_DEAD;      /* another one is there since; the directory hears of it */
    return status == LOCO_OK ? meet(pool, h, &reply) : status;
}

/* Under `asking`. One that has died is another agent when it is back. */
static int host_of(loco_pool_t *pool, const struct loci_agent_record *agent, struct host **out)
{
    struct host *h = pool->far;
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
        h->peer = h->fd = -1;
        status = enter_far(pool, h, agent);
        if (status != LOCO_OK) {
            leave(pool, h);
            free(h);
            return status;
        }
        h->next = pool->far;
        pool->far = h;
    }
    *out = h;
    return loci_peer_alive(pool->rt, h->peer) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

/* The agent of that identity; or, with 0, of the machine of that name, or of this one. */
static int find_host(loco_pool_t *pool, const char *call, uint64_t identity, const char *machine,
                     struct host **out)
{
    struct loci_agent_record agent = { .identity = pool->own.identity };
    int status = LOCO_OK;

    if (identity != 0 ? identity != pool->own.identity : machine != NULL)
        status = loci_catalog_find_agent(pool->rt, &pool->own.table, identity, machine, &agent);
    if (status != LOCO_OK)
        return loci_mistake(pool->rt, status, call, machine,
                            "the pool has no agent on that machine: loco-agent status");
    pthread_mutex_lock(&pool->asking);
    status = host_of(pool, &agent, out);
    pthread_mutex_unlock(&pool->asking);
    return status != LOCO_ERR_PEER_DEAD ? status
           : loci_mistake(pool->rt, status, call, machine, "the agent of %.64s does not answer",
                          agent.machine);
}

/* ---- questions ---- */

/* What is to be opened. */
struct wanted {
    const char *call;
    enum loci_kept_kind kind;
    const loco_store_options_t *options;        /* NULL: only if it is there */
    bool receives;                              /* from a mailbox */
};

static int ask(loco_pool_t *pool, struct host *h, const char *call, enum loci_pool_ask what,
               const char *name, const struct wanted *w)
{
    const loco_store_options_t *options = w == NULL ? NULL : w->options;
    struct loci_pool_request request = { .ask = what, .kind = w == NULL ? 0 : w->kind };
    struct patience while_there = { .rt = pool->rt, .peer = h->peer };
    struct loci_pool_reply reply;
    int status;

    snprintf(request.name, sizeof request.name, "%s", name);
    if (options != NULL) {
        request.bytes = options->bytes;
        request.objects = options->objects;
        request.roots = options->roots;
        request.threads = (uint64_t)options->threads;
    }
    pthread_mutex_lock(&pool->asking);
    status = h == &pool->own ? loci_pool_ask(pool->rt, h->fd, &request, &reply)
             : loci_pool_ask_far(pool->rt, h->fd, &h->session, &request, &reply, is_there,
                                 &while_there);
    pthread_mutex_unlock(&pool->asking);
    if (status == LOCO_OK && reply.status != LOCO_OK && reply.status != LOCO_ERR_AGAIN)
        return loci_mistake(pool->rt, reply.status, call, name, "%s", reply.text);
    return status == LOCO_OK ? reply.status : status;
}

static int differs(const loco_pool_t *pool, const struct wanted *w, const char *name,
                   const char *what, uint64_t asked, uint64_t is)
{
    return asked == 0 || asked == is ? LOCO_OK
           : loci_mistake(pool->rt, LOCO_ERR_MISMATCH, w->call, name,
                          "it is there and was made with %s %llu, not %llu", what,
                          (unsigned long long)is, (unsigned long long)asked);
}

/* The agent rounds nothing, so what was asked for is what is there. */
static int check_options(const loco_pool_t *pool, const struct wanted *w, const char *name,
                         const struct loci_record *record)
{
    const loco_store_options_t *o = w->options;
    int status;

    if (record->kind != w->kind)
        return loci_mistake(pool->rt, LOCO_ERR_MISMATCH, w->call, name, "it is there and is a %s",
                            record->kind == LOCI_KEPT_STORE ? "store" : "mailbox");
    if (o == NULL)
        return LOCO_OK;
    status = differs(pool, w, name, "bytes", o->bytes, record->bytes);
    if (status == LOCO_OK)
        status = differs(pool, w, name, "objects", o->objects, record->objects);
    if (status == LOCO_OK)
        status = differs(pool, w, name, "roots", o->roots, record->roots);
    return status != LOCO_OK ? status
           : differs(pool, w, name, "threads", (uint64_t)o->threads, record->threads);
}

/* What the directory says here may be old. What the store's own agent has is right: its table's
 * version of the record, and where that has changed, what it has by that name. */
static int confirm(loco_pool_t *pool, const struct wanted *w, const char *name,
                   struct loci_record *record, struct host **out)
{
    struct host *h = &pool->own;
    int status = LOCO_OK, current = 1;

    if (record->lost != 0)
        return loci_mistake(pool->rt, LOCO_ERR_PEER_DEAD, w->call, name,
                            "it is kept by an agent that is out of reach: loco-agent status says "
                            "which");
    if (record->host != pool->own.identity)
        status = find_host(pool, w->call, record->host, NULL, &h);
    if (status == LOCO_OK)
        current = loci_catalog_is_current(pool->rt, &h->table, record);
    if (status == LOCO_OK && current == 0)
        status = loci_catalog_find(pool->rt, &h->table, name, record);
    *out = h;
    return status != LOCO_OK ? status : current < 0 ? current
           : record->host == h->identity ? LOCO_OK : LOCO_ERR_NOT_FOUND;
}

/* Where programs of this machine find it, and how it is. */
static int look_up(loco_pool_t *pool, const struct wanted *w, const char *name,
                   struct loci_record *record, struct host **h)
{
    int status = loci_catalog_find(pool->rt, &pool->own.table, name, record);

    return status == LOCO_OK ? confirm(pool, w, name, record, h) : status;
}

/* Of the agent that was asked: the directory here hears of it later. */
static int look_up_there(loco_pool_t *pool, const struct wanted *w, const char *name,
                         struct loci_record *record, struct host **h)
{
    int status = loci_catalog_find(pool->rt, &(*h)->table, name, record);

    return status == LOCO_OK && record->host != (*h)->identity
           ? look_up(pool, w, name, record, h) : status;
}

/* An agent says that it is there when another makes it, or has just removed it: look again. */
static int make(loco_pool_t *pool, const struct wanted *w, const char *name,
                struct loci_record *record, struct host **out)
{
    int64_t until = loci_now(pool->rt) + MAKING;
    struct host *maker;
    int status = find_host(pool, w->call, 0, w->options->host, &maker);

    while (status == LOCO_OK) {
        status = ask(pool, maker, w->call, LOCI_POOL_MAKE, name, w);
        *out = maker;
        if (status == LOCO_OK)
            status = look_up_there(pool, w, name, record, out);
        if (status != LOCO_ERR_AGAIN && status != LOCO_ERR_NOT_FOUND)
            return status;
        if (loci_now(pool->rt) > until)
            return LOCO_ERR_AGAIN;
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
        status = LOCO_OK;
    }
    return status;
}

/* The record of what is wanted, which an agent makes if it is not there. */
static int find(loco_pool_t *pool, const struct wanted *w, const char *name,
                struct loci_record *record, struct host **h)
{
    int status = look_up(pool, w, name, record, h);

    if (status != LOCO_ERR_NOT_FOUND)
        return status;
    if (w->options == NULL)
        return loci_mistake(pool->rt, LOCO_ERR_NOT_FOUND, w->call, name,
                            "there is no such %s in pool %s; options say how to make one",
                            w->kind == LOCI_KEPT_STORE ? "store" : "mailbox", pool->name);
    return make(pool, w, name, record, h);
}

static loco_store_options_t options_of(const struct loci_record *record)
{
    return (loco_store_options_t){ .bytes = record->bytes, .objects = record->objects,
                                   .roots = record->roots, .threads = (int)record->threads };
}

int loci_pool_group(loco_runtime_t *rt, int agent, int places, int place,
                    struct loco_group *group)
{
    *group = (struct loco_group){ .rt = rt, .size = places + 1, .rank = place + 1 };
    group->peer = malloc((size_t)group->size * sizeof group->peer[0]);
    if (group->peer == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int i = 0; i < group->size; i++)
        group->peer[i] = LOCI_VACANT;
    group->peer[0] = agent;
    group->peer[place + 1] = LOCI_SELF;
    return LOCO_OK;
}

static int use_store(loco_pool_t *pool, const struct loco_group *group, const char *name,
                     const struct loci_record *record, struct opened *o)
{
    const int agent = 0;
    loco_store_options_t options = options_of(record);
    int status;

    options.hosts = &agent;
    options.nhosts = 1;
    status = loci_store_make(pool->rt, LOCI_STORE_USE, NULL, name, group, &options,
                             (enum loci_domain)record->domain, &o->store);
    if (status != LOCO_OK)
        return status;
    status = loci_hosted_import(o->store->ep, 0, record->key);
    if (status != LOCO_OK) {
        loco_store_destroy(o->store);
        return status;
    }
    o->store->gone = forget;
    o->store->gone_ctx = o;
    return LOCO_OK;
}

static int use_mailbox(loco_pool_t *pool, const struct loco_group *group, const char *name,
                       const struct loci_record *record, bool receives, struct opened *o)
{
    const loco_mailbox_options_t options = { .ring_bytes = record->bytes,
                                             .straight = record->bytes };
    int status = loci_mailbox_make(pool->rt, LOCI_MAILBOX_USE, NULL, name, group, -1, &options,
                                   (enum loci_domain)record->domain, &o->box);

    if (status != LOCO_OK)
        return status;
    status = loci_hosted_import(o->box->ep, 0, record->key);
    if (status == LOCO_OK)
        status = loci_mailbox_start(o->box, receives);
    if (status != LOCO_OK) {
        loco_mailbox_destroy(o->box);
        return status;
    }
    o->box->gone = forget;
    o->box->gone_ctx = o;
    return LOCO_OK;
}

static int use(loco_pool_t *pool, const struct wanted *w, const struct host *h, const char *name,
               const struct loci_record *record, struct opened *o)
{
    struct loco_group group;
    int status = record->members == (uint64_t)h->places + 1
                 ? loci_pool_group(pool->rt, h->peer, h->places, h->place, &group)
                 : LOCO_ERR_PROTOCOL;

    if (status != LOCO_OK)
        return status;
    status = w->kind == LOCI_KEPT_STORE
             ? use_store(pool, &group, name, record, o)
             : use_mailbox(pool, &group, name, record, w->receives, o);
    free(group.peer);
    return status;
}

static int open_kept(loco_pool_t *pool, const struct wanted *w, const char *name,
                     struct opened **out)
{
    struct loci_record record;
    struct opened *o;
    struct host *h;
    int status = loci_catalog_check_name(pool->rt, w->call, name);

    if (status == LOCO_OK)
        status = find(pool, w, name, &record, &h);
    if (status == LOCO_OK)
        status = check_options(pool, w, name, &record);
    if (status != LOCO_OK)
        return status;
    o = calloc(1, sizeof *o);
    if (o == NULL)
        return LOCO_ERR_NO_MEMORY;
    o->pool = pool;
    snprintf(o->name, sizeof o->name, "%s", name);
    pthread_mutex_lock(&pool->lock);
    status = is_open(pool, name)
             ? loci_mistake(pool->rt, LOCO_ERR_NAME, w->call, name,
                            "this process has it open already")
             : use(pool, w, h, name, &record, o);
    if (status == LOCO_OK) {
        o->next = pool->opened;
        pool->opened = o;
    }
    pthread_mutex_unlock(&pool->lock);
    if (status != LOCO_OK)
        free(o);
    *out = o;
    return status;
}

int loco_store_open(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                    loco_store_t **store)
{
    const struct wanted w = { .call = "loco_store_open", .kind = LOCI_KEPT_STORE,
                              .options = options };
    struct opened *o;
    int status;

    if (pool == NULL || store == NULL)
        return loci_null_arg(NULL, w.call, name, pool == NULL ? "pool" : "store");
    status = open_kept(pool, &w, name, &o);
    if (status == LOCO_OK)
        *store = o->store;
    return status;
}

int loco_mailbox_open(loco_pool_t *pool, const char *name, const loco_mailbox_options_t *options,
                      int flags, loco_mailbox_t **box)
{
    const loco_store_options_t as_made = { .bytes = options == NULL ? 0 : options->ring_bytes,
                                           .host = options == NULL ? NULL : options->host };
    const struct wanted w = { .call = "loco_mailbox_open", .kind = LOCI_KEPT_MAILBOX,
                              .options = options == NULL ? NULL : &as_made,
                              .receives = (flags & LOCO_MAILBOX_RECEIVE) != 0 };
    struct opened *o;
    int status;

    if (pool == NULL || box == NULL)
        return loci_null_arg(NULL, w.call, name, pool == NULL ? "pool" : "box");
    if ((flags & ~LOCO_MAILBOX_RECEIVE) != 0)
        return loci_bad_arg(pool->rt, w.call, name, "flags", flags, "LOCO_MAILBOX_RECEIVE or 0");
    status = open_kept(pool, &w, name, &o);
    if (status == LOCO_OK)
        *box = o->box;
    return status;
}

/* A lost agent's is forgotten by this machine's, which tells the others. */
int loco_pool_remove(loco_pool_t *pool, const char *name)
{
    struct loci_record record;
    struct host *h = &pool->own;
    int status = loci_catalog_check_name(pool->rt, "loco_pool_remove", name);

    if (status == LOCO_OK)
        status = loci_catalog_find(pool->rt, &pool->own.table, name, &record);
    if (status == LOCO_OK && record.lost == 0 && record.host != pool->own.identity)
        status = find_host(pool, "loco_pool_remove", record.host, NULL, &h);
    return status == LOCO_OK || status == LOCO_ERR_NOT_FOUND
           ? ask(pool, h, "loco_pool_remove", LOCI_POOL_REMOVE, name, NULL) : status;
}

int loco_pool_list(loco_pool_t *pool, loco_pool_visit_fn *visit, void *ctx)
{
    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        struct loci_record record;
        int status = loci_catalog_read(pool->rt, &pool->own.table, i, &record);
        loco_store_options_t o;

        if (status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_RANGE)
            continue;
        if (status != LOCO_OK)
            return status;
        if (record.kind != LOCI_KEPT_STORE)
            continue;
        o = options_of(&record);
        status = visit(ctx, record.name, &o);
        if (status != 0)
            return status;
    }
    return LOCO_OK;
}
