/* SPDX-License-Identifier: BSD-3-Clause */

/* See pool_lease.h. */

#include "config.h"

#include "pool_lease.h"
#include "move/asymmetric.h"
#include "move/rma.h"
#include "runtime.h"
#include "wait.h"

/* By the renewal, under the lock: what is withdrawn ends. */
static int settle(void *arg)
{
    struct loci_pool_lease *l = arg;
    int status = LOCO_OK;

    for (struct loci_pool_lent *at = l->lent; at != NULL && status == LOCO_OK; at = at->next) {
        if (at->over || loci_lease_has(&l->lease, at->record, at->version))
            continue;
        status = loci_store_withdraw(at->store);
        at->over = status == LOCO_OK;
    }
    if (status == LOCO_OK && l->dropped)
        status = loci_place_peer(l->rt, l->peer);
    l->dropped = l->dropped && status != LOCO_OK;
    return status;
}

int loci_pool_lease_open(struct loco_runtime *rt, int peer, const struct loci_lease_board *board,
                         int holder, struct loci_pool_lease *l)
{
    int status = loci_lease_init(rt, peer, board, holder, settle, l, &l->lease);

    if (status != LOCO_OK)
        return status;
    l->rt = rt;
    l->peer = peer;
    l->held = l->dropped = false;
    l->lent = NULL;
    pthread_mutex_init(&l->lock, NULL);
    return LOCO_OK;
}

static int release(struct loci_pool_lease *l)
{
    int status = l->held ? loci_lease_release(&l->lease) : LOCO_OK;

    l->held = l->held && status != LOCO_OK;
    return status;
}

void loci_pool_lease_close(struct loci_pool_lease *l)
{
    if (l->peer < 0)
        return;
    pthread_mutex_lock(&l->lock);
    (void)release(l);                   /* an agent that is gone waits for nobody */
    pthread_mutex_unlock(&l->lock);
    loci_lease_fini(&l->lease);
    pthread_mutex_destroy(&l->lock);
    l->peer = -1;
}

/* Who maps the memory need not ask. */
static void set_until(const struct loci_pool_lease *l)
{
    for (struct loci_pool_lent *at = l->lent; at != NULL; at = at->next)
        if (at->store->sums)
            atomic_store_explicit(&at->store->until, l->lease.until == 0 ? 1 : l->lease.until,
                                  memory_order_relaxed);
}

static int renew(struct loci_pool_lease *l)
{
    int status;

    l->held = true;
    status = loci_lease_renew(&l->lease);
    set_until(l);
    return status;
}

/* Another thread may have renewed it meanwhile. */
static int ask(void *ctx)
{
    struct loci_pool_lent *lent = ctx;
    struct loci_pool_lease *l = lent->lease;
    int status;

    pthread_mutex_lock(&l->lock);
    status = loci_now(l->rt) >= l->lease.until ? renew(l) : LOCO_OK;
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* What was read of the records may be older than what is lent. */
static int find(struct loci_pool_lease *l, const struct loci_pool_lent *lent)
{
    int status = loci_lease_check(&l->lease, lent->record, lent->version);

    if (status != LOCO_OK)
        status = renew(l);
    return status != LOCO_OK || loci_lease_has(&l->lease, lent->record, lent->version)
           ? status : LOCO_ERR_AGAIN;
}

int loci_pool_lease_use(struct loci_pool_lease *l, loco_store_t *store, uint32_t record,
                        uint64_t version, struct loci_pool_lent *lent)
{
    int status;

    *lent = (struct loci_pool_lent){ .lease = l, .store = store, .record = record,
                                     .version = version };
    pthread_mutex_lock(&l->lock);
    status = find(l, lent);
    if (status == LOCO_OK) {
        loci_store_may_end(store, ask, lent);
        lent->next = l->lent;
        l->lent = lent;
        set_until(l);
    } else {
        lent->lease = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

void loci_pool_lease_drop(struct loci_pool_lent *lent)
{
    struct loci_pool_lease *l = lent->lease;
    struct loci_pool_lent **at;

    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    for (at = &l->lent; *at != lent; at = &(*at)->next)
        ;
    *at = lent->next;
    l->dropped = true;
    pthread_mutex_unlock(&l->lock);
    lent->lease = NULL;
}

int loci_pool_lease_renew(struct loci_pool_lease *l)
{
    int status = LOCO_OK;

    if (l->peer < 0)
        return LOCO_OK;
    pthread_mutex_lock(&l->lock);
    if (l->lent != NULL)
        (void)loci_asymmetric_state(l->rt);     /* calls take a fence less, soon */
    status = l->lent != NULL ? renew(l) : release(l);
    pthread_mutex_unlock(&l->lock);
    return status;
}
