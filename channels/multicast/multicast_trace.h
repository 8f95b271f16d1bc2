/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_MULTICAST_TRACE_H
#define LOCI_MULTICAST_TRACE_H

/* What LOCO_TRACE shows of multicasts: deliveries, which take as long as the handler does; what is
 * sent at a time; who held up a sender; the end. Nothing but a look at a word where nobody traces.
 */

#include "multicast.h"
#include "observe/observe.h"

static inline bool loci_mc_is_traced(const struct loco_multicast *m)
{
    return (loci_observed(m->rt) & LOCI_OBSERVE_TRACE) != 0;
}

/* The handler is given so many messages. Whether that has an end. */
bool loci_mc_trace_deliver(const struct loco_multicast *m, int messages);
void loci_mc_trace_delivered(const struct loco_multicast *m);

/* Something that takes no time, and a number that says what of it. */
void loci_mc_trace_event(const struct loco_multicast *m, const char *what, const char *key,
                         int64_t value);
static inline void loci_mc_trace_mark(const struct loco_multicast *m, const char *what,
                                      const char *key, int64_t value)
{
    if (loci_mc_is_traced(m))
        loci_mc_trace_event(m, what, key, value);
}

#endif
