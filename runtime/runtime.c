/* SPDX-License-Identifier: BSD-3-Clause */

/* Opening and closing a runtime. */

#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "living.h"
#include "memory/memory.h"
#include "move/asymmetric.h"
#include "names/endpoint.h"
#include "observe/observe.h"
#include "place.h"
#include "runtime.h"
#include "secret.h"
#include "service.h"
#include "wait.h"

#define ADDRESS_VERSION 7

unsigned loco_api_version(void)
{
    return LOCO_API_VERSION;
}

static int fill_address(struct loco_runtime *rt, uint64_t identity)
{
    int status;

    rt->address.identity = identity;
    rt->address.version = ADDRESS_VERSION;
    rt->address.label = loci_random(rt);
    for (const char *c = rt->ops->name; *c != '\0'; c++)
        rt->address.carrier = rt->address.carrier * 31 + (unsigned char)*c;
    status = loci_place_of_self(rt, &rt->address);
    return status == LOCO_OK ? loci_secret_draw(rt, rt->address.secret) : status;
}

#ifdef LOCO_SIM         /* there is no such fabric */
static bool is_to_have_device(const struct loco_runtime *rt, const struct loci_fabric_ops *ops)
{
    (void)rt, (void)ops;
    return false;
}
#else
static bool is_to_have_device(const struct loco_runtime *rt, const struct loci_fabric_ops *ops)
{
    return ops == &loci_fabric_near && !rt->tunables.ports;
}
#endif

static int choose_fabric(struct loco_runtime *rt, const struct loci_fabric_ops *ops)
{
    if (is_to_have_device(rt, ops))
        ops = NULL;
    rt->ops = ops != NULL ? ops : loci_place_fabric(rt);
    return rt->ops != NULL ? LOCO_OK : LOCO_ERR_UNSUPPORTED;
}

/* Opening is collective, so the others hear of what went wrong before they were met. */
static int fail_open(const struct loco_bootstrap *boot, int status)
{
    if (boot->exchange.size > 1)
        (void)loci_exchange_status(&boot->exchange, status);
    return status;
}

static int meet_everyone(struct loco_runtime *rt, const struct loco_exchange *exchange)
{
    int self = LOCI_SELF, status;

    if (exchange->size == 1)            /* of others no rank is known */
        return loci_group_of(rt, 1, &self, &rt->everyone);
    status = loco_group_meet(rt, exchange, &rt->everyone);
    if (status == LOCO_OK)
        loci_group_name_ranks(rt->everyone);
    return status;
}

#ifdef LOCO_SIM         /* has a trace and counters of its own */
static void observe(struct loco_runtime *rt)
{
    (void)rt;
}

static void end_observing(struct loco_runtime *rt)
{
    (void)rt;
}
#else
/* What cannot be observed is told, and is no reason to fail. */
static void observe(struct loco_runtime *rt)
{
    loci_trace_open(rt);
    loci_stats_open(rt);
}

static void end_observing(struct loco_runtime *rt)
{
    if (atomic_exchange_explicit(&rt->observed, 0, memory_order_relaxed) != 0)
        loci_stats_report(rt);
    loci_trace_close(rt);
}
#endif

int loci_runtime_open(const struct loco_bootstrap *boot, const struct loci_host *host,
                      const struct loci_fabric_ops *ops, loco_runtime_t **out)
{
    struct loco_runtime *rt = calloc(1, sizeof *rt);
    int status;

    if (rt == NULL)
        return fail_open(boot, LOCO_ERR_NO_MEMORY);
    rt->host = host != NULL ? *host : loci_host_system;
    rt->bells = &rt->own_bells;
    atomic_init(&rt->agent_fd, -1);
    rt->expects_machines = boot->other_machines;
    pthread_mutex_init(&rt->memory_lock, NULL);
    pthread_mutex_init(&rt->calls_lock, NULL);
    pthread_mutex_init(&rt->living_lock, NULL);
    loci_inbox_open(rt);
    pthread_mutex_init(&rt->poller_lock, NULL);
    rt->log = (struct loci_log){ .fn = boot->log, .ctx = boot->log_ctx };
    status = loci_tunables_load(&rt->tunables, &rt->log);
    if (status == LOCO_OK)
        status = loci_tunables_apply(&rt->tunables, boot->settings, &rt->log);
    if (status == LOCO_OK)
        status = choose_fabric(rt, ops);
    if (status != LOCO_OK)
        goto no_tunables;
    rt->cookie = loci_random(rt);
    status = fill_address(rt, boot->identity);
    if (status == LOCO_OK)
        status = loci_threads_open(rt);
    if (status != LOCO_OK)
        goto no_tunables;
    /* Before the service thread, which looks for the sender of each message that the fabric gets.
     * Until meet_everyone() there is none in the table, and the fabric keeps what comes. */
    status = loci_peers_open(rt);
    if (status != LOCO_OK)
        goto no_peers;
    status = loci_names_open(rt);
    if (status != LOCO_OK)
        goto no_names;
    status = loci_service_open(rt);
    if (status != LOCO_OK)
        goto no_service;
    status = rt->ops->open(rt, &rt->address, &rt->fabric);
    rt->way = (struct loci_way){ rt->ops, rt->fabric };
    if (status != LOCO_OK)
        goto no_fabric;
    status = loci_peers_enter_self(rt);
    if (status == LOCO_OK)
        status = meet_everyone(rt, &boot->exchange);
    else
        fail_open(boot, status);
    if (status != LOCO_OK) {
        loco_runtime_close(rt);
        return status;
    }
    observe(rt);
    *out = rt;
    return LOCO_OK;

no_fabric:
    loci_service_close(rt);
no_service:
    loci_names_close(rt);
no_names:
    loci_peers_close(rt);
no_peers:
    loci_threads_close(rt);
no_tunables:
    loci_inbox_end(rt);
    pthread_mutex_destroy(&rt->poller_lock);
    pthread_mutex_destroy(&rt->living_lock);
    pthread_mutex_destroy(&rt->memory_lock);
    loci_calls_free(rt);
    pthread_mutex_destroy(&rt->calls_lock);
    free(rt);
    return fail_open(boot, status);
}

int loco_runtime_open(const struct loco_bootstrap *boot, loco_runtime_t **rt)
{
    return loci_runtime_open(boot, NULL, NULL, rt);
}

static void leave_detour(struct loco_runtime *rt)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);

    if (detour != NULL)
        detour->leave(detour->way.fabric);
}

static void close_detour(struct loco_runtime *rt)
{
    const struct loci_detour *detour = atomic_load_explicit(&rt->detour, memory_order_acquire);

    atomic_store_explicit(&rt->detour, NULL, memory_order_relaxed);
    if (detour != NULL)
        detour->way.ops->close(detour->way.fabric);
}

/* Goodbyes come first: peers keep their mappings of the memory of who has left, so that one who
 * is still at it (the others close because somebody died) meets no fault. Until the fabric has
 * closed, the service thread may call handlers, so what they read is freed last. */
void loco_runtime_close(loco_runtime_t *rt)
{
    if (rt == NULL)
        return;
    if (atomic_load_explicit(&rt->agent_fd, memory_order_relaxed) >= 0)
        close(atomic_load_explicit(&rt->agent_fd, memory_order_relaxed));
    loci_living_end(rt);
    end_observing(rt);
    leave_detour(rt);
    if (rt->ops->drain != NULL)
        rt->ops->drain(rt->fabric);
    loci_peers_keep(rt);
    loci_threads_close(rt);
    close_detour(rt);
    loci_peers_part(rt);
    loci_names_forget_leaving(rt);
    loci_inbox_close(rt);
    loci_memory_close(rt);
    rt->ops->close(rt->fabric);
    rt->fabric = NULL;
    loci_service_close(rt);
    loci_asymmetric_close(rt);      /* nobody waits any more, nor signals */
    loci_memory_end(rt);
    loci_inbox_end(rt);
    loci_names_close(rt);
    loco_group_destroy(rt->everyone);
    loci_groups_close(rt);
    loci_peers_close(rt);
    pthread_mutex_destroy(&rt->poller_lock);
    pthread_mutex_destroy(&rt->living_lock);
    pthread_mutex_destroy(&rt->memory_lock);
    loci_calls_free(rt);
    pthread_mutex_destroy(&rt->calls_lock);
    free(rt);
}
