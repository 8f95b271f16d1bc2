/* SPDX-License-Identifier: BSD-3-Clause */

/* Thread domains of a device that is not there and has two: threads share them in groups, and no
 * two post on one at once. */

#include "config.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "fabric/verbs/domain.h"

#define HAS 2
#define THREADS 5
#define POSTS 20000

static int left;                    /* domains of the device */
static int parents;                 /* parent domains that there are */
static _Atomic int inside[HAS];     /* posts on each, now */
static _Atomic int overlaps;
static struct ibv_td tds[HAS];
static struct ibv_pd pds[HAS];

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    (void)attr;
    if (left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    tds[--left].context = context;
    return &tds[left];
}

static int dealloc_td(struct ibv_td *td)
{
    (void)td;
    left++;
    return 0;
}

static struct ibv_pd *alloc_parent(struct ibv_context *context,
                                   struct ibv_parent_domain_init_attr *attr)
{
    struct ibv_pd *pd = &pds[attr->td - tds];

    pd->context = context;
    parents++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    (void)pd;
    parents--;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    _Atomic int *in = &inside[qp->pd - pds];

    (void)wr;
    (void)bad;
    if (atomic_fetch_add(in, 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    sched_yield();
    atomic_fetch_sub(in, 1);
    return 0;
}

static struct verbs_context device = {
    .sz = sizeof device, .alloc_td = alloc_td, .dealloc_td = dealloc_td,
    .alloc_parent_domain = alloc_parent,
    .context = { .abi_compat = __VERBS_ABI_IS_EXTENDED, .ops.post_send = post_send },
};

static void begin(struct verbs_domains *d, int has)
{
    *d = (struct verbs_domains){ .context = &device.context };
    pthread_mutex_init(&d->lock, NULL);
    left = has;
}

Test(domain, is_shared_in_groups_of_one_size)
{
    struct verbs_domains d;
    struct verbs_domain *taken[THREADS];
    bool shared;

    begin(&d, HAS);
    for (int i = 0; i < THREADS; i++) {
        taken[i] = loci_verbs_domain_take(&d, &shared);
        cr_assert_not_null(taken[i]);
        cr_assert_eq(shared, i >= HAS, "thread %d", i);
    }
    cr_assert_neq(taken[0], taken[1]);
    cr_assert_eq(taken[0]->threads + taken[1]->threads, THREADS);
    cr_assert_leq(abs((int)taken[0]->threads - (int)taken[1]->threads), 1);
    cr_assert_eq(d.count, HAS);
    loci_verbs_domains_close(&d);
    cr_assert_eq(left, HAS);
    cr_assert_eq(parents, 0);
}

Test(domain, that_nobody_uses_is_taken_again)
{
    struct verbs_domains d;
    struct verbs_domain *first, *second;
    bool shared;

    begin(&d, HAS);
    first = loci_verbs_domain_take(&d, &shared);
    loci_verbs_domain_give(&d, first);
    cr_assert_eq(loci_verbs_domain_take(&d, &shared), first);
    cr_assert_eq(d.count, 1, "another, although one was free");
    second = loci_verbs_domain_take(&d, &shared);
    loci_verbs_domain_give(&d, first);
    cr_assert_eq(loci_verbs_domain_take(&d, &shared), first);
    cr_assert_not(shared);
    loci_verbs_domain_give(&d, second);
    loci_verbs_domain_give(&d, first);
    loci_verbs_domains_close(&d);
    cr_assert_eq(left, HAS);
}

Test(domain, of_a_device_without_any_there_is_none)
{
    struct verbs_domains d;
    bool shared = true;

    begin(&d, 0);
    cr_assert_null(loci_verbs_domain_take(&d, &shared));
    cr_assert_not(shared);
    loci_verbs_domain_give(&d, NULL);
    loci_verbs_domains_close(&d);
}

static void *post_many(void *arg)
{
    struct verbs_domain *domain = arg;
    struct ibv_qp qp = { .context = &device.context, .pd = domain->pd };
    struct ibv_send_wr wr = { .num_sge = 0 }, *bad;

    for (int i = 0; i < POSTS; i++)
        if (loci_verbs_domain_post(domain, &qp, &wr, &bad) != 0)
            return arg;
    return NULL;
}

Test(domain, has_one_post_at_a_time, .timeout = 60)
{
    struct verbs_domains d;
    pthread_t thread[THREADS];
    void *failed;
    bool shared;

    begin(&d, HAS);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, post_many,
                                    loci_verbs_domain_take(&d, &shared)), 0);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(thread[i], &failed), 0);
        cr_assert_null(failed);
    }
    cr_assert_eq(atomic_load(&overlaps), 0);
    loci_verbs_domains_close(&d);
}
