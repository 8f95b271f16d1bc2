/* SPDX-License-Identifier: BSD-3-Clause */

/* Where this process runs, as the kernel says. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/verbs/device.h"
#include "place.h"

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

#define HASH_OF_NOTHING UINT64_C(0xcbf29ce484222325)

static void read_boot_id(char boot_id[64])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    boot_id[0] = '\0';
    if (f != NULL) {
        if (fgets(boot_id, 64, f) == NULL)
            boot_id[0] = '\0';
        fclose(f);
    }
    if (boot_id[0] == '\0')
        gethostname(boot_id, 63);
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

void loci_place_of_self(const struct loco_runtime *rt, struct loci_address *address)
{
    char boot_id[64] = "";

    read_boot_id(boot_id);
    address->node = node_of(rt, boot_id);
    address->kernel = hash_text(HASH_OF_NOTHING, boot_id);
    address->start_time = start_time_of_self();
    address->pid = getpid();
}

#ifdef LOCO_HAVE_VERBS
/* Who names its node expects others. */
static bool has_other_nodes(const struct loco_runtime *rt)
{
    return rt->expects_machines || strcmp(rt->tunables.node, "auto") != 0;
}

static bool has_device(const struct loco_runtime *rt)
{
    return loci_devices_usable(&rt->tunables);
}
#endif

const struct loci_fabric_ops *loci_place_fabric(struct loco_runtime *rt)
{
#ifdef LOCO_HAVE_VERBS
    if (rt->tunables.fabric == LOCI_FABRIC_VERBS)
        return &loci_fabric_verbs;
    if (rt->tunables.fabric == LOCI_FABRIC_AUTO && has_other_nodes(rt) && has_device(rt))
        return &loci_fabric_verbs_and_shm;
    return &loci_fabric_shm;
#else
    if (rt->tunables.fabric != LOCI_FABRIC_VERBS)
        return &loci_fabric_shm;
    LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_FABRIC=verbs, but this libloco was configured "
             "--without-verbs: unset it, or use auto or shm");
    return NULL;
#endif
}
