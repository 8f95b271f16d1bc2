/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_NEAR_H
#define LOCI_VERBS_NEAR_H

#include "device.h"

/* How near devices are to this process: fills in `distance` and `nodes` of each port, and the NUMA
 * nodes of the CPUs that this process may use. Reads the machine's topology, which takes hundreds
 * of files and tens of milliseconds: for who has a choice. What cannot be told, as without hwloc,
 * stays unknown. */
void loci_near_measure(struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT]);

#ifdef LOCO_HAVE_HWLOC
#include <hwloc.h>

/* The same of any machine, with devices in it, for a process that is bound to these CPUs. */
void loci_near_in(hwloc_topology_t topology, hwloc_const_cpuset_t process,
                  struct loci_device_port *list, int n, char here[LOCI_NODES_TEXT]);
#endif

#endif
