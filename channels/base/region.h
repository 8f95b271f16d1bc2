/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_REGION_H
#define LOCI_REGION_H

#include <loco/region.h>

struct loco_window;

/* A region over a window's memory, its members' parts by rank; local. It must not outlive the
 * window. LOCO_ERR_ARG for a dynamic one, LOCO_ERR_NO_MEMORY. */
int loci_region_of_window(struct loco_window *win, loco_region_t **region);

#endif
