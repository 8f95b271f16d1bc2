/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corosync's closed process groups: all messages in one order, through the daemon of this node.
 */
#include "multicast_rivals.h"

#ifdef LOCO_HAVE_CPG
#include <string.h>
#include <unistd.h>

#include <corosync/cpg.h>

static cpg_handle_t handle;
static struct job *job;
static int members;

static void deliver(cpg_handle_t h, const struct cpg_name *group, uint32_t node, uint32_t pid,
                    void *message, size_t bytes)
{
    (void)h, (void)group, (void)node, (void)pid, (void)bytes;
    job_got(job, message);
}

static void change(cpg_handle_t h, const struct cpg_name *group, const struct cpg_address *now,
                   size_t n, const struct cpg_address *left, size_t nleft,
                   const struct cpg_address *joined, size_t njoined)
{
    (void)h, (void)group, (void)now, (void)left, (void)nleft, (void)joined, (void)njoined;
    members = (int)n;
}

static void open_cpg(struct job *j)
{
    cpg_callbacks_t callbacks = { .cpg_deliver_fn = deliver, .cpg_confchg_fn = change };
    struct cpg_name group = { .length = 4, .value = "loco" };

    job = j;
    if (cpg_initialize(&handle, &callbacks) != CS_OK)
        rivals_die("no Corosync runs here, or it does not let this user in");
    if (cpg_join(handle, &group) != CS_OK)
        rivals_die("cpg_join fails");
    while (members < j->size) {
        cpg_dispatch(handle, CS_DISPATCH_ALL);
        usleep(1000);
    }
    rivals_meet();
}

static bool send_cpg(struct job *j)
{
    struct iovec data = { j->message, j->bytes };

    return j->sent - j->got_own < j->slots
           && cpg_mcast_joined(handle, CPG_TYPE_AGREED, &data, 1) == CS_OK;
}

static bool receive_cpg(struct job *j)
{
    uint64_t before = j->got;

    cpg_dispatch(handle, CS_DISPATCH_ALL);
    return j->got > before;
}

static void close_cpg(struct job *j)
{
    (void)j;
    cpg_finalize(handle);
}

const struct way way_cpg = {
    .name = "cpg", .text = "Corosync, a closed process group", .ordered = true, .open = open_cpg,
    .send = send_cpg, .receive = receive_cpg, .close = close_cpg,
};
#endif
