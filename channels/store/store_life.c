/* SPDX-License-Identifier: BSD-3-Clause */

/* Stores: making and destroying them; what is told about them. See store.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "observe/mistake.h"
#include "store_memory.h"
#include "store_life.h"

#define ROOTS 64
#define THREADS 8
#define SLOTS_MAX 65536
#define BYTES_MIN (UINT64_C(64) << 10)
#define BYTES_MAX (UINT64_C(256) << 30)
#define CELLS_MAX (UINT64_C(1) << 32)
#define CHUNK 4u                        /* pages, at most, */
#define CHUNKS 64u                      /* and so many of them at a host, at least */

static const char call[] = "loco_store_create";

/* Defaults put in, or LOCO_ERR_ARG. */
static int complete(loco_runtime_t *rt, const char *name, int members, loco_store_options_t *o)
{
    uint64_t per_host;

    o->nhosts = o->hosts == NULL ? members : o->nhosts;
    o->roots = o->roots == 0 ? ROOTS : o->roots;
    o->threads = o->threads == 0 ? THREADS : o->threads;
    o->objects = o->objects == 0 ? o->bytes / LOCI_STORE_UNIT : o->objects;
    if (o->nhosts < 1 || o->nhosts > members)
        return loci_bad_arg(rt, call, name, "nhosts", o->nhosts, "1 to %d", members);
    if (o->bytes < BYTES_MIN || o->bytes > BYTES_MAX)
        return loci_bad_arg(rt, call, name, "bytes", (long long)o->bytes, "64 KiB to 256 GiB");
    if (o->objects >= CELLS_MAX)
        return loci_bad_arg(rt, call, name, "objects", (long long)o->objects, "below 2^32");
    per_host = (o->roots + (uint64_t)o->nhosts - 1) / (uint64_t)o->nhosts;
    if (per_host > o->objects)
        return loci_bad_arg(rt, call, name, "roots", (long long)o->roots,
                            "at most %llu, the objects of %d hosts",
                            (unsigned long long)(o->objects * (uint64_t)o->nhosts), o->nhosts);
    if (o->threads < 1 || (int64_t)o->threads * members * o->nhosts > SLOTS_MAX)
        return loci_bad_arg(rt, call, name, "threads", o->threads,
                            "1 to %d with %d members and %d hosts: take fewer hosts",
                            SLOTS_MAX / members / o->nhosts, members, o->nhosts);
    return LOCO_OK;
}

static int take_hosts(struct loco_store *s, const char *name, const loco_store_options_t *o,
                      int members)
{
    for (int rank = 0; rank < members; rank++)
        s->number[rank] = -1;
    for (int i = 0; i < o->nhosts; i++) {
        int rank = o->hosts == NULL ? i : o->hosts[i];

        if (rank < 0 || rank >= members || s->is_host[rank])
            return loci_mistake(s->rt, LOCO_ERR_ARG, call, name,
                                "hosts[%d] is %d; allowed are ranks from 0 to %d, each once", i,
                                rank, members - 1);
        s->host[i] = rank;
        s->number[rank] = i;
        s->is_host[rank] = true;
    }
    return LOCO_OK;
}

/* So that who gives other hosts, or another order, is told. */
static uint64_t hash_of_hosts(const struct loco_store *s)
{
    uint64_t hash = (uint64_t)s->nhosts;

    for (int i = 0; i < s->nhosts; i++)
        hash = (hash + (uint64_t)s->host[i] + 1) * UINT64_C(0x9fb21c651e98df25) >> 1;
    return hash;
}

static int alloc_tables(struct loco_store *s, int members)
{
    size_t n = (size_t)members, hosts = (size_t)s->nhosts;

    s->host = calloc(hosts, sizeof *s->host);
    s->number = calloc(n, sizeof *s->number);
    s->is_host = calloc(n, sizeof *s->is_host);
    s->swept = calloc(n, sizeof *s->swept);
    s->client = calloc((size_t)s->threads, sizeof *s->client);
    s->page_class = calloc(hosts, sizeof *s->page_class);
    if (s->host == NULL || s->number == NULL || s->is_host == NULL || s->swept == NULL
        || s->client == NULL || s->page_class == NULL)
        return LOCO_ERR_NO_MEMORY;
    for (int i = 0; i < s->nhosts; i++) {
        s->page_class[i] = calloc(s->pages, sizeof *s->page_class[i]);
        if (s->page_class[i] == NULL)
            return LOCO_ERR_NO_MEMORY;
    }
    return LOCO_OK;
}

static void destroy_forgotten(void *store)
{
    loco_store_destroy(store);
}

/* A host tells whoever scavenges. A plain store: nobody else writes to that word. */
static void note_gone(struct loci_endpoint *ep, int rank, void *ctx)
{
    const struct loco_store *s = ctx;
    int host = s->number[ep->group.rank];

    if (host >= 0)
        loci_store64(loci_mem_ptr(loci_endpoint_mem(ep, ep->group.rank, LOCI_STORE_HEAD))
                     + loci_gone_at(s, ep->group.size, rank), 1);
}

/* Clients have a stock each: in a hosted store at the host, and two of them. */
static void set_regions(struct loci_endpoint_spec *spec, size_t members, size_t threads,
                        uint64_t cells, uint64_t pages, bool hosted)
{
    size_t clients = members * threads;
    const struct loci_region_spec region[] = {
        [LOCI_STORE_HEAD] = { "head", LOCI_STORE_SLOTS + clients * sizeof(struct loci_log_slot)
                              + members * 8, 0, LOCI_FROM_SOME },
        [LOCI_STORE_CELLS] = { "cells", 8 * cells, 0, LOCI_FROM_SOME },
        [LOCI_STORE_PAGES] = { "pages", 8 * pages, 0, LOCI_FROM_SOME },
        [LOCI_STORE_BLOCKS] = { "blocks", pages * LOCI_STORE_PAGE, 0, LOCI_FROM_SOME },
        [LOCI_STORE_LINKS] = { "links", 8 * (cells + 1), 0, LOCI_FROM_SOME },
        [LOCI_STORE_CLIENTS] = { "clients",
                                 (hosted ? 2 * clients : threads) * sizeof(struct loci_stock), 0,
                                 hosted ? LOCI_FROM_SOME : LOCI_FROM_ALL },
    };

    spec->nregions = LOCI_STORE_REGIONS;
    memcpy(spec->region, region, sizeof region);
}

uint64_t loci_store_hosted_bytes(const loco_store_options_t *completed, int members)
{
    struct loci_endpoint_spec spec;
    uint64_t bytes = 0;

    set_regions(&spec, (size_t)members, (size_t)completed->threads, completed->objects,
                completed->bytes / LOCI_STORE_PAGE, true);
    for (int i = 0; i < spec.nregions; i++)
        bytes += spec.region[i].len;
    return bytes;
}

static int open_endpoint(struct loco_store *s, enum loci_store_way way, const char *parent,
                         const char *name, const loco_group_t *group, enum loci_domain domain)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group, .type = "store",
        .property = { { "bytes", s->pages * LOCI_STORE_PAGE }, { "objects", s->cells },
                      { "roots", s->roots }, { "the hash of its hosts", hash_of_hosts(s) } },
        .givers = s->is_host,
        .on_silent = note_gone, .ctx = s,
    };
    int status;

    set_regions(&spec, (size_t)group->size, (size_t)s->threads, s->cells, s->pages,
                way != LOCI_STORE_MET);
    status = way == LOCI_STORE_MET ? loci_endpoint_create(s->rt, &spec, &s->ep)
             : way == LOCI_STORE_HOST ? loci_hosted_create(s->rt, &spec, domain, &s->ep)
             : loci_hosted_use(s->rt, &spec, domain, &s->ep);
    if (status != LOCO_OK)
        return status;
    loci_endpoint_is_of(s->ep, destroy_forgotten, s);
    s->sums = s->ep->domain != LOCI_DOMAIN_CPU;
    return LOCO_OK;
}

int loci_store_complete(loco_runtime_t *rt, const char *name, int members,
                        const loco_store_options_t *options, loco_store_options_t *completed)
{
    if (options == NULL)
        return loci_null_arg(rt, call, name, "options");
    *completed = *options;
    return complete(rt, name, members, completed);
}

int loci_store_make(loco_runtime_t *rt, enum loci_store_way way, const char *parent,
                    const char *name, const loco_group_t *group,
                    const loco_store_options_t *options, enum loci_domain domain,
                    loco_store_t **out)
{
    const loco_store_options_t o = *options;
    struct loco_store *s;
    int status;

    s = calloc(1, sizeof *s);
    if (s == NULL)
        return LOCO_ERR_NO_MEMORY;
    s->rt = rt;
    s->hosted = way != LOCI_STORE_MET;
    s->nhosts = o.nhosts;
    s->threads = o.threads;
    s->roots = o.roots;
    s->roots_here = (o.roots + (uint64_t)o.nhosts - 1) / (uint64_t)o.nhosts;
    s->cells = o.objects;
    s->pages = o.bytes / LOCI_STORE_PAGE;
    s->blocks = s->pages * (LOCI_STORE_PAGE / LOCI_STORE_UNIT);
    s->chunk = s->pages / CHUNKS < 1 ? 1 : s->pages / CHUNKS < CHUNK ? s->pages / CHUNKS : CHUNK;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->scavenging, NULL);
    status = alloc_tables(s, loco_group_size(group));
    if (status == LOCO_OK)
        status = take_hosts(s, name, &o, loco_group_size(group));
    if (status == LOCO_OK)
        status = open_endpoint(s, way, parent, name, group, domain);
    if (status != LOCO_OK) {
        loco_store_destroy(s);
        return status;
    }
    *out = s;
    return LOCO_OK;
}

int loco_store_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, const loco_store_options_t *options,
                      loco_store_t **out)
{
    loco_store_options_t o;
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK)
        status = loci_store_complete(rt, name, loco_group_size(group), options, &o);
    return status != LOCO_OK ? status
           : loci_store_make(rt, LOCI_STORE_MET, parent, name, group, &o, LOCI_DOMAIN_NONE, out);
}

void loco_store_destroy(loco_store_t *s)
{
    if (s == NULL)
        return;
    loci_tx_close_all(s);
    /* What they have told a host is placed by that; one that was withdrawn is told nothing. Under
     * the lock, as who withdraws it goes by. */
    pthread_mutex_lock(&s->lock);
    for (int i = 0; s->client != NULL && i < s->threads; i++)
        loci_client_free(s->client[i]);
    pthread_mutex_unlock(&s->lock);
    loci_client_free(s->scavenger);
    if (s->gone != NULL)
        s->gone(s->gone_ctx);
    loci_endpoint_destroy(s->ep);
    for (int i = 0; s->page_class != NULL && i < s->nhosts; i++)
        free((void *)s->page_class[i]);
    free((void *)s->page_class);
    free(s->client);
    free(s->swept);
    free(s->is_host);
    free(s->number);
    free(s->host);
    pthread_mutex_destroy(&s->scavenging);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* All that there is of a host is mapped here, or nothing: its memory is of one kind. */
int loci_store_map(struct loco_store *s, int host)
{
    if (loci_rank_is_dead(s, s->host[host]))
        return LOCO_OK;         /* what was mapped stays so */
    for (int region = 0; region < (s->hosted ? LOCI_STORE_REGIONS : LOCI_STORE_CLIENTS); region++)
        if (loci_mem_map(s->rt, loci_store_mem(s, host, region)) == NULL && !s->sums)
            return loci_rank_is_dead(s, s->host[host]) ? LOCO_OK : LOCO_ERR_SYSTEM;
    return LOCO_OK;
}

/* ---- what is told ---- */

loco_object_t loco_store_root(const loco_store_t *s, uint64_t i)
{
    uint64_t hosts = (uint64_t)s->nhosts;

    return i < s->roots ? loci_object((int)(i % hosts), i / hosts) : LOCO_OBJECT_NONE;
}

int loco_store_host_of(const loco_store_t *s, loco_object_t object)
{
    return loci_object_is(s, object) ? s->host[loci_object_host(object)] : -1;
}

void loci_store_stats_add(loco_store_stats_t *to, const loco_store_stats_t *more)
{
    uint64_t *number = (uint64_t *)(void *)to;
    const uint64_t *other = (const uint64_t *)(const void *)more;

    for (size_t i = 0; i < sizeof *to / sizeof *number; i++)
        number[i] += atomic_load_explicit((const _Atomic uint64_t *)&other[i],
                                          memory_order_relaxed);
}
