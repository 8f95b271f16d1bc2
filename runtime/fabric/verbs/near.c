/* SPDX-License-Identifier: BSD-3-Clause */

/* How near devices are to this process, as hwloc sees the machine. The distance to a device that
 * is at one of the process's CPUs is 0; to another it is the number of CPUs in the smallest part of
 * the machine that has both: a device at another NUMA node of one's package is nearer than one at
 * another package. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "near.h"

static void know_nothing(struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT])
{
    here[0] = '\0';
    for (int i = 0; i < n; i++) {
        list[i].distance = LOCI_DISTANCE_UNKNOWN;
        list[i].nodes[0] = '\0';
    }
}

#ifdef LOCO_HAVE_HWLOC

static bool is_on_bus(hwloc_obj_t obj)
{
    while (obj != NULL && obj->type != HWLOC_OBJ_PCI_DEVICE)
        obj = obj->parent;
    return obj != NULL;
}

/* The part of the machine that has the device; NULL: it is not known, or has no place. hwloc has
 * devices of software at the root, as near to everything. */
static hwloc_obj_t place_of(hwloc_topology_t topology, const char *device)
{
    hwloc_obj_t obj = NULL;

    while ((obj = hwloc_get_next_osdev(topology, obj)) != NULL)
        if (obj->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS
            && strcmp(obj->name, device) == 0)
            break;
    if (obj == NULL || !is_on_bus(obj))
        return NULL;
    obj = hwloc_get_non_io_ancestor_obj(topology, obj);
    return obj != NULL && !hwloc_bitmap_iszero(obj->cpuset) ? obj : NULL;
}

static unsigned distance(hwloc_topology_t topology, hwloc_const_cpuset_t process,
                         hwloc_const_cpuset_t device)
{
    hwloc_bitmap_t both;
    hwloc_obj_t part;

    if (hwloc_bitmap_intersects(process, device))
        return 0;
    both = hwloc_bitmap_alloc();
    if (both == NULL)
        return LOCI_DISTANCE_UNKNOWN;
    hwloc_bitmap_or(both, process, device);
    part = hwloc_get_obj_covering_cpuset(topology, both);
    hwloc_bitmap_free(both);
    if (part == NULL)
        part = hwloc_get_root_obj(topology);
    return (unsigned)hwloc_bitmap_weight(part->cpuset);
}

void loci_near_in(hwloc_topology_t topology, hwloc_const_cpuset_t process,
                  struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT])
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();

    know_nothing(list, n, here);
    if (nodes == NULL)
        return;
    hwloc_cpuset_to_nodeset(topology, process, nodes);
    hwloc_bitmap_list_snprintf(here, LOCI_NODES_TEXT, nodes);
    hwloc_bitmap_free(nodes);
    for (int i = 0; i < n; i++) {
        hwloc_obj_t place = place_of(topology, list[i].device);

        if (place == NULL)
            continue;
        list[i].distance = distance(topology, process, place->cpuset);
        hwloc_bitmap_list_snprintf(list[i].nodes, sizeof list[i].nodes, place->nodeset);
    }
}

/* With devices, without what takes time and is not asked for: caches, what GPUs' own libraries
 * would tell, and what CPUs say when a thread is bound to one after the other. PCI is read from
 * sysfs: the library that else does it keeps its tables, half a MiB, for ever. What is disallowed
 * here stays, or a device at a package that a container may not use would seem to be at all
 * others. */
static bool load(hwloc_topology_t topology)
{
#if HWLOC_API_VERSION >= 0x00020100
    static const char *const slow[] = {
        "x86", "pci", "cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"
    };

    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      slow[i]);
#endif
    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    return hwloc_topology_load(topology) == 0;
}

/* The binding of all of its threads, or else where it runs. */
static bool cpus_of_self(hwloc_topology_t topology, hwloc_cpuset_t cpus)
{
    return hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) == 0
           || hwloc_get_last_cpu_location(topology, cpus, HWLOC_CPUBIND_PROCESS) == 0;
}

void loci_near_measure(struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT])
{
    hwloc_cpuset_t cpus = hwloc_bitmap_alloc();
    hwloc_topology_t topology;

    know_nothing(list, n, here);
    if (cpus != NULL && hwloc_topology_init(&topology) == 0) {
        if (load(topology) && cpus_of_self(topology, cpus))
            loci_near_in(topology, cpus, list, n, here);
        hwloc_topology_destroy(topology);
    }
    hwloc_bitmap_free(cpus);
}

#else

void loci_near_measure(struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT])
{
    know_nothing(list, n, here);
}

#endif
