/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: the first questions for the address of a peer's device are lost, which the
 * kernel says after a second. */

#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

#define LOST 2

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int what)
{
    static _Atomic int asked;
    int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int);

    if (attr->qp_state == IBV_QPS_RTR && atomic_fetch_add(&asked, 1) < LOST)
        return ETIMEDOUT;
    *(void **)&real = dlsym(RTLD_NEXT, "ibv_modify_qp");
    return real(qp, attr, what);
}
