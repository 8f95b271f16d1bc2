/* SPDX-License-Identifier: BSD-3-Clause */

/* A client of a pool: its place, and the stores that it has open. */

#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "catalog.h"
#include "move/rma.h"
#include "observe/mistake.h"
#include "observe/observe.h"
#include "pool.h"
#include "pool_ways.h"
#include "store/store_life.h"
#include "streams/mailbox.h"
#include "wait.h"

#define MAKING INT64_C(10000000000)     /* ns; as long as others make it and remove it */
#define PAUSE 1000000

struct loci_pool_opened {
    struct loci_pool_opened *next;
    loco_pool_t *pool;
    loco_store_t *store;                /* this, */
    loco_mailbox_t *box;                /* or this */
    struct loci_pool_grant *grant;      /* NULL: none was needed */
    struct loci_pool_lent lent;         /* a store, as it is leased */
    char name[LOCI_CATALOG_NAME];
};

/* ---- coming ---- */

/* A runtime of its own, which shares nothing but the pool. */
static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

/* The connection, or a status. */
static int ask_agent(const char *pool, char *setting, size_t len, bool *several, bool *near)
{
    struct loci_pool_request hello = { .ask = LOCI_POOL_HELLO };
    struct loci_pool_reply reply;
    struct loci_pool_path path;
    int fd = loci_pool_connect_by(NULL, "loco_runtime_attach", pool, &path), status = LOCO_OK;

    if (fd < 0)
        return fd;
    if (!loci_pool_read_sign(path.lock, fd, &reply))
        status = loci_pool_ask(NULL, fd, &hello, &reply);
    if (status == LOCO_OK)
        status = reply.status;
    if (status != LOCO_OK) {
        close(fd);
        return status;
    }
    snprintf(setting, len, "LOCO_FABRIC=%s", reply.fabric);
    *several = reply.several != 0;
    *near = reply.near != 0;
    return fd;
}

/* For loco_pool_open(), which else would connect again. */
static void keep_connection(loco_runtime_t *rt, const char *pool, int fd)
{
    snprintf(rt->agent_pool, sizeof rt->agent_pool, "%s", pool);
    atomic_store_explicit(&rt->agent_fd, fd, memory_order_release);
}

/* The one that was kept, unless it is of another pool, another thread has it, or what was at its
 * other end has gone; -1. */
static int take_connection(loco_runtime_t *rt, const char *pool)
{
    struct pollfd end = { .events = POLLIN };
    int fd = atomic_load_explicit(&rt->agent_fd, memory_order_acquire);

    if (fd < 0 || strcmp(pool, rt->agent_pool) != 0
        || !atomic_compare_exchange_strong(&rt->agent_fd, &fd, -1))
        return -1;
    end.fd = fd;
    if (poll(&end, 1, 0) == 0)
        return fd;
    close(fd);
    return -1;
}

int loco_runtime_attach(const char *pool, const loco_attach_options_t *options,
                        loco_runtime_t **rt)
{
    static const loco_attach_options_t none = { .log = NULL };
    char fabric[64];
    size_t n = 0;
    const char **settings;
    struct loco_bootstrap boot = { .exchange = { .size = 1, .allgather = alone } };
    bool near;
    int status, fd;

    options = options == NULL ? &none : options;
    while (options->settings != NULL && options->settings[n] != NULL)
        n++;
    fd = ask_agent(pool, fabric, sizeof fabric, &boot.other_machines, &near);
    if (fd < 0)
        return fd;
    settings = calloc(n + 2, sizeof *settings);
    if (settings == NULL) {
        close(fd);
        return LOCO_ERR_NO_MEMORY;
    }
    settings[0] = fabric;
    for (size_t i = 0; i < n; i++)
        settings[i + 1] = options->settings[i];
    boot.settings = settings;
    boot.log = options->log;
    boot.log_ctx = options->log_ctx;
    boot.identity = loci_pool_identity();
    status = loci_runtime_open(&boot, NULL, near ? &loci_fabric_near : NULL, rt);
    free(settings);
    if (status == LOCO_OK)
        keep_connection(*rt, pool, fd);
    else
        close(fd);
    return status;
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
    } while (status == LOCO_OK && loci_pool_comes_free(pool, &reply, begun, &told));
    if (status == LOCO_OK && reply.status != LOCO_OK)
        return loci_mistake(pool->rt, reply.status, "loco_pool_open", pool->name, "%s",
                            reply.text);
    if (status == LOCO_OK && reply.address.node != pool->rt->address.node)
        return loci_mistake(pool->rt, LOCO_ERR_UNSUPPORTED, "loco_pool_open", pool->name,
                            "the agent of this machine counts as on another one, by LOCO_NODE or "
                            "its container");
    if (status == LOCO_OK)
        status = loci_pool_meet(pool, &pool->own, &reply);
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
    fd = name == NULL ? -1 : take_connection(rt, name);
    if (fd < 0)
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
    pool->own.peer = pool->own.lease.peer = -1;
    snprintf(pool->name, sizeof pool->name, "%s", name);
    pthread_mutex_init(&pool->asking, NULL);
    pthread_cond_init(&pool->ends, NULL);
    pthread_mutex_init(&pool->renewing, NULL);
    pthread_cond_init(&pool->renewer_ends, NULL);
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
    struct loci_pool_host *h;

    if (pool == NULL)
        return;
    loci_pool_stop_mover(pool);
    if (pool->opened != NULL)
        LOCI_LOG(pool->rt, LOCO_LOG_WARN, "pool %s is closed with %s %s open, which is no "
                 "longer valid", pool->name, pool->opened->store != NULL ? "store" : "mailbox",
                 pool->opened->name);
    while (pool->opened != NULL) {
        if (pool->opened->store != NULL)
            loco_store_destroy(pool->opened->store);
        else
            loco_mailbox_destroy(pool->opened->box);
    }
    loci_pool_stop_renewer(pool);
    while ((h = pool->far) != NULL) {
        pool->far = h->next;
        loci_pool_leave_host(pool, h);
        free(h);
    }
    if (pool->ports)
        loci_port_detach(pool->rt);
    loci_pool_leave_host(pool, &pool->own);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->ends);
    pthread_mutex_destroy(&pool->renewing);
    pthread_cond_destroy(&pool->renewer_ends);
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
    struct loci_pool_opened *o = ctx, **at;

    loci_pool_lease_drop(&o->lent);
    pthread_mutex_lock(&o->pool->lock);
    for (at = &o->pool->opened; *at != o; at = &(*at)->next)
        ;
    *at = o->next;
    pthread_mutex_unlock(&o->pool->lock);
    loci_pool_ungrant(o->pool, o->grant);
    free(o);
}

/* Under the lock. */
static bool is_open(const loco_pool_t *pool, const char *name)
{
    for (const struct loci_pool_opened *o = pool->opened; o != NULL; o = o->next)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

/* The agent of that identity; or, with 0, of the machine of that name, or of this one. `wanted`:
 * what is about to be opened there, or NULL. */
static int find_host(loco_pool_t *pool, const char *call, uint64_t identity, const char *machine,
                     const struct loci_record *wanted, struct loci_pool_host **out)
{
    struct loci_agent_record agent = { .identity = pool->own.identity };
    int status = LOCO_OK;

    if (identity != 0 ? identity != pool->own.identity : machine != NULL)
        status = loci_catalog_find_agent(pool->rt, &pool->own.table, identity, machine, &agent);
    if (status != LOCO_OK)
        return loci_mistake(pool->rt, status, call, machine,
                            "the pool has no agent on that machine: loco-agent status");
    pthread_mutex_lock(&pool->asking);
    status = loci_pool_host_of(pool, &agent, wanted, out);
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

static int ask(loco_pool_t *pool, struct loci_pool_host *h, const char *call,
               enum loci_pool_ask what, const char *name, const struct wanted *w)
{
    const loco_store_options_t *options = w == NULL ? NULL : w->options;
    struct loci_pool_request request = { .ask = what, .kind = w == NULL ? 0 : w->kind };
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
    status = loci_pool_ask_host(pool, h, &request, &reply);
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

static void count_lookup(loco_pool_t *pool, const struct loci_pool_host *h)
{
    if (h->by_port)
        loci_stat(pool->rt, LOCI_STAT_PORT + LOCI_STATS_PORT_LOOKUPS, 1);
}

/* What the directory says here may be old. What the store's own agent has is right: its table's
 * version of the record, and where that has changed, what it has by that name. */
static int confirm(loco_pool_t *pool, const struct wanted *w, const char *name,
                   struct loci_record *record, struct loci_pool_host **out)
{
    struct loci_pool_host *h = &pool->own;
    int status = LOCO_OK, current = 1;

    if (record->lost != 0)
        return loci_mistake(pool->rt, LOCO_ERR_PEER_DEAD, w->call, name,
                            "it is kept by an agent that is out of reach: loco-agent status says "
                            "which");
    if (record->host != pool->own.identity)
        status = find_host(pool, w->call, record->host, NULL, record, &h);
    if (status == LOCO_OK)
        current = loci_catalog_is_current(pool->rt, &h->table, record);
    count_lookup(pool, h);
    if (status == LOCO_OK && current == 0)
        status = loci_catalog_find(pool->rt, &h->table, name, record);
    *out = h;
    return status != LOCO_OK ? status : current < 0 ? current
           : record->host == h->identity ? LOCO_OK : LOCO_ERR_NOT_FOUND;
}

/* Where programs of this machine find it, and how it is. */
static int look_up(loco_pool_t *pool, const struct wanted *w, const char *name,
                   struct loci_record *record, struct loci_pool_host **h)
{
    int status = loci_catalog_find(pool->rt, &pool->own.table, name, record);

    return status == LOCO_OK ? confirm(pool, w, name, record, h) : status;
}

/* Of the agent that was asked: the directory here hears of it later. */
static int look_up_there(loco_pool_t *pool, const struct wanted *w, const char *name,
                         struct loci_record *record, struct loci_pool_host **h)
{
    int status = loci_catalog_find(pool->rt, &(*h)->table, name, record);

    count_lookup(pool, *h);
    return status == LOCO_OK && record->host != (*h)->identity
           ? look_up(pool, w, name, record, h) : status;
}

/* An agent says that it is there when another makes it, or has just removed it: look again. */
static int make(loco_pool_t *pool, const struct wanted *w, const char *name,
                struct loci_record *record, struct loci_pool_host **out)
{
    int64_t until = loci_now(pool->rt) + MAKING;
    struct loci_pool_host *maker;
    int status = find_host(pool, w->call, 0, w->options->host, NULL, &maker);

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
                struct loci_record *record, struct loci_pool_host **h)
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

static int use_store(loco_pool_t *pool, struct loci_pool_host *h, const struct loco_group *group,
                     const char *name, const struct loci_record *record,
                     struct loci_pool_opened *o)
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
    if (status == LOCO_OK)
        status = loci_pool_lease_use(&h->lease, o->store, (uint32_t)record->lease,
                                     record->lease_version, &o->lent);
    if (status != LOCO_OK) {
        loco_store_destroy(o->store);
        return status;
    }
    o->store->gone = forget;
    o->store->gone_ctx = o;
    loci_pool_start_renewer(pool);
    return LOCO_OK;
}

static int use_mailbox(loco_pool_t *pool, const struct loco_group *group, const char *name,
                       const struct loci_record *record, bool receives, struct loci_pool_opened *o)
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

static int use(loco_pool_t *pool, const struct wanted *w, struct loci_pool_host *h,
               const char *name, const struct loci_record *record, struct loci_pool_opened *o)
{
    struct loco_group group;
    int status = record->members == (uint64_t)h->places + 1
                 ? loci_pool_group(pool->rt, h->peer, h->places, h->place, &group)
                 : LOCO_ERR_PROTOCOL;

    if (status != LOCO_OK)
        return status;
    status = w->kind == LOCI_KEPT_STORE
             ? use_store(pool, h, &group, name, record, o)
             : use_mailbox(pool, &group, name, record, w->receives, o);
    free(group.peer);
    return status;
}

/* Its record, and that it can be reached: a mailbox by a connection, as that rings. */
static int find_way(loco_pool_t *pool, const struct wanted *w, const char *name,
                    struct loci_record *record, struct loci_pool_host **h,
                    struct loci_pool_grant **grant)
{
    int64_t until = loci_now(pool->rt) + MAKING;
    int status;

    do {
        status = find(pool, w, name, record, h);
        if (status == LOCO_OK)
            status = check_options(pool, w, name, record);
        if (status != LOCO_OK)
            return status;
        status = loci_pool_grant(pool, *h, record, grant);
        if (status == LOCO_ERR_AGAIN)
            nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
    } while (status == LOCO_ERR_AGAIN && loci_now(pool->rt) < until);
    if (status == LOCO_OK && w->kind == LOCI_KEPT_MAILBOX)
        status = loci_pool_go_straight(pool, *h);
    return status;
}

/* LOCO_ERR_AGAIN: it was removed meanwhile. */
static int open_once(loco_pool_t *pool, const struct wanted *w, const char *name,
                     struct loci_pool_opened **out)
{
    struct loci_record record;
    struct loci_pool_grant *grant = NULL;
    struct loci_pool_opened *o;
    struct loci_pool_host *h;
    int status = find_way(pool, w, name, &record, &h, &grant);

    if (status != LOCO_OK)
        return status;
    o = calloc(1, sizeof *o);
    if (o == NULL) {
        loci_pool_ungrant(pool, grant);
        return LOCO_ERR_NO_MEMORY;
    }
    o->pool = pool;
    o->grant = grant;
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
    if (status != LOCO_OK) {
        loci_pool_ungrant(pool, grant);
        free(o);
    }
    *out = o;
    return status;
}

static int open_kept(loco_pool_t *pool, const struct wanted *w, const char *name,
                     struct loci_pool_opened **out)
{
    int64_t until = loci_now(pool->rt) + MAKING;
    int status = loci_catalog_check_name(pool->rt, w->call, name);

    if (status != LOCO_OK)
        return status;
    while ((status = open_once(pool, w, name, out)) == LOCO_ERR_AGAIN
           && loci_now(pool->rt) < until)
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL);
    return status;
}

int loco_store_open(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                    loco_store_t **store)
{
    const struct wanted w = { .call = "loco_store_open", .kind = LOCI_KEPT_STORE,
                              .options = options };
    struct loci_pool_opened *o;
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
    struct loci_pool_opened *o;
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
    struct loci_pool_host *h = &pool->own;
    int status = loci_catalog_check_name(pool->rt, "loco_pool_remove", name);

    if (status == LOCO_OK)
        status = loci_catalog_find(pool->rt, &pool->own.table, name, &record);
    if (status == LOCO_OK && record.lost == 0 && record.host != pool->own.identity)
        status = find_host(pool, "loco_pool_remove", record.host, NULL, NULL, &h);
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
