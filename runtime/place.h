/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_PLACE_H
#define LOCI_PLACE_H

#include "runtime.h"

/* Fill in node, pid and start_time of this process's address. A simulation has its own.
 * LOCO_ERR_SYSTEM: no descriptor is left to look with; peers would take this process for one of
 * another node. */
int loci_place_of_self(struct loco_runtime *rt, struct loci_address *address);
/* The fabric that is used unless the caller brings one: as LOCO_FABRIC says. NULL where that is not
 * built in; the log has been told. */
const struct loci_fabric_ops *loci_place_fabric(struct loco_runtime *rt);

#endif
