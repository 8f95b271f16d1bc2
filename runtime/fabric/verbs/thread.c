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

/* ---- thread domains ---- */

/* A new one, in nobody's use; NULL: there is none. */
static struct verbs_domain *make(struct verbs_domains *d)
{
    struct ibv_td_init_attr none = { 0 };
    struct ibv_parent_domain_init_attr attr = { .pd = d->base };
    struct verbs_domain *made = calloc(1, sizeof *made);

    if (made == NULL)
        return NULL;
    attr.td = made->td = ibv_alloc_td(d->context, &none);
    made->pd = made->td != NULL ? ibv_alloc_parent_domain(d->context, &attr) : NULL;
    if (made->pd != NULL) {
        made->next = d->list;
        d->list = made;
        d->count++;
        return made;
    }
    if (made->td != NULL)
        ibv_dealloc_td(made->td);
    free(made);
    return NULL;
}

static struct verbs_domain *least_used(const struct verbs_domains *d)
{
    struct verbs_domain *least = d->list;

    for (struct verbs_domain *it = d->list; it != NULL; it = it->next)
        if (it->threads < least->threads)
            least = it;
    return least;
}

struct verbs_domain *loci_verbs_domain_take(struct verbs_domains *d, bool *shared)
{
    struct verbs_domain *domain, *made = NULL;

    pthread_mutex_lock(&d->lock);
    domain = least_used(d);
    if (!d->out && (domain == NULL || domain->threads > 0)) {
        made = make(d);
        d->out = made == NULL;
        domain = made != NULL ? made : domain;
    }
    *shared = domain != NULL && domain->threads > 0;
    if (domain != NULL)
        domain->threads++;
    pthread_mutex_unlock(&d->lock);
    return domain;
}

void loci_verbs_domain_give(struct verbs_domains *d, struct verbs_domain *domain)
{
    if (domain == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    domain->threads--;
    pthread_mutex_unlock(&d->lock);
}

void loci_verbs_domains_close(struct verbs_domains *d)
{
    while (d->list != NULL) {
        struct verbs_domain *domain = d->list;

        d->list = domain->next;
        ibv_dealloc_pd(domain->pd);
        ibv_dealloc_td(domain->td);
        free(domain);
    }
    d->count = 0;
}

int loci_verbs_domain_post(struct verbs_domain *domain, struct ibv_qp *qp,
                           struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    int error;

    if (domain == NULL)
        return ibv_post_send(qp, list, bad);
    loci_lock_take(&domain->lock);
    error = ibv_post_send(qp, list, bad);
    loci_lock_give(&domain->lock);
    return error;
}

/* ---- life ---- */

static void free_thread(struct verbs_thread *t)
{
    if (t->cq != NULL)
        ibv_destroy_cq(t->cq);
    loci_verbs_domain_give(&t->fabric->domains, t->domain);
    if (t->mr != NULL)
        ibv_dereg_mr(t->mr);
    free(t->memory);
    free(t->buffers);
    free(t);
}

/* Once: of a device that has none, or has no more, where two threads share what there is. */
static void say_shared(struct verbs_fabric *f, bool in_groups)
{
    if (atomic_exchange_explicit(&f->sharing_said, true, memory_order_relaxed))
        return;
    if (in_groups)
        LOCI_LOG(f->rt, LOCO_LOG_WARN, "%s has no thread domain left: the threads of this process "
                 "share %u in groups, and wait for each other there", f->port.device,
                 f->domains.count);
    else
        LOCI_LOG(f->rt, LOCO_LOG_INFO, "%s has no thread domains: all threads of this process "
                 "share its doorbell", f->port.device);
}

static void take_domain(struct verbs_thread *t)
{
    struct verbs_fabric *f = t->fabric;
    bool shared;

    t->domain = loci_verbs_domain_take(&f->domains, &shared);
    t->pd = t->domain != NULL ? t->domain->pd : f->pd;
    if (shared || (t->domain == NULL
                   && atomic_fetch_add_explicit(&f->homeless, 1, memory_order_relaxed) == 1))
        say_shared(f, shared);
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
    take_domain(t);
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
    loci_verbs_domains_close(&f->domains);
    while (f->silent != NULL) {
        struct verbs_lane *l = f->silent;

        f->silent = l->next;
        free(l->ring);
        free(l);
    }
}
