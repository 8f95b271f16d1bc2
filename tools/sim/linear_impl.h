/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_LINEAR_IMPL_H
#define SIM_LINEAR_IMPL_H

/* Between linear.c, which cuts a history into objects and prefixes, and the methods that judge one
 * object's operations. These are in the order of their calls. */

#include "linear.h"

struct loci_witness {
    const char *why;
    uint64_t floor;             /* no shorter prefix than to this stamp is wrong; 0: not known */
    int nops;
    int ops[LINEAR_REPORT_OPS]; /* among those that were judged */
};

static inline void loci_witness_add(struct loci_witness *w, size_t op)
{
    for (int i = 0; i < w->nops; i++)
        if (w->ops[i] == (int)op)
            return;
    if (w->nops < LINEAR_REPORT_OPS)
        w->ops[w->nops++] = (int)op;
}

static inline int loci_contradiction(struct loci_witness *w, const char *why)
{
    w->why = why;
    w->nops = 0;
    return LINEAR_NOT;
}

/* *left: the budget of states, which is used up. */
int loci_linear_search(const struct loci_linear_spec *spec, const struct loci_op *ops, size_t nops,
                       uint64_t *left, struct loci_witness *w);

/* LINEAR_GAVE_UP here: not a history for this method. */
int loci_linear_queue(const struct loci_op *ops, size_t nops, struct loci_witness *w);
int loci_linear_register(const struct loci_op *ops, size_t nops, struct loci_witness *w);

/* Zeroed, never NULL. */
void *loci_linear_alloc(size_t n, size_t size);

#endif
