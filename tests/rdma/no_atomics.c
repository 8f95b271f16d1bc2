/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: devices say that they have no atomics. */

#include "config.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

static int (*real_query)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attr, size_t size);

static int query(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                 struct ibv_device_attr_ex *attr, size_t size)
{
    int status = real_query(context, input, attr, size);

    attr->orig_attr.atomic_cap = IBV_ATOMIC_NONE;
    return status;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*real_open)(struct ibv_device *) =
        (struct ibv_context *(*)(struct ibv_device *))dlvsym(RTLD_NEXT, "ibv_open_device",
                                                             "IBVERBS_1.1");
    struct ibv_context *context = real_open == NULL ? NULL : real_open(device);
    struct verbs_context *ops = context == NULL ? NULL : verbs_get_ctx(context);

    if (ops != NULL && ops->query_device_ex != query) {
        real_query = ops->query_device_ex;
        ops->query_device_ex = query;
    }
    return context;
}
