/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints: making and destroying them. How they find each other is in endpoint_join.c. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosted.h"
#include "memory/poison.h"
#include "move/rma.h"
#include "names.h"

/* ---- making one ---- */

static int full_name(struct loco_runtime *rt, const struct loci_endpoint_spec *spec, char *name)
{
    int len;

    if (spec->name == NULL || spec->name[0] == '\0'
        || (spec->parent != NULL && spec->parent[0] == '\0')) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "a channel of type %s has an empty %s", spec->type,
                 spec->name == NULL || spec->name[0] == '\0' ? "name" : "name of its parent");
        return LOCO_ERR_NAME;
    }
    memset(name, 0, LOCI_NAME_MAX);
    len = snprintf(name, LOCI_NAME_MAX, "%s%s%s", spec->parent == NULL ? "" : spec->parent,
                   spec->parent == NULL ? "" : "/", spec->name);
    if (len < LOCI_NAME_MAX)
        return LOCO_OK;
    LOCI_LOG(rt, LOCO_LOG_ERROR, "endpoint %s...: the name has %d bytes; allowed is 1 to %d", name,
             len, LOCI_NAME_MAX - 1);
    return LOCO_ERR_NAME;
}

/* What the channels give; they have looked at what the program gave them. */
static int check_spec(const struct loci_endpoint_spec *spec)
{
    LOCO_ASSERT(spec->type != NULL && strlen(spec->type) < LOCI_TYPE_NAME);
    if (spec->group == NULL || spec->group->rank < 0 || spec->nregions < 0
        || spec->nregions > LOCI_REGIONS_MAX)
        return LOCO_ERR_ARG;
    for (int i = 0; i < spec->nregions; i++) {
        const struct loci_region_spec *r = &spec->region[i];

        if (r->name == NULL || r->name[0] == '\0' || strlen(r->name) >= LOCI_REGION_NAME)
            return LOCO_ERR_NAME;
        if (r->from < LOCI_FROM_SOME || r->from >= spec->group->size)
            return LOCO_ERR_ARG;
    }
    return loci_group_reached(spec->group);
}

void loci_entry_let_go(struct loci_entry *e)
{
    const struct loci_endpoint *ep = &e->ep;

    for (int i = 0; i < ep->group.size * ep->spec.nregions; i++)
        loci_mem_drop(ep->rt, &ep->mem[i]);
}

void loci_entry_free(struct loci_entry *e)
{
    struct loci_endpoint *ep = &e->ep;

    for (int i = 0; ep->mem != NULL && i < ep->spec.nregions; i++) {
        struct loci_mem *mine = loci_endpoint_mem(ep, ep->group.rank, i);

        if (mine->key.kind == LOCI_MEM_NONE)
            continue;
        loci_memory_named(mine, ep->name, ep->spec.region[i].name);
        loci_free(ep->rt, mine);
    }
    if (e->uses_peers)
        loci_peers_end_use(ep->rt, ep->group.peer, ep->group.size);
    free(ep->mem);
    free((void *)ep->connected);
    free(ep->group.peer);
    free(e->member);
    loci_search_free(e);
    free(e);
}

/* Copies of what the caller gave; regions still missing. NULL: out of memory. */
static struct loci_entry *new_entry(struct loco_runtime *rt, const struct loci_endpoint_spec *spec)
{
    size_t size = (size_t)spec->group->size, nregions = (size_t)spec->nregions;
    struct loci_entry *e = calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    e->ep.rt = rt;
    e->ep.spec = *spec;
    e->ep.group = *spec->group;
    e->ep.group.peer = malloc(size * sizeof e->ep.group.peer[0]);
    e->ep.mem = calloc(size * nregions + 1, sizeof e->ep.mem[0]);
    e->ep.connected = calloc(size, sizeof e->ep.connected[0]);
    e->member = calloc(size, sizeof e->member[0]);
    if (e->ep.group.peer == NULL || e->ep.mem == NULL || e->ep.connected == NULL
        || e->member == NULL) {
        loci_entry_free(e);
        return NULL;
    }
    memcpy(e->ep.group.peer, spec->group->peer, size * sizeof e->ep.group.peer[0]);
    loci_peers_use(rt, e->ep.group.peer, e->ep.group.size);
    e->uses_peers = true;
    for (int i = 0; i < spec->nregions; i++) {
        snprintf(e->region_name[i], LOCI_REGION_NAME, "%s", spec->region[i].name);
        e->ep.spec.region[i].name = e->region_name[i];
    }
    e->members = loci_names_hash_members(&e->ep.group);
    e->ep.domain = loci_domain_of(&e->ep.group);
    atomic_store_explicit(&e->ep.missing, loci_entry_expects(e), memory_order_relaxed);
    atomic_store_explicit(&e->ep.connected[e->ep.group.rank], 1, memory_order_relaxed);
    return e;
}

static int alloc_regions(struct loci_entry *e)
{
    struct loci_endpoint *ep = &e->ep;

    for (int i = 0; i < ep->spec.nregions; i++) {
        const struct loci_region_spec *r = &ep->spec.region[i];
        struct loci_mem *mine = loci_endpoint_mem(ep, ep->group.rank, i);
        int status;

        if (!loci_region_from(&ep->spec, i, ep->group.rank))
            continue;
        status = (ep->spec.words >> i & 1) != 0 && ep->domain == LOCI_DOMAIN_NIC
                 ? loci_alloc_in_device(ep->rt, r->len, mine) : LOCO_ERR_AGAIN;
        if (status == LOCO_ERR_AGAIN)
            status = loci_alloc(ep->rt, r->len, r->align, mine);
        if (status != LOCO_OK)
            return status;
        loci_mem_set_domain(mine, ep->domain);
    }
    return LOCO_OK;
}

int loci_endpoint_create(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                         struct loci_endpoint **ep)
{
    char name[LOCI_NAME_MAX];
    struct loci_entry *e;
    int status;

    if (rt == NULL || ep == NULL)
        return LOCO_ERR_ARG;
    status = full_name(rt, spec, name);
    if (status != LOCO_OK)
        return status;
    status = check_spec(spec);
    if (status != LOCO_OK) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "endpoint \"%s\": %s", spec->name ? spec->name : "",
                 loco_strerror(status));
        return status;
    }
    e = new_entry(rt, spec);
    if (e == NULL)
        return LOCO_ERR_NO_MEMORY;
    memcpy(e->ep.name, name, sizeof name);
    e->ep.spec.name = e->ep.name;       /* the caller's strings may go */
    e->ep.spec.parent = NULL;
    status = alloc_regions(e);
    if (status == LOCO_OK)
        status = loci_names_enter(rt->names, e);
    if (status != LOCO_OK) {
        loci_entry_free(e);
        return status;
    }
    e->ep.calls = loci_calls_of(rt, spec->type, e->ep.name);
    loci_entry_open(e);
    *ep = &e->ep;
    return LOCO_OK;
}

void loci_endpoint_is_of(struct loci_endpoint *ep, void (*destroy)(void *channel), void *channel)
{
    bool known = ep->living.destroy != NULL;

    ep->living.type = ep->spec.type;
    ep->living.name = ep->name;
    ep->living.destroy = destroy;
    ep->living.object = channel;
    if (!known)
        loci_living_add(ep->rt, &ep->living);
}

void loci_endpoint_destroy(struct loci_endpoint *ep)
{
    if (ep == NULL)
        return;
    loci_living_remove(ep->rt, &ep->living);
    if (ep->hosted) {
        loci_hosted_destroy(ep);
        return;
    }
    /* What threads of ours have posted there comes before the word that they have left. */
    if (!ep->rt->ops->synchronous)
        loci_finish(ep->rt, -1, &ep->group);
    loci_names_leave(ep->rt->names, loci_entry_of(ep));
    loci_entry_left(loci_entry_of(ep));
}
