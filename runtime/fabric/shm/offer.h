/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SHM_OFFER_H
#define LOCI_SHM_OFFER_H

#include "shm.h"

/* Small copies of the user's memory that a peer does if it happens to be waiting; offer.c. */

#define SHM_OFFERS_EXTENT UINT32_MAX    /* number of the page of slots among mappings */

/* The page that peers offer in; none where that is not wanted or not possible. */
void loci_shm_offers_open(struct shm_fabric *f, struct loci_address *mine);
void loci_shm_offers_close(struct shm_fabric *f);

/* Offer the run of reads or writes at the start of the chain. LOCO_OK: the peer has done the
 * first *done ops. LOCO_ERR_AGAIN: it has done nothing, do it yourself. LOCO_ERR_PEER_DEAD. */
int loci_shm_offer(struct shm_peer *p, const struct loci_op *ops, int n, int *done);

/* The same for one fetch-and-add or compare-and-swap of op->len bytes, under the caller's lock. */
int loci_shm_update(struct loci_fabric *fabric, struct loci_peer *peer, const struct loci_op *op);

/* Any thread that waits: do what peers have offered to this process. One load where that is
 * nothing. Returns whether there was something. */
int loci_shm_help(struct loci_fabric *fabric);

/* Slots of this process's page that are not free. */
unsigned loci_shm_offers_in_use(const struct shm_fabric *f);

/* Service thread: a peer has ended; what it had claimed is free. */
void loci_shm_offers_reclaim(struct shm_peer *p);

#endif
