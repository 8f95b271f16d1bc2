/* SPDX-License-Identifier: BSD-3-Clause */

/* See multicast_trace.h. */

#include "config.h"

#include "multicast_trace.h"
#include "observe/trace.h"

static const char category[] = "multicast";

bool loci_mc_trace_deliver(const struct loco_multicast *m, int messages)
{
    const struct loci_trace_arg args[] = {
        { "multicast", 0, m->ep->name }, { "messages", messages, NULL },
    };

    return loci_mc_is_traced(m) && loci_trace_begin(m->rt, category, "deliver", args, 2);
}

void loci_mc_trace_delivered(const struct loco_multicast *m)
{
    loci_trace_end(m->rt, NULL, 0);
}

void loci_mc_trace_event(const struct loco_multicast *m, const char *what, const char *key,
                         int64_t value)
{
    const struct loci_trace_arg args[] = {
        { "multicast", 0, m->ep->name }, { key, value, NULL },
    };

    loci_trace_mark(m->rt, category, what, args, 2);
}
