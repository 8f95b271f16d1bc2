/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_REGION_H
#define LOCI_REGION_H

#include <loco/region.h>

struct loci_mem;

/* Memory that another object has, one part a member, by rank. */
struct loci_region_view {
    void *owner;
    struct loci_mem *(*part)(void *owner, int rank);
    void *base;                     /* this process's part */
    int rank, size;
};

/* A region over it; local. It must not outlive the owner. LOCO_ERR_NO_MEMORY. */
int loci_region_of_view(struct loco_runtime *rt, const struct loci_region_view *view,
                        loco_region_t **region);
/* Bounds of an access: LOCO_ERR_ARG, there is no such rank; LOCO_ERR_RANGE. */
int loci_region_check(const loco_region_t *region, int rank, uint64_t offset, size_t len);
struct loco_runtime *loci_region_runtime(const loco_region_t *region);
struct loci_calls *loci_region_calls(const loco_region_t *region);
/* That member's part, to post chains to. */
struct loci_mem *loci_region_mem(const loco_region_t *region, int rank);

#endif
