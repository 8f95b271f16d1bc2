/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MULTICAST_PARTS_H
#define LOCI_MULTICAST_PARTS_H

/* Parts of a multicast that can be left out, to see what each gains. The library has them all: they
 * are constants there. Where LOCO_MULTICAST_PARTS is defined, for the simulator and for benchmarks,
 * they are a variable, which is set before the first multicast is made, and then stays as it is.
 *
 *   SEND      a pass sends all that is ready; else one message
 *   RECEIVE   a pass receives all that came; else one number of one sender, told by a push
 *   DELIVER   a pass delivers all that may be; else one message
 *   NULLS     silent senders give numbers away; else what is sent waits for them
 *   EARLY     who sends never waits for a pass; else it takes the lock, which a pass keeps until it
 *             has posted
 *
 * What is left without any of them is slow, and right as long as all senders send alike. */

#include <stdbool.h>

#include <loco/multicast.h>

enum loci_multicast_part {
    LOCI_MC_SEND = 1, LOCI_MC_RECEIVE = 2, LOCI_MC_DELIVER = 4, LOCI_MC_NULLS = 8,
    LOCI_MC_EARLY = 16, LOCI_MC_ALL = 31
};

#if defined LOCO_SIM && !defined LOCO_MULTICAST_PARTS
#define LOCO_MULTICAST_PARTS
#endif

#ifdef LOCO_MULTICAST_PARTS
extern unsigned loci_multicast_parts;
static inline bool loci_mc_has(enum loci_multicast_part part)
{
    return (loci_multicast_parts & part) != 0;
}
#else
static inline bool loci_mc_has(enum loci_multicast_part part)
{
    (void)part;
    return true;
}
#endif

/* What only tests and the simulator choose. */
struct loci_multicast_tuning {
    uint64_t first;         /* numbers begin with that: for more than 2^32 of them */
    int direct;             /* of so many members every one writes to all others; of more they
                               relay; 0: LOCI_MC_DIRECT */
    int images;             /* rows under way at a time; 0: LOCI_MC_IMAGES. The same at all */
    const struct loci_mc_of_view *view;     /* multicast_epoch.h; NULL: of none */
};

#define LOCI_MC_DIRECT 64

int loci_multicast_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, const loco_multicast_options_t *options,
                          const struct loci_multicast_tuning *tuning, loco_multicast_t **m);

#endif
