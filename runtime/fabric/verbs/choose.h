/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_CHOOSE_H
#define LOCI_VERBS_CHOOSE_H

#include "device.h"

/* Which port a process takes of those that are described, and why not the others. Nothing here asks
 * the machine: device.c describes ports, near.c says how far they are. */

/* How many can be used, and are what LOCO_DEVICE=wanted means for the process whose turn it is. */
int loci_choose_count(const struct loci_device_port *list, int n, const char *wanted,
                      unsigned turn);

/* Mark the one to take, and fill in `why` for it and `why_not` for the others. here: the NUMA nodes
 * of this process, as text; empty: unknown. */
void loci_choose(struct loci_device_port *list, int n, const char *wanted, unsigned turn,
                 const char *here);

#endif
