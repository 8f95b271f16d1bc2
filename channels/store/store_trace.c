/* SPDX-License-Identifier: BSD-3-Clause */

/* See store_trace.h. */

#include "config.h"

#include "store_trace.h"

static const char category[] = "store";

#define N(args) (int)(sizeof(args) / sizeof(args)[0])

bool loci_store_trace_commit(struct loco_store *s, int writes, int reads)
{
    const struct loci_trace_arg args[] = {
        { "store", 0, s->ep->name }, { "writes", writes, NULL }, { "reads", reads, NULL },
    };

    return loci_store_is_traced(s) && loci_trace_begin(s->rt, category, "commit", args, N(args));
}

bool loci_store_trace_scavenge(struct loco_store *s)
{
    const struct loci_trace_arg arg = { "store", 0, s->ep->name };

    return loci_store_is_traced(s) && loci_trace_begin(s->rt, category, "scavenge", &arg, 1);
}

void loci_store_trace_scavenged(struct loco_store *s, const loco_store_scavenged_t *found)
{
    const struct loci_trace_arg args[] = {
        { "undone", (int64_t)found->undone, NULL }, { "blocks", (int64_t)found->blocks, NULL },
        { "bytes", (int64_t)found->bytes, NULL }, { "cells", (int64_t)found->cells, NULL },
        { "left", (int64_t)found->left, NULL },
    };

    loci_trace_end(s->rt, args, N(args));
}

void loci_store_trace_end(struct loco_store *s, int status)
{
    const struct loci_trace_arg arg = { "status", 0, loco_strerror(status) };

    loci_trace_end(s->rt, &arg, status != LOCO_OK);
}

void loci_store_trace_mark(struct loco_store *s, const char *what, int rank)
{
    const struct loci_trace_arg args[] = { { "store", 0, s->ep->name }, { "rank", rank, NULL } };

    if (loci_store_is_traced(s))
        loci_trace_mark(s->rt, category, what, args, rank >= 0 ? 2 : 1);
}
