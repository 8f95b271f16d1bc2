/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_RW_PAIR_H
#define LOCI_RW_PAIR_H

/* One member of a group locked exclusive: PART on the group's word and EXCLUSIVE on the member's
 * (rw_word.h), which is 2 atomics to take and 2 to give back. Where they go over a fabric, both are
 * on the way at once. */

#include "rw_word.h"

/* Block until both are held. Flags and errors as of loci_rw_acquire. Nobody waits for the group's
 * word with the member's in hand. _until: as loci_rw_acquire_until; neither is held then. */
int loci_rw_pair_acquire(struct loco_runtime *rt, const struct loci_rw *group,
                         const struct loci_rw *member, unsigned flags);
int loci_rw_pair_acquire_until(struct loco_runtime *rt, const struct loci_rw *group,
                               const struct loci_rw *member, unsigned flags, int64_t deadline);

/* Give both back. `placed`: so is what the holder has written. Else the member's atomic is what
 * places it (LOCO_ORDER), and the group's, by which others come in as well, is executed after. */
int loci_rw_pair_release(struct loco_runtime *rt, const struct loci_rw *group,
                         const struct loci_rw *member, bool placed);

#endif
