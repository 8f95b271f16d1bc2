/* SPDX-License-Identifier: BSD-3-Clause */

/* See hosted_store.h. */

#include "config.h"

#include <string.h>

#include "hosted_store.h"
#include "runtime.h"
#include "store/store_life.h"

#define PLACES_MOST 16

_Static_assert(sizeof(struct sim_hosted_keys) >= LOCI_REGIONS_MAX * sizeof(struct loci_memkey),
               "there is room for all keys");

int sim_hosted_make(loco_runtime_t *rt, bool one_node, int places, int place,
                    const loco_store_options_t *options, loco_store_t **store)
{
    int peer[1 + PLACES_MOST];
    struct loco_group group = { .rt = rt, .size = 1 + places, .rank = place + 1, .peer = peer };
    enum loci_domain domain = one_node ? LOCI_DOMAIN_CPU
                              : rt->ops->owner_atomics ? LOCI_DOMAIN_OWNER : LOCI_DOMAIN_NIC;
    loco_store_options_t o;
    int status;

    for (int i = 0; i <= places; i++)
        peer[i] = LOCI_VACANT;
    peer[0] = rt->everyone->peer[0];
    peer[place + 1] = LOCI_SELF;
    status = loci_store_complete(rt, "store", group.size, options, &o);
    return status != LOCO_OK ? status
           : loci_store_make(rt, place < 0 ? LOCI_STORE_HOST : LOCI_STORE_USE, NULL, "store",
                             &group, &o, domain, store);
}

void sim_hosted_tell(loco_store_t *store, struct sim_hosted_keys *keys)
{
    struct loci_memkey key[LOCI_REGIONS_MAX];

    loci_hosted_keys(store->ep, key);
    memcpy(keys, key, sizeof key);
}

int sim_hosted_learn(loco_store_t *store, const struct sim_hosted_keys *keys)
{
    struct loci_memkey key[LOCI_REGIONS_MAX];

    memcpy(key, keys, sizeof key);
    return loci_hosted_import(store->ep, 0, key);
}

int sim_hosted_vacate(loco_store_t *store, int place, int process)
{
    return loci_store_vacate(store, place + 1, store->rt->everyone->peer[process],
                             NULL);
}

void sim_hosted_gone(loco_store_t *store, int place, int process)
{
    loci_store_gone(store, place + 1, store->rt->everyone->peer[process]);
}
