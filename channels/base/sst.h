/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SST_H
#define LOCI_SST_H

#include <stdbool.h>

#include <loco/sst.h>

/* A table that is a channel of another type, so that the two do not take each other for their own.
 * `type` is a literal (endpoint.h); `rings`: members sleep for its rows, by LOCI_BELL_SST. The rest
 * is checked by the caller. */
int loci_sst_create(loco_runtime_t *rt, const char *type, const char *parent, const char *name,
                    const loco_group_t *group, int columns, int flags, bool rings,
                    loco_sst_t **sst);

/* Its full name. */
const char *loci_sst_name(const loco_sst_t *sst);
struct loci_calls *loci_sst_calls(const loco_sst_t *sst);

/* What loci_endpoint_is_of says of an endpoint. */
void loci_sst_is_of(loco_sst_t *sst, void (*destroy)(void *channel), void *channel);

/* Whether that rank's memory is known here, so that its row may be pushed there: for who does not
 * wait for the runtime to be ready. */
bool loci_sst_knows(const loco_sst_t *sst, int rank);

#endif
