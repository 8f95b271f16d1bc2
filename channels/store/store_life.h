/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_STORE_LIFE_H
#define LOCI_STORE_LIFE_H

#include "store.h"

/* How the members of a store get to know each other's memory. */
enum loci_store_way {
    LOCI_STORE_MET,             /* each makes its endpoint, and they meet */
    LOCI_STORE_HOST, LOCI_STORE_USE     /* hosted (names/hosted.h): this is a host, or is not */
};

/* `options` with defaults put in, for a group of so many. LOCO_ERR_ARG; the log says why. */
int loci_store_complete(loco_runtime_t *rt, const char *name, int members,
                        const loco_store_options_t *options, loco_store_options_t *completed);
/* What a hosted store takes at its host. */
uint64_t loci_store_hosted_bytes(const loco_store_options_t *completed, int members);
/* The options are complete. `domain` is of a hosted store, whose group may have vacant ranks; a
 * user still imports the hosts' keys into its endpoint. */
int loci_store_make(loco_runtime_t *rt, enum loci_store_way way, const char *parent,
                    const char *name, const loco_group_t *group,
                    const loco_store_options_t *options, enum loci_domain domain,
                    loco_store_t **store);

/* store_hosted.c. At a host of a hosted store, in the thread that looks after it: the process of
 * that rank, which is this peer, has gone. What it was about is undone, and what it had is kept for
 * the next of its rank. LOCO_OK: the rank is vacant, and may be given to another. LOCO_ERR_AGAIN:
 * not yet, call again; then, or after an error, the rank stays as it is. *cleaned, nullable: it had
 * died in the middle of something. */
int loci_store_vacate(struct loco_store *s, int rank, int peer, bool *cleaned);
/* Before that, for all of whom it is known: the process of that rank has gone. Then they are
 * cleaned up after together. */
void loci_store_gone(struct loco_store *s, int rank, int peer);

/* The store may be withdrawn from under its user: before the first handle is opened. `ask`,
 * nullable: see store.h; `until` is set by whoever knows. */
void loci_store_may_end(struct loco_store *s, int (*ask)(void *ctx), void *ctx);
/* It is: calls on it return LOCO_ERR_STATE from now on, and when this returns LOCO_OK, nothing of
 * this process reaches its memory at that host any more, nor is under way there. Any thread that is
 * in no call of this store, and one at a time. */
int loci_store_withdraw(struct loco_store *s);

/* Map what can be mapped of a host. LOCO_ERR_SYSTEM: it must be, and cannot (the log says why). */
int loci_store_map(struct loco_store *s, int host);

/* Handles that a program has not closed: they go with the store. tx.c. */
void loci_tx_close_all(struct loco_store *s);

/* Of `more` another thread may count at the same time. */
void loci_store_stats_add(loco_store_stats_t *to, const loco_store_stats_t *more);

#endif
