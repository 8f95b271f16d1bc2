/* SPDX-License-Identifier: BSD-3-Clause */

/* What a thread posts through. Made when it opens its first lane, and left, as the lanes are, to
 * the thread that adopts them. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs.h"

#define BYTES (VERBS_BLOCKS * VERBS_BLOCK + (VERBS_WORDS + 1) * VERBS_WORD)

/* ---- buffers ---- */

struct verbs_buffer *loci_verbs_buffer_take(struct verbs_thread *t, size_t len)
{
    struct verbs_buffer **list = len <= VERBS_WORD ? &t->words : &t->blocks, *buffer = *list;

    if (buffer == NULL)
        return NULL;
    *list = buffer->next;
    t->free_words -= buffer->is_word;
    t->free_blocks -= !buffer->is_word;
    return buffer;
}

void loci_verbs_buffer_give(struct verbs_thread *t, struct verbs_buffer *buffer)
{
    struct verbs_buffer **list = buffer->is_word ? &t->words : &t->blocks;

    buffer->next = *list;
    *list = buffer;
    t->free_words += buffer->is_word;
    t->free_blocks += !buffer->is_word;
}

static bool make_buffers(struct verbs_thread *t)
{
    unsigned char *at;

    t->memory = aligned_alloc(4096, BYTES);
    t->buffers = calloc(VERBS_BLOCKS + VERBS_WORDS, sizeof t->buffers[0]);
    if (t->memory == NULL || t->buffers == NULL)
        return false;
    at = t->memory;
    for (int i = 0; i < VERBS_BLOCKS + VERBS_WORDS; i++) {
        struct verbs_buffer *buffer = &t->buffers[i];

        buffer->base = at;
        buffer->is_word = i >= VERBS_BLOCKS;
        at += buffer->is_word ? VERBS_WORD : VERBS_BLOCK;
        loci_verbs_buffer_give(t, buffer);
    }
    t->placed = at;
    t->mr = ibv_reg_mr(t->fabric->pd, t->memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    return t->mr != NULL;
}

/* ---- life ---- */

static void free_thread(struct verbs_thread *t)
{
    if (t->cq != NULL)
        ibv_destroy_cq(t->cq);
    if (t->pd != NULL && t->pd != t->fabric->pd)
        ibv_dealloc_pd(t->pd);
    if (t->td != NULL)
        ibv_dealloc_td(t->td);
    if (t->mr != NULL)
        ibv_dereg_mr(t->mr);
    free(t->memory);
    free(t->buffers);
    free(t);
}

/* A thread domain gives the thread's queue pairs a doorbell of their own. Devices have few. */
static bool make_domain(struct verbs_thread *t)
{
    struct ibv_td_init_attr none = { 0 };
    struct ibv_parent_domain_init_attr attr = { .pd = t->fabric->pd };

    t->td = ibv_alloc_td(t->fabric->context, &none);
    t->pd = t->fabric->pd;
    if (t->td == NULL)
        return false;
    attr.td = t->td;
    t->pd = ibv_alloc_parent_domain(t->fabric->context, &attr);
    if (t->pd != NULL)
        return true;
    t->pd = t->fabric->pd;
    ibv_dealloc_td(t->td);
    t->td = NULL;
    return false;
}

/* Once: of a device that has none, or has no more, where two threads share what there is. */
static void say_shared(struct verbs_fabric *f)
{
    unsigned own = atomic_load_explicit(&f->domains, memory_order_relaxed);

    if (atomic_fetch_add_explicit(&f->sharers, 1, memory_order_relaxed) != 1)
        return;
    if (f->port.thread_domains)
        LOCI_LOG(f->rt, LOCO_LOG_WARN, "%s has no thread domain left: %u threads have one each, "
                 "all others of this process share its doorbell, and wait for each other there",
                 f->port.device, own);
    else
        LOCI_LOG(f->rt, LOCO_LOG_INFO, "%s has no thread domains: all threads of this process "
                 "share its doorbell", f->port.device);
}

static void share_or_own(struct verbs_thread *t)
{
    if (make_domain(t))
        atomic_fetch_add_explicit(&t->fabric->domains, 1, memory_order_relaxed);
    else
        say_shared(t->fabric);
}

static bool make_queue(struct verbs_thread *t)
{
    int entries = VERBS_QUEUE;

    while ((t->cq = ibv_create_cq(t->fabric->context, entries, NULL, NULL, 0)) == NULL
           && entries > 64)
        entries /= 2;
    t->entries = (unsigned)entries;
    return t->cq != NULL;
}

struct verbs_thread *loci_verbs_thread(struct verbs_fabric *f, struct loci_thread *thread)
{
    struct verbs_thread *t = thread->fabric_data;

    if (t != NULL)
        return t;
    t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->fabric = f;
    share_or_own(t);
    if (!make_queue(t) || !make_buffers(t)) {
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no completion queue or buffers for a thread on %s: %m%s",
                 f->port.device, loci_verbs_remedy(errno));
        free_thread(t);
        return NULL;
    }
    pthread_mutex_lock(&f->lock);
    t->next = f->threads;
    f->threads = t;
    pthread_mutex_unlock(&f->lock);
    thread->fabric_data = t;
    return t;
}

void loci_verbs_threads_close(struct verbs_fabric *f)
{
    while (f->threads != NULL) {
        struct verbs_thread *t = f->threads;

        f->threads = t->next;
        free_thread(t);
    }
    while (f->silent != NULL) {
        struct verbs_lane *l = f->silent;

        f->silent = l->next;
        free(l->ring);
        free(l);
    }
}
