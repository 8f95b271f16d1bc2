/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_LIVING_H
#define LOCI_LIVING_H

#include <stdbool.h>

struct loco_runtime;

/* What a program has made and is to destroy before it closes its runtime: channels, whose endpoint
 * has this (endpoint.h), and windows. What it forgets is destroyed by the close, which says so.
 *
 * In the order in which they were made. The first endpoint of a channel stands for it; those of its
 * parts are younger and go with it, so the oldest is always a channel that somebody outside
 * made. */
struct loci_living {
    struct loci_living *before, *after;
    const char *type, *name;            /* live as long as this */
    void (*destroy)(void *object);
    void *object;
};

/* Thread-safe. Nothing is done where `destroy` is NULL. */
void loci_living_add(struct loco_runtime *rt, struct loci_living *living);
void loci_living_remove(struct loco_runtime *rt, struct loci_living *living);
/* The runtime closes, and no other call is under way. */
void loci_living_end(struct loco_runtime *rt);

#endif
