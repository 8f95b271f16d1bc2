/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: a device whose queues seem to be full every now and then. Of a list of requests
 * it takes some, none or all by turns, and names the first that it did not take. Or, with
 * TAKES_FEW=unnamed in the environment, one that refuses what is long and does not say from where
 * on. */

#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LONG 16384

static int (*real_post)(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad);
static _Atomic unsigned calls;

static int post(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    unsigned few = atomic_fetch_add(&calls, 1) % 7, n = 0;
    struct ibv_send_wr *last = list, *rest;
    int error;

    while (++n < few && last->next != NULL)
        last = last->next;
    rest = few == 0 ? list : last->next;
    if (rest == NULL)
        return real_post(qp, list, bad);
    if (few > 0) {
        last->next = NULL;
        error = real_post(qp, list, bad);
        last->next = rest;
        if (error != 0)
            return error;
    }
    *bad = rest;
    return ENOMEM;
}

static int refuse_long(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    return list->num_sge == 1 && list->sg_list[0].length > LONG ? EIO : real_post(qp, list, bad);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*real_open)(struct ibv_device *) =
        (struct ibv_context *(*)(struct ibv_device *))dlvsym(RTLD_NEXT, "ibv_open_device",
                                                             "IBVERBS_1.1");
    struct ibv_context *context = real_open == NULL ? NULL : real_open(device);

    const char *how = getenv("TAKES_FEW");
    int (*posts)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **) =
        how != NULL && strcmp(how, "unnamed") == 0 ? refuse_long : post;

    if (context != NULL && context->ops.post_send != posts) {
        real_post = context->ops.post_send;
        context->ops.post_send = posts;
    }
    return context;
}
