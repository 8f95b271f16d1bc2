/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FAKE_VERBS_H
#define TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A device that is not there, in place of libibverbs and librdmacm in the program that links this:
 * what it is asked for is made and counted, what is posted as a send is told and complete at once,
 * and what is to be received is given to it by hand. Requests of lanes, which it would have to
 * carry out, it does not take. */

#define FAKE_QUEUE 1024

struct fake_device {
    struct ibv_context context;     /* first */
    _Atomic uint32_t number;        /* of queue pairs made so far */
    _Atomic int queue_pairs, regions, queues;   /* there are now */
    uint64_t receives[FAKE_QUEUE];  /* addresses that wait for a message, */
    uint64_t ids[FAKE_QUEUE];       /* and their requests */
    unsigned first, waiting;
    void (*sent)(void *arg, const void *message, size_t len);
    void *arg;
};

void fake_open(struct fake_device *device);
/* A message for the receive queue, by that queue pair: where it lies, or NULL when none waits. What
 * is behind it may not be read, for a sanitizer that can be told. */
void *fake_receive(struct fake_device *device, struct ibv_qp *qp, const void *message, size_t len,
                   size_t room);
/* The message there has been looked at. */
void fake_looked(void *at, size_t room);

/* ---- librdmacm ---- */

/* What its functions have been asked for; there is one of it. */
struct fake_cm {
    struct rdma_cm_event *event;    /* that is to come next, or NULL */
    int ids, rejected, accepted, connected;
    struct ibv_context *context;    /* where queue pairs of ids are made */
};
extern struct fake_cm fake_cm;
/* A new id, as of a call that has come. */
struct rdma_cm_id *fake_id(void);

#endif
