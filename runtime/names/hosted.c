/* SPDX-License-Identifier: BSD-3-Clause */

/* Hosted endpoints: see hosted.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "hosted.h"
#include "move/rma.h"
#include "names.h"

struct hosted {
    struct loci_endpoint ep;            /* first: an endpoint is its record */
    char region_name[LOCI_REGIONS_MAX][LOCI_REGION_NAME];
};

static void free_hosted(struct hosted *h)
{
    struct loci_endpoint *ep = &h->ep;

    for (int rank = 0; ep->mem != NULL && rank < ep->group.size; rank++)
        for (int i = 0; i < ep->spec.nregions; i++) {
            struct loci_mem *mem = loci_endpoint_mem(ep, rank, i);

            if (mem->key.kind == LOCI_MEM_NONE)
                continue;
            if (rank == ep->group.rank)
                loci_free(ep->rt, mem);
            else
                loci_mem_drop(ep->rt, mem);
        }
    for (int rank = 0; ep->group.peer != NULL && rank < ep->group.size; rank++)
        if (ep->group.peer[rank] != LOCI_VACANT)
            loci_peers_end_use(ep->rt, &ep->group.peer[rank], 1);
    free(ep->mem);
    free(ep->group.peer);
    free(h);
}

static struct hosted *new_hosted(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                                 enum loci_domain domain)
{
    size_t size = (size_t)spec->group->size, nregions = (size_t)spec->nregions;
    struct hosted *h = calloc(1, sizeof *h);
    struct loci_endpoint *ep;

    if (h == NULL)
        return NULL;
    ep = &h->ep;
    ep->rt = rt;
    ep->spec = *spec;
    ep->hosted = true;
    ep->domain = domain;
    ep->group.rt = rt;
    ep->group.rank = spec->group->rank;
    ep->mem = calloc(size * nregions + 1, sizeof ep->mem[0]);
    ep->group.peer = malloc(size * sizeof ep->group.peer[0]);
    if (ep->mem == NULL || ep->group.peer == NULL) {
        free(ep->mem);
        free(ep->group.peer);
        free(h);
        return NULL;
    }
    ep->group.size = spec->group->size;
    memcpy(ep->group.peer, spec->group->peer, size * sizeof ep->group.peer[0]);
    for (int rank = 0; rank < ep->group.size; rank++)
        if (ep->group.peer[rank] != LOCI_VACANT)
            loci_peers_use(rt, &ep->group.peer[rank], 1);
    for (int i = 0; i < spec->nregions; i++) {
        strncpy(h->region_name[i], spec->region[i].name, LOCI_REGION_NAME - 1);
        ep->spec.region[i].name = h->region_name[i];
    }
    return h;
}

static int make(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                enum loci_domain domain, struct hosted **out)
{
    size_t len = spec->name == NULL ? 0 : strlen(spec->name);
    struct hosted *h;

    if (len == 0 || len >= LOCI_NAME_MAX) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "a hosted %s: its name has %zu bytes; allowed is 1 to %d",
                 spec->type, len, LOCI_NAME_MAX - 1);
        return LOCO_ERR_NAME;
    }
    h = new_hosted(rt, spec, domain);
    if (h == NULL)
        return LOCO_ERR_NO_MEMORY;
    memcpy(h->ep.name, spec->name, len);
    h->ep.spec.name = h->ep.name;       /* the caller's string may go */
    h->ep.spec.parent = NULL;
    h->ep.calls = loci_calls_of(rt, spec->type, h->ep.name);
    *out = h;
    return LOCO_OK;
}

int loci_hosted_create(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                       enum loci_domain domain, struct loci_endpoint **ep)
{
    struct hosted *h;
    int status = make(rt, spec, domain, &h);

    if (status != LOCO_OK)
        return status;
    for (int i = 0; i < spec->nregions && status == LOCO_OK; i++) {
        struct loci_mem *mine = loci_endpoint_mem(&h->ep, h->ep.group.rank, i);

        if (!loci_region_from(&h->ep.spec, i, h->ep.group.rank))
            continue;
        status = loci_alloc(rt, spec->region[i].len, spec->region[i].align, mine);
        if (status == LOCO_OK)
            loci_mem_set_domain(mine, domain);
    }
    if (status != LOCO_OK) {
        free_hosted(h);
        return status;
    }
    *ep = &h->ep;
    return LOCO_OK;
}

void loci_hosted_keys(const struct loci_endpoint *ep, struct loci_memkey *keys)
{
    for (int i = 0; i < ep->spec.nregions; i++)
        keys[i] = ep->mem[ep->group.rank * ep->spec.nregions + i].key;
}

int loci_hosted_use(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                    enum loci_domain domain, struct loci_endpoint **ep)
{
    struct hosted *h;
    int status = make(rt, spec, domain, &h);

    if (status == LOCO_OK)
        *ep = &h->ep;
    return status;
}

int loci_hosted_import(struct loci_endpoint *ep, int rank, const struct loci_memkey *keys)
{
    for (int i = 0; i < ep->spec.nregions; i++) {
        struct loci_mem *mem = loci_endpoint_mem(ep, rank, i);
        int status;

        if (!loci_region_from(&ep->spec, i, rank))
            continue;
        if (keys[i].kind != LOCI_MEM_POOL || keys[i].len < ep->spec.region[i].len)
            return LOCO_ERR_PROTOCOL;
        status = loci_mem_import(ep->rt, ep->group.peer[rank], &keys[i], mem);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(mem, ep->domain);
    }
    return LOCO_OK;
}

void loci_hosted_set_member(struct loci_endpoint *ep, int rank, int peer)
{
    int before = ep->group.peer[rank];

    if (peer != LOCI_VACANT)
        loci_peers_use(ep->rt, &peer, 1);
    ep->group.peer[rank] = peer;
    if (before != LOCI_VACANT)
        loci_peers_end_use(ep->rt, &before, 1);
}

void loci_hosted_destroy(struct loci_endpoint *ep)
{
    if (!ep->rt->ops->synchronous)
        for (int rank = 0; rank < ep->group.size; rank++)
            if (ep->group.peer[rank] != LOCI_VACANT)
                (void)loci_fence_peer(ep->rt, LOCO_FENCE_PROCESS, ep->group.peer[rank]);
    free_hosted((struct hosted *)ep);
}
