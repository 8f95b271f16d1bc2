/* SPDX-License-Identifier: BSD-3-Clause */

/* A client of a pool: its place, and the stores that it has open. */

#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog.h"
#include "messages.h"
#include "move/rma.h"
#include "observe/mistake.h"
#include "pool.h"
#include "store/store_life.h"

struct opened {
    struct opened *next;
    loco_pool_t *pool;
    loco_store_t *store;
    char name[LOCI_CATALOG_NAME];
};

struct loco_pool {
    loco_runtime_t *rt;
    char name[LOCO_POOL_NAME_MAX];
    int place, places;
    int agent;                  /* its peer, of which this is a holder and a user */
    struct loci_mem directory;
    pthread_mutex_t asking;     /* one question at a time on: */
    int fd;                     /* the agent sees by its end that the place is free */
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

static int fabric_of_agent(const char *pool, char *setting, size_t len)
{
    struct loci_pool_request hello = { .ask = LOCI_POOL_HELLO };
    struct loci_pool_reply reply;
    int fd = loci_pool_connect(NULL, "loco_runtime_attach", pool), status;

    if (fd < 0)
        return fd;
    status = loci_pool_ask(NULL, fd, &hello, &reply);
    close(fd);
    if (status == LOCO_OK)
        snprintf(setting, len, "LOCO_FABRIC=%s", reply.fabric);
    return status == LOCO_OK ? reply.status : status;
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
    status = fabric_of_agent(pool, fabric, sizeof fabric);
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

/* What the agent said of itself, into the pool. */
static int meet(loco_pool_t *pool, const struct loci_pool_reply *reply)
{
    loco_runtime_t *rt = pool->rt;
    int status;

    if (reply->address.node != rt->address.node)
        return loci_mistake(rt, LOCO_ERR_UNSUPPORTED, "loco_pool_open", pool->name,
                            "its agent counts as on another machine, by LOCO_NODE or its "
                            "container: a pool is of one machine");
    status = loci_peer_meet(rt, &reply->address, &pool->agent);
    if (status != LOCO_OK)
        return status;
    loci_peers_use(rt, &pool->agent, 1);
    pool->place = reply->place;
    pool->places = reply->places;
    status = reply->directory.len < LOCI_CATALOG_BYTES ? LOCO_ERR_PROTOCOL
             : loci_mem_import(rt, pool->agent, &reply->directory, &pool->directory);
    if (status == LOCO_OK && loci_mem_map(rt, &pool->directory) == NULL)
        status = loci_mistake(rt, LOCO_ERR_UNSUPPORTED, "loco_pool_open", pool->name,
                              "the agent's memory cannot be mapped here");
    return status;
}

static int enter(loco_pool_t *pool)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_ENTER, .address = pool->rt->address };
    struct loci_pool_reply reply;
    int status = loci_pool_ask(pool->rt, pool->fd, &request, &reply);

    if (status == LOCO_OK && reply.status != LOCO_OK)
        return loci_mistake(pool->rt, reply.status, "loco_pool_open", pool->name, "%s",
                            reply.text);
    return status == LOCO_OK ? meet(pool, &reply) : status;
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
    pool->fd = fd;
    pool->agent = -1;
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
    if (pool == NULL)
        return;
    if (pool->opened != NULL)
        LOCI_LOG(pool->rt, LOCO_LOG_WARN, "pool %s is closed with store %s open, which is valid no "
                 "more", pool->name, pool->opened->name);
    while (pool->opened != NULL)
        loco_store_destroy(pool->opened->store);
    if (pool->agent >= 0) {
        loci_mem_drop(pool->rt, &pool->directory);
        loci_peers_end_use(pool->rt, &pool->agent, 1);
        loci_peers_let_go(pool->rt, &pool->agent, 1);
    }
    loci_pool_leave(pool->fd);
    close(pool->fd);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->asking);
    free(pool);
}

int loco_pool_alive(const loco_pool_t *pool)
{
    return loci_peer_alive(pool->rt, pool->agent) ? LOCO_OK : LOCO_ERR_PEER_DEAD;
}

int loco_pool_places(const loco_pool_t *pool)
{
    return pool->places;
}

int loco_pool_place(const loco_pool_t *pool)
{
    return pool->place;
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

static int ask(loco_pool_t *pool, const char *call, enum loci_pool_ask what, const char *name,
               const loco_store_options_t *options)
{
    struct loci_pool_request request = { .ask = what };
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
    status = loci_pool_ask(pool->rt, pool->fd, &request, &reply);
    pthread_mutex_unlock(&pool->asking);
    if (status == LOCO_OK && reply.status != LOCO_OK)
        return loci_mistake(pool->rt, reply.status, call, name, "%s", reply.text);
    return status;
}

static int differs(const loco_pool_t *pool, const char *name, const char *what, uint64_t asked,
                   uint64_t is)
{
    return asked == 0 || asked == is ? LOCO_OK
           : loci_mistake(pool->rt, LOCO_ERR_MISMATCH, "loco_store_open", name,
                          "it is there and was made with %s %llu, not %llu", what,
                          (unsigned long long)is, (unsigned long long)asked);
}

/* The agent rounds nothing, so what was asked for is what is there. */
static int check_options(const loco_pool_t *pool, const char *name,
                         const loco_store_options_t *o, const struct loci_record *record)
{
    int status;

    if (o == NULL)
        return LOCO_OK;
    status = differs(pool, name, "bytes", o->bytes, record->bytes);
    if (status == LOCO_OK)
        status = differs(pool, name, "objects", o->objects, record->objects);
    if (status == LOCO_OK)
        status = differs(pool, name, "roots", o->roots, record->roots);
    return status != LOCO_OK ? status
           : differs(pool, name, "threads", (uint64_t)o->threads, record->threads);
}

/* The record of a store, which the agent makes if it is not there. */
static int find(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                struct loci_record *record)
{
    int status = loci_catalog_find(pool->rt, &pool->directory, name, record);

    if (status != LOCO_ERR_NOT_FOUND)
        return status;
    if (options == NULL)
        return loci_mistake(pool->rt, LOCO_ERR_NOT_FOUND, "loco_store_open", name,
                            "there is no such store in pool %s; options say how to make one",
                            pool->name);
    status = ask(pool, "loco_store_open", LOCI_POOL_MAKE, name, options);
    return status != LOCO_OK ? status
           : loci_catalog_find(pool->rt, &pool->directory, name, record);
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

static int use(loco_pool_t *pool, const char *name, const struct loci_record *record,
               loco_store_t **store)
{
    const int agent = 0;
    loco_store_options_t o = options_of(record);
    struct loco_group group;
    int status = record->members == (uint64_t)pool->places + 1
                 ? loci_pool_group(pool->rt, pool->agent, pool->places, pool->place, &group)
                 : LOCO_ERR_PROTOCOL;

    if (status != LOCO_OK)
        return status;
    o.hosts = &agent;
    o.nhosts = 1;
    status = loci_store_make(pool->rt, LOCI_STORE_USE, NULL, name, &group, &o, LOCI_DOMAIN_CPU,
                             store);
    free(group.peer);
    if (status != LOCO_OK)
        return status;
    status = loci_hosted_import((*store)->ep, 0, record->key);
    if (status != LOCO_OK)
        loco_store_destroy(*store);
    return status;
}

int loco_store_open(loco_pool_t *pool, const char *name, const loco_store_options_t *options,
                    loco_store_t **store)
{
    struct loci_record record;
    struct opened *o;
    int status;

    if (pool == NULL || store == NULL)
        return loci_null_arg(NULL, "loco_store_open", name, pool == NULL ? "pool" : "store");
    status = loci_catalog_check_name(pool->rt, "loco_store_open", name);
    if (status == LOCO_OK)
        status = find(pool, name, options, &record);
    if (status == LOCO_OK)
        status = check_options(pool, name, options, &record);
    if (status != LOCO_OK)
        return status;
    o = calloc(1, sizeof *o);
    if (o == NULL)
        return LOCO_ERR_NO_MEMORY;
    o->pool = pool;
    snprintf(o->name, sizeof o->name, "%s", name);
    pthread_mutex_lock(&pool->lock);
    status = is_open(pool, name)
             ? loci_mistake(pool->rt, LOCO_ERR_NAME, "loco_store_open", name,
                            "this process has it open already")
             : use(pool, name, &record, &o->store);
    if (status == LOCO_OK) {
        o->store->gone = forget;
        o->store->gone_ctx = o;
        o->next = pool->opened;
        pool->opened = o;
        *store = o->store;
    }
    pthread_mutex_unlock(&pool->lock);
    if (status != LOCO_OK)
        free(o);
    return status;
}

int loco_pool_remove(loco_pool_t *pool, const char *name)
{
    int status = loci_catalog_check_name(pool->rt, "loco_pool_remove", name);

    return status == LOCO_OK ? ask(pool, "loco_pool_remove", LOCI_POOL_REMOVE, name, NULL)
           : status;
}

int loco_pool_list(loco_pool_t *pool, loco_pool_visit_fn *visit, void *ctx)
{
    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        struct loci_record record;
        int status = loci_catalog_read(pool->rt, &pool->directory, i, &record);
        loco_store_options_t o;

        if (status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_RANGE)
            continue;
        if (status != LOCO_OK)
            return status;
        o = options_of(&record);
        status = visit(ctx, record.name, &o);
        if (status != 0)
            return status;
    }
    return LOCO_OK;
}
