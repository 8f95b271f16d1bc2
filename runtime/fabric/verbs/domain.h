/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_DOMAIN_H
#define LOCI_VERBS_DOMAIN_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>

#include "lock.h"

/* Thread domains. Each gives its queue pairs a doorbell of their own (SMART, ASPLOS 2024, section
 * 3.1), and devices have few: when they run out, threads share them in groups of about the same
 * size. A provider takes no lock for a thread domain, for it is promised that one thread at a time
 * uses it. So posting on one takes the lock here, also where only one thread has it yet, for it
 * would not see in the middle of a post that another has come. */
struct verbs_domain {
    struct ibv_td *td;
    struct ibv_pd *pd;              /* the parent domain: queue pairs are made there */
    struct loci_lock lock;          /* around each post; inside its threads' locks */
    unsigned threads;
    struct verbs_domain *next;
};

struct verbs_domains {
    struct ibv_context *context;
    struct ibv_pd *base;
    pthread_mutex_t lock;           /* all that follows */
    struct verbs_domain *list;
    unsigned count;
    bool out;                       /* the device had no more */
};

/* One for a thread: of its own, or else that which the fewest threads have, and then *shared. NULL:
 * the device has none at all, and locks by itself. */
struct verbs_domain *loci_verbs_domain_take(struct verbs_domains *d, bool *shared);
void loci_verbs_domain_give(struct verbs_domains *d, struct verbs_domain *domain);
/* When no queue pair is left in any of them. */
void loci_verbs_domains_close(struct verbs_domains *d);

/* ibv_post_send, alone on the domain. */
int loci_verbs_domain_post(struct verbs_domain *domain, struct ibv_qp *qp,
                           struct ibv_send_wr *list, struct ibv_send_wr **bad);

#endif
