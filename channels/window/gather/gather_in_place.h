/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_GATHER_IN_PLACE_H
#define LOCI_GATHER_IN_PLACE_H

/* Applying the records of a batch by loads and stores where the memory is, without a copy.
 *
 * The target's own memory may be there or not, and be writable or not: plain accesses are for what
 * was just checked. The system checks a page in less time than it copies a few elements to it from
 * a list. The pages that records are for, and no others, are checked once for all of the batch: a
 * page that nobody writes stays as it is, though it lies between two others. */

#include "gather_apply.h"

/* From the first of a batch to the last, at most. */
#ifdef LOCO_SIM
#define LOCI_GATHER_PAGES 8
#else
#define LOCI_GATHER_PAGES 8192
#endif

/* What the records of a batch are for. */
struct loci_gather_area {
    uint64_t low, high;             /* first byte, and the one behind the last, as in records */
    uint64_t base;                  /* added to it, the address */
    unsigned shift;                 /* a page has 1 << shift bytes */
    bool page[LOCI_GATHER_PAGES];   /* by number modulo LOCI_GATHER_PAGES: some record is for it */
};

/* Whether `bytes` of records, all of which make sense, are for pages of the target's near each
 * other. */
bool loci_gather_survey(const struct loci_gather_way *way, const unsigned char *record,
                        size_t bytes, struct loci_gather_area *area);
/* Whether those pages can be touched, until way->reached() is called. */
bool loci_gather_reach(const struct loci_gather_way *way, const struct loci_gather_area *area);
/* Do them, in order, up to the first that is not for that area: records may have changed since.
 * Returns how many bytes of them are done. */
size_t loci_gather_in_place(const struct loci_gather_area *area, const unsigned char *record,
                            size_t bytes);

#endif
