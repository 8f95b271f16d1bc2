/* SPDX-License-Identifier: BSD-3-Clause */

/* Where this process runs, as the kernel says. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "place.h"

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

void loci_place_of_self(const struct loco_runtime *rt, struct loci_address *address)
{
    address->node = node_of(rt);
    address->start_time = start_time_of_self();
    address->pid = getpid();
}

const struct loci_fabric_ops *loci_place_fabric(void)
{
    return &loci_fabric_shm;
}
