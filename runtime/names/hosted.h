/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_HOSTED_H
#define LOCI_HOSTED_H

#include "endpoint.h"

/* Hosted endpoints: of a channel whose memory lies at hosts, and whose other members come and go
 * without being met. Example: a store in an agent, used by whatever workers there are today.
 *
 * The group has a rank for each host and for each place that a member may take. A rank whose
 * process is not known here has the peer LOCI_VACANT. A host does not know who uses it; a member
 * knows the hosts and itself.
 *
 * Nothing is sent: a host makes its endpoint by itself, and a member makes its own from the hosts'
 * keys, which it has read somewhere. It never waits for ready, and it is in no table of names, so
 * that names of hosted endpoints do not meet those of others. */

#define LOCI_VACANT (-1)

/* At a host: allocate its regions. `spec` as for loci_endpoint_create(); its group may have vacant
 * ranks, and its callbacks are not called. LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY. */
int loci_hosted_create(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                       enum loci_domain domain, struct loci_endpoint **ep);
/* The keys of the own regions: spec.nregions of them, of kind NONE where it gives none. */
void loci_hosted_keys(const struct loci_endpoint *ep, struct loci_memkey *keys);

/* At a member, which gives no regions. */
int loci_hosted_use(struct loco_runtime *rt, const struct loci_endpoint_spec *spec,
                    enum loci_domain domain, struct loci_endpoint **ep);
/* What host `rank` has told: once for each host, before the endpoint is used. LOCO_ERR_PROTOCOL:
 * they make no sense, or are too short for the regions. */
int loci_hosted_import(struct loci_endpoint *ep, int rank, const struct loci_memkey *keys);

/* At a host, by one thread, which also is the only one to read the group: who has that rank. */
void loci_hosted_set_member(struct loci_endpoint *ep, int rank, int peer);

/* For loci_endpoint_destroy(). */
void loci_hosted_destroy(struct loci_endpoint *ep);

#endif
