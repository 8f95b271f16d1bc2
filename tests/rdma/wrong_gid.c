/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: the process takes another address (GID) for its own, which nobody has, and tells
 * it to its peers. */

#include "config.h"

#include <infiniband/verbs.h>
#include <string.h>

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    static const unsigned char nobody[16] = { [10] = 0xff, [11] = 0xff, 10, 99, 99, 99 };

    (void)context;
    (void)port;
    (void)index;
    memcpy(gid->raw, nobody, sizeof nobody);
    return 0;
}
