/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SERVICE_H
#define LOCI_SERVICE_H

#include "runtime.h"

/* The service thread: one per runtime, asleep in epoll while there is nothing to do. It handles
 * control messages, notices deaths and, where the system forbids process_vm_*, copies for others.
 * It touches only our own state: no call into MPI. All signals are blocked in it. */

typedef void loci_service_fn(struct loco_runtime *rt, void *ctx, int fd, uint32_t events);

int loci_service_open(struct loco_runtime *rt);
/* Stops and joins the thread; afterwards no handler runs. */
void loci_service_close(struct loco_runtime *rt);
/* Call fn(rt, ctx, fd, events) in the service thread when fd has events (EPOLLIN...).
 * Again for a watched fd: the new events, fn and ctx replace the old ones. */
int loci_service_watch(struct loco_runtime *rt, int fd, uint32_t events, loci_service_fn *fn,
                       void *ctx);
/* Whether it is called at all: a change of mind, cheaper than the above. `fd` is watched. */
void loci_service_mute(struct loco_runtime *rt, int fd, uint32_t events, bool muted);
/* After it returns (from another thread) the handler does not run any more. */
void loci_service_unwatch(struct loco_runtime *rt, int fd);
/* The service thread's number in the kernel. */
int32_t loci_service_tid(struct loco_runtime *rt);
/* Whether the caller is the service thread, which must not wait for a peer's answer: it is the
 * one that would receive it. */
bool loci_service_is_self(struct loco_runtime *rt);

/* Have the service thread call loci_peers_tidy() soon. Any thread; nothing while there is none. */
void loci_service_tidy(struct loco_runtime *rt);

/* control.c: a control message from a peer, in the service thread. */
void loci_control_receive(struct loco_runtime *rt, int peer, const void *message, size_t len);

#endif
