/* SPDX-License-Identifier: BSD-3-Clause */

/* Where this process runs, as the kernel says. */

#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/verbs/device.h"
#include "descriptor.h"
#include "place.h"

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

#define HASH_OF_NOTHING UINT64_C(0xcbf29ce484222325)

/* NULL with LOCO_OK: there is no such file, or it may not be read. */
static FILE *open_file(struct loco_runtime *rt, const char *path, int *status)
{
    FILE *f = fopen(path, "re");

    *status = LOCO_OK;
    if (f == NULL && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
        loci_descriptor_missing(rt, "what this process is cannot be looked up");
        *status = LOCO_ERR_SYSTEM;
    }
    return f;
}

static int read_boot_id(struct loco_runtime *rt, char boot_id[64])
{
    int status;
    FILE *f = open_file(rt, "/proc/sys/kernel/random/boot_id", &status);

    boot_id[0] = '\0';
    if (f != NULL) {
        if (fgets(boot_id, 64, f) == NULL)
            boot_id[0] = '\0';
        fclose(f);
    }
    if (boot_id[0] == '\0')
        gethostname(boot_id, 63);
    return status;
}

/* Equal on processes of one kernel, unless LOCO_NODE says otherwise. */
static uint64_t node_of(const struct loco_runtime *rt, const char *boot_id)
{
    uint64_t hash = HASH_OF_NOTHING;

    if (strcmp(rt->tunables.node, "auto") != 0)
        hash = hash_text(hash, rt->tunables.node);
    return hash_text(hash, boot_id);
}

/* Field 22 of /proc/self/stat: tells this process from a later one with its pid. */
static int read_start_time(struct loco_runtime *rt, uint64_t *out)
{
    unsigned long long start = 0;
    char line[1024], *after;
    int status;
    FILE *f = open_file(rt, "/proc/self/stat", &status);

    *out = 0;
    if (f == NULL)
        return status;
    if (fgets(line, sizeof line, f) != NULL && (after = strrchr(line, ')')) != NULL)
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
               "%*d %*d %llu", &start);
    fclose(f);
    *out = start;
    return LOCO_OK;
}

int loci_place_of_self(struct loco_runtime *rt, struct loci_address *address)
{
    char boot_id[64] = "";
    int status = read_boot_id(rt, boot_id);

    if (status == LOCO_OK)
        status = read_start_time(rt, &address->start_time);
    if (status != LOCO_OK)
        return status;
    address->node = node_of(rt, boot_id);
    address->kernel = hash_text(HASH_OF_NOTHING, boot_id);
    address->pid = getpid();
    return LOCO_OK;
}

/* Who names its node expects others. */
static bool has_other_nodes(const struct loco_runtime *rt)
{
    return rt->expects_machines || strcmp(rt->tunables.node, "auto") != 0;
}

#ifdef LOCO_HAVE_VERBS
static bool has_device(const struct loco_runtime *rt)
{
    return loci_devices_usable(&rt->tunables);
}

static const struct loci_fabric_ops *verbs(struct loco_runtime *rt)
{
    (void)rt;
    return &loci_fabric_verbs;
}

static const struct loci_fabric_ops *verbs_and_shm(const struct loco_runtime *rt)
{
    return has_device(rt) ? &loci_fabric_verbs_and_shm : NULL;
}
#else
static const struct loci_fabric_ops *verbs(struct loco_runtime *rt)
{
    LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_FABRIC=verbs, but this libloco was configured "
             "--without-verbs: unset it, or use auto, tcp or shm");
    return NULL;
}

static const struct loci_fabric_ops *verbs_and_shm(const struct loco_runtime *rt)
{
    (void)rt;
    return NULL;
}
#endif

/* Of several machines: by their RDMA devices, and where this one has none, by TCP. Each chooses for
 * itself; those who differ are told so when they meet. */
static const struct loci_fabric_ops *of_several(const struct loco_runtime *rt)
{
    const struct loci_fabric_ops *ops = verbs_and_shm(rt);

    return ops != NULL ? ops : &loci_fabric_tcp;
}

const struct loci_fabric_ops *loci_place_fabric(struct loco_runtime *rt)
{
    switch (rt->tunables.fabric) {
    case LOCI_FABRIC_VERBS: return verbs(rt);
    case LOCI_FABRIC_TCP: return &loci_fabric_tcp;
    case LOCI_FABRIC_SHM: return &loci_fabric_shm;
    default: return has_other_nodes(rt) ? of_several(rt) : &loci_fabric_shm;
    }
}
