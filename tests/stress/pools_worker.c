/* SPDX-License-Identifier: BSD-3-Clause */

/* See pools.h. */

#include "config.h"

#include "pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "runtime.h"

#define BYTES (UINT64_C(48) << 20)
#define VALUE 256                       /* bytes, of what fills a store */

/* ---- the agent ---- */

static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static int peers_of(loco_runtime_t *rt)
{
    int n;

    pthread_mutex_lock(&rt->peers_lock);
    n = atomic_load(&rt->peer_count);
    for (const struct loci_peer *free = rt->free_peers; free != NULL; free = free->next_free)
        n--;
    pthread_mutex_unlock(&rt->peers_lock);
    return n;
}

int pools_agent(struct pools_shared *s)
{
    const struct loco_bootstrap boot = {
        .identity = 1, .exchange = { .size = 1, .allgather = alone }, .log = run_log,
    };
    const loco_agent_options_t options = { .pool = s->pool, .places = POOLS_PLACES };
    const struct timespec a_moment = { .tv_nsec = 2000000 };
    loco_runtime_t *rt;
    loco_agent_t *agent;

    if (loco_runtime_open(&boot, &rt) != LOCO_OK
        || loco_agent_start(rt, &options, &agent) != LOCO_OK)
        return 1;
    atomic_store(&s->agent_pid, (int)getpid());
    while (!atomic_load(&s->agent_stops)) {
        loco_agent_stats(agent, &s->stats);
        atomic_store(&s->agent_peers, peers_of(rt));
        atomic_fetch_add(&s->looks, 1);
        nanosleep(&a_moment, NULL);
    }
    loco_agent_stop(agent);
    loco_runtime_close(rt);
    return 0;
}

/* ---- a client ---- */

struct client {
    loco_runtime_t *rt;
    loco_pool_t *pool;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
};

static int enter(struct pools_shared *s, const char *store, uint64_t bytes, struct client *c)
{
    const loco_attach_options_t options = { .log = run_log };
    const loco_store_options_t how = { .bytes = bytes, .objects = bytes / 128, .threads = 1 };
    int status = loco_runtime_attach(s->pool, &options, &c->rt);

    if (status == LOCO_OK)
        status = loco_pool_open(c->rt, s->pool, &c->pool);
    if (status == LOCO_OK)
        status = loco_store_open(c->pool, store, &how, &c->store);
    if (status == LOCO_OK)
        status = loco_tx_open(c->store, &c->tx);
    return status;
}

static int come(struct pools_shared *s, struct client *c)
{
    int status = enter(s, "trees", BYTES, c);

    return status != LOCO_OK ? status
           : loco_tree_open(c->tx, loco_store_root(c->store, 0), NULL, &c->tree);
}

static void leave(struct client *c)
{
    loco_tree_close(c->tree);
    loco_tx_close(c->tx);
    loco_store_destroy(c->store);
    loco_pool_close(c->pool);
    loco_runtime_close(c->rt);
}

static int failed(struct pools_shared *s, const char *what, int status)
{
    atomic_fetch_add(&s->failed, 1);
    atomic_store(&s->last_status, status);
    fprintf(stderr, "pools: %s: %s\n", what, loco_strerror(status));
    return 1;
}

/* ---- workers ---- */

static loco_bytes_t key_of(int worker, uint64_t i, unsigned char room[8])
{
    return loco_key64((uint64_t)worker << 40 | i, room);
}

static int insert(struct pools_shared *s, struct client *c, int worker, uint64_t i)
{
    unsigned char room[8];
    loco_bytes_t key = key_of(worker, i, room);
    int status;

    atomic_store(&s->key[worker][i], KEY_INSERTING);
    status = loco_tree_insert(c->tree, key, loco_bytes(&i, sizeof i));
    if (status != LOCO_OK)
        return failed(s, "insert", status);
    atomic_store(&s->key[worker][i], KEY_THERE);
    return 0;
}

static int delete(struct pools_shared *s, struct client *c, int worker, uint64_t i)
{
    unsigned char room[8];
    loco_bytes_t key = key_of(worker, i, room);
    int status;

    if (atomic_load(&s->key[worker][i]) != KEY_THERE)
        return 0;
    atomic_store(&s->key[worker][i], KEY_DELETING);
    status = loco_tree_delete(c->tree, key);
    if (status != LOCO_OK)
        return failed(s, "delete", status);
    atomic_store(&s->key[worker][i], KEY_DELETED);
    return 0;
}

/* One that is there, again. */
static int put_again(struct pools_shared *s, struct client *c, int worker, uint64_t i)
{
    unsigned char room[8];
    int status = LOCO_OK;

    if (atomic_load(&s->key[worker][i]) == KEY_THERE)
        status = loco_tree_put(c->tree, key_of(worker, i, room), loco_bytes(&i, sizeof i));
    return status == LOCO_OK ? 0 : failed(s, "put", status);
}

int pools_work(struct pools_shared *s, int worker)
{
    struct client c = { 0 };
    uint64_t i = 0;
    int status = come(s, &c), result = 0;

    if (status != LOCO_OK)
        return failed(s, "a worker comes", status);
    while (i < POOLS_KEYS && atomic_load(&s->key[worker][i]) != KEY_NONE)
        i++;                            /* where the last one in its place was killed */
    for (; i < POOLS_KEYS && result == 0 && !atomic_load(&s->stop); i++) {
        result = insert(s, &c, worker, i);
        if (result == 0 && i % 4 == 3)
            result = delete(s, &c, worker, i - 2);
        atomic_fetch_add(&s->calls[worker], 1);
    }
    for (i = 0; result == 0 && !atomic_load(&s->stop); i = (i + 1) % POOLS_KEYS) {
        result = put_again(s, &c, worker, i);
        atomic_fetch_add(&s->calls[worker], 1);
    }
    leave(&c);
    return result;
}

static int64_t busy_so_far(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Keys that it has put before: what it takes is what others bring about. */
int pools_stay(struct pools_shared *s, int worker)
{
    struct client c = { 0 };
    int status = come(s, &c);

    for (uint64_t n = 0; status == LOCO_OK && !atomic_load(&s->stop); n++) {
        uint64_t i = n % 1000;
        unsigned char room[8];

        status = loco_tree_put(c.tree, key_of(worker, i, room), loco_bytes(&i, sizeof i));
        if (n % 100 != 99)
            continue;
        atomic_store(&s->busy[worker], busy_so_far());
        atomic_store(&s->calls[worker], n + 1);
        atomic_store(&s->member_peers[worker], peers_of(c.rt));
    }
    if (status != LOCO_OK)
        return failed(s, "one that stays", status);
    leave(&c);
    return 0;
}

int pools_visit(struct pools_shared *s, int number)
{
    uint64_t value = (uint64_t)number * 7, back = 0;
    unsigned char room[8];
    loco_bytes_t key = loco_key64(UINT64_C(1) << 60 | (uint64_t)number, room);
    struct client c = { 0 };
    size_t len;
    int status = come(s, &c);

    if (status == LOCO_OK)
        status = loco_tree_put(c.tree, key, loco_bytes(&value, sizeof value));
    if (status == LOCO_OK)
        status = loco_tree_get(c.tree, key, &back, sizeof back, &len);
    if (status == LOCO_OK && back != value)
        status = LOCO_ERR_DIFFERS;
    if (status == LOCO_OK)
        status = loco_tree_delete(c.tree, key);
    if (status != LOCO_OK)
        return failed(s, "a visitor", status);
    leave(&c);
    return 0;
}

/* ---- who looks ---- */

/* A key whose call was under way at a death may be there or not. */
int pools_check(struct pools_shared *s)
{
    struct client c = { 0 };
    int status = come(s, &c);

    if (status != LOCO_OK)
        return failed(s, "the checker comes", status);
    s->found = s->lost = s->back = 0;
    for (int worker = 0; worker < POOLS_WORKERS; worker++)
        for (uint64_t i = 0; i < POOLS_KEYS; i++) {
            unsigned char state = atomic_load(&s->key[worker][i]);
            unsigned char room[8];
            uint64_t value = 0;
            size_t len;

            if (state == KEY_NONE)
                break;
            status = loco_tree_get(c.tree, key_of(worker, i, room), &value, sizeof value, &len);
            if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
                return failed(s, "the checker's get", status);
            s->found += status == LOCO_OK && value == i;
            s->lost += state == KEY_THERE && (status != LOCO_OK || value != i);
            s->back += state == KEY_DELETED && status == LOCO_OK;
        }
    leave(&c);
    return 0;
}

/* How many objects a small store takes, which are freed again. */
int pools_fill(struct pools_shared *s)
{
    static loco_object_t object[100000];
    unsigned char value[VALUE] = { 1 };
    struct client c = { 0 };
    uint64_t n = 0, freed = 0;
    int status = enter(s, "small", UINT64_C(4) << 20, &c);

    while (status == LOCO_OK && n < 100000) {
        status = loco_tx_begin(c.tx);
        if (status == LOCO_OK)
            status = loco_tx_new(c.tx, LOCO_ANY_HOST, value, sizeof value, &object[n]);
        if (status == LOCO_OK)
            status = loco_tx_commit(c.tx);
        n += status == LOCO_OK;
    }
    if (status != LOCO_ERR_FULL)
        return failed(s, "filling", status);
    loco_tx_abort(c.tx);
    for (status = LOCO_OK; freed < n && status == LOCO_OK; freed++) {
        status = loco_tx_begin(c.tx);
        if (status == LOCO_OK)
            status = loco_tx_free(c.tx, object[freed]);
        if (status == LOCO_OK)
            status = loco_tx_commit(c.tx);
    }
    if (status != LOCO_OK)
        return failed(s, "freeing", status);
    s->room = n;
    leave(&c);
    return 0;
}

int pools_wait_for_death(struct pools_shared *s)
{
    struct client c = { 0 };
    unsigned char room[8];
    loco_bytes_t key = loco_key64(UINT64_C(1) << 61, room);
    int status = come(s, &c);

    atomic_store(&s->told, 1);          /* it is about to work */
    while (status == LOCO_OK)
        status = loco_tree_put(c.tree, key, key);
    atomic_store(&s->told_at, run_now());
    if (status != LOCO_ERR_PEER_DEAD || loco_pool_alive(c.pool) != LOCO_ERR_PEER_DEAD)
        return failed(s, "the agent's death", status);
    leave(&c);
    return 0;
}
