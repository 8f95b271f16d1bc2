/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_LIFE_H
#define LOCI_STORE_LIFE_H

#include "store.h"

/* Map what can be mapped of a host. LOCO_ERR_SYSTEM: it must be, and cannot (the log says why). */
int loci_store_map(struct loco_store *s, int host);

/* Handles that a program has not closed: they go with the store. tx.c. */
void loci_tx_close_all(struct loco_store *s);

/* Of `more` another thread may count at the same time. */
void loci_store_stats_add(loco_store_stats_t *to, const loco_store_stats_t *more);

#endif
