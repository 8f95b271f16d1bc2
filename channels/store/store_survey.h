/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_SURVEY_H
#define LOCI_STORE_SURVEY_H

/* For scavenging: what there is at one host, and what of it somebody has. */

#include "store_cell.h"
#include "store_memory.h"

/* What may be nobody's: a block, a cell that no object is in, or a page without a class. */
struct loci_stray {
    uint64_t number;
    uint64_t mark;              /* that whoever takes or gives it away changes: stamp, link; */
    uint64_t word;              /* of a cell: its word */
    int class;                  /* LOCI_STORE_CLASSES: a cell; above it: a page */
};
#define LOCI_STRAY_PAGE (LOCI_STORE_CLASSES + 1)

struct loci_survey {
    struct loco_store *s;
    int host;
    struct loci_stray *stray;
    size_t n, room;
    uint64_t objects;
    unsigned char *has_block, *has_cell;        /* a bit each: somebody has it */
    uint64_t blocks, cells;                     /* of so many, that were ever taken, */
    uint64_t pages;
    bool unsure;                /* a stock or a pool could not be read in order */
    struct loci_asker asker;
};

int loci_survey_open(struct loci_survey *v, struct loco_store *s, int host);
void loci_survey_close(struct loci_survey *v);
/* Note all that no object is in. */
int loci_survey_scan(struct loci_survey *v);
/* Forget those that a pool or the stock of a client has whose process lives. */
int loci_survey_leave_owned(struct loci_survey *v);
/* Forget those that are not any more as they were noted; and before the first time, note how they
 * are. */
int loci_survey_look_again(struct loci_survey *v, bool first);

#endif
