/* SPDX-License-Identifier: BSD-3-Clause */

/* Opening and closing a runtime. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"
#include "memory.h"
#include "runtime.h"
#include "service.h"
#include "wait.h"

#define ADDRESS_VERSION 1

unsigned loco_api_version(void)
{
    return LOCO_API_VERSION;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Equal on processes of one kernel, unless LOCO_NODE says otherwise. */
static uint64_t node_of(const struct loco_runtime *rt)
{
    char boot_id[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (f != NULL) {
        if (fgets(boot_id, sizeof boot_id, f) == NULL)
            boot_id[0] = '\0';
        fclose(f);
    }
    if (boot_id[0] == '\0')
        gethostname(boot_id, sizeof boot_id - 1);
    if (strcmp(rt->tunables.node, "auto") != 0)
        hash = hash_text(hash, rt->tunables.node);
    return hash_text(hash, boot_id);
}

/* Field 22 of /proc/self/stat: tells this process from a later one with its pid. */
static uint64_t start_time_of_self(void)
{
    unsigned long long start = 0;
    char line[1024], *after;
    FILE *f = fopen("/proc/self/stat", "re");

    if (f == NULL)
        return 0;
    if (fgets(line, sizeof line, f) != NULL && (after = strrchr(line, ')')) != NULL)
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
               "%*d %*d %llu", &start);
    fclose(f);
    return start;
}

static void fill_address(struct loco_runtime *rt, uint64_t identity)
{
    rt->address.identity = identity;
    rt->address.node = node_of(rt);
    rt->address.start_time = start_time_of_self();
    rt->address.pid = getpid();
    rt->address.version = ADDRESS_VERSION;
    rt->address.token = loci_random(rt);
}

static int choose_fabric(struct loco_runtime *rt, const struct loci_fabric_ops *ops)
{
    rt->ops = ops != NULL ? ops : &loci_fabric_shm;
    if (ops == NULL && rt->tunables.fabric == LOCI_FABRIC_VERBS) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_FABRIC=verbs, but this version has no verbs fabric: "
                 "unset it, or use auto or shm");
        return LOCO_ERR_UNSUPPORTED;
    }
    return LOCO_OK;
}

static int meet_everyone(struct loco_runtime *rt, const struct loco_exchange *exchange)
{
    int self = LOCI_SELF;

    if (exchange->size == 1)
        return loci_group_of(rt, 1, &self, &rt->everyone);
    return loco_group_meet(rt, exchange, &rt->everyone);
}

int loci_runtime_open(const struct loco_bootstrap *boot, const struct loci_host *host,
                      const struct loci_fabric_ops *ops, loco_runtime_t **out)
{
    struct loco_runtime *rt = calloc(1, sizeof *rt);
    int status;

    if (rt == NULL)
        return LOCO_ERR_NO_MEMORY;
    rt->host = host != NULL ? *host : loci_host_system;
    pthread_mutex_init(&rt->memory_lock, NULL);
    rt->log = (struct loci_log){ .fn = boot->log, .ctx = boot->log_ctx };
    status = loci_tunables_load(&rt->tunables, &rt->log);
    if (status == LOCO_OK)
        status = loci_tunables_apply(&rt->tunables, boot->settings, &rt->log);
    if (status == LOCO_OK)
        status = choose_fabric(rt, ops);
    if (status != LOCO_OK)
        goto no_tunables;
    rt->cookie = loci_random(rt);
    fill_address(rt, boot->identity);
    status = loci_threads_open(rt);
    if (status != LOCO_OK)
        goto no_tunables;
    status = loci_names_open(rt);
    if (status != LOCO_OK)
        goto no_names;
    status = loci_service_open(rt);
    if (status != LOCO_OK)
        goto no_service;
    status = rt->ops->open(rt, &rt->address, &rt->fabric);
    if (status != LOCO_OK)
        goto no_fabric;
    status = loci_peers_open(rt);
    if (status == LOCO_OK)
        status = meet_everyone(rt, &boot->exchange);
    if (status != LOCO_OK) {
        loco_runtime_close(rt);
        return status;
    }
    *out = rt;
    return LOCO_OK;

no_fabric:
    loci_service_close(rt);
no_service:
    loci_names_close(rt);
no_names:
    loci_threads_close(rt);
no_tunables:
    pthread_mutex_destroy(&rt->memory_lock);
    free(rt);
    return status;
}

int loco_runtime_open(const struct loco_bootstrap *boot, loco_runtime_t **rt)
{
    return loci_runtime_open(boot, NULL, NULL, rt);
}

/* Goodbyes come first: peers keep their mappings of the memory of who has left, so that one who
 * is still at it (the others close because somebody died) meets no fault. Until the fabric has
 * closed, the service thread may call handlers, so what they read is freed last. */
void loco_runtime_close(loco_runtime_t *rt)
{
    if (rt == NULL)
        return;
    loci_threads_close(rt);
    loci_peers_part(rt);
    loci_memory_close(rt);
    rt->ops->close(rt->fabric);
    rt->fabric = NULL;
    loci_service_close(rt);
    loci_names_close(rt);
    loci_peers_close(rt);
    loco_group_destroy(rt->everyone);
    pthread_mutex_destroy(&rt->memory_lock);
    free(rt);
}
