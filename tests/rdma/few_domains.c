/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: devices that have as many thread domains as TEST_DOMAINS says, 2 otherwise. They
 * do nothing, but the program is ended if two threads post on one at once, which no provider would
 * survive. */

#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic int taken;

/* A parent domain is one more name of its domain: here a copy, with a mark of ours. */
struct domain {
    struct ibv_pd pd;               /* first */
    _Atomic bool posting;
    struct domain *next;
};

static _Atomic(struct domain *) domains;

static struct ibv_td *alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    const char *text = getenv("TEST_DOMAINS");
    struct ibv_td *td = calloc(1, sizeof *td);

    (void)attr;
    if (td == NULL || atomic_fetch_add(&taken, 1) >= (text != NULL ? atoi(text) : 2)) {
        atomic_fetch_sub(&taken, 1);
        free(td);
        errno = ENOMEM;
        return NULL;
    }
    td->context = context;
    return td;
}

static int give(struct ibv_td *td)
{
    atomic_fetch_sub(&taken, 1);
    free(td);
    return 0;
}

static struct ibv_pd *parent(struct ibv_context *context,
                             struct ibv_parent_domain_init_attr *attr)
{
    struct domain *d = calloc(1, sizeof *d);

    (void)context;
    if (d == NULL)
        return NULL;
    d->pd = *attr->pd;
    d->next = atomic_load(&domains);
    while (!atomic_compare_exchange_weak(&domains, &d->next, d))
        ;
    return &d->pd;
}

/* A copy is nothing that the kernel knows of. It stays, for its address must not be another's. */
int ibv_dealloc_pd(struct ibv_pd *pd)
{
    int (*real)(struct ibv_pd *) = (int (*)(struct ibv_pd *))dlvsym(RTLD_NEXT, "ibv_dealloc_pd",
                                                                    "IBVERBS_1.1");

    for (struct domain *d = atomic_load(&domains); d != NULL; d = d->next)
        if (&d->pd == pd)
            return 0;
    return real(pd);
}

static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct domain *d = atomic_load(&domains);
    int error;

    while (d != NULL && &d->pd != qp->pd)
        d = d->next;
    if (d == NULL)
        return real_post(qp, wr, bad);
    if (atomic_exchange(&d->posting, true)) {
        fputs("two threads post on one thread domain\n", stderr);
        abort();
    }
    sched_yield();
    error = real_post(qp, wr, bad);
    atomic_store(&d->posting, false);
    return error;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*real_open)(struct ibv_device *) =
        (struct ibv_context *(*)(struct ibv_device *))dlvsym(RTLD_NEXT, "ibv_open_device",
                                                             "IBVERBS_1.1");
    struct ibv_context *context = real_open == NULL ? NULL : real_open(device);
    struct verbs_context *ops = context == NULL ? NULL : verbs_get_ctx(context);

    if (ops != NULL) {
        ops->alloc_td = alloc;
        ops->dealloc_td = give;
        ops->alloc_parent_domain = parent;
        if (context->ops.post_send != post)
            real_post = context->ops.post_send;
        context->ops.post_send = post;
    }
    return context;
}
