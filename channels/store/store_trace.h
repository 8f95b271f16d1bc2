/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_TRACE_H
#define LOCI_STORE_TRACE_H

/* What LOCO_TRACE shows of stores: commits and scavenging, which take their time; conflicts, and
 * what is done to the transactions of others. Nothing but a look at a word where nobody traces. */

#include "store.h"

static inline bool loci_store_is_traced(const struct loco_store *s)
{
    return (loci_observed(s->rt) & LOCI_OBSERVE_TRACE) != 0;
}

/* A commit begins, of so many objects written and others read. Whether it has an end. */
bool loci_store_trace_commit(struct loco_store *s, int writes, int reads);
bool loci_store_trace_scavenge(struct loco_store *s);
void loci_store_trace_scavenged(struct loco_store *s, const loco_store_scavenged_t *found);
/* What has begun is over, with that status. */
void loci_store_trace_end(struct loco_store *s, int status);
/* Something about the transaction of `rank`; -1: about one of this process. */
void loci_store_trace_mark(struct loco_store *s, const char *what, int rank);

#endif
