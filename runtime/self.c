/* SPDX-License-Identifier: BSD-3-Clause */

/* The context of the current thread in a runtime.
 *
 * A context is made on a thread's first call and left behind, in the runtime's list, when the
 * thread ends; the next new thread adopts it with its lanes, so that neither unplaced writes nor
 * connections are lost. The list only grows while the runtime is open: readers need no lock. */

#include "config.h"

#include <stdlib.h>

#include "memory/memory.h"
#include "runtime.h"

/* Where the last call of this thread found its context. The cookie tells a runtime from an
 * earlier one that lay at the same address. It is so small that a program which loads this library
 * late has room for it among what is there from the start: no call to find it. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    const struct loco_runtime *rt;
    uint64_t cookie;
    struct loci_thread *thread;
} last;

static void thread_ends(void *context)
{
    struct loci_thread *thread = context;

    last.rt = NULL;
    /* Pairs with the acquire in adopt(): the next owner sees this one's slots and lanes. */
    atomic_store_explicit(&thread->in_use, false, memory_order_release);
}

static struct loci_thread *adopt(struct loco_runtime *rt)
{
    struct loci_thread *t = atomic_load_explicit(&rt->threads, memory_order_acquire);

    for (; t != NULL; t = t->next) {
        bool in_use = false;

        if (atomic_compare_exchange_strong_explicit(&t->in_use, &in_use, true,
                                                    memory_order_acquire, memory_order_relaxed))
            return t;
    }
    return NULL;
}

static struct loci_thread *make(struct loco_runtime *rt)
{
    struct loci_thread *t = calloc(1, sizeof *t);

    if (t == NULL)
        return NULL;
    t->lanes = calloc(LOCI_MAX_PEERS, sizeof t->lanes[0]);  /* far larger than what is touched */
    if (t->lanes == NULL) {
        free(t);
        return NULL;
    }
    t->rt = rt;
    atomic_store_explicit(&t->in_use, true, memory_order_relaxed);
    pthread_mutex_lock(&rt->threads_lock);
    t->next = atomic_load_explicit(&rt->threads, memory_order_relaxed);
    t->number = t->next != NULL ? t->next->number + 1 : 0;
    atomic_store_explicit(&rt->threads, t, memory_order_release);
    pthread_mutex_unlock(&rt->threads_lock);
    return t;
}

struct loci_thread *loci_thread_attach(struct loco_runtime *rt)
{
    struct loci_thread *t = adopt(rt);

    return t != NULL ? t : make(rt);
}

static struct loci_thread *find_self(struct loco_runtime *rt)
{
    struct loci_thread *t = pthread_getspecific(rt->thread_key);

    if (t == NULL) {
        t = loci_thread_attach(rt);
        if (t == NULL)
            return NULL;
        pthread_setspecific(rt->thread_key, t);
    }
    last.rt = rt;
    last.cookie = rt->cookie;
    last.thread = t;
    return t;
}

struct loci_thread *loci_self(struct loco_runtime *rt)
{
    if (rt->host.self != NULL)
        return rt->host.self(rt->host.ctx);
    if (last.rt == rt && last.cookie == rt->cookie)
        return last.thread;
    return find_self(rt);
}

int loci_threads_open(struct loco_runtime *rt)
{
    pthread_mutex_init(&rt->threads_lock, NULL);
    return pthread_key_create(&rt->thread_key, thread_ends) == 0 ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static void close_lanes(struct loci_thread *t)
{
    int lanes = atomic_load_explicit(&t->lane_peers, memory_order_relaxed);

    for (int i = 0; i < lanes; i++) {
        struct loci_lane *lane = atomic_load_explicit(&t->lanes[i], memory_order_relaxed);
        const struct loci_way *way;

        if (lane == NULL)
            continue;
        way = loci_lane_way(lane);
        if (way->ops->lane_close != NULL)
            way->ops->lane_close(way->fabric, lane);
        free(lane);
    }
    while (t->retired != NULL) {
        struct loci_lane *lane = t->retired;

        t->retired = lane->next_retired;
        free(lane);
    }
}

void loci_threads_close(struct loco_runtime *rt)
{
    /* Whoever waits from here on, for the fabric to close, has no lanes to poll. */
    struct loci_thread *t = atomic_exchange_explicit(&rt->threads, NULL, memory_order_acquire);

    pthread_key_delete(rt->thread_key);
    /* All lanes first: a fence of the process leaves slots of one thread on lanes of another. */
    for (struct loci_thread *each = t; each != NULL; each = each->next)
        close_lanes(each);
    while (t != NULL) {
        struct loci_thread *next = t->next;

        loci_memref_close(t);
        free((void *)t->lanes);
        free(t);
        t = next;
    }
    pthread_mutex_destroy(&rt->threads_lock);
}
